"""Whether a workload keeps to the rules of policies, and which policy of which scope it breaks. Pure.

Every rule of every scope holds: a policy of a narrower scope can add to the rules of the wider ones and never takes one
away. What cannot be compared is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from fairpool.api.assets import AssetScope
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import ValidationError, compact
from fairpool.control.policy_document import FieldRule, ItemRule, Section, WorkloadPolicy, amount
from fairpool.control.policy_fields import FieldType, PolicyField, policy_fields
from fairpool.control.policy_readings import (
    PodView,
    Reading,
    attribute_reading,
    capability,
    item_key,
    items_of,
    pod_views,
)
from fairpool.control.template_values import (
    GPU_PATHS,
    POD_FIELDS,
    WIDEST_FIRST,
    AssetValues,
    Defaults,
    Lock,
    Locks,
    Values,
    fields_in,
    said_alike,
    value_at,
)

LOCKED = "policy.locked"


@dataclass(frozen=True, slots=True)
class ScopedPolicy:
    """A policy that holds for a workload."""

    id: str
    name: str
    scope: AssetScope
    policy: WorkloadPolicy
    scope_id: str = ""
    scope_name: str = ""
    """Of a cluster, whose id says nothing to people; else the same."""
    imposed: tuple[AssetValues, ...] = ()
    """The assets that it imposes."""

    @property
    def origin(self) -> str:
        """`policy gpus (project team-a)`."""
        where = self.scope_name or self.scope_id
        return f"policy {self.name} ({self.scope.value}{f' {where}' if where else ''})"

    @property
    def width(self) -> int:
        return WIDEST_FIRST.index(self.scope)


def widest_first(policies: Iterable[ScopedPolicy]) -> list[ScopedPolicy]:
    return sorted(policies, key=lambda each: (each.width, each.id))


def rule_problems(policies: Iterable[ScopedPolicy], spec: Values) -> list[ProblemItem]:
    """Every rule that a workload breaks. `spec`: its values with all defaults filled in."""
    ordered = widest_first(policies)
    found: dict[tuple[str, str, str], ProblemItem] = {}
    for index, scoped in enumerate(ordered):
        for problem in _problems(scoped, spec, ordered[: index + 1]):
            found.setdefault((problem.code, problem.field or "", problem.what), problem)
    return list(found.values())


def _problems(scoped: ScopedPolicy, spec: Values, wider: Sequence[ScopedPolicy]) -> Iterator[ProblemItem]:
    policy = scoped.policy
    pods, master = pod_views(policy.kind, spec)
    views = [(pods, policy.section)]
    if policy.kind.value == "Distributed" and not spec.get("noMaster"):
        own = policy.master or Section()
        if master is not None:
            views.append((master, _with_workers(own, policy.section)))
        elif policy.master is not None:  # its master is one of the workers
            views.append((pods, own))
    for view, section in views:
        yield from _of_section(scoped, view, section, spec, wider)


def _with_workers(own: Section, workers: Section) -> Section:
    """The rules for a master: those of the pods hold for it where its own section is silent."""

    def joined(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> dict[str, Any]:
        pods = {path: each for path, each in theirs.items() if path.partition(".")[0] in POD_FIELDS}
        return {**pods, **mine}

    return Section(
        joined(dict(fields_in(workers.defaults)), dict(fields_in(own.defaults))),
        joined(workers.attributes, own.attributes),
        joined(workers.rules, own.rules),
        joined(workers.items, own.items),
        joined(workers.attribute_rules, own.attribute_rules),
    )


def _of_section(
    scoped: ScopedPolicy, view: PodView, section: Section, spec: Values, wider: Sequence[ScopedPolicy]
) -> Iterator[ProblemItem]:
    known, origin = policy_fields(view.kind), scoped.origin
    for path, rule in section.rules.items():
        if known[path].type is FieldType.ITEMS:
            yield from _of_list(origin, view, known[path], rule, section)
        else:
            yield from field_problems(origin, view, known[path], rule, view.reading(path), _default(section, path))
    for path, rules in section.attribute_rules.items():
        for _, item in items_of(view.values, known[path]):
            for attribute, rule in rules.items():
                reading = attribute_reading(view, known[path], item, attribute)
                inner = known[path].attributes[attribute]
                default = section.attributes.get(path, {}).get(attribute)
                yield from field_problems(origin, view, inner, rule, reading, default, f"{path}.{attribute}")
    for path, items in section.items.items():
        yield from _item_problems(origin, view, known[path], items, section, wider)
    yield from _imposed_problems(scoped, spec)


def _default(section: Section, path: str) -> Any:
    found = value_at(section.defaults, path)
    return section.defaults.get(path) if found is None else found


# --- one value -----------------------------------------------------------------------------------------------------


def field_problems(
    origin: str,
    view: PodView,
    known: PolicyField,
    rule: FieldRule,
    reading: Reading,
    default: Any = None,
    path: str = "",
) -> Iterator[ProblemItem]:
    """Why a value is not what one rule permits. `default`: the one of the same policy, which a locked field keeps."""
    place = path or known.path
    shown = reading.given_as or place
    prefix = "" if view.place == "spec" else f"{view.place.removeprefix('spec.')}."
    shown_as = f"{prefix}{shown}"
    because = f"{origin}" if shown == place else f"{origin}, by its rule for {place}"

    def problem(code: str, what: str, fix: str) -> ProblemItem:
        return ProblemItem(code=code, what=f"{shown_as} {what}: {because}", fix=fix, field=f"spec.{shown_as}")

    if rule.required and _is_absent(view, known, reading, place):
        yield problem("policy.required", "must be set", "set it in the request")
        return
    if not rule.can_edit and _is_edited(view, known, reading, default, place):
        to = "being left out" if default is None else _text(default)
        yield problem(LOCKED, f"is locked to {to}", "remove it" if default is None else f"set it to {to}")
    compares = rule.minimum is not None or rule.maximum is not None or rule.step is not None or rule.options is not None
    if not compares or reading.is_off:
        return
    if reading.unknown:
        if not _is_kept_anyway(rule, reading):
            what = f"cannot be compared with {_terms(rule)} ({reading.unknown})"
            yield problem("policy.unknown", what, reading.fix or f"set {place} to a value that is permitted")
        return
    yield from (problem(*each) for each in _comparisons(known, rule, reading))


def _is_kept_anyway(rule: FieldRule, reading: Reading) -> bool:
    """Whether a rule has only a minimum, and a value that is not known is known to be no less."""
    if rule.minimum is None or reading.least is None:
        return False
    return rule.minimum <= reading.least and (rule.maximum, rule.step, rule.options) == (None, None, None)


def _is_absent(view: PodView, known: PolicyField, reading: Reading, place: str) -> bool:
    if place != known.path:  # an attribute of an item
        return reading.value is None
    return all(view.given(each) is None for each in (GPU_PATHS if place in GPU_PATHS else (place,)))


def _comparisons(known: PolicyField, rule: FieldRule, reading: Reading) -> Iterator[tuple[str, str, str]]:
    """Code, what, fix."""
    written, value = rule.written, reading.value
    if known.type.has_range and value is None and not reading.is_unlimited:
        yield "policy.required", f"must be set, to {_terms(rule)}", "set it in the request"
        return
    if rule.maximum is not None and (reading.is_unlimited or value > rule.maximum):
        said = "it is unlimited" if reading.is_unlimited else f"it is {amount_text(known.type, value)}"
        yield "policy.max", f"must be no greater than {written['max']}, and {said}", f"use at most {written['max']}"
    if rule.minimum is not None and not reading.is_unlimited and value < rule.minimum:
        what = f"must be no less than {written['min']}, and it is {amount_text(known.type, value)}"
        yield "policy.min", what, f"use at least {written['min']}"
    if rule.step is not None and not reading.is_unlimited and (value - (rule.minimum or 0)) % rule.step != 0:
        start = f" from {written['min']}" if rule.minimum is not None else ""
        what = f"must be in steps of {written['step']}{start}, and it is {amount_text(known.type, value)}"
        yield "policy.step", what, f"use a multiple of {written['step']}{start}"
    if rule.options is not None and (bad := _outside(known, rule.options, reading)) is not None:
        listed = ", ".join(rule.options[:10]) + (", …" if len(rule.options) > 10 else "")
        said = f"it is {bad}" if bad else "it is not set"
        yield "policy.options", f"must be one of {listed}, and {said}", f"use one of {listed}"


def _outside(known: PolicyField, options: tuple[str, ...], reading: Reading) -> str | None:
    """The value that is not among the options; None: all are; empty: none is set."""
    value = reading.value
    if reading.is_unlimited:
        return "unlimited"
    if known.type is FieldType.TEXTS:
        own = [capability(each) for each in options] if known.path == "security.capabilities" else options
        return next((each for each in value or () if not any(option_fits(each, option) for option in own)), None)
    if value is None:
        return ""
    if known.type.has_range:
        fits = any(amount(known.type, _number_in(known.type, option)) == value for option in options)
        return None if fits else amount_text(known.type, value)
    return None if any(option_fits(str(value), option) for option in options) else str(value)


def _number_in(kind: FieldType, text: str) -> Any:
    return int(text) if kind is FieldType.WHOLE and text.isdigit() else text


def option_fits(value: str, option: str) -> bool:
    """`registry.example.com/*` fits what is below it, and not what only says so with `..`."""
    if not option.endswith("*"):
        return value == option
    return value.startswith(option[:-1]) and ".." not in value.split("/")


def _is_edited(view: PodView, known: PolicyField, reading: Reading, default: Any, place: str) -> bool:
    """Whether a locked field has another value than the one that it is locked to."""
    if place != known.path:  # an attribute of an item
        given = reading.value
        return not _same(known, given, known.default if default is None else default)
    given = view.given(place)
    others = [view.given(each) for each in said_alike(place) if each != place] if place in GPU_PATHS else []
    if default is None:
        return given is not None
    is_other_way = given is None or (any(each is not None for each in others) and known.path == "compute.gpu")
    return is_other_way or not _same(known, given, default)


def _same(known: PolicyField, given: Any, default: Any) -> bool:
    if given is None or default is None:
        return given is default
    if isinstance(given, Decimal) or (known.type.has_range and not isinstance(given, bool)):
        own = given if isinstance(given, Decimal) else amount(known.type, given)
        return own is not None and own == amount(known.type, default)
    return bool(given == default) or str(given) == str(default)


def _terms(rule: FieldRule) -> str:
    said = {name: rule.written[name] for name in ("min", "max", "step") if name in rule.written}
    words = {"min": "at least", "max": "at most", "step": "steps of"}
    found = [f"{words[name]} {value}" for name, value in said.items()]
    return " and ".join([*found, *(["one of its options"] if rule.options is not None else [])])


def amount_text(kind: FieldType, value: Any) -> str:
    """A number as people write it."""
    if kind is FieldType.QUANTITY and isinstance(value, Decimal):
        for power, suffix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
            if value and value % 1024**power == 0:
                return f"{int(value) // 1024**power}{suffix}"
        return str(int(value))
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    return _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


# --- lists ---------------------------------------------------------------------------------------------------------


def _of_list(
    origin: str, view: PodView, known: PolicyField, rule: FieldRule, section: Section
) -> Iterator[ProblemItem]:
    """A list as a whole: it must have an item, or stay as the policy has it."""
    items = items_of(view.values, known)
    field = f"spec.{known.path}"
    if rule.required and not items:
        what = f"{known.path} must have at least one item: {origin}"
        yield ProblemItem(code="policy.required", what=what, fix="add one", field=field)
    if not rule.can_edit and not _equal_lists(known, items, _default_items(section, known)):
        what = f"{known.path} cannot be changed: {origin}"
        yield ProblemItem(code=LOCKED, what=what, fix="leave it out", field=field)


def _default_items(section: Section, known: PolicyField) -> list[tuple[str, Any]]:
    value = _default(section, known.path)
    if isinstance(value, Mapping):
        return [(str(name), {"name": name, "value": each}) for name, each in value.items()]
    return [(item_key(known, each), each) for each in value or ()]


def _equal_lists(known: PolicyField, some: list[tuple[str, Any]], others: list[tuple[str, Any]]) -> bool:
    mine, theirs = ([whole_item(known, each) for _, each in items] for items in (some, others))
    is_same = all(each in theirs for each in mine) and all(each in mine for each in theirs)
    return is_same and not _repeated(known, some)


def _repeated(known: PolicyField, items: list[tuple[str, Any]]) -> list[str]:
    """Keys that several items have: a pod would be given all of them, or their sum."""
    counts = Counter(key for key, _ in items) if known.key else {}
    return [key for key, count in counts.items() if count > 1]


def _item_problems(
    origin: str,
    view: PodView,
    known: PolicyField,
    rule: ItemRule,
    section: Section,
    wider: Sequence[ScopedPolicy],
) -> Iterator[ProblemItem]:
    permitted = permitted_items(known, wider)
    items = items_of(view.values, known)
    field = f"spec.{known.path}"
    for key in _repeated(known, items) if rule.locked or not rule.can_add else ():
        what = f"{known.path} can have {key!r} only once: {origin} has rules for its items"
        yield ProblemItem(code="policy.repeated", what=what, fix="remove all but one", field=field)
    for key, item in items if not rule.can_add else ():
        if not _is_permitted(known, key, item, permitted):
            what = f"{known.path} cannot have {key!r}: {origin} permits no items but its own"
            yield ProblemItem(code="policy.can_add", what=what, fix="remove it", field=field)
    for key in rule.locked:
        if not _keeps_lock(known, key, items, permitted, _default_items(section, known)):
            what = f"{known.path} {key!r} is locked by {origin}"
            yield ProblemItem(code=LOCKED, what=what, fix="remove your value for it", field=field)


def _is_permitted(known: PolicyField, key: str, item: Any, permitted: list[tuple[str, Any]]) -> bool:
    """Whether an item is one of the policy. Mounts, and items that no key tells apart, must be it exactly."""
    same_key = [each for own, each in permitted if own == key]
    if known.key and not known.path.startswith("storage."):
        return bool(same_key)
    return whole_item(known, item) in [whole_item(known, each) for each in same_key]


def _keeps_lock(
    known: PolicyField,
    key: str,
    items: list[tuple[str, Any]],
    permitted: list[tuple[str, Any]],
    defaults: list[tuple[str, Any]],
) -> bool:
    """Whether all items of a locked key are as the policy has them. Where no key tells items apart, several have it."""

    def of_key(pairs: list[tuple[str, Any]]) -> list[Any]:
        return [whole_item(known, each) for name, each in pairs if name == key]

    mine, allowed = of_key(items), of_key(permitted)
    if not allowed:
        return True
    allowed, needed = (allowed[:1], allowed[:1]) if known.key else (allowed, of_key(defaults))
    return bool(mine) and all(each in allowed for each in mine) and all(each in mine for each in needed)


def permitted_items(known: PolicyField, policies: Sequence[ScopedPolicy]) -> list[tuple[str, Any]]:
    """The items that policies give to every workload."""
    found = []
    for each in policies:
        found += _default_items(each.policy.section, known)
        if each.policy.master is not None:
            found += _default_items(each.policy.master, known)
        found += [pair for asset in each.imposed for pair in items_of(asset.values, known)]
    return found


def whole_item(known: PolicyField, item: Any) -> Any:
    """An item with the defaults of its attributes, so that two can be compared."""
    if known.model is None or not isinstance(item, Mapping):
        return item
    try:
        return known.model.model_validate(item).model_dump(mode="json", by_alias=True)
    except ValidationError:
        return item


def _imposed_problems(scoped: ScopedPolicy, spec: Values) -> Iterator[ProblemItem]:
    for asset in scoped.imposed:
        for known in policy_fields(scoped.policy.kind).values():
            if known.type is not FieldType.ITEMS:
                continue
            items = items_of(spec, known)
            for key, item in items_of(asset.values, known):
                there = [whole_item(known, each) for own, each in items if own == key]
                is_kept = whole_item(known, item) in there and (len(there) == 1 or not known.key)
                if not is_kept:
                    what = f"{known.path} {key!r} is of {asset.origin}, which {scoped.origin} imposes"
                    fix = "use another place for your own" if there else "it must not be removed"
                    yield ProblemItem(code="policy.imposed", what=what, fix=fix, field=f"spec.{known.path}")


# --- what is filled in ---------------------------------------------------------------------------------------------


def policy_locks(policies: Iterable[ScopedPolicy]) -> Locks:
    """The fields that policies lock; where several lock one, that of the widest scope does."""
    fields: dict[str, Lock] = {}
    master: dict[str, Lock] = {}
    for scoped in widest_first(policies):
        halves = [(scoped.policy.section, fields)]
        halves += [(scoped.policy.master, master)] if scoped.policy.master is not None else []
        for section, found in halves:
            _add_locks(scoped.origin, scoped.policy, section, found)
        for asset in scoped.imposed:
            lists = {each.path for each in policy_fields(scoped.policy.kind).values() if each.type is FieldType.ITEMS}
            for path, value in fields_in(asset.values):
                if path not in lists:
                    origin = f"{asset.origin}, which {scoped.origin} imposes"
                    fields.setdefault(path, Lock(path, origin, value, value, "policy.imposed"))
    return Locks(fields, master)


def _add_locks(origin: str, policy: WorkloadPolicy, section: Section, found: dict[str, Lock]) -> None:
    known = policy_fields(policy.kind)
    for path, rule in section.rules.items():
        if rule.can_edit or known[path].type is FieldType.ITEMS:
            continue
        default = value_at(section.defaults, path)
        for each in said_alike(path) if path in GPU_PATHS else [path]:
            value = value_at(section.defaults, each)
            found.setdefault(each, Lock(path, origin, value, default, LOCKED))


def policy_defaults(policies: Iterable[ScopedPolicy]) -> list[Defaults]:
    """What policies fill in, from the narrowest scope to the widest."""
    return [
        Defaults(each.origin, each.policy.section.defaults, each.policy.master.defaults if each.policy.master else {})
        for each in reversed(widest_first(policies))
    ]
