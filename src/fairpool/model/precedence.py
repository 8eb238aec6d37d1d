"""Priority, preemptibility and GPU charge of a workload: one rule for admission, scheduler and output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fairpool.model.quantity import WHOLE_GPU_MILLI, memory_portion_milli
from fairpool.model.workload import GpuKind, GpuRequest, WorkloadKind

PRIORITY_CLASSES: Mapping[str, int] = MappingProxyType(
    {"train": 50, "interactive-preemptible": 75, "build": 100, "inference": 125}
)
NON_PREEMPTIBLE_PRIORITY = 100
"""Workloads of this priority class or a higher one are not preemptible unless declared so."""
MIG_SLICES_PER_GPU = 7
_CLASS_NAMES = {value: name for name, value in PRIORITY_CLASSES.items()}


@dataclass(frozen=True, slots=True)
class KindRule:
    """A priority, and whether other work may take its place."""

    priority: int
    preemptible: bool


KIND_RULES: Mapping[WorkloadKind, KindRule] = MappingProxyType(
    {
        WorkloadKind.TRAIN: KindRule(PRIORITY_CLASSES["train"], preemptible=True),
        WorkloadKind.BUILD: KindRule(PRIORITY_CLASSES["build"], preemptible=False),
        WorkloadKind.INFERENCE: KindRule(PRIORITY_CLASSES["inference"], preemptible=False),
    }
)


def precedence(
    kind: WorkloadKind,
    priority: int | None,
    preemptible: bool | None,
    rules: Mapping[WorkloadKind, KindRule] = KIND_RULES,
) -> KindRule:
    """Priority and preemptibility from a workload's kind, its priority class and its explicit preemptibility.

    The two are separate: work may be of high priority and preemptible, or of low priority and not. Where
    preemptibility is not given, the priority class decides it, and without a class the kind.
    """
    implied = rules[kind]
    if preemptible is None:
        preemptible = implied.preemptible if priority is None else priority < NON_PREEMPTIBLE_PRIORITY
    if priority is None:
        is_preemptible_build = kind is WorkloadKind.BUILD and preemptible
        priority = PRIORITY_CLASSES["interactive-preemptible"] if is_preemptible_build else implied.priority
    return KindRule(priority, preemptible)


def class_name(priority: int) -> str:
    """The priority class with this value; empty: none has it."""
    return _CLASS_NAMES.get(priority, "")


# --- GPU charge ----------------------------------------------------------------------------------------------


def gpus_charged_milli(
    gpu: GpuRequest,
    device_memory_mib: int = 0,
    *,
    portion_step_milli: int = 1,
    mig_slices_per_gpu: int = MIG_SLICES_PER_GPU,
) -> int:
    """GPUs that a request counts for, in thousandths, on devices of this size; 0: the size is not known, and a request
    by memory counts whole devices. Portions are rounded to the step, amounts of memory up to it."""
    match gpu.kind:
        case GpuKind.NONE:
            return 0
        case GpuKind.MIG:
            return mig_milli(gpu.mig, mig_slices_per_gpu)
        case GpuKind.MEMORY if device_memory_mib:
            return gpu.devices * memory_portion_milli(gpu.memory_mib, device_memory_mib, portion_step_milli)
        case GpuKind.PORTION:
            return gpu.devices * rounded_portion_milli(gpu, portion_step_milli)
    return gpu.devices * WHOLE_GPU_MILLI


def rounded_portion_milli(gpu: GpuRequest, step_milli: int = 1) -> int:
    """The portion of each device that a request counts for, rounded to a multiple of a step."""
    return (gpu.portion_milli + step_milli // 2) // step_milli * step_milli


def mig_slices(profile: str) -> int:
    """The number before the `g` of a profile: 3 for `nvidia.com/mig-3g.20gb`; 1 for a name without one."""
    digits = profile.rpartition("mig-")[2].split("g", 1)[0]
    return int(digits) if digits.isdigit() else 1


def mig_milli(instances: Iterable[tuple[str, int]], slices_per_gpu: int = MIG_SLICES_PER_GPU) -> int:
    """What MIG instances count for, in thousandths of a GPU: a 3g instance is three of seven slices."""
    slices = sum(mig_slices(profile) * count for profile, count in instances)
    return WHOLE_GPU_MILLI * slices // slices_per_gpu
