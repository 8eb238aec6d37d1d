"""`runai port-forward`: ports of this machine that lead to ports of a job, through the control plane."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import command, flag
from fairpool.cli.runai.port_flags import address_list
from fairpool.cli.runai.session import Session, job
from fairpool.cli.runai.suggestions import job_names
from fairpool.cli.screen import printable
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.shell_client import Shell

CHUNK = 65_536
RUNS, WAITS, AWAY, GONE = "runs", "waits", "away", "gone"
SAID = {
    RUNS: "{name} runs; connections are forwarded.",
    WAITS: "{name} does not run at the moment; connections are closed until it runs again.",
    AWAY: "The server does not answer; connections are closed until it does.",
}
OVER_PHASES = frozenset({"Completed", "Failed", "Deleted", "Deleting"})
ENDED = {"Completed": "has succeeded", "Failed": "has failed", "Deleted": "was deleted", "Deleting": "was deleted"}
OVER = 1
"""The exit code when the job is over."""
WATCH_S = 2.0
CONNECTIONS_MAX = 64
"""At one time: each is a connection to the server and two threads."""
LOOK_S = 0.2
LOOPBACK = ("127.0.0.1", "::1", "localhost")
PORT_MAX = 65_535


@command("port-forward", "runai port-forward build1 --port 8888:8888")
@click.argument("name", shell_complete=job_names)
@flag("--port", "ports", multiple=True, required=True, metavar="LOCAL:REMOTE", help="Port pair. Repeatable.")
@flag("--address", default="localhost", metavar="ADDRESS", help="Local addresses to listen on, separated by commas.")
@flag("--pod", metavar="POD", help="Pod to connect to (default: the first running pod).")
@flag("--pod-running-timeout", metavar="TIME", help="Wait so long for the job to run, e.g. 10m (default: not at all).")
@click.pass_context
def port_forward(
    ctx: click.Context, name: str, ports: Sequence[str], address: str, pod: str | None, pod_running_timeout: str | None
) -> None:
    """Forward ports of this machine to ports of a running job, until you press Ctrl-C or the job is over.

    The program in the job must listen on the remote port. Local port 0 picks a free one.
    """
    pairs = _pairs(ports)
    wait_s = ages.seconds(pod_running_timeout) if pod_running_timeout is not None else 0
    if isinstance(wait_s, Problem):
        raise Failure([wait_s])
    session = Session(ctx.obj)
    project = session.project()
    with session.connected() as client:
        workload = job(client, project, name, session.options.kind).id
    watch = JobWatch(session, workload, name)
    if not watch.wait_until_running(wait_s):
        fix = "wait until it is running; `runai why JOB` shows what it is waiting for"
        raise failure("pod.not_running", "Unable to forward ports of a job that is not running", fix)
    ctx.exit(_serve(session, watch, _listeners(pairs, address_list(address)), pod))


def forward_submitted(
    session: Session, workload: str, name: str, pairs: Sequence[tuple[int, int]], addresses: Sequence[str]
) -> int:
    """Forward the ports of a job that was just submitted, as soon as it runs; the exit code."""
    watch = JobWatch(session, workload, name)
    listeners = _listeners(pairs, addresses)  # before waiting: a port that is taken is known at once
    click.echo("Waiting for pod to start running...", err=True)
    if not watch.wait_until_running(None):
        how = ENDED.get(watch.phase, "is over")
        click.echo(printable(f"{name} {how} before its ports could be forwarded."), err=True)
        return OVER
    click.echo("Job started", err=True)
    places = ", ".join(f"{'localhost' if host in LOOPBACK else host}:{local}" for host, local, _, _ in listeners)
    click.echo(f"Open access point(s) to service from {places}", err=True)
    return _serve(session, watch, listeners, None)


Listener = tuple[str, int, int, socket.socket]
"""Local address and port, remote port."""


def _listeners(pairs: Sequence[tuple[int, int]], addresses: Sequence[str]) -> list[Listener]:
    found = []
    for address in addresses:
        for local, remote in pairs:
            listener = _listening(address, local)
            found.append((*listener.getsockname()[:2], remote, listener))
    return found


def _serve(session: Session, watch: JobWatch, listeners: Sequence[Listener], pod: str | None) -> int:
    """Until the job is over."""
    open_to_others = sorted({host for host, _, _, _ in listeners if host not in LOOPBACK})
    if open_to_others:
        who = ", ".join(open_to_others)
        session.options.warn(f"Anyone who can reach {who} can use these ports with your permissions.")
    for host, local, remote, listener in listeners:
        click.echo(
            f"Forwarding from {host}:{local} -> {remote} (job {printable(watch.name)}). Ctrl-C ends it.", err=True
        )
        forwarder = Forwarder(session, watch.workload, remote, pod)
        threading.Thread(target=forwarder.accept_from, args=(listener,), daemon=True).start()
    watch.follow()
    return OVER


class JobWatch:
    """Looks at a job now and then, and says when it stops, runs again, or cannot be seen."""

    def __init__(self, session: Session, workload: str, name: str) -> None:
        self.workload, self.name = workload, printable(name)
        self._session = session
        self.phase = ""
        """Of the job, when it did not run the last time."""

    def wait_until_running(self, wait_s: float | None) -> bool:
        """Whether it runs; waits for it so long, or with None until it is over."""
        end = None if wait_s is None else time.monotonic() + wait_s
        while True:
            state = self._state()
            if state == RUNS:
                return True
            if state == GONE or (end is not None and time.monotonic() >= end):
                return False
            time.sleep(LOOK_S)

    def follow(self) -> None:
        """Until the job is over."""
        before = RUNS
        while True:
            self._pause()
            now = self._state()
            if now == GONE:
                click.echo(f"{self.name} is over; its ports are no longer forwarded.", err=True)
                return
            if now != before:
                click.echo(f"{SAID[now].format(name=self.name)}", err=True)
            before = now

    def _pause(self) -> None:
        end = time.monotonic() + WATCH_S
        while time.monotonic() < end:
            threading.Event().wait(LOOK_S)  # short, so that Ctrl-C is noticed

    def _state(self) -> str:
        try:
            with self._session.connected() as client:
                if any(each.phase == "running" for each in client.pods(self.workload)):
                    return RUNS
                self.phase = client.workload(self.workload).phase
                return GONE if self.phase in OVER_PHASES else WAITS
        except Failure as failed:
            codes = {problem.code for problem in failed.problems}
            return AWAY if codes & {"server.away"} else GONE if "workload.unknown" in codes else AWAY


def _pairs(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Local and remote ports; a single number is both."""
    pairs, problems = [], []
    for text in texts:
        local, colon, remote = text.partition(":")
        numbers = [local, remote if colon else local]
        if all(each.isascii() and each.isdigit() and int(each) <= PORT_MAX for each in numbers) and int(numbers[1]):
            pairs.append((int(numbers[0]), int(numbers[1])))
        else:
            fix = "use LOCAL:REMOTE with numbers up to 65535, as in 8888:8888"
            problems.append(Problem("port.form", f"{text!r} is not a pair of ports", fix))
    if problems:
        raise Failure(problems)
    return pairs


