"""Which real devices are withheld and why, with NVML as it answers on a real machine."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from fairpool.agent.device_health import CheckedNode, DeviceHealth, Ownership
from fairpool.agent.devices import LogicalNode, machine_nodes, simulated_pair
from fairpool.agent.nvml import NvmlGpus
from tests.fake_nvml import H200_MIB, MEMORY_V2, Device, FakeNvml

OURS, OURS_TOO, THEIRS, ENDED = 4_200_005, 4_200_006, 4_200_077, 4_200_099
"""No process of this machine has such a number: the kernel counts to 4194304."""
THERE = (OURS, OURS_TOO, *range(THEIRS, THEIRS + 4))


class World:
    """Some GPUs, and who is who."""

    def __init__(self, *devices: Device, held: Collection[int] = ()) -> None:
        gpus = NvmlGpus(FakeNvml(*devices))
        self.nodes: tuple[LogicalNode, ...] = machine_nodes(gpus)
        self.device_health = DeviceHealth(gpus)
        self.held = held

    def look(self) -> CheckedNode:
        ownership = Ownership(
            ours=lambda pids: {pid for pid in pids if pid in (OURS, OURS_TOO)},
            holds=lambda _, device: device in self.held,
            is_there=lambda pid: pid in THERE,
        )
        (seen,) = self.device_health.check(self.nodes, ownership)
        return seen


def test_the_stand_in_answers_as_the_driver_did() -> None:
    transcript = json.loads((Path(__file__).parents[1] / "data" / "nvml-h200.json").read_text())
    idle, one, from_a_container, *_ = transcript["moments"]
    worlds = (Device(), Device(processes={456: 2000}), Device(hidden={456: 2000}))
    for device, moment in zip(worlds, (idle, one, from_a_container), strict=True):
        nvml = FakeNvml(device)
        assert [vars(each) for each in nvml.nvmlDeviceGetComputeRunningProcesses(device)] == moment["compute"]
        assert nvml.nvmlDeviceGetGraphicsRunningProcesses(device) == moment["graphics"]
        assert vars(nvml.nvmlDeviceGetMemoryInfo(device)) == moment["memory"]
        newer = nvml.nvmlDeviceGetMemoryInfo(device, MEMORY_V2)
        assert newer.used == moment["memory_v2"]["used"]
        assert nvml.nvmlDeviceGetMigMode(device) == transcript["machine"]["mig"]
        assert nvml.nvmlDeviceGetName(device) == transcript["machine"]["name"]


def test_an_idle_device_is_given_out() -> None:
    world = World(Device())
    assert world.nodes[0].node.gpu_memory_mib == H200_MIB
    assert world.look() == CheckedNode(world.nodes[0].node)


def test_a_foreign_process_withholds_a_device_and_is_named() -> None:
    seen = World(Device(), Device(processes={OURS: 100, THEIRS: 100}), Device(processes={OURS: 100})).look()
    assert seen.node.gpus_withheld == (1,)
    assert seen.words == "GPU 1 is not scheduled: used by process 4200077 (unknown), which is not part of a pod"


def test_many_processes_are_not_all_named() -> None:
    words = World(Device(processes=dict.fromkeys(range(THEIRS, THEIRS + 4), 1))).look().words
    assert "4200079 (unknown) and 1 more, which are not part of a pod" in words
    assert "4200080" not in words


def test_a_device_is_scheduled_again_when_the_foreign_process_has_ended() -> None:
    device = Device(processes={THEIRS: 3000})
    world = World(device)
    assert world.look().node.gpus_withheld == (0,)
    device.processes.clear()
    assert world.look() == CheckedNode(world.nodes[0].node)


def test_memory_that_no_visible_process_explains_is_work_in_another_container() -> None:
    seen = World(Device(hidden={1234: 2000})).look()
    assert seen.node.gpus_withheld == (0,), "at the first check no pod of ours can just have ended"
    assert "by a process that is not visible from here" in seen.words


def test_later_it_must_be_seen_twice() -> None:
    """One that ends may leave the list before its memory is free."""
    device = Device(processes={OURS: 30_000})
    world = World(device)
    assert world.look().node.gpus_withheld == ()
    device.processes, device.hidden = {}, {OURS: 30_000}
    assert world.look().node.gpus_withheld == ()
    assert world.look().node.gpus_withheld == (0,)
    device.hidden = {}
    assert world.look().node.gpus_withheld == ()


def test_a_process_that_has_ended_and_is_still_listed_does_not_count() -> None:
    """Seen for 67 ms after a kill: its first thread is gone, others still let go of the device."""
    device = Device()
    world = World(device)
    world.look()
    device.processes = {ENDED: 30_000}
    assert world.look() == CheckedNode(world.nodes[0].node)
    assert world.look().node.gpus_withheld == (0,), "it hangs, and the device with it"


def test_beside_a_pod_of_ours_unseen_memory_is_not_held_against_a_device() -> None:
    assert World(Device(hidden={1234: 2000}), held=(0,)).look().words == ""


@pytest.mark.parametrize(
    "device",
    [
        pytest.param(Device(processes=dict.fromkeys((OURS, OURS_TOO), 4000)), id="two of ours"),
        pytest.param(Device(drawing={THEIRS: 900}), id="a desktop"),
        pytest.param(Device(hidden={1234: 2000}, tells_memory=False), id="an old driver"),
    ],
)
def test_what_can_be_explained_does_no_harm(device: Device) -> None:
    assert World(device).look().words == ""


def test_a_lost_gpu_keeps_its_number_and_is_withheld() -> None:
    seen = World(Device(), Device(is_lost=True), Device()).look()
    assert (seen.node.gpus, seen.node.gpus_withheld) == (3, (1,))
    assert seen.words == "GPU 1 is not scheduled: the driver reports GPU is lost"


def test_a_gpu_that_is_lost_later_is_withheld_too() -> None:
    device = Device()
    world = World(device)
    assert world.look().words == ""
    device.is_lost = True
    assert world.look().words == "GPU 0 is not scheduled: the driver does not respond for it"


def test_a_gpu_in_mig_mode_is_seen_and_not_given_out() -> None:
    seen = World(Device(is_partitioned=True), Device()).look()
    assert (seen.node.gpus, seen.node.gpus_withheld) == (2, (0,))
    assert "MIG" in seen.words


def test_simulated_devices_are_not_looked_at() -> None:
    nodes = simulated_pair()
    world = World(Device(processes={THEIRS: 1}))
    world.nodes = (replace(nodes[0]),)
    assert world.look() == CheckedNode(nodes[0].node)
