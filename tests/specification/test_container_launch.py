"""Command lines of podman and docker, the plan of a pod in a container, and what is refused there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairpool.agent import container_program
from fairpool.agent.container_images import default_policy, login_file, read_image, signed_in
from fairpool.agent.container_program import start_container
from fairpool.agent.container_tool import TOOLS, ContainerOptions, create_options, start_options, tool_environment
from fairpool.agent.pod_secrets import SecretFiles
from fairpool.agent.program import CannotRun
from fairpool.agent.root_filesystem import open_volume
from fairpool.api import workload_spec
from fairpool.api.organization import ProjectRequest
from fairpool.control.admission import AdmissionContext, admit
from fairpool.model.ids import Instant, WorkloadId
from fairpool.model.image_name import is_reference, qualified, registry_of, tag_of
from fairpool.model.node import RUNTIME_LABEL
from fairpool.model.secret import UserLogin
from fairpool.model.spec import PullPolicy, SecurityContext, WorkloadSpec
from fairpool.platform.node_set import described_nodes

PLAIN = ContainerOptions(name="fairpool-1", installation="i", host_name="h", user="5:6", working_dir="/w")
COMMON = [
    *("create", "--name=fairpool-1", "--label=fairpool.installation=i", "--pull=never", "--init", "--log-driver=none"),
    *("--no-healthcheck", "--restart=no", "--cap-drop=ALL", "--security-opt=no-new-privileges"),
]
OWN = {"podman": ["--http-proxy=false", "--systemd=false"], "docker": []}


@pytest.mark.parametrize("name", ["podman", "docker"])
def test_a_plain_container(name: str) -> None:
    tail = ["--user=5:6", "--hostname=h", "--workdir=/w"]
    assert create_options(TOOLS[name], PLAIN) == [*COMMON, *OWN[name], *tail]
    assert start_options(PLAIN) == ["start", "--attach", "fairpool-1"]


@pytest.mark.parametrize(
    ("name", "gpus"),
    [
        ("podman", ["--device", "nvidia.com/gpu=GPU-a", "--device", "nvidia.com/gpu=GPU-b"]),
        ("docker", ["--gpus", '"device=GPU-a,GPU-b"']),
    ],
)
def test_everything_that_a_container_can_have(name: str, gpus: list[str]) -> None:
    options = replace(
        PLAIN,
        groups=(7,),
        capabilities=("NET_ADMIN",),
        processes_max=9,
        cpu_milli=1500,
        memory_bytes=1000,
        shm_bytes=2000,
        is_terminal=True,
        has_input=True,
        gpus=("GPU-a", "GPU-b"),
    )
    assert create_options(TOOLS[name], options) == [
        *(*COMMON, *OWN[name], "--user=5:6", "--group-add=7", "--cap-add=NET_ADMIN", "--hostname=h", "--workdir=/w"),
        *("--pids-limit=9", "--memory=1000", "--memory-swap=1000", "--shm-size=2000", "--cpus=1.5"),
        *("--tty", "--interactive", *gpus),
    ]
    assert start_options(options) == ["start", "--attach", "--interactive", "fairpool-1"]


@pytest.mark.parametrize("name", ["podman", "docker"])
def test_the_nodes_own_namespaces(name: str) -> None:
    options = replace(PLAIN, host_network=True, host_ipc=True, shm_bytes=5)
    given = create_options(TOOLS[name], options)
    assert given[-2:] == ["--network=host", "--ipc=host"]
    assert not any(each.startswith(("--hostname", "--shm-size")) for each in given)


def test_the_tool_gets_no_variable_of_a_user() -> None:
    own = {"PATH": "/bin", "CONTAINERS_CONF": "/c", "LD_PRELOAD": "/x", "SECRET": "1", "FAIRPOOL_DATA": "/d"}
    expected = {"PATH": "/bin", "CONTAINERS_CONF": "/c", "HOME": "/root", "LC_ALL": "C.UTF-8"}
    assert tool_environment(own, "/root") == expected


# --- images


def test_names_of_images() -> None:
    """F-268: any registry host is accepted; nothing that a tool could take for an option, a file or a command is."""
    digest = "@sha256:" + "0" * 64
    for name in ("python", "a/b:1", "nvcr.io/nvidia/pytorch:24.01-py3", "localhost:5000/x", f"ghcr.io/a/b{digest}"):
        assert is_reference(name), name
    hostile = (
        "",
        "-v",
        "--privileged",
        "a b",
        "a;b",
        "$(id)",
        "a\nb",
        "../x",
        "a/../b",
        "/etc/x",
        "x:",
        "x@y",
        "UPPER",
    )
    for name in (*hostile, "docker://x", "oci-archive:/etc/shadow", "a" * 600):
        assert not is_reference(name), name
    assert (qualified("python"), qualified("a/b:1")) == ("docker.io/library/python", "docker.io/a/b:1")
    assert qualified("nvcr.io/a") == "nvcr.io/a"
    assert [registry_of(name) for name in ("python", "a/b", "a.b/c", "h:1/c")] == ["", "", "a.b", "h:1"]
    assert [tag_of(name) for name in ("x", "h:1/x", "x:2", f"x{digest}")] == ["latest", "latest", "2", ""]


def test_an_image_without_a_version_is_always_pulled() -> None:
    assert default_policy("python") is PullPolicy.ALWAYS
    assert default_policy("python:latest") is PullPolicy.ALWAYS
    assert default_policy("python:3.12") is PullPolicy.IF_NOT_PRESENT


def test_what_an_image_says_is_read_whatever_it_says() -> None:
    text = '[{"Id": "sha256:ab", "Config": {"Entrypoint": ["e"], "Cmd": null, "Env": ["A=b=c"], "WorkingDir": "/w"}}]'
    image = read_image("x", text)
    assert image is not None
    assert (image.id, image.entrypoint, image.command) == ("ab", ("e",), ())
    assert (image.environment, image.working_dir) == ((("A", "b=c"),), "/w")
    for damaged in ("", "[]", "{}", "[1]", "[{}]"):
        assert read_image("x", damaged) is None


def test_a_login_is_in_a_file_for_the_tool_alone_and_gone_afterwards(tmp_path: Path) -> None:
    login, files = UserLogin("alice", "s3cret"), SecretFiles(f"test-{os.getpid()}", tmp_path)
    with signed_in("podman", "h:1", login, files.temporary) as (before, after):
        file = Path(after[0].removeprefix("--authfile="))
        assert (before, file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == ([], 0o600, 0o700)
        assert "s3cret" not in " ".join(after)
    assert not file.parent.exists()
    with signed_in("docker", "h:1", login, files.temporary) as (before, after):
        assert (before[0].startswith("--config="), after) == (True, [])
    assert login_file("docker.io", login)["auths"].keys() == {"docker.io", "https://index.docker.io/v1/"}
    with signed_in("podman", "h:1", None, files.temporary) as nothing:
        assert nothing == ([], [])
    file.parent.parent.rmdir()


def test_the_login_that_a_killed_server_left_is_removed_by_the_next(tmp_path: Path) -> None:
    name = f"test-{os.getpid()}"
    with signed_in("podman", "h:1", UserLogin("alice", "s3cret"), SecretFiles(name, tmp_path).temporary) as (_, after):
        file = Path(after[0].removeprefix("--authfile="))
        SecretFiles(name, tmp_path)
        assert not file.parent.exists()
    file.parent.parent.rmdir()


def test_a_daemon_is_given_the_path_that_was_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked, other, link = tmp_path / "checked", tmp_path / "other", tmp_path / "link"
    checked.mkdir()
    other.mkdir()
    link.symlink_to(checked)

    def exchanged(each: Mapping[str, Any], rules: Mapping[str, Any]) -> int:
        handle = open_volume(each, rules)
        link.unlink()
        link.symlink_to(other)
        return handle

    monkeypatch.setattr(container_program, "open_volume", exchanged)
    bind = {"source": str(link), "target": "/data", "mode": "ro"}
    launch = {
        "container": {"is_local": False, "volume_options": ""},
        "view": {"binds": [bind], "volumes": {}},
        "mounts": [],
    }
    assert container_program._volumes(launch) == [f"--volume={checked}:/data:ro"]


def test_a_directory_that_others_can_write_to_is_not_swept(tmp_path: Path) -> None:
    name = f"test-{os.getpid()}"
    with SecretFiles(name, tmp_path).temporary() as directory:
        root = Path(directory).parent
    theirs = tmp_path / "theirs"
    (theirs / "kept").mkdir(parents=True)
    theirs.chmod(0o777)
    root.rmdir()
    root.symlink_to(theirs)
    try:
        for _ in range(2):
            files = SecretFiles(name, tmp_path)
            with files.temporary() as directory:
                assert Path(directory).parent not in (root, theirs)
            files.close()
        assert list(theirs.iterdir()) == [theirs / "kept"]
        root.unlink()
        root.mkdir()
        root.chmod(0o777)
        (root / "kept").mkdir()
        SecretFiles(name, tmp_path).close()
        assert (root / "kept").exists()
        root.chmod(0o700)
        SecretFiles(name, tmp_path)
        assert list(root.iterdir()) == []
    finally:
        root.unlink() if root.is_symlink() else shutil.rmtree(root)


# --- nodes and submits


def test_a_node_has_the_runtime_that_it_is_given() -> None:
    nodes = described_nodes(["1x8"], ["name=big,gpus=1,runtime=docker", "name=bare,runtime=process"], "podman")
    assert not isinstance(nodes, list)
    assert [node.runtime for node in nodes] == ["podman", "docker", "process"]
    assert [node.node.labels.get(RUNTIME_LABEL) for node in nodes] == ["podman", "docker", None]
    (problem,) = described_nodes([], ["name=x,runtime=lxc"])
    assert "use one of process, podman, docker" in str(problem)


def submitted(
    spec: dict[str, object],
    *,
    images: tuple[str, ...] | None = None,
    has_containers: bool = True,
    directory_users: bool = False,
) -> WorkloadSpec | list[str]:
    body = {"name": "j", "projectId": "p", "clusterId": "c", "spec": {"image": "python:3", **spec}}
    context = AdmissionContext(
        project=ProjectRequest(name="p"),
        pools=frozenset(),
        images=images,
        has_containers=has_containers,
        directory_users=directory_users,
    )
    submit = workload_spec.SubmitTraining.model_validate(body)
    found = admit(submit, context, workload_id=WorkloadId("w"), name="j", now=Instant(0))
    return found if isinstance(found, WorkloadSpec) else [each.field or "" for each in found]


def test_every_field_of_security_is_carried_or_refused_where_nodes_run_containers() -> None:
    def security(**said: object) -> SecurityContext:
        found = submitted({"security": said})
        assert isinstance(found, WorkloadSpec), found
        return found.template.program.security

    assert security(runAsUid=5, runAsGid=6, supplementalGroups="7, 8") == SecurityContext(uid=5, gid=6, groups=(7, 8))
    assert security(uidGidSource="fromTheImage").image_user
    assert security(uidGidSource="custom", runAsUid=5).uid == 5
    assert security(uidGidSource="fromIdpToken").directory_user
    for own, field in (
        ({"runAsUid": 5}, "runAsUid"),
        ({"runAsGid": 5}, "runAsUid"),
        ({"supplementalGroups": "5"}, "supplementalGroups"),
    ):
        assert submitted({"security": {"uidGidSource": "fromIdpToken", **own}}) == [f"spec.security.{field}"]
    assert security(capabilities=["cap_net_admin"]).capabilities == ("NET_ADMIN",)
    assert security(hostIpc=True, hostNetwork=True) == SecurityContext(host_ipc=True, host_network=True)
    assert security(createHomeDir=True, allowPrivilegeEscalation=False) == SecurityContext()
    for source in ("fromTheImage", "custom"):
        found = submitted({"security": {"runAsUser": True, "uidGidSource": source}})
        assert found == ["spec.security.runAsUser"], "it says who the submitter is, and these are others"
    for name, value in (
        ("allowPrivilegeEscalation", True),
        ("createHomeDir", False),
        ("uidGidSource", "elsewhere"),
        ("supplementalGroups", "wheel"),
        ("capabilities", ["NET ADMIN"]),
    ):
        assert submitted({"security": {name: value}}) == [f"spec.security.{name}"]


def test_processes_are_given_the_user_of_a_directory_and_no_other() -> None:
    def found(can: bool, **said: object) -> WorkloadSpec | list[str]:
        return submitted({"security": said}, has_containers=False, directory_users=can)

    directory = {"uidGidSource": "fromIdpToken", "runAsUser": True}
    admitted = found(True, **directory)
    assert isinstance(admitted, WorkloadSpec)
    assert admitted.template.program.security == SecurityContext(directory_user=True)
    assert found(True, **directory, hostIpc=True) == ["spec.security.hostIpc"]
    assert found(True, uidGidSource="custom", runAsUid=5) == ["spec.security.runAsUid", "spec.security.uidGidSource"]
    assert found(False, **directory) == ["spec.security.uidGidSource"]


def test_a_pull_policy_is_carried_and_an_image_name_with_options_is_refused() -> None:
    found = submitted({"imagePullPolicy": "Always"})
    assert isinstance(found, WorkloadSpec)
    assert found.template.program.pull_policy is PullPolicy.ALWAYS
    assert submitted({"image": "x --privileged"}) == ["spec.image"]


def test_where_some_nodes_run_containers_only_what_needs_one_is_placed_there() -> None:
    def rule(spec: dict[str, object], *, directory_users: bool = False) -> list[str]:
        found = submitted(spec, images=("python",), directory_users=directory_users)
        assert isinstance(found, WorkloadSpec), found
        rules = found.template.shape.node_rules
        return [str(each.operator) for rule in rules for each in rule if each.key == RUNTIME_LABEL]

    assert rule({}) == ["DoesNotExist"]
    assert rule({"image": "nvcr.io/nvidia/pytorch:24.01"}) == ["Exists"]
    assert rule({"security": {"hostIpc": True}}) == ["Exists"]
    assert rule({"imagePullPolicy": "Always"}) == ["Exists"]
    person: dict[str, object] = {"security": {"uidGidSource": "fromIdpToken"}}
    assert rule(person) == ["Exists"]
    assert rule(person, directory_users=True) == ["DoesNotExist"]


def test_a_daemon_mounts_no_volume_in_another_one(tmp_path: Path) -> None:
    binds = [{"source": str(tmp_path), "target": "/pvc", "mode": "rw"}]
    inner = [{"source": str(tmp_path), "target": "/pvc/l/made", "mode": "ro"}]
    launch = {"container": {"is_local": False}, "view": {"binds": binds, "volumes": None}, "mounts": inner}
    with pytest.raises(CannotRun) as refused:
        start_container(launch)
    assert refused.value.words.startswith("/pvc/l/made is in the volume at /pvc, which the container runtime cannot")
