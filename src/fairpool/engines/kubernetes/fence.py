"""The fencing token of a cluster, in a config map: loops that have been replaced are refused.

The API server does not check tokens itself. Each engine checks before it acts what it last heard of the config map, and
removes pods that an older loop created meanwhile (`cluster_cache`).
"""

from __future__ import annotations

import msgspec

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.failures import AlreadyExists, Conflict, NotFound
from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY
from fairpool.engines.kubernetes.resources import CONFIG_MAPS, NAMESPACES, ObjectMetadata
from fairpool.engines.port import EngineUnreachable, Fenced
from fairpool.model.ids import Token

NAME = "fairpool-engine"
KEY = "token"
ATTEMPTS = 10


class ConfigMap(msgspec.Struct, gc=False):
    """A config map."""

    metadata: ObjectMetadata = msgspec.field(default_factory=ObjectMetadata)
    data: dict[str, str] | None = None


class Fence:
    """The highest token that any loop of this cluster has shown."""

    def __init__(self, client: KubernetesClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self.highest = Token(0)
        self.own = Token(0)
        """That of the loop for which this engine acts."""
        self.is_missing = False
        """The config map was deleted by hand: it has to be written again."""

    def check(self, token: Token) -> None:
        """Raises `Fenced` for a token that is lower than the highest one known."""
        if token < self.highest:
            raise Fenced(self.highest, token)

    def heard(self, found: ConfigMap) -> None:
        """What a watch of the config map says."""
        token = token_in(found)
        self.highest = max(self.highest, token)
        self.is_missing = token < self.own  # written by a loop that was replaced, or in a backup that was restored

    async def claim(self, token: Token) -> None:
        """Show a token: from now on, lower ones are refused everywhere."""
        for _ in range(ATTEMPTS):
            self.check(token)
            try:
                await self._write(token)
            except (Conflict, AlreadyExists):
                continue  # another loop was faster: read again
            self.highest, self.own, self.is_missing = token, token, False
            return
        raise EngineUnreachable("other loops are changing the fencing token all the time")

    async def confirm(self) -> None:
        """Ask the API server whether the loop of this engine still leads. Raises `Fenced`, or `EngineUnreachable` if
        that cannot be said."""
        own = self.own
        self.check(own)
        try:
            found = await self._client.get(CONFIG_MAPS, NAME, ConfigMap, namespace=self._namespace)
        except NotFound:
            self.is_missing = True
            raise EngineUnreachable(f"the config map {NAME} is missing: it is not known which loop leads") from None
        self.heard(found)
        self.check(own)

    async def _write(self, token: Token) -> None:
        content = {"data": {KEY: str(token)}}
        try:
            found = await self._client.get(CONFIG_MAPS, NAME, ConfigMap, namespace=self._namespace)
        except NotFound:
            await ensure_namespace(self._client, self._namespace)
            body = {"metadata": {"name": NAME, "labels": {MANAGED_BY: FAIRPOOL}}, **content}
            await self._client.create(CONFIG_MAPS, body, namespace=self._namespace)
            return
        self.heard(found)
        self.check(token)
        if token > token_in(found):
            version = {"metadata": {"resourceVersion": found.metadata.resource_version}}
            await self._client.patch(CONFIG_MAPS, NAME, {**version, **content}, namespace=self._namespace)


def token_in(found: ConfigMap) -> Token:
    text = (found.data or {}).get(KEY, "")
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        # Not taken for none: a loop that was fenced off would be obeyed again.
        raise EngineUnreachable(
            f"the config map {NAME} is damaged: it contains {text[:40]!r} instead of a number. "
            "Stop Fairpool and delete the config map"
        )
    return Token(int(text))


async def ensure_namespace(client: KubernetesClient, name: str) -> None:
    """Create a namespace of ours, unless it exists."""
    try:
        await client.get(NAMESPACES, name, ConfigMap)
    except NotFound:
        try:
            await client.create(NAMESPACES, {"metadata": {"name": name, "labels": {MANAGED_BY: FAIRPOOL}}})
        except AlreadyExists:
            return
