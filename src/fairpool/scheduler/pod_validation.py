"""Validation of pods, against the nodes and groups there are.

Most pods are sound, and a quick look shows it. The others are left out or clamped so that what they hold stays held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import lt

from fairpool.model.ids import GroupId, NodeName, PodId, QueueId
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.node import Node
from fairpool.model.problem import Problem
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import (
    NO_GPU,
    GpuKind,
    GpuRequest,
    Pod,
    PodGroup,
    PodShape,
    SubGroup,
    whole_gpus,
)

DEVICES_PER_NODE_MAX = 1024
NO_QUEUE = QueueId("")
"""Queue of the groups made for orphans: they keep what they hold, and nothing else is scheduled for them."""
HAS_A_PLACE = frozenset({*HOLDS_DEVICES, PodPhase.PROMISED})
"""Phases of pods that hold something on their node, or are promised something there."""

PodsOnNodes = Mapping[NodeName, tuple[PodId, ...]]
"""By node, the pods that have a place there, in id order."""


@dataclass(frozen=True, slots=True)
class Unusual:
    """A pod that is not planned as it is given."""

    row: Pod | None
    """As it is planned; None: not at all."""
    problems: tuple[Problem, ...]


class PodValidation:
    """Looks at pods: each is sound, or unusual. Those on one node must be looked at together."""

    def __init__(self, nodes: Mapping[NodeName, Node], groups: Mapping[GroupId, PodGroup]) -> None:
        self.nodes = nodes
        self.groups = groups
        self.rows: dict[PodId, Pod] = {}
        """Pods as they can be planned."""
        self.unusual: dict[PodId, Unusual] = {}
        self.orphans: dict[GroupId, PodGroup] = {}
        """Groups made for pods that hold something and whose own does not exist."""
        self.crowded: dict[NodeName, tuple[Problem, ...]] = {}
        """By node, devices whose sharers add up to more than there is."""
        self._problems: list[Problem] = []
        self._whole_on: dict[tuple[NodeName, int], int] = {}
        self._kinds: dict[int, GpuKind | None] = {}
        """By identity of a shape, how it asks for GPUs; None: it is not sound."""
        self._sound_shapes: dict[int, PodShape] = {}
        self._set_names: dict[int, frozenset[str]] = {}

    def look_at(self, pods: Iterable[Pod]) -> None:
        """Waiting pods, and all pods of the nodes that one of them is on, in id order."""
        groups, nodes, kinds, names, rows = self.groups, self.nodes, self._kinds, self._set_names, self.rows
        on_node: dict[NodeName, list[Pod]] = {}
        doubtful: list[Pod] = []
        for pod in pods:
            shape = pod.shape
            if id(shape) not in kinds:
                self._learn(shape)
            phase = pod.phase
            if phase is PodPhase.WAITING:
                is_usual = not pod.devices
            elif phase is PodPhase.ENDED:
                continue
            else:
                name = pod.node
                node = None if name is None else nodes.get(name)
                if name is not None and phase in HOLDS_DEVICES:
                    if name in on_node:
                        on_node[name].append(pod)
                    else:
                        on_node[name] = [pod]
                is_usual = node is not None and _is_plainly_on(pod, node)
            group = groups.get(pod.group)
            if is_usual and group is not None and kinds[id(shape)] is not None:
                known = names.get(id(group.tree))
                if pod.pod_set in (known or self._names(group.tree)):
                    rows[pod.id] = pod
                    continue
            doubtful.append(pod)
        doubtful += self._on_doubled_devices(on_node)
        for pod in sorted(doubtful, key=lambda each: each.id):
            self._look_closely(pod)
        self._note_crowded_devices(on_node)

    def _learn(self, shape: PodShape) -> None:
        sound = self._sound_shapes[id(shape)] = sound_shape(shape)
        self._kinds[id(shape)] = shape.gpu.kind if sound is shape else None

    def _names(self, tree: SubGroup) -> frozenset[str]:
        known = self._set_names.get(id(tree))
        if known is None:
            known = self._set_names[id(tree)] = frozenset(pod_set.name for pod_set in tree.all_pod_sets())
        return known

    def _on_doubled_devices(self, on_node: Mapping[NodeName, Sequence[Pod]]) -> list[Pod]:
        """Pods on nodes where a pod holds a whole device that another is on too."""
        doubtful: list[Pod] = []
        for name, pods in on_node.items():
            held = [device for pod in pods for device in pod.devices]
            if len(held) == len(set(held)):
                continue
            whole = [device for pod in pods if pod.shape.gpu.kind is GpuKind.WHOLE for device in pod.devices]
            if not whole:
                continue
            for device in whole:
                self._whole_on[name, device] = self._whole_on.get((name, device), 0) + 1
            for pod in pods:
                if pod.id in self.rows and pod.devices:
                    del self.rows[pod.id]
                    doubtful.append(pod)
        return doubtful

    def _look_closely(self, pod: Pod) -> None:
        self._problems = []
        sound = self._sound(pod)
        if sound is not pod or self._problems:
            self.unusual[pod.id] = Unusual(sound, tuple(self._problems))
        if sound is not None:
            self.rows[pod.id] = sound

    def _note_crowded_devices(self, on_node: Mapping[NodeName, Sequence[Pod]]) -> None:
        """Devices whose sharers add up to more than there is; they have no room for other pods until some leave."""
        for name, pods in on_node.items():
            used: dict[int, float] = {}
            for pod in pods:
                if self._kinds[id(pod.shape)] in (GpuKind.WHOLE, GpuKind.NONE):
                    continue
                sound = self.rows.get(pod.id)
                if sound is not None and sound.shape.gpu.kind not in (GpuKind.WHOLE, GpuKind.NONE):
                    part = self._part_of_device(sound)
                    for device in sound.devices:
                        used[device] = used.get(device, 0.0) + part
            if used and max(used.values()) > 1.0005:
                self.crowded[name] = tuple(
                    Problem(
                        "device.overcommitted",
                        f"the pods on device {device} of {name} request {part:.3g} of it in total",
                        "stop one of them; until then no other pod is placed there",
                    )
                    for device, part in used.items()
                    if part > 1.0005
                )

    def _part_of_device(self, pod: Pod) -> float:
        gpu = pod.shape.gpu
        if gpu.kind is not GpuKind.MEMORY:
            return gpu.portion_milli / WHOLE_GPU_MILLI
        memory_mib = self.nodes[pod.node].gpu_memory_mib if pod.node is not None else 0
        return gpu.memory_mib / memory_mib if memory_mib else 0.0

    def _note(self, code: str, pod: Pod, what: str, fix: str) -> None:
        self._problems.append(Problem(code, f"pod {pod.id} {what}", fix))

    def _sound(self, pod: Pod) -> Pod | None:
        holds = pod.phase in HOLDS_DEVICES
        if holds and pod.node not in self.nodes:
            where = "without a node" if pod.node is None else f"on node {pod.node}, which does not exist"
            self._note("pod.unknown_node", pod, f"is {pod.phase} {where}", "it is treated as gone")
            return None
        shape = self._sound_shapes[id(pod.shape)]
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
        group = self.groups.get(pod.group)
        if group is None or pod.pod_set not in self._names(group.tree):
            return self._adopt(pod, holds)
        return self._on_its_devices(pod) if pod.devices else pod

    def _adopt(self, pod: Pod, holds: bool) -> Pod | None:
        """An orphan keeps what it holds, in a group without a queue; if it waits it is left out."""
        known = pod.group in self.groups
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
        doubled = [device for device in devices if self._whole_on.get((node.name, device), 0) > is_whole]
        if doubled:
            what = f"is on device {doubled[0]} of {node.name}, which another pod holds exclusively"
            self._note(
                "device.overcommitted", pod, what, "stop one of the two; until then no other pod is placed there"
            )
            if not is_whole:
                return replace(pod, shape=replace(pod.shape, gpu=whole_gpus(len(devices))), devices=devices)
        return pod if devices == pod.devices else replace(pod, devices=devices)


def _is_plainly_on(pod: Pod, node: Node) -> bool:
    """Whether a pod is on as many devices as it requests, all of which the node has, or lists none."""
    devices = pod.devices
    if not devices:
        return True
    if len(devices) == 1:
        is_there = 0 <= devices[0] < node.gpus
    else:
        is_there = devices[0] >= 0 and devices[-1] < node.gpus and all(map(lt, devices, devices[1:]))
    return is_there and len(devices) == pod.shape.gpu.devices and not node.gpus_withheld


def sound_shape(shape: PodShape) -> PodShape:
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
