"""Base of the messages between control plane and cluster: strict values, versions, all problems at once.

A `Wire` mirrors one class of the model field by field. While the two agree, `of` and `to_model` need nothing more;
once the model changes, the wire class keeps the old fields and overrides the two.

Both sides speak the present version and the one before. A field that came with a version is marked with `Since`: it is
left out of messages to a side that announced an earlier version (`to_json`), and `newer_fields` says what that loses. A
field that was renamed is marked with `renamed`, until the version that knew its former name is no longer spoken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Final, Literal, Self, TypeVar, get_args, get_origin

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from fairpool.model.problem import Problem

VERSION: Final = 3
"""Of pull and push. Rises with a release that adds a field or gives one another meaning; `test_wire.py` keeps a
fingerprint of each."""
PREVIOUS: Final = 2
"""Also spoken: clusters are upgraded after their control plane."""


@dataclass(frozen=True, slots=True)
class Since:
    """Annotates a field with the version it came with. It has a default, which is what its absence means."""

    version: int


def renamed(before: str, after: str) -> Any:
    """Annotates a field with its name in the previous version: read under both, written as the other side knows it."""
    return Field(validation_alias=AliasChoices(after, before), serialization_alias=before)


class Wire(BaseModel):
    """A value in a message. Unknown fields are refused: one that is silently dropped is a promise broken."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, from_attributes=True, allow_inf_nan=False, defer_build=True
    )

    mirrors: ClassVar[Any] = None
    """The dataclass of the model that it carries, if it carries one."""

    @classmethod
    def of(cls, value: object) -> Self:
        """The wire of a value of the model."""
        return cls.model_validate(value, strict=False)  # a mapping of the model need not be a dict

    def to_model(self) -> Any:
        """The value of the model that it carries."""
        values = self.__dict__
        given = {
            name: _unwrapped(values[name]) if has_wires else values[name]
            for name, has_wires in _mirrored_fields(type(self))
        }
        return self.mirrors(**given)

    def to_json(self, version: int = VERSION, *, without: str = "") -> str:
        """As text, with the fields and names of this version, and without this one."""
        if version == VERSION:
            return self.model_dump_json(exclude={without} if without else None)
        left_out = _left_out(type(self), version) | ({without: True} if without else {})
        return self.older(version).model_dump_json(exclude=left_out, by_alias=True)

    def older(self, version: int) -> Self:
        """The same value for a side that speaks this version."""
        return self

    def newer_fields(self, version: int) -> Iterator[str]:
        """The fields it uses that are not known in this version, by their path."""
        for name, since in _dates(type(self)).items():
            value = getattr(self, name)
            if since > version and value != type(self).model_fields[name].get_default(call_default_factory=True):
                yield name
            else:
                yield from (f"{name}.{path}" for each in _inside(value) for path in each.newer_fields(version))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """From text that this program wrote; what was received goes through `read_message`."""
        return cls.model_validate_json(text)


class Message(Wire):
    """What is sent as a whole."""

    version: Literal[2, 3] = VERSION

    def older(self, version: int) -> Self:
        return self.model_copy(update={"version": version})


MessageT = TypeVar("MessageT", bound=Message)

PROBLEMS_MAX: Final = 100
"""That are named of one message."""
ERRORS_MAX: Final = 10_000


def read_message(kind: type[MessageT], text: str | bytes) -> MessageT | list[Problem]:
    """A message that was received, or what is wrong with it."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        return wire_problems(kind.__name__, error)


def wire_problems(kind: str, error: ValidationError, first: int = 0) -> list[Problem]:
    """What is wrong with a message of this kind, or with rows of a list that begin with this number; not all of it."""
    number_wrong = error.error_count()
    if number_wrong > ERRORS_MAX:  # to list them takes gigabytes
        return [Problem("wire.wrong_value", f"{kind} has {number_wrong} wrong values", "correct it at the sender")]
    problems: list[Problem] = []
    for each in error.errors(include_url=False):
        if each["loc"] == ("version",):
            # Of a message in another version nothing else is worth saying.
            what = f"this {kind} has protocol version {each['input']!r}; this side speaks {PREVIOUS} and {VERSION}"
            fix = "run the same release of Fairpool on both sides; upgrade the control plane first, then its clusters"
            return [Problem("wire.version", what, fix)]
        if len(problems) >= PROBLEMS_MAX:
            continue
        number, *path = each["loc"] or ("",)
        loc = [number + first if isinstance(number, int) else number, *path]
        place = ".".join(str(part) for part in (kind, *loc) if part != "")
        if each["type"] == "extra_forbidden":
            fix = "remove it, or update this side if the sender is newer"
            problems.append(Problem("wire.unknown_field", f"{place} is not a known field", fix))
        else:
            what = f"{place}: {each['msg'][0].lower()}{each['msg'][1:]}"
            problems.append(Problem("wire.wrong_value", what, "correct it at the sender; the message was ignored"))
    return problems


@cache
def _dates(kind: type[Wire]) -> dict[str, int]:
    """By field: the version it came with; 0: it was always there."""
    return {
        name: max((each.version for each in field.metadata if isinstance(each, Since)), default=0)
        for name, field in kind.model_fields.items()
    }


@cache
def _left_out(kind: type[Wire], version: int) -> dict[str, Any]:
    """What pydantic is to exclude from a message in this version: fields, and fields of what is in them."""
    left_out: dict[str, Any] = {}
    for name, since in _dates(kind).items():
        if since > version:
            left_out[name] = True
        for inner, many in _wires_in(kind.model_fields[name].annotation):
            inside = _left_out(inner, version)
            if inside and name not in left_out:
                left_out[name] = {"__all__": inside} if many else inside
    return left_out


def _wires_in(annotation: Any, many: bool = False) -> Iterator[tuple[type[Wire], bool]]:
    """The wire classes that a field holds, and whether it holds several values of them."""
    if isinstance(annotation, type) and issubclass(annotation, Wire):
        yield annotation, many
    for part in get_args(annotation):
        yield from _wires_in(part, many or get_origin(annotation) in (tuple, list, dict))


def _inside(value: Any) -> Iterator[Wire]:
    """The wire values in a field."""
    if isinstance(value, Wire):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _inside(each)
    elif isinstance(value, dict):
        yield from _inside(list(value.values()))


@cache
def _mirrored_fields(kind: type[Wire]) -> tuple[tuple[str, bool], ...]:
    """The fields of the mirrored class, and whether they hold wire values; the others are taken over as they are."""
    names = [each.name for each in fields(kind.mirrors)]
    return tuple((name, any(_wires_in(kind.model_fields[name].annotation))) for name in names)


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Wire):
        return value.to_model()
    if isinstance(value, tuple):
        return tuple(_unwrapped(each) for each in value)
    if isinstance(value, dict):
        return {key: _unwrapped(each) for key, each in value.items()}
    return value
