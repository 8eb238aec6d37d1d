"""SAML 2.0: what a provider says about itself, the way to it, and what its responses must satisfy.

It makes no request itself and has no clock (`control/provider_client.py` fetches, `control/saml_sign_in.py`
receives), so that what is accepted can be read here in one place. Web browser SSO profile: the request leaves by a
redirect, the response comes by a form that the browser posts. Responses that were not asked for are refused (they
cannot be told from a sign-in that an attacker began), and encrypted ones, for which this platform publishes no key.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final
from urllib.parse import urlencode

from fairpool.control.provider_error import ProviderError, UnknownKey, unusable
from fairpool.control.xml_signature import (
    DS,
    Element,
    NotAccepted,
    OtherKey,
    is_signed,
    only,
    parsed,
    public_key,
    text_of,
    verified,
)

PROTOCOL: Final = "urn:oasis:names:tc:SAML:2.0:protocol"
ASSERTION: Final = "urn:oasis:names:tc:SAML:2.0:assertion"
METADATA: Final = "urn:oasis:names:tc:SAML:2.0:metadata"
P, A, M = f"{{{PROTOCOL}}}", f"{{{ASSERTION}}}", f"{{{METADATA}}}"
REDIRECT: Final = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
POST: Final = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
BEARER: Final = "urn:oasis:names:tc:SAML:2.0:cm:bearer"
SUCCESS: Final = "urn:oasis:names:tc:SAML:2.0:status:Success"
UNSPECIFIED: Final = "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified"
PERSISTENT: Final = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
TRANSIENT: Final = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
EMAIL: Final = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
SKEW_S: Final = 60
"""How far the clocks of provider and platform may be apart."""
RESPONSE_MAX: Final = 256 * 1024
METADATA_MAX_BYTES: Final = 1024 * 1024
CERTIFICATES_MAX: Final = 16
IDENTIFIER_MAX: Final = 1024
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamlMetadata:
    """What a provider says about itself."""

    issuer: str
    sign_in_url: str
    certificates: tuple[str, ...]
    """In base64. Several, while the provider changes its key."""
    valid_until_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProvider:
    """This platform, as the provider knows it."""

    entity_id: str
    acs_url: str
    """Where the browser brings responses (assertion consumer service)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """What a provider says about the account that signed in."""

    id: str
    in_response_to: str
    subject: str
    email: str
    """The name of the account, where the provider says that it is an email address."""
    claims: Mapping[str, Sequence[str]]
    session: str
    expires_at_s: int
    session_ends_at_s: int | None = None
    """When the provider wants its own session to be over at the latest."""


# --- metadata --------------------------------------------------------------------------------------------------------


def read_metadata(content: bytes, now_s: int) -> SamlMetadata:
    """The metadata of one identity provider. Raises `ProviderError`."""
    try:
        if len(content) > METADATA_MAX_BYTES:
            raise NotAccepted("it is too large")
        found = _metadata(parsed(content))
    except NotAccepted as error:
        raise unusable(f"its metadata is not accepted: {error}") from error
    check_validity(found, now_s)
    return found


def check_validity(metadata: SamlMetadata, now_s: int) -> None:
    """Raises `ProviderError` if the provider's metadata was meant for the time until now only."""
    if metadata.valid_until_s is not None and metadata.valid_until_s + SKEW_S <= now_s:
        raise unusable("its metadata has expired")


def _metadata(root: Element) -> SamlMetadata:
    described = [each for each in root.iter(f"{M}EntityDescriptor") if each.find(f"{M}IDPSSODescriptor") is not None]
    if len(described) != 1:
        raise NotAccepted(f"it describes {len(described) or 'no'} identity provider{'s' * (len(described) > 1)}")
    entity, role = described[0], only(described[0], f"{M}IDPSSODescriptor")
    issuer = entity.get("entityID", "")
    if not 0 < len(issuer) <= IDENTIFIER_MAX or not issuer.isprintable():
        raise NotAccepted("it has no entityID")
    until = [_moment(each.get("validUntil")) for each in (entity, role, root) if each.get("validUntil") is not None]
    return SamlMetadata(
        issuer=issuer,
        sign_in_url=_sign_in_url(role),
        certificates=_certificates(role),
        valid_until_s=min(until, default=None),
    )


def _sign_in_url(role: Element) -> str:
    for each in role.findall(f"{M}SingleSignOnService"):
        url = each.get("Location", "")
        if each.get("Binding") == REDIRECT and url.startswith(("https://", "http://")) and url.isprintable():
            return str(url)
    raise NotAccepted("it has no SingleSignOnService with the binding HTTP-Redirect")


def _certificates(role: Element) -> tuple[str, ...]:
    keys = [each for each in role.findall(f"{M}KeyDescriptor") if each.get("use", "signing") == "signing"]
    listed = [text_of(each) for key in keys for each in key.iter(f"{DS}X509Certificate")]
    found = tuple(dict.fromkeys("".join(each.split()) for each in listed))
    if not 0 < len(found) <= CERTIFICATES_MAX:
        raise NotAccepted(f"it has {len(found) or 'no'} signing certificates")
    for each in found:
        public_key(each)
    return found


