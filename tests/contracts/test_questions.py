"""Questions to a cluster, in process and through its tunnel: who may ask, what is answered, and when it is away."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fairpool.api import organization as org
from fairpool.api import questions as wire
from fairpool.api import workload_spec as work
from fairpool.api.access import AccessRuleRequest, UserRequest
from fairpool.api.client import Client, Refused
from fairpool.cluster import questions as cluster_questions
from fairpool.cluster.cycle_ring import CycleRing
from fairpool.cluster.live_snapshots import LiveSnapshots
from fairpool.cluster.questions import Questions
from fairpool.control import questions as control_questions
from fairpool.control.pod_access import Answering
from fairpool.model.ids import PoolName, WorkloadId
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.problem import Problem
from fairpool.model.spec import WorkloadSpec
from fairpool.replay.example import NOW, example_snapshot
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.snapshot_file import Loaded, from_bytes
from tests.control.pod_access_fakes import NoPodAccess
from tests.control.tunnel_harness import TIMEOUT_S, TunnelControl, tunnel_control
from tests.pod_records import spec

pytestmark = pytest.mark.slow


def spec_of(workload: WorkloadId) -> WorkloadSpec | None:
    """The jobs of the example, by their names."""
    projects = {str(group.id): group.queue for group in example_snapshot().groups}
    if workload not in projects:
        return None
    return replace(spec(name=workload), id=workload, name=workload, project=projects[workload])


@dataclass
class Asked:
    """A control plane whose cluster sees the example snapshot."""

    control: TunnelControl
    admin: Client
    live: LiveSnapshots
    ring: CycleRing
    set_answers: Callable[[Answering | None], None]

    def dry_run(self, client: Client, project: str, gpus: float) -> Any:
        compute = {"gpu": str(gpus)}
        body = {"name": "new", "projectId": project, "spec": {"image": "i", "compute": compute}, "waitAnyway": True}
        request = work.SubmitTraining.model_validate(body)
        return client.check(request).forecast


@pytest.fixture(params=["in process", "tunnel"])
def asked(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setattr(wire, "DEADLINE_S", TIMEOUT_S)  # test machines are busy
    with ExitStack() as stack:
        ring = CycleRing(tmp_path / "cycles")
        live = LiveSnapshots(ring.offer)
        answers = Questions(live, spec_of, lambda: NOW, ring)
        ring.start()
        stack.callback(ring.stop, TIMEOUT_S)
        control = stack.enter_context(tunnel_control(tmp_path / "control"))
        pods = control.plane.pod_access
        if request.param == "tunnel":
            client = control.join(NoPodAccess(), questions=answers)

            def set_answers(new: Answering | None) -> None:
                client._machine._questions = new
        else:
            pods.local_cluster, pods.local_answers = control.identity.id, answers

            def set_answers(new: Answering | None) -> None:
                pods.local_answers = new

        admin = stack.enter_context(Client(control.address))
        admin.sign_in("test@run.ai", "password")
        for name in ("vision", "speech", "language"):
            admin.create_project(org.ProjectRequest(name=name))
        live.note(DEFAULT_POOL, example_snapshot())
        yield Asked(control, admin, live, ring, set_answers)


def researcher(asked: Asked, project: str) -> Client:
    email = f"{project}@example.com"
    asked.admin.create_user(UserRequest(email=email, password="correct horse", need_to_change_password=False))
    asked.admin.create_access_rule(AccessRuleRequest(subject_id=email, role_id="researcher", scope_id=project))
    client = Client(asked.control.address)
    client.sign_in(email, "correct horse")
    return client


def quiet(snapshot: Snapshot) -> Snapshot:
    running = {pod.group for pod in snapshot.pods if pod.node is not None}
    groups = tuple(each for each in snapshot.groups if each.id in running)
    return replace(snapshot, groups=groups, pods=tuple(each for each in snapshot.pods if each.group in running))


def test_a_dry_run_says_whether_and_where_it_would_start(asked: Asked) -> None:
    found = asked.dry_run(asked.admin, "speech", 0.25)
    assert found.outcome == "starts"
    assert found.places[0].pods == 1
    assert found.message.startswith("starts now on gpu-")
    never = asked.dry_run(asked.admin, "speech", 8)
    assert never.outcome == "waits"
    assert "nodes can run it" in never.message
    assert found.wait is None
    assert asked.admin.all_workloads() == [], "nothing was submitted"


def test_a_dry_run_of_what_would_wait_says_why_and_what_would_start(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_questions, "DRAFT_TRIES_S", TIMEOUT_S)
    found = asked.dry_run(asked.admin, "speech", 8)
    assert found.wait.waits
    assert found.wait.cause.cause
    assert "failed" in {each.state for each in found.wait.checks}, found.wait.checks
    fewer = [each for each in found.wait.changes if each.kind == "fewer-gpus"]
    assert (fewer[0].before, fewer[0].effect) == (8.0, "starts"), found.wait.changes
    with researcher(asked, "speech") as person:
        hidden = asked.dry_run(person, "speech", 8)
    assert "vision" not in json.dumps(hidden)
    monkeypatch.setattr(cluster_questions, "DRAFT_TRIES_S", 0.0)
    hurried = asked.dry_run(asked.admin, "speech", 8)
    assert (hurried.outcome, hurried.wait.changes) == ("waits", []), "without time, the reason alone"


def test_victims_are_named_only_to_users_who_may_see_their_project(asked: Asked) -> None:
    asked.live.note(DEFAULT_POOL, quiet(example_snapshot()))
    seen = asked.dry_run(asked.admin, "language", 4)
    assert seen.outcome == "starts-after-preemption"
    assert {each.project for each in seen.victims} == {"vision"}
    assert {each.workload for each in seen.victims} <= {"detector", "tracker", "sweep-1", "sweep-2"}
    with researcher(asked, "language") as person:
        hidden = asked.dry_run(person, "language", 4)
    assert {each.project for each in hidden.victims} == {"another project"}
    assert {each.workload for each in hidden.victims} == {"work of another project"}
    assert "vision" not in json.dumps(hidden)


def test_the_live_snapshot_is_saved_as_a_file_that_plans_the_same(asked: Asked) -> None:
    loaded = from_bytes(b"".join(asked.admin.snapshot("local")))
    assert isinstance(loaded, Loaded)
    assert loaded.snapshot == example_snapshot()


def test_past_cycles_are_listed_and_saved(asked: Asked) -> None:
    asked.live.note(DEFAULT_POOL, quiet(example_snapshot()))
    end = time.monotonic() + TIMEOUT_S
    while len(asked.admin.past_cycles("local")) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    newest, oldest = asked.admin.past_cycles("local")
    assert newest.number > oldest.number
    first = from_bytes(b"".join(asked.admin.snapshot("local", cycle=oldest.number)))
    assert isinstance(first, Loaded)
    assert first.snapshot == example_snapshot()
    with pytest.raises(Refused, match="not kept"):
        list(asked.admin.snapshot("local", cycle=10**6))


def test_what_if_compares_both_plans(asked: Asked) -> None:
    found = asked.admin.what_if(
        "local",
        {
            "settings": ["project.language.quota=0"],
            "addNodes": ["name=gpu-9,like=gpu-1,count=3"],
            "addJobs": ["name=big,project=speech,gpus=4"],
            "withoutNodes": ["gpu-4"],
        },
    )
    assert len(found.changes) == 4
    assert {each.group for each in found.groups} >= {"big"}
    big = next(each for each in found.groups if each.group == "big")
    assert big.original is None
    assert big.changed is not None
    assert "gpu-9-" in big.changed
    assert found.original.waiting != found.changed.waiting or found.original.starting != found.changed.starting
    speech = next(each for each in found.queues if each.queue == "speech")
    assert speech.original_gpus is not None
    assert speech.changed_gpus is not None
    assert speech.changed_gpus > speech.original_gpus


@pytest.mark.parametrize(
    "change",
    [
        {"settings": ["project.nothing.quota=1"]},
        {"settings": ["garbage"]},
        {"addJobs": ["name=a"]},
        {"addNodes": ["like=nothing"]},
        {"withoutNodes": ["nothing"]},
        {"nodePool": "nothing"},
        {"later": "soon"},
    ],
)
def test_a_change_that_cannot_be_made_is_refused_by_name(asked: Asked, change: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refusal:
        asked.admin.what_if("local", change)
    assert refusal.value.status == 422


def test_only_those_who_may_see_everything_get_snapshots(asked: Asked) -> None:
    with researcher(asked, "speech") as person:
        for ask in (
            lambda: list(person.snapshot("local")),
            lambda: person.past_cycles("local"),
            lambda: person.what_if("local", {}),
        ):
            with pytest.raises(Refused) as refusal:
                ask()
            assert refusal.value.status == 403


def test_several_pools_must_be_named(asked: Asked) -> None:
    asked.live.note(PoolName("a100"), example_snapshot())
    with pytest.raises(Refused, match="a100"):
        list(asked.admin.snapshot("local"))
    assert list(asked.admin.snapshot("local", pool="a100"))
    with pytest.raises(Refused, match="no node pool"):
        list(asked.admin.snapshot("local", pool="a10"))


class Slow:
    """A scheduler that is busy for longer than anyone waits."""

    def answer(self, text: bytes) -> bytes | Problem:
        time.sleep(2)
        return b"{}"


class Broken:
    """A cluster of another release."""

    def answer(self, text: bytes) -> bytes | Problem:
        return b'{"outcome": "perhaps"}'


class Failing:
    """A bug."""

    def answer(self, text: bytes) -> bytes | Problem:
        raise RuntimeError("a bug")


def test_a_cluster_that_does_not_answer_within_a_second_counts_as_away(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "DEADLINE_S", 0.2)
    monkeypatch.setattr(control_questions, "PLANNING_S", 0.2)
    asked.set_answers(Slow())
    began = time.monotonic()
    found = asked.dry_run(asked.admin, "speech", 1)
    assert (found.outcome, found.message) == ("unknown", "the cluster is away")
    assert time.monotonic() - began < 20
    with pytest.raises(Refused, match="away"):
        asked.admin.what_if("local", {})


def test_an_answer_that_cannot_be_read_is_not_passed_on(asked: Asked) -> None:
    asked.set_answers(Broken())
    found = asked.dry_run(asked.admin, "speech", 1)
    assert found.outcome == "unknown"
    assert "cannot be read" in found.message


def test_a_cluster_that_has_just_started_says_so(asked: Asked) -> None:
    asked.set_answers(Questions(LiveSnapshots(), spec_of, lambda: NOW))
    assert "just started" in asked.dry_run(asked.admin, "speech", 1).message
    with pytest.raises(Refused) as refusal:
        list(asked.admin.snapshot("local"))
    assert refusal.value.status == 503


def test_a_dry_run_is_answered_while_the_cluster_is_away(tmp_path: Path) -> None:
    with tunnel_control(tmp_path) as control, Client(control.address) as admin:
        admin.sign_in("test@run.ai", "password")
        admin.create_project(org.ProjectRequest(name="team-a"))
        spec = work.TrainingSpec(image="i")
        answer = admin.check(work.SubmitTraining(name="new", project_id="team-a", spec=spec))
        assert answer.name == "new"
        assert answer.forecast is not None
        assert answer.forecast.outcome == "unknown"
        assert answer.forecast.message == "the cluster is away"
        with pytest.raises(Refused) as refusal:
            list(admin.snapshot("local"))
        assert refusal.value.status == 503


@pytest.mark.parametrize("text", [b"", b"{}", b"null", b'{"kind": "drop tables"}', b'{"kind": "what-if", "pool": 3}'])
def test_a_question_that_is_not_understood_is_a_problem(text: bytes) -> None:
    found = Questions(LiveSnapshots(), spec_of, lambda: NOW).answer(text)
    assert isinstance(found, Problem)
    assert found.code == "question.unknown"


def test_a_bug_in_an_answer_ends_that_question_only(asked: Asked) -> None:
    asked.set_answers(Failing())
    found = asked.dry_run(asked.admin, "speech", 1)
    assert (found.outcome, found.message) == ("unknown", "the cluster failed to answer")
    with pytest.raises(Refused) as refusal:
        list(asked.admin.snapshot("local"))
    assert refusal.value.status == 503
    asked.set_answers(Questions(asked.live, spec_of, lambda: NOW))
    assert asked.dry_run(asked.admin, "speech", 0.25).outcome == "starts"
