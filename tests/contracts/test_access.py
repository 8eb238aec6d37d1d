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
from fairpool.control.plane import DENIALS_A_MINUTE, Plane
from fairpool.control.store import changes
from fairpool.control.store.database import Connection
from fairpool.model.ids import Instant
from tests.control.house import START, House, codes, expect, gone, house

TOKEN = "/api/v1/token"
PROJECTS = "/api/v1/org-unit/projects"
DEPARTMENTS = "/api/v1/org-unit/departments"
RULES = "/api/v1/authorization/access-rules"
WORKLOADS = "/api/v1/workloads"
NFC, NFD = "jos\u00e9@example.com", "jose\u0301@example.com"


@pytest.fixture
def home() -> Iterator[House]:
    with house() as home:
        home.project("team-a")
        yield home


def password(user: str, secret: str) -> dict[str, str]:
    return {"grantType": "password", "username": user, "password": secret}


def renewal(answer: Any) -> dict[str, str]:
    return {"grantType": "refresh_token", "refreshToken": answer["refreshToken"]}


def audit(home: House, **wanted: str) -> list[dict[str, Any]]:
    entries = expect(home.call("GET", "/api/v1/audit/log?limit=500"), 200)["entries"]
    return [each for each in entries if all(each[name] == value for name, value in wanted.items())]


@contextmanager
def while_hashing(home: House, deed: Callable[[], Any]) -> Iterator[None]:
    """What is asked inside is asked first, and this is done in the time its password takes."""
    passwords = home.app.state.passwords
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
            deed()
        finally:
            go_on.set()

    thread = threading.Thread(target=meanwhile)
    thread.start()
    yield
    thread.join(60)


# --- races ---


def test_a_password_that_is_reset_while_it_is_checked_opens_nothing(home: House) -> None:
    home.researcher("ann", "team-a")
    with while_hashing(home, lambda: expect(home.call("POST", "/api/v1/users/ann@example.com/password"), 200)):
        answer = home.http.post(TOKEN, json=password("ann@example.com", "correct horse"))
    assert codes(answer) == ["access.wrong_password"]


def test_a_user_who_is_deleted_while_the_password_is_checked_is_not_let_in(home: House) -> None:
    home.researcher("ann", "team-a")
    with while_hashing(home, lambda: expect(home.call("DELETE", "/api/v1/users/ann@example.com"), 204)):
        answer = home.http.post(TOKEN, json=password("ann@example.com", "correct horse"))
    assert codes(answer) == ["access.wrong_password"]


def test_a_session_that_is_ended_while_its_password_is_changed_changes_nothing(home: House) -> None:
    home.researcher("ann", "team-a")
    with while_hashing(home, lambda: expect(home.call("POST", "/api/v1/users/ann@example.com/logout"), 204)):
        body = {"currentPassword": "correct horse", "newPassword": "another horse"}
        assert codes(home.call("POST", "/api/v1/me/password", body, by="ann")) == ["access.not_signed_in"]
    home.sign_in("ann", "ann@example.com", "correct horse")


def test_an_administrator_who_was_dismissed_meanwhile_makes_no_users(home: House) -> None:
    home.researcher("eve")
    rule = {"subjectId": "eve@example.com", "roleId": "administrator", "scopeType": "tenant"}
    rule_id = expect(home.call("POST", RULES, rule), 201)["id"]
    expect(home.call("GET", "/api/v1/users", by="eve"), 200)
    with while_hashing(home, lambda: expect(home.call("DELETE", f"{RULES}/{rule_id}"), 204)):
        body = {"email": "mallory@example.com", "password": "correct horse", "roles": ["administrator"]}
        assert codes(home.call("POST", "/api/v1/users", body, by="eve")) == ["access.changed_meanwhile"]
    assert home.call("GET", "/api/v1/users/mallory@example.com").status_code == 404


