"""What administrators declared for nodes (roles, types, taints, cordon), on the Node objects. Pure.

Scheduling follows the declaration itself; the objects are for `kubectl`, other schedulers and the taint controller. An
annotation of the node says which of its labels and taints are ours: they are removed with the declaration, and no
others are changed. (Server-side apply cannot do it: the taints of a node are one field.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairpool.model.node import Taint, TaintEffect
from fairpool.model.organization import NodeOverrides

DECLARED = "fairpool.io/declared"
"""The annotation with our labels, taints and cordon."""
NOTHING = NodeOverrides()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNode:
    """A node, as far as it can be declared otherwise."""

    name: str
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, Any], ...] = ()
    unschedulable: bool = False
    declared: str = ""
    """The annotation."""


def node_patch(node: SeenNode, wanted: NodeOverrides) -> dict[str, Any] | None:
    """The merge patch that makes a node what was declared; None: it is."""
    before = _overrides_in(node.declared)
    if before == wanted and _shows(node, wanted):
        return None
    labels: dict[str, str | None] = dict(wanted.labels)
    labels |= {key: None for key, value in before.labels if key not in labels and node.labels.get(key) == value}
    metadata = {
        "resourceVersion": node.resource_version,
        "labels": labels,
        "annotations": {DECLARED: _text(wanted) if wanted != NOTHING else None},
    }
    spec: dict[str, Any] = {}
    taints = _taints(node, before, wanted)
    if taints != list(node.taints):
        spec["taints"] = taints or None
    if wanted.cordoned or before.cordoned:
        spec["unschedulable"] = True if wanted.cordoned else None
    return {"metadata": metadata, **({"spec": spec} if spec else {})}


def _shows(node: SeenNode, wanted: NodeOverrides) -> bool:
    return (
        all(node.labels.get(key) == value for key, value in wanted.labels)
        and all(_taint(each) in node.taints for each in wanted.taints)
        and (node.unschedulable or not wanted.cordoned)
    )


def _taints(node: SeenNode, before: NodeOverrides, wanted: NodeOverrides) -> list[Mapping[str, Any]]:
    """Those of others as they are, then ours. A node has one taint of a key and effect."""
    ours = {(each.key, each.effect.value) for each in wanted.taints}
    former = [_taint(each) for each in before.taints]
    kept = [each for each in node.taints if (each.get("key"), each.get("effect")) not in ours and each not in former]
    return [*kept, *map(_taint, wanted.taints)]


def _taint(taint: Taint) -> dict[str, Any]:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect.value}


def _text(overrides: NodeOverrides) -> str:
    taints = [(each.key, each.value, each.effect.value) for each in overrides.taints]
    return json.dumps({"labels": dict(overrides.labels), "taints": taints, "cordoned": overrides.cordoned})


def _overrides_in(text: str) -> NodeOverrides:
    """Read back; an annotation that others wrote counts as none."""
    try:
        found = json.loads(text or "{}")
        return NodeOverrides(
            cordoned=bool(found.get("cordoned")),
            taints=tuple(Taint(str(k), str(v), TaintEffect(e)) for k, v, e in found.get("taints", ())),
            labels=tuple((str(key), str(value)) for key, value in found.get("labels", {}).items()),
        )
    except (ValueError, TypeError, AttributeError):
        return NOTHING
