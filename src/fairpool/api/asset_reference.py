"""Assets that a submit or a template names: an environment, a compute resource, data sources."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, model_validator

from fairpool.api.older_form import OlderForm
from fairpool.api.pod_spec import PathText
from fairpool.api.wire import Request, ShortText

DATASOURCES_MAX = 64


class DatasourceKind(StrEnum):
    """Kinds of data sources, in the words of the API."""

    PVC = "pvc"
    NFS = "nfs"
    GIT = "git"
    S3 = "s3"
    HOST_PATH = "hostPath"
    CONFIG_MAP = "config-map"
    SECRET = "secret-volume"  # the name of a kind


def _id_in(given: Any) -> Any:
    """`{"id": …, "name": …}`, as templates are answered, is the id."""
    return given.get("id") if isinstance(given, Mapping) else given


AssetReference = Annotated[
    ShortText,
    Field(min_length=1, description="Its id or its name; of several with this name, that of the narrowest scope"),
    BeforeValidator(_id_in),
]


class DatasourceOverrides(Request):
    """What a submit says otherwise than the data source."""

    container_path: PathText | None = Field(default=None, description="Mount it at this path")


class DatasourceReference(Request):
    """A data source, by its id or its name. A plain string is the same."""

    id: AssetReference
    kind: DatasourceKind | None = Field(default=None, description="Its kind, if it must be of this one")
    overrides: DatasourceOverrides | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, given: Any) -> Any:
        if isinstance(given, str):
            return {"id": given}
        return {key: value for key, value in given.items() if key != "name"} if isinstance(given, Mapping) else given


class AssetReferences(OlderForm):
    """Assets whose values a submit takes for what it does not say itself."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = {"workloadVolumes": []}

    environment: AssetReference | None = None
    compute: AssetReference | None = None
    datasources: Annotated[list[DatasourceReference], Field(max_length=DATASOURCES_MAX)] = Field(default_factory=list)
