"""`runai configmap`: config maps of a project, from files and from values."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.record import document
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show, show_document
from fairpool.cli.runai.session import Session, check_project
from fairpool.cli.screen import Column, Screen, printable

if TYPE_CHECKING:
    from fairpool.api.config_maps import ConfigMapItem

FILE_MAX_BYTES = 256 * 1024


@command("list", "runai configmap list -p team-a")
@output_flag
@click.pass_obj
def list_config_maps(options: GlobalOptions, output: str | None) -> None:
    """List the config maps of a project."""
    session = Session(options)
    project = session.project()
    with session.connected() as client:
        check_project(client, project)
        found = client.config_maps(project)
    columns: list[Column[ConfigMapItem]] = [
        Column("NAME", lambda each: each.name),
        Column("KEYS", lambda each: ", ".join(each.data), spare=1),
        Column("BYTES", lambda each: str(sum(len(text.encode()) for text in each.data.values()))),
        Column("AGE", lambda each: ages.age(each.created_at)),
        Column("USER", lambda each: each.created_by),
    ]
    show(output, columns, found, documents=document(found), title=f"Showing config maps of project {project}")
    if not found and output in (None, "wide"):
        example = "runai configmap create NAME --from-file FILE"
        options.notice(f"There are no config maps in project {project}. To create one: {example}")


@command("describe", "runai configmap describe settings")
@click.argument("name")
@output_flag
@click.pass_obj
def describe_config_map(options: GlobalOptions, name: str, output: str | None) -> None:
    """Show a config map with its contents."""
    session = Session(options)
    with session.connected() as client:
        found = client.config_map(session.project(), name)
    if output in ("json", "yaml"):
        show_document(output, document(found))
        return
    if output == "name":
        click.echo(printable(found.name))
        return
    screen = Screen.here()
    screen.facts([("NAME", found.name), ("CHANGED", ages.local(found.updated_at))], aligned=False)
    screen.show()
    for key, text in found.data.items():
        click.echo(f"\n{printable(key)}:")
        for line in text.splitlines():
            click.echo(f"  {printable(line)}")


def _contents(command_function: Any) -> Any:
    for each in (
        flag("--from-literal", multiple=True, metavar="KEY=VALUE", help="A key with this value; repeatable."),
        flag("--from-file", multiple=True, metavar="[KEY=]FILE", help="A file, under its name or KEY; repeatable."),
    ):
        command_function = each(command_function)
    return command_function


@command("create", "runai configmap create settings --from-file train.yaml")
@click.argument("name")
@_contents
@click.pass_obj
def create_config_map(
    options: GlobalOptions, name: str, from_file: tuple[str, ...], from_literal: tuple[str, ...]
) -> None:
    """Create a config map. Jobs mount it (--configmap-volume) or read a value (-e X=CONFIGMAP:NAME,KEY)."""
    data = contents_of(from_file, from_literal)
    session = Session(options)
    with session.connected() as client:
        client.create_config_map({"name": name, "projectId": session.project(), "data": data})
    click.echo(f"Config map {printable(name)} created.")


@command("update", "runai configmap update settings --from-file train.yaml")
@click.argument("name")
@_contents
@click.pass_obj
def update_config_map(
    options: GlobalOptions, name: str, from_file: tuple[str, ...], from_literal: tuple[str, ...]
) -> None:
    """Replace all contents of a config map. Jobs that were submitted before keep theirs."""
    data = contents_of(from_file, from_literal)
    session = Session(options)
    with session.connected() as client:
        client.replace_config_map(session.project(), name, {"data": data})
    click.echo(f"Config map {printable(name)} updated.")


@command("delete", "runai configmap delete settings")
@click.argument("names", nargs=-1, required=True)
@click.pass_obj
def delete_config_maps(options: GlobalOptions, names: tuple[str, ...]) -> None:
    """Delete config maps. Jobs that were submitted with one keep its contents."""
    session = Session(options)
    with session.connected() as client:
        for name in dict.fromkeys(names):
            client.delete_config_map(session.project(), name)
            click.echo(f"Config map {printable(name)} deleted.")


def contents_of(files: tuple[str, ...], literals: tuple[str, ...]) -> dict[str, str]:
    """Keys and values; a failure if there are none, or one is given twice."""
    pairs = [_from_file(text) for text in files] + [_from_literal(text) for text in literals]
    if not pairs:
        raise failure("config_map.empty", "a config map needs contents", "give --from-file FILE or --from-literal K=V")
    keys = [key for key, _ in pairs]
    if double := next((key for key in keys if keys.count(key) > 1), None):
        raise failure("config_map.twice", f"the key {double} is given twice", "use --from-file OTHER=FILE")
    return dict(pairs)


def _from_literal(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise failure(
            "config_map.literal", f"--from-literal {text!r} is not KEY=VALUE", "write --from-literal epochs=3"
        )
    return key, value


def _from_file(text: str) -> tuple[str, str]:
    key, equals, path = text.partition("=")
    path = path if equals else text
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_MAX_BYTES + 1)
        if len(content) > FILE_MAX_BYTES:
            what = f"{path} is larger than {FILE_MAX_BYTES >> 10} KiB"
            raise failure("config_map.too_large", what, "put large files in a volume claim")
        return key if equals else os.path.basename(path), content.decode()
    except UnicodeDecodeError:
        raise failure(
            "config_map.not_text", f"{path} is not UTF-8 text", "put binary files in a volume claim"
        ) from None
    except Failure:
        raise
    except OSError as error:
        raise failure("config_map.file", f"{path} cannot be read ({error.strerror})", "check its path") from error
