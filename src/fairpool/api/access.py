"""Sign-in, tokens, users, applications, roles and access rules, as requests and answers."""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StringConstraints,
)

from fairpool.api.limits import PASSWORD_MAX, PASSWORD_MIN
from fairpool.api.wire import Answer, AnswerWithNulls, Moment, Page, Request, ShortText

Password = Annotated[str, StringConstraints(min_length=1, max_length=PASSWORD_MAX)]
NewPassword = Annotated[str, StringConstraints(min_length=PASSWORD_MIN, max_length=PASSWORD_MAX)]

PagePreferences = dict[Annotated[str, StringConstraints(max_length=128)], JsonValue]
"""What a user chose in the web UI, whose business it is."""
PAGE_PREFERENCES_MAX_BYTES = 64 * 1024


def normal_email(text: str) -> str:
    """An address as it is compared: the same letters are the same person, however they were typed."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _seen_email(text: str) -> str:
    if any(unicodedata.category(character) in INVISIBLE for character in text):
        raise ValueError("it contains invisible characters; remove them")
    normal = normal_email(text)
    if re.fullmatch(EMAIL, normal) is None:
        raise ValueError("this is not a valid email address; use e.g. name@example.com")
    return normal


INVISIBLE = frozenset({"Cf", "Cc", "Co", "Cn", "Cs", "Zl", "Zp"})
EMAIL = r"^[^@\s\x00-\x1f\x7f]{1,64}@[^@\s\x00-\x1f\x7f]{1,190}$"
Email = Annotated[
    str,
    StringConstraints(pattern=EMAIL),
    AfterValidator(_seen_email),
    Field(examples=["test@run.ai"]),
]


class GrantType(StrEnum):
    """The supported grant types."""

    PASSWORD = "password"
    CLIENT_CREDENTIALS = "client_credentials"
    APP_TOKEN = "app_token"
    REFRESH_TOKEN = "refresh_token"
    CODE = "authorization_code"
    DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"


class TokenRequest(Request):
    """`POST /api/v1/token`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"grantType": "password", "username": "ann@example.com", "password": "correct horse battery"}]
        }
    )
    grant_type: GrantType
    username: ShortText | None = None
    password: Password | None = None
    client_id: ShortText | None = Field(
        default=None, validation_alias=AliasChoices("clientId", "clientID", "client_id", "appID", "appId", "AppId")
    )
    client_secret: ShortText | None = Field(
        default=None, validation_alias=AliasChoices("clientSecret", "client_secret", "appSecret", "AppSecret")
    )
    refresh_token: ShortText | None = None
    code: ShortText | None = None
    code_verifier: ShortText | None = None
    device_code: ShortText | None = None


class TokenAnswer(Answer):
    """An access token for `Authorization: Bearer`, and a refresh token to renew it."""

    access_token: Annotated[
        str, Field(description="A JWT, signed with a key of /.well-known/jwks.json", examples=["eyJraWQi…"])
    ]
    id_token: Annotated[str, Field(description="Who signed in; opens nothing")] = ""
    refresh_token: str | None = None
    expires_in: Annotated[int, Field(description="Seconds", examples=[36000])]
    token_type: str = "bearer"
    must_change_password: bool = False


class OAuthToken(Answer):
    """An OAuth 2.0 token (RFC 6749), for `POST /api/v2/token` and the legacy token endpoint."""

    model_config = ConfigDict(alias_generator=None)

    access_token: str
    token_type: str = "bearer"
    expires_in: int
    refresh_token: str | None = None
    id_token: str = ""
    scope: str = "openid"


class OAuthError(Answer):
    """An OAuth 2.0 error (RFC 6749)."""

    model_config = ConfigDict(alias_generator=None)

    error: Annotated[str, Field(examples=["invalid_grant"])]
    error_description: str = ""


