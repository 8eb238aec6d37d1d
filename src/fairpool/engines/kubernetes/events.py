"""Kubernetes events about workloads and their pods, for people who look with kubectl: why one waits or was stopped.

There is one event for each object and reason; when its message changes, or it is noted again, it is written again.
They are written slowly, one after the other: nothing waits for them, and what cannot be written is left out.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.failures import KubernetesError
from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY
from fairpool.engines.kubernetes.resources import EVENTS, Object
from fairpool.model.ids import PodId, WorkloadId

log = logging.getLogger("fairpool.kubernetes")

INTERVAL_S = 0.05
"""Between two events, so that a thousand jobs that wait do not slow down the start of others."""
FAILURE_S = 5.0
"""After one that could not be written."""
SAME_S = 15.0
"""Between two messages of one object for the same reason: figures in it may change with every cycle."""
WAITING_MAX = 10_000
KNOWN_MAX = 20_000
MESSAGE_MAX = 1024
"""Of the newer form of the API."""
NAME_MAX = 200


@dataclass(frozen=True, slots=True)
class EventSubject:
    """The object that an event is about."""

    kind: str
    name: str
    namespace: str
    uid: str
    api_version: str = "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNote:
    """What happened, or is so."""

    about: EventSubject | PodId
    """A pod is looked up when the event is written; one that does not exist any more gets none."""
    reason: str
    """One word, as `kubectl get events` shows it."""
    message: str
    is_warning: bool = False


@dataclass(slots=True)
class LastEvent:
    """What was last written about an object for one reason."""

    first_at: str
    message: str
    count: int
    at_s: float


def workload_subject(workload: WorkloadId, name: str, namespace: str) -> EventSubject:
    """A workload. It has no object of its own: its events are found by its name."""
    return EventSubject("Workload", name, namespace, workload, "fairpool.io/v1")


class EventRecorder:
    """Writes events of one cluster. Made in the event loop that it belongs to."""

    def __init__(
        self,
        client: KubernetesClient,
        find_pod: Callable[[PodId], EventSubject | None],
        *,
        interval_s: float = INTERVAL_S,
        same_s: float = SAME_S,
    ) -> None:
        """`find_pod` is called in the event loop."""
        self._client, self._find_pod = client, find_pod
        self._interval_s, self._same_s = interval_s, same_s
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[EventSubject | PodId, str], EventNote] = {}
        self._later: dict[tuple[EventSubject | PodId, str], EventNote] = {}
        self._written: dict[tuple[EventSubject, str], LastEvent] = {}
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    def note(self, note: EventNote) -> None:
        """Have it written. From any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, note)

    async def close(self) -> None:
        """What was not written yet is left out."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _take(self, note: EventNote) -> None:
        if len(self._waiting) < WAITING_MAX:
            self._waiting[note.about, note.reason] = note
        if not self._is_closed and (self._task is None or self._task.done()):
            self._task = self._loop.create_task(self._write_all(), name="events")

    async def _write_all(self) -> None:
        while self._waiting:
            key = next(iter(self._waiting))
            delay_s = self._interval_s
            try:
                await self._write(self._waiting.pop(key))
            except KubernetesError as error:
                log.debug("an event was not written: %s", error)
                delay_s = FAILURE_S
            await asyncio.sleep(delay_s)

    def _put_off(self, note: EventNote, until_s: float) -> None:
        """Of what comes meanwhile for the same reason, the last is written then."""
        key = note.about, note.reason
        if key not in self._later:
            self._loop.call_at(until_s, lambda: self._take(self._later.pop(key)))
        self._later[key] = note

    async def _write(self, note: EventNote) -> None:
        subject = note.about if isinstance(note.about, EventSubject) else self._find_pod(note.about)
        if subject is None:
            return
        key, now_s = (subject, note.reason), self._loop.time()
        last = self._written.pop(key, None)
        if last is not None and now_s < last.at_s + self._same_s:
            self._written[key] = last
            self._put_off(note, last.at_s + self._same_s)
            return
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        now = LastEvent(last.first_at if last else at, note.message, last.count + 1 if last else 1, now_s)
        body = event_object(subject, note, now, at)
        await self._client.apply(EVENTS, body["metadata"]["name"], body, Object, namespace=subject.namespace)
        self._written[key] = now
        if len(self._written) > KNOWN_MAX:
            del self._written[next(iter(self._written))]


def event_object(subject: EventSubject, note: EventNote, written: LastEvent, at: str) -> dict[str, Any]:
    """The event of a subject for one reason."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": _name(subject, note.reason),
            "namespace": subject.namespace,
            "labels": {MANAGED_BY: FAIRPOOL},
        },
        "involvedObject": {
            "apiVersion": subject.api_version,
            "kind": subject.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "reason": note.reason,
        "message": note.message[:MESSAGE_MAX],
        "type": "Warning" if note.is_warning else "Normal",
        "source": {"component": FAIRPOOL},
        "reportingComponent": FAIRPOOL,
        "firstTimestamp": written.first_at,
        "lastTimestamp": at,
        "count": written.count,
    }


def _name(subject: EventSubject, reason: str) -> str:
    readable = re.sub("[^a-z0-9-]+", "-", subject.name.lower())[:NAME_MAX].strip("-") or "event"
    return f"{readable}.{hashlib.sha256(f'{subject.uid} {reason}'.encode()).hexdigest()[:16]}"
