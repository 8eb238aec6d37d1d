"""Base classes of requests and answers: camelCase, strict fields, names and pages."""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import Annotated, Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_serializer, model_validator
from pydantic import ValidationError as ValidationError  # imported from here, so that pydantic stays in few modules
from pydantic.alias_generators import to_camel
from pydantic_core import from_json, to_json

from fairpool.api.limits import LABEL_NAME_MAX, NAME_PATTERN, PROJECT_NAME_MAX

ProjectName = Annotated[
    str, StringConstraints(pattern=NAME_PATTERN, max_length=PROJECT_NAME_MAX), Field(examples=["team-a"])
]
PoolNameText = Annotated[
    str, StringConstraints(pattern=NAME_PATTERN, max_length=LABEL_NAME_MAX), Field(examples=["default"])
]
ShortText = Annotated[str, StringConstraints(max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$")]
LongText = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*$")]
Moment = Annotated[str, Field(examples=["2026-11-15T12:00:00.000Z"], description="ISO 8601, in UTC")]


class Request(BaseModel):
    """A request body. Unknown fields are refused, so that a typing mistake is reported and not ignored."""

    model_config = ConfigDict(
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,
        allow_inf_nan=False,
        frozen=True,
        hide_input_in_errors=True,  # it may be a password, and errors are printed
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, said: Any) -> Any:
        """The original's client sends null for what was not set: it means the default, where null is no value."""
        if not isinstance(said, dict) or None not in said.values():
            return said
        never = _never_null(cls)
        return {name: value for name, value in said.items() if value is not None or name not in never}

    def wire(self) -> dict[str, Any]:
        """As JSON values, without fields that are not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


@cache
def _never_null(kind: type[BaseModel]) -> frozenset[str]:
    """Names, also as they travel, of fields that have a default and that cannot be null."""
    return frozenset(
        spelling
        for name, info in kind.model_fields.items()
        if not info.is_required() and not (info.annotation is Any or NoneType in get_args(info.annotation))
        for spelling in (name, info.alias)
        if spelling is not None
    )


class Answer(BaseModel):
    """An answer. Unknown fields are ignored: newer servers may send more than older clients know."""

    model_config = ConfigDict(
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,
        frozen=True,
        hide_input_in_errors=True,
    )


class AnswerWithNulls(Answer):
    """An answer that sends some fields as null where it has no value: the models of the original's client require them.

    All other fields without a value are left out, as everywhere.
    """

    nulls: ClassVar[tuple[str, ...]] = ()
    """As they travel: `lastLogin`."""

    @model_serializer(mode="wrap")
    def _with_nulls(self, serialize: Any):  # type: ignore[no-untyped-def]  # with a type, the schema would be that type
        return dict.fromkeys(self.nulls) | serialize(self)


class Page(Answer):
    """One page of a list; `next` is the offset of the next one, and absent at the end."""

    next: int | None = Field(default=None, description="Offset of the next page; absent on the last one")


def parse_json(text: bytes) -> Any:
    """Parse JSON; raises ValueError."""
    return from_json(text)


def compact(value: object) -> str:
    """Compact JSON, three times as fast as the standard library. What is no number in JSON (NaN) is null there."""
    return to_json(value, inf_nan_mode="null").decode()


class Count(Answer):
    """A number of items."""

    count: int
