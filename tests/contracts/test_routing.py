"""Routing: each path leads to its route, and all that is wrong with a request is reported at once."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import compile_path

from fairpool.control.app import ROUTES
from fairpool.control.endpoint import Endpoint
from fairpool.control.guard import digest_of
from fairpool.control.router import Router
from fairpool.control.routes import IN_PATH, WEBSOCKET
from tests.control.control_plane import ControlPlane, codes, control_plane
from tests.postgresql import of_sqlite

TRAININGS, LIST = "/api/v1/workloads/trainings", "/api/v1/workloads"
PROJECTS, RULES = "/api/v1/org-unit/projects", "/api/v1/authorization/access-rules"
GOOD = {"name": "t", "projectId": "team-a", "spec": {"image": "i", "compute": {"gpu": "0.5"}}}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


# --- from path to route --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def router() -> Router:
    async def nothing(_: Any) -> None: ...

    return Router(ROUTES, Endpoint, nothing)  # type: ignore[arg-type]


def searched(method: str, path: str) -> tuple[Any, dict[str, str]] | None:
    """By trying every pattern; of those that fit, the one with the most literal words, from the left."""
    fitting = [(route, fits) for route, pattern in PATTERNS if route.method == method and (fits := pattern.match(path))]
    if not fitting:
        return None
    route, fits = min(fitting, key=lambda found: ["{" in word for word in found[0].path.split("/")])
    return route, fits.groupdict()


PATTERNS = [(route, compile_path(route.path)[0]) for route in ROUTES]


@pytest.mark.slow
def test_every_path_leads_to_the_most_literal_route_that_fits(router: Router) -> None:
    """Also those that fit two: `count` may be an id, `trainings` a workload with events."""
    paths = {route.path for route in ROUTES if route.method != WEBSOCKET}
    literal = sorted({word for path in paths for word in path.split("/") if word and "{" not in word})
    tried = 0
    for path in sorted(paths):
        holes = IN_PATH.findall(path)
        for chosen in itertools.product(["x", "", *literal], repeat=len(holes)) if len(holes) < 2 else [("x",) * 2]:
            filled = path
            for hole, word in zip(holes, chosen, strict=True):
                filled = filled.replace(f"{{{hole}}}", word, 1)
            for variant, method in itertools.product((filled, f"{filled}/", f"{filled}/more"), METHODS):
                match, words = router.find(method, variant), variant.split("/")
                found = match and (match.route, {name: words[place] for place, name in match.in_path})
                assert found == searched(method, variant), (method, variant)
                tried += 1
    assert tried > 40_000


def test_a_word_with_a_line_break_is_another_word(router: Router) -> None:
    match = router.find("GET", f"{LIST}/count\n")
    assert match is not None
    assert match.route.path == f"{LIST}/{{workload_id}}"


def test_the_methods_of_a_path_are_named_when_another_one_is_used(control: ControlPlane) -> None:
    answer = control.call("PATCH", LIST)
    assert (answer.status_code, codes(answer), answer.headers["allow"]) == (405, ["request.no_such_method"], "GET")
    answer = control.call("PATCH", PROJECTS)
    assert answer.headers["allow"] == "GET, POST"
    assert control.call("HEAD", "/api/v1/changes").status_code == 405, "it would never end"


def test_a_slash_too_many_leads_to_the_path_without_it(control: ControlPlane) -> None:
    answer = control.call("GET", f"{LIST}/?limit=1", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, f"http://127.0.0.1:8080{LIST}?limit=1")
    assert codes(control.call("GET", f"{LIST}/none/nothing/")) == ["request.no_such_path"]


def test_no_two_routes_have_the_same_method_and_path() -> None:
    with pytest.raises(AssertionError, match="declared twice"):
        Router([ROUTES[0], ROUTES[0]], Endpoint, None)  # type: ignore[arg-type]


# --- what is wrong with a request ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        control.researcher("ann", "team-a")
        yield control


def sent(control: ControlPlane, path: str, body: str | bytes, kind: str | None = "application/json") -> Any:
    headers = {"Authorization": f"Bearer {control.tokens['admin']}"}
    headers |= {} if kind is None else {"Content-Type": kind}
    return control.http.post(path, content=body, headers=headers)


def problems(answer: Any) -> list[str]:
    """Code and field of each problem."""
    if answer.status_code < 400:
        return []
    return [f"{each['code']} {each.get('field', '')}".strip() for each in answer.json()["problems"]]


def submit(**changed: Any) -> str:
    return json.dumps({**GOOD, **changed})


BODIES: dict[str, str | bytes] = {
    "right": submit(),
    "right-again": submit(),
    "everything-at-once": submit(
        name=7, projectId="Not A Name", extra=1, spec={"image": 3, "compute": {"gpu": [], "largeShmRequest": "yes"}}
    ),
    "unknown-field": submit(spec={"image": "i", "imaeg": "i"}),
    "another-name-of-a-field": '{"name": "other", "project_id": "team-a", "spec": {"image": "i"}}',
    "a-key-twice": '{"name": "a1", "name": "a2", "projectId": "team-a", "spec": {"image": "i"}}',
    "an-unknown-key-twice": '{"name": "a1", "x": 1, "x": 2, "projectId": "team-a", "spec": {"image": "i"}}',
    "under-both-names": '{"name": "b", "projectId": "team-a", "project_id": "team-b", "spec": {"image": "i"}}',
    "numbers-as-text": submit(spec={"image": "i", "backoffLimit": "3"}),
    "float-for-int": submit(spec={"image": "i", "backoffLimit": 3.0}),
    "int-for-float": submit(name="int-for-float", spec={"image": "i", "compute": {"cpuCoreRequest": 3}}),
    "exponent": submit(name="exponent", spec={"image": "i", "compute": {"gpu": 5e-1}}),
    "not-a-number": '{"name": "n", "projectId": "team-a", "spec": {"image": "i", "compute": {"cpuCoreRequest": NaN}}}',
    "infinite": '{"name": "n", "projectId": "team-a", "spec": {"image": "i", "compute": {"cpuCoreRequest": 1e999}}}',
    "not-a-number-somewhere": '{"name": "nan", "projectId": "team-a", "spec": {"image": "i", '
    '"nodeAffinityRequired": {"a": NaN}}}',
    "a-very-long-number": '{"name": "n", "projectId": "team-a", "spec": {"image": "i", "backoffLimit": '
    + "9" * 5000
    + "}}",
    "one-that-is-too-long-for-a-machine": submit(spec={"image": "i", "backoffLimit": 2**70}),
    "booleans-as-numbers": submit(suspended=1),
    "enum": submit(name="enum", source="CLI"),
    "no-enum": submit(name="enum2", source="cli"),
    "letters-of-every-kind": submit(name="letters", commandLine='grüße \u2603 \U0001f600 \\ " \t'),
    "half-a-letter": '{"name": "h", "projectId": "team-a", "commandLine": "\\ud800", "spec": {"image": "i"}}',
    "a-zero": '{"name": "z", "projectId": "team-a", "commandLine": "a\\u0000b", "spec": {"image": "i"}}',
    "a-line-break-in-a-text": '{"name": "z", "projectId": "team-a", "commandLine": "a\nb", "spec": {"image": "i"}}',
    "with-a-mark-before-it": b"\xef\xbb\xbf" + submit(name="mark").encode(),
    "of-two-bytes-a-letter": submit(name="two-bytes").encode("utf-16"),
    "not-utf-8": b'{"name": "\xff", "projectId": "team-a", "spec": {"image": "i"}}',
    "blanks-around-it": f" \n{submit(name='blanks')} \t",
    "something-after-it": submit() + "x",
    "comma-at-the-end": '{"name": "c", "projectId": "team-a", "spec": {"image": "i"},}',
    "deep": submit(spec={"image": "i", "nodeAffinityRequired": {}})[:-3] + '"a":' * 1 + "[" * 300 + "]" * 300 + "}}}",
    "null": "null",
    "list": f"[{submit()}]",
    "text": '"text"',
    "number": "7",
    "nothing": "",
    "blank": " ",
    "half": submit()[:20],
    "empty-object": "{}",
    "spec-is-null": submit(spec=None),
    "spec-is-missing": '{"projectId": "team-a"}',
}


EXPECTED: dict[str, tuple[int, list[str]]] = {
    "right": (202, []),
    "right-again": (409, ["workload.exists name"]),
    "everything-at-once": (
        422,
        [
            "request.wrong_value name",
            "request.wrong_value projectId",
            "request.wrong_value spec.image",
            "request.wrong_value spec.compute.gpu.int",
            "request.wrong_value spec.compute.gpu.float",
            "request.wrong_value spec.compute.gpu.constrained-str",
            "request.wrong_value spec.compute.largeShmRequest",
            "request.unknown_field extra",
        ],
    ),
    "unknown-field": (422, ["request.unknown_field spec.imaeg"]),
    "another-name-of-a-field": (202, []),
    "a-key-twice": (202, []),
    "an-unknown-key-twice": (422, ["request.unknown_field x"]),
    "under-both-names": (422, ["request.unknown_field project_id"]),
    "numbers-as-text": (422, ["request.wrong_value spec.backoffLimit"]),
    "float-for-int": (422, ["request.wrong_value spec.backoffLimit"]),
    "int-for-float": (202, []),
    "exponent": (202, []),
    "not-a-number": (
        422,
        [
            "request.wrong_value spec.compute.cpuCoreRequest.int",
            "request.wrong_value spec.compute.cpuCoreRequest.float",
        ],
    ),
    "infinite": (
        422,
        [
            "request.wrong_value spec.compute.cpuCoreRequest.int",
            "request.wrong_value spec.compute.cpuCoreRequest.float",
        ],
    ),
    "not-a-number-somewhere": (422, ["spec.node_affinity spec.nodeAffinityRequired"]),
    "a-very-long-number": (400, ["request.not_json"]),
    "one-that-is-too-long-for-a-machine": (422, ["request.wrong_value spec.backoffLimit"]),
    "booleans-as-numbers": (422, ["request.wrong_value suspended"]),
    "enum": (202, []),
    "no-enum": (422, ["request.wrong_value source"]),
    "letters-of-every-kind": (202, []),
    "half-a-letter": (400, ["request.not_json"]),
    "a-zero": (422, ["request.reserved_characters"]),
    "a-line-break-in-a-text": (400, ["request.not_json"]),
    "with-a-mark-before-it": (202, []),
    "of-two-bytes-a-letter": (400, ["request.not_json"]),
    "not-utf-8": (400, ["request.not_json"]),
    "blanks-around-it": (202, []),
    "something-after-it": (400, ["request.not_json"]),
    "comma-at-the-end": (400, ["request.not_json"]),
    "deep": (400, ["request.not_json"]),
    "null": (422, ["request.wrong_value"]),
    "list": (422, ["request.wrong_value"]),
    "text": (422, ["request.wrong_value"]),
    "number": (422, ["request.wrong_value"]),
    "nothing": (422, ["request.missing_field"]),
    "blank": (400, ["request.not_json"]),
    "half": (400, ["request.not_json"]),
    "empty-object": (422, ["request.missing_field projectId", "request.missing_field spec"]),
    "spec-is-null": (422, ["request.wrong_value spec"]),
    "spec-is-missing": (422, ["request.missing_field spec"]),
}


@pytest.mark.parametrize("name", BODIES)
def test_everything_wrong_with_a_body_is_reported(control: ControlPlane, name: str) -> None:
    if name == "right-again":
        sent(control, TRAININGS, BODIES[name])
    answer = sent(control, TRAININGS, BODIES[name])
    status, found = EXPECTED[name]
    assert (answer.status_code, problems(answer)) == (status, found), answer.text


def test_a_name_that_is_too_long_is_refused_with_the_figure(control: ControlPlane) -> None:
    answer = sent(control, PROJECTS, f'{{"name": "{"a" * 58}"}}')
    [problem] = answer.json()["problems"]
    assert (problem["what"], problem["fix"]) == ("name has more than 57 characters", "use at most 57 characters")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        *((kind, 422) for kind in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.me+json")),
        *((kind, 415) for kind in ("application/jsonp", "text/plain", "application/x-www-form-urlencoded", "json")),
        *((kind, 415) for kind in ("multipart/form-data", "a/b; c", "", None)),
    ],
)
def test_a_body_must_be_declared_as_json(control: ControlPlane, kind: str | None, status: int) -> None:
    answer = sent(control, PROJECTS, '{"name": "B A D"}', kind)
    assert answer.status_code == status
    if status == 415:
        assert codes(answer) == ["request.not_json"]


@pytest.mark.parametrize(
    ("query", "status", "found"),
    [
        *((query, 200, []) for query in ("limit=1", "limit=+1", "limit=x&limit=2", "sortOrder=desc", "filterBy=")),
        *((query, 200, []) for query in ("filter_by=none==1", "deleted=yes", "search=%FF", "unknown=1", "&&", "=")),
        *((query, 422, ["request.wrong_value limit"]) for query in ("limit=0", "limit=501", "limit=abc", "limit")),
        ("offset=-1&limit=x", 422, ["request.wrong_value offset", "request.wrong_value limit"]),
        ("sortOrder=up", 422, ["request.wrong_value sortOrder"]),
        ("deleted=maybe", 422, ["request.wrong_value deleted"]),
        ("filterBy=" + "x" * 5000, 422, ["request.wrong_value filterBy"]),
        ("search=" + "s" * 300, 422, ["request.wrong_value search"]),
    ],
)
def test_everything_wrong_with_parameters_is_reported(
    control: ControlPlane, query: str, status: int, found: list[str]
) -> None:
    answer = control.call("GET", f"{LIST}?{query}")
    assert (answer.status_code, problems(answer)) == (status, found), answer.text


def test_body_and_parameters_are_reported_together(control: ControlPlane) -> None:
    answer = sent(control, f"{TRAININGS}?dryRun=maybe", submit(name=7))
    assert problems(answer) == ["request.wrong_value dryRun", "request.wrong_value name"]
    assert problems(sent(control, f"{TRAININGS}?dryRun=maybe", "")) == [
        "request.wrong_value dryRun",
        "request.missing_field",
    ]


def test_who_may_not_is_told_so_whatever_the_body_is(control: ControlPlane) -> None:
    for body in ('{"name": "team-b"}', '{"name": 7}', "no JSON"):
        headers = {"Authorization": f"Bearer {control.tokens['ann']}", "Content-Type": "application/json"}
        assert control.http.post("/api/v1/users", content=body, headers=headers).status_code == 403


# --- while a body is on its way ------------------------------------------------------------------------------


def asked_slowly(control: ControlPlane, token: str, meanwhile: Any, body: bytes) -> int:
    """The status of a request whose body comes late."""
    said: list[Any] = []

    async def receive() -> Any:
        meanwhile()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    headers = {"host": "127.0.0.1:8080", "authorization": f"Bearer {token}", "content-type": "application/json"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/authorization/permitted-scopes",
        "raw_path": b"/api/v1/authorization/permitted-scopes",
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 7),
    }

    async def ask() -> None:
        await control.app(scope, receive, send)

    assert control.http.portal is not None
    control.http.portal.call(ask)
    return int(said[0]["status"])


@pytest.mark.slow
@of_sqlite  # on whose connection the test writes while a request is under way
def test_a_token_that_is_revoked_while_the_body_is_on_its_way_is_none(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a")
        control.researcher("ann", "team-a")
        body = b'{"permission": "workload.read"}'
        assert asked_slowly(control, control.tokens["ann"], lambda: None, body) == 200

        def gone() -> None:
            control.app.state.plane.callers.forget(digest_of(control.tokens["ann"]))
            connection = control.app.state.plane.database._writing
            connection.exec_driver_sql("DELETE FROM tokens WHERE subject_type = 'user'")

        assert asked_slowly(control, control.tokens["ann"], gone, body) == 401
