"""What a cluster has to report, piece by piece: what is due, what is on its way, what is acknowledged.

The loop offers what changed; the next piece holds as much of it as has room, and what was not acknowledged is sent
again as it is by then. A report that was cut off goes on where it stopped. A loop that starts reports everything, and
so does one whose control plane has lost something. Nothing here is stored: a new loop offers everything again, from its
ledger, and events are in the ledger until they are acknowledged.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from fairpool.api.clusters import (
    EventReport,
    GoneReport,
    NodeReport,
    Piece,
    PushAnswer,
    PushReport,
    QueueReport,
    WorkloadReport,
)
from fairpool.api.message import VERSION
from fairpool.cluster.unacknowledged import Unacknowledged
from fairpool.model.ids import Instant, NodeName, PoolName, QueueId, Token, WorkloadId

PIECE_ROWS: Final = 500
"""In one piece, pods included: a control plane takes a few milliseconds to read that."""
PIECES_SINCE: Final = 3
"""The version of the protocol with which pieces of everything came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What the loop has to report after a cycle."""

    workloads: Mapping[WorkloadId, WorkloadReport | None] = field(default_factory=dict)
    """Reports that may differ from those offered before; None: there is none any more."""
    gone: Mapping[WorkloadId, int] = field(default_factory=dict)
    """All workloads whose declaration may be removed, with their runs."""
    nodes: Iterable[NodeReport] | None = None
    """All of them, as are queues; None: unchanged. What is unchanged should be the same object."""
    queues: Iterable[QueueReport] | None = None
    events: Iterable[EventReport] = ()
    """The next ones, in the order of their numbers."""
    events_after: int = 0
    """The control plane has acknowledged every event up to this one, as far as the ledger knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """What the control plane has stored since this was last asked."""

    workloads: tuple[WorkloadId, ...] = ()
    """Their reports are stored as they are now."""
    events_through: int | None = None
    """It has every event up to this one. None: no more than before."""
    is_put_back: bool = False
    """It has fewer events than it had acknowledged: those after `events_through` are to be offered again."""


