"""Finds the cluster that holds an upload."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fairpool.control.plane import Plane
from fairpool.control.pod_access import PodAccessError, UploadAccess
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection
from fairpool.model.upload import Upload


@dataclass(frozen=True, slots=True)
class HeldUpload:
    """An upload, and the cluster that has it."""

    upload: Upload
    access: UploadAccess


async def find_upload(plane: Plane, upload_id: str) -> HeldUpload | None:
    """The upload, kept for another hour; None: no cluster that is connected has it.

    A cluster is believed only about projects of its own, so that none can draw another's uploads to itself.
    """
    known = plane.pod_access.holder(upload_id)
    for cluster in await plane.pod_access.reachable() if known is None else [known]:
        access = plane.pod_access.of(cluster)
        try:
            upload = await access.claim_upload(upload_id)
        except PodAccessError:
            continue  # away: as if it had none
        if upload is not None and upload.id == upload_id and await _is_in(plane, upload.project, cluster):
            plane.pod_access.note_holder(upload_id, cluster)
            return HeldUpload(upload, access)
    return None


async def all_uploads(plane: Plane) -> list[HeldUpload]:
    """The uploads of every cluster that is connected."""
    clusters = await plane.pod_access.reachable()
    return [each for held in await asyncio.gather(*(_held(plane, cluster) for cluster in clusters)) for each in held]


async def _held(plane: Plane, cluster: str) -> list[HeldUpload]:
    access = plane.pod_access.of(cluster)
    try:
        return [HeldUpload(upload, access) for upload in await access.uploads()]
    except PodAccessError:
        return []


async def _is_in(plane: Plane, project: str, cluster: str) -> bool:
    def unit(connection: Connection) -> bool:
        row = organization_store.project(connection, project)
        return row is not None and cluster in ("", row.cluster)

    return await plane.read(unit)
