"""From what a person submits to what is declared, or to all that is wrong with it. Pure.

request × project × what there is -> spec, or every problem at once. What the model cannot carry yet is refused by name:
something that is accepted and then ignored would be a promise broken.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any

from fairpool.api import workloads as wire
from fairpool.api.organization import ProjectRequest
from fairpool.api.problems import ProblemItem, item
from fairpool.api.wire import NAME_PATTERN, WORKLOAD_NAME_MAX
from fairpool.model.ids import Instant, PoolName, QueueId, WorkloadId
from fairpool.model.node import TaintEffect
from fairpool.model.problem import Problem
from fairpool.model.quantity import WHOLE_GPU_MILLI, parse_gpus
from fairpool.model.spec import (
    DEFAULT_GRACE_S,
    Arrangement,
    PodTemplate,
    Program,
    RestartPolicy,
    Volume,
    Want,
    WorkloadSpec,
)
from fairpool.model.workload import (
    NO_GPU,
    GpuRequest,
    LabelOperator,
    LabelRule,
    PodShape,
    Toleration,
    WorkloadKind,
    gpu_memory,
    gpu_portion,
    whole_gpus,
)

NODE_TYPE_LABEL = "run.ai/type"
MIB = 1024 * 1024
GPU_MEMORY_MIN_BYTES = 100_000_000
LARGE_SHM_BYTES = 64 * 1024**3
DEFAULT_MEMORY_PER_GPU = 100 * MIB
DEFAULT_CPU_PER_GPU_MILLI = 1000

PRIORITIES: Mapping[str, int] = MappingProxyType(
    {"train": 50, "interactive-preemptible": 75, "build": 100, "inference": 125}
)
KINDS: Mapping[wire.Kind, WorkloadKind] = MappingProxyType(
    {
        wire.Kind.WORKSPACE: WorkloadKind.BUILD,
        wire.Kind.TRAINING: WorkloadKind.TRAIN,
        wire.Kind.DISTRIBUTED: WorkloadKind.TRAIN,
        wire.Kind.INFERENCE: WorkloadKind.INFERENCE,
    }
)
KIND_OF_SUBMIT: Mapping[type[wire.Submit], wire.Kind] = MappingProxyType(
    {
        wire.SubmitWorkspace: wire.Kind.WORKSPACE,
        wire.SubmitTraining: wire.Kind.TRAINING,
        wire.SubmitDistributed: wire.Kind.DISTRIBUTED,
        wire.SubmitInference: wire.Kind.INFERENCE,
    }
)
RESTARTS: Mapping[str, RestartPolicy] = MappingProxyType(
    {"Always": RestartPolicy.ALWAYS, "OnFailure": RestartPolicy.ON_FAILURE, "Never": RestartPolicy.NEVER}
)
SUFFIXES: Mapping[str, int] = MappingProxyType(
    {
        "": 1,
        **{letter: 1000**power for power, letter in enumerate("kMGTP", start=1)},
        "K": 1000,
        **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", start=1)},
        "ki": 1024,
    }
)
QUANTITY = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?)(?P<suffix>[kKMGTP]i?|m)?B?")
NAME = re.compile(NAME_PATTERN)
PLAIN_WORDS = re.compile(r"[A-Za-z0-9_.,:=@%+/ -]*")
BAD_NAME = (
    "Job names must consist of lower case alphanumeric characters or '-' and start with an alphabetic character "
    "(e.g. 'my-name',  or 'abc-123')"
)
MIG_PROFILE = re.compile(r"[1-7]g\.[0-9]{1,3}gb(\+me)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a submit meets."""

    project: ProjectRequest
    pools: frozenset[str]
    """Names of the node pools there are; none where none is asked for."""
    submitter_uid: int | None = None
    """Who submits, as a user of the machine the server runs on, where the call says so."""


