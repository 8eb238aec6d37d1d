"""The tunnel between control plane and clusters: broken links, hostile sides, revoked callers, several clusters."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from fairpool.api import organization as org
from fairpool.api import tunnel as wire
from fairpool.api import workload_spec as work
from fairpool.api.access import AccessRuleRequest, UserRequest
from fairpool.api.client import Client, Refused
from fairpool.api.cluster_client import ClusterClient
from fairpool.api.clusters import PodReport, PushReport, WorkloadReport
from fairpool.api.multiplexer import FRAME_MAX_BYTES, FrameKind, StreamFrame
from fairpool.api.shell import Channel, Frame, ended
from fairpool.control import tunnel
from fairpool.control.app import ClusterIdentity, cluster_identity
from fairpool.control.clusters import add_cluster
from fairpool.control.pod_access import LogPiece, LogRange, PodAccessError, PodAddress, PortStream, ShellSession
from fairpool.control.store import claims as claim_store
from fairpool.control.store.database import Connection
from fairpool.model.ids import Instant, NodeName, PodId, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.problem import Problem
from fairpool.model.status import WorkloadPhase
from fairpool.model.upload import Upload
from fairpool.platform.tunnel_client import tunnel_address
from tests.control.pod_access_fakes import NoUploadAccess
from tests.control.tunnel_harness import TIMEOUT_S, TunnelControl, tunnel_control, until

pytestmark = pytest.mark.slow


class Endless:
    """A shell that prints until it is closed, and repeats what is typed."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self._out: asyncio.Queue[Frame | None] = asyncio.Queue()

    async def send(self, frame: Frame) -> None:
        self._out.put_nowait(ended(7) if frame.channel is Channel.CLOSE else Frame(Channel.OUTPUT, frame.data.upper()))

    async def receive(self) -> Frame | None:
        return await self._out.get()

    async def close(self) -> None:
        self.closed.set()


