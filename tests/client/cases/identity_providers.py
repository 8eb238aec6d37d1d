"""Identity providers: one that the client adds is offered on the sign-in page.

It is a SAML provider by its metadata file. The client refuses the address of an OIDC provider on the machine itself,
before it sends it: `tests/end_to_end/test_single_sign_on.py` signs in with one that was added with our own command.
"""

from __future__ import annotations

import http.client
import urllib.request

from tests.client.original import Original
from tests.control.saml_provider import SIGN_IN_URL, metadata_xml, signer


def case_identity_providers(original: Original) -> None:
    data = {"metadataXmlType": "file", "metadataXmlFile": metadata_xml(signer()), "fileName": "idp.xml"}
    body = {"name": "company", "type": "saml", "samlData": data, "mappers": {"email": "mail", "groups": "teams"}}
    assert original.call("IdpsApi.create_idp", idp_creation_request=body) == {"alias": "company"}
    assert "/sign-in/with/company" in _sign_in_page(original)
    named = {"idp": "company"}
    found = original.call("IdpsApi.get_idp", **named)
    assert found["redirectUri"].startswith(original.platform.status["address"])
    assert found["samlData"]["singleSignOnServiceUrl"] == SIGN_IN_URL
    assert [each["alias"] for each in original.call("IdpsApi.get_idps")] == ["company"]
    mappers = original.call("IdpsApi.get_idp_mappers", **named)
    assert (mappers["email"], mappers["groups"]) == ("mail", "teams")
    original.call("IdpsApi.update_idp_mappers", mappers={"email": "email", "groups": "groups"}, **named)
    assert original.call("IdpsApi.get_idp_mappers", **named)["groups"] == "groups"
    changed = {**body, "samlData": {**data, "entityId": "https://gpu.example.com"}}
    original.call("IdpsApi.update_idp", idp_creation_request=changed, **named)
    assert original.call("IdpsApi.get_idp", **named)["samlData"]["entityId"] == "https://gpu.example.com"
    setting = {"key": "autoRedirectSSO"}
    chosen = {"enabled": True, "idpAlias": "company"}
    original.call(
        "SettingsApi.update_security_setting_by_key", update_security_setting_by_key_request=chosen, **setting
    )
    assert original.call("SettingsApi.get_security_setting_by_key", **setting)["idpAlias"] == "company"
    with urllib.request.urlopen(f"{original.platform.status['address']}/sign-in?local=true") as page:
        assert page.url.endswith("/sign-in?local=true"), "administrators keep a way in"
    connection = http.client.HTTPConnection(original.platform.status["address"].removeprefix("http://"))
    connection.request("GET", "/sign-in")
    assert connection.getresponse().headers["location"].startswith("/sign-in/with/company")
    connection.close()
    original.call("IdpsApi.delete_idp", **named)
    assert original.call("IdpsApi.get_idps") == []
    assert "/sign-in/with/company" not in _sign_in_page(original)


def _sign_in_page(original: Original) -> str:
    with urllib.request.urlopen(f"{original.platform.status['address']}/sign-in") as answer:
        return str(answer.read().decode())
