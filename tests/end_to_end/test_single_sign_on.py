"""Sign-in with accounts of a real Keycloak, by OpenID Connect and SAML: who gets in, as whom, and until when."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.end_to_end.provider_browser import Browser
from tests.end_to_end.runai_server import Server, serving
from tests.keycloak import Realm, realm

pytestmark = pytest.mark.slow

SECRET = "the secret of this platform"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("sso")) as server:
        server.log_in()
        server.typed("runai-adm setting update security.privateIdentityProviders true")
        yield server


@pytest.fixture(scope="module")
def company(keycloak: str, server: Server) -> Iterator[Realm]:
    """A realm that this platform is connected to as `company`."""
    with realm(keycloak, "company") as company:
        company.oidc_client("fairpool", SECRET, server.address, "company")
        body = {
            "name": "company",
            "type": "oidc",
            "oidcData": {"clientId": "fairpool", "clientSecret": SECRET, "discoverDocumentUrl": company.discovery},
        }
        assert server.admin._post("/api/v1/idps", body).alias == "company"
        yield company


def test_a_first_sign_in_makes_a_user_and_the_next_one_finds_it(company: Realm, server: Server) -> None:
    company.user("ann", groups=("research",))
    first = Browser(server.address)
    page = first.sign_in("company", "ann")
    assert "You are signed in as <strong>ann@company.test</strong>" in page.text
    me = first.me().json()
    assert (me["username"], me["hasPassword"]) == ("ann@company.test", False)
    second = Browser(server.address)
    second.sign_in("company", "ann")
    assert second.me().json()["id"] == me["id"]
    assert second.token != first.token
