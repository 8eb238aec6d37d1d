"""What real GPUs did since the last sample, and which pod had what of them; NVML is a fake of what an H200 answered."""

from __future__ import annotations

import threading

import pytest

from fairpool.agent.bounded_gpus import BoundedGpus
from fairpool.agent.devices import machine_nodes
from fairpool.agent.gpu_meter import Attribution, GpuMeter, device_sample, device_uses
from fairpool.agent.nvml import Gpu, GpuMeasure, GpuUse, NvmlGpus
from fairpool.agent.process_owners import Subjects
from fairpool.agent.sampler import Sampler
from fairpool.model.ids import PodId
from fairpool.model.sample import DeviceSample, DeviceUse
from tests.fake_nvml import CONTEXT, MIB, SAMPLE_US, UNLISTED, Device, FakeNvml

A, B = PodId("a-0-0"), PodId("b-0-0")
OWNERS = {11: A, 12: A, 21: B}
PRESENT = {*OWNERS, 900}
"""900 is no pod's."""
ATTRIBUTION = Attribution(owner=OWNERS.get, is_there=PRESENT.__contains__)


class Card:
    """One device, measured again and again."""

    def __init__(self, device: Device) -> None:
        self.device = device
        gpus = NvmlGpus(FakeNvml(device))
        (self.gpu,) = gpus.devices()
        self.meter = GpuMeter(gpus)
        self.measure: GpuMeasure | None = None

    def sample(self, *computed: int) -> DeviceSample:
        """After as many samples of the driver's as are given."""
        self.device.utilization.extend(computed)
        self.device.now += SAMPLE_US * len(computed)
        self.measure = self.meter.measure([self.gpu])[self.gpu.uuid]
        return device_sample(self.gpu, self.measure)

    def uses(self, *holders: PodId, before: tuple[PodId, ...] | None = None) -> dict[PodId, DeviceUse]:
        held_before = holders if before is None else before
        return device_uses(self.gpu, self.measure, holders, ATTRIBUTION, held_before=held_before)


def test_utilization_is_the_mean_since_the_last_sample() -> None:
    card = Card(Device(utilization=[90, 90]))
    assert card.sample().utilization is None, "since when is not known yet"
    assert card.sample(100, 0, 50, 50).utilization == 50
    assert card.sample(0, 0).utilization == 0
    assert card.sample().utilization is None, "the driver has measured nothing new"
    assert card.sample(20).utilization == 20


def test_a_clock_that_is_set_back_costs_one_precise_value() -> None:
    card = Card(Device(utilization=[40, 40]))
    card.sample()
    card.device.now -= 3_600_000_000
    assert card.sample(70).utilization == 50, "the mean of what the driver still has"
    assert card.sample(10).utilization == 10


def test_a_device_without_a_buffer_of_samples_is_measured_also_while_it_is_idle() -> None:
    card = Card(Device(tells_processes=False))
    assert card.sample().utilization is None, "the first one"
    assert card.sample().utilization == 0
    card.device.computed[11] = 60
    assert card.sample().utilization == 60


def test_what_a_device_reports_besides() -> None:
    card = Card(Device(utilization=[0], processes={11: 1000}, errors=3))
    sample = card.sample()
    assert sample.power_watts == pytest.approx(77.173)
    assert (sample.temperature_celsius, sample.clock_mhz) == (36, 345)
    assert (sample.errors, sample.memory_bytes) == (3, CONTEXT + 1000 * MIB + UNLISTED)


def test_what_a_device_does_not_report_is_unknown_and_not_nothing() -> None:
    card = Card(Device(processes={11: 10}, tells_memory=False, tells_processes=False, tells_health=False))
    card.sample()
    unknown = (None, None, None, None, None)
    sample = card.sample()
    assert (
        sample.memory_bytes,
        sample.power_watts,
        sample.temperature_celsius,
        sample.clock_mhz,
        sample.errors,
    ) == unknown
    card.device.is_lost = True
    assert card.sample() == DeviceSample(index=0)
    assert card.uses(A) == {A: DeviceUse(index=0)}


