"""The control plane in a process of its own, as a world with two processes has it: its users call it over HTTP.

The process serves the real application, and dies at a step that was chosen before: between two requests, before or
after a commit, before an answer is sent. The world reads the database itself, to check what was stored. That is a file,
or with FAIRPOOL_TEST_DATABASE=postgresql a database on a server.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from sqlalchemy import select
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairpool.api.client import Client, Refused, Unreachable
from fairpool.api.organization import PoolReference, PoolResources, ProjectRequest, ResourcesUpdate
from fairpool.control import app as control_app
from fairpool.control import submit
from fairpool.control.app import cluster_identity, create_app
from fairpool.control.owner import owner_token
from fairpool.control.sealing import FILE as SECRET_KEY
from fairpool.control.settings import Settings
from fairpool.control.store import tables
from fairpool.control.store.database import Database
from fairpool.control.store.local_database import LocalDatabase
from fairpool.control.store.postgresql_database import PostgresDatabase
from fairpool.control.store.postgresql_writer import PostgresWriter
from fairpool.control.store.sqlite import Sqlite
from fairpool.control.token_keys import FILE as TOKEN_KEYS
from fairpool.model.ids import Instant, NodeName, PoolName, QueueId, WorkloadId
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.organization import NodeOverrides, ProjectRules
from fairpool.model.problem import Problem
from fairpool.model.spec import DesiredState, WorkloadSpec
from fairpool.platform.http_server import Server
from fairpool.platform.server_process import run_server
from fairpool.simulation.control_driver import ControlDriver
from fairpool.simulation.quota_requests import gpus_of, overrides_request, rules_request
from tests import postgresql
from tests.control.control_plane import CHEAP
from tests.simulation.loop_process import FORKS, HANGS_S
from tests.simulation.shared_numbers import IS_DEAD, STEPS_LEFT, SharedNumbers
from tests.simulation.submission import submission_of

DATABASE = "control.sqlite"
FOREVER_S = 10 * 365 * 86_400
UNANSWERED = "simulation.unanswered"
Wrong = tuple[str, WorkloadId | None]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Of an administrator, and of the cluster."""

    administrator: str
    cluster: str


def settings_of(folder: Path, cluster: str, now: Callable[[], Instant], url: str) -> Settings:
    return Settings(data=folder, database=url, cluster_name=cluster, now=now, access_token_s=FOREVER_S)


@lru_cache(maxsize=1)
def empty_installation(cluster: str, now: Instant) -> tuple[tempfile.TemporaryDirectory[str], Tokens]:
    """A database with tables, a cluster and an administrator, to be copied: that is faster than to make one."""
    folder = tempfile.TemporaryDirectory()
    url = postgresql.databases().url(Path(folder.name)) if postgresql.is_chosen() else ""
    app = create_app(settings_of(Path(folder.name), cluster, lambda: now, url), hasher=CHEAP)

    async def prepare() -> Tokens:
        async with app.router.lifespan_context(app):
            return Tokens(await owner_token(app.state.plane), (await cluster_identity(app)).token)

    return folder, asyncio.run(prepare())


def copied_installation(folder: Path, cluster: str, now: Instant) -> tuple[str, Tokens]:
    """The address of a copy that belongs to this folder; empty: it is a file there."""
    template, tokens = empty_installation(cluster, now)
    for keys in (TOKEN_KEYS, SECRET_KEY):
        if (Path(template.name) / keys).exists():
            shutil.copy(Path(template.name) / keys, folder / keys)
    if postgresql.is_chosen():
        return postgresql.databases().copy(Path(template.name), folder), tokens
    shutil.copy(Path(template.name) / DATABASE, folder / DATABASE)
    return "", tokens


