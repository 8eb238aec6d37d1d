"""Pods with ports have a network of their own: only the platform reaches them, and they reach what the machine does."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairpool.agent import process_table
from fairpool.agent.traffic_file import relayed_bytes
from fairpool.model.ids import PodId
from fairpool.model.observation import PodState
from fairpool.model.problem import Problem
from fairpool.model.relay_port import RELAY_PORT
from tests.local_machine import PYTHON, TIMEOUT_S, Machine, a_machine
from tests.ordinary_user import UID, run_as_ordinary_user

pytestmark = pytest.mark.slow

PORT = 18871
SAYS_ITS_NAME = """
import os, socketserver, sys
class Tool(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(os.environ["JOB_NAME"].encode())
socketserver.ThreadingTCPServer.allow_reuse_address = True
server = socketserver.ThreadingTCPServer((sys.argv[1], int(sys.argv[2])), Tool)
print("listening", flush=True)
server.serve_forever()
"""
TRIES = """
import socket, sys
for place in sys.argv[1:]:
    host, _, port = place.rpartition(":")
    try:
        print(place, socket.create_connection((host, int(port)), 20).recv(99).decode() or "closed", flush=True)
    except OSError as error:
        print(place, type(error).__name__, flush=True)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with a_machine(tmp_path / "data") as machine:
        missing = {name: machine.engine.supervisor.unavailable.get(name) for name in ("isolation", "network")}
        if any(missing.values()):
            pytest.skip(f"this system does not permit it: {missing}")
        yield machine


def outer_address() -> str:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network")
        return str(trial.getsockname()[0])


def a_tool(machine: Machine, name: str, host: str = "0.0.0.0") -> PodId:
    pod = machine.up(name, PYTHON, "-c", SAYS_ITS_NAME, host, str(PORT), ports=(PORT,))
    until_it_listens(machine, pod)
    return pod


def until_it_listens(machine: Machine, pod: PodId) -> None:
    def is_listening() -> bool:
        seen = machine.see(pod)
        assert seen.state is not PodState.EXITED, f"{seen.message}\n{machine.log(pod)}"
        return "listening" in machine.log(pod)

    machine.until(is_listening, f"{pod} listens")


def heard(machine: Machine, pod: PodId) -> str:
    """What the tool says to the platform."""
    connection = machine.engine.supervisor.connect(pod, PORT)
    assert isinstance(connection, socket.socket), connection
    with connection:
        return connection.recv(99).decode()


def tried(machine: Machine, name: str, *places: str, ports: tuple[int, ...] = ()) -> list[str]:
    """What another pod gets at these places."""
    pod = machine.start(machine.order(name, PYTHON, "-c", TRIES, *places, ports=ports))
    machine.until_exited(pod)
    return machine.log(pod).splitlines()


def test_only_the_platform_reaches_a_tool_and_no_other_pod_nor_local_user(machine: Machine) -> None:
    pod = a_tool(machine, "notebook")
    assert heard(machine, pod) == "notebook"
    places = [f"{host}:{PORT}" for host in ("127.0.0.1", "::1", "10.0.2.100", outer_address())]
    beside = tried(machine, "beside", *places)
    assert [line.split()[1] for line in beside[:2]] == ["ConnectionRefusedError"] * 2
    assert beside[3].endswith("ConnectionRefusedError")
    another = tried(machine, "another-tool", *places, ports=(PORT,))
    assert not any("notebook" in line for line in (*beside, *another))
    as_other_user = f"import encodings.idna, os, socket; os.setuid({UID if os.geteuid() == 0 else os.geteuid()})\n"
    local = [sys.executable, "-c", as_other_user + TRIES, *places[:2]]
    ran = subprocess.run(local, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert [line.split()[1] for line in ran.stdout.splitlines()] == ["ConnectionRefusedError"] * 2
    assert heard(machine, pod) == "notebook"


def test_two_pods_listen_on_one_port(machine: Machine) -> None:
    pods = [a_tool(machine, "first"), a_tool(machine, "second", "127.0.0.1")]
    assert [heard(machine, pod) for pod in pods] == ["first", "second"]


def test_a_tool_that_listens_on_ipv6_alone_is_reached(machine: Machine) -> None:
    program = SAYS_ITS_NAME.replace("server =", "socketserver.TCPServer.address_family = 10\nserver =")
    pod = machine.up("six", PYTHON, "-c", program, "::1", str(PORT), ports=(PORT,))
    until_it_listens(machine, pod)
    assert heard(machine, pod) == "six"


def test_a_pod_with_ports_reaches_other_machines_but_not_the_loopback_of_this_one(machine: Machine) -> None:
    address = outer_address()
    with socket.create_server(("0.0.0.0", 0)) as service:
        port = service.getsockname()[1]
        places = (f"{address}:{port}", f"127.0.0.1:{port}", f"{address}:1")
        pod = machine.start(machine.order("client", PYTHON, "-c", TRIES, *places, ports=(PORT,)))
        service.settimeout(TIMEOUT_S)
        with service.accept()[0] as connection:
            connection.sendall(b"from the machine")
        machine.until_exited(pod)
    reached, own, nowhere = machine.log(pod).splitlines()
    assert reached == f"{places[0]} from the machine"
    assert own == f"{places[1]} ConnectionRefusedError"
    assert nowhere == f"{places[2]} ConnectionResetError"


def test_much_is_copied_in_both_directions_and_counted(machine: Machine) -> None:
    echo = """
        import hashlib, socket, sys, time
        connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), 100)
        for number in range(64):
            connection.sendall(bytes([number]) * 65536)
        connection.shutdown(socket.SHUT_WR)
        digest, count = hashlib.sha256(), 0
        while data := connection.recv(65536):
            digest.update(data)
            count += len(data)
        print(count, digest.hexdigest(), flush=True)
        time.sleep(1000)
    """
    address = outer_address()
    with socket.create_server(("0.0.0.0", 0)) as service:
        command = [PYTHON, "-c", textwrap.dedent(echo), address, str(service.getsockname()[1])]
        pod = machine.up("client", *command, ports=(PORT,))
        service.settimeout(TIMEOUT_S)
        connection = service.accept()[0]
        first = machine.engine.sample()
        with connection:
            connection.settimeout(TIMEOUT_S)
            received = b"".join(iter(lambda: connection.recv(65536), b""))
            connection.sendall(received)
    machine.until(lambda: machine.log(pod), "it has received all of it")
    assert received == b"".join(bytes([number]) * 65536 for number in range(64))
    assert machine.log(pod).split()[0] == str(len(received))
    counted = (len(received), len(received))
    machine.until(lambda: relayed_bytes(str(machine.folder(pod))) == counted, f"{counted} are counted")
    assert [each.sent_bytes_s for each in first.nodes[0].pods] == [None]
    (sampled,) = machine.engine.sample().nodes[0].pods
    assert (sampled.sent_bytes_s or 0) > 0
    assert (sampled.received_bytes_s or 0) > 0


def test_commands_in_the_pod_are_in_its_network(machine: Machine) -> None:
    pod = a_tool(machine, "notebook")
    session = machine.engine.supervisor.execute(pod, [PYTHON, "-c", TRIES, f"127.0.0.1:{PORT}"])
    assert not isinstance(session, Problem)
    assert session.wait(TIMEOUT_S) == 0
    assert os.read(session.stdout, 999).decode() == f"127.0.0.1:{PORT} notebook\n"
    session.close()


def test_a_port_that_the_pod_does_not_listen_on_is_refused(machine: Machine) -> None:
    pod = a_tool(machine, "notebook")
    for port in (PORT + 1, RELAY_PORT):
        answer = machine.engine.supervisor.connect(pod, port)
        assert isinstance(answer, Problem)
        assert answer.what == f"no process of the pod listens on port {port}"


def test_after_its_shim_was_killed_a_pod_is_reached_and_reaches_others_again(machine: Machine) -> None:
    program = f"{SAYS_ITS_NAME.replace('server.serve_forever()', '')}\n" + textwrap.dedent("""
        import socket, threading, time
        threading.Thread(target=server.serve_forever, daemon=True).start()
        while True:
            try:
                with socket.create_connection((sys.argv[3], int(sys.argv[4])), 5) as connection:
                    connection.recv(9)
            except OSError:
                time.sleep(0.1)
    """)
    address = outer_address()
    with socket.create_server(("0.0.0.0", 0)) as service:
        service.settimeout(TIMEOUT_S)
        words = ["0.0.0.0", str(PORT), address, str(service.getsockname()[1])]
        pod = machine.up("notebook", PYTHON, "-c", program, *words, ports=(PORT,))
        service.accept()[0].close()
        os.kill(machine.shim_pid(pod), signal.SIGKILL)
        machine.until(
            lambda: machine.see(pod).order.pod == pod and (machine.folder(pod) / "shim.1").is_symlink(), "replaced"
        )
        machine.until(lambda: isinstance(machine.engine.supervisor.connect(pod, PORT), socket.socket), "it answers")
        assert heard(machine, pod) == "notebook"
        for _ in range(3):  # the first may have begun with the relay that was killed
            service.accept()[0].close()


def test_nothing_is_left_of_a_network_when_its_pod_or_the_machine_service_was_killed(machine: Machine) -> None:
    pod = a_tool(machine, "notebook")
    shim = machine.shim_pid(pod)
    relays = [pid for pid in process_table.descendants(shim) if _name(pid) == "fp:pod network"]
    assert len(relays) == 1
    machine.reopen()
    machine.see(pod)
    assert heard(machine, pod) == "notebook"
    machine.stop(pod, grace_s=0)
    machine.until_exited(pod)
    machine.until(lambda: not any(map(_name, relays)), "its relay ends")


def test_a_pod_without_ports_and_pods_that_must_find_each_other_share_the_network(machine: Machine) -> None:
    show = [PYTHON, "-c", "import os; print(os.stat('/proc/self/ns/net').st_ino)"]
    own = str(os.stat("/proc/self/ns/net").st_ino)
    plain, gang = machine.order("plain", *show), machine.order("gang", *show, ports=(PORT,), together=True, pods=2)
    for order in (plain, gang):
        machine.until_exited(machine.start(order))
        assert own in machine.log(order.pod).split()
    alone = machine.start(machine.order("alone", *show, ports=(PORT,)))
    machine.until_exited(alone)
    assert machine.log(alone).strip() != own


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
    except OSError:
        return ""


@pytest.mark.skipif(os.geteuid() != 0, reason="it is run by the one that runs as root")
def test_all_of_this_holds_for_a_server_that_is_not_root() -> None:
    folder = Path(tempfile.mkdtemp(prefix="ordinary-"))
    try:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "CI") if name in os.environ}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-rs"]
        command += [f"--basetemp={folder}/t", __file__, f"--rootdir={folder}", "-c", os.devnull]
        ran = run_as_ordinary_user(command, folder, kept, 6 * TIMEOUT_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "does not permit" not in ran.stdout
