from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.reader import Reader, chromium, signed_in
from tests.running_platform import Running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[Running]:
    """A platform with two simulated nodes of eight GPUs, as `make up` starts it."""
    folder: Path = tmp_path_factory.mktemp("platform")
    running = Running(folder / "data", config=folder / "config")
    try:
        running.up()
        yield running
    finally:
        running.clean_up()


@pytest.fixture
def reader(browser: Any, platform: Running) -> Iterator[Reader]:
    """The owner of the platform, at the overview."""
    found = signed_in(browser, platform)
    yield found
    found.page.context.close()
    found.check()
