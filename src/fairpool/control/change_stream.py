"""HTTP route for the stream of changes, as server-sent events.

Each change carries its revision as event id, so that a client that reconnects with `Last-Event-ID` misses nothing. A
client that was away for too long, or whose revision is from before a restore, gets a `reset` and reads everything anew.

Of users, roles and whatever else is in no project, callers who may list them hear that something changed, and not what.

Two events are not changes and have no id of their own: `alive`, by which a page knows that the stream is not broken
(browsers do not show comments to pages), and `samples`, when something was measured in a cluster.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fairpool.control.change_feed import FeedEntry, FeedText, Homes, entries_after
from fairpool.control.discretion import redacted
from fairpool.control.guard import still_known
from fairpool.control.plane import OF_ACCESS, Caller, Places, Plane
from fairpool.control.rbac import Action, Grant, allowed_somewhere
from fairpool.control.refusal import Refused, refused
from fairpool.control.routes import Header, Parameter, Routes
from fairpool.control.store import changes
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection

routes = Routes("streams")


AT_ONCE = 500

NOT_A_PROJECTS = frozenset({"node", "node-pool", "topology", "cluster", "shares"})
"""`shares` says only that quotas, fair shares or allocations changed somewhere in a cluster."""
READ_BY: Mapping[str, Action] = {
    "user": Action.USER_READ,
    "access-rule": Action.RULE_READ,
    "application": Action.APP_READ,
    "service-account": Action.SERVICE_ACCOUNT_READ,
    "role": Action.SELF,
    "identity-provider": Action.ACCESS_READ,
    "setting": Action.SETTING_READ,
    "template": Action.TEMPLATE_READ,
    "environment": Action.ENVIRONMENT_READ,
    "compute": Action.COMPUTE_READ,
    "datasource": Action.DATA_SOURCE_READ,
    "credential": Action.CREDENTIAL_READ,
    "policy": Action.POLICY_READ,
}
"""Of what is in no project: who is told that something of this kind changed. What it was, the list says to those who
may see it."""
DEPARTMENT = "department"
ALIVE, SAMPLES = "alive", "samples"

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
            yield f"id: {now}\nretry: 1000\n{_without_id(ALIVE, now)}"
        read = now
    sent_through: int = read
    announced, timer = plane.sample_news.counts, _Timer(plane.settings.keep_alive_s)
    while True:
        listening = plane.notifier.listen()
        try:
            caller = await still_known(plane, caller)  # the token may be revoked
            caller.require_somewhere(Action.WORKLOAD_READ)  # or the role
        except Refused:
            listening.cancel()
            return
        view = View(caller.places(Action.WORKLOAD_READ), _readable(caller.grants))
        shown = await _shown_after(plane, view, sent_through)
        if shown.text:
            yield shown.text
            sent_through = shown.through
            if shown.is_more:
                listening.cancel()
                continue
        counts = plane.sample_news.counts  # before anything is sent: what comes meanwhile is announced next time
        for cluster in plane.sample_news.since(announced):
            yield _without_id(SAMPLES, sent_through, cluster)
        announced = counts
        if await plane.notifier.wait(listening, timer.left_s) and plane.notifier.is_closing:
            return
        if timer.is_over:
            yield _without_id(ALIVE, sent_through)
            timer.start()


class _Timer:
    """Runs whatever else is sent: changes that a client may not see reach it as an id alone, which pages do not see."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.start()

    def start(self) -> None:
        self._over_at = time.monotonic() + self._seconds

    @property
    def left_s(self) -> float:
        return max(0.0, self._over_at - time.monotonic())

    @property
    def is_over(self) -> bool:
        return self.left_s == 0


class View(NamedTuple):
    """What a caller may see of changes."""

    places: Places | None
    """Where work may be seen; None: everywhere."""
    kinds: frozenset[str]
    """Of `READ_BY`."""


@lru_cache(maxsize=4096)
def _readable(grants: tuple[Grant, ...]) -> frozenset[str]:
    return frozenset(noun for noun, action in READ_BY.items() if allowed_somewhere(grants, action))


async def _shown_after(plane: Plane, view: View, read: int) -> FeedText:
    """What callers with this view are sent after a revision."""
    feed = plane.change_feed
    await feed.catch_up(plane.read, plane.notifier.notifications)

    def make() -> FeedText | None:
        found = feed.after(read, AT_ONCE)
        return None if found is None else _shown(view, feed.homes, found, read)

    shown = feed.shown(view, read, make)
    return shown if shown is not None else await plane.read(read_after(plane, view, read))


def read_after(plane: Plane, view: View, read: int) -> Callable[[Connection], FeedText]:
    """For a client that was away for longer than the cache reaches."""

    def unit(connection: Connection) -> FeedText:
        if changes.is_forgotten(connection, read):
            now = changes.current(connection)
            return FeedText(_reset(now).encode(), now, is_more=True)
        homes = organization_store.homes(connection)
        found = entries_after(connection, plane.rendered, homes, read, AT_ONCE)
        return _shown(view, homes, found, read)

    return unit


def _shown(view: View, homes: Homes, found: Sequence[FeedEntry], read: int) -> FeedText:
    """The part of these changes that a caller may see."""
    if not found:
        return FeedText(b"", read)
    lines = [_visible(view, each) for each in found]
    last = found[-1].revision
    if not lines[-1]:
        lines.append(f"id: {last}\n\n".encode())  # so that a client does not read them again after a reconnect
    return FeedText(redacted(b"".join(lines), view.places, homes), last, is_more=len(found) >= AT_ONCE)


def _visible(view: View, entry: FeedEntry) -> bytes:
    """What a caller may see of a change: that it happened, if its project was visible; the object, if it still is."""
    places, noun = view.places, entry.change.noun
    if noun in OF_ACCESS:
        return entry.nameless if noun in view.kinds else b""
    if places is None or noun in NOT_A_PROJECTS:
        return entry.line
    if noun == DEPARTMENT:
        return entry.line if entry.change.id in places.departments else b""
    if entry.change.project is None and noun in view.kinds:
        return entry.nameless
    if not places.covers(entry.change.project, *entry.home):
        return b""
    return entry.line_of_some if places.covers(entry.project_now, *entry.home_now) else entry.without_object


def _reset(revision: int) -> str:
    return f"id: {revision}\n{_without_id('reset', revision)}"


def _without_id(noun: str, revision: int, cluster: str = "") -> str:
    """An event that leaves the place from which a stream is resumed as it is. `revision`: what was sent so far."""
    verb = "stored" if noun == SAMPLES else noun
    data = json.dumps({"revision": revision, "noun": noun, "id": cluster, "verb": verb}, separators=(",", ":"))
    return f"event: {noun}\ndata: {data}\n\n"
