"""`runai bash`, `exec` and `attach`. They end with the exit code of the process in the pod."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.client import Client
from fairpool.api.pod_choice import pod_called, pods_there
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai.flags import EVERY_KIND, Command, KindFilter, command, flag
from fairpool.cli.runai.session import Session, job
from fairpool.cli.runai.suggestions import job_names
from fairpool.cli.screen import printable
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.shell import Frame
    from fairpool.api.shell_client import Shell
    from fairpool.api.workloads import PodItem

ATTACH_WAIT_S = 30.0
LOOK_AGAIN_S = 0.5
EXIT_CODE_WAIT_S = 10.0
CHUNK = 32_768
LOST = 255


class CommandInPod(Command):
    """Flags stand before the command; the command keeps its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        taking = {
            name for each in self.params for name in each.opts if isinstance(each, click.Option) and not each.is_flag
        }
        flags: list[str] = []
        words: list[str] = []
        rest = list(args)
        while rest and len(words) < 2:
            word = rest.pop(0)
            if word == "--":
                break
            if not word.startswith("-") or word == "-":
                words.append(word)
                continue
            flags.append(word)
            if word in taking and rest:
                flags.append(rest.pop(0))
        return super().parse_args(ctx, [*flags, "--", *words, *rest])


@command("exec", "runai exec -it hyper1 -- bash", cls=CommandInPod)
@click.argument("name", shell_complete=job_names)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@flag("-i", "--stdin", is_flag=True, help="Pass standard input to the command.")
@flag("-t", "--tty", is_flag=True, help="Allocate a terminal.")
@flag("--pod", metavar="POD", help="Pod to run in (default: the first running pod).")
@click.pass_context
def exec_command(
    ctx: click.Context, name: str, command: tuple[str, ...], stdin: bool, tty: bool, pod: str | None
) -> None:
    """Run a command in a pod of a running job."""
    _visit(ctx, name, command, pod=pod, stdin=stdin, tty=tty)


@command("bash", "runai bash build1 -p team-a")
@click.argument("name", shell_complete=job_names)
@flag("--pod", metavar="POD", help="Pod to run in (default: the first running pod).")
@click.pass_context
def bash(ctx: click.Context, name: str, pod: str | None) -> None:
    """Open a shell in a running job. The same as `runai exec -it NAME -- bash`."""
    _visit(ctx, name, ("bash",), pod=pod, stdin=True, tty=sys.stdin.isatty())


@command("attach", "runai attach build1")
@click.argument("name", shell_complete=job_names)
@flag("--no-stdin", is_flag=True, help="Do not pass standard input.")
@flag("--no-tty", is_flag=True, help="Do not allocate a terminal.")
@flag("--pod", metavar="POD", help="Pod to attach to (default: the first running pod).")
@click.pass_context
def attach(ctx: click.Context, name: str, no_stdin: bool, no_tty: bool, pod: str | None) -> None:
    """Attach to the main process of a running job. If the job is starting, wait up to 30 seconds."""
    session = Session(ctx.obj)
    project = session.project()
    with session.connected() as client:
        code = attach_to(client, project, name, pod=pod, stdin=not no_stdin, tty=not no_tty, kind=session.options.kind)
    ctx.exit(code)


def attach_to(
    client: Client,
    project: str,
    name: str,
    *,
    pod: str | None = None,
    stdin: bool = True,
    tty: bool = True,
    kind: KindFilter = EVERY_KIND,
) -> int:
    """Wait until it runs, and attach to it."""
    workload = job(client, project, name, kind).id
    end = time.monotonic() + ATTACH_WAIT_S
    while (running := _running(client, workload, pod)) is None and time.monotonic() < end:
        time.sleep(LOOK_AGAIN_S)
    joined = pod if running is None else running.id
    said = client.workload(workload).spec
    takes_input, has_terminal = bool(said.get("stdin")), bool(said.get("tty"))
    # A raw terminal sends Ctrl-C to the job. A job that ignores it could never be left.
    raw = tty and stdin and takes_input and has_terminal and sys.stdin.isatty()
    if sys.stdin.isatty() and running is not None and not raw:
        click.echo(f"Watching {printable(running.name)}. Ctrl-C detaches; the job keeps running.", err=True)
    code = _converse(client, workload, (), joined, stdin=stdin and takes_input, tty=raw)
    return code if code is not None else _code_of(client, workload, joined)


