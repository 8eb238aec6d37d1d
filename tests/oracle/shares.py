"""Fair share: how much of each resource every queue should have (specification, section 2).

Exact: weights and usage are fractions, shares are integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from fairpool.model.ids import Instant, QueueId
from fairpool.model.organization import Entitlement
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI, Amounts
from tests.oracle.world import ALLOCATED, CPU, GPU, MEMORY, RESOURCES, Resource, Status, World, part, total

UNIT = {GPU: WHOLE_GPU_MILLI, CPU: 1, MEMORY: 1}
"""Surplus is given out in whole units of this size."""


@dataclass
class Share:
    """One queue's part in the division of one resource."""

    queue: QueueId
    owed: Entitlement
    request: int
    priority: int = 100
    created_at: Instant = Instant(0)
    fair: int = 0

    @property
    def requestable(self) -> int:
        return self.request if self.owed.limit == UNLIMITED else min(self.request, self.owed.limit)

    @property
    def wants(self) -> int:
        return self.requestable - self.fair

    @property
    def is_satisfied(self) -> bool:
        return self.request <= self.fair or (self.owed.limit != UNLIMITED and self.owed.limit <= self.fair)

    @property
    def weight(self) -> Fraction:
        return Fraction(str(self.owed.weight))


def divide(amount: int, shares: list[Share], *, unit: int = 1, k: float = 1.0, tiers_apart: bool = True) -> int:
    """Divide an amount among siblings; returns what nobody takes."""
    left = amount
    for share in shares:
        quota = amount if share.owed.quota == UNLIMITED else share.owed.quota
        share.fair = min(quota, share.requestable)
        left -= share.fair
    if left <= 0:  # quotas are owed even where they exceed what there is
        return 0
    return divide_surplus(left, shares, unit=unit, k=k, tiers_apart=tiers_apart)


def divide_surplus(left: int, shares: list[Share], *, unit: int, k: float, tiers_apart: bool) -> int:
    """Divide what is left after everybody has what they are owed, the highest priority first."""
    rests: dict[QueueId, Fraction] = {}
    tiers = [
        [share for share in shares if share.priority == priority]
        for priority in sorted({share.priority for share in shares}, reverse=True)
    ]
    for tier in tiers:
        left = _give_slices(left, tier, rests, unit, Fraction(str(max(k, 0))))
        if tiers_apart:
            left = _give_rests(left, tier, rests, unit)
    if not tiers_apart:  # oddity B2: a lower tier has had its turn before the rests of a higher one are given
        for tier in tiers:
            left = _give_rests(left, tier, rests, unit)
    return left


def _give_slices(left: int, tier: list[Share], rests: dict[QueueId, Fraction], unit: int, k: Fraction) -> int:
    """Rounds by weight, until nobody asks for less than their slice."""
    again = True
    while again and left > 0:
        again = False
        pool = left
        weights = sum((share.weight for share in tier if share.wants > 0), Fraction(0))
        if weights == 0:
            break
        needy = [share for share in tier if not share.is_satisfied]
        parts = {share.queue: _part(share, weights, k) for share in needy}
        whole = sum(parts.values(), Fraction(0))
        if whole == 0:
            break
        for share in needy:
            if share.weight == 0 or left == 0:
                continue
            part_of_pool = pool * parts[share.queue] / whole
            wants = share.wants
            if wants <= part_of_pool:
                given = wants
                rests.pop(share.queue, None)
            else:
                given = math.floor(part_of_pool / unit) * unit
                if part_of_pool > given:
                    rests[share.queue] = part_of_pool - given
            share.fair += given
            left -= given
            again = again or (given > 0 and wants < part_of_pool)
    return left


def _part(share: Share, weights: Fraction, k: Fraction) -> Fraction:
    normal = share.weight / weights
    return max(Fraction(0), normal + k * (normal - Fraction(str(share.owed.usage))))


def _give_rests(left: int, tier: list[Share], rests: dict[QueueId, Fraction], unit: int) -> int:
    """Units lost to rounding: one each, the largest rest first, then the older queue."""
    losers = [share for share in tier if share.queue in rests]
    for share in sorted(losers, key=lambda each: (-rests[each.queue], each.created_at, each.queue)):
        given = min(unit, left)
        if given <= 0:
            break
        share.fair += given
        left -= given
    return left


class FairShares:
    """The fair share of every queue, worked out once at the beginning of a cycle."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cluster = world.cluster()
        self.fair: dict[QueueId, Amounts] = {}
        self._requests = {queue: self._request(queue) for queue in world.queues}
        self._divide_below(None, self.cluster)

    def allocatable(self, queue: QueueId, resource: Resource) -> int:
        """How much a queue may hold and be left alone: its quota or its fair share, within its limit."""
        owed = self.world.entitlement(queue, resource)
        if owed.quota == UNLIMITED:
            return owed.limit
        most = max(owed.quota, part(self.fair[queue], resource))
        return most if owed.limit == UNLIMITED else min(most, owed.limit)

    def _request(self, queue: QueueId) -> Amounts:
        asking = ALLOCATED | {Status.WAITING}
        pods = (pod for pod in self.world.pods_below(queue) if pod.status in asking)
        return total(self.world.charge_here(pod) for pod in pods)

    def _divide_below(self, parent: QueueId | None, amount: Amounts) -> None:
        children = self.world.children(parent)
        fair: dict[Resource, dict[QueueId, int]] = {}
        for resource in RESOURCES:
            shares = [self._share(queue, resource) for queue in children]
            divide(
                part(amount, resource),
                shares,
                unit=UNIT[resource],
                k=self.world.policy.usage_factor,
                tiers_apart=self.world.policy.tier_remainders_first,
            )
            fair[resource] = {share.queue: share.fair for share in shares}
        for queue in children:
            self.fair[queue] = Amounts(fair[GPU][queue], fair[CPU][queue], fair[MEMORY][queue])
            self._divide_below(queue, self.fair[queue])

    def _share(self, queue: QueueId, resource: Resource) -> Share:
        row = self.world.queues[queue]
        owed = self.world.entitlement(queue, resource)
        return Share(queue, owed, part(self._requests[queue], resource), row.priority, row.created_at)
