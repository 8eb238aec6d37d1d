"""HTTP route for the stream of changes, as server-sent events.

Each change carries its revision as event id, so that a client that reconnects with `Last-Event-ID` misses nothing. A
client that was away for too long, or whose revision is from before a restore, gets a `reset` and reads everything anew.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fairpool.control.change_feed import FeedEntry, FeedText, Homes, entries_after
from fairpool.control.discretion import redacted
from fairpool.control.guard import still_known
from fairpool.control.plane import Caller, Places, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused
from fairpool.control.routes import Header, Parameter, Routes
from fairpool.control.store import changes
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection

routes = Routes("streams")


AT_ONCE = 500

NOT_A_PROJECTS = frozenset({"node", "node-pool", "topology", "cluster", "shares"})
"""`shares` says only that quotas, fair shares or allocations changed somewhere in a cluster."""
DEPARTMENT = "department"

CHANGES_EXAMPLE = {
    "description": "Server-sent events: `id` is the revision, `data` is JSON",
    "content": {
        "text/event-stream": {
            "schema": {"type": "string"},
            "example": 'id: 42\nevent: workload\ndata: {"revision":42,"noun":"workload","id":"…","verb":"created"}\n\n',
        }
    },
}


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
    events = _events(plane, caller, read)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def _revision(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise refused(
            400, "request.not_a_revision", f"{text!r} is not a valid revision", "send the id of the last event"
        )
    return int(text)


async def _events(plane: Plane, caller: Caller, read: int | None) -> AsyncIterator[str | bytes]:
    now = await plane.read(changes.current)
    if read is None or read > now:
        # A revision from the future is from another database: start anew from here.
        if read is not None:
            yield _reset(now)
        else:
            yield f"id: {now}\nretry: 1000\n\n"
        read = now
    sent_through: int = read
    while True:
        listening = plane.notifier.listen()
        try:
            caller = await still_known(plane, caller)  # the token may be revoked
            caller.require_somewhere(Action.WORKLOAD_READ)  # or the role
        except Refused:
            listening.cancel()
            return
        shown = await _shown_after(plane, caller.places(Action.WORKLOAD_READ), sent_through)
        if shown.text:
            yield shown.text
            sent_through = shown.through
            if shown.is_more:
                listening.cancel()
                continue
        if not await plane.notifier.wait(listening, plane.settings.keep_alive_s):
            yield ": still here\n\n"
        elif plane.notifier.is_closing:
            return


async def _shown_after(plane: Plane, places: Places | None, read: int) -> FeedText:
    """What callers who may see these places are sent after a revision."""
    feed = plane.change_feed
    await feed.catch_up(plane.read, plane.notifier.notifications)

    def make() -> FeedText | None:
        found = feed.after(read, AT_ONCE)
        return None if found is None else _shown(places, feed.homes, found, read)

    shown = feed.shown(places, read, make)
    return shown if shown is not None else await plane.read(read_after(plane, places, read))


def read_after(plane: Plane, places: Places | None, read: int) -> Callable[[Connection], FeedText]:
    """For a client that was away for longer than the cache reaches."""

    def unit(connection: Connection) -> FeedText:
        if changes.is_forgotten(connection, read):
            now = changes.current(connection)
            return FeedText(_reset(now).encode(), now, is_more=True)
        homes = organization_store.homes(connection)
        found = entries_after(connection, plane.rendered, homes, read, AT_ONCE)
        return _shown(places, homes, found, read)

    return unit


def _shown(places: Places | None, homes: Homes, found: Sequence[FeedEntry], read: int) -> FeedText:
    """The part of these changes that a caller may see."""
    if not found:
        return FeedText(b"", read)
    lines = [_visible(places, each) for each in found]
    last = found[-1].revision
    if not lines[-1]:
        lines.append(f"id: {last}\n\n".encode())  # so that a client does not read them again after a reconnect
    return FeedText(redacted(b"".join(lines), places, homes), last, is_more=len(found) >= AT_ONCE)


def _visible(places: Places | None, entry: FeedEntry) -> bytes:
    """What a caller may see of a change: that it happened, if its project was visible; the object, if it still is."""
    if places is None or entry.change.noun in NOT_A_PROJECTS:
        return entry.line
    if entry.change.noun == DEPARTMENT:
        return entry.line if entry.change.id in places.departments else b""
    if not places.covers(entry.change.project, *entry.home):
        return b""
    return entry.line_of_some if places.covers(entry.project_now, *entry.home_now) else entry.without_object


def _reset(revision: int) -> str:
    data = json.dumps({"revision": revision, "noun": "reset", "id": "", "verb": "reset"}, separators=(",", ":"))
    return f"id: {revision}\nevent: reset\ndata: {data}\n\n"
