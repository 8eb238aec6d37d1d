"""Access tokens: what is in them, who can verify them, and what cannot be made to pass for one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey

from fairpool.control.guard import digest_of, known, still_known
from fairpool.control.refusal import Refused
from fairpool.control.store import access as store
from fairpool.control.store.database import Connection
from fairpool.control.token_keys import FILE, TokenInvalid, TokenKeys, plain_json
from fairpool.model.ids import Instant
from tests.control.control_plane import START, ControlPlane, codes, control_plane, expect

RIGHT = {"grantType": "password", "username": "test@run.ai", "password": "password"}


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane(url="https://gpu.example.com/") as control:
        yield control


@pytest.fixture(scope="module")
def standing() -> Iterator[ControlPlane]:
    """One for all tests that leave it as it was."""
    with control_plane() as control:
        yield control


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims, read like the original's client reads them: plain base64 with padding to spare."""
    header, payload, _ = token.split(".")
    return json.loads(base64.b64decode(header + "==")), json.loads(base64.b64decode(payload + "=="))


def test_an_access_token_says_who_for_whom_and_until_when(control: ControlPlane) -> None:
    answer = expect(control.http.post("/api/v1/token", json=RIGHT), 200)
    header, claims = parts(answer["accessToken"])
    me = expect(control.call("GET", "/api/v1/me"), 200)
    assert (header["alg"], header["typ"]) == ("ES256", "at+jwt")
    assert claims["iss"] == "https://gpu.example.com"
    assert (claims["aud"], claims["sub"], claims["email"]) == ("runai", me["id"], "test@run.ai")
    assert claims["exp"] - claims["iat"] == answer["expiresIn"] == 36_000
    assert claims["iat"] == START // 1000
    assert claims["jti"] != parts(control.tokens["admin"])[1]["jti"]


def test_the_published_keys_verify_a_token(control: ControlPlane) -> None:
    found = expect(control.http.get("/.well-known/openid-configuration"), 200)
    assert found["issuer"] == "https://gpu.example.com"
    assert found["jwks_uri"] == "https://gpu.example.com/.well-known/jwks.json"
    for path in ("/.well-known/jwks.json", "/auth/realms/runai/protocol/openid-connect/certs"):
        (key,) = expect(control.http.get(path), 200)["keys"]
        assert "d" not in key, "the private part stays here"
        token = control.tokens["admin"]
        assert json.loads(jws.deserialize_compact(token, ECKey.import_key(key)).payload) == parts(token)[1]
    legacy = expect(control.http.get("/auth/realms/anything/.well-known/openid-configuration"), 200)
    assert legacy == found
    info = expect(control.call("GET", "/auth/realms/runai/protocol/openid-connect/userinfo"), 200)
    assert info["email"] == "test@run.ai"


@pytest.mark.parametrize("name", ["a>b?c~d", "ünï@€.example", "~~~~~", "\x7f", "plain"])
def test_a_payload_is_plain_base64_whatever_a_user_is_called(name: str) -> None:
    for shift in range(3):
        text = plain_json({"x" * (shift + 1): name})
        assert json.loads(text) == {"x" * (shift + 1): name}
        assert not set(base64.urlsafe_b64encode(text).decode()) & set("-_")


# --- confusion -------------------------------------------------------------------------------------------------


