"""Pull and push within one process: the cluster calls its control plane without HTTP or token.

A cluster elsewhere makes the same two calls through `api.cluster_client`. Here they are handed to the control plane's
own thread as the values they are: nothing is serialized, and no token is checked.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from fairpool.api.cluster_equipment import EquipmentAnswer, EquipmentReport
from fairpool.api.clusters import ControlPlaneUnreachable, PullAnswer, PushAnswer, PushReport, is_refusal
from fairpool.api.credentials import SecretsAnswer, SecretsRequest
from fairpool.api.samples import SamplesAnswer, SamplesReport
from fairpool.control import cluster_equipment, cluster_secrets, cluster_sync, sample_intake
from fairpool.control.plane import Plane
from fairpool.control.refusal import Refused
from fairpool.control.store.unavailable import Unavailable
from fairpool.model.ids import Revision

T = TypeVar("T")

log = logging.getLogger("fairpool.cluster")


class InProcessControl:
    """The calls of a control plane that runs on another thread's event loop.

    Closing it, from any thread, ends the calls under way: a pull that is held must not delay a shutdown.
    """

    def __init__(self, plane: Plane, cluster: str, home: asyncio.AbstractEventLoop) -> None:
        self._plane, self._cluster, self._home = plane, cluster, home
        self._under_way: set[Future[Any]] = set()
        self._closed = threading.Event()

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        """What changed after a revision, waiting a while for something to change. Raises `ControlPlaneUnreachable`."""
        return self._call(cluster_sync.pulled(self._plane, self._cluster, after, wait_s))

    def push(self, report: PushReport) -> PushAnswer:
        """Take in what is so. Raises `ControlPlaneUnreachable`."""
        return self._call(cluster_sync.pushed(self._plane, self._cluster, report))

    def samples(self, report: SamplesReport) -> SamplesAnswer:
        """Take in what was measured. Raises `ControlPlaneUnreachable`."""
        return self._call(sample_intake.sampled(self._plane, self._cluster, report))

    def secrets(self, request: SecretsRequest) -> SecretsAnswer:
        """Values for a pod. Raises `ControlPlaneUnreachable`."""
        return self._call(cluster_secrets.secrets_for(self._plane, self._cluster, request))

    def equipment(self, report: EquipmentReport) -> EquipmentAnswer:
        """Report what objects the cluster has. Raises `ControlPlaneUnreachable`."""
        return self._call(cluster_equipment.exchanged(self._plane, self._cluster, report))

    def close(self) -> None:
        self._closed.set()
        for call in tuple(self._under_way):
            call.cancel()

    def _call(self, answer: Coroutine[Any, Any, T]) -> T:
        if self._closed.is_set():
            answer.close()
            raise ControlPlaneUnreachable("the call was cancelled")
        try:
            call = asyncio.run_coroutine_threadsafe(answer, self._home)
        except RuntimeError as error:  # its loop has stopped
            answer.close()
            raise ControlPlaneUnreachable(f"the control plane has stopped: {error}") from error
        self._under_way.add(call)
        if self._closed.is_set():  # meanwhile; asked after adding, so that a call is cancelled here or by `close`
            call.cancel()
        try:
            return call.result()
        except CancelledError as error:
            raise ControlPlaneUnreachable("the call was cancelled") from error
        except Refused as refusal:
            words = f"the control plane refused: {refusal}"
            raise ControlPlaneUnreachable(words, is_refusal=is_refusal(refusal.status)) from refusal
        except Unavailable as error:  # the database has said so in the log already
            raise ControlPlaneUnreachable(f"the control plane cannot answer: {error}") from error
        except Exception as error:
            # A bug. To the cluster it is a control plane that cannot answer now, as over a wire.
            log.exception("the control plane cannot answer its cluster")
            raise ControlPlaneUnreachable(f"the control plane cannot answer: {type(error).__name__} {error}") from error
        finally:
            self._under_way.discard(call)
