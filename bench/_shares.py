"""Static cases with exact answers: queues that want more than there is, and what each holds once all has settled.

Each is run twice: with all queues there from the beginning, and with one queue that has taken all there is before the
others come, so that it has to give back. Both must end alike, and no queue may be a whole GPU off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench._fair import Cluster, Knobs, Simulation
from bench._philly import Job, Meter
from bench._stopwatch import Result
from bench._worlds import GPUS_PER_NODE, nodes
from fairpool.model.ids import QueueId
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI

FOREVER_S = 1 << 40
LATER_S = 3600
SETTLED_S = 2 * LATER_S


@dataclass(frozen=True, slots=True)
class Share:
    """Queues, how many one-GPU jobs each asks for, and what each should hold."""

    name: str
    about: str
    queues: tuple[Queue, ...]
    asks: Mapping[str, int]
    expected: Mapping[str, float]
    nodes: int = 12

    @property
    def jobs(self) -> list[QueueId]:
        return [QueueId(queue) for queue, count in self.asks.items() for _ in range(count)]


def _queue(name: str, weight: float = 1.0, quota: int = 0, limit: int | None = None, priority: int = 100) -> Queue:
    above, _, _ = name.rpartition("/")
    limit_milli = UNLIMITED if limit is None else limit * WHOLE_GPU_MILLI
    return Queue(
        id=QueueId(name),
        parent=QueueId(above) if above else None,
        priority=priority,
        gpu=Entitlement(quota=quota * WHOLE_GPU_MILLI, limit=limit_milli, weight=weight),
    )


SHARES = (
    Share(
        "weights",
        "weights 3 : 1 share 96 GPUs 72 : 24",
        (_queue("a", 3), _queue("b", 1)),
        {"a": 96, "b": 96},
        {"a": 72, "b": 24},
    ),
    Share(
        "levels-of-queues",
        "three levels: 3 : 1, then 1 : 1 and 2 : 1, then 1 : 2",
        (
            _queue("a", 3),
            *(_queue("a/x"), _queue("a/y")),
            *(_queue("a/x/1", 1), _queue("a/x/2", 2), _queue("a/y/1")),
            _queue("b", 1),
            *(_queue("b/x", 2), _queue("b/y", 1)),
            *(_queue("b/x/1"), _queue("b/y/1")),
        ),
        dict.fromkeys(("a/x/1", "a/x/2", "a/y/1", "b/x/1", "b/y/1"), 96),
        {"a/x/1": 12, "a/x/2": 24, "a/y/1": 36, "b/x/1": 16, "b/y/1": 8},
    ),
    Share(
        "limit",
        "a queue with a limit leaves the rest to the others",
        (_queue("a", limit=10), _queue("b"), _queue("c")),
        {"a": 96, "b": 96, "c": 96},
        {"a": 10, "b": 43, "c": 43},
    ),
    Share(
        "priority",
        "queue priority comes before weight",
        (_queue("a", 1, priority=200), _queue("b", 9)),
        {"a": 60, "b": 96},
        {"a": 60, "b": 36},
    ),
    Share(
        "over-quota",
        "quota first, then what is idle by weight",
        (_queue("a", 3, quota=20), _queue("b", 1, quota=36), _queue("c", 1, quota=40)),
        {"a": 96, "b": 96, "c": 8},
        {"a": 44, "b": 44, "c": 8},
    ),
)


def settled(share: Share) -> Result:
    """Play a case both ways."""
    found: list[str] = []
    worst = 0.0
    plans = 0
    for first in (None, *share.asks):
        simulation = _played(share, first)
        held, plans = simulation.meter.held, plans + simulation.plans
        for queue, expected in share.expected.items():
            off = abs(held[QueueId(queue)] - expected)
            worst = max(worst, off)
            if off >= 1:
                found.append(
                    f"{queue} holds {held[QueueId(queue)]}, not {expected:g}; first came {first or 'all queues'}"
                )
        found += [
            f"{row.id} holds more than its limit"
            for row in share.queues
            if row.gpu.limit != UNLIMITED and held.get(row.id, 0) * WHOLE_GPU_MILLI > row.gpu.limit
        ]
    return Result({"worst_error_gpus": worst, "plans": plans}, found, share.about)


def _played(share: Share, first: str | None) -> Simulation:
    """All queues come at once, or one queue before the others."""
    late = {queue: 0 if first in (None, queue) else LATER_S for queue in share.asks}
    order = sorted(share.jobs, key=lambda queue: (late[queue], queue))
    jobs = [Job(number, queue, late[queue], 1, FOREVER_S) for number, queue in enumerate(order)]
    meter = Meter(jobs, dict.fromkeys((QueueId(queue) for queue in share.asks), 1), share.nodes * GPUS_PER_NODE)
    simulation = Simulation(jobs, Cluster(nodes(share.nodes), share.queues, Knobs()), meter)
    simulation.run(SETTLED_S)
    return simulation
