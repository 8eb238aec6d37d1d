"""Reports of jobs about themselves: metrics and parameters, written by the job and kept after its pod is forgotten."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fairpool.agent.durable import read_regular, replace_file
from fairpool.agent.pod_directory import UNREADABLE, directory_name
from fairpool.agent.state_directory import REPORT, StateDirectory
from fairpool.model.ids import PodId

STORED = "reports.json"
"""The copy beside the pod's log, kept when the pod is forgotten."""
CONTENT_MAX = 1 << 17
REPORTED_MAX, REPORTED_TEXT_MAX = 256, 1024
"""Of one job: so many metrics and so many parameters, and characters in each name and value."""


def read_reports(state: StateDirectory, pod: PodId) -> dict[str, Any]:
    """What the job reports now, or what was stored when its pod was forgotten: `metrics`, `parameters`, `at`."""
    name = directory_name(pod)
    stored = (f"{each}/{name}/{STORED}" for each in (state.logs, state.pods))  # the latter by an earlier version
    return _current(state, name) or next((found for file in stored if (found := _content(file))), {})


def store_reports(state: StateDirectory, pod: PodId) -> int:
    """Copy the job's report into its pod directory; returns the size of the copy."""
    name = directory_name(pod)
    found = _current(state, name)
    if not found:
        return 0
    text = json.dumps(found).encode()
    with suppress(OSError):
        replace_file(f"{state.pods}/{name}/{STORED}", text)
    return len(text)


def _current(state: StateDirectory, name: str) -> dict[str, Any]:
    return _sanitized(_content(f"{state.scratch}/{name}/{REPORT}"))


def _content(file: str) -> dict[str, Any]:
    try:
        found = json.loads(read_regular(file, CONTENT_MAX))
    except UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}


def _sanitized(found: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and short texts by name. A pod may have written anything."""
    metrics, parameters = found.get("metrics"), found.get("parameters")
    kept: dict[str, Any] = {}
    if isinstance(metrics, dict):
        numbers = {_short(name): value for name, value in metrics.items() if _is_number(value)}
        kept["metrics"] = dict(list(numbers.items())[:REPORTED_MAX])
    if isinstance(parameters, dict):
        texts = {_short(name): _short(value) for name, value in parameters.items() if isinstance(value, str)}
        kept["parameters"] = dict(list(texts.items())[:REPORTED_MAX])
    if kept and isinstance(found.get("at"), int):
        kept["at"] = found["at"]
    return kept


def _short(text: str) -> str:
    return text[:REPORTED_TEXT_MAX]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300
