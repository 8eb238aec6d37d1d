"""What a browser keeps while a person signs in at an identity provider, and what a hostile provider gets by it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey
from starlette.testclient import TestClient

from fairpool.control.oidc import WELL_KNOWN
from fairpool.control.store import identity_providers as store
from fairpool.model.ids import Instant
from tests.control.control_plane import HERE, START, ControlPlane, codes, expect
from tests.control.served_provider import TLS, ProviderHandler, with_provider

LOG = "/api/v1/audit/log"
KEY = ECKey.generate_key("P-256", {"kid": "k1"})


class Provider(ProviderHandler):
    """An OpenID Connect provider. Each code is the nonce of its sign-in, and good once."""

    used: ClassVar[set[str]] = set()
    secrets: ClassVar[list[str]] = []
    said: ClassVar[dict[str, Any]] = {}
    """Claims that differ from those of an honest provider."""
    user_info: ClassVar[dict[str, Any]] = {}
    """Claims that only its userinfo endpoint has."""
    is_down: ClassVar[bool] = False

    def do_GET(self) -> None:
        here = self._here()
        said = {"issuer": here, "authorization_endpoint": f"{here}/a", "token_endpoint": f"{here}/t"}
        if self.is_down:
            self._say({}, 503)
            return
        more = {"jwks_uri": f"{here}/k", "id_token_signing_alg_values_supported": ["ES256"]}
        info = {"userinfo_endpoint": f"{here}/u", "sub": "1", **self.user_info} if self.user_info else {}
        self._say({**said, **more, **info, "keys": [KEY.as_dict(private=False)]})

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.secrets.append(base64.b64decode(self.headers["Authorization"].partition(" ")[2]).decode())
        code = form["code"][0]
        if code in self.used:
            self._say({"error": "invalid_grant"}, 400)
            return
        self.used.add(code)
        claims = {"iss": self._here(), "aud": "fairpool", "sub": "1", "nonce": code, "email": "ann@example.com"}
        times = {"iat": START // 1000, "exp": START // 1000 + 10_000}
        token = jwt.encode({"alg": "ES256", "kid": "k1"}, {**claims, "groups": [], **times, **self.said}, KEY)
        self._say({"access_token": "a", "token_type": "Bearer", "id_token": token})

    def _here(self) -> str:
        return f"http://{self.headers['Host']}"

    def _say(self, said: Any, status: int = 200) -> None:
        self.answer(json.dumps(said).encode(), status)


@pytest.fixture(scope="module")
def control() -> Iterator[ControlPlane]:
    """With the provider `company`."""
    with with_provider(Provider) as (control, address):
        _connect(control, f"{address}{WELL_KNOWN}")
        yield control


def _connect(control: ControlPlane, discovery: str) -> None:
    data = {"clientId": "fairpool", "clientSecret": "not told", "discoverDocumentUrl": discovery}
    expect(control.call("POST", "/api/v1/idps", {"name": "company", "type": "oidc", "oidcData": data}), 201)


@pytest.mark.parametrize(
    ("base", "prefix", "path"), [(HERE, "fairpool_sign_in_", "/sign-in"), (TLS, "__Host-fairpool_sign_in_", "/")]
)
def test_the_cookie_of_a_sign_in_is_kept_and_deleted(control: ControlPlane, base: str, prefix: str, path: str) -> None:
    """Browsers refuse a `__Host-` cookie, and its deletion, that is not secure or has another path."""
    client = control.browser(base, follow_redirects=False)
    begun = client.get("/sign-in/with/company")
    state = parse_qs(urlsplit(begun.headers["location"]).query)["state"][0]
    denied = client.get("/sign-in/with/company/callback", params={"state": state, "error": "access_denied"})
    assert "did not let you in" in denied.text
    for cookie in (begun.headers["set-cookie"], denied.headers["set-cookie"]):
        name, *attributes = cookie.split("; ")
        assert name.startswith(prefix)
        assert {"HttpOnly", "SameSite=lax", f"Path={path}"} <= set(attributes)
        assert ("Secure" in attributes) == (base == TLS)
        assert "Domain" not in cookie
    assert not client.cookies


def test_with_tls_only_the_cookie_that_no_other_host_can_set_counts(control: ControlPlane) -> None:
    """Another subdomain can set a cookie without the prefix, with a sign-in that an attacker began."""
    client = control.browser(TLS, follow_redirects=False)
    begun = client.get("/sign-in/with/company")
    state = parse_qs(urlsplit(begun.headers["location"]).query)["state"][0]
    ((name, value),) = client.cookies.items()
    client.cookies.clear()
    client.cookies[name.removeprefix("__Host-")] = value
    back = client.get("/sign-in/with/company/callback", params={"state": state, "error": "access_denied"})
    assert "was not started in this browser" in back.text


class Visit:
    """A browser that has begun to sign in."""

    def __init__(self, control: ControlPlane, following: str = "/") -> None:
        self.client: TestClient = control.browser(follow_redirects=False)
        begun = self.client.get("/sign-in/with/company", params={"next": following})
        said = parse_qs(urlsplit(begun.headers["location"]).query)
        self.state, self.code = said["state"][0], said["nonce"][0]

    def come_back(self, **changed: str) -> Any:
        said = {"state": self.state, "code": self.code, **changed}
        return self.client.get("/sign-in/with/company/callback", params=said)

    @property
    def is_signed_in(self) -> bool:
        return self.client.get("/api/v1/me").status_code == 200


def test_the_browser_that_began_gets_a_session_with_a_new_token(control: ControlPlane) -> None:
    """A token that was in the browser before, perhaps planted there, is not the one that is signed in."""
    visit = Visit(control, "/device?code=x")
    visit.client.cookies["fairpool_session"] = "planted"
    back = visit.come_back()
    assert (back.status_code, back.headers["location"]) == (303, "/device?code=x")
    assert visit.is_signed_in
    set_cookie = next(each for each in back.headers.get_list("set-cookie") if each.startswith("fairpool_session="))
    assert "planted" not in set_cookie


def test_a_code_is_good_once(control: ControlPlane) -> None:
    visit = Visit(control)
    kept = dict(visit.client.cookies)
    assert visit.come_back().status_code == 303
    visit.client.cookies.clear()
    assert "was not started in this browser" in visit.come_back().text
    visit.client.cookies.update(kept)
    assert "ended the session" in visit.come_back().text, "the provider refuses it as well"
    assert not visit.is_signed_in


def test_the_sign_in_of_another_browser_cannot_be_ended_here(control: ControlPlane) -> None:
    """Login CSRF and fixation: an attacker's state, or code, in the browser of a victim."""
    victim, attacker = Visit(control), Visit(control)
    assert "was not started in this browser" in victim.come_back(state=attacker.state, code=attacker.code).text
    assert "was not started in this browser" in victim.come_back(state="").text
    refusal = victim.come_back(code=attacker.code)
    assert "nonce" in refusal.text, "a code of the attacker belongs to the attacker's nonce"
    assert not victim.is_signed_in
    assert "another identity provider" in attacker.come_back(iss="https://evil.example.com").text, "mix-up"


