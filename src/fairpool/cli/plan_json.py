"""`fairpool plan --json`. The field names are stable: docs/reference/plan-json.md lists them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from fairpool.cli.inquiry import only, queue_path, taken_for
from fairpool.cli.report import tree
from fairpool.model.ids import GroupId
from fairpool.model.problem import Problem
from fairpool.replay.planned import GroupOutcome, Replay, counts, differing_outcomes
from fairpool.scheduler.checks import cause_code, details
from fairpool.scheduler.decision import Plan, Verdict
from fairpool.scheduler.explain import explain, explain_eviction

VERSION = 1

Document = dict[str, Any]


def text(document: Document) -> str:
    """As printed: two spaces deep, names in the order given here."""
    return json.dumps({"format": "fairpool-plan", "version": VERSION} | document, indent=2, allow_nan=False)


def plan_document(replayed: Replay) -> Document:
    """The whole plan."""
    plan = replayed.plan
    return {
        "now_ms": replayed.snapshot.now,
        "pool": replayed.snapshot.pool.name,
        "counts": asdict(counts(plan)),
        **_actions(plan),
        "waits": [_wait(replayed, *each) for each in sorted(plan.verdicts.items())],
        "queues": _queues(replayed),
        "problems": problems(plan.problems),
        "quiet_until_ms": plan.quiet_until,
    }


def explained(replayed: Replay, name: GroupId) -> Document | None:
    """The part of the plan about one group; None if there is no such group."""
    group = replayed.groups.get(name)
    if group is None:
        return None
    mine = only(replayed.plan, name)
    path = set(queue_path(replayed.snapshot, group.queue))
    return {
        "group": name,
        "project": group.queue,
        **_actions(mine),
        "waits": [_wait(replayed, *each) for each in mine.verdicts.items()],
        "taken_for_it": _evictions(taken_for(replayed.plan, name)),
        "queues": [queue for queue in _queues(replayed) if queue["queue"] in path],
    }


def compared(before: Replay, after: Replay, changes: Sequence[str]) -> Document:
    """Both plans, and the groups with another outcome."""
    return {
        "changes": list(changes),
        "original": plan_document(before),
        "changed": plan_document(after),
        "differences": [
            {"group": group, "original": _outcome(old), "changed": _outcome(new)}
            for group, old, new in differing_outcomes(before, after)
        ],
    }


def problems(found: Iterable[Problem]) -> list[Document]:
    return [asdict(problem) for problem in found]


def _actions(plan: Plan) -> Document:
    return {
        "starts": [
            {
                "group": bind.group,
                "pod": bind.pod,
                "node": bind.node,
                "devices": list(bind.devices),
                "claims": {name: list(given) for name, given in bind.claims},
            }
            for bind in plan.binds
        ],
        "promises": [
            {
                "group": promise.group,
                "pod": promise.pod,
                "node": promise.node,
                "devices": list(promise.devices),
                "since_ms": promise.since,
            }
            for promise in plan.promises
        ],
        "evictions": _evictions(plan),
        "withdrawals": [
            {"group": each.group, "pod": each.pod, "node": each.node, "why": each.why.value}
            for each in plan.withdrawals
        ],
    }


def _evictions(plan: Plan) -> list[Document]:
    return [
        {
            "group": evict.group,
            "pod": evict.pod,
            "node": evict.node,
            "by": evict.reason.by.value,
            "for_group": evict.reason.winner,
            "moves_to": evict.reason.moved_to,
            "why": explain_eviction(evict),
        }
        for evict in plan.evictions
    ]


def _wait(replayed: Replay, group: GroupId, verdict: Verdict) -> Document:
    return {
        "group": group,
        "project": replayed.queue_of(group),
        "reason": cause_code(verdict.why),
        "why": explain(verdict),
        "pods_waiting": verdict.waiting,
        "pods_running": verdict.running,
        "details": details(verdict.why),
    }


def _queues(replayed: Replay) -> list[Document]:
    figures = replayed.figures()
    parents = {queue.id: queue.parent for queue in replayed.snapshot.queues}
    return [
        {
            "queue": queue,
            "parent": parents[queue],
            "quota_milli": figures[queue].quota_milli,
            "fair_share_milli": figures[queue].fair_share_milli,
            "held_before_milli": replayed.held_before_milli.get(queue, 0),
            "held_after_milli": figures[queue].held_milli,
        }
        for queue, _ in tree(replayed.snapshot)
        if queue in figures
    ]


def _outcome(outcome: GroupOutcome | None) -> Document | None:
    if outcome is None:
        return None
    return {
        "starts": dict(sorted(outcome.starts.items())),
        "promised": dict(sorted(outcome.promised.items())),
        "taken": dict(sorted(outcome.taken.items())),
        "stays": dict(sorted(outcome.stays.items())),
        "reason": None if outcome.verdict is None else cause_code(outcome.verdict.why),
        "says": str(outcome),
    }
