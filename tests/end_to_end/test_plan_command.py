"""`fairpool plan` as a person uses it: tables on a terminal and in a pipe, JSON, explanations, what-if, bad input."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fairpool.cli.main import main
from fairpool.cli.screen import Screen
from fairpool.model.ids import GroupId, Instant, NodeName
from fairpool.replay.example import example_snapshot
from fairpool.replay.saved import save
from fairpool.scheduler.snapshot import Snapshot

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "fairpool.cli.main"]


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def demo(tmp_path: Path) -> str:
    return saved(tmp_path, example_snapshot())


def saved(folder: Path, snapshot: Snapshot, name: str = "demo.snapshot") -> str:
    assert save(snapshot, str(folder / name)) is None
    return str(folder / name)


def fairpool(*arguments: str, columns: int | None = 80) -> Answer:
    """In this process, which is quick; a few tests below start a real one."""
    environment = {"COLUMNS": "" if columns is None else str(columns)}
    result = CliRunner().invoke(main, arguments, prog_name="fairpool", env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


def answered(*arguments: str, columns: int | None = 80) -> str:
    answer = fairpool(*arguments, columns=columns)
    assert answer.code == 0, answer
    return answer.out


def parsed(*arguments: str) -> Any:
    return json.loads(answered(*arguments, "--json"))


def real(*arguments: str, **environment: str) -> Answer:
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, env=inherited | environment
    )
    return Answer(done.returncode, done.stdout, done.stderr)


# --- tables ----------------------------------------------------------------------------------------------------


def test_a_plan_says_who_starts_who_is_taken_and_who_waits(demo: str) -> None:
    text = answered("plan", demo)
    assert "2 groups start, 1 group starts when preempted pods have stopped, 2 pods are preempted and" in " ".join(
        text.split()
    )
    assert re.search(r"^recognizer +1 +gpu-2 +2$", text, re.MULTILINE)
    assert re.search(r"^tuning +1 +gpu-1 +0-3$", text, re.MULTILINE)
    assert re.search(r"^tracker +1 +gpu-1 +for tuning: research is 2.75 GPUs over its quota of 8", text, re.MULTILINE)
    assert re.search(r"^huge +speech +none of the 4 nodes can run it, even when empty", text, re.MULTILINE)
    assert re.search(r"^  vision +4 +4 +8 +4$", text, re.MULTILINE)


@pytest.mark.parametrize("columns", [40, 80, 132])
@pytest.mark.parametrize("flags", ["", "--explain tuning", "--set project.vision.quota=6 --without-node gpu-2"])
def test_nothing_is_wider_than_the_screen(demo: str, flags: str, columns: int) -> None:
    text = answered("plan", demo, *shlex.split(flags), columns=columns)
    # The name of the file is one word of any length.
    lines = [line for line in text.splitlines() if demo not in line]
    assert max(map(len, lines)) <= max(columns, 52), text


def test_long_names_are_broken_and_not_cut() -> None:
    screen = Screen(width=80)
    name = "a-very-long-name-of-a-project-" * 4
    screen.table(("QUEUE", "QUOTA"), [(name, "4")])
    assert max(map(len, screen.lines)) <= 80
    assert "".join(line.split("  ")[0] for line in screen.lines[1:]) == name


def test_what_is_broken_keeps_its_indentation(demo: str) -> None:
    screen = Screen(width=20)
    screen.table(("QUEUE", "QUOTA", "HELD"), [("a", "4", "4"), ("  language", "4", "4"), ("    modelling", "4", "4")])
    assert [line[:8].rstrip() for line in screen.lines[1:]] == [
        "a",
        "  langua",
        "  ge",
        "    mode",
        "    llin",
        "    g",
    ]
    assert re.search(r"^  langua +4 .*\n  ge$", answered("plan", demo, columns=40), re.MULTILINE)


def test_names_from_elsewhere_break_neither_table_nor_terminal(tmp_path: Path) -> None:
    snapshot = example_snapshot()
    odd = GroupId("a\nb\x1b[31m\ud800")
    groups = tuple(replace(group, id=odd) if group.id == "tuning" else group for group in snapshot.groups)
    pods = tuple(replace(pod, group=odd) if pod.group == "tuning" else pod for pod in snapshot.pods)
    file = saved(tmp_path, replace(snapshot, groups=groups, pods=pods))
    text = answered("plan", file, columns=None)
    assert "a\\nb\\x1b[31m\\ud800" in text
    assert "\x1b" not in text
    assert "\x1b" not in fairpool("plan", file, "--explain", "a\nb\x1b[32m").err


@pytest.mark.slow
def test_an_older_terminal_gets_what_it_can_show(demo: str) -> None:
    answer = real("plan", demo, "--set", "project.vision.quota=6", PYTHONIOENCODING="latin-1")
    assert answer.code == 0, answer.err
    assert "quota 4 -> 6" in answer.out


def test_long_tables_are_shortened_on_a_terminal_and_say_so() -> None:
    screen = Screen(width=80, rows_max=2)
    screen.table(("GROUP",), [("a",), ("b",), ("c",), ("d",)])
    assert screen.lines == ["GROUP", "a", "b", "... and 2 more (show all with --all)"]


@pytest.mark.slow
def test_in_a_pipe_a_row_is_a_line_without_colour(demo: str) -> None:
    answer = real("plan", demo)
    assert answer.code == 0
    assert "\x1b[" not in answer.out
    waiting = next(line for line in answer.out.splitlines() if line.startswith("demo "))
    assert waiting.endswith("or the job is submitted as preemptible")


@pytest.mark.slow
def test_a_reader_that_stops_early_is_no_error(demo: str) -> None:
    command = f"{shlex.join([*COMMAND, 'plan', demo])} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Plan of")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_only_on_a_terminal_that_wants_them(demo: str, environment: Mapping[str, str], coloured: bool) -> None:
    text = on_a_terminal([*COMMAND, "plan", demo], environment)
    assert "Starts now" in text
    assert ("\x1b[" in text) == coloured


def on_a_terminal(command: list[str], environment: Mapping[str, str]) -> str:
    ours, theirs = pty.openpty()
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=inherited | dict(environment))
    os.close(theirs)
    parts = []
    while select.select([ours], [], [], 30)[0]:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    process.wait()
    return b"".join(parts).decode()


def test_an_idle_cluster_has_nothing_to_do(tmp_path: Path) -> None:
    snapshot = example_snapshot()
    running = tuple(pod for pod in snapshot.pods if pod.node is not None)
    groups = tuple(group for group in snapshot.groups if group.started_at is not None)
    text = answered("plan", saved(tmp_path, replace(snapshot, pods=running, groups=groups)))
    assert "Nothing to do: everything is running and no group is waiting." in text
    assert "Waits" not in text


def test_an_empty_snapshot_has_nothing_to_do(tmp_path: Path) -> None:
    text = answered("plan", saved(tmp_path, Snapshot(now=Instant(0))))
    assert "0 nodes with 0 GPUs" in text
    assert "Nothing to do" in text


def test_problems_of_a_snapshot_are_shown_and_planned_around(tmp_path: Path) -> None:
    text = answered("plan", broken(tmp_path))
    assert "Problems in the snapshot (planned around)" in text
    assert "node gpu-1 reports invalid quantities" in text


def broken(folder: Path) -> str:
    snapshot = example_snapshot()
    nodes = tuple(replace(node, gpus=-4) if node.name == "gpu-1" else node for node in snapshot.nodes)
    return saved(folder, replace(snapshot, nodes=nodes), "broken.snapshot")


@pytest.mark.slow
def test_a_snapshot_may_come_through_a_pipe() -> None:
    example, plan = shlex.join([*COMMAND, "snapshot", "example", "-"]), shlex.join([*COMMAND, "plan", "-"])
    done = subprocess.run(f"{example} | {plan}", shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Plan of standard input")


# --- one group ---------------------------------------------------------------------------------------------------


def test_a_group_is_explained_with_who_pays_for_it(demo: str) -> None:
    text = answered("plan", demo, "--explain", "tuning")
    assert re.search(r"^project +language in product$", text, re.MULTILINE)
    assert "asks for  4 GPUs, 16 CPUs" in text
    assert "Is assigned to gpu-1 and starts when 2 pods there have stopped." in text
    assert "Preempted for it" in text
    assert "tracker" in text


@pytest.mark.parametrize(
    ("group", "says"),
    [
        ("recognizer", "2 pods of 2 start now."),
        ("tracker", "1 pod is preempted for tuning: research is 2.75 GPUs over its quota of 8"),
        ("huge", "None of the 4 nodes can run it, even when empty"),
        ("notebook", "No change for this group."),
    ],
)
def test_every_outcome_is_explained(demo: str, group: str, says: str) -> None:
    assert says in answered("plan", demo, "--explain", group, columns=200)


@pytest.mark.parametrize(
    ("amounts", "says"),
    [
        ("gpus=1,cpus=1,memory=64B", "1 GPU, 1 CPU, 64 bytes of memory"),
        ("gpus=0,cpus=2,memory=512M", "no GPU, 2 CPUs, 512 MB of memory"),
        ("gpus=1,cpus=0.5,memory=1.5T", "1 GPU, 0.5 CPU, 1.5 TB of memory"),
        ("gpus=1,memory=0", "1 GPU, 1 CPU\n"),
    ],
)
def test_amounts_are_shown_as_people_say_them(demo: str, amounts: str, says: str) -> None:
    flags = ["--explain", "b", "--add-job", f"name=b,project=speech,{amounts}"]
    assert says in answered("plan", demo, *flags, columns=200)


def test_an_unknown_group_gets_a_suggestion(demo: str) -> None:
    answer = fairpool("plan", demo, "--explain", "tunnig")
    assert (answer.code, answer.out) == (1, "")
    assert "there is no group 'tunnig' in the snapshot" in answer.err
    assert "did you mean tuning?" in answer.err


def test_a_group_is_explained_on_both_sides_of_a_change(demo: str) -> None:
    text = answered("plan", demo, "--explain", "big", "--add-job", "name=big,project=speech,gpus=1")
    assert "There is no group big." in text
    assert "1 pod of 1 starts now." in text


# --- json --------------------------------------------------------------------------------------------------------


def test_json_has_the_documented_fields(demo: str) -> None:
    document = parsed("plan", demo)
    page = (ROOT / "docs/reference/plan-json.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+)`", page))
    assert names_in(document) - named == set()
    assert document["format"] == "fairpool-plan"
    assert document["counts"] == {"starting": 2, "promised": 1, "taken": 2, "waiting": 2}
    assert {each["group"] for each in document["evictions"]} == {"detector", "tracker"}
    assert {each["reason"] for each in document["waits"]} >= {"over_quota", "no_node_matches"}
    vision = next(each for each in document["queues"] if each["queue"] == "vision")
    assert (vision["held_before_milli"], vision["held_after_milli"]) == (8000, 4000)


def names_in(document: Any) -> set[str]:
    if isinstance(document, dict):
        inside = (names_in(each) for name, each in document.items() if name not in ("details", "claims"))
        return set(document).union(*inside)
    return set().union(*map(names_in, document)) if isinstance(document, list) else set()


def test_json_of_one_group(demo: str) -> None:
    document = parsed("plan", demo, "--explain", "tuning")
    assert document["promises"][0]["node"] == "gpu-1"
    assert {each["pod"] for each in document["taken_for_it"]} == {"detector-0", "tracker-0"}


def test_json_of_a_change_has_both_plans(demo: str) -> None:
    document = parsed("plan", demo, "--set", "project.vision.quota=8")
    assert document["changes"] == ["project vision: quota 4 → 8, and its weight with it, 4 → 8"]
    assert document["original"] == {
        name: each for name, each in parsed("plan", demo).items() if name not in ("format", "version")
    }
    assert [each["group"] for each in document["differences"]]


@pytest.mark.slow
def test_the_same_file_gives_the_same_bytes_in_every_process(demo: str) -> None:
    first, second = (real("plan", demo, "--json", PYTHONHASHSEED=seed).out for seed in ("1", "2"))
    assert first == second


# --- what if -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--set project.vision.quota=6", "project vision: quota 4 → 6, and its weight with it, 4 → 6"),
        ("--set project.vision.quota=unlimited", "quota 4 → unlimited"),
        ("--set project.vision.limit=2.5", "limit unlimited → 2.5"),
        ("--set project.vision.weight=0.5", "weight 4 → 0.5"),
        ("--set project.vision.over_quota=off", "over_quota = off"),
        ("--set project.vision.priority=7", "priority 100 → 7"),
        ("--set project.vision.department=product", "department research → product"),
        ("--set project.vision.cpu_quota=12", "cpu_quota = 12"),
        ("--set project.vision.memory_limit=64Gi", "memory_limit = 64Gi"),
        ("--set project.vision.memory_quota=0", "memory_quota = 0"),
        ("--set department.research.department=none", "department none → none"),
        ("--set project.vision.reclaim_min_runtime=10m", "reclaim_min_runtime = 10m"),
        ("--set department.research.quota=6", "department research: quota 8 → 6"),
        ("--set node.gpu-4.cordoned=no", "node gpu-4: cordoned yes → no"),
        ("--set node.gpu-1.memory_bytes=64G", "node gpu-1: memory_bytes 549755813888 → 64000000000"),
        ("--set group.tuning.priority=120", "group tuning: priority none → 120"),
        ("--set group.tuning.project=speech", "group tuning: queue language → speech"),
        ("--set group.tuning.kind=build", "group tuning: kind train → build"),
        ("--set policy.max_moved_groups=none", "policy: max_moved_groups 16 → none"),
        ("--set policy.durable_promises=false", "policy: durable_promises yes → no"),
        ("--set policy.passes=allocate", "policy: passes allocate,consolidate,reclaim,preempt,stale → allocate"),
        ("--set pool.gpu_placement=spread", "pool: gpu_placement binpack → spread"),
        ("--add-job name=big,project=vision,gpus=4,pods=2", "job big added to vision: 2 pods, 4 GPUs each, train"),
        ("--add-job name=b,project=vision,gpus=0.5,kind=build", "job b added to vision: 1 pod, 0.5 GPU, build"),
        ("--add-job name=b,project=vision,gpu-memory=8000,preemptible", "1 pod, 8000 MiB of a GPU, train"),
        ("--add-job name=b,project=vision,gpus=0,cpus=4,memory=8G,pods=3,minimum=1", "3 pods, 0 GPUs each"),
        ("--without-node gpu-2", "node gpu-2 removed: 1 pod of 1 group waits again"),
        ("--without-node gpu-4", "node gpu-4 removed: nothing ran there"),
        ("--without-job detector", "job detector removed with its 1 pod"),
        ("--later 10m", "time: 10m later"),
        ("--later 1h30m", "time: 1h30m later"),
    ],
)
def test_every_change_is_made_and_said(demo: str, flags: str, says: str) -> None:
    text = answered("plan", demo, *shlex.split(flags), columns=200)
    assert says in text
    assert "AS SAVED" in text


def test_a_change_shows_who_fares_differently_side_by_side(demo: str) -> None:
    text = answered("plan", demo, "--set", "node.gpu-4.cordoned=false", columns=200)
    assert re.search(r"^tuning +will start on gpu-1 +starts on gpu-4$", text, re.MULTILINE)
    assert re.search(r"^tracker +is preempted on gpu-1 +stays on gpu-1$", text, re.MULTILINE)
    assert re.search(r"^pods that are preempted +2 +0$", text, re.MULTILINE)
    assert re.search(r"^  vision +4 +4 → [\d.]+ +8 +4 → 8$", text, re.MULTILINE)


def test_in_a_pipe_what_fares_differently_is_shown_one_below_the_other(demo: str) -> None:
    text = answered("plan", demo, "--set", "node.gpu-4.cordoned=false", columns=None)
    assert "\ntuning\n  AS SAVED: will start on gpu-1\n  CHANGED: starts on gpu-4\n" in text


def test_a_change_that_changes_nothing_says_so(demo: str) -> None:
    assert "None: the same groups start, are preempted and wait as before." in answered(
        "plan", demo, "--set", "policy.promise_lifetime_s=601"
    )


def test_pods_of_a_lost_node_wait_and_find_another(demo: str) -> None:
    document = parsed("plan", demo, "--without-node", "gpu-3", "--set", "node.gpu-4.cordoned=false")
    places = {each["pod"]: each["node"] for side in ("starts", "promises") for each in document["changed"][side]}
    assert places["notebook-0"] not in (None, "gpu-3")
    nodes = {each["node"] for each in document["changed"]["starts"]}
    assert NodeName("gpu-3") not in nodes


def test_changes_can_speak_of_each_other(demo: str) -> None:
    flags = ["--set", "group.big.priority=90", "--add-job", "name=big,project=speech,gpus=1"]
    assert "group big: priority none → 90" in answered("plan", demo, *flags)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--set project.visoin.quota=6", "did you mean vision?"),
        ("--set project.research.quota=6", "write department.research.quota=6"),
        ("--set department.vision.quota=6", "write project.vision.quota=6"),
        ("--set project.vision.qota=6", "did you mean quota"),
        ("--set project.vision.quota=many", "'many' is not an amount"),
        ("--set project.vision.quota=-3", "'-3' is not an amount"),
        ("--set project.vision.quota=-1", ": write unlimited"),
        ("--set project.vision.memory_limit=-1", ": write unlimited"),
        ("--set project.vision.memory_limit=64", "'64' has no unit"),
        ("--set project.vision.memory_quota=999999999T", "is not a realistic amount of memory"),
        ("--set node.gpu-1.memory_bytes=64", ": write 64G or 512Mi"),
        ("--set node.gpu-1.memory_bytes=-1", "'-1' is not an amount of memory"),
        ("--set node.gpu-1.gpus=-4", ": write a number from 0 to 1024"),
        ("--set node.gpu-1.gpus=99999", "99999 is out of range"),
        ("--set node.gpu-1.cpu_milli=9999999999999999", "is out of range"),
        ("--set group.tuning.queue=research", "research is a department"),
        ("--set group.tuning.queue=zebra", "there are: language, speech, vision\n"),
        ("--add-job name=big,project=research", ": choose a project of it: speech, vision"),
        ("--add-job name=big,project=zebra", "there are: language, speech, vision\n"),
        ("--add-job name=big,project=vision,memory=64", "memory: '64' has no unit"),
        ("--add-job name=big,project=vision,cpus=-1", "cpus: '-1' is not an amount"),
        ("--add-job name=big,project=vision,memory=-1", "memory: '-1' is not an amount of memory"),
        ("--add-job name=big,project=vision,gpus=-1", "-1 GPUs is out of range"),
        ("--add-job name=big,project=vision,gpus=0.0001", ": request 0.001"),
        ("--later ''", "'' is not a length of time"),
        ("--later 1w", ": write 90s, 10m, 2h, 1h30m or 1d"),
        ("--later 1h30", ": write 90s, 10m, 2h, 1h30m or 1d"),
        ("--set project.vision.quota=0.0001", "at most three decimals"),
        ("--set project.vision.quota=1e999", "is not an amount"),
        ("--set project.vision.quota", "is not a path and a value"),
        ("--set project.vision=6", "is not a path and a value"),
        ("--set project=6", "is not a path and a value"),
        ("--set =6", "is not a path and a value"),
        ("--set projct.vision.quota=6", "did you mean project?"),
        ("--set zebra.x=1", "cannot change a 'zebra'"),
        ("--set project.vision.department=nowhere", "there is no department 'nowhere'"),
        ("--set project.vision.weight=nan", "is not a number"),
        ("--set node.gpu-9.cordoned=true", "there is no node 'gpu-9'"),
        ("--set node.gpu-1.cordoned=perhaps", "'perhaps' is not yes or no"),
        ("--set node.gpu-1.name=x", "a node has no 'name' that can be set here"),
        ("--set node.gpu-1.labels=x", "a node has no 'labels' that can be set here"),
        ("--set group.tuning.project=nowhere", "there is no project 'nowhere'"),
        ("--set policy.max_moved_group=3", "did you mean max_moved_groups?"),
        ("--set policy.zzz=3", "names are "),
        ("--set policy.passes=alocate", "did you mean allocate?"),
        ("--set pool.gpu_placement=sprad", "did you mean spread?"),
        ("--add-job name=big,gpus=1", "--add-job is missing project"),
        ("--add-job project=vision,gpus=1", "--add-job is missing name"),
        ("--add-job name=big,project=vision,gpu=1", "a job has no field 'gpu'"),
        ("--add-job name=big,project=vision,gpus=2.5", "2.5 GPUs is neither a fraction of one GPU nor a whole number"),
        ("--add-job name=big,project=vision,gpus=", "gpus has no value"),
        ("--add-job name=big,project=vision,gpus=1,gpus=2", "--add-job names gpus twice"),
        ("--add-job name=big,project=vision,gpus=1,gpu_memory=10", "cannot be combined"),
        ("--add-job name=big,project=vision,pods=0", "0 pods is out of range"),
        ("--add-job name=big,project=vision,pods=2,minimum=3", "a minimum of 3 pods is more than its 2 pods"),
        ("--add-job name=big,project=vision,kind=trian", "did you mean train?"),
        ("--add-job name=big,project=vision,cpus=unlimited", "cannot ask for an unlimited amount"),
        ("--add-job name=tuning,project=vision", "there is a group tuning already"),
        ("--add-job name=big,project=visoin", "did you mean vision?"),
        ("--without-node gpu9", "did you mean gpu-"),
        ("--without-job tunig", "did you mean tuning?"),
        ("--later soon", "'soon' is not a length of time"),
        ("--check --set project.vision.quota=6", "--check cannot be combined"),
        ("--later", "--later needs a value"),
        ("--check=1", "--check takes no value"),
        ("other.snapshot third", "unexpected arguments other.snapshot third: see `fairpool plan --help`"),
        ("--add-job name=a_b,project=vision", "name: 'a_b' is not a valid name: use up to 49 lower case letters"),
        ("--frobnicate", "there is no flag --frobnicate"),
    ],
)
def test_a_flag_that_makes_no_sense_says_what_would(demo: str, flags: str, says: str) -> None:
    answer = fairpool("plan", demo, *shlex.split(flags), columns=200)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err


def test_a_scheduler_that_fails_gives_a_sentence(demo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(snapshot: Snapshot) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("fairpool.replay.planned.plan", fails)
    answer = fairpool("plan", demo)
    assert (answer.code, answer.out) == (2, "")
    assert "the scheduler crashed on this snapshot: ZeroDivisionError: by nothing" in answer.err


def test_all_that_is_wrong_is_said_at_once(demo: str) -> None:
    flags = ["--set", "project.visoin.quota=6", "--without-node", "x", "--add-job", "gpus=2.5,colour=red"]
    assert len(fairpool("plan", demo, *flags).err.splitlines()) == 6, "one line a problem"


# --- check -----------------------------------------------------------------------------------------------------------


def test_a_sound_file_is_called_sound(demo: str) -> None:
    assert "is valid: version 2" in answered("plan", demo, "--check")
    assert parsed("plan", demo, "--check")["sound"] is True


def test_problems_of_a_file_are_listed_with_fixes(tmp_path: Path) -> None:
    file = broken(tmp_path)
    answer = fairpool("plan", file, "--check")
    assert answer.code == 1
    assert "node.amounts: node gpu-1 reports invalid quantities" in answer.out
    assert "fix: correct what it reports" in answer.out
    problems = json.loads(fairpool("plan", file, "--check", "--json").out)["problems"]
    assert {"code", "what", "fix"} == set(problems[0])


@pytest.mark.parametrize("flags", [[], ["--check"], ["--json"], ["--explain", "x"]])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "the file is empty", id="empty"),
        pytest.param(b"hello", "is not a Fairpool snapshot", id="foreign"),
        pytest.param(b"\x1f\x8b\x08\x00", "ends too early", id="truncated"),
        pytest.param(None, "no such file", id="missing"),
    ],
)
def test_an_unusable_file_is_refused(tmp_path: Path, content: bytes | None, says: str, flags: list[str]) -> None:
    path = tmp_path / "x.snapshot"
    if content is not None:
        path.write_bytes(content)
    answer = fairpool("plan", str(path), *flags)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err
    assert len(answer.err.splitlines()) == 1, answer.err
    assert ": " in answer.err, "what is wrong, then what to do"


def test_a_missing_file_is_named_once() -> None:
    assert fairpool("plan", "nope.snapshot", columns=200).err.count("nope.snapshot") == 1


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    answer = fairpool("plan", str(tmp_path))
    assert answer.code == 2
    assert "is a directory" in answer.err


# --- example, help, speed --------------------------------------------------------------------------------


def test_the_example_is_not_written_over_another_file(tmp_path: Path) -> None:
    path = str(tmp_path / "demo.snapshot")
    assert "Wrote" in answered("snapshot", "example", path)
    answer = fairpool("snapshot", "example", path)
    assert answer.code == 2
    assert "exists already" in answer.err
    assert "Wrote" in answered("snapshot", "example", path, "--force")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["demo.snapshot"]


def test_an_example_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    answer = fairpool("snapshot", "example", str(tmp_path / "nowhere" / "x"))
    assert answer.code == 2
    assert "cannot be written: no such file or directory" in answer.err


@pytest.mark.parametrize("flags", [[], ["--force"]])
@pytest.mark.parametrize("through_a_link", [False, True])
@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_only_a_file_is_ever_replaced(tmp_path: Path, kind: str, through_a_link: bool, flags: list[str]) -> None:
    path = tmp_path / "x"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    mode = path.lstat().st_mode
    named = tmp_path / "link" if through_a_link else path
    if through_a_link:
        named.symlink_to(path)
    there = sorted(tmp_path.iterdir())
    answer = fairpool("snapshot", "example", str(named), *flags)
    assert answer.code == 2
    assert f"{named} is a {kind}, not a file" in answer.err
    assert ": name a file, or write to standard output with -" in answer.err
    assert (path.lstat().st_mode, sorted(tmp_path.iterdir())) == (mode, there)


@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_is_followed_to_its_file(tmp_path: Path, dangling: bool) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    if not dangling:
        target.write_text("something else")
    assert "exists already" in fairpool("snapshot", "example", str(link)).err
    assert "Wrote" in answered("snapshot", "example", str(link), "--force")
    assert link.is_symlink()
    assert "is valid" in answered("plan", str(target), "--check")


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    answer = fairpool("snapshot", "example", str(tmp_path / "demo.snapshot"))
    assert answer.code == 2
    assert "cannot be written: no space left on device" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_has_a_name() -> None:
    answer = fairpool("snapshot", "example", "")
    assert (answer.code, "the file name is empty" in answer.err) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["plan FILE", "plan FILE --json", "--help", "snapshot example -"])
@pytest.mark.parametrize("closed", [False, True])
def test_an_answer_that_cannot_be_written_is_a_sentence(demo: str, arguments: str, closed: bool) -> None:
    command = shlex.join([*COMMAND, *arguments.replace("FILE", demo).split()])
    with Path(demo).open("rb") as only_for_reading:
        done = subprocess.run(
            f"{command} >&-" if closed else command,
            shell=True,
            stdout=only_for_reading,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2, done.stderr
    assert re.match(r"(could not write the output|standard output cannot be written): ", done.stderr)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize("command", [[], ["plan"], ["snapshot"], ["snapshot", "example"]])
def test_every_help_has_an_example(command: list[str]) -> None:
    text = answered(*command, "--help")
    assert "Example: fairpool" in text
    assert max(map(len, text.splitlines())) <= 80


def test_help_lists_exit_codes() -> None:
    assert "Exit codes: 0" in answered("plan", "--help")


def test_the_version_is_said() -> None:
    assert re.fullmatch(r"fairpool \d+\.\d+\S*\n", answered("--version"))


def test_an_unknown_command_gets_a_suggestion() -> None:
    answer = fairpool("paln")
    assert answer.code == 2
    assert "there is no command fairpool paln: did you mean plan?" in answer.err


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["--help", "plan --help", "--version"])
def test_help_imports_neither_numpy_nor_the_scheduler(arguments: str) -> None:
    script = f"import sys; sys.argv = ['fairpool', *{arguments.split()!r}]\n"
    script += "from fairpool.cli.main import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
    script += "sys.exit(any(name.startswith(('numpy', 'fairpool.scheduler')) for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
