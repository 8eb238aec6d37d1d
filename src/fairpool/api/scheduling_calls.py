"""Calls of the client about waiting work, shares, devices and decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairpool.api.calls import Calls

if TYPE_CHECKING:
    from fairpool.api import decisions as decision_wire
    from fairpool.api import devices as device_wire
    from fairpool.api import shares as share_wire
    from fairpool.api import waiting as waiting_wire


class SchedulingCalls(Calls):
    """What the schedulers decided, and what it looks like now."""

    def waiting(self, **query: Any) -> waiting_wire.WaitingPage:
        """One page; `query`: what the API takes, as filterBy or limit."""
        return self._get("/api/v1/workloads/waiting", query)

    def wait(self, workload_id: str, *, changes: bool = True) -> waiting_wire.WorkloadWait:
        """Why a workload waits, what would change it, and when it is expected to start."""
        return self._get(f"/api/v1/workloads/{workload_id}/wait", {"changes": str(changes).lower()})

    def start_estimates(self, **query: Any) -> waiting_wire.EstimateAccuracy:
        return self._get("/api/v1/workloads/start-estimates", query)

    def shares(self, **query: Any) -> share_wire.SharesPage:
        """One page; `query`: what the API takes, as clusterId or filterBy."""
        return self._get("/api/v1/shares", query)

    def devices(self, **query: Any) -> device_wire.DevicePage:
        return self._get("/api/v1/devices", query)

    def decisions(self, *, limit: int = 50, **query: Any) -> list[decision_wire.Decision]:
        """The newest first; `query`: what the API takes besides, as filterBy."""
        return self._get("/api/v1/decisions", {"limit": limit, **query}).decisions

    def all_shares(self, **query: Any) -> list[share_wire.Share]:
        """Of all pages."""
        return self._all("/api/v1/shares", "shares", query)
