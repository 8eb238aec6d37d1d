"""A policy as it is written, read into defaults and rules by field, or everything that is wrong with it. Pure.

{"defaults": {"compute": {"cpuCoreRequest": 2}}, "rules": {"compute": {"cpuCoreRequest": {"max": 8}}}}

Lists are written as `{instances, attributes}`: items that every workload gets, and values (or rules) of each item.
Policies of distributed workloads have a section `worker` and may have one `master`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from fairpool.api.problems import ProblemItem, ProblemList
from fairpool.api.workload_spec import Kind
from fairpool.control.policy_fields import OTHER_NAMES, FieldType, PolicyField, policy_fields
from fairpool.control.resource_request import bytes_of
from fairpool.control.template_values import BY_NAME, NESTED, POD_FIELDS, Values, put_at
from fairpool.model.spelling import did_you_mean

READ_ONLY = ("sourceOfRule", "sources", "status")
"""In answers; an effective policy can be sent back without them being taken for rules."""
RULE_KEYS = {
    FieldType.YES_NO: ("required", "canEdit"),
    FieldType.OBJECT: ("required", "canEdit"),
    FieldType.ITEMS: ("required", "canEdit"),
    FieldType.TEXT: ("required", "canEdit", "options"),
    FieldType.WORDS: ("required", "canEdit", "options"),
    FieldType.TEXTS: ("required", "canEdit", "options"),
}
RANGE_KEYS = ("required", "canEdit", "options", "min", "max", "step", "defaultFrom")
ITEM_KEYS = ("canAdd", "locked")
TEXT_MAX = 4096
OPTIONS_MAX = 1024


@dataclass(frozen=True, slots=True)
class DefaultFrom:
    """The default of a field is a multiple of another one of the same section."""

    path: str
    factor: Decimal = Decimal(1)


@dataclass(frozen=True, slots=True)
class FieldRule:
    """What one policy says about the values of a field. Quantities are compared in bytes."""

    required: bool = False
    can_edit: bool = True
    minimum: Decimal | None = None
    maximum: Decimal | None = None
    step: Decimal | None = None
    options: tuple[str, ...] | None = None
    default_from: DefaultFrom | None = None
    written: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """As the administrator wrote it, for messages."""


@dataclass(frozen=True, slots=True)
class ItemRule:
    """What one policy says about the items of a list."""

    can_add: bool = True
    locked: tuple[str, ...] = ()
    """Keys of default items that stay as they are."""


@dataclass(frozen=True, slots=True)
class Section:
    """Defaults and rules for the pods of a workload, or for its master."""

    defaults: Values = field(default_factory=dict)
    """As a submit would have them."""
    attributes: Mapping[str, Values] = field(default_factory=dict)
    """By list: values for each of its items that does not have them."""
    rules: Mapping[str, FieldRule] = field(default_factory=dict)
    items: Mapping[str, ItemRule] = field(default_factory=dict)
    attribute_rules: Mapping[str, Mapping[str, FieldRule]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkloadPolicy:
    """A policy for one kind of workload."""

    kind: Kind
    section: Section = field(default_factory=Section)
    master: Section | None = None
    imposed: tuple[str, ...] = ()
    """Ids of assets that every workload gets."""


def read_policy(kind: Kind, document: Values) -> WorkloadPolicy | list[ProblemItem]:
    """The policy, or all that is wrong with how it is written."""
    reader = _Reader(kind)
    found = reader.policy(document)
    return reader.problems or found


class _Reader:
    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.fields = policy_fields(kind)
        self.problems = ProblemList()

    def policy(self, document: Values) -> WorkloadPolicy:
        known = ("defaults", "rules", "imposedAssets")
        self._known(document, (*known, *READ_ONLY), "policy")
        parts = {name: self._object(document.get(name), f"policy.{name}") for name in ("defaults", "rules")}
        imposed = self._imposed(document.get("imposedAssets"))
        if self.kind is not Kind.DISTRIBUTED:
            return WorkloadPolicy(self.kind, self._section(parts["defaults"], parts["rules"], ""), None, imposed)
        halves = {}
        for half in ("worker", "master"):
            own = {name: self._object(part.get(half), f"policy.{name}.{half}") for name, part in parts.items()}
            halves[half] = self._section(own["defaults"], own["rules"], half)
        for name, part in parts.items():
            for other in part.keys() - {"worker", "master"}:
                fix = "write it under worker, master or both"
                place = f"policy.{name}.{other}"
                self._wrong("policy.section", f"{place} is neither worker nor master", fix, place)
        has_master = any("master" in part for part in parts.values())
        return WorkloadPolicy(self.kind, halves["worker"], halves["master"] if has_master else None, imposed)

    def _imposed(self, given: Any) -> tuple[str, ...]:
        place = "policy.imposedAssets"
        if self.kind is Kind.DISTRIBUTED and isinstance(given, Mapping):
            self._known(given, ("worker", "master"), place)
            given = [each for half in given.values() for each in (half if isinstance(half, list) else [half])]
        if given is None:
            return ()
        if not isinstance(given, list) or not all(isinstance(each, str) and 0 < len(each) <= 64 for each in given):
            self._wrong("policy.type", f"{place} must be a list of ids of assets", "use ids as `-o json` shows", place)
            return ()
        return tuple(dict.fromkeys(given))

    def _section(self, defaults: Values, rules: Values, half: str) -> Section:
        inside = f".{half}" if half else ""
        values: dict[str, Any] = {}
        attributes: dict[str, Values] = {}
        for path, place, given in self._by_field(defaults, f"policy.defaults{inside}", half):
            if _is_sent_anyway(path, given):
                continue
            self._default(self.fields[path], given, place, values, attributes)
        plain: dict[str, FieldRule] = {}
        items: dict[str, ItemRule] = {}
        inner: dict[str, Mapping[str, FieldRule]] = {}
        for path, place, given in self._by_field(rules, f"policy.rules{inside}", half):
            known = self.fields[path]
            if (
                known.type is FieldType.ITEMS
                and isinstance(given, Mapping)
                and given.keys() & {"instances", "attributes"}
            ):
                self._known(given, ("instances", "attributes"), place)
                if given.get("instances") is not None:
                    items[path] = self._item_rule(given["instances"], f"{place}.instances")
                inner[path] = self._attribute_rules(known, given.get("attributes"), f"{place}.attributes")
            else:
                plain[path] = self._rule(known, given, place)
        return Section(values, attributes, plain, items, {path: each for path, each in inner.items() if each})

    def _by_field(self, given: Values, place: str, half: str) -> Iterator[tuple[str, str, Any]]:
        """Each known field, its place in the policy, and what is said about it; refuses the others."""
        for name, value in given.items():
            if value is None:
                continue
            if name in NESTED and isinstance(value, Mapping):
                pairs = [(f"{name}.{below}", each) for below, each in value.items() if each is not None]
            else:
                pairs = [(str(name), value)]
            for path, each in pairs:
                own = OTHER_NAMES.get(path, path)
                if own not in self.fields:
                    self._no_field(path, place)
                elif half == "master" and own.partition(".")[0] not in POD_FIELDS:
                    what = f"the master has no {path} of its own"
                    self._wrong("policy.field", what, "write it under worker", f"{place}.{path}")
                else:
                    yield own, f"{place}.{path}", each

    def _no_field(self, path: str, place: str) -> None:
        fix = did_you_mean(path, list(self.fields), "see the fields of workloads in the API's reference")
        self._wrong(
            "policy.field", f"a {self.kind.value.lower()} has no field {path[:128]}", fix, f"{place}.{path}"[:256]
        )

    # --- defaults ---------------------------------------------------------------------------------------------

    def _default(self, known: PolicyField, given: Any, place: str, values: Any, attributes: Any) -> None:
        if known.type is not FieldType.ITEMS:
            put_at(values, known.path, given)
            return
        is_parts = isinstance(given, Mapping) and set(given) <= {"instances", "attributes"}
        if known.path in BY_NAME and isinstance(given, Mapping) and not is_parts:
            put_at(values, known.path, dict(given))
            return
        said = given if isinstance(given, Mapping) else {"instances": given}
        self._known(said, ("instances", "attributes"), place)
        instances = said.get("instances") or []
        if not isinstance(instances, list) or not all(isinstance(each, Mapping) for each in instances):
            self._wrong("policy.type", f"{place}.instances must be a list of items", "write one item per line", place)
            return
        found = [self._instance(known, each) for each in instances]
        if found and known.path in BY_NAME:
            put_at(values, known.path, {str(each.get("name")): each.get("value") for each in found})
        elif found:
            put_at(values, known.path, found)
        if own := self._attribute_values(known, said.get("attributes"), f"{place}.attributes"):
            attributes[known.path] = own

    def _instance(self, known: PolicyField, given: Values) -> Any:
        said = {
            name: value for name, value in given.items() if value is not None and (name, value) != ("exclude", False)
        }
        return {known.other_names.get(name, name): each for name, each in said.items()}

    def _attribute_values(self, known: PolicyField, given: Any, place: str) -> Values:
        found = {}
        for name, each in self._by_attribute(known, given, place):
            if isinstance(each, Mapping | list):
                what = f"{place}.{name} must be {known.attributes[name].type.value}"
                self._wrong("policy.type", what, "correct it", f"{place}.{name}")
            else:
                found[name] = each
        return found

    def _by_attribute(self, known: PolicyField, given: Any, place: str) -> Iterator[tuple[str, Any]]:
        for name, each in self._object(given, place).items():
            own = known.other_names.get(name, name)
            inner = [attribute for attribute in known.attributes if attribute.startswith(f"{own}.")]
            if each is None:
                continue
            if own in known.attributes and own != known.key:
                yield own, each
            elif inner and isinstance(each, Mapping):
                for below, value in each.items():
                    if f"{own}.{below}" in known.attributes and value is not None:
                        yield f"{own}.{below}", value
                    elif value is not None:
                        self._no_attribute(known, f"{own}.{below}", place)
            else:
                self._no_attribute(known, str(name), place)

    def _no_attribute(self, known: PolicyField, name: str, place: str) -> None:
        names = [each for each in known.attributes if each != known.key]
        what = f"the items of {known.path} have no attribute {name[:64]} that a policy can set"
        fix = did_you_mean(name, names, f"use one of {', '.join(names)}")
        self._wrong("policy.field", what, fix, f"{place}.{name}"[:256])

    # --- rules ------------------------------------------------------------------------------------------------

    def _attribute_rules(self, known: PolicyField, given: Any, place: str) -> Mapping[str, FieldRule]:
        return {
            name: self._rule(known.attributes[name], each, f"{place}.{name}")
            for name, each in self._by_attribute(known, given, place)
        }

    def _item_rule(self, given: Any, place: str) -> ItemRule:
        said = self._object(given, place)
        self._known(said, (*ITEM_KEYS, *READ_ONLY), place)
        can_add, locked = said.get("canAdd", True), said.get("locked") or []
        self._yes_no(can_add, f"{place}.canAdd")
        if not isinstance(locked, list):
            self._wrong(
                "policy.type", f"{place}.locked must be a list of keys", "name default items", f"{place}.locked"
            )
            locked = []
        return ItemRule(can_add is not False, tuple(str(each) for each in locked))

    def _rule(self, known: PolicyField, given: Any, place: str) -> FieldRule:
        said = {name: each for name, each in self._object(given, place).items() if each is not None}
        self._known(said, (*RULE_KEYS.get(known.type, RANGE_KEYS), *READ_ONLY), place)
        said = {name: each for name, each in said.items() if name not in READ_ONLY}
        for name in ("required", "canEdit"):
            self._yes_no(said.get(name, True), f"{place}.{name}")
        amounts = {name: self._amount(known, said.get(name), f"{place}.{name}") for name in ("min", "max", "step")}
        if amounts["step"] is not None and amounts["step"] <= 0:
            self._wrong("policy.step", f"{place}.step must be greater than 0", "correct it", f"{place}.step")
            amounts["step"] = None
        least, most = amounts["min"], amounts["max"]
        if least is not None and most is not None and least > most:
            what = f"{place}: min ({said['min']}) is greater than max ({said['max']})"
            self._wrong("policy.range", what, "lower min or raise max", place)
        return FieldRule(
            required=said.get("required") is True,
            can_edit=said.get("canEdit") is not False,
            minimum=least,
            maximum=most,
            step=amounts["step"],
            options=self._options(known, said.get("options"), f"{place}.options"),
            default_from=self._default_from(known, said.get("defaultFrom"), f"{place}.defaultFrom"),
            written=said,
        )

    def _amount(self, known: PolicyField, given: Any, place: str) -> Decimal | None:
        if given is None or not known.type.has_range:
            return None
        found = amount(known.type, given)
        if found is None or found < 0:
            self._wrong(
                "policy.type", f"{place} must be {known.type.value}, and is {str(given)[:64]!r}", "correct it", place
            )
        return found

    def _options(self, known: PolicyField, given: Any, place: str) -> tuple[str, ...] | None:
        if given is None:
            return None
        if not isinstance(given, list) or not 0 < len(given) <= OPTIONS_MAX:
            fix = "write one value per line, or remove it"
            self._wrong("policy.options", f"{place} must be a list of 1 to {OPTIONS_MAX} values", fix, place)
            return None
        found = []
        for index, each in enumerate(given):
            value = each.get("value") if isinstance(each, Mapping) else each
            if isinstance(each, Mapping):
                self._known(each, ("value", "displayed"), f"{place}.{index}")
            if not isinstance(value, str | int | float) or isinstance(value, bool) or len(str(value)) > TEXT_MAX:
                self._wrong(
                    "policy.type", f"{place}.{index} must be {known.type.value}", "correct it", f"{place}.{index}"
                )
            elif known.type.has_range and amount(known.type, value) is None:
                what = f"{place}.{index} must be {known.type.value}, and is {str(value)[:64]!r}"
                self._wrong("policy.type", what, "correct it", f"{place}.{index}")
            elif not known.type.has_range and not is_option_pattern(str(value)):
                what = f"{place}.{index}: * can only be at the end, after / or :"
                self._wrong("policy.pattern", what, "write e.g. registry.example.com/team/*", f"{place}.{index}")
            else:
                found.append(str(value))
        return tuple(dict.fromkeys(found))

    def _default_from(self, known: PolicyField, given: Any, place: str) -> DefaultFrom | None:
        if given is None:
            return None
        said = self._object(given, place)
        self._known(said, ("field", "factor"), place)
        section = known.path.rpartition(".")[0]
        path = str(said.get("field", ""))
        path = path if "." in path or not section else f"{section}.{path}"
        other, factor = self.fields.get(path), amount(FieldType.NUMBER, said.get("factor", 1))
        is_alike = other is not None and other.type.has_range and is_quantity(other) == is_quantity(known)
        if not is_alike or path.rpartition(".")[0] != section or path == known.path:
            what = f"{place}.field must be another field of {section or 'the workload'} of the same type"
            self._wrong("policy.default_from", what, "name it as it is written there", f"{place}.field")
            return None
        if factor is None or factor <= 0:
            self._wrong("policy.type", f"{place}.factor must be a number above 0", "correct it", f"{place}.factor")
            return None
        return DefaultFrom(path, factor)

    # --- shapes -----------------------------------------------------------------------------------------------

    def _object(self, given: Any, place: str) -> Values:
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            self._wrong("policy.type", f"{place} must be an object", "see docs/reference/policies.md", place)
            return {}
        return given

    def _known(self, given: Values, known: tuple[str, ...], place: str) -> None:
        for name in given:
            if name not in known:
                fix = did_you_mean(
                    str(name), list(known), f"use {', '.join(each for each in known if each not in READ_ONLY)}"
                )
                self._wrong("policy.key", f"{place} has no {str(name)[:64]}", fix, f"{place}.{name}"[:256])

    def _yes_no(self, given: Any, place: str) -> None:
        if not isinstance(given, bool) and given is not None:
            self._wrong("policy.type", f"{place} must be true or false", "correct it", place)

    def _wrong(self, code: str, what: str, fix: str, place: str) -> None:
        self.problems.add(code, what, fix, place)


def _is_sent_anyway(path: str, given: Any) -> bool:
    """Defaults that clients of the original send with every policy for distributed workloads, whatever is asked for.
    They are what happens anyway, and no workload is given them."""
    home = path == "sshAuthMountPath" and str(given).endswith("/.ssh")
    return home or (path == "slotsPerWorker" and given == 1)


def amount(kind: FieldType, given: Any) -> Decimal | None:
    """A number to compare, in bytes for a quantity; None: it is not one."""
    if isinstance(given, bool):
        return None
    if kind is FieldType.QUANTITY:
        size = bytes_of(str(given)) if isinstance(given, str | int) else None
        return None if size is None else Decimal(size)
    if kind is FieldType.WHOLE:
        return Decimal(given) if isinstance(given, int) else None
    if isinstance(given, int | float):
        found = Decimal(repr(given))
        return found if found.is_finite() else None
    text = given if isinstance(given, str) else ""
    digits = text.replace(".", "", 1)
    return Decimal(text) if digits.isascii() and digits.isdigit() and len(text) <= 32 else None


def is_quantity(known: PolicyField) -> bool:
    return known.type is FieldType.QUANTITY


def is_option_pattern(text: str) -> bool:
    """Whether `*` is used in a way that is understood: `registry.example.com/*`, `python:*`, or alone."""
    before, star, after = text.partition("*")
    return not star or (not after and (not before or before[-1] in "/:"))
