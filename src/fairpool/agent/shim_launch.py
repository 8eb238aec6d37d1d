"""The launch of a pod as its shim reads it: from the order on the disk, with secret variables from memory.

Imports next to nothing, because every shim is a copy of this memory.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from fairpool.agent.durable import ORDER_MAX, read_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SECRETS = "environment.json"
"""In the pod's directory in memory; written by `pod_secrets.py`."""


def read_launch(directory: str) -> dict[str, Any] | None:
    """How to start the pod; None if the order cannot be read."""
    try:
        launch = json.loads(read_regular(f"{directory}/order.json", ORDER_MAX).partition(b"\n")[0])["launch"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return {**unknown_launch(), **launch} if isinstance(launch, dict) else None


def with_secrets(launch: dict[str, Any]) -> dict[str, Any]:
    """The same with the secret variables of the pod, which are in no file on a disk."""
    if not launch.get("secrets"):
        return launch
    try:
        found = json.loads(read_regular(f"{launch['secrets']['directory']}/{SECRETS}", ORDER_MAX))
    except (OSError, ValueError) as error:
        return {**launch, "secrets_error": f"its secrets cannot be read: {error}"}
    return {**launch, "env": {**launch["env"], **found}}


def remove_secrets(directory: str) -> None:
    """Remove the pod's directory in memory."""
    for place, _, names in os.walk(directory, topdown=False):
        with suppress(OSError):  # the server tries again
            os.chmod(place, 0o700)
            for name in names:
                os.unlink(f"{place}/{name}")
            os.rmdir(place)


def unknown_launch() -> dict[str, Any]:
    """What a replacement needs to look after a program whose order was damaged; nothing is started by it."""
    rotation = {"segment_bytes": 16 << 20, "segments": 3}
    known = {"pod": "", "pod_uuid": "", "argv": [], "env": {}, "cwd": "/", "grace_s": 0, "words": "", "log": rotation}
    more = {"tty": False, "stdin": False, "host_name": "", "mounts": [], "limits": None, "view": None}
    return {**known, **more, "gang": None, "network": False, "clones": []}
