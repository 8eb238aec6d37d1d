"""Attributes of the calling process: its name, what happens when its parent dies, its user and its privileges.

Runs in shims, so it imports next to nothing.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Sequence

from fairpool.agent.libc import check_result, libc

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME, PR_CAPBSET_DROP = 1, 4, 15, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
CAPABILITIES_MAX = 64
"""Numbers that are tried when capabilities are dropped; the kernel returns an error after the last."""
_SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1


def set_process_name(name: str) -> None:
    """What `ps` shows, cut to 15 bytes by the kernel."""
    libc().prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def become_subreaper() -> None:
    """From now on a process orphaned below this one becomes its child, however often it daemonized."""
    check_result(libc().prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def end_with_parent() -> None:
    """Be killed when the parent dies from now on."""
    check_result(libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def die_with_parent(parent: int) -> None:
    """Be killed when the parent dies, also if it died before this call."""
    end_with_parent()
    if os.getppid() != parent:
        os._exit(1)


def outlive_parent() -> None:
    """Undo `end_with_parent`."""
    libc().prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)


def become_user(uid: int, gid: int, groups: Sequence[int] = ()) -> None:
    """Change to this user, with these supplementary groups and no others. Only root can."""
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def act_as(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Open files with the permissions of this user; only root can, and is root again with `act_as(0, 0, ())`."""
    os.setgroups(groups)
    libc().setfsgid(gid)
    libc().setfsuid(uid)


def new_session_keyring() -> None:
    """Leave the session key ring of the user who started the server; where the kernel has any."""
    number = _SYS_KEYCTL.get(os.uname().machine)
    if number is not None:
        libc().syscall(ctypes.c_long(number), ctypes.c_long(_JOIN_SESSION_KEYRING), None)


def hide_memory() -> None:
    """Let no process of the same user read this one's memory, until it executes a program."""
    check_result(libc().prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl")


def show_memory() -> None:
    """After a change of user a process may not even access its own /proc files before this."""
    check_result(libc().prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")


def drop_privileges() -> None:
    """No program that is executed from here on can have more rights than its user has."""
    for number in range(CAPABILITIES_MAX):
        if libc().prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break
    check_result(libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
