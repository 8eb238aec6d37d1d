"""A cluster's calls to its control plane over HTTP: pull and push, as `cluster.link` wants them.

In the embedded mode the same calls go through `InProcess`, which hands them to the application on its own event loop:
the same wire, the same token, no socket.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError, Future
from typing import Any

import httpx2
from pydantic import ValidationError

from fairpool.api.clusters import PullAnswer, PushAnswer, PushReport, Unreachable
from fairpool.model.ids import Revision

PATIENCE_S = 10.0
"""For an answer, beyond the time that a pull is held on purpose."""


class ClusterClient:
    """The control plane, as one cluster reaches it. For one thread."""

    def __init__(self, address: str, token: str, *, transport: httpx2.BaseTransport | None = None) -> None:
        self._http = httpx2.Client(
            base_url=address, transport=transport, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S
        )

    def close(self) -> None:
        self._http.close()

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        """What changed after a revision, waiting a while for something to change. Raises `Unreachable`."""
        body = {"after": after, "waitS": wait_s}
        timeout = httpx2.Timeout(PATIENCE_S, read=PATIENCE_S + wait_s)
        text = self._call("/api/v1/cluster/pull", json=body, timeout=timeout)
        try:
            return PullAnswer.from_json(text)
        except ValidationError as error:
            raise Unreachable(f"the control plane's answer cannot be read: {error}") from error

    def push(self, report: PushReport) -> PushAnswer:
        """Take in what is so. Raises `Unreachable`."""
        text = self._call("/api/v1/cluster/push", content=report.to_json())
        try:
            return PushAnswer.from_json(text)
        except ValidationError as error:
            raise Unreachable(f"the control plane's answer cannot be read: {error}") from error

    def _call(self, path: str, **options: Any) -> bytes:
        try:
            answer = self._http.post(path, **options)
        except httpx2.TransportError as error:
            raise Unreachable(f"{self._http.base_url} does not answer: {error}") from error
        if answer.is_error:
            raise Unreachable(f"the control plane answered {answer.status_code}: {answer.text[:500]}")
        return answer.content


class InProcess(httpx2.BaseTransport):
    """Calls an application that lives on another thread's event loop. Answers arrive whole: not for endless streams.

    Closing it, from any thread, ends the calls under way: a pull that is held must not hold up who wants to leave.
    """

    def __init__(self, app: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = httpx2.ASGITransport(app)
        self._loop = loop
        self._under_way: set[Future[httpx2.Response]] = set()
        self._is_closed = False

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        answer = self._answer(request)
        try:
            call = asyncio.run_coroutine_threadsafe(answer, self._loop)
        except RuntimeError as error:  # its loop has stopped
            answer.close()
            raise httpx2.ConnectError(str(error), request=request) from error
        self._under_way.add(call)
        if self._is_closed:  # asked after adding, so that a call is either refused here or found by `close`
            call.cancel()
        try:
            return call.result()
        except (CancelledError, RuntimeError) as error:
            raise httpx2.ConnectError(str(error) or "the call was given up", request=request) from error
        finally:
            self._under_way.discard(call)

    def close(self) -> None:
        self._is_closed = True
        for call in tuple(self._under_way):
            call.cancel()

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        whole = httpx2.Request(request.method, request.url, headers=request.headers, content=request.content)
        answer = await self._transport.handle_async_request(whole)
        content = await answer.aread()
        headers = [(name, value) for name, value in answer.headers.items() if name.lower() != "transfer-encoding"]
        return httpx2.Response(answer.status_code, headers=headers, content=content)