class PasswordChange(Request):
    """`POST /api/v1/me/password`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"currentPassword": "correct horse battery", "newPassword": "staple of the day"}]
        }
    )
    current_password: Annotated[str, StringConstraints(max_length=PASSWORD_MAX)] = ""
    """Not needed by an account that has no password yet."""
    new_password: NewPassword


TENANT_ID = 1
"""There is one tenant."""


class ForgottenRequest(Request):
    """`POST /api/v1/password/forgot`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"email": "ann@example.com"}]})
    email: Email


class ForgottenAnswer(Answer):
    """The same for every address."""

    message: str = "if there is an account with this address, a link was sent to it"


class ResetRequest(Request):
    """`POST /api/v1/password/reset`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"code": "fpm_…", "newPassword": "staple of the day"}]})
    code: ShortText
    new_password: NewPassword


class ScopeType(StrEnum):
    """Where a role applies."""

    TENANT = "tenant"
    CLUSTER = "cluster"
    DEPARTMENT = "department"
    PROJECT = "project"


class SubjectType(StrEnum):
    """What a role can be assigned to."""

    USER = "user"
    APP = "app"
    SERVICE_ACCOUNT = "service-account"
    GROUP = "group"
    """Of an identity provider, by name."""


RoleId = Annotated[int, Field(strict=True, ge=1, lt=2**53)] | ShortText
"""A role by its id, or by name."""


class UserRequest(Request):
    """A new user. Without a password, one is generated and shown once."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"email": "ann@example.com", "needToChangePassword": True}]}
    )
    email: Email
    password: NewPassword | None = None
    need_to_change_password: StrictBool = True
    roles: Annotated[list[RoleId], Field(max_length=16)] = Field(default_factory=list)
    """Given over everything; roles in one project are access rules."""
    reset_password: StrictBool | None = None
    """The same as `needToChangePassword`, in newer words."""
    notify: StrictBool | None = None
    """Send a mail with a link that sets the password."""


class User(AnswerWithNulls):
    """A user."""

    nulls: ClassVar[tuple[str, ...]] = ("lastLogin",)

    id: str
    username: str
    email: str
    roles: list[str] = Field(default_factory=list)
    groups: list[str] = Field(default_factory=list)
    need_to_change_password: bool = False
    is_local: bool = True
    """Whether the password is kept here; else an identity provider signs the user in."""
    disabled: bool = False
    created_at: Moment
    created_by: str = ""
    updated_at: Moment = ""
    last_login: Annotated[Moment | None, Field(description="Null: never")] = None


class UserUpdate(Request):
    """What an administrator can change about a user."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"disabled": True}]})
    disabled: StrictBool
    """A disabled user cannot sign in; their sessions end at once."""


class NewUser(User):
    """A user and the initial password, which is shown only once."""

    temp_password: str | None = None


class PasswordAnswer(Answer):
    """A generated password, which is shown only once."""

    temp_password: str


def _as_tenant(scope_type: object) -> object:
    """The original has several tenants, and `system` above them; here they are one."""
    return ScopeType.TENANT if scope_type == "system" else scope_type


class AccessRuleRequest(Request):
    """Assigns a role to a subject in a scope. Rules cannot be changed: delete the rule and create another one."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"subjectId": "ann@example.com", "roleId": "researcher", "scopeType": "project", "scopeId": "team-a"}
            ]
        }
    )
    subject_id: ShortText
    subject_type: SubjectType = SubjectType.USER
    role_id: Annotated[RoleId, Field(examples=["researcher"])]
    scope_id: ShortText = ""
    scope_type: Annotated[ScopeType, BeforeValidator(_as_tenant)] = ScopeType.PROJECT
    cluster_id: ShortText | None = None
    """The cluster of the scope; it must fit."""


