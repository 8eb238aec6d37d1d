"""Secrets of pods: looked up in the control plane when a pod starts, and kept in memory only.

`SecretLookup` answers what a start needs: the values that a pod's program refers to, the login for a registry, a Git
server or an S3 service. `SecretFiles` hands values to a pod in a file system in memory, in a directory that only the
server's user can enter: never in its order, in a command line, or on a disk.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fairpool.agent.isolation import PodUser
from fairpool.agent.pod_directory import directory_name
from fairpool.agent.shim_launch import SECRETS
from fairpool.model.ids import PodId, WorkloadId
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem
from fairpool.model.secret import Secret, UserLogin
from fairpool.model.spec import Program

KEPT_MAX_BYTES = 32 << 20
"""Values that are kept for pods that restart while the control plane is away."""
VARIABLE_MAX_BYTES = 131_071
"""What Linux takes in one string of a process's environment."""


TEMPORARY = ".tool-"
"""How the names of directories begin that belong to no pod."""
TRIES = 10


class SecretsUnavailable(OSError):
    """The values cannot be had now; the start is tried again. Says why, and what to do."""


class SecretsMissing(SecretsUnavailable):
    """The control plane has answered that a credential is not there, or not as the pod needs it."""


class SecretsRefused(SecretsUnavailable):
    """The control plane has answered that this cluster or workload may not have them."""


@dataclass(frozen=True, slots=True)
class FoundSecrets:
    """An answer of the control plane."""

    secrets: Mapping[str, Secret]
    """By the name that was asked for."""
    missing: tuple[Problem, ...] = ()
    """What is wrong with the others."""
    registry: Secret | None = None
    """The credential for the registry that was asked for, if there is one."""


class SecretSource(Protocol):
    """Where values come from: the control plane."""

    def secrets(self, workload: WorkloadId, names: Sequence[str], registry: str) -> FoundSecrets:
        """Values for a pod of this workload. Raises `SecretsUnavailable` if there is no answer, or `SecretsRefused`."""


class SecretLookup:
    """The values that pods of this machine refer to. May be used from any thread, and may wait for the network."""

    def __init__(self, source: SecretSource | None = None) -> None:
        self.source = source
        """None: there is no control plane yet."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[WorkloadId, str], Secret] = OrderedDict()

    def of(self, order: StartOrder) -> Mapping[str, Secret]:
        """Everything that a pod's program refers to, by name. Raises `SecretsUnavailable`."""
        names = sorted(order.program.credentials)
        if not names:
            return {}
        try:
            found = self._asked(order.workload, names, "")
        except SecretsRefused:
            self._forget(order.workload, names)
            raise
        except SecretsUnavailable:
            kept = self._remembered(order.workload, names)
            if kept is None:
                raise
            return kept
        if found.missing:
            self._forget(order.workload, [name for name in names if name not in found.secrets])
            raise SecretsMissing("; ".join(map(str, found.missing)))
        self._remember(order.workload, found.secrets)
        return found.secrets

    def registry_login(self, order: StartOrder, registry: str) -> UserLogin | None:
        """For pulling its image from this host: the credential that it names, else the one in its project's scope for
        that host; None: there is none. Raises `SecretsUnavailable`."""
        named = order.program.image_credential
        if named:
            return self.of(order)[named].login()
        key = f"//{registry}"
        try:
            found = self._asked(order.workload, (), registry).registry
        except SecretsRefused:
            self._forget(order.workload, (key,))
            raise
        except SecretsUnavailable:
            kept = self._remembered(order.workload, (key,))
            if kept is None:
                raise
            return kept[key].login()
        if found is None:
            self._forget(order.workload, (key,))
            return None
        self._remember(order.workload, {key: found})
        return found.login()

    def _asked(self, workload: WorkloadId, names: Sequence[str], registry: str) -> FoundSecrets:
        if self.source is None:
            raise SecretsUnavailable("its secrets cannot be looked up: the control plane is not connected yet")
        return self.source.secrets(workload, names, registry)

    # --- while the control plane is away

    def _remembered(self, workload: WorkloadId, names: Sequence[str]) -> Mapping[str, Secret] | None:
        with self._lock:
            found = {name: self._kept.get((workload, name)) for name in names}
        return {name: each for name, each in found.items() if each is not None} if all(found.values()) else None

    def _forget(self, workload: WorkloadId, names: Sequence[str]) -> None:
        """What was deleted or revoked does not come back while the control plane is away."""
        with self._lock:
            for name in names:
                self._kept.pop((workload, name), None)

    def _remember(self, workload: WorkloadId, secrets: Mapping[str, Secret]) -> None:
        with self._lock:
            for name, secret in secrets.items():
                self._kept[workload, name] = secret
                self._kept.move_to_end((workload, name))
            total = sum(map(_size, self._kept.values()))
            while total > KEPT_MAX_BYTES:
                total -= _size(self._kept.popitem(last=False)[1])


