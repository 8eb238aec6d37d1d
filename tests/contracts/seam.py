"""Control planes to try the contract of pull and push on: with HTTP, without it, and without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from fairpool.api.clusters import PullAnswer, PushAnswer, PushReport
from fairpool.api.organization import ProjectRequest
from fairpool.control.clusters import cluster_beside
from fairpool.model.ids import Instant, QueueId, Revision, WorkloadId
from fairpool.model.spec import WorkloadSpec
from fairpool.platform.in_process import InProcessControl
from fairpool.simulation.control_driver import ControlDriver
from tests.control.control_plane import START, ControlPlane, codes, control_plane, expect

PROJECT = "team-a"
WORKLOADS = "/api/v1/workloads"


class Seam(Protocol):
    """A control plane with one cluster and one project, as the cluster and its users see it."""

    def pull(self, after: int = 0) -> PullAnswer: ...

    def push(self, report: PushReport) -> PushAnswer: ...

    def submit(self, name: str) -> WorkloadId: ...

    def suspend(self, workload: WorkloadId) -> str:
        """The code of the problem if it was refused, as for the next two."""

    def resume(self, workload: WorkloadId) -> str: ...

    def delete(self, workload: WorkloadId, *, force: bool = False) -> str: ...

    def add_project(self, name: str) -> None: ...

    def phase(self, workload: WorkloadId) -> str:
        """As users see it."""

    def nodes(self) -> dict[str, bool]:
        """Whether each is ready."""

    def events(self, workload: WorkloadId) -> list[tuple[int, str]]:
        """The number and kind of each."""


class OverHttp:
    """The application, and every call through its routes."""

    def __init__(self, control: ControlPlane) -> None:
        self.control = control
        control.project(PROJECT)

    def pull(self, after: int = 0) -> PullAnswer:
        return self.control.pull(after)

    def push(self, report: PushReport) -> PushAnswer:
        return self.control.push(report)

    def submit(self, name: str) -> WorkloadId:
        return WorkloadId(self.control.train(name)["id"])

    def suspend(self, workload: WorkloadId) -> str:
        return self._ask("POST", f"{workload}/suspend")

    def resume(self, workload: WorkloadId) -> str:
        return self._ask("POST", f"{workload}/resume")

    def delete(self, workload: WorkloadId, *, force: bool = False) -> str:
        return self._ask("DELETE", f"{workload}?force=true" if force else workload)

    def _ask(self, method: str, path: str) -> str:
        answer = self.control.call(method, f"{WORKLOADS}/{path}")
        return "" if answer.status_code == 202 else codes(answer)[0]

    def add_project(self, name: str) -> None:
        self.control.project(name)

    def phase(self, workload: WorkloadId) -> str:
        return str(expect(self.control.call("GET", f"{WORKLOADS}/{workload}"), 200)["phase"])

    def nodes(self) -> dict[str, bool]:
        listed = expect(self.control.call("GET", "/api/v1/nodes"), 200)["nodes"]
        return {each["name"]: each["status"] == "Ready" for each in listed}

    def events(self, workload: WorkloadId) -> list[tuple[int, str]]:
        listed = expect(self.control.call("GET", f"{WORKLOADS}/{workload}/events"), 200)["events"]
        return [(each["sequence"], each["kind"]) for each in listed]


class InProcess(OverHttp):
    """The same application, whose cluster runs in the same process and calls it without HTTP."""

    def __init__(self, control: ControlPlane) -> None:
        super().__init__(control)
        portal = control.http.portal
        assert portal is not None
        own = portal.call(cluster_beside, control.app.state.plane)
        self._calls = InProcessControl(control.app.state.plane, own.uuid, portal.call(asyncio.get_running_loop))

    def pull(self, after: int = 0) -> PullAnswer:
        return self._calls.pull(Revision(after), 0.0)

    def push(self, report: PushReport) -> PushAnswer:
        return self._calls.push(report)


class Simulated:
    """The control plane of simulations."""

    def __init__(self, changes_kept: int) -> None:
        self.control = ControlDriver(lambda: START, changes_kept=changes_kept)
        self.add_project(PROJECT)

    def pull(self, after: int = 0) -> PullAnswer:
        return self.control.pull(Revision(after))

    def push(self, report: PushReport) -> PushAnswer:
        return self.control.push(report)

    def submit(self, name: str) -> WorkloadId:
        workload = WorkloadId(f"{name}-id")
        spec = WorkloadSpec(id=workload, name=name, project=QueueId(PROJECT), created_at=Instant(START))
        refused = self.control.submit(spec)
        assert refused is None, refused
        return workload

    def suspend(self, workload: WorkloadId) -> str:
        refused = self.control.suspend(workload)
        return "" if refused is None else refused.code

    def resume(self, workload: WorkloadId) -> str:
        refused = self.control.resume(workload)
        return "" if refused is None else refused.code

    def delete(self, workload: WorkloadId, *, force: bool = False) -> str:
        refused = self.control.delete(workload, force=force)
        return "" if refused is None else refused.code

    def add_project(self, name: str) -> None:
        refused = self.control.add_project(ProjectRequest(name=name))
        assert refused is None, refused

    def phase(self, workload: WorkloadId) -> str:
        spec, report = self.control.spec(workload), self.control.workload(workload)
        if spec is None:
            return "Deleted"
        return "Creating" if report is None or report.run != spec.run else report.phase.value

    def nodes(self) -> dict[str, bool]:
        return {each.name: each.ready for each in self.control.nodes()}

    def events(self, workload: WorkloadId) -> list[tuple[int, str]]:
        return [(each.number, each.kind) for each in self.control.events() if each.workload == workload]


SEAMS = ("over HTTP", "in process", "simulated")


@contextmanager
def seam_of(kind: str, changes_kept: int = 100_000) -> Iterator[Seam]:
    if kind == "simulated":
        simulated = Simulated(changes_kept)
        yield simulated
        simulated.control.close()
        return
    with control_plane(changes_kept=changes_kept) as control:
        yield OverHttp(control) if kind == "over HTTP" else InProcess(control)
