"""Which pod a caller means, where a workload has several or had several: for logs, exec and attach.

The server and the commands choose by the same rules. It works on anything with the attributes of a `PodItem`, and
imports nothing, because commands use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairpool.api.workloads import PodItem

PODS_NAMED = 20


def has_log(pod: PodItem) -> bool:
    """Whether it came far enough that it may have written something."""
    return pod.started_at is not None or (pod.exit_code is not None and pod.cause != "image-pull")


def pod_to_read(pods: Sequence[PodItem]) -> PodItem | None:
    """The pod whose log is the log of a workload: the first one that runs; else the one that failed last; else the
    latest incarnation of the first index that has a log; else its latest. Pods come by index, then incarnation."""
    running = next((pod for pod in pods if pod.current and pod.phase == "running"), None)
    if running is not None or not pods:
        return running
    newest = {pod.index: pod for pod in pods if has_log(pod)}
    failed = [pod for pod in newest.values() if pod.outcome == "error"]
    if failed:
        return max(failed, key=lambda pod: (pod.since, -pod.index))
    return newest.get(pods[0].index) or [pod for pod in pods if pod.index == pods[0].index][-1]


def pod_called(pods: Sequence[PodItem], called: str) -> PodItem | None:
    """The pod with this id or name (`train-1-0-2`), or the latest with this index and a log."""
    exact = next((pod for pod in pods if called in (pod.id, pod.name)), None)
    if exact is not None or not called.isdecimal():
        return exact
    same_index = [pod for pod in pods if str(pod.index) == called]
    return next((pod for pod in reversed(same_index) if has_log(pod)), same_index[-1] if same_index else None)


def pods_there(pods: Sequence[PodItem]) -> str:
    """Which pods can be named, by index or by name."""
    current = [pod for pod in pods if pod.current]
    if not current:
        return "the job has no pods yet"
    named = ", ".join(f"{pod.index} ({pod.name})" for pod in current[:PODS_NAMED])
    more = f" and {len(current) - PODS_NAMED} more" if len(current) > PODS_NAMED else ""
    return f"existing pods: {named}{more}"
