"""Observes pods: refreshes what is known of each, requests shims for those without one, and notices lost ones.

Used with the supervisor's lock held.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from fairpool.agent import pod_directory, process_table, stop_notice
from fairpool.agent.hints import Hints
from fairpool.agent.launcher import Launcher
from fairpool.agent.pod_registry import PodRegistry, WatchedPod
from fairpool.agent.pod_secrets import SecretFiles
from fairpool.agent.reaper import Reaper
from fairpool.agent.shim_watch import ShimWatch, is_readable
from fairpool.model.ids import PodId
from fairpool.model.observation import PodState

ASK_AGAIN_S = 2.0
"""A shim that has not claimed its pod by then is requested again; the fork server may have been killed."""
QUICK_REPLACEMENTS = 8
"""Shims a pod gets as soon as the one before is gone; if they keep dying, later ones take longer."""
REPLACEMENT_PAUSE_MAX_S = 60.0
REFRESH_S = 0.5
"""A starting pod that sends no hint is refreshed this often at most; in a burst there are hundreds of them."""


class PodObserver:
    """Keeps the registry up to date with the pod directories."""

    def __init__(
        self,
        registry: PodRegistry,
        watch: ShimWatch,
        hints: Hints,
        reaper: Reaper,
        launcher: Launcher,
        secret_files: SecretFiles,
    ) -> None:
        self._registry, self._watch, self._hints = registry, watch, hints
        self._reaper, self._launcher, self._secret_files = reaper, launcher, secret_files

    def refresh_due(self, *, everything: bool) -> None:
        """Refresh the pods that may have changed since the last time, or all that are not over."""
        due = self._hinted()
        if everything:
            due.update(watched.pod for watched in self._registry.alive())
        due.update(self._watch.ended())
        long_ago = time.monotonic() - REFRESH_S
        pods = self._registry.pods
        due.update(pod for pod in self._registry.unsettled if not pods[pod].is_starting_since(long_ago))
        for pod in sorted(due):
            self.refresh(pods[pod])

    def _hinted(self) -> set[PodId]:
        """Pods that shims sent hints of. An unknown id may be two hints that were mixed up: then all unsettled ones."""
        ids, are_all = self._hints.take()
        hinted = {PodId(pod) for pod in ids}
        if are_all and hinted <= self._registry.pods.keys():
            return hinted
        return (hinted & self._registry.pods.keys()) | self._registry.unsettled

    def refresh(self, watched: WatchedPod) -> WatchedPod:
        """Observe one pod now."""
        registry, pod = self._registry, watched.pod
        if pod in registry.lost:
            return watched
        watched.refreshed_at = time.monotonic()
        if not watched.is_over:
            try:
                observed = self._watch.observe(watched)
            except OSError as error:  # of this pod alone: the others are observed all the same
                observed = replace(watched.observed, message=f"its directory cannot be read: {error}")
            if observed.state is PodState.EXITED and watched.generation > 0 and not self._reaper.kill([watched]):
                observed = watched.observed  # its shim was killed, and the replacement has not found everything
            registry.set_observed(watched, observed)
            if watched.is_cleared:
                self.lose(watched)
        if watched.is_settled:
            registry.unsettled.discard(pod)
        else:
            registry.unsettled.add(pod)
        if watched.is_over:
            self._watch.release(watched)
            self._reaper.cancel(pod)
            self._secret_files.remove(pod)
        return watched

    def lose(self, watched: WatchedPod) -> None:
        """Its directory was removed or cleared. It is not gone before its processes are."""
        self._registry.lost.add(watched.pod)
        words = "its directory was deleted; its remaining processes are being killed"
        self._registry.set_observed(watched, replace(watched.observed, message=words))

    def drop(self, pod: PodId) -> WatchedPod:
        """Stop watching it."""
        watched = self._registry.remove(pod)
        self._watch.release(watched)
        self._reaper.cancel(pod)
        self._secret_files.remove(pod)
        return watched

    def wait_until_over(self, pods: Sequence[WatchedPod], timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        waiting = list(pods)
        while waiting and time.monotonic() < until:
            is_readable([watched.handle for watched in waiting if watched.handle >= 0], 0.02)
            waiting = [watched for watched in waiting if not self.refresh(watched).is_over]
            self.request_shims()

    # --- shims

    def request_shims(self) -> None:
        """Pods without a living shim get one, or a replacement."""
        now = time.monotonic()
        wanted = [
            watched
            for watched in (self._registry.pods[pod] for pod in sorted(self._registry.unsettled))
            if not watched.has_shim
            and watched.stored.launch is not None
            and now - watched.asked_at > _pause_s(watched)
            and watched.pod not in self._registry.lost
        ]
        if not wanted:
            return
        asked = self._launcher.launch([(watched.generation + 1, watched.directory) for watched in wanted])
        for watched in wanted[:asked]:
            watched.asked_at = watched.refreshed_at = now

    def signal_shim(self, watched: WatchedPod) -> None:
        """Make it read the stop notice. A stopped shim is continued."""
        if watched.handle < 0:
            return
        try:
            signal.pidfd_send_signal(watched.handle, signal.SIGTERM)
            signal.pidfd_send_signal(watched.handle, signal.SIGCONT)
        except ProcessLookupError:
            self._registry.unsettled.add(watched.pod)

    def continue_shims(self) -> None:
        """Continue shims that were stopped by a signal."""
        for watched in self._registry.alive():
            if watched.shim is not None and process_table.is_stopped(watched.shim[0]):
                alive = partial(process_table.is_alive, started=watched.shim[1])
                process_table.send(watched.shim[0], signal.SIGCONT, only_if=alive)


def living_shim(watched: WatchedPod) -> pod_directory.ShimProcess | None:
    """Its shim, from its directory; None: it is dead, or there is none."""
    try:
        shim = pod_directory.read_files(watched.directory).shim
    except OSError:  # removed meanwhile
        return None
    return shim if shim is not None and shim.is_alive else None


def _pause_s(watched: WatchedPod) -> float:
    """How long a requested shim is waited for. A pod that is to stop does not wait for long."""
    if watched.generation < QUICK_REPLACEMENTS or stop_notice.exists(watched.directory):
        return ASK_AGAIN_S
    return min(ASK_AGAIN_S * 2.0 ** (watched.generation + 1 - QUICK_REPLACEMENTS), REPLACEMENT_PAUSE_MAX_S)
