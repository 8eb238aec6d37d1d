"""The policy of a case: parity with the reference, less what the case's plugin list leaves out.

FORMAT.md 2.8 and 4.8. Plugins that stand for no choice of ours (`kubeflow`, `ray`, `snapshot`, `subgrouporder`,
`minruntime`) are read over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fairpool.model.node import NodePool, Placement
from fairpool.scheduler.policy import DeviceChoice, Pass, Policy, ScoreTerm
from tests.conformance.case import Case, Json

PASSES = {
    "allocate": Pass.ALLOCATE,
    "consolidation": Pass.CONSOLIDATE,
    "reclaim": Pass.RECLAIM,
    "preempt": Pass.PREEMPT,
    "stalegangeviction": Pass.STALE,
}
SCORES = {
    "nominatednode": ScoreTerm.NOMINATED,
    "topology": ScoreTerm.TOPOLOGY,
    "gpusharingorder": ScoreTerm.SHARING,
    "nodeavailability": ScoreTerm.AVAILABILITY,
    "resourcetype": ScoreTerm.RESOURCE_TYPE,
    "nodeplacement": ScoreTerm.PLACEMENT,
}


def plugins(case: Case) -> dict[str, Json]:
    """The plugins in force, with their arguments."""
    listed = case.data["session"]["plugins"]
    rows = case.default_plugins if listed == "default" else listed
    return {row["name"]: row.get("arguments") or {} for row in rows}


def pool_of(case: Case) -> NodePool:
    """The pool of a case: all its nodes, placed as its plugins say."""
    placement = plugins(case).get("nodeplacement", {})
    return NodePool(
        gpu_placement=Placement(placement.get("gpu", "binpack")),
        cpu_placement=Placement(placement.get("cpu", "binpack")),
    )


def policy_of(case: Case) -> Policy:
    """The policy that a case is planned with."""
    loaded = plugins(case)
    session = case.data["session"]
    reference = Policy.reference()
    return replace(
        reference,
        passes=tuple(PASSES[action] for action in case.data["runner"]["actions"]),
        device_choice=_device_choice(loaded),
        score_terms=reference.score_terms & {term for name, term in SCORES.items() if name in loaded},
        fair_order="proportion" in loaded,
        priority_order="priority" in loaded,
        elastic_order="elastic" in loaded,
        pod_order="taskorder" in loaded,
        topology="topology" in loaded,
        predicates=session["predicates_loaded"],
        stale_grace_s=session["staleness_grace_seconds"],
    )


def _device_choice(loaded: Mapping[str, Json]) -> DeviceChoice:
    if "gpupack" in loaded:
        return DeviceChoice.PACK
    return DeviceChoice.SPREAD if "gpuspread" in loaded else DeviceChoice.ANY
