"""Carries out orders on an API server: creates, stops and forgets pods, many at a time.

Whatever happens may happen twice, and the engine may be killed between any two calls. A pod is created under a name
that follows from its id, so that the API server itself refuses the second one; what must not start any more is recorded
before it is answered (`ended_pods`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from fairpool.agent.pod_secrets import SecretsMissing, SecretsUnavailable
from fairpool.engines.kubernetes.backoff import Backoff
from fairpool.engines.kubernetes.client import KubernetesClient, Patch
from fairpool.engines.kubernetes.cluster_cache import ClusterCache, Leftover, OwnPod
from fairpool.engines.kubernetes.ended_pods import OVER, EndedPods
from fairpool.engines.kubernetes.equipment import PodEquipment
from fairpool.engines.kubernetes.failures import (
    AlreadyExists,
    ApiUnreachable,
    EquipmentMissing,
    KubernetesError,
    NotFound,
    Refused,
    TooManyRequests,
)
from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY
from fairpool.engines.kubernetes.objects import (
    GRACE_MIN_S,
    POD,
    Manifest,
    label_value,
    pod_manifest,
    pod_objection,
    without_finalizer,
)
from fairpool.engines.kubernetes.pod_reading import PodObject
from fairpool.engines.kubernetes.pod_refusals import PodIdentity, take_refusal
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.pod_signature import PodSigner
from fairpool.engines.kubernetes.resources import PODS
from fairpool.engines.kubernetes.shares import NotYet, Ready
from fairpool.model.ids import PodId, Token, WorkloadId
from fairpool.model.observation import (
    CONFIG_ERROR,
    ForgetOrder,
    ObservedNode,
    Order,
    OrderResult,
    OrderStatus,
    StartOrder,
    StopOrder,
)
from fairpool.model.problem import Problem

SEARCHED_AT_ONCE = 50
"""Pods in one label selector, which is part of an address."""
NO_ANSWER = "the node does not respond"
UNPROCESSABLE = 422


class EquipmentProvider(Protocol):
    """Provides what pods refer to: namespaces, claims, secrets, config maps, services."""

    async def prepare(self, order: StartOrder) -> PodEquipment:
        """What a pod refers to is there afterwards. Raises `EquipmentMissing`, or `SecretsUnavailable`."""

    async def run(self, confirm: Callable[[], Awaitable[None]]) -> None:
        """Keep it so, until cancelled. `confirm` raises `Fenced` if another loop leads by now."""


class Reservations(Protocol):
    """Holds GPUs for pods that share them."""

    async def prepare(self, order: StartOrder) -> Ready | NotYet | Problem:
        """Whether the GPUs of an order can be used now, and which devices parts of GPUs are of."""

    def withdraw(self, pod: PodId) -> None:
        """It will not be created."""


class OrderExecution:
    """Carries out orders of the loop that leads."""

    def __init__(
        self,
        client: KubernetesClient,
        cache: ClusterCache,
        ended: EndedPods,
        equipment: EquipmentProvider,
        reservations: Reservations,
        settings: PodSettings,
        signer: PodSigner,
    ) -> None:
        self._client, self._cache, self._ended, self._settings = client, cache, ended, settings
        self._equipment, self._reservations, self._signer = equipment, reservations, signer
        self._backoff = Backoff(asyncio.get_running_loop().time)

    async def carry_out(self, orders: Sequence[Order], token: Token) -> list[OrderResult]:
        """A result for each order. Those for one pod are carried out in turn, all others at the same time; stops and
        forgets after it was recorded what must not start any more, starts of other pods beside that."""
        by_pod: dict[PodId, list[int]] = {}
        for number, order in enumerate(orders):
            by_pod.setdefault(order.pod, []).append(number)
        results: dict[int, OrderResult] = {}

        async def in_turn(numbers: Sequence[int]) -> None:
            is_only_start = len(numbers) == 1 and isinstance(orders[numbers[0]], StartOrder)
            failure = None if is_only_start else await ends
            for number in numbers:
                results[number] = await self._answer(orders[number], token, failure)

        async with asyncio.TaskGroup() as tasks:
            ends = tasks.create_task(self._record_ends(orders))
            for numbers in by_pod.values():
                tasks.create_task(in_turn(numbers))
        return [results[number] for number in range(len(orders))]

    async def _answer(self, order: Order, token: Token, failure: KubernetesError | None) -> OrderResult:
        known = self._cache.find(order.pod)
        try:
            if self._is_silent(order, known):
                if isinstance(order, StopOrder) and known is not None:
                    await self._delete(known, order.grace_s)  # for the moment at which the node is back
                return OrderResult(order.pod, OrderStatus.UNKNOWN, NO_ANSWER)
            match order:
                case StartOrder():
                    return await self._start(order, known, token)
                case StopOrder():
                    return await self._stop(order, known, failure)
                case ForgetOrder():
                    return await self._forget(order, known, failure)
        except KubernetesError as error:
            return _failed(order.pod, error)

    def _is_silent(self, order: Order, known: OwnPod | None) -> bool:
        nodes = (self._cache.node(order.node), self._cache.node(known.node if known is not None else None))
        return any(node is not None and node.silent_since is not None and not node.gone for node in nodes)

    # --- start ---

    async def _start(self, order: StartOrder, known: OwnPod | None, token: Token) -> OrderResult:
        is_over = order.pod in self._ended or (known is not None and (known.is_kept or self._cache.is_lost(known)))
        if known is not None and not is_over:
            self._cache.adopt(known)
            return OrderResult(order.pod, OrderStatus.DONE)
        if is_over:
            return OrderResult(order.pod, OrderStatus.REFUSED, OVER)
        node = self._cache.node(order.node)
        if (refused := self._refusal(order, node)) is not None:
            return refused
        keys = f"group {order.group}", f"node {order.node}"
        if (wait_s := self._backoff.remaining_s(*keys)) > 0:
            words = f"the Kubernetes API server is overloaded; trying again in {wait_s:.0f} s"
            return OrderResult(order.pod, OrderStatus.LATER, words)
        try:
            result = await self._create(order, token, node)
        except (TooManyRequests, Refused) as error:
            if isinstance(error, TooManyRequests) or error.status >= 500:
                self._backoff.failed(*keys, at_least_s=error.retry_after_s or 0.0)
            raise
        self._backoff.succeeded(*keys)
        return result

    def _refusal(self, order: StartOrder, node: ObservedNode | None) -> OrderResult | None:
        """Why it does not start there, from what is known."""
        pod = order.pod
        if node is None or node.gone:
            return OrderResult(pod, OrderStatus.REFUSED, f"there is no node {order.node}")
        if node.boot_id != order.boot_id:
            return OrderResult(pod, OrderStatus.REFUSED, f"node {order.node} has rebooted")
        if any(each >= node.node.gpus for each in order.devices):
            words = f"{order.node} does not have all of the devices {list(order.devices)}"
            return OrderResult(pod, OrderStatus.REFUSED, words)
        if not node.node.offers(order.devices):
            return OrderResult(pod, OrderStatus.LATER, f"GPUs of {order.node} are in use by other pods")
        if (problem := pod_objection(order, self._settings)) is not None:
            return _refused(order, problem)
        return None

    async def _create(self, order: StartOrder, token: Token, node: ObservedNode | None) -> OrderResult:
        try:
            equipment = await self._equipment.prepare(order)
        except (EquipmentMissing, SecretsUnavailable) as error:
            return OrderResult(order.pod, OrderStatus.LATER, _why_missing(error))
        prepared = await self._reservations.prepare(order)
        if isinstance(prepared, NotYet):
            return OrderResult(order.pod, OrderStatus.LATER, prepared.message)
        if isinstance(prepared, Problem):
            return _refused(order, prepared)
        namespace = equipment.namespace
        memory = node.node.gpu_memory_mib if node is not None else 0
        manifest = pod_manifest(
            order,
            token,
            namespace,
            self._settings,
            pull_secrets=equipment.pull_secrets,
            shared_gpus=prepared.gpus,
            gpu_memory_mib=memory,
        )
        if isinstance(manifest, Problem):
            return _refused(order, manifest)
        manifest = self._signer.signed(manifest)
        try:
            self._cache.take_pod(await self._client.create(PODS, manifest, PodObject, namespace=namespace))
        except AlreadyExists:
            return await self._already_exists(order, manifest)
        except NotFound:
            return OrderResult(order.pod, OrderStatus.LATER, f"the namespace {namespace} does not exist")
        return OrderResult(order.pod, OrderStatus.DONE)

    async def _already_exists(self, order: StartOrder, manifest: Manifest) -> OrderResult:
        """A pod of that name is ours only if it has our signature: then an earlier order was carried out unnoticed."""
        metadata = manifest["metadata"]
        found = await self._client.get(PODS, metadata["name"], PodObject, namespace=metadata["namespace"])
        if not self._signer.has_signed(found) or (found.metadata.labels or {}).get(POD) != label_value(order.pod):
            words = f"a pod {metadata['name']} exists that Fairpool did not create"
            return OrderResult(order.pod, OrderStatus.LATER, words)
        self._cache.take_pod(found)
        known = self._cache.find(order.pod)
        if known is not None and known.is_kept:
            return OrderResult(order.pod, OrderStatus.REFUSED, OVER)
        if known is not None:
            self._cache.adopt(known)
        return OrderResult(order.pod, OrderStatus.DONE)

    # --- stop and forget ---

    async def _stop(self, order: StopOrder, known: OwnPod | None, failure: KubernetesError | None) -> OrderResult:
        self._reservations.withdraw(order.pod)
        if known is None:
            return _recorded(order, failure)
        if not known.has_ended and not self._cache.is_lost(known):
            await self._delete(known, order.grace_s)
        return OrderResult(order.pod, OrderStatus.DONE)

    async def _forget(self, order: ForgetOrder, known: OwnPod | None, failure: KubernetesError | None) -> OrderResult:
        if known is None:
            return OrderResult(order.pod, OrderStatus.DONE)
        if not known.has_ended and not self._cache.is_lost(known):
            return OrderResult(order.pod, OrderStatus.LATER, "it has not ended yet")
        if failure is not None:
            return _failed(order.pod, failure)
        if not known.is_kept:
            await self.release(known, is_kept=not order.with_output)
        if order.with_output:
            for pod in {known, *self._cache.kept(known.workload)}:
                await self.remove_object(pod)
        return OrderResult(order.pod, OrderStatus.DONE)

    async def _record_ends(self, orders: Sequence[Order]) -> KubernetesError | None:
        """Write down which pods must not start any more: those to be forgotten, and those to be stopped that do not
        exist. The failure if it could not be done; then none of these orders was carried out."""
        try:
            stops = [order.pod for order in orders if isinstance(order, StopOrder)]
            absent = await self._absent([pod for pod in stops if self._cache.find(pod) is None])
            over = [order.pod for order in orders if isinstance(order, ForgetOrder) and self._is_over(order.pod)]
            if absent or over:
                await self._ended.add([*absent, *over])
                self._cache.forbid([*absent, *over], OVER)
        except KubernetesError as error:
            return error
        return None

    def _is_over(self, pod: PodId) -> bool:
        known = self._cache.find(pod)
        return known is not None and (known.has_ended or self._cache.is_lost(known))

    async def _absent(self, pods: Sequence[PodId]) -> list[PodId]:
        """Those of the pods that the API server does not have either; the others are known from then on."""
        wanted = [pod for pod in pods if pod not in self._ended]
        for first in range(0, len(wanted), SEARCHED_AT_ONCE):
            labels = ",".join(label_value(pod) for pod in wanted[first : first + SEARCHED_AT_ONCE])
            found = await self._client.list(PODS, PodObject, labels=f"{MANAGED_BY}={FAIRPOOL},{POD} in ({labels})")
            for pod in found.items:
                self._cache.take_pod(pod)
        return [pod for pod in wanted if self._cache.find(pod) is None]

    # --- pod objects ---

    async def _delete(self, pod: OwnPod, grace_s: int) -> None:
        """The API server shortens a grace period that is running and never extends it."""
        await self.remove_object(pod, max(GRACE_MIN_S, grace_s))

    async def release(self, pod: OwnPod, *, is_kept: bool) -> None:
        """Remove our finalizer; a pod that was not deleted stays for its output, if it is to be kept."""
        body = without_finalizer(pod.uid, is_kept=is_kept and not pod.is_stopping)
        try:
            found = await self._client.patch(
                PODS, pod.name, body, PodObject, namespace=pod.namespace, kind=Patch.STRATEGIC
            )
            self._cache.take_pod(found)
        except Refused as error:
            await take_refusal(self._client, self._cache, PodIdentity(pod.namespace, pod.name, pod.uid), error)

    async def remove_object(self, pod: OwnPod, grace_s: int = 0) -> None:
        """Delete the object of a pod; without a grace period: one of which nothing can still run."""
        try:
            await self._client.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid, grace_s=grace_s)
        except Refused as error:
            await take_refusal(self._client, self._cache, PodIdentity(pod.namespace, pod.name, pod.uid), error)

    async def clean_up(self, keeps_output: Callable[[WorkloadId], bool]) -> None:
        """Remove what must not exist (see `ClusterCache.leftovers`), and output of workloads that are gone."""
        failure: KubernetesError | None = None
        for each in self._cache.leftovers():
            try:
                await self._remove_leftover(each)
            except KubernetesError as error:  # no reason to leave the others
                failure = error
        for pod in [*self._cache.superfluous(), *self._cache.kept_in_vain(keeps_output)]:
            try:
                await self.remove_object(pod)
            except KubernetesError as error:
                failure = error
        if failure is not None:
            raise failure

    async def _remove_leftover(self, each: Leftover) -> None:
        if each.is_dead and not each.pod.has_ended:
            await self.remove_object(each.pod)
        elif not each.is_dead and not each.pod.is_stopping:
            if each.pod.order is not None:
                await self._ended.add([each.pod.order.pod])  # it has run: if it is ordered again, it must not
            await self._delete(each.pod, GRACE_MIN_S)
        if each.is_dead and each.pod.has_finalizer:
            await self.release(each.pod, is_kept=False)


def _recorded(order: Order, failure: KubernetesError | None) -> OrderResult:
    return OrderResult(order.pod, OrderStatus.DONE) if failure is None else _failed(order.pod, failure)


def _refused(order: StartOrder, problem: Problem) -> OrderResult:
    return OrderResult(order.pod, OrderStatus.REFUSED, f"{problem.what}; {problem.fix}")


def _why_missing(error: EquipmentMissing | SecretsUnavailable) -> str:
    is_declared = isinstance(error, SecretsMissing) or (isinstance(error, EquipmentMissing) and error.is_declared)
    return f"{CONFIG_ERROR}: {error}" if is_declared else str(error)


def _failed(pod: PodId, error: KubernetesError) -> OrderResult:
    """What is known of an order whose call failed."""
    match error:
        case ApiUnreachable(was_sent=False) | TooManyRequests():
            return OrderResult(pod, OrderStatus.LATER, str(error))
        case Refused(status=status) if status < 500:
            is_invalid = status == UNPROCESSABLE or error.reason == "Invalid"
            return OrderResult(pod, OrderStatus.REFUSED if is_invalid else OrderStatus.LATER, str(error))
    return OrderResult(pod, OrderStatus.UNKNOWN, str(error))
