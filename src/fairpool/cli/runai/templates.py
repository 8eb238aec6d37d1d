"""`runai list templates`, `describe template`, and their older spelling `runai template`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.runai.assets import asset_called, kinds_text, scope_text, show_facts, value_texts
from fairpool.cli.runai.flags import GlobalOptions, command, template_names
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column

if TYPE_CHECKING:
    from fairpool.api.assets import Template


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
        found = asset_called(client.templates(), "template", name)
    show_template(found, output)


def show_template(found: Template, output: str | None) -> None:
    """One template in the requested format."""
    show_facts(found, facts(found), output)


def facts(found: Template) -> list[tuple[str, str]]:
    """The facts of a template, then its values, each with its marks."""
    marks = dict.fromkeys(found.locked, "locked") | dict.fromkeys(found.required, "required")
    values = dict(value_texts(found.spec))
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
