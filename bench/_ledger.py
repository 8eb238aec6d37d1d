"""The least ledger that lets a cluster go from cycle to cycle: plans are applied at once, jobs end and arrive.

A pod that is evicted is gone by the next cycle and waits again under a new name; one that is bound runs; promises are
carried. Each job that ends is followed by a new one of the same ask in some queue, so that demand stays what it was.
"""

from __future__ import annotations

import random
from dataclasses import replace

from bench._worlds import QUEUES, SEED, Ask, job, pods_of
from fairpool.model.ids import GroupId, Instant, PodId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.workload import Pod, PodGroup
from fairpool.scheduler.decision import Plan, Promise
from fairpool.scheduler.snapshot import Snapshot

CYCLE_MS = 1000
PARTS_ENDING = 100
"""One in so many running jobs ends each cycle, and at least one."""


class Ledger:
    """Jobs and their pods between cycles."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._first = snapshot
        self._dice = random.Random(SEED)
        self._jobs = len(snapshot.groups)
        self.now = snapshot.now
        self.groups: dict[GroupId, PodGroup] = {group.id: group for group in snapshot.groups}
        self.pods: dict[GroupId, list[Pod]] = {}
        for pod in snapshot.pods:
            self.pods.setdefault(pod.group, []).append(pod)

    def snapshot(self) -> Snapshot:
        """The snapshot of now."""
        pods = tuple(pod for pods in self.pods.values() for pod in pods)
        return replace(self._first, now=self.now, groups=tuple(self.groups.values()), pods=pods)

    def turn_over(self) -> None:
        """Time passes: some running jobs end, and as many arrive."""
        self.now = Instant(self.now + CYCLE_MS)
        running = [name for name, pods in self.pods.items() if all(pod.phase is PodPhase.RUNNING for pod in pods)]
        for name in self._dice.sample(running, min(len(running), max(1, len(running) // PARTS_ENDING))):
            del self.groups[name]
            ended = self.pods.pop(name)
            self._arrive(Ask(ended[0].shape, len(ended)))

    def _arrive(self, ask: Ask) -> None:
        group = job(self._jobs, self._dice.choice(QUEUES), ask, self.now)
        self._jobs += 1
        self.groups[group.id] = group
        self.pods[group.id] = pods_of(group, ask)

    def record(self, plan: Plan) -> None:
        """Apply a plan."""
        decisions = (plan.evictions, plan.binds, plan.promises, plan.withdrawals)
        touched = {each.group for decision in decisions for each in decision}
        evicted = {each.pod for each in plan.evictions}
        binds = {each.pod: each for each in plan.binds}
        promises = {each.pod: each for each in plan.promises}
        withdrawn = {each.pod for each in plan.withdrawals}
        for group in touched:
            for number, pod in enumerate(self.pods[group]):
                bind, promise = binds.get(pod.id), promises.get(pod.id)
                if pod.id in evicted or pod.id in withdrawn:
                    pod = _next_life(pod) if pod.id in evicted else _waiting(pod)
                if bind is not None:
                    pod = replace(pod, phase=PodPhase.RUNNING, node=bind.node, devices=bind.devices, promised_at=None)
                elif promise is not None:
                    pod = _promised(pod, promise)
                self.pods[group][number] = pod
        self._remember(plan)

    def _remember(self, plan: Plan) -> None:
        """When groups started, and since when they are broken."""
        for name in plan.started:
            self.groups[name] = replace(self.groups[name], started_at=self.now)
        stale = set(plan.stale)
        for name, group in self.groups.items():
            since = (group.stale_since or self.now) if name in stale else None
            if since != group.stale_since:
                self.groups[name] = replace(group, stale_since=since)

    def faults(self, jobs: int, pods: int) -> list[str]:
        """No job is lost and none is doubled: their number stays what it was at the start."""
        if (len(self.pods), sum(map(len, self.pods.values()))) == (jobs, pods):
            return []
        return [f"{len(self.pods)} jobs are left of {jobs}"]


def _next_life(pod: Pod) -> Pod:
    name, _, life = pod.id.partition(".")
    return replace(_waiting(pod), id=PodId(f"{name}.{int(life or 0) + 1}"))


def _waiting(pod: Pod) -> Pod:
    return replace(pod, phase=PodPhase.WAITING, node=None, devices=(), promised_at=None)


def _promised(pod: Pod, promise: Promise) -> Pod:
    return replace(pod, phase=PodPhase.PROMISED, node=promise.node, devices=promise.devices, promised_at=promise.since)
