"""A restored database is another one: numbers from before mean nothing in it, and a caller who has one is refused.

Each story goes on for longer than what was lost, so that a count that went on from the backup would have caught up.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fairpool.api.clusters import PullAnswer, PushAnswer, PushReport
from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.ledger import Ledger
from fairpool.cluster.loop import Loop
from fairpool.control.store import condition
from fairpool.engines.simulated.behaviour import Behaviour, same_behaviour
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.model.ids import Instant, NodeName, PodId, Revision
from fairpool.model.node import Node
from fairpool.platform.backup import make_backup
from fairpool.platform.data_directory import DataDirectory
from fairpool.platform.restore import restore_backup
from tests.control.control_plane import ControlPlane, codes, control_plane, expect, node
from tests.control.kept import as_far_as, in_todays_words, keep_database, kept_answers
from tests.postgresql import of_sqlite

pytestmark = [pytest.mark.slow, of_sqlite]

PROJECTS, WORKLOADS = "/api/v1/org-unit/projects", "/api/v1/workloads"


@pytest.fixture(params=["in place", "on a fresh folder"])
def new(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where the backup is put back."""
    return old(tmp_path) if request.param == "in place" else tmp_path / "new"


def old(tmp_path: Path) -> Path:
    return tmp_path / "old"


def back_up(tmp_path: Path) -> None:
    make_backup(DataDirectory(old(tmp_path)), tmp_path / "backup")


def restore(tmp_path: Path, folder: Path) -> None:
    data_directory = DataDirectory(folder)
    data_directory.prepare()
    restore_backup(data_directory, tmp_path / "backup")


def go_on(control: ControlPlane, times: int = 10) -> None:
    """As much happens as did after the backup, and more."""
    for number in range(times):
        control.project(f"again-{number}", gpus=0)


def test_an_etag_from_before_a_restore_is_good_for_nothing(tmp_path: Path, new: Path) -> None:
    team = f"{PROJECTS}/team-a"
    with control_plane(old(tmp_path)) as control:
        control.project("team-a")
        tags = [control.call("GET", team).headers["etag"]]
        back_up(tmp_path)
        tags += [tag_of_change(control, team, f"lost {number}") for number in range(5)]
    restore(tmp_path, new)
    with control_plane(new) as control:
        tag = control.call("GET", team).headers["etag"]
        for number in range(10):
            for old_tag in tags:
                late = control.call("PATCH", team, {}, headers={"If-Match": old_tag})
                assert (late.status_code, codes(late)) == (412, ["request.changed_meanwhile"])
            tag = tag_of_change(control, team, f"again {number}", tag)


def tag_of_change(control: ControlPlane, path: str, description: str, if_match: str = "*") -> str:
    answer = control.call("PATCH", path, {"description": description}, headers={"If-Match": if_match})
    assert expect(answer, 200)["description"] == description
    return str(answer.headers["etag"])


def test_marks_and_settings_leap_with_everything_else(tmp_path: Path, new: Path) -> None:
    there, setting = "/api/v1/nodes/n1", "/api/v1/security/settings/security.passwordMinLength"
    with control_plane(old(tmp_path)) as control:
        control.push(control.report(whole=True, nodes=(node("n1"),)))
        expect(control.call("PUT", f"{there}/overrides", {"cordoned": True}), 200)
        expect(control.call("PUT", setting, {"value": 12}), 200)
        tags = {path: control.call("GET", path).headers["etag"] for path in (there, setting)}
        back_up(tmp_path)
    restore(tmp_path, new)
    with control_plane(new) as control:
        for path, body in ((f"{there}/overrides", {}), (setting, {"value": 10})):
            tag = tags[path.removesuffix("/overrides")]
            assert control.call("PUT", path, body, headers={"If-Match": tag}).status_code == 412


def test_what_did_not_change_since_the_backup_is_as_it_was_but_for_its_revision(tmp_path: Path, new: Path) -> None:
    with control_plane(old(tmp_path)) as control:
        control.project("team-a")
        workload = control.train("t1", image="größe", compute={"gpu": "0.25"})
        control.push(control.report(whole=True, workloads=(control.runs(workload["id"]),)))
        paths = [f"{WORKLOADS}/{workload['id']}", f"{PROJECTS}/team-a", "/api/v1/org-unit/departments/default"]
        before = [expect(control.call("GET", path), 200) for path in paths]
        listed = expect(control.call("GET", WORKLOADS), 200)["workloads"]
        back_up(tmp_path)
    restore(tmp_path, new)
    with control_plane(new) as control:
        answers = [control.call("GET", path) for path in paths]
        assert [without_revision(answer.json()) for answer in answers] == [without_revision(each) for each in before]
        assert [f'"{answer.json()["revision"]}"' for answer in answers] == [each.headers["etag"] for each in answers]
        assert all(answer.json()["revision"] > each["revision"] for answer, each in zip(answers, before, strict=True))
        relisted = expect(control.call("GET", WORKLOADS), 200)["workloads"]
        assert [without_revision(each) for each in relisted] == [without_revision(each) for each in listed]
        assert relisted[0]["revision"] == answers[0].json()["revision"]


def without_revision(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "revision"}


