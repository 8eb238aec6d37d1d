"""HTTP routes for streams: changes (server-sent events), logs, and shells (WebSockets).

Each change carries its revision as event id, so that a client that reconnects with `Last-Event-ID` misses nothing. A
client that was away for too long, or whose revision is from before a restore, gets a `reset` and reads everything anew.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from fairpool.api import shell
from fairpool.api.pod_choice import pod_called, pod_to_read, pods_there
from fairpool.api.problems import ProblemItem
from fairpool.api.workloads import PodItem
from fairpool.control.change_feed import FeedEntry, entries_after
from fairpool.control.discretion import told_to
from fairpool.control.guard import identify
from fairpool.control.moments import moment_or_ago
from fairpool.control.plane import ActionResult, Caller, Places, Plane
from fairpool.control.pod_access import LogRange, PodAccessError, PodAddress, ShellSession
from fairpool.control.pods import pod_items_of
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused, unknown
from fairpool.control.routes import Header, Parameter, Routes
from fairpool.control.store import changes
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.model.ids import Instant
from fairpool.model.problem import Problem

routes = Routes("streams")

AT_ONCE = 500
NOT_A_PROJECTS = frozenset({"node", "node-pool", "cluster", "department"})
COMMAND_MAX = 256
FIRST_MESSAGE_S = 10.0
POLICY = 1008
"""Close code of a WebSocket whose caller lost the permission."""
LOOK_AGAIN_S = 5.0
"""How long a stream can outlast a permission that expires without a commit."""
REVOKED = "you were signed out or no longer have permission"

CHANGES_EXAMPLE = {
    "description": "Server-sent events: `id` is the revision, `data` is JSON",
    "content": {
        "text/event-stream": {
            "schema": {"type": "string"},
            "example": 'id: 42\nevent: workload\ndata: {"revision":42,"noun":"workload","id":"…","verb":"created"}\n\n',
        }
    },
}


# --- changes -------------------------------------------------------------------------------------------------


@routes.get(
    "/api/v1/changes",
    action=Action.WORKLOAD_READ,
    summary="Stream changes as server-sent events",
    responses={200: CHANGES_EXAMPLE},
)
async def stream_changes(
    request: Request,
    plane: Plane,
    caller: Caller,
    last_event_id: Annotated[str | None, Header(), Parameter(alias="Last-Event-ID", max_length=32)] = None,
    after: Annotated[
        int | None,
        Parameter(ge=0, le=2**62, description="Same as Last-Event-ID, for clients that cannot set the header"),
    ] = None,
) -> Response:
    read = _revision(last_event_id) if last_event_id is not None else after
    authorization = request.headers.get("authorization")
    events = _events(plane, authorization, read)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def _revision(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise refused(
            400, "request.not_a_revision", f"{text!r} is not a valid revision", "send the id of the last event"
        )
    return int(text)


async def _events(plane: Plane, authorization: str | None, read: int | None) -> AsyncIterator[str | bytes]:
    now = await plane.read(changes.current)
    if read is None or read > now:
        # A revision from the future is from another database: start anew from here.
        if read is not None:
            yield _event(now, "reset", {"revision": now, "noun": "reset", "id": "", "verb": "reset"})
        else:
            yield f"id: {now}\nretry: 1000\n\n"
        read = now
    sent_through: int = read
    while True:
        listening = plane.notifier.listen()
        try:
            caller = await identify(plane, authorization)  # the token may be revoked
            caller.require_somewhere(Action.WORKLOAD_READ)  # or the role
        except Refused:
            listening.cancel()
            return
        found = await plane.change_feed.after(plane.read, plane.notifier.notifications, sent_through, AT_ONCE)
        if found is not None:
            text, sent_through = _text_of(caller, found, sent_through)
        else:
            text, sent_through = await plane.read(_text_after(caller, sent_through))
        if text:
            listening.cancel()
            yield await told_to(plane, caller, text)
            continue
        if not await plane.notifier.wait(listening, plane.settings.keep_alive_s):
            yield ": still here\n\n"


def _text_after(caller: Caller, read: int) -> Callable[[Connection], tuple[bytes, int]]:
    """For a client that was away for longer than the cache reaches."""

    def unit(connection: Connection) -> tuple[bytes, int]:
        if changes.is_forgotten(connection, read):
            now = changes.current(connection)
            return _event(now, "reset", {"revision": now, "noun": "reset", "id": "", "verb": "reset"}).encode(), now
        return _text_of(caller, entries_after(connection, read, AT_ONCE), read)

    return unit


def _text_of(caller: Caller, found: Sequence[FeedEntry], read: int) -> tuple[bytes, int]:
    """The part of these changes that a caller may see, and the revision it reaches."""
    if not found:
        return b"", read
    places = caller.places(Action.WORKLOAD_READ)
    lines = [_visible(places, each) for each in found]
    last = found[-1].revision
    if not lines[-1]:
        lines.append(f"id: {last}\n\n".encode())  # so that a client does not read them again after a reconnect
    return b"".join(lines), last


def _visible(places: Places | None, entry: FeedEntry) -> bytes:
    """What a caller may see of a change: that it happened, if its project was visible; the object, if it still is."""
    if places is None or entry.change.noun in NOT_A_PROJECTS:
        return entry.line
    if not places.covers(entry.change.project, entry.department):
        return b""
    return entry.line if places.covers(entry.project_now, entry.department_now) else entry.without_object


def _event(revision: int, name: str, data: dict[str, Any]) -> str:
    return f"id: {revision}\nevent: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"


# --- logs ----------------------------------------------------------------------------------------------------


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
) -> Response:
    wanted = _excerpt(plane.now(), offset, tail, since, timestamps)
    address = await _address(plane, caller, workload_id, pod, Action.WORKLOAD_READ, running=False)
    try:
        chunks = plane.pod_access.read_log(address, wanted, follow=follow)
        first = await anext(chunks, b"")
    except PodAccessError as error:
        raise refused(503, error.problem.code, error.problem.what, error.problem.fix) from error
    authorization = request.headers.get("authorization")
    rest = _rest(first, chunks, _while_allowed(plane, authorization, workload_id, Action.WORKLOAD_READ))
    return StreamingResponse(rest, media_type="text/plain; charset=utf-8")


def _excerpt(now: Instant, offset: int, tail: int | None, since: str | None, timestamps: bool) -> LogRange:
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
    first: bytes, chunks: AsyncIterator[bytes], allowed: Coroutine[Any, Any, None]
) -> AsyncGenerator[bytes]:
    """The rest of the log, as long as the caller may read it."""
    revoked = asyncio.create_task(allowed)
    chunk: bytes | None = first
    coming: asyncio.Task[bytes | None] | None = None
    try:
        while chunk is not None:
            yield chunk
            coming = asyncio.create_task(_next(chunks))
            await asyncio.wait({coming, revoked}, return_when=asyncio.FIRST_COMPLETED)
            if revoked.done():
                yield f"\n[{REVOKED}]\n".encode()
                return
            chunk = await coming
    except PodAccessError as error:
        yield f"\n[{error.problem}]\n".encode()
    finally:
        leaving = [each for each in (revoked, coming) if each is not None]
        for each in leaving:
            each.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


async def _while_allowed(plane: Plane, authorization: str | None, workload_id: str, action: Action) -> None:
    """Returns when the caller of this token may no longer do this to the workload.

    The cache of callers is emptied whenever users, rules or tokens change: if a commit brings the same caller again,
    none of them did. Only moved workloads and expired tokens go unnoticed, so they are checked from time to time.
    """
    known: Caller | None = None
    looked_at = 0.0
    while True:
        listening = plane.notifier.listen()
        try:
            caller = await identify(plane, authorization)
            if caller is not known or time.monotonic() - looked_at >= LOOK_AGAIN_S:
                await plane.read(partial(_check_allowed, caller=caller, workload_id=workload_id, action=action))
                known, looked_at = caller, time.monotonic()
        except Refused:
            listening.cancel()
            return
        await plane.notifier.wait(listening, LOOK_AGAIN_S)


def _check_allowed(connection: Connection, caller: Caller, workload_id: str, action: Action) -> None:
    row = workload_store.shown(connection, workload_id)
    if row is None:
        raise unknown("workload", workload_id)
    caller.require(action, row.project, row.department)


async def _address(
    plane: Plane, caller: Caller, workload_id: str, pod: str | None, action: Action, *, running: bool
) -> PodAddress:
    """The pod that is meant."""

    def unit(connection: Connection) -> tuple[list[PodItem], str]:
        pods = pod_items_of(connection, caller, workload_id, action)
        row = workload_store.one(connection, workload_id)
        assert row is not None
        return pods, row.cluster

    pods, cluster = await plane.read(unit)
    chosen = pod_called(pods, pod) if pod is not None else pod_to_read(pods)
    if chosen is None and pod is not None and pods:
        raise refused(404, "pod.unknown", f"there is no pod {pod!r}", pods_there(pods), "pod")
    if chosen is None:
        raise refused(404, "pod.unknown", "the job has no pods yet", "see what it is waiting for with `runai why JOB`")
    if running and chosen.phase != "running":
        what = "Unable to run command in a pod that is not running"
        raise refused(
            409, "pod.not_running", what, "wait until it is running; `runai why JOB` shows what it is waiting for"
        )
    return PodAddress(cluster, chosen.id, chosen.node, workload_id)


# --- shells --------------------------------------------------------------------------------------------------


@routes.websocket(
    "/api/v1/workloads/{workload_id}/exec",
    action=Action.WORKLOAD_OPERATE,
)
async def run_command(
    socket: WebSocket,
    workload_id: str,
    plane: Plane,
    caller: Caller,
    command: Annotated[list[str] | None, Parameter(max_length=COMMAND_MAX)] = None,
    pod: Annotated[str | None, Parameter(max_length=256)] = None,
    tty: bool = False,
    follows: Annotated[bool, Parameter(alias="commandFollows")] = False,
) -> None:
    """A command in the pod; frames are described in `fairpool.api.shell`."""
    if follows and not command:
        await _converse(socket, plane, caller, workload_id, pod, None, tty)
        return
    if not command:
        raise refused(422, "shell.no_command", "no command was given", "add one, e.g. ?command=bash")
    await _converse(socket, plane, caller, workload_id, pod, tuple(command), tty)


@routes.websocket(
    "/api/v1/workloads/{workload_id}/attach",
    action=Action.WORKLOAD_OPERATE,
)
async def attach(
    socket: WebSocket,
    workload_id: str,
    plane: Plane,
    caller: Caller,
    pod: Annotated[str | None, Parameter(max_length=256)] = None,
    tty: bool = False,
) -> None:
    """The pod's main process."""
    await _converse(socket, plane, caller, workload_id, pod, (), tty)


