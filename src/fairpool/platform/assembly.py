"""The server process: what is started in which order, and stopped in the reverse order.

1. the database, kept in its previous version if it will be migrated
2. the local engine, which adopts pods that run already
3. the control plane, on the main thread's event loop
4. the cluster: the scheduling loop in a thread, which talks to the control plane through the same two calls that a
   cluster elsewhere makes, without socket and text
5. the guard of the disk reserve
6. the sockets: HTTP, the API on a Unix socket, the admin socket
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from starlette.applications import Starlette

from fairpool import __version__
from fairpool.agent.disk_reserve import RESERVE_BYTES
from fairpool.agent.state_directory import UnknownInstallation
from fairpool.api.config_directory import config_directory
from fairpool.cluster.ledger import DiskTrouble, LeaseHeld, LedgerProblem
from fairpool.control.app import StartupFailed, create_app
from fairpool.control.request_log import RequestLog
from fairpool.control.settings import Retention, Settings, is_loopback
from fairpool.control.store import condition
from fairpool.control.store.unavailable import Unavailable
from fairpool.engines.local import LocalEngine
from fairpool.engines.port import EngineUnreachable
from fairpool.model.node import SIMULATED_LABEL
from fairpool.model.problem import Problem
from fairpool.platform.address import Address
from fairpool.platform.admin_socket import open_admin_socket, private_socket
from fairpool.platform.data_directory import DataDirectory, PlatformError, default_data
from fairpool.platform.disk_guard import DiskGuard
from fairpool.platform.http_server import Server
from fairpool.platform.local_cluster import STOP_TIMEOUT_S, LocalCluster, local_cluster
from fairpool.platform.local_pod_access import LocalPodAccess
from fairpool.platform.loop_thread import now
from fairpool.platform.node_set import NodeSet, summary
from fairpool.platform.owner_access import FIRST_PROJECT, OwnerAccess, Welcome

log = logging.getLogger("fairpool.up")

SHUTDOWN_S = 2
"""How long requests may still take when the server stops: streams have no end of their own."""
KEEP_ALIVE_S = 75
"""Much longer than clients keep idle connections (ours and many others: 5 s): otherwise some would send a request just
when the server closes the connection, and get no response."""
UNACKNOWLEDGED_MS = 120_000
"""How long the kernel tries to deliver data to a client that does not acknowledge it."""

OnReady = Callable[[Welcome | Problem], None]


class Platform:
    """Control plane, scheduling loop and local engine in one process."""

    def __init__(
        self,
        data_directory: DataDirectory,
        address: Address,
        listener: socket.socket,
        node_set: NodeSet,
        retention: Retention,
        names: Sequence[str] = (),
        disk_reserve_bytes: int = RESERVE_BYTES,
        first_password: str = "",
    ) -> None:
        self._data_directory, self._address, self._listener = data_directory, address, listener
        self._node_set, self._disk_reserve_bytes = node_set, disk_reserve_bytes
        self._retention, self._names, self._first_password = retention, tuple(names), first_password
        self._since = now()
        self._stepped_down = ""
        self._server: Server | None = None
        self._cluster: LocalCluster | None = None

    def run(self, on_ready: OnReady, question: Mapping[str, Any]) -> None:
        """Run until a signal comes. `on_ready` is called with the answer to the question for a welcome.

        Raises `PlatformError` if it cannot be started, or another loop has taken over.
        """
        try:
            with asyncio.Runner(loop_factory=_event_loop_factory()) as runner:
                runner.run(self._serve(on_ready, question))
        except Unavailable as error:
            raise PlatformError(Problem(error.code, str(error), error.problem.fix)) from error
        except (StartupFailed, LedgerProblem, DiskTrouble, UnknownInstallation) as error:
            raise PlatformError(_in_command_words(error.problem)) from error
        except (LeaseHeld, EngineUnreachable) as error:
            what = f"the scheduling loop cannot start: {error}"
            fix = "check whether another Fairpool uses a copy of this data directory"
            raise PlatformError(Problem("up.loop", what, fix)) from error
        if self._stepped_down:
            fix = "run only one Fairpool per data directory"
            raise PlatformError(Problem("up.stepped_down", self._stepped_down, fix))

    async def _serve(self, on_ready: OnReady, question: Mapping[str, Any]) -> None:
        """The start-up sequence; every step is undone in the reverse order."""
        self._log_start()
        kept = condition.keep_if_older(self._data_directory.control)
        if kept is not None:
            log.info("database migrated; the previous version is kept in %s", kept)
        async with AsyncExitStack() as stack:
            engine = self._open_engine()
            stack.callback(self._close_engine, engine)
            pod_access = LocalPodAccess(engine.supervisor)
            stack.callback(pod_access.close)
            disk = DiskGuard(self._data_directory.reserve, self._disk_reserve_bytes, engine.supervisor)
            stack.callback(disk.stop, STOP_TIMEOUT_S)
            app = self._create_app(pod_access)
            await stack.enter_async_context(app.router.lifespan_context(app))
            self._cluster = await stack.enter_async_context(
                local_cluster(app.state.plane, engine, self._data_directory.ledger, self._step_down)
            )
            disk.start()
            gc.collect()
            gc.freeze()  # what was loaded stays for good; to look through it again is waste
            access = OwnerAccess(app.state, engine.supervisor.unavailable.get("isolation", ""))
            async with self._sockets(app, engine, disk, access) as server:
                await self._serve_requests(server, lambda: access.welcome(question), on_ready)

    def _log_start(self) -> None:
        fields = {
            "version": __version__,
            "pid": os.getpid(),
            "address": self._address.url,
            "data": self._data_directory.root,
            "nodes": summary(self._node_set.nodes),
        }
        log.info("server starting", extra={"fields": fields})

    def _open_engine(self) -> LocalEngine:
        return LocalEngine(
            self._data_directory.machine,
            nodes=self._node_set.nodes,
            protected=(self._data_directory.root, config_directory(), default_data()),
        )

    def _close_engine(self, engine: LocalEngine) -> None:
        if self._cluster is None or not self._cluster.is_stuck:
            engine.close()  # pods are not affected

    def _create_app(self, pod_access: LocalPodAccess) -> Starlette:
        host = self._address.host
        settings = Settings(
            data=self._data_directory.root,
            host=host,
            host_names=self._names,
            # A pod is a process of this machine, and its ports are the machine's own.
            pod_host=self._address.bracketed if is_loopback(host) else socket.gethostname(),
            retention=self._retention,
            first_password=self._first_password,
            first_project=FIRST_PROJECT,
        )
        app = create_app(settings, pod_access=pod_access)
        app.state.is_ready = lambda: (
            self._is_settled and self._cluster is not None and self._cluster.loop_thread.is_alive
        )
        return app

    @asynccontextmanager
    async def _sockets(
        self, app: Starlette, engine: LocalEngine, disk: DiskGuard, access: OwnerAccess
    ) -> AsyncIterator[Server]:
        """The server, with its Unix sockets open; it listens on HTTP when it is run."""
        _set_keepalive(self._listener)
        server = self._server = Server(
            RequestLog(app), timeout_graceful_shutdown=SHUTDOWN_S, timeout_keep_alive=KEEP_ALIVE_S
        )

        async def status(question: Mapping[str, Any]) -> Mapping[str, Any]:
            return self._status(engine, disk)

        handlers = {"status": status, "reset-password": access.reset_password, "welcome": access.welcome}
        files = self._data_directory
        admin = await open_admin_socket(files.admin_socket, handlers)
        event_loop = asyncio.get_running_loop()
        api = await event_loop.create_unix_server(server.own_connection, sock=private_socket(files.api_socket))
        try:
            yield server
        finally:
            for each, place in ((api, files.api_socket), (admin, files.admin_socket)):
                each.close()
                place.unlink(missing_ok=True)

    async def _serve_requests(self, server: Server, welcome: Callable[[], Any], on_ready: OnReady) -> None:
        with _signals(self._shut_down):
            serving = asyncio.create_task(server.serve([self._listener]), name="server")
            sweeping = asyncio.create_task(server.sweep(), name="sweep")
            try:
                while not serving.done() and not (server.started and self._is_settled):
                    await asyncio.sleep(0.01)
                if not serving.done():
                    log.info("ready at %s", self._address.url)
                    on_ready(await welcome())
                await serving
            finally:
                sweeping.cancel()

    @property
    def _is_settled(self) -> bool:
        return self._cluster is not None and self._cluster.is_settled

    def _shut_down(self) -> None:
        """On the first signal gracefully, on the second without waiting for requests."""
        assert self._server is not None
        log.info("server shutting down; running pods are not affected")
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = True

    def _step_down(self, why: str) -> None:
        self._stepped_down = why
        if self._server is not None:
            self._server.should_exit = True

    def _status(self, engine: LocalEngine, disk: DiskGuard) -> Mapping[str, Any]:
        """The answer to `fairpool status`."""
        assert self._cluster is not None
        loop_thread = self._cluster.loop_thread
        observation = loop_thread.loop.cache.observation
        states = [each.state.value for each in observation.pods.values()] if observation is not None else []
        return {
            "pid": os.getpid(),
            "version": __version__,
            "address": self._address.url,
            "since_ms": self._since,
            "is_ready": self._server is not None and self._server.started and self._is_settled,
            "loop": {
                "is_alive": loop_thread.is_alive,
                "trouble": loop_thread.trouble or engine.supervisor.trouble,
                "turns": loop_thread.turns,
                "turned_at_ms": loop_thread.turned_at,
                "turned_ago_s": loop_thread.turned_ago_s,
            },
            "nodes": [
                {
                    "name": each.node.name,
                    "gpus": each.node.gpus,
                    "withheld": list(each.node.gpus_withheld),
                    "words": each.message,
                    "is_simulated": each.node.labels.get(SIMULATED_LABEL) == "true",
                }
                for each in (observation.nodes.values() if observation is not None else ())
            ],
            "disk": disk.status,
            "pods": {state: states.count(state) for state in ("starting", "running", "exited")},
        }


def _event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # not available on every system
    except ImportError:
        return None
    return uvloop.new_event_loop


def _set_keepalive(listener: socket.socket) -> None:
    """Connections whose client is gone, or does not read, end after a while. Accepted sockets inherit this."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS), ("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15)):
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


@contextmanager
def _signals(shut_down: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    wanted = (signal.SIGINT, signal.SIGTERM)
    for each in wanted:
        loop.add_signal_handler(each, shut_down)
    try:
        yield
    finally:
        # From here on nothing takes long, and a signal must not interrupt it.
        for each in wanted:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_IGN)


def _in_command_words(problem: Problem) -> Problem:
    if problem.code != "access.first_password":
        return problem
    fix = "run `fairpool reset-password` and start again, or listen on 127.0.0.1 only"
    return Problem(problem.code, f"other machines can reach this address, and {problem.what}", fix)
