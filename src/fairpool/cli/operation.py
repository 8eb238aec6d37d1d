"""`fairpool down`, `status`, `logs`, `reset-password`, `backup` and `restore`."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import click

from fairpool.cli import kubernetes_cleanup
from fairpool.cli.failure import ERROR, exit_code_of, fail
from fairpool.cli.screen import Screen
from fairpool.cli.server_flags import DATA, data_directory_at, failing
from fairpool.cli.server_start import private_files
from fairpool.model.problem import Problem
from fairpool.platform import background
from fairpool.platform.admin_socket import NoAnswer, ask
from fairpool.platform.data_directory import CLUSTER, CONTROL, UP, DataDirectory, PlatformError
from fairpool.platform.directory_lock import LockHolder, in_use, lock_holder, locked

NAMES = {UP: "Fairpool", CONTROL: "The control plane", CLUSTER: "The cluster"}
NOT_UP = 3
LINES = 200
NAMED = 8
LOOK_S = 0.25
PASSPHRASE_MIN, PASSPHRASE_MAX = 12, 1024
PATIENCE_S = 60.0
"""What nodes may take beyond the grace period of a pod."""
STALE_S = 30.0
"""A loop without a cycle for so long is stuck: an idle one runs a cycle every five seconds."""


@click.command()
@DATA
@click.option("--stop-pods", is_flag=True, help="Stop the pods as well. Training restarts at the next `fairpool up`.")
@click.option(
    "--grace",
    type=click.IntRange(0, 3600),
    metavar="SECONDS",
    help="With --stop-pods: kill pods that have not stopped after SECONDS, even if they asked for longer.  "
    f"[default: {background.LONGEST_GRACE_S}]",
)
def down(data: Path | None, stop_pods: bool, grace: int | None) -> None:
    """Stop the server of a data directory, whether `up`, `control` or `cluster` started it. Pods keep running and are
    picked up at the next start, unless you pass --stop-pods.

    With --stop-pods, each pod gets a SIGTERM and its grace period, capped by --grace, and is then killed. The exit code
    is not 0 if a pod could not be stopped.
    """
    if grace is not None and not stop_pods:
        raise click.UsageError("--grace needs --stop-pods: without it, pods keep running.")
    data_directory = data_directory_at(data)
    with failing():
        holder = lock_holder(data_directory)
        if stop_pods and data_directory.program == CONTROL:
            what = f"{data_directory.root} is the data directory of a control plane, which has no pods"
            fix = "run `fairpool down --stop-pods` with the data directory of a cluster"
            raise PlatformError(Problem("down.no_pods", what, fix))
        name = NAMES.get(data_directory.program, "Fairpool")
        if holder is None:
            click.echo(f"{name} is not up (data in {data_directory.root}).")
        elif not holder.is_server:
            raise PlatformError(in_use(data_directory, holder))
        elif not background.stop(data_directory, holder):
            what = f"process {holder.pid} has not exited within {background.LEAVE_S:g} s"
            fix = f"check `fairpool logs`, or run `kill -9 {holder.pid}`: no acknowledged change is lost"
            raise PlatformError(Problem("down.stuck", what, fix))
        else:
            click.echo(f"{name} is down." if stop_pods else f"{name} is down. Running pods are not affected.")
        if stop_pods and data_directory.machine.is_dir():
            with locked(data_directory, "down"):
                _stop_pods(data_directory, background.LONGEST_GRACE_S if grace is None else grace)
        elif stop_pods and data_directory.replica.exists():
            with locked(data_directory, "down"):
                patience_s = PATIENCE_S + (background.LONGEST_GRACE_S if grace is None else grace)
                click.echo(f"Stopped {_pods(kubernetes_cleanup.stop_pods(data_directory, grace, patience_s))}.")


def _stop_pods(data_directory: DataDirectory, grace_s: int) -> None:
    stopped = background.stop_pods(data_directory, grace_s)
    killed = f" ({stopped.killed} had to be killed)" if stopped.killed else ""
    click.echo(f"Stopped {_pods(stopped.ended)}{killed}.")
    if stopped.left:
        more = f" and {len(stopped.left) - NAMED} more" if len(stopped.left) > NAMED else ""
        named = f"{', '.join(stopped.left[:NAMED])}{more}"
        what = f"{_pods(len(stopped.left))} could not be stopped: {named}"
        log = data_directory.machine / "fork_server.log"
        fix = f"run the command again, or check {log} and the pod's directory next to it"
        raise PlatformError(Problem("down.pods_left", what, fix))


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"


@click.command()
@DATA
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(data: Path | None, as_json: bool) -> None:
    """Show whether the platform is up, and its health. Exit code: 0 if it is up, 3 if it is not."""
    data_directory = data_directory_at(data)
    holder = lock_holder(data_directory)
    said = background.status_of(data_directory) if holder is not None and holder.is_server else None
    if as_json:
        where = {"data": str(data_directory.root), "program": data_directory.program or None}
        click.echo(json.dumps({"is_up": said is not None, **where, **(said or {})}, indent=2))
    elif said is None:
        click.echo(_not_up(data_directory, holder))
    else:
        _show(data_directory, said)
    if said is None:
        raise click.exceptions.Exit(NOT_UP)


def _not_up(data_directory: DataDirectory, holder: LockHolder | None) -> str:
    if holder is None and not data_directory.is_there:
        return f"There is no Fairpool data in {data_directory.root}: pass --data DIRECTORY, or set FAIRPOOL_DATA."
    name, program = NAMES.get(data_directory.program, "Fairpool"), data_directory.program
    if holder is None:
        return f"{name} is not up (data in {data_directory.root}). Start it: fairpool {program}"
    if not holder.is_server:
        return f"{name} is not up: {in_use(data_directory, holder).what}."
    return f"Process {holder.pid} does not respond: it is starting, or stuck. Check `fairpool logs`."


def _show(data_directory: DataDirectory, said: dict[str, Any]) -> None:
    screen = Screen.here(every_row=True)
    screen.facts(_facts(data_directory, said))
    if "clusters" in said:
        screen.title("Clusters")
        rows = [(each["name"], each["state"], each["last_seen_at"] or "never") for each in said["clusters"]]
        screen.table(["NAME", "STATE", "LAST HEARD"], rows)
    if "nodes" in said:
        _show_nodes(screen, said["nodes"])
    screen.show()


def _facts(data_directory: DataDirectory, said: dict[str, Any]) -> Iterator[tuple[str, str]]:
    since = datetime.fromtimestamp(said["since_ms"] / 1000, UTC).astimezone()
    state = "up" if said["is_ready"] else "waiting" if said.get("waiting_for") else "starting"
    yield "Fairpool", f"{said['version']}, {state} since {since:%Y-%m-%d %H:%M:%S}"
    yield "Program", f"fairpool {data_directory.program}: {data_directory.contents}"
    yield "Process", str(said["pid"])
    yield "Control" if "health" in said else "Address", said["address"]
    if said.get("waiting_for"):
        yield "Waiting", said["waiting_for"]
    if said.get("cluster"):
        yield "Cluster", said["cluster"]
    if "health" in said:
        yield "Health", f"{said['health']}/readyz"
    yield "Data", str(data_directory.root)
    if "database" in said:
        yield "Database", _database_words(said["database"])
    if said.get("samples", {}).get("problem"):
        yield "Metrics", f"not kept, {said['samples']['dropped']} samples dropped: {said['samples']['problem']}"
    if "kubernetes" in said:
        yield from _kubernetes_facts(said["kubernetes"])
    if "loop" in said:
        yield "Scheduler", _loop_health(said["loop"])
    if "pods" in said:
        yield "Pods", f"{said['pods']['running']} running, {said['pods']['starting']} starting"
    if said.get("disk"):
        yield "Disk", _disk_words(said["disk"])


def _kubernetes_facts(said: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Kubernetes", f"{said['server']}, namespace {said['namespace']}"
    if said["ledger"]:
        yield "Ledger", said["ledger"]
    if said["error"]:
        yield "Lease", said["error"]
    elif said["leads"]:
        yield "Lease", "this replica leads"
    else:
        yield "Lease", f"{said['leader']} leads; this replica takes over if it fails" if said["leader"] else "free"


def _show_nodes(screen: Screen, nodes: list[dict[str, Any]]) -> None:
    screen.title("Nodes")
    screen.table(
        ["NAME", "GPUS", "KIND", "WITHHELD"],
        [
            (
                each["name"],
                str(each["gpus"]),
                "simulated" if each["is_simulated"] else "real",
                f"{len(each['withheld'])} GPU{'' if len(each['withheld']) == 1 else 's'}" if each["withheld"] else "",
            )
            for each in nodes
        ],
    )
    for each in nodes:
        if each["words"]:
            screen.text(f"{each['name']}: {each['words']}")


def _database_words(database: dict[str, Any]) -> str:
    problem = database["problem"]
    return f"{database['where']}: {problem}" if problem else f"{database['where']}: healthy"


def _disk_words(disk: dict[str, Any]) -> str:
    free, held, reserve = (disk[name] / 2**30 for name in ("free_bytes", "held_bytes", "reserve_bytes"))
    if reserve and held < reserve / 2:
        return f"{free:.1f} GiB free; the reserve of {reserve:.1f} GiB is in use: free some space"
    words = f"; {disk['words']}" if disk["words"] else ""
    return f"{free:.1f} GiB free, {held:.1f} GiB reserved{words}"


def _loop_health(loop: dict[str, Any]) -> str:
    if not loop["is_alive"]:
        return f"stopped: {loop['error'] or 'check `fairpool logs`'}"
    if loop["error"]:
        return f"degraded: {loop['error']}"
    age_s = loop.get("last_cycle_ago_s", 0.0)  # by the server's steady clock: the time of day may be set meanwhile
    return f"stuck: no cycle for {age_s:.0f} s" if age_s > STALE_S else "healthy"


@click.command()
@DATA
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they are written, until Ctrl-C.")
@click.option(
    "--tail", default=LINES, show_default=True, type=click.IntRange(min=0), help="Number of lines to print first."
)
def logs(data: Path | None, follow: bool, tail: int) -> None:
    """Show the server's own log. `runai logs` shows the output of jobs."""
    data_directory = data_directory_at(data)
    if not data_directory.log.exists():
        with failing():
            data_directory.require()
        what = f"there is no server log in {data_directory.log.parent}"
        fail([Problem("logs.none", what, "start the server: fairpool up")], ERROR)
    file = data_directory.log.open(encoding="utf-8", errors="replace")
    for line in deque(file, maxlen=tail):
        click.echo(_coloured(line), nl=False)
    for text in _more(data_directory.log, file) if follow else ():
        click.echo("".join(map(_coloured, text.splitlines(keepends=True))), nl=False)


