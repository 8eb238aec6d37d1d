"""HTTP client of a cluster for its control plane: pull and push, as `cluster/control_link.py` calls them."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from contextlib import suppress
from typing import Any, TypeVar

import httpx2
from pydantic import BaseModel, ValidationError

from fairpool.api.calls import refused_answer
from fairpool.api.cluster_equipment import CLUSTER_EQUIPMENT, EquipmentAnswer, EquipmentReport
from fairpool.api.clusters import ControlPlaneUnreachable, PullAnswer, PushAnswer, PushReport, is_refusal
from fairpool.api.credentials import CLUSTER_SECRETS, SecretsAnswer, SecretsRequest
from fairpool.api.listener import job_user
from fairpool.api.loopback import JobListens, Reply, is_here
from fairpool.api.message import VERSION, wire_problems
from fairpool.api.nodes import ClusterAnswer
from fairpool.api.samples import SamplesAnswer, SamplesReport
from fairpool.model.ids import Revision
from fairpool.model.problem import Problem

M = TypeVar("M", bound=BaseModel)

PATIENCE_S = 10.0
"""For an answer, beyond the time that a pull is held on purpose."""
KEEP_ALIVE_S = 60.0
"""Less than our server keeps an idle connection open (75 s)."""


class ClusterClient:
    """The control plane, as one cluster reaches it. For one thread, but any thread may close it."""

    def __init__(self, address: str, token: str, certificates: ssl.SSLContext | None = None) -> None:
        """`certificates`: the authorities to trust; None: those of this machine."""
        local = is_here(address)
        self._address = address
        self._http = httpx2.Client(
            base_url=address,
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE_S,
            verify=certificates if certificates is not None else not local,
            trust_env=not local,  # past any proxy
            limits=httpx2.Limits(max_connections=1, keepalive_expiry=KEEP_ALIVE_S),
        )
        self._closed = threading.Event()
        self._under_way = threading.Lock()
        self._stream: Any = None
        """Of the open connection, as httpcore hands it over."""

    def close(self) -> None:
        """End the call under way, if there is one, and make no other."""
        self._closed.set()
        self._cut()
        if self._under_way.acquire(blocking=False):
            self._http.close()
            self._under_way.release()

    def join(self, installation: str) -> ClusterAnswer:
        """The cluster whose token this is. Raises `ControlPlaneUnreachable`."""
        body = {"installation": installation}
        return self._read(ClusterAnswer, self._call("POST", "/api/v1/cluster/join", json=body))

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        """What changed after a revision, waiting a while for something to change. Raises `ControlPlaneUnreachable`."""
        body = {"after": after, "waitS": wait_s, "version": VERSION}
        timeout = httpx2.Timeout(PATIENCE_S, read=PATIENCE_S + wait_s)
        return self._read(PullAnswer, self._call("POST", "/api/v1/cluster/pull", json=body, timeout=timeout))

    def push(self, report: PushReport) -> PushAnswer:
        """Take in what is so. Raises `ControlPlaneUnreachable`."""
        return self._read(
            PushAnswer, self._call("POST", "/api/v1/cluster/push", content=report.to_json(report.version))
        )

    def samples(self, report: SamplesReport) -> SamplesAnswer:
        """Take in what was measured. Raises `ControlPlaneUnreachable`."""
        return self._read(SamplesAnswer, self._call("POST", "/api/v1/cluster/samples", content=report.to_json()))

    def secrets(self, request: SecretsRequest) -> SecretsAnswer:
        """Values for a pod. Raises `ControlPlaneUnreachable`; over a connection that others can read, none are asked
        for."""
        if self._address.startswith("http://") and not is_here(self._address):
            what = f"values of credentials are not sent over {self._address}, which is not encrypted"
            raise ControlPlaneUnreachable(what, Problem("control.not_encrypted", what, "use an https:// address"))
        return self._read(SecretsAnswer, self._call("POST", CLUSTER_SECRETS, json=request.wire()))

    def equipment(self, report: EquipmentReport) -> EquipmentAnswer:
        """Report what objects the cluster has; who may do what there. Raises `ControlPlaneUnreachable`."""
        return self._read(EquipmentAnswer, self._call("POST", CLUSTER_EQUIPMENT, content=report.to_json()))

    def _call(self, method: str, path: str, **options: Any) -> bytes:
        with self._under_way:
            answer = self._answer(method, path, **options)
        if answer.is_error:
            raise _refused(self._address, answer)
        return answer.content

    def _answer(self, method: str, path: str, **options: Any) -> httpx2.Response:
        if self._closed.is_set():
            raise ControlPlaneUnreachable("the call was cancelled")
        try:
            return self._http.request(method, path, extensions={"trace": self._trace}, **options)
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error

    def _trace(self, event: str, details: dict[str, Any]) -> None:
        """httpcore reports each step; a connection that was made meanwhile is cut like one that was there."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._stream = details["return_value"]
            if self._closed.is_set():
                self._cut()
            if is_here(self._address) and (uid := job_user(self._stream.get_extra_info("socket"))) is not None:
                self._cut()
                raise httpx2.ConnectError(str(JobListens(self._address, uid)))

    def _cut(self) -> None:
        """Shut the connection down, which ends a read in another thread; closing it would not."""
        with suppress(OSError, AttributeError, ValueError):
            opened = self._stream.get_extra_info("socket")
            with socket.socket(fileno=os.dup(opened.fileno())) as same:
                same.shutdown(socket.SHUT_RDWR)

    def _read(self, kind: type[M], text: bytes) -> M:
        try:
            return kind.model_validate_json(text)
        except ValidationError as error:
            problem = wire_problems(kind.__name__, error)[0]
            raise ControlPlaneUnreachable(f"the control plane's response is not valid: {problem.what}") from error

    def _unreachable(self, error: httpx2.TransportError) -> ControlPlaneUnreachable:
        if self._closed.is_set():
            return ControlPlaneUnreachable("the call was cancelled")
        problem = _certificate_problem(self._address, error)
        if problem is not None:
            return ControlPlaneUnreachable(problem.what, problem)
        reason = str(error) or type(error).__name__
        return ControlPlaneUnreachable(f"{self._address} does not answer: {reason}")


