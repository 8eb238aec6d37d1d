"""Where a machine's pods and what belongs to them live on disk, and what is made there before anything else."""

from __future__ import annotations

import os
import shutil
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairpool.agent.environment import Places
from fairpool.agent.life_folder import folder_name
from fairpool.agent.log_segments import INDEX, SEGMENT
from fairpool.model.ids import PodId, WorkloadId
from fairpool.model.observation import StartOrder

LOGS_KEPT = 1000
"""Forgotten pods whose output can still be read; the oldest go first."""


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
    def support(self) -> Path:
        return self.root / "support"

    @property
    def claims(self) -> Path:
        return self.root / "claims"

    def prepare(self) -> uuid.UUID:
        """Make what is missing; the answer is this installation's own name, which no other on the machine has."""
        for folder in (self.pods, self.logs, self.claims, self.root / "checkpoints", self.root / "rendezvous"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self.root / "installation"
        if not file.exists():
            new = self.root / f"installation.{os.getpid()}"
            new.write_text(f"{uuid.uuid4()}\n", encoding="ascii")
            new.replace(file)
        return uuid.UUID(file.read_text(encoding="ascii").strip())

    def life(self, pod: PodId) -> Path:
        return self.pods / folder_name(pod)

    def places(self, order: StartOrder) -> Places:
        folder = self.life(order.pod)
        run = _part(order.workload)
        # Runs of a sweep are separate works; the pods of one run save together.
        shared = order.together or order.pods == 1
        return Places(
            folder=folder,
            support=self.support,
            checkpoints=self.root / "checkpoints" / (run if shared else f"{run}/{order.index}"),
            reporter=f"file:{folder / 'reports.json'}",
            scratch=folder / "scratch",
        )

    def rendezvous(self, order: StartOrder) -> tuple[str, int] | None:
        """Where the pods of a distributed run meet: a port that was free when the first of them was started."""
        if not order.together or order.pods < 2:
            return None
        file = self.root / "rendezvous" / f"{_part(order.workload)}.{order.run}"
        if not file.exists():
            new = file.with_name(f"{file.name}.{os.getpid()}")
            new.write_text(str(_free_port()), encoding="ascii")
            new.replace(file)
        return "127.0.0.1", int(file.read_text(encoding="ascii"))

    def forget(self, pod: PodId) -> None:
        """Remove a life's folder, but keep its output for people to read."""
        folder, kept = self.life(pod), self.logs / folder_name(pod)
        for entry in sorted(folder.iterdir()) if folder.exists() else ():
            if entry.name.startswith((SEGMENT, INDEX)):
                kept.mkdir(exist_ok=True, mode=0o700)
                entry.replace(kept / entry.name)
        shutil.rmtree(folder, ignore_errors=True)

    def clear_up(self, order: StartOrder) -> None:
        """Remove what the pods of a workload shared, now that none of them is here; saved work stays."""
        run = self.root / "checkpoints" / _part(order.workload)
        of_each_pod = self.places(order).checkpoints != run and run.is_dir()
        for folder in (*(sorted(run.iterdir()) if of_each_pod else ()), run):
            with suppress(OSError):  # there is something in it, or it was never made
                folder.rmdir()
        (self.root / "rendezvous" / f"{_part(order.workload)}.{order.run}").unlink(missing_ok=True)

    def log_folder(self, pod: PodId) -> Path | None:
        """Where a pod's output is, if there is any."""
        return next((path for path in (self.life(pod), self.logs / folder_name(pod)) if path.is_dir()), None)

    def prune_logs(self, kept: int = LOGS_KEPT) -> None:
        """Drop the output of those who were forgotten longest ago."""
        found = sorted(self.logs.iterdir(), key=lambda path: (path.stat().st_mtime_ns, path.name))
        for folder in found[: max(0, len(found) - kept)]:
            shutil.rmtree(folder, ignore_errors=True)


def _part(workload: WorkloadId) -> str:
    return folder_name(PodId(workload))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
