"""State shared by all handlers (`Plane`), the caller of a request, and audited actions.

An audited action is one transaction: the change, its line in the audit log, and the answer kept for a repeated call.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import re
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from fairpool.api.access import ScopeType
from fairpool.api.exposition import ProcessFigure
from fairpool.api.wire import Answer
from fairpool.control import audit_changes, rbac
from fairpool.control.activity import Activity
from fairpool.control.change_feed import ChangeFeedCache, Read
from fairpool.control.cluster_pods import ClusterPods
from fairpool.control.denials import Denials
from fairpool.control.external_ports import PortServer
from fairpool.control.measures import Measures
from fairpool.control.notifier import Notifier
from fairpool.control.refusal import Refused, denied, refused
from fairpool.control.rendered import RenderedCache
from fairpool.control.sample_news import SampleNews
from fairpool.control.sample_store import SampleStore
from fairpool.control.sampled_gpu_time import SampledGpuTime
from fairpool.control.sealing import KeyFile
from fairpool.control.session_use import SessionUse
from fairpool.control.settings import Settings
from fairpool.control.single_flight import SingleFlight
from fairpool.control.state_cache import StateCache
from fairpool.control.store import access as access_store
from fairpool.control.store import access_revision, changes
from fairpool.control.store import audit as audit_store
from fairpool.control.store.access_revision import AccessRevision
from fairpool.control.store.database import CALLERS, MOVED, SAMPLES, TUNNELS, Closed, Connection, Database
from fairpool.control.store.recording import Recording, recorded
from fairpool.control.store.series_database import series_database_at
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.token_keys import TokenKeys
from fairpool.control.usage_sums import GpuUses
from fairpool.control.workload_requests import RequestCache
from fairpool.model.ids import SECOND_MS, Instant

log = logging.getLogger("fairpool.control")

T = TypeVar("T")

KEY_MAX = 256
CALLERS_MAX = 10_000
BELIEVED_S = 0.5
"""How long callers are taken from the cache where other processes change the same database, until it is asked again
whether one of them has changed."""
MINUTE_MS = 60 * SECOND_MS
OF_ACCESS = frozenset({"user", "access-rule", "application", "service-account", "role", "identity-provider"})
"""What is announced in the stream of changes when an action changed one."""
CHANGES = frozenset({"create", "update", "delete"})
SLICE_S = 0.003
"""How long one part of an action that is many may keep the event loop busy; what is begun is finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The user, application or cluster that a token belongs to."""

    id: str
    name: str
    kind: str
    """user, app, service-account or cluster."""
    grants: tuple[rbac.Grant, ...] = ()
    owner_grants: tuple[rbac.Grant, ...] | None = None
    """Of the user, where an access key restricts what its tokens may do."""
    access_key: str | None = None
    """The access key that the session began with."""
    token_hash: str = ""
    token_kind: str = ""
    family: str = ""
    must_change_password: bool = False
    """The password was set by an administrator: the caller may do nothing but change it."""
    expires_at: int | None = None
    idle_ms: int = 0
    """How long the session may be unused; 0: for ever."""
    used_at: int = 0
    """When it was last used, as the database knows it."""
    uid: int | None = None
    """User id of the calling process, as the kernel reports it for the Unix socket."""

    @property
    def subject_type(self) -> str:
        """What the audit log calls its kind."""
        return "User" if self.kind == "user" else "App"

    def may(self, action: rbac.Action, project: str = "", department: str = "", cluster: str = "") -> bool:
        return rbac.allowed(self.grants, action, rbac.Scope(project, department, cluster))

    def may_in_part(self, action: rbac.Action, project: str, department: str, cluster: str) -> bool:
        """The same; of an action that stands for several, one is enough."""
        return rbac.allowed_in_part(self.grants, action, rbac.Scope(project, department, cluster))

    def require(self, action: rbac.Action, project: str = "", department: str = "", cluster: str = "") -> None:
        """Refuse a caller without this permission."""
        if not self.may(action, project, department, cluster):
            raise denied()

    def require_no_key(self) -> None:
        """Refuse a session that began with an access key: a key must not decide over the account, nor make it last."""
        if self.access_key is not None:
            raise denied("an access key is not enough for this", "sign in with a password or an application's secret")

    def require_somewhere(self, action: rbac.Action) -> None:
        """Refuse a caller who has this permission in no project or department."""
        if not rbac.allowed_somewhere(self.grants, action):
            raise denied()

    def places(self, action: rbac.Action) -> Places | None:
        """Where the caller has this permission; None: everywhere."""
        return _places(self.grants, action)


@dataclass(frozen=True, slots=True)
class Places:
    """Projects, departments and clusters in which a caller has a permission."""

    projects: tuple[str, ...]
    departments: tuple[str, ...]
    clusters: tuple[str, ...] = ()

    @property
    def of_projects(self) -> dict[str, tuple[str, ...]]:
        """For `store.organization.all_projects`."""
        return {"names": self.projects, "parents": self.departments, "clusters": self.clusters}

    def covers(self, project: str | None, department: str = "", cluster: str = "") -> bool:
        return (
            project in self.projects
            or (bool(department) and department in self.departments)
            or (bool(cluster) and cluster in self.clusters)
        )


@lru_cache(maxsize=4096)
def _places(grants: tuple[rbac.Grant, ...], action: rbac.Action) -> Places | None:
    if rbac.allowed(grants, action):
        return None
    fitting = [grant for grant in grants if rbac.permits(grant, action)]
    by_type = {kind: {each.scope_id for each in fitting if each.scope_type is kind} for kind in ScopeType}
    return Places(
        projects=tuple(sorted(by_type[ScopeType.PROJECT])),
        departments=tuple(sorted(by_type[ScopeType.DEPARTMENT])),
        clusters=tuple(sorted(by_type[ScopeType.CLUSTER])),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """The outcome of an action: the answer, and its entry in the audit log."""

    body: Answer | str | None = None
    """A string is JSON already."""
    status: int = 200
    action: str = ""
    """For the audit log; empty: no entry."""
    entity_type: str = ""
    entity_id: str = ""
    entity_name: str = ""
    revision: int | None = None
    kept: Answer | None = None
    """The answer to a repeated call, if the first one contains a secret."""
    result: str = "Succeeded"
    problem: str = ""
    """The code of a refusal."""
    also: tuple[ActionResult, ...] = ()
    """Actions done with it, each with its own entry in the audit log."""
    goes_on: bool = False
    """A part is done, and the unit is to be called again for the rest, in another transaction."""

    def text(self) -> str:
        return _text(self.body)


class Slice:
    """The time that one part of an action may take."""

    def __init__(self, seconds: float | None = None) -> None:
        self._until = time.perf_counter() + (SLICE_S if seconds is None else seconds)

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self._until


def part_of(waiting: deque[T], act: Callable[[T], ActionResult | None]) -> tuple[ActionResult, ...]:
    """Act on as many of these as one part of an action may; the entries of the audit log."""
    part = Slice()
    entries = []
    while waiting:
        entries.append(act(waiting.popleft()))
        if part.is_over:
            break
    return tuple(filter(None, entries))


class Callers:
    """Cache of callers by the hash of their token; emptied when it is full, and when one may have changed.

    After a change it is not believed until the access revision (`store/access_revision.py`) was read, and where other
    processes change the same database, for a while only. One task asks for all.
    """

    def __init__(self, believed_s: float = math.inf) -> None:
        self._believed_s = believed_s
        self._known: dict[str, Caller] = {}
        self._revision: AccessRevision | None = None
        self._confirmed_at = -math.inf
        self._doubts = 0
        self._asking = SingleFlight()
        self.changes = 0
        """How often one had changed; a caller that was read before must not be kept."""

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, digest: str) -> bool:
        return self.get(digest) is not None

    @property
    def is_confirmed(self) -> bool:
        """Whether none had changed a moment ago."""
        return time.monotonic() - self._confirmed_at < self._believed_s

    def doubt(self) -> None:
        """One may have changed."""
        self._doubts += 1
        self._confirmed_at = -math.inf

    async def confirm(self, read: Read) -> None:
        """Ask whether one has changed. If that fails, it is not confirmed afterwards."""
        if not self.is_confirmed:
            await self._asking.join(lambda: self._confirm(read))

    async def _confirm(self, read: Read) -> None:
        before, doubts = self._revision, self._doubts

        def unit(connection: Connection) -> tuple[AccessRevision, set[str]]:
            now = access_revision.current(connection)
            is_same = before is not None and now.access == before.access
            return now, access_revision.unrevoked(connection, self._known) if is_same and now != before else set()

        now, unrevoked = await read(unit)
        if now != before:
            self._revision = now
            self.changes += 1
            self._known = {digest: caller for digest, caller in self._known.items() if digest in unrevoked}
        if doubts == self._doubts:  # what is changed while it is read may be missing
            self._confirmed_at = time.monotonic()

    def get(self, digest: str) -> Caller | None:
        """As far as is known to be so still."""
        return self._known.get(digest) if self.is_confirmed else None

    def keep(self, digest: str, caller: Caller, changes: int) -> None:
        """Remember a caller; `changes`: the count when it began to be read."""
        if changes != self.changes:
            return
        if len(self._known) >= CALLERS_MAX:
            self._known.clear()
        self._known[digest] = caller

    def forget(self, digest: str) -> None:
        self._known.pop(digest, None)


class ClusterFigures(Protocol):
    """The figures of a cluster as series. Called in a thread."""

    def __call__(self, own: bool, jobs: Callable[[str], bool] | None) -> str:
        """`own`: of its loop; `jobs`: what jobs report, of the projects for which this is true."""


@dataclass(slots=True)
class Plane:
    """The control plane: what all handlers share."""

    settings: Settings
    database: Database
    notifier: Notifier = field(default_factory=Notifier)
    rendered: RenderedCache = field(init=False)
    change_feed: ChangeFeedCache = field(init=False)
    pod_access: ClusterPods = field(default_factory=ClusterPods)
    callers: Callers = field(init=False)
    denials: Denials = field(default_factory=Denials)
    cluster_beside: str = ""
    """The cluster whose loop runs in this process, if one does."""
    cache: StateCache = field(default_factory=StateCache)
    port_server: PortServer | None = None
    """Listens on external ports; None: no process does."""
    process: str = field(default_factory=lambda: uuid.uuid4().hex)
    """By which other processes of the same database know this one."""
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    key_file: KeyFile = field(init=False)
    """The key that credentials are encrypted with."""
    token_keys: TokenKeys = field(init=False)
    """The keys that access tokens are signed with."""
    session_use: SessionUse = field(default_factory=SessionUse)
    samples: SampleStore = field(init=False)
    sample_news: SampleNews = field(init=False)
    measures: Measures = field(init=False)
    activity: Activity = field(default_factory=Activity)
    requests: RequestCache = field(default_factory=RequestCache)
    cluster_figures: ClusterFigures | None = None
    """Series of the cluster in this process, for Prometheus; None: there is none."""
    leases_held: int = 0
    _announcing: set[asyncio.Task[None]] = field(default_factory=set)
    gpu_uses: GpuUses = field(init=False)
    """Where the measured utilization of GPUs comes from."""

    def __post_init__(self) -> None:
        keys = self.settings.keys or self.settings.data
        self.key_file = KeyFile(keys)
        self.token_keys = TokenKeys(keys)
        self.callers = Callers(BELIEVED_S if self.database.is_shared else math.inf)
        self.database.after_access_change = self.callers.doubt
        self.database.after_commit = self.notifier.notify
        self.database.after_commit_elsewhere = self._heard
        self.measures = Measures(self.settings.program, lambda: process_figures(self))
        self.rendered = RenderedCache(gateway=self.settings.gateway)
        self.change_feed = ChangeFeedCache(self.rendered)
        self.samples = SampleStore(
            lambda: series_database_at(self.settings.database, self.settings.data), lambda: self.now() // SECOND_MS
        )
        self.sample_news = SampleNews(self.notifier)
        if self.database.is_shared:
            self.sample_news.announce_elsewhere = self._announce_samples
        self.gpu_uses = SampledGpuTime(self.samples)

    def now(self) -> Instant:
        clock = self.settings.now
        return clock() if clock is not None else Instant(time.time_ns() // 1_000_000)

    def lock(self, name: str) -> asyncio.Lock:
        """For what is done by one task of this process at a time; see also `exclusive.py`."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def read(self, unit: Callable[[Connection], T]) -> T:
        with self.measures.transaction("read"):
            return await self.database.read(unit)

    async def read_apart(self, unit: Callable[[Connection], T]) -> T:
        """In another thread, see `Database.read_apart`."""
        with self.measures.transaction("read_apart"):
            return await self.database.read_apart(unit)

    async def answer_apart(self, unit: Callable[[Connection], Answer]) -> Response:
        """An answer that is read, made and written as JSON in another thread: lists over whole tables."""
        text = await self.read_apart(lambda connection: _text(unit(connection)))
        return Response(text, media_type="application/json")

    async def write(self, unit: Callable[[Connection], T]) -> T:
        with self.measures.transaction("write"):
            return await self.database.write(unit)

    def organization_state(self, connection: Connection) -> tuple[int, int]:
        """Another whenever the organization may be another."""
        return changes.organization_revision(connection), self.database.undone

    def _heard(self, said: frozenset[str]) -> None:
        """Another process has committed something."""
        if CALLERS in said:
            self.callers.doubt()
        if MOVED in said:
            self.change_feed.forget()
        if TUNNELS in said:
            self.pod_access.tunnels.on_change()
            self.pod_access.tunnels.look_again()
        self.sample_news.heard(said)
        self.notifier.notify()

    def _announce_samples(self, cluster: str) -> None:
        """With a commit of its own: samples are in another database. It is not awaited, and may fail."""

        async def announce() -> None:
            with contextlib.suppress(Unavailable, Closed):
                await self.write(lambda _: self.database.announce(f"{SAMPLES}/{cluster}"))

        task = asyncio.get_running_loop().create_task(announce(), name="samples")
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)

    def forget_feed_when_committed(self) -> None:
        """From within a transaction: something belongs to another project now, so that other callers may see it."""
        self.database.when_committed(self.change_feed.forget)
        self.database.announce(MOVED)

    async def confirm_callers(self) -> None:
        """See whether a caller has changed, unless that was seen a moment ago."""
        if not self.callers.is_confirmed:
            await self.callers.confirm(self.read)

    async def perform(
        self, request: Request, caller: Caller, unit: Callable[[Connection], ActionResult], *, pepper: bytes = b""
    ) -> Response:
        """Run an audited action, only once for each `Idempotency-Key`, and answer. `pepper`: for a body with a secret,
        which its stored fingerprint must not help to guess.

        One that is many (delete a thousand workloads) is done in parts of `SLICE_S`, each a transaction; other requests
        are answered between them. If it is cut off, some are done, and it can be repeated.
        """
        key = request.headers.get("idempotency-key")
        if key is not None and not 0 < len(key) <= KEY_MAX:
            raise refused(
                422, "request.key_length", f"the Idempotency-Key is longer than {KEY_MAX} characters", "use a UUID"
            )
        body = await request.body()
        now = self.now()

        fingerprint = _fingerprint(request, pepper + body, caller) if key is not None else ""
        repeatable_from = now - self.settings.idempotency_s * SECOND_MS

        def whole(connection: Connection) -> ActionResult:
            _check_unchanged(connection, caller)
            if key is not None:
                before = audit_store.kept(connection, caller.id, key, repeatable_from)
                if before is not None:
                    return _repeated(before, fingerprint)
            with recorded() as recording:
                done = unit(connection)
            for line in _entries(connection, request, caller, done, recording, now):
                audit_store.add(connection, line)
            self._announce_access(connection, done)
            if key is not None and not done.goes_on:
                kept = audit_store.Kept(fingerprint, done.status, _text(done.kept or done.body))
                audit_store.keep(connection, caller.id, key, kept, now)
            return done

        while True:
            done = await self.write(whole)
            for each in (done, *done.also):
                if each.action:
                    fields = {"name": each.entity_name, "id": each.entity_id, "by": caller.name}
                    log.info(f"{each.entity_type} {each.action}", extra={"fields": fields})
            if not done.goes_on:
                return answered(done)

    def _announce_access(self, connection: Connection, done: ActionResult) -> None:
        """Users, roles and the like have no revision: the stream says that one changed, and not which."""
        changed = {each.entity_type for each in (done, *done.also) if each.action in CHANGES}
        for noun in sorted(changed & OF_ACCESS):
            changes.record(connection, noun, "", "changed", self.now(), declared=False, kept=self.settings.changes_kept)

    async def note_unlisted(self, *, is_closing: bool = False) -> None:
        """Write down how many refusals of minutes that are over have no entry of their own."""
        many = self.denials.unlisted(self.now(), is_closing=is_closing)
        if not many:
            return
        now = self.now()

        def unit(connection: Connection) -> None:
            for each in many:
                entity = ("request", f"{each.count} more refused requests within a minute", "")
                line = audit_store.without_request(now, (each.name[:256], each.subject_type), "refuse", entity)
                audit_store.add(connection, {**line, "result": "Failed", "problem": "access.many_refusals"})

        try:
            await self.write(unit)
        except BaseException:
            self.denials.put_back(many)
            raise

    async def note(self, connection: HTTPConnection, caller: Caller, action: ActionResult) -> None:
        """Add an audit entry for something that is not a transaction."""
        line = entry(connection, caller, action, self.now())
        await self.write(lambda writing: audit_store.add(writing, line))


