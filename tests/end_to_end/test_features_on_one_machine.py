"""Rows of docs/features.md, each shown as a person sees it: typed on a real platform, with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairpool.api import access
from fairpool.api import workload_spec as work
from fairpool.api.client import Client
from fairpool.control.store.local_database import LocalDatabase
from fairpool.control.store.migrations import downgrade
from fairpool.control.store.sqlite import Sqlite
from tests import needs
from tests.end_to_end.documented import outside_tmp
from tests.end_to_end.shared_platform import SLEEP, SharedPlatform
from tests.end_to_end.typist import Typist
from tests.git_server import a_repository, git_server
from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow

PAIR = ("v100-1", "v100-2")
SINGLES = {"a10-1": 23028, "a100-1": 81920, "a6000-1": 49152, "x9000-1": 20480}
"""Nodes with one GPU each, and its memory in MiB; no table of Fairpool's knows the last model."""

PASSWORD = "correct horse battery"


@pytest.fixture
def place() -> Iterator[Path]:
    with outside_tmp() as folder:
        yield folder


@pytest.fixture(scope="module")
def opened() -> Iterator[SharedPlatform]:
    """Two nodes of four GPUs; those with one GPU are cordoned until a test wants them."""
    with outside_tmp() as folder:
        platform = Running(folder / "data", config=folder / "admin" / "config")
        try:
            nodes = ("2x4:V100-32GB", "1x1:A10", "1x1:A100-80GB", "1x1:A6000", "1x1:X9000-20GB")
            platform.up(*(word for each in nodes for word in ("--nodes", each)))
            shared = SharedPlatform(platform, Typist(str(platform.status["address"]), folder))
            for name in SINGLES:
                shared.typed(f"runai-adm node cordon {name}")
            yield shared
        finally:
            platform.clean_up()


@pytest.fixture
def shared(opened: SharedPlatform) -> Iterator[SharedPlatform]:
    yield opened
    opened.tidy()


@pytest.fixture
def others(place: Path) -> Iterator[Running]:
    """A platform of a test's own."""
    platform = Running(place / "data", config=place / "config")
    try:
        platform.up()
        yield platform
    finally:
        platform.clean_up()


def node_of(shared: SharedPlatform, project: str, name: str) -> str:
    return str(shared.jobs(project)[name]["currentNodes"][0])


def why_it_waits(shared: SharedPlatform, project: str, name: str) -> str:
    shared.until(lambda: shared.jobs(project)[name]["phaseMessage"], "it is said why it waits")
    assert shared.status(project, name) == "Pending"
    return " ".join(shared.typed(f"runai why {name} -p {project}").split())


def counts(shared: SharedPlatform, *projects: str) -> tuple[int, ...]:
    return tuple(len(shared.running(each)) for each in projects)


