"""From counts to devices: which devices exactly the pods of a plan get.

During a trial whole GPUs are counted and devices opened for sharing have made-up numbers; here, once everything is
decided, each gets its real one: lowest number first, idle devices before those that are being released.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairpool.scheduler.board import NOTHING, NOWHERE, REAL
from fairpool.scheduler.trial import Trial

Seats = dict[int, tuple[int, ...]]
"""Devices of each pod that the plan binds or promises a place."""


def seat(trial: Trial, changed: Iterable[int]) -> Seats:
    """Devices for every pod that has got a place in this trial."""
    on_node: dict[int, list[int]] = {}
    for pod in changed:
        if trial.is_active(pod):
            node = trial.place(pod)[0]
            if node in on_node:
                on_node[node].append(pod)
            else:
                on_node[node] = [pod]
    residents: dict[int, list[int]] = {}
    for pod, state in enumerate(trial.started_as):
        if state[0] != NOTHING and state[1] in on_node:
            residents.setdefault(state[1], []).append(pod)
    seats: Seats = {}
    for node, pods in sorted(on_node.items()):
        seats.update(_NodeSeating(trial, node, residents.get(node, ())).seat(pods))
    return seats


class _NodeSeating:
    """The devices of one node."""

    def __init__(self, trial: Trial, node: int, residents: Iterable[int]) -> None:
        self.trial = trial
        self.board = trial.board
        row = self.board.nodes.rows[node]
        staying: set[int] = set()
        leaving: set[int] = set()
        for pod in residents:
            (staying if self.board.hold[pod] == REAL else leaving).update(self.board.pods[pod].devices)
        usable = [device for device in range(row.gpus) if device not in row.gpus_withheld and device not in staying]
        self.usable = usable or [0]
        self.soon = sorted(usable, key=leaving.__contains__) if leaving else list(usable)
        """Devices that can be had, idle ones first."""
        self.opened: dict[int, int] = {}

    def seat(self, pods: list[int]) -> Seats:
        """Devices already shared stay with their sharers; then binds, which need idle devices; then promises."""
        for pod in pods:
            for number in self.trial.place(pod)[1] if self._is_shared(pod) else ():
                if number in self.soon:
                    self.soon.remove(number)
        promise_node = self.board.promise_node
        bound = [pod for pod in pods if promise_node[pod] == NOWHERE]
        promised = [pod for pod in pods if promise_node[pod] != NOWHERE] if len(bound) < len(pods) else []
        return {pod: self._share(pod) if self._is_shared(pod) else self._take(pod) for pod in (*bound, *promised)}

    def _is_shared(self, pod: int) -> bool:
        return self.board.facts[self.board.shape_of[pod]].shared > 0

    def _share(self, pod: int) -> tuple[int, ...]:
        devices = []
        for number in self.trial.place(pod)[1]:
            if number < 0 and number not in self.opened:
                self.opened[number] = self._next()
            devices.append(self.opened.get(number, number))
        return tuple(sorted(devices))

    def _take(self, pod: int) -> tuple[int, ...]:
        count = self.board.facts[self.board.shape_of[pod]].whole
        taken = self.soon[:count]
        del self.soon[:count]
        return tuple(sorted(taken)) if count > 1 else tuple(taken)

    def _next(self) -> int:
        """The next device; only in parity can promises add up to more than there is, and then some share one."""
        return self.soon.pop(0) if self.soon else self.usable[0]
