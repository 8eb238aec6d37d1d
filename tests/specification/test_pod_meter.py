"""What a pod used between two samples, from counters of processes that come, go, and leave theirs to their parents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairpool.agent import pod_meter, process_table
from fairpool.agent.cgroup import Cgroup
from fairpool.agent.leftover_processes import ProcessSelector
from fairpool.agent.machine_meter import MachineMeter, interface_bytes
from fairpool.agent.pod_meter import TICKS_S, PodMeter
from fairpool.agent.process_owners import PodProcesses, ProcessCounters, RunningPod
from fairpool.agent.traffic_file import TrafficFile, relayed_bytes
from fairpool.model.ids import NodeName, PodId

POD = RunningPod(pod=PodId("a-0-0"), node=NodeName("n1"), devices=(), selector=ProcessSelector(pod_uuid="u"))
NO_PROCESS = 10_000_000
"""Beyond every pid, so that nothing real is read."""


def row(number: int, own: float, reaped: float = 0.0, *, started: int = 0, at: float = 0.0) -> ProcessCounters:
    """A process with so many seconds of CPU time."""
    return ProcessCounters(NO_PROCESS + number, started, 1, round(own * TICKS_S), round(reaped * TICKS_S), at)


class Pod:
    """A pod whose processes a test invents; ten seconds pass between two samples."""

    def __init__(self) -> None:
        self._meter, self._at = PodMeter(), 0.0

    def seconds(self, *rows: ProcessCounters, shim: ProcessCounters | None = None) -> float | None:
        """CPU time since the last sample."""
        self._at += 10
        rows = tuple(each._replace(at=self._at) for each in rows)
        ticks = round(self._at * TICKS_S)
        usage = self._meter.measure(POD, PodProcesses(rows, shim), began_ticks=ticks, at=self._at)
        return None if usage.cpu_cores is None else round(usage.cpu_cores * 10, 2)


@pytest.fixture(autouse=True)
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_meter, "CORES", 64)


def test_the_first_sample_of_a_pod_has_no_rates() -> None:
    assert Pod().seconds(row(1, own=500)) is None


def test_cpu_time_is_that_of_all_processes() -> None:
    pod = Pod()
    pod.seconds(row(1, own=500), row(2, own=0))
    assert pod.seconds(row(1, own=503), row(2, own=4)) == 7
    assert pod.seconds(row(1, own=503), row(2, own=4)) == 0


def test_children_that_came_and_went_between_two_samples_count() -> None:
    pod = Pod()
    pod.seconds(row(1, own=0))
    assert pod.seconds(row(1, own=1, reaped=8)) == 9


def test_what_a_child_used_before_the_last_sample_is_not_counted_again_when_it_ends() -> None:
    pod = Pod()
    pod.seconds(row(1, own=0), row(2, own=3600))
    assert pod.seconds(row(1, own=0, reaped=3602)) == 2


def test_what_an_orphan_used_is_with_its_shim() -> None:
    pod = Pod()
    pod.seconds(row(1, own=0), row(2, own=5, reaped=5), shim=row(9, own=1, reaped=0))
    assert pod.seconds(row(1, own=0), shim=row(9, own=4, reaped=13)) == 3, "and not what the shim itself used"


def test_a_child_that_ends_while_the_table_is_read_is_counted_once() -> None:
    """Its parent was read before it ended and the child afterwards: its time is in neither."""
    pod = Pod()
    pod.seconds(row(1, own=0), row(2, own=3600))
    assert pod.seconds(row(1, own=0)) == 0
    assert pod.seconds(row(1, own=0, reaped=3601)) == 1


def test_children_that_are_not_waited_for_do_not_hide_what_others_use() -> None:
    """Their parent ignores SIGCHLD, so their time is in no counter."""
    pod = Pod()
    pod.seconds(row(1, own=0), row(2, own=100))
    assert pod.seconds(row(1, own=9)) == 9
    assert pod.seconds(row(1, own=9, reaped=7)) == 0, "for one sample it is unknown whose these are"
    assert pod.seconds(row(1, own=9, reaped=15)) == 8


def test_another_process_with_the_same_pid_is_another_process() -> None:
    pod = Pod()
    pod.seconds(row(1, own=0), row(2, own=100, started=5))
    assert pod.seconds(row(1, own=0, reaped=100), row(2, own=3, started=11 * TICKS_S)) == 3


def test_a_process_that_was_not_found_before_counts_from_now_on() -> None:
    pod = Pod()
    pod.seconds(row(1, own=0))
    assert pod.seconds(row(1, own=0), row(2, own=3600, started=3)) == 0
    assert pod.seconds(row(1, own=0), row(2, own=3602, started=3)) == 2


def test_no_more_cores_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_meter, "CORES", 2)
    pod = Pod()
    pod.seconds(row(1, own=0))
    assert pod.seconds(row(1, own=0, reaped=3600)) == 20


def test_what_cannot_be_read_is_unknown_and_not_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disk counters of a process of another user are closed to us."""
    me = os.getpid()
    started = process_table.start_time(me)
    assert started is not None
    rows = (ProcessCounters(me, started, 1, 0, 0, 0.0),)
    monkeypatch.setattr(process_table, "disk_bytes", lambda pid: None)
    meter = PodMeter()
    meter.measure(POD, PodProcesses(rows), began_ticks=0, at=1.0)
    usage = meter.measure(POD, PodProcesses((rows[0]._replace(at=2.0),)), began_ticks=0, at=2.0)
    assert (usage.read_bytes_s, usage.written_bytes_s, usage.sent_bytes_s) == (None, None, None)
    assert usage.memory_bytes is not None
    assert usage.memory_bytes > 1 << 20


