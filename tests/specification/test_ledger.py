"""The ledger: what is written down comes back, all of an entry or nothing, from one writer at a time.

The last part starts real processes on a real file, and kills them.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from fairpool.cluster import ledger_file, ledger_rows, ledger_schema
from fairpool.cluster.history import Event, EventKind
from fairpool.cluster.ledger import (
    AFTER_COMMIT,
    BEFORE_BEGIN,
    BEFORE_COMMIT,
    DELIVERED_S,
    LeaseHeld,
    LeaseLost,
    Ledger,
    LedgerContents,
    LedgerEntry,
    LedgerProblem,
    LedgerUnavailable,
)
from fairpool.cluster.ledger_store import LedgerStore
from fairpool.cluster.workload_state import AvoidedNode, GroupDates, Halt, WorkloadState
from fairpool.model import plain
from fairpool.model.decision_record import DecisionKind, DecisionRecord, QueueState
from fairpool.model.ids import GroupId, Instant, NodeName, PodId, PoolName, QueueId, Revision, Token, WorkloadId, pod_id
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import NodePool, Taint, TaintEffect, Topology
from fairpool.model.organization import Entitlement, NodeOverrides, Organization, ProjectRules, Queue
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.pod_usage import PodUsage
from fairpool.model.problem import Problem
from fairpool.model.spec import Arrangement, DesiredState, PodTemplate, Program, RestartPolicy, WorkloadSpec
from fairpool.model.status import WorkloadPhase
from fairpool.model.workload import (
    GpuRequest,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    PodAffinityTerm,
    PodShape,
    Toleration,
    TopologyConstraint,
    WorkloadKind,
    whole_gpus,
)
from tests.ledgers import STORES, NewPlace, new_place, sqlite_connection

DATA = Path(__file__).parents[1] / "data"
NOON = Instant(1_700_000_000_000)
LEASE_MS = 15_000

SHAPE = PodShape(
    gpu=GpuRequest(devices=2, portion_milli=500, mig=(("nvidia.com/mig-3g.20gb", 1),)),
    cpu_milli=4000,
    memory_bytes=2**40,
    extended=(("rdma/hca", 1),),
    node_rules=(
        (
            NodeSelectorRequirement("zone", NodeSelectorOperator.IN, ("a", "b")),
            NodeSelectorRequirement("ssd", NodeSelectorOperator.EXISTS),
        ),
        (),
    ),
    tolerations=(Toleration(), Toleration("runai", "drain", TaintEffect.NO_EXECUTE)),
    labels=(("app", "näive \u2603 \x00 '\"\\"),),
    near=(PodAffinityTerm("zone", (("app", "x"),)),),
    schedulable=False,
)
TEMPLATE = PodTemplate(
    shape=SHAPE,
    program=Program(image="a:1", command=("python", "-c", ""), environment=(("KEY", "half a pair: \ud800"),)),
)


def record(workload: str = "frac05", index: int = 0, incarnation: int = 0, **changes: Any) -> PodRecord:
    of = WorkloadId(workload)
    plainest = PodRecord(
        id=pod_id(of, index, incarnation),
        workload=of,
        index=index,
        incarnation=incarnation,
        group=GroupId(workload),
        shape=PodShape(gpu=whole_gpus(1)),
        since=NOON,
        created_at=NOON,
    )
    return replace(plainest, **changes)


def spec(workload: str = "frac05", **changes: Any) -> WorkloadSpec:
    plainest = WorkloadSpec(id=WorkloadId(workload), name=workload, project=QueueId("vision"), created_at=NOON)
    return replace(plainest, **changes)


def event(number: int = 0) -> Event:
    return Event(at=Instant(NOON + number), kind=EventKind.CREATED, workload=WorkloadId("frac05"))


FULL_SPEC = spec(
    "train",
    kind=WorkloadKind.INFERENCE,
    template=TEMPLATE,
    leader=PodTemplate(shape=SHAPE),
    arrangement=Arrangement.REPLICAS,
    pods=4,
    minimum=2,
    completions=3,
    priority=-5,
    preemptible=False,
    restart=RestartPolicy.ALWAYS,
    retries=0,
    deadline_s=1,
    ttl_s=2,
    grace_s=3,
    pools=(PoolName("a100"), PoolName("default")),
    constraint=TopologyConstraint(topology="racks", required="rack"),
    desired_state=DesiredState.STOP,
    run=7,
)
USAGE = PodUsage(
    project=QueueId("vision"),
    pool=PoolName("a100"),
    gpus_milli=1500,
    cpu_milli=4000,
    memory_bytes=2**40,
    gpu_type="A100",
    created_at=NOON,
    bound_at=Instant(NOON + 1000),
)
FULL_POD = record(
    "train",
    3,
    12,
    shape=SHAPE,
    pod_set="workers",
    run=7,
    phase=PodPhase.ENDED,
    not_before=Instant(1),
    node=NodeName("n1"),
    devices=(0, 7),
    boot_id="b",
    promised_at=Instant(2),
    nominated=NodeName("n2"),
    started_at=Instant(3),
    cause=Cause.TIME_LIMIT,
    detail="it's \x00 late",
    outcome=Outcome.STOPPED,
    exit_code=-9,
    grace_s=0,
    attempts=2,
    retry_at=Instant(4),
    start_failure="ErrImagePull: no such image",
    usage=USAGE,
)
FULL_STATE = WorkloadState(
    workload=WorkloadId("train"),
    run=7,
    failures=1,
    refusals=2,
    failure="failed with exit code 3",
    first_incarnation=3,
    retry_at=Instant(NOON + 10_000),
    halt=Halt(WorkloadPhase.FAILED, Cause.RETRIES, NOON, "three times"),
    active_since=NOON,
    pool=PoolName("a100"),
    groups=(GroupDates(GroupId("train"), NOON, None),),
    avoided=(AvoidedNode(NodeName("n1"), NOON),),
)
FULL_EVENT = Event(
    at=NOON,
    kind=EventKind.ENDED,
    workload=WorkloadId("train"),
    pod=PodId("train-3-12"),
    node=NodeName("n1"),
    cause=Cause.TIME_LIMIT,
    detail="late",
    outcome=Outcome.STOPPED,
    exit_code=143,
    usage=USAGE,
)
ORGANIZATION = Organization(
    queues={
        PoolName("b"): (Queue(id=QueueId("d"), gpu=Entitlement(8000, -1, 0.1, 1 / 3)),),
        PoolName("a"): (Queue(id=QueueId("p"), parent=QueueId("d"), memory=Entitlement(weight=float("inf"))),),
    },
    rules={QueueId("p"): ProjectRules(interactive_limit_s=60), QueueId("q"): ProjectRules()},
    pools=(NodePool(), NodePool(name=PoolName("a"), label_key="k", label_value="v")),
    topologies=(Topology(name="racks", levels=("zone", "rack")),),
    node_overrides={NodeName("n1"): NodeOverrides(cordoned=True, taints=(Taint("x"),), labels=(("a", "b"),))},
)
FULL_ENTRY = LedgerEntry(
    specs=(spec(), FULL_SPEC),
    pods=(record(), FULL_POD),
    states=(WorkloadState(workload=WorkloadId("frac05")), FULL_STATE),
    events=(event(), FULL_EVENT),
    organization=ORGANIZATION,
    cursor=Revision(41),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest) -> NewPlace:
    """Where new ledgers are: every test that asks for it holds for both."""
    return new_place(request.param)


@contextmanager
def opened(path: LedgerStore | Path | None, **settings: Any) -> Iterator[tuple[Ledger, Token]]:
    """A ledger whose lease we hold."""
    with closing(Ledger(path, **settings)) as ledger:
        yield ledger, ledger.acquire("us", NOON)


def image_of(path: Path) -> LedgerContents:
    with closing(Ledger(path)) as ledger:
        return ledger.load()


def recorded(place: NewPlace, *entries: LedgerEntry, **settings: Any) -> LedgerContents:
    """What a new ledger holds after these."""
    with opened(place(), **settings) as (ledger, token):
        for entry in entries:
            ledger.record(entry, token, NOON)
        return ledger.load()


# --- everything comes back -----------------------------------------------------------------------------------


def test_every_value_comes_back_as_it_was(file: Path) -> None:
    with opened(file) as (ledger, token):
        ledger.record(FULL_ENTRY, token, NOON)
    with closing(Ledger(file)) as ledger:
        assert ledger.load() == LedgerContents(
            specs=FULL_ENTRY.specs,
            pods=FULL_ENTRY.pods,
            states=FULL_ENTRY.states,
            organization=ORGANIZATION,
            cursor=Revision(41),
            events_through=2,
        )
        assert ledger.events(0, 10) == [(1, event()), (2, FULL_EVENT)]


def test_a_decision_comes_back_with_its_event(file: Path) -> None:
    state = QueueState(queue="p", quota_milli=4000, fair_share_milli=4500, held_milli=6000)
    decided = DecisionRecord(
        kind=DecisionKind.TAKEN_BACK,
        pods=2,
        gpus_milli=2000,
        nodes=(NodeName("n1"), NodeName("n2")),
        project=state,
        winner="other",
        wanted_milli=2000,
        taken=state,
        gaining=state,
    )
    with opened(file) as (ledger, token):
        ledger.record(LedgerEntry(events=(replace(FULL_EVENT, decision=decided),)), token, NOON)
        ((_, back),) = ledger.events(0, 10)
        assert back.decision == decided


def test_types_come_back_too_not_only_equal_values(place: NewPlace) -> None:
    image = recorded(place, FULL_ENTRY)
    back = image.pods[1]
    assert (type(back.phase), type(back.cause), type(back.outcome)) == (PodPhase, Cause, Outcome)
    assert image.specs[1].preemptible is False
    assert image.specs[0].preemptible is None


def test_a_new_ledger_is_empty(place: NewPlace) -> None:
    assert recorded(place) == LedgerContents()


def test_the_tables_have_a_column_for_every_field() -> None:
    with closing(Ledger(None)) as ledger:
        for table in (ledger_rows.SPECS, ledger_rows.PODS, ledger_rows.STATES, ledger_rows.EVENTS):
            columns = {row[1] for row in sqlite_connection(ledger).execute(f"PRAGMA table_info({table.name})")}
            assert columns - {"number"} == set(table.columns), f"{table.name}: add a migration"


def test_random_values_come_back(place: NewPlace) -> None:
    dice = random.Random(20)
    for world in range(15):
        entry = LedgerEntry(
            specs=(replace(anything(WorkloadSpec, dice), id=WorkloadId("w")),),
            pods=(replace(anything(PodRecord, dice), id=PodId("p")),),
            states=(replace(anything(WorkloadState, dice), workload=WorkloadId("w")),),
            organization=anything(Organization, dice),
        )
        image = recorded(place, entry)
        assert image.specs == entry.specs, f"seed 20, world {world}"
        assert image.pods == entry.pods, f"seed 20, world {world}"
        assert image.states == entry.states, f"seed 20, world {world}"
        assert image.organization == entry.organization, f"seed 20, world {world}"


def anything(hint: Any, dice: random.Random) -> Any:
    """Some value of a type."""
    hint = getattr(hint, "__supertype__", hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        inner = next(part for part in parts if part is not NoneType)
        return None if dice.random() < 0.4 else anything(inner, dice)
    if origin is tuple and parts[-1] is Ellipsis:
        return tuple(anything(parts[0], dice) for _ in range(dice.randrange(3)))
    if origin is tuple:
        return tuple(anything(part, dice) for part in parts)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {anything(parts[0], dice): anything(parts[1], dice) for _ in range(dice.randrange(3))}
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{each.name: anything(hints[each.name], dice) for each in fields(hint)})  # type: ignore[operator]
    if issubclass(hint, StrEnum):
        return dice.choice(list(hint))
    scalars: dict[type, Callable[[], Any]] = {
        bool: lambda: dice.random() < 0.5,
        int: lambda: dice.choice([0, 1, -1, dice.randrange(2**63), -(2**63)]),
        float: lambda: dice.choice([0.0, -0.0, dice.random(), 1e300, float("inf")]),
        str: lambda: "".join(dice.choice("aé☃𝄞\x00\n'\"\\{") for _ in range(dice.randrange(6))),
    }
    return scalars[hint]()


def test_pods_of_equal_shape_share_one_shape_when_loaded(place: NewPlace) -> None:
    pods = tuple(record("w", index, shape=PodShape(cpu_milli=1000)) for index in range(3))
    first, second, third = recorded(place, LedgerEntry(pods=pods)).pods
    assert first.shape is second.shape is third.shape


def test_the_order_in_which_things_were_written_does_not_matter(place: NewPlace) -> None:
    one, two = (
        LedgerEntry(pods=(record("a"),), specs=(spec("a"),)),
        LedgerEntry(pods=(record("b"),), specs=(spec("b"),)),
    )
    assert recorded(place, one, two) == recorded(place, two, one)


# --- what an entry does --------------------------------------------------------------------------------------


def test_a_later_value_takes_the_place_of_an_earlier_one(place: NewPlace) -> None:
    later = record(phase=PodPhase.BOUND, node=NodeName("n1"))
    image = recorded(place, FULL_ENTRY, LedgerEntry(pods=(later,), specs=(spec(pods=9),), cursor=Revision(42)))
    assert image.pods == (later, FULL_POD)
    assert [each.pods for each in image.specs] == [9, 4]
    assert image.cursor == 42
    assert image.organization == ORGANIZATION, "what an entry does not mention stays"


def test_an_undesired_workload_loses_its_declaration_only(place: NewPlace) -> None:
    image = recorded(place, FULL_ENTRY, LedgerEntry(undesired=(WorkloadId("train"),)))
    assert image.specs == (spec(),)
    assert image.pods == FULL_ENTRY.pods
    assert image.states == FULL_ENTRY.states


def test_a_dropped_workload_is_gone_with_all_its_pods(place: NewPlace) -> None:
    image = recorded(place, FULL_ENTRY, LedgerEntry(dropped=(WorkloadId("train"),), pods=(record("train", 8),)))
    assert image.specs == (spec(),)
    assert image.pods == (record(),)
    assert image.states == (WorkloadState(workload=WorkloadId("frac05")),)


def test_a_forgotten_pod_is_gone_however_often_it_is_forgotten(place: NewPlace) -> None:
    gone = (FULL_POD.id, PodId("never-0-0"))
    image = recorded(place, FULL_ENTRY, LedgerEntry(forgotten=gone), LedgerEntry(forgotten=gone))
    assert image.pods == (record(),)


def test_only_what_has_ended_can_be_forgotten(place: NewPlace) -> None:
    with pytest.raises(AssertionError, match="frac05-0-0 is waiting"):
        recorded(place, FULL_ENTRY, LedgerEntry(forgotten=(record().id,)))


def test_events_are_numbered_once_and_leave_some_days_after_they_were_delivered(place: NewPlace) -> None:
    with opened(place()) as (ledger, token):
        ledger.record(LedgerEntry(events=(event(1), event(2), event(3))), token, NOON)
        assert [number for number, _ in ledger.events(1, 1)] == [2]
        ledger.record(LedgerEntry(acknowledged=2), token, NOON)
        assert len(ledger.events(0, 10)) == 3, "a control plane that is put back to a backup asks for them again"
        assert ledger.load().delivered == 2
        later = Instant(NOON + DELIVERED_S * 1000 + 10)
        ledger.record(LedgerEntry(acknowledged=2), token, later)
        assert ledger.events(0, 10) == [(3, event(3))], "it was not delivered yet"
        ledger.record(LedgerEntry(acknowledged=99, events=(event(4),)), token, later)
        assert ledger.events(0, 10) == [(4, event(4))], "a number above all that were given takes no new event along"
        assert (ledger.load().events_through, ledger.load().delivered) == (4, 3)


def test_a_control_plane_that_was_put_back_has_fewer_events_delivered(place: NewPlace) -> None:
    with opened(place()) as (ledger, token):
        ledger.record(LedgerEntry(events=(event(1), event(2), event(3))), token, NOON)
        ledger.record(LedgerEntry(acknowledged=3), token, NOON)
        ledger.record(LedgerEntry(acknowledged=1), token, NOON)
        assert ledger.load().delivered == 1


def test_an_event_that_an_older_version_called_born_is_a_creation(file: Path) -> None:
    with opened(file) as (ledger, token):
        ledger.record(LedgerEntry(events=(event(1),)), token, NOON)
    with closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute("UPDATE events SET kind = 'born' WHERE kind = 'created'").rowcount == 1
    with closing(Ledger(file)) as ledger:
        assert ledger.events(0, 10) == [(1, event(1))]


def test_events_that_are_never_fetched_are_dropped_and_counted_the_oldest_first(place: NewPlace) -> None:
    with opened(place(), events_max=3) as (ledger, token):
        for number in range(1, 6):
            ledger.record(LedgerEntry(events=(event(number),)), token, NOON)
        assert ledger.events(0, 10) == [(3, event(3)), (4, event(4)), (5, event(5))]
        ledger.record(LedgerEntry(events=tuple(map(event, range(6, 16)))), token, NOON)
        assert [number for number, _ in ledger.events(0, 10)] == [13, 14, 15]
        image = ledger.load()
        assert (image.events_through, image.dropped_events) == (15, 12)


# --- all of an entry or nothing ------------------------------------------------------------------------------


class Crash(BaseException):
    """The process dies here."""


@dataclass
class Fuse:
    """Crashes at one step, once it is lit."""

    step: str = ""
    seen: list[str] = field(default_factory=list)

    def __call__(self, step: str) -> None:
        self.seen.append(step)
        if step == self.step:
            raise Crash


@pytest.mark.parametrize("path_kind", ["file", "memory", "postgresql"])
@pytest.mark.parametrize(("step", "is_written"), [(BEFORE_BEGIN, False), (BEFORE_COMMIT, False), (AFTER_COMMIT, True)])
def test_a_crash_at_any_step_leaves_all_or_nothing(step: str, is_written: bool, path_kind: str, file: Path) -> None:
    fuse = Fuse()
    path = {"file": file, "memory": None}.get(path_kind) or new_place(path_kind)()
    with opened(path, on_step=fuse) as (ledger, token):
        ledger.record(LedgerEntry(pods=(record("old"),), events=(event(),)), token, NOON)
        before = ledger.load()
        fuse.step = step
        with pytest.raises(Crash):
            ledger.record(FULL_ENTRY, token, NOON)
        fuse.step = ""
        after = ledger.load()
        assert (after != before) is is_written
        assert after.events_through == (3 if is_written else 1)
        if isinstance(path, Path):
            assert image_of(path) == after, "another process sees the same"
        ledger.record(FULL_ENTRY, token, NOON)
        assert ledger.load().pods == (record(), record("old"), FULL_POD), "and it can be written to as before"


def test_the_steps_have_names(place: NewPlace) -> None:
    fuse = Fuse()
    with opened(place(), on_step=fuse):
        assert fuse.seen == [BEFORE_BEGIN, BEFORE_COMMIT, AFTER_COMMIT]


def test_a_value_that_cannot_be_written_takes_the_whole_entry_back(place: NewPlace) -> None:
    with opened(place()) as (ledger, token):
        with pytest.raises(Exception, match=r"too large|out of int64 range"):
            ledger.record(LedgerEntry(cursor=Revision(5), pods=(record(since=2**70),)), token, NOON)
        assert ledger.load() == LedgerContents()


# --- one writer at a time ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "after_ms", "outcome"),
    [
        pytest.param("them", 0, "held", id="another at once"),
        pytest.param("them", LEASE_MS - 1, "held", id="another just before it ends"),
        pytest.param("them", LEASE_MS, "taken", id="another when it has ended"),
        pytest.param("us", 0, "taken", id="the same holder at once"),
        pytest.param("them", -LEASE_MS, "held", id="a clock a little behind"),
        pytest.param("them", -10 * LEASE_MS, "taken", id="a clock that was set back"),
    ],
)
def test_who_may_take_the_lease(who: str, after_ms: int, outcome: str, place: NewPlace) -> None:
    with opened(place()) as (ledger, first):
        later = Instant(NOON + after_ms)
        if outcome == "held":
            with pytest.raises(LeaseHeld) as held:
                ledger.acquire(who, later)
            assert (held.value.holder, held.value.until) == ("us", NOON + LEASE_MS)
            ledger.record(LedgerEntry(), first, later)
        else:
            assert ledger.acquire(who, later) > first
            with pytest.raises(LeaseLost, match=f"{who} has taken over"):
                ledger.record(LedgerEntry(), first, later)


def test_a_token_is_above_what_the_engine_has_seen(place: NewPlace) -> None:
    with opened(place()) as (ledger, first):
        assert first == 1
        assert ledger.acquire("us", NOON, at_least=Token(41)) == 42
        assert ledger.acquire("us", NOON, at_least=Token(7)) == 43


def test_a_renewed_lease_lasts_from_then_on_and_so_does_one_with_an_entry(place: NewPlace) -> None:
    with opened(place()) as (ledger, token):
        ledger.renew(token, Instant(NOON + 10_000))
        ledger.record(LedgerEntry(), token, Instant(NOON + 20_000))
        with pytest.raises(LeaseHeld):
            ledger.acquire("them", Instant(NOON + 20_000 + LEASE_MS - 1))


def test_an_expired_lease_is_valid_until_another_loop_acquires_it(place: NewPlace) -> None:
    with opened(place()) as (ledger, token):
        ledger.record(LedgerEntry(cursor=Revision(1)), token, Instant(NOON + 10 * LEASE_MS))
        assert ledger.load().cursor == 1


def test_a_lease_given_back_is_free_at_once_and_over_for_its_holder(place: NewPlace) -> None:
    with opened(place()) as (ledger, first):
        ledger.release(first)
        with pytest.raises(LeaseLost, match="released"):
            ledger.renew(first, NOON)
        second = ledger.acquire("them", NOON)
        assert second > first
        ledger.release(first)  # no longer ours: nothing happens
        ledger.record(LedgerEntry(), second, NOON)


def test_an_entry_with_an_old_token_changes_nothing(place: NewPlace) -> None:
    with opened(place()) as (ledger, first):
        second = ledger.acquire("us", NOON)
        with pytest.raises(LeaseLost) as lost:
            ledger.record(FULL_ENTRY, first, NOON)
        assert (lost.value.token, lost.value.current) == (first, second)
        assert ledger.load() == LedgerContents()


# --- files that cannot be used -------------------------------------------------------------------------------


def refused(path: Path) -> Problem:
    with pytest.raises(LedgerProblem) as raised:
        Ledger(path, busy_s=0.05)
    problem = raised.value.problem
    assert problem.fix
    return problem


def test_a_newer_file_is_refused_and_left_alone(file: Path) -> None:
    with closing(Ledger(file)):
        pass
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = file.read_bytes()
    problem = refused(file)
    assert problem.code == "ledger.newer"
    assert f"version 99, this one reads {ledger_schema.VERSION}" in problem.what
    assert file.read_bytes() == before


def test_a_file_that_a_newer_program_migrated_beneath_us_is_not_written_to(file: Path) -> None:
    with opened(file) as (ledger, token):
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA user_version = 99")
        with pytest.raises(LedgerProblem, match="newer Fairpool"):
            ledger.record(FULL_ENTRY, token, NOON)


def test_a_text_file_is_no_ledger(file: Path) -> None:
    file.write_text("this is not a database, and long enough to have a header\n" * 40)
    assert refused(file).code == "ledger.damaged"


def test_a_database_of_another_program_is_left_alone(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE bookmarks (address TEXT)")
    before = file.read_bytes()
    assert refused(file).code == "ledger.foreign"
    assert file.read_bytes() == before


def test_an_empty_file_becomes_a_ledger(file: Path) -> None:
    file.touch()
    assert image_of(file) == LedgerContents()


def test_a_file_with_pages_overwritten_is_refused(file: Path) -> None:
    with opened(file) as (ledger, token):
        ledger.record(LedgerEntry(pods=tuple(record("w", index) for index in range(300))), token, NOON)
    data = bytearray(file.read_bytes())
    data[4096 : 4096 * 30] = bytes(random.Random(1).randbytes(4096 * 29))
    file.write_bytes(data)
    problem = refused(file)
    assert problem.code == "ledger.damaged"
    assert "are found by their engine" in problem.fix


def test_a_file_that_is_cut_off_is_refused(file: Path) -> None:
    with opened(file) as (ledger, token):
        ledger.record(LedgerEntry(pods=tuple(record("w", index) for index in range(300))), token, NOON)
    file.write_bytes(file.read_bytes()[: 4096 * 5])
    assert refused(file).code == "ledger.damaged"


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE pods SET phase = 'asleep'", "'asleep' is not one of: waiting"),
        ("UPDATE pods SET shape = '{'", "is not JSON"),
        ("""UPDATE pods SET shape = '{"gpus": 1}'""", "PodShape has no field 'gpus'; it has gpu, cpu_milli"),
        ("""UPDATE pods SET shape = '{"gpu": {"devices": true}}'""", "PodShape.gpu: GpuRequest.devices: True is not"),
        ("UPDATE organization SET body = '[]'", "[] is not an object"),
        ("""UPDATE organization SET body = '{"topologies": [{}]}'""", "Topology lacks name"),
    ],
)
def test_content_from_elsewhere_is_refused_with_its_place(statement: str, says: str, file: Path) -> None:
    with opened(file) as (ledger, token):
        ledger.record(FULL_ENTRY, token, NOON)
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(statement)
        with pytest.raises(LedgerProblem) as raised:
            ledger.load()
    assert raised.value.problem.code == "ledger.content"
    assert says in raised.value.problem.what


def test_a_field_that_is_missing_takes_its_default() -> None:
    assert plain.decode(PodShape, {"gpu": {"devices": 3}}) == PodShape(gpu=whole_gpus(3))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert refused(tmp_path / "nowhere" / "ledger.db").code == "ledger.no_folder"


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    assert refused(tmp_path).code == "ledger.not_a_file"


@contextmanager
def as_a_user_without_rights() -> Iterator[None]:
    """The superuser may write everywhere; tests that run as one step down for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("folder_mode", "file_mode"),
    [
        pytest.param(0o555, None, id="a new file in a read-only folder"),
        pytest.param(0o555, 0o666, id="a file in a read-only folder, where no log can be made"),
        pytest.param(0o777, 0o444, id="a read-only file"),
        pytest.param(0o777, 0o000, id="a file that cannot even be read"),
    ],
)
def test_what_may_not_be_written_is_refused(folder_mode: int, file_mode: int | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        if file_mode is not None:
            Ledger(path).close()
            path.chmod(file_mode)
        Path(folder).chmod(folder_mode)
        with as_a_user_without_rights():
            problem = refused(path)
        Path(folder).chmod(0o755)
    assert problem.code == "ledger.not_writable"


def test_the_file_is_for_its_owner_only(file: Path) -> None:
    with opened(file) as (ledger, token):
        ledger.record(FULL_ENTRY, token, NOON)
        modes = {each.name: each.stat().st_mode & 0o777 for each in file.parent.iterdir()}
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}


