"""What the commands print on terminals of 80 and 140 columns, as golden files: `tests/golden/typed`.

The commands and the control plane are real, what its cluster reports is invented, and the clocks stand still. `make
golden` writes the files anew.
"""

from __future__ import annotations

import difflib
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click.testing
import pytest

from fairpool.api.clusters import PodReport
from fairpool.api.samples import DeviceSampleWire, DeviceUseWire, NodeSampleWire, PodSampleWire
from fairpool.cli.runai import ages
from fairpool.model.ids import Instant, NodeName, PodId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import Cause, Outcome
from fairpool.model.status import WorkloadPhase
from tests.end_to_end import runai_server
from tests.end_to_end.runai_server import Server, serving

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[1] / "golden" / "typed"
WRITE = "FAIRPOOL_WRITE_GOLDEN"
WIDTHS = (80, 140)
WHOLE = ("$ ", "COMMAND LINE: ")
"""Lines that the terminal breaks, so that they can be copied."""
START = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
LATER = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
QUICKSTART = "registry.example/run-ai-demo/quickstart"
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
WAITS = (
    "waits for 2 GPUs: 1.5 free; team-b holds 0 (quota 2, fair share now 1.5), team-a holds 14.5 (quota 14): starts "
    "when GPUs are released"
)
SCREENS = {
    "jobs": (
        "runai list",
        "runai list -A",
        "runai list -A --status failed,suspended",
        "runai training list",
        "runai describe job hyper1",
        "runai describe job gang",
        "runai describe job broken -p team-b",
        "runai why a-sweep-with-a-rather-long-name -p team-b",
        "runai why broken -p team-b",
        "runai history broken -p team-b",
        "runai top",
        "runai top job",
        "runai whoami",
    ),
    "nodes": (
        "runai list nodes",
        "runai describe node dgx1-1",
        "runai top node",
        "runai top node dgx1-0 --details",
        "runai list projects",
        "runai describe project team-a",
        "runai list clusters",
    ),
    "assets": (
        "runai list templates",
        "runai template list",
        "runai describe template batch_ops",
        "runai list pvc",
        "runai list pvc -p team-b",
        "runai configmap list",
        "runai list credentials",
        "runai list environments",
        "runai describe environment pytorch",
        "runai list compute-resources",
        "runai list data-sources",
    ),
    "administration": (
        "runai-adm project list",
        "runai-adm department list",
        "runai-adm node-pool list",
        "runai-adm node-type list",
        "runai-adm topology list",
        "runai-adm cluster list",
        "runai-adm node list",
        "runai-adm user list",
        "runai-adm application list",
        "runai-adm pvc list",
        "runai-adm setting list",
        "runai-adm template list",
        "runai-adm credential list",
        "runai-adm environment list",
        "runai-adm compute list",
        "runai-adm datasource list",
    ),
}
SETUP = (
    "runai-adm department create research --gpu-quota 14",
    "runai-adm project create team-a --gpu-quota 14 --department research --over-quota high",
    "runai-adm project create team-b --gpu-quota 2 --node-types-train dgx-1 --interactive-time-limit 8h",
    "runai config project team-a",
    "runai-adm node-type set dgx-1 dgx1-1 dgx1-0",
    "runai-adm set node-role --cpu-worker cpu-1",
    "runai-adm set node-role --gpu-worker dgx1-1",
    "runai-adm set node-role --gpu-worker dgx1-0",
    "runai-adm node cordon cpu-1",
    "runai-adm node-pool create a100 --label example.com/pool=a100",
    "runai-adm topology create fabric --level example.com/zone --level example.com/rack",
    "runai-adm user create ann@example.com --project team-a --project team-b",
    "runai-adm application create nightly-sweep --project team-a",
    "runai-adm template create batch_ops -i python -g 0.5 -e EPOCHS=3 --description 'Nightly batches of all models'",
    "runai-adm template create house_rules --administrative -p team-b -g 1 --lock gpu",
    "runai-adm environment create pytorch -i registry.example:5000/nvidia/pytorch:24.09 -e EPOCHS=3",
    "runai-adm compute create half -g 0.5 --cpu 4 --memory 16Gi",
    "runai-adm datasource create imagenet -v /raid/imagenet:/data:ro",
    "runai configmap create training-settings --from-literal epochs=3 --from-literal rate=0.1",
    f"runai submit hyper1 -i {QUICKSTART} -g 2 -l team=vision --new-pvc claimname=checkpoints,size=100Gi,path=/out",
    "runai submit notebook -i jupyter/base-notebook -g 0.5 --interactive --service-type=ingress --port 8888",
    f"runai submit-dist pytorch gang -i {QUICKSTART} -g 6 --workers 1 --template batch_ops",
    f"runai submit a-sweep-with-a-rather-long-name -p team-b -i {QUICKSTART} -g 1 --parallelism 2 --completions 4",
    "runai submit broken -p team-b -i python -g 1 --backoff-limit 1 -- python train.py --epochs 300 --rate 0.0001",
    "runai submit later -p team-b -i ubuntu -g 1 -- sleep 1000",
)


