"""What holds a program to its share: how much it may have, and the variables of its processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fairpool.agent.fractions.share_file import SharedDevice
from fairpool.agent.nvml import Gpu
from fairpool.model.problem import Problem
from fairpool.model.workload import GpuRequest

MIB = 1 << 20
WHOLE_MILLI = 1000


def shared_devices(request: GpuRequest, gpus: Sequence[Gpu]) -> list[SharedDevice]:
    """The devices of a share with the memory that the request gives of each."""
    return [
        SharedDevice(
            uuid=gpu.uuid,
            limit_bytes=request.own_memory_mib(gpu.memory_mib) * MIB,
            fraction_milli=0 if request.memory_mib else request.portion_milli,
        )
        for gpu in gpus
    ]


def hold_environment(
    environment: Mapping[str, str], library: Path, share: Path, devices: Sequence[SharedDevice]
) -> dict[str, str]:
    """The variables of a program in a share. What the user preloads stays, before ours."""
    preloaded = [each for each in environment.get("LD_PRELOAD", "").replace(" ", ":").split(":") if each]
    uuids = ",".join(each.uuid for each in devices)
    return {
        **environment,
        "LD_PRELOAD": ":".join([*(each for each in preloaded if each != str(library)), str(library)]),
        "GPUFRAC_SHARE": str(share),
        "GPUFRAC_REQUIRE": "1",
        "CUDA_VISIBLE_DEVICES": uuids,
        "NVIDIA_VISIBLE_DEVICES": uuids,
    }


def overcommitted(
    wanted: Sequence[SharedDevice], others: Sequence[SharedDevice], memory_bytes: Mapping[str, int]
) -> list[Problem]:
    """Which devices do not have so much left beside the shares that are already there."""
    found = []
    for device in wanted:
        total = memory_bytes[device.uuid]
        taken = sum(each.limit_bytes for each in others if each.uuid == device.uuid)
        # Each limit is rounded down to a MiB, so that shares of 0.3 and 0.7 fit.
        if taken + device.limit_bytes > total:
            what = (
                f"GPU {device.uuid} has {max(0, total - taken) // MIB} of {total // MIB} MiB left beside other shares, "
                f"and {device.limit_bytes // MIB} MiB are asked for"
            )
            found.append(Problem("gpu.no_room", what, "ask for less, or see which there are with `fairpool gpu ps`"))
    return found
