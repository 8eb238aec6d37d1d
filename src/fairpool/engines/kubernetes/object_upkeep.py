"""Calls about many objects, independent of each other: one at a time for each object, with a back-off of its own.

A call that fails is repeated later, twice as long after each failure; one that takes long goes on beside the others.
Before some calls are begun, `confirm` asks whether this loop still leads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from fairpool.engines.kubernetes.failures import EquipmentMissing, KubernetesError
from fairpool.engines.kubernetes.manifests import ObjectKey, ObjectManifest

log = logging.getLogger("fairpool.kubernetes")

FIRST_RETRY_S, LONGEST_RETRY_S = 1.0, 60.0
AT_ONCE = 50
"""Calls that are begun together: after each of these it is asked again who leads."""
PATIENCE_S = 2.0
"""So long the calls that were begun together are waited for; then the next ones are begun."""


class ObjectCall(NamedTuple):
    """Something to do about an object."""

    key: ObjectKey
    call: Callable[[], Awaitable[None]]
    wanted: ObjectManifest | None = None
    """What it should be; None: it should not exist."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """Why the last call about an object failed, and when it is repeated."""

    words: str
    wanted: ObjectManifest | None
    """If something else is wanted by then, it is tried at once."""
    again_at: float
    delay_s: float


class ObjectUpkeep:
    """Calls about the objects of one event loop."""

    def __init__(self, steady: Callable[[], float], on_late_end: Callable[[], None]) -> None:
        """`on_late_end` is called when a call has ended for which `run` did not wait."""
        self._steady, self._on_late_end = steady, on_late_end
        self._under_way: dict[ObjectKey, asyncio.Task[None]] = {}
        self._failed: dict[ObjectKey, FailedCall] = {}

    @property
    def failures(self) -> dict[ObjectKey, str]:
        """Why calls failed, of objects of which the last one did."""
        return {key: each.words for key, each in self._failed.items()}

    @property
    def is_pending(self) -> Collection[ObjectKey]:
        """Objects that are not known to be as they should."""
        return self._failed.keys() | self._under_way.keys()

    @property
    def next_at(self) -> float:
        """When the next call is to be repeated."""
        waiting = (each.again_at for key, each in self._failed.items() if key not in self._under_way)
        return min(waiting, default=float("inf"))

    def keep(self, keys: Collection[ObjectKey]) -> None:
        """Forget the failures of all other objects: nothing is to be done about them."""
        self._failed = {key: each for key, each in self._failed.items() if key in keys}

    async def run(self, calls: Iterable[ObjectCall], confirm: Callable[[], Awaitable[None]]) -> None:
        """Make those calls that are due. What `confirm` raises is raised, and no more calls are begun."""
        due = [each for each in calls if self._is_due(each)]
        for first in range(0, len(due), AT_ONCE):
            some = due[first : first + AT_ONCE]
            await confirm()
            begun = [asyncio.create_task(self._make(each), name=f"keep {each.key}") for each in some]
            self._under_way.update({each.key: task for each, task in zip(some, begun, strict=True)})
            _, late = await asyncio.wait(begun, timeout=PATIENCE_S)
            for task in late:
                task.add_done_callback(lambda _: self._on_late_end())

    async def close(self) -> None:
        """End the calls that are under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_due(self, each: ObjectCall) -> bool:
        if each.key in self._under_way:
            return False
        failed = self._failed.get(each.key)
        return failed is None or failed.wanted != each.wanted or self._steady() >= failed.again_at

    async def _make(self, each: ObjectCall) -> None:
        try:
            await each.call()
        except (KubernetesError, EquipmentMissing) as error:
            self._note(each, str(error))
        except Exception as error:  # a bug, which must not stop the others
            log.exception("%s is not as declared", each.key)
            self._note(each, f"{type(error).__name__} {error}".rstrip())
        else:
            self._failed.pop(each.key, None)
        finally:
            self._under_way.pop(each.key, None)

    def _note(self, each: ObjectCall, words: str) -> None:
        before = self._failed.get(each.key)
        is_same = before is not None and before.wanted == each.wanted
        delay = min(2 * before.delay_s, LONGEST_RETRY_S) if before is not None and is_same else FIRST_RETRY_S
        if before is None or before.words != words:
            what = "is not as declared" if each.wanted is not None else "cannot be removed"
            log.warning("%s %s: %s", each.key, what, words)
        self._failed[each.key] = FailedCall(words, each.wanted, self._steady() + delay, delay)
