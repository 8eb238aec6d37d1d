"""What a browser keeps while a person signs in at an identity provider."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import ECKey

from fairpool.control.oidc import WELL_KNOWN
from tests.control.control_plane import HERE, ControlPlane, control_plane, expect

TLS = HERE.replace("http:", "https:")


class Discovery(BaseHTTPRequestHandler):
    """What an OpenID Connect provider says of itself. Nothing else is asked for before a person comes back."""

    def do_GET(self) -> None:
        here = f"http://{self.headers['Host']}"
        said = {"issuer": here, "authorization_endpoint": f"{here}/a", "token_endpoint": f"{here}/t"}
        more = {"jwks_uri": f"{here}/k", "id_token_signing_alg_values_supported": ["ES256"]}
        key = ECKey.generate_key("P-256", {"use": "sig", "alg": "ES256"}, private=False).as_dict(private=False)
        body = json.dumps({**said, **more, "keys": [key]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def control() -> Iterator[ControlPlane]:
    """With the provider `company`."""
    with HTTPServer(("127.0.0.1", 0), Discovery) as provider, control_plane() as control:
        serving = threading.Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            _connect(control, f"http://127.0.0.1:{provider.server_port}{WELL_KNOWN}")
            yield control
        finally:
            provider.shutdown()
            serving.join()


def _connect(control: ControlPlane, discovery: str) -> None:
    allow = "/api/v1/security/settings/security.privateIdentityProviders"
    expect(control.call("PUT", allow, {"value": True}), 200)
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
