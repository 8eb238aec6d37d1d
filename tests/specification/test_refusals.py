"""The words of refusals."""

from __future__ import annotations

import pytest

from fairpool.control.refusal import unknown


@pytest.mark.parametrize(
    ("noun", "code", "fix"),
    [
        ("user", "user.unknown", "look at the list of users"),
        ("category", "category.unknown", "look at the list of categories"),
        ("workload type", "workload-type.unknown", "look at the list of workload types"),
        ("network topology", "network-topology.unknown", "look at the list of network topologies"),
        ("access key", "access-key.unknown", "look at the list of access keys"),
    ],
)
def test_what_is_said_about_a_thing_that_does_not_exist(noun: str, code: str, fix: str) -> None:
    (problem,) = unknown(noun, "x").problems
    assert (problem.code, problem.what, problem.fix) == (code, f"there is no {noun} 'x'", fix)
