"""Stored assets as they are read: their kind, what was requested, and the fields that lists are filtered by."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fairpool.api import assets as wire
from fairpool.api.assets import AssetScope
from fairpool.api.wire import parse_json
from fairpool.control.moments import iso
from fairpool.control.paging import Field, text_field, time_field


def _of_scope(scope: AssetScope) -> Field[Any]:
    return text_field(lambda row: row.scope_id if row.scope == scope.value else "")


@lru_cache(maxsize=16_384)
def _kind_in(document: str) -> str | None:
    found = parse_json(document.encode()).get("kind")
    return None if found is None else str(found)


ABOUT_IT = ("kind", "updatedBy")
"""Keys of a document beside the request."""


def kind_of(row: Any) -> str:
    """The kind of a stored asset: `nfs` of a data source."""
    return _kind_in(row.document) or str(row.kind)


FIELDS: Mapping[str, Field[Any]] = {
    "name": text_field(lambda row: row.name),
    "id": text_field(lambda row: row.id),
    "kind": text_field(kind_of),
    "scope": text_field(lambda row: row.scope),
    "projectId": _of_scope(AssetScope.PROJECT),
    "departmentId": _of_scope(AssetScope.DEPARTMENT),
    "clusterId": _of_scope(AssetScope.CLUSTER),
    "createdBy": text_field(lambda row: row.created_by),
    "createdAt": time_field(lambda row: iso(row.created_at)),
    "updatedAt": time_field(lambda row: iso(row.updated_at)),
}
"""Of stored assets: only the listed page is read whole."""


@lru_cache(maxsize=1024)
def body_of(request: type[wire.AssetRequest], document: str) -> Any:
    """A stored asset as it was requested; cached, since the value is immutable and is read at every submit."""
    return request.model_validate(
        {name: each for name, each in parse_json(document.encode()).items() if name not in ABOUT_IT}
    )


def spec_of(body: Any) -> dict[str, Any]:
    """The values of an asset, those that are given."""
    said: dict[str, Any] = body.spec.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    return said
