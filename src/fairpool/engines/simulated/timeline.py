"""Timeline of a simulated pod: when it will run and exit, known from the moment its start order is accepted.

What is observed at any moment follows from the timeline and that moment alone. A stop, a fault or fencing makes another
timeline. There is no clock here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.observation import ObservedPod, PodState, StartOrder

TERMINATED = 143
KILLED = 137
"""Exit codes of a program that was stopped with SIGTERM, and of one that was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTimeline:
    """What will happen to one pod, unless something intervenes."""

    number: int
    """Rises with each accepted order."""
    order: StartOrder
    behaviour: Behaviour
    accepted_at: Instant
    running_at: Instant | None = None
    """None: never."""
    ends_at: Instant | None = None
    """None: not by itself."""
    exit_code: int = 0
    words: str = ""
    """Message of its exit."""
    notice_at: Instant | None = None
    start_failure: str = ""
    """What keeps it from running, from `start_failure_at` until `start_failure_over_at`."""
    start_failure_at: Instant | None = None
    start_failure_over_at: Instant | None = None
    done_ms: int = 0
    """Work that the pods it replaces have done and kept."""
    unseen_until: Instant | None = None
    """Its record is lost, and its process is found by other means only then."""
    deaf_until: Instant | None = None
    """Its shim is stopped until then: it neither reports an exit nor forwards a signal."""

    def is_over(self, at: Instant) -> bool:
        return self.ends_at is not None and self.ends_at <= at

    def has_run(self, at: Instant) -> bool:
        return self.running_at is not None and self.running_at <= at

    def is_unseen(self, at: Instant) -> bool:
        return self.unseen_until is not None and at < self.unseen_until

    def ended_unseen(self, at: Instant) -> bool:
        """Whether it has exited while its record was lost: how is unknown."""
        return self.ends_at is not None and self.ends_at <= at and self.is_unseen(self.ends_at)


def start_timeline(number: int, order: StartOrder, behaviour: Behaviour, done_ms: int, now: Instant) -> PodTimeline:
    """The timeline of a pod whose start order is accepted now."""
    timeline = PodTimeline(number=number, order=order, behaviour=behaviour, accepted_at=now, done_ms=done_ms)
    pulled_at = _after(now, behaviour.pull_s)
    if behaviour.pull_error is None:
        return _running_from(timeline, _after(pulled_at, behaviour.start_s))
    over_at = None if behaviour.pull_error_s is None else _after(pulled_at, behaviour.pull_error_s)
    return _held_up(timeline, behaviour.pull_error, pulled_at, over_at)


def pull_delayed(timeline: PodTimeline, now: Instant, start_failure: str, over_at: Instant | None) -> PodTimeline:
    """Its image cannot be pulled until then. No effect on a pod that already runs."""
    if timeline.has_run(now) or timeline.is_over(now) or timeline.notice_at is not None:
        return timeline
    return _held_up(timeline, start_failure, now, over_at)


def stopped(timeline: PodTimeline, now: Instant, grace_s: float, reason: str) -> PodTimeline:
    """It is stopped: it exits by itself or is killed after its grace period. A second order can only shorten that.

    The grace period is enforced from outside: a pod whose shim is stopped is killed, too.
    """
    killed_at, killed = _after(now, grace_s), f"killed after a grace period of {grace_s:g} s: {reason}"
    if timeline.notice_at is not None:
        return cut(timeline, killed_at, KILLED, killed)
    if timeline.is_over(now):
        return timeline
    notified = replace(timeline, notice_at=now)
    signalled_at = max(now, timeline.deaf_until) if timeline.deaf_until is not None else now
    has_run = timeline.has_run(now)
    exits_at = _after(signalled_at, timeline.behaviour.stop_s) if has_run else signalled_at
    if exits_at <= killed_at or exits_at == now:
        return cut(notified, exits_at, TERMINATED, f"stopped{'' if has_run else ' before it ran'}: {reason}")
    return cut(notified, killed_at, KILLED, killed)


def record_lost(timeline: PodTimeline, now: Instant, until: Instant) -> PodTimeline:
    """Its record is lost while it runs. Stop orders are kept elsewhere, so a pod that is stopping is not affected."""
    if timeline.is_over(now) or timeline.notice_at is not None:
        return timeline
    return replace(timeline, unseen_until=until)