class ControlProcess:
    """The process: started, killed by itself, started again, always at the same port."""

    def __init__(self, folder: Path, cluster: str, shared: SharedNumbers, seed: int, url: str) -> None:
        self._folder, self._cluster, self._shared, self._seed, self._url = folder, cluster, shared, seed, url
        self._starts = 0
        self._process: BaseProcess | None = None
        # Bound and not listening: the port is kept, and who connects while the process is dead is refused.
        self._port = _bound(0)
        self.address = f"http://127.0.0.1:{self._port.getsockname()[1]}"

    @property
    def is_alive(self) -> bool:
        return not self._shared.numbers[IS_DEAD]

    def start(self, steps: int) -> bool:
        """Let it live for so many steps; 0: for ever. Whether it has lived long enough to serve."""
        self._reap()
        self._shared.numbers[STEPS_LEFT], self._shared.numbers[IS_DEAD] = steps, 0
        self._starts += 1
        ready, other = FORKS.Pipe()
        port = int(self._port.getsockname()[1])
        arguments = (other, self._folder, self._cluster, port, f"{self._seed} {self._starts}", self._url)
        self._process = FORKS.Process(target=_serve_control, args=arguments, daemon=True)
        self._process.start()
        other.close()
        with ready:
            if not ready.poll(HANGS_S):
                raise TimeoutError("the process of the control plane does not start")
            try:
                return bool(ready.recv())
            except EOFError:
                return False

    def close(self) -> None:
        self._reap()
        self._port.close()

    def drop_database(self) -> None:
        """When nothing reads it any more."""
        if self._url:
            postgresql.databases().drop(self._folder)

    def _reap(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()


def _bound(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    return made


class ControlOverHttp(ControlDriver):
    """Users call the process; what is stored is read from its database.

    A user who got no answer does not know what was done, and asks again later; one who got an answer relies on it.
    """

    def __init__(self, now: Callable[[], Instant], folder: Path, cluster: str, client: Client, url: str) -> None:
        super().__init__(now, folder / DATABASE, cluster=cluster, database=PostgresDatabase(url) if url else None)
        self._client = client
        self._promised: dict[WorkloadId, DesiredState] = {}
        """What a user was told last about each workload; nothing, after a call that was not answered."""
        self._submitted: dict[str, WorkloadId] = {}
        """By the name."""

    def lost(self) -> Iterator[Wrong]:
        """Answers that are not true any more, and submissions that are there twice."""
        rows = self._database.read_now(lambda connection: connection.execute(select(tables.workloads)).fetchall())
        names = Counter(row.name for row in rows)
        found = {row.id: row for row in rows}
        for name, workload in self._submitted.items():
            if workload not in found:
                yield f"{name} was submitted, and is not there", workload
        for name, count in names.items():
            if count > 1:
                yield f"{name} was submitted once, and is there {count} times", None
        for workload, promised in self._promised.items():
            desired = found[workload].desired_state if workload in found else promised.value
            if desired != promised.value:
                yield f"{workload} is to {desired}, and a user was told that it is to {promised.value}", workload

    def submit(self, spec: WorkloadSpec) -> Problem | None:
        """Submitted again with the same key, it is there once."""

        def call() -> None:
            made = self._client.submit(submission_of(spec), f"submit {spec.name}")
            self._submitted[spec.name] = WorkloadId(made.id)
            if spec.ttl_s is None:
                self._promised[WorkloadId(made.id)] = DesiredState.RUN

        return self._tried(call)

    def suspend(self, workload: WorkloadId) -> Problem | None:
        return self._changed(workload, DesiredState.STOP, lambda: self._client.suspend(workload))

    def resume(self, workload: WorkloadId) -> Problem | None:
        return self._changed(workload, DesiredState.RUN, lambda: self._client.resume(workload))

    def delete(self, workload: WorkloadId, *, force: bool = False) -> Problem | None:
        return self._changed(workload, DesiredState.DELETE, lambda: self._client.delete_workload(workload, force=force))

    def resize(self, workload: WorkloadId, *, pods: int | None = None, minimum: int | None = None) -> Problem | None:
        return Problem("simulation.resize", "the API changes no number of pods", "submit it again")

    def _changed(self, workload: WorkloadId, desired: DesiredState, call: Callable[[], None]) -> Problem | None:
        before = self._promised.pop(workload, None)
        problem = self._tried(call)
        if problem is None:
            self._promised[workload] = desired
        elif before is not None and problem.code != UNANSWERED:
            self._promised[workload] = before
        return problem

    # --- the organization ---

    def set_quota(self, queue: QueueId, quota_milli: int, pool: PoolName = DEFAULT_POOL) -> Problem | None:
        before = self.project(queue)
        own = next((each for each in before.resources if each.pool == pool), None)
        own = own or PoolResources(node_pool=PoolReference(id=pool))
        quota = own.model_copy(update={"gpu": own.gpu.model_copy(update={"deserved": gpus_of(quota_milli)})})
        merged = ResourcesUpdate(resources=[quota]).merged_into(before.resources)
        return self._replaced(before.model_copy(update={"resources": merged}))

    def set_rules(self, project: QueueId, rules: ProjectRules) -> Problem | None:
        return self._replaced(self.project(project).model_copy(update={"scheduling_rules": rules_request(rules)}))

    def set_department(self, project: QueueId, department: str) -> Problem | None:
        return self._replaced(self.project(project).model_copy(update={"parent_id": department}))

    def add_project(self, body: ProjectRequest) -> Problem | None:
        return self._tried(lambda: self._client.create_project(body))

    def delete_project(self, project: QueueId, move_to: QueueId | None = None) -> Problem | None:
        for workload, spec in self.specs().items():
            if spec.project == project and move_to is None:
                self._promised.pop(workload, None)
        fate = "delete" if move_to is None else "move"
        return self._tried(lambda: self._client.delete_project(project, workloads=fate, move_to=move_to))

    def override_node(self, node: NodeName, overrides: NodeOverrides) -> Problem | None:
        return self._tried(lambda: self._client.override_node(node, overrides_request(overrides)))

    def _replaced(self, project: ProjectRequest) -> Problem | None:
        return self._tried(lambda: self._client.replace_project(project))

    def _tried(self, call: Callable[[], object]) -> Problem | None:
        """Why it was refused, or that no answer came; None: it was done."""
        try:
            call()
        except Refused as refusal:
            return refusal.problems[0]
        except Unreachable as error:
            return Problem(UNANSWERED, str(error), "ask again")
        return None


# --- in the process -------------------------------------------------------------------------------------------------


class _Steps:
    """Middleware: a step before each request, and before each part of an answer."""

    def __init__(self, app: ASGIApp, take_step: Callable[[], None]) -> None:
        self._app, self._take_step = app, take_step

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            self._take_step()
            await send(message)

        self._take_step()
        await self._app(scope, receive, counted)


def _serve_control(ready: Connection, folder: Path, cluster: str, port: int, seed: str, url: str) -> None:
    shared = SharedNumbers(folder / "numbers")
    database = _dying_database(shared, folder, url)
    control_app.database_at = lambda location, data: database  # type: ignore[attr-defined]
    dice = Random(f"ids {seed}")
    submit.new_id = lambda now: WorkloadId(f"{dice.getrandbits(64):016x}")  # the same seed has the same ids

    async def serve() -> None:
        app = create_app(settings_of(folder, cluster, shared.now, url), hasher=CHEAP)
        async with app.router.lifespan_context(app):
            listener = _bound(port)
            server = Server(_Steps(app, shared.take_step))
            serving = asyncio.create_task(server.serve([listener]))
            while not server.started and not serving.done():
                await asyncio.sleep(0)
            ready.send(True)
            await serving

    run_server(serve())


def _dying_database(shared: SharedNumbers, folder: Path, url: str) -> Database:
    """A step before each commit, and one after it."""
    if not url:

        class DyingSqlite(Sqlite):
            def commit(self) -> None:
                shared.take_step()
                super().commit()
                shared.take_step()

        return LocalDatabase(DyingSqlite(folder / DATABASE))
    commit = PostgresWriter.commit

    async def dying(self: PostgresWriter, sender: str) -> None:
        shared.take_step()
        await commit(self, sender)
        shared.take_step()

    PostgresWriter.commit = dying  # type: ignore[method-assign]
    return PostgresDatabase(url)
