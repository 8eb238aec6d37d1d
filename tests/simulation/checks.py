"""Invariants, checked after every cycle; each check yields what is wrong and the workload concerned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fairpool.cluster.ledger_cache import LedgerCache
from fairpool.cluster.pod_slots import is_rigid, latest_pods
from fairpool.model.ids import SECOND_MS, Instant, NodeName, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.spec import Arrangement, RestartPolicy
from fairpool.model.workload import GpuKind
from fairpool.scheduler.policy import Policy

if TYPE_CHECKING:
    from tests.simulation.world import World

Wrong = tuple[str, WorkloadId | None]

HELD = (PodPhase.BOUND, PodPhase.RUNNING, PodPhase.RELEASING)
STAYING = (PodPhase.BOUND, PodPhase.RUNNING)
UNPLACED = (PodPhase.WAITING, PodPhase.PROMISED)
PROMISE_S = 600
PRODUCT = Policy.product()


def all_violations(world: World) -> Iterator[Wrong]:
    """Everything that is wrong now."""
    cache = world.cache
    yield from engine_invariants_hold(world)
    yield from world.record.wrong
    yield from world.wrong_entries
    yield from one_pod_per_index(cache)
    yield from no_device_over_committed(cache, world)
    yield from gangs_are_whole(cache, world.ledger_audit.rigid_since)
    yield from only_preemptible_work_is_taken(cache)
    yield from done_work_is_not_done_again(cache)
    yield from sweeps_keep_to_their_number(cache)


def engine_invariants_hold(world: World) -> Iterator[Wrong]:
    for line in world.engine.violations:
        yield f"the engine saw: {line}", None


def one_pod_per_index(cache: LedgerCache) -> Iterator[Wrong]:
    """Of each index at most one pod stays; another may only be stopping."""
    for workload, pods in cache.pods.items():
        staying = [(pod.index) for pod in pods if pod.phase in STAYING]
        alive = [pod for pod in pods if not pod.is_over and pod.phase is not PodPhase.RELEASING]
        if len(staying) != len(set(staying)) or len(alive) != len({pod.index for pod in alive}):
            yield f"two pods of one index: {[pod.id for pod in alive]}", workload


def no_device_over_committed(cache: LedgerCache, world: World) -> Iterator[Wrong]:
    used: dict[tuple[NodeName, str, int], int] = {}
    for workload, pods in cache.pods.items():
        for pod in pods:
            if pod.phase not in HELD or pod.node is None:
                continue
            for device in pod.devices:
                key = (pod.node, pod.boot_id, device)
                device_mib = world.memory_mib(pod.node)
                used[key] = used.get(key, 0) + _part(pod, device_mib)
                if used[key] > WHOLE_GPU_MILLI * device_mib:
                    yield f"{pod.node} device {device} of {device_mib} MiB holds {used[key] / 1000} MiB", workload


def _part(pod: PodRecord, device_mib: int) -> int:
    """GPU memory that it holds of each of its devices, in thousandths of a MiB: exact, without a rounded portion."""
    gpu = pod.shape.gpu
    if gpu.kind is GpuKind.MEMORY:
        return gpu.memory_mib * WHOLE_GPU_MILLI
    return gpu.portion_milli * device_mib


def gangs_are_whole(cache: LedgerCache, rigid_since: Mapping[WorkloadId, Instant]) -> Iterator[Wrong]:
    """Of a gang that needs all its pods, no pod stays while another has no place.

    A pod that was missing already while the others did without it has the grace of broken gangs to come back.
    """
    for workload, spec in cache.specs.items():
        pods = latest_pods(cache.pods.get(workload, ()))
        current = [pod for index, pod in sorted(pods.items()) if index < spec.pods]
        if not is_rigid(spec) or len(current) < spec.pods:
            continue
        staying = [pod for pod in current if pod.phase in STAYING]
        since = rigid_since.get(workload, Instant(0))
        missing = [pod for pod in current if pod.phase in UNPLACED and pod.created_at > since]
        if staying and missing and not _was_resized(current, cache.states[workload].first_incarnation):
            yield f"half a gang: {[(pod.id, pod.phase.value) for pod in current]}", workload


def _was_resized(current: list[PodRecord], first_incarnation: int) -> bool:
    """A gang that was declared larger while it ran waits with its new pods until it is restarted as a whole."""
    return any(pod.phase not in STAYING and pod.incarnation <= first_incarnation for pod in current)


def only_preemptible_work_is_taken(cache: LedgerCache) -> Iterator[Wrong]:
    for workload, spec in cache.specs.items():
        rule = PRODUCT.rule_for(spec.kind, spec.priority, spec.preemptible)
        if rule.preemptible:
            continue
        for pod in cache.pods.get(workload, ()):
            if pod.cause in (Cause.PREEMPTED, Cause.MOVED):
                yield f"{pod.id} may not be preempted and was: {pod.detail}", workload


def done_work_is_not_done_again(cache: LedgerCache) -> Iterator[Wrong]:
    for workload, spec in cache.specs.items():
        if spec.arrangement is Arrangement.REPLICAS or spec.restart_rule.restart is RestartPolicy.ALWAYS:
            continue
        pods = cache.pods.get(workload, ())
        latest = latest_pods(pods)
        for pod in pods:
            again = latest[pod.index]
            # One that was created before this was known, for a move, may be there, as long as it goes.
            goes = again.phase is PodPhase.RELEASING or (again.is_over and again.outcome is not Outcome.OK)
            if pod.outcome is Outcome.OK and again is not pod and not goes:
                yield f"{pod.id} ended well and {again.id} does it again", workload


def sweeps_keep_to_their_number(cache: LedgerCache) -> Iterator[Wrong]:
    for workload, spec in cache.specs.items():
        if spec.arrangement is Arrangement.SWEEP:
            staying = [pod for pod in cache.pods.get(workload, ()) if pod.phase in STAYING]
            if len(staying) > spec.pods:
                yield f"{len(staying)} pods of at most {spec.pods}", workload


def promises_are_kept_or_given_up(world: World) -> Iterator[Wrong]:
    """In quiet times no promise is older than the policy lets it become."""
    now = world.wall_now()
    for workload, pods in world.cache.pods.items():
        for pod in pods:
            if pod.phase is PodPhase.PROMISED and pod.promised_at is not None:
                age_s = (now - pod.promised_at) / SECOND_MS
                if age_s > PROMISE_S + 60:
                    yield f"{pod.id} was promised a place {age_s:.0f} s ago", workload


def ledger_and_engine_agree(world: World) -> Iterator[Wrong]:
    """When nothing goes wrong any more, what is written and what runs are the same."""
    running = {pod.id for pods in world.cache.pods.values() for pod in pods if pod.phase in STAYING}
    alive = set(world.engine.alive())
    if running != alive:
        yield (
            f"written and not there: {sorted(running - alive)}, there and not written: {sorted(alive - running)}",
            None,
        )
