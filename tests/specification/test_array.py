"""Job arrays: which runs there are, and what each of them is started with."""

from __future__ import annotations

import pytest

from fairpool.model.array import Array, array_problems, parse_numbers
from fairpool.model.ids import Instant, QueueId, WorkloadId
from fairpool.model.problem import Problem
from fairpool.model.spec import Arrangement, PodTemplate, Program, WorkloadSpec


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-3", [0, 1, 2, 3]),
        ("7", [7]),
        ("1,3,5-7", [1, 3, 5, 6, 7]),
        ("0-20:5", [0, 5, 10, 15, 20]),
        ("10-11, 1", [10, 11, 1]),
        ("", "array.indices"),
        ("a-b", "array.indices"),
        ("5-1", "array.indices"),
        ("1-5:0", "array.indices"),
        ("-1", "array.indices"),
        ("1-2-3", "array.indices"),
        ("0-99999999999", "array.indices"),
        ("0-5000", "array.too_many"),
        ("0-2147483647", "array.too_many"),
        ("1-3,2", "array.twice"),
        ("1.5", "array.indices"),
        ("٣", "array.indices"),
    ],
)
def test_the_numbers_of_an_array(text: str, numbers: list[int] | str) -> None:
    found = parse_numbers(text)
    if isinstance(found, Problem):
        assert found.code == numbers
    else:
        array = Array(ranges=found)
        assert [array.number(position) for position in range(array.count)] == numbers


def test_every_combination_of_parameters_is_a_run_and_the_last_varies_fastest() -> None:
    array = Array(parameters=(("lr", ("0.1", "0.2")), ("seed", ("1", "2", "3"))))
    values = [array.values_of(position) for position in range(array.count)]
    assert [(each["lr"], each["seed"]) for each in values] == [
        ("0.1", "1"),
        ("0.1", "2"),
        ("0.1", "3"),
        ("0.2", "1"),
        ("0.2", "2"),
        ("0.2", "3"),
    ]
    assert [each["index"] for each in values] == ["0", "1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("array", "code"),
    [
        (Array(), "array.empty"),
        (Array(parameters=(("index", ("1",)),)), "array.parameter"),
        (Array(parameters=(("a b", ("1",)),)), "array.parameter"),
        (Array(parameters=(("a", ("1",)), ("a", ("2",)))), "array.parameter"),
        (Array(parameters=(("a", ()),)), "array.no_values"),
        (Array(parameters=(("a", ("1",)),), arguments=(("x",),)), "array.two_ways"),
        (Array(parameters=tuple((name, tuple("0123456789")) for name in "abcd")), "array.too_many"),
        (Array(ranges=((0, 4, 1),), parameters=(("a", ("1", "2")),)), "array.count"),
    ],
)
def test_what_is_wrong_with_an_array(array: Array, code: str) -> None:
    assert [problem.code for problem in array_problems(array)] == [code]


def sweep(array: Array | None, completions: int, **program: object) -> WorkloadSpec:
    return WorkloadSpec(
        id=WorkloadId("w"),
        name="w",
        project=QueueId("p"),
        created_at=Instant(0),
        template=PodTemplate(program=Program(**program)),  # type: ignore[arg-type]
        arrangement=Arrangement.SWEEP,
        pods=2,
        completions=completions,
        array=array,
    )


def test_a_run_is_started_with_its_number_and_its_values() -> None:
    array = Array(ranges=((10, 20, 5),), parameters=(("lr", ("0.1", "0.2", "0.3")),))
    spec = sweep(
        array,
        3,
        command=("python", "train-{index}.py"),
        arguments=("--lr", "{lr}", '{"a": {index}}', "{other}", "{}"),
        environment=(("LR", "{lr}"), ("FAIRPOOL_ARRAY_INDEX", "mine")),
    )
    made = spec.program_of(2)
    assert made.command == ("python", "train-20.py")
    assert made.arguments == ("--lr", "0.3", '{"a": 20}', "{other}", "{}")
    assert dict(made.environment) == {
        "LR": "0.3",
        "FAIRPOOL_ARRAY_INDEX": "20",
        "FAIRPOOL_ARRAY_COUNT": "3",
        "JOB_COMPLETION_INDEX": "2",
    }


def test_a_line_of_arguments_follows_the_common_ones() -> None:
    array = Array(arguments=(("--lr", "0.1"), ("--lr", "0.2", "--{index}")))
    assert sweep(array, 2, arguments=("train.py",)).program_of(1).arguments == ("train.py", "--lr", "0.2", "--{index}")


def test_a_value_is_not_looked_through_again() -> None:
    array = Array(parameters=(("a", ("{index}",)),))
    assert array.filled("{a}", 0) == "{index}"


def test_the_runs_of_a_plain_sweep_are_numbered_and_nothing_is_filled_in() -> None:
    made = sweep(None, 4, arguments=("{index}",)).program_of(3)
    assert made.arguments == ("{index}",)
    assert dict(made.environment)["JOB_COMPLETION_INDEX"] == "3"
    assert dict(made.environment)["FAIRPOOL_ARRAY_INDEX"] == "3"
