"""Sign-in for programs: applications, service accounts, and access keys that do no more than they are for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairpool.api.access import ScopeType
from fairpool.control.key_scope import restricted
from fairpool.control.rbac import Action, Grant, Scope, allowed
from tests.control.control_plane import ControlPlane, codes, control_plane, expect

KEYS = "/api/v1/access-keys"


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        control.project("team-b")
        control.researcher("ann", "team-a", "team-b")
        yield control


def signed_in(control: ControlPlane, name: str, client_id: str, secret: str) -> Any:
    body = {"grantType": "client_credentials", "clientId": client_id, "clientSecret": secret}
    answer = control.http.post("/api/v1/token", json=body)
    if answer.status_code == 200:
        control.tokens[name] = answer.json()["accessToken"]
    return answer


def key(control: ControlPlane, **more: Any) -> dict[str, Any]:
    """A key of Ann's; a program is signed in with it as `ci`."""
    made: dict[str, Any] = expect(control.call("POST", KEYS, {"name": "ci", **more}, by="ann"), 201)
    expect(signed_in(control, "ci", made["clientId"], made["clientSecret"]), 200)
    return made


@pytest.mark.parametrize("path", ["/api/v1/apps", "/api/v1/service-accounts"])
def test_a_program_can_be_disabled_and_its_secret_rotated_with_overlap(control: ControlPlane, path: str) -> None:
    made = expect(control.call("POST", path, {"name": "sweep", "roles": ["administrator"]}), 201)
    one = f"{path}/{made['id']}"
    first = made["secret"]
    assert made["lastLogin"] is None
    assert "refreshToken" not in expect(signed_in(control, "sweep", "sweep", first), 200), "it has its secret"
    (shown,) = expect(control.call("GET", path), 200)
    assert (shown["enabled"], shown["createdBy"], "secret" in shown) == (True, "test@run.ai", False)
    assert shown["lastLogin"] is not None
    second = expect(control.call("POST", f"{one}/secret?overlapSeconds=600"), 200)["clientSecret"]
    for secret in (first, second):
        expect(signed_in(control, "sweep", made["clientId"], secret), 200)
    control.clock.turn(600)
    assert codes(signed_in(control, "-", "sweep", first)) == ["access.wrong_secret"], "the overlap is over"
    expect(control.call("GET", "/api/v1/me", by="sweep"), 200)
    third = expect(control.call("POST", f"{one}/secret"), 200)["secret"]
    assert control.call("GET", "/api/v1/me", by="sweep").status_code == 401, "without overlap, sessions end as well"
    assert codes(signed_in(control, "-", "sweep", second)) == ["access.wrong_secret"]
    expect(signed_in(control, "sweep", "sweep", third), 200)
    assert expect(control.call("PATCH", one, {"enabled": False}), 200)["enabled"] is False
    assert control.call("GET", "/api/v1/me", by="sweep").status_code == 401
    assert codes(signed_in(control, "-", "sweep", third)) == ["access.disabled"]
    assert codes(signed_in(control, "-", "sweep", "wrong")) == ["access.wrong_secret"], "which only its owner learns"
    expect(control.call("PATCH", one, {"enabled": True}), 200)
    expect(signed_in(control, "sweep", "sweep", third), 200)
    expect(control.call("DELETE", one), 204)
    assert control.call("GET", "/api/v1/me", by="sweep").status_code == 401


def test_a_service_account_has_roles_of_its_own(control: ControlPlane) -> None:
    made = expect(control.call("POST", "/api/v1/service-accounts", {"name": "robot"}), 201)
    expect(signed_in(control, "robot", "robot", made["clientSecret"]), 200)
    assert control.call("GET", "/api/v1/workloads", by="robot").status_code == 403
    rule = {"subjectId": made["id"], "subjectType": "service-account", "roleId": "researcher", "scopeId": "team-a"}
    expect(control.call("POST", "/api/v1/authorization/access-rules", {**rule, "scopeType": "project"}), 201)
    control.train("t1", "team-a", by="robot")
    assert expect(control.call("GET", "/api/v1/me", by="robot"), 200)["subjectType"] == "service-account"
    assert control.call("GET", f"/api/v1/apps/{made['id']}").status_code == 404
    assert codes(control.call("POST", "/api/v1/apps", {"name": "robot"})) == ["application.exists"]


