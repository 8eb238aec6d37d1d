"""Volumes of real pods: cloned repositories, config maps, claims of one node, folders that the administrator allows."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairpool.agent.devices import simulated_node
from fairpool.model.ids import NodeName, PodId
from fairpool.model.observation import OrderStatus, PodState
from fairpool.model.spec import AccessMode, GitClone, Volume
from tests import needs
from tests.git_server import a_repository, git_server, silent_server
from tests.local_machine import NODE, TOKEN, Machine, a_machine

pytestmark = pytest.mark.slow

OTHER = NodeName("dgx1-2")
NEVER = "echo started > {}"
"""Of a pod whose program must not start."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, str, str]]:
    """The address of a repository, its folder, and its two commits."""
    needs.program("git", "git")
    folder = tmp_path_factory.mktemp("git")
    folder.chmod(0o755)
    bare, first, second = a_repository(folder)
    with git_server(folder) as address:
        yield f"{address}/project.git", bare, first, second


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with a_machine(tmp_path / "data", nodes=(simulated_node(NODE), simulated_node(OTHER))) as machine:
        if "isolation" in machine.engine.supervisor.unavailable:
            pytest.skip("pods cannot be isolated here")
        yield machine


def clone(repository: str, target: str = "/code", **fields: Any) -> tuple[Volume, ...]:
    return (Volume(target=target, git=GitClone(repository=repository, **fields)),)


def found(folder: Path, name: str) -> list[str]:
    """Where a file of this name is, while others are being removed."""
    return [place for place, _, files in os.walk(folder) if name in files]


# --- repositories


def test_a_branch_is_there_when_the_program_starts(machine: Machine, repository: tuple[str, Path, str, str]) -> None:
    address, _, _, second = repository
    script = "cat note && id -u && touch new && git rev-parse HEAD && git remote get-url origin"
    observed = machine.run("a", "sh", "-c", script, working_dir="/code", volumes=clone(address, branch="master"))
    assert observed.exit_code == 0, machine.log(observed.order.pod)
    cloning, cloned, note, uid, head, remote = machine.log(observed.order.pod).splitlines()
    assert (cloning, cloned) == (f"fairpool: cloning {address} for /code", f"fairpool: /code is at {second}")
    assert (note, head, remote) == ("second", second, address)
    assert (os.getuid() == 0) == (uid != "0" and uid != str(os.getuid())), "as the project's user where there are any"
    machine.forget(observed.order.pod)
    machine.until(lambda: not found(machine.root, "note"), "the clone goes with the pod")


def test_a_revision_is_checked_out_whatever_the_branch(
    machine: Machine, repository: tuple[str, Path, str, str]
) -> None:
    address, _, first, _ = repository
    volumes = (*clone(address, "/one", revision=first), *clone(address, "/two", branch="dev"))
    observed = machine.run("a", "cat", "/one/note", "/two/note", volumes=volumes)
    assert machine.log(observed.order.pod).endswith("first\nfirst\n")


def test_a_repository_of_the_machine_is_cloned_only_from_where_the_administrator_allows(
    machine: Machine, repository: tuple[str, Path, str, str]
) -> None:
    _, bare, _, _ = repository
    allowed: dict[str, Any] = {
        "volumes": clone(f"file://{bare}"),
        "host_roots": (str(bare.parent), str(machine.shared)),
    }
    observed = machine.run("a", "cat", "/code/note", **allowed)
    assert machine.log(observed.order.pod).endswith("second\n"), machine.log(observed.order.pod)
    order = machine.order("b", "true", **{**allowed, "host_roots": (str(machine.shared),)})
    (answer,) = machine.engine.carry_out([order], TOKEN)
    assert answer.status is OrderStatus.REFUSED
    assert "is not in a directory that the administrator allows to be mounted" in answer.message


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        pytest.param("nothing.git", {}, "not found", id="no such repository"),
        pytest.param("project.git", {"branch": "nope"}, "Remote branch nope not found", id="no such branch"),
        pytest.param("project.git", {"revision": "0" * 40}, "fatal: ", id="no such commit"),
        pytest.param("project.git", {"size_bytes": 4096}, "it is larger than 0 MiB", id="larger than allowed"),
    ],
)
def test_what_cannot_be_cloned_is_said_and_the_program_does_not_start(
    machine: Machine, repository: tuple[str, Path, str, str], path: str, fields: dict[str, Any], words: str
) -> None:
    address = f"{repository[0].rpartition('/')[0]}/{path}"
    mark = machine.shared / "started"
    observed = machine.run("a", "sh", "-c", NEVER.format(mark), volumes=clone(address, **fields))
    assert (observed.exit_code, observed.running_since) == (126, None)
    assert observed.message.startswith(f"ContainerCannotRun: cannot clone {address}: ")
    assert words in observed.message
    assert not mark.exists()


