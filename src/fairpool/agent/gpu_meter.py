"""What each real GPU did since the last sample, and what each pod had of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fairpool.agent.device_health import UNEXPLAINED_BYTES
from fairpool.agent.nvml import Gpu, GpuMeasure, Gpus, ProcessUse
from fairpool.model.ids import PodId
from fairpool.model.sample import DeviceSample, DeviceUse

FULL = 100.0
ROUNDING = 2.0
"""Percent by which the sum over processes may differ from the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Whose processes are whose."""

    owner: Callable[[int], PodId | None]
    """The pod of a process that is there, or was at the last sample."""
    is_there: Callable[[int], bool]


class GpuMeter:
    """Measures the GPUs of this machine, and remembers since when."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._since: dict[str, int] = {}

    def measure(self, gpus: Sequence[Gpu]) -> dict[str, GpuMeasure | None]:
        """Each device that works, by its UUID; None: it does not respond. Utilization is None in its first sample."""
        found: dict[str, GpuMeasure | None] = {}
        for gpu in gpus:
            is_first = gpu.uuid not in self._since
            measure = None if gpu.error else self._gpus.measure(gpu.uuid, self._since.get(gpu.uuid, 0))
            if measure is not None:
                self._since[gpu.uuid] = measure.until
            found[gpu.uuid] = _without_utilization(measure) if is_first and measure is not None else measure
        return found


def device_sample(gpu: Gpu, measure: GpuMeasure | None) -> DeviceSample:
    """A device as a whole."""
    if measure is None:
        return DeviceSample(index=gpu.index)
    return DeviceSample(
        index=gpu.index,
        utilization=measure.utilization,
        memory_bytes=measure.memory_bytes,
        power_watts=measure.power_watts,
        temperature_celsius=measure.temperature_celsius,
        clock_mhz=measure.clock_mhz,
        errors=measure.errors,
    )


def device_uses(
    gpu: Gpu,
    measure: GpuMeasure | None,
    holders: Sequence[PodId],
    attribution: Attribution,
    *,
    held_before: Sequence[PodId],
) -> dict[PodId, DeviceUse]:
    """What each pod had of a device: those that hold it, and others whose processes were there all the same.
    `held_before`: who held it at the last sample."""
    if measure is None:
        return {pod: DeviceUse(index=gpu.index) for pod in holders}
    only = holders[0] if len(holders) == 1 and list(held_before) == list(holders) else None
    by_pod: dict[PodId, list[ProcessUse]] = {pod: [] for pod in holders}
    for pid, use in _scaled(measure).items():
        owner = attribution.owner(pid)
        if owner is None and not attribution.is_there(pid):
            owner = only  # it came and went between two samples, and only this pod could have started it
        if owner is not None:
            by_pod.setdefault(owner, []).append(use)
    if not _is_explained(measure):  # the driver may not list the processes of a pod, as in a container
        return {pod: _use(gpu, uses, None) if uses else DeviceUse(index=gpu.index) for pod, uses in by_pod.items()}
    if only is not None and all(attribution.owner(pid) == only for pid in measure.computing):
        # The driver forgets processes that have ended, the figure of the device does not.
        return {pod: _use(gpu, uses, measure.utilization) for pod, uses in by_pod.items()}
    return {pod: _use(gpu, uses, _of_processes(uses, measure)) for pod, uses in by_pod.items()}


def _use(gpu: Gpu, uses: Sequence[ProcessUse], utilization: float | None) -> DeviceUse:
    memory = [use.memory_bytes for use in uses if use.memory_bytes is not None]
    is_known = len(memory) == len(uses)
    return DeviceUse(index=gpu.index, utilization=utilization, memory_bytes=sum(memory) if is_known else None)


def _of_processes(uses: Sequence[ProcessUse], measure: GpuMeasure) -> float | None:
    """By what the driver says of processes. It is unknown for a pod that has some and the driver has left them all out;
    and for one that has none, unless others account for all that was computed."""
    known = [use.utilization for use in uses if use.utilization is not None]
    if known:
        return min(sum(known), FULL)
    together = sum(use.utilization or 0 for use in measure.processes.values())
    is_others = not uses and measure.utilization is not None and measure.utilization - together <= ROUNDING
    return 0.0 if is_others else None


def _scaled(measure: GpuMeasure) -> Mapping[int, ProcessUse]:
    """The processes, together with no more than the device: the driver's figure of a short-lived one is the mean of the
    moments in which it was seen, not of the whole time."""
    together = sum(use.utilization or 0 for use in measure.processes.values())
    if measure.utilization is None or together <= measure.utilization:
        return measure.processes
    factor = measure.utilization / together
    return {
        pid: use if use.utilization is None else replace(use, utilization=use.utilization * factor)
        for pid, use in measure.processes.items()
    }


def _is_explained(measure: GpuMeasure) -> bool:
    """Whether the listed processes account for the memory in use."""
    listed = sum(use.memory_bytes or 0 for use in measure.processes.values())
    return measure.memory_bytes is None or measure.memory_bytes - listed < UNEXPLAINED_BYTES


def _without_utilization(measure: GpuMeasure) -> GpuMeasure:
    processes = {pid: ProcessUse(memory_bytes=use.memory_bytes) for pid, use in measure.processes.items()}
    return replace(measure, utilization=None, processes=processes)
