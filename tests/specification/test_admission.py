"""From what a person submits to what is declared."""

from __future__ import annotations

from typing import Any

import pytest

from fairpool.api import workload_spec as wire
from fairpool.api.declarations import WorkloadWire
from fairpool.api.organization import NodeTypes, ProjectRequest
from fairpool.api.wire import compact
from fairpool.control.admission import AdmissionContext, admit
from fairpool.control.resource_request import bytes_of, quota_milli
from fairpool.control.storage_request import KnownClaim, StorageContext
from fairpool.model.array import Array
from fairpool.model.ids import Instant, WorkloadId
from fairpool.model.problem import Problem
from fairpool.model.spec import (
    AccessMode,
    Arrangement,
    CleanPodPolicy,
    Dependency,
    DistributedRun,
    Framework,
    Program,
    Volume,
    WorkloadSpec,
)
from fairpool.model.workload import (
    GpuRequest,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    TopologyConstraint,
    gpu_memory,
    gpu_portion,
    whole_gpus,
)

PROJECT = ProjectRequest(name="team-a")
UPLOAD = "0190c1f0-0000-7000-8000-000000000000"
KINDS: dict[str, type[wire.Submit]] = {
    "train": wire.SubmitTraining,
    "build": wire.SubmitWorkspace,
    "dist": wire.SubmitDistributed,
    "inference": wire.SubmitInference,
}


def answer(kind: str = "train", project: ProjectRequest = PROJECT, name: str = "a", **spec: Any) -> Any:
    """What becomes of one submit."""
    body = {"name": name, "projectId": "team-a", "spec": {"image": "i", **spec}}
    submit: Any = KINDS[kind].model_validate(body)
    context = AdmissionContext(
        project=project,
        pools=frozenset({"default", "a100"}),
        storage=StorageContext(claims={"home": KnownClaim(), "data": KnownClaim()}),
        work={"prep": WorkloadId("w-prep"), "clean": WorkloadId("w-clean"), "w-prep": WorkloadId("w-prep")},
        topologies={"cable": ("rack", "host"), "fabric": ("zone", "rack"), "bare": ("rack", "switch")},
        unmatched_topologies=frozenset({"bare"}),
        has_upload=spec.get("workdir", {}).get("upload") == UPLOAD,
    )
    return admit(submit, context, workload_id=WorkloadId("w"), name=name, now=Instant(1))


def declared(kind: str = "train", project: ProjectRequest = PROJECT, **spec: Any) -> WorkloadSpec:
    found = answer(kind, project, **spec)
    assert isinstance(found, WorkloadSpec), found
    return found


def complaints(kind: str = "train", project: ProjectRequest = PROJECT, **spec: Any) -> list[str]:
    found = answer(kind, project, **spec)
    return [] if isinstance(found, WorkloadSpec) else [each.code for each in found]


@pytest.mark.parametrize(
    ("compute", "gpu"),
    [
        pytest.param({}, GpuRequest(), id="no GPU unless asked for"),
        pytest.param({"gpu": "0"}, GpuRequest(), id="0 means none"),
        pytest.param({"gpu": "1.0"}, whole_gpus(1), id="1.0 means 1"),
        pytest.param({"gpu": 2}, whole_gpus(2), id="whole ones"),
        pytest.param({"gpu": 0.125}, gpu_portion(125), id="a part of one"),
        pytest.param({"gpuDevicesRequest": 2, "gpuPortionRequest": 0.5}, gpu_portion(500, 2), id="a part of each"),
        pytest.param({"gpuMemoryRequest": "4Gi"}, gpu_memory(4096), id="memory"),
        pytest.param({"migProfile": "1g.5gb"}, GpuRequest(mig=(("nvidia.com/mig-1g.5gb", 1),)), id="a MIG slice"),
    ],
)
def test_gpus(compute: dict[str, Any], gpu: GpuRequest) -> None:
    assert declared(compute=compute).template.shape.gpu == gpu


