"""Policies as an administrator and a researcher type them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.runai_server import Server, serving

pytestmark = pytest.mark.slow

GPUS = """\
kind: training
name: gpus
defaults:
  image: python
  compute: {cpuCoreRequest: 2}
rules:
  image: {options: [python, registry.example.com/team/*]}
  compute:
    gpuDevicesRequest: {max: 4}
  deadlineSeconds: {max: 3600, required: true}
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("policies")) as found:
        found.settle("team-a")
        yield found


@pytest.fixture
def server(shared: Server) -> Iterator[Server]:
    yield shared
    for each in shared.admin.policies():
        named = {"projectId": each.meta.project_name} if each.meta.scope == "project" else {}
        shared.admin.delete_policy(each.type, {"scope": each.meta.scope, **named})
    for workload in shared.admin.all_workloads():
        shared.admin.delete_workload(workload.id)


def test_a_policy_is_applied_shown_enforced_exported_and_deleted(server: Server, tmp_path: Path) -> None:
    """F-274."""
    file = tmp_path / "gpus.yaml"
    file.write_text(GPUS)
    tried = server.typed(f"runai-adm policy apply -f {file} --dry-run")
    assert tried == "Policy gpus for training workloads would be applied; nothing was changed.\n"
    assert server.admin.policies() == []
    server.typed(f"runai-adm policy apply -f {file}")
    assert re.search(r"^gpus +training +tenant +OK$", server.typed("runai-adm policy list"), re.MULTILINE)
    shown = server.typed("runai policy show")
    assert re.search(r"^compute.gpuDevicesRequest +- +max 4 +policy gpus \(tenant\)$", shown, re.MULTILINE), shown
    assert re.search(r"^image +python +one of python, registry.example.com/team/\* +policy gpus", shown, re.MULTILINE)
    said = server.refused("runai submit t1 -g 5 --time-limit 1h")
    assert said.startswith("--gpu must be no greater than 4, and it is 5: policy gpus (tenant)"), said
    assert "must be set: policy gpus (tenant)" in server.refused("runai submit t1 -g 1")
    tried_job = server.type("runai submit t1 -g 1 --time-limit 1h --dry-run")
    assert "image (python) is from policy gpus (tenant)" in tried_job.err
    server.typed("runai submit t1 -g 1 --time-limit 1h")
    assert server.admin.workload(server.id_of("team-a", "t1")).spec["compute"]["cpuCoreRequest"] == 2
    exported = server.typed("runai-adm policy get --kind training -o yaml")
    file.write_text(exported)
    server.typed("runai-adm policy delete --kind training")
    assert server.admin.policies() == []
    server.typed(f"runai-adm policy apply -f {file}")
    assert server.typed("runai-adm policy get --kind training -o yaml") == exported


def test_a_job_file_is_bound_and_what_is_wrong_with_a_policy_has_a_line(server: Server, tmp_path: Path) -> None:
    file, job = tmp_path / "p.yaml", tmp_path / "job.yaml"
    file.write_text("rules:\n  image:\n    options: [python]\n  compute:\n    gpuDevicesRequest: {min: 4, max: 2}\n")
    said = server.refused(f"runai-adm policy apply -f {file} --kind training -p team-a")
    assert said.startswith(f"{file}, line 5: policy.rules.compute.gpuDevicesRequest: min (4) is greater than max (2)")
    file.write_text(file.read_text().replace("min: 4", "min: 1"))
    server.typed(f"runai-adm policy apply -f {file} --kind training -p team-a --name small")
    job.write_text("name: t1\nspec:\n  image: other\n  compute: {gpu: 1}\n")
    assert "must be one of python, and it is other: policy small (project team-a)" in server.refused(
        f"runai submit -f {job}"
    )
    file.write_text("rules: {imge: {required: true}}\nkinds: training\n")
    assert "kinds is not a key of a policy: did you mean kind?" in server.refused(f"runai-adm policy apply -f {file}")
