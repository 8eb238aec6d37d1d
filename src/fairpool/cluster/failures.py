"""Failures of pods: how they are counted, the back-off before a retry, and their description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fairpool.cluster.workload_state import AvoidedNode, WorkloadState
from fairpool.model.ids import SECOND_MS, Instant, is_ahead
from fairpool.model.observation import CONFIG_ERROR
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.spec import Arrangement, WorkloadSpec

FIRST_BACK_OFF_S = 10
LONGEST_BACK_OFF_S = 300
LONG_RUN_S = 600
"""A pod that ran this long before it failed is retried after the shortest back-off."""
REFUSALS_MAX = 10
"""Starts that nodes may refuse before a workload fails."""
AVOID_S = 600
"""How long a workload avoids a node that refused one of its pods."""

UNSTARTED = frozenset({Cause.REFUSED, Cause.IMAGE})
"""Failures before the program was started: they do not count against the workload's retries."""


def with_failures(state: WorkloadState, spec: WorkloadSpec, ended: Sequence[PodRecord], now: Instant) -> WorkloadState:
    """Count the failures and refusals among pods that have just ended, and note which nodes to avoid."""
    failed = failed_pods(state, ended)
    unstarted = [pod for pod in failed if pod.cause in UNSTARTED]
    avoided = avoided_nodes(state, now)
    for pod in failed:
        if pod.cause is Cause.REFUSED and not pod.detail.startswith(CONFIG_ERROR):
            assert pod.node is not None
            until = Instant(now + AVOID_S * SECOND_MS)
            avoided = (*(each for each in avoided if each.node != pod.node), AvoidedNode(pod.node, until))
    if not failed and avoided == state.avoided:
        return state
    state = replace(
        state,
        refusals=state.refusals + len({pod.node for pod in unstarted}),  # a bad node counts once
        failure=failure_text(spec, state, unstarted[-1]) if unstarted else state.failure,
        avoided=avoided,
    )
    return _with_exits(state, spec, [pod for pod in failed if pod.cause not in UNSTARTED], now)


def _with_exits(state: WorkloadState, spec: WorkloadSpec, failed: Sequence[PodRecord], now: Instant) -> WorkloadState:
    """Count pods whose program failed. The failure of one pod of a gang makes its peers fail: until they are tried
    again, that is one failure, described by its first pod."""
    if not failed:
        return state
    together = spec.arrangement is Arrangement.TOGETHER
    if together and _awaits_retry(state, now):
        return state
    first_or_last = failed[0] if together else failed[-1]
    state = replace(
        state,
        failures=state.failures + (1 if together else len(failed)),
        failure=failure_text(spec, state, first_or_last),
    )
    return replace(state, retry_at=_back_off_after(state, first_or_last, now)) if together else state


def _awaits_retry(state: WorkloadState, now: Instant) -> bool:
    return is_ahead(state.retry_at, now, LONGEST_BACK_OFF_S)


def avoided_nodes(state: WorkloadState, now: Instant) -> tuple[AvoidedNode, ...]:
    """The nodes that a workload avoids at this moment."""
    return tuple(each for each in state.avoided if is_ahead(each.until, now, AVOID_S))


def failed_pods(state: WorkloadState, ended: Sequence[PodRecord]) -> list[PodRecord]:
    """The failures of this run among pods that have ended."""
    return [pod for pod in ended if pod.outcome is Outcome.ERROR and pod.run == state.run]


def back_off_until(state: WorkloadState, last: PodRecord | None, now: Instant) -> Instant:
    """When the replacement of a pod may be placed: after a failure it waits, twice as long each time."""
    if last is None or last.run != state.run:
        return Instant(0)
    if last.outcome not in (Outcome.ERROR, Outcome.OK) and last.cause is not Cause.VANISHED:
        return Instant(0)
    if last.outcome is Outcome.ERROR and last.cause not in UNSTARTED and _awaits_retry(state, now):
        return state.retry_at  # with the other pods of its gang
    return _back_off_after(state, last, now)


def _back_off_after(state: WorkloadState, last: PodRecord, now: Instant) -> Instant:
    ran_long = last.started_at is not None and last.since - last.started_at >= LONG_RUN_S * SECOND_MS
    tries = state.refusals if last.cause in UNSTARTED else state.failures
    doublings = 0 if ran_long else max(tries - 1, 0)
    wait_s = min(FIRST_BACK_OFF_S << min(doublings, 10), LONGEST_BACK_OFF_S)
    return Instant(now + wait_s * SECOND_MS)


def failure_text(spec: WorkloadSpec, state: WorkloadState, pod: PodRecord) -> str:
    """How a pod failed: `pod 1 of sweep3 (try 2) failed with exit code 3`."""
    words = pod.detail or "how it ended is not known"
    if pod.cause not in UNSTARTED:
        words = f"failed with {words}" if words.startswith("exit code") else f"failed: {words}"
    if max(spec.pods, spec.completions or 1) == 1:
        return words
    return f"{pod_label(spec, state, pod)}{':' if pod.cause in UNSTARTED else ''} {words}"


def pod_label(spec: WorkloadSpec, state: WorkloadState, pod: PodRecord) -> str:
    """A pod by its index and try, as messages name it; ids are for programs."""
    first = state.first_incarnation if pod.incarnation >= state.first_incarnation else 0
    return f"pod {pod.index} of {spec.name} (try {pod.incarnation - first + 1})"
