"""A plan against the slow, obvious scheduler of the tests: the same totals, whatever the placements.

Imported only for `--check`: the oracle lives with the tests and may be absent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bench._audit import MOST_FAULTS, After
from fairpool.model.ids import GroupId, QueueId
from tests.oracle.outcome import decide


def differences(after: After) -> list[str]:
    """GPUs and evictions by queue, and which groups are whole, where plan and oracle differ."""
    oracle = decide(after.snapshot)
    count = after.groups_in_place()
    whole = {
        group.id
        for group in after.snapshot.groups
        if count[group.id] >= sum(pod_set.minimum for pod_set in group.tree.all_pod_sets())
    }
    return [
        *_unequal("thousandths of a GPU", after.held_milli(), oracle.held_milli),
        *_unequal("evictions", after.evicted, oracle.evictions),
        *_missing("whole here and not for the oracle", whole - oracle.whole),
        *_missing("whole for the oracle and not here", oracle.whole - whole),
    ]


def _unequal(what: str, here: Mapping[QueueId, int], there: Mapping[QueueId, int]) -> list[str]:
    return [
        f"{queue}: {here.get(queue, 0)} {what}, the oracle has {there.get(queue, 0)}"
        for queue in sorted({*here, *there})
        if here.get(queue, 0) != there.get(queue, 0)
    ]


def _missing(what: str, groups: Collection[GroupId]) -> list[str]:
    return [f"{len(groups)} groups {what}: {', '.join(sorted(groups)[:MOST_FAULTS])}"] if groups else []