def base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def forged(control: ControlPlane, kind: str) -> str:
    """A token that an attacker makes of a valid one."""
    good = control.tokens["admin"]
    first, payload, signature = good.split(".")
    header, claims = parts(good)
    (public,) = control.http.get("/.well-known/jwks.json").json()["keys"]

    def with_header(**changes: Any) -> str:
        return base64url(json.dumps({**header, **changes}).encode())

    def hmac_signed(head: str, secret: bytes) -> str:
        return f"{head}.{payload}.{base64url(hmac.digest(secret, f'{head}.{payload}'.encode(), hashlib.sha256))}"

    other = ECKey.generate_key("P-256", private=True)
    match kind:
        case "alg none":
            return f"{with_header(alg='none')}.{payload}."
        case "alg none in capitals":
            return f"{with_header(alg='nOnE')}.{payload}.{signature}"
        case "no signature":
            return f"{first}.{payload}."
        case "HS256 with the public key":
            return hmac_signed(with_header(alg="HS256"), ECKey.import_key(public).as_pem(private=False))
        case "HS256 with the public JWK":
            return hmac_signed(with_header(alg="HS256"), json.dumps(public).encode())
        case "kid is a path":
            return hmac_signed(with_header(alg="HS256", kid="../../../../dev/null"), b"")
        case "kid is a statement":
            return f"{with_header(kid=chr(39) + ' OR 1=1 --')}.{payload}.{signature}"
        case "own key in the header":
            head = {**header, "jwk": other.as_dict(private=False)}
            return jws.serialize_compact(head, json.dumps(claims).encode(), other)
        case "own key under our id":
            return jws.serialize_compact(header, json.dumps(claims).encode(), other)
        case "key address in the header":
            return f"{with_header(jku='https://evil.example/jwks.json')}.{payload}.{signature}"
        case "unknown critical header":
            return f"{with_header(crit=['exp'])}.{payload}.{signature}"
        case "another subject":
            return f"{first}.{base64url(json.dumps({**claims, 'sub': 'other'}).encode())}.{signature}"
        case "later expiry":
            return f"{first}.{base64url(json.dumps({**claims, 'exp': claims['exp'] + 9999}).encode())}.{signature}"
        case "header is a list":
            return f"{base64url(b'[1]')}.{payload}.{signature}"
        case "not base64":
            return f"%%%.{payload}.{signature}"
        case _:
            return f"{good}.{payload}"


