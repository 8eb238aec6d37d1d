"""Names that only those may read who may see the project they belong to."""

from __future__ import annotations

import json

import pytest

from fairpool.control import discretion
from fairpool.control.plane import Places
from fairpool.model.ids import GroupId, NodeName, PodId, QueueId
from fairpool.model.mentions import MARK, WORK_OF_ANOTHER, anonymous, in_full, mention, redacted
from fairpool.model.organization import department_queue
from fairpool.scheduler.decision import Evict, EvictionReason, QueueFigures
from fairpool.scheduler.explain import explain_eviction, names_for
from fairpool.scheduler.policy import Pass

WINNER = mention("speech", "train-1", "work of another project")
TEXT = f"for {WINNER}: {mention('speech', 'speech', 'another project')} needs 4 within its quota"


def test_each_reader_gets_the_words_that_are_meant_for_them() -> None:
    assert in_full(TEXT) == "for train-1: speech needs 4 within its quota"
    assert anonymous(TEXT) == "for work of another project: another project needs 4 within its quota"
    assert redacted(TEXT, lambda project: project == "speech") == in_full(TEXT)
    assert redacted(TEXT, lambda project: project == "vision") == anonymous(TEXT)


def test_a_text_without_mentions_stays_as_it_is() -> None:
    assert anonymous("waits for 4 GPUs") == "waits for 4 GPUs"


@pytest.mark.parametrize(
    "hostile",
    ["\ue000", "\ue000a\ue001b", '\ue000a\ue001"\ue001c\ue002', "\ue000a\ue001\\\ue001c\ue002", "\ue002\ue001\ue000"],
)
def test_marks_that_a_pod_wrote_never_break_the_json_around_them(hostile: str) -> None:
    document = json.dumps({"one": hostile, "two": TEXT}, ensure_ascii=False)
    for reported in (in_full(document), anonymous(document)):
        assert set(json.loads(reported)) == {"one", "two"}


def test_an_eviction_names_the_winner_and_its_project_only_to_those_who_may_see_them() -> None:
    taken = QueueFigures(QueueId("vision"), 4000, 4000, 8000)
    gaining = QueueFigures(QueueId("speech"), 4000, 4000, 0)
    reason = EvictionReason(Pass.RECLAIM, GroupId("g"), taken, gaining, 4000)
    evict = Evict(PodId("p"), GroupId("v"), NodeName("n1"), reason)
    said = explain_eviction(evict, WINNER, names_for(QueueId("vision")))
    assert anonymous(said) == (
        "for work of another project: vision is 4 GPUs over its quota of 4, another project needs 4 within its quota"
    )
    assert in_full(said) == explain_eviction(evict, "train-1")


def test_departments_are_named_to_all_users() -> None:
    called = names_for(QueueId("vision"))
    assert called(department_queue("research")) == "department research"
    assert called(QueueId("vision")) == "vision"


def test_bytes_that_are_not_text_stay_as_they_are() -> None:
    """In a compressed answer of 300 kB, the bytes of a mark are found once in sixty times."""
    packed = b"\x1f\x8b" + MARK.encode() + bytes(range(256))
    assert discretion.redacted(packed, None, {}) == packed
    assert discretion.redacted(packed, Places((), ()), {}) == packed
    text = packed + mention("team-b", "big", WORK_OF_ANOTHER).encode()
    assert discretion.redacted(text, Places((), ()), {}) == packed + WORK_OF_ANOTHER.encode()