def record_found(timeline: PodTimeline) -> PodTimeline:
    """Its process was searched for in every way, and found."""
    return replace(timeline, unseen_until=None) if timeline.unseen_until is not None else timeline


def shim_stopped(timeline: PodTimeline, now: Instant, until: Instant) -> PodTimeline:
    """Its shim is stopped: an exit is reported only when the shim continues."""
    if timeline.is_over(now) or timeline.notice_at is not None:
        return timeline
    ignores_stop = replace(timeline, deaf_until=until)
    if timeline.running_at is not None and not timeline.has_run(now):
        return _running_from(ignores_stop, max(timeline.running_at, until))
    return replace(ignores_stop, ends_at=max(timeline.ends_at, until)) if timeline.ends_at is not None else ignores_stop


def fenced(timeline: PodTimeline, at: Instant) -> PodTimeline:
    """Its node was cut off for too long and has killed it, which counts as a stop."""
    if timeline.is_over(at):
        return timeline
    return cut(replace(timeline, notice_at=at), at, KILLED, "fenced")


def cut(timeline: PodTimeline, at: Instant, exit_code: int, words: str) -> PodTimeline:
    """It exits at this moment, unless it has exited before."""
    if timeline.is_over(at):
        return timeline
    running_at = timeline.running_at if timeline.has_run(at) else None
    return replace(timeline, running_at=running_at, ends_at=at, exit_code=exit_code, words=words)


def observed(timeline: PodTimeline, at: Instant) -> ObservedPod:
    """What is observed of it at this moment."""
    if timeline.is_over(at):
        return ObservedPod(
            order=timeline.order,
            state=PodState.EXITED,
            exit_code=timeline.exit_code,
            message=timeline.words,
            running_since=timeline.running_at,
            after_notice=timeline.notice_at is not None,
        )
    if timeline.has_run(at):
        return ObservedPod(order=timeline.order, state=PodState.RUNNING, running_since=timeline.running_at)
    return ObservedPod(order=timeline.order, state=PodState.STARTING, message=_start_failure(timeline, at))


def next_change(timeline: PodTimeline, at: Instant) -> Instant | None:
    """When the observation of it will change next."""
    if timeline.is_over(at):
        return None
    dates = (
        timeline.start_failure_at,
        timeline.start_failure_over_at,
        timeline.running_at,
        timeline.ends_at,
        timeline.unseen_until,
    )
    return min((date for date in dates if date is not None and date > at), default=None)


def work_left_behind_ms(timeline: PodTimeline) -> int:
    """Work that its replacement need not repeat, after its exit."""
    assert timeline.ends_at is not None, f"{timeline.order.pod} is not over"
    finished = timeline.exit_code == 0
    keeps_s = timeline.behaviour.checkpoint_s
    if finished or keeps_s is None:
        return 0
    ran_ms = timeline.ends_at - timeline.running_at if timeline.running_at is not None else 0
    done_ms = timeline.done_ms + ran_ms
    piece_ms = round(keeps_s * SECOND_MS)
    return done_ms - done_ms % piece_ms if piece_ms else done_ms


def _running_from(timeline: PodTimeline, running_at: Instant) -> PodTimeline:
    run_s = timeline.behaviour.run_s
    if run_s is None:
        return replace(timeline, running_at=running_at, ends_at=None)
    left_ms = max(0, round(run_s * SECOND_MS) - timeline.done_ms)
    ends_at = Instant(running_at + left_ms)
    return replace(timeline, running_at=running_at, ends_at=ends_at, exit_code=timeline.behaviour.exit_code)


def _held_up(timeline: PodTimeline, start_failure: str, at: Instant, over_at: Instant | None) -> PodTimeline:
    held_up = replace(
        timeline,
        start_failure=start_failure,
        start_failure_at=at,
        start_failure_over_at=over_at,
        running_at=None,
        ends_at=None,
    )
    return held_up if over_at is None else _running_from(held_up, _after(over_at, timeline.behaviour.start_s))


def _start_failure(timeline: PodTimeline, at: Instant) -> str:
    begun = timeline.start_failure_at is not None and timeline.start_failure_at <= at
    over = timeline.start_failure_over_at is not None and timeline.start_failure_over_at <= at
    return timeline.start_failure if begun and not over else ""


def _after(at: Instant, seconds: float) -> Instant:
    return Instant(at + round(seconds * SECOND_MS))
