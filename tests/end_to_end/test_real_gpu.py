"""Pods on a real GPU. Runs where NVML finds one that is idle, and is skipped elsewhere.

The first device is used, a few gigabytes of it, and none of its settings is changed. To run it alone:

    .venv/bin/python -m pytest tests/end_to_end/test_real_gpu.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fairpool.agent.devices import machine_nodes
from fairpool.agent.nvml import MIB, GpuUse, find_gpus
from fairpool.model.observation import PodState
from fairpool.model.workload import PodShape, gpu_portion
from tests import gpu_holder
from tests.local_machine import NODE, TOKEN, Machine, a_machine
from tests.running_platform import PATIENCE_S, Running

GPUS = find_gpus()
DEVICES = [gpu for gpu in GPUS.devices() if not gpu.error]
if not DEVICES:
    pytest.skip("there is no real GPU on this machine", allow_module_level=True)

FIRST = DEVICES[0].uuid
HOLD = (sys.executable, gpu_holder.__file__)

pytestmark = pytest.mark.slow


def use() -> GpuUse:
    found = GPUS.use(FIRST)
    assert found is not None
    return found


if use().computing:
    pytest.skip(f"the first GPU is in use: {use().computing}", allow_module_level=True)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """This machine with its real devices, under the name that tests use."""
    node = machine_nodes(GPUS)[0]
    with a_machine(tmp_path / "machine", nodes=(replace(node, node=replace(node.node, name=NODE)),)) as machine:
        yield machine
    assert use().computing == (), "every process has let go of the device"


@contextmanager
def foreign_process(*before: str, mib: int = 1000) -> Iterator[int]:
    """Work that has nothing to do with us; its process."""
    with subprocess.Popen([*before, *HOLD, str(mib)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "holds" in process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def withheld(machine: Machine) -> tuple[int, ...]:
    return machine.engine.observe(TOKEN).nodes[NODE].node.gpus_withheld


def words(machine: Machine) -> str:
    return machine.engine.observe(TOKEN).nodes[NODE].message


def look_anew(machine: Machine) -> None:
    """The next observation asks the driver, however short ago the last one did."""
    machine.engine._devices_checked_at = float("-inf")


def test_the_driver_tells_what_there_is(machine: Machine) -> None:
    observed = machine.engine.observe(TOKEN).nodes[NODE]
    assert observed.node.gpus >= 1
    assert observed.node.gpu_memory_mib == DEVICES[0].memory_mib > 1000
    assert observed.node.labels["nvidia.com/gpu.product"] == DEVICES[0].name.removeprefix("NVIDIA ").replace(" ", "-")
    assert "fairpool/simulated" not in observed.node.labels
    assert (observed.node.gpus_withheld, observed.message) == ((), "")


def test_a_pod_sees_and_uses_what_it_was_given(machine: Machine) -> None:
    pod = machine.up(
        "one", "sh", "-c", f"echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES; exec {' '.join(HOLD)} 2000"
    )
    machine.until(lambda: "holds 2000 MiB, sees 1 device" in machine.log(pod), "it has its memory")
    assert f"{FIRST} {FIRST}\n" in machine.log(pod)
    (pid,) = use().computing
    assert pid in machine.processes(pod)
    machine.stop(pod)
    assert machine.until_exited(pod).after_notice
    machine.until(lambda: use().memory_bytes == 0, "its memory is free")


def test_a_pod_that_was_given_no_gpu_sees_none(machine: Machine) -> None:
    observed = machine.run("none", *HOLD, "100", devices=(), shape=PodShape())
    assert observed.exit_code == 1
    assert "CUDA error 100" in machine.log(observed.order.pod)


def test_two_halves_compute_at_the_same_time(machine: Machine) -> None:
    half = {"shape": PodShape(gpu=gpu_portion(500))}
    pods = [machine.up(name, *HOLD, "2000", **half) for name in ("left", "right")]
    machine.until(lambda: len(use().computing) == 2, "both compute")
    for pod in pods:
        assert "the limit on its share of GPU memory is not enforced" in machine.log(pod)
    look_anew(machine)
    assert withheld(machine) == ()


def test_whatever_a_pod_starts_is_its_own(machine: Machine) -> None:
    """A child, a daemon without environment, an exec session; also for a server that was killed and started anew."""
    pod = machine.up("family", *HOLD, "500", "child", "daemon")
    machine.until(lambda: len(use().computing) == 3, "all compute")
    assert len([pid for pid in use().computing if pid in machine.processes(pod)]) == 2, "one has lost its mark"
    visit = machine.engine.supervisor.execute(pod, [*HOLD, "500"])
    machine.until(lambda: len(use().computing) == 4, "the exec session computes too")
    look_anew(machine)
    assert (withheld(machine), words(machine)) == ((), "")
    machine.reopen()
    assert (withheld(machine), words(machine)) == ((), "")
    assert machine.see(pod).state is PodState.RUNNING
    machine.stop(pod)
    machine.until_exited(pod)
    assert use().computing == (), "no process is left when its end is reported"
    del visit


def test_samples_show_who_computes_and_who_only_holds_memory(machine: Machine) -> None:
    """Also of a child without environment, and of a device that two pods share."""
    half = {"shape": PodShape(gpu=gpu_portion(500))}
    busy = machine.up("busy", *HOLD, "500", "daemon", "busy", **half)
    idle = machine.up("idle", *HOLD, "1000", **half)
    machine.until(lambda: len(use().computing) == 3, "all have their memory")
    first = machine.engine.sample().nodes[0]
    assert [(pod.pod, pod.devices[0].utilization) for pod in first.pods] == [(busy, None), (idle, None)]
    time.sleep(3)
    machine.engine.sample()
    time.sleep(3)
    node = machine.engine.sample().nodes[0]
    device, (working, holding) = node.devices[0], [pod.devices[0] for pod in node.pods]
    assert not node.is_simulated
    assert (device.utilization or 0) > 50
    assert working.utilization == pytest.approx(device.utilization, abs=10)
    assert (holding.utilization or 0) < 5
    assert working.memory_bytes == sum(used for pid, used in use().by_process if pid not in machine.processes(idle))
    assert 1000 * MIB < (holding.memory_bytes or 0) < 2000 * MIB
    assert device.memory_bytes == pytest.approx((working.memory_bytes or 0) + (holding.memory_bytes or 0), abs=50 * MIB)
    assert (device.power_watts or 0) > 10
    assert 10 < (device.temperature_celsius or 0) < 110
    assert (device.clock_mhz or 0) > 100
    for pod in (busy, idle):
        machine.stop(pod)
        machine.until_exited(pod)


def test_after_its_shim_was_killed_a_pod_is_still_known(machine: Machine) -> None:
    pod = machine.up("foreign", *HOLD, "500")
    machine.until(lambda: len(use().computing) == 1, "it computes")
    os.kill(machine.shim_pid(pod), 9)
    look_anew(machine)
    assert (withheld(machine), words(machine)) == ((), "")
    machine.stop(pod)
    machine.until_exited(pod)
    assert use().computing == ()


def test_a_foreign_process_is_seen_and_named_until_it_ends(machine: Machine) -> None:
    pod = machine.up("mine", *HOLD, "500", shape=PodShape(gpu=gpu_portion(500)))
    machine.until(lambda: len(use().computing) == 1, "ours computes")
    with foreign_process() as pid:
        look_anew(machine)
        assert withheld(machine) == (0,)
        assert f"GPU 0 is not scheduled: used by process {pid} (python" in words(machine)
        assert machine.see(pod).state is PodState.RUNNING, "the pod that was there before stays"
    machine.until(lambda: withheld(machine) == (), "the device is given out again")
    assert words(machine) == ""


def test_work_that_cannot_be_seen_shows_by_its_memory(tmp_path: Path) -> None:
    """The look is taken in a process namespace of its own, as in a container; the work is outside."""
    look = (
        "from fairpool.agent.devices import machine_nodes; from fairpool.agent.device_health import *; "
        "from fairpool.agent.nvml import find_gpus; gpus = find_gpus(); nodes = machine_nodes(gpus); "
        "mine = Ownership(ours=lambda pids: (), holds=lambda node, device: False); "
        "print(gpus.use(nodes[0].gpus[0].uuid).computing, DeviceHealth(gpus).check(nodes, mine)[0].words)"
    )
    inside = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine permits no process namespaces")
    with foreign_process(mib=2000):
        seen = subprocess.run(
            [*inside, sys.executable, "-c", look], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
    assert seen.stdout.startswith("() GPU 0 is not scheduled: its memory is used by a process that is not visible")


def test_the_platform_waits_for_a_foreign_process_and_survives_a_kill(tmp_path: Path) -> None:
    platform = Running(tmp_path / "data", nodes="machine")
    folder = Path(gpu_holder.__file__).parent
    hold = f'import sys; sys.path.insert(0, "{folder}"); import gpu_holder; gpu_holder.main("500")'
    try:
        with foreign_process() as pid:
            assert "simulated" not in platform.up().stdout
            assert f"process {pid} (python" in platform.command("status").stdout
            workload = platform.submit("first", hold, gpu="1")
            platform.until(
                lambda: "used by processes outside Fairpool" in platform.client.workload(workload).phase_message, "why"
            )
            (node,) = platform.client.nodes()
            assert (node.gpu_info.withheld, node.gpu_info.simulated) == ([0], False)
            assert f"process {pid} (python" in node.gpu_info.withheld_because
        platform.until_phase(workload, "Running")
        platform.until(lambda: "holds" in platform.log(workload), "it computes")
        (before,) = use().computing
        platform.kill()
        platform.up()
        second = platform.submit("second", hold, gpu="1")
        platform.until_phase(second, "Pending")
        platform.until_phase(workload, "Running")
        assert use().computing == (before,), "the device was not given twice"
        assert platform.client.nodes()[0].gpu_info.withheld == []
        platform.client.delete_workload(workload)
        platform.until_phase(second, "Running")
        platform.until(lambda: use().computing not in ((), (before,)), "the next one has it")
    finally:
        platform.clean_up()
    assert use().computing == ()
