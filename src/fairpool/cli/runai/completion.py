"""`completion bash|zsh|fish` and `version`: two commands that need no server."""

from __future__ import annotations

import platform

import click

from fairpool import __version__
from fairpool.cli.runai.flags import command, flag

SHELLS = ("bash", "zsh", "fish")
BEFORE = {
    # Without this zsh knows no compdef, and a person sees an error at every start.
    "zsh": "(( $+functions[compdef] )) || { autoload -U compinit; compinit -i; }\n",
}


def completion_for(program: str) -> click.Command:
    """The command that prints the script of one program."""

    @command("completion", f"source <({program} completion bash)", with_project=False)
    @click.argument("shell", type=click.Choice(SHELLS))
    @click.pass_context
    def completion(ctx: click.Context, shell: str) -> None:
        """Print a shell script that completes commands, flags and the names of projects, jobs and nodes.

        To load it in every shell, add the example line to ~/.bashrc or ~/.zshrc. For fish, save the script in
        ~/.config/fish/completions.
        """
        from click.shell_completion import get_completion_class

        kind = get_completion_class(shell)
        assert kind is not None, "Click knows all three"
        variable = f"_{program.upper().replace('-', '_')}_COMPLETE"
        values = kind(ctx.find_root().command, {}, program, variable).source_vars()
        # Not `source()`: that starts a bash of its own to look at its version.
        click.echo(BEFORE.get(shell, "") + kind.source_template % values)

    return completion


def version_command(program: str) -> click.Command:
    """The command that prints the version of one program."""

    @command("version", f"{program} version --short", with_project=False)
    @flag("--short", is_flag=True, help="Print only the version number.")
    def version(short: bool) -> None:
        """Print the version of this command."""
        if short:
            click.echo(__version__)
            return
        click.echo(f"Version: {__version__}")
        click.echo(f"Python: {platform.python_version()}")
        click.echo(f"Platform: {platform.system().lower()}/{platform.machine()}")

    return version
