"""Writes what a scrape found as series, for a caller who may see some of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fairpool.api.clusters import NodeReport
from fairpool.api.exposition import NamedSeries, SeriesTable, labels
from fairpool.api.workload_spec import Kind
from fairpool.api.workloads import Phase
from fairpool.control.activity import ClusterActivity
from fairpool.control.items import CATEGORIES, pod_name
from fairpool.control.scrape_facts import Scraped, ScrapedCluster
from fairpool.control.scrape_names import TABLES, ScrapeSubject
from fairpool.control.workload_documents import former_name
from fairpool.control.workload_requests import WorkloadRequest
from fairpool.metrics import catalogue
from fairpool.metrics.catalogue import DeviceColumn, NodeColumn, PodDeviceColumn, QueueColumn, WorkColumn
from fairpool.metrics.totals import NodeFacts, PodHolding, QueueFacts, Waiting
from fairpool.model.ids import SECOND_MS, WorkloadId, place_of
from fairpool.model.node import DEFAULT_POOL, PRODUCT_LABEL
from fairpool.model.quantity import WHOLE_GPU_MILLI

MIB: Final = 1 << 20
MB: Final = 1000**2
MIG_PREFIX: Final = "nvidia.com/mig-"
NO_WORKLOADS: Final = dict.fromkeys(
    (Phase.PENDING.value, Phase.RUNNING.value, Phase.COMPLETED.value, Phase.FAILED.value), 0
)
"""Also a phase that no workload has is counted: a count that is not there is not 0."""
IS_OVER: Final = frozenset({Phase.COMPLETED.value, Phase.FAILED.value, Phase.STOPPED.value})
UNLIMITED: Final = "unlimited"

Sees = Callable[[str, str, str], bool]
"""Whether something of this project, department and cluster may be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """What may be seen."""

    nodes: bool
    """Nodes, GPUs, clusters, node pools, and the figures of the process."""
    projects: Sees
    departments: Sees
    workloads: Sees


@dataclass(slots=True)
class ProjectWork:
    """What a project has, holds and waits for in a cluster."""

    queues: list[QueueFacts] = field(default_factory=list)
    held_milli: int = 0
    phases: dict[str, int] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)


def series_texts(
    found: Scraped,
    activities: Mapping[str, ClusterActivity],
    viewer: Viewer,
    subjects: Collection[ScrapeSubject],
    away_s: float,
) -> list[str]:
    """The text of all series of these subjects that may be seen, name by name."""
    tables = {subject: SeriesTable(words) for subject, words in TABLES.items()}
    for cluster in found.clusters:
        activity = activities.get(cluster.id) or ClusterActivity()
        writer = _ClusterWriter(found, cluster, activity, viewer)
        if viewer.nodes and ScrapeSubject.CLUSTER in subjects:
            writer.cluster(tables[ScrapeSubject.CLUSTER], away_s)
        if viewer.nodes and ScrapeSubject.NODES in subjects:
            writer.nodes(tables[ScrapeSubject.NODES])
        if viewer.nodes and ScrapeSubject.GPUS in subjects:
            writer.gpus(tables[ScrapeSubject.GPUS])
        if ScrapeSubject.PROJECTS in subjects:
            writer.projects(tables[ScrapeSubject.PROJECTS])
        if ScrapeSubject.WORKLOADS in subjects:
            writer.workloads(tables[ScrapeSubject.WORKLOADS])
        if ScrapeSubject.PODS in subjects:
            writer.pods(tables[ScrapeSubject.PODS])
    if viewer.nodes and ScrapeSubject.WORKLOADS in subjects:
        tables[ScrapeSubject.WORKLOADS]["fairpool_workloads_left_out"].add("", found.left_out)
    return [text for table in tables.values() for text in table.texts]


