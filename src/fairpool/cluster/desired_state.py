"""What was pulled from the control plane, written into the draft: declarations, removals, the organization."""

from __future__ import annotations

from dataclasses import replace

from fairpool.api.clusters import DesiredWorkload, PullAnswer
from fairpool.cluster.ledger_cache import EntryDraft
from fairpool.cluster.pod_slots import new_pod
from fairpool.cluster.workload_state import Halt, WorkloadState
from fairpool.model.ids import Instant, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.spec import WorkloadSpec

LOST_INCARNATIONS = 1000
"""Incarnations that are skipped after a ledger was lost: more than an index can have used without a report."""


def apply_pull(draft: EntryDraft, pulled: PullAnswer | None, *, recovered: bool) -> set[WorkloadId]:
    """Write what was pulled into the draft, and return the workloads it concerns.

    `recovered`: the ledger was lost, so the control plane's memory replaces it where it can.
    """
    if pulled is None:
        return set()
    draft.cursor = pulled.revision
    known = {wanted.id for wanted in pulled.workloads} | draft.cache.specs.keys()
    concerned: set[WorkloadId] = set()
    for wanted in pulled.workloads:
        spec = wanted.to_spec()
        if draft.cache.specs.get(spec.id) == spec:
            continue
        draft.specs[spec.id] = spec
        concerned.add(spec.id)
        if spec.id not in draft.cache.states:
            draft.put_state(_first_state(spec, wanted, known, recovered=recovered))
            if recovered:
                draft.put_pods(spec.id, tuple(_succeeded_pod(spec, wanted, index, draft.now) for index in wanted.done))
    draft.undesired = _undesired(draft, pulled)
    return concerned | draft.undesired | _apply_organization(draft, pulled)


def _first_state(
    spec: WorkloadSpec, wanted: DesiredWorkload, known: set[WorkloadId], *, recovered: bool
) -> WorkloadState:
    over = wanted.over
    halt = None
    if over is not None and over.run == spec.run:
        halt = Halt(over.phase, over.cause, Instant(over.at), over.detail)
    if not recovered:
        return WorkloadState(workload=spec.id, run=spec.run, halt=halt)
    return WorkloadState(
        workload=spec.id,
        run=spec.run,
        halt=halt,
        first_incarnation=LOST_INCARNATIONS + max(wanted.incarnations.values(), default=0),
        # Dependencies that are gone were met: otherwise this workload would have been reported as failed.
        met=tuple(each.workload for each in spec.after if each.workload not in known),
    )


def _succeeded_pod(spec: WorkloadSpec, wanted: DesiredWorkload, index: int, now: Instant) -> PodRecord:
    """A pod that had succeeded before the ledger was lost, as the control plane remembers it."""
    return replace(
        new_pod(spec, index, wanted.incarnations.get(index, 0), now),
        phase=PodPhase.ENDED,
        outcome=Outcome.OK,
        cause=Cause.EXITED,
        detail="it completed before the ledger was lost",
    )


def _undesired(draft: EntryDraft, pulled: PullAnswer) -> set[WorkloadId]:
    """Workloads whose declaration was removed."""
    removed = {WorkloadId(each) for each in pulled.removed}
    if pulled.whole:
        removed |= draft.cache.specs.keys() - {wanted.id for wanted in pulled.workloads}
    return {each for each in removed if each in draft.cache.specs and each not in draft.specs}


def _apply_organization(draft: EntryDraft, pulled: PullAnswer) -> set[WorkloadId]:
    """Projects, pools and rules, if they changed: that concerns every workload with pods."""
    if pulled.organization is None:
        return set()
    organization = pulled.organization.to_organization()
    if organization == draft.cache.organization:
        return set()
    draft.new_organization = organization
    draft.must_plan = True
    return set(draft.cache.pods)
