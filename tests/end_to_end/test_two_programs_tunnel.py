"""Logs, shells, ports and questions between `fairpool control` and `fairpool cluster`, while a link or side dies."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from fairpool.api.client import Client, Refused
from fairpool.api.shell import Channel
from fairpool.api.workload_spec import SubmitTraining
from fairpool.scheduler.snapshot_file import Loaded, from_bytes
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_two_programs import make_project, submit, until_phase
from tests.running_platform import PATIENCE_S
from tests.two_programs import ClusterProcess, ControlProcess, Relay

pytestmark = pytest.mark.slow

COUNT = "import time, itertools\nfor n in itertools.count(): print(n, flush=True); time.sleep(0.01)"
ECHO = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    connection.sendall(connection.recv(100).upper())
    connection.close()
"""


def running(client: Client, program: str) -> str:
    make_project(client, "team-a", "east")
    spec = {"image": "python", "command": "python -u", "args": ["-c", program], "compute": {"gpu": "0.5"}}
    body = {"name": "job", "projectId": "team-a", "spec": spec}
    workload = client.submit(SubmitTraining.model_validate(body)).id
    until_phase(client, workload, "Running")
    return workload


class Following:
    """A reader of a log, in a thread."""

    def __init__(self, client: Client, workload: str) -> None:
        self.text = b""
        self._pieces = client.logs(workload, follow=True)
        self.ended = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for piece in self._pieces:
                self.text += piece
        finally:
            self.ended.set()

    def until(self, lines: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while self.text.count(b"\n") < lines:
            assert time.monotonic() < end, self.text[-200:]
            assert not self.ended.is_set(), self.text[-200:]
            time.sleep(0.01)

    def check(self) -> None:
        """Every number once, in order."""
        whole = self.text[: self.text.rindex(b"\n")].split(b"\n")
        assert whole == [b"%d" % number for number in range(len(whole))]


def test_a_follower_keeps_its_place_when_the_link_breaks_and_when_the_cluster_is_killed(
    control: ControlProcess, cluster: ClusterProcess, relay: Relay
) -> None:
    client = control.administrator()
    workload = running(client, COUNT)
    reader = Following(control.administrator(), workload)
    reader.until(50)
    relay.cut()
    time.sleep(1.0)
    relay.mend()
    reader.until(reader.text.count(b"\n") + 100)
    cluster.kill()
    cluster.up()
    reader.until(reader.text.count(b"\n") + 100)
    client.suspend(workload)
    assert reader.ended.wait(PATIENCE_S), "it ends with the pod"
    reader.check()


def test_commands_ports_and_past_logs_reach_the_pod(control: ControlProcess, cluster: ClusterProcess) -> None:
    client = control.administrator()
    workload = running(client, ECHO)
    with client.shell(workload, ["sh", "-c", "read line; echo got $line; exit 4"]) as shell:
        shell.send(b"hello\n")
        seen, code = b"", b""
        while (frame := shell.receive(PATIENCE_S)) is not None:
            seen, code = (seen + frame.data, code) if frame.channel is Channel.OUTPUT else (seen, frame.data)
    assert seen == b"got hello\n"
    assert b'"exitCode": 4' in code
    cluster.until(lambda: b"".join(client.logs(workload)).endswith(b"\n"), "it listens")
    port = int(b"".join(client.logs(workload)))
    with client.port(workload, port) as connection:
        connection.send(b"ping")
        answer = connection.receive(PATIENCE_S)
        assert answer is not None
        assert answer.data == b"PING"
    own = int(control.address.rpartition(":")[2])
    with pytest.raises(Refused, match="no process of the pod"), client.port(workload, own):
        pass
    cluster.kill()
    cluster.until(lambda: is_refused(client, workload), "the cluster is away")
    cluster.up()
    cluster.until(lambda: not is_refused(client, workload), "the cluster is back")


def is_refused(client: Client, workload: str) -> bool:
    try:
        list(client.logs(workload))
    except Refused as refusal:
        return refusal.problems[0].code in ("cluster.away", "tunnel.lost")
    return False


def test_a_shell_ends_with_a_message_when_the_cluster_is_killed(
    control: ControlProcess, cluster: ClusterProcess
) -> None:
    client = control.administrator()
    workload = running(client, COUNT)
    with client.shell(workload, ["sh", "-c", "echo ready; sleep 1000"]) as shell:
        first = shell.receive(PATIENCE_S)
        assert first is not None
        assert first.data == b"ready\n"
        cluster.kill()
        last = shell.receive(PATIENCE_S)
    assert last is not None
    assert last.channel is Channel.ENDED
    assert b"connection" in last.data
    cluster.up()


def runai(config: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """The command of the user who started the control plane, and its environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRPOOL_")}
    command = [sys.executable, "-m", "fairpool.cli.runai.main", *arguments, "-p", "team-a"]
    return command, {**kept, "FAIRPOOL_CONFIG": str(config)}


def answer_at(port: int) -> bytes:
    """What the program in the pod answers through a forwarded port; empty: nothing does."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(b"ping")
            return connection.recv(100)
    except OSError:
        return b""


def test_open_commands_say_so_when_the_cluster_and_then_the_control_plane_is_killed(
    control: ControlProcess, cluster: ClusterProcess, tmp_path: Path
) -> None:
    client = control.administrator()
    workload = running(client, ECHO)
    cluster.until(lambda: b"".join(client.logs(workload)).endswith(b"\n"), "it listens")
    port = int(b"".join(client.logs(workload)))
    config = tmp_path / "config"
    with Terminal(*runai(config, "port-forward", "job", "--port", f"0:{port}")) as forward:
        forward.read_until("Ctrl-C ends it.")
        local = int(forward.text.partition("127.0.0.1:")[2].partition(" ")[0])
        cluster.until(lambda: answer_at(local) == b"PING", "it is forwarded")
        said = {cluster: "the cluster is away", control: "The server does not answer"}
        for side, words in said.items():
            with Terminal(*runai(config, "bash", "job")) as bash:
                bash.read_until("$ ")
                forward.text = ""
                side.kill()
                bash.read_until("connection")
            assert bash.code == 255, bash.text
            cluster.until(lambda: answer_at(local) == b"", "nothing is forwarded")
            forward.read_until(words)
            side.up()
            cluster.until(lambda: answer_at(local) == b"PING", "it is forwarded again, from the same port")
        forward.interrupt()
    assert forward.code == 130


def test_questions_are_answered_from_the_live_snapshot(control: ControlProcess, cluster: ClusterProcess) -> None:
    client = control.administrator()
    make_project(client, "team-a", "east")
    spec = {"image": "python", "command": "sleep 1000", "compute": {"gpu": "2"}}
    wanted = SubmitTraining.model_validate({"name": "job", "projectId": "team-a", "spec": spec})
    end = time.monotonic() + PATIENCE_S
    while (found := client.check(wanted).forecast) is None or found.outcome != "starts":
        assert time.monotonic() < end, found  # it waits until the cluster knows its project
        time.sleep(0.1)
    workload = client.submit(wanted).id
    until_phase(client, workload, "Running")
    (pod,) = client.pods(workload)
    assert pod.node == found.places[0].node, "it runs where the forecast said"
    loaded = from_bytes(b"".join(client.snapshot("east")))
    assert isinstance(loaded, Loaded)
    assert [group.id for group in loaded.snapshot.groups] == [workload]
    without = client.what_if("east", {"withoutNodes": [pod.node]})
    assert without.changed.starting + without.changed.waiting == 1, "it would start elsewhere, or wait"
    cluster.until(lambda: bool(client.past_cycles("east")), "a past cycle is kept")
    submit(client, "other")
    cluster.kill()
    cluster.until(lambda: client.check(wanted.model_copy(update={"name": "x"})).forecast is not None, "it answers")
    away = client.check(wanted.model_copy(update={"name": "x"})).forecast
    assert away is not None
    assert (away.outcome, away.message) == ("unknown", "the cluster is away")
    cluster.up()


def test_a_control_plane_that_stops_answers_the_cluster_that_waits_for_changes(
    control: ControlProcess, cluster: ClusterProcess
) -> None:
    client = control.administrator()
    make_project(client, "team-a", "east")
    workload = submit(client, "job")
    until_phase(client, workload, "Running")
    control.down()
    said = control.data_directory.log.read_text()
    assert "server shutting down" in said
    assert "Traceback" not in said
    assert not re.search(r"cluster/pull.*\b5\d\d\b", said), "the request that waited got an answer"
    control.up()
    client = control.administrator()
    cluster.until(lambda: not is_refused(client, workload), "logs are reached again")
