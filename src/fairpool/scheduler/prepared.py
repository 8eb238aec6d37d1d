"""Prepared columns: a snapshot, cleaned and turned into columns, ready to be decided.

Preparing is kept apart from deciding so that what did not change since the previous snapshot need not be prepared
again. What is kept is a value that the caller holds, never hidden memory, and it changes no decision: for any snapshot
`s` and any earlier `p`, `prepare(s, p)` equals `prepare(s)`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fairpool.model.ids import GroupId, PodId
from fairpool.model.problem import Problem
from fairpool.scheduler.charge import Charges
from fairpool.scheduler.column_builder import build_columns
from fairpool.scheduler.columns import Columns
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.validation import CleanRows, clean, clean_again


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A snapshot as `plan.decide` takes it. It is never changed: every decision works on a copy of its columns."""

    rows: CleanRows
    columns: Columns

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the snapshot."""
        return self.rows.problems


def prepare(snapshot: Snapshot, previous: Prepared | None = None) -> Prepared:
    """Clean the rows of a snapshot and turn them into columns.

    Rows that are the same objects as in the `previous` snapshot of the same pool are taken over.
    """
    if previous is not None:
        following = _follow(snapshot, previous)
        if following is not None:
            return following
    rows = clean(snapshot)
    return Prepared(rows, build_columns(rows, None))


def _follow(snapshot: Snapshot, previous: Prepared) -> Prepared | None:
    """What is prepared, taking over what did not change; None if too much depends on what did.

    That is the case when the policy, the device claims or the set of nodes is another one, when nodes offer resources
    of other names or the smallest device has another size, and when several rows have one id.
    """
    before, columns = previous.rows, previous.columns
    if before.has_doubles or snapshot.policy != before.snapshot.policy or snapshot.claims != before.snapshot.claims:
        return None

    def pods_of(groups: Collection[GroupId]) -> list[PodId]:
        return [
            columns.pod_ids[pod]
            for group in map(columns.group_number, groups)
            if group is not None
            for number in columns.sets_of[group]
            for pod in columns.sets.pods[number]
        ]

    rows = clean_again(snapshot, before, pods_of)
    if rows is None or not _has_alike_nodes(rows, columns):
        return None
    return Prepared(rows, build_columns(rows, columns))


def _has_alike_nodes(rows: CleanRows, before: Columns) -> bool:
    if not rows.fresh_nodes and len(rows.nodes) == len(before.nodes.rows):
        return True
    if rows.nodes.keys() != before.nodes.index.keys():
        return False
    offered = {name for node in rows.nodes.values() for name in (*node.extended, *node.mig_instances)}
    smallest = Charges(rows.nodes.values(), rows.policy).smallest_device_mib
    return offered == before.nodes.other_idle.keys() and smallest == before.charges.smallest_device_mib
