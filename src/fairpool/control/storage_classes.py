"""HTTP routes for storage classes: what volume claims can be made of.

A cluster with classes of its own reports them. Every other has one: a claim is a folder on the disk of the node
(`control/storage_request.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from starlette.requests import Request

from fairpool.api import storage_classes as wire
from fairpool.control.cluster_equipment import equipment_of
from fairpool.control.older_organization import check_cluster
from fairpool.control.organization import cluster_of
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.routes import Parameter, Routes
from fairpool.control.storage_request import STORAGE_CLASS
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store.database import Connection

routes = Routes("assets")

PROVISIONER = "fairpool/local"
ClusterQuery = Annotated[str, Parameter(alias="clusterId", max_length=256, description="Only those of this cluster")]
Name = Annotated[str, Parameter(max_length=256, description="Only those of this name")]


@routes.get(
    "/api/v2/storage-classes", action=Action.ASSET_READ, answer=wire.StorageClasses, summary="List storage classes"
)
async def storage_classes(
    plane: Plane, caller: Caller, cluster: ClusterQuery = "", name: Name = ""
) -> wire.StorageClasses:
    """The kinds of storage that volume claims are made of."""
    found = await plane.read(lambda connection: _classes(connection, cluster, name))
    return wire.StorageClasses(
        items=[
            wire.StorageClass(
                cluster_id=each.cluster,
                storage_class_name=each.name,
                spec=wire.StorageClassSpec(provisioner=each.provisioner, is_default=each.is_default),
            )
            for each in found
        ]
    )


@routes.get(
    "/api/v1/storage-classes",
    action=Action.ASSET_READ,
    answer=wire.OlderClasses,
    summary="List storage classes, in older words",
)
async def older_classes(plane: Plane, caller: Caller, cluster: ClusterQuery = "", name: Name = "") -> wire.OlderClasses:
    found = await plane.read(lambda connection: _classes(connection, cluster, name))
    return wire.OlderClasses(
        items=[
            wire.OlderClass(
                cluster_id=each.cluster,
                storage_class_name=each.name,
                spec=wire.OlderClassSpec(provisioner=each.provisioner, is_default=each.is_default),
            )
            for each in found
        ]
    )


@routes.get(
    "/v1/k8s/clusters/{cluster_id}/storage-classes",
    action=Action.ASSET_READ,
    before=check_cluster,
    answer=wire.ClassNames,
    summary="List the names of the storage classes of a cluster",
)
async def class_names(request: Request, plane: Plane, caller: Caller) -> wire.ClassNames:
    found = await plane.read(lambda connection: _classes(connection, request.path_params["cluster_id"], ""))
    return wire.ClassNames(storage_classes=[each.name for each in found])


@dataclass(frozen=True, slots=True)
class _Class:
    cluster: str
    name: str
    provisioner: str
    is_default: bool


def _classes(connection: Connection, cluster: str, name: str) -> list[_Class]:
    """Those of this cluster or of all, and of this name if one is given."""
    ids = [cluster_of(connection, cluster)] if cluster else [row.id for row in cluster_store.all_clusters(connection)]
    found = [each for one in ids for each in _classes_of(connection, str(one))]
    return [each for each in found if name in ("", each.name)]


def _classes_of(connection: Connection, cluster: str) -> list[_Class]:
    there = equipment_of(connection, cluster)
    if there is None:
        return [_Class(cluster, STORAGE_CLASS, PROVISIONER, is_default=True)]
    return [
        _Class(cluster, name, provisioner, is_default=name == there.default_class)
        for name, provisioner in sorted(there.storage_classes.items())
    ]
