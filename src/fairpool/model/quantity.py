"""Integers with units: thousandths of a GPU, thousandths of a CPU core, bytes, MiB of GPU memory.

The only conversions between what users write (`0.5`, `-g 2`) and what the core counts with are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from fairpool.model.problem import Problem

WHOLE_GPU_MILLI: Final = 1000
"""One GPU, in thousandths."""

UNLIMITED: Final = -1
"""As a quota: nothing is over quota. As a limit: no cap."""

GIB: Final = 1 << 30

GPU_MAX: Final = 100_000
"""More GPUs than this in one request is a slip of the keyboard."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a pod, a group or a queue uses of the three resources that quotas are about."""

    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.gpu_milli + other.gpu_milli,
            self.cpu_milli + other.cpu_milli,
            self.memory_bytes + other.memory_bytes,
        )

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.gpu_milli - other.gpu_milli,
            self.cpu_milli - other.cpu_milli,
            self.memory_bytes - other.memory_bytes,
        )


def parse_gpus(text: str) -> int | Problem:
    """Turn the value of `-g` into thousandths of a GPU: `0.5` is 500, `2` is 2000."""
    try:
        # Decimal also reads 1_0 and the digits of every script, which are never what a user means here.
        gpus = Decimal(text.strip() if text.isascii() and "_" not in text else "")
    except InvalidOperation:
        return Problem("gpu.not_a_number", f"{text!r} is not a number of GPUs", "request e.g. 0.5, 1 or 2")
    if not gpus.is_finite() or not 0 <= gpus <= GPU_MAX:
        return Problem("gpu.out_of_range", f"{text} GPUs is out of range", f"request 0 to {GPU_MAX} GPUs")
    milli = gpus * WHOLE_GPU_MILLI
    if milli != milli.to_integral_value():
        near = max(gpus.quantize(Decimal("0.001")), Decimal("0.001")).normalize()
        return Problem(
            "gpu.too_fine",
            f"{text} GPUs has more than three decimals",
            f"request {near}, or another value with at most three decimals",
        )
    if gpus > 1 and gpus != gpus.to_integral_value():
        below = int(gpus)
        return Problem(
            "gpu.fraction_of_many",
            f"{text} GPUs is neither a fraction of one GPU nor a whole number",
            f"request {below} or {below + 1}, or a fraction of each of several devices",
        )
    return int(milli)


def gpus_text(milli: int) -> str:
    """Thousandths of a GPU as people read them: 500 is `0.5`, 2000 is `2`."""
    if milli == UNLIMITED:
        return "unlimited"
    sign = "-" if milli < 0 else ""
    whole, rest = divmod(abs(milli), WHOLE_GPU_MILLI)
    return f"{sign}{whole}" + (f".{rest:03d}".rstrip("0") if rest else "")


def portion_memory_mib(portion_milli: int, device_memory_mib: int) -> int:
    """GPU memory that a portion of a device comes to: 500 of 32 510 MiB is 16 255 MiB."""
    return portion_milli * device_memory_mib // WHOLE_GPU_MILLI


def memory_portion_milli(memory_mib: int, device_memory_mib: int, step_milli: int = 1) -> int:
    """Portion of a device that holds this much GPU memory, rounded up to a multiple of `step_milli`."""
    steps = -(-memory_mib * WHOLE_GPU_MILLI // (device_memory_mib * step_milli))
    return steps * step_milli


def length_text(seconds: int) -> str:
    """A length of time as people write it: `2h`, `1h30m`, `45s`."""
    parts = []
    rest = max(0, seconds)
    for name, unit in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        amount, rest = divmod(rest, unit)
        if amount:
            parts.append(f"{amount}{name}")
    return "".join(parts) or "0s"
