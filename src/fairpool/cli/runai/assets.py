"""`runai list` and `describe` of environments, compute resources and data sources; what all assets have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from fairpool.api.record import Record, document
from fairpool.cli.failure import failure, meant
from fairpool.cli.runai.flags import Command, Flag, GlobalOptions, asset_names
from fairpool.cli.runai.listing import FORMATS, PROSE, show, show_document, show_one
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable

NARROWEST_FIRST = ("project", "department", "cluster", "tenant")


@dataclass(frozen=True, slots=True)
class AssetNoun:
    """One kind of asset, in the words of the commands."""

    kind: str
    """In the API; `datasource` stands for all kinds of data sources."""
    noun: str
    command: str
    """Of `runai-adm`."""
    example: str
    """Of what it holds, in flags."""

    @property
    def listed_as(self) -> str:
        """In `runai list`."""
        return f"{self.noun.replace(' ', '-')}s"


NOUNS = {
    each.kind: each
    for each in (
        AssetNoun("environment", "environment", "environment", "-i python -e EPOCHS=3"),
        AssetNoun("compute", "compute resource", "compute", "-g 0.5 --cpu 4 --memory 8G"),
        AssetNoun("datasource", "data source", "datasource", "-v /raid/data:/data:ro"),
    )
}


def output_option() -> Flag:
    text = "Output format: json, yaml, wide (all columns) or name."
    return Flag(["-o", "--output"], type=click.Choice(FORMATS), help=text)


def list_command(kind: str, name: str = "") -> Command:
    """`runai list environments`."""
    noun = NOUNS[kind]

    @click.pass_obj
    def list_assets(options: GlobalOptions, output: str | None) -> None:
        with Session(options).connected() as client:
            found = all_assets(client, kind)
        draw_assets(options, noun, found, output)

    return Command(
        name or noun.listed_as,
        params=[output_option()],
        callback=list_assets,
        help=f"List the {noun.noun}s that you can use.",
        example=f"runai list {noun.listed_as}",
        with_project=False,
    )


def describe_command(kind: str) -> Command:
    """`runai describe environment NAME`."""
    noun = NOUNS[kind]
    name = noun.listed_as.removesuffix("s")

    @click.pass_obj
    def describe_asset(options: GlobalOptions, name: str, output: str | None) -> None:
        with Session(options).connected() as client:
            found = asset_called(all_assets(client, kind), noun.noun, name)
        show_asset(found, output)

    return Command(
        name,
        params=[click.Argument(["name"], shell_complete=asset_names(kind)), output_option()],
        callback=describe_asset,
        help=f"Show the values of one {noun.noun}.",
        example=f"runai describe {name} NAME",
        with_project=False,
    )


def all_assets(client: Any, kind: str) -> list[Record]:
    """Those that the user may see; the values of a data source directly under `spec`."""
    found: list[Record] = client.assets_of(kind)
    return [Record({**each, "spec": each.spec[each.kind]}) for each in found] if kind == "datasource" else found


def draw_assets(options: GlobalOptions, noun: AssetNoun, found: list[Record], output: str | None) -> None:
    """A list of assets."""
    columns: list[Column[Any]] = [
        Column("NAME", lambda each: each.meta.name),
        *([Column[Any]("KIND", lambda each: each.kind)] if noun.kind == "datasource" else []),
        Column("SCOPE", scope_text),
        Column(
            "VALUES", lambda each: ", ".join(f"{name}={text}" for name, text in value_texts(each.spec)), least=PROSE
        ),
        Column("DESCRIPTION", lambda each: each.meta.description or "-", spare=1),
        Column("FOR", kinds_text, wide=True),
        Column("CREATED BY", lambda each: each.created_by, wide=True),
    ]
    show(output, columns, found, documents=document(found))
    if not found and output in (None, "wide"):
        create = f"runai-adm {noun.command} create NAME {noun.example}"
        options.notice(f"There are no {noun.noun}s. An administrator creates one: {create}")


def show_asset(found: Any, output: str | None) -> None:
    """One asset in the requested format."""
    facts = [
        ("NAME", found.meta.name),
        ("KIND", found.kind),
        ("DESCRIPTION", found.meta.description or "-"),
        ("SCOPE", scope_text(found)),
        ("FOR", kinds_text(found)),
        ("CREATED BY", found.created_by),
        ("VALUES", ""),
        *((f"  {path}", text) for path, text in value_texts(found.spec)),
    ]
    show_facts(found, facts, output)


def show_facts(found: Any, facts: list[tuple[str, str]], output: str | None) -> None:
    """An asset by its facts, or as a document."""
    if output == "name":
        click.echo(printable(found.meta.name))
    elif output in ("json", "yaml"):
        show_document(output, document(found))
    else:
        show_one(output, found, facts)


def value_texts(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The values of an asset, each with the name of its field."""
    for name, value in spec.items():
        if isinstance(value, Mapping) and {"id", "name"} <= set(value):  # an asset that a template names
            yield name, value["name"]
        elif isinstance(value, Mapping):
            yield from ((f"{name}.{below}", text) for below, text in value_texts(value))
        elif isinstance(value, list) and all(isinstance(each, str) for each in value):
            yield name, " ".join(value)
        elif isinstance(value, list):
            yield name, "; ".join(_item(each) for each in value)
        else:
            yield name, value if isinstance(value, str) else json.dumps(value)


def _item(value: Any) -> str:
    if isinstance(value, Mapping) and set(value) <= {"name", "value"}:
        return f"{value.get('name', '')}={value.get('value', '')}"
    if isinstance(value, Mapping) and {"id", "name"} <= set(value):
        return str(value["name"])
    if not isinstance(value, Mapping):
        return str(value)
    return ", ".join(f"{name}={text}" for name, text in value_texts(value))


def scope_text(found: Any) -> str:
    """`project team-a`, or `tenant`."""
    meta = found.meta
    scope_id = meta.project_name or meta.department_id or meta.cluster_id
    return f"{meta.scope} {scope_id}" if scope_id else str(meta.scope)


def kinds_text(found: Any) -> str:
    types: Mapping[str, bool] = document(found.meta.workload_supported_types)
    return ", ".join(name for name, is_supported in types.items() if is_supported is True)


def asset_called(found: list[Any], noun: str, name: str, scope: str | None = None) -> Any:
    """The asset of this name, of the narrowest scope that has one; raises a failure with names that may be meant."""
    fitting = [each for each in found if name in (each.meta.name, each.id) and scope in (None, scope_text(each))]
    if not fitting:
        where = f" of {scope}" if scope is not None else ""
        known = [each.meta.name for each in found if scope in (None, scope_text(each))]
        code = f"{noun.replace(' ', '_')}.unknown"
        raise failure(code, f"there is no {noun} {name}{where}", hint=meant(name, known))
    return min(fitting, key=lambda each: NARROWEST_FIRST.index(each.meta.scope))
