"""A real server over thousands of submits, deletes and preemptions: does what it uses level off?

    python -m bench.longrun [--submits N] [--json FILE]

`fairpool up` as a process of its own, on simulated devices, spoken to over HTTP; jobs are real processes. One project
owns every GPU and lends all of them to sleepers of another; each wave of its jobs takes them back, and the sleepers
return when the wave has gone. Jobs end well or fail, are deleted at once, while they run or when they are done, are
suspended and resumed, or go by themselves. Logs, shells, streams of changes and fresh logins come in between.

What it uses is noted as it goes. The first third warms up; a quantity is level if the last third, by its median, is
above the middle third by no more than the allowance that stands in `WATCHED`. History is kept for a few seconds only,
so that what is bounded by time reaches its bound within the run. A quantity that is not level makes the command fail.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from httpx2.websockets import WebSocketUpgradeError

from bench._report import Line, Setting, progress
from fairpool.api import organization as org
from fairpool.api import workload_spec as work
from fairpool.api.client import Client
from fairpool.api.shell import Channel
from fairpool.platform.data_directory import DataDirectory
from tests.running_platform import Running

GPUS = 16
WAVE = 64
"""Jobs at a time; together they ask for all GPUs, so that each wave takes back all that was lent."""
LOOK_S = 0.1
PATIENCE_S = 300.0
"""For one wave; it takes a few seconds."""
SAMPLES = 90
MOVED = (409, 503)
"""What an exec session is answered whose pod leaves, or has just left, for another place."""
KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class Watched:
    """A quantity, and how much more of it the last third may use than the middle one: a part, and an amount besides."""

    name: str
    unit: str
    part: float
    besides: float


WATCHED = (
    Watched("memory", "MiB", 0.05, 2),
    Watched("threads", "", 0.0, 2),
    Watched("descriptors", "", 0.0, 8),
    Watched("control database", "MiB", 0.05, 0.25),
    Watched("control journal", "MiB", 0.05, 1),
    Watched("ledger", "MiB", 0.05, 0.25),
    Watched("ledger journal", "MiB", 0.05, 1),
    Watched("files", "", 0.05, 100),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """What is used after so many submits."""

    submits: int
    amounts: Mapping[str, float]


def used_by(pid: int, data_directory: DataDirectory) -> dict[str, float]:
    """What a server uses now. Files are those beside the pods' output, whose number has a limit of its own."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    amounts = [
        int(status["VmRSS"].split()[0]) * KIB / MIB,
        int(status["Threads"]),
        len(os.listdir(f"/proc/{pid}/fd")),
        *(_size(each) / MIB for each in (data_directory.control, Path(f"{data_directory.control}-wal"))),
        *(_size(each) / MIB for each in (data_directory.ledger, Path(f"{data_directory.ledger}-wal"))),
        sum(len(files) + len(folders) for top, folders, files in _walk(data_directory.root) if "/logs" not in top),
    ]
    return dict(zip((each.name for each in WATCHED), amounts, strict=True))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    return ((top.removeprefix(str(root)), folders, files) for top, folders, files in os.walk(root))


def verdicts(samples: Sequence[Sample]) -> dict[str, tuple[float, float, bool]]:
    """Of each quantity: the median of the middle third, that of the last, and whether it is level."""
    third = len(samples) // 3
    found = {}
    for each in WATCHED:
        row = [sample.amounts[each.name] for sample in samples]
        middle, last = median(row[third : 2 * third]), median(row[2 * third :])
        found[each.name] = middle, last, last <= middle * (1 + each.part) + each.besides
    return found


# ---- what jobs go through


@dataclass
class Job:
    """One that was submitted, with what is still to be done to it."""

    id: str
    plan: list[str]
    """Phases to wait for and actions to do, in turn."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A job as it is submitted, and its plan."""

    command: str
    plan: str
    more: Mapping[str, object] = field(default_factory=dict)


STAYS = {"preemptibility": "non-preemptible"}
"""Else what was lent would come back by and by and move the jobs of the wave about: many moves, and few submits."""
KINDS = (
    Kind("echo done", "Completed delete"),
    Kind("sleep 1000", "Running delete"),
    Kind("echo done", "Completed log delete"),
    Kind("sleep 1000", "delete"),
    Kind("echo done", "", {"autoDeletionTimeAfterCompletionSeconds": 1}),
    Kind("exit 3", "Failed delete", {"backoffLimit": 0}),
    Kind("sleep 1000", "Running suspend Stopped resume Running delete"),
    Kind("sleep 1000", "Running shell delete"),
)


