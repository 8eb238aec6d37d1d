"""The whole product on two real nodes: commands as a person types them, and containers that really run.

`fairpool control` and `fairpool cluster --engine kubernetes` are processes of their own; nodes are those of `nodes.py`.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from fairpool.engines.kubernetes.names import RESERVATION_NAMESPACE
from fairpool.engines.kubernetes.objects import SHARED_GPUS
from tests.end_to_end.test_gateway_on_one_machine import Person
from tests.kubernetes import images
from tests.kubernetes.device_ids import device_ids
from tests.kubernetes.nodes import Cluster, Node
from tests.kubernetes.real_nodes_typist import NAMESPACE, SMALL, RealNodesTypist, clear_away
from tests.kubernetes.test_nodes import retried
from tests.kubernetes.typist import Pod, is_running, watched
from tests.monitoring import until

pytestmark = pytest.mark.slow

BUSYBOX = images.BUSYBOX
FOREVER = "trap 'exit 5' TERM; while :; do sleep 0.1; done"
SERVES = "mkdir /tmp/www; hostname >/tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"


@pytest.fixture(scope="module")
def platform(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNodesTypist]:
    by_hand = {"metadata": {"name": "by-hand"}, "provisioner": "kubernetes.io/no-provisioner"}
    cluster.plane.admin.create("/apis/storage.k8s.io/v1/storageclasses", by_hand)
    made = RealNodesTypist(tmp_path_factory.mktemp("platform"), cluster)
    with watched(made):
        made.typed("runai-adm project create team-a --gpu-quota 16")
        yield made
    clear_away(cluster.plane)
    cluster.plane.admin.delete("/apis/storage.k8s.io/v1/storageclasses/by-hand")


@pytest.fixture
def person(platform: RealNodesTypist) -> Iterator[RealNodesTypist]:
    """Jobs are deleted after each test, and their pods with them."""
    yield platform
    platform.delete_all()
    until(lambda: not platform.own_pods(), "no pod is left")


# --- one job -------------------------------------------------------------------------------------------------------


def test_a_job_gets_gpus_of_one_node_writes_and_ends(person: RealNodesTypist) -> None:
    person.submit_script("hello", "echo gpus $NVIDIA_VISIBLE_DEVICES; echo on $(hostname)", "-g 2")
    person.until_in("hello", "Completed")
    (pod,) = person.pods("hello")
    given = person.logs("hello").splitlines()[0].removeprefix("gpus ").split(",")
    assert len(set(given)) == 2
    assert set(given) <= set(device_ids(str(pod.node), 8))
    assert pod.exit_code == 0


def test_logs_are_followed_until_the_end(person: RealNodesTypist) -> None:
    person.run("talks", "n=0; while [ $n -lt 20 ]; do echo line $n; n=$((n+1)); sleep 0.2; done")
    lines = person.typed("runai logs talks -p team-a --follow").splitlines()
    assert lines == [f"line {number}" for number in range(20)]


def test_exec_and_attach_reach_the_program(person: RealNodesTypist) -> None:
    script = "while read line; do echo heard $line; [ $line != end ] || exit 4; done"
    person.run("worker", script, "--stdin --interactive")
    with person.begin("runai exec -i worker -p team-a -- sh -c 'cat; exit 3'") as process:
        out, err = process.communicate("typed", timeout=60)
    assert (out, process.returncode) == ("typed", 3), err
    with person.begin("runai attach worker -p team-a --no-tty") as process:
        out, err = process.communicate("you\nend\n", timeout=60)
    assert "heard you" in out, err
    person.until_in("worker", "Failed")
    assert person.pods("worker")[-1].exit_code == 4


def test_a_port_is_forwarded(person: RealNodesTypist) -> None:
    pod = person.run("web", SERVES)
    with person.forwarding("web", 8080) as port:
        assert until(lambda: _fetched(port), "the program listens").startswith("web-0-0")
    assert pod.node


def test_a_web_tool_is_reached_through_the_gateway_by_members_only(person: RealNodesTypist) -> None:
    person.run("tool", SERVES, "--interactive --service-type=ingress --port 8080")
    until(lambda: person.jobs()["tool"].urls, "it has an address")
    workload = person.jobs()["tool"].id
    at = f"http://{workload}-8080.localhost:{person.gateway}/"
    token = {"Authorization": f"Bearer {person.owner_token()}", "Accept": "*/*"}
    until(lambda: Person().request("GET", at, **token)[0] == 200, "it answers")
    assert Person().request("GET", at, **token)[2].startswith("tool-0-0")
    assert Person().request("GET", at, Accept="*/*")[0] == 401


def test_a_failed_job_says_its_exit_code(person: RealNodesTypist) -> None:
    person.submit_script("broken", "echo no such file >&2; exit 3", "--backoff-limit 0")
    person.until_in("broken", "Failed")
    assert "exit code 3" in person.typed("runai describe job broken -p team-a")
    assert person.logs("broken") == "no such file\n"


def test_a_job_that_exceeds_its_memory_says_so(person: RealNodesTypist) -> None:
    person.submit_script("greedy", "tail /dev/zero", "--backoff-limit 0 --memory-limit 24M")
    person.until_in("greedy", "Failed")
    assert "OOMKilled" in person.typed("runai describe job greedy -p team-a")


def test_an_image_that_cannot_be_pulled_is_named(person: RealNodesTypist) -> None:
    person.typed(f"runai submit nowhere -i registry.example/nowhere:1 {SMALL} -p team-a")
    person.until_jobs(lambda jobs: "ImagePull" in jobs["nowhere"].phase_message, "its image is missing")
    said = person.typed("runai describe job nowhere -p team-a")
    assert "registry.example/nowhere:1" in said
    assert "ImagePull" in said


def test_a_deleted_job_gets_sigterm_and_leaves_nothing(person: RealNodesTypist) -> None:
    person.run("worker", f"echo started; {FOREVER}", "-g 1 --service-type=nodeport --port 8080")
    assert person.kubectl("get", "services", "-o", "name")
    person.delete("worker")
    until(lambda: not person.own_pods(), "its pod is gone")
    until(lambda: not person.kubectl("get", "services", "-o", "name"), "its service is gone")


# --- several pods --------------------------------------------------------------------------------------------------


def test_the_pods_of_a_distributed_job_are_on_both_nodes_and_find_each_other_by_name(person: RealNodesTypist) -> None:
    ask = retried("wget -qO- http://$MASTER_ADDR:8080/")
    script = f"if [ $RANK = 0 ]; then {SERVES}; else {ask}; echo rank $RANK of $WORLD_SIZE; {FOREVER}; fi"
    flags = f"-i {BUSYBOX} -g 6 {SMALL} --workers 1 -p team-a"
    person.typed(f"runai submit-dist pytorch gang {flags} -- sh -c {quote(script)}")
    person.until_runs("gang")
    assert {each.node for each in person.pods("gang")} == {"node-1", "node-2"}
    said = until(lambda: person.typed("runai logs gang -p team-a --pod 1"), "the worker has reached the master")
    assert said.split() == ["gang-0", "rank", "1", "of", "2"]


def test_the_launcher_of_mpi_has_a_host_file_with_names_of_its_workers(person: RealNodesTypist) -> None:
    """A connection that is refused was to an address: the name is known."""
    is_known = retried("wget -qO- http://$host:9/ 2>&1 | grep -q refused")
    script = f"while read host slots; do {is_known}; echo $host $slots; done <$FAIRPOOL_HOSTFILE"
    flags = f"-i {BUSYBOX} -g 6 {SMALL} --workers 2 -p team-a"
    person.typed(f"runai submit-dist mpi ring {flags} -- sh -c {quote(script)}")
    person.until_in("ring", "Completed")
    assert {each.node for each in person.pods("ring") if each.index > 0} == {"node-1", "node-2"}
    lines = person.typed("runai logs ring -p team-a --pod 0").splitlines()
    assert [line.partition(".")[0] for line in lines] == ["ring-worker-0", "ring-worker-1"]


def test_sixteen_halves_at_once_land_two_on_each_device(person: RealNodesTypist) -> None:
    names = [f"half-{number}" for number in range(16)]
    script = "echo $NVIDIA_VISIBLE_DEVICES; sleep 1000"
    for process in [_begun(person, name, script) for name in names]:
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, out + err
    person.until_runs(*names)
    pods = [each for each in person.own_pods() if is_running(each)]
    devices = [each["metadata"]["annotations"][SHARED_GPUS] for each in pods]
    assert len(devices) == 16
    assert {devices.count(each) for each in devices} == {2}
    seen = {each["metadata"]["name"]: _log(person, each).strip() for each in pods}
    assert sorted(seen.values()) == sorted(devices), "each sees the device that it was given"
    person.delete_all()
    path = f"/api/v1/namespaces/{RESERVATION_NAMESPACE}/pods"
    until(lambda: not person.plane.admin.get(path)["items"], "no GPU stays reserved")


def _begun(person: RealNodesTypist, name: str, script: str) -> subprocess.Popen[str]:
    return person.begin(f"runai submit {name} -i {BUSYBOX} -g 0.5 {SMALL} -p team-a -- sh -c {quote(script)}")


def _log(person: RealNodesTypist, pod: Pod) -> str:
    metadata = pod["metadata"]
    return str(person.plane.admin.get(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"))


# --- what kubectl shows --------------------------------------------------------------------------------------------


def test_kubectl_shows_why_a_job_waits_and_why_a_pod_was_stopped(person: RealNodesTypist) -> None:
    for name in ("one", "two"):
        person.run(name, FOREVER, "-g 8")
    person.submit_script("three", FOREVER, "-g 8")
    waits = until(lambda: _event(person, "workload/three", "FailedScheduling"), "there is an event")
    assert waits[:2] == ["Warning", "FailedScheduling"]
    said = person.typed("runai why three -p team-a")
    assert " ".join(waits[3:]) in " ".join(said.split()), "in the same words"
    (pod,) = person.objects("one")
    person.typed("runai suspend one -p team-a")
    stops = until(lambda: _event(person, f"pod/{pod['metadata']['name']}", "Suspended"), "there is an event")
    assert "was suspended" in " ".join(stops)
    person.until_runs("three")
    shown = person.kubectl("get", "pods", "--label-columns", "project,release")
    assert "team-a" in shown
    assert "three" in shown


def _event(person: RealNodesTypist, about: str, reason: str) -> list[str]:
    """Type, reason, object and the words of the message of an event."""
    columns = "TYPE:.type,REASON:.reason,KIND:.involvedObject.kind,NAME:.involvedObject.name,MESSAGE:.message"
    kind, _, name = about.partition("/")
    for line in person.kubectl("get", "events", "-o", f"custom-columns={columns}", "--no-headers").splitlines():
        type_, why, of, called, *message = line.split()
        if (of.lower(), called, why) == (kind, name, reason):
            return [type_, why, about, *message]
    return []


# --- services and volumes ------------------------------------------------------------------------------------------


def test_services_of_a_job_answer_by_name_and_on_every_node(person: RealNodesTypist) -> None:
    person.run("web", SERVES, "--interactive --service-type=nodeport --port 8080")
    services = json.loads(person.kubectl("get", "services", "-o", "json"))["items"]
    (port,) = [each["spec"]["ports"][0]["nodePort"] for each in services if each["spec"]["type"] == "NodePort"]
    for node in person.real.nodes:
        assert until(lambda at=node: _answer(person, at, port), f"{node.name} answers").startswith("web-0-0")  # type: ignore[misc]
    person.submit_script("client", retried("wget -qO- http://web:8080/"))
    person.until_in("client", "Completed")
    assert person.logs("client").startswith("web-0-0")


def _answer(person: RealNodesTypist, node: Node, port: int) -> str:
    try:
        with person.real.connect(node.address, port) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return str(connection.makefile().read().split()[-1])
    except (OSError, IndexError):
        return ""


def test_a_new_claim_keeps_what_a_job_wrote(person: RealNodesTypist, tmp_path: Path) -> None:
    _offer_volume(person, tmp_path / "volume")
    until(lambda: _has_class(person, "by-hand"), "the control plane knows the storage class")
    claim = "claimname=kept,storageclass=by-hand,size=1G,path=/data"
    person.submit_script("writer", "echo kept >/data/file", f"--new-pvc {claim}")
    person.until_in("writer", "Completed")
    person.submit_script("reader", "cat /data/file", "--pvc kept:/data")
    person.until_in("reader", "Completed")
    assert person.logs("reader") == "kept\n"
    person.plane.admin.delete("/api/v1/persistentvolumes/by-hand")  # as soon as the claim is gone


def _has_class(person: RealNodesTypist, name: str) -> bool:
    request = urllib.request.Request(f"{person.address}/api/v2/storage-classes")
    request.add_header("Authorization", f"Bearer {person.owner_token()}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return name in [each["storageClassName"] for each in json.load(answer)["items"]]


def _offer_volume(person: RealNodesTypist, folder: Path) -> None:
    """Both nodes see the files of this machine."""
    folder.mkdir(mode=0o777)
    admin = person.plane.admin
    spec: dict[str, Any] = {"storageClassName": "by-hand", "capacity": {"storage": "10Gi"}}
    spec |= {"accessModes": ["ReadWriteOnce", "ReadWriteMany"], "hostPath": {"path": str(folder)}}
    admin.create("/api/v1/persistentvolumes", {"metadata": {"name": "by-hand"}, "spec": spec})


# --- nodes that fail -----------------------------------------------------------------------------------------------


def test_a_kubelet_that_is_killed_and_started_again_disturbs_no_job(person: RealNodesTypist) -> None:
    pod = person.run("worker", f"echo started; {FOREVER}", "-g 1")
    node = next(each for each in person.real.nodes if each.name == pod.node)
    node.kubelet.restart()
    until(node.is_ready, "the node is ready")
    until(node.gpus_are_allocatable, "its GPUs are there")
    other = person.run("next", FOREVER, "-g 1")
    assert other.node
    assert [each.id for each in person.pods("worker")] == [pod.id]
    assert person.phase(person.jobs()["worker"].id) == "Running"


def test_the_jobs_of_a_node_that_lost_power_run_again(person: RealNodesTypist) -> None:
    pod = person.run("worker", FOREVER, "-g 2")
    node = next(each for each in person.real.nodes if each.name == pod.node)
    person.real.turn_off(node)
    try:
        until(lambda: not node.is_ready(), "the node is found lost")
        person.until_jobs(lambda jobs: jobs["worker"].phase == "Degraded", "that is shown")
        assert "does not respond" in person.jobs()["worker"].phase_message
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "off", "effect": "NoExecute"}
        person.plane.admin.patch(f"/api/v1/nodes/{node.name}", {"spec": {"taints": [taint]}})
        person.until_runs("worker")
        moved = person.pods("worker")[-1]
        assert (moved.incarnation, moved.node != node.name) == (1, True)
    finally:
        person.plane.admin.patch(f"/api/v1/nodes/{node.name}", {"spec": {"taints": None}})
        person.real.turn_on(node)
    assert [each.incarnation for each in person.pods("worker")] == [0, 1], "the node that came back changes nothing"
    until(lambda: len(person.objects("worker")) == 1, "the old pod's object is gone")


def test_the_jobs_of_a_node_that_rebooted_run_again(person: RealNodesTypist) -> None:
    pod = person.run("worker", FOREVER, "-g 2")
    node = next(each for each in person.real.nodes if each.name == pod.node)
    person.real.reboot(node)
    person.until_jobs(lambda jobs: len(person.pods("worker")) == 2, "it has another pod")
    person.until_runs("worker")


def test_a_cluster_program_that_is_killed_disturbs_no_job(person: RealNodesTypist) -> None:
    first = person.run("first", f"echo started; {FOREVER}", "-g 1")
    assert person.cluster is not None
    person.cluster.kill()
    person.submit_script("second", "echo done", "-g 1")
    person.cluster.up()
    person.until_in("second", "Completed")
    assert [each.id for each in person.pods("first")] == [first.id]
    assert person.logs("first") == "started\n"


def test_a_job_that_is_stopped_while_the_cluster_program_is_away_has_not_completed(person: RealNodesTypist) -> None:
    """Its program exits with 0 when it is asked to stop."""
    person.run("worker", "trap 'exit 0' TERM; while :; do sleep 0.1; done", "-g 1")
    (pod,) = person.objects("worker")
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
    assert person.cluster is not None
    person.cluster.kill()
    person.plane.admin.delete(path, 20)
    until(lambda: person.plane.admin.get(path)["metadata"]["deletionGracePeriodSeconds"] == 0, "its kubelet is done")
    assert person.plane.admin.get(path)["status"]["phase"] == "Succeeded"
    person.cluster.up()
    person.until_jobs(lambda jobs: len(person.pods("worker")) == 2, "it has another pod")
    person.until_runs("worker")


def _fetched(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""
