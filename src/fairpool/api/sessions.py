"""Sessions, the keys that tokens are signed with, and the discovery document, as requests and answers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool

from fairpool.api.access import SubjectType
from fairpool.api.wire import Answer, Moment, Page, Request


class SignInMethod(StrEnum):
    """How a session began."""

    PASSWORD = "password"
    IDENTITY_PROVIDER = "identity-provider"
    BROWSER = "browser"
    """A command that a signed-in browser let in."""
    DEVICE_CODE = "device-code"
    ACCESS_KEY = "access-key"
    SECRET = "secret"
    """Of an application or service account."""
    OWNER = "owner"
    """The user who runs the server, on its machine."""


class SessionItem(Answer):
    """What came of one sign-in."""

    id: str
    subject_id: str
    subject_type: SubjectType
    subject_name: str
    kind: Annotated[str, Field(description="`browser`, or `token` for commands and programs", examples=["token"])]
    method: Annotated[SignInMethod | None, Field(description="How it began; absent if an earlier version began it")] = (
        None
    )
    client: Annotated[str, Field(description="As the program calls itself", examples=["runai/1.0"])]
    source_ip: Annotated[str, Field(description="Where the session began", examples=["192.0.2.7"])]
    access_key_id: Annotated[str | None, Field(description="The access key that signed in, if it was one")] = None
    created_at: Moment
    last_used_at: Moment
    expires_at: Annotated[Moment | None, Field(description="It ends then at the latest; absent: no limit")] = None
    is_current: Annotated[bool, Field(description="Whether this request belongs to it")] = False


class SessionPage(Page):
    """Sessions, the latest first."""

    sessions: list[SessionItem]


class EndedSessions(Answer):
    """How many sessions ended."""

    ended: int


class TokenKeyAnswer(Answer):
    """A key that access tokens are signed with."""

    id: Annotated[str, Field(examples=["fairpool-4bb642630a93ebd4"])]
    algorithm: Annotated[str, Field(examples=["ES256"])]
    created_at: Moment
    published_until: Annotated[Moment | None, Field(description="Absent: it signs new tokens")] = None


class KubernetesToken(Answer):
    """An ID token for the API server of one Kubernetes cluster. This server does not accept it."""

    token: Annotated[str, Field(description="A JWT, signed with a key of /.well-known/jwks.json")]
    audience: Annotated[
        str,
        Field(
            description="The value of --oidc-client-id of that API server",
            examples=["fairpool-kubernetes:6c1d6d45-9c3a-4c8b-9f0f-0f6b1f8a2c55"],
        ),
    ]
    expires_at: Moment


class TokenKeyPage(Page):
    """Keys; the first one signs."""

    keys: list[TokenKeyAnswer]


class RotationRequest(Request):
    """`POST /api/v1/security/token-keys/rotate`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"overlap": True}]})
    overlap: StrictBool = True
    """Tokens signed with the present key stay valid until they expire. False: they end at once, as after a theft."""


class KeySet(Answer):
    """Public keys (RFC 7517)."""

    model_config = ConfigDict(alias_generator=None)

    keys: Annotated[
        list[dict[str, Any]],
        Field(examples=[[{"kty": "EC", "crv": "P-256", "kid": "fairpool-4bb642630a93ebd4", "x": "…", "y": "…"}]]),
    ]


class Discovery(Answer):
    """Metadata of the token issuer (RFC 8414, OpenID Connect Discovery)."""

    model_config = ConfigDict(alias_generator=None)

    issuer: Annotated[str, Field(examples=["https://gpu.example.com"])]
    jwks_uri: str
    token_endpoint: str
    userinfo_endpoint: str
    grant_types_supported: list[str]
    response_types_supported: list[str]
    subject_types_supported: list[str]
    id_token_signing_alg_values_supported: list[str]
    token_endpoint_auth_methods_supported: list[str]
    claims_supported: list[str]
    scopes_supported: list[str]


class UserInfo(Answer):
    """Claims about the caller (OpenID Connect)."""

    model_config = ConfigDict(alias_generator=None)

    sub: str
    preferred_username: str
    email: str | None = None
