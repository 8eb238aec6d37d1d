"""How the pods of one distributed run find each other: environment variables of each framework, host names, host file.

PyTorch reads `MASTER_ADDR` and its companions, torchrun `PET_*`; TensorFlow `TF_CONFIG`; XGBoost the variables of its
tracker; JAX those of its coordinator; an MPI launcher a host file, and a program that it starts instead of ssh. Pods of
one machine share its network, so that each port is of one pod, and addresses are those of the loopback interface; on
Kubernetes each pod has a host name of its own.
"""

from __future__ import annotations

import ipaddress
import json
import random
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fairpool.model.observation import StartOrder
from fairpool.model.spec import DistributedRun, Framework

HOSTFILE = "FAIRPOOL_HOSTFILE"
HOSTFILE_NAME = ".fairpool-hostfile"
PEERS = "FAIRPOOL_PEERS"
"""The directory with a socket for each worker of MPI; `pod/remote_shell.py` connects to them."""
REMOTE_SHELL = "fairpool-rsh"
LOOPBACK = "127.0.0.1"
INTERFACE = "lo"
PORTS = range(20_000, 30_000)
"""Below the ports that the kernel gives to outgoing connections, and those of node ports."""
LED = ("leader", "worker")
"""The pod sets of a run with a leader."""
HOST_NAME_MAX = 63


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the pods of a run meet: ports that were free when the first of them was started."""

    ports: tuple[int, ...]
    """The first is that of pod 0. TensorFlow has one for each pod, XGBoost a second for its workers."""
    hosts: tuple[str, ...] = ()
    """The host name of each pod; empty: all are on this machine."""

    def host(self, index: int) -> str:
        return self.hosts[index] if self.hosts else LOOPBACK


def framework_of(order: StartOrder) -> Framework:
    """What a run without a description is taken for: those that were declared before there was one."""
    return order.distributed.framework if order.distributed is not None else Framework.PYTORCH


def ports_needed(order: StartOrder) -> int:
    """Ports of the whole run; 0: its pods do not meet."""
    if order.distributed is None and (not order.together or order.pods < 2):
        return 0
    return {Framework.TF: order.pods, Framework.XGBOOST: 2}.get(framework_of(order), 1)


def is_mpi(order: StartOrder) -> bool:
    return order.distributed is not None and order.distributed.framework is Framework.MPI


def variables_of_peers(
    order: StartOrder, rendezvous: Rendezvous | None, *, home: str, support: str, gang: str
) -> dict[str, str]:
    """The variables of one pod."""
    if rendezvous is None:
        return {}
    match framework_of(order):
        case Framework.MPI:
            return _mpi(home, support, gang)
        case Framework.TF:
            return {"TF_CONFIG": json.dumps(_tf_config(order, rendezvous))}
        case Framework.XGBOOST:
            return _xgboost(order, rendezvous)
        case Framework.JAX:
            return {
                "COORDINATOR_ADDRESS": rendezvous.host(0),
                "COORDINATOR_PORT": str(rendezvous.ports[0]),
                "NUM_PROCESSES": str(order.pods),
                "PROCESS_ID": str(order.index),
            }
    return _pytorch(order, rendezvous)


def _of_master(order: StartOrder, rendezvous: Rendezvous) -> dict[str, str]:
    return {
        "MASTER_ADDR": rendezvous.host(0),
        "MASTER_PORT": str(rendezvous.ports[0]),
        "RANK": str(order.index),
        "WORLD_SIZE": str(order.pods),
    }


def _pytorch(order: StartOrder, rendezvous: Rendezvous) -> dict[str, str]:
    """One process for each pod; `torchrun` takes the rest from its own variables and may start several."""
    port, master = str(rendezvous.ports[0]), rendezvous.host(0)
    of_torchrun = {"PET_NODE_RANK": str(order.index), "PET_MASTER_ADDR": master, "PET_MASTER_PORT": port}
    nodes = str(order.pods)
    if order.minimum is not None:
        nodes = f"{order.minimum}:{order.pods}"
        endpoint = f"{master}:{port}"
        # Elastic: pods come and go, and are numbered anew each time.
        of_torchrun = {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": endpoint, "PET_RDZV_ID": order.workload}
    local = {"NODE_RANK": str(order.index), "LOCAL_RANK": "0"}
    return {**_of_master(order, rendezvous), **local, "PET_NNODES": nodes, **of_torchrun}


def _tf_config(order: StartOrder, rendezvous: Rendezvous) -> dict[str, object]:
    """The first is the chief, if there is one beside the workers."""
    addresses = [f"{rendezvous.host(index)}:{port}" for index, port in enumerate(rendezvous.ports)]
    if order.pod_set not in LED:
        return {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": order.index}}
    task = {"type": "chief", "index": 0} if order.index == 0 else {"type": "worker", "index": order.index - 1}
    cluster = {"chief": addresses[:1], "worker": addresses[1:]}
    return {"cluster": {name: listed for name, listed in cluster.items() if listed}, "task": task}


def _xgboost(order: StartOrder, rendezvous: Rendezvous) -> dict[str, str]:
    """The tracker is started by rank 0, at the master's address. Workers share a port number, so that each has another
    address."""
    tracker, worker = rendezvous.ports[0], rendezvous.ports[1]
    base = int(ipaddress.IPv4Address(LOOPBACK))
    workers = rendezvous.hosts[1:] or [str(ipaddress.IPv4Address(base + index)) for index in range(1, order.pods)]
    return {
        **_of_master(order, rendezvous),
        "WORKER_PORT": str(worker),
        "WORKER_ADDRS": ",".join(workers),
        "DMLC_TRACKER_URI": rendezvous.host(0),
        "DMLC_TRACKER_PORT": str(tracker),
        "DMLC_NUM_WORKER": str(order.pods),
        "DMLC_TASK_ID": str(order.index),
        "DMLC_ROLE": "worker",
    }


def _mpi(home: str, support: str, gang: str) -> dict[str, str]:
    return {
        PEERS: gang,
        HOSTFILE: f"{home}/{HOSTFILE_NAME}",
        "OMPI_MCA_orte_default_hostfile": f"{home}/{HOSTFILE_NAME}",
        "OMPI_MCA_plm_rsh_agent": f"{support}/bin/{REMOTE_SHELL}",
        "OMPI_MCA_oob_tcp_if_include": INTERFACE,
        "OMPI_MCA_btl_tcp_if_include": INTERFACE,
        "SHELL": "/bin/sh",  # Open MPI asks for it where the user has no account
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


def hostfile(order: StartOrder, hosts: Sequence[str] = ()) -> str:
    """The workers of an MPI run, as Open MPI reads them; `hosts`: the names of all pods, where they have others."""
    slots = (order.distributed or DistributedRun()).slots_per_worker
    workers = hosts[1:] or [mpi_host_name(order.name, index) for index in range(1, order.pods)]
    return "".join(f"{worker} slots={slots}\n" for worker in workers)


def mpi_host_name(workload: str, index: int) -> str:
    """The host name of a pod of an MPI run, the same in every try: `dist1-launcher`, `dist1-worker-0`."""
    role = "launcher" if index == 0 else f"worker-{index - 1}"
    return f"{workload}-{role}"[-HOST_NAME_MAX:].lstrip("-")


def free_ports(count: int, taken: Collection[int]) -> list[int]:
    """Different ports that are free on this machine now, none of them among those."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if len(found) == count:
            break
        if port not in taken and is_free_port(port):
            found.append(port)
    while len(found) < count:  # more pods than ports: whatever the kernel has
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            found.append(int(probe.getsockname()[1]))
    return found


def is_free_port(port: int) -> bool:
    """Whether nothing on this machine listens on it."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
