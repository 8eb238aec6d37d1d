"""Pods as the API server has them, read into what the loop observes. Pure.

Only the fields that matter are decoded, so that a change of any other is no change. What users and other programs have
written into a pod is not trusted: content that cannot be read means "not known", never an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from fairpool.engines.kubernetes.pod_preparation import cloned_by
from fairpool.engines.kubernetes.quantities import amount, milli
from fairpool.model.ids import Instant
from fairpool.model.observation import EVICTED, ObservedPod, PodState, StartOrder

MESSAGE_MAX = 500
OWN_FAULT = ("exceed", "Usage of EmptyDir volume")
"""In the kubelet's message about an eviction for which the pod itself is to blame."""
IMAGE_REASONS = frozenset({"ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable"})
"""Reasons that mean the same as `ErrImagePull`: the image cannot be had."""
KUBELET_DELETES_MS = 10_000
"""How long a kubelet takes until it deletes a pod that it has stopped, at most."""
KILLED = 137
NOT_EXECUTABLE = 126
"""The exit code of a pod whose program could not be started, as on one machine."""


class PodMetadata(msgspec.Struct, rename="camel", gc=False):
    """Identity, labels, and whether it is being deleted."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    generation: int | None = None
    """One more after it was asked to stop."""


class Requirements(msgspec.Struct, gc=False):
    """What a container was granted; the API server fills in requests from limits."""

    requests: dict[str, str | int | float] | None = None


class Container(msgspec.Struct, rename="camel", gc=False):
    """What a container needs."""

    resources: Requirements | None = None
    restart_policy: str | None = None
    """`Always` on an init container: it keeps running beside the others."""


class PodSpec(msgspec.Struct, rename="camel", gc=False):
    """Where a pod runs, and what it needs there."""

    node_name: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: dict[str, str | int | float] | None = None
    resources: Requirements | None = None


class WaitingState(msgspec.Struct, gc=False):
    """Why a container does not run yet."""

    reason: str | None = None
    message: str | None = None


class RunningState(msgspec.Struct, rename="camel", gc=False):
    """Since when a container runs."""

    started_at: datetime | None = None


class TerminatedState(msgspec.Struct, rename="camel", gc=False):
    """How a container ended."""

    exit_code: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(msgspec.Struct, gc=False):
    """One of three."""

    waiting: WaitingState | None = None
    running: RunningState | None = None
    terminated: TerminatedState | None = None


class ContainerStatus(msgspec.Struct, gc=False):
    """The state of one container."""

    name: str = ""
    state: ContainerState | None = None


class PodStatus(msgspec.Struct, rename="camel", gc=False):
    """What the kubelet says."""

    phase: str | None = None
    observed_generation: int | None = None
    """The generation that the kubelet knew when it wrote this; kubelets before 1.33 do not say it."""
    reason: str | None = None
    message: str | None = None
    start_time: datetime | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodObject(msgspec.Struct, gc=False):
    """A pod."""

    metadata: PodMetadata = msgspec.field(default_factory=PodMetadata)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


@dataclass(frozen=True, slots=True)
class PodUse:
    """What pods use of a node."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    pods: int = 0
    counted: tuple[tuple[str, int], ...] = ()
    """Other resources by name, sorted."""

    def of(self, resource: str) -> int:
        return next((number for name, number in self.counted if name == resource), 0)


NOTHING = PodUse()


def total_use(uses: Iterable[PodUse]) -> PodUse:
    """The sum, in one pass: pods of others may name thousands of resources."""
    cpu_milli = memory_bytes = pods = 0
    counted: dict[str, int] = {}
    for use in uses:
        cpu_milli, memory_bytes, pods = cpu_milli + use.cpu_milli, memory_bytes + use.memory_bytes, pods + use.pods
        for name, number in use.counted:
            counted[name] = counted.get(name, 0) + number
    return PodUse(cpu_milli, memory_bytes, pods, tuple(sorted(counted.items())))


def has_ended(pod: PodObject) -> bool:
    """Whether none of its containers runs or will run."""
    return pod.status.phase in ("Succeeded", "Failed")


def observed_pod(order: StartOrder, pod: PodObject, *, was_stopped: bool | None = None) -> ObservedPod:
    """What the loop observes of a pod with this order. `was_stopped`: whether it was asked to stop before it ended;
    None: the times say it."""
    main = _main(pod.status)
    if has_ended(pod):
        return _exited(order, pod, main, was_stopped)
    if pod.status.phase == "Running" or (main is not None and (main.running or main.terminated)):
        return ObservedPod(order=order, state=PodState.RUNNING, running_since=_began(main, pod.status))
    return ObservedPod(order=order, state=PodState.STARTING, message=_why_waiting(pod.status, main))


def stop_asked_at(metadata: PodMetadata) -> Instant | None:
    """When a pod was first asked to stop; None: it was not. The grace period may have been shortened since."""
    if metadata.deletion_timestamp is None:
        return None
    grace_s = metadata.deletion_grace_period_seconds or 0
    return Instant(moment(metadata.deletion_timestamp) - grace_s * 1000)


def _was_asked_before(pod: PodObject, finished_at: Instant | None) -> bool:
    """Whether a pod that has ended was asked to stop before that, by what its kubelet knew, otherwise by the times.

    A kubelet that has stopped a pod deletes it once more, without a grace period: then the time of the first request is
    lost, and the moment shortly after the end is that of the kubelet. But a kubelet does not write the status of a pod
    again that has ended: if it does not know of the request, that came later.
    """
    metadata = pod.metadata
    asked_at = stop_asked_at(metadata)
    if asked_at is None:
        return False
    if (pod.status.observed_generation or metadata.generation or 0) < (metadata.generation or 0):
        return False
    if finished_at is None:
        return True
    patience_ms = 0 if metadata.deletion_grace_period_seconds else KUBELET_DELETES_MS
    return finished_at >= asked_at - patience_ms


