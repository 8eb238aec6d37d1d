"""The audit log: what every write leaves in it, that it holds no secret, and that tampering is found."""

from __future__ import annotations

import io
import json
import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from fairpool.api.audit_chain import Head
from fairpool.api.audit_export import ExportCheck, exported_entries
from fairpool.control import audit_forwarding, audit_targets, housekeeping
from fairpool.control.app import ROUTES
from fairpool.control.audit_forwarding import LEASE_S, AuditForwarding
from fairpool.control.audit_targets import AuditFile, AuditTarget, ForwardedEntry, Syslog, audit_target
from fairpool.control.openapi import openapi_document
from fairpool.control.rbac import Action
from fairpool.control.settings import Retention
from fairpool.control.store.database import Connection
from fairpool.control.store.recording import UNRECORDED
from fairpool.control.store.tables import audit, audit_chain, metadata
from fairpool.model.problem import Problem
from fairpool.model.redaction import is_secret_key
from tests.control.control_plane import ControlPlane, control_plane, expect

LOG = "/api/v1/audit/log"
SECRET = "hunter2-correct-horse"
DAY_S = 86_400


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane(
        pull_wait_s=0.0, retention=Retention(audit_s=90 * DAY_S), access_token_s=1000 * DAY_S
    ) as control:
        control.project("team-a")
        yield control


