"""Programs that the library cannot be put under: static ones, those of another C library, set-uid ones, and those with
capabilities of their own.

The loader would start them without the library and without a word, so they are refused before.
"""

from __future__ import annotations

import os
import shutil
import stat
import struct
from pathlib import Path

from fairpool.model.problem import Problem

HEAD_BYTES = 1 << 16
SCRIPTS_MAX = 4
_INTERPRETER = 3
_ELF64 = struct.Struct("<16xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")


def why_unlimited(head: bytes, mode: int) -> str:
    """Why a program would run without the library, by the beginning of its file; empty: it would not."""
    if mode & (stat.S_ISUID | stat.S_ISGID):
        return "it is set-uid, and the loader drops LD_PRELOAD"
    if head[:4] != b"\x7fELF":
        return ""
    if head[4:6] != b"\x02\x01":
        return "it is not a 64-bit program"
    if len(head) < _ELF64.size:
        return "its header is cut off"
    _, _, _, _, table, _, _, _, size, count, _, _, _ = _ELF64.unpack_from(head)
    for index in range(min(count, 128)):
        at = table + index * size
        if at + _SEGMENT.size > len(head) or size < _SEGMENT.size:
            break
        kind, _, offset, _, _, length, _, _ = _SEGMENT.unpack_from(head, at)
        if kind == _INTERPRETER:
            loader = head[offset : offset + min(length, 4096)].rstrip(b"\0")
            return "it uses musl and not glibc" if b"musl" in loader else ""
    return "it is statically linked"


def _why_privileged(path: Path) -> str:
    try:
        os.getxattr(path, "security.capability")
    except OSError:  # it has none
        return ""
    return "its file has capabilities, and the loader drops LD_PRELOAD"


def refusal(command: str) -> Problem | None:
    """Why a command cannot be limited, or cannot be started. A script is as its interpreter."""
    name = command
    for _ in range(SCRIPTS_MAX):
        found = shutil.which(name)
        if found is None:
            return Problem("gpu.no_command", f"there is no program {name}", "check its name and PATH")
        try:
            path = Path(found).resolve()
            with path.open("rb") as file:
                head, mode = file.read(HEAD_BYTES), os.fstat(file.fileno()).st_mode
        except OSError:  # may be run and not read: it cannot be looked at
            return None
        why = why_unlimited(head, mode) or _why_privileged(path)
        if why:
            fix = "run a program that is linked with glibc, or give it a whole GPU without `fairpool gpu run`"
            return Problem("gpu.not_limited", f"{name} cannot be limited: {why}", fix)
        words = head[2:].split(b"\n", 1)[0].split() if head[:2] == b"#!" else []
        if not words:
            return None
        is_env = words[0].endswith(b"/env") and len(words) > 1 and not words[1].startswith(b"-")
        name = os.fsdecode(words[1] if is_env else words[0])
    return None