def log_when_done(shared: SharedPlatform, project: str, name: str) -> str:
    shared.becomes(project, name, "Succeeded")
    return shared.typed(f"runai logs {name} -p {project}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


# --- GPUs ----------------------------------------------------------------------------------------------------------


def test_a_job_sees_the_memory_of_its_part_of_each_model_of_gpu(shared: SharedPlatform) -> None:
    """F-09, F-74, F-75, F-76: `nvidia-smi` in the job, on models that are known and on one that is not."""
    shared.project("parts", "-g 4")

    def shown_mib(name: str) -> int:
        (found,) = re.findall(r"/ (\d+)MiB", shared.says("parts", name, "nvidia-smi"))
        return int(found)

    for name, part, mib in (("half", 0.5, 16255), ("tenth", 0.1, 3251)):
        shared.submit("parts", name, f"-g {part}")
        shared.becomes("parts", name, "Running")
        assert shown_mib(name) == mib
    for node, whole_mib in SINGLES.items():
        model = node.removesuffix("-1")
        shared.typed(f"runai-adm node update {node} --label run.ai/type={model}")
        shared.typed(f"runai-adm node uncordon {node}")
        shared.submit("parts", model, f"-g 0.3 --node-type {model}")
        shared.becomes("parts", model, "Running")
        assert node_of(shared, "parts", model) == node
        assert shown_mib(model) == whole_mib * 3 // 10
        shown = shared.typed(f"runai describe node {node}")
        assert f"GPU MEMORY: {whole_mib} MiB each" in shown
        assert f"GPU TYPE: simulated {model.upper()}-" in shown
    assert shown_mib("a10") == 6908
    for node in SINGLES:
        shared.typed(f"runai-adm node cordon {node}")
        shared.typed(f"runai-adm node update {node} --label run.ai/type-")


def test_more_jobs_run_than_there_are_gpus(shared: SharedPlatform) -> None:
    """F-38."""
    gpus = sum(each.gpu_info.gpu_count for each in shared.platform.client.overview().nodes)
    shared.project("many", "-g 8")
    for number in range(gpus + 1):
        shared.submit("many", f"job-{number}", "-g 0.5")
    shared.until(lambda: counts(shared, "many") == (gpus + 1,), "all of them run")


def test_work_is_packed_on_few_gpus_and_few_nodes(shared: SharedPlatform) -> None:
    """F-45."""
    shared.project("packed", "-g 4")
    for name, flags in {"half-1": "-g 0.5", "half-2": "-g 0.5", "one-1": "-g 1", "one-2": "-g 1"}.items():
        shared.submit("packed", name, flags)
        shared.becomes("packed", name, "Running")
    device = [shared.says("packed", f"half-{each}", "printenv NVIDIA_VISIBLE_DEVICES") for each in (1, 2)]
    assert device[0] == device[1]
    assert len({node_of(shared, "packed", name) for name in shared.running("packed")}) == 1


# --- projects and departments --------------------------------------------------------------------------------------


def test_a_deleted_project_is_gone_and_takes_no_work(shared: SharedPlatform) -> None:
    """F-15."""
    shared.typed("runai-adm project create passing -g 1")
    shared.submit("passing", "job", "-g 1")
    shared.becomes("passing", "job", "Running")
    assert "passing" in shared.typed("runai list projects")
    shared.typed("runai-adm project delete passing --delete-jobs")
    shared.until(lambda: "passing" not in shared.typed("runai list projects"), "it is gone from the list")
    assert "passing" in shared.typist.refused(f"runai submit late -p passing -g 1 {SLEEP}")
    assert "passing" not in shared.typed("runai list -A")


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("--cpu 2", "--cpu 1", "holds 2 of its limit of 2 CPUs"),
        ("--memory 1Gi", "--memory 1Gi", "holds 1.07 GB of its limit"),
    ],
)
def test_work_without_gpus_waits_beyond_the_quota_of_cpus_and_memory(
    shared: SharedPlatform, first: str, second: str, words: str
) -> None:
    """F-17."""
    shared.project("cores", "-g 0 --cpu-quota 2 --memory-quota 1200 --over-quota off")
    shared.submit("cores", "first", first)
    shared.becomes("cores", "first", "Running")
    shared.submit("cores", "second", second)
    assert words in why_it_waits(shared, "cores", "second")
    shared.typed("runai delete first -p cores")
    shared.becomes("cores", "second", "Running")


def test_a_project_has_a_namespace_that_holds_its_jobs(shared: SharedPlatform) -> None:
    """F-20: two projects have jobs and claims of the same name, and neither sees the other's."""
    for name in ("here", "there"):
        shared.project(name, "-g 1")
        assert f"NAMESPACE: runai-{name}\n" in shared.typed(f"runai-adm project get {name}")
        claim = "--new-pvc claimname=home,size=1Gi,path=/claim"
        shared.submit(name, "same", claim, f"-i ubuntu -- bash -c 'echo {name} >> /claim/note; cat /claim/note'")
        assert log_when_done(shared, name, "same") == f"{name}\n"
        assert f"NAMESPACE: runai-{name}\n" in shared.typed(f"runai describe job same -p {name}")


def test_what_a_department_has_too_much_is_given_back_although_each_project_is_within_its_quota(
    shared: SharedPlatform,
) -> None:
    """F-26: 4 and 4 in a department of 6; the seventh GPU is over quota."""
    shared.typed("runai-adm department create research -g 6")
    shared.project("lab-1", "-g 4 --department research")
    shared.project("lab-2", "-g 4 --department research")
    for number in range(4):
        shared.submit("lab-1", f"job-{number}", "-g 1")
    shared.until(lambda: counts(shared, "lab-1") == (4,), "four run")
    for number in range(3):
        shared.submit("lab-2", f"job-{number}", "-g 1")
    shared.until(lambda: counts(shared, "lab-2") == (3,), "seven run")
    shared.project("owed", "-g 2")
    for number in range(2):
        shared.submit("owed", f"job-{number}", "-g 1")
    shared.until(lambda: counts(shared, "owed") == (2,), "it has what it is owed")
    assert sum(counts(shared, "lab-1", "lab-2")) == 6
    shared.tidy()
    shared.typed("runai-adm department delete research")


