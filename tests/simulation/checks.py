"""What must never happen, looked at after every turn; each answers with what is wrong and who is concerned."""

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


def all_wrong(world: World) -> Iterator[Wrong]:
    """Everything that is wrong now."""
    books = world.cache
    yield from engine_is_witness(world)
    yield from world.record.wrong
    yield from world.wrong_entries
    yield from one_life_per_pod(books)
    yield from no_device_over_committed(books, world)
    yield from gangs_are_whole(books, world.chronicle.rigid_since)
    yield from only_preemptible_work_is_taken(books)
    yield from done_work_is_not_done_again(books)
    yield from sweeps_keep_to_their_number(books)


def engine_is_witness(world: World) -> Iterator[Wrong]:
    for line in world.engine.violations:
        yield f"the engine saw: {line}", None


def one_life_per_pod(books: LedgerCache) -> Iterator[Wrong]:
    """Of one pod at most one life stays; another may only be on its way out."""
    for workload, lives in books.pods.items():
        staying = [(life.index) for life in lives if life.phase in STAYING]
        alive = [life for life in lives if not life.is_over and life.phase is not PodPhase.RELEASING]
        if len(staying) != len(set(staying)) or len(alive) != len({life.index for life in alive}):
            yield f"two lives of one pod: {[life.id for life in alive]}", workload


def no_device_over_committed(books: LedgerCache, world: World) -> Iterator[Wrong]:
    used: dict[tuple[NodeName, str, int], int] = {}
    for workload, lives in books.pods.items():
        for life in lives:
            if life.phase not in HELD or life.node is None:
                continue
            for device in life.devices:
                key = (life.node, life.boot_id, device)
                device_mib = world.memory_mib(life.node)
                used[key] = used.get(key, 0) + _part(life, device_mib)
                if used[key] > WHOLE_GPU_MILLI * device_mib:
                    yield f"{life.node} device {device} of {device_mib} MiB holds {used[key] / 1000} MiB", workload


def _part(life: PodRecord, device_mib: int) -> int:
    """GPU memory that it holds of each of its devices, in thousandths of a MiB: exact, without a rounded portion."""
    gpu = life.shape.gpu
    if gpu.kind is GpuKind.MEMORY:
        return gpu.memory_mib * WHOLE_GPU_MILLI
    return gpu.portion_milli * device_mib


def gangs_are_whole(books: LedgerCache, rigid_since: Mapping[WorkloadId, Instant]) -> Iterator[Wrong]:
    """Of a gang that needs all its pods, no pod stays while another has no place.

    A pod that was missing already while the others did without it has the grace of broken gangs to come back.
    """
    for workload, spec in books.specs.items():
        lives = latest_pods(books.pods.get(workload, ()))
        current = [life for index, life in sorted(lives.items()) if index < spec.pods]
        if not is_rigid(spec) or len(current) < spec.pods:
            continue
        staying = [life for life in current if life.phase in STAYING]
        since = rigid_since.get(workload, Instant(0))
        missing = [life for life in current if life.phase in UNPLACED and life.born_at > since]
        if staying and missing and not _was_resized(current, books.states[workload].first_incarnation):
            yield f"half a gang: {[(life.id, life.phase.value) for life in current]}", workload


def _was_resized(current: list[PodRecord], first_incarnation: int) -> bool:
    """A gang that was declared larger while it ran waits with its new pods until it is restarted as a whole."""
    return any(life.phase not in STAYING and life.incarnation <= first_incarnation for life in current)


def only_preemptible_work_is_taken(books: LedgerCache) -> Iterator[Wrong]:
    for workload, spec in books.specs.items():
        rule = PRODUCT.rule_for(spec.kind, spec.priority, spec.preemptible)
        if rule.preemptible:
            continue
        for life in books.pods.get(workload, ()):
            if life.cause in (Cause.PREEMPTED, Cause.MOVED):
                yield f"{life.id} may not be preempted and was: {life.detail}", workload


def done_work_is_not_done_again(books: LedgerCache) -> Iterator[Wrong]:
    for workload, spec in books.specs.items():
        if spec.arrangement is Arrangement.REPLICAS or spec.restart_rule.restart is RestartPolicy.ALWAYS:
            continue
        lives = books.pods.get(workload, ())
        latest = latest_pods(lives)
        for life in lives:
            again = latest[life.index]
            # One that was born before this was known, for a move, may be there, as long as it goes.
            goes = again.phase is PodPhase.RELEASING or (again.is_over and again.outcome is not Outcome.OK)
            if life.outcome is Outcome.OK and again is not life and not goes:
                yield f"{life.id} ended well and {again.id} does it again", workload


def sweeps_keep_to_their_number(books: LedgerCache) -> Iterator[Wrong]:
    for workload, spec in books.specs.items():
        if spec.arrangement is Arrangement.SWEEP:
            staying = [life for life in books.pods.get(workload, ()) if life.phase in STAYING]
            if len(staying) > spec.pods:
                yield f"{len(staying)} pods of at most {spec.pods}", workload


def promises_are_kept_or_given_up(world: World) -> Iterator[Wrong]:
    """In quiet times no promise is older than the policy lets it become."""
    now = world.wall_now()
    for workload, lives in world.cache.pods.items():
        for life in lives:
            if life.phase is PodPhase.PROMISED and life.promised_at is not None:
                age_s = (now - life.promised_at) / SECOND_MS
                if age_s > PROMISE_S + 60:
                    yield f"{life.id} was promised a place {age_s:.0f} s ago", workload


def ledger_and_engine_agree(world: World) -> Iterator[Wrong]:
    """When nothing goes wrong any more, what is written and what runs are the same."""
    running = {life.id for lives in world.cache.pods.values() for life in lives if life.phase in STAYING}
    alive = set(world.engine.alive())
    if running != alive:
        yield (
            f"written and not there: {sorted(running - alive)}, there and not written: {sorted(alive - running)}",
            None,
        )
