"""Problem documents (RFC 9457): every problem of a request, and `code` and `message` for older clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from fairpool.api.wire import Answer
from fairpool.model.problem import Problem

MEDIA_TYPE = "application/problem+json"


class ProblemItem(Answer):
    """One problem: what is wrong, in which field, and how to fix it."""

    code: Annotated[str, Field(examples=["gpu.fraction_of_many"], description="Stable code, for programs")]
    what: Annotated[str, Field(examples=["2.5 GPUs is neither a fraction of one GPU nor a whole number"])]
    fix: Annotated[str, Field(examples=["ask for 2 or 3, or for several devices with a fraction of each"])] = ""
    field: Annotated[str | None, Field(examples=["spec.compute.gpu"], description="The field of the request")] = None

    def problem(self) -> Problem:
        """The same as the core knows it."""
        return Problem(self.code, self.what, self.fix)


class ProblemDocument(Answer):
    """The body of every error response (RFC 9457)."""

    type: Annotated[str, Field(examples=["about:blank"])] = "about:blank"
    title: Annotated[str, Field(examples=["Unprocessable Content"])]
    status: Annotated[int, Field(examples=[422])]
    detail: Annotated[str, Field(description="All problems in one text")] = ""
    code: Annotated[int, Field(description="Same as status, for legacy clients", examples=[422])]
    message: Annotated[str, Field(description="The first problem, for legacy clients")]
    problems: list[ProblemItem] = Field(default_factory=list)
    choices: Annotated[
        dict[str, str] | None,
        Field(description="If the request needs a decision: query strings to repeat it with, and what each one does"),
    ] = None


def problem_item(problem: Problem, field: str | None = None) -> ProblemItem:
    """A problem of the core, as it travels."""
    return ProblemItem(code=problem.code, what=problem.what, fix=problem.fix, field=field)


class ProblemList(list[ProblemItem]):
    """Everything that is wrong with a request, collected."""

    def add(self, code: str, what: str, fix: str, field: str) -> None:
        self.append(ProblemItem(code=code, what=what, fix=fix, field=field))

    def add_problem(self, problem: Problem, field: str) -> None:
        self.append(problem_item(problem, field))


def problem_document(
    status: int, title: str, problems: Sequence[ProblemItem], choices: dict[str, str] | None = None
) -> ProblemDocument:
    """The whole answer."""
    sentences = [_sentence(each) for each in problems]
    return ProblemDocument(
        title=title,
        status=status,
        detail="; ".join(sentences),
        code=status,
        message=sentences[0] if sentences else title,
        problems=list(problems),
        choices=choices,
    )


def _sentence(each: ProblemItem) -> str:
    return f"{each.what}: {each.fix}" if each.fix else each.what
