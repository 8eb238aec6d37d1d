"""`runai` as a researcher types it, against a control plane behind a real socket."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
import yaml

from fairpool import __version__
from fairpool.agent.images import SHIPPED, read_images
from fairpool.api.client import Client, Refused
from fairpool.api.clusters import PodReport
from fairpool.api.workloads import Workload
from fairpool.cli.failure import failure
from fairpool.cli.runai import wait
from fairpool.cli.runai.flags import Flag
from fairpool.cli.runai.session import Session
from fairpool.cli.runai.submit import LATER as NOT_SUPPORTED_YET
from fairpool.cli.runai.submit import PRIVILEGES, submit
from fairpool.control.settings import FIRST_PASSWORD, FIRST_USER
from fairpool.model.ids import Instant, PodId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import Cause, Outcome
from fairpool.model.status import WaitReason, WorkloadPhase
from tests.end_to_end.runai_server import DANGEROUS, LOG, Server, real_environment, serving
from tests.end_to_end.terminal import Terminal

pytestmark = pytest.mark.slow

NUMBERS = count(1)
COMMAND = [sys.executable, "-m", "fairpool.cli.runai.main"]
REGISTRY = "registry.example:5000"
QUICKSTART = f"{REGISTRY}/run-ai-demo/quickstart"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("runai")) as found:
        found.settle("team-a")
        yield found


@pytest.fixture
def project(server: Server) -> str:
    """A project of this test alone, and the default one."""
    name = f"project-{next(NUMBERS)}"
    server.typed(f"runai-adm project create {name} --gpu-quota 4")
    server.typed(f"runai config project {name}")
    server.pod_access.log, server.pod_access.unreachable = LOG, False
    return name


# --- the lines that documents print ------------------------------------------------------------------------------


DOCUMENTED = {
    "training": f"runai submit hyper1 -i {QUICKSTART} -g 1",
    "build": "runai submit build1 -i python -g 1 --interactive --command sleep --args infinity",
    "ingress": "runai submit test-ingress -i jupyter/base-notebook -g 1 --interactive --service-type=ingress "
    '--port 8888 --args="--NotebookApp.base_url=test-ingress" --command=start-notebook.sh',
    "fraction": f"runai submit frac03-3 -i {QUICKSTART} -g 0.3",
    "whole as 1.0": f"runai submit whole -i {QUICKSTART} -g 1.0",
    "template of the docs": f"runai submit sweep -i {QUICKSTART} -g 1 --parallelism 2 --completions 4",
    "preemptible": f"runai submit pre -i {QUICKSTART} -g 1 --interactive --preemptible",
    "words after --": f"runai submit words -i {QUICKSTART} -g 1 --command -- python train.py --epochs 3",
    "arguments after --": f"runai submit more -i {QUICKSTART} -g 1 --command -- python -c 'print(1)'",
}


@pytest.mark.parametrize("line", DOCUMENTED.values(), ids=DOCUMENTED)
def test_a_documented_submit_is_taken(server: Server, project: str, line: str) -> None:
    """F-107, F-135, F-136, F-137, F-147."""
    name = line.split()[2]
    said = server.typed(line)
    assert said.splitlines()[0] == f"Job {name} submitted successfully."
    assert said.splitlines()[1] == "You can check the status of the job by running:"
    assert said.splitlines()[2].strip() == f"runai describe job {name} -p {project}"


NEEDS_MOUNTS = {
    "netapp1": "runai submit netapp1 -i netapp/tensorflow-tfl-py3:20.01.0 --local-image --large-shm -v /mnt:/mnt "
    '-v /tmp:/tmp --command python --args "/netapp/scripts/run.py" '
    '--args "--dataset_dir=/mnt/mount_0/dataset/imagenet/imagenet_original/" --args "--num_mounts=2" '
    '--args "--dgx_version=dgx1" --args "--num_devices=1" -g 1',
    "pvc-test": f"runai submit pvc-test --pvc test:/tmp/pvc1mount -i {QUICKSTART} -g 1",
    "myjob": "runai submit myjob --large-shdm -e HOSTNAME=here -v /raid/public/my_datasets:/data "
    f"-i {REGISTRY}/nvidia/pytorch",
}


@pytest.mark.parametrize("name", NEEDS_MOUNTS)
def test_a_submit_with_mounts_is_taken_or_refused_by_name(server: Server, project: str, name: str) -> None:
    server.typed("runai submit makes-test -i img --new-pvc claimname=test,size=10Gi,path=/data")
    assert f"Job {name} submitted successfully." in server.typed(NEEDS_MOUNTS[name])


def test_claims_and_config_maps_are_managed_by_typing(server: Server, project: str, tmp_path: Path) -> None:
    server.typed("runai submit a -i img --new-pvc claimname=data,size=10Gi,path=/d,accessmode-rom")
    said = server.type("runai list pvc")
    assert re.search(r"^data +10Gi +ReadOnlyMany +kept +a ", said.out, re.MULTILINE)
    assert "Sizes are recorded, not enforced" in said.err
    assert "claim data is used by a: delete those jobs first" in server.refused("runai pvc delete data")
    assert "mount it read-only: --pvc data:/x:ro" in server.refused("runai submit b -i img --pvc data:/x")
    assert re.search(rf"^data +{project} +10Gi ", server.typed("runai-adm pvc list"), re.MULTILINE)
    assert "add -p PROJECT" in server.refused("runai-adm pvc delete data")
    assert "there is no claim 'nope'" in server.refused(f"runai-adm pvc delete nope -p {project}")
    (tmp_path / "train.yaml").write_text("epochs: 3\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    server.typed(f"runai configmap create cfg --from-file {tmp_path}/train.yaml --from-literal a=b=c")
    assert re.search(r"^cfg +train.yaml, a +13 ", server.typed("runai configmap list"), re.MULTILINE)
    assert "\ntrain.yaml:\n  epochs: 3\n" in server.typed("runai configmap describe cfg")
    server.typed("runai configmap update cfg --from-literal a=1")
    for line, words in (
        ("runai configmap create x", "a config map needs contents"),
        ("runai configmap create x --from-literal a", "is not KEY=VALUE"),
        (f"runai configmap create x --from-file {tmp_path}/none", "cannot be read (No such file or directory)"),
        (f"runai configmap create x --from-file {tmp_path}/binary", "is not UTF-8 text"),
        ("runai configmap create x --from-literal a=1 --from-literal a=2", "the key a is given twice"),
        ("runai configmap create x --from-literal a/b=1", "a/b"),
        ("runai submit b -i img -e X=CONFIGMAP:cfg", "name the config map and its key"),
        ("runai submit b -i img -e X=CONFIGMAP:cfg,nope", "config map cfg has no key nope: use one of a"),
        ("runai submit b -i img --configmap-volume name=nope,path=/c", "has no config map nope"),
        ("runai submit b -i img --git-sync source=--upload-pack=x", "is not the address of a Git repository"),
        ("runai submit b -i img --git-sync branch=x", "is missing source"),
        ("runai submit b -i img -v /a/../etc:/e", "the path /a/../etc contains .."),
        ("runai submit b -i img -v /a:/e:ro:nfs1", "ask the administrator to mount it on the nodes"),
    ):
        assert words in server.refused(line), line
    server.typed("runai configmap delete cfg")
    assert "There are no config maps" in server.type("runai configmap list").err


def test_a_claim_is_made_by_who_asks_for_one_and_a_mistyped_one_is_told(server: Server, project: str) -> None:
    said = server.refused("runai submit a -i img --pvc data:/d")
    assert said.startswith(
        f"project {project} has no volume claim data: the project has no claims yet; to create one: --new-pvc "
    )
    assert "There are no volume claims" in server.type("runai list pvc").err
    server.typed("runai submit a -i img --new-pvc claimname=data,size=10Gi,path=/d")
    server.typed("runai submit b -i img --pvc :5Gi:/d")
    said = server.typed("runai list pvc")
    assert re.search(rf"^data +10Gi +ReadWriteOnce +kept +a +\d+s +{FIRST_USER}$", said, re.MULTILINE)
    assert re.search(r"^pvc-b-0 +5Gi ", said, re.MULTILINE)
    server.typed("runai submit c -i img --pvc data:/d --pvc pvc-b-0:/e")
    assert "did you mean data?" in server.refused("runai submit d -i img --pvc dta:/d")
    assert "already has a volume claim data" in server.refused(
        "runai submit d -i img --new-pvc claimname=data,size=1Gi,path=/d"
    )


UNSUPPORTED = {  # where nodes do not run containers
    "--image-pull-policy": "--image-pull-policy Always",
    "--add-capability": "--add-capability NET_ADMIN",
    "--nfs-server": "--nfs-server host -v /a:/b",
    "--mount-propagation": "--mount-propagation -v /a:/b",
    "--custom-url": "--custom-url x --service-type=external-url --port 80",
    "--host-ipc": "--host-ipc",
    "--host-network": "--host-network",
    "--run-as-user": "--run-as-user",
    "--create-home-dir": "--create-home-dir",
}


def test_flags_that_are_not_supported_without_containers_look_so_in_help() -> None:
    sections = (NOT_SUPPORTED_YET, PRIVILEGES)
    marked = {
        each.opts[0]
        for each in submit.params
        if isinstance(each, Flag) and (each.section in sections or "not supported" in (each.help or ""))
    }
    assert marked == UNSUPPORTED.keys()


@pytest.mark.parametrize("flag", [pytest.param(each, marks=pytest.mark.flag(each)) for each in UNSUPPORTED])
def test_a_flag_that_is_not_supported_is_refused_by_its_name(server: Server, project: str, flag: str) -> None:
    said = server.refused(f"runai submit x -i img {UNSUPPORTED[flag]}")
    assert len(said.splitlines()) == 1, said
    assert said.startswith(flag), said
    assert "not supported" in said
    assert "spec." not in said


def test_an_image_that_is_not_there_is_refused_with_what_may_be_meant(server: Server, project: str) -> None:
    server.workload_reports.clear()
    server.nodes.clear()
    server.node("dgx1-1", images=("python", "ubuntu"))
    try:
        said = server.refused("runai submit typo -i pyhton -g 1")
        assert said.startswith(
            "there is no image pyhton on this cluster: did you mean python? Available images: python, "
        )
        server.typed("runai submit typo -i pyhton -g 1 --wait-anyway")
        server.typed("runai submit right -i python:3.12 -g 1")
    finally:
        server.node("dgx1-1")


def test_the_example_of_submit_is_one_that_works(server: Server, project: str) -> None:
    said = server.typed("runai submit --help")
    example = re.sub(r"\s+", " ", said.partition("Example: ")[2]).strip()
    image = re.search(r"-i (\S+)", example)
    assert image is not None
    assert image[1] in shipped_images()
    assert "--workdir . " in example  # this server takes no uploads; test_submit_on_one_machine has one that does
    assert "Job train submitted successfully." in server.typed(example.replace("--workdir . ", ""))


def shipped_images() -> list[str]:
    return [each.name for each in read_images(SHIPPED.read_text(encoding="utf-8"), Path("/support"))]


def test_the_version_is_said(server: Server) -> None:
    assert server.typed("runai --version") == f"runai {__version__}\n"
    assert server.typed("runai-adm --version") == f"runai-adm {__version__}\n"


NOTEBOOK = (
    "a-1-1-jupyter -i jupyter/base-notebook -g 1 --interactive --service-type=ingress --port 8888 "
    "--args=--NotebookApp.base_url=team-a-test-ingress --command=start-notebook.sh -p team-a"
)
PHASE_4_8 = (
    NOTEBOOK,
    f"a-1-g -i {QUICKSTART} -g 1 -p team-a",
    f"a-2-gg -i {QUICKSTART} -g 2 -p team-a",
    f"b-1-g06 -i {QUICKSTART} -g 0.6 --interactive -p team-b",
    f"b-2-g04 -i {QUICKSTART} -g 0.4 --interactive -p team-b",
    f"b-3-g -i {QUICKSTART} -g 1 -p team-b",
    f"b-4-gg -i {QUICKSTART} -g 2 -p team-b",
    f"c-1-g05 -i {QUICKSTART} -g 0.5 --interactive -p team-c",
    f"c-2-g03 -i {QUICKSTART} -g 0.3 --interactive -p team-c",
    f"c-3-g02 -i {QUICKSTART} -g 0.2 --interactive -p team-c",
    f"c-4-gg -i {QUICKSTART} -g 2 -p team-c",
    f"c-5-g -i {QUICKSTART} -g 1 -p team-c",
    f"d-1-gggg -i {QUICKSTART} -g 4 -p team-d",
)
LATER = ("d-2-gg -p team-d", "d-3-gg -p team-d", "a-3-gg -p team-a", "a-4-gg -p team-a", "b-5-gg -p team-b")


def test_the_sixteen_gpus_of_four_teams_are_asked_for_line_by_line(server: Server) -> None:
    """F-118, F-134: the recorded scenario, as far as typing goes."""
    for team, quota in (("team-b", 2), ("team-c", 2), ("team-d", 8)):
        server.typed(f"runai-adm project create {team} -g {quota}")
    for line in (*PHASE_4_8, *(f"{line} -i {QUICKSTART} -g 2" for line in LATER)):
        server.typed(f"runai submit {line}")
    found = {each.name: each for each in server.admin.all_workloads() if re.match("team-[abcd]$", each.project_name)}
    asked = [found[line.split()[0]].workload_requested_resources.gpu.request for line in PHASE_4_8]
    assert asked == [1, 1, 2, 0.6, 0.4, 1, 2, 0.5, 0.3, 0.2, 2, 1, 4]
    assert sum(each.type == "Workspace" for each in found.values()) == 6
    deleted = server.typed("runai delete -p team-d d-1-gggg d-2-gg d-3-gg").splitlines()
    assert deleted == [f"Job {name} deleted successfully." for name in ("d-1-gggg", "d-2-gg", "d-3-gg")]


def test_arguments_reach_the_server_in_the_order_they_were_given(server: Server, project: str) -> None:
    server.typed("runai submit j -i x --command python --args a.py --args --b=1 --args c")
    spec = server.admin.workload(server.id_of(project, "j")).spec
    assert (spec["command"], spec["args"]) == (["python"], ["a.py", "--b=1", "c"])


def test_two_commands_whose_line_break_was_lost_are_both_carried_out(server: Server, project: str) -> None:
    said = server.typed(f"runai project set {project} runai submit hyper1 -i {QUICKSTART} -g 1")
    assert f"Project {project} has been set as default project" in said
    assert "Job hyper1 submitted successfully." in said


def test_a_slip_of_the_document_gets_a_hint(server: Server) -> None:
    assert server.refused("runai delte hyper1") == "there is no command runai delte: did you mean delete?\n"
    assert "write --preemptibel" in server.refused("runai submit x -i y –preemptibel")
    assert server.type("runai list –A").err.startswith("Note: –A was read as -A.\n")
    assert server.refused("runai submit x --gpuu 1").startswith("there is no flag --gpuu: did you mean --gpu")


# --- lists -------------------------------------------------------------------------------------------------------


HEADINGS = [
    "NAME",
    "STATUS",
    "AGE",
    "NODE",
    "IMAGE",
    "TYPE",
    "PROJECT",
    "USER",
    "GPUs Allocated (Requested)",
    "PODs Running (Pending)",
    "SERVICE URL(S)",
]


def test_the_list_has_eleven_columns_and_the_classic_words(server: Server, project: str) -> None:
    """F-108, F-109, F-111."""
    for name, gpus in (("frac", "0.3"), ("held", "0.1"), ("over", "0.3"), ("new", "2")):
        server.typed(f"runai submit {name} -i img -g {gpus} --interactive")
    server.runs(project, "frac", gpus=0.3)
    server.typed("runai suspend held")
    server.report(server.id_of(project, "held"), WorkloadPhase.STOPPED)
    server.fails(project, "over")
    lines = server.typed("runai list jobs").splitlines()
    assert lines[0] == f"Showing jobs for project {project}"
    assert re.split(r" {2,}", lines[1]) == [*HEADINGS, "GPU UTIL", "PROGRESS"]
    rows = {row.split()[0]: row for row in lines[2:]}
    assert list(rows) == ["frac", "held", "new", "over"]
    assert re.search(
        r"^frac +Running +\d+s +dgx1-1 +img +Interactive +\S+ +test@run.ai +0.30 \(0.30\) +1 \(0\) +– +–$", rows["frac"]
    )
    assert re.search(r"^held +Suspended .* 0.00 \(0.10\) +0 \(0\) +– +–$", rows["held"])
    assert re.search(r"^over +Failed .* - \(0.30\) +0 \(0\) +– +–$", rows["over"])
    assert re.search(r"^new +Pending .* 0.00 \(2.00\) +0 \(1\) +– +–$", rows["new"])


def test_the_same_list_in_every_spelling(server: Server, project: str) -> None:
    server.typed("runai submit one -i img")
    expected = server.typed("runai list jobs").splitlines()[0]
    for spelling in ("runai list", "runai list job", f"runai list -p {project}", f"runai -p {project} list jobs"):
        assert server.typed(spelling).splitlines()[0] == expected, spelling
    everywhere = server.typed("runai list -A")
    assert everywhere.startswith("NAME")
    assert project in everywhere


def test_other_forms_are_for_programs(server: Server, project: str) -> None:
    server.typed("runai submit one -i img -g 1")
    server.typed("runai submit two -i img")
    assert server.typed("runai list jobs -o name") == "one\ntwo\n"
    assert [each["name"] for each in json.loads(server.typed("runai list jobs -o json"))] == ["one", "two"]
    assert [each["projectName"] for each in yaml.safe_load(server.typed("runai list -o yaml"))] == [project, project]
    assert "NODE POOL" in server.typed("runai list jobs -o wide")
    detail = json.loads(server.typed("runai describe job one -o json"))
    keys = ["name", "namespace", "duration", "status", "trainer", "chiefName", "instances", "priority", "commandLine"]
    assert list(detail)[: len(keys)] == keys
    assert detail["namespace"] == f"runai-{project}"
    assert detail["commandLine"] == "runai submit one -i img -g 1"


def test_projects_are_listed_with_what_they_are_owed(server: Server, project: str) -> None:
    """F-121."""
    server.typed(f"runai-adm project update {project} --interactive-time-limit 8h --node-types-train dgx-1,dgx-2")
    lines = server.typed("runai list projects").splitlines()
    heads = ["PROJECT", "DEPARTMENT", "DESERVED GPUs", "INT LIMIT", "INT AFFINITY", "TRAIN AFFINITY"]
    assert re.split(r" {2,}", lines[0]) == heads
    row = next(line for line in lines if line.startswith(f"{project} (default)"))
    assert re.split(r" {2,}", row)[1:] == ["default", "4", "8h", "-", "dgx-1;dgx-2"]
    assert "DESERVED GPUS: 4" in server.typed(f"runai describe project {project}")


def test_nodes_are_listed_with_what_is_free(server: Server, project: str) -> None:
    """F-120."""
    server.workload_reports.clear()
    server.node("dgx1-1", gpus=8)
    server.node("dgx1-2", gpus=8)
    server.typed("runai submit two -i img -g 2")
    server.typed("runai submit half -i img -g 0.5")
    server.runs(project, "two", gpus=2, devices=(0, 1))
    server.runs(project, "half", gpus=0.5, devices=(2,))
    lines = server.typed("runai list nodes").splitlines()
    assert re.split(r" {2,}", lines[0])[:4] == ["NAME", "STATUS", "IP Address", "ROLE"]
    assert re.search(r"^dgx1-1 +Ready +- +<none> .* 8 +5.50$", lines[1])
    assert server.typed("runai list nodes dgx1-2 -o name") == "dgx1-2\n"
    said = server.typed("runai describe node dgx1-1")
    assert "ALLOCATED GPUS: 2.50" in said
    assert re.search(
        r"^NODE GPUs INFO:\nGPU +ALLOCATED .*\n0 +1.00 .*\n1 +1.00 .*\n2 +0.50 .*\n3 +0.00( +–){3}$", said, re.MULTILINE
    )
    assert re.search(
        rf"^NODE PODS:\nPOD +PROJECT .*\nhalf-0-0 +{project} .* 0.50 +2\ntwo-0-0 +{project} .* 2.00 +0,1$", said, re.M
    )
    assert "NODE PODS:\nNo pods\n" in server.typed("runai describe node dgx1-2")
    said = server.refused("runai describe node dgx1-3")
    assert said.startswith("No match found for node(s) dgx1-3\nAvailable node names:\n  dgx1-1\n  dgx1-2\n")
    said = server.typed("runai top node")
    assert said.splitlines()[0].split()[:2] == ["NAME", "STATUS"]
    assert server.typed("runai list clusters").splitlines()[0] == "Configured clusters on this computer are:"
    assert "local (current)" in server.typed("runai list clusters")


def test_gpus_that_are_withheld_are_counted_and_explained(server: Server, project: str) -> None:
    words = "GPU 0 is not scheduled: used by process 490 (python3), which is not part of a pod"
    server.node("dgx1-1", gpus=1)
    server.nodes["dgx1-1"] = server.nodes["dgx1-1"].model_copy(update={"gpus_withheld": (0,), "message": words})
    server.node("dgx1-2", gpus=1)
    listed = server.type("runai list nodes")
    assert re.search(r"^dgx1-1 .* 0 +0.00$", listed.out, re.MULTILINE)
    assert listed.err == f"dgx1-1: {words}\n"
    described = server.typed("runai describe node dgx1-1")
    assert "UNHEALTHY GPUS: 1\n" in described
    assert f"MESSAGE: {words}\n" in described
    described = server.typed("runai describe node dgx1-2")
    assert "UNHEALTHY GPUS: 0\n" in described
    assert "MESSAGE" not in described
    for name in ("dgx1-1", "dgx1-2"):
        server.node(name)  # the next one finds nodes that its jobs fit on


# --- one job -----------------------------------------------------------------------------------------------------


def test_a_description_shows_what_the_job_reports(
    server: Server, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.typed("runai submit d -i img -g 1")
    server.runs(project, "d")
    assert "PROGRESS" not in server.typed("runai describe job d")
    metrics = {"epoch": 3, "overall_epochs": 10, "accuracy": 0.87}
    monkeypatch.setattr(server.pod_access, "reported", {"metrics": metrics, "parameters": {"optimizer_name": "adam"}})
    said = server.typed("runai describe job d").splitlines()
    assert "PROGRESS: 30%" in said
    assert "METRICS: accuracy=0.87, epoch=3, overall_epochs=10" in said
    assert "PARAMETERS: optimizer_name=adam" in said
    assert json.loads(server.typed("runai describe job d -o json"))["instances"][0]["progress"] == 30


def test_a_description_has_facts_pods_mounts_and_events(server: Server, project: str) -> None:
    """F-113, F-114."""
    server.typed("runai submit d -i img -g 0.5")
    before = server.typed("runai describe job d")
    assert "No events for resources" in before
    server.runs(project, "d", gpus=0.5)
    server.happened(server.id_of(project, "d"), "bound", "4 GPUs were free")
    said = server.typed("runai describe job d")
    for line in ("NAME: d", f"NAMESPACE: runai-{project}", "TYPE: Train", "STATUS: Running", "ALLOCATED GPUS: 0.50"):
        assert line in said.splitlines(), line
    assert "COMMAND LINE: runai submit d -i img -g 0.5" in said
    assert re.search(r"^POD +STATUS +TYPE +AGE +NODE$", said, re.MULTILINE)
    assert re.search(r"^d-0-0 +Running +Train +\d+s +dgx1-1$", said, re.MULTILINE)
    assert re.search(r"^SOURCE +TYPE +AGE +MESSAGE$", said, re.MULTILINE)
    assert "[Bound] 4 GPUs were free" in said
    assert "NAME: d\n" in server.typed(f"runai get d -p {project}")


def test_who_asks_why_is_told_what_the_scheduler_said(server: Server, project: str) -> None:
    server.typed("runai submit w -i img -g 2")
    server.waits(project, "w", "project is at its quota of 4 GPUs, and nothing can be taken")
    said = server.typed("runai why w")
    assert "Job w is Pending, for" in said
    assert "Reason: project is at its quota of 4 GPUs, and nothing can be taken." in said
    assert f"It requests 2 GPUs. Project {project} uses 0 of its quota of 4." in said


def test_history_shows_every_pod(server: Server, project: str) -> None:
    server.typed("runai submit h -i img -g 1")
    server.fails(project, "h")
    said = server.typed("runai history h")
    assert re.search(r"^h-0-0 +Failed +dgx1-1 .* 1 +exited$", said, re.MULTILINE)


def test_an_earlier_pod_is_over_and_its_log_is_shown_while_the_next_waits(server: Server, project: str) -> None:
    server.typed("runai submit again -i img -g 1")
    server.runs(project, "again")
    server.waits_again(project, "again", exit_code=3)
    said = server.typed("runai history again --events")
    assert re.search(r"^again-0-0 +Failed +dgx1-1 .* 3 +exit code 3$", said, re.MULTILINE)
    assert re.search(r"^again-0-1 +Pending ", said, re.MULTILINE)
    assert re.search(r"again-0-0 +\[Ended\] on dgx1-1: exit code 3$", said, re.MULTILINE)
    answer = server.type("runai logs again")
    assert (answer.code, answer.out) == (0, LOG.decode())
    assert answer.err == "Showing again-0-0, which ended (exit code 3); again-0-1 has not started yet.\n"


def test_a_job_that_backs_off_says_which_try_is_next_and_when(server: Server, project: str) -> None:
    server.typed("runai submit fails -i img -g 1")
    server.runs(project, "fails")
    detail = "failed with exit code 3; waiting for try 2 of 7; it holds no GPU until then"
    at = Instant(time.time_ns() // 1_000_000 + 1_000_000)
    server.waits_again(
        project, "fails", exit_code=3, reason=WaitReason.BACK_OFF, detail=detail, failures=1, next_try_at=at
    )
    when = rf"{datetime.fromtimestamp(at // 1000, UTC).astimezone():%H:%M:%S} \(in 16m\)"
    assert re.search(r"^fails +Error ", server.typed("runai list"), re.MULTILINE)
    said = server.typed("runai why fails")
    assert "Job fails is Error, for" in said
    assert "Reason: failed with exit code 3; waiting for try 2 of 7; it holds no GPU until then." in said
    assert re.search(rf"^Next try at (\S+ )?{when}\.$", said, re.MULTILINE)
    said = server.typed("runai describe job fails")
    assert "FAILED TRIES: 1 (retries left: 5)\n" in said
    assert re.search(rf"^NEXT TRY: (\S+ )?{when}$", said, re.MULTILINE)
    (item,) = [each for each in json.loads(server.typed("runai list -o json")) if each["name"] == "fails"]
    assert (item["phase"], item["reason"], item["failedTries"], item["retriesLeft"]) == ("Pending", "back-off", 1, 5)
    assert item["nextTryAt"].startswith(f"{datetime.fromtimestamp(at // 1000, UTC):%Y-%m-%dT%H:%M:%S}")
    answer = server.type("runai logs fails")
    assert re.search(r"fails-0-1 has not started yet\. It starts at .*\(in 16m\)\.$", answer.err.strip())


def test_a_job_whose_image_cannot_be_had_says_why_there_is_no_output(server: Server, project: str) -> None:
    server.typed("runai submit unpulled -i img -g 1")
    server.report(
        server.id_of(project, "unpulled"),
        WorkloadPhase.PENDING,
        reason=WaitReason.IMAGE,
        detail="ErrImagePull: no such image; waiting for try 2 of 11; it holds no GPU until then",
        next_try_at=Instant(time.time_ns() // 1_000_000 + 1_000_000),
    )
    said = server.refused("runai logs unpulled")
    assert said.startswith("Job unpulled has no output yet: it is ImagePullBackOff: ErrImagePull: no such image; ")
    assert "next try at " in said


def test_who_suspended_a_job_is_named(server: Server, project: str) -> None:
    server.typed("runai submit still -i img -g 1")
    server.runs(project, "still")
    server.typed("runai suspend still")
    workload = server.id_of(project, "still")
    server.report(workload, WorkloadPhase.STOPPED, reason=Cause.SUSPENDED)
    server.happened(workload, "halted", cause="suspended")
    said = server.typed("runai why still")
    assert f"It was suspended by {FIRST_USER}. It holds no GPU until it is resumed." in said
    assert f"[Halted] suspended by {FIRST_USER}" in said
    assert f"MESSAGE: suspended by {FIRST_USER}" in server.typed("runai describe job still")
    assert f"[Halted] suspended by {FIRST_USER}" in server.typed("runai history still --events")
    assert json.loads(server.typed("runai describe job still -o json"))["workload"]["suspendedBy"] == FIRST_USER
    server.typed("runai resume still")
    assert "suspended by" not in server.typed("runai describe job still").partition("Events:")[0]


def test_the_log_of_a_job_with_several_pods_is_that_of_the_one_that_failed(server: Server, project: str) -> None:
    server.typed("runai submit sweep -i img --completions 3 --parallelism 3")
    workload = server.id_of(project, "sweep")
    ends = [(Outcome.OK, 0), (Outcome.ERROR, 3), (Outcome.STOPPED, 143)]
    replicas = tuple(
        PodReport(
            id=PodId(f"{workload}-{index}-0"),
            index=index,
            incarnation=0,
            phase=PodPhase.ENDED,
            outcome=outcome,
            exit_code=code,
        )
        for index, (outcome, code) in enumerate(ends)
    )
    server.report(workload, WorkloadPhase.FAILED, reason=Cause.RETRIES, pods=replicas)
    answer = server.type("runai logs sweep")
    assert answer.code == 0
    assert answer.err == "sweep has 3 pods; showing pod 1, which failed; others: --pod 0, 2\n"
    assert server.pod_access.read[-1] == f"{workload}-1-0"
    assert server.type("runai logs sweep --pod 2").code == 0
    assert server.pod_access.read[-1] == f"{workload}-2-0"
    said = server.refused("runai logs sweep --pod 9")
    assert said == "job sweep has no pod 9: existing pods: 0 (sweep-0-0), 1 (sweep-1-0), 2 (sweep-2-0)\n"


def test_a_pod_that_wrote_nothing_says_how_it_ended(server: Server, project: str) -> None:
    server.typed("runai submit mute -i img -g 1")
    server.fails(project, "mute")
    server.pod_access.log = b""
    try:
        answer = server.type("runai logs mute")
    finally:
        server.pod_access.log = LOG
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "mute-0-0 ended with exit code 1 without output.\n"


def test_jobs_are_listed_as_people_count(server: Server, project: str) -> None:
    for name in ("v10", "v2", "v1"):
        server.typed(f"runai submit {name} -i img")
    assert server.typed("runai list -o name").split() == ["v1", "v2", "v10"]


def test_people_see_names_of_pods_and_programs_their_ids_too(server: Server, project: str) -> None:
    server.typed("runai submit named -i img -g 1")
    server.runs(project, "named")
    server.waits_again(project, "named", exit_code=3)
    workload = server.id_of(project, "named")
    for line in ("runai why named", "runai describe job named", "runai history named --events"):
        said = server.typed(line)
        assert "named-0-0" in said
        assert workload not in said
    assert "pod/named-0-0  Warning" in server.typed("runai describe job named")
    (event,) = json.loads(server.typed("runai history named -o json"))["events"]
    assert (event["pod"], event["podName"]) == (f"{workload}-0-0", "named-0-0")


# --- what is done to jobs ----------------------------------------------------------------------------------------


def test_several_jobs_are_deleted_and_those_that_are_not_there_are_named(server: Server, project: str) -> None:
    """F-116, F-117, F-118."""
    for name in ("d-1", "d-2", "d-3"):
        server.typed(f"runai submit {name} -i img")
    answer = server.type(f"runai delete -p {project} d-1 nope d-2")
    assert answer.code == 1
    assert answer.out == "Job d-1 deleted successfully.\nJob d-2 deleted successfully.\n"
    elsewhere = "If the job exists in a different project, use -p <project-name>."
    assert answer.err.splitlines()[0] == f"Job nope does not exist in project {project}. {elsewhere}"
    assert server.typed("runai delete job d-3") == "Job d-3 deleted successfully.\n"
    assert "no job was named" in server.refused("runai delete")


def test_a_forced_delete_says_so_and_finds_what_is_being_deleted(server: Server, project: str) -> None:
    for name in ("f-1", "f-2"):
        server.typed(f"runai submit {name} -i img -g 1")
    assert server.typed("runai delete f-1") == "Job f-1 deleted successfully.\n"
    assert "does not exist" in server.type("runai delete f-1").err
    for _ in range(2):
        said = server.typed("runai delete --force f-1 f-2")
        assert said == "".join(
            f"Job {name} deleted. Its pods are killed without a grace period.\n" for name in ("f-1", "f-2")
        )
    assert server.typed("runai delete --all --force --yes").count("killed without a grace period") == 2
    assert server.type("runai suspend --force f-1").code != 0


def test_a_grace_period_that_is_too_long_is_refused_with_the_figure(server: Server, project: str) -> None:
    said = server.refused("runai submit long -i img --grace-period 3601")
    assert "a grace period of 3601 s exceeds the maximum of 3600 s" in said
    assert "at most 3600 s" in said


def test_suspend_and_resume_say_so(server: Server, project: str) -> None:
    server.typed("runai submit s -i img -g 1")
    assert server.typed("runai suspend s") == "Job s suspended successfully.\n"
    server.report(server.id_of(project, "s"), WorkloadPhase.STOPPED)
    assert server.typed("runai resume s") == "Job s resumed successfully.\n"
    server.typed("runai submit t -i img -g 1")
    assert server.typed("runai delete -A").count("deleted successfully") == 2


# --- logs and shells ---------------------------------------------------------------------------------------------


def test_logs_come_whole_by_their_tail_and_as_they_are_written(server: Server, project: str) -> None:
    """F-115."""
    server.typed("runai submit l -i img")
    assert server.refused("runai logs l").startswith("Job l has not started yet, so it has no output: it is Pending: ")
    server.runs(project, "l", gpus=0)
    assert server.typed("runai logs l") == LOG.decode()
    assert server.typed("runai logs l --tail 1") == "Epoch 2/2 loss 0.12\n"
    assert server.typed("runai logs l -f -t 1") == "Epoch 2/2 loss 0.12\nand on\n"
    assert server.typed("runai logs l --since 1h30m --timestamps") == LOG.decode()
    assert server.pod_access.wanted[-1].timestamps
    assert server.pod_access.wanted[-1].since is not None
    assert "--since soon" in server.refused("runai logs l --since soon")
    assert "cannot be used together" in server.refused("runai logs l --since 5m --since-time 2026-01-01T00:00:00Z")
    server.pod_access.unreachable = True
    assert server.refused("runai logs l") == "its node is away: wait for it\n"


def test_logs_of_all_pods_say_whose_each_line_is(server: Server, project: str) -> None:
    server.typed("runai submit many -i img")
    server.runs(project, "many", gpus=0, pods=3)
    said = server.typed("runai logs many --all-pods --tail 1").splitlines()
    assert said == [f"[many-{index}-0] Epoch 2/2 loss 0.12" for index in range(3)]
    assert server.typed("runai logs many --pod 1") == LOG.decode()
    refused = server.refused("runai logs many --pod 9")
    assert refused == "job many has no pod 9: existing pods: 0 (many-0-0), 1 (many-1-0), 2 (many-2-0)\n"
    assert "cannot be used together" in server.refused("runai logs many --pod 1 --all-pods")


def test_all_pods_are_followed_until_the_job_is_over(server: Server, project: str) -> None:
    server.typed("runai submit many -i img")
    server.runs(project, "many", gpus=0, pods=2)
    timer = threading.Timer(0.3, lambda: server.fails(project, "many"))
    timer.start()
    said = server.typed("runai logs many --all-pods -f --tail 1").splitlines()
    timer.join()
    assert sorted(said) == sorted(
        f"[many-{index}-0] {line}" for index in range(2) for line in ("Epoch 2/2 loss 0.12", "and on")
    )


def test_the_output_of_the_try_before_can_be_read(server: Server, project: str) -> None:
    server.typed("runai submit again -i img")
    server.runs(project, "again", gpus=0)
    assert "has no earlier try with output" in server.refused("runai logs again --previous")
    server.waits_again(project, "again", exit_code=3)
    server.typed("runai logs again --previous")
    assert server.pod_access.read[-1].endswith("-0-0")


# --- waiting, lists that are watched or filtered -----------------------------------------------------------------


def test_wait_ends_when_the_job_does_and_says_how(server: Server, project: str) -> None:
    server.typed("runai submit w -i img")
    timer = threading.Timer(0.3, lambda: server.report(server.id_of(project, "w"), WorkloadPhase.COMPLETED))
    timer.start()
    assert server.typed("runai wait w") == "w: succeeded\n"
    timer.join()
    server.typed("runai submit bad -i img")
    server.fails(project, "bad")
    answer = server.type("runai wait w bad")
    assert (answer.code, answer.out) == (1, "w: succeeded\n")
    assert answer.err.startswith("bad: failed")
    server.runs(project, "w", gpus=0)
    assert server.typed("runai wait w --for running") == "w: running\n"


def test_wait_gives_up_after_its_timeout_with_a_code_of_its_own(server: Server, project: str) -> None:
    server.typed("runai submit slow -i img")
    answer = server.type("runai wait slow --timeout 0")
    assert (answer.code, answer.out) == (124, "")
    assert answer.err.startswith("timed out after 0s; not finished yet: slow (Pending)")
    assert "is not a valid duration" in server.refused("runai wait slow --timeout soon")
    assert "does not exist" in server.refused("runai wait nothing")
    assert server.typed("runai wait nothing --for deleted") == "nothing: deleted\n"


def test_wait_outlasts_a_server_that_is_away_for_a_moment(
    server: Server, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.typed("runai submit w -i img")
    server.report(server.id_of(project, "w"), WorkloadPhase.COMPLETED)
    really, looks = wait._look, []

    def away_at_first(session: Session, waiting: dict[str, str]) -> dict[str, Workload | None]:
        looks.append(1)
        if len(looks) < 3:
            raise failure("server.away", "Fairpool does not answer")
        return really(session, waiting)

    monkeypatch.setattr(wait, "_look", away_at_first)
    assert server.typed("runai wait w") == "w: succeeded\n"
    looks.clear()
    monkeypatch.setattr(wait, "AWAY_S", 0.0)
    assert "does not answer" in server.refused("runai wait w")


def test_a_reader_that_has_seen_enough_ends_the_following_of_all_pods(server: Server, project: str) -> None:
    """`runai logs -f --all-pods | head` must not go on until the job is over."""
    server.typed("runai submit many -i img")
    server.runs(project, "many", gpus=0, pods=2)
    command = [*COMMAND, "logs", "many", "--all-pods", "-f"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=real_environment(server)
    ) as follower:
        assert follower.stdout is not None
        follower.stdout.close()
        # click ends a command whose reader has gone with code 1 and no words.
        assert (follower.wait(120), follower.stderr.read() if follower.stderr else "") == (1, "")


def test_a_job_that_is_being_deleted_can_still_be_looked_at(server: Server, project: str) -> None:
    server.typed("runai submit stub -i img")
    server.runs(project, "stub", gpus=0)
    server.typed("runai delete stub")
    assert "Terminating" in server.typed("runai list")
    assert "stub" in server.typed("runai why stub")
    assert server.typed("runai logs stub") == LOG.decode()
    assert server.type("runai wait stub --for deleted --timeout 0").code == 124


def test_lists_are_filtered_by_status_user_and_label(server: Server, project: str) -> None:
    server.typed("runai submit one -i img --label team=vision")
    server.typed("runai submit two -i img --label team=speech")
    server.runs(project, "one", gpus=0)
    assert server.typed("runai list --status running -o name") == "one\n"
    assert server.typed("runai list --status Running,Pending -o name") == "one\ntwo\n"
    assert server.typed("runai list --status Pending --user me -o name") == "two\n"
    assert server.typed("runai list --user other@example.com -o name") == ""
    assert server.typed("runai list -l team=speech -o name") == "two\n"
    assert server.refused("runai list --status runing") == "unknown status runing: did you mean Running or Pending?\n"
    assert "write KEY=VALUE" in server.refused("runai list -l team")


def test_a_list_is_watched(server: Server, project: str) -> None:
    server.typed("runai submit one -i img")
    said = server.typed("runai list --watch --rounds 2 --interval 0.2")
    assert said.count("--- 20") == 2
    assert "one" in said
    assert "cannot print json" in server.refused("runai list --watch -o json")
    with terminal_of(server, "list", "--watch", "--rounds", "1", columns=100) as terminal:
        pass
    assert "Ctrl-C to quit" in terminal.text


def test_who_follows_a_waiting_job_sees_its_first_line(server: Server, project: str) -> None:
    server.typed("runai submit f -i img -g 1")
    timer = threading.Timer(0.3, lambda: server.runs(project, "f"))
    timer.start()
    answer = server.type("runai logs f -f")
    timer.join()
    assert answer.out.endswith("and on\n")
    assert "waiting for its output" in answer.err


def test_a_command_in_a_pod_passes_its_exit_code_on(server: Server, project: str) -> None:
    server.typed("runai submit e -i img")
    said = server.refused("runai exec e ls")
    assert said == "Unable to run command in a pod that is not running\n"
    server.runs(project, "e", gpus=0)
    answer = server.type("runai exec e false -l --pod x")
    assert (answer.code, answer.out, answer.err) == (3, "$ false -l --pod x\n", "it is not true\n")
    answer = server.type("runai exec -i e -- cat", stdin="hello")
    assert (answer.code, answer.out) == (0, "$ cat\nHELLO")
    assert server.type("runai exec e -i cat", stdin="exit 7").code == 7
    assert "there is no pod 'nope': existing pods: 0 (e-0-0)" in server.refused("runai exec --pod nope e ls")
    server.pod_access.unreachable = True
    assert server.refused("runai exec e ls") == "its node is away: wait for it\n"  # in the server's words


def test_attach_joins_the_pods_own_process(server: Server, project: str) -> None:
    server.typed("runai submit a -i img --stdin")
    server.runs(project, "a", gpus=0)
    answer = server.type("runai attach a", stdin="exit 4")
    assert answer.code == 4
    assert server.pod_access.shells[-1].command == ()


@pytest.mark.parametrize(
    ("asked", "flags"), [("", []), ("--stdin --tty", ["--no-stdin"])], ids=["deaf job", "no-stdin"]
)
def test_who_only_watches_a_job_can_leave_it(server: Server, project: str, asked: str, flags: list[str]) -> None:
    """A raw terminal would send Ctrl-C to a job that does not hear it."""
    server.typed(f"runai submit a -i img {asked}")
    server.runs(project, "a", gpus=0)
    with terminal_of(server, "attach", "a", *flags) as terminal:
        terminal.read_until("Ctrl-C detaches; the job keeps running.")
        terminal.read_until("$ ")
        assert terminal.hears_ctrl_c
        terminal.interrupt()
    assert terminal.code == 130, terminal.text


def test_bash_on_a_terminal_is_a_terminal(server: Server, project: str) -> None:
    """F-119."""
    server.typed("runai submit b -i img")
    server.runs(project, "b", gpus=0)
    with terminal_of(server, "bash", "b", columns=100) as terminal:
        terminal.read_until("$ bash")
        terminal.write("echo hi\r")
        terminal.read_until("ECHO HI")
        terminal.write("exit 5\r")
    assert terminal.code == 5
    shell = server.pod_access.shells[-1]
    assert shell.tty
    assert shell.sizes[0] == {"columns": 100, "rows": 24}


# --- terminals ---------------------------------------------------------------------------------------------------


def terminal_of(server: Server, *arguments: str, columns: int = 80) -> Terminal:
    environment = real_environment(server, NO_COLOR="", TERM="xterm")
    return Terminal([*COMMAND, *arguments], environment, columns)


def test_a_narrow_terminal_gets_what_matters_and_is_told_what_is_missing(server: Server, project: str) -> None:
    server.typed(f"runai submit long-name-of-a-job -i {QUICKSTART} -g 1")
    with terminal_of(server, "list", "jobs") as terminal:
        pass
    plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text).replace("\r", "")
    assert all(len(line) <= 80 for line in plain.splitlines()), plain
    assert "long-name-of-a-job" in plain
    assert "(show all with -o wide)" in plain.replace("\n", " ")
    assert "\x1b[" in terminal.text


def test_a_pipe_gets_no_colour_and_every_column(server: Server, project: str) -> None:
    server.typed(f"runai submit long-name-of-a-job -i {QUICKSTART} -g 1")
    done = subprocess.run(
        [*COMMAND, "list", "jobs"],
        capture_output=True,
        text=True,
        env=real_environment(server, NO_COLOR="", COLUMNS="40"),
        check=True,
    )
    assert "\x1b" not in done.stdout
    assert "SERVICE URL(S)" in done.stdout
    assert QUICKSTART in done.stdout


def test_escapes_in_a_log_do_not_reach_a_terminal(server: Server, project: str) -> None:
    server.typed("runai submit x -i img")
    server.runs(project, "x", gpus=0)
    server.pod_access.log = DANGEROUS
    with terminal_of(server, "logs", "x") as terminal:
        pass
    assert "\x1b]" not in terminal.text
    assert "\x1b[2J" not in terminal.text
    assert "\x9b" not in terminal.text
    assert "\x1b[31mred\x1b[0m" in terminal.text
    with terminal_of(server, "logs", "x", "--raw") as terminal:
        pass
    assert "\x1b]0;owned\x07" in terminal.text


def test_escapes_in_what_the_scheduler_says_do_not_reach_a_terminal(server: Server, project: str) -> None:
    server.typed("runai submit x -i img -g 1")
    server.waits(project, "x", "no room \x1b]0;owned\x07 for it")
    for line in ("runai why x", "runai describe job x", "runai list jobs -o wide", "runai list -o json"):
        assert "\x1b" not in server.typed(line), line


def test_top_is_drawn_once_or_again_and_again(server: Server, project: str) -> None:
    server.workload_reports.clear()
    server.nodes.clear()
    server.node("dgx1-1", gpus=8)
    server.typed("runai submit t -i img -g 4")
    server.runs(project, "t", gpus=4, devices=(0, 1, 2, 3))
    said = server.typed("runai top")
    assert said.startswith("4 of 8 GPUs allocated; 1 job running, ")
    assert re.search(r"^dgx1-1 +Ready +default +8 +4.00 +#{10}\.{10}( +–){4} +1$", said, re.MULTILINE)
    assert len(re.findall("^PROJECT +QUOTA", server.typed("runai top -w --rounds 2 --interval 0.2"), re.MULTILINE)) == 2
    assert re.search(rf"^t +{project} .* 4.00", server.typed("runai top job"), re.MULTILINE)
    with terminal_of(server, "top", "--watch", "--rounds", "1", columns=120) as terminal:
        pass
    assert terminal.code == 0
    assert "\x1b[?1049h" in terminal.text
    assert "dgx1-1" in terminal.text


# --- who is calling ----------------------------------------------------------------------------------------------


def test_login_keeps_a_token_that_no_other_user_can_read(server: Server) -> None:
    """F-123."""
    person = "new"
    assert server.refused("runai whoami", person=person) == "User not authenticated, run the 'runai login' command.\n"
    wrong = server.type(f"runai login -u {FIRST_USER}", person=person, stdin="not it\n")
    assert (wrong.code, wrong.err) == (1, "wrong user name or password: try again\n")
    without = server.type("runai login", person=person, stdin="")
    assert (without.code, "there is no terminal to ask for it: use --user NAME" in without.err) == (1, True)
    server.log_in(person)
    said = server.typed("runai whoami", person=person).splitlines()
    assert said[0] == f"User: {FIRST_USER}"
    assert said[1].startswith("Logged in Id: ")
    secret = Path(server.environment(person)["FAIRPOOL_CONFIG"]) / "credentials.json"
    assert secret.stat().st_mode & 0o777 == 0o600
    token = json.loads(secret.read_text())[server.address]["access_token"]
    assert server.typed("runai logout", person=person) == "Logged out successfully\n"
    assert token not in secret.read_text()
    with pytest.raises(Refused):
        _with_token(server, token)
    assert "not logged in" in server.typed("runai logout", person=person)


def _with_token(server: Server, token: str) -> None:
    with Client(server.address, token) as client:
        client.me()


def test_a_token_is_renewed_and_an_expired_login_says_what_to_type(tmp_path: Path) -> None:
    with serving(tmp_path, access_token_s=1) as short:
        short.log_in()
        secret = Path(short.environment()["FAIRPOOL_CONFIG"]) / "credentials.json"
        first = json.loads(secret.read_text())[short.address]["access_token"]
        short.typed("runai whoami")
        second = json.loads(secret.read_text())[short.address]
        assert second["access_token"] != first
        secret.write_text(json.dumps({short.address: second | {"refresh_token": "fpr_unknown"}}))
        said = short.refused("runai whoami")
        assert said == f"Your login at {short.address} has expired, run the 'runai login' command.\n"


def test_commands_at_once_renew_a_login_together(tmp_path: Path) -> None:
    """A token that renews another works once: they must not take it from each other."""
    with serving(tmp_path, access_token_s=1) as short:
        short.log_in()
        environment = real_environment(short)
        at_once = [
            subprocess.Popen([*COMMAND, "whoami"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
            for _ in range(3)
        ]
        said = [process.communicate(timeout=180) for process in at_once]
        assert [process.returncode for process in at_once] == [0, 0, 0], said


def test_a_job_whose_answer_was_lost_is_made_once(server: Server, project: str) -> None:
    """The connection breaks after the server did it: the command asks again under the same key."""
    with Lossy(server.address) as lossy:
        place = Path(server.environment()["FAIRPOOL_CONFIG"]) / "credentials.json"
        known = json.loads(place.read_text())
        place.write_text(json.dumps(known | {lossy.address: known[server.address]}))
        said = server.typed(f"runai submit -i img -p {project} --server {lossy.address}")
    assert lossy.lost == 1
    assert said.startswith("Job job-0 submitted successfully.")
    assert server.typed("runai list -o name") == "job-0\n"


class Lossy:
    """Passes requests on, and loses the answer to the first that creates something."""

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("http://").partition(":")
        self._target = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.lost = 0

    def __enter__(self) -> Lossy:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                person, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(person,), daemon=True).start()

    def _pass_on(self, person: socket.socket) -> None:
        with person, socket.create_connection(self._target) as server:
            while request := person.recv(1 << 20):
                while b"\r\n\r\n" not in request or _missing(request):
                    request += person.recv(1 << 20)
                server.sendall(request)
                answer = server.recv(1 << 20)
                while _missing(answer):
                    answer += server.recv(1 << 20)
                if request.startswith(b"POST /api/v1/workloads/") and not self.lost:
                    self.lost += 1
                    return
                person.sendall(answer)


def _missing(message: bytes) -> bool:
    """Whether a part of the body is still to come."""
    head, end, body = message.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    return not end or (length is not None and len(body) < int(length[1]))


def test_a_token_is_never_sent_to_another_server(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"http://127.0.0.1:{other.getsockname()[1]}"
        said = server.refused(f"runai list jobs --server {address} -p team-a")
        assert said == "User not authenticated, run the 'runai login' command.\n"


def test_a_server_that_is_not_there_is_named_with_what_to_type(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    answer = server.type(f"runai login -u a@b --server 127.0.0.1:{port}", stdin="x\n", person="absent")
    words = f"Fairpool does not answer at http://127.0.0.1:{port}: start it with `make up` or `fairpool up`\n"
    assert (answer.code, answer.err) == (1, words)
    assert "is not a valid server address" in server.refused("runai list jobs -p x --server 'ftp://x'")


def test_a_given_password_must_be_changed_first(server: Server) -> None:
    said = server.typed("runai-adm user create eve@example.com")
    password = re.search(r"shown only once: (\S+)", said)
    assert password
    server.log_in("eve", "eve@example.com", password[1])
    said = server.refused("runai list jobs -p team-a", person="eve")
    assert said.startswith("the password of eve@example.com was set by an administrator and must be changed first: ")
    assert "runai password" in said
    with terminal_of(
        server, "login", "--config-path", str(server.folder / "eve2"), "-u", "eve@example.com"
    ) as terminal:
        terminal.read_until("Password")
        terminal.write(f"{password[1]}\r")
        terminal.read_until("New password")
        terminal.write("correct horse battery\r")
        terminal.read_until("New password again")
        terminal.write("correct horse battery\r")
        terminal.read_until("Password changed")
    server.log_in("eve", "eve@example.com", "correct horse battery")


def test_a_password_set_by_an_administrator_is_changed_at_the_first_login(tmp_path: Path) -> None:
    """What is too short or mistyped gets a message and another chance; no password is ever shown."""
    with serving(tmp_path) as fresh:
        fresh.log_in()
        given = re.search(r"once: (\S+)", fresh.typed("runai-adm user create kim@example.com"))
        assert given is not None
        with terminal_of(fresh, "login", "--config-path", str(tmp_path / "kim"), "-u", "kim@example.com") as terminal:
            seen: list[str] = []

            def after(words: str, typed: str) -> None:
                """What was typed before the prompt is there would be thrown away."""
                terminal.read_until(words)
                before, _, terminal.text = terminal.text.partition(words)
                seen.append(before + words)
                terminal.write(f"{typed}\r")

            after("Password: ", given[1])
            after("New password: ", "hunter2")
            after("the new password is too short: use at least 8 characters\r\nNew password: ", "hunter2hunter2")
            after("New password again: ", "hunter2hunter3")
            after("the passwords do not match: type the same password twice\r\nNew password: ", "correct horse battery")
            after("New password again: ", "correct horse battery")
            terminal.read_until("Password changed")
        assert terminal.code == 0, terminal.text
        assert not re.search("hunter|horse|Traceback|later", "".join([*seen, terminal.text]))
        fresh.log_in("kim", "kim@example.com", "correct horse battery")


def test_a_password_is_changed_later_by_a_command(server: Server) -> None:
    made = server.typed("runai-adm user create lou@example.com")
    given = re.search(r"once: (\S+)", made)
    assert given is not None
    login = server.type("runai login -u lou@example.com", stdin=f"{given[1]}\n", person="lou")
    assert (login.code, "runai password" in login.err) == (0, True)
    assert "run: runai password" in server.refused("runai list -p team-a", person="lou")
    for new, words in (
        ("short", "the new password is too short: use at least 8 characters"),
        ("password", "default of earlier releases"),
        ("", "no new"),
    ):
        refused = server.refused("runai password --stdin", stdin=f"{given[1]}\n{new}\n", person="lou")
        assert words in refused
        assert given[1] not in refused
    wrong = server.refused("runai password --stdin", stdin="not this one\ncorrect horse battery\n", person="lou")
    assert "the current password is wrong" in wrong
    changed = server.typed("runai password --stdin", stdin=f"{given[1]}\ncorrect horse battery\n", person="lou")
    assert changed == "Password changed\n"
    (only,) = json.loads(server.typed("runai sessions list -o json", person="lou"))
    assert (only["isCurrent"], only["method"]) == (True, "password")
    server.log_in("lou", "lou@example.com", "correct horse battery")


def test_a_bug_shows_no_secret(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        secret = "hunter2hunter2"
        raise ValueError(f"cannot use {secret}")

    monkeypatch.setattr(Client, "sign_in", broken)
    for line in ("runai login -u x", "runai login -u x --loglevel debug"):
        said = server.refused(line, stdin="hunter2hunter2\n", person="broken")
        assert "unexpected error: ValueError at test_runai.py:" in said
        assert "hunter2" not in said


def test_where_the_server_is_looked_for(server: Server, tmp_path: Path) -> None:
    """The first of: flag, `FAIRPOOL_SERVER`, `FAIRPOOL_LISTEN`, the last login, the default."""
    reported = {"FAIRPOOL_SERVER": "", "FAIRPOOL_CONFIG": str(tmp_path)}
    place = server.address.removeprefix("http://")
    said = server.typed(f"runai login -u {FIRST_USER}", stdin=f"{FIRST_PASSWORD}\n", FAIRPOOL_LISTEN=place, **reported)
    assert "Logged in successfully" in said
    assert f"Server: {server.address}\n" in server.typed("runai whoami", **reported)
    assert "not authenticated" in server.refused("runai whoami", FAIRPOOL_LISTEN="127.0.0.1:1", **reported)
    both = {**reported, "FAIRPOOL_LISTEN": "127.0.0.1:1", "FAIRPOOL_SERVER": place}
    assert f"Server: {server.address}\n" in server.typed("runai whoami", **both)
    other = {**reported, "FAIRPOOL_SERVER": "127.0.0.1:1"}
    assert f"Server: {server.address}\n" in server.typed(f"runai whoami --server {place}", **other)
    away = server.refused("runai login -u x", stdin="y\n", FAIRPOOL_LISTEN="0.0.0.0:1", **reported)
    assert away.startswith("Fairpool does not answer at http://127.0.0.1:1: ")


def test_a_user_without_a_role_in_a_project_is_denied(server: Server, project: str) -> None:
    """F-213."""
    password = re.search(r"once: (\S+)", server.typed(f"runai-adm user create bob@example.com --project {project}"))
    assert password
    with Client(server.address) as bob:
        bob.sign_in("bob@example.com", password[1])
        bob.change_password(password[1], "correct horse")
    server.log_in("bob", "bob@example.com", "correct horse")
    server.typed(f"runai submit mine -i img -p {project}", person="bob")
    said = server.refused("runai submit theirs -i img -p team-a", person="bob")
    assert said == "Access denied. You are not authorized to perform this action.\n"
    assert "project team-a was not found" in server.refused("runai list jobs -p team-a", person="bob")


# --- problems ----------------------------------------------------------------------------------------------------


MESSAGES = {
    "runai submit x -g 1": "-i, --image must be set",
    "runai submit x -i y -g 1 --gpu-memory 4G": "unexpected to accept both gpu and gpu-memory flag. "
    "please use only one of them",
    "runai submit x -i y --gpu-memory 1M": "gpu memory must be greater than 100Mb",
    "runai submit x -i y --mig 9g.9gb": "unsupported mig device: 9g.9gb",
    "runai submit x -i y --image-pull-policy Sometimes": "image-pull-policy flag should be set with one of "
    'the following values of: "Always", "IfNotPresent" or "Never"',
    "runai submit x -i y -v /a:/b:rx": "invalid readonly parameter given: 'rx'. this parameter may either be "
    "empty, ':ro' or ':rw'",
    "runai submit x -i y --parallelism 2": "if the parallelism flag is set, you must also set the number of "
    "successful pod completions",
    "runai submit x -i y --inference --interactive": "The flags --inference and --interactive cannot be used together",
    "runai submit X_1 -i y": "Job names must consist of lower case alphanumeric characters or '-' and start with an "
    "alphabetic character (e.g. 'my-name',  or 'abc-123')",
    "runai submit x -i y -p team-aa": "project team-aa was not found. Please run 'runai list project' to view all "
    "available projects",
}


@pytest.mark.parametrize("line", MESSAGES)
def test_messages_are_the_ones_people_know(server: Server, project: str, line: str) -> None:
    assert server.refused(line).splitlines()[0] == MESSAGES[line]


def test_everything_that_is_wrong_is_said_at_once(server: Server, project: str) -> None:
    said = server.refused("runai submit x -g 2.5 --elastic -e =1 --port 0 -s ingress --jupyter").splitlines()
    assert len(said) == 5
    said = server.refused("runai submit Bad_Name -i y --priority urgent --node-pools nowhere").splitlines()
    assert len(said) == 3


def test_a_name_that_is_taken_and_a_job_that_is_not_there(server: Server, project: str) -> None:
    server.typed("runai submit hyper1 -i y")
    taken = server.refused("runai submit hyper1 -i y")
    assert taken == "the job hyper1 already exists, please delete it first (use 'runai delete hyper1')\n"
    said = server.refused("runai logs hyper2").splitlines()
    elsewhere = "If the job exists in a different project, use -p <project name>."
    assert said == [f"The job hyper2 does not exist in project {project}. {elsewhere}", "Did you mean hyper1?"]
    said = server.refused(f"runai list jobs -p {project}x").splitlines()
    assert said[1].startswith(f"Did you mean {project}")


def test_a_project_that_is_not_there_is_named_with_the_one_that_was_meant(server: Server) -> None:
    server.typed("runai-adm project create lighthouse")
    for line in ("runai submit x -i y -p lighthuose", "runai list -p lighthuose"):
        assert server.refused(line).splitlines()[1] == "Did you mean lighthouse?"


def test_a_word_that_is_missing_is_told_with_the_whole_line(server: Server) -> None:
    assert server.refused("runai describe job") == "NAME is missing: runai describe job [FLAGS] NAME\n"
    assert server.refused("runai-adm create project x") == (
        "there is no command runai-adm create: did you mean runai-adm project create?\n"
    )


def test_who_is_not_signed_in_hears_of_that_before_projects(server: Server) -> None:
    said = server.refused("runai list", person="new-user")
    assert said == "User not authenticated, run the 'runai login' command.\n"


def test_a_list_without_jobs_says_how_to_get_one(server: Server, project: str) -> None:
    answer = server.type("runai list")
    assert answer.code == 0
    assert answer.err.startswith(f"There are no jobs in project {project}. To submit one: runai submit ")


def test_why_tells_how_the_last_try_ended(server: Server, project: str) -> None:
    server.typed("runai submit again -i img -g 1")
    server.runs(project, "again")
    server.waits_again(project, "again", exit_code=3)
    assert re.search(r"^Its last try, again-0-0, ended \d+s ago: exit code 3\.$", server.typed("runai why again"), re.M)


def test_long_reasons_go_on_below_in_a_narrow_terminal(server: Server, project: str) -> None:
    server.typed("runai submit long -i img")
    server.happened(server.id_of(project, "long"), "ended", "would not start it: " + "because of this " * 12)
    with terminal_of(server, "describe", "job", "long") as terminal:
        pass
    events = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text).replace("\r", "").partition("Events:")[2]
    assert all(len(line) <= 80 for line in events.splitlines()), events
    assert events.count("because of this") >= 8
    assert "Not shown" not in events


def test_without_a_project_nothing_is_submitted(server: Server) -> None:
    """F-10."""
    server.log_in("homeless")
    words = "Define a project by --project flag, alternatively set a project as default"
    said = server.refused("runai submit x -i y", person="homeless").splitlines()
    assert said[0] == words
    assert "runai config project NAME" in said[1]
    assert server.refused("runai list", person="homeless").splitlines()[0] == words


def test_names_are_made_up_where_none_is_given(server: Server, project: str) -> None:
    assert "Job job-0 submitted" in server.typed("runai submit -i y")
    assert "Job job-1 submitted" in server.typed("runai submit -i y")
    assert "Job sweep-0 submitted" in server.typed("runai submit -i y --name-prefix sweep")
    assert "the name is given twice" in server.refused("runai submit a --name b -i y")


def test_a_dry_run_prints_and_submits_nothing(server: Server, project: str) -> None:
    """F-125."""
    said = yaml.safe_load(server.typed("runai submit x -i y -g 0.5 --dry-run -- --epochs 3"))
    assert said["kind"] == "Training"
    assert said["spec"]["args"] == ["--epochs", "3"]
    assert server.typed("runai list -o name") == ""


def test_the_warning_and_the_notice_do_not_disturb_the_answer(server: Server, project: str) -> None:
    answer = server.type("runai submit x -i y --interactive --preemptible --command sleep --args 1")
    assert "Warning: Using the preemptible flag may lead to your resources being preempted without notice" in answer.err
    assert "use: runai submit NAME ... --command -- sleep 1" in answer.err
    assert "Interactive-Preemptible" in server.typed("runai list")
    quiet = server.type("runai submit y -i y --interactive --preemptible --command sleep --loglevel error")
    assert quiet.err == ""


def test_who_types_too_little_is_shown_what_there_is(server: Server) -> None:
    assert server.typed("runai").startswith("Usage: runai")
    assert "Example: runai describe job" in server.typed("runai describe")
    said = server.refused("runai describe hyper1")
    assert said == "there is no command runai describe hyper1: did you mean runai describe job hyper1?\n"


@pytest.mark.parametrize(
    ("target", "words"),
    [("/dev/full", "could not write the output: no space left"), (None, "standard output is closed")],
)
def test_an_answer_that_cannot_be_written_is_told(server: Server, target: str | None, words: str) -> None:
    shell = f"exec {shlex.join(COMMAND)} list jobs -p team-a >{target or '&-'}"
    done = subprocess.run(
        ["bash", "-c", shell], stderr=subprocess.PIPE, text=True, env=real_environment(server), check=False
    )
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_proxy_is_not_asked_for_this_machine(server: Server) -> None:
    assert server.typed("runai whoami", HTTP_PROXY="http://127.0.0.1:1", ALL_PROXY="http://127.0.0.1:1")


# --- completion --------------------------------------------------------------------------------------------------


def completed(server: Server, words: str, **environment: str) -> list[str]:
    """What TAB suggests in bash, after these words."""
    said = words.split(" ")
    reported = {"_RUNAI_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(said) - 1)}
    answer = server.type("runai", **reported, **environment)
    assert answer.code == 0, answer
    assert not answer.err
    return [line.partition(",")[2] for line in answer.out.splitlines() if line]


def test_tab_completes_commands_flags_and_names(server: Server, project: str) -> None:
    """F-126, F-127."""
    server.typed("runai submit hyper1 -i y")
    server.typed("runai submit hyper2 -i y")
    assert completed(server, "runai su") == ["submit", "submit-dist", "suspend"]
    assert completed(server, "runai list p") == ["projects", "pvc"]
    assert "--image-pull-policy" in completed(server, "runai submit --im")
    assert completed(server, "runai submit --image-pull-policy If") == ["IfNotPresent"]
    assert completed(server, "runai describe job hyp") == ["hyper1", "hyper2"]
    assert completed(server, f"runai logs -p {project} hyper1") == ["hyper1"]
    assert project in completed(server, "runai list jobs -p proj")
    assert "team-a" in completed(server, "runai config project team")
    server.typed("runai submit hyper3 -i y")
    assert completed(server, "runai delete hyper1 hyper") == ["hyper1", "hyper2"]  # as they were a moment ago


def test_tab_is_silent_where_nothing_can_be_asked(server: Server) -> None:
    assert completed(server, "runai logs x", FAIRPOOL_SERVER="127.0.0.1:1") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(server: Server, shell: str) -> None:
    script = server.typed(f"runai completion {shell}")
    assert "_RUNAI_COMPLETE" in script
    assert "runai" in script
    if shell == "bash":
        checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr


def test_version_needs_no_server(server: Server) -> None:
    assert server.typed("runai version --short", person="offline") == f"{__version__}\n"
    assert f"Version: {__version__}" in server.typed("runai version", person="offline")


def test_what_is_documented_and_not_there_yet_says_so(server: Server) -> None:
    assert "--idp-issuer-url cannot be set here" in server.refused("runai login --idp-issuer-url x")
