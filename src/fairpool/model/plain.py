"""JSON codec for dataclasses, driven by type hints: an object with a key for each field.

The ledger stores what has no columns of its own this way, and the simulated engine its state file. A new field needs
nothing here unless its type is new. Every field is written, also one that has its default: a default that
changes later must not change what was meant when the value was written. A field that is missing takes the default,
since it is newer than the text.

Files of snapshots are columns of such values; only a dataclass inside a row is written in another way there, as the
number of a row in the table of its class (`scheduler/row_codec.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

SHOWN_MAX = 60
"""Characters of a wrong value in a message."""


class Unreadable(Exception):
    """The text does not hold what the type asks for; the message says where and what."""


def encode(value: object) -> Any:
    """A dataclass as what JSON can hold."""
    return OBJECTS.of(type(value)).encode(value)


def decode(cls: Callable[..., T], data: Any) -> T:
    """The value that was encoded as this, or `Unreadable`."""
    value: T = OBJECTS.of(cls).decode(data)
    return value


def text_of(hint: Any) -> Callable[[Any], str]:
    """A function that writes values of a type as JSON text, the same text for equal values."""
    encode_one = OBJECTS.of(hint).encode
    # Escaped to ASCII: half a surrogate pair, as in a badly decoded file name, is text to Python and not to SQLite.
    to_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
    return lambda value: to_json(encode_one(value))


def value_of(hint: Any) -> Callable[[str], Any]:
    """A function that reads values of a type from JSON text."""
    decode_one = OBJECTS.of(hint).decode

    def read(text: str) -> Any:
        try:
            data = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise Unreadable(f"{shown(text)} is not JSON: {error}") from None
        return decode_one(data)

    return read


class Codec:
    """How values of one type are written and read."""

    as_it_is: type | None = None
    """What has this very type in JSON is the value; asked first, because most fields of most values are like that."""

    def encode(self, value: Any) -> Any:
        raise NotImplementedError

    def decode(self, data: Any) -> Any:
        raise NotImplementedError


class Codecs:
    """The codecs of types, each made once. What differs from use to use is how a dataclass is written."""

    def __init__(self, record: Callable[[type], Codec]) -> None:
        self._record = record
        self._made: dict[Any, Codec] = {}

    def of(self, hint: Any) -> Codec:
        """The codec of a type. A type that is not listed here is stored nowhere yet."""
        codec = self._made.get(hint)
        if codec is None:
            codec = self._made[hint] = self._make(hint)
        return codec

    def _make(self, hint: Any) -> Codec:
        if hasattr(hint, "__supertype__"):
            return self.of(hint.__supertype__)
        origin, parts = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType) and len(parts) == 2 and NoneType in parts:
            return _Optional(self.of(parts[0] if parts[1] is NoneType else parts[1]))
        if origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
            return _Many(self.of(parts[0]))
        if origin is tuple:
            return _Fixed(tuple(self.of(part) for part in parts))
        if origin is frozenset:
            return _Set(self.of(parts[0]))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return _Map(self.of(parts[0]), self.of(parts[1]))
        if isinstance(hint, type) and issubclass(hint, StrEnum):
            return _Word(hint)
        if isinstance(hint, type) and is_dataclass(hint):
            return self._record(hint)
        if hint in SCALARS:
            return SCALARS[hint]
        raise TypeError(f"there is no codec for {hint}")


class _Scalar(Codec):
    """A value that JSON holds as it is."""

    def __init__(self, kind: type, noun: str) -> None:
        self.as_it_is = self.kind = kind
        self.noun = noun

    def encode(self, value: Any) -> Any:
        return value if type(value) is self.kind else self.kind(value)

    def decode(self, data: Any) -> Any:
        if type(data) is not self.kind:  # bool is an int to isinstance
            raise Unreadable(f"{shown(data)} is not {self.noun}")
        return data


class _Real(Codec):
    """A float, to the bit. JSON has no words for infinity and not-a-number: they become text."""

    def encode(self, value: Any) -> Any:
        real = float(value)
        return real if math.isfinite(real) else str(real)

    def decode(self, data: Any) -> Any:
        if type(data) is float or (type(data) is int and abs(data) <= 2**53) or data in ("inf", "-inf", "nan"):
            return float(data)
        raise Unreadable(f"{shown(data)} is not a number")


SCALARS: Mapping[Any, Codec] = {
    str: _Scalar(str, "a text"),
    int: _Scalar(int, "a whole number"),
    bool: _Scalar(bool, "true or false"),
    float: _Real(),
}


class _Word(Codec):
    """One of the words of an enum."""

    def __init__(self, enum: type[StrEnum]) -> None:
        self.words = {member.value: member for member in enum}

    def encode(self, value: Any) -> Any:
        return value.value

    def decode(self, data: Any) -> Any:
        if type(data) is not str or data not in self.words:
            raise Unreadable(f"{shown(data)} is not one of: {', '.join(self.words)}")
        return self.words[data]


class _Optional(Codec):
    def __init__(self, inner: Codec) -> None:
        self.inner = inner
        self.as_it_is = inner.as_it_is

    def encode(self, value: Any) -> Any:
        return None if value is None else self.inner.encode(value)

    def decode(self, data: Any) -> Any:
        return None if data is None else self.inner.decode(data)


class _Many(Codec):
    """A tuple of any length."""

    def __init__(self, inner: Codec) -> None:
        self.inner = inner

    def encode(self, value: Any) -> Any:
        return [self.inner.encode(each) for each in value]

    def decode(self, data: Any) -> Any:
        if type(data) is not list:
            raise Unreadable(f"{shown(data)} is not a list")
        return tuple([self.inner.decode(each) for each in data]) if data else ()


class _Set(_Many):
    """A set, in sorted order."""

    def encode(self, value: Any) -> Any:
        return sorted(super().encode(value))

    def decode(self, data: Any) -> Any:
        return frozenset(super().decode(data))


class _Fixed(Codec):
    """A tuple of so many parts, each of its own type."""

    def __init__(self, parts: tuple[Codec, ...]) -> None:
        self.parts = parts

    def encode(self, value: Any) -> Any:
        return [part.encode(each) for part, each in zip(self.parts, value, strict=True)]

    def decode(self, data: Any) -> Any:
        if type(data) is not list or len(data) != len(self.parts):
            raise Unreadable(f"{shown(data)} is not a list of {len(self.parts)}")
        return tuple([part.decode(each) for part, each in zip(self.parts, data, strict=True)])


class _Map(Codec):
    """A mapping from words, in the order of its keys, so that equal mappings are equal texts."""

    def __init__(self, key: Codec, value: Codec) -> None:
        if key is not SCALARS[str] and not isinstance(key, _Word):
            raise TypeError("a mapping whose keys are not texts has no place in JSON")
        self.key, self.value = key, value

    def encode(self, value: Any) -> Any:
        return {self.key.encode(key): self.value.encode(value[key]) for key in sorted(value)}

    def decode(self, data: Any) -> Any:
        if type(data) is not dict:
            raise Unreadable(f"{shown(data)} is not an object")
        return {self.key.decode(key): self.value.decode(each) for key, each in data.items()}


class _Record(Codec):
    """A dataclass, by the names of its fields."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    @cached_property
    def parts(self) -> dict[str, Codec]:
        """Found at first use, since a class may hold values of its own kind."""
        hints = get_type_hints(self.cls)
        return {each.name: OBJECTS.of(hints[each.name]) for each in fields(self.cls)}

    @cached_property
    def required(self) -> tuple[str, ...]:
        return tuple(each.name for each in fields(self.cls) if not _has_default(each))

    def encode(self, value: Any) -> Any:
        return {name: part.encode(getattr(value, name)) for name, part in self.parts.items()}

    def decode(self, data: Any) -> Any:
        if type(data) is not dict:
            raise Unreadable(f"{shown(data)} is not an object")
        parts, name = self.parts, ""
        given: dict[str, Any] = {}
        try:
            for name, each in data.items():
                part = parts[name]
                given[name] = each if type(each) is part.as_it_is else part.decode(each)
            return self.cls(**given)
        except KeyError:
            raise Unreadable(f"{self.cls.__name__} has no field {shown(name)}; it has {', '.join(parts)}") from None
        except Unreadable as error:
            raise Unreadable(f"{self.cls.__name__}.{name}: {error}") from None
        except TypeError:
            missing = [name for name in self.required if name not in given]
            if not missing:
                raise
            raise Unreadable(f"{self.cls.__name__} lacks {', '.join(missing)}") from None


OBJECTS = Codecs(_Record)
"""Every dataclass is an object, wherever it is."""


def _has_default(each: Field[Any]) -> bool:
    return each.default is not MISSING or each.default_factory is not MISSING


def shown(data: Any) -> str:
    """A wrong value, short enough for a message."""
    text = repr(data)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
