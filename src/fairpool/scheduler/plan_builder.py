"""Building a plan from a finished trial: what changed, why, and what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from fairpool.model.ids import ClaimId, GroupId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.problem import Problem
from fairpool.model.workload import Pod
from fairpool.scheduler.columns import NOTHING, NOWHERE, REAL, RELEASING, Columns
from fairpool.scheduler.decision import (
    Bind,
    Evict,
    EvictionReason,
    Plan,
    Promise,
    Withdraw,
    WithdrawReason,
)
from fairpool.scheduler.device_assignment import Devices, assign_devices
from fairpool.scheduler.figures import queue_figures
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.queues import GPU, diverging_ancestors
from fairpool.scheduler.quiet import quiet_until
from fairpool.scheduler.stale_gangs import stale_groups
from fairpool.scheduler.verdict import verdicts
from fairpool.scheduler.victim_search import Solution


class PlanBuilder:
    """Collects the reasons as passes go, and makes the plan at the end."""

    def __init__(self, placer: Placer, problems: Iterable[Problem]) -> None:
        self.placer = placer
        self.trial = placer.trial
        self.columns: Columns = placer.columns
        self.problems = tuple(problems)
        self.reasons: dict[int, EvictionReason] = {}

    def note(self, by: Pass, solutions: Iterable[Solution]) -> None:
        """Remember for which group pods are evicted or moved."""
        for solution in solutions:
            for pod in solution.victims:
                self.reasons[pod] = self._reason(by, solution, pod)

    def note_stale(self, groups: Iterable[int]) -> None:
        for group in groups:
            for number in self.columns.sets_of[group]:
                for pod in self.columns.sets.pods[number]:
                    self.reasons[pod] = EvictionReason(Pass.STALE)

    def _reason(self, by: Pass, solution: Solution, pod: int) -> EvictionReason:
        columns = self.columns
        winner = columns.groups[solution.group].id
        wanted = int(solution.need[GPU])
        if by is not Pass.RECLAIM:
            return EvictionReason(by, winner, wanted_milli=wanted)
        mine, theirs = diverging_ancestors(
            columns.queues, columns.queue_of[solution.group], columns.queue_of[columns.group_of[pod]]
        )
        before = solution.before.held
        return EvictionReason(
            by,
            winner,
            taken=queue_figures(columns, theirs, before[theirs][GPU]),
            gaining=queue_figures(columns, mine, before[mine][GPU]),
            wanted_milli=wanted,
        )

    def to_plan(self, is_final: bool) -> Plan:
        columns, trial = self.columns, self.trial
        changed = sorted(filter(trial.has_changed, {pod for pod, _ in trial.journal}))
        bound = [pod for pod in changed if self._is_bound(pod)]
        devices = assign_devices(trial, changed)
        return Plan(
            evictions=tuple(self._evict(pod) for pod in changed if self._is_taken(pod)),
            binds=tuple([self._bind(pod, devices) for pod in bound]),
            promises=tuple(self._promise(pod, devices) for pod in changed if columns.promise_node[pod] != NOWHERE),
            withdrawals=tuple(self._withdrawals()),
            started=self._started(bound),
            stale=tuple(columns.groups[group].id for group in stale_groups(trial)),
            verdicts=verdicts(self.placer),
            queues=tuple(queue_figures(columns, queue) for queue in range(len(columns.queues.ids))),
            problems=self.problems,
            quiet_until=quiet_until(self.placer),
            is_final=is_final,
        )

    def _is_bound(self, pod: int) -> bool:
        """Got a place that is free now; in parity, also if it was taken again."""
        if self.trial.started_as[pod][0] != NOTHING or self.columns.hold[pod] == NOTHING:
            return False
        return self.columns.hold[pod] == REAL or self.trial.evicted_from(pod)[0] == REAL

    def _is_taken(self, pod: int) -> bool:
        return self.columns.hold[pod] == RELEASING

    def _bind(self, pod: int, devices: Devices) -> Bind:
        columns = self.columns
        row = columns.pods[pod]
        node = columns.nodes.names[columns.hold_node[pod]]
        return Bind(row.id, row.group, node, devices.get(pod, ()), self._claims(row) if row.claims else ())

    def _claims(self, row: Pod) -> tuple[tuple[ClaimId, tuple[str, ...]], ...]:
        """Claims that are allocated for this pod, and their devices."""
        places, claims = self.trial.claims.places, self.columns.claims
        return tuple((name, places[name][1]) for name in row.claims if claims[name].node is None and name in places)

    def _promise(self, pod: int, devices: Devices) -> Promise:
        columns = self.columns
        row = columns.pods[pod]
        node = columns.nodes.names[columns.promise_node[pod]]
        is_kept = row.phase is PodPhase.PROMISED and row.node == node and pod not in self.placer.withdrawn
        since = row.promised_at if is_kept and row.promised_at is not None else columns.now
        return Promise(row.id, row.group, node, devices.get(pod, ()), since)

    def _evict(self, pod: int) -> Evict:
        columns = self.columns
        row = columns.pods[pod]
        reason = self.reasons[pod]
        if columns.promise_node[pod] != NOWHERE:
            to = columns.nodes.names[columns.promise_node[pod]]
            stays = columns.promise_node[pod] == columns.hold_node[pod]
            reason = replace(reason, moved_to=to, restarts_with_group=stays)
        return Evict(row.id, row.group, columns.nodes.names[columns.hold_node[pod]], reason)

    def _started(self, bound: Iterable[int]) -> tuple[GroupId, ...]:
        """Groups that had nothing and now have pods bound."""
        columns, trial = self.columns, self.trial
        counts = Counter([columns.group_of[pod] for pod in bound])
        return tuple(
            [
                columns.group_ids[group]
                for group, count in sorted(counts.items())
                if (columns.is_plain[group] and count == len(columns.sets.pods[columns.first_set[group]]))
                or not trial.was_running(group)
            ]
        )

    def _withdrawals(self) -> Iterator[Withdraw]:
        """Promises of earlier cycles that were neither kept nor replaced by another place."""
        for pod in self.columns.promised_pods:
            row = self.columns.pods[pod]
            if row.node is not None and self.trial.is_waiting(pod):
                why = self.placer.withdrawn.get(pod, WithdrawReason.NO_LONGER_FITS)
                yield Withdraw(row.id, row.group, row.node, why)
