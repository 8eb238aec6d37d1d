"""Requests that the control plane sends to a cluster through its tunnel, each on a stream of its own.

The tunnel is one WebSocket that the cluster opens (`multiplexer.py` describes its frames). What follows a request:

- `ReadLog`: pieces of the log come back, each with the offset after it, so that a reader can go on elsewhere;
- `OpenShell`: frames of `shell.py`, both ways;
- `OpenPort`: the bytes of the connection, both ways;
- the others: one answer as JSON, in one or more frames. `WriteUpload` is followed by its piece.

A request that the cluster does not know closes its stream with a reason, and no other.
"""

from __future__ import annotations

import struct
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from fairpool.api.message import Wire
from fairpool.model.problem import Problem
from fairpool.model.upload import Bounds, Upload

PATH: Final = "/api/v1/cluster/tunnel"
SUBPROTOCOLS: Final = ("v1.tunnel.fairpool",)
"""Versions of the tunnel that this side speaks, the preferred one first."""
PING_S: Final = 10.0
"""Interval of pings from either side, and how long an answer may take."""
ANSWER_MAX_BYTES: Final = 4 * 1024 * 1024

_OFFSET = struct.Struct("!Q")

T = TypeVar("T")


class PodWire(Wire):
    """Where to find a pod."""

    cluster: str
    pod: str
    node: str | None
    workload: str


class UploadWire(Wire):
    """An uploaded directory."""

    mirrors = Upload

    id: str
    owner: str
    project: str
    size_bytes: int
    files: int = 0
    is_complete: bool = False
    age_s: float = 0.0


class BoundsWire(Wire):
    """How much a directory may hold."""

    mirrors = Bounds

    size_bytes: int
    files: int
    total_bytes: int


class ReadLog(Wire):
    """The log of a pod; with `follow`, until the pod has ended."""

    kind: Literal["log"] = "log"
    pod: PodWire
    offset: int = 0
    tail: int | None = None
    since: int | None = None
    timestamps: bool = False
    follow: bool = False


class OpenShell(Wire):
    """A command in a pod, or with none the pod's main process."""

    kind: Literal["shell"] = "shell"
    pod: PodWire
    command: tuple[str, ...]
    tty: bool


class OpenPort(Wire):
    """A connection to a port of a pod."""

    kind: Literal["port"] = "port"
    pod: PodWire
    port: int


class ReadReports(Wire):
    """What a job reports about itself."""

    kind: Literal["reports"] = "reports"
    pod: PodWire


class BeginUpload(Wire):
    """Reserve space for an archive."""

    kind: Literal["begin-upload"] = "begin-upload"
    upload: UploadWire
    total_bytes: int


class WriteUpload(Wire):
    """A piece of an archive; it follows as data."""

    kind: Literal["write-upload"] = "write-upload"
    upload_id: str
    offset: int


class FinishUpload(Wire):
    """Unpack an archive."""

    kind: Literal["finish-upload"] = "finish-upload"
    upload_id: str
    bounds: BoundsWire


class ClaimUpload(Wire):
    """Look at an upload, and keep it for another hour."""

    kind: Literal["claim-upload"] = "claim-upload"
    upload_id: str


class ListUploads(Wire):
    """All uploads."""

    kind: Literal["list-uploads"] = "list-uploads"


class RemoveUpload(Wire):
    """Remove an upload and its files."""

    kind: Literal["remove-upload"] = "remove-upload"
    upload_id: str


class SetAsideClaims(Wire):
    """Move away the volume claims of an earlier project of this name."""

    kind: Literal["set-aside-claims"] = "set-aside-claims"
    project: str
    kept_as: str


class RemoveClaim(Wire):
    """Remove a volume claim with its data."""

    kind: Literal["remove-claim"] = "remove-claim"
    project: str
    name: str


class Ask(Wire):
    """A question to the scheduler; it follows as data, and what is answered is not for this protocol to know."""

    kind: Literal["ask"] = "ask"


TunnelRequest = (
    ReadLog
    | OpenShell
    | OpenPort
    | ReadReports
    | BeginUpload
    | WriteUpload
    | FinishUpload
    | ClaimUpload
    | ListUploads
    | RemoveUpload
    | SetAsideClaims
    | RemoveClaim
    | Ask
)
_REQUEST: TypeAdapter[TunnelRequest] = TypeAdapter(Annotated[TunnelRequest, Field(discriminator="kind")])


def read_request(data: bytes) -> TunnelRequest | Problem:
    """The request of a stream."""
    try:
        return _REQUEST.validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        what = f"the cluster does not understand this request ({place}: {first['msg']})"
        return Problem("tunnel.request", what, "run the same release of Fairpool on both sides")


def answer_text(value: Any) -> bytes:
    """A JSON answer."""
    return _ANY.dump_json(value)


def read_answer(kind: type[T], data: bytes) -> T | Problem:
    """An answer of this type."""
    try:
        return TypeAdapter(kind).validate_json(data)
    except ValidationError:
        return Problem("tunnel.answer", "the cluster's answer cannot be read", "run the same release on both sides")


def log_message(next_offset: int, data: bytes) -> bytes:
    """A piece of a log, as one frame."""
    return _OFFSET.pack(next_offset) + data


def log_piece_in(message: bytes) -> tuple[int, bytes] | Problem:
    """The offset after a piece of a log, and the piece."""
    if len(message) < _OFFSET.size:
        return Problem("tunnel.log", "the cluster sent an unreadable piece of the log", "run the same release")
    return _OFFSET.unpack_from(message)[0], message[_OFFSET.size :]


_ANY: TypeAdapter[Any] = TypeAdapter(Any)
