"""Reads the leases of agents on nodes now and then, for the decision in `node_leases`.

They are listed instead of watched: a watch would bring a thousand events a second from 10 000 nodes, and nothing about
a lease is of interest until its node is silent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import msgspec

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.failures import KubernetesError
from fairpool.engines.kubernetes.node_leases import AGENT_LABEL, AgentLease, NodeLeases, lease_name
from fairpool.engines.kubernetes.pod_reading import moment
from fairpool.engines.kubernetes.resources import LEASES, ObjectMetadata
from fairpool.model.ids import Instant, NodeName

log = logging.getLogger("fairpool.cluster")

PARTS = 20
"""How often leases are read in the time after which a node is gone."""


class LeaseSpec(msgspec.Struct, rename="camel", gc=False):
    """What the agent has written."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class LeaseObject(msgspec.Struct, gc=False):
    """The lease of an agent."""

    metadata: ObjectMetadata = msgspec.field(default_factory=ObjectMetadata)
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class NodeLeasePoll:
    """Belongs to the engine's event loop."""

    def __init__(
        self,
        client: KubernetesClient,
        namespace: str,
        gone_after_s: float,
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        """`clock`: one that is never set. `on_change` is called when a silent node may be gone."""
        self._client, self._namespace, self._clock, self._on_change = client, namespace, clock, on_change
        self._leases = NodeLeases(gone_after_s)
        self._error = ""

    def gone(self, silent: Mapping[NodeName, Instant]) -> frozenset[NodeName]:
        """Which of the nodes with a silent kubelet are gone."""
        return self._leases.gone(silent, self._clock())

    async def run(self) -> None:
        """Read them until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(self._leases.gone_after_s / PARTS)

    async def _look(self) -> None:
        try:
            found = await self._client.list(LEASES, LeaseObject, namespace=self._namespace, labels=AGENT_LABEL)
        except KubernetesError as error:
            if str(error) != self._error:
                log.warning("the leases of agents on nodes cannot be read: %s", error)
            self._error = str(error)
            return
        self._error = ""
        self._leases.look(read_leases(found.items), self._clock())
        if self._leases.has_silences:
            self._on_change()


def read_leases(found: Iterable[LeaseObject]) -> dict[NodeName, AgentLease]:
    """By node. One under another name than its holder's is of no node."""
    return {
        NodeName(holder): AgentLease(
            renewed=each.spec.renew_time or "",
            renewed_at=_instant(each.spec.renew_time or ""),
            fences_after_s=each.spec.lease_duration_seconds or 0,
        )
        for each in found
        if (holder := each.spec.holder_identity or "") and each.metadata.name == lease_name(holder)
    }


def _instant(text: str) -> Instant | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment(found) if found.tzinfo is not None else None
