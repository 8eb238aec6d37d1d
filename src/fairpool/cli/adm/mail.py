"""`runai-adm mail`: get, update, test, delete. The mail server that the platform sends through."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fairpool.api.client import Refused
from fairpool.api.record import document
from fairpool.cli.failure import failure
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show_document
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Screen, printable

SECURITY = ("starttls", "tls", "none")
FIELDS = ("host", "port", "security", "from", "username", "caCertificate")


@command("get", "runai-adm mail get", with_project=False)
@output_flag
@click.pass_obj
def get_mail(options: GlobalOptions, output: str | None) -> None:
    """Show the mail server. Its password is never shown."""
    with Session(options).connected() as client:
        found = client.mail_settings()
    if output in ("json", "yaml"):
        show_document(output, document(found))
        return
    facts = [(name.upper(), printable(str(document(found).get(name, "-") or "-"))) for name in FIELDS[:5]]
    screen = Screen.here()
    screen.facts([*facts, ("PASSWORD", "set" if found.has_password else "-")], aligned=False)
    screen.show()


@command("update", "runai-adm mail update --host smtp.example.com --from fairpool@example.com", with_project=False)
@flag("--host", metavar="NAME", help="Host of the SMTP server.")
@flag("--port", type=click.IntRange(1, 65535), metavar="NUMBER", help="Its port; 587 at first.")
@flag("--security", type=click.Choice(SECURITY), help="How the connection is encrypted; starttls at first.")
@flag("--from", "sender", metavar="ADDRESS", help="The sender of all messages.")
@flag("--user", "username", metavar="NAME", help="User name at the server; an empty one: no login.")
@flag("--password-file", metavar="FILE", help="File with the password; - is standard input.")
@flag("--ca-file", type=click.Path(path_type=Path), metavar="FILE", help="Certificate of a private authority, as PEM.")
@click.pass_obj
def update_mail(
    options: GlobalOptions,
    host: str | None,
    port: int | None,
    security: str | None,
    sender: str | None,
    username: str | None,
    password_file: str | None,
    ca_file: Path | None,
) -> None:
    """Set or change the mail server. What is not given stays as it is."""
    given = {"host": host, "port": port, "security": security, "from": sender, "username": username}
    changes = {name: value for name, value in given.items() if value is not None}
    if password_file is not None:
        changes["password"] = _read(password_file).strip("\r\n")
    if ca_file is not None:
        changes["caCertificate"] = _read(str(ca_file))
    with Session(options).connected() as client:
        try:
            before = {name: value for name, value in document(client.mail_settings()).items() if name in FIELDS}
        except Refused as refusal:
            if refusal.status != 404:
                raise
            before = {}
        missing = [name for name in ("host", "from") if name not in {**before, **changes}]
        if missing:
            what = f"no mail server is configured yet: {' and '.join(f'--{name}' for name in missing)} must be given"
            raise failure("mail.incomplete", what, "see `runai-adm mail update --help`")
        client.set_mail_settings({**before, **changes})
    click.echo("Mail settings updated successfully. To try them: runai-adm mail test ADDRESS")


@command("test", "runai-adm mail test ann@example.com", with_project=False)
@click.argument("address")
@click.pass_obj
def test_mail(options: GlobalOptions, address: str) -> None:
    """Send a test message."""
    with Session(options).connected() as client:
        client.test_mail(address)
    click.echo(f"The mail server accepted a message to {printable(address)}.")


@command("delete", "runai-adm mail delete", with_project=False)
@click.pass_obj
def delete_mail(options: GlobalOptions) -> None:
    """Remove the mail server. No mail is sent from then on."""
    with Session(options).connected() as client:
        client.delete_mail_settings()
    click.echo("Mail settings deleted successfully.")


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise failure("command.file", f"{file} cannot be read: {(why or '').lower()}", "check the path") from error
