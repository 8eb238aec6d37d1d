"""The placement strategy `fragmentation`: a pod goes where typical requests lose least of what they could still use."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fairpool.model.node import NodePool, Placement
from fairpool.model.workload import PodShape, gpu_memory, gpu_portion, whole_gpus
from fairpool.scheduler.plan import plan
from fairpool.scheduler.policy import Policy, TypicalShape
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.snapshot_file import Loaded, from_bytes, to_bytes
from tests.scenario import World, check

AVOIDING = NodePool(gpu_placement=Placement.FRAGMENTATION, cpu_placement=Placement.FRAGMENTATION)


def usual(*shapes: PodShape) -> Policy:
    """The product's policy where people ask for these shapes, all equally often."""
    return Policy(typical=tuple(TypicalShape(shape) for shape in shapes))


WHOLE = PodShape(gpu=whole_gpus(1), cpu_milli=1000)
HALF = PodShape(gpu=gpu_portion(500), cpu_milli=1000)


def test_a_portion_leaves_whole_devices_whole() -> None:
    check(
        """
        node    n1: 2 gpus, 16 cpus
        node    n2: 4 gpus, 32 cpus
        queue   vision: quota 6
        running a of vision: 1 gpu, 1 cpu on n1
        running b of vision: 0.5 gpu, 1 cpu on n2, device 0
        pending c of vision: 0.5 gpu, 1 cpu
        then    bind c on n2 device 0
        """,
        policy=usual(WHOLE),
        pool=AVOIDING,
    )


def test_a_portion_takes_the_part_that_stays_useful() -> None:
    """After it, 0.4 are left on device 1 for who usually asks for that. Packing would spoil the 0.4 of device 0."""
    check(
        """
        node    n1: 2 gpus, 16 cpus
        queue   vision: quota 2
        running a of vision: 0.6 gpu, 1 cpu on n1, device 0
        running b of vision: 0.5 gpu, 1 cpu on n1, device 1
        pending c of vision: 0.1 gpu, 1 cpu
        then    bind c on n1 device 1
        """,
        policy=usual(PodShape(gpu=gpu_portion(400), cpu_milli=1000)),
        pool=AVOIDING,
    )


def test_a_portion_opens_a_device_rather_than_spoil_a_useful_part() -> None:
    """0.7 left serve the usual 0.7; taking 0.1 of it would lose all of that, a fresh device only a part."""
    check(
        """
        node    n1: 2 gpus, 16 cpus
        queue   vision: quota 2
        running a of vision: 0.3 gpu, 1 cpu on n1, device 0
        pending b of vision: 0.1 gpu, 1 cpu
        then    bind b on n1 device 1
        """,
        policy=usual(PodShape(gpu=gpu_portion(700), cpu_milli=1000)),
        pool=AVOIDING,
    )


def test_work_that_needs_much_cpu_stays_away_from_gpus_that_need_it() -> None:
    """Six cores fewer would strand the GPUs of n1; n2 has cores to spare. Packing would take n1."""
    check(
        """
        node    n1: 2 gpus, 8 cpus
        node    n2: 2 gpus, 64 cpus
        queue   vision: quota 4
        pending a of vision: no gpu, 6 cpus
        then    bind a on n2
        """,
        policy=usual(PodShape(gpu=whole_gpus(1), cpu_milli=4000)),
        pool=AVOIDING,
    )


def test_a_node_short_of_cpu_serves_work_that_needs_little() -> None:
    """On n2 two cores are left: most requests cannot use its GPUs, so that one of them costs nothing. Packing would
    take n1, where less is idle.
    """
    check(
        """
        node    n1: 1 gpu, 32 cpus
        node    n2: 3 gpus, 8 cpus
        queue   vision: quota 4
        running a of vision: 1 gpu, 6 cpus on n2
        pending b of vision: 1 gpu, 1 cpu
        then    bind b on n2
        """,
        policy=usual(PodShape(gpu=whole_gpus(1), cpu_milli=4000)),
        pool=AVOIDING,
    )


