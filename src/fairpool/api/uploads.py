"""Uploads of directories for jobs, as requests and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, StrictInt, StringConstraints

from fairpool.api.wire import Answer, ProjectName, Request

UploadId = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"),
    Field(examples=["0190c1f0-0000-7000-8000-000000000000"]),
]


class UploadRequest(Request):
    """`POST /api/v1/uploads`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"projectId": "team-a", "archiveBytes": 20480}]})
    project_id: ProjectName
    archive_bytes: Annotated[
        StrictInt, Field(ge=1, le=2**53, description="Size of the archive, a gzip-compressed tar file")
    ]


class UploadAnswer(Answer):
    """An upload."""

    id: str
    project_id: str
    received_bytes: Annotated[int, Field(description="Bytes of the archive received so far")] = 0
    complete: bool = False
    files: Annotated[int, Field(description="Number of files and folders, once the upload is complete")] = 0
    bytes: Annotated[int, Field(description="Their total size, once the upload is complete")] = 0
