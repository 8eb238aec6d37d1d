"""The engine of simulations: it does what it is told, in its own time, and says what it can see.

Worlds, scenarios and `fairpool simulate` hold one and make things happen to its nodes and pods. Every life has its
course from the moment it is accepted (`course.py`), so looking seldom shows the same as looking often. Trouble on the
way here is not made here but in `faults.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from fairpool.engines.port import Fenced
from fairpool.engines.simulated.behaviour import RUNS_UNTIL_STOPPED, BehaviourOf
from fairpool.engines.simulated.clock import Clock
from fairpool.engines.simulated.course import (
    KILLED,
    Course,
    begin,
    cut,
    deafened,
    fenced,
    found,
    held_up,
    next_change,
    observed,
    stopped,
    unseen,
    work_left_behind_ms,
)
from fairpool.engines.simulated.host import Host
from fairpool.engines.simulated.state_file import Draft, Journal
from fairpool.engines.simulated.view import View
from fairpool.engines.simulated.witness import Witness
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
ENDED_BEFORE = "this pod instance has ended"
STOPPED_BEFORE = "this pod instance was stopped before it started"


class SimulatedEngine:
    """Nodes and pods in memory, and in a journal if there is one.

    Opened on the journal of an earlier process it goes on where that one was, as much later as the clock says; of
    `nodes`, only those that the journal has never heard of are then added.
    """

    def __init__(
        self,
        clock: Clock,
        nodes: Iterable[Node] = (),
        behaviour_of: BehaviourOf = RUNS_UNTIL_STOPPED,
        journal: Journal | None = None,
    ) -> None:
        self._clock = clock
        self._behaviour_of = behaviour_of
        self._draft = Draft(journal)
        self._violations_noted = 0
        self._now = Instant(0)
        self._token = Token(0)
        self._hosts: dict[NodeName, Host] = {}
        self._boots: dict[NodeName, int] = {}
        self._courses: dict[PodId, Course] = {}
        self._on_node: dict[NodeName, dict[PodId, None]] = {}
        self._alive: dict[PodId, None] = {}
        self._tombstones: dict[PodId, str] = {}
        self._done_ms: dict[str, int] = {}
        self._numbers = 0
        self._witness = Witness()
        self._due: dict[tuple[str, str], Instant] = {}
        self._calendar: list[tuple[Instant, str, str]] = []
        """When something will look different; an entry counts only while `_due` agrees."""
        self._view = View()
        if journal is not None:
            self._restore(journal)
        self._pass_time()
        for node in nodes:
            if node.name not in self._boots:
                self._add(node)
        self._save()

    # --- the port ---

    def observe(self, token: Token) -> Observation:
        """Everything there is; the same object as last time if it is the same."""
        self._pass_time()
        self._obey(token)
        return self._view.observation(self._now, self._token)

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        """Do these, or make sure that they were done. All answers are durable before any is given."""
        self._pass_time()
        self._obey(token)
        answers = [self._answer(order, token) for order in orders]
        self._save()
        return answers

    # --- what happens to nodes ---

    def add_node(self, node: Node) -> None:
        """A node joins, or one of that name comes back as another machine."""
        self._pass_time()
        self._add(node)
        self._save()

    def replace_node(self, node: Node) -> None:
        """The node has other labels, taints or devices, or is cordoned; its pods do not notice."""
        self._pass_time()
        self._set_host(replace(self._hosts[node.name], node=node))
        self._save()

    def remove_node(self, name: NodeName) -> None:
        """The node is gone, with all that ran on it."""
        self._pass_time()
        self._lose_pods(name)
        del self._hosts[name], self._on_node[name]
        self._view.hide_node(name)
        self._due.pop(("node", name), None)
        self._draft.note("host", name, None)
        self._save()

    def withdraw_node(self, name: NodeName) -> None:
        """The node is not offered any more, as after a start with another set of nodes. Its pods run on."""
        self._pass_time()
        self._set_host(replace(self._hosts[name], offered=False))
        self._save()

    def offer_node(self, name: NodeName) -> None:
        """The node is offered again, in the same boot."""
        self._pass_time()
        self._set_host(replace(self._hosts[name], offered=True))
        self._save()

    def reboot(self, name: NodeName, down_s: float = 60) -> None:
        """The node restarts: all its pods vanish, and it does not answer for so long."""
        self._pass_time()
        self._lose_pods(name)
        until = Instant(self._now + round(down_s * SECOND_MS))
        host = self._hosts[name].rebooted().silenced(self._now, until)
        self._boots[name] = host.boot
        self._draft.note("boots", name, host.boot)
        self._set_host(host)
        self._settle_node(name)
        self._save()

    def silence(self, name: NodeName, until: Instant | None = None) -> None:
        """The node's agent is out of reach until then. Its pods run on, until the agent fences itself."""
        self._pass_time()
        self._set_host(self._hosts[name].silenced(self._now, until))
        self._settle_node(name)
        self._save()

    def end_silence(self, name: NodeName) -> None:
        """The node answers again, if it did not."""
        if self.host(name).is_silent:
            self.silence(name, self._now)

    # --- what happens to pods ---

    def crash(self, pod: PodId, exit_code: int = 1, words: str = "crashed") -> None:
        """The pod ends by itself, now."""
        self._pass_time()
        self._set_course(cut(self._courses[pod], self._now, exit_code, words))
        self._save()

    def lose(self, pod: PodId) -> None:
        """The pod is gone without a trace; its life is over all the same."""
        self._pass_time()
        self._vanish(pod, ENDED_BEFORE)
        self._save()

    def lose_record(self, pod: PodId, until: Instant) -> None:
        """What was written about a pod is lost while it lives on. Its process is found then, or when it is ordered
        to do something; if it ends before, nobody knows how."""
        self._pass_time()
        self._set_course(unseen(self._courses[pod], self._now, until))
        self._save()

    def find_all(self) -> None:
        """Every process is looked for by its mark, as when an engine starts."""
        self._pass_time()
        for pod in list(self._alive):
            self._find(pod)
        self._save()

    def stop_shim(self, pod: PodId, until: Instant) -> None:
        """The shim of a pod is stopped until then: it neither tells of an end nor passes a notice on."""
        self._pass_time()
        self._set_course(deafened(self._courses[pod], self._now, until))
        self._save()

    def hold_up(self, pod: PodId, trouble: str, until: Instant | None = None) -> None:
        """The image of a pod that does not run yet cannot be pulled until then."""
        self._pass_time()
        self._set_course(held_up(self._courses[pod], self._now, trouble, until))
        self._save()

    # --- what only those behind the scenes see ---

    @property
    def next_change_at(self) -> Instant | None:
        """When something will look different by itself; None: never."""
        while self._calendar and self._due.get(self._calendar[0][1:]) != self._calendar[0][0]:
            heappop(self._calendar)
        return self._calendar[0][0] if self._calendar else None

    @property
    def violations(self) -> list[str]:
        """What should never have happened, in words. See `witness.py`."""
        return self._witness.violations

    @property
    def nodes(self) -> list[NodeName]:
        """The nodes there are, silent or not; not those that are offered no more."""
        return [name for name, host in self._hosts.items() if host.offered]

    def host(self, name: NodeName) -> Host:
        """A node as it really is."""
        self._pass_time()
        return self._hosts[name]

    def alive(self) -> list[PodId]:
        """Pods that are starting or running at this moment, on silent nodes too."""
        self._pass_time()
        return list(self._alive)

    def course(self, pod: PodId) -> Course | None:
        """What will become of this life, if it is not forgotten or lost."""
        self._pass_time()
        return self._courses.get(pod)

    # --- one order ---

    def _obey(self, token: Token) -> None:
        if token < self._token:
            raise Fenced(highest=self._token, mine=token)
        if token > self._token:
            self._token = token
            self._draft.note("meta", "token", token)
        if self._draft.has("meta", "token"):
            self._save()

    def _answer(self, order: Order, token: Token) -> OrderResult:
        course = self._courses.get(order.pod)
        at_home = self._hosts.get(course.order.node) if course is not None else None
        addressed = self._hosts.get(order.node) if order.node is not None else None
        if any(host is not None and host.is_silent for host in (at_home, addressed)):
            return OrderResult(order.pod, OrderStatus.UNKNOWN, NO_ANSWER)
        self._witness.acted(token)
        self._find(order.pod)
        course = self._courses.get(order.pod)
        match order:
            case StartOrder():
                return self._start(order, course, addressed)
            case StopOrder():
                return self._stop(order, course)
            case ForgetOrder():
                return self._forget(order, course)

    def _start(self, order: StartOrder, course: Course | None, host: Host | None) -> OrderResult:
        if course is not None:
            if course.order.node != order.node:
                self._witness.ordered_elsewhere(course.order, order)
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
        self._witness.started(order, host.node)
        self._on_node[order.node][order.pod] = None
        self._set_course(begin(self._numbers, order, self._behaviour_of(order), done_ms, self._now))
        return OrderResult(order.pod, OrderStatus.DONE)

    def _refuse(self, order: StartOrder, words: str) -> OrderResult:
        """Refused is refused for good: an earlier copy of the order, still on its way, must not start it either."""
        self._bury(order.pod, words)
        return OrderResult(order.pod, OrderStatus.REFUSED, words)

    def _stop(self, order: StopOrder, course: Course | None) -> OrderResult:
        if course is not None:
            self._set_course(stopped(course, self._now, order.grace_s, order.reason))
        elif order.pod not in self._tombstones:
            self._bury(order.pod, STOPPED_BEFORE)
        return OrderResult(order.pod, OrderStatus.DONE)

    def _forget(self, order: ForgetOrder, course: Course | None) -> OrderResult:
        if course is not None and not course.is_over(self._now):
            return OrderResult(order.pod, OrderStatus.LATER, "it has not ended yet")
        if course is not None or order.pod not in self._tombstones:
            self._vanish(order.pod, ENDED_BEFORE)
        return OrderResult(order.pod, OrderStatus.DONE)

    # --- lives and nodes change ---

    def _set_course(self, course: Course) -> None:
        pod = course.order.pod
        self._courses[pod] = course
        self._draft.note("course", pod, course)
        self._settle_pod(pod)

    def _find(self, pod: PodId) -> None:
        """Whoever is told to do something to a life looks for its process first, in every way."""
        course = self._courses.get(pod)
        if course is not None and course.unseen_until is not None:
            self._set_course(found(course))

    def _vanish(self, pod: PodId, words: str) -> None:
        """Nothing remains of a life but that it must not start again."""
        course = self._courses.get(pod)
        if course is not None:
            self._set_course(cut(found(course), self._now, KILLED, words))
            del self._courses[pod], self._on_node[course.order.node][pod]
            self._due.pop(("pod", pod), None)
            self._draft.note("course", pod, None)
            self._view.hide_pod(pod)
        self._bury(pod, words)

    def _bury(self, pod: PodId, words: str) -> None:
        self._tombstones[pod] = words
        self._draft.note("tombstone", pod, words)

    def _lose_pods(self, name: NodeName) -> None:
        for pod in list(self._on_node[name]):
            self._vanish(pod, "its node was lost")

    def _add(self, node: Node) -> None:
        assert node.name not in self._hosts, f"node {node.name} exists already"
        self._numbers += 1
        # A machine that comes back under an old name must not be taken for the one that left.
        boot = self._boots.get(node.name, 0) + 1
        self._boots[node.name] = boot
        self._draft.note("boots", node.name, boot)
        self._on_node[node.name] = {}
        self._set_host(Host(number=self._numbers, node=node, boot=boot, heard_boot=boot))

    def _set_host(self, host: Host) -> None:
        name = host.node.name
        self._hosts[name] = host
        self._draft.note("host", name, host)
        if host.offered:
            self._view.show_node(host.observed())
        else:
            self._view.hide_node(name)

    # --- time passes ---

    def _pass_time(self) -> None:
        """Everything that was to happen until now happens, each at its moment."""
        # A clock that was set back stands still for us: what has happened has happened.
        now = max(self._now, self._clock.now())
        while self._calendar and self._calendar[0][0] <= now:
            at, kind, name = heappop(self._calendar)
            if self._due.get((kind, name)) != at:
                continue
            del self._due[kind, name]
            self._now = at
            if kind == "node":
                self._settle_node(NodeName(name))
            else:
                self._settle_pod(PodId(name))
        self._now = now

    def _settle_pod(self, pod: PodId) -> None:
        course = self._courses[pod]
        if course.ended_unseen(self._now):
            self._vanish(pod, ENDED_BEFORE)
            return
        if pod in self._alive and course.is_over(self._now):
            del self._alive[pod]
            self._witness.ended(pod)
            self._keep_work(course)
        self._expect("pod", pod, next_change(course, self._now))
        if self._hosts[course.order.node].is_silent or course.is_unseen(self._now):
            self._view.hide_pod(pod)
        else:
            self._view.show_pod(observed(course, self._now))

    def _keep_work(self, course: Course) -> None:
        name = _work_of(course.order)
        done_ms = work_left_behind_ms(course)
        if done_ms != self._done_ms.get(name, 0):
            self._done_ms[name] = done_ms
            self._draft.note("done", name, done_ms)

    def _settle_node(self, name: NodeName) -> None:
        """A silent node fences itself when it is time, and answers again when it is time."""
        host = self._hosts[name]
        fences_at = host.fences_at
        if fences_at is not None and fences_at <= self._now:
            for pod in list(self._on_node[name]):
                self._set_course(fenced(self._courses[pod], fences_at))
        if host.gone_at is not None and host.gone_at <= self._now:
            self._set_host(replace(host, gone=True))
            host = self._hosts[name]
        if host.silent_until is not None and host.silent_until <= self._now:
            self._set_host(host.answering())
        for pod in list(self._on_node[name]):
            self._settle_pod(pod)
        dates = (fences_at, self._hosts[name].gone_at, self._hosts[name].silent_until)
        self._expect("node", name, min((date for date in dates if date is not None and date > self._now), default=None))

    def _expect(self, kind: str, name: str, at: Instant | None) -> None:
        """Look at this pod or node again at that moment."""
        if at is None:
            self._due.pop((kind, name), None)
        elif self._due.get((kind, name)) != at:
            self._due[kind, name] = at
            heappush(self._calendar, (at, kind, name))

    # --- the journal ---

    def _save(self) -> None:
        """Write down what has changed, together: the file always shows the simulation as it was at one moment."""
        for number in range(self._violations_noted, len(self.violations)):
            self._draft.note("violation", f"{number:09}", self.violations[number])
        self._violations_noted = len(self.violations)
        if not self._draft.is_empty():
            self._draft.note("meta", "now", self._now)
            self._draft.note("meta", "numbers", self._numbers)
            self._draft.write()

    def _restore(self, journal: Journal) -> None:
        read = journal.read
        meta = read("meta", int)
        self._now = Instant(meta.get("now", 0))
        self._numbers = meta.get("numbers", 0)
        self._token = Token(meta.get("token", 0))
        self._boots = {NodeName(name): boot for name, boot in read("boots", int).items()}
        self._tombstones = {PodId(pod): words for pod, words in read("tombstone", str).items()}
        self._done_ms = read("done", int)
        for host in sorted(read("host", Host).values(), key=_number):
            self._on_node[host.node.name] = {}
            self._set_host(host)
        courses = sorted(read("course", Course).values(), key=_number)
        self._witness.remember([course.order.pod for course in courses], self._token)
        self._witness.remember(self._tombstones, self._token)
        for course in courses:
            self._restore_course(course)
        for name in self._hosts:
            self._settle_node(name)
        self._witness.violations[:] = read("violation", str).values()
        self._violations_noted = len(self.violations)
        self._draft.discard()

    def _restore_course(self, course: Course) -> None:
        pod = course.order.pod
        host = self._hosts[course.order.node]
        self._courses[pod] = course
        self._on_node[host.node.name][pod] = None
        if not course.is_over(self._now):
            self._alive[pod] = None
            self._witness.holds(course.order, host.node)


def _work_of(order: StartOrder) -> str:
    """Names the work that the lives of one pod have in common."""
    return f"{order.workload}/{order.index}"


def _number(counted: Host | Course) -> int:
    return counted.number
