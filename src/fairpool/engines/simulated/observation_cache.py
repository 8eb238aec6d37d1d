"""The current observation of a simulation, kept so that observing costs no more than what has changed."""

from __future__ import annotations

from fairpool.model.ids import Instant, NodeName, PodId, Token
from fairpool.model.observation import Observation, ObservedNode, ObservedPod


class ObservationCache:
    """Observed nodes and pods. What has not changed stays the same object, up to the whole observation."""

    def __init__(self) -> None:
        self._nodes: dict[NodeName, ObservedNode] = {}
        self._pods: dict[PodId, ObservedPod] = {}
        self._nodes_changed = True
        self._changed_pods: set[PodId] = set()
        self._last = Observation(at=Instant(0))

    def set_node(self, observed: ObservedNode) -> None:
        if observed != self._nodes.get(observed.node.name):
            self._nodes[observed.node.name] = observed
            self._nodes_changed = True

    def remove_node(self, name: NodeName) -> None:
        if self._nodes.pop(name, None) is not None:
            self._nodes_changed = True

    def set_pod(self, observed: ObservedPod) -> None:
        if not _looks_like(self._pods.get(observed.order.pod), observed):
            self._pods[observed.order.pod] = observed
            self._changed_pods.add(observed.order.pod)

    def remove_pod(self, pod: PodId) -> None:
        if self._pods.pop(pod, None) is not None:
            self._changed_pods.add(pod)

    def observation(self, at: Instant, token: Token) -> Observation:
        """The whole observation; the same object as last time if nothing changed."""
        if self._nodes_changed or self._changed_pods or token != self._last.token:
            self._last = Observation(
                at=at,
                nodes=dict(self._nodes) if self._nodes_changed else self._last.nodes,
                pods=dict(self._pods) if self._changed_pods else self._last.pods,
                token=token,
                number=self._last.number + 1,
                changed_pods=frozenset(self._changed_pods),
            )
            self._nodes_changed, self._changed_pods = False, set()
        return self._last


def _looks_like(old: ObservedPod | None, new: ObservedPod) -> bool:
    """Whether a pod is observed as before: its order never changes, and the other fields change with its state."""
    return old is not None and old.state is new.state and old.message == new.message
