"""The suites that test a single decision: FORMAT.md part 5.

Amounts have no unit there; here GPUs become thousandths, so that one unit is one GPU when shares are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from fairpool.model.ids import SECOND_MS, GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.node import Node
from fairpool.model.organization import DEFAULT_QUEUE_PRIORITY, Entitlement, Queue
from fairpool.model.quantity import UNLIMITED
from fairpool.model.workload import GpuRequest, Pod, PodGroup, PodSet, PodShape, SubGroup, gpu_portion, whole_gpus
from fairpool.scheduler.columns import Columns
from fairpool.scheduler.fairshare import Claimant, divide, divide_surplus, fair_shares
from fairpool.scheduler.gate import is_over_limit, is_over_quota
from fairpool.scheduler.group_index import GroupIndex
from fairpool.scheduler.order import compare_precedence, queue_precedence
from fairpool.scheduler.plan import share
from fairpool.scheduler.policy import Pass, Policy, RuntimeScope
from fairpool.scheduler.prepared import prepare
from fairpool.scheduler.queues import UNIT, Holdings, QueueTable, Vector
from fairpool.scheduler.reclaim import is_justified, may_reclaim
from fairpool.scheduler.runtime import keeps_minimum, may_be_victim, min_runtime_s, protected_until
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.trial import Trial
from fairpool.scheduler.victim_line import VictimLines
from fairpool.scheduler.victims import Candidates, victim_key
from fairpool.scheduler.walk import Walk
from tests.conformance.case import Case, Json
from tests.conformance.state import ACTIVE
from tests.conformance.world import MINUTE_MS, NOW, PHASES, entitlement

RESOURCE_NAMES = ("gpu", "cpu", "memory")
NOTHING: Vector = [0, 0, 0]


def differences(case: Case) -> list[str]:
    """What a unit case gives otherwise than expected."""
    run = SUITES.get(case.suite)
    if run is None:
        return [f"the suite {case.suite!r} is not known"]
    return list(run(case.data))


# ---- queue shares


def table_of(rows: Iterable[Json]) -> QueueTable:
    """Queue shares, with what they hold, request and fairly get."""
    rows = list(rows)
    names = {row["id"] for row in rows}
    table = QueueTable(_queue(row, row["parent"] if row["parent"] in names else None) for row in rows)
    for row in rows:
        number = table.index[QueueId(row["id"])]
        table.fair[number] = list(_vector(row, "fair_share"))
        table.held[number] = list(_vector(row, "allocated"))
        table.held_non_preemptible[number] = list(_vector(row, "allocated_non_preemptible"))
        table.request[number] = list(_vector(row, "request"))
    return table


def _queue(row: Json, parent: str | None) -> Queue:
    gpu, cpu, memory = (_entitlement(row[name], unit) for name, unit in zip(RESOURCE_NAMES, UNIT, strict=True))
    return Queue(
        id=QueueId(row["id"]),
        parent=None if parent is None else QueueId(parent),
        priority=row["priority"],
        created_at=Instant(row["creation_order"] * MINUTE_MS),
        gpu=gpu,
        cpu=cpu,
        memory=memory,
    )


def _entitlement(share: Json, unit: int) -> Entitlement:
    quota, limit = (UNLIMITED if share[key] == -1 else round(share[key] * unit) for key in ("deserved", "max_allowed"))
    return Entitlement(quota, limit, share["over_quota_weight"], share["usage"])


def _vector(row: Json, key: str) -> Vector:
    return [row[name][key] * unit for name, unit in zip(RESOURCE_NAMES, UNIT, strict=True)]


def _amounts(row: Json) -> Vector:
    return [row[name] * unit for name, unit in zip(RESOURCE_NAMES, UNIT, strict=True)]


def _verdict(what: str, got: object, want: object) -> Iterator[str]:
    if got != want:
        yield f"{what} is {got}, not {want}"


# ---- 5.1


def _fair_share_division(data: Json) -> Iterator[str]:
    policy = replace(Policy.reference(), usage_factor=data["k_value"])
    if data["operation"] == "divide_hierarchy":
        table = table_of(data["queues"])
        table.total = _amounts(data["total"])
        fair_shares(table, policy)
        yield from _share_differences(data, {row["id"]: table.fair[table.index[row["id"]]] for row in data["queues"]})
        return
    shares: dict[str, list[float]] = {row["id"]: list(NOTHING) for row in data["queues"]}
    names = RESOURCE_NAMES if data["operation"] == "divide_all" else (data["resource"],)
    for name in names:
        resource = RESOURCE_NAMES.index(name)
        claimants = [_claimant(row, name, UNIT[resource]) for row in data["queues"]]
        run = divide_surplus if data["operation"] == "divide_over_quota" else divide
        left = run(
            data["total"][name] * UNIT[resource],
            claimants,
            unit=UNIT[resource],
            k=policy.usage_factor,
            tier_remainders_first=policy.tier_remainders_first,
        )
        for row, claimant in zip(data["queues"], claimants, strict=True):
            shares[row["id"]][resource] = claimant.fair
        remaining = data["expected"]["remaining"]
        if remaining is not None and not math.isclose(left, remaining * UNIT[resource], abs_tol=1e-6):
            yield f"{left / UNIT[resource]:g} {name} remain, not {remaining:g}"
    yield from _share_differences(data, shares)


def _claimant(row: Json, name: str, unit: int) -> Claimant:
    share = row[name]
    quota, limit = (math.inf if share[key] == -1 else share[key] * unit for key in ("deserved", "max_allowed"))
    return Claimant(
        id=row["uid"],
        priority=row["priority"],
        created_at=row["creation_order"],
        quota=quota,
        limit=limit,
        weight=share["over_quota_weight"],
        usage=share["usage"],
        request=share["request"] * unit,
        fair=share["fair_share"] * unit,
    )


def _share_differences(data: Json, shares: Mapping[str, Vector]) -> Iterator[str]:
    for queue, wanted in data["expected"]["fair_share"].items():
        for name, want in wanted.items():
            resource = RESOURCE_NAMES.index(name)
            got = shares[queue][resource] / UNIT[resource]
            if not math.isclose(got, want, abs_tol=1e-9):
                yield f"the {name} share of {queue} is {got:g}, not {want:g}"


# ---- 5.2


def _queue_order(data: Json) -> Iterator[str]:
    table = table_of(data["queues"])
    table.total = _amounts(data["total"])
    left, right = (table.index[QueueId(name)] for name in ("left", "right"))
    asked = tuple(_asked(data["jobs"][name], data["min_node_gpu_memory"]) for name in ("left", "right"))
    policy = Policy.reference()
    one = queue_precedence(table, policy, left, asked[0], list(NOTHING))
    other = queue_precedence(table, policy, right, asked[1], list(NOTHING))
    order = compare_precedence(table, policy, left, one, right, other)
    yield from _verdict("the first", "left" if order < 0 else "right", data["expected"]["first"])


def _asked(job: Json, device_memory: float) -> Vector:
    memory = job["gpu_devices"] * job["gpu_memory_per_device"]
    return [memory / device_memory * UNIT[0] if memory else 0, 0, 0]


# ---- 5.3


def _reclaim_eligibility(data: Json) -> Iterator[str]:
    table = table_of(data["queues"])
    reclaimer = data["reclaimer"]
    queue, need = table.index[QueueId(reclaimer["queue"])], _amounts(reclaimer["required"])
    non_preemptible = not reclaimer["preemptible"]
    if data["operation"] == "can_reclaim":
        allowed = may_reclaim(table, queue, need, non_preemptible)
    else:
        units = [
            (table.index[QueueId(name)], _amounts(unit)) for name, lost in data["victims"].items() for unit in lost
        ]
        multiplier = data["saturation_multiplier"]
        allowed = is_justified(
            table,
            queue,
            need,
            units,
            before=Holdings.above(table, range(len(table.ids))),
            non_preemptible=non_preemptible,
            multiplier=multiplier,
        )
    yield from _verdict("allowed", allowed, data["expected"]["allowed"])


# ---- 5.4


def _capacity_policy(data: Json) -> Iterator[str]:
    table = table_of(data["queues"])
    job = data["job"]
    queue, need = table.index[QueueId(job["queue"])], _amounts(job["requested"])
    over_limit = "limit" in data["operation"] and is_over_limit(table, queue, need)
    over_quota = "quota" in data["operation"] and not job["preemptible"] and is_over_quota(table, queue, need)
    yield from _verdict("schedulable", not (over_limit or over_quota), data["expected"]["schedulable"])


# ---- 5.5


def _job_order(data: Json) -> Iterator[str]:
    columns = _columns(data)
    trial = Trial(columns)
    share(trial)
    if data["victims"]:
        every_group = GroupIndex(
            trial, range(len(columns.groups)), lambda _: True, lambda group: victim_key(trial, group)
        )
        taken = _victims_in_order(VictimLines(trial, every_group, Candidates(lambda _: True)))
    else:
        walk = Walk(trial, range(len(columns.groups)))
        taken = list(iter(walk.pop, None))
    names = [columns.groups[group].id.partition(" ")[2] for group in taken]
    yield from _verdict("the order", names, data["expected"]["order"])


def _victims_in_order(lines: VictimLines) -> list[int]:
    """Whole groups, one after the other."""
    columns = lines.columns
    taken: list[int] = []
    while (unit := lines.unit(len(taken))) is not None:
        pods = [pod for number in columns.sets_of[unit.group] for pod in columns.sets.pods[number]]
        lines.take_too(len(taken), unit.group, pods)
        taken.append(unit.group)
    return taken


def _columns(data: Json) -> Columns:
    """Jobs on a node that is out of order: they can run there, and the cluster has no capacity."""
    nowhere = Node(name=NodeName("n"), cpu_milli=0, memory_bytes=0, ready=False)
    policy = replace(Policy.reference(), fair_order=data["fair_share_order"])
    snapshot = Snapshot(
        now=NOW,
        nodes=(nowhere,),
        queues=tuple(_plain_queue(row) for row in data["queues"]),
        groups=tuple(_plain_group(job) for job in data["jobs"]),
        pods=tuple(pod for job in data["jobs"] for pod in _plain_pods(job)),
        policy=policy,
    )
    return prepare(snapshot).columns


def _plain_queue(row: Json) -> Queue:
    return Queue(
        id=QueueId(row["name"]),
        parent=None if row["parent"] is None else QueueId(row["parent"]),
        priority=row.get("priority", DEFAULT_QUEUE_PRIORITY),
        created_at=Instant(row["creation_order"] * MINUTE_MS),
        gpu=entitlement(row["gpu"], UNIT[0]),
        cpu=entitlement(row["cpu"]),
        memory=entitlement(row["memory"]),
    )


def _group_id(job: Json) -> GroupId:
    """Ties go by uid; where that is not set, by name."""
    return GroupId(f"{job['uid']} {job['name']}")


def _plain_group(job: Json) -> PodGroup:
    return PodGroup(
        id=_group_id(job),
        queue=QueueId(job["queue"]),
        created_at=NOW,
        priority=job["priority"],
        preemptible=True,
        tree=SubGroup(pod_sets=(PodSet(minimum=max(job["min_available"], 1)),)),
    )


def _plain_pods(job: Json) -> Iterator[Pod]:
    """The first active pod holds all that the job holds."""
    held = job["allocated"]
    for place, status in enumerate(job["task_statuses"]):
        shape = PodShape()
        if held and status in ACTIVE:
            shape = PodShape(gpu=_gpus(held["gpu"]), cpu_milli=held["cpu"], memory_bytes=held["memory"])
            held = None
        yield Pod(
            id=PodId(f"{_group_id(job)} {place}"),
            group=_group_id(job),
            shape=shape,
            phase=PHASES[status],
            node=NodeName("n") if status in ACTIVE else None,
        )


def _gpus(amount: float) -> GpuRequest:
    return whole_gpus(int(amount)) if amount == int(amount) else gpu_portion(round(amount * UNIT[0]))


# ---- 5.6


def _min_runtime(data: Json) -> Iterator[str]:
    policy = replace(
        Policy.reference(),
        default_preempt_min_runtime_s=data["defaults"]["preempt_min_runtime_seconds"],
        default_reclaim_min_runtime_s=data["defaults"]["reclaim_min_runtime_seconds"],
        reclaim_runtime_scope=RuntimeScope(data["method"] or "lca"),
    )
    if data["operation"] == "resolve":
        yield from _resolve(data, policy)
        return
    columns, victim, taker = _one_victim(data, policy)
    by = Pass(data["action"])
    if data["operation"] == "victim_filter":
        allowed = may_be_victim(columns, by, taker, victim)
    else:
        pods = columns.sets.pods[columns.sets_of[victim][0]]
        evicted = pods[: data["evicted_tasks"]]
        is_protected = protected_until(columns, by, taker, victim) is not None
        allowed = not is_protected or keeps_minimum(columns, evicted)
    yield from _verdict("allowed", allowed, data["expected"]["allowed"])


def _resolve(data: Json, policy: Policy) -> Iterator[str]:
    """A group whose queue is missing never gets as far as being compared: here that is the error."""
    table = QueueTable(_protected_queues(data))
    taker, victim = (table.index.get(data[key]) for key in ("preemptor_queue", "victim_queue"))
    is_missing = victim is None or (taker is None and data["action"] == "reclaim")
    if is_missing:
        seconds = data["defaults"][f"{data['action']}_min_runtime_seconds"]
    else:
        assert victim is not None
        seconds = min_runtime_s(table, policy, Pass(data["action"]), victim if taker is None else taker, victim)
    yield from _verdict("seconds", seconds, data["expected"]["seconds"])
    yield from _verdict("error", is_missing, data["expected"]["error"])


def _protected_queues(data: Json) -> list[Queue]:
    """All queues; one whose parent is not there is a root."""
    rows = {row["name"]: row for row in (*data["unlisted_queues"], *data["queues"])}
    return [
        Queue(
            id=QueueId(name),
            parent=QueueId(row["parent"]) if row["parent"] in rows else None,
            preempt_min_runtime_s=row["preempt_min_runtime_seconds"],
            reclaim_min_runtime_s=row["reclaim_min_runtime_seconds"],
        )
        for name, row in rows.items()
    ]


def _one_victim(data: Json, policy: Policy) -> tuple[Columns, int, int]:
    """Columns with one running group and one that wants its place, and their numbers."""
    victim = data["victim"]
    started_s = victim["started_seconds_ago"]
    running = PodGroup(
        id=GroupId("victim"),
        queue=QueueId(data["victim_queue"]),
        created_at=NOW,
        tree=SubGroup(pod_sets=(PodSet(minimum=victim["min_available"]),)),
        started_at=None if started_s is None else Instant(NOW - started_s * SECOND_MS),
    )
    taker = PodGroup(id=GroupId("taker"), queue=QueueId(data["preemptor_queue"]), created_at=NOW)
    pods = tuple(
        Pod(
            id=PodId(f"victim {place}"), group=running.id, shape=PodShape(), phase=PHASES["Running"], node=NodeName("n")
        )
        for place in range(victim["running_tasks"])
    )
    snapshot = Snapshot(
        now=NOW,
        nodes=(Node(name=NodeName("n"), cpu_milli=0, memory_bytes=0),),
        queues=tuple(_protected_queues(data)),
        groups=(running, taker),
        pods=pods,
        policy=policy,
    )
    columns = prepare(snapshot).columns
    return columns, columns.group_ids.index(running.id), columns.group_ids.index(taker.id)


SUITES: dict[str, Callable[[Json], Iterator[str]]] = {
    "fair-share-division": _fair_share_division,
    "queue-order": _queue_order,
    "reclaim-eligibility": _reclaim_eligibility,
    "capacity-policy": _capacity_policy,
    "job-order": _job_order,
    "min-runtime": _min_runtime,
}
