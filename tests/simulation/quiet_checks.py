"""Invariants of quiet times (no faults, nothing to do for the loop), compared with what the engine runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fairpool.engines.simulated.timeline import PodTimeline
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PodId, PoolName, QueueId, WorkloadId
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.node import DEFAULT_POOL, Node, TaintEffect, nodes_by_pool
from fairpool.model.organization import Organization, ProjectRules
from fairpool.model.pod_record import Cause, PodRecord
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.spec import Arrangement, DesiredState
from fairpool.model.status import WorkloadPhase
from fairpool.model.workload import WorkloadKind
from tests.simulation.feasibility import part_of_device
from tests.simulation.record import failures_forgiven

if TYPE_CHECKING:
    from tests.simulation.world import World

Wrong = tuple[str, WorkloadId | None]
EVICTION_S = 60
FOR_OTHERS = (Cause.PREEMPTED, Cause.MOVED, Cause.STALE, Cause.NODE_LOST, Cause.VANISHED)
TOLERANCE_S = 2
"""A cycle has just run, so that nothing is late by more than a step of the clock."""


def no_pod_overstays(world: World) -> Iterator[Wrong]:
    """Between two cycles in quiet times: no pod runs where or for longer than it may, unless it is being stopped."""
    staying = [course for course in world.engine.courses() if course.notice_at is None]
    offered = set(world.engine.nodes)
    for course in staying:
        order = course.order
        if world.engine.host(order.node).is_silent:
            continue
        if order.node not in offered:
            yield f"{order.pod} runs on {order.node}, which is not offered any more", order.workload
        taint = _evicting_taint(course, marked(world, order.node))
        if taint:
            yield f"{order.pod} runs on {order.node}, which is being drained ({taint})", order.workload
        if not world.clock_jumped:
            yield from _too_long(world, course)


def quota_comes_back_in_time(world: World) -> Iterator[Wrong]:
    """Between two cycles in quiet times: a pod that is stopped for others has ended within the eviction grace, whatever
    it asked for, and no project within its quota waits longer for a place that another project is leaving."""
    eviction_ms = (EVICTION_S + TOLERANCE_S) * SECOND_MS
    now = world.clock.now()
    pods = {pod.id: pod for pods in world.cache.pods.values() for pod in pods}
    leaving = [course for course in world.engine.courses() if not world.engine.host(course.order.node).is_silent]
    leaving = [course for course in leaving if course.order.pod in pods and not pods[course.order.pod].is_over]
    for course in leaving:
        pod = pods[course.order.pod]
        if pod.phase is not PodPhase.RELEASING:
            continue
        if course.notice_at is None:
            yield f"{pod.id} has to stop ({pod.cause}), and got no notice", pod.workload
        elif pod.cause in FOR_OTHERS and now - course.notice_at > eviction_ms:
            since_s = (now - course.notice_at) / SECOND_MS
            yield f"{pod.id} got its notice {since_s:.0f} s ago ({pod.cause}), and still runs", pod.workload
    yield from _waits_too_long(world, pods, [course for course in leaving if course.notice_at is not None])


def _waits_too_long(world: World, pods: Mapping[PodId, PodRecord], leaving: list[PodTimeline]) -> Iterator[Wrong]:
    """Each pair of a waiting pod and the pod in its place is remembered from when it was first seen."""
    met: dict[tuple[PodId, PodId], Instant] = {}
    now = world.clock.now()
    for pod in pods.values():
        if pod.phase is not PodPhase.PROMISED or not _is_within_quota(world, pod, pods):
            continue
        for course in leaving:
            order = course.order
            if order.node != pod.node or not set(order.devices) & set(pod.devices):
                continue
            if order.project == world.desired.specs[pod.workload].project:
                continue
            pair = (pod.id, order.pod)
            met[pair] = world.waits.get(pair, now)
            if now - met[pair] > (EVICTION_S + TOLERANCE_S) * SECOND_MS:
                yield f"{pod.id} waits within its quota for {order.pod}, which takes its time to leave", pod.workload
    world.waits = met


def _is_within_quota(world: World, pod: PodRecord, pods: Mapping[PodId, PodRecord]) -> bool:
    """By arithmetic of our own, and only where it is simple: one pool, no department, whole GPUs."""
    organization, specs = world.desired.organization, world.desired.specs
    spec = specs.get(pod.workload)
    if spec is None or len(organization.pools) > 1 or not pod.shape.gpu.devices:
        return False
    queue = next((each for each in organization.queues_of(DEFAULT_POOL) if each.id == spec.project), None)
    if queue is None or queue.parent is not None:
        return False
    mine = [each for each in pods.values() if each.workload in specs and specs[each.workload].project == spec.project]
    held = [each for each in mine if each.is_placed or each.phase is PodPhase.PROMISED]
    return sum(each.shape.gpu.devices for each in held) * WHOLE_GPU_MILLI <= queue.gpu.quota


def _evicting_taint(course: PodTimeline, node: Node) -> str:
    tolerations = course.order.shape.tolerations
    for taint in node.taints:
        if taint.effect is TaintEffect.NO_EXECUTE and not any(each.covers(taint) for each in tolerations):
            return str(taint)
    return ""


def _too_long(world: World, course: PodTimeline) -> Iterator[Wrong]:
    spec = world.desired.specs.get(course.order.workload)
    since = world.record.running_since.get((course.order.workload, course.order.run))
    if spec is None or since is None:
        return
    rules = world.desired.organization.rules.get(spec.project, ProjectRules())
    ran_s = (world.clock.now() - since) / SECOND_MS - TOLERANCE_S
    if spec.kind is WorkloadKind.BUILD and rules.interactive_limit_s is not None and ran_s > rules.interactive_limit_s:
        yield f"{course.order.pod} runs for {ran_s:.0f} s of at most {rules.interactive_limit_s} s", spec.id
    if spec.deadline_s is not None and ran_s > spec.deadline_s:
        yield f"{course.order.pod} runs for {ran_s:.0f} s, and had {spec.deadline_s} s", spec.id


def marked(world: World, name: NodeName) -> Node:
    """A node with its overrides."""
    node = world.engine.host(name).node
    overrides = world.desired.organization.node_overrides.get(name)
    return overrides.applied_to(node) if overrides is not None else node


def failures_have_an_end(world: World) -> Iterator[Wrong]:
    """A workload that failed more often than its retries has failed."""
    for spec in world.desired.specs.values():
        most = failures_forgiven(spec)
        failures = world.record.failures[spec.id, spec.run]
        if most is None or failures <= most or spec.desired_state is not DesiredState.RUN:
            continue
        report = world.control.workload(spec.id)
        # Of several pods, others may have done the work while the last one failed.
        single = spec.arrangement is Arrangement.TOGETHER and spec.pods == 1
        ends = (WorkloadPhase.FAILED,) if single else (WorkloadPhase.FAILED, WorkloadPhase.COMPLETED)
        if report is None or report.phase not in ends:
            yield (
                f"{spec.id} failed {failures} times, {most} are forgiven, and it is {report and report.phase}",
                spec.id,
            )


def reports_are_true(world: World) -> Iterator[Wrong]:
    """The control plane knows what every node and every queue holds."""
    courses = world.engine.courses()
    yield from _nodes_are_true(world, courses)
    yield from _queues_are_true(world, courses)


def _nodes_are_true(world: World, courses: list[PodTimeline]) -> Iterator[Wrong]:
    used: Counter[NodeName] = Counter()
    pods = Counter(course.order.node for course in courses)
    for course in courses:
        used[course.order.node] += _milli(world, course)
    truth = {}
    for name in world.engine.nodes:
        node = marked(world, name)
        answers = node.ready and not world.engine.host(name).is_silent
        truth[name] = (node.gpus, used[name], pods[name], answers, node.cordoned)
    held: Counter[NodeName] = Counter()
    placed: Counter[NodeName] = Counter()
    for report in world.control.workloads():
        for pod in report.pods:
            if pod.node is not None and pod.phase in HOLDS_DEVICES:
                held[pod.node] += pod.gpus_milli
                placed[pod.node] += 1
    reported = {
        each.name: (each.gpus, held[each.name], placed[each.name], each.ready, each.cordoned)
        for each in world.control.nodes()
    }
    for name in sorted(truth.keys() | reported.keys()):
        if truth.get(name) != reported.get(name):
            yield f"{name} is {truth.get(name)}, and the control plane believes {reported.get(name)}", None


def _queues_are_true(world: World, courses: list[PodTimeline]) -> Iterator[Wrong]:
    organization, specs = world.desired.organization, world.desired.specs
    pool_of = _pools(world, organization)
    truth: dict[tuple[PoolName, QueueId], int] = {
        (pool.name, queue.id): 0 for pool in organization.pools for queue in organization.queues_of(pool.name)
    }
    for course in courses:
        pool, spec = pool_of[course.order.node], specs[course.order.workload]
        parents = {queue.id: queue.parent for queue in organization.queues_of(pool)}
        queue: QueueId | None = spec.project
        while queue in parents:
            truth[pool, queue] += _milli(world, course)
            queue = parents[queue]
    reported = {(each.pool, each.queue): each.held_milli for each in world.control.queues()}
    for key in sorted(truth.keys() | reported.keys()):
        if truth.get(key) != reported.get(key):
            yield f"queue {key} holds {truth.get(key)}, and the control plane believes {reported.get(key)}", None


def _pools(world: World, organization: Organization) -> dict[NodeName, PoolName]:
    nodes = [marked(world, name) for name in world.engine.nodes]
    by_pool = nodes_by_pool(nodes, organization.pools)
    return {node.name: pool for pool, members in by_pool.items() for node in members}


def _milli(world: World, course: PodTimeline) -> int:
    """What it holds of the devices that are there; those that broke under it do not count."""
    node = world.engine.host(course.order.node).node
    return part_of_device(course.order.shape, node) * sum(device < node.gpus for device in course.order.devices)