def _certificate_problem(address: str, error: BaseException) -> Problem | None:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            what = f"the certificate of {address} is not trusted: {cause.verify_message}"
            return Problem("control.certificate", what, "pass the certificate of its authority with --ca-file")
        if isinstance(cause, ssl.SSLError):
            what = f"{address} cannot be reached over TLS: {cause.reason or cause}"
            return Problem("control.tls", what, "check whether it is an https:// address")
        cause = cause.__cause__ or cause.__context__
    return None


def _refused(address: str, answer: httpx2.Response) -> ControlPlaneUnreachable:
    said = refused_answer(Reply(answer.status_code, answer.reason_phrase, answer.content)).problems[0]
    text = f"the control plane answered {answer.status_code}: {said.what}"
    is_ours = said.code != "wire.not_fairpool" and is_refusal(answer.status_code)  # not that of a proxy before it
    if answer.status_code in (401, 403):
        what = f"the control plane at {address} does not accept this token: {said.what}"
        fix = "make a new one with `runai-adm cluster token NAME`, and pass it with --token-file"
        return ControlPlaneUnreachable(text, Problem("control.token", what, fix), is_refusal=is_ours)
    if said.code == "cluster.joined":
        return ControlPlaneUnreachable(text, said)
    if said.code == "wire.not_fairpool" and answer.status_code in (400, 404, 405):
        what = f"{address} is not a Fairpool control plane: {said.what}"
        return ControlPlaneUnreachable(text, Problem("control.not_fairpool", what, "check the address of --control"))
    return ControlPlaneUnreachable(text, is_refusal=is_ours)
