"""Clusters, projects, departments, node pools, nodes and topologies, on the newer paths."""

from __future__ import annotations

from typing import Any

from tests.client.original import Original


def quota(gpus: float, **more: Any) -> dict[str, Any]:
    return {"nodePool": {"id": "default"}, "gpu": {"deserved": gpus, **more}}


def gpus(unit: dict[str, Any]) -> dict[str, float]:
    return {each["nodePool"]["id"]: each["gpu"]["deserved"] for each in unit["resources"]}


def case_clusters(original: Original) -> None:
    listed = original.call("ClustersApi.get_clusters")
    assert [each["uuid"] for each in listed] == [original.cluster]
    found = original.call("ClustersApi.get_cluster_by_uuid", cluster_uuid=original.cluster)
    assert (found["name"], found["status"]["state"]) == ("local", "Connected")
    made = original.call(
        "ClustersApi.create_cluster", cluster_creation_request={"name": "spare", "domain": "d.example"}
    )
    assert (made["name"], made["domain"], made["status"]["state"]) == ("spare", "d.example", "WaitingToConnect")
    uuid = made["uuid"]
    original.call("ClustersApi.update_cluster", cluster_uuid=uuid, cluster_update_request={"name": "spared"})
    named = original.call("ClustersApi.get_cluster_by_uuid", cluster_uuid=uuid)
    assert (named["name"], named["domain"]) == ("spared", "d.example"), "what the request does not name stays"
    original.call("ClustersApi.delete_cluster", cluster_uuid=uuid)
    assert [each["uuid"] for each in original.call("ClustersApi.get_clusters")] == [original.cluster]
    why = original.refused("ClustersApi.delete_cluster", 412, cluster_uuid=original.cluster)
    assert "the machine that Fairpool runs on" in why


def case_departments(original: Original) -> None:
    body = {
        "name": "org-department",
        "clusterId": original.cluster,
        "description": "speech",
        "schedulingRules": {"trainingJobTimeLimitSeconds": 7200},
        "defaultNodePools": ["default"],
        "resources": [quota(3, limit=4)],
    }
    made = original.call("DepartmentsApi.create_department", department_creation_request=body)
    assert {name: made[name] for name in ("name", "description", "clusterId")} == {
        name: body[name] for name in ("name", "description", "clusterId")
    }
    found = original.call("DepartmentsApi.get_department", department_id=made["id"])
    assert (gpus(found), found["schedulingRules"]["trainingJobTimeLimitSeconds"]) == ({"default": 3}, 7200)
    listed = original.call("DepartmentsApi.get_departments", filter_by=["name==org-department"])["departments"]
    assert [each["id"] for each in listed] == [made["id"]]
    assert original.call("DepartmentsApi.count_departments", filter_by=["name==org-department"]) == {"count": 1}
    update = {"description": "vision", "resources": [quota(5)]}
    original.call("DepartmentsApi.update_department", department_id=made["id"], department_update_request=update)
    found = original.call("DepartmentsApi.get_department", department_id=made["id"])
    assert (found["description"], gpus(found)) == ("vision", {"default": 5})
    original.call("DepartmentsApi.patch_department_resources", department_id=made["id"], resources_nullable=[quota(6)])
    assert gpus(original.call("DepartmentsApi.get_department", department_id=made["id"])) == {"default": 6}
    original.call("DepartmentsApi.update_department_resources", department_id=made["id"], resources_nullable=[quota(7)])
    assert gpus(original.call("DepartmentsApi.get_department", department_id=made["id"])) == {"default": 7}
    original.call("DepartmentsApi.delete_department", department_id=made["id"])
    assert original.call("DepartmentsApi.count_departments", filter_by=["name==org-department"]) == {"count": 0}


def case_projects(original: Original) -> None:
    department = {
        "name": "org-parent",
        "clusterId": original.cluster,
        "schedulingRules": {"interactiveJobTimeLimitSeconds": 3600},
        "resources": [quota(2)],
    }
    parent = original.call("DepartmentsApi.create_department", department_creation_request=department)["id"]
    body = {
        "name": "org-project",
        "clusterId": original.cluster,
        "parentId": parent,
        "description": "first",
        "requestedNamespace": "runai-org-project",
        "nodeTypes": {"training": ["a100"], "workspace": [], "names": {"a100": "a100"}},
        "schedulingRules": {"trainingJobTimeLimitSeconds": 1800},
        "resources": [{**quota(1, overQuotaWeight=2), "priority": "high"}],
    }
    made = original.call("ProjectsApi.create_project", project_creation_request=body)
    assert (made["parent"]["name"], made["status"]["namespace"]) == ("org-parent", "runai-org-project")
    found = original.call("ProjectsApi.get_project", project_id=made["id"])
    assert (gpus(found), found["resources"][0]["priority"]) == ({"default": 1}, "high")
    rules = found["effective"]["schedulingRules"]
    assert rules == {"interactiveJobTimeLimitSeconds": 3600, "trainingJobTimeLimitSeconds": 1800}
    listed = original.call("ProjectsApi.get_projects", search="org-proj", sort_by="name")["projects"]
    assert [each["name"] for each in listed] == ["org-project"]
    assert original.call("ProjectsApi.count_projects", filter_by=["name==org-project"]) == {"count": 1}
    update = {"description": "second", "resources": [quota(2)]}
    original.call("ProjectsApi.update_project", project_id=made["id"], project_update_request=update)
    found = original.call("ProjectsApi.get_project", project_id=made["id"])
    assert (found["description"], gpus(found), found["parentId"]) == ("second", {"default": 2}, parent)
    patch = [{"nodePool": {"id": "default"}, "cpu": {"deserved": 4000}}]
    original.call("ProjectsApi.patch_project_resources", project_id=made["id"], resources_nullable=patch)
    found = original.call("ProjectsApi.get_project", project_id=made["id"])
    assert (gpus(found), found["resources"][0]["cpu"]["deserved"]) == ({"default": 2}, 4000)
    original.call("ProjectsApi.update_project_resources", project_id=made["id"], resources_nullable=[quota(0)])
    found = original.call("ProjectsApi.get_project", project_id=made["id"])
    assert (gpus(found), found["resources"][0]["cpu"]["deserved"]) == ({"default": 0}, -1)
    original.call("ProjectsApi.delete_project", project_id=made["id"])
    original.until(
        lambda: original.call("ProjectsApi.count_projects", filter_by=["name==org-project"]) == {"count": 0},
        "the project is gone",
    )
    original.call("DepartmentsApi.delete_department", department_id=parent)


