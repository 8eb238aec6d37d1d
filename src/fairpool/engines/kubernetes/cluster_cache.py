"""What is known of a cluster: nodes and pods as the watches report them, and what the loop observes of that. Pure.

A change that makes no difference to the loop leaves every object as it was, so that a cluster in which nothing happens
costs nothing. Pods on silent nodes are not observed; pods on nodes that are gone or have rebooted do not exist any
more, and neither do pods that must not run: those of a loop that had been fenced off, and those that were stopped
before they were created. Pods with labels of ours and without our signature are pods of others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY, RESERVATION_NAMESPACE, WORKLOAD
from fairpool.engines.kubernetes.node_reading import NodeObject, deleted_node, observed_node
from fairpool.engines.kubernetes.objects import (
    FINALIZER,
    KEPT,
    POD,
    RESERVATION,
    TOKEN,
    label_value,
    stored_order,
)
from fairpool.engines.kubernetes.pod_reading import (
    NOTHING,
    PodObject,
    PodUse,
    has_ended,
    observed_pod,
    total_use,
    use_of,
)
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.pod_signature import PodSigner
from fairpool.model.ids import Instant, NodeName, PodId, Token, WorkloadId
from fairpool.model.observation import ObservedNode, ObservedPod, StartOrder

Key = tuple[str, str]
"""Namespace and name."""
REMOVED_MAX = 20_000
FORBIDDEN_MAX = 20_000
"""Pods that must not run; the oldest are forgotten, since a call that creates one does not last that long."""
ALL_VERSIONS = str(2**64)
"""Later than any."""
IMPOSTORS_MAX = 1000
"""Pods of others with our labels that are remembered, so that each is reported once."""
KEPT_MAX = 1000
"""Pods that have ended and are kept for their output; the oldest go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPod:
    """A pod that Fairpool created."""

    namespace: str
    name: str
    uid: str
    label: str
    """Its id, as far as that can be a label."""
    workload: str
    token: Token
    node: NodeName
    order: StartOrder | None
    """None: it was edited so that it cannot be read any more."""
    observed: ObservedPod | None
    use: PodUse
    has_ended: bool
    is_stopping: bool
    has_finalizer: bool
    is_kept: bool
    version: int = 0
    """Its resource version, which is not part of what it is."""

    @property
    def key(self) -> Key:
        return self.namespace, self.name


class PodListener(Protocol):
    """Is told about every pod of ours, before what is known of it changes here."""

    def took(self, pod: PodObject) -> None:
        """A pod as it is now."""

    def removed(self, uid: str) -> None:
        """A pod does not exist any more."""

    def listed(self, uids: Collection[str], resource_version: str) -> None:
        """All pods that existed at this resource version."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A pod that the engine itself has to remove."""

    pod: OwnPod
    is_dead: bool
    """Nothing of it can still run: its node is gone or has rebooted, or it has ended."""
    why: str


