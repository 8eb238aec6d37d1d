"""Device claims: which devices each claim has, and which pods use it.

A claim is allocated by its first user and given back by its last. While all its users are leaving, its devices
are being released: they can be promised to another claim, and bound only when the last user has left.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairpool.model.ids import ClaimId, NodeName, QueueId
from fairpool.model.node import Node
from fairpool.model.workload import Claim

CONSUMERS_MAX = 256

Users = dict[ClaimId, dict[int, bool]]
"""By claim, the pods that use it, and whether they are leaving."""
Places = dict[ClaimId, tuple[int, tuple[str, ...]]]
"""By claim, its node and its devices there."""


class ClaimTable:
    """All claims. Its two tables are replaced, never changed, so that a trial can keep the ones it may return to."""

    def __init__(self, claims: Iterable[Claim], nodes: list[Node], index: dict[NodeName, int]) -> None:
        self.claims: dict[ClaimId, Claim] = {claim.id: claim for claim in claims}
        self.devices: list[tuple[str, ...]] = [
            tuple(sorted(node.claim_devices)) if node.claim_devices else () for node in nodes
        ]
        self.users: Users = {name: {} for name in self.claims}
        self.places: Places = {}
        for claim in self.claims.values():
            node = index.get(claim.node) if claim.node is not None else None
            if node is not None and claim.allocated:
                self.places[claim.id] = (node, claim.allocated)

    def use(self, pod: int, names: Iterable[ClaimId], node: int, leaving: bool | None) -> None:
        """A pod uses its claims on a node, is leaving with them, or (None) does not use them any more."""
        users, places = dict(self.users), dict(self.places)
        for name in names:
            if name not in self.claims:
                continue
            mine = dict(users[name])
            if leaving is None:
                mine.pop(pod, None)
            else:
                mine[pod] = leaving
            was_used = bool(users[name])
            users[name] = mine
            if mine and name not in places:
                self.users, self.places = users, places
                places[name] = (node, self._choose(self.claims[name], node))
            elif was_used and not mine and not self.claims[name].consumers_elsewhere:
                places.pop(name, None)
        self.users, self.places = users, places

    def fits(self, names: Iterable[ClaimId], node: int, queue: QueueId) -> bool:
        """Whether every claim exists, is meant for this queue, has room for one more user, and can be had here."""
        missing = 0
        for name in names:
            claim = self.claims.get(name)
            if claim is None or len(self.users[name]) + claim.consumers_elsewhere >= CONSUMERS_MAX:
                return False
            if claim.counts_as_gpu and not claim.from_template and claim.queue != queue:
                return False
            if name not in self.places:
                missing += claim.devices
            elif self.places[name][0] != node or not self._is_still_its_own(name):
                return False
        return missing <= len(self.free(node)) + len(self.soon(node))

    def is_free(self, names: Iterable[ClaimId], node: int) -> bool:
        """Whether the claims can be had at once, without waiting for others to leave."""
        leaving = self._leaving(node)
        missing = 0
        for name in names:
            if name in self.places:
                if leaving.intersection(self.places[name][1]) and not self._all_leave(name):
                    return False
            else:
                missing += self.claims[name].devices
        return missing <= len(self.free(node))

    def devices_asked(self, names: Iterable[ClaimId]) -> int:
        """How many devices must be found for those of some claims that have none."""
        return sum(self.claims[name].devices for name in set(names) if name in self.claims and name not in self.places)

    def free(self, node: int) -> list[str]:
        """Devices of a node that no claim has."""
        taken = {device for where, devices in self.places.values() if where == node for device in devices}
        return [device for device in self.devices[node] if device not in taken]

    def soon(self, node: int) -> list[str]:
        """Devices whose users are all leaving, and that are not yet promised to another claim."""
        return sorted(self._leaving(node) - self._kept(node))

    def _kept(self, node: int) -> set[str]:
        """Devices of claims that some pod goes on using or is promised."""
        places = self.places.items()
        return {dev for name, (at, devices) in places if at == node and not self._all_leave(name) for dev in devices}

    def _is_still_its_own(self, name: ClaimId) -> bool:
        """Whether no other claim was promised what the users of this one leave."""
        node, devices = self.places[name]
        return not self._all_leave(name) or self._kept(node).isdisjoint(devices)

    def _leaving(self, node: int) -> set[str]:
        places = self.places.items()
        return {device for name, (at, devices) in places if at == node and self._all_leave(name) for device in devices}

    def _all_leave(self, name: ClaimId) -> bool:
        users = self.users[name]
        return bool(users) and all(users.values()) and not self.claims[name].consumers_elsewhere

    def _choose(self, claim: Claim, node: int) -> tuple[str, ...]:
        """As before if it can be; else what is free first, then what is being released."""
        available = [*self.free(node), *self.soon(node)]
        if claim.allocated and set(claim.allocated) <= set(available):
            return claim.allocated
        return tuple(available[: claim.devices])
