"""What cannot be watched any more is not relied on; and what a refused call says about a pod."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.cluster_cache import ClusterCache
from fairpool.engines.kubernetes.cluster_watch import ClusterWatch
from fairpool.engines.kubernetes.failures import Conflict, NotFound, Refused
from fairpool.engines.kubernetes.fence import Fence
from fairpool.engines.kubernetes.object_mirror import ObjectMirror
from fairpool.engines.kubernetes.pod_refusals import PodIdentity, take_refusal
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.resources import INGRESSES, SERVICES
from fairpool.engines.port import EngineUnreachable
from fairpool.model.ids import Token
from tests.contracts.harness import start_order
from tests.kubernetes.event_loop import within
from tests.kubernetes.faulty_server import FaultyAnswer, SeenRequest, client_of, listing
from tests.kubernetes.test_cluster_cache import SIGNER, node, pod

pytestmark = pytest.mark.slow

LIMIT_S = 20.0
STALE_S = 0.3


class Rights:
    """An API server that refuses some resources while it answers everything else."""

    def __init__(self) -> None:
        self.refused: dict[str, int] = {}
        """The last part of a path, and the status of the answer."""

    async def answer(self, request: SeenRequest, to: FaultyAnswer) -> None:
        resource = request.path.rpartition("/")[2]
        status = self.refused.get(resource)
        if status is not None:
            await to.refuses(status, "not any more")
        elif request.path == "/version":
            await to.says({"gitVersion": "v1.36.3"})
        elif request.is_watch:
            await to.streams()
            while resource not in self.refused:
                await asyncio.sleep(0.01)
            to.is_cut_off()
        else:
            await to.says(listing(10))


async def until(holds: Callable[[], Any]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


async def refusal(call: Callable[[], Awaitable[None]]) -> str:
    """What it raises at last."""
    while True:
        try:
            await call()
        except EngineUnreachable as error:
            return str(error)
        await asyncio.sleep(0.01)


@within(LIMIT_S)
async def test_nothing_is_decided_on_pods_that_cannot_be_watched_and_it_recovers_by_itself() -> None:
    rights = Rights()
    async with client_of(rights.answer) as (client, _server):
        cache = ClusterCache(PodSettings(), SIGNER)
        cache.take_over(Token(1))
        fence = Fence(client, "fairpool")
        watch = ClusterWatch(client, cache, fence, "fairpool", lambda: None, stale_s=STALE_S)
        await watch.start()
        await watch.ready()
        rights.refused = {"pods": 403}
        said = await refusal(watch.ready)
        assert "pods cannot be watched" in said
        assert "not any more (403)" in said
        assert set(watch.problems) == {"pods"}, "the others go on"
        rights.refused = {}
        await until(lambda: not watch.problems)
        await watch.ready()
        await watch.stop()


@within(LIMIT_S)
async def test_a_bug_in_what_takes_in_pods_does_not_end_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    rights, cache = Rights(), ClusterCache(PodSettings(), SIGNER)
    taken, take_pods = [], cache.take_pods

    def take(*given: Any, **named: Any) -> bool:
        taken.append(named)
        if len(taken) == 1:
            raise ValueError("it cannot be read")
        return take_pods(*given, **named)

    monkeypatch.setattr(cache, "take_pods", take)
    async with client_of(rights.answer) as (client, _server):
        cache.take_over(Token(1))
        watch = ClusterWatch(client, cache, Fence(client, "fairpool"), "fairpool", lambda: None)
        await watch.start()
        await watch.ready()
        assert len(taken) == 2
        assert not watch.problems
        await watch.stop()


@within(LIMIT_S)
async def test_objects_of_a_resource_that_cannot_be_watched_are_left_as_they_are() -> None:
    rights = Rights()
    rights.refused = {"ingresses": 404}
    async with client_of(rights.answer) as (client, _server):
        mirror = ObjectMirror(client, lambda: None, stale_s=STALE_S)
        task = asyncio.create_task(mirror.run())
        await until(lambda: SERVICES in mirror.complete)
        await until(lambda: INGRESSES in mirror.failures)
        assert "ingresses cannot be watched" in mirror.failures[INGRESSES]
        rights.refused = {"services": 403}
        await until(lambda: SERVICES not in mirror.complete)
        await until(lambda: INGRESSES in mirror.complete)
        rights.refused = {}
        await until(lambda: SERVICES in mirror.complete and not mirror.failures)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("status", [409, 422])
def test_a_refused_patch_of_a_pod_that_is_there_does_not_make_it_disappear(status: int) -> None:
    @within(LIMIT_S)
    async def play() -> None:
        order = start_order("a", boot_id="b1", devices=(0,))
        known = pod(order)
        there = {"uid": known.metadata.uid}

        async def answer(_request: SeenRequest, to: FaultyAnswer) -> None:
            if not there:
                await to.refuses(404)
                return
            identity = {"name": known.metadata.name, "namespace": known.metadata.namespace, "resourceVersion": "11"}
            await to.says({"metadata": {**identity, **there, "labels": known.metadata.labels}})

        async with client_of(answer) as (client, _server):
            error: Refused = (Conflict if status == 409 else Refused)("patch pods", status, "", "changed")
            assert await _after(client, error, known) == "there"
            there["uid"] = "another"
            assert await _after(client, error, known) == "gone"
            there.clear()
            assert await _after(client, error, known) == "gone"
            assert await _after(client, NotFound("patch pods", 404, "", "none"), known) == "gone"

    play()


async def _after(client: KubernetesClient, error: Refused, known: Any) -> str:
    """What is known of a pod after a call about it was refused."""
    cache = ClusterCache(PodSettings(), SIGNER)
    cache.take_over(Token(1))
    cache.take_nodes([node()], (), is_complete=True)
    cache.take_pods([known], complete_at="10")
    order = start_order("a", boot_id="b1", devices=(0,))
    identity = PodIdentity(known.metadata.namespace, known.metadata.name, known.metadata.uid)
    try:
        await take_refusal(client, cache, identity, error)
    except Refused:
        assert cache.find(order.pod) is not None
        return "there"
    assert cache.find(order.pod) is None
    return "gone"
