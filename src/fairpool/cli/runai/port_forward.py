"""`runai port-forward`: ports of this machine that lead to ports of a job, through the control plane."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from fairpool.api.client import Client
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.session import Session, job
from fairpool.cli.runai.suggestions import job_names
from fairpool.cli.screen import printable
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.shell_client import Shell

CHUNK = 65_536
CONNECTIONS_MAX = 64
"""At one time: each is a connection to the server and two threads."""
LOOK_S = 0.2
LOOPBACK = ("127.0.0.1", "::1", "localhost")
PORT_MAX = 65_535


@command("port-forward", "runai port-forward build1 --port 8888:8888")
@click.argument("name", shell_complete=job_names)
@flag("--port", "ports", multiple=True, required=True, metavar="LOCAL:REMOTE", help="Port pair. Repeatable.")
@flag("--address", default="127.0.0.1", metavar="ADDRESS", help="Local address to listen on.")
@flag("--pod", metavar="POD", help="Pod to connect to (default: the first running pod).")
@click.pass_obj
def port_forward(options: GlobalOptions, name: str, ports: Sequence[str], address: str, pod: str | None) -> None:
    """Forward ports of this machine to ports of a running job, until you press Ctrl-C.

    The program in the job must listen on the remote port. Local port 0 picks a free one.
    """
    pairs = _pairs(ports)
    session = Session(options)
    project = session.project()
    with session.connected() as client:
        workload = job(client, project, name, options.kind).id
        _check_is_running(client, workload)
    if address not in LOOPBACK:
        options.warn(f"Anyone who can reach {address} can use these ports with your permissions.")
    listeners = [_listening(address, local) for local, _ in pairs]
    for listener, (_, remote) in zip(listeners, pairs, strict=True):
        host, local = listener.getsockname()[:2]
        click.echo(f"Forwarding from {host}:{local} to port {remote} of {printable(name)}. Ctrl-C ends it.", err=True)
        forwarder = Forwarder(session, workload, remote, pod)
        threading.Thread(target=forwarder.accept_from, args=(listener,), daemon=True).start()
    while True:
        threading.Event().wait(LOOK_S)  # short, so that Ctrl-C is noticed


def _check_is_running(client: Client, workload: str) -> None:
    if not any(each.phase == "running" for each in client.pods(workload)):
        fix = "wait until it is running; `runai why JOB` shows what it is waiting for"
        raise failure("pod.not_running", "Unable to forward ports of a job that is not running", fix)


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
    with suppress(Exception):  # either side has closed it
        while data := connection.recv(CHUNK):
            stream.send(data)
        stream.send_end()


def _receive(connection: socket.socket, stream: Shell) -> None:
    from fairpool.api.shell import Channel

    while (frame := stream.receive()) is not None and frame.channel is Channel.OUTPUT:
        connection.sendall(frame.data)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