@dataclass(slots=True)
class _Complaints:
    items: list[ProblemItem] = field(default_factory=list)

    def add(self, code: str, what: str, fix: str, place: str) -> None:
        self.items.append(ProblemItem(code=code, what=what, fix=fix, field=place))

    def add_problem(self, problem: Problem, place: str) -> None:
        self.items.append(item(problem, place))


WORDS_MAX_BYTES = 1024 * 1024
"""Arguments and environment of one pod together: a little below what Linux takes when a program is started."""


def _check_words(spec: wire.CommonSpec, complaints: _Complaints) -> None:
    words = sum(len(each.name) + len(each.value.encode()) + 2 for each in spec.environment_variables)
    for said in (spec.command or "", spec.args or ""):
        words += sum(len(each.encode()) + 1 for each in ([said] if isinstance(said, str) else said))
    if words > WORDS_MAX_BYTES:
        what = f"arguments and environment are {words} bytes, and a program is started with at most {WORDS_MAX_BYTES}"
        complaints.add("spec.too_many_words", what, "put them into a file", "spec.environmentVariables")


def admit(
    submit: wire.SubmitAny, ground: Ground, *, workload_id: WorkloadId, name: str, now: Instant
) -> WorkloadSpec | list[ProblemItem]:
    """The declaration, or all that is wrong."""
    complaints = _Complaints()
    kind = KIND_OF_SUBMIT[type(submit)]
    spec: wire.CommonSpec = submit.spec
    if len(name) > WORKLOAD_NAME_MAX or not NAME.fullmatch(name):
        fix = f"use at most {WORKLOAD_NAME_MAX} of a-z, 0-9 and -"
        complaints.add("workload.name", BAD_NAME, fix, "name")
    _refuse_what_is_not_carried(spec, complaints)
    if not spec.image and not spec.command:
        complaints.add("spec.no_image", "-i, --image must be set", "name the image to run", "spec.image")
    if spec.tty and not spec.stdin:
        what = "--stdin is required for containers with -t/--tty=true"
        complaints.add("spec.tty_without_stdin", what, "set stdin too", "spec.stdin")
    _check_words(spec, complaints)
    if spec.python_env is not None and not spec.python_env.startswith("/"):
        what = f"the Python environment {spec.python_env!r} is not an absolute path"
        complaints.add(
            "spec.python_env", what, "name the directory on the node, as in /opt/envs/train", "spec.pythonEnv"
        )
    size = _size(submit, complaints)
    shape = _shape(spec, kind, ground, complaints)
    leader = _leader(submit, shape, ground, complaints)
    preemptible, priority = _precedence(spec, kind, complaints)
    pools = _pools(spec, ground, complaints)
    if complaints.items:
        return complaints.items
    return WorkloadSpec(
        id=workload_id,
        name=name,
        project=QueueId(submit.project_id),
        created_at=now,
        kind=KINDS[kind],
        template=PodTemplate(shape=shape, program=_program(spec, spec, ground)),
        leader=leader,
        arrangement=size.arrangement,
        pods=size.pods,
        minimum=size.minimum,
        completions=size.completions,
        priority=priority,
        preemptible=preemptible,
        restart=RESTARTS[spec.restart_policy] if spec.restart_policy else None,
        retries=spec.backoff_limit,
        deadline_s=spec.deadline_seconds,
        ttl_s=spec.auto_deletion_time_after_completion_seconds,
        grace_s=_or(spec.termination_grace_period_seconds, DEFAULT_GRACE_S),
        pools=pools,
        want=Want.STOP if submit.suspended else Want.RUN,
    )


# --- how many ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Size:
    arrangement: Arrangement = Arrangement.TOGETHER
    pods: int = 1
    minimum: int | None = None
    completions: int | None = None


def _size(submit: wire.SubmitAny, complaints: _Complaints) -> _Size:
    match submit:
        case wire.SubmitTraining(spec=spec):
            return _sweep(spec, complaints)
        case wire.SubmitDistributed(spec=spec):
            return _gang(spec, complaints)
        case wire.SubmitInference(spec=spec):
            return _replicas(spec, complaints)
        case _:
            return _Size()


