"""What went wrong, as a person reads it: one line a problem on standard error, and an exit code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from fairpool.cli import complaint
from fairpool.cli.screen import printable
from fairpool.model.problem import Problem
from fairpool.model.spelling import did_you_mean

ERROR = 1
"""Every error. Only what runs in a pod has other codes, and they are passed on."""
INTERRUPTED = 130

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
"""Problems whose words people and scripts know by heart: nothing is added to them."""


class Failure(Exception):
    """A command cannot do what was asked for, and why: everything that is wrong, at once."""

    def __init__(self, problems: Sequence[Problem], *, hint: str = "", exit_code: int = ERROR) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
        self.hint = hint
        self.exit_code = exit_code


def failure(code: str, what: str, fix: str = "", *, hint: str = "") -> Failure:
    """One problem."""
    return Failure([Problem(code, what, fix)], hint=hint)


def not_yet(what: str, fix: str = "") -> Problem:
    """Something that is documented and that nothing behind this command can do so far: told, never ignored."""
    return Problem("flag.not_supported_yet", f"{what} is not supported yet", fix or "leave it out")


def meant(name: str, known: Iterable[str]) -> str:
    """`Did you mean hyper1?`, or nothing."""
    said = did_you_mean(name, known)
    return said[:1].upper() + said[1:]


def tell(failed: Failure) -> None:
    """Say it on standard error."""
    for problem in failed.problems:
        complain(problem)
    if failed.hint:
        click.echo(printable(failed.hint), err=True)


def complain(problem: Problem) -> None:
    """One problem, in one line."""
    complaint.complain(problem.what if problem.code in COMPLETE_SENTENCES else str(problem))
