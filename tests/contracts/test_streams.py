"""Changes, logs and shells over a real socket, with the client that the command uses."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette

from fairpool.api import organization as org
from fairpool.api import workload_spec as work
from fairpool.api.access import AccessRuleRequest, ScopeType, UserRequest
from fairpool.api.client import Client, Refused, Unreachable
from fairpool.api.cluster_client import ClusterClient
from fairpool.api.clusters import PodReport, PushReport, WorkloadReport
from fairpool.api.pod_spec import Compute
from fairpool.api.samples import SamplesReport
from fairpool.api.shell import Channel, Frame, ended
from fairpool.control import declarations
from fairpool.control.app import ClusterIdentity, cluster_identity, create_app
from fairpool.control.notifier import Notifier
from fairpool.control.plane import Plane
from fairpool.control.pod_access import LogPiece, LogRange, PodAccessError, PodAddress, ShellSession
from fairpool.control.sample_news import APART_S, SampleNews
from fairpool.control.settings import Settings
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.model.ids import Instant, NodeName, PodId, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.problem import Problem
from fairpool.model.status import WorkloadPhase
from fairpool.platform.backup import make_backup
from fairpool.platform.data_directory import DataDirectory
from fairpool.platform.restore import restore_backup
from tests.control.control_plane import CHEAP, choose_password
from tests.control.pod_access_fakes import NoUploadAccess
from tests.postgresql import of_sqlite

pytestmark = pytest.mark.slow


class Echo:
    """A shell that says what it hears, and ends when it hears the end."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._out: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._out.put_nowait(Frame(Channel.OUTPUT, " ".join(command).encode()))
        self.closed = False

    async def send(self, frame: Frame) -> None:
        if frame.channel is Channel.CLOSE:
            self._out.put_nowait(ended(7))
            self._out.put_nowait(None)
        else:
            self._out.put_nowait(Frame(Channel.OUTPUT, frame.data.upper()))

    async def receive(self) -> Frame | None:
        return await self._out.get()

    async def close(self) -> None:
        self.closed = True


@dataclass
class FakePodAccess(NoUploadAccess):
    """Pods that write three lines, and a fourth to those who follow."""

    shells: list[Echo] = field(default_factory=list)
    wanted: list[LogRange] = field(default_factory=list)
    reported: Mapping[str, Any] = field(default_factory=dict)

    async def read_log(self, pod: PodAddress, wanted: LogRange, *, follow: bool) -> AsyncGenerator[LogPiece]:
        self.wanted.append(wanted)
        if pod.pod.endswith("-9"):
            raise PodAccessError(Problem("pod.log_gone", "its log was cleared away", "look at a later life"))
        lines = [b"one\n", b"two\n", b"three\n"]
        data = b"".join(lines if wanted.tail is None else lines[len(lines) - wanted.tail :])[wanted.offset :]
        yield LogPiece(data, 14)
        if follow and pod.pod.endswith("-8"):
            await asyncio.Event().wait()
        if follow:
            await asyncio.sleep(0.05)
            yield LogPiece(b"four\n", 19)

    async def open_shell(self, pod: PodAddress, command: tuple[str, ...], tty: bool) -> ShellSession:
        self.shells.append(Echo(command))
        return self.shells[-1]

    async def reports(self, pod: PodAddress) -> Mapping[str, Any]:
        return self.reported


@dataclass
class Served:
    """A control plane behind a socket."""

    address: str
    pod_access: FakePodAccess
    identity: ClusterIdentity
    admin: Client
    app: Starlette
    loop: asyncio.AbstractEventLoop

    def runs(self, workload: str, incarnation: int = 0) -> None:
        """Tell the control plane that it runs."""
        pod = PodReport(
            id=PodId(f"{workload}-0-{incarnation}"),
            index=0,
            incarnation=incarnation,
            phase=PodPhase.RUNNING,
            node=NodeName("n1"),
        )
        workload_report = WorkloadReport(
            id=WorkloadId(workload), phase=WorkloadPhase.RUNNING, pods=(pod,), since=Instant(1)
        )
        number = time.time_ns()
        report = PushReport(
            cluster="local", token=Token(1), number=number, whole=True, at=Instant(1), workloads=(workload_report,)
        )
        cluster = ClusterClient(self.address, self.identity.token)
        assert cluster.push(report).takes(report)
        cluster.close()

    def submit(self, name: str, project: str = "team-a") -> str:
        spec = work.TrainingSpec(image="i")
        return self.admin.submit(work.SubmitTraining(name=name, project_id=project, spec=spec)).id


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as served:
        served.admin.create_project(org.ProjectRequest(name="team-a"))
        yield served


