"""Image registries: the same credentials as `docker-registry`, and what a registry has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from fairpool.api.credentials import CredentialChangeMeta, CredentialMeta, CredentialMetaAnswer, SecretText
from fairpool.api.older_form import OlderForm
from fairpool.api.wire import Answer, Page, Request, ShortText

HIDDEN = "********"


class RegistrySpec(OlderForm):
    """A registry and the login for it."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = {"credentialKind": "password"}

    url: ShortText = Field(description="Its host, with the port where it is not the usual one")
    user: ShortText
    password: SecretText = Field(repr=False)


class RegistryRequest(Request):
    """A registry."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "meta": {"name": "own", "scope": "tenant"},
                    "spec": {"url": "https://registry.example.com", "user": "ann", "password": "correct horse"},
                }
            ]
        }
    )

    meta: CredentialMeta
    spec: RegistrySpec


class RegistryChange(Request):
    """Another description of a registry."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"meta": {"description": "Images of the team"}}]})

    meta: CredentialChangeMeta


class RegistrySpecAnswer(Answer):
    """What may be shown of a registry."""

    url: str
    credential_kind: str = "password"
    user: str
    password: str = Field(default=HIDDEN, description="Never the password, which is not shown")


class Registry(Answer):
    """A registry, as stored."""

    meta: CredentialMetaAnswer
    spec: RegistrySpecAnswer
    revision: int


class RegistryPage(Page):
    """Registries, by name."""

    entries: list[Registry]


class Repositories(Answer):
    """The repositories of a registry, as it lists them itself."""

    repositories: list[str]


class RepositoryTags(Answer):
    """The tags of a repository."""

    name: str
    tags: list[str]
