"""Requests to identity providers: what they publish, kept for a while, and their token endpoint.

What a provider publishes is fetched again when it is old, or when a token names a key that is not known: providers
exchange their keys. Unknown callers can send tokens with invented key names, so that is done a few times a minute at
most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from fairpool.control import oidc, outbound, preferences, saml
from fairpool.control.oidc import Keys, Metadata, OidcClient
from fairpool.control.outbound import OutboundAnswer, OutboundFailed, OutboundRequest
from fairpool.control.outbound_rules import OutboundRules
from fairpool.control.plane import MINUTE_MS, Plane
from fairpool.control.provider_error import ProviderError, UnknownKey
from fairpool.control.saml import SamlMetadata
from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.problem import Problem

K = TypeVar("K")
T = TypeVar("T")

JSON: Final = "application/json, */*;q=0.1"
SAML_METADATA: Final = "application/samlmetadata+xml, application/xml, */*;q=0.1"
KEPT_MS: Final = 600 * SECOND_MS
REFETCHES: Final = 5
"""In a minute, for one provider, because of keys that are not known."""
ENTRIES_MAX: Final = 256
STRICT: Final = OutboundRules(ports=None, redirects=3)
AT_HOME: Final = OutboundRules(
    schemes=frozenset({"https", "http"}), ports=None, private=True, loopback=True, redirects=3
)
"""For providers in the company's own network, which an administrator allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcProvider:
    """What is configured for an OpenID Connect provider."""

    alias: str
    discovery_url: str
    client: OidcClient


@dataclass(frozen=True, slots=True, kw_only=True)
class SamlProvider:
    """What is configured for a SAML provider."""

    alias: str
    entity_id: str
    metadata_url: str
    """Empty: an administrator gave the metadata as a file."""
    stored: SamlMetadata
    """As it was when an administrator last added or changed the provider."""


