"""`--environment-asset`, `--compute-resource` and `--data-source`: the assets that a job names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairpool.model.problem import Problem


def references(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The assets as the API takes them; see `reference_problems`."""
    said = {
        "environment": asked["environment_asset"],
        "compute": asked["compute_resource"],
        "datasources": [_datasource(text) for text in asked["data_source"]],
    }
    return {name: value for name, value in said.items() if value}


def both_references(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> dict[str, Any]:
    """The assets of a file or template and those of flags: data sources are added."""
    sources = [*(theirs.get("datasources") or ()), *mine.get("datasources", ())]
    return {**theirs, **mine, **({"datasources": sources} if sources else {})}


def reference_problems(asked: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the flags."""
    wrong = [text for text in asked["data_source"] if not _is_valid(text)]
    return [
        Problem(
            "flag.data_source", f"--data-source {text!r} is neither NAME nor NAME:PATH", "write NAME, or NAME:/PATH"
        )
        for text in wrong
    ]


def _datasource(text: str) -> dict[str, Any]:
    name, _, path = text.partition(":")
    return {"id": name, **({"overrides": {"containerPath": path}} if path else {})}


def _is_valid(text: str) -> bool:
    name, colon, path = text.partition(":")
    return bool(name) and (not colon or path.startswith("/"))
