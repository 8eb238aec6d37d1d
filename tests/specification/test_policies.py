"""Policies: each rule in each scope, what a workload is given, and what is wrong with a policy. One table per rule."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpool.api.assets import AssetScope
from fairpool.api.workload_spec import Kind
from fairpool.control.effective_policy import contradictions, effective
from fairpool.control.policy_checks import checked_policy, patched
from fairpool.control.policy_document import WorkloadPolicy, read_policy
from fairpool.control.policy_rules import ScopedPolicy, rule_problems
from fairpool.control.policy_values import changed, submitted
from fairpool.control.template_values import AssetValues, Defaults, TemplateValues

SCOPES = tuple(AssetScope)


def policy(
    scope: AssetScope = AssetScope.TENANT,
    rules: dict[str, Any] | None = None,
    defaults: dict[str, Any] | None = None,
    kind: Kind = Kind.TRAINING,
    imposed: tuple[AssetValues, ...] = (),
) -> ScopedPolicy:
    found = checked_policy(kind, {"defaults": defaults or {}, "rules": rules or {}})
    assert isinstance(found, WorkloadPolicy), found
    name = {AssetScope.TENANT: "", AssetScope.CLUSTER: "local", AssetScope.DEPARTMENT: "research"}.get(scope, "team-a")
    return ScopedPolicy(f"id-{scope.value}", f"p-{scope.value}", scope, found, name, imposed=imposed)


def codes(spec: dict[str, Any], *policies: ScopedPolicy, kind: Kind = Kind.TRAINING) -> list[str]:
    return [each.code.removeprefix("policy.") for each in submitted(kind, spec, policies=policies).problems]


# --- every rule, in every scope --------------------------------------------------------------------------------------

RULES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "max of whole numbers": (
        {"compute": {"gpuDevicesRequest": {"max": 4}}},
        {"compute": {"gpu": 4}},
        {"compute": {"gpu": 5}},
        "max",
    ),
    "min of whole numbers": ({"backoffLimit": {"min": 2}}, {"backoffLimit": 2}, {"backoffLimit": 1}, "min"),
    "max of numbers": (
        {"compute": {"cpuCoreRequest": {"max": 2.5}}},
        {"compute": {"cpuCoreRequest": 2.5}},
        {"compute": {"cpuCoreRequest": 2.6}},
        "max",
    ),
    "max of quantities": (
        {"compute": {"cpuMemoryLimit": {"max": "4Gi"}}},
        {"compute": {"cpuMemoryLimit": "4096Mi"}},
        {"compute": {"cpuMemoryLimit": "5G"}},
        "max",
    ),
    "step": ({"completions": {"min": 2, "max": 10, "step": 4}}, {"completions": 6}, {"completions": 4}, "step"),
    "options of texts": (
        {"image": {"options": [{"value": "python"}, {"value": "registry.example.com/team/*"}]}},
        {"image": "registry.example.com/team/train:1"},
        {"image": "registry.example.com/other/train:1"},
        "options",
    ),
    "options that are climbed out of": (
        {"storage": {"hostPath": {"attributes": {"path": {"options": ["/raid/*"]}}}}},
        {"storage": {"hostPath": [{"path": "/raid/a", "mountPath": "/a"}]}},
        {"storage": {"hostPath": [{"path": "/raid/../etc", "mountPath": "/a"}]}},
        "options",
    ),
    "options of numbers": (
        {"compute": {"gpuDevicesRequest": {"options": [1, 2, 4, 8]}}},
        {"compute": {"gpu": 8}},
        {"compute": {"gpu": 3}},
        "options",
    ),
    "options of lists": (
        {"security": {"capabilities": {"options": ["NET_ADMIN"]}}},
        {"security": {"capabilities": ["cap_net_admin"]}},
        {"security": {"capabilities": ["SYS_ADMIN"]}},
        "options",
    ),
    "required": ({"workingDir": {"required": True}}, {"workingDir": "/w"}, {}, "required"),
    "locked without a value": (
        {"security": {"hostNetwork": {"canEdit": False}}},
        {},
        {"security": {"hostNetwork": True}},
        "locked",
    ),
    "no items": (
        {"storage": {"hostPath": {"instances": {"canAdd": False}}}},
        {},
        {"storage": {"hostPath": [{"path": "/etc", "mountPath": "/etc"}]}},
        "can_add",
    ),
    "values of each item": (
        {"ports": {"attributes": {"serviceType": {"options": ["ClusterIP"]}}}},
        {"ports": [{"container": 80}]},
        {"ports": [{"container": 80}, {"container": 81, "serviceType": "NodePort"}]},
        "options",
    ),
    "a required list": ({"labels": {"required": True}}, {"labels": {"cost": "7"}}, {}, "required"),
    "the user": (
        {"security": {"runAsUid": {"min": 1000}}},
        {"security": {"runAsUid": 1000}},
        {"security": {"runAsUid": 0}},
        "min",
    ),
    "a time limit": ({"deadlineSeconds": {"max": 3600}}, {"deadlineSeconds": 60}, {"deadlineSeconds": 7200}, "max"),
}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_binds_in_every_scope_and_its_refusal_names_the_policy(rule: str, scope: AssetScope) -> None:
    rules, good, bad, code = RULES[rule]
    asked = policy(scope, rules)
    assert codes(good, asked) == []
    found = submitted(Kind.TRAINING, bad, policies=[asked]).problems
    assert [each.code for each in found] == [f"policy.{code}"]
    assert asked.origin in found[0].what
    assert (found[0].field or "").startswith("spec.")


@pytest.mark.parametrize("rule", RULES)
def test_a_narrower_policy_cannot_loosen_and_can_tighten(rule: str) -> None:
    rules, good, bad, code = RULES[rule]
    free = policy(AssetScope.PROJECT, {"compute": {"cpuCoreRequest": {"max": 1000}}})
    assert codes(bad, policy(AssetScope.TENANT, rules), free) == [code]
    assert codes(bad, policy(AssetScope.TENANT), policy(AssetScope.PROJECT, rules)) == [code]
    assert codes(good, policy(AssetScope.TENANT, rules), free) == []


def test_every_rule_of_every_scope_is_named_at_once() -> None:
    wide = policy(AssetScope.TENANT, {"compute": {"gpuDevicesRequest": {"max": 4}}})
    narrow = policy(
        AssetScope.PROJECT, {"compute": {"gpuDevicesRequest": {"max": 2}}, "image": {"options": ["python"]}}
    )
    found = submitted(Kind.TRAINING, {"compute": {"gpu": 8}, "image": "x"}, policies=[wide, narrow]).problems
    assert [each.code for each in found] == ["policy.max", "policy.max", "policy.options"]
    assert "policy p-tenant (tenant)" in found[0].what
    assert "policy p-project (project team-a)" in found[1].what
    assert found[0].field == "spec.compute.gpu", "as the request says it"


# --- what is left out, and what cannot be known ----------------------------------------------------------------------

FROM_DIRECTORY = {"security": {"uidGidSource": "fromIdpToken"}}


def test_the_user_of_a_directory_is_never_root() -> None:
    rules = {"security": {"runAsUid": {"min": 1}, "runAsGid": {"min": 1}}}
    assert codes(FROM_DIRECTORY, policy(rules=rules)) == []


@pytest.mark.parametrize(
    ("rules", "spec", "code"),
    [
        ({"deadlineSeconds": {"max": 60}}, {}, "max"),
        ({"compute": {"cpuCoreLimit": {"max": 2}}}, {}, "max"),
        ({"compute": {"cpuMemoryLimit": {"max": "1Gi"}}}, {"compute": {"cpuMemoryLimit": "0"}}, "max"),
        ({"image": {"options": ["python"]}}, {"command": "sh"}, "options"),
        ({"nodeType": {"options": ["a100"]}}, {}, "options"),
        ({"security": {"runAsUid": {"min": 1}}}, {}, "unknown"),
        ({"security": {"runAsUid": {"min": 2}}}, FROM_DIRECTORY, "unknown"),
        ({"security": {"runAsUid": {"max": 9}}}, {"security": {"runAsUser": True, "runAsUid": 9}}, "unknown"),
        ({"security": {"runAsUid": {"min": 1, "max": 9}}}, FROM_DIRECTORY, "unknown"),
        ({"security": {"runAsGid": {"options": [1]}}}, FROM_DIRECTORY, "unknown"),
        ({"compute": {"gpuPortionRequest": {"max": 0.5}}}, {"compute": {"gpuMemoryRequest": "4G"}}, "unknown"),
        ({"compute": {"gpuMemoryRequest": {"max": "4G"}}}, {"compute": {"gpu": 0.5}}, "unknown"),
        ({"compute": {"gpu": {"max": 1}}}, {"compute": {"migProfile": "1g.5gb"}}, "unknown"),
        ({"command": {"options": ["python"]}}, {"command": "python", "array": {"indices": "0-3"}}, "unknown"),
        ({"compute": {"gpuDevicesRequest": {"min": 1}}}, {}, "min"),
        ({"compute": {"gpuDevicesRequest": {"required": True}}}, {}, "required"),
        ({"terminationGracePeriodSeconds": {"max": 10}}, {}, "max"),
        ({"backoffLimit": {"max": 3}}, {}, "max"),
        ({"priorityClass": {"options": ["train"]}}, {"priorityClass": "build"}, "options"),
        ({"preemptibility": {"options": ["preemptible"]}}, {"priorityClass": "inference"}, "options"),
        ({"completions": {"max": 3}}, {"array": {"indices": "0-9"}}, "max"),
        ({"parallelism": {"max": 3}}, {"array": {"indices": "0-9"}}, "max"),
        ({"nodePools": {"options": ["a100"]}}, {}, "options"),
        ({"compute": {"cpuMemoryRequest": {"max": "100Mi"}}}, {"compute": {"gpu": 2}}, "max"),
    ],
)
def test_a_field_that_is_left_out_is_read_as_what_the_workload_would_run_with(
    rules: dict[str, Any], spec: dict[str, Any], code: str
) -> None:
    assert codes(spec, policy(rules=rules)) == [code]


@pytest.mark.parametrize(
    "rules",
    [
        {
            "compute": {
                "gpuDevicesRequest": {"max": 1},
                "gpuPortionRequest": {"max": 0.5},
                "gpuMemoryRequest": {"max": "1G"},
            }
        },
        {"compute": {"migProfile": {"options": ["1g.5gb"]}}, "priorityClass": {"options": ["train"]}},
        {"terminationGracePeriodSeconds": {"max": 30}, "backoffLimit": {"max": 6}, "completions": {"max": 1}},
        {"restartPolicy": {"options": ["OnFailure"]}, "nodePools": {"options": ["default"]}},
        {"storage": {"pvc": {"attributes": {"claimInfo": {"size": {"max": "1G"}}}}}},
    ],
)
def test_a_workload_that_asks_for_nothing_breaks_no_rule_about_it(rules: dict[str, Any]) -> None:
    assert codes({}, policy(rules=rules)) == []


@pytest.mark.parametrize(
    ("spec", "devices"),
    [
        ({"gpu": 3}, 3),
        ({"gpu": "3"}, 3),
        ({"gpuDevicesRequest": 3}, 3),
        ({"gpuDevicesRequest": 3, "gpuPortionRequest": 0.5}, 3),
        ({"gpuDevicesRequest": 3, "gpuMemoryRequest": "4G"}, 3),
        ({"migProfile": "1g.5gb", "gpuDevicesRequest": 3}, 3),
    ],
)
def test_a_rule_for_one_way_to_ask_for_gpus_binds_the_others(spec: dict[str, Any], devices: int) -> None:
    for most, wrong in ((devices, []), (devices - 1, ["max"])):
        assert codes({"compute": spec}, policy(rules={"compute": {"gpuDevicesRequest": {"max": most}}})) == wrong


# --- values and their origins ----------------------------------------------------------------------------------------


def test_the_order_of_precedence_and_the_origin_of_each_value() -> None:
    """Decision: locked policy, request, administrative template, named template, project, policy."""
    layers = ["workingDir", "nodeType", "priorityClass", "imagePullPolicy"]
    wide = policy(
        defaults={"image": "locked", "workingDir": "/tenant", "nodeType": "tenant", "labels": {"a": "t", "b": "t"}},
        rules={"image": {"canEdit": False}},
    )
    narrow = policy(AssetScope.PROJECT, defaults={"nodeType": "project", "pythonEnv": "/p", "labels": {"a": "p"}})
    admin = TemplateValues(
        "adm", AssetScope.TENANT, {"priorityClass": "build", "pythonEnv": "/adm"}, administrative=True
    )
    named = TemplateValues("n", AssetScope.TENANT, {"imagePullPolicy": "Never", "priorityClass": "train"})
    project = Defaults("project team-a", {"nodePools": ["a100"], "imagePullPolicy": "Always"})
    found = submitted(Kind.TRAINING, {"workingDir": "/own"}, [admin, named], (), project, [wide, narrow])
    assert found.problems == []
    assert {name: found.spec[name] for name in layers} == {
        "workingDir": "/own",
        "nodeType": "project",
        "priorityClass": "build",
        "imagePullPolicy": "Never",
    }
    assert found.spec["labels"] == {"a": "p", "b": "t"}
    assert found.origins == {
        "image": "policy p-tenant (tenant)",
        "priorityClass": "administrative template adm (tenant)",
        "pythonEnv": "administrative template adm (tenant)",
        "imagePullPolicy": "template n (tenant)",
        "nodePools": "project team-a",
        "nodeType": "policy p-project (project team-a)",
        "labels": "policy p-project (project team-a)",
        "labels.b": "policy p-tenant (tenant)",
    }


def test_a_locked_value_is_held_against_request_template_and_narrower_policy() -> None:
    locked = policy(defaults={"image": "python"}, rules={"image": {"canEdit": False}})
    template = TemplateValues("n", AssetScope.PROJECT, {"image": "other"})
    assert submitted(Kind.TRAINING, {}, [template], policies=[locked]).spec["image"] == "python"
    found = submitted(Kind.TRAINING, {"image": "other"}, policies=[locked])
    assert [each.code for each in found.problems] == ["policy.locked"]
    assert found.problems[0].what == "image is locked by policy p-tenant (tenant)"
    assert found.problems[0].fix == "remove it: its value is python"


def test_values_for_each_item_and_items_for_each_workload() -> None:
    asked = policy(
        defaults={
            "ports": {"attributes": {"serviceType": "NodePort"}, "instances": [{"container": 22}]},
            "environmentVariables": {"instances": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        },
        rules={"environmentVariables": {"instances": {"locked": ["A"]}}},
    )
    found = submitted(Kind.TRAINING, {"ports": [{"container": 80}]}, policies=[asked])
    assert found.problems == []
    assert sorted((each["container"], each["serviceType"]) for each in found.spec["ports"]) == [
        (22, "NodePort"),
        (80, "NodePort"),
    ]
    own = {"environmentVariables": [{"name": "A", "value": "9"}, {"name": "B", "value": "9"}]}
    assert codes(own, asked) == ["locked"]
    assert codes({"environmentVariables": own["environmentVariables"][1:]}, asked) == []


RESOURCE = {"resource": "a.com/x", "quantity": "1"}
MORE = {"resource": "a.com/x", "quantity": "8"}
PORT = {"container": 8080}
NODE_PORT = {"container": 8080, "serviceType": "NodePort", "external": 30001}
MOUNT = {"path": "/raid", "mountPath": "/data"}
TEAM_A = {"key": "team", "value": "a"}
TEAM_B = {"key": "team", "value": "b"}


def preferring(zone: str) -> dict[str, Any]:
    return {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}}


@pytest.mark.parametrize(
    ("path", "own", "sent", "key", "code"),
    [
        ("compute.extendedResources", RESOURCE, [MORE, RESOURCE], "a.com/x", "repeated"),
        ("compute.extendedResources", RESOURCE, [RESOURCE, RESOURCE], "a.com/x", "repeated"),
        ("ports", PORT, [NODE_PORT, PORT], "8080", "repeated"),
        ("storage.hostPath", MOUNT, [{**MOUNT, "path": "/etc"}, MOUNT], "/data", "repeated"),
        ("tolerations", TEAM_A, [TEAM_B, TEAM_A], "team", ""),
        ("tolerations", TEAM_A, [{"key": "team", "operator": "Exists"}], "team", ""),
        ("nodeAffinityPreferred", preferring("a"), [preferring("b"), preferring("a")], "", ""),
    ],
)
def test_a_second_item_of_a_key_does_not_get_around_the_rules_of_a_list(
    path: str, own: dict[str, Any], sent: list[dict[str, Any]], key: str, code: str
) -> None:
    def at(value: Any) -> dict[str, Any]:
        top, _, below = path.partition(".")
        return {top: {below: value} if below else value}

    for rule, refusal in (
        ({"instances": {"locked": [key]}}, code or "locked"),
        ({"instances": {"canAdd": False}}, code or "can_add"),
        ({"canEdit": False}, "locked"),
    ):
        held = policy(rules=at(rule), defaults=at({"instances": [own]}))
        assert codes({}, held) == [], rule
        assert codes(at([own]), held) == [], rule
        for order in (sent, sent[::-1]):
            assert refusal in codes(at(order), held), rule


def test_every_toleration_of_a_locked_key_stays() -> None:
    held = policy(
        defaults={"tolerations": {"instances": [TEAM_A, TEAM_B]}},
        rules={"tolerations": {"instances": {"locked": ["team"]}}},
    )
    assert codes({"tolerations": [{**TEAM_B, "operator": "Equal"}, {"key": "other", "value": "c"}]}, held) == []
    assert [each.code for each in rule_problems([held], {"tolerations": [TEAM_A]})] == ["policy.locked"]
    assert rule_problems([held], {"tolerations": [TEAM_B, TEAM_A]}) == []


@pytest.mark.parametrize("first", [{"path": "/etc", "mountPath": "/data"}, {"path": "/raid", "mountPath": "/data"}])
def test_a_second_mount_at_the_place_of_an_imposed_one_is_refused(first: dict[str, Any]) -> None:
    asset = AssetValues("d1", "assets.datasources", "data source shared (tenant)", {"storage": {"hostPath": [MOUNT]}})
    assert codes({"storage": {"hostPath": [first, MOUNT]}}, policy(imposed=(asset,))) == ["imposed"]


def test_a_default_can_be_a_multiple_of_another_field() -> None:
    rules = {
        "compute": {
            "cpuCoreRequest": {"defaultFrom": {"field": "gpuDevicesRequest", "factor": 8}},
            "cpuMemoryLimit": {"defaultFrom": {"field": "compute.cpuMemoryRequest", "factor": 1.5}},
        }
    }
    asked = {"compute": {"gpu": 2, "cpuMemoryRequest": "4Gi"}}
    found = submitted(Kind.TRAINING, asked, policies=[policy(rules=rules)]).spec["compute"]
    assert (found["cpuCoreRequest"], found["cpuMemoryLimit"]) == (16, "6Gi")
    assert submitted(Kind.TRAINING, {}, policies=[policy(rules=rules)]).spec == {}
    own = submitted(Kind.TRAINING, {"compute": {"gpu": 2, "cpuCoreRequest": 1}}, policies=[policy(rules=rules)]).spec
    assert own["compute"]["cpuCoreRequest"] == 1


def test_an_imposed_asset_is_mounted_whatever_the_request_says() -> None:
    mount = {"path": "/raid/data", "mountPath": "/data", "readOnly": True}
    asset = AssetValues("d1", "assets.datasources", "data source shared (tenant)", {"storage": {"hostPath": [mount]}})
    asked = policy(imposed=(asset,), rules={"storage": {"hostPath": {"instances": {"canAdd": False}}}})
    found = submitted(Kind.TRAINING, {}, policies=[asked])
    assert found.problems == []
    assert found.spec["storage"]["hostPath"] == [mount]
    assert found.spec["assets"] == {"datasources": [{"id": "d1"}]}
    assert found.origins["storage.hostPath./data"] == "data source shared (tenant), imposed by policy p-tenant (tenant)"
    other = {"storage": {"hostPath": [{"path": "/etc", "mountPath": "/data"}]}}
    assert set(codes(other, asked)) == {"imposed", "can_add"}
    assert codes({"storage": {"hostPath": [mount]}}, asked) == []


def test_a_change_keeps_to_the_rules_and_is_given_no_defaults() -> None:
    asked = policy(
        defaults={"image": "python", "nodeType": "a"},
        rules={"compute": {"gpuDevicesRequest": {"max": 2}}, "image": {"canEdit": False}},
    )
    found = changed(Kind.TRAINING, {"labels": {"a": "b"}}, {"image": "python", "labels": {"a": "b"}}, [], [asked])
    assert (found.problems, found.spec) == ([], {"image": "python", "labels": {"a": "b"}})
    wrong = changed(Kind.TRAINING, {"image": "x"}, {"image": "x", "compute": {"gpu": 3}}, [], [asked])
    assert [each.code for each in wrong.problems] == ["policy.locked", "policy.max"]
    older = rule_problems([asked], {"compute": {"gpu": 1}})
    assert [each.code for each in older] == ["policy.locked"], "a workload from before that does not have the value"


# --- distributed -----------------------------------------------------------------------------------------------------


def test_rules_for_workers_bind_the_master_unless_it_has_its_own() -> None:
    kind = Kind.DISTRIBUTED
    both = policy(rules={"worker": {"image": {"options": ["w"]}}}, kind=kind)
    apart = policy(rules={"worker": {"image": {"options": ["w"]}}, "master": {"image": {"options": ["m"]}}}, kind=kind)
    assert codes({"image": "w", "masterSpec": {"image": "x"}}, both, kind=kind) == ["options"]
    assert codes({"image": "w", "masterSpec": {}}, both, kind=kind) == [], "it runs the image of the workers"
    assert codes({"image": "w", "masterSpec": {"image": "m"}}, apart, kind=kind) == []
    assert codes({"image": "w", "masterSpec": {"image": "w"}}, apart, kind=kind) == ["options"]
    assert codes({"image": "w"}, apart, kind=kind) == ["options"], "one of the workers is the master"
    assert codes({"image": "w", "noMaster": True}, apart, kind=kind) == []
    found = submitted(kind, {"image": "w", "masterSpec": {"image": "x"}}, policies=[both]).problems
    assert found[0].field == "spec.masterSpec.image"


def test_defaults_and_locks_of_workers_and_master() -> None:
    asked = policy(
        kind=Kind.DISTRIBUTED,
        defaults={"worker": {"image": "w", "workingDir": "/w"}, "master": {"image": "m"}},
        rules={"worker": {"numWorkers": {"max": 4}}, "master": {"image": {"canEdit": False}}},
    )
    found = submitted(Kind.DISTRIBUTED, {"masterSpec": {}}, policies=[asked])
    assert found.problems == []
    assert (found.spec["image"], found.spec["masterSpec"]) == ("w", {"image": "m", "workingDir": "/w"})
    wrong = submitted(Kind.DISTRIBUTED, {"masterSpec": {"image": "x"}, "maxReplicas": 9}, policies=[asked]).problems
    assert [each.code for each in wrong] == ["policy.locked", "policy.max"]
    assert "maxReplicas must be no greater than 4, and it is 9" in wrong[1].what


# --- what is wrong with a policy -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "code", "place"),
    [
        ({"rules": {"imge": {"required": True}}}, "policy.field", "policy.rules.imge"),
        ({"defaults": {"compute": {"gpus": 1}}}, "policy.field", "policy.defaults.compute.gpus"),
        ({"rules": {"image": {"max": 3}}}, "policy.key", "policy.rules.image.max"),
        ({"rules": {"image": {"options": []}}}, "policy.options", "policy.rules.image.options"),
        ({"rules": {"image": {"options": ["reg*"]}}}, "policy.pattern", "policy.rules.image.options.0"),
        ({"rules": {"backoffLimit": {"min": 5, "max": 3}}}, "policy.range", "policy.rules.backoffLimit"),
        ({"rules": {"backoffLimit": {"min": "5"}}}, "policy.type", "policy.rules.backoffLimit.min"),
        ({"rules": {"backoffLimit": {"step": 0}}}, "policy.step", "policy.rules.backoffLimit.step"),
        ({"rules": {"backoffLimit": {"required": "yes"}}}, "policy.type", "policy.rules.backoffLimit.required"),
        (
            {"rules": {"compute": {"cpuMemoryLimit": {"max": "lots"}}}},
            "policy.type",
            "policy.rules.compute.cpuMemoryLimit.max",
        ),
        ({"rules": []}, "policy.type", "policy.rules"),
        ({"rule": {}}, "policy.key", "policy.rule"),
        ({"imposedAssets": "x"}, "policy.type", "policy.imposedAssets"),
        ({"defaults": {"backoffLimit": "six"}}, "request.wrong_value", "policy.defaults.backoffLimit"),
        (
            {"defaults": {"compute": {"cpuCoreRequest": -1}}},
            "request.wrong_value",
            "policy.defaults.compute.cpuCoreRequest",
        ),
        (
            {"rules": {"ports": {"instances": {"locked": ["80"]}}}},
            "policy.locked_item",
            "policy.rules.ports.instances.locked",
        ),
        ({"rules": {"ports": {"attributes": {"color": {}}}}}, "policy.field", "policy.rules.ports.attributes.color"),
        (
            {"rules": {"compute": {"cpuCoreRequest": {"defaultFrom": {"field": "image"}}}}},
            "policy.default_from",
            "policy.rules.compute.cpuCoreRequest.defaultFrom.field",
        ),
        (
            {"defaults": {"environmentVariables": {"instances": [{"name": "API_KEY", "value": "x"}]}}},
            "policy.secret_value",
            "policy.defaults.environmentVariables",
        ),
        ({"defaults": {"template": "x"}}, "policy.field", "policy.defaults.template"),
    ],
)
def test_what_is_wrong_with_a_policy_is_named_with_its_place(document: dict[str, Any], code: str, place: str) -> None:
    found = checked_policy(Kind.TRAINING, document)
    assert isinstance(found, list)
    assert (found[0].code, found[0].field) == (code, place)


def test_all_that_is_wrong_is_said_at_once() -> None:
    found = read_policy(
        Kind.DISTRIBUTED, {"rules": {"image": {}, "worker": {"a": {}, "b": {}}, "master": {"ports": {}}}}
    )
    assert isinstance(found, list)
    assert sorted(each.field or "" for each in found) == [
        "policy.rules.image",
        "policy.rules.master.ports",
        "policy.rules.worker.a",
        "policy.rules.worker.b",
    ]


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ({"rules": {"backoffLimit": {"min": 4}}}, {"rules": {"backoffLimit": {"max": 2}}}),
        ({"rules": {"backoffLimit": {"max": 2}}}, {"defaults": {"backoffLimit": 5}}),
        ({"defaults": {"backoffLimit": 5}}, {"rules": {"backoffLimit": {"max": 2}}}),
        ({"rules": {"image": {"options": ["a"]}}}, {"rules": {"image": {"options": ["b"]}}}),
        (
            {"defaults": {"image": "a"}, "rules": {"image": {"canEdit": False}}},
            {"rules": {"image": {"options": ["b"]}}},
        ),
        (
            {"rules": {"ports": {"instances": {"canAdd": False}}}},
            {"defaults": {"ports": {"instances": [{"container": 80}]}}},
        ),
    ],
)
def test_policies_that_contradict_each_other_are_both_named(wide: dict[str, Any], narrow: dict[str, Any]) -> None:
    pair = [policy(AssetScope.TENANT, **wide), policy(AssetScope.PROJECT, **narrow)]
    assert contradictions(pair[:1]) == contradictions(pair[1:]) == []
    found = contradictions(pair)
    assert found
    assert all(each.origin in found[0].what for each in pair), found[0].what


def test_a_default_outside_of_its_own_rules_is_a_contradiction() -> None:
    found = contradictions([policy(defaults={"backoffLimit": 9}, rules={"backoffLimit": {"max": 3}})])
    assert [each.code for each in found] == ["policy.max"]


# --- what several come to --------------------------------------------------------------------------------------------


def test_the_effective_policy_has_the_tightest_rules_with_their_sources() -> None:
    wide = policy(
        AssetScope.TENANT,
        {"backoffLimit": {"min": 1, "max": 9}, "image": {"options": ["registry.example.com/*", "python"]}},
        {"backoffLimit": 2, "image": "python"},
    )
    narrow = policy(
        AssetScope.PROJECT,
        {"backoffLimit": {"max": 5}, "image": {"options": ["registry.example.com/team/*", "python"], "required": True}},
        {"backoffLimit": 3},
    )
    found = effective([narrow, wide])
    assert found["defaults"] == {"backoffLimit": 3, "image": "python"}
    limit = found["rules"]["backoffLimit"]
    assert (limit["min"], limit["max"]) == (1, 5)
    assert limit["sources"] == {"min": "policy p-tenant (tenant)", "max": "policy p-project (project team-a)"}
    assert limit["sourceOfRule"] == {"scope": "tenant"}
    image = found["rules"]["image"]
    assert image["required"]
    assert sorted(each["value"] for each in image["options"]) == ["python", "registry.example.com/team/*"]
    assert isinstance(read_policy(Kind.TRAINING, found), WorkloadPolicy), "it can be applied again"


def test_a_change_of_a_policy_replaces_fields_and_resets_others() -> None:
    before = {
        "defaults": {"image": "a", "compute": {"cpuCoreRequest": 1}},
        "rules": {"compute": {"cpuCoreRequest": {"max": 2}, "gpu": {"max": 1}}},
    }
    found = patched(Kind.TRAINING, before, {"rules": {"compute": {"gpu": {"max": 4}}}}, ["compute.cpuCoreRequest"])
    assert found == {"defaults": {"image": "a"}, "rules": {"compute": {"gpu": {"max": 4}}}}
    gang = patched(Kind.DISTRIBUTED, {"rules": {"worker": {"image": {"required": True}}}}, {}, ["worker.image"])
    assert gang == {"defaults": {}, "rules": {}}


WORDS = st.sampled_from(["", "x", "4Gi", "1", "../..", "reg/*"])
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-1, 9), st.floats(allow_nan=False), WORDS)
NAMES = st.sampled_from(
    ["instances", "attributes", "options", "min", "max", "step", "canAdd", "locked", "name", "value", "required"]
)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3))
FIELDS = st.sampled_from(["image", "labels", "ports", "environmentVariables", "backoffLimit", "nodePools", "command"])


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(FIELDS, JSON, max_size=2), st.dictionaries(FIELDS, JSON, max_size=2))
def test_whatever_is_written_is_a_policy_or_refused(defaults: dict[str, Any], rules: dict[str, Any]) -> None:
    found = checked_policy(Kind.TRAINING, {"defaults": defaults, "rules": rules})
    if isinstance(found, WorkloadPolicy):
        one = ScopedPolicy("id", "p", AssetScope.TENANT, found)
        contradictions([one])
        assert isinstance(read_policy(Kind.TRAINING, effective([one])), WorkloadPolicy)
    else:
        assert all(each.field for each in found)


# --- whatever the combination ----------------------------------------------------------------------------------------

NUMBERS = st.integers(min_value=0, max_value=12)
IMAGES = st.sampled_from(["python", "reg/a", "reg/b", "other"])
GPUS = st.one_of(
    st.none(),
    st.builds(lambda n: {"gpu": n}, NUMBERS),
    st.builds(lambda n: {"gpuDevicesRequest": n}, NUMBERS),
    st.just({"gpu": 0.5}),
    st.just({"gpuMemoryRequest": "4G", "gpuDevicesRequest": 2}),
)
RANGES = st.fixed_dictionaries({}, optional={"min": NUMBERS, "max": NUMBERS, "step": st.integers(1, 4)}).filter(
    lambda rule: rule.get("min", 0) <= rule.get("max", 99)
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "options": st.lists(st.sampled_from(["python", "reg/*", "reg/a"]), min_size=1),
        "required": st.booleans(),
    },
)
PIECES = st.fixed_dictionaries(
    {},
    optional={
        "backoffLimit": st.tuples(st.one_of(st.none(), NUMBERS), RANGES, st.booleans()),
        "image": st.tuples(st.one_of(st.none(), IMAGES), OPTIONS, st.booleans()),
    },
)


@st.composite
def policies(draw: st.DrawFn) -> list[ScopedPolicy]:
    found = []
    for scope in draw(st.lists(st.sampled_from(SCOPES), unique=True)):
        defaults: dict[str, Any] = {}
        rules: dict[str, Any] = {}
        for path, piece in draw(PIECES).items():
            default, rule, can_edit = cast(tuple[Any, dict[str, Any], bool], piece)
            defaults |= {} if default is None else {path: default}
            rules[path] = {**rule, **({} if can_edit else {"canEdit": False})}
        rules["compute"] = {"gpuDevicesRequest": draw(RANGES)}
        found.append(policy(scope, rules, defaults))
    return found


@settings(max_examples=150, deadline=None)
@given(
    policies(),
    st.fixed_dictionaries({}, optional={"backoffLimit": NUMBERS, "image": IMAGES, "compute": GPUS.filter(bool)}),
    st.one_of(st.none(), IMAGES),
)
def test_an_admitted_workload_satisfies_every_rule_of_every_scope(
    held: list[ScopedPolicy], request: dict[str, Any], templated: str | None
) -> None:
    """The rules once more, spelled out without the code under test."""
    templates = [] if templated is None else [TemplateValues("n", AssetScope.PROJECT, {"image": templated})]
    found = submitted(Kind.TRAINING, request, templates, policies=held)
    if found.problems:
        return
    spec = found.spec
    compute = spec.get("compute") or {}
    devices = compute.get("gpuDevicesRequest", 0 if "gpu" not in compute else -(-compute["gpu"] // 1))
    devices = compute.get("gpuDevicesRequest", 1) if "gpuMemoryRequest" in compute else devices
    for each in held:
        section = each.policy.section
        values = {"backoffLimit": spec.get("backoffLimit", 6), "compute.gpuDevicesRequest": devices}
        for path, value in values.items():
            rule = section.rules.get(path)
            if rule is None:
                continue
            number = Decimal(str(value))
            assert rule.minimum is None or number >= rule.minimum
            assert rule.maximum is None or number <= rule.maximum
            assert rule.step is None or (number - (rule.minimum or 0)) % rule.step == 0
        image = section.rules.get("image")
        if image is not None and image.options is not None:
            name = spec.get("image", "")
            assert any(name == option or (option == "reg/*" and name.startswith("reg/")) for option in image.options)
        if image is not None and image.required:
            assert spec.get("image")
        for path in ("image", "backoffLimit"):
            if path in section.rules and not section.rules[path].can_edit:
                assert spec.get(path) == section.defaults.get(path)
