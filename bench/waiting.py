"""A job of a team within its quota, while thousands of jobs of another team wait: from submitting to running.

    python -m bench.waiting [--pending N] [--jobs K]

`fairpool up` on four simulated nodes with 32 GPUs, all taken by a team whose quota is 8 and that has N more jobs
waiting. Another team, whose quota is 24, submits single jobs, each of which takes a GPU back from the first. Each time
is from submitting until the API says Running; then the job is deleted. Beside it: the CPU time of the server for each.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench._load import Address, Ask, Load
from bench._report import Setting
from bench.restart import LOOK_S, PATIENCE_S, cpu_seconds, server
from fairpool.api.client import Client
from fairpool.platform import admin_socket
from fairpool.platform.data_directory import DataDirectory
from fairpool.platform.directory_lock import lock_holder

NODES = "4x8:V100-32GB"
QUOTAS = {"crowd": 8, "within": 24}
GPUS = 32
CONNECTIONS = 32
TRAININGS = "/api/v1/workloads/trainings"


def body(team: str, name: str) -> bytes:
    spec = {"image": "python", "command": "sleep", "args": "3600", "compute": {"gpu": "1"}}
    return json.dumps({"name": name, "projectId": team, "spec": spec}).encode()


def fill(address: Address, client: Client, jobs: int) -> None:
    """All GPUs are taken, and so many jobs wait."""
    for team, gpus in QUOTAS.items():
        client.create_project({"name": team, "resources": [{"gpu": {"deserved": gpus}}]})
    load = Load(address, CONNECTIONS)
    names = (f"job-{number:05d}" for number in range(GPUS + jobs))
    asks = (Ask("submit", address.request("POST", TRAININGS, body("crowd", each), key=each), 202) for each in names)
    heard = load.at_full_speed(asks, 3600)
    load.close()
    assert not heard.faults, heard.faults[:3]
    wait_for(client, "projectName==crowd,phase==Running", GPUS)
    wait_for(client, "projectName==crowd,phase==Pending", jobs)


def wait_for(client: Client, condition: str, count: int) -> None:
    until = time.perf_counter() + PATIENCE_S
    while client._get("/api/v1/workloads/count", {"filterBy": condition}).count < count:
        assert time.perf_counter() < until, f"{condition} is not {count}"
        time.sleep(0.2)


def time_one(client: Client, number: int) -> float:
    """From submitting a job until it runs; it is gone afterwards."""
    name = f"own-{number}"
    began = time.perf_counter()
    made = client._post(TRAININGS, json.loads(body("within", name)))
    while client.workload(made.id).phase != "Running":
        assert time.perf_counter() < began + PATIENCE_S, f"{name} does not run"
        time.sleep(LOOK_S)
    took = time.perf_counter() - began
    client.delete_workload(made.id, force=True)
    wait_for(client, "projectName==crowd,phase==Running", GPUS)
    return took


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.waiting", description=__doc__.split("\n")[0])
    parser.add_argument("--pending", type=int, default=10_000, metavar="N")
    parser.add_argument("--jobs", type=int, default=5, metavar="K")
    options = parser.parse_args(arguments)
    print(Setting.here())
    with tempfile.TemporaryDirectory() as folder:
        data = DataDirectory(Path(folder, "data"))
        with server(data, NODES) as (pid, _):
            holder = lock_holder(data)
            assert holder is not None
            answer = admin_socket.ask(data.admin_socket, "welcome", PATIENCE_S, holding=[], project="")
            assert isinstance(answer, dict)
            token = answer["tokens"]["access_token"]
            host, _, port = holder.address.rpartition("//")[2].rpartition(":")
            address = Address(host, int(port), token)
            with Client(holder.address, token) as client:
                fill(address, client, options.pending)
                before = cpu_seconds(pid)
                times = [time_one(client, number) for number in range(options.jobs)]
                cpu_s = (cpu_seconds(pid) - before) / options.jobs
    shown = ", ".join(f"{each:.2f}" for each in sorted(times))
    print(f"{options.pending} pending: median {statistics.median(times):.2f} s ({shown}); {cpu_s:.2f} s of CPU each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