# --- the disk's errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path_kind", ["file", "memory"])
def test_a_full_disk_takes_nothing_and_the_ledger_works_when_there_is_space_again(path_kind: str, file: Path) -> None:
    path = file if path_kind == "file" else None
    large = LedgerEntry(pods=tuple(record("w", index, detail="x" * 900) for index in range(500)), cursor=Revision(1))
    with opened(path) as (ledger, token):
        ledger.record(LedgerEntry(pods=(record("old"),)), token, NOON)
        before = ledger.load()
        (pages,) = sqlite_connection(ledger).execute("PRAGMA page_count").fetchone()
        sqlite_connection(ledger).execute(f"PRAGMA max_page_count = {pages + 3}")
        for _ in range(2):
            with pytest.raises(LedgerUnavailable) as raised:
                ledger.record(large, token, NOON)
            assert raised.value.problem.code == "ledger.disk_full"
            assert ledger.load() == before
        ledger.renew(token, NOON)
        sqlite_connection(ledger).execute("PRAGMA max_page_count = 1000000")
        ledger.record(large, token, NOON)
        assert len(ledger.load().pods) == 501


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("SQLITE_IOERR_FSYNC", "ledger.disk_failing"),
        ("SQLITE_IOERR_WRITE", "ledger.disk_failing"),
        ("SQLITE_READONLY", "ledger.disk_failing"),
        ("SQLITE_FULL", "ledger.disk_full"),
    ],
)
def test_an_error_of_the_disk_takes_the_entry_back(name: str, code: str, file: Path) -> None:
    failing = False

    def fail(step: str) -> None:
        if failing and step == BEFORE_COMMIT:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = getattr(sqlite3, name)
            raise error

    with opened(file, on_step=fail) as (ledger, token):
        failing = True
        with pytest.raises(LedgerUnavailable) as raised:
            ledger.record(FULL_ENTRY, token, NOON)
        failing = False
        assert raised.value.problem.code == code
        assert ledger.load() == LedgerContents()
        ledger.record(FULL_ENTRY, token, NOON)
        assert ledger.load().cursor == 41


