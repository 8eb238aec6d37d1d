"""`fairpool control` and `fairpool cluster` as two processes: joined, stopped, killed, cut off, refused.

What is tested here needs no second machine, only a second process.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from fairpool.api.client import Client
from fairpool.api.organization import ProjectRequest
from fairpool.api.workload_spec import SubmitTraining
from fairpool.platform.directory_lock import lock_holder
from tests.running_platform import PATIENCE_S, fairpool
from tests.two_programs import ClusterProcess, ControlProcess, Relay, control_at

pytestmark = pytest.mark.slow

FOREVER = "import time; time.sleep(100000)"


def make_project(client: Client, name: str, cluster: str) -> None:
    body = {"name": name, "clusterId": cluster, "resources": [{"gpu": {"deserved": 4}}]}
    client.create_project(ProjectRequest.model_validate(body))


def submit(client: Client, name: str, project: str = "team-a", program: str = FOREVER) -> str:
    spec = {"image": "python", "command": "python", "args": f"-u -c '{program}'", "compute": {"gpu": "0.5"}}
    return client.submit(SubmitTraining.model_validate({"name": name, "projectId": project, "spec": spec})).id


def until_phase(client: Client, workload: str, phase: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while (now := client.workload(workload).phase) != phase:
        assert time.monotonic() < end, f"{workload} is {now}, not {phase}"
        time.sleep(0.05)


def incarnations(client: Client, workload: str) -> list[int]:
    return [each.incarnation for each in client.history(workload)]


def get(url: str) -> tuple[int, dict[str, str]]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_cluster_joins_and_runs_what_is_declared(control: ControlProcess, cluster: ClusterProcess) -> None:
    client = control.administrator()
    make_project(client, "team-a", "east")
    workload = submit(client, "short", program="print(1)")
    until_phase(client, workload, "Completed")
    assert [each.name for each in client.clusters()] == ["east"], "none is made that was not asked for"
    assert get(f"{control.address}/readyz") == (200, {"status": "ready"})
    assert get(f"{cluster.status['health']}/healthz") == (200, {"status": "ok"})
    assert get(f"{cluster.status['health']}/readyz") == (200, {"status": "ready"})
    assert get(f"{cluster.status['health']}/api")[0] == 404
    with urllib.request.urlopen(f"{cluster.status['health']}/metrics", timeout=10) as answer:
        series = answer.read().decode()
    assert "fairpool_loop_cycle_seconds_count" in series
    assert not any(name in series for name in ("team-a", "short")), "there are no names without credentials"
    shown = control.command("status").stdout
    assert "a control plane" in shown
    assert "Connected" in shown
    shown = cluster.command("status").stdout
    assert "fairpool cluster: a cluster" in shown
    assert "healthy" in shown


def test_either_may_be_killed_or_stopped_and_nothing_is_lost_or_run_twice(
    control: ControlProcess, cluster: ClusterProcess
) -> None:
    client = control.administrator()
    make_project(client, "team-a", "east")
    first = submit(client, "first")
    until_phase(client, first, "Running")
    control.kill()
    cluster.kill()
    cluster.up()  # without its control plane it starts with what was declared
    cluster.until(lambda: cluster.status["pods"]["running"] == 1, "the pod is found again")
    assert "no connection to the control plane" in cluster.status["loop"]["error"]
    assert get(f"{cluster.status['health']}/readyz")[0] == 200, "it schedules by what was declared last"
    control.up()
    second = submit(client, "second")
    until_phase(client, second, "Running")
    cluster.kill()
    third = submit(client, "third")
    cluster.up()
    until_phase(client, third, "Running")
    assert [incarnations(client, each) for each in (first, second, third)] == [[0], [0], [0]]
    assert "The cluster is down" in cluster.down()
    client.delete_workload(first)
    cluster.up()
    cluster.until(lambda: cluster.status["pods"]["running"] == 2, "what was deleted meanwhile is stopped")


def test_a_link_that_is_cut_for_seconds_changes_nothing(
    control: ControlProcess, cluster: ClusterProcess, relay: Relay
) -> None:
    client = control.administrator()
    make_project(client, "team-a", "east")
    before = submit(client, "before")
    until_phase(client, before, "Running")
    relay.cut()
    meanwhile = submit(client, "meanwhile")
    ends = submit(client, "ends", program="print(1)")
    time.sleep(2.0)
    assert client.workload(meanwhile).phase == "Creating", "the cluster has not heard of it"
    relay.mend()
    until_phase(client, meanwhile, "Running")
    until_phase(client, ends, "Completed")
    assert [incarnations(client, each) for each in (before, meanwhile, ends)] == [[0], [0], [0]]


def test_clusters_do_not_share_projects_nodes_or_outages(
    control: ControlProcess, cluster: ClusterProcess, tmp_path: Path
) -> None:
    client = control.administrator()
    west = ClusterProcess(tmp_path / "west", control.address, control.token_file("west"), tmp_path / "config")
    west.up("--nodes", "1x4")
    try:
        for project, place in (("team-a", "east"), ("team-b", "west")):
            make_project(client, project, place)
        east_job, west_job = submit(client, "job", "team-a"), submit(client, "job", "team-b")
        for workload in (east_job, west_job):
            until_phase(client, workload, "Running")
        assert [each.status["pods"]["running"] for each in (cluster, west)] == [1, 1]
        west.kill()
        later = submit(client, "later", "team-a")
        until_phase(client, later, "Running")
        west.up()
        assert west.status["pods"]["running"] == 1
        assert client.workload(west_job).phase == "Running"
    finally:
        west.clean_up()


def test_a_token_that_was_replaced_or_is_anothers_is_refused(
    control: ControlProcess, cluster: ClusterProcess, tmp_path: Path
) -> None:
    client = control.administrator()
    make_project(client, "team-a", "east")
    workload = submit(client, "job")
    until_phase(client, workload, "Running")
    cluster.down()
    copy = ClusterProcess(tmp_path / "copy", control.address, cluster.token_file, tmp_path / "config")
    refused = copy.tried()
    assert refused.returncode == 1
    assert "cluster east has already joined from another data directory" in refused.stderr
    west = ClusterProcess(cluster.data_directory.root, control.address, control.token_file("west"), tmp_path / "config")
    refused = west.tried()
    assert refused.returncode == 1
    assert "belongs to cluster east, and the token to cluster west" in refused.stderr
    assert client.new_cluster_token("east").token
    refused = cluster.tried()
    assert refused.returncode == 1
    assert "does not accept this token" in refused.stderr
    assert client.workload(workload).phase == "Running"
    assert incarnations(client, workload) == [0], "its pod was not touched"
    cluster.token_file.write_text(client.new_cluster_token("east").token)
    cluster.up()
    assert cluster.status["pods"]["running"] == 1


def test_a_cluster_waits_for_a_control_plane_that_is_not_there_yet(tmp_path: Path) -> None:
    with control_at(tmp_path) as control:
        token, config = control.token_file("east"), tmp_path / "config"
        control.down()
        cluster = ClusterProcess(tmp_path / "east", control.address, token, config)
        try:
            started = cluster.up()
            assert "waiting for the control plane" in started.stdout
            assert get(f"{cluster.status['health']}/readyz")[0] == 503
            assert "Connection refused" in cluster.command("status").stdout
            control.up()
            cluster.until(lambda: cluster.status["is_ready"], "it has joined")
            assert cluster.status["cluster"] == "east"
        finally:
            cluster.clean_up()


@pytest.mark.parametrize("signals", [1, 2])
def test_a_cluster_that_waits_can_be_stopped(tmp_path: Path, signals: int) -> None:
    token = tmp_path / "token"
    token.write_text("fpc_x")
    token.chmod(0o600)
    cluster = ClusterProcess(tmp_path / "east", "http://127.0.0.1:9", token, tmp_path / "config")
    cluster.up()
    for _ in range(signals):
        cluster.down()
    assert lock_holder(cluster.data_directory) is None


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """A private authority, and a certificate for 127.0.0.1 with its key."""
    folder.mkdir()
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    authority = [*new, "-subj", "/CN=test", "-keyout", "ca.key", "-out", "ca.pem"]
    server = [*new, "-subj", "/CN=control", "-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", "key.pem"]
    server += ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:false"]
    for command in (authority, [*server, "-out", "cert.pem"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "ca.pem", folder / "cert.pem", folder / "key.pem"


def test_tls_with_a_private_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, certificate, key = certificates(tmp_path / "tls")
    other, _, _ = certificates(tmp_path / "other")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))  # for the client in this test, as for `runai`
    with control_at(tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key)) as control:
        assert control.address.startswith("https://")
        token, config = control.token_file("east"), tmp_path / "config"
        wrong = ClusterProcess(tmp_path / "east", control.address, token, config, "--ca-file", str(other))
        refused = wrong.tried()
        assert refused.returncode == 1
        assert "is not trusted" in refused.stderr
        assert "--ca-file" in refused.stderr
        cluster = ClusterProcess(tmp_path / "east", control.address, token, config, "--ca-file", str(authority))
        try:
            cluster.up()
            client = control.administrator()
            make_project(client, "team-a", "east")
            workload = submit(client, "job", program="print(1)")
            until_phase(client, workload, "Completed")
        finally:
            cluster.clean_up()


# --- flags, files, directories


def test_a_data_directory_belongs_to_one_program(control: ControlProcess, tmp_path: Path) -> None:
    control.down()
    for command in (["up", "--nodes", "simulated"], ["cluster", "--control", "http://127.0.0.1:9"]):
        token = tmp_path / "token"
        token.write_text("fpc_x")
        token.chmod(0o600)
        flags = ["--token-file", str(token)] if command[0] == "cluster" else ["--listen", "127.0.0.1:0"]
        refused = control.command(*command, *flags)
        assert refused.returncode == 1
        assert "holds a control plane (of `fairpool control`)" in refused.stderr
    assert control.command("down", "--stop-pods").returncode == 1
    assert "The control plane is not up" in control.command("status").stdout
    control.up()


def test_a_configuration_file_and_variables(tmp_path: Path) -> None:
    file = tmp_path / "etc" / "control.toml"
    file.parent.mkdir()
    file.write_text('listen = "127.0.0.1:0"\ndata = "../state"\nlog-level = "debug"\nhost-name = ["a.example"]\n')
    started = fairpool("control", "--detach", "--config-file", str(file), FAIRPOOL_LOG_LEVEL="warning")
    assert started.returncode == 0, started.stderr
    data = str(tmp_path / "state")
    try:
        address = json.loads(fairpool("status", "--json", "--data", data).stdout)["address"]
        request = urllib.request.Request(f"{address}/readyz", headers={"Host": "a.example"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            assert answer.status == 200
        assert not (tmp_path / "state" / "logs" / "fairpool.log").exists(), "a variable counts more: no warnings"
    finally:
        assert fairpool("down", "--data", data).returncode == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("lisen = 1", "there is no setting 'lisen': did you mean listen or peer-listen?", id="misspelled"),
        pytest.param("host-name = 'a'", "host-name must be a list of texts", id="no list"),
        pytest.param("listen = [", "is not TOML", id="no TOML"),
        pytest.param("detach = true", "there is no setting 'detach'", id="not a setting"),
    ],
)
def test_a_configuration_file_that_cannot_be_used_is_refused(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "control.toml"
    file.write_text(content)
    refused = fairpool("control", "--data", str(tmp_path / "data"), "--config-file", str(file))
    assert (refused.returncode, words in refused.stderr) == (2, True), refused.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        pytest.param(["control", "--tls-cert", "x"], "--tls-key is missing", id="no key"),
        pytest.param(["control", "--tls-cert", "x", "--tls-key", "y"], "x cannot be read", id="no certificate"),
        pytest.param(["cluster", "--control", "ftp://x", "--token-file", "t"], "is not a valid address", id="address"),
        pytest.param(["cluster", "--control", "http://x", "--token-file", "t"], "t cannot be read", id="token"),
        pytest.param(["cluster", "--token-file", "t"], "--control is missing", id="no address"),
    ],
)
def test_flags_that_cannot_be_used_are_refused(tmp_path: Path, flags: list[str], words: str) -> None:
    refused = fairpool(*flags, "--data", str(tmp_path / "data"))
    assert (refused.returncode, words in refused.stderr) == (2, True), refused.stderr


def test_a_token_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("fpc_x")
    token.chmod(0o644)
    refused = fairpool("cluster", "--control", "http://127.0.0.1:9", "--token-file", str(token))
    assert refused.returncode == 2
    assert "other users can read" in refused.stderr