@contextmanager
def serving(data: Path, keep_alive_s: float = 3600) -> Iterator[Served]:
    pod_access = FakePodAccess()
    app = create_app(Settings(data=data, keep_alive_s=keep_alive_s), pod_access=pod_access, hasher=CHEAP)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    try:
        asyncio.run_coroutine_threadsafe(choose_password(app), loops[0]).result()
        identity = asyncio.run_coroutine_threadsafe(cluster_identity(app), loops[0]).result()
        with Client(address) as admin:
            admin.sign_in("test@run.ai", "password")
            yield Served(address, pod_access, identity, admin, app, loops[0])
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(5)


def test_a_reader_who_comes_back_misses_nothing(served: Served) -> None:
    start = served.admin.project("team-a").revision
    first = served.submit("t1")
    with Client(served.address, served.admin.token) as reader:
        one = next(iter(reader.changes(after=start)))
        assert (one.noun, one.id, one.verb, one.project) == ("workload", first, "created", "team-a")
        assert one.object is not None
        assert one.object["name"] == "t1"
    ids = [served.submit(f"t{number}") for number in range(2, 5)]  # while no client listens
    with Client(served.address, served.admin.token) as reader:
        rest = list(islice(reader.changes(after=one.revision), 3))
        assert [each.id for each in rest] == ids
        assert [each.revision for each in rest] == sorted(each.revision for each in rest)


def test_a_reader_hears_when_it_is_written_and_only_of_their_projects(served: Served) -> None:
    served.admin.create_project(org.ProjectRequest(name="team-b"))
    user = served.admin.create_user(
        UserRequest(email="ann@example.com", password="correct horse", need_to_change_password=False)
    )
    served.admin.create_access_rule(AccessRuleRequest(subject_id=user.id, role_id="researcher", scope_id="team-a"))
    start = served.admin.project("team-b").revision
    heard: list[str] = []
    with Client(served.address) as ann:
        ann.sign_in("ann@example.com", "correct horse")

        def listen() -> None:
            heard.extend(each.id for each in islice(ann.changes(after=start), 1))

        listening = threading.Thread(target=listen)
        listening.start()
        time.sleep(0.3)
        served.submit("theirs", "team-b")
        mine = served.submit("mine", "team-a")
        listening.join(60)
        assert heard == [mine], "it was not told when it was written: the next sign of life is an hour away"


def test_a_reader_in_a_department_hears_of_its_projects_and_of_no_others(served: Served, ann: Client) -> None:
    for name in ("research", "sales"):
        served.admin.create_department(org.DepartmentRequest(name=name))
    served.admin.create_project(org.ProjectRequest(name="inside", parent_id="research"))
    served.admin.create_project(org.ProjectRequest(name="outside", parent_id="sales"))
    rule = AccessRuleRequest(
        subject_id="ann@example.com", role_id="researcher", scope_type=ScopeType.DEPARTMENT, scope_id="research"
    )
    served.admin.create_access_rule(rule)
    start = served.admin.project("outside").revision
    served.submit("theirs", "outside")
    mine = served.submit("mine", "inside")
    (heard,) = islice(ann.changes(after=start), 1)
    assert (heard.id, heard.object is not None) == (mine, True)


def test_what_moved_away_is_heard_of_once_more_and_not_seen(served: Served, ann: Client) -> None:
    served.admin.create_project(org.ProjectRequest(name="secret"))
    served.admin.create_project(org.ProjectRequest(name="left"))
    start = served.admin.project("left").revision
    rule = AccessRuleRequest(subject_id="ann@example.com", role_id="researcher", scope_id="left")
    served.admin.create_access_rule(rule)
    moved = served.submit("moved", "left")
    stays = served.submit("stays", "team-a")
    _call(served, "DELETE", "/api/v1/org-unit/projects/left?workloads=move&to=secret")
    last = served.submit("last", "team-a")
    heard = [each for each in islice(ann.changes(after=start), 2) if each.noun == "workload"]
    assert [(each.id, each.object is not None) for each in heard] == [(stays, True), (last, True)]
    with Client(served.address, served.admin.token) as admin:
        reported = list(islice(admin.changes(after=start), 6))
    places = [(each.verb, each.project) for each in reported if each.id == moved]
    assert places == [("created", "left"), ("moved", "left"), ("moved", "secret")]


