"""A control plane behind a socket for tests of `runai`: real application and database, pods that a test invents."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import threading
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import uvicorn

from fairpool.api.client import Client
from fairpool.api.cluster_client import ClusterClient
from fairpool.api.clusters import EventReport, NodeReport, PodReport, PushReport, WorkloadReport
from fairpool.api.samples import NodeSampleWire, SamplesReport
from fairpool.api.shell import Channel, Frame, ended
from fairpool.control.app import ClusterIdentity, cluster_identity, create_app
from fairpool.control.pod_access import LogPiece, LogRange, PodAccessError, PodAddress, ShellSession
from fairpool.control.settings import FIRST_PASSWORD, FIRST_USER, Settings
from fairpool.model.ids import Instant, NodeName, PodId, PoolName, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import Cause, Outcome
from fairpool.model.problem import Problem
from fairpool.model.status import WaitReason, WorkloadPhase
from tests.control.control_plane import CHEAP, choose_password
from tests.control.pod_access_fakes import NoUploadAccess
from tests.end_to_end.typist import Typist

PATIENCE_S = 30.0
LOG = b"Epoch 1/2 loss 0.31\nEpoch 2/2 loss 0.12\n"
DANGEROUS = b"\x1b]0;owned\x07\x1b[31mred\x1b[0m \x1b]52;c;ZXZpbA==\x07\x1b[2Jgone \xc2\x9b5n plain\n"


class Echo:
    """A shell that repeats what it hears in capitals; `exit N` or the end of input ends it."""

    def __init__(self, command: tuple[str, ...], tty: bool) -> None:
        self._out: asyncio.Queue[Frame | None] = asyncio.Queue()
        self.sizes: list[dict[str, int]] = []
        self.command, self.tty = command, tty
        self._out.put_nowait(Frame(Channel.OUTPUT, f"$ {shlex.join(command)}\r\n".encode()))
        if command[:1] == ("false",):
            self._out.put_nowait(Frame(Channel.ERRORS, b"it is not true\n"))
            self._finish(3)

    def _finish(self, code: int) -> None:
        self._out.put_nowait(ended(code))
        self._out.put_nowait(None)

    async def send(self, frame: Frame) -> None:
        if frame.channel is Channel.SIZE:
            self.sizes.append(json.loads(frame.data))
        elif frame.channel is Channel.CLOSE:
            self._finish(0)
        elif match := re.search(rb"exit (\d+)", frame.data):
            self._finish(int(match[1]))
        else:
            self._out.put_nowait(Frame(Channel.OUTPUT, frame.data.upper()))

    async def receive(self) -> Frame | None:
        return await self._out.get()

    async def close(self) -> None:
        return


@dataclass
class FakePodAccess(NoUploadAccess):
    """Ways into pods that only exist here."""

    log: bytes = LOG
    shells: list[Echo] = field(default_factory=list)
    reported: Mapping[str, Any] = field(default_factory=dict)
    unreachable: bool = False
    read: list[str] = field(default_factory=list)
    """Pods whose log was asked for, and which part of it."""
    wanted: list[LogRange] = field(default_factory=list)

    async def read_log(self, pod: PodAddress, wanted: LogRange, *, follow: bool) -> AsyncGenerator[LogPiece]:
        if self.unreachable:
            raise PodAccessError(Problem("pod.unreachable", "its node is away", "wait for it"))
        self.read.append(pod.pod)
        self.wanted.append(wanted)
        lines = self.log.splitlines(keepends=True)
        data = b"".join(lines if wanted.tail is None else lines[len(lines) - wanted.tail :])
        yield LogPiece(data, len(self.log))
        if follow:
            await asyncio.sleep(0.02)
            yield LogPiece(b"and on\n", len(self.log) + 7)

    async def open_shell(self, pod: PodAddress, command: tuple[str, ...], tty: bool) -> ShellSession:
        if self.unreachable:
            raise PodAccessError(Problem("pod.unreachable", "its node is away", "wait for it"))
        self.shells.append(Echo(command, tty))
        return self.shells[-1]

    async def reports(self, pod: PodAddress) -> Mapping[str, Any]:
        return self.reported


@dataclass
class Server(Typist):
    """A control plane, what its cluster reports, and people who type."""

    pod_access: FakePodAccess
    identity: ClusterIdentity
    admin: Client
    workload_reports: dict[str, WorkloadReport] = field(default_factory=dict)
    nodes: dict[str, NodeReport] = field(default_factory=dict)
    events: list[EventReport] = field(default_factory=list)
    reports: int = 0

    def settle(self, project: str, *, quota: str = "4", person: str = "admin") -> None:
        """Sign in, with a project of one's own as the default."""
        self.log_in(person)
        self.typed(f"runai-adm project create {project} --gpu-quota {quota}", person=person)
        self.typed(f"runai config project {project}", person=person)

    # --- what the cluster says ---

    def id_of(self, project: str, name: str) -> str:
        found = self.admin.find_workload(project, name)
        assert found is not None, name
        return found.id

    def runs(
        self,
        project: str,
        name: str,
        *,
        gpus: float = 1,
        node: str = "dgx1-1",
        pods: int = 1,
        devices: tuple[int, ...] = (0,),
    ) -> None:
        workload = self.id_of(project, name)
        now = Instant(time.time_ns() // 1_000_000)
        replicas = tuple(
            PodReport(
                id=PodId(f"{workload}-{index}-0"),
                index=index,
                incarnation=0,
                phase=PodPhase.RUNNING,
                node=NodeName(node if pods == 1 else f"{node}{index}"),
                devices=devices,
                started_at=now,
                gpus_milli=int(gpus * 1000) // pods,
            )
            for index in range(pods)
        )
        self.report(workload, WorkloadPhase.RUNNING, pods=replicas, gpus_milli=int(gpus * 1000))

    def waits(self, project: str, name: str, detail: str) -> None:
        self.report(self.id_of(project, name), WorkloadPhase.PENDING, reason=WaitReason.QUEUED, detail=detail)

    def fails(self, project: str, name: str) -> None:
        workload = self.id_of(project, name)
        replica = PodReport(
            id=PodId(f"{workload}-0-0"),
            index=0,
            incarnation=0,
            phase=PodPhase.ENDED,
            node=NodeName("dgx1-1"),
            outcome=Outcome.ERROR,
            cause=Cause.EXITED,
            exit_code=1,
        )
        self.report(workload, WorkloadPhase.FAILED, reason=Cause.RETRIES, pods=(replica,))

    def waits_again(self, project: str, name: str, *, exit_code: int, **more: Any) -> None:
        """Its first pod failed, and the second waits: only the history has the first."""
        workload = self.id_of(project, name)
        now = Instant(time.time_ns() // 1_000_000)
        self.events.append(
            EventReport(
                number=len(self.events) + 1,
                at=now,
                kind="ended",
                workload=WorkloadId(workload),
                pod=PodId(f"{workload}-0-0"),
                node=NodeName("dgx1-1"),
                cause=Cause.EXITED,
                detail=f"exit code {exit_code}",
                outcome=Outcome.ERROR,
                exit_code=exit_code,
            )
        )
        replica = PodReport(id=PodId(f"{workload}-0-1"), index=0, incarnation=1, phase=PodPhase.WAITING)
        self.report(workload, WorkloadPhase.PENDING, pods=(replica,), **more)

    def report(self, workload: str, phase: WorkloadPhase, **more: Any) -> None:
        now = Instant(time.time_ns() // 1_000_000)
        workload_report = WorkloadReport(
            id=WorkloadId(workload), phase=phase, since=now, pool=PoolName("default"), **more
        )
        self.workload_reports[workload] = workload_report
        self.push()

    def happened(self, workload: str, kind: str, detail: str = "", **more: Any) -> None:
        now = Instant(time.time_ns() // 1_000_000)
        line = EventReport(
            number=len(self.events) + 1, at=now, kind=kind, workload=WorkloadId(workload), detail=detail, **more
        )
        self.events.append(line)
        self.push()

    def node(self, name: str, gpus: int = 8, **more: Any) -> None:
        self.nodes[name] = NodeReport(name=NodeName(name), pool=PoolName("default"), gpus=gpus, **more)
        self.push()

    def sample(self, *nodes: NodeSampleWire) -> None:
        """What was measured on the nodes just now; returns when it can be read."""
        report = SamplesReport(at=Instant(time.time_ns() // 1_000_000), nodes=nodes)
        cluster = ClusterClient(self.address, self.identity.token)
        assert cluster.samples(report).is_kept
        cluster.close()
        end = monotonic() + PATIENCE_S
        while not any(each.measured for each in self.admin.nodes(measured="true")):
            assert monotonic() < end
            sleep(0.05)

    def push(self) -> None:
        self.reports += 1
        report = PushReport(
            cluster="local",
            token=Token(1),
            number=self.reports,
            whole=True,
            at=Instant(time.time_ns() // 1_000_000),
            workloads=tuple(self.workload_reports.values()),
            nodes=tuple(self.nodes.values()),
            events=tuple(self.events),
        )
        cluster = ClusterClient(self.address, self.identity.token)
        assert cluster.push(report).takes(report)
        cluster.close()


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[Server]:
    """A control plane on a free port of this machine."""
    pod_access = FakePodAccess()
    app = create_app(Settings(data=folder / "data", **settings), pod_access=pod_access, hasher=CHEAP)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    asyncio.run_coroutine_threadsafe(choose_password(app), loops[0]).result()
    identity = asyncio.run_coroutine_threadsafe(cluster_identity(app), loops[0]).result()
    address = f"http://127.0.0.1:{port}"
    with Client(address) as admin:
        admin.sign_in(FIRST_USER, FIRST_PASSWORD)
        yield Server(address, folder, pod_access, identity, admin)
    server.should_exit = True
    thread.join(5)


def real_environment(server: Server, person: str = "admin", **more: str) -> dict[str, str]:
    """For a process of its own."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    reported = server.environment(person, **more)
    return inherited | {name: value for name, value in reported.items() if value}
