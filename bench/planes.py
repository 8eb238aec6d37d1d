"""Two control planes on one PostgreSQL database: how soon one wakes who waits at the other, and what open streams cost.

    python -m bench.planes [--clients N] [--rate R] [--seconds S] [--submits N] [--database URL] [--json FILE]

Two processes of `fairpool control`. `wake`: a cluster holds a pull at one of them while a workload is submitted at the
other. `streams`: clients, each an application with a token of its own that may see one project, have a stream of
changes open, half of them at each process, while workloads are submitted at the first. What a client missed, saw twice,
saw out of order or should not have seen makes the command fail.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import pytest

from bench._load import Address, Ask, Load, Stream
from bench._report import Column, Line, Setting, Table, progress
from bench._server import cpu_s, end_in_good_order, resident_mib
from bench._stopwatch import p99
from fairpool.api.client import Client
from fairpool.api.cluster_client import ClusterClient
from fairpool.api.clusters import PullAnswer
from fairpool.api.workload_spec import SubmitTraining
from fairpool.model.ids import Revision
from tests.postgresql import PostgresServer
from tests.two_programs import ControlProcess, two_controls

CLUSTER = "far"
GOAL_S = 0.1
"""Until a pull is woken."""
PULL_S = 19.0
HELD_S = 0.1
"""So long after it was asked, a pull is held."""
CONNECTIONS = 16
OPENED_AT_ONCE = 100
PATIENCE_S = 120.0
REST_S = 2.0
STREAMS = ("streams, same", "streams, other")
"""At the process where workloads are submitted, and at the other."""
COLUMNS = (
    Column("p50", 9, "median_s", is_time=True),
    Column("p99", 9, "p99_s", is_time=True),
    Column("max", 9, "max_s", is_time=True),
    Column("events", 9, "events"),
    Column("KiB open", 10, "open_kib_each"),
    Column("KiB after", 11, "used_kib_each"),
    Column("CPU change", 12, "cpu_s_each_change", is_time=True),
    Column("load", 6, "load_average"),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is asked of them."""

    submits: int = 100
    """While a pull is held, one after the other."""
    clients: int = 400
    projects: int = 10
    rate: float = 2.0
    """Changes a second while streams are open."""
    seconds: float = 15.0


class Planes:
    """Both processes with a cluster and projects, and requests to them."""

    def __init__(self, processes: Sequence[ControlProcess], projects: int) -> None:
        self.pids = [each.pid for each in processes]
        tokens = [each.owner_token() for each in processes]
        self.roots = [each.address for each in processes]
        self.administrators = [Client(*each) for each in zip(self.roots, tokens, strict=True)]
        self.addresses = [self.address(number, token) for number, token in enumerate(tokens)]
        self.cluster_token = self.administrators[0].create_cluster({"name": CLUSTER}).token
        self.projects = [f"team-{number:03d}" for number in range(projects)]
        for name in self.projects:
            self.administrators[0].create_project({"name": name, "clusterId": CLUSTER})

    def memory_mib(self) -> list[float]:
        return [resident_mib(pid) for pid in self.pids]

    def address(self, process: int, token: str) -> Address:
        return Address("127.0.0.1", int(self.roots[process].rpartition(":")[2]), token)

    def asked(self, method: str, path: str, bodies: Iterable[object], status: int) -> list[dict[str, str]]:
        """The answers of the first process to these requests, in the order in which they came."""
        load = Load(self.addresses[0], CONNECTIONS, keep=True)
        requests = (self.addresses[0].request(method, path, json.dumps(each).encode()) for each in bodies)
        heard = load.at_full_speed((Ask(path, each, status) for each in requests), 3600)
        load.close()
        assert not heard.faults, heard.faults[:3]
        return [json.loads(each) for each in heard.bodies]

    def tokens(self, project: str, count: int) -> list[str]:
        """Of as many applications that may see one project."""
        names = [f"{project}-client-{number}" for number in range(count)]
        made = self.asked("POST", "/api/v1/apps", ({"name": each} for each in names), 201)
        scope = {"subjectType": "app", "roleId": "viewer", "scopeType": "project", "scopeId": project}
        rules = ({"subjectId": each["id"], **scope} for each in made)
        self.asked("POST", "/api/v1/authorization/access-rules", rules, 201)
        secrets = ({"clientId": each["clientId"], "clientSecret": each["secret"]} for each in made)
        grants = ({"grantType": "client_credentials", **each} for each in secrets)
        return [each["accessToken"] for each in self.asked("POST", "/api/v1/token", grants, 200)]


