"""Reading a snapshot: the world at the beginning of a cycle."""

from __future__ import annotations

from collections.abc import Mapping

from fairpool.model.ids import PodId, QueueId
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.organization import Queue
from fairpool.model.workload import Pod, PodGroup, WorkloadKind
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot
from tests.oracle.world import NO_QUEUE, Group, Place, PodState, Status, World


def read(snapshot: Snapshot) -> World:
    """The world at the beginning of a cycle."""
    nodes = {node.name: node for node in sorted(snapshot.nodes, key=lambda each: each.name)}
    queues = {queue.id: queue for queue in sorted(snapshot.queues, key=lambda each: each.id)}
    queues = {name: queue for name, queue in queues.items() if _leads_to_a_root(queues, queue)}
    parents = {queue.parent for queue in queues.values()}
    leaves = {name for name in queues if name not in parents}
    groups = {
        row.id: _read_group(row, snapshot.policy, row.queue in leaves)
        for row in sorted(snapshot.groups, key=lambda each: each.id)
    }
    pods: dict[PodId, PodState] = {}
    for row in sorted(snapshot.pods, key=lambda each: each.id):
        is_known = row.group in groups and row.pod_set in groups[row.group].minimum
        is_lost = row.phase in HOLDS_DEVICES and row.node not in nodes
        if is_known and not is_lost and row.phase is not PodPhase.ENDED:
            pods[row.id] = _read_pod(row, snapshot.policy, row.node in nodes)
    claims = {claim.id: claim for claim in snapshot.claims}
    used = {claim for pod in pods.values() if pod.place is not None for claim in pod.row.claims}
    fixed = {
        claim.id
        for claim in snapshot.claims
        if claim.node is not None and (claim.consumers_elsewhere > 0 or claim.id not in used)
    }
    return World(snapshot, snapshot.policy, nodes, queues, claims, groups, pods, frozenset(fixed))


def _leads_to_a_root(queues: Mapping[QueueId, Queue], queue: Queue) -> bool:
    seen = {queue.id}
    while queue.parent is not None:
        if queue.parent not in queues or queue.parent in seen:
            return False
        seen.add(queue.parent)
        queue = queues[queue.parent]
    return True


def _read_group(row: PodGroup, policy: Policy, is_in_leaf: bool) -> Group:
    priority, preemptible = priority_and_preemptibility(row, policy)
    minimum = {pod_set.name: max(pod_set.minimum, 1) for pod_set in row.tree.all_pod_sets()}
    return Group(row, row.queue if is_in_leaf else NO_QUEUE, priority, preemptible and is_in_leaf, minimum)


def priority_and_preemptibility(row: PodGroup, policy: Policy) -> tuple[int, bool]:
    """What the group states; otherwise its priority decides preemptibility, and its kind whatever is left open."""
    implied = policy.kinds[row.kind]
    if row.preemptible is not None:
        preemptible = row.preemptible
    elif row.priority is not None:
        preemptible = row.priority < 100
    else:
        preemptible = implied.preemptible
    if row.priority is not None:
        return row.priority, preemptible
    if row.kind is WorkloadKind.BUILD and preemptible:
        return 75, True
    return implied.priority, preemptible


def _read_pod(row: Pod, policy: Policy, is_node_known: bool) -> PodState:
    pod = PodState(row, Status.GATED if row.gated else Status.WAITING)
    if row.node is None:
        return pod
    place = Place(row.node, row.devices if pod.shares_devices else ())
    if row.phase in HOLDS_DEVICES:
        return PodState(row, Status.LEAVING if row.phase is PodPhase.RELEASING else Status.RUNNING, place)
    if row.phase is PodPhase.PROMISED and is_node_known and not policy.durable_promises:
        return PodState(row, Status.PROMISED, place)
    return pod  # a durable promise is honoured, or not, by allocate
