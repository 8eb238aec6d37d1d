"""Two `fairpool control` processes on one PostgreSQL database, behind a round-robin: nothing acknowledged is lost."""

from __future__ import annotations

import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle
from pathlib import Path

import httpx2
import pytest

from fairpool.api.calls import Refused
from fairpool.api.client import Client
from fairpool.api.cluster_client import ClusterClient
from fairpool.api.shell import Channel
from fairpool.api.workload_spec import SubmitTraining
from fairpool.model.ids import Revision
from fairpool.model.problem import Problem
from fairpool.platform import admin_socket
from tests.postgresql import PostgresServer
from tests.running_platform import PATIENCE_S, fairpool
from tests.two_programs import ClusterProcess, ControlProcess, two_controls

pytestmark = pytest.mark.slow

PIECE = 65536
AWAY_S = 10.0
SPEAKING = "import time; [(print(n), time.sleep(0.2)) for n in range(100000)]"
LINES = 60
"""So many take longer than a control process takes to start."""
PULL_S = 19.0


class RoundRobin:
    """Leads TCP connections to several ports in turn; to the next one where none listens."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = cycle(ports)
        self._count = len(ports)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                threading.Thread(target=self._lead, args=(caller,), daemon=True).start()

    def _lead(self, caller: socket.socket) -> None:
        for _ in range(self._count):
            with suppress(OSError):
                server = socket.create_connection(("127.0.0.1", next(self._ports)))
                threading.Thread(target=_copy, args=(server, caller), daemon=True).start()
                _copy(caller, server)
                return
        caller.close()

    def close(self) -> None:
        self._listener.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
            each.close()


class Planes:
    """Two control processes, and the round-robin before them."""

    def __init__(self, one: ControlProcess, other: ControlProcess, front: RoundRobin) -> None:
        self.one, self.other, self.front = one, other, front

    def through_front(self) -> Client:
        return Client(self.front.address, self.one.owner_token())


@contextmanager
def planes_on(folder: Path, url: str) -> Iterator[Planes]:
    with ExitStack() as stack:
        one, other = stack.enter_context(two_controls(folder, url))
        one.token_file("far")  # a project belongs to a cluster
        front = RoundRobin([int(each.address.rpartition(":")[2]) for each in (one, other)])
        stack.callback(front.close)
        yield Planes(one, other, front)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Durable: what it has acknowledged is on the disk."""
    server = PostgresServer()
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def planes(server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    with planes_on(tmp_path_factory.mktemp("planes"), server.url()) as planes:
        yield planes


@pytest.fixture(scope="module")
def workload(planes: Planes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A pod that runs in a cluster whose tunnel is held by the first process."""
    folder, client = tmp_path_factory.mktemp("east"), planes.one.administrator()
    cluster = ClusterProcess(folder, planes.one.address, planes.one.token_file("east"), folder / "config")
    cluster.up("--nodes", "1x2")
    client.create_project({"name": "team-a", "clusterId": "east", "resources": [{"gpu": {"deserved": 2}}]})
    spec = {"image": "python", "command": "python", "args": f"-u -c '{SPEAKING}'", "compute": {"gpu": "0.5"}}
    made = client.submit(SubmitTraining.model_validate({"name": "speaking", "projectId": "team-a", "spec": spec})).id
    cluster.until(lambda: client.workload(made).phase == "Running", "it runs")
    yield made
    cluster.clean_up()


def said_in(client: Client, workload: str, *command: str) -> tuple[bytes, bytes]:
    """What a command in a pod that reads nothing printed, and how it ended."""
    printed, end = b"", b""
    with client.shell(workload, command) as shell:
        while (frame := shell.receive(PATIENCE_S)) is not None:
            if frame.channel is Channel.OUTPUT:
                printed += frame.data
            elif frame.channel is Channel.ENDED:
                end = frame.data
                break
    return printed, end


def test_pods_are_reached_through_the_process_that_has_no_tunnel(planes: Planes, workload: str) -> None:
    other = planes.other.administrator()
    pieces = other.logs(workload, follow=True)
    log = next(pieces)
    assert said_in(other, workload, "echo", "relayed")[0] == b"relayed\n"
    assert next(other.snapshot("east")), "a question to the scheduler"
    planes.one.kill()
    began = time.monotonic()
    with pytest.raises(Refused, match="the cluster is away"):
        said_in(other, workload, "echo", "too late")
    assert time.monotonic() - began < AWAY_S, "it is not waited for"
    planes.one.up()
    until_true(lambda: _answers(other, workload), "the cluster has connected again")
    while log.count(b"\n") < LINES:
        log += next(pieces)
    assert log.splitlines()[:LINES] == [b"%d" % number for number in range(LINES)], "the log went on where it was"


def _answers(client: Client, workload: str) -> bool:
    with suppress(Refused):
        return said_in(client, workload, "echo", "again")[0] == b"again\n"
    return False


def until_true(condition: object, what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.05)


def status_of(address: str, token: str) -> int:
    return httpx2.get(f"{address}/api/v1/me", headers={"Authorization": f"Bearer {token}"}, timeout=60).status_code


def test_a_token_that_one_revoked_is_refused_by_the_other(planes: Planes) -> None:
    administrator = planes.one.administrator()
    body = {"email": "ann@example.com", "password": "correct horse 7", "needToChangePassword": False}
    user = administrator.create_user(body)
    asked = {"grantType": "password", "username": "ann@example.com", "password": "correct horse 7"}
    token = httpx2.post(f"{planes.one.address}/api/v1/token", json=asked, timeout=60).json()["accessToken"]
    assert status_of(planes.other.address, token) == status_of(planes.one.address, token) == 200
    administrator.delete_user(user.id)
    until_true(lambda: status_of(planes.other.address, token) == 401, "the other refuses it too")


def test_a_one_time_link_of_one_signs_in_once_at_either(planes: Planes) -> None:
    answer = admin_socket.ask(planes.one.data_directory.admin_socket, "welcome", PATIENCE_S, holding=[], project="")
    assert not isinstance(answer, Problem)
    used = [httpx2.get(each.address + answer["link"], timeout=60).status_code for each in (planes.other, planes.one)]
    assert used == [303, 403]


def test_a_change_at_one_ends_a_pull_that_the_other_holds(planes: Planes) -> None:
    token = planes.one.administrator().create_cluster({"name": "held"}).token
    cluster = ClusterClient(planes.other.address, token)
    seen = cluster.pull(Revision(0), 0.0).revision
    answers = []
    begun = time.monotonic()
    pulling = threading.Thread(target=lambda: answers.append(cluster.pull(seen, PULL_S)))
    pulling.start()
    made = planes.one.administrator().create_project({"name": "woken", "clusterId": "held"})
    pulling.join(PATIENCE_S)
    assert answers[0].revision >= made.revision
    assert time.monotonic() - begun < PULL_S, "it did not wait to its end"


def test_a_stream_goes_on_at_the_other_without_loss(planes: Planes) -> None:
    reader, writer = planes.through_front(), planes.other.administrator()
    first = writer.create_project({"name": "stream-0", "clusterId": "far"})
    names: list[str] = []
    is_over = threading.Event()

    def read() -> None:
        for change in reader.changes(after=first.revision - 1):
            if change.noun == "project" and change.id.startswith("stream-"):
                names.append(change.id)
            if change.id == "stream-39":
                is_over.set()
                return

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    for number in range(1, 40):
        if number in (10, 25):
            (planes.one if number == 10 else planes.other).kill()
            writer = (planes.other if number == 10 else planes.one).administrator()
        writer.create_project({"name": f"stream-{number}", "clusterId": "far"})
        if number == 20:
            planes.one.up()
    planes.other.up()
    assert is_over.wait(PATIENCE_S)
    assert names == [f"stream-{number}" for number in range(40)]


class Submitters:
    """Write through the round-robin until they are told to stop, and note what was acknowledged."""

    def __init__(self, address: str, token: str, label: str) -> None:
        self.acknowledged: list[str] = []
        self._address, self._token, self._label = address, token, label
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(each,), daemon=True) for each in range(3)]
        for each in self._threads:
            each.start()

    def _write(self, thread: int) -> None:
        number = 0
        while not self._is_over.is_set():
            number += 1
            name = f"{self._label}-{thread}-{number}"
            headers = {"Authorization": f"Bearer {self._token}", "Idempotency-Key": str(uuid.uuid4())}
            with suppress(httpx2.HTTPError):
                url = f"{self._address}/api/v1/org-unit/projects"
                body = {"name": name, "clusterId": "far", "resources": [{"gpu": {"deserved": 0}}]}
                if httpx2.post(url, json=body, headers=headers, timeout=30).status_code == 201:
                    self.acknowledged.append(name)

    def until_more(self, count: int = 5) -> None:
        wanted = len(self.acknowledged) + count
        until_true(lambda: len(self.acknowledged) >= wanted, f"{count} more are acknowledged")

    def stop(self) -> list[str]:
        self._is_over.set()
        for each in self._threads:
            each.join(PATIENCE_S)
        return self.acknowledged


def names_in(address: str, token: str) -> set[str]:
    return {each.name for each in Client(address, token).projects()}


def test_killing_either_in_the_middle_of_commits_loses_nothing_acknowledged(planes: Planes) -> None:
    submitters = Submitters(planes.front.address, planes.one.owner_token(), "killed")
    for each in (planes.one, planes.other):
        submitters.until_more()
        each.kill()
        submitters.until_more()
        each.up()
    acknowledged = submitters.stop()
    for each in (planes.one, planes.other):
        assert set(acknowledged) <= names_in(each.address, each.owner_token())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["in good order", "at once"])
def test_a_restart_of_the_server_in_the_middle_of_commits_loses_nothing_acknowledged(
    planes: Planes, server: PostgresServer, how: signal.Signals
) -> None:
    submitters = Submitters(planes.front.address, planes.one.owner_token(), f"restart-{int(how)}")
    submitters.until_more()
    server.stop(how)
    assert status_of(planes.one.address, "fpa_unknown") == 503
    assert "the control database cannot be reached" in planes.one.status["database"]["problem"]
    server.start()
    submitters.until_more()
    acknowledged = submitters.stop()
    assert set(acknowledged) <= names_in(planes.other.address, planes.other.owner_token())


def test_status_and_a_second_start_name_the_database(planes: Planes, server: PostgresServer) -> None:
    assert f"Database  {server.url()}: healthy" in planes.one.command("status").stdout
    another = server.url().replace(f"{server.port}/", f"{server.port}/another-")
    refused = planes.one.command("control", "--detach", "--database", another)
    assert refused.returncode == 1
    assert f"is running with the control database {server.url()}, not with" in refused.stderr


def test_other_keys_than_the_others_have_are_refused(planes: Planes, server: PostgresServer, tmp_path: Path) -> None:
    assert planes.one.status["is_ready"]
    where = ("--data", str(tmp_path / "third"), "--listen", "127.0.0.1:0", "--gateway-listen", "127.0.0.1:0")
    refused = fairpool("control", *where, "--database", server.url())
    assert refused.returncode != 0
    assert "--keys" in refused.stderr


def test_a_promoted_standby_has_everything_that_was_acknowledged(tmp_path: Path) -> None:
    with ExitStack() as stack:
        primary = PostgresServer()
        stack.callback(primary.close)
        primary.start()
        source = ("--host=127.0.0.1", f"--port={primary.port}", "--username=fairpool", "--write-recovery-conf")
        standby = PostgresServer(source=source)
        stack.callback(standby.close)
        standby.start()
        primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.ask("SELECT pg_reload_conf()")
        replicas = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        until_true(lambda: primary.ask(replicas) == 1, "replication is synchronous")
        url = f"postgresql://fairpool@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
        planes = stack.enter_context(planes_on(tmp_path / "planes", url))
        submitters = Submitters(planes.front.address, planes.one.owner_token(), "failover")
        submitters.until_more()
        primary.stop(signal.SIGQUIT)
        standby.ask("SELECT pg_promote()")
        submitters.until_more()
        acknowledged = submitters.stop()
        for each in (planes.one, planes.other):
            assert set(acknowledged) <= names_in(each.address, each.owner_token())
