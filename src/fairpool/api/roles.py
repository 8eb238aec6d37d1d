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