def test_projects_with_different_rules_behave_differently(shared: SharedPlatform) -> None:
    """F-43."""
    shared.project("strict", "-g 1 --over-quota off --interactive-time-limit 2s")
    shared.project("loose", "-g 1")
    for project in ("strict", "loose"):
        for name in ("train-1", "train-2"):
            shared.submit(project, name, "-g 1")
        shared.submit(project, "notebook", "--interactive -g 0")
    shared.becomes("strict", "notebook", "TimedOut")
    shared.until(lambda: shared.running("loose") == ["notebook", "train-1", "train-2"], "nothing holds it")
    assert "limit" in why_it_waits(shared, "strict", "train-2")
    assert shared.running("strict") == ["train-1"]


def test_a_job_that_leaves_its_gpu_idle_is_stopped_at_the_limit_after_a_warning(shared: SharedPlatform) -> None:
    """Samples are taken every 10 s. On a simulated GPU, CPU time counts as use of it."""
    shared.project("thrifty", "-g 2 --train-idle-limit 20s")
    shared.submit("thrifty", "sleeps", "-g 1")
    shared.submit(
        "thrifty", "works", "-g 1", "-i ubuntu -- sh -c 'while :; do timeout 0.3 yes > /dev/null; sleep 1; done'"
    )
    shared.becomes("thrifty", "sleeps", "TimedOut")
    assert shared.running("thrifty") == ["works"]
    described = shared.typed("runai describe job sleeps -p thrifty")
    assert "idle for 20s, the limit for training jobs in project thrifty" in described
    assert "unless it uses them" in described, "it was warned"


def test_an_administrator_changes_the_weights_and_shares_follow(shared: SharedPlatform) -> None:
    """F-44: what is idle goes three to one, and then one to three."""
    shared.project("first", "-g 0 --over-quota high")
    shared.project("second", "-g 0 --over-quota low")
    for project in ("first", "second"):
        for number in range(8):
            shared.submit(project, f"job-{number}", "-g 1")
    shared.until(lambda: counts(shared, "first", "second") == (6, 2), "they share 6 and 2")
    shared.typed("runai-adm project update first --over-quota low")
    shared.typed("runai-adm project update second --over-quota high")
    shared.until(lambda: counts(shared, "first", "second") == (2, 6), "they share 2 and 6")


def test_a_changed_quota_moves_gpus_between_teams(shared: SharedPlatform) -> None:
    """F-275."""
    shared.project("team-x", "-g 6")
    shared.project("team-y", "-g 2")
    for project in ("team-x", "team-y"):
        for number in range(8):
            shared.submit(project, f"job-{number}", "-g 1")
    shared.until(lambda: counts(shared, "team-x", "team-y") == (6, 2), "each has its quota")
    shared.typed("runai-adm project update team-x -g 2")
    shared.typed("runai-adm project update team-y -g 6")
    shared.until(lambda: counts(shared, "team-x", "team-y") == (2, 6), "each has its new quota")


# --- kinds of work -------------------------------------------------------------------------------------------------


def test_interactive_work_runs_until_it_is_deleted(shared: SharedPlatform) -> None:
    """F-55, F-136: other work comes and goes beside it."""
    shared.project("desk", "-g 1")
    shared.typed("runai submit shell -p desk -i ubuntu -g 1 --interactive --command sleep --args infinity")
    shared.becomes("desk", "shell", "Running")
    processes = shared.says("desk", "shell", 'sh -c \'cat /proc/[0-9]*/cmdline | tr "\\0" " "\'')
    assert "sleep infinity " in processes
    shared.submit("desk", "training", "", "-i ubuntu -- true")
    shared.becomes("desk", "training", "Succeeded")
    assert shared.status("desk", "shell") == "Running"
    shared.typed("runai delete shell -p desk")
    shared.until(lambda: "shell" not in shared.jobs("desk"), "it is gone")


