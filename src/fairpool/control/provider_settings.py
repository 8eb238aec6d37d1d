"""What is stored of an identity provider, read: where it is, our secret there, and which claim has what."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from starlette.requests import Request

from fairpool.api.identity_providers import MandatoryClaim, MappersAnswer, ProviderType
from fairpool.api.wire import parse_json
from fairpool.control import oidc
from fairpool.control.plane import Plane
from fairpool.control.provider_client import OidcProvider, SamlProvider
from fairpool.control.provider_error import ProviderError
from fairpool.control.provider_identity import defaults_filled
from fairpool.control.saml import SamlMetadata
from fairpool.control.sealing import KeyUnusable, SealingKey

SECRET = "clientSecret"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """An identity provider, as it is configured."""

    alias: str
    mappers: MappersAnswer
    mandatory_claim: MandatoryClaim | None
    oidc: OidcProvider | None
    """None: it speaks SAML."""
    saml: SamlProvider | None

    @property
    def wanted_claims(self) -> tuple[str, ...]:
        """The claims that say who an account is and whether it may sign in."""
        named = (self.mandatory_claim.claim,) if self.mandatory_claim is not None else ()
        return (*self.mappers.model_dump().values(), *named)


def provider_settings(plane: Plane, row: Any) -> ProviderSettings:
    """Raises `ProviderError` if its secret cannot be read."""
    document = parse_json(row.document.encode())
    is_oidc = row.type == ProviderType.OIDC.value
    return ProviderSettings(
        alias=row.alias,
        mappers=mappers_of(row),
        mandatory_claim=mandatory_claim_of(row),
        oidc=_oidc(plane, row, document) if is_oidc else None,
        saml=None if is_oidc else _saml(row, document),
    )


def mappers_of(row: Any) -> MappersAnswer:
    return defaults_filled(parse_json(row.document.encode())["mappers"], row.type)


def mandatory_claim_of(row: Any) -> MandatoryClaim | None:
    said = parse_json(row.document.encode()).get("mandatoryClaim")
    return MandatoryClaim.model_validate(said) if said else None


def _oidc(plane: Plane, row: Any, document: dict[str, Any]) -> OidcProvider:
    scopes = oidc.scopes_of(document["scopes"])
    client = oidc.OidcClient(id=document["clientId"], secret=unsealed_secret(plane, row), scopes=scopes)
    return OidcProvider(alias=row.alias, discovery_url=document["discoverDocumentUrl"], client=client)


def _saml(row: Any, document: dict[str, Any]) -> SamlProvider:
    return SamlProvider(
        alias=row.alias,
        entity_id=document["entityId"],
        metadata_url=document["metadataXmlUrl"] or "",
        stored=stored_metadata(document),
    )


def metadata_document(metadata: SamlMetadata) -> dict[str, Any]:
    """What is stored of a SAML provider's metadata."""
    return asdict(metadata)


def stored_metadata(document: dict[str, Any]) -> SamlMetadata:
    said = document["metadata"]
    return SamlMetadata(**{**said, "certificates": tuple(said["certificates"])})


def sealed_secret(key: SealingKey, alias: str, secret: str) -> str:
    return key.seal({SECRET: secret.encode()}, _bound_to(alias))


def unsealed_secret(plane: Plane, row: Any) -> str:
    """Raises `ProviderError`."""
    key = readable_key(plane)
    values = key.unseal(row.sealed, _bound_to(row.alias)) if key is not None else None
    if values is None:
        what = f"the client secret of {row.alias} cannot be decrypted: the key that it was encrypted with is missing"
        raise ProviderError(what, "store it again (runai-adm identity-provider update)", "idp.unreadable")
    return values[SECRET].decode()


def readable_key(plane: Plane) -> SealingKey | None:
    """The key that secrets were encrypted with, if there is one that can be read."""
    try:
        return plane.key_file.existing()
    except KeyUnusable:
        return None


def _bound_to(alias: str) -> str:
    return f"identity provider {alias}"


def base_address(request: Request) -> str:
    """Of this server, as the caller reaches it; the host name was checked (`host_check.py`)."""
    return f"{request.url.scheme}://{request.headers.get('host', '')}"


def provider_path(alias: str, word: str = "") -> str:
    """Where a provider and the browsers that come from it find this server."""
    return f"/sign-in/with/{alias}{f'/{word}' if word else ''}"
