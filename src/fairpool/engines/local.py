"""The local engine: this machine's pods, as processes or in containers, run by an agent in the same process.

The highest fencing token is kept in a file and compared under a lock, so that two processes on one data directory obey
the same scheduling loop. GPUs that are used by processes outside our pods are checked every few seconds and withheld.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path

from fairpool.agent.bounded_gpus import BoundedGpus
from fairpool.agent.device_health import DeviceHealth, Ownership
from fairpool.agent.devices import PROCESS, LogicalNode, machine_nodes
from fairpool.agent.launch import DEFAULT_ROTATION, LogRotation
from fairpool.agent.nvml import Gpus, find_gpus
from fairpool.agent.sampler import Sampler
from fairpool.agent.shim_watch import is_readable
from fairpool.agent.supervisor import Supervisor
from fairpool.engines.port import EngineUnreachable, Fenced
from fairpool.model.container_rules import Privilege
from fairpool.model.ids import Instant, NodeName, PodId, Token
from fairpool.model.node import Node
from fairpool.model.observation import (
    ForgetOrder,
    Observation,
    ObservedNode,
    Order,
    OrderResult,
    StartOrder,
    StopOrder,
)
from fairpool.model.sample import Sample

DEVICE_CHECK_S = 2.0
"""At most this often; an idle loop observes less often than that. A check takes the driver a tenth of a millisecond."""


class LocalEngine:
    """Runs pods as processes of this machine."""

    def __init__(
        self,
        root: Path,
        *,
        nodes: Sequence[LogicalNode] | None = None,
        gpus: Gpus | None = None,
        rotation: LogRotation = DEFAULT_ROTATION,
        boot_id: str | None = None,
        protected: Sequence[Path] = (),
        allowed: Collection[Privilege] = (),
    ) -> None:
        gpus = find_gpus() if gpus is None else gpus
        self._nodes = tuple(machine_nodes(gpus) if nodes is None else nodes)
        self.supervisor = Supervisor(
            root, self._nodes, rotation=rotation, boot_id=boot_id, protected=protected, allowed=allowed
        )
        self._in_containers = {each.node.name for each in self._nodes if each.runtime != PROCESS}
        self._privileges = tuple(sorted(allowed))
        self._device_health = DeviceHealth(BoundedGpus(gpus))
        self._sampler = Sampler(self._nodes, self.supervisor.running, BoundedGpus(gpus), self.supervisor.reports)
        self._ownership = Ownership(ours=self.supervisor.ours, holds=self.supervisor.holds)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._token_path = self.supervisor.state.root / "token"
        self._observed = Observation(at=Instant(0))
        self._changed_pods: set[PodId] = set()
        """Since `_observed`; kept when reading the nodes raises an error, so that none is lost."""
        self._observed_nodes: Mapping[NodeName, ObservedNode] = {}
        self._removed_nodes: Mapping[NodeName, int] = {}
        self._opened_at = _now()
        self._devices_checked_at = float("-inf")

    def observe(self, token: Token) -> Observation:
        """Everything on this machine."""
        with self._fencing(token):
            pods, changed = self.supervisor.observe()
            self._changed_pods |= changed
            nodes = self._observe_nodes()
            last = self._observed
            if self._changed_pods or last.nodes is not nodes or last.token != token or not last.number:
                self._observed = last = Observation(
                    at=_now(),
                    nodes=nodes,
                    pods=pods,
                    token=token,
                    number=last.number + 1,
                    changed_pods=frozenset(self._changed_pods),
                )
                self._changed_pods.clear()
            return last

    def sample(self) -> Sample:
        """What this machine and its pods used since the last sample."""
        return Sample(at=_now(), nodes=self._sampler.take())

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        """Carry these out in turn; neighbours of one kind together, which is cheaper."""
        with self._fencing(token):
            return [answer for _, alike in groupby(orders, type) for answer in self._answers(list(alike))]

    def wait(self, timeout_s: float) -> None:
        """Sleep until something may have changed, `wake` was called, or the time is over."""
        is_readable((self._wake, *self.supervisor.wake_descriptors()), timeout_s)
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    def wake(self) -> None:
        """From any thread, until the engine is closed."""
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Release everything; running pods are not affected, and the next engine on the directory adopts them."""
        self.supervisor.close()
        os.close(self._wake)

    def _answers(self, orders: Sequence[Order]) -> Sequence[OrderResult]:
        """Answers to orders of one kind."""
        if isinstance(orders[0], StartOrder):
            return self.supervisor.start([order for order in orders if isinstance(order, StartOrder)])
        if isinstance(orders[0], StopOrder):
            return self.supervisor.stop([order for order in orders if isinstance(order, StopOrder)])
        return self.supervisor.forget([order for order in orders if isinstance(order, ForgetOrder)])

    @contextmanager
    def _fencing(self, token: Token) -> Iterator[None]:
        """Hold the lock of the token file, and refuse a token that is lower than the highest so far."""
        try:
            fd = os.open(self._token_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EngineUnreachable(f"this machine cannot be used: {error}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            highest = _token_in(os.pread(fd, 32, 0), self._token_path)
            if token < highest:
                raise Fenced(highest, token)
            if token > highest:
                # Padded, so that one write of one block replaces the other and never leaves a mixture of both.
                os.pwrite(fd, f"{token:032}".encode(), 0)
                os.fsync(fd)
            yield
        except OSError as error:
            raise EngineUnreachable(f"this machine cannot be used: {error}") from error
        finally:
            os.close(fd)

    def _observe_nodes(self) -> Mapping[NodeName, ObservedNode]:
        """The nodes, as the same object while nothing about them changes."""
        removed = self.supervisor.removed_nodes
        if removed == self._removed_nodes and time.monotonic() - self._devices_checked_at < DEVICE_CHECK_S:
            return self._observed_nodes
        self._removed_nodes = removed
        self._devices_checked_at = time.monotonic()
        boot_id, images = self.supervisor.boot_id, self.supervisor.images
        nodes = {
            each.node.name: ObservedNode(
                node=each.node,
                boot_id=boot_id,
                message=each.words,
                images=None if each.node.name in self._in_containers else images,
                privileges=self._privileges if each.node.name in self._in_containers else None,
                directory_users=self.supervisor.can_choose_user and each.node.name not in self._in_containers,
            )
            for each in self._device_health.check(self._nodes, self._ownership)
        }
        nodes |= {name: self._removed_node(name, highest) for name, highest in removed.items()}
        if nodes != self._observed_nodes:
            self._observed_nodes = nodes
        return self._observed_nodes

    def _removed_node(self, name: NodeName, highest: int) -> ObservedNode:
        """A node that is no longer offered: silent until its pods have ended, so that nothing on it counts as free, nor
        as lost, while it is still in use."""
        node = Node(name=name, cpu_milli=0, memory_bytes=0, gpus=highest + 1)
        words = "this node was removed; its pods are being stopped"
        boot_id = self.supervisor.boot_id
        return ObservedNode(node=node, boot_id=boot_id, silent_since=self._opened_at, message=words)


def _token_in(content: bytes, path: Path) -> Token:
    if content and not content.isdigit():
        # Not taken for none: a loop that was fenced would be obeyed again.
        raise EngineUnreachable(
            f"{path} is damaged: it contains {content!r} instead of a number. Stop Fairpool and delete the file"
        )
    return Token(int(content or b"0"))


def _now() -> Instant:
    return Instant(time.time_ns() // 1_000_000)
