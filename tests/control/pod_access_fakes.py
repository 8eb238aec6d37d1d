"""Pod access that offers nothing, for fakes that offer one thing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from fairpool.control.pod_access import LogPiece, LogRange, PodAccessError, PodAddress, PortStream, ShellSession
from fairpool.model.problem import Problem
from fairpool.model.upload import Bounds, Upload

_NO_UPLOADS = Problem("upload.unreachable", "folders cannot be uploaded to this cluster", "use a volume or an image")
_NO_PODS = Problem("pod.unreachable", "pods cannot be reached", "check the pod on its node")


class NoUploadAccess:
    """A cluster that takes no uploads."""

    async def begin_upload(self, upload: Upload, total_bytes: int) -> None:
        raise PodAccessError(_NO_UPLOADS)

    async def write_upload(self, upload_id: str, offset: int, piece: bytes) -> int:
        raise PodAccessError(_NO_UPLOADS)

    async def finish_upload(self, upload_id: str, bounds: Bounds) -> Upload:
        raise PodAccessError(_NO_UPLOADS)

    async def claim_upload(self, upload_id: str) -> Upload | None:
        return None

    async def uploads(self) -> list[Upload]:
        return []

    async def remove_upload(self, upload_id: str) -> None:
        return None

    async def set_aside_claims(self, project: str, kept_as: str) -> None:
        return None

    async def remove_claim(self, project: str, name: str) -> None:
        return None

    async def open_port(self, pod: PodAddress, port: int) -> PortStream:
        raise PodAccessError(_NO_PODS)


class NoPodAccess(NoUploadAccess):
    """A cluster whose pods cannot be reached."""

    def read_log(self, pod: PodAddress, wanted: LogRange, *, follow: bool) -> AsyncGenerator[LogPiece]:
        raise PodAccessError(_NO_PODS)

    async def open_shell(self, pod: PodAddress, command: tuple[str, ...], tty: bool) -> ShellSession:
        raise PodAccessError(_NO_PODS)

    async def reports(self, pod: PodAddress) -> Mapping[str, Any]:
        return {}
