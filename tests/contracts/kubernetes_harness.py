"""The engine on Kubernetes for the contract suite: a real API server, one fake node, and real time."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from fairpool.engines.kubernetes.engine import KubernetesEngine
from fairpool.engines.kubernetes.kubeconfig import find_api_server
from fairpool.engines.kubernetes.objects import FINALIZER, POD
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.model.ids import NodeName, PodId, Token
from fairpool.model.observation import Observation, Order, OrderResult, OrderStatus, PodState, StartOrder, StopOrder
from fairpool.model.sample import Sample
from tests.contracts.harness import NODE, MeasuringEngine, start_order
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fake_nodes import FakeKubelet
from tests.kubernetes.fake_nodes import node as fake_node

TIMEOUT_S = 30
LABEL = "app.kubernetes.io/managed-by=fairpool"


class KubernetesHarness:
    """The engine in this process, or one after the other, each opened when the one before is gone."""

    measures = False

    def __init__(self, plane: ControlPlane, kubelet: FakeKubelet, *, reopened: bool) -> None:
        self.plane, self.kubelet = plane, kubelet
        self.node: NodeName = NODE
        self.keeps_objects = not reopened
        self.behaviours: dict[str, Behaviour] = {}
        kubelet.behaviour = lambda pod: self.behaviours.get(pod["metadata"].get("labels", {}).get(POD, ""), Behaviour())
        self.patient = Patient(plane, self.behaviours, reopened=reopened)
        self.engine: MeasuringEngine = self.patient

    @classmethod
    @contextmanager
    def on(cls, plane: ControlPlane, *, reopened: bool) -> Iterator[KubernetesHarness]:
        """With a node of its own; nothing of it is left at the end."""
        with ExitStack() as stack:
            plane.admin.create("/api/v1/nodes", fake_node(NODE))
            stack.callback(remove_everything, plane)
            kubelet = stack.enter_context(FakeKubelet(plane))
            harness = cls(plane, kubelet, reopened=reopened)
            stack.callback(harness.patient.close)
            yield harness

    def order(
        self,
        workload: str = "a",
        index: int = 0,
        incarnation: int = 0,
        *,
        device: int = 0,
        run_s: float | None = None,
        exit_code: int = 0,
        stop_s: float = 0,
    ) -> StartOrder:
        boot_id = self.plane.admin.get(f"/api/v1/nodes/{self.node}")["status"]["nodeInfo"]["bootID"]
        order = start_order(workload, index, incarnation, devices=(device,), boot_id=boot_id)
        self.behaviours[order.pod] = Behaviour(run_s=run_s, exit_code=exit_code, stop_s=stop_s)
        return order

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds)
        self.patient.see_who_is_due_end()

    def reboot(self) -> None:
        before = self.order().boot_id
        self.kubelet.reboot(self.node)
        self.patient.due.clear()
        self.patient.until(lambda seen: seen.nodes[self.node].boot_id != before, "the node has rebooted")

    def silence(self) -> None:
        self.kubelet.silence(self.node)
        self.patient.until(lambda seen: seen.nodes[self.node].silent_since is not None, "the node is silent")

    def end_silence(self) -> None:
        self.kubelet.end_silence(self.node)
        self.patient.until(lambda seen: seen.nodes[self.node].silent_since is None, "the node responds")


class Patient:
    """Answers orders when they have had their effect: the suite looks at once, and a kubelet takes a moment."""

    def __init__(self, plane: ControlPlane, behaviours: dict[str, Behaviour], *, reopened: bool) -> None:
        self._plane, self._behaviours, self._reopened = plane, behaviours, reopened
        self._namespace = f"engine-{secrets.token_hex(3)}"
        self._opened: KubernetesEngine | None = None
        self._token = Token(0)
        self.due: dict[PodId, float] = {}
        """When each pod should be over, by the monotonic clock."""

    def observe(self, token: Token) -> Observation:
        observation = self._engine().observe(token)
        self._token = token
        return observation

    def sample(self) -> Sample:
        engine = self._engine()
        engine.observe(self._token)
        return engine.sample()

    def wait(self, timeout_s: float) -> None:
        self._engine().wait(timeout_s)

    def wake(self) -> None:
        self._engine().wake()

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        engine = self._engine()
        answers = engine.carry_out(orders, token)
        self._token = token
        self.until(lambda seen: all(pod.state is not PodState.STARTING for pod in seen.pods.values()), "all have begun")
        for order, answer in zip(orders, answers, strict=True):
            if answer.status is OrderStatus.DONE:
                self._note_end(order)
        if any(isinstance(order, StopOrder) and not order.grace_s for order in orders):
            self.see_who_is_due_end()  # the shortest grace period on Kubernetes is a second
        return answers

    def see_who_is_due_end(self) -> None:
        """Wait until pods that should be over by now are seen to be."""
        due = [pod for pod, at in self.due.items() if at <= time.monotonic()]
        self.until(lambda seen: not any(_runs(seen, pod) for pod in due), f"{due} have ended")

    def until(self, holds: Callable[[Observation], bool], what: str) -> None:
        end = time.monotonic() + TIMEOUT_S
        engine = self._opened or self._engine()
        while not holds(engine.observe(self._token)):
            assert time.monotonic() < end, f"not so after {TIMEOUT_S} s: {what}"
            engine.wait(0.05)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._plane.admin.delete(f"/api/v1/namespaces/{self._namespace}")

    def _note_end(self, order: Order) -> None:
        behaviour = self._behaviours.get(order.pod, Behaviour())
        now = time.monotonic()
        if isinstance(order, StartOrder) and behaviour.run_s is not None:
            self.due.setdefault(order.pod, now + behaviour.run_s)
        elif isinstance(order, StopOrder):
            grace_s = min(order.grace_s, behaviour.stop_s)
            self.due[order.pod] = min(self.due.get(order.pod, now + grace_s), now + grace_s)

    def _engine(self) -> KubernetesEngine:
        if self._opened is not None and self._reopened:
            self._opened.close()
            self._opened = None
        if self._opened is None:
            self._opened = open_engine(self._plane, self._namespace)
        return self._opened


def open_engine(plane: ControlPlane, namespace: str, **options: Any) -> KubernetesEngine:
    """An engine with the rights of an administrator."""
    settings = options.pop("settings", PodSettings())
    return KubernetesEngine(find_api_server(str(plane.kubeconfig())), namespace=namespace, settings=settings, **options)


def remove_everything(plane: ControlPlane) -> None:
    """All nodes, and all pods of ours with their finalizers."""
    for found in plane.admin.get("/api/v1/nodes")["items"]:
        plane.admin.delete(f"/api/v1/nodes/{found['metadata']['name']}")
    end = time.monotonic() + TIMEOUT_S
    while pods := plane.admin.get(f"/api/v1/pods?labelSelector={LABEL}")["items"]:
        assert time.monotonic() < end, "pods are left"
        for pod in pods:
            metadata = pod["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            if FINALIZER in metadata.get("finalizers", ()) and plane.admin.find(path) is not None:
                plane.admin.patch(path, {"metadata": {"finalizers": None}})
            plane.admin.delete(path, grace_s=0)


def _runs(seen: Observation, pod: PodId) -> bool:
    observed = seen.pods.get(pod)
    return observed is not None and observed.state is not PodState.EXITED
