"""Environments, compute resources and data sources as an administrator and a researcher type them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.end_to_end.runai_server import Server, serving

pytestmark = pytest.mark.slow

KINDS = ("workload-template", "environment", "compute", "datasource")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("assets")) as found:
        found.settle("team-a")
        yield found


@pytest.fixture
def server(shared: Server) -> Iterator[Server]:
    yield shared
    for kind in KINDS:
        for each in shared.admin.assets_of(kind):
            shared.admin.delete_asset(each.kind, each.id)
    for workload in shared.admin.all_workloads():
        shared.admin.delete_workload(workload.id)


def test_assets_are_listed_shown_changed_and_deleted(server: Server) -> None:
    server.typed("runai-adm environment create base -i python --description Plain -p team-a")
    assert re.search(
        r"^base +project team-a +image=python +Plain$", server.typed("runai list environments"), re.MULTILINE
    )
    server.typed("runai-adm environment update base -e A=1 --port 8888 -s ingress")
    shown = json.loads(server.typed("runai describe environment base -o json"))
    tool = {"toolType": "custom", "connectionType": "ExternalUrl", "containerPort": 8888}
    assert shown["spec"] == {
        "image": "python",
        "environmentVariables": [{"name": "A", "value": "1"}],
        "connections": [{"name": "port-8888", "internalToolInfo": tool}],
    }
    assert server.typed("runai-adm environment get base") == server.typed("runai describe environment base")
    server.typed("runai-adm compute create big -g 2")
    server.typed("runai-adm compute update big --gpu-memory 4G")
    assert json.loads(server.typed("runai describe compute-resource big -o json"))["spec"] == {"gpuMemoryRequest": "4G"}
    server.typed("runai-adm datasource create code --git-sync source=https://git.example.com/a.git,branch=main")
    assert re.search(r"^code +git +tenant +", server.typed("runai-adm data-sources list"), re.MULTILINE)
    assert server.typed("runai-adm datasource delete code") == "Data source code of tenant deleted successfully.\n"
    assert "There are no data sources" in server.type("runai list data-sources").err
    server.typed("runai-adm environment create base -i other")
    assert "say which with --project" in server.refused("runai-adm environment delete base")
    server.typed("runai-adm environment delete base -p team-a")


@pytest.mark.flag("--environment-asset", "--compute-resource")
def test_a_template_names_assets_and_a_newer_command_uses_both(server: Server) -> None:
    server.typed("runai-adm environment create base -i python")
    server.typed("runai-adm compute create half -g 0.5")
    server.typed("runai-adm template create nightly --environment-asset base")
    assert "  assets.environment: base\n" in server.typed("runai describe template nightly")
    server.typed("runai-adm template update nightly --description Changed")
    refused = server.refused("runai-adm environment delete base")
    assert refused == (
        "environment base is used by the template nightly: change or delete the template nightly first\n"
    )
    server.typed("runai training submit t1 --template nightly --compute-resource half -- python -V")
    found = server.admin.workload(server.id_of("team-a", "t1"))
    assert (found.images, found.spec["compute"]) == (["python"], {"gpu": "0.5"})


def test_a_job_keeps_its_values_when_its_assets_are_gone(server: Server) -> None:
    server.typed("runai-adm environment create base -i python -e A=1")
    server.typed("runai submit t1 --environment-asset base -- python -V")
    server.typed("runai-adm environment delete base")
    said = server.typed("runai describe job t1")
    assert "environment base (tenant)" in said
    assert server.admin.workload(server.id_of("team-a", "t1")).images == ["python"]


def test_what_is_wrong_with_assets_is_said(server: Server) -> None:
    server.typed("runai-adm environment create base -i python")
    server.typed("runai-adm datasource create gone --pvc nowhere:/data")
    for line, said in {
        "runai submit t1 --environment-asset bas": "there is no environment 'bas': did you mean base?",
        "runai submit t1 -i python --data-source gone": "(set by data source gone (tenant))",
        "runai submit t1 -i python --data-source gone:x": "is neither NAME nor NAME:PATH",
        "runai-adm environment create x": "the environment has no values",
        "runai-adm environment update base": "there is nothing to change",
        "runai-adm environment create 'a b' -i x": "is not a valid environment name",
        "runai-adm environment create base -i x": "the tenant already has an environment base",
        "runai-adm environment get bse": "Did you mean base?",
        "runai-adm datasource create x -v /a:/b --pvc c:/d": "2 mounts are given, and a data source is one",
        "runai-adm datasource update gone -v /a:/b": "is of the kind pvc, not hostPath",
        "runai-adm compute create x -g 1 --gpu-memory 4G": "unexpected to accept both gpu and gpu-memory",
        "runai-adm compute create x -g nothing": "nothing",
        "runai-adm compute create x -g 1 -p nowhere": "there is no project 'nowhere'",
    }.items():
        assert said in server.refused(line), line
