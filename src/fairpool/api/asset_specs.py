"""Specifications of environments and data sources: what each kind of asset holds.

A compute resource holds the `compute` of a submit, a data source one mount of its `storage`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, StrictBool, StrictInt, StringConstraints, model_validator

from fairpool.api.pod_spec import (
    ARGUMENTS_MAX,
    ENVIRONMENT_MAX,
    Argument,
    EnvironmentVariable,
    GitSource,
    NamedVolume,
    Port,
    Pvc,
    S3Source,
    Security,
)
from fairpool.api.wire import LongText, Request, ShortText

CONNECTIONS_MAX = 64


class ToolType(StrEnum):
    """Tools that listen in the pod."""

    JUPYTER = "jupyter-notebook"
    PYCHARM = "pycharm"
    VISUAL_STUDIO_CODE = "visual-studio-code"
    TENSORBOARD = "tensorboard"
    RSTUDIO = "rstudio"
    MLFLOW = "mlflow"
    MATLAB = "matlab"
    CHATBOT_UI = "chatbot-ui"
    CUSTOM = "custom"


class ConnectionType(StrEnum):
    """How a tool is reached."""

    LOAD_BALANCER = "LoadBalancer"
    NODE_PORT = "NodePort"
    EXTERNAL_URL = "ExternalUrl"
    SERVING_PORT = "ServingPort"
    CLUSTER_IP = "ClusterIP"


class OlderForm(Request):
    """Takes other names for its fields as well, and fields that clients of the original always send as false."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {}
    SENT_AS_FALSE: ClassVar[frozenset[str]] = frozenset()
    """Refused as unknown if they are true."""

    @model_validator(mode="before")
    @classmethod
    def _own_form(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        kept = {key: value for key, value in given.items() if not (key in cls.SENT_AS_FALSE and value is False)}
        return {cls._own_name(key, kept): value for key, value in kept.items()}

    @classmethod
    def _own_name(cls, key: str, given: Mapping[str, Any]) -> str:
        own = cls.OTHER_NAMES.get(key, key)
        return key if own in given else own


class InternalTool(Request):
    """A tool in the pod."""

    tool_type: ToolType = ToolType.CUSTOM
    connection_type: ConnectionType = ConnectionType.CLUSTER_IP
    container_port: Port


class ToolConnection(OlderForm):
    """A tool of an environment."""

    SENT_AS_FALSE: ClassVar[frozenset[str]] = frozenset({"isExternal"})

    name: Annotated[ShortText, Field(min_length=1, examples=["Jupyter"])]
    internal_tool_info: InternalTool


class EnvironmentSpec(OlderForm):
    """What pods run: image, command, variables, tools and user. Unlike a submit, the user is not apart."""

    SENT_AS_FALSE: ClassVar[frozenset[str]] = frozenset({"overrideUidGidInWorkspace"})

    image: ShortText = ""
    image_pull_policy: Annotated[str, StringConstraints(pattern="^(Always|IfNotPresent|Never)$")] | None = None
    command: Annotated[list[Argument], Field(max_length=ARGUMENTS_MAX)] | LongText | None = None
    args: Annotated[list[Argument], Field(max_length=ARGUMENTS_MAX)] | LongText | None = None
    working_dir: LongText | None = None
    python_env: LongText | None = None
    environment_variables: Annotated[list[EnvironmentVariable], Field(max_length=ENVIRONMENT_MAX)] = Field(
        default_factory=list
    )
    connections: Annotated[list[ToolConnection], Field(max_length=CONNECTIONS_MAX)] = Field(default_factory=list)
    run_as_uid: Annotated[StrictInt, Field(ge=0, le=2**32 - 2)] | None = None
    run_as_gid: Annotated[StrictInt, Field(ge=0, le=2**32 - 2)] | None = None
    supplemental_groups: ShortText | None = None
    uid_gid_source: ShortText | None = None
    create_home_dir: StrictBool | None = None
    capabilities: Annotated[list[ShortText], Field(max_length=64)] = Field(default_factory=list)
    allow_privilege_escalation: StrictBool | None = None
    host_ipc: StrictBool | None = None
    host_network: StrictBool | None = None
    stdin: StrictBool | None = None
    tty: StrictBool | None = None


class PvcAsset(Pvc, OlderForm):
    """A volume claim."""

    SENT_AS_FALSE: ClassVar[frozenset[str]] = frozenset({"dataSharing"})


class ConfigMapAsset(NamedVolume, OlderForm):
    """A config map, mounted as files."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {"configMap": "name"}


class SecretAsset(NamedVolume, OlderForm):
    """A credential, mounted as files."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {"credentialAssetId": "name"}


class S3Asset(S3Source, OlderForm):
    """An S3 bucket, with the credential that opens it."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {"accessKeyAssetId": "credential"}


class GitAsset(GitSource, OlderForm):
    """A Git repository, with the credential that opens it."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {"passwordAssetId": "credential", "credentialId": "credential"}


SECURITY_FIELDS = frozenset(str(info.alias) for info in Security.model_fields.values())
"""Fields of an environment that a submit has under `security`."""
