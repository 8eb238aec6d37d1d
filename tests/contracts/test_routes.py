"""Every route: who is let in, as stated here once more; its description.

`test_permissions.py` calls every route as each of the built-in roles, in two departments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from fairpool.control.app import ROUTES
from fairpool.control.openapi import openapi_document
from fairpool.control.rbac import Action
from tests.control.control_plane import ControlPlane, control_plane, node
from tools import api_reference

ACTIONS = {(each.method, each.path): each.action for each in ROUTES if each.method != "WEBSOCKET"}
SCOPED = {
    "administrator-of-a-project": ("project", "team-a"),
    "administrator-of-a-department": ("department", "default"),
}
CALLERS = ("unknown", "no-role", "researcher", "administrator", *SCOPED, "cluster")
WRITES = "(POST|PUT|PATCH|DELETE) .*"
OF_EVERY_ACCOUNT = re.compile(
    r"/api/v1/(access-keys|user-applications|me\b|notifications|notification-webhooks|subscriptions)"
    r"|/api/v1/(authorization/(me/|permissions|permitted-scopes)|workload-(types|categories|priorities))"
    r"|GET /api/v1/(authorization/roles|notification-(channels$|state|types)|org-unit/priorities)"
    r"|GET /v1/k8s/users/roles|/openid-connect/userinfo|POST /api/v1/clusters/{cluster_id}/kubernetes-token"
)
CONCERNS_ALL_USERS = re.compile(
    r"/api/v1/(apps|service-accounts|administration|sessions|mail|audit|security|settings|idps)"
    r"|clusters/{cluster_id}/(snapshot|what-if|cycles)|/v1/k8s/(apps|audit|setting)|notification-(channel|state)"
    rf"|{WRITES}(users|authorization/roles|/overrides|node-pools|topologies|prices|departments(?!.*/access-control))"
    rf"|{WRITES}clusters(?!/{{cluster_id}}/projects)(?!.*/access-control)"
)
ADMINISTRATION = re.compile(
    r"access-rules|/access-control|/users|/v1/k8s/groups"
    rf"|{WRITES}(/projects|/policy|workload-template|/asset/(compute|environment|datasource))"
)
"""Spelled out once more: the declarations that are tested must not be what the test asks. A route that none of these
names is also for researchers. `test_rbac.py` states which routes are open."""


@pytest.fixture(scope="module")
def control() -> Iterator[ControlPlane]:
    with control_plane(keep_alive_s=0.01, pull_wait_s=0.0) as control:
        control.project("team-a")
        control.researcher("no-role")
        control.researcher("researcher", "team-a")
        body = {"email": "adm@example.com", "password": "correct horse", "needToChangePassword": False}
        assert control.call("POST", "/api/v1/users", {**body, "roles": ["administrator"]}).status_code == 201
        control.sign_in("administrator", "adm@example.com", "correct horse")
        for name, (scope_type, scope_id) in SCOPED.items():
            control.researcher(name)
            subject = f"{name}@example.com"
            rule = {"subjectId": subject, "roleId": "administrator", "scopeType": scope_type, "scopeId": scope_id}
            assert control.call("POST", "/api/v1/authorization/access-rules", rule).status_code == 201
        control.tokens["cluster"] = control.cluster_token
        control.tokens["unknown"] = "fpa_none"
        yield control


def _lets_in(route: str, action: Action, caller: str) -> bool:
    if action is Action.OPEN:
        return True
    if caller == "cluster" or "/api/v1/cluster/" in route:
        return caller == "cluster" and "/api/v1/cluster/" in route
    if caller == "unknown":
        return False
    if caller == "administrator" or OF_EVERY_ACCOUNT.search(route):
        return True
    if caller == "no-role" or CONCERNS_ALL_USERS.search(route):
        return False
    return caller in SCOPED or not ADMINISTRATION.search(route)


@pytest.mark.slow
@pytest.mark.parametrize("caller", CALLERS)
def test_the_guard_lets_in_whom_the_route_is_for(control: ControlPlane, caller: str) -> None:
    wrong = []
    for (method, path), action in sorted(ACTIONS.items()):
        if path in ("/api/v1/changes", "/api/v1/me/logout"):
            continue  # one does not end by itself, the other ends the session of this test
        answer = control.call(method, re.sub(r"\{\w+\}", "nothing", path), by=caller)
        if not _lets_in(f"{method} {path}", action, caller):
            is_right = answer.status_code == (401 if caller == "unknown" else 403)
        else:  # Behind the guard anything may be said but that the caller is not known or not allowed.
            is_right = answer.status_code not in (401, 403, 500, 501) or path == "/reset-password"  # which wants a code
        if not is_right:
            wrong.append((method, path, answer.status_code, answer.text))
    assert not wrong


@pytest.mark.parametrize("caller", SCOPED)
def test_an_administrator_of_one_place_cannot_become_one_of_everything(control: ControlPlane, caller: str) -> None:
    rules, subject = "/api/v1/authorization/access-rules", f"{caller}@example.com"
    rule = {"subjectId": subject, "roleId": "administrator", "scopeType": "tenant"}
    assert control.call("POST", rules, rule, by=caller).status_code == 403
    many = control.call("POST", f"{rules}/batch-create", {"payload": [rule]}, by=caller).json()
    assert [each["code"] for each in many["failed"]] == [403]
    assert not many["succeeded"]
    for path in ("/api/v1/users", "/v1/k8s/users", "/api/v1/apps", "/v1/k8s/apps"):
        body = {"email": "eve@example.com", "name": "eve", "roles": ["administrator"]}
        assert control.call("POST", path, body, by=caller).status_code == 403, path
        if "apps" in path:
            assert control.call("GET", path, by=caller).status_code == 403, path
    me = control.call("GET", "/api/v1/me", by=caller).json()
    assert "project.write" in me["permissions"]
    assert "user.create" not in me["permissions"]
    where = {"permission": "user.create"}
    scopes = control.call("POST", "/api/v1/authorization/permitted-scopes", where, by=caller).json()
    assert (scopes["tenant"], scopes["departments"], scopes["projects"]) == (False, [], [])


def test_the_description_is_complete(control: ControlPlane) -> None:
    document = openapi_document(ROUTES)
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    pages = ("/", "/docs", "/sign-in", "/healthz", "/readyz", "/api/openapi.json", "/api/docs", "/researcher/api/docs")
    sign_in = ("/open", "/device", "/sign-in/command", "/sign-in/with/{idp}")
    forms = ("/sign-out", "/sign-in", "/device", "/sign-in/command")
    files = ("/download/fairpool.whl", "/download/{name}")
    hidden = {("GET", path) for path in (*pages, *sign_in, *files)} | {("POST", path) for path in forms}
    hidden |= {("GET", f"/sign-in/with/{{idp}}/{word}") for word in ("callback", "acs", "metadata")}
    hidden |= {("POST", f"/sign-in/with/{{idp}}/{word}") for word in ("logout", "acs")}
    hidden |= {(verb, f"/{name}-password") for verb in ("GET", "POST") for name in ("forgot", "reset")}
    assert described | hidden == set(ACTIONS)
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert operation["summary"], (method, path)
            assert {"401", "403", "422"} <= set(operation["responses"]), (method, path)
            assert operation["x-permission"] == ACTIONS[(method.upper(), path)], (method, path)
    text = json.dumps(document)
    named = set(re.findall(r'"\$ref": "([^"]*)"', text))
    assert named <= {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert control.http.get("/api/openapi.json").json() == document, "it holds no secret, so it needs no token"


def test_every_body_and_every_answer_has_an_example(control: ControlPlane) -> None:
    document = openapi_document(ROUTES)
    for path, item in document["paths"].items():
        for method, operation in item.items():
            bodies = operation.get("requestBody", {}).get("content", {})
            answers = [each for status, each in operation["responses"].items() if status.startswith("2")]
            assert answers, (method, path)
            contents = [*bodies.values(), *(media for each in answers for media in each.get("content", {}).values())]
            assert all("example" in media for media in contents if media.get("schema")), (method, path)


NOT_FOR_PEOPLE = ("/api/v1/cluster/pull", "/api/v1/cluster/push")


@pytest.mark.slow
def test_the_example_of_a_body_can_be_sent(control: ControlPlane) -> None:
    """Whatever is said of it, its form is right: an example that is copied has no unknown field."""
    for path, item in openapi_document(ROUTES)["paths"].items():
        for method, operation in item.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is None or path in NOT_FOR_PEOPLE:
                continue
            required = (each for each in operation.get("parameters", ()) if each.get("required"))
            query = "&".join(f"{each['name']}=nothing" for each in required if each["in"] == "query")
            answer = control.call(method.upper(), re.sub(r"\{\w+\}", "nothing", path) + f"?{query}", body["example"])
            found = answer.json().get("problems", []) if answer.status_code == 422 else []
            assert not [each for each in found if each["code"].startswith("request.")], (method, path, answer.text)


@pytest.mark.slow
def test_what_two_people_may_edit_is_refused_to_the_slower_one(control: ControlPlane) -> None:
    control.push(control.report(whole=True, nodes=(node("n1"),)))
    for path, body in (
        ("/api/v1/org-unit/departments", {"name": "research"}),
        ("/api/v1/node-pools", {"name": "a100", "labelKey": "run.ai/type", "labelValue": "a100"}),
    ):
        control.call("POST", path, body)
    model = {"name": "model", "projectId": "team-a", "spec": {"image": "i", "servingPort": {"container": 8000}}}
    there = {
        "project_id": "team-a",
        "department_id": "research",
        "pool_id": "a100",
        "node": "n1",
        "cluster_id": control.cluster,
        "key": "security.passwordMinLength",
    }
    kinds = {"trainings": control.train("edited")["id"]}
    kinds["inferences"] = control.call("POST", "/api/v1/workloads/inferences", model).json()["id"]
    work = {"name": "build", "projectId": "team-a", "spec": {"image": "i"}}
    kinds["workspaces"] = control.call("POST", "/api/v1/workloads/workspaces", work).json()["id"]
    kinds["distributed"] = control.call("POST", "/api/v1/workloads/distributed", {**work, "name": "d"}).json()["id"]
    tried = 0
    for path, item in openapi_document(ROUTES)["paths"].items():
        for method, operation in item.items():
            if not any(each["name"] == "If-Match" for each in operation.get("parameters", ())):
                continue
            there["workload_id"] = next((value for kind, value in kinds.items() if kind in path), kinds["trainings"])
            example = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            answer = control.call(method.upper(), path.format(**there), example, headers={"If-Match": '"7777777"'})
            assert answer.status_code == 412, (method, path, answer.text)
            tried += 1
    assert tried > 40


def test_the_page_of_all_routes_is_the_one_in_the_docs() -> None:
    assert api_reference.PAGE.read_text(encoding="utf-8") == api_reference.text(), "python -m tools.api_reference"
