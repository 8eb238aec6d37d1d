"""Pods in real containers of podman and docker: what an image starts, what a pod sees, how it ends, what is left."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from fairpool.agent import exec_client
from fairpool.agent.container_tool import DOCKER, LABEL, PODMAN
from fairpool.agent.devices import LogicalNode, simulated_node
from fairpool.agent.pod_secrets import FoundSecrets
from fairpool.model.container_rules import Privilege
from fairpool.model.ids import PodId, WorkloadId
from fairpool.model.observation import PodState
from fairpool.model.secret import CredentialKind, Secret
from fairpool.model.spec import PullPolicy, SecurityContext, Volume
from tests.containers import BUSYBOX, LOGIN, Containers, Podman, running_docker, running_podman, running_registry
from tests.local_machine import NODE, TOKEN, Machine, a_machine

pytestmark = pytest.mark.slow

OTHER_UID = 12345
NET_ADMIN = "0000000000001000"
START = {PODMAN: running_podman, DOCKER: running_docker}
ONLY_PODMAN = pytest.mark.parametrize("tool", [PODMAN], indirect=True)
"""For what docker, which is a daemon elsewhere, does otherwise."""
ONLY_DOCKER = pytest.mark.parametrize("tool", [DOCKER], indirect=True)


@pytest.fixture(scope="module", params=[PODMAN, DOCKER])
def tool(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    with START[request.param](tmp_path_factory.mktemp(request.param)) as tool:
        yield tool


@pytest.fixture(scope="module")
def machine(tool: Containers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with a_machine(tmp_path_factory.mktemp("containers") / "machine", nodes=nodes_of(tool)) as machine:
        yield machine
        installation = installation_of(machine)
    tool.wait_until_empty(installation)


@pytest.fixture
def own_machine(tool: Containers, tmp_path: Path) -> Iterator[Machine]:
    """For tests that kill parts of it, or that are allowed more."""
    with a_machine(tmp_path / "machine", nodes=nodes_of(tool), allowed=frozenset(Privilege)) as machine:
        yield machine
        installation = installation_of(machine)
    tool.wait_until_empty(installation)


def nodes_of(tool: Containers) -> tuple[LogicalNode, ...]:
    return (replace(simulated_node(NODE), runtime=tool.program),)


def installation_of(machine: Machine) -> str:
    (runtime,) = machine.engine.supervisor._runtimes.values()
    return runtime.settings.installation


def containers_of(machine: Machine, tool: Containers) -> list[str]:
    return tool.containers(installation_of(machine))


class Credentials:
    """A control plane that has a login for one registry."""

    def __init__(self, address: str) -> None:
        self._address = address

    def secrets(self, workload: WorkloadId, names: Sequence[str], registry: str) -> FoundSecrets:
        data = {"user": LOGIN[0].encode(), "password": LOGIN[1].encode()}
        found = Secret("registry", CredentialKind.REGISTRY, data) if registry == self._address else None
        return FoundSecrets(secrets={}, registry=found)


def said(machine: Machine, name: str, script: str, **fields: object) -> str:
    """What a shell script says in a container."""
    ended = machine.run(name, "sh", "-c", script, image=BUSYBOX, **fields)
    assert ended.exit_code == 0, (ended.message, machine.log(ended.order.pod))
    return machine.log(ended.order.pod)


# --- what starts


def test_an_image_starts_its_entrypoint_with_its_own_arguments_environment_and_directory(
    machine: Machine, tool: Containers
) -> None:
    """F-03, F-135."""
    tool.make_image(
        "localhost/trainer:1",
        ['ENTRYPOINT ["/bin/train"]', 'CMD ["--epochs", "3"]', "ENV MODEL=resnet", "WORKDIR /work", "USER 4711"],
        {"bin/train": '#!/bin/sh\necho "$@" in $(pwd) with $MODEL as $(id -u)\n', "work/data": "x"},
    )
    uid = 2_000_000_000
    ended = machine.run("own", image="localhost/trainer:1")
    assert machine.log(ended.order.pod) == f"--epochs 3 in /work with resnet as {uid}\n"
    ended = machine.run("told", image="localhost/trainer:1", arguments=("--epochs", "9"))
    assert machine.log(ended.order.pod) == f"--epochs 9 in /work with resnet as {uid}\n"
    ended = machine.run("commanded", "sh", "-c", "pwd; echo $MODEL", image="localhost/trainer:1")
    assert machine.log(ended.order.pod) == "/work\nresnet\n"


def test_variables_working_directory_and_limits_of_a_job_hold(machine: Machine) -> None:
    text = said(
        machine,
        "options",
        'echo "$TEXT|"; pwd; df -k /dev/shm | tail -n 1; hostname; ulimit -u; '
        "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null; "
        "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null; true",
        environment=(("TEXT", ' two words, a # and "quotes"'),),
        working_dir="/not/there",
        memory_limit_bytes=64 << 20,
        cpu_limit_milli=500,
        shm_bytes=32 << 20,
    )
    lines = text.splitlines()
    assert lines[:2] == [' two words, a # and "quotes"|', "/not/there"]
    assert lines[2].split()[1] == str(32 << 10)
    assert lines[3] == "options-0-0"
    assert str(64 << 20) in lines
    assert lines[-1].split()[0] == "50000"


@ONLY_PODMAN
def test_a_working_directory_that_the_image_lacks_can_be_written(machine: Machine) -> None:
    """Docker's belongs to root."""
    assert said(machine, "made", "touch new; ls", working_dir="/not/there") == "new\n"