def use_of(pod: PodObject) -> PodUse:
    """What a pod holds of its node, as the default scheduler counts it."""
    spec = pod.spec
    if has_ended(pod) or not spec.node_name:
        return NOTHING
    beside: dict[str, int] = {}
    first: dict[str, int] = {}
    for container in spec.init_containers or ():
        for name, number in _requests(container.resources).items():
            if container.restart_policy == "Always":
                beside[name] = beside.get(name, 0) + number
            else:
                first[name] = max(first.get(name, 0), beside.get(name, 0) + number)
    found = _larger(_added(_sum(spec.containers or ()), beside), first)
    found = {**found, **_requests(spec.resources)}
    found = _added(found, _numbers(spec.overhead))
    counted = {name: number for name, number in found.items() if name not in ("cpu", "memory", "ephemeral-storage")}
    rest = tuple(sorted((name, number) for name, number in counted.items() if number))
    return PodUse(found.get("cpu", 0), found.get("memory", 0), 1, rest)


def moment(at: datetime) -> Instant:
    return Instant(round(at.timestamp() * 1000))


# --- states


def _main(status: PodStatus) -> ContainerState | None:
    """The state of the program's own container: the first, in pods of ours the only one."""
    statuses = status.container_statuses or ()
    return statuses[0].state if statuses else None


def _began(main: ContainerState | None, status: PodStatus) -> Instant | None:
    at = None
    if main is not None and main.running is not None:
        at = main.running.started_at
    elif main is not None and main.terminated is not None:
        at = main.terminated.started_at
    at = at if at is not None else status.start_time
    return moment(at) if at is not None else None


def _why_waiting(status: PodStatus, main: ContainerState | None) -> str:
    """`ImagePullBackOff: …`; empty while nothing is wrong."""
    states = [main, *(each.state for each in status.init_container_statuses or ())]
    for state in states:
        waiting = state.waiting if state is not None else None
        if waiting is None or waiting.reason in (None, "", "ContainerCreating", "PodInitializing"):
            continue
        reason = f"ErrImagePull: {waiting.reason}" if waiting.reason in IMAGE_REASONS else waiting.reason or ""
        return _short(f"{reason}: {waiting.message}" if waiting.message else reason)
    return _short(status.message or "")


def _exited(order: StartOrder, pod: PodObject, main: ContainerState | None, was_stopped: bool | None) -> ObservedPod:
    end = main.terminated if main is not None else None
    if was_stopped is None:
        finished_at = moment(end.finished_at) if end is not None and end.finished_at is not None else None
        was_stopped = _was_asked_before(pod, finished_at)
    message, by_node = _why_ended(pod.status, end)
    has_run = end is not None and end.started_at is not None
    exit_code = end.exit_code if end is not None else None
    if end is None and not by_node and (words := _why_not_prepared(order, pod.status)):
        message, exit_code = words, NOT_EXECUTABLE
    return ObservedPod(
        order=order,
        state=PodState.EXITED,
        exit_code=exit_code,
        message=message,
        running_since=_began(main, pod.status) if has_run else None,
        after_notice=was_stopped or by_node,
    )


def _why_not_prepared(order: StartOrder, status: PodStatus) -> str:
    """Why its program was not started: a volume could not be filled. Empty: that was not it."""
    for each in status.init_container_statuses or ():
        end = each.state.terminated if each.state is not None else None
        if end is None or not end.exit_code:
            continue
        words = " ".join((end.message or end.reason or "").split()) or f"exit code {end.exit_code}"
        repository = cloned_by(each.name, order)
        return _short(f"cannot clone {repository}: {words}" if repository else words)
    return ""


def _why_ended(status: PodStatus, end: TerminatedState | None) -> tuple[str, bool]:
    """By what it was killed, and whether its node did it: then that is no failure of the pod."""
    if status.reason:
        words = f"{status.reason}: {status.message}" if status.message else status.reason
        is_own_fault = status.reason == "Evicted" and any(each in (status.message or "") for each in OWN_FAULT)
        if is_own_fault:
            return _short(f"{EVICTED}{status.message}"), True
        # Without the word that would make it the pod's own fault.
        return _short(words.removeprefix(EVICTED)), True
    if end is None:
        return _short(status.message or ""), False
    if end.reason in (None, "", "Completed", "Error"):
        return _short(end.message or ""), False
    return _short(f"{end.reason}: {end.message}" if end.message else end.reason or ""), False


def _short(text: str) -> str:
    return text if len(text) <= MESSAGE_MAX else f"{text[:MESSAGE_MAX]}…"


# --- what it uses


def _requests(resources: Requirements | None) -> dict[str, int]:
    return _numbers(resources.requests if resources is not None else None)


def _numbers(quantities: Mapping[str, str | int | float] | None) -> dict[str, int]:
    return {name: milli(str(text)) if name == "cpu" else amount(str(text)) for name, text in (quantities or {}).items()}


def _sum(containers: Iterable[Container]) -> dict[str, int]:
    """In time that grows with the containers only: a pod may have thousands."""
    found: dict[str, int] = {}
    for container in containers:
        for name, number in _requests(container.resources).items():
            found[name] = found.get(name, 0) + number
    return found


def _added(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in first | second}


def _larger(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in first | second}