class Clock:
    """One for the control plane, the reports and the commands."""

    def __init__(self) -> None:
        self.at = START

    def milliseconds(self) -> Instant:
        return Instant(int(self.at.timestamp() * 1000))


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The text of each golden file."""
    clock = Clock()
    with (
        serving(tmp_path_factory.mktemp("screens"), now=clock.milliseconds) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(runai_server, "time", SimpleNamespace(time_ns=lambda: clock.milliseconds() * 1_000_000))
        patch.setattr(ages, "now", lambda: clock.at)
        patch.setenv("TZ", "UTC")
        time.tzset()
        server.log_in()
        set_up(server, clock)
        patch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda _: True)
        yield {
            f"{name}-{width}.txt": screen(server, lines, width) for name, lines in SCREENS.items() for width in WIDTHS
        }
    time.tzset()


def screen(server: Server, lines: tuple[str, ...], width: int) -> str:
    return "\n".join(f"$ {line}\n{printed(server, line, width)}" for line in lines)


def printed(server: Server, line: str, width: int) -> str:
    answer = server.type(line, COLUMNS=str(width))
    assert answer.code == 0, (line, answer)
    return ID.sub("00000000-0000-0000-0000-000000000000", answer.out + answer.err).replace(
        server.address, "http://127.0.0.1:8080"
    )


def set_up(server: Server, clock: Clock) -> None:
    """A morning's work of two teams."""
    gpus: dict[str, Any] = {
        "labels": {"nvidia.com/gpu.product": "Tesla V100-SXM2-32GB"},
        "gpu_memory_mib": 32510,
        "cpu_milli": 80_000,
        "memory_bytes": 512 << 30,
    }
    for name in ("dgx1-1", "dgx1-0"):
        server.node(name, **gpus)
    server.node("cpu-1", gpus=0, cpu_milli=32_000, memory_bytes=128 << 30)
    for line in SETUP:
        server.typed(line)
    server.typed("runai-adm credential create hf-token -p team-a --from-file token=-", stdin="secret")
    clock.at = START.replace(minute=32)
    server.runs("team-a", "hyper1", gpus=2, node="dgx1-0", devices=(0, 1))
    server.runs("team-a", "notebook", gpus=0.5, devices=(0,))
    server.runs("team-a", "gang", gpus=12, pods=2, node="dgx1-", devices=tuple(range(2, 8)))
    server.waits("team-b", "a-sweep-with-a-rather-long-name", WAITS)
    suspend(server)
    fail(server, clock)
    clock.at = LATER
    server.push()
    measure(server)


def measure(server: Server) -> None:
    """Nothing of the notebook, whose pod has just started, and nothing of the node without GPUs."""
    hyper1, gang = (PodId(f"{server.id_of('team-a', name)}-0-0") for name in ("hyper1", "gang"))
    used = tuple(DeviceUseWire(index=index, utilization=59.0 + index, memory_bytes=20 << 30) for index in (0, 1))
    server.sample(
        NodeSampleWire(
            node=NodeName("dgx1-0"),
            cpu_cores=12.5,
            memory_bytes=96 << 30,
            devices=tuple(
                DeviceSampleWire(
                    index=index,
                    utilization=59.0 + index if index < 2 else 0.0,
                    memory_bytes=20 << 30 if index < 2 else 0,
                    temperature_celsius=61.0,
                    power_watts=212.0,
                )
                for index in range(7)
            ),
            pods=(
                PodSampleWire(pod=hyper1, cpu_cores=3.25, memory_bytes=9 << 30, progress_percent=16.4, devices=used),
                PodSampleWire(pod=gang, cpu_cores=0.5, memory_bytes=512 << 20),
            ),
        ),
        NodeSampleWire(
            node=NodeName("dgx1-1"),
            is_simulated=True,
            cpu_cores=0.25,
            memory_bytes=2 << 30,
            devices=tuple(DeviceSampleWire(index=index, utilization=0.0, memory_bytes=0) for index in range(8)),
        ),
    )


def suspend(server: Server) -> None:
    server.typed("runai suspend later -p team-b")
    server.report(server.id_of("team-b", "later"), WorkloadPhase.STOPPED, reason=Cause.SUSPENDED)


def fail(server: Server, clock: Clock) -> None:
    """Twice, with the history of it."""
    workload = server.id_of("team-b", "broken")
    pods = []
    for incarnation in (0, 1):
        pod = PodId(f"{workload}-0-{incarnation}")
        server.happened(workload, "bound", pod=pod, node=NodeName("dgx1-0"))
        server.happened(workload, "started", pod=pod, node=NodeName("dgx1-0"))
        clock.at = clock.at.replace(minute=40 + incarnation)
        ended: dict[str, Any] = {"outcome": Outcome.ERROR, "cause": Cause.EXITED, "exit_code": 1}
        server.happened(workload, "ended", "exit code 1", pod=pod, node=NodeName("dgx1-0"), **ended)
        pods.append(
            PodReport(id=pod, index=0, incarnation=incarnation, phase=PodPhase.ENDED, node=NodeName("dgx1-0"), **ended)
        )
    server.report(
        workload, WorkloadPhase.FAILED, reason=Cause.RETRIES, detail="failed with exit code 1", pods=(pods[-1],)
    )


@pytest.mark.parametrize("name", [f"{name}-{width}.txt" for name in SCREENS for width in WIDTHS])
def test_what_is_printed(typed: dict[str, str], name: str) -> None:
    if os.environ.get(WRITE):
        GOLDEN.mkdir(parents=True, exist_ok=True)
        (GOLDEN / name).write_text(typed[name], encoding="utf-8")
    kept = (GOLDEN / name).read_text(encoding="utf-8")
    changed = difflib.unified_diff(kept.splitlines(), typed[name].splitlines(), "golden", "now", lineterm="", n=0)
    assert kept == typed[name], "run `make golden` and read the difference:\n" + "\n".join(changed)


@pytest.mark.parametrize("name", SCREENS)
@pytest.mark.parametrize("width", WIDTHS)
def test_lines_fit_the_terminal(typed: dict[str, str], name: str, width: int) -> None:
    wide = [
        line for line in typed[f"{name}-{width}.txt"].splitlines() if len(line) > width and not line.startswith(WHOLE)
    ]
    assert not wide


def test_no_golden_screen_is_left_over() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {f"{name}-{width}.txt" for name in SCREENS for width in WIDTHS}
