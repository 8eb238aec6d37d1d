"""Parses the phases and steps of a scenario file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.model.ids import NodeName, PoolName, QueueId, WorkloadId
from fairpool.model.node import DEFAULT_POOL, Node
from fairpool.model.spelling import did_you_mean
from fairpool.model.status import WorkloadPhase
from fairpool.model.workload import WorkloadKind
from fairpool.simulation.job_table import Delays, read_jobs
from fairpool.simulation.scenario import (
    ABOUT_ALL,
    WAIT_S,
    Action,
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
    ScenarioPhase,
    SetQuota,
    SubmitStep,
    Until,
    Value,
    WorkloadStep,
)
from fairpool.simulation.toml_table import Table, called

SETTLE_S = 600
"""How long the end of a phase waits for all pods to have started or stopped, before figures are checked anyway."""
DOWN_S = 60
VERBS = ("submit", "wait", "delete", "suspend", "resume", "resize", "quota", "expect", *NodeEvent)


GONE = "Gone"
"""What a job is of which nothing is left: no phase, because it is not known any more."""


class SubmitPace(StrEnum):
    """What the user waits for between one submit and the next."""

    NOT = "at once"
    RUNNING = "running"
    """Waits until it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """Names that steps may use."""

    nodes: Mapping[NodeName, Node]
    queues: Mapping[str, QueueId]
    """Of projects and departments, by name."""
    projects: Mapping[QueueId, None]
    pools: Mapping[PoolName, None]


