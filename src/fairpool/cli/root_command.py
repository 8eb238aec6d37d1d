"""Error handling of all commands: every exception becomes lines on standard error and an exit code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import click

from fairpool.cli.failure import ERROR, INTERRUPTED, Failure, print_failure, unexpected
from fairpool.cli.lazy_group import LazyGroup
from fairpool.cli.screen import printable
from fairpool.model.spelling import did_you_mean

_UNEXPECTED = re.compile(r"Got unexpected extra argument(s?) \((.*)\)\.?", re.DOTALL)
"""As Click words it."""


class RootCommand(LazyGroup):
    """The root of a command line.

    `error_code`: for wrong usage and for files and output that cannot be used; `complete`: codes of problems that are
    printed without their fix.
    """

    def __init__(
        self, *args: Any, error_code: int = ERROR, complete: frozenset[str] = frozenset(), **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self.error_code = error_code
        self.complete = complete

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
            self._end("could not write the output: standard output is closed: check where it is redirected")
        try:
            answer = super().main(args, prog_name, complete_var, False, **attributes)
            sys.exit(answer if isinstance(answer, int) else 0)
        except Failure as failed:
            print_failure(failed, self.complete)
            sys.exit(failed.exit_code)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            sys.exit(0)
        except click.ClickException as error:
            self._end(_usage(error), None if isinstance(error, click.UsageError) else error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            with suppress(OSError):
                click.echo(err=True)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            sys.exit(0)  # the reader has seen enough
        except OSError as error:
            what = f"could not access {error.filename}" if error.filename else "could not write the output"
            self._end(f"{what}: {_first_lower(error.strerror or str(error))}")
        except Exception as error:
            for line in self.describe_bug(error, [*(sys.argv[1:] if args is None else args)]):
                _print(line)
            sys.exit(ERROR)
        finally:
            _discard_unwritable_output()

    def describe_bug(self, error: Exception, arguments: Sequence[str]) -> list[str]:
        """No traceback, which could show a password."""
        return unexpected(error, with_stack="debug" in arguments).splitlines()

    def _end(self, text: str, code: int | None = None) -> NoReturn:
        _print(text)
        sys.exit(self.error_code if code is None else code)


def _usage(error: click.ClickException) -> str:
    """What is wrong with the words of a command, in one line."""
    match error:
        case click.NoSuchOption():
            near = did_you_mean(error.option_name, _flags_near(error), _see_help(error))
            return f"there is no flag {error.option_name}: {_other_name(error) or near}"
        case click.MissingParameter():
            return _missing(error)
        case click.BadParameter(param=click.Parameter() as param):
            return _bad_value(error, param)
        case click.BadOptionUsage():
            wrong = "needs a value" if "requires" in error.message else "takes no value"
            return f"{error.option_name} {wrong}"
        case click.UsageError() if extra := _UNEXPECTED.fullmatch(error.message):
            return f"unexpected argument{extra[1]} {extra[2]}: {_see_help(error)}"
        case click.UsageError():
            return _first_lower(error.format_message().rstrip("."))
        case _:
            return error.format_message()


def _other_name(error: click.NoSuchOption) -> str:
    """`did you mean -g, --gpu-quota?`, of a flag that has another name in another tool."""
    known = error.ctx.command.params if error.ctx is not None else []
    found = [each for each in known if error.option_name in getattr(each, "taken_for", ())]
    return f"did you mean {', '.join(found[0].opts)}?" if found else ""


def _flags_near(error: click.NoSuchOption) -> list[str]:
    """Names like this one, but for those that help does not show either."""
    known = error.ctx.command.params if error.ctx is not None else []
    hidden = {name for each in known if isinstance(each, click.Option) and each.hidden for name in each.opts}
    return [name for name in error.possibilities or () if name not in hidden]


def _bad_value(error: click.BadParameter, param: click.Parameter) -> str:
    """`--runtime: 'x' is not one of process, podman, docker`."""
    long = [each for each in param.opts if each.startswith("--")]
    name = (long or param.opts)[0] if isinstance(param, click.Option) else param.human_readable_name
    value, of, choices = _first_lower(error.message.rstrip(".")).partition(" is not one of ")
    return f"{name}: {value}{of}{choices.replace(chr(39), '')}"


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


def _print(text: str) -> None:
    with suppress(OSError):
        click.echo(printable(text), err=True)


def _discard_unwritable_output() -> None:
    """What is left in a buffer would be written again, and fail again, when Python exits."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
