"""A terminal in a page of the web UI: opened with the browser's session cookie, from a page of this server only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse

from fairpool.api.gateway_address import GatewayAddress
from fairpool.api.shell import Channel, Frame, decode_shell_frame
from fairpool.control.pod_access import PodAddress, ShellSession
from tests.contracts.test_streams import Echo
from tests.control.control_plane import HERE, ControlPlane, control_plane, node
from tests.control.pod_access_fakes import NoPodAccess

GATEWAY = GatewayAddress("http", "tools.localhost", 8081)
FOREIGN = (
    "http://evil.example",
    "http://127.0.0.1",
    "http://127.0.0.1:8081",
    "http://127.0.0.1:80801",
    "http://evil.127.0.0.1:8080",
    "http://127.0.0.1:8080.evil.example",
    GATEWAY.url,
    GATEWAY.origin_url("jupyter-1"),
    "null",
    "",
)


class EchoAccess(NoPodAccess):
    """Each shell says what it hears."""

    async def open_shell(self, pod: PodAddress, command: tuple[str, ...], tty: bool) -> ShellSession:
        return Echo(command)


@pytest.fixture(scope="module")
def control() -> Iterator[ControlPlane]:
    with control_plane(pod_access=EchoAccess(), gateway=GATEWAY) as control:
        control.project("team-a")
        control.researcher("ann", "team-a")
        yield control


@pytest.fixture(scope="module")
def path(control: ControlPlane) -> str:
    workload = control.train("t1", by="ann")["id"]
    control.push(control.report(nodes=(node("n1"),), workloads=(control.runs(workload),)))
    return f"/api/v1/workloads/{workload}/exec?command=bash&tty=true"


@pytest.fixture
def browser(control: ControlPlane) -> TestClient:
    """Its WebSockets are of another host name to the test client, so that it needs to be given the cookie again."""
    page = control.browser()
    form = {"username": "ann@example.com", "password": "correct horse"}
    assert page.post("/sign-in", data=form, headers={"Origin": HERE}).status_code == 200
    return control.browser(headers={"Cookie": f"fairpool_session={page.cookies['fairpool_session']}"})


@pytest.mark.parametrize("site", [{}, {"Sec-Fetch-Site": "same-origin"}], ids=["older browser", "browser"])
def test_a_page_of_this_server_opens_a_shell_with_its_cookie(
    browser: TestClient, path: str, site: dict[str, str]
) -> None:
    with browser.websocket_connect(path, headers={"Origin": HERE, "Host": "127.0.0.1:8080", **site}) as shell:
        assert decode_shell_frame(shell.receive_bytes()) == Frame(Channel.OUTPUT, b"bash")
        shell.send_bytes(Frame(Channel.INPUT, b"ls\n").encode())
        assert decode_shell_frame(shell.receive_bytes()) == Frame(Channel.OUTPUT, b"LS\n")


@pytest.mark.parametrize("origin", FOREIGN)
def test_no_other_page_does(browser: TestClient, path: str, origin: str) -> None:
    headers = {"Origin": origin, "Host": "127.0.0.1:8080"}
    with pytest.raises(WebSocketDenialResponse) as refused, browser.websocket_connect(path, headers=headers):
        pass
    assert refused.value.status_code == 403


def test_a_cookie_alone_is_not_enough(browser: TestClient, control: ControlPlane, path: str) -> None:
    host = {"Host": "127.0.0.1:8080"}
    with pytest.raises(WebSocketDenialResponse) as refused, browser.websocket_connect(path, headers=host):
        pass
    assert refused.value.status_code == 403
    elsewhere = {**host, "Origin": HERE, "Sec-Fetch-Site": "same-site"}
    with pytest.raises(WebSocketDenialResponse), browser.websocket_connect(path, headers=elsewhere):
        pass
    program = {**host, "Authorization": f"Bearer {control.tokens['ann']}"}
    with control.http.websocket_connect(path, headers=program) as shell:
        assert decode_shell_frame(shell.receive_bytes()) == Frame(Channel.OUTPUT, b"bash"), "a program sends no Origin"
