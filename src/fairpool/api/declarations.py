"""Declared workloads and organization, as they are sent to clusters.

Pairs travel as lists of two, not as objects: their order is part of the model.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from fairpool.api.message import Since, Wire, renamed
from fairpool.model.array import Array
from fairpool.model.ids import Instant, NodeName, PoolName, QueueId, WorkloadId
from fairpool.model.node import NodePool, Placement, Taint, TaintEffect, Topology
from fairpool.model.organization import (
    DEFAULT_GRACES,
    Entitlement,
    GraceRules,
    NodeOverrides,
    Organization,
    OverQuotaChoice,
    ProjectRules,
    Queue,
)
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI
from fairpool.model.spec import (
    AccessMode,
    Arrangement,
    CleanPodPolicy,
    Dependency,
    DesiredState,
    DistributedRun,
    Exposure,
    Framework,
    GitClone,
    PodTemplate,
    Program,
    PullPolicy,
    RestartPolicy,
    SecretVariable,
    SecurityContext,
    ServicePort,
    Volume,
    WorkloadSpec,
)
from fairpool.model.workload import (
    GpuRequest,
    NodePreference,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    PodAffinityTerm,
    PodShape,
    Toleration,
    TopologyConstraint,
    WorkloadKind,
)

Count = Annotated[int, Field(ge=0)]
Bound = Annotated[int, Field(ge=UNLIMITED)]
Pairs = tuple[tuple[str, str], ...]
Counts = tuple[tuple[str, Count], ...]


class GpuWire(Wire):
    mirrors: ClassVar[Any] = GpuRequest
    devices: Count
    portion_milli: Annotated[int, Field(ge=0, le=WHOLE_GPU_MILLI)]
    memory_mib: Count
    mig: Counts


class NodeSelectorRequirementWire(Wire):
    mirrors: ClassVar[Any] = NodeSelectorRequirement
    key: str
    operator: NodeSelectorOperator
    values: tuple[str, ...]


class NodePreferenceWire(Wire):
    mirrors: ClassVar[Any] = NodePreference
    weight: Count
    requirements: tuple[NodeSelectorRequirementWire, ...]


class DeclaredToleration(Wire):
    mirrors: ClassVar[Any] = Toleration
    key: str
    value: str | None
    effect: TaintEffect | None


class PodAffinityTermWire(Wire):
    mirrors: ClassVar[Any] = PodAffinityTerm
    topology_key: str
    labels: Pairs


class ShapeWire(Wire):
    mirrors: ClassVar[Any] = PodShape
    gpu: GpuWire
    cpu_milli: Count
    memory_bytes: Count
    extended: Counts
    node_rules: tuple[tuple[NodeSelectorRequirementWire, ...], ...]
    tolerations: tuple[DeclaredToleration, ...]
    labels: Pairs
    near: tuple[PodAffinityTermWire, ...]
    apart: tuple[PodAffinityTermWire, ...]
    schedulable: bool
    preferences: Annotated[tuple[NodePreferenceWire, ...], Since(3)] = ()


class GitWire(Wire):
    mirrors: ClassVar[Any] = GitClone
    repository: str
    branch: str
    revision: str
    timeout_s: Count
    size_bytes: Count


class VolumeWire(Wire):
    mirrors: ClassVar[Any] = Volume
    target: str
    source: str
    claim: str
    read_only: bool
    uploaded: bool = False  # what was kept before lacks it
    access: Annotated[AccessMode, Since(3)] = AccessMode.SHARED
    git: Annotated[GitWire | None, Since(3)] = None
    files: Annotated[Pairs, Since(3)] = ()
    secret: Annotated[str, Since(3)] = ""
    credential: Annotated[str, Since(3)] = ""
    empty: Annotated[bool, Since(3)] = False
    size_bytes: Annotated[Count, Since(3)] = 0
    storage_class: Annotated[str, Since(3)] = ""


class SecretVariableWire(Wire):
    mirrors: ClassVar[Any] = SecretVariable
    name: str
    credential: str
    key: str


class ServicePortWire(Wire):
    mirrors: ClassVar[Any] = ServicePort
    port: Count
    exposure: Exposure
    external: Count | None


class SecurityWire(Wire):
    mirrors: ClassVar[Any] = SecurityContext
    uid: Count | None = None
    gid: Count | None = None
    groups: tuple[Count, ...] = ()
    image_user: bool = False
    directory_user: bool = False
    capabilities: tuple[str, ...] = ()
    host_network: bool = False
    host_ipc: bool = False


class ProgramWire(Wire):
    mirrors: ClassVar[Any] = Program
    image: str
    command: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Pairs
    working_dir: str
    volumes: tuple[VolumeWire, ...]
    tty: bool
    stdin: bool
    cpu_limit_milli: Count
    memory_limit_bytes: Count
    shm_bytes: Count
    python_env: str = ""
    submitter_uid: Count | None = None
    host_roots: Annotated[tuple[str, ...], Since(3)] = ("/",)
    ports: Annotated[tuple[Count, ...], Since(3)] = ()
    pull_policy: Annotated[PullPolicy | None, Since(3)] = None
    security: Annotated[SecurityWire, Since(3)] = SecurityWire()
    secrets: Annotated[tuple[SecretVariableWire, ...], Since(3)] = ()
    image_credential: Annotated[str, Since(3)] = ""
    services: Annotated[tuple[ServicePortWire, ...], Since(3)] = ()


class TemplateWire(Wire):
    mirrors: ClassVar[Any] = PodTemplate
    shape: ShapeWire
    program: ProgramWire


class ConstraintWire(Wire):
    mirrors: ClassVar[Any] = TopologyConstraint
    topology: str
    required: str | None
    preferred: str | None


class DependencyWire(Wire):
    mirrors: ClassVar[Any] = Dependency
    workload: Annotated[WorkloadId, Field(min_length=1)]
    name: str
    any_end: bool


class ArrayWire(Wire):
    mirrors: ClassVar[Any] = Array
    ranges: tuple[tuple[Count, Count, Count], ...]
    parameters: tuple[tuple[str, tuple[str, ...]], ...]
    arguments: tuple[tuple[str, ...], ...]


class DistributedRunWire(Wire):
    mirrors: ClassVar[Any] = DistributedRun
    framework: Framework
    slots_per_worker: Count
    clean_pods: CleanPodPolicy


class WorkloadWire(Wire):
    """One workload as declared."""

    mirrors: ClassVar[Any] = WorkloadSpec
    id: Annotated[WorkloadId, Field(min_length=1)]
    name: str
    project: QueueId
    created_at: Instant
    kind: WorkloadKind
    template: TemplateWire
    leader: TemplateWire | None
    arrangement: Arrangement
    pods: Count
    minimum: Count | None
    completions: Count | None
    priority: int | None
    preemptible: bool | None
    restart: RestartPolicy | None
    retries: Count | None
    deadline_s: Count | None
    ttl_s: Count | None
    grace_s: Count
    pools: tuple[PoolName, ...]
    constraint: ConstraintWire | None
    desired_state: Annotated[DesiredState, renamed("want", "desired_state")]
    run: Count
    # With defaults: declarations that were kept before lack them.
    after: tuple[DependencyWire, ...] = ()
    array: ArrayWire | None = None
    distributed: Annotated[DistributedRunWire | None, Since(3)] = None

    def to_spec(self) -> WorkloadSpec:
        spec = self.to_model()
        assert isinstance(spec, WorkloadSpec)
        return spec


class EntitlementWire(Wire):
    mirrors: ClassVar[Any] = Entitlement
    quota: Bound
    limit: Bound
    weight: float
    usage: float


class QueueWire(Wire):
    mirrors: ClassVar[Any] = Queue
    id: Annotated[QueueId, Field(min_length=1)]
    parent: QueueId | None
    priority: int
    created_at: Instant
    gpu: EntitlementWire
    cpu: EntitlementWire
    memory: EntitlementWire
    preempt_min_runtime_s: Count | None
    reclaim_min_runtime_s: Count | None
    # With defaults, because a control plane also keeps declarations this way: those it has lack the two.
    over_quota: OverQuotaChoice | None = None
    gpu_limit_milli: Bound = UNLIMITED


class RulesWire(Wire):
    mirrors: ClassVar[Any] = ProjectRules
    interactive_limit_s: Count | None
    training_limit_s: Count | None = None  # what was kept before lacks it
    interactive_idle_s: Annotated[Count | None, Since(3)] = None
    interactive_preemptible_idle_s: Annotated[Count | None, Since(3)] = None
    training_idle_s: Annotated[Count | None, Since(3)] = None


class DeclaredTaint(Wire):
    mirrors: ClassVar[Any] = Taint
    key: str
    value: str
    effect: TaintEffect


class NodeOverridesWire(Wire):
    mirrors: ClassVar[Any] = NodeOverrides
    cordoned: bool
    taints: tuple[DeclaredTaint, ...]
    labels: Pairs


class PoolWire(Wire):
    mirrors: ClassVar[Any] = NodePool
    name: Annotated[PoolName, Field(min_length=1)]
    label_key: str
    label_value: str
    gpu_placement: Placement
    cpu_placement: Placement


class DeclaredTopology(Wire):
    mirrors: ClassVar[Any] = Topology
    name: str
    levels: tuple[str, ...]


class GracesWire(Wire):
    mirrors: ClassVar[Any] = GraceRules
    most_s: Count
    eviction_s: Count


class OrganizationWire(Wire):
    """All declarations for a cluster except its workloads."""

    mirrors: ClassVar[Any] = Organization
    queues: dict[PoolName, tuple[QueueWire, ...]]
    rules: dict[QueueId, RulesWire]
    pools: tuple[PoolWire, ...]
    topologies: tuple[DeclaredTopology, ...]
    node_overrides: Annotated[dict[NodeName, NodeOverridesWire], renamed("marks", "node_overrides")]
    graces: GracesWire = GracesWire.of(DEFAULT_GRACES)  # what was kept before lacks them

    def to_organization(self) -> Organization:
        organization = self.to_model()
        assert isinstance(organization, Organization)
        return organization
