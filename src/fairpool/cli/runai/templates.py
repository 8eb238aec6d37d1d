"""`runai list templates`, `describe template`, and their older spelling `runai template`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.record import document
from fairpool.cli.failure import failure, meant
from fairpool.cli.runai.flags import GlobalOptions, command, template_names
from fairpool.cli.runai.listing import output_flag, show, show_document, show_one
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.assets import Template

NARROWEST_FIRST = ("project", "department", "cluster", "tenant")


@command("templates", "runai list templates", with_project=False)
@output_flag
@click.pass_obj
def list_templates(options: GlobalOptions, output: str | None) -> None:
    """List the workload templates that you can use. The administrative ones apply to every submit in their scope."""
    with Session(options).connected() as client:
        found = client.templates()
    draw_templates(options, found, output)


def draw_templates(options: GlobalOptions, found: list[Template], output: str | None) -> None:
    """A list of templates."""
    columns: list[Column[Template]] = [
        Column("NAME", lambda each: f"{each.meta.name}{' (Admin)' * (each.administrative and output != 'name')}"),
        Column("SCOPE", scope_text),
        Column("DESCRIPTION", lambda each: each.meta.description or "-", spare=1),
        Column("FOR", kinds_text, wide=True),
        Column("CREATED BY", lambda each: each.created_by, wide=True),
    ]
    show(output, columns, found, documents=document(found))
    if not found and output in (None, "wide"):
        options.notice("There are no templates. An administrator creates one: runai-adm template create NAME FLAGS")


@command("template", "runai describe template batch_ops", with_project=False)
@click.argument("name", shell_complete=template_names)
@output_flag
@click.pass_obj
def describe_template(options: GlobalOptions, name: str, output: str | None) -> None:
    """Show a workload template with its values."""
    with Session(options).connected() as client:
        found = template_called(client.templates(), name)
    show_template(found, output)


def show_template(found: Template, output: str | None) -> None:
    """One template in the requested format."""
    if output == "name":
        click.echo(printable(found.meta.name))
    elif output in ("json", "yaml"):
        show_document(output, document(found))
    else:
        show_one(output, found, facts(found))


def facts(found: Template) -> list[tuple[str, str]]:
    """The facts of a template, then its values, each with its marks."""
    marks = dict.fromkeys(found.locked, "locked") | dict.fromkeys(found.required, "required")
    values = dict(_values(found.spec))
    empty = {path: "-" for path in marks if path not in values}
    return [
        ("NAME", found.meta.name),
        ("DESCRIPTION", found.meta.description or "-"),
        ("SCOPE", scope_text(found)),
        ("ADMINISTRATIVE", "yes: it applies to every submit in its scope" if found.administrative else "no"),
        ("FOR", kinds_text(found)),
        ("CREATED BY", found.created_by),
        ("VALUES", "" if values or empty else "none"),
        *((f"  {path}", f"{text}{_marks(path, found)}") for path, text in (values | empty).items()),
    ]


def _marks(path: str, found: Template) -> str:
    said = [word for word, paths in (("required", found.required), ("locked", found.locked)) if path in paths]
    return f" ({', '.join(said)})" if said else ""


def _values(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in spec.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{below}", text) for below, text in _values(value))
        elif isinstance(value, list) and all(isinstance(each, str) for each in value):
            yield name, " ".join(value)
        elif isinstance(value, list):
            yield name, "; ".join(_item(each) for each in value)
        else:
            yield name, value if isinstance(value, str) else json.dumps(value)


def _item(value: Any) -> str:
    if isinstance(value, Mapping) and set(value) <= {"name", "value"}:
        return f"{value.get('name', '')}={value.get('value', '')}"
    return ", ".join(f"{key}={each}" for key, each in value.items()) if isinstance(value, Mapping) else str(value)


def scope_text(found: Template) -> str:
    """`project team-a`, or `tenant`."""
    meta = found.meta
    scope_id = meta.project_id or meta.department_id or meta.cluster_id
    return f"{meta.scope} {scope_id}" if scope_id else str(meta.scope)


def kinds_text(found: Template) -> str:
    types: Mapping[str, bool] = document(found.meta.workload_supported_types)
    return ", ".join(name for name, is_supported in types.items() if is_supported)


def template_called(found: list[Template], name: str, scope: str | None = None) -> Template:
    """The template of this name, of the narrowest scope that has one; raises a failure with names that may be meant."""
    fitting = [each for each in found if name in (each.meta.name, each.id) and scope in (None, scope_text(each))]
    if not fitting:
        where = f" of {scope}" if scope is not None else ""
        known = [each.meta.name for each in found if scope in (None, scope_text(each))]
        raise failure("template.unknown", f"there is no template {name}{where}", hint=meant(name, known))
    return min(fitting, key=lambda each: NARROWEST_FIRST.index(each.meta.scope))
