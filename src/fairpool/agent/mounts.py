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
from contextlib import suppress

from fairpool.agent import process_attributes
from fairpool.agent.libc import check_result, libc
from fairpool.agent.mount_point import create_below, open_place, resolved_targets

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
_OPEN_TREE_CLONE, _AT_EMPTY_PATH, _MOVE_EMPTY_PATHS = 1, 0x1000, 0x04 | 0x40
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
    user: Sequence[int] | None = None,
    groups: Sequence[int] = (),
) -> list[str]:
    """Bind open sources to their targets; returns the directories that had to be replaced by mirrors in memory.

    In an isolated pod sources are copies of mounts (`copy_mounts`), and the machine's own file systems are read-only:
    a mount point is simply created if that is possible. In another volume it is created as the pod's `user`, who is in
    these supplementary `groups`: a claim may belong to one of them.
    """
    mirrors = []
    places = resolved_targets(each["target"] for each in mounts)
    given = {places[each["target"]]: each for each in mounts}
    ordered = sorted(
        ((places[each["target"]], each, source) for each, source in zip(mounts, sources, strict=True)),
        key=lambda row: row[0],
    )
    for place, _, source in ordered:
        if _around(place, given) is None:
            mirrors += _make_mount_point(place, _is_directory(source), staging, is_isolated)
    for place, each, source in ordered:
        at = _mount_point(place, _around(place, given), _is_directory(source), user, groups)
        try:
            _attach(source, at, place, each, is_isolated)
        finally:
            os.close(at)
        if source < 0:
            continue
        attributes = ATTR_NOSUID | ATTR_NODEV | (ATTR_RDONLY if each.get("mode") == "ro" else 0)
        top = source if is_isolated else open_place(place)[0]
        restrict(place, attributes, inside_user_namespace, handle=top)
        for fd in {source, top}:
            os.close(fd)
    return mirrors


def _around(place: str, given: Mapping[str, Mapping[str, str]]) -> Mapping[str, str] | None:
    """The mount that a place is in."""
    above = os.path.dirname(place)
    while above != "/":
        if above in given:
            return given[above]
        above = os.path.dirname(above)
    return None


def _mount_point(
    place: str, around: Mapping[str, str] | None, is_directory: bool, user: Sequence[int] | None, groups: Sequence[int]
) -> int:
    """A descriptor of a mount point, which is created if it is in a volume of the pod's own: with the rights of the
    pod's user, because a volume can be changed at the same time."""
    at, missing = open_place(place)
    if not missing:
        return at
    what = f"there is no {place} in the volume around it"
    if around is None or around.get("is_judged"):
        os.close(at)
        # In a directory of the machine it would be created with our rights, and stay there.
        raise OSError(errno.ENOENT, f"{what}: create it there first")
    try:
        if user is not None:
            process_attributes.act_as(user[0], user[1], (user[1], *groups))
        return create_below(at, missing, is_directory=is_directory)
    except OSError as error:
        why = os.strerror(error.errno or errno.EIO)
        raise OSError(error.errno, f"{what}, and it cannot be created ({why}): create it there first") from None
    finally:
        if user is not None:
            process_attributes.act_as(0, 0, ())


def _attach(source: int, at: int, place: str, each: Mapping[str, str], is_isolated: bool) -> None:
    if source < 0:
        options = f"mode=1777,size={each['size']}"
        mount("tmpfs", f"/proc/self/fd/{at}", "tmpfs", MS_NOSUID | MS_NODEV, options, shown=place)
    elif is_isolated:
        result = libc().syscall(
            ctypes.c_long(_SYS_MOVE_MOUNT),
            ctypes.c_long(source),
            b"",
            ctypes.c_long(at),
            b"",
            ctypes.c_ulong(_MOVE_EMPTY_PATHS),
        )
        check_result(result, f"move_mount {place}")
    else:
        mount(f"/proc/self/fd/{source}", f"/proc/self/fd/{at}", "", MS_BIND | MS_REC, shown=place)


def copy_mounts(source: int) -> int:
    """A descriptor of a copy of a directory with all that is mounted in it, for `bind_all`."""
    flags = _OPEN_TREE_CLONE | _AT_EMPTY_PATH | _AT_RECURSIVE | os.O_CLOEXEC
    result = libc().syscall(ctypes.c_long(_SYS_OPEN_TREE), ctypes.c_long(source), b"", ctypes.c_ulong(flags))
    if result < 0:
        check_result(-1, "open_tree")
    os.close(source)
    return int(result)


