"""The process of `fairpool cluster`: a cluster of pods, on this machine or on Kubernetes, that joins a control plane.

1. health endpoints and admin socket, so that it can be seen what it waits for
2. the first contact: which cluster the token belongs to
3. where there are several replicas: the election of the one that leads; the others wait
4. the engine, which adopts pods that run already, and the scheduling loop
5. the tunnel, through which the control plane reaches pods

While the control plane is away, pods are scheduled by what was last declared. A cluster that never joined waits for it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fairpool import __version__
from fairpool.api.clusters import ControlPlaneUnreachable
from fairpool.api.exposition import encoded, process_registry
from fairpool.cluster.ledger import LedgerUnavailable
from fairpool.engines.port import EngineUnreachable
from fairpool.platform.address import Address
from fairpool.platform.admin_socket import open_admin_socket
from fairpool.platform.cluster_site import ClusterSite, SiteUnreachable
from fairpool.platform.data_directory import DataDirectory, PlatformError
from fairpool.platform.health_server import health_server
from fairpool.platform.loop_cluster import ControlPeer, LoopCluster
from fairpool.platform.loop_figures import LoopFigures
from fairpool.platform.remote_control import ControlTarget, Membership, RemoteControl, joined
from fairpool.platform.server_process import keep_what_is_loaded, on_signals, run_server, stepped_down
from fairpool.platform.tunnel_client import TunnelClient

log = logging.getLogger("fairpool.cluster")

HOLDER = "fairpool cluster"
REFUSALS = ("control.token", "cluster.joined")
"""What a cluster that has joined does not go on without: its token is no longer its own."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 10.0
"""Between two attempts to reach the control plane for the first time."""
LOOK_S = 0.02
TUNNEL_STOP_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """What an administrator chooses for a cluster."""

    target: ControlTarget
    health: Address
    site: ClusterSite
    metrics: socket.socket | None = None
    """Where everything that Prometheus may have is served without credentials; None: nowhere."""


