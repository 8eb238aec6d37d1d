"""The client of the Kubernetes API against a real API server: every call, watches, and ways to authenticate."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairpool.engines.kubernetes import credentials as credentials_module
from fairpool.engines.kubernetes import exec_plugin
from fairpool.engines.kubernetes import watch as watch_module
from fairpool.engines.kubernetes.client import KubernetesClient, Patch, Propagation
from fairpool.engines.kubernetes.credentials import in_cluster
from fairpool.engines.kubernetes.failures import (
    AlreadyExists,
    BadConfiguration,
    Conflict,
    Gone,
    NotFound,
    Refused,
    TooManyRequests,
)
from fairpool.engines.kubernetes.kubeconfig import read_kubeconfig
from fairpool.engines.kubernetes.resources import (
    CONFIG_MAPS,
    DISRUPTION_BUDGETS,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    Object,
)
from fairpool.engines.kubernetes.watch import EVERYTHING, WatchScope
from tests.kubernetes.control_plane import ADMIN, ControlPlane
from tests.kubernetes.event_loop import within
from tests.kubernetes.fake_nodes import fake_nodes
from tests.kubernetes.watched_objects import WatchedObjects

pytestmark = pytest.mark.slow
LIMIT_S = 60.0


class DataMetadata(msgspec.Struct, rename="camel"):
    """Of a config map."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    labels: dict[str, str] | None = None


class Data(msgspec.Struct):
    """A config map: what these tests read of it."""

    metadata: DataMetadata
    data: dict[str, str] | None = None


class Bound(msgspec.Struct, rename="camel"):
    """The part of a pod's specification that binding sets."""

    node_name: str = ""


class BoundPod(msgspec.Struct):
    """A pod and its node."""

    metadata: DataMetadata
    spec: Bound


@asynccontextmanager
async def client_for(plane: ControlPlane, user: str = ADMIN) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient(read_kubeconfig([plane.kubeconfig(user)])) as made:
        yield made


def data(name: str, labels: dict[str, str] | None = None, **values: str) -> dict[str, Any]:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": values}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "busybox"}]
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": containers, **spec}}


async def until(holds: Callable[[], bool]) -> None:
    """The test's limit is the limit of this."""
    while not holds():
        await asyncio.sleep(0.01)


# --- calls ------------------------------------------------------------------------------------------------------------


@within(LIMIT_S)
async def test_objects_are_created_read_and_deleted_by_uid(control_plane: ControlPlane, namespace: str) -> None:
    async with client_for(control_plane) as client:
        made = await client.create(CONFIG_MAPS, data("a", x="1"), Data, namespace=namespace)
        assert (made.data, made.metadata.name) == ({"x": "1"}, "a")
        assert await client.get(CONFIG_MAPS, "a", Data, namespace=namespace) == made
        with pytest.raises(AlreadyExists, match=f'create configmaps {namespace}/a: configmaps "a" already exists'):
            await client.create(CONFIG_MAPS, data("a"), namespace=namespace)
        with pytest.raises(Conflict, match="the UID in the precondition"):
            await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid="other")
        with pytest.raises(Conflict, match="the ResourceVersion in the precondition"):
            await client.delete(CONFIG_MAPS, "a", namespace=namespace, resource_version="1")
        await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid=made.metadata.uid)
        with pytest.raises(NotFound, match=f'delete configmaps {namespace}/a: configmaps "a" not found'):
            await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid=made.metadata.uid)


@within(LIMIT_S)
async def test_what_the_api_server_refuses_is_told_in_its_words(control_plane: ControlPlane, namespace: str) -> None:
    async with client_for(control_plane, "alice") as alice:
        with pytest.raises(Refused, match='User "alice" cannot create resource "pods"') as forbidden:
            await alice.create(PODS, pod("a"), namespace=namespace)
        assert (forbidden.value.status, forbidden.value.reason) == (403, "Forbidden")
    async with client_for(control_plane) as client:
        with pytest.raises(Refused, match="Invalid value") as invalid:
            await client.create(PODS, pod("Not A Name"), namespace=namespace)
        assert (invalid.value.status, invalid.value.reason) == (422, "Invalid")
        with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
            await client.create(PODS, pod("a"), namespace="nowhere")


