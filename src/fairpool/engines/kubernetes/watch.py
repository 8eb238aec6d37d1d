"""Watches: the objects of a resource type and their changes, across lost connections and expired versions.

`changes` lists once and then follows. It resumes where it was cut off, and lists again when the API server does not
know that place any more (410), so that no deletion is missed. Events that come twice or in the wrong order, as they do
when a watch is resumed at another API server, are dropped.

Where the data of an API server was restored from a backup, its versions are lower than before. A watch from a place in
the future would be accepted and stay silent, so each time it is asked first how far the API server has come.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import msgspec

from fairpool.engines.kubernetes.client import PAGE, KubernetesClient, Query
from fairpool.engines.kubernetes.failures import ApiUnreachable, BadAnswer, KubernetesError, TooManyRequests, refusal
from fairpool.engines.kubernetes.resources import ApiResource, Identified, Object

T = TypeVar("T", bound=Identified)
Key = tuple[str, str]
"""Namespace and name."""

SILENCE_S = 90.0
"""The API server sends a bookmark every minute; a connection without any is dead."""
WATCH_S = (300, 600)
"""How long the API server is asked to keep a watch: random, so that watches do not all end together."""
SHORT_S = 1.0
"""A watch that ends sooner is begun again with a delay."""
FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 10.0
DELETED_MAX = 20_000
"""Deleted objects that are remembered, so that a late event does not bring one back."""


class WatchEvent(NamedTuple, Generic[T]):
    """An object was created, modified or deleted."""

    object: T
    """If it was deleted: its last version."""
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class WatchBatch(Generic[T]):
    """What a watch learned at once, in order."""

    events: list[WatchEvent[T]]
    resource_version: str
    is_complete: bool = False
    """After a list: the events are everything that exists, and whatever is not among them has been deleted."""
    is_restored: bool = False
    """Versions are lower than before: whatever is known, also from answers to calls, is of another past."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchScope:
    """Which objects of a resource type are watched."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


EVERYTHING = WatchScope()


def ignore(_failure: KubernetesError) -> None:
    """Drop a failure: the default of `on_failure`."""


async def changes(
    client: KubernetesClient,
    resource: ApiResource,
    answer: type[T],
    scope: WatchScope = EVERYTHING,
    *,
    silence_s: float = SILENCE_S,
    page: int = PAGE,
    on_failure: Callable[[KubernetesError], None] = ignore,
) -> AsyncGenerator[WatchBatch[T], None]:
    """Everything that exists, then changes as they come, until cancelled.

    Bookmarks, and watches that begin, are batches without events. Lost connections, errors of the API server
    and missing permissions are reported to `on_failure` and tried again with a growing delay; they are not raised.
    """
    position, newest, failures, versions = "", 0, 0, NewestVersions()
    while True:
        began, has_failed = time.monotonic(), False
        try:
            if position and version_number(await client.newest_version(resource, namespace=scope.namespace)) < newest:
                position = ""
            if not position:
                listing = await client.list(
                    resource, answer, namespace=scope.namespace, labels=scope.labels, fields=scope.fields, page=page
                )
                position = listing.resource_version
                versions.listed(listing.items, position)
                is_restored, newest = version_number(position) < newest, version_number(position)
                events = [WatchEvent(each) for each in listing.items]
                yield WatchBatch(events, position, is_complete=True, is_restored=is_restored)
            async with aclosing(_followed(client, resource, answer, scope, position, silence_s)) as batches:
                async for batch in batches:
                    if batch.resource_version:
                        position, failures = batch.resource_version, 0
                        newest = max(newest, version_number(position))
                    yield replace(batch, events=[each for each in batch.events if versions.is_news(each)])
        except KubernetesError as error:
            on_failure(error)
            has_failed = True
            if not isinstance(error, ApiUnreachable | TooManyRequests):
                position = ""
        if has_failed or time.monotonic() - began < SHORT_S:
            failures += 1
            await asyncio.sleep(_delay(failures))


def _delay(failures: int) -> float:
    return min(FIRST_DELAY_S * 2.0 ** min(failures - 1, 20), LONGEST_DELAY_S) * random.uniform(0.5, 1.5)


async def _followed(
    client: KubernetesClient,
    resource: ApiResource,
    answer: type[T],
    scope: WatchScope,
    position: str,
    silence_s: float,
) -> AsyncGenerator[WatchBatch[T], None]:
    """Events after `position` until the API server ends the watch; as many in a batch as have arrived."""
    name = f"watch {resource.plural}"
    query: Query = {
        "watch": True,
        "allowWatchBookmarks": True,
        "resourceVersion": position,
        "timeoutSeconds": random.randint(*WATCH_S),
        "labelSelector": scope.labels,
        "fieldSelector": scope.fields,
    }
    decoder = client.decoder(answer)
    async with client.stream(name, resource.path(scope.namespace), query, silence_s=silence_s) as parts:
        yield WatchBatch([], "")  # it has been accepted; the first event may be far away
        async for lines in _lines(parts):
            batch, failure = _decoded(name, decoder, lines)
            yield batch
            if failure is not None:
                raise failure


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Complete lines, as many as there are. The rest of a connection that was cut off is dropped: it comes again."""
    rest: list[bytes] = []
    async for part in parts:
        head, newline, tail = part.rpartition(b"\n")
        if not newline:
            rest.append(part)
            continue
        yield b"".join((*rest, head)).split(b"\n")
        rest = [tail] if tail else []


