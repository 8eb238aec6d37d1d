"""Secrets of pods in a cluster that is a program of its own: over its link, and while that is cut."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fairpool.agent import process_table
from fairpool.api.workload_spec import SubmitTraining
from tests.local_machine import environment_of
from tests.two_programs import ClusterProcess, ControlProcess, Relay

pytestmark = pytest.mark.slow

VALUE = "s3cr3t-Elsewhere-99"


def processes(workload: str) -> list[int]:
    """Those of its pods, which have the value."""
    wanted = {f"JOB_UUID={workload}".encode(), f"TOKEN={VALUE}".encode()}
    return [pid for pid in process_table.pids() if wanted <= set(environment_of(pid))]


def test_a_cluster_elsewhere_gets_a_secret_and_uses_it_again_while_the_control_plane_is_away(
    control: ControlProcess, relay: Relay, cluster: ClusterProcess
) -> None:
    admin = control.administrator()
    admin.create_project({"name": "team-a", "clusterId": "east", "resources": [{"gpu": {"deserved": 4}}]})
    meta = {"name": "tokens", "scope": "project", "projectId": "team-a"}
    admin.create_credential("generic-secret", {"meta": meta, "spec": {"data": {"hf": VALUE}}})
    variable = {"name": "TOKEN", "credential": {"name": "tokens", "key": "hf"}}
    spec = {"image": "ubuntu", "command": ["sleep", "100000"], "environmentVariables": [variable], "backoffLimit": 20}
    body = SubmitTraining.model_validate({"name": "s1", "projectId": "team-a", "spec": spec})
    workload = admin.submit(body).id

    def restarted() -> None:
        before = processes(workload)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        cluster.until(lambda: set(processes(workload)) - set(before), "another pod has the value")

    cluster.until(lambda: processes(workload), "its pod has the value")
    relay.cut()
    restarted()
    for folder in (control.data_directory.root, cluster.data_directory.root):
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert VALUE.encode() not in path.read_bytes(), path
    assert VALUE not in Path(f"/proc/{cluster.pid}/cmdline").read_text()
    relay.mend()
    restarted()
