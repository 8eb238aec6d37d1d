"""System calls that Python has no functions for, and control files of the kernel.

Runs in shims, so it imports next to nothing.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache


@cache
def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def check_result(result: int, what: str) -> None:
    """Raises OSError unless a call has returned 0."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def write_kernel_file(path: str, text: str) -> None:
    """Write a control file below /proc or in a control group: in one call, and never created."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def warm_up() -> None:
    """Look up once what every shim will call, so that it is found in memory they share."""
    for function in ("unshare", "sethostname", "mount", "syscall", "setns"):
        getattr(libc(), function)
