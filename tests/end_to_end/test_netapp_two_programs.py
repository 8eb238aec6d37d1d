"""The documented commands of sixteen GPUs and four teams, typed against `fairpool control` and `fairpool cluster`.

The scenario and its checks are those of `test_netapp_commands`; here either program is killed at random moments, or the
link between them is cut for seconds, and every phase must end in the same state.

FAIRPOOL_KILL_ROUNDS says how often the scenario is played with such faults.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.api.client import Client
from tests.end_to_end.test_netapp_commands import AT_MOST_S, FACTS, LINES, Typist, play, watched
from tests.two_programs import ClusterProcess, ControlProcess, Relay

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("FAIRPOOL_KILL_ROUNDS", "1"))
CONTROL, CLUSTER, LINK = "control", "cluster", "link"
FAULTS = ((CONTROL,), (CLUSTER,), (LINK,), (CONTROL, CLUSTER), (CLUSTER, LINK))


class TypistOfTwo(Typist):
    """A person who types against a control plane, and the two programs. Its own folder is that of the cluster."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        super().__init__(folder)
        self._dice = random.Random(seed)
        self._relay = Relay()
        self._control = ControlProcess(folder / "control", folder / "config")
        self._cluster: ClusterProcess | None = None
        self._folder, self._faults = folder, ()
        self.faults_so_far: list[tuple[str, ...]] = []

    def up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What is not up."""
        self._relay.mend()
        started = self._control.up()
        self._relay.target = int(self._control.address.rpartition(":")[2])
        if self._cluster is None:
            token = self._control.token_file("east")
            through = f"http://127.0.0.1:{self._relay.port}"
            self._cluster = ClusterProcess(self._folder / "data", through, token, self._folder / "config")
        self._cluster.up()
        return started

    def kill_server(self) -> None:
        """One of the two, or both, or what is between them."""
        faults: tuple[str, ...] = self._dice.choice(FAULTS)
        self.faults_so_far.append(faults)
        if LINK in faults:
            self._relay.cut()
        if CONTROL in faults:
            self._control.kill()
        if CLUSTER in faults:
            assert self._cluster is not None
            self._cluster.kill()

    def owner_token(self) -> str:
        return self._control.owner_token()

    @property
    def status(self) -> dict[str, Any]:
        return self._control.status

    def open(self) -> None:
        self.start()
        self._client = Client(self.address, self.owner_token())

    def clean_up(self) -> None:
        self._relay.mend()
        try:
            self._control.down()
        finally:
            super().clean_up()
            self._relay.close()


@pytest.fixture
def typist(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TypistOfTwo]:
    seed = request.node.callspec.params["seed"] if hasattr(request.node, "callspec") else 0
    with watched(TypistOfTwo(tmp_path, seed)) as typist:
        yield typist


def test_the_documented_commands_reach_the_documented_states_in_two_programs(typist: TypistOfTwo) -> None:
    for project in FACTS["projects"]:
        typist.typed(f"runai-adm project create {project['name']} --gpu-quota {project['gpu_quota']}")
    play(typist, {})


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_killing_either_program_or_cutting_the_link_changes_nothing(typist: TypistOfTwo, seed: int) -> None:
    typist.make_projects()
    dice = random.Random(seed)
    when = {*dice.sample(range(13), 2), *dice.sample(range(13, len(LINES)), 3)}
    kills = {number: [dice.uniform(0, AT_MOST_S) for _ in range(dice.choice((1, 1, 2)))] for number in sorted(when)}
    try:
        play(typist, kills)
    finally:
        print(f"seed {seed}: { {LINES[number][1]: moments for number, moments in kills.items()} }")
        print(f"faults: {typist.faults_so_far}")
