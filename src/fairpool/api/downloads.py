"""What can be downloaded from the server, as answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fairpool.api.wire import Answer


class CommandPackage(Answer):
    """The package with the commands `runai` and `runai-adm`, of the version that the server has."""

    name: Annotated[str, Field(examples=["fairpool-0.1.0-py3-none-any.whl"])]
    version: Annotated[str, Field(examples=["0.1.0"])]
    path: Annotated[
        str,
        Field(
            description="On this server, for pip and browsers", examples=["/download/fairpool-0.1.0-py3-none-any.whl"]
        ),
    ]
    sha256: Annotated[str, Field(description="Checksum of the file, in hexadecimal digits")]
    size_bytes: int
