"""The types that the web UI is checked with are those of the API as it is."""

from __future__ import annotations

from tools import ui_schema


def test_the_types_of_the_web_ui_are_of_this_api() -> None:
    made_of = ui_schema.digest_in(ui_schema.FILE.read_text(encoding="utf-8"))
    assert made_of == ui_schema.digest(), "ui/src/api/schema.d.ts is stale: run `make golden`"


def test_only_what_changes_types_makes_them_stale() -> None:
    value = {
        "title": "Workload",
        "example": {"a": 1},
        "properties": {"title": {"title": "Title", "type": "string"}, "properties": {"example": 1, "type": "object"}},
    }
    properties = {"title": {"type": "string"}, "properties": {"type": "object"}}
    assert ui_schema._stripped(value) == {"properties": properties}


def test_routes_of_clusters_and_refusals_are_left_out() -> None:
    paths = ui_schema.document()["paths"]
    assert "/api/v1/workloads" in paths
    assert not [path for path in paths if not path.startswith("/api/") or path.startswith("/api/v1/cluster/")]
    assert {code[0] for item in paths.values() for each in item.values() for code in each["responses"]} == {"2"}
