"""Fuzzing of every route by callers with every role: no bug is met, every answer is as documented, and nothing of
another department is seen.

Each route is tried with a request of the generator, with mutations of it, and with mutations of its documented example,
each time by the next caller. `python -m tests.fuzz` does the same for as long as wanted.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.control.asgi import AsgiAnswer
from tests.control.two_scopes import two_scopes
from tests.fuzz.cases import FuzzCase, Mutator, generated
from tests.fuzz.judge import document, fault
from tests.fuzz.world import FuzzedWorld

pytestmark = pytest.mark.slow

MUTATIONS = 3


def test_nothing_that_is_sent_meets_a_bug() -> None:
    random = Random(0)
    mutator = Mutator(random)
    made = generated(document(), 0, 1)
    with two_scopes() as scopes:
        world = FuzzedWorld(scopes)
        random.shuffle(world.callers)
        examples = world.examples()
        bodies = [case.body for case in examples if case.body]

        async def send(case: FuzzCase, is_changed: bool) -> None:
            caller = world.callers[world.sent % len(world.callers)]
            places = world.places(case.path, caller)
            await world.send(mutator.mutated(case, places, bodies) if is_changed else case, caller)

        async def send_all() -> None:
            for case in [each for some in made.values() for each in some]:
                await send(case, is_changed=False)
                for _ in range(MUTATIONS):
                    await send(case, is_changed=True)
            for case in examples * MUTATIONS:
                await send(case, is_changed=True)

        assert scopes.control.http.portal is not None
        scopes.control.http.portal.call(send_all)
    assert not world.faults, "\n\n".join(world.faults.values())
    assert world.sent > 7 * len(examples) * 0.9
    assert world.statuses[200] > world.sent * 0.1, world.statuses


def test_an_answer_that_is_not_as_documented_is_a_fault() -> None:
    def of(status: int, text: str, kind: str = "application/json", *, may_know: bool = True) -> str:
        answer = AsgiAnswer(status, {"content-type": kind}, text.encode())
        return fault("GET", "/api/v1/workloads/count", answer, may_know=may_know)

    assert of(200, '{"count": 1}') == ""
    assert "schema" in of(200, '{"count": "many"}')
    assert "not documented" in of(200, "1", "text/plain")
    assert "not documented" in of(418, "{}")
    assert "500" in of(500, "{}")
    assert "another department" in of(200, '{"count": 1, "x": "never-to-be-told"}', may_know=False)
