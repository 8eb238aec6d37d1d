"""Simulated nodes and pods in virtual time: what happens to them, when, and what is observed of them.

Every pod has a timeline from the moment its start order is accepted (`timeline.py`), so observing seldom shows the same
as observing often. In memory, and in a state file if there is one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace

from fairpool.engines.simulated.behaviour import RUNS_UNTIL_STOPPED, BehaviourOf
from fairpool.engines.simulated.clock import Clock
from fairpool.engines.simulated.invariants import InvariantChecker
from fairpool.engines.simulated.observation_cache import ObservationCache
from fairpool.engines.simulated.simulated_node import SimulatedNode
from fairpool.engines.simulated.simulated_sampler import SimulatedSampler
from fairpool.engines.simulated.state_file import PendingChanges, StateFile
from fairpool.engines.simulated.timeline import (
    KILLED,
    PodTimeline,
    cut,
    fenced,
    next_change,
    observed,
    record_found,
    work_left_behind_ms,
)
from fairpool.engines.simulated.timers import Timers
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PodId, Token
from fairpool.model.node import Node
from fairpool.model.observation import StartOrder

ENDED_BEFORE = "this pod has ended"


class SimulatedMachines:
    """Nodes and pods, and what happens to them.

    With the state file of an earlier process it continues where that one was, as much later as the clock says; of
    `nodes`, only those that the state file does not contain are added.
    """

    def __init__(
        self,
        clock: Clock,
        nodes: Iterable[Node] = (),
        behaviour_of: BehaviourOf = RUNS_UNTIL_STOPPED,
        state_file: StateFile | None = None,
    ) -> None:
        self._clock = clock
        self._woken = threading.Event()
        self._behaviour_of = behaviour_of
        self._changes = PendingChanges(state_file)
        self._violations_noted = 0
        self._now = Instant(0)
        self._token = Token(0)
        self._hosts: dict[NodeName, SimulatedNode] = {}
        self._boots: dict[NodeName, int] = {}
        self._timelines: dict[PodId, PodTimeline] = {}
        self._on_node: dict[NodeName, dict[PodId, None]] = {}
        self._alive: dict[PodId, None] = {}
        self._tombstones: dict[PodId, str] = {}
        self._done_ms: dict[str, int] = {}
        self._numbers = 0
        self._invariants = InvariantChecker()
        self._timers = Timers()
        """When the observation of a node or pod will change."""
        self._observed = ObservationCache()
        self._sampler = SimulatedSampler()
        if state_file is not None:
            self._restore(state_file)
        self._pass_time()
        for node in nodes:
            if node.name not in self._boots:
                self._add(node)
        self._save()

    # --- what happens to nodes ---

    def add_node(self, node: Node) -> None:
        """A node joins, or returns as another machine with the same name."""
        self._pass_time()
        self._add(node)
        self._save()

    def remove_node(self, name: NodeName) -> None:
        """The node is gone, with all its pods."""
        self._pass_time()
        self._lose_pods(name)
        del self._hosts[name], self._on_node[name]
        self._observed.remove_node(name)
        self._timers.set(("node", name), None)
        self._changes.note("host", name, None)
        self._save()

    def reboot(self, name: NodeName, down_s: float = 60) -> None:
        """The node restarts: all its pods are lost, and it does not respond for so long."""
        self._pass_time()
        self._lose_pods(name)
        until = Instant(self._now + round(down_s * SECOND_MS))
        host = self._hosts[name].rebooted().silenced(self._now, until)
        self._boots[name] = host.boot
        self._changes.note("boots", name, host.boot)
        self._set_host(host)
        self._settle_node(name)
        self._save()

    def silence(self, name: NodeName, until: Instant | None = None) -> None:
        """The agent of the node is unreachable until then. Its pods keep running until the agent fences itself."""
        self._pass_time()
        self._set_host(self._hosts[name].silenced(self._now, until))
        self._settle_node(name)
        self._save()

    def end_silence(self, name: NodeName) -> None:
        """The node responds again, if it did not."""
        if self.host(name).is_silent:
            self.silence(name, self._now)

    # --- what happens to pods ---

    def crash(self, pod: PodId, exit_code: int = 1, words: str = "crashed") -> None:
        """The pod exits by itself, now."""
        self._pass_time()
        self._set_timeline(cut(self._timelines[pod], self._now, exit_code, words))
        self._save()

    # --- for simulations and tests ---

    @property
    def next_change_at(self) -> Instant | None:
        """When the observation will change by itself; None: never."""
        return self._timers.next_at

    @property
    def violations(self) -> list[str]:
        """What should never have happened. See `invariants.py`."""
        return self._invariants.violations

    @property
    def nodes(self) -> list[NodeName]:
        """The nodes that are offered, silent or not."""
        return [name for name, host in self._hosts.items() if host.offered]

    def host(self, name: NodeName) -> SimulatedNode:
        """A node as it really is."""
        self._pass_time()
        return self._hosts[name]

    def alive(self) -> list[PodId]:
        """Pods that are starting or running at this moment, on silent nodes too."""
        self._pass_time()
        return list(self._alive)

    def timeline(self, pod: PodId) -> PodTimeline | None:
        """The timeline of a pod, if it is not forgotten or lost."""
        self._pass_time()
        return self._timelines.get(pod)

    # --- changes of pods and nodes ---

    def _set_timeline(self, timeline: PodTimeline) -> None:
        pod = timeline.order.pod
        self._timelines[pod] = timeline
        self._changes.note("timeline", pod, timeline)
        self._settle_pod(pod)

    def _find(self, pod: PodId) -> None:
        """Before an order is carried out, the process is searched for in every way."""
        timeline = self._timelines.get(pod)
        if timeline is not None and timeline.unseen_until is not None:
            self._set_timeline(record_found(timeline))

    def _vanish(self, pod: PodId, words: str) -> None:
        """Nothing remains of a pod but that it must not start again."""
        timeline = self._timelines.get(pod)
        if timeline is not None:
            self._set_timeline(cut(record_found(timeline), self._now, KILLED, words))
            del self._timelines[pod], self._on_node[timeline.order.node][pod]
            self._timers.set(("pod", pod), None)
            self._changes.note("timeline", pod, None)
            self._observed.remove_pod(pod)
        self._add_tombstone(pod, words)

    def _add_tombstone(self, pod: PodId, words: str) -> None:
        self._tombstones[pod] = words
        self._changes.note("tombstone", pod, words)

    def _lose_pods(self, name: NodeName) -> None:
        for pod in list(self._on_node[name]):
            self._vanish(pod, "its node was lost")

    def _add(self, node: Node) -> None:
        assert node.name not in self._hosts, f"node {node.name} exists already"
        self._numbers += 1
        # A machine that returns under an old name must not be taken for the one that left.
        boot = self._boots.get(node.name, 0) + 1
        self._boots[node.name] = boot
        self._changes.note("boots", node.name, boot)
        self._on_node[node.name] = {}
        self._set_host(SimulatedNode(number=self._numbers, node=node, boot=boot, heard_boot=boot))

    def _set_host(self, host: SimulatedNode) -> None:
        name = host.node.name
        self._hosts[name] = host
        self._changes.note("host", name, host)
        if host.offered:
            self._observed.set_node(host.observed())
        else:
            self._observed.remove_node(name)

    # --- time passes ---

    def _pass_time(self) -> None:
        """Process every timer up to now, each at its time."""
        # If the clock was set back, time stands still here: what has happened has happened.
        now = max(self._now, self._clock.now())
        for at, (kind, name) in self._timers.expire(now):
            self._now = at
            if kind == "node":
                self._settle_node(NodeName(name))
            else:
                self._settle_pod(PodId(name))
        self._now = now

    def _settle_pod(self, pod: PodId) -> None:
        timeline = self._timelines[pod]
        if timeline.ended_unseen(self._now):
            self._vanish(pod, ENDED_BEFORE)
            return
        if pod in self._alive and timeline.is_over(self._now):
            del self._alive[pod]
            self._invariants.ended(pod)
            self._keep_work(timeline)
        self._timers.set(("pod", pod), next_change(timeline, self._now))
        if self._hosts[timeline.order.node].is_silent or timeline.is_unseen(self._now):
            self._observed.remove_pod(pod)
        else:
            self._observed.set_pod(observed(timeline, self._now))

    def _keep_work(self, timeline: PodTimeline) -> None:
        name = work_of(timeline.order)
        done_ms = work_left_behind_ms(timeline)
        if done_ms != self._done_ms.get(name, 0):
            self._done_ms[name] = done_ms
            self._changes.note("done", name, done_ms)

    def _settle_node(self, name: NodeName) -> None:
        """A silent node fences itself and responds again when it is time."""
        host = self._hosts[name]
        fences_at = host.fences_at
        if fences_at is not None and fences_at <= self._now:
            for pod in list(self._on_node[name]):
                self._set_timeline(fenced(self._timelines[pod], fences_at))
        if host.gone_at is not None and host.gone_at <= self._now:
            self._set_host(replace(host, gone=True))
            host = self._hosts[name]
        if host.silent_until is not None and host.silent_until <= self._now:
            self._set_host(host.responding())
        for pod in list(self._on_node[name]):
            self._settle_pod(pod)
        dates = (fences_at, self._hosts[name].gone_at, self._hosts[name].silent_until)
        next_at = min((date for date in dates if date is not None and date > self._now), default=None)
        self._timers.set(("node", name), next_at)

    # --- the state file ---

    def _save(self) -> None:
        """Write what has changed in one transaction: the file always shows the simulation as of one moment."""
        for number in range(self._violations_noted, len(self.violations)):
            self._changes.note("violation", f"{number:09}", self.violations[number])
        self._violations_noted = len(self.violations)
        if not self._changes.is_empty():
            self._changes.note("meta", "now", self._now)
            self._changes.note("meta", "numbers", self._numbers)
            self._changes.write()

    def _restore(self, state_file: StateFile) -> None:
        read = state_file.read
        meta = read("meta", int)
        self._now = Instant(meta.get("now", 0))
        self._numbers = meta.get("numbers", 0)
        self._token = Token(meta.get("token", 0))
        self._boots = {NodeName(name): boot for name, boot in read("boots", int).items()}
        self._tombstones = {PodId(pod): words for pod, words in read("tombstone", str).items()}
        self._done_ms = read("done", int)
        for host in sorted(read("host", SimulatedNode).values(), key=_number):
            self._on_node[host.node.name] = {}
            self._set_host(host)
        timelines = sorted(read("timeline", PodTimeline).values(), key=_number)
        self._invariants.restore([timeline.order.pod for timeline in timelines], self._token)
        self._invariants.restore(self._tombstones, self._token)
        for timeline in timelines:
            self._restore_timeline(timeline)
        for name in self._hosts:
            self._settle_node(name)
        self._invariants.violations[:] = read("violation", str).values()
        self._violations_noted = len(self.violations)
        self._changes.discard()

    def _restore_timeline(self, timeline: PodTimeline) -> None:
        pod = timeline.order.pod
        host = self._hosts[timeline.order.node]
        self._timelines[pod] = timeline
        self._on_node[host.node.name][pod] = None
        if not timeline.is_over(self._now):
            self._alive[pod] = None
            self._invariants.holds(timeline.order, host.node)


def work_of(order: StartOrder) -> str:
    """The work that the pods of one index have in common."""
    return f"{order.workload}/{order.index}"


def _number(counted: SimulatedNode | PodTimeline) -> int:
    return counted.number
