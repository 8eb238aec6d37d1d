"""The pods of a submit request: program, resources, storage, ports, security."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StringConstraints

from fairpool.api.uploads import UploadId
from fairpool.api.wire import (
    LongText,
    Request,
    ShortText,
)

ENVIRONMENT_MAX = 10_000

ENVIRONMENT_VALUE_MAX = 131_072  # what Linux takes in one string of a process's environment

ARGUMENTS_MAX = 10_000

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

Pairs = Annotated[
    dict[Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,317}$")], LongText], Field(max_length=256)
]


class ConfigMapKey(Request):
    """One value of a config map of the project."""

    name: Annotated[ShortText, Field(min_length=1)]
    key: Annotated[ShortText, Field(min_length=1)]


class EnvironmentVariable(Request):
    """An environment variable of the pod."""

    name: VariableName
    value: Argument = ""
    config_map: ConfigMapKey | None = None


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
    ephemeral: Annotated[StrictBool, Field(description="Of a new claim: deleted with the workload")] = False
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
    branch: ShortText | None = Field(default=None, description="Default: the default branch of the repository")
    revision: ShortText | None = Field(default=None, description="A commit or tag; default: the tip of the branch")
    path: PathText = "/code"
    credential: ShortText | None = Field(default=None, description="Name of a user and password to sign in with")


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
