"""What `fairpool up`, `control` and `cluster` have in common when they start: the data directory, its lock, the log,
the nodes, the background, and the login of the user who typed the command."""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from fairpool import __version__
from fairpool.cli.failure import ERROR, UNUSABLE, fail
from fairpool.cli.given_flags import GivenFlags, differing, given_flags, record
from fairpool.cli.server_flags import DATABASE_VARIABLE, failing
from fairpool.model.problem import Problem
from fairpool.platform.address import Address, listening_socket
from fairpool.platform.data_directory import DataDirectory, PlatformError, directory_problem
from fairpool.platform.directory_lock import LockHolder, in_use, lock_holder, locked

if TYPE_CHECKING:
    from fairpool.cli.welcome import LocalUser
    from fairpool.platform.node_set import NodeSet

PRIVATE = 0o077
"""The umask: files of the platform are for its user alone. Pods get the usual one, from their fork server."""
SHOWN = (
    *("Address", "Gateway", "Control", "Cluster", "Health", "Metrics", "Data", "Config", "Nodes", "Ledger"),
    "warning:",
)
"""Lines of a server in the background that are repeated where it was started."""


class Start(Protocol):
    """What a command has read from its flags."""

    @property
    def data_directory(self) -> DataDirectory: ...


S = TypeVar("S", bound=Start)


@dataclass(frozen=True, slots=True)
class NodeFlags:
    """What the flags say about the nodes."""

    groups: tuple[str, ...]
    singles: tuple[str, ...]
    runtime: str | None
    allowed: tuple[str, ...]


def start(context: click.Context, read: S, run: Callable[[S, GivenFlags], None]) -> None:
    """Run a server, or start one in the background; `run` also gets the flags as they were given."""
    with failing():
        warning = read.data_directory.prepare()
        if warning:
            click.echo(f"warning: {warning}", err=True)
        gc.disable()  # until it is ready (`keep_what_is_loaded`): a tenth of the time of a start
        run(read, given_flags(context))


@contextmanager
def private_files() -> Iterator[None]:
    """What is created meanwhile is for this user alone."""
    before = os.umask(PRIVATE)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def starting(data_directory: DataDirectory, program: str, flags: GivenFlags) -> Iterator[Callable[[str], None]]:
    """Hold the directory for this program; the yielded function records the server's address."""
    with private_files(), locked(data_directory, program, __version__) as reachable_at:
        data_directory.claim(program)
        record(data_directory, flags)
        _clear_up(data_directory)
        yield reachable_at


def _clear_up(data_directory: DataDirectory) -> None:
    """Remove work directories of killed processes, and complete an interrupted restore."""
    from fairpool.platform.work_directory import PREFIXES, remove_abandoned

    remove_abandoned(data_directory.root, *PREFIXES)
    if not data_directory.restoring.exists():
        return
    from fairpool.platform.restore import finish_restore

    for path in finish_restore(data_directory):
        click.echo(f"warning: an interrupted restore was completed; the previous version is kept in {path}", err=True)


def warn_of(*problems: object) -> None:
    """Say and log the problems among them, with which the server can run."""
    for problem in problems:
        if isinstance(problem, Problem):
            click.echo(f"warning: {problem}", err=True)
            logging.getLogger("fairpool.up").warning("%s", problem)


def check_database(data_directory: DataDirectory, location: str, *, may_be_new: bool) -> None:
    """`location`: of a database on a server, which is checked when it is opened. Raises `PlatformError`."""
    from fairpool.platform.database_location import choose_location

    choose_location(data_directory, location)
    if location:
        return
    from fairpool.control.store.condition import problem_with_database

    problem = problem_with_database(data_directory.control, may_be_new=may_be_new)
    if problem is not None:
        raise PlatformError(problem)


def node_set_of(data_directory: DataDirectory, said: NodeFlags) -> NodeSet:
    """The nodes that the flags describe, or those of the last time."""
    from fairpool.agent.nvml import find_gpus
    from fairpool.model.container_rules import Privilege
    from fairpool.platform.node_set import choose_nodes, remember

    allowed = [Privilege(each) for each in said.allowed]
    chosen = choose_nodes(data_directory.nodes, said.groups, said.singles, find_gpus(), said.runtime, allowed)
    if isinstance(chosen, list):
        fail(chosen, UNUSABLE)
    node_set, note = chosen
    try:
        remember(data_directory.nodes, note)
    except OSError as error:
        raise PlatformError(directory_problem(data_directory.root, error)) from error
    return node_set


def show_nodes(node_set: NodeSet) -> None:
    from fairpool.platform.node_set import nodes_summary

    click.echo(f"Nodes    {nodes_summary(node_set.nodes)}")
    if node_set.warning:
        click.echo(f"warning: {node_set.warning}", err=True)


def metrics_socket(address: Address | None) -> socket.socket | None:
    """Where --metrics-listen says; None: nowhere. Raises `PlatformError`."""
    if address is None:
        return None
    listener, bound = listening_socket(address, "--metrics-listen")
    click.echo(f"Metrics  {bound.url}/metrics (without credentials)")
    return listener


# --- the login -------------------------------------------------------------------------------------------------


