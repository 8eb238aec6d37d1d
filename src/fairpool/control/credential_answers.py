"""Credentials as they are answered: what is not secret in them, in our words and in those of the original."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairpool.api import assets as assets_wire
from fairpool.api import credentials as wire
from fairpool.api.wire import parse_json
from fairpool.control.asset_scopes import scope_shown
from fairpool.control.moments import iso
from fairpool.control.store.database import Connection
from fairpool.model.secret import CredentialKind

ORIGINAL_KINDS: Mapping[CredentialKind, str] = {
    CredentialKind.GENERIC: "genericSecret",
    CredentialKind.PASSWORD: "password",
    CredentialKind.ACCESS_KEY: "accessKey",
    CredentialKind.REGISTRY: "dockerRegistry",
    CredentialKind.GIT: "password",
    CredentialKind.NGC: "ngcApiKey",
}
"""The types in the words of the original, where a login for Git is a password like any other."""
KEY_DIGITS = 12
"""Of the id of a key: clients may take no larger numbers."""
LOST = "its value was encrypted with a key that is not here; set it again"


def shown(
    connection: Connection, row: Any, key: str, uses: Mapping[str, assets_wire.AssetUse] | None = None
) -> wire.StoredCredential:
    """Without its values. `key`: the id of the key that values can be read with; `uses`: who refers to each."""
    document = parse_json(row.document.encode())
    kind, is_readable = CredentialKind(row.kind), row.key_id == key
    written = {"created_by": row.created_by, "created_at": iso(row.created_at), "updated_at": iso(row.updated_at)}
    return wire.StoredCredential(
        id=row.id,
        kind=kind,
        meta=wire.CredentialMetaAnswer(
            id=row.id,
            kind=ORIGINAL_KINDS[kind],
            name=row.name,
            description=document["description"] or None,
            updated_by=document.get("updatedBy", row.created_by),
            **written,
            **scope_shown(connection, row),
        ),
        spec=_spec(kind, document, row.key_id),
        cluster_wide=row.cluster_wide,
        phase="Ready" if is_readable else "Unreadable",
        status=assets_wire.AssetStatus(
            status="No issues found" if is_readable else "Issues found", message=None if is_readable else LOST
        ),
        cluster_info=wire.CredentialResources(resources=[wire.CredentialResource(name=row.name)]),
        used_by=None if uses is None else uses.get(row.id, assets_wire.AssetUse()),
        revision=row.revision,
        **written,
    )


def _spec(kind: CredentialKind, document: Mapping[str, Any], key_id: str) -> wire.CredentialSpecAnswer:
    keys = [
        wire.CredentialKeyAnswer(name=name, bytes=size if size >= 0 else -1 - size, is_text=size >= 0)
        for name, size in document["keys"].items()
    ]
    names = [wire.CredentialKeyName(key=each.name) for each in keys] if kind is CredentialKind.GENERIC else None
    said = {"secret_keys": keys, "key_value_pairs": names, "key_id": int(key_id[:KEY_DIGITS], 16), **document["shown"]}
    return wire.CredentialSpecAnswer.model_validate(said)


def listed(found: wire.StoredCredential) -> wire.ListedCredential:
    """As in the list of all types, where clients of the original look for the values under the type."""
    spec = found.spec.model_dump()
    named = {ORIGINAL_KINDS[found.kind]: spec}
    return wire.ListedCredential.model_validate({**found.model_dump(), "spec": {**spec, **named}})