def _coloured(line: str) -> str:
    """A line of the log with its level in colour, on a terminal."""
    _, _, rest = line.partition(" ")
    level, space, words = rest.partition(" ")
    colour = {"warning": "yellow", "error": "red", "critical": "red"}.get(level)
    if colour is None or not space or os.environ.get("NO_COLOR"):
        return line
    return f"{line[: len(line) - len(rest)]}{click.style(level, fg=colour)}{space}{words}"


def _more(path: Path, file: TextIO) -> Iterator[str]:
    """Lines that are added to a log, without end; also after the log was rotated."""
    while True:
        yield from iter(file.read, "")
        time.sleep(LOOK_S)
        with suppress(FileNotFoundError):  # the old one was moved and the new one is not there yet
            if path.stat().st_ino != os.fstat(file.fileno()).st_ino:
                newer = path.open(encoding="utf-8", errors="replace")
                yield from iter(file.read, "")  # came between our last look and the rotation
                file.close()
                file = newer


@click.command("reset-password")
@DATA
@click.argument("user", default="")
def reset_password(data: Path | None, user: str) -> None:
    """Set a new password for USER (default: the first account) and print it once.

    USER must change it at the next sign-in.
    """
    data_directory = data_directory_at(data)
    with failing():
        holder = lock_holder(data_directory)
        if holder is None:
            data_directory.require()
        _refuse_cluster(data_directory, "users and passwords")
        if holder is not None and holder.is_server:
            try:
                made = ask(data_directory.admin_socket, "reset-password", user=user)
            except NoAnswer as error:
                what = f"process {holder.pid} is running but does not respond"
                raise PlatformError(
                    Problem("up.silent", what, "try again, or stop it with `fairpool down` first")
                ) from error
        else:
            made = _reset_offline(data_directory, user)
    if isinstance(made, Problem):
        fail([made], exit_code_of(made))
    click.echo(f"User      {made['user']}")
    click.echo(f"Password  {made['password']}")
    click.echo("It is shown only once and must be changed at the next sign-in. Existing sessions were ended.", err=True)