def test_a_file_that_another_process_holds_is_given_up_after_a_while(file: Path) -> None:
    with opened(file, busy_s=0.05) as (ledger, token):
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(LedgerUnavailable) as raised:
                ledger.record(FULL_ENTRY, token, NOON)
            assert raised.value.problem.code == "ledger.busy"
            with pytest.raises(LedgerUnavailable):
                Ledger(file, busy_s=0.05)
        ledger.record(FULL_ENTRY, token, NOON)


def test_a_commit_is_on_the_disk_when_it_returns_and_the_log_is_bounded(file: Path) -> None:
    with opened(file) as (ledger, _):
        settings = [
            sqlite_connection(ledger).execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "journal_size_limit")
        ]
    assert settings == ["wal", 2, ledger_file.LOG_KEPT_BYTES]


@pytest.mark.slow
def test_file_and_log_stop_growing(file: Path) -> None:
    """The same number of pods and undelivered events, over and over, and a tenth more room than that needs."""
    with opened(file, events_max=500) as (ledger, token):
        sqlite_connection(ledger).execute("PRAGMA synchronous = OFF")  # for the test's speed
        sizes = []
        for turn in range(300):
            ended = [record("w", index, turn, phase=PodPhase.ENDED, detail="x" * 300) for index in range(50)]
            gone = tuple(pod_id(WorkloadId("w"), index, turn - 2) for index in range(50))
            entry = LedgerEntry(pods=tuple(ended), forgotten=gone, events=tuple(map(event, range(50))))
            ledger.record(entry, token, NOON)
            sizes.append(file.stat().st_size + file.with_name("ledger.db-wal").stat().st_size)
        assert len(ledger.load().pods) == 100
    assert max(sizes[150:]) <= 1.1 * max(sizes[:150])