@pytest.mark.parametrize(("name", "kind"), [("notebook", "--interactive"), ("model", "--inference --port 8000")])
def test_neither_reclaim_nor_priority_evicts_work_that_is_not_preemptible(
    shared: SharedPlatform, name: str, kind: str
) -> None:
    """F-56, F-64: not even when the quota it started in is taken away."""
    shared.project("holder", "-g 4")
    shared.project("owed", "-g 4")
    shared.submit("holder", name, f"{kind} -g 2")
    shared.submit("holder", "training", "-g 4")
    for each in (name, "training"):
        shared.becomes("holder", each, "Running")
    shared.submit("owed", "first", "--interactive -g 4")  # or it would give way to the second
    shared.becomes("owed", "first", "Running")
    shared.until(lambda: shared.running("holder") == [name], "the training gives way")
    shared.typed("runai-adm project update holder -g 0")
    shared.typed("runai-adm project update owed -g 8")
    shared.submit("owed", "second", "--inference -g 4 --port 8001")
    assert "owed" in why_it_waits(shared, "owed", "second")
    assert shared.running("holder") == [name]
    assert "Evicted" not in shared.typed(f"runai history {name} -p holder")


def test_an_elastic_job_grows_and_shrinks_while_it_runs(shared: SharedPlatform) -> None:
    """F-50, F-51: what runs already is not started again for it."""
    shared.project("elastic", "-g 2")
    shared.project("owner", "-g 6")
    shared.submit("owner", "large", "-g 4")
    shared.submit("owner", "small", "-g 2")
    shared.until(lambda: counts(shared, "owner") == (2,), "six GPUs are taken")
    spec = {"image": "ubuntu", "command": "sleep", "args": "1000", "compute": {"gpu": "1"}}
    body = {"name": "job", "projectId": "elastic", "spec": {**spec, "numWorkers": 8, "minReplicas": 1}}
    workload = shared.platform.client.submit(work.SubmitDistributed.model_validate(body))

    def has(gpus: int) -> None:
        shared.until(lambda: shared.jobs("elastic")["job"]["allocatedResources"]["gpu"] == gpus, f"it has {gpus} GPUs")

    has(2)
    shared.becomes("elastic", "job", "Running")
    before = {each.id for each in shared.platform.client.pods(workload.id) if each.phase == "running"}
    shared.typed("runai delete small -p owner")
    has(4)
    shared.typed("runai delete large -p owner")
    has(8)
    shared.submit("owner", "again", "-g 4")
    shared.becomes("owner", "again", "Running")
    has(4)
    assert shared.status("elastic", "job") == "Running"
    after = {each.id for each in shared.platform.client.pods(workload.id) if each.phase == "running"}
    assert before < after


def test_the_workers_of_a_distributed_job_on_two_nodes_talk_to_each_other(shared: SharedPlatform) -> None:
    """F-68: the worker sends its node's name to the master, which answers with its own."""
    shared.project("dist", "-g 8")
    program = """
import os, socket, time
there = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    with socket.create_server(there) as server:
        peer, _ = server.accept()
        peer.sendall(os.environ["NODE_NAME"].encode())
else:
    while True:
        try:
            peer = socket.create_connection(there)
            break
        except OSError:
            time.sleep(0.1)
    peer.sendall(os.environ["NODE_NAME"].encode())
    peer.shutdown(socket.SHUT_WR)
print(os.environ["NODE_NAME"], "hears", peer.recv(100).decode(), flush=True)
time.sleep(1000)
"""
    shared.typed(f"runai submit-dist pytorch job -p dist -i python -g 4 --workers 1 -- python -c '{program}'")

    def said(pod: int) -> list[str]:
        return shared.typist.type(f"runai logs job -p dist --pod job-{pod}-0").out.split()

    shared.until(lambda: len(said(0)) == len(said(1)) == 3, "both have heard")
    assert said(0) == said(1)[::-1]
    assert {said(0)[0], said(1)[0]} == set(PAIR)


def test_a_workspace_is_an_interactive_job(shared: SharedPlatform) -> None:
    """F-158."""
    shared.project("desk", "-g 1")
    spec = {"image": "ubuntu", "command": "sleep", "args": "1000", "compute": {"gpu": "0.5"}}
    body = {"name": "space", "projectId": "desk", "spec": spec}
    shared.platform.client.submit(work.SubmitWorkspace.model_validate(body))
    shared.becomes("desk", "space", "Running")
    assert re.search(r"^space +Running .* Interactive +desk ", shared.typed("runai list jobs -p desk"), re.MULTILINE)


