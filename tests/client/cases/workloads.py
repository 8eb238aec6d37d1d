"""Workspaces, trainings, distributed trainings; what holds for all kinds; pods, events, history, batches."""

from __future__ import annotations

from typing import Any

from tests.client.original import Original

PROGRAM = "-u -c 'import time; print(\"started\", flush=True); time.sleep(600)'"


def body(original: Original, name: str, **spec: Any) -> dict[str, Any]:
    program = {"image": "python", "command": "python", "args": PROGRAM}
    compute = {"gpuDevicesRequest": 1, "gpuRequestType": "portion", "gpuPortionRequest": 0.25}
    said = {**program, "compute": compute, **spec}
    return {"name": name, "projectId": "team-a", "clusterId": original.cluster, "spec": said}


def phase_is(original: Original, workload: str, phase: str) -> None:
    last: dict[str, Any] = {}

    def is_so() -> bool:
        last.update(original.call("WorkloadsApi.get_workload", workload_id=workload))
        return bool(last["phase"] == phase)

    try:
        original.until(is_so, f"{workload} is {phase}")
    except AssertionError as error:
        raise AssertionError(f"{error}; it is {last['phase']}: {last['phaseMessage']}") from error


def is_gone(original: Original, workload: str) -> None:
    def left() -> int:
        return int(original.call("WorkloadsApi.count_workloads", filter_by=[f"id=={workload}"])["count"])

    original.until(lambda: not left(), f"{workload} is gone")


def pod_phases(original: Original, workload: str) -> set[str]:
    pods = original.call("PodsApi.get_workload_pods", workload_id=workload)["pods"]
    return {each["k8sPhase"] for each in pods}


def goes_through_its_life(original: Original, api: str, noun: str, workload: str) -> None:
    """Runs, is suspended and resumed, and is deleted: each by the operation of its kind, and really."""
    phase_is(original, workload, "Running")
    original.until(lambda: pod_phases(original, workload) == {"Running"}, f"the pods of {workload} run")
    original.call(f"{api}.suspend_{noun}", workload_id=workload)
    phase_is(original, workload, "Stopped")
    found = original.call(f"{api}.get_{noun}", workload_id=workload)
    assert (found["desiredPhase"], found["actualPhase"]) == ("Stopped", "Stopped")
    original.call(f"{api}.resume_{noun}", workload_id=workload)
    phase_is(original, workload, "Running")
    original.call(f"{api}.delete_{noun}", workload_id=workload)
    is_gone(original, workload)


def case_workspaces(original: Original) -> None:
    said = body(
        original,
        "work-space",
        labels=[{"name": "team", "value": "vision"}],
        annotations=[{"name": "note", "value": "first"}],
        environmentVariables=[{"name": "COLOUR", "value": "blue"}],
        ports=[{"container": 8888, "serviceType": "ClusterIP", "name": "http"}],
        category="Build",
        terminateAfterPreemption=False,
    )
    made = original.call("WorkspacesApi.create_workspace1", workspace_creation_request=said)
    assert (made["name"], made["requestedName"], made["desiredPhase"]) == ("work-space", "work-space", "Running")
    found = original.call("WorkspacesApi.get_workspace", workload_id=made["workloadId"])
    assert found["spec"]["labels"] == [{"name": "team", "value": "vision"}]
    assert found["spec"]["ports"][0]["name"] == "http"
    goes_through_its_life(original, "WorkspacesApi", "workspace", made["workloadId"])


def case_trainings(original: Original) -> None:
    said = {**body(original, "work-training"), "useGivenNameAsPrefix": True}
    made = original.call("TrainingsApi.create_training1", training_creation_request=said)
    assert (made["name"], made["requestedName"]) == ("work-training-0", "work-training")
    goes_through_its_life(original, "TrainingsApi", "training", made["workloadId"])


def case_distributed_trainings(original: Original) -> None:
    said = body(original, "work-gang", distributedFramework="PyTorch", numWorkers=2)
    said |= {"masterSpecSameAsWorker": True}
    made = original.call("DistributedApi.create_distributed", distributed_creation_request=said)
    phase_is(original, made["workloadId"], "Running")
    found = original.call("WorkloadsApi.get_workload", workload_id=made["workloadId"])
    assert found["requestedPods"] == {"number": 3}, "two workers and a master like them"
    assert found["workloadRequestedResources"]["gpu"] == {"request": 0.75}
    goes_through_its_life(original, "DistributedApi", "distributed", made["workloadId"])


