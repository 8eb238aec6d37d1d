"""Where jobs run: roles, types, labels and topologies of nodes, typed on a real platform with real processes."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.shared_platform import SharedPlatform
from tests.end_to_end.typist import Typist
from tests.running_platform import Running

pytestmark = pytest.mark.slow

NODES = ("a1", "a2", "b1", "b2")
RACK, ZONE = "example.com/rack", "example.com/zone"


@pytest.fixture(scope="module")
def opened() -> Iterator[SharedPlatform]:
    """Four nodes with two GPUs each, in two racks."""
    folder = Path(tempfile.mkdtemp(prefix="fairpool-placement-", dir="/var/tmp"))
    platform = Running(folder / "data", config=folder / "admin" / "config")
    try:
        described = (f"name={name},gpus=2,label={RACK}={name[0]},label={ZONE}=here" for name in NODES)
        platform.up(*(word for each in described for word in ("--node", each)))
        yield SharedPlatform(platform, Typist(str(platform.status["address"]), folder))
    finally:
        platform.clean_up()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def shared(opened: SharedPlatform) -> Iterator[SharedPlatform]:
    yield opened
    opened.tidy()
    for node in json.loads(opened.typed("runai-adm node list -o json")):
        labels = " ".join(f"--label {key}-" for key in node["overrides"].get("labels", {}))
        taints = " ".join(f"--taint {each['key']}-" for each in node["overrides"].get("taints", []))
        if labels or taints:
            opened.typed(f"runai-adm node update {node['name']} {labels} {taints}")


def nodes_of(shared: SharedPlatform, project: str, name: str) -> list[str]:
    return sorted(shared.jobs(project)[name]["currentNodes"])


def refused(shared: SharedPlatform, line: str) -> str:
    said = shared.typist.type(line)
    assert said.code == 1, said
    return said.err


def test_jobs_start_on_nodes_of_their_role_and_running_ones_stay(shared: SharedPlatform) -> None:
    """F-97, F-99, F-100, F-102, F-103."""
    shared.project("roles", "-g 8")
    shared.submit("roles", "before", "-g 1 --prefer-node kubernetes.io/hostname=b2")
    shared.becomes("roles", "before", "Running")
    shared.typed("runai-adm set node-role --runai-system-worker b2")
    shared.typed("runai-adm set node-role --cpu-worker b1")
    shared.typed("runai-adm set node-role --gpu-worker a2")
    shared.submit("roles", "cpu", "--cpu 1")
    shared.submit("roles", "gpu", "-g 1")
    shared.submit("roles", "half", "-g 0.5")
    for name, node in (("cpu", "b1"), ("gpu", "a2"), ("half", "a2"), ("before", "b2")):
        shared.becomes("roles", name, "Running")
        assert nodes_of(shared, "roles", name) == [node]
    said = refused(shared, "runai submit wide -p roles -g 2 --node-type x -i ubuntu -- sleep 1")
    assert "can run this, even when empty: not a GPU worker (2 nodes)" in said
    assert "system worker (1 node)" in said
    shared.typed("runai-adm remove node-role --gpu-worker a2")
    shared.typed("runai submit late -p roles -g 1 --wait-anyway -i ubuntu -- sleep 1000")
    shared.until(lambda: "not a GPU worker" in shared.typed("runai why late -p roles"), "the verdict names the role")
    assert "runai-adm set node-role --gpu-worker NODE" in shared.typed("runai why late -p roles").replace("\n", " ")
    assert shared.status("roles", "gpu") == "Running"
    assert shared.typed("runai-adm set node-role --all").count("runai-gpu-worker set") == 3
    shared.becomes("roles", "late", "Running")
    assert nodes_of(shared, "roles", "late") != ["b2"]


@pytest.mark.flag("--node-type")
def test_a_node_type_narrows_what_the_project_may_use(shared: SharedPlatform) -> None:
    """F-16: types for training and for interactive jobs apart."""
    shared.typed("runai-adm node update a1 --label run.ai/type=fast")
    assert shared.typed("runai-adm node-type set slow b1 b2").splitlines()[1] == "Node b2: type set to slow."
    assert shared.typed("runai-adm node-type remove b1") == "Node b1: type removed.\n"
    shared.project("types", "-g 8 --node-types-train fast,slow --node-types-interactive slow")
    shared.submit("types", "any", "-g 1 --interactive")
    shared.submit("types", "quick", "-g 1 --node-type fast")
    shared.becomes("types", "any", "Running")
    shared.becomes("types", "quick", "Running")
    assert (nodes_of(shared, "types", "any"), nodes_of(shared, "types", "quick")) == (["b2"], ["a1"])
    assert "\nNODE TYPE: fast\n" in shared.typed("runai describe job quick -p types")
    listed = shared.typed("runai-adm node-type list")
    assert re.search(r"^fast +a1 +types +-$", listed, re.MULTILINE)
    assert re.search(r"^slow +b2 +types +types$", listed, re.MULTILINE)
    assert "Available node names:" in refused(shared, "runai-adm node-type set fast c9")
    said = refused(shared, "runai submit not -p types -g 1 --interactive --node-type fast -i ubuntu -- sleep 1")
    assert "project types may not use nodes of type fast" in said


def test_a_node_type_of_a_project_that_no_node_has_is_warned_about_and_named_as_the_projects(
    shared: SharedPlatform,
) -> None:
    shared.typed("runai-adm node-type set dgx-2 a1")
    created = shared.typist.type(
        "runai-adm project create misspelt -g 8 --node-types-train dgx2 --node-types-interactive zz"
    )
    said = " ".join(created.err.split())
    assert created.code == 0
    assert "project misspelt may use nodes of type dgx2, but no node has this type: did you mean dgx-2?" in said
    assert "nodes of type zz, but no node has this type: set it with `runai-adm node-type set zz NODE`" in said
    said = " ".join(refused(shared, "runai submit x -p misspelt -g 1 -i ubuntu -- sleep 1").split())
    assert "project misspelt may only use nodes of type dgx2" in said
    corrected = shared.typist.type(
        "runai-adm project update misspelt --node-types-train dgx-2 --node-types-interactive dgx-2"
    )
    assert corrected.code == 0
    assert "of type" not in corrected.err
    shared.submit("misspelt", "x", "-g 1")
    shared.becomes("misspelt", "x", "Running")
    shared.typed("runai-adm project delete misspelt --delete-jobs")


@pytest.mark.flag("--toleration", "--extended-resource", "--mig-profile")
def test_what_no_node_could_ever_run_is_refused_with_the_reason(shared: SharedPlatform) -> None:
    shared.project("never", "-g 8")
    for name in NODES:
        shared.typed(f"runai-adm node update {name} --taint team=b:NoSchedule")
    assert "taint team=b:NoSchedule (4 nodes)" in refused(shared, "runai submit a -p never -g 1 -i ubuntu -- sleep 1")
    shared.submit("never", "tolerant", "-g 1 --toleration operator=Exists,key=team")
    shared.becomes("never", "tolerant", "Running")
    tolerant = "--toleration operator=Exists,key=team -i ubuntu -- sleep 1"
    said = refused(shared, f"runai submit b -p never --extended-resource nvidia.com/gpu=1 {tolerant}")
    assert "nvidia.com/gpu is not an extended resource" in said
    assert "--gpu" in said
    said = refused(shared, f"runai submit c -p never --extended-resource example.com/licence=1 {tolerant}")
    assert "requests 1 example.com/licence, but the largest node in node pool default has 0" in said
    assert "no MIG instances (4 nodes)" in refused(shared, f"runai submit d -p never --mig-profile 1g.5gb {tolerant}")


@pytest.fixture
def racks(shared: SharedPlatform) -> Iterator[SharedPlatform]:
    shared.project("racks", "-g 8")
    yield shared
    for each in json.loads(shared.typed("runai-adm topology list -o json")):
        for job in shared.jobs("racks"):
            shared.typed(f"runai delete job {job} -p racks")
        shared.until(lambda: not shared.jobs("racks"), "the jobs are gone")
        shared.typed(f"runai-adm topology delete {each['name']}")


def gang(shared: SharedPlatform, name: str, flags: str, workers: int = 2) -> None:
    line = f"runai submit-dist pytorch {name} -p racks --workers={workers} --no-master -g 1 {flags} -i ubuntu"
    shared.typed(f"{line} -- sleep 1000")


@pytest.mark.flag("--required-pod-topology-key", "--no-master")
def test_the_pods_of_a_distributed_job_are_kept_in_one_rack(racks: SharedPlatform) -> None:
    """F-49. One GPU is taken on each node of one rack, so that packing alone would mix the racks."""
    racks.submit("racks", "other", "-g 1 --prefer-node kubernetes.io/hostname=a1")
    racks.becomes("racks", "other", "Running")
    gang(racks, "near", f"--required-pod-topology-key {RACK}", workers=4)
    racks.becomes("racks", "near", "Running")
    assert {each[0] for each in nodes_of(racks, "racks", "near")} == {"b"}
    assert f"{RACK} (required)" in racks.typed("runai describe job near -p racks")
    gang(racks, "waits", f"--required-pod-topology-key {RACK}", workers=4)
    racks.until(lambda: RACK in racks.typed("runai why waits -p racks"), "the verdict names the level")
    assert "the one with the most room, a, fits 3" in " ".join(racks.typed("runai why waits -p racks").split())
    racks.typed("runai delete job other -p racks")
    racks.becomes("racks", "waits", "Running")
    said = racks.typist.type(
        f"runai submit-dist pytorch large -p racks --workers=5 --no-master -g 1 --required-pod-topology-key {RACK} "
        "-i ubuntu -- sleep 1"
    )
    assert f"its 5 pods must run in one {RACK}, but none in node pool default has room for more than 4" in said.err


@pytest.mark.flag("--topology", "--required-pod-topology-key")
def test_an_administrator_declares_a_topology_and_jobs_name_its_levels(racks: SharedPlatform) -> None:
    levels = f"--level {ZONE} --level {RACK} --level kubernetes.io/hostname"
    said = racks.typed(f"runai-adm topology create fabric {levels}")
    assert said == "Network topology fabric created successfully.\n"
    assert re.search(rf"^fabric +{ZONE} > {RACK} > kubernetes.io/hostname +a1, a2, b1, b2$", topologies(racks), re.M)
    gang(racks, "apart", f"--topology fabric --required-pod-topology-key {RACK}", workers=3)
    gang(racks, "one", "--topology fabric --required-pod-topology-key kubernetes.io/hostname")
    racks.becomes("racks", "apart", "Running")
    racks.becomes("racks", "one", "Running")
    assert len({each[0] for each in nodes_of(racks, "racks", "apart")}) == 1
    assert len(nodes_of(racks, "racks", "one")) == 1
    unknown = "-p racks --workers=2 --no-master --required-pod-topology-key rack -i ubuntu -- sleep 1"
    said = refused(racks, f"runai submit-dist pytorch x --topology fabrik {unknown}")
    assert "there is no network topology fabrik" in said
    assert "did you mean fabric?" in said
    assert "has no level rack" in refused(racks, f"runai submit-dist pytorch x --topology fabric {unknown}")
    assert "is used by apart, one" in refused(racks, "runai-adm topology delete fabric")
    assert "already exists" in refused(racks, f"runai-adm topology create fabric --level {ZONE}")
    assert "put it last" in refused(racks, f"runai-adm topology create b --level kubernetes.io/hostname --level {ZONE}")
    assert "for distributed workloads" in refused(
        racks, f"runai submit y -p racks --required-pod-topology-key {RACK} -i ubuntu -- sleep 1"
    )


def test_a_job_that_names_only_a_label_is_not_put_into_a_topology_without_nodes(racks: SharedPlatform) -> None:
    racks.typed(f"runai-adm topology create absent --level example.com/building --level {RACK}")
    gang(racks, "near", f"--required-pod-topology-key {RACK}")
    racks.becomes("racks", "near", "Running")
    said = refused(
        racks,
        f"runai submit-dist pytorch x -p racks --workers=2 --no-master --topology absent "
        f"--required-pod-topology-key {RACK} -i ubuntu -- sleep 1",
    )
    assert "`runai-adm node update NODE --label example.com/building=VALUE`" in " ".join(said.split())


def topologies(shared: SharedPlatform) -> str:
    return shared.typed("runai-adm topology list")


@pytest.mark.flag("--prefer-node", "--preferred-pod-topology-key")
def test_a_preferred_level_and_preferred_nodes_decide_where_there_is_a_choice(racks: SharedPlatform) -> None:
    racks.submit("racks", "first", "-g 2 --prefer-node kubernetes.io/hostname=a2")
    racks.becomes("racks", "first", "Running")
    assert nodes_of(racks, "racks", "first") == ["a2"]
    gang(racks, "near", f"--preferred-pod-topology-key {RACK}", workers=4)
    racks.becomes("racks", "near", "Running")
    assert {each[0] for each in nodes_of(racks, "racks", "near")} == {"b"}
    racks.submit("racks", "full", "-g 1 --prefer-node kubernetes.io/hostname=b1")
    racks.becomes("racks", "full", "Running")
    assert nodes_of(racks, "racks", "full") == ["a1"], "a preference keeps no job waiting"
    assert "\nPREFERRED NODES: kubernetes.io/hostname=b1\n" in racks.typed("runai describe job full -p racks")