def restrict(
    target: str, attributes: int, inside_user_namespace: bool, *, is_recursive: bool = True, handle: int = -1
) -> None:
    """Set attributes of a mount, and of all mounts below it: each has options of its own. With a handle, it is the
    mount that is open there."""
    try:
        _set_attributes(target, attributes, is_recursive, handle)
    except OSError:  # a kernel before 5.12, or a system call filter
        for place in _mounts_below(target) if is_recursive else [target]:
            kept = os.statvfs(place).f_flag & (_ST_LOCKED if inside_user_namespace else _ST_SET)
            mount("none", place, "", MS_BIND | MS_REMOUNT | attributes | kept)


def _set_attributes(target: str, attributes: int, is_recursive: bool, handle: int) -> None:
    wanted = struct.pack("=QQQQ", attributes, 0, 0, 0)
    flags = (_AT_RECURSIVE if is_recursive else 0) | (_AT_EMPTY_PATH if handle >= 0 else 0)
    result = libc().syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_long(handle if handle >= 0 else _AT_FDCWD),
        b"" if handle >= 0 else target.encode(),
        ctypes.c_ulong(flags),
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


def _make_mount_point(place: str, is_directory: bool, staging: str, is_read_only: bool) -> list[str]:
    """Create a mount point; returns what had to be mirrored for it."""
    at, missing = open_place(place)
    if not missing:
        os.close(at)
        return []
    if is_read_only:
        try:
            # In a file system of the pod's own: the machine's are read-only.
            os.close(create_below(at, missing, is_directory=is_directory))
            return []
        except OSError:
            at, missing = open_place(place)
    ancestor = place
    for _ in missing:
        ancestor = os.path.dirname(ancestor)
    try:
        _mirror(at, ancestor, staging)
    finally:
        os.close(at)
    os.close(create_below(*open_place(place), is_directory=is_directory))
    return [ancestor]


def _mirror(at: int, directory: str, staging: str) -> None:
    """Replace an open directory by a file system in memory that contains everything it did, and room for more."""
    names = sorted(os.listdir(f"/proc/self/fd/{at}"))
    if len(names) > MIRRORED_MAX:
        raise OSError(f"{directory} holds {len(names)} entries, too many to add a mount point")
    mount("tmpfs", staging, "tmpfs", 0, f"mode={stat.S_IMODE(os.fstat(at).st_mode):o}")
    mount("none", staging, "", MS_UNBINDABLE)  # or it would be bound into itself
    for name in names:
        try:
            entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        except OSError:  # removed meanwhile
            continue
        try:
            _mirror_entry(entry, f"{staging}/{name}")
        finally:
            os.close(entry)
    new = os.open(staging, os.O_PATH | os.O_CLOEXEC)
    try:
        if directory == "/":
            _pivot_root(staging)
        else:
            mount(staging, f"/proc/self/fd/{at}", "", MS_MOVE, shown=directory)
        mount("none", f"/proc/self/fd/{new}", "", MS_PRIVATE, shown=directory)
    finally:
        os.close(new)


def _mirror_entry(entry: int, copy: str) -> None:
    mode = os.fstat(entry).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink("", dir_fd=entry), copy)
        return
    if stat.S_ISDIR(mode):
        os.mkdir(copy)
    else:
        os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    with suppress(OSError):  # not accessible
        mount(f"/proc/self/fd/{entry}", copy, "", MS_BIND | MS_REC)


def _pivot_root(staging: str) -> None:
    os.chdir(staging)
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    # "." for both puts the old root under the new one at the same place, from where it is unmounted.
    check_result(libc().syscall(number, b".", b"."), "pivot_root")
    check_result(libc().umount2(b".", 2), "umount")
    os.chdir("/")


def mount(source: str, target: str, kind: str, flags: int, options: str = "", *, shown: str = "") -> None:
    """The system call of that name; the OSError it raises names the target, or what is shown instead of it."""
    data = options.encode() or None
    result = libc().mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data)
    check_result(result, f"mount {shown or target}")
