"""The snapshot of workloads and nodes, and how a plan is written into the draft."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairpool.cluster.apply_plan import apply_plan
from fairpool.cluster.ledger import LedgerContents
from fairpool.cluster.ledger_cache import EntryDraft, LedgerCache
from fairpool.cluster.snapshot_builder import NO_QUEUE, SnapshotBuilder, SnapshotPart, pooled_nodes, snapshot_part
from fairpool.cluster.workload_state import AvoidedNode, GroupDates, WorkloadState
from fairpool.model.ids import GroupId, Instant, NodeName, PodId, PoolName, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import NodePool, Taint
from fairpool.model.observation import Observation, ObservedNode
from fairpool.model.organization import Entitlement, NodeOverrides, Organization, Queue
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.spec import Arrangement, PodTemplate, WorkloadSpec
from fairpool.model.workload import TopologyConstraint
from fairpool.scheduler.decision import Bind, Evict, EvictionReason, Plan, Promise, Withdraw, WithdrawReason
from fairpool.scheduler.policy import Pass, Policy
from fairpool.scheduler.snapshot import Snapshot
from tests.pod_records import (
    BOUND,
    BUILD,
    ENDED,
    INFERENCE,
    PROMISED,
    RELEASING,
    RUNNING,
    TRAIN,
    WAITING,
    at,
    first_boot,
    observed_node,
    record,
    spec,
    state,
)

NOW = at(60)
N1, N2 = NodeName("n1"), NodeName("n2")


def rows(of: WorkloadSpec | None, *pods: PodRecord, stand: WorkloadState | None = None) -> SnapshotPart:
    return snapshot_part(of, stand or state(), pods, NOW)


def done(name: str, pod_set: str = "default") -> PodRecord:
    return record(name, ENDED, on="n1", outcome=Outcome.OK, pod_set=pod_set)


# --- pods ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ledger", "reported"),
    [
        pytest.param(WAITING, WAITING, id="one that waits"),
        pytest.param(PROMISED, PROMISED, id="one that has a promise"),
        pytest.param(BOUND, RUNNING, id="one that is bound counts as running: it holds its place"),
        pytest.param(RUNNING, RUNNING, id="one that runs"),
        pytest.param(RELEASING, RELEASING, id="one that leaves"),
        pytest.param(ENDED, None, id="one that has ended is not told of"),
    ],
)
def test_the_phase_of_a_pod(ledger: PodPhase, reported: PodPhase | None) -> None:
    pods = rows(spec(), record("a-0-0", ledger, on="n1")).pods
    assert [pod.phase for pod in pods] == ([reported] if reported is not None else [])


@pytest.mark.parametrize(
    ("not_before", "gated"),
    [
        pytest.param(at(61), True, id="its back-off is not over"),
        pytest.param(at(60), False, id="its back-off is just over"),
        pytest.param(Instant(0), False, id="it has none"),
    ],
)
def test_a_pod_that_backs_off_may_not_be_placed(not_before: Instant, gated: bool) -> None:
    assert [pod.gated for pod in rows(spec(), record("a-0-0", not_before=not_before)).pods] == [gated]


def test_a_pod_keeps_its_place_its_devices_and_its_preferences() -> None:
    waiting = record("a-0-0", nominated=N2, created_at=at(5))
    bound = record("a-1-0", BOUND, on="n1", devices=(3, 4))
    one, other = rows(spec(pods=2), waiting, bound).pods
    assert (one.node, one.nominated, one.created_at) == (None, N2, at(5))
    assert (other.node, other.devices) == (N1, (3, 4))


def test_lower_numbers_go_first_and_pod_0_leads_where_there_is_a_leader() -> None:
    led = rows(spec(pods=2, leader=PodTemplate()), record("a-0-0"), record("a-1-0")).pods
    equal = rows(spec(pods=2), record("a-0-0"), record("a-1-0")).pods
    assert [(pod.order, pod.leader) for pod in led] == [(0, True), (-1, False)]
    assert [(pod.order, pod.leader) for pod in equal] == [(0, False), (-1, False)]


# --- pod groups ----------------------------------------------------------------------------------------------------

LED = spec(pods=4, leader=PodTemplate())


@pytest.mark.parametrize(
    ("of", "pods", "minima"),
    [
        pytest.param(spec(), [record("a-0-0")], {"default": 1}, id="one pod needs itself"),
        pytest.param(spec(pods=4), [record("a-0-0")], {"default": 4}, id="a gang needs all of them"),
        pytest.param(
            spec(pods=4, minimum=2), [record("a-0-0")], {"default": 2}, id="elastic training needs its minimum"
        ),
        pytest.param(spec(pods=4, minimum=9), [record("a-0-0")], {"default": 4}, id="never more than there are"),
        pytest.param(
            spec(pods=4, arrangement=Arrangement.SWEEP),
            [record("a-0-0")],
            {"default": 1},
            id="a run of a sweep needs itself",
        ),
        pytest.param(
            spec(pods=4),
            [done("a-0-0"), record("a-1-0")],
            {"default": 3},
            id="who has ended well is not missed in a gang",
        ),
        pytest.param(
            spec(pods=4, minimum=2),
            [done("a-0-0"), done("a-1-0"), record("a-2-0")],
            {"default": 1},
            id="at least one is always needed",
        ),
        pytest.param(
            LED, [record("a-0-0", pod_set="leader")], {"leader": 1, "worker": 3}, id="leader and workers apart"
        ),
        pytest.param(
            LED,
            [record("a-0-0", pod_set="leader"), done("a-1-0", pod_set="worker")],
            {"leader": 1, "worker": 2},
            id="a worker that has ended well is not missed",
        ),
        pytest.param(
            LED,
            [record("a-0-0", pod_set="leader"), *(done(f"a-{index}-0", pod_set="worker") for index in (1, 2, 3))],
            {"default": 1},
            id="workers who have all ended well are not asked for",
        ),
    ],
)
def test_how_many_must_run_together(of: WorkloadSpec, pods: list[PodRecord], minima: dict[str, int]) -> None:
    (group,) = rows(of, *pods).groups
    assert {each.name: each.minimum for each in group.tree.all_pod_sets()} == minima


def test_workers_that_are_not_required_are_in_the_snapshot_too() -> None:
    """Elastic training with a leader: the workers are extra, and welcome."""
    elastic = spec(pods=3, minimum=1, leader=PodTemplate())
    pods = [record("a-0-0", pod_set="leader"), record("a-1-0", pod_set="worker"), record("a-2-0", pod_set="worker")]
    reported = rows(elastic, *pods)
    sets = {each.name for group in reported.groups for each in group.tree.all_pod_sets()}
    assert {pod.pod_set for pod in reported.pods} <= sets


def test_each_replica_is_a_group_of_its_own() -> None:
    servers = spec(INFERENCE, pods=2, arrangement=Arrangement.REPLICAS)
    reported = rows(servers, record("a-0-0", group=GroupId("a/0")), record("a-1-0", group=GroupId("a/1")))
    assert [group.id for group in reported.groups] == ["a/0", "a/1"]
    assert all(group.queue == "vision" for group in reported.groups)


def test_a_group_says_what_its_workload_says() -> None:
    near = TopologyConstraint(topology="racks", required="rack")
    (group,) = rows(spec(BUILD, priority=75, preemptible=True, constraint=near), record("a-0-0")).groups
    assert (group.queue, group.kind, group.priority, group.preemptible) == ("vision", BUILD, 75, True)
    assert (group.created_at, group.tree.constraint) == (at(0), near)


@pytest.mark.parametrize(
    ("of", "movable"),
    [
        pytest.param(spec(TRAIN), True, id="training may be moved to make room"),
        pytest.param(spec(BUILD), False, id="interactive work may not"),
        pytest.param(spec(INFERENCE), False, id="an inference server may not"),
    ],
)
def test_who_may_be_moved(of: WorkloadSpec, movable: bool) -> None:
    assert [group.movable for group in rows(of, record("a-0-0")).groups] == [movable]


def test_nodes_that_refused_it_lately_are_avoided_until_the_time_is_over() -> None:
    refused = state(avoided=(AvoidedNode(N1, at(60)), AvoidedNode(N2, at(61))))
    assert [group.avoid for group in rows(spec(), record("a-0-0"), stand=refused).groups] == [(N2,)]


def test_a_group_keeps_its_dates() -> None:
    dated = state(groups=(GroupDates(GroupId("a"), at(10), at(50)),))
    (group,) = rows(spec(), record("a-0-0"), stand=dated).groups
    assert (group.started_at, group.stale_since, group.succeeded) == (at(10), at(50), False)


def test_a_gang_one_of_whose_pods_has_ended_well_is_not_broken() -> None:
    assert [group.succeeded for group in rows(spec(pods=2), done("a-0-0"), record("a-1-0")).groups] == [True]


def test_undeclared_pods_hold_their_place_and_are_charged_to_no_project() -> None:
    reported = rows(None, record("a-0-0", RELEASING, on="n1", created_at=at(3)))
    assert [(group.id, group.queue, group.movable, group.created_at) for group in reported.groups] == [
        ("a", NO_QUEUE, False, at(3))
    ]
    assert [pod.id for pod in reported.pods] == ["a-0-0"]


def test_a_workload_that_has_ended_is_not_in_the_snapshot() -> None:
    assert rows(spec(), done("a-0-0")) == SnapshotPart()


# --- nodes ---------------------------------------------------------------------------------------------------------

A100 = NodePool(name=PoolName("a100"), label_key="type", label_value="a100")
POOLS = (NodePool(), A100)


def labelled(name: str) -> ObservedNode:
    observed = observed_node(name)
    return replace(observed, node=replace(observed.node, labels={"type": "a100"}))


@pytest.mark.parametrize(
    ("observed", "overrides", "ready", "cordoned"),
    [
        pytest.param(observed_node(), NodeOverrides(), True, False, id="one that answers takes pods"),
        pytest.param(
            observed_node(silent_since=at(30)), NodeOverrides(), False, False, id="one that is silent gets no new pods"
        ),
        pytest.param(
            observed_node(), NodeOverrides(cordoned=True), True, True, id="one that is cordoned is told of as such"
        ),
    ],
)
def test_a_node(observed: ObservedNode, overrides: NodeOverrides, ready: bool, cordoned: bool) -> None:
    land = pooled_nodes({N1: observed}, Organization(node_overrides={N1: overrides}))
    assert [(node.ready, node.cordoned) for node in land.nodes[PoolName("default")]] == [(ready, cordoned)]


def test_a_node_that_did_not_change_is_the_same_row_although_others_did() -> None:
    """So that what was prepared from it for the last plan is taken over."""
    overrides = {N1: NodeOverrides(cordoned=True), N2: NodeOverrides(cordoned=True)}
    seen = {N1: observed_node("n1"), N2: observed_node("n2")}
    before = pooled_nodes(seen, Organization(node_overrides=overrides))
    seen = {**seen, N2: replace(seen[N2], silent_since=NOW)}
    changed = overrides | {N2: NodeOverrides()}
    after = pooled_nodes(seen, Organization(node_overrides=changed), before)
    first, second = ({node.name: node for node in each.nodes[PoolName("default")]} for each in (before, after))
    assert second[N1] is first[N1]
    assert (second[N2].cordoned, second[N2].ready) == (False, False)


@pytest.mark.parametrize(
    ("labels", "roles"),
    [
        pytest.param({}, ["any", "any"], id="no roles"),
        pytest.param({N1: "runai-system"}, ["system", "any"], id="a system worker restricts no other node"),
        pytest.param({N1: "runai-gpu-worker"}, ["gpu worker", "none"], id="a worker restricts nodes without a role"),
        pytest.param(
            {N1: "runai-gpu-worker", N2: "runai-cpu-worker"}, ["gpu worker", "cpu worker"], id="two kinds of workers"
        ),
        pytest.param({N1: "runai-gpu-worker", N2: "runai-system"}, ["gpu worker", "system"], id="beside a worker"),
    ],
)
def test_roles_count_in_all_pools_as_soon_as_one_node_is_a_worker(
    labels: dict[NodeName, str], roles: list[str]
) -> None:
    """F-103, F-104. A label of the engine counts as one that an administrator set."""
    seen = {N1: observed_node("n1"), N2: labelled("n2")}
    before = pooled_nodes(seen, Organization(pools=POOLS))
    overrides = {
        name: NodeOverrides(labels=((f"node-role.kubernetes.io/{label}", "true"),)) for name, label in labels.items()
    }
    after = pooled_nodes(seen, Organization(pools=POOLS, node_overrides=overrides), before)
    assert [after.nodes[pool][0].role for pool in (PoolName("default"), A100.name)] == roles
    again = pooled_nodes(seen, Organization(pools=POOLS), after)
    assert [again.nodes[pool][0].role for pool in (PoolName("default"), A100.name)] == ["any", "any"]


def test_a_node_that_is_gone_is_not_there() -> None:
    land = pooled_nodes({N1: observed_node(gone=True)}, Organization())
    assert (land.nodes[PoolName("default")], land.pool_of) == ((), {})


def test_a_node_has_the_taints_and_labels_that_an_administrator_gave_it() -> None:
    taint = Taint("runai", "drain")
    overrides = NodeOverrides(taints=(taint,), labels=(("type", "a100"),))
    land = pooled_nodes({N1: observed_node()}, Organization(node_overrides={N1: overrides}, pools=POOLS))
    assert land.pool_of == {N1: "a100"}
    assert land.nodes[A100.name][0].taints == (taint,)


def built(*reported: SnapshotPart, pools: tuple[NodePool, ...] = POOLS) -> dict[PoolName, Snapshot]:
    queues = {PoolName("default"): (Queue(id=QueueId("vision"), gpu=Entitlement(quota=4000)),)}
    organization = Organization(pools=pools, queues=queues)
    land = pooled_nodes({N1: observed_node("n1"), N2: labelled("n2")}, organization)
    builder = SnapshotBuilder(
        now=NOW, pooled_nodes=land, organization=organization, parts=reported, policy=Policy.product()
    )
    return builder.snapshots()


def test_there_is_a_snapshot_for_each_pool_with_its_nodes() -> None:
    assert {pool: [node.name for node in each.nodes] for pool, each in built().items()} == {
        "default": ["n1"],
        "a100": ["n2"],
    }


@pytest.mark.parametrize(
    ("of", "stand", "pods", "where"),
    [
        pytest.param(spec(), state(), [record("a-0-0")], {"default": ["a-0-0"], "a100": []}, id="in the default pool"),
        pytest.param(
            spec(pools=("a100",)),
            state(),
            [record("a-0-0")],
            {"default": [], "a100": ["a-0-0"]},
            id="in the first pool that is named",
        ),
        pytest.param(
            spec(pools=("a100", "default")),
            state(pool=PoolName("default")),
            [record("a-0-0")],
            {"default": ["a-0-0"], "a100": []},
            id="in the pool that is tried now",
        ),
        pytest.param(
            spec(),
            state(),
            [record("a-0-0", RUNNING, on="n2"), record("a-1-0")],
            {"default": ["a-1-0"], "a100": ["a-0-0"]},
            id="who has a node is where the node is",
        ),
        pytest.param(
            spec(),
            state(),
            [record("a-0-0", RUNNING, on="n9")],
            {"default": ["a-0-0"], "a100": []},
            id="who is on a node that is not there is where its workload is",
        ),
    ],
)
def test_the_pool_of_a_pod(
    of: WorkloadSpec, stand: WorkloadState, pods: list[PodRecord], where: dict[str, list[str]]
) -> None:
    snapshots = built(rows(of, *pods, stand=stand))
    assert {pool: [pod.id for pod in each.pods] for pool, each in snapshots.items()} == where
    for each in snapshots.values():
        assert {group.id for group in each.groups} == {pod.group for pod in each.pods}


def test_with_a_single_pool_everything_is_in_it() -> None:
    snapshots = built(rows(spec(), record("a-0-0"), record("a-1-0", RUNNING, on="n2")), pools=(NodePool(),))
    assert {pool: [pod.id for pod in each.pods] for pool, each in snapshots.items()} == {"default": ["a-0-0", "a-1-0"]}


def test_in_a_pool_without_quotas_every_quota_is_zero() -> None:
    quotas = {pool: [queue.gpu.quota for queue in each.queues] for pool, each in built().items()}
    assert quotas == {"default": [4000], "a100": [0]}


# --- what becomes of a plan ----------------------------------------------------------------------------------------

A = GroupId("a")
A_0_0 = PodId("a-0-0")


def applied(decided: Plan, *pods: PodRecord, stand: WorkloadState | None = None) -> EntryDraft:
    """The draft after a plan for one workload."""
    ours, stand = spec(), stand or state()
    cache = LedgerCache(LedgerContents(specs=(ours,), pods=pods, states=(stand,)))
    nodes = {N1: observed_node("n1"), N2: observed_node("n2")}
    draft = EntryDraft(cache, NOW, Observation(at=NOW, nodes=nodes))
    reported = snapshot_part(ours, stand, pods, NOW)
    apply_plan(draft, Snapshot(now=NOW, groups=reported.groups, pods=reported.pods), decided)
    return draft


def after(decided: Plan, *pods: PodRecord, stand: WorkloadState | None = None) -> list[str]:
    """Each pod with its phase, its node, and why it is stopped."""
    draft = applied(decided, *pods, stand=stand)
    said = []
    for each in draft.pods_of(spec().id):
        where = f" {each.node}" if each.node is not None else ""
        said.append(f"{each.id} {each.phase}{where}{f' ({each.cause})' if each.cause is not None else ''}")
    return said


def evict(by: Pass, moved_to: NodeName | None = None) -> Evict:
    return Evict(A_0_0, A, N1, EvictionReason(by=by, winner=GroupId("b"), moved_to=moved_to))


BIND = Bind(A_0_0, A, N1, (3,))
PROMISE = Promise(A_0_0, A, N2, (5,), at(60))
WITHDRAW = Withdraw(A_0_0, A, N1, WithdrawReason.EXPIRED)
MOVE = Plan(evictions=(evict(Pass.CONSOLIDATE, N2),), promises=(PROMISE,))


@pytest.mark.parametrize(
    ("decided", "before", "then"),
    [
        pytest.param(Plan(binds=(BIND,)), record("a-0-0"), ["a-0-0 bound n1"], id="a bind"),
        pytest.param(Plan(binds=(BIND,)), record("a-0-0", PROMISED, on="n1"), ["a-0-0 bound n1"], id="a promise kept"),
        pytest.param(Plan(promises=(PROMISE,)), record("a-0-0"), ["a-0-0 promised n2"], id="a promise"),
        pytest.param(
            Plan(promises=(PROMISE,)), record("a-0-0", PROMISED, on="n1"), ["a-0-0 promised n2"], id="another promise"
        ),
        pytest.param(
            Plan(withdrawals=(WITHDRAW,)),
            record("a-0-0", PROMISED, on="n1"),
            ["a-0-0 waiting"],
            id="a promise given up",
        ),
        pytest.param(
            Plan(withdrawals=(WITHDRAW,), promises=(PROMISE,)),
            record("a-0-0", PROMISED, on="n1"),
            ["a-0-0 promised n2"],
            id="a promise given up for another",
        ),
        pytest.param(
            Plan(evictions=(evict(Pass.RECLAIM),)),
            record("a-0-0", RUNNING, on="n1"),
            ["a-0-0 releasing n1 (preempted)"],
            id="an eviction for another workload",
        ),
        pytest.param(
            Plan(evictions=(evict(Pass.STALE),)),
            record("a-0-0", BOUND, on="n1"),
            ["a-0-0 releasing n1 (stale)"],
            id="an eviction of a broken gang",
        ),
        pytest.param(
            MOVE,
            record("a-0-0", RUNNING, on="n1"),
            ["a-0-0 releasing n1 (moved)", "a-0-1 promised n2"],
            id="a move: the replacement is created at once, with a promise",
        ),
    ],
)
def test_a_plan_in_the_draft(decided: Plan, before: PodRecord, then: list[str]) -> None:
    assert after(decided, before) == then


def test_a_bind_remembers_devices_and_the_boot_of_the_node() -> None:
    (bound,) = applied(Plan(binds=(BIND,)), record("a-0-0", PROMISED, promised_at=at(30))).pods_of(spec().id)
    assert (bound.devices, bound.boot_id, bound.promised_at, bound.since) == ((3,), first_boot("n1"), None, NOW)


def test_a_promise_that_is_as_it_was_is_not_written_again() -> None:
    kept = record("a-0-0", PROMISED, on="n2", devices=(5,), promised_at=at(60))
    draft = applied(Plan(promises=(PROMISE,)), kept)
    assert not draft.pods
    assert draft.pods_of(spec().id) == (kept,)


def test_the_replacement_of_a_moved_pod_keeps_its_shape() -> None:
    running = record("a-0-4", RUNNING, on="n1", run=2, pod_set="worker", grace_s=7)
    move = Plan(
        evictions=(replace(evict(Pass.CONSOLIDATE, N2), pod=running.id),), promises=(replace(PROMISE, pod=running.id),)
    )
    old, new = applied(move, running).pods_of(spec().id)
    assert (new.id, new.run, new.pod_set, new.grace_s, new.shape) == ("a-0-5", 2, "worker", 7, old.shape)
    assert (new.devices, new.promised_at, new.created_at, new.boot_id) == ((5,), at(60), NOW, "")


def test_after_a_lost_ledger_a_moved_pod_gets_an_unused_incarnation() -> None:
    lost = state(first_incarnation=103)
    assert after(MOVE, record("a-0-0", RUNNING, on="n1"), stand=lost)[1] == "a-0-104 promised n2"


@pytest.mark.parametrize(
    ("decided", "before", "dates"),
    [
        pytest.param(Plan(binds=(BIND,), started=(A,)), (None, None), (NOW, None), id="it starts now"),
        pytest.param(Plan(binds=(BIND,), stale=(A,)), (at(5), None), (at(5), NOW), id="it is broken since now"),
        pytest.param(Plan(binds=(BIND,), stale=(A,)), (at(5), at(30)), (at(5), at(30)), id="it is still broken"),
        pytest.param(Plan(binds=(BIND,)), (at(5), at(30)), (at(5), None), id="it is whole again"),
        pytest.param(Plan(binds=(BIND,)), (at(5), None), (at(5), None), id="nothing is different"),
    ],
)
def test_the_dates_of_a_group(
    decided: Plan, before: tuple[Instant | None, Instant | None], dates: tuple[Instant | None, Instant | None]
) -> None:
    draft = applied(decided, record("a-0-0"), stand=state(groups=(GroupDates(A, *before),)))
    remembered = draft.state(spec().id).dates(A)
    assert (remembered.started_at, remembered.stale_since) == dates


def test_an_evicted_pod_names_the_workload_that_gets_its_place() -> None:
    (leaving,) = applied(Plan(evictions=(evict(Pass.PREEMPT),)), record("a-0-0", RUNNING, on="n1")).pods_of(spec().id)
    assert leaving.cause is Cause.PREEMPTED
    assert "b of the same project has a higher priority" in leaving.detail
