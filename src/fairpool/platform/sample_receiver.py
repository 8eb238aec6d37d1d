"""Takes samples from agents on nodes: `POST /samples`, authenticated by the token of the agent's pod.

Served by the replica that leads. The API server is asked who a token belongs to (TokenReview); its answer names the
node of the pod, and is kept for some minutes. Anything in the cluster can connect, so everything is bounded: bytes,
times, connections, and the questions that one address can cause.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.credentials import ApiServer
from fairpool.engines.kubernetes.failures import KubernetesError
from fairpool.engines.kubernetes.node_samples import BYTES_MAX
from fairpool.engines.kubernetes.resources import ApiResource
from fairpool.model.ids import NodeName

log = logging.getLogger("fairpool.cluster")

AUDIENCE = "fairpool-samples"
"""Of the tokens: they are good for nothing else."""
ACCOUNT = "fairpool-node-agent"
NODE_NAME = "authentication.kubernetes.io/node-name"
TOKEN_REVIEWS = ApiResource("tokenreviews", "authentication.k8s.io", namespaced=False)
HEAD_BYTES = 16 * 1024
REQUEST_S = 10.0
CONNECTIONS_MAX = 256
KNOWN_S = 300.0
KNOWN_MAX = 50_000
REVIEWS_MAX = 16
REVIEWS_OF_ONE = 2
"""At a time, for one address."""
LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,9}) *\r\n", re.IGNORECASE)
TOKEN = re.compile(rb"\r\nauthorization: *bearer +([A-Za-z0-9._~+/=-]{1,8192}) *\r\n", re.IGNORECASE)

Take = Callable[[NodeName, bytes], bool]


class ReviewedUser(msgspec.Struct, gc=False):
    """Whose token it is."""

    username: str = ""
    extra: dict[str, list[str]] = msgspec.field(default_factory=dict)


class ReviewStatus(msgspec.Struct, gc=False):
    """What the API server says about a token."""

    authenticated: bool = False
    user: ReviewedUser = msgspec.field(default_factory=ReviewedUser)
    audiences: list[str] = msgspec.field(default_factory=list)


class TokenReview(msgspec.Struct, gc=False):
    """An answered question."""

    status: ReviewStatus = msgspec.field(default_factory=ReviewStatus)


class AgentTokens:
    """Which node the agent with a token is on."""

    def __init__(self, client: KubernetesClient, namespace: str, clock: Callable[[], float]) -> None:
        self._client, self._clock = client, clock
        self._user = f"system:serviceaccount:{namespace}:{ACCOUNT}"
        self._known: dict[bytes, tuple[float, NodeName | None]] = {}
        self._asking: Counter[str] = Counter()
        self._slots = asyncio.Semaphore(REVIEWS_MAX)

    async def node_of(self, token: bytes, address: str) -> NodeName | None:
        """None: it is no token of an agent. Raises `KubernetesError`, also if this address asks too much."""
        digest = hashlib.sha256(token).digest()
        at_s, node = self._known.get(digest, (float("-inf"), None))
        if self._clock() - at_s < KNOWN_S:
            return node
        if self._asking[address] >= REVIEWS_OF_ONE:
            raise KubernetesError(f"{address} has shown too many tokens")
        self._asking[address] += 1
        try:
            async with self._slots:
                node = await self._reviewed(token.decode("ascii"))
        finally:
            self._asking[address] -= 1
            if not self._asking[address]:
                del self._asking[address]
        self._known.pop(digest, None)
        self._known[digest] = self._clock(), node
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return node

    async def _reviewed(self, token: str) -> NodeName | None:
        body = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        status = (await self._client.create(TOKEN_REVIEWS, body, TokenReview)).status
        is_agent = status.authenticated and status.user.username == self._user and AUDIENCE in status.audiences
        names = status.user.extra.get(NODE_NAME, [])
        return NodeName(names[0]) if is_agent and len(names) == 1 else None


@asynccontextmanager
async def sample_receiver(
    listener: socket.socket, server: ApiServer, namespace: str, take: Take
) -> AsyncIterator[None]:
    """Receive until the context ends. `take`: what the agent of a node sent; False: it cannot be read."""
    free = asyncio.Semaphore(CONNECTIONS_MAX)
    async with KubernetesClient(server, timeout_s=REQUEST_S / 2, attempts=1) as client:
        tokens = AgentTokens(client, namespace, asyncio.get_running_loop().time)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                if not free.locked():
                    async with free, asyncio.timeout(REQUEST_S):
                        address = str((writer.get_extra_info("peername") or ("",))[0])
                        status = await _answered(reader, tokens, address, take)
                        writer.write(b"HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)
                        await writer.drain()
            except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass  # too slow, too long, or gone
            finally:
                with suppress(OSError):
                    writer.close()

        receiving = await asyncio.start_server(serve, sock=listener, limit=HEAD_BYTES)
        try:
            yield
        finally:
            receiving.close()


async def _answered(reader: asyncio.StreamReader, tokens: AgentTokens, address: str, take: Take) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    token, length = TOKEN.search(head), LENGTH.search(head)
    if not head.startswith(b"POST /samples "):
        return b"404 Not Found"
    if length is None or int(length[1]) > BYTES_MAX:
        return b"413 Content Too Large"
    try:
        node = await tokens.node_of(token[1], address) if token is not None else None
    except KubernetesError as error:
        log.warning("samples of an agent were refused: %s", error)
        return b"503 Service Unavailable"
    if node is None:
        return b"401 Unauthorized"
    is_taken = take(node, await reader.readexactly(int(length[1])))
    return b"204 No Content" if is_taken else b"400 Bad Request"
