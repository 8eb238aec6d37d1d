"""Progress line of a simulation, on a terminal only."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from fairpool.model.ids import SECOND_MS
from fairpool.model.quantity import gpus_text
from fairpool.model.status import HOLDS_NOTHING
from fairpool.simulation.scenario import START
from fairpool.simulation.simulated_cluster import SimulatedCluster

EVERY_S = 0.1
BAR = 24


class Progress:
    """Draws over itself, ten times a second at most."""

    def __init__(self, jobs: int, gpus: int, stream: TextIO | None = None) -> None:
        self._jobs, self._gpus = jobs, gpus
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = bool(self._stream is not None and self._stream.isatty())
        self._drawn_at = 0.0
        self._width = 0

    def __call__(self, cluster: SimulatedCluster, part: float) -> None:
        if not self._is_shown or time.monotonic() - self._drawn_at < EVERY_S:
            return
        self._drawn_at = time.monotonic()
        done = sum(report.phase in HOLDS_NOTHING for report in cluster.reports().values())
        filled = round(BAR * part)
        line = (
            f"{elapsed_text((cluster.now - START) / SECOND_MS):>10} [{'#' * filled}{'.' * (BAR - filled)}] "
            f"{done}/{self._jobs} jobs done, {gpus_text(cluster.gpus_held_milli())}/{self._gpus} GPUs"
        )[:79]
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)

    def clear(self) -> None:
        """Clear the line."""
        if self._is_shown and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()


def elapsed_text(seconds: float) -> str:
    """`4.5s`, `2m 05s`, `3h 07m`, `2d 04h`: two units, which is what one reads."""
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    for size, name, below, small in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{name} {whole % size // below:02}{small}"
    raise AssertionError(f"{seconds} is at least a minute")
