"""Entries of the audit log, as the API returns them."""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    ConfigDict,
    Field,
)

from fairpool.api.wire import Answer, Moment, Page


class AuditEntry(Answer):
    """An audit log entry: who did what, and the result."""

    model_config = ConfigDict(alias_generator=None)

    id: int
    timestamp: Moment
    subject: str
    subject_type: str
    source_ip: str = ""
    action: Annotated[str, Field(examples=["create"])]
    http_method: str
    url: str
    entity_type: str
    entity_name: str = ""
    entity_id: str = ""
    result: Annotated[str, Field(examples=["Succeeded"])]


class AuditPage(Page):
    """Audit entries, newest first."""

    entries: list[AuditEntry]
