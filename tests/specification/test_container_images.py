"""Images of containers: what waits for what. The tool is a script that does as the name of the image says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from fairpool.agent.container_images import PULLS_MAX, ContainerImages, Pulling
from fairpool.agent.container_launch import ContainerImage, ContainerSettings
from fairpool.agent.container_tool import TOOLS
from fairpool.model.ids import PodId
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem
from fairpool.model.spec import PullPolicy
from tests.contracts.harness import start_order

DEADLINE_S = 60.0
TOOL = """#!/bin/sh
case "$*" in
image\\ inspect*here*) echo '[{"Id": "1"}]' ;;
pull*) while [ ! -e "$STOP" ]; do sleep 0.05; done; exit 1 ;;
*) exit 1 ;;
esac
"""


@pytest.fixture
def images(tmp_path: Path) -> Iterator[ContainerImages]:
    """Pulls hang until the end of the test."""
    tool, stop = tmp_path / "tool", tmp_path / "stop"
    tool.write_text(TOOL)
    tool.chmod(0o700)
    environment = {"STOP": str(stop), "PATH": "/usr/bin:/bin"}
    settings = ContainerSettings(tool=TOOLS["docker"], path=str(tool), environment=environment, installation="i")
    yield ContainerImages(settings, lambda: None, lambda order, registry: None, lambda: nullcontext(""))
    stop.touch()


def an_order(image: str, pod: str, policy: PullPolicy = PullPolicy.IF_NOT_PRESENT) -> StartOrder:
    order = start_order()
    return replace(order, pod=PodId(pod), program=replace(order.program, image=image, pull_policy=policy))


def outcome(images: ContainerImages, order: StartOrder) -> ContainerImage | Problem:
    until = time.monotonic() + DEADLINE_S
    while isinstance(found := images.find(order), Pulling):
        assert time.monotonic() < until, "it waits for others"
        time.sleep(0.02)
    return found


def test_an_image_that_is_there_does_not_wait_for_pulls_that_hang(images: ContainerImages) -> None:
    for number in range(PULLS_MAX + 1):
        assert isinstance(images.find(an_order(f"slow{number}:1", f"s{number}")), Pulling)
    found = outcome(images, an_order("here:1", "x"))
    assert isinstance(found, ContainerImage)
    assert isinstance(images.find(an_order("slow0:1", "s0")), Pulling)


def test_a_pod_that_never_pulls_and_one_that_does_have_answers_of_their_own(images: ContainerImages) -> None:
    never = an_order("absent:1", "a", PullPolicy.NEVER)
    images.find(never)
    assert isinstance(images.find(an_order("absent:1", "b")), Pulling)
    found = outcome(images, never)
    assert isinstance(found, Problem)
    assert found.code == "image.never"
    assert isinstance(images.find(an_order("absent:1", "b")), Pulling)
