"""Requests of tests about assets and templates: two projects in two departments, bodies by scope, dry submits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.control.control_plane import ControlPlane, codes, control_plane, expect

ASSETS = "/api/v1/asset"
TEMPLATES = f"{ASSETS}/workload-template"


@contextmanager
def two_teams() -> Iterator[ControlPlane]:
    """Projects team-a of ann and team-b of ben, which is in another department."""
    with control_plane() as control:
        expect(control.call("POST", "/api/v1/org-unit/departments", {"name": "research"}), 201)
        control.project("team-a")
        control.project("team-b", parentId="research")
        control.researcher("ann", "team-a")
        control.researcher("ben", "team-b")
        yield control


def remove_all(control: ControlPlane, kind: str) -> None:
    for each in expect(control.call("GET", f"{ASSETS}/{kind}?limit=500"), 200)["entries"]:
        expect(control.call("DELETE", f"{ASSETS}/{kind}/{each['id']}"), 204)


def asset_body(name: str, spec: Any, scope: str = "tenant", scope_id: str = "", **more: Any) -> dict[str, Any]:
    meta = {"name": name, "scope": scope, **({f"{scope}Id": scope_id} if scope_id else {}), **more.pop("meta", {})}
    return {"meta": meta, "spec": spec, **more}


def submit(
    control: ControlPlane, kind: str = "trainings", by: str = "ann", project: str = "team-a", **more: Any
) -> Any:
    """The answer to a dry run, or the codes of its refusal."""
    request = {"name": "t", "projectId": project, "spec": {}, **more}
    answer = control.call("POST", f"/api/v1/workloads/{kind}?dryRun=true", request, by=by)
    return answer.json() if answer.status_code == 200 else codes(answer)
