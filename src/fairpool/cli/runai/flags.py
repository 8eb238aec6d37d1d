"""Flags and help of `runai` and `runai-adm`: global flags, flags in sections, examples, hints for typing errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from fairpool.cli.failure import on_terminal
from fairpool.cli.lazy_group import HELP, LazyGroup
from fairpool.cli.root_command import RootCommand
from fairpool.cli.screen import printable

OTHER_DASHES = "–—−"
DASHES = f"-{OTHER_DASHES}"
EVERYWHERE = "Global flags"
COMPLETE_SENTENCES = frozenset(
    {
        "access.denied",
        "access.not_signed_in",
        "gpu.memory_too_small",
        "gpu.mig_profile",
        "job.unknown",
        "pod.not_running",
        "project.unknown",
        "project.none",
        "spec.no_image",
        "spec.parallelism_alone",
        "spec.tty_without_stdin",
        "workload.exists",
        "workload.name",
    }
)
"""Problems whose words are those of the product's older command, which scripts look for: printed without their fix."""


@dataclass(frozen=True, slots=True)
class KindFilter:
    """The kind of workload that a group of commands is about, as in `runai training`."""

    noun: str
    types: tuple[str, ...]
    """As the API names them; empty: all."""
    framework: str | None = None
    """Only distributed training with this framework."""

    def includes(self, type_: str, framework: str | None) -> bool:
        is_of_type = not self.types or type_ in self.types
        return is_of_type and (self.framework is None or self.framework == framework)


EVERY_KIND = KindFilter("job", ())


@dataclass
class GlobalOptions:
    """Flags that every command takes, and messages at the level that they set."""

    server: str | None = None
    project: str | None = None
    config: str | None = None
    context: str | None = None
    loglevel: str = "info"
    kind: KindFilter = EVERY_KIND
    """Jobs of other kinds are not listed, and refused where they are named."""

    def notice(self, text: str) -> None:
        """A message at level info."""
        if self.loglevel in ("debug", "info"):
            click.echo(on_terminal(printable(text)), err=True)

    def warn(self, text: str) -> None:
        if self.loglevel != "error":
            click.echo(on_terminal(printable(text)), err=True)

    def warn_each(self, warnings: Iterable[str]) -> None:
        """Warnings of the server, each once."""
        for each in dict.fromkeys(warnings):
            self.warn(f"Warning: {each}")


class Flag(click.Option):
    """An option with its section in the help."""

    def __init__(self, *args: Any, section: str = "Options", taken_for: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.section = section
        self.taken_for = taken_for
        """Names of the same flag in other tools: refused, with a hint at this one."""


def flag(*names: str, section: str = "Options", **attributes: Any) -> Callable[[Any], Any]:
    """`click.option`, with a section."""
    return click.option(*names, cls=Flag, section=section, **attributes)


def _remembered(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def remember(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        options = ctx.ensure_object(GlobalOptions)
        if value is not None:
            setattr(options, name, value)
        return value

    return remember


def project_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """For completion; imported only then."""
    from fairpool.cli.runai.suggestions import existing_projects

    return existing_projects(ctx, incomplete)


def asset_names(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """For completion of assets of a kind; imported only then."""

    def names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        from fairpool.cli.runai.suggestions import existing_assets

        return existing_assets(ctx, kind, incomplete)

    return names


template_names = asset_names("workload-template")


def context_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """For completion; imported only then."""
    from fairpool.cli.runai.suggestions import contexts

    return contexts(ctx, incomplete)


def everywhere(*, with_project: bool = True) -> list[click.Parameter]:
    """The flags that every command takes, before or after its name."""
    section = EVERYWHERE
    flags: list[click.Parameter] = [
        Flag(
            ["--server"],
            metavar="ADDRESS",
            expose_value=False,
            callback=_remembered("server"),
            section=section,
            help="Address of the control plane. Default: FAIRPOOL_SERVER, FAIRPOOL_LISTEN, the context in use, the "
            "server of the last login, or http://127.0.0.1:8080.",
        ),
        Flag(
            ["--context"],
            metavar="NAME",
            expose_value=False,
            callback=_remembered("context"),
            shell_complete=context_names,
            section=section,
            help="Context, see `runai context` (default: FAIRPOOL_CONTEXT, or the one in use).",
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


class Command(click.Command):
    """A command that does something. Its help ends with an example."""

    def __init__(self, *args: Any, example: str, with_project: bool = True, **attributes: Any) -> None:
        shape = {"context_settings": HELP, "options_metavar": "[FLAGS]", "epilog": f"Example: {example}"}
        super().__init__(*args, **(shape | attributes))
        known = {name for each in self.params for name in each.opts}
        self.params += [each for each in everywhere(with_project=with_project) if not known & set(each.opts)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _with_hyphens(self, ctx, args))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_sections(self, ctx, formatter)


def command(
    name: str, example: str, *, cls: type[Command] = Command, **attributes: Any
) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command. Its one line of text in the help of its group is in the table of the group."""
    return click.command(name, cls=cls, example=example, **attributes)


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


def _with_hyphens(command: click.Command, ctx: click.Context, args: Sequence[str]) -> list[str]:
    """Hyphens instead of the typographic dashes that flags have where they are copied from a document."""
    known = {name for each in command.get_params(ctx) for name in (*each.opts, *each.secondary_opts)}
    end = args.index("--") if "--" in args else len(args)
    read = list(args)
    for index, arg in enumerate(args[:end]):
        if arg[:1] not in OTHER_DASHES or not arg[1:2].strip():
            continue
        word = arg.lstrip(DASHES)
        name, is_given, value = word.partition("=")
        meant = f"-{name}" if len(name) == 1 else f"--{name}"
        if meant not in known:
            ctx.fail(f"{arg!r} starts with a typographic dash: write {meant}")
        ctx.ensure_object(GlobalOptions).notice(f"Note: {arg} was read as {meant}{is_given}{value}.")
        read[index] = f"{meant}{is_given}{value}"
    return read


class Group(LazyGroup):
    """A group of commands of `runai` or `runai-adm`."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **({"options_metavar": "[FLAGS]"} | attributes))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {name for each in self.get_params(ctx) for name in each.opts}
        is_unnamed = not args or (args[0][:1] in DASHES and args[0].partition("=")[0] not in own)
        if self.default and is_unnamed and (args or not ctx.resilient_parsing):  # completion still asks which
            args = [self.default, *args]
        # What follows the first word may belong to a command below.
        return super().parse_args(ctx, [*_with_hyphens(self, ctx, args[:1]), *args[1:]])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        _write_sections(self, ctx, formatter)


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from fairpool import __version__

        click.echo(f"{ctx.command_path} {__version__}")
        ctx.exit()


class RunaiProgram(RootCommand, Group):
    """`runai` or `runai-adm` as a whole."""

    def __init__(self, *args: Any, with_project: bool = True, **attributes: Any) -> None:
        super().__init__(*args, complete=COMPLETE_SENTENCES, **attributes)
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
