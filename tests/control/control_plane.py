"""A control plane to talk to in a test: real application, real database, cheap passwords, a clock one can turn."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher
from starlette.applications import Starlette
from starlette.testclient import TestClient

from fairpool.api.clusters import (
    EventReport,
    GoneReport,
    NodeReport,
    PodReport,
    PullAnswer,
    PushAnswer,
    PushReport,
    WorkloadReport,
)
from fairpool.api.message import VERSION
from fairpool.control.app import cluster_identity, create_app
from fairpool.control.pod_access import PodAccess
from fairpool.control.settings import FIRST_PASSWORD, FIRST_USER, Settings
from fairpool.control.store import access as store
from fairpool.control.store.database import Connection
from fairpool.control.web_ui import WebUi
from fairpool.model.ids import Instant, NodeName, PodId, PoolName, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import Cause, Outcome
from fairpool.model.status import WorkloadPhase
from tests.control.pod_access_fakes import NoPodAccess

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
HERE = "http://127.0.0.1:8080"
NO_PODS = NoPodAccess()
START = Instant(1_800_000_000_000)


@dataclass
class Clock:
    """Stands still until it is turned."""

    now: Instant = START

    def __call__(self) -> Instant:
        return self.now

    def turn(self, seconds: float) -> None:
        self.now = Instant(self.now + int(seconds * 1000))


@dataclass
class ControlPlane:
    """One control plane, its clock, and its callers."""

    app: Starlette
    http: TestClient
    clock: Clock
    cluster: str = ""
    cluster_token: str = ""
    report_number: int = 0
    tokens: dict[str, str] = field(default_factory=dict)

    def call(self, method: str, path: str, body: Any = None, *, by: str = "admin", **options: Any) -> Any:
        """The answer to one call, as one of the callers."""
        headers = {"Authorization": f"Bearer {self.tokens[by]}"} if by else {}
        headers |= options.pop("headers", {})
        return self.http.request(method, path, json=body, headers=headers, **options)

    def browser(self, base_url: str = HERE, **options: Any) -> TestClient:
        """Another client of the same server, with cookies of its own."""
        client = TestClient(self.app, base_url=base_url, **options)
        client.portal = self.http.portal  # the server's event loop, which its database connections belong to
        return client

    def sign_in(self, name: str, user: str, password: str) -> None:
        body = {"grantType": "password", "username": user, "password": password}
        answer = self.http.post("/api/v1/token", json=body)
        assert answer.status_code == 200, answer.text
        self.tokens[name] = answer.json()["accessToken"]

    def project(self, name: str, gpus: float = 4, **more: Any) -> Any:
        body = {"name": name, "resources": [{"gpu": {"deserved": gpus}}], **more}
        return expect(self.call("POST", "/api/v1/org-unit/projects", body), 201)

    def researcher(self, name: str, *projects: str) -> None:
        """A user who works in these projects."""
        email, password = f"{name}@example.com", "correct horse"
        body = {"email": email, "password": password, "needToChangePassword": False}
        user = expect(self.call("POST", "/api/v1/users", body), 201)
        for project in projects:
            rule = {"subjectId": user["id"], "roleId": "researcher", "scopeType": "project", "scopeId": project}
            expect(self.call("POST", "/api/v1/authorization/access-rules", rule), 201)
        self.sign_in(name, email, password)

    def train(self, name: str = "t1", project: str = "team-a", *, by: str = "admin", **spec: Any) -> Any:
        body = {"name": name, "projectId": project, "spec": {"image": "quickstart", "compute": {"gpu": "1"}, **spec}}
        return expect(self.call("POST", "/api/v1/workloads/trainings", body, by=by), 202)

    def pull(self, after: int = 0, wait_s: float = 0.0) -> PullAnswer:
        body = {"after": after, "waitS": wait_s, "version": VERSION}
        headers = {"Authorization": f"Bearer {self.cluster_token}"}
        answer = self.http.post("/api/v1/cluster/pull", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return PullAnswer.from_json(answer.content)

    def push(self, report: PushReport) -> PushAnswer:
        headers = {"Authorization": f"Bearer {self.cluster_token}"}
        answer = self.http.post("/api/v1/cluster/push", content=report.to_json(), headers=headers)
        assert answer.status_code == 200, answer.text
        return PushAnswer.from_json(answer.content)

    def report(self, *, whole: bool = False, token: int = 1, **reports: Any) -> PushReport:
        self.report_number += 1
        return PushReport(
            cluster="local",
            token=Token(token),
            number=self.report_number,
            after=self.report_number - 1,
            whole=whole,
            at=self.clock.now,
            **reports,
        )

    def runs(self, workload: str, *, node: str = "n1", gpus_milli: int = 1000, run: int = 0) -> WorkloadReport:
        """The report that it runs."""
        pod = PodReport(
            id=PodId(f"{workload}-0-{run}"),
            index=0,
            incarnation=run,
            phase=PodPhase.RUNNING,
            node=NodeName(node),
            started_at=self.clock.now,
        )
        return WorkloadReport(
            id=WorkloadId(workload),
            run=run,
            phase=WorkloadPhase.RUNNING,
            pool=PoolName("default"),
            gpus_milli=gpus_milli,
            pods=(pod,),
            since=self.clock.now,
        )

    def failed(self, workload: str, run: int = 0) -> WorkloadReport:
        over = self.completed(workload, run)
        pods = tuple(pod.model_copy(update={"outcome": Outcome.ERROR, "exit_code": 3}) for pod in over.pods)
        return over.model_copy(update={"phase": WorkloadPhase.FAILED, "reason": Cause.EXITED, "pods": pods})

    def completed(self, workload: str, run: int = 0) -> WorkloadReport:
        pod = PodReport(
            id=PodId(f"{workload}-0-{run}"),
            index=0,
            incarnation=run,
            phase=PodPhase.ENDED,
            node=NodeName("n1"),
            outcome=Outcome.OK,
            exit_code=0,
        )
        phase = WorkloadPhase.COMPLETED
        return WorkloadReport(id=WorkloadId(workload), run=run, phase=phase, pods=(pod,), since=self.clock.now)


def gone(workload: str, run: int = 0) -> GoneReport:
    return GoneReport(id=WorkloadId(workload), run=run)


def node(name: str, gpus: int = 8) -> NodeReport:
    return NodeReport(name=NodeName(name), pool=PoolName("default"), gpus=gpus)


def event(number: int, workload: str, kind: str = "bound") -> EventReport:
    return EventReport(number=number, at=START, kind=kind, workload=WorkloadId(workload), node=NodeName("n1"))


def expect(answer: Any, status: int) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


def codes(answer: Any) -> list[str]:
    """The codes of the problems in an answer."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return [each["code"] for each in answer.json()["problems"]]


