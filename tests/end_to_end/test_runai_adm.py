"""`runai-adm` as an administrator types it, against a control plane behind a real socket."""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fairpool import __version__
from fairpool.api.client import Refused
from fairpool.api.cluster_client import ClusterClient
from fairpool.api.clusters import ControlPlaneUnreachable, DecisionReport, EventReport, QueueStateReport, UsageReport
from fairpool.cli.adm.usage_report import month_span
from fairpool.model.decision_record import DecisionKind
from fairpool.model.ids import Instant, NodeName, PodId, PoolName, QueueId, WorkloadId
from tests.end_to_end.runai_server import Server, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("runai-adm")) as found:
        found.log_in()
        found.node("dgx1-1")
        found.node("dgx1-2")
        yield found


def test_decisions_are_listed_with_their_reason(server: Server) -> None:
    server.settle("deciding")
    server.typed("runai submit d1 -i img -g 2 -p deciding")
    state = QueueStateReport(queue="deciding", quota_milli=4000, fair_share_milli=4000, held_milli=2000)
    server.events.append(
        EventReport(
            number=len(server.events) + 1,
            at=Instant(time.time_ns() // 1_000_000),
            kind="bound",
            workload=WorkloadId(server.id_of("deciding", "d1")),
            decision=DecisionReport(
                kind=DecisionKind.STARTED, pods=1, gpus_milli=2000, nodes=(NodeName("dgx1-1"),), project=state
            ),
        )
    )
    server.push()
    listed = server.typed("runai-adm decisions --project deciding --since 1h")
    assert "starts on dgx1-1 with 2 GPUs: deciding holds 2 (quota 4)" in " ".join(listed.split())
    (found,) = json.loads(server.typed("runai-adm decisions --kind started -o json"))
    assert (found["workloadName"], found["kind"], found["gpus"]) == ("d1", "started", 2.0)
    assert "starts on dgx1-1" in server.typed("runai-adm decisions --watch --rounds 1")
    assert json.loads(server.typed("runai-adm decisions --kind moved -o json")) == []
    assert "valid duration" in server.refused("runai-adm decisions --since yesterday")
    assert "the cluster is away" in server.refused("runai-adm shares")


def test_the_life_of_a_project(server: Server) -> None:
    """F-13, F-14, F-15, F-16, F-17."""
    made = server.typed(
        "runai-adm project create team-a --gpu-quota 4 --over-quota off --interactive-time-limit 8h "
        "--node-types-train dgx-2 --cpu-quota 16 --memory-quota 4096 --description 'the first'"
    )
    assert made == "Project team-a created successfully.\n"
    assert re.search(r"^team-a +default +Ready +4 +0.00 +0$", server.typed("runai-adm project list"), re.MULTILINE)
    found = json.loads(server.typed("runai-adm project get team-a -o json"))
    assert found["resources"][0]["gpu"] == {"deserved": 4, "overQuota": "off"}
    assert found["resources"][0]["cpu"]["deserved"] == 16000
    assert found["schedulingRules"] == {"interactiveJobTimeLimitSeconds": 28800}
    assert found["nodeTypes"]["training"] == ["dgx-2"]
    answer = server.type("runai-adm project update team-a --train-time-limit 2h --train-idle-limit 30m")
    assert (answer.code, "idle" in answer.err) == (0, False), "it is enforced"
    server.typed("runai-adm project update team-a --interactive-time-limit 0")
    found = json.loads(server.typed("runai-adm project get team-a -o json"))
    limits = {"trainingJobTimeLimitSeconds": 7200, "trainingJobMaxIdleDurationSeconds": 1800}
    assert found["schedulingRules"] == limits
    server.typed("runai-adm project update team-a -g 6 --node-types-interactive dgx-1")
    found = json.loads(server.typed("runai-adm project get team-a -o json"))
    assert found["resources"][0]["gpu"] == {"deserved": 6, "overQuota": "off"}
    assert found["resources"][0]["memory"]["deserved"] == 4096
    assert found["nodeTypes"] == {"training": ["dgx-2"], "workspace": ["dgx-1"]}
    assert found["description"] == "the first"
    assert "already" in server.refused("runai-adm project create team-a")
    assert server.typed("runai-adm project delete team-a") == "Project team-a deleted successfully.\n"
    assert server.refused("runai-adm project get team-a").startswith("there is no project team-a")


def test_a_new_project_is_given_to_groups(server: Server) -> None:
    said = server.typed("runai-adm project create grouped --group research --group 'ml team'")
    assert said.splitlines()[1:] == [
        "Role researcher granted to group research.",
        "Role researcher granted to group ml team.",
    ]
    rules = server.admin.access_rules()
    found = {(each.subject_id, each.role) for each in rules if each.scope_name == "grouped"}
    assert found == {("research", "researcher"), ("ml team", "researcher")}
    server.typed("runai-adm project delete grouped")


def test_a_project_with_jobs_is_deleted_only_with_a_decision(server: Server) -> None:
    for name in ("old", "young"):
        server.typed(f"runai-adm project create {name}")
    server.typed("runai submit j -i x -p old")
    said = server.refused("runai-adm project delete old")
    assert said == ("project old still has 1 workload: j: add --delete-jobs or --move-jobs-to PROJECT\n")
    server.typed("runai-adm project delete old --move-jobs-to young")
    assert server.typed("runai list -p young -o name") == "j\n"
    assert "Did you mean young?" in server.refused("runai-adm project delete yuong --delete-jobs")


def test_quotas_are_amounts(server: Server) -> None:
    server.typed("runai-adm project create many -g unlimited --gpu-limit 12")
    assert "NODE POOL DEFAULT: unlimited GPUs, at most 12" in server.typed("runai-adm project get many")
    assert "--gpu-quota 'lots' is not a valid quantity" in server.refused("runai-adm project update many -g lots")
    assert "nothing to change" in server.refused("runai-adm project update many")
    assert "is below the quota" in server.refused("runai-adm project create few -g 4 --gpu-limit 2")
    assert "name:" in server.refused("runai-adm project create Bad_Name")


def test_the_life_of_a_department(server: Server) -> None:
    """F-23, F-24, F-25."""
    server.typed("runai-adm department create research --gpu-quota 8")
    server.typed("runai-adm project create lab --department research")
    assert re.search(r"^research +8 +0.00 +lab$", server.typed("runai-adm department list"), re.MULTILINE)
    server.typed("runai-adm department update research -g 12")
    assert "GPU QUOTA: 12" in server.typed("runai-adm department get research")
    assert "still has projects: lab" in server.refused("runai-adm department delete research")
    server.typed("runai-adm project update lab --department default")
    server.typed("runai-adm department delete research")
    assert "Did you mean default?" in server.refused("runai-adm department get defualt")


def test_a_department_without_a_quota_shows_what_it_follows(server: Server) -> None:
    server.typed("runai-adm department create lab-d")
    server.typed("runai-adm project create lab-a --department lab-d -g 5")
    server.typed("runai-adm project create lab-b --department lab-d -g 3")
    assert re.search(
        r"^lab-d +not set \(follows its projects: 8\) +0.00 +lab-a, lab-b$",
        server.typed("runai-adm department list"),
        re.MULTILINE,
    )
    server.typed("runai-adm department update lab-d -g unlimited")
    assert "GPU QUOTA: unlimited" in server.typed("runai-adm department get lab-d")
    server.typed("runai-adm department update lab-d -g unset")
    assert "GPU QUOTA: not set (follows its projects: 8)" in server.typed("runai-adm department get lab-d")
    for line in ("project delete lab-a", "project delete lab-b", "department delete lab-d"):
        server.typed(f"runai-adm {line}")


def test_quotas_that_add_up_to_more_than_there_is_are_told(server: Server) -> None:
    """16 GPUs on two machines."""
    server.typed("runai-adm department create tight -g 6")
    server.typed("runai-adm project create tight-a --department tight -g 4")
    too_much = (
        "the quotas of the projects in department tight add up to 8 GPUs in node pool default, more than its quota"
    )
    for line in (
        "runai-adm project create tight-b --department tight -g 4",
        "runai-adm project update tight-b --description more",
        "runai-adm department update tight -g 6",
        "runai-adm department list",
        "runai-adm project list",
    ):
        answer = server.type(line)
        assert answer.code == 0
        assert f"Warning: {too_much} of 6\n" in answer.err, line
    answer = server.type("runai-adm project update tight-b -g 400")
    assert "GPUs in node pool default, which has 16" in answer.err
    for line in ("project delete tight-a", "project delete tight-b", "department delete tight"):
        server.typed(f"runai-adm {line}")


def test_with_several_clusters_a_project_names_its_own(server: Server) -> None:
    from fairpool.api.nodes import ClusterRequest

    server.admin.create_cluster(ClusterRequest(name="east"))
    try:
        said = server.refused("runai-adm project create astray")
        assert "a cluster must be named; there are 2: east, local" in said
        assert "--cluster" in said
        assert "use one of east, local" in server.refused("runai-adm project create astray --cluster west")
        server.typed("runai-adm project create settled --cluster local")
        server.typed("runai config cluster local")
        server.typed("runai-adm project create settled-2")
        clusters = {each.uuid: each.name for each in server.admin.clusters()}
        settled = json.loads(server.typed("runai-adm project get settled-2 -o json"))
        assert clusters[settled["clusterId"]] == "local"
    finally:
        east = next(each.uuid for each in server.admin.clusters() if each.name == "east")
        server.admin.delete_cluster(east)
        for name in ("settled", "settled-2"):
            server.typed(f"runai-adm project delete {name}")


def test_the_life_of_a_node_pool(server: Server) -> None:
    server.typed("runai-adm node-pool create a100 --label run.ai/type=a100 --gpu-placement spread")
    assert re.search(
        r"^a100 +Empty +run.ai/type=a100 +spread +binpack", server.typed("runai-adm node-pool list"), re.MULTILINE
    )
    server.typed("runai-adm node-pool update a100 --cpu-placement spread --label run.ai/type=a101")
    found = yaml.safe_load(server.typed("runai-adm node-pool get a100 -o yaml"))
    assert (found["labelValue"], found["placementStrategy"]) == ("a101", {"gpu": "spread", "cpu": "spread"})
    server.typed("runai-adm project create pooled --node-pool a100 -g 2")
    assert "is used by project pooled" in server.refused("runai-adm node-pool delete a100")
    server.typed("runai-adm project delete pooled")
    server.typed("runai-adm node-pool delete a100")
    assert "is not KEY=VALUE" in server.refused("runai-adm node-pool create b --label x")


def overrides(server: Server, node: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(server.typed(f"runai-adm node get {node} -o json"))["overrides"]
    return found


def test_a_node_is_drained_cordoned_and_used_again(server: Server) -> None:
    server.typed("runai-adm node update dgx1-1 --label run.ai/type=dgx-1 --taint mine=yes:NoSchedule")
    assert server.typed("runai-adm node drain dgx1-1") == "Node dgx1-1 is being drained.\n"
    server.typed("runai-adm node cordon dgx1-1")
    assert overrides(server, "dgx1-1") == {
        "cordoned": True,
        "labels": {"run.ai/type": "dgx-1"},
        "taints": [
            {"key": "mine", "value": "yes", "effect": "NoSchedule"},
            {"key": "runai", "value": "drain", "effect": "NoExecute"},
        ],
    }
    assert "Ready,SchedulingDisabled,Drained" in server.typed("runai list nodes")
    server.typed("runai-adm node uncordon dgx1-1")
    assert re.search(r"^dgx1-1 +Ready,Drained ", server.typed("runai list nodes"), re.MULTILINE)
    assert "Ready,Drained" in server.typed("runai describe node dgx1-1")
    for line in ("undrain dgx1-1", "uncordon dgx1-1", "update dgx1-1 --taint mine- --label run.ai/type-"):
        server.typed(f"runai-adm node {line}")
    assert overrides(server, "dgx1-1") == {"cordoned": False, "labels": {}, "taints": []}
    assert "Available node names:" in server.refused("runai-adm node drain dgx1-9")
    assert "their cluster adds and removes them" in server.refused("runai-adm node delete dgx1-1")


def test_roles_are_set_and_removed_as_documents_print_it(server: Server) -> None:
    """F-97, F-98, F-99, F-102, F-103, F-104."""
    server.typed("runai-adm set node-role --runai-system-worker dgx1-1")
    assert re.search("^dgx1-1 .* runai-system ", server.typed("runai list nodes"), re.MULTILINE)
    said = server.type("runai-adm set node-role --all dgx1-2")
    assert said.out == "Node dgx1-2: role runai-gpu-worker set.\n"
    assert (
        "no node is a CPU worker, so jobs without GPUs cannot start: runai-adm set node-role --cpu-worker" in said.err
    )
    assert server.type("runai-adm set node-role --cpu-worker dgx1-1").err == ""
    server.typed("runai-adm remove node-role --cpu-worker dgx1-1")
    server.typed("runai-adm remove node-role --gpu-worker dgx1-2")
    server.typed("runai-adm remove node-role --runai-system-worker dgx1-1")
    assert server.typed("runai list nodes").count("<none>") == 2
    assert "the role or the node is missing" in server.refused("runai-adm set node-role dgx1-1")


def test_the_life_of_a_user(server: Server) -> None:
    """F-18, F-205, F-210."""
    for name in ("here", "there"):
        server.typed(f"runai-adm project create {name}")
    said = server.typed("runai-adm user create ann@example.com --project here")
    assert re.search(r"^Temporary password, shown only once: \S{8,}$", said, re.MULTILINE)
    assert "ann@example.com" in server.typed("runai-adm user list -o name").splitlines()
    server.typed("runai-adm user update ann@example.com --add-project there --remove-project here")
    shown = server.typed("runai-adm user get ann@example.com")
    assert "in project there" in shown
    assert "in project here" not in shown
    assert re.search(r"once: \S{8,}", server.typed("runai-adm user reset-password ann@example.com"))
    server.typed("runai-adm user delete ann@example.com")
    assert "there is no user ann@example.com" in server.refused("runai-adm user reset-password ann@example.com")
    assert "is not a valid email address" in server.refused("runai-adm user create not-an-address")


def test_what_is_not_there_yet_says_so_and_version_does_not_ask(server: Server) -> None:
    line = "runai-adm generate-values --external-ips 10.0.0.1 --domain example.com --airgapped"
    assert "`runai-adm generate-values` is not needed: the charts have values" in server.refused(line)
    assert "part of the Python package fairpool" in server.refused("runai-adm update")
    assert "is not supported yet" in server.refused("runai-adm set node-role --dynamic-mig-enabled dgx1-1")
    assert server.typed("runai-adm version --short", person="offline") == f"{__version__}\n"
    assert "did you mean project?" in server.refused("runai-adm projct list")
    for slip in ("--gpus 4", "--deserved-gpus=4"):
        said = server.refused(f"runai-adm project create slip {slip}")
        assert said.endswith("did you mean -g, --gpu-quota?\n"), said
    assert "_RUNAI_ADM_COMPLETE" in server.typed("runai-adm completion bash")


def test_the_life_of_a_cluster(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "east.token"
    said = server.typed(f"runai-adm cluster create east --token-file {file}")
    assert said == f"Cluster east created successfully.\nToken written to {file}.\n"
    assert file.stat().st_mode & 0o777 == 0o600
    first = file.read_text().strip()
    assert ClusterClient(server.address, first).join("one").name == "east"
    assert re.search(r"^east +WaitingToConnect +never$", server.typed("runai-adm cluster list"), re.MULTILINE)
    assert json.loads(server.typed("runai-adm cluster get east -o json"))["name"] == "east"
    assert "already exists" in server.refused("runai-adm cluster create east")
    second = server.typed("runai-adm cluster token east").strip()
    with pytest.raises(ControlPlaneUnreachable, match="401"):
        ClusterClient(server.address, first).join("one")
    assert ClusterClient(server.address, second).join("two").name == "east"
    server.typed("runai-adm project create in-the-east --cluster east")
    assert "still has projects: in-the-east" in server.refused("runai-adm cluster delete east")
    server.typed("runai-adm project delete in-the-east")
    assert server.typed("runai-adm cluster delete east") == "Cluster east deleted successfully.\n"
    assert server.refused("runai-adm cluster token east").startswith("there is no cluster east")


def test_the_file_that_connects_a_kubernetes_cluster(server: Server, tmp_path: Path) -> None:
    """F-228."""
    file = tmp_path / "runai-operator-cloud.yaml"
    flags = "--control-url https://fairpool.example.com --registry registry.example.com:5000"
    said = server.typed(f"runai-adm cluster create cloud --operator-file {file} {flags}")
    assert said == f"Cluster cloud created successfully.\nConnect it with: kubectl apply -f {file}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    documents = list(yaml.safe_load_all(file.read_text()))
    (secret,) = [each for each in documents if each["kind"] == "Secret"]
    assert ClusterClient(server.address, secret["stringData"]["token"]).join("one").name == "cloud"
    assert "image: registry.example.com:5000/fairpool/fairpool:" in file.read_text()
    server.typed(f"runai-adm cluster token cloud --operator-file {file} {flags}")
    assert secret["stringData"]["token"] not in file.read_text()
    assert "have no effect without --operator-file" in server.refused("runai-adm cluster create x --registry a:1")
    server.typed("runai-adm cluster delete cloud")


def test_a_token_that_cannot_be_written_is_not_made(server: Server, tmp_path: Path) -> None:
    refused = server.refused(f"runai-adm cluster create lost --token-file {tmp_path}/none/x")
    assert "cannot be written" in refused
    assert "lost" not in server.typed("runai-adm cluster list")


def test_a_cluster_is_renamed_and_keeps_the_rest(server: Server) -> None:
    server.typed("runai-adm cluster create north")
    before = json.loads(server.typed("runai-adm cluster get north -o json"))
    assert server.typed("runai-adm cluster update north --domain north.example.com") == (
        "Cluster north updated successfully.\n"
    )
    server.typed("runai-adm cluster update north --name far-north")
    after = json.loads(server.typed("runai-adm clusters get far-north -o json"))
    assert (after["uuid"], after["domain"]) == (before["uuid"], "north.example.com")
    assert "nothing to change" in server.refused("runai-adm cluster update far-north")
    assert "already exists" in server.refused("runai-adm cluster update far-north --name local")
    assert "is not a valid name" in server.refused("runai-adm cluster update far-north --name ../up")
    server.typed("runai-adm cluster delete far-north")


def test_the_life_of_an_application(server: Server, tmp_path: Path) -> None:
    server.typed("runai-adm project create app-project --gpu-quota 1")
    secret = server.typed("runai-adm application create sweep --project app-project").strip()
    assert secret.startswith("fps_")
    row = json.loads(server.typed("runai-adm applications get sweep -o json"))
    assert [(rule["role"], rule["scopeId"]) for rule in row["accessRules"]] == [("researcher", "app-project")]
    assert "ROLE: researcher in project app-project" in server.typed("runai-adm application get sweep")
    login = f"runai login application --name {row['clientId']} --password-stdin"
    server.typed(login, stdin=secret, person="program")
    assert "app-project" in server.typed("runai list projects -o name", person="program")
    server.typed("runai-adm application update sweep --remove-project app-project")
    assert "Access denied" in server.refused("runai list projects -o name", person="program")
    assert "has no role in project app-project" in server.refused(
        "runai-adm application update sweep --remove-project app-project"
    )

    file = tmp_path / "sweep.secret"
    said = server.typed(f"runai-adm application secret sweep --secret-file {file}")
    assert said == f"Secret written to {file}.\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert server.type(login, stdin=secret, person="program").code == 1
    server.typed(login, stdin=file.read_text(), person="program")
    assert secret not in server.typed("runai-adm application list -o json")
    assert "already exists" in server.refused("runai-adm application create sweep")
    assert "there is no application swep" in server.refused("runai-adm application get swep")
    server.typed("runai-adm app delete sweep")
    assert server.typed("runai-adm application list -o name") == ""
    assert server.type("runai whoami", person="program").code == 1


def test_a_secret_that_cannot_be_written_is_not_made(server: Server, tmp_path: Path) -> None:
    said = server.refused(f"runai-adm application create lost --secret-file {tmp_path}/no/file")
    assert "choose another file with --secret-file" in said
    kept = tmp_path / "of-another"
    kept.write_text("its secret")
    assert "of-another exists already" in server.refused(f"runai-adm application create lost --secret-file {kept}")
    assert kept.read_text() == "its secret"
    assert "project nowhere was not found" in server.refused("runai-adm application create lost --project nowhere")
    assert "lost" not in server.typed("runai-adm application list -o name")


def test_settings_are_shown_changed_and_restored(server: Server) -> None:
    table = server.typed("runai-adm setting list").splitlines()
    assert table[0].split() == ["SETTING", "VALUE", "DEFAULT", "LABEL"]
    assert "security.passwordMinLength" in server.typed("runai-adm settings list -o name")
    changed = server.typed("runai-adm setting update security.passwordMinLength 12")
    assert changed == "Setting security.passwordMinLength is now 12.\n"
    assert json.loads(server.typed("runai-adm setting get security.passwordMinLength -o json"))["value"] == 12
    assert server.admin.create_user({"email": "long@example.com", "password": "two horses.."}).username
    with pytest.raises(Refused, match="use at least 12"):
        server.admin.create_user({"email": "short@example.com", "password": "two horses."})
    server.typed("runai-adm setting update security.passwordMinLength --default")
    assert "VALUE: 8" in server.typed("runai-adm setting get security.passwordMinLength")
    server.typed("runai-adm setting update department.use FALSE")
    assert "VALUE: false" in server.typed("runai-adm setting get department.use")
    server.typed("runai-adm setting update department.use true")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("setting update security.passwordMinLength 7", "use a number from 8 to 128"),
        ("setting update security.passwordMinLength many", "use a number from 8 to 128"),
        ("setting update department.use 1", "use true or false"),
        ("setting update department.use", "give either a value or --default"),
        ("setting update department.use true --default", "give either a value or --default"),
        ("setting get departement.use", "Did you mean department.use?"),
        ("setting update '../x' 1", "there is no setting ../x"),
        ("setting create x 1", "settings cannot be created"),
        ("setting delete department.use", "settings cannot be deleted"),
        ("application update x", "nothing to change"),
        ("application create ''", "name"),
    ],
)
def test_what_makes_no_sense_for_settings_and_applications_is_refused(server: Server, line: str, said: str) -> None:
    assert said in server.refused(f"runai-adm {line}")


def test_a_researcher_may_not_change_settings(server: Server) -> None:
    secret = server.typed("runai-adm application create reader --role researcher").strip()
    row = json.loads(server.typed("runai-adm application get reader -o json"))
    server.typed(f"runai login application --name {row['clientId']}", stdin=secret, person="reader")
    for line in ("setting update department.use false", "application list", "cluster update local --domain x"):
        assert "Access denied" in server.refused(f"runai-adm {line}", person="reader"), line
    server.typed("runai-adm application delete reader")


def test_a_report_of_gpu_hours_and_costs(server: Server) -> None:
    """F-196."""
    server.settle("costs")
    server.typed("runai submit train1 -p costs -i python -g 2")
    workload, hour_ms = server.id_of("costs", "train1"), 3_600_000
    now = int(time.time() * 1000)
    usage = UsageReport(
        project=QueueId("costs"),
        pool=PoolName("default"),
        gpus_milli=2000,
        cpu_milli=4000,
        memory_bytes=8 << 30,
        gpu_type="A100",
        created_at=Instant(now - 3 * hour_ms),
        bound_at=Instant(now - 2 * hour_ms),
    )
    pod = PodId(f"{workload}-0-0")
    server.happened(workload, "ended", pod=pod, node=NodeName("dgx1-1"), cause="preempted", usage=usage)
    server.typed("runai-adm price set gpu 2.50 --gpu-type A100 --from 2020-01-01T00:00:00Z")
    assert "A100" in server.typed("runai-adm price list")
    table = server.typed("runai-adm report --from 1d --by project,gpu-type --filter project==costs")
    assert re.search(r"^costs +A100 +6.00 +4.00 +- +- +- +4.00 +8.00 +16.00 +10.00$", table, re.MULTILINE), table
    assert re.search(r"^TOTAL .* 10.00$", table, re.MULTILINE), table
    quota = server.typed("runai-adm report --from 1d --filter project==costs")
    over_quota = "4.00"  # the project has had its quota only since it was created
    assert re.search(rf"^costs +6.00 +4.00 +- +- +{over_quota} +4.00", quota, re.MULTILINE), quota
    (row,) = csv.DictReader(server.typed("runai-adm report --from 1d --by user,workload --csv").splitlines())
    assert (row["workload"], row["workloadId"]) == ("train1", workload)
    assert float(row["cost"]) == pytest.approx(10, abs=0.01)  # its end came some milliseconds after `now`
    found = json.loads(server.typed("runai-adm report --month this --interval month -o json"))
    assert {"start", "end", "at", "rows", "total"} <= found.keys()
    for wrong, said in (("--month 2026-13", "is not a month"), ("--month this --from 1d", "cannot be combined")):
        answer = server.type(f"runai-adm report {wrong}")
        assert (answer.code, said in answer.err) == (2, True), answer
    assert "cannot be grouped by 'colour'" in server.refused("runai-adm report --by colour")
    assert "was deleted" in server.typed("runai-adm price delete gpu --gpu-type A100")
    assert "has no price" in server.refused("runai-adm price delete gpu --gpu-type A100")


def test_the_months_of_a_report() -> None:
    assert month_span("2026-12", "2026-11") == ("2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z")
    assert month_span("last", "2027-01") == ("2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z")
    assert month_span("this", "2026-11") == ("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z")
