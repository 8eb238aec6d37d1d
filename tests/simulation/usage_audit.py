"""Audit of accounting: what was counted for each pod is the time that passed between two entries of the ledger.

The count here is another one than that of the control plane. It sees entries when they are written, in the true time of
the world, and knows of a pod only the first entry in which it holds something and the one in which it has ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sqlalchemy import select

from fairpool.cluster.ledger import LedgerEntry
from fairpool.control.store import tables
from fairpool.control.store.database import Connection
from fairpool.control.usage_periods import Period, sums_by_subject
from fairpool.model.ids import Instant, NodeName, PodId, PoolName, QueueId, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.organization import Organization
from fairpool.model.pod_record import Cause, Outcome
from fairpool.model.quantity import UNLIMITED
from fairpool.simulation.control_driver import ControlDriver
from fairpool.simulation.quota_requests import is_department
from tests.accounting import gpu_milli

Wrong = tuple[str, WorkloadId | None]

WORK_IS_LOST = (
    Cause.PREEMPTED,
    Cause.MOVED,
    Cause.STALE,
    Cause.NODE_DRAINED,
    Cause.NODE_LOST,
    Cause.VANISHED,
)


@dataclass(slots=True)
class Holding:
    """What one pod held, and when, in milliseconds of the true time."""

    workload: WorkloadId
    gpus_milli: int
    begin: int
    end: int | None = None
    is_lost: bool = False
    off_by_ms: int = 0
    """How far the count may be off: the clock was set, and no loop knew it."""


@dataclass(slots=True)
class UsageAudit:
    """What every pod held, by the entries of the ledger, and every quota there was."""

    memory_mib: Callable[[NodeName], int]
    holdings: dict[PodId, Holding] = field(default_factory=dict)
    quotas: dict[tuple[QueueId, PoolName], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    projects_changed: bool = False
    _set_by_ms: int = 0
    """By how much the clock was set since the last entry."""

    def take_in(self, entry: LedgerEntry, at: Instant) -> None:
        """Another entry was written, at this true time."""
        self._set_by_ms = 0
        for pod in entry.pods:
            if pod.is_placed and pod.node is not None and pod.id not in self.holdings:
                milli = gpu_milli(pod.shape, self.memory_mib(pod.node))
                self.holdings[pod.id] = Holding(pod.workload, milli, at)
            known = self.holdings.get(pod.id)
            if pod.phase is PodPhase.ENDED and known is not None and known.end is None:
                known.end = at
                known.is_lost = pod.cause in WORK_IS_LOST and pod.outcome is not Outcome.OK

    def declared(self, organization: Organization, at: Instant) -> None:
        """These are the quotas from now on."""
        found = {
            (queue.id, pool): queue.gpu.quota
            for pool, queues in organization.queues.items()
            for queue in queues
            if not is_department(queue.id)
        }
        self.projects_changed |= bool(self.quotas) and found.keys() != self.quotas.keys()
        for key, milli in found.items():
            if not self.quotas[key] or self.quotas[key][-1][1] != milli:
                self.quotas[key].append((at, milli))

    def clock_set(self, by_ms: int, *, runs: bool) -> None:
        """A loop that runs sees it, and corrects what it counts with the next entry."""
        self._set_by_ms += abs(by_ms)
        if not runs:
            self.loop_ended()

    def loop_ended(self) -> None:
        """The next one does not know whether the clock was set meanwhile."""
        for each in self.holdings.values():
            if each.end is None:
                each.off_by_ms += self._set_by_ms
        self._set_by_ms = 0

    # --- comparing ---

    def differences(self, control: ControlDriver, now: Instant, *, clock_jumped: bool) -> Iterator[Wrong]:
        """What the control plane counted otherwise. Everything has been reported."""
        rows = control._database.read_now(lambda connection: connection.execute(select(tables.usage_spans)).all())
        counted: dict[str, list[Any]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: int(row.part)):
            counted[row.pod].append(row)
        for pod, held in self.holdings.items():
            for what in _differences_of(held, counted.get(pod, ())):
                yield f"usage of {pod}: {what}", held.workload
        for name, parts in counted.items():
            if PodId(name) not in self.holdings and any(row.bound_at is not None for row in parts):
                yield f"{name} held nothing, and its usage is counted", WorkloadId(parts[0].workload)
        if clock_jumped:
            return
        sums = control._database.read_now(lambda connection: _sums(connection, now))
        allocated = sum(each.gpus_milli * (_until(each, now) - each.begin) for each in self.holdings.values())
        lost = sum(
            each.gpus_milli * (_until(each, now) - each.begin) for each in self.holdings.values() if each.is_lost
        )
        if (allocated, lost) != sums[:2]:
            yield f"{sums[0]} allocated and {sums[1]} lost are summed; held were {allocated}, lost {lost}", None
        if not self.projects_changed:
            beyond = self._over_quota({pod: parts[-1] for pod, parts in counted.items()}, now)
            if beyond != sums[2]:
                yield f"{sums[2]} over quota are summed; it was {beyond}", None

    def _over_quota(self, owners: dict[str, Any], now: int) -> int:
        """Between any two moments at which something changed, what each project held less what it is owed."""
        total = 0
        for (project, pool), quotas in self.quotas.items():
            mine = [
                each
                for pod, each in self.holdings.items()
                if pod in owners and (owners[pod].project, owners[pod].pool) == (project, pool)
            ]
            moments = {now, *(at for at, _ in quotas)}
            moments |= {moment for each in mine for moment in (each.begin, _until(each, now))}
            for begin, end in pairwise(sorted(moments)):
                held = sum(each.gpus_milli for each in mine if each.begin <= begin < _until(each, now))
                owed = next((milli for at, milli in reversed(quotas) if at <= begin), 0)
                total += 0 if owed == UNLIMITED else max(0, held - owed) * (end - begin)
        return total


def _differences_of(held: Holding, parts: Sequence[Any]) -> Iterator[str]:
    bound = [row for row in parts if row.bound_at is not None]
    if not bound:
        yield "it held its place, and nothing is counted"
        return
    if {row.gpus_milli for row in bound} != {held.gpus_milli}:
        yield f"{bound[0].gpus_milli} are counted, and it held {held.gpus_milli}"
    for one, other in pairwise(parts):
        if one.ended_at is None or one.ended_at > other.created_at:
            yield "two parts of it overlap"
    if held.end is None:
        if parts[-1].ended_at is not None:
            yield "it runs, and is counted as ended"
        return
    if parts[-1].ended_at is None:
        yield "it has ended, and is counted as if it ran"
        return
    counted_ms = sum(max(0, row.ended_at - row.bound_at) for row in bound)
    if abs(counted_ms - (held.end - held.begin)) > held.off_by_ms:
        yield f"{counted_ms} ms are counted, and it held its place for {held.end - held.begin} ms (± {held.off_by_ms})"
    if {bool(row.is_lost) for row in bound} != {held.is_lost}:
        yield f"it is counted as {'' if bound[0].is_lost else 'not '}lost"


def _sums(connection: Connection, now: int) -> tuple[int, int, int]:
    """From sums of hours, as far as there are any, and from pods for the rest."""
    found = sums_by_subject(connection, Period(0, now, Instant(now)))(None).values()
    return (
        sum(each.allocated for each in found),
        sum(each.lost for each in found),
        sum(each.over_quota for each in found),
    )


def _until(held: Holding, now: int) -> int:
    return now if held.end is None else held.end
