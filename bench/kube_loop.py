"""The loop on Kubernetes with a large cluster: memory, idle cycles, and pods that end and start all the time.

    python -m bench.kube_loop [--nodes N] [--running N] [--waiting N] [--churn N] [--seconds S] [--json FILE]

Loop, ledger (a file) and Kubernetes engine are the real ones, in this process; the control plane is in memory, and its
memory is counted too. The API server is a stand-in (`_stand_in_server.py`): what is measured is the loop, not etcd.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

from bench._report import Column, Line, Setting, Table, progress
from bench._server import Server, cpu_s, end_in_good_order, resident_mib
from bench._stopwatch import p99
from bench.loop import ONE_GPU as SHAPE
from bench.loop import BesideLink, LevelledControl
from fairpool.cluster import loop as loop_module
from fairpool.cluster.ledger import Ledger
from fairpool.cluster.loop import Loop
from fairpool.engines.kubernetes.credentials import ApiServer, Credentials, Identification
from fairpool.engines.kubernetes.engine import KubernetesEngine
from fairpool.model.ids import QueueId, Revision, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.organization import Organization, Queue, gpu_entitlement
from fairpool.model.spec import Arrangement, Program, WorkloadSpec
from fairpool.platform.loop_thread import now

TEAM = QueueId("team")
ONE_GPU = replace(SHAPE, program=Program(image="ubuntu"))
PATIENCE_S = 600.0
QUIET_S = 0.5
COLUMNS = (
    Column("pods", 8, "pods"),
    Column("median", 10, "median_s", is_time=True),
    Column("p99", 10, "p99_s", is_time=True),
    Column("max", 10, "max_s", is_time=True),
    Column("cycles", 7, "samples"),
    Column("calls", 8, "calls"),
    Column("CPU", 9, "cpu_s", is_time=True),
    Column("MiB", 7, "memory_mib"),
)


class Cluster:
    """A full cluster with its loop."""

    def __init__(self, folder: Path, nodes: int, running: int, waiting: int) -> None:
        self.server = Server("bench._stand_in_server", str(nodes), str(running // nodes))
        where = f"http://127.0.0.1:{self.server.hello['port']}"
        access = Credentials(lambda _rejected: Identification(token="bench"))
        self.engine = KubernetesEngine(ApiServer(where, access), namespace="fairpool")
        self.control = LevelledControl(now)
        team = Queue(id=TEAM, gpu=gpu_entitlement(running * 1000))
        self.control.declare(Organization(queues={DEFAULT_POOL: (team,)}))
        self.submitted = 0
        for _ in range(nodes):
            self.submit(running // nodes)
        for _ in range(waiting):
            self.submit(1)
        self.ledger = Ledger(folder / "ledger.db")
        self.link = BesideLink(self.control, "bench")
        self.loop = Loop(self.ledger, self.engine, self.link, now)
        with mock.patch.object(
            loop_module, "ACT_S", PATIENCE_S
        ):  # all starts in one cycle: to fill it is not the point
            self.filling = self.until(lambda: self.running() >= running)
        self.settle()

    def submit(self, pods: int) -> None:
        self.submitted += 1
        name = f"job-{self.submitted:06d}"
        spec = WorkloadSpec(
            id=WorkloadId(name),
            name=name,
            project=TEAM,
            created_at=now(),
            template=ONE_GPU,
            arrangement=Arrangement.SWEEP,
            pods=pods,
        )
        refused = self.control.submit(spec)
        assert refused is None, refused

    def turn(self) -> float:
        """One cycle, and what the threads of a link do, which is not measured."""
        began = time.perf_counter()
        self.loop.run_cycle()
        took_s = time.perf_counter() - began
        self.link.exchange(now(), self.loop.cache.cursor or Revision(0), self.loop.token)
        return took_s

    def until(self, is_so: Callable[[], bool], sleep_s: float = 0.05) -> list[float]:
        """The times of the cycles until it is so."""
        times: list[float] = []
        end = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < end, "it did not become so"
            times.append(self.turn())
            self.engine.wait(sleep_s)
        return times

    def settle(self) -> None:
        """Until nothing has happened for a while."""
        calls, since = self.calls(), time.monotonic()
        while time.monotonic() - since < QUIET_S:
            self.turn()
            self.engine.wait(0.05)
            if (now_calls := self.calls()) != calls:
                calls, since = now_calls, time.monotonic()
        gc.collect()
        gc.freeze()

    def running(self) -> int:
        return sum(pod.phase is PodPhase.RUNNING for pods in self.loop.cache.pods.values() for pod in pods)

    def calls(self) -> int:
        return int(self.server.say("calls")["calls"])

    def close(self) -> None:
        self.engine.close()
        self.ledger.close()
        self.server.kill()

    # --- what is measured: the times of cycles

    def idle(self, cycles: int) -> list[float]:
        return [self.turn() for _ in range(cycles)]

    def churn(self, each_s: int, seconds: float) -> list[float]:
        """So many pods end each second, and others start."""
        times: list[float] = []
        for _ in range(round(each_s * seconds)):
            self.submit(1)
        end, due = time.monotonic() + seconds, time.monotonic()
        while time.monotonic() < end:
            if time.monotonic() >= due:
                self.server.say(f"end {each_s}")
                due += 1.0
            times.append(self.turn())
            self.engine.wait(max(0.0, due - time.monotonic()))
        return times


def measured(options: argparse.Namespace) -> list[Line]:
    """All cases at one size."""
    progress(f"{options.nodes} nodes, {options.running} pods: filling")
    with tempfile.TemporaryDirectory() as folder:
        began, used = time.monotonic(), cpu_s(os.getpid())
        cluster = Cluster(Path(folder), options.nodes, options.running, options.waiting)
        try:
            lines = [_line(options, cluster, "fill", cluster.filling, cluster.calls(), cpu_s(os.getpid()) - used)]
            lines[0].metrics["pods_per_s"] = options.running / (time.monotonic() - began)
            cases: list[tuple[str, Callable[[], list[float]]]] = [
                ("idle", lambda: cluster.idle(options.cycles)),
                (f"churn-{options.churn}/s", lambda: cluster.churn(options.churn, options.seconds)),
            ]
            for name, work in cases:
                progress(f"{options.nodes} nodes, {options.running} pods: {name}")
                calls, used = cluster.calls(), cpu_s(os.getpid())
                times = work()
                lines.append(_line(options, cluster, name, times, cluster.calls() - calls, cpu_s(os.getpid()) - used))
            if lines[1].metrics["calls"]:
                lines[1].faults.append("idle cycles called the API server")
            return lines
        finally:
            cluster.close()


def _line(
    options: argparse.Namespace, cluster: Cluster, case: str, times: Sequence[float], calls: int, used_s: float
) -> Line:
    line = Line(case, {"nodes": options.nodes, "running": options.running, "waiting": options.waiting}, options.nodes)
    line.metrics = {
        "pods": cluster.running(),
        "median_s": statistics.median(times),
        "p99_s": p99(sorted(times)),
        "max_s": max(times),
        "samples": len(times),
        "calls": calls,
        "cpu_s": used_s,
        "memory_mib": round(resident_mib(os.getpid())),
        "load_average": round(os.getloadavg()[0], 1),
    }
    return line


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kube_loop", description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=10_000, metavar="N")
    parser.add_argument("--running", type=int, default=50_000, metavar="N", help="pods that run (default 50000)")
    parser.add_argument("--waiting", type=int, default=1000, metavar="N", help="pods that wait (default 1000)")
    parser.add_argument("--cycles", type=int, default=200, metavar="K", help="idle cycles (default 200)")
    parser.add_argument("--churn", type=int, default=20, metavar="N", help="pods that end each second (default 20)")
    parser.add_argument("--seconds", type=float, default=30.0, metavar="S", help="of churn (default 30)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write one JSON object a line")
    options = parser.parse_args(arguments)
    end_in_good_order()
    setting = Setting.here()
    print(setting)
    table = Table(COLUMNS)
    table.head()
    lines = measured(options)
    for line in lines:
        table.add(line, "; ".join(line.faults))
    if options.json:
        options.json.write_text("".join(f"{line.as_json('kube_loop', setting)}\n" for line in lines))
    return 1 if any(line.faults for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