@pytest.mark.parametrize(
    ("compute", "code"),
    [
        ({"gpu": "2.5"}, "gpu.fraction_of_many"),
        ({"gpu": "0.3333"}, "gpu.too_fine"),
        ({"gpu": "many"}, "gpu.not_a_number"),
        ({"gpu": -1}, "gpu.out_of_range"),
        ({"gpu": "1", "gpuMemoryRequest": "4G"}, "gpu.several_ways"),
        ({"gpuMemoryRequest": "99M"}, "gpu.memory_too_small"),
        ({"migProfile": "9g.5gb"}, "gpu.mig_profile"),
        ({"gpuPortionRequest": 2}, "gpu.portion"),
    ],
)
def test_gpus_that_cannot_be(compute: dict[str, Any], code: str) -> None:
    assert complaints(compute=compute) == [code]


def test_cpu_and_memory_follow_from_the_gpus_unless_said() -> None:
    shape = declared(compute={"gpu": "0.5"}).template.shape
    assert (shape.cpu_milli, shape.memory_bytes) == (500, 50 * 1024 * 1024)
    shape = declared(compute={"gpu": 1, "cpuCoreRequest": 0.1, "cpuMemoryRequest": "1G"}).template.shape
    assert (shape.cpu_milli, shape.memory_bytes) == (100, 1_000_000_000)


def test_the_project_says_which_nodes_its_work_may_use() -> None:
    project = ProjectRequest(name="team-a", node_types=NodeTypes(training=["dgx-2"], workspace=["v100"]))
    rule = NodeSelectorRequirement("run.ai/type", NodeSelectorOperator.IN, ("dgx-2",))
    assert declared(project=project).template.shape.node_rules == ((rule,),)
    assert complaints("build", project, nodeType="dgx-2") == ["spec.node_type"]


def test_a_sweep_needs_to_know_its_end() -> None:
    assert complaints(parallelism=3) == ["spec.parallelism_alone"]
    spec = declared(parallelism=5, completions=2)
    assert (spec.arrangement, spec.pods, spec.completions) == (Arrangement.SWEEP, 2, 2)


def test_workers_start_together_and_a_master_is_one_more() -> None:
    assert declared("dist", numWorkers=4).pods == 4
    led = declared("dist", numWorkers=2, masterSpec={"image": "m", "compute": {"gpu": 0}})
    assert (led.pods, led.leader is not None and led.leader.program.image) == (3, "m")
    elastic = declared("dist", minReplicas=2, maxReplicas=4)
    assert (elastic.pods, elastic.minimum) == (4, 2)
    assert complaints("dist", minReplicas=5, maxReplicas=4) == ["spec.elastic_range"]


def test_mpi_has_a_launcher_whether_it_is_described_or_not() -> None:
    plain = declared("dist", distributedFramework="MPI", numWorkers=2, args=["mpirun", "a"], compute={"gpu": 1})
    own = {"image": "i", "args": ["mpirun", "a"]}
    said = declared("dist", distributedFramework="MPI", numWorkers=2, masterSpec=own, compute={"gpu": 1})
    for found in (plain, said):
        assert found.leader is not None
        assert (found.pods, found.has_launcher) == (3, True)
        assert (found.leader.program.arguments, found.leader.shape.gpu) == (("mpirun", "a"), GpuRequest())
        assert (found.template.program.command[0], found.template.program.arguments) == ("sleep", ())
        assert found.template.shape.gpu == whole_gpus(1)
    worker = declared("dist", distributedFramework="MPI", masterSpec=own, command="my-worker", args="-x")
    assert (worker.template.program.command, worker.template.program.arguments) == (("my-worker",), ("-x",))


def test_slots_and_clean_pod_policy_are_declared() -> None:
    found = declared("dist", distributedFramework="MPI", slotsPerWorker=4, cleanPodPolicy="All")
    assert found.distributed == DistributedRun(
        framework=Framework.MPI, slots_per_worker=4, clean_pods=CleanPodPolicy.ALL
    )
    assert declared("dist", masterSpec={"image": "m"}).distributed is None, (
        "clusters of the version before know no more"
    )


