"""The nouns of the scenario language: lines of text that become rows of a snapshot.

`tests/scenario.py` describes the language as a whole; this module knows how a node, a queue, a topology and a pod group
are written. Every phrase is one row of a table, and a line that fits none of them is answered with the whole table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Generic, TypeVar

from fairpool.model.ids import SECOND_MS, GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.node import MigStrategy, Node, Taint, TaintEffect, Topology
from fairpool.model.node_role import NodeRole
from fairpool.model.organization import Entitlement, OverQuotaChoice, Queue, gpu_entitlement
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI, parse_gpus
from fairpool.model.workload import (
    NO_GPU,
    GpuKind,
    GpuRequest,
    NodePreference,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    Pod,
    PodGroup,
    PodSet,
    PodShape,
    Toleration,
    TopologyConstraint,
    WorkloadKind,
    gpu_memory,
    gpu_portion,
    whole_gpus,
)
from fairpool.scheduler.snapshot import Snapshot

GB = 10**9
START = Instant(1_700_000_000_000)
"""The moment at which scenarios begin; what they list was created in the hour before, in the order of the lines."""
CREATED = Instant(START - 3600 * SECOND_MS)

MIG_PREFIX = "nvidia.com/mig-"


class ScenarioError(ValueError):
    """A line that says nothing, and what it could have said."""


Draft = TypeVar("Draft")


@dataclass(frozen=True)
class Phrase(Generic[Draft]):
    """One way to say one thing about a row."""

    form: str
    """As it is written, for the error message."""
    pattern: str
    effect: Callable[[Draft, re.Match[str]], Draft]


def read_phrases(text: str, phrases: Sequence[Phrase[Draft]], draft: Draft) -> Draft:
    """Apply each comma-separated part of a line to the draft of a row."""
    for part in filter(None, (each.strip() for each in text.split(","))):
        draft = _read_phrase(part, phrases, draft)
    return draft


def _read_phrase(part: str, phrases: Sequence[Phrase[Draft]], draft: Draft) -> Draft:
    for phrase in phrases:
        match = re.fullmatch(phrase.pattern, part)
        if match:
            return phrase.effect(draft, match)
    known = ", ".join(phrase.form for phrase in phrases)
    raise ScenarioError(f"does not understand {part!r}; expected one of: {known}")


# --- nodes ---------------------------------------------------------------------------------------------------


NODE_PHRASES: tuple[Phrase[Node], ...] = (
    Phrase("8 gpus", r"(\d+) gpus?", lambda node, m: replace(node, gpus=int(m[1]))),
    Phrase("of 32510 MiB", r"of (\d+) MiB", lambda node, m: replace(node, gpu_memory_mib=int(m[1]))),
    Phrase("80 cpus", r"(\d+) cpus?", lambda node, m: replace(node, cpu_milli=int(m[1]) * 1000)),
    Phrase("512 GB", r"(\d+) GB", lambda node, m: replace(node, memory_bytes=int(m[1]) * GB)),
    Phrase("110 pods", r"(\d+) pods?", lambda node, m: replace(node, pods_max=int(m[1]))),
    Phrase("label k=v", r"label (\S+?)=(\S+)", lambda node, m: replace(node, labels={**node.labels, m[1]: m[2]})),
    Phrase(
        "taint k=v:NoSchedule",
        r"taint ([^\s=:]+)(?:=([^\s:]+))?:(\w+)",
        lambda node, m: replace(node, taints=(*node.taints, Taint(m[1], m[2] or "", TaintEffect(m[3])))),
    ),
    Phrase(
        "withheld 0 1",
        r"withheld ([\d ]+)",
        lambda node, m: replace(node, gpus_withheld=tuple(int(each) for each in m[1].split())),
    ),
    Phrase(
        "mig 1g.5gb x 7",
        r"mig (\S+) x (\d+)",
        lambda node, m: replace(
            node,
            mig_strategy=MigStrategy.MIXED,
            mig_instances={**node.mig_instances, MIG_PREFIX + m[1]: int(m[2])},
        ),
    ),
    Phrase("cordoned", r"cordoned", lambda node, m: replace(node, cordoned=True)),
    Phrase("role gpu worker", r"role ([a-z ]+)", lambda node, m: replace(node, role=NodeRole(m[1]))),
    Phrase("not ready", r"not ready", lambda node, m: replace(node, ready=False)),
)


def read_node(name: str, text: str) -> Node:
    """`node n1: 8 gpus, of 32510 MiB`. CPU and memory are plenty unless the line says otherwise."""
    plenty = Node(name=NodeName(name), cpu_milli=1_000_000, memory_bytes=100_000 * GB)
    return read_phrases(text, NODE_PHRASES, plenty)


# --- queues --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueueDraft:
    queue: Queue
    quota_milli: int = 0
    limit_milli: int = UNLIMITED
    over_quota: OverQuotaChoice | None = None
    weight: float | None = None
    usage: float = 0.0


def _amount(text: str) -> int:
    """GPUs of a quota, in thousandths; any number of decimals up to three, also beyond one GPU."""
    return UNLIMITED if text == "unlimited" else int(Fraction(text) * WHOLE_GPU_MILLI)


def _with(draft: QueueDraft, **changes: object) -> QueueDraft:
    return replace(draft, queue=replace(draft.queue, **changes))  # type: ignore[arg-type]


def _min_runtime(draft: QueueDraft, match: re.Match[str]) -> QueueDraft:
    seconds = int(match[2])
    if match[1] == "preempt ":
        return _with(draft, preempt_min_runtime_s=seconds)
    if match[1] == "reclaim ":
        return _with(draft, reclaim_min_runtime_s=seconds)
    return _with(draft, preempt_min_runtime_s=seconds, reclaim_min_runtime_s=seconds)


QUEUE_PHRASES: tuple[Phrase[QueueDraft], ...] = (
    Phrase("quota 4", r"quota ([\d.]+|unlimited)", lambda d, m: replace(d, quota_milli=_amount(m[1]))),
    Phrase("limit 6", r"limit ([\d.]+)", lambda d, m: replace(d, limit_milli=_amount(m[1]))),
    Phrase("weight 2", r"weight ([\d.]+)", lambda d, m: replace(d, weight=float(m[1]))),
    Phrase(
        "over quota off|lowest|low|medium|high",
        r"over quota (off|lowest|low|medium|high)",
        lambda d, m: replace(d, over_quota=OverQuotaChoice(m[1])),
    ),
    Phrase("priority 200", r"priority (\d+)", lambda d, m: _with(d, priority=int(m[1]))),
    Phrase("in research", r"in (\S+)", lambda d, m: _with(d, parent=QueueId(m[1]))),
    Phrase("[preempt|reclaim] min runtime 60s", r"(preempt |reclaim )?min runtime (\d+)s", _min_runtime),
    Phrase("usage 0.5", r"usage ([\d.]+)", lambda d, m: replace(d, usage=float(m[1]))),
    Phrase(
        "cpu quota 8",
        r"cpu quota (\d+)",
        lambda d, m: _with(d, cpu=replace(d.queue.cpu, quota=int(m[1]) * 1000)),
    ),
    Phrase(
        "cpu limit 8",
        r"cpu limit (\d+)",
        lambda d, m: _with(d, cpu=replace(d.queue.cpu, limit=int(m[1]) * 1000)),
    ),
)


def read_queue(name: str, text: str, position: int) -> Queue:
    """`queue vision: quota 4, limit 6, in research`. Without a word about weight, the weight is the quota."""
    blank = QueueDraft(Queue(id=QueueId(name), created_at=Instant(CREATED + position * SECOND_MS)))
    draft = read_phrases(text, QUEUE_PHRASES, blank)
    gpu = gpu_entitlement(draft.quota_milli, draft.over_quota, limit_milli=draft.limit_milli, usage=draft.usage)
    if draft.weight is not None:
        gpu = Entitlement(gpu.quota, gpu.limit, draft.weight, draft.usage)
    return replace(draft.queue, gpu=gpu)


def read_topology(name: str, text: str) -> Topology:
    """`topology net: zone rack`, from the widest level to the narrowest."""
    return Topology(name=name, levels=tuple(text.replace(",", " ").split()))


# --- pod groups ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SetDraft:
    pod_set: PodSet
    pods: int


@dataclass(frozen=True)
class GroupDraft:
    group: PodGroup
    shape: PodShape = PodShape()
    sets: tuple[SetDraft, ...] = ()
    nodes: tuple[NodeName, ...] = ()
    devices: tuple[int, ...] = ()
    placed: int | None = None
    """How many of its pods are where the line says; None: all of them."""
    gated: bool = False
    first_leads: bool = False
    nominated: NodeName | None = None
    ago_s: int | None = None


def _gpus(draft: GroupDraft, match: re.Match[str]) -> GroupDraft:
    """`4 gpus`, `0.5 gpu`, `2 x 0.5 gpus`."""
    milli = parse_gpus(match[2])
    if not isinstance(milli, int):
        raise ScenarioError(str(milli))
    devices = int(match[1] or 1)
    if milli == 0:
        return _shape(draft, gpu=NO_GPU)
    if milli >= WHOLE_GPU_MILLI:
        return _shape(draft, gpu=whole_gpus(devices * milli // WHOLE_GPU_MILLI))
    return _shape(draft, gpu=gpu_portion(milli, devices))


def _shape(draft: GroupDraft, **changes: object) -> GroupDraft:
    return replace(draft, shape=replace(draft.shape, **changes))  # type: ignore[arg-type]


def _group(draft: GroupDraft, **changes: object) -> GroupDraft:
    return replace(draft, group=replace(draft.group, **changes))  # type: ignore[arg-type]


def _gang(minimum: int, pods: int) -> tuple[SetDraft, ...]:
    return (SetDraft(PodSet(minimum=minimum), pods),)


def _pod_set(draft: GroupDraft, match: re.Match[str]) -> GroupDraft:
    """`set worker of 2 to 4 within rack of net`."""
    constraint = TopologyConstraint(topology=match[5], required=match[4]) if match[4] else None
    minimum = int(match[2])
    pod_set = PodSet(name=match[1], minimum=minimum, constraint=constraint)
    return replace(draft, sets=(*draft.sets, SetDraft(pod_set, int(match[3] or minimum))))


def _selector(draft: GroupDraft, match: re.Match[str]) -> GroupDraft:
    rule = NodeSelectorRequirement(match[1], NodeSelectorOperator.IN, (match[2],))
    rules = draft.shape.node_rules[0] if draft.shape.node_rules else ()
    return _shape(draft, node_rules=((*rules, rule),))


def _topology(draft: GroupDraft, match: re.Match[str]) -> GroupDraft:
    """`within rack of net` is required, `preferring rack of net` is not."""
    level = "required" if match[1] == "within" else "preferred"
    before = draft.group.tree.constraint or TopologyConstraint(topology=match[3])
    constraint = replace(before, **{level: match[2]})
    return _group(draft, tree=replace(draft.group.tree, constraint=constraint))


def _nodes(draft: GroupDraft, match: re.Match[str]) -> GroupDraft:
    return replace(draft, nodes=tuple(NodeName(name) for name in match[1].split()))


GROUP_PHRASES: tuple[Phrase[GroupDraft], ...] = (
    Phrase("[2 x] 4 gpus | 0.5 gpu", r"(?:(\d+) x )?([\d.]+) gpus?", _gpus),
    Phrase(
        "[2 x] 8000 MiB",
        r"(?:(\d+) x )?(\d+) MiB",
        lambda d, m: _shape(d, gpu=gpu_memory(int(m[2]), int(m[1] or 1))),
    ),
    Phrase(
        "mig 1g.5gb x 2",
        r"mig (\S+) x (\d+)",
        lambda d, m: _shape(d, gpu=GpuRequest(mig=((MIG_PREFIX + m[1], int(m[2])),))),
    ),
    Phrase("no gpu", r"no gpus?", lambda d, m: _shape(d, gpu=NO_GPU)),
    Phrase("4 cpus", r"([\d.]+) cpus?", lambda d, m: _shape(d, cpu_milli=int(Fraction(m[1]) * 1000))),
    Phrase("16 GB", r"(\d+) GB", lambda d, m: _shape(d, memory_bytes=int(m[1]) * GB)),
    Phrase("gang of 3", r"gang of (\d+)", lambda d, m: replace(d, sets=_gang(int(m[1]), int(m[1])))),
    Phrase("2 to 4 pods", r"(\d+) to (\d+) pods", lambda d, m: replace(d, sets=_gang(int(m[1]), int(m[2])))),
    Phrase("3 pods", r"(\d+) pods?", lambda d, m: replace(d, sets=_gang(1, int(m[1])))),
    Phrase(
        "set worker of 2 [to 4] [within rack of net]",
        r"set (\S+) of (\d+)(?: to (\d+))?(?: within (\S+) of (\S+))?",
        _pod_set,
    ),
    Phrase("2 placed", r"(\d+) placed", lambda d, m: replace(d, placed=int(m[1]))),
    Phrase("on nodes k=v", r"on nodes (\S+?)=(\S+)", _selector),
    Phrase("on n1 [n2 ...]", r"on (\S+(?: \S+)*)", _nodes),
    Phrase(
        "device 3 | devices 0 1",
        r"devices? ([\d ]+)",
        lambda d, m: replace(d, devices=tuple(int(each) for each in m[1].split())),
    ),
    Phrase(
        "prefers k=v [weight 5]",
        r"prefers ([^\s=]+)=(\S+)(?: weight (\d+))?",
        lambda draft, m: _shape(
            draft,
            preferences=(
                *draft.shape.preferences,
                NodePreference(int(m[3] or 1), (NodeSelectorRequirement(m[1], NodeSelectorOperator.IN, (m[2],)),)),
            ),
        ),
    ),
    Phrase(
        "tolerates k[=v]",
        r"tolerates ([^\s=]+)(?:=(\S+))?",
        lambda d, m: _shape(d, tolerations=(*d.shape.tolerations, Toleration(m[1], m[2]))),
    ),
    Phrase("within rack of net | preferring rack of net", r"(within|preferring) (\S+) of (\S+)", _topology),
    Phrase("build | train | inference", r"build|train|inference", lambda d, m: _group(d, kind=WorkloadKind(m[0]))),
    Phrase("preemptible", r"preemptible", lambda d, m: _group(d, preemptible=True)),
    Phrase("not preemptible", r"not preemptible", lambda d, m: _group(d, preemptible=False)),
    Phrase("priority 80", r"priority (\d+)", lambda d, m: _group(d, priority=int(m[1]))),
    Phrase("not movable", r"not movable", lambda d, m: _group(d, movable=False)),
    Phrase(
        "avoiding n1",
        r"avoiding (\S+)",
        lambda d, m: _group(d, avoid=(*d.group.avoid, NodeName(m[1]))),
    ),
    Phrase("nominated n1", r"nominated (\S+)", lambda d, m: replace(d, nominated=NodeName(m[1]))),
    Phrase("gated", r"gated", lambda d, m: replace(d, gated=True)),
    Phrase("first leads", r"first leads", lambda d, m: replace(d, first_leads=True)),
    Phrase("succeeded in part", r"succeeded in part", lambda d, m: _group(d, succeeded=True)),
    Phrase(
        "created at 5",
        r"created at (-?\d+)",
        lambda d, m: _group(d, created_at=Instant(CREATED + int(m[1]) * SECOND_MS)),
    ),
    Phrase(
        "created later",
        r"created later",
        lambda d, m: _group(d, created_at=Instant(d.group.created_at + 1000 * SECOND_MS)),
    ),
    Phrase(
        "created earlier",
        r"created earlier",
        lambda d, m: _group(d, created_at=Instant(d.group.created_at - 1000 * SECOND_MS)),
    ),
    Phrase(
        "started 30s ago | promised 30s ago",
        r"(?:started|promised) (\d+)s ago",
        lambda d, m: replace(d, ago_s=int(m[1])),
    ),
    Phrase(
        "stale for 30s",
        r"stale for (\d+)s",
        lambda d, m: _group(d, stale_since=Instant(START - int(m[1]) * SECOND_MS)),
    ),
)

PLACED_PHASES = {
    "running": PodPhase.RUNNING,
    "leaving": PodPhase.RELEASING,
    "promised": PodPhase.PROMISED,
    "pending": PodPhase.WAITING,
}


@dataclass(frozen=True)
class GroupLine:
    """`running a of vision: 4 gpus on n1`, taken apart."""

    verb: str
    name: str
    queue: str
    text: str


def read_group(line: GroupLine, position: int, snapshot: Snapshot) -> tuple[PodGroup, list[Pod]]:
    """A pod group with its pods `a-0`, `a-1`, and so on, on the first free devices unless the line names them."""
    listed = CREATED + position * SECOND_MS
    created = Instant(listed if snapshot.now == START else snapshot.now + position)
    blank = GroupDraft(PodGroup(id=GroupId(line.name), queue=QueueId(line.queue), created_at=created))
    draft = read_phrases(_apart(line.text), GROUP_PHRASES, blank)
    draft = replace(draft, sets=draft.sets or _gang(1, 1))
    if (line.verb == "pending") == bool(draft.nodes):
        raise ScenarioError(f"a {line.verb} group {'has no node yet' if draft.nodes else 'needs a node: on n1'}")
    pod_sets = tuple(each.pod_set for each in draft.sets)
    group = replace(draft.group, tree=replace(draft.group.tree, pod_sets=pod_sets))
    if line.verb in ("running", "leaving"):
        ago_ms = SECOND_MS * draft.ago_s if draft.ago_s is not None else snapshot.now - group.created_at
        group = replace(group, started_at=Instant(snapshot.now - ago_ms))
    return group, _pods(line, draft, group, snapshot)


def _apart(text: str) -> str:
    """`4 gpus on n1` is two phrases."""
    return re.sub(r"(?<=\S) on (?=\S)", ", on ", text)


def _pods(line: GroupLine, draft: GroupDraft, group: PodGroup, snapshot: Snapshot) -> list[Pod]:
    names = [each.pod_set.name for each in draft.sets for _ in range(each.pods)]
    placed = len(names) if draft.placed is None else draft.placed
    if line.verb == "pending":
        placed = 0
    free = FreeDevices(snapshot, soon=line.verb == "promised")
    pods = []
    for index, pod_set in enumerate(names):
        pod = Pod(
            id=PodId(f"{group.id}-{index}"),
            group=group.id,
            shape=draft.shape,
            pod_set=pod_set,
            leader=draft.first_leads and index == 0,
            created_at=Instant(group.created_at + index),
            gated=draft.gated,
            nominated=draft.nominated,
        )
        if index < placed:
            pod = _placed(pod, index, line.verb, draft, snapshot, free)
        pods.append(pod)
    return pods


def _placed(pod: Pod, index: int, verb: str, draft: GroupDraft, snapshot: Snapshot, free: FreeDevices) -> Pod:
    node = draft.nodes[min(index, len(draft.nodes) - 1)]
    # Named devices belong to the first pod, or to all pods in turn if there are enough of them.
    count = pod.shape.gpu.devices
    devices = draft.devices[index * count : (index + 1) * count]
    devices = devices or free.take(node, pod.shape.gpu)
    promised_at = Instant(snapshot.now - SECOND_MS * (draft.ago_s or 0)) if verb == "promised" else None
    return replace(pod, phase=PLACED_PHASES[verb], node=node, devices=devices, promised_at=promised_at)


@dataclass
class FreeDevices:
    """Which parts of which devices are free, so that scenarios need not number devices."""

    snapshot: Snapshot
    soon: bool = False
    """Whether devices that are being released count as free."""
    taken: dict[tuple[NodeName, int], Fraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        holding = HOLDS_DEVICES - {PodPhase.RELEASING} | {PodPhase.PROMISED} if self.soon else HOLDS_DEVICES
        nodes = {node.name: node for node in self.snapshot.nodes}
        for pod in self.snapshot.pods:
            if pod.phase in holding and pod.node in nodes:
                self._add(nodes[pod.node], pod.devices, pod.shape.gpu)

    def take(self, name: NodeName, gpu: GpuRequest) -> tuple[int, ...]:
        """The first devices of a node with room for a request, which is then taken."""
        node = next((each for each in self.snapshot.nodes if each.name == name), None)
        if node is None:
            raise ScenarioError(f"there is no node {name}")
        part = _part_of_device(gpu, node)
        devices = tuple(
            device
            for device in range(node.gpus)
            if device not in node.gpus_withheld and self.taken.get((name, device), Fraction(0)) + part <= 1
        )[: gpu.devices]
        if gpu.kind is not GpuKind.MIG and len(devices) < gpu.devices:
            raise ScenarioError(f"{name} has no room for {gpu.devices} devices, {part} of each")
        self._add(node, devices, gpu)
        return devices

    def _add(self, node: Node, devices: tuple[int, ...], gpu: GpuRequest) -> None:
        for device in devices:
            key = (node.name, device)
            self.taken[key] = self.taken.get(key, Fraction(0)) + _part_of_device(gpu, node)


def _part_of_device(gpu: GpuRequest, node: Node) -> Fraction:
    if gpu.kind is GpuKind.MEMORY:
        return Fraction(gpu.memory_mib, node.gpu_memory_mib) if node.gpu_memory_mib else Fraction(1)
    return Fraction(gpu.portion_milli, WHOLE_GPU_MILLI)
