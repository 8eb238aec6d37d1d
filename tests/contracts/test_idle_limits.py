"""Idle limits from the project's rules to the end of the job: warned once, stopped at the limit, over restarts."""

from __future__ import annotations

from typing import Any

from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.idle_time import PodIdleTimes
from fairpool.cluster.loop import Loop
from fairpool.model.ids import PodId
from tests.control.cluster import Cluster
from tests.control.control_plane import ControlPlane, control_plane, expect


class Sampled(Cluster):
    """A cluster whose samples say for how many seconds pods have been idle."""

    def __init__(self, control: ControlPlane) -> None:
        self.idle = PodIdleTimes()
        super().__init__(control)

    def restart(self) -> Loop:
        link = ControlLink(self.control, "local")
        self.loop = Loop(self.ledger, self.engine, link, self.clock.now, idle=lambda: self.idle)
        return self.loop

    def is_idle_for(self, seconds: int, *workloads: str) -> None:
        since = {PodId(f"{workload}-0-0"): 10_000_000 for workload in workloads}
        self.idle = PodIdleTimes(10_000_000 + seconds * 1000, since)
        self.run(3)


def lines(control: ControlPlane, workload: dict[str, Any], kind: str) -> list[str]:
    found = expect(control.call("GET", f"/api/v1/workloads/{workload['id']}/events"), 200)["events"]
    return [each["detail"] for each in found if each["kind"] == kind]


def test_an_idle_job_is_warned_once_and_stopped_at_the_limit_and_others_stay() -> None:
    with control_plane() as control:
        control.project("team-a", gpus=8)
        rules = {"schedulingRules": {"trainingJobMaxIdleDurationSeconds": 600}}
        cluster = Sampled(control)
        idle, busy = (control.train(name, "team-a", compute={"gpuDevicesRequest": 1}) for name in ("idle", "busy"))
        cluster.run(5)
        cluster.is_idle_for(10_000, idle["id"])
        assert cluster.phase(idle) == "Running", "there is no limit"
        cluster.is_idle_for(0)
        expect(control.call("PATCH", "/api/v1/org-unit/projects/team-a", rules), 200)
        cluster.run(2)
        cluster.is_idle_for(449, idle["id"])
        assert lines(control, idle, "near-limit") == []
        for seconds in (450, 460, 599):
            cluster.is_idle_for(seconds, idle["id"])
        (warning,) = lines(control, idle, "near-limit")
        assert warning == "its GPUs have been idle for 7m30s; it is stopped in 2m30s unless it uses them"
        cluster.restart()  # from here on, samples count anew
        cluster.is_idle_for(20, idle["id"])
        assert cluster.phase(idle) == "Running"
        cluster.clock.advance(7 * 86_400)  # a clock that is set ends nothing
        cluster.run(2)
        assert cluster.phase(idle) == "Running"
        cluster.is_idle_for(500, idle["id"])
        assert len(lines(control, idle, "near-limit")) == 2, "of another time"
        cluster.is_idle_for(600, idle["id"])
        assert cluster.phase(idle) == "Running", "it was warned 100 s ago, and is due 150"
        cluster.is_idle_for(650, idle["id"])
        cluster.run(5)
        shown = cluster.shown(idle)
        assert shown["phase"] == "Stopped"
        assert "idle for 10m, the limit for training jobs in project team-a" in shown["phaseMessage"]
        assert cluster.phase(busy) == "Running"
        expect(control.call("POST", f"/api/v1/workloads/trainings/{idle['id']}/resume"), 202)
        cluster.run(5)
        assert cluster.phase(idle) == "Running"