def test_a_master_may_be_without_the_claims_of_its_workers() -> None:
    storage = {"pvc": [{"claimName": "data", "path": "/d"}], "hostPath": [{"path": "/a", "mountPath": "/b"}]}
    found = declared("dist", masterSpec={"image": "m"}, masterNoPvcs=True, storage=storage)
    assert found.leader is not None
    assert [each.target for each in found.leader.program.volumes] == ["/b"]
    assert [each.target for each in found.template.program.volumes] == ["/b", "/d"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"slotsPerWorker": 2}, id="slots of another framework than MPI"),
        pytest.param({"distributedFramework": "MPI", "noMaster": True}, id="MPI without a launcher"),
        pytest.param({"distributedFramework": "MPI", "minReplicas": 1}, id="an elastic MPI run"),
        pytest.param({"distributedFramework": "TF", "maxReplicas": 3}, id="an elastic TensorFlow run"),
        pytest.param(
            {"distributedFramework": "XGBoost", "minReplicas": 1, "numWorkers": 2}, id="an elastic XGBoost run"
        ),
        pytest.param({"sshAuthMountPath": "/ssh"}, id="keys for ssh, which is not used"),
        pytest.param({"masterNoPvcs": True}, id="a master without claims where there is no master"),
    ],
)
def test_what_a_framework_does_not_have_is_refused(spec: dict[str, Any]) -> None:
    assert complaints("dist", **spec) == ["spec.not_carried"]


def test_a_model_needs_a_port_and_has_a_fixed_number_of_replicas() -> None:
    assert complaints("inference") == ["spec.no_serving_port"]
    port = {"container": 8000}
    assert declared("inference", servingPort=port, autoscaling={"minReplicas": 3, "maxReplicas": 3}).pods == 3
    scaling = {"minReplicas": 1, "maxReplicas": 4, "metric": "concurrency", "metricThreshold": 3}
    refused = answer("inference", servingPort=port, autoscaling=scaling)
    assert [each.field for each in refused] == [
        "spec.autoscaling.maxReplicas",
        "spec.autoscaling.metric",
        "spec.autoscaling.metricThreshold",
    ]


IMAGES = ("python", "ubuntu", "*/quickstart")


def of_image(image: str, **more: Any) -> Any:
    submit = wire.SubmitTraining.model_validate({"name": "a", "projectId": "team-a", "spec": {"image": image}, **more})
    context = AdmissionContext(project=PROJECT, pools=frozenset(), images=IMAGES)
    return admit(submit, context, workload_id=WorkloadId("w"), name="a", now=Instant(1))


@pytest.mark.parametrize("image", ["python", "python:3.12", "docker.io/library/ubuntu", "r.example/a/quickstart"])
def test_an_image_that_the_cluster_has_is_taken(image: str) -> None:
    assert isinstance(of_image(image), WorkloadSpec)


def test_an_image_that_the_cluster_does_not_have_is_refused_with_what_may_be_meant() -> None:
    (problem,) = of_image("pyhton:3.12")
    assert (problem.code, problem.field) == ("image.unknown", "spec.image")
    assert problem.what == "there is no image pyhton:3.12 on this cluster"
    assert problem.fix.startswith(
        "did you mean python? Available images: python, ubuntu, */quickstart; to queue it regardless"
    )
    assert isinstance(of_image("pyhton:3.12", waitAnyway=True), WorkloadSpec)


def claims(**pvc: Any) -> Any:
    return answer(storage={"pvc": [{"path": "/d", **pvc}]})


def test_an_unknown_claim_is_refused_with_what_may_be_meant() -> None:
    (problem,) = claims(claimName="dat")
    assert (problem.code, problem.what) == ("claim.unknown", "project team-a has no volume claim dat")
    assert problem.fix == (
        "did you mean data? existing claims: data, home; to create one: --new-pvc claimname=dat,size=10Gi,path=/d"
    )
    assert claims(claimName="data").template.program.volumes == (Volume(target="/d", claim="data"),)


def test_a_new_claim_needs_a_size_and_a_name_that_is_free() -> None:
    new = claims(claimName="fresh", existingPvc=False, claimInfo={"size": "10Gi"})
    assert new.template.program.volumes == (
        Volume(target="/d", claim="fresh", access=AccessMode.ONE_NODE, size_bytes=10 << 30),
    )
    assert [each.code for each in claims(claimName="fresh", existingPvc=False)] == ["claim.no_size"]
    taken = claims(claimName="data", existingPvc=False, claimInfo={"size": "10Gi"})
    assert [each.code for each in taken] == ["claim.exists"]
    assert [each.code for each in claims(claimName="../x", existingPvc=False, claimInfo={"size": "1Gi"})] == [
        "claim.name"
    ]


