"""The thread of the scheduling loop: runs cycles while there is something to do, and sleeps until something may change.

A wake-up is a hint (a pod ended, the desired state changed, a deadline came): it only ends the sleep, and the loop
observes for itself. A loop that fails is replaced by another, which continues from the ledger and what runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from fairpool.cluster.history import Event, EventKind
from fairpool.cluster.ledger import LedgerProblem, LedgerUnavailable, LedgerUncertain
from fairpool.cluster.loop import LeadershipLost, Loop
from fairpool.engines.port import Engine
from fairpool.model.ids import SECOND_MS, Instant, NodeName
from fairpool.model.mentions import in_full
from fairpool.model.observation import ObservedNode
from fairpool.model.pod_record import EVICTIONS, Outcome
from fairpool.model.spec import WorkloadSpec

log = logging.getLogger("fairpool.cluster")

EVICTION_WORDS = frozenset(cause.value for cause in EVICTIONS)

IDLE_S = 5.0
"""The longest sleep: the lease is renewed, and foreign use of GPUs noticed, at least this often."""
WITHOUT_DESIRED_STATE_S = 0.1
"""Between two cycles of a loop that has no desired state yet."""
DEGRADED_S = 1.0
LONGEST_REPAIR_S = 30.0


class LoopThread:
    """Runs cycles of a loop until it is stopped."""

    def __init__(
        self,
        make_loop: Callable[[], Loop],
        engine: Engine,
        on_step_down: Callable[[str], None],
        on_cycle: Callable[[float, bool], None] = lambda took_s, was_busy: None,
    ) -> None:
        self._make_loop, self._engine, self._on_step_down = make_loop, engine, on_step_down
        self._on_cycle = on_cycle
        """Called after each cycle, with its time and whether there was something to do."""
        self.loop = make_loop()
        self.cycles = 0
        self.restarts = 0
        self.last_cycle_at = Instant(0)
        self._last_cycle_s = time.monotonic()
        self.error = ""
        """Why the loop makes no progress; empty while it does."""
        self.is_settled = threading.Event()
        """It has run cycles until nothing was left to do, at least once."""
        self._nodes: Mapping[NodeName, ObservedNode] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Finish the current cycle and start no other; returns whether it has."""
        self._stopping = True
        self._engine.wake()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def last_cycle_ago_s(self) -> float:
        """Since the latest cycle, or since there is a loop; monotonic, because the time of day may be set."""
        return time.monotonic() - self._last_cycle_s

    # --- the thread ---

    def _run(self) -> None:
        repair_s = DEGRADED_S
        while not self._stopping:
            try:
                self._turn_until_stopped()
                self.loop.release()
            except LeadershipLost as error:
                log.error("scheduling loop stepped down: %s", error)
                self.error = str(error)
                self._on_step_down(str(error))
                return
            except (LedgerProblem, LedgerUnavailable, LedgerUncertain) as error:
                log.error(
                    "scheduling loop stopped: %s",
                    error,
                    extra={"fields": {"fix": error.problem.fix, "retry_s": repair_s}},
                )
                self.error = error.problem.what
                repair_s = self._try_again(repair_s)
            except Exception as error:
                # A bug. Nothing is lost: the next loop starts from the ledger and what runs, as after a crash.
                log.exception("scheduling loop failed; restarting it in %g s", repair_s)
                self.error = f"the scheduling loop failed: {type(error).__name__} {error}".rstrip()
                repair_s = self._try_again(repair_s)

    def _try_again(self, repair_s: float) -> float:
        """After a while, with another loop; returns how long the next wait is."""
        self._engine.wait(repair_s)
        self._replace_loop()
        return min(2 * repair_s, LONGEST_REPAIR_S)

    def _replace_loop(self) -> None:
        if self._stopping:
            return
        self.restarts += 1
        try:
            self.loop = self._make_loop()
        except (LedgerProblem, LedgerUnavailable, LedgerUncertain) as error:
            log.error("scheduling loop not restarted: %s", error)
        except Exception:
            log.exception("scheduling loop could not be restarted")

    def _turn_until_stopped(self) -> None:
        while not self._stopping:
            began = time.perf_counter()
            was_busy = self.loop.run_cycle()
            self._on_cycle(time.perf_counter() - began, was_busy)
            self.cycles += 1
            self.last_cycle_at, self._last_cycle_s = now(), time.monotonic()
            self._note_nodes()
            link = self.loop.link_error
            self._note_error(self.loop.error or (f"no connection to the control plane: {link}" if link else ""))
            if self.loop.error:
                self._engine.wait(DEGRADED_S)
            elif not was_busy:
                self.is_settled.set()
                self._engine.wait(self._rest_s())

    def _rest_s(self) -> float:
        wake = self.loop.next_wake()
        if wake is None:
            return IDLE_S
        left_s = (wake - now()) / SECOND_MS
        return min(left_s, IDLE_S) if left_s > 0 else WITHOUT_DESIRED_STATE_S

    def _note_nodes(self) -> None:
        """Log nodes that joined, left or changed."""
        observation = self.loop.cache.observation
        if observation is None or observation.nodes is self._nodes:
            return
        before, self._nodes = self._nodes, observation.nodes
        for name in sorted(before.keys() | self._nodes.keys()):
            old, new = before.get(name), self._nodes.get(name)
            if new is None:
                log.warning("node left", extra={"fields": {"node": name}})
            elif old is None or (old.message, old.gone, old.node) != (new.message, new.gone, new.node):
                fields = {"node": name, "gpus": new.node.gpus, "withheld": len(new.node.gpus_withheld) or None}
                log.info(
                    "node joined" if old is None else "node changed",
                    extra={"fields": {**fields, "gone": new.gone or None, "words": new.message}},
                )

    def _note_error(self, error: str) -> None:
        if error != self.error:
            if error:
                log.warning("scheduling loop degraded: %s", error)
            else:
                log.info("scheduling loop recovered")
        self.error = error


WORDS: Mapping[EventKind, str] = {
    EventKind.STARTED: "pod started",
    EventKind.RELEASING: "pod stopping",
    EventKind.ENDED: "pod ended",
    EventKind.HALTED: "workload stopped",
    EventKind.RESUMED: "workload resumed",
    EventKind.NEAR_LIMIT: "workload will be stopped soon",
    EventKind.ADOPTED: "pod found again",
}
"""Other events are logged at level debug."""


def note_event(event: Event, spec: WorkloadSpec | None) -> None:
    """Write an event of the loop to the server's log."""
    words = WORDS.get(event.kind)
    level = logging.INFO if words else logging.DEBUG
    if event.kind is EventKind.ENDED and event.outcome is Outcome.ERROR:
        words, level = "pod failed", logging.WARNING
    elif event.kind is EventKind.RELEASING and event.cause in EVICTION_WORDS:
        words = "pod evicted"
    if log.isEnabledFor(level):
        fields = {
            "workload": spec.name if spec is not None else "",
            "project": spec.project if spec is not None else "",
            "id": event.workload,
            "pod": event.pod,
            "node": event.node,
            "cause": event.cause,
            "exit_code": event.exit_code,
            "detail": in_full(event.detail),
        }
        log.log(level, words or f"pod {event.kind.value}", extra={"fields": fields})


def now() -> Instant:
    return Instant(time.time_ns() // 1_000_000)


def steady_ms() -> int:
    """A clock that is never set; it goes on while the machine sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
