"""Cache of rendered workloads: their JSON as lists and details answer it, by id and revision.

A workload is rendered from its row when it is first asked for in its present state, and most are asked for again
before they change: lists are refreshed every few seconds. What was rendered first is dropped first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fairpool.api.gateway_address import GatewayAddress
from fairpool.control import items
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.store.workloads import Key

CHARACTERS_MAX = 8 * 1024 * 1024
"""Of the texts in lists, and of those with details: some thousand workloads each."""


class RenderedCache:
    """Workloads as JSON texts. For one event loop, except `looked_up`."""

    def __init__(self, most: int = CHARACTERS_MAX, gateway: GatewayAddress | None = None) -> None:
        self._items = _Texts(partial(items.item_text, gateway=gateway), most)
        self._details = _Texts(partial(items.detail_text, gateway=gateway), most)

    def items(self, connection: Connection, keys: Sequence[Key]) -> list[str]:
        """Workloads as lists show them. One that was purged meanwhile is left out."""
        return self.texts(self.looked_up(connection, keys))

    def looked_up(self, connection: Connection, keys: Sequence[Key]) -> list[Any]:
        """The text of each workload, or its row if it is still to be rendered. Also from another thread."""
        found: list[Any] = list(map(self._items.known.get, keys))
        missing = [key.id for key, text in zip(keys, found, strict=True) if text is None]
        if not missing:
            return found
        rows = store.some(connection, missing)
        known = ((key, text) for key, text in zip(keys, found, strict=True) if text is not None or key.id in rows)
        return [rows[key.id] if text is None else text for key, text in known]

    def texts(self, found: Sequence[Any]) -> list[str]:
        """What was looked up, as texts."""
        return [each if isinstance(each, str) else self._items.render(each) for each in found]

    def detail(self, row: Any) -> str:
        """A workload with all details, from its row."""
        return self._details.known.get(key_of(row)) or self._details.render(row)


class _Texts:
    """Texts by key, up to so many characters."""

    def __init__(self, render: Callable[[Any], str], most: int) -> None:
        self._render, self._most = render, most
        self._characters = 0
        self.known: dict[Key, str] = {}

    def render(self, row: Any) -> str:
        key, text = key_of(row), self._render(row)
        self._characters += len(text) - len(self.known.pop(key, ""))
        self.known[key] = text
        while self._characters > self._most:
            self._characters -= len(self.known.pop(next(iter(self.known))))
        return text


def key_of(row: Any) -> Key:
    return Key(row.id, row.revision, row.report_revision)
