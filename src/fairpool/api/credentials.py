"""Credentials: values that pods get by reference. No answer contains a value."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, StrictBool, StringConstraints

from fairpool.api.assets import AssetScope
from fairpool.api.limits import SECRET_KEYS_MAX, SECRET_MAX_BYTES
from fairpool.api.pod_spec import CredentialName, SecretKey
from fairpool.api.wire import Answer, LongText, Moment, Page, Request, ShortText
from fairpool.model.ids import WorkloadId
from fairpool.model.secret import CredentialKind

CLUSTER_SECRETS: Final = "/api/v1/cluster/secrets"

# Without a pattern: a refusal says what does not match one, and this must not be shown.
SecretText = Annotated[str, StringConstraints(max_length=SECRET_MAX_BYTES)]
ENCODED_MAX = SECRET_MAX_BYTES // 3 * 4 + 4


class CredentialMeta(Request):
    """Name and scope of a credential."""

    name: CredentialName
    scope: AssetScope
    cluster_id: ShortText | None = Field(default=None, description="For the scope cluster: its id or name")
    department_id: ShortText | None = Field(default=None, description="For the scope department")
    project_id: ShortText | None = Field(default=None, description="For the scope project")
    description: LongText = ""


class CredentialSpec(Request):
    """The values of a credential, by its type: user and password for `password` and `git`, with url for
    `docker-registry`; accessKeyId and secretAccessKey; ngcApiKey; data for `generic-secret`."""

    user: ShortText | None = None
    password: SecretText | None = Field(default=None, repr=False)
    url: ShortText | None = Field(default=None, description="Host of the registry", examples=["registry.example.com"])
    access_key_id: ShortText | None = None
    secret_access_key: SecretText | None = Field(default=None, repr=False)
    ngc_api_key: SecretText | None = Field(default=None, repr=False)
    data: dict[SecretKey, SecretText] | None = Field(
        default=None, repr=False, max_length=SECRET_KEYS_MAX, description="Keys and values of a generic secret, as text"
    )
    binary_data: dict[SecretKey, Annotated[str, StringConstraints(max_length=ENCODED_MAX)]] | None = Field(
        default=None, repr=False, max_length=SECRET_KEYS_MAX, description="More of them, in base64"
    )
    existing_secret_name: ShortText | None = Field(default=None, description="Refused: only for Kubernetes clusters")


_EXAMPLE: dict[str, Any] = {
    "meta": {"name": "hf-token", "scope": "project", "projectId": "team-a"},
    "spec": {"data": {"token": "hf_0000"}},
}


class CredentialRequest(Request):
    """A credential."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    meta: CredentialMeta
    spec: CredentialSpec | None = Field(default=None, description="To replace one: without it the values stay")
    cluster_wide: StrictBool | None = Field(
        default=None, description="Every project can use it, whatever its scope; default: as it was, at first not"
    )


class CredentialMetaAnswer(Answer):
    """Name and scope of a credential, as stored."""

    name: str
    scope: AssetScope
    cluster_id: str | None = None
    department_id: str | None = None
    project_id: str | None = None
    description: str = ""


class CredentialKeyAnswer(Answer):
    """One key of a credential."""

    name: str
    bytes: int
    is_text: bool


class CredentialSpecAnswer(Answer):
    """What may be shown of a credential: never a secret value."""

    user: str | None = None
    url: str | None = None
    access_key_id: str | None = None
    secret_keys: list[CredentialKeyAnswer]


class StoredCredential(Answer):
    """A credential, as stored."""

    id: str
    kind: CredentialKind
    meta: CredentialMetaAnswer
    spec: CredentialSpecAnswer
    cluster_wide: bool
    status: str = Field(description="Ready, or Unreadable: its value was encrypted with a key that is not here")
    created_by: str
    created_at: Moment
    updated_at: Moment
    revision: int


class CredentialPage(Page):
    """Credentials, by name."""

    entries: list[StoredCredential]


# --- where pods start: called by clusters ---------------------------------------------------------------------------


class SecretsRequest(Request):
    """Asks for the values that a pod of a workload needs; a workload's declaration says which it may have."""

    workload: WorkloadId = Field(max_length=64)
    names: Annotated[list[CredentialName], Field(max_length=1024)] = Field(default_factory=list)
    registry: ShortText = Field(default="", description="The host that an image is pulled from")


class SecretAnswer(Answer):
    """The values of a credential."""

    name: str
    kind: CredentialKind
    data: dict[str, str] = Field(repr=False, description="In base64")


class MissingSecret(Answer):
    """Why a value is not there."""

    code: str
    what: str
    fix: str


class SecretsAnswer(Answer):
    """Values for a pod."""

    secrets: list[SecretAnswer] = Field(repr=False)
    missing: list[MissingSecret] = Field(default_factory=list)
    registry: SecretAnswer | None = Field(default=None, repr=False)
