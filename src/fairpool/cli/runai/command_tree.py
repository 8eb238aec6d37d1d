"""The shape of a command: groups that import what is called, flags in sections, errors in one line, hints for slips.

Help and completion must come at once, so a `Branch` knows its commands by name and one line of text, and imports a
command only when it is called. `runai` and `runai-adm` are both made of this.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click

from fairpool.cli.complaint import unexpected
from fairpool.cli.runai.failure import ERROR, INTERRUPTED, Failure, tell
from fairpool.cli.screen import printable
from fairpool.model.spelling import did_you_mean

HELP = {"help_option_names": ["-h", "--help"]}
OTHER_DASHES = "–—−"
EVERYWHERE = "Global flags"


@dataclass
class Here:
    """What the flags that every command takes have said."""

    server: str | None = None
    project: str | None = None
    config: str | None = None
    loglevel: str = "info"

    def notice(self, text: str) -> None:
        """Something worth knowing that is no answer; silent where only warnings are wanted."""
        if self.loglevel in ("debug", "info"):
            click.echo(printable(text), err=True)

    def warn(self, text: str) -> None:
        if self.loglevel != "error":
            click.echo(printable(text), err=True)


@dataclass(frozen=True, slots=True)
class Twig:
    """One command of a branch, before it is imported."""

    text: str
    load: Callable[[], click.Command]
    hidden: bool = False


class Flag(click.Option):
    """An option with its place in the help."""

    def __init__(self, *args: Any, section: str = "Options", taken_for: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.section = section
        self.taken_for = taken_for
        """What people type who know another tool's name for it: refused, and told this one."""


def flag(*names: str, section: str = "Options", **attributes: Any) -> Callable[[Any], Any]:
    """`click.option`, with a section."""
    return click.option(*names, cls=Flag, section=section, **attributes)


