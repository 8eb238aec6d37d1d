"""What is owed to the engine: who is started, stopped and forgotten. The table is the specification."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairpool.cluster.outstanding_orders import outstanding_order, record_of_order, start_order
from fairpool.cluster.settle import Evidence, settle
from fairpool.model.ids import PodId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.observation import ForgetOrder, ObservedNode, ObservedPod, Order, PodState, StartOrder, StopOrder
from fairpool.model.pod_record import Cause, PodRecord
from fairpool.model.spec import PodTemplate, Program
from tests.pod_records import BOUND, ENDED, RELEASING, RUNNING, at, cells, observed_node, observed_pod, record, spec

NOW = at(60)

THE_TABLE = """
| ledger                            | starting | running | exited | nothing | silent | gone | rebooted | removed |
|-----------------------------------|----------|---------|--------|---------|--------|------|----------|---------|
| WAITING                           | –        | –       | –      | –       | –      | –    | –        | –       |
| PROMISED                          | –        | –       | –      | –       | –      | –    | –        | –       |
| BOUND                             | –        | –       | –      | start   | –      | –    | –        | –       |
| BOUND, to be asked now            | –        | –       | –      | start   | –      | –    | –        | –       |
| BOUND, to be asked later          | –        | –       | –      | –       | –      | –    | –        | –       |
| BOUND, an earlier pod is stopping | –        | –       | –      | –       | –      | –    | –        | –       |
| BOUND, undeclared                 | –        | –       | –      | –       | –      | –    | –        | –       |
| RUNNING                           | –        | –       | –      | –       | –      | –    | –        | –       |
| RELEASING                         | stop     | stop    | –      | stop    | –      | –    | –        | stop    |
| RELEASING, undeclared             | stop     | stop    | –      | stop    | –      | –    | –        | stop    |
| RELEASING, stop confirmed         | –        | –       | –      | –       | –      | –    | –        | –       |
| RELEASING, longer stop confirmed  | stop     | stop    | –      | stop    | –      | –    | –        | stop    |
| ENDED                             | stop     | stop    | –      | –       | –      | –    | –        | –       |
| ENDED, stop confirmed             | –        | –       | –      | –       | –      | –    | –        | –       |
| ENDED, reported                   | stop     | stop    | forget | –       | –      | –    | –        | –       |
| ENDED, reported, undeclared       | stop     | stop    | forget | –       | –      | –    | –        | –       |
"""


@pytest.mark.parametrize(
    ("ledger", "engine", "owed"),
    [pytest.param(*cell, id=f"{cell[0]}; the engine says {cell[1]}; {cell[2]}") for cell in cells(THE_TABLE)],
)
def test_the_table(ledger: str, engine: str, owed: str) -> None:
    known = in_the_ledger(ledger)
    order = outstanding_order(
        known,
        None if "undeclared" in ledger else spec(),
        Evidence(
            sight_of_pod(engine, known),
            sight_of_node(engine),
            stop_confirmed="stop confirmed" in ledger,
            confirmed_grace_s=known.grace_s + ("longer" in ledger),
        ),
        alone="an earlier pod is stopping" not in ledger,
        acknowledged="reported" in ledger,
        now=NOW,
    )
    assert in_words(order) == owed


def in_the_ledger(row: str) -> PodRecord:
    phase = PodPhase(row.partition(",")[0].lower())
    known = record("a-0-0", phase, on=None if phase is PodPhase.WAITING else "n1")
    if "to be asked" in row:
        return replace(known, retry_at=at(60 if "now" in row else 61))
    return known


def sight_of_pod(engine: str, of: PodRecord) -> ObservedPod | None:
    return observed_pod(of, PodState(engine)) if engine in list(PodState) else None


def sight_of_node(engine: str) -> ObservedNode | None:
    if engine == "removed":
        return None
    boot = {"boot_id": "n1, second boot"} if engine == "rebooted" else {}
    return observed_node("n1", gone=engine == "gone", silent_since=at(30) if engine == "silent" else None, **boot)


def in_words(order: Order | None) -> str:
    match order:
        case StartOrder():
            return "start"
        case StopOrder():
            return "stop"
        case ForgetOrder():
            return "forget"
    return "–"


# --- what an order says --------------------------------------------------------------------------------------------


def owed(known: PodRecord, evidence: Evidence | None = None) -> Order | None:
    return outstanding_order(
        known, spec(), evidence or Evidence(node=observed_node()), alone=True, acknowledged=True, now=NOW
    )


def test_a_start_says_who_where_on_what_and_in_which_boot() -> None:
    bound = record("a-0-3", BOUND, on="n1", devices=(2, 5), run=4, grace_s=7)
    order = start_order(bound, spec(name="a", pods=2))
    assert (order.pod, order.index, order.incarnation, order.run) == ("a-0-3", 0, 3, 4)
    assert (order.node, order.boot_id, order.devices, order.grace_s) == ("n1", "n1, first boot", (2, 5), 7)
    assert (order.name, order.project, order.pods) == ("a", "vision", 2)


def test_the_leader_is_started_with_its_own_program() -> None:
    ours = spec(
        pods=2,
        leader=PodTemplate(program=Program(command=("lead",))),
        template=PodTemplate(program=Program(command=("work",))),
    )
    commands = [start_order(record(name, BOUND, on="n1"), ours).program.command for name in ("a-0-0", "a-1-0")]
    assert commands == [("lead",), ("work",)]


@pytest.mark.parametrize(
    ("cause", "detail", "reason"),
    [
        pytest.param(Cause.PREEMPTED, "b is owed its GPUs", "b is owed its GPUs", id="in words, if there are any"),
        pytest.param(Cause.SUSPENDED, "", "suspended", id="else by its name"),
        pytest.param(None, "", "", id="or not at all, if it is unknown"),
    ],
)
def test_a_stop_gives_the_reason(cause: Cause | None, detail: str, reason: str) -> None:
    leaving = record("a-0-0", RELEASING, on="n1", cause=cause, detail=detail, grace_s=7)
    expected = StopOrder(pod=PodId("a-0-0"), node=leaving.node, grace_s=7, reason=reason)
    assert owed(leaving) == expected


def test_a_pod_that_was_lost_is_stopped_when_its_node_is_back() -> None:
    running = record("a-0-0", RUNNING, on="n1")
    lost = settle(running, Evidence(node=observed_node("n1", gone=True)), NOW)
    assert lost.phase is ENDED
    assert in_words(owed(lost, Evidence(observed_pod(lost, PodState.RUNNING), observed_node()))) == "stop"


def test_what_is_owed_is_owed_again_until_it_is_seen() -> None:
    bound = record("a-0-0", BOUND, on="n1")
    assert owed(bound) == owed(bound)
    assert owed(bound, Evidence(observed_pod(bound, PodState.STARTING), observed_node())) is None


@pytest.mark.parametrize(("asked_s", "given_s"), [(7, 7), (3600, 3600), (315_360_000, 3600)])
def test_a_start_carries_no_longer_a_grace_than_is_allowed(asked_s: int, given_s: int) -> None:
    assert start_order(record("a-0-0", BOUND, on="n1", grace_s=asked_s), spec()).grace_s == given_s


def test_one_that_should_be_over_and_is_seen_has_no_more_than_the_eviction_grace() -> None:
    over = record("a-0-0", ENDED, on="n1", grace_s=3600)
    order = owed(over, Evidence(observed_pod(over, PodState.RUNNING), observed_node()))
    assert isinstance(order, StopOrder)
    assert order.grace_s == 60


def test_one_that_runs_where_no_node_is_any_more_is_stopped_until_it_is_gone() -> None:
    running = record("a-0-0", RUNNING, on="n1", started_at=at(10))
    seen = Evidence(observed_pod(running, PodState.RUNNING))
    leaving = settle(running, seen, NOW)
    assert in_words(owed(leaving, seen)) == "stop"
    confirmed = replace(seen, stop_confirmed=True, confirmed_grace_s=leaving.grace_s)
    assert settle(leaving, confirmed, NOW) is leaving, "it is still seen"
    assert settle(leaving, replace(confirmed, pod=None), NOW).phase is ENDED


# --- what a lost ledger is rebuilt from ----------------------------------------------------------------------------


def test_a_record_can_be_restored_from_the_start_order() -> None:
    bound = record("a-1-3", BOUND, on="n1", pod_set="worker", run=2, devices=(4,), grace_s=7, since=NOW)
    assert record_of_order(start_order(bound, spec()), NOW) == bound


def test_an_adopted_pod_runs_as_soon_as_it_is_observed() -> None:
    observed = observed_pod(record("a-0-0", BOUND, on="n1"), PodState.RUNNING, running_since=at(10))
    after = settle(record_of_order(observed.order, NOW), Evidence(observed, observed_node()), NOW)
    assert (after.phase, after.started_at) == (RUNNING, at(10))
