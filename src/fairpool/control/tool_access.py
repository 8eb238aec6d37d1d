"""Access to the tools behind the gateway: tickets, sessions, and who may use which route now.

Answers the questions of `api/gateway.py`. A session of the gateway is a token whose hash includes the origin, so that
it is valid there alone; it ends with the sign-in of the browser that it came from.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlencode

from fairpool.api.gateway import AccessUnavailable, Admission, Credential, NotAdmitted, PodStream, StreamRefused
from fairpool.api.gateway_address import GatewayAddress
from fairpool.control.directory_user import may_act_as
from fairpool.control.guard import caller_with, digest_of, is_over, known
from fairpool.control.plane import Caller, Plane
from fairpool.control.pod_access import PodAccessError, PodAddress, PortStream
from fairpool.control.rbac import Action, for_kind
from fairpool.control.refusal import Refused
from fairpool.control.store import access as access_store
from fairpool.control.store import sign_in_tickets as tickets
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.tool_routes import Tool, meant, read_origin, tool_of
from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.problem import Problem

TICKET_MS = 60 * SECOND_MS
TICKET = "tool"
REMEMBERED_MAX = 10_000
FRESH_S = 0.05
"""How long a route may be used without looking at its row again, while other things are committed."""
SESSION = "gateway"
SESSIONS = frozenset({SESSION})

NOT_SIGNED_IN = NotAdmitted(
    401, Problem("access.not_signed_in", "you are not signed in", "open the URL in a browser, or send a bearer token")
)
MUST_CHANGE = NotAdmitted(
    403, Problem("access.password_must_change", "your password must be changed first", "run `runai password`")
)
UNKNOWN = NotAdmitted(
    404, Problem("gateway.unknown", "there is no such tool, or you have no access to it", "see `runai list`")
)
NOT_RUNNING = NotAdmitted(
    503, Problem("gateway.not_running", "the job is not running", "see what it is waiting for: `runai why JOB`")
)


def new_ticket(connection: Connection, origin: str, browser: str, caller: Caller, now: Instant) -> str:
    """Permission to begin a session, for one origin and one browser. Only its hash is stored."""
    code = "fpt_" + secrets.token_urlsafe(32)
    ticket = {
        "origin": origin,
        "browser": browser,
        "token": caller.token_hash,
        "family": caller.family,
        "subject": caller.id,
        "kind": caller.kind,
        "expires_at": caller.expires_at,
    }
    tickets.drop_expired(connection, now)
    tickets.add(connection, digest_of(code), TICKET, ticket, now + TICKET_MS)
    return code


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToolAdmission(Admission):
    """An admission, and what it rests on."""

    caller: Caller
    caller_key: str
    tool: Tool
    pod: PodAddress
    port: int


@dataclass(slots=True)
class Turns:
    """Admissions of one caller to the pods of one tool, which take turns."""

    admissions: tuple[ToolAdmission, ...]
    given: int = 0

    def next(self) -> ToolAdmission:
        self.given += 1
        return self.admissions[self.given % len(self.admissions)]


@dataclass(slots=True)
class CachedRow:
    """A workload's row, as it was when it was last looked at."""

    tool: Tool | None
    notifications: int
    at: float


