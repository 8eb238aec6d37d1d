"""What travels arrives: every field of every declaration and report, or a sentence saying why not."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import cache
from hashlib import sha256
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from fairpool.api import clusters, declarations
from fairpool.api.clusters import (
    DecisionReport,
    DesiredWorkload,
    EventReport,
    GoneReport,
    NameRange,
    NodeReport,
    Over,
    Piece,
    PodReport,
    PullAnswer,
    PushAnswer,
    PushReport,
    QueueReport,
    QueueStateReport,
    UsageReport,
    WaitReport,
    WorkloadReport,
)
from fairpool.api.declarations import DeclaredTaint, OrganizationWire, WorkloadWire
from fairpool.api.message import PREVIOUS, VERSION, Message, Wire, read_message
from fairpool.model.container_rules import Privilege
from fairpool.model.decision_record import DecisionKind
from fairpool.model.ids import GroupId, Instant, NodeName, PodId, PoolName, QueueId, Revision, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import MigStrategy, TaintEffect
from fairpool.model.organization import Organization
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.problem import Problem
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.spec import WorkloadSpec
from fairpool.model.status import HOLDS_NOTHING, WaitReason, WorkloadPhase
from fairpool.model.workload import PodShape

WORDS = ("a", "zone", "with space", "umlaut ä, 漢字", 'quote " and \\', "line\nbreak", "nvidia.com/mig-3g.20gb")


def dealt(hint: Any, dice: random.Random) -> Any:
    """A random value of a type of the model, so that a new field is tried without being listed here."""
    if hasattr(hint, "__supertype__"):
        return dealt(hint.__supertype__, dice)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (inner,) = (part for part in parts if part is not NoneType)
        return None if dice.random() < 0.4 else dealt(inner, dice)
    if origin is tuple and parts[1:] == (Ellipsis,):
        return tuple(dealt(parts[0], dice) for _ in range(dice.randrange(3)))
    if origin is tuple:
        return tuple(dealt(part, dice) for part in parts)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {dealt(parts[0], dice): dealt(parts[1], dice) for _ in range(dice.randrange(3))}
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return dice.choice(list(hint))
    if dataclasses.is_dataclass(hint):
        cls: Any = hint
        return cls(**{name: dealt(inner, dice) for name, inner in hints_of(cls).items()})
    plain: dict[Any, Callable[[], object]] = {
        bool: lambda: dice.random() < 0.5,
        int: lambda: dice.choice((0, 1, 7, WHOLE_GPU_MILLI)),
        float: lambda: dice.choice((0.0, 1.0, 0.1, 1 / 3, 1e-9)),
        str: lambda: dice.choice(WORDS),
    }
    return plain[hint]()


@cache
def hints_of(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def desired(
    spec: WorkloadSpec, over: Over | None = None, incarnations: Mapping[int, int] | None = None
) -> DesiredWorkload:
    return DesiredWorkload.of_declared(WorkloadWire.of(spec)).with_reported(over, incarnations or {}, ())


def test_a_workload_is_the_same_after_the_journey() -> None:
    for seed in range(100):
        spec: WorkloadSpec = dealt(WorkloadSpec, random.Random(seed))
        arrived = DesiredWorkload.from_json(desired(spec).to_json())
        assert arrived.to_spec() == spec, f"seed {seed}"


def test_an_organization_is_the_same_after_the_journey() -> None:
    for seed in range(100):
        organization: Organization = dealt(Organization, random.Random(seed))
        arrived = OrganizationWire.from_json(OrganizationWire.of(organization).to_json())
        assert arrived.to_organization() == organization, f"seed {seed}"


def test_any_mapping_of_the_model_can_travel() -> None:
    frozen = Organization(queues=MappingProxyType({}), rules=MappingProxyType({}))
    assert OrganizationWire.of(frozen).to_organization() == Organization()


def test_amounts_beyond_64_bits_and_unlimited_quotas_keep_their_value() -> None:
    spec = WorkloadSpec(id=WorkloadId("w"), name="", project=QueueId("p"), created_at=Instant(2**70), priority=-(2**70))
    assert DesiredWorkload.from_json(desired(spec).to_json()).to_spec() == spec


MIRRORS = [
    each
    for module in (declarations, clusters)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, Wire) and each.mirrors is not None
]


@pytest.mark.parametrize("wire", MIRRORS, ids=lambda wire: wire.__name__)
def test_a_wire_has_every_field_of_what_it_carries(wire: type[Wire]) -> None:
    of_the_model = {each.name for each in dataclasses.fields(wire.mirrors)}
    of_its_own = {"over", "incarnations", "done"} if wire is DesiredWorkload else set()
    assert set(wire.model_fields) == of_the_model | of_its_own


def test_what_was_reported_travels_with_a_workload() -> None:
    over = Over(run=2, phase=WorkloadPhase.FAILED, cause=Cause.RETRIES, at=Instant(5), detail="six times")
    spec = WorkloadSpec(id=WorkloadId("w"), name="w", project=QueueId("p"), created_at=Instant(1))
    arrived = DesiredWorkload.from_json(desired(spec, over, {0: 3, 11: 0}).to_json())
    assert (arrived.over, arrived.incarnations) == (over, {0: 3, 11: 0})


POD = PodReport(
    id=PodId("w-0-1"),
    index=0,
    incarnation=1,
    phase=PodPhase.ENDED,
    node=NodeName("n1"),
    devices=(0, 3),
    started_at=Instant(4),
    outcome=Outcome.ERROR,
    cause=Cause.EXITED,
    detail="out of memory",
    exit_code=137,
    start_failure="slow",
    gpus_milli=500,
    cpu_milli=1500,
    memory_bytes=4096,
)
WORKLOAD = WorkloadReport(
    id=WorkloadId("w"),
    run=2,
    phase=WorkloadPhase.PENDING,
    reason=WaitReason.BACK_OFF,
    detail="waits",
    pool=PoolName("a100"),
    gpus_milli=500,
    cpu_milli=1500,
    memory_bytes=4096,
    pods=(POD,),
    since=Instant(9),
    failures=3,
    next_try_at=Instant(12),
    waiting_since=Instant(8),
    wait=WaitReport(cause="not_its_turn", waiting=2, running=1, failed=("room",), details={"askedMilli": 1000}),
)
NODE = NodeReport(
    name=NodeName("n1"),
    pool=PoolName("a100"),
    ready=False,
    cordoned=True,
    silent_since=Instant(3),
    gpus=8,
    cpu_milli=80_000,
    memory_bytes=512 * 10**9,
    gpu_memory_mib=32_510,
    gpus_withheld=(3,),
    message="GPU 3 is not scheduled: the driver reports GPU is lost",
    labels={"fairpool/simulated": "true"},
    images=("python", "*/quickstart"),
    taints=(DeclaredTaint(key="team", value="b", effect=TaintEffect.NO_SCHEDULE),),
    mig_strategy=MigStrategy.MIXED,
    counted={"nvidia.com/mig-1g.10gb": 4},
    privileges=(Privilege.HOST_IPC,),
    directory_users=True,
)
UNKNOWN_BEFORE = {"taints": (), "mig_strategy": None, "counted": None, "privileges": None, "directory_users": False}
"""Fields of a node that the previous version does not know."""
QUEUE = QueueReport(
    pool=PoolName("a100"), queue=QueueId("vision"), quota_milli=-1, fair_share_milli=1500, held_milli=500
)
QUEUE_STATE = QueueStateReport(queue="vision", quota_milli=4000, fair_share_milli=5000, held_milli=6000)
EVENT = EventReport(
    number=7,
    at=Instant(9),
    kind="ended",
    workload=WorkloadId("w"),
    pod=PodId("w-0-1"),
    node=NodeName("n1"),
    cause="exited",
    detail="137",
    outcome=Outcome.ERROR,
    exit_code=137,
    usage=UsageReport(
        project=QueueId("vision"),
        pool=PoolName("a100"),
        gpus_milli=1500,
        cpu_milli=4000,
        memory_bytes=2**40,
        gpu_type="A100",
        created_at=Instant(3),
        bound_at=Instant(5),
    ),
    decision=DecisionReport(
        kind=DecisionKind.TAKEN_BACK,
        pods=1,
        gpus_milli=2000,
        lent_milli=1000,
        nodes=(NodeName("n1"),),
        project=QUEUE_STATE,
        winner="other",
        wanted_milli=2000,
        taken=QUEUE_STATE,
        gaining=QUEUE_STATE,
    ),
)
SPEC = WorkloadSpec(id=WorkloadId("w"), name="w", project=QueueId("vision"), created_at=Instant(1))
MESSAGES: list[Message] = [
    PullAnswer(
        after=Revision(3),
        revision=Revision(9),
        whole=True,
        workloads=(desired(SPEC),),
        removed=(WorkloadId("x"),),
        organization=OrganizationWire.of(Organization()),
        reported_token=Token(4),
        reported_events=17,
    ),
    PushReport(
        cluster="here",
        token=Token(4),
        number=12,
        after=11,
        whole=True,
        piece=Piece(
            first=True,
            last=True,
            workloads=NameRange(after=("a",)),
            nodes=NameRange(through=("n",)),
            queues=NameRange(after=("p", "q")),
        ),
        at=Instant(10),
        workloads=(WORKLOAD,),
        gone=(GoneReport(id=WorkloadId("y"), run=1),),
        nodes=(NODE,),
        nodes_gone=(NodeName("n2"),),
        queues=(QUEUE,),
        queues_gone=((PoolName("a100"), QueueId("old")),),
        events=(EVENT,),
        events_after=6,
    ),
    PushAnswer(token=Token(4), number=12, taken=False, events_through=7, resync=True),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_the_same_after_the_journey_in_every_field(message: Message) -> None:
    unset = {
        name for name, field in type(message).model_fields.items() if getattr(message, name) == field.get_default()
    }
    assert unset == {"version"}, "the example leaves fields as they are by default, and so does not show them arriving"
    assert read_message(type(message), message.to_json()) == message


RENAMED = {
    "want": "desired_state",
    "marks": "node_overrides",
    "trouble": "start_failure",
    "words": "message",
    "heard_token": "reported_token",
    "heard_events": "reported_events",
    "want_whole": "resync",
}


def keys_in(value: Any) -> set[str]:
    if isinstance(value, list):
        return {key for each in value for key in keys_in(each)}
    return set(value).union(*map(keys_in, value.values())) if isinstance(value, dict) else set()


def test_renamed_fields_have_the_names_that_the_other_side_knows() -> None:
    today, before = (
        {key for each in MESSAGES for key in keys_in(json.loads(each.to_json(version)))}
        for version in (VERSION, PREVIOUS)
    )
    assert (today & RENAMED.keys(), RENAMED.keys() - before) == (set(), set())
    assert (before & set(RENAMED.values()), set(RENAMED.values()) - today) == (set(), set())


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_for_the_previous_version_is_the_same_but_for_fields_it_does_not_know(message: Message) -> None:
    assert read_message(type(message), message.to_json(PREVIOUS)) == message.model_copy(
        update={"version": PREVIOUS}
        | (
            {
                "piece": None,
                "nodes": (NODE.model_copy(update=UNKNOWN_BEFORE),),
                "workloads": (WORKLOAD.model_copy(update={"wait": None}),),
                "events": (EVENT.model_copy(update={"usage": None, "decision": None}),),
                "events_after": 0,
            }
            if isinstance(message, PushReport)
            else {}
        )
    )


@pytest.mark.parametrize("part", [POD, WORKLOAD, NODE, QUEUE, EVENT], ids=lambda part: type(part).__name__)
def test_the_parts_of_a_report_are_told_in_every_field(part: Wire) -> None:
    assert all(getattr(part, name) != field.get_default() for name, field in type(part).model_fields.items())


@pytest.mark.parametrize("reason", [*Cause, *WaitReason], ids=str)
def test_a_reason_arrives_as_what_it_was(reason: Cause | WaitReason) -> None:
    report = WorkloadReport(id=WorkloadId("w"), phase=WorkloadPhase.PENDING, reason=reason, since=Instant(0))
    arrived = WorkloadReport.from_json(report.to_json())
    assert arrived.reason is reason, "two words for one thing: a cause and a pause must not share a spelling"


def test_a_pod_is_reported_as_the_ledger_holds_it() -> None:
    pod = PodRecord(
        id=PodId("w-0-1"),
        workload=WorkloadId("w"),
        index=0,
        incarnation=1,
        group=GroupId("w"),
        shape=PodShape(),
        phase=PodPhase.RUNNING,
        since=Instant(3),
        created_at=Instant(1),
        node=NodeName("n1"),
        devices=(2,),
        started_at=Instant(3),
    )
    report = PodReport.from_record(pod, gpus_milli=500)
    held = {"gpus_milli": 500, "cpu_milli": pod.shape.cpu_milli, "memory_bytes": pod.shape.memory_bytes}
    assert all(getattr(report, name) == held.get(name, getattr(pod, name, None)) for name in PodReport.model_fields)
    left = PodReport.from_record(replace(pod, phase=PodPhase.ENDED), gpus_milli=500)
    assert (left.gpus_milli, left.cpu_milli, left.memory_bytes) == (0, 0, 0), "what is over holds nothing"


@pytest.mark.parametrize("phase", WorkloadPhase, ids=str)
def test_an_end_is_remembered_with_a_cause_even_where_none_was_told(phase: WorkloadPhase) -> None:
    over = Over.of_report(WorkloadReport(id=WorkloadId("w"), run=3, phase=phase, since=Instant(8), detail="so"))
    if phase in HOLDS_NOTHING:
        assert over is not None
        assert (over.run, over.phase, over.at, over.detail) == (3, phase, 8, "so")
    else:
        assert over is None


FINGERPRINTS = {2: "2d9e206bcb09cb46", 3: "8a2f6ca9c24a95ca"}
"""Of the schema of all messages, by protocol version. A version that was released keeps its line."""


def test_a_change_of_the_wire_raises_the_version() -> None:
    """Two sides of one version must agree on every field; what the schema says in words may change."""
    schemas = {
        kind.__name__: _without_words(kind.model_json_schema(by_alias=False))
        for kind in sorted({type(each) for each in MESSAGES}, key=str)
    }
    fingerprint = sha256(json.dumps(schemas, sort_keys=True).encode()).hexdigest()[:16]
    assert fingerprint == FINGERPRINTS.get(VERSION), (
        "the messages of pull and push have changed: raise VERSION in api/message.py and record the new fingerprint "
        f"in FINGERPRINTS ({VERSION + (VERSION in FINGERPRINTS)}: {fingerprint!r})"
    )


def _without_words(schema: Any) -> Any:
    """Without titles, descriptions and examples, and without the version itself."""
    if isinstance(schema, list):
        return [_without_words(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    words = ("title", "description", "examples")
    kept = {key: each for key, each in schema.items() if not (key in words and not isinstance(each, dict))}
    return {key: _without_words(each) for key, each in kept.items() if key != "version"}


def test_a_message_of_another_version_is_refused_with_that_one_reason() -> None:
    later = json.dumps({"version": VERSION + 1, "after": 1, "revision": 2, "colour": "green"})
    assert read_message(PullAnswer, later) == [
        Problem(
            "wire.version",
            f"this PullAnswer has protocol version {VERSION + 1}; this side speaks {PREVIOUS} and {VERSION}",
            "run the same release of Fairpool on both sides; upgrade the control plane first, then its clusters",
        )
    ]


def test_everything_that_is_wrong_with_a_message_is_said_at_once() -> None:
    wrong = json.loads(MESSAGES[1].to_json())
    wrong["colour"] = "green"
    wrong["token"] = "4"
    wrong["workloads"][0]["phase"] = "Sleeping"
    del wrong["at"]
    problems = read_message(PushReport, json.dumps(wrong))
    assert isinstance(problems, list)
    assert sorted(problem.what.split(":")[0] for problem in problems) == [
        "PushReport.at",
        "PushReport.colour is not a known field",
        "PushReport.token",
        "PushReport.workloads.0.phase",
    ]
    assert all(problem.fix for problem in problems)


NO_MESSAGES = ["", "{", "null", "[]", '"pull"', b"\xff\xfe", "{}"]


@pytest.mark.parametrize("text", NO_MESSAGES, ids=repr)
def test_what_is_no_message_is_a_problem_and_no_crash(text: str | bytes) -> None:
    problems = read_message(PushAnswer, text)
    assert isinstance(problems, list)
    assert {problem.code for problem in problems} == {"wire.wrong_value"}


BAD_AMOUNTS = [
    ("pods", -1),
    ("pods", 1.5),
    ("pods", True),
    ("grace_s", "30"),
    ("id", ""),
    ("desired_state", "Run"),
    ("run", None),
]


@pytest.mark.parametrize(("field", "value"), BAD_AMOUNTS, ids=lambda part: repr(part))
def test_a_workload_with_a_value_that_cannot_be_is_refused(field: str, value: object) -> None:
    answer = json.loads(MESSAGES[0].to_json())
    answer["workloads"][0][field] = value
    problems = read_message(PullAnswer, json.dumps(answer))
    assert isinstance(problems, list)
    assert all(problem.what.startswith(f"PullAnswer.workloads.0.{field}") for problem in problems)


def test_what_travels_cannot_be_changed_on_the_way() -> None:
    wire = WorkloadWire.of(SPEC)
    with pytest.raises(ValueError, match="frozen"):
        wire.pods = 4
