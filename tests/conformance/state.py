"""The state of a case between cycles: where every task stands, which claims are allocated.

Only this module knows how the labels of shared GPUs become device numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.conformance.case import Case, Json

ALLOCATED = frozenset({"Allocated", "Bound", "Binding", "Running"})
ACTIVE = ALLOCATED | {"Pipelined", "Releasing"}
SHARING = frozenset({"fraction", "memory"})


@dataclass(frozen=True, slots=True)
class TaskState:
    """One task: its status and, if it is active, its place."""

    status: str
    node: str | None = None
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimState:
    """Where a claim is allocated."""

    node: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class State:
    """Everything that changes from cycle to cycle."""

    tasks: Mapping[str, TaskState]
    claims: Mapping[str, ClaimState]


def all_tasks(case: Case) -> Iterator[tuple[Json, Json]]:
    """Every task with its job, in the order of the case."""
    for job in case.data["jobs"]:
        for task in job["tasks"]:
            yield job, task


def claim_names(job: Json, task: Json) -> tuple[str, ...]:
    """The claims that a task names, with their namespace."""
    names = [*task.get("resource_claims", ()), *task.get("resource_claim_templates", {}).values()]
    return tuple(f"{job.get('namespace', '')}/{name}" for name in names)


def first_state(case: Case) -> State:
    """The state that a case begins with."""
    devices: dict[str, tuple[int, ...]] = {}
    for node in case.data["nodes"]:
        here = [task for _, task in all_tasks(case) if task["node"] == node["name"] and task["status"] in ACTIVE]
        devices.update(_devices_on(node["gpus"], here))
    tasks = {
        task["id"]: TaskState(task["status"], task["node"], devices.get(task["id"], ())) for _, task in all_tasks(case)
    }
    return State(tasks, _allocated_claims(case))


def device_names(case: Case, node: str) -> dict[tuple[str, str], str]:
    """Claimable devices of a node: driver and device name to a name that is unique on the node."""
    slices = [each for each in case.data.get("dra", {}).get("resource_slices", ()) if each["node"] == node]
    return {(each["driver"], device): f"{each['driver']}/{device}" for each in slices for device in each["devices"]}


def consumers_elsewhere(case: Case) -> dict[str, int]:
    """Consumers of each claim that are no tasks of the case. The list of consumers may be shorter than their number."""
    active = {task["id"] for _, task in all_tasks(case) if task["status"] in ACTIVE}
    elsewhere = {}
    for claim in case.data.get("dra", {}).get("resource_claims", ()):
        status = claim["status"] or {}
        ours = sum(1 for consumer in status.get("reserved_for", ()) if consumer["name"] in active)
        elsewhere[f"{claim['namespace']}/{claim['name']}"] = status.get("reserved_for_count", 0) - ours
    return elsewhere


def _allocated_claims(case: Case) -> dict[str, ClaimState]:
    allocated = {}
    for claim in case.data.get("dra", {}).get("resource_claims", ()):
        rows = (claim["status"] or {}).get("allocated_devices") or ()
        if rows:
            names = device_names(case, rows[0]["pool"])
            held = tuple(names[row["driver"], row["device"]] for row in rows)
            allocated[f"{claim['namespace']}/{claim['name']}"] = ClaimState(rows[0]["pool"], held)
    return allocated


def _devices_on(gpus: int, tasks: list[Json]) -> dict[str, tuple[int, ...]]:
    """Device numbers of the active tasks on one node.

    Every label of a shared GPU is a device of its own; whole GPUs take the next ones. A promised task takes devices
    that are being released before idle ones. A node that holds more than it has (one case does) gives its last
    devices twice.
    """
    held: dict[str, tuple[int, ...]] = {}
    by_label: dict[str, tuple[int, ...]] = {}
    free = list(range(gpus))
    promised_last = sorted(tasks, key=lambda task: (task["status"] == "Pipelined", not _shares(task)))
    for task in promised_last:
        is_promised = task["status"] == "Pipelined"
        source = _leaving(promised_last, held) + free if is_promised else free
        if _shares(task):
            labels = task.get("gpu_groups") or [f"auto:{task['id']}"]
            for label in labels:
                if label not in by_label:
                    by_label[label] = _take(source, 1, gpus)
            held[task["id"]] = tuple(device for label in labels for device in by_label[label])
        elif task["request"]["gpu"]["kind"] == "whole":
            held[task["id"]] = _take(source, task["request"]["gpu"]["count"], gpus)
        free = [device for device in free if device not in held.get(task["id"], ())]
    return held


def _shares(task: Json) -> bool:
    return task["request"]["gpu"]["kind"] in SHARING


def _take(source: list[int], count: int, gpus: int) -> tuple[int, ...]:
    """The next devices of a list, and if they do not suffice, devices that others hold, the last first."""
    taken = source[:count]
    again = [device for device in reversed(range(gpus)) if device not in taken]
    return tuple(taken + again[: count - len(taken)])


def _leaving(tasks: list[Json], held: Mapping[str, tuple[int, ...]]) -> list[int]:
    """Devices all of whose users are being released."""
    leaving: set[int] = set()
    staying: set[int] = set()
    for task in tasks:
        (leaving if task["status"] == "Releasing" else staying).update(held.get(task["id"], ()))
    return sorted(leaving - staying)