@pytest.mark.parametrize(
    "repository",
    [
        "ext::sh -c touch%20/tmp/x",
        "--upload-pack=touch /tmp/x",
        "/etc",
        "ssh://host/x",
        "http://u:p@h/x",
        "http://h/\nx",
    ],
)
def test_the_agent_itself_refuses_what_is_not_an_address(machine: Machine, repository: str) -> None:
    """Whatever the control plane let through."""
    (answer,) = machine.engine.carry_out([machine.order("a", "true", volumes=clone(repository))], TOKEN)
    assert answer.status is OrderStatus.REFUSED


def test_a_server_that_never_answers_is_given_up(machine: Machine) -> None:
    with silent_server() as (address, _):
        observed = machine.run("a", "true", volumes=clone(f"{address}/x.git", timeout_s=1))
    assert "it took longer than 1 s, the limit of the administrator" in observed.message
    assert machine.processes(observed.order.pod) == []


def cloning(machine: Machine, address: str) -> PodId:
    """A pod that is being cloned for, for ever."""
    pod = machine.start(machine.order("a", "true", volumes=clone(f"{address}/x.git")))
    machine.until(lambda: machine.processes(pod), "git runs")
    assert machine.see(pod).state is PodState.STARTING
    return pod


def test_a_pod_is_stopped_while_it_waits_for_its_clone(machine: Machine) -> None:
    with silent_server() as (address, _):
        pod = cloning(machine, address)
        machine.stop(pod, grace_s=600)
        observed = machine.until_exited(pod)
    assert (observed.message, observed.after_notice, observed.running_since) == (
        "stopped before it started",
        True,
        None,
    )
    assert machine.processes(pod) == []


def test_nothing_of_a_clone_outlives_a_shim_that_is_killed(machine: Machine) -> None:
    with silent_server() as (address, _):
        pod = cloning(machine, address)
        os.kill(machine.shim_pid(pod), signal.SIGKILL)
        observed = machine.until_exited(pod)
        machine.until(lambda: machine.processes(pod) == [], "git has ended too")
    assert observed.running_since is None
    machine.forget(pod)
    machine.until(lambda: not machine.folder(pod).exists(), "its files are gone")


def test_a_clone_goes_on_while_the_server_is_killed(machine: Machine, repository: tuple[str, Path, str, str]) -> None:
    pod = machine.start(machine.order("a", "cat", "/code/note", volumes=clone(repository[0])))
    machine.reopen()
    observed = machine.until_exited(pod)
    assert (observed.exit_code, machine.log(pod).splitlines()[-1]) == (0, "second")


# --- config maps


def test_the_files_of_a_config_map_are_read_only_and_gone_with_the_pod(machine: Machine) -> None:
    files = (("train.yaml", "epochs: 3\r\nname: ä\n"), (".env", "A=1"))
    script = "cat /config/train.yaml; ls -A /config; touch /config/x || rm /config/.env || exit 8"
    observed = machine.run("a", "sh", "-c", script, volumes=(Volume(target="/config", files=files, read_only=True),))
    assert observed.exit_code == 8
    assert machine.log(observed.order.pod).startswith("epochs: 3\r\nname: ä\n.env\ntrain.yaml\n")
    machine.forget(observed.order.pod)
    machine.until(lambda: not found(machine.root, "train.yaml"), "they go with the pod")


def test_a_file_of_a_config_map_is_written_nowhere_else(machine: Machine) -> None:
    for name in ("../../x", "a/b", "..", ""):
        order = machine.order("a", "true", volumes=(Volume(target="/config", files=((name, "x"),)),))
        (answer,) = machine.engine.carry_out([order], TOKEN)
        assert answer.status is OrderStatus.LATER
    assert not found(machine.root, "x")


