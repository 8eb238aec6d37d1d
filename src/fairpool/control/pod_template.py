"""Pod templates of a submit: resources, node selection, and the program that runs. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from fairpool.api import pod_spec
from fairpool.api import workload_spec as wire
from fairpool.api.organization import ProjectRequest
from fairpool.api.problems import ProblemList
from fairpool.control.resource_request import (
    bytes_of,
    cores_milli,
    cpu_milli_of,
    extended_resources,
    gpu_request,
    memory_bytes_of,
)
from fairpool.model.node import TaintEffect
from fairpool.model.spec import (
    PodTemplate,
    Program,
    Volume,
)
from fairpool.model.workload import (
    NodeSelectorOperator,
    NodeSelectorRequirement,
    PodShape,
    Toleration,
)

NODE_TYPE_LABEL = "run.ai/type"

LARGE_SHM_BYTES = 64 * 1024**3

PLAIN_WORDS = re.compile(r"[A-Za-z0-9_.,:=@%+/ -]*")


def pod_shape(spec: wire.CommonSpec, kind: wire.Kind, project: ProjectRequest, problems: ProblemList) -> PodShape:
    gpu = gpu_request(spec.compute, problems)
    return PodShape(
        gpu=gpu,
        cpu_milli=cpu_milli_of(spec.compute, gpu),
        memory_bytes=memory_bytes_of(spec.compute, gpu),
        extended=extended_resources(spec.compute, problems),
        node_rules=_node_rules(spec, kind, project, problems),
        tolerations=tuple(_toleration(each) for each in spec.tolerations),
        labels=tuple(sorted(spec.labels.items())),
    )


def _node_rules(
    spec: wire.CommonSpec, kind: wire.Kind, project: ProjectRequest, problems: ProblemList
) -> tuple[tuple[NodeSelectorRequirement, ...], ...]:
    types = project.node_types
    permitted = types.workspace if kind is wire.Kind.WORKSPACE else types.training
    always: list[NodeSelectorRequirement] = []
    if spec.node_type is not None:
        if permitted and spec.node_type not in permitted:
            what = f"project {project.name} may not use nodes of type {spec.node_type}"
            problems.add("spec.node_type", what, f"use one of {', '.join(permitted)}", "spec.nodeType")
        always.append(NodeSelectorRequirement(NODE_TYPE_LABEL, NodeSelectorOperator.IN, (spec.node_type,)))
    elif permitted:
        always.append(NodeSelectorRequirement(NODE_TYPE_LABEL, NodeSelectorOperator.IN, tuple(sorted(permitted))))
    alternatives = _affinity(spec.node_affinity_required, problems)
    if not alternatives:
        return (tuple(always),) if always else ()
    return tuple((*always, *rules) for rules in alternatives)


def _affinity(document: dict[str, Any] | None, problems: ProblemList) -> list[tuple[NodeSelectorRequirement, ...]]:
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
        problems.add("spec.node_affinity", "the node affinity is not valid", fix, "spec.nodeAffinityRequired")
        return []


def _toleration(each: pod_spec.PodToleration) -> Toleration:
    value = None if each.operator == "Exists" else each.value or ""
    return Toleration(each.key, value, TaintEffect(each.effect) if each.effect else None)


def program_of(spec: pod_spec.PodSpecWire, common: wire.CommonSpec, submitter_uid: int | None) -> Program:
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
        cpu_limit_milli=cores_milli(compute.cpu_core_limit) if compute.cpu_core_limit is not None else 0,
        memory_limit_bytes=(bytes_of(compute.cpu_memory_limit) or 0) if compute.cpu_memory_limit else 0,
        shm_bytes=LARGE_SHM_BYTES if compute.large_shm_request else 0,
        python_env=spec.python_env or "",
        submitter_uid=submitter_uid,
    )


def _working_dir(wanted: str, workdir: pod_spec.Workdir | None) -> str:
    """The working directory: by default that of the upload."""
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
        return tuple(text.split())  # the same result, faster
    try:
        return tuple(shlex.split(text))
    except ValueError:  # an unclosed quote is taken literally
        return tuple(text.split())


def leader_template(
    submit: wire.SubmitAny, shape: PodShape, submitter_uid: int | None, problems: ProblemList
) -> PodTemplate | None:
    if not isinstance(submit, wire.SubmitDistributed) or submit.spec.master_spec is None or submit.spec.no_master:
        return None
    master = submit.spec.master_spec
    gpu = gpu_request(master.compute, problems, "spec.masterSpec.compute")
    place = PodShape(
        gpu=gpu,
        cpu_milli=cpu_milli_of(master.compute, gpu),
        memory_bytes=memory_bytes_of(master.compute, gpu),
        extended=extended_resources(master.compute, problems, "spec.masterSpec.compute"),
        node_rules=shape.node_rules,
        tolerations=shape.tolerations,
        labels=shape.labels,
    )
    own = master if master.image else master.model_copy(update={"image": submit.spec.image})
    program = program_of(own, submit.spec, submitter_uid)
    return PodTemplate(shape=place, program=program)
