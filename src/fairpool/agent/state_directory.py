"""Where a machine's pods and what belongs to them live on disk, and what is made there before anything else."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
import time
import uuid
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpool.agent import pod_directory
from fairpool.agent.durable import replace_file, sync_folder, write_durably
from fairpool.agent.environment import HOSTFILE_NAME, Places
from fairpool.agent.isolation import User
from fairpool.agent.log_segments import INDEX, SEGMENT
from fairpool.agent.order_file import KeptOrder
from fairpool.agent.pod_directory import folder_name
from fairpool.agent.project_users import hand_over
from fairpool.model.ids import PodId, WorkloadId
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem

REPORTS = "reports.json"
"""What a job says about itself, kept when its life is forgotten."""
REPORT = ".fairpool-report.json"
"""The same in the pod's home, where the job writes it."""
REPORTED_MAX, REPORTED_TEXT_MAX = 256, 1024
"""Of one job: so many metrics and so many parameters, and characters in each name and value."""
LOGS_KEPT = 1000
"""Forgotten pods whose output can still be read; the oldest go first."""
LOGS_KEPT_BYTES = 2 << 30
"""And what it may take up together: a pod that writes much leaves 48 MiB."""
SAVED_KEPT_S = 30 * 24 * 3600
"""What a workload saved is safe for so long after it last saved, also while it waits and has no pod here."""
SAVED_KEPT_BYTES = 20 << 30
"""What older work, of workloads without a pod here, may take up together; beyond it the oldest goes."""
BLOCK = 512
"""Bytes in what `st_blocks` counts."""
CLAIM = "shim."
"""How the names of links begin by which shims claim a life."""
SWEEP_PATIENCE_S = 5.0
STRAY_S = 24 * 3600
"""A meeting place nobody has come to for so long is nobody's."""


