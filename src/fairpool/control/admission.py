"""From what a person submits to what is declared, or to all that is wrong with it. Pure.

request × project × what there is -> spec, or every problem at once. What the model cannot carry yet is refused by name:
something that is accepted and then ignored would be a promise broken.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any

from fairpool.api import workload_spec as wire
from fairpool.api.organization import ProjectRequest
from fairpool.api.problems import ProblemItem, item
from fairpool.api.wire import NAME_PATTERN, WORKLOAD_NAME_MAX
from fairpool.control.unsupported import refusals
from fairpool.model.array import Array, parse_numbers, problems_of
from fairpool.model.ids import Instant, PoolName, QueueId, WorkloadId
from fairpool.model.image_name import fits, without_registry, without_tag
from fairpool.model.node import TaintEffect
from fairpool.model.organization import DEFAULT_GRACES
from fairpool.model.precedence import PRIORITY_CLASSES, gpus_charged_milli
from fairpool.model.problem import Problem
from fairpool.model.quantity import WHOLE_GPU_MILLI, parse_gpus
from fairpool.model.spec import (
    DEFAULT_GRACE_S,
    Arrangement,
    Dependency,
    DesiredState,
    PodTemplate,
    Program,
    RestartPolicy,
    Volume,
    WorkloadSpec,
)
from fairpool.model.workload import (
    NO_GPU,
    GpuRequest,
    NodeSelectorOperator,
    NodeSelectorRequirement,
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
class AdmissionContext:
    """What a submit meets."""

    project: ProjectRequest
    pools: frozenset[str]
    """Names of the node pools there are; none where none is asked for."""
    images: tuple[str, ...] | None = None
    """Patterns of the images that the cluster can run; None: whatever can be pulled."""
    claims: frozenset[str] = frozenset()
    """Names of the project's volume claims; none where none is asked for."""
    work: Mapping[str, WorkloadId] = field(default_factory=dict)
    """The workloads that it names to start after, by what it calls them."""
    has_upload: bool = False
    """The folder that it names was uploaded, by the same person, for this project, and no other workload has it."""
    grace_most_s: int = DEFAULT_GRACES.most_s
    """The longest grace period that may be asked for."""
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
        what = f"the arguments and environment take {words} bytes; the maximum is {WORDS_MAX_BYTES}"
        complaints.add("spec.too_many_words", what, "put large values in a file", "spec.environmentVariables")


def _check_grace(spec: wire.CommonSpec, context: AdmissionContext, complaints: _Complaints) -> None:
    asked_s, most_s = _or(spec.termination_grace_period_seconds, 0), context.grace_most_s
    if asked_s > most_s:
        what = f"a grace period of {asked_s} s exceeds the maximum of {most_s} s"
        fix = f"use at most {most_s} s"
        complaints.add("spec.grace_too_long", what, fix, "spec.terminationGracePeriodSeconds")


def admit(
    submit: wire.SubmitAny, context: AdmissionContext, *, workload_id: WorkloadId, name: str, now: Instant
) -> WorkloadSpec | list[ProblemItem]:
    """The declaration, or all that is wrong."""
    complaints = _Complaints()
    kind = KIND_OF_SUBMIT[type(submit)]
    spec: wire.CommonSpec = submit.spec
    if len(name) > WORKLOAD_NAME_MAX or not NAME.fullmatch(name):
        fix = f"use at most {WORKLOAD_NAME_MAX} characters: a-z, 0-9 and -"
        complaints.add("workload.name", BAD_NAME, fix, "name")
    complaints.items += refusals(submit)
    if not spec.image and not spec.command:
        complaints.add("spec.no_image", "-i, --image must be set", "specify the image to run", "spec.image")
    if spec.tty and not spec.stdin:
        what = "--stdin is required for containers with -t/--tty=true"
        complaints.add("spec.tty_without_stdin", what, "also set stdin", "spec.stdin")
    _check_words(spec, complaints)
    _check_images(submit, context, complaints)
    _check_claims(spec.storage, context, complaints)
    _check_grace(spec, context, complaints)
    if spec.python_env is not None and not spec.python_env.startswith("/"):
        what = f"the Python environment {spec.python_env!r} is not an absolute path"
        complaints.add(
            "spec.python_env", what, "use the path of its directory on the node, e.g. /opt/envs/train", "spec.pythonEnv"
        )
    size = _size(submit, complaints)
    shape = _shape(spec, kind, context, complaints)
    leader = _leader(submit, shape, context, complaints)
    preemptible, priority = _precedence(spec, complaints)
    pools = _pools(spec, context, complaints)
    after = _after(spec, context, complaints)
    _check_workdir(spec, context, complaints)
    if complaints.items:
        return complaints.items
    return WorkloadSpec(
        id=workload_id,
        name=name,
        project=QueueId(submit.project_id),
        created_at=now,
        kind=KINDS[kind],
        template=PodTemplate(shape=shape, program=_program(spec, spec, context)),
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
        want=DesiredState.STOP if submit.suspended else DesiredState.RUN,
        after=after,
        array=size.array,
    )


