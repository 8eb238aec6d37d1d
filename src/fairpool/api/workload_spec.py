"""Submit requests: the specification of a workload, for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, StrictBool, StrictInt, StringConstraints, model_validator

from fairpool.api.asset_reference import AssetReferences
from fairpool.api.pod_spec import (
    ARGUMENTS_MAX,
    Argument,
    ExposedPort,
    ExposedUrl,
    NodeAffinityPreference,
    Pairs,
    PathText,
    PodSpecWire,
    PodToleration,
    Port,
    RelatedUrl,
    Seconds,
    Security,
    Storage,
    TopologyRequest,
    Workdir,
    pairs,
)
from fairpool.api.wire import (
    LongText,
    PoolNameText,
    ProjectName,
    Request,
    ShortText,
)

PODS_MAX = 5_000
"""Pods of one workload. It is reported as a whole, so that more pods would delay other reports."""

AfterText = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?(:any)?$"), Field(examples=["prep", "prep:any"])
]


DistributedFramework = Annotated[str, StringConstraints(pattern="^(MPI|PyTorch|TF|XGBoost|JAX)$")]


SSH_OF_CONTAINERS = "/".join(("", "root", ".ssh"))
"""What clients of the original always send, whatever the framework."""


class Kind(StrEnum):
    """The type of a workload."""

    WORKSPACE = "Workspace"
    TRAINING = "Training"
    DISTRIBUTED = "Distributed"
    INFERENCE = "Inference"


class Source(StrEnum):
    """Where the workload was submitted from."""

    CLI = "CLI"
    CONTROL_PLANE = "Control-plane"
    OTHER = "Other"


class ArrayParameter(Request):
    """A parameter name and its values."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"), Field(examples=["lr"])]
    values: Annotated[list[Argument], Field(min_length=1, max_length=PODS_MAX)]


class JobArray(Request):
    """Runs with different parameters; replaces `{index}` and `{NAME}` in command, arguments and environment."""

    indices: Annotated[str, StringConstraints(max_length=4096), Field(examples=["0-9"])] | None = Field(
        default=None, description="Indices of the runs, e.g. 0-9, 1,3,5-9 or 0-20:5"
    )
    parameters: Annotated[list[ArrayParameter], Field(max_length=16)] = Field(
        default_factory=list, description="One run for each combination of values"
    )
    arguments: Annotated[
        list[Annotated[list[Argument], Field(max_length=ARGUMENTS_MAX)]], Field(max_length=PODS_MAX)
    ] = Field(default_factory=list, description="Arguments of each run, appended to the common arguments")


class CommonSpec(PodSpecWire):
    """What every kind of workload may say. Labels and annotations may also be lists of `{name, value}`."""

    storage: Storage = Field(default_factory=Storage)
    ports: Annotated[list[ExposedPort], Field(max_length=64)] = Field(default_factory=list)
    exposed_urls: Annotated[list[ExposedUrl], Field(max_length=64)] = Field(default_factory=list)
    node_pools: Annotated[list[PoolNameText], Field(max_length=64)] = Field(default_factory=list)
    node_type: ShortText | None = None
    node_affinity_required: dict[str, Any] | None = None
    node_affinity_preferred: Annotated[list[NodeAffinityPreference], Field(max_length=64)] = Field(default_factory=list)
    tolerations: Annotated[list[PodToleration], Field(max_length=64)] = Field(default_factory=list)
    topology: TopologyRequest | None = None
    security: Security = Field(default_factory=Security)
    labels: Pairs = Field(default_factory=dict)
    annotations: Pairs = Field(default_factory=dict)
    preemptibility: Annotated[str, StringConstraints(pattern="^(preemptible|non-preemptible)$")] | None = None
    priority_class: ShortText | None = None
    backoff_limit: Annotated[StrictInt, Field(ge=0, le=100_000)] | None = None
    auto_deletion_time_after_completion_seconds: Seconds | None = None
    termination_grace_period_seconds: Seconds | None = None
    deadline_seconds: Annotated[StrictInt, Field(ge=1, le=315_360_000)] | None = None
    restart_policy: Annotated[str, StringConstraints(pattern="^(Always|OnFailure|Never)$")] | None = None
    stdin: StrictBool = False
    tty: StrictBool = False
    template: ShortText | None = None
    assets: AssetReferences | None = None
    after: Annotated[list[AfterText], Field(max_length=64)] = Field(
        default_factory=list,
        description="Start after these jobs have completed; NAME:any also starts after it failed or was deleted",
    )
    workdir: Workdir | None = None
    category: ShortText | None = Field(default=None, description="Build, Train or Deploy: that of its kind")
    related_urls: Annotated[list[RelatedUrl], Field(max_length=64)] = Field(default_factory=list)
    terminate_after_preemption: StrictBool = False

    @classmethod
    def own_form(cls, given: dict[str, Any]) -> dict[str, Any]:
        said = super().own_form(given)
        changed = {name: pairs(said[name]) for name in ("labels", "annotations") if name in said}
        if "createHomeDir" not in said:
            return said | changed
        home = said.pop("createHomeDir")
        security = said.get("security") or {}
        return said | changed | {"security": {**security, "createHomeDir": home}}


