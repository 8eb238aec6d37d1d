"""Feasibility check at submit: workloads that could never start with the current nodes, limits and quotas. Pure.

A pool is considered empty: drained, cordoned and silent nodes count as available, and what a cluster does not report
(an older one: MIG instances and extended resources) is left to the scheduler. A workload is refused if none of its
pools could ever run it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from fairpool.model.container_rules import Privilege, container_objection, privilege_objection, process_objection
from fairpool.model.empty_node import copies_when_empty, label_objection, node_objection
from fairpool.model.ids import NodeName, PoolName
from fairpool.model.node import DRAIN, RUNTIME_LABEL, Node, Topology
from fairpool.model.node_role import NOT_A_CPU_WORKER, NOT_A_GPU_WORKER, SYSTEM_WORKER
from fairpool.model.organization import Entitlement, OverQuotaChoice, Queue, name_of_queue
from fairpool.model.precedence import gpus_charged_milli, precedence
from fairpool.model.problem import Problem
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI, Amounts, gpus_text
from fairpool.model.spec import Arrangement, Program, WorkloadSpec
from fairpool.model.workload import PodShape, TopologyConstraint

ANYWAY = "queue it regardless with --wait-anyway (API: waitAnyway)"
GB = 10**9

FIXES = {
    NOT_A_GPU_WORKER: "ask an administrator for a GPU worker (`runai-adm set node-role --gpu-worker NODE`)",
    NOT_A_CPU_WORKER: "ask an administrator for a CPU worker (`runai-adm set node-role --cpu-worker NODE`)",
    SYSTEM_WORKER: "ask an administrator for a worker node (`runai-adm remove node-role --runai-system-worker NODE`)",
    "taint ": "tolerate the taint with --toleration key=KEY,operator=Exists",
    "no MIG instances": "request GPUs with --gpu",
}
"""What to do about an objection that begins like this."""

Shapes = Counter[PodShape]
"""Shapes of pods, and how many there are of each."""


@dataclass(frozen=True, slots=True)
class PoolNodes:
    """The nodes of a pool, with sums that are made once for many submits."""

    nodes: tuple[Node, ...] = ()
    gpus: int = 0
    least_gpu_memory_mib: int = 0
    """Of its smallest GPUs; 0: not known."""
    are_counted: bool = True
    """MIG instances and extended resources of all its nodes were reported."""
    privileges: Mapping[NodeName, tuple[Privilege, ...]] = field(default_factory=dict)
    """Of nodes that reported it: what their containers may be given."""
    has_containers: bool = False
    """Some of them run pods in containers."""
    directory_users: bool = False
    """Processes can run with the uid and gid of a directory."""

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node],
        *,
        are_counted: bool = True,
        privileges: Mapping[NodeName, tuple[Privilege, ...]] = MappingProxyType({}),
        directory_users: bool = False,
    ) -> PoolNodes:
        members = tuple(
            replace(node, taints=tuple(taint for taint in node.taints if taint != DRAIN)) if node.taints else node
            for node in nodes
        )
        sizes = [node.gpu_memory_mib for node in members if node.gpus and node.gpu_memory_mib]
        gpus = sum(node.gpus for node in members if node.role.takes_gpu_pods)
        has_containers = any(RUNTIME_LABEL in node.labels for node in members)
        return cls(members, gpus, min(sizes, default=0), are_counted, privileges, has_containers, directory_users)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """A node pool, with the queues that a workload of one project is charged to there."""

    pool: PoolName
    nodes: PoolNodes | None
    """None: not known, because the cluster is away or has not reported any."""
    owners: tuple[Queue, ...]
    """Its project, and the department above where there is one."""


def never_starts(spec: WorkloadSpec, views: Sequence[PoolView], topologies: Sequence[Topology] = ()) -> list[Problem]:
    """Why it can never start, for each of its pools; empty if one of them could run it."""
    found = []
    for view in views:
        problem = _objection(spec, view, topologies)
        if problem is None:
            return []
        found.append(problem)
    return list(dict.fromkeys(found))


def _objection(spec: WorkloadSpec, view: PoolView, topologies: Sequence[Topology]) -> Problem | None:
    shapes = together(spec)
    if view.nodes is not None:
        in_the_way = _too_large_for_pool(shapes, view.pool, view.nodes) or _not_in_containers(spec, view.nodes)
        if in_the_way is None and spec.constraint is not None:
            in_the_way = _too_large_for_domains(shapes, spec.constraint, topologies, view.pool, view.nodes)
        if in_the_way is not None:
            return in_the_way
    asked = _asked(shapes, view.nodes.least_gpu_memory_mib if view.nodes is not None else 0)
    non_preemptible = not precedence(spec.kind, spec.priority, spec.preemptible).preemptible
    return next((problem for owner in view.owners if (problem := _over(owner, view, asked, non_preemptible))), None)


def together(spec: WorkloadSpec) -> Shapes:
    """Shapes of the pods that start together, and how many of each."""
    count = spec.needed if spec.arrangement is Arrangement.TOGETHER else 1
    leaders = 1 if spec.leader is not None and count else 0
    shapes = Counter({spec.template_of(0).shape: leaders})
    shapes[spec.template.shape] += count - leaders
    return +shapes


def _asked(shapes: Shapes, device_memory_mib: int) -> Amounts:
    total = Amounts()
    for shape, count in shapes.items():
        gpus = gpus_charged_milli(shape.gpu, device_memory_mib)
        total += Amounts(count * gpus, count * shape.cpu_milli, count * shape.memory_bytes)
    return total


# --- nodes ---------------------------------------------------------------------------------------------------


def _too_large_for_pool(shapes: Shapes, pool: PoolName, members: PoolNodes) -> Problem | None:
    nodes = members.nodes
    if not nodes:
        return Problem("pool.empty", f"node pool {pool} has no nodes", f"choose another with --node-pools, or {ANYWAY}")
    pods = shapes.total()
    if not members.are_counted:
        if any(shape.gpu.mig for shape in shapes):
            return None
        shapes = _uncounted(shapes)
    for shape, count in shapes.items():
        copies = _copies(shape, nodes, count)
        if copies >= count:
            continue
        fitting = [node for node in nodes if node_objection(shape, node) is None]
        if not fitting:
            return _no_such_node(shape, pool, nodes)
        if not copies:
            return _too_large_for_node(shape, pool, fitting)
        return _too_many(pods, _devices_milli(shapes), copies, pool, fitting)
    devices_milli = _devices_milli(shapes)
    if devices_milli > WHOLE_GPU_MILLI * members.gpus and not any(shape.gpu.memory_mib for shape in shapes):
        return _too_many(pods, devices_milli, pods - 1, pool, nodes)
    return None


def _not_in_containers(spec: WorkloadSpec, members: PoolNodes) -> Problem | None:
    """Why all nodes that could take its pods refuse to run them in a container."""
    if not members.has_containers:
        return None
    is_gang = spec.arrangement is Arrangement.TOGETHER and spec.pods > 1
    for template in dict.fromkeys((spec.template_of(0), spec.template)):
        problem = None
        for node in members.nodes:
            if node_objection(template.shape, node) is None:
                problem = _refused_in_container(template.program, node, members, is_gang=is_gang)
                if problem is None:
                    break
        if problem is not None:
            return replace(problem, fix=f"{problem.fix}, or {ANYWAY}")
    return None


def _refused_in_container(program: Program, node: Node, members: PoolNodes, *, is_gang: bool) -> Problem | None:
    runtime = node.labels.get(RUNTIME_LABEL)
    if runtime is None:
        return process_objection(program, can_choose_user=members.directory_users)
    allowed = members.privileges.get(node.name, tuple(Privilege))
    return container_objection(program) or privilege_objection(program, allowed, is_gang=is_gang, runtime=runtime)


def _devices_milli(shapes: Shapes) -> int:
    """GPUs that all pods need together; MIG instances are counted by profile instead."""
    return _asked(Counter({shape: count for shape, count in shapes.items() if not shape.gpu.mig}), 0).gpu_milli


def _too_large_for_domains(
    shapes: Shapes, constraint: TopologyConstraint, topologies: Sequence[Topology], pool: PoolName, members: PoolNodes
) -> Problem | None:
    """A required level of a topology has no domain that could ever hold all pods."""
    level = constraint.required
    if level is None or not members.are_counted:
        return None
    topology = next((each for each in topologies if each.name == constraint.topology), constraint.label_topology)
    depth = topology.levels.index(level) + 1
    domains: dict[tuple[str, ...], list[Node]] = {}
    for node in members.nodes:
        domain = topology.domain_of(node)
        if domain is not None:
            domains.setdefault(domain[:depth], []).append(node)
    if not domains:
        return _no_domain(topology, level, pool, members.nodes)
    pods = shapes.total()
    room = max(_pods_in(shapes, nodes) for nodes in domains.values())
    if room >= pods:
        return None
    what = f"its {pods} pods must run in one {level}, but none in node pool {pool} has room for more than {room}"
    return Problem("topology.too_small", f"{what}, even when empty", f"request less, prefer the level, or {ANYWAY}")


def _no_domain(topology: Topology, level: str, pool: PoolName, nodes: Sequence[Node]) -> Problem:
    labels = " and ".join(topology.levels)
    what = f"its pods must run in one {level}, but no node in node pool {pool} has the label {labels}"
    lacking = [each for each in topology.levels if all(node.label(each) is None for node in nodes)] or topology.levels
    flags = " ".join(f"--label {each}=VALUE" for each in lacking)
    return Problem("topology.no_domain", what, f"label nodes with `runai-adm node update NODE {flags}`, or {ANYWAY}")


def _pods_in(shapes: Shapes, nodes: Sequence[Node]) -> int:
    """How many of these pods some empty nodes could hold, at most."""
    found = sum(min(count, _copies(shape, nodes, count)) for shape, count in shapes.items())
    asked_milli = _devices_milli(shapes)
    if not asked_milli or any(shape.gpu.memory_mib for shape in shapes):
        return found
    gpus_milli = WHOLE_GPU_MILLI * sum(node.gpus for node in nodes if node.role.takes_gpu_pods)
    return min(found, gpus_milli * shapes.total() // asked_milli)


def _uncounted(shapes: Shapes) -> Shapes:
    without: Shapes = Counter()
    for shape, count in shapes.items():
        without[replace(shape, extended=())] += count
    return without


def _copies(shape: PodShape, nodes: Iterable[Node], enough: int) -> int:
    """How many pods of a shape the nodes could hold; counted until there are enough."""
    copies = 0
    for node in nodes:
        if node_objection(shape, node) is None:
            copies += copies_when_empty(node, shape)
            if copies >= enough:
                break
    return copies


def _no_such_node(shape: PodShape, pool: PoolName, nodes: Sequence[Node]) -> Problem:
    objections = Counter(node_objection(shape, node) or "" for node in nodes)
    wanted = label_objection(shape, nodes[0])
    if wanted is not None and objections.keys() == {wanted}:
        what = f"no node in node pool {pool} has {wanted}"
        return Problem("node.none_matches", what, f"see the nodes with `runai list nodes`, or {ANYWAY}")
    ranked = sorted(objections.items(), key=lambda each: (-each[1], each[0]))
    causes = ", ".join(f"{cause} ({count} node{'' if count == 1 else 's'})" for cause, count in ranked)
    what = f"no node in node pool {pool} can run this, even when empty: {causes}"
    fixes = [fix for cause, _ in ranked for start, fix in FIXES.items() if cause.startswith(start)]
    first = fixes[0] if fixes else "see the nodes with `runai list nodes`"
    return Problem("node.none_matches", what, f"{first}, or {ANYWAY}")


def _too_large_for_node(shape: PodShape, pool: PoolName, nodes: Sequence[Node]) -> Problem:
    """Which resource no node has enough of; GPUs first."""
    gpu = shape.gpu
    most = max(node.gpus for node in nodes)
    checks: list[tuple[bool, str, str]] = [
        (gpu.devices > most, f"{_gpus(gpu.devices)} in one pod", _gpus(most)),
        (
            gpu.memory_mib > max(node.gpu_memory_mib for node in nodes),
            f"{gpu.memory_mib} MiB of memory on one GPU",
            f"GPUs with {max(node.gpu_memory_mib for node in nodes)} MiB",
        ),
        *(
            _check(asked, [node.extended.get(name, 0) for node in nodes], partial(_counted, name))
            for name, asked in (*shape.extended, *gpu.mig)
        ),
        _check(shape.cpu_milli, [node.cpu_milli for node in nodes], lambda milli: f"{gpus_text(milli)} CPUs"),
        _check(shape.memory_bytes, [node.memory_bytes for node in nodes], lambda size: f"{size / GB:.3g} GB of memory"),
    ]
    for is_short, asked, there in checks:
        if is_short:
            what = f"this requests {asked}, but the largest node in node pool {pool} has {there}"
            return Problem("node.too_small", what, f"request less, use several pods, or {ANYWAY}")
    what = f"no single node in node pool {pool} has everything that one pod requests"
    return Problem("node.too_small", what, f"request less, or {ANYWAY}")


def _check(asked: int, there: Iterable[int], text: Callable[[int], str]) -> tuple[bool, str, str]:
    most = max(there, default=0)
    return asked > most, text(asked), text(most)


def _too_many(pods: int, devices_milli: int, room: int, pool: PoolName, nodes: Sequence[Node]) -> Problem:
    there = sum(node.gpus for node in nodes if node.role.takes_gpu_pods)
    fix = f"request less, or {ANYWAY}"
    if devices_milli > there * WHOLE_GPU_MILLI:
        need = f"its {pods} pods start together and need {gpus_text(devices_milli)} GPUs"
        what = f"{need}, but node pool {pool} has {there}"
        return Problem("pool.too_small", what, fix)
    what = f"its {pods} pods start together, but node pool {pool} has room for only {room} of them, even when empty"
    return Problem("pool.too_small", what, fix)


# --- limits and quotas ---------------------------------------------------------------------------------------


def _over(owner: Queue, view: PoolView, asked: Amounts, non_preemptible: bool) -> Problem | None:
    """The first limit that it exceeds by itself, or quota if it is non-preemptible."""
    noun = "department" if name_of_queue(owner.id) != owner.id else "project"
    name = f"{noun} {name_of_queue(owner.id)}"
    for amount, owed, text in (
        (asked.gpu_milli, owner.gpu, _gpus_of_milli),
        (asked.cpu_milli, owner.cpu, _cpus_of_milli),
        (asked.memory_bytes, owner.memory, _memory),
    ):
        if amount and UNLIMITED != owed.limit < amount:
            return _over_limit(name, owner, owed, text(amount), text(owed.limit), view.pool)
        if amount and non_preemptible and UNLIMITED != owed.quota < amount:
            what = (
                f"{name} has a quota of {text(owed.quota)} in node pool {view.pool}, but this requests "
                f"{text(amount)}; non-preemptible workloads cannot exceed the quota"
            )
            fix = f"submit it with --preemptible, request less, ask for a higher quota, or {ANYWAY}"
            return Problem(f"{noun}.over_quota", what, fix)
    return None


def _over_limit(name: str, owner: Queue, owed: Entitlement, asked: str, limit: str, pool: PoolName) -> Problem:
    off = owner.over_quota is OverQuotaChoice.OFF and owed.limit == owed.quota
    because = " (its quota; over quota is off)" if off else ""
    what = f"{name} is limited to {limit} in node pool {pool}{because}, but this requests {asked}"
    fix = f"request less, ask for a higher {'quota' if off else 'limit'}, or {ANYWAY}"
    return Problem(f"{name.partition(' ')[0]}.over_limit", what, fix)


def _counted(name: str, count: int) -> str:
    return f"{count} {name}"


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"


def _gpus_of_milli(milli: int) -> str:
    return f"{gpus_text(milli)} GPU{'' if milli == WHOLE_GPU_MILLI else 's'}"


def _cpus_of_milli(milli: int) -> str:
    return f"{gpus_text(milli)} CPUs"


def _memory(size: int) -> str:
    return f"{size / GB:.3g} GB of memory"
