"""The pods of this machine: starts them through shims, stops them, looks at them; forgets nothing when it is killed.

All there is to know lies in the folders of the lives, so any number of supervisors may follow one another. In memory
is only what saves looking again: a descriptor for each shim that says when it ends, and what was seen last. Methods
may be called from several threads.

Shims do the work, and are not relied on. When a grace is over and something of the life is alive, whatever became of
its shim, it is ended from here; a life whose folder was removed does not count as gone before its processes are; and
what runs under one of our marks and is of no life is ended, at the start and every half minute (see `reaper.py`).
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from fairpool.agent import exec_client, notice, pod_directory, process_table
from fairpool.agent.cgroup import find_limiter, remove_if_empty
from fairpool.agent.devices import LogicalNode
from fairpool.agent.disk_reserve import Writer
from fairpool.agent.environment import Places
from fairpool.agent.hints import Hints
from fairpool.agent.images import FILE as IMAGES_FILE
from fairpool.agent.images import ImageTable
from fairpool.agent.isolation import User, find_isolation
from fairpool.agent.launch import DEFAULT_ROTATION, Conditions, LogRotation, launch_of
from fairpool.agent.launcher import Launcher
from fairpool.agent.order_file import KeptOrder, read_order, write_order
from fairpool.agent.patience import Patience
from fairpool.agent.pod_log import LogChunk, read_log
from fairpool.agent.project_users import ProjectUsers, hand_over
from fairpool.agent.reaper import Reaper, kill
from fairpool.agent.shim import UNKNOWN_END
from fairpool.agent.state_directory import DataFolder, Sweeper, make_places
from fairpool.agent.support import install_support
from fairpool.agent.tombstones import Tombstones
from fairpool.agent.uploads import Uploads
from fairpool.agent.watch import Watch, WatchedPod, is_readable
from fairpool.model.ids import Instant, NodeName, PodId, WorkloadId
from fairpool.model.observation import (
    ForgetOrder,
    ObservedPod,
    OrderResult,
    OrderStatus,
    PodState,
    StartOrder,
    StopOrder,
)
from fairpool.model.problem import Problem

ASK_AGAIN_S = 2.0
"""A shim that has not claimed its life by then is asked for again; the fork server may have been killed."""
QUICK_HEIRS = 8
"""Shims one life gets as soon as the one before is gone; if they die as fast as they come, later ones take longer."""
HEIR_PAUSE_MAX_S = 60.0
AT_ONCE_S = 5.0
"""How long a stop without grace is waited for."""
PRUNE_EVERY = 500
"""Lives forgotten between two looks at how much old output is kept."""
PRUNE_EVERY_BYTES = 256 << 20
"""Or what they had written."""
LOOK_AGAIN_S = 0.5
"""Whoever is starting and gives no hint is looked at so often at most; in a burst there are hundreds of them."""
LAST_WORDS_S = 1.0
"""For a shim whose pod was ended from here to write down the end itself: it may know the exit code."""
LEFT_GRACE_S = 30
"""At most, for pods on a node that is not offered any more."""
FULL_LOOK_S = 30.0
"""Everything is looked at again this often, whatever was noticed: a safety net, not the way things are found out."""


class Supervisor:
    """Starts, stops and sees the pods in one data folder."""

    def __init__(
        self,
        root: Path,
        nodes: Sequence[LogicalNode] | None,
        *,
        rotation: LogRotation = DEFAULT_ROTATION,
        boot_id: str | None = None,
        protected: Sequence[Path] = (),
    ) -> None:
        """`nodes`: what is offered; lives on any other are told to leave. None: nothing starts, and nobody is."""
        self.data = DataFolder(root.resolve())
        self.boot_id = boot_id if boot_id is not None else process_table.boot_id()
        self._nodes = {node.node.name: node for node in nodes or ()}
        self._judges_nodes = nodes is not None
        self._lock = threading.RLock()
        installation = self.data.prepare()
        # A copy of a data folder is another installation, although it has the same name.
        namespace = uuid.uuid5(installation, str(os.stat(self.data.root).st_ino))
        install_support(self.data.support)
        self._images = ImageTable(self.data.root / IMAGES_FILE, self.data.support)
        self._images.install()
        self._images.refresh()
        self._limiter = find_limiter(f"fairpool-{installation}")
        self._launcher = Launcher(self.data.root / "fork server.log", self.data.rehearsal)
        self._launcher.open()
        self.uploads = Uploads(self.data.uploads)
        self._users = ProjectUsers(self.data.root)
        self._reaper = Reaper(namespace, self.data.pods, self._limiter, lambda: self._launcher.pid)
        self._conditions = Conditions(
            forbidden=self._launcher.forbidden,
            limiter=self._limiter,
            claims=self.data.claims,
            uploads=self.uploads,
            isolation=find_isolation(
                self.data.root, protected, counts_processes="counting" not in self._launcher.forbidden
            ),
            claim_owner=self._users.user_of,
            rotation=rotation,
        )
        self._tombstones = Tombstones(self.data.root / "ended", self.boot_id)
        self._watch = Watch()
        self._hints = Hints(self.data.root)
        self._lives: dict[PodId, WatchedPod] = {}
        self._folders: dict[str, PodId] = {}
        """Which of them is in which folder, by its name."""
        self._peers: Counter[WorkloadId] = Counter()
        """How many lives of each workload are here."""
        self._slots: dict[tuple[WorkloadId, int], set[PodId]] = {}
        """The lives of each pod that are here: the next one waits until those before it are over."""
        self._lost: set[PodId] = set()
        """Lives whose folder was removed, or cleared, while they ran."""
        self._left: dict[NodeName, set[PodId]] = {}
        """Nodes that are not offered any more, with the lives found there."""
        self._unsettled: set[PodId] = set()
        self._pods: Mapping[PodId, ObservedPod] = {}
        self._changed = True
        self._unwritten: list[tuple[KeptOrder, Places]] = []
        self._patience: Patience[dict[str, Any] | Problem] = Patience()
        self._images_again_at = float("inf")
        self._forgotten = self._bytes_forgotten = 0
        self._listed_ns, self._looked_at, self._is_new = -1, float("-inf"), True
        self.data.prune_logs()
        self._sweeper = Sweeper(self.data)
        self._sweeper.sweep()

    # --- orders ---

    def start(self, orders: Sequence[StartOrder]) -> list[OrderResult]:
        """Start these lives, or make sure that they were started; each is written down before its shim is made."""
        with self._lock:
            self._find_folders()
            self._end_lost()
            answers = [self._accept_or_wait(order) for order in orders]
            unwritten = self._write_orders()
            self._ask_for_shims()
            return [unwritten.get(answer.pod, answer) for answer in answers]

    def stop(self, orders: Sequence[StopOrder]) -> list[OrderResult]:
        """Give notice. A life without grace is gone when this returns."""
        with self._lock:
            self._find_folders()
            troubles = {order.pod: words for order in orders if (words := self._give_notice(order))}
            self._ask_for_shims()
            at_once = [order.pod for order in orders if order.grace_s <= 0 and order.pod in self._lives]
            self._wait_for_end(at_once, AT_ONCE_S)
            self._end_by_force([self._lives[pod] for pod in at_once])
            left = {pod for pod in at_once if pod in self._lives and not self._lives[pod].is_over}
            self._watch.wake_at(self._reaper.next_at())
            return [
                self._stopped(order.pod, troubles.get(order.pod, ""), is_left=order.pod in left) for order in orders
            ]

    def _stopped(self, pod: PodId, trouble: str, *, is_left: bool) -> OrderResult:
        life = self._lives.get(pod)
        if trouble and (life is None or not life.is_over):
            return OrderResult(pod, OrderStatus.LATER, trouble)
        # It is as good as stopped: it can never start, or its shim is giving it its grace.
        return (
            OrderResult(pod, OrderStatus.LATER, "it is being killed") if is_left else OrderResult(pod, OrderStatus.DONE)
        )

    def forget(self, orders: Sequence[ForgetOrder]) -> list[OrderResult]:
        """Remove the traces of lives that are over, except their output, and that they were."""
        with self._lock:
            self._find_folders()
            known = {order.pod: self._lives.get(order.pod) for order in orders}
            over = self._really_over(known)
            try:
                self._tombstones.add("it has ended before", *over)
            except OSError as error:
                words = f"its end cannot be recorded: {error.strerror}"
                return [OrderResult(order.pod, OrderStatus.LATER, words) for order in orders]
            forgotten = {pod for pod in over if self._forget(pod, known[pod])}
            self._prune_if_due(len(forgotten))
            self._sweeper.sweep()
            return [
                OrderResult(order.pod, OrderStatus.DONE)
                if order.pod in forgotten
                else OrderResult(order.pod, OrderStatus.LATER, "it has not ended yet")
                for order in orders
            ]

    def _really_over(self, known: Mapping[PodId, WatchedPod | None]) -> list[PodId]:
        """Those of which nothing is left. What is left of one that says it is over is ended now."""
        said = [life for life in known.values() if life is not None and self._says_it_is_over(life)]
        gone = self._reaper.are_gone(said)
        if gone is None:
            return [pod for pod, life in known.items() if life is None]
        left = [life for life in said if life.kept.order.pod not in gone]
        gone |= {life.kept.order.pod for life in (self._reaper.end(left) if left else ())}
        return [pod for pod, life in known.items() if life is None or pod in gone]

    def _says_it_is_over(self, life: WatchedPod) -> bool:
        """One that was stopped before its shim came counts as ended, and the shim may come all the same."""
        if not self._look_again(life).is_over:
            return False
        return self._shim(life) is None or pod_directory.end_of(life.folder) is not None

    def _forget(self, pod: PodId, life: WatchedPod | None) -> bool:
        kept_bytes = self.data.forget(pod)
        if kept_bytes is None:
            return False
        self._bytes_forgotten += kept_bytes
        if life is not None:
            if life.shim is not None and process_table.is_stopped(life.shim[0]):
                kill(life.shim)  # it has said everything, and would not leave by itself
            self._let_go(pod)
            if not self._peers[life.kept.order.workload]:
                self.data.clear_up(life.kept.order)
        return True

    def _prune_if_due(self, forgotten: int) -> None:
        """To look through all that is kept costs as much as to forget some dozen lives."""
        self._forgotten += forgotten
        if self._forgotten >= PRUNE_EVERY or self._bytes_forgotten >= PRUNE_EVERY_BYTES:
            self.data.prune_logs()
            self._forgotten = self._bytes_forgotten = 0

    # --- looking ---

    def look(self) -> Mapping[PodId, ObservedPod]:
        """Every life there is, as it is now; the same object as last time if nothing has changed."""
        with self._lock:
            self._find_folders()
            due = self._hear_hints()
            if time.monotonic() - self._looked_at > FULL_LOOK_S:
                self._looked_at = time.monotonic()
                due.update(pod for pod, life in self._lives.items() if not life.is_over)
                self._look_at_everything()
            due.update(self._watch.ended())
            if self._images.refresh() or time.monotonic() >= self._images_again_at:
                self._try_images_again()
            long_ago = time.monotonic() - LOOK_AGAIN_S
            due.update(pod for pod in self._unsettled if not self._lives[pod].is_awaited_since(long_ago))
            for pod in sorted(due):
                self._look_again(self._lives[pod])
            self._end_overdue()
            self._ask_for_shims()
            self._watch.wake_at(self._reaper.next_at())
            if self._changed:
                self._pods = {pod: self._lives[pod].observed for pod in sorted(self._lives)}
                self._changed = False
            return self._pods

    def wait(self, timeout_s: float) -> bool:
        """Sleep until something may have changed. Only a hint, in both directions."""
        return is_readable(self.wake_descriptors(), timeout_s)

    def wake_descriptors(self) -> tuple[int, int]:
        """Readable when something may have changed, for loops of their own."""
        return self._hints.fileno(), self._watch.fileno()

    @property
    def trouble(self) -> str:
        """What keeps pods from starting or ending just now, in words; empty: nothing does."""
        # An answer of the fork server may lie there since the last turn. The lock's holder hears it without us; people
        # who ask for the status do not wait for a turn that takes its time.
        if self._lock.acquire(blocking=False):
            try:
                self._launcher.hear()
            finally:
                self._lock.release()
        strays = self.strays
        left = f"{strays[0]} of an unknown pod was killed but has not ended" if strays else ""
        return "; ".join(words for words in (self._launcher.trouble, left) if words)

    @property
    def left_nodes(self) -> dict[NodeName, int]:
        """Nodes that are not offered any more and whose pods have not left yet, each with its highest device."""
        with self._lock:
            found: dict[NodeName, int] = {}
            for node, pods in self._left.items():
                for life in (self._lives[pod] for pod in pods if pod in self._lives):
                    if not life.is_over:
                        found[node] = max(found.get(node, -1), *life.kept.order.devices, -1)
            return found

    @property
    def strays(self) -> tuple[str, ...]:
        """Processes of pods that are not in the books and that do not end although they were killed."""
        return tuple(f"process {pid}" for found in list(self._reaper.strays.values()) for pid in sorted(found))

    @property
    def fork_server_pid(self) -> int | None:
        """The warm parent of shims, if there is one just now."""
        return self._launcher.pid

    @property
    def forbidden(self) -> Mapping[str, str]:
        """What pods cannot have on this machine, and why: isolation, counting of their processes, mounts, host_name,
        limits. Without `isolation` pods run as the server's user and see what it sees."""
        missing = {"limits": self._limiter.missing} if self._limiter.missing else {}
        return {**self._launcher.forbidden, **missing}

    @property
    def images(self) -> tuple[str, ...]:
        """Patterns of the images that pods can have on this machine."""
        return self._images.patterns

    def ours(self, pids: Collection[int]) -> set[int]:
        """Those of these processes that belong to our pods: by their mark, or as descendants of a shim or a program.

        Neither is enough alone. Programs may clear their environment or write their title over it, and what became a
        daemon in a pod whose shim was killed descends from nobody we know.
        """
        if not pids:
            return set()
        with self._lock:
            lives = [life for life in self._lives.values() if not life.is_over]
            marks = {life.kept.launch["mark"] for life in lives if life.kept.launch is not None}
            found = {pid for pid in pids if process_table.mark_of(pid) in marks}
            if len(found) == len(set(pids)):
                return found
            above = {shim.pid for life in lives if (shim := self._shim(life)) is not None}
            above |= {main[0] for life in lives if (main := pod_directory.main_of(life.folder)) is not None}
            return found | {pid for pid in pids if not above.isdisjoint((pid, *process_table.ancestors(pid)))}

    def holds(self, node: NodeName, device: int) -> bool:
        """Whether a pod that is not over was given this device."""
        with self._lock:
            orders = (life.kept.order for life in self._lives.values() if not life.is_over)
            return any(order.node == node and device in order.devices for order in orders)

    def writers(self) -> list[Writer]:
        """The pods that are not over, and where on this machine each can write."""
        with self._lock:
            return [self._writer(life) for life in self._lives.values() if not life.is_over]

    def _writer(self, life: WatchedPod) -> Writer:
        order, launch = life.kept.order, life.kept.launch or {}
        root = f"{self.data.root}/"
        places = {
            folder: "its log" if name == "folder" else f"its {name}"
            for name, folder in asdict(self.data.places(order)).items()
            if isinstance(folder, str) and folder.startswith(root) and name != "support"
        }
        for mount in launch.get("mounts", ()):
            if mount.get("source") and mount.get("mode") == "rw":
                places.setdefault(mount["source"], f"the volume at {mount['target']}")
        return Writer(
            pod=order.pod,
            name=order.name,
            project=order.project,
            mark=str(launch.get("mark", "")),
            main=pod_directory.main_of(life.folder),
            places=places,
        )

    def evict(self, pod: PodId, reason: str) -> None:
        """End a pod at once for what it did. Nobody ordered it: the loop learns the reason from how it ended."""
        self.stop([StopOrder(pod=pod, node=None, grace_s=0, reason=reason)])

    def _shim(self, life: WatchedPod) -> pod_directory.ShimProcess | None:
        try:
            shim = pod_directory.glance(life.folder).shim
        except OSError:  # forgotten meanwhile
            return None
        return shim if shim is not None and shim.is_alive else None

    # --- visiting ---

    def read_log(self, pod: PodId, **wanted: Any) -> LogChunk | Problem:
        """A piece of a pod's output; see `pod_log.read_log` for what can be wanted."""
        folder = self.data.log_folder(pod)
        if folder is None:
            return Problem("pod.unknown", f"{pod} has no log on this machine", "try another pod of the workload")
        is_over = folder.parent == self.data.logs or pod_directory.end_of(str(folder)) is not None
        return read_log(folder, is_over=is_over, **wanted)

    def execute(self, pod: PodId, argv: Sequence[str], **wanted: Any) -> exec_client.Execution | Problem:
        """Run a command beside a pod's program; see `visit.execute` for what can be wanted."""
        size = sum(len(word.encode()) for word in argv)
        if size > exec_client.COMMAND_MAX:
            what = f"the command has {size} bytes, and at most {exec_client.COMMAND_MAX} can be passed to a pod"
            return Problem("pod.command_too_long", what, "put it into a file, or pass it as input: exec -i JOB -- sh")
        try:
            return exec_client.execute(self.data.life(pod), argv, **wanted)
        except OSError as error:
            return _not_running(pod, error)

    def attach(self, pod: PodId) -> exec_client.Attachment | Problem:
        """Look over the shoulder of a pod's program."""
        try:
            return exec_client.attach(self.data.life(pod))
        except OSError as error:
            return _not_running(pod, error)

    def reports(self, pod: PodId) -> Mapping[str, Any]:
        """What the job has reported about itself: `metrics`, `parameters`, `at`; also after its life was forgotten."""
        return self.data.reports(pod)

    def close(self) -> None:
        """Let go of everything; pods and shims run on."""
        with self._lock:
            self._launcher.close()
            for life in self._lives.values():
                self._watch.let_go(life)
            self._watch.close()
            self._hints.close()
            self._tombstones.close()
            self._sweeper.close()
            remove_if_empty(self._limiter)

    # --- accepting an order ---

    def _accept_or_wait(self, order: StartOrder) -> OrderResult:
        try:
            return self._accept(order)
        except OSError as error:  # of this one: the others, and those who are to be stopped, do not wait for it
            return OrderResult(order.pod, OrderStatus.LATER, f"it cannot be prepared: {error}")

    def _accept(self, order: StartOrder) -> OrderResult:
        if order.pod in self._lives:
            return OrderResult(order.pod, OrderStatus.DONE)
        words = self._tombstones.words(order.pod)
        if words is not None:
            return OrderResult(order.pod, OrderStatus.REFUSED, words)
        if self._has_predecessor(order):
            return OrderResult(order.pod, OrderStatus.LATER, "the previous instance of this pod has not ended yet")
        places = self.data.places(order)
        kept = self._plan_launch(order, places)
        if isinstance(kept, Problem):
            # For good: an earlier copy of the order, still on its way, must not start it either.
            self._tombstones.add(str(kept), order.pod)
            return OrderResult(order.pod, OrderStatus.REFUSED, str(kept))
        self._adopt(order.pod, places.folder, kept)
        self._unwritten.append((kept, places))
        return OrderResult(order.pod, OrderStatus.DONE)

    def _write_orders(self) -> dict[PodId, OrderResult]:
        """Write down what was accepted; says who could not be."""
        unwritten, self._unwritten = self._unwritten, []
        answers = {}
        for kept, places in unwritten:
            error = _write_down(kept, places)
            if error is not None:  # nobody was asked for yet, so nothing has been started
                pod = kept.order.pod
                self._let_go(pod)
                answers[pod] = OrderResult(pod, OrderStatus.LATER, f"its files cannot be written: {error.strerror}")
        return answers

    def _plan_launch(self, order: StartOrder, places: Places) -> KeptOrder | Problem:
        node = self._nodes.get(order.node)
        if node is None:
            return Problem("node.unknown", f"there is no node {order.node} here", "")
        if order.boot_id != self.boot_id:
            return Problem("node.rebooted", "the node has rebooted", "")
        if any(device >= len(node.gpus) for device in order.devices):
            return Problem("device.unknown", f"{order.node} has no such device: {order.devices}", "")
        image = self._images.find(order.program.image)
        if isinstance(image, Problem):
            return KeptOrder(order=order, trouble=f"ErrImagePull: {image}")
        user = self._user_of(order)
        plan = partial(
            launch_of,
            order,
            image,
            [node.gpus[device] for device in order.devices],
            mark=self._reaper.mark(order.pod),
            places=places,
            conditions=self._conditions,
            is_simulated=node.is_simulated,
            rendezvous=self.data.rendezvous(order),
            user=user,
        )
        launch = self._planned(order, places, user, plan)
        return launch if isinstance(launch, Problem) else KeptOrder(order=order, launch=launch)

    def _planned(
        self, order: StartOrder, places: Places, user: User | None, plan: Callable[[], dict[str, Any] | Problem]
    ) -> dict[str, Any] | Problem:
        """A plan that looks at people's files may take long, and others must not wait for it: they may be many, or on
        a file server that does not answer."""
        program = order.program
        has_been_here = user is not None and os.path.isdir(places.checkpoints)
        if not (program.volumes or program.python_env or program.working_dir or has_been_here):
            return plan()

        def prepared() -> dict[str, Any] | Problem:
            if user is not None and has_been_here:
                hand_over(places.checkpoints, user)
            return plan()

        return self._patience.ask(order.pod, prepared, "its files are being prepared or do not answer")

    def _user_of(self, order: StartOrder) -> User | None:
        """Who the pod runs as: where we are root its project's user, else whoever we are."""
        if os.geteuid() != 0 or not self._conditions.is_isolating:
            return None
        return self._users.user_of(order.project)

    def _has_predecessor(self, order: StartOrder) -> bool:
        """Whether another life of the same pod may still run: two would write into one folder of checkpoints."""
        others = self._slots.get((order.workload, order.index), set()) - {order.pod}
        return any(not self._look_again(self._lives[pod]).is_over for pod in sorted(others)) or (
            self._reaper.waits_for_stray(order.workload, order.index, order.incarnation)
        )

    def _try_images_again(self) -> None:
        """The table was edited: what could not be found before may be in it now."""
        self._images_again_at = float("inf")
        for pod, life in self._lives.items():
            if life.kept.launch is None and not life.is_over and not notice.is_given(life.folder):
                try:
                    kept = self._plan_launch(life.kept.order, self.data.places(life.kept.order))
                    if isinstance(kept, Problem):
                        kept = KeptOrder(order=life.kept.order, trouble=f"CreateContainerConfigError: {kept}")
                    make_places(kept, self.data.places(kept.order))
                    write_order(life.folder, kept)
                except OSError as error:
                    trouble = f"CreateContainerConfigError: it cannot be prepared: {error.strerror}"
                    kept = KeptOrder(order=life.kept.order, trouble=trouble)
                    self._images_again_at = time.monotonic() + ASK_AGAIN_S
                life.kept, life.looked_at = kept, float("-inf")
                self._unsettled.add(pod)

    # --- stopping ---

    def _give_notice(self, order: StopOrder) -> str:
        """Empty, or why the notice could not be written: then its shim is told all the same, without its grace."""
        life = self._lives.get(order.pod)
        try:
            if life is None:
                self._tombstones.add("it was stopped before it was started", order.pod)
            elif not life.is_over:
                notice.give(life.folder, order.grace_s, order.reason)
            words = ""
        except OSError as error:
            words = f"its stop request cannot be saved ({error.strerror}); its original grace period applies"
        if life is None or life.is_over:
            return words
        self._reaper.told(order.pod, max(order.grace_s, life.kept.order.grace_s) if words else order.grace_s)
        if not self._look_again(life).is_over:
            self._signal_shim(life)
        return words

    def _signal_shim(self, life: WatchedPod) -> None:
        """Its notice is there to be read. A shim that somebody has stopped goes on first."""
        if life.handle < 0:
            return
        try:
            signal.pidfd_send_signal(life.handle, signal.SIGTERM)
            signal.pidfd_send_signal(life.handle, signal.SIGCONT)
        except ProcessLookupError:
            self._unsettled.add(life.kept.order.pod)

    def _wait_for_end(self, pods: Sequence[PodId], patience_s: float) -> None:
        """Until these lives are over, or too long."""
        until = time.monotonic() + patience_s
        waiting = [self._lives[pod] for pod in pods if pod in self._lives]
        while waiting and time.monotonic() < until:
            is_readable([life.handle for life in waiting if life.handle >= 0], 0.02)
            waiting = [life for life in waiting if not self._look_again(life).is_over]
            self._ask_for_shims()

    # --- ending from outside ---

    def _end_overdue(self) -> None:
        """Lives whose grace is over and lives that were lost: whatever is left of them is ended now."""
        self._end_lost()
        overdue = [self._lives[pod] for pod in self._reaper.overdue()]
        for life in overdue:
            self._reaper.put_off(life.kept.order.pod)  # unless nothing is left of it below
        self._end_by_force([life for life in overdue if not self._look_again(life).is_over])

    def _end_by_force(self, lives: Sequence[WatchedPod]) -> None:
        """Kill what is left of these lives, whatever their shims do, and see that their ends are written down."""
        waiting = [life for life in lives if not life.is_over and life.generation >= 0 and life.kept.launch is not None]
        if not waiting:
            return
        ended = self._reaper.end(waiting)
        for life in ended:
            self._signal_shim(life)
        self._wait_for_end([life.kept.order.pod for life in ended if life.handle >= 0], LAST_WORDS_S)
        for life in ended:
            if not self._look_again(life).is_over:
                self._write_end(life)
            elif life.shim is not None:
                kill(life.shim)  # it has written the end; somebody may have stopped it since

    def _write_end(self, life: WatchedPod) -> None:
        """In place of its shim, which was killed, is stopped or hangs. A full disk is waited for, as a shim would:
        one that knows the exit code is not killed as long as nobody could write anything."""
        words = "its supervising process does not respond, so the server killed it"
        if life.shim is None or not process_table.is_alive(*life.shim):
            words = "its supervising processes were killed, so its exit code is not known"
        try:
            end = pod_directory.End(UNKNOWN_END, words, True)
            pod_directory.write_end(life.folder, end, Instant(time.time_ns() // 1_000_000))
        except OSError:
            self._reaper.put_off(life.kept.order.pod)
            return
        if life.shim is not None:
            kill(life.shim)
        self._look_again(life)

    def _lose(self, life: WatchedPod) -> None:
        """Its folder was removed or cleared. It is not gone before its processes are."""
        self._lost.add(life.kept.order.pod)
        life.observed = replace(
            life.observed, message="its directory was deleted; its remaining processes are being killed"
        )
        self._changed = True

    def _end_lost(self) -> None:
        """Lives without a folder end now, and are not here any more when nothing is left of them."""
        if not self._lost:
            return
        for life in self._reaper.end([self._lives[pod] for pod in sorted(self._lost)]):
            pod = life.kept.order.pod
            if life.shim is not None:
                kill(life.shim)
            with suppress(OSError):  # a full disk: nobody is asked to start it again but the loop, which sees it gone
                self._tombstones.add("its directory was deleted while it was running", pod)
            self.data.forget(pod)
            self._watch.let_go(self._let_go(pod))

    def _look_at_everything(self) -> None:
        """What runs and is nobody's is ended; shims that somebody has stopped go on."""
        file = self.data.root / "processes.json"
        remembered = self._reaper.recall(file, self.boot_id) if self._is_new else ()
        self._reaper.end_strays(self._lives.values(), remembered=remembered)
        self._is_new = False
        with suppress(OSError):  # a full disk: what was remembered before is still there
            self._reaper.remember(file, self.boot_id, self._lives.values())
        for life in self._lives.values():
            if not life.is_over and life.shim is not None and process_table.is_stopped(life.shim[0]):
                alive = partial(process_table.is_alive, started=life.shim[1])
                process_table.send(life.shim[0], signal.SIGCONT, only_if=alive)

    # --- looking at one life ---

    def _look_again(self, life: WatchedPod) -> WatchedPod:
        pod = life.kept.order.pod
        if pod in self._lost:
            return life
        life.looked_at = time.monotonic()
        if not life.is_over:
            try:
                observed = self._watch.observed(life)
            except OSError as error:  # of one life: the others are looked at all the same
                observed = replace(life.observed, message=f"its directory cannot be read: {error}")
            if observed.state is PodState.EXITED and life.generation > 0 and not self._reaper.end([life]):
                observed = life.observed  # its shim was killed, and the next one has not found everything
            if observed != life.observed:
                life.observed = observed
                self._changed = True
            if life.is_emptied:
                self._lose(life)
        if life.is_settled:
            self._unsettled.discard(pod)
        else:
            self._unsettled.add(pod)
        if life.is_over:
            self._watch.let_go(life)
            self._reaper.leaving.pop(pod, None)
        return life

    def _ask_for_shims(self) -> None:
        """Lives without a living shim get one, or the next one."""
        now = time.monotonic()
        wanted = [
            life
            for life in (self._lives[pod] for pod in sorted(self._unsettled))
            if not life.is_kept and life.kept.launch is not None and now - life.asked_at > _pause_s(life)
        ]
        wanted = [life for life in wanted if life.kept.order.pod not in self._lost]
        if not wanted:
            return
        asked = self._launcher.launch([(life.generation + 1, life.folder) for life in wanted])
        for life in wanted[:asked]:
            life.asked_at = life.looked_at = now

    # --- finding lives ---

    def _find_folders(self) -> None:
        """Lives that another supervisor started or forgot; costs one call when there are none."""
        changed_ns = os.stat(self.data.pods).st_mtime_ns
        if changed_ns == self._listed_ns:
            return
        # Within the grain of the file system's clock something may still come under the same time.
        self._listed_ns = changed_ns if time.time_ns() - changed_ns > 50_000_000 else -1
        names = set(os.listdir(self.data.pods))
        for name in sorted(self._folders.keys() - names):
            life = self._lives[self._folders[name]]
            if life.is_over or self._tombstones.words(life.kept.order.pod) is not None:  # another has forgotten it
                self._watch.let_go(self._let_go(life.kept.order.pod))
            else:
                self._lose(life)
        for name in sorted(names - self._folders.keys()):
            with suppress(OSError):  # of this one: it went away meanwhile, or is no folder
                self._find(pod_directory.pod_of(name), f"{self.data.pods}/{name}")

    def _find(self, pod: PodId, folder: str) -> None:
        kept = read_order(folder)
        if self._tombstones.words(pod) is not None:
            self._forget_for_good(pod, folder)  # someone died while forgetting it
        elif kept is None and pod_directory.is_of_an_earlier_boot(folder):
            self.data.forget(pod)  # its order had not reached the disk when the power failed
        elif kept is None:
            # Someone is writing its order, or died before; whoever orders it again completes it. One that was damaged
            # says no more whose it is, so what runs by it is ended.
            self._end_unknown(pod, folder)
        elif pod_directory.end_of(folder) is None and pod_directory.is_copied(folder):
            self.data.forget(pod)  # its processes belong to the folder that this one was copied from
        elif kept.order.boot_id != self.boot_id and pod_directory.end_of(folder) is None:
            self.data.forget(pod)  # lost with an earlier boot of the machine
        else:
            life = self._look_again(self._adopt(pod, folder, kept))
            if not life.is_over and notice.is_given(folder):
                self._remember_notice(life)
            elif not life.is_over and self._judges_nodes:
                self._give_notice_if_left(kept.order)

    def _end_unknown(self, pod: PodId, folder: str) -> None:
        has_run = pod_directory.glance(folder).shim is not None
        if has_run and not pod_directory.is_copied(folder) and self._reaper.end_without_order(pod, folder):
            self._tombstones.add("its order file was damaged while it was running", pod)
            self.data.forget(pod)

    def _forget_for_good(self, pod: PodId, folder: str) -> None:
        if pod_directory.is_copied(folder) or self._reaper.end_without_order(pod, folder):
            self.data.forget(pod)

    def _remember_notice(self, life: WatchedPod) -> None:
        """It was told to leave before we came: what is left of its grace goes on, and is never longer than ordered."""
        told, most_s = notice.read(life.folder), float(life.kept.order.grace_s)
        self._reaper.told(life.kept.order.pod, min(told.left_s, most_s) if told is not None else most_s)

    def _give_notice_if_left(self, order: StartOrder) -> None:
        """Its node, or a device it was given, is not offered any more: it has to leave before anything else counts."""
        node = self._nodes.get(order.node)
        if node is None:
            self._left.setdefault(order.node, set()).add(order.pod)
            reason = f"node {order.node} was removed"
        elif any(device >= len(node.gpus) for device in order.devices):
            reason = f"node {order.node} no longer has GPU {max(order.devices)}"
        else:
            return
        grace_s = min(order.grace_s, LEFT_GRACE_S)
        self._give_notice(StopOrder(pod=order.pod, node=order.node, grace_s=grace_s, reason=reason))

    def _adopt(self, pod: PodId, folder: str, kept: KeptOrder) -> WatchedPod:
        observed = ObservedPod(order=kept.order, state=PodState.STARTING, message=kept.trouble)
        life = WatchedPod(folder=folder, kept=kept, observed=observed)
        self._lives[pod] = life
        self._folders[os.path.basename(folder)] = pod
        self._peers[kept.order.workload] += 1
        self._slots.setdefault((kept.order.workload, kept.order.index), set()).add(pod)
        self._unsettled.add(pod)
        self._changed = True
        return life

    def _let_go(self, pod: PodId) -> WatchedPod:
        life = self._lives.pop(pod)
        del self._folders[os.path.basename(life.folder)]
        workload = life.kept.order.workload
        self._peers[workload] -= 1
        if not self._peers[workload]:
            del self._peers[workload]
        slot = self._slots[workload, life.kept.order.index]
        slot.discard(pod)
        if not slot:
            del self._slots[workload, life.kept.order.index]
        self._unsettled.discard(pod)
        self._lost.discard(pod)
        self._reaper.leaving.pop(pod, None)
        for left in list(self._left):
            self._left[left].discard(pod)
            if not self._left[left]:
                del self._left[left]
        self._changed = True
        return life

    # --- hints ---

    def _hear_hints(self) -> set[PodId]:
        """Lives to look at now. A hint that means nothing to us may have been two that ran into each other."""
        pods, are_all = self._hints.take()
        hinted = {PodId(pod) for pod in pods}
        if are_all and hinted <= self._lives.keys():
            return hinted
        return (hinted & self._lives.keys()) | self._unsettled


def _write_down(kept: KeptOrder, places: Places) -> OSError | None:
    try:
        with suppress(FileExistsError):  # someone died before writing the order
            os.mkdir(places.folder, 0o700)
        make_places(kept, places)
        write_order(places.folder, kept)
    except OSError as error:
        return error
    return None


def _pause_s(life: WatchedPod) -> float:
    """How long an heir that was asked for is waited for. Whoever is to be ended does not wait for long."""
    if life.generation < QUICK_HEIRS or notice.is_given(life.folder):
        return ASK_AGAIN_S
    return min(ASK_AGAIN_S * 2.0 ** (life.generation + 1 - QUICK_HEIRS), HEIR_PAUSE_MAX_S)


def _not_running(pod: PodId, error: OSError) -> Problem:
    return Problem(
        "pod.not_running", f"cannot open a session in pod {pod} ({error.strerror})", "wait until it is running"
    )
