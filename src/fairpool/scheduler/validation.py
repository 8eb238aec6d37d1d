"""Validation of a snapshot: what is wrong with it, and a version that can safely be planned.

Rows come from outside, and one bad row must not stop a cluster. What cannot be trusted is left out or clamped so that
the plan errs on the safe side: nothing is placed on it or for it, and what it holds stays held.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from fairpool.model.ids import ClaimId, GroupId, NodeName, QueueId
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.node import Node
from fairpool.model.organization import Entitlement, Queue, oversubscribed_parents
from fairpool.model.problem import Problem
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI
from fairpool.model.workload import (
    NO_GPU,
    Claim,
    GpuKind,
    GpuRequest,
    Pod,
    PodGroup,
    PodSet,
    PodShape,
    SubGroup,
    whole_gpus,
)
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot

DEVICES_PER_NODE_MAX = 1024
NO_QUEUE = QueueId("")
"""Queue of the groups made for orphans: they keep what they hold, and nothing else is scheduled for them."""

Row = TypeVar("Row")


def check(snapshot: Snapshot) -> list[Problem]:
    """Everything that is wrong with a snapshot, and what looks like a mistake."""
    return clean(snapshot)[1] + oversubscribed_parents(snapshot.queues)


def clean(snapshot: Snapshot) -> tuple[Snapshot, list[Problem]]:
    """The snapshot as it can safely be planned, and what had to be planned around."""
    problems: list[Problem] = []
    nodes = [_sound_node(row, problems) for row in _unique(snapshot.nodes, "node", lambda row: row.name, problems)]
    queues = _rooted(
        [_sound_queue(row, problems) for row in _unique(snapshot.queues, "queue", lambda row: row.id, problems)],
        problems,
    )
    groups = [_sound_group(row, problems) for row in _unique(snapshot.groups, "group", lambda row: row.id, problems)]
    _note_lost_groups(groups, queues, problems)
    pods = list(_unique(snapshot.pods, "pod", lambda row: row.id, problems))
    pods, orphans = _PodCleaning(nodes, groups, problems).run(pods)
    rows = replace(
        snapshot,
        policy=_sound_policy(snapshot.policy, problems),
        nodes=tuple(nodes),
        queues=tuple(queues),
        groups=(*groups, *orphans),
        pods=tuple(pods),
        claims=tuple(_sound_claims(_unique(snapshot.claims, "claim", lambda row: row.id, problems), problems)),
        topologies=tuple(_unique(snapshot.topologies, "topology", lambda row: row.name, problems)),
    )
    return rows, sorted(problems)


def _unique(rows: Iterable[Row], noun: str, name: Callable[[Row], Hashable], problems: list[Problem]) -> Iterator[Row]:
    """Rows without doubles; of several under one name the same one is kept, in whatever order they came."""
    kept: dict[Hashable, Row] = {}
    doubled: set[Hashable] = set()
    for row in rows:
        key = name(row)
        if key not in kept:
            kept[key] = row
        elif row != kept[key]:
            doubled.add(key)
            kept[key] = min(row, kept[key], key=repr)
        else:
            doubled.add(key)
    problems += [
        Problem(f"{noun}.duplicate", f"more than one {noun} is named {key}", "give each a unique name")
        for key in doubled
    ]
    return iter(kept.values())


# ---- policy


def _sound_policy(policy: Policy, problems: list[Problem]) -> Policy:
    """Numbers that cannot be computed with are replaced by the product's."""
    usual = Policy.product()
    sound = {
        "usage_factor": math.isfinite(policy.usage_factor),
        "saturation_multiplier": math.isfinite(policy.saturation_multiplier),
        "portion_step_milli": 0 < policy.portion_step_milli <= WHOLE_GPU_MILLI,
        "device_memory_step_mib": policy.device_memory_step_mib > 0,
        "mig_slices_per_gpu": policy.mig_slices_per_gpu > 0,
        "smallest_device_mib": policy.smallest_device_mib is None or policy.smallest_device_mib > 0,
    }
    wrong = {name: getattr(usual, name) for name, is_sound in sound.items() if not is_sound}
    for name, value in wrong.items():
        what = f"{name} in the policy is {getattr(policy, name)}, which is out of range"
        problems.append(Problem("policy.amounts", what, f"set a valid number; until then {value} is used"))
    return replace(policy, **wrong) if wrong else policy


