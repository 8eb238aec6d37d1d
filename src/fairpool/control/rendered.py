"""Cache of rendered workloads: their JSON as lists and details answer it, by id and revision.

A workload is rendered from its row when it is first asked for in its present state, and most are asked for again
before they change: lists are refreshed every few seconds. The least recently used ones are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairpool.control import items
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.store.workloads import Key

CHARACTERS_MAX = 16 * 1024 * 1024
"""Of all texts together: about ten thousand workloads, in lists and with their details."""

Render = Callable[[Any], str]


class RenderedCache:
    """Texts by key and kind. For one event loop."""

    def __init__(self, most: int = CHARACTERS_MAX) -> None:
        self._most = most
        self._characters = 0
        self._texts: dict[tuple[Render, Key], str] = {}
        """The least recently used first."""

    def items(self, connection: Connection, keys: Sequence[Key]) -> list[str]:
        """Workloads as lists show them. One that was purged meanwhile is left out."""
        found = {key: self._known(items.item_text, key) for key in keys}
        missing = [key.id for key, text in found.items() if text is None]
        rows = store.some(connection, missing) if missing else {}
        rendered = ((found[key] or self._of_row(items.item_text, rows.get(key.id))) for key in keys)
        return [text for text in rendered if text is not None]

    def detail(self, row: Any) -> str:
        """A workload with all details, from its row."""
        return self._known(items.detail_text, key_of(row)) or self._rendered(items.detail_text, row)

    def _of_row(self, render: Render, row: Any) -> str | None:
        return None if row is None else self._rendered(render, row)

    def _known(self, render: Render, key: Key) -> str | None:
        text = self._texts.pop((render, key), None)
        if text is not None:
            self._texts[render, key] = text
        return text

    def _rendered(self, render: Render, row: Any) -> str:
        key = (render, key_of(row))
        text = render(row)
        self._characters += len(text) - len(self._texts.pop(key, ""))
        self._texts[key] = text
        while self._characters > self._most:
            self._characters -= len(self._texts.pop(next(iter(self._texts))))
        return text


def key_of(row: Any) -> Key:
    return Key(row.id, row.revision, row.report_revision)
