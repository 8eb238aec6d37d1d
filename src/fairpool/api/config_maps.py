"""Config maps of projects, as requests and answers: small files and values that jobs mount or read as variables."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from fairpool.api.limits import NAME_PATTERN
from fairpool.api.wire import Answer, Moment, Page, Request

KEYS_MAX = 256
ConfigMapName = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=63), Field(examples=["settings"])]
ConfigKey = Annotated[
    str, StringConstraints(pattern=r"^\.?[A-Za-z0-9_-][A-Za-z0-9._-]{0,251}$"), Field(examples=["train.yaml"])
]
ConfigText = Annotated[str, StringConstraints(max_length=262_144, pattern=r"^[^\x00]*$")]
Contents = Annotated[dict[ConfigKey, ConfigText], Field(min_length=1, max_length=KEYS_MAX)]


class ConfigMapChange(Request):
    """The new contents of a config map."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"data": {"train.yaml": "epochs: 3\n"}}]})
    data: Contents


class NewConfigMap(ConfigMapChange):
    """A config map."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "settings", "projectId": "team-a", "data": {"epochs": "3"}}]}
    )
    name: ConfigMapName
    project_id: Annotated[str, StringConstraints(max_length=64)]


class ConfigMapItem(Answer):
    """A config map."""

    name: str
    project_id: str
    data: dict[str, str]
    created_at: Moment
    created_by: str
    updated_at: Moment
    revision: int


class ConfigMapPage(Page):
    """Config maps, by name."""

    config_maps: list[ConfigMapItem]
