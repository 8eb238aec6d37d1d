"""What is wrong with a workload template before it is stored. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from fairpool.api import assets as wire
from fairpool.api import workload_spec
from fairpool.api.problems import ProblemItem
from fairpool.control.admission import KIND_OF_SUBMIT
from fairpool.control.template_values import ONE_SUBMIT_ONLY, SPECS, Values, is_field, supported, supports
from fairpool.control.unsupported import refusals

SECRET_NAME = re.compile(r"(?i)(passw(or)?d|secret|token|api_?key|access_?key|private_?key|credential)s?$")
"""How the names of variables end whose values are secrets."""


def template_problems(body: wire.TemplateRequest) -> list[ProblemItem]:
    """Everything that is wrong: what no submit could have would be refused at each of them."""
    values: Values = body.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    single = [
        _problem("template.field", f"a template cannot set {name}", "set it at each submit", f"spec.{name}")
        for name in ONE_SUBMIT_ONLY
        if name in values
    ]
    wrong = [*single, *_of_kinds(body, values), *_of_paths(body), *_of_secrets(body.spec)]
    if not wrong and not values and not body.required and not body.locked:
        wrong.append(_problem("template.empty", "the template has no values", "set at least one", "spec"))
    return wrong or _not_carried(body, values)


def _of_secrets(spec: wire.TemplateSpec) -> Iterator[ProblemItem]:
    """A template is shown to everyone in its scope: by its name, a variable is a secret."""
    own = [("spec", spec.environment_variables)]
    if spec.master_spec is not None:
        own.append(("spec.masterSpec", spec.master_spec.environment_variables))
    for place, variables in own:
        for each in variables:
            if each.value and SECRET_NAME.search(each.name):
                what = f"the value of {each.name[:64]} would be shown to everyone who can use the template"
                fix = f"store it as a credential, and refer to it: -e {each.name[:64]}=SECRET:NAME,KEY"
                yield _problem("template.secret_value", what, fix, f"{place}.environmentVariables")


def _of_kinds(body: wire.TemplateRequest, values: Values) -> Iterator[ProblemItem]:
    possible, asked = supported(values), body.meta.workload_supported_types
    kinds = [kind for kind in SPECS if asked is not None and supports(asked, kind)]
    if not any(supports(possible, kind) for kind in SPECS):
        fix = "make one template for each kind"
        yield _problem("template.no_kind", "no kind of workload has all these fields", fix, "spec")
    elif asked is not None and not kinds:
        fix = "set at least one of them, or remove workloadSupportedTypes"
        yield _problem("template.no_kind", "it supports no kind of workload", fix, "meta.workloadSupportedTypes")
    for kind in kinds:
        lacking = set(values) - {info.alias for info in SPECS[kind].model_fields.values()}
        if lacking:
            what = f"a {kind.value.lower()} has no {', '.join(sorted(lacking))}"
            fix = f"remove that, or do not support {kind.value.lower()}"
            yield _problem("template.kind_lacks", what, fix, f"meta.workloadSupportedTypes.{kind.value.lower()}")


def _of_paths(body: wire.TemplateRequest) -> Iterator[ProblemItem]:
    for name, paths in (("required", body.required), ("locked", body.locked)):
        for path in paths:
            if not is_field(path):
                fix = "use the name of a field of spec, e.g. image or compute.gpu"
                yield _problem("template.no_field", f"no workload has a field {path}", fix, name)
    if body.locked and not body.administrative:
        fix = "set administrative, or remove locked"
        yield _problem("template.locked", "only an administrative template can lock fields", fix, "locked")


def _not_carried(body: wire.TemplateRequest, values: Values) -> list[ProblemItem]:
    """Values that every submit would be refused for; what only some nodes can do is checked at each submit."""
    found: dict[str, ProblemItem] = {}
    types = body.meta.workload_supported_types or supported(values)
    for submit, kind in KIND_OF_SUBMIT.items():
        if supports(types, kind):
            request = submit.model_validate({"projectId": "template", "spec": values})
            refused = refusals(cast(workload_spec.SubmitAny, request), has_containers=True)
            found |= {each.field or "": each for each in refused}
    return list(found.values())


def _problem(code: str, what: str, fix: str, field: str) -> ProblemItem:
    return ProblemItem(code=code, what=what, fix=fix, field=field)
