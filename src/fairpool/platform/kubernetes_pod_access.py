"""Access to pods on Kubernetes for the control plane: logs, shells and ports, through the API server.

The log of a pod can be read as long as its object exists, and that of one that was stopped as long as the cluster's
program keeps it. Kubernetes has no offsets into a log; it has the time of each
line, in nanoseconds. So the offset after a piece is the time of its last line, and reading goes on behind that.

Belongs to the event loop in which it is first used: the tunnel's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from fairpool.agent.uploads import Uploads
from fairpool.api.shell import Channel, Frame, ended
from fairpool.control.pod_access import LogPiece, LogRange, PodAccessError, PodAddress, PortStream, ShellSession
from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.credentials import ApiServer
from fairpool.engines.kubernetes.engine import PodPlace
from fairpool.engines.kubernetes.failures import (
    ApiUnreachable,
    EquipmentMissing,
    KubernetesError,
    NotFound,
    Refused,
    StreamFailed,
)
from fairpool.engines.kubernetes.resources import PODS
from fairpool.engines.kubernetes.streams import (
    ForwardedPort,
    ProgramStream,
    StreamChannel,
    open_attach,
    open_exec,
    open_port,
    read_logs,
)
from fairpool.model.ids import PodId
from fairpool.model.problem import Problem
from fairpool.model.upload import Bounds, Upload

FIRST_MOMENT_NS: Final = 10**15
"""Offsets below are bytes to skip, as a person may ask for; no log was written twelve days after 1970."""
NS_PER_S, NS_PER_MS = 10**9, 10**6
PIECE_BYTES = 1 << 16
LINE_MAX_BYTES = 1 << 20
"""A longer line is passed on in parts."""
RETRY_S = 1.0
"""Between two attempts to read a log that is followed."""
END_OF_INPUT = b"\x04"
"""What a terminal interprets as the end of input."""
NOT_STARTED = 400
"""The status of a log that does not exist yet."""


class KubernetesPodAccess:
    """The pods of one cluster."""

    def __init__(
        self,
        server: ApiServer,
        place: Callable[[PodId], PodPlace | None],
        remove_claim: Callable[[str, str], Awaitable[None]],
        *,
        uploads: Uploads | None = None,
        saved: Callable[[PodId], bytes | None] = lambda pod: None,
    ) -> None:
        """`place` finds the object of a pod; it may block, and is called in threads. `remove_claim` removes a claim of
        a project. `uploads`: where uploaded folders are kept; None: there are none. `saved`: the output of a pod that
        was stopped, with the time of each line; called in threads too."""
        self._server, self._place, self._remove_claim = server, place, remove_claim
        self._uploads, self._saved = uploads, saved
        self._client: KubernetesClient | None = None
        self._unpacking = asyncio.Lock()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    # --- logs ---

    async def read_log(self, pod: PodAddress, wanted: LogRange, *, follow: bool) -> AsyncGenerator[LogPiece]:
        """What the pod wrote; raises `PodAccessError`."""
        reading = _Reading.of(wanted)
        if (saved := await asyncio.to_thread(self._saved, PodId(pod.pod))) is not None:
            for piece in reading.of_saved(saved):
                yield piece
            return
        place = await self._found(pod)
        if follow and reading.after_ns:
            yield LogPiece(b"", reading.after_ns)  # where it is followed from
        while True:
            is_over = not follow or await self._has_ended(place)
            try:
                async with aclosing(self._pieces(place, reading, follow=follow)) as pieces:
                    async for piece in pieces:
                        yield piece
            except NotFound:
                saved = await asyncio.to_thread(self._saved, PodId(pod.pod))
                if saved is None:
                    raise PodAccessError(_no_log(pod.pod)) from None
                for piece in reading.of_saved(saved):
                    yield piece
                return
            except ApiUnreachable as error:
                if not follow:
                    raise PodAccessError(_away(error)) from error
                is_over = False
            except KubernetesError as error:
                if not isinstance(error, Refused) or error.status != NOT_STARTED:
                    raise PodAccessError(_refused(error)) from error
            if is_over:
                return
            # It was not started yet, or a connection broke: of the pod, or of a kubelet or API server that restarts.
            await asyncio.sleep(RETRY_S)

    async def _pieces(self, place: PodPlace, reading: _Reading, *, follow: bool) -> AsyncGenerator[LogPiece]:
        """One answer of the API server, line by line; `reading` remembers how far it went."""
        parts = read_logs(
            self._connected(),
            place.name,
            namespace=place.namespace,
            follow=follow,
            tail_lines=reading.tail,
            since=reading.since,
            timestamps=True,
        )
        async for line in _lines(parts):
            for piece in reading.pieces(line):
                yield piece

    async def _has_ended(self, place: PodPlace) -> bool:
        """Looked up before its log is read: then nothing can be missing at the end."""
        try:
            found = await self._connected().get(PODS, place.name, dict, namespace=place.namespace)
        except NotFound:
            return True
        except KubernetesError:
            return False
        return (found.get("status") or {}).get("phase") in ("Succeeded", "Failed")

    # --- shells and ports ---

    async def open_shell(self, pod: PodAddress, command: tuple[str, ...], tty: bool) -> ShellSession:
        """A process beside the pod's own, or with no command the pod's own; raises `PodAccessError`."""
        place = await self._found(pod)
        client, namespace = self._connected(), place.namespace
        try:
            if command:
                stream = await open_exec(
                    client, place.name, command, namespace=namespace, has_input=True, has_terminal=tty
                )
                return KubernetesShell(stream, is_terminal=tty, is_attached=False)
            has_input, has_terminal = await self._streams_of(place)
            stream = await open_attach(
                client, place.name, namespace=namespace, has_input=has_input, has_terminal=has_terminal
            )
        except NotFound:
            raise PodAccessError(_not_running(pod.pod)) from None
        except KubernetesError as error:
            raise PodAccessError(_refused(error)) from error
        return KubernetesShell(stream, is_terminal=has_terminal, is_attached=True)

    async def open_port(self, pod: PodAddress, port: int) -> PortStream:
        """A connection to a port of the pod; raises `PodAccessError`."""
        place = await self._found(pod)
        try:
            return KubernetesPort(await open_port(self._connected(), place.name, port, namespace=place.namespace))
        except NotFound:
            raise PodAccessError(_not_running(pod.pod)) from None
        except KubernetesError as error:
            what = f"port {port} of {pod.pod} cannot be reached: {error}"
            raise PodAccessError(Problem("pod.port_closed", what, "try again")) from error

    async def reports(self, pod: PodAddress) -> Mapping[str, Any]:
        """Nothing: jobs report to the agent of a machine, and there is none here."""
        return {}

    async def _streams_of(self, place: PodPlace) -> tuple[bool, bool]:
        """Whether the pod's own program has an input and a terminal."""
        found = await self._connected().get(PODS, place.name, dict, namespace=place.namespace)
        own = found["spec"]["containers"][0]
        return bool(own.get("stdin")), bool(own.get("tty"))

    # --- uploads and claims ---

    async def begin_upload(self, upload: Upload, total_bytes: int) -> None:
        """Make room for an archive; raises `PodAccessError`."""
        uploads = self._upload_place()
        if (problem := await asyncio.to_thread(uploads.begin, upload, total_bytes)) is not None:
            raise PodAccessError(problem)

    async def write_upload(self, upload_id: str, offset: int, piece: bytes) -> int:
        """Write a piece of an archive; raises `PodAccessError`."""
        written = await asyncio.to_thread(self._upload_place().write, upload_id, offset, piece)
        if isinstance(written, Problem):
            raise PodAccessError(written)
        return written

    async def finish_upload(self, upload_id: str, bounds: Bounds) -> Upload:
        """Unpack it, one at a time; raises `PodAccessError`. Pods get it from here."""
        uploads = self._upload_place()
        async with self._unpacking:
            done = await asyncio.to_thread(uploads.finish, upload_id, bounds)
        if isinstance(done, Problem):
            raise PodAccessError(done)
        return done

    async def claim_upload(self, upload_id: str) -> Upload | None:
        return await asyncio.to_thread(self._uploads.claim, upload_id) if self._uploads is not None else None

    async def uploads(self) -> list[Upload]:
        return await asyncio.to_thread(self._uploads.all) if self._uploads is not None else []

    async def remove_upload(self, upload_id: str) -> None:
        if self._uploads is not None:
            await asyncio.to_thread(self._uploads.remove, upload_id)

    def _upload_place(self) -> Uploads:
        if self._uploads is None:
            what = "directories cannot be uploaded to this cluster: it has no image to receive them with"
            fix = "use a volume claim, a Git repository or the image, or ask the administrator to set --support-image"
            raise PodAccessError(Problem("upload.kubernetes", what, fix))
        return self._uploads

    async def remove_claim(self, project: str, name: str) -> None:
        """Delete the PersistentVolumeClaim; what becomes of its data is the storage class's to say."""
        try:
            await self._remove_claim(project, name)
        except (KubernetesError, EquipmentMissing) as error:
            what = f"claim {name} of project {project} cannot be removed: {error}"
            raise PodAccessError(Problem("claim.not_removed", what, "try again")) from error

    async def set_aside_claims(self, project: str, kept_as: str) -> None:
        """Nothing to do: a new project does not get the namespace that was made for an earlier one of its name."""

    # --- the API server ---

    async def _found(self, pod: PodAddress) -> PodPlace:
        place = await asyncio.to_thread(self._place, PodId(pod.pod))
        if place is None:
            raise PodAccessError(_no_log(pod.pod))
        return place

    def _connected(self) -> KubernetesClient:
        if self._client is None:
            self._client = KubernetesClient(self._server)
        return self._client


