"""`fairpool plan FILE`: plan a saved snapshot again, ask about one group, or ask what if.

Only flags and texts are here at the top: the scheduler with NumPy is imported once there is something to plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from fairpool.cli.failure import ERROR, UNUSABLE, fail
from fairpool.model.spelling import unknown_name

if TYPE_CHECKING:
    from fairpool.cli.live import LiveNames
    from fairpool.cli.screen import Screen
    from fairpool.replay.planned import Replay
    from fairpool.replay.whatif import Changes
    from fairpool.scheduler.snapshot_file import Loaded

LIVE = "the live snapshot"

HELP = """Plan the snapshot in FILE: what starts where, what is preempted or waits, and why. `-` reads standard input.

Nothing is started or stopped. The same file produces the same plan on every machine. With --live in place of FILE, the
snapshot is that of a running cluster.

\b
What if: change the snapshot and compare both plans.
  --set project.NAME.quota=6        also limit, weight, over_quota, priority,
                                    cpu_quota, memory_limit=64G, ...
  --set department.NAME.quota=20    the same fields
  --set node.NAME.cordoned=true     fields of a node; also group.NAME.priority
  --set policy.FIELD=VALUE          also pool.gpu_placement=spread
  --add-job name=big,project=vision,gpus=4[,pods=2][,minimum=1][,kind=build]
            [,priority=80][,preemptible][,cpus=8][,memory=64G]
            [,gpu_memory=8000]
                                    amounts are per pod; all pods start
                                    together unless minimum is set; one
                                    CPU per GPU unless cpus is set
  --add-node name=gpu-9,like=gpu-1[,count=2][,gpus=8][,cpus=64][,memory=512G]
            [,gpu_memory=40960]     an empty node, ready
  --without-node NAME               its pods are queued again
  --without-job NAME                as if it was never submitted
  --later 10m                       advance the clock

