"""Sessions: who sees and ends them, their time limits, and what foreign pages cannot do with a browser's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from fairpool.control.session_use import KEPT_MS, SessionUse
from fairpool.control.sessions import save_once
from fairpool.control.store import sessions as session_store
from fairpool.control.store.database import Connection
from fairpool.model.ids import Instant
from tests.control.control_plane import START, ControlPlane, codes, control_plane, expect

MINE = "/api/v1/me/sessions"
ALL = "/api/v1/sessions"
SETTINGS = "/api/v1/security/settings"


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        control.researcher("ann", "team-a")
        yield control


def token_of(control: ControlPlane, agent: str = "runai/1.0") -> dict[str, Any]:
    body = {"grantType": "password", "username": "ann@example.com", "password": "correct horse"}
    answer: dict[str, Any] = expect(control.http.post("/api/v1/token", json=body, headers={"User-Agent": agent}), 200)
    return answer


def renew(control: ControlPlane, refresh: str) -> Any:
    return control.http.post("/api/v1/token", json={"grantType": "refresh_token", "refreshToken": refresh})


def test_a_user_sees_and_ends_their_own_sessions(control: ControlPlane) -> None:
    other = token_of(control, "curl/8\x07 \x1b[31m")
    control.tokens["other"] = other["accessToken"]
    listed = expect(control.call("GET", MINE, by="ann"), 200)["sessions"]
    assert len(listed) == 2
    assert [each["isCurrent"] for each in listed].count(True) == 1
    there = next(each for each in listed if not each["isCurrent"])
    assert (there["client"], there["sourceIp"], there["kind"]) == ("curl/8 [31m", "testclient", "token")
    assert there["subjectName"] == "ann@example.com"
    expect(control.call("DELETE", f"{MINE}/{there['id']}", by="ann"), 204)
    assert control.call("GET", "/api/v1/me", by="other").status_code == 401
    assert renew(control, other["refreshToken"]).status_code == 401, "its refresh token ended as well"
    expect(control.call("GET", "/api/v1/me", by="ann"), 200)
    assert codes(control.call("DELETE", f"{MINE}/{there['id']}", by="ann")) == ["session.unknown"]


def test_the_other_sessions_end_together(control: ControlPlane) -> None:
    for name in ("one", "two"):
        control.tokens[name] = token_of(control)["accessToken"]
    assert expect(control.call("DELETE", MINE, by="ann"), 200) == {"ended": 2}
    assert [control.call("GET", "/api/v1/me", by=by).status_code for by in ("one", "two", "ann")] == [401, 401, 200]


def test_another_users_session_is_neither_seen_nor_ended(control: ControlPlane) -> None:
    (admins,) = expect(control.call("GET", MINE), 200)["sessions"]
    assert codes(control.call("DELETE", f"{MINE}/{admins['id']}", by="ann")) == ["session.unknown"]
    assert control.call("GET", ALL, by="ann").status_code == 403
    assert control.call("DELETE", f"{ALL}/{admins['id']}", by="ann").status_code == 403


def test_an_administrator_lists_and_ends_sessions_of_all(control: ControlPlane) -> None:
    everyone = expect(control.call("GET", ALL), 200)["sessions"]
    assert {each["subjectName"] for each in everyone} == {"test@run.ai", "ann@example.com"}
    (anns,) = expect(control.call("GET", ALL, params={"subject": "ann@example.com"}), 200)["sessions"]
    expect(control.call("DELETE", f"{ALL}/{anns['id']}"), 204)
    assert control.call("GET", "/api/v1/me", by="ann").status_code == 401
    assert expect(control.call("GET", ALL, params={"subject": "ann@example.com"}), 200)["sessions"] == []
    assert control.call("GET", ALL, params={"subject": "eve@example.com"}).status_code == 404
    entry = expect(control.call("GET", "/api/v1/audit/log"), 200)["entries"][0]
    assert (entry["action"], entry["entity_name"]) == ("sign-out", "ann@example.com")


def test_sign_out_ends_the_family(control: ControlPlane) -> None:
    begun = token_of(control)
    renewed = expect(renew(control, begun["refreshToken"]), 200)
    control.tokens["first"], control.tokens["second"] = begun["accessToken"], renewed["accessToken"]
    expect(control.call("POST", "/api/v1/me/logout", by="second"), 204)
    assert control.call("GET", "/api/v1/me", by="first").status_code == 401
    assert renew(control, renewed["refreshToken"]).status_code == 401


# --- time limits ---


def test_an_unused_session_ends_and_a_used_one_does_not(control: ControlPlane) -> None:
    expect(control.call("PUT", f"{SETTINGS}/security.sessionIdleSeconds", {"value": 600}), 200)
    begun = token_of(control)
    control.tokens["used"], control.tokens["unused"] = begun["accessToken"], token_of(control)["accessToken"]
    for _ in range(3):
        control.clock.turn(400)
        expect(control.call("GET", "/api/v1/me", by="used"), 200)
    answer = control.call("GET", "/api/v1/me", by="unused")
    assert "not used for too long" in answer.json()["message"]
    control.clock.turn(601)
    assert renew(control, begun["refreshToken"]).status_code == 401, "a refresh token does not revive it"


def test_a_session_ends_at_its_time_limit_however_often_it_is_renewed(control: ControlPlane) -> None:
    expect(control.call("PUT", f"{SETTINGS}/security.sessionMaxSeconds", {"value": 3600}), 200)
    begun = token_of(control)
    assert begun["expiresIn"] == 3600, "no token outlives its session"
    control.clock.turn(3000)
    renewed = expect(renew(control, begun["refreshToken"]), 200)
    assert renewed["expiresIn"] == 600
    control.clock.turn(600)
    assert renew(control, renewed["refreshToken"]).status_code == 401


def test_last_use_is_kept_in_memory_and_written_once_in_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits, note_use = list[object](), session_store.note_use

    def noted(connection: Connection, used: Mapping[str, Instant]) -> None:
        commits.append(used)
        note_use(connection, used)

    monkeypatch.setattr(session_store, "note_use", noted)
    with control_plane(tmp_path) as control:
        plane = control.app.state.plane
        control.clock.turn(60)
        for _ in range(20):
            expect(control.call("GET", "/api/v1/me"), 200)
        assert not commits, "reading does not write"
        (shown,) = expect(control.call("GET", MINE), 200)["sessions"]
        assert shown["lastUsedAt"] > shown["createdAt"]
        assert control.http.portal is not None
        control.http.portal.call(save_once, plane)
        assert len(commits) == 1
        control.http.portal.call(save_once, plane)
        assert len(commits) == 1, "there is nothing new to write"
    with control_plane(tmp_path) as again:
        assert shown["lastUsedAt"] in [each["lastUsedAt"] for each in expect(again.call("GET", MINE), 200)["sessions"]]


def test_what_is_remembered_of_sessions_does_not_grow() -> None:
    use = SessionUse()
    for number in range(100):
        use.note(f"s{number}", Instant(START + number))
    assert len(use.unsaved(START)) == 100
    assert use.unsaved(Instant(START + KEPT_MS + 1000)) == {}
    assert use.latest("s99") == 0


# --- browsers ---


@pytest.fixture
def browser(control: ControlPlane) -> TestClient:
    """Ann's browser, signed in."""
    client = control.browser()
    form = {"username": "ann@example.com", "password": "correct horse", "next": "/"}
    assert "signed in as <strong>ann@example.com" in client.post("/sign-in", data=form).text
    return client


