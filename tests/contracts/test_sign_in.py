"""Who gets in, by which way, and what it costs those who do not."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from argon2.exceptions import VerificationError
from sqlalchemy import update
from starlette.testclient import TestClient

from fairpool.control.app import ROUTES, create_app
from fairpool.control.attempts import Attempts, names_of, network_of
from fairpool.control.owner import new_link, owner_token
from fairpool.control.passwords import WAITING_MAX, Passwords, new_password
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused
from fairpool.control.settings import Settings
from fairpool.control.sign_in_attempt import recalled, save_counts
from fairpool.control.store import attempts as store
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import users
from fairpool.control.trusted_proxies import ForwardedClients, TrustedProxies, read_proxies
from tests.control.control_plane import CHEAP, HERE, START, ControlPlane, codes, control_plane, expect

T = TypeVar("T")


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        yield control


OWN = ("/api/v1/me", "/api/v1/me/password", "/api/v1/me/logout")


def test_a_first_password_is_good_for_nothing_but_its_change(tmp_path: Path) -> None:
    """F-221, and A3 of the first trial: enforced by the server for every caller."""
    with control_plane(tmp_path, first_password="chosen by the installer") as control:
        control.sign_in("first", "test@run.ai", "chosen by the installer")
        me = expect(control.call("GET", "/api/v1/me", by="first"), 200)
        assert (me["username"], me["mustChangePassword"], me["hasPassword"]) == ("test@run.ai", True, True)
        for route in ROUTES:
            if route.action in (Action.OPEN, Action.LINK) or route.method == "WEBSOCKET" or route.path in OWN:
                continue
            answer = control.call(route.method, re.sub(r"\{\w+\}", "nothing", route.path), by="first")
            assert codes(answer) == ["access.password_must_change"], (route.method, route.path)
        body = {"currentPassword": "chosen by the installer", "newPassword": "password"}
        assert codes(control.call("POST", "/api/v1/me/password", body, by="first")) == ["access.same_password"]
        body = {"currentPassword": "chosen by the installer", "newPassword": "a better one"}
        expect(control.call("POST", "/api/v1/me/password", body, by="first"), 204)
        expect(control.call("GET", "/api/v1/users", by="first"), 200)


@pytest.mark.parametrize("given", ["by an administrator", "made up", "reset", "of an earlier release"])
def test_a_password_that_an_administrator_chose_must_be_changed_first(control: ControlPlane, given: str) -> None:
    email, password = "ann@example.com", "correct horse"
    body = {"email": email, "roles": ["administrator"], **({"password": password} if given != "made up" else {})}
    made = expect(control.call("POST", "/api/v1/users", body), 201)
    password = made.get("tempPassword", password)
    if given == "reset":
        password = expect(control.call("POST", f"/api/v1/users/{email}/password"), 200)["tempPassword"]
    if given == "of an earlier release":
        earlier = update(users).where(users.c.email == email).values(must_change=False, first_password=True)
        assert control.http.portal is not None
        control.http.portal.call(control.app.state.plane.write, lambda connection: connection.execute(earlier) and None)
    assert password[0].isalnum()
    control.sign_in("ann", email, password)
    assert codes(control.call("GET", "/api/v1/users", by="ann")) == ["access.password_must_change"]
    change = {"currentPassword": password, "newPassword": "battery staple"}
    expect(control.call("POST", "/api/v1/me/password", change, by="ann"), 204)
    expect(control.call("GET", "/api/v1/users", by="ann"), 200)


def test_without_a_first_password_no_password_opens_the_first_account(tmp_path: Path) -> None:
    app = create_app(Settings(data=tmp_path), hasher=CHEAP)
    with TestClient(app, base_url=HERE) as http:
        for password in ("password", ""):
            body = {"grantType": "password", "username": "test@run.ai", "password": password}
            assert http.post("/api/v1/token", json=body).status_code in (401, 422)
        assert http.portal is not None
        token = http.portal.call(owner_token, app.state.plane)
        headers = {"Authorization": f"Bearer {token}"}
        me = expect(http.get("/api/v1/me", headers=headers), 200)
        assert (me["roles"], me["mustChangePassword"], me["hasPassword"]) == (["administrator"], False, False)
        stolen = http.post("/api/v1/me/password", json={"newPassword": "battery staple"}, headers=headers)
        assert codes(stolen) == ["access.no_password"], "a token alone is not enough to set a password"


def test_a_sign_in_link_is_good_once_and_for_ten_minutes(control: ControlPlane) -> None:
    assert control.http.portal is not None
    plane = control.app.state.plane
    path = str(control.http.portal.call(new_link, plane))
    assert "not signed in" in control.http.get("/").text
    opened = control.http.get(path)
    assert "You are signed in as <strong>test@run.ai</strong>" in opened.text
    assert opened.url.query == b"", "the code does not stay in the address"
    cookie = opened.history[0].headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert control.http.get("/api/v1/me").json()["username"] == "test@run.ai"
    assert control.http.get(path).status_code == 403
    assert "not signed in" in control.http.post("/sign-out").text
    late = str(control.http.portal.call(new_link, plane))
    control.clock.turn(601)
    assert control.http.get(late).status_code == 403
    assert "<form" in control.http.get("/sign-in").text, "without a code, a password is asked for"


def test_pages_and_health_need_no_caller_and_nothing_from_elsewhere(control: ControlPlane) -> None:
    assert control.http.get("/healthz").json() == {"status": "ok"}
    assert control.http.get("/readyz").json() == {"status": "ready"}
    control.app.state.is_ready = lambda: False
    assert control.http.get("/readyz").status_code == 503
    for path in ("/", "/docs", "/api/docs", "/researcher/api/docs"):
        page = control.http.get(path)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert not re.search(r"(src|href)=[\"']?(https?:)?//", page.text), "it opens offline"
    reference = control.http.get("/docs").text
    for route in ROUTES:
        if route.action is not Action.OPEN:
            assert f"<code>{route.path}</code>" in reference, (route.method, route.path)
    assert control.http.get("/api/docs", headers={"Accept": "text/markdown"}).text.startswith("# REST API")


# --- guesses ---


def test_the_right_password_from_a_known_address_gets_in_whatever_attackers_do(tmp_path: Path) -> None:
    """A13: wrong passwords for another user cost their sender time, and lock no user out. Also after a restart."""
    right = {"grantType": "password", "username": "test@run.ai", "password": "password"}
    with control_plane(tmp_path) as control:
        expect(control.http.post("/api/v1/token", json=right), 200)

        def guesses(connection: Connection) -> None:
            for number in range(500):
                for address in (f"127.0.{number % 250}.{number % 200}", f"203.0.113.{number % 250}"):
                    names = names_of("user", "test@run.ai", address)
                    attempts = recalled(connection, names)
                    attempts.begin(names, control.clock.now)
                    save_counts(connection, names, attempts)

        in_database(control, guesses)
        elsewhere, here = (names_of("user", "test@run.ai", each) for each in ("203.0.113.251", "testclient"))
        found = in_database(control, lambda connection: recalled(connection, elsewhere))
        assert found.wait_s(elsewhere, control.clock.now) > 0
        assert found.delay_s(elsewhere) == 0
        expect(control.http.post("/api/v1/token", json=right), 200)
    with control_plane(tmp_path) as again:
        found = in_database(again, lambda connection: recalled(connection, here))
        assert found.is_known(here)
        assert not in_database(again, lambda connection: recalled(connection, elsewhere)).is_known(elsewhere)


def in_database(control: ControlPlane, unit: Callable[[Connection], T]) -> T:
    assert control.http.portal is not None
    done: T = control.http.portal.call(control.app.state.plane.write, unit)
    return done


def test_every_address_of_this_machine_counts_as_one() -> None:
    assert {network_of(each) for each in ("127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.3")} == {"loopback"}
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:2") != network_of("2001:db8:0:1::1")
    assert network_of("203.0.113.1") != network_of("203.0.113.2")


def test_wrong_passwords_from_a_known_address_cost_their_sender_time() -> None:
    attempts, names = Attempts(), names_of("user", "ann", "a")
    attempts.succeeded(names)
    delays = []
    for _ in range(12):
        assert attempts.begin(names, START) == 0
        delays.append(attempts.delay_s(names))
    assert delays[:4] == [0, 0, 0, 0.5]
    assert delays[-1] == 5


def test_what_could_not_be_checked_is_no_wrong_password(control: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """A9: argon2 without memory or threads. It is not a mismatch, and does not count towards the wait."""
    right = {"grantType": "password", "username": "test@run.ai", "password": "password"}
    passwords: Passwords = control.app.state.passwords

    class Short:
        def verify(self, *_: str) -> bool:
            raise VerificationError("Threading failure")

    with monkeypatch.context() as patch:
        patch.setattr(passwords, "_hasher", Short())
        for _ in range(10):
            busy = control.http.post("/api/v1/token", json=right)
            assert (busy.status_code, codes(busy), busy.headers["retry-after"]) == (503, ["access.busy"], "2")
    names = names_of("user", "test@run.ai", "testclient")
    assert not in_database(control, lambda connection: store.counts(connection, names))
    expect(control.http.post("/api/v1/token", json=right), 200)


def test_sign_ins_wait_in_a_short_queue_of_their_own() -> None:
    passwords, go_on = Passwords(CHEAP), threading.Event()

    class Slow:
        def verify(self, password_hash: str, password: str) -> bool:
            assert go_on.wait(60)
            return CHEAP.verify(password_hash, password)

    passwords._hasher = Slow()  # type: ignore[assignment]
    known_hash = CHEAP.hash("right")

    async def all_at_once() -> None:
        async def begin() -> None: ...

        waiting = [asyncio.create_task(passwords.fits(None, "wrong", begin)) for _ in range(WAITING_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refusal:
            await passwords.fits(None, "one too many", begin)
        assert (refusal.value.status, refusal.value.headers["Retry-After"]) == (503, "2")
        known = asyncio.create_task(passwords.fits(known_hash, "right", begin, is_known=True))
        await asyncio.sleep(0)
        go_on.set()
        assert await known, "who has signed in before does not wait for unknown callers"
        assert not any(await asyncio.gather(*waiting))

    asyncio.run(all_at_once())
    passwords.close()


def test_generated_passwords_never_look_like_a_flag() -> None:
    made = {new_password() for _ in range(2000)}
    assert len(made) == 2000
    assert all(each.isalnum() and len(each) == 16 for each in made)


# --- bodies ---


def sent(control: ControlPlane, path: str, by: str, size: int) -> tuple[int, int]:
    """The status of a request that declares a large body, and how many bytes of it were asked for."""
    said: list[Any] = []
    read = 0

    async def receive() -> Any:
        nonlocal read
        read += 65536
        return {"type": "http.request", "body": b"[" * 65536, "more_body": read < size}

    async def send(message: Any) -> None:
        said.append(message)

    headers = {"host": "127.0.0.1:8080", "content-type": "application/json", "content-length": str(size)}
    if by:
        headers["authorization"] = f"Bearer {control.tokens[by]}"
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 7),
    }

    async def ask() -> None:
        await control.app(scope, receive, send)

    assert control.http.portal is not None
    control.http.portal.call(ask)
    return int(said[0]["status"]), read


SMALL = ("/api/v1/cluster/pull", "/api/v1/cluster/secrets")


@pytest.mark.slow
def test_no_byte_of_a_body_is_read_before_its_sender_may_send_it(control: ControlPlane) -> None:
    """A6: a token without any role made the server parse 250 MiB."""
    control.researcher("no-role")
    for route in ROUTES:
        path = route.path
        if route.method != "POST" or route.action in (Action.OPEN, Action.SELF):
            continue
        if path in SMALL:  # which take no large body from any caller
            assert sent(control, path, "no-role", 1024 * 1024) == (413, 0), path
            continue
        full = re.sub(r"\{\w+\}", "nothing", path)
        assert sent(control, full, "no-role", 1024 * 1024) == (403, 0), path
        assert sent(control, full, "", 1024 * 1024) == (401, 0), path
    assert sent(control, "/api/v1/cluster/push", "no-role", 60 * 1024 * 1024) == (403, 0)
    assert sent(control, "/api/v1/cluster/pull", "no-role", 250 * 1024 * 1024) == (413, 0)


def test_a_pull_is_a_small_message_and_a_report_may_be_large(control: ControlPlane) -> None:
    control.tokens["cluster"] = control.cluster_token
    assert sent(control, "/api/v1/cluster/pull", "cluster", 65 * 1024) == (413, 0)
    report = json.loads(control.report(whole=True).to_json())
    large = json.dumps(report).encode() + b" " * (12 * 1024 * 1024)
    headers = {"Authorization": f"Bearer {control.cluster_token}"}
    assert control.http.post("/api/v1/cluster/push", content=large, headers=headers).status_code == 200


def test_clients_behind_a_trusted_proxy_are_told_apart(control: ControlPlane) -> None:
    proxies = read_proxies(["10.0.0.7"])
    assert isinstance(proxies, TrustedProxies)
    app = ForwardedClients(control.app, proxies, is_secure=False)
    body = {"grantType": "password", "username": "unknown@example.com", "password": "a guess"}

    def guess(peer: str, forwarded: str) -> int:
        client = TestClient(app, base_url=HERE, client=(peer, 4711))
        client.portal = control.http.portal
        return client.post("/api/v1/token", json=body, headers={"X-Forwarded-For": forwarded}).status_code

    assert [guess("10.0.0.7", "203.0.113.1") for _ in range(4)] == [401, 401, 401, 429]
    assert guess("10.0.0.7", "203.0.113.2") == 401, "another client"
    assert [guess("198.51.100.1", f"203.0.113.{3 + each}") for each in range(4)] == [401, 401, 401, 429], "no proxy"
    entries = expect(control.call("GET", "/api/v1/audit/log?action=sign-in&result=Failed"), 200)["entries"]
    assert {each["source_ip"] for each in entries} == {"203.0.113.1", "203.0.113.2", "198.51.100.1"}
