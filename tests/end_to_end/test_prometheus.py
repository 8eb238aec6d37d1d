"""Prometheus scrapes a real server, its rules fire, an alert arrives, and every query of the dashboards is answered."""

from __future__ import annotations

import json
import queue
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairpool.api.workload_spec import SubmitTraining
from tests import needs
from tests.monitoring import Prometheus, alertmanager, free_port, prometheus, until, webhook
from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "fairpool.rules.yml"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))

BECOMES_BAD = {
    "RunaiCriticalProblem": {"fairpool_database_failing": "0x10 1x50"},
    "FairpoolControlPlaneDown": {'up{job="fairpool"}': "1x10 0x50"},
    "RunaiDeploymentInsufficientReplicas": {'up{job="fairpool"}': "1x10 0x50"},
    "RunaiStatefulSetInsufficientReplicas": {'up{job="fairpool-cluster"}': "1x10 0x50"},
    "RunaiAgentClusterInfoPushRateLow": {"fairpool_cluster_connected": "1x10 0x50"},
    "RunaiAgentPullRateLow": {"fairpool_link_failing": "0x10 1x50"},
    "RunaiClusterSyncHandlingRateLow": {"fairpool_reports_waiting": "10x10 9000x50"},
    "RunaiProjectControllerReconcileFailure": {"fairpool_loop_failing": "0x10 1x50"},
    "FairpoolLoopStalled": {"fairpool_loop_last_cycle_seconds": "5x10 70+60x50"},
    "RunaiContainerRestarting": {'process_start_time_seconds{job="fairpool"}': "0x10 1+1x50"},
    "RunaiCpuUsageWarning": {'process_cpu_seconds_total{job="fairpool"}': "0+1x10 70+60x50"},
    "FairpoolRequestsFailing": {
        'fairpool_http_requests_total{status="200"}': "0+10x60",
        'fairpool_http_requests_total{status="503"}': "0x10 1+1x50",
    },
    "FairpoolDatabaseFailing": {"fairpool_database_failing": "0x10 1x50"},
    "FairpoolMetricsDropped": {"fairpool_samples_dropped_total": "0x10 1+1x50"},
    "FairpoolWorkloadsLeftOut": {"fairpool_workloads_left_out": "0x10 1x50"},
    "FairpoolDiskLow": {"fairpool_disk_free_bytes": "9e9x10 1e9x50"},
    "FairpoolNodeUnknown": {'fairpool_node_unknown{node="n1"}': "0x10 1x50"},
    "RunaiDaemonSetUnavailableOnNodes": {
        'fairpool_nodepool_nodes_ready{nodepool="a"}': "2x10 0x50",
        'fairpool_nodepool_nodes{nodepool="a"}': "2x60",
    },
    "RunaiLowMemoryOnNodeWarning": {'runai_node_memory_utilization{node="n1"}': "0.5x10 0.85x50"},
    "RunaiLowMemoryOnNodeCritical": {'runai_node_memory_utilization{node="n2"}': "0.5x10 0.95x50"},
    "FairpoolGpuErrors": {'fairpool_gpu_uncorrected_errors{node="n1",gpu="0"}': "7x10 8+1x50"},
    "FairpoolGpusWithheld": {'fairpool_node_gpus_withheld{node="n1"}': "0x10 1x50"},
    "FairpoolWaitsWithinQuota": {'fairpool_project_longest_wait_in_quota_seconds{project="a"}': "0x10 1900+60x50"},
    "FairpoolIdleGpus": {
        'runai_job_allocated_gpus{clusterId="c",job_uuid="j",project="a"}': "2x60",
        'runai_gpu_idle_seconds_per_workload{clusterId="c",job_uuid="j"}': "0x10 3700+60x50",
    },
    "RunaiContainerMemoryUsageWarning": {
        'runai_running_job_memory_used_bytes{job_uuid="j"}': "50x10 85x50",
        'runai_running_job_memory_limit_bytes{job_uuid="j"}': "100x60",
    },
    "RunaiContainerMemoryUsageCritical": {
        'runai_running_job_memory_used_bytes{job_uuid="k"}': "50x10 95x50",
        'runai_running_job_memory_limit_bytes{job_uuid="k"}': "100x60",
    },
}
"""Of each alert: series that are as they should be for ten minutes, and then are not."""
MAY_BE_EMPTY = re.compile(r"gpu_idle_seconds_per_workload|uncorrected_errors|department_gpus_allocated|:1m\]")
"""What is empty where all is well, and sums of minutes before the first is over."""