def _remembered(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def remember(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        here = ctx.ensure_object(Here)
        if value is not None:
            setattr(here, name, value)
        return value

    return remember


def project_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """For completion; imported when somebody presses TAB."""
    from fairpool.cli.runai.suggestions import projects

    return projects(ctx, incomplete)


def everywhere(*, with_project: bool = True) -> list[click.Parameter]:
    """The flags that every command takes, at the end or before its name."""
    section = EVERYWHERE
    flags: list[click.Parameter] = [
        Flag(
            ["--server"],
            metavar="ADDRESS",
            expose_value=False,
            callback=_remembered("server"),
            section=section,
            help="Address of the control plane. Default: FAIRPOOL_SERVER, FAIRPOOL_LISTEN, the server of the last "
            "login, or http://127.0.0.1:8080.",
        ),
        Flag(
            ["--config-path", "config"],
            metavar="FOLDER",
            expose_value=False,
            callback=_remembered("config"),
            section=section,
            help="Folder for settings and logins. Default: FAIRPOOL_CONFIG, or ~/.config/fairpool.",
        ),
        Flag(
            ["--loglevel"],
            type=click.Choice(["debug", "info", "warn", "error"]),
            expose_value=False,
            callback=_remembered("loglevel"),
            section=section,
            help="Level of the messages on standard error (info).",
        ),
    ]
    if with_project:
        flags.insert(
            0,
            Flag(
                ["--project", "-p"],
                metavar="NAME",
                expose_value=False,
                callback=_remembered("project"),
                shell_complete=project_names,
                section=section,
                help="Project (default: the one set with `runai config project`).",
            ),
        )
    return flags


class Leaf(click.Command):
    """A command that does something. Its help ends with an example."""

    def __init__(self, *args: Any, example: str, with_project: bool = True, **attributes: Any) -> None:
        shape = {"context_settings": HELP, "options_metavar": "[FLAGS]", "epilog": f"Example: {example}"}
        super().__init__(*args, **(shape | attributes))
        known = {name for each in self.params for name in each.opts}
        self.params += [each for each in everywhere(with_project=with_project) if not known & set(each.opts)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _check_dashes(ctx, args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_sections(self, ctx, formatter)


def _write_sections(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
        if record is not None:
            # `--help` is no flag of ours; it stands with those of every command, at the end.
            sections.setdefault(getattr(parameter, "section", EVERYWHERE), []).append(record)
    sections |= {EVERYWHERE: sections.pop(EVERYWHERE, [])}
    for section, records in sections.items():
        with formatter.section(section):
            formatter.write_dl(records)


def _check_dashes(ctx: click.Context, args: Sequence[str]) -> None:
    """A flag that was copied from a typeset page begins with a dash that only looks like one."""
    for arg in args:
        if arg == "--":
            return
        if arg[:1] in OTHER_DASHES and arg[1:2].strip():
            ctx.fail(f"{arg!r} starts with a typographic dash: write --{arg.lstrip(OTHER_DASHES + '-')}")


class Branch(click.Group):
    """A group of commands, each imported when it is called."""

    def __init__(
        self,
        *args: Any,
        twigs: Mapping[str, Twig],
        example: str,
        aliases: Mapping[str, str] | None = None,
        default: str | None = None,
        likely: str | None = None,
        **attributes: Any,
    ) -> None:
        shape = {"context_settings": HELP, "options_metavar": "[FLAGS]", "epilog": f"Example: {example}"}
        super().__init__(*args, **(shape | attributes))
        self.twigs = twigs
        self.aliases = aliases or {}
        self.default = default
        """What is meant where no command is named."""
        self.likely = likely
        """What somebody has forgotten who gives a name at once."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _check_dashes(ctx, args)
        own = {name for each in self.get_params(ctx) for name in each.opts}
        is_unnamed = not args or (args[0].startswith("-") and args[0].partition("=")[0] not in own)
        if self.default and is_unnamed and (args or not ctx.resilient_parsing):  # completion still asks which
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.twigs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        twig = self.twigs.get(self.aliases.get(cmd_name, cmd_name))
        return twig.load() if twig is not None else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, twig.text) for name, twig in self.twigs.items() if not twig.hidden])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        _write_sections(self, ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Names only: to look a command up would import it."""
        from click.shell_completion import CompletionItem

        shown = [
            CompletionItem(name, help=twig.text)
            for name, twig in self.twigs.items()
            if name.startswith(incomplete) and not twig.hidden
        ]
        return shown + click.Command.shell_complete(self, ctx, incomplete)

    def _turned(self, ctx: click.Context, args: list[str]) -> str:
        """`create project` for `project create`."""
        noun = self.twigs.get(args[1]) if len(args) > 1 else None
        branch = noun.load() if noun is not None and not noun.hidden else None
        is_verb_of_it = isinstance(branch, Branch) and args[0] in branch.twigs
        return f"did you mean {ctx.command_path} {args[1]} {args[0]}?" if is_verb_of_it else ""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.aliases.get(name, name) not in self.twigs:
            known = [each for each, twig in self.twigs.items() if not twig.hidden]
            forgotten = f"did you mean {ctx.command_path} {self.likely} {name}?"
            near = did_you_mean(name, known, forgotten if self.likely else f"see `{ctx.command_path} --help`")
            ctx.fail(f"there is no command {ctx.command_path} {name}: {self._turned(ctx, args) or near}")
        return super().resolve_command(ctx, args)


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from fairpool import __version__

        click.echo(f"{ctx.command_path} {__version__}")
        ctx.exit()


class Root(Branch):
    """The whole command: what went wrong is one line, and ends with 1."""

    def __init__(self, *args: Any, with_project: bool = True, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params += everywhere(with_project=with_project)
        self.params.append(
            Flag(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_version,
                section=EVERYWHERE,
                help="Print the version and exit.",
            )
        )

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **attributes: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, **attributes)
        if sys.stdout is None:
            _say("standard output is closed: check where the output is redirected")
            sys.exit(ERROR)
        try:
            answer = super().main(args, prog_name, complete_var, False, **attributes)
            sys.exit(answer if isinstance(answer, int) else 0)
        except Failure as failed:
            tell(failed)
            sys.exit(failed.exit_code)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            sys.exit(0)
        except click.NoSuchOption as error:
            near = did_you_mean(error.option_name, _flags_near(error), _see_help(error))
            _say(f"there is no flag {error.option_name}: {_other_name(error) or near}")
            sys.exit(ERROR)
        except click.MissingParameter as error:
            _say(_missing(error))
            sys.exit(ERROR)
        except click.UsageError as error:
            _say(_first_lower(error.format_message().rstrip(".")))
            sys.exit(ERROR)
        except click.ClickException as error:
            _say(error.format_message())
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            with suppress(OSError):
                click.echo(err=True)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            sys.exit(0)  # the reader has seen enough
        except OSError as error:
            what = f"could not access {error.filename}" if error.filename else "could not write the output"
            _say(f"{what}: {_first_lower(error.strerror or str(error))}")
            sys.exit(ERROR)
        except Exception as error:  # a traceback could show a password
            arguments = [*(sys.argv[1:] if args is None else args)]
            for line in unexpected(error, with_stack="debug" in arguments).splitlines():
                _say(line)
            sys.exit(ERROR)
        finally:
            _forget_what_cannot_be_written()


def _other_name(error: click.NoSuchOption) -> str:
    """`did you mean -g, --gpu-quota?`, of a flag that has another name elsewhere."""
    known = error.ctx.command.params if error.ctx is not None else []
    found = [each for each in known if isinstance(each, Flag) and error.option_name in each.taken_for]
    return f"did you mean {', '.join(found[0].opts)}?" if found else ""


def _flags_near(error: click.NoSuchOption) -> list[str]:
    """Names like this one, but for those that help does not show either."""
    known = error.ctx.command.params if error.ctx is not None else []
    hidden = {name for each in known if isinstance(each, click.Option) and each.hidden for name in each.opts}
    return [name for name in error.possibilities or () if name not in hidden]


def _missing(error: click.MissingParameter) -> str:
    """`NAME is missing: runai describe job [FLAGS] NAME`."""
    if error.param is None or error.ctx is None:
        return _first_lower(error.format_message().rstrip("."))
    name = error.param.opts[0] if isinstance(error.param, click.Option) else error.param.make_metavar(error.ctx)
    usage = " ".join(error.ctx.command.collect_usage_pieces(error.ctx))
    return f"{name} is missing: {error.ctx.command_path} {usage}"


def _see_help(error: click.UsageError) -> str:
    return f"see `{error.ctx.command_path} --help`" if error.ctx is not None else "see --help"


def _first_lower(text: str) -> str:
    second_is_lower = text[1:2].islower()
    return text[:1].lower() + text[1:] if second_is_lower else text


def _say(text: str) -> None:
    with suppress(OSError):
        click.echo(printable(text), err=True)


def _forget_what_cannot_be_written() -> None:
    """What is left in a buffer would be tried again, and complained about, after everything has been said."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
