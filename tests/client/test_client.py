"""Automation written for the original: its own REST client against a real platform, operation by operation.

One platform with simulated GPUs and one process of the client serve all cases of `tests/client/cases`, where each area
has its module. A case that fails does not stop the others: all failures are reported at once.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.client import cases, coverage
from tests.client.environment import original_python
from tests.client.not_applicable import NOT_APPLICABLE, reason
from tests.client.original import Original
from tests.running_platform import Running

pytestmark = pytest.mark.slow

ONLY = os.environ.get("FAIRPOOL_CLIENT_CASES", "")
"""Names of modules, for those who work on one of them; then the page is not compared."""
WRITE = "FAIRPOOL_WRITE_GOLDEN"


@pytest.fixture
def original(tmp_path: Path) -> Iterator[Original]:
    python = original_python()
    platform = Running(tmp_path / "platform")
    platform.up()
    try:
        original = Original.start(python, platform)
        yield original
        original.close()
    finally:
        platform.clean_up()


def test_the_originals_client_finds_what_it_was_written_for(original: Original) -> None:
    failures = [failure for name, case in _cases() if (failure := _failure(original, name, case))]
    assert not failures, "\n\n".join(failures)
    works_after_all = sorted(each for each in original.worked if reason(each) is not None)
    assert not works_after_all, f"not_applicable.py still has {', '.join(works_after_all)}"
    known = set(original.operations) | {each.partition(".")[0] for each in original.operations}
    assert set(NOT_APPLICABLE) <= known, set(NOT_APPLICABLE) - known
    if ONLY:
        return
    page = coverage.page(original)
    if os.environ.get(WRITE):
        coverage.PAGE.write_text(page)
    assert coverage.PAGE.read_text() == page, "docs/reference/client-coverage.md is stale: run `make golden`"


def _cases() -> Iterator[tuple[str, Callable[[Original], None]]]:
    for found in pkgutil.iter_modules(cases.__path__):
        if ONLY and found.name not in ONLY.split(","):
            continue
        module = importlib.import_module(f"{cases.__name__}.{found.name}")
        for name, value in vars(module).items():
            if name.startswith("case_"):
                yield f"{found.name}.{name}", value


def _failure(original: Original, name: str, case: Callable[[Original], None]) -> str:
    """What went wrong; what only a failed case called does not count."""
    before = set(original.worked), dict(original.refusals)
    try:
        case(original)
    except Exception:
        original.worked, original.refusals = before
        return f"{name}\n{traceback.format_exc(limit=-2)}"
    return ""
