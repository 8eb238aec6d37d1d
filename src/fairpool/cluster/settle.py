"""What has happened to one life: the ledger's word against what the engine sees. A table, and nothing more.

| ledger    | starting | running    | exited  | nothing        | node silent | not offered | node gone or rebooted |
|-----------|----------|------------|---------|----------------|-------------|-------------|-----------------------|
| BOUND     | –³⁴      | → RUNNING³ | → ENDED | – (start owed)²| –           | → RELEASING | → ENDED, lost         |
| RUNNING   | –³       | –³         | → ENDED | → RELEASING    | –           | → RELEASING | → ENDED, lost         |
| RELEASING | –        | –          | → ENDED | → ENDED¹       | –           | → ENDED¹    | → ENDED               |

¹ Only after the engine has confirmed the stop: until then a start that is still under way could come after it, and a
  process that the engine has lost sight of could still run.
² If its node still offers its devices; otherwise → RELEASING.
³ If its node is offered in the boot it was bound to; otherwise → RELEASING: what is seen is there, whatever its node.
⁴ If its image cannot be had → RELEASING: it gives its devices back, and is tried again after a back-off.
An observation always begins after the last thing was written (the loop looks first), so that absence means absence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.lifecycle import PodPhase
from fairpool.model.observation import EVICTED, ObservedNode, ObservedPod, OrderResult, OrderStatus
from fairpool.model.pod_record import EVICTIONS, LOSSES, Cause, Outcome, PodRecord

FIRST_RETRY_S = 1
LONGEST_RETRY_S = 30
IMAGE_TROUBLES = ("ErrImagePull", "ImagePullBackOff")
"""What engines begin with when a pod does not start for want of its image."""


class Seen(StrEnum):
    """What the engine sees of one life."""

    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    NOTHING = "nothing"
    SILENT = "silent"
    """Its node does not answer: nobody knows."""
    UNOFFERED = "unoffered"
    """The engine offers no such node any more. That does not end what ran there."""
    GONE = "gone"
    """The engine calls its node gone, or it was rebooted since: nothing of what ran there can still run."""


@dataclass(frozen=True, slots=True)
class Look:
    """All that one look says about one life."""

    pod: ObservedPod | None = None
    node: ObservedNode | None = None
    answer: OrderResult | None = None
    """To the last order about it, if one came since."""
    stop_confirmed: bool = False
    confirmed_grace_s: int = 0
    """The shortest grace with which it was."""

    def seen(self, life: PodRecord) -> Seen:
        if self.pod is not None:
            return Seen(self.pod.state.value)
        if self.node is None:
            return Seen.UNOFFERED
        if not self.has_its_node(life):
            return Seen.GONE
        return Seen.NOTHING if self.node.silent_since is None else Seen.SILENT

    def has_its_node(self, life: PodRecord) -> bool:
        """Whether the node it is bound to is there, in the same boot."""
        return self.node is not None and not self.node.gone and self.node.boot_id == life.boot_id


def settle(life: PodRecord, look: Look, now: Instant) -> PodRecord:
    """The life after the look."""
    if not life.is_placed:
        return life
    match life.phase, look.seen(life):
        case _, Seen.EXITED:
            return _exited(life, look.pod, now)
        case PodPhase.BOUND | PodPhase.RUNNING, Seen.STARTING | Seen.RUNNING | Seen.UNOFFERED if not look.has_its_node(
            life
        ):
            return _homeless(life, look.pod, now)
        case PodPhase.BOUND, Seen.RUNNING:
            since = look.pod.running_since if look.pod is not None else None
            return life.move(PodPhase.RUNNING, now, started_at=since if since is not None else now, trouble="")
        case PodPhase.BOUND, Seen.STARTING:
            return _troubled(life, look.pod, now)
        case PodPhase.BOUND, Seen.NOTHING if look.node is not None and not look.node.node.offers(life.devices):
            return life.release(now, Cause.NODE_LOST, f"node {life.node} no longer has {_gpus(life)} available")
        case PodPhase.BOUND, Seen.NOTHING:
            return _answered(life, look.answer, now)
        case PodPhase.RUNNING, Seen.NOTHING:
            return life.release(now, Cause.VANISHED, "its process disappeared")
        case PodPhase.RELEASING, Seen.NOTHING | Seen.UNOFFERED if look.stop_confirmed:
            return life.end(now, _when_told(life), life.cause or Cause.UNWANTED)
        case PodPhase.RELEASING, Seen.GONE:
            return life.end(now, _when_told(life), life.cause or Cause.NODE_LOST)
        case _, Seen.GONE:
            return life.end(now, Outcome.LOST, Cause.NODE_LOST, f"node {life.node} was lost or rebooted")
    return life


def _homeless(life: PodRecord, pod: ObservedPod | None, now: Instant) -> PodRecord:
    """Its node was taken away and it may run on: it is stopped, and has ended when the engine says so."""
    if pod is not None and life.started_at is None:
        life = replace(life, started_at=pod.running_since)
    return life.release(now, Cause.NODE_LOST, f"node {life.node} was removed")


def _gpus(life: PodRecord) -> str:
    numbers = ", ".join(map(str, life.devices))
    return f"GPU {numbers}" if len(life.devices) == 1 else f"GPUs {numbers}"


def _exited(life: PodRecord, pod: ObservedPod | None, now: Instant) -> PodRecord:
    """It ended. If it had done its work before it was told to stop, that counts; otherwise the notice is the cause."""
    assert pod is not None
    code = pod.exit_code
    if life.phase is PodPhase.RELEASING and (pod.after_notice or code != 0):
        return life.end(now, _when_told(life), life.cause or Cause.UNWANTED, exit_code=code)
    words = _why_evicted(pod)
    if pod.after_notice and not words:
        return life.end(now, Outcome.LOST, Cause.NODE_LOST, pod.message or "its node stopped it", code)
    outcome = Outcome.OK if code == 0 and not words else Outcome.ERROR
    words = words or pod.message or (f"exit code {code}" if code is not None else "exit code unknown")
    ended = life.move(
        PodPhase.ENDED, now, outcome=outcome, cause=Cause.EXITED, detail=words, exit_code=code, trouble=""
    )
    return ended if ended.started_at is not None else replace(ended, started_at=pod.running_since)


def _why_evicted(pod: ObservedPod) -> str:
    """What the engine says of a pod that it stopped for what it did; empty: it did not."""
    _, evicted, words = pod.message.partition(EVICTED)
    return f"{EVICTED}{words.partition(', and killed')[0]}" if pod.after_notice and evicted else ""


def _when_told(life: PodRecord) -> Outcome:
    if life.cause is Cause.IMAGE:
        return Outcome.ERROR
    if life.cause in LOSSES and life.started_at is not None:
        return Outcome.LOST
    return Outcome.EVICTED if life.cause in EVICTIONS else Outcome.STOPPED


def _troubled(life: PodRecord, pod: ObservedPod | None, now: Instant) -> PodRecord:
    words = pod.message if pod is not None else ""
    if words.startswith(IMAGE_TROUBLES):
        return life.release(now, Cause.IMAGE, words)
    return life if words == life.trouble else replace(life, trouble=words)


def _answered(life: PodRecord, answer: OrderResult | None, now: Instant) -> PodRecord:
    """A start that did not happen: ask again after a while, or give this place up."""
    if answer is None or answer.status is OrderStatus.DONE:
        return life
    if answer.status is OrderStatus.REFUSED:
        return life.end(now, Outcome.ERROR, Cause.REFUSED, f"node {life.node} could not start it: {answer.message}")
    wait_s = min(FIRST_RETRY_S << min(life.attempts, 10), LONGEST_RETRY_S)
    return replace(
        life,
        attempts=life.attempts + 1,
        retry_at=Instant(now + wait_s * SECOND_MS),
        trouble=answer.message or "the engine did not answer",
    )
