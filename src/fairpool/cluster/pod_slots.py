"""The pods of a workload by index: which one counts, and the group and pod set it belongs to.

An index has one pod after the other, with rising incarnations. The ledger keeps several of them for a while.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.model.ids import GroupId, Instant, WorkloadId, pod_id
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.spec import Arrangement, RestartPolicy, WorkloadSpec


def latest_pods(pods: Sequence[PodRecord]) -> dict[int, PodRecord]:
    """The latest pod of each index."""
    latest: dict[int, PodRecord] = {}
    for pod in pods:
        if pod.index not in latest or latest[pod.index].incarnation < pod.incarnation:
            latest[pod.index] = pod
    return latest


def counted_pods(spec: WorkloadSpec, pods: Sequence[PodRecord]) -> dict[int, PodRecord]:
    """The pod that counts for each declared index; pods beyond the declared number, after a scale-down, do not count.

    A pod that succeeded counts even if its replacement had been created before its end was known.
    """
    most = spec.runs_needed if spec.arrangement is Arrangement.SWEEP else spec.pods
    counted = {index: pod for index, pod in latest_pods(pods).items() if index < most}
    if spec.restart_rule.restart is not RestartPolicy.ALWAYS:
        counted.update((pod.index, pod) for pod in pods if pod.outcome is Outcome.OK and pod.index < most)
    return counted


def new_pod(spec: WorkloadSpec, index: int, incarnation: int, now: Instant) -> PodRecord:
    """A pod that waits, as the declaration describes it."""
    return PodRecord(
        id=pod_id(spec.id, index, incarnation),
        workload=spec.id,
        index=index,
        incarnation=incarnation,
        group=group_of(spec, index),
        pod_set=pod_set_of(spec, index),
        shape=spec.template_of(index).shape,
        run=spec.run,
        since=now,
        created_at=now,
        grace_s=spec.grace_s,
    )


def group_of(spec: WorkloadSpec, index: int) -> GroupId:
    """The pod group of a pod: each replica is a group of its own, named `workload/index`."""
    return GroupId(f"{spec.id}/{index}" if spec.arrangement is Arrangement.REPLICAS else spec.id)


def workload_of(group: GroupId) -> WorkloadId:
    """The workload of a pod group."""
    return WorkloadId(group.partition("/")[0])


def pod_set_of(spec: WorkloadSpec, index: int) -> str:
    """The pod set of a pod: leaders and workers are counted apart."""
    if spec.arrangement is not Arrangement.TOGETHER or spec.leader is None:
        return "default"
    return "leader" if index == 0 else "worker"


def is_rigid(spec: WorkloadSpec) -> bool:
    """Whether all its pods are required, so that one that ends stops the others."""
    return spec.arrangement is Arrangement.TOGETHER and spec.pods > 1 and not spec.is_elastic


def stop_peers(pods: Sequence[PodRecord], now: Instant, why: str) -> tuple[PodRecord, ...]:
    """The pods of a gang that lost one of them: those that are placed are stopped, and all restart together."""
    placed = (PodPhase.BOUND, PodPhase.RUNNING)
    return tuple(pod.release(now, Cause.PEER, why) if pod.phase in placed else pod for pod in pods)
