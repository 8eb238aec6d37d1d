"""Roles and the permission grid in words. A module of its own, because commands load it."""

from __future__ import annotations

import re
from enum import StrEnum

ADMINISTRATOR = "administrator"
"""The role with every permission; over the whole installation it makes a system administrator."""
RESEARCHER = "researcher"
"""The role that a member of a project has by default."""


class Verb(StrEnum):
    """What can be done with a resource."""

    CREATE = "create"
    READ = "read"
    UPDATE = "update"
    DELETE = "delete"


class ResourceType(StrEnum):
    """A row of the permission grid."""

    DEPARTMENT = "department"
    PROJECT = "project"
    CLUSTER = "cluster"
    CLUSTER_CONFIG = "cluster-config"
    NODEPOOLS = "nodepools"
    NODES = "nodes"
    NETWORK_TOPOLOGIES = "network-topologies"
    SETTINGS = "settings"
    SECURITY_SETTINGS = "security-settings"
    USERS = "users"
    APPS = "apps"
    SERVICE_ACCOUNT = "service-account"
    ROLES = "roles"
    ACCESS_RULES = "access_rules"
    EVENTS_HISTORY = "events-history"
    DASHBOARDS_OVERVIEW = "dashboards-overview"
    JOBS = "jobs"
    WORKLOADS = "workloads"
    WORKSPACES = "workspaces"
    TRAININGS = "trainings"
    INFERENCES = "inferences"
    POLICIES = "policies"
    ENVIRONMENTS = "environments"
    COMPUTE_RESOURCES = "compute-resources"
    TEMPLATES = "templates"
    CREDENTIALS = "credentials"
    PVC_ASSETS = "pvc-assets"
    GIT_ASSETS = "git-assets"
    HOST_PATH_ASSETS = "host-path-assets"
    NFS_ASSETS = "nfs-assets"
    S3_ASSETS = "s3-assets"
    CM_VOLUME_ASSETS = "cm-volume-assets"
    SECRET_VOLUME_ASSETS = "secret-volume-assets"
    REGISTRIES = "registries"
    STORAGE_CLASS_CONFIGURATION = "storage-class-configuration"


def role_key(name: str) -> str:
    """The name of a role as it is compared: `L1 Researcher`, `l1_researcher` and `l1-researcher` are one."""
    return re.sub(r"[\s_-]+", "-", name.strip().casefold())


class ResourceGroup(StrEnum):
    """Rows of the grid that belong together."""

    ORGANIZATION = "organization"
    PHYSICAL = "physical-resource"
    IAM = "iam"
    DASHBOARD = "dashboard"
    WORKLOAD = "workload"
    ASSET = "workload-asset"


_NAMES = {
    ResourceGroup.ORGANIZATION: {
        ResourceType.DEPARTMENT: "Departments",
        ResourceType.PROJECT: "Projects",
        ResourceType.SETTINGS: "Settings",
        ResourceType.SECURITY_SETTINGS: "Security settings",
    },
    ResourceGroup.PHYSICAL: {
        ResourceType.CLUSTER: "Clusters",
        ResourceType.CLUSTER_CONFIG: "Snapshots of clusters",
        ResourceType.NODES: "Nodes",
        ResourceType.NODEPOOLS: "Node pools",
        ResourceType.NETWORK_TOPOLOGIES: "Network topologies",
    },
    ResourceGroup.IAM: {
        ResourceType.USERS: "Users",
        ResourceType.APPS: "Applications",
        ResourceType.SERVICE_ACCOUNT: "Service accounts",
        ResourceType.ROLES: "Roles",
        ResourceType.ACCESS_RULES: "Access rules",
        ResourceType.EVENTS_HISTORY: "Audit log",
    },
    ResourceGroup.DASHBOARD: {ResourceType.DASHBOARDS_OVERVIEW: "Overview"},
    ResourceGroup.WORKLOAD: {
        ResourceType.WORKLOADS: "Workloads",
        ResourceType.JOBS: "Jobs",
        ResourceType.WORKSPACES: "Workspaces",
        ResourceType.TRAININGS: "Training",
        ResourceType.INFERENCES: "Inference",
        ResourceType.POLICIES: "Policies",
    },
    ResourceGroup.ASSET: {
        ResourceType.ENVIRONMENTS: "Environments",
        ResourceType.COMPUTE_RESOURCES: "Compute resources",
        ResourceType.TEMPLATES: "Templates",
        ResourceType.CREDENTIALS: "Credentials",
        ResourceType.PVC_ASSETS: "Data sources: volume claims",
        ResourceType.GIT_ASSETS: "Data sources: Git",
        ResourceType.HOST_PATH_ASSETS: "Data sources: host paths",
        ResourceType.NFS_ASSETS: "Data sources: NFS",
        ResourceType.S3_ASSETS: "Data sources: S3",
        ResourceType.CM_VOLUME_ASSETS: "Data sources: config maps",
        ResourceType.SECRET_VOLUME_ASSETS: "Data sources: secrets",
        ResourceType.REGISTRIES: "Registries",
        ResourceType.STORAGE_CLASS_CONFIGURATION: "Storage classes",
    },
}
RESOURCES: dict[ResourceType, tuple[ResourceGroup, str]] = {
    resource: (group, name) for group, names in _NAMES.items() for resource, name in names.items()
}
"""Every row of the grid in the order in which it is shown, with its group and name."""
