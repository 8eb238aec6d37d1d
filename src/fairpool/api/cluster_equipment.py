"""What a cluster with objects of its own (Kubernetes) exchanges with its control plane beside reports.

The cluster says where workloads are reached and what hinders that, which claims and storage classes there are; the
control plane answers who may do what in the projects. Both are levels: every message says everything, so that what is
lost does not matter.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, StringConstraints

from fairpool.api.message import Message, Wire
from fairpool.model.access_grant import AccessGrant
from fairpool.model.ids import QueueId, WorkloadId

CLUSTER_EQUIPMENT = "/api/v1/cluster/equipment"
ADDRESSES_MAX = 64
PROBLEM_CHARACTERS = 1000

Address = Annotated[str, StringConstraints(max_length=512, pattern=r"^https?://[^\s]+$")]
ObjectName = Annotated[str, StringConstraints(max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]


class EquipmentReport(Message):
    """What is there."""

    addresses: dict[WorkloadId, Annotated[tuple[Address, ...], Field(max_length=ADDRESSES_MAX)]] = Field(
        default_factory=dict
    )
    """Where workloads are reached from outside, as far as they are by now."""
    claims: dict[QueueId, tuple[ObjectName, ...]] = Field(default_factory=dict)
    """The volume claims in the namespaces of projects, also those of others."""
    storage_classes: dict[ObjectName, Annotated[str, StringConstraints(max_length=253)]] = Field(default_factory=dict)
    """With the provisioner of each."""
    default_class: str = ""
    """The class of claims that name none; empty: such claims are not provided."""
    problems: dict[WorkloadId, Annotated[str, StringConstraints(max_length=PROBLEM_CHARACTERS)]] = Field(
        default_factory=dict
    )
    """Why services, ingresses or other objects of workloads are not as declared."""


class AccessGrantWire(Wire):
    mirrors: ClassVar[Any] = AccessGrant
    subject: str
    is_group: bool
    may_operate: bool
    queue: QueueId | None


class EquipmentAnswer(Message):
    """Who may do what."""

    grants: tuple[AccessGrantWire, ...] = ()
