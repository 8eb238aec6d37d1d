"""The command that submits the same workload: typed again, it makes the same request."""

from __future__ import annotations

import shlex
from typing import Any

import click
import pytest

from fairpool.api import workload_spec as wire
from fairpool.api.submit_command import submit_command
from fairpool.cli.runai import job_file, submission
from fairpool.cli.runai.flags import GlobalOptions
from fairpool.cli.runai.submit import settle_command, submit

MODELS: dict[str, type[wire.SubmitAny]] = {
    "Workspace": wire.SubmitWorkspace,
    "Training": wire.SubmitTraining,
    "Inference": wire.SubmitInference,
    "Distributed": wire.SubmitDistributed,
}
SPECS: dict[str, tuple[str, dict[str, Any]]] = {
    "least": ("Training", {"image": "python"}),
    "arguments": ("Training", {"image": "python", "args": ["python", "-c", 'print("it\'s")', ""]}),
    "command": ("Workspace", {"image": "python", "command": ["sleep", "infinity"]}),
    "environment": (
        "Training",
        {
            "image": "python",
            "environmentVariables": [
                {"name": "EPOCHS", "value": "3 = three"},
                {"name": "TOKEN", "credential": {"name": "hf-token", "key": "token"}},
                {"name": "MODE", "configMap": {"name": "modes", "key": "fast"}},
            ],
        },
    ),
    "resources": (
        "Training",
        {
            "image": "python",
            "compute": {
                "gpu": "0.5",
                "cpuCoreRequest": 2.5,
                "cpuMemoryRequest": "4Gi",
                "cpuMemoryLimit": "8Gi",
                "largeShmRequest": True,
                "extendedResources": [{"resource": "rdma/ib", "quantity": 1}],
            },
        },
    ),
    "scheduling": (
        "Training",
        {
            "image": "python",
            "nodePools": ["a100", "default"],
            "nodeType": "dgx",
            "tolerations": [{"operator": "Exists", "key": "spot", "effect": "NoSchedule", "seconds": 60}],
            "topology": {"name": "racks", "required": "rack"},
            "labels": {"team": "vision", "odd": "a=b c"},
            "annotations": {"note": "hello world"},
            "priorityClass": "train",
            "backoffLimit": 0,
            "deadlineSeconds": 5400,
            "autoDeletionTimeAfterCompletionSeconds": 0,
            "terminationGracePeriodSeconds": 30,
            "after": ["prepare:any"],
        },
    ),
    "session": ("Workspace", {"image": "python", "stdin": True, "tty": True, "preemptibility": "preemptible"}),
    "storage": (
        "Training",
        {
            "image": "python",
            "storage": {
                "hostPath": [{"path": "/data", "mountPath": "/mnt", "readOnly": True}],
                "pvc": [{"claimName": "scratch", "path": "/scratch"}],
            },
        },
    ),
    "ports": (
        "Workspace",
        {
            "image": "notebook",
            "ports": [
                {"container": 8888, "serviceType": "Ingress"},
                {"container": 22, "external": 30022, "serviceType": "NodePort"},
            ],
        },
    ),
    "sweep": (
        "Training",
        {"image": "python", "parallelism": 2, "array": {"parameters": [{"name": "lr", "values": ["0.1", "0.01"]}]}},
    ),
    "model": (
        "Inference",
        {"image": "server", "autoscaling": {"minReplicas": 2, "maxReplicas": 2}, "servingPort": {"container": 8000}},
    ),
}
WITHOUT_FLAGS: dict[str, tuple[str, dict[str, Any]]] = {
    "distributed": ("Distributed", {"image": "python", "numWorkers": 2}),
    "autoscaling": ("Inference", {"image": "server", "autoscaling": {"minReplicas": 1, "maxReplicas": 4}}),
    "a value like a reference": (
        "Training",
        {"image": "python", "environmentVariables": [{"name": "A", "value": "SECRET:x"}]},
    ),
    "devices": ("Training", {"image": "python", "compute": {"gpuDevicesRequest": 2, "gpuPortionRequest": 0.5}}),
    "new claim": (
        "Training",
        {"image": "it's", "storage": {"pvc": [{"path": "/a", "existingPvc": False, "claimInfo": {"size": "1Gi"}}]}},
    ),
    "a comma": (
        "Training",
        {"image": "python", "array": {"parameters": [{"name": "size", "values": ["1,2", "3"]}]}},
    ),
    "a colon": ("Training", {"image": "python", "storage": {"hostPath": [{"path": "/a:b", "mountPath": "/c"}]}}),
    "an unclosed quote": ("Training", {"image": "python", "command": "echo 'a"}),
}


def request_of(kind: str, spec: dict[str, Any]) -> Any:
    """As the server takes it."""
    return MODELS[kind].model_validate({"name": "job-1", "projectId": "team-a", "spec": spec})


def typed(line: str) -> tuple[str, Any]:
    """The request that the command makes."""
    words = shlex.split(line)
    assert words[:5] == ["runai", "submit", "job-1", "-p", "team-a"]
    context = submit.make_context("submit", [words[2], *words[5:]], obj=GlobalOptions())
    asked = dict(context.params)
    settle_command(context, context.obj, asked)
    assert submission.problems(asked) == []
    asked["large_shm"] = asked.pop("large_shdm") or asked["large_shm"]
    kind = submission.kind_of(asked)
    return kind, MODELS[kind].model_validate(
        submission.document(asked, project="team-a", cluster=None, command_line="")
    )


@pytest.mark.parametrize(("kind", "spec"), SPECS.values(), ids=SPECS.keys())
def test_the_command_makes_the_same_request(kind: str, spec: dict[str, Any]) -> None:
    wanted = request_of(kind, spec)
    stored = wanted.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    line = submit_command(kind, "job-1", "team-a", stored)
    assert "\n" not in line
    made_kind, made = typed(line)
    assert (made_kind, made.name, made.project_id) == (kind, "job-1", "team-a")
    assert made.spec == wanted.spec


@pytest.mark.parametrize(("kind", "spec"), WITHOUT_FLAGS.values(), ids=WITHOUT_FLAGS.keys())
def test_what_has_no_flag_is_a_job_file_and_nothing_is_left_out(kind: str, spec: dict[str, Any]) -> None:
    wanted = request_of(kind, spec)
    line = submit_command(
        kind, "job-1", "team-a", wanted.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    )
    first, text, last = line.split("\n")
    assert (first, last) == ("runai submit -f - <<'JOB'", "JOB")
    (job,) = job_file.read(text, "-")
    assert isinstance(job, job_file.Job)
    assert (job.kind, MODELS[kind].model_validate(job_file.checked(job)).spec) == (kind, wanted.spec)


def test_every_flag_that_is_written_is_one_of_the_command() -> None:
    from fairpool.api import submit_command as module

    known = {name for each in submit.params if isinstance(each, click.Option) for name in each.opts}
    tables = (module.FLAGS, module.SWITCHES, module.SECONDS, module.LISTS, module.PAIRS, module.COMPUTE)
    assert {flag for table in tables for flag in table.values()} <= known
