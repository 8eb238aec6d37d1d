"""Specifications of environments and data sources: what each kind of asset holds.

A compute resource holds the `compute` of a submit, a data source one mount of its `storage`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, StrictBool

from fairpool.api.older_form import OlderForm
from fairpool.api.pod_spec import PodSpecWire, Port, SecretVolume, Security
from fairpool.api.wire import ShortText

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


class InternalTool(OlderForm):
    """A tool in the pod."""

    tool_type: ToolType = ToolType.CUSTOM
    connection_type: ConnectionType = ConnectionType.CLUSTER_IP
    container_port: Port


class ToolConnection(OlderForm):
    """A tool of an environment."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = {"isExternal": False}

    name: Annotated[ShortText, Field(min_length=1, examples=["Jupyter"])]
    internal_tool_info: InternalTool


class EnvironmentSpec(PodSpecWire, Security, OlderForm):
    """What pods run: image, command, variables, tools, user and privileges. `compute` is refused: it is an asset of its
    own."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = {"overrideUidGidInWorkspace": False}

    connections: Annotated[list[ToolConnection], Field(max_length=CONNECTIONS_MAX)] = Field(default_factory=list)
    stdin: StrictBool = False
    tty: StrictBool = False


class SecretAsset(SecretVolume):
    """A credential, mounted as files."""

    SOURCE: ClassVar[str] = "credentialAssetId"


SECURITY_FIELDS = frozenset(str(info.alias) for info in Security.model_fields.values())
"""Fields of an environment that a submit has under `security`."""
