"""The pods of a submit request: program, resources, storage, ports, security."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StringConstraints

from fairpool.api.limits import SECRET_KEY_PATTERN, TEMPLATE_NAME_PATTERN
from fairpool.api.older_form import OlderForm
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

CredentialName = Annotated[str, StringConstraints(pattern=TEMPLATE_NAME_PATTERN), Field(examples=["hf-token"])]
SecretKey = Annotated[str, StringConstraints(pattern=SECRET_KEY_PATTERN), Field(examples=["token"])]

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


NOT_EXCLUDED: Mapping[str, Any] = {"exclude": False}
"""Clients of the original say of every item of a list that it is not excluded."""

ItemLabel = Annotated[ShortText, Field(description="A label, for people to read")]


class ConfigMapKey(Request):
    """One value of a config map of the project."""

    name: Annotated[ShortText, Field(min_length=1)]
    key: Annotated[ShortText, Field(min_length=1)]


class CredentialKey(OlderForm):
    """One key of a credential that is in the project's scope."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {"assetId": "name"}

    name: CredentialName
    key: SecretKey


class EnvironmentVariable(OlderForm):
    """An environment variable of the pod: a value, or a key of a credential."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {"secret": "credential"}
    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = NOT_EXCLUDED

    name: VariableName
    value: Argument = ""
    config_map: ConfigMapKey | None = None
    credential: CredentialKey | None = Field(
        default=None, description="Instead of `value`: looked up where the pod starts, and never shown"
    )
    description: LongText | None = None


class GpuRequestType(StrEnum):
    """How GPU fractions are requested."""

    PORTION = "portion"
    MEMORY = "memory"
    MIG_PROFILE = "migProfile"


class ExtendedResource(OlderForm):
    """Any other countable resource."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = NOT_EXCLUDED

    resource: Annotated[ShortText, Field(min_length=1)]
    quantity: Annotated[StrictInt, Field(ge=0, le=2**53)]

    @classmethod
    def own_form(cls, given: dict[str, Any]) -> dict[str, Any]:
        quantity = given.get("quantity")
        if not isinstance(quantity, str) or not re.fullmatch("[0-9]{1,16}", quantity, re.ASCII):
            return given
        return {**given, "quantity": int(quantity)}


class Compute(OlderForm):
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


class HostPath(OlderForm):
    """A folder on the node."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = NOT_EXCLUDED

    name: ItemLabel | None = None
    path: PathText
    mount_path: PathText
    read_only: StrictBool = False
    mount_propagation: Annotated[str, StringConstraints(pattern="^(None|HostToContainer)$")] = "None"


ACCESS_MODES: Mapping[str, str] = {"readWriteMany": "rwm", "readOnlyMany": "rom", "readWriteOnce": "rwo"}
"""As clients of the original say them, each as true or false. The first that is true counts."""


class ClaimInfo(OlderForm):
    """A claim to create."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = {"volumeMode": "Filesystem"}

    size: Quantity
    storage_class: ShortText | None = None
    access_mode: Annotated[str, StringConstraints(pattern="^(rwo|rom|rwm)$")] = "rwo"

    @classmethod
    def own_form(cls, given: dict[str, Any]) -> dict[str, Any]:
        modes = given.get("accessModes")
        if not isinstance(modes, Mapping) or "accessMode" in given:
            return given
        asked = next((short for name, short in ACCESS_MODES.items() if modes.get(name) is True), None)
        rest = {key: value for key, value in given.items() if key != "accessModes"}
        return {**rest, "accessMode": asked} if asked is not None and set(modes) <= set(ACCESS_MODES) else given


class Pvc(OlderForm):
    """A persistent volume claim."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = {**NOT_EXCLUDED, "dataSharing": False}

    name: ItemLabel | None = None
    claim_name: ShortText | None = None
    path: PathText
    existing_pvc: StrictBool = True
    read_only: StrictBool = False
    ephemeral: Annotated[StrictBool, Field(description="Of a new claim: deleted with the workload")] = False
    claim_info: ClaimInfo | None = None


class Nfs(OlderForm):
    """An NFS folder."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = NOT_EXCLUDED

    name: ItemLabel | None = None
    server: Annotated[ShortText, Field(min_length=1)]
    path: PathText
    mount_path: PathText
    read_only: StrictBool = False