def _sweep(spec: wire.TrainingSpec, complaints: _Complaints) -> _Size:
    if spec.completions is None and _or(spec.parallelism, 1) > 1:
        what = "if the parallelism flag is set, you must also set the number of successful pod completions"
        complaints.add("spec.parallelism_alone", what, "set completions too", "spec.completions")
    if spec.completions is None:
        return _Size()
    parallel = min(_or(spec.parallelism, 1), spec.completions)
    return _Size(Arrangement.SWEEP, parallel, None, spec.completions)


def _gang(spec: wire.DistributedSpec, complaints: _Complaints) -> _Size:
    leaders = 1 if spec.master_spec is not None and not spec.no_master else 0
    most = _or(spec.max_replicas, spec.num_workers)
    least = _or(spec.min_replicas, most)
    if least > most:
        what = f"at least {least} workers is more than at most {most}"
        complaints.add("spec.elastic_range", what, "lower minReplicas or raise maxReplicas", "spec.minReplicas")
    return _Size(pods=most + leaders, minimum=least + leaders if least < most else None)


def _replicas(spec: wire.InferenceSpec, complaints: _Complaints) -> _Size:
    scaling = spec.autoscaling
    least = scaling.min_replicas
    most = _or(scaling.max_replicas, max(least, 1))
    if most < least:
        what = f"at least {least} replicas is more than at most {most}"
        complaints.add("spec.replica_range", what, "lower one or raise the other", "spec.autoscaling.maxReplicas")
    if least < most and (least, most) != (0, 1) and (scaling.metric is None or scaling.metric_threshold is None):
        what = f"between {least} and {most} replicas somebody must decide"
        fix = "give metric and metricThreshold, such as concurrency and 3"
        complaints.add("spec.no_metric", what, fix, "spec.autoscaling.metric")
    if spec.serving_port is None and not spec.ports:
        fix = "give the port it answers on, such as 8000"
        complaints.add("spec.no_serving_port", "inference needs a serving port", fix, "spec.servingPort")
    return _Size(Arrangement.REPLICAS, _or(scaling.initial_replicas, max(least, 1)))


# --- where a pod may go --------------------------------------------------------------------------------------


def _shape(spec: wire.CommonSpec, kind: wire.Kind, ground: Ground, complaints: _Complaints) -> PodShape:
    gpu = gpu_request(spec.compute, complaints.items)
    return PodShape(
        gpu=gpu,
        cpu_milli=_cpu(spec.compute, gpu),
        memory_bytes=_memory(spec.compute, gpu),
        extended=tuple(sorted((each.resource, each.quantity) for each in spec.compute.extended_resources)),
        node_rules=_node_rules(spec, kind, ground, complaints),
        tolerations=tuple(_toleration(each) for each in spec.tolerations),
        labels=tuple(sorted(spec.labels.items())),
    )


def gpu_request(compute: wire.Compute, complaints: list[ProblemItem], place: str = "spec.compute") -> GpuRequest:
    """The GPUs that were asked for, in whichever of the ways; no GPU where it is wrong, and then a complaint."""
    ways = {
        "gpu": compute.gpu,
        "gpuPortionRequest": compute.gpu_portion_request,
        "gpuMemoryRequest": compute.gpu_memory_request,
        "migProfile": compute.mig_profile,
    }
    used = [name for name, value in ways.items() if value is not None]
    if len(used) > 1 or ("gpu" in used and compute.gpu_devices_request is not None):
        other = used[1] if len(used) > 1 else "gpuDevicesRequest"
        what = f"unexpected to accept both {used[0]} and {other}"
        problem = Problem("gpu.several_ways", what, "please use only one of them")
        complaints.append(item(problem, place))
        return NO_GPU
    found = _gpu_request(compute)
    if isinstance(found, Problem):
        complaints.append(item(found, f"{place}.{used[0] if used else 'gpuDevicesRequest'}"))
        return NO_GPU
    return found