def welcome(
    user: LocalUser, answer: Mapping[str, Any] | Problem, *, with_link: bool = True, is_new: bool = True
) -> None:
    """Sign `runai` in, and say so."""
    from fairpool.cli.welcome import to_join, to_try

    error = "" if isinstance(answer, Problem) else user.keep(answer, time.time())
    for line in user.lines(answer, error):
        click.echo(line)
    if isinstance(answer, Problem) or error:
        return
    if is_new:
        for line in to_try() if answer["project"] else to_join(user.server):
            click.echo(line)
    for line in user.to_open(answer, with_link=with_link):
        click.echo(line)


def welcome_here(user: LocalUser, answer: Mapping[str, Any] | Problem) -> None:
    """In the foreground: what is no terminal may be a log, which must not contain the link."""
    welcome(user, answer, with_link=sys.stdout.isatty())


def ask_for_welcome(data_directory: DataDirectory, address: str, *, is_new: bool = True) -> None:
    from fairpool.cli.welcome import LocalUser
    from fairpool.platform.admin_socket import NoAnswer, ask

    user = LocalUser(data_directory, address)
    try:
        answer = ask(data_directory.admin_socket, "welcome", **user.question())
    except NoAnswer:
        fix = "check `fairpool status`, then run the command again"
        answer = Problem("up.silent", "the server does not respond", fix)
    welcome(user, answer, is_new=is_new)


# --- the background --------------------------------------------------------------------------------------------


def already_up(data_directory: DataDirectory, program: str, flags: GivenFlags) -> LockHolder | None:
    """The server that runs on the directory already, if it is the one that was asked for. Raises `PlatformError`.

    `make up` typed twice asks for a running platform, and it is running.
    """
    holder = lock_holder(data_directory)
    if holder is None:
        return None
    problem = in_use(data_directory, holder)
    if holder.command != program:
        raise PlatformError(problem)
    others = differing(data_directory, holder, flags)
    fix = "stop it with `fairpool down` first: flags only take effect when the server starts"
    if others:
        what = f"{problem.what} with another value of {', '.join(others)}"
        raise PlatformError(Problem(problem.code, what, fix))
    if others is None and flags.given:
        what = f"{problem.what}, and it is not known with which values of {', '.join(flags.given)}"
        fix = f"leave them out to use it as it is, or {fix}"
        raise PlatformError(Problem(problem.code, what, fix))
    click.echo(f"{problem.what[:1].upper()}{problem.what[1:]}.")
    return holder


def start_in_background(
    data_directory: DataDirectory,
    program: str,
    flags: GivenFlags,
    first_password: str = "",
    secrets: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Start the server and wait until it is ready; returns its status. `secrets`: environment variables."""
    from fairpool.platform import background

    words = ["--in-background", "--data", str(data_directory.root), *flags.words]
    if first_password:
        words += ["--first-password-file", "-"]
    try:
        stdin = f"{first_password}\n".encode() if first_password else None
        status = background.start(data_directory, program, words, stdin, secrets)
    except background.ServerExited as error:
        click.echo(error.output.rstrip() or f"error: the server exited with code {error.code}", err=True)
        raise click.exceptions.Exit(error.code or ERROR) from error
    for line in data_directory.output.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(SHOWN):
            click.echo(line)
    return status


def in_background_with_welcome(
    data_directory: DataDirectory,
    program: str,
    flags: GivenFlags,
    first_password: str,
    what: str,
    *,
    database: str = "",
) -> None:
    """Start a server that users sign in to, unless it runs already, and sign in the user who typed the command."""
    holder = already_up(data_directory, program, flags)
    if holder is not None:
        _refuse_other_database(data_directory, holder, database)
        if first_password:
            click.echo(
                "warning: --first-password-file was ignored: it only takes effect when the server starts", err=True
            )
        ask_for_welcome(data_directory, holder.address, is_new=False)
        return
    secrets = {DATABASE_VARIABLE: database} if database else {}
    status = start_in_background(data_directory, program, flags, first_password, secrets)
    say_running(status, what, data_directory)
    ask_for_welcome(data_directory, status["address"])  # last: the link is what the user needs next


def _refuse_other_database(data_directory: DataDirectory, holder: LockHolder, database: str) -> None:
    """Raises `PlatformError` if the server that runs has another one than the flag names."""
    from fairpool.platform.database_location import kept_location

    if not database:
        return
    from fairpool.control.store.postgresql import described

    kept = kept_location(data_directory) or str(data_directory.control)
    if described(database) != kept:
        what = f"process {holder.pid} is running with the control database {kept}, not with {described(database)}"
        fix = "stop it with `fairpool down` first: --database only takes effect when the server starts"
        raise PlatformError(Problem("up.database", what, fix))


def say_running(status: Mapping[str, Any], what: str, data_directory: DataDirectory) -> None:
    from fairpool.cli.welcome import here
    from fairpool.platform.data_directory import default_data

    data = "" if data_directory.root == default_data() else f" --data {data_directory.root}"
    click.echo(f"{what} is running in the background (process {status['pid']}). Stop it: {here('fairpool')} down{data}")
