"""Pods as Kubernetes objects: a start order as a manifest, and the order read back from it. Pure.

A pod is created already bound to its node. The order is kept with it as an annotation, so that a lost ledger can be
rebuilt; a finalizer keeps the pod until its end was recorded. Whatever an order asks for that a pod on Kubernetes
cannot be given is refused by name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fairpool.agent.peers import HOSTFILE_NAME, hostfile, is_mpi
from fairpool.engines.kubernetes.names import ServiceRole, service_name, workload_labels
from fairpool.engines.kubernetes.pod_container import (
    OWN,
    SHARES,
    container,
    peer_hosts,
    pod_host_name,
    security_context,
)
from fairpool.engines.kubernetes.pod_preparation import preparing_containers
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.pod_volumes import pod_volumes, volume_objection
from fairpool.engines.kubernetes.share_library import library_volumes
from fairpool.model.container_rules import privilege_objection
from fairpool.model.ids import Token
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem
from fairpool.model.spec import Program
from fairpool.model.workload import GpuKind, Toleration

POD = "fairpool.io/pod"
"""Label: the id of the pod, or a digest of one that cannot be a label."""
TOKEN = "fairpool.io/token"
"""Label: the fencing token of the loop that created the pod."""
KEPT = "fairpool.io/kept"
"""Label of a pod whose end was recorded: it exists for its output only."""
RESERVATION = "fairpool.io/reservation"
"""Label of a pod that holds a GPU for pods that share it."""
SHARED_GPUS = "fairpool.io/shared-gpus"
"""Annotation of a pod with parts of GPUs: their UUIDs, in the order of the devices of its order."""
ORDER = "fairpool.io/order"
DEVICES = "fairpool.io/gpu-indexes"
"""Annotation for people: the GPUs that the pod was given, as the scheduler numbers them."""
HOSTS = "fairpool.io/hosts"
"""Annotation: the host file of an MPI run; mounted as a file."""
FINALIZER = "fairpool.io/recorded"
GRACE_MIN_S = 1
"""0 would remove the object at once, whether anything still runs or not."""
ORDER_MAX = 200_000
"""All annotations of an object together may have 256 KiB."""
NUMBER_MAX = 2**53
DEVICES_MAX = 1024
"""No order has larger numbers or more devices: one that does is not read."""
NAME_PART = 42
DIGEST_CHARACTERS = 8
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
LABEL_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
OWN_LABEL = re.compile(r"(.*\.)?(fairpool\.io|kubernetes\.io|k8s\.io)/.*")
NODE_TROUBLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints by which Kubernetes would stop pods of a silent node after five minutes; the loop decides that."""

Manifest = dict[str, Any]

_order = msgspec.json.Decoder(StartOrder)


def pod_name(order: StartOrder) -> str:
    """The name of a pod: a DNS label that people recognize, and that no other pod id has."""
    readable = re.sub("[^a-z0-9]+", "-", order.name.lower())[:NAME_PART].strip("-") or "pod"
    return f"{readable}-{order.index}-{order.incarnation}-{_digest(order.pod)}"


def label_value(text: str) -> str:
    """An id as the value of a label: itself where that is possible."""
    return text if LABEL_VALUE.fullmatch(text) else f"id-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def pod_objection(order: StartOrder, settings: PodSettings) -> Problem | None:
    """Why no pod on Kubernetes can be what this order asks for."""
    program = order.program
    if not program.image:
        return Problem("image.none", "the job names no image", "name one with --image")
    if program.python_env:
        what = "a Python environment of the machine cannot be used in a container"
        return Problem("python_env.container", what, "use an image that contains the packages")
    if order.shape.gpu.kind is GpuKind.MIG:
        return Problem(
            "gpu.mig", "MIG instances are not available on Kubernetes yet", "request whole GPUs or a portion"
        )
    return (
        _label_objection(order)
        or _group_objection(program)
        or privilege_objection(program, settings.privileges, is_gang=False, runtime="kubernetes")
        or volume_objection(program, settings)
    )


def pod_manifest(
    order: StartOrder,
    token: Token,
    namespace: str,
    settings: PodSettings,
    *,
    pull_secrets: Sequence[str] = (),
    shared_gpus: Sequence[str] = (),
    gpu_memory_mib: int = 0,
) -> Manifest | Problem:
    """The pod that carries out an order. `shared_gpus`: the devices of a part of a GPU, by UUID, as the order lists
    them."""
    if problem := pod_objection(order, settings):
        return problem
    try:
        stored = msgspec.json.encode(order).decode()
    except UnicodeEncodeError:
        what = "the job contains characters that are not Unicode, which Kubernetes does not store"
        return Problem("text.unicode", what, "remove them from its command, variables and files")
    if len(stored) > ORDER_MAX:
        what = f"the job takes up {len(stored):,} bytes with its variables and files; a pod has room for {ORDER_MAX:,}"
        return Problem("order.long", what, "put large files into a volume claim or the image")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(order),
            "namespace": namespace,
            "labels": _labels(order, token),
            "annotations": _annotations(order, stored, shared_gpus),
            "finalizers": [FINALIZER],
        },
        "spec": {
            **_spec(order, settings, shared_gpus, gpu_memory_mib),
            "imagePullSecrets": [{"name": name} for name in pull_secrets],
        },
    }


