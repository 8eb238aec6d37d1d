"""Sign-in with a SAML provider: which browser gets a session for a response, and how often."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar
from unittest.mock import ANY
from urllib.parse import parse_qs, urlsplit

import pytest
from lxml import etree
from starlette.testclient import TestClient, WebSocketDenialResponse

from fairpool.api.access import ScopeType
from fairpool.api.clusters import NodeReport
from fairpool.control import rbac, saml
from fairpool.control.plane import Caller
from fairpool.control.tool_access import may_open
from fairpool.model.ids import NodeName, PoolName
from fairpool.model.node import RUNTIME_LABEL
from tests.control.control_plane import HERE, ControlPlane, codes, expect
from tests.control.saml_provider import ENTITY, SIGN_IN_URL, Answer, Signer, encoded, metadata_xml, signer
from tests.control.served_provider import TLS, ProviderHandler, with_provider


class Provider(ProviderHandler):
    """Publishes metadata."""

    signers: ClassVar[list[Signer]] = [signer()]
    entity: ClassVar[str] = ENTITY

    def do_GET(self) -> None:
        self.answer(metadata_xml(*self.signers, entity=self.entity).encode())


@pytest.fixture(scope="module")
def control() -> Iterator[ControlPlane]:
    """With the provider `company`, by file, and `published`, by URL."""
    with with_provider(Provider) as (control, address):
        add(control, "company", metadataXmlType="file", metadataXmlFile=metadata_xml(signer()), fileName="idp.xml")
        add(control, "published", metadataXmlUrl=f"{address}/metadata")
        yield control


def add(control: ControlPlane, name: str, **data: Any) -> None:
    expect(control.call("POST", "/api/v1/idps", {"name": name, "type": "saml", "samlData": data}), 201)


class Visit:
    """A browser that begins to sign in, and comes back with what a test has the provider say."""

    def __init__(self, control: ControlPlane, alias: str = "company", base: str = HERE, following: str = "/") -> None:
        self.control, self.alias = control, alias
        self.client: TestClient = control.browser(base, follow_redirects=False)
        self.path = f"/sign-in/with/{alias}/acs"
        self.begin(following)

    def begin(self, following: str = "/") -> None:
        begun = self.client.get(f"/sign-in/with/{self.alias}", params={"next": following})
        assert begun.status_code == 303, begun.text
        said = parse_qs(urlsplit(begun.headers["location"]).query)
        assert begun.headers["location"].startswith(SIGN_IN_URL)
        self.state = said["RelayState"][0]
        asked = etree.fromstring(zlib.decompress(base64.b64decode(said["SAMLRequest"][0]), -15))
        platform = saml.ServiceProvider(
            entity_id=asked.findtext(f"{saml.A}Issuer"), acs_url=asked.get("AssertionConsumerServiceURL")
        )
        self.answer = Answer(
            platform, asked.get("ID"), self.control.clock.now // 1000, identifier=f"_{self.state[:16]}"
        )

    def post(self, response: bytes, state: str | None = None) -> Any:
        """As a page of another site does it: without our cookies."""
        form = {"SAMLResponse": encoded(response), "RelayState": self.state if state is None else state}
        bare = TestClient(self.client.app, base_url=str(self.client.base_url), follow_redirects=False)
        bare.portal = self.client.portal
        return bare.post(self.path, data=form, headers={"Origin": "https://id.example.com"})

    def come_back(self, response: bytes, state: str | None = None) -> Any:
        posted = self.post(response, state)
        return self.client.get(posted.headers["location"]) if posted.status_code == 303 else posted


def signed_in_as(visit: Visit) -> str:
    found = visit.client.get("/api/v1/me")
    return str(found.json()["username"]) if found.status_code == 200 else ""


@pytest.mark.parametrize("base", [HERE, TLS])
def test_the_browser_that_began_gets_a_session(control: ControlPlane, base: str) -> None:
    visit = Visit(control, base=base, following="/device?code=x")
    said = replace(visit.answer, attributes={"GROUPS": ["research"], "UID": ["4711"]})
    back = visit.come_back(said.signed())
    assert (back.status_code, back.headers["location"]) == (303, "/device?code=x")
    assert signed_in_as(visit) == "ann@example.com"
    assert len(visit.client.cookies) == 1, "the cookie of the sign-in is gone"


def test_a_session_ends_with_that_of_the_provider(control: ControlPlane) -> None:
    visit = Visit(control)
    assert visit.come_back(replace(visit.answer, session_s=900).signed()).status_code == 303
    control.clock.turn(900 + saml.SKEW_S - 1)
    assert signed_in_as(visit) == "ann@example.com"
    control.clock.turn(1)
    assert not signed_in_as(visit)


def test_a_response_is_used_once(control: ControlPlane) -> None:
    visit = Visit(control)
    response = visit.answer.signed()
    posted = visit.post(response)
    assert posted.status_code == 303
    assert "used before" in visit.post(response).text
    control.clock.turn(saml.SKEW_S + 299)
    assert "used before" in visit.post(response).text, "as long as it would be accepted"
    control.clock.turn(1)
    assert "has expired" in visit.post(response).text
    late = visit.client.get(posted.headers["location"])
    assert "was not started in this browser" in late.text, "the page after it comes at once or not at all"


def test_the_page_after_it_is_shown_once(control: ControlPlane) -> None:
    visit = Visit(control)
    there = visit.post(visit.answer.signed()).headers["location"]
    kept = dict(visit.client.cookies)
    assert visit.client.get(there).status_code == 303
    visit.client.cookies.clear()
    visit.client.cookies.update(kept)
    assert visit.client.get(there).status_code == 400
    assert not signed_in_as(visit)


def test_a_response_for_another_browser_makes_no_session(control: ControlPlane) -> None:
    """An attacker's own response, posted by a page that the victim visits; and a stolen one, in the thief's browser."""
    victim, attacker = Visit(control), Visit(control)
    for state, why in ((attacker.state, "not started in this browser"), (victim.state, "answers another sign-in")):
        said = replace(attacker.answer, identifier=f"_{state[:8]}", subject="attacker", email="attacker@example.com")
        assert why in victim.come_back(said.signed(), state).text
        assert not signed_in_as(victim)
    assert "not started in this browser" in Visit(control).come_back(attacker.answer.signed(), attacker.state).text


@pytest.mark.parametrize("state", ["https://evil.example.com/", "//evil.example.com", "", "x" * 5000, "a\r\nb: c"])
def test_the_relay_state_is_no_address(control: ControlPlane, state: str) -> None:
    visit = Visit(control)
    posted = visit.post(replace(visit.answer, identifier=f"_{hash(state)}").signed(), state)
    assert posted.headers["location"].startswith("/sign-in/with/company/acs?ticket=")
    assert visit.client.get(posted.headers["location"]).status_code == 400
    assert not signed_in_as(visit)


@pytest.mark.parametrize("following", ["https://evil.example.com/", "//evil.example.com", "/\\evil.example.com"])
def test_the_page_to_go_on_to_is_one_of_ours(control: ControlPlane, following: str) -> None:
    visit = Visit(control, following=following)
    assert visit.come_back(visit.answer.signed()).headers["location"] == "/"


def test_forgeries_are_refused_on_a_page_that_says_why(control: ControlPlane) -> None:
    visit = Visit(control)
    for response, why in (
        (visit.answer.response().encode(), "not signed"),
        (visit.answer.signed(signer("other")), "not made with a key of the provider"),
        (replace(visit.answer, recipient="https://other.example.com/acs").signed(), "its Recipient is not"),
        (b"<!DOCTYPE a><a/>", "document type"),
    ):
        refusal = visit.post(response)
        assert (refusal.status_code, why in refusal.text) == (400, True), refusal.text
    assert visit.client.post(visit.path, content=b"x" * (3 * saml.RESPONSE_MAX)).status_code in (400, 413)
    assert visit.client.post(visit.path, data={}).status_code == 400


def test_a_new_certificate_is_fetched_and_another_provider_is_not_believed(control: ControlPlane) -> None:
    def came_back(by: Signer) -> Any:
        visit = Visit(control, "published")
        return visit.come_back(replace(visit.answer, subject="p", email="p@example.com").signed(by))

    assert came_back(signer()).status_code == 303
    assert "not made with a key" in came_back(signer("next")).text
    try:
        Provider.signers = [signer(), signer("next")]
        assert came_back(signer("next")).status_code == 303, "without waiting for the old metadata to expire"
        assert came_back(signer()).status_code == 303
        Provider.entity = "https://other.example.com"
        control.clock.turn(601)
        begun = control.browser(follow_redirects=False).get("/sign-in/with/published")
        assert "is now that of another provider" in begun.text
    finally:
        Provider.signers, Provider.entity = [signer()], ENTITY
        control.clock.turn(601)


TRAININGS = "/api/v1/workloads/trainings"
IN_CONTAINERS = {
    "image": "python",
    "compute": {"gpu": "1"},
    "security": {"uidGidSource": "fromIdpToken"},
    "ports": [{"container": 8888, "serviceType": "Ingress"}],
}


def test_pods_run_with_the_numbers_of_the_directory(control: ControlPlane) -> None:
    control.project("team-a")
    labels = {RUNTIME_LABEL: "podman"}
    report = NodeReport(name=NodeName("n1"), pool=PoolName("default"), gpus=8, labels=labels, privileges=())
    control.push(control.report(whole=True, nodes=(report,)))
    rule = {"subjectId": "unix", "subjectType": "group", "roleId": "researcher", "scopeType": "project"}
    expect(control.call("POST", "/api/v1/authorization/access-rules", {**rule, "scopeId": "team-a"}), 201)
    visit = Visit(control, "published")

    def signed_in(uid: str, gid: str) -> None:
        visit.begin()
        numbers = {"UID": [uid], "GID": [gid], "SUPPLEMENTARYGROUPS": ["5000", "5001"]}
        said = replace(visit.answer, subject="unix", email="unix@example.com")
        said.attributes = {"GROUPS": ["unix"], **numbers}
        assert visit.come_back(said.signed()).status_code == 303

    def submitted(name: str) -> Any:
        body = {"name": name, "projectId": "team-a", "spec": IN_CONTAINERS}
        return visit.client.post(TRAININGS, json=body, headers={"X-Fairpool-Request": "1"})

    signed_in("0", "4712")
    assert codes(submitted("root")) == ["security.directory_id"]
    signed_in("4711", "4712")
    made = expect(submitted("mine"), 202)
    (declared,) = (each for each in control.pull().workloads if each.name == "mine")
    security = declared.template.program.security
    assert (security.uid, security.gid, security.groups) == (4711, 4712, (5000, 5001))
    assert security.directory_user
    by_admin = control.call("POST", TRAININGS, {"name": "other", "projectId": "team-a", "spec": IN_CONTAINERS})
    assert codes(by_admin) == ["security.no_directory_user"]
    assert "numeric user ID" in by_admin.text
    changed = control.call("PATCH", f"{TRAININGS}/{made['workloadId']}", {"spec": {"args": "other"}})
    assert codes(changed) == ["security.directory_user"], "it would do what another user says with these numbers"
    own = f"/api/v1/workloads/{made['workloadId']}"
    bearer = {"Authorization": f"Bearer {control.tokens['admin']}"}
    cookie = "; ".join(f"{name}={value}" for name, value in visit.client.cookies.items())
    for path in (f"{own}/exec?command=id", f"{own}/attach", f"{own}/port-forward?port=80"):
        assert refusal(control.http, path, bearer) == "security.directory_user", "nor may they type into its pods"
        assert refusal(visit.client, path, {"Origin": HERE, "Cookie": cookie}) == "pod.unknown", (
            "the submitter may, once there is one"
        )
    grant = rbac.Grant("admin", rbac.EVERYTHING, ScopeType.TENANT)
    names = ("unix@example.com", "bob@example.com")
    callers = [Caller(id=each, name=each, kind="user", grants=(grant,)) for each in names]
    origin, portal = f"{made['workloadId']}-8888", control.http.portal
    assert portal is not None
    opened = [portal.call(may_open, control.app.state.plane, each, origin) for each in callers]
    assert [each is not None for each in opened] == [True, False], "nor open its tools"


def refusal(client: TestClient, path: str, headers: dict[str, str]) -> str:
    """Why a WebSocket is refused."""
    named = {"host": urlsplit(HERE).netloc, **headers}
    with pytest.raises(WebSocketDenialResponse) as refused, client.websocket_connect(path, headers=named):
        pass
    return str(codes(refused.value)[0])


def test_settings_are_shown_changed_and_tested(control: ControlPlane) -> None:
    shown = expect(control.call("GET", "/api/v1/idps/company"), 200)
    assert (shown["redirectUri"], shown["status"]) == (f"{HERE}/sign-in/with/company/acs", "Ready")
    data = shown["samlData"]
    assert (data["issuer"], data["fileName"], data["metadataXmlType"]) == (ENTITY, "idp.xml", "file")
    assert data["entityId"] == data["serviceProviderMetadataUrl"] == f"{HERE}/sign-in/with/company/metadata"
    ours = control.http.get(data["serviceProviderMetadataUrl"])
    assert ours.headers["content-type"] == "application/samlmetadata+xml"
    assert shown["redirectUri"] in ours.text
    body = {"type": "saml", "samlData": {"metadataXmlType": "file"}, "mappers": {"groups": "roles"}}
    changed = expect(control.call("PUT", "/api/v1/idps/company", body), 200)
    assert changed["samlData"] == data, "what is not sent is kept"
    assert changed["mappers"]["groups"] == "roles"
    body = {"type": "saml", "samlData": {"metadataXmlType": "file"}}
    assert expect(control.call("PUT", "/api/v1/idps/company", body), 200) == {**changed, "updatedAt": ANY}
    for name in ("company", "published"):
        found = expect(control.call("POST", f"/api/v1/idps/{name}/test"), 200)
        assert found["works"], found


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({}, "idp.incomplete"),
        ({"metadataXmlType": "file"}, "idp.incomplete"),
        ({"metadataXmlType": "file", "metadataXmlFile": "<a/>"}, "idp.unusable"),
        ({"metadataXmlType": "file", "metadataXmlFile": "é"}, "idp.metadata"),
        ({"metadataXmlUrl": "file:///etc/passwd"}, "outbound.url"),
        ({"metadataXmlUrl": "http://169.254.169.254/metadata"}, "outbound.address"),
        ({"metadataXmlUrl": "http://127.0.0.1:1/metadata"}, "idp.unavailable"),
    ],
)
def test_settings_that_cannot_work_are_refused(control: ControlPlane, data: dict[str, str], code: str) -> None:
    body = {"name": "wrong", "type": "saml", "samlData": data}
    assert codes(control.call("POST", "/api/v1/idps", body)) == [code]


def test_paths_of_the_other_kind_of_provider_are_refused(control: ControlPlane) -> None:
    visit = Visit(control)
    back = visit.client.get("/sign-in/with/company/callback", params={"state": visit.state, "code": "c"})
    assert "is not an OpenID Connect provider" in back.text
    assert control.http.post("/sign-in/with/company/logout", data={"logout_token": "x"}).status_code == 400
    assert control.http.get("/sign-in/with/missing/metadata").status_code == 404
    assert control.http.post("/sign-in/with/missing/acs", data={"SAMLResponse": "x"}).status_code == 404


def test_invented_names_of_providers_leave_no_entries(control: ControlPlane) -> None:
    def entries() -> int:
        return len(expect(control.call("GET", "/api/v1/audit/log?action=sign-in&limit=500"), 200)["entries"])

    before = entries()
    for number in range(3):
        answer = control.http.post(f"/sign-in/with/invented-{number}/acs", data={"SAMLResponse": "x"})
        assert answer.status_code == 404
    assert entries() == before
    assert control.http.post("/sign-in/with/company/acs", data={"SAMLResponse": "x"}).status_code == 400
    assert entries() == before + 1
