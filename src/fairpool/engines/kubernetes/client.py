"""Client of the Kubernetes API: typed calls on aiohttp and msgspec.

An answer is decoded into the `msgspec.Struct` that the caller gives, so only the fields that it declares are read;
`dict` and `msgspec.Raw` (undecoded) work as well. Bodies are structs, plain dictionaries, or bytes of JSON.

    async with KubernetesClient(find_api_server()) as client:
        nodes = await client.list(NODES, MyNode)
        pod = await client.create(PODS, {"metadata": {"name": "a"}, ...}, namespace="team-a")
        await client.delete(PODS, "a", namespace="team-a", uid=pod.metadata.uid, grace_s=30)

Calls run concurrently, `calls_at_once` at a time. Repeated are, with a growing delay: every call that was answered with
429 (except evictions), and after a 5xx or a lost connection those that have the same effect twice (`get`, `list`,
`apply`, `delete` of a uid). Everything else raises at once: see `failures`. Calls queue in order: what must not wait
behind a burst of others, such as the renewal of a lease, gets a client of its own. `watch.py` follows changes,
`streams.py` has logs, exec, attach and port-forward.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Self, TypeVar, overload
from urllib.parse import urlencode

import msgspec

from fairpool import __version__
from fairpool.engines.kubernetes.credentials import ApiServer
from fairpool.engines.kubernetes.failures import ApiUnreachable, BadAnswer, Gone, Refused, TooManyRequests, refusal
from fairpool.engines.kubernetes.http import JSON, Http, Socket
from fairpool.engines.kubernetes.resources import PODS, ApiResource, Object

T = TypeVar("T")
Body = Mapping[str, Any] | msgspec.Struct | bytes
Operations = Sequence[Mapping[str, Any]]
"""Of a JSON patch."""
Query = Mapping[str, str | int | bool | None]

FIELD_MANAGER = "fairpool"
WRITTEN = f"?fieldManager={FIELD_MANAGER}&fieldValidation=Ignore"
"""Query of calls that write. Otherwise the API server decodes each body twice, for warnings that are not read."""
PAGE = 500
CALLS_AT_ONCE = 32
TIMEOUT_S = 30.0
ATTEMPTS = 6
REPEAT_TIMEOUTS = 2
"""No attempt begins after so many times the timeout, so that a server which hangs is found unreachable soon."""
FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
LONGEST_RETRY_AFTER_S = 30.0
PAGED_ATTEMPTS = 3
"""After so many expired lists the rest is asked for without pages, which cannot expire."""


class Patch(StrEnum):
    """How a patch is written."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"