def test_what_pods_cannot_be_given_is_refused_and_never_ignored() -> None:
    assert complaints(security={"hostIpc": True}) == ["spec.not_carried"]
    assert complaints(topology={"required": "rack"}) == ["spec.topology"], "one pod has no other to be near to"


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("train", {"ports": [{"container": 65530}]}),
        ("train", {"exposedUrls": [{"container": 65530}]}),
        ("inference", {"servingPort": {"container": 65530}}),
    ],
)
def test_the_port_of_the_relay_is_refused(kind: str, spec: dict[str, Any]) -> None:
    assert complaints(kind, **spec) == ["port.reserved"]


def test_an_external_port_needs_a_service_that_opens_it() -> None:
    refused = answer(ports=[{"container": 80, "external": 31001}])
    assert [(each.code, each.what) for each in refused] == [
        ("port.external", "an external port (31001) needs the service type NodePort or LoadBalancer")
    ]
    assert not complaints(ports=[{"container": 80, "external": 80}, {"container": 81}])


def test_a_topology_is_the_one_that_was_named_or_has_the_levels_or_is_made_of_the_labels() -> None:
    def constraint(**asked: str) -> TopologyConstraint | None:
        return declared("dist", topology=asked).constraint

    both = {"required": "zone", "preferred": "rack"}
    assert constraint(**both) == TopologyConstraint(topology="fabric", **both)
    assert constraint(required="rack") == TopologyConstraint(topology="cable", required="rack"), "the first by name"
    assert constraint(name="fabric", required="rack") == TopologyConstraint(topology="fabric", required="rack")
    assert constraint(preferred="switch") == TopologyConstraint(topology="", preferred="switch"), "bare has no nodes"
    assert constraint(preferred="bus") == TopologyConstraint(topology="", preferred="bus")
    assert constraint(name="bare", required="rack") == TopologyConstraint(topology="bare", required="rack")
    for wrong in ({"name": "fabrik", "required": "zone"}, {"name": "cable", "required": "zone"}, {"name": "cable"}):
        assert complaints("dist", topology=wrong) == ["spec.topology"]


@pytest.mark.parametrize(
    "document",
    [
        {"nodeSelectorTerms": [{"matchExpressions": [], "matchFields": []}]},
        {"nodeSelectorTerms": [], "weight": 1},
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]},
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}]},
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"], "unit": "GB"}]}]},
        {"nodeSelectorTerms": 7},
    ],
)
def test_a_node_affinity_with_more_or_less_than_can_be_meant_is_refused(document: dict[str, Any]) -> None:
    assert complaints(nodeAffinityRequired=document) == ["spec.node_affinity"]


def test_a_preference_without_values_is_refused() -> None:
    preference = {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "In"}]}}
    assert complaints(nodeAffinityPreferred=[preference]) == ["spec.node_affinity"]


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("nvidia.com/gpu", "--gpu"),
        ("nvidia.com/mig-1g.5gb", "--mig-profile"),
        ("cpu", "--cpu"),
        ("memory", "--memory"),
    ],
)
def test_what_has_a_flag_of_its_own_is_no_extended_resource(name: str, flag: str) -> None:
    found = answer(compute={"extendedResources": [{"resource": name, "quantity": 1}]})
    assert isinstance(found, list)
    assert [(each.code, f"with {flag} " in each.fix) for each in found] == [("spec.extended_resource", True)]


def test_an_extended_resource_that_is_named_twice_is_requested_as_often() -> None:
    asked = [{"resource": "a/b", "quantity": 1}, {"resource": "a/b", "quantity": 2}]
    assert declared(compute={"extendedResources": asked}).template.shape.extended == (("a/b", 3),)


def test_everything_about_a_program_reaches_its_pods() -> None:
    spec = declared(
        image="python",
        args=["--epochs", "3"],
        stdin=True,
        tty=True,
        storage={
            "hostPath": [{"path": "/mnt", "mountPath": "/data", "readOnly": True}],
            "pvc": [{"claimName": "home", "path": "/home"}],
        },
        compute={"cpuCoreLimit": 1.5, "cpuMemoryLimit": "1Gi", "largeShmRequest": True},
    )
    assert WorkloadWire.of(spec).to_spec().template.program == Program(
        image="python",
        arguments=("--epochs", "3"),
        volumes=(Volume(target="/data", source="/mnt", read_only=True), Volume(target="/home", claim="home")),
        tty=True,
        stdin=True,
        cpu_limit_milli=1500,
        memory_limit_bytes=1 << 30,
        shm_bytes=64 << 30,
    )
    assert compact(spec) == WorkloadWire.of(spec).to_json(), "it is stored as it is read"


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("1k", 1000), ("1Ki", 1024), ("1.5G", 1_500_000_000), ("100MB", 10**8), ("x", None)]
)
def test_quantities(text: str, size: int | None) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize(("amount", "milli"), [(4, 4000), (2.5, 2500), (-1, -1), (0, 0)])
def test_quotas(amount: float, milli: int) -> None:
    assert quota_milli(amount) == milli


