"""The image of `docs/guides/images.md` is built as it stands there, and a pod runs it: F-227."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fairpool.agent.devices import simulated_node
from tests.containers import BUSYBOX, running_podman
from tests.local_machine import NODE, a_machine

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "images.md"
NODES = (replace(simulated_node(NODE), runtime="podman"),)

pytestmark = pytest.mark.slow


def test_the_image_of_the_guide_is_built_and_runs(tmp_path: Path) -> None:
    (recipe,) = re.findall(r"```dockerfile\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    source = tmp_path / "source"
    source.mkdir()
    (source / "Containerfile").write_text(recipe, encoding="utf-8")
    (source / "train").write_text('#!/bin/sh\necho "$@" of $MODEL in $(pwd)\n', encoding="utf-8")
    root = tmp_path / "podman"
    root.mkdir()
    with running_podman(root) as podman:
        podman.run("build", "--build-arg", f"BASE={BUSYBOX}", "-t", "localhost/train:1.4", str(source))
        with a_machine(tmp_path / "machine", nodes=NODES) as machine:
            default = machine.run("default", image="localhost/train:1.4")
            assert machine.log(default.order.pod) == "--epochs 3 of resnet50 in /work\n"
            longer = machine.run("longer", image="localhost/train:1.4", arguments=("--epochs", "30"))
            assert machine.log(longer.order.pod) == "--epochs 30 of resnet50 in /work\n"
        podman.wait_until_empty()
