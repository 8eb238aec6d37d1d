"""Assets: what an administrator prepares for submits. So far workload templates, each with its scope."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool, StringConstraints

from fairpool.api.limits import TEMPLATE_NAME_PATTERN
from fairpool.api.wire import Answer, LongText, Moment, Page, Request, ShortText
from fairpool.api.workload_spec import DistributedSpec, InferenceSpec, TrainingSpec

FIELDS_MAX = 128

TemplateName = Annotated[str, StringConstraints(pattern=TEMPLATE_NAME_PATTERN), Field(examples=["batch_ops"])]
FieldPath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9]+(\.[A-Za-z0-9]+)?$", max_length=128), Field(examples=["compute.gpu"])
]


class AssetScope(StrEnum):
    """For which projects an asset is."""

    TENANT = "tenant"
    CLUSTER = "cluster"
    DEPARTMENT = "department"
    PROJECT = "project"


class SupportedTypes(Request):
    """Kinds of workloads."""

    workspace: StrictBool = False
    training: StrictBool = False
    distributed: StrictBool = False
    inference: StrictBool = False


class AssetMeta(Request):
    """Name and scope of an asset."""

    name: TemplateName
    scope: AssetScope
    cluster_id: ShortText | None = Field(default=None, description="For the scope cluster: its id or name")
    department_id: ShortText | None = Field(default=None, description="For the scope department")
    project_id: ShortText | None = Field(default=None, description="For the scope project")
    description: LongText = ""
    workload_supported_types: SupportedTypes | None = Field(
        default=None, description="Default: every kind that has all fields of the template"
    )


class TemplateSpec(TrainingSpec, DistributedSpec, InferenceSpec):
    """Values for submits: any field of any kind of workload, and no more than are given."""


_EXAMPLE: dict[str, Any] = {
    "meta": {"name": "batch_ops", "scope": "project", "projectId": "team-a", "description": "Nightly batches"},
    "spec": {"image": "quickstart", "compute": {"gpu": "0.5"}},
    "required": ["args"],
}


class TemplateRequest(Request):
    """A workload template."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    meta: AssetMeta
    spec: TemplateSpec = Field(default_factory=TemplateSpec)
    administrative: StrictBool = Field(
        default=False, description="Applied to every submit in its scope; at most one for each scope"
    )
    required: Annotated[list[FieldPath], Field(max_length=FIELDS_MAX)] = Field(
        default_factory=list, description="Fields of `spec` that a submit must have a value for in the end"
    )
    locked: Annotated[list[FieldPath], Field(max_length=FIELDS_MAX)] = Field(
        default_factory=list,
        description="Fields of `spec` that a submit cannot set to another value; only of administrative templates",
    )


class AssetAnswer(Answer):
    """Name and scope of an asset, as stored."""

    name: str
    scope: AssetScope
    cluster_id: str | None = None
    department_id: str | None = None
    project_id: str | None = None
    description: str = ""
    workload_supported_types: SupportedTypes

    @property
    def scope_id(self) -> str:
        return self.project_id or self.department_id or self.cluster_id or ""


class Template(Answer):
    """A workload template, as stored."""

    id: str
    kind: str = "workload-template"
    meta: AssetAnswer
    spec: dict[str, Any]
    administrative: bool
    required: list[str]
    locked: list[str]
    created_by: str
    created_at: Moment
    updated_at: Moment
    revision: int


class TemplatePage(Page):
    """Workload templates, by name."""

    entries: list[Template]
