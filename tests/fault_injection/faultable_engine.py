"""A simulated engine with the faults that only tests inject: lost records, stopped shims, withdrawn nodes."""

from __future__ import annotations

from dataclasses import replace

from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.engines.simulated.machines import ENDED_BEFORE
from fairpool.engines.simulated.timeline import pull_delayed, record_lost, shim_stopped
from fairpool.model.ids import Instant, NodeName, PodId
from fairpool.model.node import Node


class FaultableEngine(SimulatedEngine):
    """Faults of nodes and pods, applied at the time of the clock."""

    def replace_node(self, node: Node) -> None:
        """The node has other labels, taints or devices, or is cordoned; its pods are not affected."""
        self._pass_time()
        self._set_host(replace(self._hosts[node.name], node=node))
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

    def hold_up(self, pod: PodId, message: str, until: Instant | None = None) -> None:
        """The image of a pod that is not running yet cannot be pulled until then."""
        self._pass_time()
        self._set_timeline(pull_delayed(self._timelines[pod], self._now, message, until))
        self._save()
