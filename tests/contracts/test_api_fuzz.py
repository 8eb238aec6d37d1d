"""Fuzzing of every route, by every kind of caller: no bug is met, and nothing of another project is seen or changed.

Each operation is tried with paths of the generator's invention, which lead nowhere, and again with ids of what is
there: for the researcher all of them of a project that is none of hers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case
from schemathesis.core.result import Ok

from fairpool.control.app import ROUTES
from fairpool.control.openapi import openapi_document
from tests.control.control_plane import HERE, ControlPlane, control_plane, expect
from tests.postgresql import is_chosen

pytestmark = pytest.mark.slow

EXAMPLES = 4 if is_chosen() else 15
SECRET = "secret-of-team-b"
LEFT_OUT = {
    "/api/v1/changes",  # does not end
    "/api/v1/me/logout",  # ends the session of this test
}
FIXED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane(pull_wait_s=0.0) as control:
        control.project("team-a")
        control.project("team-b", description=SECRET)
        control.researcher("ann", "team-a")
        control.researcher("bob", "team-b")
        control.train("t1")
        control.train(SECRET, "team-b")
        control.tokens["cluster"] = control.cluster_token
        yield control


@pytest.mark.parametrize("caller", ["ann", "cluster", "admin"])
def test_nothing_that_is_sent_meets_a_bug(control: ControlPlane, caller: str) -> None:
    _send_everything(control, caller, {})


@pytest.mark.parametrize("caller", ["ann", "cluster", "admin"])
def test_nothing_that_is_sent_to_what_is_there_meets_a_bug(control: ControlPlane, caller: str) -> None:
    _send_everything(control, caller, _of_others(control))


def _send_everything(control: ControlPlane, caller: str, ids: dict[str, str]) -> None:
    schema = schemathesis.openapi.from_dict(openapi_document(ROUTES))
    before, tried = _of_team_b(control), 0
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        operation: Any = result.ok()
        there = {each: ids[each] for each in re.findall(r"{(\w+)}", operation.path) if each in ids}
        if operation.path not in LEFT_OUT and (there or not ids):
            FIXED(given(case=operation.as_strategy())(_check(control, caller, there)))()
            tried += 1
    assert tried > 20
    if caller == "ann":
        assert _of_team_b(control) == before
        if ids:
            mine = expect(control.call("GET", "/api/v1/workloads", by="ann"), 200)["workloads"]
            assert [each["projectName"] for each in mine] == ["team-a"]


def _of_others(control: ControlPlane) -> dict[str, str]:
    """Something that is there, for each part of a path; nothing of it is for ann."""
    listed = expect(control.call("GET", "/api/v1/workloads?filterBy=projectName==team-b"), 200)
    users = expect(control.call("GET", "/api/v1/users"), 200)
    bob = next(each["id"] for each in users if each["email"].startswith("bob"))
    rules = expect(control.call("GET", "/api/v1/authorization/access-rules"), 200)["accessRules"]
    application = expect(control.call("POST", "/api/v1/apps", {"name": "robot"}), 201)
    return {
        "workload_id": listed["workloads"][0]["id"],
        "project_id": "team-b",
        "user_id": bob,
        "rule_id": next(each["id"] for each in rules if each["subjectId"] == bob),
        "app_id": application["id"],
        "department_id": "default",
        "pool_id": "default",
        "node": "n1",
        "cluster_id": control.cluster,
        "role_id": "administrator",
    }


def _check(control: ControlPlane, caller: str, ids: dict[str, str]) -> Any:
    def check(case: Case[Any]) -> None:
        if ids:
            case.path_parameters = {**case.path_parameters, **ids}
        answer = _send(control, case, caller)
        reported = (caller, case.method, case.path, answer.text[:2000])
        assert answer.status_code < 500 or answer.status_code == 503, reported
        if answer.status_code >= 400 and "token" not in case.path:
            assert answer.headers["content-type"] == "application/problem+json", reported
            assert answer.json()["problems"], reported
        if caller == "ann":
            assert SECRET not in answer.text, reported

    return check


def _send(control: ControlPlane, case: Case[Any], caller: str) -> Any:
    asked = case.as_transport_kwargs(base_url=HERE)
    headers = {
        name: value
        for name, value in (asked.get("headers") or {}).items()
        if name.lower() not in ("authorization", "user-agent") and str(value).isascii() and str(value).isprintable()
    }
    headers["Authorization"] = f"Bearer {control.tokens[caller]}"
    body: dict[str, Any] = {}
    if "json" in asked:
        body["content"] = json.dumps(asked["json"]).encode()
        headers["Content-Type"] = "application/json"
    elif isinstance(asked.get("data"), dict):
        body["data"] = asked["data"]
        headers.pop("Content-Type", None)
    elif asked.get("data"):
        data = asked["data"]
        body["content"] = data.encode() if isinstance(data, str) else data
    return control.http.request(
        asked["method"], asked["url"], params=asked.get("params"), headers=headers, follow_redirects=False, **body
    )


def _of_team_b(control: ControlPlane) -> str:
    listed = expect(control.call("GET", "/api/v1/workloads?filterBy=projectName==team-b"), 200)
    return json.dumps([listed, expect(control.call("GET", "/api/v1/org-unit/projects/team-b"), 200)])
