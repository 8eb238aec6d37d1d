"""Fair share: how much of each resource every queue should have (specification, section 2).

Exact: weights and usage are fractions, shares are whole numbers of thousandths of a GPU, of a core, and of bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from fairpool.model.ids import Instant, QueueId
from tests.oracle.world import PLACED, RESOURCES, WHOLE_GPU, Status, Vector, World, total

UNIT = (WHOLE_GPU, 1, 1)
"""By resource, the unit in which surplus is given out."""


@dataclass
class Share:
    """One queue in the division of one resource among siblings."""

    queue: QueueId
    quota: float
    limit: float
    request: float
    """What its pods hold and wait for."""
    weight: float = 1.0
    usage: float = 0.0
    priority: int = 100
    created_at: Instant = Instant(0)
    fair: float = 0

    @property
    def wants(self) -> float:
        return min(self.request, self.limit) - self.fair


def with_fair_shares(world: World) -> World:
    """Divide the cluster among the root queues, and the share of each queue among the queues below it."""
    world = replace(world, fair={})
    return _divide_below(world, None, world.cluster())


def _divide_below(world: World, parent: QueueId | None, amount: Vector) -> World:
    siblings = world.children(parent)
    columns = []
    for resource in RESOURCES:
        shares = [_share(world, queue, resource) for queue in siblings]
        divide(
            amount[resource],
            shares,
            unit=UNIT[resource],
            k=world.policy.usage_factor,
            tiers_apart=world.policy.tier_remainders_first,
        )
        columns.append([share.fair for share in shares])
    fair = dict(zip(siblings, zip(*columns, strict=True), strict=True))
    world = replace(world, fair={**world.fair, **fair})
    for queue in siblings:
        world = _divide_below(world, queue, fair[queue])
    return world


def _share(world: World, queue: QueueId, resource: int) -> Share:
    row, owed = world.queues[queue], world.entitlements(queue)[resource]
    asking = world.pods_below(queue, PLACED | {Status.WAITING})
    return Share(
        queue,
        world.quota(queue)[resource],
        world.limit(queue)[resource],
        total(world.charge_here(pod) for pod in asking)[resource],
        owed.weight,
        owed.usage,
        row.priority,
        row.created_at,
    )


def divide(amount: float, shares: list[Share], *, unit: int, k: float, tiers_apart: bool) -> float:
    """Divide an amount among siblings: first quotas, then the surplus. Returns what is left over."""
    left = amount
    for share in shares:
        share.fair = min(amount if share.quota == math.inf else share.quota, share.request, share.limit)
        left -= share.fair
    if left <= 0:  # quotas are owed even where they exceed what there is
        return 0
    return divide_surplus(left, shares, unit=unit, k=k, tiers_apart=tiers_apart)


def divide_surplus(left: float, shares: list[Share], *, unit: int, k: float, tiers_apart: bool) -> float:
    """Divide what is left after quotas: queues of the highest priority first, in proportion to their weights."""
    rests: dict[QueueId, Fraction] = {}
    priorities = sorted({share.priority for share in shares}, reverse=True)
    tiers = [[share for share in shares if share.priority == priority] for priority in priorities]
    for tier in tiers:
        left = _give_by_weight(left, tier, rests, unit, Fraction(str(max(k, 0))))
        if tiers_apart:
            left = _give_rests(left, tier, rests, unit)
    if not tiers_apart:  # B2: lower tiers come before the rests of higher ones
        for tier in tiers:
            left = _give_rests(left, tier, rests, unit)
    return left


def _give_by_weight(left: float, tier: list[Share], rests: dict[QueueId, Fraction], unit: int, k: Fraction) -> float:
    """Rounds of division by weight, until no queue wants less than its part. Notes what rounding down withheld."""
    again = True
    while again and left > 0:
        again = False
        pool, needy = Fraction(left), [share for share in tier if share.wants > 0]
        weights = [Fraction(str(share.weight)) for share in needy]
        if sum(weights) == 0:
            break
        normal = [weight / sum(weights) for weight in weights]
        parts = [
            max(Fraction(0), part + k * (part - Fraction(str(share.usage))))
            for part, share in zip(normal, needy, strict=True)
        ]
        if sum(parts) == 0:
            break
        for share, part in zip(needy, parts, strict=True):
            if share.weight == 0 or left == 0:
                continue
            offered, wants = pool * part / sum(parts), share.wants
            if wants <= offered:
                given = wants
                rests.pop(share.queue, None)
            else:
                given = math.floor(offered / unit) * unit
                if offered > given:
                    rests[share.queue] = offered - given
            share.fair += given
            left -= given
            again = again or (given > 0 and wants < offered)
    return left


def _give_rests(left: float, tier: list[Share], rests: dict[QueueId, Fraction], unit: int) -> float:
    """Units lost to rounding: one each, to the largest rest first, then to the older queue."""
    losers = [share for share in tier if share.queue in rests]
    for share in sorted(losers, key=lambda each: (-rests[each.queue], each.created_at, each.queue)):
        given = min(unit, left)
        share.fair += given
        left -= given
    return left
