"""Admission: from a submit request to the declared workload, or to everything that is wrong with it. Pure.

What nothing here can carry out is refused by name: a field that is accepted and then ignored would be a broken promise.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from fairpool.api import pod_spec
from fairpool.api import workload_spec as wire
from fairpool.api.limits import NAME_PATTERN, WORKLOAD_NAME_MAX
from fairpool.api.organization import ProjectRequest
from fairpool.api.problems import ProblemItem, ProblemList
from fairpool.control.credential_checks import KnownCredential, check_credentials
from fairpool.control.placement_request import topology_constraint
from fairpool.control.pod_template import (
    distributed_run,
    has_leader,
    leader_template,
    pod_shape,
    worker_program,
)
from fairpool.control.port_checks import check_ports
from fairpool.control.resource_request import or_else
from fairpool.control.storage_request import StorageContext, check_storage, pods_of, resolved_value
from fairpool.control.unsupported import needs_container, refusals
from fairpool.model.array import Array, array_problems, parse_numbers
from fairpool.model.ids import Instant, PoolName, QueueId, WorkloadId
from fairpool.model.image_name import fits, is_reference, without_registry, without_tag
from fairpool.model.organization import DEFAULT_GRACES
from fairpool.model.precedence import PRIORITY_CLASSES
from fairpool.model.problem import Problem
from fairpool.model.spec import (
    DEFAULT_GRACE_S,
    Arrangement,
    Dependency,
    DesiredState,
    Framework,
    PodTemplate,
    RestartPolicy,
    WorkloadSpec,
)
from fairpool.model.workload import (
    WorkloadKind,
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

NAME = re.compile(NAME_PATTERN)

BAD_NAME = (
    "Job names must consist of lower case alphanumeric characters or '-' and start with an alphabetic character "
    "(e.g. 'my-name',  or 'abc-123')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionContext:
    """What a submit is checked against."""

    project: ProjectRequest
    pools: frozenset[str]
    """Names of all node pools; empty if the submit names none."""
    images: tuple[str, ...] | None = None
    """Patterns of the images that nodes without containers can run; None: there are no such nodes, or unknown."""
    has_containers: bool = False
    """The cluster has nodes that run containers."""
    directory_users: bool = False
    """Its nodes without containers can run processes with the uid and gid of a directory."""
    storage: StorageContext = StorageContext()
    credentials: Mapping[str, KnownCredential] = field(default_factory=dict)
    """Those that it refers to and that are in the project's scope, by name."""
    work: Mapping[str, WorkloadId] = field(default_factory=dict)
    """Workloads named in `after`, by the name or id used there."""
    has_upload: bool = False
    """The upload it names is complete, the caller's own, for this project, and not used by another workload."""
    grace_most_s: int = DEFAULT_GRACES.most_s
    """The longest grace period that may be requested."""
    topologies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Levels of the network topologies; empty if the submit names none."""
    unmatched_topologies: frozenset[str] = frozenset()
    """Those that no node of the cluster is in, because no node has all their labels."""
    submitter_uid: int | None = None
    """User id of the caller on the server's machine, if it connected over the Unix socket."""


WORDS_MAX_BYTES = 1024 * 1024
"""Arguments and environment of one pod together: slightly below the limit of Linux."""


def _check_words(spec: wire.CommonSpec, storage: StorageContext, problems: ProblemList) -> None:
    for place, pod in pods_of(spec).items():
        variables = pod.environment_variables
        words = sum(len(each.name) + len(resolved_value(each, storage).encode()) + 2 for each in variables)
        for said in (pod.command or "", pod.args or ""):
            words += sum(len(each.encode()) + 1 for each in ([said] if isinstance(said, str) else said))
        if words > WORDS_MAX_BYTES:
            what = f"the arguments and environment take {words} bytes; the maximum is {WORDS_MAX_BYTES}"
            problems.add("spec.too_many_words", what, "put large values in a file", f"{place}.environmentVariables")


def _check_grace(spec: wire.CommonSpec, most_s: int, problems: ProblemList) -> None:
    asked_s = or_else(spec.termination_grace_period_seconds, 0)
    if asked_s > most_s:
        what = f"a grace period of {asked_s} s exceeds the maximum of {most_s} s"
        fix = f"use at most {most_s} s"
        problems.add("spec.grace_too_long", what, fix, "spec.terminationGracePeriodSeconds")


