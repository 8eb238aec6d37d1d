"""Assets: what an administrator prepares for submits, each with its scope. Workload templates, environments, compute
resources and data sources."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, StrictBool, StrictInt, StringConstraints, create_model

from fairpool.api.asset_specs import EnvironmentSpec, SecretAsset
from fairpool.api.limits import TEMPLATE_NAME_PATTERN
from fairpool.api.older_form import OlderForm
from fairpool.api.pod_spec import Compute, GitSource, HostPath, NamedVolume, Nfs, Pvc, S3Source
from fairpool.api.wire import Answer, LongText, Moment, Page, Request, ShortText
from fairpool.api.workload_spec import DistributedFramework, DistributedSpec, InferenceSpec, TrainingSpec

FIELDS_MAX = 128

AssetName = Annotated[str, StringConstraints(pattern=TEMPLATE_NAME_PATTERN), Field(examples=["batch_ops"])]
FieldPath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9]+(\.[A-Za-z0-9]+)?$", max_length=128), Field(examples=["compute.gpu"])
]


class AssetScope(StrEnum):
    """For which projects an asset is."""

    TENANT = "tenant"
    CLUSTER = "cluster"
    DEPARTMENT = "department"
    PROJECT = "project"


class SupportedTypes(OlderForm):
    """Kinds of workloads."""

    workspace: StrictBool = False
    training: StrictBool = False
    distributed: StrictBool = False
    inference: StrictBool = False
    dist_framework: DistributedFramework | None = Field(
        default=None, description="Distributed workloads of this framework only"
    )


ProjectReference = Annotated[ShortText | StrictInt, Field(description="A project, by its name or its number")]


class AssetMeta(OlderForm):
    """Name and scope of an asset."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = {"autoDelete": False, "private": False}

    name: AssetName
    scope: AssetScope
    cluster_id: ShortText | None = Field(default=None, description="For the scope cluster: its id or name")
    department_id: ShortText | None = Field(default=None, description="For the scope department")
    project_id: ProjectReference | None = Field(default=None, description="For the scope project")
    description: LongText = ""
    workload_supported_types: SupportedTypes | None = Field(
        default=None, description="Default: every kind of workload that has all its fields"
    )


class AssetChange(AssetMeta):
    """Name and description of an asset that is replaced. Its scope stays; it can be left out."""

    scope: AssetScope | None = None  # type: ignore[assignment]


class AssetRequest(Request):
    """An asset of any kind: a name, a scope, and values."""

    meta: AssetMeta
    spec: Any


class TemplateSpec(TrainingSpec, DistributedSpec, InferenceSpec):
    """Values for submits: any field of any kind of workload, and no more than are given."""

    @classmethod
    def own_form(cls, given: dict[str, Any]) -> dict[str, Any]:
        """`specificEnv` is what the original has beside the assets of a template; it is the rest of ours."""
        beside = given.get("specificEnv")
        if not isinstance(beside, Mapping):
            return super().own_form(given)
        said = {key: value for key, value in beside.items() if value is not None}
        user = {key: said.pop(key) for key in ("runAsUid", "runAsGid", "supplementalGroups") if key in said}
        rest = {key: value for key, value in given.items() if key != "specificEnv"}
        return super().own_form({**said, **({"security": user} if user else {}), **rest})


_EXAMPLE: dict[str, Any] = {
    "meta": {"name": "batch_ops", "scope": "project", "projectId": "team-a", "description": "Nightly batches"},
    "spec": {"image": "quickstart", "compute": {"gpu": "0.5"}},
    "required": ["args"],
}


