"""Groups of commands that import a command only when it is called.

Help and completion must come at once, so a `LazyGroup` knows its commands by name and one line of text. `fairpool`,
`runai` and `runai-adm` are all made of this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from fairpool.model.spelling import did_you_mean

HELP = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """One command of a group, before it is imported."""

    text: str
    load: Callable[[], click.Command]
    hidden: bool = False


def lazy(text: str, place: str, *arguments: str, hidden: bool = False) -> LazyCommand:
    """A command by module and name, as `fairpool.cli.plan:plan`; or of the function there, called with `arguments`."""

    def load() -> click.Command:
        module, _, name = place.partition(":")
        found = getattr(import_module(module), name)
        command = found if isinstance(found, click.Command) else found(*arguments)
        assert isinstance(command, click.Command), place
        return command

    return LazyCommand(text, load, hidden)


class LazyGroup(click.Group):
    """A group of commands, each imported when it is called."""

    def __init__(
        self,
        *args: Any,
        members: Mapping[str, LazyCommand],
        example: str,
        aliases: Mapping[str, str] | None = None,
        default: str | None = None,
        likely: str | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **({"context_settings": HELP, "epilog": f"Example: {example}"} | attributes))
        self.members = members
        self.aliases = aliases or {}
        self.default = default
        """The command that is meant where none is named."""
        self.likely = likely
        """The command that was probably left out where a name follows at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.members)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        member = self.members.get(self.aliases.get(cmd_name, cmd_name))
        return member.load() if member is not None else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, member.text) for name, member in self.members.items() if not member.hidden])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Names only: to look a command up would import it."""
        from click.shell_completion import CompletionItem

        shown = [
            CompletionItem(name, help=member.text)
            for name, member in self.members.items()
            if name.startswith(incomplete) and not member.hidden
        ]
        return shown + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.aliases.get(name, name) not in self.members:
            known = [each for each, member in self.members.items() if not member.hidden]
            forgotten = f"did you mean {ctx.command_path} {self.likely} {name}?"
            near = did_you_mean(name, known, forgotten if self.likely else f"see `{ctx.command_path} --help`")
            ctx.fail(f"there is no command {ctx.command_path} {name}: {self._turned(ctx, args) or near}")
        return super().resolve_command(ctx, args)

    def _turned(self, ctx: click.Context, args: list[str]) -> str:
        """`create project` for `project create`."""
        noun = self.members.get(args[1]) if len(args) > 1 else None
        group = noun.load() if noun is not None and not noun.hidden else None
        is_verb_of_it = isinstance(group, LazyGroup) and args[0] in group.members
        return f"did you mean {ctx.command_path} {args[1]} {args[0]}?" if is_verb_of_it else ""
