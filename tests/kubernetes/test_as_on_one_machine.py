"""What people do on one machine, on two real nodes: the README's five minutes word for word, uploads, clones, output of
pods that were stopped."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit

import pytest

from tests import needs
from tests.five_minutes import five_minutes, type_line
from tests.git_server import a_repository, git_server
from tests.kubernetes.machine_image import TOOLS, tools_image
from tests.kubernetes.nodes import Cluster
from tests.kubernetes.real_nodes_typist import RealNodesTypist, clear_away
from tests.kubernetes.typist import KubernetesClusterProcess, watched
from tests.monitoring import until

pytestmark = pytest.mark.slow

NODE = re.compile(r"on dgx1-2\.$").pattern
"""Printed by one machine's simulated nodes."""


FEW_CORES = "defaults: {compute: {cpuCoreRequest: 0.1, cpuMemoryRequest: 32M}}"
"""This machine has fewer cores than its nodes have GPUs."""
STOPS = "trap 'echo stopping; exit 0' TERM; echo started; while :; do sleep 0.1; done"


class Person(RealNodesTypist):
    """Whose cluster has an image for everything that the documents name, and a folder that nodes share."""

    def __init__(self, folder: Path, nodes: Cluster, work: Path) -> None:
        super().__init__(folder, nodes)
        self.work = work

    def cluster_process(self, folder: str, token: Path, *flags: str) -> KubernetesClusterProcess:
        images = [word for name in ("python", "ubuntu") for word in ("--image", f"{name}={TOOLS}")]
        own = ("--support-image", TOOLS, "--host-path", str(self.work))
        return super().cluster_process(folder, token, *images, *own, *flags)

    def ends(self, name: str, phase: str = "Completed") -> str:
        """When it has ended so: what it wrote."""
        self.until_in(name, phase)
        return self.typed(f"runai logs {name}")

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        """A line as it stands in a document."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        listen = self.address.removeprefix("http://")
        where = {"PATH": path, "FAIRPOOL_LISTEN": listen, "FAIRPOOL_DATA": str(self._folder / "data")}
        environment = {**self._environment, **where}
        command = ["bash", "-c", line]
        return subprocess.run(
            command, cwd=self.work, env=environment, capture_output=True, text=True, timeout=180, check=False
        )


@pytest.fixture(scope="module")
def platform(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    archive = tools_image(tmp_path_factory.mktemp("tools"))
    cluster.import_image(archive)
    archive.unlink()
    work = Path(tempfile.mkdtemp(prefix="five-minutes-"))
    work.chmod(0o755)
    made = Person(tmp_path_factory.mktemp("platform"), cluster, work)
    try:
        with watched(made):
            made.typed("runai-adm project create demo --gpu-quota 2")
            for kind in ("training", "workspace"):
                made.typed(f"runai-adm policy apply -f - --kind {kind}", said=FEW_CORES)
            made.typed("runai config project demo")
            yield made
    finally:
        shutil.rmtree(work, ignore_errors=True)
    clear_away(cluster.plane)


def test_five_minutes_go_as_the_readme_says(platform: Person) -> None:
    """Every line, as it stands there; only the names of nodes are others."""
    for line in five_minutes():
        said = type_line(line, platform.shell, until, ignored=NODE)
        if line.startswith("runai exec"):
            assert "NVIDIA-SMI GPU-" in said


@pytest.fixture
def person(platform: Person) -> Iterator[Person]:
    """Jobs are deleted after each test."""
    platform.up()  # the five minutes end with `fairpool down`
    platform.typed("runai config project demo")
    yield platform
    names = [each.name for each in platform.client.all_workloads()]
    if names:
        platform.typed(f"runai delete {' '.join(names)}")
        platform.until_jobs(lambda jobs: not jobs, "they are deleted")


def test_an_uploaded_folder_is_where_the_job_starts_and_is_its_own(person: Person, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "train.py").write_text("print(open('parts/name').read())\nopen('result', 'w')\n", encoding="utf-8")
    (tmp_path / "parts" / "name").write_text("a folder of mine", encoding="utf-8")
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho a program\n", encoding="utf-8")
    (tmp_path / "run.sh").chmod(0o755)
    script = "python train.py && ./run.sh && echo more >>parts/name && ls"
    person.typed(f"runai submit own-folder -i python --workdir {tmp_path} --backoff-limit 0 -- sh -c {quote(script)}")
    said = person.ends("own-folder")
    assert said.split("\n")[:2] == ["a folder of mine", "a program"]
    assert said.split()[-4:] == ["parts", "result", "run.sh", "train.py"]


def test_a_repository_is_cloned_with_its_credential_and_one_that_is_refused_says_why(
    person: Person, tmp_path: Path
) -> None:
    needs.program("git", "git")
    bare, first, _ = a_repository(tmp_path / "git")
    (tmp_path / "password").write_text("a token", encoding="utf-8")
    person.typed(f"runai-adm credential create login -p demo --type git --user ann --value-file {tmp_path}/password")
    with git_server(bare.parent, "ann:a token") as served, person.real.reaching(urlsplit(served).port or 0) as address:
        clone = f"--git-sync source=http://{address}/project.git,branch=dev,target=/src"
        script = "cd /src; cat note; git -c safe.directory=* rev-parse HEAD; touch new; env | grep -c token; ls -a /"
        person.typed(f"runai submit cloned -i python {clone},secret=login --backoff-limit 0 -- sh -c {quote(script)}")
        person.until_jobs(lambda jobs: jobs["cloned"].phase in ("Failed", "Completed"), "it has ended")
        note, commit, mentions, *root = person.typed("runai logs cloned").split()
        assert (note, commit, mentions) == ("first", first, "0")
        assert "run" not in root, "the login is not in the program's own container"
        person.typed(f"runai submit refused -i python {clone} --backoff-limit 0 -- true")
        person.until_in("refused", "Failed")
    assert f"cannot clone http://{address}/project.git" in person.typed("runai describe job refused")


def test_the_output_of_a_job_that_was_stopped_is_shown(person: Person) -> None:
    person.typed(f"runai submit worker -i python --grace-period 20 -- sh -c {quote(STOPS)}")
    person.until_runs("worker")
    until(lambda: "started" in person.typed("runai logs worker"), "it has begun")
    person.typed("runai suspend worker")
    until(lambda: not person.own_pods(), "its pod is gone")
    assert person.typed("runai logs worker") == "started\nstopping\n"
    assert person.typed("runai logs worker --tail 1") == "stopping\n"
    person.typed("runai resume worker")
    person.until_runs("worker")
    (pod,) = person.own_pods()
    person.kubectl("delete", "pod", pod["metadata"]["name"], namespace="runai-demo")
    person.until_jobs(lambda jobs: len(person.pods("worker")) == 3, "it has another pod")
    second = person.pods("worker")[1]
    assert person.typed(f"runai logs worker --pod {second.id}") == "started\nstopping\n"
