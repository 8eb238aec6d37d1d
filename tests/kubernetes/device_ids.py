"""IDs of GPUs that are not there, in the form of NVIDIA's."""

from __future__ import annotations

import uuid


def device_ids(node: str, count: int) -> tuple[str, ...]:
    """The same for a node each time, as those of real devices are."""
    return tuple(f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{node}-{index}')}" for index in range(count))
