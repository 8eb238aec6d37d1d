"""Array flags of `runai submit`: `--array`, `--for`, `--array-args`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from fairpool.model.problem import Problem

ARRAY_FILE_MAX = 1 << 20


def array(asked: Mapping[str, Any]) -> dict[str, Any] | Problem | None:
    """The array of the request: runs by index, by named values, or by lines of a file."""
    numbers = (asked["array"] or "").partition("%")[0]
    parameters = []
    for text in asked["array_for"]:
        name, equals, values = text.partition("=")
        if not name or not equals or not values:
            return Problem("flag.for", f"--for {text!r} is not NAME=VALUE,VALUE", "write --for lr=0.1,0.01")
        parameters.append({"name": name, "values": values.split(",")})
    lines: list[list[str]] = []
    if asked["array_args"] is not None:
        found = _lines_of(asked["array_args"])
        if isinstance(found, Problem):
            return found
        lines = found
    said = {"indices": numbers, "parameters": parameters, "arguments": lines}
    return {name: value for name, value in said.items() if value} or None


def at_a_time(asked: Mapping[str, Any]) -> int | None:
    """`--array 0-99%10`: ten at a time."""
    limit = (asked["array"] or "").partition("%")[2]
    return int(limit) if limit.isdecimal() and limit.isascii() else None


def _lines_of(file: str) -> list[list[str]] | Problem:
    """The arguments of each run: one line each, split as in a shell."""
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read(ARRAY_FILE_MAX + 1)
        if len(text) > ARRAY_FILE_MAX:
            return Problem("flag.array_args", f"--array-args {file} is larger than 1 MiB", "split it")
        lines = [line for each in text.splitlines() if (line := each.strip()) and not line.startswith("#")]
        found = [shlex.split(line) for line in lines]
    except OSError as error:
        return Problem("flag.array_args", f"--array-args {file} cannot be read ({error.strerror})", "check the path")
    except ValueError as error:
        return Problem("flag.array_args", f"--array-args {file}: {str(error).lower()}", "close the quote")
    if not found:
        return Problem(
            "flag.array_args", f"--array-args {file} has no lines", "write one line of arguments for each run"
        )
    return found


def problems(asked: Mapping[str, Any]) -> list[Problem]:
    found = []
    is_array = bool(asked["array"] or asked["array_for"] or asked["array_args"])
    limit = (asked["array"] or "").partition("%")
    if limit[1] and not at_a_time(asked):
        what = f"--array {asked['array']!r} has no valid number of parallel runs after %"
        found.append(Problem("flag.array", what, "write --array 0-99%10"))
    if limit[1] and asked["parallelism"]:
        what = "--array with % and --parallelism both set the number of parallel runs"
        found.append(Problem("flag.array", what, "leave one out"))
    if is_array and (asked["interactive"] or asked["inference"]):
        found.append(
            Problem("flag.array", "arrays work only with training jobs", "leave out --interactive and --inference")
        )
    if is_array and asked["completions"]:
        found.append(Problem("flag.array", "--array and --completions both set the number of runs", "leave one out"))
    return found
