"""Tentative moves on the board: mark, try, undo, keep.

Every pass works through a trial, so gangs and victims need no special care: whatever does not work out is undone to
the last mark. All accounting, of nodes, shared devices, pod sets and queues, follows from one primitive, `_become`.
"""

from __future__ import annotations

from fairpool.model.ids import ClaimId, PodId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.workload import Claim, GpuKind, Pod
from fairpool.scheduler.board import COMING, LEAVING, NOTHING, NOWHERE, REAL, RELEASING, STAYING, Board
from fairpool.scheduler.queues import RESOURCES

State = tuple[int, int, tuple[int, ...], int, tuple[int, ...]]
"""What a pod holds, on which node and seats; and the node and seats it is promised."""

WAITS: State = (NOTHING, NOWHERE, (), NOWHERE, ())

PHYSICAL = {PodPhase.BOUND: REAL, PodPhase.RUNNING: REAL, PodPhase.RELEASING: RELEASING}


class Trial:
    """The board in motion."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.journal: list[tuple[int, State]] = []
        self.touched: list[int] = []
        """Groups whose pods moved, undone moves included; whoever keeps a list of groups reads on from there."""
        self.fresh_seat = 0
        self.claim_users: dict[ClaimId, set[PodId]] = {}
        self.claim_place: dict[ClaimId, tuple[int, tuple[str, ...]]] = {}
        self._load_claims()
        self.started_as: list[State] = [self._initial(pod) for pod in board.pods]
        self._load_pods()

    # ---- the four verbs

    def mark(self) -> int:
        """A point to return to."""
        return len(self.journal)

    def undo(self, mark: int) -> None:
        """Take back everything since the mark, last first."""
        journal = self.journal
        while len(journal) > mark:
            pod, state = journal.pop()
            self._become(pod, state)

    def bind(self, pod: int, node: int, seats: tuple[int, ...]) -> None:
        """Give a waiting pod a place that is free now."""
        self._move(pod, (REAL, node, seats, NOWHERE, ()))

    def promise(self, pod: int, node: int, seats: tuple[int, ...]) -> None:
        """Give a pod a place that is being released; what it holds elsewhere it holds until it has left."""
        board = self.board
        held = (board.hold[pod], board.hold_node[pod], board.hold_seats[pod])
        self._move(pod, (*held, node, seats))

    def defer(self, pod: int) -> None:
        """Turn a fresh bind into a promise of the same place."""
        board = self.board
        self._move(pod, (NOTHING, NOWHERE, (), board.hold_node[pod], board.hold_seats[pod]))

    def evict(self, pod: int) -> None:
        """Take a pod's place away. What this very plan gave is simply taken back, if the policy says so."""
        board = self.board
        if not self._is_given_here(pod):
            self._move(pod, (RELEASING, board.hold_node[pod], board.hold_seats[pod], NOWHERE, ()))
        elif board.policy.withdraw_unstarted or self.started_as[pod][0] == REAL:
            held = self.started_as[pod]
            self._move(pod, (RELEASING, held[1], held[2], NOWHERE, ()) if held[0] == REAL else WAITS)
        else:
            node, seats = self.place(pod)
            self._move(pod, (RELEASING, node, seats, NOWHERE, ()))

    def restore(self, pod: int) -> None:
        """An evicted pod gets back what it had when it was evicted."""
        self._move(pod, self.evicted_from(pod))

    # ---- questions

    def is_active(self, pod: int) -> bool:
        """Holds a place to stay, or is promised one."""
        return self.board.hold[pod] == REAL or self.board.promise_node[pod] != NOWHERE

    def is_waiting(self, pod: int) -> bool:
        return self.board.hold[pod] == NOTHING and self.board.promise_node[pod] == NOWHERE

    def is_evicted(self, pod: int) -> bool:
        """Lost its place in this plan and was not given another."""
        return (
            self.board.hold[pod] == RELEASING
            and self.board.promise_node[pod] == NOWHERE
            and self.started_as[pod][0] != RELEASING
        )

    def is_candidate(self, pod: int) -> bool:
        """Could be given a place now: waits, or was evicted in this plan."""
        return (self.is_waiting(pod) and not self.board.pods[pod].gated) or self.is_evicted(pod)

    def place(self, pod: int) -> tuple[int, tuple[int, ...]]:
        """Node and seats that a pod has or is promised."""
        board = self.board
        if board.promise_node[pod] != NOWHERE:
            return board.promise_node[pod], board.promise_seats[pod]
        return board.hold_node[pod], board.hold_seats[pod]

    def state(self, pod: int) -> State:
        board = self.board
        return (
            board.hold[pod],
            board.hold_node[pod],
            board.hold_seats[pod],
            board.promise_node[pod],
            board.promise_seats[pod],
        )

    def evicted_from(self, pod: int) -> State:
        """What an evicted pod had before."""
        return next(state for other, state in reversed(self.journal) if other == pod)

    def open_seat(self) -> int:
        """A number for a device that is opened for sharing; the real device is found when the plan is made."""
        self.fresh_seat -= 1
        return self.fresh_seat

    def _is_given_here(self, pod: int) -> bool:
        return self.board.promise_node[pod] != NOWHERE or self.started_as[pod][0] != REAL

    # ---- the one primitive

    def _move(self, pod: int, state: State) -> None:
        self.journal.append((pod, self.state(pod)))
        self._become(pod, state)

    def _become(self, pod: int, state: State) -> None:
        board = self.board
        was_active = self.is_active(pod)
        self._count(pod, -1)
        if was_active:
            self._charge(pod, -1)
        self._occupy(pod, -1)
        board.hold[pod], board.hold_node[pod], board.hold_seats[pod] = state[:3]
        board.promise_node[pod], board.promise_seats[pod] = state[3:]
        self._occupy(pod, +1)
        if self.is_active(pod):
            self._charge(pod, +1)
        self._count(pod, +1)
        if board.pods[pod].claims:
            self._use_claims(board.pods[pod], self._uses_claims(pod), self.place(pod)[0])
        self.touched.append(board.group_of[pod])

    def _count(self, pod: int, sign: int) -> None:
        board = self.board
        sets, number = board.sets, board.set_of[pod]
        if self.is_active(pod):
            sets.active[number] += sign
        elif board.hold[pod] == RELEASING:
            sets.leaving[number] += sign
        elif board.pods[pod].gated:
            sets.gated[number] += sign
        else:
            sets.waiting[number] += sign

    def _charge(self, pod: int, sign: int) -> None:
        """What queues hold: of pods that stay or are promised a place, at the place they will have."""
        board = self.board
        group = board.group_of[pod]
        queue = board.queue_of[group]
        if queue == NOWHERE:
            return
        need = board.placed_need(pod, self.place(pod)[0])
        firm = board.is_firm(group)
        for level in board.queues.path[queue]:
            for resource in RESOURCES:
                amount = sign * need[resource]
                board.queues.held[level][resource] += amount
                if firm:
                    board.queues.held_firm[level][resource] += amount

    def _occupy(self, pod: int, sign: int) -> None:
        board = self.board
        if board.hold[pod] != NOTHING:
            leaves = board.hold[pod] == RELEASING
            self._fill(pod, board.hold_node[pod], board.hold_seats[pod], LEAVING if leaves else STAYING, sign)
        if board.promise_node[pod] != NOWHERE:
            self._fill(pod, board.promise_node[pod], board.promise_seats[pod], COMING, sign)

    def _fill(self, pod: int, node: int, seats: tuple[int, ...], how: int, sign: int) -> None:
        """Staying pods use up what is idle, leaving ones too, but that is being released; coming ones use up that."""
        nodes, shape = self.board.nodes, self.board.shape(pod)
        idle = -sign if how != COMING else 0
        releasing = 0 if how == STAYING else sign if how == LEAVING else -sign
        nodes.cpu_idle[node] += idle * shape.cpu_milli
        nodes.cpu_releasing[node] += releasing * shape.cpu_milli
        nodes.memory_idle[node] += idle * shape.memory_bytes
        nodes.memory_releasing[node] += releasing * shape.memory_bytes
        nodes.slots_idle[node] += idle
        nodes.slots_releasing[node] += releasing
        gpu = shape.gpu
        if gpu.kind is GpuKind.WHOLE:
            nodes.gpus_idle[node] += idle * gpu.devices
            nodes.gpus_releasing[node] += releasing * gpu.devices
        elif self.board.is_shared[self.board.shape_of[pod]]:
            need = sign * self.board.charges.occupied_mib(shape, nodes.device_mib[node])
            for seat in seats:
                self._share(node, seat, how, need)
        for name, amount in (*shape.extended, *gpu.mig):
            if name in nodes.other_idle:
                nodes.other_idle[name][node] += idle * amount
                nodes.other_releasing[name][node] += releasing * amount

    def _share(self, node: int, seat: int, how: int, mib: int) -> None:
        """Change what is on a shared device, and what that makes of it as a whole device."""
        nodes = self.board.nodes
        device = nodes.shared[node].setdefault(seat, [0, 0, 0])
        idle, releasing = _as_whole(device)
        device[how] += mib
        idle_then, releasing_then = _as_whole(device)
        nodes.gpus_idle[node] += idle_then - idle
        nodes.gpus_releasing[node] += releasing_then - releasing
        if device == [0, 0, 0]:
            del nodes.shared[node][seat]

    # ---- device claims

    def _uses_claims(self, pod: int) -> bool:
        """A pod that this plan evicts lets go of its claims at once; one that was leaving before does not."""
        return self.is_active(pod) or self.started_as[pod][0] == RELEASING

    def _use_claims(self, pod: Pod, uses: bool, node: int) -> None:
        """The first user of a claim allocates its devices, the last gives them back."""
        for name in pod.claims:
            claim = self.board.claims.get(name)
            if claim is None:
                continue
            users = self.claim_users[name]
            (users.add if uses else users.discard)(pod.id)
            in_use = bool(users or claim.consumers_elsewhere)
            if uses and name not in self.claim_place:
                self._allocate_claim(claim, node)
            elif not in_use and name in self.claim_place:
                where, devices = self.claim_place.pop(name)
                self.board.nodes.claim_free[where].update(devices)

    def _allocate_claim(self, claim: Claim, node: int) -> None:
        free = self.board.nodes.claim_free[node]
        as_before = bool(claim.allocated) and free.issuperset(claim.allocated)
        devices = claim.allocated if as_before else tuple(sorted(free)[: claim.devices])
        self.claim_place[claim.id] = (node, devices)
        free.difference_update(devices)

    def claim_consumers(self, name: ClaimId) -> int:
        """Pods that use a claim, those outside the snapshot included."""
        return len(self.claim_users[name]) + self.board.claims[name].consumers_elsewhere

    def _load_claims(self) -> None:
        for claim in self.board.claims.values():
            self.claim_users[claim.id] = set()
            node = self.board.nodes.index.get(claim.node) if claim.node is not None else None
            if node is not None and claim.allocated:
                self.claim_place[claim.id] = (node, claim.allocated)
                self.board.nodes.claim_free[node].difference_update(claim.allocated)

    # ---- the beginning

    def _initial(self, pod: Pod) -> State:
        """Promises of earlier cycles are kept, or not, by allocate; without durable ones they simply stand."""
        stands = pod.phase is PodPhase.PROMISED and not self.board.policy.durable_promises
        hold = PHYSICAL.get(pod.phase, NOTHING)
        node = self.board.nodes.index.get(pod.node) if pod.node is not None else None
        if node is None or (hold == NOTHING and not stands):
            return WAITS
        seats: tuple[int, ...] = ()
        if pod.shape.gpu.kind in (GpuKind.PORTION, GpuKind.MEMORY):
            missing = pod.shape.gpu.devices - len(pod.devices)
            seats = pod.devices + tuple(self.open_seat() for _ in range(missing))
        return (NOTHING, NOWHERE, (), node, seats) if stands else (hold, node, seats, NOWHERE, ())

    def _load_pods(self) -> None:
        board = self.board
        for pod, state in enumerate(self.started_as):
            self._count(pod, +1)
            if state is not WAITS:
                self._become(pod, state)
                if not board.shape(pod).schedulable:
                    board.nodes.unschedulable_pods[self.place(pod)[0]] += 1
        self.touched.clear()


def _as_whole(device: list[int]) -> tuple[int, int]:
    """What a shared device does to the counts of idle and of releasing whole devices."""
    staying, leaving, coming = device
    if staying:
        return -1, 0
    if leaving:
        return -1, 0 if coming else 1
    return 0, -1 if coming else 0
