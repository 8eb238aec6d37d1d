"""The course of one life: when it will run and end, known from the moment its order is accepted.

What is seen of it at any moment follows from the course and that moment alone, so that nobody has to be there while
time passes. Whoever interferes (a stop, a fence, a crash) makes another course. Nothing here has a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.observation import ObservedPod, PodState, StartOrder

TERMINATED = 143
KILLED = 137
"""Exit codes of a program that obeyed the notice, and of one that did not live to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One life as it will go, unless somebody interferes."""

    number: int
    """Counts up with each accepted order."""
    order: StartOrder
    behaviour: Behaviour
    accepted_at: Instant
    running_at: Instant | None = None
    """None: it never gets that far."""
    ends_at: Instant | None = None
    """None: not by itself."""
    exit_code: int = 0
    words: str = ""
    """What is to be said of its end."""
    notice_at: Instant | None = None
    trouble: str = ""
    """What keeps it from running, from `trouble_at` until `trouble_over_at`."""
    trouble_at: Instant | None = None
    trouble_over_at: Instant | None = None
    done_ms: int = 0
    """Work that earlier lives of the pod have left it."""
    unseen_until: Instant | None = None
    """Its record is lost, and until then nobody has found its process by other means."""
    deaf_until: Instant | None = None
    """Its shim is stopped until then: it neither tells of an end nor passes a notice on."""

    def is_over(self, at: Instant) -> bool:
        return self.ends_at is not None and self.ends_at <= at

    def has_run(self, at: Instant) -> bool:
        return self.running_at is not None and self.running_at <= at

    def is_unseen(self, at: Instant) -> bool:
        return self.unseen_until is not None and at < self.unseen_until

    def ended_unseen(self, at: Instant) -> bool:
        """It is over, and nobody was there to see how."""
        return self.ends_at is not None and self.ends_at <= at and self.is_unseen(self.ends_at)


def begin(number: int, order: StartOrder, behaviour: Behaviour, done_ms: int, now: Instant) -> Course:
    """The course of a life whose order is accepted now."""
    course = Course(number=number, order=order, behaviour=behaviour, accepted_at=now, done_ms=done_ms)
    pulled_at = _after(now, behaviour.pull_s)
    if behaviour.pull_error is None:
        return _running_from(course, _after(pulled_at, behaviour.start_s))
    over_at = None if behaviour.pull_error_s is None else _after(pulled_at, behaviour.pull_error_s)
    return _troubled(course, behaviour.pull_error, pulled_at, over_at)


def held_up(course: Course, now: Instant, trouble: str, over_at: Instant | None) -> Course:
    """Its image cannot be pulled until then. What runs already does not notice."""
    if course.has_run(now) or course.is_over(now) or course.notice_at is not None:
        return course
    return _troubled(course, trouble, now, over_at)


def stopped(course: Course, now: Instant, grace_s: float, reason: str) -> Course:
    """It is given notice: it ends in its own time, but within its grace. Told again, that can only become shorter.

    The grace is kept to from outside: a shim that is stopped hears of nothing, and is killed all the same.
    """
    killed_at, killed = _after(now, grace_s), f"killed after a grace period of {grace_s:g} s: {reason}"
    if course.notice_at is not None:
        return cut(course, killed_at, KILLED, killed)
    if course.is_over(now):
        return course
    noticed = replace(course, notice_at=now)
    heard_at = max(now, course.deaf_until) if course.deaf_until is not None else now
    has_run = course.has_run(now)
    leaves_at = _after(heard_at, course.behaviour.stop_s) if has_run else heard_at
    if leaves_at <= killed_at or leaves_at == now:
        return cut(noticed, leaves_at, TERMINATED, f"stopped{'' if has_run else ' before it ran'}: {reason}")
    return cut(noticed, killed_at, KILLED, killed)


def unseen(course: Course, now: Instant, until: Instant) -> Course:
    """Its record is lost while it lives on. Whom it was told to stop an engine remembers elsewhere."""
    if course.is_over(now) or course.notice_at is not None:
        return course
    return replace(course, unseen_until=until)


def found(course: Course) -> Course:
    """Its process was looked for in every way, and found."""
    return replace(course, unseen_until=None) if course.unseen_until is not None else course


def deafened(course: Course, now: Instant, until: Instant) -> Course:
    """Its shim is stopped: an end by itself is not told of before it goes on."""
    if course.is_over(now) or course.notice_at is not None:
        return course
    deaf = replace(course, deaf_until=until)
    if course.running_at is not None and not course.has_run(now):
        return _running_from(deaf, max(course.running_at, until))
    return replace(deaf, ends_at=max(course.ends_at, until)) if course.ends_at is not None else deaf


def fenced(course: Course, at: Instant) -> Course:
    """Its node, cut off for too long, has killed it: as good as a notice, and nobody's success."""
    if course.is_over(at):
        return course
    return cut(replace(course, notice_at=at), at, KILLED, "fenced")