@within(LIMIT_S)
async def test_a_replaced_object_must_not_have_changed_meanwhile(control_plane: ControlPlane, namespace: str) -> None:
    async with client_for(control_plane) as client:
        made = await client.create(CONFIG_MAPS, data("a", x="1"), dict[str, Any], namespace=namespace)
        changed = await client.replace(CONFIG_MAPS, "a", {**made, "data": {"x": "2"}}, Data, namespace=namespace)
        assert changed.data == {"x": "2"}
        with pytest.raises(Conflict, match="the object has been modified"):
            await client.replace(CONFIG_MAPS, "a", {**made, "data": {"x": "3"}}, Data, namespace=namespace)


@within(LIMIT_S)
async def test_the_three_kinds_of_patches(control_plane: ControlPlane, namespace: str) -> None:
    async with client_for(control_plane) as client:
        await client.create(PODS, pod("a", schedulerName="none"), namespace=namespace)
        labels = {"metadata": {"labels": {"app": None, "merged": "1"}}}
        merged = await client.patch(PODS, "a", labels, BoundPod, namespace=namespace)
        assert merged.metadata.labels == {"merged": "1"}
        operations = [{"op": "add", "path": "/metadata/labels/by-json", "value": "2"}]
        by_json = await client.patch(PODS, "a", operations, BoundPod, namespace=namespace, kind=Patch.JSON)
        assert by_json.metadata.labels == {"merged": "1", "by-json": "2"}
        conditions = {
            "status": {"conditions": [{"type": "fairpool.io/Waits", "status": "True", "message": "for a GPU"}]}
        }
        strategic = await client.patch(
            PODS, "a", conditions, dict[str, Any], namespace=namespace, subresource="status", kind=Patch.STRATEGIC
        )
        assert [each["type"] for each in strategic["status"]["conditions"]] == ["fairpool.io/Waits"]
        other = {"metadata": {"uid": "other", "labels": {"merged": "2"}}}
        with pytest.raises(Refused, match="Invalid value"):
            await client.patch(PODS, "a", other, namespace=namespace)
        old = {"metadata": {"resourceVersion": "1", "labels": {"merged": "2"}}}
        with pytest.raises(Conflict, match="the object has been modified"):
            await client.patch(PODS, "a", old, namespace=namespace)


@within(LIMIT_S)
async def test_server_side_apply_creates_and_owns_its_fields(control_plane: ControlPlane, namespace: str) -> None:
    async with client_for(control_plane) as client:
        made = await client.apply(CONFIG_MAPS, "a", data("a", ours="1"), Data, namespace=namespace)
        assert made.data == {"ours": "1"}
        assert await client.apply(CONFIG_MAPS, "a", data("a", ours="1"), Data, namespace=namespace) == made
        await client.raw(
            "PATCH",
            CONFIG_MAPS.path(namespace, "a") + "?fieldManager=another",
            json.dumps(data("a", theirs="2")).encode(),
            "application/apply-patch+yaml",
        )
        both = await client.apply(CONFIG_MAPS, "a", data("a", ours="3"), Data, namespace=namespace)
        assert both.data == {"ours": "3", "theirs": "2"}
        with pytest.raises(Conflict, match='conflict with "another"'):
            await client.apply(CONFIG_MAPS, "a", data("a", theirs="4"), Data, namespace=namespace, force=False)
        forced = await client.apply(CONFIG_MAPS, "a", data("a", theirs="4"), Data, namespace=namespace)
        assert forced.data == {"theirs": "4"}, "what we no longer name is removed"


@within(LIMIT_S)
async def test_lists_in_pages_with_selectors(control_plane: ControlPlane, namespace: str) -> None:
    async with client_for(control_plane) as client:
        bodies = [data(f"n{number:02}", {"half": str(number % 2)}) for number in range(25)]
        await asyncio.gather(*(client.create(CONFIG_MAPS, each, namespace=namespace) for each in bodies))
        found = await client.list(CONFIG_MAPS, Data, namespace=namespace, labels="half", page=10)
        assert [each.metadata.name for each in found.items] == [f"n{number:02}" for number in range(25)]
        assert int(found.resource_version) >= max(int(each.metadata.resource_version) for each in found.items)
        odd = await client.list(CONFIG_MAPS, Object, namespace=namespace, labels="half=1", page=5)
        assert len(odd.items) == 12
        one = await client.list(CONFIG_MAPS, Object, fields=f"metadata.namespace={namespace},metadata.name=n07")
        assert [each.metadata.name for each in one.items] == ["n07"]
        await client.delete_all(CONFIG_MAPS, namespace=namespace, labels="half=1", propagation=Propagation.BACKGROUND)
        left = await client.list(CONFIG_MAPS, Object, namespace=namespace, labels="half")
        assert len(left.items) == 13


