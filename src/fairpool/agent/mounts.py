"""Mounts in a process's own mount namespace: binds, temporary file systems, and their restrictions.

There is no image to unpack: a pod sees the machine's files, and what it is given is bound over them. A mount point that
does not exist is created in the pod's namespace only: the nearest directory that exists is replaced by a mirror of
itself in memory, so that nothing is left on the machine. Runs in shims, so it imports next to nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import struct
from collections.abc import Mapping, Sequence

from fairpool.agent.libc import check_result, libc

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_MOVE, MS_REC, MS_UNBINDABLE, MS_PRIVATE, MS_SHARED = 4096, 8192, 16384, 1 << 17, 1 << 18, 1 << 20
_ST_SET = 1 | 2 | 4 | 8
_ST_LOCKED = 1 | 2 | 4 | 8 | 1024 | 2048 | 4096
"""Mount options that are kept when a mount is restricted further: read-only, nosuid, nodev, noexec; without privileges
also how it treats access times."""
MNT_DETACH = 2
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
"""The same on every architecture, as all system calls since 2019."""
_OPEN_TREE_CLONE, _AT_EMPTY_PATH, _MOVE_FROM_EMPTY_PATH = 1, 0x1000, 4
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
_AT_RECURSIVE, _AT_FDCWD = 0x8000, -100
_OCTAL = re.compile(rb"\\([0-7]{3})")
"""How mountinfo writes blanks."""
MIRRORED_MAX = 2000
"""Entries of a directory that is mirrored, one mount each."""


def bind_mounts(mounts: Sequence[Mapping[str, str]], staging: str, inside_user_namespace: bool) -> None:
    """Bind everything a pod is given into this process's own mount namespace. `staging` is an empty directory.

    Each mount has a `target` and either a `source` or a `size` (a fresh memory file system); `mode` is "ro" or "rw".
    """
    make_private()
    # Opened before anything is covered: a source may lie under another one's target.
    sources = [os.open(mount["source"], os.O_PATH | os.O_CLOEXEC) if mount.get("source") else -1 for mount in mounts]
    bind_all(mounts, sources, staging, inside_user_namespace)


def make_private() -> None:
    """Mounts from here on are visible in this namespace only."""
    mount("none", "/", "", MS_REC | MS_PRIVATE)


def make_private_around(path: str) -> None:
    """What is mounted below this path from here on is visible in this namespace only; all else stays as it is."""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
            number = next(row.split()[1] for row in file if row.startswith(b"mnt_id:"))
    finally:
        os.close(fd)
    with open("/proc/self/mountinfo", "rb") as file:
        place = next(row.split()[4] for row in file if row.split()[0] == number)
    mount("none", _plain(place), "", MS_PRIVATE)


def detach(path: str) -> None:
    """Remove what is mounted here, if anything is."""
    libc().umount2(path.encode(), MNT_DETACH)


def share(directory: str) -> None:
    """What is mounted in this directory is visible in all mount namespaces that come from this one."""
    os.makedirs(directory, exist_ok=True)
    try:
        mount("none", directory, "", MS_REC | MS_SHARED)
    except OSError:  # no mount yet
        mount(directory, directory, "", MS_BIND | MS_REC)
        mount("none", directory, "", MS_REC | MS_SHARED)


def bind_all(
    mounts: Sequence[Mapping[str, str]],
    sources: Sequence[int],
    staging: str,
    inside_user_namespace: bool,
    *,
    is_isolated: bool = False,
) -> list[str]:
    """Bind open sources to their targets; returns the directories that had to be replaced by mirrors in memory.

    In an isolated pod sources are copies of mounts (`copy_mounts`), and the machine's own file systems are read-only:
    a mount point is simply created if that is possible.
    """
    mirrors = []
    ordered = sorted(zip(mounts, sources, strict=True), key=lambda pair: pair[0]["target"])
    for each, source in ordered:
        if not any(each["target"].startswith(f"{other['target']}/") for other in mounts):
            mirrors += _make_mount_point(each["target"], _is_directory(source), staging, is_isolated)
    for each, source in ordered:
        target = each["target"]
        if not os.path.lexists(target):
            around = [other for other in mounts if target.startswith(f"{other['target']}/")]
            if any(other.get("is_judged") for other in around):
                # In a directory of the machine it would be created with our rights, and stay there.
                raise OSError(errno.ENOENT, f"there is no {target} in the volume around it: create it there first")
            _make_entry(target, _is_directory(source))
        if source < 0:
            mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={each['size']}")
            continue
        if is_isolated:
            _attach(source, target)
        else:
            mount(f"/proc/self/fd/{source}", target, "", MS_BIND | MS_REC)
        os.close(source)
        attributes = ATTR_NOSUID | ATTR_NODEV | (ATTR_RDONLY if each.get("mode") == "ro" else 0)
        restrict(target, attributes, inside_user_namespace)
    return mirrors


def copy_mounts(source: int) -> int:
    """A descriptor of a copy of a directory with all that is mounted in it, for `bind_all`."""
    flags = _OPEN_TREE_CLONE | _AT_EMPTY_PATH | _AT_RECURSIVE | os.O_CLOEXEC
    result = libc().syscall(ctypes.c_long(_SYS_OPEN_TREE), ctypes.c_long(source), b"", ctypes.c_ulong(flags))
    if result < 0:
        check_result(-1, "open_tree")
    os.close(source)
    return int(result)


def _attach(copy: int, target: str) -> None:
    result = libc().syscall(
        ctypes.c_long(_SYS_MOVE_MOUNT),
        ctypes.c_long(copy),
        b"",
        ctypes.c_long(_AT_FDCWD),
        target.encode(),
        ctypes.c_ulong(_MOVE_FROM_EMPTY_PATH),
    )
    check_result(result, f"move_mount {target}")


def restrict(target: str, attributes: int, inside_user_namespace: bool, *, is_recursive: bool = True) -> None:
    """Set attributes of a mount, and of all mounts below it: each has options of its own."""
    try:
        _set_attributes(target, attributes, is_recursive)
    except OSError:  # a kernel before 5.12, or a system call filter
        for place in _mounts_below(target) if is_recursive else [target]:
            kept = os.statvfs(place).f_flag & (_ST_LOCKED if inside_user_namespace else _ST_SET)
            mount("none", place, "", MS_BIND | MS_REMOUNT | attributes | kept)


def _set_attributes(target: str, attributes: int, is_recursive: bool) -> None:
    wanted = struct.pack("=QQQQ", attributes, 0, 0, 0)
    result = libc().syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_long(_AT_FDCWD),
        target.encode(),
        ctypes.c_ulong(_AT_RECURSIVE if is_recursive else 0),
        wanted,
        ctypes.c_ulong(len(wanted)),
    )
    check_result(result, f"mount_setattr {target}")


def _mounts_below(target: str) -> list[str]:
    """The target itself, and every mount point below it."""
    with open("/proc/self/mountinfo", "rb") as file:
        paths = [_plain(row.split()[4]) for row in file]
    prefix = target.rstrip("/")
    return [place for place in dict.fromkeys(paths) if place == target or place.startswith(f"{prefix}/")]


def _plain(place: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), place))


def _is_directory(source: int) -> bool:
    return source < 0 or stat.S_ISDIR(os.fstat(source).st_mode)


def _make_mount_point(target: str, is_directory: bool, staging: str, is_read_only: bool) -> list[str]:
    """Create a mount point; returns what had to be mirrored for it."""
    if os.path.lexists(target):
        return []
    if is_read_only:
        try:
            _make_entry(target, is_directory)  # in a file system of the pod's own: the machine's are read-only
            return []
        except OSError:
            pass
    ancestor = os.path.dirname(target)
    while not os.path.isdir(ancestor):
        ancestor = os.path.dirname(ancestor)
    _mirror(ancestor, staging)
    _make_entry(target, is_directory)
    return [ancestor]


def _make_entry(target: str, is_directory: bool) -> None:
    os.makedirs(target if is_directory else os.path.dirname(target), exist_ok=True)
    if not is_directory:
        open(target, "w").close()


def _mirror(directory: str, staging: str) -> None:
    """Replace a directory by a file system in memory that contains everything it did, and room for more."""
    entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    if len(entries) > MIRRORED_MAX:
        raise OSError(f"{directory} holds {len(entries)} entries, too many to add a mount point")
    mount("tmpfs", staging, "tmpfs", 0, f"mode={stat.S_IMODE(os.stat(directory).st_mode):o}")
    mount("none", staging, "", MS_UNBINDABLE)  # or it would be bound into itself
    for entry in entries:
        copy = f"{staging}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), copy)
            continue
        if entry.is_dir():
            os.mkdir(copy)
        else:
            open(copy, "w").close()
        try:
            mount(entry.path, copy, "", MS_BIND | MS_REC)
        except OSError:  # removed meanwhile, or not accessible
            continue
    if directory == "/":
        _pivot_root(staging)
    else:
        mount(staging, directory, "", MS_MOVE)
    mount("none", directory, "", MS_PRIVATE)


def _pivot_root(staging: str) -> None:
    os.chdir(staging)
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    # "." for both puts the old root under the new one at the same place, from where it is unmounted.
    check_result(libc().syscall(number, b".", b"."), "pivot_root")
    check_result(libc().umount2(b".", 2), "umount")
    os.chdir("/")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """The system call of that name; the OSError it raises names the target."""
    data = options.encode() or None
    result = libc().mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data)
    check_result(result, f"mount {target}")
