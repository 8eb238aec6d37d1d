"""Columns of pod shapes: each different shape once, and the shape of each pod."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from fairpool.scheduler.charge import ShapeFacts
from fairpool.scheduler.columns import NOWHERE, Columns
from fairpool.scheduler.node_classes import rule_keys
from fairpool.scheduler.numbering import Numbering


def number_shapes(columns: Columns, before: Columns, pods: Numbering) -> None:
    """Each different shape once, in the order of the first pod that has it."""
    facts, numbers = before.facts, before.shape_numbers
    by_identity: dict[int, int] = {}
    fresh: list[int] = []
    for pod in pods.fresh:
        shape = columns.pods[pod].shape
        number = by_identity.get(id(shape))
        if number is None:
            number = numbers.get(shape)
            if number is None:
                if facts is before.facts:
                    facts, numbers = list(facts), dict(numbers)
                number = numbers[shape] = len(facts)
                facts.append(ShapeFacts(shape, columns.charges))
            by_identity[id(shape)] = number
        fresh.append(number)
    columns.facts, columns.shape_numbers = facts, numbers
    columns.shape_of = pods.splice(before.shape_of, fresh)
    first = _first_pods(columns, before, pods, fresh)
    order = sorted((pod, number) for number, pod in enumerate(first) if pod != NOWHERE)
    columns.first_of_shape = [pod for pod, _ in order]
    if [number for _, number in order] != list(range(len(facts))):
        _reorder(columns, [number for _, number in order])
    typical = [typical.shape for typical in columns.policy.typical]
    shapes = (*(each.shape for each in columns.facts), *typical)
    columns.rule_keys = before.rule_keys if columns.facts is before.facts else rule_keys(shapes)


def _first_pods(columns: Columns, before: Columns, pods: Numbering, fresh: Sequence[int]) -> list[int]:
    """By shape the first pod that has it; NOWHERE if none has."""
    count = len(columns.facts)
    first = [*pods.renumber(before.first_of_shape), *[NOWHERE] * (count - len(before.facts))]
    gone = set(pods.gone)
    for shape, pod in enumerate(before.first_of_shape):
        if pod in gone:
            start = bisect_left(columns.pod_ids, before.pod_ids[pod])
            first[shape] = _next_with(columns.shape_of, shape, start)
    for pod, shape in zip(reversed(pods.fresh), reversed(fresh), strict=True):
        if first[shape] == NOWHERE or pod < first[shape]:
            first[shape] = pod
    return first


def _reorder(columns: Columns, order: Sequence[int]) -> None:
    place = {number: now for now, number in enumerate(order)}
    columns.facts = [columns.facts[number] for number in order]
    columns.shape_numbers = {facts.shape: number for number, facts in enumerate(columns.facts)}
    columns.shape_of = [place[number] for number in columns.shape_of]


def _next_with(column: list[int], value: int, start: int) -> int:
    """The first place of a value from a place on; NOWHERE if there is none."""
    try:
        return column.index(value, start)
    except ValueError:
        return NOWHERE
