"""What is wrong with a policy before it is stored, and a stored one with changes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from fairpool.api import workload_spec
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import ValidationError
from fairpool.api.workload_spec import Kind
from fairpool.control.admission import KIND_OF_SUBMIT
from fairpool.control.policy_document import READ_ONLY, Section, WorkloadPolicy, read_policy
from fairpool.control.policy_fields import FieldType, PolicyField, policy_fields
from fairpool.control.policy_readings import items_of
from fairpool.control.refusal import validation_problems
from fairpool.control.template_checks import SECRET_NAME
from fairpool.control.template_values import NESTED, SPECS, Values, put_at
from fairpool.control.unsupported import refusals

SUBMITS: Mapping[Kind, Any] = {kind: submit for submit, kind in KIND_OF_SUBMIT.items()}
PARTS = ("defaults", "rules")
HALVES = ("worker", "master")


def checked_policy(kind: Kind, document: Values) -> WorkloadPolicy | list[ProblemItem]:
    """A policy, or everything that is wrong with it by itself, each with its place."""
    policy = read_policy(kind, document)
    if not isinstance(policy, WorkloadPolicy):
        return policy
    found: list[ProblemItem] = []
    for half, section in _sections(policy):
        found += _default_values(kind, section, f"policy.defaults{half}")
        found += _attribute_values(kind, section, f"policy.defaults{half}")
        found += _locked_items(kind, section, f"policy.rules{half}")
        found += _secrets(section, f"policy.defaults{half}")
    return found or policy


def _sections(policy: WorkloadPolicy) -> Iterator[tuple[str, Section]]:
    is_gang = policy.kind is Kind.DISTRIBUTED
    yield ".worker" if is_gang else "", policy.section
    if policy.master is not None:
        yield ".master", policy.master


def _default_values(kind: Kind, section: Section, place: str) -> list[ProblemItem]:
    """Defaults that no submit could have."""
    try:
        SPECS[kind].model_validate(section.defaults)
    except ValidationError as error:
        return [_moved(each, place) for each in validation_problems(error.errors())]
    request = SUBMITS[kind].model_validate({"projectId": "policy", "spec": dict(section.defaults)})
    wrong = refusals(cast(workload_spec.SubmitAny, request), has_containers=True)
    return [_moved(each, place) for each in wrong if _is_given(section.defaults, each.field or "")]


def _is_given(defaults: Values, field: str) -> bool:
    path = field.removeprefix("spec.")
    top, _, below = path.partition(".")
    inside = defaults.get(top)
    return inside is not None and (not below or not isinstance(inside, Mapping) or below.partition(".")[0] in inside)


def _moved(problem: ProblemItem, place: str) -> ProblemItem:
    field = (problem.field or "").removeprefix("spec.")
    return problem.model_copy(update={"field": f"{place}.{field}" if field else place})


def _attribute_values(kind: Kind, section: Section, place: str) -> Iterator[ProblemItem]:
    """Values for the items of lists that no item could have."""
    known = policy_fields(kind)
    for path, values in section.attributes.items():
        for attribute, value in values.items():
            if not _is_of(known[path].attributes[attribute], value):
                where = f"{place}.{path}.attributes.{attribute}"
                what = f"{where} must be {known[path].attributes[attribute].type.value}"
                yield ProblemItem(code="policy.type", what=what, fix="correct it", field=where)


def _is_of(known: PolicyField, value: Any) -> bool:
    if known.type is FieldType.YES_NO:
        return isinstance(value, bool)
    if known.type is FieldType.WHOLE:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str)


def _locked_items(kind: Kind, section: Section, place: str) -> Iterator[ProblemItem]:
    """Items that are locked without being there."""
    known = policy_fields(kind)
    for path, rule in section.items.items():
        there = {key for key, _ in items_of(section.defaults, known[path])}
        for key in rule.locked:
            if key not in there:
                where = f"{place}.{path}.instances.locked"
                what = f"{path} {key[:64]!r} cannot be locked: the policy has no such item in its defaults"
                listed = ", ".join(sorted(there)) or "none"
                fix = f"add it to the instances of defaults; there are: {listed}"
                yield ProblemItem(code="policy.locked_item", what=what, fix=fix, field=where)


def _secrets(section: Section, place: str) -> Iterator[ProblemItem]:
    """A policy is shown to everyone in its scope."""
    for each in section.defaults.get("environmentVariables") or ():
        name = str(each.get("name", "")) if isinstance(each, Mapping) else ""
        if name and each.get("value") and SECRET_NAME.search(name):
            what = f"the value of {name[:64]} would be shown to everyone in the scope of the policy"
            fix = "store it as a credential, and refer to it with credential: {name, key}"
            yield ProblemItem(code="policy.secret_value", what=what, fix=fix, field=f"{place}.environmentVariables")


def as_stored(written: Any) -> Any:
    """A policy without what means nothing: null, and what answers have beside it."""
    if isinstance(written, list):
        return [as_stored(each) for each in written]
    if not isinstance(written, Mapping):
        return written
    return {name: as_stored(each) for name, each in written.items() if name not in READ_ONLY and each is not None}


# --- changes ---------------------------------------------------------------------------------------------------------


def patched(kind: Kind, before: Values, change: Values, reset: Sequence[str]) -> dict[str, Any]:
    """A policy with changes: what they say about a field replaces what it had, and `reset` removes fields."""
    found: dict[str, Any] = {name: value for name, value in before.items() if name not in PARTS}
    found |= {name: value for name, value in change.items() if name not in PARTS and value is not None}
    for part in PARTS:
        fields = {**_flat(kind, before.get(part)), **_flat(kind, change.get(part))}
        kept = {path: value for path, value in fields.items() if not _is_reset(path, reset)}
        found[part] = _deep(kind, kept)
    return found


def _is_reset(path: str, reset: Sequence[str]) -> bool:
    return any(f"{path}.".startswith(f"{each}.") for each in reset)


def _flat(kind: Kind, part: Any) -> dict[str, Any]:
    if not isinstance(part, Mapping):
        return {}
    if kind is Kind.DISTRIBUTED:
        halves = [(f"{half}.", inner) for half, inner in part.items() if isinstance(inner, Mapping)]
    else:
        halves = [("", part)]
    return {
        f"{prefix}{path}": value
        for prefix, inner in halves
        for name, each in inner.items()
        for path, value in _inner(name, each)
        if value is not None
    }


def _inner(name: str, value: Any) -> list[tuple[str, Any]]:
    if name in NESTED and isinstance(value, Mapping):
        return [(f"{name}.{below}", each) for below, each in value.items()]
    return [(name, value)]


def _deep(kind: Kind, fields: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, value in fields.items():
        half, _, inner = path.partition(".") if kind is Kind.DISTRIBUTED else ("", "", path)
        put_at(found.setdefault(half, {}) if half else found, inner, value)
    return found