class Customers:
    """Those who use the platform, over HTTP."""

    def __init__(self, address: str, new_token: Callable[[], str]) -> None:
        self._address, self._new_token = address, new_token
        self.client = Client(address, new_token())
        self.counts: Counter[str] = Counter()
        self._names = itertools.count()
        for name, quota in (("owner", GPUS), ("borrower", 0)):
            body = {"name": name, "resources": [{"gpu": {"deserved": quota}}]}
            self.client.create_project(org.ProjectRequest.model_validate(body))

    def submit(self, project: str, command: str, gpu: str, more: Mapping[str, object]) -> str:
        """A training in a shell; its id."""
        spec = {"image": "ubuntu", "command": "sh", "args": f"-c '{command}'", "compute": {"gpu": gpu}, **more}
        body = {"name": f"{project}-{next(self._names)}", "projectId": project, "spec": spec}
        self.counts["submits"] += 1
        return self.client.submit(work.SubmitTraining.model_validate(body)).id

    def wave(self, jobs: int) -> None:
        """So many jobs from their submit until nothing is left of them; what was lent comes back meanwhile."""
        waiting = []
        for number in range(jobs):
            kind = KINDS[number % len(KINDS)]
            made = self.submit("owner", kind.command, str(GPUS / WAVE), {**STAYS, **kind.more})
            waiting.append(Job(made, kind.plan.split()))
        end = time.monotonic() + PATIENCE_S
        while waiting:
            assert time.monotonic() < end, f"waited in vain for {waiting}"
            phases = {each.id: str(each.phase) for each in self.client.all_workloads(filters=["projectName==owner"])}
            for job in waiting:
                self._go_on(job, phases)
            waiting = [job for job in waiting if job.plan or job.id in phases]
            time.sleep(LOOK_S)

    def _go_on(self, job: Job, phases: Mapping[str, str]) -> None:
        if not job.plan:
            return
        step = job.plan[0]
        if step[0].isupper():
            if phases.get(job.id) != step:
                return
        else:
            self.counts[step] += 1
            self._actions[step](job.id)
        job.plan.pop(0)

    @property
    def _actions(self) -> Mapping[str, Callable[[str], object]]:
        client = self.client
        return {
            "delete": client.delete_workload,
            "suspend": client.suspend,
            "resume": client.resume,
            "log": lambda job: b"".join(client.logs(job)),
            "shell": self._visit,
        }

    def _visit(self, job: str) -> None:
        try:
            with self.client.shell(job, ["echo", "here"]) as shell:
                while (frame := shell.receive(PATIENCE_S)) is not None:
                    assert frame.channel is not Channel.ERRORS, frame
        except WebSocketUpgradeError as refusal:
            if refusal.response.status_code not in MOVED:
                raise
            self.counts["visits refused"] += 1  # it was moved at this moment

    def come_anew(self) -> None:
        """A fresh login, which watches until something changes and leaves in the middle."""
        self.counts["logins"] += 1
        with Client(self._address, self._new_token()) as other:
            next(other.changes(after=1))


# ---- the run


def run(folder: Path, submits: int, *, history: str) -> tuple[list[Sample], Counter[str]]:
    """So many submits on one server; the samples, and what was done."""
    running = Running(folder)
    try:
        running.up("--nodes", f"2x{GPUS // 2}:V100-32GB", "--keep-history", history, "--keep-audit", history)
        pid = running.pid
        customers = Customers(running.status["address"], running.owner_token)
        lent = [customers.submit("borrower", "sleep 100000", "1", {}) for _ in range(GPUS)]
        every = max(1, submits // SAMPLES)
        samples: list[Sample] = []
        while customers.counts["submits"] < submits:
            customers.wave(min(WAVE, submits - customers.counts["submits"]))
            customers.come_anew()
            # A wave is long: several samples of it would be one, and a run of few waves is a test of this program.
            while len(samples) * every < customers.counts["submits"]:
                samples.append(Sample(customers.counts["submits"], used_by(pid, running.data_directory)))
            progress(f"{customers.counts['submits']} of {submits} submits: {_words(samples[-1])}")
        preemptions = sum(max(pod.incarnation for pod in customers.client.history(each)) for each in lent)
        customers.counts["preemptions"] = preemptions
        assert running.pid == pid, "it is one server"
    finally:
        running.clean_up()
    return samples, customers.counts


def _words(sample: Sample) -> str:
    return ", ".join(f"{each.name} {sample.amounts[each.name]:.{1 if each.unit else 0}f}" for each in WATCHED)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.longrun", description=__doc__.split("\n")[0])
    parser.add_argument("--submits", type=int, default=6000, metavar="N", help="default 6000")
    parser.add_argument("--history", default="30s", metavar="AGE", help="how long history is kept (default 30s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write one JSON object a line")
    options = parser.parse_args(arguments)
    setting = Setting.here()
    print(setting)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        samples, counts = run(Path(folder) / "data", options.submits, history=options.history)
    took_s = time.monotonic() - began
    print(f"{took_s:.0f} s: " + ", ".join(f"{counts[each]} {each}" for each in sorted(counts)))
    line = Line("longrun", {"submits": options.submits, "history": options.history}, options.submits)
    line.metrics = {"wall_s": round(took_s, 1), **{name.replace(" ", "_"): count for name, count in counts.items()}}
    print(f"{'':18} {'at first':>9} {'middle':>9} {'last':>9}")
    for each, (middle, last, is_level) in zip(WATCHED, verdicts(samples).values(), strict=True):
        first = samples[0].amounts[each.name]
        digits = 2 if each.unit else 0
        words = "level" if is_level else f"NOT LEVEL: more than {each.part:.0%} and {each.besides:g} {each.unit} above"
        print(f"{each.name:18} {first:9.{digits}f} {middle:9.{digits}f} {last:9.{digits}f}  {each.unit:3}  {words}")
        name = each.name.replace(" ", "_")
        line.metrics |= {
            f"{name}_{when}": round(value, 3) for when, value in (("first", first), ("middle", middle), ("last", last))
        }
        if not is_level:
            line.faults.append(f"{each.name} is not level")
    if options.json:
        options.json.write_text(f"{line.as_json('longrun', setting)}\n")
    return 1 if line.faults else 0


if __name__ == "__main__":
    sys.exit(main())
