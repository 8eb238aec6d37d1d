"""HTTP routes for storage classes: what volume claims can be made of.

There is one, on every cluster: a claim is a folder on the disk of the node (`control/storage_request.py`).
"""

from __future__ import annotations

from typing import Annotated

from starlette.requests import Request

from fairpool.api import storage_classes as wire
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
    found = await plane.read(lambda connection: _clusters(connection, cluster, name))
    return wire.StorageClasses(
        items=[
            wire.StorageClass(
                cluster_id=each, storage_class_name=STORAGE_CLASS, spec=wire.StorageClassSpec(provisioner=PROVISIONER)
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
    found = await plane.read(lambda connection: _clusters(connection, cluster, name))
    spec = wire.OlderClassSpec(provisioner=PROVISIONER)
    return wire.OlderClasses(
        items=[wire.OlderClass(cluster_id=each, storage_class_name=STORAGE_CLASS, spec=spec) for each in found]
    )


@routes.get(
    "/v1/k8s/clusters/{cluster_id}/storage-classes",
    action=Action.ASSET_READ,
    before=check_cluster,
    answer=wire.ClassNames,
    summary="List the names of the storage classes of a cluster",
)
async def class_names(request: Request, plane: Plane, caller: Caller) -> wire.ClassNames:
    return wire.ClassNames(storage_classes=[STORAGE_CLASS])


def _clusters(connection: Connection, cluster: str, name: str) -> list[str]:
    """The ids of the clusters that have the class."""
    if name not in ("", STORAGE_CLASS):
        return []
    if cluster:
        return [cluster_of(connection, cluster)]
    return [str(row.id) for row in cluster_store.all_clusters(connection)]
