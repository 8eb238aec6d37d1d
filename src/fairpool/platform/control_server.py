"""The control plane as a server: its database, and its API over HTTP, TLS and a Unix socket, with the admin socket.

The assembly of `fairpool control`, and one half of `fairpool up`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from fairpool import __version__
from fairpool.control.app import StartupFailed, create_app
from fairpool.control.pod_access import PodAccess
from fairpool.control.request_log import RequestLog
from fairpool.control.scrape import EVERYTHING, scrape
from fairpool.control.scrape_names import ScrapeSubject
from fairpool.control.settings import Retention, Settings, is_loopback
from fairpool.control.store import condition
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.trusted_proxies import NO_PROXIES, ForwardedClients, TrustedProxies
from fairpool.model.problem import Problem
from fairpool.platform.address import Address
from fairpool.platform.admin_socket import Handler, open_admin_socket, private_socket
from fairpool.platform.data_directory import DataDirectory, PlatformError
from fairpool.platform.external_ports import serving_external_ports
from fairpool.platform.gateway_server import GatewayPlace, serving_gateway
from fairpool.platform.health_server import health_server
from fairpool.platform.http_server import Server
from fairpool.platform.peer_link import PeerPlace, serving_peers
from fairpool.platform.server_process import on_signals

log = logging.getLogger("fairpool.up")

SHUTDOWN_S = 2
"""How long requests may still take when the server stops: streams have no end of their own."""
KEEP_ALIVE_S = 75
"""Much longer than clients keep idle connections (ours and many others: 5 s): otherwise some would send a request just
when the server closes the connection, and get no response."""
UNACKNOWLEDGED_MS = 120_000
"""How long the kernel tries to deliver data to a client that does not acknowledge it."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A certificate with its chain, and its key, as PEM files."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key, password="")
        return context

    def problem(self) -> Problem | None:
        """Why they cannot be used."""
        fix = "pass a certificate with its chain and its unencrypted key, as PEM files"
        try:
            self.context()
        except ssl.SSLError as error:
            what = f"{self.certificate} and {self.key} are no certificate with its key: {error.reason or error}"
            return Problem("tls.unusable", what, fix)
        except OSError as error:
            place = next((each for each in (self.certificate, self.key) if not os.access(each, os.R_OK)), self.key)
            what = f"{place} cannot be read: {(error.strerror or str(error)).lower()}"
            return Problem("tls.unreadable", what, fix)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOptions:
    """What an administrator chooses for a control plane."""

    address: Address
    retention: Retention
    audit_forward: str = ""
    host_names: Sequence[str] = ()
    trusted_proxies: TrustedProxies = NO_PROXIES
    first_password: str = field(default="", repr=False)
    database: str = field(default="", repr=False)
    """Address of a PostgreSQL database; empty: a file in the data directory."""
    keys: Path | None = None
    """Directory of the keys that several control planes share; None: the data directory."""
    tls: TlsFiles | None = None
    gateway: GatewayPlace | None = None
    """None: none."""
    peers: PeerPlace | None = None
    """Where other processes of the same database reach this one; None: there are none."""
    metrics: socket.socket | None = None
    """Where everything that Prometheus may have is served without credentials; None: nowhere."""
    other_listener: socket.socket | None = None
    """The port of the API at the other loopback address."""


