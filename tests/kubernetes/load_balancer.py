"""A stand-in for the controllers that give addresses to load balancers and ingresses.

A cluster in a cloud has them, one on two cores does not. It gives every Service of type LoadBalancer an address of
`ADDRESSES`, and every Ingress one and the same; nothing listens there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.kubernetes.api_calls import ApiCalls, ApiError
from tests.kubernetes.control_plane import ControlPlane

ADDRESSES = "192.0.2"
"""A network for documentation: no route leads there."""
INGRESS_ADDRESS = f"{ADDRESSES}.250"
EVERY_S = 0.1
SERVICES = "/api/v1/services"
INGRESSES = "/apis/networking.k8s.io/v1/ingresses"


@contextmanager
def load_balancer(control_plane: ControlPlane) -> Iterator[None]:
    """Addresses are given while it is open."""
    over = threading.Event()
    thread = threading.Thread(target=_serve, args=(control_plane.calls("admin"), over), name="load balancer")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _serve(calls: ApiCalls, over: threading.Event) -> None:
    taken = 0
    while not over.wait(EVERY_S):
        try:
            for each in calls.get(SERVICES)["items"]:
                if each["spec"]["type"] == "LoadBalancer" and not _has_address(each):
                    taken += 1
                    _give(calls, "/api/v1", "services", each, f"{ADDRESSES}.{taken % 200 + 1}")
            for each in calls.get(INGRESSES)["items"]:
                if not _has_address(each):
                    _give(calls, "/apis/networking.k8s.io/v1", "ingresses", each, INGRESS_ADDRESS)
        except (ApiError, OSError):  # it is away, or the object is gone: look again
            continue


def _has_address(found: dict[str, Any]) -> bool:
    return bool(found["status"].get("loadBalancer", {}).get("ingress"))


def _give(calls: ApiCalls, group: str, plural: str, found: dict[str, Any], address: str) -> None:
    about = found["metadata"]
    path = f"{group}/namespaces/{about['namespace']}/{plural}/{about['name']}/status"
    calls.patch(path, {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}})
