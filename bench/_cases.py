"""The cases of one scheduling cycle: what the cluster looks like, what waits, and what must come of it.

A case builds a snapshot for a number of nodes and says what is wrong with a plan for it, beyond what holds for every
plan (`_audit`). Sizes are those measured by default. The work follows from the number of nodes alone.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from bench import _worlds as worlds
from bench._audit import After, idle_but_wanted
from bench._worlds import GPUS_PER_NODE, QUEUES, SEED, Ask, World, gpus
from fairpool.model.ids import QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node, Topology
from fairpool.model.workload import NodeSelectorOperator, NodeSelectorRequirement, PodShape, TopologyConstraint
from fairpool.scheduler.decision import NotItsTurn
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot

ONE_GPU = Ask(gpus(1))
SWEEP = (100, 1000, 5000, 10_000)

TAKEN, TAKER = QUEUES[0], QUEUES[2]
"""In the reclaim cases: who runs, and who wants it, in two departments."""


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of work, for any number of nodes."""

    name: str
    about: str
    build: Callable[[int], Snapshot]
    judge: Callable[[After], list[str]]
    """What is wrong with the outcome."""
    sizes: tuple[int, ...] = SWEEP
    figures: Callable[[After], Mapping[str, float]] = field(default=lambda _: {})
    """Further figures of the outcome."""
    cycles: int = 1
    """More than one: the cluster goes from cycle to cycle, jobs end and arrive."""


# ---- filling an empty cluster


def _empty(size: int) -> World:
    return World(worlds.nodes(size), worlds.organization(worlds.quarters(size)))


def _fill_whole(jobs_per_node: int) -> Callable[[int], Snapshot]:
    def build(size: int) -> Snapshot:
        world = _empty(size)
        for number in range(jobs_per_node * size):
            world.add(QUEUES[number % 4], ONE_GPU)
        return world.snapshot()

    return build


def _fill_mixed(size: int) -> Snapshot:
    world = _empty(size)
    asks = worlds.up_to(worlds.mixed(random.Random(SEED)), 1000 * GPUS_PER_NODE * size)
    for number, ask in enumerate(asks):
        world.add(QUEUES[number % 4], ask)
    return world.snapshot()


def _all_bound(after: After) -> list[str]:
    """All jobs start at once, and no pod is disturbed."""
    pending = sum(pod.phase is PodPhase.WAITING for pod in after.snapshot.pods)
    return _expect(after, bound=pending, promised=0, evicted=0)


def _nothing_idle(after: After) -> list[str]:
    """Jobs wait only for lack of room, and none waits for a job that never ran."""
    return [*_expect(after, promised=0, evicted=0), *idle_but_wanted(after)]


def _allocated(after: After) -> Mapping[str, float]:
    gpu_count = sum(node.gpus for node in after.snapshot.nodes)
    return {"allocated_percent": round(sum(after.held_milli().values()) / gpu_count / 10, 2)}


# ---- gangs


def _small_gangs(size: int) -> Snapshot:
    world = _empty(size)
    for number in range(2 * size):
        world.add(QUEUES[number % 4], Ask(gpus(1), 4))
    return world.snapshot()