async def choose_password(app: Starlette, password: str = FIRST_PASSWORD) -> None:
    """As if the first user had chosen a password; an installation that was there before keeps its own."""

    def unit(connection: Connection) -> None:
        first = store.user_by_email(connection, FIRST_USER)
        if first is not None and not first.password_hash:
            store.set_password(connection, first.id, CHEAP.hash(password), must_change=False)

    await app.state.plane.write(unit)


@contextmanager
def control_plane(
    data: Path | None = None,
    *,
    pod_access: PodAccess | None = NO_PODS,
    web_ui: Path | None = None,
    **settings: Any,
) -> Iterator[ControlPlane]:
    """Moves in, signs the first user in as `admin`, and gives the cluster its token. `web_ui`: the folder of a build;
    None: there is none, also if one was made in this checkout."""
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        chosen = Settings(data=data or Path(folder), now=clock, **settings)
        app = create_app(chosen, pod_access=pod_access, hasher=CHEAP, web_ui=WebUi(web_ui))
        with TestClient(app, raise_server_exceptions=True, base_url=HERE) as http:
            control = ControlPlane(app, http, clock)
            assert http.portal is not None
            http.portal.call(choose_password, app)
            control.sign_in("admin", FIRST_USER, chosen.first_password or FIRST_PASSWORD)
            identity = http.portal.call(cluster_identity, app)
            control.cluster, control.cluster_token = identity.id, identity.token
            yield control
