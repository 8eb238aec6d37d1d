"""HTTP route for all devices with their holders: one read of the database, one compact answer.

It is put together from plain lists and dictionaries: models of 10 000 devices would take longer than all the rest. A
test reads it back with the models of `api/devices.py`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import devices as wire
from fairpool.api.clusters import NodeReport, PodReport
from fairpool.api.nodes import NodeOverridesRequest
from fairpool.api.wire import compact
from fairpool.control.latest_figures import NodeUse, missing_samples, node_uses
from fairpool.control.metric_query import PARTLY
from fairpool.control.moments import iso, iso_or_none
from fairpool.control.nodes import status_of
from fairpool.control.paging import (
    Field,
    FilterBy,
    ListQuery,
    Offset,
    Search,
    SortBy,
    SortOrder,
    filtered,
    number_field,
    page,
    text_field,
)
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import holdings
from fairpool.control.store import organization as store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.workload_documents import declaration_of, former_name
from fairpool.metrics.catalogue import DeviceColumn
from fairpool.metrics.totals import NodeFacts
from fairpool.model.ids import Instant, NodeName
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import DEFAULT_POOL, DRAIN, PRODUCT_LABEL, SIMULATED_LABEL
from fairpool.model.precedence import gpus_charged_milli

routes = Routes("nodes")

RELEASING = PodPhase.RELEASING.value
NODES_MAX = 5000
MIG_PREFIX = "nvidia.com/mig-"
GZIP_LEVEL = 5
"""A higher one takes twice as long for a few per cent."""
Nodes = Annotated[int, Parameter(ge=1, le=NODES_MAX, description="Maximum number of nodes")]


HeldSince = Mapping[tuple[str, str], Mapping[int, Instant]]
"""By cluster and node, of each device that is held."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A node as it is filtered."""

    report: NodeReport
    cluster: str
    is_cordoned: bool
    is_drained: bool


FIELDS: Mapping[str, Field[_Node]] = {
    "name": text_field(lambda each: each.report.name),
    "nodePool": text_field(lambda each: each.report.pool or DEFAULT_POOL),
    "clusterId": text_field(lambda each: each.cluster),
    "status": text_field(lambda each: status_of(each.report)),
    "gpuType": text_field(lambda each: each.report.labels.get(PRODUCT_LABEL, "")),
    "gpuCount": number_field(lambda each: each.report.gpus),
}


@routes.get(
    "/api/v1/devices",
    action=Action.NODE_READ,
    answer=wire.DevicePage,
    responses=PARTLY,
    summary="List every device with its holders, portions, MIG instances, health and utilization",
)
async def devices(
    request: Request,
    plane: Plane,
    caller: Caller,
    filter_by: FilterBy = "",
    search: Search = "",
    sort_by: SortBy = "name",
    sort_order: SortOrder = "asc",
    offset: Offset = 0,
    limit: Nodes = NODES_MAX,
) -> Response:
    """Compressed for callers that accept gzip. Changes are announced in the stream as `node` and `workload`."""
    query = ListQuery(filter_by=filter_by, search=search, sort_by=sort_by, sort_order=sort_order, offset=offset)
    query = query.model_copy(update={"limit": limit})
    packs = "gzip" in request.headers.get("accept-encoding", "")

    answer, held_since = await plane.read_apart(lambda connection: _answer(plane, connection, caller, query))
    status = 200
    try:
        await _add_measured(plane, answer, held_since)
    except Unavailable as error:
        answer["problems"], status = [each.model_dump(exclude_none=True) for each in missing_samples(error)], 207
    body = await asyncio.to_thread(_packed, answer, packs)
    headers = {"Vary": "Accept-Encoding"} | ({"Content-Encoding": "gzip"} if packs else {})
    return Response(body, status, media_type="application/json", headers=headers)


def _packed(answer: Mapping[str, Any], packs: bool) -> bytes:
    text = compact(answer).encode()
    return gzip.compress(text, GZIP_LEVEL) if packs else text


async def _add_measured(plane: Plane, answer: Mapping[str, Any], held_since: HeldSince) -> None:
    """What was last measured of each device. Raises `Unavailable`."""
    for number, cluster in enumerate(answer["clusters"]):
        mine = [each for each in answer["nodes"] if each["cluster"] == number and each["gpus"]]
        facts = [NodeFacts(name=NodeName(each["name"]), pool=each["pool"], gpus=each["gpus"]) for each in mine]
        uses = await node_uses(plane, cluster["id"], facts)
        for each in mine:
            if each["name"] in uses:
                each |= _measured(uses[each["name"]], held_since.get((cluster["id"], each["name"]), {}))


def _measured(use: NodeUse, held_since: Mapping[int, Instant]) -> dict[str, Any]:
    """Whole percents, and None where it is not known; which of them are idle. With memory it would be too large."""
    known = [use.of_device(index, DeviceColumn.UTILIZATION) for index in range(len(use.devices))]
    found: dict[str, list[Any]] = {
        "utilization": [None if each is None else round(each) for each in known],
        "idle": sorted(use.idle_devices(held_since)),
    }
    return {name: values for name, values in found.items() if any(each is not None for each in values)}