def training(name: str, project: str) -> dict[str, object]:
    spec = {"image": "python", "command": "python", "args": "-c pass", "compute": {"gpu": "0.5"}}
    return {"name": name, "projectId": project, "spec": spec}


# --- a pull that is held -------------------------------------------------------------------------------------


def wakes(planes: Planes, submits: int) -> Line:
    """Submit at one process and hold a pull at the other, by turns."""
    line = Line("wake", {"submits": submits}, submits)
    clusters = [ClusterClient(root, planes.cluster_token) for root in planes.roots]
    seen = clusters[0].pull(Revision(0), 0.0).revision
    took, beyond = [], []
    with ThreadPoolExecutor(1) as thread:
        for number in range(submits):
            one, other = number % 2, 1 - number % 2
            holding = thread.submit(_pulled, clusters[other], seen)
            time.sleep(HELD_S)
            began = time.perf_counter()
            asked = SubmitTraining.model_validate(training(f"wake-{number}", planes.projects[0]))
            made = planes.administrators[one].submit(asked)
            answered = time.perf_counter()
            answer, woken = holding.result()
            seen = answer.revision
            took.append(woken - began)
            beyond.append(max(0.0, woken - answered))
            if [each.id for each in answer.workloads] != [made.id]:
                line.faults.append(f"the pull during submit {number} has {len(answer.workloads)} other workloads")
    for each in clusters:
        each.close()
    line.metrics = times(took) | {
        "after_answer_median_s": statistics.median(beyond),
        "after_answer_p99_s": p99(beyond),
        "over_goal": sum(each > GOAL_S for each in took),
    }
    return line


def _pulled(cluster: ClusterClient, after: Revision) -> tuple[PullAnswer, float]:
    """What a held pull is answered, and when."""
    return cluster.pull(after, PULL_S), time.perf_counter()


def times(took: Sequence[float]) -> dict[str, float]:
    return {
        "median_s": statistics.median(took),
        "p99_s": p99(took),
        "max_s": max(took),
        "events": len(took),
        "load_average": round(os.getloadavg()[0], 1),
    }


# --- streams -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Listener:
    """A client with an open stream, and what it was told about workloads."""

    process: int
    project: str
    heard: list[tuple[int, str, float]] = field(default_factory=list)
    """Revision, workload and moment."""
    faults: list[str] = field(default_factory=list)
    _revision: int = -1

    def hear(self, event: bytes, now: float) -> None:
        """One event, or one that only says how far the stream has come."""
        _, mark, text = event.partition(b"id: ")
        if not mark:
            return
        revision = int(text.partition(b"\n")[0])
        if b"\nevent: " in event and revision <= self._revision:
            self.faults.append(f"revision {revision} came after {self._revision}")
        self._revision = max(revision, self._revision)
        if b"\nevent: workload\n" in event:
            workload = text.partition(b'"id":"')[2].partition(b'"')[0].decode()
            self.heard.append((revision, workload, now))
        elif b"\nevent: reset\n" in event:
            self.faults.append("the stream was reset")

    def wrong(self, submitted: Mapping[str, str]) -> list[str]:
        """What it should have been told and was not, or the reverse. `submitted`: the project of each workload."""
        seen = [workload for _, workload, _ in self.heard]
        expected = {workload for workload, project in submitted.items() if project == self.project}
        counted = {
            "missed": len(expected.difference(seen)),
            "not its own": sum(each not in expected for each in seen),
            "told twice": len(seen) - len(set(seen)),
        }
        return self.faults + [f"{count} workloads {what}" for what, count in counted.items() if count]