def test_a_refresh_token_that_comes_twice_ends_the_session(home: House) -> None:
    home.researcher("ann", "team-a")
    first = expect(home.http.post(TOKEN, json=password("ann@example.com", "correct horse")), 200)
    second = expect(home.http.post(TOKEN, json=renewal(first)), 200)
    home.tokens["fresh"] = second["accessToken"]
    assert home.http.post(TOKEN, json=renewal(first)).status_code == 401
    expect(home.call("GET", "/api/v1/me", by="fresh"), 200)  # at once: two commands of one person
    home.clock.turn(60)
    assert home.http.post(TOKEN, json=renewal(first)).status_code == 401
    assert home.call("GET", "/api/v1/me", by="fresh").status_code == 401
    assert home.http.post(TOKEN, json=renewal(second)).status_code == 401
    assert audit(home, action="renew", result="Failed", subject="ann@example.com")
    expect(home.call("GET", "/api/v1/me", by="ann"), 200)  # another session of hers


def test_a_spent_refresh_token_is_no_access_token(home: House) -> None:
    first = expect(home.http.post(TOKEN, json=password("test@run.ai", "password")), 200)
    expect(home.http.post(TOKEN, json=renewal(first)), 200)
    home.tokens["spent"] = first["refreshToken"]
    assert home.call("GET", "/api/v1/me", by="spent").status_code == 401


def test_callers_are_forgotten_when_it_is_written_and_not_before(home: House) -> None:
    """A project that goes with its last workload takes its rules along, in the report of a cluster."""
    home.researcher("ann", "team-a")
    plane: Plane = home.app.state.plane
    workload = home.train("t1")
    expect(home.call("DELETE", f"{PROJECTS}/team-a?workloads=delete"), 202)
    expect(home.call("GET", WORKLOADS, by="ann"), 200)
    known_at_commit = []
    database = plane.database
    when_committed = database.when_committed

    def looking(call: Callable[[], None]) -> None:
        known_at_commit.append(len(plane.callers))
        when_committed(call)

    database.when_committed = looking  # type: ignore[method-assign]
    home.push(home.report(whole=True, gone=(gone(workload["id"]),)))
    assert known_at_commit[0] > 0, "forgotten before it was written"
    assert home.call("GET", WORKLOADS, by="ann").status_code == 403


def test_an_expired_caller_is_not_remembered(home: House) -> None:
    plane: Plane = home.app.state.plane
    expect(home.call("GET", "/api/v1/me"), 200)
    known = len(plane.callers)
    home.clock.turn(36_001)
    assert home.call("GET", "/api/v1/me").status_code == 401
    assert len(plane.callers) == known - 1


# --- guesses ---


def test_guesses_at_the_same_time_count_as_much_as_one_after_the_other(home: House) -> None:
    expect(home.call("POST", "/api/v1/users", {"email": "new@example.com"}), 201)
    body = password("new@example.com", "wrong")
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: home.http.post(TOKEN, json=body).status_code, range(20)))
    assert sorted(set(answers)) == [401, 429]
    assert answers.count(401) == 3
    assert len(audit(home, subject="new@example.com", result="Failed")) == 20


def test_a_right_password_does_not_forgive_an_address_its_guesses() -> None:
    attempts, now = Attempts(), START
    for number in range(ADDRESS.free):
        assert attempts.begin(names_of("user", f"victim-{number}", "a"), now) == 0
        mine = names_of("user", "me", "a")
        if attempts.begin(mine, now) == 0:
            attempts.succeeded(mine)
    assert attempts.wait_s(names_of("user", "another", "a"), now) > 0


def test_a_stranger_cannot_keep_somebody_out_for_long() -> None:
    attempts, now = Attempts(), START
    for _ in range(200):
        theirs = names_of("user", "ann", "stranger")
        now = Instant(now + 1000 * attempts.wait_s(theirs, now))
        assert attempts.begin(theirs, now) == 0
    assert attempts.wait_s(names_of("user", "ann", "home"), now) <= 5


# --- the audit log ---


