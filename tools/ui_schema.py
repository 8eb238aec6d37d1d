"""`python -m tools.ui_schema`: writes ui/src/api/schema.d.ts, the types of the API, from the routes.

The types are made by openapi-typescript, from the part of the OpenAPI document that the web UI uses. The file says of
which document it was made, so that a test finds a stale one without Node.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from fairpool.control.app import ROUTES
from fairpool.control.openapi import openapi_document
from tools import ui_build

FILE = ui_build.ROOT / "ui" / "src" / "api" / "schema.d.ts"
PREFIX = "/api/"
OF_CLUSTERS = "/api/v1/cluster/"
"""Clusters call these, pages do not."""
NOT_TYPES = frozenset({"example", "examples", "title"})
BY_NAME = frozenset({"properties", "schemas", "paths"})
"""The keys below these are names of ours, and may be called like a keyword."""
SOURCE = re.compile(r"of the OpenAPI document ([0-9a-f]{64})")


def document() -> dict[str, Any]:
    """The part of the OpenAPI document that the types are made of."""
    whole = openapi_document(ROUTES)
    paths = {path: item for path, item in whole["paths"].items() if _is_used(path)}
    for item in paths.values():
        for operation in item.values():
            answers = operation["responses"]
            operation["responses"] = {code: answer for code, answer in answers.items() if code.startswith("2")}
    stripped: dict[str, Any] = _stripped({**whole, "paths": paths})
    return stripped


def _is_used(path: str) -> bool:
    return path.startswith(PREFIX) and not path.startswith(OF_CLUSTERS)


def _stripped(value: Any, *, by_name: bool = False) -> Any:
    """Without what the types do not show: a change of it needs no new types."""
    if isinstance(value, dict):
        return {
            key: _stripped(each, by_name=not by_name and key in BY_NAME)
            for key, each in value.items()
            if by_name or key not in NOT_TYPES
        }
    return [_stripped(each) for each in value] if isinstance(value, list) else value


def digest() -> str:
    """Of the document as it is now."""
    return hashlib.sha256(json.dumps(document(), sort_keys=True).encode()).hexdigest()


def digest_in(text: str) -> str:
    """Of the document that a file of types was made of; empty: it does not say."""
    found = SOURCE.search(text[:500])
    return found[1] if found is not None else ""


def write() -> None:
    node = ui_build.found_node() or ui_build.installed_node()
    ui_build.install(ui_build.ROOT, node)
    with tempfile.TemporaryDirectory() as folder:
        source, types = Path(folder, "openapi.json"), Path(folder, "schema.d.ts")
        source.write_text(json.dumps(document()))
        command = ("exec", "--", "openapi-typescript", str(source), "--output", str(types))
        ui_build.run_npm(ui_build.ROOT, node, command)
        made = f"// Types of the OpenAPI document {digest()}, made by `make golden`.\n"
        FILE.write_text(made + types.read_text(encoding="utf-8"), encoding="utf-8")


if __name__ == "__main__":
    try:
        if digest_in(FILE.read_text(encoding="utf-8") if FILE.exists() else "") != digest():
            write()
    except ui_build.BuildFailed as error:
        sys.exit(f"tools.ui_schema: {error}")