def _size(secret: Secret) -> int:
    return sum(map(len, secret.data.values()))


def secret_variables(program: Program, secrets: Mapping[str, Secret], names: Collection[str]) -> dict[str, str]:
    """The secret variables of these names, with their values. Raises `SecretsUnavailable`."""
    found = {}
    for each in program.secrets:
        if each.name not in names:
            continue
        value = secrets[each.credential].data.get(each.key)
        where = f"variable {each.name}: credential {each.credential}"
        if value is None:
            known = ", ".join(sorted(secrets[each.credential].data)) or "none"
            raise SecretsMissing(f"{where} has no key {each.key} any more (it has: {known})")
        if len(each.name) + len(value) > VARIABLE_MAX_BYTES or b"\0" in value:
            why = "contains zero bytes" if b"\0" in value else f"is longer than {VARIABLE_MAX_BYTES} bytes"
            raise SecretsMissing(f"{where}, key {each.key} {why}: mount it as a file instead")
        found[each.name] = _without_line_break(value).decode(errors="surrogateescape")
    return found


def _without_line_break(value: bytes) -> bytes:
    """Without one at its end: a file that was written with `echo` ends with one, which breaks e.g. HTTP headers."""
    return value[:-1].removesuffix(b"\r") if value.endswith(b"\n") else value


