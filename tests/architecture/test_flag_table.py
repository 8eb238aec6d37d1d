"""Every flag of the submit commands has a test of its effect, and the page that lists them is up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHOUT_TEST = frozenset(
    {
        *("--jupyter", "--s3", "--service-type", "--custom-url"),
        *("--address", "--add-capability", "--nfs-server", "--mount-propagation"),
        *("--git-sync", "--configmap-volume", "--host-ipc", "--host-network"),
        *("--preferred-pod-topology-key", "--required-pod-topology-key", "--run-as-user", "--create-home-dir"),
        *("--prevent-privilege-escalation", "--allow-privilege-escalation", "--workers", "--min-replicas"),
        *("--max-replicas", "--no-master", "--master-gpu", "--master-args"),
        *("--master-environment", "--master-extended-resource", "--master-no-pvcs", "--slots-per-worker"),
        *("--clean-pod-policy",),
    }
)
"""Flags that no test shows yet. A new flag needs a test, marked with `@pytest.mark.flag`, and no entry here."""


@pytest.mark.slow
def test_every_flag_has_a_test_of_its_effect_and_the_page_says_which() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.flag_table", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(done.stdout.split()) == WITHOUT_TEST