class ClusterProgram:
    """A cluster in a process of its own."""

    def __init__(self, data_directory: DataDirectory, options: ClusterOptions, health: socket.socket) -> None:
        self._data_directory, self._options, self._health = data_directory, options, health
        self._since_ms = time.time_ns() // 1_000_000
        self._stopping = asyncio.Event()
        self._tunnel: TunnelClient | None = None
        self._waiting_for = ""
        """Why the control plane cannot be joined yet."""
        self._member: Membership | None = None
        self._cluster: LoopCluster | None = None
        self._stepped_down = ""
        self._replaced = asyncio.Event()
        self._is_announced = False
        self._figures = LoopFigures(process_registry("cluster"))

    def run(self, on_joined: Callable[[Membership], None], on_waiting: Callable[[str], None]) -> None:
        """Run until a signal comes. `on_joined` is called when it is ready, `on_waiting` with what it waits for.

        Raises `PlatformError` if it cannot be started, or another loop has taken over.
        """
        run_server(self._serve(on_joined, on_waiting))
        if self._stepped_down:
            raise stepped_down(self._stepped_down)

    async def _serve(self, on_joined: Callable[[Membership], None], on_waiting: Callable[[str], None]) -> None:
        self._log_start()
        async with AsyncExitStack() as stack:
            stack.enter_context(on_signals(self._shut_down))
            await stack.enter_async_context(self._sockets())
            member = await self._join(on_waiting)
            if member is None:
                return
            await stack.enter_async_context(self._options.site.election())
            announcing = asyncio.create_task(self._announce(member, on_joined))
            stack.callback(announcing.cancel)
            while not self._stopping.is_set():
                if await self._unless_stopping(self._options.site.until_leading()):
                    await self._lead(member)

    async def _lead(self, member: Membership) -> None:
        """Schedule until the process is to stop, or another replica leads."""
        try:
            self._replaced.clear()
            async with self._scheduling(member):
                await self._unless_stopping(self._until_replaced())
            if not self._stopping.is_set():
                log.warning("another replica leads", extra={"fields": {"leader": self._options.site.leader}})
                await self._pause(LONGEST_WAIT_S if self._replaced.is_set() else 0.0)
        except (LedgerUnavailable, EngineUnreachable) as error:
            if not self._is_announced:
                raise
            log.warning("the scheduling loop cannot start yet: %s", error)
            await self._pause(FIRST_WAIT_S)
        finally:
            self._cluster = self._tunnel = None

    async def _until_replaced(self) -> None:
        """By the election, or by a loop that has taken the ledger or the fence over."""
        waiting = [asyncio.create_task(each) for each in (self._options.site.until_replaced(), self._replaced.wait())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()

    @asynccontextmanager
    async def _scheduling(self, member: Membership) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            site = self._options.site
            cluster = await asyncio.to_thread(site.cluster, self._data_directory, member, self._figures)
            stack.push_async_callback(asyncio.to_thread, cluster.close)
            connect = partial(RemoteControl, self._options.target, member, self._on_return)
            peer = ControlPeer(cluster=member.name, connect=connect)
            await stack.enter_async_context(cluster.scheduling(peer, HOLDER, self._step_down))
            self._cluster = cluster
            stack.callback(self._open_tunnel(cluster).stop, TUNNEL_STOP_S)
            if not self._is_announced:
                keep_what_is_loaded()
            yield

    async def _announce(self, member: Membership, on_joined: Callable[[Membership], None]) -> None:
        """Say so when it is ready: to schedule, or to take over."""
        while self._why_not_ready():
            await asyncio.sleep(LOOK_S)
        log.info("ready", extra={"fields": {"cluster": member.name, "control": self._options.target.url}})
        self._is_announced = True
        on_joined(member)

    async def _unless_stopping(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether it was done before the process is to stop."""
        stopping, working = asyncio.create_task(self._stopping.wait()), asyncio.create_task(work)
        try:
            await asyncio.wait((stopping, working), return_when=asyncio.FIRST_COMPLETED)
            return working.done() and not self._stopping.is_set()
        finally:
            stopping.cancel()
            working.cancel()

    def _open_tunnel(self, cluster: LoopCluster) -> TunnelClient:
        target = self._options.target
        ends = cluster.pod_access, cluster.questions
        tunnel = self._tunnel = TunnelClient(
            target.url, target.token, *ends, ssl_context=target.certificates, on_end=cluster.end_access
        )
        tunnel.start()
        return tunnel

    def _on_return(self) -> None:
        """The control plane answers again: the tunnel need not wait for its next try."""
        if self._tunnel is not None:
            self._tunnel.connect_soon()

    def _log_start(self) -> None:
        fields = {
            "version": __version__,
            "pid": os.getpid(),
            "control": self._options.target.url,
            "data": self._data_directory.root,
            "nodes": self._options.site.summary,
        }
        log.info("cluster starting", extra={"fields": fields})

    @asynccontextmanager
    async def _sockets(self) -> AsyncIterator[None]:
        async def status(question: Mapping[str, Any]) -> Mapping[str, Any]:
            return self._status()

        place, opened = self._data_directory.admin_socket, self._options.metrics
        admin = await open_admin_socket(place, {"status": status})
        try:
            async with AsyncExitStack() as stack:
                health = health_server(self._health, self._why_not_ready, partial(self._series, None))
                await stack.enter_async_context(health)
                if opened is not None:
                    everything = health_server(opened, self._why_not_ready, partial(self._series, lambda _: True))
                    await stack.enter_async_context(everything)
                yield
        finally:
            admin.close()
            place.unlink(missing_ok=True)

    # --- the first contact ---

    async def _join(self, on_waiting: Callable[[str], None]) -> Membership | None:
        """The cluster that this is; None: it was stopped before that was known. Raises `PlatformError`."""
        installation = await self._installation(on_waiting)
        if installation is None:
            return None
        known = Membership.of(self._data_directory)
        known = self._member = replace(known, installation=installation or known.installation)
        has_joined = known.id != ""
        wait_s = FIRST_WAIT_S
        while not self._stopping.is_set():
            try:
                member = await self._ask(known)
            except ControlPlaneUnreachable as error:
                if error.problem is not None and (not has_joined or error.problem.code in REFUSALS):
                    raise PlatformError(error.problem) from error
                if has_joined:
                    log.warning("control plane unreachable; starting with what it last declared: %s", error)
                    return known
                wait_s = await self._wait_for("the control plane", str(error), on_waiting, wait_s)
            else:
                return self._joined(known, member)
        return None

    async def _installation(self, on_waiting: Callable[[str], None]) -> str | None:
        """None: it was stopped before that was known. Raises `PlatformError`."""
        wait_s = FIRST_WAIT_S
        while not self._stopping.is_set():
            try:
                return await self._options.site.installation()
            except SiteUnreachable as error:
                wait_s = await self._wait_for("the Kubernetes API server", str(error), on_waiting, wait_s)
        return None

    async def _wait_for(self, what: str, why: str, on_waiting: Callable[[str], None], wait_s: float) -> float:
        """Say what is waited for, and wait; returns how long the next wait is."""
        gc.enable()  # which was put off until it is ready (`server_start.py`): that may take days
        words = f"{what}, which cannot be reached yet: {why}"
        if words != self._waiting_for:
            log.warning("waiting for %s", words)
            on_waiting(words)
        self._waiting_for = words
        return await self._pause(wait_s)

    async def _ask(self, known: Membership) -> Membership:
        """On a thread, and given up when the process is to stop."""
        client = self._options.target.client()
        stopping = asyncio.create_task(self._stopping.wait())
        asking = asyncio.create_task(asyncio.to_thread(joined, client, known))
        try:
            await asyncio.wait((stopping, asking), return_when=asyncio.FIRST_COMPLETED)
            client.close()
            return await asking
        finally:
            stopping.cancel()

    async def _pause(self, wait_s: float) -> float:
        """Until the next attempt; returns how long the one after that is."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), wait_s)
        return min(2 * wait_s, LONGEST_WAIT_S)

    def _joined(self, known: Membership, member: Membership) -> Membership:
        problem = known.problem_with(member)
        if problem is not None:
            raise PlatformError(problem)
        if member != known:
            member.keep(self._data_directory)
            log.info("joined the control plane", extra={"fields": {"cluster": member.name, "id": member.id}})
        self._member, self._waiting_for = member, ""
        return member

    # --- the end ---

    def _shut_down(self) -> None:
        log.info("cluster shutting down; running pods are not affected")
        self._stopping.set()

    def _step_down(self, why: str) -> None:
        if self._options.site.has_replicas:
            self._replaced.set()
            return
        self._stepped_down = why
        self._stopping.set()

    # --- looking ---

    async def _series(self, jobs: Callable[[str], bool] | None, packs: bool) -> bytes:
        """For Prometheus. The health address shows no names: it needs no credentials."""

        def text() -> bytes:
            if self._cluster is None:
                return encoded([self._figures.text], packs=packs)
            member = self._member.id if self._member is not None else ""
            return encoded([self._cluster.series(True, jobs, member)], packs=packs)

        return await asyncio.to_thread(text)

    def _why_not_ready(self) -> str:
        if self._cluster is not None:
            return "" if self._cluster.is_ready else "the scheduling loop has not settled"
        if self._options.site.leader:
            return ""  # this one is ready to take over
        return f"waiting for {self._waiting_for.partition(',')[0]}" if self._waiting_for else "starting"

    def _status(self) -> Mapping[str, Any]:
        """The answer to `fairpool status`."""
        return {
            "pid": os.getpid(),
            "version": __version__,
            "address": self._options.target.url,
            "health": self._options.health.url,
            "cluster": self._member.name if self._member is not None else "",
            "waiting_for": self._waiting_for,
            "since_ms": self._since_ms,
            "is_ready": not self._why_not_ready(),
            **self._options.site.status(),
            **(self._cluster.status() if self._cluster is not None else {}),
        }