def promtool(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [needs.program("promtool", "prometheus"), *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def test_every_alert_fires_when_it_should_and_not_before(tmp_path: Path) -> None:
    assert {rule["alert"] for rule in alerts()} == BECOMES_BAD.keys()
    assert all(rule["labels"]["severity"] in ("warning", "critical") for rule in alerts())

    def fires(alert: str, at: str, number: int) -> dict[str, Any]:
        expression = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})'
        return {"expr": expression, "eval_time": at, "exp_samples": [{"labels": "{}", "value": 1}][:number]}

    series = {name: values for each in BECOMES_BAD.values() for name, values in each.items()}
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            fires(alert, at, number) for alert in BECOMES_BAD for at, number in (("9m", 0), ("30m", 1))
        ],
    }
    file = tmp_path / "cases.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]}))
    done = promtool("test", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_configurations_are_valid() -> None:
    done = promtool("check", "config", "--syntax-only", str(DEPLOY / "prometheus" / "prometheus.yml"))
    assert done.returncode == 0, done.stderr
    amtool = needs.program("amtool", "prometheus-alertmanager")
    file = str(DEPLOY / "alertmanager" / "alertmanager.yml")
    assert subprocess.run([amtool, "check-config", file], capture_output=True, check=False).returncode == 0


# --- a server that is scraped ------------------------------------------------------------------------------------

JOB = """from runai.reporter import Reporter; reporter = Reporter(); reporter.reportMetric("overall_epochs", 4); \\
reporter.reportMetric("epoch", 1); any(iter(int, 1))"""
"""Reports, then computes without end."""


@dataclass
class Monitored:
    """A platform with a job that runs and one that waits, and a Prometheus that scrapes it as an application."""

    platform: Running
    open_address: str
    prometheus: Prometheus
    received: queue.Queue[Any]


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    for name, package in (("prometheus", "prometheus"), ("prometheus-alertmanager", "prometheus-alertmanager")):
        needs.program(name, package)
    folder = tmp_path_factory.mktemp("monitored")
    platform = Running(folder / "data", nodes="2x2:V100-16GB")
    started = platform.up("--metrics-listen", "127.0.0.1:0")
    try:
        (opened,) = re.findall(r"Metrics +(\S+)", started.stdout)
        running = platform.submit("busy", JOB, gpu="1")
        _submit_what_waits(platform)
        with (
            webhook() as (url, received),
            alertmanager(_alertmanager_file(folder, url)) as manager,
            prometheus(_prometheus_file(folder, platform, manager)) as found,
        ):
            platform.until_phase(running, "Running")
            until(lambda: found.query('runai_job_gpu_utilization{job_name="busy"}'), "a sample was scraped")
            until(lambda: found.query('count_over_time(up{job="fairpool"}[1m]) > 5'), "rates are known")
            yield Monitored(platform, opened, found, received)
    finally:
        platform.clean_up()


def _submit_what_waits(platform: Running) -> None:
    spec = {"image": "ubuntu", "command": "true", "compute": {"gpu": "8"}}
    body = {"name": "large", "projectId": "team-a", "spec": spec, "waitAnyway": True}
    platform.client.submit(SubmitTraining.model_validate(body))


def _alertmanager_file(folder: Path, url: str) -> Path:
    file = folder / "alertmanager.yml"
    route = {"receiver": "hook", "group_wait": "0s", "group_interval": "1s", "group_by": ["alertname"]}
    receivers = [{"name": "hook", "webhook_configs": [{"url": url}]}]
    file.write_text(yaml.safe_dump({"route": route, "receivers": receivers}))
    return file


def _prometheus_file(folder: Path, platform: Running, manager: str) -> Path:
    """As in `deploy`, with short times; a cluster program that is not there is what an alert is about."""
    rules = folder / "rules.yml"
    rules.write_text(re.sub(r"\n +for: \w+", "", RULES.read_text()))
    body = {"name": "prometheus", "roles": ["viewer"]}
    application = platform.client.create_application(body)
    secret = folder / "secret"
    secret.write_text(application.client_secret)
    address = str(platform.status["address"])
    configuration = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["rule_files"] = [str(rules)]
    configuration["alerting"]["alertmanagers"][0]["static_configs"] = [{"targets": [manager]}]
    control, cluster = configuration["scrape_configs"]
    control["scheme"] = "http"
    control["static_configs"] = [{"targets": [address.removeprefix("http://")]}]
    control["oauth2"] |= {
        "client_id": application.client_id,
        "client_secret_file": str(secret),
        "token_url": f"{address}/api/v2/token",
    }
    cluster["static_configs"] = [{"targets": [f"127.0.0.1:{free_port()}"]}]
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration))
    return file


