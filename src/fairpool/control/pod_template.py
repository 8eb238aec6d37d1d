"""Pod templates of a submit: resources, node selection, and the program that runs. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from fairpool.api import pod_spec
from fairpool.api import workload_spec as wire
from fairpool.api.organization import ProjectRequest
from fairpool.api.problems import ProblemList
from fairpool.control.placement_request import node_preferences, node_rules, tolerations
from fairpool.control.resource_request import bytes_of, cores_milli, cpu_milli_of, gpu_request, memory_bytes_of
from fairpool.control.storage_request import StorageContext, variables_of, volumes_of
from fairpool.model.spec import (
    CleanPodPolicy,
    DistributedRun,
    Framework,
    PodTemplate,
    Program,
    PullPolicy,
    SecretVariable,
    SecurityContext,
)
from fairpool.model.workload import PodShape

OWN_FLAGS = {
    "nvidia.com/gpu": "request GPUs with --gpu (API: compute.gpu)",
    "nvidia.com/mig-": "request a MIG instance with --mig-profile (API: compute.migProfile)",
    "cpu": "request CPU cores with --cpu (API: compute.cpuCoreRequest)",
    "memory": "request memory with --memory (API: compute.cpuMemoryRequest)",
}

FROM_THE_IMAGE = "fromTheImage"
"""As the source of uid and gid: the user that the image names."""
FROM_THE_DIRECTORY = "fromIdpToken"
"""The same: the IDs that the submitter has at the identity provider."""

LARGE_SHM_BYTES = 64 * 1024**3

IDLE = ("sleep", "2147483647")
"""What a worker of MPI runs until it is stopped: every image has it, unlike a `sleep` that knows infinity."""

PLAIN_WORDS = re.compile(r"[A-Za-z0-9_.,:=@%+/ -]*")


def pod_shape(
    spec: wire.CommonSpec,
    kind: wire.Kind,
    project: ProjectRequest,
    problems: ProblemList,
    *,
    in_containers: bool | None = None,
) -> PodShape:
    """`in_containers`: only nodes that run containers will do, or only those that do not."""
    gpu = gpu_request(spec.compute, problems)
    return PodShape(
        gpu=gpu,
        cpu_milli=cpu_milli_of(spec.compute, gpu),
        memory_bytes=memory_bytes_of(spec.compute, gpu),
        extended=_extended(spec.compute, problems, "spec.compute"),
        node_rules=node_rules(spec, kind, project, problems, in_containers=in_containers),
        tolerations=tolerations(spec.tolerations),
        labels=tuple(sorted(spec.labels.items())),
        preferences=node_preferences(spec.node_affinity_preferred, problems),
    )


def _extended(compute: pod_spec.Compute, problems: ProblemList, place: str) -> tuple[tuple[str, int], ...]:
    """Extended resources by name. GPUs, MIG instances, CPU and memory have fields of their own."""
    counts: dict[str, int] = {}
    for each in compute.extended_resources:
        name = each.resource
        counts[name] = counts.get(name, 0) + each.quantity
        fix = OWN_FLAGS.get("nvidia.com/mig-" if name.startswith("nvidia.com/mig-") else name)
        if fix is not None:
            what = f"{name} is not an extended resource"
            problems.add("spec.extended_resource", what, fix, f"{place}.extendedResources")
    return tuple(sorted(counts.items()))


def program_of(
    spec: pod_spec.PodSpecWire, common: wire.CommonSpec, submitter_uid: int | None, storage: StorageContext
) -> Program:
    compute = spec.compute
    variables = {each.name: each for each in spec.environment_variables}  # the last one of a name counts
    return Program(
        image=spec.image,
        command=_words(spec.command),
        arguments=_words(spec.args),
        environment=variables_of(variables.values(), storage),
        working_dir=_working_dir(spec.working_dir or "", common.workdir),
        volumes=volumes_of(common, storage),
        tty=common.tty,
        stdin=common.stdin,
        cpu_limit_milli=cores_milli(compute.cpu_core_limit) if compute.cpu_core_limit is not None else 0,
        memory_limit_bytes=(bytes_of(compute.cpu_memory_limit) or 0) if compute.cpu_memory_limit else 0,
        shm_bytes=LARGE_SHM_BYTES if compute.large_shm_request else 0,
        python_env=spec.python_env or "",
        submitter_uid=submitter_uid,
        host_roots=storage.roots,
        ports=_ports(common),
        pull_policy=PullPolicy(spec.image_pull_policy) if spec.image_pull_policy else None,
        security=_security(common.security),
        secrets=tuple(
            SecretVariable(name=name, credential=each.credential.name, key=each.credential.key)
            for name, each in variables.items()
            if each.credential is not None
        ),
        image_credential=spec.image_pull_secret or "",
    )


def _ports(common: wire.CommonSpec) -> tuple[int, ...]:
    """Where the pods take connections, in order."""
    found = {each.container for each in common.ports} | {each.container for each in common.exposed_urls}
    if isinstance(common, wire.InferenceSpec) and common.serving_port is not None:
        found.add(common.serving_port.container)
    return tuple(sorted(found))


def _security(asked: pod_spec.Security) -> SecurityContext:
    return SecurityContext(
        uid=asked.run_as_uid,
        gid=asked.run_as_gid,
        groups=tuple(int(each) for each in group_numbers(asked.supplemental_groups)),
        image_user=asked.uid_gid_source == FROM_THE_IMAGE,
        directory_user=asked.uid_gid_source == FROM_THE_DIRECTORY,
        capabilities=tuple(each.upper().removeprefix("CAP_") for each in asked.capabilities),
        host_network=asked.host_network,
        host_ipc=asked.host_ipc,
    )


def group_numbers(text: str | None) -> list[str]:
    """The parts of a list of groups such as `100,200`, whether they are numbers or not."""
    return [each.strip() for each in re.split("[,;]", text or "") if each.strip()]


def _working_dir(wanted: str, workdir: pod_spec.Workdir | None) -> str:
    """The working directory: by default that of the upload."""
    if workdir is None or wanted.startswith("/"):
        return wanted
    return f"{workdir.path.rstrip('/')}/{wanted}".rstrip("/")


def _words(text: Sequence[str] | str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    if not isinstance(text, str):
        return tuple(text)
    if PLAIN_WORDS.fullmatch(text):
        return tuple(text.split())  # the same result, faster
    try:
        return tuple(shlex.split(text))
    except ValueError:  # an unclosed quote is taken literally
        return tuple(text.split())


def leader_template(
    submit: wire.SubmitAny,
    shape: PodShape,
    submitter_uid: int | None,
    storage: StorageContext,
    problems: ProblemList,
) -> PodTemplate | None:
    if not isinstance(submit, wire.SubmitDistributed) or not has_leader(submit.spec):
        return None
    master = submit.spec.master_spec or launcher_spec(submit.spec)
    gpu = gpu_request(master.compute, problems, "spec.masterSpec.compute")
    place = PodShape(
        gpu=gpu,
        cpu_milli=cpu_milli_of(master.compute, gpu),
        memory_bytes=memory_bytes_of(master.compute, gpu),
        extended=_extended(master.compute, problems, "spec.masterSpec.compute"),
        node_rules=shape.node_rules,
        tolerations=shape.tolerations,
        labels=shape.labels,
        preferences=shape.preferences,
    )
    own = master if master.image else master.model_copy(update={"image": submit.spec.image})
    program = program_of(own, submit.spec, submitter_uid, storage)
    if submit.spec.master_no_pvcs:
        program = replace(program, volumes=tuple(each for each in program.volumes if not each.claim))
    return PodTemplate(shape=place, program=program)


def has_leader(spec: wire.DistributedSpec) -> bool:
    """Whether pod 0 is another than the workers. MPI has a launcher in any case."""
    return not spec.no_master and (spec.master_spec is not None or spec.distributed_framework == Framework.MPI)


def launcher_spec(spec: wire.DistributedSpec) -> pod_spec.PodSpecWire:
    """The launcher of MPI where none is described: the program of the workload, without GPUs."""
    fields = pod_spec.PodSpecWire.model_fields
    same = {name: getattr(spec, name) for name in fields if name != "compute"}
    return pod_spec.PodSpecWire.model_construct(**same, compute=pod_spec.Compute())


def worker_program(submit: wire.SubmitAny, submitter_uid: int | None, storage: StorageContext) -> Program:
    """What the pods run, but for a leader. Workers of MPI run what their launcher starts in them, so that by themselves
    they only wait, unless they were given a command of their own."""
    spec = submit.spec
    program = program_of(spec, spec, submitter_uid, storage)
    if not isinstance(submit, wire.SubmitDistributed) or submit.spec.distributed_framework != Framework.MPI:
        return program
    is_own = submit.spec.master_spec is not None and (spec.command or spec.args)
    return program if is_own else replace(program, command=IDLE, arguments=())


def distributed_run(submit: wire.SubmitAny) -> DistributedRun | None:
    """How the pods of distributed training work together; None also for plain PyTorch, as before there was a choice: so
    clusters of the previous version run it."""
    if not isinstance(submit, wire.SubmitDistributed):
        return None
    spec = submit.spec
    run = DistributedRun(
        framework=Framework(spec.distributed_framework),
        slots_per_worker=spec.slots_per_worker or 1,
        clean_pods=CleanPodPolicy(spec.clean_pod_policy),
    )
    return run if run != DistributedRun() else None
