"""PersistentVolumeClaims that a workload mounts and the cluster has to provide. Pure.

A claim belongs to its project, not to the workload that asked for it first: others may mount it, and it is deleted
only when the control plane asks for it. Claims that others created are mounted as they are and never changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairpool.engines.kubernetes.manifests import OWNED, ObjectManifest, manifest
from fairpool.engines.kubernetes.names import PROJECT, claim_name
from fairpool.engines.kubernetes.resources import VOLUME_CLAIMS
from fairpool.model.spec import AccessMode, WorkloadSpec

ACCESS_MODES: Mapping[AccessMode, str] = {
    AccessMode.ONE_NODE: "ReadWriteOnce",
    AccessMode.READ_ONLY: "ReadOnlyMany",
    AccessMode.SHARED: "ReadWriteMany",
}
DEFAULT_CLASS_ANNOTATION = "storageclass.kubernetes.io/is-default-class"


def default_class(annotations: Mapping[str, Mapping[str, str]]) -> str:
    """The class that claims without one get, from the annotations of all; empty: none. Of several that are marked,
    Kubernetes takes the newest, and the first is named here."""
    marked = [name for name, each in annotations.items() if each.get(DEFAULT_CLASS_ANNOTATION) == "true"]
    return min(marked, default="")


def claim_manifests(spec: WorkloadSpec, namespace: str) -> list[ObjectManifest]:
    """Those of a workload that have to be there before its pods can start."""
    templates = [spec.template, *([spec.leader] if spec.leader is not None else [])]
    wanted = {
        volume.claim: volume
        for each in templates
        for volume in each.program.volumes
        if volume.claim and volume.size_bytes
    }
    found = []
    for name, volume in sorted(wanted.items()):
        content: dict[str, object] = {
            "accessModes": [ACCESS_MODES[volume.access]],
            "resources": {"requests": {"storage": _quantity(volume.size_bytes)}},
        }
        if volume.storage_class:
            content["storageClassName"] = volume.storage_class
        labels = {**OWNED, PROJECT: spec.project}
        found.append(manifest(VOLUME_CLAIMS, claim_name(name), {"spec": content}, namespace=namespace, labels=labels))
    return found


def _quantity(size_bytes: int) -> str:
    """As people write it, if it is a whole number of some unit."""
    units = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
    return next((f"{size_bytes // unit}{name}" for name, unit in units if size_bytes % unit == 0), str(size_bytes))
