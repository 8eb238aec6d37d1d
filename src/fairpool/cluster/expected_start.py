"""When a waiting group is expected to start, from ends that are known: time limits, and the progress jobs report. Pure.

The latest snapshot is planned again and again with the real planner. Each time that nothing more can be decided, the
clock moves on to the next known end, and what ends is taken out. Work that is submitted later is not foreseen. Where
the known ends do not let the group start, there is no basis for an estimate, and none is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from fairpool.model.ids import SECOND_MS, GroupId, Instant
from fairpool.replay.carried_out import carried_out, holding_groups, without_groups
from fairpool.scheduler.decision import NeverFits, NoNodeMatches, NoQueue, NotReady
from fairpool.scheduler.plan import plan
from fairpool.scheduler.snapshot import Snapshot

PLANS_MAX: Final = 40
"""Plans that are made for one estimate at most."""
SINGLE_STEPS: Final = 8
"""So many ends are looked at one by one; then two are taken together, then four, and so on."""
HOPELESS: Final = (NoQueue, NotReady, NoNodeMatches, NeverFits)
"""What waits for one of these does not start however much ends."""
PROGRESS_MIN: Final = 0.02
"""A job that reports less has not run for long enough to tell how fast it is."""
SOONER, LATER = 0.75, 1.5
"""Between these multiples of the remaining time, at the pace so far, a job that reports progress is expected to end."""


class Basis(StrEnum):
    """What an estimate follows from."""

    TIME_LIMIT = "time-limit"
    """Jobs that run have a time limit: they may end earlier, and not later."""
    PROGRESS = "progress"
    """Jobs that run report their progress."""
    MINIMUM_RUNTIME = "minimum-runtime"
    """Jobs that it can take from are protected until then."""
    HANDOVER = "handover"
    """It has a place, and the pods there are stopping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEnd:
    """When a running group ends."""

    basis: Basis
    expected: Instant
    earliest: Instant | None = None
    """None: at any moment."""
    latest: Instant | None = None
    """None: there is no telling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStart:
    """When a group is expected to start."""

    at: Instant
    earliest: Instant | None
    """None: it may be at any moment."""
    latest: Instant | None
    """None: there is no telling."""
    bases: tuple[Basis, ...]
    waits_for: tuple[GroupId, ...] = ()
    """Groups that end before it, in the order in which they do."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """What is known about ends in one pool."""

    ends: Mapping[GroupId, KnownEnd] = field(default_factory=dict)
    length_s: Callable[[GroupId], int | None] = lambda _: None
    """How long a group that starts may run."""


def end_by_limit(limit: Instant) -> KnownEnd:
    """The end of a job that has a time limit and reports nothing."""
    return KnownEnd(basis=Basis.TIME_LIMIT, expected=limit, latest=limit)


def end_by_progress(done: float, started_at: Instant, now: Instant, limit: Instant | None) -> KnownEnd | None:
    """The end of a job that has done a part (0 to 1) of its work; None: it is too early to tell."""
    if not PROGRESS_MIN <= done <= 1 or now <= started_at:
        return None
    left_ms = (now - started_at) * (1 - done) / done
    ends = [Instant(round(now + left_ms * factor)) for factor in (SOONER, 1, LATER)]
    sooner, expected, later = ends if limit is None else [min(each, limit) for each in ends]
    return KnownEnd(basis=Basis.PROGRESS, expected=expected, earliest=sooner, latest=later)


class Undecided(Exception):
    """It would take too long to find out."""


def expected_start(
    snapshot: Snapshot, group: GroupId, known: Expectations, has_time: Callable[[], bool] = lambda: True
) -> ExpectedStart | None:
    """When a waiting group starts; None: what is known gives no basis. Raises `Undecided` when time is up."""
    verdicts = plan(snapshot).verdicts
    hopeless = {each for each, verdict in verdicts.items() if isinstance(verdict.why, HOPELESS) and not verdict.running}
    if group in hopeless:
        return None
    snapshot = without_groups(snapshot, hopeless, snapshot.now)
    ends = {each: end.expected for each, end in known.ends.items()}
    likely = _first_start(snapshot, group, ends, known.length_s, has_time)
    if likely is None:
        return None
    used = [known.ends[each] for each in likely.ended if each in known.ends]
    bases = {end.basis for end in used}
    if likely.waited:
        bases.add(Basis.MINIMUM_RUNTIME)
    if not bases:  # no end had to be awaited, only pods that are stopping
        return ExpectedStart(at=likely.at, earliest=likely.at, latest=None, bases=(Basis.HANDOVER,))

    def bound(which: str) -> Instant | None:
        moments = {each: at for each, end in known.ends.items() if (at := getattr(end, which)) is not None}
        if moments == ends:
            return likely.at
        found = _first_start(snapshot, group, moments, known.length_s, has_time)
        return None if found is None else found.at

    return ExpectedStart(
        at=likely.at,
        earliest=bound("earliest") if all(end.earliest is not None for end in used) else None,
        latest=bound("latest") if all(end.latest is not None for end in used) else None,
        bases=tuple(sorted(bases)),
        waits_for=likely.ended,
    )


@dataclass(frozen=True, slots=True)
class _Start:
    at: Instant
    ended: tuple[GroupId, ...]
    waited: bool
    """Time alone changed something before it."""


def _first_start(
    snapshot: Snapshot,
    group: GroupId,
    ends: Mapping[GroupId, Instant],
    length_s: Callable[[GroupId], int | None],
    has_time: Callable[[], bool],
) -> _Start | None:
    """When the group first holds something, if groups end at these moments."""
    open_ends = dict(ends)
    ended: list[GroupId] = []
    waited = False
    steps = 0
    for _ in range(PLANS_MAX):
        if not has_time():
            break
        planned = plan(snapshot)
        after = carried_out(snapshot, planned)
        holding = holding_groups(after)
        if group in holding:
            return _Start(snapshot.now, tuple(ended), waited)
        for started in planned.started:
            limit_s = length_s(started)
            if limit_s is not None:
                open_ends.setdefault(started, Instant(snapshot.now + limit_s * SECOND_MS))
        if not planned.is_empty:
            snapshot = after
            continue
        moments = sorted(moment for each, moment in open_ends.items() if each in holding)
        steps += 1
        moments = moments[min(1 << max(steps - SINGLE_STEPS, 0), len(moments)) - 1 :]
        if planned.quiet_until is not None and planned.quiet_until > snapshot.now:
            moments.append(planned.quiet_until)
        if not moments:
            return None
        now = Instant(max(min(moments), snapshot.now))
        gone = sorted(each for each, moment in open_ends.items() if moment <= now and each in holding)
        waited = waited or not gone
        ended += gone
        for each in gone:
            del open_ends[each]
        snapshot = without_groups(after, set(gone), now)
    raise Undecided
