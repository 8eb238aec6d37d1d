"""Questions to clusters: would it start, the live snapshot, what if, past cycles.

The control plane passes them on and does not know the scheduler. A cluster that does not answer in time counts as
away; nothing that was asked for depends on the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, TypeVar

from starlette.responses import Response, StreamingResponse

from fairpool.api import questions as wire
from fairpool.api.declarations import WorkloadWire
from fairpool.api.wire import Answer, ValidationError
from fairpool.control.clusters import known_cluster
from fairpool.control.plane import Caller, Plane
from fairpool.control.pod_access import PodAccessError
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused
from fairpool.control.routes import Parameter, Routes
from fairpool.control.tunnel import AWAY
from fairpool.model.problem import Problem
from fairpool.model.spec import WorkloadSpec

routes = Routes("clusters")

A = TypeVar("A", bound=Answer)

PLANNING_S = 30.0
"""For an answer that an administrator waits for: a large cluster takes seconds to plan twice, or to write to a file."""
ANSWER_MAX_BYTES = 64 * 1024 * 1024
SNAPSHOT = "application/vnd.fairpool.snapshot"
STATUS = {"cluster.away": 503, "cluster.silent": 503, "cluster.starting": 503, "cluster.busy": 503, "tunnel.lost": 503}
STATUS |= {"tunnel.failed": 503, "tunnel.replaced": 503, "tunnel.too_many": 503}
"""Everything else is wrong with the question: 422."""

Pool = Annotated[str | None, Parameter(alias="nodePool", max_length=256, description="Default: the only one")]


async def forecast(plane: Plane, cluster: str, spec: WorkloadSpec) -> wire.StartForecast:
    """Whether a workload would start now; `unknown` if its cluster does not answer within a second."""
    question = wire.WouldStart(workload=WorkloadWire.of(spec))
    try:
        return await _answer(plane, cluster, question, wire.StartForecast, wire.DEADLINE_S)
    except PodAccessError as error:
        return wire.StartForecast(outcome="unknown", message=error.problem.what)


@routes.get(
    "/api/v1/clusters/{cluster_id}/snapshot",
    action=Action.SNAPSHOT_READ,
    summary="Save what the scheduler of a cluster sees now, or saw in a past cycle",
    responses={200: {"content": {SNAPSHOT: {"schema": {"type": "string", "format": "binary"}, "example": "..."}}}},
)
async def live_snapshot(
    cluster_id: str,
    plane: Plane,
    caller: Caller,
    node_pool: Pool = None,
    cycle: Annotated[int | None, Parameter(ge=0, le=2**53, description="A past cycle; default: now")] = None,
) -> Response:
    """A file for `fairpool plan`. It contains no commands, arguments or environments."""
    cluster = await _cluster(plane, caller, cluster_id)
    question = wire.SnapshotQuestion(pool=node_pool, cycle=cycle)
    pieces = plane.pod_access.ask(cluster, question.to_json().encode())
    try:
        async with asyncio.timeout(PLANNING_S):
            first = await anext(pieces, b"")
    except PodAccessError as error:
        raise _refusal(error.problem) from error
    except TimeoutError:
        raise _refusal(AWAY) from None
    return StreamingResponse(_joined(first, pieces), media_type=SNAPSHOT)


@routes.post(
    "/api/v1/clusters/{cluster_id}/what-if",
    action=Action.SNAPSHOT_READ,
    answer=wire.WhatIfAnswer,
    summary="Compare the plan of the live state with the plan after changes",
)
async def what_if(cluster_id: str, plane: Plane, caller: Caller, body: wire.WhatIfRequest) -> wire.WhatIfAnswer:
    """Nothing is changed."""
    cluster = await _cluster(plane, caller, cluster_id)
    return await _answer_or_refusal(plane, cluster, body.question(), wire.WhatIfAnswer)


@routes.get(
    "/api/v1/clusters/{cluster_id}/cycles",
    action=Action.SNAPSHOT_READ,
    answer=wire.PastCyclePage,
    summary="List past scheduling cycles whose snapshots are kept",
)
async def past_cycles(cluster_id: str, plane: Plane, caller: Caller) -> wire.PastCyclePage:
    cluster = await _cluster(plane, caller, cluster_id)
    return await _answer_or_refusal(plane, cluster, wire.PastCycles(), wire.PastCyclePage)


async def _cluster(plane: Plane, caller: Caller, name: str) -> str:
    """A snapshot shows the work of all projects, so the permission must not be limited to some."""
    caller.require(Action.SNAPSHOT_READ)
    row = await plane.read(lambda connection: known_cluster(connection, name))
    return str(row.id)


async def ask(plane: Plane, cluster: str, question: wire.Question, kind: type[A]) -> A:
    """The answer of a cluster to a question that a user waits for."""
    return await _answer_or_refusal(plane, cluster, question, kind)


async def _answer_or_refusal(plane: Plane, cluster: str, question: wire.Question, kind: type[A]) -> A:
    try:
        return await _answer(plane, cluster, question, kind, PLANNING_S)
    except PodAccessError as error:
        raise _refusal(error.problem) from error


async def _answer(plane: Plane, cluster: str, question: wire.Question, kind: type[A], timeout_s: float) -> A:
    """Raises `PodAccessError`."""
    try:
        async with asyncio.timeout(timeout_s):
            text = await _whole(plane.pod_access.ask(cluster, question.to_json().encode()))
        return kind.model_validate_json(text)
    except TimeoutError:
        raise PodAccessError(AWAY) from None
    except ValidationError:
        what = "the cluster's answer cannot be read"
        raise PodAccessError(Problem("question.answer", what, "run the same release on both sides")) from None


async def _whole(pieces: AsyncGenerator[bytes]) -> bytes:
    parts, size = [], 0
    async for piece in pieces:
        size += len(piece)
        if size > ANSWER_MAX_BYTES:
            raise PodAccessError(Problem("question.answer", "the cluster's answer is too large", ""))
        parts.append(piece)
    return b"".join(parts)


async def _joined(first: bytes, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    yield first
    async for piece in pieces:
        yield piece


def _refusal(problem: Problem) -> Refused:
    return refused(STATUS.get(problem.code, 422), problem.code, problem.what, problem.fix)
