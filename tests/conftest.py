"""Which database system the control planes of the tests have their tables in: see `tests/postgresql.py`."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgresql


@pytest.fixture(scope="session", autouse=True)
def _chosen_database() -> Iterator[None]:
    if not postgresql.is_chosen():
        yield
        return
    from fairpool.control import app, plane
    from fairpool.control.store.database import Database

    def database_at(_: str, data: Path) -> Database:
        return postgresql.database_of(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "database_at", database_at)
        patch.setattr(plane, "series_database_at", lambda _, data: postgresql.series_of(data))
        yield


@pytest.fixture(autouse=True)
def _umask_is_kept() -> Iterator[None]:
    """A command run inside this process must leave the umask as it was: pods of later tests could not read a thing."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    after = os.umask(before)
    assert after == before, f"the test left the umask at {after:03o}; it was {before:03o}"


WITHOUT_DATABASE = frozenset(
    {
        *("test_engine.py", "test_simulated_engine.py", "test_multiplexer.py", "test_health_server.py"),
        *("test_cluster_client.py", "test_local_pod_access.py", "test_report_reader.py"),
    }
)
"""Tests of contracts in which no control plane is opened: they are the same on every database."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if postgresql.is_chosen():
        left_out = [each for each in items if each.path.name in WITHOUT_DATABASE]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [each for each in items if each.path.name not in WITHOUT_DATABASE]


def pytest_collection_finish() -> None:
    """What was collected stays to the end: without this, each full collection of garbage would walk all of it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Pytest now removes folders of earlier runs, by recursion. One that was killed may have left a pod's deep ones."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))
