"""The order of a life as it is kept beside the pod: what was ordered, and what its keeper was told to do.

The one place that knows how values of the model are written to disk here. Fields that a later version adds are
ignored by an earlier one, and take their defaults when they are missing.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from fairpool.model.observation import StartOrder

NAME = "order.json"


class KeptOrder(msgspec.Struct, frozen=True):
    """What lies in `order.json`."""

    order: StartOrder
    launch: dict[str, Any] | None = None
    """What the keeper does, ready to be done; None when the image could not be found (yet)."""
    trouble: str = ""


def read_order(folder: str) -> KeptOrder | None:
    """None: there is no order here, or what is here cannot be read."""
    try:
        with open(f"{folder}/{NAME}", "rb") as file:
            return msgspec.json.decode(file.read(), type=KeptOrder)
    except (OSError, msgspec.DecodeError):
        return None


def write_order(folder: str, kept: KeptOrder) -> None:
    """Write it whole or not at all, and so that it survives a power cut."""
    new = f"{folder}/{NAME}.new"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, msgspec.json.encode(kept))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(new, f"{folder}/{NAME}")
