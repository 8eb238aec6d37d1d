"""Query parameters of lists, and filtering, sorting and paging of short lists in memory.

Workloads and audit entries are many and are filtered in the database. Projects, departments, pools and nodes are few,
and many of their fields are computed and not in a column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from fairpool.api.limits import PAGE_DEFAULT, PAGE_MAX
from fairpool.api.problems import problem_item
from fairpool.control import filters
from fairpool.control.moments import instant
from fairpool.control.refusal import Refused
from fairpool.control.routes import Parameter, Query

T = TypeVar("T")

Offset = Annotated[int, Parameter(ge=0, le=2**31 - 1, description="Number of items to skip")]
Limit = Annotated[int, Parameter(ge=1, le=PAGE_MAX, description="Maximum number of items")]
FilterBy = Annotated[
    str,
    Parameter(
        alias="filterBy",
        max_length=filters.TEXT_MAX,
        description="Comma-separated conditions: field, operator (== != <= >= =@ !@ =^ =$), value",
        examples=["phase==Running,allocatedGPU>=2"],
    ),
]
SortBy = Annotated[str, Parameter(alias="sortBy", max_length=64, description="Field to sort by; any field of filterBy")]
SortOrder = Annotated[str, Parameter(alias="sortOrder", pattern="^(asc|desc)$")]
Search = Annotated[str, Parameter(max_length=256, description="Text that the name contains")]


class ListQuery(Query):
    """Which items of a list, in which order, and how many."""

    filter_by: FilterBy = ""
    search: Search = ""
    sort_by: SortBy = "name"
    sort_order: SortOrder = "asc"
    offset: Offset = 0
    limit: Limit = PAGE_DEFAULT


def counting(filter_by: str, search: str) -> ListQuery:
    """All items that fit, for routes that only count them."""
    return ListQuery(filter_by=filter_by, search=search, limit=PAGE_MAX)


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """A field that a list can be filtered and sorted by."""

    sort: filters.Sort
    value: Callable[[T], str | int | None]


def text_field(value: Callable[[T], str]) -> Field[T]:
    return Field(filters.Sort.TEXT, value)


def number_field(value: Callable[[T], int]) -> Field[T]:
    return Field(filters.Sort.NUMBER, value)


def gpus_field(value: Callable[[T], float]) -> Field[T]:
    return Field(filters.Sort.GPUS, lambda each: round(value(each) * 1000))


def time_field(value: Callable[[T], str]) -> Field[T]:
    return Field(filters.Sort.MOMENT, lambda each: instant(value(each)))


def optional_time_field(value: Callable[[T], str | None]) -> Field[T]:
    """Those without a value come last."""
    return Field(filters.Sort.MOMENT, lambda each: instant(text) if (text := value(each)) is not None else None)


def filtered(everything: Sequence[T], fields: Mapping[str, Field[T]], query: ListQuery) -> list[T]:
    """All items that satisfy the conditions, in order; every list has a field `name`."""
    sorts = {name: each.sort for name, each in fields.items()}
    conditions = parsed(query.filter_by, query.sort_by, sorts, {})
    name = fields["name"].value
    found = [
        each
        for each in everything
        if query.search in str(name(each))
        and all(filters.holds(condition, fields[condition.field].value(each)) for condition in conditions)
    ]
    found.sort(key=lambda each: str(name(each)))
    value = fields[query.sort_by].value
    known = [each for each in found if value(each) is not None]
    known.sort(key=lambda each: _key(value(each)), reverse=query.sort_order == "desc")
    return known + [each for each in found if value(each) is None]


def page(found: Sequence[T], query: ListQuery) -> tuple[list[T], int | None]:
    """One page, and where the next one begins."""
    end = query.offset + query.limit
    return list(found[query.offset : end]), end if len(found) > end else None


def parsed(
    filter_by: str, sort_by: str, fields: Mapping[str, filters.Sort], words: Mapping[str, Mapping[str, str]]
) -> list[filters.Filter]:
    """Parse `filterBy` and check `sortBy`; refuses with everything that is wrong."""
    moments = {each: instant(each) for each in filters.moments_in(filter_by, fields)}
    conditions, problems = filters.parse(filter_by, fields, moments, words)
    wrong = [problem_item(each, "filterBy") for each in problems]
    sortable = [name for name, kind in fields.items() if kind is not filters.Sort.LABELS]
    wrong_sort = filters.sort_problem(sort_by, sortable)
    if wrong_sort is not None:
        wrong.append(problem_item(wrong_sort, "sortBy"))
    if wrong:
        raise Refused(400, wrong)
    return conditions


def _key(value: str | int | None) -> tuple[int, str]:
    return (value, "") if isinstance(value, int) else (0, value or "")
