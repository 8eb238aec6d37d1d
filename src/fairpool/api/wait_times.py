"""Waits over time: how long workloads waited before they started, and for what."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from fairpool.api.wire import Answer, Moment

MEDIAN = "Seconds that half of the waits did not exceed; absent: no wait ended"
P95 = "The same for 95 of 100 waits"


class WaitGroup(StrEnum):
    """What waits can be grouped by."""

    CAUSE = "cause"
    PROJECT = "project"
    DEPARTMENT = "department"
    CLUSTER = "cluster"
    TYPE = "type"
    USER = "user"


class WaitPart(Answer):
    """Waits that ended in a part of a time."""

    start: Moment
    waits: Annotated[int, Field(description="How many ended")]
    median_s: Annotated[float | None, Field(alias="medianSeconds", description=MEDIAN)] = None
    p95_s: Annotated[float | None, Field(alias="p95Seconds", description=P95)] = None


class WaitSeries(Answer):
    """Waits of one group, over a time."""

    key: Annotated[str, Field(description="The cause, project, …; a cause is empty if work started in the first cycle")]
    waits: Annotated[int, Field(description="How many ended in the whole time")]
    median_s: Annotated[float | None, Field(alias="medianSeconds", description=MEDIAN)] = None
    p95_s: Annotated[float | None, Field(alias="p95Seconds", description=P95)] = None
    parts: list[WaitPart]


class WaitTimes(Answer):
    """How long workloads waited before they started."""

    as_of: Annotated[Moment, Field(description="When this was read; all of it is from one read")]
    seconds: Annotated[float, Field(description="How long a part is")]
    is_complete: Annotated[bool, Field(description="False: there were more waits, and only the latest are counted")]
    all: WaitSeries
    series: Annotated[list[WaitSeries], Field(description="By what was asked for; only groups with waits")]