def stored_order(name: str, node: str, annotations: Mapping[str, str] | None) -> StartOrder | None:
    """The order of the pod with this name on this node; None: there is none, or one that is not of this pod."""
    text = (annotations or {}).get(ORDER, "")
    if not text or len(text) > ORDER_MAX:
        return None
    try:
        order = _order.decode(text)
    except (msgspec.DecodeError, UnicodeError, ValueError, TypeError, RecursionError):
        return None
    return order if _is_within_bounds(order) and pod_name(order) == name and order.node == node else None


def without_finalizer(uid: str, *, is_kept: bool) -> Manifest:
    """A strategic merge patch of this very pod: its end was recorded. `is_kept`: it stays for its output."""
    found: Manifest = {"uid": uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
    return {"metadata": {**found, "labels": {KEPT: "true"}} if is_kept else found}


def _is_within_bounds(order: StartOrder) -> bool:
    shape = order.shape
    counts = (order.index, order.incarnation, order.run, order.pods, order.minimum or 0, order.grace_s)
    amounts = (shape.cpu_milli, shape.memory_bytes, *(number for _, number in shape.extended))
    gpus = (shape.gpu.devices, shape.gpu.portion_milli, shape.gpu.memory_mib)
    return (
        all(0 <= number <= NUMBER_MAX for number in (*counts, *amounts, *gpus, order.created_at))
        and all(0 <= device < DEVICES_MAX for device in order.devices)
        and len(set(order.devices)) == len(order.devices)
    )


def _labels(order: StartOrder, token: Token) -> dict[str, str]:
    """Those of the workload's owner are added, ours have precedence."""
    return {
        **dict(order.shape.labels),
        **{name: label_value(value) for name, value in _of_workload(order).items()},
        POD: label_value(order.pod),
        TOKEN: str(token),
    }


def _of_workload(order: StartOrder) -> dict[str, str]:
    kinds = {"app.kubernetes.io/name": order.name, "fairpool.io/kind": order.kind.value}
    return {**kinds, **workload_labels(order.project, order.name, order.workload)}


def _annotations(order: StartOrder, stored: str, shared_gpus: Sequence[str]) -> dict[str, str]:
    found = {ORDER: stored}
    if order.shape.gpu.kind in SHARES:
        found[SHARED_GPUS] = ",".join(shared_gpus)
    if order.devices:
        found[DEVICES] = ",".join(map(str, order.devices))
    if is_mpi(order):
        found[HOSTS] = hostfile(order, peer_hosts(order))
    return found


def _spec(order: StartOrder, settings: PodSettings, shared_gpus: Sequence[str], gpu_memory_mib: int) -> Manifest:
    security = order.program.security
    volumes, mounts = pod_volumes(order, settings)
    if is_mpi(order):
        item = {"path": HOSTFILE_NAME, "fieldRef": {"fieldPath": f"metadata.annotations['{HOSTS}']"}}
        volumes.append({"name": "hosts", "downwardAPI": {"items": [item]}})
        mounts.append({"name": "hosts", "mountPath": OWN, "readOnly": True})
    preparing, logins = preparing_containers(order, settings, security_context(security))
    volumes += logins
    is_share = order.shape.gpu.kind in SHARES
    if is_share:
        more_volumes, more_mounts = library_volumes(settings)
        volumes, mounts = [*volumes, *more_volumes], [*mounts, *more_mounts]
    found: Manifest = {
        "nodeName": order.node,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": max(GRACE_MIN_S, order.grace_s),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "initContainers": preparing,
        "containers": [container(order, settings, mounts, shared_gpus, gpu_memory_mib)],
        "volumes": volumes,
        "tolerations": [*map(_toleration, order.shape.tolerations), *_patience()],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "hostNetwork": security.host_network,
        "hostIPC": security.host_ipc,
        "runtimeClassName": settings.runtime_class if is_share else "",
    }
    if security.groups:
        found["securityContext"]["supplementalGroups"] = list(security.groups)
    if peer_hosts(order):
        found["hostname"] = pod_host_name(order, order.index)
        found["subdomain"] = service_name(order.name, order.workload, ServiceRole.PODS)
    if security.host_network:
        found["dnsPolicy"] = "ClusterFirstWithHostNet"
    return {field: value for field, value in found.items() if value or isinstance(value, bool)}


def _toleration(toleration: Toleration) -> Manifest:
    found: Manifest = {"operator": "Exists" if toleration.value is None else "Equal"}
    if toleration.key:
        found["key"] = toleration.key
    if toleration.value is not None:
        found["value"] = toleration.value
    if toleration.effect is not None:
        found["effect"] = toleration.effect.value
    return found


def _patience() -> list[Manifest]:
    return [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in NODE_TROUBLE]


# --- what is refused


def _label_objection(order: StartOrder) -> Problem | None:
    for key, value in order.shape.labels:
        if not LABEL_KEY.fullmatch(key) or (value and not LABEL_VALUE.fullmatch(value)):
            what = f"{key}={value} cannot be a label of a pod"
            return Problem("label.invalid", what, "use letters, digits, '-', '_' and '.', at most 63 of them")
        if OWN_LABEL.fullmatch(key):
            return Problem("label.reserved", f"the label {key} is reserved", "use another key")
    return None


def _group_objection(program: Program) -> Problem | None:
    security = program.security
    if security.gid is not None and security.uid is None:
        what = "a container cannot run with another group and the user of its image"
        return Problem("security.group", what, "name a user too (--run-as-user), or no group")
    return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]
