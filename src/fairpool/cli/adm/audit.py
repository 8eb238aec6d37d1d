"""`runai-adm audit`: list, get, export and verify the audit log."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.audit_chain import head_of
from fairpool.api.audit_export import ExportCheck, NoAuditExport, exported_entries
from fairpool.api.record import document
from fairpool.cli.failure import UNUSABLE, Failure, fail, failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show, show_document
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, Screen, printable
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairpool.api.audit import AuditEntry


def _filters(function: Callable[..., None]) -> Callable[..., None]:
    for decorate in (
        flag("--filter", "filter_by", metavar="CONDITIONS", help="E.g. entity_type==project,http_status_code>=400."),
        flag("--search", metavar="TEXT", help="Text in the subject, the entity or the URL."),
        flag("--until", "end", metavar="TIME", help="Only entries before this time (ISO 8601)."),
        flag("--since", "start", metavar="TIME", help="Only entries after this time (ISO 8601)."),
    ):
        function = decorate(function)
    return function


def _said(**values: Any) -> dict[str, Any]:
    names = {"filter_by": "filterBy"}
    return {names.get(name, name): value for name, value in values.items() if value is not None}


@command("list", "runai-adm audit list --filter entity_type==project --limit 20", with_project=False)
@_filters
@flag("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="Number of entries.")
@output_flag
@click.pass_obj
def list_audit(options: GlobalOptions, /, output: str | None, limit: int, **chosen: str | None) -> None:
    """List the audit log, newest first: who did what, from where, and the result."""
    with Session(options).connected() as client:
        found = client.audit(limit=limit, **_said(**chosen))
    show(output, audit_columns(), found, documents=document(found))


def audit_columns() -> list[Column[AuditEntry]]:
    return [
        Column("ID", lambda each: each.id),
        Column("TIME", lambda each: ages.local(each.timestamp)),
        Column("SUBJECT", lambda each: each.subject),
        Column("ACTION", lambda each: each.action),
        Column("ENTITY", lambda each: f"{each.entity_type} {each.entity_name}".strip(), least=16),
        Column("RESULT", lambda each: each.result),
        Column("FROM", lambda each: each.source_ip or "-", wide=True),
        Column("STATUS", lambda each: str(each.http_status_code or "-"), wide=True),
        Column("REQUEST", lambda each: each.request_id or "-", wide=True),
    ]


@command("get", "runai-adm audit get 42", with_project=False)
@click.argument("entry", type=click.IntRange(1))
@output_flag
@click.pass_obj
def get_audit(options: GlobalOptions, entry: int, output: str | None) -> None:
    """Show one entry with what it changed."""
    with Session(options).connected() as client:
        found = client.audit(limit=1, filterBy=f"id=={entry}")
    if not found:
        raise failure("audit.unknown", f"there is no audit entry {entry}", "see `runai-adm audit list`")
    if output in ("json", "yaml"):
        show_document(output, document(found[0]))
        return
    if output == "name":
        click.echo(found[0].id)
        return
    screen = Screen.here()
    facts = [(column.heading, column.cell(found[0])) for column in audit_columns()]
    facts += [("URL", f"{found[0].http_method} {found[0].url}"), ("HASH", found[0].hash or "-")]
    screen.facts([(name, value) for name, value in facts if value != "-"], aligned=False)
    screen.show()
    for change in found[0].changes:
        click.echo(f"\n{printable(change.kind)} {printable(change.id)}")
        for line in _difference(document(change)):
            click.echo(printable(line))


def _difference(change: dict[str, Any]) -> list[str]:
    """A line for each field that was removed, or added."""
    lines = []
    before, after = change.get("before") or {}, change.get("after") or {}
    for name in {**before, **after}:
        lines += [f"  - {name}: {json.dumps(before[name])}"] if name in before else []
        lines += [f"  + {name}: {json.dumps(after[name])}"] if name in after else []
    return lines + [f"  ~ {name}" for name in change.get("fields") or []]


@command("export", "runai-adm audit export --format jsonl --since 2026-11-01 > audit.jsonl", with_project=False)
@_filters
@flag(
    "--format",
    "kind",
    type=click.Choice(["csv", "json", "jsonl"]),
    default="csv",
    show_default=True,
    help="CSV, one JSON list, or JSON lines.",
)
@click.pass_obj
def export_audit(options: GlobalOptions, /, kind: str, **chosen: str | None) -> None:
    """Print the whole audit log, newest first, as CSV or as JSON lines."""
    with Session(options).connected() as client, client.audit_file(fileType=kind, **_said(**chosen)) as pieces:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


@command("verify", "runai-adm audit verify audit.jsonl --known 42:0b5e…", with_project=False)
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@flag("--known", metavar="ID:HASH", help="An entry recorded elsewhere, e.g. in the server's log: it must be there.")
@click.pass_obj
def verify_audit(options: GlobalOptions, file: Path | None, known: str | None) -> None:
    """Check that no entry of the audit log was changed, inserted or removed.

    With FILE, check an export (CSV, JSON or JSON lines) instead of the server's log. That needs no server. Exit code 1:
    an entry is not as it was written.
    """
    if file is not None:
        _verify_file(file, known)
        return
    with Session(options).connected() as client:
        found = client.verify_audit(known)
    if found.first_broken is not None:
        raise _broken(found.first_broken, found.why)
    _show_intact(found.checked, f"{found.head.id}:{found.head.hash}")


def _verify_file(file: Path, known: str | None) -> None:
    head = head_of(known) if known is not None else None
    if known is not None and head is None:
        fix = "expected the number and hash of an entry, as in the server's log: 7:0a1b…"
        fail([Problem("audit.not_a_head", f"--known: {known!r} is not an entry of the audit log", fix)], UNUSABLE)
    check, fix = ExportCheck(head), "pass what `runai-adm audit export` wrote"
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            check.run(exported_entries(opened))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        fail([Problem("audit.file", f"{file} cannot be read: {why}", "check its name and permissions")], UNUSABLE)
    except (NoAuditExport, UnicodeDecodeError) as error:
        why = "it is not text" if isinstance(error, UnicodeDecodeError) else str(error)
        fail([Problem("audit.file", f"{file} is no export of the audit log: {why}", fix)], UNUSABLE)
    if check.broken is not None:
        raise _broken(check.broken, check.why)
    assert check.first is not None, "an export without entries is refused"
    _show_intact(check.count, str(check.last))
    if not check.is_first_proved:
        click.echo(
            f"Whether entry {check.first.id}, the oldest in the file, was changed can only be told with the hash of "
            "the one before it: export that too, or pass --known."
        )


def _broken(number: int, why: str) -> Failure:
    what = f"the audit log is broken: entry {number} {why}"
    fix = "compare it with a backup or with what was forwarded; later entries prove nothing"
    return failure("audit.broken", what, fix)


def _show_intact(count: int, last: str) -> None:
    entries = f"{count} {'entry' if count == 1 else 'entries'}"
    click.echo(f"The audit log is intact: {entries} checked.")
    click.echo(f"Last entry: {last}")