def test_a_sign_in_takes_ten_minutes_at_most(control: ControlPlane) -> None:
    visit = Visit(control)
    control.clock.turn(601)
    assert "took longer than 10 minutes" in visit.come_back().text


def test_mapped_claims_may_be_in_the_userinfo_alone(control: ControlPlane) -> None:
    control.clock.turn(601)  # the discovery document is read again
    Provider.user_info = {"UID": 4711, "GID": 4712}
    try:
        assert Visit(control).come_back().status_code == 303
    finally:
        Provider.user_info = {}
        control.clock.turn(601)
    found = expect(control.call("GET", LOG, params={"filterBy": "subject==company"}), 200)["entries"]
    assert '"uid": 4711, "gid": 4712' in str(found[0]["changes"])


def test_invented_keys_keep_no_one_from_signing_in(control: ControlPlane) -> None:
    """Without a session, and while the provider does not answer."""
    visit = Visit(control)
    assert Visit(control).come_back().status_code == 303, "its keys are known"
    token = jwt.encode({"alg": "ES256", "kid": "invented"}, {"sub": "1"}, KEY)
    Provider.is_down = True
    try:
        for _ in range(3):
            refused = control.http.post("/sign-in/with/company/logout", data={"logout_token": token})
            assert refused.status_code == 400
        assert visit.come_back().status_code == 303
    finally:
        Provider.is_down = False


@pytest.mark.parametrize("said", [{"sub": 7}, {"email": "a\r\nBcc: b@c.d"}, {"email": []}, {"groups": ["g"] * 2000}])
def test_claims_that_cannot_be_used_are_refused_on_a_page(control: ControlPlane, said: dict[str, Any]) -> None:
    Provider.said = said
    try:
        visit = Visit(control)
        assert visit.come_back().status_code == 400
        assert not visit.is_signed_in
    finally:
        Provider.said = {}


def test_what_a_provider_changes_is_in_the_audit_log(control: ControlPlane) -> None:
    """A new user and their groups, which are their roles; nothing where nothing changed."""

    def noted(*groups: str) -> list[tuple[str, list[str]]]:
        Provider.said = {"sub": "bea", "email": "bea@example.com", "groups": groups}
        try:
            assert Visit(control).come_back().status_code == 303
        finally:
            Provider.said = {}
        found = expect(control.call("GET", LOG, params={"filterBy": "subject==company"}), 200)["entries"]
        own = [each for each in found if each["entity_name"] == "bea@example.com"]
        return [(each["action"], [change["kind"] for change in each["changes"]]) for each in own]

    first = ("create", ["users", "provider_accounts", "user_groups", "user_groups"])
    assert noted("a", "b") == [first]
    assert noted("b", "a") == [first]
    assert noted("b") == [("update", ["user_groups"]), first]