def test_work_that_may_go_anywhere_leaves_the_model_that_others_insist_on() -> None:
    check(
        """
        node    n1: 4 gpus, 32 cpus, label gpu=a100
        node    n2: 4 gpus, 32 cpus, label gpu=t4
        queue   vision: quota 8
        pending a of vision: 1 gpu, 1 cpu
        pending b of vision: 4 gpus, 4 cpus, on nodes gpu=a100
        pending c of vision: 1 gpu, 1 cpu
        then    bind a on n2
        then    bind b on n1
        then    bind c on n2
        """,
        pool=AVOIDING,
    )


def test_among_equals_the_fullest_node_is_taken_then_the_first() -> None:
    check(
        """
        node    n1: 4 gpus, 64 cpus
        node    n2: 4 gpus, 64 cpus
        node    n3: 4 gpus, 64 cpus
        queue   vision: quota 12
        running a of vision: 1 gpu, 1 cpu on n2
        pending b of vision: 1 gpu, 1 cpu
        then    bind b on n2
        """,
        policy=usual(WHOLE),
        pool=AVOIDING,
    )


def test_without_typical_shapes_those_of_the_pods_count() -> None:
    """Many ask for 0.7 of a device here, so that the 0.7 left of device 0 are kept for the next of them."""
    check(
        """
        node    n1: 2 gpus
        node    n2: 2 gpus
        queue   vision: quota 4
        running a of vision: 0.3 gpu on n1, device 0
        running b of vision: 0.7 gpu on n2, device 0
        running c of vision: 0.3 gpu on n2, device 0
        running d of vision: 0.7 gpu on n2, device 1
        running e of vision: 0.3 gpu on n2, device 1
        pending f of vision: 0.1 gpu
        then    bind f on n1 device 1
        """,
        pool=AVOIDING,
    )


def test_a_portion_of_several_devices_is_on_different_devices() -> None:
    check(
        """
        node    n1: 4 gpus, of 40000 MiB
        queue   vision: quota 4
        running a of vision: 0.5 gpu on n1, device 1
        pending b of vision: 2 x 0.5 gpus
        pending c of vision: 30000 MiB
        then    bind b on n1 devices 0 1
        then    bind c on n1 device 2
        """,
        policy=usual(HALF, WHOLE, PodShape(gpu=gpu_memory(20_000))),
        pool=AVOIDING,
    )


def test_running_work_moves_together_to_make_room() -> None:
    check(
        """
        node    n1: 2 gpus
        node    n2: 2 gpus
        queue   vision: quota 4
        running a of vision: 1 gpu on n1
        running b of vision: 1 gpu on n2
        pending c of vision: 2 gpus
        then    move b to n1
        then    promise c on n2
        """,
        pool=AVOIDING,
    )


def mixed() -> Snapshot:
    """Twelve nodes of two models, some work running, and more waiting than fits."""
    lines = ["queue vision: quota 40"]
    for number in range(12):
        model = "a100" if number % 3 else "t4"
        lines.append(f"node n{number:02}: {2 + number % 3 * 3} gpus, {16 + number * 4} cpus, label gpu={model}")
    for number in range(90):
        gpus = ("0.3 gpu", "0.5 gpu", "1 gpu", "2 gpus", "0.7 gpu")[number % 5]
        rule = ", on nodes gpu=a100" if number % 7 == 0 else ""
        lines.append(f"pending p{number:02} of vision: {gpus}, {1 + number % 4} cpus{rule}")
    world = World("\n".join(lines))
    return replace(world.snapshot, pool=AVOIDING)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    snapshot = mixed()
    dice = random.Random(seed)
    rows = {name: list(getattr(snapshot, name)) for name in ("nodes", "groups", "pods")}
    for each in rows.values():
        dice.shuffle(each)
    shuffled = replace(snapshot, nodes=tuple(rows["nodes"]), groups=tuple(rows["groups"]), pods=tuple(rows["pods"]))
    assert plan(shuffled) == plan(snapshot)


def test_typical_shapes_survive_a_file() -> None:
    snapshot = replace(mixed(), policy=usual(WHOLE, HALF))
    loaded = from_bytes(to_bytes(snapshot))
    assert isinstance(loaded, Loaded)
    assert loaded.snapshot == snapshot
