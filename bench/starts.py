"""Starting real processes through the local engine: how many a second, and what each costs whom.

    python -m bench.starts [--pods N] [--batch B] [--repeat K] [--alone M] [--whole W]

Pods of a tenth of a simulated GPU sleep; the clock runs from the first order until the last is seen running. CPU time
is what tells on a machine with other work: the sum of the columns, divided by the cores, bounds the rate. Afterwards
pods come alone, each when the one before runs; and at last pods of a fifth of a second are followed until they are
forgotten.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mean, quantiles

from bench._report import Setting
from bench._server import ended_children_cpu_s
from fairpool.agent import main_process
from fairpool.agent.devices import simulated_node
from fairpool.engines.local import LocalEngine
from fairpool.model.ids import GroupId, Instant, NodeName, PodId, QueueId, Token, WorkloadId, pod_id
from fairpool.model.observation import ForgetOrder, PodState, StartOrder, StopOrder
from fairpool.model.spec import Program
from fairpool.model.workload import PodShape, WorkloadKind, gpu_portion

NODE = NodeName("dgx1-1")
TOKEN = Token(1)
PAUSE_S = 0.02
"""Before each that comes alone, so that what the one before left to do is done."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.starts", description=__doc__)
    parser.add_argument("--pods", type=int, default=600)
    parser.add_argument("--batch", type=int, default=100, help="orders given at a time")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--alone", type=int, default=50, help="pods that are started one after the other")
    parser.add_argument("--whole", type=int, default=300, help="pods that are followed from their start to their end")
    options = parser.parse_args(arguments)
    print(Setting.here())
    print(f"{'pods/s':>8} {'order ms':>9} {'look ms':>8}   CPU ms a start: engine, fork server, shim, first process")
    for _ in range(options.repeat):
        with tempfile.TemporaryDirectory() as folder:
            print(_measured(Path(folder), options.pods, options.batch), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        percentiles_ms = quantiles(_alone_ms(Path(folder), options.alone), n=100, method="inclusive")
    print(
        f"alone, from the order until it is seen running: {percentiles_ms[49]:.1f} ms, p95 {percentiles_ms[94]:.1f} ms"
    )
    with tempfile.TemporaryDirectory() as folder:
        print(_whole(Path(folder), options.whole, options.batch))
    return 0


def _whole(folder: Path, pods: int, batch: int) -> str:
    """CPU time of whole pods: of the engine's thread by kind of call, and of all other processes together."""
    engine = LocalEngine(folder, nodes=[simulated_node(NODE)])
    engine.observe(TOKEN)
    program = Program(image="ubuntu", command=("sleep", "0.2"))
    waiting = [replace(start_order(number, engine.supervisor.boot_id), program=program) for number in range(pods)]
    fork_server = engine.supervisor.fork_server_pid
    assert fork_server is not None
    time.sleep(1)  # until it has warmed up
    before, began, forgotten = ended_children_cpu_s(fork_server), time.perf_counter(), 0
    costs = dict.fromkeys(("start", "observe", "forget"), 0.0)
    while forgotten < pods:
        marks = [time.thread_time()]
        engine.carry_out(waiting[:batch], TOKEN)
        marks.append(time.thread_time())
        observed = engine.observe(TOKEN).pods
        marks.append(time.thread_time())
        ended = [pod for pod, each in observed.items() if each.state is PodState.EXITED]
        assert all(observed[pod].exit_code == 0 for pod in ended), "a pod has failed"
        results = engine.carry_out([ForgetOrder(pod=pod, node=NODE) for pod in ended], TOKEN)
        marks.append(time.thread_time())
        forgotten, waiting = forgotten + sum(each.status == "done" for each in results), waiting[batch:]
        for kind, (begun, done) in zip(costs, pairwise(marks), strict=True):
            costs[kind] += done - begun
        engine.wait(0.02)
    took_s = time.perf_counter() - began
    time.sleep(1)  # until the last shims are reaped
    costs["pods"] = ended_children_cpu_s(fork_server) - before
    engine.close()
    parts = ", ".join(f"{kind} {cost * 1000 / pods:.2f}" for kind, cost in costs.items())
    return f"whole pods: {pods / took_s:.0f}/s, CPU ms each: {parts} = {sum(costs.values()) * 1000 / pods:.2f}"


def _alone_ms(folder: Path, pods: int) -> list[float]:
    engine = LocalEngine(folder, nodes=[simulated_node(NODE)])
    engine.observe(TOKEN)
    took_ms = []
    for number in range(pods):
        time.sleep(PAUSE_S)
        order = start_order(number, engine.supervisor.boot_id)
        began = time.perf_counter()
        engine.carry_out([order], TOKEN)
        while engine.observe(TOKEN).pods[order.pod].state is PodState.STARTING:
            engine.wait(1)
        took_ms.append((time.perf_counter() - began) * 1000)
    end_all(engine, list(engine.observe(TOKEN).pods))
    return took_ms


def _measured(folder: Path, pods: int, batch: int) -> str:
    engine = LocalEngine(folder, nodes=[simulated_node(NODE)])
    observed_pods = engine.observe(TOKEN).pods
    waiting = [start_order(number, engine.supervisor.boot_id) for number in range(pods)]
    order_s = look_s = 0.0
    began, cpu = time.perf_counter(), time.process_time()
    seen = 0
    while seen < pods:
        at = time.perf_counter()
        engine.carry_out(waiting[:batch], TOKEN)
        order_s, waiting = max(order_s, time.perf_counter() - at), waiting[batch:]
        at = time.perf_counter()
        observed_pods = engine.observe(TOKEN).pods
        look_s = max(look_s, time.perf_counter() - at)
        seen = sum(observed.state is not PodState.STARTING for observed in observed_pods.values())
        if not waiting and seen < pods:
            engine.wait(0.05)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    fork_server = engine.supervisor.fork_server_pid
    assert fork_server is not None
    directories = list((folder / "pods").iterdir())
    costs = (
        cpu * 1000 / pods,
        _cpu_ms(fork_server) / pods,
        mean(_cpu_ms(_shim(each)) for each in directories),
        mean(_cpu_ms(_program(each)) for each in directories),
    )
    end_all(engine, list(observed_pods))
    row = f"{pods / took:8.0f} {order_s * 1000:9.0f} {look_s * 1000:8.1f}   "
    return row + ", ".join(f"{cost:.2f}" for cost in costs) + f" = {sum(costs):.2f}"


def start_order(number: int, boot_id: str) -> StartOrder:
    """Of a pod that sleeps on a tenth of a device."""
    workload = WorkloadId(f"w{number}")
    return StartOrder(
        pod=pod_id(workload, 0, 0),
        workload=workload,
        index=0,
        incarnation=0,
        group=GroupId(workload),
        pod_set="default",
        run=0,
        name=workload,
        project=QueueId("bench"),
        kind=WorkloadKind.TRAIN,
        node=NODE,
        boot_id=boot_id,
        devices=(number % 8,),
        shape=PodShape(gpu=gpu_portion(100)),
        program=Program(image="ubuntu", command=("sleep", "1000")),
        created_at=Instant(0),
    )


def end_all(engine: LocalEngine, pods: Sequence[PodId]) -> None:
    """Stop these, and close the engine."""
    stops = [StopOrder(pod=pod, node=NODE, grace_s=0, reason="end of the benchmark") for pod in pods]
    while not all(answer.status == "done" for answer in engine.carry_out(stops, TOKEN)):
        pass
    engine.close()


def _shim(life: Path) -> int:
    return int(os.readlink(life / "shim.0").split(".")[0])


def _program(life: Path) -> int:
    main = main_process.recorded(str(life))
    assert main is not None
    return main[0]


def _cpu_ms(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


if __name__ == "__main__":
    sys.exit(main())
