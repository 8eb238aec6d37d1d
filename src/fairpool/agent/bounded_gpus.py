"""Queries of GPUs that return in time although the driver hangs, as it may when a device fails."""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.agent.bounded_call import BoundedCalls, StillRunning
from fairpool.agent.nvml import Gpu, GpuMeasure, Gpus, GpuUse

WORDS = "the driver does not respond"


class BoundedGpus:
    """The same devices; a query that takes too long counts as not answered. For one thread."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._uses: BoundedCalls[GpuUse | None] = BoundedCalls()
        self._measures: BoundedCalls[GpuMeasure | None] = BoundedCalls()

    @property
    def error(self) -> str:
        return self._gpus.error

    def devices(self) -> Sequence[Gpu]:
        """Not bounded: it is asked once, before anything runs."""
        return self._gpus.devices()

    def use(self, uuid: str) -> GpuUse | None:
        try:
            return self._uses.run(uuid, lambda: self._gpus.use(uuid), WORDS)
        except StillRunning:
            return None

    def measure(self, uuid: str, since: int = 0) -> GpuMeasure | None:
        try:
            return self._measures.run(uuid, lambda: self._gpus.measure(uuid, since), WORDS)
        except StillRunning:
            return None
