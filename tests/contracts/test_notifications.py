"""Notifications: into the outbox with the report, and from there once by mail or webhook, whatever fails."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from fairpool.control import limit_warnings, notification_delivery, sealing
from fairpool.control.notification_events import LINES_MAX, event_of, text_of, warned_from
from fairpool.control.outbound import Network
from fairpool.control.outbound_rules import Address
from fairpool.control.store import notifications as store
from fairpool.control.store.database import Connection
from fairpool.model.ids import Instant
from fairpool.model.pod_record import Cause
from fairpool.model.status import WorkloadPhase
from tests.control.control_plane import ControlPlane, codes, control_plane, expect
from tests.smtp_server import Mailbox, smtp_server

PUBLIC = ip_address("93.184.215.14")
HOOKS = "/api/v1/notification-webhooks"
SUBSCRIPTIONS = "/api/v1/subscriptions"


class Receiver(http.server.ThreadingHTTPServer):
    """A webhook of a user; answers with `status`."""

    daemon_threads = True

    def __init__(self) -> None:
        self.status = 200
        self.fails_after: int | None = None
        """Requests after which it answers 500."""
        self.released = threading.Event()
        """Requests to /slow are answered then."""
        self.got: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                if self.path == "/slow":
                    receiver.released.wait(60)
                is_failing = receiver.fails_after is not None and len(receiver.got) > receiver.fails_after
                self.send_response(500 if is_failing else receiver.status)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def ids(self) -> list[str]:
        return [note["id"] for _, body in self.got for note in json.loads(body)["notifications"]]

    @property
    def events(self) -> list[str]:
        return [note["event"] for _, body in self.got for note in json.loads(body)["notifications"]]


class World:
    """Where names lead to."""

    def __init__(self, port: int) -> None:
        self.addresses: list[Address] = [PUBLIC]
        self._port = port

    def resolve(self, host: str, port: int) -> list[Address]:
        return self.addresses

    def connect(self, address: Address, port: int, timeout_s: float) -> socket.socket:
        assert address == PUBLIC, "the public address is played by this machine, and no other is reached"
        return socket.create_connection(("127.0.0.1", self._port), timeout_s)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def notifying(receiver: Receiver, data: Path | None = None) -> Iterator[tuple[ControlPlane, World]]:
    world = World(receiver.server_address[1])
    network = Network(world.resolve, world.connect)
    with control_plane(pull_wait_s=0.0, network=network, access_token_s=10**7) as control:
        control.project("team-a")
        control.researcher("ann", "team-a")
        value = {"key": "notifications.webhookHosts", "value": "hooks.example.com:8080,*.corp.example"}
        expect(control.call("PUT", "/v1/k8s/setting", value), 200)
        yield control, world


@pytest.fixture
def place(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ControlPlane, World]]:
    async def asleep(_: Any) -> None:
        """The tests send by themselves."""

    monkeypatch.setattr(notification_delivery, "send_notifications", asleep)
    rules = notification_delivery.webhook_rules

    def plain(plane: Any, connection: Any) -> Any:
        """The receiver speaks no TLS, which has its own tests."""
        from dataclasses import replace

        return replace(rules(plane, connection), schemes=frozenset({"http", "https"}))

    monkeypatch.setattr(notification_delivery, "webhook_rules", plain)
    monkeypatch.setattr("fairpool.control.notifications.webhook_rules", plain)
    with notifying(receiver) as found:
        yield found


def send(control: ControlPlane) -> int:
    """Send what is due; how many channels it was for."""

    async def sent() -> int:
        sender, count = notification_delivery.NotificationSender(control.app.state.plane), 0
        while begun := await sender.begin_due():
            count += begun
            assert count < 100
            while sender.count:
                await sender.wait()
        return count

    assert control.http.portal is not None
    return int(control.http.portal.call(sent))


def hooked(
    control: ControlPlane, *events: str, by: str = "ann", url: str = "http://hooks.example.com:8080/fairpool"
) -> str:
    """A webhook with a subscription; its secret."""
    body = {"name": "ci", "url": url}
    made = expect(control.call("POST", HOOKS, body, by=by), 201)
    subscription = {"events": [{"category": "workload", "types": list(events)}], "channels": ["webhook:ci"]}
    expect(control.call("POST", SUBSCRIPTIONS, subscription, by=by), 201)
    return str(made["secret"])


def log(control: ControlPlane, by: str = "ann") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = expect(control.call("GET", "/api/v1/notifications", by=by), 200)["deliveries"]
    return found


def finished(control: ControlPlane, name: str, by: str = "ann", project: str = "team-a") -> str:
    workload = str(control.train(name, project, by=by)["id"])
    control.push(control.report(workloads=(control.runs(workload),)))
    control.push(control.report(workloads=(control.completed(workload),)))
    return workload


@pytest.mark.parametrize(
    ("before", "now", "reason", "event"),
    [
        ("Creating", "Pending", None, None),
        ("Pending", "Running", None, "started"),
        ("Initializing", "Running", None, "started"),
        ("Degraded", "Running", None, None),
        ("Running", "Degraded", None, None),
        ("Running", "Completed", Cause.FINISHED, "finished"),
        ("Creating", "Completed", None, "finished"),
        ("Running", "Failed", Cause.EXITED, "failed"),
        ("Running", "Pending", Cause.PREEMPTED, "preempted"),
        ("Running", "Stopped", Cause.PREEMPTED, "preempted"),
        ("Pending", "Stopped", Cause.SUSPENDED, None),
        ("Running", "Running", None, None),
    ],
)
def test_which_changes_are_worth_a_notification(before: str, now: str, reason: Any, event: str | None) -> None:
    assert event_of(WorkloadPhase(before), WorkloadPhase(now), reason) == event


def test_the_owner_is_warned_once_before_a_time_limit_ends_a_job(
    place: tuple[ControlPlane, World], receiver: Receiver
) -> None:
    control, _ = place
    hooked(control, "near-limit")
    own = control.train("own", by="ann", deadlineSeconds=3600)["id"]
    of_project, free = (control.train(name, by="ann")["id"] for name in ("of-project", "of-no-limit"))
    started = control.clock.now
    control.push(control.report(workloads=tuple(control.runs(each) for each in (own, of_project, free))))

    def warned_at(seconds: int) -> list[str]:
        control.clock.now = Instant(started + seconds * 1000)
        assert control.http.portal is not None
        control.http.portal.call(limit_warnings.warn_once, control.app.state.plane)
        return [each["workload"] for each in log(control)]

    assert warned_at(2699) == []
    assert warned_at(2700) == ["own"]
    assert warned_at(2710) == ["own"], "once"
    rules = {"schedulingRules": {"trainingJobTimeLimitSeconds": 4000}}
    expect(control.call("PATCH", "/api/v1/org-unit/projects/team-a", rules), 200)
    assert warned_at(3000) == ["own"], "its own limit is nearer, and the others have a quarter of their time left"
    assert sorted(warned_at(3100)) == ["of-no-limit", "of-project", "own"]
    send(control)
    assert receiver.events == ["near-limit"] * 3
    control.push(control.report(workloads=(control.completed(own),)))
    assert len(warned_at(3700)) == 3


def test_a_short_limit_is_told_in_its_last_quarter() -> None:
    assert warned_from(0, 100) == 75_000
    assert warned_from(0, 36_000) == (36_000 - 900) * 1000


def test_a_webhook_gets_what_was_subscribed_to_signed_and_once(
    place: tuple[ControlPlane, World], receiver: Receiver
) -> None:
    control, _ = place
    secret = hooked(control, "started", "finished")
    finished(control, "t1")
    finished(control, "other", by="admin")
    send(control)
    assert sorted(receiver.events) == ["finished", "started"]
    headers, body = receiver.got[0]
    signed = headers["x-fairpool-timestamp"].encode() + b"." + body
    wanted = "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["x-fairpool-signature"] == wanted
    assert headers["idempotency-key"]
    assert [(each["event"], each["state"]) for each in log(control)] == [("finished", "sent"), ("started", "sent")] or {
        each["state"] for each in log(control)
    } == {"sent"}
    control.clock.turn(3600)
    assert send(control) == 0
    assert log(control, by="admin") == []


def test_what_fails_is_tried_again_later_each_time(place: tuple[ControlPlane, World], receiver: Receiver) -> None:
    control, _ = place
    hooked(control, "finished")
    receiver.status = 500
    finished(control, "t1")
    waits = []
    for _ in range(4):
        before = control.clock.now
        while not send(control):
            control.clock.turn(1)
        waits.append((control.clock.now - before) // 1000)
    assert waits == sorted(waits)
    assert waits[-1] >= 4 * 10
    (waiting,) = log(control)
    assert (waiting["state"], waiting["tries"]) == ("waiting", 4)
    assert "answered 500" in waiting["problem"]
    receiver.status = 204
    control.clock.turn(3600)
    send(control)
    assert [each["state"] for each in log(control)] == ["sent"]
    assert len(set(receiver.ids)) == 1, "each attempt has the same id"
    receiver.status = 500
    finished(control, "t2")
    send(control)
    control.clock.turn(2 * 86_400)
    send(control)
    assert log(control)[0]["state"] == "failed"


def test_a_slow_receiver_delays_no_other(place: tuple[ControlPlane, World], receiver: Receiver) -> None:
    control, _ = place
    for name in ("bob", "cat", "dan"):
        control.researcher(name, "team-a")
        hooked(control, "finished", by=name, url="http://slow.corp.example/slow")
        finished(control, f"{name}s", by=name)
    hooked(control, "finished")
    job = finished(control, "quick")

    async def sent() -> int:
        sender = notification_delivery.NotificationSender(control.app.state.plane)
        begun = await sender.begin_due()
        while sender.count > notification_delivery.SAME_MAX:
            await sender.wait()
        assert [each["state"] for each in await asyncio.to_thread(log, control)] == ["sent"], "while others wait"
        assert await sender.begin_due() == 0, "the slow receiver has no more places"
        receiver.released.set()
        while sender.count:
            await sender.wait()
        return begun

    assert control.http.portal is not None
    assert control.http.portal.call(sent) == 1 + notification_delivery.SAME_MAX
    assert send(control) == 1, "what had no place is sent later"
    assert len(receiver.ids) == len(set(receiver.ids)) == 4
    assert any(job in body.decode() for _, body in receiver.got)


def test_while_the_key_file_cannot_be_used_notifications_wait(
    place: tuple[ControlPlane, World], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, _ = place
    hooked(control, "finished")
    finished(control, "t1")
    plane = control.app.state.plane
    file = plane.settings.data / sealing.FILE
    content = file.read_bytes()
    file.write_bytes(b"not a key")
    monkeypatch.setattr(plane.key_file, "_key", None)  # as after a restart
    send(control)
    (waiting,) = log(control)
    assert waiting["state"] == "waiting"
    assert "cannot be used" in waiting["problem"]
    file.write_bytes(content)
    control.clock.turn(3600)
    send(control)
    assert receiver.events == ["finished"]
    assert [each["state"] for each in log(control)] == ["sent"]


def test_what_arrived_is_not_sent_again_when_a_later_request_fails(
    place: tuple[ControlPlane, World], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, _ = place
    monkeypatch.setattr(notification_delivery, "IN_A_REQUEST", 2)
    hooked(control, "finished")
    for number in range(5):
        finished(control, f"t{number}")
    receiver.fails_after = 1
    send(control)
    assert len(receiver.got) == 2, "after a failure the rest waits"
    arrived, refused = receiver.ids[:2], receiver.ids[2:]
    assert sorted(each["state"] for each in log(control)) == ["sent"] * 2 + ["waiting"] * 3
    assert {each["id"] for each in log(control) if each["state"] == "sent"} == set(arrived)
    receiver.fails_after = None
    control.clock.turn(3600)
    send(control)
    again = receiver.ids[4:]
    assert len(again) == len(set(again)) == 3
    assert set(refused) < set(again)
    assert not set(arrived) & set(again)
    assert {each["state"] for each in log(control)} == {"sent"}


def test_a_server_that_dies_between_commit_and_end_of_sending_loses_nothing(
    place: tuple[ControlPlane, World],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    control, _ = place
    hooked(control, "finished")
    finished(control, "t1")

    def died(*_: Any, **__: Any) -> None:
        raise RuntimeError("killed before it could write down that it was sent")

    with monkeypatch.context() as patched:
        patched.setattr(store, "settle", died)
        patched.setattr(notification_delivery, "EVERY_S", 0.01)
        assert send(control) == 1
    assert "killed before it could write down" in caplog.text
    assert send(control) == 0, "it is claimed"
    control.clock.turn(notification_delivery.CLAIM_S + 1)
    assert send(control) == 1
    assert len(receiver.ids) == 2
    assert len(set(receiver.ids)) == 1, "a receiver recognizes what it has"
    assert log(control)[0]["state"] == "sent"


def test_a_webhook_whose_name_means_this_machine_by_now_is_not_reached(
    place: tuple[ControlPlane, World], receiver: Receiver
) -> None:
    control, world = place
    hooked(control, "finished")
    for address in ("127.0.0.1", "169.254.169.254", "10.0.0.1", "::1"):
        world.addresses = [PUBLIC, ip_address(address)]
        finished(control, f"t-{address.replace('.', '-').replace(':', 'c')}")
        send(control)
    assert receiver.got == []
    assert {each["state"] for each in log(control)} == {"failed"}


@pytest.mark.parametrize(
    "url",
    [
        "http://other.example.com/",
        "http://127.0.0.1:8080/",
        "http://hooks.example.com:22/",
        "http://ann:pw@hooks.example.com:8080/",
        "http://hooks.example.com:8080@evil.example/",
        "ftp://hooks.example.com:8080/",
        "http://2130706433/",
        "http://hooks.example.com\u3002evil.example/",
    ],
)
def test_a_url_that_is_not_allowed_is_refused_when_it_is_given(place: tuple[ControlPlane, World], url: str) -> None:
    control, _ = place
    answer = control.call("POST", HOOKS, {"name": "ci", "url": url}, by="ann")
    assert answer.status_code == 422, answer.text
    assert answer.json()["problems"][0]["code"].startswith("outbound.")


def test_a_host_that_is_no_longer_allowed_is_no_longer_reached(
    place: tuple[ControlPlane, World], receiver: Receiver
) -> None:
    control, _ = place
    hooked(control, "finished")
    expect(control.call("PUT", "/v1/k8s/setting", {"key": "notifications.webhookHosts", "value": ""}), 200)
    finished(control, "t1")
    send(control)
    assert receiver.got == []
    assert "not one of the hosts" in log(control)[0]["problem"]
    wrong = control.call("PUT", "/v1/k8s/setting", {"key": "notifications.webhookHosts", "value": "http://x"})
    assert wrong.status_code == 422


def test_what_the_owner_may_not_see_any_more_is_withheld(place: tuple[ControlPlane, World], receiver: Receiver) -> None:
    control, _ = place
    hooked(control, "finished")
    finished(control, "t1")
    rules = expect(control.call("GET", "/api/v1/authorization/access-rules"), 200)["accessRules"]
    for rule in rules:
        if rule.get("scopeId") == "team-a":
            assert control.call("DELETE", f"/api/v1/authorization/access-rules/{rule['id']}").is_success
    send(control)
    assert receiver.got == []
    assert [each["state"] for each in log(control)] == ["withheld"]


def test_a_disabled_user_is_not_notified(place: tuple[ControlPlane, World], receiver: Receiver) -> None:
    control, _ = place
    hooked(control, "finished")
    finished(control, "t1")
    expect(control.call("PATCH", "/api/v1/users/ann@example.com", {"disabled": True}), 200)
    send(control)
    assert receiver.got == []
    expect(control.call("PATCH", "/api/v1/users/ann@example.com", {"disabled": False}), 200)
    control.sign_in("ann", "ann@example.com", "correct horse")
    control.clock.turn(3601)
    send(control)
    assert receiver.got == [], "it is not sent later"
    assert [(each["state"], each["problem"]) for each in log(control)] == [
        ("withheld", "the user is disabled or deleted")
    ]


def test_switched_off_they_wait(place: tuple[ControlPlane, World], receiver: Receiver) -> None:
    control, _ = place
    hooked(control, "finished")
    assert control.call("PATCH", "/api/v1/notification-state", {"enabled": False}, by="ann").status_code == 403
    expect(control.call("PATCH", "/api/v1/notification-state", {"enabled": False}), 200)
    finished(control, "t1")
    send(control)
    assert receiver.got == []
    expect(control.call("PATCH", "/api/v1/notification-state", {"enabled": True}), 200)
    control.clock.turn(3601)
    send(control)
    assert receiver.events == ["finished"]


def test_webhooks_and_subscriptions_are_ones_own(place: tuple[ControlPlane, World]) -> None:
    control, _ = place
    hooked(control, "finished")
    (mine,) = expect(control.call("GET", SUBSCRIPTIONS, by="ann"), 200)
    assert expect(control.call("GET", SUBSCRIPTIONS), 200) == []
    assert control.call("DELETE", f"{SUBSCRIPTIONS}/{mine['id']}").status_code == 404
    assert control.call("DELETE", f"{HOOKS}/ci").status_code == 404
    assert control.call("DELETE", f"{HOOKS}/ci", by="ann").status_code == 409
    wrong = {"events": [{"category": "workload", "types": ["exploded"]}], "channels": ["webhook:ci"]}
    assert control.call("POST", SUBSCRIPTIONS, wrong, by="ann").json()["problems"][0]["code"] == (
        "notification.no_such_event"
    )
    for channel in ("webhook:no", "slack", "email"):
        body = {"events": [{"category": "workload", "types": ["failed"]}], "channels": [channel]}
        assert control.call("POST", SUBSCRIPTIONS, body, by="ann").status_code == 422
    assert control.call("DELETE", f"{SUBSCRIPTIONS}/{mine['id']}", by="ann").status_code == 204
    assert control.call("DELETE", f"{HOOKS}/ci", by="ann").status_code == 204
    secret = expect(control.call("POST", HOOKS, {"name": "b", "url": "https://a.corp.example/"}, by="ann"), 201)
    text = control.call("GET", "/api/v1/audit/log?limit=500").text
    assert secret["secret"] not in text
    assert "/api/v1/notification-webhooks" in text


def keyed(control: ControlPlane, **scope: list[str]) -> None:
    """A program is signed in as `ci` with a key of Ann's."""
    made = expect(control.call("POST", "/api/v1/access-keys", {"name": "ci", "scope": scope}, by="ann"), 201)
    body = {
        "grantType": "client_credentials",
        "clientId": made["clientId"],
        "clientSecret": made["clientSecret"],
    }
    control.tokens["ci"] = expect(control.http.post("/api/v1/token", json=body), 200)["accessToken"]