def test_the_older_token_path_takes_a_secret(control: ControlPlane) -> None:
    made = expect(control.call("POST", "/api/v1/apps", {"name": "sweep"}), 201)
    body = {"id": made["id"], "name": "sweep", "secret": made["secret"]}
    control.tokens["sweep"] = expect(control.http.post("/v1/k8s/auth/oauth/apptoken", json=body), 200)["access_token"]
    expect(control.call("GET", "/api/v1/me", by="sweep"), 200)


# --- access keys ---


def test_an_access_key_signs_its_owner_in(control: ControlPlane) -> None:
    made = key(control)
    me = expect(control.call("GET", "/api/v1/me", by="ci"), 200)
    assert (me["username"], me["subjectType"]) == ("ann@example.com", "user")
    control.train("t1", "team-a", by="ci")
    (listed,) = expect(control.call("GET", KEYS, by="ann"), 200)["accessKeys"]
    assert listed["lastLogin"] is not None
    assert not {"secret", "clientSecret"} & set(listed)
    sessions = expect(control.call("GET", "/api/v1/me/sessions", by="ann"), 200)["sessions"]
    begun = {(each["method"], each.get("accessKeyId")) for each in sessions}
    assert begun == {("access-key", made["id"]), ("password", None)}
    assert codes(control.call("POST", KEYS, {"name": "ci"}, by="ann")) == ["access-key.exists"]
    expect(control.call("DELETE", f"{KEYS}/ci", by="ann"), 204)
    assert control.call("GET", "/api/v1/me", by="ci").status_code == 401
    assert signed_in(control, "-", made["clientId"], made["clientSecret"]).status_code == 401


def test_a_key_is_for_its_projects_and_actions_alone(control: ControlPlane) -> None:
    key(control, scope={"projects": ["team-a"], "actions": ["workload.read", "workload.submit", "training.create"]})
    control.train("t1", "team-a", by="ci")
    body = {"name": "t2", "projectId": "team-b", "spec": {"image": "i"}}
    assert control.call("POST", "/api/v1/workloads/trainings", body, by="ci").status_code in (403, 404)
    control.train("t3", "team-b", by="ann")
    seen = expect(control.call("GET", "/api/v1/workloads", by="ci"), 200)["workloads"]
    assert [each["name"] for each in seen] == ["t1"]
    workload = seen[0]["id"]
    assert control.call("DELETE", f"/api/v1/workloads/{workload}", by="ci").status_code == 403
    expect(control.call("DELETE", f"/api/v1/workloads/{workload}", by="ann"), 202)


def test_an_administrators_key_for_one_project_administers_nothing_else(control: ControlPlane) -> None:
    made = expect(control.call("POST", KEYS, {"name": "ci", "scope": {"projects": ["team-a"]}}), 201)
    expect(signed_in(control, "ci", made["clientId"], made["secret"]), 200)
    expect(control.call("GET", "/api/v1/org-unit/projects/team-a", by="ci"), 200)
    for method, path in (("GET", "/api/v1/apps"), ("GET", "/api/v1/sessions"), ("GET", "/api/v1/security/settings")):
        assert control.call(method, path, by="ci").status_code == 403, path
    rule = {"subjectId": "ann@example.com", "roleId": "administrator", "scopeType": "tenant"}
    assert control.call("POST", "/api/v1/authorization/access-rules", rule, by="ci").status_code == 403


def test_a_key_never_does_more_than_its_owner_can_now(control: ControlPlane) -> None:
    key(control, scope={"projects": ["team-a", "team-b"]})
    for rule in expect(control.call("GET", "/api/v1/authorization/access-rules"), 200)["accessRules"]:
        if rule["subjectType"] == "user" and rule["scopeId"] == "team-b":
            expect(control.call("DELETE", f"/api/v1/authorization/access-rules/{rule['id']}"), 204)
    control.train("t1", "team-a", by="ci")
    body = {"name": "t2", "projectId": "team-b", "spec": {"image": "i"}}
    assert control.call("POST", "/api/v1/workloads/trainings", body, by="ci").status_code in (403, 404)


