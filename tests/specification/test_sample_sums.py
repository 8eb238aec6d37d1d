"""Samples of devices that do not exist, and of simulated nodes."""

from __future__ import annotations

import pytest

from fairpool.engines.simulated.behaviour import Behaviour, same_behaviour
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.model.ids import NodeName, PodId, Token
from fairpool.model.sample import DeviceUse, PodSample
from fairpool.model.sample_sums import MIB, simulated_devices, simulated_use, summed_node
from fairpool.model.workload import GpuRequest, PodShape, gpu_memory, gpu_portion, whole_gpus
from tests.contracts.harness import GIB, START, machine, start_order

MEMORY_MIB = 1000


@pytest.mark.parametrize(
    ("gpu", "devices", "busy", "memory_mib", "utilization", "own_mib"),
    [
        (whole_gpus(1), (0,), 0.4, 300, 40, 300),
        (whole_gpus(1), (0,), 3.0, 5000, 100, 1000),
        (whole_gpus(4), (0, 1, 2, 3), 2.0, 400, 50, 100),
        (gpu_portion(500), (0,), 1.0, 300, 50, 300),
        (gpu_portion(500), (0,), 0.5, 900, 25, 500),
        (gpu_portion(250, 2), (0, 1), 4.0, 900, 25, 250),
        (gpu_memory(200), (0,), 1.0, 900, 20, 200),
        (whole_gpus(0), (), 1.0, 900, 0, 0),
    ],
)
def test_a_busy_core_is_a_busy_device(
    gpu: GpuRequest,
    devices: tuple[int, ...],
    busy: float,
    memory_mib: int,
    utilization: float,
    own_mib: int,
) -> None:
    uses = simulated_use(devices, gpu, MEMORY_MIB, busy, memory_mib * MIB)
    assert [use.index for use in uses] == list(devices)
    for use in uses:
        assert use.utilization == pytest.approx(utilization)
        assert use.memory_bytes == own_mib * MIB


def test_a_device_has_what_its_pods_have_and_the_sum_is_of_what_is_known() -> None:
    pods = [
        PodSample(pod=PodId("a"), cpu_cores=1.5, memory_bytes=10, devices=(DeviceUse(index=0, utilization=60),)),
        PodSample(pod=PodId("b"), cpu_cores=None, memory_bytes=5, devices=(DeviceUse(index=0, utilization=None),)),
        PodSample(pod=PodId("c"), cpu_cores=0.5, memory_bytes=1, devices=(DeviceUse(index=0, utilization=70),)),
        PodSample(pod=PodId("d"), cpu_cores=None, devices=(DeviceUse(index=1),)),
    ]
    devices = simulated_devices(range(3), pods)
    assert [device.utilization for device in devices] == [100, None, 0]
    node = summed_node(NodeName("n1"), pods, devices, is_simulated=True)
    assert (node.cpu_cores, node.memory_bytes, node.sent_bytes_s) == (2, 16, None)
    assert summed_node(NodeName("n1"), [], (), is_simulated=True).cpu_cores == 0


def test_simulated_pods_use_what_they_asked_for_while_they_run() -> None:
    clock = VirtualClock(START)
    engine = SimulatedEngine(clock, [machine()], same_behaviour(Behaviour(start_s=10, run_s=30, load=0.5)))
    shape = PodShape(gpu=gpu_portion(500, 2), cpu_milli=4000, memory_bytes=8 * GIB)
    engine.carry_out([start_order(devices=(2, 3), shape=shape)], Token(1))
    assert engine.sample().nodes[0].pods == ()
    clock.advance(15)
    (first,) = engine.sample().nodes[0].pods
    assert (first.cpu_cores, first.memory_bytes) == (None, 4 * GIB)
    clock.advance(10)
    sample = engine.sample()
    (node,) = sample.nodes
    assert (sample.at, node.cpu_cores, node.is_simulated) == (START + 25_000, 2, True)
    assert [device.utilization for device in node.devices] == [0, 0, 25, 25, 0, 0, 0, 0]
    assert node.devices[2].memory_bytes == 20_000 * MIB
    clock.advance(60)
    assert engine.sample().nodes[0].pods == ()
    engine.silence(NodeName("n1"))
    assert engine.sample().nodes == ()
