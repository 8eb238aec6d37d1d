"""`runai cp`: files into a running job and out of it, as a tar stream through a command in the pod."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.client import Client
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai.archive_stream import Unsafe, unpack
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.session import Session, job
from fairpool.cli.screen import printable

if TYPE_CHECKING:
    from fairpool.api.shell_client import Shell

CHUNK = 32_768
ERRORS_KEPT = 2000
PROGRESS_S = 0.5


@dataclass(frozen=True, slots=True)
class Place:
    """A path on this machine, or in a pod of a job."""

    job: str | None
    path: str


@command("cp", "runai cp train:/tmp/model.pt . -p team-a")
@click.argument("source")
@click.argument("target")
@flag("--pod", metavar="POD", help="Pod to copy from or to (default: the first running pod).")
@flag("-q", "--quiet", is_flag=True, help="Do not show progress.")
@click.pass_obj
def cp(options: GlobalOptions, source: str, target: str, pod: str | None, quiet: bool) -> None:
    """Copy a file or folder between this machine and a running job.

    JOB:PATH is a path in the job; relative paths start in the job's working directory. If the target is a folder,
    the source is copied into it; otherwise the copy gets the target's name. Only files and folders are copied out
    of a job: links and special files are skipped and listed.
    """
    origin, goal = place(source), place(target)
    if (origin.job is None) == (goal.job is None):
        what = "neither path is in a job" if origin.job is None else "both paths are in a job"
        fix = "write one as JOB:PATH, as in runai cp data.csv train:/tmp/ or runai cp train:/tmp/model.pt ."
        raise failure("cp.places", what, fix)
    session = Session(options)
    project = session.project()
    with session.connected() as client:
        workload = job(client, project, origin.job or goal.job or "").id
        progress = CopyProgress(wanted=not quiet and sys.stderr.isatty())
        if goal.job is not None:
            _copy_in(client, workload, pod, origin.path, goal.path, progress)
        else:
            _copy_out(options, client, workload, pod, origin.path, goal.path, progress)
        progress.finish()


def place(text: str) -> Place:
    """`JOB:PATH`, or a path here; a path here with a colon in its first part is written ./a:b."""
    head, colon, path = text.partition(":")
    if colon and head and "/" not in head and not head.startswith("."):
        return Place(head, path or ".")
    return Place(None, text)


class CopyProgress:
    """How much has been copied, on a terminal."""

    def __init__(self, *, wanted: bool) -> None:
        self._wanted, self._bytes, self._shown_at = wanted, 0, time.monotonic()

    def add(self, count: int) -> None:
        self._bytes += count
        if self._wanted and time.monotonic() - self._shown_at >= PROGRESS_S:
            self._shown_at = time.monotonic()
            click.echo(f"\r{self._bytes / 2**20:.1f} MiB", nl=False, err=True)

    def finish(self) -> None:
        if self._wanted and self._bytes:
            click.echo(f"\r{self._bytes / 2**20:.1f} MiB copied", err=True)


# --- into a pod ----------------------------------------------------------------------------------------------


def _copy_in(client: Client, workload: str, pod: str | None, source: str, target: str, progress: CopyProgress) -> None:
    if not os.path.lexists(source):
        raise failure("cp.missing", f"{source} does not exist on this machine", "check the path")
    own_name = os.path.basename(os.path.abspath(source))
    into = target if target.endswith("/") or _ask(client, workload, pod, ("test", "-d", target)) == 0 else ""
    folder, name = (target, own_name) if into else os.path.split(target)
    command = ("tar", "-x", "-o", "-f", "-", "-C", folder or ".")
    with client.shell(workload, command, pod=pod) as shell:
        ended = Ended(shell)
        try:
            _send_archive(shell, source, name or own_name, ended, progress)
        except OSError as error:
            raise failure("cp.unreadable", f"{error.filename or source}: {error.strerror}", "check the path") from error
        ended.wait()
    _raise_if_failed(ended, f"{target} in the job")


def _send_archive(shell: Shell, source: str, name: str, ended: Ended, progress: CopyProgress) -> None:
    with suppress(BrokenPipeError), tarfile.open(fileobj=ToShell(shell, ended, progress), mode="w|") as archive:
        archive.add(source, arcname=name)
    with suppress(BrokenPipeError):
        _send(shell.send_end)


class ToShell(io.RawIOBase):
    """A writable file whose data goes to the command in the pod."""

    def __init__(self, shell: Shell, ended: Ended, progress: CopyProgress) -> None:
        self._shell, self._ended, self._progress = shell, ended, progress

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = bytes(data)
        for start in range(0, len(view), CHUNK):
            if self._ended.is_set:
                raise BrokenPipeError
            piece = view[start : start + CHUNK]
            _send(partial(self._shell.send, piece))
            self._progress.add(len(piece))
        return len(view)


class Ended:
    """The end of a command in a pod while data is sent to it: its exit code and its errors."""

    def __init__(self, shell: Shell) -> None:
        self.code: int | None = None
        self.errors = b""
        self._thread = threading.Thread(target=self._listen, args=(shell,), daemon=True)
        self._thread.start()

    @property
    def is_set(self) -> bool:
        return not self._thread.is_alive()

    def wait(self) -> None:
        while self._thread.is_alive():  # in pieces, so that Ctrl-C is noticed
            self._thread.join(0.2)

    def _listen(self, shell: Shell) -> None:
        from fairpool.api.shell import Channel

        while (frame := shell.receive()) is not None:
            if frame.channel is Channel.ENDED:
                self.code = _code(frame.data)
                return
            if frame.channel is Channel.ERRORS:
                self.errors = (self.errors + frame.data)[:ERRORS_KEPT]


# --- out of a pod --------------------------------------------------------------------------------------------


def _copy_out(
    options: GlobalOptions,
    client: Client,
    workload: str,
    pod: str | None,
    source: str,
    target: str,
    progress: CopyProgress,
) -> None:
    source = source.rstrip("/") or "/"
    folder, name = os.path.split(source)
    if name in ("", ".", ".."):
        folder, name = source, "."
    into_folder = os.path.isdir(target)
    below, renamed = (target, None) if into_folder else os.path.split(os.path.abspath(target))
    if not os.path.isdir(below):
        raise failure("cp.no_target", f"{below} is not a folder on this machine", "create it, or choose another target")
    if name == "." and not into_folder:
        raise failure(
            "cp.no_target", f"{source} is a folder, but {target} is not a folder on this machine", "create it"
        )
    command = ("tar", "-c", "-f", "-", "-C", folder or ".", f"./{name}")
    asked = None if name == "." else name
    with client.shell(workload, command, pod=pod) as shell:
        stream = FromShell(shell)
        try:
            left_out = unpack(stream, below, asked=asked, called=renamed, done=progress.add)  # type: ignore[arg-type]
        except Unsafe as error:
            if stream.code:  # nothing came, because the command failed
                _raise_if_failed(stream, f"{source} in the job")
            what = f"the job sent {printable(str(error))}; nothing outside {target} was written"
            raise failure("cp.unsafe", what, "check what runs in the job before you copy again") from error
        except OSError as error:
            what = f"{error.filename or target} cannot be written: {error.strerror}"
            raise failure("cp.unwritable", what, "check free space and permissions") from error
        stream.drain()
    _raise_if_failed(stream, f"{source} in the job")
    if left_out:
        some = ", ".join(left_out[:5]) + (f" and {len(left_out) - 5} more" if len(left_out) > 5 else "")
        options.warn(f"Skipped, because they are not files or folders: {some}")


class FromShell(io.RawIOBase):
    """Reads what the command in the pod writes."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._rest = b""
        self.code: int | None = None
        self.errors = b""
        self._is_over = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._rest and not self._is_over:
            self._receive()
        taken, self._rest = (self._rest, b"") if size < 0 else (self._rest[:size], self._rest[size:])
        return taken

    def drain(self) -> None:
        """Discard the padding after the end of the archive."""
        while not self._is_over:
            self._receive()
            self._rest = b""

    def _receive(self) -> None:
        from fairpool.api.shell import Channel

        frame = self._shell.receive()
        if frame is None or frame.channel is Channel.ENDED:
            self._is_over = True
            self.code = None if frame is None else _code(frame.data)
        elif frame.channel is Channel.ERRORS:
            self.errors = (self.errors + frame.data)[:ERRORS_KEPT]
        else:
            self._rest += frame.data


