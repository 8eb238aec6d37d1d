"""HTTP routes for downloading the command: the package, its name and its checksum.

They need no token, because a person installs the command in order to sign in, and because the package contains the
program and nothing of this installation (`command_package.py`). It is made when it is first asked for, once.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from fairpool.api import downloads as wire
from fairpool.control.command_package import NoPackage, Wheel, installed_package
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused
from fairpool.control.routes import Routes
from fairpool.control.single_flight import SingleFlight
from fairpool.control.web_ui import File, file_response

routes = Routes("downloads")
files = Routes(in_document=False)

STABLE = "/download/fairpool.whl"
"""For links. pip reads the version from the name of a file, so that it needs the other address."""


class CommandDownload:
    """The package, once it was made. For one event loop."""

    def __init__(self) -> None:
        self._made: Wheel | NoPackage | None = None
        self._making = SingleFlight()

    async def package(self) -> Wheel:
        """Raises `Refused` where there is none."""
        while self._made is None:
            await self._making.join(self._make)
        if isinstance(self._made, NoPackage):
            fix = "install Fairpool with pip, or get the package from where the server was installed from"
            raise refused(404, "download.no_package", f"there is no package to download: {self._made}", fix)
        return self._made

    async def _make(self) -> None:
        try:
            self._made = await asyncio.to_thread(installed_package)
        except NoPackage as error:
            self._made = error


async def _package(request: Request) -> Wheel:
    download: Any = request.app.state.command_download
    package: Wheel = await download.package()
    return package


@routes.get(
    "/api/v1/command-package",
    action=Action.OPEN,
    answer=wire.CommandPackage,
    summary="Get the name and checksum of the package with the command",
)
async def command_package(request: Request) -> wire.CommandPackage:
    package = await _package(request)
    return wire.CommandPackage(
        name=package.name,
        version=package.version,
        path=f"/download/{package.name}",
        sha256=package.sha256,
        size_bytes=len(package.content),
    )


@files.get(STABLE, action=Action.OPEN)
async def newest(request: Request) -> Response:
    package = await _package(request)
    return RedirectResponse(f"/download/{package.name}", 302, {"Cache-Control": "no-cache"})


@files.get("/download/{name}", action=Action.OPEN)
async def download(name: str, request: Request) -> Response:
    package = await _package(request)
    if name != package.name:
        raise refused(404, "download.unknown", f"there is no file {name[:128]!r}", f"download {STABLE}")
    return file_response(request, File(f"/download/{name}", package.content, None, f'"{package.sha256[:32]}"'))


routes += files