# --- claims


def claim(access: AccessMode) -> tuple[Volume, ...]:
    return (Volume(claim="data", target="/data", access=access),)


def test_a_claim_of_one_node_is_mounted_on_no_other_at_the_same_time(machine: Machine) -> None:
    first = machine.up("a", "sleep", "1000", volumes=claim(AccessMode.ONE_NODE))
    machine.up("b", "sleep", "1000", volumes=claim(AccessMode.ONE_NODE))
    elsewhere = machine.order("c", "true", volumes=claim(AccessMode.ONE_NODE), node=OTHER)
    (answer,) = machine.engine.carry_out([elsewhere], TOKEN)
    assert answer.status is OrderStatus.LATER
    assert answer.message == "claim data is ReadWriteOnce, and a has it on node dgx1-1"
    other_project = machine.order("d", "true", volumes=claim(AccessMode.ONE_NODE), node=OTHER, project="team-b")
    assert machine.until_exited(machine.start(other_project)).exit_code == 0, "a claim of that name of its own"
    for pod in (first, PodId("b-0-0")):
        machine.stop(pod, grace_s=0)
        machine.until_exited(pod)
    assert machine.until_exited(machine.start(elsewhere)).exit_code == 0


def test_a_shared_claim_is_mounted_on_all_nodes(machine: Machine) -> None:
    machine.up("a", "sleep", "1000", volumes=claim(AccessMode.SHARED))
    other = machine.order("b", "true", volumes=claim(AccessMode.SHARED), node=OTHER)
    assert machine.until_exited(machine.start(other)).exit_code == 0


def test_a_removed_claim_is_gone_with_its_data_and_a_new_one_of_its_name_is_empty(machine: Machine) -> None:
    machine.run("a", "sh", "-c", "mkdir -p /data/deep; echo secret > /data/deep/x", volumes=claim(AccessMode.SHARED))
    supervisor = machine.engine.supervisor
    supervisor.remove_claim("team-a", "data")
    supervisor.remove_claim("team-a", "data")
    assert machine.run("b", "sh", "-c", "ls -A /data", volumes=claim(AccessMode.SHARED)).exit_code == 0
    assert machine.log(PodId("b-0-0")) == ""
    machine.until(lambda: not any(supervisor.state.trash.iterdir()), "its data is removed")
    for project, name in (("..", "data"), ("team-a", ".."), ("team-a", "../../pods"), ("", "data")):
        with pytest.raises(OSError, match="is not the name"):
            supervisor.remove_claim(project, name)
    assert supervisor.state.pods.is_dir()


# --- folders of the machine


def test_a_link_that_is_exchanged_all_the_time_never_leads_out_of_what_is_allowed(
    machine: Machine, tmp_path: Path
) -> None:
    """The pod mounts what is allowed, or it is refused; it never sees the other folder."""
    allowed, secret = tmp_path / "allowed", tmp_path / "secret"
    for folder in (allowed / "inside", secret):
        folder.mkdir(parents=True)
        (folder / "note").write_text(folder.name)
    for folder in (tmp_path, allowed, allowed / "inside", secret):
        folder.chmod(0o755)
    link, over = allowed / "link", threading.Event()

    def exchange() -> None:
        while not over.is_set():
            for target in (secret, allowed / "inside"):
                with suppress(FileExistsError):
                    (allowed / "new").symlink_to(target)
                os.replace(allowed / "new", link)

    link.symlink_to(allowed / "inside")
    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        fields: dict[str, Any] = {
            "host_roots": (str(allowed), str(machine.shared)),
            "volumes": (Volume(source=str(link), target="/m"),),
        }
        seen = {_seen(machine, number, fields) for number in range(12)}
    finally:
        over.set()
        thread.join()
    assert seen <= {"inside", "refused"}, seen


def _seen(machine: Machine, number: int, fields: dict[str, Any]) -> str:
    order = machine.order(f"a{number}", "cat", "/m/note", **fields)
    (answer,) = machine.engine.carry_out([order], TOKEN)
    if answer.status is OrderStatus.REFUSED:
        return "refused"
    observed = machine.until_exited(order.pod)
    return machine.log(order.pod) if observed.exit_code == 0 else "refused"
