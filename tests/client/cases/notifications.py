"""The audit log, and notifications."""

from __future__ import annotations

from tests.client.original import Original

START, END = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"


def case_audit_log(original: Original) -> None:
    made = original.call(
        "AuditLogsApi.get_audit_logs", start=START, end=END, number_of_samples=5, filter_by=["action==create"]
    )
    assert made["audit_logs"]
    assert {each["action"] for each in made["audit_logs"]} == {"create"}
    assert made["total"] >= len(made["audit_logs"])


def case_notification_channels(original: Original) -> None:
    config = {"smtpHost": "127.0.0.1", "smtpPort": 2525, "from": "fairpool@example.com", "authType": "auth_none"}
    channel = {"type": "email", "config": config}
    api = "NotificationChannelsApi"
    original.call(f"{api}.create_notification_channel_config", notification_channel=channel)
    assert original.call(f"{api}.get_notification_channels") == [{"name": "email", "type": "email"}]
    found = original.call(f"{api}.get_notification_channel_config", name="email")
    assert found["config"]["smtpPort"] == 2525
    state = original.call("NotificationStateApi.get_notification_state")
    assert state == {"enabled": True, "email": {"enabled": True}}
    types = original.call("NotificationTypesApi.get_notification_types")
    assert {"started", "finished", "failed", "preempted"} <= {each["type"] for each in types}
    original.call(f"{api}.delete_notification_channel_config", name="email")
    assert original.call(f"{api}.get_notification_channels") == []
