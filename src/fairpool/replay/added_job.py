"""What-if jobs, as in `--add-job name=big,project=vision,gpus=4`: a workload that does not exist, as pending rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from fairpool.model.ids import NAME_PATTERN, WORKLOAD_NAME_MAX, GroupId, PodId, QueueId
from fairpool.model.precedence import gpus_charged_milli
from fairpool.model.problem import Problem
from fairpool.model.quantity import GPU_MAX, WHOLE_GPU_MILLI, gpus_text, parse_gpus
from fairpool.model.spelling import did_you_mean
from fairpool.model.typed_text import bytes_amount, thousandths, whole_number, word, yes_or_no
from fairpool.model.workload import (
    NO_GPU,
    GpuRequest,
    Pod,
    PodGroup,
    PodSet,
    PodShape,
    SubGroup,
    WorkloadKind,
    gpu_memory,
    gpu_portion,
    whole_gpus,
)
from fairpool.replay.planned import counted
from fairpool.replay.setting import Edit, not_a_project
from fairpool.scheduler.snapshot import Snapshot

EXAMPLE = "name=big,project=vision,gpus=4"
PODS_MAX = 100_000


@dataclass
class _Wanted:
    """The fields given for a job, and what is wrong with them."""

    values: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def get(self, key: str, otherwise: Any) -> Any:
        return self.values.get(key, otherwise)


def add_job(snapshot: Snapshot, text: str) -> Edit | list[Problem]:
    """Apply one `--add-job`: the job is as new as can be, and waits."""
    wanted = _read(text)
    problems = wanted.problems + _against(snapshot, wanted)
    if problems:
        return problems
    group, pods = _rows(snapshot, wanted)
    shape = pods[0].shape
    what = f"job {group.id} added to {group.queue}: {counted(len(pods), 'pod')}"
    what += f", {_gpu_text(shape.gpu)}{' each' if len(pods) > 1 else ''}, {group.kind}"
    return Edit(replace(snapshot, groups=(*snapshot.groups, group), pods=(*snapshot.pods, *pods)), what)


def _read(text: str) -> _Wanted:
    wanted = _Wanted()
    for part in filter(None, (each.strip() for each in text.split(","))):
        key, equals, value = (each.strip() for each in part.partition("="))
        key = key.replace("-", "_")
        if key not in FIELDS:
            fix = did_you_mean(key, FIELDS, f"there are: {', '.join(FIELDS)}")
            wanted.problems.append(Problem("job.field", f"a job has no field {key!r}", fix))
        elif key in wanted.values:
            wanted.problems.append(Problem("job.twice", f"--add-job names {key} twice", "name it once"))
        elif not value and not (key == "preemptible" and not equals):
            wanted.problems.append(Problem("job.value", f"{key} has no value in --add-job", f"write {key}=VALUE"))
        else:
            read = FIELDS[key](value or "true")
            if isinstance(read, Problem):
                wanted.problems.append(Problem(read.code, f"{key}: {read.what}", read.fix))
            wanted.values[key] = read
    return wanted


def _job_name(text: str) -> str | Problem:
    if re.fullmatch(NAME_PATTERN, text) and len(text) <= WORKLOAD_NAME_MAX:
        return text
    fix = f"use up to {WORKLOAD_NAME_MAX} lower case letters, digits and -, and start with a letter"
    return Problem("job.name", f"{text[:64]!r} is not a valid name", fix)


def _pod_count(text: str) -> int | Problem:
    pods = whole_number(text)
    if isinstance(pods, int) and not 1 <= pods <= PODS_MAX:
        return Problem("job.pods", f"{text} pods is out of range", f"ask for 1 to {PODS_MAX}")
    return pods


def _limited(read: Callable[[str], int | Problem]) -> Callable[[str], int | Problem]:
    def limited(text: str) -> int | Problem:
        if text.lower() == "unlimited":
            return Problem("job.unlimited", "a job cannot ask for an unlimited amount", "ask for an amount")
        return read(text)

    return limited


def _gpu_memory(text: str) -> int | Problem:
    mib = whole_number(text)
    if isinstance(mib, int) and not 1 <= mib <= GPU_MAX * 1000:
        return Problem("job.gpu_memory", f"{text} MiB of GPU memory is out of range", "ask for 8000, for example")
    return mib


FIELDS: dict[str, Callable[[str], Any]] = {
    "name": _job_name,
    "project": str,
    "gpus": parse_gpus,
    "gpu_memory": _gpu_memory,
    "pods": _pod_count,
    "minimum": _pod_count,
    "cpus": _limited(thousandths),
    "memory": _limited(bytes_amount),
    "kind": lambda text: word(text, WorkloadKind),
    "priority": whole_number,
    "preemptible": yes_or_no,
}


def _against(snapshot: Snapshot, wanted: _Wanted) -> list[Problem]:
    """What is missing, or contradicts the snapshot or itself."""
    said = wanted.values
    problems = [
        Problem(f"job.no_{key}", f"--add-job is missing {key}", f"add {key}=..., as in {EXAMPLE}")
        for key in ("name", "project")
        if key not in said and not any(problem.what.startswith(f"{key} has") for problem in wanted.problems)
    ]
    if "project" in said and (problem := not_a_project(snapshot, said["project"])) is not None:
        problems.append(problem)
    pods_of_others = (pod.id.rpartition("-")[0] for pod in snapshot.pods)
    if said.get("name") in {*(group.id for group in snapshot.groups), *pods_of_others}:
        problems.append(Problem("job.exists", f"there is a group {said['name']} already", "choose another name"))
    if "gpus" in said and "gpu_memory" in said:
        fix = "use one of them"
        problems.append(Problem("job.gpus_twice", "gpus and gpu_memory cannot be combined", fix))
    pods, minimum = said.get("pods", 1), said.get("minimum", 1)
    if isinstance(pods, int) and isinstance(minimum, int) and minimum > pods:
        what = f"a minimum of {counted(minimum, 'pod')} is more than its {counted(pods, 'pod')}"
        problems.append(Problem("job.minimum", what, f"ask for a minimum of at most {pods}, or for more pods"))
    return problems


def _rows(snapshot: Snapshot, wanted: _Wanted) -> tuple[PodGroup, list[Pod]]:
    pods = wanted.get("pods", 1)
    gpu = _gpu(wanted)
    # One CPU for each GPU, times its portion, is the default.
    shape = PodShape(
        gpu=gpu, cpu_milli=wanted.get("cpus", gpus_charged_milli(gpu)), memory_bytes=wanted.get("memory", 0)
    )
    group = PodGroup(
        id=GroupId(wanted.values["name"]),
        queue=QueueId(wanted.values["project"]),
        created_at=snapshot.now,
        kind=wanted.get("kind", WorkloadKind.TRAIN),
        priority=wanted.get("priority", None),
        preemptible=wanted.get("preemptible", None),
        tree=SubGroup(pod_sets=(PodSet(minimum=wanted.get("minimum", pods)),)),
    )
    return group, [
        Pod(id=PodId(f"{group.id}-{number}"), group=group.id, shape=shape, created_at=snapshot.now)
        for number in range(pods)
    ]


def _gpu(wanted: _Wanted) -> GpuRequest:
    if "gpu_memory" in wanted.values:
        return gpu_memory(wanted.values["gpu_memory"])
    milli = wanted.get("gpus", WHOLE_GPU_MILLI)
    if not milli:
        return NO_GPU
    return whole_gpus(milli // WHOLE_GPU_MILLI) if milli >= WHOLE_GPU_MILLI else gpu_portion(milli)


def _gpu_text(gpu: GpuRequest) -> str:
    if gpu.memory_mib:
        return f"{gpu.memory_mib} MiB of a GPU"
    milli = gpus_charged_milli(gpu)
    return f"{gpus_text(milli)} GPU{'' if 0 < milli <= WHOLE_GPU_MILLI else 's'}"
