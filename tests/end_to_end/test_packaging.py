"""Packages contain the web UI: built once where sources are, carried by the source archive, left out on request.
The library of GPU shares is in wheels that were built where there is a C compiler.

npm is a stand-in here that writes what Vite would. `make up` and `make test` run the real one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools import native_build, ui_build

pytestmark = pytest.mark.slow

ROOT = ui_build.ROOT
INDEX = f"{ui_build.STATIC}/index.html"
NPM = f"""#!/bin/sh
echo "$*" >> ../npm.log
test "$1" = run || exit 0
mkdir -p ../{ui_build.STATIC}/assets
echo page > ../{INDEX}
echo script > ../{ui_build.STATIC}/assets/index-1.js
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As small a checkout as can be built, with the real build files."""
    root = tmp_path / "checkout"
    (root / "src/fairpool/control").mkdir(parents=True)
    (root / "ui/src").mkdir(parents=True)
    (root / "ui/node_modules/left-pad").mkdir(parents=True)
    (root / native_build.LIBRARY).parent.mkdir(parents=True)
    for folder in ("tools", "native"):
        (root / folder).mkdir()
    tools = ("tools/ui_build.py", "tools/native_build.py")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore", *tools):
        shutil.copy(ROOT / name, root / name)
    shutil.copy(ROOT / "src/fairpool/__init__.py", root / "src/fairpool/__init__.py")
    (root / "src/fairpool/control/__init__.py").touch()
    (root / "native/share.c").write_text("int shared(void) { return 1; }")
    (root / "ui/package.json").write_text("{}")
    (root / "ui/src/main.tsx").write_text("1")
    (root / "ui/node_modules/left-pad/index.js").write_text("1")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name, text in (("npm", NPM), ("node", "#!/bin/sh\necho v20.19.0\n")):
        (bin_folder / name).write_text(text)
        (bin_folder / name).chmod(0o755)
    return root


def build(root: Path, target: str, **environment: str) -> Path:
    """The package of a checkout or an unpacked archive."""
    known = {name: value for name, value in os.environ.items() if name != "FAIRPOOL_UI"}
    known["PATH"] = f"{root.parent / 'bin'}:/usr/bin:/bin"
    out = root.parent / f"out-{target}"
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    done = subprocess.run(command, cwd=root, env={**known, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(out.iterdir())


def names_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as packed:
        return packed.namelist()


def calls(root: Path) -> list[str]:
    """What npm was asked to do."""
    log = root / "npm.log"
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


def test_an_archive_carries_the_web_ui_and_a_wheel_from_it_needs_no_node(checkout: Path, tmp_path: Path) -> None:
    archive = build(checkout, "sdist")
    assert calls(checkout) == ["ci", "run"]
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
        packed.extractall(tmp_path / "unpacked", filter="data")
    assert {INDEX, f"{ui_build.STATIC}/assets/index-1.js", "ui/src/main.tsx", "hatch_build.py"} <= names
    assert not [name for name in names if "node_modules" in name]
    assert {"native/share.c", "tools/native_build.py"} <= names
    unpacked = next((tmp_path / "unpacked").iterdir())
    wheel = build(unpacked, "wheel", PATH="/nonexistent")
    with zipfile.ZipFile(wheel) as packed_wheel:
        assert "fairpool/control/static/index.html" in packed_wheel.namelist()


def test_the_web_ui_is_built_again_only_if_its_sources_changed(checkout: Path) -> None:
    build(checkout, "wheel")
    build(checkout, "wheel")
    assert calls(checkout) == ["ci", "run"]
    (checkout / "ui/src/main.tsx").touch()
    assert ui_build.is_current(checkout), "a checkout changes the times of files, and that is no change"
    (checkout / "ui/src/main.tsx").write_text("2")
    build(checkout, "wheel")
    assert calls(checkout) == ["ci", "run", "ci", "run"]


def test_a_package_can_be_built_without_a_web_ui(checkout: Path) -> None:
    wheel = build(checkout, "wheel", FAIRPOOL_UI="skip", PATH="/nonexistent")
    with zipfile.ZipFile(wheel) as packed:
        assert not [name for name in packed.namelist() if "static" in name]
    assert calls(checkout) == []


def test_a_wheel_has_the_library_of_gpu_shares_where_there_is_a_compiler(checkout: Path) -> None:
    if native_build.compiler() is None:
        pytest.skip("there is no C compiler")
    wheel = build(checkout, "wheel")
    assert "fairpool/agent/fractions/libgpufrac.so" in names_in(wheel)
    assert wheel.name.endswith(("-linux_x86_64.whl", "-linux_aarch64.whl")), wheel.name
    assert "-py3-none-" in wheel.name
    assert not [name for name in _archived(build(checkout, "sdist")) if "libgpufrac.so" in name]


@pytest.mark.parametrize("missing", [{"FAIRPOOL_NATIVE": "skip"}, {"PATH": "/nonexistent", "FAIRPOOL_UI": "skip"}])
def test_a_wheel_without_the_library_is_for_every_machine(checkout: Path, missing: dict[str, str]) -> None:
    wheel = build(checkout, "wheel", **missing)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in names_in(wheel) if "libgpufrac" in name]


def test_a_compiler_that_fails_costs_the_library_and_one_line(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if native_build.compiler() is None:
        pytest.skip("there is no C compiler")
    (checkout / "native/share.c").write_text("no C")
    assert not native_build.build(checkout)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Built without the library of GPU shares (`fairpool gpu run`): ")


def _archived(archive: Path) -> list[str]:
    with tarfile.open(archive) as packed:
        return packed.getnames()


@pytest.mark.parametrize(
    ("said", "is_taken"),
    [("v18.20.4", False), ("v20.18.9", False), ("v20.19.0", True), ("v22.12.0", False), ("v24.1.0", True)],
)
def test_a_node_that_is_too_old_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, is_taken: bool
) -> None:
    for name in ("node", "npm"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {said}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert (ui_build.found_node(tmp_path) is not None) == is_taken
