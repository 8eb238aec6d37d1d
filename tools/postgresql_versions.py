"""Short tests of the control plane on several versions of PostgreSQL.

`python -m tools.postgresql_versions [VERSION ...]`: a version is a number (`17`), whose server is fetched once from the
Maven registry (`io.zonky.test.postgres`), or a folder with the programs of a server, as `/usr/lib/postgresql/15/bin`.
Not part of `make test`, which uses the version that is installed.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(os.environ.get("FAIRPOOL_POSTGRESQL_FOLDER", "/var/tmp/fairpool-postgresql"))
"""Not below the home of root: root runs the server as another user."""
RELEASES = {"13": "13.22.0", "14": "14.18.0", "15": "15.13.0", "16": "16.9.0", "17": "17.5.0", "18": "18.0.0"}
TESTS = ("test_postgresql.py", "test_store.py")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64v8"}


def programs(version: str) -> Path:
    """The folder with the programs of a server."""
    if "/" in version:
        return Path(version)
    found = FOLDER / RELEASES[version]
    if not found.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as partial:
            _fetch(RELEASES[version], Path(partial))
            made = Path(partial) / "server"
            made.chmod(0o755)
            made.rename(found)
    return found / "bin"


def _fetch(release: str, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit("mvn is not installed (Debian package maven)")
    name = f"embedded-postgres-binaries-linux-{ARCHITECTURES[platform.machine()]}"
    artifact = f"-Dartifact=io.zonky.test.postgres:{name}:{release}"
    subprocess.run([maven, "-q", "-B", artifact, "dependency:get", "-Dtransitive=false"], check=True)
    subprocess.run([maven, "-q", "-B", artifact, "dependency:copy", f"-DoutputDirectory={folder}"], check=True)
    (jar,) = folder.glob("*.jar")
    with zipfile.ZipFile(jar) as archive:
        (inner,) = (each for each in archive.namelist() if each.endswith(".txz"))
        archive.extract(inner, folder)
    with tarfile.open(folder / inner) as files:
        files.extractall(folder / "server", filter="tar")


def main(arguments: Sequence[str]) -> int:
    chosen = list(arguments) or list(RELEASES)
    failed = []
    for version in chosen:
        folder = programs(version)
        said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
        print(f"== {said.strip()} ({folder})", flush=True)
        variables = {"FAIRPOOL_TEST_DATABASE": "postgresql", "FAIRPOOL_TEST_POSTGRESQL": str(folder)}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *(f"tests/contracts/{each}" for each in TESTS)]
        if subprocess.run(command, env={**os.environ, **variables}, check=False).returncode:
            failed.append(version)
    print(f"failed: {', '.join(failed)}" if failed else f"passed on {', '.join(chosen)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
