"""What is written and read beside a pod, when the disk is full, files are damaged and clocks are wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from fairpool.agent import exit_record, job_reports, main_process, pod_directory, process_table, stop_notice
from fairpool.agent.durable import write_durably
from fairpool.agent.exit_record import ExitRecord
from fairpool.agent.garbage_collection import GarbageCollector
from fairpool.agent.log_segments import LogWriter, log_end, offset_since, read_from, times
from fairpool.agent.order_file import StoredOrder, read_order, write_order
from fairpool.agent.pod_directory import ShimProcess
from fairpool.agent.state_directory import StateDirectory
from fairpool.agent.tombstones import Tombstones
from fairpool.model.ids import PodId
from tests.contracts.harness import start_order

JUNK = [
    b"",
    b"x",
    b"\0\0\0\0",
    b"[]",
    b"{",
    b"\xff\xfe",
    b'{"code": "x", "words": 1}',
    b'{"grace_s": []}',
    b"9" * 300_000,
]


# --- writing


@pytest.fixture
def kernel_that_takes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data[:7])))


@pytest.mark.usefixtures("kernel_that_takes_little")
def test_what_the_kernel_takes_in_pieces_is_written_whole(tmp_path: Path) -> None:
    write_durably(tmp_path / "file", b"more than seven bytes")
    assert (tmp_path / "file").read_bytes() == b"more than seven bytes"
    kept = StoredOrder(order=start_order())
    write_order(str(tmp_path), kept)
    assert read_order(str(tmp_path)) == kept
    tombstones = Tombstones(tmp_path / "ended", "boot-1")
    tombstones.add("it has ended before", PodId("a-0-0"))
    tombstones.close()
    again = Tombstones(tmp_path / "ended", "boot-1")
    assert again.words(PodId("a-0-0")) == "it has ended before"
    again.close()


def test_what_cannot_be_written_leaves_the_old_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_durably(tmp_path / "file", b"old")
    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(OSError, match="room"):
        write_durably(tmp_path / "file", b"new")
    monkeypatch.setattr(os, "write", no_room)
    with pytest.raises(OSError, match="room"):
        stop_notice.write(str(tmp_path), 5, "test")
    with pytest.raises(OSError, match="room"):
        write_order(str(tmp_path), StoredOrder(order=start_order()))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def no_room(*_: object, **__: object) -> int:
    raise OSError(28, "no room")


@pytest.mark.parametrize("writer", ["shim", "supervisor"])
def test_an_order_is_on_the_disk_before_the_exit_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    """It is not waited for at the start. After a power cut it alone tells whose end `exit.json` is."""
    flushed, fsync = [], os.fsync

    def flush(handle: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    write_order(str(tmp_path), StoredOrder(order=start_order()))
    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.chdir(tmp_path)
    directory = "." if writer == "shim" else str(tmp_path)
    exit_record.write(directory, ExitRecord(0, "", False), 5)
    assert flushed == [str(tmp_path / "order.json"), str(tmp_path)]
    assert (tmp_path / "exit.json").samefile(tmp_path / "order.json")
    assert read_order(str(tmp_path)) == StoredOrder(order=start_order())


@pytest.mark.parametrize("order", ["none", "long", "a pipe", "a link", "damaged"])
def test_a_pod_ends_whatever_became_of_its_order(tmp_path: Path, order: str) -> None:
    file = tmp_path / "order.json"
    if order == "long":
        file.write_bytes(b" " * exit_record.CONTENT_MAX)
    elif order == "a pipe":
        os.mkfifo(file)
    elif order == "a link":
        (tmp_path / "else").touch()
        file.symlink_to(tmp_path / "else")
    elif order == "damaged":
        file.write_bytes(b"{\n{")
    exit_record.write(str(tmp_path), ExitRecord(3, "it failed", False), 5)
    found = exit_record.read(str(tmp_path))
    assert found is not None
    assert (found.code, found.words) == (3, "it failed")
    assert order != "a link" or (tmp_path / "else").read_bytes() == b""


def test_an_end_that_was_cut_off_is_written_again(tmp_path: Path) -> None:
    write_order(str(tmp_path), StoredOrder(order=start_order()))
    with (tmp_path / "order.json").open("ab") as file:
        file.write(b'\n{"code": 1')  # and then the disk was full, or the shim was killed
    assert exit_record.read(str(tmp_path)) is None
    exit_record.write(str(tmp_path), ExitRecord(0, "", True), 5)
    found = exit_record.read(str(tmp_path))
    assert found is not None
    assert (found.code, found.after_notice) == (0, True)
    assert read_order(str(tmp_path)) == StoredOrder(order=start_order())


def test_an_end_stays_readable_when_a_second_writer_is_cut_off(tmp_path: Path) -> None:
    write_order(str(tmp_path), StoredOrder(order=start_order()))
    exit_record.write(str(tmp_path), ExitRecord(7, "", False), 5)
    for junk in (b'\n{"code": 1', b"\n", b"\n[]"):
        with (tmp_path / "order.json").open("ab") as file:
            file.write(junk)
        found = exit_record.read(str(tmp_path))
        assert found is not None
        assert (found.code, found.words) == (7, "")
    exit_record.write(str(tmp_path), ExitRecord(137, "killed", True), 6)
    found = exit_record.read(str(tmp_path))
    assert found is not None
    assert found.code == 137


def test_a_pod_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """Its shim outlives an upgrade of the server: the namespace has a link, the exit record a file of its own."""
    (tmp_path / "shim.0").symlink_to("1.2.3")
    (tmp_path / "main.12.34.56").touch()
    (tmp_path / "ns").symlink_to("4026532000")
    files = pod_directory.read_files(str(tmp_path))
    assert (files.main, files.running_since, files.namespace) == ((12, 34), 56, 4026532000)
    (tmp_path / "exit.json").write_text('{"code": 7, "words": "", "at": 5, "after_notice": false}')
    found = exit_record.read(str(tmp_path))
    assert found is not None
    assert found.code == 7


@pytest.mark.parametrize(
    ("reported", "grace_s"),
    [
        pytest.param([5], 5, id="once"),
        pytest.param([5, 60], 5, id="a longer one does not count"),
        pytest.param([60, 5], 5, id="a shorter one replaces it"),
        pytest.param([60, 0, 5], 0, id="never longer again"),
    ],
)
def test_of_several_notices_the_shortest_grace_counts(tmp_path: Path, reported: list[int], grace_s: int) -> None:
    for each in reported:
        stop_notice.write(str(tmp_path), each, "test")
    assert json.loads((tmp_path / "stop.json").read_bytes())["grace_s"] == grace_s


# --- reading


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: repr(junk[:20]))
def test_what_cannot_be_read_counts_as_not_written(tmp_path: Path, junk: bytes) -> None:
    folder = str(tmp_path)
    for name in ("exit.json", "stop.json", "reports.json", "order.json", "log.x", "log.", "log.0"):
        (tmp_path / name).write_bytes(junk)
    for name in ("main.", "main.x", "main.1.2", "main.1.2.x", "main.1.2.3.4.5", "main.-1.2.3"):
        (tmp_path / name).touch()
    for name in ("shim.0", "main"):
        (tmp_path / name).symlink_to(junk[:50].decode("ascii", "replace").replace("\0", "?") or "?")
    assert exit_record.read(folder) is None
    assert isinstance(job_reports._content(f"{folder}/reports.json"), dict)
    assert read_order(folder) is None
    files = pod_directory.read_files(folder)
    assert (files.has_stop_notice, files.shim, files.running_since) == (True, ShimProcess(0, 0, 0), None)
    assert files.shim is not None
    assert not files.shim.is_alive
    assert pod_directory.main_of(folder) is None
    assert not pod_directory.is_copied(folder)
    assert log_end(folder) == len(junk)
    stop_notice.write(folder, 3, "test")
    reported = json.loads((tmp_path / "stop.json").read_bytes())
    assert (reported["grace_s"], reported["reason"]) == (3, "test")


def test_nothing_is_waited_for_that_is_no_file(tmp_path: Path) -> None:
    for name in ("exit.json", "reports.json"):
        os.mkfifo(tmp_path / name)
    assert exit_record.read(str(tmp_path)) is None
    assert job_reports._content(str(tmp_path / "reports.json")) == {}


@pytest.mark.parametrize("way", ["a name", "a link"])
def test_which_process_the_program_is_is_read_beside_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    (tmp_path / "shim.0").symlink_to("1.2.3")
    (tmp_path / "main.0.x").touch()
    monkeypatch.chdir(tmp_path)
    if way == "a link":  # where nothing can have two names, and as earlier versions did
        monkeypatch.setattr(os, "link", no_room)
    main_process.record("12.34.56.78", "shim.0")
    assert main_process.recorded(str(tmp_path)) == (12, 34, 56, 78)
    files = pod_directory.read_files(str(tmp_path))
    assert (files.running_since, files.namespace) == (56, 78)
    assert (tmp_path / "main").is_symlink() == (way == "a link")
    with pytest.raises(FileExistsError):
        main_process.record("12.34.56.78", "shim.0")


def test_an_end_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    exit_record.write(str(tmp_path), ExitRecord(137, "its shims were killed", True), 5)
    found = exit_record.read(str(tmp_path))
    assert found is not None
    assert (found.code, found.words, found.after_notice) == (137, "its shims were killed", True)


# --- the log


def test_a_log_that_cannot_go_on_loses_output_and_nothing_else(tmp_path: Path) -> None:
    log = LogWriter(str(tmp_path), 10, 3)
    (tmp_path / "times.10").mkdir()
    log.write(b"0123456789", 1000)
    log.write(b"lost", 1100)
    (tmp_path / "times.10").rmdir()
    log.write(b"kept", 1200)
    log.close()
    assert read_from(str(tmp_path), 0, 100) == (0, b"0123456789kept")


def test_a_log_that_cannot_be_opened_is_opened_when_it_can(tmp_path: Path) -> None:
    (tmp_path / "log.0").mkdir()
    log = LogWriter(str(tmp_path), 10, 3)
    log.write(b"lost", 1000)
    (tmp_path / "log.0").rmdir()
    log.write(b"kept", 1100)
    log.close()
    assert read_from(str(tmp_path), 0, 100) == (0, b"kept")


def test_output_has_a_time_also_after_the_clock_was_set_back(tmp_path: Path) -> None:
    log = LogWriter(str(tmp_path), 100, 3)
    log.write(b"before ", 1_000_000)
    log.write(b"after ", 5000)
    log.write(b"later", 9000)
    log.close()
    # What came before the clock was set back has a later time, so the question is asked of the rest.
    assert log_end(str(tmp_path)) == 18
    assert [at for _, at in times(str(tmp_path))] == [1_000_000, 5000, 9000]
    assert offset_since(str(tmp_path), 2_000_000) == 18


def test_too_much_output_of_forgotten_pods_goes_oldest_first(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    for age, name in enumerate(["newest", "middle", "oldest"]):
        (data.logs / name).mkdir()
        (data.logs / name / "log.0").write_bytes(bytes(100_000))
        os.utime(data.logs / name, ns=(10**18 - age * 10**9, 10**18 - age * 10**9))
    GarbageCollector(data).prune_logs(kept_bytes=250_000)
    assert {path.name for path in data.logs.iterdir()} == {"newest", "middle"}
    GarbageCollector(data).prune_logs(kept_bytes=10)
    assert {path.name for path in data.logs.iterdir()} == {"newest"}, "what was said last can always be read"


# --- who is signalled


def test_a_process_that_reuses_a_pid_is_not_signalled() -> None:
    innocent = subprocess.Popen(["sleep", "1000"])
    try:
        started = process_table.start_time(innocent.pid)
        assert started is not None
        for wrong in (started - 1, started + 1):
            is_it = partial(process_table.is_alive, started=wrong)
            process_table.send(innocent.pid, signal.SIGKILL, only_if=is_it)
        assert process_table.pod_processes("no-such-mark", {innocent.pid: started - 1}) == {}
        assert process_table.start_time(innocent.pid) == started
        process_table.send(innocent.pid, signal.SIGKILL, only_if=partial(process_table.is_alive, started=started))
        assert innocent.wait() == -signal.SIGKILL
    finally:
        innocent.kill()
        innocent.wait()