def test_two_models_answer_from_one_server_on_a_quarter_of_a_gpu(shared: SharedPlatform) -> None:
    """F-177."""
    shared.project("models", "-g 1")
    port = free_port()
    program = f"""
from http.server import BaseHTTPRequestHandler, HTTPServer
models = {{"/upper": str.upper, "/reversed": lambda text: text[::-1]}}
class Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        said = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(models[self.path](said).encode())
HTTPServer(("127.0.0.1", {port}), Answer).serve_forever()
"""
    shared.typed(f"runai submit both -p models -i python --inference -g 0.25 --port {port} -- python -c '{program}'")
    shared.becomes("models", "both", "Running")
    listed = shared.typed("runai list -p models")
    assert re.search(r"^both +Running .* 0\.25 \(0\.25\) ", listed, re.MULTILINE)
    (gateway,) = re.findall(rf"http://localhost:(\d+)/both-{port}", listed)
    identity = json.loads(shared.typed("runai describe job both -p models -o json"))["workload"]["id"]
    headers = {
        "Host": f"{identity}-{port}.localhost:{gateway}",
        "Authorization": f"Bearer {shared.platform.owner_token()}",
    }

    def answered(path: str) -> str:
        request = urllib.request.Request(f"http://127.0.0.1:{gateway}{path}", b"model", headers)
        try:
            return str(urllib.request.urlopen(request, timeout=10).read().decode())
        except OSError:
            return ""

    shared.until(lambda: answered("/upper"), "it answers")
    assert (answered("/upper"), answered("/reversed")) == ("MODEL", "ledom")


# --- nodes ---------------------------------------------------------------------------------------------------------


def test_a_node_has_one_type_and_several_have_the_same(shared: SharedPlatform) -> None:
    """F-93."""
    for kind in ("dgx-1", "dgx-2"):
        shared.typed(f"runai-adm node update v100-1 --label run.ai/type={kind}")
    shared.typed("runai-adm node update v100-2 --label run.ai/type=dgx-2")
    for node in PAIR:
        assert re.findall(r"run\.ai/type=([\w-]+)", shared.typed(f"runai describe node {node}")) == ["dgx-2"]
    shared.project("typed", "-g 8")
    for name in ("one", "two"):
        shared.submit("typed", name, "-g 4 --node-type dgx-2")
        shared.becomes("typed", name, "Running")
    assert {node_of(shared, "typed", name) for name in ("one", "two")} == set(PAIR)
    for node in PAIR:
        shared.typed(f"runai-adm node update {node} --label run.ai/type-")


def test_a_team_has_its_own_hardware_to_itself(shared: SharedPlatform) -> None:
    """F-96: each project is limited to its nodes, and a full node does not spill over to the idle one."""
    owned = dict(zip(("owner", "guest"), PAIR, strict=True))
    for project, node in owned.items():
        shared.typed(f"runai-adm node update {node} --label run.ai/type={project}")
        shared.project(project, f"-g 4 --node-types-train {project} --node-types-interactive {project}")
    for number in range(6):
        shared.submit("guest", f"job-{number}", "-g 1")
    shared.until(lambda: counts(shared, "guest") == (4,), "its own node is full")
    waits = next(name for name, job in shared.jobs("guest").items() if job["classicStatus"] != "Running")
    why_it_waits(shared, "guest", waits)
    shared.submit("owner", "job", "-g 4")
    shared.becomes("owner", "job", "Running")
    assert {node_of(shared, "guest", name) for name in shared.running("guest")} == {owned["guest"]}
    assert node_of(shared, "owner", "job") == owned["owner"]
    for node in PAIR:
        shared.typed(f"runai-adm node update {node} --label run.ai/type-")