def _refuse_cluster(data_directory: DataDirectory, what: str) -> None:
    if data_directory.program == CLUSTER:
        said = f"{data_directory.root} is the data directory of a cluster: {what} are in that of its control plane"
        raise PlatformError(Problem("data.cluster", said, "run the command there, with --data"))


def _reset_offline(data_directory: DataDirectory, user: str) -> Any:
    from fairpool.control.settings import FIRST_USER
    from fairpool.control.store.condition import problem_with_database
    from fairpool.platform.database_location import given_location
    from fairpool.platform.owner_access import reset_password_offline
    from fairpool.platform.restore import finish_restore

    data_directory.prepare()
    with private_files(), locked(data_directory, "reset-password"):
        finish_restore(data_directory)
        location = given_location(data_directory)
        problem = None if location else problem_with_database(data_directory.control)
        return problem or reset_password_offline(data_directory, user or FIRST_USER, location)


PASSPHRASE = click.option(
    "--passphrase-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Include the key of credentials, encrypted under the passphrase in this file.",
)


def _passphrase(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        with file.open("rb") as opened:
            words = opened.read(PASSPHRASE_MAX + 1).strip()
    except OSError as error:
        what = f"--passphrase-file: {file} cannot be read: {(error.strerror or str(error)).lower()}"
        raise PlatformError(Problem("backup.passphrase", what, "check the path")) from error
    if not PASSPHRASE_MIN <= len(words) <= PASSPHRASE_MAX:
        what = f"--passphrase-file: {file} must contain {PASSPHRASE_MIN} to {PASSPHRASE_MAX} characters"
        raise PlatformError(Problem("backup.passphrase", what, "choose another passphrase"))
    return words


@click.command()
@DATA
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@PASSPHRASE
@click.argument("file", type=click.Path(path_type=Path))
def backup(data: Path | None, force: bool, passphrase_file: Path | None, file: Path) -> None:
    """Write a backup of a data directory to FILE. Its server may be up.

    Of a whole platform or a control plane it contains users, access rules, projects, quotas, workloads and settings;
    of a whole platform or a cluster the nodes and the table of images. Not included: logs, checkpoints and claims of
    pods, the server's log, and the ledger, which is rebuilt. A backup contains secrets: only its owner can read the
    file. The values of credentials in it are encrypted, and their key is not in it unless you give a passphrase.
    """
    from fairpool.platform.backup import make_backup
    from fairpool.platform.database_location import refuse_server

    with failing():
        if file.exists() and not (force and file.is_file()):
            raise PlatformError(
                Problem("backup.exists", f"{file} already exists", "choose another file, or pass --force")
            )
        data_directory = data_directory_at(data)
        refuse_server(data_directory, "backup")
        size = make_backup(data_directory, file, _passphrase(passphrase_file))
    what = f"{max(1, size // 1024)} KiB, of {data_directory.contents}"
    click.echo(f"Wrote {file}, {what}. To restore it: fairpool restore {file}")
    click.echo(
        "It does not include logs, checkpoints and claims of pods; back up the data directory for those.", err=True
    )
    if passphrase_file is None and data_directory.secret_key.exists():
        fix = f"keep a copy of {data_directory.secret_key}, or pass --passphrase-file"
        click.echo(f"It does not include the key of credentials, without which their values are lost: {fix}.", err=True)


@click.command()
@DATA
@PASSPHRASE
@click.argument("file", type=click.Path(path_type=Path))
def restore(data: Path | None, passphrase_file: Path | None, file: Path) -> None:
    """Restore a backup to the data directory of the same program. Its server must be down; pods may keep running.

    At the next start, pods of workloads in FILE continue, other pods are stopped, and workloads that should be running
    are started. The nodes are those described in FILE. The replaced files are kept. Restore only files you trust: a
    backup determines which programs run as you.
    """
    from fairpool.platform.database_location import refuse_server
    from fairpool.platform.restore import restore_backup

    data_directory = data_directory_at(data)
    with failing():
        holder = lock_holder(data_directory)
        if holder is not None:
            what = in_use(data_directory, holder).what
            raise PlatformError(
                Problem("restore.up", what, "stop it first: fairpool down (running pods are not affected)")
            )
        refuse_server(data_directory, "restore")
        data_directory.prepare()
        with locked(data_directory, "restore"):
            made_at, kept = restore_backup(data_directory, file, _passphrase(passphrase_file))
    when = f"{made_at.astimezone():%Y-%m-%d %H:%M:%S}"
    program = data_directory.program
    click.echo(f"Restored the backup of {when} to {data_directory.root}. Start the server: fairpool {program}")
    if program != CLUSTER:
        click.echo(
            "Users, passwords, tokens and access rules are those of the backup: again remove what was removed since.",
            err=True,
        )
        if passphrase_file is None:
            what = f"the key in {data_directory.secret_key}" if data_directory.secret_key.exists() else "no key"
            click.echo(
                f"Values of credentials are read with {what}; set those again that were stored with another.",
                err=True,
            )
    for path in kept:
        click.echo(f"The previous version is kept in {path}")
