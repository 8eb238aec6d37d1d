"""Access to the pods and uploads of one cluster: logs, shells, ports, metrics, uploaded directories.

The control plane never opens a connection to a cluster. On one machine, `platform/local_pod_access.py` implements this
protocol by reading pod directories; for a cluster elsewhere, `control/tunnel.py` does, over the connection that the
cluster has opened.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fairpool.api.shell import Frame
from fairpool.model.ids import Instant
from fairpool.model.problem import Problem
from fairpool.model.upload import Bounds, Upload


class PodAccessError(Exception):
    """The pod, its log or the upload cannot be accessed; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class PodAddress:
    """Where to find a pod."""

    cluster: str
    pod: str
    """Its id. The log of a pod that ended is kept as long as its directory."""
    node: str | None
    workload: str


@dataclass(frozen=True, slots=True)
class LogRange:
    """Which part of a log to read. `offset` excludes the others; of `tail` and `since`, the later start counts."""

    offset: int = 0
    tail: int | None = None
    """Only this many lines from the end."""
    since: Instant | None = None
    """Only lines written at this time or later."""
    timestamps: bool = False
    """Prefix each line with its time."""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A part of a log. It may be empty: then it only says where the log is read from."""

    data: bytes
    next_offset: int
    """Reading from this offset continues after it, also if the piece has timestamps."""


class ShellSession(Protocol):
    """The pod's side of a shell."""

    async def send(self, frame: Frame) -> None:
        """Send input, a new terminal size, or the end of input."""

    async def receive(self) -> Frame | None:
        """The next output, then the exit status; None after the last frame."""

    async def close(self) -> None:
        """End the session: the user has disconnected. May be called twice."""


class PortStream(Protocol):
    """A connection to a port of a pod."""

    async def send(self, data: bytes) -> None:
        """Send bytes to the pod; dropped if it has closed the connection."""

    async def end(self) -> None:
        """Send no more."""

    async def receive(self) -> bytes | None:
        """The next bytes; None after the last."""

    async def close(self) -> None:
        """End the connection. May be called twice."""


class UploadAccess(Protocol):
    """Uploaded directories, kept where pods can mount them. The first three methods raise `PodAccessError`."""

    async def begin_upload(self, upload: Upload, total_bytes: int) -> None:
        """Reserve space for an archive; `total_bytes` is the limit for all uploads together."""

    async def write_upload(self, upload_id: str, offset: int, piece: bytes) -> int:
        """Write a piece at its offset; returns the number of bytes received so far."""

    async def finish_upload(self, upload_id: str, bounds: Bounds) -> Upload:
        """Unpack it."""

    async def claim_upload(self, upload_id: str) -> Upload | None:
        """The upload, if it exists; keeps it for another hour, whether or not a workload follows."""

    async def uploads(self) -> list[Upload]:
        """All uploads."""

    async def remove_upload(self, upload_id: str) -> None:
        """Remove it and its files. May be called twice."""

    async def set_aside_claims(self, project: str, kept_as: str) -> None:
        """Move away the volume claims of an earlier project of this name; raises `PodAccessError`."""

    async def remove_claim(self, project: str, name: str) -> None:
        """Remove a volume claim with its data. May be called twice; raises `PodAccessError`."""


class Answering(Protocol):
    """Answers questions about what the scheduler of a cluster would do (`api/questions.py`)."""

    def answer(self, text: bytes) -> bytes | Problem:
        """Called in a thread that may be kept busy for a while."""


class PodAccess(UploadAccess, Protocol):
    """Logs, shells, ports and metrics of pods. The first three methods raise `PodAccessError`."""

    def read_log(self, pod: PodAddress, wanted: LogRange, *, follow: bool) -> AsyncGenerator[LogPiece]:
        """The log of a pod; with `follow`, until the pod has ended."""

    async def open_shell(self, pod: PodAddress, command: tuple[str, ...], tty: bool) -> ShellSession:
        """Run a command in the pod, or attach to its main process if there is no command."""

    async def open_port(self, pod: PodAddress, port: int) -> PortStream:
        """Connect to a port that a process of the pod listens on."""

    async def reports(self, pod: PodAddress) -> Mapping[str, Any]:
        """`metrics` and `parameters` that the job reported, unchanged; empty if there are none."""
