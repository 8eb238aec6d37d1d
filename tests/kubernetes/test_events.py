"""Kubernetes events about workloads and pods: what they say, and that they are written to a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairpool.api.clusters import WorkloadReport
from fairpool.cluster.history import Event, EventKind
from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.events import EventNote, EventRecorder, EventSubject, workload_subject
from fairpool.engines.kubernetes.kubeconfig import find_api_server
from fairpool.engines.kubernetes.names import namespace_of
from fairpool.model.ids import Instant, PodId, QueueId, WorkloadId
from fairpool.model.mentions import mention
from fairpool.model.pod_record import Cause
from fairpool.model.spec import WorkloadSpec
from fairpool.model.status import WaitReason, WorkloadPhase
from fairpool.platform.kubernetes_events import LOOK_S, REPEAT_S, WorkloadEvents
from tests.kubernetes.control_plane import ControlPlane

ID = WorkloadId("w-1")
SPEC = WorkloadSpec(id=ID, name="train", project=QueueId("team-a"), created_at=Instant(1))
LIMIT_S = 20.0


class Looking:
    """The events of a cluster, whose loop looks every two seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.notes: list[EventNote] = []
        self.events = WorkloadEvents(self.notes.append, namespace_of, lambda: self.now_s)

    def look(self, *reports: WorkloadReport, after_s: float = LOOK_S) -> list[str]:
        """What is noted then."""
        self.now_s += after_s
        before = len(self.notes)
        self.events.look({each.id: each for each in reports}, {ID: SPEC})
        return [each.message for each in self.notes[before:]]


def waiting(message: str, reason: WaitReason = WaitReason.QUEUED) -> WorkloadReport:
    return WorkloadReport(id=ID, phase=WorkloadPhase.PENDING, reason=reason, detail=message, since=Instant(1))


def test_a_workload_that_goes_on_waiting_says_why_once() -> None:
    looking, report = Looking(), waiting("4 GPUs are needed and 2 are free")
    assert looking.look(report) == [], "it may start at once"
    assert looking.look(report) == ["4 GPUs are needed and 2 are free"]
    assert looking.look(report) == []
    assert looking.look(waiting("4 GPUs are needed and 1 is free")) == ["4 GPUs are needed and 1 is free"]
    (first, _) = looking.notes
    assert (first.reason, first.is_warning) == ("FailedScheduling", True)
    assert first.about == workload_subject(ID, "train", "runai-team-a")


def test_workloads_are_looked_at_every_two_seconds() -> None:
    looking = Looking()
    assert looking.look(waiting("a")) == []
    assert [looking.look(waiting("a"), after_s=0.5) for _ in range(3)] == [[], [], []]
    assert looking.look(waiting("a"), after_s=0.5) == ["a"]


def test_it_is_said_again_before_the_api_server_forgets_it() -> None:
    looking, report = Looking(), waiting("a")
    looking.look(report)
    assert looking.look(report) == ["a"]
    assert looking.look(report, after_s=REPEAT_S) == ["a"]


def test_a_workload_that_runs_has_no_reason_to_wait() -> None:
    looking = Looking()
    running = WorkloadReport(id=ID, phase=WorkloadPhase.RUNNING, since=Instant(1))
    assert [looking.look(running) for _ in range(3)] == [[], [], []]


def test_members_of_a_project_do_not_read_the_names_of_others() -> None:
    looking = Looking()
    words = f"{mention('team-a', 'train-2', 'work')} and {mention('secret', 'team secret', 'another project')}"
    looking.look(waiting(words))
    assert looking.look(waiting(words)) == ["train-2 and another project"]


@pytest.mark.parametrize(
    ("cause", "reason", "message", "is_warning"),
    [
        (Cause.PREEMPTED, "Preempted", "so", False),
        (Cause.NODE_LOST, "NodeLost", "so", True),
        (Cause.SUSPENDED, "Suspended", "the workload was suspended; so", False),
        (Cause.IDLE_LIMIT, "IdleLimit", "so", True),
    ],
)
def test_a_pod_that_is_stopped_says_why(cause: Cause, reason: str, message: str, is_warning: bool) -> None:
    looking = Looking()
    event = Event(at=Instant(1), kind=EventKind.RELEASING, workload=ID, pod=PodId("p"), cause=cause.value, detail="so")
    looking.events.take(event, SPEC)
    assert looking.notes == [EventNote(about=PodId("p"), reason=reason, message=message, is_warning=is_warning)]