class Tools:
    """The tools of all workloads. For one event loop."""

    def __init__(self, plane: Plane, address: GatewayAddress, control_url: str) -> None:
        """`control_url`: where browsers reach the control plane."""
        self._plane, self._control_url = plane, control_url
        self._address = address
        self._seen: dict[str, CachedRow] = {}
        self._admissions: dict[tuple[str, Credential], Turns] = {}
        self._notifications = 0
        """When `changed` last returned."""

    # --- who may use what ---

    def known(self, origin: str, credential: Credential) -> Admission | None:
        turns = self._valid(origin, credential)
        if turns is None:
            return None
        admission = turns.next()
        self._plane.session_use.note(admission.caller.family, self._plane.now())
        return admission

    def _valid(self, origin: str, credential: Credential) -> Turns | None:
        turns = self._admissions.get((origin, credential))
        if turns is None:
            return None
        admission = turns.admissions[0]
        caller, seen = admission.caller, self._seen.get(admission.tool.key.id)
        is_valid = (
            seen is not None
            and seen.tool is admission.tool
            and self._is_fresh(seen)
            and self._plane.callers.get(admission.caller_key) is caller
            and not is_over(self._plane, caller)
        )
        return turns if is_valid else None

    async def admit(self, origin: str, credential: Credential) -> Admission | NotAdmitted:
        turns = await self._admitted(origin, credential)
        return turns if isinstance(turns, NotAdmitted) else turns.next()

    async def _admitted(self, origin: str, credential: Credential) -> Turns | NotAdmitted:
        found = await self._caller(origin, credential)
        if isinstance(found, NotAdmitted):
            return found
        caller, caller_key = found
        place = read_origin(origin)
        tool = await self._tool(place[0]) if place is not None else None
        if place is None or tool is None or not _may(caller, tool) or place[1] not in tool.asked:
            return UNKNOWN
        if not tool.pods:
            return NOT_RUNNING
        made = (
            ToolAdmission(
                origin=origin,
                credential=credential,
                upstream=_upstream(pod, place[1]),
                caller=caller,
                caller_key=caller_key,
                tool=tool,
                pod=pod,
                port=place[1],
            )
            for pod in tool.pods
        )
        if len(self._admissions) >= REMEMBERED_MAX:
            self._admissions.clear()
        turns = self._admissions[origin, credential] = Turns(tuple(made))
        return turns

    async def ended(self, admissions: Collection[Admission]) -> Sequence[Admission]:
        await self._look_again({place[0] for each in admissions if (place := read_origin(each.origin)) is not None})
        ended = []
        for each in admissions:
            now = self._valid(each.origin, each.credential) or await self._admitted(each.origin, each.credential)
            if isinstance(now, NotAdmitted) or all(one.upstream != each.upstream for one in now.admissions):
                ended.append(each)
        return ended

    async def changed(self, timeout_s: float) -> None:
        notifier = self._plane.notifier
        if notifier.notifications == self._notifications:
            await notifier.wait(notifier.listen(), timeout_s)
        self._notifications = notifier.notifications

    async def connect(self, admission: Admission) -> PodStream:
        assert isinstance(admission, ToolAdmission)
        others = [pod for pod in admission.tool.pods if pod is not admission.pod]
        try:
            return await open_any(self._plane, [admission.pod, *others], admission.port)
        except PodAccessError as error:
            raise StreamRefused(error.problem) from error

    # --- sessions ---

    async def enter(self, origin: str, ticket: str, browsers: tuple[str, ...]) -> str | None:
        session, now = "fpg_" + secrets.token_urlsafe(32), self._plane.now()

        def unit(connection: Connection) -> str | None:
            # One that is shown at the wrong place is used up as well: it was stolen.
            given = tickets.take(connection, digest_of(ticket), TICKET, now)
            if given is None or given["origin"] != origin or given["browser"] not in browsers:
                return None
            if access_store.token(connection, given["token"]) is None:
                return None  # signed out meanwhile
            access_store.add_token(
                connection,
                _session_digest(origin, session),
                family=given["family"],
                kind=SESSION,
                subject_id=given["subject"],
                subject_type=given["kind"],
                now=now,
                expires_at=given["expires_at"],
            )
            return session

        with _for_gateway():
            return await self._plane.write(unit)

    def sign_in_url(self, origin: str, browser: str, path: str) -> str:
        return f"{self._control_url}/open?{urlencode({'origin': origin, 'browser': browser, 'path': path})}"

    def path_url(self, path: str) -> str:
        return f"{self._control_url}/open?{urlencode({'tool': path})}"

    async def origin_of(self, path: str, credential: Credential) -> str | NotAdmitted:
        found = await self._caller("", credential)
        if isinstance(found, NotAdmitted):
            return found
        with _for_gateway():
            urls = await tool_urls(self._plane, self._address, found[0], path)
        return urls[0][1] if len(urls) == 1 else UNKNOWN

    async def _caller(self, origin: str, credential: Credential) -> tuple[Caller, str] | NotAdmitted:
        """The caller, and the key under which the control plane's cache knows them."""
        for session in credential.sessions:
            digest = _session_digest(origin, session)
            try:
                with _for_gateway():
                    caller = await known(self._plane, digest, SESSIONS)
                    self._plane.session_use.note(caller.family, self._plane.now())
            except Refused:
                continue
            return MUST_CHANGE if caller.must_change_password else (caller, digest)
        if not credential.token:
            return NOT_SIGNED_IN
        try:
            with _for_gateway():
                caller = await caller_with(self._plane, credential.token)
        except Refused:
            return NOT_SIGNED_IN
        if caller.kind == "cluster":
            return UNKNOWN
        return MUST_CHANGE if caller.must_change_password else (caller, caller.token_hash)

    # --- rows ---

    async def _tool(self, workload_id: str) -> Tool | None:
        seen = self._seen.get(workload_id)
        if seen is None or not self._is_fresh(seen):
            await self._look_again({workload_id})
            seen = self._seen.get(workload_id)
        return seen.tool if seen is not None else None

    async def _look_again(self, ids: set[str]) -> None:
        """Read the rows of these that may have changed. A tool that has not is the same object as before."""
        notifications, before = self._plane.notifier.notifications, self._seen
        stale = [each for each in ids if each not in before or before[each].notifications != notifications]
        if not stale:
            return

        def unit(connection: Connection) -> dict[str, Tool | None]:
            keys = store.keys_of(connection, stale)
            unchanged = {
                each: tool
                for each in stale
                if each in keys and each in before and (tool := before[each].tool) and tool.key == keys[each][0]
            }
            rows = store.some(connection, [each for each in stale if each in keys and each not in unchanged])
            return {**unchanged, **{each: tool_of(row) for each, row in rows.items()}}

        with _for_gateway():
            found = await self._plane.read(unit)
        if len(self._seen) >= REMEMBERED_MAX:
            self._seen.clear()
        for each in stale:
            self._seen.pop(each, None)
            if each in found:  # of ids that do not exist, none is remembered
                self._seen[each] = CachedRow(found[each], notifications, time.monotonic())

    def _is_fresh(self, seen: CachedRow) -> bool:
        return seen.notifications == self._plane.notifier.notifications or time.monotonic() - seen.at < FRESH_S


