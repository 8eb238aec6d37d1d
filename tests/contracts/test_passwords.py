"""Passwords: rules, and forgotten ones by mail, to a real SMTP server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select

from fairpool.control.password_rules import PasswordRules, password_problems
from fairpool.control.store.tables import metadata
from tests.control.control_plane import ControlPlane, codes, control_plane, expect
from tests.smtp_server import Mailbox, smtp_server

FORGOT, RESET = "/api/v1/password/forgot", "/api/v1/password/reset"


# --- rules ---


@pytest.mark.parametrize(
    "password",
    [
        *("password", "P@ssw0rd!2026", "12345678", "qwertyuiop", "letmein123", "aaaaaaaa", "abababab", "iloveyou!!"),
        *("98765432", "Admin123!", "correct horse battery staple", "Fairpool2026", "welcome1"),
    ],
)
def test_common_passwords_are_refused_however_they_are_decorated(password: str) -> None:
    codes_found = [each.code for each in password_problems(password, "eve@example.com", PasswordRules())]
    assert codes_found == ["access.common_password"]
    assert password_problems(password, "eve@example.com", PasswordRules(refuses_common=False)) == []


@pytest.mark.parametrize(
    "password", ["correct horse", "battery staple", "hvU7!kd93", "staple of the day", "größerer Hut"]
)
def test_other_passwords_are_not(password: str) -> None:
    assert password_problems(password, "eve@example.com", PasswordRules()) == []


@pytest.mark.parametrize("password", ["JohnSmith", "x-johnsmith-x", "johnsmith@example.com"])
def test_the_user_name_is_no_password(password: str) -> None:
    found = password_problems(password, "johnsmith@example.com", PasswordRules())
    assert [each.code for each in found] == ["access.name_as_password"]


def test_everything_wrong_is_said_at_once() -> None:
    with control_plane() as control:
        for key, value in (("security.passwordMinLength", 12), ("security.passwordMinClasses", 3)):
            expect(control.call("PUT", f"/api/v1/security/settings/{key}", {"value": value}), 200)
        body = {"email": "dragon@example.com", "password": "dragon123"}
        answer = control.call("POST", "/api/v1/users", body)
        assert codes(answer) == [
            "access.short_password",
            "access.plain_password",
            "access.name_as_password",
            "access.common_password",
        ]
        assert {each["field"] for each in answer.json()["problems"]} == {"password"}


# --- forgotten ---


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mailbox]:
    with smtp_server(tmp_path_factory.mktemp("smtp")) as box:
        yield box


@pytest.fixture
def control(box: Mailbox) -> Iterator[ControlPlane]:
    with control_plane(url="https://gpu.example.com") as control:
        control.researcher("ann")
        box.messages.clear()
        settings = {"host": box.host, "port": box.port, "security": "none", "from": "fairpool@example.com"}
        expect(control.call("PUT", "/api/v1/mail/settings", settings), 200)
        yield control


def sent(control: ControlPlane) -> None:
    """Wait until the mails that were begun are sent."""

    async def wait() -> None:
        for each in tuple(control.app.state.mails):
            await each

    assert control.http.portal is not None
    control.http.portal.call(wait)


def code_in(box: Mailbox) -> str:
    """The code of the link in the last mail."""
    found = re.search(r"https://gpu\.example\.com/reset-password\?code=(\S+)", box.messages[-1].get_content())
    assert found is not None
    return found[1]


def ask(control: ControlPlane, email: str) -> Any:
    answer = control.http.post(FORGOT, json={"email": email})
    sent(control)
    return answer


@pytest.mark.slow
def test_a_link_sets_a_new_password_once_and_ends_all_sessions(control: ControlPlane, box: Mailbox) -> None:
    expect(ask(control, "Ann@Example.com"), 202)
    (mail,) = box.messages
    assert mail["To"] == "ann@example.com"
    code = code_in(box)
    for wrong in ("short", "password1", "correct-ann@example.com"):
        assert control.http.post(RESET, json={"code": code, "newPassword": wrong}).status_code == 422
    body = {"code": code, "newPassword": "staple of the day"}
    expect(control.http.post(RESET, json=body), 204)
    assert control.call("GET", "/api/v1/me", by="ann").status_code == 401
    assert codes(control.http.post(RESET, json=body)) == ["access.link_not_valid"], "it works once"
    control.sign_in("ann", "ann@example.com", "staple of the day")
    assert expect(control.call("GET", "/api/v1/me", by="ann"), 200)["mustChangePassword"] is False
    control.tokens["link"] = code
    assert control.call("GET", "/api/v1/me", by="link").status_code == 401, "a link is no token"
    entries = expect(control.call("GET", "/api/v1/audit/log"), 200)["entries"]
    assert {"forgot-password", "reset-password"} <= {each["action"] for each in entries}
    assert code not in str(entries)


def test_a_new_user_is_told_by_mail_when_that_is_asked_for(control: ControlPlane, box: Mailbox) -> None:
    body = {"email": "new@example.com", "resetPassword": False, "notify": True}
    made = expect(control.call("POST", "/api/v1/users", body), 201)
    sent(control)
    assert box.messages[-1]["To"] == "new@example.com"
    assert made["tempPassword"] not in box.messages[-1].get_content()
    control.sign_in("new", "new@example.com", made["tempPassword"])
    assert expect(control.call("GET", "/api/v1/me", by="new"), 200)["mustChangePassword"] is False
    expect(control.http.post(RESET, json={"code": code_in(box), "newPassword": "staple of the day"}), 204)
    control.sign_in("new", "new@example.com", "staple of the day")
    expect(control.call("DELETE", "/api/v1/mail/settings"), 204)
    refused = control.call("POST", "/api/v1/users", {"email": "other@example.com", "notify": True})
    assert refused.status_code == 409
    assert "notify" in refused.json()["problems"][0]["fix"]
    listed = expect(control.call("GET", "/api/v1/users"), 200)
    assert "other@example.com" not in [each["email"] for each in listed], "nothing was created"


@pytest.mark.slow
def test_a_link_ends_with_its_time_and_with_another_change(control: ControlPlane, box: Mailbox) -> None:
    ask(control, "ann@example.com")
    late = code_in(box)
    control.clock.turn(30 * 60)
    body = {"code": late, "newPassword": "staple of the day"}
    assert codes(control.http.post(RESET, json=body)) == ["access.link_not_valid"]
    ask(control, "ann@example.com")
    code = code_in(box)
    expect(control.call("POST", "/api/v1/users/ann@example.com/password"), 200)
    assert codes(control.http.post(RESET, json={**body, "code": code})) == ["access.link_not_valid"]


def rows(control: ControlPlane) -> int:
    """How many there are in all tables."""
    counts = [select(func.count()).select_from(table) for table in metadata.sorted_tables]

    def counted(connection: Connection) -> int:
        return sum(connection.execute(each).scalar_one() for each in counts)

    assert control.http.portal is not None
    return int(control.http.portal.call(control.app.state.plane.read, counted))


@pytest.mark.slow
def test_unknown_users_cannot_be_told_from_known_ones(control: ControlPlane, box: Mailbox) -> None:
    """Same answer, and as many rows written."""
    ask(control, "first@example.com")  # the address is counted from then on
    seen = {}
    for email in ("ann@example.com", "eve@example.com"):
        before = rows(control)
        answer = ask(control, email)
        seen[email] = (answer.status_code, answer.content, rows(control) - before)
    assert seen["ann@example.com"] == seen["eve@example.com"]
    assert len(box.messages) == 1


def test_sign_in_of_an_unknown_user_computes_as_many_hashes(
    control: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = control.app.state.passwords
    computed: list[str] = []
    verify = passwords._verify

    def counting(password_hash: str, password: str) -> bool:
        computed.append(password_hash)
        return bool(verify(password_hash, password))

    monkeypatch.setattr(passwords, "_verify", counting)
    counts = {}
    for user in ("ann@example.com", "eve@example.com"):
        computed.clear()
        body = {"grantType": "password", "username": user, "password": "not the right one"}
        answer = control.http.post("/api/v1/token", json=body)
        counts[user] = (answer.status_code, codes(answer), len(computed))
    assert counts["ann@example.com"] == counts["eve@example.com"] == (401, ["access.wrong_password"], 1)


@pytest.mark.slow
def test_asking_is_limited_for_known_and_unknown_alike(control: ControlPlane, box: Mailbox) -> None:
    for email in ("ann@example.com", "eve@example.com"):
        answers = [ask(control, email).status_code for _ in range(6)]
        assert answers[:2] == [202, 202]
        assert answers[-1] == 429
    assert len(box.messages) < 6


def test_without_a_mail_server_every_address_is_told_so() -> None:
    with control_plane() as control:
        for email in ("test@run.ai", "eve@example.com"):
            assert codes(control.http.post(FORGOT, json={"email": email})) == ["mail.not_configured"]


@pytest.mark.slow
def test_the_pages_lead_a_browser_to_a_new_password(control: ControlPlane, box: Mailbox) -> None:
    browser = control.browser()
    assert 'href="/forgot-password"' in browser.get("/sign-in").text
    assert "Look into your mail" in browser.post("/forgot-password", data={"email": "ann@example.com"}).text
    sent(control)
    code = code_in(box)
    page = browser.get("/reset-password", params={"code": code})
    assert page.headers["referrer-policy"] in ("no-referrer", "same-origin"), "the code does not leave with a link"
    assert "Choose a new password" in browser.get("/reset-password", params={"code": code}).text, "a look is not a use"
    form = {"code": code, "password": "staple of the day", "again": "staple of the night"}
    assert "do not match" in browser.post("/reset-password", data=form).text
    foreign = browser.post("/reset-password", data=form, headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403
    form["again"] = form["password"]
    assert "Your password was changed" in browser.post("/reset-password", data=form).text
    assert browser.post("/reset-password", data=form).status_code == 403
    assert browser.get("/reset-password", params={"code": '"><script>'}).status_code == 403
    control.sign_in("ann", "ann@example.com", "staple of the day")


def test_an_account_without_a_password_gets_no_link(tmp_path: Path) -> None:
    """Its password can only be set on the server's machine."""
    with smtp_server(tmp_path) as box, control_plane() as control:
        settings = {"host": box.host, "port": box.port, "security": "none", "from": "fairpool@example.com"}
        expect(control.call("PUT", "/api/v1/mail/settings", settings), 200)
        statement = "UPDATE users SET password_hash = '' WHERE email = 'test@run.ai'"
        assert control.http.portal is not None
        write = control.app.state.plane.write
        control.http.portal.call(write, lambda connection: connection.exec_driver_sql(statement) and None)
        expect(ask(control, "test@run.ai"), 202)
        assert box.messages == []
