"""A pod's own view of the machine: its mounts, its host name, its /dev/shm, as far as the system permits.

There is no image to unpack: a pod sees the machine's files. What it is given besides is bound over them in a mount
namespace of its own. A place to bind to that does not exist is made in the pod's view only: the nearest directory that
exists is replaced by a mirror of itself in memory, so that nothing is left on the machine.

Runs in shims, so it imports next to nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import signal
import stat
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_MOVE, MS_REC, MS_UNBINDABLE, MS_PRIVATE = 4096, 8192, 16384, 1 << 17, 1 << 18
_ST_SET = 1 | 2 | 4 | 8
_ST_LOCKED = 1 | 2 | 4 | 8 | 1024 | 2048 | 4096
"""Mount options that are kept when a mount is restricted further: read-only, nosuid, nodev, noexec; without privileges
also how it treats access times."""

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME, PR_CAPBSET_DROP = 1, 4, 15, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
CAPABILITIES_MAX = 64
"""Numbers that are tried when capabilities are dropped; the kernel says where they end."""
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1

_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
"""The same on every machine, as of all calls that are newer than 2019."""
_OPEN_TREE_CLONE, _AT_EMPTY_PATH, _MOVE_FROM_EMPTY_PATH = 1, 0x1000, 4
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
_AT_RECURSIVE, _AT_FDCWD = 0x8000, -100
_OCTAL = re.compile(rb"\\([0-7]{3})")
"""How mountinfo writes blanks."""

MIRRORED_MAX = 2000
"""Entries of a directory that we are willing to mirror, one mount each."""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def warm_up(name: str) -> None:
    """Look up once what every shim will call, so that it is found in memory they share."""
    set_process_name(name)
    for function in ("unshare", "sethostname", "mount", "syscall", "setns", "setgroups"):
        getattr(_libc(), function)


def become_subreaper() -> None:
    """From now on whoever is orphaned below this process becomes its child, however often it daemonised."""
    _check(_libc().prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def end_with_parent() -> None:
    """Be killed when the parent goes from now on."""
    _check(_libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def die_with_parent(parent: int) -> None:
    """Be killed when the parent goes, also if it went before we could ask for that."""
    end_with_parent()
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
    _set_host_name(name)


def isolate_children(host_name: str) -> None:
    """From now on children of this process are in a process table of their own, with a host name and IPC of their own.

    The first child is process 1 there: when it ends, all of them do. This process itself stays where it is.
    """
    enter(CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)
    if host_name:
        _set_host_name(host_name)


def _set_host_name(name: str) -> None:
    encoded = name.encode()[:64]
    _check(_libc().sethostname(encoded, len(encoded)), "sethostname")


def enter(flags: int) -> None:
    """Leave the namespaces shared with everyone; without privileges, through a user namespace that keeps our ids."""
    if os.geteuid() == 0:
        unshare(flags)
    else:
        own_user_namespace(flags)


def unshare(flags: int) -> None:
    _check(_libc().unshare(flags), "unshare")


def own_user_namespace(flags: int = 0) -> None:
    """Enter a user namespace in which our ids are the only ones; in it we may do anything, until we execute a program.

    Processes are counted in it, so a limit on their number holds for it alone.
    """
    uid, gid = os.geteuid(), os.getegid()
    unshare(flags | CLONE_NEWUSER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def join(pid: int) -> None:
    """Enter the view of another process, as far as it differs from ours; children of ours join its process table.

    As root the user namespace is entered last: in it we have no rights over the others. Elsewhere it is entered first,
    because it gives them.
    """
    kinds = ["ipc", "uts", "pid", "mnt"]
    kinds = [*kinds, "user"] if os.geteuid() == 0 else ["user", *kinds]
    own = {kind: os.stat(f"/proc/self/ns/{kind}").st_ino for kind in kinds}
    handles = [
        os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        for kind, inode in own.items()
        if os.stat(path := f"/proc/{pid}/ns/{kind}").st_ino != inode
    ]
    if os.geteuid() == 0:
        os.setgroups([])  # inside its user namespace nobody may
    for handle in handles:
        _check(_libc().setns(handle, 0), "setns")
        os.close(handle)


def join_pid_namespace(pid: int) -> None:
    """Let children of ours be in the process table of another process; without privileges, in its user namespace."""
    for kind in ("pid",) if os.geteuid() == 0 else ("user", "pid"):
        handle = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(_libc().setns(handle, 0), "setns")
        finally:
            os.close(handle)


def pid_namespace_of_children() -> int:
    """The inode that names the process table of our children, once there is one."""
    return os.stat("/proc/self/ns/pid_for_children").st_ino


def become_user(uid: int, gid: int) -> None:
    """Be this user and nobody else, with no other groups. Only root can."""
    _check(_libc().setgroups(0, None), "setgroups")
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def act_as(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Open files as this user may, from now on; as root alone, and root again with `act_as(0, 0, ())`."""
    os.setgroups(groups)
    _libc().setfsgid(gid)
    _libc().setfsuid(uid)


