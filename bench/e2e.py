"""From submitting to running, on the whole platform: jobs arrive at a rate, or all at once.

    python -m bench.e2e [--engine processes simulated kubernetes] [--size NODES ...] [--rate R ...] [--burst N]
                        [--json FILE]

Each job is a training with a tenth of a simulated GPU that lasts a second: a real process under `fairpool up`, or a
simulated pod behind the same control plane and loop. On Kubernetes it has a whole GPU of a fake node of a real API
server, which first shows how fast it is where nothing is decided ("alone": pods a second). The clock runs from the
moment a submission is due until the stream of changes says that the workload runs. A fresh platform for every line.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from bench._load import Address, Ask, Load, Stream
from bench._report import Column, Line, Setting, Table, progress
from bench._server import Server, cpu_s, end_in_good_order, ended_children_cpu_s, main_thread_cpu_s
from bench._stopwatch import p99
from fairpool.agent import process_table
from fairpool.api import organization as org
from fairpool.api.client import Client
from fairpool.model.problem import Problem
from fairpool.platform import admin_socket, background
from fairpool.platform.data_directory import DataDirectory

ENGINES = ("processes", "simulated", "kubernetes")
DEFAULT_ENGINES = ENGINES[:2]
SIZES = (1, 100, 500)
RATES = (1.0, 10.0, 100.0, 500.0)
BURST = 4000
GPUS = 8
TENTHS = 10
LASTS_S = 1.0
CONNECTIONS = 32
PATIENCE_S = 300.0
ENDED = frozenset({"Completed", "Failed", "Stopped", "Deleted"})
COLUMNS = (
    Column("jobs", 7, "jobs"),
    Column("p50", 9, "median_s", is_time=True),
    Column("p99", 9, "p99_s", is_time=True),
    Column("submit p50", 11, "submit_median_s", is_time=True),
    Column("jobs/s", 8, "jobs_per_s"),
    Column("drain", 9, "drain_s", is_time=True),
    Column("control", 9, "control_cpu_s_each", is_time=True),
    Column("loop", 9, "loop_cpu_s_each", is_time=True),
    Column("pods", 9, "pods_cpu_s_each", is_time=True),
    Column("load", 6, "load_average"),
    Column("alone", 7, "alone_per_s"),
    Column("API", 9, "api_cpu_s_each", is_time=True),
    Column("kubelet", 9, "kubelet_cpu_s_each", is_time=True),
    Column("cannot", 9, "cannot_s", is_time=True),
    Column("reclaim", 9, "reclaim_gang_s", is_time=True),
)


@dataclass(slots=True)
class Watch:
    """When each workload was first said to run, and how it ended."""

    ran_at: dict[str, float] = field(default_factory=dict)
    ended_as: dict[str, str] = field(default_factory=dict)
    waits_at: dict[str, float] = field(default_factory=dict)
    """When it was first said why a workload waits."""
    unseen: int = 0
    """Over before they were reported as running."""

    def hear(self, event: bytes, now: float) -> None:
        if b'"verb":"observed"' not in event:
            return
        data = json.loads(event.partition(b"\ndata: ")[2])
        item = data.get("object")
        if data["noun"] != "workload" or item is None:
            return
        name, phase = item["name"], item["phase"]
        if item.get("wait") is not None:
            self.waits_at.setdefault(name, now)
        if phase == "Running":
            self.ran_at.setdefault(name, now)
        elif phase in ENDED and name not in self.ended_as:
            self.ended_as[name] = phase
            self.unseen += name not in self.ran_at
            self.ran_at.setdefault(name, now)


@dataclass(frozen=True, slots=True)
class Platform:
    """Where it is, and which process it is."""

    port: int
    pid: int
    token: str
    alone_per_s: float = 0.0
    """Pods a second that the API server starts where nothing is decided."""
    cluster: int = 0
    """The process that plays the kubelets, above those of the API server."""


@contextmanager
def processes(folder: Path, nodes: int) -> Iterator[Platform]:
    """`fairpool up` in the background, with nodes whose GPUs are simulated and whose pods are processes."""
    command = [sys.executable, "-m", "fairpool.cli.main"]
    where = ["--data", str(folder)]
    up = ["up", "--detach", "--listen", "127.0.0.1:0", "--nodes", f"{nodes}x{GPUS}:V100-32GB"]
    own = {**os.environ, "FAIRPOOL_CONFIG": str(folder / "config")}  # `up` signs runai in: not the user's own
    subprocess.run([*command, *up, *where], check=True, stdout=subprocess.DEVNULL, env=own)
    try:
        status = background.status_of(DataDirectory(folder), 60.0)
        assert status is not None
        answer = admin_socket.ask(DataDirectory(folder).admin_socket, "welcome", 60.0, holding=[], project="")
        assert not isinstance(answer, Problem), answer
        token = answer["tokens"]["access_token"]
        yield Platform(urlsplit(status["address"]).port or 0, int(status["pid"]), token)
    finally:
        subprocess.run([*command, "down", "--stop-pods", *where], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def simulated(folder: Path, nodes: int) -> Iterator[Platform]:
    server = Server("bench._e2e_server", str(folder), str(nodes))
    try:
        yield Platform(server.hello["port"], server.pid, server.hello["token"])
    finally:
        server.kill()


@contextmanager
def kubernetes(folder: Path, nodes: int, pods: int = BURST, lasts_s: float = LASTS_S) -> Iterator[Platform]:
    """`pods`: so many are first started with nothing decided; 0: not measured."""
    cluster = Server("bench._fake_cluster", str(folder / "cluster"), str(nodes), f"{lasts_s:g}")
    try:
        alone = cluster.say(str(min(pods, nodes * GPUS)))["pods_per_s"] if pods else 0.0
        server = Server("bench._e2e_server", str(folder), cluster.hello["kubeconfig"])
        try:
            yield Platform(server.hello["port"], server.pid, server.hello["token"], alone, cluster.pid)
        finally:
            server.kill()
    finally:
        cluster.end()


def moments(rate: float, seconds: float, burst: int) -> list[float]:
    """When each job is due: evenly at a rate, or all at once."""
    return [0.0] * burst if burst else [number / rate for number in range(max(1, round(rate * seconds)))]


def submits(address: Address, due: Sequence[float], gpus: str) -> list[Ask]:
    asks = []
    for number, at in enumerate(due):
        name = f"job-{number:05d}"
        spec = {"image": "ubuntu", "command": "sleep", "args": f"{LASTS_S:g}", "compute": {"gpu": gpus}}
        body = json.dumps({"name": name, "projectId": "team", "spec": spec}).encode()
        request = address.request("POST", "/api/v1/workloads/trainings", body, key=name)
        asks.append(Ask("submit", request, 202, at))
    return asks


def measured(engine: str, nodes: int, rate: float, seconds: float, burst: int) -> Line:
    """One line: a fresh platform, all jobs submitted, run and ended."""
    due = moments(rate, seconds, burst)
    case = f"{engine}-burst" if burst else f"{engine}-{rate:g}/s"
    line = Line(case, {"engine": engine, "nodes": nodes, "rate": rate, "seconds": seconds, "burst": burst}, nodes)
    with (
        tempfile.TemporaryDirectory() as folder,
        {"processes": processes, "simulated": simulated, "kubernetes": kubernetes}[engine](
            Path(folder), nodes
        ) as platform,
    ):
        address = _signed_in(platform, nodes)
        watch = Watch()
        stream = Stream(address, watch.hear)
        load = Load(address, CONNECTIONS, [stream])
        assert load.listen(60, lambda: stream.is_open), "the stream of changes did not open"
        control, whole, kubernetes_s = main_thread_cpu_s(platform.pid), cpu_s(platform.pid), _cluster_cpu_s(platform)
        heard = load.by_timetable(
            submits(address, due, _gpus(engine)), lambda: len(watch.ran_at) >= len(due), PATIENCE_S
        )
        control, whole = main_thread_cpu_s(platform.pid) - control, cpu_s(platform.pid) - whole
        kubernetes_s = {name: used - kubernetes_s[name] for name, used in _cluster_cpu_s(platform).items()}
        load.listen(PATIENCE_S, lambda: len(watch.ended_as) >= len(due))
        pods = _pods_cpu_s(platform.pid)
        load.close()
        stream.socket.close()
    line.faults = [*heard.faults[:3], *_wrong(watch, len(due))]
    if not line.faults:
        submit_times = heard.latencies["submit"]
        line.metrics = figures(heard.began, due, watch, submit_times)
        line.metrics |= {
            "control_cpu_s_each": control / len(due),
            "loop_cpu_s_each": (whole - control) / len(due),
            "pods_cpu_s_each": pods / len(due),
            "load_average": round(os.getloadavg()[0], 1),
            "alone_per_s": platform.alone_per_s,
        }
        line.metrics |= {f"{name}_cpu_s_each": used / len(due) for name, used in kubernetes_s.items()}
    return line


def _gpus(engine: str) -> str:
    return "1" if engine == "kubernetes" else "0.1"


def _pods_cpu_s(server: int) -> float:
    """CPU time of the fork server, of shims and of what they ran; 0 where pods are simulated."""
    below = [pid for pid in process_table.descendants(server) if process_table.name(pid) == "fp:fork server"]
    return sum(ended_children_cpu_s(pid) for pid in below)


def _cluster_cpu_s(platform: Platform) -> dict[str, float]:
    """CPU time of the API server with its etcd and controllers, of the fake kubelet, and of this process."""
    if not platform.cluster:
        return {}
    api = sum(cpu_s(pid) for pid in process_table.descendants(platform.cluster))
    return {"api": api, "kubelet": cpu_s(platform.cluster), "client": cpu_s(os.getpid())}


def _signed_in(platform: Platform, nodes: int) -> Address:
    """The first user's token, with a project that owns everything."""
    with Client(f"http://127.0.0.1:{platform.port}", platform.token) as client:
        body = {"name": "team", "resources": [{"gpu": {"deserved": nodes * GPUS}}]}
        client.create_project(org.ProjectRequest.model_validate(body))
        return Address("127.0.0.1", platform.port, str(client.token))


