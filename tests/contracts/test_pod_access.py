"""What access to pods promises the control plane, of this machine and through a tunnel: one suite for both."""

from __future__ import annotations

import asyncio
import io
import json
import os
import tarfile
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fairpool.api.shell import Channel, Frame, size
from fairpool.control.pod_access import LogRange, PodAccess, PodAccessError, PodAddress, ShellSession
from fairpool.model.ids import Instant, PodId
from fairpool.model.upload import Bounds, Upload
from fairpool.platform.local_pod_access import LocalPodAccess
from tests.control.tunnel_harness import TIMEOUT_S, TunnelControl, tunnel_control
from tests.local_machine import Machine, a_machine
from tests.pod_programs import UPPERCASE_SERVER

pytestmark = pytest.mark.slow

T = TypeVar("T")
EVERYTHING = LogRange()
UPLOAD = "019a8b3c-0000-7000-8000-000000000001"


@dataclass
class Harness:
    """A machine with pods, and one way to reach them."""

    machine: Machine
    access: PodAccess
    control: TunnelControl | None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(TIMEOUT_S):
                return await work

        return asyncio.run(bounded()) if self.control is None else self.control.call(bounded())

    def address(self, pod: PodId) -> PodAddress:
        return PodAddress("local", pod, "dgx1-1", "w")

    def log(self, pod: PodId, wanted: LogRange = EVERYTHING, *, follow: bool = False) -> bytes:
        async def read() -> bytes:
            pieces = self.access.read_log(self.address(pod), wanted, follow=follow)
            return b"".join([piece.data async for piece in pieces])

        return self.run(read())


