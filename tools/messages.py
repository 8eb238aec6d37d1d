"""Every sentence a person may see, in one place: `python -m tools.messages --write`.

Three kinds of golden files, compared with the code by `tests/architecture/test_messages.py`:

    tests/golden/help/*.txt      the help page of every command, at 80 columns
    tests/golden/screens/*.txt   tables and screens at 80 and 140 columns, see `tools/screens.py`
    tests/golden/messages/*.txt  every text in a package's code that has words in it, by module, in source order

A text is any string or f-string of at least two words that is neither a docstring nor a pattern nor a statement of SQL;
what is filled in stands in braces. That is more than people see, and leaves out nothing they do.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from tools.screens import screen_files

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
SOURCE = ROOT / "src" / "fairpool"
WORDS = re.compile(r"[A-Za-z'’]{2,}[,:;.]? +[A-Za-z{`'’(]")
STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|PRAGMA|CREATE|ALTER|DROP|BEGIN|COMMIT|WITH|ATTACH|VACUUM)\b")
PATTERNS = frozenset({"compile", "fullmatch", "match", "search", "sub", "findall"})
TYPED = "typed"
UNSEEN = ("control/store/migrations/", "agent/pod/")
"""Steps between shapes of the database; programs that run inside pods."""


def golden_files() -> dict[str, str]:
    """Path below `tests/golden` to what should be in it."""
    packages: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        if any(part in module for part in UNSEEN):
            continue
        found = list(texts_of(ast.parse(path.read_text(encoding="utf-8"))))
        if found:
            packages.setdefault(module.partition("/")[0].removesuffix(".py"), []).append(_section(module, found))
    files = {f"messages/{package}.txt": "\n".join(sections) for package, sections in packages.items()}
    files |= {f"help/{name}.txt": "\n".join(help_pages(name, command)) for name, command in _commands().items()}
    return files | screen_files()


def kept_files() -> list[Path]:
    """The golden files that are there, but for what real commands print (`tests/end_to_end/test_golden_screens.py`)."""
    return [path for path in GOLDEN.rglob("*.txt") if path.parent.name != TYPED]


def _section(module: str, found: list[str]) -> str:
    return "\n".join([f"== {module}", *found, ""])


def texts_of(tree: ast.AST) -> Iterator[str]:
    """Texts with words in them, in source order, each once."""
    hidden = {id(node) for each in ast.walk(tree) for node in _not_for_people(each)}
    seen: set[str] = set()
    for node in _in_order(tree, hidden):
        text = _text(node)
        if WORDS.search(text) and not STATEMENT.match(text) and text not in seen:
            seen.add(text)
            yield "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _in_order(node: ast.AST, hidden: set[int]) -> Iterator[ast.expr]:
    """Strings, whole: the parts of an f-string are not strings of their own."""
    if id(node) in hidden:
        return
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child, hidden)


def _not_for_people(node: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, texts below attributes, patterns."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PATTERNS:
        yield from node.args[:1]


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.JoinedStr)
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"  # type: ignore[attr-defined]
        for part in node.values
    )


# --- help ----------------------------------------------------------------------------------------------------


def _commands() -> dict[str, click.Command]:
    from fairpool.cli.adm.main import main as runai_adm
    from fairpool.cli.main import main as fairpool
    from fairpool.cli.rntop.main import main as rntop
    from fairpool.cli.runai.main import main as runai

    return {"fairpool": fairpool, "runai": runai, "runai-adm": runai_adm, "rntop": rntop}


def help_pages(
    name: str, command: click.Command, parent: click.Context | None = None, seen: set[object] | None = None
) -> Iterator[str]:
    """The page of a command, then those of its subcommands; hidden ones are left out, and those that are another name
    of a command above."""
    seen = set() if seen is None else seen
    same = (command.callback, tuple(name for each in command.params for name in each.opts))
    if same in seen and command.callback is not None:
        return
    seen.add(same)
    context = click.Context(command, info_name=name, parent=parent, max_content_width=80, terminal_width=80)
    yield f"== {context.command_path}\n{command.get_help(context)}\n"
    if not isinstance(command, click.Group):
        return
    for below in command.list_commands(context):
        members = getattr(command, "members", {})
        if below in members and members[below].hidden:
            continue
        found = command.get_command(context, below)
        if found is not None and not found.hidden:
            yield from help_pages(below, found, context, seen)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.messages", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the golden files anew")
    options = parser.parse_args(arguments)
    wanted = golden_files()
    if options.write:
        for path in kept_files():
            path.unlink()
        for name, text in wanted.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_text(text, encoding="utf-8")
        print(f"{len(wanted)} files in tests/golden")
        return 0
    different = [name for name, text in wanted.items() if _read(name) != text]
    for name in different:
        print(f"tests/golden/{name} is out of date: make golden")
    return 1 if different else 0


def _read(name: str) -> str:
    path = GOLDEN / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
