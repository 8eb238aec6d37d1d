"""Exchanges objects of a cluster with its control plane: addresses and claims there, access rules here.

In a thread of its own, a few seconds apart. Both sides say everything every time, so nothing is lost when one is away;
until the control plane answers again, access in the cluster stays as it was.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import CancelledError
from typing import Protocol

from fairpool.api.cluster_equipment import PROBLEM_CHARACTERS, EquipmentAnswer, EquipmentReport
from fairpool.api.clusters import ControlPlaneUnreachable
from fairpool.engines.kubernetes.equipment import ClusterEquipment
from fairpool.engines.kubernetes.equipment_summary import EquipmentSummary
from fairpool.engines.kubernetes.failures import KubernetesError
from fairpool.model.access_grant import AccessGrant

log = logging.getLogger("fairpool.kubernetes")

EVERY_S = 1.0
REPEAT_S = 10.0
"""Without changes here: access rules may have changed there."""
ANSWER_S = 60.0


class EquipmentCalls(Protocol):
    """The call of a control plane."""

    def equipment(self, report: EquipmentReport) -> EquipmentAnswer:
        """Raises `ControlPlaneUnreachable`."""

    def close(self) -> None:
        """End the call under way, from any thread."""


class EquipmentExchange:
    """Keeps both sides informed, until it is stopped."""

    def __init__(
        self,
        control: EquipmentCalls,
        equipment: ClusterEquipment,
        loop: asyncio.AbstractEventLoop,
        *,
        every_s: float = EVERY_S,
        repeat_s: float = REPEAT_S,
    ) -> None:
        """`loop`: the event loop of the equipment."""
        self._control, self._equipment, self._loop = control, equipment, loop
        self._every_s, self._repeat_s = every_s, repeat_s
        self._reported: EquipmentSummary | None = None
        self._reported_at = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="equipment exchange", daemon=True)
        self.error = ""
        """Why the last exchange failed; empty: it did not."""

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End it; a call under way is cut off."""
        self._over.set()
        self._control.close()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            error = ""
            try:
                self._exchange()
            except (ControlPlaneUnreachable, KubernetesError, TimeoutError, CancelledError) as failure:
                error = str(failure) or type(failure).__name__
            except Exception:  # a bug: the next exchange may succeed
                error = "the exchange failed"
                if error != self.error:
                    log.exception("access rules and addresses were not exchanged with the control plane")
            if error and error != self.error and not self._over.is_set():
                log.warning("access rules and addresses were not exchanged with the control plane: %s", error)
            self.error = error

    def _exchange(self) -> None:
        found = asyncio.run_coroutine_threadsafe(self._equipment.summary(), self._loop).result(ANSWER_S)
        now = time.monotonic()
        if found is None or (found == self._reported and now < self._reported_at + self._repeat_s):
            return
        answer = self._control.equipment(_report(found))
        self._reported, self._reported_at = found, now
        self._equipment.grant(_grant(each.to_model()) for each in answer.grants)


def _report(found: EquipmentSummary) -> EquipmentReport:
    return EquipmentReport(
        addresses=dict(found.addresses),
        claims=dict(found.claims),
        storage_classes=dict(found.storage_classes),
        default_class=found.default_class,
        problems={workload: text[:PROBLEM_CHARACTERS] for workload, text in found.problems.items()},
    )


def _grant(value: object) -> AccessGrant:
    assert isinstance(value, AccessGrant)
    return value
