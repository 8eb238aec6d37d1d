"""Which ID tokens and documents of an OpenID Connect provider are accepted: none of a hostile one."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from fairpool.control import oidc
from fairpool.control.provider_error import ProviderError, SessionEnded, UnknownKey

NOW_S = 1_800_000_000
ISSUER, CLIENT, NONCE = "https://id.example.com", "fairpool", "the nonce of this browser"
KEY = RSAKey.generate_key(2048, {"kid": "k1"})
OTHER = RSAKey.generate_key(2048, {"kid": "k1"})
KEYS = oidc.read_keys(json.dumps({"keys": [KEY.as_dict(private=False)]}).encode())
METADATA = oidc.Metadata(
    issuer=ISSUER,
    authorization_endpoint=f"{ISSUER}/a",
    token_endpoint=f"{ISSUER}/t",
    jwks_uri=f"{ISSUER}/k",
    userinfo_endpoint="",
    algorithms=("RS256",),
    secret_in_body=False,
)
CLAIMS = {"iss": ISSUER, "aud": CLIENT, "sub": "1", "nonce": NONCE, "iat": NOW_S, "exp": NOW_S + 300}


def token(header: dict[str, Any] | None = None, key: Any = KEY, **changed: Any) -> str:
    said = {name: value for name, value in {**CLAIMS, **changed}.items() if value is not None}
    return jwt.encode(
        {"alg": "RS256", "kid": "k1", **(header or {})}, said, key, algorithms=["RS256", "HS256", "ES256"]
    )


def raw(header: dict[str, Any], signature: str = "") -> str:
    parts = (json.dumps(each).encode() for each in (header, CLAIMS))
    return ".".join([*(base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in parts), signature])


def keyed(header: dict[str, Any], key: bytes) -> str:
    """With the published key, as if it were a secret."""
    content = raw(header).removesuffix(".")
    digest = hmac.digest(key, content.encode(), "sha256")
    return f"{content}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def claims(of: object, nonce: str = NONCE) -> Any:
    return oidc.id_token_claims(of, KEYS, METADATA, CLIENT, nonce=nonce, access_token="a", now_s=NOW_S)


def test_an_honest_token_is_accepted() -> None:
    assert claims(token())["sub"] == "1"
    assert claims(token(aud=[CLIENT, "other"], azp=CLIENT))["sub"] == "1"
    assert claims(token(exp=NOW_S - oidc.SKEW_S + 1))["sub"] == "1", "clocks may differ a little"


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://evil.example.com"},
        {"iss": f"{ISSUER}/"},
        {"iss": None},
        {"aud": "other"},
        {"aud": ["other"]},
        {"aud": None},
        {"aud": [CLIENT, "other"]},
        {"aud": [CLIENT, "other"], "azp": "other"},
        {"azp": "other"},
        {"nonce": "of another browser"},
        {"nonce": None},
        {"exp": NOW_S - oidc.SKEW_S - 1},
        {"exp": None},
        {"exp": "soon"},
        {"iat": NOW_S + oidc.SKEW_S + 1},
        {"iat": None},
        {"nbf": NOW_S + oidc.SKEW_S + 1},
        {"sub": None},
        {"at_hash": "AAAA"},
    ],
    ids=str,
)
def test_a_token_for_another_place_or_time_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ProviderError):
        claims(token(**changed))


def test_a_token_that_the_provider_did_not_sign_is_refused() -> None:
    signed = token()
    for forged in (
        raw({"alg": "none"}),
        raw({"alg": "None", "kid": "k1"}),
        raw({"alg": "none", "kid": "k1"}, signed.rpartition(".")[2]),
        keyed({"alg": "HS256", "kid": "k1"}, KEY.as_pem(private=False)),
        keyed({"alg": "HS256"}, KEY.as_der(private=False)),
        token(key=OTHER),
        token({"jwk": OTHER.as_dict(private=False)}, OTHER),
        token({"alg": "ES256"}, ECKey.generate_key("P-256", {"kid": "k1"})),
        signed.rpartition(".")[0] + ".",
        signed[:-4] + "AAAA",
        "",
        "a.b",
        "a.b.c.d.e",
        "x" * (oidc.TOKEN_MAX + 1),
        None,
        7,
    ):
        with pytest.raises(ProviderError):
            claims(forged)


@pytest.mark.parametrize("kid", ["k2", "../../dev/null", "/dev/null", "http://evil.example.com/k", "' or 1=1", ""])
def test_a_key_is_one_that_the_provider_publishes(kid: str) -> None:
    """The name of a key is compared with those of the published ones, and leads to no file or address."""
    with pytest.raises(UnknownKey):
        claims(token({"kid": kid}, OTHER))


@pytest.mark.parametrize("named", [{"jku": "https://evil.example.com/k"}, {"x5u": "https://evil.example.com/k"}])
def test_an_address_of_keys_in_the_token_is_not_followed(named: dict[str, str]) -> None:
    with pytest.raises(ProviderError):
        claims(token(named, OTHER))


def test_a_critical_header_that_is_not_known_is_refused() -> None:
    with pytest.raises(ProviderError):
        claims(token({"crit": ["typ"], "typ": "JWT"}))


# --- documents -------------------------------------------------------------------------------------------------------

DISCOVERY = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/a",
    "token_endpoint": f"{ISSUER}/t",
    "jwks_uri": f"{ISSUER}/k",
    "id_token_signing_alg_values_supported": ["none", "HS256", "RS256"],
}


def test_a_discovery_document_is_that_of_its_address() -> None:
    url = f"{ISSUER}{oidc.WELL_KNOWN}"
    assert oidc.read_metadata(json.dumps(DISCOVERY).encode(), url).algorithms == ("RS256",)
    for changed in (
        {"issuer": "https://evil.example.com"},
        {"issuer": f"{ISSUER}.evil.example.com"},
        {"issuer": None},
        {"token_endpoint": ""},
        {"token_endpoint": f"{ISSUER}/t".replace("https:", "http:")},
        {"jwks_uri": "http://id.example.com/k"},
        {"userinfo_endpoint": "file:///etc/passwd"},
        {"id_token_signing_alg_values_supported": ["none", "HS256"]},
    ):
        with pytest.raises(ProviderError):
            oidc.read_metadata(json.dumps({**DISCOVERY, **changed}).encode(), url)


def test_secrets_are_not_taken_for_published_keys() -> None:
    secret = OctKey.generate_key(256, {"kid": "k1"}).as_dict()
    for listed in ([secret], [], "keys", [KEY.as_dict(private=False)] * (oidc.KEYS_MAX + 1), [{"kty": "RSA", "n": 1}]):
        with pytest.raises(ProviderError):
            oidc.read_keys(json.dumps({"keys": listed}).encode())


def test_answers_of_the_token_endpoint_that_are_not_tokens_are_refused() -> None:
    with pytest.raises(SessionEnded):
        oidc.read_tokens(400, b'{"error": "invalid_grant"}')
    for status, content in ((200, b"{}"), (200, b"[]"), (200, b"<html>"), (500, b""), (400, b'{"error": 7}')):
        with pytest.raises(ProviderError):
            oidc.read_tokens(status, content)
    with pytest.raises(ProviderError):
        oidc.read_userinfo(200, b'{"sub": "2", "groups": ["admins"]}', "1")