def test_what_moved_out_of_a_project_that_stays_is_heard_of_without_what_it_is(served: Served, ann: Client) -> None:
    served.admin.create_project(org.ProjectRequest(name="secret"))
    start = served.admin.project("secret").revision
    moved = served.submit("moved", "team-a")
    plane: Plane = served.app.state.plane

    def move(connection: Connection) -> None:
        target = organization_store.project(connection, "secret")
        declarations.move(plane, connection, workload_store.one(connection, moved), target)

    asyncio.run_coroutine_threadsafe(plane.write(move), served.loop).result(60)
    heard = list(islice(ann.changes(after=start), 2))
    assert [(each.id, each.verb, each.object) for each in heard] == [(moved, "created", None), (moved, "moved", None)]


WATCHES = {"resourceType": "trainings", "actions": ["update"]}


def test_changes_of_users_rules_and_roles_are_told_without_names_to_those_who_may_list_them(
    served: Served, ann: Client
) -> None:
    start = served.admin.create_project(org.ProjectRequest(name="early")).revision
    user = served.admin.create_user(UserRequest(email="new@example.com"))
    rule = AccessRuleRequest(subject_id=user.id, role_id="researcher", scope_id="team-a")
    served.admin.delete_access_rule(served.admin.create_access_rule(rule).id)
    _call(served, "POST", "/api/v1/authorization/roles", {"name": "Watcher", "permissions": [WATCHES]})
    served.admin.delete_user(user.id)
    mine = served.submit("mine", "team-a")
    with Client(served.address, served.admin.token) as admin:
        heard = list(islice(admin.changes(after=start), 6))
    assert [each.noun for each in heard] == ["user", "access-rule", "access-rule", "role", "user", "workload"]
    assert {(each.id, each.verb, each.object) for each in heard[:-1]} == {("", "changed", None)}
    heard = list(islice(ann.changes(after=start), 2))
    assert [(each.noun, each.id) for each in heard] == [("role", ""), ("workload", mine)], "everyone may list roles"


def test_a_template_of_the_tenant_is_news_for_researchers_and_one_of_another_project_is_not(
    served: Served, ann: Client
) -> None:
    start = served.admin.create_project(org.ProjectRequest(name="foreign")).revision
    for name, scope in (("theirs", {"scope": "project", "projectId": "foreign"}), ("all", {"scope": "tenant"})):
        made = {"meta": {"name": name, **scope}, "spec": {"gpuDevicesRequest": 1}}
        _call(served, "POST", "/api/v1/asset/compute", made)
    mine = served.submit("mine", "team-a")
    heard = list(islice(ann.changes(after=start), 2))
    assert [(each.noun, each.id) for each in heard] == [("compute", ""), ("workload", mine)]


def test_a_stream_ends_when_its_reader_has_no_role_left(served: Served, ann: Client) -> None:
    with ann._stream("GET", "/api/v1/changes", headers={}) as pieces:
        next(pieces)
        _role_is_taken_away(served)
        assert list(pieces) is not None  # it comes to an end


def test_who_was_given_a_department_hears_of_the_work_in_its_projects(served: Served) -> None:
    served.admin.create_department(org.DepartmentRequest(name="research"))
    served.admin.create_project(org.ProjectRequest(name="team-r", parent_id="research"))
    served.admin.create_user(
        UserRequest(email="head@example.com", password="correct horse", need_to_change_password=False)
    )
    served.admin.create_access_rule(
        AccessRuleRequest(
            subject_id="head@example.com",
            role_id="researcher",
            scope_type=ScopeType.DEPARTMENT,
            scope_id="research",
        )
    )
    start = served.admin.project("team-r").revision - 1
    served.submit("theirs", "team-a")
    ours = served.submit("ours", "team-r")
    with Client(served.address) as head:
        head.sign_in("head@example.com", "correct horse")
        heard = list(islice(head.changes(after=start), 2))
    assert [(each.noun, each.id) for each in heard] == [("project", "team-r"), ("workload", ours)]