# --- older files ---------------------------------------------------------------------------------------------


def version_1(path: Path) -> None:
    """A file as the first version wrote it, with every kind of row."""
    missing = {
        "specs": {"after", "array", "distributed"},
        "lives": {"trouble", "usage"},
        "standings": {"refusals", "failure", "first_incarnation", "met", "retry_at"},
        "events": {"outcome", "exit_code", "usage", "decision"},
    }
    names_then = {
        "specs": {"desired_state": "want"},
        "lives": {"created_at": "born_at", "start_failure": "trouble"},
        "standings": {},
    }
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        for statement in ledger_schema.MIGRATIONS[0]:
            connection.execute(statement)
        connection.execute("PRAGMA user_version = 1")
        entries: list[tuple[str, ledger_rows.LedgerTable[Any], tuple[Any, ...]]] = [
            ("specs", ledger_rows.SPECS, FULL_ENTRY.specs),
            ("lives", ledger_rows.PODS, FULL_ENTRY.pods),
            ("standings", ledger_rows.STATES, FULL_ENTRY.states),
        ]
        for name_then, table, values in entries:
            for value in values:
                cells = dict(zip(table.columns, table.row(value), strict=True))
                cells = {names_then[name_then].get(name, name): cell for name, cell in cells.items()}
                kept = {name: cell for name, cell in cells.items() if name not in missing[name_then]}
                names = ", ".join(f'"{name}"' for name in kept)
                blanks = ", ".join("?" * len(kept))
                connection.execute(f"INSERT INTO {name_then} ({names}) VALUES ({blanks})", list(kept.values()))
        cells = dict(zip(ledger_rows.EVENTS.columns, ledger_rows.EVENTS.row(FULL_EVENT), strict=True))
        cells = {name: cell for name, cell in cells.items() if name not in missing["events"]}
        connection.execute(
            f"INSERT INTO events (number, {', '.join(cells)}) VALUES (17, {', '.join('?' * len(cells))})",
            list(cells.values()),
        )
        connection.execute("UPDATE progress SET cursor = 41, events_through = 17")
        connection.execute("UPDATE lease SET token = 5, holder = 'them', renewed_at = ?, expires_at = ?", (NOON, NOON))
        connection.execute("COMMIT")


