"""How long those who leave have. The table is the specification."""

from __future__ import annotations

import pytest

from fairpool.cluster.notice import noticed, to_stop
from fairpool.model.ids import PodId
from fairpool.model.life import Cause
from fairpool.model.organization import GraceRules
from fairpool.model.spec import Want
from tests.lives import BOUND, RELEASING, RUNNING, cells, life, spec

RULES = GraceRules(most_s=3600, eviction_s=60)

WHO_HAS_HOW_LONG = """
| leaves because it is | asked 0 | asked 30 | asked 60 | asked 600 | asked 315360000 |
|----------------------|---------|----------|----------|-----------|-----------------|
| preempted            | 0       | 30       | 60       | 60        | 60              |
| moved                | 0       | 30       | 60       | 60        | 60              |
| stale                | 0       | 30       | 60       | 60        | 60              |
| unwanted             | 0       | 30       | 60       | 60        | 60              |
| node-lost            | 0       | 30       | 60       | 60        | 60              |
| vanished             | 0       | 30       | 60       | 60        | 60              |
| suspended            | 0       | 30       | 60       | 600       | 3600            |
| deleted              | 0       | 30       | 60       | 600       | 3600            |
| node-drained         | 0       | 30       | 60       | 600       | 3600            |
| peer                 | 0       | 30       | 60       | 600       | 3600            |
| finished             | 0       | 30       | 60       | 600       | 3600            |
| scaled-down          | 0       | 30       | 60       | 600       | 3600            |
| time-limit           | 0       | 30       | 60       | 600       | 3600            |
| deadline             | 0       | 30       | 60       | 600       | 3600            |
"""


@pytest.mark.parametrize(("cause", "asked", "given_s"), list(cells(WHO_HAS_HOW_LONG)))
def test_who_has_how_long(cause: str, asked: str, given_s: str) -> None:
    leaving = life("a-0-0", RELEASING, on="n1", cause=Cause(cause), grace_s=int(asked.split()[1]))
    (after,) = noticed((leaving,), spec(), RULES, {})
    assert after.grace_s == int(given_s)
    assert (after is leaving) == (after.grace_s == leaving.grace_s)


def test_who_stays_keeps_what_it_asked_for() -> None:
    lives = (life("a-0-0", BOUND, on="n1", grace_s=9999), life("a-1-0", RUNNING, on="n1", grace_s=9999))
    assert noticed(lives, spec(), RULES, {}) == lives


def test_an_administrator_may_choose_otherwise() -> None:
    leaving = life("a-0-0", RELEASING, on="n1", cause=Cause.PREEMPTED, grace_s=600)
    for rules, given_s in ((GraceRules(most_s=20, eviction_s=60), 20), (GraceRules(most_s=3600, eviction_s=300), 300)):
        (after,) = noticed((leaving,), spec(), rules, {})
        assert after.grace_s == given_s


def test_the_rest_of_a_gang_leaves_as_fast_as_the_pod_that_is_evicted() -> None:
    evicted = life("a-0-0", RELEASING, on="n1", cause=Cause.PREEMPTED, grace_s=600)
    peer = life("a-1-0", RELEASING, on="n2", cause=Cause.PEER, grace_s=600)
    assert [each.grace_s for each in noticed((evicted, peer), spec(pods=2), RULES, {})] == [60, 60]


def test_the_rest_of_a_gang_has_as_long_as_the_pod_whose_node_is_drained() -> None:
    drained = life("a-0-0", RELEASING, on="n1", cause=Cause.NODE_DRAINED, grace_s=600)
    peer = life("a-1-0", RELEASING, on="n2", cause=Cause.PEER, grace_s=600)
    assert [each.grace_s for each in noticed((drained, peer), spec(pods=2), RULES, {})] == [600, 600]


@pytest.mark.parametrize("detail", ["", "somebody suspended it"])
def test_one_that_leaves_in_its_own_time_has_less_once_its_place_is_owed_to_others(detail: str) -> None:
    leaving = life("a-0-0", RELEASING, on="n1", cause=Cause.SUSPENDED, grace_s=3600, detail=detail)
    owed = {PodId("a-0-0"): "its place is owed to another project"}
    (after,) = noticed((leaving,), spec(want=Want.STOP), RULES, owed)
    assert (after.grace_s, after.cause) == (60, Cause.SUSPENDED)
    assert after.detail == "; ".join(filter(None, [detail, "its place is owed to another project"]))
    assert noticed((after,), spec(want=Want.STOP), RULES, owed)[0] is after, "it is said once"
    assert noticed((after,), spec(want=Want.STOP), RULES, {})[0] is after, "and not taken back"


def test_a_forced_delete_leaves_no_grace_to_who_leaves_already() -> None:
    leaving = life("a-0-0", RELEASING, on="n1", cause=Cause.SUSPENDED, grace_s=3600)
    (after,) = noticed((leaving,), spec(want=Want.DELETE, grace_s=0), RULES, {})
    assert after.grace_s == 0


def test_another_grace_in_the_declaration_does_not_hurry_what_is_not_deleted() -> None:
    leaving = life("a-0-0", RELEASING, on="n1", cause=Cause.SCALED_DOWN, grace_s=600)
    assert noticed((leaving,), spec(grace_s=5), RULES, {}) == (leaving,)


@pytest.mark.parametrize(("grace_s", "words"), [(60, "it has at most 60 s to stop"), (0, "killed without notice")])
def test_people_are_told_how_long(grace_s: int, words: str) -> None:
    assert to_stop(grace_s) == words
