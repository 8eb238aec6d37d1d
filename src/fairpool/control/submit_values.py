"""The values of a submit, with those of the templates, assets and policies of its project, and what breaks a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fairpool.api import workload_spec
from fairpool.api.assets import ComplianceReason
from fairpool.api.organization import ProjectRequest
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import ValidationError
from fairpool.control.admission import KIND_OF_SUBMIT
from fairpool.control.asset_lookup import AssetLookup, narrowest
from fairpool.control.organization import effective_project
from fairpool.control.policy_lookup import policies_of
from fairpool.control.policy_rules import rule_problems
from fairpool.control.policy_values import changed, submitted
from fairpool.control.refusal import Refused, refused, validation_problems
from fairpool.control.store import assets as store
from fairpool.control.store.database import Connection
from fairpool.control.template_values import SPECS, Defaults, TemplateValues, supports
from fairpool.control.templates import types_of, values_of
from fairpool.model.spelling import did_you_mean

RULES = {
    "template.locked": "locked",
    "policy.locked": "locked",
    "policy.can_add": "canAdd",
    **{f"policy.{rule}": rule for rule in ("min", "max", "step", "options")},
}
"""The original's words for what a value breaks."""
REQUIRED = ("template.required", "policy.required")
"""What a submit may still say itself."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A submit with the values of templates and assets, and where they are from."""

    body: workload_spec.SubmitAny
    origins: Mapping[str, str]


def filled(connection: Connection, body: workload_spec.SubmitAny, project: Any) -> Filled:
    """The submit with the values of the administrative templates, the defaults and the policies of its project, and of
    the template and the assets that it names. Refuses what breaks a policy."""
    kind = KIND_OF_SUBMIT[type(body)]
    framework = body.spec.distributed_framework if isinstance(body.spec, workload_spec.DistributedSpec) else None
    lookup = AssetLookup(connection, store.place_of(project), kind, framework)
    applied = _administrative(connection, project, kind, lookup)
    asked = body.spec.template or body.template_id
    if body.template_id and body.spec.template and body.template_id != body.spec.template:
        raise refused(422, "template.twice", "a template is named twice", "remove templateId", "templateId")
    if asked:
        chosen_one = _named(connection, project, asked, kind, lookup)
        applied += [] if chosen_one.administrative else [chosen_one]
    policies = policies_of(connection, project, kind)
    own_defaults = _project_defaults(effective_project(connection, project))
    if not applied and not policies and own_defaults is None and body.spec.assets is None:
        return Filled(body, {})
    request = body.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    own, assets = lookup.resolved(request)
    result = submitted(kind, own, applied, assets, own_defaults, policies)
    if result.problems:
        raise Refused(422, result.problems)
    try:
        spec = type(body.spec).model_validate(result.spec)
    except ValidationError as error:  # joined lists may be too long
        raise Refused(422, validation_problems(error.errors())) from error
    return Filled(body.model_copy(update={"spec": spec}), result.origins)


USER_FIELDS = ("uidGidSource", "runAsUid", "runAsGid")


def refuse_user_against_policies(connection: Connection, body: workload_spec.SubmitAny, project: Any) -> None:
    """Policies judge the user that pods really have, also where it was not the request that asked for it."""
    kind = KIND_OF_SUBMIT[type(body)]
    said = body.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)["security"]
    user = {name: said[name] for name in USER_FIELDS if name in said}
    found = submitted(kind, {"security": user}, [], {}, None, policies_of(connection, project, kind)).problems
    broken = [each for each in found if (each.field or "").rpartition(".")[2] in USER_FIELDS]
    if broken:
        raise Refused(422, broken)


