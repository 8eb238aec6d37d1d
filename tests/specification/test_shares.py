"""Shares of projects and departments, and who lends to whom: every sum agrees exactly."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fairpool.cluster.pool_shares import pool_shares
from fairpool.model.ids import QueueId
from fairpool.model.lending import Lending, QueueHolding, apportioned, lending
from fairpool.model.quantity import UNLIMITED
from fairpool.replay.example import example_snapshot
from fairpool.scheduler.plan import plan

A, B, C, D = (QueueId(each) for each in "abcd")


def lent(capacity: int, **queues: tuple[int, int]) -> Lending:
    return lending(capacity, {QueueId(name): QueueHolding(*each) for name, each in queues.items()})


def test_unused_quota_is_lent_in_proportion() -> None:
    found = lent(12_000, a=(4000, 1000), b=(4000, 3000), c=(4000, 8000))
    assert found.loans == {(A, C): 3000, (B, C): 1000}
    assert found.from_unassigned_milli == 0


def test_gpus_in_no_quota_are_borrowed_first() -> None:
    found = lent(12_000, a=(4000, 1000), b=(4000, 7000))
    assert found.loans == {}
    assert found.unassigned == {B: 3000}
    more = lent(12_000, a=(4000, 1000), b=(4000, 9000))
    assert (more.loans, more.unassigned) == ({(A, B): 1000}, {B: 4000})


def test_each_borrower_has_the_same_part_of_what_each_lends() -> None:
    found = lent(16_000, a=(4000, 0), b=(8000, 4000), c=(2000, 6000), d=(2000, 6000))
    assert found.loans == {(A, C): 2000, (A, D): 2000, (B, C): 2000, (B, D): 2000}


def test_an_unlimited_quota_neither_lends_nor_borrows() -> None:
    found = lent(8000, a=(UNLIMITED, 6000), b=(2000, 2000))
    assert (found.loans, found.from_unassigned_milli) == ({}, 0)


def test_what_does_not_divide_goes_to_the_largest_remainder() -> None:
    assert apportioned(2, [1, 1, 1]) == [1, 1, 0]
    assert apportioned(5, [0, 0]) == [0, 0]


AMOUNT = st.integers(0, 20_000)


@given(
    st.integers(0, 100_000),
    st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(AMOUNT | st.just(UNLIMITED), AMOUNT), max_size=8),
)
def test_rows_and_columns_add_up_exactly(spare: int, queues: dict[str, tuple[int, int]]) -> None:
    holdings = {QueueId(name): QueueHolding(*each) for name, each in queues.items()}
    capacity = sum(each.held_milli for each in holdings.values()) + spare
    found = lending(capacity, holdings)
    gives, takes = Counter[QueueId](), Counter[QueueId](found.unassigned)
    for (lender, borrower), amount in found.loans.items():
        assert amount > 0
        gives[lender] += amount
        takes[borrower] += amount
    for name, each in holdings.items():
        assert takes[name] == each.over_milli
        assert gives[name] == sum(found.lent_to(name).values()) <= each.unused_milli
        assert each.in_quota_milli + each.over_milli == each.held_milli
    assert sum(found.unassigned.values()) == found.from_unassigned_milli


def test_figures_of_a_pool_agree_with_the_plan_and_with_each_other() -> None:
    snapshot = example_snapshot()
    planned = plan(snapshot)
    found = pool_shares(snapshot, planned)
    projects = {each.queue: each for each in found.projects}
    departments = {each.queue: each for each in found.departments}
    assert set(projects) == {"vision", "speech", "language"}
    assert set(departments) == {"research", "product"}
    assert found.capacity_milli == 16_000
    assert found.out_of_service_milli == 4000, "gpu-4 is cordoned"
    assert found.allocated_milli == sum(each.allocated_milli for each in found.projects)
    assert found.free_milli == found.capacity_milli - found.allocated_milli
    withheld = found.model_copy(update={"capacity_milli": found.allocated_milli - 1000})
    assert withheld.free_milli == 0, "a GPU is withheld, and its pod still runs"
    for level in (found.projects, found.departments):
        lends = sum(sum(each.lent_to.values()) for each in level)
        assert lends == sum(sum(each.borrowed_from.values()) for each in level)
        for each in level:
            assert each.over_quota_milli == sum(each.borrowed_from.values()) + each.from_unassigned_milli
    research = departments["research"]
    assert research.waiting_milli == projects["vision"].waiting_milli + projects["speech"].waiting_milli
    assert projects["language"].promised_milli == 4000, "it takes its quota back"
    assert projects["vision"].leaving_milli > 0
    fair = {each.queue: each.fair_share_milli for each in planned.queues}
    assert all(each.fair_share_milli == fair[QueueId(each.queue)] for each in found.projects)
