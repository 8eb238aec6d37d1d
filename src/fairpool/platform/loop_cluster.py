"""A cluster with a scheduling loop, wherever its pods run: loop, ledger, link to the control plane, samples, questions.

`LocalCluster` is one on this machine, `KubernetesCluster` one on Kubernetes. Both pass what connects it to a control
plane: the same two calls, over HTTP or within the process.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fairpool.api.cluster_equipment import EquipmentAnswer, EquipmentReport
from fairpool.api.exposition import ProcessFigure
from fairpool.cluster.control_link import ControlPlane
from fairpool.cluster.cycle_ring import CycleRing
from fairpool.cluster.history import Event
from fairpool.cluster.known_ends import KnownEnds
from fairpool.cluster.ledger import Ledger
from fairpool.cluster.link_threads import LinkThreads
from fairpool.cluster.live_snapshots import LiveSnapshots
from fairpool.cluster.loop import Loop
from fairpool.cluster.questions import Questions
from fairpool.cluster.sampling import SampleReceiver, Sampling
from fairpool.cluster.workload_state import WorkloadState
from fairpool.control.pod_access import PodAccess
from fairpool.engines.port import Engine, Samples
from fairpool.model.ids import SECOND_MS, PodId, PoolName, QueueId, WorkloadId, place_of
from fairpool.model.node import SIMULATED_LABEL
from fairpool.model.observation import PodState
from fairpool.model.organization import ProjectRules
from fairpool.model.spec import WorkloadSpec
from fairpool.platform.loop_figures import LoopFigures, RunningJob, job_series
from fairpool.platform.loop_thread import LoopThread, note_event, now, steady_ms
from fairpool.platform.secret_source import ControlSecrets, SecretCalls
from fairpool.scheduler.decision import Plan
from fairpool.scheduler.snapshot import Snapshot

log = logging.getLogger("fairpool.up")

STOP_TIMEOUT_S = 10.0
CYCLES = "cycles"
"""The directory of past cycles, beside the ledger."""


class ControlCalls(ControlPlane, SecretCalls, SampleReceiver, Protocol):
    """Pull, push, secrets, samples and equipment, which `close` ends from any thread."""

    def equipment(self, report: EquipmentReport) -> EquipmentAnswer:
        """Raises `ControlPlaneUnreachable`."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPeer:
    """The control plane, as a cluster is connected to it."""

    cluster: str
    """The name of the cluster there."""
    connect: Callable[[], ControlCalls]
    """Another connection, for another thread."""


@dataclass(slots=True)
class Scheduling:
    """The scheduling loop and what it needs."""

    ledger: Ledger
    link: LinkThreads
    pulls: ControlCalls
    pushes: ControlCalls
    secrets: ControlCalls
    loop_thread: LoopThread
    sampling: Sampling

    def start(self) -> None:
        self.link.open()
        self.loop_thread.start()
        self.sampling.start()

    def stop(self) -> bool:
        """Blocks; an in-process control plane must still be running. Pods are not affected.

        False: its thread has not ended, so nothing that it may still use can be closed.
        """
        self.sampling.close(STOP_TIMEOUT_S)
        self.pulls.close()  # ends the pull that is held
        self.secrets.close()
        if not self.loop_thread.stop(STOP_TIMEOUT_S):
            log.error("the scheduling loop did not finish within %g s; exiting without it", STOP_TIMEOUT_S)
            return False
        self.pushes.close()
        self.link.close(STOP_TIMEOUT_S)
        self.ledger.close()
        return True


