"""The seam to what pods write and report and to shells in them: three verbs that an engine's side provides.

The control plane never opens a connection to a cluster. In the embedded mode whoever composes the parts hands over an
object that reads pod directories on this machine. A remote cluster will learn of wanted streams with its pull, and dial
back; the object handed over is then one that waits for that call, with the same face.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fairpool.api.shell import Frame
from fairpool.model.ids import Instant
from fairpool.model.problem import Problem
from fairpool.model.upload import Bounds, Upload


class Shut(Exception):
    """What is behind the door cannot be reached, and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class PodAddress:
    """One life of one pod."""

    cluster: str
    pod: str
    """Its id; the log of a life is there as long as its traces are, also after its end."""
    node: str | None
    workload: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Which part of a log, and how. An offset is given alone; of `tail` and `since`, the later place counts."""

    offset: int = 0
    tail: int | None = None
    """Only the last so many lines."""
    since: Instant | None = None
    """Only what came at this moment or later."""
    timestamps: bool = False
    """With the moment before each line."""


class ShellEnd(Protocol):
    """The pod's side of a shell."""

    async def send(self, frame: Frame) -> None:
        """Input, a new size, or the end of input."""

    async def receive(self) -> Frame | None:
        """Output, errors, and at last how it ended; None when nothing comes any more."""

    async def close(self) -> None:
        """The person has left. May be called twice."""


class UploadDoors(Protocol):
    """Folders for workloads, kept where their pods will run. The first three verbs raise `Shut`."""

    async def begin_upload(self, upload: Upload, total_bytes: int) -> None:
        """Make room for an archive; all uploads together may take up so much."""

    async def write_upload(self, upload_id: str, offset: int, piece: bytes) -> int:
        """Put a piece of it in its place; says how much there is."""

    async def finish_upload(self, upload_id: str, bounds: Bounds) -> Upload:
        """Unpack it."""

    async def claim_upload(self, upload_id: str) -> Upload | None:
        """What is known of it; from now on it stays for another hour, whether or not a workload follows."""

    async def uploads(self) -> list[Upload]:
        """All there are."""

    async def remove_upload(self, upload_id: str) -> None:
        """With all that is in it. May be called twice."""

    async def set_aside_claims(self, project: str) -> None:
        """What an earlier project of this name has left in its claims is no claim any more; raises `Shut`."""


class PodDoors(UploadDoors, Protocol):
    """Ways into pods. The first two verbs raise `Shut`."""

    def read_log(self, pod: PodAddress, wanted: Excerpt, *, follow: bool) -> AsyncIterator[bytes]:
        """What the pod wrote; with `follow`, until its life is over."""

    async def open_shell(self, pod: PodAddress, command: tuple[str, ...], tty: bool) -> ShellEnd:
        """A process beside the pod's own, or with no command the pod's own."""

    async def reports(self, pod: PodAddress) -> Mapping[str, Any]:
        """What the job says about itself, as it said it: `metrics` and `parameters`. Empty where nothing is known."""


class NoUploads:
    """Where folders cannot be brought to."""

    async def begin_upload(self, upload: Upload, total_bytes: int) -> None:
        raise Shut(_NO_UPLOADS)

    async def write_upload(self, upload_id: str, offset: int, piece: bytes) -> int:
        raise Shut(_NO_UPLOADS)

    async def finish_upload(self, upload_id: str, bounds: Bounds) -> Upload:
        raise Shut(_NO_UPLOADS)

    async def claim_upload(self, upload_id: str) -> Upload | None:
        return None

    async def uploads(self) -> list[Upload]:
        return []

    async def remove_upload(self, upload_id: str) -> None:
        return None

    async def set_aside_claims(self, project: str) -> None:
        return None


_NO_UPLOADS = Problem("upload.unreachable", "folders cannot be uploaded to this cluster", "use a volume or an image")


class NoDoors(NoUploads):
    """Where no engine's side was handed over."""

    def read_log(self, pod: PodAddress, wanted: Excerpt, *, follow: bool) -> AsyncIterator[bytes]:
        raise Shut(_away(pod))

    async def open_shell(self, pod: PodAddress, command: tuple[str, ...], tty: bool) -> ShellEnd:
        raise Shut(_away(pod))

    async def reports(self, pod: PodAddress) -> Mapping[str, Any]:
        return {}


def _away(pod: PodAddress) -> Problem:
    return Problem(
        "pod.unreachable",
        f"the logs and shells of pods in cluster {pod.cluster} cannot be reached",
        "check the pod on its node",
    )