@within(LIMIT_S)
async def test_a_pod_is_bound_once_and_only_without_gates(control_plane: ControlPlane, namespace: str) -> None:
    with fake_nodes(control_plane, 1, prefix="client-bind") as nodes:
        async with client_for(control_plane) as client:
            made = await client.create(PODS, pod("a", schedulerName="none"), namespace=namespace)
            with pytest.raises(Conflict):
                await client.bind("a", nodes[0], namespace=namespace, uid="other")
            await client.bind("a", nodes[0], namespace=namespace, uid=made.metadata.uid)
            assert (await client.get(PODS, "a", BoundPod, namespace=namespace)).spec.node_name == nodes[0]
            with pytest.raises(Conflict, match="already assigned to node"):
                await client.bind("a", nodes[0], namespace=namespace)
            gates = [{"name": "fairpool.io/decision"}]
            await client.create(PODS, pod("gated", schedulerName="none", schedulingGates=gates), namespace=namespace)
            with pytest.raises(Conflict, match="schedulingGates"):
                await client.bind("gated", nodes[0], namespace=namespace)


@within(LIMIT_S)
async def test_a_deleted_pod_stays_until_its_grace_period_is_over(control_plane: ControlPlane, namespace: str) -> None:
    with fake_nodes(control_plane, 1, prefix="client-grace") as nodes:
        async with client_for(control_plane) as client:
            made = await client.create(PODS, pod("a", nodeName=nodes[0]), namespace=namespace)
            await client.delete(PODS, "a", namespace=namespace, uid=made.metadata.uid, grace_s=300)
            leaving = await client.get(PODS, "a", dict[str, Any], namespace=namespace)
            assert leaving["metadata"]["deletionGracePeriodSeconds"] == 300
            await client.delete(PODS, "a", namespace=namespace, uid=made.metadata.uid, grace_s=0)
            with pytest.raises(NotFound):
                await client.get(PODS, "a", Object, namespace=namespace)


@within(LIMIT_S)
async def test_an_eviction_respects_the_disruption_budget(control_plane: ControlPlane, namespace: str) -> None:
    with fake_nodes(control_plane, 1, prefix="client-evict") as nodes:
        async with client_for(control_plane) as client:
            made = await client.create(PODS, pod("a", nodeName=nodes[0]), namespace=namespace)
            running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
            await client.patch(PODS, "a", running, namespace=namespace, subresource="status")
            budget = {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}}
            await client.create(DISRUPTION_BUDGETS, budget, namespace=namespace)
            with pytest.raises(TooManyRequests, match="disruption budget"):
                await client.evict("a", namespace=namespace, uid=made.metadata.uid)
            await client.delete(DISRUPTION_BUDGETS, "a", namespace=namespace)
            with pytest.raises(Conflict):
                await client.evict("a", namespace=namespace, uid="other")
            await client.evict("a", namespace=namespace, uid=made.metadata.uid, grace_s=300)
            leaving = await client.get(PODS, "a", dict[str, Any], namespace=namespace)
            assert leaving["metadata"]["deletionGracePeriodSeconds"] == 300


# --- watches ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def watched_in(client: KubernetesClient, namespace: str) -> AsyncIterator[WatchedObjects[Data]]:
    """The config maps of a namespace that have the label of these tests."""
    scope = WatchScope(namespace=namespace, labels="watched")
    watched = WatchedObjects(client, CONFIG_MAPS, Data, scope, silence_s=20.0, page=3)
    await watched.is_complete.wait()
    try:
        yield watched
    finally:
        await watched.stop()


def values(watched: WatchedObjects[Data]) -> dict[str, str]:
    return {name: (each.data or {}).get("x", "") for name, each in watched.objects.items()}


WATCHED = {"watched": "yes"}