class EchoPort:
    """A connection that returns what it gets, and ends when its input does."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self._data: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def send(self, data: bytes) -> None:
        self._data.put_nowait(data)

    async def end(self) -> None:
        self._data.put_nowait(None)

    async def receive(self) -> bytes | None:
        return await self._data.get()

    async def close(self) -> None:
        self.closed.set()


@dataclass
class NumberedLines(NoUploadAccess):
    """Pods whose log is the numbers 0, 1, 2, ..., one a line, written as fast as they are read or slower."""

    pause_s: float = 0.001
    stop_at: int = 2**62
    shells: list[Endless] = field(default_factory=list)
    ports: list[EchoPort] = field(default_factory=list)
    readers: int = 0
    opened: int = 0
    name: bytes = b""

    async def read_log(self, pod: PodAddress, wanted: LogRange, *, follow: bool) -> AsyncGenerator[LogPiece]:
        if pod.pod.startswith("gone"):
            raise PodAccessError(Problem("pod.unknown", "it has no log here", "try another"))
        self.readers += 1
        self.opened += 1
        try:
            offset = 0
            for number in count():
                line = self.name + b"%d\n" % number
                if offset + len(line) > wanted.offset:
                    data = line[max(0, wanted.offset - offset) :]
                    yield LogPiece(data, offset + len(line))
                    await asyncio.sleep(self.pause_s)
                offset += len(line)
                if number >= self.stop_at:
                    return
        finally:
            self.readers -= 1

    async def open_shell(self, pod: PodAddress, command: tuple[str, ...], tty: bool) -> ShellSession:
        self.shells.append(Endless())
        return self.shells[-1]

    async def open_port(self, pod: PodAddress, port: int) -> PortStream:
        self.ports.append(EchoPort())
        return self.ports[-1]

    async def reports(self, pod: PodAddress) -> Mapping[str, Any]:
        return {"metrics": {"loss": 0.5}}


POD = PodAddress("c", "pod-0-0", "n1", "w")


@pytest.fixture
def control(tmp_path: Path) -> Iterator[TunnelControl]:
    with tunnel_control(tmp_path) as control:
        yield control


def second_cluster(control: TunnelControl, name: str = "second") -> ClusterIdentity:
    from fairpool.api.nodes import ClusterRequest

    def unit(connection: Connection) -> None:
        add_cluster(control.plane, connection, ClusterRequest(name=name))

    control.call(control.plane.write(unit))
    return control.call(cluster_identity(control.app, name))


# --- broken links --------------------------------------------------------------------------------------------


def test_a_follower_sees_neither_gap_nor_repeat_however_often_the_link_breaks(control: TunnelControl) -> None:
    link, pods = control.link(), NumberedLines(stop_at=3000)
    control.join(pods, link=link)
    seen: list[bytes] = []

    async def follow() -> None:
        async for piece in control.pods().read_log(POD, LogRange(), follow=True):
            seen.append(piece.data)

    following = asyncio.run_coroutine_threadsafe(follow(), control.loop)
    for number in range(5):
        wanted = 250 * (number + 1)
        until(partial(_has_more_than, seen, wanted), "the log comes")
        link.break_once()
    following.result(TIMEOUT_S)
    assert b"".join(seen) == b"".join(b"%d\n" % number for number in range(3001))
    assert pods.opened > 3, "the link was broken while it was read"


def _has_more_than(seen: list[bytes], pieces: int) -> bool:
    return len(seen) > pieces


def test_a_shell_ends_with_a_message_when_the_link_breaks(control: TunnelControl) -> None:
    link, pods = control.link(), NumberedLines()
    control.join(pods, link=link)

    async def converse() -> dict[str, Any]:
        shell = await control.pods().open_shell(POD, ("bash",), False)
        await shell.send(Frame(Channel.INPUT, b"hello"))
        assert await shell.receive() == Frame(Channel.OUTPUT, b"HELLO")
        link.break_once()
        frame = await shell.receive()
        assert frame is not None
        assert await shell.receive() is None
        await shell.send(Frame(Channel.INPUT, b"is dropped"))
        how: dict[str, Any] = json.loads(frame.data)
        return how

    how = control.call(converse())
    assert how["exitCode"] is None
    assert "connection" in how["words"]
    until(pods.shells[0].closed.is_set, "the command in the pod is ended too")


def test_a_cluster_notices_that_the_other_side_is_silent(
    control: TunnelControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "PING_S", 0.3)
    link = control.link()
    client = control.join(NumberedLines(), link=link)
    before = link.connections
    link.freeze()
    until(lambda: not client.is_connected, "it gives the connection up")
    link.break_once()
    link.mend()
    until(lambda: client.is_connected and link.connections > before, "it connects again")


def test_what_is_asked_while_the_cluster_is_away_is_refused_at_once(control: TunnelControl) -> None:
    async def ask() -> list[str]:
        codes = []
        for coming in (control.pods().open_shell(POD, ("bash",), False), control.pods().open_port(POD, 80)):
            try:
                await coming
            except PodAccessError as error:
                codes.append(error.problem.code)
        try:
            await anext(control.pods().read_log(POD, LogRange(), follow=True))
        except PodAccessError as error:
            codes.append(error.problem.code)
        assert await control.pods().reports(POD) == {}
        return codes

    assert control.call(ask()) == ["cluster.away"] * 3


def test_a_cluster_that_accepts_and_says_nothing_is_given_up(
    control: TunnelControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPEN_S", "ANSWER_S", "REPORTS_S"):
        monkeypatch.setattr(tunnel, name, 0.2)
    with speaking(control):
        with pytest.raises(PodAccessError) as refusal:
            control.call(control.pods().open_shell(POD, ("bash",), False))
        assert refusal.value.problem.code == "cluster.silent"
        assert control.call(control.pods().reports(POD)) == {}


def test_the_newest_connection_of_a_cluster_counts(control: TunnelControl) -> None:
    """A cluster whose old connection is dead, unnoticed, must not wait until it is found out."""
    with speaking(control) as old:
        client = control.join(NumberedLines())
        until(lambda: client.is_connected, "the second comes through")
        until(lambda: bool(control.call(control.pods().reports(POD))), "the second is asked")
        with pytest.raises(ConnectionClosed) as closed:
            old.recv(TIMEOUT_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4000


def test_a_client_that_is_stopped_closes_what_it_serves(control: TunnelControl) -> None:
    pods = NumberedLines(pause_s=0.01)
    client = control.join(pods)

    async def begin() -> AsyncGenerator[LogPiece]:
        pieces = control.pods().read_log(POD, LogRange(), follow=True)
        await anext(pieces)
        return pieces

    pieces = control.call(begin())
    assert client.stop(TIMEOUT_S)
    assert pods.readers == 0
    until(lambda: not control.is_connected(control.identity.id), "the control plane notices")

    async def end() -> None:
        await pieces.aclose()

    control.call(end())


def test_a_reader_who_leaves_ends_the_reading_in_the_cluster(control: TunnelControl) -> None:
    pods = NumberedLines()
    control.join(pods)

    async def look() -> None:
        pieces = control.pods().read_log(POD, LogRange(), follow=True)
        await anext(pieces)
        assert pods.readers == 1
        await pieces.aclose()

    control.call(look())
    until(lambda: pods.readers == 0, "the cluster stops reading")


def test_a_reader_who_does_not_read_holds_up_no_other_and_fills_no_memory(control: TunnelControl) -> None:
    pods = NumberedLines(pause_s=0)
    pods.name = b"x" * 1000
    control.join(pods)

    async def look() -> tuple[int, int]:
        slow = control.pods().read_log(POD, LogRange(), follow=True)
        await anext(slow)
        pods.name = b"y"
        quick = control.pods().read_log(POD, LogRange(), follow=True)
        for _ in range(2000):
            await anext(quick)
        connection = control.plane.pod_access.tunnels.here()[control.identity.id]
        held = [sum(map(len, stream._inbox)) for stream in connection._streams.values()]
        await slow.aclose()
        await quick.aclose()
        return max(held), len(held)

    most, streams = control.call(look())
    assert streams == 2
    assert most <= 256 * 1024


# --- several clusters ----------------------------------------------------------------------------------------


def test_each_cluster_answers_for_its_own_pods_only(control: TunnelControl) -> None:
    second = second_cluster(control)
    control.join(NumberedLines(name=b"first "))
    control.join(NumberedLines(name=b"second "), second)

    async def first_line(cluster: str) -> bytes:
        pieces = control.plane.pod_access.of(cluster).read_log(POD, LogRange(), follow=False)
        line = (await anext(pieces)).data
        await pieces.aclose()
        return line

    assert control.call(first_line(control.identity.id)) == b"first 0\n"
    assert control.call(first_line(second.id)) == b"second 0\n"
    assert control.clients[0].stop(TIMEOUT_S)
    until(lambda: not control.is_connected(control.identity.id), "the first is away")
    assert control.call(first_line(second.id)) == b"second 0\n"
    with pytest.raises(PodAccessError):
        control.call(first_line(control.identity.id))


@dataclass
class Claiming(NumberedLines):
    """A cluster that claims to have every upload of a user."""

    upload: Upload | None = None
    written: list[bytes] = field(default_factory=list)
    is_hostile: bool = False

    async def claim_upload(self, upload_id: str) -> Upload | None:
        return self.upload if self.upload is not None and (self.is_hostile or upload_id == self.upload.id) else None

    async def write_upload(self, upload_id: str, offset: int, piece: bytes) -> int:
        self.written.append(piece)
        return offset + len(piece)


def test_no_cluster_can_draw_the_uploads_of_another_to_itself(control: TunnelControl) -> None:
    admin, second = sign_in(control), second_cluster(control)
    admin.create_project(org.ProjectRequest(name="team-a", cluster_id="local"))
    upload = Upload(id="019a8b3c-0000-7000-8000-000000000001", owner=admin.me().id, project="team-a", size_bytes=100)
    honest, hostile = Claiming(upload=upload), Claiming(upload=upload, is_hostile=True)
    control.join(hostile, second)
    with pytest.raises(Refused, match="upload"):
        admin.write_upload(upload.id, 0, b"secret")
    control.join(honest)
    admin.write_upload(upload.id, 0, b"secret")
    assert (honest.written, hostile.written) == ([b"secret"], [])
    admin.close()


@dataclass
class SettingAside(NumberedLines):
    """Notes whose claims are set aside."""

    projects: list[str] = field(default_factory=list)

    async def set_aside_claims(self, project: str, kept_as: str) -> None:
        self.projects.append(project)


def test_a_project_is_made_while_its_cluster_is_away_unless_data_of_an_earlier_one_is_there(
    control: TunnelControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnel, "OPEN_S", 0.1)
    admin, pods = sign_in(control), SettingAside()
    admin.create_project(org.ProjectRequest(name="team-a"))
    claim = claim_store.NewClaim(name="data", size="1G", access_mode="rwo", ephemeral=False)
    noted = partial(claim_store.note, project="team-b", made=[claim], workload="", cluster="", by="ann", now=1)
    control.call(control.plane.write(noted))
    with pytest.raises(Refused, match="away"):
        admin.create_project(org.ProjectRequest(name="team-b"))
    monkeypatch.setattr(tunnel, "OPEN_S", TIMEOUT_S)
    control.join(pods)
    admin.create_project(org.ProjectRequest(name="team-b"))
    assert pods.projects == ["team-b"]
    admin.close()


# --- who may -------------------------------------------------------------------------------------------------


def test_a_tunnel_needs_the_token_of_a_cluster(control: TunnelControl) -> None:
    for token, status in (("", 401), ("fpc_wrong", 401), (sign_in(control).token or "", 403)):
        with pytest.raises(InvalidStatus) as refusal, dial(control, token):
            pass
        assert refusal.value.response.status_code == status


def test_a_tunnel_of_another_version_is_refused_with_both_versions(control: TunnelControl) -> None:
    with pytest.raises(InvalidStatus) as refusal, dial(control, control.identity.token, "v9.tunnel.fairpool"):
        pass
    said = json.loads(refusal.value.response.body or b"")
    assert refusal.value.response.status_code == 400
    assert said["problems"][0]["code"] == "tunnel.version"
    assert "v9.tunnel.fairpool" in said["message"]
    assert "v1.tunnel.fairpool" in said["message"]


def test_the_tunnel_of_a_cluster_ends_within_a_second_of_its_token(control: TunnelControl) -> None:
    pods = NumberedLines()
    client = control.join(pods)

    async def begin() -> AsyncGenerator[LogPiece]:
        pieces = control.pods().read_log(POD, LogRange(), follow=True)
        await anext(pieces)
        return pieces

    pieces = control.call(begin())
    began = time.monotonic()
    control.call(cluster_identity(control.app))  # a new token, which revokes the one before
    until(lambda: not control.is_connected(control.identity.id), "the tunnel is closed")
    until(lambda: pods.readers == 0, "its streams are ended")
    assert time.monotonic() - began < 5, "a second, on a machine that is not busy"
    until(lambda: "401" in client.error, "the old token does not open another")
    control.call(pieces.aclose())


def sign_in(control: TunnelControl) -> Client:
    admin = Client(control.address)
    admin.sign_in("test@run.ai", "password")
    return admin


def running_workload(control: TunnelControl, admin: Client) -> str:
    admin.create_project(org.ProjectRequest(name="team-a"))
    workload = admin.submit(work.SubmitTraining(name="t1", project_id="team-a", spec=work.TrainingSpec(image="i"))).id
    pod = PodReport(id=PodId(f"{workload}-0-0"), index=0, incarnation=0, phase=PodPhase.RUNNING, node=NodeName("n1"))
    level = WorkloadReport(id=WorkloadId(workload), phase=WorkloadPhase.RUNNING, pods=(pod,), since=Instant(1))
    report = PushReport(cluster="local", token=Token(1), number=1, whole=True, at=Instant(1), workloads=(level,))
    cluster = ClusterClient(control.address, control.identity.token)
    assert cluster.push(report).takes(report)
    cluster.close()
    return workload


def test_the_streams_of_a_user_end_when_the_role_is_taken_away(control: TunnelControl) -> None:
    admin = sign_in(control)
    pods = NumberedLines()
    control.join(pods)
    workload = running_workload(control, admin)
    admin.create_user(UserRequest(email="ann@example.com", password="correct horse", need_to_change_password=False))
    rule = admin.create_access_rule(
        AccessRuleRequest(subject_id="ann@example.com", role_id="researcher", scope_id="team-a")
    )
    with Client(control.address) as reading, Client(control.address) as typing:
        for each in (reading, typing):
            each.sign_in("ann@example.com", "correct horse")
        lines = reading.logs(workload, follow=True)
        assert next(lines)
        with typing.shell(workload, ["bash"]) as shell, typing.port(workload, 80) as port:
            port.send(b"ping")
            assert port.receive(TIMEOUT_S) == Frame(Channel.OUTPUT, b"ping")
            shell.send(b"hello")
            assert shell.receive(TIMEOUT_S) == Frame(Channel.OUTPUT, b"HELLO")
            began = time.monotonic()
            admin.delete_access_rule(rule.id)
            for stream in (shell, port):
                last = stream.receive(TIMEOUT_S)
                assert last is not None
                assert last.channel is Channel.ENDED
            assert pods.ports[0].closed.wait(TIMEOUT_S)
            assert b"no longer have permission" in b"".join(lines)
            until(lambda: pods.readers == 0 and pods.shells[0].closed.is_set(), "the cluster ends both")
            assert time.monotonic() - began < 5, "a second, on a machine that is not busy"
    admin.close()


def test_logs_shells_and_metrics_are_the_same_as_in_one_process(control: TunnelControl) -> None:
    admin = sign_in(control)
    control.join(NumberedLines(stop_at=3))
    workload = running_workload(control, admin)
    assert b"".join(admin.logs(workload)) == b"0\n1\n2\n3\n"
    (pod,) = admin.pods(workload)
    assert pod.metrics is not None
    with admin.shell(workload, ["bash"]) as shell:
        shell.send(b"x" * 200_000)
        got = b""
        while len(got) < 200_000:
            frame = shell.receive(TIMEOUT_S)
            assert frame is not None
            got += frame.data
        shell.send_end()
        assert shell.receive(TIMEOUT_S) == ended(7)
    with admin.port(workload, 8888) as port:
        port.send(b"y" * 200_000)
        port.send_end()
        got = b""
        while (frame := port.receive(TIMEOUT_S)) is not None and frame.channel is Channel.OUTPUT:
            got += frame.data
        assert got == b"y" * 200_000
    for wrong in (0, 65_536):
        with pytest.raises(Refused, match="port"), admin.port(workload, wrong):
            pass
    actions = {"open-shell", "close-shell", "open-port", "close-port"}
    until(lambda: actions <= {each.action for each in admin.audit()}, "both ends of both are in the audit log")
    assert control.clients[0].stop(TIMEOUT_S)
    until(lambda: not control.is_connected(control.identity.id), "the cluster is away")
    with pytest.raises(Refused, match="away"):
        list(admin.logs(workload))
    admin.close()


# --- hostile sides -------------------------------------------------------------------------------------------


def dial(
    control: TunnelControl, token: str, version: str = wire.SUBPROTOCOLS[0]
) -> AbstractContextManager[ClientConnection]:
    return connect(
        tunnel_address(control.address),
        additional_headers={"Authorization": f"Bearer {token}"},
        subprotocols=[Subprotocol(version)],
        compression=None,
        open_timeout=TIMEOUT_S,
    )


@contextmanager
def speaking(control: TunnelControl) -> Iterator[ClientConnection]:
    """A cluster that says what a test wants it to say."""
    with dial(control, control.identity.token) as socket:
        until(lambda: control.is_connected(control.identity.id), "it is connected")
        yield socket


def frame(kind: FrameKind, stream: int = 1, data: bytes = b"") -> bytes:
    return StreamFrame(kind, stream, data).encode()


@pytest.mark.parametrize(
    "message",
    [
        pytest.param("text", id="text"),
        pytest.param(b"", id="nothing"),
        pytest.param(frame(FrameKind.DATA, 77, b"for another's pod"), id="a stream that was not opened"),
        pytest.param(frame(FrameKind.OPEN, 1, b"{}"), id="a stream of its own"),
        pytest.param(frame(FrameKind.DATA, 1, bytes(FRAME_MAX_BYTES + 1)), id="oversize"),
        pytest.param(frame(FrameKind.DATA, 1, bytes(17 << 20)), id="much too large"),
    ],
)
def test_a_cluster_that_breaks_the_rules_is_cut_off_with_a_reason(control: TunnelControl, message: str | bytes) -> None:
    second = second_cluster(control)
    control.join(NumberedLines(name=b"second "), second)
    with speaking(control) as hostile:
        with suppress(ConnectionClosed):  # while it is still sending
            hostile.send(message)
        with pytest.raises(ConnectionClosed) as closed:
            hostile.recv(TIMEOUT_S)
        is_large = len(message) > 1 << 20  # the reason may be lost with what was not read
        assert is_large or (closed.value.rcvd is not None and closed.value.rcvd.code == 1002)
        until(lambda: not control.is_connected(control.identity.id), "it is cut off")
    assert control.is_connected(second.id), "another cluster is not affected"


def test_a_cluster_that_sends_more_than_its_credit_is_cut_off_and_its_reader_told(control: TunnelControl) -> None:
    with speaking(control) as hostile:
        reading = asyncio.run_coroutine_threadsafe(
            anext(control.pods().read_log(POD, LogRange(), follow=False)), control.loop
        )
        assert hostile.recv(TIMEOUT_S)
        hostile.send(frame(FrameKind.ACCEPT))
        assert not reading.done()
        flood = frame(FrameKind.DATA, data=bytes(FRAME_MAX_BYTES))
        with suppress(ConnectionClosed):
            for _ in range(10):
                hostile.send(flood)
        until(lambda: not control.is_connected(control.identity.id), "it is cut off")
        assert reading.result(TIMEOUT_S).data, "what came first was within its credit"


@pytest.mark.parametrize("piece", [b"short", b""])
def test_an_unreadable_piece_of_a_log_is_an_error_for_its_reader_only(control: TunnelControl, piece: bytes) -> None:
    with speaking(control) as hostile:
        reading = asyncio.run_coroutine_threadsafe(
            anext(control.pods().read_log(POD, LogRange(), follow=False)), control.loop
        )
        hostile.recv(TIMEOUT_S)
        hostile.send(frame(FrameKind.ACCEPT))
        hostile.send(frame(FrameKind.DATA, data=piece) if piece else frame(FrameKind.CLOSE))
        if piece:
            with pytest.raises(PodAccessError):
                reading.result(TIMEOUT_S)
        else:
            with pytest.raises(StopAsyncIteration):
                reading.result(TIMEOUT_S)
        assert control.is_connected(control.identity.id)


@pytest.mark.parametrize("answer", [b"garbage", b'"text"', b"[[[[", b"null", bytes(100)])
def test_an_answer_of_another_form_is_an_error(control: TunnelControl, answer: bytes) -> None:
    with speaking(control) as hostile:
        asking = asyncio.run_coroutine_threadsafe(control.pods().uploads(), control.loop)
        hostile.recv(TIMEOUT_S)
        for message in (FrameKind.ACCEPT, b""), (FrameKind.DATA, answer), (FrameKind.CLOSE, b""):
            hostile.send(frame(message[0], data=message[1]))
        with pytest.raises(PodAccessError):
            asking.result(TIMEOUT_S)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(Frame(Channel.COMMAND, b'["rm"]').encode(), id="a command for the user"),
        pytest.param(b"\x63what", id="an unknown channel"),
    ],
)
def test_a_shell_from_which_something_else_comes_is_ended(control: TunnelControl, message: bytes) -> None:
    async def open_shell() -> Frame | None:
        shell = await control.pods().open_shell(POD, ("bash",), False)
        return await shell.receive()

    with speaking(control) as hostile:
        coming = asyncio.run_coroutine_threadsafe(open_shell(), control.loop)
        hostile.recv(TIMEOUT_S)
        hostile.send(frame(FrameKind.ACCEPT))
        hostile.send(frame(FrameKind.DATA, data=message))
        got = coming.result(TIMEOUT_S)
        assert got is not None
        assert got.channel is Channel.ENDED


# --- a control plane that sends garbage ----------------------------------------------------------------------


class HostileControl:
    """A server that accepts a tunnel and sends what a test wants."""

    def __init__(self, messages: list[bytes | str]) -> None:
        from websockets.sync.server import serve

        self.heard: list[bytes | str] = []
        self.closes: list[int | None] = []
        self._messages = messages
        self._server = serve(self._talk, "127.0.0.1", 0, subprotocols=[Subprotocol(wire.SUBPROTOCOLS[0])])
        self.address = f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _talk(self, socket: Any) -> None:
        try:
            for message in self._messages:
                socket.send(message)
            while True:
                self.heard.append(socket.recv(TIMEOUT_S))
        except ConnectionClosed as closed:
            self.closes.append(closed.rcvd.code if closed.rcvd is not None else None)

    def close(self) -> None:
        self._server.shutdown()


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        pytest.param(["text"], 1002, id="text"),
        pytest.param([b"\xff"], 1002, id="half a header"),
        pytest.param([frame(FrameKind.DATA, 5, b"x")], 1002, id="a stream that was not opened"),
        pytest.param([frame(FrameKind.OPEN, 1, bytes(2 * FRAME_MAX_BYTES))], 1009, id="oversize"),
        pytest.param([frame(FrameKind.OPEN, 2, b"{}"), frame(FrameKind.OPEN, 1, b"{}")], 1002, id="out of order"),
    ],
)
def test_a_control_plane_that_breaks_the_rules_is_left_with_a_reason(messages: list[bytes | str], code: int) -> None:
    from fairpool.platform.tunnel_client import TunnelClient

    hostile, pods = HostileControl(messages), NumberedLines()
    client = TunnelClient(hostile.address, "t", pods, first_pause_s=0.05)
    client.start()
    try:
        until(lambda: len(hostile.closes) >= 2, "the cluster leaves, comes back and leaves again")
        assert set(hostile.closes) == {code}
        assert pods.opened == 0
    finally:
        client.stop(TIMEOUT_S)
        hostile.close()


@pytest.mark.parametrize("request_text", [b"", b"{}", b'{"kind": "format-disk"}', b'{"kind": "log", "pod": 7}', b"["])
def test_a_request_that_is_not_understood_closes_its_stream_only(request_text: bytes) -> None:
    from fairpool.platform.tunnel_client import TunnelClient

    hostile, pods = HostileControl([frame(FrameKind.OPEN, 1, request_text)]), NumberedLines()
    client = TunnelClient(hostile.address, "t", pods, first_pause_s=0.05)
    client.start()
    try:
        until(lambda: bool(hostile.heard), "an answer comes")
        answer = hostile.heard[0]
        assert isinstance(answer, bytes)
        assert answer[0] == FrameKind.CLOSE
        assert json.loads(answer[5:])["code"] == "tunnel.request"
        assert client.is_connected
    finally:
        client.stop(TIMEOUT_S)
        hostile.close()


def test_a_tunnel_that_waits_for_its_next_try_is_opened_when_the_control_plane_answers_again() -> None:
    from fairpool.platform.tunnel_client import TunnelClient

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = TunnelClient(f"http://127.0.0.1:{port}", "t", NumberedLines(), first_pause_s=1000)
    client.start()
    try:
        until(lambda: client.error != "not connected yet", "it was tried")
        with socket.create_server(("127.0.0.1", port)) as listener:
            listener.settimeout(TIMEOUT_S)
            client.connect_soon()
            listener.accept()[0].close()
    finally:
        client.stop(TIMEOUT_S)