def test_an_application_scrapes_what_it_may_see(monitored: Monitored) -> None:
    found = monitored.prometheus
    assert [each["value"][1] for each in found.query('up{job="fairpool"}')] == ["1"]
    (held,) = found.query("sum(runai_job_allocated_gpus)")
    assert float(held["value"][1]) == 1
    (gpus,) = found.query("sum(fairpool_nodepool_gpus)")
    assert float(gpus["value"][1]) == 4
    (progress,) = found.query("reporter_push_gateway_parameter_epoch")
    assert progress["metric"]["job_name"] == "busy"
    assert float(progress["value"][1]) == 1
    (fast,) = found.query("max_over_time(scrape_duration_seconds{job='fairpool'}[1m])")
    assert float(fast["value"][1]) < 10


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_every_query_of_a_dashboard_is_answered(monitored: Monitored, file: Path) -> None:
    board = json.loads(file.read_text())
    queries = [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]]
    assert len(queries) > 15
    filled = {"$cluster": ".*", "$project": ".*", "$__rate_interval": "1m", "$__range_s": "60", "$__range": "1m"}
    empty = []
    for title, query in queries:
        for name, value in filled.items():
            query = query.replace(name, value)
        assert "$" not in query, query
        if not monitored.prometheus.query(query) and MAY_BE_EMPTY.search(query) is None:
            empty.append((title, query))
    assert not empty


def test_an_alert_reaches_a_webhook(monitored: Monitored) -> None:
    names, end = set[str](), time.monotonic() + PATIENCE_S
    while not names >= {"RunaiStatefulSetInsufficientReplicas", "RunaiCriticalProblem"}:
        message = monitored.received.get(timeout=max(0.1, end - time.monotonic()))
        names |= {each["labels"]["alertname"] for each in message["alerts"] if each["status"] == "firing"}
    assert "FairpoolControlPlaneDown" not in names


def test_prometheus_finds_nothing_wrong_with_the_text(monitored: Monitored) -> None:
    with urllib.request.urlopen(monitored.open_address, timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    assert 'job_name="busy"' in text
    checked = promtool("check", "metrics", given=text)
    assert checked.returncode in (0, 3), checked.stderr  # 3: it would have chosen other names than the documented ones
    said = [line for line in (checked.stdout + checked.stderr).splitlines() if line.startswith(("fairpool", "process"))]
    assert [line for line in said if "camelCase" not in line] == []