def platform_metadata(platform: ServiceProvider) -> str:
    """What to import at the provider."""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<md:EntityDescriptor xmlns:md="{METADATA}" '
        f'entityID="{escape(platform.entity_id)}">\n  <md:SPSSODescriptor AuthnRequestsSigned="false" '
        f'WantAssertionsSigned="true" protocolSupportEnumeration="{PROTOCOL}">\n'
        f"    <md:NameIDFormat>{PERSISTENT}</md:NameIDFormat>\n"
        f'    <md:AssertionConsumerService Binding="{POST}" Location="{escape(platform.acs_url)}" index="0" '
        'isDefault="true"/>\n  </md:SPSSODescriptor>\n</md:EntityDescriptor>\n'
    )


# --- the way there --------------------------------------------------------------------------------------------------


def sign_in_url(
    metadata: SamlMetadata, platform: ServiceProvider, request_id: str, relay_state: str, now_s: int
) -> str:
    """Where the browser goes to sign in."""
    moment = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    request = (
        f'<samlp:AuthnRequest xmlns:samlp="{PROTOCOL}" xmlns:saml="{ASSERTION}" ID="{escape(request_id)}" '
        f'Version="2.0" IssueInstant="{moment}" Destination="{escape(metadata.sign_in_url)}" '
        f'ProtocolBinding="{POST}" AssertionConsumerServiceURL="{escape(platform.acs_url)}">'
        f"<saml:Issuer>{escape(platform.entity_id)}</saml:Issuer>"
        f'<samlp:NameIDPolicy Format="{UNSPECIFIED}" AllowCreate="true"/></samlp:AuthnRequest>'
    )
    deflated = zlib.compress(request.encode())[2:-4]  # without the header and checksum of zlib
    query = urlencode({"SAMLRequest": base64.b64encode(deflated).decode(), "RelayState": relay_state})
    joint = "&" if "?" in metadata.sign_in_url else "?"
    return f"{metadata.sign_in_url}{joint}{query}"


# --- the way back ---------------------------------------------------------------------------------------------------


def read_response(encoded: object, metadata: SamlMetadata, platform: ServiceProvider, now_s: int) -> Assertion:
    """What a response says, if the provider signed it for this platform and for now. Raises `ProviderError`.

    That it answers a request of the same browser, and was not used before, is for the caller to check.
    """
    if not isinstance(encoded, str) or not 0 < len(encoded) <= RESPONSE_MAX:
        raise ProviderError("the identity provider sent no response, or one that is too large")
    try:
        response = parsed(base64.b64decode("".join(encoded.split()), validate=True))
        _check_response(response, metadata, platform)
        assertion = _signed_assertion(response, metadata)
        return _read(assertion, metadata, platform, now_s)
    except OtherKey as error:
        raise UnknownKey(f"the response of the identity provider is not accepted: {error}") from error
    except (NotAccepted, ValueError) as error:
        why = error if isinstance(error, NotAccepted) else "it is not base64"
        raise ProviderError(f"the response of the identity provider is not accepted: {why}") from error


def _check_response(response: Element, metadata: SamlMetadata, platform: ServiceProvider) -> None:
    if response.tag != f"{P}Response" or response.get("Version") != "2.0":
        raise NotAccepted("it is not a response of SAML 2.0")
    _check_status(response)
    if response.get("Destination", platform.acs_url) != platform.acs_url:
        raise NotAccepted("it was sent to another address")
    issuer = response.find(f"{A}Issuer")
    if issuer is not None and text_of(issuer).strip() != metadata.issuer:
        raise NotAccepted("it comes from another provider")
    identifiers = [each.get("ID") for each in response.iter("*") if each.get("ID") is not None]
    if len(set(identifiers)) != len(identifiers):
        raise NotAccepted("two of its elements have the same ID")


def _check_status(response: Element) -> None:
    codes = [each.get("Value", "") for each in only(response, f"{P}Status").iter(f"{P}StatusCode")]
    if not codes or codes[0] != SUCCESS:
        word = codes[-1].rpartition(":")[2][:64] if codes else "no status"
        raise ProviderError(f"the identity provider did not let you in ({word})", "try again")


def _signed_assertion(response: Element, metadata: SamlMetadata) -> Element:
    """The assertion as it was signed, by itself or with the response around it. Every signature has to be right."""
    if next(response.iter(f"{A}EncryptedAssertion"), None) is not None:
        raise NotAccepted("it is encrypted, which is not supported")
    if sum(1 for _ in response.iter(f"{A}Assertion")) != 1:
        raise NotAccepted("it does not contain exactly one assertion")
    assertion = only(response, f"{A}Assertion")
    owners = [each.getparent() for each in response.iter(f"{DS}Signature")]
    if not owners:
        raise NotAccepted("it is not signed")
    if any(each is not response and each is not assertion for each in owners):
        raise NotAccepted("it has a signature outside of the response and its assertion")
    keys = [public_key(each) for each in metadata.certificates]
    signed_response = verified(response, keys) if is_signed(response) else None
    if is_signed(assertion):
        return verified(assertion, keys)
    assert signed_response is not None
    return only(signed_response, f"{A}Assertion")


