"""The built web UI: which files it has, which requests are for it, and how they are answered.

Vite builds `ui/` into `static/` beside this module (`hatch_build.py` starts it). All of it is read once, when the
server starts: a browser never gets one file of an older build and one of a newer, no request touches the disk, and no
path of a request can lead to another file. The page is the same for all callers and needs no token; the API does.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Scope

log = logging.getLogger("fairpool.control")

FOLDER = Path(__file__).parent / "static"
INDEX = "/index.html"
ASSETS = "/assets/"
"""Vite puts a hash of the content into the names of these files."""
COMPRESSED = ".gz"
PIECE_BYTES = 256 * 1024
FILES_MAX_BYTES = 64 * 1024 * 1024
"""All of a build, kept in memory. Ours has a tenth of it."""

POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'"
)
"""Mantine writes inline styles. `connect-src 'self'` includes WebSockets of the same host."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".wasm": "application/wasm",
    ".whl": "application/zip",
}


@dataclass(frozen=True, slots=True)
class File:
    """A file of the build."""

    path: str
    content: bytes
    compressed: bytes | None
    tag: str

    @property
    def headers(self) -> dict[str, str]:
        kept = "public, max-age=31536000, immutable" if self.path.startswith(ASSETS) else "no-cache"
        kind = TYPES.get(os.path.splitext(self.path)[1], "application/octet-stream")
        return {**HEADERS, "Cache-Control": kept, "Content-Type": kind, "ETag": self.tag}


class WebUi:
    """The files of a build. Without one, the server has a plain page instead."""

    def __init__(self, folder: Path | None = FOLDER) -> None:
        self._folder = folder
        self._files: Mapping[str, File] = {}

    def load(self) -> None:
        """Read the build. Blocks."""
        files = _files(self._folder) if self._folder is not None else {}
        self._files = files if INDEX in files else {}

    @property
    def is_built(self) -> bool:
        return bool(self._files)

    def is_page(self, scope: Scope) -> bool:
        """Whether a request without a route of its own is for a file or a page of the web UI."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return False
        path: str = scope["path"]
        if path in self._files:
            return True
        return self.is_built and not path.startswith(ASSETS) and "text/html" in Headers(scope=scope).get("accept", "")

    def response(self, request: Request) -> Response | None:
        """The file, or the page that finds out by itself what to show. None: there is no build."""
        file = self._files.get(request.scope["path"]) or self._files.get(INDEX)
        if file is None:
            return None
        return file_response(request, file)


def file_response(request: Request, file: File) -> Response:
    """The file, unless the browser has it already."""
    headers = file.headers
    if request.url.scheme == "https":  # elsewhere browsers ignore it, and complain
        headers["Cross-Origin-Opener-Policy"] = "same-origin"
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    content = file.content
    if file.compressed is not None and _takes_gzip(request.headers.get("accept-encoding", "")):
        content, headers["Content-Encoding"] = file.compressed, "gzip"
    headers["Content-Length"] = str(len(content))
    # A stream: the bodies of other answers are searched for names that the caller may not see.
    return StreamingResponse(_pieces(content), headers=headers)


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), PIECE_BYTES):
        yield content[start : start + PIECE_BYTES]


def _takes_gzip(accepted: str) -> bool:
    for each in accepted.lower().split(","):
        coding, _, quality = each.partition(";")
        if coding.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _files(folder: Path) -> dict[str, File]:
    """The files below a folder, by their path in the address. Links are not followed."""
    found: dict[str, bytes] = {}
    size = 0
    for where, _, names in os.walk(folder, followlinks=False):
        for name in sorted(names):
            file = Path(where, name)
            if name.startswith(".") or file.is_symlink() or not file.is_file():
                continue
            size += file.stat().st_size
            if size > FILES_MAX_BYTES:
                log.error("The web UI in %s is larger than %d MiB and is not served.", folder, FILES_MAX_BYTES >> 20)
                return {}
            found["/" + file.relative_to(folder).as_posix()] = file.read_bytes()
    return {
        path: File(path, content, found.get(path + COMPRESSED), f'"{hashlib.sha256(content).hexdigest()[:32]}"')
        for path, content in found.items()
        if not path.endswith(COMPRESSED)
    }
