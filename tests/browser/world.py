"""What the pages are looked at with: four teams on sixteen GPUs in the state in which the NetApp validation ends, one
job that failed, and a few things of every other kind. Programs sleep, so that the machine is left to the browser."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairpool.api import organization as org
from fairpool.api import workload_spec as work
from tests.running_platform import Running

QUOTAS = {"team-a": 4, "team-b": 2, "team-c": 2, "team-d": 8}
JOBS = (
    *(("a-1-1-jupyter", "team-a", "1", True), ("a-1-g", "team-a", "1", False), ("a-2-gg", "team-a", "2", False)),
    *(("b-1-g06", "team-b", "0.6", True), ("b-2-g04", "team-b", "0.4", True), ("b-3-g", "team-b", "1", False)),
    *(("b-4-gg", "team-b", "2", False), ("c-1-g05", "team-c", "0.5", True), ("c-2-g03", "team-c", "0.3", True)),
    *(("c-3-g02", "team-c", "0.2", True), ("c-4-gg", "team-c", "2", False), ("c-5-g", "team-c", "1", False)),
    *(("d-1-gggg", "team-d", "4", False), ("d-2-gg", "team-d", "2", False), ("d-3-gg", "team-d", "2", False)),
)
LATER = (("a-3-gg", "team-a"), ("a-4-gg", "team-a"), ("b-5-gg", "team-b"), ("c-6-gg", "team-c"))
TALKS = "echo starting; n=0; while true; do n=$((n+1)); echo step $n loss 0.$n; sleep 5; done"


@dataclass(slots=True)
class World:
    """Ids by which pages name things."""

    ids: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """For the addresses of pages."""
        return {
            "pending": self.ids["b-5-gg"],
            "running": self.ids["a-1-g"],
            "failed": self.ids["broken"],
            "project": "team-b",
            "node": "dgx1-1",
        }


def furnished(platform: Running) -> World:
    """The world on a platform that has just been started."""
    world = World()
    client = platform.client  # makes team-a with a quota of 4
    for name, quota in QUOTAS.items():
        if name != "team-a":
            body = {"name": name, "resources": [{"gpu": {"deserved": quota}}]}
            client.create_project(org.ProjectRequest.model_validate(body))
    for name, project, gpus, is_interactive in JOBS:
        world.ids[name] = submitted(platform, name, project, gpus, is_interactive=is_interactive)
        platform.until_phase(world.ids[name], "Running")
    for name, project in LATER:
        world.ids[name] = submitted(platform, name, project, "2")
    client.batch([world.ids[name] for name in ("d-1-gggg", "d-2-gg", "d-3-gg")], "delete")
    for name in ("a-3-gg", "a-4-gg", "b-4-gg", "c-4-gg"):
        platform.until_phase(world.ids[name], "Running")
    world.ids["broken"] = submitted(
        platform, "broken", "team-a", "0", program="echo no such file: data.csv >&2; exit 3"
    )
    platform.until_phase(world.ids["broken"], "Failed")
    platform.until_phase(world.ids["b-5-gg"], "Pending")
    return world


def submitted(
    platform: Running,
    name: str,
    project: str,
    gpus: str,
    *,
    is_interactive: bool = False,
    program: str = "sleep infinity",
) -> str:
    program = TALKS if name == "a-1-g" else program
    spec: dict[str, Any] = {"image": "ubuntu", "command": "bash", "args": f'-c "{program}"', "compute": {"gpu": gpus}}
    if name == "broken":
        spec["backoffLimit"] = 0
    kind = work.SubmitWorkspace if is_interactive else work.SubmitTraining
    return platform.client.submit(kind.model_validate({"name": name, "projectId": project, "spec": spec})).id
