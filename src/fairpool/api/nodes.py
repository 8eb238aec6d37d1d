"""Node pools, nodes, node overrides and clusters, as requests and answers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import (
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
)

from fairpool.api.limits import TENANT_ID
from fairpool.api.measured import MeasuredNode
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import Answer, Moment, Page, PoolNameText, ProjectName, Request, ShortText


class PlacementStrategy(Request):
    """How to choose among the nodes where a pod fits."""

    gpu: Annotated[str, StringConstraints(pattern="^(binpack|spread|fragmentation)$")] = "binpack"
    cpu: Annotated[str, StringConstraints(pattern="^(binpack|spread)$")] = "binpack"


class AccelerationDetection(StrEnum):
    """Whether GPUs of several nodes are one network domain."""

    AUTO = "Auto"
    USE = "Use"
    DO_NOT_USE = "DontUse"


class GpuOptimization(Request):
    """Swapping of GPU memory and scheduling within a node: neither is done."""

    swap_enabled: StrictBool = False
    node_level_scheduler_enabled: StrictBool = False
    cpu_swap_memory_size: ShortText | None = None
    reserved_gpu_memory_for_swap_operations: ShortText | None = None


class PoolScheduling(Request):
    """How a pool is scheduled."""

    placement_strategy: PlacementStrategy | None = None
    min_guaranteed_runtime: ShortText | None = None


class NodePoolExtras(Request):
    """What the original can be told of a pool beside its label; most of it has one possible value here."""

    over_provisioning_ratio: Annotated[StrictInt, Field(ge=1, le=5, description="Only 1: GPUs are given once")] = 1
    gpu_network_acceleration_detection: Annotated[
        AccelerationDetection, Field(description="Not Use: workloads name a network topology")
    ] = AccelerationDetection.AUTO
    gpu_network_acceleration_label_key: ShortText | None = None
    gpu_resource_optimization: GpuOptimization | None = None
    scheduling_configuration: PoolScheduling | None = None
    network_topology_id: ShortText | None = None


class NodePoolRequest(NodePoolExtras):
    """A node pool to create, or its new values: the nodes with one label value."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "a100", "labelKey": "run.ai/type", "labelValue": "a100"}]}
    )
    name: PoolNameText
    label_key: Annotated[ShortText, Field(min_length=1)]
    label_value: Annotated[ShortText, Field(min_length=1)]
    cluster_id: ShortText | None = None
    placement_strategy: PlacementStrategy = Field(default_factory=PlacementStrategy)


class NodePoolUpdate(NodePoolExtras):
    """`PATCH`: changes only the fields in the request."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"placementStrategy": {"gpu": "spread"}}]})
    label_key: Annotated[ShortText, Field(min_length=1)] | None = None
    label_value: Annotated[ShortText, Field(min_length=1)] | None = None
    placement_strategy: PlacementStrategy | None = None


class NodePoolReplacement(NodePoolUpdate):
    """`PUT`: all values of a pool. Name, cluster and label stay as they are if they are left out."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"labelKey": "run.ai/type", "labelValue": "a100"}]})
    name: PoolNameText | None = None
    cluster_id: ShortText | None = None


class NodePoolAnswer(Answer):
    """A node pool."""

    id: str
    number: Annotated[int, Field(description="Its id on older paths")]
    tenant_id: int = TENANT_ID
    name: str
    cluster_id: Annotated[str, Field(description="Empty: it is in all clusters")]
    cluster_name: Annotated[str, Field(description="Of the cluster it is in, if it is in only one")]
    is_default: bool
    label_key: Annotated[str, Field(description="- for the default pool, which has no label")]
    label_value: str
    over_provisioning_ratio: int = 1
    placement_strategy: PlacementStrategy
    created_by: str = ""
    updated_by: str = ""
    phase: Annotated[str, Field(examples=["Ready"])] = "Ready"
    nodes: list[str] = Field(default_factory=list)
    created_at: Moment
    updated_at: Moment
    revision: int = 0


class NodePoolPage(Page):
    """Node pools."""

    nodepools: list[NodePoolAnswer]


class NetworkTopologyRequest(Request):
    """A network topology to create: node labels from the widest level to the narrowest."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "fabric", "levels": ["example.com/zone", "example.com/rack"]}]}
    )
    name: PoolNameText
    cluster_id: ShortText | None = Field(default=None, description="It is in every cluster, whichever is named")
    levels: Annotated[list[Annotated[ShortText, Field(min_length=1)]], Field(min_length=1, max_length=16)]


class NetworkTopology(Answer):
    """A network topology. It does not change: delete it and create another."""

    id: str
    tenant_id: int = TENANT_ID
    name: str
    cluster_id: Annotated[str, Field(description="Of the only cluster; empty: there are several, and it is in all")]
    levels: list[str]
    nodes: Annotated[list[str], Field(description="Nodes that have all of its labels")] = Field(default_factory=list)
    created_at: Moment
    revision: int = 0


class NetworkTopologyPage(Page):
    """Network topologies."""

    topologies: list[NetworkTopology]
    network_topologies: Annotated[list[NetworkTopology], Field(description="The same")] = Field(default_factory=list)


class NodeTaint(Request):
    """A taint, such as `runai=drain:NoExecute`."""

    key: Annotated[ShortText, Field(min_length=1, examples=["runai"])]
    value: Annotated[ShortText, Field(examples=["drain"])] = ""
    effect: Annotated[str, StringConstraints(pattern="^(NoSchedule|NoExecute|PreferNoSchedule)$")] = "NoSchedule"


class NodeOverridesRequest(Request):
    """The cordon, taints and labels of a node; replaces all of them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"cordoned": True, "taints": [{"key": "runai", "value": "drain", "effect": "NoExecute"}]}]
        }
    )
    cordoned: StrictBool = False
    taints: Annotated[list[NodeTaint], Field(max_length=64)] = Field(default_factory=list)
    labels: Annotated[dict[ShortText, ShortText], Field(max_length=64)] = Field(default_factory=dict)


