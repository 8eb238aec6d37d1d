"""The environment that the original's client runs in: `.venv-client`, made once, with the versions pinned here.

Nothing of it is ever imported by Fairpool or its tests: `call_original.py` runs in it, as a process of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

from tests.needs import skip_unless_ci

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
FOLDER = Path(__file__).parents[2] / ".venv-client"
INSTALL_S = 600.0


def original_python() -> Path:
    """The interpreter of the environment; one test process makes it, the others wait."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, wanted = FOLDER / "up-to-date", _fingerprint()
        if not stamp.exists() or stamp.read_text() != wanted:
            _install()
            stamp.write_text(wanted)
    return _python()


def _fingerprint() -> str:
    return hashlib.sha256(f"{sys.version}\n{REQUIREMENTS.read_text()}".encode()).hexdigest()


def _python() -> Path:
    return FOLDER / "bin" / "python"


def _install() -> None:
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True, timeout=INSTALL_S)
    install = [str(_python()), "-m", "pip", "install", "--quiet", "--requirement", str(REQUIREMENTS)]
    done = subprocess.run(install, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        skip_unless_ci(f"the original's client could not be installed: {last}")
