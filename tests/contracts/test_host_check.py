"""Before anything is read: the name we were called by, the page it comes from, and who calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse

from fairpool.control.app import create_app
from fairpool.control.settings import Settings
from tests.control.control_plane import CHEAP, ControlPlane, codes, control_plane

SIGN_IN = {"grantType": "password", "username": "test@run.ai", "password": "password"}


@pytest.fixture(scope="module")
def control() -> Iterator[ControlPlane]:
    with control_plane(host_names=("Pool.example.com",)) as control:
        yield control


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8080", "localhost:1", "LOCALHOST", "[::1]:8080", "[::1]", "pool.example.com:8080"]
)
def test_it_answers_to_its_own_names(control: ControlPlane, host: str) -> None:
    assert control.http.post("/api/v1/token", json=SIGN_IN, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example:8080", "192.0.2.7", "localhost.evil.example", "127.0.0.1.evil.example", ""]
)
def test_a_foreign_name_for_this_address_is_refused_before_the_password_is_looked_at(
    control: ControlPlane, host: str
) -> None:
    refused = control.http.post("/api/v1/token", json=SIGN_IN, headers={"Host": host})
    assert (refused.status_code, codes(refused)) == (421, ["access.not_our_name"])
    assert "--host-name" in refused.json()["problems"][0]["fix"]
    known = control.call("GET", "/api/v1/me", headers={"Host": host})
    assert known.status_code == 421


def test_where_others_can_reach_it_any_number_will_do_and_names_must_be_given(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        body = {"currentPassword": "password", "newPassword": "a better one"}
        assert control.call("POST", "/api/v1/me/password", body).status_code == 204
    app = create_app(Settings(data=tmp_path, host="0.0.0.0", host_names=("pool.example.com",)), hasher=CHEAP)
    with TestClient(app) as http:
        answers = {
            host: http.get("/api/v1/me", headers={"Host": host}).status_code
            for host in ("192.0.2.7:8080", "[2001:db8::1]", "pool.example.com", "evil.example")
        }
    assert list(answers.values()) == [401, 401, 401, 421]


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:9090", "null"])
def test_a_page_from_elsewhere_opens_no_shell(control: ControlPlane, origin: str) -> None:
    headers = {"Authorization": f"Bearer {control.tokens['admin']}", "Host": "127.0.0.1:8080", "Origin": origin}
    path = "/api/v1/workloads/none/exec?command=sh"
    with pytest.raises(WebSocketDenialResponse) as refused, control.http.websocket_connect(path, headers=headers):
        pass
    assert (refused.value.status_code, codes(refused.value)) == (403, ["access.other_origin"])
    own = headers | {"Origin": "http://127.0.0.1:8080"}
    with pytest.raises(WebSocketDenialResponse) as unknown, control.http.websocket_connect(path, headers=own):
        pass
    assert unknown.value.status_code == 404


@pytest.mark.parametrize("path", ["/api/v1/workloads/trainings", "/api/v1/users", "/nowhere"])
def test_the_body_of_an_unknown_caller_is_not_even_read(control: ControlPlane, path: str) -> None:
    said: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        said.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"content-length", b"8000000")],
    }
    assert control.http.portal is not None
    control.http.portal.call(control.app, scope, receive, send)
    assert said[0]["status"] == 401


def test_who_signs_in_sends_little(control: ControlPlane) -> None:
    large = SIGN_IN | {"password": "x" * 20_000}
    for refused in (control.http.post("/api/v1/token", json=large), control.http.post("/api/v2/token", data=large)):
        assert (refused.status_code, codes(refused)) == (413, ["request.too_large"])
        assert "16 KiB" in refused.text
