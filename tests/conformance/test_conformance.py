"""Every conformance case as a test, and the runner's manners."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairpool.model.ids import GroupId, Instant, NodeName, PodId
from fairpool.scheduler.decision import Bind, Evict, EvictionReason, Plan, Promise
from fairpool.scheduler.plan import plan
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.snapshot import Snapshot
from tests.conformance.__main__ import CANNOT_RUN, main
from tests.conformance.case import Case, Json, read_folder
from tests.conformance.cycle import Operations, apply, carry_over, run_cycle
from tests.conformance.judge import judge
from tests.conformance.match import idle_and_releasing
from tests.conformance.state import TaskState, first_state

HERE = Path(__file__).parent

DEVIATIONS: dict[str, str] = {}
"""Cases of `cases/` that we decide otherwise on purpose, with the page in docs/decisions that says why."""

MISSES: dict[str, str] = {}
"""Random clusters that come out otherwise than in the reference, with the reason. One that passes again fails here."""


def cases() -> Iterator[object]:
    for folder, known in (("cases", DEVIATIONS), ("random", MISSES)):
        for case in read_folder(HERE / folder):
            marks = [pytest.mark.xfail(reason=known[case.id], strict=True)] if case.id in known else []
            yield pytest.param(case, id=case.id, marks=marks)


@pytest.mark.parametrize("case", list(cases()))
def test_case(case: Case) -> None:
    outcome = judge(case, plan)
    assert outcome.passed, "\n".join((case.id, *outcome.differences, outcome.trace))


def test_all_cases_are_here_and_only_once() -> None:
    ids = [case.id for case in read_folder(HERE)]
    assert len(ids) == len(set(ids)) == 557
    assert not (DEVIATIONS.keys() | MISSES.keys()) - set(ids)


# ---- the command


def test_a_folder_that_is_not_there_is_said_and_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere")]) == CANNOT_RUN
    assert "nowhere is not a folder" in capsys.readouterr().err


def test_a_folder_without_cases_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "names.json").write_text('{"some/case": "what it is called"}')
    assert main([str(tmp_path)]) == CANNOT_RUN
    assert "no case files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("{", "cannot read", id="not JSON"),
        pytest.param('{"cases": []}', "format_version is None", id="without a version"),
        pytest.param('{"format_version": 2, "cases": []}', "format_version is 2", id="another version"),
        pytest.param('{"format_version": 1, "cases": [{}]}', "number 0 has no id", id="cases of something else"),
    ],
)
def test_a_foreign_file_exits_2(
    content: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "foreign.json").write_text(content)
    assert main([str(tmp_path)]) == CANNOT_RUN
    assert complaint in capsys.readouterr().err


def test_a_pattern_that_matches_nothing_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(HERE / "cases"), "--only", "no-such-case"]) == CANNOT_RUN
    assert "no case matches 'no-such-case'" in capsys.readouterr().err


def test_a_pattern_chooses_by_suite_or_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(HERE), "--only", "capacity-policy"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "15 passed, 0 failed"
    assert main([str(HERE), "--only", "capacity-policy/*/Capacity-Policy-Check/000", "-v"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok capacity-policy/capacity_policy/Capacity-Policy-Check/000",
        "1 passed, 0 failed",
    ]


def test_a_failing_case_says_what_differed_and_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = json.loads((HERE / "cases" / "capacity-policy.json").read_text())
    file["cases"] = file["cases"][:2]
    file["cases"][0]["expected"]["schedulable"] ^= True
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "cases.json").write_text(json.dumps(file))
    assert main([str(tmp_path)]) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == f"FAILED {file['cases'][0]['id']}"
    assert second.strip() == "schedulable is True, not False"
    assert last == "1 passed, 1 failed"


def test_an_exception_while_planning_is_a_failure_of_the_case() -> None:
    def stumble(_: Snapshot) -> Plan:
        raise ZeroDivisionError("oops")

    outcome = judge(two_tasks(), stumble)
    assert outcome.differences == ("ZeroDivisionError: oops",)
    assert "in stumble" in outcome.trace


# ---- applying a plan

REASON = EvictionReason(by=Pass.RECLAIM)
GROUP = GroupId("a")
N1, N2 = NodeName("n1"), NodeName("n2")


def two_tasks() -> Case:
    """Two nodes of two GPUs; one task runs on half a GPU of the first, one waits."""

    def task(name: str, **where: object) -> Json:
        request = {"gpu": {"kind": "fraction", "fraction": 0.5}, "cpu_milli": 0, "memory_bytes": 0}
        return {"id": name, "sub_group": "default", "request": request, **where}

    nodes: list[Json] = [
        {"name": name, "gpus": 2, "gpu_memory": 100, "cpu_milli": 0, "memory_bytes": 0, "max_pods": 9, "labels": {}}
        for name in ("n1", "n2")
    ]
    tasks = [
        task("a-0", status="Running", node="n1", gpu_groups=["x"]),
        task("a-1", status="Pending", node=None),
    ]
    pod_sets = [{"name": "default", "min_available": 1, "topology_constraint": None}]
    tree = {"name": "", "topology_constraint": None, "groups": [], "pod_sets": pod_sets}
    job = {"name": "a", "queue": "q", "priority": 50, "preemptible": True, "age_minutes": 1, "sub_groups": tree}
    session = {"plugins": [], "predicates_loaded": True, "staleness_grace_seconds": 0}
    data = {
        "nodes": nodes,
        "queues": [],
        "jobs": [{**job, "tasks": tasks}],
        "session": session,
        "runner": {"kind": "single_cycle", "actions": ["allocate"]},
        "expected": {"jobs": {}, "tasks": {}, "nodes": {}},
        "max_operations_per_cycle": {"binds": 0, "evictions": 0, "pipelined": 0},
    }
    return Case("two tasks", "allocate", data, ())


def test_a_moved_task_is_one_eviction_and_one_promise() -> None:
    moves = Plan(
        evictions=(Evict(PodId("a-0"), GROUP, N1, REASON),),
        promises=(Promise(PodId("a-0"), GROUP, N2, (1,), Instant(0)),),
    )
    case = two_tasks()
    cycle = run_cycle(case, first_state(case), lambda _: moves)
    assert cycle.state.tasks["a-0"] == TaskState("Pipelined", "n2", (1,))
    assert cycle.operations == Operations(binds=0, evictions=1, pipelined=1)
    assert carry_over(case, cycle.state).tasks["a-0"] == TaskState("Pending")


def test_a_task_bound_and_evicted_in_one_plan_is_leaving() -> None:
    both = Plan(binds=(Bind(PodId("a-1"), GROUP, N1, (0,)),), evictions=(Evict(PodId("a-1"), GROUP, N1, REASON),))
    case = two_tasks()
    assert apply(case, first_state(case), both).tasks["a-1"] == TaskState("Releasing", "n1", (0,))


def test_what_is_bound_runs_in_the_next_cycle_on_the_same_device() -> None:
    case = two_tasks()
    bound = apply(case, first_state(case), Plan(binds=(Bind(PodId("a-1"), GROUP, N1, (0,)),)))
    assert carry_over(case, bound).tasks["a-1"] == TaskState("Running", "n1", (0,))


def test_idle_and_releasing_gpus_count_shared_devices_once() -> None:
    case = two_tasks()
    state = first_state(case)
    assert idle_and_releasing(case, state, "n1", 2) == (1, 0)
    leaving = apply(case, state, Plan(evictions=(Evict(PodId("a-0"), GROUP, N1, REASON),)))
    assert idle_and_releasing(case, leaving, "n1", 2) == (1, 1)
    promised = apply(case, leaving, Plan(promises=(Promise(PodId("a-1"), GROUP, N1, (0,), Instant(0)),)))
    assert idle_and_releasing(case, promised, "n1", 2) == (1, 0)
    elsewhere = apply(case, leaving, Plan(promises=(Promise(PodId("a-1"), GROUP, N1, (1,), Instant(0)),)))
    assert idle_and_releasing(case, elsewhere, "n1", 2) == (1, 0)
