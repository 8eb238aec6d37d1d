"""Workloads and their behaviour from a `submit` step."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.model.ids import Instant, PoolName, QueueId, WorkloadId
from fairpool.model.precedence import gpus_charged_milli
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.spec import DEFAULT_GRACE_S, Arrangement, PodTemplate, Program, RestartPolicy, WorkloadSpec
from fairpool.model.workload import (
    NO_GPU,
    GpuRequest,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    PodShape,
    WorkloadKind,
    gpu_memory,
    gpu_portion,
    whole_gpus,
)
from fairpool.simulation.toml_table import Table

Span = tuple[float, float]
PODS_MAX = 10_000
JOBS_MAX = 100_000
AT_ONCE: Span = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """How long everything takes unless a job says otherwise; of a span, each job draws its own by the seed."""

    seed: int = 0
    pull_s: Span = AT_ONCE
    start_s: Span = AT_ONCE
    stop_s: Span = AT_ONCE
    checkpoint_s: float | None = 0

    @classmethod
    def read(cls, table: Table, seed: int) -> Delays:
        return cls(
            seed=seed,
            pull_s=table.span("pull_s") or AT_ONCE,
            start_s=table.span("start_s") or AT_ONCE,
            stop_s=table.span("stop_s") or AT_ONCE,
            checkpoint_s=_checkpoint(table, 0),
        )


@dataclass(frozen=True, slots=True)
class Jobs:
    """What one step submits: workloads, one after the other."""

    specs: tuple[WorkloadSpec, ...]
    behaviours: tuple[Behaviour, ...]
    every_s: float


def read_jobs(table: Table, delays: Delays) -> Jobs:
    """The workloads of one `submit` step."""
    name, count = table.name("submit"), table.whole("count", None, least=1, most=JOBS_MAX)
    names = [name] if count is None else [f"{name}-{number}" for number in range(1, count + 1)]
    plain = _spec(table)
    behave = _behaviour_maker(table, delays)
    every_s = table.seconds("every_s", 0.0)
    if every_s and count is None:
        table.complain("every_s", "alone", "every_s says how far apart several are", "add count = 10, for example")
    table.refuse_others("a submit step")
    specs = tuple(_named(plain, each) for each in names)
    return Jobs(specs, tuple(behave(each) for each in names), every_s)


def _named(plain: dict[str, Any], name: str) -> WorkloadSpec:
    return WorkloadSpec(id=WorkloadId(name), name=name, created_at=Instant(0), **plain)


# --- what is declared -----------------------------------------------------------------------------------------------


def _spec(table: Table) -> dict[str, Any]:
    """Everything of a workload but its name."""
    if "project" not in table:
        table.complain("", "missing", "it has no project", 'add project = "..."')
    kind = table.word("kind", WorkloadKind) or WorkloadKind.TRAIN
    arrangement, pods = _arrangement(table, kind)
    template = _template(table)
    return {
        "project": QueueId(table.text("project")),
        "kind": kind,
        "template": template,
        "leader": _leader(table, template, arrangement, pods),
        "arrangement": arrangement,
        "pods": pods,
        "minimum": _minimum(table, arrangement, pods),
        "completions": table.whole("completions", None, least=1),
        "priority": table.whole("priority", None, most=1000),
        "preemptible": table.flag("preemptible"),
        "restart": table.word("restart", RestartPolicy),
        "retries": table.whole("retries", None, most=1000),
        "deadline_s": _whole_seconds(table, "deadline_s"),
        "ttl_s": _whole_seconds(table, "ttl_s"),
        "grace_s": _whole_seconds(table, "grace_s") if "grace_s" in table else DEFAULT_GRACE_S,
        "pools": tuple(PoolName(each) for each in table.names("pools")) if "pools" in table else (),
    }


def _arrangement(table: Table, kind: WorkloadKind) -> tuple[Arrangement, int]:
    parallelism = table.whole("parallelism", None, least=1, most=PODS_MAX)
    pods = table.whole("pods", None, least=1, most=PODS_MAX)
    if parallelism is None and "completions" not in table:
        return (Arrangement.REPLICAS if kind is WorkloadKind.INFERENCE else Arrangement.TOGETHER), pods or 1
    if pods is not None:
        what = "pods is for those that start together, parallelism for independent runs"
        table.complain("pods", "both", what, "leave one of them out")
    if kind is WorkloadKind.INFERENCE:
        what = "servers have no completions and no parallelism"
        table.complain("kind", "both", what, "write pods for the number of replicas")
    return Arrangement.SWEEP, parallelism or 1


def _minimum(table: Table, arrangement: Arrangement, pods: int) -> int | None:
    minimum = table.whole("minimum", None, least=1, most=PODS_MAX)
    if minimum is None:
        return None
    if arrangement is not Arrangement.TOGETHER:
        what = "only pods that start together have a minimum"
        table.complain("minimum", "both", what, "leave it out, or use pods")
    elif minimum > pods:
        what = f"a minimum of {minimum} is more than its {pods} pods"
        table.complain("minimum", "size", what, f"write {pods} or less, or more pods")
    return minimum


def _leader(table: Table, worker: PodTemplate, arrangement: Arrangement, pods: int) -> PodTemplate | None:
    if "leader" not in table:
        return None
    if arrangement is not Arrangement.TOGETHER or pods < 2:
        what = "a leader needs others that start with it"
        table.complain("leader", "both", what, "write pods = 2 or more, the leader included")
    if table.values["leader"] is True:
        table.flag("leader")
        return worker
    inner = table.table("leader")
    if inner is None:
        return None
    template = _template(inner, gpus_milli=0)
    inner.refuse_others("a leader")
    return template


def _template(table: Table, gpus_milli: int = WHOLE_GPU_MILLI) -> PodTemplate:
    gpu = _gpu(table, gpus_milli)
    rules = tuple(
        NodeSelectorRequirement(key, NodeSelectorOperator.IN, (value,))
        for key, value in sorted(table.pairs("nodes_with").items())
    )
    shape = PodShape(
        gpu=gpu,
        cpu_milli=table.amount("cpus", gpus_charged_milli(gpu)),
        memory_bytes=table.memory("memory", 0),
        node_rules=(rules,) if rules else (),
    )
    return PodTemplate(shape=shape, program=Program(image="example/program:1"))


def _gpu(table: Table, otherwise: int) -> GpuRequest:
    devices = table.whole("devices", 1, least=1, most=1024)
    memory_mib = table.whole("gpu_memory", 0, least=1, most=10**7)
    milli = table.gpus("gpus", otherwise)
    if memory_mib and "gpus" in table:
        table.complain("gpu_memory", "both", "gpus and gpu_memory cannot be combined", "use one of them")
    if memory_mib:
        return gpu_memory(memory_mib, devices)
    if not milli:
        return NO_GPU
    if milli < WHOLE_GPU_MILLI:
        return gpu_portion(milli, devices)
    if "devices" in table:
        what = "devices says on how many GPUs a part of each is asked for"
        table.complain("devices", "both", what, "write gpus = 2 for two whole ones")
    return whole_gpus(milli // WHOLE_GPU_MILLI)


def _whole_seconds(table: Table, key: str) -> int | None:
    seconds = table.seconds(key, None)
    return None if seconds is None else round(seconds)


# --- how it behaves -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manner:
    """How the jobs of one step behave, each with its own throw of the dice."""

    seed: int
    pull_s: Span
    start_s: Span
    stop_s: Span
    run_s: Span | None
    exit_code: int
    checkpoint_s: float | None
    pull_error: str | None
    pull_error_s: float | None

    def __call__(self, name: str) -> Behaviour:
        # Not hash(): that of a string differs from process to process.
        dice = Random(f"{self.seed} {name}")
        return Behaviour(
            pull_s=_drawn(dice, self.pull_s),
            start_s=_drawn(dice, self.start_s),
            stop_s=_drawn(dice, self.stop_s),
            run_s=None if self.run_s is None else _drawn(dice, self.run_s),
            exit_code=self.exit_code,
            checkpoint_s=self.checkpoint_s,
            pull_error=self.pull_error,
            pull_error_s=self.pull_error_s,
        )


def _behaviour_maker(table: Table, delays: Delays) -> _Manner:
    return _Manner(
        seed=delays.seed,
        pull_s=table.span("pull_s") or delays.pull_s,
        start_s=table.span("start_s") or delays.start_s,
        stop_s=table.span("stop_s") or delays.stop_s,
        run_s=table.span("run_s"),
        exit_code=table.whole("exit_code", 0, most=255),
        checkpoint_s=_checkpoint(table, delays.checkpoint_s),
        pull_error=table.text("pull_error") or None,
        pull_error_s=table.seconds("pull_error_s", None),
    )


def _checkpoint(table: Table, otherwise: float | None) -> float | None:
    """Work is kept in pieces of this length; `never`: nothing of it."""
    if table.values.get("checkpoint_s") == "never":
        table.value("checkpoint_s")
        return None
    return table.seconds("checkpoint_s", otherwise)


def _drawn(dice: Random, span: Span) -> float:
    low, high = span
    return low if low == high else round(dice.uniform(low, high), 3)