def case_what_is_refused_is_named(original: Original) -> None:
    for field, value in {
        "relatedUrls": [{"url": "https://runs.example/1", "name": "run"}],
        "terminateAfterPreemption": True,
        "category": "Deploy",
        "security": {"runAsNonRoot": True},
    }.items():
        said = body(original, "work-refused", **{field: value})
        why = original.refused("TrainingsApi.create_training1", 422, training_creation_request=said)
        assert field in why, why


def case_all_kinds_of_workloads(original: Original) -> None:
    made = original.call("TrainingsApi.create_training1", training_creation_request=body(original, "work-any"))
    workload = made["workloadId"]
    phase_is(original, workload, "Running")
    found = original.call("WorkloadsApi.get_workload", workload_id=workload)
    assert (found["category"], found["namespace"], found["deletedAt"]) == ("Train", "runai-team-a", None)
    assert found["workloadRequestedResources"]["gpu"] == {"request": 0.25}
    listed = original.call("WorkloadsApi.get_workloads", filter_by=["name==work-any"], sort_by="name")
    assert [each["id"] for each in listed["workloads"]] == [workload]
    assert original.call("WorkloadsApi.count_workloads", filter_by=["name==work-any"]) == {"count": 1}
    pods = original.call("PodsApi.list_pods", filter_by=[f"workloadId=={workload}"])["pods"]
    assert [each["containers"][0]["image"] for each in pods] == ["python"]
    assert original.call("PodsApi.count_pods", filter_by=[f"workloadId=={workload}"]) == {"count": 1}
    events = original.call("EventsApi.get_workload_events", workload_id=workload)["events"]
    assert events, "it was bound and started"
    records = original.call("EventsApi.get_workload_history", workload_id=workload)["records"]
    assert [each["spec"]["event"]["reason"] for each in records] == ["running"]
    original.until(lambda: original.platform.log(workload) == "started\n", "its program prints")
    original.call("TrainingsApi.delete_training", workload_id=workload)
    is_gone(original, workload)


def case_batches_of_workloads(original: Original) -> None:
    made = [
        original.call("TrainingsApi.create_training1", training_creation_request=body(original, name))["workloadId"]
        for name in ("work-batch-a", "work-batch-b")
    ]
    batch = {"ids": [*made, "no-such"], "action": "delete"}
    done = original.call("WorkloadsBatchApi.batch_workloads", workload_batch=batch)
    assert (done["succeeded"], [each["id"] for each in done["failed"]]) == (made, ["no-such"])
    for workload in made:
        is_gone(original, workload)


def case_properties_of_workloads(original: Original) -> None:
    priorities = original.call("WorkloadPropertiesApi.get_workload_priorities")["priorities"]
    assert {"train", "build"} <= {each["name"] for each in priorities}
    categories = original.call("WorkloadPropertiesApi.list_categories")["categories"]
    assert [each["name"] for each in categories] == ["Build", "Train", "Deploy"]
    one = original.call("WorkloadPropertiesApi.get_category_by_id", category_id=categories[0]["id"])
    assert one == categories[0]
    types = original.call("WorkloadPropertiesApi.list_workload_types")["types"]
    training = next(each for each in types if each["name"] == "Training")
    assert original.call("WorkloadPropertiesApi.get_workload_type", workload_type_id=training["id"]) == training
    fields = {"name": "Mine", "group": "example.com", "categoryId": "Train", "priorityId": "train"}
    kinds = "WorkloadPropertiesApi"
    original.never(f"{kinds}.create_workload_type", 405, workload_type_create_fields=fields)
    original.never(f"{kinds}.delete_workload_type", 405, workload_type_id=training["id"])
    update = {"categoryId": "Build", "priorityId": "train"}
    original.never(
        f"{kinds}.update_workload_type", 405, workload_type_id=training["id"], workload_type_update_fields=update
    )
