"""Starts pods: accepts start orders, plans how each is launched, and writes the order before a shim is requested.

Used with the supervisor's lock held.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from fairpool.agent import stop_notice
from fairpool.agent.bounded_call import BoundedCalls
from fairpool.agent.container_images import BAD_NAME, Pulling
from fairpool.agent.container_launch import ContainerImage, plan_container
from fairpool.agent.container_runtime import ContainerRuntime
from fairpool.agent.devices import LogicalNode
from fairpool.agent.environment import PodPaths
from fairpool.agent.images import ImageTable
from fairpool.agent.isolation import PodUser, pod_user, unmapped_id
from fairpool.agent.launch import MachineFeatures, plan_launch
from fairpool.agent.order_file import StoredOrder, write_order
from fairpool.agent.peers import Rendezvous
from fairpool.agent.pod_observer import ASK_AGAIN_S, PodObserver
from fairpool.agent.pod_registry import PodRegistry, WatchedPod
from fairpool.agent.pod_secrets import SecretFiles, SecretsMissing, secret_variables, volume_place
from fairpool.agent.project_users import ProjectUsers, chown_tree
from fairpool.agent.reaper import Reaper
from fairpool.agent.state_directory import StateDirectory, make_pod_directories
from fairpool.agent.tombstones import Tombstones
from fairpool.model.container_rules import process_objection
from fairpool.model.ids import NodeName, PodId
from fairpool.model.observation import CONFIG_ERROR, OrderResult, OrderStatus, StartOrder
from fairpool.model.problem import Problem
from fairpool.model.secret import Secret
from fairpool.model.spec import AccessMode

IMAGE_ERROR = "ErrImagePull"


class PodStarter:
    """Start orders, from acceptance to the file that the shim reads."""

    def __init__(
        self,
        state: StateDirectory,
        registry: PodRegistry,
        observer: PodObserver,
        reaper: Reaper,
        tombstones: Tombstones,
        *,
        nodes: Mapping[NodeName, LogicalNode],
        boot_id: str,
        images: ImageTable,
        users: ProjectUsers,
        features: MachineFeatures,
        runtimes: Mapping[str, ContainerRuntime],
        secret_files: SecretFiles,
    ) -> None:
        self._runtimes = runtimes
        self._state, self._registry, self._observer = state, registry, observer
        self._reaper, self._tombstones = reaper, tombstones
        self._nodes, self._boot_id, self._images = nodes, boot_id, images
        self._users, self._features, self._secret_files = users, features, secret_files
        self._unwritten: list[tuple[StoredOrder, PodPaths]] = []
        self._secret_calls: BoundedCalls[Mapping[str, Secret]] = BoundedCalls()
        self._plans: BoundedCalls[dict[str, Any] | Problem] = BoundedCalls()
        # Containers whose image was on its way when the server before this one ended are planned again.
        self._images_again_at = 0.0 if runtimes else float("inf")

    def start(self, orders: Sequence[StartOrder]) -> list[OrderResult]:
        """Accept these orders and write them down; a shim that is requested afterwards starts them."""
        answers = [self._accept_or_wait(order) for order in orders]
        failed = self._write_orders()
        return [failed.get(answer.pod, answer) for answer in answers]

    def _accept_or_wait(self, order: StartOrder) -> OrderResult:
        try:
            return self._accept(order)
        except SecretsMissing as error:
            return OrderResult(order.pod, OrderStatus.LATER, f"{CONFIG_ERROR}: {error}")
        except OSError as error:  # of this pod alone: the others, and stop orders, do not wait for it
            return OrderResult(order.pod, OrderStatus.LATER, f"it cannot be prepared: {error.strerror or error}")

    def _accept(self, order: StartOrder) -> OrderResult:
        if order.pod in self._registry.pods:
            return OrderResult(order.pod, OrderStatus.DONE)
        words = self._tombstones.words(order.pod)
        if words is not None:
            return OrderResult(order.pod, OrderStatus.REFUSED, words)
        if self._has_predecessor(order):
            return OrderResult(order.pod, OrderStatus.LATER, "the previous instance of this pod has not ended yet")
        if words := self._claim_held_elsewhere(order):
            return OrderResult(order.pod, OrderStatus.LATER, words)
        stored, paths = self._plan(order)
        if isinstance(stored, Problem):
            # For good: an earlier copy of the order, still on its way, must not start it either.
            self._tombstones.add(str(stored), order.pod)
            return OrderResult(order.pod, OrderStatus.REFUSED, str(stored))
        self._registry.add(order.pod, paths.directory, stored)
        self._unwritten.append((stored, paths))
        return OrderResult(order.pod, OrderStatus.DONE)

    def _has_predecessor(self, order: StartOrder) -> bool:
        """Whether another incarnation may still run: two would write into one directory of checkpoints."""
        others = self._registry.other_incarnations(order)
        return any(not self._observer.refresh(watched).is_over for watched in others) or (
            self._reaper.has_earlier_orphan(order.workload, order.index, order.incarnation)
        )

    def _write_orders(self) -> dict[PodId, OrderResult]:
        """Write down what was accepted; the answers for pods whose files could not be written."""
        unwritten, self._unwritten = self._unwritten, []
        answers = {}
        for stored, paths in unwritten:
            error = _write_down(stored, paths)
            if error is not None:  # no shim was requested yet, so nothing has been started
                pod = stored.order.pod
                self._observer.drop(pod)
                answers[pod] = OrderResult(pod, OrderStatus.LATER, f"its files cannot be written: {error.strerror}")
        return answers

    # --- planning

    def _plan(self, order: StartOrder) -> tuple[StoredOrder | Problem, PodPaths]:
        """How it is launched, and where its files are; its secrets are in memory by then."""
        paths = self._state.paths(order)
        if not order.program.credentials:
            return self._planned_without_secrets(order, paths), paths
        secrets = self._secret_calls.run(
            order.pod, partial(self._features.secrets.of, order), "the control plane does not answer about its secrets"
        )
        paths = replace(paths, secrets=self._secret_files.directory(order.pod))
        stored = self._planned_without_secrets(order, paths)
        if isinstance(stored, StoredOrder) and stored.launch is not None:
            self._hand_over(order, secrets, stored.launch)
        return stored, paths

    def _hand_over(self, order: StartOrder, secrets: Mapping[str, Secret], launch: Mapping[str, Any]) -> None:
        volumes = [
            (volume_place(index), secrets[name])
            for index, volume in enumerate(order.program.volumes)
            if (name := volume.secret or volume.credential)
        ]
        variables = secret_variables(order.program, secrets, launch["secrets"]["variables"])
        user = launch["view"] and launch["view"]["user"]
        self._secret_files.write(order.pod, variables, volumes, PodUser(*user) if user else None)

    def _planned_without_secrets(self, order: StartOrder, paths: PodPaths) -> StoredOrder | Problem:
        node = self._nodes.get(order.node)
        if node is None:
            return Problem("node.unknown", f"there is no node {order.node} here", "")
        if order.boot_id != self._boot_id:
            return Problem("node.rebooted", "the node has rebooted", "")
        if any(device >= len(node.gpus) for device in order.devices):
            return Problem("device.unknown", f"{order.node} has no such device: {order.devices}", "")
        runtime = self._runtimes.get(node.runtime)
        if runtime is not None:
            return self._plan_container(order, paths, node, runtime)
        user = self._user_of(order)
        if isinstance(user, Problem):
            return user
        image = self._images.find(order.program.image)
        if isinstance(image, Problem):
            return StoredOrder(order=order, start_failure=f"{IMAGE_ERROR}: {image}")
        plan = partial(
            plan_launch,
            order,
            image,
            [node.gpus[device] for device in order.devices],
            pod_uuid=self._reaper.pod_uuid(order.pod),
            paths=paths,
            features=self._features,
            is_simulated=node.is_simulated,
            rendezvous=self._rendezvous(order),
            user=user,
        )
        launch = self._planned(order, paths, user, plan)
        return launch if isinstance(launch, Problem) else StoredOrder(order=order, launch=launch)

    def _rendezvous(self, order: StartOrder) -> Rendezvous | None:
        return self._state.rendezvous(order, is_first=not self._registry.has_living_peers(order))

    def _claim_held_elsewhere(self, order: StartOrder) -> str:
        """Which pod of another node mounts a claim that only one node may have; empty: none does."""
        wanted = {volume.claim for volume in order.program.volumes if volume.access is AccessMode.ONE_NODE}
        for watched in self._registry.alive() if wanted else ():
            other = watched.stored.order
            if other.project != order.project or other.node == order.node:
                continue
            if held := wanted & {volume.claim for volume in other.program.volumes if volume.claim}:
                return f"claim {min(held)} is ReadWriteOnce, and {other.name} has it on node {other.node}"
        return ""

    def _plan_container(
        self, order: StartOrder, paths: PodPaths, node: LogicalNode, runtime: ContainerRuntime
    ) -> StoredOrder | Problem:
        found = runtime.images.find(order)
        if isinstance(found, Problem):
            is_for_good = found.code == BAD_NAME
            return found if is_for_good else StoredOrder(order=order, start_failure=f"{IMAGE_ERROR}: {found}")
        user = pod_user(order.program.security, self._users.user_of(order.project))
        plan = partial(
            plan_container,
            order,
            # What is wrong with the order is said before its image is there.
            ContainerImage(id="", name=order.program.image, command=("?",)) if isinstance(found, Pulling) else found,
            [node.gpus[device] for device in order.devices],
            pod_uuid=self._reaper.pod_uuid(order.pod),
            paths=paths,
            features=self._features,
            settings=runtime.settings,
            is_simulated=node.is_simulated,
            rendezvous=self._rendezvous(order),
            user=user,
        )
        launch = self._planned(order, paths, user, plan)
        if isinstance(launch, Problem):
            return launch
        if isinstance(found, Pulling):
            return StoredOrder(order=order, start_failure=found.words)
        return StoredOrder(order=order, launch=launch)

    def _planned(
        self, order: StartOrder, paths: PodPaths, user: PodUser | None, plan: Callable[[], dict[str, Any] | Problem]
    ) -> dict[str, Any] | Problem:
        """Run the plan; bounded if it reads files of users, which may be many or on a file server that hangs, or looks
        up an account, which may be in a directory that hangs."""
        program = order.program
        has_checkpoints = user is not None and os.path.isdir(paths.checkpoints)
        is_looked_up = user is not None and not user.name
        if not (program.volumes or program.python_env or program.working_dir or has_checkpoints or is_looked_up):
            return plan()

        def prepared() -> dict[str, Any] | Problem:
            if user is not None and has_checkpoints:
                chown_tree(paths.checkpoints, user)
            return plan()

        return self._plans.run(order.pod, prepared, "its files or accounts are being prepared or do not answer")

    def _user_of(self, order: StartOrder) -> PodUser | Problem | None:
        """The user that a process runs as: as root the project's, or that of a directory; otherwise None, which is the
        server's own."""
        security, can_choose = order.program.security, self._features.can_choose_user
        if problem := process_objection(order.program, can_choose_user=can_choose):
            return problem
        if not can_choose:
            return None
        user = pod_user(security, self._users.user_of(order.project))
        if security.directory_user and (missing := unmapped_id(user)) is not None:
            what = f"the ID {missing} does not exist on {order.node}, which runs in a user namespace"
            return Problem("security.directory_user", what, "ask the administrator to map it there")
        return replace(user, name="") if security.directory_user else user

    # --- images

    def retry_images_if_due(self) -> None:
        """Plan again the pods whose image was not there, if the table of images has changed or a pull has ended."""
        pulls = [runtime for runtime in self._runtimes.values() if runtime.images.has_changed()]
        if not self._images.refresh() and not pulls and time.monotonic() < self._images_again_at:
            return
        self._images_again_at = float("inf")
        for watched in self._registry.alive():
            if self._waits_for_image(watched) and not stop_notice.exists(watched.directory):
                watched.stored, watched.refreshed_at = self._planned_again(watched), float("-inf")
                self._registry.unsettled.add(watched.pod)

    def _waits_for_image(self, watched: WatchedPod) -> bool:
        """An image that could not be pulled is tried again by the next pod, after the cluster's back-off."""
        stored = watched.stored
        is_over = self._is_in_container(stored.order) and stored.start_failure.startswith(IMAGE_ERROR)
        return stored.launch is None and not is_over

    def _is_in_container(self, order: StartOrder) -> bool:
        node = self._nodes.get(order.node)
        return node is not None and node.runtime in self._runtimes

    def _planned_again(self, watched: WatchedPod) -> StoredOrder:
        order = watched.stored.order
        try:
            stored, _ = self._plan(order)
            if isinstance(stored, Problem):
                # The image of a container has no command, or a volume was removed meanwhile: another pod tries again.
                word = IMAGE_ERROR if self._is_in_container(order) else CONFIG_ERROR
                stored = StoredOrder(order=order, start_failure=f"{word}: {stored}")
            make_pod_directories(stored, self._state.paths(order))
            write_order(watched.directory, stored)
        except OSError as error:
            failure = f"CreateContainerConfigError: it cannot be prepared: {error.strerror or error}"
            stored = StoredOrder(order=order, start_failure=failure)
            self._images_again_at = time.monotonic() + ASK_AGAIN_S
        return stored


def _write_down(stored: StoredOrder, paths: PodPaths) -> OSError | None:
    try:
        with suppress(FileExistsError):  # a server was killed before it wrote the order
            os.mkdir(paths.directory, 0o700)
        make_pod_directories(stored, paths)
        write_order(paths.directory, stored)
    except OSError as error:
        return error
    return None
