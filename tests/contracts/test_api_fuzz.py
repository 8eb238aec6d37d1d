"""Whatever is sent, by whomever: no bug is met, and nothing of another project is seen or changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case
from schemathesis.core.result import Ok

from fairpool.control.app import openapi_document
from tests.control.house import HERE, House, expect, house

pytestmark = pytest.mark.slow

EXAMPLES = 15
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


@pytest.fixture(scope="module")
def home() -> Iterator[House]:
    with house(pull_wait_s=0.0) as home:
        home.project("team-a")
        home.project("team-b", description=SECRET)
        home.researcher("ann", "team-a")
        home.train("t1")
        home.train(SECRET, "team-b")
        home.tokens["cluster"] = home.cluster_token
        yield home


@pytest.mark.parametrize("caller", ["ann", "cluster", "admin"])
def test_nothing_that_is_sent_meets_a_bug(home: House, caller: str) -> None:
    schema = schemathesis.openapi.from_dict(openapi_document(home.app))
    before = _of_team_b(home)
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        operation: Any = result.ok()
        if operation.path not in LEFT_OUT:
            FIXED(given(case=operation.as_strategy())(_check(home, caller)))()
    if caller == "ann":
        assert _of_team_b(home) == before


def _check(home: House, caller: str) -> Any:
    def check(case: Case[Any]) -> None:
        answer = _send(home, case, caller)
        told = (caller, case.method, case.path, answer.text[:2000])
        assert answer.status_code < 500 or answer.status_code == 503, told
        if answer.status_code >= 400 and "token" not in case.path:
            assert answer.headers["content-type"] == "application/problem+json", told
            assert answer.json()["problems"], told
        if caller == "ann":
            assert SECRET not in answer.text, told

    return check


def _send(home: House, case: Case[Any], caller: str) -> Any:
    asked = case.as_transport_kwargs(base_url=HERE)
    headers = {
        name: value
        for name, value in (asked.get("headers") or {}).items()
        if name.lower() not in ("authorization", "user-agent") and str(value).isascii() and str(value).isprintable()
    }
    headers["Authorization"] = f"Bearer {home.tokens[caller]}"
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
    return home.http.request(
        asked["method"], asked["url"], params=asked.get("params"), headers=headers, follow_redirects=False, **body
    )


def _of_team_b(home: House) -> str:
    listed = expect(home.call("GET", "/api/v1/workloads?filterBy=projectName==team-b"), 200)
    return json.dumps([listed, expect(home.call("GET", "/api/v1/org-unit/projects/team-b"), 200)])
