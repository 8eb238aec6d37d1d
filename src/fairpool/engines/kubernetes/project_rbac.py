"""RBAC objects for the members of projects: two ClusterRoles, bound in the namespace of each project. Pure.

Members see the objects of their project with `kubectl`; those who may operate workloads can open shells and forward
ports. They create workloads through the API of Fairpool or its custom resources, never as plain pods, and read no
Secrets: the values of credentials are not theirs to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairpool.engines.kubernetes.manifests import OWNED, ObjectManifest, manifest
from fairpool.engines.kubernetes.names import PROJECT
from fairpool.engines.kubernetes.resources import CLUSTER_ROLES, ROLE_BINDINGS
from fairpool.model.access_grant import AccessGrant
from fairpool.model.ids import QueueId

VIEWER = "runai-project-viewer"
MEMBER = "runai-project-member"
RBAC_GROUP = "rbac.authorization.k8s.io"

Rule = Mapping[str, Sequence[str]]

READ = ("get", "list", "watch")
ALL = ("get", "list", "watch", "create", "update", "patch", "delete")

VIEWER_RULES: tuple[Rule, ...] = (
    {
        "apiGroups": ("",),
        "resources": (
            *("pods", "pods/log", "pods/status", "services", "endpoints", "events", "configmaps"),
            *("persistentvolumeclaims", "resourcequotas", "limitranges"),
        ),
        "verbs": READ,
    },
    {"apiGroups": ("events.k8s.io",), "resources": ("events",), "verbs": READ},
    {"apiGroups": ("discovery.k8s.io",), "resources": ("endpointslices",), "verbs": READ},
    {"apiGroups": ("networking.k8s.io",), "resources": ("ingresses",), "verbs": READ},
    {"apiGroups": ("run.ai",), "resources": ("*",), "verbs": READ},
)
MEMBER_RULES: tuple[Rule, ...] = (
    *VIEWER_RULES[:-1],
    # `get` too: clients that use WebSockets begin with it.
    {
        "apiGroups": ("",),
        "resources": ("pods/exec", "pods/attach", "pods/portforward"),
        "verbs": ("get", "create"),
    },
    {"apiGroups": ("run.ai",), "resources": ("*",), "verbs": ALL},
)
RESERVED = "system:"
"""How users and groups of Kubernetes itself begin; every account is in some of them."""


def cluster_role_manifests() -> list[ObjectManifest]:
    """The two roles. A client that applies them must hold the same rights."""
    return [_cluster_role(VIEWER, VIEWER_RULES), _cluster_role(MEMBER, MEMBER_RULES)]


def binding_manifests(
    project: QueueId, parents: Iterable[QueueId], namespace: str, grants: Iterable[AccessGrant]
) -> list[ObjectManifest]:
    """Who has which role in the namespace of a project; `parents`: its department."""
    queues = {None, project, *parents}
    mine = [each for each in grants if each.queue in queues and not each.subject.startswith(RESERVED)]
    members = {(each.is_group, each.subject) for each in mine if each.may_operate}
    viewers = {(each.is_group, each.subject) for each in mine} - members
    found = []
    for role, subjects in ((MEMBER, members), (VIEWER, viewers)):
        if not subjects:
            continue
        content = {
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [_subject(is_group, name) for is_group, name in sorted(subjects)],
        }
        labels = {**OWNED, PROJECT: project}
        found.append(manifest(ROLE_BINDINGS, role, content, namespace=namespace, labels=labels))
    return found


def _cluster_role(name: str, rules: Sequence[Rule]) -> ObjectManifest:
    written = [{key: list(values) for key, values in rule.items()} for rule in rules]
    return manifest(CLUSTER_ROLES, name, {"rules": written})


def _subject(is_group: bool, name: str) -> dict[str, Any]:
    return {"apiGroup": RBAC_GROUP, "kind": "Group" if is_group else "User", "name": name}
