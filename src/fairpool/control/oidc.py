"""OpenID Connect: what a provider says about itself, the way to it and back, and what its tokens must satisfy.

The one module that knows Authlib, and with the module of our own tokens the one that knows JOSE. It makes no request
itself (`control/provider_client.py` does), so that what is accepted can be read here in one place.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import KeySet

from fairpool.api.wire import parse_json
from fairpool.control.provider_error import ProviderError, SessionEnded, UnknownKey, unusable

WELL_KNOWN: Final = "/.well-known/openid-configuration"
SCOPES: Final = ("openid", "profile", "email")
SKEW_S: Final = 60
"""How far the clocks of provider and platform may be apart."""
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""All with a private key: `none` proves nothing, and HS256 would take a published key for a secret."""
BACK_CHANNEL: Final = "http://schemas.openid.net/event/backchannel-logout"
LOGOUT_AGE_S: Final = 300
KEYS_MAX: Final = 64
TOKEN_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What a provider says about itself."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str
    algorithms: tuple[str, ...]
    secret_in_body: bool
    """The client secret is sent as a field of the form, since the provider does not take it as a header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcClient:
    """This platform, as the provider knows it."""

    id: str
    secret: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSignIn:
    """A sign-in on its way: what the browser takes along, and what we keep."""

    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True, slots=True)
class Keys:
    """The published keys of a provider."""

    content: KeySet
    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Logout:
    """A logout that the provider announces: of one of its sessions, or of all sessions of an account."""

    id: str
    sid: str
    subject: str
    expires_at_s: int


# --- discovery -----------------------------------------------------------------------------------------------------


def read_metadata(content: bytes, url: str) -> Metadata:
    """The discovery document that was found at this URL. Raises `ProviderError`."""
    said = _object(content, "the discovery document")
    issuer = _text(said, "issuer")
    if url.removesuffix(WELL_KNOWN).rstrip("/") != issuer.rstrip("/"):
        what = f"the discovery document at {url} is that of another provider: its issuer is {issuer[:256]}"
        raise ProviderError(what, f"use the URL {issuer[:256]}{WELL_KNOWN}", "idp.issuer")
    offered = [each for each in _texts(said, "id_token_signing_alg_values_supported") if each in ALGORITHMS]
    if not offered:
        raise unusable(f"it signs tokens with none of {', '.join(ALGORITHMS)}")
    _check_schemes(said, url)
    methods = _texts(said, "token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    return Metadata(
        issuer=issuer,
        authorization_endpoint=_text(said, "authorization_endpoint"),
        token_endpoint=_text(said, "token_endpoint"),
        jwks_uri=_text(said, "jwks_uri"),
        userinfo_endpoint=str(said.get("userinfo_endpoint") or ""),
        algorithms=tuple(offered),
        secret_in_body="client_secret_basic" not in methods and "client_secret_post" in methods,
    )


def _check_schemes(said: Mapping[str, Any], url: str) -> None:
    """Codes, secrets and keys travel no less protected than the document that says where."""
    allowed = ("https",) if urlsplit(url).scheme == "https" else ("https", "http")
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"):
        there = said.get(name)
        if there and (not isinstance(there, str) or urlsplit(there).scheme not in allowed):
            raise unusable(f"its {name} is not a URL with {' or '.join(allowed)}")


def read_keys(content: bytes) -> Keys:
    """The published keys; those of a kind that is not known are left out. Raises `ProviderError`."""
    listed = _object(content, "the list of keys").get("keys")
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise unusable("its list of keys cannot be read")
    known = []
    for each in listed:
        if not isinstance(each, dict) or each.get("kty") not in ("RSA", "EC") or each.get("use", "sig") != "sig":
            continue
        public = {name: value for name, value in each.items() if name in ("kty", "kid", "n", "e", "crv", "x", "y")}
        try:
            known += KeySet.import_key_set({"keys": [public]}).keys
        except (JoseError, ValueError, TypeError, KeyError):
            continue
    if not known:
        raise unusable("none of its keys can be used")
    return Keys(KeySet(known), frozenset(each.kid for each in known if each.kid))


# --- there and back --------------------------------------------------------------------------------------------------


def new_request() -> OidcSignIn:
    return OidcSignIn(
        state=secrets.token_urlsafe(32), nonce=secrets.token_urlsafe(32), verifier=secrets.token_urlsafe(64)
    )


def authorization_url(metadata: Metadata, client: OidcClient, request: OidcSignIn, redirect_uri: str) -> str:
    """Where the browser goes to sign in."""
    found: str = prepare_grant_uri(
        metadata.authorization_endpoint,
        client.id,
        "code",
        redirect_uri=redirect_uri,
        scope=" ".join(client.scopes),
        state=request.state,
        nonce=request.nonce,
        code_challenge=create_s256_code_challenge(request.verifier),
        code_challenge_method="S256",
    )
    return found


def code_form(metadata: Metadata, client: OidcClient, code: str, verifier: str, redirect_uri: str) -> Form:
    """The request that exchanges a code for tokens."""
    fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": verifier}
    return _form(metadata, client, fields)


def refresh_form(metadata: Metadata, client: OidcClient, refresh_token: str) -> Form:
    return _form(metadata, client, {"grant_type": "refresh_token", "refresh_token": refresh_token})


@dataclass(frozen=True, slots=True)
class Form:
    """A POST to the token endpoint."""

    headers: Mapping[str, str]
    body: bytes


def _form(metadata: Metadata, client: OidcClient, fields: Mapping[str, str]) -> Form:
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    if metadata.secret_in_body:
        fields = {**fields, "client_id": client.id, "client_secret": client.secret}
    else:
        pair = f"{quote_plus(client.id)}:{quote_plus(client.secret)}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return Form(headers, urlencode(fields).encode())


def read_tokens(status: int, content: bytes) -> Mapping[str, Any]:
    """The answer of the token endpoint. Raises `ProviderError`."""
    try:
        said = _object(content, "its answer")
    except ProviderError:
        said = {}
    if status == 200 and isinstance(said.get("access_token"), str):
        return said
    error = str(said.get("error", ""))[:64]
    if error == "invalid_grant":
        raise SessionEnded("the identity provider ended the session, or disabled the account", "sign in again")
    if error in ("invalid_client", "unauthorized_client"):
        raise unusable("it does not accept the client ID and secret of this platform")
    raise ProviderError(f"the identity provider answered {error or status}", code="idp.unavailable")


# --- tokens ----------------------------------------------------------------------------------------------------------


def id_token_claims(
    token: object,
    keys: Keys,
    metadata: Metadata,
    client_id: str,
    *,
    nonce: str | None,
    access_token: object,
    now_s: int,
) -> Mapping[str, Any]:
    """The claims of an ID token that is meant for this platform. Raises `ProviderError`."""
    decoded = _decoded(token, keys, metadata, "ID token")
    options = {
        "iss": {"essential": True, "value": metadata.issuer},
        "aud": {"essential": True, "value": client_id},
    }
    params = {"nonce": nonce, "client_id": client_id, "access_token": access_token}
    try:
        CodeIDToken(decoded.claims, decoded.header, options, params).validate(now=now_s, leeway=SKEW_S)
    except ExpiredTokenError as error:
        raise ProviderError("the ID token of the identity provider has expired") from error
    except (JoseError, ValueError, TypeError) as error:
        raise ProviderError(f"the ID token of the identity provider is not accepted: {_words(error)}") from error
    _check_audience(decoded.claims, client_id)
    return decoded.claims


def logout_of(token: object, keys: Keys, metadata: Metadata, client_id: str, now_s: int) -> Logout:
    """What a logout token says (OpenID Connect Back-Channel Logout, section 2.6). Raises `ProviderError`."""
    decoded = _decoded(token, keys, metadata, "logout token")
    claims = decoded.claims
    registry = jwt.JWTClaimsRegistry(
        now_s,
        SKEW_S,
        iss={"essential": True, "value": metadata.issuer},
        aud={"essential": True, "value": client_id},
        iat={"essential": True},
        jti={"essential": True},
    )
    try:
        registry.validate(claims)
    except (JoseError, ValueError, TypeError) as error:
        raise ProviderError(f"the logout token is not accepted: {_words(error)}") from error
    events, sid, subject = claims.get("events"), claims.get("sid"), claims.get("sub")
    is_logout = isinstance(events, dict) and isinstance(events.get(BACK_CHANNEL), dict)
    is_named = isinstance(sid or subject, str) and all(each is None or isinstance(each, str) for each in (sid, subject))
    if not is_logout or not is_named or "nonce" in claims or not isinstance(claims["jti"], str):
        raise ProviderError("the logout token does not say whose sessions end")
    issued = claims["iat"]
    if not isinstance(issued, int) or not now_s - LOGOUT_AGE_S - SKEW_S <= issued:
        raise ProviderError("the logout token is too old")
    return Logout(claims["jti"], sid or "", subject or "", issued + LOGOUT_AGE_S + SKEW_S)


def read_userinfo(status: int, content: bytes, subject: str) -> Mapping[str, Any]:
    """Claims from the provider's userinfo endpoint, about the same account. Raises `ProviderError`."""
    if status in (401, 403):
        raise SessionEnded("the identity provider ended the session, or disabled the account", "sign in again")
    said = _object(content, "its answer about the user")
    if status != 200 or said.get("sub") != subject:
        raise ProviderError("the identity provider did not say who signed in", code="idp.unavailable")
    return said


