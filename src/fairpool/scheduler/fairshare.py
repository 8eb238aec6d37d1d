"""Fair-share calculation: quotas first, then what is left by weight, down the queue tree.

A fair share is a nominal figure, computed for each resource by itself. It decides which queue is served next and which
may reclaim from which; it reserves nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fairpool.scheduler.policy import Policy
from fairpool.scheduler.queues import RESOURCES, UNIT, QueueTable

REST_DIGITS = 6
"""Digits of a rest that count; those after are rounding errors of the division."""


@dataclass(slots=True)
class Claimant:
    """One queue among its siblings, for one resource."""

    id: str
    priority: int
    created_at: int
    quota: float
    limit: float
    weight: float
    usage: float
    request: float
    fair: float = 0

    @property
    def requestable(self) -> float:
        return min(self.request, self.limit)

    @property
    def wants(self) -> float:
        return self.requestable - self.fair


def fair_shares(queues: QueueTable, policy: Policy) -> None:
    """Fill in `queues.fair` from totals, requests and entitlements."""
    for resource in RESOURCES:
        _share_below(queues, queues.roots, queues.total[resource], resource, policy)


def _share_below(queues: QueueTable, siblings: list[int], total: float, resource: int, policy: Policy) -> None:
    claimants = [
        Claimant(
            id=queues.ids[queue],
            priority=queues.priority[queue],
            created_at=queues.created_at[queue],
            quota=queues.quota[queue][resource],
            limit=queues.limit[queue][resource],
            weight=queues.weight[queue][resource],
            usage=queues.usage[queue][resource],
            request=queues.request[queue][resource],
        )
        for queue in siblings
    ]
    divide(
        total,
        claimants,
        unit=UNIT[resource],
        k=policy.usage_factor,
        tier_remainders_first=policy.tier_remainders_first,
    )
    for queue, claimant in zip(siblings, claimants, strict=True):
        queues.set_fair(queue, resource, claimant.fair)
        if queues.children[queue]:
            _share_below(queues, queues.children[queue], claimant.fair, resource, policy)


def divide(total: float, claimants: list[Claimant], *, unit: float, k: float, tier_remainders_first: bool) -> float:
    """Divide among siblings and return what is left over.

    Quotas are given even when they add up to more than there is: they are never scaled down.
    """
    left = total
    for claimant in claimants:
        owed = total if claimant.quota == math.inf else claimant.quota
        claimant.fair = min(owed, claimant.requestable)
        left -= claimant.fair
    if left <= 0:
        return 0
    return divide_surplus(left, claimants, unit=unit, k=k, tier_remainders_first=tier_remainders_first)


def divide_surplus(
    left: float, claimants: list[Claimant], *, unit: float, k: float, tier_remainders_first: bool
) -> float:
    """Lend what is left, highest queue priority first, and return what is left over."""
    tiers = [
        sorted((each for each in claimants if each.priority == priority), key=lambda each: each.id)
        for priority in sorted({claimant.priority for claimant in claimants}, reverse=True)
    ]
    rests = []
    for tier in tiers:
        left, rest = _lend_to_tier(left, tier, unit, k)
        if tier_remainders_first:
            left = _hand_out_rest(left, tier, rest, unit)
        rests.append(rest)
    if not tier_remainders_first:
        for tier, rest in zip(tiers, rests, strict=True):
            left = _hand_out_rest(left, tier, rest, unit)
    return left


def _lend_to_tier(left: float, tier: list[Claimant], unit: float, k: float) -> tuple[float, dict[str, float]]:
    """Rounds of lending by weight. Returns what is left and, by queue, what rounding down withheld."""
    rest: dict[str, float] = {}
    again = True
    while again and left > 0:
        again = False
        parts = _parts(tier, max(k, 0.0))
        whole = sum(parts.values())
        if whole == 0:
            break
        pool = left
        for claimant in tier:
            if claimant.id not in parts or claimant.weight == 0:
                continue
            if left == 0:
                break
            slice_ = _exact(pool * parts[claimant.id] / whole)
            wants = claimant.wants
            if wants <= slice_:
                give = wants
                rest.pop(claimant.id, None)
                again = again or (give > 0 and wants < slice_)
            else:
                give = math.floor(slice_ / unit) * unit
                if slice_ > give:
                    rest[claimant.id] = round(slice_ - give, REST_DIGITS)  # equal rests must compare equal
            claimant.fair += give
            left -= give
    return left, rest


def _parts(tier: list[Claimant], k: float) -> dict[str, float]:
    """The part of each queue that still wants something: its weight, corrected by its recent usage."""
    needy = [each for each in tier if each.request > each.fair and each.limit > each.fair]
    weight = sum(each.weight for each in tier if each.wants > 0)
    if weight == 0:
        return {}
    return {each.id: max(0.0, each.weight / weight + k * (each.weight / weight - each.usage)) for each in needy}


def _exact(amount: float) -> float:
    """Undo the rounding error of a division that should be whole, or a third of 3 GPUs would round down to none."""
    nearest = round(amount)
    return nearest if math.isclose(amount, nearest, rel_tol=1e-12, abs_tol=1e-9) else amount


def _hand_out_rest(left: float, tier: list[Claimant], rest: dict[str, float], unit: float) -> float:
    """The units lost to rounding, one each: largest rest first, then the older queue, then by id."""
    for claimant in sorted(
        (each for each in tier if each.id in rest),
        key=lambda each: (-rest[each.id], each.created_at, each.id),
    ):
        if left <= 0:
            break
        give = min(unit, left)
        claimant.fair += give
        left -= give
    return left
