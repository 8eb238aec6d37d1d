"""The repository as the rules see it: which files belong to it, and what is in them.

The only module of tidy that touches the disk. It asks git which files belong (committed or about to be);
where there is no git, as in an unpacked archive, it walks the folders and leaves out the usual debris.
"""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

DEBRIS = frozenset({".git", ".venv", "venv", "__pycache__", "build", "dist", "node_modules", ".hypothesis"})


@dataclass(frozen=True, order=True)
class Finding:
    """One place that breaks one rule. Line 0 means the file as a whole."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}" if self.line else f"{self.path}: {self.what}"


@dataclass(frozen=True)
class Module:
    """A Python file, parsed."""

    path: str
    text: str
    syntax: ast.Module

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of its syntax: walked once, because most rules look at all of them."""
        return tuple(ast.walk(self.syntax))

    @property
    def stem(self) -> str:
        return PurePosixPath(self.path).stem

    @property
    def is_package(self) -> bool:
        return self.stem == "__init__"

    @property
    def name(self) -> str:
        """The dotted name it is imported by."""
        parts = PurePosixPath(self.path).with_suffix("").parts
        if parts[0] == "src":
            parts = parts[1:]
        return ".".join(parts[:-1] if self.is_package else parts)


class Tree:
    """A folder and the files in it that belong to the repository."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._texts: dict[str, str | None] = {}

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Every file that belongs here, relative to the root, with forward slashes."""
        found = _known_to_git(self.root) if (self.root / ".git").exists() else _walked(self.root)
        return tuple(sorted(path for path in found if (self.root / path).is_file()))

    @cached_property
    def modules(self) -> tuple[Module, ...]:
        """Every Python file. One that does not parse is left to the linter, which says it better."""
        return tuple(module for path in self.paths if (module := self._module(path)) is not None)

    def modules_in(self, *folders: str) -> Iterator[Module]:
        return (module for module in self.modules if module.path.split("/", 1)[0] in folders)

    def text(self, path: str) -> str | None:
        """The text of a file, or None if it is not there or is not text."""
        if path not in self._texts:
            self._texts[path] = _read(self.root / path)
        return self._texts[path]

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def size_bytes(self, path: str) -> int:
        return (self.root / path).stat().st_size

    def _module(self, path: str) -> Module | None:
        text = self.text(path) if path.endswith(".py") else None
        if text is None:
            return None
        try:
            return Module(path, text, ast.parse(text))
        except SyntaxError:
            return None


def _known_to_git(root: Path) -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return [path for path in listed.split("\0") if path]


def _walked(root: Path) -> list[str]:
    relative = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return [path.as_posix() for path in relative if not DEBRIS.intersection(path.parts)]


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
