"""Calls of the client about volume claims and config maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from fairpool.api.calls import Calls

if TYPE_CHECKING:
    from fairpool.api import config_maps as config
    from fairpool.api import workloads as work

    Json = Mapping[str, Any]

CLAIMS = "/api/v1/claims"
CONFIG_MAPS = "/api/v1/config-maps"


class StorageCalls(Calls):
    """What jobs of a project can mount."""

    def claims(self, project: str | None = None) -> list[work.ClaimItem]:
        """Volume claims of a project; without one, of all that the caller may see."""
        return self._get(CLAIMS, {"projectId": project} if project else None).claims

    def delete_claim(self, project: str, name: str) -> work.ClaimItem:
        """With its data."""
        return self._read(self._call("DELETE", f"{CLAIMS}/{quote(name, safe='')}", params={"projectId": project}))

    def config_maps(self, project: str) -> list[config.ConfigMapItem]:
        return self._get(CONFIG_MAPS, {"projectId": project}).get("configMaps")

    def config_map(self, project: str, name: str) -> config.ConfigMapItem:
        return self._get(f"{CONFIG_MAPS}/{quote(name, safe='')}", {"projectId": project})

    def create_config_map(self, request: config.NewConfigMap | Json) -> config.ConfigMapItem:
        return self._post(CONFIG_MAPS, request)

    def replace_config_map(
        self, project: str, name: str, request: config.ConfigMapChange | Json, revision: int | None = None
    ) -> config.ConfigMapItem:
        """With a revision only if it has not changed since."""
        where = urlencode({"projectId": project})
        return self._change("PUT", f"{CONFIG_MAPS}/{quote(name, safe='')}?{where}", request, revision)

    def delete_config_map(self, project: str, name: str) -> None:
        self._call("DELETE", f"{CONFIG_MAPS}/{quote(name, safe='')}", params={"projectId": project})
