"""The library that holds programs to their share: where it is, and whether it works here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from fairpool.model.problem import Problem

LIBRARY = Path(__file__).with_name("libgpufrac.so")
LOAD_S = 10.0


def find_library() -> Path | Problem:
    """The built library, tried once: a program that cannot load it would run without a limit."""
    if not LIBRARY.is_file():
        what = "this installation has no library that enforces shares of a GPU"
        fix = "install a C compiler and run `make native`, or install Fairpool again with one"
        return Problem("gpu.no_library", what, fix)
    command = ["/bin/sh", "-c", ":"]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "LD_PRELOAD": str(LIBRARY)},
            capture_output=True,
            text=True,
            timeout=LOAD_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Problem("gpu.library", f"the library cannot be tried: {error}", "run `make native` again")
    if done.returncode != 0 or done.stderr.strip():
        what = f"the library cannot be loaded: {done.stderr.strip()[:300] or f'exit code {done.returncode}'}"
        return Problem("gpu.library", what, "build it again on this machine with `make native`")
    return LIBRARY
