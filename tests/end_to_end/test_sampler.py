"""Samples of real pods, compared with what their programs count themselves."""

from __future__ import annotations

import json
import os
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from fairpool.agent import process_table
from fairpool.agent.devices import simulated_node
from fairpool.agent.pod_meter import TICKS_S
from fairpool.agent.process_owners import ProcessOwners
from fairpool.model.ids import PodId
from fairpool.model.sample import PodSample
from fairpool.model.workload import PodShape, gpu_portion, whole_gpus
from tests.local_machine import NODE, PYTHON, TOKEN, Machine, a_machine

pytestmark = pytest.mark.slow

COUNTS = """
import json, os, sys, time
file = open(sys.argv[1], "w")
def note():
    used = os.times()
    row = time.monotonic(), used.user + used.system + used.children_user + used.children_system
    file.write(json.dumps(row) + "\\n")
    file.flush()
"""
BUSY = f"""{COUNTS}
while True:
    until = time.monotonic() + 0.05
    while time.monotonic() < until:
        pass
    note()
"""
"""Works by itself."""
BURSTS = f"""{COUNTS}
while True:
    child = os.fork()
    if child == 0:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        os._exit(0)
    os.waitpid(child, 0)
    note()
"""
"""Works only in children that end at once."""
HOSTILE = """
import ctypes, os, sys, time
# A name with a line break and brackets, no environment, a session of its own, no parent; then a forged environment.
ctypes.CDLL(None).prctl(15, b") R 1\\n(x) 2", 0, 0, 0)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, "-c", "while True: pass"], {})
        name = {b"POD_UUID": sys.argv[1].encode(), b"OTHER": b"\\xff\\n"}
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, "-c", "while True: pass"], name)
        os.execve("/bin/sleep", ["sleep", "1000"], {b"POD_UUID": b"\\xff\\xfe"})
    os._exit(0)
os.wait()
print("ready", flush=True)
time.sleep(1000)
"""
WRITES = """
import os, time
with open("data", "wb") as file:
    while True:
        file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
        print("written", flush=True)
        time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    nodes = (simulated_node(NODE), simulated_node("dgx1-2"))
    with a_machine(tmp_path_factory.mktemp("sampler") / "machine", nodes=nodes) as machine:
        yield machine


def python(
    machine: Machine, name: str, program: str, *arguments: str, device: int, shape: PodShape | None = None
) -> PodId:
    shape = shape or PodShape(gpu=whole_gpus(1))
    return machine.up(name, PYTHON, "-c", program, *arguments, devices=(device,), shape=shape)


def noted(file: Path) -> list[list[float]]:
    """Moments, and the CPU time that the program had used by then."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("]")]


def have_noted(files: list[Path], at: float) -> bool:
    return all(noted(file)[-1][0] > at for file in files)


def used_s(rows: list[list[float]], at: float) -> float:
    return max(row[1] for row in rows if row[0] <= at)


def sampled(machine: Machine) -> dict[PodId, PodSample]:
    machine.engine.observe(TOKEN)
    return {pod.pod: pod for node in machine.engine.sample().nodes for pod in node.pods}


def cores(samples: dict[PodId, PodSample], pod: PodId) -> float:
    found = samples[pod].cpu_cores
    assert found is not None
    return found


def own_ticks(machine: Machine, pod: PodId) -> int:
    """CPU time of all that descends from its shim."""
    rows = [process_table.stat_fields(pid) for pid in process_table.descendants(machine.shim_pid(pod))]
    return sum(int(row[11]) + int(row[12]) for row in rows if row is not None)


