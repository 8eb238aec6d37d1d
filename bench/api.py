"""The control plane under load: requests a second and what each costs, beside an endpoint that does nothing.

    python -m bench.api [--case NAME ...] [--size WORKLOADS] [--seconds S] [--database URL] [--json FILE]

A server of its own process, on a file or an empty database of PostgreSQL, with every commit on disk, with workloads in
100 projects on 500 nodes; the load comes from this process over 64 connections: first each asks again as soon as it is
answered, which shows the highest rate; then requests arrive at half that rate, at random moments and whether earlier
ones are answered or not, which shows what a user waits. `deleting` deletes all workloads in batches while others read.
When all is measured the server is killed, and what it had acknowledged must be in the database.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench._api_server import EMPTY
from bench._load import Address, Ask, Heard, Load, Stream
from bench._report import Column, Line, Setting, Table, progress
from bench._server import Server, cpu_s, end_in_good_order
from bench._stopwatch import p99
from fairpool.api import organization as org
from fairpool.api.client import Client
from fairpool.api.cluster_client import ClusterClient
from fairpool.api.clusters import NodeReport, PodReport, PushReport, WorkloadReport
from fairpool.model.ids import Instant, NodeName, PodId, PoolName, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.status import WorkloadPhase
from fairpool.platform.database_place import DatabasePlace
from fairpool.platform.database_work import examine

CONNECTIONS = 64
STREAMS = 200
CHURN_NODES = 1000
PAGE = 50
BATCH = 500
READS_A_SECOND = 50.0
CHURN_ALONE_S = 10.0
REPORTED_AT_ONCE = 200
"""As many rows as PostgreSQL takes in on a busy machine before a cluster gives up."""
COLUMNS = (
    Column("req/s", 9, "requests_per_s"),
    Column("of empty", 10, "percent_of_empty"),
    Column("p50", 9, "median_s", is_time=True),
    Column("p99", 9, "p99_s", is_time=True),
    Column("p99 half", 10, "half_rate_p99_s", is_time=True),
    Column("max half", 10, "half_rate_max_s", is_time=True),
    Column("CPU each", 10, "cpu_s_each", is_time=True),
    Column("of empty", 10, "cpu_ratio_to_empty"),
    Column("load", 6, "load_average"),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is in the store."""

    workloads: int = 10_000
    projects: int = 100
    nodes: int = 500