def _gpu_request(compute: wire.Compute) -> GpuRequest | Problem:
    devices = compute.gpu_devices_request
    if compute.mig_profile is not None:
        if not MIG_PROFILE.fullmatch(compute.mig_profile):
            fix = "ask for 1g.5gb, 2g.10gb, 3g.20gb, 4g.20gb or 7g.40gb"
            return Problem("gpu.mig_profile", f"unsupported mig device: {compute.mig_profile}", fix)
        return GpuRequest(mig=((f"nvidia.com/mig-{compute.mig_profile}", _or(devices, 1)),))
    if compute.gpu_memory_request is not None:
        size = bytes_of(compute.gpu_memory_request)
        if size is None or size < GPU_MEMORY_MIN_BYTES:
            return Problem("gpu.memory_too_small", "gpu memory must be greater than 100Mb", "ask for more, as in 4G")
        return gpu_memory(-(-size // MIB), _or(devices, 1))
    if compute.gpu_portion_request is not None:
        milli = parse_gpus(gpu_text(compute.gpu_portion_request))
        if isinstance(milli, Problem):
            return milli
        if not 0 < milli <= WHOLE_GPU_MILLI:
            what = f"{compute.gpu_portion_request} is not a part of a GPU"
            return Problem("gpu.portion", what, "ask for more than 0 and at most 1 of each device")
        return gpu_portion(milli, _or(devices, 1))
    if compute.gpu is None:
        return whole_gpus(devices) if devices else NO_GPU
    milli = parse_gpus(gpu_text(compute.gpu))
    if isinstance(milli, Problem):
        return milli
    if milli == 0:
        return NO_GPU
    return gpu_portion(milli) if milli < WHOLE_GPU_MILLI else whole_gpus(milli // WHOLE_GPU_MILLI)


def gpu_text(amount: int | float | str) -> str:
    """A number of GPUs as it was written."""
    return amount if isinstance(amount, str) else repr(amount)


def requested_gpus_milli(spec: WorkloadSpec) -> int:
    """GPUs of all pods together; of a request by memory, the devices."""
    total = sum(_gpus_milli(spec.template_of(index).shape.gpu) for index in range(min(spec.pods, 2)))
    return total + max(spec.pods - 2, 0) * _gpus_milli(spec.template.shape.gpu)


def _gpus_milli(gpu: GpuRequest) -> int:
    if gpu.mig:
        return WHOLE_GPU_MILLI * sum(count for _, count in gpu.mig)
    return gpu.devices * gpu.portion_milli


def quota_milli(amount: int | float) -> int | Problem:
    """A quota of GPUs in thousandths; -1 stays -1. Unlike a request, a quota may be 2.5."""
    if amount == -1:
        return -1
    try:
        milli = Decimal(gpu_text(amount)) * WHOLE_GPU_MILLI
    except InvalidOperation:
        return Problem("gpu.not_a_number", f"{amount} is not a number of GPUs", "give 4 or 2.5, or -1 for no bound")
    if milli < 0 or milli != milli.to_integral_value():
        fix = "give 0 or more with at most three decimals, or -1 for no bound"
        return Problem("gpu.quota", f"{amount} is no quota of GPUs", fix)
    return int(milli)


def _cpu(compute: wire.Compute, gpu: GpuRequest) -> int:
    if compute.cpu_core_request is not None:
        return _milli(compute.cpu_core_request)
    return _gpus_milli(gpu) * DEFAULT_CPU_PER_GPU_MILLI // WHOLE_GPU_MILLI


def _milli(cores: int | float) -> int:
    return int((Decimal(repr(cores)) * 1000).to_integral_value(ROUND_CEILING))


def _memory(compute: wire.Compute, gpu: GpuRequest) -> int:
    if compute.cpu_memory_request is not None:
        return bytes_of(compute.cpu_memory_request) or 0
    return _gpus_milli(gpu) * DEFAULT_MEMORY_PER_GPU // WHOLE_GPU_MILLI


def bytes_of(text: str) -> int | None:
    """`4Gi`, `500M`: bytes, rounded up; None: not a quantity."""
    match = QUANTITY.fullmatch(text)
    if match is None:
        return None
    suffix = match["suffix"] or ""
    factor = Decimal("0.001") if suffix == "m" else Decimal(SUFFIXES[suffix])
    return int((Decimal(match["number"]) * factor).to_integral_value(ROUND_CEILING))


def _node_rules(
    spec: wire.CommonSpec, kind: wire.Kind, ground: Ground, complaints: _Complaints
) -> tuple[tuple[LabelRule, ...], ...]:
    types = ground.project.node_types
    permitted = types.workspace if kind is wire.Kind.WORKSPACE else types.training
    always: list[LabelRule] = []
    if spec.node_type is not None:
        if permitted and spec.node_type not in permitted:
            what = f"project {ground.project.name} may not use nodes of type {spec.node_type}"
            complaints.add("spec.node_type", what, f"use one of {', '.join(permitted)}", "spec.nodeType")
        always.append(LabelRule(NODE_TYPE_LABEL, LabelOperator.IN, (spec.node_type,)))
    elif permitted:
        always.append(LabelRule(NODE_TYPE_LABEL, LabelOperator.IN, tuple(sorted(permitted))))
    alternatives = _affinity(spec.node_affinity_required, complaints)
    if not alternatives:
        return (tuple(always),) if always else ()
    return tuple((*always, *rules) for rules in alternatives)


def _affinity(document: dict[str, Any] | None, complaints: _Complaints) -> list[tuple[LabelRule, ...]]:
    if not document:
        return []
    try:
        return [
            tuple(
                LabelRule(str(each["key"]), LabelOperator(each["operator"]), tuple(map(str, each.get("values") or ())))
                for each in term["matchExpressions"]
            )
            for term in document["nodeSelectorTerms"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        fix = "give nodeSelectorTerms, each with matchExpressions of key, operator and values"
        complaints.add("spec.node_affinity", "this node affinity cannot be read", fix, "spec.nodeAffinityRequired")
        return []


def _toleration(each: wire.TolerationWire) -> Toleration:
    value = None if each.operator == "Exists" else each.value or ""
    return Toleration(each.key, value, TaintEffect(each.effect) if each.effect else None)


def _pools(spec: wire.CommonSpec, ground: Ground, complaints: _Complaints) -> tuple[PoolName, ...]:
    chosen = spec.node_pools or ground.project.default_node_pools
    for name in chosen:
        if name not in ground.pools:
            fix = f"use one of {', '.join(sorted(ground.pools))}"
            complaints.add("spec.node_pool", f"there is no node pool {name}", fix, "spec.nodePools")
    return tuple(PoolName(name) for name in dict.fromkeys(chosen))


# --- what runs, and how it ranks -----------------------------------------------------------------------------


def _program(spec: wire.PodSpecWire, common: wire.CommonSpec, ground: Ground) -> Program:
    compute = spec.compute
    return Program(
        image=spec.image,
        command=_words(spec.command),
        arguments=_words(spec.args),
        environment=tuple({each.name: each.value for each in spec.environment_variables}.items()),
        working_dir=spec.working_dir or "",
        volumes=_volumes(common.storage),
        tty=common.tty,
        stdin=common.stdin,
        cpu_limit_milli=_milli(compute.cpu_core_limit) if compute.cpu_core_limit is not None else 0,
        memory_limit_bytes=(bytes_of(compute.cpu_memory_limit) or 0) if compute.cpu_memory_limit else 0,
        shm_bytes=LARGE_SHM_BYTES if compute.large_shm_request else 0,
        python_env=spec.python_env or "",
        submitter_uid=ground.submitter_uid,
    )


def _volumes(storage: wire.Storage) -> tuple[Volume, ...]:
    folders = [Volume(target=each.mount_path, source=each.path, read_only=each.read_only) for each in storage.host_path]
    claims = [
        Volume(target=each.path, claim=each.claim_name, read_only=each.read_only)
        for each in storage.pvc
        if each.claim_name
    ]
    return (*folders, *claims)


def _words(text: Sequence[str] | str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    if not isinstance(text, str):
        return tuple(text)
    if PLAIN_WORDS.fullmatch(text):
        return tuple(text.split())  # the same, without going through it letter by letter
    try:
        return tuple(shlex.split(text))
    except ValueError:  # a quote that is not closed: then it was none
        return tuple(text.split())


def _leader(submit: wire.SubmitAny, shape: PodShape, ground: Ground, complaints: _Complaints) -> PodTemplate | None:
    if not isinstance(submit, wire.SubmitDistributed) or submit.spec.master_spec is None or submit.spec.no_master:
        return None
    master = submit.spec.master_spec
    gpu = gpu_request(master.compute, complaints.items, "spec.masterSpec.compute")
    place = PodShape(
        gpu=gpu,
        cpu_milli=_cpu(master.compute, gpu),
        memory_bytes=_memory(master.compute, gpu),
        node_rules=shape.node_rules,
        tolerations=shape.tolerations,
        labels=shape.labels,
    )
    own = master if master.image else master.model_copy(update={"image": submit.spec.image})
    program = _program(own, submit.spec, ground)
    return PodTemplate(shape=place, program=program)


def _precedence(spec: wire.CommonSpec, kind: wire.Kind, complaints: _Complaints) -> tuple[bool | None, int | None]:
    preemptible = None if spec.preemptibility is None else spec.preemptibility == "preemptible"
    if spec.priority_class is not None and spec.priority_class not in PRIORITIES:
        fix = f"use one of {', '.join(PRIORITIES)}"
        complaints.add(
            "spec.priority_class", f"there is no priority {spec.priority_class!r}", fix, "spec.priorityClass"
        )
    priority = PRIORITIES.get(spec.priority_class or "")
    if priority is None and kind is wire.Kind.WORKSPACE and preemptible:
        priority = PRIORITIES["interactive-preemptible"]
    return preemptible, priority


# --- what cannot be carried yet ------------------------------------------------------------------------------


def _refuse_what_is_not_carried(spec: wire.CommonSpec, complaints: _Complaints) -> None:
    storage, compute = spec.storage, spec.compute
    new_claims = [each for each in storage.pvc if not each.claim_name or not each.existing_pvc]
    propagated = [each for each in storage.host_path if each.mount_propagation != "None"]
    asked = {
        "spec.storage": _is_given(storage, but={"host_path", "pvc"}),
        "spec.storage.pvc": bool(new_claims),
        "spec.storage.hostPath.mountPropagation": bool(propagated),
        "spec.security": _is_given(spec.security),
        "spec.compute.gpuPortionLimit": compute.gpu_portion_limit is not None,
        "spec.compute.gpuMemoryLimit": compute.gpu_memory_limit is not None,
        "spec.topology": spec.topology is not None,
        "spec.template": spec.template is not None,
    }
    for place, is_asked in asked.items():
        if is_asked:
            what = f"{place.removeprefix('spec.')} cannot be given to pods yet"
            complaints.add("spec.not_carried", what, "leave it out", place)


def _is_given(part: wire.Storage | wire.Security, but: Collection[str] = ()) -> bool:
    """Whether somebody asks for something in it; what is spelled out as it would be anyway is no wish."""
    said = part.model_fields_set.difference(but)
    return bool(said) and not part.model_dump(exclude_defaults=True).keys().isdisjoint(said)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