def admit(
    submit: wire.SubmitAny, context: AdmissionContext, *, workload_id: WorkloadId, name: str, now: Instant
) -> WorkloadSpec | list[ProblemItem]:
    """The declared workload, or everything that is wrong with the request."""
    problems = ProblemList()
    kind = KIND_OF_SUBMIT[type(submit)]
    spec: wire.CommonSpec = submit.spec
    if len(name) > WORKLOAD_NAME_MAX or not NAME.fullmatch(name):
        fix = f"use at most {WORKLOAD_NAME_MAX} characters: a-z, 0-9 and -"
        problems.add("workload.name", BAD_NAME, fix, "name")
    problems += refusals(submit, has_containers=context.has_containers, directory_users=context.directory_users)
    if not spec.image and not _commands(submit):
        problems.add("spec.no_image", "-i, --image must be set", "specify the image to run", "spec.image")
    if spec.tty and not spec.stdin:
        what = "--stdin is required for containers with -t/--tty=true"
        problems.add("spec.tty_without_stdin", what, "also set stdin", "spec.stdin")
    _check_words(spec, context.storage, problems)
    _check_images(submit, context, problems)
    check_ports(submit, problems)
    check_storage(spec, context.storage, context.project.name, workload_id, problems)
    check_credentials(submit, context.credentials, context.project.name, problems)
    _check_grace(spec, context.grace_most_s, problems)
    size = _size(submit, problems)
    shape = pod_shape(spec, kind, context.project, problems, in_containers=_runs_in_containers(submit, context))
    leader = leader_template(submit, shape, context.submitter_uid, context.storage, problems)
    lifecycle = _lifecycle(spec, size, problems)
    pools = _pools(spec, context, problems)
    constraint = topology_constraint(submit, context.topologies, context.unmatched_topologies, problems)
    after = _after(spec, context, problems)
    _check_workdir(spec, context, problems)
    if problems:
        return problems
    return WorkloadSpec(
        id=workload_id,
        name=name,
        project=QueueId(submit.project_id),
        created_at=now,
        kind=KINDS[kind],
        template=PodTemplate(shape=shape, program=worker_program(submit, context.submitter_uid, context.storage)),
        leader=leader,
        pools=pools,
        constraint=constraint,
        desired_state=DesiredState.STOP if submit.suspended else DesiredState.RUN,
        after=after,
        distributed=distributed_run(submit),
        **lifecycle,
    )


def admit_at_once(
    submit: wire.SubmitAny, before: WorkloadSpec, fields: Collection[str], *, grace_most_s: int, has_containers: bool
) -> WorkloadSpec | list[ProblemItem]:
    """An admitted workload with changes that hold for pods that run, or everything that is wrong with these `fields`.

    What its pods run stays as it was admitted: config maps, credentials, claims and folders may differ by now.
    """
    problems = ProblemList()
    problems += [each for each in refusals(submit, has_containers=has_containers) if _top_field(each) in fields]
    _check_grace(submit.spec, grace_most_s, problems)
    lifecycle = _lifecycle(submit.spec, _size(submit, problems), problems)
    if problems:
        return problems
    labels = tuple(sorted(submit.spec.labels.items()))
    leader = before.leader and _labelled(before.leader, labels)
    return replace(before, template=_labelled(before.template, labels), leader=leader, **lifecycle)


def _top_field(problem: ProblemItem) -> str:
    return (problem.field or "").removeprefix("spec.").partition(".")[0]


def _labelled(template: PodTemplate, labels: tuple[tuple[str, str], ...]) -> PodTemplate:
    return replace(template, shape=replace(template.shape, labels=labels))


def _lifecycle(spec: wire.CommonSpec, size: _Size, problems: ProblemList) -> dict[str, Any]:
    """The values of a workload that hold at once when they are changed."""
    preemptible, priority = _precedence(spec, problems)
    return {
        "arrangement": size.arrangement,
        "pods": size.pods,
        "minimum": size.minimum,
        "completions": size.completions,
        "array": size.array,
        "priority": priority,
        "preemptible": preemptible,
        "restart": RESTARTS[spec.restart_policy] if spec.restart_policy else None,
        "retries": spec.backoff_limit,
        "deadline_s": spec.deadline_seconds,
        "ttl_s": spec.auto_deletion_time_after_completion_seconds,
        "grace_s": or_else(spec.termination_grace_period_seconds, DEFAULT_GRACE_S),
    }


