"""What the ledger says against what the engine sees. The tables are the specification, and every cell is tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairpool.cluster.failures import with_failures
from fairpool.cluster.settle import CONFIG_TRIES, LONGEST_RETRY_S, Evidence, settle
from fairpool.model.ids import SECOND_MS
from fairpool.model.observation import ObservedNode, ObservedPod, OrderResult, OrderStatus, PodState
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from tests.pod_records import (
    BOUND,
    ENDED,
    PROMISED,
    RELEASING,
    RUNNING,
    WAITING,
    answer,
    at,
    cells,
    observed_node,
    observed_pod,
    record,
    spec,
    state,
)

NOW = at(60)

THE_TABLE = """
| ledger               | starting | running | exited     | nothing        | silent | gone               |
|----------------------|----------|---------|------------|----------------|--------|--------------------|
| WAITING              | –        | –       | –          | –              | –      | –                  |
| PROMISED             | –        | –       | –          | –              | –      | –                  |
| BOUND                | –        | RUNNING | ok, exited | –              | –      | lost, node-lost    |
| RUNNING              | –        | –       | ok, exited | RELEASING      | –      | lost, node-lost    |
| RELEASING, suspended | –        | –       | ok, exited | –              | –      | stopped, suspended |
| RELEASING, preempted | –        | –       | ok, exited | –              | –      | evicted, preempted |
| ENDED                | –        | –       | –          | –              | –      | –                  |
"""
"""In a cell: nothing happens, another phase, or the end of this pod with its outcome and cause."""

HOW_IT_EXITED = """
| ledger               | exited with 1      | exited, how is unknown   | exited after notice |
|----------------------|--------------------|---------------------|---------------------|
| BOUND                | error, exited      | error, exited       | lost, node-lost     |
| RUNNING              | error, exited      | error, exited       | lost, node-lost     |
| RELEASING, suspended | stopped, suspended | stopped, suspended  | stopped, suspended  |
| RELEASING, preempted | evicted, preempted | evicted, preempted  | evicted, preempted  |
| RELEASING, deleted   | stopped, deleted   | stopped, deleted    | stopped, deleted    |
| RELEASING, peer      | evicted, peer      | evicted, peer       | evicted, peer       |
| ENDED                | –                  | –                   | –                   |
"""
"""A failure on the way out counts as leaving: one pod of a gang drags the others down, and that is one failure.
A pod that was stopped without a stop in the ledger was fenced: its node had lost contact."""

WHAT_BECAME_OF_THE_NODE = """
| ledger               | rebooted           | removed   | removed, stop confirmed | running, silent | exited, gone |
|----------------------|--------------------|-----------|-------------------------|-----------------|--------------|
| WAITING              | –                  | –         | –                       | –               | –            |
| PROMISED             | –                  | –         | –                       | –               | –            |
| BOUND                | lost, node-lost    | RELEASING | RELEASING               | RUNNING         | ok, exited   |
| RUNNING              | lost, node-lost    | RELEASING | RELEASING               | –               | ok, exited   |
| RELEASING, suspended | stopped, suspended | –         | stopped, suspended      | –               | ok, exited   |
| RELEASING, preempted | evicted, preempted | –         | evicted, preempted      | –               | ok, exited   |
| RELEASING, node-lost | lost, node-lost    | –         | lost, node-lost         | –               | ok, exited   |
| ENDED                | –                  | –         | –                       | –               | –            |
"""
"""A node that is not offered any more does not end what ran there: only a confirmed stop does."""

WHAT_IS_SEEN_IS_THERE = """
| ledger               | starting, removed | running, removed | running, rebooted | running, gone | exited, removed |
|----------------------|-------------------|------------------|-------------------|---------------|-----------------|
| BOUND                | RELEASING         | RELEASING        | RELEASING         | RELEASING     | ok, exited      |
| RUNNING              | RELEASING         | RELEASING        | RELEASING         | RELEASING     | ok, exited      |
| RELEASING, suspended | –                 | –                | –                 | –             | ok, exited      |
| RELEASING, vanished  | –                 | –                | –                 | –             | ok, exited      |
| ENDED                | –                 | –                | –                 | –             | –               |
"""
"""Whatever is said of its node."""

WHAT_THE_ENGINE_ANSWERED = """
| ledger               | done | later      | unknown    | refused        | stop confirmed     |
|----------------------|------|------------|------------|----------------|--------------------|
| WAITING              | –    | –          | –          | –              | –                  |
| PROMISED             | –    | –          | –          | –              | –                  |
| BOUND                | –    | asks again | asks again | error, refused | –                  |
| RELEASING, suspended | –    | –          | –          | –              | stopped, suspended |
| RELEASING, preempted | –    | –          | –          | –              | evicted, preempted |
| RELEASING, vanished  | –    | –          | –          | –              | lost, vanished     |
| ENDED                | –    | –          | –          | –              | –                  |
"""
"""And sees nothing of the pod."""

ANSWERS_GIVE_WAY_TO_SIGHTS = """
| ledger    | starting, later | starting, refused | running, stop confirmed | silent, refused | silent, stop confirmed |
|-----------|-----------------|-------------------|-------------------------|-----------------|------------------------|
| BOUND     | –               | –                 | RUNNING                 | –               | –                      |
| RUNNING   | –               | –                 | –                       | –               | –                      |
| RELEASING | –               | –                 | –                       | –               | –                      |
"""

ALL = [
    THE_TABLE,
    HOW_IT_EXITED,
    WHAT_BECAME_OF_THE_NODE,
    WHAT_IS_SEEN_IS_THERE,
    WHAT_THE_ENGINE_ANSWERED,
    ANSWERS_GIVE_WAY_TO_SIGHTS,
]


@pytest.mark.parametrize(
    ("ledger", "engine", "then"),
    [
        pytest.param(*cell, id=f"{cell[0]}; the engine says {cell[1]}; {cell[2]}")
        for table in ALL
        for cell in cells(table)
    ],
)
def test_the_table(ledger: str, engine: str, then: str) -> None:
    before = in_the_ledger(ledger)
    assert in_words(before, settle(before, said(engine, before), NOW)) == then


def in_the_ledger(row: str) -> PodRecord:
    phase, _, cause = row.partition(", ")
    match phase:
        case "WAITING":
            return record("a-0-0", WAITING)
        case "PROMISED":
            return record("a-0-0", PROMISED, on="n1")
        case "BOUND":
            return record("a-0-0", BOUND, on="n1")
        case "RUNNING":
            return record("a-0-0", RUNNING, on="n1", started_at=at(10))
        case "RELEASING":
            return record(
                "a-0-0", RELEASING, on="n1", started_at=at(10), cause=Cause(cause or Cause.SUSPENDED), detail="for b"
            )
    return record("a-0-0", ENDED, on="n1", cause=Cause.EXITED)


def said(engine: str, of: PodRecord) -> Evidence:
    """All that the words of a column mean."""
    return Evidence(sight_of_pod(engine, of), sight_of_node(engine), reply(engine), "stop confirmed" in engine)


def sight_of_pod(engine: str, of: PodRecord) -> ObservedPod | None:
    match engine.partition(",")[0].split():
        case ["starting"]:
            return observed_pod(of, PodState.STARTING)
        case ["running"]:
            return observed_pod(of, PodState.RUNNING, running_since=at(50))
        case ["exited", "with", code]:
            return observed_pod(of, PodState.EXITED, exit_code=int(code))
        case ["exited", "after", "notice"]:
            return observed_pod(of, PodState.EXITED, exit_code=143, after_notice=True)
        case ["exited"]:
            return observed_pod(of, PodState.EXITED, exit_code=None if "unknown" in engine else 0)
    return None


def sight_of_node(engine: str) -> ObservedNode | None:
    if "removed" in engine:
        return None
    if "rebooted" in engine:
        return observed_node("n1", boot_id="n1, second boot")
    return observed_node("n1", gone="gone" in engine, silent_since=at(30) if "silent" in engine else None)


def reply(engine: str) -> OrderResult | None:
    word = engine.split(", ")[-1]
    return answer(OrderStatus(word), "the disk is full") if word in list(OrderStatus) else None


def in_words(before: PodRecord, after: PodRecord) -> str:
    """What happened, as a cell says it."""
    if after is before:
        return "–"
    if after.phase is before.phase:
        assert after.attempts == before.attempts + 1
        return "asks again"
    assert after.since == NOW
    return f"{after.outcome}, {after.cause}" if after.is_over else after.phase.upper()


# --- what is written down beside the phase -------------------------------------------------------------------------


def test_it_runs_since_the_engine_saw_it_run() -> None:
    bound = record("a-0-0", BOUND, on="n1", start_failure="ErrImagePull: no such image")
    after = settle(bound, Evidence(observed_pod(bound, PodState.RUNNING, running_since=at(50)), observed_node()), NOW)
    assert (after.started_at, after.start_failure) == (at(50), "")


def test_it_runs_since_now_if_the_engine_does_not_say() -> None:
    bound = record("a-0-0", BOUND, on="n1")
    assert settle(bound, Evidence(observed_pod(bound, PodState.RUNNING), observed_node()), NOW).started_at == NOW


def test_a_pod_that_exited_before_it_was_observed_running_has_run() -> None:
    bound = record("a-0-0", BOUND, on="n1")
    exited = observed_pod(bound, PodState.EXITED, exit_code=0, running_since=at(50))
    assert settle(bound, Evidence(exited, observed_node()), NOW).started_at == at(50)


@pytest.mark.parametrize(
    ("engine", "detail", "exit_code"),
    [
        pytest.param({"exit_code": 3}, "exit code 3", 3, id="the exit code, if the engine says no more"),
        pytest.param({"exit_code": 137, "message": "out of memory"}, "out of memory", 137, id="what the engine says"),
        pytest.param({}, "exit code unknown", None, id="that the exit code is unknown"),
    ],
)
def test_a_failure_keeps_the_words_of_the_engine(engine: dict[str, object], detail: str, exit_code: int | None) -> None:
    running = record("a-0-0", RUNNING, on="n1")
    after = settle(running, Evidence(observed_pod(running, PodState.EXITED, **engine), observed_node()), NOW)
    assert (after.detail, after.exit_code) == (detail, exit_code)


def test_a_stopped_pod_keeps_the_cause_of_its_stop() -> None:
    leaving = record("a-0-0", RELEASING, on="n1", cause=Cause.PREEMPTED, detail="for b")
    exited = observed_pod(leaving, PodState.EXITED, exit_code=143, after_notice=True, message="terminated")
    after = settle(leaving, Evidence(exited, observed_node()), NOW)
    assert (after.cause, after.detail, after.exit_code) == (Cause.PREEMPTED, "for b", 143)


def test_a_start_failure_is_written_down_once() -> None:
    bound = record("a-0-0", BOUND, on="n1")
    evidence = Evidence(observed_pod(bound, PodState.STARTING, message="the disk is full"), observed_node())
    delayed = settle(bound, evidence, NOW)
    assert (delayed.phase, delayed.start_failure) == (BOUND, "the disk is full")
    assert settle(delayed, evidence, NOW) is delayed


@pytest.mark.parametrize("words", ["ErrImagePull: no such image", "ImagePullBackOff"])
def test_a_pod_whose_image_cannot_be_pulled_gives_its_devices_back(words: str) -> None:
    bound = record("a-0-0", BOUND, on="n1")
    evidence = Evidence(observed_pod(bound, PodState.STARTING, message=words), observed_node())
    leaving = settle(bound, evidence, NOW)
    assert (leaving.phase, leaving.cause, leaving.detail) == (RELEASING, Cause.IMAGE, words)
    assert settle(leaving, evidence, NOW) is leaving, "it holds its devices until the engine has confirmed the stop"
    after = settle(leaving, Evidence(None, observed_node(), stop_confirmed=True), NOW)
    assert (after.outcome, after.cause, after.detail) == (Outcome.ERROR, Cause.IMAGE, words)


def test_a_start_failure_is_forgotten_when_it_is_over() -> None:
    delayed = record("a-0-0", BOUND, on="n1", start_failure="ErrImagePull: no such image")
    after = settle(delayed, Evidence(observed_pod(delayed, PodState.STARTING), observed_node()), NOW)
    assert after.start_failure == ""


def test_a_start_that_is_put_off_is_asked_for_again_after_1_2_4_8_16_and_then_always_30_seconds() -> None:
    bound, waits = record("a-0-0", BOUND, on="n1"), []
    for _ in range(12):
        bound = settle(bound, Evidence(None, observed_node(), answer(OrderStatus.LATER, "the disk is full")), NOW)
        waits.append((bound.retry_at - NOW) // SECOND_MS)
    assert waits == [1, 2, 4, 8, 16, *([LONGEST_RETRY_S] * 7)]
    assert bound.start_failure == "the disk is full"


def test_a_pod_that_lacks_a_credential_gives_its_devices_back_after_some_tries() -> None:
    words = "CreateContainerConfigError: there is no credential tokens: create it"
    later = Evidence(None, observed_node(), answer(OrderStatus.LATER, words))
    pod, phases = record("a-0-0", BOUND, on="n1"), []
    for _ in range(CONFIG_TRIES + 1):
        pod = settle(pod, later, NOW)
        phases.append(pod.phase)
    assert phases == [*([BOUND] * CONFIG_TRIES), RELEASING]
    assert (pod.cause, pod.detail) == (Cause.REFUSED, words)
    after = settle(pod, Evidence(None, observed_node(), stop_confirmed=True), NOW)
    assert (after.outcome, after.cause, after.detail) == (Outcome.ERROR, Cause.REFUSED, words)
    stopping = with_failures(state(), spec(), [after], NOW)
    assert (stopping.refusals, stopping.failures, stopping.avoided) == (1, 0, ()), "no node is to blame"


def test_no_answer_at_all_is_a_start_failure_too() -> None:
    after = settle(record("a-0-0", BOUND, on="n1"), Evidence(None, observed_node(), answer(OrderStatus.UNKNOWN)), NOW)
    assert after.start_failure == "the engine did not answer"


def test_a_refusal_says_who_refused_and_why() -> None:
    after = settle(
        record("a-0-0", BOUND, on="n1"), Evidence(None, observed_node(), answer(OrderStatus.REFUSED, "no GPU 7")), NOW
    )
    assert after.detail == "node n1 could not start it: no GPU 7"


@pytest.mark.parametrize(
    "changes", [{"gpus": 0}, {"gpus_withheld": (0,)}], ids=["the GPU is gone", "another process uses it"]
)
def test_a_start_that_is_owed_on_a_gpu_that_is_not_offered_any_more_is_called_off(changes: dict[str, Any]) -> None:
    observed = observed_node()
    poorer = replace(observed, node=replace(observed.node, **changes))
    after = settle(record("a-0-0", BOUND, on="n1"), Evidence(node=poorer), NOW)
    assert (after.phase, after.cause) == (RELEASING, Cause.NODE_LOST)
    assert after.detail == "node n1 no longer has GPU 0 available"
    running = record("a-0-0", RUNNING, on="n1")
    assert settle(running, Evidence(observed_pod(running, PodState.RUNNING), poorer), NOW) is running


@pytest.mark.parametrize("engine", ["stop confirmed", "gone", "exited after notice"])
def test_one_that_leaves_for_no_known_reason_still_ends(engine: str) -> None:
    leaving = record("a-0-0", RELEASING, on="n1")
    after = settle(leaving, said(engine, leaving), NOW)
    assert after.is_over
    assert after.cause is not None


def test_settling_twice_is_settling_once() -> None:
    running = replace(record("a-0-0", RUNNING, on="n1"), started_at=at(10))
    gone = Evidence(node=observed_node("n1", gone=True))
    once = settle(running, gone, NOW)
    assert settle(once, gone, at(90)) is once


def test_one_that_vanished_is_stopped_first_and_says_why() -> None:
    running = record("a-0-0", RUNNING, on="n1", started_at=at(10))
    after = settle(running, Evidence(node=observed_node()), NOW)
    assert (after.phase, after.cause, after.detail) == (
        RELEASING,
        Cause.VANISHED,
        "its process disappeared",
    )


def test_one_that_was_taken_for_vanished_and_had_done_its_work_has_done_its_work() -> None:
    looked_for = record("a-0-0", RELEASING, on="n1", started_at=at(10), cause=Cause.VANISHED)
    found = observed_pod(looked_for, PodState.EXITED, exit_code=0)
    assert settle(looked_for, Evidence(found, observed_node()), NOW).outcome is Outcome.OK


def test_one_whose_node_was_removed_before_it_was_seen_running_keeps_when_it_began() -> None:
    bound = record("a-0-0", BOUND, on="n1")
    after = settle(bound, Evidence(observed_pod(bound, PodState.RUNNING, running_since=at(50))), NOW)
    assert (after.cause, after.detail, after.started_at) == (Cause.NODE_LOST, "node n1 was removed", at(50))
