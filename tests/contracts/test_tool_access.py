"""Who may open which tool: sign-in, tickets, sessions, routes, and how they end."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from fairpool.api.gateway import AccessUnavailable, Admission, Credential, NotAdmitted, browser_hash
from fairpool.api.gateway_address import GatewayAddress
from fairpool.control import tool_access
from fairpool.control.owner import new_link
from fairpool.control.store.unavailable import BUSY, Unavailable
from fairpool.control.tool_access import Tools
from fairpool.control.tool_routes import Tool, tool_of
from fairpool.model.lifecycle import PodPhase
from tests.control.control_plane import HERE, ControlPlane, control_plane, expect

AT = GatewayAddress("http", "localhost", 8088)
PORTS = [{"container": 8888, "serviceType": "Ingress"}]
BROWSER = browser_hash("secret of the browser")


class Browser:
    """A person at a browser: cookies of the control plane, and a gateway to ask."""

    def __init__(self, control: ControlPlane) -> None:
        self.control = control
        self.tools = Tools(control.app.state.plane, AT, HERE)

    def get(self, path: str) -> Any:
        return self.control.http.get(path, follow_redirects=False)

    def sign_in(self, user: str, password: str = "correct horse", following: str = "/", **headers: str) -> Any:
        form = {"username": user, "password": password, "next": following}
        return self.control.http.post("/sign-in", data=form, headers=headers, follow_redirects=False)

    def call(self, method: Any, *arguments: Any) -> Any:
        assert self.control.http.portal is not None
        return self.control.http.portal.call(method, *arguments)

    def ticket(self, origin: str, browser: str = BROWSER) -> str:
        answer = self.get(f"/open?origin={origin}&browser={browser}&path=/lab")
        assert answer.status_code == 303, answer.text
        place = urlsplit(answer.headers["location"])
        assert (place.netloc, place.path) == (f"{origin}.localhost:8088", "/.fairpool/enter")
        assert answer.headers["referrer-policy"] == "no-referrer"
        query = parse_qs(place.query)
        assert query["path"] == ["/lab"]
        return str(query["ticket"][0])

    def session(self, origin: str) -> Credential:
        session = self.call(self.tools.enter, origin, self.ticket(origin), (BROWSER,))
        assert session is not None
        return Credential(sessions=(session,))

    def admitted(self, origin: str, credential: Credential) -> int:
        """200, or the status of the refusal."""
        known = self.tools.known(origin, credential)
        found = known or self.call(self.tools.admit, origin, credential)
        return found.status if isinstance(found, NotAdmitted) else 200


@pytest.fixture
def browser() -> Iterator[Browser]:
    with control_plane(gateway=AT) as control:
        control.project("team-a")
        control.project("team-b")
        control.researcher("ann", "team-a")
        control.researcher("bob", "team-b")
        control.http.cookies.clear()
        yield Browser(control)


def running(browser: Browser, name: str = "nb", project: str = "team-a", **spec: Any) -> str:
    """A workload with a port, whose pod runs; its origin."""
    made = browser.control.train(name, project, ports=PORTS, **spec)
    browser.control.push(browser.control.report(workloads=(browser.control.runs(made["id"]),)))
    return f"{made['id']}-8888"


def test_a_member_opens_a_tool_and_other_users_do_not(browser: Browser) -> None:
    origin = running(browser)
    asked = browser.get(f"/open?origin={origin}&browser={BROWSER}")
    assert asked.headers["location"].startswith("/sign-in?next=%2Fopen%3Forigin%3D")
    assert browser.sign_in("bob@example.com").status_code == 303
    assert browser.get(f"/open?origin={origin}&browser={BROWSER}").status_code == 404
    assert browser.get(f"/open?origin={origin[:-13]}000000000000-8888&browser={BROWSER}").status_code == 404
    signed = browser.sign_in("ann@example.com", following=f"/open?origin={origin}&browser={BROWSER}")
    assert signed.headers["location"] == f"/open?origin={origin}&browser={BROWSER}"
    ann = browser.session(origin)
    assert browser.admitted(origin, ann) == 200
    assert browser.admitted(origin, Credential(sessions=("fpg_invented",))) == 401
    assert browser.admitted(origin, Credential()) == 401
    lines = browser.control.call("GET", "/api/v1/audit/log").json()
    assert "open-tool" in str(lines)


def test_tokens_of_programs_count_as_their_roles_do(browser: Browser) -> None:
    origin = running(browser)
    tokens = browser.control.tokens
    assert browser.admitted(origin, Credential(token=tokens["ann"])) == 200
    assert browser.admitted(origin, Credential(token=tokens["bob"])) == 404
    assert browser.admitted(origin, Credential(token="fpa_invented")) == 401
    assert browser.admitted(origin, Credential(token=browser.control.cluster_token)) == 404


def test_a_ticket_works_once_soon_and_for_its_browser_and_origin(browser: Browser) -> None:
    origin, other = running(browser), running(browser, "other")
    browser.sign_in("ann@example.com")

    def enter(ticket: str, *by: str, at: str = origin) -> str | None:
        return browser.call(browser.tools.enter, at, ticket, by or (BROWSER,))  # type: ignore[no-any-return]

    ticket = browser.ticket(origin)
    assert enter(ticket) is not None
    assert enter(ticket) is None, "used"
    another = browser_hash("another browser")
    assert enter(browser.ticket(origin), another, BROWSER) is not None, "a page set a second cookie"
    stolen = browser.ticket(origin)
    assert enter(stolen, another) is None
    assert enter(stolen) is None, "a ticket that was shown at the wrong place is void"
    assert enter(browser.ticket(origin), at=other) is None
    late = browser.ticket(origin)
    browser.control.clock.turn(61)
    assert enter(late) is None


def test_a_session_is_good_for_its_origin_alone_and_never_for_the_api(browser: Browser) -> None:
    origin, other = running(browser), running(browser, "other")
    browser.sign_in("ann@example.com")
    session = browser.session(origin)
    assert browser.admitted(origin, session) == 200
    assert browser.admitted(other, session) == 401
    token = session.sessions[0]
    headers = {"Authorization": f"Bearer {token}"}
    assert browser.control.http.get("/api/v1/me", headers=headers).status_code == 401
    assert browser.admitted(origin, Credential(token=token)) == 401


@pytest.mark.parametrize("end", ["role", "user", "sign-out", "password", "suspend", "delete", "expiry", "pod"])
def test_what_was_permitted_ends_for_open_connections(browser: Browser, end: str) -> None:
    control, origin = browser.control, running(browser)
    browser.sign_in("ann@example.com")
    session = browser.session(origin)
    admission = browser.call(browser.tools.admit, origin, session)
    assert isinstance(admission, Admission)
    assert browser.call(browser.tools.ended, [admission]) == []
    users = {each["email"]: each["id"] for each in expect(control.call("GET", "/api/v1/users"), 200)}
    workload = origin.removesuffix("-8888")
    match end:
        case "role":
            for rule in expect(control.call("GET", "/api/v1/authorization/access-rules"), 200)["accessRules"]:
                if rule["subjectId"] == users["ann@example.com"]:
                    control.call("DELETE", f"/api/v1/authorization/access-rules/{rule['id']}")
        case "user":
            control.call("DELETE", f"/api/v1/users/{users['ann@example.com']}")
        case "sign-out":
            control.http.post("/sign-out", follow_redirects=False)
        case "password":
            body = {"currentPassword": "correct horse", "newPassword": "battery staple"}
            expect(control.call("POST", "/api/v1/me/password", body, by="ann"), 204)
        case "suspend":
            expect(control.call("POST", f"/api/v1/workloads/{workload}/suspend"), 202)
        case "delete":
            control.call("DELETE", f"/api/v1/workloads/{workload}")
        case "expiry":
            control.clock.turn(36_001)
        case "pod":
            moved = control.runs(workload)
            pods = tuple(pod.model_copy(update={"id": f"{workload}-0-9", "incarnation": 9}) for pod in moved.pods)
            control.push(control.report(workloads=(moved.model_copy(update={"pods": pods}),)))
    assert browser.call(browser.tools.ended, [admission]) == [admission]
    assert browser.tools.known(origin, session) is not admission


def test_a_commit_is_noticed_whenever_it_came(browser: Browser) -> None:
    origin = running(browser)
    browser.sign_in("ann@example.com")
    admission = browser.call(browser.tools.admit, origin, browser.session(origin))
    browser.call(browser.tools.changed, 60.0)
    assert browser.call(browser.tools.ended, [admission]) == []
    browser.control.http.post("/sign-out", follow_redirects=False)  # between two calls of `changed`
    began = time.monotonic()
    browser.call(browser.tools.changed, 60.0)
    assert time.monotonic() - began < 30
    assert browser.call(browser.tools.ended, [admission]) == [admission]
    began = time.monotonic()
    browser.call(browser.tools.changed, 0.2)
    assert time.monotonic() - began >= 0.2, "nothing more was committed"


def test_errors_of_the_database_are_told_as_such(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = running(browser)
    browser.sign_in("ann@example.com")
    session, ticket = browser.session(origin), browser.ticket(origin)
    token = Credential(token=browser.control.tokens["ann"])
    admission = browser.call(browser.tools.admit, origin, session)

    async def fails(_: Any) -> None:
        raise Unavailable(BUSY)

    for name in ("read", "read_apart", "write"):
        monkeypatch.setattr(browser.control.app.state.plane.database, name, fails)
    browser.control.app.state.plane.callers.clear()
    for question in (
        (browser.tools.admit, origin, session),
        (browser.tools.admit, origin, token),
        (browser.tools.ended, [admission]),
        (browser.tools.enter, origin, ticket, (BROWSER,)),
        (browser.tools.origin_of, "/nb-8888", token),
    ):
        with pytest.raises(AccessUnavailable) as raised:
            browser.call(*question)
        assert (raised.value.status, raised.value.problem.code) == (503, BUSY)
    monkeypatch.undo()
    assert browser.admitted(origin, session) == 200


def test_sessions_and_routes_survive_a_restart(tmp_path: Any) -> None:
    with control_plane(tmp_path, gateway=AT) as control:
        control.project("team-a")
        control.researcher("ann", "team-a")
        first = Browser(control)
        origin = running(first)
        first.sign_in("ann@example.com")
        session = first.session(origin)
    with control_plane(tmp_path, gateway=AT) as control:
        assert Browser(control).admitted(origin, session) == 200


def test_a_port_that_was_not_asked_for_has_no_route(browser: Browser) -> None:
    origin, ann = running(browser), Credential(token=browser.control.tokens["ann"])
    assert browser.admitted(origin.replace("-8888", "-8889"), ann) == 404
    made = browser.control.train("none", ports=[{"container": 8888}])
    assert browser.admitted(f"{made['id']}-8888", ann) == 404, "for other pods only"
    waits = browser.control.train("waits", ports=[{"container": 9999, "serviceType": "Ingress"}])
    assert browser.admitted(f"{waits['id']}-9999", ann) == 503
    second = running(browser, "second")
    assert browser.admitted(second, ann) == 200, "each has a network of its own"
    for label in ("", "x", "8888", f"{origin}0", f"{origin}.x", origin.upper()):
        assert browser.admitted(label, ann) == 404, label


def test_the_running_pods_of_a_workload_take_turns(browser: Browser) -> None:
    origin, ann = running(browser, "model"), Credential(token=browser.control.tokens["ann"])
    workload = origin.removesuffix("-8888")
    report = browser.control.runs(workload)
    second = report.pods[0].model_copy(update={"id": f"{workload}-1-0", "index": 1})
    waits = report.pods[0].model_copy(update={"id": f"{workload}-2-0", "index": 2, "phase": PodPhase.BOUND})
    browser.control.push(
        browser.control.report(workloads=(report.model_copy(update={"pods": (*report.pods, second, waits)}),))
    )
    first = browser.call(browser.tools.admit, origin, ann)
    given = [first, *(browser.tools.known(origin, ann) for _ in range(5))]
    assert {each.pod.pod for each in given} == {f"{workload}-0-0", f"{workload}-1-0"}
    assert given[0].upstream != given[1].upstream == given[3].upstream
    assert browser.call(browser.tools.ended, given) == []
    browser.control.push(browser.control.report(workloads=(report,)))
    ended = browser.call(browser.tools.ended, given)
    assert {each.pod.pod for each in ended} == {f"{workload}-1-0"}, "streams to the one that is left go on"


def test_documented_paths_lead_to_the_callers_own_tools(browser: Browser) -> None:
    origin = running(browser, "test-ingress", args="--NotebookApp.base_url=test-base")
    browser.sign_in("ann@example.com")
    for path in ("/test-ingress-8888", "/team-a-test-ingress", "/test-base"):
        answer = browser.get(f"/open?tool={quote(path + '/lab?x=1')}")
        assert answer.headers["location"] == f"http://{origin}.localhost:8088/test-base/lab?x=1", path
    assert browser.get("/open?tool=/test-ingress-9999").status_code == 404
    assert browser.get("/open?tool=/").status_code == 404
    browser.sign_in("bob@example.com")
    assert browser.get("/open?tool=/test-ingress-8888").status_code == 404
    browser.control.clock.turn(1)
    expect(browser.control.call("POST", f"/api/v1/workloads/{origin.removesuffix('-8888')}/suspend"), 202)
    running(browser, "test-ingress", "team-b")
    token = Credential(token=browser.control.tokens["bob"])
    assert "localhost:8088/" in browser.call(browser.tools.origin_of, "/test-ingress-8888", token)


def test_going_through_all_tools_does_not_hold_up_the_event_loop(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(browser)
    token, threads = Credential(token=browser.control.tokens["ann"]), []

    def noted(row: Any) -> Tool | None:
        threads.append(threading.get_ident())
        return tool_of(row)

    monkeypatch.setattr(tool_access, "tool_of", noted)
    assert isinstance(browser.call(browser.tools.origin_of, "/nb-8888", token), str)
    assert threads
    assert browser.call(threading.get_ident) not in threads


def test_several_tools_of_one_name_are_offered(browser: Browser) -> None:
    ports = [{"container": 7000, "serviceType": "Ingress"}]
    ids = []
    for number, project in enumerate(("team-a", "team-b")):
        made = browser.control.train("nb", project, ports=[{**ports[0], "container": 7000 + number}, ports[0]])
        ids.append(made["id"])
    browser.control.push(browser.control.report(workloads=tuple(map(browser.control.runs, ids))))
    browser.control.researcher("eve", "team-a", "team-b")
    browser.sign_in("eve@example.com")
    page = browser.get("/open?tool=/nb-7000")
    assert page.status_code in (200, 303)


def test_the_sign_in_form_is_for_its_own_page(browser: Browser) -> None:
    page = browser.get("/sign-in?next=/open%3Ftool%3D%22%3E")
    assert 'value="/open?tool=&quot;&gt;"' in page.text
    assert f"form-action 'self' {AT.origin_url('*')}" in page.headers["content-security-policy"]
    assert browser.sign_in("ann@example.com", origin="https://evil.example").status_code == 403
    assert browser.sign_in("ann@example.com", origin=HERE).status_code == 303
    wrong = browser.sign_in("ann@example.com", "wrong")
    assert wrong.status_code == 401
    assert "Wrong user name or password." in wrong.text
    assert browser.sign_in("", "").status_code == 422
    for following in ("//evil.example", "https://evil.example", "/\\evil.example"):
        assert browser.sign_in("ann@example.com", following=following).headers["location"] == "/"


def test_an_owner_without_a_password_opens_a_tool_by_a_link(browser: Browser) -> None:
    origin = running(browser)
    state = browser.control.app.state
    link = browser.call(new_link, state.plane)
    assert browser.get(link).status_code == 303
    assert browser.admitted(origin, browser.session(origin)) == 200


def test_a_password_that_must_be_changed_opens_nothing(browser: Browser) -> None:
    origin = running(browser)
    body = {"email": "new@example.com", "password": "correct horse", "roles": ["administrator"]}
    expect(browser.control.call("POST", "/api/v1/users", body), 201)
    assert browser.sign_in("new@example.com").status_code == 303
    page = browser.get(f"/open?origin={origin}&browser={BROWSER}")
    assert page.status_code == 403
    assert re.search("password must be changed", page.text)
    browser.control.sign_in("new", "new@example.com", "correct horse")
    assert browser.admitted(origin, Credential(token=browser.control.tokens["new"])) == 403


def test_without_a_gateway_there_is_nothing_to_open() -> None:
    with control_plane() as control:
        assert control.http.get("/open?tool=/nb-8888", follow_redirects=False).status_code == 404