class LoopCluster(ABC):
    """Runs a scheduling loop on an engine."""

    report_delay_ms = 0
    """See `Loop`."""

    def __init__(
        self, engine: Engine, samples: Samples, pod_access: PodAccess, folder: Path, figures: LoopFigures | None
    ) -> None:
        """`folder`: where past cycles are kept. `figures`: of a process that is nothing but this cluster."""
        self._loop_engine, self._samples, self.pod_access = engine, samples, pod_access
        self._scheduling: Scheduling | None = None
        self._is_stuck = False
        self._ring = CycleRing(folder / CYCLES)
        self._live = LiveSnapshots(self._ring.offer)
        self.figures = figures or LoopFigures()
        self.figures.watch(self._figures)
        ends = KnownEnds(self._spec_of, self._state_of, self._rules_of, self._reports)
        self.questions = Questions(self._live, self._spec_of, now, self._ring, ends)

    # --- what differs ---

    @abstractmethod
    def close(self) -> None:
        """Pods are not affected."""

    @abstractmethod
    async def end_access(self) -> None:
        """Called when the tunnel is closed, in its event loop."""

    @abstractmethod
    def _open_ledger(self) -> Ledger:
        """Blocks. Raises `LedgerProblem` or `LedgerUnavailable`."""

    @abstractmethod
    def _take_secrets(self, source: ControlSecrets) -> None:
        """Where pods get their secrets from."""

    @abstractmethod
    def _reports(self, pod: PodId) -> Mapping[str, Any]:
        """What a job reports about itself."""

    @property
    @abstractmethod
    def _engine_error(self) -> str:
        """Why the engine makes no progress; empty while it does."""

    def _more_figures(self) -> Iterator[ProcessFigure]:
        """About what only this kind of cluster has."""
        yield from ()

    def _more_status(self) -> Mapping[str, Any]:
        """The same for `fairpool status`."""
        return {}

    # --- the loop ---

    @asynccontextmanager
    async def scheduling(
        self, control: ControlPeer, holder: str, on_step_down: Callable[[str], None]
    ) -> AsyncIterator[None]:
        """Run the scheduling loop; `on_step_down` is called on this event loop if another one has taken over.

        `holder` is the name of the lease's holder, the same for every process on one data directory: its lock makes
        sure that there is only one.
        """
        event_loop = asyncio.get_running_loop()
        pulls, pushes, secrets = control.connect(), control.connect(), control.connect()
        self._take_secrets(ControlSecrets(secrets))
        link = LinkThreads(pulls, pushes, control.cluster, now, self._loop_engine.wake)
        ledger = await asyncio.to_thread(self._open_ledger)
        sampling = Sampling(self._samples, control.connect(), now, steady_ms=steady_ms)

        def make_loop() -> Loop:
            link.start_over()
            return Loop(
                ledger,
                self._loop_engine,
                link,
                now,
                holder=holder,
                report_delay_ms=self.report_delay_ms,
                on_event=self._note_event,
                on_snapshot=self._note_snapshot,
                steady_ms=steady_ms,
                on_plan=self._note_plan,
                on_step=self._note_step,
                idle=sampling.idle,
            )

        def step_down(why: str) -> None:
            event_loop.call_soon_threadsafe(on_step_down, why)

        loop_thread = await asyncio.to_thread(
            LoopThread, make_loop, self._loop_engine, step_down, self.figures.note_cycle
        )
        self._scheduling = Scheduling(ledger, link, pulls, pushes, secrets, loop_thread, sampling)
        self._scheduling.start()
        self._ring.start()
        try:
            yield
        finally:
            self._is_stuck = not await asyncio.to_thread(self._scheduling.stop)
            await asyncio.to_thread(self._ring.stop, STOP_TIMEOUT_S)

    def _note_step(self, step: str) -> None:
        """Called by the loop's thread."""
        self.figures.note_step(step)

    def _note_event(self, event: Event, spec: WorkloadSpec | None) -> None:
        """Called by the loop's thread."""
        note_event(event, spec)

    def _note_snapshot(self, pool: PoolName, snapshot: Snapshot) -> None:
        self._live.note(pool, snapshot)
        self.figures.note_snapshot(pool, snapshot)

    def _note_plan(self, pool: PoolName, snapshot: Snapshot, planned: Plan) -> None:
        self.figures.note_plan(pool, snapshot, planned)
        self._live.note_plan(pool, snapshot, planned)

    def _spec_of(self, workload: WorkloadId) -> WorkloadSpec | None:
        """From any thread, as the next two: a lookup in a dictionary of immutable values."""
        return self._scheduling.loop_thread.loop.cache.specs.get(workload) if self._scheduling is not None else None

    def _state_of(self, workload: WorkloadId) -> WorkloadState | None:
        return self._scheduling.loop_thread.loop.cache.states.get(workload) if self._scheduling is not None else None

    def _rules_of(self, project: QueueId) -> ProjectRules:
        if self._scheduling is None:
            return ProjectRules()
        return self._scheduling.loop_thread.loop.cache.organization.rules.get(project, ProjectRules())

    @property
    def is_settled(self) -> bool:
        """The loop has run until nothing was left to do, at least once."""
        return self._scheduling is not None and self._scheduling.loop_thread.is_settled.is_set()

    @property
    def is_ready(self) -> bool:
        return self.is_settled and self._scheduling is not None and self._scheduling.loop_thread.is_alive

    def series(self, own: bool, jobs: Callable[[str], bool] | None, cluster: str = "") -> str:
        """For Prometheus: figures of the loop, and what jobs report, of the projects for which this is true."""
        found = self.figures.text if own else ""
        return found if jobs is None else found + job_series(self._running_jobs(jobs), cluster)

    def _running_jobs(self, sees: Callable[[str], bool]) -> Iterator[RunningJob]:
        if self._scheduling is None:
            return
        cache = self._scheduling.loop_thread.loop.cache
        observation = cache.observation  # the loop may replace it meanwhile
        for pod, each in observation.pods.items() if observation is not None else ():
            spec = cache.specs.get(each.order.workload) if each.state is PodState.RUNNING else None
            if spec is not None and sees(spec.project):
                index, incarnation = place_of(spec.id, pod) or (0, 0)
                yield RunningJob(
                    workload=spec.id,
                    name=spec.name,
                    project=spec.project,
                    pod=f"{spec.name}-{index}-{incarnation}",
                    reports=self._reports(pod),
                )

    def _figures(self) -> Iterator[ProcessFigure]:
        """What is looked up about the loop and its engine."""
        if self._scheduling is None:
            return
        thread, sampling = self._scheduling.loop_thread, self._scheduling.sampling
        observation = thread.loop.cache.observation
        states = [each.state for each in observation.pods.values()] if observation is not None else []
        lease_s = max(0, now() - thread.loop.lease_renewed_at) / SECOND_MS
        is_failing = bool(thread.loop.error or self._engine_error)  # without a link it goes on
        yield ProcessFigure("fairpool_loop_cycles", "Cycles of the scheduling loop", thread.cycles, True)
        yield ProcessFigure("fairpool_loop_last_cycle_seconds", "Time since its latest cycle", thread.last_cycle_ago_s)
        yield ProcessFigure("fairpool_loop_restarts", "Loops that failed and were replaced", thread.restarts, True)
        yield ProcessFigure("fairpool_loop_failing", "Whether it makes no progress", int(is_failing))
        yield ProcessFigure("fairpool_loop_leading", "Whether this process holds the lease", int(thread.is_alive))
        yield ProcessFigure("fairpool_loop_lease_age_seconds", "Time since the lease was renewed", lease_s)
        yield ProcessFigure(
            "fairpool_link_failing", "Whether no control plane answers", int(bool(thread.loop.link_error))
        )
        yield ProcessFigure("fairpool_reports_waiting", "Events not acknowledged yet", thread.loop.reports_waiting)
        yield ProcessFigure("fairpool_sampling_taken", "Samples that were taken", sampling.taken, True)
        yield ProcessFigure("fairpool_sampling_dropped", "Samples that could not be sent", sampling.dropped, True)
        yield ProcessFigure("fairpool_sampling_waiting", "Samples that are not sent yet", sampling.waiting)
        yield ProcessFigure("fairpool_pods_running", "Pods that run here", states.count(PodState.RUNNING))
        yield ProcessFigure("fairpool_pods_starting", "Pods that start here", states.count(PodState.STARTING))
        yield from self._more_figures()

    def status(self) -> Mapping[str, Any]:
        """For `fairpool status`."""
        assert self._scheduling is not None
        loop_thread = self._scheduling.loop_thread
        observation = loop_thread.loop.cache.observation
        states = [each.state.value for each in observation.pods.values()] if observation is not None else []
        return {
            "loop": {
                "is_alive": loop_thread.is_alive,
                "error": loop_thread.error or self._engine_error,
                "cycles": loop_thread.cycles,
                "last_cycle_at_ms": loop_thread.last_cycle_at,
                "last_cycle_ago_s": loop_thread.last_cycle_ago_s,
            },
            "nodes": [
                {
                    "name": each.node.name,
                    "gpus": each.node.gpus,
                    "withheld": list(each.node.gpus_withheld),
                    "words": each.message,
                    "is_simulated": each.node.labels.get(SIMULATED_LABEL) == "true",
                }
                for each in (observation.nodes.values() if observation is not None else ())
            ],
            "pods": {state: states.count(state) for state in ("starting", "running", "exited")},
            **self._more_status(),
        }
