"""External ports: ports of the server's machine that lead to ports of a workload's pods, for whatever connects to them.

A node port without a number gets a free one of `NODE_PORTS`; a load balancer without one gets the number of the pod's
port. A port belongs to a workload from its submit until it is gone, and is refused to others meanwhile.

Clusters with services of their own (Kubernetes) open them by themselves: node ports on their nodes, each of which
belongs to one workload of the cluster, and load balancers with an address for each workload.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from fairpool.api import workload_spec
from fairpool.api.pod_spec import ExposedPort, ServiceType
from fairpool.control.port_checks import EXTERNAL
from fairpool.control.refusal import Refused, refused
from fairpool.control.store import equipment as equipment_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.workload_documents import declaration_of

if TYPE_CHECKING:
    from fairpool.control.plane import Plane

NODE_PORTS = range(30_000, 32_768)
LOWEST = 1024
"""Below are the ports of the machine's own services."""
FIELD = "spec.ports.external"

Pairs = tuple[tuple[int, int], ...]
"""External port, and port of the pods."""
Held = Sequence[tuple[ExposedPort, int]]
"""Ports as they were asked for, and the external port that each has got."""


class PortServer(Protocol):
    """Listens on external ports."""

    def is_free(self, port: int) -> bool:
        """Whether it could listen there now."""

    def set_ports(self, workload: str, pairs: Pairs) -> None:
        """Listen on these ports of a workload from now on, and on no other of it."""


def assigned(
    plane: Plane,
    connection: Connection,
    body: workload_spec.SubmitAny,
    *,
    workload: str = "",
    held: Held = (),
) -> Pairs:
    """The external ports of a request. Refuses those that are taken. `held`: those that this workload has already."""
    asked = _external(body.spec.ports)
    if not asked:
        return ()
    project = organization_store.project(connection, body.project_id)
    cluster = project.cluster if project is not None else ""
    is_outside = has_own_services(connection, cluster)
    used = {
        external: f"the job {row.name}" if row.project == body.project_id else "a job of another project"
        for row in store.with_external_ports(connection)
        if row.id != workload
        and (row.cluster == cluster if is_outside else not has_own_services(connection, row.cluster))
        for external, _ in declaration_of(row).external_ports
    }
    if is_outside:
        return _assigned_outside(asked, held, used)
    named = {each.external for each in asked if each.external is not None}
    found: dict[int, int] = {}
    for each in asked:
        external = _chosen(plane, each, held, used, named | found.keys())
        if external in found:
            what = f"external port {external} is named twice"
            raise refused(422, "port.twice", what, "give each port a number of its own", FIELD)
        found[external] = each.container
    return tuple(found.items())


def has_own_services(connection: Connection, cluster: str) -> bool:
    """Whether a cluster opens external ports by itself."""
    return equipment_store.reported(connection, cluster) is not None


def host_of_ports(plane: Plane, connection: Connection, cluster: str) -> str:
    """Where the external ports of workloads are; empty: not on this machine, or not known."""
    return "" if has_own_services(connection, cluster) else plane.settings.pod_host


def _assigned_outside(asked: Sequence[ExposedPort], held: Held, used: Collection[int]) -> Pairs:
    """The same in a cluster with services of its own; `used`: the ports of its other workloads."""
    found: list[tuple[int, int]] = []
    named = {each.external for each in asked if each.external is not None}
    before = {(each.service_type, each.container): external for each, external in held}
    for each in asked:
        if each.service_type is ServiceType.LOAD_BALANCER:  # which has an address of its own
            found.append((each.external or each.container, each.container))
            continue
        if each.external is not None and each.external not in NODE_PORTS:
            what = f"external port {each.external} is not a node port"
            fix = f"use a number from {NODE_PORTS[0]} to {NODE_PORTS[-1]}, or leave it out"
            raise refused(422, "port.range", what, fix, FIELD)
        if each.external is not None and each.external in used:
            raise _taken(each.external, "it belongs to another job of the cluster")
        taken = {*used, *named, *(external for external, _ in found)}
        own = before.get((each.service_type, each.container))
        kept = own if own is not None and own not in named else None
        number = each.external or kept or next((port for port in NODE_PORTS if port not in taken), None)
        if number is None:
            raise refused(409, "port.none_left", "no node port is left", "delete jobs that have one", FIELD)
        if number in {external for external, _ in found}:
            raise refused(422, "port.twice", f"external port {number} is named twice", "give each its own", FIELD)
        found.append((number, each.container))
    return tuple(found)


def _external(ports: Iterable[ExposedPort]) -> list[ExposedPort]:
    """Those that get an external port. One that is listed twice without numbers gets one."""
    found: list[ExposedPort] = []
    for each in ports:
        is_new = all((each.container, each.service_type) != (one.container, one.service_type) for one in found)
        if each.service_type in EXTERNAL and (each.external is not None or is_new):
            found.append(each)
    return found


def held_ports(ports: Iterable[ExposedPort], pairs: Pairs) -> Held:
    """What a workload has got for the ports of its request."""
    return [(each, external) for each, (external, _) in zip(_external(ports), pairs, strict=True)]


def _chosen(plane: Plane, asked: ExposedPort, held: Held, used: dict[int, str], others: Collection[int]) -> int:
    """`others`: the numbers that other ports of the request have."""
    own = {external for _, external in held}
    if asked.external is None:
        alike = (asked.service_type, asked.container)
        for before, external in held:
            if (before.service_type, before.container) == alike and external not in others:
                return external
    if asked.external is None and asked.service_type is ServiceType.NODE_PORT:
        for port in NODE_PORTS:
            if port not in used and port not in own and port not in others and _is_free(plane, port):
                return port
        raise refused(409, "port.none_left", "no node port is left", "delete jobs that have one", FIELD)
    port = asked.external if asked.external is not None else asked.container
    if port < LOWEST:
        what = f"external port {port} is reserved for services of the machine"
        raise refused(422, "port.reserved", what, f"use a number from {LOWEST} to 65535", FIELD)
    if port in used:
        raise _taken(port, f"it belongs to {used[port]}")
    if port not in own and not _is_free(plane, port):
        raise _taken(port, "another program of the server's machine uses it")
    return port


def _is_free(plane: Plane, port: int) -> bool:
    return plane.port_server is None or plane.port_server.is_free(port)


def _taken(port: int, why: str) -> Refused:
    what = f"external port {port} is taken: {why}"
    return refused(409, "port.taken", what, "choose another, or leave the number out for a free node port", FIELD)


def open_when_committed(plane: Plane, connection: Connection, workload: str, cluster: str, pairs: Pairs) -> None:
    """Within a transaction: listen on these ports once it is on disk, unless the cluster does."""
    server = plane.port_server
    if server is not None and not has_own_services(connection, cluster):
        plane.database.when_committed(lambda: server.set_ports(workload, pairs))