def process_figures(plane: Plane) -> Iterator[ProcessFigure]:
    """What is looked up about this process."""
    samples, database = plane.samples, plane.database
    yield ProcessFigure("fairpool_samples_written", "Samples of clusters that were stored", samples.written, True)
    yield ProcessFigure("fairpool_samples_dropped", "Samples of clusters that were lost", samples.dropped, True)
    yield ProcessFigure("fairpool_samples_waiting", "Samples of clusters that are not stored yet", samples.waiting)
    yield ProcessFigure(
        "fairpool_samples_failing", "Whether samples cannot be stored", int(samples.problem is not None)
    )
    yield ProcessFigure("fairpool_database_failing", "Whether the database cannot be used", int(database.is_failing))
    yield ProcessFigure("fairpool_database_undone", "Units and transactions that were undone", database.undone, True)
    yield ProcessFigure("fairpool_leases_held", "Work that only this process does just now", plane.leases_held)
    yield ProcessFigure(
        "fairpool_tunnels", "Clusters that are connected to this process", len(plane.pod_access.tunnels.here())
    )


async def on_denied(connection: HTTPConnection, refusal: Exception) -> Response:
    """Answer a refusal. A denied request and a refused write get an entry in the audit log, dry runs not."""
    assert isinstance(refusal, Refused)
    plane, caller = plane_of(connection), getattr(connection.state, "caller", None)
    method = connection.scope.get("method", "")
    is_write = (
        method in _VERBS
        and isinstance(caller, Caller)
        and caller.kind != "cluster"
        and not connection.scope.get(IS_DRY_RUN, False)
    )
    if (
        isinstance(caller, Caller)
        and (refusal.is_denial or is_write)
        and plane.denials.is_worth_a_line(caller.id, plane.now(), caller.name, caller.subject_type)
    ):
        denial = ActionResult(
            action=_VERBS.get(method, "read"),
            entity_type=_entity_type(connection),
            result="Failed",
            status=refusal.status,
            problem=refusal.problems[0].code if refusal.problems else "",
        )
        await plane.note(connection, caller, denial)
    response = refusal.response()
    response.headers["X-Request-Id"] = request_id(connection)
    return response


