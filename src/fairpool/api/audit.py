"""Entries of the audit log, as the API returns them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    ConfigDict,
    Field,
)

from fairpool.api.limits import TENANT_ID
from fairpool.api.wire import Answer, Moment, Page


class AuditChange(Answer):
    """One object that a request created, changed or deleted, without secrets and values of environment variables."""

    model_config = ConfigDict(alias_generator=None)

    kind: Annotated[str, Field(examples=["projects"])]
    id: Annotated[str, Field(examples=["team-a"])]
    before: dict[str, Any] | None = Field(
        default=None, description="Of an update, the changed fields only", examples=[{"document.description": "old"}]
    )
    after: dict[str, Any] | None = None
    fields: list[str] | None = Field(default=None, description="In place of values that are too long to keep")


class AuditEntry(Answer):
    """An audit log entry: who did what, from where, what it changed, and the result."""

    model_config = ConfigDict(alias_generator=None)

    id: Annotated[str, Field(examples=["7"])]
    timestamp: Moment
    tenant_id: str = str(TENANT_ID)
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
    http_status_code: int | None = Field(default=None, examples=[201])
    request_id: str = Field(default="", description="As in the header X-Request-Id of the answer")
    metadata: dict[str, str] = Field(default_factory=dict, description="Of a refusal: the code of its problem")
    changes: list[AuditChange] = Field(default_factory=list)
    hash: str = Field(default="", description="Covers this entry and the hash of the one before it; empty: older")


class AuditPage(Page):
    """Audit entries, newest first unless sorted otherwise. The list has two names, with the same entries."""

    entries: list[AuditEntry]
    audit_logs: list[AuditEntry] = Field(alias="audit_logs")
    total: int | None = None


class AuditHead(Answer):
    """One entry of the hash chain."""

    id: int
    hash: str


class AuditVerification(Answer):
    """Whether the audit log is as it was written."""

    is_intact: bool
    checked: int = Field(description="Entries whose hash was computed again")
    first_broken: int | None = Field(default=None, description="The first entry that is missing or was changed")
    why: str = ""
    head: AuditHead = Field(description="The last entry. Keep it elsewhere: it proves all entries up to this one")
    anchor: AuditHead = Field(description="The last entry that retention deleted, or that is older than the chain")
