"""Device claims: no pod gets a device before it is free, and a failed try costs no pod its devices."""

from __future__ import annotations

from fairpool.model.ids import ClaimId, GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.workload import Claim, Pod, PodGroup, PodSet, PodShape, SubGroup
from fairpool.scheduler.plan import plan
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.validation import check

NOW = Instant(1_800_000_000_000)
N1 = NodeName("n1")
TEAM = QueueId("team")


def claim(name: str, *devices: str, of: int = 1) -> Claim:
    """A claim of a pod's own, allocated on n1 if devices are named."""
    return Claim(
        id=ClaimId(name), devices=of, from_template=True, node=N1 if devices else None, allocated=tuple(devices)
    )


def pod(group: str, uses: str, phase: PodPhase = PodPhase.WAITING, number: int = 0) -> Pod:
    return Pod(
        id=PodId(f"{group}-{number}"),
        group=GroupId(group),
        shape=PodShape(cpu_milli=100),
        phase=phase,
        node=None if phase is PodPhase.WAITING else N1,
        claims=(ClaimId(uses),),
        promised_at=NOW if phase is PodPhase.PROMISED else None,
    )


def world(devices: tuple[str, ...], claims: list[Claim], pods: list[Pod], priority: dict[str, int]) -> Snapshot:
    groups = sorted({each.group for each in pods})
    return Snapshot(
        now=NOW,
        nodes=(Node(name=N1, cpu_milli=64_000, memory_bytes=2**36, claim_devices=devices),),
        queues=(Queue(id=TEAM, gpu=Entitlement()),),
        groups=tuple(
            PodGroup(
                id=name,
                queue=TEAM,
                created_at=Instant(number),
                priority=priority.get(name, 50),
                tree=SubGroup(pod_sets=(PodSet(minimum=sum(each.group == name for each in pods)),)),
            )
            for number, name in enumerate(groups)
        ),
        pods=tuple(pods),
        claims=tuple(claims),
    )


def test_a_device_is_bound_only_when_its_user_has_left() -> None:
    pods = [pod("low", "c1", PodPhase.RUNNING), pod("high", "c2")]
    decided = plan(world(("d0",), [claim("c1", "d0"), claim("c2")], pods, {"high": 60}))
    assert [each.pod for each in decided.evictions] == ["low-0"]
    assert [each.pod for each in decided.promises] == ["high-0"]
    assert not decided.binds


def test_a_promise_of_a_device_is_kept_while_its_user_leaves() -> None:
    pods = [
        pod("low", "c1", PodPhase.RELEASING),
        pod("other", "c3", PodPhase.RUNNING),
        pod("high", "c2", PodPhase.PROMISED),
    ]
    claims = [claim("c1", "d0"), claim("c2"), claim("c3", "d1")]
    decided = plan(world(("d0", "d1"), claims, pods, {"high": 60}))
    assert [each.pod for each in decided.promises] == ["high-0"]
    assert not decided.evictions
    assert not decided.binds


def test_what_was_tried_in_vain_leaves_claims_as_they_were() -> None:
    """The gang uses c1, which has d0 and no other user, and does not fit; d0 is still not to be had."""
    pods = [pod("a-gang", "c1"), pod("a-gang", "c2", number=1), pod("x", "c3")]
    claims = [claim("c1", "d0"), claim("c2"), claim("c3")]
    assert not plan(world(("d0",), claims, pods, {"a-gang": 60})).binds


def test_an_impossible_claim_is_told_and_its_pods_wait() -> None:
    rows = world(("d0",), [claim("c1", of=-5)], [pod("x", "c1")], {})
    assert [each.code for each in check(rows)] == ["claim.amounts"]
    assert not plan(rows).binds


def test_one_device_in_two_claims_is_told() -> None:
    rows = world(("d0",), [claim("c1", "d0"), claim("c2", "d0")], [pod("x", "c1")], {})
    assert "claim.overcommitted" in [each.code for each in check(rows)]
