"""Who may do what in the projects of a cluster, as its API server is to enforce it."""

from __future__ import annotations

from dataclasses import dataclass

from fairpool.model.ids import QueueId


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessGrant:
    """A role of a user or a group, reduced to what a cluster can enforce."""

    subject: str
    """The email address of a user, or the name of a group of the identity provider."""
    is_group: bool = False
    may_operate: bool = False
    """Shells and port forwarding too; otherwise only looking at workloads and their output."""
    queue: QueueId | None = None
    """The project, or the department whose projects are meant; None: all projects of the cluster."""
