"""Settles one pod: ledger against observation.

| ledger    | starting | running    | exited  | absent         | node silent | node removed | node gone or rebooted |
|-----------|----------|------------|---------|----------------|-------------|--------------|-----------------------|
| BOUND     | –³⁴      | → RUNNING³ | → ENDED | – (start due)² | –           | → RELEASING  | → ENDED, lost         |
| RUNNING   | –³       | –³         | → ENDED | → RELEASING    | –           | → RELEASING  | → ENDED, lost         |
| RELEASING | –        | –          | → ENDED | → ENDED¹       | –           | → ENDED¹     | → ENDED               |

¹ Only after the engine has confirmed the stop: until then a start order that is still on its way could arrive later,
  and a process that the engine has lost track of could still run.
² If its node still offers its devices; otherwise → RELEASING.
³ If its node is offered in the boot it was bound to; otherwise → RELEASING: an observed pod exists, whatever its node.
⁴ If its image cannot be pulled → RELEASING: its devices are freed, and it is retried after a back-off.
  Likewise, if its start is put off several times for want of a credential.
The engine is observed before anything is decided, so a pod that is absent really is absent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.lifecycle import PodPhase
from fairpool.model.observation import CONFIG_ERROR, EVICTED, ObservedNode, ObservedPod, OrderResult, OrderStatus
from fairpool.model.pod_record import EVICTIONS, LOSSES, Cause, Outcome, PodRecord

FIRST_RETRY_S = 1
LONGEST_RETRY_S = 30
CONFIG_TRIES = 3
"""How often a start is tried without what users declare for it, before the pod gives its devices back."""
IMAGE_ERRORS = ("ErrImagePull", "ImagePullBackOff")
"""How engines begin the message of a pod whose image cannot be pulled."""


class Observed(StrEnum):
    """What the engine observes of one pod."""

    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    ABSENT = "absent"
    NODE_SILENT = "node-silent"
    """Its node does not respond: unknown."""
    NODE_REMOVED = "node-removed"
    """The engine no longer offers its node. That does not end the pods on it."""
    NODE_GONE = "node-gone"
    """Its node is gone or was rebooted since: no pod on it can still run."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that an observation says about one pod."""

    pod: ObservedPod | None = None
    node: ObservedNode | None = None
    answer: OrderResult | None = None
    """To the last order for it, if there was one since."""
    stop_confirmed: bool = False
    confirmed_grace_s: int = 0
    """The shortest grace period of a confirmed stop."""

    def observed_phase(self, pod: PodRecord) -> Observed:
        if self.pod is not None:
            return Observed(self.pod.state.value)
        if self.node is None:
            return Observed.NODE_REMOVED
        if not self.has_its_node(pod):
            return Observed.NODE_GONE
        return Observed.ABSENT if self.node.silent_since is None else Observed.NODE_SILENT

    def has_its_node(self, pod: PodRecord) -> bool:
        """Whether the node it is bound to exists, in the same boot."""
        return self.node is not None and not self.node.gone and self.node.boot_id == pod.boot_id


def settle(pod: PodRecord, evidence: Evidence, now: Instant) -> PodRecord:
    """The pod after the observation."""
    if not pod.is_placed:
        return pod
    match pod.phase, evidence.observed_phase(pod):
        case _, Observed.EXITED:
            return _exited(pod, evidence.pod, now)
        case (
            PodPhase.BOUND | PodPhase.RUNNING,
            Observed.STARTING | Observed.RUNNING | Observed.NODE_REMOVED,
        ) if not evidence.has_its_node(pod):
            return _node_removed(pod, evidence.pod, now)
        case PodPhase.BOUND, Observed.RUNNING:
            since = evidence.pod.running_since if evidence.pod is not None else None
            return pod.move(PodPhase.RUNNING, now, started_at=since if since is not None else now, start_failure="")
        case PodPhase.BOUND, Observed.STARTING:
            return _starting(pod, evidence.pod, now)
        case PodPhase.BOUND, Observed.ABSENT if evidence.node is not None and not evidence.node.node.offers(
            pod.devices
        ):
            return pod.release(now, Cause.NODE_LOST, f"node {pod.node} no longer has {_gpus(pod)} available")
        case PodPhase.BOUND, Observed.ABSENT:
            return _start_answered(pod, evidence.answer, now)
        case PodPhase.RUNNING, Observed.ABSENT:
            return pod.release(now, Cause.VANISHED, "its process disappeared")
        case PodPhase.RELEASING, Observed.ABSENT | Observed.NODE_REMOVED if evidence.stop_confirmed:
            return pod.end(now, _stopped_outcome(pod), pod.cause or Cause.UNWANTED)
        case PodPhase.RELEASING, Observed.NODE_GONE:
            return pod.end(now, _stopped_outcome(pod), pod.cause or Cause.NODE_LOST)
        case _, Observed.NODE_GONE:
            return pod.end(now, Outcome.LOST, Cause.NODE_LOST, f"node {pod.node} was lost or rebooted")
    return pod


