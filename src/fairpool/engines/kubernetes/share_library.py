"""The library that keeps a pod within its part of a GPU, put into the pod from its node. Pure.

It is preloaded into every program of the pod, before libraries that the user preloads: of two that replace the same
function, the first one counts. Which GPU memory it has to keep to is in FAIRPOOL_GPU_MEMORY_MIB.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairpool.engines.kubernetes.pod_settings import PodSettings

PRELOAD = "LD_PRELOAD"
VOLUME = "gpu-share-library"
MOUNTED = "/opt/fairpool/gpu-share.so"


def library_variables(environment: Mapping[str, str], settings: PodSettings) -> dict[str, str]:
    """Variables by which the library is loaded into the programs of a pod with these variables."""
    if not settings.share_library:
        return {}
    given = environment.get(PRELOAD, "")
    return {PRELOAD: f"{MOUNTED}:{given}" if given else MOUNTED}


def library_volumes(settings: PodSettings) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The volume with the library and where it is mounted. A node that lacks the file does not start the pod."""
    if not settings.share_library:
        return [], []
    volume = {"name": VOLUME, "hostPath": {"path": settings.share_library, "type": "File"}}
    return [volume], [{"name": VOLUME, "mountPath": MOUNTED, "readOnly": True}]
