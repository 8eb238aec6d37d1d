"""The package with the command: pip installs what the server hands out, and nothing of this installation is in it."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fairpool
from fairpool.control import command_package, downloads
from fairpool.control.command_package import NoPackage, Wheel, installed_package
from tests.control.control_plane import ControlPlane, codes, control_plane

ROOT = Path(__file__).parents[2]
FILE_MODE, EXECUTABLE_MODE = 0o100644, 0o100755


@pytest.fixture(scope="module")
def package() -> Wheel:
    return installed_package()


@pytest.fixture(scope="module")
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        yield control


def names_in(package: Wheel) -> set[str]:
    with zipfile.ZipFile(io.BytesIO(package.content)) as packed:
        assert packed.testzip() is None
        return set(packed.namelist())


def test_the_package_is_every_file_of_the_program_and_nothing_else(package: Wheel) -> None:
    listed = subprocess.run(["git", "ls-files", "src/fairpool"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout")
    names = names_in(package)
    tracked = {name.removeprefix("src/") for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    assert tracked <= names, "a file of a kind that KINDS does not have"
    info = f"fairpool-{package.version}.dist-info"
    of_metadata = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    assert of_metadata == {name for name in names if not name.startswith("fairpool/")}
    assert not [name for name in names if "__pycache__" in name or "/static/" in name]


def test_the_same_files_make_the_same_package(package: Wheel) -> None:
    assert installed_package() == package
    assert hashlib.sha256(package.content).hexdigest() == package.sha256


def test_only_the_programs_own_files_are_packed(tmp_path: Path) -> None:
    folder = tmp_path / "fairpool"
    for name in ("cli/main.py", "control/static/index.py", "cli/__pycache__/main.py", "data.sqlite", ".env.py", "key"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (tmp_path / "secret.py").write_text("secret")
    (folder / "secret.py").symlink_to(tmp_path / "secret.py")
    (folder / "out").symlink_to(tmp_path)
    (folder / "run.sh").write_text("#!/bin/sh")
    (folder / "run.sh").chmod(0o755)
    assert command_package._package_files(folder) == {
        "cli/main.py": (b"cli/main.py", FILE_MODE),
        "run.sh": (b"#!/bin/sh", EXECUTABLE_MODE),
    }


def test_a_program_that_is_too_large_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_package, "SOURCE_MAX_BYTES", 10)
    (tmp_path / "large.py").write_text("x" * 11)
    with pytest.raises(NoPackage):
        command_package._package_files(tmp_path)


@pytest.mark.slow
def test_pip_installs_it_without_a_network_and_its_commands_run(package: Wheel, tmp_path: Path) -> None:
    (tmp_path / package.name).write_bytes(package.content)
    place = tmp_path / "place"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    python = str(place / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", package.name]
    done = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    where = "import fairpool, importlib.metadata as m; print(fairpool.__file__, m.version('fairpool'))"
    # Its dependencies are those of this environment; the package itself is found first in its own.
    own = next(place.glob("lib/python*/site-packages"))
    paths = os.pathsep.join([str(own), sysconfig.get_path("purelib")])
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": paths}
    found = subprocess.run([python, "-c", where], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == [str(own / "fairpool" / "__init__.py"), package.version]
    for command in ("runai", "runai-adm"):
        program = [str(place / "bin" / command), "version"]
        said = subprocess.run(program, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stderr
        assert fairpool.__version__ in said.stdout
    for command in ("fairpool", "rntop"):
        assert os.access(place / "bin" / command, os.X_OK)


def test_it_is_downloaded_without_a_token_and_kept_by_its_tag(control: ControlPlane, package: Wheel) -> None:
    listed = control.http.get("/api/v1/command-package")
    assert listed.json() == {
        "name": package.name,
        "version": package.version,
        "path": f"/download/{package.name}",
        "sha256": package.sha256,
        "sizeBytes": len(package.content),
    }
    file = control.http.get(listed.json()["path"])
    assert (file.status_code, file.content) == (200, package.content)
    assert file.headers["content-length"] == str(len(package.content))
    assert file.headers["cache-control"] == "no-cache", "a server that was updated has another file of this name"
    assert file.headers["x-content-type-options"] == "nosniff"
    again = control.http.get(listed.json()["path"], headers={"If-None-Match": file.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    moved = control.http.get("/download/fairpool.whl", follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (302, listed.json()["path"])


@pytest.mark.parametrize("name", ["fairpool-0.0.1-py3-none-any.whl", "..%2f..%2fpyproject.toml", "control"])
def test_no_other_file_is_handed_out(control: ControlPlane, name: str) -> None:
    assert control.http.get(f"/download/{name}").status_code in (401, 404)
    assert codes(control.call("GET", f"/download/{name}"))[0] in ("download.unknown", "request.no_such_path")


def test_without_metadata_the_server_says_that_there_is_none(
    control: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing() -> Any:
        raise NoPackage("this program runs without having been installed")

    monkeypatch.setattr(downloads, "installed_package", nothing)
    monkeypatch.setattr(control.app.state, "command_download", downloads.CommandDownload())
    for path in ("/api/v1/command-package", "/download/fairpool.whl"):
        answer = control.http.get(path)
        assert (answer.status_code, codes(answer)) == (404, ["download.no_package"])