def test_a_browser_session_reads_the_api_and_changes_it_with_our_header(
    control: ControlPlane, browser: TestClient
) -> None:
    assert browser.get("/api/v1/me").json()["username"] == "ann@example.com"
    body = {"name": "t1", "projectId": "team-a", "spec": {"image": "quickstart"}}
    path = "/api/v1/workloads/trainings"
    assert codes(browser.post(path, json=body)) == ["access.other_origin"]
    expect(browser.post(path, json=body, headers={"X-Fairpool-Request": "1"}), 202)
    kinds = {each["kind"] for each in expect(control.call("GET", MINE, by="ann"), 200)["sessions"]}
    assert kinds == {"browser", "token"}


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_page_of_another_origin_can_do_nothing_with_the_cookie(browser: TestClient, method: str, site: str) -> None:
    """Tools in pods are on the same site as this server: a strict cookie alone would be sent."""
    headers = {"Sec-Fetch-Site": site, "X-Fairpool-Request": "1"}
    assert codes(browser.request(method, MINE, headers=headers)) == ["access.other_origin"]
    expect(browser.get(MINE, headers={"Sec-Fetch-Site": "same-origin"}), 200)


def test_a_simple_form_of_a_foreign_page_changes_nothing(browser: TestClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        answer = browser.post("/api/v1/me/logout", content=b"", headers={"Content-Type": kind})
        assert codes(answer) == ["access.other_origin"]
    for path in ("/sign-in", "/sign-out"):
        assert browser.post(path, headers={"Origin": "https://evil.example"}).status_code == 403
    assert "signed in as" in browser.get("/").text


def test_the_cookie_is_no_bearer_token_and_a_bearer_token_no_cookie(control: ControlPlane, browser: TestClient) -> None:
    control.tokens["cookie"] = browser.cookies["fairpool_session"]
    assert control.call("GET", "/api/v1/me", by="cookie").status_code == 401
    browser.cookies.clear()
    browser.cookies["fairpool_session"] = control.tokens["ann"]
    assert browser.get("/api/v1/me").status_code == 401
    browser.cookies["fairpool_session"] = control.cluster_token
    assert browser.get("/api/v1/me").status_code == 401


def test_with_tls_only_the_cookie_that_no_other_host_can_set_counts(control: ControlPlane) -> None:
    client = control.browser("https://127.0.0.1:8080")
    form = {"username": "ann@example.com", "password": "correct horse", "next": "/"}
    cookie = client.post("/sign-in", data=form, follow_redirects=False).headers["set-cookie"]
    assert cookie.startswith("__Host-fairpool_session=fpb_")
    for attribute in ("; Secure", "; HttpOnly", "; SameSite=strict", "; Path=/"):
        assert attribute in cookie
    assert "Domain" not in cookie
    value = client.cookies["__Host-fairpool_session"]
    client.cookies.clear()
    client.cookies["fairpool_session"] = value
    assert client.get("/api/v1/me").status_code == 401


def test_a_planted_session_is_not_the_one_that_a_user_signs_in_to(control: ControlPlane, browser: TestClient) -> None:
    """Session fixation: the attacker's own cookie is in the victim's browser before the victim signs in."""
    planted = browser.cookies["fairpool_session"]
    form = {"username": "test@run.ai", "password": "password", "next": "/"}
    assert "signed in as <strong>test@run.ai" in browser.post("/sign-in", data=form).text
    assert browser.cookies["fairpool_session"] != planted
    attacker = control.browser(cookies={"fairpool_session": planted})
    assert attacker.get("/api/v1/me").status_code == 401, "what the browser was signed in as before has ended"


@pytest.mark.parametrize(
    "following", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "\t//evil"]
)
def test_sign_in_leads_to_no_foreign_page(control: ControlPlane, following: str) -> None:
    form = {"username": "ann@example.com", "password": "correct horse", "next": following}
    for site in ("same-origin", "cross-site"):
        client = control.browser(headers={"Sec-Fetch-Site": site})
        answer = client.post("/sign-in", data=form, follow_redirects=False)
        where = answer.headers.get("location", "") or answer.text.partition('content="0; url=')[2].partition('"')[0]
        assert where.startswith("/")
        assert "evil" not in where


