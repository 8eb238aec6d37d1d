"""Shares: what projects and departments are owed, hold, ask for, lend and borrow, in each node pool."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fairpool.api.wire import Answer, Moment, Page


class QueueShares(Answer):
    """One queue, as its cluster answers. Amounts are thousandths of a GPU; -1 is unlimited."""

    queue: str
    parent: str | None = None
    quota_milli: int
    limit_milli: int
    weight: float
    fair_share_milli: int
    allocated_milli: int
    in_quota_milli: int
    over_quota_milli: int
    leaving_milli: int
    promised_milli: int
    waiting_milli: int
    lent_to: dict[str, int]
    borrowed_from: dict[str, int]
    from_unassigned_milli: int


class PoolShares(Answer):
    """One pool, as its cluster answers."""

    node_pool: str
    capacity_milli: int
    withheld_milli: int
    out_of_service_milli: int
    allocated_milli: int
    unowned_milli: int
    projects: list[QueueShares]
    departments: list[QueueShares]

    @property
    def free_milli(self) -> int:
        """None is free where pods still hold GPUs that are withheld, which are not in the capacity."""
        return max(0, self.capacity_milli - self.allocated_milli)


class ClusterShares(Answer):
    """All pools of a cluster at one moment."""

    taken_at: Moment
    planned_at: Moment
    pools: list[PoolShares]


# --- as users see it -----------------------------------------------------------------------------------------


class Loan(Answer):
    """GPUs lent by one project or department to another."""

    name: Annotated[str | None, Field(description="Absent: all those together that you may not see")] = None
    gpus: float


class Share(Answer):
    """A project or department in one node pool. All amounts are GPUs."""

    name: str
    kind: Literal["project", "department"]
    department: Annotated[str | None, Field(description="Of a project")] = None
    node_pool: str
    quota: Annotated[float | None, Field(description="Absent: unlimited")] = None
    fair_share: Annotated[float, Field(description="What it may have right now")]
    limit: Annotated[float | None, Field(description="What it never exceeds; absent: unlimited")] = None
    over_quota_weight: float
    allocated: Annotated[float, Field(description="Held: `inQuota` and `overQuota` together")]
    in_quota: float
    over_quota: float
    leaving: Annotated[float, Field(description="The part of `allocated` whose pods are stopping")]
    promised: Annotated[float, Field(description="Reserved for pods that start when others have stopped")]
    waiting: Annotated[float, Field(description="Requested by pods without a place")]
    asked: Annotated[float, Field(description="`allocated`, `promised` and `waiting` together")]
    lent: Annotated[float, Field(description="Of its unused quota, held by others")]
    borrowed: Annotated[float, Field(description="The same as `overQuota`: of others, and of GPUs in no quota")]
    lent_to: list[Loan]
    borrowed_from: list[Loan]
    from_unassigned: Annotated[float, Field(description="The part of `borrowed` that is in no quota")]


class PoolTotals(Answer):
    """A node pool as a whole. All amounts are GPUs."""

    node_pool: str
    capacity: Annotated[float, Field(description="All GPUs that are not withheld")]
    allocated: float
    free: Annotated[
        float, Field(description="`capacity` less `allocated`, 0 at least; also on nodes that are out of service")
    ]
    withheld: Annotated[float, Field(description="Failed, or used by processes outside Fairpool")]
    out_of_service: Annotated[float, Field(description="On nodes that are drained, cordoned or not ready")]
    unowned: Annotated[float, Field(description="Held by pods whose workload is deleted, until they have exited")]


class SharesPage(Page):
    """Projects and departments in each node pool, all at one moment."""

    cluster_id: str
    as_of: Annotated[Moment, Field(description="When the cluster answered: all of it was so then")]
    planned_at: Annotated[
        Moment, Field(description="When the scheduler last planned; what it sees has not changed since")
    ]
    count: Annotated[int, Field(description="All that fit, on this and other pages")]
    pools: Annotated[list[PoolTotals], Field(description="Empty if you may not see nodes")]
    shares: list[Share]
