"""Secrets that a pod refers to: values of credentials and the login of its image's registry, as they are now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from fairpool.agent.pod_secrets import SecretLookup, SecretsRefused, SecretsUnavailable
from fairpool.engines.kubernetes.manifests import ObjectManifest
from fairpool.engines.kubernetes.names import pull_secret_name
from fairpool.engines.kubernetes.pod_files import pull_secret_manifest, secret_manifest
from fairpool.model.ids import QueueId, WorkloadId
from fairpool.model.image_name import registry_of
from fairpool.model.observation import StartOrder
from fairpool.model.secret import Secret, UserLogin
from fairpool.model.spec import Program

FRESH_S = 10.0
"""Pods of one workload that start within this time share one lookup."""
LOGIN_S = 60.0
"""The same for the logins of registries, which the workloads of a project share."""


class PodSecretObjects:
    """Writes the Secrets of pods. For one event loop; one call at a time for each workload."""

    def __init__(
        self, lookup: SecretLookup, ensure: Callable[[ObjectManifest], Awaitable[None]], steady: Callable[[], float]
    ) -> None:
        self._lookup, self._ensure, self._steady = lookup, ensure, steady
        self._written: dict[WorkloadId, tuple[float, Program, tuple[str, ...]]] = {}
        self._logins: dict[tuple[QueueId, str], tuple[float, UserLogin | None]] = {}
        self._asking: dict[tuple[QueueId, str], asyncio.Lock] = {}

    async def prepare(self, order: StartOrder, namespace: str) -> tuple[str, ...]:
        """Write the Secrets of a pod; the names of those with which its image is pulled. Raises `SecretsUnavailable`:
        a value cannot be had, or not now."""
        known = self._written.get(order.workload)
        if known is not None and known[0] > self._steady() and known[1] == order.program:
            return known[2]
        program = order.program
        values = await asyncio.to_thread(self._lookup.of, order) if program.credentials else {}
        for name, each in sorted(values.items()):
            await self._ensure(secret_manifest(each, name, order, namespace))
        login = await self._login(order, values)
        names: tuple[str, ...] = ()
        if login is not None:
            await self._ensure(pull_secret_manifest(login, registry_of(program.image), order, namespace))
            names = (pull_secret_name(order.name),)
        if program.credentials or names:
            self._written[order.workload] = (self._steady() + FRESH_S, program, names)
        return names

    def forget(self, workload: WorkloadId) -> None:
        """It is gone."""
        self._written.pop(workload, None)

    async def _login(self, order: StartOrder, values: Mapping[str, Secret]) -> UserLogin | None:
        """What its image is pulled with: the credential that it names, or one for the image's registry."""
        program = order.program
        if program.image_credential:
            return values[program.image_credential].login()
        if not program.image:
            return None
        key = order.project, registry_of(program.image)
        async with self._asking.setdefault(key, asyncio.Lock()):
            known = self._logins.get(key)
            if known is not None and known[0] > self._steady():
                return known[1]
            login = await asyncio.to_thread(self._registry_login, order, key[1])
            self._logins[key] = (self._steady() + LOGIN_S, login)
            return login

    def _registry_login(self, order: StartOrder, registry: str) -> UserLogin | None:
        try:
            return self._lookup.registry_login(order, registry)
        except SecretsRefused:
            raise
        except SecretsUnavailable:
            return None  # most images are pulled without one; a pull that fails is said on the pod
