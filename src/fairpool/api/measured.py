"""What was last measured of workloads, pods, nodes and devices; what was not, within the last minute, is absent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fairpool.api.wire import Answer, Moment

Percent = Annotated[float, Field(examples=[42.5])]
SampledAt = Annotated[Moment, Field(description="When the 10 seconds began in which it was measured")]


class MeasuredWork(Answer):
    """A workload or pod."""

    at: SampledAt
    gpu_utilization: Annotated[Percent, Field(description="Average of its GPUs")] | None = None
    gpu_memory_bytes: int | None = None
    gpu_memory_allocated_bytes: Annotated[int, Field(description="Its parts of the memory of its GPUs")] | None = None
    cpu_cores: float | None = None
    memory_bytes: int | None = None
    received_bytes_s: float | None = None
    sent_bytes_s: float | None = None
    read_bytes_s: Annotated[float, Field(description="From disks")] | None = None
    written_bytes_s: float | None = None
    progress_percent: Annotated[Percent, Field(description="As its job reports it")] | None = None
    simulated: Annotated[
        bool, Field(description="Its GPUs are simulated: utilization and GPU memory follow its CPU and memory")
    ] = False


class MeasuredShare(Answer):
    """What a pod has of a device."""

    index: int
    utilization: Percent | None = None
    memory_bytes: int | None = None


class MeasuredPod(MeasuredWork):
    """A pod that runs, with its devices."""

    id: str
    name: Annotated[str, Field(examples=["train-1-0-0"])]
    node: str | None = None
    devices: list[MeasuredShare]


class MeasuredWorkload(Answer):
    """A workload with its pods."""

    as_of: Annotated[Moment, Field(description="When this was read")]
    workload_id: str
    total: Annotated[MeasuredWork, Field(description="Absent: nothing was measured within the last minute")] | None = (
        None
    )
    pods: list[MeasuredPod]


class MeasuredDevice(Answer):
    """A GPU of a node."""

    index: int
    utilization: Percent | None = None
    memory_bytes: int | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    clock_mhz: float | None = None
    idle_seconds: Annotated[int, Field(description="For how long it has done nothing")] | None = None
    errors: Annotated[int, Field(description="Uncorrected memory errors since the driver was loaded")] | None = None


class MeasuredNode(Answer):
    """A node."""

    at: SampledAt
    gpu_utilization: Annotated[Percent, Field(description="Average of its GPUs")] | None = None
    gpu_memory_bytes: int | None = None
    cpu_cores: float | None = None
    memory_bytes: int | None = None
    received_bytes_s: float | None = None
    sent_bytes_s: float | None = None
    read_bytes_s: float | None = None
    written_bytes_s: float | None = None
    devices: Annotated[list[MeasuredDevice], Field(description="If they were asked for")] | None = None
