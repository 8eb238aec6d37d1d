"""Linux namespaces: entered by a pod's processes, joined by commands that are executed in it.

Runs in shims, so it imports next to nothing.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Sequence

from fairpool.agent.libc import check_result, libc, write_kernel_file
from fairpool.agent.mounts import make_private

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` to know this would be a tenth of every shim's memory
    from typing import NoReturn

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
PACKET_MAX = 64


def enter(flags: int) -> None:
    """Enter new namespaces; without privileges, through a user namespace that keeps our ids."""
    if os.geteuid() == 0:
        unshare(flags)
    else:
        own_user_namespace(flags)


def unshare(flags: int) -> None:
    check_result(libc().unshare(flags), "unshare")


def own_user_namespace(flags: int = 0) -> None:
    """Enter a user namespace in which our ids are the only ones; in it we have all capabilities, until we execute a
    program.

    Processes are counted in it, so a limit on their number holds for it alone.
    """
    uid, gid = os.geteuid(), os.getegid()
    unshare(flags | CLONE_NEWUSER)
    write_kernel_file("/proc/self/setgroups", "deny")
    write_kernel_file("/proc/self/uid_map", f"{uid} {uid} 1")
    write_kernel_file("/proc/self/gid_map", f"{gid} {gid} 1")


def own_user_namespace_as(become: Callable[[], None], groups: Sequence[int]) -> None:
    """The same for a process that becomes another user by `become`, and has these supplementary groups besides.

    Only a process with privileges in the namespace above may map several groups: a child that stays root does it.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        ours.close()
        _map_parent(theirs, groups)
    theirs.close()
    try:
        become()
        uid, gid = os.geteuid(), os.getegid()  # unknown in the namespace until they are mapped
        unshare(CLONE_NEWUSER)
        ours.send(f"{uid} {gid}".encode())
        error = int(ours.recv(PACKET_MAX) or errno.ECHILD)
    finally:
        ours.close()
        os.waitpid(child, 0)
    if error:
        raise OSError(error, f"its groups cannot be mapped: {os.strerror(error)}")


def _map_parent(to_parent: socket.socket, groups: Sequence[int]) -> NoReturn:
    """In the child: wait until the parent has its namespace, and write the maps of that. Answers 0 or the error."""
    try:
        words = to_parent.recv(PACKET_MAX).split()
        if words:  # else the parent could not enter it
            to_parent.send(str(_write_maps(os.getppid(), int(words[0]), int(words[1]), groups)).encode())
    finally:
        os._exit(0)


def _write_maps(pid: int, uid: int, gid: int, groups: Sequence[int]) -> int:
    try:
        write_kernel_file(f"/proc/{pid}/setgroups", "deny")
        write_kernel_file(f"/proc/{pid}/uid_map", f"{uid} {uid} 1")
        write_kernel_file(f"/proc/{pid}/gid_map", "".join(f"{each} {each} 1\n" for each in sorted({gid, *groups})))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def own_host_name(name: str) -> None:
    """Give this process and those it starts a host name of their own."""
    enter(CLONE_NEWUTS)
    _set_host_name(name)


def isolate_children(host_name: str, *, own_network: bool = False) -> None:
    """Children of this process get a PID namespace, a host name and IPC of their own, and a network if that is asked.

    The first child is process 1 there: when it ends, all of them do. This process sees the same processes as before.
    """
    enter(CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | (CLONE_NEWNET if own_network else 0))
    if host_name:
        _set_host_name(host_name)


def _set_host_name(name: str) -> None:
    encoded = name.encode()[:64]
    check_result(libc().sethostname(encoded, len(encoded)), "sethostname")


def join(pid: int, groups: Sequence[int] = ()) -> None:
    """Join the namespaces of another process, as far as they differ from ours; of PIDs, only our children do. As root
    we have these supplementary groups and no others from then on.

    As root the user namespace is entered last: in it we have no capabilities over the others. Otherwise it is entered
    first, because it gives them.
    """
    kinds = ["ipc", "uts", "net", "pid", "mnt"]
    kinds = [*kinds, "user"] if os.geteuid() == 0 else ["user", *kinds]
    own = {kind: os.stat(f"/proc/self/ns/{kind}").st_ino for kind in kinds}
    handles = [
        os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        for kind, inode in own.items()
        if os.stat(path := f"/proc/{pid}/ns/{kind}").st_ino != inode
    ]
    if os.geteuid() == 0:
        os.setgroups(groups)  # not permitted inside its user namespace
    for handle in handles:
        check_result(libc().setns(handle, 0), "setns")
        os.close(handle)


def join_pid_namespace(pid: int, *, own_network: bool = False) -> None:
    """Let children of ours be in the PID namespace of another process; without privileges, in its user namespace.

    If it has a network of its own, this process enters that too.
    """
    kinds = ("net", "pid") if own_network else ("pid",)
    for kind in kinds if os.geteuid() == 0 else ("user", *kinds):
        handle = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            check_result(libc().setns(handle, 0), "setns")
        finally:
            os.close(handle)


def join_network(pid: int) -> None:
    """Join the network namespace of another process."""
    handle = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        check_result(libc().setns(handle, 0), "setns")
    finally:
        os.close(handle)


def pid_namespace_of_children() -> int:
    """The inode of the PID namespace of our children, once there is one."""
    return os.stat("/proc/self/ns/pid_for_children").st_ino


def permitted(flags: int) -> str:
    """Empty if this process may have these namespaces, else why not. Tried in a child."""

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