# ---- nodes


def _sound_node(node: Node, problems: list[Problem]) -> Node:
    amounts = (node.cpu_milli, node.memory_bytes, node.pods_max, node.gpus, node.gpu_memory_mib)
    others = (*node.extended.values(), *node.mig_instances.values())
    if min(amounts) < 0 or min(others, default=0) < 0 or node.gpus > DEVICES_PER_NODE_MAX:
        what = f"node {node.name} reports invalid quantities"
        problems.append(Problem("node.amounts", what, "correct what it reports; until then no pod is placed there"))
        return Node(name=node.name, cpu_milli=0, memory_bytes=0, pods_max=0, labels=node.labels, cordoned=True)
    withheld = tuple(sorted({device for device in node.gpus_withheld if 0 <= device < node.gpus}))
    return node if withheld == node.gpus_withheld else replace(node, gpus_withheld=withheld)


# ---- queues


def _sound_queue(queue: Queue, problems: list[Problem]) -> Queue:
    sound = [_sound_entitlement(each) for each in (queue.gpu, queue.cpu, queue.memory)]
    if sound == [queue.gpu, queue.cpu, queue.memory]:
        return queue
    what = f"queue {queue.id} has an invalid quota, limit, weight or usage"
    fix = "set 0 or more, or -1 for unlimited; until then it counts as 0"
    problems.append(Problem("queue.amounts", what, fix))
    return replace(queue, gpu=sound[0], cpu=sound[1], memory=sound[2])


def _sound_entitlement(entitlement: Entitlement) -> Entitlement:
    """Quota and limit that are no amounts count as 0, so that nothing is given by mistake."""
    quota = entitlement.quota if entitlement.quota >= UNLIMITED else 0
    limit = entitlement.limit if entitlement.limit >= UNLIMITED else 0
    weight = entitlement.weight if 0 <= entitlement.weight < math.inf else 0.0
    usage = entitlement.usage if 0 <= entitlement.usage < math.inf else 0.0
    sound = Entitlement(quota, limit, weight, usage)
    # A weight below 0 is only wrong where it would be used: what is unlimited is lent nothing.
    is_unused = entitlement.quota == UNLIMITED and entitlement.weight == UNLIMITED
    return entitlement if sound == entitlement or (is_unused and usage == entitlement.usage) else sound


def _rooted(queues: list[Queue], problems: list[Problem]) -> list[Queue]:
    """Queues whose path leads to a root."""
    parents = {queue.id: queue.parent for queue in queues}
    known: dict[QueueId, str] = {}
    """By queue: empty if it is rooted, else why it is not."""

    for start in parents:
        path: list[QueueId] = []
        at: QueueId | None = start
        while at is not None and at in parents and at not in known and at not in path:
            path.append(at)
            at = parents[at]
        if at is None:
            state = ""
        elif at in known:
            state = known[at]
        else:
            state = "is its own ancestor" if at in path else f"has the unknown ancestor {at}"
        known.update(dict.fromkeys(path, state))
    fix = "correct its parent; until then nothing in it is scheduled"
    problems += [Problem("queue.not_rooted", f"queue {queue} {why}", fix) for queue, why in known.items() if why]
    return [queue for queue in queues if not known[queue.id]]


# ---- groups


def _sound_group(group: PodGroup, problems: list[Problem]) -> PodGroup:
    if len(group.tree.pod_sets) == 1 and not group.tree.groups:
        return group
    names = [pod_set.name for pod_set in group.tree.all_pod_sets()]
    if names and len(set(names)) == len(names):
        return group
    what = f"group {group.id} has " + ("several pod sets with the same name" if names else "no pod sets")
    problems.append(
        Problem("group.pod_sets", what, "give each pod set a unique name; until then all its pods count as one set")
    )
    minimum = sum(max(pod_set.minimum, 1) for pod_set in group.tree.all_pod_sets())
    first = names[0] if names else "default"
    return replace(group, tree=SubGroup(pod_sets=(PodSet(name=first, minimum=max(minimum, 1)),)))


def _note_lost_groups(groups: list[PodGroup], queues: list[Queue], problems: list[Problem]) -> None:
    known = {queue.id for queue in queues}
    inner = {queue.parent for queue in queues}
    for group in groups:
        if group.queue in known and group.queue not in inner:
            continue
        why = f"queue {group.queue}, which " + ("has queues below it" if group.queue in known else "does not exist")
        problems.append(Problem("group.queue", f"group {group.id} is in {why}", "submit it to a project"))


