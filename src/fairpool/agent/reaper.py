"""Ends lives from outside their shims: when a grace is over, when a folder is gone, when nobody knows whose they are.

A shim may be killed, stopped or outwitted by its own pod, so nothing here asks one to do anything. The supervisor
says who is to leave and until when; what is left by then is found in every way there is and killed.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from fairpool.agent import notice, pod_directory, process_table, remains
from fairpool.agent.cgroup import Group, Limiter, names_of_groups
from fairpool.agent.durable import read_regular, replace_file
from fairpool.agent.process_table import Census
from fairpool.agent.remains import Process, Traces
from fairpool.agent.watch import WatchedPod
from fairpool.model.ids import PodId, WorkloadId, pod_id

SLACK_S = 2.0
"""How much longer than its grace a shim has to end its pod and to say how it ended; then we do it."""
FORCE_S = 3.0
"""How long we wait for processes that we have killed; the kernel may take its time with one that waits for a disk."""
FORCE_AGAIN_S = 5.0
COSTLY_LOOK_S, LOOK_SHARE = 0.02, 10
"""A look at all processes that takes a processor longer than that is taken a tenth of the time at most."""
REMEMBERED_MAX = 16 << 20
OURS = 18
"""How much of a mark is the same for all of an installation: `xxxxxxxx-xxxx-xxxx`."""


class Reaper:
    """Who must be gone by when, and what runs here without being anybody's."""

    def __init__(
        self, namespace: uuid.UUID, pods: Path, limiter: Limiter, fork_server_pid: Callable[[], int | None]
    ) -> None:
        self._namespace, self._pods, self._limiter, self._fork_server_pid = namespace, pods, limiter, fork_server_pid
        self.leaving: dict[PodId, float] = {}
        """When each is ended by us, by the clock of notices."""
        self.strays: dict[str, dict[int, int]] = {}
        """Processes of ours that belong to no life and could not be ended yet, by their mark."""
        self._looked_at, self._look_s = float("-inf"), 0.0
        self._remembered = b""

    def mark(self, pod: PodId) -> str:
        """Names the life in the process table, and begins alike for all of this installation and of no other."""
        own = uuid.uuid5(self._namespace, pod)
        return str(uuid.UUID(bytes=self._namespace.bytes[:8] + own.bytes[8:]))

    # --- who was told to leave

    def told(self, pod: PodId, grace_s: float) -> None:
        """It has so long; told again, it can only become shorter."""
        at = notice.now() + notice.bounded(grace_s) + SLACK_S
        self.leaving[pod] = min(at, self.leaving.get(pod, at))

    def overdue(self) -> list[PodId]:
        """Those whose time is over."""
        now = notice.now()
        return sorted(pod for pod, at in self.leaving.items() if at <= now)

    def next_at(self) -> float | None:
        """When the next of them is due."""
        return min(self.leaving.values(), default=None)

    def put_off(self, pod: PodId) -> None:
        """It is tried again in a while."""
        self.leaving[pod] = notice.now() + FORCE_AGAIN_S

    def end(self, lives: Sequence[WatchedPod], patience_s: float = FORCE_S) -> list[WatchedPod]:
        """Kill all that is left of these lives except their shims; says of which nothing is left.

        The others are tried again in a while.
        """
        left = remains.end([life.traces() for life in lives], patience_s, self._beside())
        for life, found in zip(lives, left, strict=True):
            if found:
                self.put_off(life.kept.order.pod)
        return [life for life, found in zip(lives, left, strict=True) if not found]

    def end_without_order(self, pod: PodId, folder: str) -> bool:
        """End what runs by an order that nobody can read any more; False: something is still there."""
        seen = pod_directory.glance(folder)
        if seen.shim is None and seen.main is None:
            return True  # it has never run
        shim = (seen.shim.pid, seen.shim.started) if seen.shim is not None else None
        traces = Traces(mark=self.mark(pod), shim=shim, main=seen.main, namespace=seen.namespace)
        self._end_all([traces])
        return traces.mark not in self.strays

    def are_gone(self, lives: Sequence[WatchedPod]) -> set[PodId] | None:
        """Of which of these nothing is left, shims excepted. None: to look again would cost too much just now."""
        if not lives:
            return set()
        since_s = time.monotonic() - self._looked_at
        if self._look_s > COSTLY_LOOK_S and since_s < self._look_s * LOOK_SHARE:
            return None
        begun = time.thread_time()
        left = remains.remains_of([life.traces() for life in lives], self._beside())
        self._looked_at, self._look_s = time.monotonic(), time.thread_time() - begun
        return {life.kept.order.pod for life, found in zip(lives, left, strict=True) if not found}

    # --- who is nobody's

    def end_strays(self, lives: Collection[WatchedPod], *, remembered: Sequence[Traces] = ()) -> None:
        """End whatever runs under one of our marks, in one of our groups or below one of our shims, and is of no life
        that goes on. That of a life that is over is among it, and what was `remembered` of lives."""
        living = {mark for life in lives if not life.is_over for mark in (life.traces().mark, self._mark_of(life))}
        census = Census(self._beside())
        found = {traces.mark: traces for traces in remembered if traces.mark not in living}
        for mark in census.marks().keys() - found.keys():
            if mark not in living and self._is_ours(mark):
                found[mark] = Traces(mark=mark, group=self._group(mark))
        for mark in names_of_groups(self._limiter):
            if mark not in living and mark not in found and self._is_ours(mark):
                found[mark] = Traces(mark=mark, group=self._group(mark))
        for shim, name in remains.homeless_shims(census, self._pods).items():
            mark = self.mark(pod_directory.pod_of(name))
            if mark not in living:  # else its life was lost, and is ended with it
                known = found.get(mark, Traces(mark=mark, group=self._group(mark)))
                found[mark] = replace(known, shim=shim)
        self.strays = {}
        self._end_all(list(found.values()))

    def remember(self, file: Path, boot_id: str, lives: Collection[WatchedPod]) -> None:
        """Write down by what lives are found, apart from their folders: one may be removed while no server runs."""
        rows = [_row(life) for life in lives if not life.is_over and life.main is not None]
        content = json.dumps({"boot_id": boot_id, "lives": rows}).encode()
        if content != self._remembered:
            replace_file(file, content)
            self._remembered = content

    def recall(self, file: Path, boot_id: str) -> list[Traces]:
        """What was remembered in this boot; of what cannot be read, nothing."""
        try:
            said = json.loads(read_regular(file, REMEMBERED_MAX))
            rows = said["lives"] if said["boot_id"] == boot_id else []
            return [self._traces(*row) for row in rows if self._is_ours(row[0])]
        except (*pod_directory.UNREADABLE, IndexError):
            return []

    def _traces(self, mark: str, shim: Sequence[int], main: Sequence[int], namespace: int) -> Traces:
        return Traces(
            mark=mark,
            shim=(int(shim[0]), int(shim[1])),
            main=(int(main[0]), int(main[1])),
            # A number of its own as long as its first process lives; afterwards it may be another's.
            namespace=int(namespace) if process_table.is_alive(int(main[0]), int(main[1])) else None,
            group=self._group(mark),
        )

    def waits_for_stray(self, workload: WorkloadId, index: int, incarnation: int) -> bool:
        """Whether an earlier life of this pod may still run somewhere, although it is not in the books."""
        earlier = (pod_id(workload, index, number) for number in range(incarnation))
        return bool(self.strays) and any(self.mark(pod) in self.strays for pod in earlier)

    def _end_all(self, strays: Sequence[Traces]) -> None:
        for traces, left in zip(strays, remains.end(strays, FORCE_S, self._beside()), strict=True):
            if left:
                self.strays[traces.mark] = left
                continue
            if traces.group is not None:
                traces.group.remove()
            if traces.shim is not None:
                kill(traces.shim)
            self.strays.pop(traces.mark, None)

    def _is_ours(self, mark: str) -> bool:
        return mark[:OURS] == str(self._namespace)[:OURS]

    def _mark_of(self, life: WatchedPod) -> str:
        return self.mark(life.kept.order.pod)

    def _group(self, mark: str) -> Group | None:
        return Group(self._limiter.to_json(), mark) if self._limiter.is_able else None

    def _beside(self) -> set[int]:
        fork_server = self._fork_server_pid()
        return set() if fork_server is None else {fork_server}


def _row(life: WatchedPod) -> tuple[str, Process, Process, int]:
    assert life.main is not None
    return life.traces().mark, life.shim or (0, 0), life.main, life.namespace or 0


def kill(process: Process) -> None:
    """Kill this very process, if it is still there."""
    process_table.end_family(dict([process]))