def test_whoever_tries_what_they_may_not_is_in_the_audit_log(home: House) -> None:
    home.project("team-b")
    home.researcher("ann", "team-a")
    theirs = home.train("theirs", "team-b")
    assert home.call("GET", "/api/v1/users", by="ann").status_code == 403
    assert home.call("GET", f"{WORKLOADS}/{theirs['id']}", by="ann").status_code == 404
    assert home.call("GET", f"{PROJECTS}/team-b", by="ann").status_code == 404
    assert home.call("DELETE", f"{WORKLOADS}/{theirs['id']}", by="ann").status_code == 404
    batch = {"ids": [theirs["id"]], "action": "delete"}
    expect(home.call("POST", f"{WORKLOADS}/batch", batch, by="ann"), 200)
    body = {"currentPassword": "not mine", "newPassword": "another horse"}
    assert home.call("POST", "/api/v1/me/password", body, by="ann").status_code == 403
    failed = [(each["http_method"], each["url"].rpartition("/")[2]) for each in audit(home, result="Failed")][::-1]
    assert failed == [
        ("GET", "users"),
        ("GET", theirs["id"]),
        ("GET", "team-b"),
        ("DELETE", theirs["id"]),
        ("POST", "batch"),
        ("POST", "password"),
    ]
    # What is not there is no attempt, and strangers are not written down at every knock.
    assert home.call("GET", f"{WORKLOADS}/none", by="ann").status_code == 404
    assert home.http.get("/api/v1/users").status_code == 401
    assert len(audit(home, result="Failed")) == len(failed)


def test_who_knocks_all_day_does_not_fill_the_audit_log(home: House) -> None:
    home.researcher("ann", "team-a")
    for _ in range(DENIALS_A_MINUTE + 5):
        home.call("GET", "/api/v1/users", by="ann")
    assert len(audit(home, result="Failed")) == DENIALS_A_MINUTE
    home.clock.turn(60)
    home.call("GET", "/api/v1/users", by="ann")
    assert len(audit(home, result="Failed")) == DENIALS_A_MINUTE + 1


def test_every_way_to_a_token_has_its_line(home: House) -> None:
    app = expect(home.call("POST", "/api/v1/apps", {"name": "nightly"}), 201)
    secret = {"grantType": "client_credentials", "clientId": app["clientId"], "clientSecret": app["secret"]}
    answer = expect(home.http.post(TOKEN, json=secret), 200)
    expect(home.http.post(TOKEN, json=renewal(answer)), 200)
    assert [each["action"] for each in audit(home, subject="nightly", subject_type="App")] == ["renew", "sign-in"]
    tries = [home.http.post(TOKEN, json=password("bob@example.com", "wrong")).status_code for _ in range(4)]
    assert tries == [401, 401, 401, 429]
    assert len(audit(home, subject="bob@example.com", result="Failed")) == 4


# --- repeated calls ---


def test_a_repeated_call_is_remembered_for_a_day_and_no_longer(home: House) -> None:
    def submit() -> Any:
        body = {"name": "sweep", "useGivenNameAsPrefix": True, "projectId": "team-a", "spec": {"image": "i"}}
        return expect(home.call("POST", f"{WORKLOADS}/trainings", body, headers={"Idempotency-Key": "k"}), 202)

    first = submit()
    home.clock.turn(30_000)
    assert submit()["id"] == first["id"]
    home.clock.turn(86_400)
    home.sign_in("admin", "test@run.ai", "password")
    again = submit()
    assert again["id"] != first["id"]
    assert submit()["id"] == again["id"]


def test_who_lost_a_role_is_not_told_again_what_it_let_them_see(home: House) -> None:
    home.project("team-b")
    home.researcher("ann", "team-a", "team-b")
    body = {"name": "t1", "projectId": "team-a", "spec": {"image": "i", "environmentVariables": []}}
    key = {"Idempotency-Key": "k"}
    expect(home.call("POST", f"{WORKLOADS}/trainings", body, by="ann", headers=key), 202)
    rules = expect(home.call("GET", RULES), 200)["accessRules"]
    rule = next(each for each in rules if each["scopeId"] == "team-a")
    expect(home.call("DELETE", f"{RULES}/{rule['id']}"), 204)
    assert codes(home.call("POST", f"{WORKLOADS}/trainings", body, by="ann", headers=key)) == ["request.key_reused"]


# --- names that are used again, and places that change ---


def ended(home: House, name: str, **spec: Any) -> str:
    """One that was deleted and is gone."""
    workload = str(home.train(name, **spec)["id"])
    expect(home.call("DELETE", f"{WORKLOADS}/{workload}"), 202)
    home.push(home.report(whole=True, gone=(gone(workload),)))
    return workload


