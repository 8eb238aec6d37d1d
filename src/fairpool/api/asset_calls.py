"""Calls of the client about assets: workload templates, environments, compute resources and data sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairpool.api.asset_paths import ASSET_PATHS, DATASOURCES
from fairpool.api.calls import Calls

if TYPE_CHECKING:
    from fairpool.api import assets

    Json = Mapping[str, Any]

TEMPLATE = "workload-template"


class AssetCalls(Calls):
    """What was prepared for submits. `kind`: a key of `ASSET_PATHS`; `datasource` lists those of all kinds."""

    def assets_of(self, kind: str) -> list[Any]:
        """Every asset of a kind that the caller may see."""
        return self._all(ASSET_PATHS.get(kind, DATASOURCES), "entries")

    def create_asset(self, kind: str, request: Json) -> Any:
        return self._post(ASSET_PATHS[kind], request)

    def replace_asset(self, kind: str, asset_id: str, request: Json, revision: int | None = None) -> Any:
        """Replace all of it; with a revision only if it has not changed since."""
        return self._change("PUT", f"{ASSET_PATHS[kind]}/{asset_id}", request, revision)

    def delete_asset(self, kind: str, asset_id: str) -> None:
        self._call("DELETE", f"{ASSET_PATHS[kind]}/{asset_id}")

    def templates(self) -> list[assets.Template]:
        return self.assets_of(TEMPLATE)

    def delete_template(self, template_id: str) -> None:
        self.delete_asset(TEMPLATE, template_id)
