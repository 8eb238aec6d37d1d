"""What every list can be asked for: which page of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from fairpool.api.wire import PAGE_MAX

Offset = Annotated[int, Query(ge=0, le=2**31, description="How many to leave out")]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="How many at most")]
