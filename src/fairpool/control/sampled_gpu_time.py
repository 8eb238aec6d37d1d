"""GPU time that was measured and used, from the hours of samples: what accounting needs of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fairpool.control.sample_store import SampleStore
from fairpool.control.store.series_reader import Runs, SeriesReader
from fairpool.control.usage_sums import HOUR_MS, GpuTime, WorkloadHour
from fairpool.metrics.block import COVERAGE
from fairpool.metrics.catalogue import WorkColumn
from fairpool.metrics.resolution import HOURS
from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.quantity import WHOLE_GPU_MILLI

COLUMNS = (COVERAGE, WorkColumn.GPUS_MEASURED, WorkColumn.GPUS_USED)
MILLI_HOUR = WHOLE_GPU_MILLI * HOUR_MS


class SampledGpuTime:
    """Reads from the samples of workloads; of hours that are not averaged yet, from finer ones."""

    def __init__(self, samples: SampleStore) -> None:
        self._samples = samples

    def gpu_times(
        self, group: str, workloads: Collection[str], start: Instant, end: Instant
    ) -> Mapping[WorkloadHour, GpuTime]:
        names, start_s, end_s = frozenset(workloads), start // SECOND_MS, end // SECOND_MS

        def unit(reader: SeriesReader) -> Runs:
            return reader.runs(group, names, HOURS, start_s, end_s)

        return gpu_times(self._samples.read(unit), start // HOUR_MS, end // HOUR_MS)


def gpu_times(runs: Runs, first: int, last: int) -> dict[WorkloadHour, GpuTime]:
    """Of each workload in a range of hours. An hour of which only a part was measured counts with that part."""
    found: dict[WorkloadHour, GpuTime] = {}
    for name, parts in runs.items():
        for run in parts:
            if len(run.values) <= max(COLUMNS):
                continue  # of a version that did not keep this
            for hour, (covered, measured, used) in enumerate(run.values[COLUMNS, :].T.tolist(), run.first):
                if first <= hour < last and measured > 0:
                    whole = covered * MILLI_HOUR
                    found[name, hour] = GpuTime(round(measured * whole), round(used * whole))
    return found
