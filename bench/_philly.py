"""The Philly jobs with their quotas, and what is measured of any run of them: completion times, use, fairness.

Nothing here knows how jobs are scheduled. The runner reports to a `Meter` what happened and when; the figures follow
from that alone, so that runs of different kinds can be compared. The data: bench/data/philly-vc. Times in seconds.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path

from fairpool.model.ids import QueueId

DATA = Path(__file__).parent / "data" / "philly-vc" / "philly_vc_jobs.csv.gz"
LEAST_QUOTA = 8
HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Job:
    """One job of the trace: all its GPUs at once, for so long."""

    number: int
    queue: QueueId
    submit_s: int
    gpus: int
    duration_s: int


def jobs(most: int | None = None) -> list[Job]:
    """The jobs in the order in which they are submitted, or the first so many of them."""
    with gzip.open(DATA, "rt", newline="") as file:
        rows = sorted(
            (int(row["submit_s"]), row["vc"], int(row["num_gpu"]), int(row["duration_s"]))
            for row in csv.DictReader(file)
        )
    return [
        Job(number, QueueId(queue), submit_s, gpus, duration_s)
        for number, (submit_s, queue, gpus, duration_s) in enumerate(rows[:most])
    ]


def quotas(listed: Iterable[Job], gpus: int) -> dict[QueueId, int]:
    """GPUs owed to each queue: its part of all GPU time, at least 8; the largest takes what rounding leaves."""
    asked: dict[QueueId, int] = {}
    for job in listed:
        asked[job.queue] = asked.get(job.queue, 0) + job.gpus * job.duration_s
    whole = sum(asked.values())
    quota = {queue: max(LEAST_QUOTA, round(gpus * part / whole)) for queue, part in asked.items()}
    quota[max(quota, key=lambda queue: quota[queue])] += gpus - sum(quota.values())
    return quota


def water_filled(want: Mapping[QueueId, int], quota: Mapping[QueueId, int], gpus: int) -> dict[QueueId, float]:
    """Fair shares: all GPUs by quota, but no queue gets more than it wants."""
    share: dict[QueueId, float] = {}
    left = float(gpus)
    thirsty = [queue for queue in want if want[queue] > 0]
    while thirsty:
        unit = left / sum(quota[queue] for queue in thirsty)
        full = [queue for queue in thirsty if want[queue] <= unit * quota[queue]]
        if not full:
            return share | {queue: unit * quota[queue] for queue in thirsty}
        for queue in full:
            share[queue] = want[queue]
            left -= want[queue]
        thirsty = [queue for queue in thirsty if queue not in share]
    return share


def alone(listed: Sequence[Job], quota: Mapping[QueueId, int]) -> list[int]:
    """When each job would be complete, counted from its submission, if its queue had its quota alone.

    Oldest first, passing over what does not fit; room for the largest job of the queue in any case.
    """
    taken: dict[int, int] = {}
    for queue in quota:
        mine = [job for job in listed if job.queue == queue]
        room = max((job.gpus for job in mine), default=0)
        taken |= _backfilled(mine, max(quota[queue], room))
    return [taken[job.number] for job in listed]


def _backfilled(mine: Sequence[Job], free: int) -> dict[int, int]:
    waiting: list[Job] = []
    ends: list[tuple[int, int, int]] = []
    taken: dict[int, int] = {}
    coming = 0
    while coming < len(mine) or ends:
        now = min([*(job.submit_s for job in mine[coming : coming + 1]), *(end for end, _, _ in ends[:1])])
        while ends and ends[0][0] <= now:
            free += heappop(ends)[2]
        while coming < len(mine) and mine[coming].submit_s <= now:
            waiting.append(mine[coming])
            coming += 1
        for job in waiting if free else ():
            if job.gpus <= free:
                free -= job.gpus
                heappush(ends, (now + job.duration_s, job.number, job.gpus))
                taken[job.number] = now + job.duration_s - job.submit_s
        waiting = [job for job in waiting if job.number not in taken]
    return taken


class Meter:
    """What happened to the jobs, in the order in which it happened."""

    def __init__(self, listed: Sequence[Job], quota: Mapping[QueueId, int], gpus: int) -> None:
        self.jobs = listed
        self.quota = quota
        self.gpus = gpus
        self.last_submit_s = max((job.submit_s for job in listed), default=0)
        self.held: dict[QueueId, int] = dict.fromkeys(quota, 0)
        self.want: dict[QueueId, int] = dict.fromkeys(quota, 0)
        self.ended_s: dict[int, int] = {}
        self.ran_s: dict[int, int] = {}
        """For how long each job held its GPUs, over all its pods."""
        self.preemptions = 0
        self.lost_gpu_s = 0
        self._began_s: dict[int, int] = {}
        self._now_s = 0
        self._busy = 0
        self._contended_s = 0
        self._error = 0.0
        self._shares: dict[QueueId, float] | None = None

    def submitted(self, job: Job, at_s: int) -> None:
        self._pass_time(at_s)
        self.want[job.queue] += job.gpus
        self._shares = None

    def started(self, job: Job, at_s: int) -> None:
        self._pass_time(at_s)
        self.held[job.queue] += job.gpus
        self._began_s[job.number] = at_s

    def stopped(self, job: Job, at_s: int, lost_s: int) -> None:
        """It lost its place; so much of the time it had it went into starting again."""
        self._pass_time(at_s)
        self._leave(job, at_s, lost_s)
        self.preemptions += 1

    def ended(self, job: Job, at_s: int, lost_s: int) -> None:
        """Its work is done."""
        self._pass_time(at_s)
        self._leave(job, at_s, lost_s)
        self.want[job.queue] -= job.gpus
        self.ended_s[job.number] = at_s
        self._shares = None

    def _leave(self, job: Job, at_s: int, lost_s: int) -> None:
        self.held[job.queue] -= job.gpus
        self.ran_s[job.number] = self.ran_s.get(job.number, 0) + at_s - self._began_s.pop(job.number)
        self.lost_gpu_s += lost_s * job.gpus

    def _pass_time(self, at_s: int) -> None:
        """Use and fairness are looked at until the last job is submitted; what follows is only draining."""
        span_s = min(at_s, self.last_submit_s) - self._now_s
        self._now_s = max(at_s, self._now_s)
        if span_s <= 0:
            return
        self._busy += span_s * sum(self.held.values())
        if sum(self.want.values()) <= self.gpus:
            return
        if self._shares is None:
            self._shares = water_filled(self.want, self.quota, self.gpus)
        apart = sum(abs(self.held[queue] - self._shares.get(queue, 0.0)) for queue in self.quota)
        self._error += span_s * apart / (2 * self.gpus)
        self._contended_s += span_s

    def metrics(self, alone_s: Sequence[int]) -> dict[str, float]:
        """All figures, once every job has ended."""
        taken = [self.ended_s[job.number] - job.submit_s for job in self.jobs]
        waited = [taken_s - self.ran_s[job.number] for taken_s, job in zip(taken, self.jobs, strict=True)]
        rho = [taken_s / alone_s[number] for number, taken_s in enumerate(taken)]
        held_gpu_s = sum(self.ran_s[job.number] * job.gpus for job in self.jobs)
        return {
            **_figures("jct", [taken_s / HOUR_S for taken_s in taken], "_h"),
            **_figures("wait", [waited_s / HOUR_S for waited_s in waited], "_h"),
            "use_percent": 100 * self._busy / (self.gpus * self.last_submit_s) if self.last_submit_s else 0.0,
            "fairness_error_percent": 100 * self._error / self._contended_s if self._contended_s else 0.0,
            "contended_percent": 100 * self._contended_s / self.last_submit_s if self.last_submit_s else 0.0,
            "mean_rho": sum(rho) / len(rho),
            "p99_rho": percentile(rho, 0.99),
            "preemptions": self.preemptions,
            "lost_gpu_hours": self.lost_gpu_s / HOUR_S,
            "lost_percent": 100 * self.lost_gpu_s / held_gpu_s,
            "end_days": max(self.ended_s.values()) / (24 * HOUR_S),
        }


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which so large a part of the values is."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def _figures(name: str, values: Sequence[float], unit: str) -> dict[str, float]:
    return {
        f"mean_{name}{unit}": sum(values) / len(values),
        f"p50_{name}{unit}": percentile(values, 0.5),
        f"p99_{name}{unit}": percentile(values, 0.99),
    }
