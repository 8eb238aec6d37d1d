"""Whether a workload may have pods, and whether a pod may be placed and started now. Every such rule is here.

| gate           | closed while                                                              | decided by        |
|----------------|---------------------------------------------------------------------------|-------------------|
| may have pods  | it is not declared, suspended or deleted                                  | the declaration   |
|                | it has ended: completed, failed, time limit, deadline, failed dependency, | `workload_end.py` |
|                | or an interactive job that was evicted or lost                            |                   |
|                | a workload it depends on has not finished                                 | `dependencies.py` |
| may be placed  | its back-off after a failure is not over                                  | `failures.py`     |
| may be started | an earlier pod with the same index has not ended                          | the ledger        |
|                | the engine postponed the start less than a retry interval ago             | `settle.py`       |
|                | of a launcher: one of its workers has not started                         | the ledger        |

Priority, quota and free devices are the scheduler's business and are not gates.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.cluster.dependencies import unmet_dependencies
from fairpool.cluster.failures import LONGEST_BACK_OFF_S
from fairpool.cluster.pod_slots import counted_pods
from fairpool.cluster.settle import LONGEST_RETRY_S
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.ids import Instant, is_ahead
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import PodRecord
from fairpool.model.spec import DesiredState, WorkloadSpec


def should_run(spec: WorkloadSpec, state: WorkloadState) -> bool:
    """Whether a workload is meant to run and has not ended in this run."""
    return spec.desired_state is DesiredState.RUN and state.halt is None


def may_have_pods(spec: WorkloadSpec, state: WorkloadState) -> bool:
    """Whether missing pods are created."""
    return should_run(spec, state) and not unmet_dependencies(spec, state)


def is_backing_off(pod: PodRecord, now: Instant) -> bool:
    """Whether a pod must not be placed yet."""
    return is_ahead(pod.not_before, now, LONGEST_BACK_OFF_S)


def workers_have_started(spec: WorkloadSpec, pod: PodRecord, pods: Sequence[PodRecord]) -> bool:
    """Whether a launcher reaches all its workers; pods of every other kind wait for no other."""
    if not spec.has_launcher or pod.index != 0:
        return True
    workers = [counted for index, counted in counted_pods(spec, pods).items() if index > 0]
    return len(workers) == spec.pods - 1 and all(each.phase is PodPhase.RUNNING or each.is_over for each in workers)


def may_start(pod: PodRecord, now: Instant, *, alone: bool, ready: bool = True) -> bool:
    """Whether the start order of a bound pod may be sent. `alone`: every earlier pod of its index has ended; `ready`:
    its workers have started."""
    return alone and ready and not is_postponed(pod, now)


def is_postponed(pod: PodRecord, now: Instant) -> bool:
    """Whether the engine could not start a bound pod a moment ago, and is not asked again yet."""
    return is_ahead(pod.retry_at, now, LONGEST_RETRY_S)
