"""When GPUs and workloads were last seen to compute, from the samples that this process took in.

Kept in memory: after a restart, and in a control process that another one's cluster does not report to, it is known
again with the next sample in which something computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairpool.metrics.totals import PodHolding
from fairpool.model.ids import SECOND_MS
from fairpool.model.sample import PodSample, Sample

GAP_S: Final = 25.0
"""Between two samples: what happened in a longer time is not known, so idle time begins anew."""
BELIEVED_S: Final = 300
"""Without a sample for so long, it is not known whether something was used since."""


@dataclass(slots=True)
class ClusterActivity:
    """Of one cluster, of what its latest sample has. Moments are in seconds."""

    at_s: float = 0.0
    devices: dict[tuple[str, int], float] = field(default_factory=dict)
    """By node and number: when it last computed."""
    workloads: dict[str, float] = field(default_factory=dict)
    idle_since: dict[str, float] = field(default_factory=dict)
    """Of workloads: since when none of their GPUs has computed, as far as it was seen."""


class Activity:
    """By cluster."""

    def __init__(self) -> None:
        self._clusters: dict[str, ClusterActivity] = {}

    def note(self, cluster: str, sample: Sample, holdings: Iterable[PodHolding]) -> None:
        before = self._clusters.get(cluster, ClusterActivity())
        now_s = sample.at / SECOND_MS
        if now_s <= before.at_s:
            return
        now = ClusterActivity(at_s=now_s)
        owners = {each.pod: each.workload for each in holdings}
        for node in sample.nodes:
            shown = {device.index: device.utilization for device in node.devices}
            for device in node.devices:
                key = (str(node.node), device.index)
                last = now_s if device.utilization else before.devices.get(key)
                if last is not None:
                    now.devices[key] = last
            for pod in node.pods:
                if pod.pod in owners and pod.devices:
                    _note_workload(now, owners[pod.pod], _is_active(pod, shown))
        for workload in now.idle_since:
            if now_s - before.at_s <= GAP_S:
                now.idle_since[workload] = before.idle_since.get(workload, now_s)
            if workload in before.workloads:
                now.workloads[workload] = before.workloads[workload]
        self._clusters[cluster] = now

    def of(self, cluster: str, now_s: float) -> ClusterActivity:
        found = self._clusters.get(cluster)
        return found if found is not None and now_s - found.at_s < BELIEVED_S else ClusterActivity()


def _is_active(pod: PodSample, devices: Mapping[int, float | None]) -> bool:
    """Whether it computed. Where its part of a GPU was not measured, the GPU tells; where that was not, it may have."""
    for each in pod.devices:
        utilization = each.utilization if each.utilization is not None else devices.get(each.index)
        if utilization is None or utilization > 0:
            return True
    return False


def _note_workload(now: ClusterActivity, workload: str, is_active: bool) -> None:
    if is_active:
        now.workloads[workload] = now.at_s
        now.idle_since.pop(workload, None)
    elif workload not in now.workloads:
        now.idle_since[workload] = now.at_s
