"""Namespaces of projects: `runai-<project>`, or an existing one that an administrator linked to the project. Pure.

A namespace is linked by the label `runai/queue=<project>`. One of ours carries the label too, and says by an annotation
which project it was made for: a later project of the same name must not find the claims of the former one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from fairpool.engines.kubernetes.manifests import OWNED, ObjectManifest, manifest
from fairpool.engines.kubernetes.names import PROJECT, QUEUE, namespace_of
from fairpool.engines.kubernetes.resources import NAMESPACES
from fairpool.model.ids import Instant, QueueId
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.organization import DEPARTMENT_PREFIX, Organization

MADE_FOR = "fairpool.io/project-created-at"
"""When the project was created that the namespace was made for."""


@dataclass(frozen=True, slots=True)
class SeenNamespace:
    """A namespace with the label of a project."""

    name: str
    project: QueueId
    is_ours: bool
    made_for: str = ""
    is_terminating: bool = False


@dataclass(frozen=True, slots=True)
class ProjectNamespaces:
    """Where the objects of each project go."""

    by_project: Mapping[QueueId, str] = field(default_factory=dict)
    problems: Mapping[QueueId, str] = field(default_factory=dict)
    """Projects that have no namespace now, and why."""


def projects_of(organization: Organization) -> dict[QueueId, Instant]:
    """The projects, and when each was created."""
    queues = organization.queues.get(DEFAULT_POOL) or next(iter(organization.queues.values()), ())
    return {each.id: each.created_at for each in queues if not each.id.startswith(DEPARTMENT_PREFIX)}


def project_namespaces(
    projects: Mapping[QueueId, Instant],
    seen: Iterable[SeenNamespace],
    *,
    create: bool,
    with_claims: Collection[str] = (),
) -> ProjectNamespaces:
    """The namespace of each project. `create`: one without a linked namespace gets one of its own. `with_claims`: the
    namespaces that contain claims."""
    linked: dict[QueueId, list[str]] = {}
    own: dict[QueueId, SeenNamespace] = {}
    for each in seen:
        if each.is_ours and each.name == namespace_of(each.project):
            own[each.project] = each
        elif not each.is_ours and not each.is_terminating:
            linked.setdefault(each.project, []).append(each.name)
    found: dict[QueueId, str] = {}
    problems: dict[QueueId, str] = {}
    for project, created_at in sorted(projects.items()):
        names, mine = sorted(linked.get(project, ())), own.get(project)
        if mine is not None and mine.made_for not in ("", str(created_at)) and mine.name in with_claims:
            problems[project] = (
                f"the namespace {mine.name} holds volume claims of a former project {project}: delete them, or use "
                "another name for the project"
            )
        elif mine is not None or (create and not names):
            found[project] = namespace_of(project)
        elif len(names) == 1:
            found[project] = names[0]
        elif names:
            problems[project] = (
                f"the namespaces {', '.join(names)} are all linked to project {project}: "
                f"remove the label {QUEUE} from all but one"
            )
        else:
            problems[project] = (
                f"no namespace is linked to project {project}: kubectl label namespace NAMESPACE {QUEUE}={project}"
            )
    return ProjectNamespaces(found, problems)


def namespace_manifest(project: QueueId, created_at: Instant) -> ObjectManifest:
    """The namespace of our own for a project."""
    labels = {**OWNED, QUEUE: project, PROJECT: project}
    return manifest(NAMESPACES, namespace_of(project), {}, labels=labels, annotations={MADE_FOR: str(created_at)})
