"""`runai context`: names for several control planes, each with a default project and cluster of its own."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, replace

import click

from fairpool.api.config_directory import config_directory
from fairpool.cli.failure import failure
from fairpool.cli.runai.configuration import Configuration, Context, address, listening_here
from fairpool.cli.runai.flags import GlobalOptions, command, context_names, flag
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.screen import Column, printable

CONTEXT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")


@command("list", "runai context list", with_project=False)
@output_flag
@click.pass_obj
def list_contexts(options: GlobalOptions, output: str | None) -> None:
    """List contexts, and which one is in use."""
    configuration = _configuration(options)
    chosen = configuration.context(options.context, options.server)
    used = chosen.name if chosen else None
    found = [
        _listed(configuration, each, is_current=each.name == used and output != "name")
        for each in sorted(configuration.contexts().values(), key=lambda each: each.name)
    ]
    documents = [{**asdict(each.context), "current": each.is_current} for each in found]
    show(output, context_columns(), found, documents=documents)
    if not found and output in (None, "wide"):
        options.notice("There are no contexts. To add one: runai context set NAME --server ADDRESS")
    elif used is None:
        _say_overridden(options, configuration)


@dataclass(frozen=True, slots=True)
class ListedContext:
    """A row of the list."""

    context: Context
    is_current: bool
    project: str
    user: str


def _listed(configuration: Configuration, context: Context, *, is_current: bool) -> ListedContext:
    login = configuration.login(context.server)
    project = context.project or configuration.default("project", context.server) or ""
    return ListedContext(context, is_current, project, login.user if login else "")


def context_columns() -> list[Column[ListedContext]]:
    return [
        Column("CONTEXT", lambda each: f"{each.context.name}{' (current)' if each.is_current else ''}"),
        Column("SERVER", lambda each: each.context.server),
        Column("PROJECT", lambda each: each.project or "-"),
        Column("USER", lambda each: each.user or "-", spare=1),
    ]


@command("use", "runai context use east", with_project=False)
@click.argument("name", shell_complete=context_names)
@click.pass_obj
def use_context(options: GlobalOptions, name: str) -> None:
    """Switch to a context: commands use its server, project and login."""
    configuration = _configuration(options)
    configuration.use_context(name)
    click.echo(f"Context {printable(name)} is now in use")
    _say_overridden(options, configuration)


@command("set", "runai context set east --server https://east.example.com --use", with_project=False)
@click.argument("name", shell_complete=context_names)
@flag("--project", metavar="NAME", help="Default project of the context; empty: that of the server.")
@flag("--cluster", metavar="NAME", help="Default cluster of the context; empty: that of the server.")
@flag("--use", is_flag=True, help="Also switch to it.")
@click.pass_obj
def set_context(options: GlobalOptions, name: str, project: str | None, cluster: str | None, use: bool) -> None:
    """Add a context with --server, or change one. Then sign in with `runai login`."""
    if not CONTEXT_NAME.fullmatch(name):
        fix = "use up to 63 letters, digits, dots, - and _, starting with a letter or digit"
        raise failure("context.name", f"{name!r} is not a valid name", fix)
    configuration = _configuration(options)
    known = configuration.contexts().get(name)
    server = address(options.server) if options.server else known.server if known else None
    if server is None:
        raise failure("context.no_server", f"context {name} is new and needs a server", "add --server ADDRESS")
    made = replace(known, server=server) if known else Context(name, server)
    made = replace(made, project=made.project if project is None else project)
    made = replace(made, cluster=made.cluster if cluster is None else cluster)
    configuration.set_context(made, use=use)
    click.echo(f"Context {name} {'changed' if known else 'added'}{' and in use' if use else ''}")
    if configuration.login(server) is None:
        options.notice(f"You are not signed in to {server}. To sign in: runai login --context {name}")


@command("delete", "runai context delete east", with_project=False)
@click.argument("names", nargs=-1, required=True, shell_complete=context_names)
@click.pass_obj
def delete_contexts(options: GlobalOptions, names: tuple[str, ...]) -> None:
    """Delete contexts. Their servers, jobs and logins are not touched."""
    configuration = _configuration(options)
    found = [configuration.named_context(name) for name in dict.fromkeys(names)]
    for each in found:
        configuration.delete_context(each.name)
        click.echo(f"Context {printable(each.name)} deleted")
        if configuration.login(each.server) is not None:
            options.notice(
                f"You are still signed in to {each.server}. To sign out: runai logout --server {each.server}"
            )


def _configuration(options: GlobalOptions) -> Configuration:
    return Configuration(config_directory(options.config))


def _say_overridden(options: GlobalOptions, configuration: Configuration) -> None:
    """A variable of the shell that wins over the context in use."""
    current = configuration.current_context()
    named = os.environ.get("FAIRPOOL_CONTEXT")
    if current is None or named == current.name:
        return
    by = {
        "FAIRPOOL_CONTEXT": named,
        "FAIRPOOL_SERVER": os.environ.get("FAIRPOOL_SERVER"),
        "FAIRPOOL_LISTEN": listening_here(),
    }
    variable = next((name for name, value in by.items() if value), None)
    if variable is not None:
        options.warn(f"Warning: {variable} is set, so commands in this shell do not use context {current.name}.")
