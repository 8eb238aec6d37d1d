"""Where a workload stands, from what is wanted of it and how its pods are: phase, reason and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import pytest

from fairpool.api.clusters import WorkloadReport
from fairpool.cluster.rollup import rollup
from fairpool.cluster.workload_state import Halt, WorkloadState
from fairpool.model.ids import GroupId, Instant, NodeName, PoolName, WorkloadId
from fairpool.model.node import Node
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.precedence import gpus_charged_milli
from fairpool.model.spec import Arrangement, Dependency, DesiredState, PodTemplate, WorkloadSpec
from fairpool.model.status import WaitReason, WorkloadPhase
from fairpool.model.workload import GpuRequest, PodShape, gpu_memory, gpu_portion, whole_gpus
from fairpool.scheduler.decision import NotReady, Verdict
from tests.pod_records import (
    BOUND,
    BUILD,
    ENDED,
    INFERENCE,
    PROMISED,
    RELEASING,
    RUNNING,
    WAITING,
    at,
    observed_node,
    record,
    spec,
    state,
)

NOW = at(60)
GANG = spec(pods=2)
LED = spec(pods=2, leader=PodTemplate())
SWEEP = spec(pods=2, arrangement=Arrangement.SWEEP, completions=3)
ELASTIC = spec(pods=3, minimum=1)
ELASTIC_PAIR = spec(pods=3, minimum=2)
AFTER_PREP = spec(after=(Dependency(workload=WorkloadId("w-1"), name="prep"),))
SERVERS = spec(INFERENCE, pods=2, arrangement=Arrangement.REPLICAS)


POOLS = [PoolName(name) for name in ("default", "a100", "v100")]


def report(
    of: WorkloadSpec,
    pods: Sequence[PodRecord],
    *,
    stand: WorkloadState | None = None,
    silent: Sequence[str] = (),
    verdicts: Mapping[GroupId, Verdict] = MappingProxyType({}),
    now: Instant = NOW,
) -> WorkloadReport:
    nodes = {NodeName(name): observed_node(name) for name in ("n1", "n2")}
    for name in silent:
        nodes[NodeName(name)] = observed_node(name, silent_since=at(30))
    return rollup(of, stand or state(), pods, verdicts=verdicts, nodes=nodes, pools=POOLS, now=now)


def runs(name: str, on: str = "n1", **more: Any) -> PodRecord:
    return record(name, RUNNING, on=on, **{"started_at": at(10), "since": at(10), **more})


def starts(name: str, start_failure: str = "") -> PodRecord:
    return record(name, BOUND, on="n1", start_failure=start_failure)


def leaves(name: str, cause: Cause, detail: str = "") -> PodRecord:
    return record(name, RELEASING, on="n1", cause=cause, detail=detail)


def ended(name: str, outcome: Outcome) -> PodRecord:
    return record(name, ENDED, on="n1", outcome=outcome)


def backs_off(name: str) -> PodRecord:
    return record(name, not_before=at(61))


def halted(phase: WorkloadPhase, cause: Cause, detail: str = "") -> WorkloadState:
    return state(halt=Halt(phase, cause, at(50), detail))


@dataclass(frozen=True, kw_only=True)
class When:
    """A workload and how it is."""

    of: WorkloadSpec = field(default_factory=spec)
    pods: tuple[PodRecord, ...] = ()
    stand: WorkloadState | None = None
    silent: tuple[str, ...] = ()
    then: str
    """Phase, reason and words, as far as there are any."""


FINISHED = halted(WorkloadPhase.COMPLETED, Cause.FINISHED)
STATUSES = {
    "one that depends on another waits for its end": When(
        of=AFTER_PREP,
        then="Pending, dependency: waits for prep to finish",
    ),
    "one whose dependency is met waits for a place": When(
        of=AFTER_PREP,
        pods=(record("a-0-0"),),
        stand=state(met=(WorkloadId("w-1"),)),
        then="Pending, queued: has not been considered by the scheduler yet",
    ),
    "one that waits is pending": When(
        pods=(record("a-0-0"),),
        then="Pending, queued: has not been considered by the scheduler yet",
    ),
    "one that has a promise is pending": When(
        pods=(record("a-0-0", PROMISED, on="n1"),),
        then="Pending, queued: has not been considered by the scheduler yet",
    ),
    "one that has failed waits for another try": When(
        pods=(ended("a-0-0", Outcome.ERROR), backs_off("a-0-1")),
        stand=state(failures=1, failure="failed with exit code 3"),
        then="Pending, back-off: failed with exit code 3; waiting for try 2 of 7; it holds no GPU until then",
    ),
    "one that may fail as often as it likes does not say of how many": When(
        of=SERVERS,
        pods=(backs_off("a-0-1"), backs_off("a-1-1")),
        stand=state(failures=4, failure="pod 1 of a (try 2) failed with exit code 3"),
        then="Pending, back-off: pod 1 of a (try 2) failed with exit code 3; waiting for retry 4; "
        "it holds no GPU until then",
    ),
    "one that was lost without a failure says that it comes back": When(
        pods=(backs_off("a-0-1"),),
        then="Pending, back-off: ended; waiting for a restart; it holds no GPU until then",
    ),
    "one that cannot get its image waits for another try": When(
        pods=(backs_off("a-0-2"),),
        stand=state(refusals=2, failures=1, failure="ErrImagePull: no such image"),
        then="Pending, image: ErrImagePull: no such image; waiting for try 3 of 11; it holds no GPU until then",
    ),
    "one that gives its place back for want of its image says so": When(
        pods=(leaves("a-0-0", Cause.IMAGE, "ErrImagePull: no such image"),),
        then="Pending, image: ErrImagePull: no such image",
    ),
    "one that gives its place back for want of a credential says so": When(
        pods=(leaves("a-0-0", Cause.REFUSED, "CreateContainerConfigError: there is no credential tokens"),),
        then="Pending, back-off: CreateContainerConfigError: there is no credential tokens",
    ),
    "one whose wait is over waits for a place": When(
        pods=(ended("a-0-0", Outcome.ERROR), record("a-0-1", not_before=NOW)),
        then="Pending, queued: has not been considered by the scheduler yet",
    ),
    "one that is evicted is pending, and says for whom": When(
        pods=(leaves("a-0-0", Cause.PREEMPTED, "for b"),),
        then="Pending, evicted: for b; it has at most 30 s to stop",
    ),
    "one that moves is pending while the old pod stops": When(
        pods=(leaves("a-0-0", Cause.MOVED, "to n2"), record("a-0-1", PROMISED, on="n2")),
        then="Pending, evicted: to n2; it has at most 30 s to stop",
    ),
    "one that has its place is initializing": When(
        pods=(starts("a-0-0"),),
        then="Initializing, starting",
    ),
    "one whose image cannot be fetched says so": When(
        pods=(starts("a-0-0", "ErrImagePull: no such image"),),
        then="Initializing, image: ErrImagePull: no such image",
    ),
    "one whose image is tried again says so": When(
        pods=(starts("a-0-0", "ImagePullBackOff"),),
        then="Initializing, image: ImagePullBackOff",
    ),
    "one that cannot start for another reason says so": When(
        pods=(starts("a-0-0", "the disk is full"),),
        then="Initializing, starting: the disk is full",
    ),
    "one that runs is running": When(
        pods=(runs("a-0-0"),),
        then="Running",
    ),
    "one on a silent node is degraded": When(
        pods=(runs("a-0-0"),),
        silent=("n1",),
        then="Degraded, node-silent: node n1 does not respond",
    ),
    "another node's silence is not its concern": When(
        pods=(runs("a-0-0"),),
        silent=("n2",),
        then="Running",
    ),
    "a gang of which one pod runs is initializing": When(
        of=GANG,
        pods=(runs("a-0-0"), starts("a-1-0")),
        then="Initializing, starting",
    ),
    "a gang of which all pods run is running": When(
        of=GANG,
        pods=(runs("a-0-0"), runs("a-1-0")),
        then="Running",
    ),
    "a gang of which one pod has ended well and the other runs is running": When(
        of=GANG,
        pods=(ended("a-0-0", Outcome.OK), runs("a-1-0")),
        then="Running",
    ),
    "a gang that restarts is pending while the old pods leave": When(
        of=GANG,
        pods=(ended("a-0-0", Outcome.ERROR), leaves("a-1-0", Cause.PEER, "a-0-0 ended"), backs_off("a-0-1")),
        then="Pending, evicted: a-0-0 ended; it has at most 30 s to stop",
    ),
    "leader and worker run": When(
        of=LED,
        pods=(runs("a-0-0"), runs("a-1-0")),
        then="Running",
    ),
    "a sweep runs when one of its pods runs": When(
        of=SWEEP,
        pods=(runs("a-0-0"), record("a-1-0")),
        then="Running",
    ),
    "a sweep whose pods are done and whose next ones wait is pending": When(
        of=SWEEP,
        pods=(ended("a-0-0", Outcome.OK), ended("a-1-0", Outcome.OK), record("a-2-0")),
        then="Pending, queued: has not been considered by the scheduler yet",
    ),
    "a sweep one of whose pods waits for a retry, and another for a place, waits for a place": When(
        of=SWEEP,
        pods=(ended("a-0-0", Outcome.ERROR), backs_off("a-0-1"), record("a-1-0")),
        then="Pending, queued: has not been considered by the scheduler yet",
    ),
    "elastic training that lacks a pod it needs until its next try says so": When(
        of=ELASTIC_PAIR,
        pods=(backs_off("a-0-1"), backs_off("a-1-1"), record("a-2-0")),
        stand=state(failures=1, failure="pod 0 of a (try 1) failed with exit code 3"),
        then="Pending, back-off: pod 0 of a (try 1) failed with exit code 3; waiting for try 2 of 7; "
        "it holds no GPU until then",
    ),
    "elastic training that has enough pods without those that wait for a retry waits for a place": When(
        of=ELASTIC,
        pods=(backs_off("a-0-1"), record("a-1-0"), record("a-2-0")),
        then="Pending, queued: has not been considered by the scheduler yet",
    ),
    "elastic training without its leader waits for the leader's next try": When(
        of=spec(pods=3, minimum=2, leader=PodTemplate()),
        pods=(backs_off("a-0-1"), record("a-1-0"), record("a-2-0")),
        then="Pending, back-off: ended; waiting for a restart; it holds no GPU until then",
    ),
    "elastic training with fewer pods than it likes is running, and says so": When(
        of=ELASTIC,
        pods=(runs("a-0-0"), record("a-1-0"), record("a-2-0")),
        then="Running: 1 of up to 3 pods running",
    ),
    "elastic training with all its pods is running": When(
        of=ELASTIC,
        pods=(runs("a-0-0"), runs("a-1-0"), runs("a-2-0")),
        then="Running",
    ),
    "a server with fewer replicas than declared is degraded": When(
        of=SERVERS,
        pods=(runs("a-0-0"), record("a-1-0")),
        then="Degraded, short: 1 of 2 replicas running",
    ),
    "a server with all its replicas is running": When(
        of=SERVERS,
        pods=(runs("a-0-0"), runs("a-1-0", "n2")),
        then="Running",
    ),
    "a silent node is worse than a missing replica": When(
        of=SERVERS,
        pods=(runs("a-0-0"), record("a-1-0")),
        silent=("n1",),
        then="Degraded, node-silent: node n1 does not respond",
    ),
    "one that has completed": When(
        pods=(ended("a-0-0", Outcome.OK),),
        stand=FINISHED,
        then="Completed, finished",
    ),
    "one that has completed is still running while the last pods leave": When(
        of=LED,
        pods=(ended("a-0-0", Outcome.OK), leaves("a-1-0", Cause.FINISHED)),
        stand=FINISHED,
        then="Running, stopping: stopping: finished; it has at most 30 s to stop",
    ),
    "one that has failed says why": When(
        pods=(ended("a-0-0", Outcome.ERROR),),
        stand=halted(WorkloadPhase.FAILED, Cause.EXITED, "a-0-0: exit code 3"),
        then="Failed, exited: a-0-0: exit code 3",
    ),
    "one that timed out is running until it has left": When(
        of=spec(BUILD),
        pods=(leaves("a-0-0", Cause.TIME_LIMIT),),
        stand=halted(WorkloadPhase.STOPPED, Cause.TIME_LIMIT, "60 s"),
        then="Running, stopping: 60 s; it has at most 30 s to stop",
    ),
    "one that is to stop is running until it has left": When(
        of=spec(desired_state=DesiredState.STOP),
        pods=(leaves("a-0-0", Cause.SUSPENDED),),
        then="Running, stopping: stopping: suspended; it has at most 30 s to stop",
    ),
    "one that is to stop and has left is stopped": When(
        of=spec(desired_state=DesiredState.STOP),
        pods=(ended("a-0-0", Outcome.STOPPED),),
        then="Stopped, suspended",
    ),
    "one that has failed and is then suspended has failed": When(
        of=spec(desired_state=DesiredState.STOP),
        pods=(ended("a-0-0", Outcome.ERROR),),
        stand=halted(WorkloadPhase.FAILED, Cause.EXITED),
        then="Failed, exited",
    ),
    "one that is to be deleted is deleting, whatever it was": When(
        of=spec(desired_state=DesiredState.DELETE),
        pods=(runs("a-0-0"),),
        stand=FINISHED,
        then="Deleting, deleted",
    ),
}


@pytest.mark.parametrize("when", [pytest.param(when, id=sentence) for sentence, when in STATUSES.items()])
def test_where_it_stands(when: When) -> None:
    said = report(when.of, when.pods, stand=when.stand, silent=when.silent)
    reason = f", {said.reason.value}" if said.reason is not None else ""
    detail = f": {said.detail}" if said.detail else ""
    assert f"{said.phase.value}{reason}{detail}" == when.then


def test_every_reason_to_wait_has_a_case_above() -> None:
    reasons = {when.then.partition(":")[0].partition(", ")[2] for when in STATUSES.values()}
    assert {reason.value for reason in WaitReason} - reasons == set()


def test_the_next_try_is_when_as_many_pods_as_it_needs_may_be_placed() -> None:
    pods = (record("a-0-1", not_before=at(70)), record("a-1-1", not_before=at(80)), record("a-2-1", not_before=at(90)))
    moments = [report(of, pods).next_try_at for of in (ELASTIC, ELASTIC_PAIR, spec(pods=3), SERVERS)]
    assert moments == [at(70), at(80), at(90), at(70)]


def test_one_that_waits_gives_the_words_of_its_verdict() -> None:
    verdict = Verdict(NotReady("default", needs=2, exist=1), waiting=1, running=0, at=NOW)
    said = report(GANG, [record("a-0-0")], verdicts={GroupId("a"): verdict})
    assert "2" in said.detail
    assert said.detail != report(GANG, [record("a-0-0")]).detail


# --- since when ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "stand", "since"),
    [
        pytest.param((), state(), at(0), id="nothing happened yet: since it was declared"),
        pytest.param((record("a-0-0", since=at(20)),), state(), at(20), id="it waits: since its pod was born"),
        pytest.param((runs("a-0-0"), runs("a-1-0", since=at(15))), state(), at(10), id="it runs: since the first"),
        pytest.param((ended("a-0-0", Outcome.OK),), FINISHED, at(50), id="it is over: since it came to its end"),
        pytest.param(
            (replace(leaves("a-0-0", Cause.FINISHED), since=at(55)),),
            FINISHED,
            at(55),
            id="it leaves: since it was told",
        ),
    ],
)
def test_since_when(pods: tuple[PodRecord, ...], stand: WorkloadState, since: Instant) -> None:
    assert report(spec(pods=2), pods, stand=stand).since == since


@pytest.mark.parametrize(
    ("pods", "since"),
    [
        pytest.param((runs("a-0-0"),), None, id="none waits"),
        pytest.param((record("a-0-0", created_at=at(5)),), at(0), id="a first pod: since the declaration"),
        pytest.param(
            (ended("a-0-0", Outcome.LOST), record("a-0-1", created_at=at(40))), at(40), id="a later one: its birth"
        ),
        pytest.param(
            (runs("a-0-0"), record("a-1-3", created_at=at(30)), record("a-2-1", created_at=at(20))), at(20), id="first"
        ),
    ],
)
def test_since_when_a_workload_waits(pods: tuple[PodRecord, ...], since: Instant | None) -> None:
    assert report(spec(pods=3), pods).waiting_since == since


# --- what is shown -------------------------------------------------------------------------------------------------


def test_of_each_index_the_last_pod_is_shown_and_every_one_that_has_not_ended() -> None:
    pods = [
        ended("a-0-0", Outcome.ERROR),
        leaves("a-0-1", Cause.MOVED),
        record("a-0-2", PROMISED, on="n2"),
        ended("a-1-0", Outcome.OK),
    ]
    assert [pod.id for pod in report(GANG, pods).pods] == ["a-0-1", "a-0-2", "a-1-0"]


def test_pods_are_reported_by_index_and_an_eviction_with_its_first_cause() -> None:
    pods = [leaves("a-1-0", Cause.PEER), leaves("a-0-0", Cause.PEER), leaves("a-2-0", Cause.NODE_DRAINED)]
    workload_report = report(GANG, [replace(each, detail=str(each.cause)) for each in pods])
    assert [pod.id for pod in workload_report.pods] == ["a-0-0", "a-1-0", "a-2-0"]
    assert workload_report.detail == "node-drained; it has at most 30 s to stop"


@pytest.mark.parametrize(
    ("one", "gpus"),
    [
        pytest.param(record("a-0-0", WAITING), 0, id="who waits holds nothing"),
        pytest.param(record("a-0-0", PROMISED, on="n1"), 0, id="who has a promise holds nothing"),
        pytest.param(record("a-0-0", BOUND, on="n1"), 1000, id="who is bound holds its GPU"),
        pytest.param(record("a-0-0", RUNNING, on="n1"), 1000, id="who runs holds its GPU"),
        pytest.param(record("a-0-0", RELEASING, on="n1"), 1000, id="who leaves holds its GPU until it has left"),
        pytest.param(record("a-0-0", ENDED, on="n1"), 0, id="who has ended holds nothing"),
        pytest.param(record("a-0-0", RUNNING, on="n1", devices=(8,)), 0, id="a GPU that is gone is not held"),
    ],
)
def test_what_it_holds(one: PodRecord, gpus: int) -> None:
    assert report(spec(), [one]).gpus_milli == gpus


def test_what_it_holds_beside_gpus() -> None:
    shape = PodShape(gpu=whole_gpus(1), cpu_milli=1500, memory_bytes=4096)
    pods = [record("a-0-0", RUNNING, on="n1", shape=shape), record("a-1-0", WAITING, shape=shape)]
    held = report(spec(pods=2), pods)
    assert (held.cpu_milli, held.memory_bytes) == (1500, 4096)


@pytest.mark.parametrize(
    ("gpu", "milli"),
    [
        pytest.param(GpuRequest(), 0, id="no GPU"),
        pytest.param(whole_gpus(2), 2000, id="two whole GPUs"),
        pytest.param(gpu_portion(250), 250, id="a quarter of one"),
        pytest.param(gpu_portion(250, devices=2), 500, id="a quarter of each of two"),
        pytest.param(gpu_memory(20_000), 250, id="20 of 80 GB"),
        pytest.param(gpu_memory(20_001), 251, id="a little more than 20 of 80 GB"),
        pytest.param(GpuRequest(mig=(("nvidia.com/mig-3g.20gb", 2),)), 857, id="twice three of seven slices"),
    ],
)
def test_gpus_of_a_pod(gpu: GpuRequest, milli: int) -> None:
    assert gpus_charged_milli(gpu, 80_000) == milli


def test_memory_of_a_device_of_unknown_size_counts_as_the_whole_device() -> None:
    unknown = Node(name=NodeName("n1"), cpu_milli=0, memory_bytes=0, gpus=1)
    assert gpus_charged_milli(gpu_memory(20_000), unknown.gpu_memory_mib) == 1000


@pytest.mark.parametrize(
    ("of", "stand", "pool"),
    [
        pytest.param(spec(), state(), "default", id="the default pool, if none is named"),
        pytest.param(spec(pools=("a100", "v100")), state(), "a100", id="the first that is named"),
        pytest.param(spec(pools=("a100", "v100")), state(pool=PoolName("v100")), "v100", id="the one it tries now"),
    ],
)
def test_the_pool_it_is_in(of: WorkloadSpec, stand: WorkloadState, pool: str) -> None:
    assert report(of, [record("a-0-0")], stand=stand).pool == pool