class WorkspaceSpec(CommonSpec):
    """Interactive session; keeps its GPU until you stop it."""


class TrainingSpec(CommonSpec):
    """Training; with `completions` or `array`, a sweep of independent runs."""

    completions: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] | None = None
    parallelism: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] | None = None
    array: JobArray | None = None


class DistributedSpec(CommonSpec):
    """Distributed training: several pods that start together."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = {"sshAuthMountPath": SSH_OF_CONTAINERS}

    distributed_framework: DistributedFramework = "PyTorch"
    num_workers: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] = 1
    min_replicas: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] | None = None
    max_replicas: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] | None = None
    slots_per_worker: Annotated[StrictInt, Field(ge=1, le=1024)] | None = None
    ssh_auth_mount_path: PathText | None = None
    clean_pod_policy: Annotated[str, StringConstraints(pattern="^(Running|All|None)$")] = "Running"
    master_spec: PodSpecWire | None = None
    master_spec_same_as_worker: StrictBool = True
    no_master: StrictBool = False
    master_no_pvcs: StrictBool = Field(default=False, description="The master does not mount the volume claims")


class ServingPort(Request):
    """The port that the model listens on."""

    container: Port
    protocol: Annotated[str, StringConstraints(pattern="^(http|grpc)$")] = "http"
    authorization_type: ShortText = "public"
    authorized_users: Annotated[list[ShortText], Field(max_length=1000)] = Field(default_factory=list)
    authorized_groups: Annotated[list[ShortText], Field(max_length=1000)] = Field(default_factory=list)
    cluster_local_access_only: StrictBool = False


class Autoscaling(Request):
    """Number of replicas, and when to scale."""

    min_replicas: Annotated[StrictInt, Field(ge=0, le=PODS_MAX)] = 1
    max_replicas: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] | None = None
    initial_replicas: Annotated[StrictInt, Field(ge=0, le=PODS_MAX)] | None = None
    activation_replicas: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] | None = None
    metric: ShortText | None = None
    metric_name: ShortText | None = None
    metric_threshold: Annotated[StrictInt, Field(ge=1, le=2**53)] | None = None
    metric_threshold_percentage: Annotated[StrictInt, Field(ge=1, le=100)] | None = None
    concurrency_hard_limit: Annotated[StrictInt, Field(ge=0)] | None = None
    scale_to_zero_retention_seconds: Annotated[StrictInt, Field(ge=0, le=3600)] | None = None
    scale_down_delay_seconds: Annotated[StrictInt, Field(ge=0, le=3600)] | None = None


class InferenceSpec(CommonSpec):
    """Inference: a model that serves requests."""

    serving_port: ServingPort | None = None
    autoscaling: Autoscaling = Field(default_factory=Autoscaling)


class Submit(Request):
    """Fields of every submit."""

    name: Annotated[str, StringConstraints(max_length=256)] | None = Field(
        default=None, description="Default: generated, `job-0` and so on", examples=["train-1"]
    )
    project_id: ProjectName
    cluster_id: ShortText | None = Field(default=None, description="Default: the cluster of the project")
    use_given_name_as_prefix: StrictBool = False
    suspended: StrictBool = Field(default=False, description="Create it suspended, without starting it")
    wait_anyway: StrictBool = Field(
        default=False, description="Queue it even if it cannot start with the current nodes and quotas"
    )
    template_id: ShortText | None = None
    source: Source = Source.OTHER
    command_line: LongText = Field(default="", description="The command line that submitted it, shown in its details")


_EXAMPLE: dict[str, Any] = {
    "name": "train-1",
    "projectId": "team-a",
    "spec": {"image": "quickstart", "compute": {"gpu": "0.5"}},
}


class SubmitWorkspace(Submit):
    """`POST /api/v1/workloads/workspaces`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_EXAMPLE, "name": "build-1"}]})
    spec: WorkspaceSpec


