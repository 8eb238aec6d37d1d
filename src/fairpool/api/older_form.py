"""Requests as clients of the original write them: other names for the same fields, and values that ask for nothing.

A model that derives from `OlderForm` takes both forms, and holds one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import model_validator

from fairpool.api.wire import Request


class OlderForm(Request):
    """Takes other names for its fields as well, and values of other fields that ask for nothing."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {}
    """Its own name of each field that has another one."""
    ASKING_NOTHING: ClassVar[Mapping[str, Any]] = {}
    """Fields that clients send with this value, or with null; with any other value they are refused as unknown."""

    @model_validator(mode="before")
    @classmethod
    def _own_form(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        kept = {key: value for key, value in given.items() if not cls._asks_nothing(key, value)}
        return cls.own_form({cls._own_name(key, kept): value for key, value in kept.items()})

    @classmethod
    def own_form(cls, given: dict[str, Any]) -> dict[str, Any]:
        """For forms that differ in more than names."""
        return given

    @classmethod
    def _asks_nothing(cls, key: str, value: Any) -> bool:
        if key not in cls.ASKING_NOTHING:
            return False
        usual = cls.ASKING_NOTHING[key]
        return value is None or (type(value) is type(usual) and value == usual)

    @classmethod
    def _own_name(cls, key: str, given: Mapping[str, Any]) -> str:
        own = cls.OTHER_NAMES.get(key, key)
        return key if own in given else own
