"""What the gateway asks of the control plane: who may use a route, where it leads, and which sessions have ended.

`control/tool_access.py` answers; `gateway` knows this module and not the control plane.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from fairpool.model.problem import Problem

ENTER = "/.fairpool/enter"
"""Path of the gateway, on every origin, that exchanges a ticket for a session. Never passed on to a pod."""
OWN_PATHS = "/.fairpool/"
TOKEN_PREFIX = "fp"
"""Of every token of the platform that is no JWT: fpa_, fpr_, fps_, fpc_, fpg_, fpb_."""
JWT_PREFIX = "eyJraWQiOiJmYWlycG9v"
"""Of every JWT of the platform: the header begins with the id of its key, and that with `fairpool-`."""


def is_platform_token(token: str) -> bool:
    """Whether a bearer token is one of the platform, by its form."""
    return (token.startswith(TOKEN_PREFIX) and token[3:4] == "_") or token.startswith(JWT_PREFIX)


class PodStream(Protocol):
    """A connection to a port of a pod."""

    async def send(self, data: bytes) -> None: ...

    async def receive(self) -> bytes | None: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Credential:
    """What a request shows: a bearer token, or the session cookies of its origin (several only if a page set some)."""

    token: str = ""
    sessions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Admission:
    """A caller who may use a route now."""

    origin: str
    """The first label of the host name."""
    credential: Credential
    upstream: str
    """Name and port of the pod, as in a URL: requests with the same share connections."""


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """Why a request is not passed on. A caller without access learns nothing about the workload."""

    status: int
    problem: Problem


class StreamRefused(Exception):
    """The pod cannot be connected to; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class AccessUnavailable(Exception):
    """The control plane cannot say who may do what now; `status` and `problem` are for the client."""

    def __init__(self, status: int, problem: Problem) -> None:
        super().__init__(str(problem))
        self.status, self.problem = status, problem


class ToolAccess(Protocol):
    """The control plane, as the gateway sees it. What is awaited may raise `AccessUnavailable`."""

    def known(self, origin: str, credential: Credential) -> Admission | None:
        """An admission of a moment ago that is still valid; None: ask `admit`."""

    async def admit(self, origin: str, credential: Credential) -> Admission | NotAdmitted:
        """Whether the caller may use the route, and the pod it leads to."""

    async def ended(self, admissions: Collection[Admission]) -> Sequence[Admission]:
        """Those of these that are not valid any more."""

    async def changed(self, timeout_s: float) -> None:
        """Returns when something was committed since it last returned, or after this time. For one task."""

    async def connect(self, admission: Admission) -> PodStream:
        """Connect to the port; raises `StreamRefused`."""

    async def enter(self, origin: str, ticket: str, browsers: tuple[str, ...]) -> str | None:
        """Exchange a ticket for a session, if it was given for this origin and one of these hashes of the browser.

        Whether it was or not, the ticket is used up.
        """

    def sign_in_url(self, origin: str, browser: str, path: str) -> str:
        """The page of the control plane that gives tickets. `browser`: the hash of the browser's secret."""

    def path_url(self, path: str) -> str:
        """The page of the control plane that knows which origin a documented path means."""

    async def origin_of(self, path: str, credential: Credential) -> str | NotAdmitted:
        """The URL that a documented path means to a caller with a token."""


def browser_hash(secret: str) -> str:
    """A ticket names the browser by the hash of a secret that only this browser has."""
    return hashlib.sha256(secret.encode("utf-8", "backslashreplace")).hexdigest()
