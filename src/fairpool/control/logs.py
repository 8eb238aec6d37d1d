"""HTTP route for the logs of pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fairpool.api.log_pieces import PIECES_END, piece_head
from fairpool.api.problems import ProblemItem
from fairpool.control.moments import moment_or_ago
from fairpool.control.plane import Caller, Plane
from fairpool.control.pod_access import LogPiece, LogRange, PodAccessError
from fairpool.control.pods import REVOKED, pod_address, while_allowed
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused
from fairpool.control.routes import Parameter, Routes
from fairpool.model.ids import Instant

routes = Routes("streams")


@routes.get(
    "/api/v1/workloads/{workload_id}/logs",
    action=Action.WORKLOAD_READ,
    summary="Get or follow the log of a pod",
    responses={200: {"content": {"text/plain": {"example": "Epoch 1/20 loss 0.31\n"}}}},
)
async def logs(
    workload_id: str,
    request: Request,
    plane: Plane,
    caller: Caller,
    pod: Annotated[
        str | None, Parameter(max_length=256, description="Pod id or name; default: the first running pod")
    ] = None,
    offset: Annotated[int, Parameter(ge=0, le=2**62, description="Number of bytes to skip")] = 0,
    tail: Annotated[int | None, Parameter(ge=0, le=1_000_000, description="Number of lines from the end")] = None,
    since: Annotated[
        str | None,
        Parameter(max_length=64, description="Only lines after this time, or this long ago", examples=["10m"]),
    ] = None,
    timestamps: Annotated[bool, Parameter(description="Prefix each line with its time")] = False,
    follow: Annotated[bool, Parameter(description="Keep streaming until the pod ends")] = False,
    pieces: Annotated[
        bool,
        Parameter(
            description="Send each piece after a line `OFFSET LENGTH`, and `end` after the last one. OFFSET is where "
            "reading goes on after a broken connection"
        ),
    ] = False,
) -> Response:
    wanted = _log_range(plane.now(), offset, tail, since, timestamps)
    address = await pod_address(plane, caller, workload_id, pod, Action.WORKLOAD_READ, running=False)
    try:
        chunks = plane.pod_access.of(address.cluster).read_log(address, wanted, follow=follow)
        first = await anext(chunks, None)
    except PodAccessError as error:
        raise refused(503, error.problem.code, error.problem.what, error.problem.fix) from error
    rest = _rest(first, chunks, while_allowed(plane, caller, workload_id, Action.WORKLOAD_READ))
    if pieces:
        return StreamingResponse(_framed(rest), media_type="application/octet-stream")
    return StreamingResponse(_data(rest), media_type="text/plain; charset=utf-8")


def _log_range(now: Instant, offset: int, tail: int | None, since: str | None, timestamps: bool) -> LogRange:
    problems = []
    if offset and (tail is not None or since is not None):
        what, fix = "offset cannot be combined with tail or since", "remove offset, or remove tail and since"
        problems.append(ProblemItem(code="log.two_beginnings", what=what, fix=fix, field="offset"))
    moment = moment_or_ago(since, now) if since is not None else None
    if since is not None and moment is None:
        fix = "use a time such as 2026-11-15T12:00:00Z, or a duration such as 90s, 10m or 2h"
        problems.append(
            ProblemItem(code="request.not_a_date", what=f"{since!r} is not a valid time", fix=fix, field="since")
        )
    if problems:
        raise Refused(422, problems)
    return LogRange(offset, tail, moment, timestamps)


async def _rest(
    first: LogPiece | None, chunks: AsyncGenerator[LogPiece], allowed: Coroutine[Any, Any, None]
) -> AsyncGenerator[LogPiece]:
    """The rest of the log, as long as the caller may read it."""
    revoked = asyncio.create_task(allowed)
    chunk = first
    at = 0
    coming: asyncio.Task[LogPiece | None] | None = None
    try:
        while chunk is not None:
            yield chunk
            at = chunk.next_offset
            coming = asyncio.create_task(_next(chunks))
            await asyncio.wait({coming, revoked}, return_when=asyncio.FIRST_COMPLETED)
            if revoked.done():
                revoked.result()  # raises if that cannot be looked up, as at a shutdown: the stream is then cut off
                yield LogPiece(f"\n[{REVOKED}]\n".encode(), at)
                return
            chunk = await coming
    except PodAccessError as error:
        yield LogPiece(f"\n[{error.problem}]\n".encode(), at)
    finally:
        leaving = [each for each in (revoked, coming) if each is not None]
        for each in leaving:
            each.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        await chunks.aclose()


async def _data(pieces: AsyncGenerator[LogPiece]) -> AsyncGenerator[bytes]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield piece.data


async def _framed(pieces: AsyncGenerator[LogPiece]) -> AsyncGenerator[bytes]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield piece_head(piece.next_offset, len(piece.data)) + piece.data
    yield PIECES_END


async def _next(chunks: AsyncGenerator[LogPiece]) -> LogPiece | None:
    return await anext(chunks, None)
