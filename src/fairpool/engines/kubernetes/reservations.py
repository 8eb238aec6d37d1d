"""Creates and removes reservation pods on an API server, and gives their GPUs to pods: see `shares`.

Two loops may act at the same time by mistake. Then neither removes a reservation whose GPU the other one is giving to a
pod: before that, the reservation is marked, and it is deleted only in the version in which it was found to be unused.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress

from fairpool.engines.kubernetes.client import KubernetesClient, Patch
from fairpool.engines.kubernetes.cluster_cache import ClusterCache
from fairpool.engines.kubernetes.failures import AlreadyExists, Conflict, KubernetesError, NotFound, Refused
from fairpool.engines.kubernetes.names import RESERVATION_NAMESPACE
from fairpool.engines.kubernetes.objects import without_finalizer
from fairpool.engines.kubernetes.pod_reading import PodObject
from fairpool.engines.kubernetes.pod_refusals import PodIdentity, take_refusal
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.pod_signature import PodSigner
from fairpool.engines.kubernetes.reservation_pods import (
    MARK,
    PRIORITY_CLASS,
    namespace_manifest,
    priority_class_manifest,
    read_reservation,
    reservation_manifest,
    reservation_name,
)
from fairpool.engines.kubernetes.resources import NAMESPACES, PODS, PRIORITY_CLASSES, Object
from fairpool.engines.kubernetes.share_book import ShareBook
from fairpool.engines.kubernetes.shares import REMOVAL_GRACE_S, Answer, Create, Drop, Ready, Remove, Reservation, Step
from fairpool.model.ids import NodeName, PodId
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem
from fairpool.model.workload import GpuKind

WAIT_S = 1.0
"""How long an order waits for its GPUs before the loop is told to send it again."""


class GpuReservations:
    """Shared GPUs of the cluster of one loop. `on_change` is called when orders that wait may be tried again."""

    def __init__(
        self,
        client: KubernetesClient,
        cache: ClusterCache,
        settings: PodSettings,
        signer: PodSigner,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._client, self._cache, self._settings, self._on_change = client, cache, settings, on_change
        self._signer = signer
        self._book = ShareBook(settings, cache.node)
        self._now = asyncio.get_running_loop().time
        self._changed = asyncio.Event()
        self._under_way: set[str] = set()
        """Names of reservations that a call is about."""
        self._has_priority: bool | None = None
        """Whether reservations can have their priority class; None: not known yet."""
        self._keeping_up: asyncio.Task[None] | None = None
        cache.follow(self)

    # --- pods, as the cache reports them

    def took(self, pod: PodObject) -> None:
        """A pod as it is now."""
        self._note(self._book.take(pod, self._now()))

    def removed(self, uid: str) -> None:
        """A pod does not exist any more."""
        self._note(self._book.remove(uid))

    def listed(self, uids: Collection[str], resource_version: str) -> None:
        """All pods that existed at this version."""
        self._note(self._book.keep_only(uids, resource_version))

    def _note(self, has_changed: bool) -> None:
        if has_changed:
            self._changed.set()
            self._changed = asyncio.Event()
            self._on_change()

    # --- orders

    async def prepare(self, order: StartOrder) -> Answer:
        """Whether the pod of an order can be created now, and with which shared GPUs. Raises `KubernetesError`."""
        if order.shape.gpu.kind is GpuKind.NONE:
            return Ready()
        end = self._now() + WAIT_S
        while True:
            answer = self._book.answer(order, self._now())
            changed = self._changed
            if isinstance(answer, Problem):
                self._book.withdraw(order.pod)
                return answer
            if isinstance(answer, Ready) and (not answer.reservations or await self._is_given(order, answer)):
                return answer
            await self._advance(order.node)
            try:
                await asyncio.wait_for(changed.wait(), max(0.0, end - self._now()))
            except TimeoutError:
                return self._last_answer(order, answer)

    def withdraw(self, pod: PodId) -> None:
        """It will not be created."""
        self._book.withdraw(pod)

    def _last_answer(self, order: StartOrder, before: Answer) -> Answer:
        answer = self._book.answer(order, self._now())
        return before if isinstance(answer, Ready) else answer

    async def _is_given(self, order: StartOrder, answer: Ready) -> bool:
        """Mark the reservations, so that no loop removes them meanwhile. False: one of them is about to go."""
        self._book.grant(order, self._now())
        mark = f"{MARK}{secrets.token_hex(8)}"
        try:
            await asyncio.gather(*(self._mark(each, mark, order.pod) for each in answer.reservations))
        except KubernetesError:
            self._book.revoke(order, [mark])
            raise
        again = self._book.answer(order, self._now())
        if isinstance(again, Ready) and again.gpus == answer.gpus:
            return True
        self._book.revoke(order, [mark])
        return False

    async def _mark(self, reservation: Reservation, mark: str, pod: PodId) -> None:
        annotations = {mark: pod, **dict.fromkeys(self._book.stale_marks(reservation.uid))}
        body = {"metadata": {"uid": reservation.uid, "annotations": annotations}}
        try:
            found = await self._client.patch(
                PODS, reservation.name, body, PodObject, namespace=RESERVATION_NAMESPACE, kind=Patch.MERGE
            )
            self._cache.take_pod(found)
        except Refused as error:
            await take_refusal(self._client, self._cache, _identity(reservation), error)

    # --- reservations

    def keep_up(self) -> None:
        """Do what is to be done about reservations, beside everything else; only for the loop that leads."""
        if self._book.nodes_due(self._now()) and (self._keeping_up is None or self._keeping_up.done()):
            self._keeping_up = asyncio.get_running_loop().create_task(self.clean_up())

    async def close(self) -> None:
        if self._keeping_up is not None:
            self._keeping_up.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping_up

    async def clean_up(self) -> None:
        """Do what is to be done now. What fails is tried again with the next call."""
        await asyncio.gather(*(self._advance(node) for node in self._book.nodes_due(self._now())))

    async def _advance(self, node: NodeName) -> None:
        await asyncio.gather(*(self._perform(step) for step in self._book.steps(node, self._now())))

    async def _perform(self, step: Step) -> None:
        """One step, unless it is under way. A failure leaves it to be done, and is no failure of an order."""
        name = (
            reservation_name(step.node, step.seat, step.attempt) if isinstance(step, Create) else step.reservation.name
        )
        if name in self._under_way:
            return
        self._under_way.add(name)
        try:
            with suppress(KubernetesError):
                match step:
                    case Create():
                        await self._create(step, name)
                    case Remove(reservation):
                        await self._delete(reservation, reservation.version, REMOVAL_GRACE_S)
                    case Drop(reservation):
                        await self._drop(reservation)
        finally:
            self._under_way.discard(name)

    async def _create(self, wanted: Create, name: str) -> None:
        try:
            await self._provide()
            manifest = reservation_manifest(wanted, self._settings, with_priority=bool(self._has_priority))
            body = self._signer.signed(manifest)
            made = await self._client.create(PODS, body, PodObject, namespace=RESERVATION_NAMESPACE)
        except AlreadyExists:
            made = await self._client.get(PODS, name, PodObject, namespace=RESERVATION_NAMESPACE)
            if not self._signer.has_signed(made) or read_reservation(made) is None:
                why = f"a pod {RESERVATION_NAMESPACE}/{name} exists that Fairpool did not create"
                self._book.failed(wanted.node, wanted.seat, why, self._now())
        except Refused as error:
            self._has_priority = None
            if error.status < 500:
                self._book.failed(wanted.node, wanted.seat, str(error), self._now())
            raise
        self._cache.take_pod(made)

    async def _delete(self, reservation: Reservation, version: str, grace_s: int) -> None:
        name, uid = reservation.name, reservation.uid
        try:
            await self._client.delete(
                PODS, name, namespace=RESERVATION_NAMESPACE, uid=uid, resource_version=version, grace_s=grace_s
            )
        except NotFound:
            self._cache.remove(RESERVATION_NAMESPACE, name, uid)
        except Conflict:
            found = await self._client.get(PODS, name, PodObject, namespace=RESERVATION_NAMESPACE)
            if found.metadata.uid != uid:
                self._cache.remove(RESERVATION_NAMESPACE, name, uid)
            self._cache.take_pod(found)

    async def _drop(self, reservation: Reservation) -> None:
        """Nothing of it runs any more."""
        await self._delete(reservation, "", 0)
        if not reservation.has_finalizer:
            return
        body = without_finalizer(reservation.uid, is_kept=False)
        try:
            await self._client.patch(
                PODS, reservation.name, body, PodObject, namespace=RESERVATION_NAMESPACE, kind=Patch.STRATEGIC
            )
        except Refused as error:
            await take_refusal(self._client, self._cache, _identity(reservation), error)

    async def _provide(self) -> None:
        """The namespace and the priority class. Where they may not be created, an administrator has done it, or pods
        are refused with the reason, or have no priority."""
        if self._has_priority is not None:
            return
        with suppress(AlreadyExists, Refused):
            await self._client.create(NAMESPACES, namespace_manifest())
        try:
            await self._client.get(PRIORITY_CLASSES, PRIORITY_CLASS, Object)
            self._has_priority = True
        except Refused:
            try:
                await self._client.create(PRIORITY_CLASSES, priority_class_manifest())
                self._has_priority = True
            except Refused as error:
                self._has_priority = isinstance(error, AlreadyExists)


def _identity(reservation: Reservation) -> PodIdentity:
    return PodIdentity(RESERVATION_NAMESPACE, reservation.name, reservation.uid)
