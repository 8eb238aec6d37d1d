"""The flags of a server: handed on to one in the background, and compared with those of one that runs already."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fairpool.cli.server_flags import NOT_IN_FILES
from fairpool.platform.data_directory import DataDirectory, PlatformError, directory_problem
from fairpool.platform.directory_lock import LockHolder

NOT_TYPED_AGAIN = frozenset({"data", "first_password_file", "database", "ledger"})
"""Handed to a server in the background in other ways: secrets must not show in a process listing."""


@dataclass(frozen=True, slots=True)
class GivenFlags:
    """Values of flags, as one would type them in another directory."""

    given: Mapping[str, list[str]]
    """Those that were given, by whatever way."""
    in_effect: Mapping[str, list[str]]
    """Those, and the defaults of the others."""

    @property
    def words(self) -> list[str]:
        return [word for flag, values in self.given.items() for value in values for word in (flag, value)]


def given_flags(context: click.Context) -> GivenFlags:
    given, in_effect = {}, {}
    for each in context.command.params:
        if not isinstance(each, click.Option) or each.name in {*NOT_IN_FILES, *NOT_TYPED_AGAIN}:
            continue
        value = context.params[str(each.name)]
        texts = [_text(item) for item in (value if each.multiple else (value,)) if item is not None]
        in_effect[each.opts[0]] = texts
        if context.get_parameter_source(str(each.name)) is not click.core.ParameterSource.DEFAULT:
            given[each.opts[0]] = texts
    return GivenFlags(given, in_effect)


def _text(value: Any) -> str:
    return str(value.expanduser().absolute() if isinstance(value, Path) else value)


def record(data_directory: DataDirectory, flags: GivenFlags) -> None:
    """Write down the flags of this process, for a caller that holds the lock. Raises `PlatformError`."""
    text = json.dumps({"pid": os.getpid(), "flags": flags.in_effect}, indent=1)
    try:
        data_directory.flags.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise PlatformError(directory_problem(data_directory.root, error)) from error


def differing(data_directory: DataDirectory, holder: LockHolder, flags: GivenFlags) -> list[str] | None:
    """The flags that were given with other values than the running server has; None: those are not known, because it
    is of an earlier version or has just begun."""
    try:
        recorded = json.loads(data_directory.flags.read_text(encoding="utf-8"))
        has = recorded["flags"]
        if recorded["pid"] != holder.pid:
            return None
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return [flag for flag, values in flags.given.items() if has.get(flag) != values]
