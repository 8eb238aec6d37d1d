"""Pull and push within one process: the promises of the link, kept without a wire."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator

import pytest

from fairpool.api.clusters import ControlPlaneUnreachable
from fairpool.control.clusters import cluster_beside
from fairpool.control.report_intake import ReportIntake
from fairpool.control.store.database import Connection
from fairpool.model.ids import Revision
from fairpool.platform.in_process import InProcessControl
from tests.control.control_plane import ControlPlane, codes, control_plane, expect, node


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        yield control


@pytest.fixture
def inside(control: ControlPlane) -> Iterator[InProcessControl]:
    portal = control.http.portal
    assert portal is not None
    own = portal.call(cluster_beside, control.app.state.plane)
    inside = InProcessControl(control.app.state.plane, own.uuid, portal.call(asyncio.get_running_loop))
    yield inside
    inside.close()


def test_the_same_is_heard_and_said_as_over_the_wire(control: ControlPlane, inside: InProcessControl) -> None:
    workload = control.train("t1")
    heard = inside.pull(Revision(0), 0.0)
    assert heard == control.pull()
    assert [each.id for each in heard.workloads] == [workload["id"]]
    answer = inside.push(control.report(whole=True, nodes=(node("n1"),)))
    assert (answer.taken, answer.resync) == (True, False)
    assert [each["name"] for each in expect(control.call("GET", "/api/v1/nodes"), 200)["nodes"]] == ["n1"]


def test_a_waiting_pull_wakes_at_once(control: ControlPlane, inside: InProcessControl) -> None:
    read = inside.pull(Revision(0), 0.0).revision
    woke: list[tuple[float, int]] = []

    def wait() -> None:
        answer = inside.pull(read, 20.0)
        woke.append((time.monotonic(), len(answer.workloads)))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)
    assert not woke
    control.train("t1")
    submitted = time.monotonic()
    waiting.join(60)
    assert woke[0][1] == 1
    assert woke[0][0] - submitted < 10, "it was not woken, its time was over"


def test_who_leaves_is_not_held_up_by_a_pull(control: ControlPlane, inside: InProcessControl) -> None:
    read = inside.pull(Revision(0), 0.0).revision
    gave_up: list[str] = []

    def wait() -> None:
        with pytest.raises(ControlPlaneUnreachable) as raised:
            inside.pull(read, 20.0)
        gave_up.append(str(raised.value))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)
    inside.close()
    waiting.join(10)
    assert gave_up == ["the call was cancelled"]
    with pytest.raises(ControlPlaneUnreachable):
        inside.pull(read, 0.0)


def test_a_disk_that_fails_is_a_control_plane_that_cannot_answer(
    control: ControlPlane, inside: InProcessControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(intake: ReportIntake, connection: Connection) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(ReportIntake, "go_on", full)
    with pytest.raises(ControlPlaneUnreachable, match="disk is full"):
        inside.push(control.report(whole=True))


def test_the_cluster_of_this_process_is_known_by_whatever_name_and_stays(
    control: ControlPlane, inside: InProcessControl
) -> None:
    (own,) = expect(control.call("GET", "/api/v1/clusters"), 200)
    expect(control.call("PUT", f"/api/v1/clusters/{own['uuid']}", {"name": "the-lab"}), 200)
    control.clock.turn(1)
    expect(control.call("POST", "/api/v1/clusters", {"name": own["name"]}), 201)
    assert control.http.portal is not None
    again = control.http.portal.call(cluster_beside, control.app.state.plane)
    assert (again.uuid, again.name) == (own["uuid"], "the-lab")
    refusal = control.call("DELETE", f"/api/v1/clusters/{own['uuid']}")
    assert (refusal.status_code, codes(refusal)) == (412, ["cluster.is_here"])
