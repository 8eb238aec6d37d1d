"""A Kubernetes API server with fake nodes, in a process of its own, for `bench.e2e`.

It also measures what the API server itself can do: pods that are created bound to their nodes, with nothing decided.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.fence import ensure_namespace
from fairpool.engines.kubernetes.kubeconfig import find_api_server
from fairpool.engines.kubernetes.pod_reading import PodObject
from fairpool.engines.kubernetes.resources import NODES, PODS
from fairpool.engines.simulated.behaviour import Behaviour
from tests.kubernetes.control_plane import ControlPlane, control_plane
from tests.kubernetes.fake_nodes import FakeKubelet, node

GPUS = 8
NAMESPACE = "nothing-decided"
PATIENCE_S = 300.0
LOOK_S = 1.0
"""Between two lists of all pods, which cost the API server something too."""


async def add_nodes(client: KubernetesClient, names: Sequence[str]) -> None:
    for first in range(0, len(names), 100):
        wanted = names[first : first + 100]
        await asyncio.gather(*(client.create(NODES, node(name, GPUS)) for name in wanted))


async def bind_nothing_decided(client: KubernetesClient, names: Sequence[str], count: int) -> float:
    """Pods a second, from the first create until all run."""
    await ensure_namespace(client, NAMESPACE)
    needs = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}

    def pod(number: int) -> dict[str, Any]:
        container = {"name": "main", "image": "ubuntu", "resources": needs}
        spec = {"nodeName": names[number % len(names)], "restartPolicy": "Never", "containers": [container]}
        return {"metadata": {"name": f"pod-{number}", "labels": {"bench": "true"}}, "spec": spec}

    began = time.monotonic()
    await asyncio.gather(*(client.create(PODS, pod(number), namespace=NAMESPACE) for number in range(count)))
    while time.monotonic() - began < PATIENCE_S:
        found = await client.list(PODS, PodObject, namespace=NAMESPACE, resource_version="0")
        if all(each.status.phase not in (None, "Pending") for each in found.items) and len(found.items) >= count:
            break
        await asyncio.sleep(LOOK_S)
    rate = count / (time.monotonic() - began)
    await client.delete_all(PODS, namespace=NAMESPACE, grace_s=0)
    return rate


async def measured(plane: ControlPlane, names: Sequence[str], count: int) -> float:
    async with KubernetesClient(find_api_server(str(plane.kubeconfig())), timeout_s=PATIENCE_S) as client:
        return await bind_nothing_decided(client, names, count)


async def filled(plane: ControlPlane, names: Sequence[str]) -> None:
    async with KubernetesClient(find_api_server(str(plane.kubeconfig()))) as client:
        await add_nodes(client, names)


def main(arguments: Sequence[str]) -> int:
    folder, count, runs_s = Path(arguments[0]), int(arguments[1]), float(arguments[2])
    names = [f"n{number:05d}" for number in range(count)]
    with control_plane(folder) as plane:
        asyncio.run(filled(plane, names))
        with FakeKubelet(plane, lambda pod: Behaviour(run_s=runs_s)):
            print(json.dumps({"kubeconfig": str(plane.kubeconfig())}), flush=True)
            for line in sys.stdin:
                print(json.dumps({"pods_per_s": asyncio.run(measured(plane, names, int(line)))}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