async def _converse(
    socket: WebSocket,
    plane: Plane,
    caller: Caller,
    workload_id: str,
    pod: str | None,
    command: tuple[str, ...] | None,
    tty: bool,
) -> None:
    """`command`: empty for the main process, None if it comes with the first message."""
    address = await _address(plane, caller, workload_id, pod, Action.WORKLOAD_OPERATE, running=True)
    try:
        words = await _first_message(socket) if command is None else command
        end = await plane.pod_access.open_shell(address, words, tty)
    except PodAccessError as error:
        if command is None:
            await _close_with(socket, str(error.problem))
            return
        raise refused(503, error.problem.code, error.problem.what, error.problem.fix) from error
    except (WebSocketDisconnect, KeyError, RuntimeError):
        return  # the user disconnected, or sent text
    shell_action = ActionResult(entity_type="workload", entity_id=workload_id, entity_name=address.pod)
    try:
        await plane.note(socket, caller, replace(shell_action, action="open-shell"))
        if command is not None:
            await socket.accept()
        await _talk(socket, plane, workload_id, end)
    finally:
        await end.close()
        await plane.note(socket, caller, replace(shell_action, action="close-shell"))


async def _first_message(socket: WebSocket) -> tuple[str, ...]:
    """The command, if it is too long for the URL; raises `PodAccessError`."""
    await socket.accept()
    try:
        async with asyncio.timeout(FIRST_MESSAGE_S):
            words = shell.command_in(await socket.receive_bytes())
    except TimeoutError:
        what = f"no command was received within {FIRST_MESSAGE_S:g} s"
        raise PodAccessError(Problem("shell.no_command", what, "send it as the first message")) from None
    if isinstance(words, Problem):
        raise PodAccessError(words)
    return words