def test_what_a_deleted_user_subscribed_to_is_gone(place: tuple[ControlPlane, World]) -> None:
    control, _ = place
    hooked(control, "finished")
    finished(control, "t1")
    ann = next(each for each in expect(control.call("GET", "/api/v1/users"), 200) if "ann@" in each["email"])
    expect(control.call("DELETE", f"/api/v1/users/{ann['id']}"), 204)

    def left(connection: Connection) -> list[Any]:
        of_user = (store.subscriptions_of, store.webhooks_of, partial(store.of_owner, offset=0, limit=9))
        return [row for rows in of_user for row in rows(connection, ann["id"])]

    assert control.http.portal is not None
    assert control.http.portal.call(control.app.state.plane.read, left) == []


def test_an_access_key_changes_no_subscription_and_no_webhook(place: tuple[ControlPlane, World]) -> None:
    control, _ = place
    hooked(control, "finished")
    keyed(control, projects=["team-a"])
    (mine,) = expect(control.call("GET", SUBSCRIPTIONS, by="ann"), 200)
    wanted = {"events": mine["events"], "channels": mine["channels"]}
    for method, path, body in (
        ("POST", SUBSCRIPTIONS, wanted),
        ("PUT", f"{SUBSCRIPTIONS}/{mine['id']}", wanted),
        ("DELETE", f"{SUBSCRIPTIONS}/{mine['id']}", None),
        ("POST", HOOKS, {"name": "mine", "url": "https://a.corp.example/"}),
        ("DELETE", f"{HOOKS}/ci", None),
    ):
        answer = control.call(method, path, body, by="ci")
        assert (answer.status_code, codes(answer)) == (403, ["access.denied"]), path
    assert expect(control.call("GET", SUBSCRIPTIONS, by="ann"), 200) == [mine]
    assert [each["name"] for each in expect(control.call("GET", HOOKS, by="ann"), 200)["webhooks"]] == ["ci"]


