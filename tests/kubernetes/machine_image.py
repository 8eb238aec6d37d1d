"""An image of programs of this machine: Python and Git, with the libraries that they need."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import fairpool
from tests import needs
from tests.kubernetes.images import APPLETS, applet_links, write_image
from tests.python_image import WITHOUT, libraries_of

TOOLS = "fairpool.test/tools:1"
PACKAGES = "opt/fairpool"
"""Where the image has the parts of Fairpool that run in pods."""
SMI = "#!/bin/sh\necho NVIDIA-SMI $NVIDIA_VISIBLE_DEVICES\n"
"""NVIDIA's runtime would put the real one into containers with GPUs."""
USER = "1000:1000"
REMOTE = ("/usr/lib/git-core/git-remote-http", "/usr/lib/git-core/git-remote-https")
"""What Git starts for addresses of the web."""


def tools_image(folder: Path) -> Path:
    """Runs as a user other than root, as most images do."""
    library, program = Path(sysconfig.get_path("stdlib")), Path(sys.executable).resolve()
    extensions = [*(library / "lib-dynload").glob("*.so")]
    programs = [Path(each).resolve() for each in _programs()]
    inside = [path for path in _files(library) if path.suffix != ".a"]
    programs += [path for path in map(Path, REMOTE) if path.exists()]
    needed = [program, *programs, *extensions]
    everything = {*needed, *inside, *libraries_of(*needed), *_fairpool()}
    files = {str(path)[1:]: path for path in everything if not path.is_relative_to(Path(fairpool.__file__).parent)}
    files |= {f"{PACKAGES}/fairpool/{path.relative_to(_package())}": path for path in _fairpool()}
    (folder / "nvidia-smi").write_text(SMI, encoding="ascii")
    files |= {"usr/local/bin/nvidia-smi": folder / "nvidia-smi", APPLETS[1:]: Path(needs.program("busybox", "busybox"))}
    links = {f"usr/local/bin/{name}": str(program) for name in ("python", "python3")}
    links |= {f"usr/local/bin/{Path(each).name}": str(Path(each).resolve()) for each in _programs()}
    links |= {each: target for each, target in applet_links().items() if each not in files}
    environment = {"PYTHONPATH": f"/{PACKAGES}", "PYTHONUNBUFFERED": "1"}
    return write_image(
        folder / "tools.tar", TOOLS, files, links=links, command=("sh",), user=USER, environment=environment
    )


def _programs() -> list[str]:
    return [needs.program("git", "git"), needs.program("bash", "bash")]


def _package() -> Path:
    return Path(fairpool.__file__).parent


def _fairpool() -> list[Path]:
    return [_package() / each for each in ("__init__.py", "agent/__init__.py", *_names("agent/pod"))]


def _names(folder: str) -> list[str]:
    return [f"{folder}/{each.name}" for each in (_package() / folder).glob("*.py")]


def _files(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not WITHOUT & set(path.parts))
