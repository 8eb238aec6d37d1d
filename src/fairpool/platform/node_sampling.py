"""Samples of a node of Kubernetes on their way to the cluster's program, in a thread of the agent.

Measured when the clock's seconds are a multiple of the interval, as everywhere. Of several replicas, the one that leads
takes them: each address is tried. A sample that cannot be delivered is lost, and is a gap.
"""

from __future__ import annotations

import http.client
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fairpool.agent.kubernetes_meter import KubernetesMeter
from fairpool.agent.machine_meter import MachineMeter
from fairpool.agent.usage import ResourceUsage
from fairpool.engines.kubernetes.node_samples import AgentMeasure, NodeMeasure
from fairpool.platform.address import Address

log = logging.getLogger("fairpool.node")

INTERVAL_S = 10.0
LEAD_S = 2.0
"""So long before the cluster's own samples: they contain what was measured just before."""
CALL_S = 5.0
TAKEN = 204
REPLICAS_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTarget:
    """Where samples go."""

    address: Address
    token_file: Path


@dataclass(frozen=True, slots=True)
class MeasuredPods:
    """Uids of the pods to measure."""

    all: Collection[str]
    sharing_network: Collection[str]


class NodeSampling:
    """Measures and sends until it is closed."""

    def __init__(self, target: SampleTarget, pods: Callable[[], MeasuredPods], cgroups: str) -> None:
        self._target, self._pods = target, pods
        self._pod_meter, self._machine_meter = KubernetesMeter(cgroups), MachineMeter()
        self._closed = threading.Event()
        self._error = ""
        self.sent = 0
        self._thread = threading.Thread(target=self._run, name="samples", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(INTERVAL_S - (time.time() + LEAD_S) % INTERVAL_S):
            try:
                self._send(msgspec.json.encode(self._measure()))
            except (OSError, http.client.HTTPException) as error:
                self._failed(str(error))
            except Exception:  # the next one may succeed
                log.exception("no samples were taken")

    def _measure(self) -> NodeMeasure:
        pods, at = self._pods(), time.monotonic()
        usages = self._pod_meter.measure(pods.all, pods.sharing_network, at)
        machine = self._machine_meter.measure(at)
        # The interfaces that can be seen from here are those of the agent's own pod.
        node = AgentMeasure(
            cpu_cores=machine.cpu_cores,
            memory_bytes=machine.memory_bytes,
            read_bytes_s=machine.read_bytes_s,
            written_bytes_s=machine.written_bytes_s,
        )
        return NodeMeasure(node, {uid: _measured(usage) for uid, usage in usages.items()})

    def _send(self, body: bytes) -> None:
        token = self._target.token_file.read_text(encoding="ascii").strip()
        host, port = self._target.address.host, self._target.address.port
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        answers: list[int | str] = []
        for each in found[:REPLICAS_MAX]:
            answers.append(self._posted(str(each[4][0]), port, token, body))
            if answers[-1] == TAKEN:
                self.sent += 1
                self._error = ""
                return
        self._failed(f"{host}:{port}: {', '.join(map(str, answers))}")

    def _posted(self, address: str, port: int, token: str, body: bytes) -> int | str:
        connection = http.client.HTTPConnection(address, port, timeout=CALL_S)
        try:
            connection.request("POST", "/samples", body, {"Authorization": f"Bearer {token}"})
            return connection.getresponse().status
        except OSError as error:
            return os.strerror(error.errno) if error.errno else str(error)
        finally:
            connection.close()

    def _failed(self, why: str) -> None:
        if why != self._error:
            log.warning("samples are not taken: %s", why)
        self._error = why


def _measured(usage: ResourceUsage) -> AgentMeasure:
    return AgentMeasure(**usage.values())