@pytest.mark.parametrize("amount", [0.12345, -0.5, -2])
def test_quotas_that_are_none(amount: float) -> None:
    assert isinstance(quota_milli(amount), Problem)


@pytest.mark.parametrize(("asked_s", "problems"), [(0, []), (3600, []), (3601, ["spec.grace_too_long"])])
def test_a_grace_period_has_an_end(asked_s: int, problems: list[str]) -> None:
    assert complaints(terminationGracePeriodSeconds=asked_s) == problems


# --- after others, with a folder, as an array ----------------------------------------------------------------------


def test_a_workload_waits_for_others_by_their_ids() -> None:
    assert declared(after=["prep", "clean:any"]).after == (
        Dependency(workload=WorkloadId("w-prep"), name="prep"),
        Dependency(workload=WorkloadId("w-clean"), name="clean", any_end=True),
    )
    assert complaints(after=["absent", "unknown:any"]) == ["spec.after", "spec.after"]
    assert complaints(after=["prep", "w-prep:any"]) == ["spec.after"], "the same one by its id"


def test_a_folder_is_where_the_program_starts() -> None:
    program = declared(workdir={"upload": UPLOAD}).template.program
    assert (program.working_dir, program.volumes) == ("/workdir", (Volume(target="/workdir", uploaded=True),))
    program = declared(workdir={"upload": UPLOAD, "path": "/src/"}, workingDir="sub").template.program
    assert (program.working_dir, program.volumes) == ("/src/sub", (Volume(target="/src", uploaded=True),))
    assert declared(workdir={"upload": UPLOAD}, workingDir="/tmp").template.program.working_dir == "/tmp"
    leader = declared("dist", workdir={"upload": UPLOAD}, numWorkers=2, masterSpec={}).leader
    assert leader is not None
    assert leader.program.working_dir == "/workdir"
    other = UPLOAD.replace("0190", "0191")
    assert complaints(workdir={"upload": other}) == ["spec.upload"]
    assert complaints(workdir={"upload": UPLOAD, "path": "//"}) == ["spec.workdir"]


def test_an_array_is_a_sweep_with_a_run_for_each() -> None:
    spec = declared(array={"indices": "0-20:5"}, parallelism=2)
    assert (spec.arrangement, spec.pods, spec.completions) == (Arrangement.SWEEP, 2, 5)
    assert spec.array == Array(ranges=((0, 20, 5),))
    spec = declared(array={"parameters": [{"name": "lr", "values": ["0.1", "0.2"]}]})
    assert (spec.pods, spec.completions) == (2, 2), "all of them at once, unless it says how many"
    spec = declared(array={"arguments": [["--lr", "1"], []]}, parallelism=9)
    assert (spec.pods, spec.completions) == (2, 2)


@pytest.mark.parametrize(
    ("array", "more", "codes"),
    [
        ({"indices": "a"}, {}, ["array.indices"]),
        ({"indices": "0-9999"}, {}, ["array.too_many"]),
        ({}, {}, ["array.empty"]),
        ({"parameters": [{"name": "index", "values": ["1"]}]}, {}, ["array.parameter"]),
        ({"indices": "0-4"}, {"completions": 4}, ["array.completions"]),
        ({"arguments": [["x" * 100_000]] * 12}, {}, ["array.too_long"]),
        ({"parameters": [{"name": each, "values": ["1"] * 100} for each in "ab"]}, {}, ["array.too_many"]),
    ],
)
def test_arrays_that_are_refused(array: dict[str, Any], more: dict[str, Any], codes: list[str]) -> None:
    assert complaints(array=array, **more) == codes


def test_the_time_limit_is_declared() -> None:
    assert declared(deadlineSeconds=7200).deadline_s == 7200
