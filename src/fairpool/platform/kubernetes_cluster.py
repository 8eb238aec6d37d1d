"""A cluster on Kubernetes: engine, access to its pods and leader election, beside the scheduling loop.

The assembly of `fairpool cluster --engine kubernetes`, in a pod of the cluster or anywhere that its API server can be
reached from. The ledger is a file in the data directory, for one replica, or a PostgreSQL database that all replicas
can reach.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpool.agent.durable import write_durably
from fairpool.agent.pod_secrets import SecretLookup
from fairpool.agent.uploads import Uploads
from fairpool.api.exposition import ProcessFigure
from fairpool.cluster.history import Event
from fairpool.cluster.ledger import Ledger
from fairpool.cluster.ledger_postgresql import PostgresLedger, described, is_postgresql
from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.credentials import ApiServer
from fairpool.engines.kubernetes.engine import KubernetesEngine
from fairpool.engines.kubernetes.equipment import ClusterEquipment
from fairpool.engines.kubernetes.equipment_plan import Declared, EquipmentSettings
from fairpool.engines.kubernetes.events import EventNote, EventRecorder, EventSubject
from fairpool.engines.kubernetes.failures import ApiUnreachable, BadConfiguration, KubernetesError, Refused
from fairpool.engines.kubernetes.fence import ensure_namespace
from fairpool.engines.kubernetes.kubeconfig import find_api_server
from fairpool.engines.kubernetes.names import namespace_of
from fairpool.engines.kubernetes.node_leases import GONE_AFTER_S
from fairpool.engines.kubernetes.pod_output import SavedOutput
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.resources import NAMESPACES, Object
from fairpool.model.ids import NodeName, PodId, QueueId, WorkloadId
from fairpool.model.problem import Problem
from fairpool.model.spec import WorkloadSpec
from fairpool.model.status import WorkloadPhase
from fairpool.platform.address import Address, listening_socket
from fairpool.platform.cluster_site import SiteUnreachable
from fairpool.platform.data_directory import DataDirectory, PlatformError, directory_problem
from fairpool.platform.database_location import problem_with_location
from fairpool.platform.equipment_exchange import EquipmentExchange
from fairpool.platform.kubernetes_events import WorkloadEvents
from fairpool.platform.kubernetes_pod_access import KubernetesPodAccess
from fairpool.platform.leader_election import LeaderElection, LeasedEngine
from fairpool.platform.loop_cluster import STOP_TIMEOUT_S, ControlPeer, LoopCluster
from fairpool.platform.loop_figures import LoopFigures
from fairpool.platform.remote_control import Membership
from fairpool.platform.sample_receiver import sample_receiver
from fairpool.platform.secret_source import ControlSecrets

log = logging.getLogger("fairpool.cluster")

NAMESPACE = "fairpool"
"""Of our own objects, by default."""
LEDGER = "--ledger"
PULLED = "pulled"
"""The step of the loop that every cycle reaches."""
RECORDED = "recorded"
"""The step of the loop after which its decisions are carried out."""
CLOSE_S = 5.0
PATIENCE_S = 10.0
"""How long the API server may take to answer the first question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """What an administrator chooses for a cluster on Kubernetes."""

    server: ApiServer
    namespace: str = NAMESPACE
    """Where our own objects are: the lease, and what the engine remembers."""
    ledger: str = ""
    """A path, or the address of a PostgreSQL database; empty: a file in the data directory."""
    pods: PodSettings = PodSettings()
    equipment: EquipmentSettings = EquipmentSettings()
    node_gone_after_s: float = GONE_AFTER_S
    samples: Address | None = None
    """Where agents on nodes send what they measure; None: nowhere."""


