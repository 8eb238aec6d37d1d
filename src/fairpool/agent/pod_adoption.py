"""Adopts pods that are on this machine already: started by an earlier supervisor, or by another one meanwhile.

Used with the supervisor's lock held.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fairpool.agent import exit_record, pod_directory, stop_notice
from fairpool.agent.devices import LogicalNode
from fairpool.agent.garbage_collection import GarbageCollector
from fairpool.agent.order_file import read_order
from fairpool.agent.pod_observer import PodObserver
from fairpool.agent.pod_registry import PodRegistry
from fairpool.agent.pod_stop import PodStopper
from fairpool.agent.reaper import Reaper
from fairpool.agent.tombstones import Tombstones
from fairpool.model.ids import NodeName, PodId
from fairpool.model.observation import StartOrder, StopOrder

REMOVED_GRACE_S = 30
"""At most, for pods on a node that is no longer offered."""
CLOCK_GRAIN_NS = 50_000_000
"""Of file system clocks: two changes within it may have the same time."""


class PodAdopter:
    """Compares the pod directories with the registry."""

    def __init__(
        self,
        pods: Path,
        collector: GarbageCollector,
        registry: PodRegistry,
        observer: PodObserver,
        stopper: PodStopper,
        reaper: Reaper,
        tombstones: Tombstones,
        *,
        nodes: Mapping[NodeName, LogicalNode] | None,
        boot_id: str,
    ) -> None:
        self._pods, self._collector, self._registry = pods, collector, registry
        self._observer, self._stopper = observer, stopper
        self._reaper, self._tombstones = reaper, tombstones
        self._nodes, self._boot_id = nodes, boot_id
        self._listed_ns = -1

    def find(self) -> None:
        """Adopt new pod directories and drop removed ones; costs one call when there are none."""
        changed_ns = os.stat(self._pods).st_mtime_ns
        if changed_ns == self._listed_ns:
            return
        self._listed_ns = changed_ns if time.time_ns() - changed_ns > CLOCK_GRAIN_NS else -1
        names, known = set(os.listdir(self._pods)), self._registry.directory_names()
        for name in sorted(known - names):
            watched = self._registry.at(name)
            if watched.is_over or self._tombstones.words(watched.pod) is not None:  # another supervisor forgot it
                self._observer.drop(watched.pod)
            else:
                self._observer.lose(watched)
        for name in sorted(names - known):
            with suppress(OSError):  # of this one alone: it was removed meanwhile, or is no directory
                self._adopt(pod_directory.pod_of(name), f"{self._pods}/{name}")

    def _adopt(self, pod: PodId, directory: str) -> None:
        stored = read_order(directory)
        if self._tombstones.words(pod) is not None:
            self._finish_forgetting(pod, directory)
        elif stored is None and pod_directory.is_of_an_earlier_boot(directory):
            self._collector.forget(pod)  # its order had not reached the disk when the power failed
        elif stored is None:
            # Another process is writing its order, or was killed before that; another start order completes it. If the
            # file was damaged, it is not known what to do with what runs, so it is killed.
            self._kill_unknown(pod, directory)
        elif exit_record.read(directory) is None and pod_directory.is_copied(directory):
            self._collector.forget(pod)  # its processes belong to the directory that this one was copied from
        elif stored.order.boot_id != self._boot_id and exit_record.read(directory) is None:
            self._collector.forget(pod)  # lost with an earlier boot of the machine
        else:
            watched = self._observer.refresh(self._registry.add(pod, directory, stored))
            if not watched.is_over and stop_notice.exists(directory):
                self._stopper.resume_notice(watched)
            elif not watched.is_over and self._nodes is not None:
                self._stop_if_node_removed(stored.order, self._nodes.get(stored.order.node))

    def _finish_forgetting(self, pod: PodId, directory: str) -> None:
        """A supervisor was killed while it forgot this pod."""
        if pod_directory.is_copied(directory) or self._reaper.kill_without_order(pod, directory):
            self._collector.forget(pod)

    def _kill_unknown(self, pod: PodId, directory: str) -> None:
        has_run = pod_directory.read_files(directory).shim is not None
        if has_run and not pod_directory.is_copied(directory) and self._reaper.kill_without_order(pod, directory):
            self._tombstones.add("its order file was damaged while it was running", pod)
            self._collector.forget(pod)

    def _stop_if_node_removed(self, order: StartOrder, node: LogicalNode | None) -> None:
        """Its node, or a device it was given, is no longer offered: it must end before its resources are free."""
        if node is None:
            self._registry.removed_nodes.setdefault(order.node, set()).add(order.pod)
            reason = f"node {order.node} was removed"
        elif any(device >= len(node.gpus) for device in order.devices):
            reason = f"node {order.node} no longer has GPU {max(order.devices)}"
        else:
            return
        grace_s = min(order.grace_s, REMOVED_GRACE_S)
        self._stopper.write_notice(StopOrder(pod=order.pod, node=order.node, grace_s=grace_s, reason=reason))