class GitSource(OlderForm):
    """A Git repository to clone before the pod starts."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {
        "passwordSecret": "credential",
        "passwordAssetId": "credential",
        "credentialId": "credential",
    }
    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = {
        **NOT_EXCLUDED,
        "secretKeyOfUser": "user",
        "secretKeyOfPassword": "password",
    }

    name: ItemLabel | None = None
    repository: Annotated[ShortText, Field(min_length=1)]
    branch: ShortText | None = Field(default=None, description="Default: the default branch of the repository")
    revision: ShortText | None = Field(default=None, description="A commit or tag; default: the tip of the branch")
    path: PathText = "/code"
    credential: CredentialName | None = Field(default=None, description="A credential of type password or git")

    @classmethod
    def own_form(cls, given: dict[str, Any]) -> dict[str, Any]:
        """`secretRef` with a user name and a password; one with an SSH key is refused as unknown."""
        reference = given.get("secretRef")
        if not isinstance(reference, Mapping) or "credential" in given:
            return given
        usual = {"authenticationMethod": "password", **cls.ASKING_NOTHING}
        is_login = all(usual.get(key) == value for key, value in reference.items() if key != "name")
        rest = {key: value for key, value in given.items() if key != "secretRef"}
        return {**rest, "credential": reference.get("name")} if is_login else given


class S3Source(OlderForm):
    """An S3 bucket."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {"accessKeySecret": "credential", "accessKeyAssetId": "credential"}
    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = {
        **NOT_EXCLUDED,
        "secretKeyOfAccessKeyId": "accessKeyId",
        "secretKeyOfSecretKey": "secretAccessKey",
    }

    name: ItemLabel | None = None
    bucket: Annotated[ShortText, Field(min_length=1)]
    path: PathText
    url: ShortText | None = None
    credential: CredentialName | None = Field(default=None, description="A credential of type access-key")


class NamedSource(OlderForm):
    """Something that is mounted as files, by its name."""

    SOURCE: ClassVar[str] = ""
    """Where clients of the original say the name: there `name` is a label."""
    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = NOT_EXCLUDED

    label: ItemLabel | None = None

    @classmethod
    def own_form(cls, given: dict[str, Any]) -> dict[str, Any]:
        if cls.SOURCE not in given:
            return given
        rest = {key: value for key, value in given.items() if key not in (cls.SOURCE, "name")}
        is_label = given.get("name") not in (None, given[cls.SOURCE])  # answers have both names, and may be sent back
        label = {"label": given["name"]} if is_label else {}
        return {**rest, **label, "name": given[cls.SOURCE]}


class NamedVolume(NamedSource):
    """A ConfigMap, mounted as files."""

    SOURCE: ClassVar[str] = "configMap"

    name: Annotated[ShortText, Field(min_length=1)]
    mount_path: PathText


class SecretVolume(NamedSource):
    """A credential, each of its keys mounted as a file that only the pod's user can read, in memory."""

    SOURCE: ClassVar[str] = "secret"

    name: CredentialName
    mount_path: PathText


class EmptyDir(OlderForm):
    """A folder of the pod's own on the disk of the node, empty at its start and removed with it."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = NOT_EXCLUDED

    name: ItemLabel | None = None
    path: PathText
    medium: Annotated[str, StringConstraints(pattern="^(Memory)?$")] = ""
    size_limit: Quantity | None = None


class Storage(OlderForm):
    """Volumes to mount."""

    pvc: Annotated[list[Pvc], Field(max_length=64)] = Field(default_factory=list)
    nfs: Annotated[list[Nfs], Field(max_length=64)] = Field(default_factory=list)
    git: Annotated[list[GitSource], Field(max_length=64)] = Field(default_factory=list)
    s3: Annotated[list[S3Source], Field(max_length=64)] = Field(default_factory=list)
    host_path: Annotated[list[HostPath], Field(max_length=64)] = Field(default_factory=list)
    config_map_volume: Annotated[list[NamedVolume], Field(max_length=64)] = Field(default_factory=list)
    secret_volume: Annotated[list[SecretVolume], Field(max_length=64)] = Field(default_factory=list)
    empty_dir_volume: Annotated[list[EmptyDir], Field(max_length=64)] = Field(default_factory=list)


class ServiceType(StrEnum):
    """How a port is exposed."""

    PORT_FORWARD = "PortForward"
    LOAD_BALANCER = "LoadBalancer"
    NODE_PORT = "NodePort"
    CLUSTER_IP = "ClusterIP"
    INGRESS = "Ingress"


class ExposedPort(OlderForm):
    """An exposed port of the pod."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = NOT_EXCLUDED

    name: ItemLabel | None = None
    container: Port
    external: Port | None = None
    service_type: ServiceType = ServiceType.CLUSTER_IP
    tool_type: ShortText | None = None
    tool_name: ShortText | None = None


