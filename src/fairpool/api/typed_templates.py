"""Workload templates of one kind, in the form of the original: `/api/v1/workload-templates`.

They are the templates of `assets.py`: what is created here can be used and read there.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool, model_validator

from fairpool.api import workload_spec
from fairpool.api.assets import AssetName, AssetScope, ComplianceReason, ProjectReference
from fairpool.api.older_form import OlderForm
from fairpool.api.wire import Answer, LongText, Moment, Request, ShortText

WORKLOAD_TEMPLATES = "/api/v1/workload-templates"
CLEARED_MAX = 128
_EXAMPLE: dict[str, Any] = {
    "meta": {"name": "notebooks", "scopeType": "project", "scopeId": "team-a"},
    "spec": {"image": "python", "compute": {"gpuDevicesRequest": 1}},
}


def without_nulls(given: Any) -> Any:
    """A body without null: it says nothing in a template."""
    if isinstance(given, dict):
        return {key: without_nulls(value) for key, value in given.items() if value is not None}
    return [without_nulls(each) for each in given if each is not None] if isinstance(given, list) else given


class NamedTemplateMeta(Request):
    """Name and description of a template."""

    name: AssetName
    description: LongText = ""


class NewTemplateMeta(NamedTemplateMeta):
    """Name and scope of a template."""

    scope_type: AssetScope
    scope_id: ProjectReference | None = Field(default=None, description="Of the project, department or cluster")


class PatchedTemplateMeta(NamedTemplateMeta):
    """What changes of a template."""

    name: AssetName | None = None  # type: ignore[assignment]


class MasterSection(OlderForm):
    """The master of a distributed workload, where it differs."""

    spec: dict[str, Any] = Field(default_factory=dict)


class TemplateBody(Request):
    """The values of a template: those of a submit of its kind."""

    spec: dict[str, Any] = Field(default_factory=dict)
    master_spec_same_as_worker: StrictBool | None = Field(default=None, description="Of a distributed workload")
    master: MasterSection | None = Field(default=None, description="Of a distributed workload")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        return without_nulls(given)

    def values(self) -> dict[str, Any]:
        """As a specification of ours has them."""
        own = {"masterSpec": self.master.spec} if self.master is not None and self.master.spec else {}
        alike = {"masterSpecSameAsWorker": False} if self.master_spec_same_as_worker is False and not own else {}
        return {**self.spec, **own, **alike}


class NewTypedTemplate(TemplateBody):
    """A template for one kind of workloads."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})
    meta: NewTemplateMeta


class TypedTemplateReplacement(TemplateBody):
    """All values of a template."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_EXAMPLE, "meta": {"name": "notebooks"}}]})
    meta: NamedTemplateMeta


class TypedTemplatePatch(TemplateBody):
    """Values of a template that change."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"spec": {"image": "python:3"}}]})
    meta: PatchedTemplateMeta = Field(default_factory=PatchedTemplateMeta)
    fields_to_clear: Annotated[list[ShortText], Field(max_length=CLEARED_MAX)] = Field(
        default_factory=list, description="Fields of `spec` that lose their value, e.g. compute.gpuDevicesRequest"
    )


class TypedTemplateMeta(Answer):
    """Name and scope of a template, as stored."""

    id: str
    name: str
    description: str | None = None
    workload_type: workload_spec.Kind
    scope_type: AssetScope
    scope_id: str
    cluster_id: str | None = None
    department_id: str | None = None
    project_id: int | None = None
    project_name: str | None = None
    created_by: str
    created_at: Moment
    updated_by: str
    updated_at: Moment


class MasterAnswer(Answer):
    """The master of a distributed workload."""

    spec: dict[str, Any]


class TypedTemplate(Answer):
    """A template, as stored."""

    meta: TypedTemplateMeta
    spec: dict[str, Any]
    master_spec_same_as_worker: bool | None = None
    master: MasterAnswer | None = None
    combined_spec: dict[str, Any] | None = Field(default=None, description="With the values of the assets it names")
    compliance_issues: list[ComplianceReason] | None = Field(default=None, description="With `complyToProject`")
    revision: int


class Pagination(Answer):
    """Which part of a list it is."""

    limit: int
    offset: int
    next_offset: int | None = None


class TypedTemplatePage(Answer):
    """Templates, by name."""

    entries: list[TypedTemplate]
    pagination: Pagination


class NameAvailability(Answer):
    """Whether a name is free in a scope."""

    available: bool