def test_each_pod_has_what_its_processes_have() -> None:
    device = Device(utilization=[0], processes={11: 100, 12: 50, 21: 200}, computed={11: 30, 12: 20, 21: 40})
    card = Card(device)
    card.sample()
    assert card.uses(A, B)[A] == DeviceUse(index=0, utilization=None, memory_bytes=2 * CONTEXT + 150 * MIB)
    card.sample(90)
    uses = card.uses(A, B)
    assert uses[A] == DeviceUse(index=0, utilization=50, memory_bytes=2 * CONTEXT + 150 * MIB)
    assert uses[B] == DeviceUse(index=0, utilization=40, memory_bytes=CONTEXT + 200 * MIB)
    device.computed.clear()
    card.sample(0)
    assert card.uses(A, B)[B].utilization == 0, "listed, and nothing has computed"
    device.computed.update({11: 90, 12: 0})
    card.sample(90)
    assert card.uses(A, B)[A].utilization == 90
    assert card.uses(A, B)[B].utilization is None, "the driver left it out, which it also does with some that compute"


def test_a_pod_that_uses_a_device_it_was_not_given_is_shown_there() -> None:
    card = Card(Device(utilization=[0], processes={21: 200}, computed={21: 40}))
    card.sample()
    card.sample(40)
    assert card.uses(A)[B].utilization == 40
    assert card.uses(A)[A] == DeviceUse(index=0, utilization=0, memory_bytes=0)


def test_what_others_use_is_not_counted_for_a_pod() -> None:
    card = Card(Device(utilization=[0], processes={900: 10}, computed={900: 90}))
    card.sample()
    card.sample(90)
    assert card.uses(A) == {A: DeviceUse(index=0, utilization=0, memory_bytes=0)}


def test_a_process_that_came_and_went_is_that_of_the_only_holder() -> None:
    card = Card(Device(utilization=[0], computed={777: 60}))
    card.sample()
    card.sample(60)
    assert card.uses(A)[A].utilization == 60
    card.device.computed.clear()
    card.sample(60)
    assert card.uses(A)[A].utilization == 60, "also if the driver has forgotten it by now"
    assert card.uses(A, before=(B,))[A].utilization is None, "the pod before it may have computed"
    assert [use.utilization for use in card.uses(A, B).values()] == [None, None], "of two, it is not known whose it was"


def test_processes_have_no_more_than_the_device_together() -> None:
    """Of one that ran for half a second in ten, the driver said 61 percent; of the device 12."""
    card = Card(Device(utilization=[0], processes={11: 100, 21: 100}, computed={11: 45, 21: 15}))
    card.sample()
    card.sample(12)
    assert [use.utilization for use in card.uses(A, B).values()] == [pytest.approx(9), pytest.approx(3)]


def test_without_figures_by_process_the_device_counts_where_one_pod_is_alone() -> None:
    card = Card(Device(utilization=[0], processes={11: 100}, tells_processes=False))
    card.sample()
    card.sample(80)
    assert card.uses(A)[A].utilization == 80
    assert card.uses(A, B)[A].utilization is None
    card.device.processes[900] = 10
    card.sample(80)
    assert card.uses(A)[A].utilization is None


def test_a_pod_whose_processes_the_driver_does_not_list_is_unknown() -> None:
    card = Card(Device(utilization=[0], hidden={5: 4000}))
    card.sample()
    card.sample(80)
    assert card.uses(A) == {A: DeviceUse(index=0)}


class HangingGpus:
    """A driver that does not return before it is let go."""

    error = ""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.calls = 0

    def devices(self) -> tuple[Gpu, ...]:
        return ()

    def use(self, uuid: str) -> GpuUse | None:
        self._hang()
        return GpuUse()

    def measure(self, uuid: str, since: int = 0) -> GpuMeasure | None:
        self._hang()
        return GpuMeasure()

    def _hang(self) -> None:
        self.calls += 1
        self.release.wait(60)


def test_a_driver_that_hangs_delays_a_sample_briefly_and_the_rest_is_measured() -> None:
    hanging = HangingGpus()
    nodes = machine_nodes(NvmlGpus(FakeNvml(Device(), Device())))
    gpus = BoundedGpus(hanging, timeout_s=0.05)
    sampler = Sampler(nodes, lambda: Subjects(pods=()), gpus)
    for _ in range(3):
        (node,) = sampler.take()
        assert node.devices == (DeviceSample(index=0), DeviceSample(index=1))
        assert node.memory_bytes is not None
    assert hanging.calls == 2, "no second call for a device while its first one hangs"
    assert gpus.use("GPU-0") is None
    hanging.release.set()
