"""Usage of real pods through everything that can happen to them: preempted, suspended, killed, with either program
killed, and with a clock that is set. Sums are those of a count from the ledger's file and the process table. F-196.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from fairpool.agent import process_table
from fairpool.agent.state_directory import StateDirectory
from fairpool.api import workload_spec as work
from fairpool.api.client import Client
from fairpool.api.organization import ProjectRequest
from fairpool.model.ids import PodId
from tests.end_to_end import usage_count
from tests.end_to_end.usage_count import Job, PodTime
from tests.two_programs import ClusterProcess, ControlProcess

pytestmark = pytest.mark.slow

HOUR_S = 3600
QUOTAS = {"team-a": 4.0, "team-b": 12.0}
SKEWED = """
    import time
    _true_ns = time.time_ns
    def _set_ns():
        try:
            with open({file!r}) as file:
                return _true_ns() + int(file.read()) * 10**9
        except OSError:
            return _true_ns()
    time.time_ns = _set_ns
    time.time = lambda: _set_ns() / 1e9
"""
"""Imported by every Python process of the two programs: the clock of their machine, which can be set."""


class Programs:
    """A control plane and a cluster on a machine whose clock can be set."""

    def __init__(self, folder: Path) -> None:
        self._clock = folder / "clock"
        (folder / "python").mkdir()
        (folder / "python" / "sitecustomize.py").write_text(dedent(SKEWED.format(file=str(self._clock))))
        self.control = ControlProcess(folder / "control", folder / "config")
        self.control._variables["PYTHONPATH"] = str(folder / "python")
        self.control.up()
        token = self.control.token_file("east")
        self.cluster = ClusterProcess(folder / "data", self.control.address, token, folder / "config")
        self.cluster._variables["PYTHONPATH"] = str(folder / "python")
        self.cluster.up()
        self.jobs: dict[str, Job] = {}
        self.user = ""
        self.set_at = 0
        """When the clock was set forward, in milliseconds of the true time."""

    @property
    def client(self) -> Client:
        return self.control.administrator()

    def set_clock(self, seconds: int) -> None:
        self.set_at = int(time.time() * 1000)
        new = self._clock.with_suffix(".new")
        new.write_text(str(seconds))
        new.rename(self._clock)

    def submit(self, name: str, project: str, gpus: int) -> str:
        spec = {"image": "python", "command": "python", "args": "-c 'import time; time.sleep(1000)'"}
        body = {"name": name, "projectId": project, "spec": {**spec, "compute": {"gpuDevicesRequest": gpus}}}
        made = self.client.submit(work.SubmitTraining.model_validate(body)).id
        self.jobs[made] = Job(name, project, float(gpus))
        self.user = self.client.workload(made).submitted_by
        return made

    def until_phase(self, phase: str, *workloads: str) -> None:
        client = self.client
        self.cluster.until(
            lambda: all(client.workload(each).phase == phase for each in workloads), f"{workloads} are {phase}"
        )

    def latest_pod(self, workload: str) -> str:
        return max(self.client.history(workload), key=lambda each: each.incarnation).id

    def kill_program(self, pod: str, *, and_shim: bool = False) -> None:
        directory = StateDirectory(self.cluster.data_directory.machine).pod_directory(PodId(pod))
        shim = int(os.readlink(directory / "shim.0").split(".")[0])
        programs = process_table.descendants(shim)
        assert programs
        if and_shim:
            os.kill(shim, signal.SIGKILL)
        for pid in programs:
            with suppress(ProcessLookupError):  # they may end with their shim
                os.kill(pid, signal.SIGKILL)

    def times(self) -> list[PodTime]:
        """All pods, in true time: what was recorded after the clock had been set is that much earlier."""
        found = usage_count.pod_times(self.cluster.data_directory.ledger, self.jobs)
        return [replace(each, begin=self._true(each.begin), end=self._true(each.end or 0)) for each in found]

    def _true(self, at: int) -> int:
        return at - HOUR_S * 1000 if at >= self.set_at + HOUR_S * 500 else at

    def now(self) -> int:
        """By the clock of the machine."""
        return int((time.time() + HOUR_S) * 1000)


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with closed(Programs(tmp_path)) as programs:
        yield programs


@contextmanager
def closed(programs: Programs) -> Iterator[Programs]:
    try:
        yield programs
    finally:
        try:
            programs.control.down()
        finally:
            programs.cluster.clean_up()


def test_no_second_is_lost_or_counted_twice(programs: Programs) -> None:
    for name, quota in QUOTAS.items():
        body = {"name": name, "resources": [{"gpu": {"deserved": quota}}]}
        programs.client.create_project(ProjectRequest.model_validate(body))
    first, second, third = (programs.submit(f"a-{number}", "team-a", 4) for number in range(3))
    programs.until_phase("Running", first, second, third)
    large = programs.submit("b-1", "team-b", 8)
    programs.until_phase("Running", large)  # one of team-a's was taken back
    taken = next(each for each in (third, second) if programs.client.workload(each).phase == "Pending")
    kept = second if taken == third else third

    programs.cluster.kill()
    programs.kill_program(programs.latest_pod(kept))  # no loop sees it end
    programs.cluster.up()
    programs.until_phase("Running", taken)  # in its place, until it may try again
    programs.set_clock(HOUR_S)
    small = programs.submit("c-1", "team-b", 0)
    programs.until_phase("Running", small)  # a loop that does something sees the clock
    programs.client.suspend(first)
    programs.until_phase("Stopped", first)
    programs.until_phase("Running", kept)

    pod = programs.latest_pod(large)
    programs.control.kill()
    programs.kill_program(pod, and_shim=True)  # its end is reported late
    programs.cluster.kill()
    programs.control.up()
    programs.cluster.up()
    programs.client.resume(first)
    programs.cluster.until(lambda: len(programs.client.history(large)) == 2, "its replacement is there")
    programs.until_phase("Running", large)

    for each in (first, second, third, large, small):
        programs.client.delete_workload(each)
    programs.cluster.until(lambda: not programs.client.all_workloads(), "everything is gone")
    times = programs.times()
    assert {"preempted", "exited", "suspended", "deleted"} <= {each.cause for each in times}
    assert all(each.begin < each.end for each in times if each.end is not None)
    usage_count.soon(
        # To the second: how far a clock was set is measured by two clocks, one after the other.
        lambda: usage_count.compare_accounting(programs.client, times, programs.user, now=programs.now(), within_s=1.0)
    )
    check_gap(programs)


def check_gap(programs: Programs) -> None:
    """Nothing was measured in the hour that the clock has left out, and none of it is idle."""
    path = "/api/v1/org-unit/projects/team-b"
    until = programs.set_at + (HOUR_S - 60) * 1000
    assert not usage_count.series(programs.client, path, "GPU_ALLOCATION", programs.set_at + 60_000, until)
    total = programs.client.usage(start="1d").total
    measured = (total.gpu_hours_used or 0.0) + (total.gpu_hours_idle or 0.0)
    assert measured <= total.gpu_hours_allocated + 1e-4