def test_a_pod_shows_its_simulated_gpus(machine: Machine) -> None:
    text = said(machine, "devices", "nvidia-smi -L; nvidia-smi --query-gpu=index,memory.total --format=csv,noheader")
    assert text.splitlines() == ["GPU 0: Tesla V100-SXM2-32GB (UUID: SIM-dgx1-1-0)", "0, 32510 MiB"]


def test_the_exit_code_is_that_of_the_program(machine: Machine) -> None:
    ended = machine.run("seven", "sh", "-c", "exit 7", image=BUSYBOX)
    assert (ended.exit_code, ended.message) == (7, "")
    ended = machine.run("signalled", "sh", "-c", "kill -SEGV $$", image=BUSYBOX)
    assert (ended.exit_code, ended.message) == (128 + signal.SIGSEGV, "killed by SIGSEGV")
    ended = machine.run("missing", "no-such-program", image=BUSYBOX)
    assert ended.exit_code == 127
    assert "no-such-program" in machine.log(ended.order.pod)


def test_a_pod_that_exceeds_its_memory_ends_with_137(machine: Machine) -> None:
    script = "x=aaaaaaaaaaaaaaaa; while true; do x=$x$x$x; done"
    ended = machine.run("greedy", "sh", "-c", script, image=BUSYBOX, memory_limit_bytes=32 << 20)
    assert ended.exit_code == 137


# --- what it sees


def test_a_pod_sees_neither_the_machine_nor_the_platform_nor_other_pods(machine: Machine) -> None:
    other = machine.up(
        "neighbour", "sh", "-c", "echo leak > /tmp/mine; exec sleep 1000", image=BUSYBOX, environment=(("S", "1"),)
    )
    root = machine.root.resolve()
    text = said(
        machine,
        "curious",
        f"ls {root} /root /etc/shadow 2>/dev/null; cat /tmp/mine 2>/dev/null; "
        "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -c ^S=; "
        "ps | grep -c 'sleep 1000'; ls /dev; mount | grep -c ' /run/fairpool/checkpoints '; "
        "id; grep Cap /proc/self/status; touch /run/fairpool/support/x 2>/dev/null || echo ro; "
        "exit 0",
    )
    lines = text.splitlines()
    assert "leak" not in text
    assert lines[0] == "0", "no variable of another pod"
    assert "nvidia0" not in lines
    assert "uid=2000000000" in text
    assert [line.split()[1] for line in lines if line.startswith(("CapEff", "CapPrm", "CapBnd"))] == ["0" * 16] * 3
    assert "ro" in lines
    machine.stop(other, grace_s=0)


