"""Two real nodes on one machine: kubelet, containerd, kube-proxy and CoreDNS, each node in namespaces of its own.

A node has its own network, mounts and processes. Its network is a cable to a switch, which is a namespace too, so that
the firewall rules and bridges of the machine are never touched; what it mounts and starts is gone with its first
process. Files of the kubelet that have a fixed path are below its folder by bind mounts. Only cgroups are left, in a
folder of their own in each hierarchy, and are removed at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import needs
from tests.kubernetes import images
from tests.kubernetes.control_plane import LOST_S, NODE_ADDRESSES, ControlPlane
from tests.kubernetes.daemons import Daemon, ProcessGroup
from tests.kubernetes.node_network import Relay, connect, pid_in_namespace
from tests.monitoring import until

API_PORT = 6443
PODS = "10.244.0.0/16"
DNS_SERVICE = "10.96.0.10"
CGROUPS = Path("/sys/fs/cgroup")
CGROUP = "fairpool-tests-"
"""How names of cgroups begin; the process that made it and the node follow."""
CONTROLLERS = "+cpu +cpuset +memory +pids +io"
CONTAINERD = "/run/containerd/containerd.sock"
TREE = Path(__file__).resolve().parent.parent.parent
TUNABLES = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""The kubelet sets these for the whole machine unless it finds them so: it sees files of ours instead."""
BOOT_ID = "kernel/random/boot_id"
NODE_NAMESPACES = ("--net", "--mount", "--uts", "--ipc", "--pid", "--mount-proc", "--propagation=private")


class InsideDaemon(Daemon):
    """A program in the namespaces of a node. What was started is `nsenter`, whose child it is."""

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(pid_in_namespace(self.pid), number)
        if number == signal.SIGCONT:
            super().signal(number)  # it stops with its child


