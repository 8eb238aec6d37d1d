"""Every flag of the submit commands has a test of its effect, and the page that lists them is up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHOUT_TEST = frozenset({"--s3", "--prevent-privilege-escalation", "--allow-privilege-escalation"})
"""Flags that no test shows yet. A new flag needs a test, marked with `@pytest.mark.flag`, and no entry here."""


@pytest.mark.slow
def test_every_flag_has_a_test_of_its_effect_and_the_page_says_which() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.flag_table", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(done.stdout.split()) == WITHOUT_TEST