class _ClusterWriter:
    """The series of one cluster."""

    def __init__(self, found: Scraped, cluster: ScrapedCluster, activity: ClusterActivity, viewer: Viewer) -> None:
        self._found, self._cluster, self._activity, self._viewer = found, cluster, activity, viewer
        self._here = labels(clusterId=cluster.id)
        self._now_s = found.now / SECOND_MS
        self._node_facts = {str(each.name): each for each in cluster.facts.nodes}
        self._held: dict[str, list[PodHolding]] = {}
        for each in cluster.facts.holdings:
            self._held.setdefault(str(each.node), []).append(each)

    # --- the cluster and its node pools ---

    def cluster(self, table: SeriesTable, away_s: float) -> None:
        here, cluster = self._here, self._cluster
        about = labels(cluster=cluster.name, version=cluster.version)
        table["fairpool_cluster_info"].add(f"{here},{about}", 1)
        if cluster.last_seen_at is not None:
            seen_s = cluster.last_seen_at / SECOND_MS
            table["fairpool_cluster_last_seen_timestamp_seconds"].add(here, seen_s)
            table["fairpool_cluster_connected"].add(here, int(self._now_s - seen_s < away_s))
        self._pools(table)
        measured = [(facts, row) for facts in cluster.facts.nodes if (row := self._node_row(facts)) is not None]
        cores = [(row[NodeColumn.CPU_CORES], facts.cpu_milli / 1000) for facts, row in measured]
        memory = [(row[NodeColumn.MEMORY_BYTES], facts.memory_bytes) for facts, row in measured]
        table["runai_cluster_cpu_utilization"].add(here, _part(cores))
        table["runai_cluster_memory_utilization"].add(here, _part(memory))
        known = [used for used, _ in memory if used == used]
        table["runai_cluster_memory_used_bytes"].add(here, sum(known) if known else None)

    def _pools(self, table: SeriesTable) -> None:
        pools: dict[str, list[NodeFacts]] = {}
        for each in self._cluster.facts.nodes:
            pools.setdefault(each.pool, []).append(each)
        for pool, nodes in sorted(pools.items()):
            here = f"{self._here},{labels(nodepool=pool)}"
            held = sum(each.gpus_milli for node in nodes for each in self._held.get(str(node.name), ()))
            table["fairpool_nodepool_gpus"].add(here, sum(each.gpus for each in nodes))
            table["fairpool_nodepool_gpus_ready"].add(here, sum(each.gpus for each in nodes if each.is_ready))
            table["fairpool_nodepool_gpus_allocated"].add(here, _gpus(held))
            table["fairpool_nodepool_nodes"].add(here, len(nodes))
            table["fairpool_nodepool_nodes_ready"].add(here, sum(each.is_ready for each in nodes))

    def _rows(self, facts: NodeFacts) -> Mapping[str, Sequence[float]]:
        return self._cluster.measured.get(catalogue.node_group(self._cluster.id, facts.name), {})

    def _node_row(self, facts: NodeFacts) -> Sequence[float] | None:
        return self._rows(facts).get(catalogue.NODE_ITSELF)

    # --- nodes and their GPUs ---

    def nodes(self, table: SeriesTable) -> None:
        for report in self._cluster.nodes:
            facts = self._node_facts[str(report.name)]
            pool = report.pool or DEFAULT_POOL
            here = f"{self._here},{labels(node=report.name, nodepool=pool)}"
            held = self._held.get(str(report.name), [])
            _node_state(table, here, report)
            table["runai_allocated_gpu_count_per_node"].add(here, _gpus(sum(each.gpus_milli for each in held)))
            table["runai_node_cpu_requested_cores"].add(here, sum(each.cpu_milli for each in held) / 1000)
            table["runai_node_requested_memory_bytes"].add(here, sum(each.memory_bytes for each in held))
            table["runai_node_total_memory_bytes"].add(here, facts.memory_bytes)
            table["runai_gpu_memory_total_mebibytes_per_node"].add(here, facts.gpus * facts.gpu_memory_mib)
            row = self._node_row(facts)
            if row is not None:
                _node_use(table, here, facts, row)

    def gpus(self, table: SeriesTable) -> None:
        for node in self._cluster.facts.nodes:
            parts: dict[int, list[int]] = {}
            for each in self._held.get(str(node.name), ()):
                for index in each.devices:
                    parts.setdefault(index, []).append(each.gpus_milli // len(each.devices))
            rows = self._rows(node)
            where = f"{self._here},{labels(node=node.name)}"
            for index in range(node.gpus):
                here = f'{where},gpu="{index}"'
                held = parts.get(index, ())
                table["runai_gpu_is_allocated"].add(here, int(bool(held)))
                is_shared = any(0 < each < WHOLE_GPU_MILLI for each in held)
                table["runai_gpu_is_running_fractional_job"].add(here, int(is_shared))
                table["runai_allocated_gpu_count_per_gpu"].add(here, _gpus(sum(held)))
                table["runai_gpu_memory_total_mebibytes_per_gpu"].add(here, node.gpu_memory_mib)
                active_s = self._activity.devices.get((str(node.name), index))
                table["runai_gpu_last_active_time"].add(here, active_s)
                table["runai_last_gpu_utilization_time_per_gpu"].add(here, active_s)
                row = rows.get(catalogue.device(index))
                if row is not None:
                    _gpu_use(table, here, row)

    # --- projects and departments ---

    def projects(self, table: SeriesTable) -> None:
        cluster, queues = self._cluster, self._cluster.facts.queues
        held = self._held_by_queue()
        for queue in queues:
            if queue.project:
                if self._viewer.projects(queue.project, queue.department, cluster.id):
                    self._project_in_pool(table, queue, held.get((queue.project, queue.pool), 0))
            elif self._viewer.departments("", queue.department, cluster.id):
                here = f"{self._here},{labels(department=queue.department, nodepool=queue.pool)}"
                table["fairpool_department_gpu_quota"].add(here, _quota(queue.gpu_quota_milli))
        departments: dict[tuple[str, str], int] = {}
        above = {queue.project: queue.department for queue in queues if queue.project}
        for (project, pool), amount in held.items():
            key = (above.get(project, ""), pool)
            departments[key] = departments.get(key, 0) + amount
        for (department, pool), amount in sorted(departments.items()):
            if department and self._viewer.departments("", department, cluster.id):
                here = f"{self._here},{labels(department=department, nodepool=pool)}"
                table["fairpool_department_gpus_allocated"].add(here, _gpus(amount))
        works = self._by_project(held)
        for project, department in sorted(above.items()):
            if self._viewer.projects(project, department, cluster.id):
                self._project(table, project, department, works.get(project, ProjectWork()))

    def _by_project(self, held: Mapping[tuple[str, str], int]) -> dict[str, ProjectWork]:
        found: dict[str, ProjectWork] = {}
        for queue in self._cluster.facts.queues:
            found.setdefault(queue.project, ProjectWork()).queues.append(queue)
        for (project, _), amount in held.items():
            found.setdefault(project, ProjectWork()).held_milli += amount
        for row in self._found.totals:
            if row.cluster == self._cluster.id:
                phases = found.setdefault(row.project, ProjectWork()).phases
                phases[row.phase] = phases.get(row.phase, 0) + row.number
        for each in self._cluster.facts.waiting:
            found.setdefault(each.project, ProjectWork()).waiting.append(each)
        return found

    def _held_by_queue(self) -> dict[tuple[str, str], int]:
        """In thousandths of GPUs, by project and node pool."""
        found: dict[tuple[str, str], int] = {}
        for each in self._cluster.facts.holdings:
            facts = self._node_facts.get(str(each.node))
            key = (each.project, facts.pool if facts is not None else "")
            found[key] = found.get(key, 0) + each.gpus_milli
        return found

    def _project_in_pool(self, table: SeriesTable, queue: QueueFacts, held_milli: int) -> None:
        about = {"project": queue.project, "department": queue.department, "nodepool": queue.pool}
        here = f"{self._here},{labels(**about)}"
        quota = _quota(queue.gpu_quota_milli)
        over_milli = 0 if queue.gpu_quota_milli < 0 else max(0, held_milli - queue.gpu_quota_milli)
        table["fairpool_project_gpu_quota"].add(here, quota)
        table["fairpool_project_gpus_allocated"].add(here, _gpus(held_milli))
        table["fairpool_project_gpus_over_quota"].add(here, _gpus(over_milli))
        if queue.fair_share_milli is not None:
            table["fairpool_project_gpu_fair_share"].add(here, _gpus(queue.fair_share_milli))
        info = labels(nodepool=queue.pool, project=queue.project, department_name=queue.department)
        table["runai_queue_info"].add(f"{self._here},{info},{_quota_labels([queue])}", 1)

    def _project(self, table: SeriesTable, project: str, department: str, work: ProjectWork) -> None:
        mine, held_milli = work.queues, work.held_milli
        here = f"{self._here},{labels(project=project, department=department)}"
        is_unlimited = any(each.gpu_quota_milli < 0 for each in mine)
        quota_milli = sum(each.gpu_quota_milli for each in mine)
        table["runai_project_guaranteed_gpus"].add(here, None if is_unlimited else _gpus(quota_milli))
        info = labels(project=project, department_name=department)
        table["runai_project_info"].add(f"{self._here},{info},{_quota_labels(mine)}", 1)
        table["runai_allocated_gpu_count_per_project"].add(here, _gpus(held_milli))
        group = self._cluster.measured.get(catalogue.owner_group(self._cluster.id, project), {})
        row = group.get(catalogue.project(project))
        if row is not None:
            table["runai_gpu_utilization_per_project"].add(here, row[QueueColumn.GPU_UTILIZATION])
        for phase, number in sorted((NO_WORKLOADS | work.phases).items()):
            table["fairpool_project_workloads"].add(f'{here},phase="{phase}"', number)
        _add_waits(table, here, work.waiting, None if is_unlimited else quota_milli - held_milli)

    # --- workloads and pods ---

    def _seen(self) -> Iterator[Any]:
        sees, cluster = self._viewer.workloads, self._cluster.id
        return (row for row in self._cluster.workloads if sees(row.project, row.department, cluster))

    def _work_row(self, workload: str, subject: str) -> Sequence[float] | None:
        return self._cluster.measured.get(catalogue.workload_group(self._cluster.id, workload), {}).get(subject)

    def workloads(self, table: SeriesTable) -> None:
        held: dict[str, list[PodHolding]] = {}
        for each in self._cluster.facts.holdings:
            held.setdefault(each.workload, []).append(each)
        for row in self._seen():
            project = former_name(row.project)
            one = f"{self._here},{labels(job_uuid=row.id, job_name=row.name, project=project)}"
            here = f'{one},job_type="{CATEGORIES[Kind(row.kind)]}"'
            mine = held.get(row.id, [])
            node = mine[0].node if len({each.node for each in mine}) == 1 else ""
            info = labels(user=row.submitted_by, status=row.status, node=node)
            table["runai_job_status_with_info"].add(f"{here},{info}", 1)
            _time_series(table, here, row, self._now_s)
            _request_series(table, here, row)
            asked = self._found.requests.get(row.id)
            if asked is not None:
                _asked_series(table, here, one, row, asked)
            _held_series(table, here, mine)
            self._use_series(table, here, row.id)

    def _use_series(self, table: SeriesTable, here: str, workload: str) -> None:
        row = self._work_row(workload, workload)
        if row is not None:
            utilization, memory = row[WorkColumn.GPU_UTILIZATION], row[WorkColumn.GPU_MEMORY_BYTES]
            cores, used = row[WorkColumn.CPU_CORES], row[WorkColumn.MEMORY_BYTES]
            table["runai_job_gpu_utilization"].add(here, utilization)
            table["runai_gpu_utilization_per_workload"].add(here, utilization)
            table["runai_job_used_gpu_memory_bytes"].add(here, memory)
            table["runai_gpu_memory_used_mebibytes_per_workload"].add(here, memory / MIB)
            table["runai_running_job_cpu_used_cores"].add(here, cores)
            table["runai_job_cpu_usage"].add(here, cores)
            table["runai_running_job_memory_used_bytes"].add(here, used)
            table["runai_job_memory_used_bytes"].add(here, used)
        idle_since = self._activity.idle_since.get(workload)
        active_s = self._activity.workloads.get(workload)
        table["runai_last_gpu_utilization_time_per_workload"].add(here, active_s)
        if idle_since is not None or active_s is not None:
            idle_s = 0.0 if idle_since is None else max(0.0, self._now_s - idle_since)
            table["runai_gpu_idle_seconds_per_workload"].add(here, idle_s)

    def pods(self, table: SeriesTable) -> None:
        rows = {row.id: row for row in self._seen()}
        for each in self._cluster.facts.holdings:
            row = rows.get(each.workload)
            if row is None:
                continue
            project = former_name(row.project)
            index, incarnation = place_of(WorkloadId(each.workload), each.pod) or (0, 0)
            about = {"pod_namespace": f"runai-{project}", "pod_name": pod_name(row.name, index, incarnation)}
            work = labels(job_uuid=row.id, job_name=row.name, project=project)
            pod, node = labels(**about), labels(node=each.node)
            here = f"{self._here},{pod},{node},{work}"
            table["runai_allocated_gpu_count_per_pod"].add(here, _gpus(each.gpus_milli))
            table["runai_allocated_millicpus_per_pod"].add(here, each.cpu_milli)
            table["runai_allocated_memory_per_pod"].add(here, each.memory_bytes)
            is_whole = bool(each.devices) and each.gpus_milli == WHOLE_GPU_MILLI * len(each.devices)
            for number in each.devices:
                used = self._work_row(each.workload, catalogue.pod_device(each.workload, each.pod, number))
                if used is not None:
                    _pod_gpu_series(table, used, f'{here},gpu="{number}"', is_whole)


def _node_state(table: SeriesTable, here: str, report: NodeReport) -> None:
    is_ready, is_unknown = report.ready and report.silent_since is None, report.silent_since is not None
    table["fairpool_node_ready"].add(here, int(is_ready))
    table["fairpool_node_unknown"].add(here, int(is_unknown))
    table["fairpool_node_gpus_withheld"].add(here, len(report.gpus_withheld))
    words = {True: "true", False: "false"}
    about = labels(
        modelName=report.labels.get(PRODUCT_LABEL, ""), ready=words[is_ready], schedulable=words[not report.cordoned]
    )
    table["runai_gpu_count_per_node"].add(f"{here},{about}", report.gpus)
    has_mig = any(name.startswith(MIG_PREFIX) for name in report.counted or ())
    table["runai_mig_mode_gpu_count"].add(here, report.gpus if has_mig else 0)


def _node_use(table: SeriesTable, here: str, facts: NodeFacts, row: Sequence[float]) -> None:
    cores, memory, on_gpus = row[NodeColumn.CPU_CORES], row[NodeColumn.MEMORY_BYTES], row[NodeColumn.GPU_MEMORY_BYTES]
    table["runai_node_cpu_utilization"].add(here, _part([(cores, facts.cpu_milli / 1000)]))
    table["runai_node_memory_utilization"].add(here, _part([(memory, facts.memory_bytes)]))
    table["runai_node_used_memory_bytes"].add(here, memory)
    table["runai_node_gpu_used_memory_bytes"].add(here, on_gpus)
    table["runai_gpu_memory_used_mebibytes_per_node"].add(here, on_gpus / MIB)
    table["runai_gpu_utilization_per_node"].add(here, row[NodeColumn.GPU_UTILIZATION])


def _gpu_use(table: SeriesTable, here: str, row: Sequence[float]) -> None:
    table["runai_gpu_utilization_per_gpu"].add(here, row[DeviceColumn.UTILIZATION])
    table["runai_gpu_memory_used_mebibytes_per_gpu"].add(here, row[DeviceColumn.MEMORY_BYTES] / MIB)
    table["fairpool_gpu_power_watts"].add(here, row[DeviceColumn.POWER_WATTS])
    table["fairpool_gpu_temperature_celsius"].add(here, row[DeviceColumn.TEMPERATURE_CELSIUS])
    table["fairpool_gpu_clock_mhz"].add(here, row[DeviceColumn.CLOCK_MHZ])
    table["fairpool_gpu_uncorrected_errors"].add(here, row[DeviceColumn.ERRORS])


def _time_series(table: SeriesTable, here: str, row: Any, now_s: float) -> None:
    until_s = now_s if row.completed_at is None else row.completed_at / SECOND_MS
    began_s = None if row.started_at is None else row.started_at / SECOND_MS
    waited_s = max(0.0, (until_s if began_s is None else began_s) - row.created_at / SECOND_MS)
    ran_s = 0.0 if began_s is None else max(0.0, until_s - began_s)
    _both(table, "runai_job_total_runtime", "runai_run_time_seconds_per_workload", here, ran_s)
    _both(table, "runai_job_total_wait_time", "runai_wait_time_seconds_per_workload", here, waited_s)


def _request_series(table: SeriesTable, here: str, row: Any) -> None:
    asked, held = _gpus(row.requested_gpus_milli), _gpus(row.allocated_gpus_milli)
    _both(table, "runai_job_requested_gpus", "runai_requested_gpus_per_workload", here, asked)
    _both(table, "runai_job_allocated_gpus", "runai_allocated_gpu_count_per_workload", here, held)


def _asked_series(table: SeriesTable, here: str, one: str, row: Any, asked: WorkloadRequest) -> None:
    if asked.gpu_memory_mib:
        table["runai_job_requested_gpu_memory"].add(here, asked.gpu_memory_mib * MIB)
        table["runai_requested_gpu_memory_mb_per_workload"].add(here, asked.gpu_memory_mib * MIB / MB)
    if asked.image:
        table["runai_job_image"].add(f"{one},{labels(image=asked.image)}", 1)
    if row.phase not in IS_OVER:
        table["runai_active_job_cpu_requested_cores"].add(here, asked.cpu_milli / 1000)
        table["runai_active_job_memory_requested_bytes"].add(here, asked.memory_bytes)
        cores, memory = asked.cpu_limit_milli / 1000, asked.memory_limit_bytes
        _limit(table["runai_cpu_limits_per_active_workload"], here, cores * asked.pods)
        _limit(table["runai_memory_limits_per_active_workload"], here, memory * asked.pods)
        _limit(table["runai_running_job_cpu_limit_cores"], here, cores * row.running_pods)
        _limit(table["runai_running_job_memory_limit_bytes"], here, memory * row.running_pods)


def _held_series(table: SeriesTable, here: str, held: Sequence[PodHolding]) -> None:
    if held:
        table["runai_running_job_cpu_requested_cores"].add(here, sum(each.cpu_milli for each in held) / 1000)
        table["runai_running_job_memory_requested_bytes"].add(here, sum(each.memory_bytes for each in held))


def _pod_gpu_series(table: SeriesTable, used: Sequence[float], here: str, is_whole: bool) -> None:
    utilization, memory = used[PodDeviceColumn.UTILIZATION], used[PodDeviceColumn.MEMORY_BYTES]
    table["runai_gpu_utilization_with_pod_info"].add(here, utilization)
    table["runai_gpu_utilization_per_pod_per_gpu"].add(here, utilization)
    table["runai_gpu_memory_used_mebibytes_per_pod_per_gpu"].add(here, memory / MIB)
    table["runai_job_used_gpu_memory_bytes_with_gpu_node"].add(here, memory)
    if is_whole:
        table["runai_gpu_utilization_non_fractional_jobs"].add(here, utilization)


def _both(table: SeriesTable, older: str, newer: str, here: str, value: float) -> None:
    table[older].add(here, value)
    table[newer].add(here, value)


def _limit(series: NamedSeries, here: str, amount: float) -> None:
    """0: there is no limit, or nothing that it holds for."""
    series.add(here, amount or None)


def _add_waits(table: SeriesTable, here: str, waiting: Sequence[Waiting], free_milli: int | None) -> None:
    queued = [each for each in waiting if not each.is_held_back]
    fitting = [each for each in queued if free_milli is None or each.gpus_milli <= free_milli]
    for name, those in (("", queued), ("_in_quota", fitting)):
        longest_s = max((each.since_s for each in those), default=0.0)
        table[f"fairpool_project_longest_wait{name}_seconds"].add(here, longest_s)
    table["fairpool_project_gpus_waiting"].add(here, _gpus(sum(each.gpus_milli for each in waiting)))


def _quota_labels(queues: Sequence[QueueFacts]) -> str:
    def total(amounts: Sequence[int], unit: int) -> str:
        return UNLIMITED if any(each < 0 for each in amounts) else f"{sum(amounts) / unit:g}"

    return labels(
        gpu_guaranteed_quota=total([each.gpu_quota_milli for each in queues], WHOLE_GPU_MILLI),
        cpu_quota=total([each.cpu_quota_milli for each in queues], 1000),
        memory_quota=total([each.memory_quota_bytes for each in queues], 1),
    )


def _quota(milli: int) -> float | None:
    return None if milli < 0 else _gpus(milli)


def _gpus(milli: int) -> float:
    return milli / WHOLE_GPU_MILLI


def _part(amounts: Sequence[tuple[float, float]]) -> float | None:
    """Of all that was measured: how much of it is in use, 0 to 1."""
    known = [(used, whole) for used, whole in amounts if used == used]
    whole = sum(each for _, each in known)
    return sum(used for used, _ in known) / whole if whole else None