class Node:
    """One node. Its parts can be killed, paused and started again."""

    def __init__(self, plane: ControlPlane, number: int, gpus: int, group: ProcessGroup, folder: Path) -> None:
        self.name, self.address, self.gpus = f"node-{number}", NODE_ADDRESSES[number - 1], gpus
        self.pods = f"10.244.{number}.0/24"
        self.folder = folder / self.name
        self.folder.mkdir(parents=True)
        self.cgroup = f"{CGROUP}{os.getpid()}-{self.name}"
        self._plane, self._group = plane, group

    def turn_on(self) -> None:
        """Its namespaces, with a boot ID of their own. Programs follow when the network is there."""
        make_cgroup(self.cgroup)
        self.first = namespaces(self.name, NODE_NAMESPACES, self._group, self.folder)
        self._mount()

    def turn_off(self) -> None:
        """Everything in it ends at once, as without power. What is on disk stays."""
        inside = Path(f"/proc/{self.pid}")
        self.first.kill()
        until(lambda: not inside.exists(), f"{self.name} is off")
        remove_cgroup(self.cgroup)

    def start(self, archives: Sequence[Path]) -> None:
        """Its programs, with these images. They need a moment until they are ready."""
        self.containerd = self._containerd()
        self.kubelet = self._kubelet()
        self.proxy = self._proxy()
        self.dns = self._dns()
        self.device_plugin = self._inside(
            "device-plugin",
            (sys.executable, "-m", "tests.kubernetes.device_plugin", self.name, str(self.gpus)),
            environment={"PYTHONPATH": str(TREE)},
        )
        self.containerd.start()
        for each in archives:
            self.import_image(each)
        for daemon in (self.kubelet, self.proxy, self.dns, self.device_plugin):
            daemon.start(wait=False)

    def wait_until_ready(self) -> None:
        until(self.is_ready, f"{self.name} is ready")
        until(self.gpus_are_allocatable, f"{self.name} has GPUs")
        self.proxy.wait_until_ready()
        self.dns.wait_until_ready()

    @property
    def pid(self) -> int:
        """The first process of the node, whose namespaces the others are in."""
        return pid_in_namespace(self.first.pid)

    def run(self, *command: str) -> str:
        """In the namespaces of the node."""
        done = subprocess.run([*self._enter(), *command], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{self.name}: {' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def import_image(self, archive: Path) -> None:
        self.run("ctr", f"--address={CONTAINERD}", "--namespace=k8s.io", "images", "import", str(archive))

    def is_registered(self) -> bool:
        """Since it was turned on."""
        found = self._plane.admin.find(f"/api/v1/nodes/{self.name}")
        boot_id = (self.folder / BOOT_ID.replace("/", "-")).read_text().strip()
        return found is not None and found["status"]["nodeInfo"]["bootID"] == boot_id

    def is_ready(self) -> bool:
        found = self._plane.admin.find(f"/api/v1/nodes/{self.name}")
        conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]} if found else {}
        return conditions.get("Ready") == "True"

    def gpus_are_allocatable(self) -> bool:
        found = self._plane.admin.get(f"/api/v1/nodes/{self.name}")
        return bool(found["status"]["allocatable"].get("nvidia.com/gpu", "0") == str(self.gpus))

    # --- namespaces ------------------------------------------------------------------------------------------------

    def _enter(self) -> tuple[str, ...]:
        return ("nsenter", f"--target={self.pid}", "--net", "--mount", "--uts", "--ipc", "--pid", "--")

    def _inside(
        self,
        name: str,
        command: Sequence[str],
        check: Sequence[str] = ("true",),
        environment: dict[str, str] | None = None,
    ) -> Daemon:
        def is_ready() -> bool:
            asked = subprocess.run([*self._enter(), *check], capture_output=True, timeout=30, check=False)
            return asked.returncode == 0

        return InsideDaemon(
            name, (*self._enter(), *command), self._group, self.folder, is_ready=is_ready, environment=environment
        )

    def _mount(self) -> None:
        """Folders with fixed paths become the node's own."""
        lines = ["set -e", f"hostname {self.name}", "mount --make-rshared /"]
        for path in ("/run/netns", "/run/containerd", "/var/log/containers"):
            lines += [f"mkdir -p {path}", f"mount -t tmpfs tmpfs {path}"]
        for path in ("/var/lib/kubelet", "/var/lib/cni", "/var/log/pods"):
            own = self.folder / path[1:].replace("/", "-")
            lines += [f"mkdir -p {own} {path}", f"mount --bind {own} {path}", f"mount --make-rshared {path}"]
        for name, value in {**TUNABLES, BOOT_ID: str(uuid.uuid4())}.items():
            own = self.folder / name.replace("/", "-")
            own.write_text(f"{value}\n")
            lines += [f"mount --bind {own} /proc/sys/{name}"]
        self.run("sh", "-c", "\n".join(lines))

    # --- programs --------------------------------------------------------------------------------------------------

    def _containerd(self) -> Daemon:
        (self.folder / "cni").mkdir(exist_ok=True)
        network = {
            "cniVersion": "0.3.1",
            "name": "pods",
            "plugins": [
                {
                    "type": "ptp",
                    "ipMasq": False,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": self.pods}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": True}},
            ],
        }
        (self.folder / "cni" / "10-pods.conflist").write_text(json.dumps(network))
        config = self.folder / "containerd.toml"
        config.write_text(
            f"""version = 2
root = "{self.folder / "containerd"}"
state = "/run/containerd"
[grpc]
address = "{CONTAINERD}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{images.PAUSE}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{_cni_programs()}"
conf_dir = "{self.folder / "cni"}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""
        )
        command = (needs.program("containerd", "containerd"), f"--config={config}", "--log-level=warn")
        return self._inside("containerd", command, ("ctr", f"--address={CONTAINERD}", "version"))

    def _kubelet(self) -> Daemon:
        certificate, key = self._plane.authority.sign(
            self.name, user=f"system:node:{self.name}", group="system:nodes", hosts=(self.address, self.name)
        )
        (self.folder / "resolv.conf").touch()
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(self._plane.ca)}},
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(certificate),
            "tlsPrivateKeyFile": str(key),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "clusterDomain": "cluster.local",
            "clusterDNS": [DNS_SERVICE],
            "resolvConf": str(self.folder / "resolv.conf"),
            "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
            "registryPullQPS": 0,
            "nodeLeaseDurationSeconds": LOST_S,
            "nodeStatusUpdateFrequency": "2s",  # how soon devices are seen after a restart
            "nodeStatusReportFrequency": "1m",
            "volumePluginDir": str(self.folder / "volume-plugins"),
        }
        path = self.folder / "kubelet.json"
        path.write_text(json.dumps(config))
        command = (
            *(needs.kubernetes_program("kubelet"), f"--config={path}", f"--hostname-override={self.name}"),
            *(f"--kubeconfig={self._kubeconfig(f'system:node:{self.name}')}", f"--node-ip={self.address}"),
        )
        return self._inside("kubelet", command, ("busybox", "wget", "-qO-", "http://127.0.0.1:10248/healthz"))

    def _proxy(self) -> Daemon:
        config = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self._kubeconfig("system:kube-proxy"))},
            "mode": "iptables",
            "clusterCIDR": PODS,
            "hostnameOverride": self.name,
            # Its table is one for the whole machine, and cannot be changed from here.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "iptables": {"minSyncPeriod": "100ms"},
        }
        path = self.folder / "kube-proxy.json"
        path.write_text(json.dumps(config))
        command = (needs.kubernetes_program("kube-proxy"), f"--config={path}")
        return self._inside("kube-proxy", command, ("busybox", "wget", "-qO-", "http://127.0.0.1:10256/livez"))

    def _dns(self) -> Daemon:
        path = self.folder / "Corefile"
        path.write_text(
            f""".:53 {{
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {self._kubeconfig("admin")} tests
        ttl 1
    }}
    cache 1
}}
"""
        )
        command = (needs.kubernetes_program("coredns"), "-conf", str(path))
        return self._inside("coredns", command, ("busybox", "wget", "-qO-", "http://127.0.0.1:8181/ready"))

    def _kubeconfig(self, user: str) -> Path:
        """With the address at which the node reaches the API server."""
        return self._plane.kubeconfig(user, f"https://{self.address}:{API_PORT}", self.folder)


class Cluster:
    """Two nodes and their control plane."""

    def __init__(self, plane: ControlPlane, folder: Path, gpus: int) -> None:
        self.plane, self.folder = plane, folder
        self._group, self._relay = ProcessGroup(), Relay()
        self.nodes = [Node(plane, number, gpus, self._group, folder) for number in (1, 2)]
        self._stop_relaying: dict[str, Callable[[], None]] = {}

    def start(self) -> None:
        self._archives = [
            images.pause_image(self.folder / "pause.tar"),
            images.busybox_image(self.folder / "busybox.tar"),
        ]
        self._switch = namespaces("switch", ("--net",), self._group, self.folder)
        self._on_switch("ip link add switch type bridge", "ip link set switch up")
        remove_old_cgroups()
        for node in self.nodes:
            self._turn_on(node)
        self._relay.serve_connect(self.plane.egress_socket, self._some_node)
        self._add_services()
        for node in self.nodes:
            self._finish(node)

    def reboot(self, node: Node) -> None:
        """It loses power, and is ready again with another boot ID."""
        self.turn_off(node)
        self.turn_on(node)

    def turn_off(self, node: Node) -> None:
        self._stop_relaying.pop(node.name)()
        node.turn_off()

    def turn_on(self, node: Node) -> None:
        self._turn_on(node)
        self._finish(node)

    def _turn_on(self, node: Node) -> None:
        node.turn_on()
        self._plug_in(node)
        target = ("127.0.0.1", int(self.plane.address.rpartition(":")[2]))
        self._stop_relaying[node.name] = self._relay.forward(node.pid, node.address, API_PORT, target)
        node.start(self._archives)

    def _finish(self, node: Node) -> None:
        until(node.is_registered, f"{node.name} is registered")
        self._label(node)
        node.wait_until_ready()

    def _some_node(self) -> int:
        return next(each.pid for each in self.nodes if each.first.is_running)

    def close(self) -> None:
        self._group.close()
        self._relay.close()
        for node in self.nodes:
            remove_cgroup(node.cgroup)
            shutil.rmtree(node.folder, ignore_errors=True)

    def import_image(self, archive: Path) -> None:
        """As `docker save` or `podman save` writes it."""
        for node in self.nodes:
            node.import_image(archive)

    def connect(self, address: str, port: int, node: int = 0) -> Any:
        """A connected socket, as a process on that node would have it: to node ports, services and pods."""
        return connect(self.nodes[node].pid, address, port)

    @contextmanager
    def reaching(self, port: int) -> Iterator[str]:
        """While pods of all nodes reach a port of this machine: at this address."""
        node = self.nodes[0]
        close = self._relay.forward(node.pid, node.address, port, ("127.0.0.1", port))
        try:
            yield f"{node.address}:{port}"
        finally:
            close()

    def _plug_in(self, node: Node) -> None:
        """A cable to the switch. What is for pods of another node goes there."""
        switch, port = pid_in_namespace(self._switch.pid), f"to-{node.name}"
        # The kernel removes the cable of a node that was turned off at some later time.
        old = ("nsenter", f"--target={switch}", "--net", "ip", "link", "delete", port)
        subprocess.run(old, check=False, capture_output=True, timeout=60)
        cable = ("name", "eth0", "netns", str(node.pid), "type", "veth", "peer", "name", port, "netns", str(switch))
        subprocess.run(["ip", "link", "add", *cable], check=True, timeout=60)
        self._on_switch(f"ip link set {port} master switch up")
        lines = (
            "set -e",
            "ip link set lo up",
            f"ip address add {node.address}/24 dev eth0",
            "ip link set eth0 up",
            "ip route add default dev eth0",
            *(f"ip route add {each.pods} via {each.address}" for each in self.nodes if each is not node),
            "echo 1 >/proc/sys/net/ipv4/ip_forward",
        )
        node.run("sh", "-c", "\n".join(lines))

    def _on_switch(self, *commands: str) -> None:
        for each in commands:
            entered = ("nsenter", f"--target={pid_in_namespace(self._switch.pid)}", "--net", *each.split())
            subprocess.run(entered, check=True, timeout=60)

    def _add_services(self) -> None:
        """The API server and DNS, at every node."""
        self._endpoints("default", "kubernetes", [("https", "TCP", API_PORT)])
        ports = [("dns", "UDP", 53), ("dns-tcp", "TCP", 53)]
        service = {
            "metadata": {"name": "kube-dns", "labels": {"k8s-app": "kube-dns"}},
            "spec": {
                "clusterIP": DNS_SERVICE,
                "ports": [{"name": name, "protocol": kind, "port": port} for name, kind, port in ports],
            },
        }
        self.plane.admin.create("/api/v1/namespaces/kube-system/services", service)
        self._endpoints("kube-system", "kube-dns", ports)

    def _endpoints(self, namespace: str, service: str, ports: list[tuple[str, str, int]]) -> None:
        slice_ = {
            "metadata": {"name": f"{service}-nodes", "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [each.address], "conditions": {"ready": True}} for each in self.nodes],
            "ports": [{"name": name, "protocol": kind, "port": port} for name, kind, port in ports],
        }
        self.plane.admin.create(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", slice_)

    def _label(self, node: Node) -> None:
        """As NVIDIA's GPU feature discovery does."""
        labels = {"nvidia.com/gpu.count": str(node.gpus), "nvidia.com/gpu.memory": "81559"}
        labels["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3"
        self.plane.admin.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": labels}})


@contextmanager
def real_nodes(plane: ControlPlane, folder: Path, gpus: int = 8) -> Iterator[Cluster]:
    """Two real nodes. The control plane should watch nodes (`watches_nodes=True`)."""
    if os.geteuid() != 0:
        needs.skip_unless_ci("real nodes need root")
    for program, package in REQUIRED.items():
        needs.program(program, package)
    made = Cluster(plane, folder, gpus)
    try:
        made.start()
        yield made
    finally:
        made.close()


REQUIRED = {"containerd": "containerd", "runc": "runc", "ip": "iproute2", "iptables": "iptables"}


def namespaces(name: str, kinds: Sequence[str], group: ProcessGroup, folder: Path) -> Daemon:
    """Held by a process that reaps; when it ends, so does everything in its process namespace."""
    holder = needs.program("catatonit", "catatonit")
    command = ("unshare", *kinds, "--fork", "--kill-child", holder, "-P")
    made = Daemon(f"{name}-namespaces", command, group, folder, is_ready=lambda: _is_held(made))
    made.start()
    return made


def _is_held(first: Daemon) -> bool:
    with contextlib.suppress(ProcessLookupError):
        return Path(f"/proc/{pid_in_namespace(first.pid)}/comm").read_text().strip() == "catatonit"
    return False


def _cni_programs() -> Path:
    for folder in (Path("/usr/lib/cni"), Path("/opt/cni/bin")):
        if (folder / "ptp").exists():
            return folder
    needs.skip_unless_ci("the CNI plugins are not installed (Debian package containernetworking-plugins)")
    raise AssertionError


# --- cgroups -------------------------------------------------------------------------------------------------------


def make_cgroup(name: str) -> None:
    """In the unified hierarchy, or in each one of version 1. There a cpuset without processors can hold no process."""
    if (CGROUPS / "cgroup.controllers").exists():
        with contextlib.suppress(OSError):
            (CGROUPS / "cgroup.subtree_control").write_text(CONTROLLERS)
        (CGROUPS / name).mkdir()
        return
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / file).exists():
                (hierarchy / name / file).write_text((hierarchy / file).read_text())


def remove_cgroup(name: str) -> None:
    for hierarchy in {each.resolve() for each in (CGROUPS, *_hierarchies())}:
        folders = [hierarchy / name, *(hierarchy / name).rglob("*/")]
        for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
            _remove_when_empty(folder)


def remove_old_cgroups() -> None:
    """Of test runs that were killed: their processes ended with them, and cgroups do not."""
    names = {path.name for each in (CGROUPS, *_hierarchies()) for path in each.glob(f"{CGROUP}*/")}
    for name in sorted(names):
        if not Path("/proc", name.removeprefix(CGROUP).split("-")[0]).exists():
            remove_cgroup(name)


def _remove_when_empty(folder: Path) -> None:
    """Its processes were killed; the kernel needs a moment."""
    end = time.monotonic() + 20
    while folder.exists():
        try:
            folder.rmdir()
        except OSError:
            assert time.monotonic() < end, f"the cgroup {folder} is not empty"
            time.sleep(0.05)


def _hierarchies() -> list[Path]:
    return [each for each in CGROUPS.iterdir() if (each / "cgroup.procs").exists()]
