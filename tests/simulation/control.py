"""A control plane that is hard to reach: away, late, or heard twice."""

from __future__ import annotations

from random import Random

from fairpool.api.clusters import ControlPlaneUnreachable, PullAnswer, PushAnswer, PushReport
from fairpool.cluster.control_link import ControlPlane
from fairpool.model.ids import Revision
from tests.fault_injection.faults import Faults


class FaultyControl:
    """The control plane behind a bad network."""

    def __init__(self, control: ControlPlane, faults: Faults, rng: Random) -> None:
        self.control = control
        self.faults = faults
        self._rng = rng
        self._late: list[PushReport] = []
        self._last_answer: PullAnswer | None = None
        self._is_cut = False

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        self._deliver_late()
        if self._happens(self.faults.control_away):
            raise ControlPlaneUnreachable("the control plane does not answer")
        if self._last_answer is not None and self._happens(self.faults.control_twice):
            return self._last_answer  # an answer to an earlier question comes again
        self._last_answer = self.control.pull(after, wait_s)
        if self._happens(self.faults.control_late):
            raise ControlPlaneUnreachable("the answer did not come in time")
        return self._last_answer

    def push(self, report: PushReport) -> PushAnswer:
        if self._is_cut:
            self._is_cut = False
            raise ControlPlaneUnreachable("the link was cut between two pieces")
        report = PushReport.model_validate_json(report.model_dump_json()) if self._happens(0.05) else report
        if self._happens(self.faults.control_away):
            raise ControlPlaneUnreachable("the control plane does not answer")
        if self._happens(self.faults.control_late):
            self._late.append(report)
            raise ControlPlaneUnreachable("the report is still on its way")
        self._deliver_late()
        answer = self.control.push(report)
        if self._happens(self.faults.control_twice):
            self.control.push(report)
        if self._happens(self.faults.control_late):
            raise ControlPlaneUnreachable("the answer did not come in time")
        self._is_cut = self._happens(self.faults.report_cut)
        return answer

    def _deliver_late(self) -> None:
        late, self._late = self._late, []
        for report in late:
            if self._happens(0.5):
                self.control.push(report)
            else:
                self._late.append(report)

    def _happens(self, rate: float) -> bool:
        return rate > 0 and self._rng.random() < rate