# --- what there must be -----------------------------------------------------------------------------------------


def _check_images(submit: wire.SubmitAny, context: AdmissionContext, complaints: _Complaints) -> None:
    """An image that the cluster is known not to have would never start, unless somebody puts it there meanwhile."""
    if context.images is None or submit.wait_anyway:
        return
    asked = {"spec.image": submit.spec.image}
    if isinstance(submit, wire.SubmitDistributed) and submit.spec.master_spec is not None:
        asked["spec.masterSpec.image"] = submit.spec.master_spec.image
    for place, name in asked.items():
        if not name or any(fits(name, pattern) for pattern in context.images):
            continue
        near = difflib.get_close_matches(without_tag(without_registry(name)), context.images, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        listed = f"{'A' if meant else 'a'}vailable images: {', '.join(context.images)}"
        fix = f"{meant}{listed}; to queue it regardless, use --wait-anyway (API: waitAnyway)"
        complaints.add("image.unknown", f"there is no image {name} on this cluster", fix, place)


def _check_claims(storage: wire.Storage, context: AdmissionContext, complaints: _Complaints) -> None:
    for each in storage.pvc:
        name, place = each.claim_name or "", "spec.storage.pvc"
        if each.existing_pvc and not name:
            complaints.add("claim.unnamed", "an existing claim needs a name", "set claimName", f"{place}.claimName")
        elif each.existing_pvc and name not in context.claims:
            near = difflib.get_close_matches(name, sorted(context.claims), n=1)
            known = (
                f"existing claims: {', '.join(sorted(context.claims))}"
                if context.claims
                else "the project has no claims yet"
            )
            meant = f"did you mean {near[0]}? " if near else ""
            fix = f"{meant}{known}; to create one: --new-pvc claimname={name},size=10Gi,path={each.path}"
            what = f"project {context.project.name} has no volume claim {name}"
            complaints.add("claim.unknown", what, fix, f"{place}.claimName")
        elif not each.existing_pvc and each.claim_info is None:
            complaints.add("claim.no_size", "a new claim needs a size", "set claimInfo.size, e.g. 10Gi", place)
        elif not each.existing_pvc and name in context.claims:
            what = f"project {context.project.name} already has a volume claim {name}"
            complaints.add("claim.exists", what, f"mount it: --pvc {name}:{each.path}", f"{place}.claimName")
        elif name and not NAME.fullmatch(name):
            what = f"{name!r} is not a valid claim name"
            complaints.add("claim.name", what, "use a-z, 0-9 and -, starting with a letter", f"{place}.claimName")


# --- how many ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Size:
    arrangement: Arrangement = Arrangement.TOGETHER
    pods: int = 1
    minimum: int | None = None
    completions: int | None = None
    array: Array | None = None


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
    if spec.array is not None:
        return _array_size(spec, spec.array, complaints)
    if spec.completions is None and _or(spec.parallelism, 1) > 1:
        what = "if the parallelism flag is set, you must also set the number of successful pod completions"
        complaints.add("spec.parallelism_alone", what, "also set completions", "spec.completions")
    if spec.completions is None:
        return _Size()
    parallel = min(_or(spec.parallelism, 1), spec.completions)
    return _Size(Arrangement.SWEEP, parallel, None, spec.completions)


def _array_size(spec: wire.TrainingSpec, asked: wire.JobArray, complaints: _Complaints) -> _Size:
    """A sweep whose runs differ: all of them at once, unless it says how many."""
    numbers = parse_numbers(asked.indices) if asked.indices is not None else ()
    if isinstance(numbers, Problem):
        complaints.add_problem(numbers, "spec.array.indices")
        return _Size()
    array = Array(
        ranges=numbers,
        parameters=tuple((each.name, tuple(each.values)) for each in asked.parameters),
        arguments=tuple(map(tuple, asked.arguments)),
    )
    for problem in problems_of(array):
        complaints.add_problem(problem, "spec.array")
        return _Size()
    words = sum(len(word.encode()) for row in array.arguments for word in row)
    words += sum(len(value.encode()) for _, values in array.parameters for value in values)
    if words > WORDS_MAX_BYTES:
        what = f"the array values take {words} bytes; the maximum is {WORDS_MAX_BYTES}"
        complaints.add("array.too_long", what, "put them in a file that each run reads", "spec.array")
    if spec.completions is not None and spec.completions != array.count:
        what = f"the array has {array.count} runs, but completions is {spec.completions}"
        complaints.add("array.completions", what, "remove completions", "spec.completions")
    return _Size(Arrangement.SWEEP, min(_or(spec.parallelism, array.count), array.count), None, array.count, array)


def _gang(spec: wire.DistributedSpec, complaints: _Complaints) -> _Size:
    leaders = 1 if spec.master_spec is not None and not spec.no_master else 0
    most = _or(spec.max_replicas, spec.num_workers)
    least = _or(spec.min_replicas, most)
    if least > most:
        what = f"minReplicas ({least}) is greater than maxReplicas ({most})"
        complaints.add("spec.elastic_range", what, "lower minReplicas or raise maxReplicas", "spec.minReplicas")
    return _Size(pods=most + leaders, minimum=least + leaders if least < most else None)


def _replicas(spec: wire.InferenceSpec, complaints: _Complaints) -> _Size:
    scaling = spec.autoscaling
    least = scaling.min_replicas
    most = _or(scaling.max_replicas, max(least, 1))
    if most < least:
        what = f"minReplicas ({least}) is greater than maxReplicas ({most})"
        complaints.add(
            "spec.replica_range", what, "lower minReplicas or raise maxReplicas", "spec.autoscaling.maxReplicas"
        )
    if spec.serving_port is None and not spec.ports:
        fix = "set the port that the model listens on, e.g. 8000"
        complaints.add("spec.no_serving_port", "inference needs a serving port", fix, "spec.servingPort")
    return _Size(Arrangement.REPLICAS, _or(scaling.initial_replicas, max(least, 1)))


# --- where a pod may go --------------------------------------------------------------------------------------


def _shape(spec: wire.CommonSpec, kind: wire.Kind, context: AdmissionContext, complaints: _Complaints) -> PodShape:
    gpu = gpu_request(spec.compute, complaints.items)
    return PodShape(
        gpu=gpu,
        cpu_milli=_cpu(spec.compute, gpu),
        memory_bytes=_memory(spec.compute, gpu),
        extended=tuple(sorted((each.resource, each.quantity) for each in spec.compute.extended_resources)),
        node_rules=_node_rules(spec, kind, context, complaints),
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
            fix = "use 1g.5gb, 2g.10gb, 3g.20gb, 4g.20gb or 7g.40gb"
            return Problem("gpu.mig_profile", f"unsupported mig device: {compute.mig_profile}", fix)
        return GpuRequest(mig=((f"nvidia.com/mig-{compute.mig_profile}", _or(devices, 1)),))
    if compute.gpu_memory_request is not None:
        size = bytes_of(compute.gpu_memory_request)
        if size is None or size < GPU_MEMORY_MIN_BYTES:
            return Problem("gpu.memory_too_small", "gpu memory must be greater than 100Mb", "request more, e.g. 4G")
        return gpu_memory(-(-size // MIB), _or(devices, 1))
    if compute.gpu_portion_request is not None:
        milli = parse_gpus(gpu_text(compute.gpu_portion_request))
        if isinstance(milli, Problem):
            return milli
        if not 0 < milli <= WHOLE_GPU_MILLI:
            what = f"{compute.gpu_portion_request} is not a valid GPU fraction"
            return Problem("gpu.portion", what, "use a value above 0 and up to 1 for each device")
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


def requested_gpus_milli(spec: WorkloadSpec, device_memory_mib: int = 0) -> int:
    """GPUs of all pods together; of a request by memory, the devices where their size is not known."""
    shapes = [spec.template_of(index).shape for index in range(min(spec.pods, 2))]
    charged = [gpus_charged_milli(shape.gpu, device_memory_mib) for shape in shapes]
    return sum(charged) + max(spec.pods - 2, 0) * (charged[-1] if charged else 0)


def quota_milli(amount: int | float) -> int | Problem:
    """A quota of GPUs in thousandths; -1 stays -1. Unlike a request, a quota may be 2.5."""
    if amount == -1:
        return -1
    try:
        milli = Decimal(gpu_text(amount)) * WHOLE_GPU_MILLI
    except InvalidOperation:
        return Problem(
            "gpu.not_a_number", f"{amount} is not a number of GPUs", "use e.g. 4 or 2.5, or -1 for unlimited"
        )
    if milli < 0 or milli != milli.to_integral_value():
        fix = "use 0 or more with at most three decimals, or -1 for unlimited"
        return Problem("gpu.quota", f"{amount} is not a valid GPU quota", fix)
    return int(milli)


def _cpu(compute: wire.Compute, gpu: GpuRequest) -> int:
    if compute.cpu_core_request is not None:
        return _milli(compute.cpu_core_request)
    return gpus_charged_milli(gpu) * DEFAULT_CPU_PER_GPU_MILLI // WHOLE_GPU_MILLI


def _milli(cores: int | float) -> int:
    return int((Decimal(repr(cores)) * 1000).to_integral_value(ROUND_CEILING))


def _memory(compute: wire.Compute, gpu: GpuRequest) -> int:
    if compute.cpu_memory_request is not None:
        return bytes_of(compute.cpu_memory_request) or 0
    return gpus_charged_milli(gpu) * DEFAULT_MEMORY_PER_GPU // WHOLE_GPU_MILLI


def bytes_of(text: str) -> int | None:
    """`4Gi`, `500M`: bytes, rounded up; None: not a quantity."""
    match = QUANTITY.fullmatch(text)
    if match is None:
        return None
    suffix = match["suffix"] or ""
    factor = Decimal("0.001") if suffix == "m" else Decimal(SUFFIXES[suffix])
    return int((Decimal(match["number"]) * factor).to_integral_value(ROUND_CEILING))


def _node_rules(
    spec: wire.CommonSpec, kind: wire.Kind, context: AdmissionContext, complaints: _Complaints
) -> tuple[tuple[NodeSelectorRequirement, ...], ...]:
    types = context.project.node_types
    permitted = types.workspace if kind is wire.Kind.WORKSPACE else types.training
    always: list[NodeSelectorRequirement] = []
    if spec.node_type is not None:
        if permitted and spec.node_type not in permitted:
            what = f"project {context.project.name} may not use nodes of type {spec.node_type}"
            complaints.add("spec.node_type", what, f"use one of {', '.join(permitted)}", "spec.nodeType")
        always.append(NodeSelectorRequirement(NODE_TYPE_LABEL, NodeSelectorOperator.IN, (spec.node_type,)))
    elif permitted:
        always.append(NodeSelectorRequirement(NODE_TYPE_LABEL, NodeSelectorOperator.IN, tuple(sorted(permitted))))
    alternatives = _affinity(spec.node_affinity_required, complaints)
    if not alternatives:
        return (tuple(always),) if always else ()
    return tuple((*always, *rules) for rules in alternatives)


def _affinity(document: dict[str, Any] | None, complaints: _Complaints) -> list[tuple[NodeSelectorRequirement, ...]]:
    if not document:
        return []
    try:
        return [
            tuple(
                NodeSelectorRequirement(
                    str(each["key"]), NodeSelectorOperator(each["operator"]), tuple(map(str, each.get("values") or ()))
                )
                for each in term["matchExpressions"]
            )
            for term in document["nodeSelectorTerms"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        fix = "set nodeSelectorTerms, each with matchExpressions of key, operator and values"
        complaints.add("spec.node_affinity", "the node affinity is not valid", fix, "spec.nodeAffinityRequired")
        return []


def _toleration(each: wire.TolerationWire) -> Toleration:
    value = None if each.operator == "Exists" else each.value or ""
    return Toleration(each.key, value, TaintEffect(each.effect) if each.effect else None)


def _pools(spec: wire.CommonSpec, context: AdmissionContext, complaints: _Complaints) -> tuple[PoolName, ...]:
    chosen = spec.node_pools or context.project.default_node_pools
    for name in chosen:
        if name not in context.pools:
            fix = f"use one of {', '.join(sorted(context.pools))}"
            complaints.add("spec.node_pool", f"there is no node pool {name}", fix, "spec.nodePools")
    return tuple(PoolName(name) for name in dict.fromkeys(chosen))


# --- after others, and with which folder -------------------------------------------------------------------------


def _after(spec: wire.CommonSpec, context: AdmissionContext, complaints: _Complaints) -> tuple[Dependency, ...]:
    found: dict[WorkloadId, Dependency] = {}
    for said in spec.after:
        name, _, how = said.partition(":")
        known = context.work.get(name)
        if known is None:
            what = f"there is no job {name} in project {context.project.name} to start after"
            complaints.add("spec.after", what, "use the name of an existing job", "spec.after")
            continue
        if known in found:
            complaints.add("spec.after", f"{name} is listed twice", "list each job once", "spec.after")
        found[known] = Dependency(workload=known, name=name, any_end=how == "any")
    return tuple(found.values())


def _check_workdir(spec: wire.CommonSpec, context: AdmissionContext, complaints: _Complaints) -> None:
    if spec.workdir is None:
        return
    if not context.has_upload:
        what = "the upload does not exist, is not yours, or is used by another job or project"
        complaints.add("spec.upload", what, "upload the folder again", "spec.workdir.upload")
    if spec.workdir.path.strip("/") == "":
        complaints.add("spec.workdir", "a folder cannot be mounted at /", "use /workdir", "spec.workdir.path")


# --- what runs, and how it ranks -----------------------------------------------------------------------------


def _program(spec: wire.PodSpecWire, common: wire.CommonSpec, context: AdmissionContext) -> Program:
    compute = spec.compute
    return Program(
        image=spec.image,
        command=_words(spec.command),
        arguments=_words(spec.args),
        environment=tuple({each.name: each.value for each in spec.environment_variables}.items()),
        working_dir=_working_dir(spec.working_dir or "", common.workdir),
        volumes=_volumes(common),
        tty=common.tty,
        stdin=common.stdin,
        cpu_limit_milli=_milli(compute.cpu_core_limit) if compute.cpu_core_limit is not None else 0,
        memory_limit_bytes=(bytes_of(compute.cpu_memory_limit) or 0) if compute.cpu_memory_limit else 0,
        shm_bytes=LARGE_SHM_BYTES if compute.large_shm_request else 0,
        python_env=spec.python_env or "",
        submitter_uid=context.submitter_uid,
    )


def _working_dir(wanted: str, workdir: wire.Workdir | None) -> str:
    """Where it starts: in the folder that came with it, unless it says otherwise."""
    if workdir is None or wanted.startswith("/"):
        return wanted
    return f"{workdir.path.rstrip('/')}/{wanted}".rstrip("/")


def _volumes(common: wire.CommonSpec) -> tuple[Volume, ...]:
    storage = common.storage
    uploaded = [Volume(target=common.workdir.path.rstrip("/"), uploaded=True)] if common.workdir is not None else []
    folders = [Volume(target=each.mount_path, source=each.path, read_only=each.read_only) for each in storage.host_path]
    claims = [
        Volume(target=each.path, claim=each.claim_name, read_only=each.read_only)
        for each in storage.pvc
        if each.claim_name
    ]
    return (*uploaded, *folders, *claims)


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


def _leader(
    submit: wire.SubmitAny, shape: PodShape, context: AdmissionContext, complaints: _Complaints
) -> PodTemplate | None:
    if not isinstance(submit, wire.SubmitDistributed) or submit.spec.master_spec is None or submit.spec.no_master:
        return None
    master = submit.spec.master_spec
    gpu = gpu_request(master.compute, complaints.items, "spec.masterSpec.compute")
    place = PodShape(
        gpu=gpu,
        cpu_milli=_cpu(master.compute, gpu),
        memory_bytes=_memory(master.compute, gpu),
        extended=tuple(sorted((each.resource, each.quantity) for each in master.compute.extended_resources)),
        node_rules=shape.node_rules,
        tolerations=shape.tolerations,
        labels=shape.labels,
    )
    own = master if master.image else master.model_copy(update={"image": submit.spec.image})
    program = _program(own, submit.spec, context)
    return PodTemplate(shape=place, program=program)


def _precedence(spec: wire.CommonSpec, complaints: _Complaints) -> tuple[bool | None, int | None]:
    preemptible = None if spec.preemptibility is None else spec.preemptibility == "preemptible"
    if spec.priority_class is not None and spec.priority_class not in PRIORITY_CLASSES:
        fix = f"use one of {', '.join(PRIORITY_CLASSES)}"
        complaints.add(
            "spec.priority_class", f"there is no priority {spec.priority_class!r}", fix, "spec.priorityClass"
        )
    return preemptible, PRIORITY_CLASSES.get(spec.priority_class or "")


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