def test_an_access_key_sees_deliveries_of_its_projects_alone(place: tuple[ControlPlane, World]) -> None:
    control, _ = place
    control.project("team-b")
    rules = "/api/v1/authorization/access-rules"
    ann = next(each for each in expect(control.call("GET", "/api/v1/users"), 200) if "ann@" in each["email"])
    rule = {"subjectId": ann["id"], "roleId": "researcher", "scopeType": "project", "scopeId": "team-b"}
    expect(control.call("POST", rules, rule), 201)
    hooked(control, "finished")
    finished(control, "t1")
    finished(control, "t2", project="team-b")
    keyed(control, projects=["team-b"])
    assert [each["project"] for each in log(control, by="ci")] == ["team-b"]
    assert sorted(each["project"] for each in log(control)) == ["team-a", "team-b"]


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[Mailbox]:
    with smtp_server(tmp_path) as box:
        yield box


def test_many_jobs_that_finish_together_are_one_mail(
    place: tuple[ControlPlane, World], mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, _ = place
    config = {"smtpHost": mailbox.host, "smtpPort": mailbox.port, "from": "f@example.com", "smtpTlsEnabled": False}
    made = control.call("POST", "/api/v1/notification-channels", {"type": "email", "config": config})
    assert made.status_code == 201, made.text
    assert expect(control.call("GET", "/api/v1/notification-channels", by="ann"), 200) == [
        {"name": "email", "type": "email", "config": {}}
    ]
    body = {"events": [{"category": "workload", "types": ["finished"]}], "channels": ["email"]}
    expect(control.call("POST", SUBSCRIPTIONS, body, by="ann"), 201)
    finished(control, "first")
    send(control)
    for number in range(12):
        finished(control, f"t{number}")
    send(control)
    assert [each["subject"] for each in mailbox.messages] == ["Fairpool: job first finished"]
    control.clock.turn(61)
    send(control)
    assert [each["subject"] for each in mailbox.messages][1:] == ["Fairpool: 12 finished"]
    assert mailbox.recipients == [["ann@example.com"]] * 2
    assert "team-a/t7" in mailbox.messages[1].get_content()
    assert {each["state"] for each in log(control)} == {"sent"}
    monkeypatch.setattr(store, "WAITING_MAX", 3)
    for number in range(5):
        finished(control, f"more{number}")
    assert [each["state"] for each in log(control)].count("waiting") == 3, "the queue of a user is bounded"


def test_a_mail_lists_the_first_and_counts_the_others() -> None:
    from fairpool.control.notification_events import Note

    notes = [Note(str(n), "finished", f"t{n}", "w", "team-a", "2026") for n in range(10_000)]
    text = text_of(notes, len(notes))
    assert len(text.splitlines()) == LINES_MAX + 3
    assert f"and {10_000 - LINES_MAX} more" in text


def test_the_mail_channel_in_the_form_of_the_originals_client(place: tuple[ControlPlane, World]) -> None:
    control, _ = place
    path = "/api/v1/notification-channels"
    config = {"smtpHost": "smtp.example.com", "from": "f@example.com", "username": "u", "password": "hunter2-x"}
    for refused in ({"recipients": ["x@example.com"]}, {"useAttachments": True}, {"subject": "mine"}, {"from": "x"}):
        body = {"type": "email", "config": {**config, **refused}}
        assert control.call("POST", path, body).status_code == 422
        assert control.call("POST", "/api/v1/validate-notification-channel", body).status_code == 422
    assert control.call("POST", path, {"type": "slack", "config": {"apiToken": "x"}}).status_code == 422
    assert control.call("GET", f"{path}/email").status_code == 404
    good = {"type": "email", "config": {**config, "fromDisplayName": "Run:ai", "smtpPort": 587}}
    assert control.call("POST", "/api/v1/validate-notification-channel", good).status_code == 204
    assert control.call("POST", path, good).status_code == 201
    changed = expect(control.call("PATCH", f"{path}/email", {"config": {"smtpPort": 2525}}), 200)
    assert (changed["config"]["smtpPort"], changed["config"]["smtpHost"]) == (2525, "smtp.example.com")
    assert "hunter2-x" not in json.dumps(changed)
    assert "hunter2-x" not in control.call("GET", "/api/v1/audit/log?limit=500").text
    assert control.call("PUT", path + "/email", good, by="ann").status_code == 403
    assert control.call("DELETE", f"{path}/email").status_code == 204
    assert expect(control.call("GET", path), 200) == []
