"""The start order in a pod directory, the first line of `order.json`: what was ordered, and how its shim launches it.

The only place where values of the model are written to disk here. Fields that a later version adds are
ignored by an earlier one, and take their defaults when they are missing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairpool.agent.durable import ORDER_MAX, read_regular, replace_file
from fairpool.model.observation import StartOrder

NAME = "order.json"


class StoredOrder(msgspec.Struct, frozen=True):
    """The content of `order.json`."""

    order: StartOrder
    launch: dict[str, Any] | None = None
    """The plan for the shim; None when the image could not be found (yet)."""
    start_failure: str = ""


def read_order(directory: str) -> StoredOrder | None:
    """None: there is no order, or it is unreadable."""
    try:
        content = read_regular(f"{directory}/{NAME}", ORDER_MAX).partition(b"\n")[0]
        try:
            return msgspec.json.decode(content, type=StoredOrder)
        except msgspec.ValidationError:
            return msgspec.convert(_with_field_names(msgspec.json.decode(content)), type=StoredOrder)
    except (OSError, msgspec.DecodeError):
        return None


def _with_field_names(stored: Any) -> Any:
    """What an earlier version wrote, with the names of this one: its pods run on when the server is upgraded."""
    if not isinstance(stored, dict) or not isinstance(stored.get("order"), dict):
        return stored
    order = {"created_at" if name == "born_at" else name: value for name, value in stored["order"].items()}
    return {"start_failure" if name == "trouble" else name: value for name, value in stored.items()} | {"order": order}


def write_order(directory: str, kept: StoredOrder) -> None:
    """Write it whole or not at all. It need not survive a power cut: after another boot an order is void."""
    replace_file(f"{directory}/{NAME}", msgspec.json.encode(kept))