class SecretFiles:
    """Directories in memory, one for each pod that has secrets. Used with the supervisor's lock held, except for
    `temporary`."""

    def __init__(self, installation: str, pods: Path) -> None:
        """What is left of pods that are not in `pods` any more is removed."""
        self._root, self.unavailable = _memory_directory(f"fairpool-{installation}")
        self._names: set[str] = set()
        if self._root:
            self._root = _own_or_other(self._root)
            with suppress(OSError):  # said when a pod needs it
                self._make_root()
            for name in os.listdir(self._root) if _is_own_directory(self._root) else ():
                if (pods / name).is_dir():
                    self._names.add(name)
                else:
                    shutil.rmtree(f"{self._root}/{name}", ignore_errors=True)

    def directory(self, pod: PodId) -> str:
        """Where the secrets of a pod are. Raises `SecretsUnavailable` where nothing can be kept in memory."""
        if not self._root:
            raise SecretsUnavailable(f"its secrets cannot be kept in memory on this machine: {self.unavailable}")
        return f"{self._root}/{directory_name(pod)}"

    def write(
        self,
        pod: PodId,
        variables: Mapping[str, str],
        volumes: Sequence[tuple[str, Secret]],
        user: PodUser | None,
    ) -> None:
        """Hand a pod its variables, and for each volume a directory of this name with a file for each key; whole or not
        at all. Raises OSError."""
        directory = self.directory(pod)
        name = os.path.basename(directory)
        new = f"{self._root}/.{name}.new"
        self._make_root()
        shutil.rmtree(new, ignore_errors=True)
        os.mkdir(new, 0o700)
        _write_file(f"{new}/{SECRETS}", json.dumps(dict(variables)).encode(), None)
        for place, secret in volumes:
            os.mkdir(f"{new}/{place}", 0o700)
            for key, value in secret.data.items():
                _write_file(f"{new}/{place}/{key}", value, user)
            if user is not None:
                os.chown(f"{new}/{place}", user.uid, user.gid)
            os.chmod(f"{new}/{place}", 0o500)
        shutil.rmtree(directory, ignore_errors=True)
        os.rename(new, directory)
        self._names.add(name)

    @contextmanager
    def temporary(self) -> Iterator[str]:
        """A directory for as long as a tool needs it; the next server removes that of one that was killed. May be used
        from any thread. Raises OSError."""
        if not self._root:
            raise SecretsUnavailable(f"secrets cannot be kept in memory on this machine: {self.unavailable}")
        directory = self._make_temporary()
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _make_temporary(self) -> str:
        for _ in range(TRIES):  # an administrator may remove the root
            self._make_root()
            with suppress(FileNotFoundError):
                return tempfile.mkdtemp(prefix=TEMPORARY, dir=self._root)
        raise SecretsUnavailable(f"secrets cannot be kept in {self._root}, which is removed again and again")

    def remove(self, pod: PodId) -> None:
        """Once it is over; may be called for any pod."""
        name = directory_name(pod)
        if name in self._names:
            self._names.discard(name)
            shutil.rmtree(f"{self._root}/{name}", ignore_errors=True)

    def close(self) -> None:
        """Kept until now even when empty, or another user could take the name."""
        if self._root:
            with suppress(OSError):  # there are secrets in it
                os.rmdir(self._root)

    def _make_root(self) -> None:
        """Others may write beside it: one that another user made is not used."""
        with suppress(FileExistsError):
            os.mkdir(self._root, 0o700)
        if not _is_own_directory(self._root):
            raise SecretsUnavailable(f"its secrets cannot be kept in {self._root}: others can read it; remove it")


def _own_or_other(path: str) -> str:
    """This path, or where another user has taken it, one that begins with it: that of the last server, or a new one."""
    above, name = os.path.split(path)
    others = (f"{above}/{each}" for each in sorted(os.listdir(above)) if each.startswith(f"{name}-"))
    if last := next(filter(_is_own_directory, others), None):
        return last
    is_free = not os.path.lexists(path) or _is_own_directory(path)
    return path if is_free else f"{path}-{os.urandom(8).hex()}"


def _is_own_directory(path: str) -> bool:
    try:
        about = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o077


def volume_place(index: int) -> str:
    """The directory of a pod's volume in that of its secrets, by the volume's number."""
    return f"volume-{index}"


def _write_file(path: str, content: bytes, user: PodUser | None) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o400)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        if user is not None:
            os.fchown(file.fileno(), user.uid, user.gid)


def _memory_directory(name: str) -> tuple[str, str]:
    """A path in a file system in memory where this user can write, or why there is none."""
    own = [os.environ.get("XDG_RUNTIME_DIR", "")] if os.geteuid() else ["/run"]
    in_memory = _memory_mounts()
    for place in (*own, "/dev/shm"):
        if place.startswith("/") and _mount_of(os.path.realpath(place), in_memory) and os.access(place, os.W_OK):
            return f"{place.rstrip('/')}/{name}", ""
    return "", "neither /dev/shm nor /run is a tmpfs that the server can write to"


def _memory_mounts() -> dict[str, bool]:
    """By mount point: whether it is a file system in memory."""
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
        return {row.split()[1]: row.split()[2] in ("tmpfs", "ramfs") for row in file}


def _mount_of(path: str, mounts: Mapping[str, bool]) -> bool:
    """Whether the mount that a path is on is in memory."""
    while path not in mounts:
        if path == "/":
            return False
        path = os.path.dirname(path)
    return mounts[path]