class SubmitTraining(Submit):
    """`POST /api/v1/workloads/trainings`."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})
    spec: TrainingSpec


_POD_FIELDS = {field.alias or name for name, field in PodSpecWire.model_fields.items()} | {"imagePullSecrets"}


class SubmitDistributed(Submit):
    """`POST /api/v1/workloads/distributed`. The master may also be said beside `spec`."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{**_EXAMPLE, "spec": {"image": "quickstart", "numWorkers": 2}}]}
    )
    spec: DistributedSpec

    @model_validator(mode="before")
    @classmethod
    def _master_in_spec(cls, given: Any) -> Any:
        """As the original's client says it: beside the specification. A master like the workers runs what they run."""
        if not isinstance(given, dict) or not {"masterSpec", "masterSpecSameAsWorker"} & set(given):
            return given
        said = {name: value for name, value in given.items() if name not in ("masterSpec", "masterSpecSameAsWorker")}
        spec, master = said.get("spec"), given.get("masterSpec")
        is_same = given.get("masterSpecSameAsWorker")
        if master is None and is_same and isinstance(spec, dict):
            master = {name: spec[name] for name in _POD_FIELDS & set(spec)}
        if not isinstance(spec, dict) or master is None:
            return said
        return said | {"spec": {**spec, "masterSpec": master, "masterSpecSameAsWorker": is_same is not False}}


class SubmitInference(Submit):
    """`POST /api/v1/workloads/inferences`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{**_EXAMPLE, "spec": {"image": "example-server", "servingPort": {"container": 8000}}}]
        }
    )
    spec: InferenceSpec


SubmitAny = SubmitWorkspace | SubmitTraining | SubmitDistributed | SubmitInference


class Update(Request):
    """Fields of every update."""

    wait_anyway: StrictBool = Field(
        default=False, description="Change it even if it then cannot start with the current nodes and quotas"
    )


class WorkspaceUpdate(Update):
    """`PATCH /api/v1/workloads/workspaces/{id}`: replaces the fields in the request."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"spec": {"deadlineSeconds": 7200}}]})
    spec: WorkspaceSpec


class TrainingUpdate(Update):
    """`PATCH /api/v1/workloads/trainings/{id}`: replaces the fields in the request."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"spec": {"labels": {"team": "vision"}}}]})
    spec: TrainingSpec


class DistributedUpdate(Update):
    """`PATCH /api/v1/workloads/distributed/{id}`: replaces the fields in the request."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"spec": {"backoffLimit": 2}}]})
    spec: DistributedSpec


class InferenceUpdate(Update):
    """`PATCH /api/v1/workloads/inferences/{id}`: replaces the fields in the request."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"spec": {"autoscaling": {"minReplicas": 2}}}]})
    spec: InferenceSpec