def _large_gangs(size: int) -> Snapshot:
    world = _empty(size)
    for number in range(3):
        world.add(QUEUES[number], Ask(gpus(GPUS_PER_NODE), max(1, size // 5)))
    return world.snapshot()


def _topology(size: int) -> Snapshot:
    """Four zones; blocks of 16 nodes, racks of 2. The gang asks for exactly one zone, and would like one rack."""
    levels = ("zone", "block", "rack")
    labels = [
        {"zone": f"z{4 * node // size}", "block": f"b{node // 16:03d}", "rack": f"r{node // 2:04d}"}
        for node in range(size)
    ]
    world = World(worlds.nodes(size, labels), worlds.organization(worlds.quarters(size)))
    world.add(QUEUES[0], Ask(gpus(2), size), constraint=TopologyConstraint(topology="rooms", preferred="rack"))
    return world.snapshot(topologies=(Topology(name="rooms", levels=levels),))


def _in_one_zone(after: After) -> list[str]:
    zone = {node.name: node.labels["zone"] for node in after.snapshot.nodes}
    used = {zone[bind.node] for bind in after.plan.binds}
    return _all_bound(after) + ([f"the gang is spread over {len(used)} zones"] if len(used) != 1 else [])


# ---- taking from others


def _fill_with(world: World, queue: QueueId, priority: int | None = None) -> None:
    """A running one-GPU job of a queue on every device."""
    for node in world.nodes:
        for device in range(node.gpus):
            world.add(queue, ONE_GPU, [(node.name, (device,))], priority=priority)


def _borrowed(size: int) -> World:
    """One queue holds every GPU and is owed none, another is owed them all."""
    quotas = {**dict.fromkeys(QUEUES, 0), TAKER: GPUS_PER_NODE * size}
    world = World(worlds.nodes(size), worlds.organization(quotas))
    _fill_with(world, TAKEN)
    return world


def _reclaim_gang(size: int) -> Snapshot:
    world = _borrowed(size)
    world.add(TAKER, Ask(gpus(GPUS_PER_NODE), max(1, size // 10)))
    return world.snapshot()


def _reclaim_many(size: int) -> Snapshot:
    world = _borrowed(size)
    for _ in range(GPUS_PER_NODE * size):
        world.add(TAKER, ONE_GPU)
    return world.snapshot()


def _reclaim_queues(size: int) -> Snapshot:
    """As many projects as nodes, in departments, in divisions: every second one holds twice its quota."""
    departments = max(2, round(size**0.5))
    divisions = max(2, round(departments**0.5))
    quotas: Counter[QueueId] = Counter()
    parents: dict[QueueId, QueueId | None] = {}
    projects = [QueueId(f"project-{number:04d}") for number in range(size)]
    for number, project in enumerate(projects):
        department = QueueId(f"department-{number * departments // size:03d}")
        division = QueueId(f"division-{number * departments // size * divisions // departments:02d}")
        parents |= {project: department, department: division, division: None}
        quotas.update(dict.fromkeys((project, department, division), GPUS_PER_NODE))
    world = World(worlds.nodes(size), worlds.queue_tree(parents, quotas))
    for number, node in enumerate(world.nodes):
        for device in range(node.gpus):
            world.add(projects[(GPUS_PER_NODE * number + device) * 2 % size], ONE_GPU, [(node.name, (device,))])
    for number in range(GPUS_PER_NODE // 2 * size):
        world.add(projects[(2 * number + 1) % size], ONE_GPU)
    return world.snapshot()


def _reclaim_impossible(size: int) -> Snapshot:
    """Both are owed what they ask for, which is more than there is: who runs is within quota and stays."""
    pods = min(10, size)
    quotas = {**dict.fromkeys(QUEUES, 0), TAKEN: GPUS_PER_NODE * size, TAKER: GPUS_PER_NODE * pods}
    world = World(worlds.nodes(size), worlds.organization(quotas))
    _fill_with(world, TAKEN)
    world.add(TAKER, Ask(gpus(GPUS_PER_NODE), pods))
    return world.snapshot()


def _preempt(size: int) -> Snapshot:
    world = World(worlds.nodes(size), worlds.organization({QUEUES[0]: GPUS_PER_NODE * size}))
    _fill_with(world, QUEUES[0], priority=50)
    for _ in range(size):
        world.add(QUEUES[0], Ask(gpus(GPUS_PER_NODE)), priority=80)
    return world.snapshot()


def _taken_exactly(after: After) -> list[str]:
    """All who wait get a promise, and for every GPU asked one job of one GPU is evicted, none more."""
    pending = [pod for pod in after.snapshot.pods if pod.phase is PodPhase.WAITING]
    needed = sum(worlds.gpu_milli(pod.shape) for pod in pending) // 1000
    return _expect(after, bound=0, promised=len(pending), evicted=needed)


def _tried_in_vain(after: After) -> list[str]:
    """Nothing happens, and the verdict of the gang is that it may reclaim but no queue holds too much."""
    verdict = after.plan.verdicts.get(after.snapshot.groups[-1].id)
    why = verdict.why if verdict else None
    as_expected = isinstance(why, NotItsTurn) and why.may_reclaim
    return _expect(after, bound=0, promised=0, evicted=0) + (
        [] if as_expected else [f"the verdict of the gang is {why}"]
    )


# ---- moving


def _consolidate(size: int) -> Snapshot:
    world = _empty(size)
    for number in range(3 * size):
        node, device = divmod(number, 3)
        world.add(QUEUES[number % 4], ONE_GPU, [(world.nodes[node].name, (device,))])
    for number in range(size // 12):
        world.add(QUEUES[number % 4], Ask(gpus(6), 10))
    return world.snapshot(replace(Policy.product(), max_moved_groups=None))


def _least_moves(after: After) -> int:
    """Each 6-GPU pod in place needs a node of its own, and one of the three jobs there must go."""
    return sum(pod.shape.gpu.devices == 6 for pod in after.in_place.values())


def _all_moved(after: After) -> list[str]:
    gangs = 10 * (len(after.snapshot.nodes) // 12)
    found = [] if _least_moves(after) == gangs else [f"{_least_moves(after)} of {gangs} pods of gangs have a place"]
    if after.moves != len(after.plan.evictions):
        found.append(f"{len(after.plan.evictions) - after.moves} jobs lost their place to a consolidation")
    return found


def _moves(after: After) -> Mapping[str, float]:
    least = _least_moves(after)
    return {"moves": after.moves, "least_moves": least, "moves_ratio": round(after.moves / max(least, 1), 3)}


# ---- a long queue


def _pending(size: int) -> Snapshot:
    """Two jobs a node that cannot run, and a few that can, behind them.

    Jobs of 8 GPUs fill the nodes, but on a few nodes a job of 7 leaves one GPU free. Every queue is within quota, and
    what waits asks for two GPUs or more, or for a label that no node has: neither taking nor moving helps.
    """
    quotas = Counter(QUEUES[number % 4] for number in range(size) for _ in range(GPUS_PER_NODE))
    world = World(worlds.nodes(size), worlds.organization(quotas))
    able = max(4, size // 50)
    for number, node in enumerate(world.nodes):
        count = GPUS_PER_NODE - (number < able)
        world.add(QUEUES[number % 4], Ask(gpus(count)), [(node.name, tuple(range(count)))])
    shapes = [_unable(number) for number in range(200)]
    for number in range(2 * size):
        world.add(QUEUES[number % 4], Ask(shapes[number % 200]))
    for number in range(able):
        world.add(QUEUES[number % 4], ONE_GPU)
    return world.snapshot()


def _unable(number: int) -> PodShape:
    """One of many shapes that fit nowhere: each asks for another amount of CPU, every fourth for a missing label."""
    shape = gpus(2 + number % 7, cpu_milli=1000 + 10 * number)
    if number % 4:
        return shape
    return replace(shape, node_rules=((NodeSelectorRequirement("zone", NodeSelectorOperator.IN, ("elsewhere",)),),))


def _only_the_able(after: After) -> list[str]:
    able = [pod.id for pod in after.snapshot.pods if pod.phase is PodPhase.WAITING and pod.shape is ONE_GPU.shape]
    found = _expect(after, bound=len(able), promised=0, evicted=0)
    if {bind.pod for bind in after.plan.binds} != set(able):
        found.append("others than the jobs that can run were bound")
    return found


# ---- going on


def _churn(size: int) -> Snapshot:
    """95 % of the GPUs are held by `mixed`, packed tightly. What ends and arrives is up to the ledger."""
    rows: tuple[Node, ...] = worlds.nodes(size)
    world = World(rows, worlds.organization(worlds.quarters(size)))
    asks = worlds.up_to(worlds.mixed(random.Random(SEED)), 950 * GPUS_PER_NODE * size)
    for number, (ask, places) in enumerate(zip(asks, worlds.packed(rows, asks), strict=True)):
        world.add(QUEUES[number % 4], ask, places)
    return world.snapshot()


def _undisturbed(after: After) -> list[str]:
    """No job waits beside room, unless places are being cleared."""
    return [] if after.plan.evictions or after.plan.promises else idle_but_wanted(after)


def _expect(after: After, **counts: int) -> list[str]:
    plan = after.plan
    real = {"bound": len(plan.binds), "promised": len(plan.promises), "evicted": len(plan.evictions)}
    return [f"{real[name]} pods {name}, expected {count}" for name, count in counts.items() if real[name] != count]


CASES = (
    Case("fill-whole", "empty cluster, 8 one-GPU jobs a node", _fill_whole(8), _all_bound),
    Case("fill-part", "empty cluster, 5 one-GPU jobs a node", _fill_whole(5), _all_bound, sizes=(100,)),
    Case(
        "fill-mixed", "empty cluster, the mixed jobs ask for all GPUs", _fill_mixed, _nothing_idle, figures=_allocated
    ),
    Case("gang", "empty cluster, 2 gangs a node of 4 one-GPU pods", _small_gangs, _all_bound, sizes=(50,)),
    Case("gang-large", "empty cluster, 3 gangs of N/5 pods x 8 GPUs", _large_gangs, _all_bound, sizes=(5000,)),
    Case(
        "churn",
        "95 % full of mixed jobs; each cycle 1 % of the running end, as many arrive",
        _churn,
        _undisturbed,
        sizes=(100, 1000, 10_000),
        figures=_allocated,
        cycles=200,
    ),
    Case("reclaim-gang", "all borrowed; the owner asks a gang of N/10 pods x 8", _reclaim_gang, _taken_exactly),
    Case(
        "reclaim-many",
        "all borrowed; the owner asks 8N one-GPU jobs",
        _reclaim_many,
        _taken_exactly,
        sizes=(100, 500, 1000),
    ),
    Case(
        "reclaim-queues",
        "N projects in three levels, every second one borrows; the others ask 4N one-GPU jobs",
        _reclaim_queues,
        _taken_exactly,
        sizes=(100, 500),
    ),
    Case(
        "reclaim-impossible",
        "all held within quota; 10 pods x 8 GPUs may try",
        _reclaim_impossible,
        _tried_in_vain,
    ),
    Case("preempt", "8N one-GPU jobs of low priority; N jobs x 8 GPUs of high", _preempt, _taken_exactly),
    Case(
        "consolidate",
        "3 of 8 GPUs busy everywhere; N/12 gangs of 10 pods x 6 GPUs",
        _consolidate,
        _all_moved,
        sizes=(100, 500, 1000),
        figures=_moves,
    ),
    Case(
        "pending-10k",
        "full; 2N jobs of 200 shapes that cannot run, N/50 that can",
        _pending,
        _only_the_able,
        sizes=(100, 1000, 5000),
    ),
    Case("topology", "a gang of N pods x 2 GPUs, preferably in one rack", _topology, _in_one_zone, sizes=(512,)),
)


def case_named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)
