"""`fairpool simulate` as a person uses it: examples, files, traces, snapshots, charts, and a process that is killed."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from fairpool.cli.main import main
from fairpool.cluster.ledger import Ledger
from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.model.ids import PoolName
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.organization import Entitlement, OverQuotaChoice, gpu_entitlement
from fairpool.model.problem import Problem
from fairpool.replay.saved import load
from fairpool.scheduler.plan import plan
from fairpool.scheduler.snapshot import Snapshot
from fairpool.simulation import scenario_file
from fairpool.simulation.catalogue import examples
from fairpool.simulation.checkpoint import Checkpoint, Folder, opened
from fairpool.simulation.control_driver import ControlDriver
from fairpool.simulation.result import SimulationResult, result_text
from fairpool.simulation.runner import Pacer, run_scenario
from fairpool.simulation.scenario import START, Scenario
from fairpool.simulation.simulated_cluster import SimulatedCluster

COMMAND = [sys.executable, "-m", "fairpool.cli.main", "simulate"]

SMALL = """
name = "small"
[delays]
start_s = 5
stop_s = 3
[[nodes]]
name = "node"
count = 2
gpus = 2
[[projects]]
name = "a"
quota = 3
[[projects]]
name = "b"
quota = 1
[[phases]]
name = "one"
steps = [
  { submit = "b", project = "b", gpus = 1, count = 4, run_s = "10m" },
  { wait = "running b-1 b-2 b-3 b-4" },
  { expect = { allocated = 4, running = 4 } },
  { submit = "a", project = "a", gpus = 1, count = 2, run_s = "5m" },
  { wait = "running a-1 a-2" },
]
[phases.expect]
preemptions = 2
projects = { a = { allocated = 2 }, b = { allocated = 2, queued = ["b-3", "b-4"] } }
[[phases]]
name = "two"
steps = [
  { suspend = "a-1" },
  { wait = "stopped a-1" },
  { resume = "a-1" },
  { reboot = "node-1", down_s = 30 },
  { quota = "b", gpus = 2 },
  { wait = "idle" },
]
[phases.expect]
allocated = 0
completed = 6
"""

QUOTA_STEP = """
[[phases]]
name = "one"
steps = [{ quota = "b", gpus = 2 }]
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def simulate(*arguments: str, columns: int | None = 80) -> Answer:
    """In this process, which is quick; a few tests below start a real one."""
    environment = {"COLUMNS": "" if columns is None else str(columns)}
    result = CliRunner().invoke(main, ["simulate", *arguments], prog_name="fairpool", env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


def written(folder: Path, text: str, name: str = "small.toml") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def document(*arguments: str) -> dict[str, Any]:
    answer = simulate(*arguments, "--json", "-")
    assert answer.err == ""
    read = json.loads(answer.out)
    assert isinstance(read, dict)
    return read


# --- examples -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", examples())
def test_an_example_passes(name: str) -> None:
    answer = simulate(name)
    assert answer.code == 0, answer
    assert answer.out.splitlines()[-1].startswith("PASS: all ")
    assert max(map(len, answer.out.splitlines())) <= 80


@pytest.mark.slow
def test_netapp_reaches_every_figure_of_its_four_phases() -> None:
    netapp = document("netapp")
    assert netapp["passed"] is True
    reached = {(each["phase"], each["what"]): each["reached"] for each in netapp["checks"]}
    for phase, held in {"4.8": "4444", "4.9": "4228", "4.10a": "4228", "4.10b": "8440"}.items():
        assert "".join(reached[phase, f"team-{team}: GPUs allocated"] for team in "abcd") == held
        assert reached[phase, "GPUs allocated"] == "16"
    assert reached["4.10b", "jobs pending"] == "2: b-5-gg, c-6-gg"
    assert netapp["preemptions"] == {"preempted": 2}
    assert netapp["violations"] == []


@pytest.mark.slow
def test_the_chart_of_netapp_has_the_steps_of_the_figure() -> None:
    lines = {
        each["project"]: [milli // 1000 for _, milli in each["allocated"]] for each in document("netapp")["projects"]
    }
    assert lines["team-d"] == [4, 6, 8, 0]
    assert lines["team-a"][-2:] == [4, 8]
    assert lines["team-b"][-3:] == [4, 2, 4]
    assert lines["team-c"][-3:] == [4, 2, 4]


@pytest.mark.slow
def test_a_changed_expectation_fails_and_shows_both_figures(tmp_path: Path) -> None:
    changed = (
        examples()["netapp"].read_text(encoding="utf-8").replace("team-a = { allocated = 8", "team-a = { allocated = 7")
    )
    answer = simulate(written(tmp_path, changed))
    assert answer.code == 1
    (row,) = [line for line in answer.out.splitlines() if line.endswith("FAIL")]
    assert row.split() == ["4.10b", "team-a:", "GPUs", "allocated", "7", "8", "FAIL"]
    assert answer.out.splitlines()[-1] == "FAIL: 1 of 49 figures not as expected"


DEPARTMENTS = """
name = "departments"
[[nodes]]
name = "node"
count = 2
gpus = 8
[[departments]]
name = "default"
[[departments]]
name = "research"
[[projects]]
name = "team-a"
quota = 4
department = "default"
[[projects]]
name = "speech"
quota = 0
department = "research"
[[phases]]
name = "one"
steps = [
  { submit = "borrow", project = "team-a", gpus = 8, count = 2, run_s = "10h" },
  { wait = "running borrow-1 borrow-2" },
  { quota = "speech", gpus = 4 },
  { submit = "owed", project = "speech", gpus = 4, run_s = "10h" },
  { wait = "running owed" },
]
"""


@pytest.mark.slow
def test_departments_without_a_quota_follow_their_projects(tmp_path: Path) -> None:
    answer = simulate(written(tmp_path, DEPARTMENTS))
    assert answer.code == 0, answer.out


def test_the_examples_are_listed() -> None:
    answer = simulate("--list")
    assert answer.code == 0
    assert [line.split()[0] for line in answer.out.splitlines() if not line.startswith(" ")] == ["EXAMPLE", *examples()]


def test_an_example_can_be_copied_and_changed(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    answer = simulate("three-to-one", "--copy", str(file))
    assert (answer.code, answer.out) == (0, f"Wrote {file}. Run it with: fairpool simulate {file}\n")
    assert file.read_text(encoding="utf-8") == examples()["three-to-one"].read_text(encoding="utf-8")
    assert simulate("three-to-one", "--copy", str(file)).code == 2
    assert simulate("tree-to-one", "--copy", str(tmp_path / "x")).code == 2


# --- what cannot be used --------------------------------------------------------------------------------------------

REFUSED = [
    (["nettap"], "there is no example 'nettap'", "did you mean netapp?"),
    (["folder/none.toml"], "there is no file folder/none.toml", "--list"),
    (["netapp", "--nodes", "2x8"], "--nodes and --quota apply to traces", "leave the flags out"),
    (["netapp", "--why", "a-1-gg"], "there is no job 'a-1-gg'", "did you mean"),
    (["netapp", "--snapshot", "x@soon"], "'soon' names no cycle", "FILE@12"),
    (["netapp", "--snapshot", "x", "--pool", "gpu"], "there is no pool 'gpu'", "default"),
    (["netapp", "--json", "no/such/folder.json"], "there is no folder no/such", "create it first"),
    ([], "name an example", ""),
    (["netapp", "--speed", "3"], "--speed needs --realtime", ""),
    (["netapp", "--realtime", "--speed", "0"], "0", ""),
    (["netapp", "--state", "x", "--snapshot", "y"], "--snapshot cannot be combined with --state", ""),
]


@pytest.mark.parametrize(
    ("arguments", "what", "fix"), REFUSED, ids=[" ".join(each[0]) or "nothing" for each in REFUSED]
)
def test_what_makes_no_sense_is_refused_at_once(
    arguments: list[str], what: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = simulate(*arguments)
    assert answer.code == 2
    assert what in answer.err
    assert fix in answer.err
    assert answer.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_bad_file_is_named_with_all_its_problems(tmp_path: Path) -> None:
    bad = SMALL.replace("gpus = 2", "gpus = -2", 1).replace('project = "a"', 'project = "c"')
    answer = simulate(written(tmp_path, bad))
    assert answer.code == 2
    assert len(answer.err.splitlines()) == 2, "one line a problem, as runai says it"
    assert "small.toml: line 9: node 'node': gpus = -2 is not a whole number" in answer.err
    assert "phase 'one', step 4: there is no project 'c'" in answer.err


@pytest.mark.slow
def test_files_that_are_there_are_not_replaced_unasked(tmp_path: Path) -> None:
    outcome = tmp_path / "outcome.json"
    outcome.write_text("mine")
    small = written(tmp_path, SMALL)
    assert simulate(small, "--json", str(outcome)).code == 2
    assert outcome.read_text() == "mine"
    assert simulate(small, "--json", str(outcome), "--force").code == 0
    assert json.loads(outcome.read_text())["passed"] is True


# --- what is said ---------------------------------------------------------------------------------------------------


def test_a_wait_in_vain_fails_and_says_why(tmp_path: Path) -> None:
    steps = '  { submit = "huge", project = "a", gpus = 4 },\n  { wait = "running huge" },\n'
    vain = SMALL.replace("]\n[phases.expect]", f"{steps}]\n[phases.expect]", 1)
    answer = simulate(written(tmp_path, vain), columns=None)
    assert answer.code == 1
    assert "Stopped early: wait running huge: the condition was not met." in answer.out
    (row,) = [line for line in answer.out.splitlines() if line.endswith("FAIL")]
    assert "huge is Pending, " in row
    assert answer.out.splitlines()[-1].startswith("FAIL: 1 of ")


def test_events_and_why_tell_the_story_of_a_job(tmp_path: Path) -> None:
    answer = simulate(written(tmp_path, SMALL), "--why", "b-4", "--events", columns=None)
    assert answer.code == 0, answer
    scenario = answer.out.partition("History of b-4")[2].partition("Expected and actual")[0]
    words = [line.split()[1] for line in scenario.splitlines()[2:] if line]
    assert words[:4] == ["created", "bound", "started", "releasing"]
    assert set(words[-2:]) == {"ended", "halted"}
    assert "preempted: " in scenario
    assert re.search(r"^phase +Completed$", answer.out, re.MULTILINE)
    assert answer.out.startswith("History\n")


def test_every_field_of_the_json_is_documented(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "scenario-file.md"
    documented = set(re.findall(r"`([\w-]+)`", page.read_text(encoding="utf-8").partition("## The outcome as JSON")[2]))
    assert set(_fields(document(written(tmp_path, SMALL)))) - documented == set()


def _fields(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _fields(each)


def test_the_json_has_figures_that_agree_with_each_other(tmp_path: Path) -> None:
    small = document(written(tmp_path, SMALL))
    assert (small["format"], small["version"], small["passed"]) == ("fairpool-simulation", 1, True)
    hours = small["gpu_hours"]
    assert hours["held"] == pytest.approx(hours["worked"] + hours["idle"] + hours["lost"], abs=1e-5)
    assert small["use"] == pytest.approx(hours["held"] / (small["gpus"] * small["duration_s"] / 3600), rel=1e-4)
    assert hours["worked"] == pytest.approx((4 * 600 + 2 * 300) / 3600, rel=0.2)
    assert {job["phase"] for job in small["jobs"]} == {"Completed"}
    assert sum(project["preemptions"] for project in small["projects"]) == sum(small["preemptions"].values())
    assert all(project["held_end_milli"] == 0 for project in small["projects"])


def test_nothing_is_drawn_in_a_pipe(tmp_path: Path) -> None:
    answer = simulate(written(tmp_path, SMALL))
    assert answer.err == ""
    assert "\r" not in answer.out


def test_charts_are_pictures_with_a_line_a_project(tmp_path: Path) -> None:
    assert simulate(written(tmp_path, SMALL), "--charts", str(tmp_path / "charts")).code == 0
    for name, lines in (("gpu-allocation.svg", {"a", "b"}), ("waiting-jobs.svg", {"waiting jobs"})):
        root = ET.parse(tmp_path / "charts" / name).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        titles = {title.text for path in root.iter("{http://www.w3.org/2000/svg}path") for title in path}
        assert titles == lines
        assert "prefers-color-scheme: dark" in (tmp_path / "charts" / name).read_text()


def test_a_trace_runs_to_its_end(tmp_path: Path) -> None:
    rows = [f"job-{number},{'abc'[number % 3]},{number * 10},{1 + number % 2},300" for number in range(12)]
    rows.append("too-big,a,5,9,60")  # nine GPUs: two pods of at most eight, and there are four in all
    trace = written(tmp_path, "\n".join(["job,project,submit_s,gpus,duration_s", *rows]), "trace.csv")
    answer = simulate(trace, "--nodes", "2x2", "--quota", "a=2")
    assert answer.code == 0, answer
    assert "12 completed, 1 pending" in answer.out
    assert "PASS" not in answer.out


# --- snapshots ------------------------------------------------------------------------------------------------------


def simulated(scenario: Scenario, watch: Callable[[PoolName, Snapshot], None] | None = None) -> SimulatedCluster:
    cluster = SimulatedCluster(scenario, START, watch=watch)
    run_scenario(cluster, Checkpoint(), Pacer(), lambda cluster, part: None)
    return cluster


def small_scenario() -> Scenario:
    scenario = scenario_file.read(SMALL, "small")
    assert isinstance(scenario, Scenario), scenario
    return scenario


@pytest.mark.parametrize(
    ("setting", "after"),
    [
        pytest.param(None, Entitlement(2000, -1, 2.0), id="not set: the weight follows"),
        pytest.param(OverQuotaChoice.OFF, Entitlement(2000, 2000, 0.0), id="off: the limit follows"),
        pytest.param(OverQuotaChoice.LOWEST, Entitlement(2000, -1, 0.0), id="lowest"),
        pytest.param(OverQuotaChoice.LOW, Entitlement(2000, -1, 1.0), id="low, the weight of the old quota"),
        pytest.param(OverQuotaChoice.MEDIUM, Entitlement(2000, -1, 2.0), id="medium"),
        pytest.param(OverQuotaChoice.HIGH, Entitlement(2000, -1, 3.0), id="high"),
    ],
)
def test_a_quota_step_keeps_the_over_quota_setting(setting: OverQuotaChoice | None, after: Entitlement) -> None:
    """Project b goes from a quota of 1 to 2; project a stays as it is."""
    scenario = scenario_file.read(SMALL.split("[[phases]]")[0] + QUOTA_STEP, "step")
    assert isinstance(scenario, Scenario), scenario
    a, b = scenario.organization.queues[DEFAULT_POOL]
    b = replace(b, gpu=gpu_entitlement(1000, setting), over_quota=setting)
    organization = replace(scenario.organization, queues={DEFAULT_POOL: (a, b)})
    cluster = simulated(replace(scenario, organization=organization))
    assert [queue.gpu for queue in cluster.control.organization().queues[DEFAULT_POOL]] == [a.gpu, after]


@pytest.mark.slow
def test_every_saved_cycle_replays_to_the_plan_it_had(tmp_path: Path) -> None:
    seen: list[Snapshot] = []
    simulated(small_scenario(), lambda pool, snapshot: seen.append(snapshot))
    file = written(tmp_path, SMALL)
    flags = [each for number in range(1, len(seen) + 1) for each in ("--snapshot", f"{tmp_path}/{number}@{number}")]
    assert simulate(file, *flags).code == 0
    for number, snapshot in enumerate(seen, start=1):
        loaded = load(str(tmp_path / str(number)))
        assert not isinstance(loaded, Problem)
        assert loaded.snapshot == snapshot
        assert plan(loaded.snapshot) == plan(snapshot)
    number = next(number for number, snapshot in enumerate(seen, start=1) if len(plan(snapshot).binds) == 4)
    replayed = CliRunner().invoke(main, ["plan", str(tmp_path / str(number)), "--json"])
    assert {each["group"] for each in json.loads(replayed.stdout)["starts"]} == {"b-1", "b-2", "b-3", "b-4"}


@pytest.mark.slow
def test_a_cycle_is_also_named_by_its_time(tmp_path: Path) -> None:
    first, last = tmp_path / "first", tmp_path / "last"
    assert simulate(written(tmp_path, SMALL), "--snapshot", f"{first}@4s", "--snapshot", str(last)).code == 0
    loaded = [load(str(each)) for each in (first, last)]
    moments = [each.snapshot.now - START for each in loaded if not isinstance(each, Problem)]
    assert moments[0] == 0
    assert moments[1] > 600_000


def test_a_cycle_that_never_came_is_said(tmp_path: Path) -> None:
    answer = simulate(written(tmp_path, SMALL), "--snapshot", f"{tmp_path}/x@9999")
    assert answer.code == 2
    assert "there was no such cycle; the run had" in answer.err


# --- durable --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_folder_goes_on_and_says_the_outcome_again(tmp_path: Path) -> None:
    file, state = written(tmp_path, SMALL), str(tmp_path / "state")
    without = simulate(file, "--json", "-")
    first = simulate(file, "--state", state, "--json", "-")
    again = simulate(file, "--state", state, "--json", "-")
    assert without == first == again
    assert first.code == 0


@pytest.mark.slow
def test_a_folder_of_another_scenario_is_refused(tmp_path: Path) -> None:
    file, state = written(tmp_path, SMALL), str(tmp_path / "state")
    assert simulate(file, "--state", state).code == 0
    changed = written(tmp_path, SMALL.replace("10m", "11m"))
    answer = simulate(changed, "--state", state)
    assert answer.code == 2
    assert "holds another version of the scenario 'small'" in answer.err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    answer = simulate(file, "--state", str(tmp_path / "mine"))
    assert answer.code == 2
    assert "there is something else in" in answer.err


@pytest.mark.slow
def test_two_at_once_are_refused(tmp_path: Path) -> None:
    file, state = written(tmp_path, SMALL), tmp_path / "state"
    first = opened(state, small_scenario())
    assert isinstance(first, Folder)
    answer = simulate(file, "--state", str(state))
    assert answer.code == 2
    assert "another process runs the simulation" in answer.err
    first.close()
    assert simulate(file, "--state", str(state)).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("file", ["ledger.db", "engine.db", "control.db", "position.json", "simulation.json"])
def test_a_damaged_folder_is_refused(file: str, tmp_path: Path) -> None:
    small, state = written(tmp_path, SMALL), tmp_path / "state"
    assert simulate(small, "--state", str(state)).code == 0
    (state / file).write_bytes(b"this was something else" * 100)
    answer = simulate(small, "--state", str(state))
    assert answer.code == 2, answer
    assert "another folder" in answer.err, "it says what to do"


class Crash(BaseException):
    """The process is gone."""


class Crashes:
    """Lets the process die before or after the nth time that anything is written down or done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.dies_at = -1
        people = [(ControlDriver, each) for each in ("submit", "suspend", "resume", "delete", "declare", "push")]
        engine = [(SimulatedEngine, each) for each in ("carry_out", "reboot")]
        for owner, name in [(Ledger, "record"), (Folder, "keep"), *people, *engine]:
            monkeypatch.setattr(owner, name, self._fragile(getattr(owner, name)))

    def _fragile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def fragile(*arguments: Any, **named: Any) -> Any:
            self._count()
            answer = original(*arguments, **named)
            self._count()
            return answer

        return fragile

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self.dies_at:
            raise Crash


def outcome_in(folder: Path, scenario: Scenario) -> str:
    """Play to the end, or until the process dies."""
    shim = opened(folder, scenario)
    assert isinstance(shim, Folder), shim
    try:
        cluster = SimulatedCluster(scenario, shim.position.now, shim.files)
        run_scenario(cluster, shim, Pacer(), lambda cluster, part: None)
        outcome = result_text(SimulationResult.of(cluster, shim.position))
        cluster.close()
    finally:
        shim.close()
    return outcome


@pytest.mark.slow
def test_dying_at_any_step_changes_nothing_in_the_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = small_scenario()
    crashes = Crashes(monkeypatch)
    whole = outcome_in(tmp_path / "whole", scenario)
    steps = crashes.calls
    assert steps > 200
    for number in range(1, steps, 7):  # enough for every kind of step, in a few seconds
        crashes.calls, crashes.dies_at = 0, number
        folder = tmp_path / str(number)
        with pytest.raises(Crash):
            outcome_in(folder, scenario)
        crashes.dies_at = -1
        assert outcome_in(folder, scenario) == whole, f"it died at step {number}"
        shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_killed_process_goes_on_to_the_same_outcome(seed: int, tmp_path: Path) -> None:
    file, dice = written(tmp_path, SMALL), Random(seed)
    whole = simulate(file, "--json", "-")
    command = [*COMMAND, file, "--json", "-", "--realtime", "--speed", "300", "--state", str(tmp_path / "state")]
    for _ in range(6):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(dice.uniform(0.3, 1.5))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=180)
    last = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (last.returncode, last.stdout) == (0, whole.out), last.stderr


@pytest.mark.slow
def test_real_time_takes_as_long_as_the_speed_says(tmp_path: Path) -> None:
    length_s = document(written(tmp_path, SMALL))["duration_s"]
    began = time.monotonic()
    document(str(tmp_path / "small.toml"), "--realtime", "--speed", str(length_s))
    assert time.monotonic() - began >= 0.9


@pytest.mark.slow
def test_an_interrupt_says_what_is_known_so_far(tmp_path: Path) -> None:
    command = [*COMMAND, written(tmp_path, SMALL), "--realtime", "--speed", "20", "--state", str(tmp_path / "state")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    position = tmp_path / "state" / "position.json"
    _until(position.exists)
    first = position.read_bytes()
    _until(lambda: position.exists() and position.read_bytes() != first)  # it has begun
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=180)
    assert process.returncode == 130
    assert "not finished" in out
    assert "Run the same command again to continue." in err


@pytest.mark.slow
def test_a_terminal_shows_a_bar(tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    command = [*COMMAND, written(tmp_path, SMALL), "--realtime", "--speed", "600"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=end)
    os.close(end)
    shown = ""
    while process.poll() is None or select.select([terminal], [], [], 0)[0]:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                shown += os.read(terminal, 4096).decode()
            except OSError:  # the other end is closed
                break
    process.wait(timeout=180)
    os.close(terminal)
    assert process.returncode == 0
    assert "4/4 GPUs" in shown
    assert "/6 jobs done" in shown


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be so"
        time.sleep(0.02)
