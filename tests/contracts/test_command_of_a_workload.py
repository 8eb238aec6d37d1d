"""Every workload shows a command that submits the same, however it was submitted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.control.control_plane import ControlPlane, control_plane, expect

PATH = "/api/v1/workloads/trainings"
SPEC = {"image": "quickstart", "compute": {"gpu": "0.5"}, "args": ["python", "train.py"]}


@pytest.fixture(scope="module")
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        yield control


def test_a_workload_of_the_api_has_a_command_also_in_a_dry_run(control: ControlPlane) -> None:
    body = {"name": "t1", "projectId": "team-a", "spec": SPEC}
    line = "runai submit t1 -p team-a -i quickstart -g 0.5 -- python train.py"
    tried = expect(control.call("POST", f"{PATH}?dryRun=true", body), 200)
    assert tried["commandLine"] == line
    made = expect(control.call("POST", PATH, body), 202)
    assert made["commandLine"] == line
    assert expect(control.call("GET", f"/api/v1/workloads/{made['id']}"), 200)["commandLine"] == line
    change = {"spec": {"deadlineSeconds": 60}}
    expect(control.call("PATCH", f"{PATH}/{made['id']}", change), 202)
    shown = expect(control.call("GET", f"/api/v1/workloads/{made['id']}"), 200)["commandLine"]
    assert shown == line.replace(" -- ", " --time-limit 60s -- "), "it is the command of the workload as it is now"


def test_the_command_that_was_typed_is_kept(control: ControlPlane) -> None:
    typed = "runai submit t2 -i quickstart --workdir ."
    body = {"name": "t2", "projectId": "team-a", "spec": SPEC, "commandLine": typed, "source": "CLI"}
    assert expect(control.call("POST", PATH, body), 202)["commandLine"] == typed
