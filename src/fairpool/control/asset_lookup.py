"""The assets that a submit or a template names, found by id or name in the scopes of its project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairpool.api import workload_spec
from fairpool.api.assets import AssetScope
from fairpool.api.problems import ProblemItem
from fairpool.control.asset_kinds import BY_KIND, AssetKind
from fairpool.control.asset_rows import body_of, kind_of, spec_of
from fairpool.control.asset_values import (
    COMPUTE,
    DATASOURCE,
    ENVIRONMENT,
    NOUNS,
    claim_name,
    is_claim_made,
    with_claim,
    workload_values,
)
from fairpool.control.refusal import Refused
from fairpool.control.store import assets as store
from fairpool.control.store import claims
from fairpool.control.store.database import Connection
from fairpool.control.template_values import SPECS, WIDEST_FIRST, AssetValues, Values, supports
from fairpool.model.spelling import did_you_mean

LISTING = {ENVIRONMENT: "environments", COMPUTE: "compute-resources", DATASOURCE: "data-sources"}


class AssetLookup:
    """The assets of one place: a project, or the scope of a template."""

    def __init__(
        self,
        connection: Connection,
        place: dict[str, str],
        kind: workload_spec.Kind | None = None,
        framework: str | None = None,
    ) -> None:
        """`kind`: of the workload that they are for; None: any. `framework`: of a distributed one."""
        self._connection, self._place, self._kind, self._framework = connection, place, kind, framework
        self._problems: list[ProblemItem] = []

    def resolved(self, spec: Values) -> tuple[dict[str, Any], tuple[AssetValues, ...]]:
        """A specification with ids in place of names, and what those assets say; refuses what is not there."""
        said = spec.get("assets")
        if not isinstance(said, Mapping):
            return dict(spec), ()
        found = [
            each for group in (ENVIRONMENT, COMPUTE) if said.get(group) if (each := self._single(group, said[group]))
        ]
        ids: dict[str, Any] = {each.path.rpartition(".")[2]: each.id for each in found}
        sources = [(each, self._datasource(each)) for each in said.get("datasources", ())]
        known = [({**reference, "id": each.id}, each) for reference, each in sources if each is not None]
        if known:
            ids["datasources"] = list({reference["id"]: reference for reference, _ in known}.values())
        if self._problems:
            raise Refused(422, self._problems)
        return {**spec, "assets": ids}, (*found, *(each for _, each in known))

    def _single(self, group: str, asked: str) -> AssetValues | None:
        row = self._found(group, asked, f"assets.{group}")
        return None if row is None else self._values(row, f"assets.{group}")

    def _datasource(self, reference: Mapping[str, Any]) -> AssetValues | None:
        path = "assets.datasources"
        row = self._found(DATASOURCE, reference["id"], path)
        if row is None:
            return None
        kind = reference.get("kind")
        if kind is not None and kind_of(row) != kind:
            what = f"data source {row.name} is of the kind {kind_of(row)}, not {kind}"
            self._refuse("datasource.other_kind", what, "remove kind, or name another data source", path)
        return self._values(row, path, (reference.get("overrides") or {}).get("containerPath"))

    def _found(self, group: str, asked: str, path: str) -> Any:
        """The asset of this name or id, of the narrowest scope that has one; None: refused."""
        rows = store.named(self._connection, group, self._place, asked)
        if not rows:
            names = [row.name for row in store.usable(self._connection, group, self._place)]
            fix = did_you_mean(asked, names, f"see them with `runai list {LISTING[group]}`")
            self._refuse(f"{group}.unknown", f"there is no {NOUNS[group]} {asked[:64]!r}", fix, path)
            return None
        row = narrowest(rows, asked)
        types = self._asset_kind(row).types(self._body(row))
        if self._kind is not None and not supports(types, self._kind):
            kinds = [each.value.lower() for each in SPECS if supports(types, each)]
            what = f"{NOUNS[group]} {row.name} is not for a {self._kind.value.lower()}"
            self._refuse(f"{group}.other_workload", what, f"use it for {', '.join(kinds)}", path)
        elif self._framework is not None and types.dist_framework not in (None, self._framework):
            what = f"{NOUNS[group]} {row.name} is for {types.dist_framework}, and this is {self._framework}"
            self._refuse(f"{group}.other_framework", what, f"use it with {types.dist_framework}, or another one", path)
        return row

    def _values(self, row: Any, path: str, mount_path: str | None = None) -> AssetValues:
        return AssetValues(
            id=row.id,
            path=path,
            origin=f"{NOUNS[row.kind]} {row.name} ({row.scope})",
            values=workload_values(kind_of(row), self._spec(row), mount_path),
        )

    def _spec(self, row: Any) -> Values:
        """What an asset says in this place: a claim that it made before is mounted, and not made again."""
        spec, project = spec_of(self._body(row)), self._place["project"]
        if not is_claim_made(kind_of(row), spec):
            return spec
        claim = claim_name(row.name, row.id, spec)
        return with_claim(spec, claim, exists=claims.one(self._connection, project, claim) is not None)

    def _asset_kind(self, row: Any) -> AssetKind:
        return BY_KIND[kind_of(row)]

    def _body(self, row: Any) -> Any:
        return body_of(self._asset_kind(row).request, row.document)

    def _refuse(self, code: str, what: str, fix: str, path: str) -> None:
        self._problems.append(ProblemItem(code=code, what=what, fix=fix, field=f"spec.{path}"))


def narrowest(rows: list[Any], asked: str) -> Any:
    """Of assets with the same name that of the narrowest scope; an id counts before any name."""
    return max(rows, key=lambda each: (each.id == asked, WIDEST_FIRST.index(AssetScope(each.scope))))
