"""Usage, prices and consumption reports, as the API takes and returns them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator

from fairpool.api.limits import TENANT_ID
from fairpool.api.wire import Answer, Moment, Page, Request, ShortText

REPORTS = "/api/v1/org-unit/reports"

GROUPS = ("cluster", "department", "project", "user", "type", "nodePool", "gpuType", "node", "workload")
"""What usage can be grouped by."""


class Interval(StrEnum):
    """Parts of a period, in UTC."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


Hours = Annotated[float, Field(examples=[12.5])]


class UsageAmounts(Answer):
    """Sums over a period, in hours."""

    gpu_hours_requested: Hours = Field(default=0, description="Of pods that waited or ran")
    gpu_hours_allocated: Hours = Field(default=0, description="Of pods that held GPUs")
    gpu_hours_used: Hours | None = Field(default=None, description="As measured; absent: nothing was measured")
    gpu_hours_idle: Hours | None = Field(default=None, description="The rest of what was measured")
    gpu_hours_over_quota: Hours | None = Field(
        default=None, description="Beyond the quotas of projects; absent where it is not attributed"
    )
    gpu_hours_lost: Hours = Field(default=0, description="Of pods that were preempted, moved or lost with their node")
    cpu_core_hours: Hours = 0
    memory_gib_hours: Hours = 0
    cost: Annotated[str, Field(examples=["31.25"])] | None = Field(
        default=None, description="At the prices of the time; absent: there are none"
    )


class UsageRow(UsageAmounts):
    """Usage of one group. Only what was grouped by is named."""

    period_start: Moment | None = None
    cluster: str | None = None
    department: str | None = None
    project: Annotated[str, Field(examples=["team-a"])] | None = None
    user: str | None = None
    type: Annotated[str, Field(examples=["Training"])] | None = None
    node_pool: str | None = None
    gpu_type: str | None = None
    node: str | None = None
    workload: str | None = Field(default=None, description="Its name")
    workload_id: str | None = None


class UsageAnswer(Page):
    """Usage within a period, up to the moment of the answer."""

    start: Moment
    end: Moment
    at: Moment = Field(description="When it was summed. What has not ended is counted up to then")
    rows: list[UsageRow]
    total: UsageAmounts


class PricedResource(StrEnum):
    """What has a price for each hour."""

    GPU = "gpu"
    CPU = "cpu"
    """A core."""
    MEMORY = "memory"
    """A GiB."""


class PriceRequest(Request):
    """A price from a full hour on, until the next one."""

    resource: PricedResource
    gpu_type: ShortText = Field(default="", description="As nodes report it; empty: every type without a price")
    price: Annotated[
        str,
        StringConstraints(pattern=r"^[0-9]{1,9}(\.[0-9]{1,6})?$"),
        Field(examples=["2.50"], description="Of a GPU, a core or a GiB for one hour"),
    ]
    valid_from: Moment | None = Field(
        default=None, alias="from", description="A full hour, in UTC; default: the present one"
    )


class Price(Answer):
    """A price."""

    id: str
    resource: PricedResource
    gpu_type: str = ""
    price: Annotated[str, Field(examples=["2.5"])]
    valid_from: Annotated[str, Field(alias="from", examples=["2026-11-15T12:00:00.000Z"])]
    created_at: Moment
    created_by: str


class PriceList(Answer):
    """All prices, the latest first."""

    prices: list[Price]


class ReportGroup(StrEnum):
    """What a report has a line for."""

    NODEPOOL = "Nodepool"
    PROJECT = "Project"
    DEPARTMENT = "Department"
    CLUSTER = "Cluster"


class ReportStatus(StrEnum):
    """How far a report is."""

    PENDING = "Pending"
    PROCESSING = "Processing"
    READY = "Ready"
    FAILED = "Failed"


class ReportRequest(Request):
    """A consumption report over a period."""

    name: Annotated[ShortText, Field(min_length=1, examples=["November"])]
    description: ShortText = ""
    start: Moment
    end: Moment
    group_by: ReportGroup | None = None
    filter_by: Annotated[list[ShortText], Field(max_length=32)] = Field(
        default_factory=list, description="Conditions that must all hold", examples=[["nodepoolName==default"]]
    )

    @field_validator("filter_by")
    @classmethod
    def _without_commas(cls, said: list[str]) -> list[str]:
        if any("," in each for each in said):
            raise ValueError("one condition has a comma: list them one by one")
        return said


class Report(Answer):
    """A consumption report. Its file is CSV."""

    id: str
    tenant_id: int = TENANT_ID
    name: str
    description: str = ""
    start: Moment
    end: Moment
    group_by: ReportGroup | None = None
    filter_by: list[str] = Field(default_factory=list)
    created_at: Moment
    created_by: str
    status: ReportStatus
    status_updated_at: Moment
    status_message: str = ""


class ReportPage(Page):
    """Consumption reports."""

    reports: list[Report]


class ReportsAvailability(Answer):
    """Whether reports can be made."""

    is_available: bool
