"""A reserve of disk space: made, scaled, given back; and the pod that fills the disk is found, whatever it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fairpool.agent import disk_reserve, namespaces, process_table
from fairpool.agent.disk_reserve import DiskWatch, Eviction, Reserve, Writer, culprit
from fairpool.cluster.settle import Evidence, settle
from fairpool.model.ids import PodId
from fairpool.model.observation import PodState
from fairpool.model.pod_record import Cause, Outcome
from tests.pod_records import RUNNING, at, observed_node, observed_pod, record

MIB = 1 << 20


def a_writer(name: str, *folders: Path, words: str = "its scratch") -> Writer:
    places = {str(folder): words for folder in folders}
    return Writer(pod=f"{name}-0-0", name=name, project="team-a", pod_uuid="", main=None, directories=places)  # type: ignore[arg-type]


class Disk(Reserve):
    """One of so many bytes, of which others use some."""

    def __init__(self, file: Path, wanted: int, size: int) -> None:
        super().__init__(file, wanted)
        self.size, self.used = size, 0

    @property
    def free_bytes(self) -> int:
        return max(0, self.size - self.used - self.held_bytes)


def test_a_small_disk_gets_a_small_reserve_and_words(tmp_path: Path) -> None:
    large = Disk(tmp_path / "reserve", 64 * MIB, 1024 * MIB)
    assert (large.measure(), large.bytes) == ("", 64 * MIB)
    small = Disk(tmp_path / "reserve", 1024 * MIB, 400 * MIB)
    assert "only 100 MiB is reserved instead of 1.0 GiB, because 400 MiB" in small.measure()
    tiny = Disk(tmp_path / "reserve", 1024 * MIB, 20 * MIB)
    assert "nothing is reserved" in tiny.measure()
    assert tiny.hold()
    assert not tiny.file.exists()


def test_the_reserve_takes_up_space_until_it_is_given_back(tmp_path: Path) -> None:
    reserve = Disk(tmp_path / "reserve", 16 * MIB, 1024 * MIB)
    reserve.measure()
    assert reserve.hold()
    assert reserve.held_bytes >= 16 * MIB
    assert reserve.file.stat().st_mode & 0o077 == 0
    assert reserve.measure() == "", "what is held counts as free"
    reserve.shrink()
    assert reserve.held_bytes < 16 * MIB
    reserve.release()
    assert reserve.held_bytes == 0
    reserve.release()


def test_pods_are_not_measured_while_there_is_room(tmp_path: Path) -> None:
    reserve = Disk(tmp_path / "reserve", 16 * MIB, 256 * MIB)
    reserve.measure()
    assert reserve.hold()

    def no_writers() -> list[Writer]:
        raise AssertionError("it costs")

    watch = DiskWatch(reserve, no_writers, lambda pod, reason: None, lambda event, fields: None)
    assert watch.check() is None


@pytest.mark.slow
def test_who_fills_the_disk_is_stopped_and_the_reserve_comes_back(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(os.urandom(8 * MIB))
    reserve = Disk(tmp_path / "reserve", 16 * MIB, 256 * MIB)
    reserve.measure()
    assert reserve.hold()
    stopped: list[tuple[str, str]] = []
    notes: list[str] = []

    def stop(pod: str, reason: str) -> None:
        stopped.append((pod, reason))

    def note(event: str, fields: Mapping[str, object]) -> None:
        notes.append(event)

    writers = [a_writer("filler", tmp_path / "a")]
    watch = DiskWatch(reserve, lambda: writers, stop, note)
    reserve.used = 256 * MIB - 16 * MIB  # down to the reserve
    evicted = watch.check()
    assert evicted is not None
    assert stopped == [("filler-0-0", "Evicted: it filled the disk: 8 MiB written to its scratch")]
    assert 0 < reserve.held_bytes < 16 * MIB, "a little is given back first, to write down who is stopped"
    assert watch.check() is None
    assert len(stopped) == 1, "its folders are being removed, and no other pod is blamed"
    writers.clear()
    reserve.used += 2 * MIB
    assert watch.check() is None
    assert reserve.held_bytes == 0, "all is given back, so that databases can be written"
    reserve.used = 0
    assert watch.check() is None
    assert reserve.held_bytes >= 16 * MIB
    assert notes == [
        "disk space is low",
        "pod evicted",
        "disk reserve released",
        "disk space recovered",
    ]


def test_a_full_disk_that_no_pod_has_filled_costs_no_pod(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"little")
    reserve = Disk(tmp_path / "reserve", 16 * MIB, 256 * MIB)
    reserve.measure()
    assert reserve.hold()
    reserve.used = 256 * MIB
    stopped: list[str] = []
    watch = DiskWatch(
        reserve,
        lambda: [a_writer("quiet", tmp_path / "a")],
        lambda pod, reason: stopped.append(pod),
        lambda event, fields: None,
    )
    assert watch.check() is None
    assert (stopped, reserve.held_bytes) == ([], 0)


def find(writers: list[Writer], tmp_path: Path) -> Eviction | None:
    return culprit(writers, tmp_path / "reserve", at_least=MIB)


@pytest.mark.slow
def test_what_was_written_lately_decides_and_not_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("old", 6), ("new", 3)):
        (tmp_path / name / "deep" / "er").mkdir(parents=True)
        (tmp_path / name / "deep" / "er" / "file").write_bytes(os.urandom(size * MIB))
    writers = [a_writer(name, tmp_path / name) for name in ("old", "new")]
    found = find(writers, tmp_path)
    assert found is not None
    assert found.writer.name == "old"
    monkeypatch.setattr(disk_reserve, "LATELY_S", -60.0)
    assert find(writers, tmp_path) is None, "by the time of the last change, which no program can set"


def test_links_lead_nowhere_and_sparse_files_take_no_space(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "file").write_bytes(os.urandom(4 * MIB))
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "link").symlink_to(tmp_path / "big")
    (mine / "up").symlink_to("..")
    os.mkfifo(mine / "pipe")
    with (mine / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert find([a_writer("mine", mine)], tmp_path) is None
    os.link(tmp_path / "big" / "file", mine / "again")
    os.link(tmp_path / "big" / "file", mine / "once more")
    found = find([a_writer("mine", mine)], tmp_path)
    assert found is not None
    assert found.bytes < 5 * MIB, "counted once"


def test_a_disk_that_was_full_at_the_start_gets_its_reserve_when_there_is_room(tmp_path: Path) -> None:
    reserve = Disk(tmp_path / "reserve", 32 * MIB, 256 * MIB)
    reserve.used = 250 * MIB
    assert "nothing is reserved" in reserve.measure()
    watch = DiskWatch(reserve, list, lambda pod, reason: None, lambda event, fields: None)
    watch.check()
    assert (reserve.bytes, reserve.held_bytes) == (0, 0)
    reserve.used = 176 * MIB
    watch.check()
    assert (reserve.bytes, reserve.held_bytes) == (20 * MIB, 20 * MIB)
    reserve.used = 180 * MIB
    watch.check()
    assert reserve.bytes == 20 * MIB, "never less"
    reserve.used = 0
    watch.check()
    assert (reserve.bytes, reserve.held_bytes, reserve.words) == (32 * MIB, 32 * MIB, "")


def test_processes_are_looked_at_once_however_many_pods_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "big").write_bytes(os.urandom(2 * MIB))
    looks: list[int] = []

    class Counted(process_table.ProcessList):
        def __init__(self, excluded: Collection[int] = ()) -> None:
            looks.append(1)
            super().__init__(excluded)

    monkeypatch.setattr(process_table, "ProcessList", Counted)
    assert find([a_writer(f"w{number}", tmp_path) for number in range(5)], tmp_path) is not None
    assert len(looks) == 1


def test_a_pod_with_countless_files_takes_no_time_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a-many", "z-filler"):
        (tmp_path / name).mkdir()
    for number in range(300):
        (tmp_path / "a-many" / str(number)).touch()
    (tmp_path / "z-filler" / "file").write_bytes(os.urandom(2 * MIB))
    now = iter(range(10_000))  # every look at the clock takes a second
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(disk_reserve, "MEASURE_S", 100.0)
    found = find([a_writer(name, tmp_path / name) for name in ("a-many", "z-filler")], tmp_path)
    assert found is not None
    assert found.writer.name == "z-filler"


def test_where_files_are_too_many_what_was_sent_to_the_disk_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    sent = {"many": 10 * MIB}
    monkeypatch.setattr(disk_reserve, "ENTRIES_MAX", 10)
    monkeypatch.setattr(disk_reserve, "_bytes_sent", lambda family: sent["many"])
    before: dict[PodId, int] = {}
    writers = [a_writer("many", tmp_path)]
    assert culprit(writers, tmp_path / "reserve", at_least=MIB, sent_before=before) is None
    sent["many"] += 5 * MIB
    found = culprit(writers, tmp_path / "reserve", at_least=MIB, sent_before=before)
    assert found is not None
    assert found.bytes == 5 * MIB


HIDING = """
import os, sys
handle = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.unlink(sys.argv[1])
os.write(handle, os.urandom(4 << 20))
print("hidden", flush=True)
sys.stdin.read()
"""


def test_a_file_that_was_removed_and_is_held_open_is_found(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HIDING, str(tmp_path / "gone")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as pod:
        assert pod.stdout is not None
        assert pod.stdin is not None
        assert pod.stdout.readline() == "hidden\n"
        started = process_table.start_time(pod.pid)
        assert started is not None
        writer = Writer(
            pod="hider-0-0",  # type: ignore[arg-type]
            name="hider",
            project="team-a",
            pod_uuid="",
            main=(pod.pid, started),
            directories={},
        )
        found = find([writer], tmp_path)
        pod.stdin.close()
    assert found is not None
    assert "deleted files that it keeps open" in found.words


def test_a_pod_that_was_evicted_has_failed_with_the_reason() -> None:
    running = record(phase=RUNNING, on="n1")
    words = "stopped: Evicted: it filled the disk: 2.0 GiB written to its scratch, and killed after its grace period"
    seen = observed_pod(running, PodState.EXITED, exit_code=137, message=words, after_notice=True)
    after = settle(running, Evidence(pod=seen, node=observed_node()), at(60))
    assert (after.outcome, after.cause) == (Outcome.ERROR, Cause.EXITED), "so that its retries are counted"
    assert after.detail == "Evicted: it filled the disk: 2.0 GiB written to its scratch"
    other = replace(seen, message="stopped: down --stop-pods")
    assert settle(running, Evidence(pod=other, node=observed_node()), at(60)).outcome is Outcome.LOST


FULL = '''
import json, os, sys, time
from pathlib import Path
from fairpool.agent import mounts, namespaces
folder = Path(sys.argv[1])
namespaces.enter(namespaces.CLONE_NEWNS)
mounts.mount("none", "/", "", mounts.MS_REC | mounts.MS_PRIVATE)
mounts.mount("tmpfs", str(folder), "tmpfs", 0, "size=256m,mode=700")
from fairpool.platform.disk_guard import DiskGuard
from tests.local_machine import a_machine
filling = """
import time
file = open("x", "wb", 0)
while True:
    try:
        file.write(bytes(1 << 20))
    except OSError:
        time.sleep(0.01)
