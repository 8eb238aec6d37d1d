"""Which nodes the platform offers: those of this machine, or simulated ones described on the command line.

The choice is saved in the data directory. Real GPUs that were there at the last start are not silently replaced by
simulated ones when the driver cannot be reached: work would seem to run, on devices that do not exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairpool.agent.container_runtime import RUNTIMES, problem_with_runtime
from fairpool.agent.devices import (
    DGX1_CPUS,
    DGX1_GPUS,
    DGX1_MEMORY_BYTES,
    PROCESS,
    V100_MEMORY_MIB,
    V100_NAME,
    LogicalNode,
    machine_nodes,
    simulated_node,
    simulated_pair,
    with_runtime,
)
from fairpool.agent.durable import write_durably
from fairpool.agent.nvml import Gpus
from fairpool.model.container_rules import Privilege
from fairpool.model.node import PRODUCT_LABEL, SIMULATED_LABEL
from fairpool.model.problem import Problem

MACHINE, SIMULATED = "machine", "simulated"
V100 = "V100-32GB"
NODES_MAX, GPUS_MAX = 1000, 64
MIB_PER_GB = 1024

MEMORY_GB: Mapping[str, int] = {
    "V100": 32,
    "P100": 16,
    "T4": 16,
    "A10": 24,
    "A30": 24,
    "A40": 48,
    "A100": 80,
    "A6000": 48,
    "L4": 24,
    "L40": 48,
    "L40S": 48,
    "H100": 80,
    "H200": 141,
    "B200": 192,
}
"""Of a model that is named without its memory."""

DRIVER_MIB: Mapping[tuple[str, int], int] = {
    ("A10", 24): 23_028,
    ("V100", 16): 16_160,
    ("V100", 32): V100_MEMORY_MIB,
}
"""What `nvidia-smi` shows for a model of this size in GB, where that is not 1024 MiB for each GB."""

KEYS = ("name", "gpus", "model", "memory", "cpus", "ram", "runtime")
EXAMPLE = "e.g. 2x8:V100-32GB, or --node name=big,gpus=4,memory=80GB,model=H100"
_GROUP = re.compile(r"(\d+)x(\d+)(?::(\S+))?", re.ASCII)
_SIZE = re.compile(r"(\d+)\s*(?:GB|GiB|G)", re.ASCII | re.IGNORECASE)
_MODEL = re.compile(r"([A-Za-z][A-Za-z0-9.]*(?:-[A-Za-z0-9.]+)*?)(?:-(\d+)GB)?", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class NodeSet:
    """The nodes of this start, and a warning about them."""

    nodes: tuple[LogicalNode, ...]
    warning: str = ""
    allowed: frozenset[Privilege] = frozenset()
    """What pods in containers may ask for."""


def described_nodes(
    groups: Sequence[str], singles: Sequence[str], runtime: str = PROCESS
) -> tuple[LogicalNode, ...] | list[Problem]:
    """The described simulated nodes, or all that is wrong with the description."""
    read = [_group(text) for text in groups] + [_single(text) for text in singles]
    problems = [each for each in read if isinstance(each, Problem)]
    nodes = _numbered((drafts for drafts in read if not isinstance(drafts, Problem)), runtime)
    names = [node.node.name for node in nodes]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(Problem("nodes.same_name", f"two nodes have the name {name}", "give each node a unique name"))
    if len(nodes) > NODES_MAX:
        problems.append(Problem("nodes.too_many", f"{len(nodes)} nodes are too many", f"describe at most {NODES_MAX}"))
    return problems or nodes


def choose_nodes(
    file: Path,
    groups: Sequence[str],
    singles: Sequence[str],
    gpus: Gpus,
    runtime: str | None = None,
    allowed: Collection[Privilege] = (),
) -> tuple[NodeSet, str] | list[Problem]:
    """The nodes of this start, and what to save of the choice with `remember`."""
    remembered = _remembered(file)
    if isinstance(remembered, Problem):
        return [remembered]
    chosen = [*groups, *(f"node:{each}" for each in singles)] or list(remembered.chosen)
    default = runtime or remembered.runtime
    nodes = _nodes_of(chosen, gpus, default)
    if isinstance(nodes, list):
        return nodes
    found = [problem_with_runtime(each) for each in sorted({node.runtime for node in nodes})]
    if problems := [each for each in found if each is not None]:
        return problems
    names = [str(node.node.name) for node in nodes]
    is_simulated = any(node.is_simulated for node in nodes)
    if chosen == [MACHINE] and is_simulated and remembered.had_gpus and not groups:
        why = f": {gpus.error}" if gpus.error else ""
        what = f"the GPUs found at the last start are not found now{why}"
        fix = "check `nvidia-smi`; to continue with simulated nodes: fairpool up --nodes simulated"
        return [Problem("nodes.gpus_gone", what, fix)]
    had_gpus = not is_simulated and chosen == [MACHINE]
    note = json.dumps({"chosen": chosen, "names": names, "had_gpus": had_gpus, "runtime": default})
    warnings = [_difference(remembered.names, names), _unusable(gpus) if chosen == [MACHINE] and is_simulated else ""]
    return NodeSet(nodes, "; ".join(words for words in warnings if words), frozenset(allowed)), note


def remember(file: Path, note: str) -> None:
    """Save a choice for the next start."""
    write_durably(file, f"{note}\n".encode())


def problem_with_saved(file: Path) -> Problem | None:
    """Why what was saved with `remember` cannot be used; None: it can."""
    remembered = _remembered(file)
    if isinstance(remembered, Problem):
        return remembered
    if list(remembered.chosen) in ([MACHINE], [SIMULATED]):
        return None
    nodes = _described(remembered.chosen)
    return nodes[0] if isinstance(nodes, list) else None


def nodes_summary(nodes: Sequence[LogicalNode]) -> str:
    """`dgx1-1 and dgx1-2, 8 x Tesla V100-SXM2-32GB each, simulated`."""
    kinds: dict[tuple[int, str, bool, str], list[str]] = {}
    for each in nodes:
        product = each.node.labels.get(PRODUCT_LABEL, "")
        is_simulated = each.is_simulated or each.node.labels.get(SIMULATED_LABEL) == "true"
        kinds.setdefault((each.node.gpus, product, is_simulated, each.runtime), []).append(each.node.name)
    return "; ".join(
        f"{_listed(names)}: {gpus} GPU{'' if gpus == 1 else 's'}{f' {product}' if product else ''}"
        f"{' each' if len(names) > 1 else ''}{', simulated' if is_simulated else ''}"
        f"{f', pods in containers of {runtime}' if runtime != PROCESS else ''}"
        for (gpus, product, is_simulated, runtime), names in kinds.items()
    )


# --- the saved choice --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Remembered:
    chosen: tuple[str, ...] = (MACHINE,)
    names: tuple[str, ...] = ()
    had_gpus: bool = False
    runtime: str = PROCESS


def _remembered(file: Path) -> _Remembered | Problem:
    try:
        saved = json.loads(file.read_text(encoding="utf-8"))
        chosen, names = tuple(map(str, saved["chosen"])), tuple(map(str, saved["names"]))
        runtime = saved.get("runtime", PROCESS)
        if runtime not in RUNTIMES:
            raise ValueError(f"there is no runtime {runtime!r}")
        return _Remembered(chosen, names, bool(saved["had_gpus"]), runtime)
    except FileNotFoundError:
        return _Remembered()
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        what = f"the saved description of the nodes, {file}, cannot be read: {error}"
        return Problem("nodes.forgotten", what, "remove the file and describe the nodes again with --nodes")


def _nodes_of(chosen: Sequence[str], gpus: Gpus, runtime: str) -> tuple[LogicalNode, ...] | list[Problem]:
    if list(chosen) == [MACHINE]:
        return tuple(with_runtime(node, runtime) for node in machine_nodes(gpus))
    if list(chosen) == [SIMULATED]:
        return tuple(with_runtime(node, runtime) for node in simulated_pair())
    return _described(chosen, runtime)


def _described(chosen: Sequence[str], runtime: str = PROCESS) -> tuple[LogicalNode, ...] | list[Problem]:
    groups = [each for each in chosen if not each.startswith("node:")]
    singles = [each.removeprefix("node:") for each in chosen if each.startswith("node:")]
    return described_nodes(groups, singles, runtime)


def _unusable(gpus: Gpus) -> str:
    """Why a machine that seems to have GPUs offers simulated ones."""
    broken = [f"GPU {gpu.index}: {gpu.error}" for gpu in gpus.devices() if gpu.error]
    why = "; ".join(([gpus.error] if gpus.error else []) + broken)
    return f"{why}; the nodes are simulated instead (check `nvidia-smi`)" if why else ""


def _difference(before: Sequence[str], now: Sequence[str]) -> str:
    if not before or set(before) == set(now):
        return ""
    gone, new = sorted(set(before) - set(now)), sorted(set(now) - set(before))
    words = [f"{_listed(gone)} removed (pods there are stopped)"] if gone else []
    words += [f"{_listed(new)} added"] if new else []
    return f"the nodes have changed since the last start: {'; '.join(words)}"


# --- reading descriptions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """Nodes of one kind, before they have names."""

    count: int = 1
    name: str = ""
    gpus: int = DGX1_GPUS
    product: str = V100_NAME
    memory_mib: int = V100_MEMORY_MIB
    cpus: int = DGX1_CPUS
    memory_bytes: int = DGX1_MEMORY_BYTES
    stem: str = "dgx1"
    runtime: str = ""
    """Empty: that of all nodes."""
    labels: tuple[tuple[str, str], ...] = ()


def _group(text: str) -> _Draft | Problem:
    found = _GROUP.fullmatch(text.strip())
    if found is None:
        return Problem(
            "nodes.unreadable", f"{text!r} is not a valid description of nodes", f"expected COUNTxGPUS:MODEL, {EXAMPLE}"
        )
    count, gpus = int(found[1]), int(found[2])
    if not 1 <= count <= NODES_MAX or gpus > GPUS_MAX:
        fix = f"use 1 to {NODES_MAX} nodes with at most {GPUS_MAX} GPUs each"
        return Problem("nodes.too_many", f"{text!r} describes {count} nodes with {gpus} GPUs each", fix)
    return _with_model(_Draft(count=count, gpus=gpus), found[3] or V100, "")


def _single(text: str) -> _Draft | Problem:
    given: dict[str, str] = {}
    labels: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if key == "label":
            name, equals, value = value.partition("=")
            if not (name and equals) or name in labels:
                what = f"{part!r} in --node {text!r} is not valid"
                return Problem("nodes.unreadable", what, "use label=KEY=VALUE, once for each key, e.g. label=rack=a")
            labels[name] = value
            continue
        if not equals or key not in KEYS or key in given:
            what = f"{part!r} in --node {text!r} is not valid"
            fix = f"use name, gpus, model, memory, cpus, ram, runtime and label, {EXAMPLE}"
            return Problem("nodes.unreadable", what, fix)
        given[key] = value.strip()
    if _NAME.fullmatch(given.get("name", "")) is None:
        what = f"--node {text!r} has no valid name"
        return Problem("nodes.no_name", what, "use lower-case letters, digits and dashes, e.g. name=big")
    numbers = {key: given.get(key, default) for key, default in (("gpus", "8"), ("cpus", str(DGX1_CPUS)))}
    for key, value in numbers.items():
        if not value.isascii() or not value.isdecimal() or int(value) > (GPUS_MAX if key == "gpus" else 4096):
            return Problem("nodes.unreadable", f"{key}={value} in --node is not a valid number of {key}", EXAMPLE)
    if given.get("runtime", PROCESS) not in RUNTIMES:
        what = f"runtime={given['runtime']} in --node is not a runtime"
        return Problem("nodes.unreadable", what, f"use one of {', '.join(RUNTIMES)}")
    ram = _SIZE.fullmatch(given.get("ram", "512GB"))
    if ram is None:
        return Problem("nodes.unreadable", f"ram={given['ram']} in --node is not a valid size", "expected e.g. 512GB")
    draft = _Draft(
        name=given["name"],
        gpus=int(numbers["gpus"]),
        cpus=max(1, int(numbers["cpus"])),
        memory_bytes=int(ram[1]) * 10**9,
        runtime=given.get("runtime", ""),
        labels=tuple(labels.items()),
    )
    return _with_model(draft, given.get("model", V100), given.get("memory", ""))


def _with_model(draft: _Draft, model: str, memory: str) -> _Draft | Problem:
    found = _MODEL.fullmatch(model)
    size = _SIZE.fullmatch(memory) if memory else None
    if found is None or (memory and size is None):
        return Problem("nodes.unreadable", f"{model!r} with memory {memory!r} is not a valid GPU model", EXAMPLE)
    stem = found[1]
    size_gb = size[1] if size is not None else found[2]
    gigabytes = int(size_gb) if size_gb else MEMORY_GB.get(stem.upper(), 0)
    if not 1 <= gigabytes <= 1024:
        what = f"the memory size of a {model} is not known"
        return Problem("nodes.no_memory", what, f"specify it: {stem}-80GB, or memory=80GB with --node")
    is_v100 = stem.upper() == "V100" and gigabytes == 32
    is_dgx1 = is_v100 and draft.gpus == DGX1_GPUS
    return replace(
        draft,
        product=V100_NAME if is_v100 else f"{stem}-{gigabytes}GB",
        memory_mib=DRIVER_MIB.get((stem.upper(), gigabytes), gigabytes * MIB_PER_GB),
        stem="dgx1" if is_dgx1 else stem.lower() if draft.gpus else "cpu",
    )


def _numbered(drafts: Iterable[_Draft], runtime: str) -> tuple[LogicalNode, ...]:
    """Nodes of one model are counted through, also where they were described in several groups."""
    counts: dict[str, int] = {}
    nodes = []
    for draft in drafts:
        for _ in range(draft.count):
            name = draft.name
            if not name:
                counts[draft.stem] = counts.get(draft.stem, 0) + 1
                name = f"{draft.stem}-{counts[draft.stem]}"
            node = simulated_node(
                name,
                draft.gpus,
                memory_mib=draft.memory_mib,
                product=draft.product,
                cpus=draft.cpus,
                memory_bytes=draft.memory_bytes,
                labels=dict(draft.labels),
            )
            nodes.append(with_runtime(node, draft.runtime or runtime))
    return tuple(nodes)


def _listed(names: Sequence[str], most: int = 4) -> str:
    shown = list(names[:most]) + ([f"{len(names) - most} more"] if len(names) > most else [])
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