def case_priorities_of_projects(original: Original) -> None:
    listed = original.call("OrgUnitApi.get_priorities")["priorities"]
    assert [each["name"] for each in listed if each.get("isDefault")] == ["medium"]
    assert [each["value"] for each in listed] == sorted(each["value"] for each in listed)


def case_node_pools(original: Original) -> None:
    body = {"name": "org-pool", "labelKey": "org", "labelValue": "a", "clusterId": original.cluster}
    made = original.call("NodePoolsApi.create_nodepool", nodepool_create_fields=body)
    assert (made["clusterName"], made["isDefault"], made["phase"]) == ("local", False, "Empty")
    found = original.call("NodePoolsApi.get_nodepool", nodepool_id=made["id"])
    assert {name: found[name] for name in body} == body
    listed = original.call("NodePoolsApi.get_nodepools")["nodepools"]
    assert [(each["name"], each["isDefault"]) for each in listed] == [("default", True), ("org-pool", False)]
    assert original.call("NodePoolsApi.count_nodepools") == {"count": 2}
    update = {"labelValue": "b", "placementStrategy": {"gpu": "spread", "cpu": "spread"}}
    original.call("NodePoolsApi.update_nodepool", nodepool_id=made["id"], nodepool_update_fields=update)
    found = original.call("NodePoolsApi.get_nodepool", nodepool_id=made["id"])
    assert (found["labelKey"], found["labelValue"], found["placementStrategy"]["gpu"]) == ("org", "b", "spread")
    original.call("NodePoolsApi.patch_nodepool", nodepool_id=made["id"], nodepool_update_fields={"labelKey": "org-2"})
    found = original.call("NodePoolsApi.get_nodepool", nodepool_id=made["id"])
    assert (found["labelKey"], found["placementStrategy"]["gpu"]) == ("org-2", "spread")
    twice = {"nodepool_id": made["id"], "nodepool_update_fields": {"overProvisioningRatio": 2}}
    assert "never given out more than once" in original.refused("NodePoolsApi.patch_nodepool", 422, **twice)
    original.call("NodePoolsApi.delete_nodepool", nodepool_id=made["id"])
    assert original.call("NodePoolsApi.count_nodepools") == {"count": 1}


def case_nodes(original: Original) -> None:
    there = sorted(each.name for each in original.platform.client.nodes())
    listed = original.call("NodesApi.get_tenant_nodes", sort_by="name", sort_order="desc")["nodes"]
    assert [each["name"] for each in listed] == there[::-1]
    assert all(each["gpuInfo"]["gpuCount"] for each in listed)
    assert original.call("NodesApi.count_tenant_nodes") == {"count": len(there)}
    of_cluster = original.call("NodesApi.get_nodes", cluster_uuid=original.cluster, node_name=there[0])["nodes"]
    assert [each["name"] for each in of_cluster] == there[:1]
    only = {"cluster_uuid": original.cluster, "filter_by": [f"name=={there[0]}"]}
    assert original.call("NodesApi.count_nodes", **only) == {"count": 1}


def case_network_topologies(original: Original) -> None:
    body = {"name": "org-fabric", "clusterId": original.cluster, "levels": ["example.com/zone", "example.com/rack"]}
    made = original.call("NetworkTopologiesApi.create_network_topology", network_topology_create_request=body)
    assert (made["clusterId"], made["levels"]) == (original.cluster, body["levels"])
    listed = original.call("NetworkTopologiesApi.get_network_topologies", filter_by=["name==org-fabric"])
    assert [each["id"] for each in listed["networkTopologies"]] == [made["id"]]
    assert original.call("NetworkTopologiesApi.get_network_topologies_count") == {"count": 1}
    found = original.call("NetworkTopologiesApi.get_network_topology_by_id", network_topology_id=made["id"])
    assert found["name"] == "org-fabric"
    original.call("NetworkTopologiesApi.delete_network_topology", network_topology_id=made["id"])
    assert original.call("NetworkTopologiesApi.get_network_topologies_count") == {"count": 0}