def test_projects_have_users_of_their_own(machine: Machine) -> None:
    first = said(machine, "of-a", "id -u", project="team-a")
    second = said(machine, "of-b", "id -u", project="team-b")
    assert first != second
    assert "0\n" not in (first, second)


def test_volumes_are_mounted_as_they_were_checked(machine: Machine, tmp_path: Path) -> None:
    for name in ("data", "model"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    volumes = (
        Volume(source=str(tmp_path / "data"), target="/data"),
        Volume(source=str(tmp_path / "model"), target="/model", read_only=True),
        Volume(claim="cache", target="/cache"),
    )
    said(
        machine, "writer", "echo 1 > /data/x; touch /model/x 2>/dev/null && exit 3; echo 2 > /cache/y", volumes=volumes
    )
    assert (tmp_path / "data" / "x").read_text() == "1\n"
    assert said(machine, "reader", "cat /data/x /cache/y", volumes=volumes) == "1\n2\n"
    for source, why in (("/etc/../proc", "exposes the machine"), (str(machine.root), "belongs to Fairpool")):
        order = machine.order("no", "sh", image=BUSYBOX, volumes=(Volume(source=source, target="/x"),))
        (answer,) = machine.engine.carry_out([replace(order, pod=PodId(f"no-{why[0]}"))], TOKEN)
        assert answer.status == "refused"
        assert why in answer.message


@ONLY_PODMAN
def test_a_volume_in_another_one_is_mounted_in_it_and_through_no_link(machine: Machine) -> None:
    data = machine.shared / "nested"
    data.mkdir(exist_ok=True)
    data.chmod(0o777)
    claim, folder = Volume(claim="nested", target="/pvc"), Volume(source=str(data), target="/data")
    said(machine, "planter", "ln -s /data /pvc/l; mkdir /pvc/there", volumes=(claim,))
    inner = Volume(target="/pvc/there", files=(("key", "value"),), read_only=True)
    script = "cat /pvc/there/key /pvc/new/key; stat -c %u /pvc/new; id -u"
    volumes = (claim, folder, inner, replace(inner, target="/pvc/new"))
    assert said(machine, "nested", script, volumes=volumes).startswith("valuevalue")
    ended = machine.run("through", "true", image=BUSYBOX, volumes=(claim, folder, replace(inner, target="/pvc/l/made")))
    assert "/pvc/l is a symbolic link in a volume" in ended.message
    assert list(data.iterdir()) == []


@ONLY_DOCKER
def test_docker_mounts_nothing_that_a_user_could_exchange_before_it_looks(machine: Machine, tmp_path: Path) -> None:
    data, sticky = machine.shared / "theirs", tmp_path / "sticky"
    for folder, mode in ((data, 0o755), (sticky, 0o1777), (sticky / "of-root", 0o755), (sticky / "of-user", 0o755)):
        folder.mkdir(exist_ok=True)
        folder.chmod(mode)
    os.chown(sticky / "of-user", OTHER_UID, OTHER_UID)
    claims = (Volume(claim="outer", target="/pvc"), Volume(claim="inner", target="/pvc/in"))
    for number, (volumes, why) in enumerate(
        (
            ((Volume(source=str(data), target="/data"),), f"users can replace it, as {machine.shared} is theirs"),
            ((Volume(source=f"{sticky}/of-user", target="/data"),), f"users can replace it, as {sticky} is theirs"),
            (claims, "is in the volume at /pvc"),
        )
    ):
        ended = machine.run(f"no-{number}", "true", image=BUSYBOX, volumes=volumes)
        assert ended.exit_code == 126
        assert why in ended.message
    said(machine, "kept", "ls /data", volumes=(Volume(source=f"{sticky}/of-root", target="/data"),))


def test_only_the_platform_reaches_a_port_of_a_pod(machine: Machine) -> None:
    script = "echo hello > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"
    pods = [machine.up(name, "sh", "-c", script, image=BUSYBOX) for name in ("web-a", "web-b")]
    for pod in pods:
        machine.until(lambda it=pod: _answers(machine, it), "it answers")  # type: ignore[misc]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", 8080), 2)
    ended = machine.run("unknown-caller", "sh", "-c", "wget -T 2 -q -O - http://127.0.0.1:8080/", image=BUSYBOX)
    assert ended.exit_code != 0
    os.kill(machine.shim_pid(pods[0]), signal.SIGKILL)
    machine.until(lambda: _answers(machine, pods[0]), "it answers again")
    for pod in pods:
        machine.stop(pod, grace_s=0)
        assert not os.path.exists(f"/run/netns/fairpool-{machine.mark(pod)}")


def _answers(machine: Machine, pod: PodId) -> bool:
    machine.see(pod)
    connection = machine.engine.supervisor.connect(pod, 8080)
    if not isinstance(connection, socket.socket):
        return False
    with connection:
        connection.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
        text = b""
        while part := connection.recv(4096):
            text += part
    return text.endswith(b"hello\n")


# --- privileges


@pytest.mark.parametrize(
    ("security", "what"),
    [
        (SecurityContext(host_network=True), "host-network"),
        (SecurityContext(host_ipc=True), "host-ipc"),
        (SecurityContext(uid=0, gid=0), "--allow-privilege user"),
        (SecurityContext(image_user=True), "--allow-privilege user"),
        (SecurityContext(capabilities=("SYS_ADMIN",)), "capabilities"),
    ],
)
def test_privileges_that_the_administrator_has_not_allowed_are_refused(
    machine: Machine, security: SecurityContext, what: str
) -> None:
    order = machine.order(
        f"wants-{what[-4:]}-{security.image_user:d}", "id", image=BUSYBOX, security=security, submitter_uid=None
    )
    order = replace(order, program=replace(order.program, volumes=()))
    (answer,) = machine.engine.carry_out([order], TOKEN)
    assert answer.status == "refused"
    assert what in answer.message


def test_the_user_of_a_directory_needs_no_privilege(machine: Machine) -> None:
    """F-208: the control plane knows the submitter from an identity provider."""
    security = SecurityContext(uid=OTHER_UID, gid=OTHER_UID + 1, groups=(77,), directory_user=True)
    claim = Volume(claim="of-directory", target="/pvc")
    script = "id; touch $HOME/x /pvc/x && stat -c %u:%g $HOME/x; stat -c %u:%g /pvc /pvc/x"
    user, home, project, file = said(machine, "directory", script, security=security, volumes=(claim,)).splitlines()
    group = project.partition(":")[2]
    assert user.startswith(f"uid={OTHER_UID} gid={OTHER_UID + 1} groups=77,{OTHER_UID + 1},{group}")
    assert home == f"{OTHER_UID}:{OTHER_UID + 1}"
    assert file == f"{OTHER_UID}:{group}", "claims belong to the group of the project"
    for wrong in (replace(security, uid=0), replace(security, gid=None), replace(security, groups=(0,))):
        order = machine.order(f"wrong-{wrong.uid}-{wrong.gid}-{len(wrong.groups)}", "id", image=BUSYBOX, security=wrong)
        (answer,) = machine.engine.carry_out([order], TOKEN)
        assert (answer.status, "no user that a pod can run as" in answer.message) == ("refused", True)


@pytest.mark.flag("--add-capability", "--host-ipc", "--host-network")
def test_privileges_that_are_allowed_are_given(own_machine: Machine, tool: Containers) -> None:
    """F-222: the user of a pod can be chosen."""
    assert own_machine.engine.observe(TOKEN).nodes[NODE].privileges == tuple(sorted(Privilege))
    security = SecurityContext(uid=OTHER_UID, gid=OTHER_UID, groups=(77,))
    text = said(own_machine, "allowed", "id; touch $HOME/x && echo home", security=security)
    assert f"uid={OTHER_UID} gid={OTHER_UID} groups=77,{OTHER_UID}" in text
    assert text.endswith("home\n")
    capable = SecurityContext(uid=0, gid=0, capabilities=("NET_ADMIN",))
    assert said(own_machine, "capable", "grep CapEff /proc/self/status", security=capable).split()[1] == NET_ADMIN
    tool.make_image("localhost/as-root:1", ["USER 0"])
    text = said(own_machine, "root", "id -u; ls /proc/self/ns >/dev/null", security=SecurityContext(image_user=True))
    assert text == "0\n"
    text = said(own_machine, "host", "ls -l /proc/self/ns", security=SecurityContext(host_network=True, host_ipc=True))
    for kind in ("net", "ipc"):
        assert os.readlink(f"/proc/self/ns/{kind}") in text


@ONLY_PODMAN
def test_podman_gives_capabilities_to_any_user(own_machine: Machine) -> None:
    security = SecurityContext(capabilities=("NET_ADMIN",))
    assert said(own_machine, "capable", "grep CapEff /proc/self/status", security=security).split()[1] == NET_ADMIN


@ONLY_DOCKER
def test_capabilities_that_docker_would_not_give_are_refused(own_machine: Machine) -> None:
    order = own_machine.order("incapable", "id", image=BUSYBOX, security=SecurityContext(capabilities=("NET_ADMIN",)))
    (answer,) = own_machine.engine.carry_out([order], TOKEN)
    assert answer.status == "refused"
    assert "docker gives capabilities to root only" in answer.message


# --- images


def test_a_local_image_is_used_without_a_pull(machine: Machine) -> None:
    """F-142."""
    assert machine.run("local", "true", image=BUSYBOX, pull_policy=PullPolicy.NEVER).exit_code == 0


def test_an_image_that_cannot_be_pulled_is_reported_and_a_name_with_options_is_refused(machine: Machine) -> None:
    never = machine.start(
        machine.order("never", "sh", image="localhost/none:1", pull_policy=PullPolicy.NEVER, volumes=())
    )
    machine.until(lambda: machine.see(never).message.startswith("ErrImagePull"), "the image is reported missing")
    assert "its pull policy is Never" in machine.see(never).message
    for number, name in enumerate(("--privileged", "a b", "x;reboot", "$(id)", "../x", "docker-archive:/etc/shadow")):
        (answer,) = machine.engine.carry_out([machine.order(f"hostile-{number}", "sh", image=name)], TOKEN)
        assert (answer.status, "is not a valid image name" in answer.message) == ("refused", True)
    machine.stop(never, grace_s=0)
    assert machine.see(never).state is PodState.EXITED


def test_a_private_image_is_pulled_with_a_login_and_not_without(own_machine: Machine, tool: Containers) -> None:
    """F-226."""
    with running_registry(tool.root, is_secured=True) as address:
        if isinstance(tool, Podman):
            tool.use_registry(address)  # docker needs no TLS on a loopback address
        name = f"{address}/team/private:1"
        tool.make_image(name, ['CMD ["echo", "secret model"]'])
        tool.push(name)
        tool.run("rmi", name)
        pod = own_machine.start(own_machine.order("without-login", image=name))
        own_machine.until(lambda: own_machine.see(pod).message.startswith("ErrImagePull"), "the pull fails")
        said_by_tool = ("authentication required", "no basic auth credentials")
        assert any(each in own_machine.see(pod).message for each in said_by_tool)
        own_machine.stop(pod, grace_s=0)
        own_machine.engine.supervisor.secrets.source = Credentials(address)
        ended = own_machine.run("member", image=name)
        assert own_machine.log(ended.order.pod) == "secret model\n"
        again = own_machine.run("always", image=name, pull_policy=PullPolicy.ALWAYS)
        assert again.exit_code == 0
    for memory in ("/run", "/dev/shm"):
        assert not list(Path(memory).glob(f"fairpool-{installation_of(own_machine)}/.tool-*"))
    for file in own_machine.root.rglob("*"):
        assert not file.is_file() or LOGIN[1].encode() not in file.read_bytes()


# --- how it ends


def test_a_pod_is_told_to_stop_and_killed_after_its_grace_period(machine: Machine) -> None:
    loop = "echo ready; while :; do sleep 0.1; done"
    polite = machine.up("polite", "sh", "-c", f"trap 'exit 3' TERM; {loop}", image=BUSYBOX)
    machine.until(lambda: machine.log(polite) == "ready\n", "it has set its trap")
    machine.stop(polite, grace_s=60)
    ended = machine.until_exited(polite)
    assert (ended.exit_code, ended.after_notice) == (3, True)
    deaf = machine.up("deaf", "sh", "-c", f"trap '' TERM; {loop}", image=BUSYBOX)
    machine.until(lambda: machine.log(deaf) == "ready\n", "it has set its trap")
    machine.stop(deaf, grace_s=1)
    ended = machine.until_exited(deaf)
    assert (ended.exit_code, ended.message) == (137, "stopped: test, and killed after its grace period")


def test_what_a_program_leaves_behind_ends_with_it(machine: Machine, tool: Containers) -> None:
    ended = machine.run("parent", "sh", "-c", "sleep 1000 & exit 0", image=BUSYBOX)
    assert ended.exit_code == 0
    assert not machine.processes(ended.order.pod)


def test_a_pod_whose_shim_was_killed_runs_on_and_its_exit_code_is_known(own_machine: Machine, tool: Containers) -> None:
    pod = own_machine.up("orphan", "sh", "-c", "echo one; sleep 4; echo two; exit 5", image=BUSYBOX)
    own_machine.until(lambda: "one" in own_machine.log(pod), "what it printed first is logged")
    os.kill(own_machine.shim_pid(pod), signal.SIGKILL)
    ended = own_machine.until_exited(pod)
    assert (ended.exit_code, own_machine.log(pod)) == (5, "one\ntwo\n")
    assert containers_of(own_machine, tool) == []


def test_another_server_finds_the_containers_of_one_that_was_killed(own_machine: Machine) -> None:
    pod = own_machine.up("kept", "sh", "-c", "sleep 2; echo still here; sleep 1000", image=BUSYBOX)
    before = own_machine.see(pod)
    own_machine.reopen()
    assert own_machine.see(pod) == before
    own_machine.until(lambda: "still here" in own_machine.log(pod), "it goes on")
    own_machine.stop(pod, grace_s=30)
    assert own_machine.until_exited(pod).exit_code == 128 + signal.SIGTERM


def test_a_container_that_belongs_to_no_pod_is_removed(own_machine: Machine, tool: Containers) -> None:
    pod = own_machine.up("lost", "sleep", "1000", image=BUSYBOX)
    (name,) = containers_of(own_machine, tool)
    tool.run("create", "--name=bystander", BUSYBOX)
    shim = own_machine.shim_pid(pod)
    os.kill(shim, signal.SIGSTOP)
    for pid in own_machine.processes(pod):
        with suppress(ProcessLookupError):  # it ended with the one before it
            os.kill(pid, signal.SIGKILL)
    os.kill(shim, signal.SIGKILL)
    assert own_machine.until_exited(pod).exit_code == 137
    runtime = own_machine.engine.supervisor._runtimes[tool.program]
    copy = tool.run("create", f"--name={name}-copy", f"--label={LABEL}={installation_of(own_machine)}", BUSYBOX)
    assert copy
    runtime.collect()
    own_machine.until(lambda: not containers_of(own_machine, tool), "ours are removed")
    tool.run("rm", "bystander")


# --- sessions


def test_commands_run_in_the_container(machine: Machine) -> None:
    pod = machine.up("host", "sh", "-c", "echo $$ > /tmp/mark; exec sleep 1000", image=BUSYBOX, stdin=False)
    session = machine.engine.supervisor.execute(pod, ["sh", "-c", "id -u; cat; hostname; exit 9"])
    assert isinstance(session, exec_client.ExecSession)
    os.write(session.stdin, b"typed\n")
    session.end_input()
    with os.fdopen(os.dup(session.stdout)) as output:
        assert output.read() == "2000000000\ntyped\nhost-0-0\n"
    assert session.wait() == 9
    session.close()
    machine.stop(pod, grace_s=0)


def test_a_pod_with_a_terminal_can_be_attached_to(machine: Machine) -> None:
    pod = machine.up("shell", "sh", image=BUSYBOX, tty=True, stdin=True)
    session = machine.engine.supervisor.attach(pod)
    assert isinstance(session, exec_client.AttachSession)
    session.write(b"tty; exit 4\n")
    ended = machine.until_exited(pod)
    assert ended.exit_code == 4
    assert "/dev/pts/" in machine.log(pod)
    session.close()
