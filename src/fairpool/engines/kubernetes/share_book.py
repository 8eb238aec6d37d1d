"""What is known about shared GPUs: reservation pods, pods with parts of GPUs, and start orders that wait. Pure.

Everything but the orders is read from pods, so that a loop that has just started knows it too. Times are seconds of a
clock that is never set. Decisions are in `shares`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from fairpool.engines.kubernetes.pod_reading import PodObject, has_ended
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.reservation_pods import read_reservation, read_share
from fairpool.engines.kubernetes.shares import (
    PARTS,
    Answer,
    Create,
    NodeShares,
    PendingShare,
    Ready,
    Reservation,
    SharePod,
    Step,
    answer_to,
    steps_for,
)
from fairpool.model.ids import NodeName, PodId
from fairpool.model.observation import ObservedNode, StartOrder
from fairpool.model.workload import GpuKind

ASK_S = 90.0
"""An order that waits is repeated by the loop every 30 s at the latest."""
CREATE_S = 90.0
"""How long the creation of a pod may take that was given its GPUs; also one of another loop."""
START_S = 180.0
"""How long a reservation may take to report its GPU: a node may have to pull the image."""
FAILED_S = 60.0
"""How long a seat is not reserved again after that has failed."""
AGAIN_S = 1.0
"""When a node is looked at again on which something is under way, although nothing was heard of it."""
EVERYTHING_S = 60.0
"""How often all nodes are looked at: they may be gone."""


@dataclass(slots=True)
class KnownReservation:
    """A reservation, and since when."""

    latest: Reservation
    seen_at_s: float
    awaited: dict[str, tuple[PodId, float]] = field(default_factory=dict)
    """By mark, a pod that was given its GPU and has not been seen, and until when it may be created."""

    def stale_marks(self) -> list[str]:
        """Marks of pods that are not awaited any more."""
        return [mark for mark, _ in self.latest.marks if mark not in self.awaited]


class ShareBook:
    """Shared GPUs of one cluster. Not for several threads."""

    def __init__(self, settings: PodSettings, node: Callable[[NodeName], ObservedNode | None]) -> None:
        self._settings, self._node = settings, node
        self._reservations: dict[str, KnownReservation] = {}
        self._shares: dict[str, SharePod] = {}
        self._share_ids: dict[PodId, str] = {}
        self._uids_on: dict[NodeName, set[str]] = {}
        self._node_of: dict[str, NodeName] = {}
        self._versions: dict[str, int] = {}
        self._asks_on: dict[NodeName, dict[PodId, PendingShare]] = {}
        self._asked_at: dict[PodId, NodeName] = {}
        self._failed: dict[NodeName, dict[int, tuple[float, str]]] = {}
        self._due: dict[NodeName, float] = {}
        """Nodes to look at, and when."""
        self._everything_at_s = 0.0

    # --- what is so

    def take(self, pod: PodObject, now_s: float) -> bool:
        """A pod as the API server has it. False: nothing that matters here has changed."""
        uid, version = pod.metadata.uid, _number(pod.metadata.resource_version)
        if version < self._versions.get(uid, 0):
            return False
        if (reservation := read_reservation(pod)) is not None:
            return self._take_reservation(reservation, now_s)
        known = self._shares.get(uid)
        # What was read once stays: an edited annotation does not change which GPUs it has. What has ended, too.
        share = read_share(pod) if known is None else replace(known, has_ended=known.has_ended or has_ended(pod))
        if share is None or share == known:
            return False
        self._shares[uid], self._share_ids[share.pod] = share, uid
        self._forget_ask(share.pod)
        self._place(uid, share.node, version)
        self._not_awaited(share.pod, share.node)
        return True

    def remove(self, uid: str) -> bool:
        """A pod does not exist any more. False: that does not matter here."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return False
        self._reservations.pop(uid, None)
        del self._versions[uid]
        if (share := self._shares.pop(uid, None)) is not None and self._share_ids.get(share.pod) == uid:
            del self._share_ids[share.pod]
        self._uids_on[node].discard(uid)
        if not self._uids_on[node]:
            del self._uids_on[node]
        self._due[node] = 0.0
        return True

    def keep_only(self, uids: Collection[str], listed_at: str) -> bool:
        """These are all pods that existed at this resource version. False: that was known."""
        at = _number(listed_at)
        gone = [uid for uid in self._node_of if uid not in uids and self._versions[uid] <= at]
        for uid in gone:
            self.remove(uid)
        return bool(gone)

    # --- orders

    def answer(self, order: StartOrder, now_s: float) -> Answer:
        """Whether the pod of an order can be created now. If not, what it needs is prepared for the next time."""
        kind = order.shape.gpu.kind
        if kind is GpuKind.WHOLE:
            if order.node not in self._uids_on and order.node not in self._asks_on:
                return Ready()  # the usual case, of many orders at once
            self._give_up(order)
        elif kind in PARTS and order.pod not in self._share_ids:
            known = self._asks_on.get(order.node, {}).get(order.pod)
            self._ask(PendingShare(order, now_s, is_granted=known is not None and known.is_granted))
        if order.node in self._uids_on:
            self._due[order.node] = 0.0
        return answer_to(order, self.sight(order.node, now_s), self._settings)

    def grant(self, order: StartOrder, now_s: float) -> None:
        """The pod of an order is being created with its GPUs: they stay reserved until it is seen, or is withdrawn."""
        if order.pod not in self._share_ids:
            self._ask(PendingShare(order, now_s, is_granted=True))

    def withdraw(self, pod: PodId) -> None:
        """It is not to be created any more. What it was given stays reserved for a while: a call may be under way."""
        node = self._asked_at.get(pod)
        if node is not None and not self._asks_on[node][pod].is_granted:
            self._forget_ask(pod)
            self._due[node] = 0.0

    def revoke(self, order: StartOrder, marks: Iterable[str]) -> None:
        """The pod of an order was not created after all, although it had been given its GPUs by these marks."""
        self._forget_ask(order.pod)
        for known in self._reservations_on(order.node):
            for mark in marks:
                known.awaited.pop(mark, None)
        self._due[order.node] = 0.0

    def stale_marks(self, uid: str) -> list[str]:
        """Marks of a reservation that are of no use any more."""
        known = self._reservations.get(uid)
        return known.stale_marks() if known is not None else []

    # --- reservations

    def nodes_due(self, now_s: float) -> list[NodeName]:
        """The nodes of which something may have to be done. Only after all nodes and pods have been listed."""
        if now_s >= self._everything_at_s:
            self._everything_at_s = now_s + EVERYTHING_S
            self._due.update(dict.fromkeys(self._uids_on, 0.0))
        return [name for name, at_s in self._due.items() if at_s <= now_s] if self._due else []

    def steps(self, name: NodeName, now_s: float) -> list[Step]:
        """What is to be done about the reservations of a node now."""
        self._expire(name, now_s)
        sight = self.sight(name, now_s)
        steps = steps_for(sight)
        for step in steps:
            if not isinstance(step, Create) and step.failure:
                self.failed(name, step.reservation.seat, step.failure, now_s)
        is_unsettled = any(not each.gpu or each.is_leaving for each in sight.reservations)
        if steps or sight.asks or sight.awaited or sight.failed or is_unsettled:
            self._due[name] = now_s + AGAIN_S
        else:
            self._due.pop(name, None)
        return steps

    def failed(self, name: NodeName, seat: int, why: str, now_s: float) -> None:
        """A seat cannot be reserved for now."""
        self._failed.setdefault(name, {})[seat] = now_s + FAILED_S, why

    def sight(self, name: NodeName, now_s: float) -> NodeShares:
        """Everything about the shared GPUs of a node."""
        uids = self._uids_on.get(name, ())
        known = self._reservations_on(name)
        known.sort(key=lambda each: (each.latest.seat, each.latest.attempt))
        failed = self._failed.get(name, {})
        return NodeShares(
            observed=self._node(name),
            reservations=tuple(each.latest for each in known),
            pods=tuple(self._shares[uid] for uid in sorted(uids) if uid in self._shares),
            asks=tuple(self._asks_on.get(name, {}).values()),
            awaited=frozenset(each.latest.uid for each in known if each.awaited),
            slow=frozenset(each.latest.uid for each in known if now_s > each.seen_at_s + START_S),
            failed={seat: why for seat, (until_s, why) in failed.items() if now_s < until_s},
        )

    # --- changes

    def _take_reservation(self, new: Reservation, now_s: float) -> bool:
        known = self._reservations.get(new.uid)
        if known is None:
            known = self._reservations[new.uid] = KnownReservation(replace(new, marks=()), now_s)
        self._place(new.uid, new.node, _number(new.version))
        before, known.latest = known.latest, new
        # Also of a reservation that was there before this loop: the pod may be created at this moment.
        for mark, pod in set(new.marks) - set(before.marks):
            if pod not in self._share_ids:
                known.awaited[mark] = pod, now_s + CREATE_S
        return replace(before, version=new.version) != new

    def _not_awaited(self, pod: PodId, node: NodeName) -> None:
        for known in self._reservations_on(node):
            known.awaited = {mark: each for mark, each in known.awaited.items() if each[0] != pod}

    def _reservations_on(self, node: NodeName) -> list[KnownReservation]:
        return [self._reservations[uid] for uid in self._uids_on.get(node, ()) if uid in self._reservations]

    def _place(self, uid: str, node: NodeName, version: int) -> None:
        self._versions[uid] = version
        self._uids_on.setdefault(node, set()).add(uid)
        self._node_of[uid] = node
        self._due[node] = 0.0

    def _ask(self, ask: PendingShare) -> None:
        order = ask.order
        if self._asked_at.get(order.pod, order.node) != order.node:
            self._forget_ask(order.pod)
        self._asks_on.setdefault(order.node, {})[order.pod] = ask
        self._asked_at[order.pod] = order.node
        self._due[order.node] = 0.0

    def _forget_ask(self, pod: PodId) -> None:
        node = self._asked_at.pop(pod, None)
        if node is None:
            return
        del self._asks_on[node][pod]
        if not self._asks_on[node]:
            del self._asks_on[node]

    def _give_up(self, order: StartOrder) -> None:
        """The scheduler has given these seats to another pod: it has no use any more for those that wait for them."""
        seats = set(order.devices)
        waiting = [ask.order for ask in self._asks_on.get(order.node, {}).values() if not ask.is_granted]
        for each in waiting:
            if seats & set(each.devices):
                self._forget_ask(each.pod)

    def _expire(self, name: NodeName, now_s: float) -> None:
        for ask in list(self._asks_on.get(name, {}).values()):
            if now_s > ask.at_s + (CREATE_S if ask.is_granted else ASK_S):
                self._forget_ask(ask.order.pod)
        for known in self._reservations_on(name):
            known.awaited = {mark: each for mark, each in known.awaited.items() if now_s < each[1]}
        failed = {seat: each for seat, each in self._failed.pop(name, {}).items() if now_s < each[0]}
        if failed:
            self._failed[name] = failed


def _number(version: str) -> int:
    return int(version) if version.isascii() and version.isdigit() else 0
