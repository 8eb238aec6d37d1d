"""`runai policy show`: what policies say about the jobs of a project, before one is submitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from fairpool.api.policy_calls import POLICY_PATHS
from fairpool.api.record import document
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column

KINDS = tuple(POLICY_PATHS)
RULES = ("required", "canEdit", "canAdd", "locked", "min", "max", "step", "options", "defaultFrom")
SECTIONS = ("compute", "security", "storage", "topology", "autoscaling", "servingPort", "worker", "master", "claimInfo")


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """A field that policies speak about."""

    field: str
    default: str
    rule: str
    origin: str


@command("show", "runai policy show -p team-a --kind workspace")
@flag("--kind", type=click.Choice(KINDS), default="training", help="The kind of workload (training).")
@output_flag
@click.pass_obj
def show_policy(options: GlobalOptions, kind: str, output: str | None) -> None:
    """Show the defaults and rules that hold for jobs of a project, and which policy each is from."""
    session = Session(options)
    with session.connected() as client:
        found = client.effective_policy(session.project(), kind)
    draw_effective(options, found, output)


def draw_effective(options: GlobalOptions, found: Any, output: str | None) -> None:
    """The effective policy of a project."""
    columns: list[Column[PolicyLine]] = [
        Column("FIELD", lambda each: each.field),
        Column("DEFAULT", lambda each: each.default or "-", least=12),
        Column("RULE", lambda each: each.rule or "-", least=16),
        Column("FROM", lambda each: each.origin, least=16),
    ]
    rows = sorted(lines(found.effective, found.default_sources or {}), key=lambda each: each.field)
    show(output, columns, rows, documents=document(found))
    if not rows and not (found.effective.get("imposedAssets")) and output in (None, "wide"):
        options.notice(f"No policy holds for {found.type} workloads of project {found.project_name}.")


def lines(policy: Mapping[str, Any], sources: Mapping[str, str]) -> Iterator[PolicyLine]:
    """A line for each field; a default and a rule of the same field share one."""
    defaults = dict(_fields(policy.get("defaults") or {}, ""))
    rules = dict(_fields(policy.get("rules") or {}, ""))
    for path in dict.fromkeys([*defaults, *rules]):
        rule = rules.get(path, {})
        origins = dict.fromkeys(rule.get("sources", {}).values()) if isinstance(rule, Mapping) else {}
        own = next((origin for given, origin in sources.items() if f"{given}.".startswith(f"{path}.")), "")
        named = dict.fromkeys([*([own] if own else []), *origins])
        yield PolicyLine(path, _text(defaults.get(path)), _rule_text(rule), ", ".join(named) or _scope(rule))


def _fields(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        path = f"{prefix}{name}"
        if name in SECTIONS and isinstance(value, Mapping):
            yield from _fields(value, f"{path}.")
        elif isinstance(value, Mapping) and "attributes" in value:
            yield from _fields(value["attributes"], f"{path}[].")
            if rest := {key: each for key, each in value.items() if key != "attributes"}:
                yield path, rest
        else:
            yield path, value


def _rule_text(rule: Any) -> str:
    if not isinstance(rule, Mapping):
        return ""
    inside = {**rule, **(rule.get("instances") or {})}
    said = {name: inside[name] for name in RULES if inside.get(name) not in (None, [])}
    words = {"required": "required", "canEdit": "locked", "canAdd": "no other items"}
    found = []
    for name, value in said.items():
        if name in ("canEdit", "canAdd"):
            found += [words[name]] if value is False else []
        elif name == "required":
            found += [words[name]] if value else []
        elif name == "options":
            found.append(f"one of {', '.join(str(each.get('value')) for each in value)}")
        elif name == "locked":
            found.append(f"locked: {', '.join(value)}")
        elif name == "defaultFrom":
            found.append(f"default {value.get('factor', 1)} x {value.get('field')}")
        else:
            found.append(f"{name} {value}")
    return "; ".join(found)


def _scope(rule: Any) -> str:
    inside = rule.get("instances", rule) if isinstance(rule, Mapping) else {}
    source = inside.get("sourceOfRule") or {}
    return f"policy ({source['scope']})" if "scope" in source else "-"


def _text(value: Any) -> str:
    if isinstance(value, Mapping) and "instances" in value:
        return "; ".join(_text(each) for each in value["instances"])
    if isinstance(value, Mapping):
        return ",".join(f"{name}={_text(each)}" for name, each in value.items())
    if isinstance(value, list):
        return " ".join(_text(each) for each in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
