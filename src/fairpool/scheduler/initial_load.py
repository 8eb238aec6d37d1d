"""The initial load: what pods hold when a plan begins, counted on nodes, pod sets and queues.

Nodes are loaded one by one, each from nothing and in id order, so that what is on a node depends on its own pods only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fairpool.model.lifecycle import PodPhase
from fairpool.model.workload import Pod
from fairpool.scheduler.columns import (
    NOTHING,
    NOWHERE,
    PROMISED,
    REAL,
    RELEASING,
    Columns,
    State,
    with_claimed,
)
from fairpool.scheduler.queues import LeafAmounts

PHYSICAL = {PodPhase.BOUND: REAL, PodPhase.RUNNING: REAL, PodPhase.RELEASING: RELEASING}


def load_node(columns: Columns, node: int, pods: Sequence[int]) -> None:
    """Put pods on an empty node."""
    nodes = columns.nodes
    alike: Counter[tuple[int, int]] = Counter()
    plain: dict[int, State] = {}
    for pod in pods:
        row = columns.pods[pod]
        shape = columns.shape_of[pod]
        facts = columns.facts[shape]
        hold = PHYSICAL.get(row.phase, NOTHING)
        if hold == NOTHING and (row.phase is not PodPhase.PROMISED or columns.policy.durable_promises):
            continue
        how = hold or PROMISED
        if facts.shared:
            state = _with_devices(columns, row, hold, node)
            nodes.fill(facts, node, state[2] or state[4], how, +1)
        else:
            state = plain.get(hold) or plain.setdefault(
                hold, (hold, node, (), NOWHERE, ()) if hold else (NOTHING, NOWHERE, (), node, ())
            )
            alike[shape, how] += 1
        columns.started_as[pod] = state
        columns.hold[pod], columns.hold_node[pod], columns.hold_devices[pod] = state[:3]
        columns.promise_node[pod], columns.promise_devices[pod] = state[3:]
        if not facts.shape.schedulable:
            nodes.unschedulable_pods[node] += 1
    for (shape, how), count in alike.items():
        nodes.fill(columns.facts[shape], node, (), how, count)


def _with_devices(columns: Columns, row: Pod, hold: int, node: int) -> State:
    """The state of a sharer; devices that are not known are opened."""
    missing = row.shape.gpu.devices - len(row.devices)
    opened = columns.nodes.opened[node]
    devices = row.devices + tuple(-opened - 1 - each for each in range(missing))
    columns.nodes.opened[node] += max(missing, 0)
    return (hold, node, devices, NOWHERE, ()) if hold else (NOTHING, NOWHERE, (), node, devices)


def load_sets(columns: Columns, numbers: Iterable[int]) -> None:
    """Count the pods of some pod sets."""
    sets, states, rows = columns.sets, columns.started_as, columns.pods
    for number in numbers:
        active = leaving = waiting = gated = 0
        for pod in sets.pods[number]:
            state = states[pod]
            if state[0] == REAL or state[3] != NOWHERE:
                active += 1
            elif state[0] == RELEASING:
                leaving += 1
            elif rows[pod].gated:
                gated += 1
            else:
                waiting += 1
        sets.active[number], sets.leaving[number] = active, leaving
        sets.waiting[number], sets.gated[number] = waiting, gated


def leaf_amounts(columns: Columns, pods: Iterable[int]) -> LeafAmounts:
    """What leaf queues hold of some pods, the part of it that may not be preempted, and what they wait for."""
    queue_of, group_of, shape_of, states = columns.queue_of, columns.group_of, columns.shape_of, columns.started_as
    rules, mib, gated = columns.rules, columns.nodes.device_mib, columns.pods
    counts: Counter[tuple[int, bool, int, int, int]] = Counter()
    keys = []
    for pod in pods:
        group = group_of[pod]
        leaf = queue_of[group]
        if leaf == NOWHERE:
            continue
        state = states[pod]
        claimed = columns.claimed_gpus[pod]
        if state[0] == REAL or state[3] != NOWHERE:
            node = state[3] if state[3] != NOWHERE else state[1]
            keys.append((leaf, rules[group].preemptible, shape_of[pod], mib[node], claimed))
        if state[0] == NOTHING and not gated[pod].gated:
            keys.append((leaf, True, shape_of[pod], NOWHERE, claimed))
    counts.update(keys)
    amounts = LeafAmounts()
    for (leaf, preemptible, shape, device_mib, claimed), count in counts.items():
        facts = columns.facts[shape]
        if device_mib == NOWHERE:
            amounts.add(amounts.waiting, leaf, with_claimed(facts.waiting, claimed), count)
            continue
        need = with_claimed(facts.placed(device_mib), claimed)
        amounts.add(amounts.held, leaf, need, count)
        if not preemptible:
            amounts.add(amounts.held_non_preemptible, leaf, need, count)
    return amounts
