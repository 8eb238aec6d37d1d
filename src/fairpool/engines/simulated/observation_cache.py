"""What can be seen of a simulation now, kept so that looking again costs no more than what has changed."""

from __future__ import annotations

from fairpool.model.ids import Instant, NodeName, PodId, Token
from fairpool.model.observation import Observation, ObservedNode, ObservedPod


class ObservationCache:
    """The sights of nodes and pods. What has not changed stays the same object, from one sight up to the whole."""

    def __init__(self) -> None:
        self._nodes: dict[NodeName, ObservedNode] = {}
        self._pods: dict[PodId, ObservedPod] = {}
        self._nodes_changed = self._pods_changed = True
        self._last = Observation(at=Instant(0))

    def show_node(self, observed: ObservedNode) -> None:
        if observed != self._nodes.get(observed.node.name):
            self._nodes[observed.node.name] = observed
            self._nodes_changed = True

    def hide_node(self, name: NodeName) -> None:
        if self._nodes.pop(name, None) is not None:
            self._nodes_changed = True

    def show_pod(self, observed: ObservedPod) -> None:
        if not _looks_like(self._pods.get(observed.order.pod), observed):
            self._pods[observed.order.pod] = observed
            self._pods_changed = True

    def hide_pod(self, pod: PodId) -> None:
        if self._pods.pop(pod, None) is not None:
            self._pods_changed = True

    def observation(self, at: Instant, token: Token) -> Observation:
        """All of it; the same object as last time if it is the same."""
        if self._nodes_changed or self._pods_changed or token != self._last.token:
            self._last = Observation(
                at=at,
                nodes=dict(self._nodes) if self._nodes_changed else self._last.nodes,
                pods=dict(self._pods) if self._pods_changed else self._last.pods,
                token=token,
            )
            self._nodes_changed = self._pods_changed = False
        return self._last


def _looks_like(old: ObservedPod | None, new: ObservedPod) -> bool:
    """Whether a life looks as before; its order is the same, and when it runs and how it ends go with the state."""
    return old is not None and old.state is new.state and old.message == new.message