# ---- claims


def _sound_claims(claims: Iterable[Claim], problems: list[Problem]) -> Iterator[Claim]:
    """Claims for a possible number of devices; pods of the others wait."""
    owner: dict[tuple[NodeName | None, str], ClaimId] = {}
    for claim in sorted(claims, key=lambda each: each.id):
        if not 0 <= claim.devices <= DEVICES_PER_NODE_MAX or claim.consumers_elsewhere < 0:
            what = f"claim {claim.id} requests {claim.devices} devices, which is out of range"
            problems.append(Problem("claim.amounts", what, "correct it; pods that use it wait until then"))
            continue
        for device in claim.allocated:
            first = owner.setdefault((claim.node, device), claim.id)
            if first != claim.id:
                what = f"device {device} of {claim.node} is allocated to the claims {first} and {claim.id}"
                problems.append(
                    Problem("claim.overcommitted", what, "release one; until then the device is not allocated again")
                )
        yield claim


# ---- pods


class _PodCleaning:
    """Pods one by one, against the nodes and groups there are."""

    def __init__(self, nodes: list[Node], groups: list[PodGroup], problems: list[Problem]) -> None:
        self.nodes: dict[NodeName, Node] = {node.name: node for node in nodes}
        self.sets: dict[GroupId, set[str]] = {
            group.id: {pod_set.name for pod_set in group.tree.all_pod_sets()} for group in groups
        }
        self.problems = problems
        self.sound_shapes: dict[int, PodShape] = {}
        self.whole_on: dict[tuple[NodeName, int], int] = {}
        self.orphans: dict[GroupId, PodGroup] = {}

    def run(self, pods: list[Pod]) -> tuple[list[Pod], list[PodGroup]]:
        for pod in pods:
            if pod.phase in HOLDS_DEVICES and pod.node is not None and pod.shape.gpu.kind is GpuKind.WHOLE:
                for device in pod.devices:
                    self.whole_on[pod.node, device] = self.whole_on.get((pod.node, device), 0) + 1
        kept = [sound for pod in pods if (sound := self._sound(pod)) is not None]
        self._note_crowded_devices(kept)
        return kept, list(self.orphans.values())

    def _note_crowded_devices(self, pods: list[Pod]) -> None:
        """Devices whose sharers add up to more than there is; they have no room for other pods until some leave."""
        used: dict[tuple[NodeName, int], float] = {}
        for pod in pods:
            gpu = pod.shape.gpu
            if pod.phase not in HOLDS_DEVICES or pod.node is None or gpu.kind in (GpuKind.WHOLE, GpuKind.NONE):
                continue
            memory_mib = self.nodes[pod.node].gpu_memory_mib
            part = gpu.portion_milli / WHOLE_GPU_MILLI
            if gpu.kind is GpuKind.MEMORY:
                part = gpu.memory_mib / memory_mib if memory_mib else 0.0
            for device in pod.devices:
                used[pod.node, device] = used.get((pod.node, device), 0.0) + part
        self.problems += [
            Problem(
                "device.overcommitted",
                f"the pods on device {device} of {node} request {part:.3g} of it in total",
                "stop one of them; until then no other pod is placed there",
            )
            for (node, device), part in used.items()
            if part > 1.0005
        ]

    def _note(self, code: str, pod: Pod, what: str, fix: str) -> None:
        self.problems.append(Problem(code, f"pod {pod.id} {what}", fix))

    def _sound(self, pod: Pod) -> Pod | None:
        if pod.phase is PodPhase.ENDED:
            return None
        holds = pod.phase in HOLDS_DEVICES
        if holds and pod.node not in self.nodes:
            where = "without a node" if pod.node is None else f"on node {pod.node}, which does not exist"
            self._note("pod.unknown_node", pod, f"is {pod.phase} {where}", "it is treated as gone")
            return None
        shape = self._sound_shape(pod)
        if shape is not pod.shape:
            self._note(
                "pod.amounts",
                pod,
                "requests invalid quantities",
                "correct its request; it does not start until then",
            )
            if not holds:
                return None
            pod = replace(pod, shape=shape)
        if pod.group not in self.sets or pod.pod_set not in self.sets[pod.group]:
            return self._adopt(pod, holds)
        return self._on_its_devices(pod) if pod.devices else pod

    def _sound_shape(self, pod: Pod) -> PodShape:
        shape = self.sound_shapes.get(id(pod.shape))
        if shape is None:
            shape = self.sound_shapes[id(pod.shape)] = _sound_shape(pod.shape)
        return shape

    def _adopt(self, pod: Pod, holds: bool) -> Pod | None:
        """An orphan keeps what it holds, in a group without a queue; if it waits it is left out."""
        known = pod.group in self.sets
        what = f"belongs to {pod.pod_set if known else pod.group}, which does not exist"
        self._note("pod.unknown_set" if known else "pod.unknown_group", pod, what, "it is left unchanged")
        if not holds:
            return None
        owner = GroupId(f"{pod.group}\0{pod.pod_set}")
        self.orphans[owner] = PodGroup(id=owner, queue=NO_QUEUE, created_at=pod.created_at)
        return replace(pod, group=owner, pod_set="default")

    def _on_its_devices(self, pod: Pod) -> Pod:
        """Only devices that exist count. A device that others hold as a whole is not shared any further."""
        node = self.nodes.get(pod.node) if pod.node is not None else None
        if node is None:
            return pod
        devices = tuple(sorted({device for device in pod.devices if 0 <= device < node.gpus}))
        if devices != tuple(sorted(pod.devices)):
            self._note("pod.devices", pod, f"lists devices that {node.name} does not have", "they are ignored")
        if pod.phase not in HOLDS_DEVICES:
            return replace(pod, devices=devices)
        gone = len(set(pod.devices)) - len(devices)
        if gone:
            # A device that broke under it is not among those that are left, so it takes nothing of them.
            left = max(pod.shape.gpu.devices - gone, 0)
            gpu = replace(pod.shape.gpu, devices=left) if left else NO_GPU
            pod = replace(pod, shape=replace(pod.shape, gpu=gpu))
        is_whole = pod.shape.gpu.kind is GpuKind.WHOLE
        if len(devices) > pod.shape.gpu.devices:
            what = f"is on {len(devices)} devices but requested {pod.shape.gpu.devices}"
            self._note("pod.devices", pod, what, "all of them count as in use; restart the pod to free them")
            gpu = replace(pod.shape.gpu, devices=len(devices), mig=())
            return replace(pod, shape=replace(pod.shape, gpu=gpu), devices=devices)
        if is_whole and any(device in node.gpus_withheld for device in devices):
            # What it holds of withheld devices is not counted among what can be given out, so it takes nothing of that.
            given_out = tuple(device for device in devices if device not in node.gpus_withheld)
            pod = replace(pod, shape=replace(pod.shape, gpu=whole_gpus(len(given_out))), devices=given_out)
            devices = given_out
        doubled = [device for device in devices if self.whole_on.get((node.name, device), 0) > is_whole]
        if doubled:
            what = f"is on device {doubled[0]} of {node.name}, which another pod holds exclusively"
            self._note(
                "device.overcommitted", pod, what, "stop one of the two; until then no other pod is placed there"
            )
            if not is_whole:
                return replace(pod, shape=replace(pod.shape, gpu=whole_gpus(len(devices))), devices=devices)
        return pod if devices == pod.devices else replace(pod, devices=devices)


def _sound_shape(shape: PodShape) -> PodShape:
    """The shape itself if its amounts are possible, else one with the impossible ones set to nothing."""
    gpu = shape.gpu
    amounts = (shape.cpu_milli, shape.memory_bytes, gpu.devices, gpu.memory_mib)
    counts = (*shape.extended, *gpu.mig)
    possible = (
        min(amounts) >= 0
        and 1 <= gpu.portion_milli <= WHOLE_GPU_MILLI
        and gpu.devices <= DEVICES_PER_NODE_MAX
        and all(count >= 0 for _, count in counts)
    )
    if possible:
        return shape
    devices = min(max(gpu.devices, 0), DEVICES_PER_NODE_MAX)
    return replace(
        shape,
        cpu_milli=max(shape.cpu_milli, 0),
        memory_bytes=max(shape.memory_bytes, 0),
        extended=tuple((name, max(count, 0)) for name, count in shape.extended),
        gpu=GpuRequest(devices=devices, mig=tuple((name, max(count, 0)) for name, count in gpu.mig)),
    )
