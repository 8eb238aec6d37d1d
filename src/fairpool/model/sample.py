"""What was measured on the nodes at one moment: devices, and the pods that used them.

None means that it was not measured, which is not the same as nothing: a device that does not answer is not idle.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairpool.model.ids import Instant, NodeName, PodId


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSample:
    """One GPU of a node."""

    index: int
    utilization: float | None = None
    """Percent of the time since the last sample in which it computed."""
    memory_bytes: int | None = None
    """In use, beyond what the driver keeps for itself."""
    power_watts: float | None = None
    temperature_celsius: float | None = None
    clock_mhz: float | None = None
    errors: int | None = None
    """Uncorrected memory errors since the driver was loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """What one pod had of one device."""

    index: int
    utilization: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSample:
    """One pod that runs. Rates are averages since the last sample."""

    pod: PodId
    cpu_cores: float | None = None
    memory_bytes: int | None = None
    received_bytes_s: float | None = None
    """None also where it shares the machine's network."""
    sent_bytes_s: float | None = None
    read_bytes_s: float | None = None
    """From disks, as are written bytes to them."""
    written_bytes_s: float | None = None
    progress_percent: float | None = None
    """What its job reports about itself."""
    devices: tuple[DeviceUse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSample:
    """One node. Where several nodes share a machine, each has what its own pods use."""

    node: NodeName
    cpu_cores: float | None = None
    memory_bytes: int | None = None
    received_bytes_s: float | None = None
    sent_bytes_s: float | None = None
    read_bytes_s: float | None = None
    written_bytes_s: float | None = None
    is_simulated: bool = False
    """Its devices do not exist: their utilization is computed from the CPU time of their pods."""
    devices: tuple[DeviceSample, ...] = ()
    pods: tuple[PodSample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """All nodes of a cluster that answered."""

    at: Instant
    nodes: tuple[NodeSample, ...] = ()