"""
def can_write(file):
    try:
        file.write_bytes(os.urandom(1 << 20))
    except OSError:
        return False
    return True

with a_machine(folder / "machine") as machine:
    quiet = machine.up("quiet", "sleep", "1000")
    guard = DiskGuard(folder / "reserve", 32 << 20, machine.engine.supervisor)
    guard.start()
    until = time.monotonic() + 60
    while guard._reserve.held_bytes < 32 << 20:
        assert time.monotonic() < until
        time.sleep(0.01)
    filler = machine.up("filler", "python3", "-c", filling)
    end = machine.until_exited(filler)
    machine.until(lambda: can_write(folder / "proof"), "the reserve is given back")
    print(json.dumps([end.message, machine.see(quiet).state.value]))
    guard.stop(10)
'''


@pytest.mark.slow
def test_a_pod_that_fills_a_real_disk_is_stopped_and_others_run_on(tmp_path: Path) -> None:
    why = namespaces.permitted(namespaces.CLONE_NEWNS)
    if why or os.geteuid() != 0:
        pytest.skip(f"no small disk can be mounted here: {why or 'that takes the superuser'}")
    ran = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    words, quiet = json.loads(ran.stdout)
    assert "Evicted: it filled the disk: " in words
    assert "written to its home" in words
    assert quiet == "running"