class ClusterCache:
    """Nodes and pods of one cluster. Not for several threads."""

    def __init__(
        self, settings: PodSettings, signer: PodSigner, on_impostor: Callable[[PodObject], None] = lambda pod: None
    ) -> None:
        """`on_impostor` is told once about a pod that has labels of ours, and was not created by us as it is."""
        self._settings, self._signer, self._on_impostor = settings, signer, on_impostor
        self._impostors: dict[str, None] = {}
        self._nodes: dict[NodeName, NodeObject] = {}
        self._own: dict[Key, OwnPod] = {}
        self._by_label: dict[str, Key] = {}
        self._own_on: dict[NodeName, set[Key]] = {}
        self._others_on: dict[NodeName, dict[Key, PodUse]] = {}
        self._other_node: dict[Key, NodeName] = {}
        self._listeners: list[PodListener] = []
        self._kept: dict[Key, None] = {}
        self._to_check: dict[Key, None] = {}
        self._leftovers: dict[Key, Leftover] = {}
        self._removed: dict[str, None] = {}
        """Uids of pods that were deleted lately: an answer about one of them that comes late is dropped."""
        self._forbidden: dict[PodId, str] = {}
        self._adopted: set[str] | None = None
        self._token = Token(0)
        self._dirty_nodes: dict[NodeName, None] = {}
        self._dirty_pods: dict[PodId, None] = {}
        self._observed_nodes: dict[NodeName, ObservedNode] = {}
        self._observed_pods: dict[PodId, ObservedPod] = {}
        self._given_up: frozenset[NodeName] = frozenset()
        self.silent: dict[NodeName, Instant] = {}
        """Nodes whose kubelet is silent, and since when."""

    def follow(self, listener: PodListener) -> None:
        """Tell it about pods from now on."""
        self._listeners.append(listener)

    # --- what is so -----------------------------------------------------------------------------------------------

    def take_over(self, token: Token) -> None:
        """A loop with this token leads from now on. Pods of earlier loops are its own if they are in the list of all
        pods that follows, and otherwise must not exist."""
        self._token, self._adopted = token, None

    def forbid(self, pods: Iterable[PodId], why: str) -> None:
        """These must not run any more, and are not observed if they do."""
        for pod in pods:
            self._forbidden[pod] = why
            if len(self._forbidden) > FORBIDDEN_MAX:
                del self._forbidden[next(iter(self._forbidden))]
            if (known := self.find(pod)) is not None:
                self._mark(known)

    def adopt(self, pod: OwnPod) -> None:
        """The loop that leads has ordered this very pod: it is its own, whichever loop created it."""
        if self._adopted is not None and pod.uid not in self._adopted:
            self._adopted.add(pod.uid)
            self._mark(pod)

    def take_nodes(self, changed: Iterable[NodeObject], deleted: Iterable[str], *, is_complete: bool) -> bool:
        """What a watch of nodes says. False: nothing that matters."""
        before = len(self._dirty_nodes)
        seen = set()
        for node in changed:
            name = NodeName(node.metadata.name)
            seen.add(name)
            node.metadata.resource_version = ""  # the only field that always differs
            if self._nodes.get(name) != node:
                self._nodes[name] = node
                self._dirty_nodes[name] = None
        gone = [name for name in self._nodes if name not in seen] if is_complete else list(map(NodeName, deleted))
        for name in gone:
            if self._nodes.pop(name, None) is not None:
                self._dirty_nodes[name] = None
        return len(self._dirty_nodes) > before

    def give_up(self, nodes: frozenset[NodeName]) -> bool:
        """On these nodes and no others, agents have ended all pods by now. False: that is not new."""
        for name in sorted(nodes ^ self._given_up):
            self._dirty_nodes[name] = None
        has_changed, self._given_up = nodes != self._given_up, nodes
        return has_changed

    def take_pods(self, pods: Collection[PodObject], *, complete_at: str, is_restored: bool = False) -> bool:
        """All pods that existed at this resource version. False: nothing that matters has changed. `is_restored`: the
        versions are lower than before, because the data is that of a backup."""
        existing = {pod.metadata.uid for pod in pods}
        if is_restored:
            self._forget_versions()
            for listener in self._listeners:
                listener.listed((), ALL_VERSIONS)
        has_changed = self._drop_all_but(existing, _number(complete_at))
        if self._adopted is None:
            self._adopted = existing
        for listener in self._listeners:
            listener.listed(existing, complete_at)
        for pod in pods:
            has_changed |= self.take_pod(pod)
        return has_changed

    def take_pod(self, pod: PodObject) -> bool:
        """A pod as an answer or an event shows it, unless something newer is known."""
        metadata, labels = pod.metadata, pod.metadata.labels or {}
        key = metadata.namespace, metadata.name
        if metadata.uid in self._removed:
            return False
        known = self._own.get(key)
        if known is not None and known.uid != metadata.uid:
            self.remove(known.namespace, known.name, known.uid)
            known = None
        if known is None and not self._is_ours(pod):
            return self._set_other(key, NodeName(pod.spec.node_name or ""), use_of(pod))
        for listener in self._listeners:
            listener.took(pod)
        if known is None and POD not in labels:
            return self._set_other(key, NodeName(pod.spec.node_name or ""), self._use_of_reservation(pod))
        if known is not None and _number(metadata.resource_version) < known.version:
            return False
        if known is None:
            self._set_other(key, NodeName(""), NOTHING)  # where its labels had been removed, and are back
        return self._set_own(self._read(pod, known))

    def remove(self, namespace: str, name: str, uid: str) -> bool:
        """A pod does not exist any more."""
        key = namespace, name
        self._removed[uid] = None
        if len(self._removed) > REMOVED_MAX:
            del self._removed[next(iter(self._removed))]
        for listener in self._listeners:
            listener.removed(uid)
        known = self._own.get(key)
        if known is None:
            return self._set_other(key, NodeName(""), NOTHING)
        if known.uid != uid:
            return False
        del self._own[key]
        self._kept.pop(key, None)
        self._own_on[known.node].discard(key)
        if self._by_label.get(known.label) == key:
            del self._by_label[known.label]
        self._mark(known)
        return True

    # --- what is asked ----------------------------------------------------------------------------------------------

    def find(self, pod: PodId) -> OwnPod | None:
        """The pod with this id, whatever its state."""
        key = self._by_label.get(label_value(pod))
        return self._own[key] if key is not None else None

    def node(self, name: NodeName | None) -> ObservedNode | None:
        """A node as it is now."""
        if name is None:
            return None
        return self._node_seen(name) if name in self._dirty_nodes else self._observed_nodes.get(name)

    def kept(self, workload: str) -> list[OwnPod]:
        """Pods of a workload that are kept for their output."""
        return [self._own[key] for key in self._kept if self._own[key].workload == workload]

    def is_lost(self, pod: OwnPod) -> bool:
        """Whether nothing of it can still run, because of what happened to its node."""
        node = self.node(pod.node)
        if node is None or node.gone:
            return True
        return pod.order is not None and pod.order.boot_id != node.boot_id

    def refresh(self) -> tuple[Mapping[NodeName, ObservedNode], Mapping[PodId, ObservedPod], frozenset[PodId]]:
        """Nodes and pods as the loop observes them, the same objects while they do not change, and which pods did."""
        nodes = self._refreshed_nodes()
        if nodes is not None:
            self._observed_nodes = nodes
        for key in self._to_check:
            self._check(key)
        self._to_check.clear()
        changed: dict[PodId, ObservedPod | None] = {}
        for pod in self._dirty_pods:
            known = self.find(pod)
            seen = known.observed if known is not None and self._is_seen(known) else None
            if seen != self._observed_pods.get(pod):
                changed[pod] = seen
        self._dirty_pods.clear()
        if changed:
            pods = dict(self._observed_pods)  # observations that were made keep theirs
            for pod, seen in changed.items():
                if seen is None:
                    pods.pop(pod, None)
                else:
                    pods[pod] = seen
            self._observed_pods = pods
        return self._observed_nodes, self._observed_pods, frozenset(changed)

    def leftovers(self) -> list[Leftover]:
        """Pods that the engine has to remove."""
        return list(self._leftovers.values())

    def kept_in_vain(self, is_known: Callable[[WorkloadId], bool]) -> list[OwnPod]:
        """Pods that are kept for the output of workloads that are not known any more."""
        kept = [self._own[key] for key in self._kept]
        return [pod for pod in kept if pod.order is not None and not is_known(pod.order.workload)]

    def superfluous(self) -> list[OwnPod]:
        """Pods beyond those that are kept for their output, the oldest."""
        return [self._own[key] for key in islice(self._kept, max(0, len(self._kept) - KEPT_MAX))]

    @property
    def has_leftovers(self) -> bool:
        """Whether the engine has anything to remove."""
        return bool(self._leftovers) or len(self._kept) > KEPT_MAX

    # --- changes ------------------------------------------------------------------------------------------------------

    def _forget_versions(self) -> None:
        """What was deleted may exist again, and what is older than what is known is yet what is."""
        self._removed.clear()
        self._own = {key: replace(pod, version=0) for key, pod in self._own.items()}

    def _drop_all_but(self, existing: Collection[str], listed_at: int) -> bool:
        """What a list does not contain was deleted, unless it was created after the list was made."""
        own = [pod for pod in self._own.values() if pod.uid not in existing and pod.version <= listed_at]
        for pod in own:
            self.remove(pod.namespace, pod.name, pod.uid)
        others = list(self._other_node)
        for key in others:
            self._set_other(key, NodeName(""), NOTHING)  # those that exist follow
        return bool(own or others)

    def _set_other(self, key: Key, node: NodeName, use: PodUse) -> bool:
        before = self._other_node.get(key, NodeName(""))
        if before == node and self._others_on.get(before, {}).get(key, NOTHING) == use:
            return False
        if before:
            self._others_on[before].pop(key, None)
            self._dirty_nodes[before] = None
        if use == NOTHING or not node:
            return self._other_node.pop(key, None) is not None
        self._other_node[key] = node
        self._others_on.setdefault(node, {})[key] = use
        self._dirty_nodes[node] = None
        return True

    def _set_own(self, pod: OwnPod) -> bool:
        known = self._own.get(pod.key)
        self._own[pod.key] = pod
        if known is not None and replace(known, version=pod.version) == pod:
            return False
        if pod.is_kept:
            self._kept[pod.key] = None
        self._by_label[pod.label] = pod.key
        self._own_on.setdefault(pod.node, set()).add(pod.key)
        self._mark(pod)
        return True

    def _is_ours(self, pod: PodObject) -> bool:
        """Whether an engine of this cluster created it, and what it says of itself is still what that engine wrote."""
        if (pod.metadata.labels or {}).get(MANAGED_BY) != FAIRPOOL:
            return False
        if self._signer.has_signed(pod):
            return True
        if pod.metadata.uid not in self._impostors:
            self._impostors[pod.metadata.uid] = None
            if len(self._impostors) > IMPOSTORS_MAX:
                del self._impostors[next(iter(self._impostors))]
            self._on_impostor(pod)
        return False

    def _use_of_reservation(self, pod: PodObject) -> PodUse:
        """What a pod of ours that is no workload's uses. Of a reservation, the loop knows the GPU."""
        use, labels = use_of(pod), pod.metadata.labels or {}
        if pod.metadata.namespace != RESERVATION_NAMESPACE or RESERVATION not in labels:
            return use
        return replace(use, counted=tuple(each for each in use.counted if each[0] != self._settings.gpu_resource))

    def _mark(self, pod: OwnPod) -> None:
        self._touch(pod)
        node = self._observed_nodes.get(pod.node)
        if node is None or node.gone or node.node.gpus_withheld or self._counts_as_other(pod):
            self._dirty_nodes[pod.node] = None

    def _touch(self, pod: OwnPod) -> None:
        self._to_check[pod.key] = None
        if pod.order is not None:
            self._dirty_pods[pod.order.pod] = None

    def _check(self, key: Key) -> None:
        """Whether the engine has to remove a pod."""
        self._leftovers.pop(key, None)
        pod = self._own.get(key)
        if pod is None or pod.is_kept:
            return
        if self.is_lost(pod):
            self._leftovers[key] = Leftover(pod, is_dead=True, why="its node is gone or has rebooted")
        elif why := self._must_not_run(pod):
            self._leftovers[key] = Leftover(pod, is_dead=pod.has_ended, why=why)

    def _read(self, pod: PodObject, known: OwnPod | None) -> OwnPod:
        metadata, node = pod.metadata, NodeName(pod.spec.node_name or "")
        labels = metadata.labels or {}
        # What was read once stays: editing the pod does not change what it was created for, nor by which loop.
        order = known.order if known is not None else None
        if order is None:
            order = stored_order(metadata.name, node, metadata.annotations)
        seen = observed_pod(order, pod, was_stopped=_was_stopped(known)) if order is not None else None
        if known is not None and known.observed == seen:
            seen = known.observed
        return OwnPod(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            label=label_value(order.pod) if order is not None else labels.get(POD, ""),
            workload=known.workload if known is not None else labels.get(WORKLOAD, ""),
            token=known.token if known is not None else _token(labels.get(TOKEN, "")),
            node=node,
            order=order,
            observed=seen,
            use=use_of(pod),
            has_ended=has_ended(pod),
            is_stopping=metadata.deletion_timestamp is not None,
            has_finalizer=FINALIZER in (metadata.finalizers or ()),
            is_kept=KEPT in labels and FINALIZER not in (metadata.finalizers or ()) and has_ended(pod),
            version=_number(metadata.resource_version),
        )

    # --- what is observed -------------------------------------------------------------------------------------------

    def _refreshed_nodes(self) -> dict[NodeName, ObservedNode] | None:
        nodes: dict[NodeName, ObservedNode] | None = None
        for name in self._dirty_nodes:
            seen, before = self._node_seen(name), self._observed_nodes.get(name)
            if seen == before:
                continue
            nodes = dict(self._observed_nodes) if nodes is None else nodes
            self.silent.pop(name, None)
            if seen is not None and seen.silent_since is not None and name in self._nodes:
                self.silent[name] = seen.silent_since
            if seen is None:
                del nodes[name]
            else:
                nodes[name] = seen
            if before is None or seen is None or _life(before) != _life(seen):
                for key in self._own_on.get(name, ()):
                    self._touch(self._own[key])
        self._dirty_nodes.clear()
        return nodes

    def _node_seen(self, name: NodeName) -> ObservedNode | None:
        pods = [self._own[key] for key in self._own_on.get(name, ())]
        node = self._nodes.get(name)
        if node is None:
            return deleted_node(name) if name and any(not pod.is_kept for pod in pods) else None
        others = list(self._others_on.get(name, {}).values())
        held: set[int] = set()
        for pod in pods:
            if self._counts_as_other(pod):
                others.append(pod.use)
            elif pod.order is not None and not pod.has_ended:
                held.update(pod.order.devices)
        seen = observed_node(node, total_use(others), held, self._settings)
        if name not in self._given_up or seen.silent_since is None:
            return seen
        return replace(seen, gone=True, message="the node is cut off, and its agent has ended its pods")

    def _counts_as_other(self, pod: OwnPod) -> bool:
        """Whether it uses something of its node that the loop does not know of."""
        return pod.use != NOTHING and (pod.order is None or bool(self._must_not_run(pod)))

    def _is_seen(self, pod: OwnPod) -> bool:
        node = self._observed_nodes.get(pod.node)
        is_reachable = node is not None and node.silent_since is None
        return not pod.is_kept and is_reachable and not self.is_lost(pod) and not self._must_not_run(pod)

    def _must_not_run(self, pod: OwnPod) -> str:
        """Why it must not exist; empty: it may."""
        if pod.order is not None and (why := self._forbidden.get(pod.order.pod)):
            return why
        if pod.token < self._token and self._adopted is not None and pod.uid not in self._adopted:
            return "it was created by a loop that had been fenced off"
        return ""


def _was_stopped(before: OwnPod | None) -> bool | None:
    """Whether a pod that has ended had been asked to stop before, as far as that was seen. The clocks of nodes differ
    from that of the API server, so it counts more than the times."""
    if before is None:
        return None
    if before.has_ended:
        return before.observed is not None and before.observed.after_notice
    return True if before.is_stopping else None


def _life(node: ObservedNode) -> tuple[object, ...]:
    """What decides whether the pods of a node are observed."""
    return node.boot_id, node.gone, node.silent_since is not None


def _number(version: str) -> int:
    return int(version) if version.isascii() and version.isdigit() else 0


def _token(text: str) -> Token:
    return Token(int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0)