def new_session_keyring() -> None:
    """Have a session key ring of our own, instead of the one of whoever started the server; where there are any."""
    number = _SYS_KEYCTL.get(os.uname().machine)
    if number is not None:
        _libc().syscall(ctypes.c_long(number), ctypes.c_long(_JOIN_SESSION_KEYRING), None)


def hide_memory() -> None:
    """Let no process of the same user look into this one, until it executes a program."""
    _check(_libc().prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl")


def show_memory() -> None:
    """Who has become another user may not even look at itself, until it says so."""
    _check(_libc().prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")


def drop_privileges() -> None:
    """No program that is executed from here on can have more rights than its user has."""
    for number in range(CAPABILITIES_MAX):
        if _libc().prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break
    _check(_libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def permitted(flags: int) -> str:
    """Empty if this process may have these namespaces, else why not, in the system's words. Tried in a child."""

    def trial() -> None:
        enter(flags)
        if flags & CLONE_NEWNS:
            make_private()

    return tried_in_child(trial)


def tried_in_child(trial: Callable[[], None]) -> str:
    """Empty if this can be done, else why not; whatever it does to a process, it does to a child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            trial()
        except OSError as error:
            os.write(writer, str(error.strerror).encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        words = answer.read().decode(errors="replace")
    os.waitpid(child, 0)
    return words


def mount_view(mounts: Sequence[Mapping[str, str]], staging: str, inside_user_namespace: bool) -> None:
    """Bind everything a pod is given into this process's own mount namespace. `staging` is an empty directory.

    Each mount has a `target` and either a `source` or a `size` (a fresh memory file system); `mode` is "ro" or "rw".
    """
    make_private()
    # Opened before anything is covered: a source may lie under another one's target.
    sources = [os.open(mount["source"], os.O_PATH | os.O_CLOEXEC) if mount.get("source") else -1 for mount in mounts]
    bind_all(mounts, sources, staging, inside_user_namespace)


def make_private() -> None:
    """Whatever is mounted from here on is mounted for this namespace alone."""
    mount("none", "/", "", MS_REC | MS_PRIVATE)


def bind_all(
    mounts: Sequence[Mapping[str, str]],
    sources: Sequence[int],
    staging: str,
    inside_user_namespace: bool,
    *,
    is_isolated: bool = False,
) -> list[str]:
    """Bind open sources to their targets; the answer is where directories had to be replaced by mirrors in memory.

    In an isolated pod sources are copies of mounts (`copy_mounts`), and the machine's own file systems are read-only:
    a place is simply made if that is possible.
    """
    mirrors = []
    ordered = sorted(zip(mounts, sources, strict=True), key=lambda pair: pair[0]["target"])
    for each, source in ordered:
        if not any(each["target"].startswith(f"{other['target']}/") for other in mounts):
            mirrors += _make_place(each["target"], _is_directory(source), staging, is_isolated)
    for each, source in ordered:
        target = each["target"]
        if not os.path.lexists(target):
            around = [other for other in mounts if target.startswith(f"{other['target']}/")]
            if any(other.get("is_judged") for other in around):
                # In a directory of the machine it would be made with our rights, and stay there.
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
    """A descriptor of what is open here with all that is mounted in it, as it is now, for `bind_all`."""
    flags = _OPEN_TREE_CLONE | _AT_EMPTY_PATH | _AT_RECURSIVE | os.O_CLOEXEC
    result = _libc().syscall(ctypes.c_long(_SYS_OPEN_TREE), ctypes.c_long(source), b"", ctypes.c_ulong(flags))
    if result < 0:
        _check(-1, "open_tree")
    os.close(source)
    return int(result)


def _attach(copy: int, target: str) -> None:
    result = _libc().syscall(
        ctypes.c_long(_SYS_MOVE_MOUNT),
        ctypes.c_long(copy),
        b"",
        ctypes.c_long(_AT_FDCWD),
        target.encode(),
        ctypes.c_ulong(_MOVE_FROM_EMPTY_PATH),
    )
    _check(result, f"move_mount {target}")


def restrict(target: str, attributes: int, inside_user_namespace: bool, *, is_recursive: bool = True) -> None:
    """Set attributes of a mount; with everything that is mounted below it: each mount has options of its own."""
    try:
        _set_attributes(target, attributes, is_recursive)
    except OSError:  # a kernel before 5.12, or a filter that does not know the call
        for place in _mounts_below(target) if is_recursive else [target]:
            kept = os.statvfs(place).f_flag & (_ST_LOCKED if inside_user_namespace else _ST_SET)
            mount("none", place, "", MS_BIND | MS_REMOUNT | attributes | kept)


def _set_attributes(target: str, attributes: int, is_recursive: bool) -> None:
    wanted = struct.pack("=QQQQ", attributes, 0, 0, 0)
    result = _libc().syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_long(_AT_FDCWD),
        target.encode(),
        ctypes.c_ulong(_AT_RECURSIVE if is_recursive else 0),
        wanted,
        ctypes.c_ulong(len(wanted)),
    )
    _check(result, f"mount_setattr {target}")


def _mounts_below(target: str) -> list[str]:
    """The place itself, and every place below it at which something is mounted."""
    with open("/proc/self/mountinfo", "rb") as file:
        paths = [os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), row.split()[4])) for row in file]
    prefix = target.rstrip("/")
    return [place for place in dict.fromkeys(paths) if place == target or place.startswith(f"{prefix}/")]


def _is_directory(source: int) -> bool:
    return source < 0 or stat.S_ISDIR(os.fstat(source).st_mode)


def _make_place(target: str, is_directory: bool, staging: str, is_read_only: bool) -> list[str]:
    """Where it does not exist yet; the answer is what had to be mirrored for it."""
    if os.path.lexists(target):
        return []
    if is_read_only:
        try:
            _make_entry(target, is_directory)  # in a file system of the pod's own: the machine's takes nothing
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
    """Replace a directory by a file system in memory in which everything it held is still there, and room for more."""
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
        except OSError:  # gone meanwhile, or one we may not see
            continue
    if directory == "/":
        _turn_root(staging)
    else:
        mount(staging, directory, "", MS_MOVE)
    mount("none", directory, "", MS_PRIVATE)


def _turn_root(staging: str) -> None:
    os.chdir(staging)
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    # "." for both puts the old root under the new one at the same place, from where it is unmounted.
    _check(_libc().syscall(number, b".", b"."), "pivot_root")
    _check(_libc().umount2(b".", 2), "umount")
    os.chdir("/")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """The system call of that name; raises OSError with the place in its words."""
    data = options.encode() or None
    result = _libc().mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data)
    _check(result, f"mount {target}")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
