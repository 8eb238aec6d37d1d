"""The classic words for where a workload stands: every phase, every reason that has a word of its own, every kind."""

from __future__ import annotations

from itertools import product

import pytest

from fairpool.model.pod_record import Cause
from fairpool.model.status import CLASSIC, Reason, WaitReason, WorkloadPhase, classic_word
from fairpool.model.workload import WorkloadKind
from tests.pod_records import cells, run_steps

WORDS = """
| phase and reason               | build              | train              | inference          |
|--------------------------------|--------------------|--------------------|--------------------|
| Creating                       | Pending            | Pending            | Pending            |
| Pending                        | Pending            | Pending            | Pending            |
| Pending, queued                | Pending            | Pending            | Pending            |
| Pending, back-off              | CrashLoopBackOff   | Error              | CrashLoopBackOff   |
| Pending, image                 | ImagePullBackOff   | ImagePullBackOff   | ImagePullBackOff   |
| Pending, evicted               | Terminating        | Terminating        | Terminating        |
| Initializing, starting         | ContainerCreating  | ContainerCreating  | ContainerCreating  |
| Initializing, image            | ImagePullBackOff   | ImagePullBackOff   | ImagePullBackOff   |
| Running                        | Running            | Running            | Running            |
| Running, stopping              | Terminating        | Terminating        | Terminating        |
| Degraded, node-silent          | Running            | Running            | Running            |
| Degraded, short                | Running            | Running            | Running            |
| Stopped, suspended             | Suspended          | Suspended          | Suspended          |
| Stopped, preempted             | Preempted          | Preempted          | Preempted          |
| Stopped, time-limit            | TimedOut           | TimedOut           | TimedOut           |
| Stopped, node-lost             | Suspended          | Suspended          | Suspended          |
| Stopped, node-drained          | Suspended          | Suspended          | Suspended          |
| Deleting, deleted              | Terminating        | Terminating        | Terminating        |
| Failed, exited                 | Failed             | Failed             | Failed             |
| Failed, retries-used-up        | Failed             | Failed             | Failed             |
| Failed, deadline               | Failed             | Failed             | Failed             |
| Failed, image-pull             | ContainerCannotRun | ContainerCannotRun | ContainerCannotRun |
| Failed, refused                | ContainerCannotRun | ContainerCannotRun | ContainerCannotRun |
| Completed, finished            | Succeeded          | Succeeded          | Succeeded          |
"""

IN_USE = "Pending, ContainerCreating, Running, Terminating, Error, CrashLoopBackOff, ImagePullBackOff"
AT_THE_END = "Succeeded, Failed, ContainerCannotRun, Suspended, TimedOut, Preempted"
KNOWN = frozenset({*IN_USE.split(", "), *AT_THE_END.split(", ")})


@pytest.mark.parametrize(
    ("status", "kind", "word"),
    [pytest.param(*cell, id=f"{cell[0]} of a {cell[1]} workload is {cell[2]}") for cell in cells(WORDS)],
)
def test_the_word_for_it(status: str, kind: str, word: str) -> None:
    phase, _, reason = status.partition(", ")
    assert classic_word(WorkloadPhase(phase), reason_named(reason), WorkloadKind(kind)) == word


def reason_named(word: str) -> Reason:
    if not word:
        return None
    return WaitReason(word) if word in list(WaitReason) else Cause(word)


def test_whatever_the_reason_there_is_one_of_the_words_that_people_know() -> None:
    reasons: list[Reason] = [None, *Cause, *WaitReason]
    for phase, reason, kind in product(WorkloadPhase, reasons, WorkloadKind):
        assert classic_word(phase, reason, kind) in KNOWN, (phase, reason, kind)


def test_no_row_of_the_table_hides_a_later_one() -> None:
    for place, (phase, reason, kind, _) in enumerate(CLASSIC):
        earlier = [row for row in CLASSIC[:place] if row[0] is phase]
        assert not any(row[1] in (None, reason) and row[2] in (None, kind) for row in earlier), (phase, reason, kind)


# --- as a person sees it -------------------------------------------------------------------------------------------


STEPS = [
    pytest.param(
        """
        train a
        then reads Pending
        a-0-0 is bound to n1
        then reads ContainerCreating
        a-0-0 is seen running
        then reads Running
        a-0-0 exits 0
        then reads Succeeded
        """,
        id="training waits, is created, runs and succeeds",
    ),
    pytest.param(
        """
        train a
        a-0-0 runs on n1
        a-0-0 is preempted
        then reads Terminating
        a-0-0 leaves
        then reads Pending
        """,
        id="preempted training terminates and is pending again",
    ),
    pytest.param(
        """
        train a: retries 1
        a-0-0 runs on n1
        a-0-0 exits 1
        then reads Error
        after 10s
        then reads Pending
        a-0-1 runs on n1
        a-0-1 exits 1
        then reads Failed
        """,
        id="training fails when its retries are used up",
    ),
    pytest.param(
        """
        build a
        a-0-0 runs on n1
        a-0-0 exits 0
        then reads Succeeded
        """,
        id="interactive work that ends well succeeds",
    ),
    pytest.param(
        """
        build a
        a-0-0 runs on n1
        a-0-0 exits 1
        then reads Failed
        """,
        id="interactive work that ends badly fails at once",
    ),
    pytest.param(
        """
        build a: retries 2
        a-0-0 runs on n1
        a-0-0 exits 1
        then reads CrashLoopBackOff
        """,
        id="interactive work with a back-off limit crash-loops",
    ),
    pytest.param(
        """
        build a: preemptible
        a-0-0 runs on n1
        a-0-0 is preempted
        then reads Terminating
        a-0-0 leaves
        then reads Preempted
        resume
        then reads Pending
        """,
        id="preemptible interactive work is preempted and can be resumed",
    ),
    pytest.param(
        """
        build a: interactive limit 60s
        a-0-0 runs on n1
        after 59s
        then reads Running
        after 1s
        then reads Terminating
        a-0-0 leaves
        then reads TimedOut
        """,
        id="interactive work times out",
    ),
    pytest.param(
        """
        train a
        a-0-0 runs on n1
        suspend
        then reads Terminating
        a-0-0 leaves
        then reads Suspended
        resume
        then reads Pending
        """,
        id="a suspended workload terminates, is suspended, and pending when it is resumed",
    ),
    pytest.param(
        """
        train a
        a-0-0 runs on n1
        delete
        then reads Terminating
        """,
        id="a workload that is being deleted terminates",
    ),
]


@pytest.mark.parametrize("steps", STEPS)
def test_the_words_in_the_course_of_a_pod(steps: str) -> None:
    run_steps(steps)