def answered(done: ActionResult) -> Response:
    """The HTTP answer to an action."""
    headers = {} if done.revision is None else {"ETag": f'"{done.revision}"'}
    text = done.text()
    if not text:
        return Response(None, done.status if done.status != 200 else 204, headers)
    return Response(text, done.status, headers, media_type="application/json")


def check_match(request: Request, revision: int) -> None:
    """Refuse a change if the object was changed since the caller read it (If-Match)."""
    match = request.headers.get("if-match")
    if match is None or match.strip() == "*":
        return
    if str(revision) not in [each.strip().removeprefix("W/").strip('"') for each in match.split(",")]:
        fix = "read it again and reapply your change"
        raise refused(412, "request.changed_meanwhile", "this was changed after you read it", fix)


def entry(
    connection: HTTPConnection, caller: Caller, done: ActionResult, now: Instant, changes: str = ""
) -> dict[str, object]:
    """An entry of the audit log."""
    return {
        "at": now,
        "subject": caller.name[:256],
        "subject_type": caller.subject_type,
        "source_ip": connection.client.host if connection.client else "",
        "action": done.action,
        "http_method": connection.scope.get("method", "GET"),  # a WebSocket begins as one
        "url": _path(connection)[:2048],
        "entity_type": done.entity_type,
        "entity_name": (done.entity_name or done.entity_id)[:256],
        "entity_id": done.entity_id[:256],
        "result": done.result,
        "http_status": done.status,
        "request_id": request_id(connection),
        "problem": done.problem[:64],
        "changes": changes,
    }


