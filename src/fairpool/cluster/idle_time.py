"""How long pods have left their GPUs idle, from samples, and which workloads that ends or will end soon. Pure.

A pod is idle while every sample shows all its GPUs at 0 %. Whatever is not measured is no idleness: after a gap in the
samples, and after a restart of the process, the time counts from the beginning. Time is that of a clock that is never
set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairpool.model.ids import SECOND_MS, PodId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.organization import ProjectRules
from fairpool.model.pod_record import PodRecord
from fairpool.model.precedence import precedence
from fairpool.model.quantity import length_text
from fairpool.model.sample import NodeSample, PodSample, Sample
from fairpool.model.spec import WorkloadSpec
from fairpool.model.workload import GpuKind, WorkloadKind

GAP_MS: Final = 25 * SECOND_MS
"""Samples that are further apart are a gap. A sample has the average since the one before, so one may come late."""
SIMULATED_IDLE: Final = 0.5
"""Up to this, in percent, a simulated GPU is idle: a program that sleeps uses some CPU time. A real one is so at 0."""
SAMPLES_MS: Final = 10 * SECOND_MS
"""Between two samples, so that a limit may be noticed that much later than it is reached."""
WARNED_BEFORE_MS: Final = 15 * 60 * SECOND_MS
WARNED_AT_LEAST_MS: Final = 15 * SECOND_MS
"""More than the time between two samples, so that one of them comes in time for a warning."""


@dataclass(frozen=True, slots=True)
class PodIdleTimes:
    """Since when pods have been idle, as of the latest sample."""

    at_ms: int = -GAP_MS
    since: Mapping[PodId, int] = field(default_factory=dict)

    def after(self, sample: Sample, at_ms: int) -> PodIdleTimes:
        """With the next sample."""
        before = self.since if at_ms - self.at_ms <= GAP_MS else {}
        idle = (pod.pod for node in sample.nodes for pod in node.pods if is_idle(pod, node))
        return PodIdleTimes(at_ms, {pod: before.get(pod, at_ms) for pod in idle})

    def idle_ms(self, pods: Iterable[PodRecord]) -> int:
        """For how long all pods of a workload that hold GPUs have been idle; 0: one of them is not, or not for long, or
        there is none."""
        held = [pod for pod in pods if pod.is_placed and pod.shape.gpu.kind is not GpuKind.NONE]
        if any(pod.phase is not PodPhase.RUNNING for pod in held):
            return 0
        return min((self.at_ms - self.since.get(pod.id, self.at_ms) for pod in held), default=0)


def is_idle(pod: PodSample, node: NodeSample) -> bool:
    """Whether a sample shows that a pod used none of its GPUs. What it had of a GPU that others share may be unknown:
    then the GPU itself must have been idle."""
    devices = {each.index: each.utilization for each in node.devices}
    shown = [each.utilization if each.utilization is not None else devices.get(each.index) for each in pod.devices]
    most = SIMULATED_IDLE if node.is_simulated else 0.0
    return bool(shown) and all(each is not None and each <= most for each in shown)


def idle_limit_s(spec: WorkloadSpec, rules: ProjectRules) -> int | None:
    """How long a workload may leave its GPUs idle; None: for as long as it likes."""
    match spec.kind:
        case WorkloadKind.TRAIN:
            return rules.training_idle_s or None
        case WorkloadKind.BUILD:
            is_preemptible = precedence(spec.kind, spec.priority, spec.preemptible).preemptible
            return (rules.interactive_preemptible_idle_s if is_preemptible else rules.interactive_idle_s) or None
    return None


def notice_ms(limit_s: int) -> int:
    """How long before the end the owner is warned: a quarter of an hour, or a quarter of a shorter limit."""
    return max(WARNED_AT_LEAST_MS, min(WARNED_BEFORE_MS, limit_s * SECOND_MS // 4))


def warned_from_ms(limit_s: int) -> int:
    """After how long the owner is warned."""
    return max(0, limit_s * SECOND_MS - notice_ms(limit_s))


def limit_words(spec: WorkloadSpec, limit_s: int) -> str:
    """Why a workload is stopped."""
    noun = "training jobs" if spec.kind is WorkloadKind.TRAIN else "interactive jobs"
    return f"its GPUs were idle for {length_text(limit_s)}, the limit for {noun} in project {spec.project}"


def warning_words(limit_s: int, idle_ms: int) -> str:
    """What is coming."""
    least_s = min(limit_s, notice_ms(limit_s) // SECOND_MS)  # also if the limit was set below the time it is idle
    left = length_text(max(least_s, limit_s - idle_ms // SECOND_MS, 1))
    return (
        f"its GPUs have been idle for {length_text(idle_ms // SECOND_MS)}; it is stopped in {left} unless it uses them"
    )
