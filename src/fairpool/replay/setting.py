"""What-if settings, as in `--set project.vision.quota=6`: one value of a snapshot, changed by its path.

Paths are for users: amounts of queues are in GPUs, cores and bytes with a unit, whatever the rows count in. Fields of
nodes, groups, policy and pool are those of their classes, as far as a value can be written in a word.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_type_hints

from fairpool.model.ids import QueueId
from fairpool.model.organization import Entitlement, OverQuotaChoice, Queue, gpu_entitlement, with_quota
from fairpool.model.problem import Problem
from fairpool.model.quantity import UNLIMITED, gpus_text
from fairpool.model.spelling import did_you_mean, unknown_name
from fairpool.model.typed_text import (
    at_most,
    bytes_amount,
    duration_s,
    number,
    or_unlimited,
    reader_for,
    thousandths,
    whole_number,
    word,
)
from fairpool.scheduler.pod_validation import DEVICES_PER_NODE_MAX
from fairpool.scheduler.snapshot import Snapshot

FORMS = "project.NAME.quota=6, department.NAME.limit=20, node.NAME.cordoned=true, group.NAME.priority=80, "
FORMS += "policy.FIELD=VALUE or pool.gpu_placement=spread"
NAMED = ("project", "department", "node", "group")
NOUNS = (*NAMED, "policy", "pool")
NODE_AMOUNTS: dict[str, Callable[[str], int | Problem]] = {
    "cpu_milli": at_most(10**9),
    "memory_bytes": bytes_amount,
    "pods_max": at_most(10**6),
    "gpus": at_most(DEVICES_PER_NODE_MAX),
    "gpu_memory_mib": at_most(10**9),
}
"""What a machine can have; more is a slip of the keyboard."""

Row = TypeVar("Row")


@dataclass(frozen=True)
class Edit:
    """A changed snapshot, and a line that shows what was changed."""

    snapshot: Snapshot
    what: str


def set_value(snapshot: Snapshot, text: str) -> Edit | Problem:
    """Apply one `--set`."""
    path, equals, value = (part.strip() for part in text.partition("="))
    noun, _, rest = path.partition(".")
    name, _, key = rest.rpartition(".")
    has_name = bool(name and key) or noun not in NAMED
    if not path or (noun in NOUNS and not (equals and rest and has_name)):
        return Problem("set.form", f"--set {text!r} is not a path and a value", f"write {FORMS}")
    match noun:
        case "project" | "department":
            return _set_queue(snapshot, noun, name, key, value)
        case "node":
            return _set_row(snapshot, "nodes", noun, name, key, value)
        case "group":
            return _set_row(snapshot, "groups", noun, name, "queue" if key == "project" else key, value)
        case "policy" | "pool":
            return _set_part(snapshot, noun, rest, value)
    return Problem("set.noun", f"--set cannot change a {noun!r}", did_you_mean(noun, NOUNS, f"write {FORMS}"))


# ---- queues


def _set_queue(snapshot: Snapshot, noun: str, name: str, key: str, value: str) -> Edit | Problem:
    queue = next((each for each in snapshot.queues if each.id == name), None)
    if queue is None:
        return unknown_name(noun, name, (each.id for each in snapshot.queues))
    if _is_the_other(snapshot, queue, noun):
        other = "project" if noun == "department" else "department"
        what, fix = f"{name} is a {other}, not a {noun}", f"write {other}.{name}.{key}={value}"
        return Problem("queue.other_kind", what, fix)
    setter = QUEUE_SETTERS.get(key)
    if setter is None:
        fix = did_you_mean(key, QUEUE_SETTERS, f"there are: {', '.join(QUEUE_SETTERS)}")
        return Problem("set.field", f"a {noun} has no {key!r} to set", fix)
    changed = setter(queue, value)
    if isinstance(changed, Problem):
        return changed
    if changed.parent is not None and changed.parent not in {each.id for each in snapshot.queues}:
        return unknown_name("department", changed.parent, (each.id for each in snapshot.queues if each.parent is None))
    queues = tuple(changed if each is queue else each for each in snapshot.queues)
    return Edit(replace(snapshot, queues=queues), f"{noun} {name}: {_queue_change(queue, changed, key, value)}")


def _is_the_other(snapshot: Snapshot, queue: Queue, noun: str) -> bool:
    """A queue with others below it is a department, one below another is a project, one alone may be called either."""
    has_children = any(each.parent == queue.id for each in snapshot.queues)
    return has_children if noun == "project" else not has_children and queue.parent is not None


def not_a_project(snapshot: Snapshot, name: str) -> Problem | None:
    """What is wrong with putting work there: only a queue with none below it takes work."""
    departments = {queue.parent for queue in snapshot.queues}
    if not any(queue.id == name for queue in snapshot.queues):
        return unknown_name("project", name, (queue.id for queue in snapshot.queues if queue.id not in departments))
    if name not in departments:
        return None
    below = sorted(queue.id for queue in snapshot.queues if queue.parent == name and queue.id not in departments)
    more = f" and {len(below) - 8} more" if len(below) > 8 else ""
    fix = f"choose a project of it: {', '.join(below[:8])}{more}" if below else "choose a project"
    return Problem("queue.other_kind", f"{name} is a department, and work belongs to projects", fix)


def _queue_change(before: Queue, after: Queue, key: str, value: str) -> str:
    if key == "quota":
        change = f"quota {gpus_text(before.gpu.quota)} → {gpus_text(after.gpu.quota)}"
        if before.gpu.weight != after.gpu.weight:
            change += f", and its weight with it, {before.gpu.weight:g} → {after.gpu.weight:g}"
        return change
    if key == "limit":
        return f"limit {gpus_text(before.gpu.limit)} → {gpus_text(after.gpu.limit)}"
    old = {"weight": f"{before.gpu.weight:g}", "priority": str(before.priority), "department": before.parent or "none"}
    return f"{key} {old[key]} → {value}" if key in old else f"{key} = {value}"


def _gpu_quota(queue: Queue, text: str) -> Queue | Problem:
    quota = or_unlimited(thousandths)(text)
    if isinstance(quota, Problem):
        return quota
    return with_quota(queue, quota)


def _over_quota(queue: Queue, text: str) -> Queue | Problem:
    chosen = word(text, OverQuotaChoice)
    if isinstance(chosen, Problem):
        return chosen
    # A limit equal to the quota is what `off` left behind.
    limit = UNLIMITED if queue.gpu.limit == queue.gpu.quota else queue.gpu.limit
    gpu = gpu_entitlement(queue.gpu.quota, chosen, limit_milli=limit, usage=queue.gpu.usage)
    return replace(queue, gpu=gpu, over_quota=chosen, gpu_limit_milli=limit)


def _entitlement(resource: str, part: str, read: Callable[[str], Any]) -> Callable[[Queue, str], Queue | Problem]:
    def setter(queue: Queue, text: str) -> Queue | Problem:
        value = read(text)
        if isinstance(value, Problem):
            return value
        before: Entitlement = getattr(queue, resource)
        changes: dict[str, Any] = {resource: replace(before, **{part: value})}
        return replace(queue, **changes)

    return setter


def _plain(name: str, read: Callable[[str], Any]) -> Callable[[Queue, str], Queue | Problem]:
    def setter(queue: Queue, text: str) -> Queue | Problem:
        value = read(text)
        if isinstance(value, Problem):
            return value
        changes: dict[str, Any] = {name: value}
        return replace(queue, **changes)

    return setter


QUEUE_SETTERS: dict[str, Callable[[Queue, str], Queue | Problem]] = {
    "quota": _gpu_quota,
    "limit": _entitlement("gpu", "limit", or_unlimited(thousandths)),
    "weight": _entitlement("gpu", "weight", number),
    "over_quota": _over_quota,
    "priority": _plain("priority", whole_number),
    "department": _plain("parent", lambda text: None if text == "none" else QueueId(text)),
    "cpu_quota": _entitlement("cpu", "quota", or_unlimited(thousandths)),
    "cpu_limit": _entitlement("cpu", "limit", or_unlimited(thousandths)),
    "cpu_weight": _entitlement("cpu", "weight", number),
    "memory_quota": _entitlement("memory", "quota", or_unlimited(bytes_amount)),
    "memory_limit": _entitlement("memory", "limit", or_unlimited(bytes_amount)),
    "memory_weight": _entitlement("memory", "weight", number),
    "preempt_min_runtime": _plain("preempt_min_runtime_s", duration_s),
    "reclaim_min_runtime": _plain("reclaim_min_runtime_s", duration_s),
}


# ---- the other rows, by their own fields


def _set_row(snapshot: Snapshot, table: str, noun: str, name: str, key: str, value: str) -> Edit | Problem:
    rows: Sequence[Any] = getattr(snapshot, table)
    identity = "name" if table == "nodes" else "id"
    row = next((each for each in rows if getattr(each, identity) == name), None)
    if row is None:
        return unknown_name(noun, name, (getattr(each, identity) for each in rows))
    if key == "queue" and (problem := not_a_project(snapshot, value)) is not None:
        return problem
    changed = _with_field(row, noun, key, value, fixed=identity)
    if isinstance(changed, Problem):
        return changed
    changes: dict[str, Any] = {table: tuple(changed if each is row else each for each in rows)}
    return Edit(replace(snapshot, **changes), f"{noun} {name}: {_change(row, changed, key)}")


def _set_part(snapshot: Snapshot, noun: str, key: str, value: str) -> Edit | Problem:
    part = getattr(snapshot, noun)
    changed = _with_field(part, noun, key, value, fixed="name")
    if isinstance(changed, Problem):
        return changed
    changes: dict[str, Any] = {noun: changed}
    return Edit(replace(snapshot, **changes), f"{noun}: {_change(part, changed, key)}")


def _with_field(row: Row, noun: str, key: str, value: str, fixed: str) -> Row | Problem:
    readers = {
        name: reader
        for name, hint in get_type_hints(type(row)).items()
        if name != fixed and (reader := reader_for(hint)) is not None
    }
    if key not in readers:
        closest = difflib.get_close_matches(key, readers, n=3, cutoff=0.0)
        fix = did_you_mean(key, readers, f"the closest of {len(readers)} names are {', '.join(closest)}")
        return Problem("set.field", f"a {noun} has no {key!r} that can be set here", fix)
    read = NODE_AMOUNTS.get(key, readers[key]) if noun == "node" else readers[key]
    new = read(value)
    if isinstance(new, Problem):
        return Problem(new.code, f"{noun} {key}: {new.what}", new.fix)
    changes: dict[str, Any] = {key: new}
    changed: Row = replace(row, **changes)  # type: ignore[type-var]
    return changed


def _change(before: object, after: object, key: str) -> str:
    return f"{key} {_shown(getattr(before, key))} → {_shown(getattr(after, key))}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | frozenset):
        return ",".join(sorted(map(str, value)) if isinstance(value, frozenset) else map(str, value)) or "nothing"
    return "none" if value is None else str(value)
