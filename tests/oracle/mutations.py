"""Mutations of the scheduler, each a rule that is slightly wrong, and which of them the oracle catches.

`python -m tests.oracle.mutations` tries all of them, `--only WORD` some; `--seeds N` says how many worlds of each kind
are tried before a mutation counts as missed. It takes minutes, most of them for those that are missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCHEDULER = Path("src/fairpool/scheduler")


@dataclass(frozen=True)
class Mutation:
    """One text of a module of the scheduler, replaced by another."""

    rule: str
    module: str
    before: str
    after: str


MUTATIONS = (
    Mutation("a limit may be reached", "gate", "here[resource] + need[resource] > bound", "here[resource] > bound"),
    Mutation(
        "quota holds what is not preemptible",
        "gate",
        "not (non_preemptible and is_over_quota",
        "not (False and is_over_quota",
    ),
    Mutation(
        "limits hold at every level",
        "gate",
        "queues.limited[queue], queues.held",
        "queues.limited[queue][-1:], queues.held",
    ),
    Mutation("quotas come first", "fairshare", "claimant.fair = min(owed, claimant.requestable)", "claimant.fair = 0"),
    Mutation("no queue is lent more than it asks for", "fairshare", "if wants <= slice_:", "if wants < 0:"),
    Mutation(
        "queue priority divides the surplus",
        "fairshare",
        "for claimant in claimants}, reverse=True)",
        "for claimant in claimants})",
    ),
    Mutation("usage lowers a share", "fairshare", "(each.weight / weight - each.usage)", "(each.weight / weight)"),
    Mutation(
        "the largest rest first", "fairshare", "(-rest[each.id], each.created_at", "(rest[each.id], each.created_at"
    ),
    Mutation("the queue further below its share first", "order", "        is_over,\n", "        False,\n"),
    Mutation("within quota before outside it", "order", "gpu_then > quota[0] or", "False or"),
    Mutation(
        "older queues first",
        "order",
        "return queues.created_at[queue], queue",
        "return -queues.created_at[queue], queue",
    ),
    Mutation("job priority orders a queue", "order", "priority = -columns.rules[group].priority if", "priority = 0 if"),
    Mutation(
        "reclaim stays within the fair share",
        "reclaim",
        "within(plus(queues.held[queue], need), queues.fair[queue])",
        "within(queues.held[queue], queues.fair[queue])",
    ),
    Mutation(
        "reclaim leaves the other less saturated",
        "reclaim",
        "here * multiplier >= there",
        "here * multiplier > there + 9",
    ),
    Mutation(
        "what moves is not taken",
        "reclaim",
        "columns.hold[pod] == RELEASING and columns.promise_node[pod] != NOWHERE\n",
        "False and columns.promise_node[pod] != NOWHERE\n",
    ),
    Mutation("minimum runtime protects", "runtime", "return until if columns.now < until else None", "return None"),
    Mutation("the nearest minimum runtime counts", "runtime", "for value in reversed(values)", "for value in values"),
    Mutation(
        "a protected elastic group keeps its minimum",
        "runtime",
        "sets.active[each] >= sets.minimum[each] for each in",
        "sets.active[each] >= 0 for each in",
    ),
    Mutation("stale gangs have a grace", "stale_gangs", "ends_at > columns.now", "ends_at < columns.now"),
    Mutation("moves are bounded", "consolidate", "bound = columns.policy.max_moved_groups", "bound = 1"),
    Mutation("sharers join devices in use", "score", "points += SHARING", "points += 0"),
    Mutation("free at once is better", "score", "points += AVAILABLE", "points -= AVAILABLE"),
    Mutation("CPU pods keep off GPU nodes", "score", "points += NO_GPUS", "points += 0"),
    Mutation(
        "pack the fullest node",
        "score",
        "            if self.packs:\n                return free\n",
        "            if self.packs:\n                return -free\n",
    ),
    Mutation(
        "memory of a device is not exceeded", "fit", "staying + coming <= free and device", "staying <= free and device"
    ),
    Mutation(
        "anti-affinity is mutual",
        "fit",
        "and not (shape.labels and self._has_anti_affinity",
        "and not (False and self._has_anti_affinity",
    ),
    Mutation(
        "the first of its kind may go anywhere",
        "fit",
        "return set(term.labels) <= set(self.columns.shape(pod).labels)",
        "return False",
    ),
    Mutation(
        "the roomiest domain is preferred",
        "topology",
        "node: 10 * (place + 1) // len(domains)",
        "node: 10 * (len(domains) - place) // len(domains)",
    ),
    Mutation(
        "the tightest domain first",
        "topology",
        "key=lambda each: (-self.tightness(each), each)",
        "key=lambda each: (self.tightness(each), each)",
    ),
    Mutation("a claim serves its own queue", "device_claims", "claim.queue != queue", "False"),
    Mutation("a claim stays on its node", "device_claims", "self.places[name][0] != node or", "False or"),
    Mutation("preferred nodes first", "score", "points += PREFERENCE *", "points += 0 *"),
)


def main() -> int:
    asked = _arguments()
    if asked.here:
        return _differs(asked.seeds)
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for each in MUTATIONS:
            if asked.only in f"{each.module} {each.rule}" and not _is_caught(each, source.parent, asked.seeds):
                missed.append(each)
    print(f"{len(missed)} missed{':' if missed else ''} {', '.join(each.rule for each in missed)}".rstrip())
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--only", default="")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _is_caught(mutation: Mutation, folder: Path, seeds: int) -> bool:
    file = folder / SCHEDULER / f"{mutation.module}.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(mutated(text, mutation), encoding="utf-8")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.oracle.mutations", "--here", "--seeds", str(seeds)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        file.write_text(text, encoding="utf-8")
    last = (done.stdout or done.stderr).strip().splitlines()[-1:]
    print(
        f"{'caught' if done.returncode else 'MISSED':8}{mutation.module}: {mutation.rule} {' '.join(last)}", flush=True
    )
    return done.returncode != 0


def mutated(text: str, mutation: Mutation) -> str:
    """The text of a module with the mutation. It must fit in exactly one place."""
    assert text.count(mutation.before) == 1, f"{mutation.module}: {mutation.rule}: the code has changed"
    return text.replace(mutation.before, mutation.after)


def _differs(seeds: int) -> int:
    """1 at the first world in which the scheduler on the path and the oracle differ."""
    from tests.oracle.test_agreement import KINDS, POLICIES, check

    for seed in range(seeds):
        for profile, feature in KINDS:
            for policy in POLICIES:
                try:
                    check(range(seed, seed + 1), profile, feature, policy)
                except Exception as error:
                    how = "" if isinstance(error, AssertionError) else f": {type(error).__name__}"
                    print(f"(world {seed}, {profile}, {feature}, {policy}{how})")
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
