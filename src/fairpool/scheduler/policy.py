"""The policy: every choice of the scheduler that can be made otherwise, as data.

Two ready-made policies exist. `Policy.product()` is what Fairpool runs with. `Policy.reference()` takes the decisions
of the reference scheduler, oddities included, and exists so that conformance can be shown; it never runs in production.
Both go through the same code: a difference between them is a field of this class, and the comment beside the field
names the oddity (B1 to B22 in docs/scheduling-rules.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from fairpool.model.precedence import KIND_RULES, MIG_SLICES_PER_GPU, KindRule, precedence
from fairpool.model.workload import PodShape, WorkloadKind


class Pass(StrEnum):
    """The passes of a cycle, in their usual order."""

    ALLOCATE = "allocate"
    CONSOLIDATE = "consolidate"
    RECLAIM = "reclaim"
    PREEMPT = "preempt"
    STALE = "stale"


ALL_PASSES = (Pass.ALLOCATE, Pass.CONSOLIDATE, Pass.RECLAIM, Pass.PREEMPT, Pass.STALE)


class DeviceChoice(StrEnum):
    """Which shared device a portion goes to."""

    PACK = "pack"
    """The fullest that has room, a fresh device last."""
    SPREAD = "spread"
    """A fresh device first, then the emptiest."""
    ANY = "any"
    FRAGMENTATION = "fragmentation"
    """Whichever leaves most that typical requests can use, then the fullest."""


class ScoreTerm(StrEnum):
    """What counts when nodes are compared; see `score.py`."""

    NOMINATED = "nominated"
    TOPOLOGY = "topology"
    PREFERENCES = "preferences"
    SHARING = "sharing"
    AVAILABILITY = "availability"
    RESOURCE_TYPE = "resource type"
    SOFT_TAINTS = "soft taints"
    PLACEMENT = "placement"


class RuntimeScope(StrEnum):
    """Whose minimum runtime protects a victim of reclaim."""

    COMMON_ANCESTOR = "lca"
    """That of the victim's side just below the lowest common ancestor, and upwards."""
    QUEUE = "queue"
    """That of the victim's own queue, and upwards."""


@dataclass(frozen=True, slots=True)
class TypicalShape:
    """A request that is common, and how common compared with the others; see `fragments.py`."""

    shape: PodShape
    weight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How to decide. The defaults are the product's."""

    passes: tuple[Pass, ...] = ALL_PASSES
    kinds: Mapping[WorkloadKind, KindRule] = field(default_factory=lambda: KIND_RULES)

    # Placement
    device_choice: DeviceChoice | None = None
    """None: as the pool places GPUs."""
    typical: tuple[TypicalShape, ...] = ()
    """For pools that avoid fragmentation. Empty: the shapes of the pods in the snapshot, each as often as it occurs."""
    score_terms: frozenset[ScoreTerm] = frozenset(ScoreTerm)
    pack_partial_devices: bool = True  # B10: free parts of shared devices count in pack and spread
    predicates: bool = True  # off: only amounts decide where a pod fits
    topology: bool = True

    # Amounts
    portion_step_milli: int = 1  # B21: the reference rounds portions to hundredths
    device_memory_step_mib: int = 1  # B21: the reference floors device memory to hundreds
    smallest_device_mib: int | None = None  # B1: the reference always takes 100
    charge_memory_at_gate: bool = True  # B6: gpu-memory requests count before a node is known
    charge_all_devices_per_node: bool = True  # B6: the check per node counts every device
    mig_slices_per_gpu: int = MIG_SLICES_PER_GPU  # B18: one 3g instance is 3/7 of a GPU; the reference counts 3

    best_effort_need_not_wait: bool = False  # the reference binds pods that ask for next to nothing to what is leaving
    domains_by_largest_pod: bool = False  # the reference asks a topology domain for copies of the largest pod

    # Order
    fair_order: bool = True  # off: queues go by age
    priority_order: bool = True
    elastic_order: bool = True
    pod_order: bool = True  # leaders and numbered pods first
    over_share_by_requested: bool = True  # B4: over its share in one resource that matters, not in all three
    groups_per_queue: Mapping[Pass, int] = field(default_factory=lambda: MappingProxyType({}))

    # Sharing
    usage_factor: float = 1.0  # k: how strongly past use bends the division of what is idle
    tier_remainders_first: bool = True  # B2: remainders of a tier stay in the tier
    saturation_multiplier: float = 1.0

    # Taking
    max_moved_groups: int | None = 16  # of one consolidation; None: unbounded, 0: never
    sort_before_bounding: bool = True  # B7: the reference admits one more, before sorting
    consolidate_only_packed: bool = True  # what is spread on purpose is not moved together
    moves_in_reclaim_are_free: bool = True
    promised_portions_twice: bool = False  # the reference subtracts them once as used and once from what is released
    whole_gang_restarts: bool = True
    recheck_readiness: bool = True
    victims_keep_devices: bool = True  # a sharer that stays on its node stays on its devices
    cpu_pods_join_shared: bool = False  # the reference sends pods without GPU to nodes whose GPUs are shared
    near_what_stays: bool = True  # a pod that leaves is no neighbour to be near to
    withdraw_unstarted: bool = True  # taking back what this plan gave is no eviction
    winners_keep: bool = True  # what was taken for a group is not taken from it in the same plan
    place_before_taking: bool = True  # no pod is evicted where a place is free
    durable_promises: bool = True  # B22
    promise_lifetime_s: int = 600
    default_preempt_min_runtime_s: int = 0
    default_reclaim_min_runtime_s: int = 0
    reclaim_runtime_scope: RuntimeScope = RuntimeScope.COMMON_ANCESTOR
    count_only_evicted: bool = True  # B8
    stale_grace_s: int = 60  # negative: never

    @classmethod
    def product(cls) -> Policy:
        """What Fairpool runs with."""
        return cls()

    @classmethod
    def reference(cls) -> Policy:
        """Parity with the reference scheduler, for conformance only."""
        return cls(
            score_terms=frozenset(ScoreTerm) - {ScoreTerm.PREFERENCES, ScoreTerm.SOFT_TAINTS},  # B17
            pack_partial_devices=False,
            portion_step_milli=10,
            device_memory_step_mib=100,
            smallest_device_mib=100,
            charge_memory_at_gate=False,
            charge_all_devices_per_node=False,
            mig_slices_per_gpu=1,
            best_effort_need_not_wait=True,
            domains_by_largest_pod=True,
            over_share_by_requested=False,
            tier_remainders_first=False,
            sort_before_bounding=False,
            consolidate_only_packed=False,
            promised_portions_twice=True,
            whole_gang_restarts=False,
            recheck_readiness=False,
            victims_keep_devices=False,
            cpu_pods_join_shared=True,
            near_what_stays=False,
            withdraw_unstarted=False,
            winners_keep=False,
            place_before_taking=False,
            durable_promises=False,
            count_only_evicted=False,
            max_moved_groups=None,
        )

    def rule_for(self, kind: WorkloadKind, priority: int | None, preemptible: bool | None) -> KindRule:
        """Priority and preemptibility of a group, as declared or implied by its kind."""
        return precedence(kind, priority, preemptible, self.kinds)
