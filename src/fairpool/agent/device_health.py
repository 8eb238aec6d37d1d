"""Which real devices are not given out just now, and why: broken, silent, or in use by somebody who is no pod of ours.

The driver lists processes of this machine's own view only. Work in another container, or on the host of ours, shows by
nothing but the memory it has; so memory counts that nobody has whom we can see. It must be seen twice, except at the
first look: a process that is just ending leaves the list and its memory in no particular order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from fairpool.agent import process_table
from fairpool.agent.devices import LogicalNode
from fairpool.agent.nvml import MIB, Gpu, Gpus
from fairpool.model.ids import NodeName
from fairpool.model.node import Node

UNSEEN_BYTES = 200 * MIB
"""More than nobody's rounding: the lists of an H200 fell short by 9 MiB a process, and one that computes has 500."""
NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Seen:
    """A node without the devices that are withheld, and why they are."""

    node: Node
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Belongings:
    """What is ours, and who is there at all."""

    ours: Callable[[Collection[int]], Collection[int]]
    """Those of these processes that belong to our pods."""
    holds: Callable[[NodeName, int], bool]
    """Whether a pod of ours holds a device of a node."""
    is_there: Callable[[int], bool] = lambda pid: process_table.start_time(pid) is not None
    """Whether a process lives and can be seen from here."""


class DeviceHealth:
    """Looks at the devices of this machine, again and again."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._doubtful: set[str] = set()
        """Devices with memory in use that nobody had at the last look."""
        self._has_looked = False

    def look(self, nodes: Sequence[LogicalNode], belongings: Belongings) -> list[Seen]:
        """All nodes, without the devices that must not be given out now."""
        doubtful: set[str] = set()
        seen = [self._look_at(node, belongings, doubtful) for node in nodes]
        self._doubtful, self._has_looked = doubtful, True
        return seen

    def _look_at(self, node: LogicalNode, belongings: Belongings, doubtful: set[str]) -> Seen:
        if node.is_simulated or not node.gpus:
            return Seen(node.node)
        reasons = [(gpu.index, self._objection(node.node.name, gpu, belongings, doubtful)) for gpu in node.gpus]
        withheld = tuple(index for index, words in reasons if words)
        words = "; ".join(f"GPU {index} is not scheduled: {words}" for index, words in reasons if words)
        return Seen(
            node.node if withheld == node.node.gpus_withheld else replace(node.node, gpus_withheld=withheld), words
        )

    def _objection(self, node: NodeName, gpu: Gpu, belongings: Belongings, doubtful: set[str]) -> str:
        """Why a device is withheld; empty if it is not."""
        if gpu.trouble:
            return gpu.trouble
        use = self._gpus.use(gpu.uuid)
        if use is None:
            return "the driver does not respond for it"
        there = {pid for pid, _ in use.by_process if belongings.is_there(pid)}
        there.update(pid for pid in use.computing if belongings.is_there(pid))
        ours = belongings.ours(use.computing)
        foreign = [pid for pid in sorted(use.computing) if pid in there and pid not in ours]
        if foreign:
            return f"used by {_named(foreign)}, which {'is' if len(foreign) == 1 else 'are'} not part of a pod"
        explained = sum(used for pid, used in use.by_process if pid in there)
        # Beside a pod of ours nobody can tell: a driver in a container may not list even that pod.
        if use.memory_bytes is None or use.memory_bytes - explained < UNSEEN_BYTES or belongings.holds(node, gpu.index):
            return ""
        doubtful.add(gpu.uuid)
        is_sure = gpu.uuid in self._doubtful or not self._has_looked
        return "its memory is used by a process that is not visible from here" if is_sure else ""


def _named(pids: Sequence[int]) -> str:
    """`process 490 (python3)`, `processes 490 (python3) and 491 (python3)`."""
    words = [f"{pid} ({process_table.name(pid) or 'unknown'})" for pid in pids[:NAMED_MAX]]
    if len(pids) > NAMED_MAX:
        words.append(f"{len(pids) - NAMED_MAX} more")
    if len(words) == 1:
        return f"process {words[0]}"
    return f"processes {', '.join(words[:-1])} and {words[-1]}"
