"""Messages with samples, sent by clusters every few seconds beside their reports.

A sample that is lost is not sent again: the next one comes soon, and what is missing is a gap.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import FailFast, Field

from fairpool.api.message import Message, Wire
from fairpool.model import sample as model
from fairpool.model.ids import Instant, NodeName, PodId

NODES_MAX, DEVICES_MAX, PODS_MAX = 20_000, 256, 8192
"""In one message, and of one node."""

Amount = Annotated[float, Field(ge=0, le=2**62)]
Bytes = Annotated[int, Field(ge=0, le=2**62)]
Percent = Annotated[float, Field(ge=0, le=100)]


class DeviceSampleWire(Wire):
    """A GPU."""

    mirrors: ClassVar = model.DeviceSample
    index: Annotated[int, Field(ge=0, lt=DEVICES_MAX)]
    utilization: Percent | None = None
    memory_bytes: Bytes | None = None
    power_watts: Amount | None = None
    temperature_celsius: Annotated[float, Field(ge=-100, le=1000)] | None = None
    clock_mhz: Amount | None = None
    errors: Bytes | None = None


class DeviceUseWire(Wire):
    """What a pod had of a GPU."""

    mirrors: ClassVar = model.DeviceUse
    index: Annotated[int, Field(ge=0, lt=DEVICES_MAX)]
    utilization: Percent | None = None
    memory_bytes: Bytes | None = None


class PodSampleWire(Wire):
    """A pod that runs."""

    mirrors: ClassVar = model.PodSample
    pod: PodId
    cpu_cores: Amount | None = None
    memory_bytes: Bytes | None = None
    received_bytes_s: Amount | None = None
    sent_bytes_s: Amount | None = None
    read_bytes_s: Amount | None = None
    written_bytes_s: Amount | None = None
    progress_percent: Percent | None = None
    devices: Annotated[tuple[DeviceUseWire, ...], Field(max_length=DEVICES_MAX), FailFast()] = ()


class NodeSampleWire(Wire):
    """A node that answered."""

    mirrors: ClassVar = model.NodeSample
    node: NodeName
    cpu_cores: Amount | None = None
    memory_bytes: Bytes | None = None
    received_bytes_s: Amount | None = None
    sent_bytes_s: Amount | None = None
    read_bytes_s: Amount | None = None
    written_bytes_s: Amount | None = None
    is_simulated: bool = False
    devices: Annotated[tuple[DeviceSampleWire, ...], Field(max_length=DEVICES_MAX), FailFast()] = ()
    pods: Annotated[tuple[PodSampleWire, ...], Field(max_length=PODS_MAX), FailFast()] = ()


class SamplesReport(Message):
    """What was measured on the nodes of a cluster at one moment, or on some of them."""

    at: Instant
    nodes: Annotated[tuple[NodeSampleWire, ...], Field(max_length=NODES_MAX)] = ()

    def to_sample(self) -> model.Sample:
        return model.Sample(at=self.at, nodes=tuple(each.to_model() for each in self.nodes))

    @classmethod
    def of_sample(cls, sample: model.Sample) -> SamplesReport:
        return cls(at=sample.at, nodes=tuple(NodeSampleWire.of(each) for each in sample.nodes))


class SamplesAnswer(Message):
    """Whether samples are kept just now."""

    is_kept: bool
    """False: the store is away or its disk is full. Send the next ones all the same."""
