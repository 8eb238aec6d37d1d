"""A pod's own view of the machine: its mounts, its host name, its /dev/shm, as far as the system permits.

There is no image to unpack: a pod sees the machine's files. What it is given besides is bound over them in a mount
namespace of its own. A place to bind to that does not exist is made in the pod's view only: the nearest folder that
exists is replaced by a mirror of itself in memory, so that nothing is left on the machine.

Runs in keepers, so it imports next to nothing.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import stat
import struct
from collections.abc import Mapping, Sequence
from functools import cache

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT = 1, 2, 4, 32
MS_BIND, MS_MOVE, MS_REC, MS_UNBINDABLE, MS_PRIVATE = 4096, 8192, 16384, 1 << 17, 1 << 18
_ST_LOCKED = 2 | 4 | 8 | 1024 | 2048 | 4096
"""Mount options that must be kept when a mount is made read-only without privileges: nosuid, nodev, noexec, atime."""

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_SYS_MOUNT_SETATTR = 442
"""The same on every machine, as of all calls that are newer than 2019."""
_MOUNT_ATTR_RDONLY, _AT_RECURSIVE, _AT_FDCWD = 1, 0x8000, -100
_OCTAL = re.compile(rb"\\([0-7]{3})")
"""How mountinfo writes blanks."""

MIRRORED_MAX = 2000
"""Entries of a folder that we are willing to mirror, one mount each."""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def warm_up(name: str) -> None:
    """Look up once what every keeper will call, so that it is found in memory they share."""
    set_process_name(name)
    for function in ("unshare", "sethostname"):
        getattr(_libc(), function)


def become_subreaper() -> None:
    """From now on whoever is orphaned below this process becomes its child, however often it daemonised."""
    _check(_libc().prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def die_with_parent(parent: int) -> None:
    """Be killed when the parent goes, also if it went before we could ask for that."""
    _check(_libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        os._exit(1)


def outlive_parent() -> None:
    """Take that back."""
    _libc().prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)


def set_process_name(name: str) -> None:
    """What `ps` shows, cut to 15 bytes by the kernel."""
    _libc().prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def own_host_name(name: str) -> None:
    """Give this process and those it starts a host name of their own."""
    enter(CLONE_NEWUTS)
    encoded = name.encode()[:64]
    _check(_libc().sethostname(encoded, len(encoded)), "sethostname")


def enter(flags: int) -> None:
    """Leave the namespaces shared with everyone; without privileges, through a user namespace that keeps our ids."""
    uid, gid = os.geteuid(), os.getegid()
    needs_user = uid != 0
    _check(_libc().unshare(flags | (CLONE_NEWUSER if needs_user else 0)), "unshare")
    if needs_user:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")


def join(pid: int) -> None:
    """Enter the view of another process, as far as it differs from ours."""
    own = {kind: os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("user", "uts", "mnt")}
    handles = [
        os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        for kind, inode in own.items()
        if os.stat(path := f"/proc/{pid}/ns/{kind}").st_ino != inode
    ]
    for handle in handles:
        _check(_libc().setns(handle, 0), "setns")
        os.close(handle)


def permitted(flags: int) -> str:
    """Empty if this process may have these namespaces, else why not, in the system's words. Tried in a child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            enter(flags)
            if flags & CLONE_NEWNS:
                _mount("none", "/", "", MS_REC | MS_PRIVATE)
        except OSError as error:
            os.write(writer, str(error.strerror).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        words = answer.read().decode()
    os.waitpid(child, 0)
    return words


def mount_view(mounts: Sequence[Mapping[str, str]], staging: str, inside_user_namespace: bool) -> None:
    """Bind everything a pod is given into this process's own mount namespace. `staging` is an empty folder.

    Each mount has a `target` and either a `source` or a `size` (a fresh memory file system); `mode` is "ro" or "rw".
    """
    _mount("none", "/", "", MS_REC | MS_PRIVATE)
    ordered = sorted(mounts, key=lambda mount: mount["target"])
    for mount in ordered:
        if not any(mount["target"].startswith(f"{other['target']}/") for other in mounts):
            _make_place(mount["target"], _is_folder(mount), staging)
    # Opened before anything is covered: a source may lie under another one's target.
    sources = [os.open(mount["source"], os.O_PATH | os.O_CLOEXEC) if mount.get("source") else -1 for mount in ordered]
    for source, mount in zip(sources, ordered, strict=True):
        target = mount["target"]
        if not os.path.lexists(target):
            _make_entry(target, _is_folder(mount))  # inside another volume, which then really gets a place for it
        if source < 0:
            _mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={mount['size']}")
            continue
        _mount(f"/proc/self/fd/{source}", target, "", MS_BIND | MS_REC)
        os.close(source)
        if mount.get("mode") == "ro":
            _make_read_only(target, inside_user_namespace)


def _make_read_only(target: str, inside_user_namespace: bool) -> None:
    """With everything that is mounted below it: a folder came with its mounts, and each has options of its own."""
    try:
        _set_read_only_recursively(target)
    except OSError:  # a kernel before 5.12, or a filter that does not know the call
        for place in _mounts_below(target):
            kept = os.statvfs(place).f_flag & _ST_LOCKED if inside_user_namespace else 0
            _mount("none", place, "", MS_BIND | MS_REMOUNT | MS_RDONLY | kept)


def _set_read_only_recursively(target: str) -> None:
    attributes = struct.pack("=QQQQ", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    result = _libc().syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_long(_AT_FDCWD),
        target.encode(),
        ctypes.c_ulong(_AT_RECURSIVE),
        attributes,
        ctypes.c_ulong(len(attributes)),
    )
    _check(result, f"mount_setattr {target}")


def _mounts_below(target: str) -> list[str]:
    """The place itself, and every place below it at which something is mounted."""
    with open("/proc/self/mountinfo", "rb") as file:
        places = [os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), row.split()[4])) for row in file]
    return [place for place in dict.fromkeys(places) if place == target or place.startswith(f"{target}/")]


