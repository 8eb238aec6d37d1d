"""Help pages and messages are what the golden files show, so that a reviewer reads every sentence in one place."""

from __future__ import annotations

import ast
import difflib

import pytest

from tools.messages import GOLDEN, golden_files, kept_files, texts_of

WANTED = golden_files()


@pytest.mark.parametrize("name", sorted(WANTED))
def test_golden_file(name: str) -> None:
    path = GOLDEN / name
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    changed = difflib.unified_diff(kept.splitlines(), WANTED[name].splitlines(), "golden", "now", lineterm="", n=0)
    assert kept == WANTED[name], "run `make golden` and read the difference:\n" + "\n".join(changed)


def test_no_golden_file_is_left_over() -> None:
    assert {path.relative_to(GOLDEN).as_posix() for path in kept_files()} == set(WANTED)


def test_what_counts_as_a_text() -> None:
    source = '''
"""A docstring of a module."""
import re
PATTERN = re.compile("a pattern with words")
def f(name):
    """A docstring."""
    one = "word"
    say("two words", f"{name!r} is not a number: give {name.lower()} another")
    run("SELECT a FROM b")
'''
    assert list(texts_of(ast.parse(source))) == ["two words", "{name} is not a number: give {name.lower()} another"]