def test_a_project_of_the_same_name_inherits_nothing(home: House) -> None:
    old = ended(home, "old", environmentVariables=[{"name": "TOKEN", "value": "s3cret"}])
    expect(home.call("DELETE", f"{PROJECTS}/team-a"), 202)
    home.project("team-a")
    home.researcher("ann", "team-a")
    new = ended(home, "new")
    listed = expect(home.call("GET", f"{WORKLOADS}?deleted=true", by="ann"), 200)["workloads"]
    assert [each["id"] for each in listed] == [new]
    for path in ("", "/events", "/history", "/pods", "/logs"):
        assert home.call("GET", f"{WORKLOADS}/{old}{path}", by="ann").status_code == 404
    # An administrator still finds both, under the name they had.
    both = expect(home.call("GET", f"{WORKLOADS}?deleted=true&filterBy=projectName==team-a"), 200)["workloads"]
    assert {(each["id"], each["projectName"]) for each in both} == {(old, "team-a"), (new, "team-a")}
    plane: Plane = home.app.state.plane

    def heard_by_ann(connection: Connection) -> set[str]:
        return {
            each.id for each in changes.after(connection, 0) if each.project == "team-a" and each.noun == "workload"
        }

    assert home.http.portal is not None
    assert home.http.portal.call(plane.read, heard_by_ann) == {new}


def test_a_project_that_goes_with_its_last_workload_leaves_nothing_to_its_name(home: House) -> None:
    old = home.train("old")["id"]
    expect(home.call("DELETE", f"{PROJECTS}/team-a?workloads=delete"), 202)
    home.push(home.report(whole=True, gone=(gone(old),)))
    home.project("team-a")
    home.researcher("ann", "team-a")
    assert home.call("GET", f"{WORKLOADS}/{old}", by="ann").status_code == 404
    assert expect(home.call("GET", f"{WORKLOADS}/{old}"), 200)["projectName"] == "team-a"


def test_a_department_of_the_same_name_inherits_nothing(home: House) -> None:
    def department() -> None:
        expect(home.call("POST", DEPARTMENTS, {"name": "research"}), 201)

    department()
    home.project("p1", parentId="research")
    old = ended(home, "old", project="p1")
    expect(home.call("DELETE", f"{PROJECTS}/p1"), 202)
    expect(home.call("DELETE", f"{DEPARTMENTS}/research"), 204)
    department()
    head(home, "research")
    assert home.call("GET", f"{WORKLOADS}/{old}", by="head").status_code == 404
    assert expect(home.call("GET", f"{WORKLOADS}?deleted=true", by="head"), 200)["workloads"] == []


def head(home: House, department: str) -> None:
    """Somebody who works in all projects of a department."""
    home.researcher("head")
    rule = {"subjectId": "head@example.com", "roleId": "researcher", "scopeType": "department", "scopeId": department}
    expect(home.call("POST", RULES, rule), 201)


def test_work_goes_with_its_project_to_another_department(home: House) -> None:
    for name in ("research", "sales"):
        expect(home.call("POST", DEPARTMENTS, {"name": name}), 201)
    home.project("p1", parentId="research")
    head(home, "research")
    past, now = ended(home, "past", project="p1"), home.call("GET", f"{WORKLOADS}/{home.train('now', 'p1')['id']}")
    workload = now.json()["id"]
    expect(home.call("GET", f"{WORKLOADS}/{workload}", by="head"), 200)
    expect(home.call("PATCH", f"{PROJECTS}/p1", {"parentId": "sales"}), 200)
    for each in (past, workload):
        assert home.call("GET", f"{WORKLOADS}/{each}", by="head").status_code == 404
    assert home.call("POST", f"{WORKLOADS}/{workload}/suspend", by="head").status_code == 404
    assert expect(home.call("GET", f"{WORKLOADS}?deleted=true", by="head"), 200)["workloads"] == []
    shown = home.call("GET", f"{WORKLOADS}/{workload}")
    assert (shown.json()["departmentId"], shown.json()["departmentName"]) == ("sales", "sales")
    assert shown.headers["etag"] != now.headers["etag"]
    assert shown.headers["etag"] == f'"{shown.json()["revision"]}"'
    # And it stays so when the cluster reports it again.
    home.push(home.report(workloads=(home.runs(workload),)))
    assert expect(home.call("GET", f"{WORKLOADS}/{workload}"), 200)["departmentName"] == "sales"
    plane: Plane = home.app.state.plane
    assert home.http.portal is not None
    told = home.http.portal.call(plane.read, lambda connection: changes.after(connection, 0))
    assert [each.verb for each in told if each.id == workload][:2] == ["created", "updated"]


