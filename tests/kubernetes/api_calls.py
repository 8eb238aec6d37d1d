"""Plain calls to an API server for tests: one connection for each thread, JSON in and out."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CALL_S = 60.0
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class ApiError(Exception):
    """The API server refused a call."""

    def __init__(self, call: str, status: int, body: str) -> None:
        super().__init__(f"{call}: {status} {body[:1000]}")
        self.status, self.body = status, body


class ApiCalls:
    """Calls as one user."""

    def __init__(self, address: str, ca: Path, token: str) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        self._host, self._port, self._token = parts.hostname, parts.port, token
        self._tls = ssl.create_default_context(cafile=str(ca))
        self._connections = threading.local()

    def call(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Any:
        """What the API server answers, decoded. Raises `ApiError`, and `OSError` if it cannot be reached."""
        status, text = self._exchange(method, path, None if body is None else json.dumps(body).encode(), kind)
        if status >= 400:
            raise ApiError(f"{method} {path}", status, text)
        return json.loads(text) if text[:1] in ("{", "[") else text

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def create(self, path: str, body: Any) -> Any:
        return self.call("POST", path, body)

    def patch(self, path: str, body: Any, kind: str = MERGE_PATCH) -> Any:
        return self.call("PATCH", path, body, kind=kind)

    def apply(self, path: str, body: Any) -> Any:
        """Server-side apply."""
        return self.call("PATCH", f"{path}?fieldManager=tests&force=true", body, kind=APPLY)

    def delete(self, path: str, grace_s: int | None = None) -> None:
        """Does nothing if there is no such object."""
        options = None if grace_s is None else {"gracePeriodSeconds": grace_s}
        try:
            self.call("DELETE", path, options)
        except ApiError as error:
            if error.status != 404:
                raise

    def find(self, path: str) -> Any | None:
        """None if there is no such object."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def watch(self, path: str, timeout_s: int = 300) -> Iterator[dict[str, Any]]:
        """Events of a watch, until the API server ends it. On a connection of its own, which is closed with this."""
        connection = self._connect(timeout_s + CALL_S)
        try:
            separator = "&" if "?" in path else "?"
            connection.request("GET", f"{path}{separator}watch=1&timeoutSeconds={timeout_s}", headers=self._headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise ApiError(f"WATCH {path}", answer.status, answer.read().decode())
            while line := answer.readline():
                yield json.loads(line)
        finally:
            connection.close()

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}

    def _exchange(self, method: str, path: str, body: bytes | None, kind: str) -> tuple[int, str]:
        headers = {**self._headers, **({"Content-Type": kind} if body is not None else {})}
        kept: http.client.HTTPSConnection | None = getattr(self._connections, "kept", None)
        connection = kept or self._connect(CALL_S)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self._connections.kept = None
            if kept is not None and isinstance(error, (ConnectionError, http.client.BadStatusLine, ssl.SSLError)):
                return self._exchange(method, path, body, kind)  # it was closed meanwhile
            raise error if isinstance(error, OSError) else ConnectionError(str(error)) from error
        self._connections.kept = connection
        return answer.status, text

    def _connect(self, timeout_s: float) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._tls)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
