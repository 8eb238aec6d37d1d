"""Patterns of the API in words: every pattern has them, and their examples match."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import fairpool.api
import fairpool.control
from fairpool.control.pattern_words import WORDS, pattern_words

QUERY_CHOICES = re.compile(r"(?:\(\?i\))?\^\([\w|-]+\)\??\$")


def declared_patterns() -> Iterator[str]:
    """The values of `pattern=` in the API's messages and the control plane's routes."""
    for package in (fairpool.api, fairpool.control):
        for found in pkgutil.iter_modules(package.__path__):
            path = Path(package.__path__[0]) / f"{found.name}.py"
            if not path.exists():
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.keyword) and node.arg == "pattern":
                    yield from _values(node.value, f"{package.__name__}.{found.name}")


def _values(node: ast.expr, module: str) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name):
            yield getattr(importlib.import_module(module), name)
        case _:
            assert "'|'.join" in ast.unparse(node), f"{module}: {ast.unparse(node)} is neither constant nor a choice"


def test_every_pattern_of_the_api_has_words() -> None:
    patterns = set(declared_patterns())
    assert len(patterns) > 20, "they are found"
    described = {each for each in patterns if each in WORDS or QUERY_CHOICES.fullmatch(each)}
    assert patterns - described == set()
    assert WORDS.keys() - patterns == set(), "no words are left over"


def test_no_words_show_the_pattern() -> None:
    for pattern in set(declared_patterns()):
        words = pattern_words(pattern)
        assert pattern not in words
        assert not re.search(r"\\x|\[\^|\^\[", words), words


def test_examples_match_their_pattern() -> None:
    for pattern, words in WORDS.items():
        for example in filter(None, words.partition(": ")[2].partition(", or")[0].split(", ")):
            assert re.fullmatch(pattern, example), (pattern, example)
