"""GPUs, CPU and memory that a submit requests, from the forms in which they can be written. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from types import MappingProxyType

from fairpool.api import pod_spec
from fairpool.api.problems import ProblemItem, problem_item
from fairpool.model.precedence import gpus_charged_milli
from fairpool.model.problem import Problem
from fairpool.model.quantity import WHOLE_GPU_MILLI, parse_gpus
from fairpool.model.spec import (
    WorkloadSpec,
)
from fairpool.model.workload import (
    NO_GPU,
    GpuRequest,
    gpu_memory,
    gpu_portion,
    whole_gpus,
)

MIB = 1024 * 1024

GPU_MEMORY_MIN_BYTES = 100_000_000

DEFAULT_MEMORY_PER_GPU = 100 * MIB

DEFAULT_CPU_PER_GPU_MILLI = 1000

SUFFIXES: Mapping[str, int] = MappingProxyType(
    {
        "": 1,
        **{letter: 1000**power for power, letter in enumerate("kMGTP", start=1)},
        "K": 1000,
        **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", start=1)},
        "ki": 1024,
    }
)

QUANTITY = re.compile(pod_spec.QUANTITY_PATTERN)

MIG_PROFILE = re.compile(r"[1-7]g\.[0-9]{1,3}gb(\+me)?")


def gpu_request(compute: pod_spec.Compute, problems: list[ProblemItem], place: str = "spec.compute") -> GpuRequest:
    """The requested GPUs, from whichever field has them; none if they are not valid, with a problem added."""
    ways = {
        "gpu": compute.gpu,
        "gpuPortionRequest": compute.gpu_portion_request,
        "gpuMemoryRequest": compute.gpu_memory_request,
        "migProfile": compute.mig_profile,
    }
    used = [name for name, value in ways.items() if value is not None]
    if len(used) > 1 or ("gpu" in used and compute.gpu_devices_request is not None):
        other = used[1] if len(used) > 1 else "gpuDevicesRequest"
        what = f"unexpected to accept both {used[0]} and {other}"
        problem = Problem("gpu.several_ways", what, "please use only one of them")
        problems.append(problem_item(problem, place))
        return NO_GPU
    found = _gpu_request(compute)
    if isinstance(found, Problem):
        problems.append(problem_item(found, f"{place}.{used[0] if used else 'gpuDevicesRequest'}"))
        return NO_GPU
    return found


def _gpu_request(compute: pod_spec.Compute) -> GpuRequest | Problem:
    devices = compute.gpu_devices_request
    if compute.mig_profile is not None:
        if not MIG_PROFILE.fullmatch(compute.mig_profile):
            fix = "use 1g.5gb, 2g.10gb, 3g.20gb, 4g.20gb or 7g.40gb"
            return Problem("gpu.mig_profile", f"unsupported mig device: {compute.mig_profile}", fix)
        return GpuRequest(mig=((f"nvidia.com/mig-{compute.mig_profile}", or_else(devices, 1)),))
    if compute.gpu_memory_request is not None:
        size = bytes_of(compute.gpu_memory_request)
        if size is None or size < GPU_MEMORY_MIN_BYTES:
            return Problem("gpu.memory_too_small", "gpu memory must be greater than 100Mb", "request more, e.g. 4G")
        return gpu_memory(-(-size // MIB), or_else(devices, 1))
    if compute.gpu_portion_request is not None:
        milli = parse_gpus(gpu_text(compute.gpu_portion_request))
        if isinstance(milli, Problem):
            return milli
        if not 0 < milli <= WHOLE_GPU_MILLI:
            what = f"{compute.gpu_portion_request} is not a valid GPU fraction"
            return Problem("gpu.portion", what, "use a value above 0 and up to 1 for each device")
        return gpu_portion(milli, or_else(devices, 1))
    if compute.gpu is None:
        return whole_gpus(devices) if devices else NO_GPU
    milli = parse_gpus(gpu_text(compute.gpu))
    if isinstance(milli, Problem):
        return milli
    if milli == 0:
        return NO_GPU
    return gpu_portion(milli) if milli < WHOLE_GPU_MILLI else whole_gpus(milli // WHOLE_GPU_MILLI)


def gpu_text(amount: int | float | str) -> str:
    """An amount of GPUs as text."""
    return amount if isinstance(amount, str) else repr(amount)


def requested_gpus_milli(spec: WorkloadSpec, device_memory_mib: int = 0) -> int:
    """GPUs of all pods together; a request by memory counts whole devices if their size is not known."""
    shapes = [spec.template_of(index).shape for index in range(min(spec.pods, 2))]
    charged = [gpus_charged_milli(shape.gpu, device_memory_mib) for shape in shapes]
    return sum(charged) + max(spec.pods - 2, 0) * (charged[-1] if charged else 0)


def quota_milli(amount: int | float) -> int | Problem:
    """A quota of GPUs in thousandths; -1 stays -1. Unlike a request, a quota may be 2.5."""
    if amount == -1:
        return -1
    try:
        milli = Decimal(gpu_text(amount)) * WHOLE_GPU_MILLI
    except InvalidOperation:
        return Problem(
            "gpu.not_a_number", f"{amount} is not a number of GPUs", "use e.g. 4 or 2.5, or -1 for unlimited"
        )
    if milli < 0 or milli != milli.to_integral_value():
        fix = "use 0 or more with at most three decimals, or -1 for unlimited"
        return Problem("gpu.quota", f"{amount} is not a valid GPU quota", fix)
    return int(milli)


def cpu_milli_of(compute: pod_spec.Compute, gpu: GpuRequest) -> int:
    if compute.cpu_core_request is not None:
        return cores_milli(compute.cpu_core_request)
    return gpus_charged_milli(gpu) * DEFAULT_CPU_PER_GPU_MILLI // WHOLE_GPU_MILLI


def cores_milli(cores: int | float) -> int:
    return int((Decimal(repr(cores)) * 1000).to_integral_value(ROUND_CEILING))


def memory_bytes_of(compute: pod_spec.Compute, gpu: GpuRequest) -> int:
    if compute.cpu_memory_request is not None:
        return bytes_of(compute.cpu_memory_request) or 0
    return gpus_charged_milli(gpu) * DEFAULT_MEMORY_PER_GPU // WHOLE_GPU_MILLI


def bytes_of(text: str) -> int | None:
    """`4Gi`, `500M`: bytes, rounded up; None: not a quantity."""
    match = QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, suffix = match[1], match[2] or ""
    factor = Decimal("0.001") if suffix == "m" else Decimal(SUFFIXES[suffix])
    return int((Decimal(number) * factor).to_integral_value(ROUND_CEILING))


def or_else(value: int | None, default: int) -> int:
    return default if value is None else value