@pytest.mark.parametrize(
    "there", ["https://evil.example.com/", "//evil.example.com", "/\\evil.example.com", "\t//e.com", "javascript:1"]
)
def test_no_sign_in_page_leads_elsewhere(control: ControlPlane, there: str) -> None:
    visit = Visit(control, there)
    assert visit.come_back().headers["location"] == "/"
    for path in ("/sign-in", "/sign-in/with/missing"):
        page = control.browser(follow_redirects=False).get(path, params={"next": there})
        assert "location" not in page.headers
        assert "evil.example.com" not in page.text
        assert "javascript:" not in page.text


def test_a_stored_secret_is_sent_to_no_other_provider(control: ControlPlane) -> None:
    data = expect(control.call("GET", "/api/v1/idps/company"), 200)["oidcData"]
    same = {name: data[name] for name in ("clientId", "discoverDocumentUrl")}
    before = len(Provider.secrets)
    for changed in (
        {**same, "clientId": "other"},
        {**same, "discoverDocumentUrl": data["discoverDocumentUrl"].replace("127.0.0.1", "localhost")},
    ):
        body = {"type": "oidc", "oidcData": changed}
        assert codes(control.call("PUT", "/api/v1/idps/company", body)) == ["idp.no_secret"]
    assert len(Provider.secrets) == before
    required = {"claim": "sub", "values": ["1"]}
    more = {"oidcData": {**same, "mandatoryClaim": required, "scopes": ["openid"]}, "mappers": {"uid": "number"}}
    set_up = expect(control.call("PUT", "/api/v1/idps/company", {"type": "oidc", **more}), 200)
    again = expect(control.call("PUT", "/api/v1/idps/company", {"type": "oidc", "oidcData": same}), 200)
    assert again == set_up, "what is left out stays"
    assert again["oidcData"]["mandatoryClaim"] == required
    off = {"type": "oidc", "oidcData": {**same, "mandatoryClaim": None, "scopes": None}, "mappers": {}}
    assert "mandatoryClaim" not in expect(control.call("PUT", "/api/v1/idps/company", off), 200)["oidcData"]
    assert Visit(control).come_back().status_code == 303
    assert set(Provider.secrets) == {"fairpool:not+told"}


def test_an_access_key_works_while_the_provider_confirms_its_owner(control: ControlPlane) -> None:
    """A person who was removed at the provider can do nothing with a key, or with a password."""
    visit = Visit(control)
    assert visit.come_back().status_code == 303
    key = visit.client.post("/api/v1/access-keys", json={"name": "ci"}, headers={"X-Fairpool-Request": "1"}).json()
    secret = {"grantType": "client_credentials", "clientId": key["clientId"], "clientSecret": key["clientSecret"]}

    def sign_in() -> Any:
        return control.http.post("/api/v1/token", json=secret)

    control.tokens["ci"] = expect(sign_in(), 200)["accessToken"]
    expect(control.call("GET", "/api/v1/me", by="ci"), 200)
    _confirm(control, Instant(START - 30 * 86_400_000))
    assert codes(sign_in()) == ["access-key.unconfirmed"]
    assert control.call("GET", "/api/v1/me", by="ci").status_code == 401, "sessions of the key end as well"
    assert Visit(control).come_back().status_code == 303
    expect(sign_in(), 200)
    password = "/api/v1/users/ann@example.com/password"
    assert codes(control.call("POST", password)) == ["user.no_password"]

    discovery = expect(control.call("GET", "/api/v1/idps/company"), 200)["oidcData"]["discoverDocumentUrl"]
    expect(control.call("DELETE", "/api/v1/idps/company"), 204)
    assert control.call("GET", "/api/v1/me", by="ci").status_code == 401
    assert codes(sign_in()) == ["access-key.unconfirmed"]
    expect(control.call("POST", password), 200)
    assert expect(control.call("GET", "/api/v1/users/ann@example.com"), 200)["isLocal"], "an administrator made it so"
    expect(control.call("DELETE", "/api/v1/users/ann@example.com"), 204)
    _connect(control, discovery)


def _confirm(control: ControlPlane, moment: Instant) -> None:
    """The last time that the provider confirmed Ann's account is then."""
    plane = control.app.state.plane

    async def prepare() -> None:
        await plane.write(lambda connection: store.confirm_account(connection, "company", "1", "{}", moment))
        plane.callers.clear()  # nothing but this test puts the moment back

    assert control.http.portal is not None
    control.http.portal.call(prepare)