async def open_any(plane: Plane, pods: Sequence[PodAddress], port: int) -> PortStream:
    """A connection to the first of these pods that takes it: a program may still be starting, or have just ended.

    Raises the `PodAccessError` of the first.
    """
    refused: PodAccessError | None = None
    for pod in pods:
        try:
            return await plane.pod_access.of(pod.cluster).open_port(pod, port)
        except PodAccessError as error:
            refused = refused or error
    assert refused is not None, "there is a pod"
    raise refused


async def tool_urls(plane: Plane, address: GatewayAddress, caller: Caller, path: str) -> list[tuple[str, str]]:
    """The tools that a documented path means to this caller: name and URL of each."""

    def unit(connection: Connection) -> list[tuple[str, str]]:
        tools = (tool_of(row) for row in store.with_urls(connection))
        return [
            (f"{tool.project}/{tool.name}", address.origin_url(tool.origin(port)) + rest)
            for tool, port, rest in meant(path, (each for each in tools if each is not None and _may(caller, each)))
        ]

    return await plane.read_apart(unit)


async def may_open(plane: Plane, caller: Caller, origin: str) -> Tool | None:
    """The tool at this origin, if the caller may use it."""
    place = read_origin(origin)
    if place is None:
        return None
    row = await plane.read(lambda connection: store.one(connection, place[0]))
    tool = tool_of(row) if row is not None else None
    return tool if tool is not None and place[1] in tool.asked and _may(caller, tool) else None


@contextmanager
def _for_gateway() -> Iterator[None]:
    """Errors of the database, as the gateway knows them."""
    try:
        yield
    except Unavailable as error:
        raise AccessUnavailable(error.status, error.problem) from error


def _may(caller: Caller, tool: Tool) -> bool:
    """A tool runs what is typed into it, so that it takes the right to change the workload."""
    needed = for_kind(Action.WORKLOAD_UPDATE, tool.kind)
    is_permitted = caller.may(needed, tool.project, tool.department, tool.cluster)
    return is_permitted and may_act_as(caller, tool.directory_user)


def _session_digest(origin: str, session: str) -> str:
    return digest_of(f"{origin}\n{session}")


def _upstream(pod: PodAddress, port: int) -> str:
    name = hashlib.sha256(f"{pod.cluster}\n{pod.pod}".encode()).hexdigest()[:32]
    return f"pod-{name}:{port}"
