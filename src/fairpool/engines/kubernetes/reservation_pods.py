"""Reservation pods as Kubernetes objects, and pods with parts of GPUs read back. Pure.

A reservation has two containers. The first one to run writes which GPU the device plugin gave it into its termination
message, and ends; kubelets give the devices of such an init container to the next one, which only holds the GPU. So the
UUID arrives with the watch of pods, as part of the pod's status: no call to the kubelet is needed as for a log, the pod
needs no rights in the API as it would to annotate itself, and only the kubelet of its node can write it. It stays
there as long as the pod exists, also for a loop that starts later. Whatever is not exactly one UUID is not believed.

The name follows from node and seat, so that the API server refuses a second reservation, even by another loop. The pod
is restarted whatever happens to its containers, because the GPU would be free if it ended. It ignores SIGTERM until its
grace period is over: when a node is drained, the pods that share the GPU end first. The period is not longer because
kubelets do not shorten one that has begun, whatever the API server says.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY, RESERVATION_NAMESPACE
from fairpool.engines.kubernetes.objects import FINALIZER, POD, RESERVATION, SHARED_GPUS, stored_order
from fairpool.engines.kubernetes.pod_reading import PodObject, PodStatus, has_ended
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.shares import PARTS, Create, Reservation, SharePod
from fairpool.model.ids import NodeName, PodId

ATTEMPT = "fairpool.io/attempt"
BOOT = "fairpool.io/boot"
MARK = "share.fairpool.io/"
"""Beginning of annotations of a reservation: a pod is being created with its GPU. The rest is different each time."""
PRIORITY_CLASS = "fairpool-reservation"
PRIORITY = 1_000_000_000
"""The highest that is not one of the system's, for which kubelets would evict other pods."""
GRACE_S = 60
"""Longer than that of most pods."""
SEAT_MAX = 1000
NODE_PART = 40
USER = 65532
GPU_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
MESSAGE_MAX = 300

REPORT = """\
gpu=$NVIDIA_VISIBLE_DEVICES
case $gpu in GPU-*|MIG-*) ;; *) gpu=$(nvidia-smi --query-gpu=uuid --format=csv,noheader) ;; esac
printf %s "$gpu" >/dev/termination-log
"""
"""Where devices are injected by CDI, the variable does not name them."""
HOLD = "trap '' TERM; while :; do sleep 86400; done"


def reservation_name(node: NodeName, seat: int, attempt: int) -> str:
    """The name of the reservation pod of a seat."""
    readable = re.sub("[^a-z0-9]+", "-", node.lower())[:NODE_PART].strip("-") or "node"
    digest = hashlib.sha256(node.encode()).hexdigest()[:8]
    return f"gpu-{seat}-{readable}-{digest}" + (f"-{attempt}" if attempt else "")


def reservation_manifest(wanted: Create, settings: PodSettings, *, with_priority: bool) -> dict[str, Any]:
    """A reservation pod."""
    labels = {MANAGED_BY: FAIRPOOL, RESERVATION: str(wanted.seat), "app.kubernetes.io/name": "gpu-reservation"}
    annotations = {BOOT: wanted.boot_id, ATTEMPT: str(wanted.attempt)}
    words = f"Holds one GPU of {wanted.node} for pods that share it. Fairpool removes it with the last of them."
    spec: dict[str, Any] = {
        "nodeName": wanted.node,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [_container("report", REPORT, settings)],
        "containers": [_container("hold", HOLD, settings)],
    }
    if settings.runtime_class:
        spec["runtimeClassName"] = settings.runtime_class
    if with_priority:
        spec["priorityClassName"] = PRIORITY_CLASS
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": reservation_name(wanted.node, wanted.seat, wanted.attempt),
            "namespace": RESERVATION_NAMESPACE,
            "labels": labels,
            "annotations": {**annotations, "kubernetes.io/description": words},
            "finalizers": [FINALIZER],
        },
        "spec": spec,
    }


def namespace_manifest() -> dict[str, Any]:
    """The namespace of reservation pods."""
    labels = {MANAGED_BY: FAIRPOOL, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RESERVATION_NAMESPACE, "labels": labels}}


