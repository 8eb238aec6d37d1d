"""Flags for the quota of a project or department in one node pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.record import document
from fairpool.cli.failure import failure
from fairpool.cli.runai.flags import flag
from fairpool.model.organization import OverQuotaChoice

if TYPE_CHECKING:
    from fairpool.api.organization import PoolTerms

UNSET = "unset"
QUOTA = "Quota in one node pool"
NAMES = ("gpu_quota", "gpu_limit", "over_quota", "cpu_quota", "cpu_limit", "memory_quota", "memory_limit")


def quota_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """All flags about quotas."""
    for decorate in reversed(
        (
            flag(
                "--node-pool",
                default="default",
                metavar="NAME",
                section=QUOTA,
                help="Name of the node pool (default: default).",
            ),
            flag(
                "-g",
                "--gpu-quota",
                metavar="GPUS",
                section=QUOTA,
                taken_for=("--gpu", "--gpus", "--deserved-gpu", "--deserved-gpus", "--deserved", "--quota"),
                help="Guaranteed GPUs: 4, 0.5 or unlimited.",
            ),
            flag("--gpu-limit", metavar="GPUS", section=QUOTA, help="Maximum number of GPUs, or unlimited."),
            flag(
                "--over-quota",
                type=click.Choice([each.value for each in OverQuotaChoice]),
                section=QUOTA,
                help="Share of idle GPUs; by default in proportion to the quota.",
            ),
            flag("--cpu-quota", metavar="CORES", section=QUOTA, help="Guaranteed CPU cores, or unlimited."),
            flag("--cpu-limit", metavar="CORES", section=QUOTA, help="Maximum number of CPU cores."),
            flag("--memory-quota", metavar="MIB", section=QUOTA, help="Guaranteed memory in MiB, or unlimited."),
            flag("--memory-limit", metavar="MIB", section=QUOTA, help="Maximum memory in MiB."),
        )
    ):
        command = decorate(command)
    return command


def changed_quotas(
    before: Sequence[PoolTerms], pool: str, asked: dict[str, Any], *, may_be_unset: bool = False
) -> list[dict[str, Any]]:
    """The quotas in every pool, as sent to the server, after the flags have changed those of one. `may_be_unset`: for
    a department, whose quotas may follow its projects."""
    resources: list[dict[str, Any]] = document(before)
    known = next((each for each in resources if _pool(each) == pool), None)
    if known is None:
        known = {"nodePool": {"id": pool}}
        resources.append(known)
    for noun, unit in (("gpu", 1), ("cpu", 1000), ("memory", 1)):
        for flag_name, field in ((f"{noun}_quota", "deserved"), (f"{noun}_limit", "limit")):
            if asked[flag_name] is not None:
                unset = may_be_unset and asked[flag_name].lower() == UNSET
                terms = known.setdefault(noun, {})
                terms[field] = None if unset else amount(flag_name, asked[flag_name], unit)
                if noun == "memory":
                    terms["units"] = "Mib"
    if asked["over_quota"] is not None:
        known["gpu"] = known.get("gpu", {}) | {"overQuota": asked["over_quota"], "overQuotaWeight": None}
    return resources


def _pool(owed: dict[str, Any]) -> str:
    reference = owed.get("nodePool", {})
    return str(reference.get("name") or reference.get("id", "default"))


def is_given(asked: dict[str, Any]) -> bool:
    return any(asked[name] is not None for name in NAMES)


def amount(flag_name: str, text: str, unit: int = 1) -> int | float:
    """`4`, `0.5`, or `unlimited`, which is -1."""
    if text.lower() in ("unlimited", "-1"):
        return -1
    try:
        number = float(text) * unit
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e12:
        name = f"--{flag_name.replace('_', '-')}"
        raise failure("flag.amount", f"{name} {text!r} is not a valid quantity", "write 4, 0.5 or unlimited")
    return int(number) if number == int(number) else number
