"""How a value of each type is written as JSON, and read back and checked; one class a kind of type.

`codec_of` chooses by type hint, so that a new field of a dataclass needs nothing here unless its type is new.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Protocol, Union, get_args, get_origin

SHOWN_MAX = 60
"""Characters of a wrong value in a message; it may be a whole column."""


class Unreadable(Exception):
    """A table does not hold what its class asks for; the text says where and what."""


class Writer(Protocol):
    """Whoever keeps the dataclasses that others refer to, while they are written."""

    def number(self, cls: type, value: object) -> int:
        """The number of a value among those of its class."""


class Reader(Protocol):
    """The same while they are read."""

    texts: dict[str, str]
    """Each text once."""

    def shared(self, cls: type) -> Sequence[Any]:
        """The values of a class that are known so far."""


class Codec:
    """How values of one type are written and read. The plain ones are written as they are."""

    def encode(self, value: Any, writer: Writer) -> Any:
        raise NotImplementedError

    def decode(self, raw: Any, reader: Reader) -> Any:
        raise NotImplementedError

    def decode_column(self, column: list[Any], reader: Reader) -> list[Any]:
        return [self.decode(raw, reader) for raw in column]


@cache
def codec_of(hint: Any) -> Codec:
    """The codec of a type. A type that is not listed here has no place in a snapshot yet."""
    if hasattr(hint, "__supertype__"):
        return codec_of(hint.__supertype__)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType) and len(parts) == 2 and NoneType in parts:
        return _Optional(codec_of(parts[0] if parts[1] is NoneType else parts[1]))
    if origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        return _Many(codec_of(parts[0]))
    if origin is tuple:
        return _Fixed(tuple(codec_of(part) for part in parts))
    if origin is frozenset:
        return _Set(codec_of(parts[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _Map(codec_of(parts[0]), codec_of(parts[1]))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _Word(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _Reference(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    raise TypeError(f"there is no codec for {hint}")


class _Plain(Codec):
    """A value that JSON holds as it is."""

    def __init__(self, kind: type, noun: str) -> None:
        self.kind, self.noun = kind, noun

    def encode(self, value: Any, writer: Writer) -> Any:
        return value if type(value) is self.kind else self.kind(value)

    def decode(self, raw: Any, reader: Reader) -> Any:
        if type(raw) is not self.kind:  # bool is an int to isinstance
            raise Unreadable(f"{_shown(raw)} is not {self.noun}")
        return raw

    def decode_column(self, column: list[Any], reader: Reader) -> list[Any]:
        if set(map(type, column)) <= {self.kind}:
            return column
        return super().decode_column(column, reader)


class _Text(_Plain):
    """Ids repeat from table to table: each is kept once in memory."""

    def decode_column(self, column: list[Any], reader: Reader) -> list[Any]:
        texts = super().decode_column(column, reader)
        same = reader.texts.setdefault
        return [same(text, text) for text in texts]


class _Real(Codec):
    """A float, exactly: JSON carries the shortest digits that give the same bits back, on every Python.

    JSON has no words for infinity and not-a-number, and a snapshot may hold them by mistake: they become text.
    """

    def encode(self, value: Any, writer: Writer) -> Any:
        real = float(value)
        return real if math.isfinite(real) else str(real)

    def decode(self, raw: Any, reader: Reader) -> Any:
        if type(raw) is float or (type(raw) is str and raw in ("inf", "-inf", "nan")):
            return float(raw)
        if type(raw) is int and abs(raw) <= 2**53:
            return float(raw)
        raise Unreadable(f"{_shown(raw)} is not a number")


PLAIN: Mapping[type, Codec] = {
    str: _Text(str, "a text"),
    int: _Plain(int, "a whole number"),
    bool: _Plain(bool, "true or false"),
    float: _Real(),
}


class _Word(Codec):
    """One of the words of an enum."""

    def __init__(self, enum: type[StrEnum]) -> None:
        self.words = {member.value: member for member in enum}

    def encode(self, value: Any, writer: Writer) -> Any:
        return value.value

    def decode(self, raw: Any, reader: Reader) -> Any:
        if type(raw) is not str or raw not in self.words:
            raise Unreadable(f"{_shown(raw)} is not one of: {', '.join(self.words)}")
        return self.words[raw]


class _Optional(Codec):
    def __init__(self, inner: Codec) -> None:
        self.inner = inner

    def encode(self, value: Any, writer: Writer) -> Any:
        return None if value is None else self.inner.encode(value, writer)

    def decode(self, raw: Any, reader: Reader) -> Any:
        return None if raw is None else self.inner.decode(raw, reader)

    def decode_column(self, column: list[Any], reader: Reader) -> list[Any]:
        there = iter(self.inner.decode_column([raw for raw in column if raw is not None], reader))
        return [None if raw is None else next(there) for raw in column]


class _Many(Codec):
    """A tuple of any length."""

    def __init__(self, inner: Codec) -> None:
        self.inner = inner

    def encode(self, value: Any, writer: Writer) -> Any:
        return [self.inner.encode(each, writer) for each in value]

    def decode(self, raw: Any, reader: Reader) -> Any:
        return tuple(self.inner.decode_column(_list(raw), reader)) if raw != [] else ()


class _Fixed(Codec):
    """A tuple of so many parts, each of its own type."""

    def __init__(self, parts: tuple[Codec, ...]) -> None:
        self.parts = parts

    def encode(self, value: Any, writer: Writer) -> Any:
        return [part.encode(each, writer) for part, each in zip(self.parts, value, strict=True)]

    def decode(self, raw: Any, reader: Reader) -> Any:
        if len(_list(raw)) != len(self.parts):
            raise Unreadable(f"{_shown(raw)} does not have {len(self.parts)} parts")
        return tuple(part.decode(each, reader) for part, each in zip(self.parts, raw, strict=True))


class _Set(Codec):
    """A set, in sorted order."""

    def __init__(self, inner: Codec) -> None:
        self.inner = inner

    def encode(self, value: Any, writer: Writer) -> Any:
        return sorted(self.inner.encode(each, writer) for each in value)

    def decode(self, raw: Any, reader: Reader) -> Any:
        return frozenset(self.inner.decode_column(_list(raw), reader))


class _Map(Codec):
    """A mapping, as pairs in sorted order: JSON's own has only texts for keys."""

    def __init__(self, key: Codec, value: Codec) -> None:
        self.key, self.value = key, value

    def encode(self, value: Any, writer: Writer) -> Any:
        pairs = ((self.key.encode(key, writer), each) for key, each in value.items())
        return [[key, self.value.encode(each, writer)] for key, each in sorted(pairs, key=lambda pair: pair[0])]

    def decode(self, raw: Any, reader: Reader) -> Any:
        if any(len(_list(pair)) != 2 for pair in _list(raw)):
            raise Unreadable(f"{_shown(raw)} is not a list of pairs")
        return {self.key.decode(key, reader): self.value.decode(each, reader) for key, each in raw}


class _Reference(Codec):
    """A dataclass, as its number in the table of its class."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def encode(self, value: Any, writer: Writer) -> Any:
        return writer.number(self.cls, value)

    def decode(self, raw: Any, reader: Reader) -> Any:
        known = reader.shared(self.cls)
        if type(raw) is not int or not 0 <= raw < len(known):
            raise Unreadable(f"{_shown(raw)} is not the number of an earlier row of {self.cls.__name__}")
        return known[raw]


def _shown(raw: Any) -> str:
    text = repr(raw)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def _list(raw: Any) -> list[Any]:
    if type(raw) is not list:
        raise Unreadable(f"{_shown(raw)} is not a list")
    return raw
