"""Clusters and control planes of neighbouring versions: messages that the previous version sent, as it sent them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.api import message
from fairpool.api.clusters import DesiredWorkload, PullAnswer, PushAnswer, PushReport
from fairpool.api.declarations import WorkloadWire
from fairpool.api.message import PREVIOUS, VERSION, Since, read_message
from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.ledger import Ledger
from fairpool.cluster.loop import Loop
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.model.ids import Instant, Revision
from tests.control.control_plane import START, ControlPlane, codes, control_plane, expect
from tests.ledgers import sqlite_connection

RECORDED = Path(__file__).parent.parent / "data" / "wire" / f"v{PREVIOUS}"
WORKLOADS = "/api/v1/workloads"
ARRAY = "array"
"""Stands for a field that came with this version."""


@pytest.fixture
def home() -> Iterator[ControlPlane]:
    with control_plane() as home:
        home.project("team-a")
        yield home


@pytest.fixture
def array_is_new(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if task arrays had come with the present version."""
    for kind in (WorkloadWire, DesiredWorkload):
        field = kind.model_fields[ARRAY]
        monkeypatch.setattr(field, "metadata", [*field.metadata, Since(VERSION)])
    caches = (message._dates, message._left_out)
    for each in caches:
        each.cache_clear()
    yield
    monkeypatch.undo()
    for each in caches:
        each.cache_clear()


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.json").read_text()


def as_cluster(home: ControlPlane) -> dict[str, str]:
    return {"Authorization": f"Bearer {home.cluster_token}"}


def pull_as_before(home: ControlPlane, after: int = 0) -> Any:
    """What a cluster of the previous version is answered."""
    body = {**json.loads(recorded("pull-request")), "after": after, "waitS": 0}
    return expect(home.http.post("/api/v1/cluster/pull", json=body, headers=as_cluster(home)), 200)


# --- a cluster of the previous version ---


@pytest.mark.parametrize("name", ["push-report-all", "push-report-change"])
def test_a_report_of_the_previous_version_is_taken_in_and_answered_in_its_version(
    home: ControlPlane, name: str
) -> None:
    answer = expect(home.http.post("/api/v1/cluster/push", content=recorded(name), headers=as_cluster(home)), 200)
    assert answer["version"] == PREVIOUS
    assert answer.keys() == json.loads(recorded("push-answer")).keys()
    assert answer["taken"] is True
    nodes = json.loads(recorded(name))["nodes"]
    shown = expect(home.call("GET", "/api/v1/nodes"), 200)["nodes"]
    assert [each["name"] for each in shown] == [each["name"] for each in nodes]


def test_a_pull_of_the_previous_version_is_answered_with_the_fields_it_knows(home: ControlPlane) -> None:
    home.train("t1")
    answer = pull_as_before(home)
    before = json.loads(recorded("pull-answer-all"))
    assert answer["version"] == PREVIOUS
    assert answer.keys() == before.keys()
    assert answer["workloads"][0].keys() == before["workloads"][0].keys()
    assert answer["organization"].keys() == before["organization"].keys()


@pytest.mark.usefixtures("array_is_new")
def test_a_workload_that_uses_a_newer_field_is_not_sent_and_waits_with_that_reason(home: ControlPlane) -> None:
    plain = home.train("plain")["id"]
    swept = home.train("swept", array={"indices": "0-1"})["id"]
    answer = pull_as_before(home)
    assert [each["id"] for each in answer["workloads"]] == [plain]
    assert ARRAY not in answer["workloads"][0]

    def shown() -> tuple[str, str]:
        item = expect(home.call("GET", f"{WORKLOADS}/{swept}"), 200)
        return item["phase"], item["phaseMessage"]

    phase, words = shown()
    assert phase == "Pending"
    assert all(part in words for part in (f"version {PREVIOUS}", f"version {VERSION}", ARRAY)), words
    report = json.loads(recorded("push-report-all")) | {"workloads": [], "events": []}
    expect(home.http.post("/api/v1/cluster/push", json=report, headers=as_cluster(home)), 200)
    assert shown() == (phase, words), "its cluster cannot report it, and it waits for the same reason"
    assert {each.id for each in home.pull().workloads} == {plain, swept}, "an upgraded cluster gets it"


