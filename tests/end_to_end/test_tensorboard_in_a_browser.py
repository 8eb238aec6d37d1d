"""A real TensorBoard of a real pod in a real Chromium, through the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.chromium import browser_page
from tests.end_to_end.test_gateway_in_a_browser import browser_tools, install, sign_in
from tests.end_to_end.test_gateway_on_one_machine import Tools

pytestmark = pytest.mark.slow

PORT = "6006"


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    with browser_tools(tmp_path_factory.mktemp("tensorboard")) as made:
        yield made


def test_tensorboard_shows_its_page_and_answers_its_own_requests(tools: Tools, tmp_path: Path) -> None:
    environment = tmp_path / "tensorboard"
    install(environment, "TensorBoard", "tensorboard>=2.14,<3", "setuptools<81")
    asked = ["-i", "python", "--interactive", "--service-type=ingress", "--port", PORT, "-p", "demo"]
    program = [f"{environment}/bin/python", "-m", "tensorboard.main", "--logdir", "/tmp", "--port", PORT]
    tools.runai("submit", "board", *asked, "-v", f"{environment}:{environment}", "--", *program)
    url = tools.url("board", "demo")
    with browser_page() as page:
        sign_in(tools, page, url)

        def is_there() -> bool:
            if page.value("document.querySelector('tb-webapp') !== null"):
                return True
            if "no process of the pod listens" in page.text().lower():
                page.open(url)
            return False

        tools.platform.until(is_there, "TensorBoard is open")
        answer = page.value("(async () => (await fetch('/data/environment')).status)()")
        assert answer == 200
