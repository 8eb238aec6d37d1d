"""Node pools, nodes, node overrides and clusters, as requests and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
)

from fairpool.api.limits import TENANT_ID
from fairpool.api.wire import Answer, Moment, Page, PoolNameText, ProjectName, Request, ShortText


class PlacementStrategy(Request):
    """How to choose among the nodes where a pod fits."""

    gpu: Annotated[str, StringConstraints(pattern="^(binpack|spread|fragmentation)$")] = "binpack"
    cpu: Annotated[str, StringConstraints(pattern="^(binpack|spread)$")] = "binpack"


class NodePoolRequest(Request):
    """A node pool to create, or its new values: the nodes with one label value."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "a100", "labelKey": "run.ai/type", "labelValue": "a100"}]}
    )
    name: PoolNameText
    label_key: Annotated[ShortText, Field(min_length=1)]
    label_value: Annotated[ShortText, Field(min_length=1)]
    cluster_id: ShortText | None = None
    placement_strategy: PlacementStrategy = Field(default_factory=PlacementStrategy)


class NodePoolUpdate(Request):
    """`PATCH`: changes only the fields in the request."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"placementStrategy": {"gpu": "spread"}}]})
    label_key: Annotated[ShortText, Field(min_length=1)] | None = None
    label_value: Annotated[ShortText, Field(min_length=1)] | None = None
    placement_strategy: PlacementStrategy | None = None


class NodePoolAnswer(Answer):
    """A node pool."""

    id: str
    name: str
    cluster_id: str
    label_key: str
    label_value: str
    placement_strategy: PlacementStrategy
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
    levels: Annotated[list[Annotated[ShortText, Field(min_length=1)]], Field(min_length=1, max_length=16)]


class NetworkTopology(Answer):
    """A network topology. It does not change: delete it and create another."""

    id: str
    name: str
    levels: list[str]
    nodes: Annotated[list[str], Field(description="Nodes that have all of its labels")] = Field(default_factory=list)
    created_at: Moment
    revision: int = 0


class NetworkTopologyPage(Page):
    """Network topologies."""

    topologies: list[NetworkTopology]


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

    token: str
