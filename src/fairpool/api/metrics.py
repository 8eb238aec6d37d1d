"""Metrics (series over a time) and telemetry (values now), as answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fairpool.api.problems import ProblemItem
from fairpool.api.wire import Answer, Moment

SAMPLES_DEFAULT, SAMPLES_MAX = 20, 1000
TYPES_MAX = 64

Amount = Annotated[str, Field(description="A number", examples=["42.5"])]


class MeasuredValue(Answer):
    """One point of a series."""

    value: Amount
    timestamp: Annotated[Moment, Field(description="When the time begins that the value is the average of")]


class MeasuredGroup(Answer):
    """What the series is about, where there are several."""

    key: Annotated[str, Field(examples=["Nodepool"])]
    value: Annotated[str, Field(examples=["default"])]


class Measurement(Answer):
    """A series. What was not measured has no point."""

    type: Annotated[str, Field(examples=["GPU_UTILIZATION"])]
    labels: Annotated[dict[str, str], Field(examples=[{"gpu": "0"}])] | None = None
    groups: list[MeasuredGroup] | None = None
    values: list[MeasuredValue]


class Metrics(Answer):
    """Series, all read at one moment."""

    timestamp: Annotated[Moment, Field(description="When they were read")]
    point_seconds: Annotated[int, Field(description="The time that one point is the average of")]
    measurements: list[Measurement]
    problems: Annotated[list[ProblemItem], Field(description="With status 207: why values may be missing")] | None = (
        None
    )


class TelemetryGroup(Answer):
    """What a value is about, where there are several."""

    key: Annotated[str, Field(examples=["ProjectId"])]
    value: Annotated[str, Field(examples=["team-a"])]
    name: str | None = None


class TelemetryValue(Answer):
    """A value now."""

    value: Amount
    groups: list[TelemetryGroup] | None = None


class Telemetry(Answer):
    """Values now, all read at one moment."""

    type: Annotated[str, Field(examples=["ALLOCATED_GPUS"])]
    timestamp: Annotated[Moment, Field(description="When they were read")]
    values: list[TelemetryValue]


# --- in older words ----------------------------------------------------------------------------------------------


class OlderResource(Answer):
    """Quota, allocation and utilization of one resource: GPUs, cores, or bytes of memory."""

    quota: Annotated[float, Field(description="-1: unlimited")]
    allocated: float
    utilization: Annotated[float, Field(description="Between 0 and 1; absent: not measured")] | None = None


class OlderFigures(Answer):
    """Figures of a cluster, project or department."""

    number_of_pending_workloads: int
    gpu: OlderResource
    cpu: OlderResource
    memory: OlderResource
    nodepool_name: str | None = None
    project_name: str | None = None
    department_name: str | None = None
    timestamp: Moment | None = None


class OlderCurrent(Answer):
    """Figures now."""

    resources: Annotated[list[OlderFigures], Field(description="By node pool")]
    project_resources: Annotated[list[OlderFigures], Field(description="By project and node pool")] | None = None


class OlderTimeRange(Answer):
    """Figures over a time."""

    resources: list[OlderFigures]


class OlderMetadata(Answer):
    """What the figures are about."""

    cluster_id: str
    cluster_name: str
    project_id: int | None = None
    project_name: str | None = None
    department_id: int | None = None
    department_name: str | None = None


class OlderMetrics(Answer):
    """Figures of a cluster, project or department."""

    timestamp: Annotated[Moment, Field(description="When they were read")]
    metadata: OlderMetadata
    current: OlderCurrent
    time_range: OlderTimeRange | None = None
    problems: Annotated[list[ProblemItem], Field(description="With status 207: why values are missing")] | None = None


class OlderMetricsList(Answer):
    """Figures of several projects or departments."""

    data: list[OlderMetrics]