def _entries(
    connection: Connection, request: Request, caller: Caller, done: ActionResult, recording: Recording, now: Instant
) -> list[dict[str, object]]:
    """An entry for each action, with the changes that belong to it."""
    actions = [each for each in (done, *done.also) if each.action]
    if not actions:
        return []
    changed = audit_changes.of_each(
        recording.changes(connection), [(each.entity_id, each.entity_name) for each in actions]
    )
    return [
        entry(request, caller, each, now, audit_changes.as_text(its))
        for each, its in zip(actions, changed, strict=True)
    ]


IS_DRY_RUN = "fairpool.is_dry_run"
"""In the scope of a request that changes nothing whatever its answer: set where the route has this parameter."""
REQUEST_ID = "fairpool.request_id"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")


def request_id(connection: HTTPConnection) -> str:
    """Names a request in its answer and in the audit log: as the client called it (X-Request-Id), or a random one."""
    known: str | None = connection.scope.get(REQUEST_ID)
    if known is None:
        said = connection.headers.get("x-request-id", "")
        known = connection.scope[REQUEST_ID] = said if _REQUEST_ID.fullmatch(said) else str(uuid.uuid4())
    return known


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete"}


def plane_of(connection: HTTPConnection) -> Plane:
    plane = connection.app.state.plane
    assert isinstance(plane, Plane)
    return plane


