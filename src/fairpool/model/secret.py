"""Credentials as pods get them: their kinds, the keys of each kind, and a value that no log shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class CredentialKind(StrEnum):
    """What a credential is for, which decides the names of its keys."""

    GENERIC = "generic-secret"
    """Any keys and values."""
    PASSWORD = "password"
    ACCESS_KEY = "access-key"
    REGISTRY = "docker-registry"
    GIT = "git"
    NGC = "ngc-api-key"


KEYS: Mapping[CredentialKind, tuple[str, ...]] = MappingProxyType(
    {
        CredentialKind.GENERIC: (),
        CredentialKind.PASSWORD: ("user", "password"),
        CredentialKind.ACCESS_KEY: ("accessKeyId", "secretAccessKey"),
        CredentialKind.REGISTRY: ("url", "user", "password"),
        CredentialKind.GIT: ("user", "password"),
        CredentialKind.NGC: ("ngcApiKey",),
    }
)
"""The keys that a credential of each kind has; a generic one has its own."""

SHOWN = frozenset({"user", "url", "accessKeyId"})
"""Keys of the kinds above that are not secret: they are shown with the credential."""

NGC_USER = "$oauthtoken"
"""The user name that NVIDIA's registry and catalogue take an API key with."""


@dataclass(frozen=True, slots=True)
class UserLogin:
    """A user name and a password or token."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Secret:
    """The value of a credential."""

    name: str
    kind: CredentialKind
    data: Mapping[str, bytes] = field(repr=False)

    def login(self) -> UserLogin | None:
        """For a registry or a Git server; None: it is not a credential of that kind."""
        if self.kind is CredentialKind.NGC:
            return UserLogin(NGC_USER, self._text("ngcApiKey"))
        if "user" not in self.data or "password" not in self.data:
            return None
        return UserLogin(self._text("user"), self._text("password"))

    def _text(self, key: str) -> str:
        return self.data[key].decode(errors="replace")
