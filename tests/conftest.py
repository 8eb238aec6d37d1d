"""Which database system the control planes of the tests have their tables in: see `tests/postgresql.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgresql


@pytest.fixture(scope="session", autouse=True)
def _chosen_database() -> Iterator[None]:
    if not postgresql.is_chosen():
        yield
        return
    from fairpool.control import app
    from fairpool.control.store.database import Database

    def database_at(_: str, data: Path) -> Database:
        return postgresql.database_of(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "database_at", database_at)
        yield