def cut(course: Course, at: Instant, exit_code: int, words: str) -> Course:
    """It ends at this moment, unless it has ended by then."""
    if course.is_over(at):
        return course
    running_at = course.running_at if course.has_run(at) else None
    return replace(course, running_at=running_at, ends_at=at, exit_code=exit_code, words=words)


def observed(course: Course, at: Instant) -> ObservedPod:
    """What is seen of it at this moment."""
    if course.is_over(at):
        return ObservedPod(
            order=course.order,
            state=PodState.EXITED,
            exit_code=course.exit_code,
            message=course.words,
            running_since=course.running_at,
            after_notice=course.notice_at is not None,
        )
    if course.has_run(at):
        return ObservedPod(order=course.order, state=PodState.RUNNING, running_since=course.running_at)
    return ObservedPod(order=course.order, state=PodState.STARTING, message=_trouble(course, at))


def next_change(course: Course, at: Instant) -> Instant | None:
    """When it will look different from what it looks like at this moment."""
    if course.is_over(at):
        return None
    dates = (course.trouble_at, course.trouble_over_at, course.running_at, course.ends_at, course.unseen_until)
    return min((date for date in dates if date is not None and date > at), default=None)


def work_left_behind_ms(course: Course) -> int:
    """Work that the next life of the pod finds done, once this one is over."""
    assert course.ends_at is not None, f"{course.order.pod} is not over"
    finished = course.exit_code == 0
    keeps_s = course.behaviour.checkpoint_s
    if finished or keeps_s is None:
        return 0
    ran_ms = course.ends_at - course.running_at if course.running_at is not None else 0
    done_ms = course.done_ms + ran_ms
    piece_ms = round(keeps_s * SECOND_MS)
    return done_ms - done_ms % piece_ms if piece_ms else done_ms


def _running_from(course: Course, running_at: Instant) -> Course:
    run_s = course.behaviour.run_s
    if run_s is None:
        return replace(course, running_at=running_at, ends_at=None)
    left_ms = max(0, round(run_s * SECOND_MS) - course.done_ms)
    ends_at = Instant(running_at + left_ms)
    return replace(course, running_at=running_at, ends_at=ends_at, exit_code=course.behaviour.exit_code)


def _troubled(course: Course, trouble: str, at: Instant, over_at: Instant | None) -> Course:
    troubled = replace(course, trouble=trouble, trouble_at=at, trouble_over_at=over_at, running_at=None, ends_at=None)
    return troubled if over_at is None else _running_from(troubled, _after(over_at, course.behaviour.start_s))


def _trouble(course: Course, at: Instant) -> str:
    begun = course.trouble_at is not None and course.trouble_at <= at
    over = course.trouble_over_at is not None and course.trouble_over_at <= at
    return course.trouble if begun and not over else ""


def _after(at: Instant, seconds: float) -> Instant:
    return Instant(at + round(seconds * SECOND_MS))
