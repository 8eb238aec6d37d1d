"""Samples of this machine's nodes: what their devices and running pods used since the last one.

Called by a thread of its own. The supervisor's lock is held only while the list of pods is copied; /proc is read
without it, and a driver that hangs costs a sample a few seconds, and the devices their values. Rates are by the
monotonic clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairpool.agent.devices import LogicalNode
from fairpool.agent.gpu_meter import Attribution, GpuMeter, device_sample, device_uses
from fairpool.agent.machine_meter import MachineMeter
from fairpool.agent.nvml import GpuMeasure, Gpus
from fairpool.agent.pod_meter import PodMeter
from fairpool.agent.process_owners import ProcessOwners, RunningPod, Subjects
from fairpool.agent.usage import ResourceUsage
from fairpool.model.ids import NodeName, PodId
from fairpool.model.progress import part_done
from fairpool.model.sample import DeviceUse, NodeSample, PodSample
from fairpool.model.sample_sums import simulated_devices, simulated_use, summed_node

TICKS_S = os.sysconf("SC_CLK_TCK")


class Sampler:
    """Measures the nodes of this machine. For one thread."""

    def __init__(
        self,
        nodes: Sequence[LogicalNode],
        subjects: Callable[[], Subjects],
        gpus: Gpus,
        reports: Callable[[PodId], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        """`gpus`: bounded, where they are real; `reports`: what a job reports about itself."""
        self._nodes, self._subjects, self._reports = tuple(nodes), subjects, reports
        self._owners = ProcessOwners()
        self._gpu_meter = GpuMeter(gpus)
        self._machine_meter = MachineMeter()
        self._meters: dict[PodId, PodMeter] = {}
        self._is_new: dict[PodId, bool] = {}
        self._holders: dict[str, Sequence[PodId]] = {}
        """Of each real device, at the last sample."""

    def take(self) -> tuple[NodeSample, ...]:
        """A sample of every node, also of one that is not offered any more and still has pods."""
        subjects = self._subjects()
        # Devices first: a process that they list is in the process table then, if it is still there.
        measures = self._gpu_meter.measure([gpu for node in self._real_nodes() for gpu in node.gpus])
        usages = self._measure_pods(subjects)
        machine = self._machine_meter.measure(time.monotonic())
        by_node: dict[NodeName, list[RunningPod]] = {node.node.name: [] for node in self._nodes}
        for pod in subjects.pods:
            by_node.setdefault(pod.node, []).append(pod)
        nodes = {node.node.name: node for node in self._nodes}
        samples = []
        for name, pods in by_node.items():
            sample = self._node_sample(name, nodes.get(name), pods, usages, measures)
            # Where it is the only one, the machine is the node, with all that runs on it.
            samples.append(sample if len(by_node) > 1 else replace(sample, **machine.values()))
        return tuple(samples)

    def _real_nodes(self) -> list[LogicalNode]:
        return [node for node in self._nodes if not node.is_simulated]

    def _measure_pods(self, subjects: Subjects) -> dict[PodId, ResourceUsage]:
        began_ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS_S)
        found = self._owners.read(subjects)
        now = time.monotonic()
        self._is_new = {each.pod: each.pod not in self._meters for each in subjects.pods}
        self._meters = {each.pod: self._meters.get(each.pod) or PodMeter() for each in subjects.pods}
        return {
            each.pod: self._meters[each.pod].measure(each, found[each.pod], began_ticks=began_ticks, at=now)
            for each in subjects.pods
        }

    def _node_sample(
        self,
        name: NodeName,
        node: LogicalNode | None,
        pods: Sequence[RunningPod],
        usages: Mapping[PodId, ResourceUsage],
        measures: Mapping[str, GpuMeasure | None],
    ) -> NodeSample:
        if node is None:
            return summed_node(name, [self._pod_sample(each, usages) for each in pods], (), is_simulated=False)
        if node.is_simulated:
            samples = [self._pod_sample(each, usages, _simulated_use(node, each, usages[each.pod])) for each in pods]
            devices = simulated_devices([gpu.index for gpu in node.gpus], samples)
            return summed_node(name, samples, devices, is_simulated=True)
        uses = self._uses(node, pods, measures)
        samples = [self._pod_sample(each, usages, uses.get(each.pod, ())) for each in pods]
        devices = tuple(device_sample(gpu, measures[gpu.uuid]) for gpu in node.gpus)
        return summed_node(name, samples, devices, is_simulated=False)

    def _pod_sample(
        self, pod: RunningPod, usages: Mapping[PodId, ResourceUsage], devices: Sequence[DeviceUse] = ()
    ) -> PodSample:
        done = part_done(self._reports(pod.pod).get("metrics") or {})
        return PodSample(
            pod=pod.pod,
            devices=tuple(devices),
            progress_percent=None if done is None else 100 * done,
            **usages[pod.pod].values(),
        )

    def _uses(
        self, node: LogicalNode, pods: Sequence[RunningPod], measures: Mapping[str, GpuMeasure | None]
    ) -> dict[PodId, list[DeviceUse]]:
        """What each pod of a node had of its real devices."""
        attribution = Attribution(owner=self._owners.owner, is_there=self._owners.is_there)
        found: dict[PodId, list[DeviceUse]] = {}
        for gpu in node.gpus:
            holders = [each.pod for each in pods if gpu.index in each.devices]
            held_before, self._holders[gpu.uuid] = self._holders.get(gpu.uuid, ()), holders
            uses = device_uses(gpu, measures[gpu.uuid], holders, attribution, held_before=held_before)
            for pod, use in uses.items():
                found.setdefault(pod, []).append(replace(use, utilization=None) if self._is_new.get(pod) else use)
        return found


def _simulated_use(node: LogicalNode, pod: RunningPod, usage: ResourceUsage) -> tuple[DeviceUse, ...]:
    """One busy core is one busy device."""
    memory_mib = node.gpus[0].memory_mib if node.gpus else 0
    return simulated_use(pod.devices, pod.gpu, memory_mib, usage.cpu_cores, usage.memory_bytes)