# --- both ----------------------------------------------------------------------------------------------------


def _ask(client: Client, workload: str, pod: str | None, command: tuple[str, ...]) -> int | None:
    """The exit code of a short command in the pod."""
    with client.shell(workload, command, pod=pod) as shell:
        ended = Ended(shell)
        ended.wait()
    return ended.code


def _send(send: Callable[[], None]) -> None:
    """A command that ends early closes the connection while the other side still writes to it; each layer of it
    raises an exception of its own."""
    try:
        send()
    except Exception as error:
        raise BrokenPipeError from error


def _raise_if_failed(ended: Ended | FromShell, what: str) -> None:
    if ended.code == 0:
        return
    said = ended.errors.decode(errors="replace").strip().replace("\n", "; ")
    if ended.code == 127:
        raise failure(
            "cp.no_tar", "copying needs `tar`, which is not installed in the job", "use an image that includes it"
        )
    if ended.code is None and not said:
        raise failure("pod.lost", "the connection to the job broke before everything was copied", "try again")
    problem: Failure = failure("cp.failed", f"{what}: {said or f'tar ended with exit code {ended.code}'}")
    raise problem


def _code(data: bytes) -> int | None:
    try:
        said = json.loads(data)
    except ValueError:
        return None
    code = said.get("exitCode") if isinstance(said, dict) else None
    return code if isinstance(code, int) else None