def test_the_label_of_a_system_node_does_what_the_command_does(shared: SharedPlatform) -> None:
    """F-97, F-98, F-104."""

    def listed() -> str:
        line = re.search(r"^v100-1 .*$", shared.typed("runai list nodes"), re.MULTILINE)
        assert line is not None
        return line[0]

    plain = listed()
    shared.typed("runai-adm set node-role --runai-system-worker v100-1")
    marked = listed()
    assert " runai-system " in marked
    shared.typed("runai-adm remove node-role --runai-system-worker v100-1")
    assert listed() == plain
    shared.typed("runai-adm node update v100-1 --label node-role.kubernetes.io/runai-system=true")
    assert listed() == marked
    shared.typed("runai-adm remove node-role --runai-system-worker v100-1")
    assert listed() == plain


# --- what a job is told --------------------------------------------------------------------------------------------


def test_arguments_and_variables_reach_the_program_in_their_order(shared: SharedPlatform) -> None:
    """F-136, F-137, F-139, F-261."""
    shared.project("words", "-g 1")
    uri = "http://mlflow.example.com:5000"
    reported = 'import os, sys; print(sys.argv[1:], os.environ.get("MLFLOW_TRACKING_URI"), os.environ.get("TWO"))'
    arguments = " ".join(f"--args {each}" for each in ("-c", f"'{reported}'", "c", "a", "b", "a"))
    flags = f"-e MLFLOW_TRACKING_URI={uri} -e TWO='two words' --command python {arguments}"
    shared.typed(f"runai submit job -p words -i python {flags}")
    assert log_when_done(shared, "words", "job") == f"['c', 'a', 'b', 'a'] {uri} two words\n"


def test_a_job_without_a_command_ends_at_once(shared: SharedPlatform) -> None:
    """F-138."""
    shared.project("words", "-g 1")
    shared.typed("runai submit job -p words -i python -g 1")
    assert log_when_done(shared, "words", "job") == ""


def test_folders_of_the_machine_are_mounted(shared: SharedPlatform) -> None:
    """F-140, F-154."""
    shared.project("mounts", "-g 1")
    folders = [Path(tempfile.mkdtemp(prefix="fairpool-mount-")) for _ in range(2)]
    try:
        for number, folder in enumerate(folders):
            folder.chmod(0o755)
            (folder / "note").write_text(f"note {number}\n")
        flags = f"-v {folders[0]}:/one -v {folders[1]}:/two:ro"
        shared.submit("mounts", "job", flags, "-i ubuntu -- cat /one/note /two/note")
        assert log_when_done(shared, "mounts", "job") == "note 0\nnote 1\n"
        shown = shared.typed("runai get job -p mounts")
        assert re.search(rf"^{folders[0]} +/one +rw$", shown, re.MULTILINE)
        assert re.search(rf"^{folders[1]} +/two +ro$", shown, re.MULTILINE)
    finally:
        for folder in folders:
            shutil.rmtree(folder)


def test_two_jobs_read_the_same_claim_at_the_same_time(shared: SharedPlatform) -> None:
    """F-153, F-154."""
    shared.project("claims", "-g 2")
    shared.submit(
        "claims",
        "writer",
        "--new-pvc claimname=test,size=1Gi,path=/data,accessmode-rwm",
        "-i ubuntu -- touch /data/note",
    )
    shared.becomes("claims", "writer", "Succeeded")
    readers = ("pvc-test", "pvc-too")
    for name in readers:
        shared.submit("claims", name, "-g 1 --pvc test:/tmp/pvc1mount")
    shared.until(lambda: shared.running("claims") == list(readers), "both run")
    for name in readers:
        assert shared.says("claims", name, "ls /tmp/pvc1mount") == "note\n"
        assert re.search(r"^pvc test +/tmp/pvc1mount +rw$", shared.typed(f"runai get {name} -p claims"), re.MULTILINE)


