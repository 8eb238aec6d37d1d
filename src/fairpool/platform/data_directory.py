"""The data folder: what lies where in it, whether it can be used, and who uses it now."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fairpool.agent.images import FILE as IMAGES_FILE
from fairpool.model.problem import Problem

ROOM_NEEDED_BYTES = 64 * 1024 * 1024
"""What databases and logs may take up before anybody has done much."""
LOCK_BYTES = 1024
LOCK_PATIENCE_S = 0.5
"""Somebody who only looks holds the lock for a moment."""


class Unusable(Exception):
    """The platform cannot be started, stopped or kept like this, and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def default_data() -> Path:
    """Where the user's programs keep their data."""
    chosen = os.environ.get("XDG_DATA_HOME", "")
    base = Path(chosen) if Path(chosen).is_absolute() else Path("~/.local/share").expanduser()
    return base / "fairpool"


def default_config() -> Path:
    """Where `runai` keeps its servers and logins."""
    told = os.environ.get("FAIRPOOL_CONFIG")
    if told:
        return Path(told).expanduser()
    chosen = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(chosen) if Path(chosen).is_absolute() else Path("~/.config").expanduser()
    return base / "fairpool"


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The paths in one data folder."""

    root: Path

    @property
    def control(self) -> Path:
        return self.root / "control.sqlite"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.sqlite"

    @property
    def machine(self) -> Path:
        """The local engine's own folder, with the pods in it."""
        return self.root / "machine"

    @property
    def log(self) -> Path:
        return self.root / "logs" / "fairpool.log"

    @property
    def output(self) -> Path:
        """What a detached server says before it can write its log, or when it breaks."""
        return self.root / "logs" / "fairpool.out"

    @property
    def nodes(self) -> Path:
        return self.root / "nodes.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def admin_socket(self) -> Path:
        return self.root / "admin.sock"

    @property
    def reserve(self) -> Path:
        """A file that takes up space until the disk is full."""
        return self.root / "reserve"

    @property
    def api_socket(self) -> Path:
        """Where the API is reached by our own user."""
        return self.root / "api.sock"

    @property
    def restoring(self) -> Path:
        """What a restore has laid ready; there only while one is under way, or was cut off."""
        return self.root / ".restoring"

    @property
    def is_there(self) -> bool:
        """Whether a Fairpool was ever started here, or a backup restored."""
        return self.control.exists() or (self.restoring / self.control.name).exists()

    def require(self) -> None:
        """For commands that look after what is there: they make nothing. Raises `Unusable`."""
        if not self.is_there:
            what = f"there is no Fairpool data in {self.root}"
            raise Unusable(Problem("data.none", what, "pass --data DIRECTORY, or set FAIRPOOL_DATA"))

    def prepare(self) -> str:
        """Make what is missing, and make sure that it can be written, by us alone. Raises `Unusable`.

        The answer is a warning, or empty.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.refuse_foreign_files()
            warning = self._tighten()
            self.log.parent.mkdir(exist_ok=True, mode=0o700)
            if shutil.disk_usage(self.root).free < ROOM_NEEDED_BYTES:
                self.reserve.unlink(missing_ok=True)  # this is what it is for
            self._try_to_write()
        except OSError as error:
            raise Unusable(unusable(self.root, error)) from error
        left = shutil.disk_usage(self.root).free
        if left < ROOM_NEEDED_BYTES:
            what = f"the disk of the data directory {self.root} is full: {left // 2**20} MiB free, {_MIB} needed"
            raise Unusable(Problem("data.full", what, "free some space, or choose another directory with --data"))
        return warning

    def refuse_foreign_files(self) -> None:
        """What lies here says which programs we run: nobody else may have written it. Raises `Unusable`."""
        for path in (self.root, self.machine, self.machine / IMAGES_FILE, self.control, self.ledger, self.restoring):
            with suppress(FileNotFoundError, NotADirectoryError):
                owner = path.stat().st_uid
                if owner != os.geteuid():
                    what = f"{path} belongs to {_name_of(owner)}, who could use it to run programs as you"
                    fix = "start Fairpool as that user, change the owner, or choose another directory with --data"
                    raise Unusable(Problem("data.foreign", what, fix))

    def _tighten(self) -> str:
        """Hashes of passwords and tokens lie here. What others made, or an older Fairpool, may be open to everybody."""
        files = (Path(f"{path}{suffix}") for path in (self.control, self.ledger) for suffix in ("", "-wal", "-shm"))
        could = _close_to_others(self.root)
        for path in (self.log.parent, self.machine, *files):
            _close_to_others(path)
        if not could:
            return ""
        if self.root.stat().st_mode & 0o077:
            return f"other users can {could} the data directory {self.root}, and its file system cannot prevent it"
        return f"other users could {could} the data directory {self.root}; its permissions are now restricted to you"

    def _try_to_write(self) -> None:
        with tempfile.NamedTemporaryFile(dir=self.root, prefix=".probe-") as file:
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())


_MIB = f"{ROOM_NEEDED_BYTES // 2**20} MiB"


def _close_to_others(path: Path) -> str:
    """Take away what others may do with it; says what that was."""
    with suppress(FileNotFoundError, PermissionError, NotADirectoryError):
        mode = path.stat().st_mode
        if mode & 0o077:
            path.chmod(mode & 0o700)
            return "write to" if mode & 0o022 else "read"
    return ""


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def unusable(root: Path, error: OSError) -> Problem:
    """What a system's error says about a data folder."""
    elsewhere = "choose another directory with --data or FAIRPOOL_DATA"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return Problem("data.not_a_folder", f"the data directory {root} is a file, or is below one", elsewhere)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Problem(
            "data.full", f"the disk of the data directory {root} is full", f"free some space, or {elsewhere}"
        )
    if error.errno == errno.EROFS:
        return Problem("data.read_only", f"the data directory {root} is on a read-only file system", elsewhere)
    if error.errno in (errno.EACCES, errno.EPERM):
        what = f"this user cannot write to the data directory {root}"
        return Problem("data.read_only", what, f"change its owner or mode, or {elsewhere}")
    what = f"the data directory {root} cannot be used: {(error.strerror or str(error)).lower()}"
    return Problem("data.unusable", what, elsewhere)


