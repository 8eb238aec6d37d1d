"""A case and its present state as the snapshot that the scheduler is given.

FORMAT.md part 2. Ages, start times and stale times are worked out anew for every cycle, as 3.2 says.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairpool.model.ids import SECOND_MS, ClaimId, GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import MigStrategy, Node, Topology
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI
from fairpool.model.workload import (
    NO_GPU,
    Claim,
    GpuRequest,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    Pod,
    PodAffinityTerm,
    PodGroup,
    PodSet,
    PodShape,
    SubGroup,
    TopologyConstraint,
    gpu_memory,
    gpu_portion,
    whole_gpus,
)
from fairpool.scheduler.snapshot import Snapshot
from tests.conformance.case import Case, Json
from tests.conformance.session import plugins, policy_of, pool_of
from tests.conformance.state import (
    ACTIVE,
    ALLOCATED,
    State,
    TaskState,
    all_tasks,
    claim_names,
    consumers_elsewhere,
    device_names,
)

NOW = Instant(1_800_000_000_000)
MINUTE_MS = 60 * SECOND_MS
STARTED_AGO_S = 60
"""A job that holds something at the beginning of a cycle started that long before."""

NODE_TYPE_LABEL = "kai.scheduler/type"
QUEUE_LABEL = "kai.scheduler/queue"

PHASES = {
    "Pending": PodPhase.WAITING,
    "Pipelined": PodPhase.PROMISED,
    "Allocated": PodPhase.BOUND,
    "Binding": PodPhase.BOUND,
    "Bound": PodPhase.BOUND,
    "Running": PodPhase.RUNNING,
    "Releasing": PodPhase.RELEASING,
    "Failed": PodPhase.ENDED,
    "Succeeded": PodPhase.ENDED,
}


def snapshot_of(case: Case, state: State) -> Snapshot:
    """What the scheduler sees at the beginning of a cycle."""
    policy = policy_of(case)
    return Snapshot(
        now=NOW,
        nodes=tuple(_node(case, row) for row in case.data["nodes"]),
        queues=tuple(_queue(row) for row in case.data["queues"]),
        groups=tuple(_group(job, state) for job in case.data["jobs"]),
        pods=tuple(_pods(case, state)),
        claims=tuple(_claims(case, state)),
        topologies=tuple(
            Topology(name=row["name"], levels=tuple(row["levels"])) for row in case.data.get("topologies", ())
        ),
        pool=pool_of(case),
        policy=policy,
    )


def _node(case: Case, row: Json) -> Node:
    strategy = row.get("mig_strategy")
    return Node(
        name=NodeName(row["name"]),
        cpu_milli=row["cpu_milli"],
        memory_bytes=row["memory_bytes"],
        pods_max=row["max_pods"],
        gpus=row["gpus"],
        gpu_memory_mib=row["gpu_memory"],
        mig_strategy=MigStrategy(strategy) if strategy else None,
        mig_instances=row.get("mig_instances", {}),
        claim_devices=tuple(device_names(case, row["name"]).values()),
        labels=row["labels"],
    )


def _queue(row: Json) -> Queue:
    return Queue(
        id=QueueId(row["name"]),
        parent=None if row["parent"] is None else QueueId(row["parent"]),
        priority=row["priority"],
        created_at=Instant(row["creation_order"] * MINUTE_MS),
        gpu=entitlement(row["gpu"], WHOLE_GPU_MILLI),
        cpu=entitlement(row["cpu_milli"]),
        memory=entitlement(row["memory_mb"], 10**6),
    )


def entitlement(row: Json, unit: int = 1) -> Entitlement:
    """What a queue has of one resource, given in multiples of `unit`."""
    quota, limit = (UNLIMITED if row[key] == -1 else round(row[key] * unit) for key in ("quota", "limit"))
    return Entitlement(quota, limit, float(row["over_quota_weight"]))


def _group(job: Json, state: State) -> PodGroup:
    statuses = [state.tasks[task["id"]].status for task in job["tasks"]]
    stale_s = job.get("stale_seconds")
    return PodGroup(
        id=GroupId(job["name"]),
        queue=QueueId(job["queue"]),
        created_at=_created_at(job),
        priority=job["priority"],
        preemptible=job["preemptible"],
        tree=_tree(job["sub_groups"]),
        namespace=job.get("namespace", ""),
        started_at=_ago(STARTED_AGO_S) if ALLOCATED.intersection(statuses) else None,
        stale_since=None if stale_s is None else _ago(stale_s),
        succeeded="Succeeded" in statuses,
    )


def _created_at(job: Json) -> Instant:
    return Instant(NOW - round(job["age_minutes"] * MINUTE_MS))


def _ago(seconds: float) -> Instant:
    return Instant(NOW - round(seconds * SECOND_MS))


def _tree(row: Json) -> SubGroup:
    return SubGroup(
        name=row["name"],
        constraint=_constraint(row["topology_constraint"]),
        groups=tuple(_tree(group) for group in row["groups"]),
        pod_sets=tuple(
            PodSet(
                name=pod_set["name"],
                minimum=max(pod_set["min_available"], 1),
                constraint=_constraint(pod_set["topology_constraint"]),
            )
            for pod_set in row["pod_sets"]
        ),
    )


def _constraint(row: Json | None) -> TopologyConstraint | None:
    if row is None:
        return None
    return TopologyConstraint(
        topology=row["topology"], required=row["required_level"], preferred=row["preferred_level"]
    )


def _pods(case: Case, state: State) -> Iterator[Pod]:
    uses_claims = "dynamicresources" in plugins(case)
    for job in case.data["jobs"]:
        for place, task in enumerate(job["tasks"]):
            claims = claim_names(job, task) if uses_claims else ()
            yield _pod(job, task, place, state.tasks[task["id"]], tuple(ClaimId(name) for name in claims))


def _pod(job: Json, task: Json, place: int, now: TaskState, claims: tuple[ClaimId, ...]) -> Pod:
    is_active = now.status in ACTIVE
    return Pod(
        id=PodId(task["id"]),
        group=GroupId(job["name"]),
        shape=_shape(task),
        pod_set=task["sub_group"],
        phase=PHASES[now.status],
        node=NodeName(now.node) if is_active and now.node is not None else None,
        devices=now.devices if is_active else (),
        claims=claims,
        order=task.get("task_priority"),
        created_at=Instant(_created_at(job) + place),
        promised_at=NOW if now.status == "Pipelined" else None,
    )


def _shape(task: Json) -> PodShape:
    request = task["request"]
    labels = tuple(sorted(task.get("labels", {}).items()))
    affinity = task.get("node_affinity")
    near, apart = task.get("pod_affinity"), task.get("pod_anti_affinity")
    return PodShape(
        gpu=_gpu(request["gpu"]),
        cpu_milli=request["cpu_milli"],
        memory_bytes=request["memory_bytes"],
        node_rules=((NodeSelectorRequirement(NODE_TYPE_LABEL, NodeSelectorOperator.IN, tuple(affinity)),),)
        if affinity
        else (),
        labels=labels,
        near=(PodAffinityTerm(near, labels),) if near else (),
        apart=(PodAffinityTerm(apart, labels),) if apart else (),
        schedulable=not task.get("legacy_mig", False),
    )


def _gpu(request: Json) -> GpuRequest:
    match request["kind"]:
        case "whole":
            return whole_gpus(request["count"])
        case "fraction":
            return gpu_portion(round(request["fraction"] * WHOLE_GPU_MILLI))
        case "memory":
            return gpu_memory(request["memory"])
        case "mig":
            return GpuRequest(mig=tuple(sorted(request["instances"].items())))
        case _:
            return NO_GPU


def _claims(case: Case, state: State) -> Iterator[Claim]:
    made_from_templates = {
        f"{job.get('namespace', '')}/{name}"
        for job, task in all_tasks(case)
        for name in task.get("resource_claim_templates", {}).values()
    }
    elsewhere = consumers_elsewhere(case)
    for row in case.data.get("dra", {}).get("resource_claims", ()):
        name = f"{row['namespace']}/{row['name']}"
        queue = row["labels"].get(QUEUE_LABEL)
        now = state.claims.get(name)
        yield Claim(
            id=ClaimId(name),
            namespace=row["namespace"],
            devices=row["count"],
            counts_as_gpu="gpu" in row["device_class"],
            queue=QueueId(queue) if queue else None,
            from_template=name in made_from_templates,
            node=NodeName(now.node) if now else None,
            allocated=now.devices if now else (),
            consumers_elsewhere=elsewhere[name],
        )
