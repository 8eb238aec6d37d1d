"""Nodes as the API server has them, read into what the scheduler sees. Pure.

What pods of other schedulers use is subtracted, and their GPUs are withheld. Which devices those are is not known,
since device plugins choose devices: the indexes of a node's GPUs are seats, and the highest free ones are withheld.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

import msgspec

from fairpool.engines.kubernetes.pod_reading import PodUse, moment
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.quantities import amount, milli
from fairpool.model.ids import Instant, NodeName
from fairpool.model.node import Node, Taint, TaintEffect
from fairpool.model.observation import ObservedNode

MEMORY_LABEL = "nvidia.com/gpu.memory"
"""Of each GPU, in MiB; set by NVIDIA's feature discovery."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The taint by which an administrator confirms that a node is off."""
STATES = frozenset({f"node.kubernetes.io/{state}" for state in ("unschedulable", "not-ready", "unreachable")})
"""Taints by which Kubernetes repeats what is known of a node in other ways. They say nothing about who may go there: a
job that does not tolerate them can start as soon as the node is back."""
STANDARD = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
OTHERS = ("hugepages-", "attachable-volumes-", "nvidia.com/mig-")
"""Beginnings of resources that are not scheduled by count.
TODO: MIG profiles; worth doing as soon as pods can ask for them here."""
EFFECTS = {effect.value: effect for effect in TaintEffect}


class NodeMetadata(msgspec.Struct, rename="camel", gc=False):
    """Identity and labels."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class TaintEntry(msgspec.Struct, gc=False):
    """A taint."""

    key: str = ""
    value: str | None = None
    effect: str | None = None


class NodeSpec(msgspec.Struct, gc=False):
    """Whether pods may go there."""

    unschedulable: bool | None = None
    taints: list[TaintEntry] | None = None


class NodeCondition(msgspec.Struct, rename="camel", gc=False):
    """One condition. The heartbeat is not read: it changes all the time."""

    type: str = ""
    status: str = ""
    message: str | None = None
    last_transition_time: datetime | None = None


class NodeInfo(msgspec.Struct, gc=False):
    """What the machine is."""

    boot_id: str | None = msgspec.field(name="bootID", default=None)


class NodeStatus(msgspec.Struct, rename="camel", gc=False):
    """What the kubelet says."""

    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None
    conditions: list[NodeCondition] | None = None
    node_info: NodeInfo | None = None


class NodeObject(msgspec.Struct, gc=False):
    """A node."""

    metadata: NodeMetadata = msgspec.field(default_factory=NodeMetadata)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


def observed_node(node: NodeObject, others: PodUse, held: Collection[int], settings: PodSettings) -> ObservedNode:
    """A node without what `others` use. `held`: GPUs that our pods have."""
    ready = next((each for each in node.status.conditions or () if each.type == "Ready"), None)
    info = node.status.node_info
    withheld = _withheld(node.status, others, held, settings.gpu_resource)
    return ObservedNode(
        node=_node(node, others, withheld, settings, is_ready=ready is not None and ready.status != "False"),
        boot_id=(info.boot_id if info is not None else None) or "",
        silent_since=_silent_since(ready),
        gone=any(each.key == OUT_OF_SERVICE for each in node.spec.taints or ()),
        message=_message(ready, withheld, others.of(settings.gpu_resource)),
        privileges=tuple(sorted(settings.privileges)),
    )


def deleted_node(name: NodeName) -> ObservedNode:
    """A node whose object was deleted while pods of ours were bound to it."""
    node = Node(name=name, cpu_milli=0, memory_bytes=0, ready=False)
    return ObservedNode(node=node, boot_id="", silent_since=Instant(0), gone=True, message="the node was deleted")


def _node(
    node: NodeObject, others: PodUse, withheld: tuple[int, ...], settings: PodSettings, *, is_ready: bool
) -> Node:
    labels, status = node.metadata.labels or {}, node.status
    allocatable = {name: str(value) for name, value in (status.allocatable or {}).items()}
    return Node(
        name=NodeName(node.metadata.name),
        cpu_milli=max(0, milli(allocatable.get("cpu", "")) - others.cpu_milli),
        memory_bytes=max(0, amount(allocatable.get("memory", "")) - others.memory_bytes),
        pods_max=max(0, amount(allocatable.get("pods", "")) - others.pods),
        gpus=_gpus(status, settings.gpu_resource),
        gpu_memory_mib=amount(labels.get(MEMORY_LABEL, "")),
        gpus_withheld=withheld,
        extended=_extended(allocatable, others, settings.gpu_resource),
        labels=labels,
        taints=_taints(node.spec),
        ready=is_ready,
        cordoned=bool(node.spec.unschedulable),
    )


def _gpus(status: NodeStatus, resource: str) -> int:
    """Those that it has, healthy or not."""
    return max(amount(str(each.get(resource, ""))) for each in (status.capacity or {}, status.allocatable or {}))


def _withheld(status: NodeStatus, others: PodUse, held: Collection[int], resource: str) -> tuple[int, ...]:
    count = _gpus(status, resource)
    usable = amount(str((status.allocatable or {}).get(resource, "")))
    missing = count - usable + others.of(resource)
    free = [index for index in range(count) if index not in held]
    return tuple(free[len(free) - missing :]) if 0 < missing < len(free) else tuple(free if missing else ())


def _extended(allocatable: Mapping[str, str], others: PodUse, gpu_resource: str) -> dict[str, int]:
    return {
        name: max(0, amount(text) - others.of(name))
        for name, text in allocatable.items()
        if name not in STANDARD and name != gpu_resource and not name.startswith(OTHERS)
    }


def _taints(spec: NodeSpec) -> tuple[Taint, ...]:
    return tuple(
        Taint(each.key, each.value or "", EFFECTS[each.effect])
        for each in spec.taints or ()
        if each.effect in EFFECTS and each.key not in STATES
    )


def _silent_since(ready: NodeCondition | None) -> Instant | None:
    """NotReady by the node controller's word means that the kubelet does not answer; by its own, that it does."""
    if ready is None or ready.status != "Unknown":
        return None
    return moment(ready.last_transition_time) if ready.last_transition_time is not None else Instant(0)


def _message(ready: NodeCondition | None, withheld: tuple[int, ...], foreign_gpus: int) -> str:
    words = []
    if ready is None or ready.status == "False":
        words.append(f"the node is not ready: {ready.message or 'no reason given'}" if ready else "it is not ready yet")
    if withheld:
        by_others = f", {foreign_gpus} in use by pods that Fairpool did not start" if foreign_gpus else ""
        words.append(f"{len(withheld)} of its GPUs are not scheduled{by_others}")
    return "; ".join(words)
