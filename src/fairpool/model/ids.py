"""Ids and names, each a type of its own so that one cannot be passed for another.

Every id is a plain string; ties anywhere in Fairpool are broken by comparing them in string order.
"""

from __future__ import annotations

from typing import NewType

WorkloadId = NewType("WorkloadId", str)
"""A submitted workload. Never reused, unlike its name."""

QueueId = NewType("QueueId", str)
"""An owner of quota: a department or a project."""

GroupId = NewType("GroupId", str)
"""A pod group: the pods that start together or not at all."""

PodId = NewType("PodId", str)
"""A pod. It is started at most once; its replacement has another id."""

NodeName = NewType("NodeName", str)
PoolName = NewType("PoolName", str)
ClaimId = NewType("ClaimId", str)

Instant = NewType("Instant", int)
"""A moment, in milliseconds since the Unix epoch. Deciding code is handed one, it never asks for one."""

NAME_PATTERN = r"^[a-z]([a-z0-9-]*[a-z0-9])?$"
"""Names of workloads, projects, departments and node pools."""
WORKLOAD_NAME_MAX = 49

SECOND_MS = 1000

PROJECT_UIDS = range(2_000_000_000, 2_000_000_000 + 65_536)
"""Users of the machine: where Fairpool runs as root, each project's pods run as one of them."""


def is_ahead(moment: Instant, now: Instant, longest_s: int) -> bool:
    """Whether something must still wait until then.

    A moment further ahead than it can have been set was set by a clock that has been set back since: it has come.
    """
    return now < moment <= now + longest_s * SECOND_MS


Token = NewType("Token", int)
"""A fencing token: rises with every loop that takes over a cluster. What has seen a higher one refuses a lower one."""

Revision = NewType("Revision", int)
"""How far a cluster has read the desired state."""


def pod_id(workload: WorkloadId, index: int, incarnation: int) -> PodId:
    """The id of a pod: workload, index in it, and incarnation, as in `frac05-0-0`."""
    return PodId(f"{workload}-{index}-{incarnation}")


def place_of(workload: WorkloadId, pod: PodId) -> tuple[int, int] | None:
    """Index and incarnation, read back from an id; None: the pod belongs to another workload."""
    index, dash, incarnation = pod.removeprefix(f"{workload}-").partition("-")
    if not (dash and pod.startswith(f"{workload}-") and _is_number(index) and _is_number(incarnation)):
        return None
    return int(index), int(incarnation)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
