"""Random workloads and random behaviour of their pods, by seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from fairpool.engines.simulated.behaviour import Behaviour, BehaviourOf
from fairpool.engines.simulated.traces import Arrival
from fairpool.model.ids import SECOND_MS, Instant, QueueId, WorkloadId
from fairpool.model.observation import StartOrder
from fairpool.model.quantity import GIB
from fairpool.model.spec import Arrangement, PodTemplate, Program, RestartPolicy, WorkloadSpec
from fairpool.model.workload import NO_GPU, GpuRequest, PodShape, WorkloadKind, gpu_memory, gpu_portion, whole_gpus


def arrivals(seed: int, projects: Sequence[QueueId], count: int, *, start: Instant, gap_s: float = 30) -> list[Arrival]:
    """So many workloads of every kind, `gap_s` apart on average. The first seven are of seven kinds."""
    rng = Random(f"arrivals {seed}")
    at = start
    listed: list[Arrival] = []
    makers: list[Maker] = []
    for number in range(count):
        at = Instant(at + round(rng.expovariate(1 / gap_s) * SECOND_MS))
        makers = makers or rng.sample(list(MAKERS), len(MAKERS))
        listed.append(Arrival(at, _workload(makers.pop(), number, at, rng.choice(projects), rng)))
    return listed


Maker = Callable[[WorkloadSpec, Random], WorkloadSpec]


def _workload(make: Maker, number: int, at: Instant, project: QueueId, rng: Random) -> WorkloadSpec:
    name = f"{make.__name__.strip('_').replace('_', '-')}-{number:05}"
    plain = WorkloadSpec(id=WorkloadId(name), name=name, project=project, created_at=at, template=_template(rng))
    spec = make(plain, rng)
    return replace(
        spec,
        priority=rng.choice((None, None, None, 50, 75, 100, 125)),
        deadline_s=rng.choice((None, None, None, 1800, 14400)),
        ttl_s=rng.choice((None, None, 0, 600)),
        retries=rng.choice((None, None, 0, 1, 3)),
        grace_s=rng.choice((30, 30, 0, 5, 60)),
    )


def _train(spec: WorkloadSpec, rng: Random) -> WorkloadSpec:
    return replace(spec, restart=rng.choice((None, None, RestartPolicy.NEVER)))


def _build(spec: WorkloadSpec, rng: Random) -> WorkloadSpec:
    return replace(spec, kind=WorkloadKind.BUILD, preemptible=rng.choice((None, False)))


def _preemptible_build(spec: WorkloadSpec, rng: Random) -> WorkloadSpec:
    return replace(spec, kind=WorkloadKind.BUILD, preemptible=True)


def _sweep(spec: WorkloadSpec, rng: Random) -> WorkloadSpec:
    at_once = rng.randint(1, 4)
    completions = rng.choice((None, at_once + rng.randint(0, 6)))
    return replace(spec, arrangement=Arrangement.SWEEP, pods=at_once, completions=completions)


def _distributed(spec: WorkloadSpec, rng: Random) -> WorkloadSpec:
    leader = PodTemplate(shape=PodShape(cpu_milli=1000, memory_bytes=2 * GIB), program=spec.template.program)
    return replace(spec, pods=rng.randint(2, 5), leader=rng.choice((None, leader)))


def _elastic(spec: WorkloadSpec, rng: Random) -> WorkloadSpec:
    pods = rng.randint(2, 6)
    return replace(spec, pods=pods, minimum=rng.randint(1, pods - 1))


def _inference(spec: WorkloadSpec, rng: Random) -> WorkloadSpec:
    return replace(spec, kind=WorkloadKind.INFERENCE, arrangement=Arrangement.REPLICAS, pods=rng.randint(1, 4))


MAKERS: tuple[Maker, ...] = (_train, _build, _preemptible_build, _sweep, _distributed, _elastic, _inference)


def _template(rng: Random) -> PodTemplate:
    shape = PodShape(
        gpu=_gpu_request(rng),
        cpu_milli=rng.choice((0, 500, 1000, 4000)),
        memory_bytes=rng.choice((0, 1, 4, 16)) * GIB,
    )
    return PodTemplate(shape=shape, program=Program(image="example/program:1", command=("run",)))


def _gpu_request(rng: Random) -> GpuRequest:
    return rng.choice(
        (
            whole_gpus(rng.choice((1, 1, 2, 4, 8))),
            whole_gpus(1),
            gpu_portion(rng.choice((100, 250, 333, 500, 750))),
            gpu_portion(500, devices=2),
            gpu_memory(rng.choice((2_000, 8_000, 20_000))),
            NO_GPU,
        )
    )


NEVER_S = 10.0**9
"""Longer than any grace period."""


def random_behaviour(
    seed: int, *, run_s: tuple[float, float] = (60, 7200), failing: float = 0.02, ignores_stop: float = 0.0
) -> BehaviourOf:
    """Behaviours that depend on nothing but the seed and the pod.

    The replacements of a pod have the same work. `failing` is the share of pods that exit with 1 before their work is
    done, `ignores_stop` that of pods that ignore SIGTERM.
    """

    def behaviour(order: StartOrder) -> Behaviour:
        # Not hash(): that of a string differs from process to process.
        work = Random(f"{seed} {order.workload} {order.index}")
        own = Random(f"{seed} {order.workload} {order.index} {order.incarnation}")
        work_s = round(work.uniform(*run_s), 3)
        checkpoint_s = work.choice((0, 60, 600, None))
        fails = own.random() < failing
        ignores_stop_now = ignores_stop > 0 and Random(f"{seed} {order.pod} deaf").random() < ignores_stop
        return Behaviour(
            pull_s=round(own.choice((0, own.uniform(0, 10), own.uniform(0, 90))), 3),
            start_s=round(own.uniform(0.1, 5), 3),
            run_s=_run_s(order, work_s, own.random() if fails else 1),
            exit_code=1 if fails else 0,
            checkpoint_s=checkpoint_s,
            stop_s=NEVER_S if ignores_stop_now else round(own.choice((0, own.uniform(0, 20), own.uniform(0, 60))), 3),
        )

    return behaviour


def _run_s(order: StartOrder, work_s: float, part: float) -> float | None:
    if order.kind is WorkloadKind.INFERENCE and part == 1:
        return None
    return round(work_s * part, 3)