def test_a_file_of_version_1_is_migrated_with_all_its_rows_and_a_copy_is_kept(file: Path) -> None:
    version_1(file)
    with closing(Ledger(file)) as ledger:
        image = ledger.load()
        assert image.specs == FULL_ENTRY.specs
        assert image.pods == tuple(replace(each, start_failure="", usage=None) for each in FULL_ENTRY.pods)
        assert image.states == tuple(
            replace(each, refusals=0, failure="", first_incarnation=0, retry_at=Instant(0))
            for each in FULL_ENTRY.states
        )
        assert (image.cursor, image.events_through) == (41, 17)
        assert ledger.events(0, 10) == [(17, replace(FULL_EVENT, outcome=None, exit_code=None, usage=None))]
        token = ledger.acquire("us", NOON)
        assert token == 6, "tokens go on rising"
        ledger.record(FULL_ENTRY, token, NOON)
        assert ledger.load().pods == FULL_ENTRY.pods, "what is new can be written"
    copy = file.with_name("ledger.db.v1-backup")
    with closing(sqlite3.connect(copy)) as connection:
        assert ledger_schema.schema_version(connection) == 1
        assert connection.execute("SELECT count(*) FROM lives").fetchone() == (2,)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in file.parent.iterdir()) == ["ledger.db", "ledger.db.v1-backup"]


