"""The storage and the variables of a workload as clients of the original write them: the same request as ours."""

from __future__ import annotations

from typing import Any

import pytest

from fairpool.api import pod_spec
from fairpool.api.wire import ValidationError

SAME: dict[str, tuple[type[Any], dict[str, Any], dict[str, Any]]] = {
    "a variable from a credential": (
        pod_spec.EnvironmentVariable,
        {"name": "A", "secret": {"name": "tokens", "key": "k"}, "exclude": False},
        {"name": "A", "credential": {"name": "tokens", "key": "k"}},
    ),
    "a variable from a credential, by its id": (
        pod_spec.EnvironmentVariable,
        {"name": "A", "credential": {"assetId": "tokens", "key": "k"}},
        {"name": "A", "credential": {"name": "tokens", "key": "k"}},
    ),
    "a quantity as text": (
        pod_spec.ExtendedResource,
        {"resource": "a/b", "quantity": "2", "exclude": None},
        {"resource": "a/b", "quantity": 2},
    ),
    "the modes of a claim, each true or false": (
        pod_spec.Pvc,
        {
            "path": "/d",
            "existingPvc": False,
            "dataSharing": False,
            "claimInfo": {
                "size": "1Gi",
                "accessModes": {"readWriteOnce": True, "readOnlyMany": False, "readWriteMany": True},
                "volumeMode": "Filesystem",
            },
        },
        {"path": "/d", "existingPvc": False, "claimInfo": {"size": "1Gi", "accessMode": "rwm"}},
    ),
    "the login of a repository": (
        pod_spec.GitSource,
        {"repository": "https://h/r", "secretRef": {"name": "login", "authenticationMethod": "password"}},
        {"repository": "https://h/r", "credential": "login"},
    ),
    "a config map beside a label": (
        pod_spec.NamedVolume,
        {"name": "mine", "configMap": "settings", "mountPath": "/s", "exclude": False},
        {"label": "mine", "name": "settings", "mountPath": "/s"},
    ),
    "a credential as files": (
        pod_spec.SecretVolume,
        {"secret": "tokens", "mountPath": "/s"},
        {"name": "tokens", "mountPath": "/s"},
    ),
    "one pull secret in a list": (
        pod_spec.PodSpecWire,
        {"image": "i", "imagePullSecrets": [{"name": "registry", "exclude": False}]},
        {"image": "i", "imagePullSecret": "registry"},
    ),
}


@pytest.mark.parametrize("case", SAME.values(), ids=SAME.keys())
def test_both_forms_say_the_same(case: tuple[type[Any], dict[str, Any], dict[str, Any]]) -> None:
    model, theirs, ours = case
    assert model.model_validate(theirs) == model.model_validate(ours)


REFUSED: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "what is excluded": (pod_spec.HostPath, {"path": "/a", "mountPath": "/b", "exclude": True}),
    "a false that is none": (pod_spec.HostPath, {"path": "/a", "mountPath": "/b", "exclude": 0}),
    "a block device": (pod_spec.ClaimInfo, {"size": "1Gi", "volumeMode": "Block"}),
    "a claim that cannot be mounted at all": (
        pod_spec.ClaimInfo,
        {"size": "1Gi", "accessModes": {"readWriteOnce": False}},
    ),
    "an SSH key": (
        pod_spec.GitSource,
        {"repository": "https://h/r", "secretRef": {"name": "key", "authenticationMethod": "ssh-key"}},
    ),
    "a key that the credential does not have": (
        pod_spec.GitSource,
        {"repository": "https://h/r", "passwordSecret": "login", "secretKeyOfUser": "login-name"},
    ),
    "two pull secrets": (pod_spec.PodSpecWire, {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]}),
    "two forms at once": (pod_spec.EnvironmentVariable, {"name": "A", "secret": {}, "credential": {}}),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_what_asks_for_something_else_is_refused(case: tuple[type[Any], dict[str, Any]]) -> None:
    model, said = case
    with pytest.raises(ValidationError):
        model.model_validate(said)
