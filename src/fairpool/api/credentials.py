"""Credentials: values that pods get by reference. No answer contains a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import ConfigDict, Field, StrictBool, StringConstraints

from fairpool.api.assets import AssetScope, AssetStatus, AssetUse, ProjectReference
from fairpool.api.limits import SECRET_KEYS_MAX, SECRET_MAX_BYTES
from fairpool.api.older_form import OlderForm
from fairpool.api.pod_spec import CredentialName, SecretKey
from fairpool.api.wire import Answer, LongText, Moment, Page, Request, ShortText
from fairpool.model.ids import WorkloadId
from fairpool.model.secret import CredentialKind

CLUSTER_SECRETS: Final = "/api/v1/cluster/secrets"

# Without a pattern: a refusal says what does not match one, and this must not be shown.
SecretText = Annotated[str, StringConstraints(max_length=SECRET_MAX_BYTES)]
ENCODED_MAX = SECRET_MAX_BYTES // 3 * 4 + 4


class CredentialMeta(OlderForm):
    """Name and scope of a credential."""

    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = {"autoDelete": False, "private": False}

    name: CredentialName
    scope: AssetScope
    cluster_id: ShortText | None = Field(default=None, description="For the scope cluster: its id or name")
    department_id: ShortText | None = Field(default=None, description="For the scope department")
    project_id: ProjectReference | None = Field(default=None, description="For the scope project")
    description: LongText = ""


class CredentialChangeMeta(CredentialMeta):
    """Description of a credential that is replaced. Its name and scope stay; they can be left out."""

    name: CredentialName | None = None  # type: ignore[assignment]
    scope: AssetScope | None = None  # type: ignore[assignment]


class CredentialSpec(OlderForm):
    """The values of a credential, by its type: user and password for `password` and `git`, with url for
    `docker-registry`; accessKeyId and secretAccessKey; ngcApiKey; data for `generic-secret`."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {"ngc_api_key": "ngcApiKey"}

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

    @classmethod
    def own_form(cls, given: dict[str, Any]) -> dict[str, Any]:
        """`keyValuePairs` is `data`; a key that is given twice is refused as unknown."""
        pairs = given.get("keyValuePairs")
        if not isinstance(pairs, list) or not all(isinstance(each, Mapping) and "key" in each for each in pairs):
            return given
        data = {str(each["key"]): each.get("value") for each in pairs}
        rest = {key: value for key, value in given.items() if key != "keyValuePairs"}
        return {**rest, "data": data} if len(data) == len(pairs) and "data" not in given else given


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


class CredentialChange(CredentialRequest):
    """New values or another description of a credential."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"meta": {"description": "For the hub"}}]})

    meta: CredentialChangeMeta = Field(default_factory=CredentialChangeMeta)


class CredentialMetaAnswer(Answer):
    """Name and scope of a credential, as stored; with who wrote it, as older clients expect it here."""

    id: str = ""
    kind: str = Field(default="", description="The type in the words of the original: `accessKey`")
    name: str
    scope: AssetScope
    cluster_id: str | None = None
    department_id: str | None = None
    project_id: int | None = Field(default=None, description="The number of the project")
    project_name: str | None = None
    description: str | None = None
    created_by: str = ""
    created_at: Moment = ""
    updated_by: str = ""
    updated_at: Moment = ""


class CredentialKeyAnswer(Answer):
    """One key of a credential."""

    name: str
    bytes: int
    is_text: bool


class CredentialKeyName(Answer):
    """A key, as older clients expect it."""

    key: str


class CredentialSpecAnswer(Answer):
    """What may be shown of a credential: never a secret value."""

    user: str | None = None
    url: str | None = None
    access_key_id: str | None = None
    secret_keys: list[CredentialKeyAnswer]
    key_value_pairs: list[CredentialKeyName] | None = Field(default=None, description="Of a generic secret")
    key_id: int = Field(default=0, description="Which key its value is encrypted with")


class CredentialResource(Answer):
    """The name by which workloads refer to a credential."""

    name: str


class CredentialResources(Answer):
    """What workloads refer to."""

    resources: list[CredentialResource]


class StoredCredential(Answer):
    """A credential, as stored."""

    id: str
    kind: CredentialKind
    meta: CredentialMetaAnswer
    spec: CredentialSpecAnswer
    cluster_wide: bool
    phase: str = Field(description="Ready, or Unreadable: its value was encrypted with a key that is not here")
    status: AssetStatus
    cluster_info: CredentialResources
    used_by: AssetUse | None = Field(default=None, description="With `usageInfo=true`: the workloads that refer to it")
    created_by: str
    created_at: Moment
    updated_at: Moment
    revision: int


class CredentialPage(Page):
    """Credentials, by name."""

    entries: list[StoredCredential]


class ListedSpec(CredentialSpecAnswer):
    """What may be shown of a credential, and the same under the original's word for its type."""

    access_key: CredentialSpecAnswer | None = None
    password: CredentialSpecAnswer | None = None
    docker_registry: CredentialSpecAnswer | None = None
    generic_secret: CredentialSpecAnswer | None = None
    ngc_api_key: CredentialSpecAnswer | None = None


class ListedCredential(StoredCredential):
    """A credential in the list of all types."""

    spec: ListedSpec


class MixedPage(Page):
    """Credentials of all types, by name."""

    entries: list[ListedCredential]


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
