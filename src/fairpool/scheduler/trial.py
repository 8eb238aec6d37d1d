"""Tentative moves with undo, on the columns of a snapshot.

Every pass works through a trial, so gangs and victims need no special care: whatever does not work out is undone to
the last mark. All accounting, of nodes, shared devices, pod sets and queues, follows from one primitive, `_become`;
`bind`, `count_many` and the first load are the same thing, faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fairpool.model.lifecycle import PodPhase
from fairpool.model.workload import GpuKind, Pod
from fairpool.scheduler.charge import ShapeFacts
from fairpool.scheduler.columns import NOTHING, NOWHERE, PROMISED, REAL, RELEASING, Columns
from fairpool.scheduler.device_claims import ClaimTable, Places, Users
from fairpool.scheduler.queues import NONE, Vector, plus

State = tuple[int, int, tuple[int, ...], int, tuple[int, ...]]
"""What a pod holds, on which node and devices; and the node and devices it is promised."""

WAITS: State = (NOTHING, NOWHERE, (), NOWHERE, ())

PHYSICAL = {PodPhase.BOUND: REAL, PodPhase.RUNNING: REAL, PodPhase.RELEASING: RELEASING}


class Trial:
    """Columns in motion."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.journal: list[tuple[int, State]] = []
        self.touched: list[int] = []
        """Groups whose pods moved, undone moves included; each index of groups reads on from there."""
        self.opened_devices = 0
        self._residents: dict[int, list[int]] | None = None
        self.claims = ClaimTable(columns.claims.values(), columns.nodes.rows, columns.nodes.index)
        self._claim_journal: list[tuple[int, Users, Places]] = []
        self.was_promised = [pod for pod, row in enumerate(columns.pods) if row.phase is PodPhase.PROMISED]
        self.started_as: list[State] = [
            WAITS if pod.phase is PodPhase.WAITING else self._initial(pod) for pod in columns.pods
        ]
        self.running_groups: set[int] = {
            columns.group_of[pod] for pod, state in enumerate(self.started_as) if state[0] == REAL
        }
        self._load_pods()

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
        self._fill(columns.facts[columns.shape_of[pod]], node, devices, REAL, +1)
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
        if self._residents is None:
            self._residents = {}
            for pod, state in enumerate(self.started_as):
                if state[0] != NOTHING:
                    self._residents.setdefault(state[1], []).append(pod)
        return self._residents.get(node, [])

    def has_changed(self, pod: int) -> bool:
        """Whether the plan does something to a pod."""
        columns, was = self.columns, self.started_as[pod]
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
                self._fill(facts, was[1], was[2], was[0], -1)
            if state[0] != NOTHING:
                self._fill(facts, state[1], state[2], state[0], +1)
        if was[3:] != state[3:]:
            if was[3] != NOWHERE:
                self._fill(facts, was[3], was[4], PROMISED, -1)
            if state[3] != NOWHERE:
                self._fill(facts, state[3], state[4], PROMISED, +1)
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

    def _fill(self, facts: ShapeFacts, node: int, devices: tuple[int, ...], how: int, sign: int) -> None:
        """Staying pods use up what is idle, leaving ones too, but that is being released; promised ones use up that."""
        nodes = self.columns.nodes
        nodes.version[node] += 1
        nodes.changes.append(node)
        cpu, memory, gpus = sign * facts.cpu_milli, sign * facts.memory_bytes, sign * facts.whole
        if how != PROMISED:
            nodes.cpu_idle[node] -= cpu
            nodes.memory_idle[node] -= memory
            nodes.slots_idle[node] -= sign
            nodes.gpus_idle[node] -= gpus
        if how != REAL:
            if how == PROMISED:
                cpu, memory, gpus, slot = -cpu, -memory, -gpus, -sign
            else:
                slot = sign
            nodes.cpu_releasing[node] += cpu
            nodes.memory_releasing[node] += memory
            nodes.slots_releasing[node] += slot
            nodes.gpus_releasing[node] += gpus
        if facts.shared:
            need = sign * facts.occupied_mib(nodes.device_mib[node])
            for device in devices:
                self._share(node, device, how - 1, need)
        for name, amount in facts.others:
            self._fill_other(name, node, how, sign * amount)

    def _fill_other(self, name: str, node: int, how: int, amount: int) -> None:
        nodes = self.columns.nodes
        if name not in nodes.other_idle:
            return
        if how != PROMISED:
            nodes.other_idle[name][node] -= amount
        if how != REAL:
            nodes.other_releasing[name][node] += amount if how == RELEASING else -amount

    def _share(self, node: int, device: int, how: int, mib: int) -> None:
        """Change what is on a shared device, and what that makes of it as a whole device."""
        nodes = self.columns.nodes
        use = nodes.shared[node].setdefault(device, [0, 0, 0])
        if device in nodes.rows[node].gpus_withheld:  # not counted as idle, whatever is on it
            use[how] += mib
            return
        idle, releasing = _as_whole(use)
        use[how] += mib
        idle_then, releasing_then = _as_whole(use)
        nodes.gpus_idle[node] += idle_then - idle
        nodes.gpus_releasing[node] += releasing_then - releasing
        if use == [0, 0, 0]:
            del nodes.shared[node][device]

    def _use_claims(self, pod: int) -> None:
        """A pod that is evicted is leaving with its claims; it has them again if it gets another place."""
        leaving = None if self.is_waiting(pod) else not self.is_active(pod)
        self.claims.use(pod, self.columns.pods[pod].claims, self.place(pod)[0], leaving)

    # ---- the beginning

    def _initial(self, pod: Pod) -> State:
        """Promises of earlier cycles are kept, or not, by allocate; without durable ones they simply hold."""
        is_kept = pod.phase is PodPhase.PROMISED and not self.columns.policy.durable_promises
        hold = PHYSICAL.get(pod.phase, NOTHING)
        node = self.columns.nodes.index.get(pod.node) if pod.node is not None else None
        if node is None or (hold == NOTHING and not is_kept):
            return WAITS
        devices: tuple[int, ...] = ()
        if pod.shape.gpu.kind in (GpuKind.PORTION, GpuKind.MEMORY):
            missing = pod.shape.gpu.devices - len(pod.devices)
            devices = pod.devices + tuple(self.open_device() for _ in range(missing))
        return (NOTHING, NOWHERE, (), node, devices) if is_kept else (hold, node, devices, NOWHERE, ())

    def _load_pods(self) -> None:
        """As `_become` for every pod, but queues are charged once for each group."""
        columns = self.columns
        held: dict[int, Vector] = {}
        for pod, state in enumerate(self.started_as):
            if state is not WAITS:
                columns.hold[pod], columns.hold_node[pod], columns.hold_devices[pod] = state[:3]
                columns.promise_node[pod], columns.promise_devices[pod] = state[3:]
                node, devices = self.place(pod)
                how = PROMISED if state[3] != NOWHERE else state[0]
                self._fill(columns.facts[columns.shape_of[pod]], node, devices, how, +1)
                charged = self._charged(pod)
                if charged is not NONE:
                    group = columns.group_of[pod]
                    held[group] = plus(held[group], charged) if group in held else charged
                row = columns.pods[pod]
                if row.claims:
                    self._use_claims(pod)
                if not row.shape.schedulable:
                    columns.nodes.unschedulable_pods[node] += 1
            self._counter(pod)[columns.set_of[pod]] += 1
        for group, amounts in held.items():
            self._charge(group, amounts, +1)
        columns.nodes.changes.clear()


def _as_whole(use: list[int]) -> tuple[int, int]:
    """What a shared device does to the counts of idle and of releasing whole devices."""
    staying, leaving, coming = use
    if staying:
        return -1, 0
    if leaving:
        return -1, 0 if coming else 1
    return 0, -1 if coming else 0
