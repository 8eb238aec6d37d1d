"""Sixteen GPUs and four teams, typed: the documented commands, a real server, a real process for every job.

Each submit waits until the previous job runs, as a person would; then every state is exact. The same holds when the
server is killed at random moments: what is checked at the end of each phase is the same, and each job that was
never evicted has had one pod. In the end accounting and samples are compared with a count of their own
(`usage_count`). F-32 to F-34, F-118, F-195, F-196.

FAIRPOOL_KILL_ROUNDS says how often the scenario is played with a server that is killed.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fairpool.agent import process_table
from fairpool.agent.pod_meter import TICKS_S
from fairpool.agent.process_table import POD_UUID
from fairpool.agent.state_directory import StateDirectory
from fairpool.api.client import Client
from fairpool.api.organization import ProjectRequest
from fairpool.api.workloads import PodItem, WorkloadItem
from fairpool.model.ids import PodId
from fairpool.platform.directory_lock import lock_holder
from tests.end_to_end import usage_count
from tests.end_to_end.usage_count import CpuTimes, Job, ProgramTime
from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("FAIRPOOL_KILL_ROUNDS", "2"))
MODULES = {"runai": "fairpool.cli.runai.main", "runai-adm": "fairpool.cli.adm.main"}
QUICKSTART = "registry.example/run-ai-demo/quickstart"

FACTS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "specification" / "data" / "netapp.json").read_text())
PHASES: dict[str, Any] = {phase["id"]: phase for phase in FACTS["phases"]}
COMMANDS = {
    "4.8": f"""
        runai submit a-1-1-jupyter -i jupyter/base-notebook -g 1 \
            --interactive --service-type=ingress --port 8888 \
            --args="--NotebookApp.base_url=team-a-test-ingress" --command=start-notebook.sh -p team-a
        runai submit a-1-g -i {QUICKSTART} -g 1 -p team-a
        runai submit a-2-gg -i {QUICKSTART} -g 2 -p team-a
        runai submit b-1-g06 -i {QUICKSTART} -g 0.6 --interactive -p team-b
        runai submit b-2-g04 -i {QUICKSTART} -g 0.4 --interactive -p team-b
        runai submit b-3-g -i {QUICKSTART} -g 1 -p team-b
        runai submit b-4-gg -i {QUICKSTART} -g 2 -p team-b
        runai submit c-1-g05 -i {QUICKSTART} -g 0.5 --interactive -p team-c
        runai submit c-2-g03 -i {QUICKSTART} -g 0.3 --interactive -p team-c
        runai submit c-3-g02 -i {QUICKSTART} -g 0.2 --interactive -p team-c
        runai submit c-4-gg -i {QUICKSTART} -g 2 -p team-c
        runai submit c-5-g -i {QUICKSTART} -g 1 -p team-c
        runai submit d-1-gggg -i {QUICKSTART} -g 4 -p team-d""",
    "4.9": f"""
        runai submit d-2-gg -i {QUICKSTART} -g 2 -p team-d
        runai submit d-3-gg -i {QUICKSTART} -g 2 -p team-d""",
    "4.10a": f"""
        runai submit a-3-gg -i {QUICKSTART} -g 2 -p team-a
        runai submit a-4-gg -i {QUICKSTART} -g 2 -p team-a
        runai submit b-5-gg -i {QUICKSTART} -g 2 -p team-b
        runai submit c-6-gg -i {QUICKSTART} -g 2 -p team-c""",
    "4.10b": """
        runai delete -p team-d d-1-gggg d-2-gg d-3-gg""",
}
JOBS = {
    action["submit"]: Job(action["submit"], action["project"], action["gpus"])
    for phase in FACTS["phases"]
    for action in phase["actions"]
    if "submit" in action
}
QUOTAS = {project["name"]: float(project["gpu_quota"]) for project in FACTS["projects"]}
LINES = [(phase, line.strip()) for phase, text in COMMANDS.items() for line in text.strip().splitlines()]
FRACTIONAL = ("b-1-g06", "b-2-g04", "c-1-g05", "c-2-g03", "c-3-g02")
VICTIMS = ("b-4-gg", "c-4-gg")
"""Evicted once in 4.9, back in 4.10: they live twice, all others once."""
DONE_BEFORE = ("already exists", "does not exist")
"""What a person who types a line again is told if it had been carried out after all."""

AT_MOST_S = 1.5
"""A submit takes about half a second and its job as long again, so this meets commands, cycles, starts and stops."""
LOOK_S = 0.1
"""Between two looks: often enough for what lasts, and the machine is left to those who are looked at."""


class Typist(Running):
    """A platform at one address, and a user who types commands."""

    has_visible_programs = True
    """The processes of jobs can be told apart in the process table."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "data", config=folder / "config")
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))},
            "FAIRPOOL_CONFIG": str(folder / "config"),
        }
        self.address = ""
        self.server = 0
        self.names: dict[str, str] = {}
        """Of all jobs that were ever seen, by their ids."""
        self.program_times: dict[str, ProgramTime] = {}
        """Of all programs that were ever seen, by the marks of their pods."""
        self.began = int(time.time() * 1000)
        self.cpu_at_first = CpuTimes(0, {})

    def open(self) -> None:
        """Start, which signs the user in."""
        self.start()
        self._client = Client(self.address, self.owner_token())

    def make_projects(self) -> None:
        """The four, without typing: a command takes half a second of a processor."""
        for project in FACTS["projects"]:
            body = {"name": project["name"], "resources": [{"gpu": {"deserved": project["gpu_quota"]}}]}
            self.client.create_project(ProjectRequest.model_validate(body))

    def start(self) -> None:
        """At the address of the last time: logins go on."""
        self.up(*(["--listen", self.address.removeprefix("http://")] if self.address else []))
        self.address, self.server = self.status["address"], self.pid

    def kill_server(self) -> None:
        os.kill(self.server, signal.SIGKILL)
        self.until(lambda: lock_holder(self.data_directory) is None, "the lock is free")

    def begin(self, line: str) -> subprocess.Popen[str]:
        program, *arguments = shlex.split(line)
        command = [sys.executable, "-m", MODULES[program], *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self._environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def typed(self, line: str, *, said: str = "") -> str:
        """What the command answers; it must succeed."""
        with self.begin(line) as process:
            out, err = process.communicate(said, timeout=PATIENCE_S)
        assert process.returncode == 0, (line, out, err)
        return out

    def typed_while_killing(self, line: str, moments: list[float]) -> None:
        """The same, with the server killed so long after the beginning, and started and killed again."""
        with self.begin(line) as process:
            time.sleep(moments[0])
            self.kill_server()
            out, err = process.communicate(timeout=PATIENCE_S)
        self.start()
        for moment in moments[1:]:
            time.sleep(moment)
            self.kill_server()
            self.start()
        if process.returncode == 0:
            return  # what was acknowledged is not said again: it must have survived
        with self.begin(line) as again:
            out, err = again.communicate(timeout=PATIENCE_S)
        assert again.returncode == 0 or any(words in err for words in DONE_BEFORE), (line, out, err)

    # --- looking ---

    def listed(self) -> dict[str, WorkloadItem]:
        """As `runai list jobs` shows them."""
        documents = json.loads(self.typed("runai list jobs -A -o json"))
        return {each["name"]: WorkloadItem.model_validate(each) for each in documents}

    def jobs(self) -> dict[str, WorkloadItem]:
        found = {each.name: each for each in self.client.all_workloads()}
        self.names |= {each.id: each.name for each in found.values()}
        return found

    def known_jobs(self) -> dict[str, Job]:
        """Of the scenario, by their ids, also those that are gone."""
        return {each: JOBS[name] for each, name in self.names.items()}

    def until_jobs(self, hold: Callable[[dict[str, WorkloadItem]], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not hold(jobs := self.jobs()):
            table = "\n".join(f"{each.name} {each.phase} {each.reason} {each.phase_message}" for each in jobs.values())
            assert time.monotonic() < end, f"waited in vain until {what}\n{table}\n{self._journal()}"
            time.sleep(LOOK_S)

    def until_runs(self, *names: str) -> None:
        self.until_jobs(lambda jobs: all(_phase(jobs, name) == "Running" for name in names), f"{names} run")

    def pods(self, name: str) -> list[PodItem]:
        """Of a job, the oldest first."""
        return sorted(self.client.history(self.jobs()[name].id), key=lambda pod: pod.incarnation)

    # --- processes ---

    def shim(self, pod: PodItem, generation: int = 0) -> int | None:
        """The process that keeps a life, the shim; a life whose shim was killed gets one of the next generation."""
        link = StateDirectory(self.data_directory.machine).pod_directory(PodId(pod.id)) / f"shim.{generation}"
        pid, started, *_ = os.readlink(link).split(".") if link.is_symlink() else ("0", "0")
        return int(pid) if process_table.is_alive(int(pid), int(started)) else None

    def program(self, pod: PodItem) -> int:
        (pid,) = process_table.pod_processes(self.mark(pod), {})
        return pid

    def mark(self, pod: PodItem) -> str:
        order = StateDirectory(self.data_directory.machine).pod_directory(PodId(pod.id)) / "order.json"
        return str(json.loads(order.read_bytes().splitlines()[0])["launch"]["pod_uuid"])

    def cpu_now(self) -> CpuTimes:
        """What the program of each job has used since it began."""
        ids = {name: each for each, name in self.names.items()}
        found: dict[tuple[str, str], float] = {}
        for each in programs(self.data_directory.machine):
            fields = process_table.stat_fields(each.pid)
            ticks = sum(map(int, fields[11:15])) if fields is not None else 0
            key = ids[each.job], each.mark
            found[key] = found.get(key, 0.0) + ticks / TICKS_S
        return CpuTimes(int(time.time() * 1000), found)

    def marks(self) -> set[str]:
        """Of the pods that have a process here."""
        return {each.mark for each in programs(self.data_directory.machine)}


@dataclass(frozen=True)
class Process:
    """One that belongs to a pod of ours."""

    pid: int
    started: int
    parent: int
    job: str
    mark: str


def began_at(process: Process) -> int:
    """In milliseconds since the epoch."""
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return int((booted_s + process.started / TICKS_S) * 1000)


def programs(machine: Path) -> list[Process]:
    ours = {namespace_of(pid) for pid in process_table.pids() if str(machine).encode() in command_line_of(pid)}
    ours -= {namespace_of(os.getpid())}  # which shims share with all processes
    found = []
    for pid in process_table.pids():
        try:
            text = Path(f"/proc/{pid}/environ").read_bytes()
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            continue
        started = process_table.start_time(pid)
        if started is not None and f"{POD_UUID}=".encode() in text and namespace_of(pid) in ours:
            variables = dict(line.partition("=")[::2] for line in text.decode(errors="replace").split("\0"))
            parent = int(stat[stat.rindex(b")") + 2 :].split()[1])
            found.append(Process(pid, started, parent, variables["JOB_NAME"], variables[POD_UUID]))
    return found


def command_line_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def namespace_of(pid: int) -> int:
    """Its process table; a pod shares one with its first process, which names the data folder."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0


@dataclass
class Watchman:
    """Looks at the process table all the time: no pod has two programs, and no job two pods, at one moment."""

    machine: Path
    program_times: dict[str, ProgramTime] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)
    looks: int = 0
    _end: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self._end.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        self.looks += 1
        now = int(time.time() * 1000)
        found = programs(self.machine)
        for each in found:
            program = self.program_times.setdefault(each.mark, ProgramTime(each.job, began_at(each), now))
            program.began, program.last_seen = min(program.began, began_at(each)), now
        pids = {each.pid: each.mark for each in found}
        first: dict[str, Process] = {}
        for each in found:
            if pids.get(each.parent) == each.mark:
                continue  # a child of the program
            other = first.setdefault(each.job, each)
            # A process seen before and after the other was there at the same time.
            if other is not each and process_table.is_alive(other.pid, other.started):
                self.twice.append(f"{each.job}: {other} and {each}")

    def leave(self) -> None:
        self._end.set()


TypistT = TypeVar("TypistT", bound=Typist)


@contextmanager
def watched(typist: TypistT) -> Iterator[TypistT]:
    """A person who types, at an open platform that is watched all the time and cleaned up afterwards."""
    watchman = Watchman(typist.data_directory.machine, typist.program_times)
    thread = threading.Thread(target=watchman.watch)
    thread.start()
    try:
        typist.open()
        yield typist
        assert watchman.looks
        assert watchman.twice == []
    finally:
        watchman.leave()
        thread.join()
        typist.clean_up()


@pytest.fixture
def typist(tmp_path: Path) -> Iterator[Typist]:
    with watched(Typist(tmp_path)) as typist:
        yield typist


# --- the scenario


def test_the_documented_commands_reach_the_documented_states(typist: Typist) -> None:
    for project in FACTS["projects"]:
        typist.typed(f"runai-adm project create {project['name']} --gpu-quota {project['gpu_quota']}")
    play(typist, {})


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_server_that_is_killed_at_any_moment_changes_nothing(typist: Typist, seed: int) -> None:
    typist.make_projects()
    dice = random.Random(seed)
    when = {*dice.sample(range(13), 1), *dice.sample(range(13, len(LINES)), 2)}
    kills = {number: [dice.uniform(0, AT_MOST_S) for _ in range(dice.choice((1, 1, 2)))] for number in sorted(when)}
    print(f"killed while: { {LINES[number][1]: moments for number, moments in kills.items()} }")
    play(typist, kills)


def play(typist: Typist, kills: dict[int, list[float]]) -> None:
    """Every line, with the server killed during some of them; each phase must end as it is documented."""
    actions = [action for phase in FACTS["phases"] for action in phase["actions"]]
    for number, ((phase, line), action) in enumerate(zip(LINES, actions, strict=True)):
        if number in kills:
            typist.typed_while_killing(line, kills[number])
        else:
            typist.typed(line)
        if "submit" in action:
            typist.until_jobs(lambda jobs, it=action: _is_settled(jobs, it), f"{line} is carried out")  # type: ignore[misc]
        if number + 1 == len(LINES) or LINES[number + 1][0] != phase:
            check_phase(typist, phase)
            if not kills:
                assert state(typist.listed()) == documented(phase), "the command shows the same"
                check_samples(typist, phase)
    check_pods(typist)
    check_usage(typist)


def _is_settled(jobs: dict[str, WorkloadItem], action: dict[str, Any]) -> bool:
    """The job runs and its team holds what is documented, or the job waits because they hold all they are owed."""
    held, queued = state(jobs)[action["project"]]
    return held == action["project_holds"] and (
        _phase(jobs, action["submit"]) == "Running" or action["submit"] in queued
    )


def check_phase(typist: Typist, phase: str) -> None:
    expected = documented(phase)
    queued = sorted(name for _, names in expected.values() for name in names)
    typist.until_jobs(
        # A job holds its GPUs from the moment it is bound, and runs a little later; one that was deleted has gone.
        lambda jobs: state(jobs) == expected and not_running(jobs) == queued,
        f"phase {phase} stands as {expected}",
    )
    jobs = typist.jobs()
    assert (state(jobs), not_running(jobs)) == (expected, queued), "and stays so"
    assert sum(held for held, _ in expected.values()) == 16
    interactive = {name for name, each in jobs.items() if each.type == "Workspace"}
    assert len(interactive) == 6
    assert not interactive & set(queued)
    if phase == "4.8":
        assert len(jobs) == 13
        assert all(len(typist.pods(name)) == 1 for name in jobs), "no job is evicted"
        devices = {(pod.node, number) for name in FRACTIONAL for pod in typist.pods(name) for number in pod.devices}
        assert len(devices) == 2


def check_pods(typist: Typist) -> None:
    """At the end: who was never evicted lives for the first time, and there is a process for each who runs."""
    jobs = typist.jobs()
    waiting = {name for name in jobs if _phase(jobs, name) == "Pending"}
    assert waiting == {"b-5-gg", "c-6-gg"}
    current = {name: typist.pods(name) for name in jobs if name not in waiting}
    assert {name: [pod.incarnation for pod in pods] for name, pods in current.items()} == {
        name: [0, 1] if name in VICTIMS else [0] for name in current
    }
    assert typist.marks() == {typist.mark(pods[-1]) for pods in current.values()}, "an orphan, or one that is missing"


def check_usage(typist: Typist) -> None:
    """Accounting and samples say what the ledger's file, the scenario and the process table say."""
    ledger = typist.data_directory.ledger
    times = usage_count.pod_times(ledger, typist.known_jobs())
    assert sorted(each.job.name for each in times if each.cause == "preempted") == sorted(VICTIMS)
    (user,) = {each.submitted_by for each in typist.jobs().values()}
    usage_count.soon(lambda: usage_count.compare_accounting(typist.client, times, user, QUOTAS))
    if typist.has_visible_programs:
        usage_count.compare_processes(times, typist.program_times.values())
    usage_count.compare_allocation(typist.client, times, QUOTAS, typist.began)


def check_samples(typist: Typist, phase: str) -> None:
    """The next sample of each project is what is documented; and pods have used what the kernel says they have."""
    if phase == "4.10a":
        return  # each project holds what it held before
    since = int(time.time() * 1000)
    paths = {name: f"/api/v1/org-unit/projects/{name}" for name in QUOTAS}

    def allocated() -> dict[str, float]:
        found = {name: usage_count.series(typist.client, path, "GPU_ALLOCATION", since) for name, path in paths.items()}
        return {name: next(iter(values.values())) for name, values in found.items() if values}

    typist.until(lambda: len(allocated()) == len(paths), "there is another sample")
    assert allocated() == {name: holds for name, (holds, _) in documented(phase).items()}
    if phase == "4.8":
        typist.cpu_at_first = typist.cpu_now()
    if phase == "4.10b" and typist.has_visible_programs:
        usage_count.compare_cpu(typist.client, typist.cpu_at_first, typist.cpu_now(), typist.known_jobs())


def documented(phase: str) -> dict[str, tuple[float, list[str]]]:
    """What each team holds at the end of a phase, and who of it waits."""
    return {team: (facts["holds"], facts["queued"]) for team, facts in PHASES[phase]["projects"].items()}


def state(jobs: dict[str, WorkloadItem]) -> dict[str, tuple[float, list[str]]]:
    """The same, as it is."""
    teams: dict[str, tuple[float, list[str]]] = {}
    for project in FACTS["projects"]:
        own = [each for each in jobs.values() if each.project_name == project["name"]]
        held = round(sum(each.allocated_resources.gpu for each in own), 3)
        teams[project["name"]] = held, sorted(each.name for each in own if each.phase == "Pending")
    return teams


def not_running(jobs: dict[str, WorkloadItem]) -> list[str]:
    return sorted(name for name in jobs if _phase(jobs, name) != "Running")


def _phase(jobs: dict[str, WorkloadItem], name: str) -> str:
    return jobs[name].phase if name in jobs else ""


# --- shims and pods


def test_killed_shims_and_programs(typist: Typist) -> None:
    """Training returns in its replacement; interactive work is not tried again; who only lost its shim runs on."""
    typist.make_projects()
    lost = ("shim", "program", "both")
    for word in lost:
        typist.typed(f"runai submit train-{word} -i {QUICKSTART} -g 0.5 -p team-a")
        typist.typed(f"runai submit build-{word} -i {QUICKSTART} -g 0.5 --interactive -p team-b")
    names = [f"{kind}-{word}" for word in lost for kind in ("train", "build")]
    typist.until_runs(*names)
    first = {name: typist.pods(name)[0] for name in names}
    programs_before = {name: typist.program(pod) for name, pod in first.items()}
    for name, pod in first.items():
        shim = typist.shim(pod)
        assert shim is not None
        if not name.endswith("program"):
            os.kill(shim, signal.SIGKILL)
        if not name.endswith("shim"):
            os.kill(programs_before[name], signal.SIGKILL)
    has_returned(typist, "train-program", "train-both")
    has_failed(typist, "build-program", "build-both")
    for name in ("train-shim", "build-shim"):
        typist.until(lambda pod=first[name]: typist.shim(pod, 1), f"{name} has another shim")  # type: ignore[misc]
        assert _phase(typist.jobs(), name) == "Running"
        assert [pod.id for pod in typist.pods(name)] == [first[name].id]
        assert typist.program(first[name]) == programs_before[name], "it was not disturbed"
    typist.kill_server()
    for name in ("train-shim", "build-shim"):
        os.kill(programs_before[name], signal.SIGKILL)
    typist.start()
    has_returned(typist, "train-shim")
    has_failed(typist, "build-shim")
    running = [f"train-{word}" for word in lost]
    assert typist.marks() == {typist.mark(typist.pods(name)[-1]) for name in running}


def has_returned(typist: Typist, *names: str) -> None:
    for name in names:
        typist.until_jobs(lambda jobs, it=name: len(typist.pods(it)) == 2, f"{name} begins another life")  # type: ignore[misc]
    typist.until_runs(*names)
    for name in names:
        before, now = typist.pods(name)
        assert (before.exit_code, now.incarnation, now.phase) == (128 + signal.SIGKILL, 1, "running")


def has_failed(typist: Typist, *names: str) -> None:
    typist.until_jobs(lambda jobs: all(_phase(jobs, name) == "Failed" for name in names), f"{names} fail")
    for name in names:
        (pod,) = typist.pods(name)
        assert pod.exit_code == 128 + signal.SIGKILL