@pytest.mark.parametrize(("scope", "name"), [("project", "team-a"), ("department", "default")])
def test_who_administers_one_place_puts_nothing_into_another(home: House, scope: str, name: str) -> None:
    expect(home.call("POST", DEPARTMENTS, {"name": "research"}), 201)
    home.researcher("ada")
    rule = {"subjectId": "ada@example.com", "roleId": "administrator", "scopeType": scope, "scopeId": name}
    expect(home.call("POST", RULES, rule), 201)
    expect(home.call("PATCH", f"{PROJECTS}/team-a", {"description": "mine"}, by="ada"), 200)
    moved = home.call("PATCH", f"{PROJECTS}/team-a", {"parentId": "research"}, by="ada")
    assert codes(moved) == ["access.denied"]


@pytest.mark.parametrize(("scope", "name", "may"), [("project", "team-a", False), ("department", "default", True)])
def test_a_quota_is_set_by_those_above_the_project(home: House, scope: str, name: str, may: bool) -> None:
    home.researcher("ada")
    rule = {"subjectId": "ada@example.com", "roleId": "administrator", "scopeType": scope, "scopeId": name}
    expect(home.call("POST", RULES, rule), 201)
    now = expect(home.call("GET", f"{PROJECTS}/team-a"), 200)["resources"]
    more = {"resources": [{"gpu": {"deserved": 64}}]}
    body = {"name": "team-a", "description": "mine"}
    for method, path, change in (
        ("PUT", f"{PROJECTS}/team-a", {**body, **more}),
        ("PATCH", f"{PROJECTS}/team-a", more),
        ("PUT", f"{PROJECTS}/team-a/resources", more),
        ("PATCH", f"{PROJECTS}/team-a/resources", more),
        ("PUT", f"/v1/k8s/clusters/{home.cluster}/projects/team-a", {**body, **more}),
    ):
        answer = home.call(method, path, change, by="ada")
        assert answer.status_code == (200 if may else 403), path
        if not may:
            assert codes(answer) == ["access.denied"]
            assert "cannot change its quota" in answer.text
        expect(home.call("PUT", f"{PROJECTS}/team-a/resources", {"resources": now}), 200)
    # The rest of it is theirs to change, with the quota repeated as it is.
    expect(home.call("PUT", f"{PROJECTS}/team-a", {**body, "resources": now}, by="ada"), 200)


# --- addresses of people ---


def test_the_same_letters_are_the_same_person(home: House) -> None:
    made = {"email": NFD, "password": "correct horse", "needToChangePassword": False}
    assert expect(home.call("POST", "/api/v1/users", made), 201)["email"] == NFC
    assert codes(home.call("POST", "/api/v1/users", {**made, "email": NFC.upper()})) == ["user.exists"]
    for spelling in (NFC, NFD, NFC.upper()):
        home.sign_in("jose", spelling, "correct horse")


@pytest.mark.parametrize(
    "email", ["test\u200b@run.ai", "test@run.ai\u2060", "\u202etest@run.ai", "a\uff20b@c", "a\u00ad@b"]
)
def test_addresses_with_what_cannot_be_seen_are_refused(home: House, email: str) -> None:
    assert codes(home.call("POST", "/api/v1/users", {"email": email, "password": "correct horse"})) == [
        "request.wrong_value"
    ]


def test_an_address_stays_as_it_is_when_it_is_made_normal_twice() -> None:
    for text in (NFC, NFD, "STRASSE@x", "stra\u00dfe@x", "\u212a@x", "\ufb01@x"):
        assert normal_email(normal_email(text)) == normal_email(text)
