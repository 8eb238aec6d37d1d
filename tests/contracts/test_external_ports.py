"""External ports at submit: chosen, refused where they are taken, kept, and given back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairpool.control.external_ports import Pairs
from fairpool.control.plane import Plane
from fairpool.platform.external_ports import ExternalPorts
from tests.control.control_plane import ControlPlane, codes, control_plane, expect, gone


class Listening:
    """Stands in for the sockets: port 9000 is another program's."""

    def __init__(self) -> None:
        self.ports: dict[str, Pairs] = {}

    def is_free(self, port: int) -> bool:
        return port != 9000

    def set_ports(self, workload: str, pairs: Pairs) -> None:
        self.ports[workload] = pairs


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane(pod_host="box") as control:
        control.app.state.plane.port_server = Listening()
        control.project("team-a")
        control.project("team-b")
        yield control


def node_port(container: int, external: int | None = None, kind: str = "NodePort") -> list[dict[str, Any]]:
    port = {"container": container, "serviceType": kind}
    return [port if external is None else {**port, "external": external}]


def submitted(control: ControlPlane, name: str, ports: list[dict[str, Any]], project: str = "team-a") -> Any:
    spec = {"image": "python", "ports": ports}
    return control.call("POST", "/api/v1/workloads/trainings", {"name": name, "projectId": project, "spec": spec})


def test_a_port_leads_to_the_pods_from_the_commit_on_and_is_shown_while_they_run(control: ControlPlane) -> None:
    made = control.train("a", ports=node_port(80, 8001))["id"]
    assert control.app.state.plane.port_server.ports == {made: ((8001, 80),)}
    assert expect(control.call("GET", f"/api/v1/workloads/{made}"), 200)["urls"] == []
    control.push(control.report(whole=True, workloads=(control.runs(made),)))
    assert expect(control.call("GET", f"/api/v1/workloads/{made}"), 200)["urls"] == ["http://box:8001"]


def test_numbers_that_are_left_out_are_chosen(control: ControlPlane) -> None:
    for name in ("a", "b"):
        control.train(name, ports=node_port(80))
    control.train("c", ports=node_port(8080, kind="LoadBalancer"))
    chosen = list(control.app.state.plane.port_server.ports.values())
    assert chosen == [((30000, 80),), ((30001, 80),), ((8080, 8080),)]


def test_a_port_that_is_listed_twice_gets_one_external_port(control: ControlPlane) -> None:
    control.train("a", ports=[*node_port(80), *node_port(80), *node_port(81)])
    control.train("b", ports=[*node_port(80, 8001), *node_port(80, 8002)])
    chosen = list(control.app.state.plane.port_server.ports.values())
    assert chosen == [((30000, 80), (30001, 81)), ((8001, 80), (8002, 80))]


def test_a_port_that_is_taken_is_refused_with_the_reason(control: ControlPlane) -> None:
    control.train("a", ports=node_port(80, 8001))
    taken = submitted(control, "b", node_port(80, 8001), "team-b")
    assert (taken.status_code, codes(taken)) == (409, ["port.taken"])
    assert "it belongs to a job of another project" in taken.text, "whose name is not for everyone"
    assert "it belongs to the job a:" in submitted(control, "b", node_port(80, 8001)).text
    foreign = submitted(control, "b", node_port(80, 9000))
    assert (foreign.status_code, codes(foreign)) == (409, ["port.taken"])
    assert "another program" in foreign.text
    reserved = submitted(control, "b", node_port(80, 443))
    assert (reserved.status_code, codes(reserved)) == (422, ["port.reserved"])
    twice = submitted(control, "b", [*node_port(80, 8002), *node_port(81, 8002)])
    assert (twice.status_code, codes(twice)) == (422, ["port.twice"])
    other = submitted(control, "b", [{"container": 80, "external": 8003, "serviceType": "Ingress"}])
    assert (other.status_code, codes(other)) == (422, ["port.external"])
    assert len(control.app.state.plane.port_server.ports) == 1


def test_a_job_that_is_gone_has_given_its_port_back(control: ControlPlane) -> None:
    made = control.train("a", ports=node_port(80, 8001))["id"]
    expect(control.call("POST", f"/api/v1/workloads/{made}/suspend"), 202)
    assert submitted(control, "b", node_port(80, 8001)).status_code == 409, "a suspended job keeps it"
    expect(control.call("DELETE", f"/api/v1/workloads/{made}"), 202)
    control.push(control.report(gone=(gone(made),)))
    expect(submitted(control, "b", node_port(80, 8001)), 202)


def changed(control: ControlPlane, workload: str, spec: Any) -> Pairs:
    """The external ports of a job after a change."""
    expect(control.call("PATCH", f"/api/v1/workloads/trainings/{workload}", {"spec": spec}), 202)
    found: Pairs = control.app.state.plane.port_server.ports[workload]
    return found


def test_each_external_port_of_one_port_of_the_pods_is_kept_when_the_job_is_changed(control: ControlPlane) -> None:
    ports = [*node_port(8080), *node_port(8080, kind="LoadBalancer"), *node_port(8080)]
    made = control.train("a", ports=ports)["id"]
    assert control.app.state.plane.port_server.ports[made] == ((30000, 8080), (8080, 8080))
    assert changed(control, made, {"labels": {"a": "1"}}) == ((30000, 8080), (8080, 8080))
    assert changed(control, made, {"image": "other"}) == ((30000, 8080), (8080, 8080))
    more = [*node_port(81), *ports]
    assert changed(control, made, {"ports": more}) == ((30001, 81), (30000, 8080), (8080, 8080))


def test_another_type_of_service_gets_another_port(control: ControlPlane) -> None:
    made = control.train("a", ports=node_port(8080))["id"]
    assert changed(control, made, {"ports": node_port(8080, kind="LoadBalancer")}) == ((8080, 8080),)
    assert changed(control, made, {"ports": [*node_port(81), *node_port(82, 30000)]}) == ((30001, 81), (30000, 82))


def test_a_port_that_is_given_back_while_it_is_opened_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    start_server = asyncio.start_server

    async def read(_: object) -> set[str]:
        return {"a"}

    async def main() -> None:
        ports, is_open = (
            ExternalPorts(cast(Plane, SimpleNamespace(read=read, notifier=None)), "127.0.0.1"),
            asyncio.Event(),
        )

        async def opened(*arguments: Any, **options: Any) -> asyncio.Server:
            server = await start_server(*arguments, **options)
            assert not ports.is_free(port)
            ports.set_ports("a", ())
            is_open.set()
            return server

        monkeypatch.setattr(asyncio, "start_server", opened)
        ports.set_ports("a", ((port, 80),))
        running = asyncio.create_task(ports.run())
        await is_open.wait()
        await asyncio.sleep(0)
        assert ports.is_free(port)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(main())
