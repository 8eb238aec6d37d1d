"""Base of the messages between control plane and cluster: strict values, versions, all problems at once.

A `Wire` mirrors one class of the model field by field. While the two agree, `of` and `to_model` need nothing more;
once the model changes, the wire class keeps the old fields and overrides the two.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, Final, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from fairpool.model.problem import Problem

VERSION: Final = 2
"""Of pull and push. Rises when a field is added or means something else; `test_wire.py` keeps a fingerprint of each."""


class Wire(BaseModel):
    """A value in a message. Unknown fields are refused: one that is silently dropped is a promise broken."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, from_attributes=True, allow_inf_nan=False)

    mirrors: ClassVar[Any] = None
    """The dataclass of the model that it carries, if it carries one."""

    @classmethod
    def of(cls, value: object) -> Self:
        """The wire of a value of the model."""
        return cls.model_validate(value, strict=False)  # a mapping of the model need not be a dict

    def to_model(self) -> Any:
        """The value of the model that it carries."""
        return self.mirrors(**{name: _unwrapped(getattr(self, name)) for name in _field_names(self.mirrors)})

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """From text that this program wrote; what was received goes through `read`."""
        return cls.model_validate_json(text)


class Message(Wire):
    """What is sent as a whole."""

    version: Literal[2] = VERSION


MessageT = TypeVar("MessageT", bound=Message)


def read(kind: type[MessageT], text: str | bytes) -> MessageT | list[Problem]:
    """A message that was received, or all that is wrong with it."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        return _problems(kind.__name__, error)


def _problems(kind: str, error: ValidationError) -> list[Problem]:
    problems = []
    for each in error.errors(include_url=False):
        if each["loc"] == ("version",):
            # Of a message in another version nothing else is worth saying.
            what = f"this {kind} has protocol version {each['input']!r}, but this side uses {VERSION}"
            return [Problem("wire.version", what, "run the same release of Fairpool on both sides")]
        place = ".".join(str(part) for part in (kind, *each["loc"]))
        if each["type"] == "extra_forbidden":
            fix = "remove it, or update this side if the sender is newer"
            problems.append(Problem("wire.unknown_field", f"{place} is not a known field", fix))
        else:
            what = f"{place}: {each['msg'][0].lower()}{each['msg'][1:]}"
            problems.append(Problem("wire.wrong_value", what, "correct it at the sender; the message was ignored"))
    return problems


@cache
def _field_names(mirrored: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(mirrored))


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Wire):
        return value.to_model()
    if isinstance(value, tuple):
        return tuple(_unwrapped(each) for each in value)
    if isinstance(value, dict):
        return {key: _unwrapped(each) for key, each in value.items()}
    return value
