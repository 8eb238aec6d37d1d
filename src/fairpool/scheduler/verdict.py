"""Verdicts: why each group that is left waiting waits, with the numbers used.

Made once everything is decided, on the columns as the plan leaves them. `explain.py` makes sentences of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest

from fairpool.model.empty_node import copies_when_empty
from fairpool.model.ids import GroupId, Instant
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import DRAIN
from fairpool.model.node_role import ROLE_OBJECTIONS
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI
from fairpool.model.workload import GpuKind, PodShape, SubGroup, TopologyConstraint
from fairpool.scheduler import gate
from fairpool.scheduler.allocate import promised_at
from fairpool.scheduler.chunk import chunk_need, is_ready, next_chunk
from fairpool.scheduler.columns import NOWHERE, RELEASING, Columns
from fairpool.scheduler.decision import (
    ClosedNode,
    Fragmented,
    NeverFits,
    NoDomainFits,
    NoNodeMatches,
    NoQueue,
    NoRoom,
    NotItsTurn,
    NotReady,
    Obstacle,
    OverLimit,
    OverQuota,
    ProtectedVictims,
    QueueFigures,
    Verdict,
    WaitsForVictims,
    Why,
)
from fairpool.scheduler.figures import queue_figures
from fairpool.scheduler.free_gpus import FreeBlocks
from fairpool.scheduler.losses import is_owed_by
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.queues import GPU, RESOURCES, Vector, diverging_ancestors, plus, within
from fairpool.scheduler.reclaim import may_reclaim
from fairpool.scheduler.runtime import has_minimum_runtimes, protected_until
from fairpool.scheduler.shortage import copies_now, in_service, short_of, too_small
from fairpool.scheduler.topology import DomainTree

Finding = tuple[Why, tuple[ClosedNode, ...]]
"""Why a group waits, and the nodes out of service that would let it start."""

FOR_WANT_OF_ROOM = (NoNodeMatches, NeverFits, NoDomainFits, NoRoom, Fragmented, NotItsTurn)


def verdicts(placer: Placer) -> dict[GroupId, Verdict]:
    """A verdict for every group with a pod that neither runs nor starts now."""
    columns, sets, ids = placer.columns, placer.columns.sets, placer.columns.group_ids
    promised: dict[int, list[int]] = {}
    for pod in placer.trial.promised():
        promised.setdefault(columns.group_of[pod], []).append(pod)
    left = placer.trial.unplaced_groups()
    places = zip(columns.hold, columns.hold_node, strict=True)
    leaving = Counter(node for hold, node in places if hold == RELEASING) if promised else Counter()
    findings = _Findings(placer, leaving)
    known, class_of, first_set, is_plain = (
        findings.known,
        placer.waiting.class_of(),
        columns.first_set,
        columns.is_plain,
    )
    found: dict[GroupId, Verdict] = {}
    shared: dict[tuple[int, int, int], Verdict] = {}
    now = columns.now
    for group in sorted({*left, *promised}) if promised else left:
        coming = promised.get(group, ()) if promised else ()
        kind = class_of.get(group, group)
        why, closed = (known.get(kind) if not coming else None) or findings.why(group, coming, kind)
        number = first_set[group]
        if is_plain[group]:
            waiting, active = sets.waiting[number] + sets.gated[number], sets.active[number]
        else:
            waiting = sum(sets.waiting[each] + sets.gated[each] for each in columns.sets_of[group])
            active = sum(sets.active[each] for each in columns.sets_of[group])
        if coming:
            found[ids[group]] = Verdict(why, waiting + len(coming), active - len(coming), now, closed)
            continue
        key = (kind, waiting, active)
        verdict = shared.get(key)
        if verdict is None or verdict.why is not why:
            verdict = shared[key] = Verdict(why, waiting, active, now, closed)
        found[ids[group]] = verdict
    return found


class _Findings:
    """Findings for one group that hold for others too."""

    def __init__(self, placer: Placer, leaving: Mapping[int, int]) -> None:
        self.placer = placer
        self.leaving = leaving
        """Pods that leave, by node."""
        self.known: dict[int, Finding] = {}
        """By class of groups."""
        self._free: dict[Hashable, FreeBlocks] = {}
        rows = placer.columns.nodes.rows
        self.out_of_service = [
            (node, in_service(rows[node]))
            for node in sorted(
                node
                for members in placer.fit.classes
                if rows[members[0]].ready and in_service(rows[members[0]]) is not rows[members[0]]
                for node in members
            )
        ]
        """Nodes that an administrator drained or cordoned, and what each would be without that."""
        self.has_protection = has_minimum_runtimes(placer.columns.queues, placer.columns.policy)

    def why(self, group: int, promised: Sequence[int], kind: int) -> Finding:
        """Groups of one class wait for the same reason, unless they have no queue, which is theirs alone."""
        if promised or self.placer.columns.queue_of[group] == NOWHERE:
            return _Diagnosis(self, group).finding(promised)
        known = self.known.get(kind)
        if known is None:
            known = self.known[kind] = _Diagnosis(self, group).finding(promised)
        return known

    @cached_property
    def largest_holders(self) -> list[int]:
        """The two projects that hold most."""
        queues = self.placer.columns.queues
        holders = (
            queue for queue in range(len(queues.ids)) if not queues.children[queue] and queues.held[queue][GPU] > 0
        )
        return nsmallest(2, holders, key=lambda queue: (-queues.held[queue][GPU], queue))

    def free(self, nodes: Sequence[int], key: Hashable, one_device: bool) -> FreeBlocks:
        """What is free on some nodes, and the largest block of it on one node or one device."""
        known = self._free.get((key, one_device))
        if known is None:
            known = self._free[key, one_device] = FreeBlocks.on(self.placer.columns, nodes, one_device)
        return known


class _Diagnosis:
    """Why one group waits."""

    def __init__(self, findings: _Findings, group: int) -> None:
        self.findings = findings
        self.placer = findings.placer
        self.trial = findings.placer.trial
        self.columns: Columns = findings.placer.columns
        self.group = group
        self.queue = self.columns.queue_of[group]

    def finding(self, promised: Sequence[int]) -> Finding:
        """Why it waits, and which nodes out of service would let it start."""
        why = self.why(promised)
        if not self.findings.out_of_service or not isinstance(why, FOR_WANT_OF_ROOM):
            return why, ()
        return why, self._closed(next_chunk(self.trial, self.group))

    def why(self, promised: Sequence[int]) -> Why:
        """The first of the possible reasons that holds, the most fundamental first."""
        if self.queue == NOWHERE:
            name = self.columns.groups[self.group].queue
            return NoQueue(name, exists=name in self.columns.queues.index)
        if promised:
            return self._waits_for(promised)
        if not is_ready(self.columns, self.group):
            return self._missing()
        chunk = next_chunk(self.trial, self.group)
        if not chunk:
            return self._missing()
        return (
            self._refused(chunk)
            or self._nowhere(chunk)
            or self._never(chunk)
            or self._no_domain(chunk)
            or self._no_room(chunk)
            or self._scattered(chunk)
            or self._protected(chunk)
            or self._not_its_turn(chunk)
        )

    def _waits_for(self, promised: Sequence[int]) -> WaitsForVictims:
        columns = self.columns
        places = sorted({columns.promise_node[pod] for pod in promised})
        leaving = sum(self.findings.leaving.get(node, 0) for node in places)
        kept = [pod for pod in promised if columns.pods[pod].phase is PodPhase.PROMISED]
        since = Instant(promised_at(columns, kept)) if kept else columns.now
        return WaitsForVictims(tuple(columns.nodes.names[node] for node in places), leaving, since)

    def _missing(self) -> NotReady:
        """The pod set that lacks most."""
        sets = self.columns.sets

        def lack(number: int) -> int:
            return sets.minimum[number] - sets.active[number] - sets.waiting[number]

        number = max(self.columns.sets_of[self.group], key=lambda each: (lack(each), sets.name[each]))
        exist = sets.active[number] + sets.waiting[number] + sets.gated[number]
        return NotReady(sets.name[number], sets.minimum[number], exist, sets.gated[number])

    def _refused(self, chunk: Sequence[int]) -> OverLimit | OverQuota | None:
        need = chunk_need(self.columns, chunk)
        return gate.refusal(
            self.columns.queues, self.queue, need, non_preemptible=self.columns.is_non_preemptible(self.group)
        )

    def _nowhere(self, chunk: Sequence[int]) -> NoNodeMatches | None:
        """Some pod would not be taken by any node, however empty."""
        columns = self.columns
        avoid = {columns.nodes.index[name] for name in columns.groups[self.group].avoid if name in columns.nodes.index}
        for shape in _different(columns, chunk):
            excluded: Counter[str] = Counter()
            for members in self.placer.fit.classes:
                objection = self.placer.fit.objection(shape, members[0])
                if objection is None or objection in ROLE_OBJECTIONS:  # another role would not make it larger
                    objection = too_small(columns, shape, members[0]) or objection
                if objection is not None:
                    excluded[objection] += len(members)
                elif avoid:
                    excluded["failed to start it recently"] += len(avoid.intersection(members))
            if excluded.total() == len(columns.nodes.rows):
                return NoNodeMatches(len(columns.nodes.rows), _ranked(+excluded))
        return None

    def _never(self, chunk: Sequence[int]) -> NeverFits | None:
        """More must start together than there is room for when everything is empty and in service."""
        columns = self.columns
        nodes = 0
        gpus_milli = 0
        room: Counter[PodShape] = Counter()
        shapes = Counter(columns.shape(pod) for pod in chunk)
        for members in self.placer.fit.classes:
            row = in_service(columns.nodes.rows[members[0]])
            taken = [each for each in shapes if self.placer.fit.objection_of(each, row, members[0]) is None]
            for shape in taken:
                room[shape] += len(members) * copies_when_empty(row, shape)
            if taken:
                nodes += len(members)
                gpus_milli += len(members) * WHOLE_GPU_MILLI * row.gpus
        asked_milli = int(chunk_need(columns, chunk)[GPU])
        found = min((min(room[shape], count) for shape, count in shapes.items()), default=0)
        if all(room[shape] >= count for shape, count in shapes.items()):
            if asked_milli <= gpus_milli or any(shape.gpu.mig for shape in shapes):
                return None
            found = gpus_milli * len(chunk) // asked_milli
        return NeverFits(len(chunk), found, asked_milli, gpus_milli, nodes)

    def _closed(self, chunk: Sequence[int]) -> tuple[ClosedNode, ...]:
        """Drained and cordoned nodes that have room for those of its pods that find none elsewhere."""
        columns = self.columns
        shapes = {columns.shape(pod) for pod in chunk}
        missing = len(chunk) - self._found(chunk)
        found: list[ClosedNode] = []
        room = 0
        for node, opened in self.findings.out_of_service:
            copies = min(copies_now(columns, node, opened, shape) for shape in shapes)
            if copies and all(self.placer.fit.objection_of(shape, opened, node) is None for shape in shapes):
                row = columns.nodes.rows[node]
                found.append(ClosedNode(row.name, row.cordoned, DRAIN in row.taints))
                room += copies
        return tuple(found) if room >= missing else ()

    def _no_domain(self, chunk: Sequence[int]) -> NoDomainFits | None:
        """A required level of a topology has no domain with room for all pods that must be together."""
        for constraint, sets in _constraints(self.columns.groups[self.group].tree):
            mine = [pod for pod in chunk if self.columns.pods[pod].pod_set in sets]
            topology = self.columns.topologies.get(constraint.topology)
            if constraint.required is None or not mine or not self.columns.policy.topology:
                continue
            if topology is None or constraint.required not in topology.levels:
                return NoDomainFits(constraint.topology, constraint.required, len(mine), 0, "")
            shapes = {self.columns.shape_of[pod] for pod in mine}
            allowed = frozenset[int]().union(*map(self.placer.fit.node_set, shapes))
            tree = DomainTree(self.trial, topology, sorted(allowed), mine)
            domains = tree.in_order(topology.levels.index(constraint.required) + 1)
            if not any(tree.fits(domain) for domain in domains):
                best = max(domains, key=tree.copies, default=())
                return NoDomainFits(
                    constraint.topology, constraint.required, len(mine), tree.copies(best), "/".join(best)
                )
        return None

    def _found(self, chunk: Sequence[int]) -> int:
        """How many of the pods there would be room for."""
        mark = self.trial.mark()
        found = 0
        for pod in chunk:
            if not self.placer.place_anywhere(pod):
                break
            found += 1
        self.trial.undo(mark)
        return found

    def _no_room(self, chunk: Sequence[int]) -> NoRoom | None:
        """Nothing to do with GPUs: another resource is short."""
        columns = self.columns
        if any(columns.shape(pod).gpu.kind is not GpuKind.NONE for pod in chunk):
            return None
        short = Counter(short_of(columns, columns.shape(chunk[0]), node) for node in self._nodes(chunk))
        return NoRoom(_ranked(short), len(chunk), self._found(chunk))

    def _scattered(self, chunk: Sequence[int]) -> Fragmented | None:
        """Enough is free on nodes that would take the pods, but not together."""
        columns = self.columns
        one_device = columns.facts[columns.shape_of[chunk[0]]].shared > 0
        free = self._free(chunk, one_device=one_device)
        found = self._found(chunk)
        if found == len(chunk) or not free.total_milli or free.total_milli < chunk_need(columns, chunk)[GPU]:
            return None
        return Fragmented(
            asked_milli=int(columns.waiting_need(chunk[0])[GPU]),
            pods=len(chunk),
            found=found,
            free_milli=free.total_milli,
            largest_milli=free.largest_milli,
            largest_node=free.largest_node,
            one_device=one_device,
        )

    def _free(self, chunk: Sequence[int], *, one_device: bool = False) -> FreeBlocks:
        nodes = self._nodes(chunk)
        key = (self.columns.groups[self.group].avoid, id(self.placer.fit.nodes(self.columns.shape_of[chunk[0]])))
        return self.findings.free(nodes, key, one_device)

    def _nodes(self, chunk: Sequence[int]) -> list[int]:
        """Nodes that the pods may go to at all."""
        columns = self.columns
        avoid = columns.groups[self.group].avoid
        nodes = self.placer.fit.nodes(columns.shape_of[chunk[0]])
        return [node for node in nodes if columns.nodes.names[node] not in avoid] if avoid else nodes

    def _protected(self, chunk: Sequence[int]) -> ProtectedVictims | None:
        """Groups it could take from if they were not within their minimum runtime."""
        columns = self.columns
        if not self.findings.has_protection:
            return None
        need = chunk_need(columns, chunk)
        takes = may_reclaim(columns.queues, self.queue, need, columns.is_non_preemptible(self.group))
        pods, gpus, until = 0, 0, None
        for group in range(len(columns.groups)):
            by = self._would_take_by(group, takes, need)
            ends = None if by is None else protected_until(columns, by, self.group, group)
            active = sum(columns.sets.active[number] for number in columns.sets_of[group])
            if ends is None or not active:
                continue
            pods += active
            gpus += sum(
                int(columns.placed_need(pod, self.trial.place(pod)[0])[GPU])
                for number in columns.sets_of[group]
                for pod in columns.sets.pods[number]
                if self.trial.is_active(pod)
            )
            until = ends if until is None else min(until, ends)
        return None if until is None else ProtectedVictims(pods, gpus, until)

    def _would_take_by(self, group: int, takes_back: bool, need: Vector) -> Pass | None:
        columns = self.columns
        if group == self.group or columns.is_non_preemptible(group) or columns.queue_of[group] == NOWHERE:
            return None
        if columns.queue_of[group] == self.queue:
            return Pass.PREEMPT if columns.rules[group].priority < columns.rules[self.group].priority else None
        return (
            Pass.RECLAIM
            if takes_back and is_owed_by(columns.queues, self.queue, columns.queue_of[group], need)
            else None
        )

    def _not_its_turn(self, chunk: Sequence[int]) -> NotItsTurn:
        columns = self.columns
        need = chunk_need(columns, chunk)
        return NotItsTurn(
            figures=queue_figures(columns, self.queue),
            asked_milli=int(need[GPU]),
            pods=len(chunk),
            found=self._found(chunk),
            free_milli=self._free(chunk).total_milli,
            ahead=self._ahead(),
            may_reclaim=may_reclaim(columns.queues, self.queue, need, columns.is_non_preemptible(self.group)),
            obstacle=self._obstacle(need),
        )

    def _obstacle(self, need: Vector) -> Obstacle | None:
        """What keeps a group within its project's quota from what that project is owed: its department's quota, or
        the quota of the queues that hold it."""
        queues = self.columns.queues
        if not within(plus(queues.held[self.queue], need), queues.quota[self.queue]):
            return None
        for level in reversed(queues.path[self.queue][:-1]):
            for resource in RESOURCES:
                if need[resource] > 0 and queues.held[level][resource] + need[resource] > queues.quota[level][resource]:
                    return self._as_obstacle(level, resource, need, mine=True)
        sides: Counter[int] = Counter()
        for leaf in range(len(queues.ids)):
            lent = queues.held[leaf][GPU] - queues.held_non_preemptible[leaf][GPU]
            if leaf == self.queue or queues.children[leaf] or lent <= 0:
                continue
            side = diverging_ancestors(queues, self.queue, leaf)[1]
            is_shielded = queues.quota[side][GPU] == math.inf or queues.held[leaf][GPU] > queues.quota[leaf][GPU]
            if is_shielded and not is_owed_by(queues, self.queue, leaf, need):
                sides[side] += int(lent)
        if not sides:
            return None
        return self._as_obstacle(max(sides, key=lambda side: (sides[side], -side)), GPU, need, mine=False)

    def _as_obstacle(self, level: int, resource: int, need: Vector, *, mine: bool) -> Obstacle:
        queues = self.columns.queues
        quota = queues.quota[level][resource]
        return Obstacle(
            queue=queues.ids[level],
            resource=gate.NAMES[resource],
            quota=UNLIMITED if quota == math.inf else int(quota),
            held=int(queues.held[level][resource]),
            asked=int(need[resource]),
            mine=mine,
            is_department=bool(queues.children[level]),
            follows=any(queues.quota[child][resource] == math.inf for child in queues.children[level]),
        )

    def _ahead(self) -> QueueFigures | None:
        """The other project that holds most."""
        most = next((queue for queue in self.findings.largest_holders if queue != self.queue), None)
        return None if most is None else queue_figures(self.columns, most)


def _different(columns: Columns, chunk: Iterable[int]) -> list[PodShape]:
    return [columns.facts[shape].shape for shape in sorted({columns.shape_of[pod] for pod in chunk})]


def _ranked(reasons: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(reasons.items(), key=lambda item: (-item[1], item[0])))


def _constraints(tree: SubGroup) -> Iterator[tuple[TopologyConstraint, set[str]]]:
    if tree.constraint is not None:
        yield tree.constraint, {pod_set.name for pod_set in tree.all_pod_sets()}
    for pod_set in tree.pod_sets:
        if pod_set.constraint is not None:
            yield pod_set.constraint, {pod_set.name}
    for child in tree.groups:
        yield from _constraints(child)