class _Line(msgspec.Struct, gc=False):
    """One line of a watch. Its type says what the object is: that of a bookmark is not valid as one of its kind."""

    type: str
    object: msgspec.Raw


_line = msgspec.json.Decoder(_Line)
_bookmark = msgspec.json.Decoder(Object)


def _decoded(
    name: str, decoder: msgspec.json.Decoder[T], lines: Iterable[bytes]
) -> tuple[WatchBatch[T], KubernetesError | None]:
    """The events of these lines up to an error, and the error."""
    events: list[WatchEvent[T]] = []
    position = ""
    failure: KubernetesError | None = None
    try:
        for text in lines:
            if not text:
                continue
            line = _line.decode(text)
            if line.type == "ERROR":
                failure = refusal(name, 500, bytes(line.object))
                break
            if line.type == "BOOKMARK":
                position = _bookmark.decode(line.object).metadata.resource_version
                continue
            thing = decoder.decode(line.object)
            events.append(WatchEvent(thing, line.type == "DELETED"))
            position = thing.metadata.resource_version
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        failure = BadAnswer(name, str(error))
    return WatchBatch(events, position), failure


# --- which events are news -------------------------------------------------------------------------------------------


class NewestVersions:
    """The newest version of each object that a watch has reported, by which late and repeated events are recognized."""

    def __init__(self) -> None:
        self._known: dict[Key, int] = {}
        self._deleted: dict[Key, int] = {}
        self._listed_at = 0

    def listed(self, things: Iterable[Identified], resource_version: str) -> None:
        """Everything that exists. A list counts even if versions are lower than before: after a restored backup."""
        self._known = {key_of(each): version_number(each.metadata.resource_version) for each in things}
        self._deleted = {}
        self._listed_at = version_number(resource_version)

    def is_news(self, event: WatchEvent[T]) -> bool:
        """Whether the event is newer than what was reported of its object; if so, it is what was reported now."""
        key, version = key_of(event.object), version_number(event.object.metadata.resource_version)
        known = self._known.get(key)
        if known is None:
            if 0 < version <= max(self._listed_at, self._deleted.get(key, 0)):
                return False
        elif 0 < version < known or (version == known > 0 and not event.is_deleted):
            return False
        if event.is_deleted:
            self._delete(key, version)
        else:
            self._known[key] = version
        return True

    def _delete(self, key: Key, version: int) -> None:
        self._known.pop(key, None)
        self._deleted.pop(key, None)
        self._deleted[key] = version
        if len(self._deleted) > DELETED_MAX:
            del self._deleted[next(iter(self._deleted))]


def key_of(thing: Identified) -> Key:
    return thing.metadata.namespace, thing.metadata.name


def version_number(resource_version: str) -> int:
    """Resource versions are decimal numbers that grow, in every API server up to now; 0 for anything else."""
    return int(resource_version) if resource_version.isascii() and resource_version.isdecimal() else 0
