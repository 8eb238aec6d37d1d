"""Calls of the client about policies for workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairpool.api.calls import Calls

if TYPE_CHECKING:
    from fairpool.api import policies as wire

    Json = Mapping[str, Any]

POLICY_PATHS = {
    "workspace": "/api/v2/policy/workspaces",
    "training": "/api/v2/policy/trainings",
    "distributed": "/api/v2/policy/distributed",
    "inference": "/api/v2/policy/inferences",
}
"""By kind of workload."""


class PolicyCalls(Calls):
    """What workloads of a scope may say. `scope`: `{"scope": "project", "projectId": "team-a"}`."""

    def policies(self) -> list[wire.PolicyEntry]:
        """Every policy that the caller may see."""
        found: list[wire.PolicyEntry] = self._get("/api/v2/policy").policies
        return found

    def policy(self, kind: str, scope: Json) -> wire.PolicyAnswer:
        found: wire.PolicyAnswer = self._get(POLICY_PATHS[kind], scope)
        return found

    def apply_policy(self, kind: str, request: Json, *, validate_only: bool = False) -> wire.PolicyAnswer:
        """Create or replace the policy of a scope, or only check it."""
        query = "?validateOnly=true" if validate_only else ""
        found: wire.PolicyAnswer = self._change("PUT", f"{POLICY_PATHS[kind]}{query}", request, None)
        return found

    def delete_policy(self, kind: str, scope: Json) -> None:
        self._call("DELETE", POLICY_PATHS[kind], params=scope)

    def effective_policy(self, project: str, kind: str) -> wire.EffectivePolicy:
        """What policies come to for a kind of workload in a project."""
        asked = {"projectId": project, "workloadType": kind}
        found: wire.EffectivePolicy = self._get("/api/v2/policy/effective", asked)
        return found