@within(LIMIT_S)
async def test_a_watch_follows_creation_change_and_deletion(control_plane: ControlPlane, namespace: str) -> None:
    async with client_for(control_plane) as client:
        for number in range(7):
            await client.create(CONFIG_MAPS, data(f"n{number}", WATCHED, x="0"), namespace=namespace)
        async with watched_in(client, namespace) as watched:
            assert values(watched) == {f"n{number}": "0" for number in range(7)}
            await client.create(CONFIG_MAPS, data("new", WATCHED, x="1"), namespace=namespace)
            await client.create(CONFIG_MAPS, data("unwatched"), namespace=namespace)
            last = await client.patch(CONFIG_MAPS, "n0", {"data": {"x": "2"}}, namespace=namespace)
            await until(lambda: watched.position >= int(last.metadata.resource_version))
            assert values(watched) == {f"n{number}": "0" for number in range(1, 7)} | {"n0": "2", "new": "1"}
            await client.delete_all(CONFIG_MAPS, namespace=namespace, labels="watched")
            await until(lambda: not watched.objects)
            assert watched.failure is None


@within(LIMIT_S)
async def test_a_label_that_no_longer_matches_is_a_deletion(control_plane: ControlPlane, namespace: str) -> None:
    async with client_for(control_plane) as client:
        await client.create(CONFIG_MAPS, data("a", WATCHED), namespace=namespace)
        async with watched_in(client, namespace) as watched:
            await client.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"watched": None}}}, namespace=namespace)
            await until(lambda: not watched.objects)


