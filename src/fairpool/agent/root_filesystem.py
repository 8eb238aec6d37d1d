"""The root file system of a pod: the machine's, read-only, without the platform, other users' files and most devices.

Set up by the pod's first process in a mount namespace of its own, before the program starts, as `isolation.py` has
decided. What is covered here cannot be uncovered from inside: a pod has no capabilities over this namespace, and in one
that it creates below it may unmount nothing that was mounted above. Imports next to nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence

from fairpool.agent import mounts, namespaces, process_attributes
from fairpool.agent.mount_source import check_source, open_source
from fairpool.agent.mounts import ATTR_NOSUID, ATTR_RDONLY, MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_REC

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` to know this would be a tenth of every shim's memory
    from typing import Any

HOMES = "/home"
HOME = f"{HOMES}/pod"
OWN = "/run/fairpool"
"""Where a pod finds what Fairpool puts into it."""
STAGING = f"{OWN}/.view"
ACCOUNTS, ACCOUNT = "/etc/passwd", "pod"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
GPU_DEVICES = "nvidia"
"""The prefix of the devices that CUDA opens."""
SERVICES = ("systemd/resolve", "NetworkManager/resolv.conf", "resolvconf", "nvidia-persistenced", "current-system")
"""What remains of /run: name resolution, and what the driver and some distributions keep there."""
STREAMS = (("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"))
DEVICE_LINKS = (("fd", "/proc/self/fd"), *STREAMS, ("ptmx", "pts/ptmx"))


def make_root_filesystem(view: Mapping[str, Any], volumes: Sequence[Mapping[str, Any]]) -> None:
    """For this process and its children. Raises OSError, or `SourceRefused` for a volume that may not be mounted."""
    inside = os.geteuid() != 0
    namespaces.unshare(namespaces.CLONE_NEWNS)
    mounts.make_private()
    # Everything is opened before anything is covered.
    services = [(name, _handle(f"/run/{name}")) for name in SERVICES if os.path.exists(f"/run/{name}")]
    devices = [(name, _handle(f"/dev/{name}")) for name in _devices()]
    given = [*view["binds"], *volumes]
    for each in view["binds"]:
        if each.get("is_made"):
            make_temporary(each["source"], view["user"])
    sources = [mounts.copy_mounts(open_volume(each, view["volumes"])) for each in given]
    mounts.restrict("/", ATTR_RDONLY | ATTR_NOSUID, inside)
    own = [place for place in view["hidden"] if os.path.isdir(place)]
    for place in own:
        mounts.mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    os.makedirs(STAGING)
    for name, handle in services:
        _bind(handle, f"/run/{name}")
    _make_devices(devices, view["shm_bytes"])
    mounts.mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    groups = view.get("groups", ())  # orders of earlier versions have none
    own += mounts.bind_all(given, sources, STAGING, inside, is_isolated=True, user=view["user"], groups=groups)
    own += _name_user(view["user"])
    for place in (*own, "/dev"):
        mounts.restrict(place, ATTR_RDONLY | ATTR_NOSUID, inside, is_recursive=False)


def make_temporary(directory: str, user: Sequence[int] | None) -> None:
    """A directory for temporary files, if it is not there."""
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return
    if user is not None:
        os.chown(directory, *user)
    os.chmod(directory, 0o1777)


def open_volume(each: Mapping[str, Any], rules: Mapping[str, Any]) -> int:
    """A descriptor of what is to be mounted. Raises OSError, or `SourceRefused` if it may not be."""
    if not each.get("is_judged"):
        return _handle(each["source"])
    actor = rules["act_as"] if os.geteuid() == 0 else None
    if actor is None:
        return open_source(each["source"], rules)
    # The kernel decides whether that user may open it: access lists, network file systems.
    try:
        process_attributes.act_as(*actor)
        fd = _handle(each["source"])
        os.close(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    finally:
        process_attributes.act_as(0, 0, ())
    check_source(fd, each["source"], rules)
    return fd


def _name_user(user: Sequence[int] | None) -> list[str]:
    """Give the user of a project, which the machine has no account for, a name in this file system: prompts, `whoami`
    and `getpwuid` fail without one. Returns what was mounted."""
    if user is None or not os.path.isfile(ACCOUNTS):
        return []
    with open(ACCOUNTS, encoding="utf-8", errors="surrogateescape") as file:
        accounts = file.read()
    if any(line.split(":")[2:3] == [str(user[0])] for line in accounts.splitlines()):
        return []
    copy = f"{STAGING}/accounts"
    with open(copy, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{accounts.rstrip()}\n{ACCOUNT}:x:{user[0]}:{user[1]}::{HOME}:/bin/bash\n")
    os.chmod(copy, 0o644)
    mounts.mount(copy, ACCOUNTS, "", MS_BIND)
    return [ACCOUNTS]


def _devices() -> list[str]:
    """Harmless devices, and those of GPUs; directories of them too."""
    found = [name for name in DEVICES if os.path.exists(f"/dev/{name}")]
    for name in sorted(os.listdir("/dev")):
        if name.startswith(GPU_DEVICES):
            mode = os.lstat(f"/dev/{name}").st_mode
            if stat.S_ISCHR(mode) or stat.S_ISDIR(mode):
                found.append(name)
    return found


def _make_devices(devices: Sequence[tuple[str, int]], shm_bytes: int) -> None:
    mounts.mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=755,size=1m")
    for name, handle in devices:
        _bind(handle, f"/dev/{name}")
    for name, target in DEVICE_LINKS:
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/pts")
    mounts.mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    os.mkdir("/dev/shm")
    size = f",size={shm_bytes}" if shm_bytes else ""
    mounts.mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777{size}")


def _handle(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _bind(handle: int, target: str) -> None:
    if stat.S_ISDIR(os.fstat(handle).st_mode):
        os.makedirs(target)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    mounts.mount(f"/proc/self/fd/{handle}", target, "", MS_BIND | MS_REC)
    os.close(handle)
