"""`fairpool snapshot`: create snapshot files."""

from __future__ import annotations

import sys

import click

from fairpool.cli.failure import UNUSABLE, fail


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--live", "file", metavar="FILE", help="Write what the scheduler of a running cluster sees to FILE.")
@click.option("--cycle", type=int, metavar="NUMBER", help="With --live: what it saw in a past cycle.")
@click.option("--cycles", is_flag=True, help="List the past cycles that are kept, the newest first.")
@click.option("--cluster", metavar="NAME", help="The cluster (default: the only one).")
@click.option("--node-pool", "pool", metavar="NAME", help="The node pool (default: the only one).")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@click.pass_context
def snapshot(
    ctx: click.Context,
    file: str | None,
    cycle: int | None,
    cycles: bool,
    cluster: str | None,
    pool: str | None,
    force: bool,
) -> None:
    """Create snapshot files to plan: of a running cluster, or of an example.

    A snapshot contains what the scheduler reads: nodes, quotas, and the size and place of pods. It contains no
    commands, arguments or environments. You need to be signed in with `runai login` as an administrator.

    The latest 200 cycles in which something changed are kept. To see why a decision was made, save the cycle and plan
    it again.

    Example: fairpool snapshot --live now.snapshot && fairpool plan now.snapshot
    """
    if ctx.invoked_subcommand is not None:
        return
    if cycles:
        _list_cycles(cluster)
    elif file is not None:
        _write_live(file, cluster, pool, cycle, force)
    else:
        click.echo(ctx.get_help())


def _list_cycles(cluster: str | None) -> None:
    from fairpool.cli.live import past_cycles
    from fairpool.cli.screen import Screen

    found = past_cycles(cluster)
    rows = [(str(each.number), each.taken_at, each.node_pool, str(each.size_bytes)) for each in found]
    screen = Screen.here(every_row=True)
    screen.table(("CYCLE", "TIME", "NODE POOL", "BYTES"), rows)
    screen.show()


def _write_live(file: str, cluster: str | None, pool: str | None, cycle: int | None, force: bool) -> None:
    from fairpool.cli.live import live_snapshot
    from fairpool.replay.saved import STANDARD_STREAM, save_bytes

    if file == STANDARD_STREAM and sys.stdout.isatty():
        raise click.UsageError("A snapshot is binary: name a FILE or pipe it to another program.")
    problem = save_bytes(live_snapshot(cluster, pool, cycle), file, overwrite=force)
    if problem is not None:
        fail([problem], UNUSABLE)
    if file != STANDARD_STREAM:
        click.echo(f"Wrote {file}. Plan it with: fairpool plan {file}")


@snapshot.command(epilog="Example: fairpool snapshot example demo.snapshot && fairpool plan demo.snapshot")
@click.argument("file")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
def example(file: str, force: bool) -> None:
    """Write a small cluster to FILE, to try `fairpool plan` with. `-` writes to standard output.

    Two departments, four nodes, and jobs in every situation: starting, preempted, waiting.

    Exit codes: 0 written; 2 it could not be.
    """
    from fairpool.replay.example import example_snapshot
    from fairpool.replay.saved import STANDARD_STREAM, save

    if file == STANDARD_STREAM and sys.stdout.isatty():
        raise click.UsageError("A snapshot is binary: name a FILE or pipe it to another program.")
    problem = save(example_snapshot(), file, overwrite=force)
    if problem is not None:
        fail([problem], UNUSABLE)
    if file != STANDARD_STREAM:
        click.echo(f"Wrote {file}. Plan it with: fairpool plan {file}")