@dataclass(slots=True)
class ProviderClient:
    """Requests to identity providers, with what they answered lately."""

    _kept: dict[str, tuple[Any, Instant]] = field(default_factory=dict)
    _stale: set[str] = field(default_factory=set)
    """URLs to fetch again, whose kept answers stay until there are new ones."""
    _refetched: dict[str, deque[Instant]] = field(default_factory=dict)

    async def metadata(self, plane: Plane, url: str) -> Metadata:
        """What a provider says about itself. Raises `ProviderError`."""
        return await self.fetched(plane, url, lambda content: oidc.read_metadata(content, url))

    async def keys(self, plane: Plane, metadata: Metadata) -> Keys:
        return await self.fetched(plane, metadata.jwks_uri, oidc.read_keys)

    async def fetched(self, plane: Plane, url: str, read: Callable[[bytes], T], accept: str = JSON) -> T:
        """A document at a URL, as it was found less than ten minutes ago. Raises `ProviderError`."""
        value, since = self._kept.get(url, (None, Instant(0)))
        is_stale = url in self._stale
        self._stale.discard(url)
        if value is not None and not is_stale and 0 <= plane.now() - since < KEPT_MS:
            found: T = value
            return found
        answer = await send(plane, OutboundRequest("GET", url, {"Accept": accept}))
        if answer.status != 200:
            raise ProviderError(f"{url} answered {answer.status}", "check the URL and the provider", "idp.unavailable")
        found = read(answer.body)
        while len(self._kept) >= ENTRIES_MAX:
            self._kept.pop(next(iter(self._kept)))
        self._kept[url] = (found, plane.now())
        return found

    def fetch_again(self, url: str, now: Instant) -> bool:
        """The next time; False: that was done too often lately. What is kept stays until then, and if that fails:
        unknown callers can cause this, and must not keep others from signing in."""
        lately = self._refetched.setdefault(url, deque(maxlen=REFETCHES))
        if len(lately) == REFETCHES and now - lately[0] < MINUTE_MS:
            return False
        lately.append(now)
        self._stale.add(url)
        return True

    async def exchanged(self, plane: Plane, provider: OidcProvider, code: str, verifier: str, back: str) -> Any:
        """The tokens for a code. Raises `ProviderError`."""
        metadata = await self.metadata(plane, provider.discovery_url)
        return await self._token(plane, metadata, oidc.code_form(metadata, provider.client, code, verifier, back))

    async def renewed(self, plane: Plane, provider: OidcProvider, refresh_token: str) -> Any:
        """New tokens for a refresh token. Raises `ProviderError`, and `SessionEnded` if the session is over."""
        metadata = await self.metadata(plane, provider.discovery_url)
        return await self._token(plane, metadata, oidc.refresh_form(metadata, provider.client, refresh_token))

    async def _token(self, plane: Plane, metadata: Metadata, form: oidc.Form) -> Mapping[str, Any]:
        request = OutboundRequest("POST", metadata.token_endpoint, form.headers, form.body)
        answer = await send(plane, request)
        return oidc.read_tokens(answer.status, answer.body)

    async def claims(
        self, plane: Plane, provider: OidcProvider, tokens: Mapping[str, Any], wanted: tuple[str, ...], **expected: Any
    ) -> Mapping[str, Any]:
        """What the tokens say about the account; the userinfo endpoint is asked for `wanted` claims that they lack.

        `expected`: nonce, of a sign-in; subject, of a renewal.
        """
        metadata = await self.metadata(plane, provider.discovery_url)
        subject = expected.get("subject")
        found: Mapping[str, Any] = {}
        if tokens.get("id_token") is not None or subject is None:

            def check(keys: Keys) -> Mapping[str, Any]:
                return oidc.id_token_claims(
                    tokens.get("id_token"),
                    keys,
                    metadata,
                    provider.client.id,
                    nonce=expected.get("nonce"),
                    access_token=tokens.get("access_token"),
                    now_s=plane.now() // SECOND_MS,
                )

            found = await self.with_keys(plane, metadata, check)
            if subject is not None and found.get("sub") != subject:
                raise ProviderError("the identity provider answered with the tokens of another account")
        if metadata.userinfo_endpoint and any(each not in found for each in wanted):
            headers = {"Authorization": f"Bearer {tokens['access_token']}", "Accept": "application/json"}
            answer = await send(plane, OutboundRequest("GET", metadata.userinfo_endpoint, headers))
            found = {**oidc.read_userinfo(answer.status, answer.body, str(found.get("sub", subject))), **found}
        return found

    async def with_keys(self, plane: Plane, metadata: Metadata, check: Callable[[Keys], T]) -> T:
        """What is checked with the provider's keys, which are fetched again if the one that is named is not known."""
        return await self._checked(plane, metadata.jwks_uri, lambda: self.keys(plane, metadata), check)

    async def saml_metadata(self, plane: Plane, provider: SamlProvider) -> SamlMetadata:
        """What a SAML provider says about itself by now. Raises `ProviderError`."""
        now_s = plane.now() // SECOND_MS
        found = provider.stored
        if provider.metadata_url:
            found = await self.fetched(
                plane, provider.metadata_url, lambda content: saml.read_metadata(content, now_s), SAML_METADATA
            )
        if found.issuer != provider.stored.issuer:
            what = f"the metadata at {provider.metadata_url} is now that of another provider: {found.issuer[:256]}"
            raise ProviderError(what, "ask your administrator to update the provider", "idp.issuer")
        saml.check_validity(found, now_s)
        return found

    async def with_certificates(self, plane: Plane, provider: SamlProvider, check: Callable[[SamlMetadata], T]) -> T:
        """The same with the certificates in the metadata of a SAML provider."""
        return await self._checked(plane, provider.metadata_url, lambda: self.saml_metadata(plane, provider), check)

    async def _checked(self, plane: Plane, url: str, fetch: Callable[[], Awaitable[K]], check: Callable[[K], T]) -> T:
        try:
            return check(await fetch())
        except UnknownKey:
            if not url or not self.fetch_again(url, plane.now()):
                raise
            return check(await fetch())


async def send(plane: Plane, request: OutboundRequest) -> OutboundAnswer:
    """Raises `ProviderError`."""
    rules = await outbound_rules(plane)
    try:
        return await outbound.send(request, rules)
    except OutboundFailed as error:
        raise ProviderError(error.problem.what, _fix(error.problem), "idp.unavailable") from error


async def outbound_rules(plane: Plane) -> OutboundRules:
    """Which addresses providers may have."""
    key = preferences.PRIVATE_PROVIDERS
    is_allowed = await plane.read(lambda connection: preferences.current_value(plane.settings, connection, key))
    return AT_HOME if is_allowed else STRICT


def _fix(problem: Problem) -> str:
    allow = f"runai-adm setting update {preferences.PRIVATE_PROVIDERS} true"
    return f"{problem.fix}; an administrator allows providers in private networks with: {allow}"
