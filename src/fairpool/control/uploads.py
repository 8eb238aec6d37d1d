"""HTTP routes for uploads: a directory for a job is announced, sent in pieces, unpacked, and named by a submit.

The control plane stores none of it. An upload is kept where pods run, under the id that the workload will have; whether
it is still needed follows from the workloads, and the rest is removed.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Annotated

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import uploads as wire
from fairpool.api.limits import PIECE_MAX_BYTES
from fairpool.api.problems import problem_item
from fairpool.control import preferences
from fairpool.control.plane import ActionResult, Caller, Plane, answered
from fairpool.control.pod_access import PodAccessError
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, denied, refused, unknown
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.submit import new_id
from fairpool.control.upload_lookup import HeldUpload, all_uploads, find_upload
from fairpool.model.upload import Bounds, Upload

log = logging.getLogger("fairpool.control")

routes = Routes("uploads")

MIB = 1 << 20
LEFT_OVER_S = 3600
"""An upload that no job uses is removed after this time."""
UNUSED_MAX = 8
"""Uploads of one user that no job uses, finished or not."""
SWEEP_EVERY_S = 15.0
STATUS = {
    "upload.unknown": 404,
    "upload.too_large": 413,
    "upload.too_many_files": 413,
    "upload.too_many": 429,
    "upload.gap": 409,
    "upload.busy": 409,
    "upload.incomplete": 409,
    "upload.no_room": 507,
    "upload.disk_full": 507,
    "upload.not_written": 503,
    "upload.unreachable": 503,
    "cluster.away": 503,
    "cluster.silent": 503,
}
"""Everything else is wrong with the archive: 422."""
PIECE = {
    "required": True,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@routes.post(
    "/api/v1/uploads", action=Action.WORKLOAD_SUBMIT, answer=wire.UploadAnswer, status=201, summary="Start an upload"
)
async def begin(request: Request, plane: Plane, caller: Caller, body: wire.UploadRequest) -> Response:
    """The archive must be a gzip-compressed tar file with regular files and folders only."""

    def unit(connection: Connection) -> tuple[Bounds, str]:
        project = organization_store.project(connection, body.project_id)
        if project is None or not caller.may_in_part(
            Action.WORKLOAD_SUBMIT, project.name, project.department, project.cluster
        ):
            raise denied()
        return _bounds(plane, connection), project.cluster

    bounds, cluster = await plane.read(unit)
    if body.archive_bytes > bounds.size_bytes:
        what = f"the folder is larger than the maximum of {bounds.size_bytes // MIB} MiB"
        raise refused(413, "upload.too_large", what, "remove files that the job does not need", "archiveBytes")
    await _refuse_too_many(plane, caller)
    upload = Upload(id=new_id(plane.now()), owner=caller.id, project=body.project_id, size_bytes=body.archive_bytes)
    try:
        await plane.pod_access.of(cluster).begin_upload(upload, bounds.total_bytes)
    except PodAccessError as error:
        raise _refusal(error) from error
    plane.pod_access.note_holder(upload.id, cluster)
    await plane.note(request, caller, _audited("create", upload))
    return answered(ActionResult(body=_answer(upload), status=201))


@routes.put(
    "/api/v1/uploads/{upload_id}",
    action=Action.WORKLOAD_SUBMIT,
    answer=wire.UploadAnswer,
    summary="Upload a piece of the archive",
    request_body=PIECE,
)
async def write(
    upload_id: str,
    request: Request,
    plane: Plane,
    caller: Caller,
    offset: Annotated[int, Parameter(ge=0, le=2**53, description="Byte offset of this piece in the archive")] = 0,
) -> wire.UploadAnswer:
    """Send the pieces in order. A piece may be sent again."""
    held = await _mine(plane, caller, upload_id)
    piece = await request.body()
    if len(piece) > PIECE_MAX_BYTES:
        what = f"a piece may be at most {PIECE_MAX_BYTES // MIB} MiB"
        raise refused(413, "request.too_large", what, "send smaller pieces")
    try:
        received = await held.access.write_upload(upload_id, offset, piece)
    except PodAccessError as error:
        raise _refusal(error) from error
    return _answer(held.upload, received)


@routes.post(
    "/api/v1/uploads/{upload_id}/complete",
    action=Action.WORKLOAD_SUBMIT,
    answer=wire.UploadAnswer,
    summary="Complete an upload and unpack it",
)
async def complete(upload_id: str, plane: Plane, caller: Caller) -> wire.UploadAnswer:
    """Returns when the files are on disk. A refused archive is deleted."""
    held = await _mine(plane, caller, upload_id)
    bounds = await plane.read(lambda connection: _bounds(plane, connection))
    try:
        return _answer(await held.access.finish_upload(upload_id, bounds))
    except PodAccessError as error:
        raise _refusal(error) from error


@routes.delete(
    "/api/v1/uploads/{upload_id}",
    action=Action.WORKLOAD_SUBMIT,
    status=204,
    summary="Delete an upload that no job uses",
)
async def remove(upload_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    held = await _mine(plane, caller, upload_id)
    if await plane.read(lambda connection: workload_store.one(connection, upload_id)) is not None:
        raise refused(409, "upload.in_use", "a job uses this upload", "delete the job; the upload is deleted with it")
    try:
        await held.access.remove_upload(upload_id)
    except PodAccessError as error:
        raise _refusal(error) from error
    await plane.note(request, caller, _audited("delete", held.upload))
    return Response(None, 204)


async def _refuse_too_many(plane: Plane, caller: Caller) -> None:
    """One user cannot fill the disk with uploads that no job uses."""
    mine = [each.upload.id for each in await all_uploads(plane) if each.upload.owner == caller.id]

    def unit(connection: Connection) -> int:
        return sum(workload_store.one(connection, each) is None for each in mine)

    unused = await plane.read(unit) if len(mine) >= UNUSED_MAX else 0
    if unused >= UNUSED_MAX:
        what = f"no job was submitted with {unused} of your uploads"
        raise refused(429, "upload.too_many", what, "submit or delete them; after an hour they are removed")


async def _mine(plane: Plane, caller: Caller, upload_id: str) -> HeldUpload:
    """The caller's own upload; another user's is reported as unknown."""
    held = await find_upload(plane, upload_id)
    if held is None or held.upload.owner != caller.id:
        raise unknown("upload", upload_id, is_hidden=held is not None)
    return held


def _bounds(plane: Plane, connection: Connection) -> Bounds:
    size_mib = preferences.current_value(plane.settings, connection, preferences.UPLOAD_SIZE)
    return Bounds(
        size_bytes=size_mib * MIB,
        files=preferences.current_value(plane.settings, connection, preferences.UPLOAD_FILES),
        total_bytes=preferences.current_value(plane.settings, connection, preferences.UPLOADS_TOTAL) * MIB,
    )


def _answer(upload: Upload, received: int = 0) -> wire.UploadAnswer:
    if not upload.is_complete:
        return wire.UploadAnswer(id=upload.id, project_id=upload.project, received_bytes=received)
    return wire.UploadAnswer(
        id=upload.id, project_id=upload.project, complete=True, files=upload.files, bytes=upload.size_bytes
    )


def _audited(action: str, upload: Upload) -> ActionResult:
    return ActionResult(action=action, entity_type="upload", entity_id=upload.id, entity_name=upload.project)


def _refusal(error: PodAccessError) -> Refused:
    return Refused(STATUS.get(error.problem.code, 422), [problem_item(error.problem)])


# --- what is not needed any more -----------------------------------------------------------------------------


async def delete_unused_uploads(plane: Plane) -> None:
    """Remove unused uploads until cancelled."""
    while True:
        await asyncio.sleep(SWEEP_EVERY_S)
        try:
            await sweep(plane)
        except Exception:  # nothing is lost, the next round tries again
            log.exception("could not clean up uploaded folders; retrying in %g s", SWEEP_EVERY_S)


async def sweep(plane: Plane) -> None:
    """Remove uploads of workloads that are gone, and uploads that no job used in time."""
    for held in await all_uploads(plane):
        row = await plane.read(partial(workload_store.one, workload_id=held.upload.id))
        is_over = held.upload.age_s > LEFT_OVER_S if row is None else row.deleted_at is not None
        if is_over:
            with suppress(PodAccessError):  # its cluster went away; the next round tries again
                await held.access.remove_upload(held.upload.id)
