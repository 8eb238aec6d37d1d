"""Which pods should exist: the stories of workloads of every kind, from their declaration to their end.

The language of a story is in `tests/pod_records.py`. After each line there are two cycles: the second must
change nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairpool.cluster.dependencies import WorkloadOutcome, outcome_of
from fairpool.cluster.expand import ExpandInput, expand
from fairpool.cluster.failures import FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S
from fairpool.cluster.workload_state import Halt, WorkloadState
from fairpool.model.ids import SECOND_MS, Instant, NodeName
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import Cause, PodRecord
from fairpool.model.spec import DesiredState, PodTemplate, WorkloadSpec
from fairpool.model.status import WorkloadPhase
from fairpool.model.workload import GpuRequest, PodShape
from tests.pod_records import StepRunner, at, record, run_steps, state
from tests.pod_records import spec as spec_of

SPEC = spec_of(name="b")


def step_cases(**reported: str) -> pytest.MarkDecorator:
    """Each with the sentence that it shows."""
    return pytest.mark.parametrize("steps", [pytest.param(text, id=name) for name, text in reported.items()])


# --- one pod -------------------------------------------------------------------------------------------------------

ONE_POD = {
    "training that exits with 0 is completed": """
        train a
        then a-0-0 waits
        then wakes never
        a-0-0 runs on n1
        then goes on
        a-0-0 exits 0
        then Completed: finished
        then alive:
        then kept
    """,
    "training that fails is tried six times more, twice as long apart each time": """
        train a
        a-0-0 runs on n1
        a-0-0 exits 1
        then a-0-1 waits 10s
        then wakes in 10s
        then 1 failure
        after 10s
        a-0-1 runs on n1
        a-0-1 exits 1
        then a-0-2 waits 20s
        after 20s
        a-0-2 runs on n1
        a-0-2 exits 1
        then a-0-3 waits 40s
        after 40s
        a-0-3 runs on n1
        a-0-3 exits 1
        then a-0-4 waits 80s
        after 80s
        a-0-4 runs on n1
        a-0-4 exits 1
        then a-0-5 waits 160s
        after 160s
        a-0-5 runs on n1
        a-0-5 exits 1
        then a-0-6 waits 300s
        then 6 failures
        then goes on
        after 300s
        a-0-6 runs on n1
        a-0-6 exits 1
        then Failed: retries-used-up
        then alive:
    """,
    "a failure after a long run waits the shortest time, and counts all the same": """
        train a
        a-0-0 runs on n1
        a-0-0 exits 1
        after 10s
        a-0-1 runs on n1
        a-0-1 exits 1
        then a-0-2 waits 20s
        after 20s
        a-0-2 runs on n1
        after 600s
        a-0-2 exits 1
        then a-0-3 waits 10s
        then 3 failures
    """,
    "a run a second shorter than that is not long": """
        train a
        a-0-0 runs on n1
        a-0-0 exits 1
        after 10s
        a-0-1 runs on n1
        after 599s
        a-0-1 exits 1
        then a-0-2 waits 20s
    """,
    "training without retries fails with its first failure": """
        train a: retries 0
        a-0-0 runs on n1
        a-0-0 exits 1
        then Failed: exited
        then alive:
    """,
    "training that is never restarted fails with its first failure, whatever its retries": """
        train a: restart never, retries 3
        a-0-0 runs on n1
        a-0-0 exits 1
        then Failed: exited
        then alive:
    """,
    "training that is always restarted comes back after its good end too": """
        train a: restart always
        a-0-0 runs on n1
        a-0-0 exits 0
        then a-0-1 waits 10s
        then goes on
        then 0 failures
    """,
    "training that is preempted comes back at once, and that is no failure": """
        train a
        a-0-0 runs on n1
        a-0-0 is preempted
        then alive: a-0-0
        a-0-0 leaves
        then a-0-0 ended: evicted preempted
        then a-0-1 waits
        then 0 failures
        then goes on
    """,
    "training that was done before it heard that it must leave is completed": """
        train a
        a-0-0 runs on n1
        a-0-0 is preempted
        a-0-0 exits 0
        then Completed: finished
    """,
    "training whose process vanished comes back after a while, and that is no failure": """
        train a
        a-0-0 runs on n1
        a-0-0 vanishes
        then a-0-0 ended: lost vanished
        then a-0-1 waits 10s
        then 0 failures
    """,
    "interactive work that exits with 0 is completed": """
        build a
        a-0-0 runs on n1
        a-0-0 exits 0
        then Completed: finished
    """,
    "interactive work that exits with 1 has failed, without retry": """
        build a
        a-0-0 runs on n1
        a-0-0 exits 1
        then Failed: exited
        then alive:
    """,
    "interactive work with a back-off limit is retried near the node where it was": """
        build a: retries 1
        a-0-0 runs on n1
        a-0-0 exits 1
        then a-0-1 waits 10s
        then a-0-1 waits near n1
        after 10s
        a-0-1 runs on n1
        a-0-1 exits 1
        then Failed: retries-used-up
    """,
    "preemptible interactive work that is evicted stops and waits for a person": """
        build a: preemptible
        a-0-0 runs on n1
        a-0-0 is preempted
        then goes on
        a-0-0 leaves
        then Stopped: preempted
        then alive:
        resume
        then goes on
        then a-0-1 waits near n1
        then a-0-1 is of run 1
    """,
    "the same holds with a back-off limit": """
        build a: preemptible, retries 3
        a-0-0 runs on n1
        a-0-0 is preempted
        a-0-0 leaves
        then Stopped: preempted
    """,
    "for interactive work a broken gang is a preemption as well": """
        build a: preemptible
        a-0-0 runs on n1
        a-0-0 is stale
        a-0-0 leaves
        then Stopped: preempted
    """,
    "an inference server comes back whatever happens to it, without end": """
        inference a: 1 replica
        a-0-0 runs on n1
        a-0-0 exits 0
        then a-0-1 waits 10s
        after 10s
        a-0-1 runs on n1
        a-0-1 exits 1
        then a-0-2 waits 10s
        after 10s
        a-0-2 runs on n1
        a-0-2 exits 1
        then a-0-3 waits 20s
        then goes on
        a-0-3 is preempted
        then a-0-4 waits
        then goes on
    """,
}


@step_cases(**ONE_POD)
def test_one_pod(steps: str) -> None:
    run_steps(steps)


def test_the_back_off_doubles_up_to_a_cap_and_stays_there() -> None:
    steps = run_steps("inference a: 1 replica")
    waits = []
    for incarnation in range(12):
        steps.line(f"a-0-{incarnation} runs on n1")
        steps.line(f"a-0-{incarnation} exits 1")
        waits.append((steps.pods[-1].not_before - steps.now) // 1000)
        steps.line(f"after {waits[-1]}s")
    assert waits == [FIRST_BACK_OFF_S, 20, 40, 80, 160, *([LONGEST_BACK_OFF_S] * 7)]


def test_a_back_off_that_a_clock_set_back_has_ended_does_not_begin_anew() -> None:
    steps = run_steps("train a")
    steps.line("a-0-0 runs on n1")
    steps.line("a-0-0 exits 1")
    steps.now = Instant(steps.now - 2 * 3600 * SECOND_MS)
    steps.line("after 0s")
    assert steps.pods[-1].not_before == 0
    steps.line("then wakes never")


# --- time ----------------------------------------------------------------------------------------------------------

TIME = {
    "interactive work ends by itself when its project's limit has passed": """
        build a: interactive limit 60s
        then wakes never
        after 500s
        a-0-0 runs on n1
        then wakes in 60s
        after 59s
        then goes on
        then wakes in 1s
        after 1s
        then Stopped: time-limit
        then a-0-0 is leaving: time-limit
        a-0-0 leaves
        then a-0-0 ended: stopped time-limit
        then alive:
        then wakes never
    """,
    "the limit is for interactive work alone": """
        train a: interactive limit 60s
        a-0-0 runs on n1
        after 3600s
        then a-0-0 runs
        then wakes never
    """,
    "training has a limit of its own": """
        train a: training limit 60s
        a-0-0 runs on n1
        then wakes in 60s
        after 60s
        then Stopped: time-limit
        then a-0-0 is leaving: time-limit
    """,
    "which is for training alone": """
        build a: training limit 60s
        a-0-0 runs on n1
        after 3600s
        then a-0-0 runs
        then wakes never
    """,
    "the limit holds for work that was suspended and resumed while it waited": """
        build a: interactive limit 60s
        resume
        a-0-0 runs on n1
        after 60s
        then Stopped: time-limit
    """,
    "and for work that ran on meanwhile": """
        build a: interactive limit 60s
        a-0-0 runs on n1
        resume
        after 60s
        then Stopped: time-limit
    """,
    "also if the pod that ran on is a replacement": """
        build a: interactive limit 60s, retries 5
        a-0-0 runs on n1
        after 30s
        a-0-0 exits 1
        after 10s
        a-0-1 runs on n1
        resume
        after 20s
        then Stopped: time-limit
    """,
    "without a limit interactive work runs until a user stops it": """
        build a
        a-0-0 runs on n1
        after 1000000s
        then a-0-0 runs
        then goes on
    """,
    "the limit begins anew when the work is resumed": """
        build a: interactive limit 60s
        a-0-0 runs on n1
        after 60s
        a-0-0 leaves
        after 100s
        resume
        then goes on
        then wakes never
        a-0-1 runs on n1
        then wakes in 60s
    """,
    "retries do not lengthen the limit": """
        build a: interactive limit 60s, retries 5
        a-0-0 runs on n1
        after 30s
        a-0-0 exits 1
        after 10s
        a-0-1 runs on n1
        after 20s
        then Stopped: time-limit
    """,
    "training fails at its deadline, counted from when it first ran": """
        train a: deadline 100s
        after 1000s
        a-0-0 runs on n1
        after 50s
        a-0-0 is preempted
        a-0-0 leaves
        then wakes in 50s
        after 50s
        then Failed: deadline
        then a-0-1 ended: stopped deadline
        then alive:
    """,
    "the nearer of two limits counts: the project's": """
        build a: interactive limit 60s, deadline 100s
        a-0-0 runs on n1
        after 60s
        then Stopped: time-limit
    """,
    "the nearer of two limits counts: the workload's own": """
        build a: interactive limit 100s, deadline 60s
        a-0-0 runs on n1
        after 60s
        then Failed: deadline
    """,
    "what has completed is cleared away after its time": """
        train a: ttl 60s
        a-0-0 runs on n1
        a-0-0 exits 0
        then kept
        then wakes in 60s
        after 59s
        then kept
        after 1s
        then gone
    """,
    "so is what has failed": """
        train a: ttl 60s, retries 0
        a-0-0 runs on n1
        a-0-0 exits 1
        after 60s
        then gone
    """,
    "what only stopped is kept: it can be resumed": """
        build a: ttl 60s, interactive limit 10s
        a-0-0 runs on n1
        after 10s
        a-0-0 leaves
        then Stopped: time-limit
        after 3600s
        then kept
    """,
    "nothing is cleared away while a pod of it has not left": """
        train a: 2 pods, leader, ttl 60s
        a-0-0 a-1-0 run on n1
        a-0-0 exits 0
        then Completed: finished
        after 60s
        then kept
        a-1-0 leaves
        then gone
    """,
    "without a time it is kept until a user deletes it": """
        train a
        a-0-0 runs on n1
        a-0-0 exits 0
        after 1000000s
        then kept
        delete
        then gone
    """,
}


@step_cases(**TIME)
def test_time(steps: str) -> None:
    run_steps(steps)


# --- a sweep -------------------------------------------------------------------------------------------------------


def test_a_sweep_of_twelve_never_has_more_than_three_pods_and_ends_after_twelve() -> None:
    steps = run_steps("train a: sweep, 3 pods, 12 completions")
    ended = 0
    while alive := [each for each in steps.pods if not each.is_over]:
        assert len(alive) == min(3, 12 - ended)
        steps.line("then goes on")
        steps.line(f"{alive[0].id} runs on n1")
        steps.line(f"{alive[0].id} exits 0")
        ended += 1
    assert ended == 12
    assert [each.index for each in steps.pods] == list(range(12))
    steps.line("then Completed: finished")


SWEEPS = {
    "a run that fails is repeated, and the others go on": """
        train a: sweep, 2 pods, 3 completions
        then alive: a-0-0 a-1-0
        a-0-0 a-1-0 run on n1
        a-0-0 exits 1
        then a-0-1 waits 10s
        then a-1-0 runs
        a-1-0 exits 0
        then alive: a-0-1 a-2-0
        after 10s
        a-0-1 a-2-0 run on n1
        a-0-1 a-2-0 exit 0
        then Completed: finished
    """,
    "failures of all runs are counted together": """
        train a: sweep, 2 pods, 9 completions, retries 1
        a-0-0 a-1-0 run on n1
        a-0-0 exits 1
        then goes on
        a-1-0 exits 1
        then Failed: retries-used-up
        then a-0-1 ended: stopped retries-used-up
        then alive:
    """,
    "two runs that fail in one look are two failures": """
        train a: sweep, 3 pods, retries 1
        a-0-0 a-1-0 a-2-0 run on n1
        a-0-0 a-1-0 exit 1
        then 2 failures
        then Failed: retries-used-up
        then a-2-0 is leaving: retries-used-up
    """,
    "a run that is preempted keeps its turn until it has left, and is repeated": """
        train a: sweep, 2 pods, 3 completions
        a-0-0 a-1-0 run on n1
        a-0-0 is preempted
        then alive: a-0-0 a-1-0
        a-0-0 leaves
        then alive: a-1-0 a-0-1
    """,
    "a sweep that says nothing of completions ends when each pod has ended well": """
        train a: sweep, 2 pods
        a-0-0 a-1-0 run on n1
        a-0-0 exits 0
        then alive: a-1-0
        a-1-0 exits 0
        then Completed: finished
    """,
    "fewer at a time: those that have run least leave first": """
        train a: sweep, 3 pods, 9 completions
        a-2-0 runs on n1
        after 60s
        a-0-0 runs on n1
        change 1 pod
        then a-2-0 runs
        then a-0-0 is leaving: scaled-down
        then a-1-0 ended: stopped scaled-down
        a-0-0 leaves
        then alive: a-2-0
        a-2-0 exits 0
        then alive: a-0-1
    """,
    "more at a time: the next begin at once": """
        train a: sweep, 1 pod, 9 completions
        change 3 pods
        then alive: a-0-0 a-1-0 a-2-0
    """,
    "fewer in all: runs that are no longer wanted leave": """
        train a: sweep, 3 pods, 9 completions
        a-0-0 a-1-0 a-2-0 run on n1
        a-0-0 exits 0
        then alive: a-1-0 a-2-0 a-3-0
        change 2 completions
        then a-2-0 is leaving: scaled-down
        then a-3-0 ended: stopped scaled-down
        a-1-0 exits 0
        then Completed: finished
    """,
    "fewer in all than have ended well already: it is completed": """
        train a: sweep, 1 pod, 9 completions
        a-0-0 runs on n1
        a-0-0 exits 0
        a-1-0 runs on n1
        change 1 completions
        then Completed: finished
        then a-1-0 is leaving: finished
    """,
    "what was done before a suspension stays done": """
        train a: sweep, 2 pods, 3 completions
        a-0-0 a-1-0 run on n1
        a-0-0 exits 0
        suspend
        then a-2-0 ended: stopped suspended
        a-1-0 leaves
        then alive:
        resume
        then alive: a-1-1 a-2-1
    """,
}


@step_cases(**SWEEPS)
def test_a_sweep(steps: str) -> None:
    run_steps(steps)


# --- distributed training ------------------------------------------------------------------------------------------

GANGS = {
    "its pods are one group, and it is completed when all have ended well": """
        train a: 2 pods
        then a-0-0 is of group a
        then a-1-0 is of group a
        a-0-0 a-1-0 run on n1
        a-0-0 exits 0
        then goes on
        then a-1-0 runs
        a-1-0 exits 0
        then Completed: finished
    """,
    "when one pod fails the gang restarts as a whole": """
        train a: 3 pods
        a-0-0 a-1-0 a-2-0 run on n1
        a-1-0 exits 1
        then a-0-0 is leaving: peer
        then a-2-0 is leaving: peer
        then a-1-1 waits 10s
        a-0-0 a-2-0 leave
        then a-0-0 ended: evicted peer
        then alive: a-1-1 a-0-1 a-2-1
        then 1 failure
    """,
    "all that fail in one look are one failure": """
        train a: 3 pods, retries 1
        a-0-0 a-1-0 a-2-0 run on n1
        a-0-0 a-1-0 a-2-0 exit 1
        then 1 failure
        then alive: a-0-1 a-1-1 a-2-1
        after 10s
        a-0-1 a-1-1 a-2-1 run on n1
        a-0-1 a-1-1 a-2-1 exit 1
        then Failed: retries-used-up
    """,
    "a gang that loses one pod with its node restarts as a whole, without failure": """
        train a: 2 pods
        a-0-0 runs on n1
        a-1-0 runs on n2
        n1 is lost
        then a-0-0 ended: lost node-lost
        then a-1-0 is leaving: peer
        a-1-0 leaves
        then alive: a-0-1 a-1-1
        then a-0-1 waits
        then a-1-1 waits
        then 0 failures
    """,
    "a gang from one of whose nodes pods are driven away leaves as a whole": """
        train a: 2 pods
        a-0-0 runs on n1
        a-1-0 runs on n2
        n1 is drained
        then a-0-0 is leaving: node-drained
        then a-1-0 is leaving: peer
    """,
    "a gang of which one pod is preempted leaves as a whole": """
        train a: 2 pods
        a-0-0 a-1-0 run on n1
        a-1-0 is preempted
        then a-0-0 is leaving: peer
    """,
    "a pod that was only bound leaves with the others": """
        train a: 2 pods
        a-0-0 runs on n1
        a-1-0 is bound to n2
        a-0-0 exits 1
        then a-1-0 is leaving: peer
    """,
    "a pod that one node refuses takes the gang with it, and that is no failure": """
        train a: 2 pods
        a-0-0 runs on n1
        a-1-0 is bound to n2
        a-1-0 is refused
        then a-0-0 is leaving: peer
        then a-1-1 waits 10s
        then 0 failures
        then avoids n2
    """,
    "a gang that is scaled up gets the pods that are missing": """
        train a: 2 pods
        a-0-0 a-1-0 run on n1
        change 3 pods
        then alive: a-0-0 a-1-0 a-2-0
        then a-0-0 runs
    """,
    "leader and workers are counted apart": """
        train a: 3 pods, leader
        then a-0-0 is of set leader
        then a-1-0 is of set worker
        then a-2-0 is of set worker
    """,
    "when the leader has ended well the workload is completed, and the workers leave": """
        train a: 3 pods, leader
        a-0-0 a-1-0 a-2-0 run on n1
        a-0-0 exits 0
        then Completed: finished
        then a-1-0 is leaving: finished
        a-1-0 a-2-0 leave
        then a-1-0 ended: stopped finished
        then alive:
    """,
    "workers that have ended well wait for the leader": """
        train a: 3 pods, leader
        a-0-0 a-1-0 a-2-0 run on n1
        a-1-0 a-2-0 exit 0
        then goes on
        then alive: a-0-0
        a-0-0 exits 0
        then Completed: finished
    """,
    "when the leader fails the workers restart with it": """
        train a: 2 pods, leader
        a-0-0 a-1-0 run on n1
        a-0-0 exits 1
        then a-1-0 is leaving: peer
        then a-0-1 waits 10s
        then a-0-1 is of set leader
    """,
    "with the clean-pod policy None, workers keep running after the leader has ended": """
        train a: 3 pods, leader, clean none
        a-0-0 a-1-0 a-2-0 run on n1
        a-0-0 exits 0
        then Completed: finished
        then a-1-0 runs
        then wakes never
        a-1-0 exits 1
        then a-2-0 runs
        then alive: a-2-0
        delete
        then a-2-0 is leaving: deleted
    """,
    "pods that are kept after a failure do not restart, and no pod that waits is started": """
        train a: 3 pods, clean none, retries 0
        a-0-0 a-1-0 run on n1
        a-0-0 exits 1
        then Failed: exited
        then a-1-0 runs
        then alive: a-1-0
    """,
    "pods are kept no longer than the workload": """
        train a: 2 pods, leader, clean none, ttl 60s
        a-0-0 a-1-0 run on n1
        a-0-0 exits 0
        then a-1-0 runs
        then wakes in 60s
        after 60s
        then a-1-0 is leaving: finished
    """,
    "pods are kept no longer than its time limit": """
        train a: 2 pods, leader, clean none, deadline 100s
        a-0-0 a-1-0 run on n1
        after 40s
        a-0-0 exits 0
        then a-1-0 runs
        after 60s
        then a-1-0 is leaving: finished
    """,
    "pods that are kept leave a node that is drained": """
        train a: 2 pods, leader, clean none
        a-0-0 a-1-0 run on n1
        a-0-0 exits 0
        n1 is drained
        then a-1-0 is leaving: node-drained
    """,
    "pods that are kept end when the workload is suspended": """
        train a: 2 pods, leader, clean none
        a-0-0 a-1-0 run on n1
        a-0-0 exits 0
        suspend
        then a-1-0 is leaving: finished
    """,
}


@step_cases(**GANGS)
def test_a_gang(steps: str) -> None:
    run_steps(steps)


def test_a_gang_whose_pods_crash_in_successive_cycles_has_failed_once() -> None:
    """One of them drags the others down, and hardly ever within one look."""
    run_steps("""
        train a: 3 pods, retries 1
        a-0-0 a-1-0 a-2-0 run on n1
        a-0-0 exits 1
        then 1 failure
        after 1s
        a-1-0 exits 1
        after 1s
        a-2-0 exits 1
        then 1 failure
        then goes on
    """)


def test_a_gang_that_was_scaled_down_runs_on_with_the_pods_it_has() -> None:
    run_steps("""
        train a: 3 pods
        a-0-0 a-1-0 a-2-0 run on n1
        change 2 pods
        then a-2-0 is leaving: scaled-down
        a-2-0 leaves
        then a-0-0 runs
        then a-1-0 runs
    """)


def test_an_interactive_gang_with_a_back_off_limit_is_retried() -> None:
    run_steps("""
        build a: 2 pods, retries 1
        a-0-0 a-1-0 run on n1
        a-0-0 exits 1
        then a-1-0 is leaving: peer
        a-1-0 leaves
        then goes on
    """)


# --- elastic training ----------------------------------------------------------------------------------------------

ELASTIC = {
    "all its pods are born, and each comes and goes on its own": """
        train a: 4 pods, minimum 2
        then alive: a-0-0 a-1-0 a-2-0 a-3-0
        a-0-0 a-1-0 a-2-0 run on n1
        a-2-0 exits 1
        then a-0-0 runs
        then a-2-1 waits 10s
        then 1 failure
    """,
    "pods that fail one after the other have failed once, and are tried again together": """
        train a: 4 pods, minimum 2, retries 1
        a-0-0 a-1-0 a-2-0 a-3-0 run on n1
        a-0-0 exits 3
        then a-0-1 waits 10s
        after 4s
        a-1-0 a-2-0 exit 1
        then 1 failure
        then a-1-1 waits 6s
        then a-2-1 waits 6s
        after 5s
        a-3-0 exits 1
        then 1 failure
        then a-3-1 waits 1s
        then says pod 0 of a (try 1) failed with exit code 3; waiting for try 2 of 2; it holds no GPU until then
        then goes on
    """,
    "a failure after the others were tried again counts": """
        train a: 3 pods, minimum 1, retries 1
        a-0-0 a-1-0 run on n1
        a-0-0 exits 1
        after 10s
        a-1-0 exits 1
        then 2 failures
        then Failed: retries-used-up
    """,
    "a pod that is refused while others wait for their retry does not wait for theirs": """
        train a: 3 pods, minimum 1
        a-0-0 runs on n1
        a-0-0 exits 1
        after 4s
        a-1-0 is bound to n1
        a-1-0 is refused
        then 1 failure
        then a-1-1 waits 10s
    """,
    "when it is resumed, what fails at once is its first failure": """
        train a: 3 pods, minimum 1, retries 1
        a-0-0 runs on n1
        a-0-0 exits 1
        suspend
        resume
        then a-0-2 waits
        a-0-2 runs on n1
        a-0-2 exits 1
        then 1 failure
        then a-0-3 waits 10s
    """,
    "a pod that is preempted comes back, and the others stay": """
        train a: 4 pods, minimum 2
        a-0-0 a-1-0 a-2-0 run on n1
        a-2-0 is preempted
        then a-0-0 runs
        a-2-0 leaves
        then alive: a-0-0 a-1-0 a-3-0 a-2-1
    """,
    "it is completed when as many as it needs have succeeded and no other is running": """
        train a: 3 pods, minimum 2
        a-0-0 a-1-0 a-2-0 run on n1
        a-0-0 a-1-0 exit 0
        then goes on
        a-2-0 exits 0
        then Completed: finished
    """,
    "pods that never found a place do not hold up its end": """
        train a: 4 pods, minimum 2
        a-0-0 a-1-0 run on n1
        a-0-0 a-1-0 exit 0
        then Completed: finished
        then a-2-0 ended: stopped finished
        then alive:
    """,
    "more pods: the new ones are born, the others run on": """
        train a: 2 pods, minimum 1
        a-0-0 a-1-0 run on n1
        change 4 pods
        then a-0-0 runs
        then alive: a-0-0 a-1-0 a-2-0 a-3-0
    """,
    "fewer pods: the last ones leave, the others run on": """
        train a: 4 pods, minimum 1
        a-0-0 a-1-0 a-2-0 run on n1
        change 2 pods
        then a-0-0 runs
        then a-2-0 is leaving: scaled-down
        then a-3-0 ended: stopped scaled-down
        a-2-0 leaves
        then alive: a-0-0 a-1-0
        change 3 pods
        then alive: a-0-0 a-1-0 a-2-1
    """,
}


@step_cases(**ELASTIC)
def test_elastic_training(steps: str) -> None:
    run_steps(steps)


def test_elastic_training_that_was_scaled_down_is_completed_by_the_pods_it_has() -> None:
    run_steps("""
        train a: 3 pods, minimum 1
        a-0-0 a-1-0 a-2-0 run on n1
        change 2 pods
        a-2-0 leaves
        a-0-0 a-1-0 exit 0
        then Completed: finished
    """)


def test_elastic_training_whose_last_pod_fails_is_the_same_in_every_cycle() -> None:
    run_steps("""
        train a: 3 pods, minimum 2
        a-0-0 a-1-0 a-2-0 run on n1
        a-0-0 a-1-0 exit 0
        a-2-0 exits 1
    """)


def test_elastic_training_is_not_completed_by_a_pod_that_was_scaled_away() -> None:
    run_steps("""
        train a: 2 pods, minimum 1
        a-1-0 runs on n1
        change 1 pod
        then a-1-0 is leaving: scaled-down
        a-1-0 exits 0
        then goes on
        then alive: a-0-0
    """)


def test_elastic_training_is_not_completed_while_a_pod_that_was_preempted_waits_to_return() -> None:
    run_steps("""
        train a: 2 pods, minimum 1
        a-0-0 a-1-0 run on n1
        a-1-0 exits 0
        a-0-0 is preempted
        a-0-0 leaves
        then a-0-1 waits
        then goes on
    """)


# --- replicas ------------------------------------------------------------------------------------------------------

REPLICAS = {
    "each replica is a group of its own": """
        inference a: 2 replicas
        then alive: a-0-0 a-1-0
        then a-0-0 is of group a/0
        then a-1-0 is of group a/1
    """,
    "one that fails comes back, and the others serve on": """
        inference a: 2 replicas
        a-0-0 a-1-0 run on n1
        a-0-0 exits 1
        then a-1-0 runs
        then a-0-1 waits 10s
        then a-0-1 is of group a/0
        then goes on
    """,
    "more replicas": """
        inference a: 1 replica
        a-0-0 runs on n1
        change 3 replicas
        then alive: a-0-0 a-1-0 a-2-0
    """,
    "fewer replicas: the last leave": """
        inference a: 3 replicas
        a-0-0 a-1-0 run on n1
        change 1 replica
        then a-0-0 runs
        then a-1-0 is leaving: scaled-down
        then a-2-0 ended: stopped scaled-down
        a-1-0 leaves
        then alive: a-0-0
    """,
    "no replica at all, and one again": """
        inference a: 1 replica
        a-0-0 runs on n1
        change 0 replicas
        a-0-0 leaves
        then alive:
        then goes on
        change 1 replica
        then a-0-1 waits
    """,
}


@step_cases(**REPLICAS)
def test_replicas(steps: str) -> None:
    run_steps(steps)


# --- what a person wants -------------------------------------------------------------------------------------------

WANTS = {
    "suspended: what runs leaves, what waits is over, and nothing comes": """
        train a: sweep, 2 pods
        a-0-0 runs on n1
        suspend
        then a-0-0 is leaving: suspended
        then a-1-0 ended: stopped suspended
        a-0-0 leaves
        then a-0-0 ended: stopped suspended
        then alive:
        then goes on
        then kept
        after 3600s
        then alive:
    """,
    "resumed: it comes back with a clean slate": """
        train a
        a-0-0 runs on n1
        a-0-0 exits 1
        after 10s
        a-0-1 runs on n1
        suspend
        a-0-1 leaves
        then 1 failure
        resume
        then 0 failures
        then a-0-2 waits
        then a-0-2 is of run 1
    """,
    "resumed before the old pod has left: the new one is born when it has": """
        train a
        a-0-0 runs on n1
        suspend
        resume
        then alive: a-0-0
        a-0-0 leaves
        then alive: a-0-1
    """,
    "a failure of an earlier run does not count in this one": """
        train a: retries 0
        a-0-0 runs on n1
        suspend
        resume
        a-0-0 exits 1
        then 0 failures
        then goes on
        then a-0-1 waits
    """,
    "the loss of an interactive pod of an earlier run does not stop this one": """
        build a
        a-0-0 runs on n1
        suspend
        resume
        n1 is lost
        then goes on
        then alive: a-0-1
    """,
    "what failed can be resumed": """
        train a: retries 0
        a-0-0 runs on n1
        a-0-0 exits 1
        then Failed: exited
        resume
        then goes on
        then a-0-1 waits
    """,
    "work that ended well while it was being suspended is completed when it is resumed": """
        train a
        a-0-0 runs on n1
        suspend
        a-0-0 exits 0
        then goes on
        resume
        then Completed: finished
        then alive:
    """,
    "deleted: all pods stop, and then it is gone": """
        train a: sweep, 2 pods
        a-0-0 runs on n1
        delete
        then a-0-0 is leaving: deleted
        then a-1-0 ended: stopped deleted
        then kept
        a-0-0 leaves
        then gone
    """,
    "deleted while it waits: it is gone at once": """
        train a
        delete
        then gone
    """,
    "deleted while it is being suspended: it is gone when it has left": """
        train a
        a-0-0 runs on n1
        suspend
        delete
        then a-0-0 is leaving: suspended
        a-0-0 leaves
        then gone
    """,
    "deleted after its end": """
        build a
        a-0-0 runs on n1
        a-0-0 exits 1
        delete
        then gone
    """,
    "no longer declared: all pods stop": """
        train a: sweep, 2 pods
        a-0-0 runs on n1
        undeclare
        then a-0-0 is leaving: unwanted
        then a-1-0 ended: stopped unwanted
        a-0-0 leaves
        then alive:
    """,
}


@step_cases(**WANTS)
def test_what_a_person_wants(steps: str) -> None:
    run_steps(steps)


def test_a_failure_of_an_earlier_run_does_not_end_this_one_even_if_it_is_never_restarted() -> None:
    run_steps("""
        train a: restart never
        a-0-0 runs on n1
        suspend
        resume
        a-0-0 exits 1
        then goes on
    """)


# --- nodes ---------------------------------------------------------------------------------------------------------

NODES = {
    "training returns by itself when its node is lost": """
        train a
        a-0-0 runs on n1
        n1 is lost
        then a-0-0 ended: lost node-lost
        then a-0-1 waits
        then 0 failures
    """,
    "interactive work waits for a person when its node is lost": """
        build a
        a-0-0 runs on n1
        n1 is lost
        then Stopped: node-lost
        then alive:
        after 3600s
        then alive:
        resume
        then a-0-1 waits near n1
    """,
    "an inference server returns by itself when its node is lost": """
        inference a: 2 replicas
        a-0-0 runs on n1
        a-1-0 runs on n2
        n1 is lost
        then a-0-1 waits
        then a-1-0 runs
    """,
    "a pod that was only bound is lost with its node too": """
        train a
        a-0-0 is bound to n1
        n1 is lost
        then a-0-0 ended: lost node-lost
        then a-0-1 waits
    """,
    "training is driven away by a drain, and comes back elsewhere": """
        train a
        a-0-0 runs on n1
        n1 is drained
        then a-0-0 is leaving: node-drained
        a-0-0 leaves
        then a-0-0 ended: evicted node-drained
        then a-0-1 waits
        then 0 failures
        a-0-1 runs on n2
        then a-0-1 runs
    """,
    "pods that tolerate the drain stay": """
        train a: tolerant
        a-0-0 runs on n1
        n1 is drained
        then a-0-0 runs
    """,
    "pods on other nodes stay": """
        train a
        a-0-0 runs on n2
        n1 is drained
        then a-0-0 runs
    """,
    "interactive work that is driven away waits for a person": """
        build a
        a-0-0 runs on n1
        n1 is drained
        a-0-0 leaves
        then Stopped: node-drained
    """,
    "a pod that was only bound is driven away too": """
        inference a: 1 replica
        a-0-0 is bound to n1
        n1 is drained
        then a-0-0 is leaving: node-drained
    """,
    "when the drain is over the node can be used again": """
        train a
        n1 is drained
        n1 is returned
        a-0-0 runs on n1
        then a-0-0 runs
    """,
    "a node that refuses a pod is left alone for a while, and that is no failure": """
        train a: retries 0
        a-0-0 is bound to n1
        a-0-0 is refused
        then a-0-0 ended: error refused
        then goes on
        then 0 failures
        then avoids n1
        then a-0-1 waits 10s
        after 10s
        then wakes in 590s
        a-0-1 is bound to n2
        a-0-1 is refused
        then avoids n1 n2
        then a-0-2 waits 20s
        after 590s
        then avoids n2
        after 10s
        then avoids
        then wakes never
    """,
    "a node that refuses again is left alone anew": """
        train a
        a-0-0 is bound to n1
        a-0-0 is refused
        after 590s
        a-0-1 is bound to n1
        a-0-1 is refused
        after 100s
        then avoids n1
    """,
    "a refusal does not end interactive work": """
        build a
        a-0-0 is bound to n1
        a-0-0 is refused
        then goes on
        then a-0-1 waits 10s
        then avoids n1
    """,
}


@step_cases(**NODES)
def test_nodes(steps: str) -> None:
    run_steps(steps)


# --- numbers -------------------------------------------------------------------------------------------------------

NUMBERS = {
    "after a lost ledger incarnations start where none can have been used": """
        train a: 2 pods, minimum 1, numbers from 103
        then alive: a-0-103 a-1-103
        a-0-103 runs on n1
        a-0-103 exits 1
        then alive: a-1-103 a-0-104
    """,
    "a pod that is scaled away and wanted again does not take an old number": """
        inference a: 2 replicas
        a-1-0 runs on n1
        change 1 replica
        a-1-0 leaves
        change 2 replicas
        then alive: a-0-0 a-1-1
    """,
    "a run that is resumed does not begin to count anew": """
        train a
        suspend
        resume
        then alive: a-0-1
        suspend
        resume
        then alive: a-0-2
    """,
}


def test_only_a_pod_that_never_lived_has_the_first_number() -> None:
    lost = state(first_incarnation=103)
    adopted, first = record("a-0-0"), record("a-0-103")
    assert [lost.next_incarnation(last) for last in (None, adopted, first)] == [103, 104, 104]


@step_cases(**NUMBERS)
def test_numbers(steps: str) -> None:
    run_steps(steps)


# --- words ---------------------------------------------------------------------------------------------------------


IMAGES = {
    "a pod that cannot get its image gives its place back and is tried again after a back-off": """
        train a: retries 0
        a-0-0 is bound to n1
        a-0-0 lacks its image
        then a-0-0 is leaving: image-pull
        a-0-0 is stopped
        then a-0-0 ended: error image-pull
        then a-0-1 waits 10s
        then 0 failures
        then goes on
        then avoids
        then reads ImagePullBackOff
    """,
    "it waits longer each time, also where a failure of its own would not be forgiven": """
        build a
        a-0-0 is bound to n1
        a-0-0 lacks its image
        a-0-0 is stopped
        after 10s
        then reads Pending
        a-0-1 is bound to n1
        a-0-1 lacks its image
        then reads ImagePullBackOff
        a-0-1 is stopped
        then a-0-2 waits 20s
    """,
    "its peers leave with it, and the gang comes back together": """
        train a: 2 pods
        a-0-0 a-1-0 are bound to n1
        a-1-0 lacks its image
        a-1-0 is stopped
        then a-0-0 is leaving: peer
    """,
    "once it has run the tries are forgotten": """
        train a: retries 3
        a-0-0 is bound to n1
        a-0-0 lacks its image
        a-0-0 is stopped
        after 10s
        a-0-1 runs on n1
        a-0-1 exits 1
        then a-0-2 waits 10s
        then 1 failure
        then reads Error
    """,
}


@step_cases(**IMAGES)
def test_images(steps: str) -> None:
    run_steps(steps)


def test_an_image_that_never_comes_is_given_up_in_the_end() -> None:
    steps = run_steps("train a")
    for number in range(11):
        steps.line("after 300s")
        steps.line(f"a-0-{number} is bound to n1")
        steps.line(f"a-0-{number} lacks its image")
        steps.line(f"a-0-{number} is stopped")
    halt = steps.expansion.state.halt
    assert halt is not None
    assert (halt.phase, halt.cause) == (WorkloadPhase.FAILED, Cause.IMAGE)
    assert halt.detail == "ErrImagePull: no such image; gave up after 11 tries"
    assert steps.reads() == "ContainerCannotRun"


def halt_in_words(steps: StepRunner) -> str:
    halt = steps.expansion.state.halt
    assert halt is not None
    return halt.detail


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        pytest.param(
            "train a: retries 0\na-0-0 runs on n1\na-0-0 exits 3",
            "failed with exit code 3",
            id="a failure says how it ended",
        ),
        pytest.param(
            "train a: retries 1\na-0-0 runs on n1\na-0-0 exits 3\nafter 10s\na-0-1 runs on n1\na-0-1 exits 4",
            "failed with exit code 4; no retries left (1 allowed)",
            id="the last failure counts, and how many were forgiven",
        ),
        pytest.param(
            "train a: 2 pods, retries 0\na-0-0 a-1-0 run on n1\na-1-0 exits 3",
            "pod 1 of a (try 1) failed with exit code 3",
            id="of several pods it names the one that failed, and not by its id",
        ),
        pytest.param(
            "build a: interactive limit 60s\na-0-0 runs on n1\nafter 60s",
            "reached the time limit of 1m for interactive jobs in project vision",
            id="a time limit names the project and the limit",
        ),
        pytest.param(
            "build a: preemptible\na-0-0 runs on n1\na-0-0 is preempted\na-0-0 leaves",
            "for b",
            id="a preemption names who gained by it",
        ),
        pytest.param(
            "build a\na-0-0 runs on n1\nn1 is drained\na-0-0 leaves\nn1 is returned",
            "suspended when n1 was drained; resume it to start again",
            id="of interactive work on a drained node: a drain that is over is not said to go on",
        ),
    ],
)
def test_why_it_ended(steps: str, words: str) -> None:
    assert halt_in_words(run_steps(steps)) == words


@pytest.mark.parametrize(
    ("steps", "pod", "words"),
    [
        pytest.param(
            "train a: 2 pods\na-0-0 a-1-0 run on n1\na-0-0 exits 1",
            "a-1-0",
            "pod 0 of a (try 1) ended; all pods of a restart together",
            id="a peer is told whose end it follows",
        ),
        pytest.param(
            "train a\na-0-0 runs on n1\nn1 is drained",
            "a-0-0",
            "n1 is being drained (runai=drain:NoExecute)",
            id="a drained pod names the taint",
        ),
        pytest.param(
            "inference a: 3 replicas\na-2-0 runs on n1\nchange 2 replicas",
            "a-2-0",
            "scaled down to 2 pods",
            id="a pod that is scaled down names the declared number",
        ),
    ],
)
def test_why_it_leaves(steps: str, pod: str, words: str) -> None:
    assert [each.detail for each in run_steps(steps).pods if each.id == pod] == [words]


# --- after others ------------------------------------------------------------------------------------------------

DEPENDENCIES = {
    "nothing is born before all that it waits for have completed": """
        train a: after b c
        then alive:
        then goes on
        then reads Pending
        then says waits for b and c to finish
        b completes
        then alive:
        then says waits for c to finish
        c completes
        then a-0-0 waits
    """,
    "what was met stays met, also when it is deleted or resumed": """
        train a: after b c
        b completes
        b is deleted
        then goes on
        then says waits for c to finish
        c completes
        then a-0-0 waits
        c reopens
        then a-0-0 waits
        a-0-0 runs on n1
        c fails
        then goes on
        a-0-0 exits 0
        then Completed: finished
    """,
    "it fails with its dependency, and says which": """
        train a: after b c
        c fails
        then Failed: dependency-failed
        then alive:
        then reads Failed
        then says dependency failed: c failed, and this job starts only after it completes
    """,
    "a dependency that was deleted before it completed will not complete": """
        train a: after b
        b is deleted
        then Failed: dependency-failed
        then says dependency failed: b was deleted, and this job starts only after it completes
    """,
    "any end will do where it was said so": """
        train a: after b:any c:any
        b fails
        then says waits for c to finish
        c is deleted
        then a-0-0 waits
    """,
    "resumed after its dependency failed, it waits if the dependency was resumed too": """
        train a: after b
        b fails
        then Failed: dependency-failed
        b reopens
        resume
        then goes on
        then says waits for b to finish
        b completes
        then a-0-0 waits
    """,
    "resumed while its dependency still has failed, it fails again": """
        train a: after b
        b fails
        resume
        then Failed: dependency-failed
    """,
    "suspended, it neither starts nor fails": """
        train a: after b c
        suspend
        b fails
        then goes on
        then alive:
        then reads Suspended
    """,
    "deleted while it waits, nothing is left of it": """
        train a: after b
        delete
        then gone
    """,
    "the time limit counts from its own start": """
        train a: after b, deadline 60s
        after 1000s
        b completes
        a-0-0 runs on n1
        then wakes in 60s
        after 60s
        then Failed: deadline
    """,
}


@step_cases(**DEPENDENCIES)
def test_waiting_for_others(steps: str) -> None:
    run_steps(steps)


def test_at_its_time_limit_it_says_so() -> None:
    steps = run_steps("train a: deadline 5400s\na-0-0 runs on n1\nafter 5400s\nthen Failed: deadline\na-0-0 leaves")
    assert halt_in_words(steps) == "reached its time limit of 1h30m"


@pytest.mark.parametrize(
    ("spec", "halt", "outcome"),
    [
        pytest.param(SPEC, None, WorkloadOutcome.OPEN, id="it may still complete"),
        pytest.param(SPEC, WorkloadPhase.STOPPED, WorkloadOutcome.OPEN, id="suspended, it can be resumed"),
        pytest.param(SPEC, WorkloadPhase.COMPLETED, WorkloadOutcome.COMPLETED, id="completed"),
        pytest.param(SPEC, WorkloadPhase.FAILED, WorkloadOutcome.FAILED, id="failed"),
        pytest.param(
            replace(SPEC, run=1), WorkloadPhase.FAILED, WorkloadOutcome.OPEN, id="resumed, and not reconciled yet"
        ),
        pytest.param(
            replace(SPEC, desired_state=DesiredState.DELETE), None, WorkloadOutcome.GONE, id="deleted before its end"
        ),
        pytest.param(
            replace(SPEC, desired_state=DesiredState.DELETE),
            WorkloadPhase.COMPLETED,
            WorkloadOutcome.COMPLETED,
            id="deleted after it completed",
        ),
        pytest.param(None, None, WorkloadOutcome.GONE, id="not declared any more"),
        pytest.param(None, WorkloadPhase.COMPLETED, WorkloadOutcome.COMPLETED, id="removed after it completed"),
    ],
)
def test_what_became_of_a_dependency(
    spec: WorkloadSpec | None, halt: WorkloadPhase | None, outcome: WorkloadOutcome
) -> None:
    ended = Halt(halt, Cause.EXITED, at(0)) if halt is not None else None
    assert outcome_of(spec, state(halt=ended)) is outcome


# --- a declaration that changes ------------------------------------------------------------------------------------


def changed(pod: PodRecord) -> PodRecord:
    """The same pod, after its workload was declared to ask for two GPUs with another grace period."""
    spec = replace(SPEC, template=PodTemplate(shape=PodShape(gpu=GpuRequest(devices=2))), grace_s=7)
    (after,) = expand(ExpandInput(spec=spec, state=WorkloadState(workload=SPEC.id), pods=(pod,)), at(5)).pods
    return after


def test_a_pod_that_waits_asks_for_what_is_declared_now() -> None:
    (waiting,) = expand(ExpandInput(spec=SPEC, state=WorkloadState(workload=SPEC.id), pods=()), at(0)).pods
    after = changed(waiting)
    assert (after.id, after.shape.gpu.devices, after.grace_s) == (waiting.id, 2, 7)
    promised = waiting.move(PodPhase.PROMISED, at(1), node=NodeName("n1"), devices=(0,), promised_at=at(1))
    after = changed(promised)
    assert (after.phase, after.node, after.devices, after.shape.gpu.devices) == (PodPhase.WAITING, None, (), 2)
    assert after.detail == "reservation dropped: the job was changed"


def test_a_pod_that_runs_keeps_its_request_and_gets_the_new_grace_period() -> None:
    (waiting,) = expand(ExpandInput(spec=SPEC, state=WorkloadState(workload=SPEC.id), pods=()), at(0)).pods
    bound = waiting.move(PodPhase.BOUND, at(1), node=NodeName("n1"))
    running = bound.move(PodPhase.RUNNING, at(2), started_at=at(2))
    after = changed(running)
    assert (after.phase, after.shape, after.grace_s) == (PodPhase.RUNNING, running.shape, 7)
    stopping = running.release(at(3), Cause.SUSPENDED)
    assert changed(stopping).grace_s == stopping.grace_s
