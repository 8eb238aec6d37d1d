"""Where pods of a cluster get their secrets from: its control plane, in this process or elsewhere."""

from __future__ import annotations

import base64
import threading
from collections.abc import Sequence
from typing import Protocol

from fairpool.agent.pod_secrets import FoundSecrets, SecretsRefused, SecretsUnavailable
from fairpool.api.clusters import ControlPlaneUnreachable
from fairpool.api.credentials import SecretAnswer, SecretsAnswer, SecretsRequest
from fairpool.model.ids import WorkloadId
from fairpool.model.problem import Problem
from fairpool.model.secret import Secret


class SecretCalls(Protocol):
    """The call of a control plane that gives values."""

    def secrets(self, request: SecretsRequest) -> SecretsAnswer:
        """Raises `ControlPlaneUnreachable`."""


class ControlSecrets:
    """A `SecretSource` for any thread; one call at a time."""

    def __init__(self, control: SecretCalls) -> None:
        self._control, self._lock = control, threading.Lock()

    def secrets(self, workload: WorkloadId, names: Sequence[str], registry: str) -> FoundSecrets:
        request = SecretsRequest(workload=workload, names=list(names), registry=registry)
        try:
            with self._lock:
                answer = self._control.secrets(request)
        except ControlPlaneUnreachable as error:
            kind = SecretsRefused if error.is_refusal else SecretsUnavailable
            raise kind(f"its secrets cannot be looked up: {error}") from error
        return FoundSecrets(
            secrets={each.name: _secret(each) for each in answer.secrets},
            missing=tuple(Problem(each.code, each.what, each.fix) for each in answer.missing),
            registry=_secret(answer.registry) if answer.registry is not None else None,
        )


def _secret(answer: SecretAnswer) -> Secret:
    return Secret(answer.name, answer.kind, {key: base64.b64decode(value) for key, value in answer.data.items()})