class KubernetesCluster(LoopCluster):
    """A cluster whose pods run on Kubernetes, while this replica leads."""

    def __init__(
        self,
        data_directory: DataDirectory,
        options: KubernetesOptions,
        member: Membership,
        election: LeaderElection,
        figures: LoopFigures,
    ) -> None:
        """Raises `EngineUnreachable`."""
        self._data_directory, self._options, self._member = data_directory, options, member
        self._election = election
        self._secrets = SecretLookup()
        self._is_declared = False
        self._problems: Mapping[WorkloadId, str] = {}
        """What was said to be wrong with objects of workloads."""
        self._events = WorkloadEvents(self._note_event_object, self._namespace_of, time.monotonic)
        uploads = Uploads(data_directory.uploads, keeps_free=True) if options.pods.support_image else None
        output = SavedOutput(data_directory.pod_output)
        self.engine = KubernetesEngine(
            options.server,
            namespace=options.namespace,
            settings=options.pods,
            equipment=self._equip,
            keeps_output=self._keeps_output,
            node_gone_after_s=options.node_gone_after_s,
            uploads=uploads,
            output=output,
        )
        self._access = KubernetesPodAccess(
            options.server, self.engine.place, self._remove_claim, uploads=uploads, saved=output.read
        )
        leased = LeasedEngine(self.engine, lambda: election.leads)
        super().__init__(leased, self.engine, self._access, data_directory.root, figures)

    def close(self) -> None:
        if not self._is_stuck:
            closing = asyncio.run_coroutine_threadsafe(self._recorder.close(), self._engine_loop)
            with suppress(TimeoutError):
                closing.result(CLOSE_S)
            self.engine.close()

    @asynccontextmanager
    async def scheduling(
        self, control: ControlPeer, holder: str, on_step_down: Callable[[str], None]
    ) -> AsyncIterator[None]:
        async with self._receiving(), super().scheduling(control, holder, on_step_down):
            exchange = EquipmentExchange(control.connect(), self._equipment, self._engine_loop)
            exchange.start()
            try:
                yield
            finally:
                await asyncio.to_thread(exchange.stop, STOP_TIMEOUT_S)

    @asynccontextmanager
    async def _receiving(self) -> AsyncIterator[None]:
        """Samples of agents, while this replica leads. Without them nothing is measured, and all else goes on."""
        options = self._options
        if options.samples is None:
            yield
            return
        try:
            listener, _ = listening_socket(options.samples, "--samples-listen")
        except PlatformError as error:
            log.error("no samples of agents are taken: %s", error)
            yield
            return

        def take(node: NodeName, body: bytes) -> bool:
            return self.engine.node_samples.take(node, body, time.monotonic())

        async with sample_receiver(listener, options.server, options.namespace, take):
            yield

    async def end_access(self) -> None:
        await self._access.close()

    def _open_ledger(self) -> Ledger:
        location = self._options.ledger
        if is_postgresql(location):
            return Ledger(PostgresLedger(location, self._member.id))
        return Ledger(Path(location) if location else self._data_directory.ledger)

    def _take_secrets(self, source: ControlSecrets) -> None:
        self._secrets.source = source

    def _equip(self, client: KubernetesClient) -> ClusterEquipment:
        """Called in the engine's event loop."""
        self._equipment = ClusterEquipment(
            client, self._options.equipment, self._secrets, on_change=self._note_problems
        )
        self._engine_loop = asyncio.get_running_loop()
        self._recorder = EventRecorder(client, self._pod_subject)
        return self._equipment

    def _note_problems(self) -> None:
        """Called in the engine's event loop, after each round: say what is new, where people look with kubectl."""
        found = self._equipment.workload_problems()
        for workload, words in found.items():
            spec = self._spec_of(workload)
            if spec is not None and self._problems.get(workload) != words:
                self._events.note_problem(spec, words)
        self._problems = found

    async def _remove_claim(self, project: str, name: str) -> None:
        """Called in another event loop than the engine's."""
        removing = self._equipment.remove_claim(QueueId(project), name)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(removing, self._engine_loop))

    def _keeps_output(self, workload: WorkloadId) -> bool:
        """Called in the engine's event loop: a lookup, as `_spec_of`."""
        if self._scheduling is None:
            return True
        cache = self._scheduling.loop_thread.loop.cache
        return cache.cursor is None or workload in cache.specs

    def _pod_subject(self, pod: PodId) -> EventSubject | None:
        place = self.engine.known_place(pod)
        return EventSubject("Pod", place.name, place.namespace, place.uid) if place is not None else None

    def _namespace_of(self, project: QueueId) -> str:
        return self._equipment.namespaces.by_project.get(project) or namespace_of(project)

    def _note_event_object(self, note: EventNote) -> None:
        self._recorder.note(note)

    def _note_event(self, event: Event, spec: WorkloadSpec | None) -> None:
        super()._note_event(event, spec)
        self._events.take(event, spec)

    def _note_step(self, step: str) -> None:
        super()._note_step(step)
        if step == PULLED and self._scheduling is not None:
            cache = self._scheduling.loop_thread.loop.cache
            self._events.look(cache.reports, cache.specs)
        if step == RECORDED or not self._is_declared:
            self._declare()

    def _declare(self) -> None:
        """Have the objects beside pods made: before the orders of this cycle are carried out. A ledger that does not
        know the declarations yet must not have them cleared away."""
        assert self._scheduling is not None
        cache = self._scheduling.loop_thread.loop.cache
        if cache.cursor is None:
            return
        self._is_declared = True
        halts = ((workload, state.halt) for workload, state in cache.states.items() if state.halt is not None)
        ended = frozenset(workload for workload, halt in halts if halt.phase is not WorkloadPhase.STOPPED)
        declared = Declared(workloads=dict(cache.specs), organization=cache.organization, ended=ended)
        self._equipment.declare(declared)

    def _more_status(self) -> Mapping[str, Any]:
        return {"watches": self.engine.watch_problems() | self._equipment.watch_problems()}

    def _more_figures(self) -> Iterator[ProcessFigure]:
        failing = len(self.engine.watch_problems()) + len(self._equipment.watch_problems())
        yield ProcessFigure("fairpool_kubernetes_watches_failing", "Resources that cannot be watched", failing)
        unmade = len(self._equipment.problems)
        yield ProcessFigure("fairpool_kubernetes_objects_failing", "Objects that are not as declared", unmade)

    def _reports(self, pod: PodId) -> Mapping[str, Any]:
        return {}

    @property
    def _engine_error(self) -> str:
        return self._election.error


