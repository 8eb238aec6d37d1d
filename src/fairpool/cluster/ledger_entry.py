"""What one cycle writes into the ledger, and what a loop reads from it when it starts."""

from __future__ import annotations

from dataclasses import dataclass

from fairpool.api.message import VERSION
from fairpool.cluster.history import Event
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.ids import PodId, Revision, WorkloadId
from fairpool.model.organization import Organization
from fairpool.model.pod_record import PodRecord
from fairpool.model.spec import WorkloadSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """What one cycle writes. What is both written and removed is removed."""

    specs: tuple[WorkloadSpec, ...] = ()
    """New or changed declarations."""
    undesired: tuple[WorkloadId, ...] = ()
    """Workloads whose declaration is removed; their pods and state stay."""
    dropped: tuple[WorkloadId, ...] = ()
    """Workloads that are removed with their state and all their pods."""
    pods: tuple[PodRecord, ...] = ()
    forgotten: tuple[PodId, ...] = ()
    """Ended pods to remove."""
    states: tuple[WorkloadState, ...] = ()
    events: tuple[Event, ...] = ()
    organization: Organization | None = None
    """None: unchanged."""
    cursor: Revision | None = None
    """None: unchanged."""
    acknowledged: int | None = None
    """Events up to this number were delivered, and no later ones: they are kept for a while."""
    reported_events: int | None = None
    """Events up to this number were delivered from an earlier ledger that was lost: numbering continues there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerContents:
    """Everything in the ledger, each kind in the order of its ids."""

    specs: tuple[WorkloadSpec, ...] = ()
    pods: tuple[PodRecord, ...] = ()
    states: tuple[WorkloadState, ...] = ()
    organization: Organization | None = None
    cursor: Revision | None = None
    protocol: int = VERSION
    """The version of the protocol in which the declarations were pulled. Of an earlier one, fields may be missing."""
    events_through: int = 0
    """The number of the last event that was recorded, delivered or not."""
    dropped_events: int = 0
    """Events that were removed undelivered because there were too many."""
    delivered: int = 0
    """The control plane has every event up to this one."""
