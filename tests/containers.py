"""Podman and docker for tests: storage of their own, local images, and proof that no container is left behind."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fairpool.agent.container_tool import DOCKER, LABEL, PODMAN
from tests import needs

BUSYBOX = "localhost/busybox:1"
APPLETS = (
    *("sh", "sleep", "cat", "env", "id", "ls", "ps", "hostname", "httpd", "wget", "true", "touch", "stat", "mount"),
    *("kill", "ln", "nc", "grep", "head", "wc", "echo", "df", "dd", "tail", "printf", "tty", "stty", "mkdir", "tr"),
)
CONFIGURATION = """\
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc=30000:30000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
"""
DAEMON = (
    *("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--bridge=none"),
    *("--default-ulimit=nofile=20000:20000", "--config-file={root}/daemon.json", "--host=unix://{root}/docker.sock"),
    *("--data-root={root}/data", "--exec-root={run}", "--pidfile={root}/docker.pid"),
)
REGISTRIES = """\
[[registry]]
prefix = "{prefix}"
location = "{address}"
insecure = true
"""
REGISTRY = """\
version: 0.1
storage:
  filesystem:
    rootdirectory: {root}/registry
http:
  addr: {address}
{access}
"""
ACCESS = """\
auth:
  htpasswd:
    realm: test
    path: {root}/htpasswd
"""
LOGIN = ("alice", "registry-s3cret")
HASHED = "$2b$04$9YnY1cKwGnDGAf2rmEi4OOqeFPdxUFMxpOzEChvQty5SXpMROsYqy"
"""Of that password, by bcrypt."""
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{root}/graph"
runroot = "{run}"
"""


Files = Mapping[str, str | bytes]
"""Of an image, by their paths."""


