"""A real Kubernetes control plane for tests, on loopback: etcd, API server and controller manager.

Each process that runs tests has one of its own, for all of its tests; a test has a namespace of its own in it. See
`conftest.py`. Objects that belong to no namespace, such as nodes, are removed by the test that made them.
"""

from __future__ import annotations

import json
import secrets
import shutil
import ssl
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from tests.kubernetes.api_calls import CALL_S, ApiCalls, ApiError
from tests.kubernetes.certificates import Authority, write_key
from tests.kubernetes.daemons import Daemon, ProcessGroup, free_port
from tests.monitoring import until
from tests.needs import kubernetes_program

ADMIN = "admin"
ISSUER = "https://kubernetes.default.svc"
SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
NODE_ADDRESSES = ("10.77.0.11", "10.77.0.12")
"""Of real nodes, in networks of their own: see `nodes.py`."""
HOSTS = (
    *("127.0.0.1", "localhost", API_SERVICE, *NODE_ADDRESSES),
    *("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"),
)
USERS: Mapping[str, tuple[str, ...]] = {
    ADMIN: ("system:masters",),
    "alice": ("researchers",),
    "bob": (),
    "system:kube-proxy": (),
    "system:kube-scheduler": (),
    "system:node:node-1": ("system:nodes",),
    "system:node:node-2": ("system:nodes",),
}
"""Users with their groups. Each but the first may do what roles of the cluster or of the test allow."""
LOST_S = 20
"""A node that has not been heard of for so long is not ready."""
LOST_NODES = ("node-lifecycle-controller", "taint-eviction-controller")
"""They taint nodes whose kubelet does not renew its lease, and evict their pods."""


