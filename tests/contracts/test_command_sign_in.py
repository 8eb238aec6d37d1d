"""Codes that a person gives to a command in their browser: what they are shown first, and when the codes end."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from fairpool.control.command_sign_in import CODES_A_MINUTE
from tests.control.control_plane import HERE, ControlPlane, codes, control_plane, expect

OWN_PAGE = {"Origin": HERE}
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        control.researcher("ann", "team-a")
        yield control


@pytest.fixture
def browser(control: ControlPlane) -> TestClient:
    """Ann's browser, signed in."""
    client = control.browser(headers=OWN_PAGE)
    form = {"username": "ann@example.com", "password": "correct horse", "next": "/"}
    assert "signed in as <strong>ann@example.com" in client.post("/sign-in", data=form).text
    return client


def copied(control: ControlPlane, browser: TestClient) -> dict[str, str]:
    """What a command asks for tokens with, after the person copied a code."""
    page = browser.post("/sign-in/command", data={"challenge": CHALLENGE, "state": "", "port": "0"})
    code = page.text.partition('<code id="code">')[2].partition("<")[0]
    assert code.startswith("fpc_")
    return {"grantType": "authorization_code", "code": code, "codeVerifier": VERIFIER}


def approved(control: ControlPlane, browser: TestClient) -> dict[str, str]:
    """The same, after the person approved a device code."""
    begun = begin(control)
    assert 'value="approve"' in browser.post("/device", data={"code": begun["userCode"]}).text
    page = browser.post("/device", data={"code": begun["userCode"], "decision": "approve"})
    assert "Sign-in approved" in page.text
    return {"grantType": DEVICE_GRANT, "deviceCode": begun["deviceCode"]}


def begin(control: ControlPlane, agent: str = "runai/1.0") -> Any:
    return expect(control.http.post("/api/v1/sign-in/device", headers={"User-Agent": agent}), 200)


WAYS = {copied: "access.wrong_code", approved: "access.expired_code"}


def test_a_code_signs_the_command_in_once(control: ControlPlane, browser: TestClient) -> None:
    for way, refusal in WAYS.items():
        body = way(control, browser)
        control.tokens["command"] = expect(control.http.post("/api/v1/token", json=body), 200)["accessToken"]
        assert expect(control.call("GET", "/api/v1/me", by="command"), 200)["username"] == "ann@example.com"
        assert codes(control.http.post("/api/v1/token", json=body)) == [refusal]
    listed = expect(control.call("GET", "/api/v1/me/sessions", by="ann"), 200)["sessions"]
    assert sorted(each["method"] for each in listed) == ["browser", "device-code", "password", "password"]


@pytest.mark.parametrize("end", ["new password", "by an administrator", "signed out"])
def test_codes_end_with_the_session_that_gave_them_out(control: ControlPlane, browser: TestClient, end: str) -> None:
    """An attacker with a stolen browser session must not keep a way in when the sessions are ended."""
    asked = [(way(control, browser), refusal) for way, refusal in WAYS.items()]
    if end == "new password":
        expect(control.call("POST", "/api/v1/users/ann@example.com/password"), 200)
    elif end == "by an administrator":
        listed = expect(control.call("GET", "/api/v1/sessions", params={"subject": "ann@example.com"}), 200)
        (session,) = (each["id"] for each in listed["sessions"] if each["kind"] == "browser")
        expect(control.call("DELETE", f"/api/v1/sessions/{session}"), 204)
    else:
        browser.post("/sign-out")
    for body, refusal in asked:
        assert codes(control.http.post("/api/v1/token", json=body)) == [refusal]


def test_a_device_code_is_allowed_only_after_it_is_shown_who_asks(control: ControlPlane, browser: TestClient) -> None:
    """A link with a code can come from an attacker, whose own command waits."""
    begun = begin(control, "<b>evil</b>/1.0")
    control.clock.turn(125)
    linked = browser.get("/device", params={"code": begun["userCode"]}).text
    assert begun["userCode"] in linked
    assert 'value="approve"' not in linked
    shown = browser.post("/device", data={"code": begun["userCode"].replace("-", " ").lower()}).text
    for said in ("ann@example.com", "2 min ago", "testclient", "&lt;b&gt;evil&lt;/b&gt;/1.0"):
        assert said in shown
    body = {"grantType": DEVICE_GRANT, "deviceCode": begun["deviceCode"]}
    assert codes(control.http.post("/api/v1/token", json=body)) == ["access.authorization_pending"]
    assert "Nothing was signed in" in browser.post("/device", data={"code": begun["userCode"], "decision": "deny"}).text
    assert codes(control.http.post("/api/v1/token", json=body)) == ["access.code_denied"]
    assert browser.post("/device", data={"code": begun["userCode"]}).status_code == 404


def test_codes_cannot_be_guessed_by_looking_them_up(control: ControlPlane, browser: TestClient) -> None:
    begun = begin(control)
    tried = [browser.post("/device", data={"code": f"BCDF-{each:04}"}).status_code for each in range(CODES_A_MINUTE)]
    assert set(tried) == {404}
    for decision in ({}, {"decision": "approve"}):
        answer = browser.post("/device", data={"code": begun["userCode"], **decision})
        assert answer.status_code == 429
    control.clock.turn(61)
    assert "1 min ago" in browser.post("/device", data={"code": begun["userCode"]}).text
