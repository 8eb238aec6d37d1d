"""Calls of the client about projects, departments, credentials, nodes, node pools and clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairpool.api.calls import Calls, plain_body
from fairpool.api.limits import CREDENTIALS, PROJECTS

if TYPE_CHECKING:
    from fairpool.api import credentials as credentials_wire
    from fairpool.api import nodes as nodes_wire
    from fairpool.api import organization, overview
    from fairpool.api import settings as settings_wire

    Json = Mapping[str, Any]

DEPARTMENTS = "/api/v1/org-unit/departments"
TOPOLOGIES = "/api/v1/network-topologies"


class OrganizationCalls(Calls):
    """What there is, and who is owed how much of it."""

    def projects(self) -> list[organization.Project]:
        return self._all(PROJECTS, "projects")

    def project(self, project_id: str) -> organization.Project:
        return self._get(f"{PROJECTS}/{project_id}")

    def create_project(self, request: organization.ProjectRequest | Json) -> organization.Project:
        return self._post(PROJECTS, request)

    def replace_project(
        self, request: organization.ProjectRequest | Json, revision: int | None = None
    ) -> organization.Project:
        """Replace all of it; with a revision only if it has not changed since."""
        return self._change("PUT", f"{PROJECTS}/{plain_body(request)['name']}", request, revision)

    def update_project(
        self, project_id: str, request: organization.ProjectUpdate | Json, revision: int | None = None
    ) -> organization.Project:
        return self._change("PATCH", f"{PROJECTS}/{project_id}", request, revision)

    def set_project_resources(
        self, project_id: str, request: organization.ResourcesUpdate | Json, revision: int | None = None
    ) -> organization.Project:
        return self._change("PUT", f"{PROJECTS}/{project_id}/resources", request, revision)

    def delete_project(self, project_id: str, *, workloads: str | None = None, move_to: str | None = None) -> None:
        """With work in it this is refused with the choices: `workloads="delete"` or `workloads="move", move_to=…`."""
        params = {"workloads": workloads, "to": move_to}
        said = {name: value for name, value in params.items() if value is not None}
        self._call("DELETE", f"{PROJECTS}/{project_id}", params=said)

    def departments(self) -> list[organization.Department]:
        return self._all(DEPARTMENTS, "departments")

    def create_department(self, request: organization.DepartmentRequest | Json) -> organization.Department:
        return self._post(DEPARTMENTS, request)

    def replace_department(
        self, request: organization.DepartmentRequest | Json, revision: int | None = None
    ) -> organization.Department:
        return self._change("PUT", f"{DEPARTMENTS}/{plain_body(request)['name']}", request, revision)

    def update_department(
        self, department_id: str, request: organization.DepartmentUpdate | Json, revision: int | None = None
    ) -> organization.Department:
        return self._change("PATCH", f"{DEPARTMENTS}/{department_id}", request, revision)

    def delete_department(self, department_id: str) -> None:
        self._call("DELETE", f"{DEPARTMENTS}/{department_id}")

    # --- credentials -----------------------------------------------------------------------------------------

    def credentials(self, name: str = "") -> list[credentials_wire.StoredCredential]:
        """All that the caller may see, or those of this name; without their values."""
        return self._all(CREDENTIALS, "entries", {"name": name} if name else None)

    def create_credential(
        self, kind: str, request: credentials_wire.CredentialRequest | Json
    ) -> credentials_wire.StoredCredential:
        return self._post(f"{CREDENTIALS}/{kind}", request)

    def replace_credential(
        self,
        kind: str,
        credential_id: str,
        request: credentials_wire.CredentialRequest | Json,
        revision: int | None = None,
    ) -> credentials_wire.StoredCredential:
        return self._change("PUT", f"{CREDENTIALS}/{kind}/{credential_id}", request, revision)

    def delete_credential(self, kind: str, credential_id: str) -> None:
        self._call("DELETE", f"{CREDENTIALS}/{kind}/{credential_id}")

    # --- nodes and clusters ----------------------------------------------------------------------------------

    def nodes(self, *, measured: str = "") -> list[nodes_wire.NodeAnswer]:
        """`measured`: `true` with what was last measured of each, `devices` also of its GPUs."""
        return self._all("/api/v1/nodes", "nodes", {"measured": measured} if measured else None)

    def node(self, name: str, cluster: str | None = None) -> nodes_wire.NodeDetail:
        """The cluster must be named if several have a node of this name."""
        return self._get(f"/api/v1/nodes/{name}", {"clusterId": cluster} if cluster else None)

    def overview(self) -> overview.Overview:
        """Nodes, projects and running work as they were at one moment, with what was last measured of them."""
        return self._get("/api/v1/overview", {"measured": "true"})

    def override_node(
        self,
        node: str,
        overrides: nodes_wire.NodeOverridesRequest | Json,
        revision: int | None = None,
        cluster: str | None = None,
    ) -> nodes_wire.NodeAnswer:
        """Replace what administrators set on a node; with a revision only if it has not changed since."""
        where = f"?clusterId={cluster}" if cluster else ""
        return self._change("PUT", f"/api/v1/nodes/{node}/overrides{where}", overrides, revision)

    def node_pools(self) -> list[nodes_wire.NodePoolAnswer]:
        return self._all("/api/v1/node-pools", "nodepools")

    def create_node_pool(self, request: nodes_wire.NodePoolRequest | Json) -> nodes_wire.NodePoolAnswer:
        return self._post("/api/v1/node-pools", request)

    def node_pool(self, pool: str) -> nodes_wire.NodePoolAnswer:
        return self._get(f"/api/v1/node-pools/{pool}")

    def update_node_pool(
        self, pool: str, request: nodes_wire.NodePoolUpdate | Json, revision: int | None = None
    ) -> nodes_wire.NodePoolAnswer:
        return self._change("PATCH", f"/api/v1/node-pools/{pool}", request, revision)

    def delete_node_pool(self, pool: str) -> None:
        self._call("DELETE", f"/api/v1/node-pools/{pool}")

    def topologies(self) -> list[nodes_wire.NetworkTopology]:
        return self._all(TOPOLOGIES, "topologies")

    def create_topology(self, request: nodes_wire.NetworkTopologyRequest | Json) -> nodes_wire.NetworkTopology:
        return self._post(TOPOLOGIES, request)

    def delete_topology(self, topology: str) -> None:
        self._call("DELETE", f"{TOPOLOGIES}/{topology}")

    def clusters(self) -> list[nodes_wire.ClusterAnswer]:
        return self._all("/api/v1/clusters", "clusters")

    def create_cluster(self, request: nodes_wire.ClusterRequest | Json) -> nodes_wire.NewCluster:
        return self._post("/api/v1/clusters", request)

    def new_cluster_token(self, cluster_id: str) -> nodes_wire.NewCluster:
        """Its earlier tokens are revoked."""
        return self._post(f"/api/v1/clusters/{cluster_id}/token")

    def operator_file(self, cluster_id: str, request: nodes_wire.OperatorRequest | Json) -> nodes_wire.OperatorFile:
        """What connects a Kubernetes cluster with `kubectl apply`; it contains the token."""
        return self._post(f"/api/v1/clusters/{cluster_id}/operator-file", request)

    def replace_cluster(
        self, cluster_id: str, request: nodes_wire.ClusterRequest | Json, revision: int | None = None
    ) -> nodes_wire.ClusterAnswer:
        return self._change("PUT", f"/api/v1/clusters/{cluster_id}", request, revision)

    def delete_cluster(self, cluster_id: str) -> None:
        self._call("DELETE", f"/api/v1/clusters/{cluster_id}")

    # --- settings ------------------------------------------------------------------------------------------------

    def settings(self) -> list[settings_wire.Setting]:
        return self._get("/api/v1/settings").settings

    def change_setting(
        self, key: str, request: settings_wire.SettingRequest | Json, revision: int | None = None
    ) -> settings_wire.Setting:
        return self._change("PUT", f"/api/v1/settings/{key}", request, revision)