@dataclass(slots=True)
class Watched:
    """Streams that are open, and the memory of both processes before and after they were opened."""

    listeners: list[Listener]
    streams: list[Stream]
    before_mib: list[float]
    open_mib: list[float]
    open_s: float


@contextmanager
def watching(planes: Planes, clients: int) -> Iterator[Watched]:
    """Each client signs in, then the streams are opened, a few at a time."""
    owners = [
        (project, token)
        for number, project in enumerate(planes.projects)
        for token in planes.tokens(project, len(range(number, clients, len(planes.projects))))
    ]
    listeners = [Listener(number % 2, project) for number, (project, _) in enumerate(owners)]
    streams: list[Stream] = []

    def open_some(numbers: Iterable[int]) -> None:
        for number in numbers:
            listener, (_, token) = listeners[number], owners[number]
            streams.append(Stream(planes.address(listener.process, token), listener.hear))
        load = Load(planes.addresses[0], 0, streams)
        assert load.listen(PATIENCE_S, lambda: all(each.is_open for each in streams)), "not all streams opened"
        load.close()

    try:
        open_some(range(2))  # what is loaded for the first stream is not counted
        before_mib = planes.memory_mib()
        began = time.perf_counter()
        for first in range(2, clients, OPENED_AT_ONCE):
            open_some(range(first, min(clients, first + OPENED_AT_ONCE)))
        open_s = time.perf_counter() - began
        time.sleep(REST_S)
        yield Watched(listeners, streams, before_mib, planes.memory_mib(), open_s)
    finally:
        for each in streams:
            each.socket.close()


@dataclass(slots=True)
class Submissions:
    """What was submitted while streams were open, and what it cost each process."""

    project: Mapping[str, str]
    """By the id of the workload."""
    due: Mapping[str, float]
    """When each was to be submitted."""
    latencies: Sequence[float]
    faults: list[str]
    cpu_s_each: list[float]
    used_mib: list[float]


def streamed(planes: Planes, size: Size) -> list[Line]:
    """Submit at the first process at a steady rate while clients listen: a line for the listeners at each process."""
    with watching(planes, size.clients) as watched:
        progress(f"changes for {size.clients} streams")
        changes = submitted(planes, watched, size)
    params = {"clients": size.clients, "projects": size.projects, "rate": size.rate, "seconds": size.seconds}
    return [_judged(Line(case, params, 0), number, watched, changes) for number, case in enumerate(STREAMS)]


def submitted(planes: Planes, watched: Watched, size: Size) -> Submissions:
    """All changes, until every listener was told."""
    home = {f"stream-{number:05d}": project for number, project in zip(_numbers(size), cycle(planes.projects))}
    due = {name: number / size.rate for number, name in enumerate(home)}
    asks = [Ask("submit", _submit(planes.addresses[0], name, home[name]), 202, due[name]) for name in home]
    wanted = Counter(home.values())
    cpu, faults = [cpu_s(pid) for pid in planes.pids], []
    load = Load(planes.addresses[0], CONNECTIONS, watched.streams, keep=True)
    try:
        load.by_timetable(
            asks, lambda: all(len(each.heard) >= wanted[each.project] for each in watched.listeners), PATIENCE_S
        )
        load.listen(REST_S, lambda: False)  # whether something comes twice
    except (ConnectionError, AssertionError) as error:
        faults.append(f"a stream broke: {error}")
    load.close()
    made = [each for each in map(json.loads, load.heard.bodies) if "id" in each]
    return Submissions(
        {each["id"]: home[each["name"]] for each in made},
        {each["id"]: load.heard.began + due[each["name"]] for each in made},
        load.heard.all_latencies(),
        [*faults, *load.heard.faults[:3]],
        [(cpu_s(pid) - before) / len(asks) for pid, before in zip(planes.pids, cpu, strict=True)],
        planes.memory_mib(),
    )


