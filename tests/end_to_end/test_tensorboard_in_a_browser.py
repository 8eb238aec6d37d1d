"""A real TensorBoard of a real pod in a real Chromium, through the gateway."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.end_to_end.chromium import browser_page
from tests.end_to_end.test_gateway_in_a_browser import INSTALL_S, sign_in
from tests.end_to_end.test_gateway_on_one_machine import Tools

pytestmark = pytest.mark.slow

PORT = "6006"


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    needs.program("chromium", "chromium")
    made = Tools(tmp_path_factory.mktemp("tensorboard"))
    try:
        made.researcher("ann@example.com", "demo")
        yield made
    finally:
        made.platform.clean_up()


def test_tensorboard_shows_its_page_and_answers_its_own_requests(tools: Tools, tmp_path: Path) -> None:
    environment = tmp_path / "tensorboard"
    install(environment)
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


def install(environment: Path) -> None:
    """TensorBoard from the package registry, where pods can see it."""
    done = subprocess.run(
        [sys.executable, "-m", "venv", environment], capture_output=True, timeout=INSTALL_S, check=False
    )
    if done.returncode == 0:
        command = [f"{environment}/bin/python", "-m", "pip", "install", "--quiet", "tensorboard>=2.14,<3"]
        done = subprocess.run([*command, "setuptools<81"], capture_output=True, timeout=INSTALL_S, check=False)
    if done.returncode != 0:
        needs.skip_unless_ci(f"TensorBoard cannot be installed here: {done.stderr.decode()[-300:]}")
    for folder in (environment, *environment.parents[:2]):
        folder.chmod(0o755)
