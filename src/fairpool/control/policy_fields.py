"""The fields of workloads that a policy can speak about, with the type of each; read off the submit requests. Pure.

A field that a later release adds to a submit can be in a policy at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, get_args, get_origin

from fairpool.api import workload_spec as wire
from fairpool.api.pod_spec import QUANTITY_PATTERN
from fairpool.control.template_values import BY_NAME, KEYS, NESTED, ONE_SUBMIT_ONLY, SPECS


class FieldType(StrEnum):
    """What a field holds, in words for messages."""

    TEXT = "a text"
    WORDS = "a text or a list of words"
    WHOLE = "a whole number"
    NUMBER = "a number"
    QUANTITY = "a quantity such as 4Gi"
    YES_NO = "true or false"
    TEXTS = "a list of texts"
    ITEMS = "a list"
    OBJECT = "an object"

    @property
    def has_range(self) -> bool:
        return self in (FieldType.WHOLE, FieldType.NUMBER, FieldType.QUANTITY)


@dataclass(frozen=True, slots=True)
class PolicyField:
    """A field of a workload, or an attribute of the items of one."""

    path: str
    type: FieldType
    default: Any = None
    """The value of a workload that does not set it, where the request itself has one."""
    key: str = ""
    """Of items: the attribute that tells them apart; empty: the whole item."""
    attributes: Mapping[str, PolicyField] = field(default_factory=dict)
    """Of items: `mountPath`, `claimInfo.size`."""
    other_names: Mapping[str, str] = field(default_factory=dict)
    """Of items: names of attributes in older policies."""
    model: Any = None
    """Of items: how one is validated."""


NOT_IN_POLICIES = frozenset({*ONE_SUBMIT_ONLY, "assets", "masterSpec", "masterSpecSameAsWorker"})
OTHER_NAMES = {"createHomeDir": "security.createHomeDir"}
"""Fields that are elsewhere in policies of the original."""
OTHER_ATTRIBUTES = {"storage.configMapVolume": {"configMap": "name"}, "storage.secretVolume": {"secret": "name"}}


@cache
def policy_fields(kind: wire.Kind) -> Mapping[str, PolicyField]:
    """Every field of a kind of workload that a policy can speak about, by its path: `compute.cpuCoreRequest`."""
    return {each.path: each for each in _fields(SPECS[kind], "")}


def _fields(model: Any, prefix: str) -> Iterator[PolicyField]:
    for info in model.model_fields.values():
        path = f"{prefix}{info.alias}"
        inner = _model_of(info.annotation)
        if not prefix and info.alias in NOT_IN_POLICIES:
            continue
        if not prefix and info.alias in NESTED and inner is not None:
            yield from _fields(inner, f"{path}.")
        else:
            yield _field(path, info)


def _field(path: str, info: Any) -> PolicyField:
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    if path in BY_NAME:
        return PolicyField(
            path, FieldType.ITEMS, key="name", attributes={"value": PolicyField("value", FieldType.TEXT)}
        )
    item = next((_model_of(get_args(each)[0]) for each in _leaves(info.annotation) if get_origin(each) is list), None)
    if item is not None:
        names = {each.path: each for each in _attributes(item, "")}
        others = OTHER_ATTRIBUTES.get(path, {})
        key = KEYS.get(path, "")
        return PolicyField(path, FieldType.ITEMS, key=key, attributes=names, other_names=others, model=item)
    plain = default.value if isinstance(default, StrEnum) else default
    return PolicyField(path, _type(info), default=plain if isinstance(plain, str | int | float) else None)


def _attributes(model: Any, prefix: str) -> Iterator[PolicyField]:
    for info in model.model_fields.values():
        inner = _model_of(info.annotation)
        if inner is not None and not prefix:
            yield from _attributes(inner, f"{info.alias}.")
        else:
            yield _field(f"{prefix}{info.alias}", info)


def _type(info: Any) -> FieldType:
    leaves = list(_leaves(info.annotation))
    metadata = [*info.metadata, *_metadata(info.annotation)]
    if any(getattr(each, "pattern", None) == QUANTITY_PATTERN for each in metadata):
        return FieldType.QUANTITY
    is_list, is_text = any(get_origin(each) is list for each in leaves), any(_is(each, str) for each in leaves)
    if bool in leaves:
        return FieldType.YES_NO
    if float in leaves:
        return FieldType.NUMBER
    if int in leaves:
        return FieldType.WHOLE
    if is_list:
        return FieldType.WORDS if is_text else FieldType.TEXTS
    return FieldType.TEXT if is_text else FieldType.OBJECT


def _is(each: Any, kind: type) -> bool:
    return isinstance(each, type) and issubclass(each, kind)


def _leaves(annotation: Any) -> Iterator[Any]:
    """The types in a union, without their constraints; lists and mappings whole."""
    if hasattr(annotation, "__metadata__"):
        yield from _leaves(annotation.__origin__)
    elif get_origin(annotation) in (list, dict) or not get_args(annotation):
        yield annotation
    else:
        for each in get_args(annotation):
            yield from _leaves(each)


def _metadata(annotation: Any) -> Iterator[Any]:
    yield from getattr(annotation, "__metadata__", ())
    if get_origin(annotation) not in (list, dict):
        for each in get_args(annotation):
            yield from _metadata(each)


def _model_of(annotation: Any) -> Any:
    """The message in a type: alone, or `Model | None`."""
    return next((each for each in _leaves(annotation) if hasattr(each, "model_fields")), None)
