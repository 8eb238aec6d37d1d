"""Tombstones on Kubernetes: pods that are over and must not start again, in a ring of config maps.

A pod object is its own tombstone until it is deleted. After that, and for pods that were stopped before they were
created, the id is in one of these config maps. Not for ever: a full one is followed by the next, which is emptied, so
that the latest thousands are known. One call records all pods of a batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.failures import AlreadyExists, NotFound
from fairpool.engines.kubernetes.fence import ConfigMap
from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY
from fairpool.engines.kubernetes.objects import label_value
from fairpool.engines.kubernetes.resources import CONFIG_MAPS
from fairpool.model.ids import PodId

LABEL = "fairpool.io/ended-pods"
NAME = "fairpool-ended-{}"
TURN = "_turn"
"""The key that numbers the config maps in the order in which they were begun."""
COUNT = 32
EACH = 500
OVER = "this pod has ended, or was stopped before it was started"


class EndedPods:
    """Which pods are over. For the one loop that leads."""

    def __init__(self, client: KubernetesClient, namespace: str, *, count: int = COUNT, each: int = EACH) -> None:
        self._client, self._namespace, self._count, self._each = client, namespace, count, each
        self._pods: dict[int, set[str]] = {}
        self._turn = 0
        """Of the config map that is being filled; its place in the ring follows from it."""

    def __contains__(self, pod: PodId) -> bool:
        key = label_value(pod)
        return any(key in pods for pods in self._pods.values())

    async def load(self) -> None:
        """Read what earlier loops have recorded."""
        found = await self._client.list(CONFIG_MAPS, ConfigMap, namespace=self._namespace, labels=LABEL)
        self._pods, self._turn = {}, 0
        for each in found.items:
            data = dict(each.data or {})
            turn = data.pop(TURN, "")
            if turn.isascii() and turn.isdigit():
                self._pods[int(turn)] = set(data)
        self._turn = max(self._pods, default=0)

    async def add(self, pods: Collection[PodId]) -> None:
        """Record these; when it returns, a crash does not lose them."""
        new = [key for key in map(label_value, pods) if not any(key in each for each in self._pods.values())]
        for first in range(0, len(new), self._each):
            await self._append(new[first : first + self._each])

    async def _append(self, keys: list[str]) -> None:
        kept = self._pods.get(self._turn)
        if kept is None or len(kept) + len(keys) > self._each:
            await self._begin(self._turn + 1, keys)
            return
        body = {"data": dict.fromkeys(keys, "")}
        try:
            await self._client.patch(CONFIG_MAPS, self._name(self._turn), body, namespace=self._namespace)
        except NotFound:
            await self._begin(self._turn, [*kept, *keys])
        kept.update(keys)

    async def _begin(self, turn: int, keys: Iterable[str]) -> None:
        name, keys = self._name(turn), set(keys)
        metadata = {"name": name, "labels": {MANAGED_BY: FAIRPOOL, LABEL: "true"}}
        body = {"metadata": metadata, "data": {**dict.fromkeys(keys, ""), TURN: str(turn)}}
        try:
            await self._client.create(CONFIG_MAPS, body, namespace=self._namespace)
        except AlreadyExists:
            await self._client.replace(CONFIG_MAPS, name, body, ConfigMap, namespace=self._namespace)
        self._pods[turn], self._turn = keys, turn
        self._pods.pop(turn - self._count, None)

    def _name(self, turn: int) -> str:
        return NAME.format(turn % self._count)