def _judged(line: Line, process: int, watched: Watched, changes: Submissions) -> Line:
    there = [each for each in watched.listeners if each.process == process]
    wrong = [fault for each in there for fault in each.wrong(changes.project)]
    took = [at - changes.due[workload] for each in there for _, workload, at in each.heard if workload in changes.due]
    before_mib, line.size = watched.before_mib[process], len(there)
    line.faults = [*changes.faults, *([f"{len(wrong)} faults: {wrong[0]}"] if wrong else [])]
    line.metrics = times(took or [math.nan]) | {
        "submit_median_s": statistics.median(changes.latencies),
        "submit_p99_s": p99(changes.latencies),
        "cpu_s_each_change": changes.cpu_s_each[process],
        "open_s": watched.open_s,
        "before_mib": before_mib,
        "open_kib_each": 1024 * (watched.open_mib[process] - before_mib) / max(1, len(there) - 1),
        "used_kib_each": 1024 * (changes.used_mib[process] - before_mib) / max(1, len(there) - 1),
    }
    return line


def _numbers(size: Size) -> range:
    return range(max(1, int(size.rate * size.seconds)))


def _submit(address: Address, name: str, project: str) -> bytes:
    body = json.dumps(training(name, project)).encode()
    return address.request("POST", "/api/v1/workloads/trainings", body, key=name)


# --- command -------------------------------------------------------------------------------------------------


def run(size: Size, database: str, show: Callable[[Line], None]) -> list[Line]:
    """`database`: the address of an empty one."""
    with tempfile.TemporaryDirectory() as folder, two_controls(Path(folder), database) as processes:
        planes = Planes(processes, size.projects)
        progress(f"{size.submits} submits while a pull is held")
        lines = [wakes(planes, size.submits)]
        show(lines[0])
        progress(f"opening {size.clients} streams")
        for line in streamed(planes, size):
            show(line)
            lines.append(line)
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.planes", description=__doc__.split("\n")[0])
    usual = Size()
    parser.add_argument("--clients", type=int, default=usual.clients, metavar="N", help="streams (default 400)")
    parser.add_argument("--projects", type=int, default=usual.projects, metavar="N", help="they see (default 10)")
    parser.add_argument("--rate", type=float, default=usual.rate, metavar="R", help="changes a second (default 2)")
    parser.add_argument("--seconds", type=float, default=usual.seconds, metavar="S", help="of changes (default 15)")
    parser.add_argument("--submits", type=int, default=usual.submits, metavar="N", help="that wake (default 100)")
    parser.add_argument("--database", default="", metavar="URL", help="empty (default: starts a PostgreSQL server)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write one JSON object a line")
    options = parser.parse_args(arguments)
    if min(options.clients, 2 * options.projects, 2 * options.submits, 2 * options.rate) < 2:
        parser.error("at least two clients, one project, one submit and one change a second are needed")
    end_in_good_order()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # one for each stream, here and in the processes
    size = Size(options.submits, options.clients, options.projects, options.rate, options.seconds)
    setting = Setting.here()
    print(setting)
    table = Table(COLUMNS, "size", 16)
    table.head()
    with ExitStack() as stack:
        try:
            database = options.database or stack.enter_context(_started_server())
        except pytest.skip.Exception as missing:
            print(f"not measured: {missing.msg}")
            return 0
        lines = run(size, database, lambda line: table.add(line, "; ".join(line.faults)))
    if options.json:
        options.json.write_text("".join(f"{line.as_json('planes', setting)}\n" for line in lines))
    faults = [fault for line in lines for fault in line.faults]
    print("\n".join(faults) or "every client was told every change that it may see, once and in order")
    return 1 if faults else 0


@contextmanager
def _started_server() -> Iterator[str]:
    """A PostgreSQL server with every commit on disk: the address of its database."""
    server = PostgresServer()
    try:
        server.start()
        yield server.url()
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
