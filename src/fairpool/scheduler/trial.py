"""Tentative moves with undo, on the columns of a snapshot.

Every pass works through a trial, so gangs and victims need no special care: whatever does not work out is undone to
the last mark. All accounting, of nodes, shared devices, pod sets and queues, follows from one primitive, `_become`;
`bind` and `count_many` are the same thing, faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from fairpool.scheduler.columns import NOTHING, NOWHERE, PROMISED, REAL, RELEASING, WAITS, Columns, State
from fairpool.scheduler.device_claims import ClaimTable, Places, Users
from fairpool.scheduler.queues import NONE, Vector


class Trial:
    """Columns in motion: a copy, so that those it began with stay as they are."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns = columns.copy()
        self.journal: list[tuple[int, State]] = []
        self.touched: list[int] = []
        """Groups whose pods moved, undone moves included; each index of groups reads on from there."""
        self.opened_devices = -max(columns.nodes.opened, default=0)
        self.claims = ClaimTable(columns.claims.values(), columns.nodes.rows, columns.nodes.index)
        self._claim_journal: list[tuple[int, Users, Places]] = []
        self.started_as = columns.started_as
        self._unplaced = _Selection(self.touched, columns.unplaced_groups, columns.is_unplaced)
        self._broken = _Selection(self.touched, columns.broken_groups, columns.is_broken)
        for pod in columns.claiming_pods:
            if self.started_as[pod] is not WAITS:
                self._use_claims(pod)

    # ---- the four verbs

    def mark(self) -> int:
        """A point to return to."""
        return len(self.journal)

    def undo(self, mark: int) -> None:
        """Take back everything since the mark, last first."""
        journal, claim_journal = self.journal, self._claim_journal
        while len(journal) > mark:
            pod, state = journal.pop()
            self._become(pod, state)
        while claim_journal and claim_journal[-1][0] >= mark:
            _, self.claims.users, self.claims.places = claim_journal.pop()

    def bind(self, pod: int, node: int, devices: tuple[int, ...]) -> None:
        """Give a waiting pod a place that is free now. As `_move`, only faster, because most moves are binds."""
        columns = self.columns
        if columns.pods[pod].claims:
            self._move(pod, (REAL, node, devices, NOWHERE, ()))
            return
        group, number = columns.group_of[pod], columns.set_of[pod]
        self.journal.append((pod, WAITS))
        self.columns.nodes.fill(columns.facts[columns.shape_of[pod]], node, devices, REAL, +1)
        columns.hold[pod], columns.hold_node[pod], columns.hold_devices[pod] = REAL, node, devices
        columns.sets.waiting[number] -= 1
        columns.sets.active[number] += 1
        self._charge(group, columns.placed_need(pod, node), +1)
        self.touched.append(group)

    def count_many(self, shape: int, places: Sequence[int], leaves: Sequence[int], size: int) -> None:
        """Count binds of many equal pods, already noted one by one: once for each node and each leaf queue."""
        columns = self.columns
        nodes, facts = columns.nodes, columns.facts[shape]
        for node, count in Counter(places).items():
            nodes.version[node] += 1
            nodes.changes.append(node)
            nodes.cpu_idle[node] -= count * facts.cpu_milli
            nodes.memory_idle[node] -= count * facts.memory_bytes
            nodes.slots_idle[node] -= count
            nodes.gpus_idle[node] -= count * facts.whole
        for leaf, count in Counter(leaves).items():
            need = [count * size * amount for amount in facts.placed(nodes.device_mib[0])]
            for level in columns.queues.path[leaf]:
                columns.queues.version[level] += 1
                held = columns.queues.held[level]
                for resource, amount in enumerate(need):
                    held[resource] += amount

    def promise(self, pod: int, node: int, devices: tuple[int, ...]) -> None:
        """Give a pod a place that is being released; what it holds elsewhere it holds until it has left."""
        columns = self.columns
        held = (columns.hold[pod], columns.hold_node[pod], columns.hold_devices[pod])
        self._move(pod, (*held, node, devices))

    def defer(self, pod: int) -> None:
        """Turn a fresh bind into a promise of the same place."""
        columns = self.columns
        self._move(pod, (NOTHING, NOWHERE, (), columns.hold_node[pod], columns.hold_devices[pod]))

    def start(self, pod: int) -> None:
        """Turn a promise into a bind of the same place."""
        columns = self.columns
        self._move(pod, (REAL, columns.promise_node[pod], columns.promise_devices[pod], NOWHERE, ()))

    def evict(self, pod: int) -> None:
        """Take a pod's place away. What this very plan gave is simply taken back, if the policy allows it."""
        columns = self.columns
        if not self._is_given_here(pod):
            self._move(pod, (RELEASING, columns.hold_node[pod], columns.hold_devices[pod], NOWHERE, ()))
        elif columns.policy.withdraw_unstarted or self.started_as[pod][0] == REAL:
            held = self.started_as[pod]
            self._move(pod, (RELEASING, held[1], held[2], NOWHERE, ()) if held[0] == REAL else WAITS)
        else:
            node, devices = self.place(pod)
            self._move(pod, (RELEASING, node, devices, NOWHERE, ()))

    def restore(self, pod: int) -> None:
        """An evicted pod gets back what it had when it was evicted."""
        self._move(pod, self.evicted_from(pod))

    # ---- questions

    def is_active(self, pod: int) -> bool:
        """Holds a place to stay, or is promised one."""
        return self.columns.hold[pod] == REAL or self.columns.promise_node[pod] != NOWHERE

    def is_waiting(self, pod: int) -> bool:
        return self.columns.hold[pod] == NOTHING and self.columns.promise_node[pod] == NOWHERE

    def is_evicted(self, pod: int) -> bool:
        """Lost its place in this plan and was not given another."""
        return (
            self.columns.hold[pod] == RELEASING
            and self.columns.promise_node[pod] == NOWHERE
            and self.started_as[pod][0] != RELEASING
        )

    def place(self, pod: int) -> tuple[int, tuple[int, ...]]:
        """Node and devices that a pod has or is promised."""
        columns = self.columns
        if columns.promise_node[pod] != NOWHERE:
            return columns.promise_node[pod], columns.promise_devices[pod]
        return columns.hold_node[pod], columns.hold_devices[pod]

    def state(self, pod: int) -> State:
        columns = self.columns
        return (
            columns.hold[pod],
            columns.hold_node[pod],
            columns.hold_devices[pod],
            columns.promise_node[pod],
            columns.promise_devices[pod],
        )

    def residents(self, node: int) -> list[int]:
        """Pods that held something on a node when the plan began."""
        columns = self.columns
        pods = map(columns.pod_number, columns.on_node.get(columns.nodes.names[node], ()))
        return [pod for pod in pods if pod is not None and self.started_as[pod][0] != NOTHING]

    def was_running(self, group: int) -> bool:
        """Whether some pod of a group held a place to stay when the plan began."""
        columns = self.columns
        return any(
            self.started_as[pod][0] == REAL for number in columns.sets_of[group] for pod in columns.sets.pods[number]
        )

    def unplaced_groups(self) -> Sequence[int]:
        """Groups that have a pod that waits or is gated now."""
        return self._unplaced.now()

    def broken_groups(self) -> Sequence[int]:
        """Groups that hold something now, but in some pod set less than they need."""
        return self._broken.now()

    def promised(self) -> list[int]:
        """Pods that are promised a place now."""
        promise_node = self.columns.promise_node
        moved = [pod for pod, _ in self.journal if promise_node[pod] != NOWHERE]
        return sorted({*moved, *(pod for pod in self.columns.promised_pods if promise_node[pod] != NOWHERE)})

    def has_changed(self, pod: int) -> bool:
        """Whether the plan does something to a pod."""
        columns, was = self.columns, self.started_as[pod]
        if was is WAITS:
            return columns.hold[pod] != NOTHING or columns.promise_node[pod] != NOWHERE
        return (
            columns.hold[pod] != was[0]
            or columns.promise_node[pod] != was[3]
            or columns.hold_node[pod] != was[1]
            or columns.hold_devices[pod] != was[2]
            or columns.promise_devices[pod] != was[4]
        )

    def evicted_from(self, pod: int) -> State:
        """What an evicted pod had before."""
        return next(state for other, state in reversed(self.journal) if other == pod)

    def open_device(self) -> int:
        """A number for a device that is opened for sharing; the real device is found when the plan is made."""
        self.opened_devices -= 1
        return self.opened_devices

    def _is_given_here(self, pod: int) -> bool:
        return self.columns.promise_node[pod] != NOWHERE or self.started_as[pod][0] != REAL

    # ---- the one primitive

    def _move(self, pod: int, state: State) -> None:
        claims = self.columns.pods[pod].claims
        if claims:
            self._claim_journal.append((len(self.journal), self.claims.users, self.claims.places))
        self.journal.append((pod, self.state(pod)))
        self._become(pod, state)
        if claims:
            self._use_claims(pod)

    def _become(self, pod: int, state: State) -> None:
        columns = self.columns
        was, facts = self.state(pod), columns.facts[columns.shape_of[pod]]
        was_charged = self._charged(pod)
        if was[:3] != state[:3]:
            if was[0] != NOTHING:
                self.columns.nodes.fill(facts, was[1], was[2], was[0], -1)
            if state[0] != NOTHING:
                self.columns.nodes.fill(facts, state[1], state[2], state[0], +1)
        if was[3:] != state[3:]:
            if was[3] != NOWHERE:
                self.columns.nodes.fill(facts, was[3], was[4], PROMISED, -1)
            if state[3] != NOWHERE:
                self.columns.nodes.fill(facts, state[3], state[4], PROMISED, +1)
        counter = self._counter(pod)
        columns.hold[pod], columns.hold_node[pod], columns.hold_devices[pod] = state[:3]
        columns.promise_node[pod], columns.promise_devices[pod] = state[3:]
        counter[columns.set_of[pod]] -= 1
        self._counter(pod)[columns.set_of[pod]] += 1
        charged = self._charged(pod)
        if charged is not was_charged:
            self._charge(columns.group_of[pod], was_charged, -1)
            self._charge(columns.group_of[pod], charged, +1)
        self.touched.append(columns.group_of[pod])

    def _counter(self, pod: int) -> list[int]:
        """The column in which a pod counts for its set."""
        columns, sets = self.columns, self.columns.sets
        if columns.hold[pod] == REAL or columns.promise_node[pod] != NOWHERE:
            return sets.active
        if columns.hold[pod] == RELEASING:
            return sets.leaving
        return sets.gated if columns.pods[pod].gated else sets.waiting

    def _charged(self, pod: int) -> Vector:
        """What queues hold of a pod: if it stays or is promised a place, at the place it will have."""
        columns = self.columns
        if columns.promise_node[pod] != NOWHERE:
            return columns.placed_need(pod, columns.promise_node[pod])
        return columns.placed_need(pod, columns.hold_node[pod]) if columns.hold[pod] == REAL else NONE

    def _charge(self, group: int, need: Vector, sign: int) -> None:
        queues, queue = self.columns.queues, self.columns.queue_of[group]
        if need is NONE or queue == NOWHERE:
            return
        gpu, cpu, memory = sign * need[0], sign * need[1], sign * need[2]
        non_preemptible = self.columns.is_non_preemptible(group)
        for level in queues.path[queue]:
            queues.version[level] += 1
            held = queues.held[level]
            held[0] += gpu
            held[1] += cpu
            held[2] += memory
            if non_preemptible:
                held = queues.held_non_preemptible[level]
                held[0] += gpu
                held[1] += cpu
                held[2] += memory

    def _use_claims(self, pod: int) -> None:
        """A pod that is evicted is leaving with its claims; if this plan gave it its place, it gives them back at once.

        It has them again if it gets another place.
        """
        is_active = self.is_active(pod)
        leaving: bool | None = not is_active
        if self.is_waiting(pod) or (not is_active and self.started_as[pod] is WAITS):
            leaving = None
        self.claims.use(pod, self.columns.pods[pod].claims, self.place(pod)[0], leaving)


class _Selection:
    """Groups of some kind, sorted, kept up to date as pods move.

    It knows the moves, not the trial: a trial that nothing refers to any more is freed at once, with its columns.
    """

    def __init__(self, touched: list[int], groups: Sequence[int], belongs: Callable[[int], bool]) -> None:
        self._touched = touched
        self._belongs = belongs
        self._sorted = groups
        self._read = 0

    def now(self) -> Sequence[int]:
        touched = self._touched
        if self._read < len(touched):
            moved = set(touched[self._read :])
            kept = [group for group in self._sorted if group not in moved]
            self._sorted = sorted([*kept, *filter(self._belongs, moved)])
            self._read = len(touched)
        return self._sorted
