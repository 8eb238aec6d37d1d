"""Marks of tests are known, also in modules that are skipped on this machine before pytest could complain."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTESTS_OWN = {"filterwarnings", "parametrize", "skip", "skipif", "usefixtures", "xfail"}


def test_every_mark_is_known() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]
    known = PYTESTS_OWN | {line.partition(":")[0] for line in options["markers"]}
    used = {
        (path.name, mark)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for mark in re.findall(r"pytest\.mark\.(\w+)", path.read_text(encoding="utf-8"))
    }
    assert {(name, mark) for name, mark in used if mark not in known} == set()
    assert ("test_real_gpu.py", "slow") in used
