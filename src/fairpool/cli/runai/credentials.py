"""`runai list credentials`: what pods can refer to, without the values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairpool.api.client import Client
from fairpool.api.record import document
from fairpool.cli.failure import failure, meant
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command
from fairpool.cli.runai.listing import output_flag, show, show_document, show_one
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.credentials import StoredCredential


@command("credentials", "runai list credentials", with_project=False)
@output_flag
@click.pass_obj
def list_credentials(options: GlobalOptions, output: str | None) -> None:
    """List the credentials that your jobs can refer to. Their values are never shown."""
    with Session(options).connected() as client:
        found = client.credentials()
    draw_credentials(options, found, output)


def draw_credentials(options: GlobalOptions, found: list[StoredCredential], output: str | None) -> None:
    """A list of credentials."""
    columns: list[Column[StoredCredential]] = [
        Column("NAME", lambda each: each.meta.name),
        Column("TYPE", lambda each: str(each.kind)),
        Column("SCOPE", lambda each: f"{scope_of(each)}{', all projects' * each.cluster_wide}"),
        Column("KEYS", keys_of, spare=2),
        Column("STATUS", lambda each: each.phase),
        Column("DESCRIPTION", lambda each: each.meta.description or "-", wide=True),
        Column("UPDATED", lambda each: ages.local(each.updated_at), wide=True),
        Column("CREATED BY", lambda each: each.created_by, wide=True),
    ]
    show(output, columns, found, documents=document(found))
    if not found and output in (None, "wide"):
        options.notice("There are no credentials. To create one: runai-adm credential create NAME --from-file KEY=FILE")


def show_credential(found: StoredCredential, output: str | None) -> None:
    """One credential in the requested format."""
    if output == "name":
        click.echo(printable(found.meta.name))
    elif output in ("json", "yaml"):
        show_document(output, document(found))
    else:
        shown = {"USER": found.spec.user, "URL": found.spec.url, "ACCESS KEY ID": found.spec.access_key_id}
        facts = [
            ("NAME", found.meta.name),
            ("TYPE", str(found.kind)),
            ("SCOPE", f"{scope_of(found)}{', all projects' * found.cluster_wide}"),
            ("DESCRIPTION", found.meta.description or "-"),
            *((title, value) for title, value in shown.items() if value),
            ("KEYS", keys_of(found)),
            ("STATUS", _status(found)),
            ("CREATED BY", found.created_by),
            ("UPDATED", ages.local(found.updated_at)),
        ]
        show_one(output, found, facts)


def _status(found: StoredCredential) -> str:
    if found.phase == "Ready":
        return found.phase
    return f"{found.phase}: its key is not here; set it again with `runai-adm credential update {found.meta.name}`"


def keys_of(found: StoredCredential) -> str:
    return ", ".join(each.name for each in found.spec.secret_keys) or "-"


def scope_of(found: StoredCredential) -> str:
    """`project team-a`, or `tenant`."""
    meta = found.meta
    scope_id = meta.project_name or meta.department_id or meta.cluster_id
    return f"{meta.scope} {scope_id}" if scope_id else str(meta.scope)


def credential_called(client: Client, name: str, scope: str | None) -> StoredCredential:
    """The credential of this name, of this scope or the only one; raises a failure with names that may be meant."""
    fitting = [each for each in client.credentials(name) if scope in (None, scope_of(each))]
    if len(fitting) > 1:
        what = f"there are credentials {name} of {', '.join(scope_of(each) for each in fitting)}"
        raise failure("credential.several", what, "say which with --project, --department or --cluster")
    if fitting:
        return fitting[0]
    where = f" of {scope}" if scope is not None else ""
    known = [each.meta.name for each in client.credentials() if scope in (None, scope_of(each))]
    raise failure("credential.unknown", f"there is no credential {name}{where}", hint=meant(name, known))