class ControlServer:
    """The control plane of one data directory."""

    def __init__(self, data_directory: DataDirectory, options: ControlOptions, listener: socket.socket) -> None:
        self._data_directory, self._options = data_directory, options
        self._listeners = [listener, *([options.other_listener] if options.other_listener is not None else [])]
        self._since_ms = time.time_ns() // 1_000_000
        self._server: Server | None = None
        self._app: Starlette | None = None

    @asynccontextmanager
    async def opened(
        self, *, is_ready: Callable[[], bool], pod_access: PodAccess | None, **settings: Any
    ) -> AsyncIterator[Starlette]:
        """The application with its database; `settings`: those that an administrator does not choose.

        `pod_access`: of the cluster in this process, if there is one.
        """
        options = self._options
        kept = None if options.database else condition.keep_if_older(self._data_directory.control)
        if kept is not None:
            log.info("database migrated; the previous version is kept in %s", kept)
        made = Settings(
            data=self._data_directory.root,
            database=options.database,
            keys=options.keys,
            host=options.address.host,
            url=options.gateway.control_url if options.gateway is not None else options.address.url,
            host_names=tuple(options.host_names),
            retention=options.retention,
            audit_forward=options.audit_forward,
            first_password=options.first_password,
            gateway=options.gateway.address if options.gateway is not None else None,
            pod_host=_host_of_ports(options),
            **settings,
        )
        app = create_app(made, pod_access=pod_access)
        app.state.is_ready = is_ready
        async with app.router.lifespan_context(app):
            yield app

    async def serve(
        self, app: Starlette, handlers: Mapping[str, Handler], when_ready: Callable[[], Awaitable[None]]
    ) -> None:
        """Answer requests until `shut_down`; `handlers` are those of the admin socket."""
        self._app = app
        ports = serving_external_ports(app.state.plane, self._options.address.host)
        metrics, sockets = self._metrics(app), self._sockets(app, handlers)
        async with self._peers(app), self._gateway(app), ports, metrics, sockets as server:
            with on_signals(self.shut_down):
                serving = asyncio.create_task(server.serve(self._listeners), name="server")
                sweeping = asyncio.create_task(server.sweep(), name="sweep")
                try:
                    while not serving.done() and not (server.started and app.state.is_ready()):
                        await asyncio.sleep(0.01)
                    if not serving.done():
                        log.info("ready at %s", self._options.address.url)
                        await when_ready()
                    await serving
                finally:
                    sweeping.cancel()

    @asynccontextmanager
    async def _peers(self, app: Starlette) -> AsyncIterator[None]:
        if self._options.peers is None:
            yield
            return
        async with serving_peers(app.state.plane, self._options.peers):
            yield

    @asynccontextmanager
    async def _metrics(self, app: Starlette) -> AsyncIterator[None]:
        if self._options.metrics is None:
            yield
            return

        async def series(packs: bool) -> bytes:
            return await scrape(app.state.plane, EVERYTHING, list(ScrapeSubject), packs=packs)

        def why_not_ready() -> str:
            return "" if app.state.is_ready() else "starting"

        async with health_server(self._options.metrics, why_not_ready, series):
            yield

    @asynccontextmanager
    async def _gateway(self, app: Starlette) -> AsyncIterator[None]:
        if self._options.gateway is None:
            yield
            return
        tls = self._options.tls.context() if self._options.tls is not None else None
        async with serving_gateway(self._options.gateway, app.state, tls):
            yield

    @asynccontextmanager
    async def _sockets(self, app: Starlette, handlers: Mapping[str, Handler]) -> AsyncIterator[Server]:
        """The server, with its Unix sockets open; it listens on HTTP when it is run."""
        for listener in self._listeners:
            _set_keepalive(listener)
        tls = self._options.tls
        files: dict[str, Any] = {} if tls is None else {"ssl_certfile": tls.certificate, "ssl_keyfile": tls.key}
        proxies, is_secure = self._options.trusted_proxies, app.state.plane.settings.url.startswith("https://")
        watched = RequestLog(app, app.state.plane.measures)
        served = ForwardedClients(watched, proxies, is_secure=is_secure) if proxies else watched
        times: dict[str, Any] = {"timeout_graceful_shutdown": SHUTDOWN_S, "timeout_keep_alive": KEEP_ALIVE_S}
        server = self._server = Server(served, proxies=proxies, **times, **files)
        places = self._data_directory
        admin = await open_admin_socket(places.admin_socket, handlers)
        event_loop = asyncio.get_running_loop()
        api = await event_loop.create_unix_server(server.own_connection, sock=private_socket(places.api_socket))
        try:
            yield server
        finally:
            for each, place in ((api, places.api_socket), (admin, places.admin_socket)):
                each.close()
                place.unlink(missing_ok=True)

    def shut_down(self) -> None:
        """The first time gracefully, the second time without waiting for requests."""
        assert self._server is not None
        log.info("server shutting down; running pods are not affected")
        self._server.force_exit = self._server.should_exit
        self.stop()

    def stop(self) -> None:
        """End by itself."""
        if self._server is not None:
            self._server.should_exit = True
        if self._app is not None:
            self._app.state.plane.notifier.close()

    async def status(self, app: Starlette) -> Mapping[str, Any]:
        """For `fairpool status`."""
        database, samples = app.state.plane.database, app.state.plane.samples
        problem = await database.problem()
        return {
            "pid": os.getpid(),
            "version": __version__,
            "address": self._options.address.url,
            "gateway": self._options.gateway.address.url if self._options.gateway is not None else "",
            "since_ms": self._since_ms,
            "is_ready": self._server is not None and self._server.started and bool(app.state.is_ready()),
            "database": {
                "where": database.where or str(self._data_directory.control),
                "problem": str(problem) if problem is not None else None,
            },
            "samples": {
                "problem": str(samples.problem) if samples.problem is not None else None,
                "dropped": samples.dropped,
            },
        }


def _host_of_ports(options: ControlOptions) -> str:
    """The name under which external ports are reached: they are opened at the address of the API."""
    if is_loopback(options.address.host):
        return options.address.bracketed
    return options.host_names[0] if options.host_names else socket.gethostname()


@contextmanager
def start_up_errors() -> Iterator[None]:
    """Errors of the control plane's start-up as `PlatformError`, in the words of the command."""
    try:
        yield
    except Unavailable as error:
        raise PlatformError(error.described) from error
    except StartupFailed as error:
        raise PlatformError(_in_command_words(error.problem)) from error


def _in_command_words(problem: Problem) -> Problem:
    if problem.code != "access.first_password":
        return problem
    fix = "run `fairpool reset-password` and start again, or listen on 127.0.0.1 only"
    return Problem(problem.code, f"other machines can reach this address, and {problem.what}", fix)


def _set_keepalive(listener: socket.socket) -> None:
    """Connections whose client is gone, or does not read, end after a while. Accepted sockets inherit this."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS), ("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15)):
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
