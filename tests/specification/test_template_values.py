"""Values of a submit from the request and from templates: which one counts, and where it is from."""

from __future__ import annotations

from typing import Any

from fairpool.api.assets import AssetScope, TemplateRequest
from fairpool.control.template_checks import template_problems
from fairpool.control.template_values import NO_LOCKS, TemplateValues, is_field, merged, relocked


def named(**values: Any) -> TemplateValues:
    return TemplateValues("batch", AssetScope.PROJECT, values)


def admin(
    scope: AssetScope = AssetScope.TENANT,
    *,
    required: tuple[str, ...] = (),
    locked: tuple[str, ...] = (),
    **values: Any,
) -> TemplateValues:
    return TemplateValues(scope.value, scope, values, administrative=True, required=required, locked=locked)


def spec(request: dict[str, Any], *templates: TemplateValues) -> dict[str, Any]:
    found = merged(request, templates)
    assert not found.problems, found.problems
    return found.spec


def test_the_request_comes_before_administrative_templates_and_these_before_the_named_one() -> None:
    templates = (named(image="c", workingDir="/c", nodeType="c"), admin(image="b", workingDir="/b"))
    found = merged({"image": "a"}, templates)
    assert found.spec == {"image": "a", "workingDir": "/b", "nodeType": "c"}
    assert found.origins == {
        "workingDir": "administrative template tenant (tenant)",
        "nodeType": "template batch (project)",
    }


def test_of_administrative_templates_the_narrowest_scope_counts() -> None:
    wide, narrow = admin(image="wide", priorityClass="low"), admin(AssetScope.PROJECT, image="narrow")
    between = admin(AssetScope.DEPARTMENT, image="between", nodeType="t")
    expected = {"image": "narrow", "nodeType": "t", "priorityClass": "low"}
    assert spec({}, wide, narrow, between) == spec({}, narrow, between, wide) == expected


def test_variables_and_labels_are_merged_by_name() -> None:
    ours = {"environmentVariables": [{"name": "A", "value": "1"}], "labels": {"x": "1"}}
    theirs = named(
        environmentVariables=[{"name": "A", "value": "2"}, {"name": "B", "value": "3"}], labels={"x": "2", "y": "3"}
    )
    found = merged(ours, [theirs])
    assert {each["name"]: each["value"] for each in found.spec["environmentVariables"]} == {"A": "1", "B": "3"}
    assert found.spec["labels"] == {"x": "1", "y": "3"}
    assert set(found.origins) == {"environmentVariables.B", "labels.y"}


def test_mounts_and_ports_are_joined_unless_the_request_has_one_at_the_same_place() -> None:
    ours = {"storage": {"hostPath": [{"path": "/a", "mountPath": "/data"}]}, "ports": [{"container": 80}]}
    theirs = named(
        storage={"hostPath": [{"path": "/b", "mountPath": "/data"}, {"path": "/c", "mountPath": "/more"}]},
        ports=[{"container": 80, "serviceType": "NodePort"}, {"container": 81}],
    )
    found = spec(ours, theirs)
    assert sorted(each["path"] for each in found["storage"]["hostPath"]) == ["/a", "/c"]
    assert sorted(each["container"] for each in found["ports"]) == [80, 81]
    assert {"container": 80} in found["ports"]


def test_ways_to_ask_for_gpus_do_not_mix() -> None:
    template = named(compute={"gpuMemoryRequest": "4G", "cpuCoreRequest": 2})
    assert spec({"compute": {"gpu": "1"}}, template)["compute"] == {"gpu": "1", "cpuCoreRequest": 2}
    assert spec({}, template)["compute"] == {"gpuMemoryRequest": "4G", "cpuCoreRequest": 2}


def test_a_command_replaces_the_arguments_of_a_template() -> None:
    assert spec({"command": ["x"]}, named(command=["y"], args=["z"])) == {"command": ["x"]}
    assert spec({"image": "i"}, named(command=["y"], args=["z"])) == {"image": "i", "command": ["y"], "args": ["z"]}