def _check_unchanged(connection: Connection, caller: Caller) -> None:
    """Refuse if the caller's permissions changed since the guard checked them: hashing a password takes long."""
    grants = access_store.grants_by_token(connection, caller.token_hash)
    if grants is None:
        raise refused(401, "access.not_signed_in", "this token was revoked", "sign in with `runai login`")
    if grants != frozenset(caller.grants if caller.owner_grants is None else caller.owner_grants):
        raise refused(409, "access.changed_meanwhile", "your permissions changed during this request", "try again")


def _repeated(before: audit_store.Kept, fingerprint: str) -> ActionResult:
    if before.fingerprint != fingerprint:
        what = "this Idempotency-Key was already used for another request, or before your permissions changed"
        raise refused(422, "request.key_reused", what, "use a new key for a new request")
    return ActionResult(body=before.answer, status=before.status)


def _fingerprint(request: Request, body: bytes, caller: Caller) -> str:
    """Includes the caller's grants: a kept answer is not repeated to a caller who has lost a role since."""
    query = request.scope["query_string"].decode("latin-1")
    digest = hashlib.sha256(f"{request.method} {_path(request)}?{query}\n".encode("utf-8", "backslashreplace"))
    digest.update(_words_of(caller.grants))
    digest.update(body)
    return digest.hexdigest()


@lru_cache(maxsize=1024)
def _words_of(grants: tuple[rbac.Grant, ...]) -> bytes:
    return repr(sorted(map(str, grants))).encode()


def _path(connection: HTTPConnection) -> str:
    """The path as requested. `connection.url` would assemble and parse it again."""
    raw: bytes | None = connection.scope.get("raw_path")
    return raw.decode("latin-1") if raw is not None else str(connection.scope["path"])


def _entity_type(connection: HTTPConnection) -> str:
    """Of a refused request, as its path has it: the noun after the version."""
    parts = [part for part in _path(connection).split("/") if part and part not in _GROUPS]
    return parts[2][:32] if len(parts) > 2 else ""


_GROUPS = frozenset({"org-unit", "authorization", "asset"})
"""Parts of paths that stand before the noun."""


def _text(body: Answer | str | None) -> str:
    if body is None or isinstance(body, str):
        return body or ""
    return body.model_dump_json(by_alias=True, exclude_none=True)