\b
Exit codes: 0 planned, or FILE is valid; 1 no such group, or --check found
problems; 2 FILE cannot be read, or the flags are invalid.
"""


@click.command(
    help=HELP,
    epilog="Example: fairpool plan demo.snapshot --set project.vision.quota=6",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("file", required=False)
@click.option("--live", is_flag=True, help="Plan what a running cluster sees now, in place of FILE.")
@click.option("--cluster", metavar="NAME", help="With --live: the cluster (default: the only one).")
@click.option("--node-pool", "pool", metavar="NAME", help="With --live: the node pool (default: the only one).")
@click.option("--explain", "group", metavar="GROUP", help="Show everything about one group.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; docs/reference/plan-json.md lists the fields.")
@click.option("--check", is_flag=True, help="Only validate FILE.")
@click.option("--set", "settings", metavar="PATH=VALUE", multiple=True, help="Change a value. Repeatable.")
@click.option("--add-job", "added_jobs", metavar="KEY=VALUE,...", multiple=True, help="Add a job. Repeatable.")
@click.option("--add-node", "added_nodes", metavar="KEY=VALUE,...", multiple=True, help="Add a node. Repeatable.")
@click.option("--without-node", "without_nodes", metavar="NAME", multiple=True, help="Remove a node. Repeatable.")
@click.option("--without-job", "without_jobs", metavar="NAME", multiple=True, help="Remove a job. Repeatable.")
@click.option("--later", metavar="DURATION", help="Advance the clock by 90s, 10m, 2h or 1d.")
@click.option("--all", "every_row", is_flag=True, help="Do not shorten long tables on a terminal.")
def plan(
    file: str | None,
    live: bool,
    cluster: str | None,
    pool: str | None,
    group: str | None,
    as_json: bool,
    check: bool,
    settings: tuple[str, ...],
    added_jobs: tuple[str, ...],
    added_nodes: tuple[str, ...],
    without_nodes: tuple[str, ...],
    without_jobs: tuple[str, ...],
    later: str | None,
    every_row: bool,
) -> None:
    """Choose what is asked, read the file, answer."""
    from fairpool.replay.whatif import Changes

    changes = Changes(settings, added_jobs, added_nodes, without_nodes, without_jobs, later)
    if check and (changes or group is not None):
        raise click.UsageError("--check cannot be combined with --explain or what-if flags.")
    if live == (file is not None):
        raise click.UsageError("Name a FILE or pass --live.")
    if not live and (cluster or pool):
        raise click.UsageError("--cluster and --node-pool need --live.")
    source = file or LIVE
    called: Callable[[str], str] = str
    if file is not None:
        loaded = _loaded(file)
    else:
        loaded, names = _fetched(cluster, pool)
        called = names.shown
        group = names.group(group) if group is not None else None
        changes = replace(
            changes,
            settings=tuple(map(names.setting, settings)),
            without_jobs=tuple(map(names.group, without_jobs)),
        )
    if check:
        _answer_check(source, loaded, as_json)
    else:
        _answer(source, loaded, changes, group, as_json, lambda: _screen(every_row, called))


def _screen(every_row: bool, called: Callable[[str], str]) -> Screen:
    from fairpool.cli.screen import Screen

    screen = Screen.here(every_row=every_row)
    screen.called = called
    return screen


def _fetched(cluster: str | None, pool: str | None) -> tuple[Loaded, LiveNames]:
    from fairpool.cli.live import LiveNames, live_plan
    from fairpool.model.problem import Problem
    from fairpool.replay.saved import load_bytes

    data, workloads = live_plan(cluster, pool)
    loaded = load_bytes(data, LIVE)
    if isinstance(loaded, Problem):
        fail([loaded], UNUSABLE)
    return loaded, LiveNames.of(workloads, (each.id for each in loaded.snapshot.groups))


def _loaded(file: str) -> Loaded:
    from fairpool.model.problem import Problem
    from fairpool.replay.saved import load

    loaded = load(file)
    if isinstance(loaded, Problem):
        fail([loaded], UNUSABLE)
    return loaded


def _answer_check(file: str, loaded: Loaded, as_json: bool) -> None:
    from fairpool.cli import plan_json
    from fairpool.cli.screen import printable
    from fairpool.scheduler.validation import check as check_rows

    found = [*loaded.notes, *check_rows(loaded.snapshot)]
    if as_json:
        click.echo(plan_json.text({"sound": not found, "problems": plan_json.problems(found)}))
    elif found:
        click.echo(f"{file} can be planned, around {len(found)} problem{'' if len(found) == 1 else 's'}:")
        for problem in found:
            click.echo(f"\n{problem.code}: {printable(problem.what)}\n  fix: {printable(problem.fix)}")
    else:
        click.echo(f"{file} is valid: version {loaded.version}, written by Fairpool {loaded.written_by}.")
    if found:
        raise click.exceptions.Exit(ERROR)


def _answer(
    file: str, loaded: Loaded, changes: Changes, group: str | None, as_json: bool, screen: Callable[[], Screen]
) -> None:
    from fairpool.cli.screen import printable
    from fairpool.model.problem import Problem
    from fairpool.replay.planned import replay
    from fairpool.replay.whatif import apply_changes

    after, done, problems = apply_changes(loaded.snapshot, changes)
    if problems:
        fail(problems, UNUSABLE)
    if group is not None and all(each.id != group for each in (*loaded.snapshot.groups, *after.groups)):
        fail([unknown_name("group", group, (each.id for each in after.groups))], ERROR)
    for note in loaded.notes:
        click.echo(f"note: {printable(note.what)}", err=True)
    before = replay(loaded.snapshot)
    then = replay(after) if changes else None
    if isinstance(before, Problem) or isinstance(then, Problem):
        fail([each for each in (before, then) if isinstance(each, Problem)], UNUSABLE)
    if as_json:
        _print_json(before, then, done, group)
    else:
        _print_tables(screen(), file, before, then, done, group)


def _print_json(before: Replay, then: Replay | None, done: list[str], group: str | None) -> None:
    from fairpool.cli import plan_json
    from fairpool.model.ids import GroupId

    if group is not None:
        name = GroupId(group)
        original = plan_json.explained(before, name)
        document = original or {}
        if then is not None:
            document = {"changes": done, "original": original, "changed": plan_json.explained(then, name)}
    elif then is not None:
        document = plan_json.compared(before, then, done)
    else:
        document = plan_json.plan_document(before)
    click.echo(plan_json.text(document))


def _print_tables(
    screen: Screen, file: str, before: Replay, then: Replay | None, done: list[str], group: str | None
) -> None:
    from fairpool.cli import comparison, inquiry, report
    from fairpool.model.ids import GroupId

    title = f"Plan of {'standard input' if file == '-' else file}"
    if group is not None:
        for heading, side in (("As saved", before), ("With the changes", then)):
            if then is not None:
                screen.title(heading if heading == "As saved" else f"{heading}: {'; '.join(done)}")
            if side is not None and GroupId(group) in side.groups:
                inquiry.draw(screen, side, GroupId(group))
            elif side is not None:
                screen.text(f"There is no group {group}.")
    elif then is not None:
        comparison.draw(screen, before, then, done, title)
    else:
        report.draw(screen, before, title)
    screen.show()
