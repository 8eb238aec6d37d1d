"""System calls that Python has no functions for. Runs in shims, so it imports next to nothing."""

from __future__ import annotations

import ctypes
import os
from functools import cache


@cache
def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    """Raises OSError unless a call has returned 0."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def warm_up() -> None:
    """Look up once what every shim will call, so that it is found in memory they share."""
    for function in ("unshare", "sethostname", "mount", "syscall", "setns", "setgroups"):
        getattr(libc(), function)
