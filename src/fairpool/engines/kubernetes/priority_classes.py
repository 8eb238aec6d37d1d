"""PriorityClass objects, so that `kubectl` shows the priority of pods and other schedulers know it. Pure.

Nothing is preempted because of them: which pods have to leave is decided by the scheduler of Fairpool.
"""

from __future__ import annotations

from fairpool.engines.kubernetes.manifests import ObjectManifest, manifest
from fairpool.engines.kubernetes.resources import PRIORITY_CLASSES as RESOURCE
from fairpool.model.precedence import NON_PREEMPTIBLE_PRIORITY, PRIORITY_CLASSES


def priority_class_manifests() -> list[ObjectManifest]:
    """One for each priority class of workloads."""
    return [
        manifest(
            RESOURCE,
            name,
            {
                "value": value,
                "preemptionPolicy": "Never",
                "globalDefault": False,
                "description": "Fairpool: "
                + ("not preempted" if value >= NON_PREEMPTIBLE_PRIORITY else "may be preempted for other workloads"),
            },
        )
        for name, value in sorted(PRIORITY_CLASSES.items())
    ]
