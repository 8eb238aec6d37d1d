"""`fairpool`: the command with its subcommands, each imported only when it is asked for.

Help must come at once, so nothing below is imported to list the commands: their one-line texts are here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import click

from fairpool import __version__


def _plan() -> click.Command:
    from fairpool.cli.plan import plan

    return plan


def _simulate() -> click.Command:
    from fairpool.cli.simulate import simulate

    return simulate


def _snapshot() -> click.Command:
    from fairpool.cli.snapshot import snapshot

    return snapshot


def _up() -> click.Command:
    from fairpool.cli.up import up

    return up


def _operation(name: str) -> Callable[[], click.Command]:
    def load() -> click.Command:
        from fairpool.cli import operation

        command = getattr(operation, name)
        assert isinstance(command, click.Command)
        return command

    return load


COMMANDS: dict[str, tuple[str, Callable[[], click.Command]]] = {
    "up": ("Start the platform on this machine.", _up),
    "down": ("Stop the server; running pods are not affected.", _operation("down")),
    "status": ("Show whether the platform is up, and its health.", _operation("status")),
    "logs": ("Show the server log.", _operation("logs")),
    "reset-password": ("Set a new password for a user.", _operation("reset_password")),
    "backup": ("Back up projects, workloads, users and settings to a file.", _operation("backup")),
    "restore": ("Restore a backup.", _operation("restore")),
    "plan": ("Plan a saved snapshot: what starts, is preempted or waits, and why.", _plan),
    "simulate": ("Simulate a cluster: a scenario, a trace or an example.", _simulate),
    "snapshot": ("Create snapshot files to plan.", _snapshot),
}


class OnDemand(click.Group):
    """A group that knows its commands by name and imports the one that is called."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        if sys.stdout is None:
            _unanswerable("standard output is closed")
        try:
            return super().main(*args, **kwargs)
        except OSError as error:  # a reader that stopped early does not come here: that is no error
            _unanswerable((error.strerror or str(error)).lower())
        except Exception as error:  # a traceback could show a password
            from fairpool.cli.complaint import unexpected

            click.echo(f"error: {unexpected(error, with_stack=True)}", err=True)
            click.echo(f"  {str(error)[:500]}", err=True)  # of the server's own; wire values are hidden in theirs
            sys.exit(1)
        finally:
            _forget_what_cannot_be_written()

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return COMMANDS[cmd_name][1]() if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (text, _) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from fairpool.model.spelling import did_you_mean

            near = did_you_mean(args[0], COMMANDS, "run `fairpool --help` for a list of commands")
            ctx.fail(f"there is no command {args[0]!r}: {near}")
        return super().resolve_command(ctx, args)


def _unanswerable(why: str) -> NoReturn:
    with suppress(OSError):
        click.echo(f"could not write the output: {why}: check where standard output is redirected", err=True)
    sys.exit(2)


def _forget_what_cannot_be_written() -> None:
    """What is left in a buffer would be tried again, and complained about, after everything has been said."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(
    cls=OnDemand,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: fairpool up",
)
@click.version_option(__version__, prog_name="fairpool", message="%(prog)s %(version)s")
def main() -> None:
    """Share GPUs fairly: quotas for teams, idle GPUs lent and reclaimed, and a reason for every job that waits."""


if __name__ == "__main__":
    main(prog_name="fairpool")
