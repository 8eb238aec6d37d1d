"""Sixteen GPUs and four teams, typed, with a real container for every job: F-03, F-32 to F-34.

The same commands and states as in `test_netapp_commands.py`; the images are pulled from a registry on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairpool.agent.container_tool import NAME_PREFIX
from tests.containers import Podman, running_podman, running_registry
from tests.end_to_end.test_netapp_commands import Typist, play, watched

pytestmark = pytest.mark.slow

TRAINER = "#!/bin/sh\necho training on $RUNAI_NUM_OF_GPUS\nnvidia-smi -L\nexec sleep 100000\n"


class ContainerTypist(Typist):
    """A platform whose pods run in containers."""

    podman: Podman
    has_visible_programs = False

    def start(self) -> None:
        again = ["--listen", self.address.removeprefix("http://")] if self.address else ["--runtime", "podman"]
        self.up(*again)
        self.address, self.server = self.status["address"], self.pid

    def marks(self) -> set[str]:
        names = self.podman.run("ps", "--filter", "status=running", "--format", "{{.Names}}").split()
        return {name.removeprefix(NAME_PREFIX) for name in names}


@pytest.fixture
def typist(tmp_path: Path) -> Iterator[ContainerTypist]:
    root = tmp_path / "podman"
    root.mkdir()
    with running_podman(root) as podman, running_registry(root) as address:
        podman.use_registry(address, "registry.example", "docker.io")
        for name in ("run-ai-demo/quickstart", "jupyter/base-notebook"):
            podman.make_image(
                f"{address}/{name}",
                ['ENTRYPOINT ["/bin/train"]'],
                {"bin/train": TRAINER, "bin/start-notebook.sh": TRAINER},
            )
            podman.run("tag", f"{address}/{name}", f"{address}/{name}:latest")
            podman.run("push", f"{address}/{name}")
            podman.run("rmi", f"{address}/{name}")
        typist = ContainerTypist(tmp_path)
        typist.podman = podman
        with watched(typist):
            yield typist
        podman.wait_until_empty()


def test_the_documented_commands_reach_the_documented_states_in_containers(typist: ContainerTypist) -> None:
    typist.make_projects()
    play(typist, {})
    (pod,) = typist.pods("b-1-g06")
    assert "training on 0.6" in typist.typed("runai logs b-1-g06 -p team-b")
    assert "uid=" in typist.typed("runai exec b-1-g06 -p team-b -- id")
    assert pod.incarnation == 0
