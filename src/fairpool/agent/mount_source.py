"""Checks what a user may mount into a pod with `-v`, by what the source really is and not by its name.

The source is opened first and judged by the descriptor, which is then what gets bound: a link or a directory that is
exchanged in between changes nothing. The supervisor asks before a pod is accepted, so that the refusal is a message;
the pod's first process asks again when it mounts. Runs in shims too, so it imports next to nothing.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` to know this would be a tenth of every shim's memory
    from typing import Any

MACHINE = ("/proc", "/sys", "/dev", "/run")
PSEUDO = frozenset(
    (
        *("proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "securityfs", "debugfs", "tracefs", "bpf"),
        *("configfs", "selinuxfs", "pstore", "efivarfs", "mqueue", "fusectl", "binfmt_misc", "nsfs"),
    )
)
"""File systems that show the kernel and its devices."""
_FDINFO_MOUNT = re.compile(rb"^mnt_id:\s*(\d+)", re.MULTILINE)
_OCTAL = re.compile(rb"\\([0-7]{3})")
READ, SEARCH = 4, 1

INSTEAD = "copy what the job needs to a separate directory, or use a volume claim (--pvc)"


class SourceRefused(Exception):
    """This may not be mounted: what is wrong, and what to do instead."""

    def __init__(self, code: str, what: str, fix: str = INSTEAD) -> None:
        super().__init__(f"{what}: {fix}")
        self.code, self.what, self.fix = code, what, fix


def open_source(path: str, rule: Mapping[str, Any]) -> int:
    """A descriptor of the source, to be bound as it is. Raises `SourceRefused` or OSError.

    The rule has `roots` (directories one of which it must lie in), `protected` (directories of the platform), `homes`
    (of all users), `home` (the submitter's own, if known), `uid` and `gids` (of the user who must be able to open it;
    no uid: all users must).
    """
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        check_source(fd, path, rule)
    except BaseException:
        os.close(fd)
        raise
    return fd


def check_source(fd: int, path: str, rule: Mapping[str, Any]) -> None:
    """Raises `SourceRefused` if what is open here may not be mounted under this rule."""
    real, about = os.readlink(f"/proc/self/fd/{fd}"), os.fstat(fd)
    shown = path if path == real else f"{path} ({real})"
    if not stat.S_ISDIR(about.st_mode) and not stat.S_ISREG(about.st_mode):
        raise SourceRefused("volume.kind", f"{shown} is neither a directory nor a regular file", "mount a directory")
    _refuse_machine(fd, real, shown)
    chain = list(_chain(fd, real, about))
    _refuse_outside(chain, shown, rule["roots"])
    _refuse_platform(real, chain, shown, rule["protected"])
    _refuse_homes(real, chain, shown, rule["homes"], rule["home"])
    if rule["uid"] is None:
        _refuse_what_is_ours(about, shown)
    _refuse_unreadable(chain, shown, rule["uid"], rule["gids"])


def _refuse_machine(fd: int, real: str, shown: str) -> None:
    words = "exposes the machine itself (kernel, devices, sockets) and cannot be mounted into a pod"
    if real == "/" or _is_within(real, MACHINE):
        raise SourceRefused("volume.machine", f"{shown} {words}", "mount the directory that the job needs")
    mounts = list(_mounts())
    with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
        found = _FDINFO_MOUNT.search(file.read())
    own = int(found[1]) if found is not None else -1
    for number, place, kind in mounts:
        if kind in PSEUDO and (number == own or place.startswith(f"{real}/")):
            raise SourceRefused("volume.machine", f"{shown} {words}", "mount the directory that the job needs")


def _refuse_outside(chain: list[os.stat_result], shown: str, roots: Collection[str]) -> None:
    """By what the directories above it really are: a link in an allowed directory does not lead out of it."""
    if not any(_holds(chain, root) for root in roots):
        allowed = ", ".join(roots) or "none"
        what = f"{shown} is not in a directory that the administrator allows to be mounted (allowed: {allowed})"
        raise SourceRefused("volume.root", what)


def _refuse_platform(real: str, chain: list[os.stat_result], shown: str, protected: Collection[str]) -> None:
    for place in protected:
        if _is_within(real, (place,)) or _holds(chain, place):
            raise SourceRefused("volume.platform", f"{shown} belongs to Fairpool and cannot be mounted into a pod")
        if place.startswith(f"{real}/") or _is_above(chain[0], place):
            what = f"{shown} contains {place}, which belongs to Fairpool and cannot be mounted into a pod"
            raise SourceRefused("volume.platform", what, "mount only the directory below it that the job needs")


def _refuse_homes(real: str, chain: list[os.stat_result], shown: str, homes: Collection[str], own: str) -> None:
    for home in homes:
        if home == own:
            continue
        inside = _is_within(real, (home,)) or _holds(chain, home)
        if inside and own and own.startswith(f"{home}/") and _is_within(real, (own,)):
            continue
        if inside:
            what = f"{shown} is in the home directory {home}, which is not the submitter's own"
            raise SourceRefused("volume.home", what)
        if home.startswith(f"{real}/") or _is_above(chain[0], home):
            what = f"{shown} contains the home directory {home}, which is not the submitter's own"
            raise SourceRefused("volume.home", what, "mount only the directory below it that the job needs")


def _refuse_what_is_ours(about: os.stat_result, shown: str) -> None:
    """The pod runs as our user and its submitter is not known: our own files must not be mounted."""
    if about.st_uid == os.geteuid():
        what = f"{shown} belongs to the user who runs Fairpool, and the submitter of this job is not known"
    elif about.st_mode & stat.S_ISVTX and about.st_mode & stat.S_IWOTH:
        what = f"{shown} holds temporary files of all users, and the submitter of this job is not known"
    else:
        return
    raise SourceRefused("volume.owner", what, f"submit the job through the local socket, or {INSTEAD}")


def _refuse_unreadable(chain: list[os.stat_result], shown: str, uid: int | None, gids: Collection[int]) -> None:
    own, *above = chain
    wanted = READ | SEARCH if stat.S_ISDIR(own.st_mode) else READ
    if permits(own, wanted, uid, gids) and all(permits(each, SEARCH, uid, gids) for each in above):
        return
    who = "all users of this machine" if uid is None else f"user {uid}"
    fix = f"make it readable for them, or {INSTEAD}" if uid is None else INSTEAD
    raise SourceRefused("volume.forbidden", f"{shown} cannot be mounted: it is not readable for {who}", fix)


def permits(about: os.stat_result, wanted: int, uid: int | None, gids: Collection[int]) -> bool:
    """Whether the mode of a file permits this to a user; without a user, to all others."""
    if uid == 0:
        return True
    shift = 0
    if uid is not None and about.st_uid == uid:
        shift = 6
    elif uid is not None and about.st_gid in gids:
        shift = 3
    return (about.st_mode >> shift) & wanted == wanted


def _chain(fd: int, real: str, about: os.stat_result) -> Iterator[os.stat_result]:
    """The source and all directories above it, up to the root."""
    yield about
    if stat.S_ISDIR(about.st_mode):
        at = os.open(f"/proc/self/fd/{fd}/..", os.O_PATH | os.O_CLOEXEC)
    else:
        at = os.open(os.path.dirname(real), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    last = about
    while True:
        here = os.fstat(at)
        if os.path.samestat(here, last):
            os.close(at)
            return
        yield here
        above = os.open("..", os.O_PATH | os.O_CLOEXEC, dir_fd=at)
        os.close(at)
        at, last = above, here


def _holds(chain: list[os.stat_result], place: str) -> bool:
    """Whether a directory is the source or above it, under whatever name."""
    try:
        about = os.stat(place)
    except OSError:
        return False
    return any(os.path.samestat(each, about) for each in chain)


def _is_above(source: os.stat_result, place: str) -> bool:
    """Whether the source is a directory above this one, under whatever name."""
    while place != "/":
        place = os.path.dirname(place)
        try:
            if os.path.samestat(os.stat(place), source):
                return True
        except OSError:
            continue
    return False


def _is_within(real: str, paths: Collection[str]) -> bool:
    return any(real == place or real.startswith(f"{place}/") for place in paths)


def _mounts() -> Iterator[tuple[int, str, str]]:
    """Number, place and kind of every mount."""
    with open("/proc/self/mountinfo", "rb") as file:
        for row in file:
            words = row.split()
            place = os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), words[4]))
            yield int(words[0]), place, words[words.index(b"-") + 1].decode()
