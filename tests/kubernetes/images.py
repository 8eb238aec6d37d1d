"""Container images for tests, made of static programs of Debian, in the format that `docker save` writes."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import needs

PAUSE = "fairpool.test/pause:1"
BUSYBOX = "fairpool.test/busybox:1"
APPLETS = "/bin/busybox"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def pause_image(target: Path) -> Path:
    """The process that holds the namespaces of a pod, and reaps."""
    program = Path(needs.program("catatonit", "catatonit"))
    return write_image(target, PAUSE, {"pause": program}, command=("/pause", "-P"))


def busybox_image(target: Path) -> Path:
    """A shell and small tools, web server and client among them."""
    program = Path(needs.program("busybox", "busybox-static"))
    return write_image(target, BUSYBOX, {APPLETS[1:]: program}, links=applet_links(), command=("/bin/sh",))


def applet_links() -> dict[str, str]:
    """Each of its tools by its own name."""
    program = needs.program("busybox", "busybox-static")
    names = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    return {f"bin/{name}": APPLETS for name in names if name != "busybox"}


def write_image(
    target: Path,
    name: str,
    files: Mapping[str, Path],
    *,
    links: Mapping[str, str] | None = None,
    command: Sequence[str] = (),
    user: str = "",
    environment: Mapping[str, str] | None = None,
) -> Path:
    """An image of one layer, for this machine's architecture."""
    layer = _layer(files, links or {})
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {
            "Env": [
                "PATH=/usr/local/bin:/bin:/usr/bin",
                *(f"{key}={each}" for key, each in (environment or {}).items()),
            ],
            "Cmd": list(command),
            "User": user,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    described = json.dumps(config).encode()
    image = hashlib.sha256(described).hexdigest()
    manifest = [{"Config": f"{image}.json", "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(target, "w") as archive:
        _add(archive, f"{digest}/layer.tar", layer)
        _add(archive, f"{image}.json", described)
        _add(archive, "manifest.json", json.dumps(manifest).encode())
    return target


def _layer(files: Mapping[str, Path], links: Mapping[str, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for folder, mode in {"bin": 0o755, "etc": 0o755, "tmp": 0o1777, "root": 0o755, "var/run": 0o755}.items():
            _add_folder(archive, folder, mode)
        _add(archive, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n")
        _add(archive, "etc/group", b"root:x:0:\nuser:x:1000:\n")
        for path, source in files.items():
            _add(archive, path, source.read_bytes(), mode=0o755)
        for path, content in links.items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = tarfile.SYMTYPE, content
            archive.addfile(entry)
    return made.getvalue()


def _add(archive: tarfile.TarFile, path: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _add_folder(archive: tarfile.TarFile, path: str, mode: int) -> None:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    archive.addfile(entry)
