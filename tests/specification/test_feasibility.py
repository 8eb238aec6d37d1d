"""What can never start is refused at submit, with the figure; whatever could start one day is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairpool.control.feasibility import PoolNodes, PoolView, never_starts
from fairpool.model.ids import Instant, NodeName, PoolName, QueueId, WorkloadId
from fairpool.model.node import DEFAULT_POOL, DRAIN, MigStrategy, Node, Taint, TaintEffect, Topology
from fairpool.model.node_role import NodeRole
from fairpool.model.organization import Entitlement, OverQuotaChoice, Queue, department_queue, gpu_entitlement
from fairpool.model.spec import Arrangement, PodTemplate, WorkloadSpec
from fairpool.model.workload import (
    GpuRequest,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    PodShape,
    Toleration,
    TopologyConstraint,
    WorkloadKind,
    gpu_memory,
    gpu_portion,
    whole_gpus,
)

GB = 10**9
FAST = PoolName("fast")


def node(name: str = "n1", gpus: int = 8, **more: object) -> Node:
    row = Node(name=NodeName(name), cpu_milli=64_000, memory_bytes=256 * GB, gpus=gpus, gpu_memory_mib=40_000)
    return replace(row, **more)  # type: ignore[arg-type]


TWO = (node("n1"), node("n2"))


def spec(shape: PodShape | GpuRequest, **more: object) -> WorkloadSpec:
    template = PodTemplate(shape=shape if isinstance(shape, PodShape) else PodShape(gpu=shape, cpu_milli=1000))
    made = WorkloadSpec(
        id=WorkloadId("w"), name="w", project=QueueId("team-a"), created_at=Instant(0), template=template
    )
    return replace(made, **more)  # type: ignore[arg-type]


def project(gpu: Entitlement | None = None, **more: object) -> Queue:
    row = Queue(id=QueueId("team-a"), gpu=gpu or gpu_entitlement(4000))
    return replace(row, **more)  # type: ignore[arg-type]


def place(nodes: tuple[Node, ...] | None = TWO, *owners: Queue, pool: PoolName = DEFAULT_POOL) -> PoolView:
    return PoolView(pool=pool, nodes=None if nodes is None else PoolNodes.of(nodes), owners=owners or (project(),))


def on(value: str) -> PodShape:
    return PodShape(
        gpu=whole_gpus(1), node_rules=((NodeSelectorRequirement("run.ai/type", NodeSelectorOperator.IN, (value,)),),)
    )


def older(*nodes: Node) -> PoolView:
    """The nodes of a cluster that does not report MIG instances and extended resources."""
    return replace(place(), nodes=PoolNodes.of(nodes, are_counted=False))


LICENCE, SMALL_MIG = "example.com/licence", "nvidia.com/mig-1g.5gb"
LICENCED = PodShape(extended=((LICENCE, 2),))
MIG_PAIR = GpuRequest(mig=((SMALL_MIG, 2),))
MIG_NODE = node(gpus=0, mig_strategy=MigStrategy.MIXED, extended={SMALL_MIG: 4})
TAINT, SOFT = Taint("team", "b"), Taint("slow", effect=TaintEffect.PREFER_NO_SCHEDULE)
TOLERANT = PodShape(gpu=whole_gpus(1), tolerations=(Toleration("team"),))
BUILD = {"kind": WorkloadKind.BUILD}
LEADER = {"leader": PodTemplate(shape=PodShape(gpu=whole_gpus(4), cpu_milli=1000))}


@pytest.mark.parametrize(
    ("asked", "where", "words"),
    [
        pytest.param(
            spec(whole_gpus(20)), place(), "20 GPUs in one pod, but the largest node in node pool default has 8"
        ),
        pytest.param(spec(whole_gpus(1), pods=20), place(), "20 pods start together and need 20 GPUs, but node pool"),
        pytest.param(spec(whole_gpus(5), pods=3), place(), "has room for only 2 of them, even when empty"),
        pytest.param(spec(whole_gpus(8), pods=2, **LEADER), place((node(gpus=8),)), "need 12 GPUs, but node pool"),
        pytest.param(spec(gpu_portion(600), pods=17), place(), "room for only 16 of them"),
        pytest.param(spec(gpu_memory(50_000)), place(), "50000 MiB of memory on one GPU"),
        pytest.param(
            spec(PodShape(cpu_milli=65_000)), place(), "65 CPUs, but the largest node in node pool default has 64"
        ),
        pytest.param(spec(PodShape(memory_bytes=300 * GB)), place(), "300 GB of memory"),
        pytest.param(spec(on("a100")), place(), "no node in node pool default has run.ai/type=a100"),
        pytest.param(spec(whole_gpus(1)), place(()), "node pool default has no nodes"),
        pytest.param(spec(whole_gpus(1)), place((node(gpus=0),)), "has 0 GPUs"),
        pytest.param(
            spec(whole_gpus(6)),
            place(TWO, project(gpu_entitlement(4000, limit_milli=5000))),
            "project team-a is limited to 5 GPUs in node pool default, but this requests 6 GPUs",
        ),
        pytest.param(
            spec(whole_gpus(6)),
            place(TWO, project(gpu_entitlement(4000, OverQuotaChoice.OFF), over_quota=OverQuotaChoice.OFF)),
            "limited to 4 GPUs in node pool default (its quota; over quota is off)",
        ),
        pytest.param(
            spec(whole_gpus(6)),
            place(TWO, project(), Queue(id=department_queue("research"), gpu=gpu_entitlement(4000, limit_milli=5000))),
            "department research is limited to 5 GPUs",
        ),
        pytest.param(
            spec(whole_gpus(1), pods=4, **LEADER),
            place(TWO, project(gpu_entitlement(4000, limit_milli=6000))),
            "this requests 7 GPUs",
            id="the leader counts too",
        ),
        pytest.param(
            spec(whole_gpus(1)),
            place((node("n1", role=NodeRole.CPU_WORKER), node("n2", role=NodeRole.SYSTEM))),
            "can run this, even when empty: not a GPU worker (1 node), system worker (1 node)",
        ),
        pytest.param(spec(PodShape()), place((node(role=NodeRole.GPU_WORKER),)), "not a CPU worker (1 node)"),
        pytest.param(
            spec(whole_gpus(9), pods=2),
            place((node("n1", gpus=16), node("n2", role=NodeRole.CPU_WORKER, gpus=16))),
            "need 18 GPUs, but node pool default has 16",
        ),
        pytest.param(spec(whole_gpus(1)), place((node(taints=(TAINT, SOFT)),)), "taint team=b:NoSchedule (1 node)"),
        pytest.param(spec(MIG_PAIR), place(), "no MIG instances (2 nodes)"),
        pytest.param(spec(MIG_PAIR, pods=3), place((MIG_NODE,)), "room for only 2 of them, even when empty"),
        pytest.param(
            spec(LICENCED), place((node(extended={LICENCE: 1}),)), "requests 2 example.com/licence, but the largest"
        ),
        pytest.param(
            spec(whole_gpus(6), **BUILD),
            place(),
            "project team-a has a quota of 4 GPUs in node pool default, but this requests 6 GPUs; non-preemptible",
        ),
        pytest.param(
            spec(whole_gpus(3), **BUILD),
            place(TWO, project(), Queue(id=department_queue("research"), gpu=gpu_entitlement(2000))),
            "department research has a quota of 2 GPUs",
        ),
        pytest.param(
            spec(whole_gpus(3), priority=100),
            place(TWO, project(gpu_entitlement(2000))),
            "non-preemptible workloads",
            id="a training of class build is not preemptible",
        ),
        pytest.param(
            spec(PodShape(cpu_milli=3000), **BUILD),
            place(TWO, project(cpu=Entitlement(quota=2000))),
            "a quota of 2 CPUs",
        ),
        pytest.param(
            spec(whole_gpus(1)),
            place(None, project(gpu_entitlement(0, OverQuotaChoice.OFF), over_quota=OverQuotaChoice.OFF)),
            "limited to 0 GPUs",
            id="limits hold while the cluster is away",
        ),
    ],
)
def test_what_can_never_start_is_refused_with_the_figure(asked: WorkloadSpec, where: PoolView, words: str) -> None:
    (problem,) = never_starts(asked, [where])
    assert words in problem.what
    assert "--wait-anyway" in problem.fix


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        pytest.param(spec(whole_gpus(8)), place(), id="a whole node, over quota"),
        pytest.param(spec(whole_gpus(8), pods=2), place(), id="the whole pool"),
        pytest.param(spec(whole_gpus(1), pods=20, minimum=4), place(), id="elastic: the minimum is enough"),
        pytest.param(spec(whole_gpus(1), pods=20, arrangement=Arrangement.SWEEP), place(), id="a sweep runs in turns"),
        pytest.param(spec(whole_gpus(1), pods=20, arrangement=Arrangement.REPLICAS), place(), id="replicas one by one"),
        pytest.param(spec(gpu_portion(500), pods=32), place(), id="halves"),
        pytest.param(spec(gpu_memory(10_000), pods=64), place(), id="by memory"),
        pytest.param(spec(whole_gpus(20)), place(None), id="the cluster is away"),
        pytest.param(spec(whole_gpus(8)), place((node(cordoned=True, taints=(DRAIN,), ready=False),)), id="drained"),
        pytest.param(spec(whole_gpus(8)), place((node(gpus_withheld=(0, 1)),)), id="GPUs in use by other processes"),
        pytest.param(spec(on("a100")), place((node(labels={"run.ai/type": "a100"}),)), id="such a node"),
        pytest.param(spec(whole_gpus(4), **BUILD), place(), id="all of its quota"),
        pytest.param(spec(whole_gpus(6), **BUILD, preemptible=True), place(), id="preemptible beyond quota"),
        pytest.param(spec(MIG_PAIR), older(*TWO), id="MIG is not reported by an older cluster"),
        pytest.param(spec(LICENCED), older(*TWO), id="nor are extended resources"),
        pytest.param(spec(MIG_PAIR), place((MIG_NODE,)), id="MIG instances"),
        pytest.param(spec(LICENCED), place((node(extended={LICENCE: 2}),)), id="extended resources"),
        pytest.param(spec(TOLERANT), place((node(taints=(TAINT,)),)), id="a taint that is tolerated"),
        pytest.param(spec(whole_gpus(1)), place((node(taints=(SOFT,)),)), id="a soft taint"),
        pytest.param(spec(whole_gpus(1)), place((node(role=NodeRole.GPU_WORKER),)), id="a GPU worker"),
        pytest.param(spec(PodShape()), place((node(role=NodeRole.CPU_WORKER),)), id="a CPU worker"),
        pytest.param(spec(whole_gpus(6), **BUILD), place(TWO, project(gpu_entitlement(-1))), id="unlimited"),
    ],
)
def test_what_could_start_one_day_is_not(asked: WorkloadSpec, where: PoolView) -> None:
    assert never_starts(asked, [where]) == []


RACKS = tuple(
    node(f"n{number}", labels={"zone": zone, "rack": rack})
    for number, (zone, rack) in enumerate([("a", "a"), ("a", "b"), ("b", "a")])
)
FABRIC = Topology(name="fabric", levels=("zone", "rack"))


def gang(pods: int, topology: str = "fabric", **levels: str) -> WorkloadSpec:
    return spec(whole_gpus(4), pods=pods, constraint=TopologyConstraint(topology=topology, **levels))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        pytest.param(gang(2, required="rack"), None, id="one rack is enough"),
        pytest.param(
            gang(3, required="rack"),
            "its 3 pods must run in one rack, but none in node pool default has room for more than 2, even when empty",
            id="racks of different zones are different ones",
        ),
        pytest.param(gang(4, "", required="rack"), None, id="a label alone: rack a has two nodes"),
        pytest.param(gang(5, "", required="rack"), "room for more than 4", id="a label alone has too little"),
        pytest.param(gang(4, required="zone", preferred="rack"), None, id="a zone is enough"),
        pytest.param(gang(6, preferred="zone"), None, id="a preference never stops a job"),
        pytest.param(gang(2, "", required="switch"), "no node in node pool default has the label switch"),
        pytest.param(gang(2, "", required="kubernetes.io/hostname"), None, id="every node has its name"),
        pytest.param(gang(3, "", required="kubernetes.io/hostname"), "room for more than 2"),
    ],
)
def test_a_required_level_needs_one_domain_with_room_for_all_pods(asked: WorkloadSpec, words: str | None) -> None:
    problems = never_starts(asked, [place(RACKS, project(gpu_entitlement(-1)))], [FABRIC])
    if words is None:
        assert problems == []
    else:
        assert [words in each.what for each in problems] == [True]


def test_a_topology_without_nodes_names_the_labels_that_no_node_has() -> None:
    tall = Topology(name="tall", levels=("zone", "building", "rack"))
    (problem,) = never_starts(gang(2, "tall", required="rack"), [place(RACKS, project(gpu_entitlement(-1)))], [tall])
    assert problem.what.endswith("no node in node pool default has the label zone and building and rack")
    assert "`runai-adm node update NODE --label building=VALUE`" in problem.fix


def test_one_of_several_pools_is_enough() -> None:
    large = place((node(gpus=16),), pool=FAST)
    assert never_starts(spec(whole_gpus(16)), [place(), large]) == []
    assert len(never_starts(spec(whole_gpus(20)), [place(), large])) == 2
