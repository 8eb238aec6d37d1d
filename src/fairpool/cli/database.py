"""`fairpool database`: bring a control database up to date, check it, compare it, and copy it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairpool.cli.failure import DAMAGED, ERROR, fail
from fairpool.cli.lazy_group import HELP
from fairpool.cli.screen import Screen
from fairpool.cli.server_flags import DATA, data_directory_at, failing, warn_of_password
from fairpool.cli.server_start import private_files
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.control.store.table_contents import TableDigest
    from fairpool.platform.database_place import DatabasePlace
    from fairpool.platform.database_work import Examination

EVERY_S = 0.1
CHECKSUM = 16
"""Characters of a checksum that are shown; --json shows all."""

PLACE = click.argument("place", metavar="[DATABASE]", default="")


@click.group(context_settings=HELP)
def database() -> None:
    """Bring a control database up to date, check it, compare it with another, or copy it to another system.

    A DATABASE is an address (postgresql://USER@HOST/NAME), a file (control.sqlite) or a data directory. Where none is
    named, it is that of the data directory in --data. Put passwords into PGPASSFILE: other users can read arguments.

    Example: fairpool database copy /var/lib/fairpool postgresql://fairpool@db.example.com/fairpool
    """


@database.command(epilog="Example: fairpool database migrate --plan")
@DATA
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be done, and change nothing.")
@PLACE
def migrate(data: Path | None, only_plan: bool, place: str) -> None:
    """Bring the tables of DATABASE up to date, in one transaction. Control planes must be stopped.

    Each server does the same at its start. A copy of a file as it was is kept beside it. A database of a newer Fairpool
    is refused: there is no way back but a backup made before.
    """
    from fairpool.platform import database_work

    with failing():
        found = _place(place, data)
        done = database_work.plan_migration(found) if only_plan else database_work.migrate(found)
    if not done.steps:
        click.echo(f"{found} is up to date: version {done.found}.")
        return
    for version, purpose in done.steps:
        click.echo(f"{version}  {purpose}")
    before = f"version {done.found}" if done.found is not None else "no tables"
    word = "would be" if only_plan else "were"
    steps = f"{len(done.steps)} step{'s' * (len(done.steps) > 1)}"
    click.echo(f"{found}: {before}; {steps} {word} carried out, to version {done.steps[-1][0]}.")
    if done.kept is not None:
        click.echo(f"The previous version is kept in {done.kept}")


@database.command(epilog="Example: fairpool database check --against postgresql://fairpool@db.example.com/fairpool")
@DATA
@click.option("--against", metavar="DATABASE", help="Compare with this database, table by table.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@PLACE
def check(data: Path | None, against: str | None, as_json: bool, place: str) -> None:
    """Check DATABASE at one moment; servers may use it.

    Shows rows and a checksum for each table, and checks the version, references between tables, the numbers that were
    given out, and the hash chain of the audit log. Two databases with the same checksums hold the same rows. The exit
    code is 4 if something is wrong in DATABASE, and 1 if the two differ.
    """
    from fairpool.platform import database_work

    with failing():
        one = _place(place, data)
        other = _named(against, "--against") if against is not None else None
        found = database_work.examine(one)
        compared = database_work.examine(other) if other is not None else None
    differing = database_work.differences(found, compared) if compared is not None else []
    if as_json:
        click.echo(json.dumps(_as_json(one, found, other, compared, differing), indent=2))
    else:
        screen = Screen.here(every_row=True)
        screen.facts([("Database", str(one)), ("Version", found.version)])
        screen.title("Tables")
        _show_tables(screen, found.tables)
        screen.show()
        if not found.findings:
            click.echo("No problems found.")
        if other is not None and not differing:
            click.echo(f"{other} holds the same rows.")
    if found.findings:
        fix = "restore a backup made before, and report how it came about"
        fail([Problem("database.content", each, fix) for each in found.findings], DAMAGED)
    if differing:
        fail([Problem("database.differs", each, "") for each in differing], ERROR)


def _as_json(
    one: DatabasePlace,
    found: Examination,
    other: DatabasePlace | None,
    compared: Examination | None,
    differing: list[str],
) -> dict[str, object]:
    said: dict[str, object] = {
        "database": str(one),
        "version": found.version,
        "tables": [{"name": each.table, "rows": each.rows, "checksum": each.checksum} for each in found.tables],
        "findings": found.findings,
    }
    if compared is not None:
        said |= {"against": str(other), "differences": differing}
    return said


@database.command(
    epilog="Example: fairpool database copy --online postgresql://fairpool@db.example.com/fairpool copy.sqlite"
)
@click.option("--overwrite", is_flag=True, help="Replace all rows of TARGET, if it has any.")
@click.option(
    "--online",
    is_flag=True,
    help="Copy what is in SOURCE at this moment, while control planes go on using it. The copy gets new revisions, as "
    "a restored backup does.",
)
@click.argument("source")
@click.argument("target")
def copy(overwrite: bool, online: bool, source: str, target: str) -> None:
    """Copy all rows of SOURCE to TARGET, from a file to PostgreSQL or back.

    SOURCE is read at one moment, and TARGET is written in one transaction, which is committed only when rows and
    checksums of all tables agree. Interrupted, it has copied nothing: run it again. Control planes of both must be
    stopped, unless you pass --online.

    Keys are not in the database: the control plane of TARGET needs those of the data directory or of --keys.
    """
    from fairpool.platform import database_work

    progress = RowProgress()
    with failing(), private_files():
        one, other = _named(source, "SOURCE"), _named(target, "TARGET")
        try:
            copied = database_work.copy(one, other, overwrite=overwrite, online=online, progress=progress)
        finally:
            progress.clear()
    screen = Screen.here(every_row=True)
    _show_tables(screen, copied)
    screen.show()
    rows = sum(each.rows for each in copied)
    click.echo(f"Copied {rows} rows from {one} to {other}; rows and checksums of all {len(copied)} tables agree.")
    _say_next(one, other, online=online)


def _say_next(one: DatabasePlace, other: DatabasePlace, *, online: bool) -> None:
    if online:
        click.echo("Changes since then are not in the copy. Its revisions were renumbered.", err=True)
        return
    origin, goal = one.data_directory, other.data_directory
    if origin is not None and other.location:
        click.echo(f"To use it: move {one.file} elsewhere, then start with --database {other}", err=True)
    elif goal is not None and one.location:
        click.echo(f"To use it: delete {goal.root / 'database'}, then start without --database", err=True)


@database.command(epilog="Example: fairpool database renumber postgresql://fairpool@db.example.com/fairpool")
@DATA
@PLACE
def renumber(data: Path | None, place: str) -> None:
    """Give every revision in DATABASE a number that was never used. Control planes must be stopped.

    Needed once after an older state was restored with the tools of PostgreSQL (pg_restore, recovery to a point in
    time), before the first start: clients and clusters would otherwise take numbers that are given out again for what
    they have read already. All of them read everything once. `fairpool restore` does it by itself.
    """
    from fairpool.platform import database_work

    with failing():
        found = _place(place, data)
        last = database_work.renumber(found)
    click.echo(f"{found}: revisions go on from {last}.")


# --- arguments ---


def _place(text: str, data: Path | None) -> DatabasePlace:
    """The database that was named, or that of the data directory."""
    from fairpool.platform.database_place import place_of_data

    return _named(text, "DATABASE") if text else place_of_data(data_directory_at(data))


def _named(text: str, name: str) -> DatabasePlace:
    from fairpool.platform.database_place import place_of

    found = place_of(text, name)
    if found.location:
        warn_of_password(found.location, name)
    return found


# --- output ---


def _show_tables(screen: Screen, tables: list[TableDigest]) -> None:
    rows = [(each.table, str(each.rows), each.checksum[:CHECKSUM]) for each in tables]
    screen.table(("TABLE", "ROWS", "CHECKSUM"), rows)


class RowProgress:
    """One line on a terminal, ten times a second at most."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()
        self._drawn_at, self._width = 0.0, 0

    def __call__(self, table: str, rows: int) -> None:
        if not self._is_shown or time.monotonic() - self._drawn_at < EVERY_S:
            return
        self._drawn_at = time.monotonic()
        line = f"{table}: {rows} rows"
        click.echo("\r" + line.ljust(self._width), nl=False, err=True)
        self._width = len(line)

    def clear(self) -> None:
        if self._width:
            click.echo("\r" + " " * self._width + "\r", nl=False, err=True)
