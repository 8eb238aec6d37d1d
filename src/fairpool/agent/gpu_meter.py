"""What each real GPU did since the last sample, and what each pod had of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fairpool.agent.device_health import UNEXPLAINED_BYTES
from fairpool.agent.nvml import Gpu, GpuMeasure, Gpus, ProcessUse
from fairpool.model.ids import PodId
from fairpool.model.sample import DeviceSample, DeviceUse

FULL = 100.0


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
            since = self._since.get(gpu.uuid, 0)
            measure = None if gpu.error else self._gpus.measure(gpu.uuid, since)
            if measure is not None:
                self._since[gpu.uuid] = measure.until
            found[gpu.uuid] = measure if since or measure is None else _without_utilization(measure)
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
    gpu: Gpu, measure: GpuMeasure | None, holders: Sequence[PodId], attribution: Attribution
) -> dict[PodId, DeviceUse]:
    """What each pod had of a device: those that hold it, and others whose processes were there all the same."""
    if measure is None:
        return {pod: DeviceUse(index=gpu.index) for pod in holders}
    by_pod: dict[PodId, list[ProcessUse]] = {pod: [] for pod in holders}
    for pid, use in measure.processes.items():
        owner = attribution.owner(pid)
        if owner is None and len(holders) == 1 and not attribution.is_there(pid):
            owner = holders[0]  # it came and went between two samples, and one pod alone could have started it
        if owner is not None:
            by_pod.setdefault(owner, []).append(use)
    is_visible = _is_explained(measure)
    return {
        pod: _use(gpu, uses, is_visible=is_visible, alone=_alone(pod, measure, holders, attribution))
        for pod, uses in by_pod.items()
    }


def _use(gpu: Gpu, uses: Sequence[ProcessUse], *, is_visible: bool, alone: float | None) -> DeviceUse:
    """`alone`: the utilization of the device, where nothing else computes on it."""
    if not uses and not is_visible:  # the driver may list none of its processes, as in a container
        return DeviceUse(index=gpu.index)
    utilizations = [use.utilization for use in uses]
    known = [value for value in utilizations if value is not None]
    utilization = min(sum(known), FULL) if len(known) == len(utilizations) else alone
    memory = [use.memory_bytes for use in uses if use.memory_bytes is not None]
    return DeviceUse(
        index=gpu.index,
        utilization=utilization,
        memory_bytes=sum(memory) if len(memory) == len(uses) else None,
    )


def _alone(pod: PodId, measure: GpuMeasure, holders: Sequence[PodId], attribution: Attribution) -> float | None:
    is_alone = list(holders) == [pod] and all(attribution.owner(pid) == pod for pid in measure.computing)
    return measure.utilization if is_alone else None


def _is_explained(measure: GpuMeasure) -> bool:
    """Whether the listed processes account for the memory in use."""
    listed = sum(use.memory_bytes or 0 for use in measure.processes.values())
    return measure.memory_bytes is None or measure.memory_bytes - listed < UNEXPLAINED_BYTES


def _without_utilization(measure: GpuMeasure) -> GpuMeasure:
    processes = {pid: ProcessUse(memory_bytes=use.memory_bytes) for pid, use in measure.processes.items()}
    return replace(measure, utilization=None, processes=processes)