class Unidentified(Exception):
    """Which installation this folder is of cannot be told, and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The paths in one installation's folder."""

    root: Path

    @property
    def pods(self) -> Path:
        return self.root / "pods"

    @property
    def logs(self) -> Path:
        """Output of pods that were forgotten."""
        return self.root / "logs"

    @property
    def scratch(self) -> Path:
        """Where pods start: not in the folder of their life, where a careless `../` would meet their shim's notes."""
        return self.root / "scratch"

    @property
    def trash(self) -> Path:
        """What pods left behind, on its way out."""
        return self.root / "trash"

    @property
    def support(self) -> Path:
        """In a folder of ours alone: pods, which have users of their own, see this one and what is in it."""
        return self.root / "support" / "files"

    @property
    def claims(self) -> Path:
        return self.root / "claims"

    def set_aside_claims(self, project: str) -> Path | None:
        """A project of this name begins: what an earlier one has left is not its own. Kept, but mounted by nobody."""
        folder = self.claims / project.replace("/", "_")
        if folder.parent != self.claims or folder.name in ("", ".", "..") or not folder.is_dir():
            return None
        aside = self.root / "claims-set-aside"
        aside.mkdir(mode=0o700, exist_ok=True)
        kept = aside / f"{folder.name}-{time.time_ns()}"
        folder.rename(kept)
        sync_folder(self.claims)
        return kept

    @property
    def uploads(self) -> Path:
        """Folders that came with a workload, by its id."""
        return self.root / "uploads"

    @property
    def rehearsal(self) -> Path:
        """Where the fork server keeps lives that are none, as deep in the folder as those that are."""
        return self.root / "rehearsal" / "life"

    def prepare(self) -> uuid.UUID:
        """Make what is missing; the answer is this installation's own name, which no other on the machine has.

        Raises `Unidentified`.
        """
        own = [self.pods, self.logs, self.scratch, self.trash, self.claims, self.uploads]
        own += [self.rehearsal.parent, self.support.parent]
        own += [self.root / "checkpoints", self.root / "rendezvous"]
        self.root.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.root, *own):
            folder.mkdir(exist_ok=True, mode=0o700)
            if folder.stat().st_mode & 0o077:
                with suppress(PermissionError):
                    folder.chmod(0o700)  # an older Fairpool let others look into the folder above
        return self._identity()

    def _identity(self) -> uuid.UUID:
        """Pods are found by it: while there are any, one that cannot be read is not replaced by another."""
        file = self.root / "installation"
        try:
            return uuid.UUID(file.read_text(encoding="ascii").strip())
        except (OSError, ValueError) as error:
            if any(self.pods.iterdir()):
                what = f"{file} cannot be read ({error}); without it the pods in {self.pods} cannot be found"
                fix = f"restore it from a backup; if no pods are running, move {self.pods} away and start again"
                raise Unidentified(Problem("machine.unidentified", what, fix)) from error
        write_durably(file, f"{uuid.uuid4()}\n".encode())
        return uuid.UUID(file.read_text(encoding="ascii").strip())

    def life(self, pod: PodId) -> Path:
        return self.pods / folder_name(pod)

    def places(self, order: StartOrder) -> Places:
        root, name, run = str(self.root), folder_name(order.pod), _part(order.workload)
        # Runs of a sweep are separate works; the pods of one run save together.
        shared = order.together or order.pods == 1
        return Places(
            folder=f"{root}/pods/{name}",
            support=f"{root}/support/files",
            checkpoints=f"{root}/checkpoints/{run}" if shared else f"{root}/checkpoints/{run}/{order.index}",
            reporter=f"file:{root}/scratch/{name}/{REPORT}",
            home=f"{root}/scratch/{name}",
        )

    def rendezvous(self, order: StartOrder) -> tuple[str, int] | None:
        """Where the pods of a distributed run meet: a port that was free when the first of them was started."""
        if not order.together or order.pods < 2:
            return None
        file = self.root / "rendezvous" / f"{_part(order.workload)}.{order.run}"
        try:
            port = int(file.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):  # the first of them, or somebody has damaged it
            port = _free_port()
            write_durably(file, str(port).encode())
        return "127.0.0.1", port

    def forget(self, pod: PodId) -> int | None:
        """Remove a life's folder, but keep its output and its reports for people to read: how many bytes those are.

        None: it cannot be forgotten yet, because a shim has come for it after all. On a busy machine this is done a
        hundred times a second, so the folder itself becomes that of its output. Claims stay in it: a shim that was
        asked for and comes late may be in there already, would find no notice any more, and start the program.
        """
        name = folder_name(pod)
        folder, bytes_kept = f"{self.root}/pods/{name}", 0
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            found = list(entries)
            if not any(entry.name.startswith(CLAIM) for entry in found) and not _claim_for_nobody(folder):
                return None
            for entry in found:
                is_output = entry.name.startswith((SEGMENT, INDEX)) or entry.name == REPORTS
                if is_output and entry.is_file(follow_symlinks=False):
                    bytes_kept += entry.stat(follow_symlinks=False).st_blocks * BLOCK
                elif entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                elif not entry.name.startswith(CLAIM):
                    _unlink_if_there(entry.path)
            bytes_kept += self._keep_reports(name)
            _move(folder, f"{self.root}/logs/{name}")
        self._throw_away(f"{self.root}/scratch/{name}")
        return bytes_kept

    def _throw_away(self, folder: str) -> None:
        """A pod may have left a million files, or folders a million deep: they are removed while nobody waits."""
        thrown = self.trash / f"{os.path.basename(folder)}.{time.time_ns()}"
        with suppress(OSError):  # it was never made
            os.rename(folder, thrown)

    def empty_trash(self) -> None:
        """Remove what was thrown away; takes as long as it takes."""
        for entry in list(os.scandir(self.trash)):
            remove_tree(entry.path)

    def _keep_reports(self, name: str) -> int:
        """What the job wrote is read once more, as far as it can be, and what was understood of it is kept."""
        found = _understood(pod_directory.reports(f"{self.root}/scratch/{name}/{REPORT}"))
        if not found:
            return 0
        text = json.dumps(found).encode()
        with suppress(OSError):
            replace_file(f"{self.root}/pods/{name}/{REPORTS}", text)
        return len(text)

    def clear_up(self, order: StartOrder) -> None:
        """Remove what the pods of a workload shared, now that none of them is here; saved work stays."""
        run = f"{self.root}/checkpoints/{_part(order.workload)}"
        with suppress(OSError):  # it was never made
            if not order.together and order.pods > 1:
                for name in os.listdir(run):
                    _rmdir_if_empty(f"{run}/{name}")
            _rmdir_if_empty(run)
        if not order.together:
            return
        meetings, prefix = f"{self.root}/rendezvous", f"{_part(order.workload)}."
        for name in os.listdir(meetings):  # of earlier runs too
            if name.startswith(prefix) and name[len(prefix) :].isdecimal():
                _unlink_if_there(f"{meetings}/{name}")

    def reports(self, pod: PodId) -> dict[str, Any]:
        """What the job says about itself: what it writes now, or what was kept when its life was forgotten."""
        name = folder_name(pod)
        found = _understood(pod_directory.reports(f"{self.root}/scratch/{name}/{REPORT}"))
        kept = (self.logs, self.pods)  # the latter by pods that an earlier version has started
        return found or next((old for each in kept if (old := pod_directory.reports(f"{each}/{name}/{REPORTS}"))), {})

    def log_folder(self, pod: PodId) -> Path | None:
        """Where a pod's output is, if there is any."""
        return next((path for path in (self.life(pod), self.logs / folder_name(pod)) if path.is_dir()), None)

    def prune_logs(self, kept: int = LOGS_KEPT, kept_bytes: int = LOGS_KEPT_BYTES) -> None:
        """Drop the output of those who were forgotten longest ago, and what workloads left behind long before."""
        with os.scandir(self.logs) as entries:
            found = sorted(((each.stat().st_mtime_ns, each.name) for each in entries), reverse=True)
        used_bytes = 0
        for number, (_, name) in enumerate(found):
            folder = self.logs / name
            if number < kept and (used_bytes := used_bytes + _size_of_files(folder)) <= kept_bytes:
                continue
            if number > 0:  # what was said last can always be read
                _remove(str(folder))
        if self._is_due():
            self.prune_saved()

    def prune_saved(self, kept_s: float = SAVED_KEPT_S, kept_bytes: int = SAVED_KEPT_BYTES) -> None:
        """Drop saved work that is old, beyond what may be kept of it, and meeting places that nobody comes to.

        The machine is never told that a workload is gone for good. One without a pod here may only be waiting, so
        that its work is touched at all takes both: it is old, and there is too much of it.
        """
        lives = sorted(path.name for path in self.pods.iterdir())
        found = [path for path in (self.root / "checkpoints").iterdir() if not _has_pod(path.name, lives)]
        ages = sorted((_unchanged_s(path, kept_s), path) for path in found)
        used_bytes = 0
        for age_s, folder in ages:
            if age_s >= kept_s:
                used_bytes += _size(folder)
                if used_bytes > kept_bytes:
                    remove_tree(str(folder))
        for file in (self.root / "rendezvous").iterdir():
            if _unchanged_s(file, STRAY_S) >= STRAY_S and not _has_pod(file.name.rpartition(".")[0], lives):
                file.unlink(missing_ok=True)

    def _is_due(self) -> bool:
        """Saved work may be hundreds of thousands of files: it is looked through once a day."""
        mark = self.root / "pruned"
        if mark.exists() and _unchanged_s(mark, STRAY_S) < STRAY_S:
            return False
        mark.touch()
        return True


