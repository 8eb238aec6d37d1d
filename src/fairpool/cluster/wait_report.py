"""Verdicts as they are reported: code and figures, with the names of other projects as mentions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from fairpool.api.clusters import WaitReport
from fairpool.model.ids import QueueId
from fairpool.model.mentions import ANOTHER_PROJECT, mention
from fairpool.model.organization import name_of_queue
from fairpool.scheduler.checks import FAILED_BY, cause_code, details
from fairpool.scheduler.decision import Verdict

VERDICTS = 256
"""Whose reports are cached: a cycle makes a few for thousands of groups that wait."""
AHEAD = ("queue", "quota_milli", "held_milli")
QUEUE = "queue"
"""The field of every reason that names a queue."""


@lru_cache(maxsize=VERDICTS)
def wait_report(verdict: Verdict, project: QueueId) -> WaitReport:
    """Why work of a project waits. Groups that wait alike share a verdict, and so a report."""
    return WaitReport(
        cause=cause_code(verdict.why),
        waiting=verdict.waiting,
        running=verdict.running,
        failed=tuple(each.value for each in FAILED_BY[type(verdict.why)]),
        details=_plain(_shown(details(verdict.why)), project),
    )


def _shown(figures: dict[str, Any]) -> dict[str, Any]:
    """Of another project no more than its sentence says: what it holds, and its quota."""
    ahead = figures.get("ahead")
    return figures if ahead is None else figures | {"ahead": {name: ahead[name] for name in AHEAD}}


def queue_mention(queue: QueueId, project: QueueId) -> str:
    """The id of a queue in a text for readers of one project. Departments are no secret, other projects may be."""
    is_open = queue == project or name_of_queue(queue) != queue
    return queue if is_open else mention(queue, queue, ANOTHER_PROJECT)


def _plain(value: Any, project: QueueId) -> Any:
    """As JSON has it, with the names of fields as the API spells them."""
    if isinstance(value, dict):
        return {
            _camel(name): queue_mention(each, project) if name == QUEUE else _plain(each, project)
            for name, each in value.items()
        }
    if isinstance(value, tuple | list):
        return [_plain(each, project) for each in value]
    return str(value) if isinstance(value, str) else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
