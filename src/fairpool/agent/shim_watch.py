"""Notices when shims end.

With the descriptors nothing has to be polled for pods that simply run, however many there are: the kernel reports which
shims have ended, and only those are refreshed. A timer wakes the supervisor when a grace period is over.
"""

from __future__ import annotations

import ctypes
import os
import select
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fairpool.agent import exit_record, pod_directory
from fairpool.agent.pod_registry import WatchedPod
from fairpool.agent.shim import NEVER_STARTED
from fairpool.model.ids import PodId
from fairpool.model.observation import ObservedPod, PodState


class ShimWatch:
    """The shims whose end is reported."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._pods: dict[int, PodId] = {}
        self._timer = Timer()
        self._epoll.register(self._timer.fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        """Readable when a shim has ended, or the timer."""
        return self._epoll.fileno()

    def ended(self) -> Iterator[PodId]:
        """Pods whose shims have ended."""
        return (self._pods[handle] for handle, _ in self._epoll.poll(0) if handle in self._pods)

    def wake_at(self, moment: float | None) -> None:
        """Be readable at this moment, in seconds since boot; None: no timer."""
        self._timer.set(moment)

    def observe(self, watched: WatchedPod) -> ObservedPod:
        """The pod's state now; updates what is known of its processes. Raises OSError."""
        found = pod_directory.read_files(watched.directory)
        if found.shim is None:
            watched.is_cleared = watched.generation >= 0
            return watched.observed if watched.is_cleared else _without_shim(watched, found.has_stop_notice)
        watched.has_shim = self._hold(watched, found.shim)
        if found.shim.pid:
            watched.shim = (found.shim.pid, found.shim.started)
        watched.main, watched.namespace = found.main or watched.main, found.namespace or watched.namespace
        # After the shim was checked: one that is gone has written the exit record before, if it could.
        ended, since = exit_record.read(watched.directory), found.running_since
        if ended is not None:
            return ObservedPod(
                order=watched.stored.order,
                state=PodState.EXITED,
                exit_code=ended.code,
                message=ended.words,
                running_since=since,
                after_notice=ended.after_notice,
            )
        words = str(watched.stored.launch.get("words", "")) if watched.stored.launch is not None else ""
        if not watched.has_shim:
            words = "its supervising process was killed; another one has taken over"
        state = PodState.STARTING if since is None else PodState.RUNNING
        return ObservedPod(order=watched.stored.order, state=state, message=words, running_since=since)

    def release(self, watched: WatchedPod) -> None:
        """Stop watching its shim."""
        if watched.handle >= 0:
            self._epoll.unregister(watched.handle)
            del self._pods[watched.handle]
            os.close(watched.handle)
            watched.handle = -1

    def close(self) -> None:
        self._timer.close()
        self._epoll.close()

    def _hold(self, watched: WatchedPod, shim: pod_directory.ShimProcess) -> bool:
        """Keep a descriptor of the shim; returns whether it is alive."""
        if watched.generation == shim.generation and watched.handle >= 0:
            if not is_readable([watched.handle], 0):
                return True
            self.release(watched)
            return False
        self.release(watched)
        watched.generation = shim.generation
        try:
            handle = os.pidfd_open(shim.pid)
        except OSError:
            return shim.is_alive  # no descriptors left: it is checked again every time
        if not shim.is_alive:  # the pid may be another process's by now
            os.close(handle)
            return False
        watched.handle = handle
        self._pods[handle] = watched.pod
        self._epoll.register(handle, select.EPOLLIN)
        return True


def _without_shim(watched: WatchedPod, has_stop_notice: bool) -> ObservedPod:
    observed = ObservedPod(order=watched.stored.order, state=PodState.STARTING, message=watched.stored.start_failure)
    if not has_stop_notice:
        return observed
    words = "stopped before it started"
    return replace(observed, state=PodState.EXITED, exit_code=NEVER_STARTED, message=words, after_notice=True)


CLOCK_BOOTTIME, TFD_FLAGS, TFD_TIMER_ABSTIME = 7, os.O_NONBLOCK | os.O_CLOEXEC, 1


class _Interval(ctypes.Structure):
    _fields_ = (("every_s", ctypes.c_long), ("every_ns", ctypes.c_long), ("s", ctypes.c_long), ("ns", ctypes.c_long))


class Timer:
    """A descriptor that is readable from a moment on; Python has timerfd since 3.13 only."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.timerfd_create(CLOCK_BOOTTIME, TFD_FLAGS)
        self._at: float | None = None
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "cannot create a timer")

    def fileno(self) -> int:
        return int(self._fd)

    def set(self, at: float | None) -> None:
        """In seconds since boot; a moment that has passed makes it readable at once."""
        if at == self._at:
            return
        self._at = at
        seconds, part = divmod(max(at, 0.001), 1.0) if at is not None else (0, 0)
        wanted = _Interval(0, 0, int(seconds), int(part * 1e9))  # all zero: never
        if self._libc.timerfd_settime(self._fd, TFD_TIMER_ABSTIME, ctypes.byref(wanted), None) != 0:
            raise OSError(ctypes.get_errno(), "cannot set the timer")

    def close(self) -> None:
        os.close(self._fd)


WAIT_MAX_S = 3600.0
"""The kernel takes no more than 24 days; waking once an hour costs nothing."""


def is_readable(descriptors: Sequence[int], timeout_s: float) -> bool:
    """Whether one of these is readable, or becomes so in time."""
    poll = select.poll()  # not select(), which takes no descriptor above 1023
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(min(timeout_s, WAIT_MAX_S) * 1000))
