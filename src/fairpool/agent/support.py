"""Installs the files that are mounted into pods.

Written anew at every start of the supervisor, so that pods get what belongs to this version; each file is replaced
whole, because pods may be reading it.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from fairpool.agent.durable import write_durably
from fairpool.agent.images import machine_python
from fairpool.agent.peers import REMOTE_SHELL

SOURCES = Path(__file__).with_name("pod")

NOTEBOOK = """#!/bin/sh
# Jupyter where the machine has it, else a page that says so.
if command -v jupyter >/dev/null 2>&1; then
  # Host names are checked by the gateway.
  exec jupyter notebook --no-browser --allow-root --ip=127.0.0.1 --port="${{NOTEBOOK_PORT:-8888}}" \\
    --ServerApp.allow_remote_access=True "$@"
fi
exec {python} "$(dirname "$0")/../notebook.py" "$@"
"""


def install_support(directory: Path) -> None:
    """Write all files that are missing or outdated."""
    python = shlex.quote(machine_python())
    reporter = (SOURCES / "reporter.py").read_text(encoding="utf-8")
    files = {
        "python/fairpool_reporter.py": reporter,
        # The older library's name. Without an __init__ file a real package of that name takes precedence.
        "python/runai/reporter.py": reporter,
        "trainer.py": (SOURCES / "trainer.py").read_text(encoding="utf-8"),
        "remote_shell.py": (SOURCES / "remote_shell.py").read_text(encoding="utf-8"),
        "notebook.py": (SOURCES / "notebook.py").read_text(encoding="utf-8"),
        "nvidia_smi.py": (SOURCES / "nvidia_smi.py").read_text(encoding="utf-8"),
    }
    programs = {
        "bin/python": f'#!/bin/sh\nexec {python} "$@"\n',
        "bin/python3": f'#!/bin/sh\nexec {python} "$@"\n',
        "bin/pip": f'#!/bin/sh\nexec {python} -m pip "$@"\n',
        "bin/pip3": f'#!/bin/sh\nexec {python} -m pip "$@"\n',
        f"bin/{REMOTE_SHELL}": f'#!/bin/sh\nexec {python} -I -S "$(dirname "$0")/../remote_shell.py" "$@"\n',
        "bin/start-notebook.sh": NOTEBOOK.format(python=python),
        "simulated/nvidia-smi.sh": (SOURCES / "nvidia-smi.sh").read_text(encoding="utf-8"),
        "simulated/nvidia-smi": f'#!/bin/sh\nexec {python} -I -S "$(dirname "$0")/../nvidia_smi.py" "$@"\n',
    }
    for name, text in files.items():
        _put(directory / name, text, 0o644)
    for name, text in programs.items():
        _put(directory / name, text, 0o755)


def _put(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for directory in (path.parent, path.parent.parent):
        if directory.stat().st_mode & 0o055 != 0o055:
            directory.chmod(0o755)  # pods have users of their own; the directory above is ours alone
    content = text.encode()
    if not path.exists() or path.read_bytes() != content:
        write_durably(path, content, mode)
    if path.stat().st_mode & 0o777 != mode:
        path.chmod(mode)  # the server creates files for itself alone