def _wrong(watch: Watch, jobs: int) -> list[str]:
    failed = sorted({phase for phase in watch.ended_as.values() if phase != "Completed"})
    faults = [] if len(watch.ended_as) == jobs else [f"{len(watch.ended_as)} of {jobs} jobs ended"]
    return faults + ([f"some ended as {', '.join(failed)}"] if failed else [])


def figures(began: float, due: Sequence[float], watch: Watch, submitting: Sequence[float]) -> dict[str, float]:
    waits = sorted(watch.ran_at[f"job-{number:05d}"] - began - at for number, at in enumerate(due))
    last = max(watch.ran_at.values()) - began
    return {
        "jobs": len(due),
        "median_s": statistics.median(waits),
        "p99_s": p99(waits),
        "max_s": waits[-1],
        "submit_median_s": statistics.median(submitting),
        "submit_p99_s": p99(submitting),
        "jobs_per_s": len(due) / last,
        "drain_s": last - due[-1],
        "unseen": watch.unseen,
    }


# --- what people wait for in a full cluster


def answers(nodes: int) -> Line:
    """Kubernetes, full of jobs of a project without a quota: how long one more of these waits until it is said that it
    cannot run and why, and how long the owner of the quota waits for a gang on a tenth of the nodes."""
    line = Line("kubernetes-answers", {"engine": "kubernetes", "nodes": nodes}, nodes)
    waited: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        kubernetes(Path(folder), nodes, pods=0, lasts_s=float("inf")) as platform,
    ):
        address = _signed_in(platform, nodes)
        with Client(f"http://127.0.0.1:{platform.port}", platform.token) as client:
            body = {"name": "guests", "resources": [{"gpu": {"deserved": 0}}]}
            client.create_project(org.ProjectRequest.model_validate(body))
        watch = Watch()
        stream = Stream(address, watch.hear)
        fill = [_submit(address, "trainings", f"guest-{number}", "guests", str(GPUS)) for number in range(nodes)]
        late = _submit(address, "trainings", "late", "guests", str(GPUS))
        gang = _submit(address, "distributed", "gang", "team", str(GPUS), {"numWorkers": nodes // 10, "noMaster": True})
        waits: tuple[tuple[str, list[Ask], Callable[[], bool]], ...] = (
            ("fill_s", fill, lambda: len(watch.ran_at) >= nodes),
            ("cannot_s", [late], lambda: "late" in watch.waits_at),
            ("reclaim_gang_s", [gang], lambda: "gang" in watch.ran_at),
        )
        for name, asks, is_over in waits:
            waited[name], faults = _waited(Load(address, min(CONNECTIONS, len(asks)), [stream]), stream, asks, is_over)
            line.faults += faults
        stream.socket.close()
    line.metrics = {"jobs": nodes + 2, **waited, "load_average": round(os.getloadavg()[0], 1)}
    return line


def _waited(load: Load, stream: Stream, asks: Sequence[Ask], is_over: Callable[[], bool]) -> tuple[float, list[str]]:
    assert load.listen(60, lambda: stream.is_open), "the stream of changes did not open"
    heard = load.by_timetable(asks, lambda: bool(load.heard.faults) or is_over(), PATIENCE_S)
    load.close()
    return heard.took_s, heard.faults[:3]


def _submit(
    address: Address, kind: str, name: str, project: str, gpus: str, more: Mapping[str, object] | None = None
) -> Ask:
    spec = {"image": "ubuntu", "command": "sleep", "args": "1000", "compute": {"gpu": gpus}, **(more or {})}
    body = json.dumps({"name": name, "projectId": project, "spec": spec}).encode()
    return Ask("submit", address.request("POST", f"/api/v1/workloads/{kind}", body, key=name), 202)


def points(options: argparse.Namespace) -> Iterator[tuple[str, int, float, int]]:
    """Engine, nodes, rate, burst; without those for which there are not GPUs enough."""
    for engine in options.engine or DEFAULT_ENGINES:
        for nodes in options.size or SIZES:
            room = nodes * GPUS * (1 if engine == "kubernetes" else TENTHS)
            for rate in options.rate or (() if options.only_burst else RATES):
                if rate * LASTS_S <= room / 2:
                    yield engine, nodes, rate, 0
            if options.burst and (not options.rate or options.only_burst) and options.burst <= room:
                yield engine, nodes, 0.0, options.burst


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.e2e", description=__doc__.split("\n")[0])
    parser.add_argument("--engine", action="extend", nargs="+", default=[], choices=ENGINES)
    parser.add_argument("--size", action="extend", nargs="+", default=[], type=int, metavar="N", help="nodes")
    parser.add_argument("--rate", action="extend", nargs="+", default=[], type=float, metavar="R", help="jobs a second")
    parser.add_argument("--seconds", type=float, default=30.0, metavar="S", help="for each rate (default 30)")
    parser.add_argument("--burst", type=int, default=BURST, metavar="N", help="jobs at once (default 4000)")
    parser.add_argument("--only-burst", action="store_true", help="no rates")
    parser.add_argument("--answers", action="store_true", help='Kubernetes: a gang reclaimed, and "cannot", instead')
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write one JSON object a line")
    options = parser.parse_args(arguments)
    end_in_good_order()
    setting = Setting.here()
    print(setting)
    table = Table(COLUMNS, case_width=20)
    table.head()
    lines = []
    for nodes in (options.size or SIZES) if options.answers else ():
        progress(f"kubernetes, {nodes} nodes, a gang reclaimed")
        line = answers(nodes)
        table.add(line, "; ".join(line.faults))
        lines.append(line)
    for engine, nodes, rate, burst in () if options.answers else points(options):
        progress(f"{engine}, {nodes} nodes, {f'{burst} at once' if burst else f'{rate:g} a second'}")
        line = measured(engine, nodes, rate, options.seconds, burst)
        table.add(line, "; ".join(line.faults))
        lines.append(line)
    if options.json:
        options.json.write_text("".join(f"{line.as_json('e2e', setting)}\n" for line in lines))
    return 1 if any(line.faults for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
