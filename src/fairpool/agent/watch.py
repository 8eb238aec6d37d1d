"""Looking at lives: what the folder of each says, and a descriptor of each shim that says when it ends.

With the descriptors nothing has to be asked about pods that simply run, however many there are: the kernel tells which
shims are gone, and those alone are looked at. Hints only make it quicker. A timer wakes whoever sleeps on these
descriptors when a grace is over.
"""

from __future__ import annotations

import ctypes
import os
import select
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairpool.agent import pod_directory
from fairpool.agent.cgroup import Group
from fairpool.agent.order_file import KeptOrder
from fairpool.agent.remains import Process, Traces
from fairpool.agent.shim import NEVER_STARTED
from fairpool.model.ids import PodId
from fairpool.model.observation import ObservedPod, PodState


@dataclass(slots=True)
class WatchedPod:
    """A life as it was last seen."""

    folder: str
    kept: KeptOrder
    observed: ObservedPod
    handle: int = -1
    """A descriptor of its shim, readable when that ends."""
    generation: int = -1
    """Which shim it has; -1: none has come yet."""
    is_kept: bool = False
    """Its shim lives."""
    asked_at: float = float("-inf")
    """When a shim was last asked for."""
    looked_at: float = float("-inf")
    shim: Process | None = None
    main: Process | None = None
    namespace: int | None = None
    """By these its processes are found when its folder is not there any more."""
    is_emptied: bool = False
    """Its shim's claim was there and is not any more: somebody has cleared its folder."""

    def traces(self) -> Traces:
        """By what its processes are found."""
        launch = self.kept.launch or {}
        mark = str(launch.get("mark", ""))
        group = _group(launch.get("limits"), mark)
        return Traces(mark=mark, shim=self.shim, main=self.main, namespace=self.namespace, group=group)

    @property
    def is_over(self) -> bool:
        return self.observed.state is PodState.EXITED

    @property
    def is_settled(self) -> bool:
        """Whether nothing can happen to it that we are not told."""
        waits_for_image = self.kept.launch is None
        return self.is_over or waits_for_image or (self.observed.state is PodState.RUNNING and self.handle >= 0)

    def is_awaited_since(self, moment: float) -> bool:
        """Whether it was looked at since then and is still starting: its shim will give a hint when it runs."""
        return self.observed.state is PodState.STARTING and self.looked_at > moment


class Watch:
    """The shims whose end we are told of."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._pods: dict[int, PodId] = {}
        self._timer = Timer()
        self._epoll.register(self._timer.fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        """Readable when a shim has ended."""
        return self._epoll.fileno()

    def ended(self) -> Iterator[PodId]:
        """Pods whose shims are gone."""
        return (self._pods[handle] for handle, _ in self._epoll.poll(0) if handle in self._pods)

    def wake_at(self, moment: float | None) -> None:
        """Be readable at this moment, by the clock of notices; None: not by the hour."""
        self._timer.set(moment)

    def observed(self, life: WatchedPod) -> ObservedPod:
        """What the life looks like now."""
        found = pod_directory.glance(life.folder)
        if found.shim is None:
            life.is_emptied = life.generation >= 0
            return life.observed if life.is_emptied else _without_shim(life, found.is_told_to_stop)
        life.is_kept = self._hold(life, found.shim)
        if found.shim.pid:
            life.shim = (found.shim.pid, found.shim.started)
        life.main, life.namespace = found.main or life.main, found.namespace or life.namespace
        # After the look at its shim: one that is gone has written the end before, if it could.
        end, since = pod_directory.end_of(life.folder), found.running_since
        if end is not None:
            return ObservedPod(
                order=life.kept.order,
                state=PodState.EXITED,
                exit_code=end.code,
                message=end.words,
                running_since=since,
                after_notice=end.after_notice,
            )
        words = str(life.kept.launch.get("words", "")) if life.kept.launch is not None else ""
        if not life.is_kept:
            words = "its supervising process was killed; another one has taken over"
        state = PodState.STARTING if since is None else PodState.RUNNING
        return ObservedPod(order=life.kept.order, state=state, message=words, running_since=since)

    def let_go(self, life: WatchedPod) -> None:
        """Its shim is not watched any more."""
        if life.handle >= 0:
            self._epoll.unregister(life.handle)
            del self._pods[life.handle]
            os.close(life.handle)
            life.handle = -1

    def close(self) -> None:
        self._timer.close()
        self._epoll.close()

    def _hold(self, life: WatchedPod, shim: pod_directory.ShimProcess) -> bool:
        """Keep a descriptor of the shim; says whether it lives."""
        if life.generation == shim.generation and life.handle >= 0:
            if not is_readable([life.handle], 0):
                return True
            self.let_go(life)
            return False
        self.let_go(life)
        life.generation = shim.generation
        try:
            handle = os.pidfd_open(shim.pid)
        except OSError:
            return shim.is_alive  # no descriptors left: it is looked at again every time
        if not shim.is_alive:  # the number may be somebody else's by now
            os.close(handle)
            return False
        life.handle = handle
        self._pods[handle] = life.kept.order.pod
        self._epoll.register(handle, select.EPOLLIN)
        return True


CLOCK_BOOTTIME, TFD_FLAGS, TFD_TIMER_ABSTIME = 7, os.O_NONBLOCK | os.O_CLOEXEC, 1


class _Interval(ctypes.Structure):
    _fields_ = (("every_s", ctypes.c_long), ("every_ns", ctypes.c_long), ("s", ctypes.c_long), ("ns", ctypes.c_long))


class Timer:
    """A descriptor that is readable from a moment on. Python knows such since 3.13, the kernel since long before."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.timerfd_create(CLOCK_BOOTTIME, TFD_FLAGS)
        self._at: float | None = None
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "cannot create a timer")

    def fileno(self) -> int:
        return int(self._fd)

    def set(self, at: float | None) -> None:
        """From this moment since boot; one that has passed makes it readable at once."""
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
"""Whoever wants to wait for longer looks once in between: the kernel takes no more than 24 days."""


def is_readable(descriptors: Sequence[int], timeout_s: float) -> bool:
    """Whether one of these is, or becomes so in time."""
    poll = select.poll()  # not select(), which knows no descriptor above 1023
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(min(timeout_s, WAIT_MAX_S) * 1000))


def _group(limits: Any, mark: str) -> Group | None:
    """The group in which a life runs. Its order may have been damaged, and then there is none that we know."""
    try:
        is_its_own = limits["name"] == mark and mark and "/" not in mark
        return Group(limits["limiter"], mark) if is_its_own else None
    except (KeyError, TypeError, ValueError):
        return None


def _without_shim(life: WatchedPod, is_told: bool) -> ObservedPod:
    observed = ObservedPod(order=life.kept.order, state=PodState.STARTING, message=life.kept.trouble)
    if not is_told:
        return observed
    words = "stopped before it started"
    return replace(observed, state=PodState.EXITED, exit_code=NEVER_STARTED, message=words, after_notice=True)
