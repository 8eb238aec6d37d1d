"""Objects beside pods: namespaces, access, claims, secrets, config maps, services and ingresses of a cluster.

`ClusterEquipment` makes what is declared so, and keeps it so: it watches its objects, makes again what was deleted,
repairs what was changed, and clears what belongs to workloads and projects that are gone. All state is in the objects
themselves and in what is declared, so that a crash at any point loses nothing. `prepare` is called for a pod before it
is created, since the values of credentials are looked up where a pod starts and a pod may be due before the next round.

A loop that was replaced without noticing may know less than its successor, and must not clear what that one has made.
So the fence is read anew *after* a round has seen what there is and before it writes: whatever a successor made until
then was made after its token. And an object is deleted only in the version that was seen.

Lives in one event loop; `declare` and `grant` may be called from any thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from fairpool.agent.pod_secrets import SecretLookup
from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.equipment_plan import (
    Declared,
    EquipmentSettings,
    SeenIdentity,
    SeenObject,
    belongs,
    by_key,
    cluster_manifests,
    content_shows,
    due,
    foreign,
    is_ours,
    left_over,
    project_manifests,
    seen_namespaces,
    workload_manifests,
)
from fairpool.engines.kubernetes.equipment_summary import REPORTED, EquipmentSummary, addresses_of, summary_of
from fairpool.engines.kubernetes.failures import Conflict, EquipmentMissing, KubernetesError, NotFound
from fairpool.engines.kubernetes.manifests import ObjectKey, ObjectManifest
from fairpool.engines.kubernetes.names import claim_name
from fairpool.engines.kubernetes.namespace_end import NamespaceEnd
from fairpool.engines.kubernetes.namespaces import (
    ProjectNamespaces,
    namespace_manifest,
    project_namespaces,
    projects_of,
)
from fairpool.engines.kubernetes.node_address import find_node_address
from fairpool.engines.kubernetes.node_declarations import NodeDeclarations
from fairpool.engines.kubernetes.object_mirror import WATCHED, ObjectMirror
from fairpool.engines.kubernetes.object_upkeep import ObjectCall, ObjectUpkeep
from fairpool.engines.kubernetes.pod_secret_objects import PodSecretObjects
from fairpool.engines.kubernetes.resources import (
    CLUSTER_ROLES,
    NAMESPACES,
    PRIORITY_CLASSES,
    ROLE_BINDINGS,
    VOLUME_CLAIMS,
)
from fairpool.engines.port import EngineUnreachable, Fenced
from fairpool.model.access_grant import AccessGrant
from fairpool.model.ids import QueueId, WorkloadId
from fairpool.model.observation import StartOrder
from fairpool.model.organization import Organization
from fairpool.model.spec import Arrangement, PodTemplate, Program, WorkloadSpec

log = logging.getLogger("fairpool.kubernetes")

SETTLE_S = 0.1
"""Changes in this time are looked at together. No pod waits for it: see `prepare`."""
RESYNC_S = 60.0
RETRY_S = 1.0
ESSENTIAL = frozenset({NAMESPACES, VOLUME_CLAIMS})
"""What must be known before anything is written."""
MAY_BE_OTHERS = frozenset({CLUSTER_ROLES, PRIORITY_CLASSES})
"""An installation may bring them: those of others will do if they have the same contents."""


@dataclass(frozen=True, slots=True)
class PodEquipment:
    """What a pod refers to."""

    namespace: str
    pull_secrets: tuple[str, ...] = ()


class ClusterEquipment:
    """The objects beside pods of one cluster."""

    def __init__(
        self,
        client: KubernetesClient,
        settings: EquipmentSettings | None = None,
        secrets: SecretLookup | None = None,
        *,
        on_change: Callable[[], None] = lambda: None,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_change` is called after objects were written or addresses may have changed."""
        self._client = client
        self._settings = settings or EquipmentSettings()
        self._loop = asyncio.get_running_loop()
        self._due = asyncio.Event()
        self._mirror = ObjectMirror(client, self._wake)
        self._nodes = NodeDeclarations(client)
        self._ends = NamespaceEnd(client, self._mirror)
        self._upkeep = ObjectUpkeep(steady, self._wake)
        self._confirm: Callable[[], Awaitable[None]] = _only_loop
        self._secrets = PodSecretObjects(secrets or SecretLookup(), self._ensure, steady)
        self._on_change, self._steady = on_change, steady
        self._declared: Declared | None = None
        self._last_declared: Declared | None = None
        """By the thread that declares."""
        self._grants: frozenset[AccessGrant] | None = None
        """None: the control plane was not heard yet, and access stays as it is."""
        self._started: dict[WorkloadId, dict[Program, WorkloadSpec]] = {}
        """Workloads whose pods are being started and that were not declared here yet, as far as these show them."""
        self._built: dict[WorkloadId, tuple[WorkloadSpec, str, bool, list[ObjectManifest]]] = {}
        self._settled: dict[ObjectKey, tuple[ObjectManifest, SeenIdentity]] = {}
        self._accepted: set[ObjectKey] = set()
        """Objects of others that do what is wanted."""
        self._trouble = ""
        """Why the last round was not finished."""
        self._resync_at = 0.0
        self._node_address, self._node_address_until = "", 0.0
        self._locks: dict[WorkloadId, asyncio.Lock] = {}
        self._namespaces_basis: tuple[Organization, int, int] | None = None
        """What `namespaces` was made from."""
        self.namespaces = ProjectNamespaces()
        self.problems: dict[ObjectKey, str] = {}
        """Wanted objects that cannot be had, and why."""

    # --- from other threads ------------------------------------------------------------------------------------------

    def declare(self, declared: Declared) -> None:
        """This is what should be. Call it only with what a control plane has declared: the rest is cleared."""
        if declared != self._last_declared:  # equal values are mostly the same objects, which takes no time
            self._last_declared = declared
            self._loop.call_soon_threadsafe(self._take, declared)

    def grant(self, grants: Iterable[AccessGrant]) -> None:
        """This is who may do what."""
        self._loop.call_soon_threadsafe(self._take_grants, frozenset(grants))

    def _take(self, declared: Declared) -> None:
        self._declared = declared
        for workload in declared.workloads.keys() & self._started.keys():
            del self._started[workload]
        for workload in self._built.keys() - declared.workloads.keys():
            del self._built[workload]
            self._locks.pop(workload, None)
            self._secrets.forget(workload)
        self._wake()

    def _take_grants(self, grants: frozenset[AccessGrant]) -> None:
        if grants != self._grants:
            self._grants = grants
            self._wake()

    def _wake(self) -> None:
        self._due.set()

    # --- rounds ------------------------------------------------------------------------------------------------------

    async def run(self, confirm: Callable[[], Awaitable[None]]) -> None:
        """Until cancelled: make it so, and keep it so. `confirm` raises `Fenced` if another loop leads by now."""
        self._confirm = confirm
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._mirror.run(), name="watch equipment")
                tasks.create_task(self._keep(), name="keep equipment")
        finally:
            await self._upkeep.close()

    async def _keep(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience()):
                    await self._due.wait()
            await asyncio.sleep(SETTLE_S)
            self._due.clear()
            trouble = ""
            try:
                await self._round()
            except Fenced as error:  # the loop hears of it with its next call
                trouble = f"another loop leads: {error}"
            except (KubernetesError, EngineUnreachable) as error:
                trouble = str(error)
            except Exception as error:  # a bug: the next round may succeed
                trouble = f"{type(error).__name__} {error}"
                if trouble != self._trouble:
                    log.exception("the objects of projects and workloads are not up to date")
            if trouble and trouble != self._trouble:
                log.warning("the objects of projects and workloads are not up to date: %s", trouble)
            self._trouble = trouble
            if trouble:  # the next round begins anew
                await asyncio.sleep(RETRY_S)
                self._wake()

    def _patience(self) -> float:
        return max(0.01, min(self._resync_at, self._upkeep.next_at) - self._steady())

    async def _round(self) -> None:
        complete = self._mirror.complete
        if self._declared is None or not complete >= ESSENTIAL:
            self._resync_at = self._steady() + RESYNC_S
            return
        if self._steady() >= self._resync_at:
            self._resync_at = self._steady() + RESYNC_S
            self._accepted.clear()
            await self._nodes.look()
        declared = replace(self._declared, grants=self._grants or frozenset())
        self._find_namespaces(declared)
        everything = self._wanted(declared)
        wanted = {key: each for key, each in everything.items() if key.resource in complete}
        seen, live = self._mirror.seen, self._live(declared)
        found = due(self._unsettled(wanted), seen, live)
        removed = dict([*left_over(everything, seen, live, self.namespaces), *found.delete])
        if self._grants is None:
            complete -= {ROLE_BINDINGS}
        deletes = [
            ObjectCall(key, partial(self._delete, key, each))
            for key, each in removed.items()
            if key.resource in complete
        ]
        self._upkeep.keep({*wanted, *(each.key for each in deletes)})
        await self._upkeep.run(deletes, self._confirm)
        for is_namespace in (True, False):
            some = [each for each in found.apply if (each.key.resource == NAMESPACES) is is_namespace]
            calls = [ObjectCall(each.key, partial(self._ensure, each), each) for each in some]
            await self._upkeep.run(calls, self._confirm)
        failures = {key: text for key, text in self._upkeep.failures.items() if key in wanted}
        self.problems = {**self._unwatched(everything), **failures, **found.problems}
        self._note_settled(wanted)
        self._on_change()
        await self._ends.end(seen_namespaces(seen), projects_of(declared.organization), self._confirm)
        await self._nodes.declare(declared.organization.node_overrides, self._confirm)

    def _unwatched(self, wanted: Iterable[ObjectKey]) -> dict[ObjectKey, str]:
        """Wanted objects about which nothing is known."""
        failures = self._mirror.failures
        return {key: f"{key} is not made: {failures[key.resource]}" for key in wanted if key.resource in failures}

    def _find_namespaces(self, declared: Declared) -> None:
        seen, counts = self._mirror.seen, self._mirror.changes
        before, basis = self._namespaces_basis, (declared.organization, counts[NAMESPACES], counts[VOLUME_CLAIMS])
        if before is not None and before[0] is basis[0] and before[1:] == basis[1:]:
            return
        self._namespaces_basis = basis
        claimed = {key.namespace for key in seen if key.resource == VOLUME_CLAIMS}
        self.namespaces = project_namespaces(
            projects_of(declared.organization),
            seen_namespaces(seen),
            create=self._settings.create_namespaces,
            with_claims=claimed,
        )

    def _live(self, declared: Declared) -> dict[WorkloadId, QueueId]:
        started = {each.id: each.project for specs in self._started.values() for each in specs.values()}
        return {**started, **{each.id: each.project for each in declared.workloads.values()}}

    def _wanted(self, declared: Declared) -> dict[ObjectKey, ObjectManifest]:
        found = by_key([*cluster_manifests(), *project_manifests(declared, self.namespaces)])
        for spec in declared.workloads.values():
            namespace = self.namespaces.by_project.get(spec.project)
            if namespace is not None:
                for each in self._built_for(spec, namespace, spec.id in declared.ended):
                    found[each.key] = each
        for spec in (each for specs in self._started.values() for each in specs.values()):
            namespace = self.namespaces.by_project.get(spec.project)
            if namespace is not None:
                found |= by_key(workload_manifests(spec, namespace, self._settings))
        return found

    def _built_for(self, spec: WorkloadSpec, namespace: str, has_ended: bool) -> list[ObjectManifest]:
        known = self._built.get(spec.id)
        if known is not None and known[0] is spec and known[1:3] == (namespace, has_ended):
            return known[3]
        made = workload_manifests(spec, namespace, self._settings, has_ended=has_ended)
        self._built[spec.id] = (spec, namespace, has_ended, made)
        return made

    def _unsettled(self, wanted: Mapping[ObjectKey, ObjectManifest]) -> list[ObjectManifest]:
        """Those that were not found to be as wanted, or changed since."""
        return [
            each
            for key, each in wanted.items()
            if key not in self._accepted
            and not (
                (settled := self._settled.get(key)) is not None
                and settled[0] is each
                and settled[1] is self._mirror.seen.get(key)
            )
        ]

    def _note_settled(self, wanted: Mapping[ObjectKey, ObjectManifest]) -> None:
        seen = self._mirror.seen
        pending = {*self._upkeep.is_pending, *self.problems}
        self._settled = {
            key: (each, found)
            for key, each in wanted.items()
            if key not in pending and (found := seen.get(key)) is not None and _is_there(each, found)
        }

    # --- one object --------------------------------------------------------------------------------------------------

    async def _ensure(self, wanted: ObjectManifest) -> None:
        """Make an object what is wanted; raises `EquipmentMissing` if one of others has its name."""
        key, resource = wanted.key, wanted.key.resource
        found = self._mirror.seen.get(key) or await self._read(key)
        if found is not None and not belongs(wanted, found):
            if resource in MAY_BE_OTHERS and isinstance(found, SeenObject) and content_shows(wanted, found):
                self._accepted.add(key)
                return
            raise EquipmentMissing(foreign(key), is_declared=True)
        kind = WATCHED[resource][0]
        try:
            made = await self._client.apply(
                resource, key.name, wanted.body, kind, namespace=key.namespace, force=found is not None
            )
        except Conflict as error:
            if found is None:  # it was made by others in this moment
                raise EquipmentMissing(foreign(key), is_declared=True) from error
            raise
        self._mirror.note(resource, made)

    async def _read(self, key: ObjectKey) -> SeenIdentity | None:
        try:
            return await self._client.get(key.resource, key.name, WATCHED[key.resource][0], namespace=key.namespace)
        except NotFound:
            return None

    async def _delete(self, key: ObjectKey, found: SeenIdentity) -> None:
        """Delete an object as it was found; one that has changed since is looked at again in the next round."""
        metadata = found.metadata
        try:
            await self._client.delete(
                key.resource,
                key.name,
                namespace=key.namespace,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
            )
        except NotFound:
            pass
        except Conflict:
            if (now := await self._read(key)) is not None:
                self._mirror.note(key.resource, now)
                self._wake()
                return
        if self._mirror.seen.get(key) is found and key.resource != VOLUME_CLAIMS:
            del self._mirror.seen[key]

    # --- before a pod is created -------------------------------------------------------------------------------------

    async def prepare(self, order: StartOrder) -> PodEquipment:
        """Everything that a pod refers to is there afterwards, with the present values of its credentials. Raises
        `EquipmentMissing`, or `SecretsUnavailable`, or `KubernetesError`."""
        namespace = await self._namespace(order.project)
        spec = _spec_of(order)
        if self._declared is None or order.workload not in self._declared.workloads:
            self._started.setdefault(order.workload, {})[order.program] = spec
        async with self._locks.setdefault(order.workload, asyncio.Lock()):
            for each in workload_manifests(spec, namespace, self._settings):
                if each.key not in self._mirror.seen:
                    await self._ensure(each)
            pull_secrets = await self._secrets.prepare(order, namespace)
        return PodEquipment(namespace, pull_secrets)

    async def _namespace(self, project: QueueId) -> str:
        if self._declared is None or not self._mirror.complete >= ESSENTIAL:
            why = next((text for each, text in self._mirror.failures.items() if each in ESSENTIAL), "")
            raise EquipmentMissing(why or "the projects of the cluster are not known yet")
        self._find_namespaces(self._declared)
        if problem := self.namespaces.problems.get(project):
            raise EquipmentMissing(problem, is_declared=True)
        namespace = self.namespaces.by_project.get(project)
        if namespace is None:
            raise EquipmentMissing(f"project {project} is not declared in this cluster")
        if ObjectKey(NAMESPACES, "", namespace) not in self._mirror.seen:
            await self._ensure(namespace_manifest(project, projects_of(self._declared.organization)[project]))
        return namespace

    # --- what is there -----------------------------------------------------------------------------------------------

    async def summary(self) -> EquipmentSummary | None:
        """Everything that a control plane should know; None: not all of it is known yet."""
        if self._declared is None or not self._mirror.complete >= REPORTED:
            return None
        now = self._steady()
        if now >= self._node_address_until:
            self._node_address = await find_node_address(self._client)
            self._node_address_until = now + (RESYNC_S if self._node_address else RETRY_S)
        return summary_of(self._mirror.seen, self.namespaces, self._node_address, self.workload_problems())

    def addresses(self, node_address: str = "") -> dict[WorkloadId, tuple[str, ...]]:
        """Where workloads are reached from outside; `node_address`: that of a node, for node ports."""
        return addresses_of(self._mirror.seen, node_address)

    def watch_problems(self) -> dict[str, str]:
        """Why some objects are not known, by the name of their resource. From any thread."""
        return {resource.plural: why for resource, why in self._mirror.failures.items()}

    def workload_problems(self) -> dict[WorkloadId, str]:
        """What is wrong with the objects of workloads."""
        if not self.problems:
            return {}
        found = {workload: self.problem_of(workload) for workload in self._built}
        return {workload: text for workload, text in found.items() if text}

    def problem_of(self, workload: WorkloadId) -> str:
        """What is wrong with the objects of a workload; empty: nothing."""
        built = self._built.get(workload)
        texts = [self.problems[each.key] for each in built[3] if each.key in self.problems] if built is not None else []
        return "; ".join(texts)

    async def remove_claim(self, project: QueueId, claim: str) -> None:
        """Delete a claim with its data, if it is one of ours; one that is gone already will do."""
        namespace = self.namespaces.by_project.get(project)
        if namespace is None:
            raise EquipmentMissing(self.namespaces.problems.get(project) or f"project {project} has no namespace here")
        key = ObjectKey(VOLUME_CLAIMS, namespace, claim_name(claim))
        found = await self._read(key)
        if found is None:
            return
        if not is_ours(found):
            raise EquipmentMissing(foreign(key), is_declared=True)
        await self._confirm()
        with suppress(NotFound):
            await self._client.delete(key.resource, key.name, namespace=namespace, uid=found.metadata.uid)


async def _only_loop() -> None:
    """Where only one loop can be: in tests."""


def _is_there(wanted: ObjectManifest, found: SeenIdentity) -> bool:
    return belongs(wanted, found) and found.metadata.deletion_timestamp is None


def _spec_of(order: StartOrder) -> WorkloadSpec:
    """As much of a workload as one of its pods shows: it may not be declared here yet."""
    return WorkloadSpec(
        id=order.workload,
        name=order.name,
        project=order.project,
        created_at=order.created_at,
        kind=order.kind,
        template=PodTemplate(shape=order.shape, program=order.program),
        arrangement=Arrangement.TOGETHER if order.together else Arrangement.REPLICAS,
        pods=order.pods,
        distributed=order.distributed,
    )
