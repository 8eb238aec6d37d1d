"""`fairpool up`: the whole platform on this machine, in this terminal or in the background."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairpool import __version__
from fairpool.cli.failure import ERROR, UNUSABLE, exit_code_of, fail
from fairpool.model.problem import Problem
from fairpool.platform.address import DEFAULT, Address, listening_socket, read_address
from fairpool.platform.data_directory import DataDirectory, PlatformError, default_data, directory_problem
from fairpool.platform.directory_lock import in_use, lock_holder, locked

if TYPE_CHECKING:
    from fairpool.cli.welcome import LocalUser
    from fairpool.control.settings import Retention
    from fairpool.platform.node_set import NodeSet

PRIVATE = 0o077
"""The umask: files of the platform are for its user alone. Pods get the usual one, from their fork server."""
HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?")

DATA = click.option(
    "--data",
    envvar="FAIRPOOL_DATA",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="Data directory. Default: fairpool in the user's XDG data directory. Also: FAIRPOOL_DATA.",
)


def data_directory_at(data: Path | None) -> DataDirectory:
    """The given data directory, or the user's default."""
    return DataDirectory((data.expanduser() if data is not None else default_data()).absolute())


@contextmanager
def failing() -> Iterator[None]:
    """A platform error ends the command with its exit code."""
    try:
        yield
    except PlatformError as error:
        fail([error.problem], exit_code_of(error.problem))


