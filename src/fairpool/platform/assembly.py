"""The assembled platform: who is made in which order, and let go in which.

The control plane lives on the main thread's event loop. The cluster's loop turns in a thread of its own and talks to it
through the same two calls that a cluster elsewhere would make; only that they need no socket and no text. A third
thread waits for what is newly desired. Whoever ends first is whoever needs the others: the server, then the loop, then
the rest; each gets so much time and no more.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette

from fairpool import __version__
from fairpool.agent.disk_reserve import RESERVE_BYTES
from fairpool.agent.state_directory import UnknownInstallation
from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.ledger import DiskTrouble, LeaseHeld, Ledger, LedgerProblem
from fairpool.cluster.long_poll import LongPoll
from fairpool.cluster.loop import Loop
from fairpool.control import owner, projects, users
from fairpool.control.app import NotReady, create_app
from fairpool.control.clusters import cluster_beside
from fairpool.control.request_log import RequestLog
from fairpool.control.settings import FIRST_USER, Retention, Settings, is_loopback
from fairpool.control.store import condition
from fairpool.control.store.trouble import Unavailable
from fairpool.engines.local import LocalEngine
from fairpool.engines.port import EngineUnreachable
from fairpool.model.node import SIMULATED_LABEL
from fairpool.model.problem import Problem
from fairpool.platform.address import Address
from fairpool.platform.admin_socket import open_admin_socket, private_socket
from fairpool.platform.data_directory import DataDirectory, PlatformError, default_config, default_data
from fairpool.platform.disk_guard import DiskGuard
from fairpool.platform.http_server import Server
from fairpool.platform.in_process import InProcessControl
from fairpool.platform.local_pod_access import LocalPodAccess
from fairpool.platform.loop_thread import LoopThread, Waker, note_event, now
from fairpool.platform.node_set import NodeSet, summary

log = logging.getLogger("fairpool.up")

Welcome = Mapping[str, Any]

HOLDER = "fairpool up"
"""The same for every process on one data directory: the lock of the directory says that there is only one."""
ANSWERS_END_S = 2
"""How long those who are being answered may still be, when we leave: streams have no end of their own."""
REST_S = 75
"""How long a connection may rest. Much longer than clients let theirs (ours and many others: 5 s): else some
would call at the very moment at which we hang up, and be told nothing."""
UNHEARD_MS = 120_000
"""How long the kernel tries to reach a client that does not take what it is sent."""
FIRST_PROJECT = "demo"
LOOP_ENDS_S = 10.0
TELL_WITHIN_MS = 30
"""A process runs some 10 ms after it was ordered."""


@dataclass(slots=True)
class Cluster:
    """The loop with all that it needs, on this machine."""

    ledger: Ledger
    waker: Waker
    long_poll: LongPoll
    calls: tuple[InProcessControl, InProcessControl]
    loop_thread: LoopThread
    is_stuck: bool = False
    """Its thread is stuck: nothing that it may still use can be let go."""

    def start(self) -> None:
        self.long_poll.open()
        self.loop_thread.start()

    def stop(self) -> None:
        """Let the pods run on, and everything else go. Blocks; the control plane must still be there meanwhile."""
        direct, waiting = self.calls
        waiting.close()  # ends the question that is held
        if not self.loop_thread.stop(LOOP_ENDS_S):
            log.error("the scheduling loop did not finish within %g s; exiting without it", LOOP_ENDS_S)
            self.is_stuck = True
            return
        self.long_poll.close(LOOP_ENDS_S)
        direct.close()
        self.ledger.close()
        self.waker.close()


class Platform:
    """Control plane, loop and local engine, from one start to the next."""

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
        self._data_directory, self._address, self._listener, self._node_set = (
            data_directory,
            address,
            listener,
            node_set,
        )
        self._retention, self._names, self._first_password = retention, tuple(names), first_password
        self._disk_reserve_bytes = disk_reserve_bytes
        self._disk: DiskGuard | None = None
        self._not_isolated = ""
        """Why pods could use what is the owner's, if so."""
        self._since = now()
        self._stepped_down = ""
        self._server: Server | None = None
        self._app: Starlette | None = None
        self._cluster: Cluster | None = None
        self._engine: LocalEngine | None = None

    def run(self, on_ready: Callable[[Welcome | Problem], None], question: Mapping[str, Any]) -> None:
        """Until a signal comes. `on_ready` is called with the answer to the question for a welcome.

        Raises `PlatformError` if it cannot be started, or another loop has taken over.
        """
        try:
            import uvloop
        except ImportError:
            factory = None
        else:
            factory = uvloop.new_event_loop
        try:
            with asyncio.Runner(loop_factory=factory) as event_loop:
                event_loop.run(self._serve(on_ready, question))
        except Unavailable as error:
            raise PlatformError(Problem(error.code, str(error), error.problem.fix)) from error
        except (NotReady, LedgerProblem, DiskTrouble, UnknownInstallation) as error:
            raise PlatformError(_in_command_words(error.problem)) from error
        except (LeaseHeld, EngineUnreachable) as error:
            what = f"the scheduling loop cannot start: {error}"
            raise PlatformError(
                Problem("up.loop", what, "check whether another Fairpool uses a copy of this data directory")
            ) from error
        if self._stepped_down:
            raise PlatformError(
                Problem("up.stepped_down", self._stepped_down, "run only one Fairpool per data directory")
            )

    async def _serve(self, on_ready: Callable[[Welcome | Problem], None], question: Mapping[str, Any]) -> None:
        log.info(
            "server starting",
            extra={
                "fields": {
                    "version": __version__,
                    "pid": os.getpid(),
                    "address": self._address.url,
                    "data": self._data_directory.root,
                    "nodes": summary(self._node_set.nodes),
                }
            },
        )
        kept = condition.keep_if_older(self._data_directory.control)
        if kept is not None:
            log.info("database migrated; the previous version is kept in %s", kept)
        engine = self._engine = LocalEngine(
            self._data_directory.machine,
            nodes=self._node_set.nodes,
            protected=(self._data_directory.root, default_config(), default_data()),
        )
        self._not_isolated = engine.supervisor.unavailable.get("isolation", "")
        pod_access = LocalPodAccess(engine.supervisor)
        disk = self._disk = DiskGuard(self._data_directory.reserve, self._disk_reserve_bytes, engine.supervisor)
        host = self._address.host
        # A pod is a process of this machine, and its ports are the machine's own.
        shown = self._address.bracketed if is_loopback(host) else socket.gethostname()
        settings = Settings(
            data=self._data_directory.root,
            host=host,
            host_names=self._names,
            pod_host=shown,
            retention=self._retention,
            first_password=self._first_password,
            first_project=FIRST_PROJECT,
        )
        app = self._app = create_app(settings, pod_access=pod_access)
        app.state.is_ready = lambda: (
            self._is_settled and self._cluster is not None and self._cluster.loop_thread.is_alive
        )
        try:
            async with app.router.lifespan_context(app), self._cluster_of(app, engine) as self._cluster:
                disk.start()
                gc.collect()
                gc.freeze()  # what was loaded lives as long as we do; looking through it again is waste
                await self._answer_people(app, on_ready, question)
        finally:
            disk.stop(LOOP_ENDS_S)
            pod_access.close()
            if self._cluster is None or not self._cluster.is_stuck:
                engine.close()  # pods run on

    @asynccontextmanager
    async def _cluster_of(self, app: Starlette, engine: LocalEngine) -> AsyncIterator[Cluster]:
        own = await cluster_beside(app.state.plane)
        home = asyncio.get_running_loop()
        direct, waiting = (InProcessControl(app.state.plane, own.uuid, home) for _ in range(2))
        waker = Waker(engine.supervisor.wake_descriptors())
        long_poll = LongPoll(direct, waiting, waker.wake)
        ledger = await asyncio.to_thread(Ledger, self._data_directory.ledger)

        def make_loop() -> Loop:
            link = ControlLink(long_poll, own.name)
            return Loop(ledger, engine, link, now, holder=HOLDER, report_delay_ms=TELL_WITHIN_MS, on_event=note_event)

        def step_down(why: str) -> None:
            home.call_soon_threadsafe(self._step_down, why)

        loop_thread = await asyncio.to_thread(LoopThread, make_loop, waker, step_down)
        cluster = Cluster(ledger, waker, long_poll, (direct, waiting), loop_thread)
        cluster.start()
        try:
            yield cluster
        finally:
            await asyncio.to_thread(cluster.stop)

    async def _answer_people(
        self, app: Starlette, on_ready: Callable[[Welcome | Problem], None], question: Mapping[str, Any]
    ) -> None:
        server = self._server = Server(
            RequestLog(app), timeout_graceful_shutdown=ANSWERS_END_S, timeout_keep_alive=REST_S
        )
        _set_keepalive(self._listener)
        handlers = {
            "status": self._handle_status,
            "reset-password": self._handle_reset_password,
            "welcome": self._handle_welcome,
        }
        admin_socket = await open_admin_socket(self._data_directory.admin_socket, handlers)
        home = asyncio.get_running_loop()
        own = await home.create_unix_server(server.own_connection, sock=private_socket(self._data_directory.api_socket))
        with _signals(self._leave):
            serving = asyncio.create_task(server.serve([self._listener]), name="server")
            sweeping = asyncio.create_task(server.sweep(), name="sweep")
            try:
                while not serving.done() and not (server.started and self._is_settled):
                    await asyncio.sleep(0.01)
                if not serving.done():
                    log.info("ready at %s", self._address.url)
                    on_ready(await self._handle_welcome(question))
                await serving
            finally:
                sweeping.cancel()
                for each, place in (
                    (own, self._data_directory.api_socket),
                    (admin_socket, self._data_directory.admin_socket),
                ):
                    each.close()
                    place.unlink(missing_ok=True)

    @property
    def _is_settled(self) -> bool:
        return self._cluster is not None and self._cluster.loop_thread.is_settled.is_set()

    def _leave(self) -> None:
        """Asked once: in good order. Asked twice: without waiting for those who are being answered."""
        assert self._server is not None
        log.info("server shutting down; running pods are not affected")
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = True

    def _step_down(self, why: str) -> None:
        self._stepped_down = why
        if self._server is not None:
            self._server.should_exit = True

    # --- at the admin socket ---------------------------------------------------------------------------------------

    async def _handle_status(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        assert self._cluster is not None
        assert self._engine is not None
        loop_thread = self._cluster.loop_thread
        observation = loop_thread.loop.cache.observation
        states = [each.state.value for each in observation.pods.values()] if observation is not None else []
        observed_pods = observation.nodes.values() if observation is not None else ()
        return {
            "pid": os.getpid(),
            "version": __version__,
            "address": self._address.url,
            "since_ms": self._since,
            "is_ready": self._server is not None and self._server.started and self._is_settled,
            "loop": {
                "is_alive": loop_thread.is_alive,
                "trouble": loop_thread.trouble or self._engine.supervisor.trouble,
                "turns": loop_thread.turns,
                "turned_at_ms": loop_thread.turned_at,
                "turned_ago_s": loop_thread.turned_ago_s,
            },
            "nodes": [
                {
                    "name": observed.node.name,
                    "gpus": observed.node.gpus,
                    "withheld": list(observed.node.gpus_withheld),
                    "words": observed.message,
                    "is_simulated": observed.node.labels.get(SIMULATED_LABEL) == "true",
                }
                for observed in observed_pods
            ],
            "disk": self._disk.status if self._disk is not None else None,
            "pods": {state: states.count(state) for state in ("starting", "running", "exited")},
        }

    async def _handle_reset_password(self, question: Mapping[str, Any]) -> Mapping[str, Any] | Problem:
        assert self._app is not None
        if self._not_isolated:
            return self._not_for_pods("reset the password while the server is stopped: fairpool down")
        try:
            return await new_password(self._app, str(question.get("user") or FIRST_USER))
        except Unavailable as error:
            return error.problem

    def _not_for_pods(self, fix: str) -> Problem:
        """Pods that run as our user could ask here as well."""
        what = f"pods are not isolated from your account on this machine ({self._not_isolated})"
        return Problem("access.not_isolated", what, fix)

    async def _handle_welcome(self, question: Mapping[str, Any]) -> Welcome | Problem:
        """The owner signed in, a link for the browser, and the project that `runai` uses by default."""
        assert self._app is not None
        if self._not_isolated:
            fix = f"start it with --first-password-file, then `runai login --user {FIRST_USER}`"
            return self._not_for_pods(fix)
        if not question:
            return {}
        plane = self._app.state.plane
        session = await owner.owner_session(plane, [str(each) for each in question.get("holding", ())])
        link = await owner.new_link(plane, self._app.state.links)
        for each in (session, link):
            if isinstance(each, Problem):
                return each
        assert isinstance(session, owner.OwnerSession)
        names = [str(question.get("project", "")), FIRST_PROJECT]
        return {
            "user": session.user,
            "must_change_password": session.must_change_password,
            "first_password_ignored": self._app.state.first_password_ignored,
            "tokens": session.tokens.model_dump() if session.tokens is not None else None,
            "link": link,
            "project": await plane.read(lambda connection: projects.first_of(connection, names)),
        }


async def new_password(app: Starlette, user: str) -> Mapping[str, Any] | Problem:
    """A password for somebody who lost theirs."""
    made = await users.give_new_password(app.state.plane, app.state.passwords, user)
    return made if isinstance(made, Problem) else {"user": user, "password": made}


def new_password_offline(data_directory: DataDirectory, user: str) -> Mapping[str, Any] | Problem:
    """The same while nothing runs on the directory."""

    async def give() -> Mapping[str, Any] | Problem:
        app = create_app(Settings(data=data_directory.root))
        async with app.router.lifespan_context(app):
            return await new_password(app, user)

    try:
        return asyncio.run(give())
    except Unavailable as error:
        return Problem(error.code, str(error), error.problem.fix)


def _set_keepalive(listener: socket.socket) -> None:
    """Connections whose client is gone, or does not read, end after a while. Accepted sockets inherit this."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_USER_TIMEOUT", UNHEARD_MS), ("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15)):
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


@contextmanager
def _signals(leave: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    wanted = (signal.SIGINT, signal.SIGTERM)
    for each in wanted:
        loop.add_signal_handler(each, leave)
    try:
        yield
    finally:
        # From here on nothing takes long, and a signal must not cut it short.
        for each in wanted:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_IGN)


def _in_command_words(problem: Problem) -> Problem:
    if problem.code != "access.first_password":
        return problem
    fix = "run `fairpool reset-password` and start again, or listen on 127.0.0.1 only"
    return Problem(problem.code, f"other machines can reach this address, and {problem.what}", fix)