def entries(control: ControlPlane, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = expect(control.call("GET", LOG, params={"limit": 500, **query}), 200)["entries"]
    return found


def unit(control: ControlPlane, call: Any, *, writes: bool = True) -> Any:
    plane, portal = control.app.state.plane, control.http.portal
    assert portal is not None
    return portal.call(plane.write if writes else plane.read, call)


def verified(control: ControlPlane, **query: str) -> Any:
    return expect(control.call("GET", "/api/v1/audit/verify", params=query), 200)


def checked(text: str, known: Head | None = None) -> ExportCheck:
    check = ExportCheck(known)
    check.run(exported_entries(io.StringIO(text, newline="")))
    return check


def test_an_export_is_verified_without_a_server(control: ControlPlane) -> None:
    """Also with values that the forms write differently: no status, nothing, signs of formulas, quotes, lines."""
    control.project("team-b", gpus=2.5, description="a 'quoted', \"ü\" one")
    control.researcher("ann", "team-a")
    control.call("POST", "/api/v1/org-unit/projects", {"name": "x"}, by="ann")
    for name in ("=cmd()", "'=cmd()", "'+1", "o'neill", "-", "two\nlines", "a\rb", "\r"):
        body = {"grantType": "password", "username": name, "password": "a guess"}
        control.http.post("/api/v1/token", json=body)
    control.train("t1", environmentVariables=[{"name": "A", "value": "1"}])
    head = verified(control)["head"]
    for form in ("csv", "json", "jsonl"):
        text = control.call("GET", f"{LOG}/file?fileType={form}").text
        check = checked(text)
        assert (check.broken, check.why) == (None, ""), form
        assert check.is_first_proved, "the log begins with entry 1"
        assert (check.last, check.count) == (Head(**head), head["id"]), form
        assert checked(text.replace("team-b", "team-c", 1)).broken is not None


# --- what changed ---


def test_an_update_says_what_was_and_what_is(control: ControlPlane) -> None:
    control.project("team-b", gpus=2, description="old")
    body = {"name": "team-b", "description": "new", "resources": [{"gpu": {"deserved": 3}}]}
    expect(control.call("PUT", "/api/v1/org-unit/projects/team-b", body), 200)
    assert control.call("DELETE", "/api/v1/org-unit/projects/team-b").is_success
    gone, changed, made = entries(control, filterBy="entity_id==team-b")
    (change,) = changed["changes"]
    assert (change["kind"], change["id"]) == ("projects", "team-b")
    assert change["before"] == {"document.description": "old", "document.resources.0.gpu.deserved": 2}
    assert change["after"] == {"document.description": "new", "document.resources.0.gpu.deserved": 3}
    assert made["changes"][0]["after"]["document"]["description"] == "old"
    assert "before" not in made["changes"][0]
    assert gone["changes"][0]["before"]["name"] == "team-b"
    assert (made["http_status_code"], changed["http_status_code"]) == (201, 200)


def test_each_of_a_batch_has_its_own_changes(control: ControlPlane) -> None:
    ids = [str(control.train(f"t{number}")["id"]) for number in range(3)]
    assert control.call("POST", "/api/v1/workloads/batch", {"action": "suspend", "ids": ids}).is_success
    found = {each["entity_id"]: each["changes"] for each in entries(control, action="update")}
    for workload in ids:
        assert [each["id"] for each in found[workload]] == [workload]
        assert found[workload][0]["after"]["desired_state"] == "stop"


def test_a_request_is_named_in_its_answer_and_in_its_entry(control: ControlPlane) -> None:
    body = {"name": "team-b"}
    named = control.call("POST", "/api/v1/org-unit/projects", body, headers={"X-Request-Id": "nightly-run-7"})
    assert named.headers["x-request-id"] == "nightly-run-7"
    refused = control.call("POST", "/api/v1/org-unit/projects", body, headers={"X-Request-Id": "a b\tc"})
    assert refused.status_code == 409
    last, first = entries(control, filterBy="url=@projects,timestamp>=2020-01-01T00:00:00Z")[:2]
    assert (first["request_id"], last["request_id"]) == ("nightly-run-7", refused.headers["x-request-id"])
    assert last["request_id"] not in ("", "a b\tc")


def test_every_refused_write_has_an_entry_with_its_problem(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    attempts = [
        ("POST", "/api/v1/org-unit/projects", {"name": "x"}, 403, "access.denied"),
        ("POST", "/api/v1/workloads/trainings", {"name": "t", "projectId": "nope", "spec": {}}, 403, "access.denied"),
        ("POST", "/api/v1/workloads/trainings", {"nmae": "t"}, 422, "request.missing_field"),
        ("DELETE", "/api/v1/workloads/nothing", None, 404, "workload.unknown"),
    ]
    for method, path, body, status, _ in attempts:
        answer = control.call(method, path, body, by="ann")
        assert answer.status_code == status, answer.text
    found = entries(control, subject="ann@example.com", result="Failed")[::-1]
    assert [(each["http_method"], each["url"], each["http_status_code"]) for each in found] == [
        (method, path, status) for method, path, _, status, _ in attempts
    ]
    assert [each["metadata"]["problem"] for each in found][:2] == [code for *_, code in attempts][:2]
    assert control.call("GET", "/api/v1/workloads/nothing", by="ann").status_code == 404
    assert len(entries(control, subject="ann@example.com", result="Failed")) == len(attempts), "a read is not a write"


def test_a_dry_run_leaves_no_entry_unless_it_is_denied(control: ControlPlane) -> None:
    control.project("team-b")
    control.researcher("ann", "team-a")
    trainings = "/api/v1/workloads/trainings"
    body = {"name": "t", "projectId": "team-a", "spec": {"image": "python"}}
    accepted = control.call("POST", f"{trainings}?dryRun=true", body, by="ann")
    assert accepted.status_code == 200, accepted.text
    for wrong in ({**body, "name": "Not A Name"}, {**body, "spec": {"image": ""}}, {"nmae": "t"}):
        assert control.call("POST", f"{trainings}?dryRun=true", wrong, by="ann").status_code == 422
    assert entries(control, subject="ann@example.com", action="create") == []
    refused = control.call("POST", "/api/v1/org-unit/projects?dryRun=true", {"name": "X"})
    assert refused.status_code == 422, "where there is no dry run"
    assert entries(control, result="Failed")[0]["url"] == "/api/v1/org-unit/projects"
    assert (
        control.call("POST", f"{trainings}?dryRun=true", {**body, "projectId": "team-b"}, by="ann").status_code == 403
    )
    found = entries(control, subject="ann@example.com", action="create")
    assert [each["http_status_code"] for each in found] == [403]


@pytest.mark.parametrize("path", ["/api/v1/apps", "/api/v1/service-accounts"])
def test_a_program_is_not_recorded_as_a_user(control: ControlPlane, path: str) -> None:
    made = expect(control.call("POST", path, {"name": "nightly"}), 201)
    body = {
        "grantType": "client_credentials",
        "clientId": made["clientId"],
        "clientSecret": made["clientSecret"],
    }
    control.tokens["nightly"] = expect(control.http.post("/api/v1/token", json=body), 200)["accessToken"]
    assert control.call("POST", "/api/v1/org-unit/projects", {"name": "x"}, by="nightly").status_code == 403
    found = entries(control, subject="nightly")
    assert found
    assert {each["subject_type"] for each in found} == {"App"}
    assert {each["subject_type"] for each in entries(control, subject="test@run.ai")} == {"User"}


# --- secrets ---


def test_no_secret_that_was_sent_is_in_the_log(control: ControlPlane) -> None:
    password = {"email": "eve@example.com", "password": SECRET, "needToChangePassword": False}
    user = expect(control.call("POST", "/api/v1/users", password), 201)
    reset = expect(control.call("POST", f"/api/v1/users/{user['id']}/password"), 200)["tempPassword"]
    app = expect(control.call("POST", "/api/v1/apps", {"name": "nightly"}), 201)["secret"]
    cluster = expect(control.call("POST", "/api/v1/clusters", {"name": "east"}), 201)["token"]
    control.train(
        "t1",
        environmentVariables=[{"name": "DB_PASSWORD", "value": SECRET}, {"name": "PLAIN", "value": SECRET}],
        command=f"python train.py --api-key {SECRET} --url https://ann:{SECRET}@git.example.com/x --token={SECRET}",
    )
    wrong = {"grantType": "password", "username": "eve@example.com", "password": f"{SECRET}!"}
    assert control.http.post("/api/v1/token", json=wrong).status_code == 401
    refused = control.call("POST", "/api/v1/users", {**password, "email": "eve@example.com"})
    assert refused.status_code == 409
    text = json.dumps(unit(control, lambda connection: [list(row) for row in connection.execute(select(audit))]))
    for secret in (SECRET, reset, app, cluster, control.tokens["admin"]):
        assert secret not in text
    (made,) = entries(control, filterBy="entity_name==team-a/t1")
    request = made["changes"][0]["after"]["declaration"]["request"]
    assert [each["name"] for each in request["environmentVariables"]] == ["DB_PASSWORD", "PLAIN"]
    assert "python train.py --api-key [removed]" in request["command"]


def test_a_changed_password_is_a_change_without_its_value(control: ControlPlane) -> None:
    user = expect(control.call("POST", "/api/v1/users", {"email": "eve@example.com", "password": SECRET}), 201)
    expect(control.call("POST", f"/api/v1/users/{user['id']}/password"), 200)
    (reset,) = entries(control, action="reset-password")
    assert reset["changes"][0]["before"]["password_hash"] == "[removed]"
    assert reset["changes"][0]["after"]["password_hash"] != reset["changes"][0]["before"]["password_hash"]


def test_of_a_webhooks_url_only_scheme_and_host_are_recorded(control: ControlPlane) -> None:
    hosts = {"key": "notifications.webhookHosts", "value": "hooks.example.com:8443"}
    expect(control.call("PUT", "/v1/k8s/setting", hosts), 200)
    webhooks = "/api/v1/notification-webhooks"
    url = "https://hooks.example.com:8443/services/T024BE7LD/B01/Xq3vJ9wLm?room=Zz81kQ"
    expect(control.call("POST", webhooks, {"name": "ci", "url": url}), 201)
    assert control.call("DELETE", f"{webhooks}/ci").status_code == 204
    gone, made = entries(control, filterBy="entity_type==webhook")
    said = "https://hooks.example.com:8443/[removed]"
    assert (made["changes"][0]["after"]["url"], gone["changes"][0]["before"]["url"]) == (said, said)
    text = json.dumps(unit(control, lambda connection: [list(row) for row in connection.execute(select(audit))]))
    for part in ("T024BE7LD", "Xq3vJ9wLm", "Zz81kQ"):
        assert part not in text


def test_every_table_is_recorded_or_left_out_by_name() -> None:
    assert UNRECORDED - {"alembic_version"} <= set(metadata.tables), "a table that does not exist is left out"


# --- the chain ---


def test_the_chain_names_the_first_entry_that_was_tampered_with(control: ControlPlane) -> None:
    for number in range(5):
        control.project(f"p{number}")
    whole = verified(control)
    assert whole["isIntact"]
    assert whole["checked"] == whole["head"]["id"] == len(entries(control))
    assert verified(control, known=f"{whole['head']['id']}:{whole['head']['hash']}")["isIntact"]

    def rename(connection: Connection) -> None:
        connection.execute(update(audit).where(audit.c.id == 3).values(subject="eve@example.com"))

    unit(control, rename)
    broken = verified(control)
    assert (broken["isIntact"], broken["firstBroken"], broken["why"]) == (
        False,
        3,
        "was changed after it was written",
    )


def test_entries_removed_at_the_end_are_noticed(control: ControlPlane) -> None:
    control.project("p1")
    before = verified(control)["head"]

    def cut(connection: Connection) -> None:
        connection.execute(delete(audit).where(audit.c.id == before["id"]))

    unit(control, cut)
    assert verified(control)["firstBroken"] == before["id"]

    def cut_well(connection: Connection) -> None:
        last = connection.execute(select(audit).order_by(audit.c.id.desc()).limit(1)).one()
        connection.execute(update(audit_chain).values(last_id=last.id, last_hash=last.hash))

    unit(control, cut_well)
    assert verified(control)["isIntact"], "a person who can write to the database can do that"
    proof = verified(control, known=f"{before['id']}:{before['hash']}")
    assert (proof["isIntact"], proof["firstBroken"]) == (False, before["id"])
    bad = control.call("GET", "/api/v1/audit/verify", params={"known": "nonsense"})
    assert (bad.status_code, bad.json()["problems"][0]["code"]) == (400, "audit.not_a_head")


def test_retention_leaves_an_anchor_from_which_the_rest_is_proved(control: ControlPlane) -> None:
    control.project("p1")
    control.clock.turn(89 * DAY_S)
    control.project("p2")
    control.clock.turn(2 * DAY_S)
    plane = control.app.state.plane
    behind = replace(plane.settings, audit_forward="syslog:elsewhere")
    unit(control, lambda connection: housekeeping.clear(connection, behind, plane.now()))
    assert verified(control)["anchor"]["id"] == 0, "what was not forwarded yet stays"
    unit(control, lambda connection: housekeeping.clear(connection, plane.settings, plane.now()))
    control.project("p3")
    found = verified(control)
    assert found["isIntact"]
    assert found["anchor"]["id"] > 0
    assert (
        found["checked"] == found["head"]["id"] - found["anchor"]["id"] == len(entries(control)) < found["head"]["id"]
    )


def test_a_failed_write_leaves_no_gap(control: ControlPlane) -> None:
    def fail(connection: Connection) -> None:
        from fairpool.control.store import audit as store

        store.add(connection, store.without_request(plane.now(), ("ann", "User"), "create", ("x", "x", "x")))
        raise RuntimeError("undone")

    plane = control.app.state.plane
    with pytest.raises(RuntimeError):
        unit(control, fail)
    control.project("p1")
    assert verified(control)["isIntact"]


# --- lists and files ---


def test_the_log_is_filtered_searched_and_sorted(control: ControlPlane) -> None:
    control.project("p1")
    control.project("p2")
    assert [each["entity_id"] for each in entries(control, search="p2")] == ["p2"]
    assert [each["entity_id"] for each in entries(control, filterBy="entity_id=^p,http_status_code==201")] == [
        "p2",
        "p1",
    ]
    ascending = entries(control, sortBy="timestamp", sortOrder="asc", filterBy="entity_id=^p")
    assert [each["entity_id"] for each in ascending] == ["p1", "p2"]
    page = expect(control.call("GET", f"{LOG}?numberOfSamples=2&filterBy=entity_type==project"), 200)
    assert (len(page["audit_logs"]), page["total"], page["next"]) == (2, 3, 2)
    assert page["audit_logs"] == page["entries"]
    for wrong in ("filterBy=nothing==1", "sortBy=hash", "filterBy=timestamp==yesterday", "numberOfSamples=0"):
        assert control.call("GET", f"{LOG}?{wrong}").status_code in (400, 422)


def test_the_file_as_json_and_as_json_lines_is_the_log(control: ControlPlane) -> None:
    answer = control.call("GET", f"{LOG}/file?fileType=JSONL")
    assert "audit.jsonl" in answer.headers["content-disposition"]
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [each["id"] for each in lines] == [each["id"] for each in entries(control)]
    assert lines[0]["changes"] == entries(control)[0]["changes"]
    one = control.call("GET", f"{LOG}/file?fileType=jsonl&numberOfSamples=1").text
    assert len(one.splitlines()) == 1
    assert expect(control.call("GET", f"{LOG}/file?fileType=json"), 200) == lines
    assert expect(control.call("GET", f"{LOG}/file?fileType=json&filterBy=entity_id==missing"), 200) == []


# --- forwarding ---


class Collected:
    """A target that fails when told to."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.fails = False

    def send(self, entries: list[ForwardedEntry]) -> None:
        if self.fails:
            raise ConnectionRefusedError("down")
        self.ids += [each.id for each in entries]

    def close(self) -> None: ...


def forwarded(control: ControlPlane, forwarding: AuditForwarding) -> int:
    portal = control.http.portal
    assert portal is not None
    rounds = 0
    while portal.call(forwarding.forward_some):
        rounds += 1
    return rounds


def test_each_entry_is_forwarded_in_order_and_after_a_failure_again(control: ControlPlane) -> None:
    target = Collected()
    forwarding = AuditForwarding(control.app.state.plane, "x", target)  # type: ignore[arg-type]
    target.fails = True
    with pytest.raises(ConnectionRefusedError):
        forwarded(control, forwarding)
    target.fails = False
    assert forwarded(control, forwarding) == 1
    control.project("p1")
    forwarded(control, forwarding)
    assert target.ids == sorted(int(each["id"]) for each in entries(control))
    assert forwarded(control, forwarding) == 0


class Surprising(Collected):
    """A target that fails at first, in a way that is no fault of the network."""

    def __init__(self) -> None:
        super().__init__()
        self.is_first = True
        self.has_some = threading.Event()

    def send(self, entries: list[ForwardedEntry]) -> None:
        if self.is_first:
            self.is_first = False
            raise ValueError("not expected")
        super().send(entries)
        self.has_some.set()


def test_an_unexpected_error_does_not_end_forwarding(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Surprising()
    monkeypatch.setattr(audit_forwarding, "EVERY_S", 0.001)
    monkeypatch.setattr(audit_forwarding, "audit_target", lambda _: target)
    with control_plane(pull_wait_s=0.0, audit_forward="file:/nowhere") as control:
        control.project("p1")
        assert target.has_some.wait(30)
        assert not target.is_first
        assert target.ids[0] == 1, "what it did not take is sent again"


def test_of_two_servers_one_forwards_and_the_other_takes_over(control: ControlPlane) -> None:
    first, second = Collected(), Collected()
    plane = control.app.state.plane
    one, two = (AuditForwarding(plane, "x", each) for each in (first, second))  # type: ignore[arg-type]
    forwarded(control, one)
    control.project("p1")
    assert forwarded(control, two) == 0
    control.clock.turn(LEASE_S + 1)
    assert forwarded(control, two) == 1
    control.project("p2")
    assert forwarded(control, one) == 0, "it has lost its turn"
    assert second.ids == [first.ids[-1] + 1]


def test_a_file_is_complete_after_a_cut_and_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "audit.jsonl"
    place.write_text('{"id":"1"}\n{"id":"2","cut')
    target = AuditFile(place, rotate_bytes=200)
    some = [ForwardedEntry(number, "t", json.dumps({"id": str(number)}), False) for number in range(2, 5)]
    target.send(some)
    assert place.read_text().splitlines()[2:] == ['{"id": "2"}', '{"id": "3"}', '{"id": "4"}']
    monkeypatch.setattr(audit_targets, "ROTATED_KEPT", 3)
    for number in range(5, 60):
        target.send([ForwardedEntry(number, "t", json.dumps({"id": str(number)}), False)])
    names = sorted(each.name for each in tmp_path.iterdir())
    assert set(names) - {"audit.jsonl"} == {"audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3"}
    lines = [line for name in ("audit.jsonl.2", "audit.jsonl.1") for line in (tmp_path / name).read_text().splitlines()]
    ids = [int(json.loads(line)["id"]) for line in lines]
    assert ids == list(range(ids[0], ids[0] + len(ids)))
    link = tmp_path / "link.jsonl"
    link.symlink_to(place)
    with pytest.raises(OSError, match="symbolic links"):
        AuditFile(link).send(some)


class Receiver:
    """A syslog server."""

    def __init__(self, kind: str, path: Path) -> None:
        self.got: list[bytes] = []
        receiver = self

        class Datagram(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                receiver.got.append(self.request[0])

        class Stream(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while length := self._length():
                    receiver.got.append(self.rfile.read(length))

            def _length(self) -> int:
                digits = b""
                while (one := self.rfile.read(1)).isdigit():
                    digits += one
                return int(digits or 0)

        servers: dict[str, Any] = {
            "udp": lambda: socketserver.UDPServer(("127.0.0.1", 0), Datagram),
            "tcp": lambda: socketserver.ThreadingTCPServer(("127.0.0.1", 0), Stream),
            "unix": lambda: socketserver.UnixDatagramServer(str(path), Datagram),
        }
        self.server = servers[kind]()
        self.server.daemon_threads = True
        self.server.max_packet_size = 65536

    def wait_for(self, count: int) -> None:
        for _ in range(1000):
            if len(self.got) >= count:
                return
            threading.Event().wait(0.01)
        raise AssertionError(f"{len(self.got)} of {count} messages came")


@contextmanager
def receiving(kind: str, path: Path) -> Iterator[Receiver]:
    receiver = Receiver(kind, path)
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()
        thread.join()


@pytest.mark.parametrize("kind", ["udp", "tcp", "unix"])
def test_entries_arrive_at_a_syslog_server(control: ControlPlane, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "log.sock"
    with receiving(kind, path) as receiver:
        address = receiver.server.server_address
        text = f"syslog+unix:{path}" if kind == "unix" else f"syslog+{kind}://127.0.0.1:{address[1]}"
        target = audit_target(text)
        assert isinstance(target, Syslog)
        forwarded(control, AuditForwarding(control.app.state.plane, text, target))
        wanted = [each["id"] for each in entries(control)][::-1]
        receiver.wait_for(len(wanted))
        target.close()
        for message, number in zip(receiver.got, wanted, strict=True):
            head, _, body = message.partition(b"\xef\xbb\xbf")
            assert head.startswith(b"<109>1 20"), head
            assert head.split(b" ")[3] == b"fairpool"
            assert json.loads(body)["id"] == number


def test_a_syslog_server_that_went_away_is_noticed_and_nothing_is_lost(control: ControlPlane, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        target = audit_target(f"syslog+tcp://127.0.0.1:{port}")
        assert isinstance(target, Syslog)
        forwarding = AuditForwarding(control.app.state.plane, "x", target)
        forwarded(control, forwarding)
        accepted, _ = first.accept()
        accepted.close()
    control.project("p1")
    with pytest.raises(OSError, match=r"closed|refused|reset|pipe"):
        forwarded(control, forwarding)
    with receiving("tcp", tmp_path) as receiver:
        again: AuditTarget | Problem = audit_target(f"syslog+tcp://127.0.0.1:{receiver.server.server_address[1]}")
        assert isinstance(again, Syslog)
        control.clock.turn(LEASE_S + 1)
        forwarded(control, AuditForwarding(control.app.state.plane, "x", again))
        receiver.wait_for(1)
        again.close()
        last = json.loads(receiver.got[-1].partition(b"\xef\xbb\xbf")[2])
        assert last["entity_id"] == "p1"


@pytest.mark.parametrize(
    "text", ["x", "file:relative", "file://host/x", "syslog+udp://", "syslog+tcp://h:x", "http://h"]
)
def test_a_target_that_is_none_is_refused(text: str) -> None:
    assert isinstance(audit_target(text), Problem)


# --- every route ---

OWN_CHOICES = "/api/v1/me/preferences"
"""Density, theme and saved views of the reader's own page change nothing that others could see."""
ASKING = re.compile(
    r"/(permitted-scopes|would-start|what-if|snapshot|cycles|validate|uploads|check|batch)\b|jobs/(suspend|resume)$"
)
"""Routes that are asked with POST and change nothing, or that answer for each of many, of which none is there."""
ENDING = re.compile(r"logout|sign-out|sessions|me/password")
"""Routes that end the session of the test, and have tests of their own."""


def _marked(value: Any, key: str = "") -> Any:
    """An example whose secrets are known."""
    if isinstance(value, dict):
        return {name: _marked(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_marked(each, key) for each in value]
    return SECRET if isinstance(value, str) and is_secret_key(key) else value


@pytest.mark.slow
def test_every_write_leaves_an_entry_and_no_secret() -> None:
    document = openapi_document(ROUTES)
    with control_plane(pull_wait_s=0.0, access_token_s=1000 * DAY_S) as control:
        control.project("team-a")
        silent = []
        for route in ROUTES:
            is_read = route.method in ("GET", "WEBSOCKET") or route.action in (Action.OPEN, Action.LINK)
            if is_read or ENDING.search(route.path) or route.path == OWN_CHOICES:
                continue
            operation = document["paths"].get(route.path, {}).get(route.method.lower(), {})
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            control.clock.turn(61)  # refusals are counted by the minute
            path = re.sub(r"\{\w+\}", "nothing", route.path)
            answer = control.call(route.method, path, _marked(body))
            name = answer.headers.get("x-request-id", "")
            found = entries(control, filterBy=f"request_id=={name}") if name else []
            if not found and not ASKING.search(route.path):
                silent.append((route.method, route.path, answer.status_code))
        assert silent == []
        assert verified(control)["isIntact"]
        text = json.dumps(unit(control, lambda connection: [list(row) for row in connection.execute(select(audit))]))
        assert SECRET not in text