def make_places(kept: KeptOrder, places: Places) -> None:
    """Make what a pod has for itself, and what the lives of its workload share, and give it to its user."""
    with suppress(FileExistsError):  # someone died before writing the order
        os.mkdir(places.home, 0o700)
    os.makedirs(places.checkpoints, exist_ok=True)
    if kept.order.together:
        text = f"localhost slots={kept.order.pods}\n"
        Path(places.home, HOSTFILE_NAME).write_text(text, encoding="ascii")
    view = kept.launch.get("view") if kept.launch is not None else None
    if view is not None and view["user"] is not None:
        user = User(*view["user"])
        for folder in (places.home, places.checkpoints):
            hand_over(folder, user)


def _claim_for_nobody(folder: str) -> bool:
    """Keep the life from a shim that was asked for and comes late: it would find no notice any more, and start."""
    try:
        os.symlink("0.0.0", f"{folder}/{CLAIM}0")
    except FileExistsError:
        return False
    return True


def _move(folder: str, kept: str) -> None:
    try:
        os.rename(folder, kept)
    except OSError:  # an earlier Fairpool was killed halfway, and had made the folder
        for name in sorted(os.listdir(folder)):
            os.replace(f"{folder}/{name}", f"{kept}/{name}")
        _remove(folder)


class Sweeper:
    """Empties the trash of a data folder in a thread of its own, which is there while there is something to do."""

    def __init__(self, data: DataFolder) -> None:
        self._data = data
        self._thread: threading.Thread | None = None

    def sweep(self) -> None:
        """Begin, unless it is being done; what comes meanwhile is swept the next time."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._data.empty_trash, name="sweeper", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait a little for what is being done; the next start goes on."""
        if self._thread is not None:
            self._thread.join(SWEEP_PATIENCE_S)


