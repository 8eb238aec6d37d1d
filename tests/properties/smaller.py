"""Makes a world that breaks a law as small as it can be, so that it can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from fairpool.scheduler.snapshot import Snapshot


def smallest(snapshot: Snapshot, breaks: Callable[[Snapshot], bool]) -> Snapshot:
    """Leave out rows one by one for as long as it still breaks."""
    while True:
        less = next((each for each in _one_less(snapshot) if breaks(each)), None)
        if less is None:
            return snapshot
        snapshot = less


def _one_less(snapshot: Snapshot) -> Iterator[Snapshot]:
    for group in snapshot.groups:
        yield replace(
            snapshot,
            groups=tuple(each for each in snapshot.groups if each is not group),
            pods=tuple(pod for pod in snapshot.pods if pod.group != group.id),
        )
    used = {pod.node for pod in snapshot.pods}
    for node in snapshot.nodes:
        if node.name not in used:
            yield replace(snapshot, nodes=tuple(each for each in snapshot.nodes if each is not node))
    needed = {group.queue for group in snapshot.groups} | {queue.parent for queue in snapshot.queues}
    for queue in snapshot.queues:
        if queue.id not in needed:
            yield replace(snapshot, queues=tuple(each for each in snapshot.queues if each is not queue))
    yield from _plainer(snapshot)


def _plainer(snapshot: Snapshot) -> Iterator[Snapshot]:
    """The same rows with one oddity less."""
    for number, group in enumerate(snapshot.groups):
        usual = replace(
            group, avoid=(), succeeded=False, movable=True, tree=replace(group.tree, constraint=None), stale_since=None
        )
        if usual != group:
            yield replace(snapshot, groups=(*snapshot.groups[:number], usual, *snapshot.groups[number + 1 :]))
    for number, pod in enumerate(snapshot.pods):
        shape = replace(pod.shape, cpu_milli=0, memory_bytes=0, node_rules=(), tolerations=())
        if shape != pod.shape:
            plain = replace(pod, shape=shape)
            yield replace(snapshot, pods=(*snapshot.pods[:number], plain, *snapshot.pods[number + 1 :]))
