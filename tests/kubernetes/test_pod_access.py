"""Logs of pods on Kubernetes as the control plane asks for them: whole, in parts, and over connections that break.

Shells and ports of real pods are in `test_on_real_nodes.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fairpool.control.pod_access import LogPiece, LogRange, PodAccessError, PodAddress
from fairpool.engines.kubernetes import pod_output
from fairpool.engines.kubernetes.credentials import ApiServer
from fairpool.engines.kubernetes.engine import PodPlace
from fairpool.engines.kubernetes.failures import EquipmentMissing
from fairpool.engines.kubernetes.pod_output import SavedOutput
from fairpool.model.ids import Instant, PodId, WorkloadId
from fairpool.platform import kubernetes_pod_access
from fairpool.platform.kubernetes_pod_access import KubernetesPodAccess, nanoseconds
from tests.kubernetes.event_loop import within
from tests.kubernetes.faulty_server import FaultyAnswer, SeenRequest, faulty_server, with_token

LIMIT_S = 20.0
POD = PodAddress("east", "job-0-0", "n1", "job")
FIRST_S = 1_800_000_000
LINES = [f"2027-01-15T08:00:{number:02}.5Z line {number}\n".encode() for number in range(6)]
"""Half a second after 1800000000, and so on."""


@dataclass
class Kubelet:
    """A pod that writes a line each second."""

    lines: list[bytes] = field(default_factory=lambda: list(LINES))
    has_started: bool = True
    has_ended: bool = True
    cut_after: int | None = None
    """Of the next answer: the connection breaks after so many lines."""

    async def answer(self, request: SeenRequest, answer: FaultyAnswer) -> None:
        if not request.path.endswith("/log"):
            await answer.says({"status": {"phase": "Succeeded" if self.has_ended else "Running"}})
        elif not self.has_started:
            self.has_started = True
            await answer.refuses(400, "container main is waiting to start: ContainerCreating")
        else:
            await self._log(request, answer)

    async def _log(self, request: SeenRequest, answer: FaultyAnswer) -> None:
        since = nanoseconds(request.query["sinceTime"]) if "sinceTime" in request.query else 0
        found = [each for each in self.lines if (nanoseconds(each.split()[0].decode()) or 0) >= (since or 0)]
        found = found[-int(request.query["tailLines"]) :] if "tailLines" in request.query else found
        await answer.streams()
        for number, line in enumerate(found):
            if number == self.cut_after:
                self.cut_after = None
                answer.is_cut_off()
                return
            await answer.chunk(line[:10])  # a line may come in parts
            await answer.chunk(line[10:])
        self.has_ended = True
        await answer.ends()


@asynccontextmanager
async def access_to(
    kubelet: Kubelet, place: PodPlace | None, saved: SavedOutput | None = None
) -> AsyncIterator[KubernetesPodAccess]:
    async def remove_claim(project: str, name: str) -> None:
        raise EquipmentMissing(f"{project} has no claim {name} of ours")

    async with faulty_server(kubelet.answer) as server:
        api = ApiServer(server.address, with_token("secret"))
        read_saved = saved.read if saved is not None else lambda pod: None
        access = KubernetesPodAccess(api, lambda pod: place, remove_claim, saved=read_saved)
        try:
            yield access
        finally:
            await access.close()


PLACE = PodPlace("runai-team-a", "job-0-0", "uid")


async def read(kubelet: Kubelet, wanted: LogRange, *, follow: bool = False) -> list[LogPiece]:
    async with access_to(kubelet, PLACE) as access:
        return [each async for each in access.read_log(POD, wanted, follow=follow)]


def text(pieces: list[LogPiece]) -> bytes:
    return b"".join(each.data for each in pieces)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(LogRange(), "line 0,line 1,line 2,line 3,line 4,line 5", id="all"),
        pytest.param(LogRange(tail=2), "line 4,line 5", id="the last lines"),
        pytest.param(LogRange(since=Instant((FIRST_S + 3) * 1000)), "line 3,line 4,line 5", id="since a moment"),
        pytest.param(LogRange(since=Instant((FIRST_S + 3) * 1000 + 501)), "line 4,line 5", id="finer than a second"),
        pytest.param(LogRange(tail=5, since=Instant((FIRST_S + 4) * 1000)), "line 4,line 5", id="the later of both"),
        pytest.param(LogRange(offset=9), "ne 1,line 2,line 3,line 4,line 5", id="bytes that a person wants to skip"),
    ],
)
def test_a_part_of_a_log(wanted: LogRange, expected: str) -> None:
    @within(LIMIT_S)
    async def played() -> None:
        assert text(await read(Kubelet(), wanted)) == (expected.replace(",", "\n") + "\n").encode()

    played()


@within(LIMIT_S)
async def test_reading_goes_on_after_any_piece() -> None:
    whole = await read(Kubelet(), LogRange())
    for number, piece in enumerate(whole):
        rest = await read(Kubelet(), LogRange(offset=piece.next_offset))
        assert text(rest) == text(whole[number + 1 :])


@within(LIMIT_S)
async def test_timestamps_are_shown_on_request() -> None:
    assert text(await read(Kubelet(), LogRange(timestamps=True, tail=1))) == LINES[-1]


@within(LIMIT_S)
async def test_a_log_that_is_followed_survives_a_start_that_takes_a_while_and_a_connection_that_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kubernetes_pod_access, "RETRY_S", 0.01)
    kubelet = Kubelet(has_started=False, has_ended=False, cut_after=3)
    assert text(await read(kubelet, LogRange(), follow=True)) == text(await read(Kubelet(), LogRange()))


@within(LIMIT_S)
async def test_a_pod_that_has_not_started_has_an_empty_log() -> None:
    assert await read(Kubelet(has_started=False), LogRange()) == []


@within(LIMIT_S)
async def test_a_connection_that_breaks_is_reported_to_one_who_does_not_follow() -> None:
    with pytest.raises(PodAccessError, match="does not respond"):
        await read(Kubelet(cut_after=3), LogRange())


@within(LIMIT_S)
async def test_a_long_line_comes_in_pieces_of_which_none_claims_more_than_was_read() -> None:
    line = b"2027-01-15T08:00:09Z " + b"x" * 200_000 + b"\n"
    pieces = await read(Kubelet([*LINES, line]), LogRange())
    assert len(text(pieces)) == len(LINES) * 7 + 200_001
    long = [each for each in pieces if each.data.startswith(b"x")]
    assert len(long) > 1
    rest = await read(Kubelet([*LINES, line]), LogRange(offset=long[0].next_offset))
    assert text(rest) == line[21:], "cut off in the middle of a line, it is read again"


@within(LIMIT_S)
async def test_what_cannot_be_is_refused_by_name() -> None:
    async with access_to(Kubelet(), None) as access:
        with pytest.raises(PodAccessError, match="has no log in this cluster"):
            await anext(access.read_log(POD, LogRange(), follow=False))
        with pytest.raises(PodAccessError, match="cannot be removed"):
            await access.remove_claim("team-a", "data")
        with pytest.raises(PodAccessError, match="cannot be uploaded"):
            await access.write_upload("id", 0, b"")
        assert await access.uploads() == []
        assert await access.reports(POD) == {}


@within(LIMIT_S)
async def test_what_was_saved_of_a_pod_that_is_gone_is_read_like_a_log(tmp_path: Path) -> None:
    saved = SavedOutput(tmp_path)
    saved.write(WorkloadId("job"), PodId("job-0-0"), b"".join(LINES))
    again = SavedOutput(tmp_path)  # another process
    async with access_to(Kubelet(), None, again) as access:
        whole = [each async for each in access.read_log(POD, LogRange(), follow=True)]
        assert text(whole) == b"".join(each.partition(b" ")[2] for each in LINES)
        rest = [each async for each in access.read_log(POD, LogRange(offset=whole[3].next_offset), follow=False)]
        assert text(rest) == b"line 4\nline 5\n"
        tail = [each async for each in access.read_log(POD, LogRange(tail=2, timestamps=True), follow=False)]
        assert text(tail) == LINES[4] + LINES[5]
        again.forget_all_but(lambda workload: workload != "job")
        with pytest.raises(PodAccessError, match="has no log in this cluster"):
            await anext(access.read_log(POD, LogRange(), follow=False))
    assert not list(tmp_path.iterdir())


def test_only_the_latest_output_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_output, "FILES", 2)
    saved = SavedOutput(tmp_path)
    for number in range(3):
        saved.write(WorkloadId("job"), PodId(f"job-{number}-0"), b"text")
    assert [saved.read(PodId(f"job-{number}-0")) for number in range(3)] == [None, b"text", b"text"]
    saved.forget(PodId("job-1-0"))
    assert saved.read(PodId("job-2-0")) is None, "with all of its workload"


@pytest.mark.parametrize(
    ("said", "moment"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("2027-01-15T08:00:00.000000001Z", FIRST_S * 10**9 + 1),
        ("2027-01-15T08:00:00.5Z", FIRST_S * 10**9 + 500_000_000),
        ("failed", None),
        ("2027-01-15T08:00:00.5", None),
        ("2027-01-15T08:00:00.1234567891Z", None),
        ("", None),
    ],
)
def test_times_of_lines(said: str, moment: int | None) -> None:
    assert nanoseconds(said) == moment


def test_the_place_of_a_pod_is_looked_up_by_its_id() -> None:
    @within(LIMIT_S)
    async def played() -> None:
        asked: list[PodId] = []

        async def nothing(project: str, name: str) -> None:
            """Removes nothing."""

        async with faulty_server(Kubelet().answer) as server:

            def place(pod: PodId) -> PodPlace:
                asked.append(pod)
                return PLACE

            access = KubernetesPodAccess(ApiServer(server.address, with_token("secret")), place, nothing)
            assert [each async for each in access.read_log(POD, LogRange(tail=1), follow=False)]
            await access.close()
        assert asked == ["job-0-0"]
        assert {each.path for each in server.requests} == {"/api/v1/namespaces/runai-team-a/pods/job-0-0/log"}

    played()
