"""One seed makes the world: nodes, projects, arrivals, what people do, faults, and crashes between any two lines.

First anything may fail and nothing wrong may happen. Then faults stop, and everything that can run must run.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from fairpool.cluster.books import Books
from fairpool.cluster.cycle import View, cycle
from fairpool.cluster.ledger import BEFORE_COMMIT, DiskTrouble, Entry, LeaseHeld, Ledger
from fairpool.cluster.link import Link
from fairpool.cluster.loop import Loop, SteppedDown
from fairpool.control.stand_in import StandIn
from fairpool.engines.simulated.behaviour import seeded
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.engines.simulated.faults import Faults
from fairpool.engines.simulated.traces import Arrival, arrivals
from fairpool.engines.simulated.unreliable import FaultyEngine
from fairpool.model.ids import SECOND_MS, Instant, NodeName, QueueId, Token, WorkloadId
from fairpool.model.node import DEFAULT_POOL, Node
from fairpool.model.organization import Organization, OverQuota, ProjectRules, Queue, gpu_entitlement
from fairpool.model.spec import Want
from fairpool.model.status import HOLDS_NOTHING, WorkloadPhase
from fairpool.model.workload import WorkloadKind
from fairpool.scheduler.decision import Verdict
from tests.simulation import checks
from tests.simulation.control import FaultyControl
from tests.simulation.feasibility import could_run
from tests.simulation.people import People
from tests.simulation.story import Story

START = Instant(1_000_000_000)
CLUSTER = "cluster"
TURNS_MAX = 40
"""Turns at one moment; a loop that needs more never comes to rest."""
LEASE_S = 15
HOURS_MAX = 72
"""Within so many quiet hours everything has come to rest."""


class Crash(BaseException):
    """The process of the loop dies here. Nobody may catch it."""


class Wrong(AssertionError):
    """Something happened that must never happen."""


class WatchedLedger(Ledger):
    """A ledger that tells the story of what is written in it."""

    def __init__(self, path: Path | None, story: Story, between: Callable[[str], None]) -> None:
        super().__init__(path, between=between, lease_s=LEASE_S)
        self._story = story

    def record(self, entry: Entry, token: Token, now: Instant) -> None:
        super().record(entry, token, now)
        self._story.record(now, entry.events)


class World:
    """A cluster, its people and its bad luck."""

    def __init__(self, seed: int, faults: Faults | None = None, workloads: int | None = None) -> None:
        self.seed = seed
        self.dice = Random(f"world {seed}")
        self.faults = Faults.swarm(seed) if faults is None else faults
        self.counts: Counter[str] = Counter()
        self.clock = VirtualClock(START)
        self.story = Story(START)
        nodes = _nodes(self.dice)
        self.memory_mib: dict[NodeName, int] = {node.name: node.gpu_memory_mib for node in nodes}
        self.engine = SimulatedEngine(self.clock, nodes, seeded(seed, run_s=(30, 2400)))
        self.network = FaultyEngine(self.engine, self.faults, Random(f"engine {seed}"), self.clock)
        self.control = StandIn()
        projects = self._organize()
        self.wire = FaultyControl(self.control, self.faults, Random(f"control {seed}"))
        self.people = People(self.control, [node.name for node in nodes], Random(f"people {seed}"))
        count = workloads if workloads is not None else self.dice.randint(3, 18)
        self.arrivals = arrivals(seed, projects, count, start=START, gap_s=self.dice.choice((1, 30, 120)))
        self._loses_ledger = self.dice.random() < 0.1
        self._on_disk = self.dice.random() < 0.1
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._calm = False
        self._holder = 0
        self._interrupted = False
        self.ledger = self._new_ledger()
        self.loop: Loop | None = None

    def close(self) -> None:
        self.ledger.close()
        self.control.close()
        if self._folder is not None:
            self._folder.cleanup()

    # --- what a test asks ---

    @property
    def books(self) -> Books:
        return self.loop.books if self.loop is not None else Books(self.ledger.load())

    def wall_now(self) -> Instant:
        return self.clock.wall.now()

    def run(self, hours: float) -> None:
        """Let time pass, with everything that goes wrong in it."""
        until = Instant(self.clock.now() + round(hours * 3600 * SECOND_MS))
        while self.clock.now() < until:
            self._submit_due()
            if not self._calm:
                self._interfere()
            self._turn_until_quiet()
            self.clock.set(Instant(max(self.clock.now(), min(until, self._next_moment()))))

    def calm(self) -> None:
        """From now on nothing goes wrong, and people leave things alone."""
        self._calm = True
        self.faults = Faults.none()
        self.network.calm()
        self.wire.faults = self.faults
        self.people.calm()

    def finish(self) -> None:
        """Run until nothing changes any more; then send away what never ends, and see the rest through."""
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
        books = self.books
        for workload, spec in self.control.specs().items():
            level = self.control.workload(workload)
            if level is None or level != books.levels.get(workload):
                self.fail(f"the control plane does not know how {workload} stands", workload)
            elif spec.want is Want.DELETE:
                self.fail(f"{workload} was deleted long ago and is still there", workload)
            elif level.phase is WorkloadPhase.PENDING and not _verdicts(books, workload):
                self.fail(f"{workload} waits and nobody says why", workload)
            elif level.phase in (WorkloadPhase.INITIALIZING, WorkloadPhase.DELETING, WorkloadPhase.CREATING):
                self.fail(f"{workload} is still {level.phase.value}: {level.detail}", workload)
        for workload, lives in books.lives.items():
            if len(lives) > len({life.index for life in lives}) and not any(not life.is_over for life in lives):
                self.fail(f"{workload} keeps lives that nobody needs", workload)

    def expect_same_from_scratch(self) -> None:
        """A loop that has just started, and looks at everything, would change nothing."""
        if self.loop is None or self.loop.books.observation is None:
            return
        observation = self.engine.observe(self.loop.token)
        fresh = Books(self.ledger.load())
        fresh.stops_confirmed = self.loop.books.stops_confirmed
        draft = cycle(fresh, View(now=self.wall_now(), observation=observation))
        changed = [life.id for life in draft.changed_lives()]
        if changed or draft.standings:
            self.fail(f"looked at anew, these change: {changed} {list(draft.standings)}", *draft.lives)

    def expect_finished(self) -> None:
        """Everything that has an end has come to it, except what can never run here."""
        books = self.books
        for workload in self.control.specs():
            level = self.control.workload(workload)
            if level is None or level.phase not in HOLDS_NOTHING:
                said = [each.why for each in _verdicts(books, workload)]
                if not said or could_run(books, workload, self.engine):
                    self.fail(f"{workload} has not come to its end: {level and level.phase} {said}", workload)
        alive = [life.id for lives in books.lives.values() for life in lives if life.is_placed]
        if alive:
            self.fail(f"still there: {alive}")

    def fail(self, what: str, *concerned: WorkloadId | None) -> None:
        names = [each for each in concerned if each is not None]
        raise Wrong(f"seed {self.seed}: {what}\n{self.story.about(names)}")

    # --- the loop and what befalls it ---

    def _turn_until_quiet(self) -> None:
        for _ in range(TURNS_MAX):
            if not self._turn():
                if self.loop is not None and not self.loop.trouble and self.dice.random() < 0.02:
                    self.counts["looked at anew"] += 1
                    self.expect_same_from_scratch()
                return
        if self._calm:
            self.fail("the loop does not come to rest")

    def _turn(self) -> bool:
        try:
            if self.loop is None:
                self.loop = self._new_loop()
            worked = self.loop.turn()
        except Crash:
            self._crashed("crashes")
            return True
        except SteppedDown:
            self._crashed("stepped down")
            return True
        except (LeaseHeld, DiskTrouble):
            return False
        self.counts["turns"] += worked
        if worked:
            self._require(checks.all_wrong(self))
        return worked and not self.loop.trouble

    def _new_loop(self) -> Loop:
        link = Link(self.wire, CLUSTER)
        holder = f"loop-{self._holder}"
        return Loop(self.ledger, self.network, link, self.clock.wall.now, holder=holder, between=self._between)

    def _crashed(self, how: str) -> None:
        self.counts[how] += 1
        self.story.tell(self.clock.now(), f"the loop {how}")
        self.loop = None
        if self._on_disk:
            self.ledger.close()
            self.ledger = self._new_ledger()

    def _between(self, step: str) -> None:
        """Between any two lines of the loop: it may die, or be overtaken by another one."""
        if self._calm or self._interrupted:
            return
        if self.dice.random() < self.faults.loop_crash:
            self.story.tell(self.clock.now(), f"crash: {step}")
            raise Crash(step)
        if self.dice.random() < self.faults.second_loop:
            self._overtake(step)

    def _overtake(self, step: str) -> None:
        """The loop is held up here for longer than its lease; another one takes over, then the first goes on."""
        self._interrupted = True
        self.story.tell(self.clock.now(), f"a second loop takes over: {step}")
        self.clock.advance(LEASE_S + self.dice.uniform(0, 5))
        self._holder += 1
        self.counts["second loops"] += 1
        held_up = self.loop
        try:
            self.loop = self._new_loop()
            self.loop.turn()
            self.loop.turn()
        except (LeaseHeld, SteppedDown, DiskTrouble):
            self.loop = held_up
        finally:
            self._interrupted = False
        self._second = self.loop

    def _in_ledger(self, step: str) -> None:
        if self._calm or self._interrupted:
            return
        if step == BEFORE_COMMIT and self.dice.random() < self.faults.disk_full:
            self.counts["full disks"] += 1
            full = sqlite3.OperationalError("database or disk is full")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise full
        if self.dice.random() < self.faults.loop_crash:
            self.story.tell(self.clock.now(), f"crash in the ledger: {step}")
            raise Crash(step)

    def _new_ledger(self) -> WatchedLedger:
        path = None
        if self._on_disk:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory()
            path = Path(self._folder.name) / "ledger.db"
        return WatchedLedger(path, self.story, self._in_ledger)

    # --- what happens around it ---

    def _submit_due(self) -> None:
        while self.arrivals and self.arrivals[0].at <= self.clock.now():
            arrival = self.arrivals.pop(0)
            self.control.submit(arrival.spec)
            self.counts["workloads"] += 1

    def _interfere(self) -> None:
        if self.dice.random() < 0.05:
            self.people.act()
        if self.dice.random() < self.faults.clock_jump:
            self.clock.jump(self.dice.choice((-3600, -60, -5, 5, 60, 3600)))
            self.counts["clock jumps"] += 1
        if self._loses_ledger and self.dice.random() < 0.02:
            self.lose_ledger()

    def lose_ledger(self) -> None:
        """The disk of the ledger is gone, and with it the loop."""
        self._loses_ledger = False
        self.counts["lost ledgers"] += 1
        self.story.tell(self.clock.now(), "the ledger's disk is lost")
        self.loop = None
        self.ledger.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        self.ledger = self._new_ledger()

    def _next_moment(self) -> Instant:
        """The next time at which somebody does something, at most half a minute ahead while things go wrong."""
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
            moments.append(Instant(now + round(self.dice.uniform(1, 30) * SECOND_MS)))
        moments.append(Instant(now + 600 * SECOND_MS))
        return max(min(moments), Instant(now + 200))

    def _require(self, wrong: object) -> None:
        for what, workload in wrong:  # type: ignore[attr-defined]
            self.fail(what, workload)

    def _organize(self) -> list[QueueId]:
        dice = self.dice
        projects = [QueueId(f"team-{letter}") for letter in "abcd"[: dice.randint(1, 4)]]
        queues = []
        department = QueueId("department") if dice.random() < 0.3 else None
        if department is not None:
            queues.append(Queue(id=department, gpu=gpu_entitlement(dice.choice((8, 16)) * 1000)))
        for project in projects:
            over_quota = dice.choice((None, None, *OverQuota))
            entitlement = gpu_entitlement(1000 * dice.randint(0, 8), over_quota)
            queues.append(Queue(id=project, parent=department, gpu=entitlement))
        limit = dice.choice((None, 600))
        rules = {project: ProjectRules(interactive_limit_s=limit) for project in projects}
        self.control.set_organization(Organization(queues={DEFAULT_POOL: tuple(queues)}, rules=rules))
        return projects


def _verdicts(books: Books, workload: WorkloadId) -> list[Verdict]:
    return [verdict for group, verdict in books.verdicts.items() if group.partition("/")[0] == workload]


def _nodes(dice: Random) -> list[Node]:
    memory_mib = dice.choice((16_384, 32_510, 81_920))
    return [
        Node(
            name=NodeName(f"n{number}"),
            cpu_milli=64_000,
            memory_bytes=256 << 30,
            gpus=dice.choice((0, 2, 4, 8, 8)),
            gpu_memory_mib=memory_mib,
        )
        for number in range(1, dice.randint(2, 6))
    ]


__all__ = ["Arrival", "World", "Wrong"]
