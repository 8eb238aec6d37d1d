"""Tables and screens of the commands with made-up rows, as a terminal of 80 and one of 140 columns shows them.

They are golden files like the help pages: `python -m tools.messages --write` writes them too.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fairpool.api.record import Record
from fairpool.cli.adm.settings import setting_columns
from fairpool.cli.rntop.frames import Look, frames
from fairpool.cli.rntop.gpu_sample import GpuSample, HostSample
from fairpool.cli.runai.configuration import Context
from fairpool.cli.runai.contexts import ListedContext, context_columns
from fairpool.cli.runai.jobs import job_list_columns
from fairpool.cli.screen import Screen

WIDTHS = (80, 140)
AT = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def screen_files() -> dict[str, str]:
    """Path below `tests/golden` to what should be in it."""
    drawn: dict[str, Callable[[int], list[str]]] = {
        "list-jobs": _jobs,
        "context-list": _contexts,
        "setting-list": _settings,
        "rntop": _rntop,
    }
    return {
        f"screens/{name}-{width}.txt": "\n".join([*draw(width), ""]) for name, draw in drawn.items() for width in WIDTHS
    }


def _jobs(width: int) -> list[str]:
    screen = Screen(width=width)
    screen.text("Showing trainings for project team-a")
    jobs: list[Any] = [
        _job("hyper1", "Running", ["dgx1-1"], gpu=2.0, held=2.0),
        _job("a-sweep-with-a-long-name", "Pending", [], gpu=0.5, held=0.0),
        _job("gang", "Running", ["dgx1-1", "dgx1-2"], gpu=16.0, held=16.0, pods=2),
    ]
    shown = [each for each in job_list_columns(AT, one_project=True) if not each.wide]
    screen.draw(shown, jobs)
    return screen.lines


def _job(name: str, status: str, nodes: list[str], *, gpu: float, held: float, pods: int = 1) -> Record:
    return Record(
        name=name,
        classicStatus=status,
        phase=status,
        type="Training",
        createdAt="2026-11-15T09:30:00Z",
        currentNodes=nodes,
        images=["registry.example/run-ai-demo/quickstart"],
        projectName="team-a",
        submittedBy="ann@example.com",
        workloadRequestedResources=Record(gpu=Record(request=gpu)),
        allocatedResources=Record(gpu=held),
        runningPods=pods if nodes else 0,
        pendingPods=0 if nodes else pods,
        requestedPods=Record(number=pods),
        urls=[],
    )


def _contexts(width: int) -> list[str]:
    screen = Screen(width=width)
    east = Context("east", "https://fairpool.east.example.com", "team-a")
    rows = [
        ListedContext(east, is_current=True, project="team-a", user="ann@example.com"),
        ListedContext(Context("laptop", "http://127.0.0.1:8080"), is_current=False, project="", user=""),
    ]
    screen.draw(context_columns(), rows)
    return screen.lines


def _settings(width: int) -> list[str]:
    screen = Screen(width=width)
    label = "Grace period of preempted pods, in seconds"
    settings: list[Any] = [
        Record(key="department.use", value=True, default=True, label="Departments"),
        Record(key="workload.evictionGracePeriodSeconds", value=120, default=600, label=label),
    ]
    screen.draw([each for each in setting_columns() if not each.wide], settings)
    return screen.lines


def _rntop(width: int) -> list[str]:
    hosts = [
        HostSample(
            "root@gpu-1",
            (
                GpuSample(0, "GPU-1", "NVIDIA A100-SXM4-80GB", "535.104.05", 97, 70_000, 81_920),
                GpuSample(1, "GPU-2", "NVIDIA A100-SXM4-80GB", "535.104.05", None, None, None),
            ),
        ),
        HostSample("gpu-2", (GpuSample(0, "GPU-3", "Tesla \x1b[31mV100", "470.1", 3, 12, 32_510),)),
        HostSample("gpu-3", problem="unreachable: ssh: connect to host gpu-3 port 22: Connection refused"),
    ]
    return frames(hosts, Look(width, gpu_name=True))