KINDS = (
    *("alg none", "alg none in capitals", "no signature", "HS256 with the public key", "HS256 with the public JWK"),
    *("kid is a path", "kid is a statement", "own key in the header", "own key under our id"),
    *("key address in the header", "unknown critical header", "another subject", "later expiry"),
    *("header is a list", "not base64", "four parts"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_forged_token_opens_nothing_even_if_its_row_existed(standing: ControlPlane, kind: str) -> None:
    """Without a row every token is refused. With one, as if the database had been written to, the signature decides."""
    control = standing
    token = control.tokens["forged"] = forged(control, kind)
    assert codes(control.call("GET", "/api/v1/me", by="forged")) == ["access.not_signed_in"]
    plane = control.app.state.plane
    with pytest.raises(TokenInvalid):
        plane.token_keys.verified(token, "runai", plane.now())

    def plant(connection: Connection) -> None:
        row = store.token(connection, digest_of(control.tokens["admin"]))
        assert row is not None
        store.add_token(
            connection,
            digest_of(token),
            family=row.family,
            kind="access",
            subject_id=row.subject_id,
            subject_type="user",
            now=plane.now(),
            expires_at=row.expires_at,
        )

    assert control.http.portal is not None
    control.http.portal.call(plane.write, plant)
    answer = control.call("GET", "/api/v1/me", by="forged")
    assert codes(answer) == ["access.not_signed_in"]
    assert "invalid" in answer.json()["message"]


def test_other_audiences_types_and_times_are_refused(tmp_path: Path) -> None:
    keys, now = TokenKeys(tmp_path), Instant(START)
    claims = {"aud": "runai", "exp": now // 1000 + 60}
    assert keys.verified(keys.signed(claims, now), "runai", now) == claims
    for wrong in ({"aud": "other"}, {"aud": ["runai", "other"]}, {"exp": now // 1000}, {"exp": "tomorrow"}):
        with pytest.raises(TokenInvalid):
            keys.verified(keys.signed({**claims, **wrong}, now), "runai", now)
    with pytest.raises(TokenInvalid):
        keys.verified(keys.signed(claims, now, "JWT"), "runai", now)  # an ID token is no access token
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_an_id_token_is_no_access_token(control: ControlPlane) -> None:
    answer = expect(control.http.post("/api/v1/token", json=RIGHT), 200)
    assert parts(answer["idToken"])[1]["email"] == "test@run.ai"
    control.tokens["id"] = answer["idToken"]
    assert control.call("GET", "/api/v1/me", by="id").status_code == 401


# --- rotation --------------------------------------------------------------------------------------------------

ROTATE = "/api/v1/security/token-keys/rotate"


def test_a_replaced_key_is_published_until_its_tokens_have_expired(control: ControlPlane) -> None:
    before = control.tokens["admin"]
    old = parts(before)[0]["kid"]
    keys = expect(control.call("POST", ROTATE, {}), 200)["keys"]
    assert [each["id"] for each in keys][1] == old
    control.sign_in("later", "test@run.ai", "password")
    assert parts(control.tokens["later"])[0]["kid"] == keys[0]["id"] != old
    for by in ("admin", "later"):
        expect(control.call("GET", "/api/v1/me", by=by), 200)
    control.clock.turn(36_001)
    control.sign_in("later", "test@run.ai", "password")
    left = expect(control.http.get("/.well-known/jwks.json"), 200)["keys"]
    assert [each["kid"] for each in left] == [keys[0]["id"]]


def test_a_stolen_key_ends_at_once_with_the_tokens_that_it_signed(control: ControlPlane) -> None:
    refresh = expect(control.http.post("/api/v1/token", json=RIGHT), 200)["refreshToken"]
    plane = control.app.state.plane
    assert control.http.portal is not None
    caller = control.http.portal.call(known, plane, digest_of(control.tokens["admin"]))
    expect(control.call("POST", ROTATE, {"overlap": False}), 200)
    with pytest.raises(Refused):  # as an open stream asks, which has no token to show
        control.http.portal.call(still_known, plane, caller)
    assert control.call("GET", "/api/v1/me").status_code == 401
    renewed = {"grantType": "refresh_token", "refreshToken": refresh}
    control.tokens["admin"] = expect(control.http.post("/api/v1/token", json=renewed), 200)["accessToken"]
    listed = expect(control.call("GET", "/api/v1/security/token-keys"), 200)["keys"]
    assert len(listed) == 1
    assert "publishedUntil" not in listed[0]


def test_two_processes_share_one_file_of_keys(tmp_path: Path) -> None:
    one, other = TokenKeys(tmp_path), TokenKeys(tmp_path)
    now = Instant(START)
    claims = {"aud": "runai", "exp": now // 1000 + 60}
    assert other.verified(one.signed(claims, now), "runai", now) == claims
    kept = other.signed(claims, now)
    one.rotate(now, now + 60_000)
    assert other.published(now)[0].id == one.published(now)[0].id
    assert one.verified(kept, "runai", now) == claims
    (tmp_path / FILE).unlink()  # as a restore does
    with pytest.raises(TokenInvalid):
        one.verified(kept, "runai", now)


def test_tokens_of_an_earlier_release_stay_valid(control: ControlPlane) -> None:
    plane = control.app.state.plane

    def plant(connection: Connection) -> None:
        row = store.token(connection, digest_of(control.tokens["admin"]))
        assert row is not None
        store.add_token(
            connection,
            digest_of("fpa_of-an-earlier-release"),
            family="earlier",
            kind="access",
            subject_id=row.subject_id,
            subject_type="user",
            now=plane.now(),
            expires_at=row.expires_at,
        )

    assert control.http.portal is not None
    control.http.portal.call(plane.write, plant)
    control.tokens["earlier"] = "fpa_of-an-earlier-release"
    expect(control.call("GET", "/api/v1/me", by="earlier"), 200)


# --- grants ----------------------------------------------------------------------------------------------------


def test_the_request_of_the_originals_client_gets_a_token(control: ControlPlane) -> None:
    made = expect(control.call("POST", "/api/v1/apps", {"name": "sweep", "roles": ["administrator"]}), 201)
    body = {"grantType": "app_token", "AppId": made["clientId"], "AppSecret": made["secret"]}
    answer = expect(control.http.post("/api/v1/token", json=body), 200)
    claims = parts(answer["accessToken"])[1]
    assert isinstance(claims["exp"], int)
    assert (claims["client_id"], "email" in claims) == (made["clientId"], False)
    control.tokens["sweep"] = answer["accessToken"]
    assert expect(control.call("GET", "/api/v1/me", by="sweep"), 200)["username"] == "sweep"


@pytest.mark.parametrize("grant", ["exchange_token", "external_token_exchange", "implicit"])
def test_a_grant_that_is_not_supported_is_refused_by_name(standing: ControlPlane, grant: str) -> None:
    answer = standing.http.post("/api/v1/token", json={"grantType": grant})
    assert answer.status_code == 422
    assert "client_credentials" in answer.json()["message"]
    form = standing.http.post("/api/v2/token", data={"grant_type": grant})
    assert (form.status_code, form.json()["error"]) == (400, "unsupported_grant_type")
