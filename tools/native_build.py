"""Builds the library of GPU shares from `native/` into the package: `python -m tools.native_build`, which `make native`
calls, and `hatch_build.py` when a package is built.

It needs a C compiler and nothing else. Without one the package is built without the library, which one line says;
`FAIRPOOL_NATIVE=skip` leaves it out too. Only the standard library, because nothing is installed yet when a package is
built.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = "src/fairpool/agent/fractions/libgpufrac.so"
STAMP = "src/fairpool/agent/fractions/libgpufrac.built-from"
MACHINES = ("x86_64", "aarch64")
FLAGS = (
    "-std=gnu11",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wl,-z,defs,-z,now,--no-as-needed",
    "-pthread",
)
TIMEOUT_S = 120


def is_skipped() -> bool:
    return os.environ.get("FAIRPOOL_NATIVE") == "skip"


def is_there(root: Path = ROOT) -> bool:
    return (root / LIBRARY).is_file()


def is_current(root: Path = ROOT) -> bool:
    """Whether the library is there, and of these sources."""
    stamp = root / STAMP
    return is_there(root) and stamp.is_file() and stamp.read_text().strip() == digest(root)


def digest(root: Path = ROOT) -> str:
    """Of everything that the build depends on. Times of files say nothing after a checkout."""
    seen = hashlib.sha256(" ".join((platform.machine(), *FLAGS)).encode())
    for path in sorted((root / "native").glob("*.[ch]")):
        seen.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return seen.hexdigest()


def compiler() -> str | None:
    """The C compiler of this machine."""
    named = os.environ.get("CC", "")
    return next((found for name in (named, "cc", "gcc", "clang") if name and (found := shutil.which(name))), None)


def build(root: Path = ROOT) -> bool:
    """Build the library unless it is current. False: the package has none."""
    if is_skipped() or is_current(root):
        return is_there(root)
    why = _compile(root)
    if why is not None:
        (root / LIBRARY).unlink(missing_ok=True)
        print(f"Built without the library of GPU shares (`fairpool gpu run`): {why}.", file=sys.stderr)
    return why is None


def _compile(root: Path) -> str | None:
    """Why it cannot be built."""
    program = compiler()
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        return f"it needs Linux on {' or '.join(MACHINES)}"
    if program is None:
        return "there is no C compiler"
    before = digest(root)
    new = (
        root / f"{LIBRARY}.{os.getpid()}"
    )  # a library in use must not be overwritten: programs that have it would crash
    command = [program, *FLAGS, *map(str, sorted((root / "native").glob("*.c"))), "-ldl", "-o", str(new)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} failed ({error})"
    if done.returncode != 0:
        new.unlink(missing_ok=True)
        lines = [line for line in done.stderr.splitlines() if "error" in line] or ["it gives no reason"]
        return f"{program} failed ({lines[0]})"
    new.replace(root / LIBRARY)
    (root / STAMP).write_text(before + "\n")
    return None


def main() -> int:
    build()
    return 0


if __name__ == "__main__":
    sys.exit(main())
