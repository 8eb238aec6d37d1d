"""Every route, called as every built-in role about its own department and about another one; the table in the docs.

The state is the same for every call (`rolled_back`), so the order of calls does not matter. On PostgreSQL
three of the roles are tried with each route, others with the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.control.app import ROUTES
from fairpool.control.builtin_roles import BUILT_IN
from fairpool.control.openapi import openapi_document
from tests.control.asgi import AsgiAnswer
from tests.control.measured_permissions import LEFT_OUT, Cell, Outcome, measured
from tests.control.two_scopes import TwoScopes, two_scopes
from tests.postgresql import is_chosen
from tools.role_reference import SHORT

pytestmark = pytest.mark.slow

Table = dict[str, dict[str, Outcome]]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "permissions.md"
WRITE = os.environ.get("FAIRPOOL_WRITE_GOLDEN") == "1"
AS_IF_NOTHING_WERE_THERE: dict[str, Any] = {
    "GET /api/v1/workload-templates/name-availability": {"available": True},
    "GET /api/v2/policy": {"policies": []},
}
"""Answers about another department that are those about one which does not exist."""
NOT_MEASURED: frozenset[str] = frozenset()
"""Routes whose example is refused with 422 in both departments. Rather give `TwoScopes.body` a better example."""
INTRO = """# Routes and roles

Written by `tests/contracts/test_permissions.py` (`make golden`) from what the API answered: every route was called as
every built-in role, with a rule for one department, about something in that department and then about the same kind of
thing in another one; and where that was not enough, with a rule for the whole tenant. What a call writes was rolled
back afterwards, so that every call met the same state.

| cell | means |
|---|---|
| `own` | allowed in the scope of the rule; elsewhere as the second column says |
| `all` | allowed with a rule for the whole tenant only |
| `yes` | allowed, and the same for every scope: one's own account, or what belongs to no department |
| `-` | refused (403) |

Elsewhere: *hidden* is answered as if it did not exist (404, or 422 for a name in a body), *refused* is 403, and *not
listed* means that the answer has nothing of other departments in it. Short names are those of the
[roles](roles.md#built-in-roles).

- Allowed means that the call was neither refused nor hidden. Some are then answered with 409 or 422 because of the
  state of the thing (a project that has workloads is not deleted), or with 502 and 503 because no cluster and no
  registry is there in the test. A call that is answered with 422 in both departments does not count as measured; the
  test names the routes that have such a call, and there are none.
- Routes for workloads of any kind were called with a training, which the ML engineer may not change. Credentials and
  registries were those of another user; a researcher may change one's own.
- Routes without a token and those of clusters are left out, and these:
"""


@pytest.fixture(scope="module")
def world() -> Iterator[TwoScopes]:
    with two_scopes() as world:
        yield world


@pytest.fixture(scope="module")
def table(world: TwoScopes) -> Table:
    before = world.state()
    assert world.control.http.portal is not None
    found: Table = world.control.http.portal.call(measured, world, 5 if is_chosen() else 1)
    assert world.state() == before, "something was not rolled back"
    return found


def test_the_table_in_the_docs_is_what_the_api_answers(table: Table) -> None:
    if WRITE:
        PAGE.write_text(_page(table), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    rows = [line.strip("|\n").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    written = {name.strip(): (elsewhere, cells) for name, elsewhere, *cells in rows if len(cells) == len(BUILT_IN)}
    for name, row in table.items():
        elsewhere, cells = written[name]
        measured_here = {role: each.cell.value for role, each in row.items()}
        said = {role: cell.strip() for role, cell in zip(BUILT_IN, cells, strict=True) if role in row}
        assert measured_here == said, (name, "run `make golden` and review the difference")
        assert _elsewhere(name, row) <= set(elsewhere.split(", ")), name
    assert is_chosen() or text == _page(table), "run `make golden` and review the difference"
    assert set(LEFT_OUT) <= {f"{each.method} {each.path}" for each in ROUTES}


def test_no_answer_tells_of_another_department(table: Table) -> None:
    revealed = {
        (route, role): each.revealed for route, row in table.items() for role, each in row.items() if each.revealed
    }
    assert not revealed


def test_nothing_is_allowed_in_another_department(table: Table) -> None:
    allowed = [(name, role) for name, row in table.items() for role, each in row.items() if each.elsewhere == "allowed"]
    assert {name for name, _ in allowed} == set(AS_IF_NOTHING_WERE_THERE)
    for name, role in allowed:
        assert table[name][role].foreign.json() == AS_IF_NOTHING_WERE_THERE[name], (name, role)


def test_every_route_is_measured(table: Table) -> None:
    unknown = {name for name, row in table.items() for each in row.values() if each.cell is Cell.NOT_MEASURED}
    assert unknown == NOT_MEASURED


def test_a_call_that_is_wrong_in_itself_measures_nothing() -> None:
    wrong, hidden = AsgiAnswer(422), AsgiAnswer(404)
    assert (Outcome(wrong, wrong).cell, Outcome(wrong, wrong).elsewhere) == (Cell.NOT_MEASURED, "")
    assert (Outcome(wrong, hidden).cell, Outcome(wrong, hidden).elsewhere) == (Cell.OWN, "hidden")


def test_no_call_meets_a_bug(table: Table) -> None:
    for name, row in table.items():
        for role, each in row.items():
            for answer in filter(None, (each.own, each.foreign, each.everywhere)):
                assert answer.status in (502, 503) or answer.status < 500, (name, role, answer.text)


@pytest.mark.parametrize("query", ["search=far", "filterBy=name=@far"])
def test_neither_search_nor_filter_finds_what_is_elsewhere(world: TwoScopes, query: str) -> None:
    hidden, tried = world.hidden(), 0
    for path, item in openapi_document(ROUTES)["paths"].items():
        taken = {each["name"] for each in item.get("get", {}).get("parameters", ())}
        if query.partition("=")[0] not in taken or "{" in path:
            continue
        tried += 1
        for caller in ("near-administrator", "near-department-administrator", "near-researcher"):
            answer = world.control.call("GET", f"{path}?{query}", by=caller)
            assert not [word for word in hidden if word in answer.text], (path, caller, answer.text)
            if path.endswith("/count") and answer.status_code == 200:
                assert answer.json()["count"] == 0, (path, caller)
    assert tried > 5


def _page(table: Table) -> str:
    left_out = "".join(f"  - `{name}` {why}\n" for name, why in LEFT_OUT.items())
    head = f"| route | elsewhere | {' | '.join(SHORT[key] for key in BUILT_IN)} |\n|---|---|{'---|' * len(BUILT_IN)}\n"
    rows = []
    for name, row in table.items():
        elsewhere = ", ".join(sorted(_elsewhere(name, row))) or "-"
        cells = " | ".join(row[key].cell for key in BUILT_IN)
        rows.append(f"| {name} | {elsewhere} | {cells} |\n")
    return f"{INTRO}{left_out}\n{head}{''.join(rows)}"


def _elsewhere(name: str, row: dict[str, Outcome]) -> set[str]:
    found = {each.elsewhere for each in row.values()} - {""}
    return {"hidden"} if name in AS_IF_NOTHING_WERE_THERE else found
