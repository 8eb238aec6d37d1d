"""Stops pods: writes stop notices, and kills from outside what is alive when a grace period is over.

Shims do this work, and are not relied on: whatever became of a shim, its pod ends. Used with the supervisor's lock
held.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from fairpool.agent import exit_record, process_table, stop_notice
from fairpool.agent.exit_record import UNKNOWN_EXIT_CODE, ExitRecord
from fairpool.agent.garbage_collection import GarbageCollector
from fairpool.agent.pod_observer import PodObserver
from fairpool.agent.pod_registry import PodRegistry, WatchedPod
from fairpool.agent.reaper import Reaper, kill_process
from fairpool.agent.tombstones import Tombstones
from fairpool.model.ids import PodId
from fairpool.model.observation import OrderResult, OrderStatus, StopOrder

WITHOUT_GRACE_S = 5.0
"""How long a stop without a grace period is waited for."""
EXIT_RECORD_S = 1.0
"""For a shim whose pod was killed from outside to write the exit record itself: it may know the exit code."""


class PodStopper:
    """Stop orders, and pods that must end without one."""

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

    def stop(self, orders: Sequence[StopOrder]) -> list[OrderResult]:
        """Write stop notices. A pod without a grace period is gone when this returns."""
        failed = {order.pod: words for order in orders if (words := self.write_notice(order))}
        self._observer.request_shims()
        pods = self._registry.pods
        at_once = [pods[order.pod] for order in orders if order.grace_s <= 0 and order.pod in pods]
        self._observer.wait_until_over(at_once, WITHOUT_GRACE_S)
        self._kill(at_once)
        left = {watched.pod for watched in at_once if watched.pod in pods and not watched.is_over}
        return [self._answer(order.pod, failed.get(order.pod, ""), is_left=order.pod in left) for order in orders]

    def _answer(self, pod: PodId, error: str, *, is_left: bool) -> OrderResult:
        watched = self._registry.pods.get(pod)
        if error and (watched is None or not watched.is_over):
            return OrderResult(pod, OrderStatus.LATER, error)
        # DONE also while its shim gives it its grace period: it can only end.
        return (
            OrderResult(pod, OrderStatus.LATER, "it is being killed") if is_left else OrderResult(pod, OrderStatus.DONE)
        )

    def write_notice(self, order: StopOrder) -> str:
        """Empty, or why the notice could not be written: then its shim is signalled all the same, and applies the grace
        period it was started with."""
        watched = self._registry.pods.get(order.pod)
        try:
            if watched is None:
                self._tombstones.add("it was stopped before it was started", order.pod)
            elif not watched.is_over:
                stop_notice.write(watched.directory, order.grace_s, order.reason)
            words = ""
        except OSError as error:
            words = f"its stop request cannot be saved ({error.strerror}); its original grace period applies"
        if watched is None or watched.is_over:
            return words
        grace_s = max(order.grace_s, watched.stored.order.grace_s) if words else order.grace_s
        self._reaper.set_deadline(order.pod, grace_s)
        if not self._observer.refresh(watched).is_over:
            self._observer.signal_shim(watched)
        return words

    def resume_notice(self, watched: WatchedPod) -> None:
        """Enforce a notice of an earlier supervisor: what is left of the grace period, never longer than ordered."""
        notice, most_s = stop_notice.read(watched.directory), float(watched.stored.order.grace_s)
        self._reaper.set_deadline(watched.pod, min(notice.remaining_s, most_s) if notice is not None else most_s)

    # --- killing from outside

    def kill_overdue(self) -> None:
        """Kill what is left of pods whose grace period is over, and of lost ones."""
        self.kill_lost()
        overdue = [self._registry.pods[pod] for pod in self._reaper.overdue()]
        for watched in overdue:
            self._reaper.retry_later(watched.pod)  # cancelled below if nothing is left of it
        self._kill([watched for watched in overdue if not self._observer.refresh(watched).is_over])

    def _kill(self, pods: Sequence[WatchedPod]) -> None:
        """Kill what is left of these pods, whatever their shims do, and see that their exit records are written."""
        waiting = [
            watched
            for watched in pods
            if not watched.is_over and watched.generation >= 0 and watched.stored.launch is not None
        ]
        if not waiting:
            return
        killed = self._reaper.kill(waiting)
        for watched in killed:
            self._observer.signal_shim(watched)
        self._observer.wait_until_over([watched for watched in killed if watched.handle >= 0], EXIT_RECORD_S)
        for watched in killed:
            if not self._observer.refresh(watched).is_over:
                self._write_exit_record(watched)
            elif watched.shim is not None:
                kill_process(watched.shim)  # it has written the exit record; it may have been stopped since

    def _write_exit_record(self, watched: WatchedPod) -> None:
        """In place of its shim, which was killed, is stopped or hangs. On a full disk it is tried again, as a shim
        would: one that knows the exit code is not killed as long as nothing can be written."""
        words = "its supervising process does not respond, so the server killed it"
        if watched.shim is None or not process_table.is_alive(*watched.shim):
            words = "its supervising processes were killed, so its exit code is not known"
        try:
            record = ExitRecord(UNKNOWN_EXIT_CODE, words, True)
            exit_record.write(watched.directory, record, time.time_ns() // 1_000_000)
        except OSError:
            self._reaper.retry_later(watched.pod)
            return
        if watched.shim is not None:
            kill_process(watched.shim)
        self._observer.refresh(watched)

    def kill_lost(self) -> None:
        """Kill pods without a directory; they are dropped when nothing is left of them."""
        if not self._registry.lost:
            return
        for watched in self._reaper.kill([self._registry.pods[pod] for pod in sorted(self._registry.lost)]):
            if watched.shim is not None:
                kill_process(watched.shim)
            with suppress(OSError):  # a full disk: only the loop could start it again, and it sees the pod gone
                self._tombstones.add("its directory was deleted while it was running", watched.pod)
            self._collector.forget(watched.pod)
            self._observer.drop(watched.pod)
