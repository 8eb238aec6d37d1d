"""What is over goes when its time is up, whatever is wanted stays, and a little at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from fairpool.control import housekeeping
from fairpool.control.closed_pods import PODS_KEPT
from fairpool.control.plane import CALLERS_MAX, Caller, Callers
from fairpool.control.settings import Retention
from fairpool.control.store.access_revision import AccessRevision
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import audit, changes, events, idempotency, metadata, pods, workloads
from fairpool.model.ids import PodId
from tests.control.control_plane import ControlPlane, control_plane, event, expect, gone

DAY_S = 86_400
WORKLOADS = "/api/v1/workloads"


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    kept = Retention(history_s=30 * DAY_S, audit_s=90 * DAY_S)
    with control_plane(retention=kept, pull_wait_s=0.0, access_token_s=1000 * DAY_S) as control:
        control.project("team-a")
        yield control


def clear(control: ControlPlane) -> int:
    """All that is too old; the number of times it takes."""
    plane, times = control.app.state.plane, 0
    portal = control.http.portal
    assert portal is not None

    def unit(connection: Connection) -> bool:
        return housekeeping.clear(connection, plane.settings, plane.now())

    while True:
        times += 1
        if not portal.call(plane.write, unit):
            return times


def rows(control: ControlPlane) -> dict[str, int]:
    def unit(connection: Connection) -> dict[str, int]:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
        }

    portal = control.http.portal
    assert portal is not None
    counted: dict[str, int] = portal.call(control.app.state.plane.read, unit)
    return counted


def deleted(control: ControlPlane, name: str) -> str:
    """One that ran, was deleted and is gone."""
    workload = str(control.train(name)["id"])
    bound = event(control.report_number + 1, workload).model_copy(update={"at": control.clock.now})
    control.push(control.report(workloads=(control.runs(workload),), events=(bound,)))
    control.call("DELETE", f"{WORKLOADS}/{workload}")
    control.push(control.report(gone=(gone(workload),)))
    return workload


def test_what_was_deleted_can_be_looked_at_for_a_while_and_then_nothing_is_left_of_it(control: ControlPlane) -> None:
    old = deleted(control, "old")
    control.clock.turn(20 * DAY_S)
    young, wanted = deleted(control, "young"), control.train("wanted")["id"]
    clear(control)
    assert expect(control.call("GET", f"{WORKLOADS}/{old}"), 200)["phase"] == "Deleted"
    control.clock.turn(11 * DAY_S)
    clear(control)
    assert control.call("GET", f"{WORKLOADS}/{old}").status_code == 404
    assert control.call("GET", f"{WORKLOADS}/{young}").status_code == 200
    left = rows(control)
    assert [left[table.name] for table in (workloads, pods, events)] == [2, 1, 1]
    control.clock.turn(365 * DAY_S)
    clear(control)
    assert [each["id"] for each in expect(control.call("GET", WORKLOADS), 200)["workloads"]] == [wanted]
    left = rows(control)
    assert [left[table.name] for table in (workloads, pods, events, changes, idempotency)] == [1, 0, 0, 0, 0]


def test_a_cluster_that_was_away_for_longer_than_changes_are_kept_is_told_everything(control: ControlPlane) -> None:
    control.pull()  # the first contact is a change of its own
    workload = control.train("t1")["id"]
    read = control.pull().revision
    control.clock.turn(31 * DAY_S)
    clear(control)
    answer = control.pull(read)
    assert not answer.whole, "it has read all there was"
    control.clock.turn(31 * DAY_S)
    control.train("t2")
    control.clock.turn(31 * DAY_S)
    clear(control)
    answer = control.pull(read)
    assert answer.whole
    assert workload in {each.id for each in answer.workloads}
    assert len(answer.workloads) == 2


def test_the_audit_log_is_kept_for_its_own_time(control: ControlPlane) -> None:
    control.train("t1")
    before = rows(control)[audit.name]
    control.clock.turn(89 * DAY_S)
    clear(control)
    assert rows(control)[audit.name] == before
    control.clock.turn(2 * DAY_S)
    clear(control)
    assert rows(control)[audit.name] == 0


def test_a_submit_may_be_repeated_for_a_day(control: ControlPlane) -> None:
    body = {"name": "t1", "projectId": "team-a", "spec": {"image": "quickstart"}}
    key = {"Idempotency-Key": "k"}
    path = f"{WORKLOADS}/trainings"
    first = expect(control.call("POST", path, body, headers=key), 202)
    control.clock.turn(DAY_S - 60)
    clear(control)
    assert expect(control.call("POST", path, body, headers=key), 202)["id"] == first["id"]
    control.clock.turn(120)
    clear(control)
    assert control.call("POST", path, body, headers=key).status_code == 409


def test_much_goes_in_small_units(control: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "AT_A_TIME", 2)
    for number in range(5):
        deleted(control, f"t{number}")
    control.clock.turn(31 * DAY_S)
    assert clear(control) > 3
    assert rows(control)[workloads.name] == 0


@pytest.mark.slow
def test_only_the_latest_pods_of_an_index_are_kept(control: ControlPlane) -> None:
    workload = str(control.train("t1")["id"])
    for replica in range(PODS_KEPT + 5):
        pod = PodId(f"{workload}-0-{replica}")
        ended = event(replica + 1, workload, "ended").model_copy(update={"pod": pod})
        control.push(control.report(workloads=(control.runs(workload, run=replica),), events=(ended,)))
    history = expect(control.call("GET", f"{WORKLOADS}/{workload}/history?limit=500"), 200)["history"]
    numbers = sorted(each["incarnation"] for each in history)
    assert numbers == list(range(5, PODS_KEPT + 5))


@pytest.mark.slow
def test_it_happens_by_itself() -> None:
    with control_plane(retention=Retention(history_s=1, audit_s=1), pull_wait_s=0.0) as control:
        control.project("team-a")
        deleted(control, "t1")
        control.clock.turn(5)
        end = time.monotonic() + 60
        while rows(control)[workloads.name]:
            assert time.monotonic() < end
            time.sleep(0.02)


def test_unknown_callers_cannot_fill_the_memory() -> None:
    callers = Callers()
    for number in range(CALLERS_MAX + 1):
        callers.keep(str(number), Caller(id="a", name="a", kind="user"), callers.changes)
    assert len(callers) == 1

    async def unchanged(unit: object) -> tuple[AccessRevision, set[str]]:
        return AccessRevision(0, 0), {str(CALLERS_MAX)}

    asyncio.run(callers.confirm(unchanged))
    assert str(CALLERS_MAX) in callers
