"""Whose work is on a GPU: real processes, on devices of a stand-in that lists them as NVML does."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fairpool.agent import process_table
from fairpool.agent.devices import machine_nodes
from fairpool.agent.nvml import NvmlGpus
from fairpool.model.ids import PodId
from fairpool.model.observation import ObservedNode, PodState
from tests.fake_nvml import Device, FakeNvml
from tests.local_machine import NODE, TOKEN, Machine, a_machine

pytestmark = pytest.mark.slow

FAMILY = """
import os, subprocess, sys, time
sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
print(os.getpid(), flush=True)
print(subprocess.Popen(sleeper).pid, flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        os.execve(sleeper[0], sleeper, {})
    os._exit(0)
time.sleep(600)
"""


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def machine(tmp_path: Path, device: Device) -> Iterator[Machine]:
    gpus = NvmlGpus(FakeNvml(device))
    (node,) = machine_nodes(gpus)
    nodes = (replace(node, node=replace(node.node, name=NODE)),)
    with a_machine(tmp_path / "machine", nodes=nodes, gpus=gpus) as machine:
        yield machine


def look(machine: Machine) -> ObservedNode:
    """What the engine says of the node when it asks the driver anew."""
    machine.engine._devices_checked_at = float("-inf")
    return machine.engine.observe(TOKEN).nodes[NODE]


def family(machine: Machine, device: Device) -> tuple[PodId, list[int]]:
    """A pod that computes in three processes, of which the last has no mark and no parent that it was born with."""
    pod = machine.up("family", "python3", "-c", FAMILY)
    machine.until(lambda: len(machine.log(pod).split()) == 3, "all three run")
    on_the_machine = machine.numbers(pod)
    pids = [on_the_machine[int(word)] for word in machine.log(pod).split()]
    machine.until(lambda: process_table.pod_uuid_of(pids[2]) is None, "the daemon has cleared its environment")
    device.processes = dict.fromkeys(pids, 500)
    return pod, pids


def test_whatever_a_pod_starts_is_its_own(machine: Machine, device: Device) -> None:
    pod, pids = family(machine, device)
    assert process_table.pod_uuid_of(pids[1]) == machine.mark(pod)
    assert look(machine).message == ""
    machine.reopen()
    assert look(machine).message == "", "a server that was started anew knows them too"
    machine.stop(pod)
    machine.until_exited(pod)
    assert not [pid for pid in pids if process_table.start_time(pid) is not None]


def test_an_orphan_is_known_by_its_uuid(machine: Machine, device: Device) -> None:
    pod = machine.up("foreign", "sleep", "600")
    device.processes = dict.fromkeys(machine.processes(pod), 500)
    os.kill(machine.shim_pid(pod), signal.SIGKILL)
    assert look(machine).message == ""


def test_a_foreign_process_beside_a_pod_is_named_and_the_pod_stays(machine: Machine, device: Device) -> None:
    pod, _ = family(machine, device)
    with subprocess.Popen(["sleep", "600"]) as foreign:
        device.processes[foreign.pid] = 500
        observed = look(machine)
        assert observed.node.gpus_withheld == (0,)
        assert f"GPU 0 is not scheduled: used by process {foreign.pid} (sleep)" in observed.message
        assert machine.see(pod).state is PodState.RUNNING
        foreign.kill()
        machine.until(lambda: process_table.start_time(foreign.pid) is None, "it has ended")
        assert look(machine).message == "", "a zombie is gone all the same"
    del device.processes[foreign.pid]
    assert look(machine).node.gpus_withheld == ()


def test_pods_of_another_installation_are_foreign(machine: Machine, device: Device, tmp_path: Path) -> None:
    with a_machine(tmp_path / "other") as other:
        pod = other.up("theirs", "sleep", "600")
        other.until(lambda: other.processes(pod), "its environment can be read")
        device.processes = dict.fromkeys(other.processes(pod), 500)
        assert look(machine).node.gpus_withheld == (0,)
        device.processes = {}
