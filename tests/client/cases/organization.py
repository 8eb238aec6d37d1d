"""Clusters, projects, departments, node pools and nodes."""

from __future__ import annotations

from tests.client.original import Original


def case_clusters(original: Original) -> None:
    listed = original.call("ClustersApi.get_clusters")
    assert [each["uuid"] for each in listed] == [original.cluster]


def case_counts(original: Original) -> None:
    projects = original.call("ProjectsApi.count_projects")["count"]
    assert projects == len(original.platform.client.projects())
    assert original.call("ProjectsApi.count_projects", filter_by=["name==team-a"]) == {"count": 1}
    assert original.call("DepartmentsApi.count_departments") == {"count": 1}
    assert original.call("NodePoolsApi.count_nodepools") == {"count": 1}
    nodes = original.call("NodesApi.count_tenant_nodes")["count"]
    assert nodes == len(original.platform.client.nodes())
