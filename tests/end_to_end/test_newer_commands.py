"""The newer order of words: `runai training submit`, `workspace list`, `inference logs` and the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from fairpool.control.settings import FIRST_PASSWORD, FIRST_USER
from tests.end_to_end.runai_server import LOG, Server, serving

pytestmark = pytest.mark.slow

NUMBERS = count(1)
JOBS = {
    "note": "workspace",
    "train": "training",
    "gang": "pytorch",
    "model": "inference",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("newer")) as found:
        found.settle("team-a", quota="16")
        yield found


@pytest.fixture
def project(server: Server) -> str:
    """A project with a job of each kind, submitted by the newer commands."""
    name = f"newer-{next(NUMBERS)}"
    server.typed(f"runai-adm project create {name} --gpu-quota 8")
    server.typed(f"runai project set {name}")
    server.typed("runai workspace submit note -i img -g 0.5 --command -- sleep infinity")
    server.typed("runai training submit train -i img -g 1 -- python train.py")
    server.typed("runai training pytorch submit gang -i img -g 1 --workers 2 -- python train.py")
    server.typed("runai inference submit model -i img -g 1 --serving-port 8000 --min-replicas 2")
    return name


@pytest.mark.parametrize(
    ("line", "framework", "pods", "gpus"),
    [
        ("training mpi submit job -i img -g 1 --workers 3 --slots-per-worker 2 -- mpirun a", "MPI", 4, 3),
        ("mpi submit job -i img --gpu-devices-request 1 --workers 3 -- mpirun a", "MPI", 4, 3),
        ("mpi job -i img -g 1 --processes 2 -- mpirun a", "MPI", 3, 2),
        ("mj job -i img -g 1 --processes 2 -- mpirun a", "MPI", 3, 2),
        ("submit-mpi job -i img -g 1 -- mpirun a", "MPI", 2, 1),
        ("submit-dist mpi job -i img -g 1 --master-gpu 0.5 -- mpirun a", "MPI", 2, 1.5),
        ("training tensorflow submit job -i img -g 1 --workers 2 -- a", "TF", 3, 3),
        ("tensorflow submit job -i img -g 1 --workers 2 --no-master -- a", "TF", 2, 2),
        ("submit-dist tf job -i img -g 1 -- a", "TF", 2, 2),
        ("xgboost submit job -i img -g 1 --workers 2 -- a", "XGBoost", 3, 3),
        ("submit-dist xgboost job -i img -g 1 --clean-pod-policy All -- a", "XGBoost", 2, 2),
    ],
)
def test_every_framework_is_submitted_by_every_name_of_its_command(
    server: Server, line: str, framework: str, pods: int, gpus: float
) -> None:
    name = f"newer-{next(NUMBERS)}"
    server.typed(f"runai-adm project create {name} --gpu-quota 8")
    server.typed(
        f"runai {line} -p {name}" if " -- " not in line else f"runai {line.replace(' -- ', f' -p {name} -- ')}"
    )
    made = server.admin.workload(server.id_of(name, "job"))
    assert (made.distributed_framework, made.requested_pods.number) == (framework, pods)
    assert made.workload_requested_resources.gpu.request == gpus
    group = {"MPI": "mpi", "TF": "tensorflow", "XGBoost": "xgboost"}[framework]
    assert names(server.typed(f"runai {group} list -p {name} -o name")) == ["job"]


def names(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()]


def test_each_kind_is_submitted_as_that_kind(server: Server, project: str) -> None:
    kinds = {name: server.admin.find_workload(project, name) for name in JOBS}
    assert {name: each.type for name, each in kinds.items() if each} == {
        "note": "Workspace",
        "train": "Training",
        "gang": "Distributed",
        "model": "Inference",
    }
    model = server.admin.workload(server.id_of(project, "model"))
    assert model.spec["servingPort"]["container"] == 8000
    assert model.requested_pods.number == 2
    assert server.admin.workload(server.id_of(project, "gang")).requested_pods.number == 3


@pytest.mark.parametrize(
    ("line", "listed"),
    [
        ("runai workspace list", ["note"]),
        ("runai training list", ["gang", "train"]),
        ("runai training standard list", ["train"]),
        ("runai training pytorch list", ["gang"]),
        ("runai pytorch list", ["gang"]),
        ("runai tensorflow list", []),
        ("runai inference list", ["model"]),
        ("runai workload list", ["gang", "model", "note", "train"]),
        ("runai workload list --type distributed", ["gang"]),
        ("runai workload list --framework pytorch", ["gang"]),
        ("runai workload list --limit 2 --offset 1", ["model", "note"]),
        ("runai list jobs --type workspace", ["note"]),
    ],
)
def test_a_list_holds_the_jobs_of_its_kind(server: Server, project: str, line: str, listed: list[str]) -> None:
    assert names(server.typed(f"{line} -o name")) == listed
    assert names(server.typed(f"{line} --no-headers").strip("\n")) == listed


def test_a_list_has_the_newer_forms(server: Server, project: str) -> None:
    assert [each["name"] for each in json.loads(server.typed("runai workspace list --json"))] == ["note"]
    assert server.typed("runai workspace list --yaml").startswith("- id:")
    table = server.typed("runai workspace list --table").splitlines()
    assert table[0] == f"Showing workspaces for project {project}"
    assert table[1].startswith("NAME ")
    everywhere = names(server.typed("runai training list --all -o name"))
    assert everywhere.count("train") == everywhere.count("gang") >= 1
    assert "note" not in everywhere


@pytest.mark.parametrize("verb", ["describe {}", "logs {}", "delete {}", "bash {}", "exec {} -- true", "suspend {}"])
def test_a_job_of_another_kind_is_refused_by_name_and_left_alone(server: Server, project: str, verb: str) -> None:
    server.runs(project, "note", gpus=0.5)
    said = server.refused(f"runai training {verb.format('note')}")
    assert said == ("note is not a training but a workspace: use `runai workspace` or `runai workload` instead\n")
    found = server.admin.find_workload(project, "note")
    assert found is not None
    assert found.phase == "Running"


def test_everything_of_one_kind_is_deleted_and_nothing_else(server: Server, project: str) -> None:
    assert server.typed("runai training delete --all").splitlines() == [
        "Job gang deleted successfully.",
        "Job train deleted successfully.",
    ]
    assert names(server.typed("runai workload list -o name --status Pending")) == ["model", "note"]
    assert "There are no trainings in project" in server.type("runai training delete --all").err
    assert "There are no MPI trainings in project" in server.type("runai mpi list").err


def test_verbs_act_as_those_of_older_commands_do(server: Server, project: str) -> None:
    server.runs(project, "train")
    assert server.typed("runai training logs train") == LOG.decode()
    assert server.type("runai training exec train -- false").code == 3
    assert server.typed("runai training describe train") == server.typed("runai describe job train")
    assert server.typed("runai training suspend train") == "Job train suspended successfully.\n"
    assert server.typed("runai training resume train") == "Job train resumed successfully.\n"
    assert server.typed("runai training delete train") == "Job train deleted successfully.\n"


def test_sections_of_a_description_are_chosen(server: Server, project: str) -> None:
    server.typed("runai training submit parts -i img -g 1 -e TOKEN=hidden --port 8888 -- python train.py --epochs 3")
    server.runs(project, "parts", pods=3)
    compute = server.typed("runai training describe parts --compute")
    assert "TOTAL REQUESTED GPUS: 1.00" in compute
    assert "Events:" not in compute
    container = server.typed("runai training describe parts --containers")
    assert "ARGUMENTS: python train.py --epochs 3" in container
    assert "ENVIRONMENT: TOKEN" in container
    assert "hidden" not in container
    assert "PORTS: 8888" in server.typed("runai training describe parts --networks")
    pods = server.typed("runai training describe parts --pods --pod-limit 2 -o table").splitlines()
    assert pods[0] == "Pods:"
    assert len(pods) == 5
    assert pods[-1] == "... and 1 more"


def test_newer_flags_reach_the_server(server: Server, project: str) -> None:
    line = (
        "runai training submit flags -i img --gpu-devices-request 2 --gpu-portion-request 0.5 --cpu-core-request 2 "
        "--cpu-memory-request 1G --host-path path=/mnt,mount=/data,readonly "
        "--port service-type=NodePort,container=8888 --runs 4 --parallelism 2"
    )
    server.typed(line)
    spec = server.admin.workload(server.id_of(project, "flags")).spec
    assert spec["compute"] == {
        "gpuDevicesRequest": 2,
        "gpuRequestType": "portion",
        "gpuPortionRequest": "0.5",
        "cpuCoreRequest": 2.0,
        "cpuMemoryRequest": "1G",
    }
    assert spec["storage"]["hostPath"] == [{"path": "/mnt", "mountPath": "/data", "readOnly": True}]
    assert spec["ports"] == [{"container": 8888, "serviceType": "NodePort"}]
    assert spec["completions"] == 4
    assert spec["parallelism"] == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("training submit x -i img --interactive", "there is no flag --interactive"),
        ("workspace submit x -i img --parallelism 2", "there is no flag --parallelism"),
        ("training submit x -i img --preemptible", "there is no flag --preemptible"),
        ("training submit x -i img --run-as-uid 7", "--run-as-uid is not supported yet"),
        ("training submit x -i img -g 0.5 --gpu-portion-request 0.5", "is not a whole number of GPUs"),
        ("training submit x -i img --gpu-portion-request much", "'much' is not a number of GPUs"),
        ("training submit x -i img -g 1 --gpu-portion-request 0.5 --gpu-portion-limit 1", "--gpu-portion-limit is not"),
        ("training submit x -i img --host-path path=/a", "is missing mount"),
        ("training submit x -i img --host-path path=/a,mount=/b,colour=red", "has no key 'colour'"),
        ("training submit x -i img --nfs path=/a,server=host,mountpath=/b", "is not supported"),
        ("training submit x -i img --port service-type=Magic,container=80", "unknown service type 'magic'"),
        ("training submit x -i img --port container=80,protocol=UDP", "protocol=UDP is not supported yet"),
        ("training submit x -i img --external-url container=80,authusers=ann", "with authusers is not supported yet"),
        ("inference submit x -i img --serving-port 80 --min-replicas 0", "--min-replicas 0 is not supported yet"),
        ("inference submit x -i img --serving-port 80 --max-replicas 8", "--max-replicas 8 is not supported yet"),
        ("inference submit x -i img --serving-port container=80,protocol=grpc", "protocol=grpc is not supported yet"),
        ("inference submit x -i img --serving-port 80 --metric latency", "--metric is not supported yet"),
        ("inference update train --replicas 3", "train is not an inference but a training"),
        ("inference update model --max-replicas 8", "there is no flag --max-replicas"),
        ("training mpi submit x -i img --min-replicas 1 -- mpirun a", "there is no flag --min-replicas"),
        ("training mpi submit x -i img --no-master -- mpirun a", "there is no flag --no-master"),
        ("xgboost submit x -i img --slots-per-worker 2", "there is no flag --slots-per-worker"),
        ("mpi submit x -i img --workers 0 -- mpirun a", "--workers"),
        ("mpi nonsense", "there is no command runai mpi nonsense"),
        ("upgrade --force", "part of the Python package fairpool"),
        ("update", "part of the Python package fairpool"),
        ("update train", "no flag says what to change: add one"),
        ("update train --replicas 2", "--replicas is for a model, and this is a Training"),
        ("update train --priority urgent", "urgent"),
        ("update absent -l a=b", "The job absent does not exist"),
        ("report metrics", "`runai report` is another command here"),
        ("training list --limit 0", "--limit"),
        ("training describe train --pod-limit 0", "--pod-limit"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(server: Server, project: str, line: str, said: str) -> None:
    assert said in server.refused(f"runai {line}")
    assert server.admin.find_workload(project, "x") is None


def test_jobs_are_changed_by_the_flags_of_submit(server: Server, project: str) -> None:
    server.typed("runai update train -e A=1 -l team=vision --time-limit 2h --cpu 2")
    server.typed("runai update train -e B=2 -l stage=test --clear time-limit")
    spec = server.admin.workload(server.id_of(project, "train")).spec
    assert spec["environmentVariables"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    labels = [{"name": "team", "value": "vision"}, {"name": "stage", "value": "test"}]
    assert (spec["labels"], spec["deadlineSeconds"]) == (labels, None)
    assert spec["compute"] == {"gpu": "1", "cpuCoreRequest": 2.0}, "the rest of its resources stays"
    server.typed("runai training update train --gpu-devices-request 2 --remove-label team --remove-environment A")
    spec = server.admin.workload(server.id_of(project, "train")).spec
    assert (spec["compute"]["gpu"], spec["labels"]) == ("2", labels[1:])
    assert spec["environmentVariables"] == [{"name": "B", "value": "2"}]
    server.typed("runai inference update model --replicas 3")
    assert server.admin.workload(server.id_of(project, "model")).requested_pods.number == 3
    server.typed("runai pytorch update gang --workers 4")
    assert server.admin.workload(server.id_of(project, "gang")).requested_pods.number == 5
    server.typed("runai update train -- python other.py")
    assert server.admin.workload(server.id_of(project, "train")).spec["args"] == ["python", "other.py"]
    same = server.type("runai update train -l stage=test")
    assert (same.code, same.err) == (0, "Job train is as the flags say; nothing was changed.\n")
    dry = server.type("runai update train -g 4 --dry-run")
    assert dry.code == 0
    assert "nothing was changed" in dry.err
    assert server.admin.workload(server.id_of(project, "train")).spec["compute"]["gpu"] == "2"


def test_a_file_of_another_kind_is_refused(server: Server, project: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: filed\nspec: {image: img}\n")
    server.typed(f"runai workspace submit -f {file}")
    found = server.admin.find_workload(project, "filed")
    assert found is not None
    assert found.type == "Workspace"
    file.write_text("kind: Workspace\nname: again\nspec: {image: img}\n")
    assert f"{file}, line 1: Workspace is not a training" in server.refused(f"runai training submit -f {file}")


def test_lists_of_nodes_pools_and_claims_in_the_newer_order(server: Server, project: str) -> None:
    server.node("dgx1-1")
    assert server.typed("runai node list") == server.typed("runai list nodes")
    assert server.typed("runai nodepool list") == server.typed("runai-adm node-pool list")
    server.typed("runai training submit claims -i img --new-pvc claimname=data,size=10Gi,path=/data")
    assert names(server.typed("runai pvc list -o name")) == ["data"]


def test_people_and_applications_sign_in_by_the_newer_words(server: Server) -> None:
    made = server.admin.create_application({"name": "sweeper", "roles": ["researcher"]})
    said = server.type(f"runai login application --name {made.client_id} --secret {made.secret}", person="program")
    assert said.code == 0, said
    assert "can see a password in a command line" in said.err
    assert "Roles: researcher" in server.typed("runai whoami", person="program")
    server.typed(f"runai login user -u {FIRST_USER}", stdin=f"{FIRST_PASSWORD}\n", person="kim")
    assert f"User: {FIRST_USER}" in server.typed("runai whoami", person="kim")
    said = server.type("runai login remote-browser", stdin="not-a-code\n", person="kim")
    assert "/sign-in/command?challenge=" in said.out + said.err, "a link to open on another machine"
    assert said.code == 1, said


def test_completion_suggests_jobs_of_the_kind(server: Server, project: str) -> None:
    words = "runai training describe "
    said = {"_RUNAI_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "3"}
    answer = server.type("runai", **said)
    assert [line.partition(",")[2] for line in answer.out.splitlines()] == ["gang", "train"]
