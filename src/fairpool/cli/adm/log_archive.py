"""`runai-adm collect-logs`: logs and state of the platform in one archive, without secrets and output of jobs."""

from __future__ import annotations

import io
import json
import os
import platform
import tarfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from fairpool import __version__
from fairpool.api.client import Client, Refused
from fairpool.api.record import document
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import printable
from fairpool.model.redaction import redacted, redacted_document, redacted_log

AUDIT_MAX = 500
LOG_BYTES_MAX = 64 << 20
"""Of one file; of a larger one the end is kept."""
WORKLOAD_KEYS = (
    *("id", "name", "type", "phase", "reason", "phaseMessage", "projectName", "clusterId", "source"),
    *("createdAt", "startedAt", "completedAt", "failedTries", "priorityClassName", "preemptible"),
    *("requestedPods", "runningPods", "pendingPods", "currentNodes", "currentNodePools"),
)
"""Of a job only this: no command, variables, labels or images."""


@command("collect-logs", "runai-adm collect-logs -d 24", with_project=False)
@flag(
    "-d", "--hours", type=click.FloatRange(min=0, min_open=True), metavar="HOURS", help="Only lines of the last HOURS."
)
@flag(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Archive to write (default: by date, here)."
)
@flag(
    "--data",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Data directory of the server (default: that of the server on this machine).",
)
@click.pass_obj
def collect_logs(options: GlobalOptions, hours: float | None, output: Path | None, data: Path | None) -> None:
    """Collect the platform's logs and state in an archive that can be sent to others.

    Tokens, passwords and other secrets are removed. The output of jobs, their commands and variables are not included.
    """
    session = Session(options)
    now = datetime.now(UTC)
    target = output or Path(f"fairpool-logs-{now:%Y%m%d-%H%M%S}.tar.gz")
    since = None if hours is None else now - timedelta(hours=hours)
    known = _own_secrets(session)
    with NewArchive(target) as archive:
        _add(archive, "about.json", _json(_about(session, now, hours)))
        for name, said in _state(session, since):
            _add(archive, name, _json(redacted_document(said, known)))
        folder = data.expanduser() if data is not None else _data_directory(session)
        count = _add_logs(archive, folder, since, known) if folder is not None else 0
    if not count:
        where = (
            f"in {folder / 'logs'}" if folder is not None else f"of {session.server} on this machine: use --data FOLDER"
        )
        options.warn(f"Warning: there are no logs {where}")
    click.echo(f"Logs written to {printable(str(target))}. Look through it before you send it to others.")


def _about(session: Session, now: datetime, hours: float | None) -> dict[str, Any]:
    return {
        "version": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "server": redacted(session.server),
        "collectedAt": now.isoformat(timespec="seconds"),
        "hours": hours,
    }


def _own_secrets(session: Session) -> set[str]:
    login = session.configuration.login(session.server)
    return set() if login is None else {login.access_token, login.refresh_token} - {""}


# --- state of the platform ---------------------------------------------------------------------------------------


def _state(session: Session, since: datetime | None) -> Iterator[tuple[str, Any]]:
    """Each document by its name; what may not or cannot be read says so in its place."""

    def audit(client: Client) -> list[Any]:
        """Who did what; what was changed contains the commands and variables of jobs."""
        found = [each | {"changes": "left out"} for each in document(client.audit(limit=AUDIT_MAX))]
        return [each for each in found if since is None or _moment(each["timestamp"]) >= since]

    documents: dict[str, Callable[[Client], Any]] = {
        "clusters": lambda client: document(client.clusters()),
        "nodes": lambda client: document(client.nodes()),
        "node-pools": lambda client: document(client.node_pools()),
        "departments": lambda client: document(client.departments()),
        "projects": lambda client: document(client.projects()),
        "settings": lambda client: document(client.settings()),
        "workloads": lambda client: [_short(each) for each in document(client.all_workloads())],
        "audit": audit,
    }
    try:
        with session.connected() as client:
            for name, ask in documents.items():
                yield f"{name}.json", _asked(client, ask)
    except Failure as failed:  # the logs are wanted most when the server is away
        yield "not-collected.json", [str(problem) for problem in failed.problems]


def _asked(client: Client, ask: Callable[[Client], Any]) -> Any:
    try:
        return ask(client)
    except Refused as refusal:
        return {"notCollected": [str(each) for each in refusal.problems]}


def _short(workload: dict[str, Any]) -> dict[str, Any]:
    return {key: workload[key] for key in WORKLOAD_KEYS if key in workload}


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


# --- files -------------------------------------------------------------------------------------------------------


def _data_directory(session: Session) -> Path | None:
    """Of the server, if it is on this machine and its socket is known."""
    known = session.configuration.socket(session.server)
    return known.parent if known is not None else None


def _add_logs(archive: tarfile.TarFile, folder: Path, since: datetime | None, known: Collection[str]) -> int:
    """The files in the folder of logs; how many."""
    count = 0
    try:
        paths = sorted((folder / "logs").iterdir())
    except OSError:
        return 0
    for path in paths:
        text = _log_text(path)
        if text is None:
            continue
        lines = [line for line in redacted_log(text, known) if _is_wanted(line, since)]
        _add(archive, f"logs/{path.name}", "".join(lines).encode("utf-8", "replace"))
        count += 1
    return count


def _log_text(path: Path) -> str | None:
    """A plain file, never through a link; of a large one its end, from a whole line on."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            if size > LOG_BYTES_MAX:
                file.seek(size - LOG_BYTES_MAX)
                file.readline()
            return file.read(LOG_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return None


def _is_wanted(line: str, since: datetime | None) -> bool:
    """Lines without a time are kept: they belong to one that has it."""
    if since is None:
        return True
    with suppress(ValueError):
        at = datetime.fromisoformat(line.partition(" ")[0])
        return at.tzinfo is None or at >= since
    return True


class NewArchive:
    """The archive, made beside its place and moved there when it is whole; readable by its owner alone."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._partial = target.with_name(f".{target.name}.{os.getpid()}.new")

    def __enter__(self) -> tarfile.TarFile:
        try:
            descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            what = f"{self._target} cannot be written: {(error.strerror or str(error)).lower()}"
            raise failure("collect.output", what, "choose another file with --output") from error
        self._file = os.fdopen(descriptor, "wb")
        self._archive = tarfile.open(fileobj=self._file, mode="w:gz")
        return self._archive

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._archive.close()
                self._file.flush()
                os.replace(self._partial, self._target)
        finally:
            self._file.close()
            with suppress(FileNotFoundError):
                self._partial.unlink()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(f"fairpool-logs/{name}")
    member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
    archive.addfile(member, io.BytesIO(data))


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")