def _listening(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family)
    except OSError as error:
        what = f"cannot listen on {address}:{port} ({error.strerror or error})"
        raise failure("port.taken", what, "choose another local port, or 0 for a free one") from error


class Forwarder:
    """Passes connections of one local port on to a port of a pod."""

    def __init__(self, session: Session, workload: str, port: int, pod: str | None) -> None:
        self._session, self._workload, self._port, self._pod = session, workload, port, pod
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def accept_from(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            if self._free.acquire(blocking=False):
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with (
                connection,
                self._session.connected() as client,
                client.port(self._workload, self._port, pod=self._pod) as stream,
            ):
                threading.Thread(target=_send, args=(connection, stream), daemon=True).start()
                _receive(connection, stream)
        except Failure as failed:
            for problem in failed.problems:
                click.echo(printable(str(problem)), err=True)
        except Exception as error:
            click.echo(f"a connection to port {self._port} broke ({type(error).__name__})", err=True)
        finally:
            self._free.release()


def _send(connection: socket.socket, stream: Shell) -> None:
    try:
        while data := connection.recv(CHUNK):
            stream.send(data)
        stream.send_end()
    except OSError:  # the client is gone; the pod would wait for the rest without end
        stream.close()
    except Exception:  # the server has closed it: `_receive` comes to its last bytes and to its end
        return


def _receive(connection: socket.socket, stream: Shell) -> None:
    from fairpool.api.shell import Channel, read_end

    while (frame := stream.receive()) is not None and frame.channel is Channel.OUTPUT:
        connection.sendall(frame.data)
    end = read_end(frame) if frame is not None else None
    if end is not None and end[1]:
        click.echo(printable(end[1]), err=True)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