class GpuInfo(Answer):
    """The GPUs of a node."""

    gpu_type: str = ""
    gpu_count: int = 0
    gpu_memory_mib: int = 0
    withheld: Annotated[
        list[int], Field(description="GPUs that are not scheduled: faulty, or used by other processes")
    ] = Field(default_factory=list)
    withheld_because: Annotated[str, Field(description="The reason, in plain text")] = ""
    allocated: float = 0.0
    allocated_by_device: Annotated[list[float], Field(description="Allocated fraction of each GPU, by index")] = Field(
        default_factory=list
    )
    simulated: Annotated[bool, Field(description="The GPUs are simulated: workloads run without them")] = False


class NodeAnswer(Answer):
    """A node, as last reported by its cluster."""

    id: str
    name: str
    cluster_uuid: str
    created_at: Annotated[Moment, Field(description="When the control plane first heard of it")]
    updated_at: Annotated[Moment, Field(description="When what is reported of it last changed")]
    status: Annotated[str, Field(examples=["Ready"])]
    silent_since: Moment | None = None
    node_pool: str
    gpu_info: GpuInfo
    pods: int = 0
    cpu_milli: int | None = None
    memory_bytes: int | None = None
    cpu_allocated_milli: Annotated[int, Field(description="Requested by the pods on the node")] = 0
    memory_allocated_bytes: Annotated[int, Field(description="Requested by the pods on the node")] = 0
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[NodeTaint] = Field(default_factory=list)
    cordoned: bool = False
    overrides: NodeOverridesRequest = Field(default_factory=NodeOverridesRequest)
    measured: (
        Annotated[MeasuredNode, Field(description="What was last measured of it, if that was asked for")] | None
    ) = None
    revision: int = 0


class NodePod(Answer):
    """A pod on a node. For workloads that the caller may not see, only its resources are shown."""

    id: str | None = None
    name: Annotated[str, Field(examples=["train-1-0-0"])]
    workload_id: str | None = None
    workload_name: str | None = None
    project_name: str | None = None
    submitted_by: str | None = None
    devices: list[int] = Field(default_factory=list)
    gpu: float = 0.0
    cpu_milli: int = 0
    memory_bytes: int = 0


class NodeDetail(NodeAnswer):
    """A node with the pods on it."""

    pods_there: list[NodePod] = Field(default_factory=list)


class NodePage(Page):
    """Nodes."""

    nodes: list[NodeAnswer]
    problems: (
        Annotated[list[ProblemItem], Field(description="With status 207: why what was measured is missing")] | None
    ) = None


class ClusterRequest(Request):
    """A cluster to add."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "local"}]})
    name: ProjectName
    domain: ShortText = ""
    version: ShortText = ""


class ClusterState(Answer):
    """Connection state of a cluster."""

    state: Annotated[str, Field(examples=["Connected"])]


class ClusterAnswer(Answer):
    """A cluster."""

    uuid: str
    tenant_id: int = TENANT_ID
    name: str
    domain: str = ""
    version: str = ""
    status: ClusterState
    last_liveness: Moment | None = None
    created_at: Moment
    in_control_plane: Annotated[bool, Field(description="It runs in the process of the control plane")] = False
    revision: int = 0


class JoinRequest(Request):
    """A cluster that connects, and which of its installations it is."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"installation": "0f6c1c1e-2f63-4d5f-8f0e-6a8a2b9d3c11"}]}
    )
    installation: Annotated[
        str, StringConstraints(min_length=1, max_length=64, pattern="^[A-Za-z0-9-]+$"), Field(description="A UUID")
    ]


class NewCluster(ClusterAnswer):
    """A cluster and its token, which is shown only once."""

    token: Annotated[str, Field(description="Empty in the answer to a repeated request")]


class OperatorRequest(Request):
    """What the file needs that connects a Kubernetes cluster."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"token": "fpc_…", "controlUrl": "https://fairpool.example.com"}]}
    )
    token: Annotated[ShortText, Field(min_length=1, description="The token of the cluster")]
    control_url: Annotated[
        str,
        StringConstraints(max_length=512, pattern=r"^(https?://[^/?#@\s]+)?$"),
        Field(description="Address of the control plane, as the cluster reaches it; empty: its public URL"),
    ] = ""
    ca_certificate: Annotated[
        str, StringConstraints(max_length=65536), Field(description="Of a private authority, in PEM")
    ] = ""
    image_registry: Annotated[
        str,
        StringConstraints(max_length=255, pattern=r"^([A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9._/-]+)?)?$"),
        Field(description="Registry that the image is pulled from, as NAME:PORT"),
    ] = ""
    image_pull_secret: Annotated[
        str,
        StringConstraints(max_length=253, pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$"),
        Field(description="Secret with credentials of the registry, in namespace runai"),
    ] = ""


class OperatorFile(Answer):
    """A file for `kubectl apply`. It contains the token."""

    name: Annotated[str, Field(examples=["runai-operator-east.yaml"])]
    content: str
