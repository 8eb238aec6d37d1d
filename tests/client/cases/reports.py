"""Consumption reports."""

from __future__ import annotations

from tests.client.original import Original

API = "ReportsApi"


def case_reports(original: Original) -> None:
    assert original.call(f"{API}.are_reports_available") == {"isAvailable": True}
    body = {
        "name": "report-1",
        "description": "all of it",
        "start": "2026-01-01T00:00:00Z",
        "end": "2026-12-01T00:00:00Z",
        "groupBy": "Project",
        "filterBy": ["projectName!=nothing"],
    }
    made = original.call(f"{API}.create_report", report_request_fields=body)
    assert (made["name"], made["status"], made["groupBy"]) == ("report-1", "Ready", "Project")
    listed = original.call(f"{API}.list_reports", filter_by=["name==report-1"], sort_by="createdAt")["reports"]
    assert [each["id"] for each in listed] == [made["id"]]
    assert original.call(f"{API}.count_reports", search="report-1") == {"count": 1}
    assert original.call(f"{API}.get_report_by_id", report_id=made["id"])["description"] == "all of it"
    table = original.call(f"{API}.download_report_by_id", report_id=made["id"])
    assert str(table).startswith("start,end,project,gpuHoursRequested")
    original.call(f"{API}.delete_report_by_id", report_id=made["id"])
    assert original.call(f"{API}.count_reports", search="report-1") == {"count": 0}
