"""Comparing what happened with what a case expects: FORMAT.md 2.9 and 3.3.

Differences fail a case. Hints do not: labels of shared GPUs, which the reference never really compared, and the totals
of the random clusters, which add up what the expectations say one by one.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from tests.conformance.case import Case, Json
from tests.conformance.cycle import Operations
from tests.conformance.state import ACTIVE, ALLOCATED, SHARING, State, all_tasks


def excess(case: Case, operations: Operations) -> list[str]:
    """Operations beyond what one cycle may commit."""
    bounds = case.data["max_operations_per_cycle"]
    return [
        f"{count} {name}, at most {bounds[name]} allowed"
        for name, count in asdict(operations).items()
        if count > bounds[name]
    ]


def differences(case: Case, state: State, started_ago_s: Mapping[str, int]) -> list[str]:
    """Everything that is not as the case expects."""
    found: list[str] = []
    expected = case.data["expected"]
    for job in case.data["jobs"]:
        want = expected["jobs"].get(job["name"])
        if want:
            found += _job_differences(case, state, job, job["tasks"], want, started_ago_s)
        for task in job["tasks"]:
            want = expected["tasks"].get(task["id"])
            if want:
                found += _job_differences(case, state, job, [task], want, started_ago_s)
    for name, want in expected["nodes"].items():
        found += _node_differences(case, state, name, want)
    return found


def _job_differences(
    case: Case, state: State, job: Json, tasks: list[Json], want: Json, started_ago_s: Mapping[str, int]
) -> Iterator[str]:
    for task in tasks:
        now = state.tasks[task["id"]]
        place = f" on {now.node}" if now.node else ""
        if now.status != want["status"]:
            on = f" on {want['node']}" if want["node"] else ""
            yield f"{task['id']} is {now.status}{place}, not {want['status']}{on}"
        elif want["node"] is not None and now.node != want["node"]:
            yield f"{task['id']} is {now.status}{place}, not on {want['node']}"
    for name, amount in _amounts(case, state, tasks).items():
        if name in want and not math.isclose(want[name], amount, abs_tol=1e-9):
            yield f"{job['name']}: {name} is {amount:g}, not {want[name]:g}"
    started = started_ago_s.get(job["name"])
    if want["status"] in ALLOCATED and started is None:
        yield f"{job['name']} has no start time"
    if started is not None and started < want.get("last_start_older_than_seconds", 0):
        yield f"{job['name']} started {started} s ago, not {want['last_start_older_than_seconds']} s"


def _amounts(case: Case, state: State, tasks: list[Json]) -> dict[str, float]:
    requests = [task["request"] for task in tasks]
    amounts = {
        "gpus_requested": sum(_gpus_requested(request["gpu"]) for request in requests),
        "cpu_milli_requested": sum(request["cpu_milli"] for request in requests),
        "memory_bytes_requested": sum(request["memory_bytes"] for request in requests),
    }
    # One case expects waiting tasks to have received something: the reference had tried two of three and taken it back.
    if all(state.tasks[task["id"]].status in ACTIVE for task in tasks):
        amounts["gpus_accepted"] = sum(_gpus_accepted(case, state, task) for task in tasks)
    return amounts


def _gpus_requested(gpu: Json) -> float:
    """Whole GPUs and fractions; other kinds count nothing here."""
    return float(gpu.get("count", 0) or gpu.get("fraction", 0))


def _gpus_accepted(case: Case, state: State, task: Json) -> float:
    """What a task receives: a memory request counts as a part of a device, in hundredths."""
    gpu = task["request"]["gpu"]
    if gpu["kind"] != "memory":
        return _gpus_requested(gpu)
    here = next(node for node in case.data["nodes"] if node["name"] == state.tasks[task["id"]].node)
    hundredths: float = round(100 * gpu["memory"] / here["gpu_memory"], 6)
    return math.ceil(hundredths) / 100


def _node_differences(case: Case, state: State, name: str, want: Json) -> Iterator[str]:
    gpus = next(node["gpus"] for node in case.data["nodes"] if node["name"] == name)
    idle, releasing = idle_and_releasing(case, state, name, gpus)
    if idle != want["idle_gpus"]:
        yield f"{name} has {idle} idle GPUs, not {want['idle_gpus']}"
    if releasing != want["releasing_gpus"]:
        yield f"{name} has {releasing} GPUs being released, not {want['releasing_gpus']}"


def idle_and_releasing(case: Case, state: State, node: str, gpus: int) -> tuple[int, int]:
    """GPUs of a node that no pod uses, and those that are being released and promised to no pod."""
    idle, releasing = gpus, 0
    users: defaultdict[int, set[str]] = defaultdict(set)
    for _, task in all_tasks(case):
        now = state.tasks[task["id"]]
        gpu = task["request"]["gpu"]
        if now.node != node:
            continue
        if gpu["kind"] in SHARING:
            for device in now.devices:
                users[device].add(now.status)
        elif gpu["kind"] == "whole" and now.status == "Pipelined":
            releasing -= gpu["count"]
        elif gpu["kind"] == "whole" and now.status in ALLOCATED | {"Releasing"}:
            idle -= gpu["count"]
            releasing += gpu["count"] if now.status == "Releasing" else 0
    for statuses in users.values():
        idle -= statuses != {"Pipelined"}
        releasing += (statuses == {"Releasing"}) - (statuses == {"Pipelined"})
    return idle, releasing


def hints(case: Case, state: State) -> list[str]:
    """What is odd without being wrong."""
    return [*_label_hints(case, state), *_total_hints(case, state)]


def _label_hints(case: Case, state: State) -> Iterator[str]:
    """Equal labels should mean the same GPU, different labels different ones."""
    seen: list[tuple[str, str | None, tuple[int, ...], list[str]]] = []
    for job, task in all_tasks(case):
        want = case.data["expected"]["jobs"].get(job["name"], {})
        now = state.tasks[task["id"]]
        if want.get("validate_gpu_groups") and now.devices and task["request"]["gpu"]["kind"] in SHARING:
            seen.append((task["id"], now.node, now.devices, want["gpu_groups"]))
    for place, (one, node, devices, labels) in enumerate(seen):
        for other, other_node, other_devices, other_labels in seen[place + 1 :]:
            if node == other_node and (devices == other_devices) != (labels == other_labels):
                yield f"{one} and {other} have labels {labels} and {other_labels} on {devices} and {other_devices}"


def _total_hints(case: Case, state: State) -> Iterator[str]:
    held: Counter[str] = Counter()
    for job, task in all_tasks(case):
        if state.tasks[task["id"]].status in ALLOCATED | {"Pipelined"}:
            held[job["queue"]] += round(1000 * _gpus_accepted(case, state, task))
    for queue, gpus in case.data.get("totals", {}).get("gpus_held", {}).items():
        if held[queue] != round(1000 * gpus):
            yield f"queue {queue} holds {held[queue] / 1000:g} GPUs, the reference gave it {gpus:g}"