def test_the_master_of_a_distributed_workload_is_filled_up_too() -> None:
    request = {"numWorkers": 2, "masterSpec": {"args": ["m"], "compute": {"gpu": "2"}}}
    found = spec(request, named(image="i", compute={"gpu": "1", "cpuCoreRequest": 4}, nodeType="t"))
    assert found["masterSpec"] == {"args": ["m"], "compute": {"gpu": "2", "cpuCoreRequest": 4}, "image": "i"}
    assert found["compute"]["gpu"] == "1"


def test_a_locked_field_cannot_be_set_to_another_value() -> None:
    lock = admin(image="only", locked=("image",))
    assert spec({}, lock) == spec({"image": "only"}, lock) == {"image": "only"}
    problem = merged({"image": "other"}, [lock]).problems[0]
    assert (problem.code, problem.field) == ("template.locked", "spec.image")
    assert "administrative template tenant (tenant)" in problem.what
    assert "only" in (problem.fix or "")


def test_a_lock_holds_against_every_way_around_it() -> None:
    gpus = admin(compute={"gpu": 1}, locked=("compute.gpu",))
    for around in ({"gpuDevicesRequest": 8}, {"gpuMemoryRequest": "80G"}, {"gpu": "2"}, {"migProfile": "7g.80gb"}):
        assert merged({"compute": around}, [gpus]).problems, around
    assert not merged({"compute": {"gpu": "1"}}, [gpus]).problems, "the same figure, as a text"
    other_way = admin(compute={"gpu": 1}, locked=("compute.gpuDevicesRequest",))
    assert spec({}, other_way) == spec({}, gpus) == {"compute": {"gpu": 1}}
    assert merged({"compute": {"gpu": 2}}, [other_way]).problems
    image = admin(image="only", locked=("image",))
    assert merged({"masterSpec": {"image": "other"}}, [image]).problems
    assert spec({"masterSpec": {"args": ["x"]}}, image)["masterSpec"]["image"] == "only"
    whole = admin(security={"hostIpc": False}, locked=("security",))
    assert merged({"security": {"hostNetwork": True}}, [whole]).problems
    assert merged({"labels": {"a": "b"}}, [admin(locked=("labels",))]).problems, "locked without a value: not to be set"
    assert NO_LOCKS.of_templates_too([image]).problems({"image": "x"})


def test_a_lock_holds_for_fields_that_are_merged_together_or_say_the_same() -> None:
    command, arguments = admin(command=["/wrap"], locked=("command",)), admin(args=["--safe"], locked=("args",))
    assert spec({"args": ["x"]}, command) == {"args": ["x"], "command": ["/wrap"]}
    assert spec({"command": ["sh"]}, arguments) == {"command": ["sh"], "args": ["--safe"]}
    assert merged({"array": {"indices": "0-1"}}, [arguments]).problems
    assert merged({"nodeAffinityRequired": {"nodeSelectorTerms": []}}, [admin(locked=("nodeType",))]).problems
    assert merged({"exposedUrls": [{"container": 1}]}, [admin(locked=("ports",))]).problems


def test_a_lock_holds_for_the_master_that_a_template_describes() -> None:
    evil = named(masterSpec={"image": "evil", "args": ["x"]})
    assert spec({}, admin(image="good", locked=("image",)), evil)["masterSpec"] == {"image": "good", "args": ["x"]}


def test_a_lock_of_a_part_leaves_the_lock_of_the_rest() -> None:
    tenant = admin(compute={"gpu": "1"}, locked=("compute.gpu",))
    project = admin(AssetScope.PROJECT, compute={"cpuCoreRequest": 2}, locked=("compute",))
    assert [each.field for each in merged({"compute": {"cpuCoreRequest": 99}}, [tenant, project]).problems] == [
        "spec.compute.cpuCoreRequest"
    ]
    assert spec({}, tenant, project)["compute"] == {"gpu": "1", "cpuCoreRequest": 2}


