"""Rules for single rows: what is sound, and what an unsound policy, node, queue, group or claim is planned as.

Pods, which depend on nodes and groups, are in `pod_validation.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from fairpool.model.ids import ClaimId, NodeName, QueueId
from fairpool.model.node import Node
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.problem import Problem
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI
from fairpool.model.workload import Claim, PodGroup, PodSet, SubGroup
from fairpool.scheduler.pod_validation import DEVICES_PER_NODE_MAX
from fairpool.scheduler.policy import Policy

Row = TypeVar("Row")


def unique(rows: Iterable[Row], noun: str, name: Callable[[Row], Hashable], problems: list[Problem]) -> Iterator[Row]:
    """Rows without doubles; of several under one name the same one is kept, in whatever order they came."""
    kept: dict[Hashable, Row] = {}
    doubled: set[Hashable] = set()
    for row in rows:
        key = name(row)
        if key not in kept:
            kept[key] = row
        elif row != kept[key]:
            doubled.add(key)
            kept[key] = min(row, kept[key], key=repr)
        else:
            doubled.add(key)
    problems += [
        Problem(f"{noun}.duplicate", f"more than one {noun} is named {key}", "give each a unique name")
        for key in doubled
    ]
    return iter(kept.values())


# ---- policy


def sound_policy(policy: Policy, problems: list[Problem]) -> Policy:
    """Numbers that cannot be computed with are replaced by the product's."""
    usual = Policy.product()
    sound = {
        "usage_factor": math.isfinite(policy.usage_factor),
        "saturation_multiplier": math.isfinite(policy.saturation_multiplier),
        "portion_step_milli": 0 < policy.portion_step_milli <= WHOLE_GPU_MILLI,
        "device_memory_step_mib": policy.device_memory_step_mib > 0,
        "mig_slices_per_gpu": policy.mig_slices_per_gpu > 0,
        "smallest_device_mib": policy.smallest_device_mib is None or policy.smallest_device_mib > 0,
    }
    wrong = {name: getattr(usual, name) for name, is_sound in sound.items() if not is_sound}
    for name, value in wrong.items():
        what = f"{name} in the policy is {getattr(policy, name)}, which is out of range"
        problems.append(Problem("policy.amounts", what, f"set a valid number; until then {value} is used"))
    return replace(policy, **wrong) if wrong else policy


# ---- nodes


def sound_node(node: Node, problems: list[Problem]) -> Node:
    amounts = (node.cpu_milli, node.memory_bytes, node.pods_max, node.gpus, node.gpu_memory_mib)
    others = (*node.extended.values(), *node.mig_instances.values())
    if min(amounts) < 0 or min(others, default=0) < 0 or node.gpus > DEVICES_PER_NODE_MAX:
        what = f"node {node.name} reports invalid quantities"
        problems.append(Problem("node.amounts", what, "correct what it reports; until then no pod is placed there"))
        return Node(name=node.name, cpu_milli=0, memory_bytes=0, pods_max=0, labels=node.labels, cordoned=True)
    withheld = tuple(sorted({device for device in node.gpus_withheld if 0 <= device < node.gpus}))
    return node if withheld == node.gpus_withheld else replace(node, gpus_withheld=withheld)


# ---- queues


def sound_queue(queue: Queue, problems: list[Problem]) -> Queue:
    sound = [_sound_entitlement(each) for each in (queue.gpu, queue.cpu, queue.memory)]
    if sound == [queue.gpu, queue.cpu, queue.memory]:
        return queue
    what = f"queue {queue.id} has an invalid quota, limit, weight or usage"
    fix = "set 0 or more, or -1 for unlimited; until then it counts as 0"
    problems.append(Problem("queue.amounts", what, fix))
    return replace(queue, gpu=sound[0], cpu=sound[1], memory=sound[2])


def _sound_entitlement(entitlement: Entitlement) -> Entitlement:
    """Quota and limit that are no amounts count as 0, so that nothing is given by mistake."""
    quota = entitlement.quota if entitlement.quota >= UNLIMITED else 0
    limit = entitlement.limit if entitlement.limit >= UNLIMITED else 0
    weight = entitlement.weight if 0 <= entitlement.weight < math.inf else 0.0
    usage = entitlement.usage if 0 <= entitlement.usage < math.inf else 0.0
    sound = Entitlement(quota, limit, weight, usage)
    # A weight below 0 is only wrong where it would be used: what is unlimited is lent nothing.
    is_unused = entitlement.quota == UNLIMITED and entitlement.weight == UNLIMITED
    return entitlement if sound == entitlement or (is_unused and usage == entitlement.usage) else sound


def rooted(queues: list[Queue], problems: list[Problem]) -> list[Queue]:
    """Queues whose path leads to a root."""
    parents = {queue.id: queue.parent for queue in queues}
    known: dict[QueueId, str] = {}
    """By queue: empty if it is rooted, else why it is not."""

    for start in parents:
        path: list[QueueId] = []
        at: QueueId | None = start
        while at is not None and at in parents and at not in known and at not in path:
            path.append(at)
            at = parents[at]
        if at is None:
            state = ""
        elif at in known:
            state = known[at]
        else:
            state = "is its own ancestor" if at in path else f"has the unknown ancestor {at}"
        known.update(dict.fromkeys(path, state))
    fix = "correct its parent; until then nothing in it is scheduled"
    problems += [Problem("queue.not_rooted", f"queue {queue} {why}", fix) for queue, why in known.items() if why]
    return [queue for queue in queues if not known[queue.id]]


# ---- groups


def sound_group(group: PodGroup, problems: list[Problem]) -> PodGroup:
    if len(group.tree.pod_sets) == 1 and not group.tree.groups:
        return group
    names = [pod_set.name for pod_set in group.tree.all_pod_sets()]
    if names and len(set(names)) == len(names):
        return group
    what = f"group {group.id} has " + ("several pod sets with the same name" if names else "no pod sets")
    problems.append(
        Problem("group.pod_sets", what, "give each pod set a unique name; until then all its pods count as one set")
    )
    minimum = sum(max(pod_set.minimum, 1) for pod_set in group.tree.all_pod_sets())
    first = names[0] if names else "default"
    return replace(group, tree=SubGroup(pod_sets=(PodSet(name=first, minimum=max(minimum, 1)),)))


# ---- claims


def sound_claims(claims: Iterable[Claim], problems: list[Problem]) -> Iterator[Claim]:
    """Claims for a possible number of devices; pods of the others wait."""
    owner: dict[tuple[NodeName | None, str], ClaimId] = {}
    for claim in sorted(claims, key=lambda each: each.id):
        if not 0 <= claim.devices <= DEVICES_PER_NODE_MAX or claim.consumers_elsewhere < 0:
            what = f"claim {claim.id} requests {claim.devices} devices, which is out of range"
            problems.append(Problem("claim.amounts", what, "correct it; pods that use it wait until then"))
            continue
        for device in claim.allocated:
            first = owner.setdefault((claim.node, device), claim.id)
            if first != claim.id:
                what = f"device {device} of {claim.node} is allocated to the claims {first} and {claim.id}"
                problems.append(
                    Problem("claim.overcommitted", what, "release one; until then the device is not allocated again")
                )
        yield claim
