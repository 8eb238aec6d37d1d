"""`fairpool snapshot`: create snapshot files."""

from __future__ import annotations

import sys

import click

from fairpool.cli.failure import UNUSABLE, fail


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def snapshot() -> None:
    """Create snapshot files to plan.

    Example: fairpool snapshot example demo.snapshot
    """


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
