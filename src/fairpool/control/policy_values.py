"""The values of a submit with those of policies, each with its origin, and the rules that they break. Pure.

This is the one function that says what a workload becomes: `control/submit_values.py` gives it the request, templates,
assets, the project and its policies, and admission gets what comes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

from fairpool.api.problems import ProblemItem
from fairpool.api.workload_spec import Kind
from fairpool.control.policy_document import DefaultFrom, Section
from fairpool.control.policy_fields import FieldType, policy_fields
from fairpool.control.policy_readings import PodView, items_of
from fairpool.control.policy_rules import (
    ScopedPolicy,
    amount_text,
    policy_defaults,
    policy_locks,
    rule_problems,
    widest_first,
)
from fairpool.control.template_values import (
    GPU_PATHS,
    POD_FIELDS,
    AssetValues,
    Defaults,
    Merged,
    TemplateValues,
    Values,
    merged,
    put_at,
    relocked,
    value_at,
)

ASSETS = "assets.datasources"


def submitted(
    kind: Kind,
    request: Values,
    templates: Iterable[TemplateValues] = (),
    assets: Iterable[AssetValues] = (),
    project: Defaults | None = None,
    policies: Sequence[ScopedPolicy] = (),
) -> Merged:
    """The values of a submit, where each is from, and everything that is wrong with them."""
    defaults = [*([project] if project is not None else []), *policy_defaults(policies)]
    found = merged(request, templates, assets, defaults, policy_locks(policies))
    _complete(kind, found, policies)
    found.problems += rule_problems(policies, found.spec)
    return found


def changed(
    kind: Kind, said: Values, spec: Values, templates: Sequence[TemplateValues], policies: Sequence[ScopedPolicy]
) -> Merged:
    """The values of a workload that is changed; `said` is what the change sets, `spec` the whole afterwards. Locked
    values and imposed assets are put in their place again, defaults are not."""
    locks = policy_locks(policies)
    found = relocked(spec, templates, locks)
    _impose(found, policies)
    wrong = [*locks.of_templates_too(templates).problems(said), *found.problems, *rule_problems(policies, found.spec)]
    found.problems = wrong
    return found


def default_problems(policies: Sequence[ScopedPolicy]) -> list[ProblemItem]:
    """Rules that the defaults of policies break: a workload that says nothing would be refused."""
    if not policies:
        return []
    kind = policies[0].policy.kind
    has_master = any(each.policy.master is not None for each in policies)
    found = submitted(kind, {"masterSpec": {}} if has_master else {}, policies=policies)
    return [
        problem.model_copy(update={"what": f"{problem.what} (set by {origin})"})
        for problem in found.problems
        if (origin := _origin(found.origins, (problem.field or "").removeprefix("spec.")))
    ]


def _origin(origins: Mapping[str, str], path: str) -> str:
    """The policy that set a field, or something in it."""
    inside = f"{path}."
    return next((origin for given, origin in origins.items() if f"{given}.".startswith(inside)), "")


def _complete(kind: Kind, found: Merged, policies: Sequence[ScopedPolicy]) -> None:
    _impose(found, policies)
    for scoped in reversed(widest_first(policies)):
        section, master = scoped.policy.section, scoped.policy.master
        _fill_attributes(kind, found, section, scoped.origin)
        _fill_from_others(kind, found, section, scoped.origin)
        own = found.spec.get("masterSpec")
        if isinstance(own, Mapping):
            inner = Merged(dict(own))
            for each in (master, section) if master is not None else (section,):
                _fill_attributes(kind, inner, _of_pods(each), scoped.origin)
                _fill_from_others(kind, inner, _of_pods(each), scoped.origin)
            found.spec["masterSpec"] = inner.spec
            found.origins |= {f"masterSpec.{path}": origin for path, origin in inner.origins.items()}


def _of_pods(section: Section) -> Section:
    def own(given: Mapping[str, Any]) -> dict[str, Any]:
        return {path: each for path, each in given.items() if path.partition(".")[0] in POD_FIELDS}

    return Section(attributes=own(section.attributes), rules=own(section.rules))


def _impose(found: Merged, policies: Sequence[ScopedPolicy]) -> None:
    """Add the mounts of imposed assets. What is at the same place is refused by the rules."""
    for scoped in widest_first(policies):
        for asset in scoped.imposed:
            origin = f"{asset.origin}, imposed by {scoped.origin}"
            for known in policy_fields(scoped.policy.kind).values():
                if known.type is not FieldType.ITEMS:
                    continue
                there = {key for key, _ in items_of(found.spec, known)}
                new = [item for key, item in items_of(asset.values, known) if key not in there]
                if new:
                    put_at(found.spec, known.path, [*new, *(value_at(found.spec, known.path) or [])])
                    found.origins |= {f"{known.path}.{key}": origin for key, _ in items_of(asset.values, known)}
            named = value_at(found.spec, ASSETS) or []
            if asset.path == ASSETS and asset.id not in [each["id"] for each in named]:
                put_at(found.spec, ASSETS, [*named, {"id": asset.id}])


def _fill_attributes(kind: Kind, found: Merged, section: Section, origin: str) -> None:
    """Values of each item of a list that does not have them."""
    for path, attributes in section.attributes.items():
        known = policy_fields(kind)[path]
        items = value_at(found.spec, path)
        if not isinstance(items, list):
            continue
        filled = []
        for (key, item), was in zip(items_of(found.spec, known), items, strict=True):
            own = dict(item) if isinstance(item, Mapping) else None
            for attribute, value in attributes.items() if own is not None else ():
                if own is not None and _put_attribute(own, attribute, value):
                    found.origins[f"{path}.{key}.{attribute}"] = origin
            filled.append(was if own is None else own)
        put_at(found.spec, path, filled)


def _put_attribute(item: dict[str, Any], attribute: str, value: Any) -> bool:
    head, _, below = attribute.partition(".")
    if not below:
        is_new = item.get(head) is None
        item.update({head: value} if is_new else {})
        return is_new
    inner = item.get(head)
    if not isinstance(inner, Mapping) or inner.get(below) is not None:
        return False
    item[head] = {**inner, below: value}
    return True


def _fill_from_others(kind: Kind, found: Merged, section: Section, origin: str) -> None:
    """Values that are a multiple of another field."""
    for path, rule in section.rules.items():
        if rule.default_from is None:
            continue
        if any(value_at(found.spec, each) is not None for each in (GPU_PATHS if path in GPU_PATHS else (path,))):
            continue
        value = _multiple(PodView(kind, found.spec), path, rule.default_from)
        if value is not None:
            put_at(found.spec, path, value)
            found.origins[path] = origin


def _multiple(view: PodView, path: str, source: DefaultFrom) -> Any:
    """None: the other field has no value."""
    if all(view.given(each) is None for each in (GPU_PATHS if source.path in GPU_PATHS else (source.path,))):
        return None
    value = view.reading(source.path).value
    if not isinstance(value, Decimal):
        return None
    product = value * source.factor
    known = policy_fields(view.kind)[path]
    if known.type is FieldType.NUMBER:
        return int(product) if product == product.to_integral_value() else float(product)
    whole = product.to_integral_value(ROUND_CEILING)
    return amount_text(known.type, whole) if known.type is FieldType.QUANTITY else int(whole)