@dataclass
class Reader:
    """Reads phases one after the other, and knows the jobs submitted so far."""

    known_names: KnownNames
    delays: Delays
    behaviours: dict[WorkloadId, Behaviour] = field(default_factory=dict)

    def phase(self, table: Table) -> ScenarioPhase:
        name, title = table.text("name", "the only phase"), table.text("title")
        pace = table.word("pace", SubmitPace) or SubmitPace.NOT
        actions: list[Action] = []
        for number, step in enumerate(table.tables("steps", "step"), start=1):
            actions += self._step(called(step, f"{table.where}, step {number}"), pace)
        expect = table.table("expect")
        if expect is not None:
            actions += (Await(Condition.SETTLED, within_s=SETTLE_S, required=False), self._expect(expect))
        if not table.values.get("steps") and expect is None:
            table.complain("", "empty", "nothing happens in it", 'add steps = [ { submit = "a", ... }, ... ] or expect')
        table.refuse_others("a phase")
        return ScenarioPhase(name, tuple(actions), title)

    # --- steps ---

    def _step(self, table: Table, pace: SubmitPace) -> list[Action]:
        verbs = [verb for verb in VERBS if verb in table]
        if len(verbs) != 1:
            self._complain_about_verbs(table, verbs)
            return []
        at_s = table.seconds("at", None)
        before: list[Action] = [] if at_s is None else [Until(at_s)]
        actions = self._about(verbs[0], table, pace)
        table.refuse_others(f"a {verbs[0]} step")
        return [*before, *actions]

    def _complain_about_verbs(self, table: Table, verbs: list[str]) -> None:
        if verbs:
            table.complain("", "verb", f"it says {' and '.join(verbs)}", "make a step of each")
            return
        unknown = next(iter(table.values), "")
        fix = did_you_mean(unknown, VERBS, f"a step begins with one of: {', '.join(VERBS)}")
        table.complain("", "verb", "it does not say what happens", fix)

    def _about(self, verb: str, table: Table, pace: SubmitPace) -> list[Action]:
        match verb:
            case "submit":
                return self._submit(table, pace)
            case "wait":
                return self._wait(table)
            case "delete" | "suspend" | "resume":
                return [WorkloadStep(Operation(verb), each) for each in self._jobs(table, verb)]
            case "resize":
                return self._resize(table)
            case "quota":
                return self._quota(table)
            case "expect":
                inner = table.table("expect")
                return [] if inner is None else [self._expect(called(inner, table.where))]
        return self._change_node(NodeEvent(verb), table)

    def _submit(self, table: Table, pace: SubmitPace) -> list[Action]:
        jobs = read_jobs(table, self.delays)
        actions: list[Action] = []
        for spec, behaviour in zip(jobs.specs, jobs.behaviours, strict=True):
            if spec.id and spec.id in self.behaviours:
                table.complain("submit", "twice", f"{spec.id} was submitted before", "choose another name")
            self.behaviours[spec.id] = behaviour
            if actions and jobs.every_s:
                actions.append(Pause(jobs.every_s))
            actions.append(SubmitStep(spec))
            if pace is SubmitPace.RUNNING:
                actions.append(Await(Condition.RUNNING, (spec.id,)))
        spec = jobs.specs[0]
        if spec.project:
            self._known(table, "project", spec.project, self.known_names.projects, "project")
        for pool in spec.pools:
            self._known(table, "pools", pool, self.known_names.pools, "pool")
        if spec.kind is not WorkloadKind.TRAIN and spec.leader is not None:
            table.complain("leader", "both", f"a {spec.kind} has no leader", 'leave it out, or write kind = "train"')
        return actions

    def _wait(self, table: Table) -> list[Action]:
        value = table.value("wait")
        words = value.split() if isinstance(value, str) else []
        if not words or words[0] not in [*Condition]:
            if words and words[0][0].isalpha():
                fix = did_you_mean(words[0], Condition, f'wait for one of: {", ".join(Condition)}; or for 30 or "10m"')
                table.complain("wait", "value", f"cannot wait for {words[0]!r}", fix)
                return []
            seconds = table.as_seconds("wait", value, None)
            return [] if seconds is None else [Pause(seconds)]
        condition = Condition(words[0])
        names = tuple(WorkloadId(each) for each in words[1:])
        if bool(names) == (condition in ABOUT_ALL):
            fix = f'write wait = "{condition}"' if names else f'write wait = "{condition} NAME"'
            table.complain("wait", "value", f"{condition} is about {'all jobs' if names else 'certain jobs'}", fix)
        for name in names:
            self._known(table, "wait", name, self.behaviours, "job")
        return [Await(condition, names, table.seconds("within", float(WAIT_S)))]

    def _resize(self, table: Table) -> list[Action]:
        pods = table.whole("pods", None, least=1)
        minimum = table.whole("minimum", None, least=1)
        if pods is None and minimum is None:
            table.complain("", "missing", "it does not say to what", "add pods = 4, or minimum = 2")
        return [Resize(each, pods, minimum) for each in self._jobs(table, "resize")]

    def _quota(self, table: Table) -> list[Action]:
        name, pool = table.text("quota"), PoolName(table.text("pool", DEFAULT_POOL))
        self._known(table, "quota", name, self.known_names.queues, "project or department")
        self._known(table, "pool", pool, self.known_names.pools, "pool")
        if "gpus" not in table:
            table.complain("", "missing", "it does not say how many", "add gpus = 4")
        return [SetQuota(self.known_names.queues.get(name, QueueId(name)), table.bound("gpus", 0), pool)]

    def _change_node(self, event: NodeEvent, table: Table) -> list[Action]:
        down_s = table.seconds("down_s", float(DOWN_S)) if event is NodeEvent.REBOOT else 0.0
        names = table.names(event)
        for name in names:
            self._known(table, event, name, self.known_names.nodes, "node")
        return [NodeStep(event, NodeName(name), down_s) for name in names]

    def _jobs(self, table: Table, key: str) -> list[WorkloadId]:
        names = table.names(key)
        for name in names:
            self._known(table, key, name, self.behaviours, "job")
        return [WorkloadId(name) for name in names]

    def _known(self, table: Table, key: str, name: str, known: Collection[str], noun: str) -> None:
        if name in known:
            return
        some = ", ".join(list(known)[:8]) or "none so far"
        table.complain(key, "unknown", f"there is no {noun} {name!r}", did_you_mean(name, known, f"there are: {some}"))

    # --- expectations ---

    def _expect(self, table: Table) -> Expect:
        expected: list[Expected] = []
        allocated, preemptions = table.amount("allocated", -1), table.whole("preemptions", None)
        if "allocated" in table:
            expected.append(Expected(Figure.ALLOCATED, "", allocated))
        for phase in WorkloadPhase:
            key = phase.value.lower()
            value = self._number_or_jobs(table, key)
            if value is not None:
                expected.append(Expected(Figure.PHASE, phase.value, value))
        if preemptions is not None:
            expected.append(Expected(Figure.PREEMPTIONS, "", preemptions))
        expected += self._expected_of_projects(table)
        expected += self._expected_of_nodes(table)
        expected += self._expected_of_jobs(table)
        if not table.values:
            table.complain("", "empty", "nothing is expected", "add allocated = 16, running = 3, ...")
        table.refuse_others("an expectation")
        return Expect(tuple(expected))

    def _number_or_jobs(self, table: Table, key: str) -> Value | None:
        """A number of jobs, or their names."""
        if not isinstance(table.values.get(key), list):
            return table.whole(key, None)
        names: list[Any] = table.value(key)
        if not names:
            return ()
        for name in names:
            self._known(table, key, name, self.behaviours, "job")
        return tuple(sorted(str(name) for name in names))

    def _expected_of_projects(self, table: Table) -> list[Expected]:
        projects = table.table("projects")
        expected: list[Expected] = []
        for name in projects.values if projects is not None else ():
            assert projects is not None
            self._known(projects, name, name, self.known_names.projects, "project")
            inner = projects.table(name)
            if inner is None:
                continue
            allocated = inner.amount("allocated", -1)
            if "allocated" in inner:
                expected.append(Expected(Figure.PROJECT_ALLOCATED, name, allocated))
            queued = self._number_or_jobs(inner, "queued")
            if queued is not None:
                expected.append(Expected(Figure.PROJECT_QUEUED, name, queued))
            inner.refuse_others("an expectation of a project")
        return expected

    def _expected_of_nodes(self, table: Table) -> list[Expected]:
        nodes = table.table("nodes")
        expected = []
        for name in nodes.values if nodes is not None else ():
            assert nodes is not None
            self._known(nodes, name, name, self.known_names.nodes, "node")
            expected.append(Expected(Figure.NODE_ALLOCATED, name, nodes.amount(name, 0)))
        return expected

    def _expected_of_jobs(self, table: Table) -> list[Expected]:
        jobs = table.table("jobs")
        expected = []
        for name in jobs.values if jobs is not None else ():
            assert jobs is not None
            self._known(jobs, name, name, self.behaviours, "job")
            phase = GONE if jobs.values[name] == GONE else jobs.word(name, WorkloadPhase)
            if phase is not None:
                expected.append(Expected(Figure.JOB, name, str(phase)))
        return expected
