"""Samples of simulated nodes: what their pods use follows from what they asked for and how they behave."""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.engines.simulated.simulated_node import SimulatedNode
from fairpool.engines.simulated.timeline import PodTimeline
from fairpool.model.ids import Instant, NodeName, PodId
from fairpool.model.sample import NodeSample, PodSample, Sample
from fairpool.model.sample_sums import MIB, simulated_devices, simulated_use, summed_node


class SimulatedSampler:
    """Remembers when the last sample was taken, and of which pods."""

    def __init__(self) -> None:
        self._at: Instant | None = None
        self._pods: frozenset[PodId] = frozenset()

    def take(self, now: Instant, nodes: Sequence[SimulatedNode], timelines: Sequence[PodTimeline]) -> Sample:
        """A sample of the nodes that respond. Changes nothing but what is remembered here."""
        running: dict[NodeName, list[PodTimeline]] = {}
        for timeline in timelines:
            if timeline.has_run(now) and not timeline.is_over(now) and not timeline.is_unseen(now):
                running.setdefault(timeline.order.node, []).append(timeline)
        samples = tuple(
            self._node_sample(host, running.get(host.node.name, []), now) for host in nodes if _responds(host, now)
        )
        self._at, self._pods = now, frozenset(pod.pod for node in samples for pod in node.pods)
        return Sample(at=now, nodes=samples)

    def _node_sample(self, host: SimulatedNode, running: Sequence[PodTimeline], now: Instant) -> NodeSample:
        node, fenced_at = host.node, host.fences_at
        was_fenced = fenced_at is not None and fenced_at <= now
        pods = [] if was_fenced else [self._pod_sample(each, node.gpu_memory_mib, now) for each in running]
        return summed_node(node.name, pods, simulated_devices(range(node.gpus), pods), is_simulated=True)

    def _pod_sample(self, timeline: PodTimeline, gpu_memory_mib: int, now: Instant) -> PodSample:
        order, load = timeline.order, timeline.behaviour.load
        shape, devices = order.shape, order.devices
        busy = None
        if self._at is not None and order.pod in self._pods and now > self._at:
            began = max(timeline.running_at or now, self._at)
            busy = load * (now - began) / (now - self._at)
        gpu_memory = round(load * len(devices) * shape.gpu.own_memory_mib(gpu_memory_mib)) * MIB
        return PodSample(
            pod=order.pod,
            cpu_cores=None if busy is None else busy * shape.cpu_milli / 1000,
            memory_bytes=round(load * shape.memory_bytes),
            devices=simulated_use(
                devices, shape.gpu, gpu_memory_mib, None if busy is None else busy * len(devices), gpu_memory
            ),
        )


def _responds(host: SimulatedNode, now: Instant) -> bool:
    return not host.is_silent or (host.silent_until is not None and host.silent_until <= now)