# --- who uses it -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """The process that uses the folder."""

    pid: int
    deed: str = "up"
    """`up` for the platform; other commands hold the folder for a moment."""
    address: str = ""
    version: str = ""
    since_ms: int = 0


def occupant(data_directory: DataDirectory) -> Occupant | None:
    """Who uses the folder now; None: nobody. A process that was killed holds no lock, whatever it has written."""
    try:
        handle = os.open(data_directory.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            until = time.monotonic() + LOCK_PATIENCE_S
            while (holder := _read(handle)).pid == 0 and time.monotonic() < until:
                time.sleep(0.02)
            return holder
        return None
    finally:
        os.close(handle)


@contextmanager
def occupied(data_directory: DataDirectory, deed: str, version: str = "") -> Iterator[Callable[[str], None]]:
    """Use the folder, alone, and say at which address once that is known. Raises `Unusable` if somebody else does."""
    try:
        data_directory.refuse_foreign_files()
        handle = os.open(data_directory.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unusable(unusable(data_directory.root, error)) from error
    try:
        if not _take(handle):
            raise Unusable(taken(data_directory, _read(handle)))
        mine = Occupant(pid=os.getpid(), deed=deed, version=version, since_ms=time.time_ns() // 1_000_000)
        try:
            _write(handle, mine)
        except OSError as error:
            raise Unusable(unusable(data_directory.root, error)) from error
        yield lambda address: _write(handle, replace(mine, address=address))
    finally:
        os.close(handle)


def taken(data_directory: DataDirectory, holder: Occupant) -> Problem:
    """What to say to who comes second."""
    if holder.deed != "up":
        what = f"`fairpool {holder.deed}` is running in {data_directory.root} (process {holder.pid})"
        return Problem("up.busy", what, "wait until it finishes")
    at = f" at {holder.address}" if holder.address else ""
    what = f"Fairpool is already running{at} (process {holder.pid}, data in {data_directory.root})"
    return Problem("up.already", what, "use it, stop it with `fairpool down`, or choose another directory with --data")


def _take(handle: int) -> bool:
    until = time.monotonic() + LOCK_PATIENCE_S
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)


def _write(handle: int, holder: Occupant) -> None:
    # Padded, so that one write replaces the other and whoever reads meanwhile sees no mixture of both.
    os.pwrite(handle, json.dumps(asdict(holder)).encode().ljust(LOCK_BYTES), 0)


def _read(handle: int) -> Occupant:
    try:
        return Occupant(**json.loads(os.pread(handle, LOCK_BYTES, 0)))
    except (ValueError, TypeError):
        return Occupant(pid=0)  # it has taken the lock and not yet said who it is