def _is_folder(mount: Mapping[str, str]) -> bool:
    return not mount.get("source") or os.path.isdir(mount["source"])


def _make_place(target: str, is_folder: bool, staging: str) -> None:
    if os.path.lexists(target):
        return
    ancestor = os.path.dirname(target)
    while not os.path.isdir(ancestor):
        ancestor = os.path.dirname(ancestor)
    _mirror(ancestor, staging)
    _make_entry(target, is_folder)


def _make_entry(target: str, is_folder: bool) -> None:
    os.makedirs(target if is_folder else os.path.dirname(target), exist_ok=True)
    if not is_folder:
        open(target, "w").close()


def _mirror(folder: str, staging: str) -> None:
    """Replace a folder by a file system in memory in which everything it held is still there, and room for more."""
    entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    if len(entries) > MIRRORED_MAX:
        raise OSError(f"{folder} holds {len(entries)} entries, too many to add a mount point beside them")
    _mount("tmpfs", staging, "tmpfs", 0, f"mode={stat.S_IMODE(os.stat(folder).st_mode):o}")
    _mount("none", staging, "", MS_UNBINDABLE)  # or it would be bound into itself
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
            _mount(entry.path, copy, "", MS_BIND | MS_REC)
        except OSError:  # gone meanwhile, or one we may not see
            continue
    if folder == "/":
        _turn_root(staging)
    else:
        _mount(staging, folder, "", MS_MOVE)
    _mount("none", folder, "", MS_PRIVATE)


def _turn_root(staging: str) -> None:
    os.chdir(staging)
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    # "." for both puts the old root under the new one at the same place, from where it is unmounted.
    _check(_libc().syscall(number, b".", b"."), "pivot_root")
    _check(_libc().umount2(b".", 2), "umount")
    os.chdir("/")


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    data = options.encode() or None
    result = _libc().mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data)
    _check(result, f"mount {target}")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
