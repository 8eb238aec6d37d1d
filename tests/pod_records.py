"""Short constructors of pod records, declarations and observations; tables as text; steps of a workload as text.

The steps apply `settle` and `expand` step by step, with a clock of its own; there is no scheduler and no engine in it.

    train a: 2 pods, retries 3        a declaration; the words are in `declared`
    a-0-0 a-1-0 run on n1             bound, and seen running
    a-0-0 exits 1                     by itself
    a-1-0 leaves                      because it was stopped
    n1 is lost                        also: drained, returned
    b completes                       another workload; also: fails, is deleted, reopens
    after 10s
    then a-0-1 waits 10s              the words are in `StepRunner.holds`
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fairpool.api.clusters import WorkloadReport
from fairpool.cluster.dependencies import WorkloadOutcome
from fairpool.cluster.expand import ExpandInput, Expansion, expand
from fairpool.cluster.outstanding_orders import start_order
from fairpool.cluster.rollup import rollup
from fairpool.cluster.settle import Evidence, settle
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.ids import SECOND_MS, GroupId, Instant, NodeName, PodId, QueueId, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node, Taint, TaintEffect
from fairpool.model.observation import ObservedNode, ObservedPod, OrderResult, OrderStatus, PodState, StartOrder
from fairpool.model.organization import ProjectRules
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.spec import (
    Arrangement,
    CleanPodPolicy,
    Dependency,
    DesiredState,
    DistributedRun,
    PodTemplate,
    RestartPolicy,
    WorkloadSpec,
)
from fairpool.model.status import classic_word
from fairpool.model.workload import PodShape, Toleration, WorkloadKind, whole_gpus

WAITING, PROMISED, BOUND = PodPhase.WAITING, PodPhase.PROMISED, PodPhase.BOUND
RUNNING, RELEASING, ENDED = PodPhase.RUNNING, PodPhase.RELEASING, PodPhase.ENDED
BUILD, TRAIN, INFERENCE = WorkloadKind.BUILD, WorkloadKind.TRAIN, WorkloadKind.INFERENCE

ONE_GPU = PodShape(gpu=whole_gpus(1))
DRAIN = Taint("runai", "drain", TaintEffect.NO_EXECUTE)
MIDNIGHT_S = 1_000_000


def at(seconds: int) -> Instant:
    """So many seconds after the first step."""
    return Instant((MIDNIGHT_S + seconds) * SECOND_MS)


def first_boot(node: str) -> str:
    return f"{node}, first boot"


def record(name: str = "a-0-0", phase: PodPhase = WAITING, *, on: str | None = None, **more: Any) -> PodRecord:
    """A pod record by its id; one with a node was bound to the first boot of it."""
    workload, index, incarnation = name.rsplit("-", 2)
    known: dict[str, Any] = {
        "group": GroupId(workload),
        "shape": ONE_GPU,
        "since": at(0),
        "created_at": at(0),
        "node": NodeName(on) if on is not None else None,
        "devices": (0,) if on is not None else (),
        "boot_id": first_boot(on) if on is not None else "",
    }
    return PodRecord(
        id=PodId(name),
        workload=WorkloadId(workload),
        index=int(index),
        incarnation=int(incarnation),
        phase=phase,
        **{**known, **more},
    )


def spec(kind: WorkloadKind = TRAIN, *, name: str = "a", **more: Any) -> WorkloadSpec:
    template = PodTemplate(shape=ONE_GPU)
    known = {"name": name, "project": QueueId("vision"), "created_at": at(0), "template": template, **more}
    return WorkloadSpec(id=WorkloadId(name), kind=kind, **known)


def state(**more: Any) -> WorkloadState:
    return WorkloadState(workload=WorkloadId("a"), **more)


def observed_node(name: str = "n1", **more: Any) -> ObservedNode:
    """A node in its first boot, with eight GPUs."""
    node = Node(name=NodeName(name), cpu_milli=64_000, memory_bytes=1 << 40, gpus=8, gpu_memory_mib=80_000)
    return ObservedNode(**{"node": node, "boot_id": first_boot(name), **more})


def observed_pod(of: PodRecord, state: PodState, **more: Any) -> ObservedPod:
    return ObservedPod(order=order_of(of), state=state, **more)


def order_of(of: PodRecord) -> StartOrder:
    placed = of if of.node is not None else replace(of, node=NodeName("n1"), boot_id=first_boot("n1"))
    return start_order(placed, spec(name=of.workload))


def answer(reply: OrderStatus, words: str = "") -> OrderResult:
    return OrderResult(PodId("a-0-0"), reply, words)


def cells(table: str) -> Iterator[tuple[str, str, str]]:
    """Row, column and cell of a table as it stands in a text; the first column names the rows."""
    lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.strip().splitlines()]
    head = lines[0]
    for row in lines[1:]:
        if set(row[0]) == {"-"}:
            continue
        assert len(row) == len(head), f"{row} has not as many cells as {head}"
        for column, cell in zip(head[1:], row[1:], strict=True):
            yield row[0], column, cell


# --- steps ---------------------------------------------------------------------------------------------------------


def run_steps(text: str) -> StepRunner:
    """Run steps, line by line; what is said after `then` must hold."""
    steps = StepRunner()
    for number, line in enumerate(text.strip().splitlines(), start=1):
        try:
            steps.line(line.strip())
        except AssertionError as problem:
            raise AssertionError(f"line {number}, {line.strip()!r}: {problem}\n{steps}") from None
    return steps


class StepRunner:
    """One workload over time."""

    def __init__(self) -> None:
        self.now = at(0)
        self.spec: WorkloadSpec | None = None
        self.rules = ProjectRules()
        self.expansion = Expansion(state=state(), pods=())
        self.nodes = {NodeName(name): observed_node(name) for name in ("n1", "n2")}
        self.drained: set[NodeName] = set()
        self.outcomes: dict[str, WorkloadOutcome] = {}
        """What became of other workloads; open where nothing is said."""

    def __str__(self) -> str:
        head = f"after {(self.now - at(0)) // SECOND_MS}s: {self.expansion.state}"
        return "\n".join([head, *(f"  {each.id} {each.phase} {each.cause or ''}" for each in self.expansion.pods)])

    def line(self, line: str) -> None:
        words = line.split()
        match words:
            case [] | ["#", *_]:
                return
            case ["train" | "build" | "inference", "a", *_] | ["train" | "build" | "inference", "a:", *_]:
                self.spec = declared(WorkloadKind(words[0]), line.partition(":")[2], None)
                self.expansion = replace(self.expansion, state=first_standing(line))
                self.rules = ProjectRules(
                    interactive_limit_s=number_in(line, r"interactive limit (\d+)s"),
                    training_limit_s=number_in(line, r"training limit (\d+)s"),
                )
            case ["change", *_]:
                assert self.spec is not None
                self.spec = declared(self.spec.kind, line.removeprefix("change"), self.spec)
            case [other, "completes" | "fails" | "reopens"] if "-" not in other:
                outcomes = {
                    "completes": WorkloadOutcome.COMPLETED,
                    "fails": WorkloadOutcome.FAILED,
                    "reopens": WorkloadOutcome.OPEN,
                }
                self.outcomes[other] = outcomes[words[1]]
            case [other, "is", "deleted"] if "-" not in other:
                self.outcomes[other] = WorkloadOutcome.GONE
            case ["suspend" | "resume" | "delete" | "undeclare"]:
                self._wanted(words[0])
            case ["after", seconds]:
                self.now = Instant(self.now + int(seconds.removesuffix("s")) * SECOND_MS)
            case ["then", *_]:
                self.holds(line.removeprefix("then "))
                return
            case [node, "is", state] if node in self.nodes:
                self._node(NodeName(node), state)
                return
            case _:
                self._pods(words)
                return
        self.expand()

    def _wanted(self, verb: str) -> None:
        assert self.spec is not None
        match verb:
            case "suspend":
                self.spec = replace(self.spec, desired_state=DesiredState.STOP)
            case "resume":
                self.spec = replace(self.spec, desired_state=DesiredState.RUN, run=self.spec.run + 1)
            case "delete":
                self.spec = replace(self.spec, desired_state=DesiredState.DELETE)
            case _:
                self.spec = None

    def _node(self, node: NodeName, state: str) -> None:
        match state:
            case "lost":
                self.nodes[node] = replace(self.nodes[node], gone=True)
                self.settle({each.id: Evidence(node=self.nodes[node]) for each in self.pods if each.node == node})
            case "drained":
                self.drained.add(node)
                self.expand()
            case "returned":
                self.drained.discard(node)
                self.nodes[node] = observed_node(node)
                self.expand()
            case _:
                raise ValueError(state)

    def _pods(self, words: list[str]) -> None:
        names = [word for word in words if re.fullmatch(r"a-\d+-\d+", word)]
        match words[len(names) :]:
            case ["run" | "runs", "on", node]:
                self._bind(names, NodeName(node))
                self._see(names, PodState.RUNNING, running_since=self.now)
            case ["is" | "are", "bound", "to", node]:
                self._bind(names, NodeName(node))
            case ["is" | "are", "seen", "running"]:
                self._see(names, PodState.RUNNING, running_since=self.now)
            case ["exit" | "exits", code]:
                self._see(names, PodState.EXITED, exit_code=int(code))
            case ["leave" | "leaves"]:
                self._see(names, PodState.EXITED, exit_code=143, after_notice=True)
            case ["vanish" | "vanishes"]:
                gone = {each.id: Evidence(node=self._sight(each), stop_confirmed=True) for each in self._named(names)}
                self.settle(gone)  # it is stopped, to make sure
                self.settle(gone)
            case ["is" | "are", "preempted" | "moved" | "stale" as cause]:
                self._set({each.id: each.release(self.now, Cause(cause), "for b") for each in self._named(names)})
            case ["lacks", "its", "image"]:
                self._see(names, PodState.STARTING, message="ErrImagePull: no such image")
            case ["is", "stopped"]:
                looks = {each.id: Evidence(node=self._sight(each), stop_confirmed=True) for each in self._named(names)}
                self.settle(looks)
            case ["is" | "are", "refused"]:
                refused = answer(OrderStatus.REFUSED, "no such image")
                self.settle({each.id: Evidence(node=self._sight(each), answer=refused) for each in self._named(names)})
            case _:
                raise ValueError(f"unknown step {' '.join(words)!r}")

    def _bind(self, names: list[str], node: NodeName) -> None:
        where = {"node": node, "devices": (0,), "boot_id": self.nodes[node].boot_id}
        for each in self._named(names):
            assert each.not_before <= self.now, f"{each.id} has to wait until {each.not_before}"
        self._set({each.id: each.move(BOUND, self.now, **where) for each in self._named(names)})

    def _see(self, names: list[str], state: PodState, **more: Any) -> None:
        looks = {each.id: Evidence(observed_pod(each, state, **more), self._sight(each)) for each in self._named(names)}
        self.settle(looks)

    def _sight(self, of: PodRecord) -> ObservedNode | None:
        return self.nodes.get(of.node) if of.node is not None else None

    def _named(self, names: list[str]) -> list[PodRecord]:
        assert names, "no pod is named"
        by_id: dict[str, PodRecord] = {each.id: each for each in self.pods}
        for name in names:
            assert name in by_id, f"there is no {name}"
        return [by_id[name] for name in names]

    def _set(self, changed: dict[PodId, PodRecord]) -> None:
        pods = tuple(changed.get(each.id, each) for each in self.pods)
        self.expansion = replace(self.expansion, pods=pods)
        self.expand()

    @property
    def pods(self) -> tuple[PodRecord, ...]:
        return self.expansion.pods

    def settle(self, looks: dict[PodId, Evidence]) -> None:
        settled = tuple(settle(each, looks[each.id], self.now) if each.id in looks else each for each in self.pods)
        ended = tuple(new for new, old in zip(settled, self.pods, strict=True) if new.is_over and not old.is_over)
        self.expansion = replace(self.expansion, pods=settled)
        self.expand(ended)

    def expand(self, ended: tuple[PodRecord, ...] = ()) -> None:
        """Bring it up to date, and look a second time: nothing may be different then."""
        self.expansion = self._expanded(ended)
        again = self._expanded(())
        assert again.state == self.expansion.state, f"a second look sees {again.state}"
        assert again.pods == self.pods, f"a second look makes {[f'{each.id} {each.phase}' for each in again.pods]}"

    def _expanded(self, ended: tuple[PodRecord, ...]) -> Expansion:
        case = ExpandInput(
            spec=self.spec,
            state=self.expansion.state,
            pods=self.pods,
            ended=ended,
            rules=self.rules,
            drains=lambda node: (DRAIN,) if node in self.drained else (),
            outcomes=lambda other: self.outcomes.get(other, WorkloadOutcome.OPEN),
        )
        return expand(case, self.now)

    # What must hold

    def holds(self, claim: str) -> None:
        """One claim about how things are now."""
        words = claim.split()
        match words:
            case ["alive:", *names]:
                assert [each.id for each in self.pods if not each.is_over] == names
            case ["goes", "on"]:
                assert self.expansion.state.halt is None, self.expansion.state.halt
            case ["gone"] | ["kept"]:
                assert self.expansion.gone is (words == ["gone"])
            case [count, "failure" | "failures"]:
                assert self.expansion.state.failures == int(count), self.expansion.state.failures
            case ["wakes", "never"]:
                assert self.expansion.wake_at is None, self.expansion.wake_at
            case ["wakes", "in", seconds]:
                assert self.expansion.wake_at == self._in(seconds), self.expansion.wake_at
            case ["avoids", *nodes]:
                assert [each.node for each in self.expansion.state.avoided if each.until > self.now] == nodes
            case ["says", *_]:
                assert self.said().detail == claim.removeprefix("says "), self.said().detail
            case ["reads", word]:
                assert self.reads() == word, self.reads()
            case [phase, cause] if phase.endswith(":"):
                halt = self.expansion.state.halt
                assert halt is not None, "it goes on"
                assert (halt.phase.value, halt.cause.value) == (phase[:-1], cause), halt
            case [name, *state]:
                for each in self._named([name]):
                    assert is_so(each, state, self.now), f"it is {each}"

    def _in(self, seconds: str) -> Instant:
        return Instant(self.now + int(seconds.removesuffix("s")) * SECOND_MS)

    def reads(self) -> str:
        """The classic word for it."""
        assert self.spec is not None
        return classic_word(self.said().phase, self.said().reason, self.spec.kind)

    def said(self) -> WorkloadReport:
        """Its status as shown to users."""
        assert self.spec is not None
        return rollup(self.spec, self.expansion.state, self.pods, verdicts={}, nodes=self.nodes, now=self.now)


def is_so(one: PodRecord, state: list[str], now: Instant) -> bool:
    """`waits`, `waits 20s`, `waits near n1`, `runs`, `is bound`, `is leaving: peer`, `ended: error exited`."""
    match state:
        case ["waits"]:
            return one.phase is WAITING and one.not_before <= now and one.nominated is None
        case ["waits", "near", node]:
            return one.phase is WAITING and one.nominated == node
        case ["waits", seconds]:
            return one.phase is WAITING and one.not_before == now + int(seconds.removesuffix("s")) * SECOND_MS
        case ["runs"]:
            return one.phase is RUNNING
        case ["is", "bound"]:
            return one.phase is BOUND
        case ["is", "leaving:", cause]:
            return one.phase is RELEASING and one.cause is Cause(cause)
        case ["ended:", outcome, cause]:
            return one.phase is ENDED and one.outcome is Outcome(outcome) and one.cause is Cause(cause)
        case ["is", "of", "group", group]:
            return one.group == group
        case ["is", "of", "set", name]:
            return one.pod_set == name
        case ["is", "of", "run", number]:
            return one.run == int(number)
        case _:
            raise ValueError(f"unknown step {' '.join(state)!r}")


def number_in(text: str, pattern: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def first_standing(line: str) -> WorkloadState:
    return state(first_incarnation=number_in(line, r"numbers from (\d+)") or 0)


def declared(kind: WorkloadKind, text: str, before: WorkloadSpec | None) -> WorkloadSpec:
    """`3 pods, sweep, 12 completions, minimum 2, leader, retries 1, deadline 9s, ttl 9s, clean none, tolerant`."""
    changes: dict[str, Any] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        changes.update(_option(part))
    return replace(before, **changes) if before is not None else spec(kind, **changes)


def _option(text: str) -> dict[str, Any]:
    match text.split():
        case [count, "pod" | "pods"]:
            return {"pods": int(count)}
        case [count, "replica" | "replicas"]:
            return {"pods": int(count), "arrangement": Arrangement.REPLICAS}
        case ["sweep"]:
            return {"arrangement": Arrangement.SWEEP}
        case [count, "completions"]:
            return {"completions": int(count)}
        case ["minimum" | "retries" as name, count]:
            return {name: int(count)}
        case ["deadline" | "ttl" as name, seconds]:
            return {f"{name}_s": int(seconds.removesuffix("s"))}
        case ["after", *others]:
            return {
                "after": tuple(
                    Dependency(workload=WorkloadId(name), name=name, any_end=how == "any")
                    for name, _, how in (other.partition(":") for other in others)
                )
            }
        case ["leader"]:
            return {"leader": PodTemplate()}
        case ["clean", "none"]:
            return {"distributed": DistributedRun(clean_pods=CleanPodPolicy.NONE)}
        case ["tolerant"]:
            return {"template": PodTemplate(shape=PodShape(tolerations=(Toleration(key=DRAIN.key),)))}
        case ["preemptible"]:
            return {"preemptible": True}
        case ["restart", *policy]:
            return {"restart": RestartPolicy(" ".join(policy))}
        case ["interactive" | "training", "limit", _] | ["numbers", "from", _]:
            return {}  # of the project and of the state, not of the declaration
        case _:
            raise ValueError(f"unknown step {text!r}")
