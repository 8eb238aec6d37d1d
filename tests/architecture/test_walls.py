"""Each import contract of pyproject.toml catches the violation it is there for.

Every test copies our contracts beside a toy `fairpool` with one wrong import, and asks import-linter.
The real tree is checked by `make check`.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
SOURCE = PYPROJECT.parent / "src"

STACKED = "Packages are layered: a package imports from lower layers only"
PURE = "Deciding code has no clock, randomness, disk, log or network"
COLUMNS = "NumPy stays in the scheduler and in series of samples"
COMMANDS = "Click stays with the commands"
WIRE = "Pydantic stays on the wire"
DECLARING = "The control plane does not know how pods are placed or run"
PORT = "The cluster loop knows the engine port, never an engine"
REPLAY = "Replay needs the scheduler and the model, nothing that runs"
CALLERS = "runai and runai-adm know the API and the model"
DRIVER = "NVML is used in one module"
ADMITTING = "Admission, roles and filters decide; they have no clock, randomness, disk, log or network"
TABLES = "SQL stays in the store"
WEB = "The web framework stays in the control plane"
PROXY = "The HTTP library of many small calls is used in two modules: by the gateway, and by the client of Kubernetes"
ENCRYPTION = "Keys are used in three modules: for what is stored, between control processes, and for SAML"
SIGNING = "Signed tokens have one home"
MAIL = "Mail leaves through one module"
SERIES = "Prometheus's library is used where figures are counted and where they are written"
XML = "XML of identity providers is read in one module"
CALLING_OUT = "The control plane connects to addresses that users gave in one module"
OUTSIDE = "The gateway knows the API and the model"

VIOLATIONS = [
    ("model/node.py", "import fairpool.scheduler.plan", STACKED),
    ("scheduler/plan.py", "import fairpool.api.workloads", STACKED),
    ("cluster/loop.py", "import fairpool.control.app", STACKED),
    ("engines/local.py", "import fairpool.cluster.loop", STACKED),
    ("control/app.py", "import fairpool.cli.main", STACKED),
    ("platform/assembly.py", "import fairpool.cli.main", STACKED),
    ("platform/assembly.py", "import fairpool.simulation.simulated_cluster", STACKED),
    ("engines/local.py", "import fairpool.replay.saved", STACKED),
    ("control/app.py", "import fairpool.platform.assembly", STACKED),
    ("utilities/__init__.py", "", STACKED),
    ("model/node.py", "import datetime", PURE),
    ("scheduler/plan.py", "import time", PURE),
    ("scheduler/plan.py", "from random import choice", PURE),
    ("scheduler/plan.py", "from pathlib import Path", PURE),
    ("scheduler/plan.py", "import logging", PURE),
    ("scheduler/plan.py", "import socket", PURE),
    ("cluster/settle.py", "import time", PURE),
    ("cluster/rollup.py", "import logging", PURE),
    ("metrics/block.py", "import fairpool.scheduler.plan", STACKED),
    ("metrics/block.py", "import fairpool.control.app", STACKED),
    ("metrics/block.py", "import time", PURE),
    ("model/node.py", "import numpy", COLUMNS),
    ("cli/main.py", "import numpy as np", COLUMNS),
    ("scheduler/plan.py", "import click", COMMANDS),
    ("model/node.py", "import pydantic", WIRE),
    ("control/app.py", "from pydantic import BaseModel", WIRE),
    ("control/app.py", "import fairpool.scheduler.plan", DECLARING),
    ("control/app.py", "import fairpool.engines.simulated.engine", DECLARING),
    ("cluster/loop.py", "import fairpool.engines.simulated.engine", PORT),
    ("control/app.py", "import fairpool.cluster.loop", DECLARING),
    ("replay/saved.py", "import fairpool.cluster.loop", REPLAY),
    ("cli/runai/main.py", "import fairpool.control.app", CALLERS),
    ("cli/adm/main.py", "import fairpool.platform.assembly", CALLERS),
    ("agent/devices.py", "import pynvml", DRIVER),
    ("control/admission.py", "import time", ADMITTING),
    ("control/app.py", "import sqlalchemy", TABLES),
    ("control/app.py", "import cryptography", ENCRYPTION),
    ("control/guard.py", "import joserfc", SIGNING),
    ("control/app.py", "import smtplib", MAIL),
    ("cluster/loop.py", "import prometheus_client", SERIES),
    ("control/saml.py", "import lxml", XML),
    ("control/app.py", "import httpx2", CALLING_OUT),
    ("control/app.py", "import socket", CALLING_OUT),
    ("cluster/loop.py", "import starlette", WEB),
    ("gateway/proxy.py", "import aiohttp", PROXY),
    ("engines/kubernetes/client.py", "import aiohttp", PROXY),
    ("gateway/proxy.py", "import fairpool.agent.supervisor", OUTSIDE),
    ("gateway/proxy.py", "import fairpool.control.app", STACKED),
]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "code", "contract"), VIOLATIONS, ids=lambda part: str(part).split(":")[0])
def test_a_violation_is_caught(path: str, code: str, contract: str, tmp_path: Path) -> None:
    _toy_package(tmp_path)
    _written(tmp_path / "fairpool" / path, code)
    answer = _lint_imports(tmp_path)
    assert answer.returncode != 0, answer.stdout
    assert f"{contract} BROKEN" in " ".join(answer.stdout.split()), answer.stdout


@pytest.mark.slow
def test_what_the_contracts_permit_is_permitted(tmp_path: Path) -> None:
    _toy_package(tmp_path)
    _written(tmp_path / "fairpool/scheduler/plan.py", "import numpy\nimport fairpool.model.node\n")
    _written(tmp_path / "fairpool/metrics/block.py", "import numpy\nimport fairpool.model.node\n")
    _written(tmp_path / "fairpool/cli/main.py", "import time\nimport fairpool.scheduler.plan\n")
    _written(tmp_path / "fairpool/api/workloads.py", "import pydantic\nimport fairpool.model.node\n")
    _written(tmp_path / "fairpool/control/app.py", "import time\nimport fairpool.api.workloads\n")
    _written(tmp_path / "fairpool/cluster/loop.py", "import fairpool.engines.port\nimport fairpool.api.workloads\n")
    answer = _lint_imports(tmp_path)
    assert answer.returncode == 0, answer.stdout


@pytest.mark.slow
def test_modules_that_do_not_exist_yet_are_no_error(tmp_path: Path) -> None:
    _toy_package(tmp_path, modules=NAMED_MODULES)
    answer = _lint_imports(tmp_path)
    assert answer.returncode == 0, answer.stdout


def _named_modules() -> tuple[str, ...]:
    """Modules that a contract watches over by name: import-linter wants them to exist."""
    contracts = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    named = {name.replace(".", "/") for each in contracts for name in each.get("source_modules", ())}
    files = sorted(f"{name.removeprefix('fairpool/')}.py" for name in named if (SOURCE / f"{name}.py").exists())
    assert files, "contracts name modules"
    return tuple(files)


# Packages that a contract watches over have a module each.
NAMED_MODULES = (
    *("model/node.py", "scheduler/plan.py", "metrics/block.py", "control/app.py", "cluster/loop.py", "replay/saved.py"),
    *("cli/main.py", "cli/runai/main.py", "cli/adm/main.py", "cli/rntop/main.py", "gateway/proxy.py"),
    *_named_modules(),
)
ALL_MODULES = (
    *NAMED_MODULES,
    *("api/workloads.py", "agent/devices.py", "engines/port.py", "engines/local.py", "engines/simulated/engine.py"),
    *("platform/assembly.py", "simulation/simulated_cluster.py"),
)


def _toy_package(root: Path, modules: tuple[str, ...] = ALL_MODULES) -> None:
    text = PYPROJECT.read_text(encoding="utf-8")
    (root / "pyproject.toml").write_text(text, encoding="utf-8")
    _written(root / "fairpool/__init__.py", "")
    for module in modules:
        _written(root / "fairpool" / module, "")


def _written(path: Path, code: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    package = path.parent
    while package.name != "fairpool":  # also of packages that have no module of their own
        package.joinpath("__init__.py").touch()
        package = package.parent
    path.write_text(code + "\n", encoding="utf-8")


def _lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    # The command, in a process of its own: import-linter imports `fairpool` by name, and ours is installed.
    program = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command; "
    command = [sys.executable, "-c", program + "lint_imports_command(['--no-cache'])"]
    return subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