@within(180.0)
async def test_a_watch_survives_an_api_server_and_an_etcd_that_are_killed(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with client_for(control_plane) as client:
        for name in ("kept", "deleted"):
            await client.create(CONFIG_MAPS, data(name, WATCHED, x="0"), namespace=namespace)
        async with watched_in(client, namespace) as watched:
            await asyncio.to_thread(control_plane.api_server.restart)
            await client.delete(CONFIG_MAPS, "deleted", namespace=namespace)
            await client.create(CONFIG_MAPS, data("new", WATCHED, x="1"), namespace=namespace)
            await until(lambda: values(watched) == {"kept": "0", "new": "1"})
            await asyncio.to_thread(control_plane.etcd.restart)
            await client.apply(CONFIG_MAPS, "kept", data("kept", WATCHED, x="2"), Data, namespace=namespace)
            await until(lambda: values(watched) == {"kept": "2", "new": "1"})
            await until(lambda: watched.failure is None)


@within(LIMIT_S)
async def test_a_watch_from_an_old_version_has_expired(control_plane: ControlPlane, namespace: str) -> None:
    async with client_for(control_plane) as client:
        with pytest.raises(Gone):
            async for _ in watch_module._followed(client, CONFIG_MAPS, Data, EVERYTHING, "1", 5.0):
                pass


@within(LIMIT_S)
async def test_bookmarks_move_a_watch_on_in_which_nothing_happens(
    control_plane: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server sends one shortly before it ends a watch."""
    monkeypatch.setattr(watch_module, "WATCH_S", (4, 4))
    async with client_for(control_plane) as client, watched_in(client, namespace) as watched:
        elsewhere = await client.create(CONFIG_MAPS, data("unwatched"), namespace=namespace)
        await until(lambda: watched.position >= int(elsewhere.metadata.resource_version))
        assert watched.objects == {}


# --- ways to authenticate ---------------------------------------------------------------------------------------------


def with_user(plane: ControlPlane, folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    """A kubeconfig of another user, or with other settings of the cluster."""
    content = json.loads(plane.kubeconfig().read_text())
    content["users"][0]["user"] = user
    content["clusters"][0]["cluster"] |= cluster
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


async def who_am_i(client: KubernetesClient) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await client.raw("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", json.dumps(body).encode())
    return str(json.loads(answer)["status"]["userInfo"]["username"])


@within(LIMIT_S)
async def test_a_client_certificate_is_accepted(control_plane: ControlPlane, tmp_path: Path) -> None:
    certificate, key = control_plane.authority.sign("carol", user="carol", group="researchers")
    files = {"client-certificate": certificate, "client-key": key}
    user = {f"{name}-data": base64.b64encode(Path(path).read_bytes()).decode() for name, path in files.items()}
    async with KubernetesClient(read_kubeconfig([with_user(control_plane, tmp_path, user)])) as client:
        assert await who_am_i(client) == "carol"


@within(LIMIT_S)
async def test_impersonation_is_accepted(control_plane: ControlPlane, tmp_path: Path) -> None:
    user = {"token": control_plane.tokens[ADMIN], "as": "dave", "as-groups": ["a", "b"]}
    async with KubernetesClient(read_kubeconfig([with_user(control_plane, tmp_path, user)])) as client:
        assert await who_am_i(client) == "dave"


@within(LIMIT_S)
async def test_a_token_of_an_exec_plugin_that_is_rejected_is_asked_for_again(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("expired-meanwhile")
    plugin = tmp_path / "plugin"
    answer = {"apiVersion": exec_plugin.VERSIONS[0], "kind": "ExecCredential", "status": {"token": "@"}}
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}' | sed \"s/@/$(cat {token})/\"\n")
    plugin.chmod(0o755)
    user = {"exec": {"command": str(plugin), "apiVersion": exec_plugin.VERSIONS[0]}}
    async with KubernetesClient(read_kubeconfig([with_user(control_plane, tmp_path, user)])) as client:
        with pytest.raises(Refused) as failure:
            await who_am_i(client)
        assert failure.value.status == 401
        token.write_text(control_plane.tokens["alice"])
        monkeypatch.setattr(exec_plugin, "REPEAT_S", 0.0)
        assert await who_am_i(client) == "alice"


@within(LIMIT_S)
async def test_a_service_account_acts_with_its_roles_and_its_token_is_rotated(
    control_plane: ControlPlane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials_module, "REREAD_S", 0.0)
    host, port = control_plane.address.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    (tmp_path / "ca.crt").write_bytes(control_plane.ca.read_bytes())
    (tmp_path / "namespace").write_text(namespace)
    async with client_for(control_plane) as admin:
        for name in ("one", "two"):
            await admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, namespace=namespace)
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        subject = {"kind": "ServiceAccount", "name": "one", "namespace": namespace}
        binding = {"metadata": {"name": "views"}, "roleRef": role, "subjects": [subject]}
        await admin.create(ROLE_BINDINGS, binding, namespace=namespace)
        (tmp_path / "token").write_text(await account_token(admin, namespace, "one"))
        server = in_cluster(tmp_path)
        assert server is not None
        async with KubernetesClient(server) as client:
            assert await who_am_i(client) == f"system:serviceaccount:{namespace}:one"
            assert (await client.list(PODS, Object, namespace=client.namespace)).items == []
            with pytest.raises(Refused, match="cannot list resource"):
                await client.list(NAMESPACES, Object)
            (tmp_path / "token").write_text(await account_token(admin, namespace, "two"))
            assert await who_am_i(client) == f"system:serviceaccount:{namespace}:two"


async def account_token(client: KubernetesClient, namespace: str, account: str) -> str:
    answer = await client.create(
        SERVICE_ACCOUNTS,
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}},
        dict[str, Any],
        namespace=namespace,
        name=account,
        subresource="token",
    )
    return str(answer["status"]["token"])


@within(LIMIT_S)
async def test_the_servers_certificate_is_checked(control_plane: ControlPlane, tmp_path: Path) -> None:
    user = {"token": control_plane.tokens[ADMIN]}
    named = with_user(control_plane, tmp_path, user, **{"tls-server-name": "kubernetes.default"})
    async with KubernetesClient(read_kubeconfig([named])) as client:
        assert await who_am_i(client) == ADMIN
    misnamed = with_user(control_plane, tmp_path, user, **{"tls-server-name": "elsewhere.example"})
    async with KubernetesClient(read_kubeconfig([misnamed])) as client:
        with pytest.raises(
            BadConfiguration, match=r"certificate of the Kubernetes API server is not accepted: .*elsewhere"
        ):
            await who_am_i(client)
    unknown = with_user(control_plane, tmp_path, user, **{"certificate-authority": ""})
    async with KubernetesClient(read_kubeconfig([unknown])) as client:
        with pytest.raises(BadConfiguration, match="certificate of the Kubernetes API server is not accepted"):
            await who_am_i(client)
    insecure = {"certificate-authority": "", "insecure-skip-tls-verify": True}
    unchecked = with_user(control_plane, tmp_path, user, **insecure)
    async with KubernetesClient(read_kubeconfig([unchecked])) as client:
        assert await who_am_i(client) == ADMIN
