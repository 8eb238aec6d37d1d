"""The table of flags in `docs/reference/flags.md`: every flag of the submit commands, its effect, and the tests of it.

The tests say which flags they show: `@pytest.mark.flag("--large-shm")`. The flags and their effects are those of the
commands themselves. `python -m tools.flag_table` writes the page; `--check` only says whether it is up to date.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections import defaultdict
from pathlib import Path

import click
import pytest

from fairpool.cli.runai.distributed import FRAMEWORKS, framework_command, submit_mpi
from fairpool.cli.runai.flags import EVERYWHERE
from fairpool.cli.runai.submit import LATER, submit

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "flags.md"
PLACES = ("tests/end_to_end",)
HEADER = """# Flags of `runai submit` and their tests

Made by `python -m tools.flag_table` (part of `make golden`) from the commands and from the tests, which name the flags
whose effect they show on a real platform; do not edit it. Tests are in `tests/end_to_end`. A flag without a test is
marked with `–`.

"""
DEPRECATED = {
    "--always-pull-image": "The same as --image-pull-policy Always.",
    "--large-shdm": "The same as --large-shm, as a document spells it.",
    "--old-job": "Taken for compatibility, without effect.",
    "--prevent-privilege-escalation": "Refuse programs that gain more rights than their parent.",
    "--allow-privilege-escalation": "Allow programs to gain more rights than their parent.",
    "--jupyter": "Run a notebook: interactive, with its image, port and address.",
    "--replicas": "Run this many replicas of the model.",
    "--mps": "Share a GPU through NVIDIA MPS.",
    "--address": "Local address of a forwarded port.",
    "--s3": "Mount a bucket.",
    "--seccomp-profile": "Choose the filter of system calls.",
    "--user": "The owner of the job: the user who is signed in.",
    "--master-no-pvcs": "Mount no claims into the master.",
    "--slots-per-worker": "Processes of each MPI worker.",
}
"""Effects of flags that the help does not list."""


class Collected:
    """A pytest plugin: the tests of each flag."""

    def __init__(self) -> None:
        self.tests: dict[str, set[str]] = defaultdict(set)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for mark in item.iter_markers("flag"):
                for name in mark.args:
                    self.tests[name].add(item.nodeid.partition("[")[0].removeprefix("tests/end_to_end/"))


def tests_of_flags() -> dict[str, set[str]]:
    """The tests of each flag, as pytest collects them."""
    collected = Collected()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *PLACES], plugins=[collected]
        )
    if code != pytest.ExitCode.OK:
        raise SystemExit(said.getvalue()[-3000:])
    return collected.tests


def options() -> dict[str, list[click.Option]]:
    """The flags of each command, those of `submit-dist` without those of `submit`."""
    plain = _own(submit)
    known = {each.name for each in plain}
    commands = [*map(framework_command, FRAMEWORKS), submit_mpi()]
    gang = {each.name: each for command in commands for each in _own(command) if each.name not in known}
    return {"runai submit": plain, "runai submit-dist and submit-mpi": list(gang.values())}


def _own(command: click.Command) -> list[click.Option]:
    """Without those of every command, and without what only stands for `--command` before `--`."""
    found = [each for each in command.params if isinstance(each, click.Option)]
    return [each for each in found if getattr(each, "section", "") != EVERYWHERE and each.name != "command_replaced"]


def missing(tests: dict[str, set[str]]) -> list[str]:
    """Flags that no test shows."""
    return [_long(each) for flags in options().values() for each in flags if not _tests(each, tests)]


def unknown(tests: dict[str, set[str]]) -> list[str]:
    """Names in tests that are no flags."""
    known = {name for flags in options().values() for each in flags for name in (*each.opts, *each.secondary_opts)}
    return sorted(set(tests) - known)


def _tests(option: click.Option, tests: dict[str, set[str]]) -> list[str]:
    names = (*option.opts, *option.secondary_opts)
    return sorted({test for name in names for test in tests.get(name, ())})


def page(tests: dict[str, set[str]]) -> str:
    """The whole page."""
    lines = [HEADER]
    for command, flags in options().items():
        lines += [f"## `{command}`\n\n", "| flag | effect | tests |\n|---|---|---|\n"]
        for each in sorted(flags, key=lambda each: _long(each)):
            names = ", ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
            effect = each.help or DEPRECATED.get(_long(each), "")
            refused = "Refused. " if getattr(each, "section", "") == LATER else ""
            found = "<br>".join(f"`{test}`" for test in _tests(each, tests)) or "–"
            lines.append(f"| {names} | {refused}{effect.replace('|', chr(92) + '|')} | {found} |\n")
        lines.append("\n")
    return "".join(lines).rstrip() + "\n"


def _long(option: click.Option) -> str:
    return next((name for name in option.opts if name.startswith("--")), option.opts[0])


def main() -> int:
    """Write the page, or check it."""
    tests = tests_of_flags()
    if wrong := unknown(tests):
        print(f"tests name flags that do not exist: {', '.join(wrong)}")
        return 1
    text = page(tests)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
        return 0
    if not PAGE.exists() or PAGE.read_text() != text:
        print(f"{PAGE.relative_to(ROOT)} is not up to date: run `make golden`")
        return 1
    print(" ".join(missing(tests)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
