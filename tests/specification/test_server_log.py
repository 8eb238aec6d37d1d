"""The server's log: a line for each thing, with names, without control characters, bounded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairpool.api.exposition import registry_text
from fairpool.cluster.history import Event, EventKind
from fairpool.control.measures import Measures
from fairpool.control.request_log import RequestLog
from fairpool.model.ids import Instant, NodeName, PodId, WorkloadId
from fairpool.model.pod_record import Outcome
from fairpool.platform import server_log
from fairpool.platform.loop_thread import note_event
from fairpool.platform.server_log import LogFile
from tests.pod_records import spec


@pytest.fixture
def written(tmp_path: Path) -> Iterator[LogFile]:
    handler = LogFile(tmp_path / "fairpool.log")
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield handler
    root.removeHandler(handler)
    root.setLevel(before)
    handler.close()


def lines(handler: LogFile) -> list[str]:
    handler.flush()
    path = Path(handler.baseFilename)
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


log = logging.getLogger("fairpool.control")


def test_a_line_says_what_and_whom_it_concerns(written: LogFile) -> None:
    log.info("workload create", extra={"fields": {"name": "train", "by": "ada@example.com", "none": None}})
    (line,) = lines(written)
    assert line.endswith("Z info control MainThread  workload create  name=train by=ada@example.com")


def test_nothing_that_a_user_writes_breaks_a_line_or_a_terminal(written: LogFile) -> None:
    hostile = 'a\nb\r\x1b[31m\u202e"c'
    log.info("project create", extra={"fields": {"name": hostile}})
    log.info("words with %s", hostile)
    log.info("long", extra={"fields": {"name": "x" * 100_000}})
    first, second, third = lines(written)
    assert first.endswith(r'name="a\nb\r\x1b[31m\u202e\"c"')
    assert all(line.isprintable() for line in (first, second, third))
    assert len(third) < 1000


def test_a_trace_is_on_the_line_of_its_error(written: LogFile) -> None:
    try:
        raise LookupError("x")
    except LookupError:
        log.exception("it broke")
    (line,) = lines(written)
    assert "it broke | Traceback" in line
    assert line.endswith("LookupError: x")


def test_a_burst_of_equal_lines_is_counted_and_errors_are_not_left_out(written: LogFile) -> None:
    for number in range(server_log.LINES_A_SECOND * 30):
        record = log.makeRecord(log.name, logging.INFO, "", 0, "workload create", (), None)
        record.created = 1_800_000_000.0
        record.fields = {"name": f"w-{number}"}
        log.handle(record)
    for _ in range(server_log.LINES_A_SECOND + 5):
        record = log.makeRecord(log.name, logging.ERROR, "", 0, "request failed", (), None)
        record.created = 1_800_000_000.5
        log.handle(record)
    log.info("next")
    found = lines(written)
    assert sum("  workload create  " in line for line in found) == server_log.LINES_A_SECOND
    assert sum("request failed" in line for line in found) >= server_log.LINES_A_SECOND + 5
    assert any(
        f"workload create: further lines dropped  left_out={server_log.LINES_A_SECOND * 29}" in line for line in found
    )


def test_it_does_not_grow_for_ever(written: LogFile, tmp_path: Path) -> None:
    written.maxBytes = 10_000
    for number in range(2000):
        log.error("trouble %d", number, extra={"fields": {"words": "x" * 100}})
    lines(written)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert len(files) == server_log.FILES
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= server_log.FILES * 10_000 + 1000


def test_what_the_loop_wrote_down_is_logged_with_names(written: LogFile) -> None:
    ended = Event(
        at=Instant(0),
        kind=EventKind.ENDED,
        workload=WorkloadId("w"),
        pod=PodId("w-0-0"),
        node=NodeName("dgx1-1"),
        cause="exited",
        detail="exit code 3",
        outcome=Outcome.ERROR,
        exit_code=3,
    )
    note_event(ended, spec(name="train"))
    note_event(
        Event(at=Instant(0), kind=EventKind.RELEASING, workload=WorkloadId("w"), cause="preempted", detail="for b"),
        None,
    )
    note_event(Event(at=Instant(0), kind=EventKind.CREATED, workload=WorkloadId("w")), None)
    failed, evicted = lines(written)
    assert "warning cluster" in failed
    assert "pod failed  workload=train" in failed
    assert 'exit_code=3 detail="exit code 3"' in failed
    assert 'pod evicted  id=w cause=preempted detail="for b"' in evicted


@pytest.mark.parametrize(("status", "words"), [(200, ""), (404, ""), (500, "request failed"), (507, "request failed")])
def test_requests_that_failed_are_logged_without_their_query(written: LogFile, status: int, words: str) -> None:
    async def app(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": status})  # type: ignore[operator]

    async def nothing(*_: object) -> None:
        return None

    scope = {"type": "http", "method": "GET", "path": "/x", "query_string": b"token=s3cret", "client": ("10.0.0.1", 1)}
    measures = Measures("control", lambda: ())
    asyncio.run(RequestLog(app, measures)(scope, nothing, nothing))  # type: ignore[arg-type]
    found = lines(written)
    assert [words in line for line in found] == ([True] if words else [])
    assert not any("s3cret" in line for line in found)
    counted = f'fairpool_http_requests_total{{method="GET",route="none",status="{status}"}} 1.0'
    assert counted in registry_text(measures.registry)
