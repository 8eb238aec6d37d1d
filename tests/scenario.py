"""Scenarios as text: a small world, what the scheduler must do in it, and nothing else.

    node    n1: 8 gpus, of 32510 MiB, label zone=east, taint reserved=yes:NoSchedule, cordoned
    queue   vision: quota 4, limit 6, weight 2, in research, min runtime 60s
    topology net: zone rack
    running a of vision: 4 gpus on n1, build
    leaving b of vision: 0.5 gpu on n1, device 3
    pending c of speech: 2 to 4 pods, 1 gpu, created later
    then    evict a: "a fragment of the sentence that explains it"
    then    bind c on n1 device 0
    then    promise 2 pods of c on n1 n2
    then    wait d: over quota "a fragment of the sentence that explains it"
    cycle

The phrases about rows are in `tests/scenario_rows.py`. Rows are older the earlier they are listed, running pods get the
first free devices, CPU and memory are plenty unless a line says otherwise.

`then` lines about a plan (evict, move, bind, promise, withdraw, wait, nothing) together describe all of it: an action
that no line mentions is an error, unless it is a promise that was made before and is kept. `then` lines about the
world (`vision holds 4 gpus`, `a runs on n1`, `c waits`) look at what is written down. `cycle` applies the plan,
`cycle after 60s` lets time pass as well, `settle` applies plans until there is nothing left to do. In between,
`delete a`, `lose n1`, `slow a` and any row may follow; a node or queue that is said again is changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from fairpool.model.ids import GroupId, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import NodePool
from fairpool.model.workload import Pod
from fairpool.scheduler.decision import Bind, Evict, Plan, Promise, Verdict, Withdraw
from fairpool.scheduler.explain import explain, explain_eviction
from fairpool.scheduler.plan import plan
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot
from tests import simulated_ledger
from tests.accounting import Accounting
from tests.scenario_rows import (
    START,
    GroupLine,
    ScenarioError,
    read_group,
    read_node,
    read_queue,
    read_topology,
)

SETTLES_WITHIN = 8
"""Cycles after which there must be nothing left to do."""

Action = Evict | Bind | Promise | Withdraw


def check(text: str, policy: Policy | None = None, pool: NodePool | None = None) -> None:
    """Play a scenario and see that everything it says holds."""
    world = World(policy=policy)
    world.snapshot = replace(world.snapshot, pool=pool or NodePool())
    expected: list[PlanLine] = []
    for number, line in _lines(text):
        try:
            expected_line = _plan_line(line)
            if expected_line is not None:
                world.must_know(expected_line.name)
                expected.append(expected_line)
                continue
            compare(world, expected)
            expected = []
            world.add_line(line)
        except ScenarioError as error:
            raise ScenarioError(f"line {number}, {line!r}: {error}") from None
    compare(world, expected)


class World:
    """A snapshot over several cycles: rows are given as text, plans are applied as the ledger would."""

    def __init__(self, text: str = "", policy: Policy | None = None) -> None:
        self.snapshot = Snapshot(now=START, policy=policy or Policy.product())
        self.deleted: set[GroupId] = set()
        self.slow: set[PodId] = set()
        self.rows = 0
        for number, line in _lines(text):
            try:
                self.add_line(line)
            except ScenarioError as error:
                raise ScenarioError(f"line {number}, {line!r}: {error}") from None

    def add_line(self, line: str) -> None:
        """One line of the language, except those that expect something of a plan."""
        for pattern, do in SENTENCES:
            match = re.fullmatch(pattern, line)
            if match:
                self.rows += 1
                do(self, match)
                return
        raise ScenarioError(f"expected one of: {', '.join(FORMS)}")

    def submit(self, text: str) -> None:
        """A person submits a workload: `c-5-g of team-c: 1 gpu`."""
        self.add_line(f"pending {text}")

    def delete(self, *names: str) -> None:
        """A person deletes workloads; what runs of them needs a cycle to leave."""
        for name in names:
            self.snapshot = simulated_ledger.delete(self.snapshot, GroupId(name))
            self.deleted.add(GroupId(name))

    def plan(self) -> Plan:
        """What the scheduler would do now."""
        return plan(self.snapshot)

    def cycle(self, seconds: int = 1) -> Plan:
        """Plan, write it down, let the engine do it."""
        decided = self.plan()
        self.snapshot = simulated_ledger.apply(
            self.snapshot, decided, seconds=seconds, deleted=self.deleted, slow=self.slow
        )
        return decided

    def settle(self) -> list[Plan]:
        """Cycles until nothing is left to do, and the plans that led there."""
        plans: list[Plan] = []
        while True:
            leaving = {pod.id for pod in self.snapshot.pods if pod.phase is PodPhase.RELEASING} - self.slow
            if self.plan().is_empty and not leaving:
                return plans
            if len(plans) == SETTLES_WITHIN:
                raise AssertionError(f"no rest after {SETTLES_WITHIN} cycles\n{picture(self)}")
            plans.append(self.cycle())

    def held(self, queue: str) -> float:
        """GPUs that a queue and those below it hold now."""
        return Accounting(self.snapshot).held(QueueId(queue)).gpu_milli / 1000

    def running(self) -> list[str]:
        """Groups of which something runs."""
        return sorted({pod.group for pod in self.snapshot.pods if pod.phase is PodPhase.RUNNING})

    def waiting(self) -> list[str]:
        """Groups of which nothing runs."""
        return sorted({pod.group for pod in self.snapshot.pods} - set(self.running()))

    def pods(self, name: str) -> list[Pod]:
        """The pods of a group, or the one pod of that name."""
        return [pod for pod in self.snapshot.pods if name in (pod.group, pod.id)]

    def must_know(self, name: str) -> None:
        """Refuse a name that is not in the scenario."""
        if name and not self.pods(name):
            raise ScenarioError(f"there is no group or pod {name}")

    def nodes(self, name: str) -> set[str]:
        """Where a group, or a pod, runs."""
        return {pod.node for pod in self.pods(name) if pod.phase is PodPhase.RUNNING and pod.node}

    # What a line does. The patterns are in SENTENCES.

    def _node(self, match: re.Match[str]) -> None:
        node = read_node(match[1], match[2])
        others = tuple(each for each in self.snapshot.nodes if each.name != node.name)
        self.snapshot = replace(self.snapshot, nodes=(*others, node))

    def _queue(self, match: re.Match[str]) -> None:
        queue = read_queue(match[1], match[2], self.rows)
        others = tuple(each for each in self.snapshot.queues if each.id != queue.id)
        self.snapshot = replace(self.snapshot, queues=(*others, queue))

    def _topology(self, match: re.Match[str]) -> None:
        self.snapshot = replace(
            self.snapshot, topologies=(*self.snapshot.topologies, read_topology(match[1], match[2]))
        )

    def _group(self, match: re.Match[str]) -> None:
        if any(group.id == match[2] for group in self.snapshot.groups):
            raise ScenarioError(f"there is already a group {match[2]}")
        group, pods = read_group(GroupLine(*match.groups()), self.rows, self.snapshot)
        self.snapshot = replace(self.snapshot, groups=(*self.snapshot.groups, group), pods=(*self.snapshot.pods, *pods))
        # What leaves from the start does not come back: the scenario is about the room that it gives up.
        if match[1] == "leaving":
            self.deleted.add(group.id)

    def _lose(self, match: re.Match[str]) -> None:
        name = self._known(match[1], [node.name for node in self.snapshot.nodes])
        self.snapshot = replace(
            self.snapshot,
            nodes=tuple(node for node in self.snapshot.nodes if node.name != name),
            # The ledger ends what was on a lost node; a promise there is the scheduler's to withdraw.
            pods=tuple(
                simulated_ledger.replacement(pod) if pod.node == name and pod.phase is not PodPhase.PROMISED else pod
                for pod in self.snapshot.pods
                if pod.node != name or pod.group not in self.deleted
            ),
        )

    def _delete(self, match: re.Match[str]) -> None:
        for name in match[1].split():
            self.delete(self._known(name, [group.id for group in self.snapshot.groups]))

    def _slow(self, match: re.Match[str]) -> None:
        self.slow.update(pod.id for pod in self.pods(match[1]))

    def _cycle(self, match: re.Match[str]) -> None:
        self.cycle(int(match[1] or 1))

    def _settle(self, match: re.Match[str]) -> None:
        self.settle()

    def _holds(self, match: re.Match[str]) -> None:
        name = self._known(match[1], [queue.id for queue in self.snapshot.queues])
        assert self.held(name) == float(match[2]), f"{name} holds {self.held(name):g} GPUs\n{picture(self)}"

    def _runs(self, match: re.Match[str]) -> None:
        for name in match[1].split():
            assert name in self.running(), f"{name} does not run\n{picture(self)}"
            nodes = set((match[2] or "").split())
            assert not nodes or self.nodes(name) == nodes, f"{name} runs elsewhere\n{picture(self)}"

    def _waits(self, match: re.Match[str]) -> None:
        for name in match[1].split():
            assert name in self.waiting(), f"{name} does not wait\n{picture(self)}"

    @staticmethod
    def _known(name: str, names: Iterable[str]) -> str:
        if name not in names:
            raise ScenarioError(f"there is no {name}")
        return name


SENTENCES: tuple[tuple[str, Callable[[World, re.Match[str]], None]], ...] = (
    (r"node (\S+): (.*)", World._node),
    (r"queue (\S+): (.*)", World._queue),
    (r"topology (\S+): (.*)", World._topology),
    (r"(running|leaving|promised|pending) (\S+) of (\S+): (.*)", World._group),
    (r"lose (\S+)", World._lose),
    (r"delete (\S+(?: \S+)*)", World._delete),
    (r"slow (\S+)", World._slow),
    (r"cycle(?: after (\d+)s)?", World._cycle),
    (r"settle", World._settle),
    (r"then (\S+) holds ([\d.]+)(?: gpus?)?", World._holds),
    (r"then (\S+(?: \S+)*?) runs?(?: on (\S+(?: \S+)*))?", World._runs),
    (r"then (\S+(?: \S+)*?) waits?", World._waits),
)
FORMS = (
    "node n1: ...",
    "queue q: ...",
    "topology t: ...",
    "running | leaving | promised | pending a of q: ...",
    "lose n1",
    "delete a b",
    "slow a",
    "cycle [after 60s]",
    "settle",
    "then q holds 4 gpus",
    "then a b run [on n1]",
    "then a b wait",
    *(
        f"then {form}"
        for form in (
            "nothing",
            'evict a: "why"',
            "move a to n2",
            "bind a on n1 [device 0]",
            "promise a on n1",
            "withdraw a",
            'wait a: over quota "why"',
        )
    ),
)


# --- what a plan is expected to be -------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanLine:
    """One `then` line about a plan."""

    verb: str
    name: str = ""
    count: int | None = None
    """None: every pod of the group that the verb can be about."""
    nodes: frozenset[str] = frozenset()
    devices: tuple[int, ...] = ()
    why: str = ""
    """Kind of verdict, in words."""
    sentence: str = ""

    def __str__(self) -> str:
        count = f"{self.count} pods of " if self.count is not None else ""
        return f"{self.verb} {count}{self.name}".strip()


PLACE = r"(?: on (?P<nodes>\S+(?: \S+)*?))?(?: devices? (?P<devices>[\d ]+))?"
PLAN_LINES = (
    r"then (?P<verb>nothing)",
    r'then (?P<verb>evict) (?:(?P<count>\d+) pods? of )?(?P<name>[^\s:]+)(?:: "(?P<sentence>.*)")?',
    r"then (?P<verb>move) (?:(?P<count>\d+) pods? of )?(?P<name>\S+)(?: to (?P<nodes>\S+(?: \S+)*?))?",
    r"then (?P<verb>bind|promise) (?:(?P<count>\d+) pods? of )?(?P<name>\S+)" + PLACE,
    r"then (?P<verb>withdraw) (?P<name>\S+)",
    r'then (?P<verb>wait) (?P<name>[^\s:]+)(?:: (?P<why>[a-z ]+?)?\s*(?:"(?P<sentence>.*)")?)?',
)


def _plan_line(line: str) -> PlanLine | None:
    for pattern in PLAN_LINES:
        match = re.fullmatch(pattern, line)
        if match:
            said = {key: value for key, value in match.groupdict().items() if value is not None}
            return PlanLine(
                verb=said["verb"],
                name=said.get("name", ""),
                count=int(said["count"]) if "count" in said else None,
                nodes=frozenset(said.get("nodes", "").split()),
                devices=tuple(int(each) for each in said.get("devices", "").split()),
                why=said.get("why", "").strip(),
                sentence=said.get("sentence", ""),
            )
    return None


def compare(world: World, expected: Sequence[PlanLine]) -> None:
    """See that the plan is what the lines say, no more and no less."""
    if not expected:
        return
    decided = world.plan()
    complaints: list[str] = []
    mentioned: set[PodId] = set()
    for line in expected:
        if line.verb == "wait":
            complaints += _compare_verdict(line, decided)
        elif line.verb != "nothing":
            actions = [each for each in _actions(line.verb, decided) if line.name in (each.group, each.pod)]
            mentioned |= {action.pod for action in actions}
            complaints += _compare_actions(line, actions, world)
    kept = {(pod.id, pod.node, pod.devices) for pod in world.snapshot.pods if pod.phase is PodPhase.PROMISED}
    for action in _all_actions(decided):
        if isinstance(action, Promise) and (action.pod, action.node, action.devices) in kept:
            continue
        if action.pod not in mentioned:
            complaints.append(f"no line mentions {type(action).__name__.lower()} {action.pod} on {action.node}")
    assert not complaints, "\n".join(["", *complaints, picture(world, decided)])


def _actions(verb: str, decided: Plan) -> Sequence[Action]:
    match verb:
        case "evict":
            return [each for each in decided.evictions if each.reason.moved_to is None]
        case "move":
            return [each for each in decided.evictions if each.reason.moved_to is not None]
        case "bind":
            return decided.binds
        case "promise":
            return decided.promises
        case _:
            return decided.withdrawals


def _all_actions(decided: Plan) -> Sequence[Action]:
    return (*decided.evictions, *decided.binds, *decided.promises, *decided.withdrawals)


SUBJECTS = {
    "evict": {PodPhase.RUNNING, PodPhase.BOUND},
    "move": {PodPhase.RUNNING, PodPhase.BOUND},
    "bind": {PodPhase.WAITING, PodPhase.PROMISED},
    "promise": {PodPhase.WAITING, PodPhase.PROMISED},
    "withdraw": {PodPhase.PROMISED},
}


def _compare_actions(line: PlanLine, actions: Sequence[Action], world: World) -> list[str]:
    subjects = [pod for pod in world.pods(line.name) if pod.phase in SUBJECTS[line.verb]]
    count = len(subjects) if line.count is None else line.count
    if len(actions) != count or not count:
        return [f"expected {line}, {count} in number; there are {len(actions)}"]
    complaints = []
    nodes = {_destination(action) for action in actions}
    if line.nodes and nodes != line.nodes:
        complaints.append(f"expected {line} on {' '.join(sorted(line.nodes))}, not {' '.join(sorted(nodes))}")
    if line.devices:
        devices = Counter(device for each in actions if isinstance(each, Bind | Promise) for device in each.devices)
        if devices != Counter(line.devices):
            complaints.append(f"expected {line} on devices {line.devices}, not {sorted(devices.elements())}")
    for action in actions:
        if isinstance(action, Evict) and line.sentence not in eviction_sentence(action):
            complaints.append(f"expected {line.sentence!r} in {eviction_sentence(action)!r}")
    return complaints


def _destination(action: Action) -> str:
    if isinstance(action, Evict) and action.reason.moved_to is not None:
        return action.reason.moved_to
    return action.node


def _compare_verdict(line: PlanLine, decided: Plan) -> list[str]:
    verdict = decided.verdicts.get(GroupId(line.name))
    if verdict is None:
        return [f"expected a verdict for {line.name}, there is none"]
    complaints = []
    if line.why and line.why != why_in_words(verdict):
        complaints.append(f"{line.name} waits: {why_in_words(verdict)}, expected {line.why}")
    if line.sentence not in verdict_sentence(verdict):
        complaints.append(f"expected {line.sentence!r} in {verdict_sentence(verdict)!r}")
    return complaints


def why_in_words(verdict: Verdict) -> str:
    """`NotItsTurn` is `not its turn`."""
    return re.sub(r"(?<=.)([A-Z])", r" \1", type(verdict.why).__name__).lower()


def verdict_sentence(verdict: Verdict) -> str:
    """A verdict as a researcher reads it."""
    return explain(verdict)


def eviction_sentence(evict: Evict) -> str:
    """The reason of an eviction as a researcher reads it."""
    return explain_eviction(evict)


# --- what happened instead ----------------------------------------------------------------------------------------


def picture(world: World, decided: Plan | None = None) -> str:
    """The world and the plan for it, for the reader of a failure."""
    decided = decided or world.plan()
    rows = [
        f"    {pod.phase:<9} {pod.id} of {pod.group}{_place(pod.node, pod.devices)}"
        for pod in sorted(world.snapshot.pods, key=lambda each: each.id)
    ]
    queues = [
        f"    {each.queue}: quota {each.quota_milli / 1000:g}, fair share {each.fair_share_milli / 1000:g},"
        f" held {each.held_milli / 1000:g}"
        for each in decided.queues
    ]
    done = [
        *(f"    evict {each.pod} from {each.node}: {eviction_sentence(each)}" for each in decided.evictions),
        *(f"    bind {each.pod}{_place(each.node, each.devices)}" for each in decided.binds),
        *(f"    promise {each.pod}{_place(each.node, each.devices)}" for each in decided.promises),
        *(f"    withdraw {each.pod} from {each.node}: {each.why}" for each in decided.withdrawals),
        *(
            f"    wait {group}: {why_in_words(verdict)} {verdict_sentence(verdict)!r}"
            for group, verdict in sorted(decided.verdicts.items())
        ),
    ]
    return "\n".join(["the world:", *rows, "the queues:", *queues, "the plan:", *(done or ["    nothing"])])


def _place(node: NodeName | None, devices: tuple[int, ...]) -> str:
    where = f" on {node}" if node else ""
    return f"{where} devices {' '.join(map(str, devices))}" if devices else where


def _lines(text: str) -> list[tuple[int, str]]:
    """Lines that say something, with single spaces and their number in the text."""
    lines = ((number, re.sub(r"\s+", " ", line.split("#")[0]).strip()) for number, line in enumerate(text.splitlines()))
    return [(number, line) for number, line in lines if line]
