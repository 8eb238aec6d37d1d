"""Requests as clients of the original write them: other names for the same fields, and values that ask for nothing.

Those clients also send null for every field that they know and were not given.

A model that derives from `OlderForm` takes both forms, and holds one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

from pydantic import model_validator

from fairpool.api.wire import Request


@lru_cache(maxsize=256)
def _nullable(model: type[Request]) -> frozenset[str]:
    """Fields that have no value by default: null says that again, and in a change that the value is to be removed."""
    named = ((info.alias or name, name, info) for name, info in model.model_fields.items())
    return frozenset(each for *names, info in named if info.default is None for each in names)


class OlderForm(Request):
    """Takes other names for its fields as well, and values of other fields that ask for nothing."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {}
    """Its own name of each field that has another one."""
    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = {}
    """Fields that clients send with this value; with any other they are refused as unknown."""

    @model_validator(mode="before")
    @classmethod
    def _own_form(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        kept = {
            key: value
            for key, value in given.items()
            if not cls._asks_nothing(key, value) and not cls._is_said_twice(key, given)
        }
        return cls.own_form({cls._own_name(key, kept): value for key, value in kept.items()})

    @classmethod
    def own_form(cls, given: dict[str, Any]) -> dict[str, Any]:
        """For forms that differ in more than names."""
        return given

    @classmethod
    def _asks_nothing(cls, key: str, value: Any) -> bool:
        if value is None:
            return key not in _nullable(cls)
        usual = cls.ASKING_NOTHING.get(key)
        return type(value) is type(usual) and bool(value == usual)

    @classmethod
    def _is_said_twice(cls, key: str, given: Mapping[str, Any]) -> bool:
        """Answers have both names, and may be sent back."""
        own = cls.OTHER_NAMES.get(key)
        return own is not None and own in given and given[own] == given[key]

    @classmethod
    def _own_name(cls, key: str, given: Mapping[str, Any]) -> str:
        own = cls.OTHER_NAMES.get(key, key)
        return key if own in given else own
