"""Where the pods of a submit may go: node types, node affinity, tolerations and topology. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from fairpool.api import pod_spec
from fairpool.api import workload_spec as wire
from fairpool.api.organization import ProjectRequest
from fairpool.api.problems import ProblemList
from fairpool.model.node import NODE_TYPE_LABEL, RUNTIME_LABEL, TaintEffect
from fairpool.model.workload import (
    NodePreference,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    Toleration,
    TopologyConstraint,
)

Requirements = tuple[NodeSelectorRequirement, ...]


def node_rules(
    spec: wire.CommonSpec,
    kind: wire.Kind,
    project: ProjectRequest,
    problems: ProblemList,
    *,
    in_containers: bool | None = None,
) -> tuple[Requirements, ...]:
    """Node types and required node affinity, as alternatives; `in_containers`: only on nodes that run containers, or
    only on those that do not."""
    permitted = permitted_types(project, is_workspace=kind is wire.Kind.WORKSPACE)
    always: list[NodeSelectorRequirement] = []
    if spec.node_type is not None:
        if permitted and spec.node_type not in permitted:
            what = f"project {project.name} may not use nodes of type {spec.node_type}"
            problems.add("spec.node_type", what, f"use one of {', '.join(permitted)}", "spec.nodeType")
        always.append(NodeSelectorRequirement(NODE_TYPE_LABEL, NodeSelectorOperator.IN, (spec.node_type,)))
    elif permitted:
        always.append(NodeSelectorRequirement(NODE_TYPE_LABEL, NodeSelectorOperator.IN, tuple(sorted(permitted))))
    if in_containers is not None:
        operator = NodeSelectorOperator.EXISTS if in_containers else NodeSelectorOperator.DOES_NOT_EXIST
        always.append(NodeSelectorRequirement(RUNTIME_LABEL, operator))
    alternatives = _required(spec.node_affinity_required, problems)
    if not alternatives:
        return (tuple(always),) if always else ()
    return tuple((*always, *rules) for rules in alternatives)


def permitted_types(project: ProjectRequest, *, is_workspace: bool) -> list[str]:
    """Node types that workloads of a project may use; empty: all."""
    return project.node_types.workspace if is_workspace else project.node_types.training


def _required(document: dict[str, Any] | None, problems: ProblemList) -> list[Requirements]:
    if not document:
        return []
    place = "spec.nodeAffinityRequired"
    try:
        terms = document["nodeSelectorTerms"]
        if document.keys() != {"nodeSelectorTerms"} or any(term.keys() != {"matchExpressions"} for term in terms):
            raise ValueError(document)
        return [tuple(_requirement(each) for each in term["matchExpressions"]) for term in terms]
    except (KeyError, TypeError, ValueError, AttributeError):
        fix = "set nodeSelectorTerms, each with matchExpressions of key, operator and values"
        problems.add("spec.node_affinity", "the node affinity is not valid", fix, place)
        return []


def _requirement(document: Mapping[str, Any]) -> NodeSelectorRequirement:
    if not document.keys() <= {"key", "operator", "values"}:
        raise ValueError(document)
    operator, values = NodeSelectorOperator(document["operator"]), tuple(map(str, document.get("values") or ()))
    if not _takes(operator, len(values)):
        raise ValueError(document)
    return NodeSelectorRequirement(str(document["key"]), operator, values)


def _takes(operator: NodeSelectorOperator, values: int) -> bool:
    if operator in (NodeSelectorOperator.EXISTS, NodeSelectorOperator.DOES_NOT_EXIST):
        return values == 0
    return values == 1 if operator in (NodeSelectorOperator.GT, NodeSelectorOperator.LT) else values > 0


def node_preferences(
    asked: Iterable[pod_spec.NodeAffinityPreference], problems: ProblemList
) -> tuple[NodePreference, ...]:
    """Preferred node affinity."""
    found = []
    for number, each in enumerate(asked):
        requirements = []
        for said in each.preference.match_expressions:
            operator = NodeSelectorOperator(said.operator)
            if not _takes(operator, len(said.values)):
                what = f"{said.key} {operator} does not go with {len(said.values)} values"
                fix = "In and NotIn take one or more values, Gt and Lt one, Exists and DoesNotExist none"
                problems.add("spec.node_affinity", what, fix, f"spec.nodeAffinityPreferred.{number}")
            requirements.append(NodeSelectorRequirement(said.key, operator, tuple(said.values)))
        found.append(NodePreference(each.weight, tuple(requirements)))
    return tuple(found)


def tolerations(asked: Iterable[pod_spec.PodToleration]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            each.key,
            None if each.operator == "Exists" else each.value or "",
            TaintEffect(each.effect) if each.effect else None,
        )
        for each in asked
    )


def topology_constraint(
    submit: wire.SubmitAny, known: Mapping[str, tuple[str, ...]], unmatched: Collection[str], problems: ProblemList
) -> TopologyConstraint | None:
    """The levels that the pods should share: in a topology by name, in one that has them and nodes, or as labels
    alone. `unmatched`: topologies without nodes."""
    asked = submit.spec.topology
    if asked is None or not asked.model_fields_set:
        return None
    levels = {"required": asked.required, "preferred": asked.preferred}
    for name, level in levels.items():
        if level is not None and not isinstance(submit, wire.SubmitDistributed):
            what = f"a {name} topology level is for distributed workloads: here each pod is placed by itself"
            problems.add("spec.topology", what, "remove it, or submit a distributed workload", f"spec.topology.{name}")
    if not any(levels.values()):
        what = "the topology has no level"
        problems.add("spec.topology", what, "set required or preferred to a node label", "spec.topology.required")
        return None
    if asked.name is None:
        fitting = (
            name
            for name in sorted(known.keys() - set(unmatched))
            if all(each is None or each in known[name] for each in levels.values())
        )
        return TopologyConstraint(topology=next(fitting, ""), required=asked.required, preferred=asked.preferred)
    if asked.name not in known:
        near = difflib.get_close_matches(asked.name, known, n=1)
        fix = f"did you mean {near[0]}?" if near else f"use one of: {', '.join(sorted(known)) or 'none is declared'}"
        problems.add("spec.topology", f"there is no network topology {asked.name}", fix, "spec.topology.name")
        return None
    for name, level in levels.items():
        if level is not None and level not in known[asked.name]:
            what = f"network topology {asked.name} has no level {level}"
            fix = f"use one of: {', '.join(known[asked.name])}"
            problems.add("spec.topology", what, fix, f"spec.topology.{name}")
    return TopologyConstraint(topology=asked.name, required=asked.required, preferred=asked.preferred)