class TemplateRequest(AssetRequest):
    """A workload template."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

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


def _example(**spec: Any) -> ConfigDict:
    said: Any = {"meta": {"name": "shared", "scope": "tenant"}, "spec": spec}
    return ConfigDict(json_schema_extra={"examples": [said]})


class EnvironmentRequest(AssetRequest):
    """An environment."""

    model_config = _example(image="python", environmentVariables=[{"name": "EPOCHS", "value": "3"}])
    spec: EnvironmentSpec


class ComputeRequest(AssetRequest):
    """A compute resource."""

    model_config = _example(gpuDevicesRequest=1, gpuRequestType="portion", gpuPortionRequest=0.5)
    spec: Compute


class PvcRequest(AssetRequest):
    """A data source: a volume claim."""

    model_config = _example(claimName="data", path="/data")
    spec: Pvc


class NfsRequest(AssetRequest):
    """A data source: an NFS folder."""

    model_config = _example(server="files.example.com", path="/export", mountPath="/data")
    spec: Nfs


class GitRequest(AssetRequest):
    """A data source: a Git repository."""

    model_config = _example(repository="https://git.example.com/train.git", branch="main", path="/code")
    spec: GitSource


class S3Request(AssetRequest):
    """A data source: an S3 bucket."""

    model_config = _example(bucket="images", path="/data", url="https://s3.example.com")
    spec: S3Source


class HostPathRequest(AssetRequest):
    """A data source: a folder on the node."""

    model_config = _example(path="/raid/data", mountPath="/data", readOnly=True)
    spec: HostPath


class ConfigMapRequest(AssetRequest):
    """A data source: a config map."""

    model_config = _example(name="settings", mountPath="/etc/settings")
    spec: NamedVolume


class SecretRequest(AssetRequest):
    """A data source: a credential, as files."""

    model_config = _example(name="certificates", mountPath="/etc/certificates")
    spec: SecretAsset


def change_of(request: type[Request]) -> type[Any]:
    """The request that replaces an asset: as the one that creates it, but it need not say scope and values again."""
    name, spec = request.__name__.replace("Request", "Change"), request.model_fields["spec"]
    values: Any = spec.annotation
    optional: Any = {"spec": (values | None, None)} if spec.is_required() else {}
    return create_model(name, __base__=request, __doc__=request.__doc__, meta=(AssetChange, ...), **optional)


class AssetAnswer(Answer):
    """Name and scope of an asset, as stored; with who wrote it, as older clients expect it here."""

    id: str = ""
    kind: str = ""
    name: str
    scope: AssetScope
    cluster_id: str | None = None
    department_id: str | None = None
    project_id: int | None = Field(default=None, description="The number of the project")
    project_name: str | None = None
    description: str | None = None
    workload_supported_types: SupportedTypes
    created_by: str = ""
    created_at: Moment = ""
    updated_by: str = ""
    updated_at: Moment = ""

    @property
    def scope_id(self) -> str:
        return self.project_name or self.department_id or self.cluster_id or ""


class AssetLabel(Answer):
    """An asset that is named."""

    id: str
    name: str


class WorkloadUse(Answer):
    """A workload that was submitted with an asset."""

    id: str
    name: str
    project_name: str
    phase: str
    status: str = Field(default="", description="The same as `phase`")


class AssetUse(Answer):
    """Who uses an asset: workloads that are not deleted, and templates."""

    workspaces: list[WorkloadUse] = Field(default_factory=list)
    trainings: list[WorkloadUse] = Field(default_factory=list)
    distributed: list[WorkloadUse] = Field(default_factory=list)
    inferences: list[WorkloadUse] = Field(default_factory=list)
    templates: list[AssetLabel] = Field(default_factory=list)


class ComplianceReason(Answer):
    """Why a submit with an asset would be refused."""

    field: str | None = None
    details: str
    rule: str | None = None


class Compliance(Answer):
    """Whether a workload of a project may use an asset."""

    compliance: bool
    reason: list[ComplianceReason] = Field(default_factory=list)


class AssetStatus(Answer):
    """Whether what an asset refers to is there."""

    status: str = Field(description="`No issues found`, `Issues found`, or `No status` where each submit checks it")
    message: str | None = None


class AssetFindings(Answer):
    """What is answered about an asset when it is asked for."""

    used_by: AssetUse | None = Field(default=None, description="With `usageInfo=true`")
    status: AssetStatus | None = Field(default=None, description="With `statusInfo=true`")
    compliance: Compliance | None = Field(default=None, description="With `complyToProject` and `complyToWorkloadType`")


class Asset(AssetFindings):
    """An asset, as stored."""

    id: str
    kind: str
    meta: AssetAnswer
    spec: dict[str, Any]
    created_by: str
    created_at: Moment
    updated_at: Moment
    revision: int


class HistoryMeta(Answer):
    """When something happened."""

    creation_timestamp: Moment
    type: str = "PhaseUpdate"


class PhaseUpdate(Answer):
    """A phase that a claim came to."""

    phase: str
    phase_message: str


class HistorySpec(Answer):
    """What happened."""

    phase_update: PhaseUpdate


class HistoryRecord(Answer):
    """One line of the history of a claim."""

    meta: HistoryMeta
    spec: HistorySpec


class ClaimHistory(Page):
    """The history of the claims of a data source, oldest first."""

    records: list[HistoryRecord]


class AssetPage(Page):
    """Assets, by name."""

    entries: list[Asset]


class Template(Asset):
    """A workload template, as stored."""

    kind: str = "workload-template"
    administrative: bool
    required: list[str]
    locked: list[str]


class TemplatePage(Page):
    """Workload templates, by name."""

    entries: list[Template]
