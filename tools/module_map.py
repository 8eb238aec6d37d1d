"""The map of modules, made from the first lines of their docstrings: `python -m tools.module_map --write`.

`docs/reference/modules.md` is the result; `make check` compares the two.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from tools.tidy.tree import Module, Tree

PAGE = "docs/reference/modules.md"
PACKAGES = (
    *("model", "scheduler", "api", "agent", "engines", "cluster", "control"),
    *("platform", "simulation", "replay", "cli"),
)
"""From the bottom up; others follow in the order of their names."""

HEAD = """# Modules

Every module of `src/fairpool`, from the lowest layer to the highest, with the first line of its docstring.
Made by `make golden`; [ARCHITECTURE.md](../../ARCHITECTURE.md) says how the packages fit together.
"""


def page(tree: Tree) -> str:
    """The whole page."""
    modules = [each for each in tree.modules if each.path.startswith("src/fairpool/")]
    packages = {folder for each in modules if (folder := _folder(each.path)) and "versions" not in folder}
    parts = [HEAD]
    for folder in sorted(packages, key=_place):
        inside = [each for each in modules if _folder(each.path) == folder]
        own = next((first_line(each) for each in inside if each.is_package), "")
        parts.append(f"\n## {folder}\n\n{own}\n\n| module | |\n|---|---|\n")
        for each in inside:
            if not each.is_package:
                link = f"[{each.stem}](../../{each.path})"
                parts.append(f"| {link} | {first_line(each).replace('|', chr(92) + '|')} |\n")
    return "".join(parts)


def first_line(module: Module) -> str:
    """The first sentence of a docstring, or its first line."""
    text = ast.get_docstring(module.syntax) or ""
    return " ".join(text.split("\n\n")[0].split())


def _folder(path: str) -> str:
    return path.removeprefix("src/fairpool/").rpartition("/")[0]


def _place(folder: str) -> tuple[int, str]:
    package = folder.partition("/")[0]
    return (PACKAGES.index(package) if package in PACKAGES else len(PACKAGES), folder)


def main() -> None:
    root = Path(__file__).parents[1]
    text = page(Tree(root))
    if "--write" in sys.argv:
        (root / PAGE).write_text(text, encoding="utf-8")
        print(f"{PAGE}: {text.count(chr(10))} lines")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