def compliance_issues(
    connection: Connection, project: Any, kind: workload_spec.Kind, named: Mapping[str, Any]
) -> list[ComplianceReason]:
    """Why a submit to a project that names this template or these assets would be refused for their values."""
    submit = next(model for model, of in KIND_OF_SUBMIT.items() if of is kind)
    body: Any = submit.model_validate({"projectId": project.name, "spec": dict(named)})
    try:
        filled(connection, body, project)
    except Refused as refusal:
        return [
            ComplianceReason(field=each.field, details=each.what, rule=RULES.get(each.code))
            for each in refusal.problems
            if each.code not in REQUIRED
        ]
    return []


def _project_defaults(declared: ProjectRequest) -> Defaults | None:
    pools = declared.default_node_pools
    return Defaults(f"project {declared.name}", {"nodePools": list(pools)}) if pools else None


@contextmanager
def naming_origins(filled: Filled) -> Iterator[None]:
    """Refusals of values say which template or asset gave them, if one did."""
    try:
        yield
    except Refused as refusal:
        refusal.problems = tuple(_with_origin(each, filled.origins) for each in refusal.problems)
        raise


def _with_origin(problem: ProblemItem, origins: Mapping[str, str]) -> ProblemItem:
    place = (problem.field or "").removeprefix("spec.")
    given = next((path for path in origins if f"{place}.".startswith(f"{path}.")), None)
    return (
        problem if given is None else problem.model_copy(update={"what": f"{problem.what} (set by {origins[given]})"})
    )


def _administrative(
    connection: Connection, project: Any, kind: workload_spec.Kind, lookup: AssetLookup
) -> list[TemplateValues]:
    rows = [row for row in store.administrative_of(connection, project) if supports(types_of(row), kind)]
    return [values_of(row, lookup) for row in rows]


def _named(
    connection: Connection, project: Any, asked: str, kind: workload_spec.Kind, lookup: AssetLookup
) -> TemplateValues:
    """The template of this name or id, of the narrowest scope that has one."""
    place = store.place_of(project)
    rows = store.named(connection, store.TEMPLATE, place, asked)
    if not rows:
        names = [row.name for row in store.usable(connection, store.TEMPLATE, place)]
        fix = did_you_mean(asked, names, "see them with `runai list templates`")
        raise refused(422, "template.unknown", f"there is no template {asked[:64]!r}", fix, "spec.template")
    row = narrowest(rows, asked)
    types = types_of(row)
    if not supports(types, kind):
        kinds = [each.value.lower() for each in SPECS if supports(types, each)]
        what = f"template {row.name} is not for a {kind.value.lower()}"
        raise refused(422, "template.other_kind", what, f"use it for {', '.join(kinds)}", "spec.template")
    return values_of(row, lookup)


def updated(
    connection: Connection,
    said: Mapping[str, Any],
    spec: dict[str, Any],
    project: Any,
    kind: workload_spec.Kind,
) -> dict[str, Any]:
    """The specification of a workload that is changed. Refuses what breaks a policy, other values of locked fields, and
    another template or other assets; a locked value that the change leaves out stays."""
    for name, noun in (("template", "template"), ("assets", "assets")):
        if name in said:
            what = f"the {noun} of a workload cannot be changed"
            raise refused(422, "template.changed", what, "set the values themselves", f"spec.{name}")
    lookup = AssetLookup(connection, store.place_of(project), kind)
    applied = _administrative(connection, project, kind, lookup)
    result = changed(kind, said, spec, applied, policies_of(connection, project, kind))
    if result.problems:
        raise Refused(422, result.problems)
    return result.spec


def refuse_against_policies(
    connection: Connection, project: Any, kind: workload_spec.Kind, name: str, spec: Mapping[str, Any], verb: str
) -> None:
    """Refuses to start a workload that was admitted before, if it breaks a policy of the project by now."""
    if problems := rule_problems(policies_of(connection, project, kind), spec):
        fix = f"change it first: runai update {name}, or submit it again"
        raise Refused(
            409,
            [
                each.model_copy(update={"what": f"{name} cannot be {verb}: {each.what}", "fix": fix, "field": None})
                for each in problems
            ],
        )
