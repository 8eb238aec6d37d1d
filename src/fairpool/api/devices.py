"""Every device with its holders, in one compact answer: names are written once and referred to by their number."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fairpool.api.problems import ProblemItem
from fairpool.api.wire import Answer, Moment, Page

HIDDEN = -1
"""In place of the number of a workload that the caller may not see."""
Portion = tuple[int, int, list[int]]
"""Number of a workload, thousandths of each device, devices."""


class DeviceCluster(Answer):
    """A cluster whose devices are listed."""

    id: str
    name: str
    last_seen_at: Annotated[Moment | None, Field(description="When it last reported: what is older may have changed")]


class DeviceHolders(Answer):
    """Workloads that hold devices and that the caller may see, as columns: the first of each belong to workload 0."""

    ids: list[str]
    names: list[str]
    projects: Annotated[list[int], Field(description="Numbers in `projects` of the answer")]
    users: Annotated[list[int], Field(description="Numbers in `users` of the answer")]


class DeviceNode(Answer):
    """A node with its devices, which are numbered from 0."""

    name: str
    cluster: Annotated[int, Field(description="Number in `clusters`")]
    pool: str
    status: Annotated[str, Field(description="Ready, NotReady or Unknown", examples=["Ready"])]
    cordoned: bool = False
    drained: bool = False
    silent_since: Moment | None = None
    type: Annotated[str, Field(description="Of its GPUs", examples=["NVIDIA-A100-SXM4-80GB"])] = ""
    memory_mib: Annotated[int, Field(description="Of each GPU")] = 0
    gpus: int
    simulated: bool = False
    withheld: Annotated[list[int], Field(description="Devices that failed or that other processes use")] = Field(
        default_factory=list
    )
    message: Annotated[str, Field(description="Why they are withheld")] = ""
    holders: Annotated[
        list[Portion],
        Field(
            description="Number in `workloads` (-1: of a project that you may not see), thousandths of each device, "
            "devices",
            examples=[[[0, 1000, [0, 1]], [-1, 500, [2]]]],
        ),
    ]
    leaving: Annotated[list[Portion], Field(description="Those whose pods are stopping; they are not in `holders`")] = (
        Field(default_factory=list)
    )
    promised: Annotated[
        list[Portion], Field(description="Those that start when the pods on their devices have stopped")
    ] = Field(default_factory=list)
    utilization: Annotated[
        list[int | None], Field(description="Of each device in percent, as last measured; null: not measured")
    ] = Field(default_factory=list)
    idle: Annotated[
        list[int],
        Field(description="At 0 % for more than five minutes. Of one that is held, only the time since then counts"),
    ] = Field(default_factory=list)
    mig: Annotated[dict[str, int], Field(description="MIG instances of the node, by profile")] = Field(
        default_factory=dict
    )
    mig_holders: Annotated[
        list[tuple[int, str, int]], Field(description="Number in `workloads`, profile, instances")
    ] = Field(default_factory=list)


class DevicePage(Page):
    """All devices; a page is a number of nodes."""

    as_of: Annotated[Moment, Field(description="When this was read; all of it is from one read")]
    count: Annotated[int, Field(description="Nodes that fit, on this and other pages")]
    devices: Annotated[int, Field(description="Devices of these nodes")]
    clusters: list[DeviceCluster]
    projects: list[str]
    users: list[str]
    workloads: DeviceHolders
    nodes: list[DeviceNode]
    problems: (
        Annotated[list[ProblemItem], Field(description="With status 207: why what was measured is missing")] | None
    ) = None
