"""Running a program as an ordinary user in tests that run as root, on machines of whatever layout.

The interpreter and the checkout may lie where that user may not go (`/root` is often closed). They are then bound to
where they are in a mount namespace in which the closed folder is an open, empty one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UID = 54_321

BOOT = """
import os, sys
sys.path.insert(0, {source!r})
from fairpool.agent import mounts, namespaces, process_attributes
namespaces.unshare(namespaces.CLONE_NEWNS)
mounts.make_private()
for place, needed in {covered!r}:
    handles = [(path, os.open(path, os.O_PATH)) for path in needed]
    mounts.mount("tmpfs", place, "tmpfs", 0, "mode=755")
    for path, handle in handles:
        os.makedirs(path)
        mounts.mount(f"/proc/self/fd/{{handle}}", path, "", mounts.MS_BIND | mounts.MS_REC)
process_attributes.become_user({uid}, {uid})
os.chdir({folder!r})
os.execve(sys.argv[1], sys.argv[1:], dict(os.environ))
"""


def run_as_ordinary_user(
    command: list[str], folder: Path, environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """As root: run it as an unprivileged user, in a directory of their own. Else run it as it is."""
    variables = {**environment, "HOME": str(folder), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    if os.geteuid() == 0:
        os.chown(folder, UID, UID)
        boot = BOOT.format(source=str(ROOT / "src"), covered=_covered(), uid=UID, folder=str(folder))
        command = [sys.executable, "-c", boot, *command]
    return subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def _covered() -> list[tuple[str, list[str]]]:
    """Folders that are closed to others, each with what is needed from within."""
    closed: dict[str, list[str]] = {}
    for needed in sorted({sys.base_prefix, sys.prefix, str(ROOT)}):
        real = os.path.realpath(needed)
        parts = real.split("/")
        above = ["/".join(parts[:count]) or "/" for count in range(1, len(parts))]
        place = next((each for each in above if not os.stat(each).st_mode & 0o001), None)
        if place is not None:
            closed.setdefault(place, []).append(real)
    return list(closed.items())