@dataclass(frozen=True)
class Containers:
    """A container tool with images of its own; `environment` makes every command use it."""

    root: Path
    environment: dict[str, str]
    program: ClassVar[str]

    def run(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        command = [self.program, *arguments]
        done = subprocess.run(
            command, env={**os.environ, **self.environment}, input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not check, f"{' '.join(command)}: {done.stderr}"
        return done.stdout.strip()

    def make_image(self, name: str, changes: Sequence[str] = (), files: Files | None = None) -> None:
        """A busybox image with these files and instructions."""
        archive = self.root / "image.tar"
        archive.write_bytes(_busybox(files or {}))
        self.run("import", *(f"--change={each}" for each in changes), str(archive), name)

    def push(self, image: str) -> None:
        """To its registry, with `LOGIN`."""
        raise NotImplementedError

    def wait_until_empty(self, installation: str = "") -> None:
        """Until the last container is removed, by its shim or by the server."""
        end = time.monotonic() + 60
        while left := self.containers(installation):
            assert time.monotonic() < end, left
            time.sleep(0.1)

    def containers(self, installation: str = "") -> list[str]:
        """Names of all containers, or of those of one installation."""
        wanted = [f"--filter=label={LABEL}={installation}"] if installation else []
        return self.run("ps", "--all", "--format", "{{.Names}}", *wanted).split()


class Podman(Containers):
    """It needs no daemon."""

    program = PODMAN

    def push(self, image: str) -> None:
        self.run("push", "--creds", ":".join(LOGIN), image)

    def use_registry(self, address: str, *prefixes: str) -> None:
        """Names that begin with one of these are pulled from this registry, without TLS."""
        texts = [REGISTRIES.format(prefix=each, address=address) for each in (*prefixes, address)]
        (self.root / "registries.conf").write_text("".join(texts), encoding="utf-8")


class Docker(Containers):
    """The client of a daemon that the test has started."""

    program = DOCKER

    def push(self, image: str) -> None:
        user, password = LOGIN
        config = f"--config={self.root}"
        self.run(config, "login", "--username", user, "--password-stdin", image.split("/")[0], text=password)
        self.run(config, "push", "--quiet", image)


@contextmanager
def running_docker(root: Path) -> Iterator[Docker]:
    """A docker daemon that all commands of this process use, with a busybox image. It changes nothing of the machine's
    network, so its containers have none."""
    daemon = needs.program("dockerd", "docker.io")
    needs.program("docker", "docker.io")
    if os.geteuid() != 0:
        needs.skip_unless_ci("containers need root")
    docker = Docker(root, {"DOCKER_HOST": f"unix://{root}/docker.sock"})
    (root / "daemon.json").write_text("{}", encoding="ascii")
    # Below /tmp, its mounts would keep other tests from giving /tmp to their pods.
    run = tempfile.mkdtemp(prefix="fairpool-docker-", dir="/run")
    command = [daemon, *(each.format(root=root, run=run) for each in DAEMON)]
    with (root / "daemon.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    with set_environment(docker.environment):
        try:
            _wait_for_daemon(docker, process)
            docker.make_image(BUSYBOX, ['CMD ["sh"]'])
            yield docker
            for each in docker.run("ps", "--all", "--quiet").split():
                docker.run("rm", "--force", "--volumes", each, check=False)
        finally:
            process.terminate()  # which also ends its containerd
            process.wait(60)
            for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
                if line.split()[1].startswith((f"{root}/", f"{run}/")):
                    subprocess.run(["umount", "--lazy", line.split()[1]], check=True)
            shutil.rmtree(run, ignore_errors=True)


def _wait_for_daemon(docker: Docker, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while not docker.run("info", "--format", "{{.ID}}", check=False):
        log = (docker.root / "daemon.log").read_text(errors="replace")
        assert process.poll() is None, log
        assert time.monotonic() < end, log
        time.sleep(0.1)


@contextmanager
def set_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables of this process, as they were before afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextmanager
def running_podman(root: Path) -> Iterator[Podman]:
    """A podman that all commands of this process use, with a busybox image; nothing of it is left afterwards."""
    # With a path of more than 50 characters, podman would wait 20 seconds for the exit code of every container.
    short = "/run" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="podman-", dir=short, ignore_cleanup_errors=True) as run:
        podman = _podman(root, run)
        try:
            with set_environment(podman.environment):
                yield podman
        finally:
            podman.run("rm", "--all", "--force", "--time=0", check=False)
            podman.run("rmi", "--all", "--force", check=False)


def _podman(root: Path, run: str) -> Podman:
    """With a busybox image, or a skip with the reason."""
    for name, package in (("podman", "podman"), ("runc", "runc"), ("tini-static", "tini")):
        needs.program(name, package)
    needs.program("busybox", "busybox-static")
    if os.geteuid() != 0:
        needs.skip_unless_ci("containers need root")
    (root / "containers.conf").write_text(CONFIGURATION.format(files=20000), encoding="utf-8")
    (root / "storage.conf").write_text(STORAGE.format(root=root, run=run), encoding="utf-8")
    environment = {
        "CONTAINERS_CONF": str(root / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(root / "storage.conf"),
        "CONTAINERS_REGISTRIES_CONF": str(root / "registries.conf"),
    }
    (root / "registries.conf").write_text("", encoding="utf-8")
    podman = Podman(root, environment)
    podman.make_image(BUSYBOX, ['CMD ["sh"]'])
    return podman


@contextmanager
def running_registry(root: Path, *, is_secured: bool = False) -> Iterator[str]:
    """A registry on this machine, which asks for `LOGIN` if it is secured; its address."""
    program = needs.program("docker-registry", "docker-registry")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    (root / "htpasswd").write_text(f"{LOGIN[0]}:{HASHED}\n", encoding="ascii")
    access = ACCESS.format(root=root) if is_secured else ""
    (root / "registry.yml").write_text(REGISTRY.format(root=root, address=address, access=access), encoding="ascii")
    with (root / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(root / "registry.yml")], stdout=log, stderr=log)
    try:
        _wait_for(address, process, root / "registry.log")
        yield address
    finally:
        process.terminate()
        process.wait()


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    host, _, port = address.partition(":")
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection((host, int(port)), 5).close()
            return
        except OSError:
            assert process.poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < end
            time.sleep(0.05)


def _busybox(files: Files) -> bytes:
    program = Path(needs.program("busybox", "busybox-static")).read_bytes()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        _add(archive, "bin/busybox", program, 0o755)
        for name in APPLETS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
        for name, content in files.items():
            _add(archive, name, content.encode() if isinstance(content, str) else content, 0o755)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
