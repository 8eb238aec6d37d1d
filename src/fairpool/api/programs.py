"""Accounts of programs (applications, service accounts) and access keys of users, as requests and answers."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, StrictBool, StringConstraints

from fairpool.api.access import RoleId
from fairpool.api.limits import TENANT_ID
from fairpool.api.wire import Answer, AnswerWithNulls, Moment, ProjectName, Request, ShortText

KeyName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$"),
    Field(examples=["ci"]),
]


class ApplicationRequest(Request):
    """A new account for a program."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "nightly-sweep", "roles": ["researcher"]}]})
    name: Annotated[ShortText, Field(min_length=1, examples=["nightly-sweep"])]
    roles: Annotated[list[RoleId], Field(max_length=16)] = Field(default_factory=list)


class ApplicationUpdate(Request):
    """`PATCH` of an account of a program."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"enabled": False}]})
    enabled: StrictBool
    """A disabled account cannot sign in, and its sessions end."""


class Application(AnswerWithNulls):
    """An account of a program."""

    nulls: ClassVar[tuple[str, ...]] = ("lastLogin",)

    id: str
    name: str
    client_id: str
    roles: list[str] = Field(default_factory=list)
    enabled: bool = True
    created_by: str = ""
    created_at: Moment
    updated_at: Moment
    last_login: Annotated[Moment | None, Field(description="Null: it has never signed in")] = None
    former_secret_until: Annotated[
        Moment | None, Field(description="Until then the secret before the last rotation is valid as well")
    ] = None
    tenant_id: str = str(TENANT_ID)


class NewApplication(Application):
    """An account of a program and its secret, which is shown only once."""

    secret: str
    client_secret: str


class KeyScope(Request):
    """What an access key may be used for. What its owner may not do, the key may not do either."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"actions": ["workload.read"], "projects": ["team-a"]}]})
    actions: Annotated[
        list[ShortText] | None,
        Field(max_length=128, description="Permissions, as in /api/v1/me; absent: all of the owner's"),
    ] = None
    projects: Annotated[
        list[ProjectName] | None, Field(max_length=100, description="Names of projects; absent: all of the owner's")
    ] = None


class AccessKeyRequest(Request):
    """A new access key of the caller."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "ci",
                    "expiresAt": "2027-11-15T12:00:00Z",
                    "scope": {"actions": ["workload.read"], "projects": ["team-a"]},
                }
            ]
        }
    )
    name: KeyName
    expires_at: Annotated[ShortText | None, Field(description="ISO 8601; absent: it does not expire")] = None
    scope: KeyScope | None = None


class AccessKeyScopeAnswer(Answer):
    """What an access key may be used for."""

    actions: list[str] | None = None
    projects: list[str] | None = None


class AccessKeyAnswer(AnswerWithNulls):
    """An access key: with it, programs sign in as its owner."""

    nulls: ClassVar[tuple[str, ...]] = ("lastLogin",)

    id: str
    client_id: str
    name: str
    created_by: str
    created_at: Moment
    last_login: Annotated[Moment | None, Field(description="Null: it was never used")] = None
    expires_at: Annotated[Moment | None, Field(description="Absent: it does not expire")] = None
    former_secret_until: Moment | None = None
    scope: Annotated[AccessKeyScopeAnswer | None, Field(description="Absent: all that its owner may do")] = None


class NewAccessKey(AccessKeyAnswer):
    """An access key and its secret, which is shown only once."""

    secret: str
    client_secret: str


class AccessKeyList(Answer):
    """Access keys, by name."""

    access_keys: list[AccessKeyAnswer]


class AppTokenRequest(Request):
    """`POST /v1/k8s/auth/oauth/apptoken`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "", "name": "nightly-sweep", "secret": "fps_…"}]})
    id: ShortText = ""
    name: ShortText = ""
    secret: ShortText


class AppToken(Answer):
    """Tokens of a program, under the names of older clients."""

    model_config = ConfigDict(alias_generator=None)

    access_token: str
    id_token: str
