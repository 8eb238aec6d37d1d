"""The audit log, and notifications."""

from __future__ import annotations

from tests.client.original import Original

START, END = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"
CHANNELS = "NotificationChannelsApi"
SUBSCRIPTIONS = "SubscriptionsApi"


def case_audit_log(original: Original) -> None:
    made = original.call(
        "AuditLogsApi.get_audit_logs", start=START, end=END, number_of_samples=5, filter_by=["action==create"]
    )
    assert made["audit_logs"]
    assert {each["action"] for each in made["audit_logs"]} == {"create"}
    assert made["total"] >= len(made["audit_logs"])


def case_notifications(original: Original) -> None:
    config = {"smtpHost": "127.0.0.1", "smtpPort": 2525, "from": "fairpool@example.com", "authType": "auth_none"}
    channel = {"type": "email", "config": config}
    original.call(f"{CHANNELS}.validate_notification_channel", notification_channel_for_validate=channel)
    assert original.call(f"{CHANNELS}.get_notification_channels") == []
    original.call(f"{CHANNELS}.create_notification_channel_config", notification_channel=channel)
    (listed,) = original.call(f"{CHANNELS}.get_notification_channels")
    assert (listed["name"], listed["type"]) == ("email", "email")
    changed = {**channel, "config": {**config, "smtpPort": 2526}}
    original.call(f"{CHANNELS}.update_notification_channel_config", name="email", notification_channel=changed)
    found = original.call(f"{CHANNELS}.get_notification_channel_config", name="email")
    assert found["config"]["smtpPort"] == 2526
    original.call(f"{CHANNELS}.patch_notification_channel_config", name="email", notification_channel_for_patch=channel)
    _state(original)
    _subscriptions(original)
    original.call(f"{CHANNELS}.delete_notification_channel_config", name="email")
    assert original.call(f"{CHANNELS}.get_notification_channels") == []


def _state(original: Original) -> None:
    state = original.call("NotificationStateApi.get_notification_state")
    assert state == {"enabled": True, "email": {"enabled": True}}
    for switch in (False, True):
        body = {"email": {"enabled": switch}}
        changed = original.call("NotificationStateApi.update_notification_state", notification_state=body)
        assert changed["email"]["enabled"] is switch
    types = original.call("NotificationTypesApi.get_notification_types")
    assert {"started", "finished", "failed", "preempted"} <= {each["type"] for each in types}


def _subscriptions(original: Original) -> None:
    body = {"events": [{"category": "workload", "types": ["finished"]}], "channels": ["email"]}
    made = original.call(f"{SUBSCRIPTIONS}.create_subscription", subscription=body)
    assert [each["id"] for each in original.call(f"{SUBSCRIPTIONS}.get_my_subscriptions")] == [made["id"]]
    other = {**body, "events": [{"category": "workload", "types": ["failed"]}]}
    changed = original.call(f"{SUBSCRIPTIONS}.update_subscription", id=made["id"], subscription_for_put=other)
    assert changed["events"][0]["types"] == ["failed"]
    original.call(f"{SUBSCRIPTIONS}.delete_subscription", id=made["id"])
    assert original.call(f"{SUBSCRIPTIONS}.get_my_subscriptions") == []