@dataclass(slots=True)
class _Reading:
    """How far a log was read."""

    after_ns: int
    """Lines up to this moment were read."""
    skip_bytes: int = 0
    tail: int | None = None
    shows_time: bool = False
    is_fresh: bool = True
    """Nothing was read yet."""

    @classmethod
    def of(cls, wanted: LogRange) -> _Reading:
        after_ns = 0 if wanted.since is None else wanted.since * NS_PER_MS - 1
        skip_bytes = wanted.offset
        if wanted.offset >= FIRST_MOMENT_NS:
            after_ns, skip_bytes = max(after_ns, wanted.offset), 0
        return cls(after_ns, skip_bytes, wanted.tail, wanted.timestamps)

    @property
    def since(self) -> str:
        """For the API server, which reads whole seconds; empty: from the beginning."""
        if not self.after_ns:
            return ""
        return datetime.fromtimestamp(self.after_ns // NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def pieces(self, line: bytes) -> Iterator[LogPiece]:
        """What of a line is passed on, in parts of a bounded size."""
        before_ns, data = self.after_ns, self.taken(line)
        for first in range(0, len(data), PIECE_BYTES):
            is_whole = first + PIECE_BYTES >= len(data)
            yield LogPiece(data[first : first + PIECE_BYTES], self.after_ns if is_whole else before_ns)

    def of_saved(self, content: bytes) -> Iterator[LogPiece]:
        """The same of a whole log that was kept."""
        lines = [line for line in content.splitlines(keepends=True) if self._is_new(line)]
        for line in lines[-self.tail :] if self.tail else lines if self.tail is None else []:
            yield from self.pieces(line)

    def _is_new(self, line: bytes) -> bool:
        moment_ns = nanoseconds(line.partition(b" ")[0].decode("ascii", "replace"))
        return moment_ns is None or moment_ns > self.after_ns

    def taken(self, line: bytes) -> bytes:
        """What of a line is passed on."""
        stamp, _, text = line.partition(b" ")
        moment_ns = nanoseconds(stamp.decode("ascii", "replace"))
        if moment_ns is None:
            return line  # a message of the kubelet
        if moment_ns <= self.after_ns:
            return b""
        self.after_ns, self.tail = moment_ns, None
        if self.skip_bytes:
            skipped, self.skip_bytes = self.skip_bytes, max(0, self.skip_bytes - len(text))
            text = text[skipped:]
        return line if self.shows_time and text else text


async def _lines(parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """With their ends; the last may have none."""
    rest = b""
    async for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line + b"\n"
        if len(rest) > LINE_MAX_BYTES:
            yield rest
            rest = b""
    if rest:
        yield rest


def nanoseconds(text: str) -> int | None:
    """A time in RFC 3339 with up to nine decimals, since 1970; None: it is none."""
    whole, dot, decimals = text.removesuffix("Z").partition(".")
    if not text.endswith("Z") or not (decimals.isdecimal() if dot else True) or len(decimals) > 9:
        return None
    try:
        moment = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp()) * NS_PER_S + int(decimals.ljust(9, "0") or "0")


class KubernetesShell:
    """A command in a pod, or its own program."""

    def __init__(self, stream: ProgramStream, *, is_terminal: bool, is_attached: bool) -> None:
        self._stream, self._is_terminal, self._is_attached = stream, is_terminal, is_attached
        self._is_over = self._is_closed = False

    async def send(self, frame: Frame) -> None:
        with suppress(KubernetesError, OSError):  # it has ended; `receive` reports that
            match frame.channel:
                case Channel.INPUT:
                    await self._stream.send(frame.data)
                case Channel.SIZE if self._is_terminal:
                    rows, columns = _size(frame.data)
                    await self._stream.resize(columns, rows)
                case Channel.CLOSE if self._is_attached:
                    pass  # nodes would end the connection, and the program still has something to say
                case Channel.CLOSE if self._is_terminal:
                    await self._stream.send(END_OF_INPUT)
                case Channel.CLOSE:
                    await self._stream.close_input()

    async def receive(self) -> Frame | None:
        if self._is_over or self._is_closed:
            return None
        try:
            found = await self._stream.receive()
        except KubernetesError as error:
            self._is_over = True
            return ended(None, str(error))
        if found is not None:
            channel, data = found
            return Frame(Channel.ERRORS if channel is StreamChannel.ERRORS else Channel.OUTPUT, data)
        self._is_over = True
        end = self._stream.end
        assert end is not None
        if self._is_attached and end.exit_code == 0:
            return ended(None, "the program has ended")
        return ended(end.exit_code, "" if end.exit_code is not None else end.message)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            with suppress(KubernetesError, OSError):
                await self._stream.close()


class KubernetesPort:
    """A connection to a port of a pod."""

    def __init__(self, port: ForwardedPort) -> None:
        self._port = port
        self._has_ended = False

    async def send(self, data: bytes) -> None:
        with suppress(KubernetesError, OSError):  # the program has closed it; `receive` reports that
            await self._port.send(data)

    async def end(self) -> None:
        """The protocol cannot close one direction: the program learns of it when the connection is closed."""

    async def receive(self) -> bytes | None:
        try:
            return await self._port.receive()
        except StreamFailed as error:
            fix = "start the program first, or name the port that it uses"
            raise PodAccessError(Problem("pod.port_closed", str(error), fix)) from error
        except KubernetesError:
            return None

    async def close(self) -> None:
        await self._port.close()


def _size(data: bytes) -> tuple[int, int]:
    """Rows and columns; invalid values are replaced by something a terminal accepts."""
    try:
        size = json.loads(data)
        rows, columns = int(size["rows"]), int(size["columns"])
    except (ValueError, LookupError, TypeError):
        return 24, 80
    return max(1, min(rows, 65535)), max(1, min(columns, 65535))


def _no_log(pod: str) -> Problem:
    return Problem("pod.unknown", f"{pod} has no log in this cluster any more", "try another pod of the workload")


def _not_running(pod: str) -> Problem:
    return Problem("pod.not_running", f"{pod} is not running in this cluster", "try another pod")


def _away(error: KubernetesError) -> Problem:
    return Problem("pod.unreachable", str(error), "try again in a moment")


def _refused(error: KubernetesError) -> Problem:
    return Problem("pod.refused", str(error), "check that the pod runs; see `kubectl describe` of it for details")