def priority_class_manifest() -> dict[str, Any]:
    """The priority of reservation pods: a node that runs short of memory or disk evicts them last."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PRIORITY_CLASS, "labels": {MANAGED_BY: FAIRPOOL}},
        "value": PRIORITY,
        "preemptionPolicy": "Never",
        "globalDefault": False,
        "description": "Fairpool: pods that hold a GPU for others which share it",
    }


def is_reservation(pod: PodObject) -> bool:
    """Whether a pod is one of ours that holds a GPU. Labels alone prove nothing: elsewhere users can set them."""
    labels = pod.metadata.labels or {}
    return (
        pod.metadata.namespace == RESERVATION_NAMESPACE and labels.get(MANAGED_BY) == FAIRPOOL and RESERVATION in labels
    )


def read_reservation(pod: PodObject) -> Reservation | None:
    """None: it is not a reservation that this engine created."""
    metadata, annotations = pod.metadata, pod.metadata.annotations or {}
    if not is_reservation(pod) or not pod.spec.node_name:
        return None
    node, seat = NodeName(pod.spec.node_name), _number((metadata.labels or {}).get(RESERVATION, ""))
    attempt = _number(annotations.get(ATTEMPT, ""))
    if seat is None or attempt is None or metadata.name != reservation_name(node, seat, attempt):
        return None
    is_deleted = metadata.deletion_timestamp is not None
    return Reservation(
        node=node,
        seat=seat,
        attempt=attempt,
        name=metadata.name,
        uid=metadata.uid,
        version=metadata.resource_version,
        boot_id=annotations.get(BOOT, ""),
        gpu=_reported(pod.status),
        marks=tuple(sorted((key, PodId(value)) for key, value in annotations.items() if key.startswith(MARK))),
        has_ended=has_ended(pod),
        grace_s=(metadata.deletion_grace_period_seconds or 0) if is_deleted else None,
        has_finalizer=FINALIZER in (metadata.finalizers or ()),
        message=_trouble(pod.status),
    )


def read_share(pod: PodObject) -> SharePod | None:
    """A pod of ours with parts of GPUs; None: it is something else, or cannot be read."""
    metadata, annotations = pod.metadata, pod.metadata.annotations or {}
    labels = metadata.labels or {}
    if SHARED_GPUS not in annotations or labels.get(MANAGED_BY) != FAIRPOOL or POD not in labels:
        return None
    order = stored_order(metadata.name, pod.spec.node_name or "", annotations)
    if order is None or order.shape.gpu.kind not in PARTS:
        return None
    gpus = tuple(annotations[SHARED_GPUS].split(","))
    is_valid = len(gpus) == len(order.devices) and all(map(GPU_UUID.fullmatch, gpus))
    return SharePod(
        pod=order.pod,
        uid=metadata.uid,
        node=order.node,
        boot_id=order.boot_id,
        seats=order.devices,
        gpus=gpus if is_valid else (),
        request=order.shape.gpu,
        has_ended=has_ended(pod),
    )


def _container(name: str, script: str, settings: PodSettings) -> dict[str, Any]:
    amounts = {"cpu": "10m", "memory": "32Mi", settings.gpu_resource: "1"}
    return {
        "name": name,
        "image": settings.reservation_image,
        "command": ["/bin/sh", "-c", script],
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _reported(status: PodStatus) -> str:
    """The GPU that the first container reported."""
    for each in status.init_container_statuses or ():
        end = each.state.terminated if each.state is not None else None
        text = (end.message or "").strip() if end is not None and end.exit_code == 0 else ""
        if each.name == "report" and GPU_UUID.fullmatch(text):
            return text
    return ""


def _trouble(status: PodStatus) -> str:
    """Why it does not start or has ended."""
    if status.reason or status.message:
        return _short(": ".join(part for part in (status.reason, status.message) if part))
    for each in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        waiting = each.state.waiting if each.state is not None else None
        if waiting is not None and waiting.reason not in (None, "ContainerCreating", "PodInitializing"):
            return _short(": ".join(part for part in (waiting.reason, waiting.message) if part))
        end = each.state.terminated if each.state is not None else None
        if end is not None and (end.exit_code or (each.name == "report" and not _reported(status))):
            return _short(f"it reported no GPU: {end.message or end.reason or end.exit_code}")
    return ""


def _short(text: str) -> str:
    return text if len(text) <= MESSAGE_MAX else f"{text[:MESSAGE_MAX]}…"


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 and int(text) < SEAT_MAX else None
