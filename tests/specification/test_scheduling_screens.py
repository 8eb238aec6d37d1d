"""What the commands print of decisions, shares and waits: on 80 columns, and whole where nothing limits the width."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairpool.api.record import parse_object
from fairpool.cli.adm.decisions import decision_columns
from fairpool.cli.adm.shares import share_columns
from fairpool.cli.runai.reasons import change_text, start_text
from fairpool.cli.screen import Screen

DECISION = {
    "id": "c/7",
    "at": "2026-11-17T10:00:00.000Z",
    "kind": "taken-back",
    "projectId": "team-a",
    "workloadName": "a-sweep-with-a-rather-long-name",
    "gpus": 3.0,
    "lentGpus": 0.0,
    "nodes": ["dgx1-1"],
    "message": "is stopped on dgx1-1 with 3 GPUs: for b1: team-a is 3 GPUs over its quota of 4, team-b needs 4",
}
SHARE = {
    "name": "team-a",
    "kind": "project",
    "nodePool": "default",
    "quota": 4.0,
    "fairShare": 4.5,
    "allocated": 7.0,
    "overQuota": 3.0,
    "waiting": 0.5,
    "lent": 0.0,
    "lentTo": [],
    "borrowedFrom": [{"name": "team-b", "gpus": 2.0}, {"gpus": 1.0}],
}


def record(fields: dict[str, Any]) -> Any:
    return parse_object(json.dumps(fields).encode())


def drawn(columns: Any, fields: dict[str, Any], width: int | None) -> list[str]:
    screen = Screen(width=width)
    screen.draw([column for column in columns if not column.wide], [record(fields)])
    return screen.lines


def test_a_decision_fits_on_80_columns() -> None:
    lines = drawn(decision_columns(), DECISION, 80)
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "taken-back" in text
    assert "team-a" in text


def test_in_a_pipe_nothing_of_a_decision_is_left_out() -> None:
    heading, line = drawn(decision_columns(), DECISION, None)[:2]
    assert heading.split() == ["TIME", "DECISION", "PROJECT", "JOB", "GPUS", "WHY"]
    assert line.endswith(DECISION["message"])  # type: ignore[arg-type]


def test_shares_fit_on_80_columns_and_name_lenders() -> None:
    lines = drawn(share_columns(), SHARE, 80)
    assert max(map(len, lines)) <= 80
    wide = {column.heading: column.cell(record(SHARE)) for column in share_columns()}
    assert wide["BORROWED FROM"] == "team-b 2, others 1"
    assert wide["LENT TO"] == "-"
    assert wide["LIMIT"] == "unlimited"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"message": "stop b1, which holds 4 GPUs", "by": "user", "effect": "starts"},
            "- stop b1, which holds 4 GPUs: it starts",
        ),
        (
            {"message": "raise it", "by": "administrator", "effect": "starts-after-preemption", "victims": 1},
            "- raise it (administrator): it starts, and stops 1 pod",
        ),
        ({"message": "ask for less: no gain", "by": "user", "effect": "no-gain"}, "- ask for less: no gain"),
    ],
)
def test_a_change_says_what_it_gains_and_who_can_make_it(change: dict[str, Any], text: str) -> None:
    assert change_text(record(change)) == text


def test_an_expected_start_says_what_it_follows_from() -> None:
    assert start_text(None).startswith("Expected start: not known")
    limit = {"expectedAt": "2099-01-01T00:00:00Z", "latestAt": "2099-01-01T00:00:00Z", "basis": ["time-limit"]}
    assert start_text(record(limit)).endswith("or sooner; from the time limits of running jobs.")
    progress = {"expectedAt": "2099-01-01T00:00:00Z", "latestAt": "2099-01-02T00:00:00Z", "basis": ["progress"]}
    said = start_text(
        record({**progress, "first": {"madeAt": "2026-01-01T00:00:00Z", "expectedAt": "2098-01-01T00:00:00Z"}})
    )
    assert "at the latest 2099-01-02" in said
    assert "It was 2098-01-01" in said