def test_a_change_keeps_what_is_locked_and_required() -> None:
    lock = admin(compute={"gpu": "1"}, nodePools=["a"], locked=("compute.gpu", "nodePools"))
    assert relocked({"image": "i", "compute": {"cpuCoreRequest": 3}, "nodePools": []}, [lock]).spec == {
        "image": "i",
        "compute": {"cpuCoreRequest": 3, "gpu": "1"},
        "nodePools": ["a"],
    }
    assert relocked({"labels": {"a": "b"}}, [admin(locked=("labels",))]).spec == {}, "set before it was locked"
    assert relocked({"compute": {}}, [admin(required=("compute.gpu",))]).problems


def test_neither_a_named_template_nor_a_narrower_scope_overrides_a_lock() -> None:
    lock = admin(compute={"gpu": "1"}, nodeType="t", locked=("compute.gpu",))
    project = admin(AssetScope.PROJECT, compute={"gpu": "8", "cpuCoreRequest": 2}, locked=("compute.gpu",))
    assert spec({}, lock, project, named(compute={"migProfile": "1g.5gb"}))["compute"] == {
        "gpu": "1",
        "cpuCoreRequest": 2,
    }


def test_a_required_field_must_have_a_value_in_the_end() -> None:
    needs = admin(required=("compute.gpu", "image"))
    found = merged({"compute": {"cpuCoreRequest": 1}}, [needs])
    assert [each.field for each in found.problems] == ["spec.compute.gpu", "spec.image"]
    assert not merged({"compute": {"gpuMemoryRequest": "4G"}, "image": "i"}, [needs]).problems
    assert not merged({}, [needs, named(image="i", compute={"gpu": 1})]).problems


# --- what a template may be ----------------------------------------------------------------------------------------


def wrong(**more: Any) -> list[str]:
    meta = {"name": "t", "scope": "tenant", **more.pop("meta", {})}
    return [each.code for each in template_problems(TemplateRequest.model_validate({"meta": meta, **more}))]


def test_a_template_that_no_submit_could_use_is_refused() -> None:
    assert wrong(spec={"image": "i"}) == []
    assert wrong(spec={"template": "other"}) == ["template.field"], "templates do not name templates"
    assert wrong(spec={"workdir": {"upload": "019a8b3c-0000-7000-8000-000000000001"}}) == ["template.field"]
    assert wrong(spec={"completions": 2, "numWorkers": 3}) == ["template.no_kind"]
    assert wrong(spec={"completions": 2}, meta={"workloadSupportedTypes": {"workspace": True}}) == [
        "template.kind_lacks"
    ]
    assert wrong(spec={}, meta={"workloadSupportedTypes": {}}) == ["template.no_kind"]
    assert wrong(spec={}, required=["compute.gpus"], locked=["imag"], administrative=True) == ["template.no_field"] * 2
    assert wrong(spec={"image": "i"}, locked=["image"]) == ["template.locked"]
    assert wrong(spec={"security": {"runAsNonRoot": True}}) == ["spec.not_carried"]
    both = {"uidGidSource": "fromTheImage", "runAsUser": True}
    assert wrong(spec={"security": both}) == ["spec.not_carried"]


def test_a_template_may_ask_for_what_only_some_nodes_can_do() -> None:
    for security in ({"uidGidSource": "fromIdpToken"}, {"runAsUser": True}, {"hostNetwork": True}):
        assert wrong(spec={"security": security}) == [], security


def test_fields_are_named_as_in_the_api() -> None:
    assert is_field("image")
    assert is_field("compute.gpu")
    assert is_field("numWorkers")
    assert is_field("topology.required")
    for unknown in ("template", "compute.nothing", "nothing", "image.name", "after"):
        assert not is_field(unknown), unknown
