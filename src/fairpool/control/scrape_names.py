"""The names of the series about clusters, nodes, GPUs, projects, workloads and pods, with what each of them says. Pure.

Those that begin with `runai_` are the documented ones: what is measured has the older name and the newer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class ScrapeSubject(StrEnum):
    """What a scrape can be narrowed to, with `collect[]`."""

    CLUSTER = "cluster"
    NODES = "nodes"
    GPUS = "gpus"
    PROJECTS = "projects"
    WORKLOADS = "workloads"
    PODS = "pods"
    JOBS = "jobs"
    """What jobs report about themselves."""
    PROCESS = "process"


CLUSTER: Final[Mapping[str, str]] = {
    "fairpool_cluster_info": "A cluster by its name, and its version",
    "fairpool_cluster_connected": "Whether a cluster has called lately",
    "fairpool_cluster_last_seen_timestamp_seconds": "When a cluster last called",
    "fairpool_nodepool_gpus": "GPUs of the nodes of a node pool",
    "fairpool_nodepool_gpus_ready": "The same of those that are ready",
    "fairpool_nodepool_gpus_allocated": "GPUs that pods hold, with parts of them",
    "fairpool_nodepool_nodes": "Nodes of a node pool",
    "fairpool_nodepool_nodes_ready": "Nodes that are ready",
    "runai_cluster_cpu_utilization": "Cores in use of those of the nodes that were measured, 0 to 1",
    "runai_cluster_memory_utilization": "Memory in use of that of the nodes that were measured, 0 to 1",
    "runai_cluster_memory_used_bytes": "Memory in use on the nodes that were measured",
}
NODES: Final[Mapping[str, str]] = {
    "fairpool_node_ready": "Whether a node takes work",
    "fairpool_node_unknown": "Whether a node has fallen silent",
    "fairpool_node_gpus_withheld": "GPUs of a node that are not scheduled, because they fail or others use them",
    "runai_allocated_gpu_count_per_node": "GPUs of a node that pods hold, with parts of them",
    "runai_gpu_count_per_node": "GPUs of a node, with their model",
    "runai_gpu_memory_total_mebibytes_per_node": "Memory of all GPUs of a node",
    "runai_gpu_memory_used_mebibytes_per_node": "Memory in use on all GPUs of a node",
    "runai_gpu_utilization_per_node": "Utilization of the GPUs of a node, their average, 0 to 100",
    "runai_mig_mode_gpu_count": "GPUs of a node that are split into MIG instances",
    "runai_node_cpu_requested_cores": "Cores that pods on a node have asked for",
    "runai_node_cpu_utilization": "Cores in use on a node, 0 to 1",
    "runai_node_gpu_used_memory_bytes": "GPU memory in use on a node",
    "runai_node_memory_utilization": "Memory in use on a node, 0 to 1",
    "runai_node_requested_memory_bytes": "Memory that pods on a node have asked for",
    "runai_node_total_memory_bytes": "Memory of a node",
    "runai_node_used_memory_bytes": "Memory in use on a node",
}
GPUS: Final[Mapping[str, str]] = {
    "fairpool_gpu_clock_mhz": "Clock of a GPU",
    "fairpool_gpu_power_watts": "Power of a GPU",
    "fairpool_gpu_temperature_celsius": "Temperature of a GPU",
    "fairpool_gpu_uncorrected_errors": "Uncorrected memory errors of a GPU since its driver was loaded",
    "runai_allocated_gpu_count_per_gpu": "Part of a GPU that pods hold, 0 to 1",
    "runai_gpu_is_allocated": "Whether a pod holds a GPU or a part of it",
    "runai_gpu_is_running_fractional_job": "Whether a pod holds less than the whole GPU",
    "runai_gpu_last_active_time": "When a GPU last computed, as far as this process has seen",
    "runai_gpu_memory_total_mebibytes_per_gpu": "Memory of a GPU",
    "runai_gpu_memory_used_mebibytes_per_gpu": "Memory in use on a GPU",
    "runai_gpu_utilization_per_gpu": "Utilization of a GPU, 0 to 100",
    "runai_last_gpu_utilization_time_per_gpu": "As runai_gpu_last_active_time",
}
PROJECTS: Final[Mapping[str, str]] = {
    "fairpool_department_gpu_quota": "GPU quota of a department in a node pool",
    "fairpool_department_gpus_allocated": "GPUs that its projects hold in a node pool",
    "fairpool_project_gpu_fair_share": "GPUs that a project may have right now in a node pool",
    "fairpool_project_gpu_quota": "GPU quota of a project in a node pool; none where it is unlimited",
    "fairpool_project_gpus_allocated": "GPUs that a project holds in a node pool",
    "fairpool_project_gpus_over_quota": "Of these, GPUs beyond its quota",
    "fairpool_project_gpus_waiting": "GPUs that the waiting workloads of a project have asked for",
    "fairpool_project_longest_wait_seconds": "The longest time that a workload has waited for the scheduler",
    "fairpool_project_longest_wait_in_quota_seconds": "The same of those that fit into what is left of the quota",
    "fairpool_project_workloads": "Workloads of a project by phase",
    "runai_allocated_gpu_count_per_project": "GPUs that a project holds",
    "runai_gpu_utilization_per_project": "Utilization of the GPUs that a project holds, 0 to 100",
    "runai_project_guaranteed_gpus": "GPU quota of a project in all node pools; none where it is unlimited",
    "runai_project_info": "Quotas of a project, and its department",
    "runai_queue_info": "The same in each node pool",
}
WORKLOADS: Final[Mapping[str, str]] = {
    "fairpool_workloads_left_out": "Workloads without series, because there are too many",
    "runai_active_job_cpu_requested_cores": "Cores that a workload has asked for, which waits or runs",
    "runai_active_job_memory_requested_bytes": "Memory that a workload has asked for, which waits or runs",
    "runai_allocated_gpu_count_per_workload": "GPUs that a workload holds",
    "runai_cpu_limits_per_active_workload": "Limit of cores of the pods of a workload that waits or runs",
    "runai_gpu_idle_seconds_per_workload": "How long none of its GPUs has computed, as far as this process has seen",
    "runai_gpu_memory_used_mebibytes_per_workload": "GPU memory that a workload uses",
    "runai_gpu_utilization_per_workload": "Utilization of the GPUs that a workload holds, 0 to 100",
    "runai_job_allocated_gpus": "GPUs that a workload holds",
    "runai_job_cpu_usage": "Cores that a workload uses",
    "runai_job_gpu_utilization": "Utilization of the GPUs that a workload holds, 0 to 100",
    "runai_job_image": "Image of a workload",
    "runai_job_memory_used_bytes": "Memory that a workload uses",
    "runai_job_requested_gpu_memory": "GPU memory that a workload has asked for, in bytes",
    "runai_job_requested_gpus": "GPUs that a workload has asked for",
    "runai_job_status_with_info": "Status of a workload, and whose it is",
    "runai_job_total_runtime": "Seconds since the first pod of a workload began, or until it ended",
    "runai_job_total_wait_time": "Seconds that a workload has waited before its first pod began",
    "runai_job_used_gpu_memory_bytes": "GPU memory that a workload uses",
    "runai_last_gpu_utilization_time_per_workload": "When one of its GPUs last computed, as far as was seen",
    "runai_memory_limits_per_active_workload": "Limit of memory of the pods of a workload that waits or runs",
    "runai_requested_gpu_memory_mb_per_workload": "GPU memory that a workload has asked for, in MB",
    "runai_requested_gpus_per_workload": "GPUs that a workload has asked for",
    "runai_run_time_seconds_per_workload": "As runai_job_total_runtime",
    "runai_running_job_cpu_limit_cores": "Limit of cores of the running pods of a workload",
    "runai_running_job_cpu_requested_cores": "Cores that its pods hold",
    "runai_running_job_cpu_used_cores": "Cores that it uses",
    "runai_running_job_memory_limit_bytes": "Limit of memory of the running pods of a workload",
    "runai_running_job_memory_requested_bytes": "Memory that its pods hold",
    "runai_running_job_memory_used_bytes": "Memory that it uses",
    "runai_wait_time_seconds_per_workload": "As runai_job_total_wait_time",
}
PODS: Final[Mapping[str, str]] = {
    "runai_allocated_gpu_count_per_pod": "GPUs that a pod holds",
    "runai_allocated_memory_per_pod": "Memory that a pod holds, in bytes",
    "runai_allocated_millicpus_per_pod": "Thousandths of cores that a pod holds",
    "runai_gpu_memory_used_mebibytes_per_pod_per_gpu": "Memory that a pod uses of a GPU",
    "runai_gpu_utilization_non_fractional_jobs": "Utilization of a GPU by the workload that holds all of it, 0 to 100",
    "runai_gpu_utilization_per_pod_per_gpu": "Utilization of a GPU by a pod, 0 to 100",
    "runai_gpu_utilization_with_pod_info": "Utilization of a GPU by a pod, 0 to 100",
    "runai_job_used_gpu_memory_bytes_with_gpu_node": "Memory that a workload uses of a GPU",
}
TABLES: Final[Mapping[ScrapeSubject, Mapping[str, str]]] = {
    ScrapeSubject.CLUSTER: CLUSTER,
    ScrapeSubject.NODES: NODES,
    ScrapeSubject.GPUS: GPUS,
    ScrapeSubject.PROJECTS: PROJECTS,
    ScrapeSubject.WORKLOADS: WORKLOADS,
    ScrapeSubject.PODS: PODS,
}
JOB_VALUE: Final = "reporter_push_gateway_parameter_"
"""How the names of values begin that jobs report about themselves."""
NOT_EXPORTED: Final[Mapping[str, str]] = {
    "runai_deployment_request_rate": "requests to inference workloads are not counted yet",
    "runai_deployment_request_latencies": "requests to inference workloads are not counted yet",
    "dcgm_gpu_utilization": "NVIDIA's own exporter has it; runai_gpu_utilization_per_gpu is the same figure",
    "kube_node_status_allocatable": "there is no Kubernetes; runai_gpu_count_per_node, runai_node_total_memory_bytes",
    "kube_node_status_capacity": "there is no Kubernetes; runai_gpu_count_per_node, runai_node_total_memory_bytes",
    "kube_node_status_condition": "there is no Kubernetes; fairpool_node_ready, fairpool_node_unknown",
    "kube_pod_*": "there is no Kubernetes; runai_job_status_with_info, runai_allocated_gpu_count_per_pod",
}
"""Documented names that have no meaning here, with why and what to use instead."""