def _read(assertion: Element, metadata: SamlMetadata, platform: ServiceProvider, now_s: int) -> Assertion:
    if assertion.tag != f"{A}Assertion" or assertion.get("Version") != "2.0":
        raise NotAccepted("it is not an assertion of SAML 2.0")
    if text_of(only(assertion, f"{A}Issuer")).strip() != metadata.issuer:
        raise NotAccepted("it comes from another provider")
    identifier = assertion.get("ID", "")
    if not 0 < len(identifier) <= IDENTIFIER_MAX:
        raise NotAccepted("its assertion has no ID")
    _check_conditions(only(assertion, f"{A}Conditions"), platform, now_s)
    subject = only(assertion, f"{A}Subject")
    asked, until_s = _confirmed(subject, platform, now_s)
    name = only(subject, f"{A}NameID")
    if name.get("Format") == TRANSIENT:
        raise NotAccepted("its name ID is transient; ask your administrator to configure a persistent one")
    account = text_of(name).strip()
    session, ends_at_s = _session(assertion, now_s)
    return Assertion(
        id=identifier,
        in_response_to=asked,
        subject=account,
        email=account if name.get("Format") == EMAIL else "",
        claims=_attributes(assertion),
        session=session,
        expires_at_s=until_s + SKEW_S,
        session_ends_at_s=ends_at_s,
    )


def _check_conditions(conditions: Element, platform: ServiceProvider, now_s: int) -> None:
    _check_time(conditions, now_s)
    restrictions = conditions.findall(f"{A}AudienceRestriction")
    if not restrictions:
        raise NotAccepted("its assertion has no AudienceRestriction")
    for each in restrictions:
        if platform.entity_id not in [text_of(audience).strip() for audience in each.findall(f"{A}Audience")]:
            raise NotAccepted("its audience is not the entity ID of this platform")
    known = {f"{A}AudienceRestriction", f"{A}OneTimeUse", f"{A}ProxyRestriction"}
    if {each.tag for each in conditions} - known:
        raise NotAccepted("it has a condition that is not known")


def _confirmed(subject: Element, platform: ServiceProvider, now_s: int) -> tuple[str, int]:
    """The request that is answered, and until when the answer is good."""
    problem = NotAccepted("it has no bearer confirmation")
    for each in subject.findall(f"{A}SubjectConfirmation"):
        data = each.find(f"{A}SubjectConfirmationData")
        if each.get("Method") != BEARER or data is None:
            continue
        try:
            return _bearer(data, platform, now_s)
        except NotAccepted as error:
            problem = error
    raise problem


def _bearer(data: Element, platform: ServiceProvider, now_s: int) -> tuple[str, int]:
    if data.get("Recipient") != platform.acs_url:
        raise NotAccepted("its Recipient is not the ACS URL of this platform")
    _check_time(data, now_s)
    asked = data.get("InResponseTo", "")
    if not asked:
        raise NotAccepted("it has no InResponseTo: a sign-in cannot start at the provider")
    return asked, _moment(data.get("NotOnOrAfter"))


def _check_time(element: Element, now_s: int) -> None:
    """An assertion says until when it is good in one place or both, and the confirmation always does."""
    early, late = element.get("NotBefore"), element.get("NotOnOrAfter")
    if early is not None and _moment(early) > now_s + SKEW_S:
        raise NotAccepted("it is not valid yet; the clocks of provider and platform may differ")
    if late is not None and _moment(late) <= now_s - SKEW_S:
        raise NotAccepted("it has expired; the clocks of provider and platform may differ")


def _session(assertion: Element, now_s: int) -> tuple[str, int | None]:
    """The provider's own session, and when it ends at the latest, if that is said."""
    statements = assertion.findall(f"{A}AuthnStatement")
    if not statements:
        raise NotAccepted("it has no AuthnStatement")
    said = [each.get("SessionNotOnOrAfter") for each in statements]
    ends_at_s = min((_moment(each) + SKEW_S for each in said if each is not None), default=None)
    if ends_at_s is not None and ends_at_s <= now_s:
        raise NotAccepted("the session at the provider has ended")
    return str(statements[0].get("SessionIndex", "")), ends_at_s


def _attributes(assertion: Element) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for statement in assertion.findall(f"{A}AttributeStatement"):
        for each in statement.findall(f"{A}Attribute"):
            values = [text_of(value) for value in each.findall(f"{A}AttributeValue") if len(value) == 0]
            found.setdefault(each.get("Name", ""), []).extend(values)
    return found


def _moment(text: str | None) -> int:
    if text is None or not _MOMENT.fullmatch(text):
        raise NotAccepted("it has a time that cannot be read")
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError) as error:
        raise NotAccepted("it has a time that cannot be read") from error
