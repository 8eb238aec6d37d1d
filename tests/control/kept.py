"""Control databases that earlier versions left behind, as SQL under `tests/data`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"
VERSION = "0007"


def keep_database(folder: Path, version: str = VERSION) -> None:
    """Put a database of this version into a data directory."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / "control.sqlite")) as kept:
        kept.executescript((DATA / f"control-{version}.sql").read_text())


def kept_answers(version: str = VERSION) -> dict[str, Any]:
    """What the API of that version answered, by path; and what a cluster pulled."""
    answers: dict[str, Any] = json.loads((DATA / f"control-{version}.answers.json").read_text())
    return answers
