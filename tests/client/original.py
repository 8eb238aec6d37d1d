"""The original's client as the cases use it: calls, refusals, and what was learnt about each operation."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.client.answers import ANSWERS
from tests.running_platform import PATIENCE_S, Running

SCRIPT = Path(__file__).with_name("call_original.py")
T = TypeVar("T")


@dataclass
class Original:
    """The original's client and the platform: it signs in as an application, and goes on as the administrator.

    Cases use `call` for what works, `refused` for what the server refuses by name, and `until` to wait for an effect.
    """

    platform: Running
    cluster: str
    """The id of the platform's only cluster."""
    _process: subprocess.Popen[str]
    operations: dict[str, tuple[str, str]]
    """By name: method and path of every operation the client has."""
    worked: set[str] = field(default_factory=set)
    refusals: dict[str, str] = field(default_factory=dict)
    _token: str = ""
    """Of the user whose calls these are; empty: the administrator's."""

    @classmethod
    def start(cls, python: Path, platform: Running) -> Self:
        app = platform.client._post("/api/v1/apps", {"name": "automation", "roles": ["administrator"]})
        process = subprocess.Popen(
            [str(python), str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        made = cls(platform, platform.client.clusters()[0].uuid, process, {})
        start = {"client_id": app.client_id, "client_secret": app.secret, "address": platform.status["address"]}
        start["token"] = platform.owner_token()  # some things are for users alone, such as subscriptions
        made.operations = {name: (method, path) for name, method, path in made._exchange(start)["operations"]}
        return made

    def close(self) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait(PATIENCE_S)

    def call(self, operation: str, **arguments: Any) -> Any:
        """The data of an answer in the 2xx range that satisfies the client's own model of it."""
        outcome = self._outcome(operation, arguments)
        assert 200 <= outcome["status"] < 300, f"{operation}: {outcome['trouble']}"
        assert not outcome["trouble"], f"{operation}: {outcome['trouble']}\n{json.dumps(outcome['data'])[:2000]}"
        self.worked.add(operation)
        return outcome["data"]

    def refused(self, operation: str, status: int, **arguments: Any) -> str:
        """The message with which the server refuses a call that it understood."""
        outcome = self._outcome(operation, arguments)
        assert outcome["status"] == status, f"{operation}: {outcome['status']} {outcome['trouble']}"
        said = outcome["data"]
        return str(said.get("message") or said["error_description"])  # as OAuth 2.0 has it

    def never(self, operation: str, status: int, **arguments: Any) -> None:
        """An operation that is always refused; the server's own words go into the table."""
        self.refusals[operation] = self.refused(operation, status, **arguments)

    @contextmanager
    def signed_in_as(self, token: str) -> Iterator[None]:
        """The calls inside are those of another user."""
        self._token = token
        try:
            yield
        finally:
            self._token = ""

    def until(self, found: Callable[[], T], what: str) -> T:
        """What `found` returns as soon as it is true."""
        end = time.monotonic() + PATIENCE_S
        while not (value := found()):
            assert time.monotonic() < end, f"waited in vain until {what}"
            time.sleep(0.05)
        return value

    def _outcome(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        assert operation in self.operations, f"the client has no operation {operation}"
        assert operation in ANSWERS, f"answers.py has no model for {operation}"
        asked = {"operation": operation, "arguments": arguments, "answer": ANSWERS[operation], "token": self._token}
        return dict(self._exchange(asked))

    def _exchange(self, line: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the client's process ended with {self._process.wait(PATIENCE_S)}"
        return json.loads(answer)
