"""Identity providers for single sign-on, as requests and answers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from fairpool.api.limits import NAME_PATTERN
from fairpool.api.wire import Answer, Moment, Request, ShortText

ALIAS_MAX = 63
METADATA_MAX = 256 * 1024
"""Characters of a metadata document that is uploaded."""
Url = Annotated[str, StringConstraints(min_length=1, max_length=2048, pattern=r"^[^\x00-\x20\x7f]*$")]
Secret = Annotated[str, StringConstraints(max_length=1024)]
ClaimName = Annotated[str, StringConstraints(max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$")]
Scope = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[\x21\x23-\x5b\x5d-\x7e]+$")]


class ProviderType(StrEnum):
    """How a provider is spoken to. `openshift-v4` is known from older clients and refused."""

    OIDC = "oidc"
    SAML = "saml"
    OPENSHIFT = "openshift-v4"


class Mappers(Request):
    """Which claim, or which SAML attribute, has what. Empty: the default."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"email": "email", "groups": "groups", "uid": "UID"}]})
    email: ClaimName | None = None
    groups: ClaimName | None = None
    uid: ClaimName | None = None
    gid: ClaimName | None = None
    supplementary_groups: ClaimName | None = None


class MappersAnswer(Answer):
    """Which claim, or which SAML attribute, has what."""

    email: str
    groups: str
    uid: str
    gid: str
    supplementary_groups: str


class MandatoryClaim(Request):
    """Only accounts of the provider whose claim has one of these values may sign in."""

    claim: Annotated[ClaimName, Field(min_length=1)]
    values: Annotated[list[Annotated[ShortText, Field(min_length=1)]], Field(min_length=1, max_length=100)]


class OidcRequest(Request):
    """How to reach an OpenID Connect provider."""

    client_id: Annotated[ShortText, Field(min_length=1, examples=["fairpool"])]
    client_secret: Secret | None = None
    """Needed for a new provider. For one that exists: none keeps the stored one."""
    discover_document_url: Annotated[
        Url, Field(examples=["https://id.example.com/realms/company/.well-known/openid-configuration"])
    ]
    scopes: Annotated[list[Scope], Field(max_length=32)] | None = None
    mandatory_claim: MandatoryClaim | None = None


class MetadataType(StrEnum):
    """Where the metadata of a SAML provider comes from."""

    URL = "url"
    FILE = "file"


class SamlRequest(Request):
    """How to reach a SAML 2.0 provider."""

    metadata_xml_type: MetadataType = MetadataType.URL
    metadata_xml_url: Url | None = None
    metadata_xml_file: Annotated[str, StringConstraints(max_length=METADATA_MAX)] | None = None
    """The document itself, as text or in base64. For a provider that exists: none keeps the stored one."""
    file_name: ShortText | None = None
    entity_id: ShortText | None = None
    """The name under which the provider knows this platform. For a new provider, none is the address of our SAML
    metadata; for one that exists, none keeps the stored one."""


class IdentityProviderRequest(Request):
    """A new or changed identity provider."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "company",
                    "type": "oidc",
                    "oidcData": {
                        "clientId": "fairpool",
                        "clientSecret": "…",
                        "discoverDocumentUrl": "https://id.example.com/.well-known/openid-configuration",
                    },
                }
            ]
        }
    )
    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=ALIAS_MAX)] | None = None
    type: ProviderType
    oidc_data: OidcRequest | None = None
    saml_data: SamlRequest | None = None
    ocp_data: dict[str, object] | None = None
    mappers: Mappers | None = None


class IdentityProviderName(Answer):
    """The name that was given to a new provider."""

    alias: str


class OidcAnswer(Answer):
    """An OpenID Connect provider. Its secret is never shown: the field is empty."""

    client_id: str
    client_secret: str = ""
    discover_document_url: str
    issuer: str
    scopes: list[str]
    mandatory_claim: MandatoryClaim | None = None
    logout_uri: str
    """Where the provider sends back-channel logouts."""


class SamlAnswer(Answer):
    """A SAML 2.0 provider."""

    metadata_xml_type: MetadataType
    metadata_xml_url: str | None = None
    file_name: str | None = None
    issuer: str
    single_sign_on_service_url: str
    signing_certificate: str
    """The first one, as it was when the provider was added or changed. Metadata by URL is read again at sign-in."""
    entity_id: str
    service_provider_metadata_url: str


class IdentityProvider(Answer):
    """An identity provider."""

    alias: str
    type: ProviderType
    redirect_uri: str
    """To be registered at the provider. It begins with the address of this request."""
    oidc_data: OidcAnswer | None = None
    saml_data: SamlAnswer | None = None
    mappers: MappersAnswer
    status: Annotated[str, Field(description="Ready, or Unreadable if the key of its secret is missing")] = "Ready"
    created_by: str
    created_at: Moment
    updated_at: Moment


class ProviderCheck(Answer):
    """One step of a test of a provider."""

    what: str
    problem: str | None = None
    fix: str | None = None


class ProviderTest(Answer):
    """What a test of a provider found."""

    alias: str
    works: bool
    checks: list[ProviderCheck]


class ProviderLinkRequest(Request):
    """Lets an account of the provider sign in as a user who exists already."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"user": "ann@example.com", "subject": "f81d4fae"}]})
    user: Annotated[ShortText, Field(min_length=1)]
    """Their email address or ID."""
    subject: Annotated[ShortText, Field(min_length=1)]
    """The provider's ID of the account. The refused sign-in shows it."""
