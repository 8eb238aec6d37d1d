"""Laws: what must be so in every plan, whatever the world. Each takes the snapshot and the plan made for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from fairpool.model.ids import SECOND_MS, GroupId, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node
from fairpool.model.organization import Entitlement
from fairpool.model.quantity import UNLIMITED, Amounts
from fairpool.model.workload import Pod
from fairpool.scheduler.decision import Bind, Evict, Plan, Promise
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.snapshot import Snapshot
from tests.accounting import COUNTED, Accounting, total
from tests.properties.occupancy import Occupancy, admits, holds_now, holds_soon

Law = Callable[[Snapshot, Plan], None]


class Reading:
    """A snapshot and its plan, looked at from the sides that laws ask about."""

    def __init__(self, snapshot: Snapshot, plan: Plan) -> None:
        self.snapshot = snapshot
        self.plan = plan
        self.before = Accounting(snapshot)
        self.pods: dict[PodId, Pod] = {pod.id: pod for pod in snapshot.pods}
        self.evicted: dict[PodId, Evict] = {each.pod: each for each in plan.evictions}
        places: list[Bind | Promise] = [*plan.binds, *plan.promises]
        self.places: dict[PodId, Bind | Promise] = {each.pod: each for each in places}
        self.withdrawn = {each.pod for each in plan.withdrawals}
        self.after = Accounting(replace(snapshot, pods=tuple(self._settled())))

    def at_once(self) -> list[Pod]:
        """Everything that holds something while the plan is carried out: old, leaving and new."""
        holding = [pod for pod in self.snapshot.pods if holds_now(pod)]
        return holding + [self._at(each) for each in self.plan.binds]

    def _settled(self) -> Iterable[Pod]:
        """The pods once those that leave have left and those that were promised a place have it."""
        for pod in self.snapshot.pods:
            if pod.id in self.places:
                yield self._at(self.places[pod.id])
            elif pod.id in self.evicted or pod.phase is PodPhase.RELEASING:
                continue
            elif pod.phase is PodPhase.PROMISED and pod.id not in self.withdrawn:
                yield replace(pod, phase=PodPhase.RUNNING)
            elif pod.id in self.withdrawn:
                yield replace(pod, phase=PodPhase.WAITING, node=None, devices=())
            else:
                yield pod

    def _at(self, place: Bind | Promise) -> Pod:
        return replace(self.pods[place.pod], phase=PodPhase.RUNNING, node=place.node, devices=place.devices)

    def lost(self, by: Pass) -> list[Evict]:
        """Evictions by a pass of pods that get no other place in this plan."""
        return [each for each in self.plan.evictions if each.reason.by is by and each.pod not in self.places]

    def added(self) -> list[Pod]:
        """Pods that hold more than before: bound or promised, and not merely moved."""
        return [self._at(place) for pod, place in self.places.items() if pod not in self.evicted]


# --- places ------------------------------------------------------------------------------------------------------


def no_device_is_given_twice(snapshot: Snapshot, plan: Plan) -> None:
    """Nor any node overfilled: not while the plan is carried out, and not once its promises are kept."""
    reading = Reading(snapshot, plan)
    later = [pod for pod in reading.after.snapshot.pods if holds_soon(pod)]
    for node in snapshot.nodes:
        for moment, pods in (("at once", reading.at_once()), ("later", later)):
            excess = Occupancy(node, (pod for pod in pods if pod.node == node.name)).excess()
            assert not excess, f"{moment}: {excess}"


def places_are_real(snapshot: Snapshot, plan: Plan) -> None:
    """The node exists, is in service, and admits the pod; the devices are as many as asked for, and different."""
    reading = Reading(snapshot, plan)
    for place in reading.places.values():
        pod, group = reading.pods[place.pod], reading.before.groups[place.group]
        assert place.node in reading.before.nodes, f"{place.pod} is sent to {place.node}"
        node = reading.before.nodes[place.node]
        assert admits(node, pod, group), f"{place.pod} may not go to {place.node}"
        assert len(set(place.devices)) == len(place.devices) == pod.shape.gpu.devices, place


def one_outcome_for_each_pod(snapshot: Snapshot, plan: Plan) -> None:
    """No pod is bound and evicted, or twice anything; only what moves is both evicted and promised a place."""
    phases = {pod.id: pod.phase for pod in snapshot.pods}
    binds = [each.pod for each in plan.binds]
    promises = [each.pod for each in plan.promises]
    evictions = [each.pod for each in plan.evictions]
    withdrawals = [each.pod for each in plan.withdrawals]
    for names in (binds, promises, evictions, withdrawals):
        assert not [name for name, count in Counter(names).items() if count > 1]
    assert not set(binds) & set(evictions)
    assert not set(binds) & set(promises)
    assert not set(withdrawals) & set(evictions)
    moved = {each.pod for each in plan.evictions if each.reason.moved_to is not None}
    assert set(promises) & set(evictions) == moved
    for name in binds:
        assert phases[name] in (PodPhase.WAITING, PodPhase.PROMISED), f"{name} was {phases[name]}"
    for name in evictions:
        assert phases[name] in COUNTED, f"{name} was {phases[name]}"
    for name in withdrawals:
        assert phases[name] is PodPhase.PROMISED, f"{name} was {phases[name]}"
    gated = {pod.id for pod in snapshot.pods if pod.gated}
    assert not gated & {*binds, *promises}


# --- gangs -------------------------------------------------------------------------------------------------------


def a_group_is_whole_or_absent(snapshot: Snapshot, plan: Plan) -> None:
    """What is bound is bound with its whole gang, what is promised is promised with it, and no gang is in parts."""
    reading = Reading(snapshot, plan)
    bound = {each.group for each in plan.binds}
    promised = {each.group for each in plan.promises}
    evicted = {each.group for each in plan.evictions}
    for group in snapshot.groups:
        members = [pod for pod in snapshot.pods if pod.group == group.id]
        for pod_set in group.tree.all_pod_sets():
            pods = [pod for pod in members if pod.pod_set == pod_set.name]
            held = sum(pod.phase in COUNTED for pod in pods)
            stays = sum(pod.phase in COUNTED and pod.id not in reading.evicted for pod in pods)
            now = stays + sum(pod.id in reading.places and isinstance(reading.places[pod.id], Bind) for pod in pods)
            later = sum(holds_soon(pod) for pod in reading.after.snapshot.pods if pod.id in {each.id for each in pods})
            if group.id in bound:
                assert now >= pod_set.minimum, f"{group.id}/{pod_set.name}: {now} of {pod_set.minimum} bound"
            if group.id in promised:
                assert later >= pod_set.minimum, f"{group.id}/{pod_set.name}: {later} of {pod_set.minimum} promised"
            if group.id in evicted and held >= pod_set.minimum:
                left = [pod for pod in members if pod.phase in COUNTED and pod.id not in reading.evicted]
                assert now >= pod_set.minimum or not left, f"{group.id} is left with {[pod.id for pod in left]}"


# --- quotas and limits -------------------------------------------------------------------------------------------


def nothing_is_added_beyond_a_limit(snapshot: Snapshot, plan: Plan) -> None:
    reading = Reading(snapshot, plan)
    for pod in reading.added():
        for queue in reading.before.path(reading.before.groups[pod.group].queue):
            over = _beyond(reading.after.held(queue), reading.before.charge(pod), _limits(reading.before, queue))
            assert not over, f"{pod.id} takes {queue} beyond its limit: {over}"


def nothing_that_may_not_be_preempted_is_added_beyond_quota(snapshot: Snapshot, plan: Plan) -> None:
    reading = Reading(snapshot, plan)
    for pod in reading.added():
        if reading.before.is_preemptible(pod.group):
            continue
        for queue in reading.before.path(reading.before.groups[pod.group].queue):
            non_preemptible = reading.after.held(queue, non_preemptible_only=True)
            over = _beyond(non_preemptible, reading.before.charge(pod), _quotas(reading.before, queue))
            assert not over, f"{pod.id} takes {queue} beyond its quota: {over}"


Bounds = tuple[int, int, int]


def _limits(accounting: Accounting, queue: QueueId) -> Bounds:
    row = accounting.queues[queue]
    return (row.gpu.limit, row.cpu.limit, row.memory.limit)


def _quotas(accounting: Accounting, queue: QueueId) -> Bounds:
    row = accounting.queues[queue]
    return (row.gpu.quota, row.cpu.quota, row.memory.quota)


def _beyond(held: Amounts, asked: Amounts, bounds: Bounds) -> list[str]:
    """Resources that were asked for and of which more is held than the bound."""
    rows = (
        ("gpu", held.gpu_milli, asked.gpu_milli),
        ("cpu", held.cpu_milli, asked.cpu_milli),
        ("memory", held.memory_bytes, asked.memory_bytes),
    )
    return [
        f"{name} {amount} > {bound}"
        for (name, amount, more), bound in zip(rows, bounds, strict=True)
        if more > 0 and bound != UNLIMITED and amount > bound
    ]


# --- evictions ---------------------------------------------------------------------------------------------------


def only_broken_gangs_lose_what_may_not_be_preempted(snapshot: Snapshot, plan: Plan) -> None:
    accounting = Accounting(snapshot)
    for each in plan.evictions:
        assert each.reason.by is Pass.STALE or accounting.is_preemptible(each.group), each


def broken_gangs_have_their_grace(snapshot: Snapshot, plan: Plan) -> None:
    grace_ms = snapshot.policy.stale_grace_s * SECOND_MS
    for each in plan.evictions:
        if each.reason.by is Pass.STALE:
            group = Accounting(snapshot).groups[each.group]
            assert group.stale_since is not None, each
            assert snapshot.now - group.stale_since >= grace_ms, each
            assert not group.succeeded, each
            assert _is_broken(snapshot, each.group), each


def _is_broken(snapshot: Snapshot, group: GroupId) -> bool:
    row = Accounting(snapshot).groups[group]
    alive = COUNTED | {PodPhase.RELEASING}
    return any(
        sum(pod.group == group and pod.pod_set == each.name and pod.phase in alive for pod in snapshot.pods)
        < each.minimum
        for each in row.tree.all_pod_sets()
    )


def preemption_stays_inside_a_queue_and_goes_down(snapshot: Snapshot, plan: Plan) -> None:
    accounting = Accounting(snapshot)
    for each in plan.evictions:
        if each.reason.by is Pass.PREEMPT:
            assert each.reason.winner is not None
            assert accounting.groups[each.group].queue == accounting.groups[each.reason.winner].queue, each
            assert accounting.priority(each.group) < accounting.priority(each.reason.winner), each


def no_pod_loses_by_consolidation(snapshot: Snapshot, plan: Plan) -> None:
    reading = Reading(snapshot, plan)
    assert not reading.lost(Pass.CONSOLIDATE)
    for each in plan.evictions:
        if each.reason.by is Pass.CONSOLIDATE:
            assert reading.before.groups[each.group].movable, each
            assert each.reason.winner is not None
            assert reading.before.is_preemptible(each.reason.winner), each


def every_eviction_has_a_winner_that_gains(snapshot: Snapshot, plan: Plan) -> None:
    """The group that a pod was stopped for has a place in this plan, or had one and grows."""
    gaining = {each.group for each in plan.binds} | {each.group for each in plan.promises}
    for each in plan.evictions:
        if each.reason.by is not Pass.STALE:
            assert each.reason.winner in gaining, f"{each.pod} is evicted for {each.reason.winner}, which gets nothing"


def every_reclaim_takes_from_who_has_too_much(snapshot: Snapshot, plan: Plan) -> None:
    """Where the queues part, who gives is above its fair share, or above its quota if who takes is within its own.

    Passes before reclaim may have added to the giving side, so what it holds counts with what the plan adds; and all
    but the largest unit taken must leave it above its due. What allocate added and reclaim took back does not count.
    """
    reading = Reading(snapshot, plan)
    accounting = reading.before
    fair = accounting.fair_shares_milli()
    taken: dict[QueueId, list[Evict]] = {}
    due: dict[QueueId, int] = {}
    for each in reading.lost(Pass.RECLAIM):
        assert each.reason.winner is not None
        taker = accounting.groups[each.reason.winner].queue
        gaining, giving = accounting.diverging_ancestors(taker, accounting.groups[each.group].queue)
        entitlement = accounting.queues[giving].gpu
        cpu_limit = accounting.queues[giving].cpu.limit
        if cpu_limit != UNLIMITED and accounting.held(giving).cpu_milli > cpu_limit:
            continue  # above what it may have of one resource is enough, whichever it is
        assert entitlement.quota != UNLIMITED or entitlement.limit != UNLIMITED, f"{each.pod}: {giving} is unlimited"
        within_quota = _may_be_within_quota(reading, gaining, each.reason.wanted_milli)
        threshold = _quota_or_fair(entitlement, int(fair[giving]), within_quota=within_quota)
        due[giving] = min(threshold, due.get(giving, threshold))
        taken.setdefault(giving, []).append(each)
    for giving, evictions in taken.items():
        units = _units(reading, evictions)
        most = accounting.held(giving).gpu_milli + _added_milli(reading, giving)
        before_last = most - sum(units) + max(units)
        assert before_last > due[giving], f"{giving}: {before_last} before the last of {units}, due {due[giving]}"


def _quota_or_fair(entitlement: Entitlement, fair: int, *, within_quota: bool) -> int:
    """What the giving side may keep."""
    share = entitlement.limit if entitlement.quota == UNLIMITED else max(entitlement.quota, fair)
    share = share if entitlement.limit == UNLIMITED else min(share, entitlement.limit)
    return min(share, entitlement.quota) if within_quota and entitlement.quota != UNLIMITED else share


def _may_be_within_quota(reading: Reading, queue: QueueId, wanted_milli: int) -> bool:
    """Whether a queue was, at some moment of the plan, within quota with what it wanted."""
    lost = {each.pod for each in reading.plan.evictions}
    own = reading.before.pods_of(queue, COUNTED)
    least = sum(reading.before.charge(pod).gpu_milli for pod in own if pod.id not in lost)
    quota = reading.before.queues[queue].gpu.quota
    return quota == UNLIMITED or least + wanted_milli <= quota


def _units(reading: Reading, evictions: list[Evict]) -> list[int]:
    """Amounts that were taken together: the core of each group at once, surplus pods one by one."""
    units: list[int] = []
    for group in sorted({each.group for each in evictions}):
        core = 0
        for pod_set in reading.before.groups[group].tree.all_pod_sets():
            pods = [reading.pods[each.pod] for each in evictions if each.group == group]
            amounts = [reading.before.charge(pod).gpu_milli for pod in pods if pod.pod_set == pod_set.name]
            core += sum(amounts[: pod_set.minimum])
            units += amounts[pod_set.minimum :]
        units.append(core)
    return units


def _added_milli(reading: Reading, queue: QueueId) -> int:
    return sum(
        reading.before.charge(pod).gpu_milli for pod in reading.added() if queue in _path_of(reading.before, pod)
    )


def who_reclaims_stays_within_its_fair_share(snapshot: Snapshot, plan: Plan) -> None:
    """With what it had, less what was taken from it in this plan, and what it took; later passes may add more."""
    reading = Reading(snapshot, plan)
    accounting = reading.before
    fair = accounting.fair_shares_milli()
    for each in plan.evictions:
        if each.reason.by is Pass.RECLAIM and each.reason.winner is not None:
            queue = accounting.groups[each.reason.winner].queue
            stays = [pod for pod in accounting.pods_of(queue, COUNTED) if pod.id not in reading.evicted]
            held = sum(accounting.charge(pod).gpu_milli for pod in stays) + each.reason.wanted_milli
            assert held <= fair[queue], f"{queue} holds {held} with {each.reason.winner}, {fair[queue]} is fair"


def minimum_runtimes_are_kept(snapshot: Snapshot, plan: Plan) -> None:
    """Protected groups that cannot shrink lose nothing, and those that can keep their minimum, if in another place.

    A minimum runtime protects from one pass: what the other takes by its own rules is another matter.
    """
    reading = Reading(snapshot, plan)
    for by in (Pass.RECLAIM, Pass.PREEMPT):
        lost = {each.pod for each in reading.lost(by)}
        for each in reading.lost(by):
            group = reading.before.groups[each.group]
            assert each.reason.winner is not None
            minimum_ms = SECOND_MS * _minimum_runtime_s(reading, by, each.reason.winner, each.group)
            if group.started_at is None or snapshot.now >= group.started_at + minimum_ms:
                continue
            for pod_set in group.tree.all_pod_sets():
                stays = sum(
                    pod.phase in COUNTED and pod.id not in lost
                    for pod in snapshot.pods
                    if pod.group == group.id and pod.pod_set == pod_set.name
                )
                assert stays >= pod_set.minimum, f"{each.pod} is protected and {stays} of {pod_set.minimum} stay"


def _minimum_runtime_s(reading: Reading, by: Pass, winner: GroupId, victim: GroupId) -> int:
    accounting = reading.before
    path = accounting.path(accounting.groups[victim].queue)
    if by is Pass.PREEMPT:
        values = [accounting.queues[queue].preempt_min_runtime_s for queue in reversed(path)]
        return next((value for value in values if value is not None), 0)
    _, giving = accounting.diverging_ancestors(accounting.groups[winner].queue, accounting.groups[victim].queue)
    upwards = reversed(path[: path.index(giving) + 1])
    values = [accounting.queues[queue].reclaim_min_runtime_s for queue in upwards]
    return next((value for value in values if value is not None), 0)


def nothing_is_evicted_where_a_place_is_free(snapshot: Snapshot, plan: Plan) -> None:
    """Looked at for winners of one pod that no topology, affinity or claim ties to a place: no node has room for it
    with all pods where they were.

    Where a limit stood in the way, what is taken is not the place but the room below the limit.
    """
    reading = Reading(snapshot, plan)
    winners = {each.reason.winner for each in plan.evictions if each.reason.winner is not None}
    for winner in winners:
        group = reading.before.groups[winner]
        pods = [pod for pod in snapshot.pods if pod.group == winner]
        is_bound_to_place = group.tree.constraint or any(each.constraint for each in group.tree.all_pod_sets())
        is_bound_to_place = is_bound_to_place or any(
            pod.claims or pod.shape.labels or pod.shape.near or pod.shape.apart for pod in pods
        )
        if len(pods) != 1 or is_bound_to_place or _had_no_room_below_a_limit(reading, pods[0]):
            continue
        (pod,) = pods
        for node in snapshot.nodes:
            full = _with_all_where_they_were(reading, node, pod)
            assert not (admits(node, pod, group) and full.has_room(pod)), f"{node.name} has room for {pod.id}"


def _with_all_where_they_were(reading: Reading, node: Node, winner: Pod) -> Occupancy:
    """A node without evictions: what was promised devices that a victim has takes others, if there are any."""
    full = Occupancy(node, (pod for pod in reading.at_once() if pod.id != winner.id and pod.node == node.name))
    given_up = {device for pod in reading.evicted for device in reading.pods[pod].devices}
    for place in reading.plan.promises:
        if place.pod != winner.id and place.node == node.name:
            promised = reading._at(place)
            others = full.devices_for(promised) if given_up.intersection(promised.devices) else None
            full.add(replace(promised, devices=others or promised.devices))
    return full


def _had_no_room_below_a_limit(reading: Reading, pod: Pod) -> bool:
    accounting = reading.before
    for queue in accounting.path(accounting.groups[pod.group].queue):
        others = [each for each in reading.added() if each.id != pod.id and queue in _path_of(accounting, each)]
        held = total(
            accounting.charge(each) for each in [*accounting.pods_of(queue, COUNTED), *others, replace(pod, node=None)]
        )
        if _beyond(held, accounting.charge(replace(pod, node=None)), _limits(accounting, queue)):
            return True
    return False


def _path_of(accounting: Accounting, pod: Pod) -> list[QueueId]:
    return accounting.path(accounting.groups[pod.group].queue)


# --- words -------------------------------------------------------------------------------------------------------


def every_waiting_group_has_a_verdict(snapshot: Snapshot, plan: Plan) -> None:
    """And no other pod has, but for those that move and wait for their new place."""
    bound = {each.pod for each in plan.binds}
    waiting = {
        pod.group for pod in snapshot.pods if pod.phase in (PodPhase.WAITING, PodPhase.PROMISED) and pod.id not in bound
    }
    assert set(plan.verdicts) == waiting | {each.group for each in plan.promises}
    assert all(plan.verdicts[group].waiting > 0 for group in waiting)


def figures_are_those_of_the_accounting(snapshot: Snapshot, plan: Plan) -> None:
    """Fair shares are worked out a second time, and every queue is there once."""
    shares = {queue: int(share) for queue, share in Accounting(snapshot).fair_shares_milli().items()}
    assert {each.queue: each.fair_share_milli for each in plan.queues} == shares
    assert [each.queue for each in plan.queues] == sorted(shares)


LAWS: tuple[Law, ...] = (
    no_device_is_given_twice,
    places_are_real,
    one_outcome_for_each_pod,
    a_group_is_whole_or_absent,
    nothing_is_added_beyond_a_limit,
    nothing_that_may_not_be_preempted_is_added_beyond_quota,
    only_broken_gangs_lose_what_may_not_be_preempted,
    broken_gangs_have_their_grace,
    preemption_stays_inside_a_queue_and_goes_down,
    no_pod_loses_by_consolidation,
    every_eviction_has_a_winner_that_gains,
    every_reclaim_takes_from_who_has_too_much,
    who_reclaims_stays_within_its_fair_share,
    minimum_runtimes_are_kept,
    nothing_is_evicted_where_a_place_is_free,
    every_waiting_group_has_a_verdict,
    figures_are_those_of_the_accounting,
)
