"""What-if nodes, as in `--add-node name=gpu-9,like=gpu-1`: a machine that does not exist, empty and ready."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fairpool.model.ids import NodeName
from fairpool.model.node import Node
from fairpool.model.problem import Problem
from fairpool.model.spelling import did_you_mean, unknown_name
from fairpool.model.typed_text import at_most, bytes_amount, thousandths, whole_number
from fairpool.replay.planned import counted
from fairpool.replay.setting import Edit
from fairpool.scheduler.pod_validation import DEVICES_PER_NODE_MAX
from fairpool.scheduler.snapshot import Snapshot

EXAMPLE = "name=gpu-9,like=gpu-1"
NODES_MAX = 10_000
DEFAULT = Node(name=NodeName(""), cpu_milli=64_000, memory_bytes=2**39, gpus=8, gpu_memory_mib=40_960)
"""What a node has that is like no other and of which little is said."""


def _nodes(text: str) -> int | Problem:
    nodes = whole_number(text)
    if isinstance(nodes, int) and not 1 <= nodes <= NODES_MAX:
        return Problem("node.count", f"{text} nodes is out of range", f"ask for 1 to {NODES_MAX}")
    return nodes


FIELDS: dict[str, Callable[[str], Any]] = {
    "name": str,
    "like": str,
    "count": _nodes,
    "gpus": at_most(DEVICES_PER_NODE_MAX),
    "gpu_memory": at_most(10**9),
    "cpus": thousandths,
    "memory": bytes_amount,
}
COLUMNS = {"gpus": "gpus", "gpu_memory": "gpu_memory_mib", "cpus": "cpu_milli", "memory": "memory_bytes"}


def add_node(snapshot: Snapshot, text: str) -> Edit | list[Problem]:
    """Apply one `--add-node`; with `counted` several, of which each name ends with a number."""
    said, problems = _read(text)
    model = DEFAULT
    if "name" not in said:
        problems.append(Problem("node.no_name", "--add-node is missing name", f"add name=..., as in {EXAMPLE}"))
    if "like" in said:
        found = next((node for node in snapshot.nodes if node.name == said["like"]), None)
        model = found or DEFAULT
        if found is None:
            problems.append(unknown_name("node", said["like"], (node.name for node in snapshot.nodes)))
    names = _names(said)
    there = {node.name for node in snapshot.nodes}.intersection(names)
    if there:
        problems.append(Problem("node.exists", f"there is a node {min(there)} already", "choose another name"))
    if problems:
        return problems
    values: dict[str, Any] = {COLUMNS[key]: value for key, value in said.items() if key in COLUMNS}
    empty = replace(model, **values, cordoned=False, ready=True, gpus_withheld=())
    added = tuple(replace(empty, name=name) for name in names)
    what = f"{counted(len(added), 'node')} added: {names[0]}{f' to {names[-1]}' if len(names) > 1 else ''}"
    return Edit(replace(snapshot, nodes=(*snapshot.nodes, *added)), f"{what}, {counted(empty.gpus, 'GPU')} each")


def _read(text: str) -> tuple[dict[str, Any], list[Problem]]:
    said: dict[str, Any] = {}
    problems = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        key, _, value = (each.strip() for each in part.partition("="))
        key = key.replace("-", "_")
        if key not in FIELDS:
            fix = did_you_mean(key, FIELDS, f"there are: {', '.join(FIELDS)}")
            problems.append(Problem("node.field", f"a node has no field {key!r}", fix))
        elif key in said:
            problems.append(Problem("node.twice", f"--add-node names {key} twice", "name it once"))
        elif not value:
            problems.append(Problem("node.value", f"{key} has no value in --add-node", f"write {key}=VALUE"))
        else:
            read = FIELDS[key](value)
            if isinstance(read, Problem):
                problems.append(Problem(read.code, f"{key}: {read.what}", read.fix))
            else:
                said[key] = read
    return said, problems


def _names(said: dict[str, Any]) -> list[NodeName]:
    name, nodes = said.get("name", ""), said.get("count", 1)
    return [NodeName(name)] if nodes == 1 else [NodeName(f"{name}-{number}") for number in range(1, nodes + 1)]
