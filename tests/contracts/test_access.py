"""What is taken away is taken away: also from those who were just coming in, and from those who try often."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from fairpool.api.access import normal_email
from fairpool.control.attempts import ADDRESS, Attempts, names_of
from fairpool.control.denials import DENIALS_A_MINUTE
from fairpool.control.plane import Plane
from fairpool.control.sessions import save_once
from fairpool.control.store import changes
from fairpool.control.store.database import Connection
from fairpool.model.ids import Instant
from tests.control.control_plane import START, ControlPlane, codes, control_plane, expect, gone

TOKEN = "/api/v1/token"
PROJECTS = "/api/v1/org-unit/projects"
DEPARTMENTS = "/api/v1/org-unit/departments"
RULES = "/api/v1/authorization/access-rules"
WORKLOADS = "/api/v1/workloads"
NFC, NFD = "jos\u00e9@example.com", "jose\u0301@example.com"


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        yield control


def password(user: str, secret: str) -> dict[str, str]:
    return {"grantType": "password", "username": user, "password": secret}


def renewal(answer: Any) -> dict[str, str]:
    return {"grantType": "refresh_token", "refreshToken": answer["refreshToken"]}


def audit(control: ControlPlane, **wanted: str) -> list[dict[str, Any]]:
    entries = expect(control.call("GET", "/api/v1/audit/log?limit=500"), 200)["entries"]
    return [each for each in entries if all(each[name] == value for name, value in wanted.items())]


@contextmanager
def while_hashing(control: ControlPlane, action: Callable[[], Any]) -> Iterator[None]:
    """What is asked inside is asked first, and this is done in the time its password takes."""
    passwords = control.app.state.passwords
    plain = passwords._hasher
    reached, go_on = threading.Event(), threading.Event()

    class Slow:
        def __getattr__(self, name: str) -> Any:
            def call(*words: str) -> Any:
                result = getattr(plain, name)(*words)
                reached.set()
                assert go_on.wait(60)
                return result

            return call

    passwords._hasher = Slow()

    def meanwhile() -> None:
        assert reached.wait(60)
        passwords._hasher = plain
        try:
            action()
        finally:
            go_on.set()

    thread = threading.Thread(target=meanwhile)
    thread.start()
    yield
    thread.join(60)


# --- races ---


def test_a_password_that_is_reset_while_it_is_checked_opens_nothing(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    with while_hashing(control, lambda: expect(control.call("POST", "/api/v1/users/ann@example.com/password"), 200)):
        answer = control.http.post(TOKEN, json=password("ann@example.com", "correct horse"))
    assert codes(answer) == ["access.wrong_password"]


def test_a_user_who_is_deleted_while_the_password_is_checked_is_not_let_in(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    with while_hashing(control, lambda: expect(control.call("DELETE", "/api/v1/users/ann@example.com"), 204)):
        answer = control.http.post(TOKEN, json=password("ann@example.com", "correct horse"))
    assert codes(answer) == ["access.wrong_password"]


def test_a_session_that_is_ended_while_its_password_is_changed_changes_nothing(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    with while_hashing(control, lambda: expect(control.call("POST", "/api/v1/users/ann@example.com/logout"), 204)):
        body = {"currentPassword": "correct horse", "newPassword": "another horse"}
        assert codes(control.call("POST", "/api/v1/me/password", body, by="ann")) == ["access.not_signed_in"]
    control.sign_in("ann", "ann@example.com", "correct horse")


def test_an_administrator_who_was_dismissed_meanwhile_makes_no_users(control: ControlPlane) -> None:
    control.researcher("eve")
    rule = {"subjectId": "eve@example.com", "roleId": "administrator", "scopeType": "tenant"}
    rule_id = expect(control.call("POST", RULES, rule), 201)["id"]
    expect(control.call("GET", "/api/v1/users", by="eve"), 200)
    with while_hashing(control, lambda: expect(control.call("DELETE", f"{RULES}/{rule_id}"), 204)):
        body = {"email": "mallory@example.com", "password": "correct horse", "roles": ["administrator"]}
        assert codes(control.call("POST", "/api/v1/users", body, by="eve")) == ["access.changed_meanwhile"]
    assert control.call("GET", "/api/v1/users/mallory@example.com").status_code == 404


def test_a_refresh_token_that_comes_twice_ends_the_session(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    first = expect(control.http.post(TOKEN, json=password("ann@example.com", "correct horse")), 200)
    second = expect(control.http.post(TOKEN, json=renewal(first)), 200)
    control.tokens["fresh"] = second["accessToken"]
    assert control.http.post(TOKEN, json=renewal(first)).status_code == 401
    expect(control.call("GET", "/api/v1/me", by="fresh"), 200)  # at once: two commands of one person
    control.clock.turn(60)
    assert control.http.post(TOKEN, json=renewal(first)).status_code == 401
    assert control.call("GET", "/api/v1/me", by="fresh").status_code == 401
    assert control.http.post(TOKEN, json=renewal(second)).status_code == 401
    assert audit(control, action="renew", result="Failed", subject="ann@example.com")
    expect(control.call("GET", "/api/v1/me", by="ann"), 200)  # another session of hers


def test_a_spent_refresh_token_is_no_access_token(control: ControlPlane) -> None:
    first = expect(control.http.post(TOKEN, json=password("test@run.ai", "password")), 200)
    expect(control.http.post(TOKEN, json=renewal(first)), 200)
    control.tokens["spent"] = first["refreshToken"]
    assert control.call("GET", "/api/v1/me", by="spent").status_code == 401


def test_callers_are_forgotten_when_it_is_written_and_not_before(control: ControlPlane) -> None:
    """A project that goes with its last workload takes its rules along, in the report of a cluster."""
    control.researcher("ann", "team-a")
    plane: Plane = control.app.state.plane
    workload = control.train("t1")
    expect(control.call("DELETE", f"{PROJECTS}/team-a?workloads=delete"), 202)
    expect(control.call("GET", WORKLOADS, by="ann"), 200)
    known_at_commit = []
    database = plane.database
    when_committed = database.when_committed

    def looking(call: Callable[[], None]) -> None:
        known_at_commit.append(len(plane.callers))
        when_committed(call)

    database.when_committed = looking  # type: ignore[method-assign]
    control.push(control.report(whole=True, gone=(gone(workload["id"]),)))
    assert known_at_commit[0] > 0, "forgotten before it was written"
    assert control.call("GET", WORKLOADS, by="ann").status_code == 403


def test_an_expired_caller_is_not_remembered(control: ControlPlane) -> None:
    plane: Plane = control.app.state.plane
    expect(control.call("GET", "/api/v1/me"), 200)
    known = len(plane.callers)
    control.clock.turn(36_001)
    assert control.call("GET", "/api/v1/me").status_code == 401
    assert len(plane.callers) == known - 1


# --- guesses ---


def test_guesses_at_the_same_time_count_as_much_as_one_after_the_other(control: ControlPlane) -> None:
    expect(control.call("POST", "/api/v1/users", {"email": "new@example.com"}), 201)
    body = password("new@example.com", "wrong")
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: control.http.post(TOKEN, json=body).status_code, range(20)))
    assert sorted(set(answers)) == [401, 429]
    assert answers.count(401) == 3
    assert len(audit(control, subject="new@example.com", result="Failed")) == 20


def test_a_right_password_does_not_forgive_an_address_its_guesses() -> None:
    attempts, now = Attempts(), START
    for number in range(ADDRESS.free):
        assert attempts.begin(names_of("user", f"victim-{number}", "a"), now) == 0
        mine = names_of("user", "me", "a")
        if attempts.begin(mine, now) == 0:
            attempts.succeeded(mine)
    assert attempts.wait_s(names_of("user", "another", "a"), now) > 0


def test_an_attacker_cannot_lock_a_user_out_for_long() -> None:
    attempts, now = Attempts(), START
    for _ in range(200):
        theirs = names_of("user", "ann", "attacker")
        now = Instant(now + 1000 * attempts.wait_s(theirs, now))
        assert attempts.begin(theirs, now) == 0
    assert attempts.wait_s(names_of("user", "ann", "home"), now) <= 5


# --- the audit log ---


def test_a_denied_call_is_in_the_audit_log(control: ControlPlane) -> None:
    control.project("team-b")
    control.researcher("ann", "team-a")
    theirs = control.train("theirs", "team-b")
    assert control.call("GET", "/api/v1/users", by="ann").status_code == 403
    assert control.call("GET", f"{WORKLOADS}/{theirs['id']}", by="ann").status_code == 404
    assert control.call("GET", f"{PROJECTS}/team-b", by="ann").status_code == 404
    assert control.call("DELETE", f"{WORKLOADS}/{theirs['id']}", by="ann").status_code == 404
    batch = {"ids": [theirs["id"]], "action": "delete"}
    expect(control.call("POST", f"{WORKLOADS}/batch", batch, by="ann"), 200)
    body = {"currentPassword": "not mine", "newPassword": "another horse"}
    assert control.call("POST", "/api/v1/me/password", body, by="ann").status_code == 403
    failed = [(each["http_method"], each["url"].rpartition("/")[2]) for each in audit(control, result="Failed")][::-1]
    assert failed == [
        ("GET", "users"),
        ("GET", theirs["id"]),
        ("GET", "team-b"),
        ("DELETE", theirs["id"]),
        ("POST", "batch"),
        ("POST", "password"),
    ]
    # What is not there is no attempt, and calls of unknown callers are not recorded.
    assert control.call("GET", f"{WORKLOADS}/none", by="ann").status_code == 404
    assert control.http.get("/api/v1/users").status_code == 401
    assert len(audit(control, result="Failed")) == len(failed)


def test_who_knocks_all_day_does_not_fill_the_audit_log(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    for _ in range(DENIALS_A_MINUTE + 5):
        control.call("GET", "/api/v1/users", by="ann")
    assert len(audit(control, result="Failed")) == DENIALS_A_MINUTE
    control.clock.turn(60)
    control.call("GET", "/api/v1/users", by="ann")
    assert control.http.portal is not None
    for _ in range(2):
        control.http.portal.call(save_once, control.app.state.plane)
    found = audit(control, result="Failed")
    assert len(found) == DENIALS_A_MINUTE + 2
    (counted,) = [each for each in found if each["action"] == "refuse"]
    assert (counted["subject"], counted["entity_name"]) == (
        "ann@example.com",
        "5 more refused requests within a minute",
    )


def test_every_way_to_a_token_has_its_line(control: ControlPlane) -> None:
    app = expect(control.call("POST", "/api/v1/apps", {"name": "nightly"}), 201)
    secret = {"grantType": "client_credentials", "clientId": app["clientId"], "clientSecret": app["secret"]}
    expect(control.http.post(TOKEN, json=secret), 200)
    assert [each["action"] for each in audit(control, subject="nightly", subject_type="App")] == ["sign-in"]
    right = expect(control.http.post(TOKEN, json=password("test@run.ai", "password")), 200)
    expect(control.http.post(TOKEN, json=renewal(right)), 200)
    assert [each["action"] for each in audit(control, subject="test@run.ai")][:2] == ["renew", "sign-in"]
    tries = [control.http.post(TOKEN, json=password("bob@example.com", "wrong")).status_code for _ in range(4)]
    assert tries == [401, 401, 401, 429]
    assert len(audit(control, subject="bob@example.com", result="Failed")) == 4


# --- repeated calls ---


def test_a_repeated_call_is_remembered_for_a_day_and_no_longer(control: ControlPlane) -> None:
    def submit() -> Any:
        body = {"name": "sweep", "useGivenNameAsPrefix": True, "projectId": "team-a", "spec": {"image": "i"}}
        return expect(control.call("POST", f"{WORKLOADS}/trainings", body, headers={"Idempotency-Key": "k"}), 202)

    first = submit()
    control.clock.turn(30_000)
    assert submit()["id"] == first["id"]
    control.clock.turn(86_400)
    control.sign_in("admin", "test@run.ai", "password")
    again = submit()
    assert again["id"] != first["id"]
    assert submit()["id"] == again["id"]


def test_who_lost_a_role_is_not_told_again_what_it_let_them_see(control: ControlPlane) -> None:
    control.project("team-b")
    control.researcher("ann", "team-a", "team-b")
    body = {"name": "t1", "projectId": "team-a", "spec": {"image": "i", "environmentVariables": []}}
    key = {"Idempotency-Key": "k"}
    expect(control.call("POST", f"{WORKLOADS}/trainings", body, by="ann", headers=key), 202)
    rules = expect(control.call("GET", RULES), 200)["accessRules"]
    rule = next(each for each in rules if each["scopeId"] == "team-a")
    expect(control.call("DELETE", f"{RULES}/{rule['id']}"), 204)
    assert codes(control.call("POST", f"{WORKLOADS}/trainings", body, by="ann", headers=key)) == ["request.key_reused"]


# --- names that are used again, and places that change ---


def ended(control: ControlPlane, name: str, **spec: Any) -> str:
    """One that was deleted and is gone."""
    workload = str(control.train(name, **spec)["id"])
    expect(control.call("DELETE", f"{WORKLOADS}/{workload}"), 202)
    control.push(control.report(whole=True, gone=(gone(workload),)))
    return workload


def test_a_project_of_the_same_name_inherits_nothing(control: ControlPlane) -> None:
    old = ended(control, "old", environmentVariables=[{"name": "TOKEN", "value": "s3cret"}])
    expect(control.call("DELETE", f"{PROJECTS}/team-a"), 202)
    control.project("team-a")
    control.researcher("ann", "team-a")
    new = ended(control, "new")
    listed = expect(control.call("GET", f"{WORKLOADS}?deleted=true", by="ann"), 200)["workloads"]
    assert [each["id"] for each in listed] == [new]
    for path in ("", "/events", "/history", "/pods", "/logs"):
        assert control.call("GET", f"{WORKLOADS}/{old}{path}", by="ann").status_code == 404
    # An administrator still finds both, under the name they had.
    both = expect(control.call("GET", f"{WORKLOADS}?deleted=true&filterBy=projectName==team-a"), 200)["workloads"]
    assert {(each["id"], each["projectName"]) for each in both} == {(old, "team-a"), (new, "team-a")}
    plane: Plane = control.app.state.plane

    def heard_by_ann(connection: Connection) -> set[str]:
        return {
            each.id for each in changes.after(connection, 0) if each.project == "team-a" and each.noun == "workload"
        }

    assert control.http.portal is not None
    assert control.http.portal.call(plane.read, heard_by_ann) == {new}


def test_a_project_that_goes_with_its_last_workload_leaves_nothing_to_its_name(control: ControlPlane) -> None:
    old = control.train("old")["id"]
    expect(control.call("DELETE", f"{PROJECTS}/team-a?workloads=delete"), 202)
    control.push(control.report(whole=True, gone=(gone(old),)))
    control.project("team-a")
    control.researcher("ann", "team-a")
    assert control.call("GET", f"{WORKLOADS}/{old}", by="ann").status_code == 404
    assert expect(control.call("GET", f"{WORKLOADS}/{old}"), 200)["projectName"] == "team-a"


def test_a_department_of_the_same_name_inherits_nothing(control: ControlPlane) -> None:
    def department() -> None:
        expect(control.call("POST", DEPARTMENTS, {"name": "research"}), 201)

    department()
    control.project("p1", parentId="research")
    old = ended(control, "old", project="p1")
    expect(control.call("DELETE", f"{PROJECTS}/p1"), 202)
    expect(control.call("DELETE", f"{DEPARTMENTS}/research"), 204)
    department()
    head(control, "research")
    assert control.call("GET", f"{WORKLOADS}/{old}", by="head").status_code == 404
    assert expect(control.call("GET", f"{WORKLOADS}?deleted=true", by="head"), 200)["workloads"] == []


def head(control: ControlPlane, department: str) -> None:
    """A user who works in all projects of a department."""
    control.researcher("head")
    rule = {"subjectId": "head@example.com", "roleId": "researcher", "scopeType": "department", "scopeId": department}
    expect(control.call("POST", RULES, rule), 201)


def test_work_goes_with_its_project_to_another_department(control: ControlPlane) -> None:
    for name in ("research", "sales"):
        expect(control.call("POST", DEPARTMENTS, {"name": name}), 201)
    control.project("p1", parentId="research")
    head(control, "research")
    past, now = (
        ended(control, "past", project="p1"),
        control.call("GET", f"{WORKLOADS}/{control.train('now', 'p1')['id']}"),
    )
    workload = now.json()["id"]
    expect(control.call("GET", f"{WORKLOADS}/{workload}", by="head"), 200)
    expect(control.call("PATCH", f"{PROJECTS}/p1", {"parentId": "sales"}), 200)
    for each in (past, workload):
        assert control.call("GET", f"{WORKLOADS}/{each}", by="head").status_code == 404
    assert control.call("POST", f"{WORKLOADS}/{workload}/suspend", by="head").status_code == 404
    assert expect(control.call("GET", f"{WORKLOADS}?deleted=true", by="head"), 200)["workloads"] == []
    shown = control.call("GET", f"{WORKLOADS}/{workload}")
    assert (shown.json()["departmentId"], shown.json()["departmentName"]) == ("sales", "sales")
    assert shown.headers["etag"] != now.headers["etag"]
    assert shown.headers["etag"] == f'"{shown.json()["revision"]}"'
    # And it stays so when the cluster reports it again.
    control.push(control.report(workloads=(control.runs(workload),)))
    assert expect(control.call("GET", f"{WORKLOADS}/{workload}"), 200)["departmentName"] == "sales"
    plane: Plane = control.app.state.plane
    assert control.http.portal is not None
    reported = control.http.portal.call(plane.read, lambda connection: changes.after(connection, 0))
    assert [each.verb for each in reported if each.id == workload][:2] == ["created", "updated"]


@pytest.mark.parametrize(("scope", "name"), [("project", "team-a"), ("department", "default")])
def test_who_administers_one_place_puts_nothing_into_another(control: ControlPlane, scope: str, name: str) -> None:
    expect(control.call("POST", DEPARTMENTS, {"name": "research"}), 201)
    control.researcher("ada")
    rule = {"subjectId": "ada@example.com", "roleId": "administrator", "scopeType": scope, "scopeId": name}
    expect(control.call("POST", RULES, rule), 201)
    expect(control.call("PATCH", f"{PROJECTS}/team-a", {"description": "mine"}, by="ada"), 200)
    moved = control.call("PATCH", f"{PROJECTS}/team-a", {"parentId": "research"}, by="ada")
    assert codes(moved) == ["access.denied"]


@pytest.mark.parametrize(("scope", "name", "may"), [("project", "team-a", False), ("department", "default", True)])
def test_a_quota_is_set_by_those_above_the_project(control: ControlPlane, scope: str, name: str, may: bool) -> None:
    control.researcher("ada")
    rule = {"subjectId": "ada@example.com", "roleId": "administrator", "scopeType": scope, "scopeId": name}
    expect(control.call("POST", RULES, rule), 201)
    now = expect(control.call("GET", f"{PROJECTS}/team-a"), 200)["resources"]
    more = {"resources": [{"gpu": {"deserved": 64}}]}
    body = {"name": "team-a", "description": "mine"}
    for method, path, change in (
        ("PUT", f"{PROJECTS}/team-a", {**body, **more}),
        ("PATCH", f"{PROJECTS}/team-a", more),
        ("PUT", f"{PROJECTS}/team-a/resources", more),
        ("PATCH", f"{PROJECTS}/team-a/resources", more),
        ("PUT", f"/v1/k8s/clusters/{control.cluster}/projects/team-a", {**body, **more}),
    ):
        answer = control.call(method, path, change, by="ada")
        assert answer.status_code == (200 if may else 403), path
        if not may:
            assert codes(answer) == ["access.denied"]
            assert "cannot change its quota" in answer.text
        expect(control.call("PUT", f"{PROJECTS}/team-a/resources", {"resources": now}), 200)
    # The rest of it is theirs to change, with the quota repeated as it is.
    expect(control.call("PUT", f"{PROJECTS}/team-a", {**body, "resources": now}, by="ada"), 200)


# --- addresses of people ---


def test_the_same_letters_are_the_same_person(control: ControlPlane) -> None:
    made = {"email": NFD, "password": "correct horse", "needToChangePassword": False}
    assert expect(control.call("POST", "/api/v1/users", made), 201)["email"] == NFC
    assert codes(control.call("POST", "/api/v1/users", {**made, "email": NFC.upper()})) == ["user.exists"]
    for spelling in (NFC, NFD, NFC.upper()):
        control.sign_in("jose", spelling, "correct horse")


@pytest.mark.parametrize(
    "email", ["test\u200b@run.ai", "test@run.ai\u2060", "\u202etest@run.ai", "a\uff20b@c", "a\u00ad@b"]
)
def test_addresses_with_what_cannot_be_seen_are_refused(control: ControlPlane, email: str) -> None:
    assert codes(control.call("POST", "/api/v1/users", {"email": email, "password": "correct horse"})) == [
        "request.wrong_value"
    ]


def test_an_address_stays_as_it_is_when_it_is_made_normal_twice() -> None:
    for text in (NFC, NFD, "STRASSE@x", "stra\u00dfe@x", "\u212a@x", "\ufb01@x"):
        assert normal_email(normal_email(text)) == normal_email(text)
