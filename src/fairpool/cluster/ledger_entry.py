"""What the loop writes into the ledger in one go, and what it finds there at its start."""

from __future__ import annotations

from dataclasses import dataclass

from fairpool.cluster.history import Event
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.ids import PodId, Revision, WorkloadId
from fairpool.model.organization import Organization
from fairpool.model.pod_record import PodRecord
from fairpool.model.spec import WorkloadSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """What one cycle writes down. Where one thing is both written and removed, it is removed."""

    specs: tuple[WorkloadSpec, ...] = ()
    """New or changed declarations."""
    undesired: tuple[WorkloadId, ...] = ()
    """Their declarations go; lives and standings stay."""
    dropped: tuple[WorkloadId, ...] = ()
    """Their declarations, standings and all lives go."""
    pods: tuple[PodRecord, ...] = ()
    forgotten: tuple[PodId, ...] = ()
    """Ended lives that nobody needs any more."""
    states: tuple[WorkloadState, ...] = ()
    events: tuple[Event, ...] = ()
    organization: Organization | None = None
    """None: as it was."""
    cursor: Revision | None = None
    """None: where it was."""
    acknowledged: int | None = None
    """Events up to this number were delivered, and go."""
    heard_events: int | None = None
    """Events up to this number were delivered by an earlier ledger, which was lost: ours count on from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerContents:
    """Everything that is written down, each kind in the order of its ids."""

    specs: tuple[WorkloadSpec, ...] = ()
    pods: tuple[PodRecord, ...] = ()
    states: tuple[WorkloadState, ...] = ()
    organization: Organization | None = None
    cursor: Revision | None = None
    events_through: int = 0
    """The number of the last event that was written, delivered or not."""
    dropped_events: int = 0
    """Events that were never delivered because too many waited."""
