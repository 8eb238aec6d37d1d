"""Lending: whose unused quota the GPUs come from that projects hold beyond their quotas.

GPUs have no owner, so who lends to whom is a rule of attribution, and this is its only home:

1. A queue has unused what it holds less than its quota, and has borrowed what it holds more than its quota. A queue
   with an unlimited quota has neither.
2. What is borrowed comes first from GPUs that are in no quota: the capacity less the sum of all quotas.
3. The rest is lent by the queues with unused quota, each in proportion to what it has unused.
4. Each borrower gets of each lender the same part of what that one lends.

Amounts are whole thousandths. What does not divide goes to the largest remainders, and of equal ones to the first name,
so that the rows and columns add up exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairpool.model.ids import QueueId
from fairpool.model.quantity import UNLIMITED


@dataclass(frozen=True, slots=True)
class QueueHolding:
    """What a queue is owed and holds, in thousandths of a GPU."""

    quota_milli: int
    held_milli: int

    @property
    def in_quota_milli(self) -> int:
        return self.held_milli if self.quota_milli == UNLIMITED else min(self.held_milli, self.quota_milli)

    @property
    def over_milli(self) -> int:
        return self.held_milli - self.in_quota_milli

    @property
    def unused_milli(self) -> int:
        return 0 if self.quota_milli == UNLIMITED else max(self.quota_milli - self.held_milli, 0)


@dataclass(frozen=True, slots=True)
class Lending:
    """Who lends to whom."""

    from_unassigned_milli: int = 0
    """Borrowed from GPUs that are in no quota."""
    loans: Mapping[tuple[QueueId, QueueId], int] = field(default_factory=dict)
    """Lender and borrower."""
    unassigned: Mapping[QueueId, int] = field(default_factory=dict)
    """What each borrower has of the GPUs in no quota."""

    def lent_to(self, lender: QueueId) -> dict[str, int]:
        return {borrower: amount for (giver, borrower), amount in self.loans.items() if giver == lender}

    def borrowed_from(self, borrower: QueueId) -> dict[str, int]:
        return {lender: amount for (lender, taker), amount in self.loans.items() if taker == borrower}


def lending(capacity_milli: int, holdings: Mapping[QueueId, QueueHolding]) -> Lending:
    """Who lends to whom among queues that share this capacity: all projects, or all departments, of a pool."""
    names = sorted(holdings)
    over = {name: holdings[name].over_milli for name in names if holdings[name].over_milli}
    unused = {name: holdings[name].unused_milli for name in names if holdings[name].unused_milli}
    quotas = sum(each.quota_milli for each in holdings.values() if each.quota_milli != UNLIMITED)
    borrowed = sum(over.values())
    lent = min(sum(unused.values()), max(borrowed - max(capacity_milli - quotas, 0), 0))
    left = dict(zip(unused, apportioned(lent, list(unused.values())), strict=True))
    from_lenders = dict(zip(over, apportioned(lent, list(over.values())), strict=True))
    loans: dict[tuple[QueueId, QueueId], int] = {}
    for borrower, amount in from_lenders.items():
        for lender, part in zip(left, apportioned(amount, list(left.values())), strict=True):
            if part:
                loans[lender, borrower] = part
                left[lender] -= part
    unassigned = {name: rest for name in over if (rest := over[name] - from_lenders[name])}
    return Lending(borrowed - lent, loans, unassigned)


def apportioned(amount: int, weights: Sequence[int]) -> list[int]:
    """An amount in whole parts in proportion to weights, by largest remainder; it is at most their sum, and no part is
    above its weight."""
    total = sum(weights)
    if not total:
        return [0] * len(weights)
    parts = [amount * weight // total for weight in weights]
    remainders = sorted(range(len(weights)), key=lambda each: (-(amount * weights[each] % total), each))
    for each in remainders[: amount - sum(parts)]:
        parts[each] += 1
    return parts
