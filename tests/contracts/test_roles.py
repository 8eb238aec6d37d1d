"""Roles, delegation, groups, and what a caller sees of others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from fairpool.control.app import ROUTES
from fairpool.control.store import access as store
from fairpool.control.store import identity_providers as provider_store
from fairpool.control.users import owner
from tests.control.control_plane import ControlPlane, codes, control_plane, expect
from tools import role_reference

RULES = "/api/v1/authorization/access-rules"
ROLES = "/api/v1/authorization/roles"
FOREIGN = ("secret-project", "secret-department", "secret-job", "secret-user", "secret-template", "secret-claim")


@pytest.fixture(scope="module")
def control() -> Iterator[ControlPlane]:
    with control_plane(keep_alive_s=0.01) as control:
        expect(control.call("POST", "/api/v1/org-unit/departments", {"name": "research"}), 201)
        expect(control.call("POST", "/api/v1/org-unit/departments", {"name": "secret-department"}), 201)
        control.project("own", parentId="research")
        control.project("secret-project", parentId="secret-department")
        control.researcher("secret-user", "secret-project")
        control.train("secret-job", "secret-project")
        control.train("own-job", "own")
        template = {"name": "secret-template", "scope": "project", "projectId": "secret-project"}
        body = {"meta": template, "spec": {"image": "quickstart"}}
        expect(control.call("POST", "/api/v1/asset/workload-template", body), 201)
        yield control


def person(
    control: ControlPlane, name: str, role: str | int, scope_type: str = "project", scope_id: str = "own"
) -> None:
    control.researcher(name)
    give(control, f"{name}@example.com", role, scope_type, scope_id)


def give(
    control: ControlPlane, subject: str, role: Any, scope_type: str, scope_id: str, by: str = "admin", **more: Any
) -> Any:
    rule = {"subjectId": subject, "roleId": role, "scopeType": scope_type, "scopeId": scope_id, **more}
    return expect(control.call("POST", RULES, rule, by=by), 201)


def submit(control: ControlPlane, kind: str, name: str, by: str) -> int:
    spec: dict[str, Any] = {"image": "quickstart"}
    if kind == "inferences":
        spec["servingPort"] = {"container": 8000}
    body = {"name": name, "projectId": "own", "spec": spec}
    return int(control.call("POST", f"/api/v1/workloads/{kind}?dryRun=true", body, by=by).status_code)


@pytest.mark.parametrize(
    ("role", "workspace", "training", "inference", "template"),
    [
        ("l1-researcher", True, True, True, True),
        ("l2-researcher", True, True, False, False),
        ("researcher", True, True, True, False),
        ("ml-engineer", False, False, True, False),
        ("research-manager", False, False, False, True),
        ("template-administrator", False, False, False, True),
        ("environment-administrator", False, False, False, False),
        ("viewer", False, False, False, False),
    ],
)
def test_what_roles_of_a_project_may_create(
    control: ControlPlane, role: str, workspace: bool, training: bool, inference: bool, template: bool
) -> None:
    person(control, role, role)
    tried = [submit(control, kind, f"{role}-w", role) for kind in ("workspaces", "trainings", "inferences")]
    assert [status != 403 for status in tried] == [workspace, training, inference], tried
    meta = {"name": f"{role}-template", "scope": "project", "projectId": "own"}
    body = {"meta": meta, "spec": {"image": "quickstart"}}
    made = control.call("POST", "/api/v1/asset/workload-template", body, by=role)
    assert made.status_code == (201 if template else 403), made.text
    assert expect(control.call("GET", "/api/v1/workloads?filterBy=name==own-job", by=role), 200)["workloads"]


def test_a_department_administrator_manages_the_department_and_nothing_above(control: ControlPlane) -> None:
    person(control, "head", "department-administrator", "department", "research")
    made = control.call("POST", "/api/v1/org-unit/projects", {"name": "new-team", "parentId": "research"}, by="head")
    expect(made, 201)
    beyond = {"name": "else", "parentId": "secret-department"}
    assert control.call("POST", "/api/v1/org-unit/projects", beyond, by="head").status_code == 403
    control.researcher("eve")
    rule = give(control, "eve@example.com", "l2-researcher", "project", "new-team", by="head")
    rules = expect(control.call("GET", RULES, by="head"), 200)
    assert {each["scopeId"] for each in rules["accessRules"]} <= {"research", "own", "new-team"}
    for role, scope_type, scope_id in (
        ("l2-researcher", "project", "secret-project"),
        ("l2-researcher", "tenant", ""),
        ("department-administrator", "tenant", ""),
    ):
        body = {"subjectId": "eve@example.com", "roleId": role, "scopeType": scope_type, "scopeId": scope_id}
        assert control.call("POST", RULES, body, by="head").status_code == 403, (role, scope_type)
    above = expect(control.call("GET", RULES), 200)["accessRules"]
    tenant = next(each for each in above if each["scopeType"] == "tenant")
    assert control.call("DELETE", f"{RULES}/{tenant['id']}", by="head").status_code == 404
    assert control.call("DELETE", f"{RULES}/{rule['id']}", by="head").status_code == 204
    assert (
        control.call("PUT", "/api/v1/org-unit/departments/research", {"name": "research"}, by="head").status_code == 403
    )


def test_a_custom_role_gives_what_it_says_and_no_more_than_its_creator_has(control: ControlPlane) -> None:
    body = {"name": "Suspender", "permissions": [{"resourceType": "trainings", "actions": ["update"]}]}
    made = expect(control.call("POST", ROLES, body), 201)
    assert made["custom"]
    assert made["id"] > 1000
    assert codes(control.call("POST", ROLES, body)) == ["role.exists"]
    assert codes(control.call("POST", ROLES, {**body, "name": "Editor"})) == ["role.exists"]
    alone = {"name": "x", "permissions": [{"resourceType": "workspaces", "actions": ["read"]}]}
    assert codes(control.call("POST", ROLES, alone)) == ["role.without_effect"]
    person(control, "ruth", made["id"])
    assert submit(control, "trainings", "t", "ruth") == 403
    assert codes(control.call("DELETE", f"{ROLES}/{made['id']}")) == ["role.in_use"]
    assert codes(control.call("PATCH", f"{ROLES}/viewer", {"description": "x"})) == ["role.built_in"]
    makers = {"name": "Role maker", "permissions": [{"resourceType": "roles", "actions": ["create"]}]}
    maker = expect(control.call("POST", ROLES, makers), 201)
    person(control, "max", maker["id"], "tenant", "")
    for scope_type, scope_id in (("project", "own"), ("department", "research")):
        rule = {"subjectId": "max@example.com", "roleId": maker["id"], "scopeType": scope_type, "scopeId": scope_id}
        assert codes(control.call("POST", RULES, rule)) == ["access.role_without_effect"], "it is for the whole tenant"
    more = {"name": "Climber", "permissions": [{"resourceType": "users", "actions": ["create"]}]}
    assert codes(control.call("POST", ROLES, more, by="max")) == ["access.denied"]
    off = expect(control.call("PATCH", f"{ROLES}/{maker['id']}", {"enabled": False}), 200)
    assert not off["effectiveEnabled"]
    assert control.call("POST", ROLES, more, by="max").status_code == 403


def test_a_group_has_rules_and_a_change_of_groups_changes_permissions(control: ControlPlane) -> None:
    control.researcher("gina")
    assert control.call("GET", "/api/v1/org-unit/projects/own", by="gina").status_code == 403
    give(control, "ml-team", "l1-researcher", "project", "own", subjectType="group")

    async def regroup(names: list[str]) -> None:
        plane = control.app.state.plane

        def unit(connection: Any) -> None:
            user = store.user_by_email(connection, "gina@example.com")
            assert user is not None
            store.set_groups(connection, user.id, names)

        await plane.write(unit)

    assert control.http.portal is not None
    control.http.portal.call(regroup, ["ml-team", "others"])
    assert control.call("GET", "/api/v1/org-unit/projects/own", by="gina").status_code == 200
    assert expect(control.call("GET", "/api/v1/me", by="gina"), 200)["groups"] == ["ml-team", "others"]
    assert submit(control, "trainings", "g", "gina") != 403
    control.http.portal.call(regroup, ["others"])
    assert control.call("GET", "/api/v1/org-unit/projects/own", by="gina").status_code == 403


def test_a_disabled_user_is_out_at_once(control: ControlPlane) -> None:
    person(control, "dora", "viewer")
    assert control.call("GET", "/api/v1/me", by="dora").status_code == 200
    expect(control.call("PATCH", "/api/v1/users/dora@example.com", {"disabled": True}), 200)
    assert control.call("GET", "/api/v1/me", by="dora").status_code == 401
    again = {"grantType": "password", "username": "dora@example.com", "password": "correct horse"}
    assert control.http.post("/api/v1/token", json=again).status_code == 401
    wrong = control.call("PATCH", "/api/v1/users/test@run.ai", {"disabled": True})
    assert codes(wrong) == ["access.last_administrator"]


def test_a_user_manager_cannot_act_as_an_administrator(control: ControlPlane) -> None:
    everything = [{"resourceType": "users", "actions": ["create", "read", "update", "delete"]}]
    made = expect(control.call("POST", ROLES, {"name": "Help desk", "permissions": everything}), 201)
    person(control, "hal", made["id"], "tenant", "")
    assert control.call("POST", "/api/v1/users/test@run.ai/password", by="hal").status_code == 403
    assert control.call("DELETE", "/api/v1/users/test@run.ai", by="hal").status_code == 403
    body = {"email": "new@example.com", "roles": ["administrator"]}
    assert control.call("POST", "/api/v1/users", body, by="hal").status_code == 403


def test_an_access_manager_cannot_become_an_administrator_through_an_identity_provider(control: ControlPlane) -> None:
    nouns = ("users", "apps", "service-account")
    everything = [{"resourceType": noun, "actions": ["create", "read", "update", "delete"]} for noun in nouns]
    everything += [{"resourceType": "access_rules", "actions": ["create", "read", "delete"]}]
    made = expect(control.call("POST", ROLES, {"name": "Access manager", "permissions": everything}), 201)
    person(control, "ida", made["id"], "tenant", "")
    document = {"clientId": "c", "discoverDocumentUrl": "https://login.example.com/a", "scopes": [], "mappers": {}}
    row: dict[str, Any] = {"document": json.dumps(document), "type": "oidc", "sealed": "", "key_id": ""}
    row |= {"created_at": 0, "created_by": "", "updated_at": 0}

    async def prepare() -> None:
        await control.app.state.plane.write(lambda connection: provider_store.add_provider(connection, "corp", **row))

    assert control.http.portal is not None
    control.http.portal.call(prepare)
    assert expect(control.call("GET", "/api/v1/idps", by="ida"), 200), "the role is good for this"
    for user in ("test@run.ai", "ida@example.com"):  # the account may be in the groups of an administrator
        said = control.call("POST", "/api/v1/idps/corp/links", {"user": user, "subject": "ida-at-corp"}, by="ida")
        assert codes(said) == ["access.denied"]
    oidc = {"clientId": "c", "clientSecret": "s", "discoverDocumentUrl": "https://evil.example.com/a"}
    provider = {"type": "oidc", "oidcData": oidc}
    assert codes(control.call("POST", "/api/v1/idps", provider, by="ida")) == ["access.denied"]
    assert codes(control.call("PUT", "/api/v1/idps/corp", provider, by="ida")) == ["access.denied"]
    assert codes(control.call("PUT", "/api/v1/idps/corp/mappers", {"groups": "mine"}, by="ida")) == ["access.denied"]
    assert codes(control.call("DELETE", "/api/v1/idps/corp", by="ida")) == ["access.denied"]


def test_a_role_that_is_switched_off_cannot_be_assigned_by_those_who_lack_it(control: ControlPlane) -> None:
    body = {"name": "Sleeper", "permissions": [{"resourceType": "nodes", "actions": ["update"]}]}
    made = expect(control.call("POST", ROLES, body), 201)
    expect(control.call("PATCH", f"{ROLES}/{made['id']}", {"enabled": False}), 200)
    giver = {"name": "Rule maker", "permissions": [{"resourceType": "access_rules", "actions": ["create", "read"]}]}
    maker = expect(control.call("POST", ROLES, giver), 201)
    person(control, "rita", maker["id"], "tenant", "")
    rule = {"subjectId": "rita@example.com", "roleId": made["id"], "scopeType": "tenant", "scopeId": ""}
    assert codes(control.call("POST", RULES, rule, by="rita")) == ["access.denied"]


def test_a_program_is_changed_by_those_alone_who_may_do_as_much(control: ControlPlane) -> None:
    """Roles that are switched off count: they may be switched on."""
    body = {"name": "Node updates", "permissions": [{"resourceType": "nodes", "actions": ["update"]}]}
    made = expect(control.call("POST", ROLES, body), 201)
    for path, noun in (("/api/v1/apps", "apps"), ("/api/v1/service-accounts", "service-account")):
        program = expect(control.call("POST", path, {"name": noun, "roles": [made["id"]]}), 201)
        one = f"{path}/{program['id']}"
        rights = [{"resourceType": noun, "actions": ["create", "read", "update", "delete"]}]
        role = expect(control.call("POST", ROLES, {"name": f"{noun} manager", "permissions": rights}), 201)
        person(control, noun, role["id"], "tenant", "")
        for enabled in (True, False):
            expect(control.call("PATCH", f"{ROLES}/{made['id']}", {"enabled": enabled}), 200)
            assert codes(control.call("PATCH", one, {"enabled": False}, by=noun)) == ["access.denied"]
            assert codes(control.call("POST", f"{one}/secret", by=noun)) == ["access.denied"]
            assert codes(control.call("DELETE", one, by=noun)) == ["access.denied"]
        own = expect(control.call("POST", path, {"name": f"own-{noun}"}, by=noun), 201)
        expect(control.call("DELETE", f"{path}/{own['id']}", by=noun), 204)


def test_the_owner_of_the_machine_is_no_disabled_user() -> None:
    """Who connects over the socket of the data directory is signed in as the owner."""
    with control_plane() as control:
        person(control, "otto", "administrator", "tenant", "")
        plane = control.app.state.plane

        async def owner_name() -> str:
            row = await plane.read(lambda connection: owner(connection, "test@run.ai"))
            return str(row.email)

        assert control.http.portal is not None
        assert control.http.portal.call(owner_name) == "test@run.ai"
        expect(control.call("PATCH", "/api/v1/users/test@run.ai", {"disabled": True}, by="otto"), 200)
        assert control.http.portal.call(owner_name) == "otto@example.com"


def test_a_rule_for_a_service_account_names_one_that_exists(control: ControlPlane) -> None:
    made = expect(control.call("POST", "/api/v1/service-accounts", {"name": "sweeper"}), 201)
    rule = give(control, "sweeper", "viewer", "project", "own", subjectType="service-account")
    assert rule["subjectId"] == made["id"]
    body = {"subjectId": "sweepr", "subjectType": "service-account", "roleId": "viewer", "scopeType": "project"}
    assert codes(control.call("POST", RULES, {**body, "scopeId": "own"})) == ["access.no_such_subject"]


def test_rules_as_the_original_client_creates_them(control: ControlPlane) -> None:
    control.researcher("bob")
    payload = {
        "roleId": 8,
        "subjects": [
            {"subjectId": "bob@example.com", "subjectType": "user"},
            {"subjectId": "g", "subjectType": "group"},
        ],
        "scopes": [{"scopeId": "own", "scopeType": "project"}, {"scopeId": "nowhere", "scopeType": "project"}],
    }
    made = expect(control.call("POST", f"{RULES}/batch-create", {"payload": payload}), 200)
    assert [(each["roleId"], each["roleName"], each["tenantId"]) for each in made["succeeded"]] == [
        (8, "L2 researcher", 1)
    ] * 2
    assert [(each["code"], each["payload"]["scopeId"]) for each in made["failed"]] == [(422, "nowhere")] * 2
    counted = expect(control.call("GET", f"{RULES}/count?filterBy=roleName==L2 researcher,scopeId==own"), 200)["count"]
    listed = expect(control.call("GET", f"{RULES}?filterBy=roleName==L2 researcher,scopeId==own&limit=1"), 200)
    assert (listed["totalRecords"], listed["displayRecords"]) == (counted, 1)


def test_a_rule_for_a_cluster_holds_for_what_its_projects_use(control: ControlPlane) -> None:
    person(control, "of-cluster", "viewer", "cluster", control.cluster)
    person(control, "of-project", "viewer")
    for by, status in (("of-cluster", 200), ("of-project", 404)):
        path = "/api/v1/workload-templates?complyToProject=secret-project"
        assert control.call("GET", path, by=by).status_code == status


@pytest.fixture(scope="module")
def watchers(control: ControlPlane) -> tuple[str, ...]:
    """Callers whose roles end at project own or department research."""
    role = {"name": "Reader", "permissions": [{"resourceType": kind, "actions": ["read"]} for kind in EVERY_READ]}
    made = expect(control.call("POST", ROLES, role), 201)
    person(control, "watch-researcher", "researcher")
    person(control, "watch-viewer", "department-viewer", "department", "research")
    person(control, "watch-head", "department-administrator", "department", "research")
    person(control, "watch-custom", made["id"])
    return ("watch-researcher", "watch-viewer", "watch-head", "watch-custom")


EVERY_READ = (
    *("workloads", "jobs", "workspaces", "trainings", "inferences", "project", "dashboards-overview", "department"),
    *("templates", "credentials", "nodes", "nodepools", "network-topologies", "cluster", "access_rules", "users"),
)
ENDLESS = ("/api/v1/changes", "/api/v1/me/logout")


@pytest.mark.slow
@pytest.mark.parametrize("caller", ["watch-researcher", "watch-viewer", "watch-head", "watch-custom"])
def test_no_route_names_what_the_caller_may_not_see(
    control: ControlPlane, watchers: tuple[str, ...], caller: str
) -> None:
    foreign = expect(control.call("GET", "/api/v1/workloads?filterBy=name==secret-job"), 200)["workloads"][0]
    hidden = (*FOREIGN, foreign["id"])
    named = {"project_id": "secret-project", "department_id": "secret-department", "workload_id": foreign["id"]}
    for route in ROUTES:
        if route.method != "GET" or route.path in ENDLESS:
            continue
        words = {name: named.get(name, "nothing") for name in re.findall(r"\{(\w+)\}", route.path)}
        words |= {"cluster_id": control.cluster} if "cluster_id" in words else {}
        path = route.path.format(**words)
        answer = control.call("GET", path, by=caller)
        body = answer.text
        for word in words.values():  # what was asked for may be repeated
            body = body.replace(word, "")
        assert not [word for word in hidden if word in body], (path, answer.status_code, answer.text[:300])


@pytest.mark.parametrize("caller", ["watch-researcher", "watch-viewer", "watch-custom"])
def test_filters_search_and_order_tell_nothing_of_others(
    control: ControlPlane, watchers: tuple[str, ...], caller: str
) -> None:
    for path, name in (("/api/v1/workloads", "workloads"), ("/api/v1/org-unit/projects", "projects")):
        for query in ("filterBy=name=@secret", "search=secret", "sortBy=name&sortOrder=desc&filterBy=name=@secret"):
            assert expect(control.call("GET", f"{path}?{query}", by=caller), 200)[name] == [], (path, query)
            count = query.split("sortOrder=desc&")[-1]
            assert expect(control.call("GET", f"{path}/count?{count}", by=caller), 200)["count"] == 0


def test_the_pages_about_roles_are_those_in_the_docs() -> None:
    for page, text in role_reference.pages().items():
        assert page.read_text(encoding="utf-8") == text, "python -m tools.role_reference"
