"""The long run, short: everything it does happens, what it notes is there, and its rule can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.longrun import GPUS, WATCHED, Sample, run, verdicts


def samples(*amounts: float) -> list[Sample]:
    return [Sample(number, dict.fromkeys((each.name for each in WATCHED), each)) for number, each in enumerate(amounts)]


def test_what_rises_at_first_and_then_stays_is_level() -> None:
    assert all(is_level for _, _, is_level in verdicts(samples(1, 50, 90, 100, 101, 100, 101, 100, 101)).values())


def test_what_goes_on_rising_is_not() -> None:
    assert not any(is_level for _, _, is_level in verdicts(samples(*range(0, 9000, 1000))).values())


@pytest.mark.slow
def test_a_wave_takes_back_what_was_lent_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    used, counts = run(tmp_path / "data", 100, history="2s")
    assert counts["submits"] == 100
    assert counts["delete"] > 60
    assert min(counts[action] for action in ("suspend", "resume", "shell", "log", "logins")) > 0
    assert counts["preemptions"] >= GPUS // 2
    last = used[-1].amounts
    assert set(last) == {each.name for each in WATCHED}
    assert min(last.values()) > 0
    assert last["descriptors"] <= used[0].amounts["descriptors"] + 16