class AccessRule(Answer):
    """An access rule."""

    id: int
    uuid: str = ""
    """Its id in earlier releases, which is still accepted."""
    subject_id: str
    subject_type: SubjectType
    role_id: int
    role: str = ""
    """As commands call it."""
    role_name: str
    subject_name: str = ""
    scope_id: str
    scope_name: str = ""
    scope_type: ScopeType
    tenant_id: int = TENANT_ID
    created_at: Moment
    updated_at: Moment
    created_by: str = ""


class AccessRulePage(Page):
    """Access rules."""

    total_records: int
    display_records: int
    access_rules: list[AccessRule]


class MyAccessRules(Answer):
    """The caller's own access rules, and those of the caller's groups."""

    access_rules: AccessRulePage


class RuleSubject(Request):
    """What a role is assigned to."""

    subject_id: ShortText
    subject_type: SubjectType = SubjectType.USER


class RuleScope(Request):
    """Where a role applies."""

    scope_id: ShortText = ""
    scope_type: Annotated[ScopeType, BeforeValidator(_as_tenant)] = ScopeType.PROJECT


class AccessRuleProduct(Request):
    """One role for every one of these subjects in every one of these scopes."""

    role_id: Annotated[RoleId, Field(examples=["researcher"])]
    cluster_id: ShortText | None = None
    subjects: Annotated[list[RuleSubject], Field(min_length=1, max_length=100)]
    scopes: Annotated[list[RuleScope], Field(min_length=1, max_length=100)]


class AccessRuleBatchAction(StrEnum):
    """A batch action for access rules."""

    DELETE = "delete"
    VALIDATE_DELETE = "validate_delete"
    """Say for each of them whether it could be deleted."""


RuleId = Annotated[int, Field(strict=True, ge=1, lt=2**53)] | ShortText


class AccessRuleBatch(Request):
    """`POST …/access-rules/batch`: delete several access rules; each succeeds or fails on its own."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"ids": ["7a0d4b9e-5c1f-4f0e-9d63-0f8d2f1a7c11"], "action": "delete"}]}
    )
    ids: Annotated[list[RuleId], Field(min_length=1, max_length=1000)]
    action: AccessRuleBatchAction


class AccessRuleBatchCreate(Request):
    """`POST …/access-rules/batch-create`: create several access rules; each succeeds or fails on its own."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "payload": [
                        {"subjectId": "ann@example.com", "roleId": "researcher", "scopeId": "team-a"},
                        {"subjectId": "ben@example.com", "roleId": "researcher", "scopeId": "team-a"},
                    ]
                }
            ]
        }
    )
    payload: Annotated[list[AccessRuleRequest], Field(min_length=1, max_length=1000)] | AccessRuleProduct


class AccessRuleBatchFailure(Answer):
    """A rule that could not be deleted or created."""

    id: Annotated[str, Field(description="The id of the rule; for batch-create, its position in the list")]
    code: int
    message: str
    payload: dict[str, Any] | None = None
    """For batch-create with subjects and scopes: the rule."""


class AccessRuleBatchAnswer(Answer):
    """The result for each rule."""

    id: str = ""
    """Of the batch."""
    succeeded: Annotated[
        list[str] | list[AccessRule],
        Field(
            description="Ids of the rules that were deleted or created; the rules, if subjects and scopes were given"
        ),
    ]
    failed: list[AccessRuleBatchFailure]


class Me(Answer):
    """The current user or application."""

    id: str
    username: str
    subject_type: SubjectType
    roles: list[str]
    groups: list[str] = Field(default_factory=list)
    """Of the identity provider, as it told at the last sign-in."""
    access_rules: list[AccessRule] = Field(default_factory=list)
    permissions: list[str] = Field(default_factory=list)
    must_change_password: bool = False
    has_password: bool = True
    access_key_id: Annotated[
        str | None, Field(description="The access key that signed in: it may permit less than the roles")
    ] = None
    support_contact: Annotated[
        str | None, Field(description="Contact for help, as a link: mailto:, https: or http:")
    ] = None
    support_feedback: Annotated[str | None, Field(description="Where to send feedback, as a link")] = None
