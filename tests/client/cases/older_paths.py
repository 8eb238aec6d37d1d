"""Projects, departments and node pools on the older paths, with numbers for ids; settings of the tenant."""

from __future__ import annotations

from tests.client.original import Original


def case_older_projects(original: Original) -> None:
    cluster = {"cluster_id": original.cluster}
    departments = original.call("DepartmentsApi.get_departments_0", **cluster)
    default = next(each for each in departments if each["name"] == "default")
    body = {
        "name": "older-project",
        "departmentId": default["id"],
        "deservedGpus": 2,
        "maxAllowedGpus": 3,
        "gpuOverQuotaWeight": 1,
        "interactiveJobTimeLimitSecs": 3600,
        "nodeAffinity": {"train": {"affinityType": "only_selected", "selectedTypes": [{"name": "a100"}]}},
    }
    made = original.call("ProjectsApi.create_project_0", project_create_request=body, **cluster)
    assert (made["deservedGpus"], made["maxAllowedGpus"], made["trainNodeAffinity"]) == (2, 3, "a100")
    newer = original.call("ProjectsApi.get_project", project_id="older-project")
    assert newer["schedulingRules"] == {"interactiveJobTimeLimitSeconds": 3600}
    assert newer["resources"][0]["gpu"] == {"deserved": 2, "limit": 3, "overQuotaWeight": 1}
    assert original.call("ProjectsApi.get_project_0", id=str(made["id"]), **cluster)["name"] == "older-project"
    listed = original.call("ProjectsApi.get_projects_0", **cluster)
    assert made["id"] in [each["id"] for each in listed]
    pool = made["nodePoolsResources"][0]["nodePool"]
    update = {"nodePoolsResources": [{"id": pool["id"], "nodePool": pool, "gpu": {"deserved": 1}}]}
    original.call("ProjectsApi.update_project_0", id=str(made["id"]), project_update_request1=update, **cluster)
    found = original.call("ProjectsApi.get_project_0", id="older-project", **cluster)
    assert (found["deservedGpus"], found["departmentName"]) == (1, "default")
    refused = {**body, "name": "older-refused", "permissions": {"users": ["ann@example.com"]}}
    why = original.refused("ProjectsApi.create_project_0", 422, project_create_request=refused, **cluster)
    assert "permissions" in why
    gone = original.call("ProjectsApi.delete_project_0", id=made["id"], **cluster)
    assert gone["name"] == "older-project"
    original.until(
        lambda: original.call("ProjectsApi.count_projects", filter_by=["name==older-project"]) == {"count": 0},
        "the project is gone",
    )


def case_older_node_pools(original: Original) -> None:
    cluster = {"cluster_id": original.cluster}
    body = {"name": "older-pool", "labelKey": "older", "labelValue": "a"}
    made = original.call("NodePoolsApi.create_node_pool", node_pool_create_request=body, **cluster)
    assert (made["labelValue"], made["status"], made["isDefault"]) == ("a", "Empty", False)
    listed = original.call("NodePoolsApi.get_node_pools", **cluster)
    assert [each["name"] for each in listed] == ["default", "older-pool"]
    place = {"id": made["id"], **cluster}
    labels = {"labelKey": "older", "labelValue": "b"}
    original.call("NodePoolsApi.update_node_pool_labels", node_pool_labels_request=labels, **place)
    assert original.call("NodePoolsApi.get_nodepool", nodepool_id="older-pool")["labelValue"] == "b"
    spread = {"placementStrategy": {"gpu": "spread", "cpu": "spread"}}
    changed = original.call("NodePoolsApi.update_node_pool", update_node_pool_request=spread, **place)
    assert (changed["placementStrategy"]["gpu"], changed["labelValue"]) == ("spread", "b")
    original.call("NodePoolsApi.delete_node_pool", **place)
    assert [each["name"] for each in original.call("NodePoolsApi.get_node_pools", **cluster)] == ["default"]


def case_settings_of_the_tenant(original: Original) -> None:
    listed = {each["key"]: each["value"] for each in original.call("TenantApi.get_tenant_settings")}
    assert listed["department.use"] == "true"
    change = {"key": "uploads.maxFiles", "value": 1234}
    assert original.call("TenantApi.update_tenant_setting", tenant_setting_creation_request=change)["msg"]
    assert original.call("TenantApi.get_tenant_settings_by_key", setting_key="uploads.maxFiles") == 1234
    back = {"key": "uploads.maxFiles", "value": listed["uploads.maxFiles"]}
    original.call("TenantApi.update_tenant_setting", tenant_setting_creation_request=back)
    again = original.call("TenantApi.get_tenant_settings_by_key", setting_key="uploads.maxFiles")
    assert str(again) == listed["uploads.maxFiles"]