def _decoded(token: object, keys: Keys, metadata: Metadata, noun: str) -> jwt.Token:
    if not isinstance(token, str) or len(token) > TOKEN_MAX:
        raise ProviderError(f"the identity provider sent no {noun}")
    try:
        kid = _header(token).get("kid")
        if isinstance(kid, str) and kid not in keys.ids:
            raise UnknownKey(f"the {noun} of the identity provider is signed with a key that it does not publish")
        found = jwt.decode(token, keys.content, algorithms=list(metadata.algorithms))
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise ProviderError(f"the {noun} of the identity provider is not signed by it") from error
    if "crit" in found.header:
        raise ProviderError(f"the {noun} of the identity provider cannot be read")
    return found


def _header(token: str) -> Mapping[str, Any]:
    """Only to see which key is meant; nothing in it is trusted."""
    first = token.partition(".")[0]
    header = parse_json(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    return header if isinstance(header, dict) else {}


def _check_audience(claims: Mapping[str, Any], client_id: str) -> None:
    audience = claims["aud"]
    if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != client_id:
        raise ProviderError("the ID token of the identity provider was issued to another application")


def _object(content: bytes, noun: str) -> Mapping[str, Any]:
    try:
        said = parse_json(content)
    except ValueError as error:
        raise unusable(f"{noun} is not JSON") from error
    if not isinstance(said, dict):
        raise unusable(f"{noun} is not a JSON object")
    return said


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str) or not value:
        raise unusable(f"its discovery document has no {name}")
    return value


def _texts(said: Mapping[str, Any], name: str) -> list[str]:
    value = said.get(name)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _words(error: Exception) -> str:
    claim = getattr(error, "claim", "")
    return f"claim {claim} is missing or wrong" if claim else "a claim is missing or wrong"


def scopes_of(asked: Sequence[str] | None) -> tuple[str, ...]:
    """What is asked for; `openid` always is."""
    return tuple(dict.fromkeys(("openid", *asked))) if asked is not None else SCOPES