class Store:
    """A server with a filled store, and requests to it."""

    def __init__(self, folder: Path, size: Size, database: str = "") -> None:
        """`database`: the address of an empty one; without it, a file in the folder."""
        self.size, self._database = size, DatabasePlace(database, folder / "control.sqlite")
        self.server = Server("bench._api_server", str(folder), *filter(None, [database]))
        try:
            hello = self.server.hello
            root = f"http://127.0.0.1:{hello['port']}"
            with Client(root, hello["token"]) as client:
                self.address = Address("127.0.0.1", hello["port"], str(client.token))
                for number in range(size.projects):
                    body = {"name": f"team-{number:03d}", "resources": [{"gpu": {"deserved": 8}}]}
                    client.create_project(org.ProjectRequest.model_validate(body))
            self._dice = random.Random(1)
            self._numbers = itertools.count()
            self.acknowledged = 0
            self.ids = self._submit_all()
            self._report_all(ClusterClient(root, hello["cluster_token"]), hello["cluster"])
        except BaseException:
            self.server.kill()
            raise

    def _submit_all(self) -> list[str]:
        load = Load(self.address, 32, keep=True)
        heard = load.at_full_speed(itertools.islice(self.submits(), self.size.workloads), 3600)
        load.close()
        assert not heard.faults, heard.faults[:3]
        self.acknowledged += heard.count
        return [json.loads(body)["id"] for body in heard.bodies]

    def _report_all(self, cluster: ClusterClient, name: str) -> None:
        """Half of them run, the others wait."""
        now = Instant(time.time_ns() // 1_000_000)
        nodes = [f"node-{number:03d}" for number in range(self.size.nodes)]
        levels = [level(each, nodes[number % len(nodes)], number, now) for number, each in enumerate(self.ids)]
        reported = tuple(NodeReport(name=NodeName(each), pool=PoolName("default"), gpus=8) for each in nodes)
        for number, first in enumerate(range(0, max(len(levels), len(nodes)), REPORTED_AT_ONCE), 1):
            report = PushReport(
                cluster=name,
                token=Token(1),
                number=number,
                after=number - 1,
                at=now,
                workloads=tuple(levels[first : first + REPORTED_AT_ONCE]),
                nodes=reported[first : first + REPORTED_AT_ONCE],
            )
            assert cluster.push(report).taken
        cluster.close()

    # --- requests ---

    def empties(self) -> Iterator[Ask]:
        return itertools.repeat(Ask("empty", self.address.request("GET", EMPTY)))

    def gets(self) -> Iterator[Ask]:
        while True:
            yield Ask("get", self.address.request("GET", f"/api/v1/workloads/{self._dice.choice(self.ids)}"))

    def pages(self) -> Iterator[Ask]:
        while True:
            offset = PAGE * self._dice.randrange(max(1, self.size.workloads // (10 * PAGE)))
            query = f"filterBy=phase==Running&sortBy=name&sortOrder=asc&limit={PAGE}&offset={offset}"
            yield Ask("page", self.address.request("GET", f"/api/v1/workloads?{query}"))

    def counts(self) -> Iterator[Ask]:
        return itertools.repeat(Ask("count", self.address.request("GET", "/api/v1/workloads/count")))

    def submits(self) -> Iterator[Ask]:
        """With a key, as our client sends them."""
        for number in self._numbers:
            name = f"job-{number:06d}"
            spec = {"image": "python", "command": "python", "args": "-c pass", "compute": {"gpu": "0.5"}}
            body = {"name": name, "projectId": f"team-{number % self.size.projects:03d}", "spec": spec}
            text = json.dumps(body).encode()
            yield Ask("submit", self.address.request("POST", "/api/v1/workloads/trainings", text, key=name), 202)

    def mixed(self) -> Iterator[Ask]:
        """90 % one workload, 9 % pages, 1 % submits."""
        gets, pages, submits = self.gets(), self.pages(), self.submits()
        dice = random.Random(2)
        while True:
            chance = dice.random()
            yield next(gets if chance < 0.9 else pages if chance < 0.99 else submits)

    def deletes(self) -> Iterator[Ask]:
        """All workloads that were there from the start, in batches as large as the API takes them."""
        for first in range(0, len(self.ids), BATCH):
            body = json.dumps({"ids": self.ids[first : first + BATCH], "action": "delete"}).encode()
            yield Ask("delete", self.address.request("POST", "/api/v1/workloads/batch", body))

    # --- outcome ---

    def kill_and_count(self) -> list[str]:
        """What was acknowledged survives a kill."""
        self.server.kill()
        kept = next(each.rows for each in examine(self._database).tables if each.table == "workloads")
        return [] if kept >= self.acknowledged else [f"{self.acknowledged} were acknowledged and {kept} are there"]


def level(workload: str, node: str, number: int, now: Instant) -> WorkloadReport:
    runs = number % 2 == 0
    pod = PodReport(
        id=PodId(f"{workload}-0-0"),
        index=0,
        incarnation=0,
        phase=PodPhase.RUNNING if runs else PodPhase.WAITING,
        node=NodeName(node) if runs else None,
        started_at=now if runs else None,
    )
    return WorkloadReport(
        id=WorkloadId(workload),
        phase=WorkloadPhase.RUNNING if runs else WorkloadPhase.PENDING,
        pool=PoolName("default"),
        gpus_milli=500 if runs else 0,
        pods=(pod,),
        since=now,
    )


# --- cases ---------------------------------------------------------------------------------------------------

Case = Callable[[Store, float], Line]
ASKS: dict[str, Callable[[Store], Iterator[Ask]]] = {
    "empty": Store.empties,
    "get": Store.gets,
    "page": Store.pages,
    "count": Store.counts,
    "submit": Store.submits,
    "mixed": Store.mixed,
}


def plain(store: Store, case: str, asks: Iterator[Ask], seconds: float, streams: Sequence[Stream] = ()) -> Line:
    """One kind of request, or a mix of them, at full speed."""
    load = Load(store.address, CONNECTIONS, streams)
    cpu = cpu_s(store.server.pid)
    heard = load.at_full_speed(asks, seconds)
    line = Line(case, {"connections": CONNECTIONS, "seconds": seconds}, store.size.workloads)
    line.metrics = figures(heard, cpu_s(store.server.pid) - cpu)
    line.faults = [f"{len(heard.faults)} errors: {heard.faults[0]}"] if heard.faults else []
    submitted = len(heard.latencies.get("submit", ()))
    store.acknowledged += submitted
    if streams and not load.listen(60, lambda: all(stream.events >= submitted for stream in streams)):
        least = min(stream.events for stream in streams)
        line.faults.append(f"a stream heard of {least} changes where {submitted} workloads were submitted")
    load.close()
    return line


def arriving(asks: Iterator[Ask], rate: float, seconds: float) -> list[Ask]:
    """Requests at random moments, so many a second on average: users do not wait for each other."""
    dice, at, found = random.Random(3), 0.0, []
    while (at := at + dice.expovariate(rate)) < seconds:
        found.append(replace(next(asks), at=at))
    return found


def at_half_rate(store: Store, line: Line, asks: Iterator[Ask], seconds: float) -> None:
    """Add what a request waits while the server is half busy."""
    due = arriving(asks, line.metrics["requests_per_s"] / 2, seconds)
    if not due:
        return
    load = Load(store.address, 4 * CONNECTIONS)
    heard = load.by_timetable(due, lambda: True, 60)
    load.close()
    store.acknowledged += len(heard.latencies.get("submit", ()))
    times = heard.all_latencies()
    line.metrics |= {"half_rate_p99_s": p99(times), "half_rate_max_s": max(times), "half_rate_samples": len(times)}
    line.faults += [f"{len(heard.faults)} errors at half rate: {heard.faults[0]}"] if heard.faults else []


def deleting(store: Store, seconds: float) -> Line:
    """Reads at a steady rate while everything is deleted: the longest that one of them waits."""
    batches = list(store.deletes())
    reads = arriving(store.pages(), READS_A_SECOND, seconds)
    load = Load(store.address, CONNECTIONS)
    cpu = cpu_s(store.server.pid)
    heard = load.by_timetable(sorted([*batches, *reads], key=lambda ask: ask.at), lambda: True, 120)
    load.close()
    line = Line("deleting", {"batch": BATCH, "reads_per_s": READS_A_SECOND}, store.size.workloads)
    line.metrics = figures(heard, cpu_s(store.server.pid) - cpu)
    reads_s = heard.latencies.get("page", [0.0])
    line.metrics |= {"half_rate_p99_s": p99(reads_s), "half_rate_max_s": max(reads_s), "max_read_s": max(reads_s)}
    line.faults = [f"{len(heard.faults)} errors: {heard.faults[0]}"] if heard.faults else []
    return line


def figures(heard: Heard, cpu: float) -> dict[str, float]:
    times = heard.all_latencies()
    by_kind = {f"{kind}_p99_s": p99(some) for kind, some in heard.latencies.items() if len(heard.latencies) > 1}
    return {
        **by_kind,
        "requests_per_s": round(heard.count / heard.took_s, 1),
        "median_s": statistics.median(times),
        "p99_s": p99(times),
        "max_s": max(times),
        "cpu_s_each": cpu / heard.count,
        "samples": heard.count,
        "errors": len(heard.faults),
        "load_average": round(os.getloadavg()[0], 1),
    }


def watched(store: Store, seconds: float) -> Line:
    """The mix, with streams of changes open beside it."""
    streams = [Stream(store.address) for _ in range(STREAMS)]
    load = Load(store.address, 0, streams)
    assert load.listen(60, lambda: all(stream.is_open for stream in streams)), "not all streams opened"
    load.close()
    try:
        return plain(store, "watched", store.mixed(), seconds, streams)
    finally:
        for stream in streams:
            stream.socket.close()


def beside_churn(store: Store, seconds: float) -> Line:
    """The mix, while the scheduler plans in the same process."""
    store.server.say(f"churn {CHURN_NODES}")
    time.sleep(min(seconds, CHURN_ALONE_S))
    alone = store.server.say("rest")["cycles"]
    store.server.say(f"churn {CHURN_NODES}")
    line = plain(store, "beside-churn", store.mixed(), seconds)
    beside = store.server.say("rest")["cycles"]
    line.metrics |= {
        "cycle_alone_median_s": statistics.median(alone),
        "cycle_alone_max_s": max(alone),
        "cycle_median_s": statistics.median(beside),
        "cycle_max_s": max(beside),
        "cycles": len(beside),
    }
    return line


def measured(store: Store, cases: Sequence[str], seconds: float) -> Iterator[Line]:
    """The empty endpoint first: the others are told as a part of it."""
    empty: dict[str, float] = {}
    for case in cases:
        progress(case)
        if case in ASKS:
            plain(store, case, ASKS[case](store), min(1.0, seconds))  # warm
            line = plain(store, case, ASKS[case](store), seconds)
            at_half_rate(store, line, ASKS[case](store), seconds)
        else:
            line = OTHERS[case](store, seconds)
        empty = empty or line.metrics
        line.metrics["percent_of_empty"] = 100 * line.metrics["requests_per_s"] / empty["requests_per_s"]
        line.metrics["cpu_ratio_to_empty"] = line.metrics["cpu_s_each"] / max(empty["cpu_s_each"], 1e-9)
        line.metrics["peak_mib"] = store.server.say("memory")["peak_mib"]
        yield line


OTHERS: dict[str, Case] = {"watched": watched, "beside-churn": beside_churn, "deleting": deleting}
CASES = (*ASKS, *OTHERS)


def run(
    cases: Sequence[str], size: Size, seconds: float, show: Callable[[Line], None], database: str = ""
) -> list[Line]:
    """All cases on one store, which is judged in the end."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        progress(f"filling a store with {size.workloads} workloads")
        store = Store(Path(folder), size, database)
        try:
            for line in measured(store, cases, seconds):
                show(line)
                lines.append(line)
            lines[-1].faults += store.kill_and_count()
        finally:
            store.server.kill()
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.api", description=__doc__.split("\n")[0])
    parser.add_argument("--case", action="extend", nargs="+", default=[], choices=CASES, metavar="NAME")
    parser.add_argument("--size", type=int, default=10_000, metavar="N", help="workloads in the store (default 10000)")
    parser.add_argument("--seconds", type=float, default=15.0, metavar="S", help="each case (default 15)")
    parser.add_argument("--database", default="", metavar="URL", help="an empty PostgreSQL database (default: a file)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write one JSON object a line")
    options = parser.parse_args(arguments)
    end_in_good_order()
    setting = Setting.here()
    print(setting)
    table = Table(COLUMNS, "rows", 14)
    table.head()
    cases = [case for case in CASES if case == "empty" or not options.case or case in options.case]

    def show(line: Line) -> None:
        table.add(line, "; ".join(line.faults))

    lines = run(cases, Size(options.size), options.seconds, show, options.database)
    if options.json:
        options.json.write_text("".join(f"{line.as_json('api', setting)}\n" for line in lines))
    faults = [fault for line in lines for fault in line.faults]
    print("\n".join(faults) or "everything that was acknowledged survived the kill")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
