"""HTTP client of a cluster for its control plane: pull and push, as `cluster/control_link.py` calls them."""

from __future__ import annotations

from typing import Any

import httpx2
from pydantic import ValidationError

from fairpool.api.clusters import ControlPlaneUnreachable, PullAnswer, PushAnswer, PushReport
from fairpool.api.message import VERSION
from fairpool.model.ids import Revision

PATIENCE_S = 10.0
"""For an answer, beyond the time that a pull is held on purpose."""


class ClusterClient:
    """The control plane, as one cluster reaches it. For one thread."""

    def __init__(self, address: str, token: str) -> None:
        self._http = httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S)

    def close(self) -> None:
        self._http.close()

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        """What changed after a revision, waiting a while for something to change. Raises `ControlPlaneUnreachable`."""
        body = {"after": after, "waitS": wait_s, "version": VERSION}
        timeout = httpx2.Timeout(PATIENCE_S, read=PATIENCE_S + wait_s)
        text = self._call("/api/v1/cluster/pull", json=body, timeout=timeout)
        try:
            return PullAnswer.from_json(text)
        except ValidationError as error:
            raise ControlPlaneUnreachable(f"the control plane's response is not valid: {error}") from error

    def push(self, report: PushReport) -> PushAnswer:
        """Take in what is so. Raises `ControlPlaneUnreachable`."""
        text = self._call("/api/v1/cluster/push", content=report.to_json(report.version))
        try:
            return PushAnswer.from_json(text)
        except ValidationError as error:
            raise ControlPlaneUnreachable(f"the control plane's response is not valid: {error}") from error

    def _call(self, path: str, **options: Any) -> bytes:
        try:
            answer = self._http.post(path, **options)
        except httpx2.TransportError as error:
            raise ControlPlaneUnreachable(f"{self._http.base_url} does not answer: {error}") from error
        if answer.is_error:
            raise ControlPlaneUnreachable(f"the control plane answered {answer.status_code}: {answer.text[:500]}")
        return answer.content