@pytest.fixture(params=["local", "tunnel"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    with ExitStack() as stack:
        machine = stack.enter_context(a_machine(tmp_path / "machine"))
        local = LocalPodAccess(machine.engine.supervisor)
        stack.callback(local.close)
        if request.param == "local":
            yield Harness(machine, local, None)
        else:
            control = stack.enter_context(tunnel_control(tmp_path / "control"))
            control.join(local)
            yield Harness(machine, control.pods(), control)


def test_a_log_is_read_from_any_offset_tailed_and_stamped(harness: Harness) -> None:
    machine = harness.machine
    pod = machine.start(machine.order("a", "sh", "-c", "for n in 1 2 3 4; do echo line $n; done"))
    machine.until_exited(pod)
    whole = b"line 1\nline 2\nline 3\nline 4\n"
    assert harness.log(pod) == whole
    assert harness.log(pod, LogRange(offset=7)) == whole[7:]
    assert harness.log(pod, LogRange(tail=2)) == b"line 3\nline 4\n"
    assert harness.log(pod, LogRange(since=Instant(1 << 50))) == b""
    stamped = harness.log(pod, LogRange(timestamps=True)).splitlines()
    assert [line[25:] for line in stamped] == whole.splitlines()
    assert all(line.startswith(b"20") and line[23:25] == b"Z " for line in stamped)


def test_a_log_is_followed_until_the_pod_ends(harness: Harness) -> None:
    machine = harness.machine
    pod = machine.start(machine.order("a", "sh", "-c", "echo one; sleep 0.5; echo two; sleep 0.5; echo three"))
    assert harness.log(pod, follow=True) == b"one\ntwo\nthree\n"


def test_from_the_offset_after_each_piece_the_log_goes_on_without_gap_or_repeat(harness: Harness) -> None:
    """The promise on which a follower's place rests, with timestamps and lines longer than a piece."""
    machine = harness.machine
    program = "import sys\nfor n in range(3000): print(n, 'x' * (n % 300))\nprint('y' * 300_000)\nprint('end')"
    pod = machine.start(machine.order("a", "python", "-c", program))
    machine.until_exited(pod)

    async def pieces(wanted: LogRange) -> list[tuple[bytes, int]]:
        found = harness.access.read_log(harness.address(pod), wanted, follow=False)
        return [(piece.data, piece.next_offset) async for piece in found]

    whole = harness.run(pieces(EVERYTHING))
    assert len(whole) > 5
    text = b"".join(data for data, _ in whole)
    assert len(text) == whole[-1][1]
    stamped = harness.run(pieces(LogRange(timestamps=True)))
    stamped_text = b"".join(data for data, _ in stamped)
    at = 0
    for data, offset in stamped[:6]:
        at += len(data)
        rest = harness.run(pieces(LogRange(offset=offset, timestamps=True)))
        assert b"".join(each for each, _ in rest) == stamped_text[at:], offset
    at = 0
    for data, offset in whole:
        at += len(data)
        assert offset == at
        assert harness.log(pod, LogRange(offset=offset)) == text[at:]


def test_a_pod_that_is_not_there_has_no_log_shell_or_port(harness: Harness) -> None:
    ghost = PodId("nothing-0-0")
    for work in (
        harness.access.open_shell(harness.address(ghost), ("true",), False),
        harness.access.open_shell(harness.address(ghost), (), False),
        harness.access.open_port(harness.address(ghost), 8888),
    ):
        with pytest.raises(PodAccessError):
            harness.run(work)
    with pytest.raises(PodAccessError) as refusal:
        harness.log(ghost)
    assert refusal.value.problem.code == "pod.unknown"
    assert harness.run(harness.access.reports(harness.address(ghost))) == {}


async def _until_ended(shell: ShellSession) -> tuple[bytes, bytes, dict[str, Any]]:
    out = {Channel.OUTPUT: b"", Channel.ERRORS: b""}
    how: dict[str, Any] = {}
    while (frame := await shell.receive()) is not None:
        if frame.channel is Channel.ENDED:
            how = json.loads(frame.data)
        else:
            out[frame.channel] += frame.data
    await shell.close()
    return out[Channel.OUTPUT], out[Channel.ERRORS], how


def test_a_command_has_its_input_output_errors_and_exit_code(harness: Harness) -> None:
    pod = harness.machine.up("a", "sleep", "infinity")

    async def work() -> tuple[bytes, bytes, dict[str, Any]]:
        command = ("sh", "-c", "cat; echo oops >&2; exit 3")
        shell = await harness.access.open_shell(harness.address(pod), command, False)
        await shell.send(Frame(Channel.INPUT, b"typed"))
        await shell.send(Frame(Channel.CLOSE, bytes([Channel.INPUT])))
        return await _until_ended(shell)

    out, errors, how = harness.run(work())
    assert (out, errors, how["exitCode"]) == (b"typed", b"oops\n", 3)


def test_a_terminal_is_resized(harness: Harness) -> None:
    pod = harness.machine.up("a", "sleep", "infinity")

    async def work() -> bytes:
        command = ("sh", "-c", "read line; stty size")
        shell = await harness.access.open_shell(harness.address(pod), command, True)
        await shell.send(size(columns=123, rows=45))
        await shell.send(Frame(Channel.INPUT, b"go\n"))
        return (await _until_ended(shell))[0]

    assert b"45 123" in harness.run(work())


def test_much_input_and_output_passes_through_a_command_unchanged(harness: Harness) -> None:
    pod = harness.machine.up("a", "sleep", "infinity")
    data = os.urandom(3_000_000)

    async def work() -> tuple[bytes, bytes, dict[str, Any]]:
        shell = await harness.access.open_shell(harness.address(pod), ("cat",), False)

        async def feed() -> None:
            await shell.send(Frame(Channel.INPUT, data))
            await shell.send(Frame(Channel.CLOSE, bytes([Channel.INPUT])))

        feeding = asyncio.create_task(feed())
        done = await _until_ended(shell)
        await feeding
        return done

    out, _, how = harness.run(work())
    assert out == data
    assert how["exitCode"] == 0


def test_a_command_ends_when_its_session_is_closed(harness: Harness) -> None:
    pod = harness.machine.up("a", "sleep", "infinity")
    mark = harness.machine.shared / "ran-on"
    sleeping = f"sleep {3600 + os.getpid()}"  # other tests on this machine have sleepers too

    async def work() -> None:
        command = ("sh", "-c", f"echo ready; {sleeping}; touch {mark}")
        shell = await harness.access.open_shell(harness.address(pod), command, False)
        assert await shell.receive() == Frame(Channel.OUTPUT, b"ready\n")
        await shell.close()
        await shell.close()

    harness.run(work())
    supervisor = harness.machine.engine.supervisor
    harness.machine.until(lambda: not _runs(supervisor, sleeping), "the command ends")
    assert not mark.exists()


def _runs(supervisor: Any, words: str) -> bool:
    found = [Path(f"/proc/{each}/cmdline") for each in os.listdir("/proc") if each.isdigit()]
    lines = []
    for each in found:
        try:
            lines.append(each.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return any(line.startswith(words) for line in lines)


def test_a_client_attaches_to_the_program_and_detaches_without_ending_it(harness: Harness) -> None:
    program = "echo started; while read line; do echo got $line; done; sleep infinity"
    pod = harness.machine.up("a", "sh", "-c", program, stdin=True)

    async def work() -> bytes:
        shell = await harness.access.open_shell(harness.address(pod), (), False)
        await shell.send(Frame(Channel.INPUT, b"hello\n"))
        seen = b""
        while b"got hello" not in seen:
            frame = await shell.receive()
            assert frame is not None
            seen += frame.data
        await shell.close()
        return seen

    assert b"started" in harness.run(work())
    assert harness.machine.see(pod).state == "running"


def test_bytes_pass_both_ways_through_a_port_of_the_pod(harness: Harness) -> None:
    pod = harness.machine.up("a", "python", "-c", UPPERCASE_SERVER)
    harness.machine.until(lambda: harness.log(pod).endswith(b"\n"), "it listens")
    port = int(harness.log(pod))
    data = b"abc" * 500_000

    async def work() -> bytes:
        connection = await harness.access.open_port(harness.address(pod), port)

        async def feed() -> None:
            for start in range(0, len(data), 60_000):
                await connection.send(data[start : start + 60_000])
            await connection.end()

        feeding = asyncio.create_task(feed())
        parts = []
        while (piece := await connection.receive()) is not None:
            parts.append(piece)
        await feeding
        await connection.close()
        await connection.close()
        return b"".join(parts)

    assert harness.run(work()) == data.upper()


def test_a_port_of_another_process_on_the_machine_is_refused(harness: Harness) -> None:
    """Pods share the machine's network: otherwise every server on it could be reached, the platform's own included."""
    mine = harness.machine.up("a", "sleep", "infinity")
    other = harness.machine.up("b", "python", "-c", UPPERCASE_SERVER, devices=(1,))
    harness.machine.until(lambda: harness.log(other).endswith(b"\n"), "it listens")
    with pytest.raises(PodAccessError) as refusal:
        harness.run(harness.access.open_port(harness.address(mine), int(harness.log(other))))
    assert refusal.value.problem.code == "pod.port_closed"


def test_a_folder_is_uploaded_in_pieces_and_removed(harness: Harness) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        content = os.urandom(1_500_000)
        member = tarfile.TarInfo("train.py")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    data, access = packed.getvalue(), harness.access
    upload = Upload(id=UPLOAD, owner="ann", project="team-a", size_bytes=len(data))
    bounds = Bounds(size_bytes=1 << 24, files=10, total_bytes=1 << 30)

    async def work() -> None:
        await access.begin_upload(upload, bounds.total_bytes)
        half = len(data) // 2
        assert await access.write_upload(UPLOAD, 0, data[:half]) == half
        with pytest.raises(PodAccessError) as refusal:
            await access.write_upload(UPLOAD, half + 9, b"x")
        assert refusal.value.problem.code == "upload.gap"
        assert await access.write_upload(UPLOAD, half, data[half:]) == len(data)
        done = await access.finish_upload(UPLOAD, bounds)
        assert (done.is_complete, done.files, done.size_bytes) == (True, 1, 1_500_000)
        found = await access.claim_upload(UPLOAD)
        assert found is not None
        assert (found.owner, found.project) == ("ann", "team-a")
        assert [each.id for each in await access.uploads()] == [UPLOAD]
        await access.remove_upload(UPLOAD)
        await access.remove_upload(UPLOAD)
        assert await access.claim_upload(UPLOAD) is None
        await access.set_aside_claims("team-a", "team-a.1")
        await access.remove_claim("team-a", "data")

    harness.run(work())