class ExposedUrl(OlderForm):
    """A port exposed at its own URL."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = NOT_EXCLUDED

    name: ItemLabel | None = None
    container: Port
    url: ShortText | None = None
    authorization_type: ShortText | None = None
    tool_type: ShortText | None = None
    tool_name: ShortText | None = None


class PodToleration(OlderForm):
    """Lets pods onto nodes with matching taints."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = NOT_EXCLUDED

    name: ItemLabel | None = None
    key: ShortText = ""
    operator: Annotated[str, StringConstraints(pattern="^(Equal|Exists)$")] = "Equal"
    value: ShortText | None = None
    effect: Annotated[str, StringConstraints(pattern="^(NoSchedule|NoExecute|PreferNoSchedule)$")] | None = None
    seconds: Seconds | None = None


class MatchExpression(Request):
    """A condition on a label of a node."""

    key: Annotated[ShortText, Field(min_length=1)]
    operator: Annotated[str, StringConstraints(pattern="^(In|NotIn|Exists|DoesNotExist|Gt|Lt)$")]
    values: Annotated[list[ShortText], Field(max_length=64)] = Field(default_factory=list)


class NodeSelectorTerm(Request):
    """Conditions that must all hold."""

    match_expressions: Annotated[list[MatchExpression], Field(min_length=1, max_length=64)]


class NodeAffinityPreference(Request):
    """Nodes to prefer where there is a choice: the weights of all that a node meets add up."""

    weight: Annotated[StrictInt, Field(ge=1, le=100)]
    preference: NodeSelectorTerm


class Security(OlderForm):
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
    read_only_root_filesystem: StrictBool = False
    run_as_non_root: StrictBool = False
    seccomp_profile_type: ShortText | None = None


class TopologyRequest(Request):
    """Keep the pods of a distributed workload on nodes with the same value of a label."""

    name: ShortText | None = Field(
        default=None, description="A network topology; default: one that has these labels, else the labels alone"
    )
    required: Annotated[ShortText, Field(min_length=1)] | None = Field(
        default=None, description="Label of which all pods must have the same value"
    )
    preferred: Annotated[ShortText, Field(min_length=1)] | None = Field(
        default=None, description="Label of which pods have the same value where possible"
    )


class Workdir(Request):
    """An uploaded folder, mounted at `path` as the working directory of every pod and deleted with the workload."""

    upload: UploadId
    path: PathText = "/workdir"


class RelatedUrl(OlderForm):
    """A link that belongs to a workload."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = NOT_EXCLUDED

    url: ShortText
    type: ShortText | None = None
    name: ItemLabel | None = None


def pairs(said: Any) -> Any:
    """Labels or annotations that are given as a list of names and values."""
    if not isinstance(said, list) or not all(isinstance(each, Mapping) for each in said):
        return said
    is_plain = all(set(each) <= {"name", "value", "exclude"} and not each.get("exclude") for each in said)
    return {each.get("name"): each.get("value") or "" for each in said} if is_plain else said


class PodSpecWire(OlderForm):
    """What a pod runs, and the resources it needs."""

    image: ShortText = ""
    image_pull_policy: Annotated[str, StringConstraints(pattern="^(Always|IfNotPresent|Never)$")] | None = None
    image_pull_secret: CredentialName | None = Field(
        default=None, description="A credential of type docker-registry; default: the one for the image's registry"
    )
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

    @classmethod
    def own_form(cls, given: dict[str, Any]) -> dict[str, Any]:
        """`imagePullSecrets` with one name; several are refused as unknown."""
        secrets = given.get("imagePullSecrets")
        if not isinstance(secrets, list) or "imagePullSecret" in given:
            return given
        named = [each.get("name") for each in secrets if isinstance(each, Mapping) and set(each) <= {"name", "exclude"}]
        rest = {key: value for key, value in given.items() if key != "imagePullSecrets"}
        if not secrets:
            return rest
        return {**rest, "imagePullSecret": named[0]} if len(named) == len(secrets) == 1 else given
