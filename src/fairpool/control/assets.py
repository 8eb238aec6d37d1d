"""HTTP routes for environments, compute resources and data sources."""

from __future__ import annotations

from typing import Any

from fairpool.api import assets as wire
from fairpool.api.asset_paths import DATASOURCES
from fairpool.api.asset_reference import DatasourceKind
from fairpool.api.asset_specs import EnvironmentSpec
from fairpool.api.pod_spec import Compute
from fairpool.api.problems import ProblemItem
from fairpool.control import asset_use
from fairpool.control.asset_routes import FIELDS, AssetKind, AssetQuery, add_asset_routes, kind_of, spec_of, visible
from fairpool.control.asset_scopes import StoredScope
from fairpool.control.asset_values import COMPUTE, DATASOURCE, ENVIRONMENT, NOUNS, workload_values
from fairpool.control.paging import filtered, page
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused
from fairpool.control.resource_request import gpu_request
from fairpool.control.routes import Routes
from fairpool.control.store.database import Connection

routes = Routes("assets")


class Equipment(AssetKind):
    """An asset that a submit or a template names."""

    __slots__ = ()

    def check(self, connection: Connection, place: StoredScope, body: Any, before: Any) -> None:
        """What no submit could have would be refused at each of them."""
        problems: list[ProblemItem] = []
        if isinstance(body.spec, Compute):
            gpu_request(body.spec, problems, "spec")
        if isinstance(body.spec, EnvironmentSpec) and "compute" in body.spec.model_fields_set:
            what, fix = "an environment has no compute", "create a compute resource with it"
            problems.append(ProblemItem(code="environment.compute", what=what, fix=fix, field="spec.compute"))
        if not spec_of(body):
            what = f"the {self.noun} has no values"
            problems.append(ProblemItem(code=f"{self.code}.empty", what=what, fix="set at least one", field="spec"))
        if problems:
            raise Refused(422, problems)

    def values(self, body: Any) -> dict[str, Any]:
        return dict(workload_values(self.kind, spec_of(body)))


def _kind(kind: str, request: type[wire.AssetRequest], group: str = "") -> Equipment:
    return Equipment(kind=kind, noun=NOUNS[group or kind], request=request, group=group)


KINDS = (
    _kind(ENVIRONMENT, wire.EnvironmentRequest),
    _kind(COMPUTE, wire.ComputeRequest),
    _kind(DatasourceKind.PVC.value, wire.PvcRequest, DATASOURCE),
    _kind(DatasourceKind.NFS.value, wire.NfsRequest, DATASOURCE),
    _kind(DatasourceKind.GIT.value, wire.GitRequest, DATASOURCE),
    _kind(DatasourceKind.S3.value, wire.S3Request, DATASOURCE),
    _kind(DatasourceKind.HOST_PATH.value, wire.HostPathRequest, DATASOURCE),
    _kind(DatasourceKind.CONFIG_MAP.value, wire.ConfigMapRequest, DATASOURCE),
    _kind(DatasourceKind.SECRET.value, wire.SecretRequest, DATASOURCE),
)
BY_KIND = {each.kind: each for each in KINDS}

for _each in KINDS:
    add_asset_routes(routes, _each)


@routes.get(
    DATASOURCES, action=Action.DATA_SOURCE_READ, answer=wire.AssetPage, summary="List data sources of all kinds"
)
async def datasources(plane: Plane, caller: Caller, query: AssetQuery) -> wire.AssetPage:
    """The values of each are under its kind: `spec.nfs`."""

    def unit(connection: Connection) -> tuple[list[wire.Asset], int | None]:
        rows = [row for row in visible(connection, caller, DATASOURCE) if query.covers(row)]
        some, following = page(filtered(rows, FIELDS, query), query)
        uses = asset_use.of_all(connection, caller) if query.usage_info else None
        found = [BY_KIND[kind_of(row)].shown(connection, row, uses) for row in some]
        return [each.model_copy(update={"spec": {each.kind: each.spec}}) for each in found], following

    entries, following = await plane.read(unit)
    return wire.AssetPage(entries=entries, next=following)
