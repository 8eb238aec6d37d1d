"""What an uninstall and `fairpool down --stop-pods` do where pods change meanwhile, or the cluster is another one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from fairpool.engines.kubernetes.cleanup import CleanedMetadata, CleanedPod, _released, confirm_installation
from fairpool.engines.kubernetes.failures import Conflict, KubernetesError, NotFound
from fairpool.engines.kubernetes.resources import NAMESPACES, Object, ObjectMetadata
from tests.kubernetes.event_loop import within


def metadata(version: str, uid: str = "u1") -> CleanedMetadata:
    finalizers = ["x.io/y", "fairpool.io/recorded"]
    return CleanedMetadata(name="a", namespace="n", uid=uid, resource_version=version, finalizers=finalizers)


@dataclass
class BusyCluster:
    """One whose kubelet changes a pod before each of the first patches."""

    changes: int
    uid: str = "u1"
    version: int = 1
    written: list[list[str]] = field(default_factory=list)

    async def patch(self, _resource: object, _name: str, body: dict[str, Any], **_: object) -> None:
        if self.changes:
            self.changes, self.version = self.changes - 1, self.version + 1
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise Conflict("patch pods", 409, "Conflict", "the object has been modified")
        self.written.append(body["metadata"]["finalizers"])

    async def get(self, resource: object, name: str, *_: object, **__: object) -> CleanedPod | Object:
        if resource == NAMESPACES:
            if name != "runai":
                raise NotFound("get namespaces", 404, "NotFound", "not found")
            return Object(ObjectMetadata(name=name, uid="this"))
        return CleanedPod(metadata(str(self.version), self.uid))


@within(10)
async def test_a_pod_that_its_kubelet_changes_meanwhile_loses_its_finalizer_all_the_same() -> None:
    cluster = BusyCluster(changes=3)
    assert await _released(cast(Any, cluster), metadata("1"))
    assert cluster.written == [["x.io/y"]]


@within(10)
async def test_another_pod_of_the_same_name_is_left_alone() -> None:
    cluster = BusyCluster(changes=1, uid="u2")
    assert not await _released(cast(Any, cluster), metadata("1"))
    assert not cluster.written


@pytest.mark.parametrize(
    ("namespace", "uid"),
    [("runai", "another"), ("fairpool", "this"), ("", ""), ("runai", "")],
    ids=["another cluster", "no such namespace", "never started", "never joined"],
)
def test_pods_of_another_cluster_are_not_stopped(namespace: str, uid: str) -> None:
    @within(10)
    async def confirmed() -> None:
        await confirm_installation(cast(Any, BusyCluster(0)), "runai", "this")
        with pytest.raises(KubernetesError, match="another Kubernetes cluster"):
            await confirm_installation(cast(Any, BusyCluster(0)), namespace, uid)

    confirmed()