@click.command(epilog="Example: fairpool up --nodes 4x8:A100-80GB")
@DATA
@click.option(
    "--listen",
    envvar="FAIRPOOL_LISTEN",
    default=DEFAULT,
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on; port 0 picks a free port. Also: FAIRPOOL_LISTEN.",
)
@click.option(
    "--host-name",
    "host_names",
    envvar="FAIRPOOL_HOST_NAME",
    multiple=True,
    metavar="NAME",
    help="Additional host name to answer to, besides this machine's own names. Requests for other host names are "
    "refused, to protect against DNS rebinding. Repeatable. Also: FAIRPOOL_HOST_NAME, separated by spaces.",
)
@click.option(
    "--nodes",
    multiple=True,
    metavar="SPEC",
    help="Simulate nodes instead of using this machine: 2x8:V100-32GB is two nodes with eight GPUs each. `machine` "
    "uses this machine's own GPUs, if any (the default); `simulated` is two nodes with 8 V100s each. Saved for later.",
)
@click.option(
    "--node",
    multiple=True,
    metavar="SPEC",
    help="Add one node: name=big,gpus=4,model=H100,memory=80GB,cpus=64,ram=512GB.",
)
@click.option(
    "--keep-history",
    envvar="FAIRPOOL_KEEP_HISTORY",
    default="30d",
    show_default=True,
    metavar="AGE",
    help="How long to keep deleted jobs and events: 90s, 10m, 2h, 30d. Also: FAIRPOOL_KEEP_HISTORY.",
)
@click.option(
    "--keep-audit",
    envvar="FAIRPOOL_KEEP_AUDIT",
    default="365d",
    show_default=True,
    metavar="AGE",
    help="How long to keep the audit log. Also: FAIRPOOL_KEEP_AUDIT.",
)
@click.option(
    "--disk-reserve",
    envvar="FAIRPOOL_DISK_RESERVE",
    default="1GiB",
    show_default=True,
    metavar="SIZE",
    help="Disk space reserved for the server. When the disk is full, the pod that fills it is stopped. 0 disables the "
    "reserve. Also: FAIRPOOL_DISK_RESERVE.",
)
@click.option(
    "--log-level",
    envvar="FAIRPOOL_LOG_LEVEL",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Minimum level of the server's log. Also: FAIRPOOL_LOG_LEVEL.",
)
@click.option(
    "--first-password-file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Set the password of the first account (test@run.ai) to the first line of FILE (`-`: standard input), if the "
    "account has none. It must be changed at the first sign-in. Without this flag the account has no password, and "
    "only the user who starts the platform is signed in.",
)
@click.option(
    "--detach/--foreground",
    default=False,
    help="Run in the background and return when ready, or run in this terminal until Ctrl-C (default).",
)
@click.option("--in-background", is_flag=True, hidden=True)  # as `--detach` starts it: its output is not shown
def up(
    data: Path | None,
    listen: str,
    host_names: tuple[str, ...],
    nodes: tuple[str, ...],
    node: tuple[str, ...],
    keep_history: str,
    keep_audit: str,
    disk_reserve: str,
    log_level: str,
    first_password_file: Path | None,
    detach: bool,
    in_background: bool,
) -> None:
    """Start the platform on this machine: control plane, scheduler and engine in one process.

    GPUs are detected through NVML; without any, two nodes are simulated. Pods keep running when the server is stopped
    or killed, and the next start finds them again.
    """
    address = read_address(listen)
    if isinstance(address, Problem):
        fail([address], UNUSABLE)
    options = ServerOptions(nodes, node, keep_history, keep_audit, host_names, disk_reserve, log_level)
    options.check_names()
    options.disk_reserve_bytes()
    retention = options.retention()  # wrong values are reported here, before a process is started
    first_password = _first_password(first_password_file)
    data_directory = data_directory_at(data)
    with failing():
        warning = data_directory.prepare()
        if warning:
            click.echo(f"warning: {warning}", err=True)
        if detach:
            _up_in_background(data_directory, address, options, first_password)
        else:
            start = Start(data_directory, address, options, retention, first_password, with_welcome=not in_background)
            _up_here(start)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of `fairpool up` that the server gets, without address and data directory."""

    nodes: Sequence[str]
    singles: Sequence[str]
    keep_history: str
    keep_audit: str
    host_names: Sequence[str] = ()
    disk_reserve: str = "1GiB"
    log_level: str = "info"

    def words(self) -> list[str]:
        """The same as command-line arguments."""
        return [
            *(word for each in self.nodes for word in ("--nodes", each)),
            *(word for each in self.singles for word in ("--node", each)),
            *(word for each in self.host_names for word in ("--host-name", each)),
            *("--keep-history", self.keep_history, "--keep-audit", self.keep_audit),
            *("--disk-reserve", self.disk_reserve, "--log-level", self.log_level),
        ]

    def check_names(self) -> None:
        """End the command if a name is not valid."""
        wrong = [each for each in self.host_names if HOST_NAME.fullmatch(each) is None]
        fix = "pass only the name, without http:// and port, e.g. fairpool.example.com"
        if wrong:
            fail(
                [Problem("up.host_name", f"--host-name: {each!r} is not a valid host name", fix) for each in wrong],
                UNUSABLE,
            )

    def disk_reserve_bytes(self) -> int:
        from fairpool.model.typed_text import bytes_amount

        size = bytes_amount(self.disk_reserve)
        if isinstance(size, Problem):
            fix = "expected e.g. 1GiB, 512MiB, or 0 for none"
            fail([Problem("up.disk_reserve", f"--disk-reserve: {size.what}", fix)], UNUSABLE)
        return size

    def retention(self) -> Retention:
        from fairpool.control.settings import Retention
        from fairpool.model.typed_text import duration_s

        ages, problems = {}, []
        for name, text in (("--keep-history", self.keep_history), ("--keep-audit", self.keep_audit)):
            age_s = duration_s(text)
            if isinstance(age_s, Problem):
                problems.append(Problem(age_s.code, f"{name}: {age_s.what}", age_s.fix))
            elif age_s == 0:
                what = f"{name}: must be longer than 0"
                problems.append(Problem("up.keep", what, "expected e.g. 90s, 10m, 2h or 1d"))
            else:
                ages[name] = age_s
        if problems:
            fail(problems, UNUSABLE)
        return Retention(history_s=ages["--keep-history"], audit_s=ages["--keep-audit"])


def _first_password(file: Path | None) -> str:
    """The first line of the file. Ends the command if it is no password."""
    from fairpool.api.limits import PASSWORD_MAX, PASSWORD_MIN

    if file is None:
        return ""
    name, fix = (
        "--first-password-file",
        f"the first line must be a password of {PASSWORD_MIN} to {PASSWORD_MAX} characters",
    )
    try:
        if str(file) == "-":
            line = sys.stdin.readline(PASSWORD_MAX + 2)
        else:
            with file.open(encoding="utf-8") as opened:
                line = opened.readline(PASSWORD_MAX + 2)
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not text" if isinstance(error, UnicodeDecodeError) else (error.strerror or str(error)).lower()
        fail([Problem("up.first_password", f"{name}: {file} cannot be read: {why}", fix)], UNUSABLE)
    password = line.rstrip("\r\n")
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        what = f"{name}: the password has {'more than ' * (len(password) > PASSWORD_MAX)}"
        what += f"{min(len(password), PASSWORD_MAX)} characters"
        fail([Problem("up.first_password", what, fix)], UNUSABLE)
    return password


@dataclass(frozen=True, slots=True)
class Start:
    """Everything needed to start in this process."""

    data_directory: DataDirectory
    address: Address
    options: ServerOptions
    retention: Retention
    first_password: str = field(repr=False)
    with_welcome: bool = True


def _up_here(start: Start) -> None:
    from fairpool.cli.welcome import LocalUser, shown
    from fairpool.control.store.condition import problem_with
    from fairpool.platform.assembly import Platform
    from fairpool.platform.node_set import summary
    from fairpool.platform.server_log import open_log

    data_directory, options = start.data_directory, start.options
    os.umask(PRIVATE)
    with locked(data_directory, "up", __version__) as reachable_at:
        _clear_up(data_directory)
        listener, address = listening_socket(start.address)
        reachable_at(address.url)
        problem = problem_with(data_directory.control, may_be_new=not data_directory.ledger.exists())
        if problem is not None:
            raise PlatformError(problem)
        node_set = _node_set(data_directory, options.nodes, options.singles)
        open_log(data_directory.log, level=options.log_level)
        for line in shown(address, data_directory):
            click.echo(line)
        click.echo(f"Nodes    {summary(node_set.nodes)}")
        if node_set.warning:
            click.echo(f"warning: {node_set.warning}", err=True)
        platform = Platform(
            data_directory,
            address,
            listener,
            node_set,
            start.retention,
            options.host_names,
            disk_reserve_bytes=options.disk_reserve_bytes(),
            first_password=start.first_password,
        )
        user = LocalUser(data_directory, address.url)

        def ready(answer: Mapping[str, Any] | Problem) -> None:
            if start.with_welcome:
                _welcome(user, answer, with_link=sys.stdout.isatty())  # what is no terminal may be a log
            click.echo("Ready. Press Ctrl-C to stop the server; running pods are not affected.")

        platform.run(ready, user.question() if start.with_welcome else {})
        click.echo("Stopped. Running pods are not affected; `fairpool up` finds them again.")


def _welcome(
    user: LocalUser, answer: Mapping[str, Any] | Problem, *, with_link: bool = True, is_new: bool = True
) -> None:
    """Sign `runai` in, and say so."""
    from fairpool.cli.welcome import to_try

    trouble = "" if isinstance(answer, Problem) else user.keep(answer, time.time())
    for line in user.lines(answer, trouble, with_link=with_link):
        click.echo(line)
    if is_new and not isinstance(answer, Problem) and answer["project"] and not trouble:
        for line in to_try():
            click.echo(line)


def _clear_up(data_directory: DataDirectory) -> None:
    """Remove work directories of killed processes, and complete an interrupted restore."""
    from fairpool.platform import backup, restore
    from fairpool.platform.work_directory import remove_abandoned

    prefixes = (backup.OLD_BACKUP_PREFIX, backup.BACKUP_PREFIX, restore.RESTORE_PREFIX)
    remove_abandoned(data_directory.root, *prefixes)
    for path in restore.finish_restore(data_directory):
        click.echo(f"warning: an interrupted restore was completed; the previous version is kept in {path}", err=True)


def _node_set(data_directory: DataDirectory, groups: Sequence[str], singles: Sequence[str]) -> NodeSet:
    from fairpool.agent.nvml import find_gpus
    from fairpool.platform.node_set import choose_nodes, remember

    chosen = choose_nodes(data_directory.nodes, groups, singles, find_gpus())
    if isinstance(chosen, list):
        fail(chosen, UNUSABLE)
    node_set, note = chosen
    try:
        remember(data_directory.nodes, note)
    except OSError as error:
        raise PlatformError(directory_problem(data_directory.root, error)) from error
    return node_set


def _up_in_background(
    data_directory: DataDirectory, address: Address, options: ServerOptions, first_password: str
) -> None:
    from fairpool.cli.welcome import here
    from fairpool.platform import background

    holder = lock_holder(data_directory)
    if holder is not None:
        # `make up` typed twice asks for a running platform, and it is running.
        problem = in_use(data_directory, holder)
        if holder.command != "up" or options.nodes or options.singles:
            raise PlatformError(problem)
        click.echo(f"{problem.what}.")
        if first_password:
            click.echo(
                "warning: --first-password-file was ignored: it only takes effect when the server starts", err=True
            )
        _ask_for_welcome(data_directory, holder.address, is_new=False)
        return
    arguments = ["--in-background", "--data", str(data_directory.root), "--listen", address.url.removeprefix("http://")]
    if first_password:
        arguments += ["--first-password-file", "-"]
    try:
        stdin = f"{first_password}\n".encode() if first_password else None
        status = background.start(data_directory, arguments + options.words(), stdin)
    except background.ServerExited as error:
        click.echo(error.output.rstrip() or f"error: the server exited with code {error.code}", err=True)
        raise click.exceptions.Exit(error.code or ERROR) from error
    for line in data_directory.output.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(("Address", "Data", "Config", "Nodes", "warning:")):
            click.echo(line)
    _ask_for_welcome(data_directory, status["address"])
    click.echo(f"Fairpool is running in the background (process {status['pid']}). Stop it: {here('fairpool')} down")


def _ask_for_welcome(data_directory: DataDirectory, address: str, *, is_new: bool = True) -> None:
    from fairpool.cli.welcome import LocalUser
    from fairpool.platform.admin_socket import NoAnswer, ask

    user = LocalUser(data_directory, address)
    try:
        answer = ask(data_directory.admin_socket, "welcome", **user.question())
    except NoAnswer:
        fix = "check `fairpool status`, then run `fairpool up --detach` again"
        answer = Problem("up.silent", "the server does not respond", fix)
    _welcome(user, answer, is_new=is_new)
