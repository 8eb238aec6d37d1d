"""A simulated world by seed: nodes, projects, arrivals, users, faults, and crashes between any two lines.

First anything may fail and nothing wrong may happen. Then faults stop, and everything that can run must run.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from random import Random
from typing import Protocol

from fairpool.api.clusters import WorkloadReport
from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.cycle import CycleInput, cycle
from fairpool.cluster.ledger import BEFORE_BEGIN, BEFORE_COMMIT, LeaseHeld, LedgerEntry, LedgerUnavailable
from fairpool.cluster.ledger_cache import LedgerCache
from fairpool.cluster.loop import LeadershipLost, Loop
from fairpool.cluster.planning import NEXT_POOL_S
from fairpool.cluster.report_queue import PIECE_ROWS
from fairpool.cluster.workload_state import WorkloadState
from fairpool.control.usage_periods import LAG_MS, next_hour, set_summed
from fairpool.engines.simulated.traces import Arrival
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PodId, Revision, Token, WorkloadId
from fairpool.model.organization import Organization
from fairpool.model.spec import DesiredState, RestartPolicy, WorkloadSpec
from fairpool.model.status import HOLDS_NOTHING, WaitReason, WorkloadPhase
from fairpool.model.workload import WorkloadKind
from fairpool.scheduler.decision import Verdict
from fairpool.simulation.control_driver import ControlDriver
from tests.fault_injection.faults import Faults
from tests.fault_injection.random_faults import INSTEAD
from tests.fault_injection.random_workloads import random_behaviour
from tests.fault_injection.skewed_clock import SkewedClock
from tests.simulation import checks, quiet_checks
from tests.simulation.control import FaultyControl
from tests.simulation.event_log import EventLog
from tests.simulation.feasibility import could_run
from tests.simulation.ledger_audit import LedgerAudit, WatchedLedger, overtaken, unreported_events
from tests.simulation.random_cluster import (
    NodeChanges,
    in_pools,
    random_arrivals,
    random_nodes,
    random_organization,
    with_grace,
)
from tests.simulation.record import EngineRecord, RecordedEngine, RecordedNetwork
from tests.simulation.usage_audit import UsageAudit
from tests.simulation.users import RandomUsers

START = Instant(1_000_000_000)
CLUSTER = "cluster"
CYCLES_MAX = 40
"""Cycles at one moment; a loop that needs more never comes to rest."""
LEASE_S = 15
HOURS_MAX = 72
"""Within so many quiet hours everything has come to rest."""


HOLD_UP_ORDERS = tuple(
    each.name
    for each in fields(Faults)
    if each.name.startswith(("observe", "away", "slow", "order", "answer", "put_off", "loop", "second", "disk"))
    or each.name.startswith(("clock", "control"))
)
"""Where none of these happen, an order that is owed has been given when the loop comes to rest."""


class Crash(BaseException):
    """The process of the loop dies here. Nothing may catch it."""


class Wrong(AssertionError):
    """Something happened that must never happen."""


class AnyLoop(Protocol):
    """The loop of a world, in this process or another."""

    error: str
    token: Token
    cache: LedgerCache

    def run_cycle(self) -> bool: ...

    def next_wake(self) -> Instant | None: ...


@dataclass(frozen=True, slots=True)
class Desired:
    """What was declared by a revision: read once, looked at often."""

    revision: Revision
    specs: dict[WorkloadId, WorkloadSpec]
    organization: Organization


class World:
    """A cluster, its users and its faults."""

    always_on_disk = False

    def __init__(self, seed: int, faults: Faults | None = None, workloads: int | None = None) -> None:
        self.seed = seed
        self.rng = Random(f"world {seed}")
        self.faults = Faults.swarm(seed) if faults is None else faults
        self.counts: Counter[str] = Counter()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.clock = self._new_clock()
        self.event_log = EventLog(START)
        self.record = EngineRecord()
        self.ledger_audit = LedgerAudit()
        self.usage_audit = UsageAudit(self.memory_mib)
        self._accountant = Random(f"sums {seed}")
        self.clock_jumped = False
        self.waits: dict[tuple[PodId, PodId], Instant] = {}
        """Since when a pod has been waiting for another to stop."""
        self._desired: Desired | None = None
        self._loses_ledger = self.rng.random() < 0.1
        self._on_disk = self.rng.random() < 0.1 or self.always_on_disk
        # Small pieces are many more messages, each with its crashes: they cost eight times as much.
        self._piece_rows = Random(f"pieces {seed}").choice((1, 2, 5, *[PIECE_ROWS] * 9))
        self._calm = False
        self._holder = 0
        self._interrupted = False
        self.wrong_entries: list[checks.Wrong] = []
        """What was wrong in an entry, until the cycle that wrote it is over."""
        self._build_cluster(workloads)
        self.ledger = self._new_ledger()
        self.loop: AnyLoop | None = None
        self._former: tuple[AnyLoop, WatchedLedger] | None = None
        """A loop that was overtaken and does not know it yet, with its own way to the ledger."""

    def _build_cluster(self, workloads: int | None) -> None:
        """Nodes, an organization, and the workloads that will be submitted."""
        seed, rng = self.seed, self.rng
        two_pools = rng.random() < 0.3
        nodes = random_nodes(rng)
        nodes = in_pools(nodes, rng) if two_pools else nodes
        self._memory_mib: dict[str, int] = {node.name: node.gpu_memory_mib for node in nodes}
        behaviour_of = random_behaviour(
            seed, run_s=(30, 2400), failing=rng.choice((0.02, 0.02, 0.2)), ignores_stop=self.faults.ignores_stop
        )
        self.engine = RecordedEngine(self.clock, nodes, behaviour_of, self.record)
        self.network = RecordedNetwork(self.engine, self.faults, Random(f"engine {seed}"), self.clock)
        self.node_changes = NodeChanges(self.engine, Random(f"workshop {seed}"), two_pools)
        self.control = self._new_control()
        organization = random_organization(rng, two_pools)
        self.control.declare(organization)
        self.usage_audit.declared(self.control.organization(), self.clock.now())
        self.wire = FaultyControl(self.control, self.faults, Random(f"control {seed}"), self.clock.now)
        self.users = RandomUsers(self.control, [node.name for node in nodes], Random(f"people {seed}"))
        count = workloads if workloads is not None else rng.randint(3, 12)
        gap_s = rng.choice((1, 30, 120))
        self.arrivals = random_arrivals(seed, organization, count, start=START, gap_s=gap_s, two_pools=two_pools)
        if self.faults.ignores_stop:
            self.arrivals = [with_grace(seed, arrival) for arrival in self.arrivals]

    def close(self) -> None:
        self.ledger.close()
        if self._former is not None:
            self._former[1].close()
        self.control.close()
        if self._folder is not None:
            self._folder.cleanup()

    # --- for tests ---

    @property
    def cache(self) -> LedgerCache:
        return self.loop.cache if self.loop is not None else LedgerCache(self.ledger.load())

    @property
    def desired(self) -> Desired:
        control = self.control
        if self._desired is None or self._desired.revision != control.revision:
            self._desired = Desired(control.revision, control.specs(), control.organization())
        return self._desired

    def memory_mib(self, node: NodeName) -> int:
        """GPU memory of a node; one that is offered instead of another is as large."""
        return self._memory_mib[node.partition(INSTEAD)[0]]

    def wall_now(self) -> Instant:
        return self.clock.wall.now()

    def run(self, hours: float) -> None:
        """Let time pass, with everything that goes wrong in it."""
        until = Instant(self.clock.now() + round(hours * 3600 * SECOND_MS))
        while self.clock.now() < until:
            self._submit_due()
            if not self._calm:
                self._interfere()
            if self._accountant.random() < 0.05:
                self._sum_hours()
            self._run_until_quiet()
            self.clock.set(Instant(max(self.clock.now(), min(until, self._next_moment()))))

    def calm(self) -> None:
        """From now on nothing goes wrong, and people leave things alone."""
        self._calm = True
        self.faults = Faults.none()
        self.network.calm()
        self.wire.faults = self.faults
        self.users.calm()

    def finish(self) -> None:
        """Run until nothing changes any more; then send away what never ends, and see the rest through."""
        self.run(hours=1)
        for spec in self.control.specs().values():
            if spec.kind is not WorkloadKind.INFERENCE and spec.restart is RestartPolicy.ALWAYS:
                self.control.delete(spec.id)  # it would go on beginning anew
        self._run_until_still()
        self.expect_settled()
        for spec in self.control.specs().values():
            if spec.kind is WorkloadKind.INFERENCE:
                self.control.delete(spec.id)
        self._run_until_still()
        self.expect_settled()
        self.expect_finished()

    def _run_until_still(self) -> None:
        for _ in range(HOURS_MAX):
            self.run(hours=1)
            wake = self.loop.next_wake() if self.loop is not None else Instant(0)
            if wake is None and self.engine.next_change_at is None and not self.arrivals:
                return
        self.fail(f"things still change after {HOURS_MAX} h")

    def expect_settled(self) -> None:
        self.expect_same_from_scratch()
        self._require(checks.ledger_and_engine_agree(self))
        self._require(checks.promises_are_kept_or_given_up(self))
        self._require(quiet_checks.failures_have_an_end(self))
        self._require(quiet_checks.reports_are_true(self))
        self._require(unreported_events(self.ledger_audit, self.control.events()))
        if self.ledger_audit.is_complete and not self.ledger_audit.has_gaps:
            self._require(self.usage_audit.differences(self.control, self.clock.now(), clock_jumped=self.clock_jumped))
        cache = self.cache
        for workload, spec in self.control.specs().items():
            report = self.control.workload(workload)
            if report is None or report != cache.reports.get(workload):
                self.fail(f"the control plane does not know the state of {workload}", workload)
            elif spec.desired_state is DesiredState.DELETE:
                self.fail(f"{workload} was deleted long ago and is still there", workload)
            elif report.phase is WorkloadPhase.PENDING and not _verdicts(cache, workload):
                self.fail(f"{workload} waits without a reason", workload)
            elif report.phase in (WorkloadPhase.INITIALIZING, WorkloadPhase.DELETING, WorkloadPhase.CREATING):
                self.fail(f"{workload} is still {report.phase.value}: {report.detail}", workload)
        for workload, pods in cache.pods.items():
            if len(pods) > len({pod.index for pod in pods}) and not any(not pod.is_over for pod in pods):
                self.fail(f"{workload} keeps pods that are not needed", workload)

    def expect_same_from_scratch(self) -> None:
        """A loop that has just started, and looks at everything, would change nothing."""
        if self.loop is None or self.loop.cache.observation is None:
            return
        cache = self.loop.cache
        soon = Instant(self.wall_now() + NEXT_POOL_S * SECOND_MS)
        if cache.pools_tried and cache.quiet_until is not None and cache.quiet_until <= soon:
            return  # a workload is about to try the next pool, which a new loop would do at once
        observation = self.engine.observe(self.loop.token)
        fresh = LedgerCache(self.ledger.load())
        fresh.stops_confirmed = dict(cache.stops_confirmed)
        draft = cycle(fresh, CycleInput(now=self.wall_now(), observation=observation))
        changed = [pod.id for pod in draft.changed_pods()]
        states = [each for each in draft.states.values() if not _is_same_but_for_pool(each, cache)]
        if changed or states:
            self.fail(f"recomputed, these change: {changed} {states}", *draft.pods)
        for workload in sorted(cache.reports.keys() | draft.reports.keys()):
            reported, true = (
                _report(reports, workload, cache.specs.get(workload)) for reports in (cache.reports, draft.reports)
            )
            differ = [name for name in reported.keys() | true.keys() if reported.get(name) != true.get(name)]
            if differ:
                words = ", ".join(f"{name} was {reported.get(name)} and is {true.get(name)}" for name in sorted(differ))
                self.fail(f"recomputed, {workload} is not as it was reported: {words}", workload)
        wakes = {workload for workload, wake in draft.wakes.items() if wake is not None}
        if wakes != cache.wakes.keys():
            waits = [
                (each, cache.wakes.get(each), draft.wakes.get(each)) for each in sorted(wakes ^ cache.wakes.keys())
            ]
            self.fail(f"recomputed at {self.wall_now()}, others wait for a time: {waits}", waits[0][0])
        if cache.verdicts.keys() != draft.verdicts.keys():
            differ = sorted(cache.verdicts.keys() ^ draft.verdicts.keys())
            self.fail(f"recomputed, others wait for a place: {differ}", *map(_owner, differ))

    def expect_finished(self) -> None:
        """Everything that has an end has come to it, except what can never run here."""
        cache = self.cache
        for workload in self.control.specs():
            report = self.control.workload(workload)
            if report is None or report.phase not in HOLDS_NOTHING:
                said = [each.why for each in _verdicts(cache, workload)]
                if not said or could_run(cache, workload, self.engine):
                    self.fail(f"{workload} has not come to its end: {report and report.phase} {said}", workload)
        alive = [pod.id for pods in cache.pods.values() for pod in pods if pod.is_placed]
        if alive:
            self.fail(f"still there: {alive}")

    def fail(self, what: str, *concerned: WorkloadId | None) -> None:
        names = [each for each in concerned if each is not None]
        raise Wrong(f"seed {self.seed}: {what}\n{self.event_log.about(names)}")

    # --- the loop and its faults ---

    def _run_until_quiet(self) -> None:
        self._run_former_cycle()
        for _ in range(CYCLES_MAX):
            now = self.clock.now()
            if not self._run_cycle():
                if self.loop is not None and not self.loop.error and self.clock.now() == now:
                    self._look_around(self.loop)
                return
        if self._calm:
            self.fail("the loop does not come to rest")

    def _look_around(self, loop: AnyLoop) -> None:
        """The loop has nothing to do at this moment."""
        if self.rng.random() < 0.02:
            self.counts["recomputed"] += 1
            self.expect_same_from_scratch()
        if loop.cache.cursor != self.control.revision:
            return
        if self._calm:
            self._require(quiet_checks.no_pod_overstays(self))
        if self._calm or not any(getattr(self.faults, each) for each in HOLD_UP_ORDERS):
            self._require(quiet_checks.quota_comes_back_in_time(self))

    def _run_cycle(self) -> bool:
        running, ledger = self.loop, self.ledger
        try:
            if running is None:
                running = self.loop = self._new_loop()
            worked = running.run_cycle()
        except Crash:
            self._ended(running, ledger, "crashes")
            return self.rng.random() < 0.5  # it is there again at once, or a moment later
        except LeadershipLost:
            self._ended(running, ledger, "stepped down")
            return True
        except (LeaseHeld, LedgerUnavailable):
            return False
        self.counts["cycles"] += worked
        if worked:
            self._require(checks.all_violations(self))
        return worked and not running.error

    def _run_former_cycle(self) -> None:
        """A loop that was overtaken wakes up: it may look and find nothing to do, but never gets anything done."""
        if self._former is None:
            return
        loop, ledger = self._former
        self._interrupted = True
        try:
            worked = loop.run_cycle()
        except LeadershipLost:
            self._ended(loop, ledger, "stepped down")
            return
        finally:
            self._interrupted = False
        if worked and not loop.error:
            self.fail("a loop that was overtaken goes on as if nothing had happened")

    def _new_loop(self) -> AnyLoop:
        link = ControlLink(self.wire, CLUSTER, piece_rows=self._piece_rows, on_step=self._between)
        holder = f"loop-{self._holder}"
        return Loop(
            self.ledger,
            self.network,
            link,
            self.clock.wall.now,
            holder=holder,
            on_step=self._between,
            steady_ms=self.clock.now,
        )

    def _ended(self, loop: AnyLoop | None, ledger: WatchedLedger, how: str) -> None:
        """A loop is no more. If another one had taken over, that one goes on."""
        self.counts[how] += 1
        self.event_log.note(self.clock.now(), f"the loop {how}")
        self.usage_audit.loop_ended()
        if self._former is not None and loop is self._former[0]:
            self._former = None
        elif loop is self.loop:
            self.loop = None
        if self._on_disk:
            ledger.close()
            if ledger is self.ledger:
                self.ledger = self._new_ledger()

    def _between(self, step: str) -> None:
        """Between any two lines of the loop: it may die, or be overtaken by another one."""
        if self._calm or self._interrupted:
            return
        if self.rng.random() < self.faults.loop_crash:
            self.event_log.note(self.clock.now(), f"crash: {step}")
            raise Crash(step)
        if self.rng.random() < self.faults.second_loop:
            self._overtake(step)

    def _overtake(self, step: str) -> None:
        """The loop is held up here for longer than its lease; another one takes over, then the first goes on."""
        if self.loop is None or self._former is not None:
            return
        self._interrupted = True
        self.event_log.note(self.clock.now(), f"a second loop takes over: {step}")
        self.clock.advance(LEASE_S + self.rng.uniform(0, 5))
        self._holder += 1
        self.counts["second loops"] += 1
        held_up = (self.loop, self.ledger)
        if self._on_disk:
            self.ledger = self._new_ledger()
        try:
            self.loop = self._new_loop()
            self._former = held_up
            self.loop.run_cycle()
            self.loop.run_cycle()
        except (LeaseHeld, LedgerUnavailable):  # it could not take over
            if self._on_disk:
                self.ledger.close()
            self.loop, self.ledger = held_up
        finally:
            self._interrupted = False

    def _in_ledger(self, step: str) -> None:
        if self._calm or self._interrupted:
            return
        if step == BEFORE_COMMIT and self.rng.random() < self.faults.disk_full:
            self.counts["full disks"] += 1
            full = sqlite3.OperationalError("database or disk is full")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise full
        if step == BEFORE_BEGIN and self.rng.random() < self.faults.disk_full:
            self.counts["busy disks"] += 1
            busy = sqlite3.OperationalError("database is locked")
            busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise busy
        if self.rng.random() < self.faults.loop_crash:
            self.event_log.note(self.clock.now(), f"crash in the ledger: {step}")
            raise Crash(step)

    def _new_ledger(self) -> WatchedLedger:
        path = self._path("ledger.db")
        return WatchedLedger(
            path,
            lease_s=LEASE_S,
            between=self._in_ledger,
            written=self._note_written,
            started_over=self._note_started_over,
        )

    def _new_clock(self) -> SkewedClock:
        return SkewedClock(START)

    def _new_control(self) -> ControlDriver:
        return ControlDriver(self.clock.now, self._path("control.db"), cluster=CLUSTER)

    def _path(self, name: str) -> Path | None:
        return self.folder / name if self._on_disk else None

    @property
    def folder(self) -> Path:
        if self._folder is None:
            in_memory = "/dev/shm"  # a process that is killed loses nothing in it, and none waits for a disk
            self._folder = tempfile.TemporaryDirectory(dir=in_memory if os.access(in_memory, os.W_OK) else None)
        return Path(self._folder.name)

    def _note_written(self, entry: LedgerEntry, token: Token, now: Instant) -> None:
        """An entry is in the ledger: this is what the loop knew, and what it made of it."""
        self.event_log.record(now, entry.events)
        self.usage_audit.take_in(entry, Instant(now - self.clock.wall.off_by_ms))
        self.network.spare_records(False)
        loops = (self.loop, self._former[0] if self._former is not None else None)
        cache = next(loop.cache for loop in loops if loop is not None and loop.token == token)
        if entry.organization is None:
            self.wrong_entries += overtaken(cache, entry, now)
        self.record.looked(self.engine.shown[token], self.ledger_audit.phase_of)
        self.wrong_entries += self.ledger_audit.take_in(entry, now)

    def _note_started_over(self) -> None:
        """A loop does not believe its ledger. It may, where one was lost and reports of the lost one come late."""
        self.counts["started over"] += 1
        if self.ledger_audit.is_complete:
            self.wrong_entries.append(("a loop gave up a ledger with which nothing was wrong", None))
        self.ledger_audit.has_gaps = True
        self.engine.find_all()
        self._forget()

    # --- users, nodes and clocks ---

    def _submit_due(self) -> None:
        while self.arrivals and self.arrivals[0].at <= self.clock.now():
            arrival = self.arrivals.pop(0)
            projects = self.control.projects()
            spec = arrival.spec if arrival.spec.project in projects else replace(arrival.spec, project=projects[0])
            self.record.declare(spec)
            refused = self.control.submit(spec)
            assert refused is None, refused
            self.counts["workloads"] += 1

    def _interfere(self) -> None:
        if self.rng.random() < 0.05:
            self.users.act()
            self.usage_audit.declared(self.control.organization(), self.clock.now())
        if self.rng.random() < 0.01:
            self.counts["machines changed"] += 1
            self.event_log.note(self.clock.now(), self.node_changes.act())
        if self._on_disk and self.rng.random() < 0.02:
            self._restart_control()
        if self.rng.random() < self.faults.clock_jump:
            self.clock_jumped = True
            seconds = self.rng.choice((-3600, -60, -5, 5, 60, 3600))
            self.clock.jump(seconds)
            self.usage_audit.clock_set(seconds * SECOND_MS, runs=self.loop is not None)
            self.counts["clock jumps"] += 1
        if self._loses_ledger and self.rng.random() < 0.02:
            self.lose_ledger()

    def lose_ledger(self) -> None:
        """The disk of the ledger is gone, and with it the loop."""
        self._loses_ledger = False
        self.counts["lost ledgers"] += 1
        self.event_log.note(self.clock.now(), "the ledger's disk is lost")
        self.loop = None
        self.ledger.close()
        if self._former is not None:
            self._former[1].close()
            self._former = None
        path = self._path("ledger.db")
        if path is not None:
            for each in path.parent.glob("ledger.db*"):
                each.unlink()
        self._forget()
        self.engine.find_all()  # a new loop looks for everything: two losses at once are not survived
        self.network.spare_records(True)
        self.ledger = self._new_ledger()

    def _forget(self) -> None:
        """What only the ledger knew cannot be checked any more."""
        known = [(report.id, index) for report in self.control.workloads() for index in report.done]
        self.record.forget(known)
        self.ledger_audit.forget()

    def _restart_control(self) -> None:
        """The control plane goes on from its file."""
        self.counts["control plane restarts"] += 1
        self.control.close()
        self.control = self.wire.control = self.users.control = self._new_control()

    def _sum_hours(self) -> None:
        """As the control plane does in the background, but without its delay: many reports come after that."""
        database, now = self.control._database, Instant(self.clock.now() + LAG_MS)
        while (hour := database.read_now(lambda connection: next_hour(connection, now))) is not None:
            summed = hour.summed(None)
            database.write_now(lambda connection, summed=summed: set_summed(connection, summed))  # type: ignore[misc]
            self.counts["hours summed"] += 1

    def _next_moment(self) -> Instant:
        """The next time at which something happens, at most half a minute ahead while things go wrong."""
        now = self.clock.now()
        moments = [arrival.at for arrival in self.arrivals[:1]]
        change = self.engine.next_change_at
        if change is not None:
            moments.append(change)
        wake = self.loop.next_wake() if self.loop is not None else Instant(0)
        if wake is not None:
            off_by_ms = self.wall_now() - now
            moments.append(Instant(wake - off_by_ms))
        if not self._calm:
            moments.append(Instant(now + round(self.rng.uniform(1, 30) * SECOND_MS)))
        moments.append(Instant(now + 600 * SECOND_MS))
        return max(min(moments), Instant(now + 200))

    def _require(self, wrong: Iterable[checks.Wrong]) -> None:
        for what, workload in wrong:
            self.fail(what, workload)


def _verdicts(cache: LedgerCache, workload: WorkloadId) -> list[Verdict]:
    return [verdict for group, verdict in cache.verdicts.items() if _owner(group) == workload]


def _owner(group: str) -> WorkloadId:
    return WorkloadId(group.partition("/")[0])


def _is_same_but_for_pool(state: WorkloadState, cache: LedgerCache) -> bool:
    """A loop that has just started begins another round through the pools of those that wait."""
    known = cache.states.get(state.workload)
    several = len(cache.specs[state.workload].pools) > 1
    return several and known is not None and replace(state, pool=None) == replace(known, pool=None)


def _report(
    reports: Mapping[WorkloadId, WorkloadReport], workload: WorkloadId, spec: WorkloadSpec | None
) -> dict[str, object]:
    """Its report; of a waiting one without text and figures, which are reported less often than they change."""
    report = reports.get(workload)
    if report is None:
        return {}
    fields: dict[str, object] = dict(report)
    if report.reason is WaitReason.QUEUED:
        del fields["detail"]
        fields["wait"] = report.wait and report.wait.cause
    if spec is not None and len(spec.pools) > 1:
        del fields["pool"], fields["wait"]
    return fields


__all__ = ["Arrival", "World", "Wrong"]