class KubernetesSite:
    """A `ClusterSite` on Kubernetes."""

    has_replicas = True

    def __init__(self, options: KubernetesOptions, data_directory: DataDirectory) -> None:
        """For a caller that holds the lock of the directory. Raises `PlatformError`."""
        self._options = options
        self.identity = f"{socket.gethostname()}_{_replica(data_directory)}"
        """Of the data directory, whose lock only one process has: it may go on with the lease of one that was killed,
        and need not wait until that expires."""
        self._election = LeaderElection(options.server, options.namespace, self.identity)

    @property
    def summary(self) -> str:
        return f"Kubernetes at {self._options.server.url}"

    @property
    def ledger(self) -> str:
        """Without its password; empty: the file in the data directory."""
        return described(self._options.ledger)

    async def installation(self) -> str:
        """The id of our own namespace, which is made if it is missing."""
        try:
            async with asyncio.timeout(PATIENCE_S), KubernetesClient(self._options.server) as client:
                await ensure_namespace(client, self._options.namespace)
                found = await client.get(NAMESPACES, self._options.namespace, Object)
        except BadConfiguration as error:
            raise PlatformError(_unusable(error)) from error
        except Refused as error:
            if error.status in (401, 403):
                raise PlatformError(_forbidden(error)) from error
            raise SiteUnreachable(_unusable(error)) from error
        except (ApiUnreachable, TimeoutError) as error:
            what = str(error) or f"{self._options.server.url} does not answer within {PATIENCE_S:g} s"
            raise SiteUnreachable(Problem("kubernetes.unreachable", what, _CHECK)) from error
        except KubernetesError as error:
            raise PlatformError(_unusable(error)) from error
        return found.metadata.uid

    def election(self) -> AbstractAsyncContextManager[None]:
        return self._elected()

    @asynccontextmanager
    async def _elected(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self._election.run(), name="leader election")
        try:
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def until_leading(self) -> None:
        await self._election.until_leading()

    async def until_replaced(self) -> None:
        await self._election.until_replaced()

    @property
    def leader(self) -> str:
        return self._election.leader if self._election.is_other else ""

    def cluster(self, data_directory: DataDirectory, member: Membership, figures: LoopFigures) -> KubernetesCluster:
        return KubernetesCluster(data_directory, self._options, member, self._election, figures)

    def status(self) -> Mapping[str, Any]:
        return {
            "kubernetes": {
                "server": self._options.server.url,
                "namespace": self._options.namespace,
                "ledger": self.ledger,
                "leader": self._election.leader,
                "leads": self._election.leads,
                "error": self._election.error,
            }
        }


def _replica(data_directory: DataDirectory) -> str:
    file = data_directory.replica
    try:
        if not file.exists():
            write_durably(file, f"{uuid.uuid4()}\n".encode())
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise PlatformError(directory_problem(data_directory.root, error)) from error


_CHECK = "check that the API server runs and can be reached from here; it is tried again"


def _unusable(error: KubernetesError) -> Problem:
    return Problem("kubernetes.unusable", str(error), "check --kubeconfig, --context and KUBECONFIG")


def _forbidden(error: Refused) -> Problem:
    fix = "use an account with the rights that the chart deploy/helm/fairpool-cluster gives"
    return Problem("kubernetes.forbidden", str(error), fix)


def read_options(
    *,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    ledger: str,
    pods: PodSettings,
    equipment: EquipmentSettings,
    node_gone_after_s: float = GONE_AFTER_S,
    samples: Address | None = None,
) -> KubernetesOptions | list[Problem]:
    """What the flags say, or all that is wrong with them."""
    problems = []
    if (
        len(namespace) > 63
        or not all(part.isalnum() for part in namespace.split("-"))
        or namespace != namespace.lower()
    ):
        fix = "use lower-case letters, digits and dashes, e.g. --namespace fairpool"
        problems.append(
            Problem("kubernetes.namespace", f"--namespace: {namespace!r} cannot be the name of a namespace", fix)
        )
    if problem := _ledger_problem(ledger):
        problems.append(problem)
    try:
        server = find_api_server(str(kubeconfig.expanduser().absolute()) if kubeconfig is not None else "", context)
    except BadConfiguration as error:
        fix = "pass --kubeconfig FILE, set KUBECONFIG, or run it in a pod with a service account"
        return [*problems, Problem("kubernetes.kubeconfig", str(error), fix)]
    if problems:
        return problems
    return KubernetesOptions(
        server=server,
        namespace=namespace,
        ledger=ledger,
        pods=pods,
        equipment=equipment,
        node_gone_after_s=node_gone_after_s,
        samples=samples,
    )


def _ledger_problem(ledger: str) -> Problem | None:
    if "://" in ledger:
        return problem_with_location(ledger, LEDGER)
    if not ledger:
        return None
    folder = Path(ledger).expanduser().absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        what = f"{LEDGER}: {ledger} cannot be created: {folder} is not a directory that can be written to"
        return Problem("ledger.path", what, "name a file in an existing directory, or postgresql://USER@HOST/NAME")
    return None