def test_cpu_time_is_what_the_programs_count_themselves(machine: Machine) -> None:
    files = {name: machine.shared / name for name in ("busy", "bursts")}
    busy = python(machine, "busy", BUSY, str(files["busy"]), device=0)
    half = PodShape(gpu=gpu_portion(500))
    bursts = python(machine, "bursts", BURSTS, str(files["bursts"]), device=1, shape=half)
    asleep = machine.up("asleep", "sleep", "1000", devices=(2,))
    machine.until(lambda: all(noted(file) for file in files.values()), "both have begun")
    sampled(machine)
    began = time.monotonic()
    for _ in range(2):
        time.sleep(1.5)
        samples, ended = sampled(machine), time.monotonic()
        machine.until(partial(have_noted, list(files.values()), ended), "all is noted")
        for pod, file in ((busy, files["busy"]), (bursts, files["bursts"])):
            rows = noted(file)
            counted = used_s(rows, ended) - used_s(rows, began)
            assert cores(samples, pod) * (ended - began) == pytest.approx(counted, abs=0.25), pod
        assert cores(samples, asleep) < 0.05
        began = ended
    samples = sampled(machine)
    (first,), (second,), (third,) = (samples[pod].devices for pod in (busy, bursts, asleep))
    assert first.utilization == pytest.approx(min(100, 100 * cores(samples, busy)))
    assert second.utilization == pytest.approx(min(50, 50 * cores(samples, bursts))), "half a device is busy at most"
    assert (third.utilization or 0) < 5
    for pod in (busy, bursts, asleep):
        machine.stop(pod, grace_s=0)
    assert sampled(machine) == {}


def test_no_program_leaves_its_pod_or_is_counted_for_another(machine: Machine) -> None:
    victim = machine.up("victim", "sleep", "1000", devices=(3,))
    hostile = python(machine, "hostile", HOSTILE, machine.mark(victim), device=4)
    machine.until(lambda: "ready" in machine.log(hostile), "it has hidden")
    sampled(machine)
    before, began = own_ticks(machine, hostile), time.monotonic()
    machine.until(lambda: own_ticks(machine, hostile) - before > 0.3 * TICKS_S, "it has worked for a while")
    samples, elapsed_s = sampled(machine), time.monotonic() - began
    counted = (own_ticks(machine, hostile) - before) / TICKS_S
    assert cores(samples, victim) < 0.05
    assert cores(samples, hostile) * elapsed_s == pytest.approx(counted, abs=0.15)
    owners = ProcessOwners()
    found = owners.read(machine.engine.supervisor.running())
    assert len(found[hostile].rows) >= 5
    assert not {each.pid for each in found[victim].rows} & {each.pid for each in found[hostile].rows}
    assert owners.owner(os.getpid()) is None
    for pod in (victim, hostile):
        machine.stop(pod, grace_s=0)


def with_free_lock(machine: Machine, read: Callable[[], Iterator[int]]) -> Iterator[int]:
    """Read the process table, and see that another thread could observe meanwhile."""
    lock = machine.engine.supervisor._lock
    with ThreadPoolExecutor(1) as another:
        assert another.submit(lock.acquire, blocking=False).result()
        another.submit(lock.release).result()
    return read()


def test_bytes_on_disk_memory_and_groups_are_measured(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    holds = textwrap.dedent("""
        import time
        memory = bytearray(64 << 20)
        print("holds", flush=True)
        time.sleep(1000)
    """)
    writer = python(machine, "writer", WRITES, device=5)
    holder = python(machine, "holder", holds, device=6)
    has_groups = "limits" not in machine.engine.supervisor.unavailable
    limited = machine.up(
        "limited",
        PYTHON,
        "-c",
        holds.replace("time.sleep(1000)", "while True: pass"),
        devices=(7,),
        **({"cpu_limit_milli": 100, "memory_limit_bytes": 512 << 20} if has_groups else {}),
    )
    machine.until(lambda: all("holds" in machine.log(pod) for pod in (holder, limited)), "both hold memory")
    sampled(machine)
    monkeypatch.setattr(process_table, "pids", partial(with_free_lock, machine, process_table.pids))
    written = machine.log(writer).count("written")
    machine.until(lambda: machine.log(writer).count("written") > written + 3, "more is written")
    time.sleep(0.5)
    machine.engine.observe(TOKEN)
    samples = {pod.pod: pod for pod in machine.engine.sample().nodes[0].pods}
    monkeypatch.undo()
    assert (samples[writer].written_bytes_s or 0) > 1e5
    assert samples[holder].written_bytes_s == 0
    for pod in (holder, limited):
        assert 64 << 20 <= (samples[pod].memory_bytes or 0) < 160 << 20, pod
        assert samples[pod].devices[0].memory_bytes == samples[pod].memory_bytes
    if has_groups:
        assert cores(samples, limited) < 0.2
    for pod in (writer, holder, limited):
        machine.stop(pod, grace_s=0)
