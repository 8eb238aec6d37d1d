"""A real machine for tests: an engine on a folder of its own, and proof that no process of it is left afterwards."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fairpool.agent import process_table
from fairpool.agent.devices import LogicalNode, simulated_node
from fairpool.agent.pod_log import LogChunk
from fairpool.agent.process_table import POD_UUID
from fairpool.engines.local import LocalEngine
from fairpool.model.ids import GroupId, Instant, NodeName, PodId, QueueId, Token, WorkloadId, pod_id
from fairpool.model.observation import ForgetOrder, ObservedPod, PodState, StartOrder, StopOrder
from fairpool.model.spec import Program, Volume
from fairpool.model.workload import PodShape, WorkloadKind, whole_gpus

NODE = NodeName("dgx1-1")
TOKEN = Token(1)
TIMEOUT_S = 120.0
"""Until a test gives up; much longer than anything takes, because machines that test are busy."""
PYTHON = os.path.realpath(sys.executable)
"""For programs of pods, which have a /tmp of their own: they would not see a virtual environment in the machine's."""


class Machine:
    """An engine and what tests say to it."""

    def __init__(
        self,
        root: Path,
        nodes: tuple[LogicalNode, ...] | None = None,
        shared: Path | None = None,
        **settings: Any,
    ) -> None:
        self.root, self.nodes, self.settings = root, nodes or (simulated_node(NODE),), settings
        self.shared = shared or root.parent / "shared"
        """A folder that tests and pods see at the same path."""
        self.shared.mkdir(parents=True, exist_ok=True)
        self.shared.chmod(0o777)
        self.engines: list[LocalEngine] = []
        self.engine = self.reopen()

    def reopen(self, **settings: Any) -> LocalEngine:
        """Another engine on the same directory, as if the one before had been killed: it is not closed."""
        self.settings.update(settings)
        self.engine = LocalEngine(self.root, nodes=self.nodes, **self.settings)
        self.engines.append(self.engine)
        return self.engine

    def order(
        self,
        name: str,
        *command: str,
        image: str = "python",
        project: str = "team-a",
        index: int = 0,
        incarnation: int = 0,
        **fields: Any,
    ) -> StartOrder:
        """An order for one pod; fields of the program may be given too."""
        own = {key: fields.pop(key) for key in list(fields) if key in Program.__dataclass_fields__}
        shared = Volume(source=str(self.shared), target=str(self.shared))
        own = {"submitter_uid": os.getuid(), **own, "volumes": (*own.get("volumes", ()), shared)}
        settings: dict[str, Any] = {
            "devices": (0,),
            "shape": PodShape(gpu=whole_gpus(1)),
            "boot_id": self.engine.supervisor.boot_id,
            "node": NODE,
            "grace_s": 5,
            **fields,
        }
        workload = WorkloadId(name)
        return StartOrder(
            pod=pod_id(workload, index, incarnation),
            workload=workload,
            index=index,
            incarnation=incarnation,
            group=GroupId(name),
            pod_set="default",
            run=0,
            name=name,
            project=QueueId(project),
            kind=WorkloadKind.TRAIN,
            program=Program(image=image, command=command, **own),
            created_at=Instant(0),
            **settings,
        )

    def start(self, order: StartOrder) -> PodId:
        (answer,) = self.engine.carry_out([order], TOKEN)
        assert answer.status == "done", answer
        return order.pod

    def run(self, name: str, *command: str, **fields: Any) -> ObservedPod:
        """Start it and see how it ended."""
        return self.until_exited(self.start(self.order(name, *command, **fields)))

    def up(self, name: str, *command: str, **fields: Any) -> PodId:
        """Start it and see it run."""
        pod = self.start(self.order(name, *command, **fields))
        self.until(lambda: self.see(pod).state is not PodState.STARTING, f"{pod} starts")
        return pod

    def stop(self, pod: PodId, grace_s: int = 5) -> None:
        self.engine.carry_out([StopOrder(pod=pod, node=NODE, grace_s=grace_s, reason="test")], TOKEN)

    def forget(self, pod: PodId) -> None:
        self.engine.carry_out([ForgetOrder(pod=pod, node=NODE)], TOKEN)

    def see(self, pod: PodId) -> ObservedPod:
        return self.engine.observe(TOKEN).pods[pod]

    def until_exited(self, pod: PodId) -> ObservedPod:
        self.until(lambda: self.see(pod).state is PodState.EXITED, f"{pod} ends")
        return self.see(pod)

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Look until it is so; woken by hints, so that it takes no longer than it must."""
        end = time.monotonic() + TIMEOUT_S
        while not holds():
            assert time.monotonic() < end, f"waited in vain until {what}"
            self.engine.wait(0.02)

    def log(self, pod: PodId) -> str:
        chunk = self.engine.supervisor.read_log(pod)
        assert isinstance(chunk, LogChunk), chunk
        return chunk.data.decode()

    def folder(self, pod: PodId) -> Path:
        return self.engine.supervisor.state.pod_directory(pod)

    def shim_pid(self, pod: PodId, generation: int = 0) -> int:
        return int(os.readlink(self.folder(pod) / f"shim.{generation}").split(".")[0])

    def processes(self, pod: PodId) -> list[int]:
        """Living processes that carry the pod's mark, found without the agent's own eyes."""
        wanted = f"{POD_UUID}={self.mark(pod)}".encode()
        return [pid for pid in process_table.pids() if wanted in environment_of(pid) and is_running(pid)]

    def numbers(self, pod: PodId) -> dict[int, int]:
        """The number of each process below the shim, by the one it has in the pod's own process table."""
        found = {}
        for pid in process_table.descendants(self.shim_pid(pod)):
            with suppress(OSError):
                rows = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
                (numbers,) = (row.split()[1:] for row in rows if row.startswith("NSpid:"))
                found[int(numbers[-1])] = int(numbers[0])
        return found

    def mark(self, pod: PodId) -> str:
        launch = json.loads((self.folder(pod) / "order.json").read_bytes().splitlines()[0])["launch"]
        return str(launch["pod_uuid"])

    def leftovers(self) -> list[str]:
        """Every process that has to do with this machine: pods, shims, fork servers."""
        root = str(self.root.resolve()).encode()
        found = []
        for pid in process_table.pids():
            try:
                where = os.readlink(f"/proc/{pid}/cwd").encode()
                with open(f"/proc/{pid}/environ", "rb") as file:
                    environment = file.read()
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    command = file.read()
            except OSError:
                continue
            # Of isolated pods the first process is found by its command line: the others live no longer than it does.
            is_pod = POD_UUID.encode() in environment and root in environment
            if (
                (is_pod or where.startswith(root) or root in command)
                and pid != os.getpid()
                and process_table.start_time(pid) is not None
            ):
                found.append(f"{pid} in {where.decode()}: {command.decode(errors='replace')}")
        return found

    def clean_up(self) -> None:
        """Stop everything as a person would, and let go."""
        for engine in self.engines[:-1]:
            engine.close()
        token = self.engine.observe(Token(10**9)).token
        pods = self.engine.observe(token).pods
        self.engine.carry_out([StopOrder(pod=pod, node=NODE, grace_s=0, reason="end of test") for pod in pods], token)
        self.engine.close()

    def kill_what_is_left(self) -> None:
        """So that a test that failed does not disturb the next ones."""
        for line in self.leftovers():
            os.kill(int(line.split()[0]), signal.SIGKILL)


def environment_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is not a zombie."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "State:\tZ" not in status and "State:\tX" not in status


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that users besides root can reach: those above the temporary folder of a test are closed to them."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@contextmanager
def a_machine(root: Path, **settings: Any) -> Iterator[Machine]:
    """A machine that leaves no process behind, or fails."""
    machine = Machine(root, **settings)
    try:
        yield machine
        machine.clean_up()
        end = time.monotonic() + TIMEOUT_S
        while (left := machine.leftovers()) and time.monotonic() < end:
            time.sleep(0.02)
        assert not left, left
    finally:
        machine.kill_what_is_left()
