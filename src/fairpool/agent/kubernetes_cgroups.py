"""Which pod of Kubernetes a process belongs to, by its control group; and the end of all processes of a pod.

Kubelets name the control group of a pod after its uid, with the driver `cgroupfs` as in `kubepods/burstable/podUID`,
with `systemd` as in `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice`, dashes written as
underscores. A pod can create groups only below its own, so the outermost name in a path counts: nothing that a pod
does gives its processes to another one.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Iterable

from fairpool.agent import process_table

POD_GROUP = re.compile(
    r"(?:kubepods(?:-burstable|-besteffort)?-)?pod"
    r"([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})(?:\.slice)?"
)


def pod_uid_in(path: str) -> str:
    """The uid of the pod whose group this path is in; empty: of no pod."""
    for part in path.split("/"):
        if (found := POD_GROUP.fullmatch(part)) is not None:
            return found[1].replace("_", "-")
    return ""


def pod_uid_of(pid: int) -> str:
    """The uid of the pod that a process belongs to; empty: to none, or the process is gone."""
    return _first(pod_uid_in(path) for path in process_table.groups(pid))


def kill_pods(uids: Collection[str]) -> dict[str, int]:
    """Kill every process of these pods; how many each had that were alive.

    The first process of a container takes all others of its PID namespace with it, so none escapes by forking. What is
    started afterwards is found by the next call.
    """
    killed: dict[str, int] = {}
    for pid in process_table.pids():
        uid = pod_uid_of(pid)
        if uid in uids and process_table.start_time(pid) is not None:
            # Asked again when the process is held: its number may be that of another one by then.
            process_table.send(pid, signal.SIGKILL, only_if=lambda pid, uid=uid: pod_uid_of(pid) == uid)  # type: ignore[misc]
            killed[uid] = killed.get(uid, 0) + 1
    return killed


def _first(words: Iterable[str]) -> str:
    return next((each for each in words if each), "")
