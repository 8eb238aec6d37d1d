"""What an entry of the audit log says about changes: rows before and after, bounded. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairpool.control.store.recording import RowChange

TEXT_MAX: Final = 200
"""Characters of one value."""
CHANGES_MAX: Final = 16 * 1024
"""Bytes of all changes of one entry."""


def of_each(changes: Sequence[RowChange], entities: Sequence[tuple[str, str]]) -> list[list[RowChange]]:
    """The changes that belong to each entry, by the id and name of its entity; the others are the first one's."""
    if len(entities) == 1:
        return [list(changes)]
    places = {each: number for number, entity in reversed(list(enumerate(entities))) for each in entity if each}
    found: list[list[RowChange]] = [[] for _ in entities]
    for change in changes:
        keys = [*map(str, change.key), "/".join(map(str, change.key))]
        found[next((places[key] for key in keys if key in places), 0)].append(change)
    return found


def as_text(changes: Sequence[RowChange]) -> str:
    """As it is stored; empty: nothing changed."""
    if not changes:
        return ""
    text = _json([_entry(each, each.before, each.after) for each in changes])
    if len(text) > CHANGES_MAX:
        text = _json([_entry(each, _short(each.before), _short(each.after)) for each in changes])
    if len(text) > CHANGES_MAX:
        text = _json([{**_entry(each, None, None), "fields": _names(each)} for each in changes[:TEXT_MAX]])
    if len(text) > CHANGES_MAX:
        text = _json([{"kind": "…", "id": f"{len(changes)} rows, too many to list"}])
    return text


def _entry(change: RowChange, before: Any, after: Any) -> dict[str, Any]:
    sides = {name: side for name, side in (("before", before), ("after", after)) if side is not None}
    return {"kind": change.table, "id": "/".join(map(str, change.key)), **sides}


def _names(change: RowChange) -> list[str]:
    names = sorted({*(change.before or ()), *(change.after or ())})
    return [name[:TEXT_MAX] for name in names[:TEXT_MAX]]


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TEXT_MAX:
        return f"{value[:TEXT_MAX]}… ({len(value)} characters)"
    if isinstance(value, Mapping):
        return {key: _short(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_short(each) for each in value]
    return value


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
