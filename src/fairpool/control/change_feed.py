"""Cache of the change feed: the latest changes as they are sent, rendered once for all streams.

However many streams are open, after a commit the database is read once, and what is sent is put together once for all
who may see the same. A stream that is further behind than the cache reaches back reads the database itself.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fairpool.api.wire import compact
from fairpool.control.decision_items import decision_item
from fairpool.control.rendered import RenderedCache
from fairpool.control.single_flight import SingleFlight
from fairpool.control.store import changes
from fairpool.control.store import decisions as decision_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.workload_documents import former_name

KEPT = 4096
"""Changes that are cached: a busy second or two, some megabytes."""
SHOWN_MAX_BYTES = 16 << 20
"""Of texts that are kept until the next change, for all who may see the same."""

Homes = Mapping[str, tuple[str, str]]
"""Department and cluster of each project."""


class Read(Protocol):
    """How the database is read."""

    def __call__(self, unit: Callable[[Connection], Any]) -> Awaitable[Any]: ...


NO_HOME = ("", "")
DECISION = "decision"
"""The noun of decisions; their id is cluster and number."""


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One change, and the line that is sent about it."""

    change: changes.Changed
    line: bytes
    line_of_some: bytes
    """The same for callers who see some projects only."""
    without_object: bytes
    """The same for callers that may know that something happened, and not its present state."""
    nameless: bytes
    """The same for callers that may know that something of this kind changed, and not what."""
    home: tuple[str, str]
    """Department and cluster of the project in which it happened."""
    project_now: str | None
    """Of what it is about: work may have moved."""
    home_now: tuple[str, str]

    @property
    def revision(self) -> int:
        return self.change.revision


@dataclass(frozen=True, slots=True)
class FeedText:
    """What is sent to all who may see the same of some changes."""

    text: bytes
    through: int
    """The revision that it reaches."""
    is_more: bool = False
    """Whether more may follow it at once."""


class ChangeFeedCache:
    """The latest changes. For one event loop."""

    def __init__(self, rendered: RenderedCache, kept: int = KEPT) -> None:
        self._rendered = rendered
        self._kept = kept
        self._entries: list[FeedEntry] = []
        self._begins_after: int | None = None
        self._reaches = 0
        self._notifications = -1
        self._reading = SingleFlight()
        self._shown: dict[tuple[Hashable, int], FeedText] = {}
        self.homes: Homes = {}
        """As they were when it was last read."""

    async def catch_up(self, read: Read, notifications: int) -> None:
        """To what is written now. `notifications` counts the commits: while it stays the same there is nothing new."""

        while notifications > self._notifications:  # the reading that is under way may have begun before
            await self._reading.join(lambda: self._catch_up(read, notifications))

    def after(self, revision: int, most: int) -> Sequence[FeedEntry] | None:
        """What came after a revision, so many at most; None: that was too long ago to be cached."""
        if self._begins_after is None or revision < self._begins_after:
            return None
        first = bisect_right(self._entries, revision, key=lambda entry: entry.revision)
        return self._entries[first : first + most]

    def shown(self, view: Hashable, revision: int, make: Callable[[], FeedText | None]) -> FeedText | None:
        """What those with one view are sent after a revision; made for the first of them."""
        found = self._shown.get((view, revision))
        if found is None and (found := make()) is not None:
            if sum(len(each.text) for each in self._shown.values()) + len(found.text) > SHOWN_MAX_BYTES:
                self._shown.clear()
            self._shown[view, revision] = found
        return found

    def forget(self) -> None:
        """Empty it: something belongs to another project now, so that other callers may see it."""
        self._entries, self._begins_after, self._notifications, self._shown = [], None, -1, {}

    async def _catch_up(self, read: Read, notifications: int) -> None:
        """To what is written now; from there, where that would be more than is kept."""

        def unit(connection: Connection) -> tuple[int, list[FeedEntry] | None]:
            current = changes.current(connection)
            if self._begins_after is None or not 0 <= current - self._reaches <= self._kept:
                return current, None
            if current == self._reaches:
                return current, []
            self.homes = organization_store.homes(connection)
            return current, entries_after(connection, self._rendered, self.homes, self._reaches, self._kept)

        current, found = await read(unit)
        if found is None:
            self._entries, self._begins_after, self._reaches, self._shown = [], current, current, {}
        elif found:
            self._add(found)
        self._notifications = notifications

    def _add(self, found: list[FeedEntry]) -> None:
        self._shown = {}
        self._entries += [entry for entry in found if entry.revision > self._reaches]
        self._reaches = self._entries[-1].revision
        if len(self._entries) > 2 * self._kept:
            self._begins_after = self._entries[-self._kept - 1].revision
            del self._entries[: -self._kept]


def entries_after(
    connection: Connection, rendered: RenderedCache, homes: Homes, revision: int, most: int
) -> list[FeedEntry]:
    """Changes after a revision with their words, from the database. A workload is shown as it is by now."""
    found = changes.after(connection, revision, most)
    ids = list(dict.fromkeys(each.id for each in found if each.noun == "workload"))
    keys = workload_store.keys_of(connection, ids)
    texts = dict(zip(keys, rendered.items(connection, [key for key, _ in keys.values()]), strict=True))
    shown = {each: (texts[each], texts[each], keys[each][1]) for each in keys} | _decisions(connection, found)
    return [
        _entry(each, *shown[each.id], homes)
        if each.noun in ("workload", DECISION) and each.id in shown
        else _entry(each, None, None, each.project, homes)
        for each in found
    ]


def _decisions(connection: Connection, found: Sequence[changes.Changed]) -> dict[str, tuple[str, str, str]]:
    """Decisions among these changes as JSON, for callers who see all projects and for others, with the project that
    their workload is in now; by id."""
    ids = [each.id.rpartition("/") for each in found if each.noun == DECISION]
    rows = decision_store.some(connection, [(cluster, int(number)) for cluster, _, number in ids])
    return {
        f"{cluster}/{number}": (_decision(row, sees_all=True), _decision(row, sees_all=False), row.project)
        for (cluster, number), row in rows.items()
    }


def _decision(row: Any, *, sees_all: bool) -> str:
    return compact(decision_item(row, sees_all=sees_all).model_dump(mode="json", by_alias=True))


def _entry(
    change: changes.Changed, item: str | None, item_of_some: str | None, project_now: str | None, homes: Homes
) -> FeedEntry:
    bare = _line(change, None)
    line = _line(change, item) if item is not None else bare
    return FeedEntry(
        change=change,
        line=line,
        line_of_some=line if item_of_some is item else _line(change, item_of_some),
        without_object=bare,
        nameless=_line(changes.Changed(change.revision, change.noun, "", None, "changed"), None),
        home=homes.get(change.project or "", NO_HOME),
        project_now=project_now,
        home_now=homes.get(project_now or "", NO_HOME),
    )


def _line(change: changes.Changed, item: str | None) -> bytes:
    data: dict[str, Any] = {
        "revision": change.revision,
        "noun": change.noun,
        "id": change.id,
        "verb": change.verb,
    }
    if change.project is not None:
        data["projectId"] = former_name(change.project)
    text = json.dumps(data, separators=(",", ":"))
    if item is not None:
        text = f'{text[:-1]},"object":{item}}}'
    return f"id: {change.revision}\nevent: {change.noun}\ndata: {text}\n\n".encode()
