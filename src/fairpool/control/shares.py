"""HTTP route for shares: what projects and departments are owed, hold, ask for, lend and borrow.

Answered by the cluster from one snapshot and its plan, so that all figures agree. Of projects that the caller may not
see there is neither a row nor a name; what they lend and borrow is one sum in the rows of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated

from starlette.responses import Response

from fairpool.api import shares as wire
from fairpool.api.questions import SharesQuestion
from fairpool.control.organization import cluster_of
from fairpool.control.paging import Field, ListQuery, filtered, gpus_field, page, text_field
from fairpool.control.plane import ActionResult, Caller, Plane, answered
from fairpool.control.questions import ask
from fairpool.control.rbac import Action
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import organization as store
from fairpool.control.store.database import Connection
from fairpool.model.ids import QueueId
from fairpool.model.lending import QueueHolding, lending
from fairpool.model.organization import department_queue, name_of_queue
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI

routes = Routes("projects")

InCluster = Annotated[
    str, Parameter(alias="clusterId", max_length=256, description="Id or name of a cluster; default: the only one")
]
FIELDS: Mapping[str, Field[wire.Share]] = {
    "name": text_field(lambda each: each.name),
    "kind": text_field(lambda each: each.kind),
    "department": text_field(lambda each: each.department or ""),
    "nodePool": text_field(lambda each: each.node_pool),
    "quota": gpus_field(lambda each: float(UNLIMITED) if each.quota is None else each.quota),
    "fairShare": gpus_field(lambda each: each.fair_share),
    "allocated": gpus_field(lambda each: each.allocated),
    "overQuota": gpus_field(lambda each: each.over_quota),
    "waiting": gpus_field(lambda each: each.waiting),
    "lent": gpus_field(lambda each: each.lent),
}
Sees = Callable[[str], bool]


@routes.get(
    "/api/v1/shares",
    action=Action.PROJECT_READ,
    answer=wire.SharesPage,
    summary="List quota, fair share, allocation, waiting, lent and borrowed GPUs of projects and departments",
)
async def shares(plane: Plane, caller: Caller, query: ListQuery, cluster: InCluster = "") -> Response:
    """A change is announced in the stream of changes as `shares`, with the id of the cluster."""

    def unit(connection: Connection) -> tuple[str, dict[str, tuple[str, str]]]:
        return cluster_of(connection, cluster), store.homes(connection)

    found, homes = await plane.read(unit)
    answer = await ask(plane, found, SharesQuestion(), wire.ClusterShares)
    viewer = _Viewer(caller, found, homes)
    rows = [row for pool in answer.pools for row in viewer.rows(pool)]
    fitting = filtered(rows, FIELDS, query)
    listed, following = page(fitting, query)
    sees_nodes = caller.may(Action.NODE_READ, cluster=found)
    return answered(
        ActionResult(
            body=wire.SharesPage(
                cluster_id=found,
                as_of=answer.taken_at,
                planned_at=answer.planned_at,
                count=len(fitting),
                pools=[_totals(pool) for pool in answer.pools] if sees_nodes else [],
                shares=listed,
                next=following,
            )
        )
    )


class _Viewer:
    """What one caller may see of a cluster."""

    def __init__(self, caller: Caller, cluster: str, homes: Mapping[str, tuple[str, str]]) -> None:
        self._caller, self._cluster, self._homes = caller, cluster, homes

    def rows(self, pool: wire.PoolShares) -> Iterator[wire.Share]:
        for each in pool.departments or _summed(pool, self._homes):
            if self._sees_department(each.queue):
                yield _share(each, "department", pool.node_pool, self._sees_department)
        for each in pool.projects:
            if self._sees_project(each.queue):
                yield _share(each, "project", pool.node_pool, self._sees_project)

    def _sees_project(self, queue: str) -> bool:
        department, cluster = self._homes.get(queue, ("", self._cluster))
        return self._caller.may(Action.PROJECT_READ, queue, department, cluster)

    def _sees_department(self, queue: str) -> bool:
        return self._caller.may(Action.DEPARTMENT_READ, "", name_of_queue(QueueId(queue)), self._cluster)


def _summed(pool: wire.PoolShares, homes: Mapping[str, tuple[str, str]]) -> list[wire.QueueShares]:
    """Departments as the sums of their projects, where the scheduler has none: they have no quota of their own then."""
    below: dict[str, list[wire.QueueShares]] = {}
    for each in pool.projects:
        if each.queue in homes:
            below.setdefault(department_queue(homes[each.queue][0]), []).append(each)
    holdings = {
        QueueId(name): QueueHolding(
            _total(each.quota_milli for each in rows), sum(each.allocated_milli for each in rows)
        )
        for name, rows in sorted(below.items())
    }
    loans = lending(pool.capacity_milli, holdings)
    return [
        wire.QueueShares(
            queue=name,
            quota_milli=holding.quota_milli,
            limit_milli=UNLIMITED,
            weight=sum(each.weight for each in below[name]),
            fair_share_milli=sum(each.fair_share_milli for each in below[name]),
            allocated_milli=holding.held_milli,
            in_quota_milli=holding.in_quota_milli,
            over_quota_milli=holding.over_milli,
            leaving_milli=sum(each.leaving_milli for each in below[name]),
            promised_milli=sum(each.promised_milli for each in below[name]),
            waiting_milli=sum(each.waiting_milli for each in below[name]),
            lent_to=loans.lent_to(name),
            borrowed_from=loans.borrowed_from(name),
            from_unassigned_milli=loans.unassigned.get(name, 0),
        )
        for name, holding in holdings.items()
    ]


def _total(quotas: Iterable[int]) -> int:
    found = list(quotas)
    return UNLIMITED if UNLIMITED in found else sum(found)


def _share(row: wire.QueueShares, kind: str, pool: str, sees: Sees) -> wire.Share:
    return wire.Share.model_validate(
        {
            "name": name_of_queue(QueueId(row.queue)),
            "kind": kind,
            "department": None if row.parent is None else name_of_queue(QueueId(row.parent)),
            "node_pool": pool,
            "quota": None if row.quota_milli == UNLIMITED else _gpus(row.quota_milli),
            "fair_share": _gpus(row.fair_share_milli),
            "limit": None if row.limit_milli == UNLIMITED else _gpus(row.limit_milli),
            "over_quota_weight": row.weight,
            "allocated": _gpus(row.allocated_milli),
            "in_quota": _gpus(row.in_quota_milli),
            "over_quota": _gpus(row.over_quota_milli),
            "leaving": _gpus(row.leaving_milli),
            "promised": _gpus(row.promised_milli),
            "waiting": _gpus(row.waiting_milli),
            "asked": _gpus(row.allocated_milli + row.promised_milli + row.waiting_milli),
            "lent": _gpus(sum(row.lent_to.values())),
            "borrowed": _gpus(row.over_quota_milli),
            "lent_to": _loans(row.lent_to, sees),
            "borrowed_from": _loans(row.borrowed_from, sees),
            "from_unassigned": _gpus(row.from_unassigned_milli),
        }
    )


def _loans(amounts: Mapping[str, int], sees: Sees) -> list[wire.Loan]:
    """By name; what is lent by or to queues that the caller may not see is one line without a name."""
    named = [
        wire.Loan(name=name_of_queue(QueueId(queue)), gpus=_gpus(amount))
        for queue, amount in sorted(amounts.items())
        if sees(queue)
    ]
    hidden = sum(amount for queue, amount in amounts.items() if not sees(queue))
    return [*named, wire.Loan(gpus=_gpus(hidden))] if hidden else named


def _totals(pool: wire.PoolShares) -> wire.PoolTotals:
    return wire.PoolTotals(
        node_pool=pool.node_pool,
        capacity=_gpus(pool.capacity_milli),
        allocated=_gpus(pool.allocated_milli),
        free=_gpus(pool.free_milli),
        withheld=_gpus(pool.withheld_milli),
        out_of_service=_gpus(pool.out_of_service_milli),
        unowned=_gpus(pool.unowned_milli),
    )


def _gpus(milli: int) -> float:
    return milli / WHOLE_GPU_MILLI
