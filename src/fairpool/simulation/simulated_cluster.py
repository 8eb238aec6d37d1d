"""A simulated cluster: real loop, ledger and control plane, simulated engine, virtual clock.

Time stands still while anything happens here, and is moved on by the caller. In a folder everything is
durable: a cluster that is set up again in the same folder continues where it was left, at the moment it is given.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path

from fairpool.api.clusters import EventReport, WorkloadReport
from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.ledger import Ledger, LedgerProblem, LedgerUnavailable
from fairpool.cluster.loop import Loop
from fairpool.cluster.planning import SnapshotHook
from fairpool.cluster.pod_slots import workload_of
from fairpool.cluster.rollup import gpus_held_milli
from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.engines.simulated.state_file import StateFile
from fairpool.model.ids import SECOND_MS, Instant, NodeName, QueueId, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.mentions import in_full
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem
from fairpool.model.spec import WorkloadSpec
from fairpool.model.status import HOLDS_NOTHING, WaitReason, WorkloadPhase
from fairpool.scheduler.explain import explain
from fairpool.simulation.control_driver import ControlDriver, Unavailable
from fairpool.simulation.scenario import Scenario

CLUSTER = "simulated"
CYCLES_MAX = 10_000
"""Cycles at one moment. With more, the loop would never let time pass, which is a bug."""
UNDER_WAY = frozenset({PodPhase.BOUND, PodPhase.RELEASING, PodPhase.PROMISED})


STORAGE_ERRORS = (LedgerUnavailable, LedgerProblem, Unavailable, sqlite3.Error, OSError)
"""What is raised where a folder cannot be read or written."""


class Stuck(Exception):
    """The loop does not come to rest."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where a cluster keeps what must outlive the process; None: nowhere."""

    ledger: Path | None = None
    journal: Path | None = None
    control: Path | None = None

    @classmethod
    def within(cls, folder: Path) -> Files:
        return cls(folder / "ledger.db", folder / "engine.db", folder / "control.db")


NOWHERE = Files()


class SimulatedCluster:
    """One cluster, at one moment."""

    def __init__(
        self, scenario: Scenario, now: Instant, files: Files = NOWHERE, watch: SnapshotHook | None = None
    ) -> None:
        self.scenario = scenario
        self.clock = VirtualClock(now)
        self._state_file = StateFile(files.journal) if files.journal is not None else None
        self.engine = SimulatedEngine(self.clock, scenario.nodes, self._behaviour_of, self._state_file)
        self.control = ControlDriver(self.clock.now, files.control, cluster=CLUSTER)
        self._ledger = Ledger(files.ledger)
        self.loop = Loop(self._ledger, self.engine, self._new_link(), self.clock.now, on_snapshot=watch)
        self._submitted = scenario.submitted()
        self._unfinished: deque[WorkloadId] = deque(self.control.specs())

    def _new_link(self) -> ControlLink:
        return ControlLink(self.control, CLUSTER)

    def _behaviour_of(self, order: StartOrder) -> Behaviour:
        return self.scenario.behaviours[order.workload]

    def close(self) -> None:
        """Release the lease and close the files."""
        self.loop.release()
        self._ledger.close()
        self.control.close()
        if self._state_file is not None:
            self._state_file.close()

    # --- time ---

    @property
    def now(self) -> Instant:
        return self.clock.now()

    def rest(self) -> None:
        """Run cycles until there is nothing more to do at this moment."""
        for _ in range(CYCLES_MAX):
            if not self.loop.run_cycle() or self.loop.error:
                return
        raise Stuck(f"the loop ran {CYCLES_MAX} cycles at one moment without coming to rest")

    def next_moment(self) -> Instant | None:
        """When something happens by itself; None: never."""
        moments = [self.engine.next_change_at, self.loop.next_wake()]
        known = [each for each in moments if each is not None]
        if not known:
            return None
        # A loop that could not act asks for another cycle at once, which helps only after time has passed.
        soon = Instant(self.now + (SECOND_MS if self.loop.error else 1))
        return max(min(known), soon)

    # --- state ---

    def report(self, workload: WorkloadId) -> WorkloadReport | None:
        return self.loop.cache.reports.get(workload)

    def reports(self) -> dict[WorkloadId, WorkloadReport]:
        return self.loop.cache.reports

    def why(self, workload: WorkloadId) -> str:
        """Why it is in its phase, in words; of one that waits, as the scheduler last saw it."""
        report = self.report(workload)
        if report is None:
            return ""
        verdicts = self.loop.cache.verdicts
        waits = report.phase is WorkloadPhase.PENDING and report.reason is WaitReason.QUEUED
        # The report may hold numbers of some seconds ago: they are reported less often than they change.
        groups = [group for group in verdicts if workload_of(group) == workload] if waits else []
        return explain(verdicts[groups[0]]) if groups else in_full(report.detail)

    def project_of(self, workload: WorkloadId) -> QueueId:
        return self._submitted[workload].project

    def is_declared(self, workload: WorkloadId) -> bool:
        return self.control.spec(workload) is not None

    def watch_for_end_of(self, workload: WorkloadId) -> None:
        """It is idle here only once this one has come to its end."""
        self._unfinished.append(workload)

    def is_idle(self) -> bool:
        while self._unfinished and self._is_over(self._unfinished[0]):
            self._unfinished.popleft()
        return not self._unfinished

    def _is_over(self, workload: WorkloadId) -> bool:
        report = self.report(workload)
        if report is None:
            return not self.is_declared(workload)
        return report.phase in HOLDS_NOTHING

    def is_settled(self) -> bool:
        """No pod is starting or stopping, and none has been promised a place."""
        return not any(
            report.phase is WorkloadPhase.DELETING or any(pod.phase in UNDER_WAY for pod in report.pods)
            for report in self.reports().values()
        )

    def gpus_held_milli(self) -> int:
        return sum(report.gpus_milli for report in self.reports().values())

    def node_held_milli(self, node: NodeName) -> int:
        cache = self.loop.cache
        nodes = cache.observation.nodes if cache.observation is not None else {}
        records = (record for records in cache.pods.values() for record in records if record.node == node)
        return sum(gpus_held_milli(record, nodes) for record in records)

    def history(self) -> list[EventReport]:
        """Everything that has happened, as reported to the control plane."""
        return self.control.events()

    # --- submit ---

    def submit(self, spec: WorkloadSpec) -> Problem | None:
        answer = self.control.submit(replace(spec, created_at=self.now))
        self.watch_for_end_of(spec.id)
        return answer
