"""Control databases that earlier versions left behind, as SQL under `tests/data`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"
VERSION = "0007"

NEW_IN_CLAIMS = {"phase": "Ready", "projectDeleted": False, "ephemeral": False, "accessMode": "rwm", "usedBy": []}
RENAMED = {"bornAt": "createdAt", "trouble": "problem", "marks": "overrides"}


def keep_database(folder: Path, version: str = VERSION) -> None:
    """Put a database of this version into a data directory."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / "control.sqlite")) as kept:
        kept.executescript((DATA / f"control-{version}.sql").read_text())


def kept_answers(version: str = VERSION) -> dict[str, Any]:
    """What the API of that version answered, by path; and what a cluster pulled."""
    answers: dict[str, Any] = json.loads((DATA / f"control-{version}.answers.json").read_text())
    return answers


def in_todays_words(answer: Any) -> Any:
    """An answer of the older version with the names that changed, and without pods of workloads that are gone."""
    if isinstance(answer, list):
        return [in_todays_words(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    if str(answer.get("phaseMessage")).startswith("port 8888 is used by another job"):
        answer = answer | {"phaseMessage": ""}  # pods with ports have a network of their own
    if answer.keys() >= {"size", "createdAt", "projectId"}:
        answer = answer | NEW_IN_CLAIMS
    if answer.get("commandLine") == "":
        answer = {
            name: value for name, value in answer.items() if name != "commandLine"
        }  # today every workload has one
    if answer.get("phase") == "Deleted":
        answer = answer | {"runningPods": 0, "pendingPods": 0, "currentNodes": []}
    if "workloadRequestedResources" in answer:
        asked = answer["workloadRequestedResources"]
        amounts = {name: {"request": asked[name]} for name in ("gpu", "cpu") if name in asked}
        pods = {"number": answer["requestedPods"]}
        answer = answer | {"requestedPods": pods, "workloadRequestedResources": asked | amounts}
    if isinstance(answer.get("spec"), dict) and isinstance(answer["spec"].get("labels"), dict):
        labels = [{"name": name, "value": value} for name, value in answer["spec"]["labels"].items()]
        answer = answer | {"spec": answer["spec"] | {"labels": labels}}
    return {RENAMED.get(name, name): in_todays_words(value) for name, value in answer.items()}


def as_far_as(older: Any, today: Any) -> Any:
    """Today's answer without the fields that came after an older one."""
    if isinstance(older, dict) and isinstance(today, dict):
        return {name: as_far_as(older.get(name), value) for name, value in today.items() if name in older}
    if isinstance(older, list) and isinstance(today, list) and len(older) == len(today):
        return [as_far_as(before, after) for before, after in zip(older, today, strict=True)]
    return today
