"""Fuzzing of every route by callers with every role: no bug is met, every answer is as documented, and nothing of
another department is seen or changed.

Each route is tried with a request of the generator, with mutations of it, and with mutations of its documented example,
each time by the next caller. `python -m tests.fuzz` does the same for as long as wanted. Callers who belong to one
department come first: nothing in the other one may be different after that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from fairpool.api.problems import MEDIA_TYPE
from fairpool.control.refusal import refused
from tests.control.asgi import AsgiAnswer
from tests.control.two_scopes import TwoScopes, two_scopes
from tests.fuzz.cases import Mutator, generated
from tests.fuzz.judge import document, fault
from tests.fuzz.world import CLUSTER, WITHOUT_TOKEN, FuzzedWorld

pytestmark = pytest.mark.slow

MUTATIONS = 3


@pytest.fixture(scope="module")
def scopes() -> Iterator[TwoScopes]:
    with two_scopes() as scopes:
        yield scopes


def test_nothing_that_is_sent_meets_a_bug_or_changes_another_department(scopes: TwoScopes) -> None:
    random = Random(0)
    mutator, world = Mutator(random), FuzzedWorld(scopes)
    random.shuffle(world.callers)
    examples = world.examples(scopes.near)
    bodies = [case.body for case in examples if case.body]
    made = [each for some in generated(document(), 0, 1).values() for each in some]
    cases = [(case, is_changed) for case in made for is_changed in (False, *[True] * MUTATIONS)]
    cases += [(case, True) for case in examples * MUTATIONS]
    turns = [(world.callers[number % len(world.callers)], *case) for number, case in enumerate(cases)]

    async def send_about_the_far_department() -> None:
        for case in world.examples(scopes.far):
            await world.send(case, "near-administrator")

    async def send_as(callers: list[str]) -> None:
        for caller, case, is_changed in turns:
            if caller in callers:
                places = world.places(case.path, caller)
                await world.send(mutator.mutated(case, places, bodies) if is_changed else case, caller)

    assert scopes.control.http.portal is not None
    before = scopes.far_state()
    scopes.control.http.portal.call(send_about_the_far_department)
    scopes.control.http.portal.call(send_as, [*scopes.scoped, WITHOUT_TOKEN])
    after = scopes.far_state()
    assert {name: after[name] for name in after if after[name] != before[name]} == {}, "not theirs to change"
    scopes.control.http.portal.call(send_as, [*scopes.tenant, CLUSTER])
    assert not world.faults, "\n\n".join(world.faults.values())
    assert world.sent == len(turns) + len(examples)
    assert len(turns) > 7 * len(examples) * 0.9
    assert world.statuses[200] > world.sent * 0.1, world.statuses


def test_without_a_token_only_open_routes_answer_and_reveal_nothing(scopes: TwoScopes) -> None:
    world, hidden = FuzzedWorld(scopes), scopes.hidden()
    pairs = list(zip(world.examples(scopes.near), world.examples(scopes.far), strict=True))
    wrong = []

    async def send_all() -> None:
        for near, far in pairs:
            answers = [await world.send(case, WITHOUT_TOKEN) for case in (near, far)]
            is_open = document()["paths"][near.path][near.method.lower()]["x-permission"] == "open"
            said = f"{far.target} {far.body.decode()}"
            is_revealed = any(word in answers[1].text and word not in said for word in hidden)
            is_refused = all(each.status == 401 for each in answers) and answers[0].body == answers[1].body
            if is_revealed or not (is_open or is_refused):
                wrong.append((near.method, near.path, [each.text for each in answers]))

    assert scopes.control.http.portal is not None
    scopes.control.http.portal.call(send_all)
    assert not wrong
    assert not world.faults, "\n\n".join(world.faults.values())


def of(status: int, text: str, kind: str = "application/json", *, may_know: bool = True) -> str:
    answer = AsgiAnswer(status, {"content-type": kind}, text.encode())
    return fault("GET", "/api/v1/workloads/count", answer, may_know=may_know)


def test_an_answer_that_is_not_as_documented_is_a_fault() -> None:
    assert of(200, '{"count": 1}') == ""
    assert "schema" in of(200, '{"count": "many"}')
    assert "not documented" in of(200, "1", "text/plain")
    assert "not documented" in of(418, "{}")
    assert "500" in of(500, "{}")
    assert "another department" in of(200, '{"count": 1, "x": "never-to-be-told"}', may_know=False)


def test_an_error_that_is_not_a_whole_problem_document_is_a_fault() -> None:
    refusal = json.loads(bytes(refused(404, "project.unknown", "there is no project 'x'").response().body))

    def changed(**fields: Any) -> str:
        return of(404, json.dumps({**refusal, **fields}), MEDIA_TYPE)

    assert changed() == ""
    assert "without a body" in of(404, "", MEDIA_TYPE)
    assert "not JSON" in of(404, "no", MEDIA_TYPE)
    assert "content type" in of(404, json.dumps(refusal))
    assert "status" in changed(status=403)
    assert "title" in changed(title="Gone")
    assert "schema" in changed(problems=[{"what": "a problem without a code"}])
    for name, empty in {"detail": "", "message": "", "problems": []}.items():
        assert f"no {name}" in changed(**{name: empty})
