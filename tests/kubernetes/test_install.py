"""From a bare cluster to a running job and back, as docs/guides/kubernetes.md says it: real kubelets run our own image,
which the test builds; the control plane is installed with Helm, the scheduler with the file that `kubectl` applies."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fairpool_image import IMAGE, podman_with_image
from tests.kubernetes import images
from tests.kubernetes.helm import CLUSTER, CONTROL, Document, Helm, until_no_policies
from tests.kubernetes.nodes import Cluster
from tests.monitoring import until
from tests.needs import kubernetes_program

pytestmark = pytest.mark.slow

BACKEND, RUNAI, PROJECT = "runai-backend", "runai", "team-a"
PASSWORD = "a better one"
URL = f"http://fairpool-control.{BACKEND}.svc"
PATIENCE_S = 300
OUR_IMAGE = {"registry": "localhost", "repository": "fairpool", "tag": "1", "pullPolicy": "Never"}
NEWER = f"{IMAGE.rpartition(':')[0]}:2"
SYSTEM = "node-role.kubernetes.io/runai-system"


@dataclass(frozen=True)
class Administrator:
    """Types `kubectl`, `helm`, and `runai` in the pod of the control plane."""

    cluster: Cluster
    folder: Path

    @property
    def helm(self) -> Helm:
        return Helm(self.folder, self.cluster.plane.kubeconfig())

    def kubectl(self, *words: str, text: str | None = None) -> str:
        config = f"--kubeconfig={self.cluster.plane.kubeconfig()}"
        command = [kubernetes_program("kubectl"), config, *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE_S + 60, check=False)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}\n{self.state()}"
        return done.stdout

    def types(self, *words: str, text: str | None = None) -> str:
        target = ("exec", "--stdin", "--namespace", BACKEND, "deployment/fairpool-control")
        return self.kubectl(*target, "--", *words, text=text)

    def waits_for(self, namespace: str, what: str) -> None:
        self.kubectl("rollout", "status", "--namespace", namespace, what, f"--timeout={PATIENCE_S}s")

    def state(self) -> str:
        """For the message of a test that fails."""
        said = [str(each["metadata"]["name"]) + str(each.get("status")) for each in self._pods()]
        return "\n".join(said)[-6000:]

    def _pods(self) -> list[Document]:
        found = [self.cluster.plane.admin.get(f"/api/v1/namespaces/{each}/pods") for each in (BACKEND, RUNAI)]
        return [pod for each in found for pod in each["items"]]


@pytest.fixture(scope="module")
def administrator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Administrator]:
    folder = tmp_path_factory.mktemp("install")
    with podman_with_image(tmp_path_factory.mktemp("podman")) as podman:
        podman.run("tag", IMAGE, NEWER)
        podman.run("save", "--output", str(folder / "fairpool.tar"), IMAGE, NEWER)
    cluster.import_image(folder / "fairpool.tar")
    (folder / "fairpool.tar").unlink()
    make_volumes(cluster, folder)
    cluster.plane.scheduler.start()
    try:
        yield Administrator(cluster, folder)
    finally:
        cluster.plane.scheduler.stop()


def make_volumes(cluster: Cluster, folder: Path) -> None:
    """What a provisioner of storage would do."""
    for name in ("one", "two", "three"):
        (folder / name).mkdir()
        node = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}
        spec = {
            "capacity": {"storage": "100Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": str(folder / name)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [node]}]}},
        }
        cluster.plane.admin.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})


def test_from_a_bare_cluster_to_a_running_job_and_back(administrator: Administrator) -> None:
    """F-229, F-241, F-244: what the guide says, in its order."""
    install_control_plane(administrator)
    assert nodes_of(administrator, BACKEND) == {"node-1"}, "F-243: on nodes for the system only"
    connect_cluster(administrator)

    administrator.types("runai-adm", "project", "create", PROJECT, "--gpu-quota", "4")
    administrator.types("runai", "config", "project", PROJECT)
    command = ("sh", "-c", "echo hello from $(hostname)")
    administrator.types("runai", "submit", "hello", "-i", images.BUSYBOX, "-g", "1", "--", *command)
    until(lambda: "Succeeded" in administrator.types("runai", "list", "jobs"), "the job has succeeded")
    assert "hello from hello" in administrator.types("runai", "logs", "hello")
    administrator.types(
        "runai", "submit", "forever", "-i", images.BUSYBOX, "-g", "1", "--cpu", "0.5", "--", "sleep", "100000"
    )
    until(lambda: "forever" in running(administrator), "kubectl shows it running")
    assert "node-" in administrator.types("runai", "exec", "forever", "--", "sh", "-c", "echo $NODE_NAME")

    pod = the_pod(administrator)
    delete_cluster(administrator)
    assert "forever" in running(administrator), "workloads keep running"

    install_cluster_chart(administrator)
    assert "Running" in administrator.types("runai", "list", "jobs")
    assert the_pod(administrator)["metadata"]["uid"] == pod["metadata"]["uid"], "it is the same pod"
    administrator.types(
        "runai", "submit", "again", "-i", images.BUSYBOX, "-g", "1", "--cpu", "0.5", "--", "sleep", "100000"
    )
    until(lambda: "again" in running(administrator), "jobs are started as before")
    assert finalizers(administrator) == {"fairpool.io/recorded"}
    upgrade_cluster(administrator)
    uninstall(administrator)


def install_control_plane(administrator: Administrator) -> None:
    administrator.kubectl("label", "node", "node-1", f"{SYSTEM}=")
    values = {
        "image": OUR_IMAGE,
        "ingress": {"enabled": False},
        "storage": {"size": "60Gi"},
        "nodeSelector": {SYSTEM: ""},
    }
    where = ("--namespace", BACKEND, "--create-namespace")
    helm = administrator.helm
    helm.run("install", "fairpool", str(CONTROL), *where, *helm.values(CONTROL, values))
    administrator.waits_for(BACKEND, "deployment/fairpool-control")
    path = f"/api/v1/namespaces/{BACKEND}/secrets/fairpool-control-administrator"
    first = base64.b64decode(administrator.cluster.plane.admin.get(path)["data"]["password"]).decode()
    administrator.types("runai", "password", "--stdin", text=f"{first}\n{PASSWORD}\n")


def connect_cluster(administrator: Administrator) -> None:
    """By the file alone; our image has another name here than that of a registry."""
    create = ("runai-adm", "cluster", "create", "east", "--operator-file", "/tmp/operator.yaml")
    administrator.types(*create, "--control-url", URL, "--registry", "localhost")
    content = administrator.types("python3", "-c", "print(open('/tmp/operator.yaml').read())")
    named = content.replace("localhost/fairpool/fairpool:0.1.0.dev0", IMAGE).replace("IfNotPresent", "Never")
    assert named.count(IMAGE) == 5
    (administrator.folder / "runai-operator-east.yaml").write_text(named, encoding="utf-8")
    administrator.kubectl("apply", "-f", str(administrator.folder / "runai-operator-east.yaml"))
    administrator.waits_for(RUNAI, "statefulset/fairpool-cluster")
    until(lambda: "Connected" in administrator.types("runai-adm", "cluster", "list"), "the cluster is connected")
    administrator.waits_for(RUNAI, "daemonset/fairpool-node-agent")
    held = administrator.kubectl("get", "leases", "--namespace", RUNAI, "--output=name")
    assert {f"lease.coordination.k8s.io/fairpool-node-node-{each}" for each in (1, 2)} <= set(held.split())


def running(administrator: Administrator) -> str:
    flags = ("--field-selector=status.phase=Running", "--output=name")
    return administrator.kubectl("get", "pods", "--namespace", f"runai-{PROJECT}", *flags)


def the_pod(administrator: Administrator) -> Document:
    (found,) = [each for each in pods(administrator) if each["metadata"]["name"].startswith("forever")]
    return found


def pods(administrator: Administrator) -> list[Document]:
    return list(administrator.cluster.plane.admin.get(f"/api/v1/namespaces/runai-{PROJECT}/pods")["items"])


def finalizers(administrator: Administrator) -> set[str]:
    return {name for each in pods(administrator) for name in each["metadata"].get("finalizers", [])}


def delete_cluster(administrator: Administrator) -> None:
    """As the head of the file says."""
    assert finalizers(administrator) == {"fairpool.io/recorded"}
    administrator.kubectl("create", "job", "--namespace", RUNAI, "--from=cronjob/fairpool-uninstall", "uninstall")
    wait = ("wait", "--namespace", RUNAI, "--for=condition=complete", f"--timeout={PATIENCE_S}s")
    administrator.kubectl(*wait, "job/uninstall")
    assert finalizers(administrator) == set()
    file = str(administrator.folder / "runai-operator-east.yaml")
    ours = ("--selector", "app.kubernetes.io/part-of=fairpool")
    administrator.kubectl("delete", f"--timeout={PATIENCE_S}s", "-f", file, *ours)
    # The ledger is lost, too: it is rebuilt from the pods, which are known by their signatures.
    administrator.kubectl("delete", "pvc", "--namespace", RUNAI, "--all", f"--timeout={PATIENCE_S}s")


def install_cluster_chart(administrator: Administrator) -> None:
    """The same cluster again, with a new token: its ledger went with the claim."""
    token = administrator.types("runai-adm", "cluster", "token", "east").strip()
    values = {"controlPlane": {"url": URL, "token": token}, "image": OUR_IMAGE}
    where = ("--namespace", RUNAI, "--create-namespace")
    helm = administrator.helm
    helm.run("install", "fairpool", str(CLUSTER), *where, *helm.values(CLUSTER, values))
    administrator.waits_for(RUNAI, "statefulset/fairpool-cluster")


def upgrade_cluster(administrator: Administrator) -> None:
    """F-246: what was set at the installation still applies, and jobs run on."""
    before = {each["metadata"]["uid"] for each in pods(administrator)}
    flags = ("--namespace", RUNAI, "--reuse-values", "--set-string", "image.tag=2")
    administrator.helm.run("upgrade", "fairpool", str(CLUSTER), *flags)
    administrator.waits_for(RUNAI, "statefulset/fairpool-cluster")
    scheduler = administrator.cluster.plane.admin.get(f"/api/v1/namespaces/{RUNAI}/pods/fairpool-cluster-0")
    assert scheduler["spec"]["containers"][0]["image"] == NEWER
    until(lambda: "Connected" in administrator.types("runai-adm", "cluster", "list"), "the address still applies")
    listed = administrator.types("runai", "list", "jobs")
    assert [name for name in ("forever", "again") if name not in listed] == []
    assert {each["metadata"]["uid"] for each in pods(administrator)} == before, "no pod was replaced"


def nodes_of(administrator: Administrator, namespace: str) -> set[str]:
    found = administrator.cluster.plane.admin.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {each["spec"]["nodeName"] for each in found}


def uninstall(administrator: Administrator) -> None:
    """The hook of the chart removes finalizers: nothing keeps a namespace from being deleted."""
    administrator.helm.run("uninstall", "fairpool", "--namespace", RUNAI, "--wait")
    until_no_policies(administrator.cluster.plane)
    assert finalizers(administrator) == set()
    assert "forever" in running(administrator), "workloads keep running"
    administrator.helm.run("uninstall", "fairpool", "--namespace", BACKEND, "--wait")
    for namespace in (f"runai-{PROJECT}", RUNAI, BACKEND):
        administrator.kubectl("delete", "namespace", namespace, f"--timeout={PATIENCE_S}s")
