"""The text format: names come from users and must not break it, and what is not known has no series."""

from __future__ import annotations

import gzip
import math
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fairpool.api.exposition import VALUE_MAX, SeriesTable, encoded, labels, name_part
from fairpool.platform import loop_figures

HOSTILE = [
    'a"} 1\nevil{x="y',
    "back\\slash\\",
    "line\nbreak",
    'quote"',
    "ends with \\",
    "",
    " ",
    "名前 🦊",
    "a\rb\tc",
    "{}=,#",
    "\\n",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_one_value_of_one_series(name: str) -> None:
    table = SeriesTable({"x": "Says\nwhat \\ it is"})
    table["x"].add(labels(a=name, b=name), 1.5)
    (family,) = text_string_to_metric_families(encoded(table.texts, packs=False).decode())
    ((sample),) = family.samples
    assert (sample.name, sample.labels, sample.value) == ("x", {"a": name, "b": name}, 1.5)
    assert family.documentation == "Says\nwhat \\ it is"


def test_long_values_are_cut_and_half_characters_replaced() -> None:
    table = SeriesTable({"x": "."})
    table["x"].add(labels(a="é" * 1000, b="\ud800"), 1)
    text = gzip.decompress(encoded(table.texts, packs=True)).decode()
    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"a": "é" * VALUE_MAX, "b": "?"}


def test_what_is_not_known_has_no_series_and_no_description() -> None:
    table = SeriesTable({"x": ".", "y": "."})
    table["x"].add("", None)
    table["x"].add("", math.nan)
    assert ("".join(table.texts), len(table)) == ("", 0)
    table["y"].add("", math.inf)
    table["y"].add('a="b"', 1e20)
    assert "".join(table.texts).endswith('y{} +Inf\ny{a="b"} 1e+20\n')


@pytest.mark.parametrize(
    ("said", "name"), [("loss", "loss"), ("val/acc@5", "val_acc_5"), ('x"} 1\n', "x___1_"), ("ß" * 99, "_" * 64)]
)
def test_what_a_job_calls_a_value_becomes_part_of_a_name(said: str, name: str) -> None:
    assert name_part(said) == name


def test_what_jobs_report_is_bounded_and_numbers_only() -> None:
    many = {f"m{number}": number for number in range(loop_figures.VALUES_MAX + 3)}
    said = {"metrics": {"val/loss": 0.5, "val@loss": 7.0}, "parameters": {"batch_size": "32", "optimizer": "adam"}}
    jobs = [_job("a", said), _job("b", {"metrics": many}), _job("c", {"metrics": 3})]
    found = {each.name: each.samples for each in text_string_to_metric_families(loop_figures.job_series(jobs, "c1"))}
    (loss,) = found["reporter_push_gateway_parameter_val_loss"]
    assert (loss.value, loss.labels["job_name"], loss.labels["clusterId"]) == (0.5, "a", "c1")
    assert found["reporter_push_gateway_parameter_batch_size"][0].value == 32
    assert "reporter_push_gateway_parameter_optimizer" not in found
    assert found["fairpool_job_values_left_out"][0].value == 3


def test_all_jobs_together_have_a_bounded_number_of_names() -> None:
    jobs = [_job(str(number), {"metrics": {f"run-{number}": 1}}) for number in range(loop_figures.NAMES_MAX + 5)]
    found = list(text_string_to_metric_families(loop_figures.job_series(jobs, "")))
    assert len(found) == loop_figures.NAMES_MAX + 1
    assert found[-1].samples[0].value == 5


def _job(name: str, reports: dict[str, Any]) -> loop_figures.RunningJob:
    return loop_figures.RunningJob(workload=f"id-{name}", name=name, project="p", pod=f"{name}-0-0", reports=reports)