@pytest.mark.flag("--git-sync", "--configmap-volume")
def test_a_job_has_its_repository_its_settings_and_a_claim_that_goes_with_it(shared: SharedPlatform) -> None:
    """F-152 with --git-sync, config maps and `ephemeral`, each with its effect in a real pod."""
    needs.program("git", "git")
    folder = Path(tempfile.mkdtemp(prefix="fairpool-git-", dir="/var/tmp"))
    try:
        folder.chmod(0o755)
        _, first, _ = a_repository(folder)
        shared.project("equipped", "-g 1")
        shared.typed("runai configmap create settings -p equipped --from-literal epochs=3 --from-literal b.yaml=x")
        with git_server(folder) as address:
            flags = f"--git-sync source={address}/project.git,branch=dev,target=/src"
            flags += " --configmap-volume name=settings,path=/etc/settings -e EPOCHS=CONFIGMAP:settings,epochs"
            flags += " --new-pvc claimname=scratch,size=1Gi,path=/scratch,ephemeral"
            script = "cat /src/note; echo $EPOCHS; ls /etc/settings; touch /scratch/x; sleep 1000"
            shared.submit("equipped", "job", flags, f"-i ubuntu -- bash -c '{script}'")
            shared.becomes("equipped", "job", "Running")
        wanted = "first\n3\nb.yaml\nepochs\n"
        shared.until(lambda: shared.typed("runai logs job -p equipped").endswith(wanted), "it has all of them")
        assert f"/src is at {first}" in shared.typed("runai logs job -p equipped")
        shown = shared.typed("runai describe job job -p equipped")
        assert re.search(r"^pvc scratch +/scratch +rw$", shown, re.MULTILINE)
        assert re.search(r"^config map settings +/etc/settings +ro$", shown, re.MULTILINE)
        claim = shared.platform.data_directory.root / "machine" / "claims" / "equipped" / "scratch"
        assert (claim / "x").exists()
        refused = shared.typist.type("runai pvc delete scratch -p equipped")
        assert "claim scratch is used by job: delete those jobs first" in refused.err
        shared.typed("runai delete job -p equipped")
        shared.until(lambda: not claim.exists(), "the claim has gone with its job")
        assert "scratch" not in shared.typed("runai list pvc -p equipped")
    finally:
        shutil.rmtree(folder)


# --- people and the platform ---------------------------------------------------------------------------------------


def test_one_installation_serves_several_people(shared: SharedPlatform, tmp_path: Path) -> None:
    """F-132: the same command, each with a home, a login and a default project of their own."""

    def types(person: str, *arguments: str, stdin: str = "") -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
        reported = {"HOME": str(tmp_path / person), "FAIRPOOL_SERVER": str(shared.platform.status["address"])}
        command = [sys.executable, "-m", "fairpool.cli.runai.main", *arguments]
        done = subprocess.run(
            command, env=kept | reported, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    people = {"ann": "paint", "bob": "print"}
    for person, project in people.items():
        (tmp_path / person).mkdir()
        shared.project(project, "-g 1")
        said = shared.typed(f"runai-adm user create {person}@example.com --project {project}")
        given = re.search(r"once: (\S+)", said)
        assert given is not None
        types(person, "login", "-u", f"{person}@example.com", "--password-stdin", stdin=f"{given[1]}\n")
        types(person, "password", "--stdin", stdin=f"{given[1]}\n{PASSWORD}\n")
        types(person, "config", "project", project)
    for person, project in people.items():
        types(person, "submit", "mine", "-i", "ubuntu", "-g", "0.5", "--", "sleep", "1000")
        shared.becomes(project, "mine", "Running")
        assert shared.jobs(project)["mine"]["submittedBy"] == f"{person}@example.com"
        assert f"Showing jobs for project {project}" in types(person, "list")
        assert f"{person}@example.com" in types(person, "whoami")
        shared.typed(f"runai-adm user delete {person}@example.com")


def test_without_a_token_neither_people_nor_clusters_are_answered(shared: SharedPlatform) -> None:
    """F-211: every documented call that is not open, and the socket of the owner."""
    platform = shared.platform
    address = str(platform.status["address"])
    described = json.loads(urllib.request.urlopen(f"{address}/api/openapi.json", timeout=60).read())
    asked = set()
    for path, item in described["paths"].items():
        for method, operation in item.items():
            if operation["x-permission"] == "open":
                continue
            request = urllib.request.Request(f"{address}{re.sub('{.*?}', 'x', path)}", method=method.upper())
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=60)
            assert refused.value.code == 401, (method, path)
            asked.add(operation["x-permission"])
    assert {"cluster.link", "workload.submit", "project.read"} <= asked
    assert platform.data_directory.admin_socket.stat().st_mode & 0o077 == 0