class ControlPlane:
    """One control plane in a folder of its own. Parts can be stopped, killed and started again, on the same ports."""

    def __init__(
        self,
        folder: Path,
        *,
        users: Mapping[str, tuple[str, ...]] = USERS,
        api_server_flags: Sequence[str] = (),
        watches_nodes: bool = False,
    ) -> None:
        """`watches_nodes`: whether nodes without a kubelet are found lost after a while. Fake ones have none."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.address = f"https://127.0.0.1:{free_port()}"
        self.egress_socket = folder / "egress.sock"
        """The API server connects to nodes and pods through the HTTP proxy that listens here, if one does."""
        self.users = users
        self.tokens = {name: secrets.token_hex(16) for name in users}
        self.authority = Authority(folder / "certificates")
        self.ca = self.authority.certificate
        self.group = ProcessGroup()
        self._write_files()
        self.admin = self.calls(ADMIN)
        self.etcd = self._etcd()
        self.api_server = self._api_server(api_server_flags)
        self.controller_manager = self._controller_manager(watches_nodes)

    def start(self) -> None:
        """All but the default scheduler, which a test may start."""
        try:
            self.etcd.start(wait=False)
            self.api_server.start()
            self.controller_manager.start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.group.close()  # killed, since nothing that they would still write is needed

    def calls(self, user: str) -> ApiCalls:
        return ApiCalls(self.address, self.ca, self.tokens[user])

    def kubeconfig(self, user: str = ADMIN, address: str = "", folder: Path | None = None) -> Path:
        """A file for kubectl and other clients, of this user."""
        cluster = {"server": address or self.address, "certificate-authority": str(self.ca)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": user}}],
            "current-context": "tests",
        }
        path = (folder or self.folder) / f"{user.replace(':', '-')}.kubeconfig"
        path.write_text(json.dumps(content))  # JSON is YAML
        return path

    @contextmanager
    def namespace(self, name: str) -> Iterator[str]:
        """A namespace with its default service account; its deletion is started at the end, and not waited for."""
        made = f"{name}-{secrets.token_hex(3)}"
        self.admin.create("/api/v1/namespaces", {"metadata": {"name": made}})
        account = f"/api/v1/namespaces/{made}/serviceaccounts/default"
        until(lambda: self.admin.find(account), f"{account} is there")
        try:
            yield made
        finally:
            self.admin.delete(f"/api/v1/namespaces/{made}")

    def expire_watches(self) -> None:
        """Versions of objects so far are too old to be watched from; an API server that starts has none of them."""
        status = self._ask_etcd("/v3/maintenance/status", {})
        self._ask_etcd("/v3/kv/compaction", {"revision": status["header"]["revision"], "physical": True})
        self.api_server.restart()

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Afterwards everything is as it was before, also the versions of objects: the data is that of a backup."""
        data, backup = self.folder / "etcd", self.folder / "etcd-backup"
        self.etcd.kill()
        shutil.copytree(data, backup)
        self.etcd.start()
        self.api_server.wait_until_ready()
        try:
            yield
        finally:
            self.controller_manager.kill()
            self.api_server.kill()
            self.etcd.kill()
            shutil.rmtree(data)
            backup.rename(data)
            self.start()

    def _ask_etcd(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(self._etcd_address + path, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=CALL_S) as answer:
            return json.load(answer)

    def _write_files(self) -> None:
        rows = [f'{self.tokens[name]},{name},{name},"{",".join(groups)}"' for name, groups in self.users.items()]
        (self.folder / "tokens.csv").write_text("\n".join(rows) + "\n")
        write_key(self.folder / "service-accounts.key", ec.generate_private_key(ec.SECP256R1()))
        connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(self.egress_socket)}}}
        egress = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        }
        (self.folder / "egress.json").write_text(json.dumps(egress))

    def _etcd(self) -> Daemon:
        own, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._etcd_address = own
        command = (
            *(kubernetes_program("etcd"), "--name=default", f"--data-dir={self.folder / 'etcd'}"),
            *(f"--listen-client-urls={own}", f"--advertise-client-urls={own}", "--unsafe-no-fsync"),
            *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"),
            *(f"--initial-cluster=default={peers}", "--logger=zap", "--log-level=warn"),
        )
        return Daemon("etcd", command, self.group, self.folder, is_ready=lambda: _answers(f"{own}/health"))

    def _api_server(self, flags: Sequence[str]) -> Daemon:
        certificate, key = self.authority.sign("api-server", user="kube-apiserver", hosts=HOSTS)
        client = self.authority.sign("kubelet-client", user="kube-apiserver", group="system:masters")
        accounts = self.folder / "service-accounts.key"
        command = (
            *(kubernetes_program("kube-apiserver"), f"--etcd-servers={self._etcd_address}"),
            *("--bind-address=127.0.0.1", f"--secure-port={self.address.rpartition(':')[2]}"),
            *(f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}", f"--client-ca-file={self.ca}"),
            *(f"--cert-dir={self.folder / 'certificates'}", "--endpoint-reconciler-type=none"),
            *(f"--service-cluster-ip-range={SERVICES}", f"--service-account-issuer={ISSUER}"),
            *(f"--service-account-key-file={accounts}", f"--service-account-signing-key-file={accounts}"),
            *(f"--token-auth-file={self.folder / 'tokens.csv'}", "--authorization-mode=Node,RBAC"),
            *("--enable-admission-plugins=NodeRestriction", "--allow-privileged=true", "--profiling=false"),
            *(f"--kubelet-client-certificate={client[0]}", f"--kubelet-client-key={client[1]}"),
            *(f"--kubelet-certificate-authority={self.ca}", "--kubelet-preferred-address-types=InternalIP"),
            *(f"--egress-selector-config-file={self.folder / 'egress.json'}", "--shutdown-delay-duration=0s"),
            *flags,
        )
        return Daemon("kube-apiserver", command, self.group, self.folder, is_ready=self._is_ready)

    def _controller_manager(self, watches_nodes: bool) -> Daemon:
        port, accounts = free_port(), self.folder / "service-accounts.key"
        without = () if watches_nodes else LOST_NODES
        command = (
            *(kubernetes_program("kube-controller-manager"), f"--kubeconfig={self.kubeconfig()}"),
            *("--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={self.folder / 'certificates'}"),
            *("--leader-elect=false", f"--root-ca-file={self.ca}", f"--service-account-private-key-file={accounts}"),
            *("--kube-api-qps=200", "--kube-api-burst=400", "--profiling=false"),
            f"--node-monitor-grace-period={LOST_S}s",
            "--controllers=" + ",".join(("*", *(f"-{each}" for each in without))),
        )
        return self._beside("kube-controller-manager", command, port)

    @cached_property
    def scheduler(self) -> Daemon:
        """The default scheduler. It is not started with the others."""
        port = free_port()
        command = (
            *(kubernetes_program("kube-scheduler"), f"--kubeconfig={self.kubeconfig()}", "--leader-elect=false"),
            *("--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={self.folder / 'certificates'}"),
        )
        return self._beside("kube-scheduler", command, port)

    def _beside(self, name: str, command: Sequence[str], port: int) -> Daemon:
        """A client of the API server, with a health check on a port."""
        address = f"https://127.0.0.1:{port}/healthz"
        return Daemon(name, command, self.group, self.folder, is_ready=lambda: _answers(address))

    def _is_ready(self) -> bool:
        try:
            return bool(self.admin.get("/readyz") == "ok")
        except ApiError:
            return False


@contextmanager
def control_plane(
    folder: Path,
    *,
    users: Mapping[str, tuple[str, ...]] = USERS,
    api_server_flags: Sequence[str] = (),
    watches_nodes: bool = False,
) -> Iterator[ControlPlane]:
    """A running one."""
    made = ControlPlane(folder, users=users, api_server_flags=api_server_flags, watches_nodes=watches_nodes)
    made.start()
    try:
        yield made
    finally:
        made.close()


def _answers(address: str) -> bool:
    """Whether a health check passes; the certificate is not one of ours."""
    with urllib.request.urlopen(address, timeout=5, context=ssl._create_unverified_context()) as answer:
        return bool(answer.status == 200)
