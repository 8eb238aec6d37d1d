"""Random clusters: nodes in one pool or two, an organization, and workloads of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from fairpool.engines.simulated.traces import Arrival
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PoolName, QueueId, WorkloadId
from fairpool.model.node import DEFAULT_POOL, Node, NodePool
from fairpool.model.organization import (
    Organization,
    OverQuotaChoice,
    ProjectRules,
    Queue,
    department_queue,
    gpu_entitlement,
)
from fairpool.model.spec import Arrangement, RestartPolicy, WorkloadSpec
from fairpool.model.workload import Toleration, WorkloadKind
from tests.fault_injection.faultable_engine import FaultableEngine
from tests.fault_injection.random_workloads import arrivals

BIG_POOL = PoolName("big")
LABEL = "pool"
TOLERANT = (Toleration(key="runai"),)
"""Of work that stays on nodes that are being drained."""


def random_nodes(rng: Random) -> list[Node]:
    memory_mib = rng.choice((16_384, 32_510, 81_920))
    return [
        Node(
            name=NodeName(f"n{number}"),
            cpu_milli=64_000,
            memory_bytes=256 << 30,
            gpus=rng.choice((0, 2, 4, 8, 8)),
            gpu_memory_mib=memory_mib,
        )
        for number in range(1, rng.randint(2, 6))
    ]


def in_pools(nodes: list[Node], rng: Random) -> list[Node]:
    """The same nodes, some of them with the label of the other pool."""
    return [replace(node, labels={LABEL: BIG_POOL}) if rng.random() < 0.4 else node for node in nodes]


def random_organization(rng: Random, two_pools: bool) -> Organization:
    projects = [QueueId(f"team-{letter}") for letter in "abcd"[: rng.randint(1, 4)]]
    department = department_queue("department") if rng.random() < 0.3 else None
    rows = {DEFAULT_POOL: _queues(projects, department, rng)}
    if two_pools and rng.random() < 0.7:  # otherwise no project has a quota there
        rows[BIG_POOL] = _queues(projects, department, rng)
    limit = rng.choice((None, 600))
    pools = (NodePool(), NodePool(name=BIG_POOL, label_key=LABEL, label_value=BIG_POOL))
    return Organization(
        queues=rows,
        rules={project: ProjectRules(interactive_limit_s=limit) for project in projects},
        pools=pools if two_pools else pools[:1],
    )


def _queues(projects: Sequence[QueueId], department: QueueId | None, rng: Random) -> tuple[Queue, ...]:
    queues = []
    if department is not None:
        queues.append(Queue(id=department, gpu=gpu_entitlement(rng.choice((8, 16)) * 1000)))
    for project in projects:
        over_quota = rng.choice((None, None, *OverQuotaChoice))
        entitlement = gpu_entitlement(1000 * rng.randint(0, 8), over_quota)
        queues.append(Queue(id=project, parent=department, gpu=entitlement, over_quota=over_quota))
    return tuple(queues)


def random_arrivals(
    seed: int, organization: Organization, count: int, *, start: Instant, gap_s: float, two_pools: bool
) -> list[Arrival]:
    """Workloads of every kind. Some come in pairs that ask for the very same, one after the other."""
    rng = Random(f"kinds {seed}")
    listed = []
    for arrival in arrivals(seed, sorted(organization.rules), count, start=start, gap_s=gap_s):
        spec = _varied(arrival.spec, rng, two_pools)
        listed.append(Arrival(arrival.at, spec))
        if rng.random() < 0.2:
            listed += _twins(arrival.at, spec, rng)
    return sorted(listed, key=lambda each: (each.at, each.spec.id))


def _twins(at: Instant, spec: WorkloadSpec, rng: Random) -> list[Arrival]:
    twins = []
    for number in range(1, rng.randint(2, 4)):
        at = Instant(at + round(rng.uniform(0.1, 60) * SECOND_MS))
        name = f"{spec.id}-again-{number}"
        twins.append(Arrival(at, replace(spec, id=WorkloadId(name), name=name, created_at=at)))
    return twins


def _varied(spec: WorkloadSpec, rng: Random, two_pools: bool) -> WorkloadSpec:
    if rng.random() < 0.15:
        template = replace(spec.template, shape=replace(spec.template.shape, tolerations=TOLERANT))
        spec = replace(spec, template=template)
    if two_pools and rng.random() < 0.5:
        spec = replace(spec, pools=rng.choice(((BIG_POOL,), (BIG_POOL, DEFAULT_POOL), (DEFAULT_POOL, BIG_POOL))))
    single = spec.arrangement is Arrangement.TOGETHER and spec.pods == 1
    if spec.kind is WorkloadKind.TRAIN and rng.random() < 0.3:
        spec = replace(spec, restart=RestartPolicy.ALWAYS if single and rng.random() < 0.5 else RestartPolicy.NEVER)
    return spec


GRACES_S = (0, 30, 300, 3600, 100_000)
"""The last is above what is allowed: declared by an installation that allowed it."""


def with_grace(seed: int, arrival: Arrival) -> Arrival:
    """The same workload with some grace, for worlds in which pods ignore SIGTERM."""
    grace_s = Random(f"grace {seed} {arrival.spec.id}").choice(GRACES_S)
    return replace(arrival, spec=replace(arrival.spec, grace_s=grace_s))


class NodeChanges:
    """Changes labels and devices of nodes while they run."""

    def __init__(self, engine: FaultableEngine, rng: Random, two_pools: bool) -> None:
        self._engine, self._rng, self._two_pools = engine, rng, two_pools

    def act(self) -> str:
        """Change a node; what was done, if there was one."""
        names = sorted(self._engine.nodes)
        if not names:
            return ""
        node = self._engine.host(self._rng.choice(names)).node
        if self._two_pools and self._rng.random() < 0.5:
            labels = {} if node.labels else {LABEL: str(BIG_POOL)}
            self._engine.replace_node(replace(node, labels=labels))
            return f"{node.name} has the labels {labels}"
        gpus = self._rng.choice((0, 2, 4, 8))
        self._engine.replace_node(replace(node, gpus=gpus))
        if gpus < node.gpus and self._rng.random() < 0.5:
            # Taken out of a machine that was off; else they have just stopped working.
            self._engine.reboot(node.name, self._rng.uniform(1, 120))
        return f"{node.name} has {gpus} GPUs instead of {node.gpus}"