def test_a_workload_that_is_over_says_why() -> None:
    looking = Looking()
    over = Event(
        at=Instant(1), kind=EventKind.HALTED, workload=ID, cause=Cause.RETRIES.value, detail="Failed: exit code 3"
    )
    looking.events.take(over, SPEC)
    (note,) = looking.notes
    assert (note.reason, note.message, note.is_warning) == ("Failed", "exit code 3", True)
    assert note.about == workload_subject(ID, "train", "runai-team-a")


# --- on a real API server ------------------------------------------------------------------------------------------

GONE = PodId("gone")


def recorded(plane: ControlPlane, namespace: str, use: Callable[[EventRecorder], Awaitable[None]]) -> None:
    """With a recorder that writes at once, about a pod."""
    pod = EventSubject("Pod", "train-0-0-12345678", namespace, "7e7a3c4a-1111-4222-8333-444455556666")
    kubeconfig = str(plane.kubeconfig())

    async def run() -> None:
        async with KubernetesClient(find_api_server(kubeconfig)) as client:
            recorder = EventRecorder(client, lambda id_: None if id_ == GONE else pod, interval_s=0.0, same_s=0.2)
            try:
                await use(recorder)
            finally:
                await recorder.close()

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))


def found(plane: ControlPlane, namespace: str) -> list[Any]:
    return list(plane.admin.get(f"/api/v1/namespaces/{namespace}/events")["items"])


@pytest.mark.slow
def test_an_event_is_written_once_and_counts(control_plane: ControlPlane, namespace: str) -> None:
    async def use(recorder: EventRecorder) -> None:
        about = workload_subject(ID, "train", namespace)
        for message in ("first", "second", "third"):
            recorder.note(EventNote(about=about, reason="FailedScheduling", message=message, is_warning=True))
            await asyncio.sleep(0.05)
        while (await _events(control_plane, namespace))[0]["message"] != "third":
            await asyncio.sleep(0.05)

    recorded(control_plane, namespace, use)
    (event,) = found(control_plane, namespace)
    assert event["count"] == 2, "what follows too soon is written later, and only the last of it"
    assert (event["type"], event["reason"], event["source"]) == (
        "Warning",
        "FailedScheduling",
        {"component": "fairpool"},
    )
    assert event["involvedObject"]["name"] == "train"
    assert event["firstTimestamp"] <= event["lastTimestamp"]


async def _events(plane: ControlPlane, namespace: str) -> list[Any]:
    return await asyncio.to_thread(found, plane, namespace) or [{"message": ""}]


@pytest.mark.slow
def test_a_pod_is_looked_up_and_one_that_is_gone_has_no_event(control_plane: ControlPlane, namespace: str) -> None:
    async def use(recorder: EventRecorder) -> None:
        recorder.note(EventNote(about=GONE, reason="Preempted", message="so"))
        recorder.note(EventNote(about=PodId("train"), reason="Preempted", message="so"))
        while (await _events(control_plane, namespace))[0]["message"] != "so":
            await asyncio.sleep(0.05)

    recorded(control_plane, namespace, use)
    (event,) = found(control_plane, namespace)
    assert event["involvedObject"]["kind"] == "Pod"
    assert event["involvedObject"]["uid"] == "7e7a3c4a-1111-4222-8333-444455556666"
    assert event["type"] == "Normal"


@pytest.mark.slow
def test_events_that_cannot_be_written_are_left_out(control_plane: ControlPlane, namespace: str) -> None:
    async def use(recorder: EventRecorder) -> None:
        recorder.note(EventNote(about=workload_subject(ID, "train", "no-such-namespace"), reason="Queued", message="a"))
        await asyncio.sleep(0.5)

    recorded(control_plane, namespace, use)
    assert found(control_plane, namespace) == []
