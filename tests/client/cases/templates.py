"""Workload templates of both generations: kept, changed, and used by the workloads that name them."""

from __future__ import annotations

from typing import Any

from tests.client.original import Original

KINDS = {
    "workspace": {"image": "python", "compute": {"gpuDevicesRequest": 1}},
    "training": {"image": "python", "compute": {"gpuDevicesRequest": 1}, "backoffLimit": 2},
    "distributed": {"image": "python", "numWorkers": 2, "distributedFramework": "PyTorch"},
    "inference": {"image": "python", "servingPort": {"container": 8000}},
}
API = "WorkloadTemplatesApi"


def case_templates_of_each_kind(original: Original) -> None:
    for kind, spec in KINDS.items():
        body = {"meta": {"name": f"typed-{kind}", "scopeType": "tenant", "description": "first"}, "spec": spec}
        if kind == "distributed":
            body |= {"masterSpecSameAsWorker": False, "master": {"spec": {"image": "quickstart"}}}
        made = original.call(f"{API}.create_{kind}_template", **{f"{kind}_template_creation_request": body})
        template = {"template_id": made["meta"]["id"]}
        read = original.call(f"{API}.get_{kind}_template", **template)
        assert read == made
        assert (read["meta"]["workloadType"].lower(), read["spec"]["image"]) == (kind, "python")
        (listed,) = original.call(f"{API}.list_{kind}_templates", filter_by=[f"name==typed-{kind}"])["entries"]
        assert listed["meta"] == read["meta"]
        assert original.call(f"{API}.get_template_by_id1", **template)["spec"] == read["spec"]
        if kind != "inference":
            _change(original, kind, template)
        if kind == "distributed":
            assert original.call(f"{API}.get_{kind}_template", **template)["master"]["spec"] == {"image": "quickstart"}
        original.call(f"{API}.delete_{kind}_template", **template)
    assert original.call(f"{API}.list_templates1", search="typed-")["entries"] == []


def _change(original: Original, kind: str, template: Any) -> None:
    patch = {"meta": {"name": f"typed-{kind}"}, "spec": {"workingDir": "/tmp"}}
    patched = original.call(f"{API}.patch_{kind}_template", **template, **{f"{kind}_template_patch_request": patch})
    assert (patched["spec"]["image"], patched["spec"]["workingDir"]) == ("python", "/tmp")
    cleared = original.call(
        f"{API}.patch_{kind}_template",
        **template,
        **{f"{kind}_template_patch_request": {**patch, "spec": {"args": "a 'b c'"}, "fieldsToClear": ["workingDir"]}},
    )
    assert ("workingDir" in cleared["spec"], cleared["spec"]["args"]) == (False, "a 'b c'")
    body: dict[str, Any] = {"meta": {"name": f"typed-{kind}", "description": "second"}, "spec": {"image": "quickstart"}}
    if kind == "distributed":
        body |= {"masterSpecSameAsWorker": False, "master": {"spec": {"image": "quickstart"}}}
    replaced = original.call(f"{API}.update_{kind}_template", **template, **{f"{kind}_template_update_request": body})
    assert (replaced["meta"]["description"], replaced["spec"]["image"]) == ("second", "quickstart")
    assert "args" not in replaced["spec"]


def case_names_and_counts(original: Original) -> None:
    free = original.call(f"{API}.template_name_availability", template_name="counted", scope_type="tenant")
    body = {"meta": {"name": "counted", "scopeType": "tenant"}, "spec": {"image": "python"}}
    made = original.call(f"{API}.create_training_template", training_template_creation_request=body)
    taken = original.call(f"{API}.template_name_availability", template_name="counted", scope_type="tenant")
    assert (free, taken) == ({"available": True}, {"available": False})
    assert original.call(f"{API}.count_templates", filter_by=["name==counted"]) == {"count": 1}
    (listed,) = original.call(f"{API}.list_templates1", filter_by=["name==counted"])["entries"]
    assert listed["meta"] == made["meta"]
    original.call(f"{API}.delete_training_template", template_id=made["meta"]["id"])