def test_a_browser_that_another_site_led_here_is_led_on_by_a_page(control: ControlPlane) -> None:
    """With a redirect it would come without its strict cookie, and be asked to sign in once more."""
    client = control.browser(headers={"Sec-Fetch-Site": "cross-site"})
    form = {"username": "ann@example.com", "password": "correct horse", "next": "/docs?a=1&b=2"}
    answer = client.post("/sign-in", data=form, follow_redirects=False)
    assert answer.status_code == 200
    assert 'content="0; url=/docs?a=1&amp;b=2"' in answer.text


def test_an_idle_browser_signs_in_again(control: ControlPlane, browser: TestClient) -> None:
    expect(control.call("PUT", f"{SETTINGS}/security.browserIdleMinutes", {"value": 30}), 200)
    control.clock.turn(29 * 60)
    assert "signed in as" in browser.get("/").text
    control.clock.turn(29 * 60)
    assert "signed in as" in browser.get("/").text
    control.clock.turn(30 * 60)
    assert "not signed in" in browser.get("/").text


def test_a_refresh_token_that_is_shown_again_ends_the_session(control: ControlPlane) -> None:
    begun = token_of(control)
    renewed = expect(renew(control, begun["refreshToken"]), 200)
    control.tokens["renewed"] = renewed["accessToken"]
    control.clock.turn(31)
    assert renew(control, begun["refreshToken"]).status_code == 401
    assert control.call("GET", "/api/v1/me", by="renewed").status_code == 401
    assert renew(control, renewed["refreshToken"]).status_code == 401
