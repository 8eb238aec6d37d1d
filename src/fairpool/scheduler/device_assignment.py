"""Device assignment: which devices exactly the pods of a plan get.

During a trial whole GPUs are counted and devices opened for sharing have made-up numbers; here, once everything is
decided, each gets its real one: lowest number first, idle devices before those that are being released.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairpool.scheduler.columns import NOWHERE, REAL
from fairpool.scheduler.trial import Trial

Devices = dict[int, tuple[int, ...]]
"""Devices of each pod that the plan binds or promises a place."""


def assign_devices(trial: Trial, changed: Iterable[int]) -> Devices:
    """Devices for every pod that has got a place in this trial."""
    on_node: dict[int, list[int]] = {}
    hold, hold_node, promise_node = trial.columns.hold, trial.columns.hold_node, trial.columns.promise_node
    for pod in changed:
        node = promise_node[pod]
        if node == NOWHERE and hold[pod] == REAL:
            node = hold_node[pod]
        if node in on_node:
            on_node[node].append(pod)
        elif node != NOWHERE:
            on_node[node] = [pod]
    devices: Devices = {}
    for node, pods in sorted(on_node.items()):
        devices.update(_on_empty_node(trial, node, pods) or _NodeDevices(trial, node).assign(pods))
    return devices


def _on_empty_node(trial: Trial, node: int, pods: list[int]) -> Devices | None:
    """Whole devices in order, where nothing was before; None: it is not as simple as that."""
    columns = trial.columns
    if columns.on_node.get(columns.nodes.names[node]):
        return None
    withheld = columns.nodes.rows[node].gpus_withheld
    usable = [device for device in range(columns.nodes.rows[node].gpus) if device not in withheld]
    devices: Devices = {}
    at = 0
    for pod in pods:
        facts = columns.facts[columns.shape_of[pod]]
        if facts.shared or columns.promise_node[pod] != NOWHERE:
            return None
        devices[pod] = tuple(usable[at : at + facts.whole])
        at += facts.whole
    return devices


class _NodeDevices:
    """The devices of one node."""

    def __init__(self, trial: Trial, node: int) -> None:
        self.trial = trial
        self.columns = trial.columns
        row = self.columns.nodes.rows[node]
        held: dict[bool, set[int]] = {True: set(), False: set()}
        self.sharers: set[int] = set()
        """Devices that pods share, leaving or not: a pod that joins them has its device already."""
        for pod in trial.residents(node):
            held[self.columns.hold[pod] == REAL].update(self.columns.pods[pod].devices)
            if self._is_shared(pod):
                self.sharers.update(self.columns.pods[pod].devices)
        usable = [device for device in range(row.gpus) if device not in row.gpus_withheld and device not in held[True]]
        self.usable = usable or [0]
        self.idle = {device for device in usable if device not in held[False]}
        self.soon = sorted(usable, key=held[False].__contains__) if held[False] else usable[:]
        """Devices that can be had, idle ones first."""
        self.opened: dict[int, int] = {}

    def assign(self, pods: list[int]) -> Devices:
        """Pods that join shared devices first; then binds, since they need idle devices; then promises."""
        for pod in pods:
            for number in self.trial.place(pod)[1] if self._is_shared(pod) else ():
                if number in self.sharers and number in self.soon:
                    self.soon.remove(number)
        promise_node = self.columns.promise_node
        bound = [pod for pod in pods if promise_node[pod] == NOWHERE]
        promised = [pod for pod in pods if promise_node[pod] != NOWHERE] if len(bound) < len(pods) else []
        devices = {pod: self._share(pod, self.idle) if self._is_shared(pod) else self._take(pod) for pod in bound}
        soon = set(self.soon)
        return devices | {pod: self._share(pod, soon) if self._is_shared(pod) else self._take(pod) for pod in promised}

    def _is_shared(self, pod: int) -> bool:
        return self.columns.facts[self.columns.shape_of[pod]].shared > 0

    def _share(self, pod: int, available: set[int]) -> tuple[int, ...]:
        return tuple(sorted(self._device(number, available) for number in self.trial.place(pod)[1]))

    def _device(self, number: int, available: set[int]) -> int:
        """The device that goes by this number in the trial: that very one if it can be had, or the next."""
        if number in self.sharers:
            return number
        if number not in self.opened:
            if number in self.soon and number in available:
                self.soon.remove(number)
                self.opened[number] = number
            else:
                self.opened[number] = self._next()
        return self.opened[number]

    def _take(self, pod: int) -> tuple[int, ...]:
        count = self.columns.facts[self.columns.shape_of[pod]].whole
        taken = self.soon[:count]
        del self.soon[:count]
        return tuple(sorted(taken)) if count > 1 else tuple(taken)

    def _next(self) -> int:
        """The next device; only in parity can promises add up to more than there is, and then some share one."""
        return self.soon.pop(0) if self.soon else self.usable[0]
