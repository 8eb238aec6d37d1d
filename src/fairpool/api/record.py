"""Answers of the API as the client hands them out: JSON objects whose fields are also attributes.

The server has validated what it sends, so the client does not do it again: building the models of `api/` takes a
command longer than everything else it does. The models remain the static types of the answers.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any


class Record(dict[str, Any]):
    """A JSON object. `record.created_at` is `record["createdAt"]`; a field that was not sent is None."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copying and pickling ask for
            raise AttributeError(name)
        return self.get(name) if name in self else self.get(camel(name))


@lru_cache(maxsize=1024)
def camel(name: str) -> str:
    """`created_at` as it travels: `createdAt`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def parse_answer(content: bytes) -> Record | list[Any]:
    """The object or list in a JSON text. It raises a ValueError for anything else."""
    found = json.loads(content, object_hook=Record)
    if not isinstance(found, Record | list):
        raise ValueError(f"expected a JSON object or list, not {type(found).__name__}")
    return found


def parse_object(content: bytes) -> Record:
    """The object in a JSON text. It raises a ValueError for anything else."""
    found = json.loads(content, object_hook=Record)
    if not isinstance(found, Record):
        raise ValueError(f"expected a JSON object, not {type(found).__name__}")
    return found


def parse_list(content: bytes) -> list[Any]:
    """The list in a JSON text. It raises a ValueError for anything else."""
    found = json.loads(content, object_hook=Record)
    if not isinstance(found, list):
        raise ValueError(f"expected a JSON list, not {type(found).__name__}")
    return found


def document(answer: object) -> Any:
    """A copy of an answer of the client, or of several or a part of one, in lists and dictionaries without attributes:
    to be printed as JSON or YAML, or changed and sent back."""
    if isinstance(answer, dict):
        return {name: document(inner) for name, inner in answer.items()}
    return [document(inner) for inner in answer] if isinstance(answer, list | tuple) else answer
