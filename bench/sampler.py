"""Samples of a machine with many pods: CPU time of the thread that takes them, and what the loop notices.

    python -m bench.sampler [--pods N] [--processes P] [--samples K] [--limit-ms L]

Real pods of several processes sleep on simulated devices. The first sample finds each process; later ones know them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench._report import Setting
from bench.starts import NODE, TOKEN, end_all, start_order
from fairpool.agent.devices import simulated_node
from fairpool.agent.process_owners import ProcessOwners
from fairpool.engines.local import LocalEngine
from fairpool.model.ids import PodId
from fairpool.model.observation import PodState
from fairpool.model.spec import Program

BATCH = 100
LIMIT_MS = 100.0
"""Of CPU time for a sample of 500 pods with 3 processes each."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.sampler", description=__doc__)
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--processes", type=int, default=3, help="of each pod")
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--limit-ms", type=float, default=LIMIT_MS, help="of CPU time, for the median")
    options = parser.parse_args(arguments)
    print(Setting.here())
    with tempfile.TemporaryDirectory() as folder:
        engine, pods = _started(Path(folder), options.pods, options.processes)
        try:
            return _measured(engine, options.processes, options.samples, options.limit_ms)
        finally:
            end_all(engine, pods)


def _started(folder: Path, pods: int, processes: int) -> tuple[LocalEngine, list[PodId]]:
    engine = LocalEngine(folder, nodes=[simulated_node(NODE), simulated_node("dgx1-2")])
    engine.observe(TOKEN)
    sleeps = f"i=1; while [ $i -lt {processes} ]; do sleep 10000 & i=$((i+1)); done; echo; wait"
    program = Program(image="ubuntu", command=("sh", "-c", sleeps))
    orders = [replace(start_order(number, engine.supervisor.boot_id), program=program) for number in range(pods)]
    for first in range(0, pods, BATCH):
        engine.carry_out(orders[first : first + BATCH], TOKEN)
        while any(pod.state is PodState.STARTING for pod in engine.observe(TOKEN).pods.values()):
            engine.wait(0.02)
    while _least_processes(engine) < processes:
        time.sleep(0.2)
    return engine, [order.pod for order in orders]


def _least_processes(engine: LocalEngine) -> int:
    found = ProcessOwners().read(engine.supervisor.running())
    return min(len(each.rows) for each in found.values())


def _measured(engine: LocalEngine, processes: int, samples: int, limit_ms: float) -> int:
    pods, is_over = len(engine.observe(TOKEN).pods), threading.Event()
    delays_ms: list[float] = []

    def observe() -> None:
        while not delays_ms or not is_over.wait(0.01):
            began = time.monotonic()
            engine.observe(TOKEN)
            delays_ms.append((time.monotonic() - began) * 1000)

    costs_ms = [_sample_ms(engine, pods) for _ in range(samples + 1)]
    loop = threading.Thread(target=observe)
    loop.start()
    beside_ms = [_sample_ms(engine, pods) for _ in range(samples)]
    is_over.set()
    loop.join()
    first, typical = costs_ms[0], median(costs_ms[1:])
    print(f"{pods} pods of {processes} processes: {typical:.1f} ms of CPU time a sample, the first {first:.1f} ms")
    print(f"beside a loop that observes: {median(beside_ms):.1f} ms; observe took {max(delays_ms):.1f} ms at most")
    if typical > limit_ms:
        print(f"over the limit of {limit_ms:g} ms")
        return 1
    return 0


def _sample_ms(engine: LocalEngine, pods: int) -> float:
    began = time.thread_time()
    sample = engine.sample()
    took_ms = (time.thread_time() - began) * 1000
    found = [pod for node in sample.nodes for pod in node.pods]
    assert len(found) == pods, f"{len(found)} of {pods} pods are in the sample"
    assert all(pod.memory_bytes for pod in found), "every pod has memory"
    return took_ms


if __name__ == "__main__":
    sys.exit(main())
