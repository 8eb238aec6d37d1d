"""Which silent nodes are gone by the lease of their agent, when an agent kills pods, and whose a process is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from socket import socket
from typing import Any, cast

import pytest

from fairpool.agent.kubernetes_cgroups import pod_uid_in
from fairpool.agent.lease_fence import LeaseFence
from fairpool.engines.kubernetes.failures import Refused
from fairpool.engines.kubernetes.node_lease_poll import LeaseObject, LeaseSpec, read_leases
from fairpool.engines.kubernetes.node_leases import AgentLease, NodeLeases, lease_name
from fairpool.engines.kubernetes.resources import ObjectMetadata
from fairpool.model.ids import Instant, NodeName
from fairpool.platform.leader_election import steady_s
from fairpool.platform.node_agent import NodeAgent, NodeAgentOptions
from tests.kubernetes.event_loop import within

NODE = NodeName("n1")
NOON = 1_800_000_000_000
UID = "0b8c2d1e-1111-4222-8333-0123456789ab"
OTHER = "ffffffff-1111-4222-8333-0123456789ab"


def lease(renewed_s: float = 0, fences_after_s: int = 240, clock_off_s: float = 0) -> dict[NodeName, AgentLease]:
    at = Instant(round(NOON + (renewed_s + clock_off_s) * 1000))
    return {NODE: AgentLease(renewed=str(at), renewed_at=at, fences_after_s=fences_after_s)}


def silent(since_s: float = 40) -> dict[NodeName, Instant]:
    return {NODE: Instant(round(NOON + since_s * 1000))}


def history(*, renewed_until_s: int, silent_from_s: int, until_s: int, **more: float) -> float | None:
    """When the node counts as gone. Looks every 15 s, from the beginning of a loop that had led before."""
    leases = NodeLeases(300)
    for now in range(-60, until_s, 5):
        if now % 15 == 0:
            leases.look(lease(min(now, renewed_until_s), clock_off_s=more.get("clock_off_s", 0)), now)
        if leases.gone(silent(silent_from_s) if now >= silent_from_s else {}, now):
            return now
    return None


@pytest.mark.parametrize("clock_off_s", [0, -7200, 7200], ids=["same clocks", "slow by hours", "fast by hours"])
def test_a_node_that_is_cut_off_is_gone_after_its_agent_has_ended_its_pods(clock_off_s: float) -> None:
    gone = history(renewed_until_s=0, silent_from_s=45, until_s=1000, clock_off_s=clock_off_s)
    assert gone is not None
    assert 300 <= gone <= 330


def test_a_node_is_not_gone_while_an_agent_waits_that_was_refused_until_it_was_cut_off() -> None:
    """Its lease is older than the last answer that it got, from which it counts."""
    gone = history(renewed_until_s=0, silent_from_s=115, until_s=1000)
    assert gone is not None
    assert gone >= 115 + 240


@pytest.mark.parametrize(
    ("renewed_until_s", "silent_from_s"),
    [
        pytest.param(0, 5000, id="the kubelet responds: nothing is known about a node without its agent"),
        pytest.param(0, 200, id="the agent had stopped before: nothing ends pods there"),
        pytest.param(700, 45, id="the agent was there long after the kubelet: no kubelet restarts it"),
        pytest.param(4000, 45, id="the agent is there, only the kubelet is silent"),
    ],
)
def test_a_node_stays_silent_where_its_lease_is_no_evidence(renewed_until_s: int, silent_from_s: int) -> None:
    assert history(renewed_until_s=renewed_until_s, silent_from_s=silent_from_s, until_s=3000) is None


def test_a_node_without_an_agent_is_only_silent() -> None:
    leases = NodeLeases(300)
    for now in range(0, 3000, 15):
        leases.look({}, now)
        assert not leases.gone(silent(), now)


@pytest.mark.parametrize(
    ("clock_off_s", "is_gone"),
    [
        pytest.param(0, True, id="fell silent together, by their clocks"),
        pytest.param(-86_400, False, id="a lease of yesterday"),
        pytest.param(3600, False, id="clocks are off: an administrator has to say so"),
    ],
)
def test_a_loop_that_begins_when_the_node_is_silent_already_counts_from_there(
    clock_off_s: float, is_gone: bool
) -> None:
    leases = NodeLeases(300)
    leases.look(lease(clock_off_s=clock_off_s), 1000.0)
    assert not leases.gone(silent(), 1000.0)
    leases.look(lease(clock_off_s=clock_off_s), 1299.0)
    assert not leases.gone(silent(), 1299.0)
    leases.look(lease(clock_off_s=clock_off_s), 1300.0)
    assert leases.gone(silent(), 1300.0) == (frozenset({NODE}) if is_gone else frozenset())


def test_a_silent_node_is_not_gone_before_a_patient_agent_has_ended_its_pods() -> None:
    leases = NodeLeases(300)
    for now, is_gone in ((0.0, False), (1499.0, False), (1500.0, True)):
        leases.look(lease(fences_after_s=1200), now)
        assert bool(leases.gone(silent(), now)) is is_gone


def test_a_renewal_ends_it_and_a_kubelet_that_responds_too() -> None:
    leases = NodeLeases(300)
    leases.look(lease(), 0.0)
    leases.gone(silent(), 0.0)
    leases.look(lease(), 400.0)
    assert leases.gone(silent(), 400.0)
    assert not leases.gone({}, 400.0)
    leases.look(lease(renewed_s=400), 415.0)
    assert not leases.gone(silent(), 415.0)


def test_a_lease_counts_only_under_the_name_of_its_holder() -> None:
    def written(name: str, holder: str, renewed: str = "2026-11-18T08:00:00.000000Z") -> LeaseObject:
        return LeaseObject(ObjectMetadata(name=name), LeaseSpec(holder, 240, renewed))

    found = read_leases([written(lease_name("n1"), "n1"), written(lease_name("n2"), "n3"), written("n4", "n4")])
    assert list(found) == ["n1"]
    (broken,) = read_leases([written(lease_name("n1"), "n1", "soon")]).values()
    assert broken.renewed_at is None


# --- the agent


def test_pods_are_ended_when_the_api_server_has_not_answered_for_long_enough() -> None:
    fence = LeaseFence(fence_after_s=240).listed(frozenset({"a", "b"})).renewed(1000.0)
    assert not fence.look(1239.0).fenced
    cut_off = fence.look(1240.0)
    assert cut_off.fenced == {"a", "b"}
    assert cut_off.look(1241.0) is cut_off


def test_an_agent_that_never_renewed_its_lease_ends_nothing() -> None:
    fence = LeaseFence(fence_after_s=240).listed(frozenset({"a"})).refused(10.0)
    assert not fence.look(1e9).fenced


def test_an_api_server_that_refuses_is_not_away() -> None:
    fence = LeaseFence(fence_after_s=240).listed(frozenset({"a"})).renewed(0.0)
    for now in range(10, 5000, 10):
        fence = fence.refused(float(now)).look(float(now))
    assert not fence.fenced


class RefusingClient:
    """Of an API server that does not know the token of the agent any more."""

    async def raw(self, method: str, target: str) -> bytes:
        raise Refused(f"{method} {target}", 401, "Unauthorized", "Unauthorized")

    async def apply(self, *_: object, **__: object) -> object:
        raise AssertionError("a lease is not renewed while the pods of the node are not known")


@within(10)
async def test_an_agent_whose_token_is_refused_everywhere_kills_nothing(tmp_path: Path) -> None:
    options = NodeAgentOptions(
        server=cast(Any, None), namespace="runai", node=NODE, renew_s=0.01, fence_after_s=240, state=tmp_path
    )
    with socket() as health:
        agent = NodeAgent(options, health)
        long_ago = LeaseFence(fence_after_s=240).listed(frozenset({"a"})).renewed(steady_s() - 200)
        agent._fence = long_ago
        agent._is_listed.set()
        renewing = asyncio.create_task(agent._keep_lease(cast(Any, RefusingClient()), lambda: None))
        while agent._fence == long_ago and not renewing.done():
            await asyncio.sleep(0.001)
        renewing.cancel()
        assert not agent._fence.look(steady_s() + 200).fenced


def test_what_was_ended_stays_so_until_its_object_is_gone() -> None:
    back = LeaseFence(fence_after_s=240).listed(frozenset({"a", "b"})).renewed(0.0).look(240.0).renewed(300.0)
    assert back.look(301.0).fenced == {"a", "b"}
    assert back.listed(frozenset({"b", "new"})).look(301.0).fenced == {"b"}


# --- whose a process is


@pytest.mark.parametrize(
    ("path", "uid"),
    [
        (f"/kubepods/pod{UID}/4f1c", UID),
        (f"/kubepods/burstable/pod{UID}/4f1c", UID),
        (f"/fairpool-tests-1-node-1/kubepods/besteffort/pod{UID}", UID),
        (f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-4f1c.scope", UID),
        (f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice/crio-4f", UID),
        (f"/../../pod{UID}/4f1c", UID),
        (f"/../cri-containerd-4f1c.scope/pod{UID}x", ""),
        (f"/kubepods/burstable/pod{UID}/4f1c/pod{OTHER}/x", UID),
        ("/system.slice/kubelet.service", ""),
        ("/", ""),
    ],
)
def test_the_outermost_group_of_a_pod_says_whose_a_process_is(path: str, uid: str) -> None:
    assert pod_uid_in(path) == uid
