"""The pods of this machine: started through shims, stopped, observed and forgotten.

All state is in the pod directories, so any number of supervisors may follow one another, and one that is killed loses
nothing. In memory is only what saves reading again (`pod_registry.py`). Each kind of work has a module of its own:

    pod_start       accepts start orders, plans the launch, writes the order
    pod_observer    refreshes what is known of pods, requests shims
    pod_stop        stop notices; kills what outlives its grace period
    pod_adoption    finds pods of earlier supervisors
    pod_removal     forgets pods that are over

**Locking**: methods may be called from several threads. Every public method that touches pods holds `self._lock`; the
modules above and the registry, reaper, tombstones and launcher they share have no locks and are only used under it.
Without the lock are only logs, exec, attach and reports, which read files and sockets of one pod, and uploads, which
have a lock of their own. A second process on the same directory is kept out by the engine's token file, not here.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fairpool.agent import exec_client, exit_record, pod_directory, process_table
from fairpool.agent.cgroup import find_limiter, remove_if_empty
from fairpool.agent.container_runtime import open_runtimes
from fairpool.agent.devices import LogicalNode
from fairpool.agent.disk_reserve import Writer
from fairpool.agent.garbage_collection import GarbageCollector
from fairpool.agent.hints import Hints
from fairpool.agent.images import FILE as IMAGES_FILE
from fairpool.agent.images import ImageTable
from fairpool.agent.isolation import find_isolation
from fairpool.agent.job_reports import read_reports
from fairpool.agent.launch import DEFAULT_ROTATION, LogRotation, MachineFeatures
from fairpool.agent.launcher import Launcher
from fairpool.agent.leftover_processes import find_leftovers
from fairpool.agent.pod_adoption import PodAdopter
from fairpool.agent.pod_log import LogChunk, read_log
from fairpool.agent.pod_observer import PodObserver, living_shim
from fairpool.agent.pod_port import PodPorts, connect_inside, has_other_network, sockets_beside
from fairpool.agent.pod_registry import ObservedPods, PodRegistry, WatchedPod
from fairpool.agent.pod_removal import PodRemover
from fairpool.agent.pod_secrets import SecretFiles, SecretLookup
from fairpool.agent.pod_start import PodStarter
from fairpool.agent.pod_stop import PodStopper
from fairpool.agent.process_owners import RunningPod, Subjects
from fairpool.agent.project_users import ProjectUsers
from fairpool.agent.reaper import Reaper
from fairpool.agent.shim_watch import ShimWatch, is_readable
from fairpool.agent.state_directory import StateDirectory
from fairpool.agent.support import install_support
from fairpool.agent.tombstones import Tombstones
from fairpool.agent.uploads import Uploads
from fairpool.model.container_rules import Privilege
from fairpool.model.ids import NodeName, PodId
from fairpool.model.observation import ForgetOrder, OrderResult, PodState, StartOrder, StopOrder
from fairpool.model.problem import Problem

CHECK_EVERYTHING_S = 30.0
"""All pods and processes are checked this often, whatever was noticed: a safety net, not the way changes are found."""


class Supervisor:
    """Starts, stops and observes the pods in one state directory."""

    def __init__(
        self,
        root: Path,
        nodes: Sequence[LogicalNode] | None,
        *,
        rotation: LogRotation = DEFAULT_ROTATION,
        boot_id: str | None = None,
        protected: Sequence[Path] = (),
        allowed: Collection[Privilege] = (),
    ) -> None:
        """`nodes`: what is offered; pods on any other are stopped. None: no pod starts, and none is stopped. `allowed`
        is what pods in containers may ask for."""
        self._lock = threading.RLock()
        self.state = StateDirectory(root.resolve())
        self.boot_id = boot_id if boot_id is not None else process_table.boot_id()
        installation = self.state.prepare()
        install_support(self.state.support)
        self._images = ImageTable(self.state.root / IMAGES_FILE, self.state.support)
        self._images.install()
        self._images.refresh()
        self._limiter = find_limiter(f"fairpool-{installation}")
        self._launcher = Launcher(self.state.root / "fork_server.log", self.state.warm_up_directory)
        self._launcher.open()
        self.uploads = Uploads(self.state.uploads)
        self.secrets = SecretLookup()
        users = ProjectUsers(self.state.root)
        features = MachineFeatures(
            unavailable=self._launcher.unavailable,
            limiter=self._limiter,
            claims=self.state.claims,
            uploads=self.uploads,
            isolation=find_isolation(
                self.state.root, protected, counts_processes="counting" not in self._launcher.unavailable
            ),
            claim_owner=users.user_of,
            rotation=rotation,
            secrets=self.secrets,
        )
        # A copy of a state directory is another installation, although it contains the same id.
        namespace = uuid.uuid5(installation, str(os.stat(self.state.root).st_ino))
        self._reaper = Reaper(namespace, self.state.pods, self._limiter, lambda: self._launcher.pid)
        self._tombstones = Tombstones(self.state.root / "ended", self.boot_id)
        self._watch = ShimWatch()
        self._hints = Hints(self.state.root)
        self._ports = PodPorts()
        self._registry = PodRegistry()
        self._secret_files = secret_files = SecretFiles(str(namespace), self.state.pods)
        self._observer = PodObserver(
            self._registry, self._watch, self._hints, self._reaper, self._launcher, secret_files
        )
        self._collector = GarbageCollector(self.state)
        self._collector.prune_checkpoints_if_due()
        self._collector.collect()
        self._runtimes = open_runtimes(
            [node.runtime for node in nodes or ()],
            str(namespace),
            allowed,
            on_change=self._hints.wake,
            alive=self._alive,
            login_of=features.secrets.registry_login,
            temporary=secret_files.temporary,
        )
        shared = (self._registry, self._observer)
        by_name = {node.node.name: node for node in nodes or ()}
        self._starter = PodStarter(
            self.state,
            *shared,
            self._reaper,
            self._tombstones,
            nodes=by_name,
            boot_id=self.boot_id,
            images=self._images,
            users=users,
            features=features,
            runtimes=self._runtimes,
            secret_files=secret_files,
        )
        self._stopper = PodStopper(self._collector, *shared, self._reaper, self._tombstones)
        self._adopter = PodAdopter(
            self.state.pods,
            self._collector,
            *shared,
            self._stopper,
            self._reaper,
            self._tombstones,
            nodes=by_name if nodes is not None else None,
            boot_id=self.boot_id,
        )
        self._remover = PodRemover(self._collector, *shared, self._reaper, self._tombstones)
        self._checked_at, self._is_new = float("-inf"), True

    # --- orders ---

    def start(self, orders: Sequence[StartOrder]) -> list[OrderResult]:
        """Start these pods, or make sure that they were started; each order is written before its shim is requested."""
        with self._lock:
            self._adopter.find()
            self._stopper.kill_lost()
            answers = self._starter.start(orders)
            self._observer.request_shims()
            return answers

    def stop(self, orders: Sequence[StopOrder]) -> list[OrderResult]:
        """Give pods their grace period. A pod without one is gone when this returns."""
        with self._lock:
            self._adopter.find()
            answers = self._stopper.stop(orders)
            self._watch.wake_at(self._reaper.next_deadline())
            return answers

    def evict(self, pod: PodId, reason: str) -> None:
        """Kill a pod for what it did, without an order: the loop finds the reason in its exit record."""
        self.stop([StopOrder(pod=pod, node=None, grace_s=0, reason=reason)])

    def forget(self, orders: Sequence[ForgetOrder]) -> list[OrderResult]:
        """Remove the files of pods that are over, except their output, and remember that they were."""
        with self._lock:
            self._adopter.find()
            return self._remover.forget(orders)

    # --- observing ---

    def observe(self) -> ObservedPods:
        """Every pod as it is now, and which have changed since this was last called."""
        with self._lock:
            self._adopter.find()
            is_full = time.monotonic() - self._checked_at > CHECK_EVERYTHING_S
            if is_full:
                self._check_everything()
            self._starter.retry_images_if_due()
            self._observer.refresh_due(everything=is_full)
            self._stopper.kill_overdue()
            self._observer.request_shims()
            self._watch.wake_at(self._reaper.next_deadline())
            return self._registry.observed()

    def _check_everything(self) -> None:
        """Kill orphans, and continue shims that were stopped."""
        self._checked_at = time.monotonic()
        file, pods = self.state.root / "processes.json", self._registry.pods.values()
        saved = self._reaper.load_selectors(file, self.boot_id) if self._is_new else ()
        self._reaper.kill_orphans(pods, saved=saved)
        self._is_new = False
        with suppress(OSError):  # a full disk: what was saved before is still there
            self._reaper.save_selectors(file, self.boot_id, pods)
        self._observer.continue_shims()
        for runtime in self._runtimes.values():
            runtime.collect()

    def _alive(self) -> set[str]:
        """From any thread: the UUIDs of pods that are not over."""
        with self._lock:
            return {self._reaper.pod_uuid(watched.pod) for watched in self._registry.alive()}

    def wait(self, timeout_s: float) -> bool:
        """Sleep until something may have changed. Only a hint, in both directions."""
        return is_readable(self.wake_descriptors(), timeout_s)

    def wake_descriptors(self) -> tuple[int, int]:
        """Readable when something may have changed, for other event loops."""
        return self._hints.fileno(), self._watch.fileno()

    @property
    def error(self) -> str:
        """Why pods cannot start or end just now; empty: they can."""
        # An answer of the fork server may have been waiting since the last turn. The lock's holder reads it anyway, and
        # the status command must not wait for a slow turn.
        if self._lock.acquire(blocking=False):
            try:
                self._launcher.read_answers()
            finally:
                self._lock.release()
        orphans = self.orphans
        left = f"{orphans[0]} of an unknown pod was killed but has not ended" if orphans else ""
        return "; ".join(words for words in (self._launcher.error, left) if words)

    @property
    def removed_nodes(self) -> dict[NodeName, int]:
        """Nodes that are no longer offered and still have pods, each with its highest device in use."""
        with self._lock:
            found: dict[NodeName, int] = {}
            for node, pods in self._registry.removed_nodes.items():
                for watched in (self._registry.pods[pod] for pod in pods):
                    if not watched.is_over:
                        found[node] = max(found.get(node, -1), *watched.stored.order.devices, -1)
            return found

    @property
    def orphans(self) -> tuple[str, ...]:
        """Processes of unknown pods that have not ended although they were killed."""
        return tuple(f"process {pid}" for found in list(self._reaper.orphans.values()) for pid in sorted(found))

    @property
    def fork_server_pid(self) -> int | None:
        """The parent of new shims, if there is one just now."""
        return self._launcher.pid

    @property
    def unavailable(self) -> Mapping[str, str]:
        """What pods cannot have on this machine, and why: isolation, counting of their processes, mounts, host_name,
        limits. Without `isolation` pods run as the server's user and see what it sees."""
        missing = {"limits": self._limiter.missing} if self._limiter.missing else {}
        return {**self._launcher.unavailable, **missing}

    @property
    def images(self) -> tuple[str, ...]:
        """Patterns of the images that pods can have on this machine."""
        return self._images.patterns

    def ours(self, pids: Collection[int]) -> set[int]:
        """Those of these processes that belong to our pods: by `POD_UUID`, or as descendants of a shim or a program.

        Neither is enough alone. Programs may clear their environment or write their title over it, and a daemon in a
        pod whose shim was killed descends from no process that we know.
        """
        if not pids:
            return set()
        with self._lock:
            pods = self._registry.alive()
            uuids = {watched.stored.launch["pod_uuid"] for watched in pods if watched.stored.launch is not None}
            found = {pid for pid in pids if process_table.pod_uuid_of(pid) in uuids}
            if len(found) == len(set(pids)):
                return found
            above = {shim.pid for watched in pods if (shim := living_shim(watched)) is not None}
            above |= {main[0] for watched in pods if (main := pod_directory.main_of(watched.directory)) is not None}
            return found | {pid for pid in pids if not above.isdisjoint((pid, *process_table.ancestors(pid)))}

    def holds(self, node: NodeName, device: int) -> bool:
        """Whether a pod that is not over was given this device."""
        with self._lock:
            orders = (watched.stored.order for watched in self._registry.alive())
            return any(order.node == node and device in order.devices for order in orders)

    def writers(self) -> list[Writer]:
        """The pods that are not over, and where on this machine each can write."""
        with self._lock:
            return [self._writer(watched) for watched in self._registry.alive()]

    def _writer(self, watched: WatchedPod) -> Writer:
        order, launch = watched.stored.order, watched.stored.launch or {}
        root = f"{self.state.root}/"
        directories = {
            path: "its log" if name == "directory" else f"its {name}"
            for name, path in asdict(self.state.paths(order)).items()
            if isinstance(path, str) and path.startswith(root) and name != "support"
        }
        for mount in launch.get("mounts", ()):
            if mount.get("source") and mount.get("mode") == "rw":
                directories.setdefault(mount["source"], f"the volume at {mount['target']}")
        return Writer(
            pod=order.pod,
            name=order.name,
            project=order.project,
            pod_uuid=str(launch.get("pod_uuid", "")),
            main=pod_directory.main_of(watched.directory),
            directories=directories,
        )

    def running(self) -> Subjects:
        """The pods that run, and how their processes are found. Reads no files, so that the lock is not held long."""
        with self._lock:
            pods = [each for each in self._registry.alive() if each.observed.state is PodState.RUNNING]
            found = tuple(_running_pod(watched) for watched in pods)
        fork_server = self.fork_server_pid
        return Subjects(pods=found, excluded=() if fork_server is None else (fork_server,))

    def remove_claim(self, project: str, name: str) -> None:
        """Remove a volume claim with its data. Raises OSError."""
        self.state.discard_claim(project, name)
        self._collector.collect()

    # --- logs, exec, attach, reports: without the lock ---

    def read_log(self, pod: PodId, **wanted: Any) -> LogChunk | Problem:
        """A piece of a pod's output; see `pod_log.read_log` for the parameters."""
        while (directory := self.state.log_directory(pod)) is not None:
            is_over = directory.parent == self.state.logs or exit_record.read(str(directory)) is not None
            chunk = read_log(directory, is_over=is_over, **wanted)
            if directory.is_dir():  # else it was moved to the logs, or pruned, while it was read
                return chunk
        return Problem("pod.unknown", f"{pod} has no log on this machine", "try another pod of the workload")

    def execute(self, pod: PodId, argv: Sequence[str], **wanted: Any) -> exec_client.ExecSession | Problem:
        """Run a command beside a pod's program; see `exec_client.execute` for the parameters."""
        size = sum(len(word.encode()) for word in argv)
        if size > exec_client.COMMAND_MAX:
            what = f"the command has {size} bytes, and at most {exec_client.COMMAND_MAX} can be passed to a pod"
            return Problem("pod.command_too_long", what, "put it into a file, or pass it as input: exec -i JOB -- sh")
        try:
            return exec_client.execute(self.state.pod_directory(pod), argv, **wanted)
        except OSError as error:
            return _not_running(pod, error)

    def attach(self, pod: PodId) -> exec_client.AttachSession | Problem:
        """Attach to a pod's program."""
        try:
            return exec_client.attach(self.state.pod_directory(pod))
        except OSError as error:
            return _not_running(pod, error)

    def connect(self, pod: PodId, port: int) -> socket.socket | Problem:
        """Connect to a port that a process of a pod listens on."""
        with self._lock:
            watched = self._registry.pods.get(pod)
            selector = watched.selector() if watched is not None and not watched.is_over else None
            main, launch = (watched.main, watched.stored.launch or {}) if watched is not None else (None, {})
        if selector is None:
            return Problem("pod.not_running", f"{pod} is not running on this machine", "try another pod")
        if main is not None and launch.get("network"):
            return connect_inside(main[0], port, lambda: exec_client.sockets(self.state.pod_directory(pod)))
        if main is not None and launch.get("container") and has_other_network(main[0]):
            return connect_inside(main[0], port, lambda: sockets_beside(*main))
        return self._ports.connect(pod, port, lambda: find_leftovers([selector])[0])

    def reports(self, pod: PodId) -> Mapping[str, Any]:
        """What the job has reported about itself: `metrics`, `parameters`, `at`; also after the pod was forgotten."""
        return read_reports(self.state, pod)

    def close(self) -> None:
        """Release everything; pods and shims are not affected."""
        with self._lock:
            self._launcher.close()
            for watched in self._registry.pods.values():
                self._watch.release(watched)
            self._watch.close()
            self._hints.close()
            self._tombstones.close()
            self._collector.close()
            self._secret_files.close()
            remove_if_empty(self._limiter)


def _running_pod(watched: WatchedPod) -> RunningPod:
    order, launch = watched.stored.order, watched.stored.launch or {}
    return RunningPod(
        pod=watched.pod,
        node=order.node,
        devices=order.devices,
        gpu=order.shape.gpu,
        selector=watched.selector(),
        directory=watched.directory,
        is_container=bool(launch.get("container")),
        has_relay=bool(launch.get("network")),
    )


def _not_running(pod: PodId, error: OSError) -> Problem:
    return Problem(
        "pod.not_running", f"cannot open a session in pod {pod} ({error.strerror})", "wait until it is running"
    )