async def _talk(socket: WebSocket, plane: Plane, workload_id: str, end: ShellSession) -> None:
    """Until one side disconnects, or the caller loses the permission."""
    authorization = socket.headers.get("authorization")
    there = asyncio.create_task(_to_pod(socket, end))
    back = asyncio.create_task(_to_user(socket, end))
    revoked = asyncio.create_task(_while_allowed(plane, authorization, workload_id, Action.WORKLOAD_OPERATE))
    tasks = (there, back, revoked)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_revoked = revoked.done()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if is_revoked:
        await _close_with(socket, REVOKED)


async def _close_with(socket: WebSocket, words: str) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):  # already disconnected
        await socket.send_bytes(shell.ended(None, words).encode())
        await socket.close(POLICY, REVOKED if words == REVOKED else "")


async def _to_pod(socket: WebSocket, end: ShellSession) -> None:
    while True:
        try:
            frame = shell.decode(await socket.receive_bytes())
        except (WebSocketDisconnect, KeyError, RuntimeError):
            return  # the user disconnected, or sent text
        if isinstance(frame, Problem):
            return
        await end.send(frame)


async def _to_user(socket: WebSocket, end: ShellSession) -> None:
    while (frame := await end.receive()) is not None:
        await socket.send_bytes(frame.encode())
    await socket.close()
