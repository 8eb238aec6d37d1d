"""The data directory: its files, and the checks before it is used."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairpool.agent.durable import write_durably
from fairpool.agent.images import FILE as IMAGES_FILE
from fairpool.control.sealing import FILE as KEY_FILE
from fairpool.control.token_keys import FILE as TOKEN_KEYS_FILE
from fairpool.model.problem import Problem

ROOM_NEEDED_BYTES = 64 * 1024 * 1024
"""What databases and logs may take up on a server that is hardly used."""


UP, CONTROL, CLUSTER = "up", "control", "cluster"
PROGRAMS = (UP, CONTROL, CLUSTER)
"""The commands that run a server: each has data directories of its own."""
CONTENTS = {
    UP: "a whole platform",
    CONTROL: "a control plane",
    CLUSTER: "a cluster",
}


class PlatformError(Exception):
    """The platform cannot be started, stopped, backed up or restored, and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def default_data() -> Path:
    """Where the user's programs keep their data."""
    chosen = os.environ.get("XDG_DATA_HOME", "")
    base = Path(chosen) if Path(chosen).is_absolute() else Path("~/.local/share").expanduser()
    return base / "fairpool"


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The paths in one data directory."""

    root: Path

    @property
    def program_file(self) -> Path:
        """Which program the directory belongs to."""
        return self.root / "program"

    @property
    def control(self) -> Path:
        return self.root / "control.sqlite"

    @property
    def secret_key(self) -> Path:
        """What credentials in the database are encrypted with; not in a backup, unless it is asked for."""
        return self.root / KEY_FILE

    @property
    def token_keys(self) -> Path:
        """What access tokens are signed with; in no backup, and a restore begins with a new key."""
        return self.root / TOKEN_KEYS_FILE

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.sqlite"

    @property
    def machine(self) -> Path:
        """The local engine's own directory, with the pods in it."""
        return self.root / "machine"

    @property
    def log(self) -> Path:
        return self.root / "logs" / "fairpool.log"

    @property
    def output(self) -> Path:
        """Output of a detached server before it can write its log, or when it fails."""
        return self.root / "logs" / "fairpool.out"

    @property
    def nodes(self) -> Path:
        return self.root / "nodes.json"

    @property
    def membership(self) -> Path:
        """Which cluster of which control plane this is."""
        return self.root / "cluster.json"

    @property
    def replica(self) -> Path:
        """Which replica of a cluster on Kubernetes this is; only there."""
        return self.root / "replica"

    @property
    def uploads(self) -> Path:
        """Folders that were uploaded for workloads of a cluster on Kubernetes."""
        return self.root / "uploads"

    @property
    def pod_output(self) -> Path:
        """Output of pods of a cluster on Kubernetes that were stopped."""
        return self.root / "output"

    @property
    def flags(self) -> Path:
        """The flags that the server was started with."""
        return self.root / "flags.json"

    @property
    def gateway_port(self) -> Path:
        """The port that the gateway had last."""
        return self.root / "gateway-port"

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
        """The API for the user who runs the server."""
        return self.root / "api.sock"

    @property
    def restoring(self) -> Path:
        """Staged files of a restore; exists only while one is running, or was interrupted."""
        return self.root / ".restoring"

    @property
    def is_there(self) -> bool:
        """Whether a Fairpool was ever started here, or a backup restored."""
        return self.program != ""

    @property
    def program(self) -> str:
        """The program that the directory belongs to; empty: none yet."""
        try:
            written = self.program_file.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            written = ""
        if written in PROGRAMS:
            return written
        # Before there were three programs, there was no such file.
        return UP if self.control.exists() or (self.restoring / self.control.name).exists() else ""

    @property
    def contents(self) -> str:
        """What is in it, in words."""
        return CONTENTS.get(self.program, "no Fairpool data")

    def claim(self, program: str) -> None:
        """Make it the directory of this program, for a caller that holds its lock. Raises `PlatformError`."""
        owner = self.program
        if owner not in ("", program):
            what = f"the data directory {self.root} holds {self.contents} (of `fairpool {owner}`)"
            fix = f"run `fairpool {owner}`, or choose another directory with --data"
            raise PlatformError(Problem("data.other_program", what, fix))
        if not self.program_file.exists():
            try:
                write_durably(self.program_file, f"{program}\n".encode())
            except OSError as error:
                raise PlatformError(directory_problem(self.root, error)) from error

    def require(self) -> None:
        """For commands on existing data, which create nothing. Raises `PlatformError`."""
        if not self.is_there:
            what = f"there is no Fairpool data in {self.root}"
            raise PlatformError(Problem("data.none", what, "pass --data DIRECTORY, or set FAIRPOOL_DATA"))

    def prepare(self) -> str:
        """Create what is missing, and make sure that only this user can write it. Raises `PlatformError`.

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
            raise PlatformError(directory_problem(self.root, error)) from error
        left = shutil.disk_usage(self.root).free
        if left < ROOM_NEEDED_BYTES:
            what = f"the disk of the data directory {self.root} is full: {left // 2**20} MiB free, {_MIB} needed"
            raise PlatformError(Problem("data.full", what, "free some space, or choose another directory with --data"))
        return warning

    def refuse_foreign_files(self) -> None:
        """These files decide which programs we run: no other user may own them. Raises `PlatformError`."""
        own = (self.control, self.ledger, self.secret_key, self.token_keys)
        for path in (self.root, self.machine, self.machine / IMAGES_FILE, *own, self.restoring):
            with suppress(FileNotFoundError, NotADirectoryError):
                owner = path.stat().st_uid
                if owner != os.geteuid():
                    what = f"{path} belongs to {_name_of(owner)}, who could use it to run programs as you"
                    fix = "start Fairpool as that user, change the owner, or choose another directory with --data"
                    raise PlatformError(Problem("data.foreign", what, fix))

    def _tighten(self) -> str:
        """Remove permissions of other users: hashes of passwords and tokens are stored here."""
        files = (Path(f"{path}{suffix}") for path in (self.control, self.ledger) for suffix in ("", "-wal", "-shm"))
        could = _close_to_others(self.root)
        for path in (self.log.parent, self.machine, self.secret_key, self.token_keys, *files):
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
    """Remove permissions of other users; returns what they could do."""
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


def directory_problem(root: Path, error: OSError) -> Problem:
    """A system error as a problem of the data directory."""
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
