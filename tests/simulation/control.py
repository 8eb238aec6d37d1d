"""A control plane that is hard to reach: away, late, or heard twice."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fairpool.api.clusters import ControlPlaneUnreachable, PullAnswer, PushAnswer, PushReport
from fairpool.cluster.control_link import ControlPlane
from fairpool.model.ids import SECOND_MS, Instant, Revision
from tests.fault_injection.faults import Faults

HOUR_S = 3600


class FaultyControl:
    """The control plane behind a bad network."""

    def __init__(self, control: ControlPlane, faults: Faults, rng: Random, now: Callable[[], Instant]) -> None:
        self.control = control
        self.faults = faults
        self._rng, self._now = rng, now
        self._asked_at = self._cut_until = now()
        self._late: list[PushReport] = []
        self._last_answer: PullAnswer | None = None
        self._is_cut = False

    def cut(self, seconds: float) -> None:
        """For so long nothing gets through."""
        self._cut_until = Instant(self._now() + round(seconds * SECOND_MS))

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        self._stop_if_cut()
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
        self._stop_if_cut()
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

    def _stop_if_cut(self) -> None:
        now = self._now()
        hours, self._asked_at = (now - self._asked_at) / SECOND_MS / HOUR_S, now
        if self._happens(self.faults.control_cut * hours):
            self.cut(HOUR_S * 10 ** self._rng.uniform(-2, 0.7))
        if now < self._cut_until:
            raise ControlPlaneUnreachable("the link is cut")

    def _deliver_late(self) -> None:
        late, self._late = self._late, []
        for report in late:
            if self._happens(0.5):
                self.control.push(report)
            else:
                self._late.append(report)

    def _happens(self, rate: float) -> bool:
        return rate > 0 and self._rng.random() < rate