def test_a_removed_owners_key_ends_at_once(control: ControlPlane) -> None:
    made = key(control)
    expect(control.call("DELETE", "/api/v1/users/ann@example.com"), 204)
    assert control.call("GET", "/api/v1/me", by="ci").status_code == 401
    assert signed_in(control, "-", made["clientId"], made["clientSecret"]).status_code == 401


def test_a_key_expires_with_the_tokens_that_came_of_it(control: ControlPlane) -> None:
    made = key(control, expiresAt="2027-01-15T08:10:00Z")  # ten minutes from now
    assert control.call("GET", "/api/v1/me", by="ci").status_code == 200
    control.clock.turn(600)
    assert control.call("GET", "/api/v1/me", by="ci").status_code == 401
    assert codes(signed_in(control, "-", made["clientId"], made["clientSecret"])) == ["access-key.expired"]
    for wrong in ("2027-01-15T08:00:00Z", "tomorrow"):
        refusal = control.call("POST", KEYS, {"name": "x", "expiresAt": wrong}, by="ann")
        assert codes(refusal) == ["access-key.expiry"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", KEYS, {"name": "another"}),
        ("POST", f"{KEYS}/ci/secret", None),
        ("DELETE", f"{KEYS}/ci", None),
        ("DELETE", "/api/v1/me/sessions", None),
        ("POST", "/api/v1/me/password", {"currentPassword": "correct horse", "newPassword": "battery staple"}),
    ],
)
def test_a_key_decides_nothing_about_the_account(control: ControlPlane, method: str, path: str, body: Any) -> None:
    """Who finds a key in a log must not be able to make it last."""
    key(control)
    answer = control.call(method, path, body, by="ci")
    assert (answer.status_code, codes(answer)) == (403, ["access.denied"])


def test_a_scope_that_the_owner_does_not_have_is_refused_as_a_whole(control: ControlPlane) -> None:
    scope = {"actions": ["workload.read", "user.delete", "nonsense"], "projects": ["team-a", "team-x"]}
    answer = control.call("POST", KEYS, {"name": "ci", "scope": scope}, by="ann")
    assert codes(answer) == ["access-key.scope"] * 3


def test_administrators_find_and_delete_keys_of_all(control: ControlPlane) -> None:
    made = key(control)
    everyone = "/api/v1/administration/access-keys"
    assert control.call("GET", everyone, by="ann").status_code == 403
    for query in ({"createdBy": "ann@example.com"}, {"clientId": made["clientId"]}):
        found = expect(control.call("GET", everyone, params=query), 200)["accessKeys"]
        assert [each["id"] for each in found] == [made["id"]]
    assert expect(control.call("GET", everyone, params={"createdBy": "eve@example.com"}), 200) == {"accessKeys": []}
    assert expect(control.call("GET", KEYS), 200)["accessKeys"] == [], "it is not the administrator's own"
    assert control.call("GET", f"{KEYS}/{made['id']}").status_code == 404
    expect(control.call("DELETE", f"{everyone}/{made['id']}"), 204)
    assert control.call("GET", "/api/v1/me", by="ci").status_code == 401


READ, WRITE = Action.WORKLOAD_READ, Action.PROJECT_UPDATE
BOTH = frozenset({READ, WRITE})
PLACE = Scope("team-a", "research", "east")


@pytest.mark.parametrize(
    ("scope_type", "scope_id", "is_left"),
    [
        (ScopeType.TENANT, "", True),
        (ScopeType.CLUSTER, "east", True),
        (ScopeType.CLUSTER, "west", False),
        (ScopeType.DEPARTMENT, "research", True),
        (ScopeType.DEPARTMENT, "sales", False),
        (ScopeType.PROJECT, "team-a", True),
        (ScopeType.PROJECT, "team-b", False),
    ],
)
def test_a_grant_above_a_project_is_left_in_that_project(scope_type: ScopeType, scope_id: str, is_left: bool) -> None:
    left = restricted([Grant("r", BOTH, scope_type, scope_id)], [READ.value], [PLACE])
    assert allowed(left, READ, PLACE) is is_left
    assert not allowed(left, WRITE, PLACE)
    assert not allowed(left, READ, Scope("team-b", "research", "east"))
    assert restricted([Grant("r", BOTH, scope_type, scope_id)], None, []) == ()