def test_a_stream_ends_when_its_reader_is_signed_out(served: Served) -> None:
    with Client(served.address) as other:
        other.sign_in("test@run.ai", "password")
        with other._stream("GET", "/api/v1/changes", headers={}) as pieces:
            next(pieces)
            with Client(served.address, other.token) as same:
                same.sign_out()
            assert list(pieces) is not None  # it comes to an end


def test_a_page_hears_that_something_was_measured_and_resumes_where_it_was(served: Served) -> None:
    start = served.admin.project("team-a").revision
    with Client(served.address, served.admin.token) as page, page._stream("GET", "/api/v1/changes", headers={}) as said:
        first = next(said)
        assert f"id: {start}\n".encode() in first
        assert b"event: alive\n" in first, "a page learns at once where the stream begins"
        report = SamplesReport(at=Instant(time.time_ns() // 1_000_000)).to_json()
        for _ in range(3):
            url, headers = (
                f"{served.address}/api/v1/cluster/samples",
                {"Authorization": f"Bearer {served.identity.token}"},
            )
            assert httpx2.post(url, content=report, headers=headers).status_code == 200
        heard = next(said)
        data = {"revision": start, "noun": "samples", "id": served.identity.id, "verb": "stored"}
        assert heard.decode() == f"event: samples\ndata: {json.dumps(data, separators=(',', ':'))}\n\n", "it has no id"
        submitted = served.submit("t1")
        assert f'"id":"{submitted}"' in next(said).decode(), "the samples that came at once are announced together"
    with Client(served.address, served.admin.token) as reader:
        assert next(iter(reader.changes(after=start))).id == submitted


def test_a_stream_is_never_silent_for_long(tmp_path: Path) -> None:
    with serving(tmp_path, keep_alive_s=0.05) as served, Client(served.address, served.admin.token) as page:
        with page._stream("GET", "/api/v1/changes", headers={}) as said:
            next(said)
            for _ in range(3):
                alive = next(said).decode()
                assert alive.startswith("event: alive\ndata: {"), "browsers hide comments from pages"
                assert "id:" not in alive
        changes = page.changes(after=served.admin.create_project(org.ProjectRequest(name="team-a")).revision)
        submitted = served.submit("t1")
        assert next(changes).id == submitted, "for programs it is no change"


def test_samples_are_announced_for_each_cluster_and_not_too_often() -> None:
    now = 100.0
    said: list[str] = []
    news = SampleNews(Notifier(), lambda: now)
    news.announce_elsewhere = said.append
    before = news.counts
    for cluster in ("a", "a", "b"):
        news.stored(cluster)
    assert (news.since(before), said) == (["a", "b"], ["a", "b"])
    before, now = news.counts, now + APART_S
    news.heard(frozenset({"samples/b", "callers", "samples/"}))
    assert news.since(before) == ["b"], "another process has stored some"
    news.stored("a")
    assert (news.since(before), said) == (["a", "b"], ["a", "b", "a"])


def test_a_revision_from_another_database_starts_anew(served: Served) -> None:
    with Client(served.address, served.admin.token) as reader:
        assert next(iter(reader.changes(after=10**9))).verb == "reset"
        with pytest.raises(Refused):
            list(reader._stream("GET", "/api/v1/changes", headers={"Last-Event-ID": "x"}).__enter__())


@pytest.mark.parametrize("folder", ["old", "new"])
@of_sqlite
def test_a_reader_from_before_a_restore_is_told_to_look_at_everything_anew(tmp_path: Path, folder: str) -> None:
    """However much has happened since, so that a count that went on from the backup would have caught up."""
    with serving(tmp_path / "old") as served:
        served.admin.create_project(org.ProjectRequest(name="team-a"))
        read = [served.admin.project("team-a").revision]
        make_backup(DataDirectory(tmp_path / "old"), tmp_path / "backup")
        served.submit("lost")
        with Client(served.address, served.admin.token) as reader:
            read += [each.revision for each in islice(reader.changes(after=read[0]), 1)]
    data_directory = DataDirectory(tmp_path / folder)
    data_directory.prepare()
    restore_backup(data_directory, tmp_path / "backup")
    with serving(tmp_path / folder) as served:
        first, *more = [served.submit(f"again-{number}") for number in range(5)]
        with Client(served.address, served.admin.token) as reader:
            reported = [next(iter(reader.changes(after=revision))) for revision in [0, *read]]
            assert {each.verb for each in reported} == {"reset"}
            last = served.submit("last")
            after = next(iter(reader.changes(after=reported[0].revision)))
        assert (after.noun, after.id) == ("workload", last), "from there on nothing is missed"
        assert {each.id for each in served.admin.all_workloads()} == {first, *more, last}


def test_logs_past_and_live(served: Served) -> None:
    workload = served.submit("t1")
    with pytest.raises(Refused, match="no pods yet"):
        list(served.admin.logs(workload))
    served.runs(workload)
    assert b"".join(served.admin.logs(workload)) == b"one\ntwo\nthree\n"
    assert b"".join(served.admin.logs(workload, tail=1)) == b"three\n"
    assert b"".join(served.admin.logs(workload, offset=4)) == b"two\nthree\n"
    assert b"".join(served.admin.logs(workload, pod="t1-0-0", follow=True)).endswith(b"four\n")
    with pytest.raises(Refused, match="no pod 'x'"):
        list(served.admin.logs(workload, pod="x"))
    served.runs(workload, incarnation=9)
    with pytest.raises(Refused, match="cleared away"):
        list(served.admin.logs(workload, pod="t1-0-9"))


def test_a_log_since_a_moment_and_with_times(served: Served) -> None:
    workload = served.submit("t1")
    served.runs(workload)
    pod_access = served.pod_access
    list(served.admin.logs(workload, since="2026-11-15T12:00:00Z", timestamps=True, tail=0))
    assert pod_access.wanted.pop() == LogRange(tail=0, since=Instant(1_794_744_000_000), timestamps=True)
    before = time.time() * 1000
    list(served.admin.logs(workload, since="10m"))
    since = pod_access.wanted.pop().since
    assert since is not None
    assert before - 600_000 <= since + 1 <= time.time() * 1000 - 600_000 + 1
    with pytest.raises(Refused) as wrong:
        list(served.admin.logs(workload, since="yesterday", offset=3))
    assert [each.field for each in wrong.value.items] == ["offset", "since"]


def test_a_shell_goes_both_ways_and_ends_with_its_exit_code(served: Served) -> None:
    workload = served.submit("t1")
    served.runs(workload)
    with served.admin.shell(workload, ["bash", "-l"], tty=True) as shell:
        assert shell.receive(60) == Frame(Channel.OUTPUT, b"bash -l")
        shell.send(b"ls")
        assert shell.receive(60) == Frame(Channel.OUTPUT, b"LS")
        shell.send_end()
        last = shell.receive(60)
        assert last is not None
        assert (last.channel, b'"exitCode": 7' in last.data) == (Channel.ENDED, True)
        assert shell.receive(60) is None
    with served.admin.shell(workload) as shell:
        assert shell.receive(60) == Frame(Channel.OUTPUT, b"")
    end = time.monotonic() + 60
    while not all(each.closed for each in served.pod_access.shells):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_who_gets_no_shell_is_told_why(served: Served) -> None:
    workload = served.submit("t1")
    with pytest.raises(Refused, match="no pods yet") as waiting, served.admin.shell(workload, ["bash"]):
        pass
    assert (waiting.value.status, waiting.value.problems[0].code) == (404, "pod.unknown")
    served.runs(workload)
    with Client(served.address) as anonymous, pytest.raises(Refused) as refused, anonymous.shell(workload, ["sh"]):
        pass
    assert (refused.value.status, refused.value.problems[0].code) == (401, "access.not_signed_in")
    with pytest.raises(Refused, match="no pod 'x'"), served.admin.shell(workload, ["bash"], pod="x"):
        pass
    with pytest.raises(Refused) as wrong, served.admin.shell(workload, ["x"] * 300, pod="y" * 300):
        pass
    assert [each.field for each in wrong.value.items] == ["command", "pod"]  # both at once
    assert served.pod_access.shells == []


@pytest.fixture
def ann(served: Served) -> Iterator[Client]:
    """A researcher of team-a, signed in."""
    user = served.admin.create_user(
        UserRequest(email="ann@example.com", password="correct horse", need_to_change_password=False)
    )
    served.admin.create_access_rule(AccessRuleRequest(subject_id=user.id, role_id="researcher", scope_id="team-a"))
    with Client(served.address) as ann:
        ann.sign_in("ann@example.com", "correct horse")
        yield ann


def _role_is_taken_away(served: Served) -> None:
    (rule,) = [each for each in served.admin.access_rules() if each.scope_id == "team-a"]
    served.admin.delete_access_rule(rule.id)


def _signs_out(served: Served) -> None:
    _call(served, "POST", "/api/v1/users/ann@example.com/logout")


def _call(served: Served, method: str, path: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {served.admin.token}", "Content-Type": "application/json"}
    content = json.dumps(body).encode() if body is not None else None
    answer = served.admin._http.request(method, path, headers=headers, content=content)
    assert not answer.is_error, answer.content
    return answer


REVOCATIONS = {
    "deleted": lambda served: served.admin.delete_user("ann@example.com"),
    "signed out": _signs_out,
    "role taken away": _role_is_taken_away,
}


@pytest.mark.parametrize("revoke", REVOCATIONS.values(), ids=list(REVOCATIONS))
def test_a_shell_ends_with_the_right_to_it(served: Served, ann: Client, revoke: Callable[[Served], None]) -> None:
    workload = served.submit("t1")
    served.runs(workload)
    with ann.shell(workload, ["bash"]) as shell:
        assert shell.receive(60) == Frame(Channel.OUTPUT, b"bash")
        served.submit("another")  # something is written, and she stays
        shell.send(b"ls")
        assert shell.receive(60) == Frame(Channel.OUTPUT, b"LS")
        revoke(served)
        last = shell.receive(60)
        assert last is not None
        assert (last.channel, b"no longer have permission" in last.data) == (Channel.ENDED, True)
        assert shell.receive(60) is None
    end = time.monotonic() + 60
    while not served.pod_access.shells[0].closed:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("revoke", REVOCATIONS.values(), ids=list(REVOCATIONS))
def test_a_command_that_comes_after_the_right_to_it_is_gone_is_not_run(
    served: Served, ann: Client, revoke: Callable[[Served], None]
) -> None:
    workload = served.submit("t1")
    served.runs(workload)
    with ann._frames(f"/api/v1/workloads/{workload}/exec", [("commandFollows", True)]) as shell:
        revoke(served)
        shell.send_command(["bash"])
        last = shell.receive(60)
        assert last is not None
        assert last.channel == Channel.ENDED
    assert served.pod_access.shells == []


@pytest.mark.parametrize("revoke", REVOCATIONS.values(), ids=list(REVOCATIONS))
def test_a_log_that_is_followed_ends_with_the_right_to_it(
    served: Served, ann: Client, revoke: Callable[[Served], None]
) -> None:
    workload = served.submit("t1")
    served.runs(workload, incarnation=8)
    lines = iter(ann.logs(workload, follow=True))
    assert next(lines) == b"one\ntwo\nthree\n"
    revoke(served)
    assert b"no longer have permission" in b"".join(lines)


def test_a_shell_is_in_the_audit_log_from_its_beginning_to_its_end(served: Served, ann: Client) -> None:
    workload = served.submit("t1")
    served.runs(workload)

    def lines() -> list[tuple[str, str]]:
        path = "/api/v1/audit/log?entityType=workload&subject=ann@example.com"
        return [(each["action"], each["entity_id"]) for each in _call(served, "GET", path).json()["entries"]]

    with ann.shell(workload, ["bash", "--password=hunter2"]) as shell:
        assert shell.receive(60) is not None
        assert lines() == [("open-shell", workload)]
    end = time.monotonic() + 60
    while len(lines()) < 2:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert lines() == [("close-shell", workload), ("open-shell", workload)]


def test_a_refusal_names_the_field_of_each_problem(served: Served) -> None:
    spec = work.TrainingSpec(image="i", compute=Compute(gpu="2.5"), node_pools=["nowhere"])
    with pytest.raises(Refused) as refused:
        served.admin.submit(work.SubmitTraining(name="No", project_id="team-a", spec=spec))
    fields = {each.problem.code: each.field for each in refused.value.items}
    assert set(fields.values()) == {"name", "spec.compute.gpu", "spec.nodePools"}
    assert [each.code for each in refused.value.problems] == list(fields)


def test_a_control_plane_that_is_not_there_is_unreachable() -> None:
    with Client("http://127.0.0.1:1") as client, pytest.raises(Unreachable):
        client.me()
