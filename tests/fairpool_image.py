"""Our own image, built by its script from the Python of this process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.containers import Podman, running_podman
from tests.python_image import SERVER_PACKAGES, python_archive

BUILD = Path(__file__).parents[1] / "packaging" / "fairpool-image" / "build.sh"
BASE, IMAGE = "localhost/python:1", "localhost/fairpool:1"


@contextmanager
def podman_with_image(folder: Path) -> Iterator[Podman]:
    """Podman with `IMAGE`, which has the web UI only if that was built before."""
    with running_podman(folder) as podman:
        archive = python_archive(podman.root, SERVER_PACKAGES)
        podman.run("import", "--change=CMD python3", str(archive), BASE)
        archive.unlink()
        command = [str(BUILD), "--base", BASE, "--tag", IMAGE, "--python", sys.executable]
        environment = {**os.environ, "FAIRPOOL_UI": "skip"}
        built = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)
        assert built.returncode == 0, built.stdout + built.stderr
        yield podman