def test_a_file_of_version_6_is_read_under_the_names_of_this_version(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((DATA / "ledger-6.sql").read_text())
    with closing(Ledger(file)) as ledger:
        image = ledger.load()
        assert image.specs == FULL_ENTRY.specs
        assert image.pods == tuple(
            replace(each, detail=each.detail.replace("\0", ""), usage=None) for each in FULL_ENTRY.pods
        )
        assert image.states == tuple(replace(each, retry_at=Instant(0)) for each in FULL_ENTRY.states)
        assert image.organization == ORGANIZATION
        assert [each for _, each in ledger.events(0, 10)] == [replace(each, usage=None) for each in FULL_ENTRY.events]
    assert file.with_name("ledger.db.v6-backup").exists()


def test_a_migration_that_fails_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version_1(file)
    broken = (*ledger_schema.START_FAILURES, "ALTER TABLE nothing ADD COLUMN more TEXT")
    with monkeypatch.context() as patch:
        patch.setattr(ledger_schema, "MIGRATIONS", (ledger_schema.FIRST, broken))
        with pytest.raises(sqlite3.OperationalError):
            Ledger(file)
    with closing(sqlite3.connect(file)) as connection:
        assert ledger_schema.schema_version(connection) == 1
    assert len(image_of(file).pods) == 2


def test_a_file_of_this_version_is_not_copied(file: Path) -> None:
    for _ in range(2):
        with closing(Ledger(file)):
            pass
    assert [each.name for each in file.parent.iterdir()] == ["ledger.db"]


# --- real processes ------------------------------------------------------------------------------------------

CONTENDER = """
import sys
from pathlib import Path
from fairpool.cluster.ledger import LeaseHeld, Ledger
from fairpool.model.ids import Instant

sys.stdin.readline()
try:
    print("took", Ledger(Path(sys.argv[1])).acquire(sys.argv[2], Instant(int(sys.argv[3]))))
except LeaseHeld as held:
    print("held", held.holder)
"""


@pytest.mark.slow
def test_of_several_processes_one_gets_the_lease(file: Path) -> None:
    """Also of a file that none of them has made yet."""
    for turn in range(3):
        now = str(NOON + turn * LEASE_MS)
        contenders = [python(CONTENDER, str(file), f"process {each}", now) for each in range(4)]
        for contender in contenders:
            assert contender.stdin is not None
            contender.stdin.write("go\n")
            contender.stdin.flush()
        answers = [contender.communicate(timeout=60)[0].split(maxsplit=1) for contender in contenders]
        took = [who for who, answer in enumerate(answers) if answer[0] == "took"]
        assert len(took) == 1, answers
        assert answers[took[0]][1].strip() == str(turn + 1)
        others = [answer for answer in answers if answer[0] != "took"]
        assert all(answer == ["held", f"process {took[0]}\n"] for answer in others)


WRITER = """
import sys
from pathlib import Path
from fairpool.cluster.ledger import Ledger, LedgerEntry
from fairpool.model.ids import Instant, Revision
from tests.specification.test_ledger import NOON, event, record

ledger = Ledger(Path(sys.argv[1]))
token = ledger.acquire("writer", NOON)
turn = ledger.load().cursor or 0
while True:
    turn += 1
    pods = tuple(record("w", index, turn, detail="x" * 200) for index in range(10))
    entry = LedgerEntry(pods=pods, events=(event(turn), event(turn)), cursor=Revision(turn))
    ledger.record(entry, token, NOON)
    print(turn, flush=True)
"""


@pytest.mark.slow
def test_after_a_kill_the_file_holds_whole_entries_and_all_that_were_confirmed(file: Path) -> None:
    dice = random.Random(9)
    confirmed = 0
    for _ in range(6):
        writer = python(WRITER, str(file))
        assert writer.stdout is not None
        for _ in range(dice.randrange(1, 120)):
            confirmed = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        # What it still said before it died counts as well. Not `communicate`, which skips lines that were read ahead.
        confirmed = max([confirmed, *map(int, writer.stdout.read().split())])
        writer.communicate()
        with closing(Ledger(file)) as ledger:
            image = ledger.load()
            written = image.cursor or 0
            assert confirmed <= written <= confirmed + 1
            assert len(image.pods) == 10 * written
            assert {each.incarnation for each in image.pods} == set(range(1, written + 1))
            assert image.events_through == len(ledger.events(0, 10**6)) == 2 * written
            confirmed = written


def python(program: str, *arguments: str) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, cwd=root, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_text_that_is_none_is_said_to_be_damage(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as other, other:
        other.execute("INSERT INTO organization VALUES (1, CAST(x'c328' AS TEXT))")
    with pytest.raises(LedgerProblem) as refused:
        ledger.load()
    assert refused.value.problem.code == "ledger.damaged"
    assert refused.value.problem.what.isprintable()
    ledger.close()