def _state(client: Client, but: str = "") -> dict[str, object]:
    """What a person would miss if it were not there; but for one job."""
    jobs = {each.name: (each.id, each.submitted_by) for each in client.all_workloads() if each.name != but}
    return {
        "projects": {each.name: each.resources for each in client.projects()},
        "departments": {each.name: each.resources for each in client.departments()},
        "users": sorted(each.username for each in client.users()),
        "rules": sorted((each.subject_id, each.role_id, each.scope_id) for each in client.access_rules()),
        "jobs": jobs,
        "history": {name: client.history(found) for name, (found, _) in jobs.items()},
    }


def _lived_in(platform: Running) -> Client:
    """With a project, a user who may work in it, and a job that has run."""
    client = platform.client
    body = {"email": "ann@example.com", "password": PASSWORD, "needToChangePassword": False}
    client.create_user(access.UserRequest.model_validate(body))
    rule = {"subjectId": "ann@example.com", "roleId": "researcher", "scopeType": "project", "scopeId": "team-a"}
    client.create_access_rule(access.AccessRuleRequest.model_validate(rule))
    platform.until_phase(platform.submit("done", "print(1)"), "Completed")
    return client


def test_projects_users_and_history_survive_a_wiped_machine(others: Running, place: Path) -> None:
    """F-256."""
    before = _state(_lived_in(others))
    assert others.command("backup", str(place / "backup")).returncode == 0
    others.down("--stop-pods")
    shutil.rmtree(others.data_directory.root)
    restored = others.command("restore", str(place / "backup"))
    assert restored.returncode == 0, restored.stderr
    others.up()
    others.until_phase(others.submit("later", "print(2)"), "Completed")  # so that the loop has told what it knows
    assert _state(others.client, "later") == before
    with Client(others.status["address"]) as client:
        assert not client.sign_in("ann@example.com", PASSWORD).must_change_password


@pytest.mark.parametrize("version", ["0001", "0004", "0006"])
def test_an_upgrade_keeps_data_settings_and_what_runs(others: Running, version: str) -> None:
    """F-245: the database as an earlier release left it."""
    client = _lived_in(others)
    runs = others.submit("runs", "import time; time.sleep(600)")
    others.until_phase(runs, "Running")
    before = _state(client)
    others.down()

    async def take_back() -> None:
        database = LocalDatabase(Sqlite(others.data_directory.control))
        await database.open(lambda connection: downgrade(connection, version))
        await database.close()

    asyncio.run(take_back())
    others.up()
    others.until_phase(others.submit("later", "print(2)"), "Completed")
    assert _state(others.client, "later") == before
    others.until_phase(runs, "Running")
    with Client(others.status["address"]) as ann:
        assert not ann.sign_in("ann@example.com", PASSWORD).must_change_password


@pytest.mark.flag("--data-source", "--environment-asset", "--compute-resource")
def test_a_job_gets_image_variables_resources_and_data_from_assets(shared: SharedPlatform, place: Path) -> None:
    """The values of an environment, a compute resource and a data source act in the pod, also after they are gone."""
    place.joinpath("f.txt").write_text("from the data source")
    place.chmod(0o755)
    shared.project("equipped", "--gpu-quota 4")
    shared.typed("runai-adm environment create base -i python -e EPOCHS=3 --command -- python -c")
    shared.typed("runai-adm compute create half -g 0.5 --memory 100M -p equipped")
    shared.typed(f"runai-adm datasource create files -v {place}:/elsewhere:ro")
    said = "import os, time; print(os.environ['EPOCHS'], open('/data/f.txt').read(), flush=True); time.sleep(1000)"
    line = "--environment-asset base --compute-resource half --data-source files:/data"
    shared.typed(f'runai submit t1 -p equipped {line} -- "{said}"')
    for command in ("environment delete base", "compute delete half", "datasource delete files"):
        shared.typed(f"runai-adm {command}")
    shared.becomes("equipped", "t1", "Running")
    shared.until(
        lambda: shared.typed("runai logs t1 -p equipped") == "3 from the data source\n", "it has read its data"
    )
    assert shared.jobs("equipped")["t1"]["allocatedResources"]["gpu"] == 0.5
    described = shared.typed("runai describe job t1 -p equipped")
    for field, origin in (
        ("image", "environment base (tenant)"),
        ("command", "environment base (tenant)"),
        ("compute.gpu", "compute resource half (project)"),
        ("storage.hostPath", "data source files (tenant)"),
    ):
        assert re.search(rf"^{re.escape(field)} +{re.escape(origin)}$", described, re.MULTILINE), described
