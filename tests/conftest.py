"""Which tests wait for `make test-all`: real processes by the hundred, which would make every run of the tests long."""

from __future__ import annotations

import pytest

LONG = {
    "test_up.py",
    "test_netapp_commands.py",
    "test_local_engine.py",
    "test_runai.py",
    "test_runai_adm.py",
    "test_runai_on_one_machine.py",
    "test_engine.py",
    "test_api_fuzz.py",
    "test_starts.py",
}
"""Their slow tests start servers, keepers and pods."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in LONG and item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.processes)