class ReportQueue:
    """The reports of one cluster, for one loop."""

    def __init__(self, cluster: str, piece_rows: int = PIECE_ROWS) -> None:
        self._cluster, self._piece_rows = cluster, piece_rows
        self.send_all = True  # a new loop does not know what was acknowledged before
        self.even_nothing = False
        """Report even if nothing is new: the answer says whether the control plane has lost something."""
        self._number = 0
        self._answered = 0
        self._is_sending_all = self._is_first = False
        self.beginnings = 0
        """Of reports of everything, since one was sent to its end."""
        self._workloads = Unacknowledged[WorkloadReport](lambda report: 1 + len(report.pods), reports_removals=False)
        self._gone = Unacknowledged[GoneReport](reports_removals=False)
        self._nodes = Unacknowledged[NodeReport]()
        self._queues = Unacknowledged[QueueReport]()
        self._kinds = (self._workloads, self._gone, self._nodes, self._queues)
        self._runs_gone: Mapping[WorkloadId, int] = {}
        self._events: deque[EventReport] = deque()
        self._stored: dict[WorkloadId, None] = {}
        self._events_through: int | None = None
        self._events_after: int | None = None
        self._is_put_back = False

    # --- the loop's side ---

    def offer(self, offered: Offered) -> None:
        """Note what is to be reported."""
        for workload in offered.workloads:
            self._stored.pop(workload, None)
        self._workloads.change({(key,): report for key, report in offered.workloads.items()})
        before, self._runs_gone = self._runs_gone, dict(offered.gone)
        self._gone.change(
            {(each,): GoneReport(id=each, run=run) for each, run in self._runs_gone.items() if before.get(each) != run}
        )
        self._gone.change({(each,): None for each in before.keys() - self._runs_gone.keys()})
        if offered.nodes is not None:
            self._nodes.replace({(each.name,): each for each in offered.nodes})
        if offered.queues is not None:
            self._queues.replace({(each.pool, each.queue): each for each in offered.queues})
        if self._events_after is None:
            self._events_after = offered.events_after
        if not self._is_put_back:  # else they are offered again, after those that it lost
            self._events.extend(offered.events)

    def collect(self) -> Acknowledged:
        """What was acknowledged since the last call."""
        acknowledged = Acknowledged(
            workloads=tuple(self._stored), events_through=self._events_through, is_put_back=self._is_put_back
        )
        self._stored, self._events_through, self._is_put_back = {}, None, False
        return acknowledged

    @property
    def events_waiting(self) -> int:
        return len(self._events)

    # --- the next piece ---

    @property
    def has_more(self) -> bool:
        """Whether there may be something to send."""
        is_due = self.send_all or self._is_sending_all or self.even_nothing
        return is_due or bool(self._events) or any(each.has_changes for each in self._kinds)

    def next_piece(self, now: Instant, token: Token, version: int = VERSION) -> PushReport | None:
        """The next piece to send to a control plane that speaks this version; None: there is nothing to send."""
        if self.send_all:
            self._begin()
        if self._is_sending_all:
            return self._piece_of_all(now, token, version)
        for key in self._workloads.settled():
            self._stored[WorkloadId(key[0])] = None
        for kind in (self._gone, self._nodes, self._queues):
            kind.settled()
        if not self.has_more:
            return None
        return self._piece_of_changes(now, token, version)

    def _begin(self) -> None:
        self.send_all, self._is_sending_all, self._is_first = False, True, True
        self.beginnings += 1
        for kind in (self._workloads, self._nodes, self._queues):
            kind.begin()
        self._gone.report_again()

    def _piece_of_all(self, now: Instant, token: Token, version: int) -> PushReport:
        in_one = self._is_first and (version < PIECES_SINCE or self._weight <= self._piece_rows)
        room = sys.maxsize if in_one else self._piece_rows
        workloads, workload_span = self._workloads.take_slice(room)
        room -= sum(1 + len(each.pods) for each in workloads)
        nodes, node_span = self._nodes.take_slice(room)
        room -= len(nodes)
        queues, queue_span = self._queues.take_slice(room)
        room -= len(queues)
        gone, _ = self._gone.take_changes(room)
        is_last = (
            self._workloads.ends_with(workload_span)
            and self._nodes.ends_with(node_span)
            and self._queues.ends_with(queue_span)
        )
        piece = Piece(first=self._is_first, last=is_last, workloads=workload_span, nodes=node_span, queues=queue_span)
        return self._report(
            now,
            token,
            version=version,
            whole=in_one,
            piece=None if in_one else piece,
            workloads=workloads,
            nodes=nodes,
            queues=queues,
            gone=gone,
            # Beside pieces there are none: an event of a pod that is newer than the piece with its workload would make
            # the last piece say that the pod is not there any more.
            events=list(islice(self._events, self._piece_rows)) if in_one else (),
        )

    @property
    def _weight(self) -> int:
        return self._workloads.weight + self._nodes.weight + self._queues.weight

    def _piece_of_changes(self, now: Instant, token: Token, version: int) -> PushReport:
        room = self._piece_rows
        workloads, _ = self._workloads.take_changes(room)
        room -= sum(1 + len(each.pods) for each in workloads)
        gone, _ = self._gone.take_changes(room)
        room -= len(gone)
        nodes, nodes_gone = self._nodes.take_changes(room)
        room -= len(nodes) + len(nodes_gone)
        queues, queues_gone = self._queues.take_changes(room)
        room -= len(queues) + len(queues_gone)
        return self._report(
            now,
            token,
            version=version,
            workloads=workloads,
            gone=gone,
            nodes=nodes,
            nodes_gone=[NodeName(name) for (name,) in nodes_gone],
            queues=queues,
            queues_gone=[(PoolName(pool), QueueId(queue)) for pool, queue in queues_gone],
            events=list(islice(self._events, max(0, room))),
        )

    def _report(self, now: Instant, token: Token, **rows: Any) -> PushReport:
        self._number += 1
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in rows.items()}
        given |= {"cluster": self._cluster, "token": token, "number": self._number, "after": self._answered, "at": now}
        given["events_after"] = self._events_after or 0
        return PushReport.model_validate(given)

    # --- what became of it ---

    def acknowledge(self, report: PushReport, answer: PushAnswer) -> bool:
        """This piece is stored. False: some of its events are not."""
        self._answered, self.even_nothing, self._is_first = report.number, False, False
        covered = report.complete_ranges or Piece()
        for (workload,) in self._workloads.acknowledge(covered.workloads):
            self._stored[WorkloadId(workload)] = None
        self._gone.acknowledge(None)
        self._nodes.acknowledge(covered.nodes)
        self._queues.acknowledge(covered.queues)
        if covered.last:
            self._is_sending_all, self.beginnings = False, 0
            for kind in (self._workloads, self._nodes, self._queues):
                kind.end()
        if answer.events_through < report.events_after:
            self._events_through = self._events_after = answer.events_through
            self._is_put_back = True
            self._events.clear()
            return True
        if not report.events:
            return True
        last = report.events[-1].number
        while self._events and self._events[0].number <= min(answer.events_through, last):
            self._events_through = self._events_after = self._events.popleft().number
        return answer.events_through >= last

    def fail(self, highest: int = 0) -> None:
        """The last piece may have been stored, and only the answer lost. Continue counting above the highest number
        that the control plane has seen."""
        self._number = max(self._number, highest)
        for kind in self._kinds:
            kind.mark_unknown()