@pytest.mark.usefixtures("array_is_new")
def test_a_workload_with_a_newer_field_can_be_deleted_at_a_cluster_of_the_previous_version(home: ControlPlane) -> None:
    swept = home.train("swept", array={"indices": "0-1"})["id"]
    assert pull_as_before(home)["workloads"] == []
    expect(home.call("DELETE", f"{WORKLOADS}/{swept}"), 202)
    (sent,) = pull_as_before(home)["workloads"]
    assert (sent["id"], sent["want"], ARRAY in sent) == (swept, "delete", False)


@pytest.mark.parametrize("version", [PREVIOUS - 1, VERSION + 1])
def test_a_version_that_is_not_spoken_is_refused_with_both_versions(home: ControlPlane, version: int) -> None:
    report = json.loads(recorded("push-report-all")) | {"version": version}
    answer = home.http.post("/api/v1/cluster/push", json=report, headers=as_cluster(home))
    assert (answer.status_code, codes(answer)) == (422, ["wire.version"])
    words = answer.json()["problems"][0]["what"]
    assert f"version {version}" in words
    assert f"{PREVIOUS} and {VERSION}" in words


def test_a_pull_of_a_version_that_is_no_longer_spoken_is_refused_with_both_versions(home: ControlPlane) -> None:
    body = {"after": 0, "version": PREVIOUS - 1}
    answer = home.http.post("/api/v1/cluster/pull", json=body, headers=as_cluster(home))
    assert (answer.status_code, codes(answer)) == (422, ["wire.version"])


def test_a_pull_of_a_newer_cluster_is_answered_in_the_version_that_is_known(home: ControlPlane) -> None:
    body = {"after": 0, "version": VERSION + 1}
    answer = expect(home.http.post("/api/v1/cluster/pull", json=body, headers=as_cluster(home)), 200)
    assert answer["version"] == VERSION


# --- a control plane of the previous version ---


@pytest.mark.parametrize(
    ("name", "kind"),
    [("pull-answer-all", PullAnswer), ("pull-answer-change", PullAnswer), ("push-answer", PushAnswer)],
)
def test_an_answer_of_the_previous_version_is_understood(name: str, kind: type[PullAnswer | PushAnswer]) -> None:
    answer = read_message(kind, recorded(name))
    assert isinstance(answer, kind), answer
    assert answer.version == PREVIOUS


class PreviousControl:
    """A control plane that answers what was recorded, and notes what it is sent."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        answer = PullAnswer.from_json(recorded("pull-answer-all"))
        return answer if after == 0 else PullAnswer(version=PREVIOUS, after=after, revision=after)

    def push(self, report: PushReport) -> PushAnswer:
        self.reports.append(json.loads(report.to_json(report.version)))
        through = max((each.number for each in report.events), default=0)
        return PushAnswer(version=PREVIOUS, token=report.token, number=report.number, events_through=through)


def test_reports_to_a_control_plane_of_the_previous_version_have_only_what_it_knows() -> None:
    clock, control = VirtualClock(Instant(START)), PreviousControl()
    loop = Loop(Ledger(None), SimulatedEngine(clock), ControlLink(control, "c", piece_rows=1), clock.now)
    for _ in range(5):
        loop.run_cycle()
    assert control.reports
    known = json.loads(recorded("push-report-all")).keys()
    assert {report["version"] for report in control.reports} == {PREVIOUS}
    assert all(report.keys() == known for report in control.reports)
    assert control.reports[0]["whole"] is True
    assert len(control.reports[0]["workloads"]) == 3, "it does not know pieces"


def test_an_upgraded_cluster_pulls_everything_once_more(tmp_path: Path) -> None:
    """What its previous version did not know was not sent to it, and would not be news."""
    clock, control = VirtualClock(Instant(START)), PreviousControl()

    def run(ledger: Ledger) -> list[int]:
        asked: list[int] = []

        class Noted(PreviousControl):
            def pull(self, after: Revision, wait_s: float) -> PullAnswer:
                asked.append(after)
                return super().pull(after, wait_s)

        loop = Loop(ledger, SimulatedEngine(clock), ControlLink(Noted(), "c"), clock.now)
        for _ in range(5):
            loop.run_cycle()
        return asked

    ledger = Ledger(tmp_path / "ledger.db")
    revision = control.pull(Revision(0), 0).revision
    assert run(ledger)[0] == 0
    assert set(run(ledger)) == {revision}, "it continues after what it has"
    sqlite_connection(ledger).execute(f"UPDATE progress SET protocol = {PREVIOUS}")
    asked = run(ledger)
    assert (asked[0], set(asked[1:])) == (0, {revision})
    ledger.close()
