"""The scenario language itself: it must fail on what is not so, and say clearly what it does not understand."""

from __future__ import annotations

import pytest

from fairpool.model.workload import GpuKind
from tests.scenario import World, check
from tests.scenario_rows import ScenarioError


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        pytest.param("nod n1: 8 gpus", "expected one of: node n1:", id="unknown noun"),
        pytest.param("node n1: 8 gpsu", "does not understand '8 gpsu'", id="typo in a node"),
        pytest.param("queue q: quota four", "does not understand 'quota four'", id="typo in a queue"),
        pytest.param("pending b of q: 1 gpu, bild", "does not understand 'bild'", id="typo in a group"),
        pytest.param("pending b of q: 2.5 gpus", "neither a fraction", id="impossible amount"),
        pytest.param("pending b of q: 1 gpu on n1", "has no node yet", id="pending with a node"),
        pytest.param("running b of q: 1 gpu", "needs a node", id="running without a node"),
        pytest.param("running b of q: 1 gpu on n9", "there is no node n9", id="unknown node"),
        pytest.param("running b of q: 5 gpus on n1", "no room for 5 devices", id="more than there is"),
        pytest.param("pending a of q: 1 gpu", "already a group a", id="name taken"),
        pytest.param("then explode a", "expected one of", id="unknown verb"),
        pytest.param("then bind z on n1", "there is no group or pod z", id="expectation about an unknown pod"),
        pytest.param("delete z", "there is no z", id="deleting an unknown group"),
    ],
)
def test_what_is_not_understood_is_named_with_its_line(line: str, complaint: str) -> None:
    with pytest.raises(ScenarioError, match="line 4") as raised:
        check(f"""
            node    n1: 4 gpus
            queue   q: quota 4
            pending a of q: 1 gpu
            {line}
            cycle
        """)
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    "wrong",
    [
        "then nothing",
        "then bind a on n2",
        "then bind a on n1 device 1",
        "then bind 2 pods of a",
        "then promise a on n1",
        "then evict b",
        "then wait a",
        "then wait a: over quota",
        "then bind b on n1",
    ],
)
def test_what_is_not_so_fails(wrong: str) -> None:
    """The plan binds a on n1, device 0, and b waits."""
    with pytest.raises(AssertionError, match="the plan:"):
        check(f"""
            node    n1: 1 gpu
            node    n2: 1 gpu, cordoned
            queue   q: quota 4
            pending a of q: 1 gpu
            pending b of q: 1 gpu
            {wrong}
        """)


def test_what_is_so_passes() -> None:
    check("""
        node    n1: 1 gpu
        queue   q: quota 4
        pending a of q: 1 gpu     # a remark
        pending b of q: 1 gpu
        then    bind a on n1 device 0
        then    wait b: not its turn
        cycle
        then    a runs on n1
        then    b waits
        then    q holds 1 gpu
    """)


@pytest.mark.parametrize(
    ("phrase", "kind", "devices", "portion_milli", "memory_mib"),
    [
        ("4 gpus", GpuKind.WHOLE, 4, 1000, 0),
        ("0.5 gpu", GpuKind.PORTION, 1, 500, 0),
        ("2 x 0.5 gpus", GpuKind.PORTION, 2, 500, 0),
        ("8000 MiB", GpuKind.MEMORY, 1, 1000, 8000),
        ("2 x 8000 MiB", GpuKind.MEMORY, 2, 1000, 8000),
        ("no gpu", GpuKind.NONE, 0, 1000, 0),
    ],
)
def test_requests_for_gpus(phrase: str, kind: GpuKind, devices: int, portion_milli: int, memory_mib: int) -> None:
    world = World(f"""
        queue   q: quota 4
        pending a of q: {phrase}
    """)
    gpu = world.snapshot.pods[0].shape.gpu
    assert (gpu.kind, gpu.devices, gpu.portion_milli, gpu.memory_mib) == (kind, devices, portion_milli, memory_mib)


def test_rows_are_older_the_earlier_they_are_listed() -> None:
    world = World("""
        queue   q: quota 4
        pending a of q: 1 gpu
        pending b of q: 1 gpu
        pending c of q: 1 gpu, created earlier
        pending d of q: 1 gpu, created later
        pending e of q: 1 gpu
    """)
    assert "".join(group.id for group in sorted(world.snapshot.groups, key=lambda each: each.created_at)) == "cabed"


def test_an_evicted_pod_returns_as_its_replacement() -> None:
    world = World("""
        node    n1: 1 gpu
        queue   vision: quota 0
        queue   speech: quota 1
        running a of vision: 1 gpu on n1
        pending b of speech: 1 gpu
    """)
    pods = []
    for _ in range(4):
        pods.append([f"{pod.phase} {pod.id}" for pod in world.pods("a") + world.pods("b")])
        world.cycle()
    assert pods == [
        ["running a-0", "waiting b-0"],
        ["releasing a-0", "promised b-0"],
        ["waiting a-0.1", "promised b-0"],
        ["waiting a-0.1", "running b-0"],
    ]
