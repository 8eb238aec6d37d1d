"""The gateway: requests a second and core, latency that it adds, and throughput of streams.

    python -m bench.gateway [--seconds S] [--connections N ...] [--mebibytes M]

A platform runs as `fairpool up` starts it, with one job whose program answers 200 bytes, or as many as asked for. The
requests carry a bearer token and come over kept connections from this process: through the gateway, and, to see what it
adds, to the same program outside the platform: the job's own is reached by the gateway alone. A request's cost is the
CPU time of the whole server process, so the rate of a core does not depend on what else the machine does; the latencies
do.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from bench._load import Address, Ask, Heard, Load
from bench._report import Setting
from fairpool.api import workload_spec as work
from tests.running_platform import Running

TICKS = os.sysconf("SC_CLK_TCK")
PIECE = 1 << 18
WARM_UP_S = 1.0
"""Until the gateway has its connections to the program."""
POD = """
import asyncio, sys

class Pod(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""
    def data_received(self, data):
        self.data += data
        while b"\\r\\n\\r\\n" in self.data:
            head, _, self.data = self.data.partition(b"\\r\\n\\r\\n")
            size = int(head.split(b" ")[1].partition(b"=")[2] or 200)
            head = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: %d\\r\\n\\r\\n"
            self.transport.write(head % size)
            while size > 0:
                self.transport.write(b"x" * min(size, 1 << 16))
                size -= 1 << 16

async def main():
    server = await asyncio.get_running_loop().create_server(Pod, "127.0.0.1", int(sys.argv[1]), backlog=2048)
    await server.serve_forever()

asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to the program."""

    address: Address
    host: str
    pid: int
    """Of the process whose CPU time counts."""

    def request(self, path: str) -> bytes:
        lines = [f"GET {path} HTTP/1.1", f"Host: {self.host}", f"Authorization: Bearer {self.address.token}"]
        return "\r\n".join([*lines, "", ""]).encode()

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.gateway", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 64, 1000])
    parser.add_argument("--mebibytes", type=int, default=256, help="of the stream")
    options = parser.parse_args(arguments)
    print(Setting.here())
    with tempfile.TemporaryDirectory() as folder, _outside() as direct:
        platform = Running(Path(folder))
        platform.up("--gateway-listen", "127.0.0.1:0")
        try:
            through = _through(platform)
            faults = _requests(direct, through, options.connections, options.seconds)
            _stream(through, options.mebibytes << 20)
        finally:
            platform.clean_up()
    for fault in faults[:5]:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def _requests(direct: Way, through: Way, connections: Sequence[int], seconds: float) -> list[str]:
    print(f"{'connections':>11} {'requests/s':>10} {'CPU us':>7} {'a core':>7}   p99 added at half load, ms")
    faults: list[str] = []
    for count in connections:
        _at_full_speed(through, count, WARM_UP_S)
        before = through.cpu_s()
        heard = _at_full_speed(through, count, seconds)
        cpu_s = max(through.cpu_s() - before, 1 / TICKS)
        rate = heard.count / heard.took_s
        added = [_at_rate(way, count, rate / 2, seconds) for way in (direct, through)]
        p99_ms = [quantiles(each.all_latencies(), n=100, method="inclusive")[98] * 1000 for each in added]
        faults += [fault for each in (heard, *added) for fault in each.faults]
        print(
            f"{count:>11} {rate:>10.0f} {1e6 * cpu_s / heard.count:>7.0f} {heard.count / cpu_s:>7.0f}   "
            f"{p99_ms[1] - p99_ms[0]:.2f} ({p99_ms[1]:.2f} instead of {p99_ms[0]:.2f})",
            flush=True,
        )
    return faults


def _at_full_speed(way: Way, connections: int, seconds: float) -> Heard:
    load = Load(way.address, connections)
    heard = load.at_full_speed(itertools.repeat(Ask("get", way.request("/"))), seconds)
    load.close()
    return heard


def _at_rate(way: Way, connections: int, rate: float, seconds: float) -> Heard:
    asks = [Ask("get", way.request("/"), at=number / rate) for number in range(max(2, int(rate * seconds)))]
    load = Load(way.address, connections)
    heard = load.by_timetable(asks, lambda: True, 30.0)
    load.close()
    return heard


def _stream(way: Way, size: int) -> None:
    before, began, read = way.cpu_s(), time.perf_counter(), 0
    with socket.create_connection((way.address.host, way.address.port)) as connection:
        connection.sendall(way.request(f"/?size={size}"))
        while read < size:
            piece = connection.recv(PIECE)
            assert piece, "the stream broke off"
            read += len(piece)
    took_s, cpu_s = time.perf_counter() - began, max(way.cpu_s() - before, 1 / TICKS)
    print(f"stream of {size >> 20} MiB: {size / took_s / 2**20:.0f} MiB/s, {size / cpu_s / 2**20:.0f} MiB/s a core")


@contextmanager
def _outside() -> Iterator[Way]:
    """To the program outside the platform."""
    port = _free_port()
    with subprocess.Popen([sys.executable, "-c", POD, str(port)]) as program:
        try:
            _wait_until_it_listens(port)
            yield Way(Address("127.0.0.1", port, "none"), f"127.0.0.1:{port}", program.pid)
        finally:
            program.kill()


def _through(platform: Running) -> Way:
    """To the program of a job, through the gateway."""
    port = _free_port()
    program = shlex.join(["-c", POD, str(port)])
    ports = [{"container": port, "serviceType": "Ingress"}]
    spec = {"image": "python", "command": "python", "args": program, "compute": {"gpu": "0.1"}, "ports": ports}
    body = {"name": "web", "projectId": "team-a", "spec": spec}
    workload = platform.client.submit(work.SubmitTraining.model_validate(body)).id
    platform.until_phase(workload, "Running")
    gateway = urllib.parse.urlsplit(str(platform.status["gateway"]))
    assert gateway.port is not None
    address = Address("127.0.0.1", gateway.port, platform.owner_token())
    way = Way(address, f"{workload}-{port}.{gateway.netloc}", platform.pid)
    platform.until(lambda: _answers(way), "the program answers")
    return way


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _wait_until_it_listens(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("the program outside the platform does not listen")


def _answers(way: Way) -> bool:
    with socket.create_connection((way.address.host, way.address.port)) as connection:
        connection.sendall(way.request("/"))
        return connection.recv(16).startswith(b"HTTP/1.1 200")


if __name__ == "__main__":
    sys.exit(main())
