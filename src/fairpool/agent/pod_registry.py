"""The pods a supervisor knows, in memory: what was last observed of each, and indexes over them.

Everything here can be built again from the pod directories. Used with the supervisor's lock held.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairpool.agent.cgroup import Cgroup
from fairpool.agent.leftover_processes import Process, ProcessSelector
from fairpool.agent.order_file import StoredOrder
from fairpool.model.ids import NodeName, PodId, WorkloadId
from fairpool.model.observation import ObservedPod, PodState, StartOrder


@dataclass(slots=True)
class WatchedPod:
    """A pod as it was last observed."""

    pod: PodId
    """By the name of its directory, which is unique; a copied order may have another id."""
    directory: str
    stored: StoredOrder
    observed: ObservedPod
    handle: int = -1
    """A pidfd of its shim, readable when that ends."""
    generation: int = -1
    """The number of its latest shim; -1: none has come yet."""
    has_shim: bool = False
    """Its latest shim is alive."""
    asked_at: float = float("-inf")
    """When a shim was last requested."""
    refreshed_at: float = float("-inf")
    shim: Process | None = None
    main: Process | None = None
    namespace: int | None = None
    """These find its processes when its directory is gone."""
    is_cleared: bool = False
    """Its shim's claim was there and is gone: its directory was cleared."""

    @property
    def is_over(self) -> bool:
        return self.observed.state is PodState.EXITED

    @property
    def is_isolated(self) -> bool:
        return bool(self.stored.launch and self.stored.launch.get("view"))

    @property
    def is_settled(self) -> bool:
        """Whether every change of it wakes the supervisor."""
        waits_for_image = self.stored.launch is None
        return self.is_over or waits_for_image or (self.observed.state is PodState.RUNNING and self.handle >= 0)

    def is_starting_since(self, moment: float) -> bool:
        """Whether it was refreshed since then and is still starting: its shim will send a hint when it runs."""
        return self.observed.state is PodState.STARTING and self.refreshed_at > moment

    def selector(self) -> ProcessSelector:
        """How its processes are found."""
        launch = self.stored.launch or {}
        pod_uuid = str(launch.get("pod_uuid", ""))
        group = _group(launch.get("limits"), pod_uuid)
        return ProcessSelector(pod_uuid=pod_uuid, shim=self.shim, main=self.main, namespace=self.namespace, group=group)


def _group(limits: Any, pod_uuid: str) -> Cgroup | None:
    """The control group of a pod; None also where its order was damaged."""
    try:
        is_its_own = limits["name"] == pod_uuid and pod_uuid and "/" not in pod_uuid
        return Cgroup(limits["limiter"], pod_uuid) if is_its_own else None
    except (KeyError, TypeError, ValueError):
        return None


class ObservedPods(NamedTuple):
    """All pods as they were observed, and which of them changed."""

    pods: Mapping[PodId, ObservedPod]
    """The same object as last time if nothing has changed."""
    changed: frozenset[PodId]
    """Those that are not as last time, or are gone."""


class PodRegistry:
    """All watched pods."""

    def __init__(self) -> None:
        self.pods: dict[PodId, WatchedPod] = {}
        self.unsettled: set[PodId] = set()
        """Pods that may change without waking the supervisor."""
        self.lost: set[PodId] = set()
        """Pods whose directory was removed, or cleared, while they ran."""
        self.removed_nodes: dict[NodeName, set[PodId]] = {}
        """Nodes that are no longer offered, with the pods found there."""
        self._by_directory: dict[str, PodId] = {}
        self._of_workload: Counter[WorkloadId] = Counter()
        self._of_slot: dict[tuple[WorkloadId, int], set[PodId]] = {}
        self._observed: dict[PodId, ObservedPod] = {}
        self._changed: set[PodId] = set()
        """Pods that are not as in `_observed`."""

    def add(self, pod: PodId, directory: str, stored: StoredOrder) -> WatchedPod:
        order = stored.order
        observed = ObservedPod(order=order, state=PodState.STARTING, message=stored.start_failure)
        watched = self.pods[pod] = WatchedPod(pod, directory, stored, observed)
        self._by_directory[os.path.basename(directory)] = pod
        self._of_workload[order.workload] += 1
        self._of_slot.setdefault((order.workload, order.index), set()).add(pod)
        self.unsettled.add(pod)
        self._changed.add(pod)
        return watched

    def remove(self, pod: PodId) -> WatchedPod:
        watched = self.pods.pop(pod)
        del self._by_directory[os.path.basename(watched.directory)]
        order = watched.stored.order
        self._of_workload[order.workload] -= 1
        if not self._of_workload[order.workload]:
            del self._of_workload[order.workload]
        _discard(self._of_slot, (order.workload, order.index), pod)
        for node in list(self.removed_nodes):
            _discard(self.removed_nodes, node, pod)
        self.unsettled.discard(pod)
        self.lost.discard(pod)
        self._changed.add(pod)
        return watched

    def set_observed(self, watched: WatchedPod, observed: ObservedPod) -> None:
        if observed != watched.observed:
            watched.observed = observed
            self._changed.add(watched.pod)

    def observed(self) -> ObservedPods:
        """What was last observed of each, and what is new since the last call."""
        changed, self._changed = frozenset(self._changed), set()
        if changed:
            self._observed = dict(self._observed)
            for pod in sorted(changed):
                if pod in self.pods:
                    self._observed[pod] = self.pods[pod].observed
                else:
                    self._observed.pop(pod, None)
        return ObservedPods(self._observed, changed)

    def alive(self) -> list[WatchedPod]:
        """Those that are not over."""
        return [watched for watched in self.pods.values() if not watched.is_over]

    def directory_names(self) -> set[str]:
        return set(self._by_directory)

    def at(self, directory_name: str) -> WatchedPod:
        return self.pods[self._by_directory[directory_name]]

    def has_pods_of(self, workload: WorkloadId) -> bool:
        return workload in self._of_workload

    def has_living_peers(self, order: StartOrder) -> bool:
        """Whether a pod of the same workload has not ended."""
        slots = (self._of_slot.get((order.workload, index), ()) for index in range(order.pods))
        return any(not self.pods[pod].is_over for slot in slots for pod in slot)

    def other_incarnations(self, order: StartOrder) -> list[WatchedPod]:
        """Pods with the same workload and index."""
        pods = self._of_slot.get((order.workload, order.index), set()) - {order.pod}
        return [self.pods[pod] for pod in sorted(pods)]


def _discard(index: dict[Any, set[PodId]], key: Any, pod: PodId) -> None:
    found = index[key]
    found.discard(pod)
    if not found:
        del index[key]