def remove_tree(folder: str) -> None:
    """Remove a folder with all that is in it, however deep, without following a link and without recursion.

    A folder in it is moved up before it is emptied, so that no path becomes long.
    """
    pending, number = [folder], 0
    while pending:
        here = pending[-1]
        try:
            os.chmod(here, 0o700)
            entries = list(os.scandir(here))
        except OSError:
            _rmdir_if_empty(pending.pop())
            continue
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                _unlink_if_there(entry.path)
                continue
            number += 1
            moved = f"{folder}.{number}"
            with suppress(OSError):
                os.chmod(entry.path, 0o700)  # to be moved it must be writable, where we are not root
                os.rename(entry.path, moved)
                pending.insert(0, moved)
        _rmdir_if_empty(pending.pop())


def _understood(found: Mapping[str, Any]) -> dict[str, Any]:
    """What we take from a report: numbers and short texts by name. A pod may have written anything."""
    metrics, parameters = found.get("metrics"), found.get("parameters")
    kept: dict[str, Any] = {}
    if isinstance(metrics, dict):
        numbers = {_short(name): value for name, value in metrics.items() if _is_number(value)}
        kept["metrics"] = dict(list(numbers.items())[:REPORTED_MAX])
    if isinstance(parameters, dict):
        texts = {_short(name): _short(value) for name, value in parameters.items() if isinstance(value, str)}
        kept["parameters"] = dict(list(texts.items())[:REPORTED_MAX])
    if kept and isinstance(found.get("at"), int):
        kept["at"] = found["at"]
    return kept


def _short(text: str) -> str:
    return text[:REPORTED_TEXT_MAX]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300


def _unlink_if_there(file: str) -> None:
    with suppress(OSError):
        os.unlink(file)


def _rmdir_if_empty(folder: str) -> None:
    with suppress(OSError):
        os.rmdir(folder)


def _remove(folder: str) -> None:
    """A folder with all that is in it; nearly always files alone, for which less is enough than for a tree."""
    try:
        for name in os.listdir(folder):
            os.unlink(f"{folder}/{name}")
        os.rmdir(folder)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


def _size_of_files(folder: Path) -> int:
    with suppress(OSError), os.scandir(folder) as entries:
        return sum(each.stat(follow_symlinks=False).st_blocks * BLOCK for each in entries)
    return 0


def _unchanged_s(path: Path, enough_s: float) -> float:
    """For how long nothing in it was changed; not looked into where its own age is less than enough."""
    latest_ns = 0
    for each in _all_in(path):
        with suppress(OSError):  # gone meanwhile
            latest_ns = max(latest_ns, each.lstat().st_mtime_ns)
        if (age_s := time.time() - latest_ns / 1e9) < enough_s:
            return age_s
    return time.time() - latest_ns / 1e9


def _size(folder: Path) -> int:
    size = 0
    for each in _all_in(folder):
        with suppress(OSError):
            size += each.lstat().st_blocks * BLOCK
    return size


def _all_in(path: Path) -> Iterator[Path]:
    yield path
    pending = [str(path)]
    while pending:  # not with os.walk, which calls itself for each folder in a folder
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                yield Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)


def _has_pod(workload: str, lives: Sequence[str]) -> bool:
    """Whether a life may be this workload's, by their names; `lives` are in order."""
    place = bisect_left(lives, f"{workload}-")
    return place < len(lives) and lives[place].startswith(f"{workload}-")


def _part(workload: WorkloadId) -> str:
    return folder_name(PodId(workload))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