def _commands(submit: wire.SubmitAny) -> bool:
    """Whether it says what to run, without an image."""
    is_gang = isinstance(submit, wire.SubmitDistributed) and submit.spec.distributed_framework == Framework.MPI
    master = submit.spec.master_spec if isinstance(submit, wire.SubmitDistributed) and is_gang else None
    return bool(submit.spec.command) or (master is not None and bool(master.command))


# --- what there must be -----------------------------------------------------------------------------------------


def _check_images(submit: wire.SubmitAny, context: AdmissionContext, problems: ProblemList) -> None:
    """An image that the cluster does not have would never start, unless it is added meanwhile."""
    asked = {"spec.image": submit.spec.image}
    if isinstance(submit, wire.SubmitDistributed) and submit.spec.master_spec is not None:
        asked["spec.masterSpec.image"] = submit.spec.master_spec.image
    if context.has_containers:
        for place, name in asked.items():
            if name and not is_reference(name):
                fix = "expected e.g. python:3.12 or registry.example.com:5000/team/image:tag"
                problems.add("image.name", f"{name!r} is not a valid image name", fix, place)
        return
    if context.images is None or submit.wait_anyway:
        return
    for place, name in asked.items():
        if not name or any(fits(name, pattern) for pattern in context.images):
            continue
        near = difflib.get_close_matches(without_tag(without_registry(name)), context.images, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        listed = f"{'A' if meant else 'a'}vailable images: {', '.join(context.images)}"
        fix = f"{meant}{listed}; to queue it regardless, use --wait-anyway (API: waitAnyway)"
        problems.add("image.unknown", f"there is no image {name} on this cluster", fix, place)


def _runs_in_containers(submit: wire.SubmitAny, context: AdmissionContext) -> bool | None:
    """Where only some nodes run containers: whether its pods belong on one of them, because the others cannot run them;
    None: all nodes are alike."""
    if not context.has_containers or context.images is None:
        return None
    specs: list[pod_spec.PodSpecWire] = [submit.spec]
    if isinstance(submit, wire.SubmitDistributed) and submit.spec.master_spec is not None:
        specs.append(submit.spec.master_spec)
    images = [each.image for each in specs if each.image]
    return (
        any(each.image_pull_policy == "Always" for each in specs)
        or needs_container(submit.spec.security, directory_users=context.directory_users)
        or any(not any(fits(name, pattern) for pattern in context.images) for name in images)
    )


# --- how many ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Size:
    arrangement: Arrangement = Arrangement.TOGETHER
    pods: int = 1
    minimum: int | None = None
    completions: int | None = None
    array: Array | None = None


def _size(submit: wire.SubmitAny, problems: ProblemList) -> _Size:
    match submit:
        case wire.SubmitTraining(spec=spec):
            return _sweep(spec, problems)
        case wire.SubmitDistributed(spec=spec):
            return _gang(spec, problems)
        case wire.SubmitInference(spec=spec):
            return _replicas(spec, problems)
        case _:
            return _Size()


def _sweep(spec: wire.TrainingSpec, problems: ProblemList) -> _Size:
    if spec.array is not None:
        return _array_size(spec, spec.array, problems)
    if spec.completions is None and or_else(spec.parallelism, 1) > 1:
        what = "if the parallelism flag is set, you must also set the number of successful pod completions"
        problems.add("spec.parallelism_alone", what, "also set completions", "spec.completions")
    if spec.completions is None:
        return _Size()
    parallel = min(or_else(spec.parallelism, 1), spec.completions)
    return _Size(Arrangement.SWEEP, parallel, None, spec.completions)


def _array_size(spec: wire.TrainingSpec, asked: wire.JobArray, problems: ProblemList) -> _Size:
    """A sweep whose runs differ; all run at once unless `parallelism` is set."""
    numbers = parse_numbers(asked.indices) if asked.indices is not None else ()
    if isinstance(numbers, Problem):
        problems.add_problem(numbers, "spec.array.indices")
        return _Size()
    array = Array(
        ranges=numbers,
        parameters=tuple((each.name, tuple(each.values)) for each in asked.parameters),
        arguments=tuple(map(tuple, asked.arguments)),
    )
    for problem in array_problems(array):
        problems.add_problem(problem, "spec.array")
        return _Size()
    words = sum(len(word.encode()) for row in array.arguments for word in row)
    words += sum(len(value.encode()) for _, values in array.parameters for value in values)
    if words > WORDS_MAX_BYTES:
        what = f"the array values take {words} bytes; the maximum is {WORDS_MAX_BYTES}"
        problems.add("array.too_long", what, "put them in a file that each run reads", "spec.array")
    if spec.completions is not None and spec.completions != array.count:
        what = f"the array has {array.count} runs, but completions is {spec.completions}"
        problems.add("array.completions", what, "remove completions", "spec.completions")
    return _Size(Arrangement.SWEEP, min(or_else(spec.parallelism, array.count), array.count), None, array.count, array)


def _gang(spec: wire.DistributedSpec, problems: ProblemList) -> _Size:
    leaders = 1 if has_leader(spec) else 0
    most = or_else(spec.max_replicas, spec.num_workers)
    least = or_else(spec.min_replicas, most)
    if least > most:
        what = f"minReplicas ({least}) is greater than maxReplicas ({most})"
        problems.add("spec.elastic_range", what, "lower minReplicas or raise maxReplicas", "spec.minReplicas")
    return _Size(pods=most + leaders, minimum=least + leaders if least < most else None)


def _replicas(spec: wire.InferenceSpec, problems: ProblemList) -> _Size:
    """A fixed number: `unsupported.py` refuses a maximum or an initial number that differs from the minimum."""
    if spec.serving_port is None and not spec.ports:
        fix = "set the port that the model listens on, e.g. 8000"
        problems.add("spec.no_serving_port", "inference needs a serving port", fix, "spec.servingPort")
    return _Size(Arrangement.REPLICAS, max(spec.autoscaling.min_replicas, 1))


def _pools(spec: wire.CommonSpec, context: AdmissionContext, problems: ProblemList) -> tuple[PoolName, ...]:
    chosen = spec.node_pools or context.project.default_node_pools
    for name in chosen:
        if name not in context.pools:
            fix = f"use one of {', '.join(sorted(context.pools))}"
            problems.add("spec.node_pool", f"there is no node pool {name}", fix, "spec.nodePools")
    return tuple(PoolName(name) for name in dict.fromkeys(chosen))


# --- after others, and with which folder -------------------------------------------------------------------------


def _after(spec: wire.CommonSpec, context: AdmissionContext, problems: ProblemList) -> tuple[Dependency, ...]:
    found: dict[WorkloadId, Dependency] = {}
    for said in spec.after:
        name, _, how = said.partition(":")
        known = context.work.get(name)
        if known is None:
            what = f"there is no job {name} in project {context.project.name} to start after"
            problems.add("spec.after", what, "use the name of an existing job", "spec.after")
            continue
        if known in found:
            problems.add("spec.after", f"{name} is listed twice", "list each job once", "spec.after")
        found[known] = Dependency(workload=known, name=name, any_end=how == "any")
    return tuple(found.values())


def _check_workdir(spec: wire.CommonSpec, context: AdmissionContext, problems: ProblemList) -> None:
    if spec.workdir is None:
        return
    if not context.has_upload:
        what = "the upload does not exist, is not yours, or is used by another job or project"
        problems.add("spec.upload", what, "upload the folder again", "spec.workdir.upload")
    if spec.workdir.path.strip("/") == "":
        problems.add("spec.workdir", "a folder cannot be mounted at /", "use /workdir", "spec.workdir.path")


def _precedence(spec: wire.CommonSpec, problems: ProblemList) -> tuple[bool | None, int | None]:
    preemptible = None if spec.preemptibility is None else spec.preemptibility == "preemptible"
    if spec.priority_class is not None and spec.priority_class not in PRIORITY_CLASSES:
        fix = f"use one of {', '.join(PRIORITY_CLASSES)}"
        problems.add("spec.priority_class", f"there is no priority {spec.priority_class!r}", fix, "spec.priorityClass")
    return preemptible, PRIORITY_CLASSES.get(spec.priority_class or "")
