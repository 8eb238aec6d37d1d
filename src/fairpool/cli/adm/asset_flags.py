"""What the commands of `runai-adm` for templates and other assets have in common: scope flags, values from flags."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import click

from fairpool.api.client import Client, Refused
from fairpool.api.limits import TEMPLATE_NAME_PATTERN
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai import submission
from fairpool.cli.runai.assets import asset_called, scope_text
from fairpool.cli.runai.field_flags import refused_flag
from fairpool.cli.runai.flags import Flag, GlobalOptions, flag
from fairpool.cli.runai.submit import settle_command
from fairpool.cli.runai.submit import submit as plain
from fairpool.model.problem import Problem

SCOPES = ("project", "department", "cluster")
NAME = re.compile(TEMPLATE_NAME_PATTERN)
Say = Callable[[Problem, str], Problem]


def scope_flags(section: str) -> list[click.Parameter]:
    """Of a command that creates or changes an asset."""
    return [
        Flag(["--project", "-p"], metavar="NAME", section=section, help="Only for this project."),
        Flag(["--department"], metavar="NAME", section=section, help="Only for projects of this department."),
        Flag(["--cluster"], metavar="NAME", section=section, help="Only for projects of this cluster."),
        Flag(["--description"], metavar="TEXT", section=section, help="A description."),
    ]


def in_scope(function: Any) -> Any:
    """Of a command that names an asset."""
    for name, text in zip(SCOPES, ("this project", "this department", "this cluster"), strict=True):
        names = ("--project", "-p") if name == "project" else (f"--{name}",)
        function = flag(*names, metavar="NAME", help=f"The one of {text}.")(function)
    return function


def asked_scope(asked: Mapping[str, Any]) -> dict[str, str]:
    """The scope by flags, as the API takes it; without flags the tenant."""
    given = [name for name in SCOPES if asked[name]]
    if len(given) > 1:
        what = f"the scope is given twice, --{given[0]} and --{given[1]}"
        raise failure("flag.scope", what, "leave out all but one")
    return {"scope": given[0], f"{given[0]}Id": asked[given[0]]} if given else {"scope": "tenant"}


def asset_found(client: Client, everything: list[Any], noun: str, name: str, asked: Mapping[str, Any]) -> Any:
    """The asset that is meant; raises a failure if there is none, or several."""
    said = asked_scope(asked)
    scope_id = next((value for key, value in said.items() if key != "scope"), "")
    if said["scope"] == "cluster":
        scope_id = next((each.uuid for each in client.clusters() if scope_id in (each.name, each.uuid)), scope_id)
    if scope_id:
        return asset_called(everything, noun, name, f"{said['scope']} {scope_id}")
    scopes = [scope_text(each) for each in everything if name in (each.meta.name, each.id)]
    if len(scopes) > 1:
        what = f"there are {noun}s {name} of {', '.join(scopes)}"
        raise failure("asset.several", what, "say which with --project, --department, --cluster, or its id")
    return asset_called(everything, noun, name)


def stored(call: Callable[[], Any], say: Say = refused_flag) -> Any:
    """Create or replace an asset; its refusals are a failure, each as `say` puts it."""
    try:
        return call()
    except Refused as refusal:
        if refusal.status not in (409, 412, 422):
            raise
        raise Failure([say(item.problem, item.field or "") for item in refusal.items]) from refusal


# --- values --------------------------------------------------------------------------------------------------------


def _unset(each: click.Parameter) -> Any:
    """What a flag of `runai submit` would say by itself."""
    if isinstance(each, click.Option) and each.multiple:
        return ()
    return False if isinstance(each, click.Option) and each.is_flag and not each.secondary_opts else None


UNSET: Mapping[str, Any] = {each.name or "": _unset(each) for each in plain.params if each.expose_value}


def values_of(ctx: click.Context, asked: dict[str, Any]) -> None:
    """Complete the flags as `submit` does; raises a failure with all that is wrong with them."""
    options: GlobalOptions = ctx.obj
    asked |= {name: value for name, value in UNSET.items() if name not in asked}
    settle_command(ctx, options, asked)
    asked["large_shm"] = asked.pop("large_shdm") or asked["large_shm"]
    if problems := submission.problems(asked):
        raise Failure(problems)


def check_name(name: str | None, noun: str) -> str:
    """Refuses a name that no asset can have."""
    if not name or not NAME.fullmatch(name):
        fix = "use up to 63 letters, digits, _, . and -, such as batch_ops"
        what = f"{name!r} is not a valid {noun} name" if name else f"the {noun} needs a name"
        raise failure("flag.name", what, fix)
    return name


def given(ctx: click.Context, *, besides: tuple[str, ...] = ("name", *SCOPES)) -> list[str]:
    """The flags that were typed, without those that only say which asset is meant."""
    source = click.core.ParameterSource.COMMANDLINE
    typed = [name for name in ctx.params if ctx.get_parameter_source(name) is source]
    words = ["words"] if ctx.meta.get("words") else []
    return [*(name for name in typed if name not in besides), *words]


def require_change(ctx: click.Context) -> None:
    """Refuses an update that would change nothing."""
    if not given(ctx):
        raise failure("flag.no_change", "there is nothing to change", "name at least one flag; see --help")
