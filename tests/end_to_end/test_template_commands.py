"""Templates as an administrator and a researcher type them, and what a submit becomes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.runai_server import Server, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("templates")) as found:
        found.settle("team-a")
        yield found


@pytest.fixture
def server(shared: Server) -> Iterator[Server]:
    yield shared
    for each in shared.admin.templates():
        shared.admin.delete_template(each.id)
    for workload in shared.admin.all_workloads():
        shared.admin.delete_workload(workload.id)


def describe(server: Server, job: str) -> str:
    return server.typed(f"runai describe job {job}")


@pytest.mark.flag("--template")
def test_the_documented_line_takes_its_values_from_the_named_template(server: Server) -> None:
    """F-144, F-223."""
    server.typed("runai-adm template create batch_ops -i python -g 0.5 -e EPOCHS=3 --description 'Nightly batches'")
    assert re.search(r"^batch_ops +tenant +Nightly batches$", server.typed("runai list templates"), re.MULTILINE)
    server.typed("runai submit t1 --template batch_ops -e SEED=1 -- python train.py")
    found = server.admin.workload(server.id_of("team-a", "t1"))
    assert found.spec["compute"] == {"gpu": "0.5"}
    assert sorted(each["name"] for each in found.spec["environmentVariables"]) == ["EPOCHS", "SEED"]
    assert re.search(r"^compute.gpu +template batch_ops \(tenant\)$", describe(server, "t1"), re.MULTILINE)
    server.typed("runai submit t2 --template batch_ops -g 2")
    assert server.admin.workload(server.id_of("team-a", "t2")).spec["compute"] == {"gpu": "2"}
    assert "did you mean batch_ops?" in server.refused("runai submit t3 --template batch_op")
    tried = server.type("runai submit t3 --template batch_ops --dry-run")
    assert "image (python) is from template batch_ops (tenant)" in tried.err


def test_the_administrative_template_is_applied_without_being_named(server: Server) -> None:
    """F-224."""
    server.typed("runai-adm template create defaults --administrative -i python -g 1 --lock gpu -p team-a")
    server.typed("runai submit t1")
    assert server.admin.workload(server.id_of("team-a", "t1")).images == ["python"]
    assert "defaults (Admin)" in server.typed("runai list templates")
    said = server.refused("runai submit t2 -g 2")
    assert said.startswith("--gpu is locked by administrative template defaults (project)")
    assert "already has an administrative template: defaults" in server.refused(
        "runai-adm template create more --administrative -p team-a -i x"
    )
    server.typed("runai-adm template update defaults --lock none")
    server.typed("runai submit t2 -g 2")


def test_a_required_flag_that_is_left_out_is_named(server: Server) -> None:
    server.typed("runai-adm template create batch_ops -i python --require gpu,environment")
    said = server.refused("runai submit t1 --template batch_ops")
    assert [line.partition(":")[0] for line in said.splitlines()] == [
        "the flag --gpu is mandatory",
        "the flag --environment is mandatory",
    ]
    server.typed("runai submit t1 --template batch_ops -g 1 -e A=B")


def test_without_an_image_from_anywhere_the_submit_says_so(server: Server) -> None:
    assert server.refused("runai submit t1 -g 1") == "-i, --image must be set\n"


def test_a_template_is_made_from_a_job_file(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(server.typed("runai submit x -i python -g 0.5 --interactive --dry-run -- python -V"))
    server.typed(f"runai-adm template create notebook -f {file}")
    found = json.loads(server.typed("runai describe template notebook -o json"))
    assert found["spec"] == {"image": "python", "args": ["python", "-V"], "compute": {"gpu": "0.5"}}
    assert found["meta"]["workloadSupportedTypes"]["workspace"] is True
    assert found["meta"]["workloadSupportedTypes"]["training"] is False
    assert "is not for a training" in server.refused("runai submit t1 --template notebook")
    server.typed("runai submit t1 --interactive --template notebook")


def test_a_template_is_shown_changed_and_deleted(server: Server) -> None:
    server.typed("runai-adm template create batch_ops -i python -g 1")
    server.typed("runai-adm template update batch_ops -g 2 --description Bigger")
    said = server.typed("runai describe template batch_ops")
    assert "DESCRIPTION: Bigger\n" in said
    assert "  compute.gpu: 2\n" in said
    assert "  image: python\n" in said
    assert server.typed("runai template get batch_ops") == said
    assert server.typed("runai template list") == server.typed("runai-adm template list")
    server.typed("runai-adm template create batch_ops -i other -p team-a")
    assert "say which with --project" in server.refused("runai-adm template delete batch_ops")
    server.typed("runai-adm template delete batch_ops -p team-a")
    assert server.typed("runai-adm template delete batch_ops") == "Template batch_ops of tenant deleted successfully.\n"
    assert "There are no templates" in server.type("runai list templates").err


def test_what_cannot_be_in_a_template_is_refused(server: Server) -> None:
    assert "is not a valid template name" in server.refused("runai-adm template create 'a b' -i x")
    assert "the template needs a name" in server.refused("runai-adm template create -i x")
    nfs = "runai-adm template create x -i y -v /data:/data --nfs-server files"
    assert "--nfs-server is not supported" in server.refused(nfs)
    assert "only an administrative template can lock" in server.refused("runai-adm template create x -i y --lock image")
    assert "there is no project nowhere" in server.refused("runai-adm template create x -i y -p nowhere").replace(
        "'", ""
    )
    assert "the scope is given twice" in server.refused("runai-adm template create x -p a --department b")
    assert "no workload has a field colour" in server.refused("runai-adm template create x -i y --require colour")


def test_a_template_without_values_and_a_change_of_nothing_are_refused(server: Server) -> None:
    assert "the template has no values" in server.refused("runai-adm template create empty")
    server.typed("runai-adm template create needs --require image")
    assert "there is nothing to change" in server.refused("runai-adm template update needs")
    assert server.typed("runai-adm templates list") == server.typed("runai-adm template list")


def test_a_job_file_names_the_template_and_its_kind_and_errors_have_its_lines(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("kind: Training\nname: from-file\nspec:\n  image: python\n")
    server.typed(f"runai-adm template create -f {file}")
    types = json.loads(server.typed("runai describe template from-file -o json"))["meta"]["workloadSupportedTypes"]
    assert [name for name, is_supported in types.items() if is_supported] == ["training"]
    for text, said in {
        "spec:\n  image: python\n  imagee: x\n": "job.yaml, line 3: unknown key spec.imagee: did you mean image?",
        "spec:\n  image: python\n  security:\n    runAsNonRoot: true\n": "job.yaml, line 4: security.runAsNonRoot is",
        "workdir: .\nspec:\n  image: python\n": "job.yaml, line 1: workdir cannot be in a template",
        "suspended: true\nspec:\n  image: python\n": "job.yaml, line 1: suspended cannot be in a template",
    }.items():
        file.write_text(text)
        assert said in server.refused(f"runai-adm template create other -f {file}"), text


def test_a_locked_flag_is_named_as_it_was_typed(server: Server) -> None:
    server.typed("runai-adm template create rules --administrative -i python -g 1 --large-shm --lock gpu,large-shm")
    said = server.refused("runai submit t1 --gpu-memory 4G")
    assert said.startswith("--gpu-memory is locked by administrative template rules (tenant): remove it")