def _code_of(client: Client, workload: str, pod: str | None) -> int:
    """The exit code of the process that was attached to; its node reports it a moment later."""
    end = time.monotonic() + EXIT_CODE_WAIT_S
    while time.monotonic() < end:
        ended = next((each for each in client.history(workload) if each.id == pod), None)
        if ended is not None and ended.phase == "ended":
            return LOST if ended.exit_code is None else ended.exit_code
        time.sleep(LOOK_AGAIN_S)
    return LOST


def _visit(ctx: click.Context, name: str, command: Sequence[str], *, pod: str | None, stdin: bool, tty: bool) -> None:
    session = Session(ctx.obj)
    project = session.project()
    with session.connected() as client:
        workload = job(client, project, name, session.options.kind).id
        code = _converse(client, workload, command, pod, stdin=stdin, tty=tty)
    ctx.exit(LOST if code is None else code)


def _running(client: Client, workload: str, pod: str | None) -> PodItem | None:
    pods = [each for each in client.pods(workload) if each.phase == "running"]
    return next(iter(pods), None) if pod is None else pod_called(pods, pod)


def _converse(
    client: Client, workload: str, command: Sequence[str], pod: str | None, *, stdin: bool, tty: bool
) -> int | None:
    """Until it has ended; its exit code, or None if it is unknown."""
    import httpx2
    from httpx2.websockets import HTTPXWSException

    if _running(client, workload, pod) is None:
        pods = client.pods(workload)
        if pod is not None and pod_called(pods, pod) is None:
            raise failure("pod.unknown", f"there is no pod {pod!r}", pods_there(pods))
        raise failure("pod.not_running", "Unable to run command in a pod that is not running")
    try:
        with client.shell(workload, command, pod=pod, tty=tty) as shell, _raw_terminal(shell, wanted=tty):
            if stdin or command:  # who only watches a job's own process must not end its input
                threading.Thread(target=_send_input, args=(shell, stdin), daemon=True).start()
            return _receive(shell)
    except (HTTPXWSException, httpx2.TransportError) as error:
        lost = Problem("pod.lost", f"the connection broke ({type(error).__name__})", "try again")
        raise Failure([lost], exit_code=LOST) from error


def _receive(shell: Shell) -> int | None:
    from fairpool.api.shell import Channel

    out, err = sys.stdout.buffer, sys.stderr.buffer
    while (frame := shell.receive()) is not None:
        if frame.channel is Channel.ENDED:
            return _exit_code(frame)
        stream = err if frame.channel is Channel.ERRORS else out
        stream.write(frame.data)
        stream.flush()
    click.echo("the connection ended before the command did", err=True)
    return LOST


def _exit_code(frame: Frame) -> int | None:
    from fairpool.api.shell import read_end

    end = read_end(frame)
    if end is None:
        return LOST
    code, words = end
    if words:
        click.echo(printable(words), err=True)
    if code is None:
        return None
    return code if isinstance(code, int) and 0 <= code <= 255 else LOST


def _send_input(shell: Shell, stdin: bool) -> None:
    """Runs in a thread, which is abandoned when the command ends."""
    with suppress(Exception):
        read = _reader()
        while stdin and (data := read(CHUNK)):
            shell.send(data)
        shell.send_end()


def _reader() -> Callable[[int], bytes]:
    """Bypasses Python's buffer: a thread that waits in it would abort the process at exit."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):
        return sys.stdin.buffer.read  # no file at all
    return lambda size: os.read(descriptor, size)


@contextmanager
def _raw_terminal(shell: Shell, *, wanted: bool) -> Iterator[None]:
    """The terminal in raw mode, with its size sent to the pod; restored at the end."""
    if not wanted or not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def send_size(*_: Any) -> None:
        with suppress(OSError, Exception):
            size = os.get_terminal_size(descriptor)
            shell.resize(size.columns, size.lines)

    earlier = signal.signal(signal.SIGWINCH, send_size)
    try:
        tty.setraw(descriptor)
        send_size()
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, earlier)
