"""Everything is killed and stopped at random, amid gangs, reclaim and deletes: nothing runs twice, nothing is left.

By a seed and for a bounded time: `FAIRPOOL_CHAOS_S` seconds (20) from the seed `FAIRPOOL_CHAOS_SEED` (1). What happens
when depends on the machine all the same, so a seed that failed is a place to begin and not a proof.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from fairpool.agent import process_table
from fairpool.api import organization as org
from fairpool.api import workload_spec
from fairpool.api import workloads as work
from fairpool.api.client import Refused, Unreachable
from fairpool.platform.directory_lock import lock_holder
from tests.local_machine import environment_of, is_running
from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow

CHAOS_S = float(os.environ.get("FAIRPOOL_CHAOS_S", "20"))
SEED = int(os.environ.get("FAIRPOOL_CHAOS_SEED", "1"))
NODE_SETS = ("2x4:V100-32GB", "2x4:A100-80GB", "1x8:V100-32GB")
"""Eight GPUs in every one of them, of which each project is owed four."""
JOBS_MAX = 12

PROGRAM = """
import fcntl, os, signal, sys, time
place = os.environ["FAIRPOOL_CHECKPOINT_DIR"]
mine = open(os.path.join(place, "lock." + os.environ["POD_INDEX"]), "a")
try:
    fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open(os.path.join(place, "twice"), "a").write(os.environ["POD_UUID"] + "\\n")