def test_a_cluster_that_read_more_than_the_backup_knows_is_told_everything(tmp_path: Path, new: Path) -> None:
    with control_plane(old(tmp_path)) as control:
        control.project("team-a")
        back_up(tmp_path)
        control.train("lost")
        control.project("lost")
        read = control.pull().revision
    restore(tmp_path, new)
    with control_plane(new) as control:
        go_on(control)
        answer = control.pull(read)
        assert answer.whole
        assert answer.organization is not None
        assert not control.pull(answer.revision).whole, "once is enough"
        again = control.train("new")
        assert [each.id for each in control.pull(answer.revision).workloads] == [again["id"]]


def test_one_backup_that_is_put_back_twice_counts_otherwise_both_times(tmp_path: Path) -> None:
    with control_plane(old(tmp_path)) as control:
        control.project("team-a")
        back_up(tmp_path)
    read: list[Revision] = []
    for folder in ("first", "second"):
        restore(tmp_path, tmp_path / folder)
        with control_plane(tmp_path / folder) as control:
            assert all(control.pull(revision).whole for revision in read)
            go_on(control)
            assert all(control.pull(revision).whole for revision in read)
            read.append(control.pull().revision)
    assert abs(read[0] - read[1]) > 20, "by chance less than once in many millions of restores"
    assert all(condition.LEAP < revision < 2**53 for revision in read)


def test_a_backup_of_an_earlier_version_leaps_too(tmp_path: Path) -> None:
    keep_database(old(tmp_path))
    before = kept_answers()
    back_up(tmp_path)
    restore(tmp_path, tmp_path / "new")
    with control_plane(tmp_path / "new") as control:
        for path, workload in before.items():
            if "spec" not in workload or workload["phase"] == "Deleted":
                continue
            shown = expect(control.call("GET", path), 200)
            older = without_revision(in_todays_words(workload))
            assert as_far_as(older, without_revision(shown)) == older
            assert shown["revision"] > condition.LEAP
            assert control.pull(workload["revision"]).whole


def test_old_changes_that_are_let_go_of_bring_nothing_back(tmp_path: Path) -> None:
    with control_plane(old(tmp_path), changes_kept=500) as control:
        control.project("team-a")
        read = control.pull().revision
        back_up(tmp_path)
    restore(tmp_path, tmp_path / "new")
    with control_plane(tmp_path / "new", changes_kept=500) as control:
        control.push(control.report(whole=True, nodes=tuple(node(f"n{number}") for number in range(1100))))
        assert control.pull(read).whole
        with closing(sqlite3.connect(tmp_path / "new" / "control.sqlite")) as database:
            (oldest,) = database.execute("SELECT oldest FROM revision").fetchone()
            assert oldest > condition.LEAP


# --- the loop ---


class Wire:
    """The way to whichever control plane is there."""

    def __init__(self, control: ControlPlane) -> None:
        self.control = control
        self.answers: list[PullAnswer] = []
        self.reports: list[PushReport] = []

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        answer = self.control.pull(after)
        self.answers.append(answer)
        return answer

    def push(self, report: PushReport) -> PushAnswer:
        self.reports.append(report)
        return self.control.push(report)


class Cluster:
    """A loop that lives on while its control plane is put back."""

    def __init__(self, control: ControlPlane) -> None:
        self.clock = VirtualClock(Instant(control.clock.now))
        machine = Node(name=NodeName("n1"), cpu_milli=64_000, memory_bytes=1 << 38, gpus=8, gpu_memory_mib=32_510)
        self.engine = SimulatedEngine(self.clock, [machine], same_behaviour(Behaviour()))
        self.wire = Wire(control)
        self.loop = Loop(Ledger(None), self.engine, ControlLink(self.wire, "local"), self.clock.now)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            while self.loop.run_cycle():
                pass
            self.clock.advance(1)

    def alive(self) -> set[PodId]:
        return set(self.engine.alive())


def test_a_loop_notices_a_restore_and_tells_all_again_and_starts_nothing_twice(tmp_path: Path, new: Path) -> None:
    with control_plane(old(tmp_path)) as control:
        control.project("team-a", gpus=8)
        kept = control.train("kept")["id"]
        cluster = Cluster(control)
        cluster.run(5)
        back_up(tmp_path)
        lost = control.train("lost")["id"]
        cluster.run(5)
        assert cluster.alive() == {f"{kept}-0-0", f"{lost}-0-0"}
    restore(tmp_path, new)
    with control_plane(new) as control:
        go_on(control, 3)
        other = control.train("other")["id"]
        more = [control.train(f"more-{number}")["id"] for number in range(3)]
        cluster.wire.control = control
        cluster.wire.answers.clear()
        cluster.wire.reports.clear()
        cluster.run(60)
        assert cluster.wire.answers[0].whole
        assert [each.whole for each in cluster.wire.answers].count(True) <= 2, "it comes to rest"
        assert cluster.wire.reports[0].whole, "before any caller had to ask for it"
        assert cluster.alive() == {f"{each}-0-0" for each in (kept, other, *more)}
        assert not cluster.engine.violations
        pods = expect(control.call("GET", f"{WORKLOADS}/{kept}/history"), 200)["history"]
        assert [(each["incarnation"], each["phase"]) for each in pods] == [(0, "running")]
