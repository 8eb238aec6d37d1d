"""Which replica of a cluster leads: keeps the Lease object `fairpool-loop`, or waits until it can be taken.

`engines/kubernetes/leadership.py` decides; the requests are made here, in a task of the program's event loop. The
scheduling loop runs in the leader only, and its engine (`LeasedEngine`) refuses calls as soon as the lease may have
expired. If the API server does not answer for a while, the leader stops acting, and goes on when it could renew the
lease: unless another replica was seen to hold it, none has led meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.credentials import ApiServer
from fairpool.engines.kubernetes.failures import AlreadyExists, Conflict, KubernetesError, NotFound
from fairpool.engines.kubernetes.leadership import RETRY_S, Leadership, LeaseRecord
from fairpool.engines.kubernetes.resources import LEASES
from fairpool.engines.port import Engine, EngineUnreachable
from fairpool.model.ids import Token
from fairpool.model.observation import Observation, Order, OrderResult

log = logging.getLogger("fairpool.cluster")

NAME = "fairpool-loop"
CALL_S = 5.0
"""How long one request may take: a leader must notice in time that it cannot renew its lease."""


def steady_s() -> float:
    """A clock that is never set; it goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaderElection:
    """One replica's part in the election. `run` belongs to one event loop; `leads` may be asked by any thread."""

    def __init__(
        self,
        server: ApiServer,
        namespace: str,
        identity: str,
        *,
        name: str = NAME,
        clock: Callable[[], float] = steady_s,
        retry_s: float = RETRY_S,
    ) -> None:
        self._server, self._namespace, self._name = server, namespace, name
        self._clock, self._retry_s = clock, retry_s
        self._state = Leadership(identity)
        self._version = ""
        """The resource version of the object that was seen last: what is written replaces that one, or nothing."""
        self._changed = asyncio.Condition()
        self.error = ""
        """Why the lease can be neither read nor written; empty while it can."""

    @property
    def leads(self) -> bool:
        return self._state.leads(self._clock())

    @property
    def is_other(self) -> bool:
        """Whether another replica was seen to hold the lease."""
        return self._state.is_other

    @property
    def leader(self) -> str:
        """The identity of the replica that holds the lease, as far as is known."""
        return self._state.seen.holder if self._state.seen is not None else ""

    async def run(self) -> None:
        """Try to lead until cancelled; then the lease is released."""
        async with KubernetesClient(self._server, timeout_s=CALL_S, attempts=1) as client:
            try:
                while True:
                    await self._attempt(client)
                    async with self._changed:
                        self._changed.notify_all()
                    await asyncio.sleep(self._retry_s)
            finally:
                await self._release(client)

    async def until_leading(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.leads)

    async def until_replaced(self) -> None:
        """Until another replica leads."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.is_other)

    async def _attempt(self, client: KubernetesClient) -> None:
        """Read the lease, and acquire or renew it if it is free or our own."""
        before = self.leader
        try:
            await self._look(client)
            await self._claim(client)
        except KubernetesError as error:
            if str(error) != self.error:
                log.warning("the lease %s/%s cannot be renewed: %s", self._namespace, self._name, error)
            self.error = str(error)
        except Exception as error:  # a bug: the next attempt may succeed, and without one another replica leads
            log.exception("the lease could not be renewed")
            self.error = f"the lease could not be renewed: {type(error).__name__} {error}".rstrip()
        else:
            self.error = ""
        if self.leader != before:
            log.info("leader elected", extra={"fields": {"leader": self.leader or "none", "before": before or None}})

    async def _look(self, client: KubernetesClient) -> None:
        found, version = None, ""
        try:
            body = await client.get(LEASES, self._name, dict, namespace=self._namespace)
        except NotFound:
            pass
        else:
            found, version = record_of(body), str(body["metadata"]["resourceVersion"])
        self._state, self._version = self._state.look(found, self._clock()), version

    async def _claim(self, client: KubernetesClient) -> None:
        sent_at_s = self._clock()
        claim = self._state.claim(sent_at_s, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        if claim is None:
            return
        try:
            await self._write(client, claim)
        except (Conflict, AlreadyExists):
            return  # another replica was faster: it is seen in the next attempt
        self._state = self._state.written(claim, sent_at_s, self._clock())

    async def _write(self, client: KubernetesClient, record: LeaseRecord) -> None:
        body = manifest(self._namespace, self._name, record, self._version)
        if self._version:
            answer = await client.replace(LEASES, self._name, body, dict, namespace=self._namespace)
        else:
            answer = await client.create(LEASES, body, dict, namespace=self._namespace)
        self._version = str(answer["metadata"]["resourceVersion"])

    async def _release(self, client: KubernetesClient) -> None:
        released = self._state.release()
        self._state = Leadership(self._state.identity)
        if released is not None:
            try:
                await self._write(client, released)
            except KubernetesError as error:
                log.warning("the lease was not released; it expires by itself: %s", error)


class LeasedEngine:
    """An engine that is used only while this replica leads."""

    def __init__(self, engine: Engine, leads: Callable[[], bool]) -> None:
        self._engine, self._leads = engine, leads

    def observe(self, token: Token) -> Observation:
        self._check()
        return self._engine.observe(token)

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        self._check()
        return self._engine.carry_out(orders, token)

    def wait(self, timeout_s: float) -> None:
        self._engine.wait(timeout_s)

    def wake(self) -> None:
        self._engine.wake()

    def _check(self) -> None:
        if not self._leads():
            raise EngineUnreachable("the lease of this replica could not be renewed: another one may lead by now")


def record_of(body: dict[str, Any]) -> LeaseRecord:
    """The content of a Lease object; fields that are missing have their defaults."""
    spec = body.get("spec") or {}
    return LeaseRecord(
        holder=spec.get("holderIdentity") or "",
        duration_s=spec.get("leaseDurationSeconds") or 0,
        acquired_at=spec.get("acquireTime") or "",
        renewed_at=spec.get("renewTime") or "",
        transitions=spec.get("leaseTransitions") or 0,
    )


def manifest(namespace: str, name: str, record: LeaseRecord, version: str) -> dict[str, Any]:
    """The Lease object with this content, in place of the one with that resource version; empty: a new one."""
    metadata = {"namespace": namespace, "name": name, "labels": {"app.kubernetes.io/managed-by": "fairpool"}}
    return {
        "apiVersion": LEASES.api_version,
        "kind": "Lease",
        "metadata": {**metadata, **({"resourceVersion": version} if version else {})},
        "spec": {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": record.duration_s,
            "acquireTime": record.acquired_at,
            "renewTime": record.renewed_at,
            "leaseTransitions": record.transitions,
        },
    }