# --- control groups, traffic, the machine


@pytest.mark.parametrize(
    ("version", "files"),
    [
        (
            2,
            {
                "cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
                "memory.current": "9000",
                "memory.stat": "anon 1\ninactive_file 4000\n",
            },
        ),
        (
            1,
            {
                "cpuacct.usage": "2500000000\n",
                "memory.usage_in_bytes": "9000",
                "memory.stat": "cache 1\ntotal_inactive_file 4000\n",
            },
        ),
    ],
)
def test_a_group_counts_its_cpu_time_and_memory_in_use(tmp_path: Path, version: int, files: dict[str, str]) -> None:
    group = Cgroup({"version": version, "cpu": str(tmp_path), "memory": str(tmp_path)}, "g")
    assert (group.cpu_s(), group.memory_bytes()) == (None, None)
    (tmp_path / "g").mkdir()
    for name, text in files.items():
        (tmp_path / "g" / name).write_text(text)
    assert (group.cpu_s(), group.memory_bytes()) == (2.5, 5000)


def test_traffic_is_continued_by_the_next_relay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = TrafficFile()
    assert relayed_bytes(str(tmp_path)) == (0, 0)
    first.received, first.sent = 10**13, 7
    assert not first.is_written
    first.write()
    first.close()
    assert relayed_bytes(str(tmp_path)) == (10**13, 7)
    second = TrafficFile()
    assert (second.received, second.sent, second.is_written) == (10**13, 7, True)
    second.close()
    for text in (b"rubbish", b"1 2 3", b"-1 2", b"\xff" * 40):
        (tmp_path / "traffic").write_bytes(text)
        assert relayed_bytes(str(tmp_path)) is None
    assert relayed_bytes(str(tmp_path / "gone")) is None


def test_only_hardware_counts_where_there_is_some(tmp_path: Path) -> None:
    table = tmp_path / "dev"
    head = "Inter-|   Receive                            |  Transmit\n face |bytes packets\n"
    line = "{}: {} 1 0 0 0 0 0 0 {} 1 0 0 0 0 0 0\n"
    table.write_text(head + line.format("    lo", 99, 99))
    assert interface_bytes(str(table)) is None, "a loopback is no network"
    table.write_text(head + line.format("    lo", 99, 99) + line.format("  vp0", 5, 6) + line.format("vp1", 7, 8))
    assert interface_bytes(str(table)) == (12, 14)


def test_the_machine_itself_is_measured() -> None:
    meter = MachineMeter()
    first = meter.measure(1.0)
    assert (first.cpu_cores, first.read_bytes_s) == (None, None)
    assert first.memory_bytes is not None
    second = meter.measure(1001.0)
    assert second.cpu_cores is not None
    assert 0 <= second.cpu_cores <= (os.cpu_count() or 1)
