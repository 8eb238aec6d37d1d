"""Scenario files and traces: what is in them, and what people are told when something is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairpool.cli.simulation_progress import elapsed_text
from fairpool.model.ids import NodeName, QueueId, WorkloadId
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.organization import department_queue
from fairpool.model.problem import Problem
from fairpool.model.quantity import UNLIMITED
from fairpool.model.spec import Arrangement
from fairpool.model.workload import WorkloadKind, gpu_memory, gpu_portion, whole_gpus
from fairpool.simulation import scenario_file, trace_file
from fairpool.simulation.capture import CaptureRequest, request
from fairpool.simulation.catalogue import examples
from fairpool.simulation.scenario import (
    Await,
    Condition,
    Expect,
    Expected,
    Figure,
    NodeEvent,
    NodeStep,
    Operation,
    Pause,
    Resize,
    Scenario,
    SetQuota,
    SubmitStep,
    Until,
    WorkloadStep,
)
from fairpool.simulation.step_tables import VERBS
from fairpool.simulation.tally import spread

HEAD = """
[[nodes]]
name = "node"
count = 2
gpus = 4
gpu_memory = 40960

[[departments]]
name = "lab"

[[projects]]
name = "vision"
department = "lab"
quota = 4

[[projects]]
name = "speech"
quota = 2.5
"""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "scenario-file.md"


def scenario(*steps: str, head: str = HEAD, more: str = "") -> Scenario:
    read = scenario_file.read(_text(steps, head, more), "test")
    assert isinstance(read, Scenario), read
    return read


def problems(*steps: str, head: str = HEAD, more: str = "") -> list[str]:
    read = scenario_file.read(_text(steps, head, more), "test")
    assert isinstance(read, list), "it was read"
    return [f"{problem.what} -> {problem.fix}" for problem in read]


def _text(steps: tuple[str, ...], head: str, more: str) -> str:
    lines = "".join(f"  {{ {step} }},\n" for step in steps)
    return f'{head}\n[[phases]]\nname = "one"\nsteps = [\n{lines}]\n{more}'


def only_submit(step: str, head: str = HEAD) -> SubmitStep:
    (action,) = scenario(step, head=head).phases[0].actions
    assert isinstance(action, SubmitStep)
    return action


def test_nodes_with_a_count_are_numbered() -> None:
    nodes = scenario("wait = 1").nodes
    assert [node.name for node in nodes] == ["node-1", "node-2"]
    assert {(node.gpus, node.gpu_memory_mib, node.cpu_milli) for node in nodes} == {(4, 40_960, 64_000)}


def test_projects_are_owed_what_the_file_says() -> None:
    queues = {queue.id: queue for queue in scenario("wait = 1").organization.queues[DEFAULT_POOL]}
    assert queues[QueueId("vision")].gpu.quota == 4000
    assert queues[QueueId("vision")].parent == department_queue("lab")
    assert queues[QueueId("speech")].gpu.quota == 2500
    assert queues[QueueId("speech")].gpu.limit == UNLIMITED


def test_a_node_in_a_pool_makes_the_pool() -> None:
    head = HEAD + '[[nodes]]\nname = "big"\ngpus = 8\npool = "a100"\n'
    head = head.replace("quota = 2.5", "quota = { default = 1, a100 = 8 }")
    organization = scenario('submit = "a", project = "speech", pools = ["a100"]', head=head).organization
    assert [pool.name for pool in organization.pools] == ["default", "a100"]
    quotas = {name: {queue.id: queue.gpu.quota for queue in each} for name, each in organization.queues.items()}
    assert quotas["a100"] == {department_queue("lab"): 0, "vision": 0, "speech": 8000}  # type: ignore[index]


REQUESTS = [
    ("gpus = 2", whole_gpus(2)),
    ("gpus = 0.5", gpu_portion(500)),
    ("gpus = 0.5, devices = 2", gpu_portion(500, 2)),
    ("gpu_memory = 8000", gpu_memory(8000)),
    ('kind = "train"', whole_gpus(1)),
]


@pytest.mark.parametrize(("asked", "request_"), REQUESTS, ids=[asked for asked, _ in REQUESTS])
def test_a_submit_asks_for_gpus(asked: str, request_: object) -> None:
    spec = only_submit(f'submit = "a", project = "vision", {asked}').spec
    assert spec.template.shape.gpu == request_


def test_a_job_that_says_nothing_gets_a_cpu_for_each_gpu() -> None:
    assert only_submit('submit = "a", project = "vision", gpus = 0.5').spec.template.shape.cpu_milli == 500
    assert only_submit('submit = "a", project = "vision", gpus = 2').spec.template.shape.cpu_milli == 2000
    assert only_submit('submit = "a", project = "vision", gpus = 2, cpus = 7').spec.template.shape.cpu_milli == 7000


ARRANGEMENTS = [
    ("pods = 3", Arrangement.TOGETHER, 3),
    ("parallelism = 2, completions = 6", Arrangement.SWEEP, 2),
    ("completions = 6", Arrangement.SWEEP, 1),
    ('kind = "inference", pods = 2', Arrangement.REPLICAS, 2),
]


@pytest.mark.parametrize(("said", "arrangement", "pods"), ARRANGEMENTS, ids=[each[0] for each in ARRANGEMENTS])
def test_a_submit_says_how_pods_belong_together(said: str, arrangement: Arrangement, pods: int) -> None:
    spec = only_submit(f'submit = "a", project = "vision", {said}').spec
    assert (spec.arrangement, spec.pods) == (arrangement, pods)


def test_an_elastic_job_with_a_leader() -> None:
    spec = only_submit('submit = "a", project = "vision", pods = 4, minimum = 2, leader = { cpus = 2 }').spec
    assert (spec.minimum, spec.pods) == (2, 4)
    assert spec.leader is not None
    assert (spec.leader.shape.gpu.devices, spec.leader.shape.cpu_milli) == (0, 2000)


def test_a_count_is_so_many_jobs_and_the_seed_draws_how_long_each_runs() -> None:
    step = 'submit = "a", project = "vision", count = 3, every_s = "1m", run_s = [60, 600]'
    read = scenario(step)
    assert [str(action) for action in read.phases[0].actions] == [
        "submit a-1",
        "wait 60 s",
        "submit a-2",
        "wait 60 s",
        "submit a-3",
    ]
    lengths = [behaviour.run_s for behaviour in read.behaviours.values()]
    assert len(set(lengths)) == 3
    assert all(length is not None and 60 <= length <= 600 for length in lengths)
    assert lengths == [behaviour.run_s for behaviour in scenario(step).behaviours.values()]
    other = scenario(step, head=f"seed = 2\n{HEAD}")
    assert lengths != [behaviour.run_s for behaviour in other.behaviours.values()]


def test_every_kind_of_step() -> None:
    read = scenario(
        'submit = "a", project = "vision", pods = 2, minimum = 1',
        'wait = "running a", within = "1h"',
        "wait = 30",
        'wait = "10m"',
        'suspend = "a"',
        'at = "1h", resume = ["a"]',
        'resize = "a", pods = 4',
        'quota = "vision", gpus = "unlimited"',
        'reboot = "node-1", down_s = 30',
        'drain = ["node-1", "node-2"]',
        'delete = "a"',
        'wait = "idle"',
    )
    a = WorkloadId("a")
    assert list(read.phases[0].actions[1:]) == [
        Await(Condition.RUNNING, (a,), 3600),
        Pause(30),
        Pause(600),
        WorkloadStep(Operation.SUSPEND, a),
        Until(3600),
        WorkloadStep(Operation.RESUME, a),
        Resize(a, 4, None),
        SetQuota(QueueId("vision"), UNLIMITED, DEFAULT_POOL),
        NodeStep(NodeEvent.REBOOT, NodeName("node-1"), 30),
        NodeStep(NodeEvent.DRAIN, NodeName("node-1")),
        NodeStep(NodeEvent.DRAIN, NodeName("node-2")),
        WorkloadStep(Operation.DELETE, a),
        Await(Condition.IDLE),
    ]


def test_expectations_come_after_all_jobs_have_settled() -> None:
    more = '[phases.expect]\nallocated = 1\nrunning = 1\npending = []\njobs = { a = "Running" }\n'
    more += "nodes = { node-1 = 1 }\nprojects = { vision = { allocated = 1, queued = [] } }\n"
    read = scenario('submit = "a", project = "vision", gpus = 1', more=more)
    settled, expect = read.phases[0].actions[1:]
    assert isinstance(settled, Await)
    assert settled.condition is Condition.SETTLED
    assert isinstance(expect, Expect)
    assert set(expect.expected) == {
        Expected(Figure.ALLOCATED, "", 1000),
        Expected(Figure.PHASE, "Running", 1),
        Expected(Figure.PHASE, "Pending", ()),
        Expected(Figure.JOB, "a", "Running"),
        Expected(Figure.NODE_ALLOCATED, "node-1", 1000),
        Expected(Figure.PROJECT_ALLOCATED, "vision", 1000),
        Expected(Figure.PROJECT_QUEUED, "vision", ()),
    }


def test_a_paced_phase_waits_for_each_job_to_run() -> None:
    read = scenario_file.read(
        f'{HEAD}\n[[phases]]\npace = "running"\nsteps = [ {{ submit = "a", project = "vision" }} ]', "test"
    )
    assert isinstance(read, Scenario)
    assert read.phases[0].actions[1] == Await(Condition.RUNNING, (WorkloadId("a"),))


WRONG = [
    ('submit = "a", project = "visoin"', "line 23: phase 'one', step 1: there is no project 'visoin'", "did you mean"),
    ('submit = "a", project = "vision", gpus = 1.5', "neither a fraction of one GPU nor a whole number", "1 or 2"),
    ('submit = "a", project = "vision", gpu = 1', "a submit step has no 'gpu'", "did you mean gpus"),
    ('submit = "a"', "it has no project", "add project"),
    ('submit = "a b", project = "vision"', "'a b' is not a name", "letters"),
    ('submit = "a", project = "vision", run_s = "soon"', "'soon' is not a length of time", "10m"),
    ('submit = "a", project = "vision", pods = 2, minimum = 3', "more than its 2 pods", "write 2 or less"),
    ('submit = "a", project = "vision", pods = 2, parallelism = 3', "pods is for those that start together", "one"),
    ('submit = "a", project = "vision", gpus = 1, gpu_memory = 5', "cannot be combined", "use one"),
    ('submit = "a", project = "vision", run_s = [9, 3]', "is not a span", "shorter one first"),
    ('submit = "a", project = "vision", every_s = 3', "how far apart several are", "count"),
    ('submit = "a", project = "vision", preemptible = "yes"', "is not true or false", "without quotes"),
    ('submit = "a", project = "vision", pools = ["x"]', "there is no pool 'x'", "default"),
    ('wait = "runing a"', "cannot wait for 'runing'", "did you mean running"),
    ('wait = "running a"', "there is no job 'a'", "none so far"),
    ('wait = "idle a"', "idle is about all jobs", 'write wait = "idle"'),
    ('wait = "running"', "running is about certain jobs", "NAME"),
    ("wait = -3", "is not a length of time", "seconds"),
    ('delete = "a"', "there is no job 'a'", "none so far"),
    ('lose = "nod-1"', "there is no node 'nod-1'", "did you mean node-1"),
    ('resize = "a"', "it does not say to what", "pods = 4"),
    ('quota = "vision"', "it does not say how many", "gpus = 4"),
    ('sumbit = "a"', "it does not say what happens", "did you mean submit"),
    ('wait = 1, delete = "a"', "it says wait and delete", "a step of each"),
    ("expect = { alocated = 3 }", "an expectation has no 'alocated'", "did you mean allocated"),
    ("expect = { projects = { vison = { allocated = 1 } } }", "there is no project 'vison'", "did you mean vision"),
]


@pytest.mark.parametrize(("step", "what", "fix"), WRONG, ids=[step for step, _, _ in WRONG])
def test_what_is_wrong_with_a_step_is_said_with_what_to_do(step: str, what: str, fix: str) -> None:
    said = problems(step)
    assert any(what in each and fix in each for each in said), said
    assert all(each.startswith("line 23: phase 'one', step 1") for each in said), said


def test_all_problems_come_at_once_each_with_its_line() -> None:
    said = problems(
        'submit = "a", project = "vision", gpus = "many"',
        'wait = "running a"',
        'delete = "b"',
        head=HEAD.replace("quota = 4", "qouta = 4").replace("gpus = 4", 'gpus = "x"'),
    )
    assert [re.match(r"line (\d+)", each)[1] for each in said] == ["5", "14", "23", "25"]  # type: ignore[index]


def test_a_file_without_anything_says_what_it_needs() -> None:
    read = scenario_file.read("", "test")
    assert isinstance(read, list)
    assert [problem.what for problem in read] == [
        "the scenario has no nodes",
        "the scenario has no projects",
        "nothing happens in the scenario",
    ]


def test_what_is_not_toml_is_named_by_line_and_column() -> None:
    read = scenario_file.read('name = "a"\nseed = = 3\n', "test")
    assert isinstance(read, list)
    assert read[0].what.startswith("line 2, column 8: this is not TOML")


@pytest.mark.parametrize(
    "text", ["nodes = 3", "projects = [1]", "phases = {}", "delays = 3", "seed = -1", "nodes = [[]]"]
)
def test_a_table_of_another_shape_is_no_crash(text: str) -> None:
    assert isinstance(scenario_file.read(text, "test"), list)


@pytest.mark.parametrize("name", examples())
def test_the_examples_are_sound_and_say_what_they_show(name: str) -> None:
    read = scenario_file.read(examples()[name].read_text(encoding="utf-8"), "test")
    assert isinstance(read, Scenario), read
    assert read.name == name
    assert 0 < len(read.title) <= 90


def test_the_page_knows_every_field() -> None:
    page = PAGE.read_text(encoding="utf-8")
    fields = {*VERBS, *Condition, *re.findall(r'table\.\w+\("(\w+)"', _sources())}
    assert not [each for each in sorted(fields) if f"`{each}`" not in page]


def _sources() -> str:
    folder = Path(scenario_file.__file__).parent
    return "".join((folder / name).read_text(encoding="utf-8") for name in ("scenario_file.py", "job_table.py"))


# --- traces ---------------------------------------------------------------------------------------------------------

TRACE = """job,project,submit_s,gpus,duration_s
a,vision,0,4,3600
b,speech,60,1,3600
c,speech,61,0.5,7200
"""


def trace(text: str = TRACE, nodes: str | None = "2x4", quotas: tuple[str, ...] = ()) -> Scenario | list[Problem]:
    return trace_file.read(text, "trace", nodes, quotas)


def quotas_of(read: Scenario | list[Problem]) -> dict[str, int]:
    assert isinstance(read, Scenario), read
    return {str(queue.id): queue.gpu.quota for queue in read.organization.queues[DEFAULT_POOL]}


def test_a_trace_shares_the_gpus_by_gpu_hours() -> None:
    assert quotas_of(trace()) == {"speech": 3000, "vision": 5000}  # of eight GPUs, by two and four GPU hours


def test_a_quota_on_the_command_line_counts() -> None:
    assert quotas_of(trace(quotas=("speech=1",))) == {"speech": 1000, "vision": 5000}


def test_a_trace_submits_each_job_at_its_time() -> None:
    read = trace()
    assert isinstance(read, Scenario)
    assert [str(action) for action in read.phases[0].actions] == [
        *("until 0 s", "submit a", "until 60 s", "submit b", "until 61 s", "submit c", "wait idle")
    ]
    assert read.submitted()[WorkloadId("b")].kind is WorkloadKind.TRAIN


@pytest.mark.parametrize(
    ("text", "nodes", "quotas", "what"),
    [
        (TRACE, None, (), "does not say what it runs on"),
        (TRACE, "many", (), "'many' is not a number of nodes and GPUs"),
        (TRACE, "2x4", ("speech",), "--quota speech is not understood"),
        (TRACE, "2x4", ("sports=3",), "project 'sports' has no jobs in the trace"),
        ("job,gpus\n", "2x4", (), "line 1: the columns project, submit_s, duration_s are missing"),
        ("", "2x4", (), "line 1: the columns"),
        (TRACE.replace("60,1", "60,1.5"), "2x4", (), "line 3: 1.5 GPUs"),
        (TRACE.splitlines()[0], "2x4", (), "there is no job in it"),
    ],
)
def test_what_is_wrong_with_a_trace(text: str, nodes: str | None, quotas: tuple[str, ...], what: str) -> None:
    read = trace(text, nodes, quotas)
    assert isinstance(read, list)
    assert any(what in problem.what for problem in read), read


# --- small things ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.snapshot", CaptureRequest("a.snapshot")),
        ("a.snapshot@last", CaptureRequest("a.snapshot")),
        ("a.snapshot@12", CaptureRequest("a.snapshot", cycle=12)),
        ("a@b@12", CaptureRequest("a@b", cycle=12)),
    ],
)
def test_a_snapshot_names_its_cycle(text: str, expected: CaptureRequest) -> None:
    assert request(text) == expected


@pytest.mark.parametrize("text", ["a@0", "a@soon", "@12", "a@-3"])
def test_a_cycle_that_makes_no_sense_is_refused(text: str) -> None:
    assert isinstance(request(text), Problem)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (4.5, "4.5s"),
        (59.96, "60s"),
        (60, "1m 00s"),
        (125, "2m 05s"),
        (11_220, "3h 07m"),
        (187_200, "2d 04h"),
    ],
)
def test_lengths_of_time_in_two_units(seconds: float, text: str) -> None:
    assert elapsed_text(seconds) == text


def test_the_ninety_ninth_of_a_hundred_is_the_p99() -> None:
    figures = spread([each * 1000 for each in range(1, 101)])
    assert figures is not None
    assert (figures.mean_s, figures.p99_s, figures.longest_s) == (50.5, 99, 100)
    assert spread([]) is None
