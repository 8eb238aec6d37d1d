"""Specifications of environments and data sources: what each kind of asset holds.

A compute resource holds the `compute` of a submit, a data source one mount of its `storage`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, StrictBool, model_validator

from fairpool.api.pod_spec import GitSource, NamedVolume, PodSpecWire, Port, Pvc, S3Source, SecretVolume, Security
from fairpool.api.wire import Request, ShortText

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


class EnvironmentSpec(PodSpecWire, Security, OlderForm):
    """What pods run: image, command, variables, tools, user and privileges. `compute` is refused: it is an asset of its
    own."""

    SENT_AS_FALSE: ClassVar[frozenset[str]] = frozenset({"overrideUidGidInWorkspace"})

    connections: Annotated[list[ToolConnection], Field(max_length=CONNECTIONS_MAX)] = Field(default_factory=list)
    stdin: StrictBool = False
    tty: StrictBool = False


class PvcAsset(Pvc, OlderForm):
    """A volume claim."""

    SENT_AS_FALSE: ClassVar[frozenset[str]] = frozenset({"dataSharing"})


class ConfigMapAsset(NamedVolume, OlderForm):
    """A config map, mounted as files."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {"configMap": "name"}


class SecretAsset(SecretVolume, OlderForm):
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