def _answer(plane: Plane, connection: Connection, caller: Caller, query: ListQuery) -> tuple[dict[str, Any], HeldSince]:
    fitting = filtered(list(_nodes(connection)), FIELDS, query)
    listed, following = page(fitting, query)
    book = _Book(caller)
    holders = _holders(connection, book, {(each.cluster, each.report.name): each.report for each in listed})
    clusters = {row.id: row for row in cluster_store.all_clusters(connection)}
    numbers = {name: number for number, name in enumerate(sorted({each.cluster for each in listed}))}
    answer: dict[str, Any] = {
        "asOf": iso(plane.now()),
        "count": len(fitting),
        "devices": sum(each.report.gpus for each in fitting),
        "clusters": [
            {
                "id": name,
                "name": clusters[name].name if name in clusters else "",
                "lastSeenAt": iso_or_none(clusters[name].last_seen_at) if name in clusters else None,
            }
            for name in numbers
        ],
        "projects": list(book.projects),
        "users": list(book.users),
        "workloads": book.workloads,
        "nodes": [_node(each, numbers, holders.get((each.cluster, each.report.name))) for each in listed],
    }
    held_since = {key: held.since for key, held in holders.items()}
    return (answer if following is None else {**answer, "next": following}), held_since


def _nodes(connection: Connection) -> Iterable[_Node]:
    overrides = {
        (row.cluster, row.node): NodeOverridesRequest.model_validate_json(row.document)
        for row in store.node_overrides(connection)
    }
    nothing = NodeOverridesRequest()
    for row in cluster_store.all_nodes(connection):
        report = NodeReport.from_json(row.document)
        mine = overrides.get((row.cluster, row.name), nothing)
        drained = any((each.key, each.value, each.effect) == astuple(DRAIN) for each in mine.taints)
        yield _Node(report, row.cluster, report.cordoned or mine.cordoned, drained)


class _Book:
    """Workloads, projects and users with their numbers, of those that a caller may see."""

    def __init__(self, caller: Caller) -> None:
        self._places = caller.places(Action.WORKLOAD_READ)
        self._numbers: dict[str, int] = {}
        self.workloads: dict[str, list[Any]] = {"ids": [], "names": [], "projects": [], "users": []}
        self.projects: dict[str, int] = {}
        self.users: dict[str, int] = {}

    def number(self, row: Any) -> int:
        """The number of a workload."""
        known = self._numbers.get(row.workload)
        if known is None:
            known = self._numbers[row.workload] = self._added(row)
        return known

    def _added(self, row: Any) -> int:
        if self._places is not None and not self._places.covers(row.project, row.department, row.cluster):
            return wire.HIDDEN
        columns = self.workloads
        columns["ids"].append(row.workload)
        columns["names"].append(row.name)
        columns["projects"].append(self.projects.setdefault(former_name(row.project), len(self.projects)))
        columns["users"].append(self.users.setdefault(row.submitted_by, len(self.users)))
        return len(columns["ids"]) - 1


@dataclass(slots=True)
class _Held:
    holders: list[wire.Portion] = field(default_factory=list)
    leaving: list[wire.Portion] = field(default_factory=list)
    promised: list[wire.Portion] = field(default_factory=list)
    mig: list[tuple[int, str, int]] = field(default_factory=list)
    since: dict[int, Instant] = field(default_factory=dict)
    """By device: since when the first of its holders has it."""


def _holders(
    connection: Connection, book: _Book, nodes: Mapping[tuple[str, str], NodeReport]
) -> dict[tuple[str, str], _Held]:
    found: dict[tuple[str, str], _Held] = {}
    with_mig = {key for key, report in nodes.items() if any(_mig_of(report))}
    rows = [row for row in holdings.with_owners(connection) if (row.cluster, row.node) in nodes]
    there = dict.fromkeys(row.workload for row in rows if (row.cluster, row.node) in with_mig)
    owners = workload_store.some(connection, list(there))
    for row in rows:
        key = (row.cluster, row.node)
        held = found.setdefault(key, _Held())
        numbers = _numbers(row.devices)
        if numbers:
            portions = held.leaving if row.phase == RELEASING else held.holders
            portions.append((book.number(row), row.gpus_milli // len(numbers), numbers))
            for index in numbers:
                held.since[index] = min(row.since, held.since.get(index, row.since))
        elif row.gpus_milli and key in with_mig:
            wanted = declaration_of(owners[row.workload]).workload.template.shape.gpu.mig
            held.mig += [(book.number(row), profile, count) for profile, count in wanted]
    for row in holdings.promised(connection):
        pod = PodReport.from_json(row.document)
        report = nodes.get((row.cluster, pod.node or ""))
        if report is not None and pod.devices:
            gpu = declaration_of(row).workload.to_spec().template.shape.gpu
            each = gpus_charged_milli(gpu, report.gpu_memory_mib) // len(pod.devices)
            held = found.setdefault((row.cluster, report.name), _Held())
            held.promised.append((book.number(row), each, list(pod.devices)))
    return found


@lru_cache(maxsize=4096)
def _numbers(devices: str) -> list[int]:
    """The devices in a row; nodes have few different combinations."""
    found: list[int] = json.loads(devices)
    return found


def _mig_of(report: NodeReport) -> dict[str, int]:
    return {name: count for name, count in (report.counted or {}).items() if name.startswith(MIG_PREFIX)}


def _node(each: _Node, clusters: Mapping[str, int], held: _Held | None) -> dict[str, Any]:
    report = each.report
    shown = {
        "name": report.name,
        "cluster": clusters[each.cluster],
        "pool": report.pool or DEFAULT_POOL,
        "status": status_of(report),
        "gpus": report.gpus,
        "holders": held.holders if held is not None else [],
    }
    more = {
        "cordoned": each.is_cordoned,
        "drained": each.is_drained,
        "silentSince": iso_or_none(report.silent_since),
        "type": report.labels.get(PRODUCT_LABEL, ""),
        "memoryMib": report.gpu_memory_mib,
        "simulated": report.labels.get(SIMULATED_LABEL) == "true",
        "withheld": list(report.gpus_withheld),
        "message": report.message,
        "mig": _mig_of(report),
        "leaving": held.leaving if held is not None else [],
        "promised": held.promised if held is not None else [],
        "migHolders": held.mig if held is not None else [],
    }
    return shown | {name: value for name, value in more.items() if value}
