"""The short way to a handler: it leads to the same one, with the same arguments, and says no in the same words."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from fairpool.control.app import create_app
from fairpool.control.lean_route import LeanRoute, asked_by
from fairpool.control.settings import Settings
from fairpool.control.signpost import Signpost
from tests.control.house import House, codes, house

TRAININGS, LIST = "/api/v1/workloads/trainings", "/api/v1/workloads"
PROJECTS, RULES = "/api/v1/org-unit/projects", "/api/v1/authorization/access-rules"
GOOD = {"name": "t", "projectId": "team-a", "spec": {"image": "i", "compute": {"gpu": "0.5"}}}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


# --- the way -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    return create_app(Settings(data=tmp_path_factory.mktemp("data")))


def searched(patterns: list[tuple[Any, Any]], path: str) -> tuple[Any, dict[str, str]] | None:
    """As the framework searches: the first whose pattern fits."""
    found = ((route, fits) for route, pattern in patterns if (fits := pattern.match(path)) is not None)
    return next(((route, fits.groupdict()) for route, fits in found), None)


@pytest.mark.slow
def test_every_path_leads_where_the_framework_would_lead(app: FastAPI) -> None:
    """Also those that could be two: `count` may be an id, `trainings` a workload with events."""
    signpost, contexts = Signpost(app), [each for each in iter_route_contexts(app.routes) if each.methods]
    patterns = {
        method: [(each.original_route, each.path_regex) for each in contexts if method in (each.methods or ())]
        for method in METHODS
    }
    paths = {str(context.path) for context in contexts}
    literal = sorted({word for path in paths for word in path.split("/") if word and "{" not in word})
    tried = 0
    for path in sorted(paths):
        holes = re.findall(r"\{\w+\}", path)
        for chosen in itertools.product(["x", "", *literal], repeat=len(holes)) if len(holes) < 2 else [("x",) * 2]:
            filled = path
            for hole, word in zip(holes, chosen, strict=True):
                filled = filled.replace(hole, word, 1)
            for variant, method in itertools.product((filled, f"{filled}/", f"{filled}/more"), METHODS):
                way, words = signpost.way(method, variant.split("/")), variant.split("/")
                found = way and (way.route, {name: words[place] for place, name in way.parameters})
                assert found == searched(patterns[method], variant), (method, variant)
                tried += 1
    assert tried > 40_000


def test_where_a_route_is_not_of_plain_words_the_framework_is_asked() -> None:
    app = FastAPI(openapi_url=None)

    async def nothing() -> None: ...

    for path in ("/a/{one}", "/b/{rest:path}", "/b/{one}/c", "/c"):
        app.add_api_route(path, nothing)
    signpost = Signpost(app)
    assert signpost.way("GET", ["", "a", "x"]) is not None
    assert [signpost.way("GET", path.split("/")) for path in ("/b/x", "/b/x/c", "/c")] == [None, None, None]


def test_most_routes_are_lean_and_those_that_are_asked_most(app: FastAPI) -> None:
    routes = [each.original_route for each in iter_route_contexts(app.routes) if each.methods]
    lean = {route.path for route in routes if isinstance(route, LeanRoute) and asked_by(route) is not None}
    assert {LIST, f"{LIST}/count", f"{LIST}/{{workload_id}}", TRAININGS, "/api/v1/cluster/push"} <= lean
    assert len(lean) > 70


# --- the same answers ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def houses() -> Iterator[tuple[House, House]]:
    """Two that hear the same: one as it is, one in which the framework does everything."""
    with ExitStack() as stack:
        ours = stack.enter_context(house())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LeanRoute, "get_route_handler", APIRoute.get_route_handler)
            theirs = stack.enter_context(house())
            theirs.app.router.middleware_stack = theirs.app.router.app
            assert theirs.call("GET", LIST).status_code == 200  # it makes its handlers when it is first asked
        for home in (ours, theirs):
            home.project("team-a")
            home.clock.turn(1)
            home.researcher("ann", "team-a")
            home.train("there")
        yield ours, theirs


def told(home: House, method: str, path: str, by: str, **said: Any) -> tuple[int, str, str | None, str]:
    """Everything about an answer except what is different each time."""
    headers = {"Authorization": f"Bearer {home.tokens[by]}"} if by else {}
    headers |= said.pop("headers", {})
    home.clock.turn(1)  # so that lists have one order
    answer = home.http.request(method, path, headers=headers, follow_redirects=False, **said)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", answer.text)
    return answer.status_code, answer.headers.get("content-type", ""), answer.headers.get("etag"), text


def same(houses: tuple[House, House], method: str, path: str, by: str = "admin", **said: Any) -> int:
    ours, theirs = (told(home, method, path, by, **said) for home in houses)
    assert ours == theirs
    return ours[0]


def as_json(text: str | bytes, kind: str | None = "application/json") -> dict[str, Any]:
    return {"content": text, "headers": {} if kind is None else {"Content-Type": kind}}


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


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_understood_as_the_framework_understands_it(houses: tuple[House, House], name: str) -> None:
    same(houses, "POST", TRAININGS, **as_json(BODIES[name]))


def test_some_of_those_bodies_are_right_and_some_are_not(houses: tuple[House, House]) -> None:
    statuses = [houses[0].call("POST", TRAININGS, {**GOOD, "name": name}).status_code for name in ("one", "One", "one")]
    assert statuses == [202, 422, 409]
    houses[1].call("POST", TRAININGS, {**GOOD, "name": "one"})  # they keep hearing the same
    wrong = houses[0].http.post(
        TRAININGS,
        content=BODIES["everything-at-once"],
        headers={"Authorization": f"Bearer {houses[0].tokens['admin']}", "Content-Type": "application/json"},
    )
    assert wrong.status_code == 422
    assert len(codes(wrong)) >= 6, "all that is wrong is told at once"


@pytest.mark.parametrize(
    "kind",
    [
        *("application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.fairpool+json", "application/jsonp"),
        *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", None, "json", "a/b; c"),
    ],
)
def test_what_a_body_is_said_to_be_counts(houses: tuple[House, House], kind: str | None) -> None:
    same(houses, "POST", TRAININGS, **as_json(submit(), kind))
    same(houses, "POST", PROJECTS, **as_json('{"name": "B A D"}', kind))


QUERIES = [
    *("limit=1", "limit=0", "limit=501", "limit=abc", "limit=1.0", "limit=+1", "limit=%201", "limit=", "limit"),
    *("limit=1&limit=2", "offset=-1", "offset=1&limit=x&sortOrder=up", "sortOrder=desc", "sortOrder=up", "sortOrder="),
    *("filterBy=", "filterBy=phase==Creating", "filterBy=nothing==1&sortBy=nothing", "filterBy=" + "x" * 5000),
    *("filter_by=phase==Creating", "sort_by=name", "deleted=true", "deleted=1", "deleted=yes", "deleted=maybe"),
    *("search=th%65re", "search=%FF", "search=a+b", "search=" + "s" * 300, "unknown=1", "&&", "=", "limit=1;offset=2"),
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("path", [LIST, f"{LIST}/count", f"{LIST}/nothing/events"])
def test_parameters_are_understood_as_the_framework_understands_them(
    houses: tuple[House, House], path: str, query: str
) -> None:
    same(houses, "GET", f"{path}?{query}")


@pytest.mark.parametrize("by", ["admin", "ann", ""])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(
            ("GET", f"{LIST}{end}")
            for end in ("", "/", "/count", "/count/", "/none", "/n%2Fe", "/%0A", "/%FF", "//", "/count%0A")
        ),
        *(("GET", f"{LIST}/{kind}/none") for kind in ("trainings", "inferences", "nothing")),
        *(("GET", f"{LIST}/none/{noun}") for noun in ("events", "pods", "history", "nothing")),
        *(("HEAD", LIST), ("OPTIONS", LIST), ("DELETE", LIST), ("POST", LIST), ("PUT", TRAININGS), ("GET", "/")),
        *(("POST", f"{LIST}/none/suspend"), ("DELETE", f"{LIST}/none"), ("GET", "/api/v1/me"), ("GET", RULES)),
        *(("GET", "/researcher/api/v1/projects"), ("GET", "/v1/k8s/users/roles"), ("GET", f"{PROJECTS}/team-a")),
        *(
            ("GET", "/v1/k8s/clusters/local/projects/team-a"),
            ("GET", "/api/v1/audit/log?start=x"),
            ("GET", "/api/v1/workload-priorities"),
        ),
        *(("POST", RULES), ("POST", f"{LIST}/batch"), ("PATCH", f"{LIST}/inferences/none")),
    ],
)
def test_every_path_is_answered_as_the_framework_answers_it(
    houses: tuple[House, House], method: str, path: str, by: str
) -> None:
    same(houses, method, path, by)


def test_who_may_not_is_told_so_whatever_the_body_is(houses: tuple[House, House]) -> None:
    ours = houses[0]
    for body in ('{"name": "team-b"}', '{"name": 7}', "no JSON"):
        headers = {"Authorization": f"Bearer {ours.tokens['ann']}", "Content-Type": "application/json"}
        assert ours.http.post("/api/v1/users", content=body, headers=headers).status_code == 403


# --- while a body is on its way ------------------------------------------------------------------------------


def asked_slowly(home: House, token: str, meanwhile: Any, body: bytes) -> int:
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
        await home.app(scope, receive, send)

    assert home.http.portal is not None
    home.http.portal.call(ask)
    return int(said[0]["status"])


@pytest.mark.slow
def test_a_token_that_is_revoked_while_the_body_is_on_its_way_is_none(tmp_path: Path) -> None:
    with house(tmp_path) as home:
        home.project("team-a")
        home.researcher("ann", "team-a")
        body = b'{"permission": "workload.read"}'
        assert asked_slowly(home, home.tokens["ann"], lambda: None, body) == 200

        def gone() -> None:
            home.app.state.plane.callers.clear()
            connection = home.app.state.plane.database._writing
            connection.exec_driver_sql("DELETE FROM tokens WHERE subject_type = 'user'")

        assert asked_slowly(home, home.tokens["ann"], gone, body) == 401
