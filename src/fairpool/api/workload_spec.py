"""Submit requests: the specification of a workload, for each kind."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StringConstraints

from fairpool.api.uploads import UploadId
from fairpool.api.wire import (
    LongText,
    PoolNameText,
    ProjectName,
    Request,
    ShortText,
)

ENVIRONMENT_MAX = 10_000

ENVIRONMENT_VALUE_MAX = 131_072  # what Linux takes in one string of a process's environment

ARGUMENTS_MAX = 10_000

PODS_MAX = 5_000
"""Pods of one workload. It is reported as a whole, so that more pods would delay other reports."""

Argument = Annotated[str, StringConstraints(max_length=ENVIRONMENT_VALUE_MAX, pattern=r"^[^\x00]*$")]

VariableName = Annotated[str, StringConstraints(pattern=r"^[^=\x00-\x1f\x7f]{1,1024}$"), Field(examples=["EPOCHS"])]

QUANTITY_PATTERN = r"^([0-9]{1,15}(?:\.[0-9]{1,6})?)([kKMGTP]i?|m)?B?$"
"""A number and a suffix."""
Quantity = Annotated[str, StringConstraints(pattern=QUANTITY_PATTERN), Field(examples=["4Gi", "500M"])]

Port = Annotated[StrictInt, Field(ge=1, le=65535)]

PathText = Annotated[str, StringConstraints(max_length=4096, pattern=r"^/[^\x00-\x1f]*$"), Field(examples=["/data"])]

Seconds = Annotated[StrictInt, Field(ge=0, le=315_360_000)]

GpuAmount = Annotated[
    StrictInt | StrictFloat | Annotated[str, StringConstraints(max_length=32)],
    Field(description="GPUs per pod: a fraction of one GPU (0.5) or a whole number (2)", examples=["0.5", 2]),
]

AfterText = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?(:any)?$"), Field(examples=["prep", "prep:any"])
]

Pairs = Annotated[
    dict[Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,317}$")], LongText], Field(max_length=256)
]


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


class EnvironmentVariable(Request):
    """An environment variable of the pod."""

    name: VariableName
    value: Argument = ""


class GpuRequestType(StrEnum):
    """How GPU fractions are requested."""

    PORTION = "portion"
    MEMORY = "memory"
    MIG_PROFILE = "migProfile"


class ExtendedResource(Request):
    """Any other countable resource."""

    resource: Annotated[ShortText, Field(min_length=1)]
    quantity: Annotated[StrictInt, Field(ge=0, le=2**53)]


class Compute(Request):
    """Resources of each pod. `gpu` is the short form; the other GPU fields are the long form."""

    gpu: GpuAmount | None = None
    gpu_devices_request: Annotated[StrictInt, Field(ge=0, le=100_000)] | None = None
    gpu_request_type: GpuRequestType | None = None
    gpu_portion_request: GpuAmount | None = None
    gpu_portion_limit: GpuAmount | None = None
    gpu_memory_request: Quantity | None = None
    gpu_memory_limit: Quantity | None = None
    mig_profile: Annotated[ShortText, Field(examples=["1g.5gb"])] | None = None
    cpu_core_request: Annotated[StrictInt | StrictFloat, Field(ge=0, le=100_000)] | None = None
    cpu_core_limit: Annotated[StrictInt | StrictFloat, Field(ge=0, le=100_000)] | None = None
    cpu_memory_request: Quantity | None = None
    cpu_memory_limit: Quantity | None = None
    large_shm_request: StrictBool = False
    extended_resources: Annotated[list[ExtendedResource], Field(max_length=64)] = Field(default_factory=list)


class HostPath(Request):
    """A folder on the node."""

    path: PathText
    mount_path: PathText
    read_only: StrictBool = False
    mount_propagation: Annotated[str, StringConstraints(pattern="^(None|HostToContainer)$")] = "None"


class ClaimInfo(Request):
    """A claim to create."""

    size: Quantity
    storage_class: ShortText | None = None
    access_mode: Annotated[str, StringConstraints(pattern="^(rwo|rom|rwm)$")] = "rwo"


class Pvc(Request):
    """A persistent volume claim."""

    claim_name: ShortText | None = None
    path: PathText
    existing_pvc: StrictBool = True
    read_only: StrictBool = False
    ephemeral: StrictBool = False
    claim_info: ClaimInfo | None = None


class Nfs(Request):
    """An NFS folder."""

    server: Annotated[ShortText, Field(min_length=1)]
    path: PathText
    mount_path: PathText
    read_only: StrictBool = False


class GitSource(Request):
    """A Git repository to clone before the pod starts."""

    repository: Annotated[ShortText, Field(min_length=1)]
    branch: ShortText | None = None
    revision: ShortText | None = None
    path: PathText = "/code"


class S3Source(Request):
    """An S3 bucket."""

    bucket: Annotated[ShortText, Field(min_length=1)]
    path: PathText
    url: ShortText | None = None
    credential: ShortText | None = None


class NamedVolume(Request):
    """A ConfigMap or Secret, mounted as files."""

    name: Annotated[ShortText, Field(min_length=1)]
    mount_path: PathText


class Storage(Request):
    """Volumes to mount."""

    pvc: Annotated[list[Pvc], Field(max_length=64)] = Field(default_factory=list)
    nfs: Annotated[list[Nfs], Field(max_length=64)] = Field(default_factory=list)
    git: Annotated[list[GitSource], Field(max_length=64)] = Field(default_factory=list)
    s3: Annotated[list[S3Source], Field(max_length=64)] = Field(default_factory=list)
    host_path: Annotated[list[HostPath], Field(max_length=64)] = Field(default_factory=list)
    config_map_volume: Annotated[list[NamedVolume], Field(max_length=64)] = Field(default_factory=list)
    secret_volume: Annotated[list[NamedVolume], Field(max_length=64)] = Field(default_factory=list)


class ServiceType(StrEnum):
    """How a port is exposed."""

    PORT_FORWARD = "PortForward"
    LOAD_BALANCER = "LoadBalancer"
    NODE_PORT = "NodePort"
    CLUSTER_IP = "ClusterIP"
    INGRESS = "Ingress"


class ExposedPort(Request):
    """An exposed port of the pod."""

    container: Port
    external: Port | None = None
    service_type: ServiceType = ServiceType.CLUSTER_IP
    tool_type: ShortText | None = None
    tool_name: ShortText | None = None


class ExposedUrl(Request):
    """A port exposed at its own URL."""

    container: Port
    url: ShortText | None = None
    authorization_type: ShortText | None = None
    tool_type: ShortText | None = None
    tool_name: ShortText | None = None


class PodToleration(Request):
    """Lets pods onto nodes with matching taints."""

    key: ShortText = ""
    operator: Annotated[str, StringConstraints(pattern="^(Equal|Exists)$")] = "Equal"
    value: ShortText | None = None
    effect: Annotated[str, StringConstraints(pattern="^(NoSchedule|NoExecute|PreferNoSchedule)$")] | None = None
    seconds: Seconds | None = None


class Security(Request):
    """The user and privileges that the pods run with."""

    run_as_uid: Annotated[StrictInt, Field(ge=0, le=2**32 - 2)] | None = None
    run_as_gid: Annotated[StrictInt, Field(ge=0, le=2**32 - 2)] | None = None
    supplemental_groups: ShortText | None = None
    uid_gid_source: ShortText | None = None
    run_as_user: StrictBool = False
    create_home_dir: StrictBool | None = None
    capabilities: Annotated[list[ShortText], Field(max_length=64)] = Field(default_factory=list)
    allow_privilege_escalation: StrictBool | None = None
    host_ipc: StrictBool = False
    host_network: StrictBool = False


class TopologyRequest(Request):
    """Keep the pods on nodes with the same value of a label."""

    required: ShortText | None = None
    preferred: ShortText | None = None


class Workdir(Request):
    """An uploaded folder, mounted at `path` as the working directory of every pod and deleted with the workload."""

    upload: UploadId
    path: PathText = "/workdir"


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


class PodSpecWire(Request):
    """What a pod runs, and the resources it needs."""

    image: ShortText = ""
    image_pull_policy: Annotated[str, StringConstraints(pattern="^(Always|IfNotPresent|Never)$")] | None = None
    command: Annotated[list[Argument], Field(max_length=ARGUMENTS_MAX)] | LongText | None = Field(
        default=None, description="Replaces the entrypoint; a string is split as in a shell"
    )
    args: Annotated[list[Argument], Field(max_length=ARGUMENTS_MAX)] | LongText | None = None
    working_dir: LongText | None = None
    python_env: LongText | None = Field(
        default=None, description="Path of a Python virtual environment on the node, used read-only"
    )
    environment_variables: Annotated[list[EnvironmentVariable], Field(max_length=ENVIRONMENT_MAX)] = Field(
        default_factory=list
    )
    compute: Compute = Field(default_factory=Compute)


class CommonSpec(PodSpecWire):
    """What every kind of workload may say."""

    storage: Storage = Field(default_factory=Storage)
    ports: Annotated[list[ExposedPort], Field(max_length=64)] = Field(default_factory=list)
    exposed_urls: Annotated[list[ExposedUrl], Field(max_length=64)] = Field(default_factory=list)
    node_pools: Annotated[list[PoolNameText], Field(max_length=64)] = Field(default_factory=list)
    node_type: ShortText | None = None
    node_affinity_required: dict[str, Any] | None = None
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
    after: Annotated[list[AfterText], Field(max_length=64)] = Field(
        default_factory=list,
        description="Start after these jobs have completed; NAME:any also starts after it failed or was deleted",
    )
    workdir: Workdir | None = None


class WorkspaceSpec(CommonSpec):
    """Interactive session; keeps its GPU until you stop it."""


class TrainingSpec(CommonSpec):
    """Training; with `completions` or `array`, a sweep of independent runs."""

    completions: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] | None = None
    parallelism: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] | None = None
    array: JobArray | None = None


class DistributedSpec(CommonSpec):
    """Distributed training: several pods that start together."""

    distributed_framework: Annotated[str, StringConstraints(pattern="^(MPI|PyTorch|TF|XGBoost|JAX)$")] = "PyTorch"
    num_workers: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] = 1
    min_replicas: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] | None = None
    max_replicas: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] | None = None
    slots_per_worker: Annotated[StrictInt, Field(ge=1, le=1024)] | None = None
    ssh_auth_mount_path: PathText | None = None
    clean_pod_policy: Annotated[str, StringConstraints(pattern="^(Running|All|None)$")] = "Running"
    master_spec: PodSpecWire | None = None
    master_spec_same_as_worker: StrictBool = True
    no_master: StrictBool = False


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


WorkloadSpecWire = WorkspaceSpec | TrainingSpec | DistributedSpec | InferenceSpec


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


class SubmitDistributed(Submit):
    """`POST /api/v1/workloads/distributed`."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{**_EXAMPLE, "spec": {"image": "quickstart", "numWorkers": 2}}]}
    )
    spec: DistributedSpec


class SubmitInference(Submit):
    """`POST /api/v1/workloads/inferences`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{**_EXAMPLE, "spec": {"image": "example-server", "servingPort": {"container": 8000}}}]
        }
    )
    spec: InferenceSpec


SubmitAny = SubmitWorkspace | SubmitTraining | SubmitDistributed | SubmitInference


class InferenceUpdate(Request):
    """`PATCH /api/v1/workloads/inferences/{id}`: replaces the fields in the request."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"spec": {"autoscaling": {"minReplicas": 2}}}]})
    spec: InferenceSpec