class Propagation(StrEnum):
    """What happens to objects that belong to a deleted one."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """All objects that a list asked for, at one resource version."""

    items: list[T]
    resource_version: str


class ListMetadata(msgspec.Struct, rename={"resource_version": "resourceVersion", "next_page": "continue"}, gc=False):
    """The metadata of a list."""

    resource_version: str = ""
    next_page: str = ""


class ListPage(msgspec.Struct, Generic[T], gc=False):
    """One answer of a list."""

    metadata: ListMetadata
    items: list[T] | None = None


class KubernetesClient:
    """Calls to one API server. Belongs to one event loop; close it there."""

    def __init__(
        self,
        server: ApiServer,
        *,
        calls_at_once: int = CALLS_AT_ONCE,
        timeout_s: float = TIMEOUT_S,
        attempts: int = ATTEMPTS,
    ) -> None:
        self.namespace = server.namespace
        self._http = Http(server, f"fairpool/{__version__}")
        self._slots = asyncio.Semaphore(calls_at_once)
        self._timeout_s, self._attempts = timeout_s, attempts
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.close()

    # --- reading ---------------------------------------------------------------------------------------------------

    async def get(
        self, resource: ApiResource, name: str, answer: type[T], *, namespace: str = "", subresource: str = ""
    ) -> T:
        """One object. Raises `NotFound`."""
        target = resource.path(namespace, name, subresource)
        return await self._typed(
            answer, _call("get", resource, namespace, name, subresource), "GET", target, repeat=True
        )

    async def list(
        self,
        resource: ApiResource,
        answer: type[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        page: int = PAGE,
        resource_version: str = "",
    ) -> ObjectList[T]:
        """All objects of a namespace, or of all namespaces, that match the label and field selectors.

        Read page by page, as one consistent state. `resource_version="0"` allows an older state from the API server's
        memory. If a page has expired, the list is read again from the beginning.
        """
        query: dict[str, str | int | bool | None] = {"labelSelector": labels, "fieldSelector": fields}
        query |= {"limit": page, "resourceVersion": resource_version}
        for attempt in range(PAGED_ATTEMPTS):
            if attempt == PAGED_ATTEMPTS - 1:
                query["limit"] = None
            try:
                return await self._pages(resource, answer, namespace, query)
            except Gone:
                if attempt == PAGED_ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _pages(self, resource: ApiResource, answer: type[T], namespace: str, query: Query) -> ObjectList[T]:
        name, path = _call("list", resource, namespace), resource.path(namespace)
        page = await self._typed(ListPage[answer], name, "GET", path + _query(query), repeat=True)  # type: ignore[valid-type]
        items = page.items or []
        while page.metadata.next_page:
            following = _query({**query, "resourceVersion": None, "continue": page.metadata.next_page})
            page = await self._typed(ListPage[answer], name, "GET", path + following, repeat=True)  # type: ignore[valid-type]
            items += page.items or []
        return ObjectList(items, page.metadata.resource_version)

    async def newest_version(self, resource: ApiResource, *, namespace: str = "") -> str:
        """The resource version at which objects of this type are now."""
        target = resource.path(namespace) + _query({"limit": 1})
        page = await self._typed(ListPage[msgspec.Raw], _call("list", resource, namespace), "GET", target, repeat=True)
        return page.metadata.resource_version

    # --- writing ---------------------------------------------------------------------------------------------------

    @overload
    async def create(
        self, resource: ApiResource, body: Body, *, namespace: str = "", name: str = "", subresource: str = ""
    ) -> Object: ...

    @overload
    async def create(
        self,
        resource: ApiResource,
        body: Body,
        answer: type[T],
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
    ) -> T: ...

    async def create(
        self,
        resource: ApiResource,
        body: Body,
        answer: type[Any] = Object,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
    ) -> Any:
        """Create an object; raises `AlreadyExists`. With `name` and `subresource`: a subresource of that object."""
        target = resource.path(namespace, name, subresource) + WRITTEN
        call = _call("create", resource, namespace, name or _name_in(body), subresource)
        return await self._typed(answer, call, "POST", target, _encoded(body))

    async def replace(
        self,
        resource: ApiResource,
        name: str,
        body: Body,
        answer: type[T],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> T:
        """Replace an object. If the body names a resource version and the object has another: `Conflict`."""
        target = resource.path(namespace, name, subresource) + WRITTEN
        call = _call("replace", resource, namespace, name, subresource)
        return await self._typed(answer, call, "PUT", target, _encoded(body))

    @overload
    async def patch(
        self,
        resource: ApiResource,
        name: str,
        body: Body | Operations,
        *,
        namespace: str = "",
        subresource: str = "",
        kind: Patch = Patch.MERGE,
    ) -> Object: ...

    @overload
    async def patch(
        self,
        resource: ApiResource,
        name: str,
        body: Body | Operations,
        answer: type[T],
        *,
        namespace: str = "",
        subresource: str = "",
        kind: Patch = Patch.MERGE,
    ) -> T: ...

    async def patch(
        self,
        resource: ApiResource,
        name: str,
        body: Body | Operations,
        answer: type[Any] = Object,
        *,
        namespace: str = "",
        subresource: str = "",
        kind: Patch = Patch.MERGE,
    ) -> Any:
        """Change fields of an object.

        If a patch contains metadata.uid and the object is another one: `Refused` (422); with metadata.resourceVersion,
        if the object has another: `Conflict`.
        """
        target = resource.path(namespace, name, subresource) + WRITTEN
        call = _call("patch", resource, namespace, name, subresource)
        return await self._typed(answer, call, "PATCH", target, _encoded(body), kind)

    async def apply(
        self,
        resource: ApiResource,
        name: str,
        body: Body,
        answer: type[T],
        *,
        namespace: str = "",
        subresource: str = "",
        force: bool = True,
    ) -> T:
        """Server-side apply: create the object, or make our fields what `body` says (with apiVersion and kind).

        Without `force`, a field that another manager owns raises `Conflict`.
        """
        query: Query = {"fieldManager": FIELD_MANAGER, "force": force}
        target = resource.path(namespace, name, subresource) + _query(query)
        call = _call("apply", resource, namespace, name, subresource)
        kind = "application/apply-patch+yaml"
        return await self._typed(answer, call, "PATCH", target, _encoded(body), kind, repeat=True)

    async def delete(
        self,
        resource: ApiResource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        grace_s: int | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        """Delete an object: only the one with this uid and resource version, otherwise `Conflict`.

        Returns when the API server has accepted it; a pod is gone when its kubelet has stopped it. `grace_s=0` removes
        the object at once, whether anything still runs or not. A repeated call may find it gone: `NotFound`.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = _deletion(grace_s, propagation, {k: v for k, v in preconditions.items() if v})
        call, target = _call("delete", resource, namespace, name), resource.path(namespace, name)
        await self._call(call, "DELETE", target, _encoded(options), JSON, repeat=bool(uid))

    async def delete_all(
        self,
        resource: ApiResource,
        *,
        namespace: str,
        labels: str = "",
        fields: str = "",
        grace_s: int | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        """Delete the objects of a namespace that match the selectors."""
        target = resource.path(namespace) + _query({"labelSelector": labels, "fieldSelector": fields})
        call, options = _call("delete all", resource, namespace), _deletion(grace_s, propagation, {})
        await self._call(call, "DELETE", target, _encoded(options), JSON)

    async def bind(self, pod: str, node: str, *, namespace: str, uid: str = "") -> None:
        """Assign a pod to a node. `Conflict` if it has one already, is gated, or is another pod than `uid`."""
        metadata = {"name": pod, "namespace": namespace, **({"uid": uid} if uid else {})}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = PODS.path(namespace, pod, "binding") + _query({"fieldManager": FIELD_MANAGER})
        await self._call(_call("bind", PODS, namespace, pod), "POST", path, _encoded(body), JSON)

    async def evict(self, pod: str, *, namespace: str, uid: str = "", grace_s: int | None = None) -> None:
        """Delete a pod unless a PodDisruptionBudget forbids it now: then `TooManyRequests`, which is not repeated."""
        options = _deletion(grace_s, None, {"uid": uid} if uid else {})
        metadata = {"name": pod, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
        call, path = _call("evict", PODS, namespace, pod), PODS.path(namespace, pod, "eviction")
        await self._call(call, "POST", path, _encoded(body), JSON, attempts=1)

    # --- for the other modules of this package ---------------------------------------------------------------------

    async def raw(self, method: str, target: str, body: bytes | None = None, content_type: str = JSON) -> bytes:
        """Any other call, by its path and query ("/version"); the body of the answer."""
        call = f"{method} {target}"
        return await self._call(call, method, target, body, content_type, repeat=method == "GET")

    def decoder(self, answer: type[T]) -> msgspec.json.Decoder[T]:
        """The decoder for a type; made once."""
        decoder = self._decoders.get(answer)
        if decoder is None:
            decoder = self._decoders[answer] = msgspec.json.Decoder(answer)
        return decoder

    def stream(
        self, call: str, target: str, query: Query, *, silence_s: float | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """An answer that comes in parts. Does not count as one of the calls at once."""
        return self._http.stream(call, target + _query(query), silence_s=silence_s, answer_s=self._timeout_s)

    async def websocket(self, call: str, target: str, protocols: tuple[str, ...]) -> Socket:
        """A WebSocket. Does not count as one of the calls at once."""
        return await self._http.websocket(call, target, protocols, self._timeout_s)

    # --- one call --------------------------------------------------------------------------------------------------

    async def _typed(
        self,
        answer: type[T],
        call: str,
        method: str,
        target: str,
        body: bytes | None = None,
        content_type: str = JSON,
        *,
        repeat: bool = False,
    ) -> T:
        content = await self._call(call, method, target, body, content_type, repeat=repeat)
        try:
            return self.decoder(answer).decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadAnswer(call, str(error)) from None

    async def _call(
        self,
        call: str,
        method: str,
        target: str,
        body: bytes | None,
        content_type: str,
        *,
        repeat: bool = False,
        attempts: int | None = None,
    ) -> bytes:
        attempts = self._attempts if attempts is None else attempts
        async with self._slots:  # also while it waits to try again: an overloaded server gets fewer calls
            began = time.monotonic()
            for attempt in range(1, attempts + 1):
                failure: Refused | ApiUnreachable
                try:
                    answer = await self._http.call(call, method, target, body, content_type, self._timeout_s)
                    if answer.status < 300:
                        return answer.body
                    failure = refusal(call, answer.status, answer.body, answer.retry_after_s)
                except ApiUnreachable as error:
                    failure = error
                delay_s = _delay(failure, attempt)
                is_late = time.monotonic() + delay_s > began + REPEAT_TIMEOUTS * self._timeout_s
                if attempt == attempts or is_late or not _may_repeat(failure, repeat):
                    raise failure
                await asyncio.sleep(delay_s)
        raise AssertionError("the last attempt returns or raises")


def _may_repeat(failure: Refused | ApiUnreachable, has_same_effect_twice: bool) -> bool:
    if isinstance(failure, TooManyRequests):
        return True  # refused before anything was done
    if isinstance(failure, ApiUnreachable):
        return has_same_effect_twice or not failure.was_sent
    return has_same_effect_twice and failure.status >= 500


def _delay(failure: Refused | ApiUnreachable, attempt: int) -> float:
    """Exponential, with jitter so that calls which failed together are not repeated together."""
    asked = failure.retry_after_s if isinstance(failure, Refused) else None
    if asked is not None:
        return min(asked, LONGEST_RETRY_AFTER_S) * random.uniform(1.0, 1.2)
    return min(FIRST_DELAY_S * 2.0 ** (attempt - 1), LONGEST_DELAY_S) * random.uniform(0.5, 1.5)


def _call(verb: str, resource: ApiResource, namespace: str, name: str = "", subresource: str = "") -> str:
    """How messages name a call: "create pods/binding team-a/train-0"."""
    kind = f"{resource.plural}/{subresource}" if subresource else resource.plural
    target = "/".join(part for part in (namespace, name) if part)
    return f"{verb} {kind} {target}" if target else f"{verb} {kind}"


def _name_in(body: Body) -> str:
    metadata = body.get("metadata", {}) if isinstance(body, Mapping) else getattr(body, "metadata", None)
    name = metadata.get("name", "") if isinstance(metadata, Mapping) else getattr(metadata, "name", "")
    return str(name)


def _encoded(body: object) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _query(values: Query) -> str:
    """Empty and missing values are left out."""
    given = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items() if value
    }
    return f"?{urlencode(given)}" if given else ""


def _deletion(grace_s: int | None, propagation: Propagation | None, preconditions: Mapping[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if preconditions:
        options["preconditions"] = dict(preconditions)
    return options
