"""Commands where a control plane has several clusters: `--cluster`, the configured one, or all with their names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from fairpool.api.cluster_client import ClusterClient
from fairpool.api.clusters import NodeReport, PushReport
from fairpool.model.ids import Instant, NodeName, PoolName, Token
from tests.end_to_end.runai_server import Server, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Cluster `local` with dgx1-1 and dgx1-2, and cluster `east` with a dgx1-1 of its own and east-1."""
    with serving(tmp_path_factory.mktemp("several")) as found:
        found.log_in()
        for name in ("dgx1-1", "dgx1-2"):
            found.node(name)
        token = found.admin.create_cluster({"name": "east"}).token
        nodes = tuple(
            NodeReport(name=NodeName(name), pool=PoolName("default"), gpus=4) for name in ("dgx1-1", "east-1")
        )
        report = PushReport(cluster="east", token=Token(1), number=1, whole=True, at=Instant(1), nodes=nodes)
        east = ClusterClient(found.address, token)
        assert east.push(report).takes(report)
        east.close()
        for project, cluster in (("team-a", "local"), ("team-b", "east")):
            found.typed(f"runai-adm project create {project} --cluster {cluster} --gpu-quota 2")
        yield found


def names(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()[1:] if line]


@pytest.mark.parametrize("listing", ["runai list nodes", "runai-adm node list", "runai top node"])
def test_lists_of_nodes_name_the_cluster_and_can_be_limited_to_one(server: Server, listing: str) -> None:
    everything = server.typed(listing)
    assert names(everything) == ["dgx1-1", "dgx1-1", "dgx1-2", "east-1"]
    assert re.search(r"^NAME +CLUSTER", everything)
    assert re.search(r"^dgx1-1 +east", everything, re.MULTILINE)
    assert re.search(r"^dgx1-1 +local", everything, re.MULTILINE)
    assert names(server.typed(f"{listing} --cluster east")) == ["dgx1-1", "east-1"]
    refused = server.refused(f"{listing} --cluster wast")
    assert "there is no cluster wast" in refused
    assert "use one of east, local" in refused


@pytest.mark.parametrize("listing", ["runai list projects", "runai-adm project list"])
def test_lists_of_projects_name_the_cluster_and_can_be_limited_to_one(server: Server, listing: str) -> None:
    assert re.search(r"^team-b +east", server.typed(listing), re.MULTILINE)
    assert names(server.typed(f"{listing} --cluster local")) == ["team-a"]


def test_the_overview_can_be_limited_to_one_cluster(server: Server) -> None:
    assert "0 of 24 GPUs allocated" in server.typed("runai top")
    east = server.typed("runai top --cluster east")
    assert "0 of 8 GPUs allocated" in east
    assert "team-b" in east
    assert "team-a" not in east


@pytest.mark.parametrize(
    "line",
    [
        "runai-adm node get dgx1-1",
        "runai-adm node drain dgx1-1",
        "runai-adm node cordon dgx1-1",
        "runai-adm node update dgx1-1 --label a=b",
        "runai-adm set node-role --gpu-worker dgx1-1",
    ],
)
def test_a_node_that_several_clusters_have_must_be_named_with_its_cluster(server: Server, line: str) -> None:
    refused = server.refused(line)
    assert "there is a node dgx1-1 in several clusters: east, local" in refused
    assert "--cluster" in refused
    server.typed(f"{line} --cluster east")
    shown = {each.cluster_uuid: each for each in server.admin.nodes() if each.name == "dgx1-1"}
    clusters = {each.name: each.uuid for each in server.admin.clusters()}
    there, here = shown[clusters["east"]], shown[clusters["local"]]
    assert (here.taints, here.cordoned, here.labels) == ([], False, {}), "the other one is as it was"
    if "get" not in line:
        assert (there.taints, there.cordoned, there.labels) != ([], False, {})


def test_a_node_that_only_one_cluster_has_needs_no_cluster(server: Server) -> None:
    server.typed("runai-adm node cordon east-1")
    server.typed("runai-adm node uncordon east-1")


def test_the_configured_cluster_is_used(server: Server) -> None:
    server.typed("runai config cluster east")
    try:
        assert names(server.typed("runai list nodes")) == ["dgx1-1", "east-1"]
        found = json.loads(server.typed("runai-adm node get dgx1-1 -o json"))
        assert found["gpuInfo"]["gpuCount"] == 4
        assert names(server.typed("runai list nodes --cluster local")) == ["dgx1-1", "dgx1-2"]
    finally:
        server.typed("runai config cluster local")


def test_the_api_refuses_an_ambiguous_node(server: Server) -> None:
    refused = server.admin._http.request("GET", "/api/v1/nodes/dgx1-1", headers=server.admin._headers())
    assert refused.status_code == 409
    assert refused.json()["problems"][0]["code"] == "node.ambiguous"
    assert server.admin.node("dgx1-1", "east").gpu_info.gpu_count == 4


def test_node_pools_and_departments_of_one_cluster(server: Server) -> None:
    server.typed("runai-adm node-pool create fast --label run.ai/type=fast --cluster east")
    server.typed("runai-adm node-pool create slow --label run.ai/type=slow")
    listed = server.typed("runai-adm node-pool list --cluster local")
    assert names(listed) == ["default", "slow"]
    everything = server.typed("runai-adm node-pool list --cluster east")
    assert re.search(r"^fast +east", everything, re.MULTILINE)
    assert re.search(r"^slow +all", everything, re.MULTILINE)
    server.typed("runai-adm department create lab --cluster east")
    refused = server.refused("runai-adm project create astray --cluster local --department lab")
    assert "department lab is in another cluster" in refused
    assert "there is no cluster" in server.refused("runai-adm node-pool create x --label a=b --cluster wast")
    server.typed("runai-adm department delete lab")
    for name in ("fast", "slow"):
        server.typed(f"runai-adm node-pool delete {name}")
