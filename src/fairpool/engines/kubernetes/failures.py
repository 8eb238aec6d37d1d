"""Errors of calls to the Kubernetes API server: what was refused and why, or that there was no answer.

Each error names the call ("create pods team-a/train-0") and the API server's own message. The classes are those that
callers handle differently; everything else is `Refused` with its status.
"""

from __future__ import annotations

import msgspec


class KubernetesError(Exception):
    """A call to the API server failed."""


class BadConfiguration(KubernetesError):
    """A kubeconfig file, a credential or a certificate cannot be used; the message names the file and the field."""


class ApiUnreachable(KubernetesError):
    """No answer, or only part of one.

    `was_sent` is False if the request certainly did not reach the API server; otherwise it may have been carried out.
    """

    def __init__(self, call: str, cause: str, *, was_sent: bool = True) -> None:
        super().__init__(f"{call}: the Kubernetes API server does not respond: {cause}")
        self.was_sent = was_sent


class BadAnswer(KubernetesError):
    """The API server answered something that is not the expected JSON object."""

    def __init__(self, call: str, cause: str) -> None:
        super().__init__(f"{call}: unexpected answer of the Kubernetes API server: {cause}")


class StreamFailed(KubernetesError):
    """A stream of a pod was opened and then failed, such as a connection to a port where nothing listens."""

    def __init__(self, call: str, cause: str) -> None:
        super().__init__(f"{call}: {cause}")


class Refused(KubernetesError):
    """The API server answered with an error.

    `status` is that of HTTP, `reason` a word such as "Forbidden" or "Invalid", `message` a sentence. After a status of
    500 and more it is not known whether the call was carried out.
    """

    def __init__(self, call: str, status: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{call}: {message} ({status} {reason})" if reason else f"{call}: {message} ({status})")
        self.status, self.reason, self.message = status, reason, message
        self.retry_after_s = retry_after_s


class NotFound(Refused):
    """The object, its namespace or the resource type does not exist."""


class Conflict(Refused):
    """The object has changed since it was read, is another one (uid), is already bound, or another manager's field."""


class AlreadyExists(Refused):
    """An object of this name exists."""


class Gone(Refused):
    """The resource version or the page of a list has expired: list again."""


class TooManyRequests(Refused):
    """The API server is overloaded, or a PodDisruptionBudget does not permit the eviction now."""


class EquipmentMissing(Exception):
    """What a pod needs is not there. Says why, and what to do."""

    def __init__(self, message: str, *, is_declared: bool = False) -> None:
        """`is_declared`: waiting does not help, what was declared has to change."""
        super().__init__(message)
        self.is_declared = is_declared


class FailureStatus(msgspec.Struct, rename="camel", gc=False):
    """The API server's description of an error."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None


_status = msgspec.json.Decoder(FailureStatus)

BY_STATUS: dict[int, type[Refused]] = {404: NotFound, 409: Conflict, 410: Gone, 429: TooManyRequests}
BY_REASON: dict[str, type[Refused]] = {"AlreadyExists": AlreadyExists, "Expired": Gone, "Gone": Gone}
MESSAGE_CHARACTERS = 2000


def refusal(call: str, status: int, body: bytes, retry_after_s: float | None = None) -> Refused:
    """The error for an answer that is not a success; `body` is a Status object, or the text of some proxy."""
    try:
        reported = _status.decode(body)
    except msgspec.DecodeError:
        reported = FailureStatus(message=body[:MESSAGE_CHARACTERS].decode("utf-8", "replace").strip())
    reason = reported.reason or ""
    status = reported.code or status
    kind = BY_REASON.get(reason) or BY_STATUS.get(status, Refused)
    message = (reported.message or "no explanation")[:MESSAGE_CHARACTERS]
    return kind(call, status, reason, message, retry_after_s)
