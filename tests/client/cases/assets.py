"""Assets: what they hold is listed, changed, and given to the pods of workloads that use it."""

from __future__ import annotations

from typing import Any

from tests.client.original import Original

TENANT = {"scope": "tenant"}


def case_compute(original: Original) -> None:
    _lives(original, "ComputeApi", "compute", {"gpuDevicesRequest": 1}, {"gpuDevicesRequest": 2})


def case_environment(original: Original) -> None:
    _lives(original, "EnvironmentApi", "environment", {"image": "python"}, {"image": "python:3"})


def _lives(original: Original, api: str, noun: str, spec: Any, other: Any, scope: Any = TENANT) -> None:
    """It is created, read, listed, replaced and deleted."""
    meta = {"name": f"lives-{noun}".replace("_", "-"), "description": "first", **scope}
    made = original.call(f"{api}.create_{noun}_asset", **{f"{noun}_creation_request": {"meta": meta, "spec": spec}})
    asset = made["meta"]["id"]
    assert spec.items() <= made["spec"].items()
    read = original.call(f"{api}.get_{noun}_asset_by_id", asset_id=asset, usage_info=True)
    assert read["meta"] == made["meta"]
    assert read["usedBy"] == {name: [] for name in read["usedBy"]}
    change = {"meta": {"name": meta["name"], "description": "second"}, "spec": other}
    original.call(f"{api}.update_{noun}_asset_by_id", asset_id=asset, **{f"{noun}_update_request": change})
    (listed,) = original.call(f"{api}.list_{noun}_assets", name=meta["name"])["entries"]
    assert listed["meta"]["description"] == "second"
    assert other.items() <= listed["spec"].items()
    original.call(f"{api}.delete_{noun}_asset_by_id", asset_id=asset)
    assert original.call(f"{api}.list_{noun}_assets", name=meta["name"])["entries"] == []
