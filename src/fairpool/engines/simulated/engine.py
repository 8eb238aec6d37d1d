"""Simulated engine: carries out orders in virtual time, and reports what it observes.

Simulations, scenarios and `fairpool simulate` own one and make things happen to its nodes and pods. Every pod has a
timeline from the moment its start order is accepted (`timeline.py`), so observing seldom shows the same as observing
often. Unreliable networks are not simulated here; `tests/fault_injection` wraps this engine for that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fairpool.engines.port import Fenced
from fairpool.engines.simulated.behaviour import RUNS_UNTIL_STOPPED, BehaviourOf
from fairpool.engines.simulated.clock import Clock
from fairpool.engines.simulated.invariants import InvariantChecker
from fairpool.engines.simulated.observation_cache import ObservationCache
from fairpool.engines.simulated.simulated_node import SimulatedNode
from fairpool.engines.simulated.state_file import PendingChanges, StateFile
from fairpool.engines.simulated.timeline import (
    KILLED,
    PodTimeline,
    cut,
    fenced,
    next_change,
    observed,
    pull_delayed,
    record_found,
    record_lost,
    shim_stopped,
    start_timeline,
    stopped,
    work_left_behind_ms,
)
from fairpool.engines.simulated.timers import Timers
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PodId, Token
from fairpool.model.node import Node
from fairpool.model.observation import (
    ForgetOrder,
    Observation,
    Order,
    OrderResult,
    OrderStatus,
    StartOrder,
    StopOrder,
)

NO_ANSWER = "the node does not respond"
ENDED_BEFORE = "this pod has ended"
STOPPED_BEFORE = "this pod was stopped before it started"


class SimulatedEngine:
    """Nodes and pods in memory, and in a state file if there is one.

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
        if state_file is not None:
            self._restore(state_file)
        self._pass_time()
        for node in nodes:
            if node.name not in self._boots:
                self._add(node)
        self._save()

    # --- the engine interface ---

    def observe(self, token: Token) -> Observation:
        """All nodes and pods; the same object as last time if nothing changed."""
        self._pass_time()
        self._check_token(token)
        return self._observed.observation(self._now, self._token)

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        """Carry out orders. All results are durable before any is returned."""
        self._pass_time()
        self._check_token(token)
        answers = [self._answer(order, token) for order in orders]
        self._save()
        return answers

    def wait(self, timeout_s: float) -> None:
        """Sleep until something will look different, on a clock that runs by itself."""
        change = self.next_change_at
        left_s = timeout_s if change is None else (change - self._clock.now()) / SECOND_MS
        self._woken.wait(max(0.0, min(timeout_s, left_s)))
        self._woken.clear()

    def wake(self) -> None:
        """From any thread."""
        self._woken.set()

    # --- what happens to nodes ---

    def add_node(self, node: Node) -> None:
        """A node joins, or returns as another machine with the same name."""
        self._pass_time()
        self._add(node)
        self._save()

    def replace_node(self, node: Node) -> None:
        """The node has other labels, taints or devices, or is cordoned; its pods are not affected."""
        self._pass_time()
        self._set_host(replace(self._hosts[node.name], node=node))
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

    def withdraw_node(self, name: NodeName) -> None:
        """The node is no longer offered, as after a start with another set of nodes. Its pods keep running."""
        self._pass_time()
        self._set_host(replace(self._hosts[name], offered=False))
        self._save()

    def offer_node(self, name: NodeName) -> None:
        """The node is offered again, in the same boot."""
        self._pass_time()
        self._set_host(replace(self._hosts[name], offered=True))
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

    def lose(self, pod: PodId) -> None:
        """The pod is gone without a trace, and will not start again."""
        self._pass_time()
        self._vanish(pod, ENDED_BEFORE)
        self._save()

    def lose_record(self, pod: PodId, until: Instant) -> None:
        """The record of a pod is lost while it runs. Its process is found then, or when an order for it arrives; if it
        exits before, how is unknown."""
        self._pass_time()
        self._set_timeline(record_lost(self._timelines[pod], self._now, until))
        self._save()

    def find_all(self) -> None:
        """Search for all processes, as when an engine starts."""
        self._pass_time()
        for pod in list(self._alive):
            self._find(pod)
        self._save()

    def stop_shim(self, pod: PodId, until: Instant) -> None:
        """The shim of a pod is stopped until then: it neither reports an exit nor forwards a signal."""
        self._pass_time()
        self._set_timeline(shim_stopped(self._timelines[pod], self._now, until))
        self._save()

    def hold_up(self, pod: PodId, trouble: str, until: Instant | None = None) -> None:
        """The image of a pod that is not running yet cannot be pulled until then."""
        self._pass_time()
        self._set_timeline(pull_delayed(self._timelines[pod], self._now, trouble, until))
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

    # --- one order ---

    def _check_token(self, token: Token) -> None:
        if token < self._token:
            raise Fenced(highest=self._token, mine=token)
        if token > self._token:
            self._token = token
            self._changes.note("meta", "token", token)
        if self._changes.has("meta", "token"):
            self._save()

    def _answer(self, order: Order, token: Token) -> OrderResult:
        timeline = self._timelines.get(order.pod)
        at_home = self._hosts.get(timeline.order.node) if timeline is not None else None
        addressed = self._hosts.get(order.node) if order.node is not None else None
        if any(host is not None and host.is_silent for host in (at_home, addressed)):
            return OrderResult(order.pod, OrderStatus.UNKNOWN, NO_ANSWER)
        self._invariants.acted(token)
        self._find(order.pod)
        timeline = self._timelines.get(order.pod)
        match order:
            case StartOrder():
                return self._start(order, timeline, addressed)
            case StopOrder():
                return self._stop(order, timeline)
            case ForgetOrder():
                return self._forget(order, timeline)

    def _start(self, order: StartOrder, timeline: PodTimeline | None, host: SimulatedNode | None) -> OrderResult:
        if timeline is not None:
            if timeline.order.node != order.node:
                self._invariants.ordered_elsewhere(timeline.order, order)
            return OrderResult(order.pod, OrderStatus.DONE)
        if order.pod in self._tombstones:
            return OrderResult(order.pod, OrderStatus.REFUSED, self._tombstones[order.pod])
        if host is None or not host.offered:
            return self._refuse(order, f"there is no node {order.node}")
        if order.boot_id != host.boot_id:
            return self._refuse(order, "the node has rebooted")
        if not host.node.offers(order.devices):
            return self._refuse(order, f"{order.node} does not have all of the devices {list(order.devices)}")
        self._numbers += 1
        done_ms = self._done_ms.get(_work_of(order), 0)
        self._alive[order.pod] = None
        self._invariants.started(order, host.node)
        self._on_node[order.node][order.pod] = None
        self._set_timeline(start_timeline(self._numbers, order, self._behaviour_of(order), done_ms, self._now))
        return OrderResult(order.pod, OrderStatus.DONE)

    def _refuse(self, order: StartOrder, words: str) -> OrderResult:
        """A refusal is final: an earlier copy of the order that is still on its way must not start it either."""
        self._add_tombstone(order.pod, words)
        return OrderResult(order.pod, OrderStatus.REFUSED, words)

    def _stop(self, order: StopOrder, timeline: PodTimeline | None) -> OrderResult:
        if timeline is not None:
            self._set_timeline(stopped(timeline, self._now, order.grace_s, order.reason))
        elif order.pod not in self._tombstones:
            self._add_tombstone(order.pod, STOPPED_BEFORE)
        return OrderResult(order.pod, OrderStatus.DONE)

    def _forget(self, order: ForgetOrder, timeline: PodTimeline | None) -> OrderResult:
        if timeline is not None and not timeline.is_over(self._now):
            return OrderResult(order.pod, OrderStatus.LATER, "it has not ended yet")
        if timeline is not None or order.pod not in self._tombstones:
            self._vanish(order.pod, ENDED_BEFORE)
        return OrderResult(order.pod, OrderStatus.DONE)

    # --- changes of pods and nodes ---

    def _set_timeline(self, timeline: PodTimeline) -> None:
        pod = timeline.order.pod
        self._timelines[pod] = timeline
        self._changes.note("course", pod, timeline)
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
            self._changes.note("course", pod, None)
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
        name = _work_of(timeline.order)
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
        timelines = sorted(read("course", PodTimeline).values(), key=_number)
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


def _work_of(order: StartOrder) -> str:
    """The work that the pods of one index have in common."""
    return f"{order.workload}/{order.index}"


def _number(counted: SimulatedNode | PodTimeline) -> int:
    return counted.number
