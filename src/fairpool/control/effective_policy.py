"""Several policies as one: the defaults that count, and rules that hold all together, each with the policy it is from.
Pure.

Used to show what a submit will meet, and to find policies that contradict each other when one is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from math import lcm
from typing import Any

from fairpool.api.assets import AssetScope
from fairpool.api.problems import ProblemItem
from fairpool.api.workload_spec import Kind
from fairpool.control.policy_document import FieldRule, Section
from fairpool.control.policy_fields import policy_fields
from fairpool.control.policy_readings import items_of
from fairpool.control.policy_rules import ScopedPolicy, option_fits, widest_first
from fairpool.control.policy_values import default_problems
from fairpool.control.template_values import BY_NAME, Defaults, Merged, fields_in, merged, put_at

Halves = tuple[tuple[str, list[tuple[ScopedPolicy, Section]]], ...]


def effective(policies: Sequence[ScopedPolicy]) -> dict[str, Any]:
    """`{defaults, rules, imposedAssets}` as policies are written, with `sourceOfRule` and `sources` in each rule."""
    if not policies:
        return {"defaults": {}, "rules": {}, "imposedAssets": []}
    kind = policies[0].policy.kind
    found: dict[str, Any] = {"defaults": {}, "rules": {}}
    for half, sections in _halves(policies):
        defaults, rules = _defaults(kind, sections), _rules(kind, sections)
        found["defaults"] |= {half: defaults} if half else defaults
        found["rules"] |= {half: rules} if half else rules
    imposed = list(dict.fromkeys(each for scoped in widest_first(policies) for each in scoped.policy.imposed))
    found["imposedAssets"] = {"worker": imposed} if kind is Kind.DISTRIBUTED else imposed
    return found


def default_sources(policies: Sequence[ScopedPolicy]) -> dict[str, str]:
    """The policy that each default is from, by field."""
    found: dict[str, str] = {}
    for half, sections in _halves(policies):
        place = f"{half}." if half else ""
        found |= {f"{place}{path}": origin for path, origin in _filled(sections).origins.items()}
    return found


def contradictions(policies: Sequence[ScopedPolicy]) -> list[ProblemItem]:
    """What no workload, or no workload that leaves everything out, could keep to."""
    found = default_problems(policies)
    for half, sections in _halves(policies):
        place = f"{half}." if half else ""
        for path in dict.fromkeys(path for _, section in sections for path in section.rules):
            rules = [(scoped, section.rules[path]) for scoped, section in sections if path in section.rules]
            found += [_contradiction(f"{place}{path}", *each) for each in _exclusive(rules)]
    return found


def _contradiction(path: str, what: str, one: ScopedPolicy, other: ScopedPolicy) -> ProblemItem:
    text = f"{path} cannot be {what}: {one.origin} and {other.origin} exclude each other"
    return ProblemItem(code="policy.conflict", what=text, fix="change one of them", field=f"policy.rules.{path}")


def _exclusive(rules: list[tuple[ScopedPolicy, FieldRule]]) -> Iterator[tuple[str, ScopedPolicy, ScopedPolicy]]:
    for index, (one, first) in enumerate(rules):
        for other, second in rules[index + 1 :]:
            for low, high, by_low, by_high in ((first, second, one, other), (second, first, other, one)):
                if low.minimum is not None and high.maximum is not None and low.minimum > high.maximum:
                    what = f"at least {low.written['min']} and at most {high.written['max']}"
                    yield what, by_low, by_high
            if first.options is not None and second.options is not None and not _common(first.options, second.options):
                yield "an option of both", one, other


def _halves(policies: Sequence[ScopedPolicy]) -> Halves:
    """The sections of policies, from the widest scope to the narrowest."""
    ordered = widest_first(policies)
    pods = [(each, each.policy.section) for each in ordered]
    if not ordered or ordered[0].policy.kind is not Kind.DISTRIBUTED:
        return (("", pods),)
    masters = [(each, each.policy.master) for each in ordered if each.policy.master is not None]
    return (("worker", pods), ("master", masters)) if masters else (("worker", pods),)


# --- defaults --------------------------------------------------------------------------------------------------------


def _filled(sections: Sequence[tuple[ScopedPolicy, Section]]) -> Merged:
    return merged({}, (), (), [Defaults(scoped.origin, section.defaults) for scoped, section in reversed(sections)])


def _defaults(kind: Kind, sections: Sequence[tuple[ScopedPolicy, Section]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    spec = _filled(sections).spec
    attributes: dict[str, dict[str, Any]] = {}
    for _, section in sections:
        for path, values in section.attributes.items():
            attributes.setdefault(path, {}).update(values)
    known = policy_fields(kind)
    for path, value in fields_in(spec):
        is_list = known[path].model is not None or path in BY_NAME
        put_at(found, path, {"instances": [each for _, each in items_of(spec, known[path])]} if is_list else value)
    for path, values in attributes.items():
        before = _inside(found, path)
        put_at(found, path, {**before, "attributes": nested(values)})
    return found


def _inside(found: Mapping[str, Any], path: str) -> dict[str, Any]:
    top, _, below = path.partition(".")
    inner = found.get(top, {})
    inner = inner.get(below, {}) if below and isinstance(inner, Mapping) else inner
    return dict(inner) if isinstance(inner, Mapping) else {}


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """`claimInfo.size` as an object in an object."""
    found: dict[str, Any] = {}
    for path, value in values.items():
        put_at(found, path, value)
    return found


# --- rules -----------------------------------------------------------------------------------------------------------


def _rules(kind: Kind, sections: Sequence[tuple[ScopedPolicy, Section]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    known = policy_fields(kind)
    for path in known:
        rules = [(scoped, section.rules[path]) for scoped, section in sections if path in section.rules]
        whole = _joined(known[path].type, rules) if rules else {}
        items = [(scoped, section.items[path]) for scoped, section in sections if path in section.items]
        if items:
            can_add = all(rule.can_add for _, rule in items)
            locked = list(dict.fromkeys(key for _, rule in items for key in rule.locked))
            whole["instances"] = {"canAdd": can_add, "locked": locked, "sourceOfRule": source_of(items[0][0])}
        names = {name for _, section in sections for name in section.attribute_rules.get(path, {})}
        for name in sorted(names):
            own = [
                (scoped, section.attribute_rules[path][name])
                for scoped, section in sections
                if name in section.attribute_rules.get(path, {})
            ]
            inner = whole.setdefault("attributes", {})
            put_at(inner, name, _joined(known[path].attributes[name].type, own))
        if whole:
            put_at(found, path, whole)
    return found


def _joined(kind: Any, rules: Sequence[tuple[ScopedPolicy, FieldRule]]) -> dict[str, Any]:
    """Rules of one field that hold together, as one."""
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}

    def keep(name: str, value: Any, scoped: ScopedPolicy) -> None:
        found[name], sources[name] = value, scoped.origin

    low = [(rule.minimum, scoped, rule) for scoped, rule in rules if rule.minimum is not None]
    high = [(rule.maximum, scoped, rule) for scoped, rule in rules if rule.maximum is not None]
    if low:
        _, scoped, rule = max(low, key=lambda each: each[0])
        keep("min", rule.written["min"], scoped)
    if high:
        _, scoped, rule = min(high, key=lambda each: each[0])
        keep("max", rule.written["max"], scoped)
    for scoped, rule in rules:
        if rule.required:
            sources.setdefault("required", scoped.origin)
            found["required"] = True
        if not rule.can_edit:
            sources.setdefault("canEdit", scoped.origin)
            found["canEdit"] = False
        if rule.step is not None:
            keep("step", _step(kind, rule, found.get("step")), scoped)
        if rule.options is not None:
            before = found.get("options")
            common = rule.options if before is None else _common([each["value"] for each in before], rule.options)
            keep("options", [{"value": each} for each in common], scoped)
        if rule.default_from is not None:
            keep("defaultFrom", rule.written["defaultFrom"], scoped)
    return {**found, "sourceOfRule": source_of(rules[0][0]), "sources": sources}


def _step(kind: Any, rule: FieldRule, before: Any) -> Any:
    """Values that are in both steps."""
    if before is None or rule.step is None:
        return rule.written["step"]
    scale = Decimal(10) ** 6
    both = lcm(int(rule.step * scale), int(Decimal(str(before)) * scale) if not isinstance(before, str) else 1)
    found = Decimal(both) / scale
    return int(found) if found == found.to_integral_value() else float(found)


def _common(some: Sequence[str], others: Sequence[str]) -> list[str]:
    """Options of both; of two patterns the one that says more."""
    mine = [each for each in some if any(option_fits(each, other) for other in others)]
    return list(dict.fromkeys([*mine, *(each for each in others if any(option_fits(each, own) for own in some))]))


def source_of(scoped: ScopedPolicy) -> dict[str, Any]:
    """The scope of a rule, as clients of the original read it."""
    found: dict[str, Any] = {"scope": scoped.scope.value}
    if scoped.scope is not AssetScope.TENANT:
        found[f"{scoped.scope.value}Id"] = scoped.scope_id
    return found
