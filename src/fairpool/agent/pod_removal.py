"""Forgets pods that are over: removes their files except their output, and leaves a tombstone.

Used with the supervisor's lock held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairpool.agent import exit_record, process_table
from fairpool.agent.garbage_collection import GarbageCollector
from fairpool.agent.pod_observer import PodObserver, living_shim
from fairpool.agent.pod_registry import PodRegistry, WatchedPod
from fairpool.agent.reaper import Reaper, kill_process
from fairpool.agent.tombstones import Tombstones
from fairpool.model.ids import PodId
from fairpool.model.observation import ForgetOrder, OrderResult, OrderStatus


class PodRemover:
    """Forget orders."""

    def __init__(
        self,
        collector: GarbageCollector,
        registry: PodRegistry,
        observer: PodObserver,
        reaper: Reaper,
        tombstones: Tombstones,
    ) -> None:
        self._collector, self._registry, self._observer = collector, registry, observer
        self._reaper, self._tombstones = reaper, tombstones

    def forget(self, orders: Sequence[ForgetOrder]) -> list[OrderResult]:
        """Forget those of these pods of which nothing runs any more."""
        known = {order.pod: self._registry.pods.get(order.pod) for order in orders}
        over = self._without_processes(known)
        silent = {order.pod for order in orders if order.with_output}
        words = "its output cannot be removed"
        try:
            found = [known[pod] for pod in over if pod in silent]
            self._collector.discard_output([watched.stored.order for watched in found if watched is not None])
            words = "its end cannot be recorded"
            self._tombstones.add("it has ended before", *over)
        except OSError as error:
            return [OrderResult(order.pod, OrderStatus.LATER, f"{words}: {error.strerror}") for order in orders]
        forgotten = {pod for pod in over if self._forget(pod, known[pod])}
        self._collector.prune_checkpoints_if_due()
        self._collector.collect()
        return [
            OrderResult(order.pod, OrderStatus.DONE)
            if order.pod in forgotten
            else OrderResult(order.pod, OrderStatus.LATER, "it has not ended yet")
            for order in orders
        ]

    def _without_processes(self, known: Mapping[PodId, WatchedPod | None]) -> list[PodId]:
        """Pods of which nothing is alive. What is left of one that has an exit record is killed now."""
        over = [watched for watched in known.values() if watched is not None and self._is_over(watched)]
        gone = {watched.pod for watched in over if _has_ended_with_its_namespace(watched)}
        unsure = [watched for watched in over if watched.pod not in gone]
        found = self._reaper.without_processes(unsure)
        if found is not None:
            left = [watched for watched in unsure if watched.pod not in found]
            gone |= found | {watched.pod for watched in (self._reaper.kill(left) if left else ())}
        return [pod for pod, watched in known.items() if watched is None or pod in gone]

    def _is_over(self, watched: WatchedPod) -> bool:
        """A pod stopped before its shim came is observed as ended, but the shim may come all the same."""
        if not self._observer.refresh(watched).is_over:
            return False
        return exit_record.read(watched.directory) is not None or living_shim(watched) is None

    def _forget(self, pod: PodId, watched: WatchedPod | None) -> bool:
        if not self._collector.forget(pod):
            return False
        if watched is not None:
            if watched.shim is not None and process_table.is_stopped(watched.shim[0]):
                kill_process(watched.shim)  # it has written everything, and would not exit by itself
            self._observer.drop(pod)
            order = watched.stored.order
            if not self._registry.has_pods_of(order.workload):
                self._collector.remove_shared(order)
        return True


def _has_ended_with_its_namespace(watched: WatchedPod) -> bool:
    """Whether the first process of its PID namespace has ended, and with it, by the kernel, all others in there.

    Its first shim wrote the exit record, and does so when it has no children left: there is nothing to be found among
    the processes of the machine, which take milliseconds to read.
    """
    if not (watched.generation == 0 and watched.is_isolated and watched.namespace and watched.main):
        return False
    return not process_table.is_alive(*watched.main)
