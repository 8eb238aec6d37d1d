"""`runai-adm policy`: list, get, apply and delete policies for workloads. Files are YAML or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from fairpool.api.policy_calls import POLICY_PATHS
from fairpool.api.record import document
from fairpool.cli.adm.asset_flags import SCOPES, asked_scope, in_scope, stored
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai.assets import scope_text
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show, show_document, show_one
from fairpool.cli.runai.policies import KINDS, lines
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable
from fairpool.model.problem import Problem
from fairpool.model.spelling import did_you_mean

DEFAULT_NAME = "policy"
POLICY_KEYS = ("defaults", "rules", "imposedAssets")
FILE_KEYS = ("kind", "name", "scope", *SCOPES, *POLICY_KEYS)


@command("list", "runai-adm policy list", with_project=False)
@output_flag
@click.pass_obj
def list_policies(options: GlobalOptions, output: str | None) -> None:
    """List policies for workloads."""
    with Session(options).connected() as client:
        found = client.policies()
    columns: list[Column[Any]] = [
        Column("NAME", lambda each: each.meta.name),
        Column("KIND", lambda each: each.type),
        Column("SCOPE", scope_text),
        Column("STATUS", lambda each: _status(each) or "OK", spare=1),
        Column("UPDATED BY", lambda each: each.meta.updated_by, wide=True),
    ]
    show(output, columns, found, documents=document(found))
    if not found and output in (None, "wide"):
        options.notice("There are no policies. To create one: runai-adm policy apply -f FILE --kind training")


@command("get", "runai-adm policy get --kind training -p team-a -o yaml", with_project=False)
@flag("--kind", type=click.Choice(KINDS), required=True, help="The kind of workload.")
@in_scope
@output_flag
@click.pass_obj
def get_policy(options: GlobalOptions, /, kind: str, output: str | None, **scope: str | None) -> None:
    """Show the policy of a scope. With -o yaml it is printed as `apply` takes it again."""
    with Session(options).connected() as client:
        found = client.policy(kind, asked_scope(scope))
    if not found.meta:
        place = " ".join(str(each) for each in asked_scope(scope).values())
        what = f"{place} has no policy for {kind} workloads of its own"
        raise failure("policy.unknown", what, f"to see what holds there: runai policy show --kind {kind} -p PROJECT")
    if output in ("json", "yaml"):
        show_document(output, as_file(kind, found))
        return
    fields = lines(found.policy or {}, {})
    rows = [(f"  {each.field}", "; ".join(filter(None, (each.default, each.rule)))) for each in fields]
    facts = [("NAME", found.meta.name), ("KIND", kind), ("SCOPE", scope_text(found)), ("FIELDS", "")]
    show_one(output, found.meta, [*facts, *rows])


@command("apply", "runai-adm policy apply -f gpus.yaml -p team-a --kind training", with_project=False)
@flag("-f", "--file", metavar="FILE", required=True, help="A file with policies, YAML or JSON; - reads stdin.")
@flag("--kind", type=click.Choice(KINDS), help="The kind of workload, if the file does not say it.")
@flag("--name", metavar="NAME", help="The name of the policy, if the file does not say it.")
@flag("--dry-run", is_flag=True, help="Check the policies and change nothing.")
@in_scope
@click.pass_obj
def apply_policy(options: GlobalOptions, /, file: str, **asked: Any) -> None:
    """Create policies, or replace those of the same kind and scope. Running jobs are not affected.

    Without --project, --department or --cluster, and without a scope in the file, a policy is for all projects.
    """
    found = [_written(*each, asked) for each in _documents(file)]
    problems = [each for each in found if isinstance(each, Problem)]
    if problems:
        raise Failure(problems)
    written = [each for each in found if isinstance(each, Written)]
    with Session(options).connected() as client:
        for each in written:  # all of them, before the first is stored
            stored(partial(client.apply_policy, each.kind, each.request, validate_only=True), each.by_line)
        for each in written:
            if not asked["dry_run"]:
                stored(partial(client.apply_policy, each.kind, each.request), each.by_line)
            done = "would be applied; nothing was changed" if asked["dry_run"] else "applied successfully"
            click.echo(f"Policy {printable(each.request['meta']['name'])} for {each.kind} workloads {done}.")


@command("delete", "runai-adm policy delete --kind training -p team-a", with_project=False)
@flag("--kind", type=click.Choice(KINDS), required=True, help="The kind of workload.")
@in_scope
@click.pass_obj
def delete_policy(options: GlobalOptions, /, kind: str, **scope: str | None) -> None:
    """Delete the policy of a scope. Jobs that exist stay as they are."""
    asked = asked_scope(scope)
    with Session(options).connected() as client:
        client.delete_policy(kind, asked)
    place = " ".join(str(each) for each in asked.values())
    click.echo(f"Policy for {kind} workloads of {printable(place)} deleted successfully.")


def as_file(kind: str, found: Any) -> dict[str, Any]:
    """A policy as `apply` takes it."""
    meta = found.meta
    named = {"project": meta.project_name, "department": meta.department_id, "cluster": meta.cluster_id}
    scope = {meta.scope: named[meta.scope]} if meta.scope != "tenant" else {}
    return {"kind": kind, "name": meta.name, "scope": meta.scope, **scope, **document(found.policy)}


def _status(entry: Any) -> str:
    validation = (entry.status or {}).get("validation") or {}
    return str(validation.get("errorMessage") or "")


# --- files -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """A policy of a file."""

    kind: str
    request: dict[str, Any]
    source: str
    lines: Mapping[tuple[int | str, ...], int]

    def by_line(self, problem: Problem, field: str) -> Problem:
        """A refusal of the server with the line of the file that it is about."""
        place: tuple[int | str, ...] = tuple(field.split(".")[1:]) if field.startswith("policy.") else ()
        while place and place not in self.lines:
            place = place[:-1]
        line = f", line {self.lines[place]}" if place in self.lines else ""
        return Problem(problem.code, f"{self.source}{line}: {problem.what}", problem.fix)


def _documents(file: str) -> list[tuple[dict[str, Any], str, Mapping[Any, int]]]:
    from fairpool.cli.runai import job_file  # loads YAML and the models of the API
    from fairpool.cli.runai.sending import file_text

    text, source = file_text(file)
    found = job_file.mappings(text, source, "a policy", "see docs/reference/policies.md")
    if problems := [each for each in found if isinstance(each, Problem)]:
        raise Failure(problems)
    return [(body, source, lines) for body, lines in (each for each in found if not isinstance(each, Problem))]


def _written(
    body: dict[str, Any], source: str, lines: Mapping[Any, int], asked: Mapping[str, Any]
) -> Written | Problem:
    """A policy of a file with what flags say; flags and file must not contradict each other."""
    if unknown := [name for name in body if name not in FILE_KEYS]:
        fix = did_you_mean(unknown[0], FILE_KEYS, f"use {', '.join(FILE_KEYS)}")
        line = lines.get((unknown[0],), 1)
        return Problem("policy.key", f"{source}, line {line}: {unknown[0]} is not a key of a policy", fix)
    kind = str(body.get("kind") or asked["kind"] or "").lower().removesuffix("s")
    if kind not in POLICY_PATHS:
        what = f"{source}: the policy does not say for which kind of workload it is" if not kind else ""
        what = what or f"{source}: unknown kind {kind!r}"
        return Problem("policy.kind", what, f"write kind: training, or use --kind with {', '.join(KINDS)}")
    if asked["kind"] and asked["kind"] != kind:
        return Problem("policy.kind", f"{source}: the policy is for {kind}, not {asked['kind']}", "leave out --kind")
    named = {name: body[name] for name in SCOPES if body.get(name)}
    scope = asked_scope({name: asked[name] or named.get(name) for name in SCOPES})
    said = str(body.get("scope") or scope["scope"])
    if said != scope["scope"]:
        what = f"{source}: the scope is {said}, but {scope['scope']} is named"
        return Problem("policy.scope", what, f"add {said}: NAME, or change scope")
    meta = {"name": str(body.get("name") or asked["name"] or DEFAULT_NAME), **scope}
    policy = {name: body[name] for name in POLICY_KEYS if body.get(name) is not None}
    return Written(kind, {"meta": meta, "policy": policy}, source, lines)