def _node_removed(pod: PodRecord, observed: ObservedPod | None, now: Instant) -> PodRecord:
    """The pod may still run: it is stopped, and has ended when the engine confirms that."""
    if observed is not None and pod.started_at is None:
        pod = replace(pod, started_at=observed.running_since)
    return pod.release(now, Cause.NODE_LOST, f"node {pod.node} was removed")


def _gpus(pod: PodRecord) -> str:
    numbers = ", ".join(map(str, pod.devices))
    return f"GPU {numbers}" if len(pod.devices) == 1 else f"GPUs {numbers}"


def _exited(pod: PodRecord, observed: ObservedPod | None, now: Instant) -> PodRecord:
    """It exited. If it succeeded before it got the stop signal, that counts; otherwise it was stopped for its cause."""
    assert observed is not None
    code = observed.exit_code
    if pod.phase is PodPhase.RELEASING and (observed.after_notice or code != 0):
        return pod.end(now, _stopped_outcome(pod), pod.cause or Cause.UNWANTED, exit_code=code)
    words = _why_evicted(observed)
    if observed.after_notice and not words:
        return pod.end(now, Outcome.LOST, Cause.NODE_LOST, observed.message or "its node stopped it", code)
    outcome = Outcome.OK if code == 0 and not words else Outcome.ERROR
    words = words or observed.message or (f"exit code {code}" if code is not None else "exit code unknown")
    ended = pod.move(
        PodPhase.ENDED, now, outcome=outcome, cause=Cause.EXITED, detail=words, exit_code=code, start_failure=""
    )
    return ended if ended.started_at is not None else replace(ended, started_at=observed.running_since)


def _why_evicted(observed: ObservedPod) -> str:
    """The message of an engine that evicted a pod for what it did; empty: it did not."""
    _, evicted, words = observed.message.partition(EVICTED)
    return f"{EVICTED}{words.partition(', and killed')[0]}" if observed.after_notice and evicted else ""


def _stopped_outcome(pod: PodRecord) -> Outcome:
    if pod.cause in (Cause.IMAGE, Cause.REFUSED):
        return Outcome.ERROR
    if pod.cause in LOSSES and pod.started_at is not None:
        return Outcome.LOST
    return Outcome.EVICTED if pod.cause in EVICTIONS else Outcome.STOPPED


def _starting(pod: PodRecord, observed: ObservedPod | None, now: Instant) -> PodRecord:
    words = observed.message if observed is not None else ""
    if words.startswith(IMAGE_ERRORS):
        return pod.release(now, Cause.IMAGE, words)
    return pod if words == pod.start_failure else replace(pod, start_failure=words)


def _start_answered(pod: PodRecord, answer: OrderResult | None, now: Instant) -> PodRecord:
    """A start that did not happen: retry later, or end the pod if it was refused."""
    if answer is None or answer.status is OrderStatus.DONE:
        return pod
    if answer.message.startswith(CONFIG_ERROR) and pod.attempts >= CONFIG_TRIES:
        return pod.release(now, Cause.REFUSED, answer.message)  # its devices are freed until the next try
    if answer.status is OrderStatus.REFUSED:
        return pod.end(now, Outcome.ERROR, Cause.REFUSED, f"node {pod.node} could not start it: {answer.message}")
    wait_s = min(FIRST_RETRY_S << min(pod.attempts, 10), LONGEST_RETRY_S)
    return replace(
        pod,
        attempts=pod.attempts + 1,
        retry_at=Instant(now + wait_s * SECOND_MS),
        start_failure=answer.message or "the engine did not answer",
    )