manner = sys.argv[1]
alone = sum(each.isdigit() for each in os.listdir("/proc")) < 10
if manner in ("deaf", "stopper"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if manner == "stopper" and os.getppid() > 1:
    os.kill(os.getppid(), signal.SIGSTOP)
if manner == "daemon" and os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        kept = {} if alone else dict(os.environ)
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"], kept)
    os._exit(0)
time.sleep(600)
"""
"""Takes a lock where it saves, and says so if another copy of the same pod has it. One in a process table of its own
may also leave a process behind that has nothing by which it could be known."""
MANNERS = ("polite", "polite", "deaf", "stopper", "daemon")


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[Chaos]:
    platform = Running(tmp_path / "data", NODE_SETS[0])
    chaos = Chaos(platform, random.Random(SEED))
    try:
        yield chaos
    finally:
        chaos.continue_all()
        platform.clean_up()


def test_nothing_runs_twice_and_nothing_is_left(chaos: Chaos) -> None:
    chaos.begin()
    until = time.monotonic() + CHAOS_S
    while time.monotonic() < until:
        chaos.act()
        chaos.assert_nothing_runs_twice()
    chaos.settle()
    chaos.assert_quotas_are_honoured()
    chaos.assert_ledger_and_machine_agree()
    chaos.delete_everything()
    chaos.assert_nothing_is_left()
    print(chaos.reported())


class Chaos:
    """One platform, and all that happens to it."""

    def __init__(self, platform: Running, dice: random.Random) -> None:
        self.platform, self.dice = platform, dice
        self.jobs: list[str] = []
        self.everything: set[str] = set()
        self.count = 0
        self.scenario: list[str] = []

    # --- what happens

    def begin(self) -> None:
        self.platform.up()
        for name in ("team-a", "team-b"):
            if not any(each.name == name for each in self.platform.client.projects()):
                body = {"name": name, "resources": [{"gpu": {"deserved": 4}}]}
                self.platform.client.create_project(org.ProjectRequest.model_validate(body))
        for number in range(6):
            self.submit("team-a", MANNERS[number % len(MANNERS)])

    def act(self) -> None:
        choices: list[tuple[int, Callable[[], None]]] = [
            (6, self.submit_something),
            (2, self.submit_gang),
            (3, self.delete_something),
            (2, self.kill_server),
            (1, self.pause_server),
            (1, self.change_nodes),
            (2, lambda: self.hit(self.fork_server(), signal.SIGKILL, "fork server")),
            (1, lambda: self.hit(self.fork_server(), signal.SIGSTOP, "fork server")),
            (3, lambda: self.hit(self.shims(), signal.SIGKILL, "shim")),
            (3, lambda: self.hit(self.shims(), signal.SIGSTOP, "shim")),
            (3, lambda: self.hit(self.pods(), signal.SIGKILL, "pod")),
            (1, lambda: self.hit(self.pods(), signal.SIGSTOP, "pod")),
            (3, self.remove_folder),
        ]
        weights = [weight for weight, _ in choices]
        (action,) = self.dice.choices([action for _, action in choices], weights)
        with suppress(Unreachable, Refused):
            action()
        time.sleep(self.dice.uniform(0, 0.2))

    def submit_something(self) -> None:
        self.submit(self.dice.choice(("team-a", "team-b")), self.dice.choice(MANNERS))

    def submit(self, project: str, manner: str) -> None:
        if len(self.jobs) < JOBS_MAX:
            spec = {**self.spec(manner), "compute": {"gpu": "1"}}
            body = {"name": self.name(), "projectId": project, "spec": spec}
            self.keep(
                self.platform.client.submit(workload_spec.SubmitTraining.model_validate(body)).id, f"{manner} {project}"
            )

    def submit_gang(self) -> None:
        if len(self.jobs) < JOBS_MAX:
            spec = {**self.spec("polite"), "numWorkers": 2, "noMaster": True, "compute": {"gpu": "1"}}
            body = {"name": self.name(), "projectId": self.dice.choice(("team-a", "team-b")), "spec": spec}
            self.keep(self.platform.client.submit(workload_spec.SubmitDistributed.model_validate(body)).id, "gang")

    def spec(self, manner: str) -> dict[str, object]:
        return {
            "image": "python",
            "command": "python",
            "args": f"-u -c '{PROGRAM}' {manner}",
            "backoffLimit": 100,
            "terminationGracePeriodSeconds": 1,
        }

    def name(self) -> str:
        self.count += 1
        return f"job{self.count}"

    def keep(self, workload: str, words: str) -> None:
        self.scenario.append(f"submit {workload}: {words}")
        self.jobs.append(workload)
        self.everything.add(workload)

    def delete_something(self) -> None:
        if self.jobs:
            workload = self.dice.choice(self.jobs)
            self.scenario.append(f"delete {workload}")
            self.platform.client.delete_workload(workload)
            self.jobs.remove(workload)

    def kill_server(self) -> None:
        self.scenario.append("kill -9 server")
        self.platform.kill()
        if self.dice.random() < 0.5:
            self.remove_folder()
        self.platform.up()

    def pause_server(self) -> None:
        self.scenario.append("stop server for a while")
        pid = self.platform.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(self.dice.uniform(0.2, 1.5))
        finally:
            os.kill(pid, signal.SIGCONT)

    def change_nodes(self) -> None:
        nodes = self.dice.choice(NODE_SETS)
        self.scenario.append(f"down, up with {nodes}")
        self.platform.down()
        self.platform.up("--nodes", nodes)

    def remove_folder(self) -> None:
        folders = sorted((self.platform.data_directory.machine / "pods").iterdir())
        if folders:
            folder = self.dice.choice(folders)
            self.scenario.append(f"rm -rf {folder.name}")
            shutil.rmtree(folder, ignore_errors=True)

    def hit(self, pids: list[int], number: signal.Signals, what: str) -> None:
        if pids:
            pid = self.dice.choice(pids)
            self.scenario.append(f"{number.name} {what} {pid}")
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    # --- who is there

    def fork_server(self) -> list[int]:
        holder = lock_holder(self.platform.data_directory)
        below = process_table.descendants(holder.pid) if holder is not None else []
        return [pid for pid in below if process_table.name(pid) == "fp:fork server"]

    def shims(self) -> list[int]:
        start = f"{self.platform.data_directory.machine}/pods/"
        return [pid for pid in process_table.pids() if process_table.working_directory(pid).startswith(start)]

    def processes_of_pods(self) -> dict[tuple[str, str], dict[str, list[int]]]:
        """Every living process of our pods: by workload and index, then by the UUID of its pod."""
        found: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(dict)
        for pid in process_table.pids():
            said = dict(line.split(b"=", 1) for line in environment_of(pid) if b"=" in line)
            workload = said.get(b"JOB_UUID", b"").decode()
            if workload in self.everything and b"POD_UUID" in said and is_running(pid):
                slot = workload, said[b"POD_INDEX"].decode()
                found[slot].setdefault(said[b"POD_UUID"].decode(), []).append(pid)
        return found

    def pods(self) -> list[int]:
        return [pid for marks in self.processes_of_pods().values() for pids in marks.values() for pid in pids]

    # --- what must hold

    def assert_nothing_runs_twice(self) -> None:
        twice = {slot: marks for slot, marks in self.processes_of_pods().items() if len(marks) > 1}
        assert not twice, f"{twice} after\n{self.reported()}"
        said = list((self.platform.data_directory.machine / "checkpoints").rglob("twice"))
        assert not said, f"{said} after\n{self.reported()}"

    def continue_all(self) -> None:
        for pid in [*self.fork_server(), *self.shims(), *self.pods()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def settle(self) -> None:
        """No more faults. What was stopped stays so: the platform has to cope with that."""
        if lock_holder(self.platform.data_directory) is None:
            self.platform.up()

    def assert_quotas_are_honoured(self) -> None:
        """Each project gets its quota, whichever project has borrowed it: four jobs of one GPU each."""
        for project, borrower in (("team-a", "team-b"), ("team-b", "team-a")):
            self.delete_everything()
            for _ in range(6):
                self.submit(borrower, "stopper")
            self.until(partial(self.has_running, borrower, 6), f"{borrower} borrows")
            for _ in range(4):
                self.submit(project, "polite")
            self.until(partial(self.has_running, project, 4), f"{project} has its quota")
        self.assert_nothing_runs_twice()

    def workloads(self) -> list[work.WorkloadItem]:
        return self.platform.client.workloads().workloads

    def has_running(self, project: str, count: int) -> bool:
        found = [each for each in self.workloads() if each.project_name == project and each.phase == "Running"]
        return len(found) == count

    def is_deleted(self, workload: str) -> bool:
        with suppress(Refused):
            self.platform.client.delete_workload(workload)
        return not any(each.id == workload for each in self.workloads())

    def assert_ledger_and_machine_agree(self) -> None:
        """What is said to run does, and nothing else."""
        self.until(lambda: self.said_to_run() == self.slots(), "books and processes agree")

    def said_to_run(self) -> set[tuple[str, str]]:
        pods = [(each.id, pod) for each in self.workloads() for pod in self.platform.client.pods(each.id)]
        return {(workload, str(pod.index)) for workload, pod in pods if pod.phase == "running"}

    def slots(self) -> set[tuple[str, str]]:
        return set(self.processes_of_pods())

    def delete_everything(self) -> None:
        for workload in self.jobs:
            self.until(partial(self.is_deleted, workload), f"{workload} is deleted")
        self.jobs.clear()

    def assert_nothing_is_left(self) -> None:
        self.until(lambda: not self.processes_of_pods(), "no process is left")
        self.until(lambda: not list((self.platform.data_directory.machine / "pods").iterdir()), "no folder is left")
        self.until(lambda: not self.shims(), "no shim is left")
        pods = self.platform.status["pods"]
        assert (pods["running"], pods["starting"]) == (0, 0)
        self.assert_nothing_runs_twice()

    def until(self, holds: Callable[[], object], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while True:
            with suppress(Unreachable):
                if holds():
                    return
            assert time.monotonic() < end, f"waited in vain until {what}, after\n{self.reported()}"
            time.sleep(0.1)

    def reported(self) -> str:
        return "\n".join(self.scenario[-100:])
