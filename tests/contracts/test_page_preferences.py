"""What a user chose in the web UI, kept by the server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from fairpool.control.store.database import Connection
from fairpool.control.store.tables import page_preferences
from tests.control.control_plane import ControlPlane, codes, control_plane, expect

PATH = "/api/v1/me/preferences"


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        control.researcher("ann", "team-a")
        yield control


def test_each_user_has_their_own_and_a_put_replaces_all_of_it(control: ControlPlane) -> None:
    assert expect(control.call("GET", PATH, by="ann"), 200) == {}
    chosen = {"theme": "dark", "views": [{"name": "mine", "search": "?a=ü"}], "closed": {"hint": True}, "none": None}
    assert expect(control.call("PUT", PATH, chosen, by="ann"), 200) == chosen
    assert expect(control.call("GET", PATH, by="ann"), 200) == chosen
    assert expect(control.call("GET", PATH), 200) == {}, "not those of another user"
    expect(control.call("PUT", PATH, {"theme": "light"}, by="ann"), 200)
    assert expect(control.call("GET", PATH, by="ann"), 200) == {"theme": "light"}


def test_they_are_a_small_object(control: ControlPlane) -> None:
    assert control.call("PUT", PATH, ["dark"], by="ann").status_code == 422
    large = {"views": "x" * 64 * 1024}
    refusal = control.call("PUT", PATH, large, by="ann")
    assert (refusal.status_code, codes(refusal)) == (413, ["request.too_large"])
    assert control.call("PUT", PATH, {"views": "x" * 200_000}, by="ann").status_code == 413
    expect(control.call("PUT", PATH, {"views": "x" * 60_000}, by="ann"), 200)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_they_can_always_be_read_again(control: ControlPlane, number: str) -> None:
    """No browser reads NaN: one such value would be the end of all of this user's preferences."""
    headers = {"Authorization": f"Bearer {control.tokens['ann']}", "Content-Type": "application/json"}
    control.http.put(PATH, content=f'{{"idleFrom":{number},"theme":"dark"}}', headers=headers)
    text = control.call("GET", PATH, by="ann").text
    found = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert found in ({}, {"idleFrom": None, "theme": "dark"})


def test_they_are_not_in_the_audit_log_and_go_with_the_user(control: ControlPlane) -> None:
    before = len(expect(control.call("GET", "/api/v1/audit/log?limit=100"), 200)["entries"])
    expect(control.call("PUT", PATH, {"theme": "dark-and-secret"}, by="ann"), 200)
    assert len(expect(control.call("GET", "/api/v1/audit/log?limit=100"), 200)["entries"]) == before
    user = expect(control.call("GET", "/api/v1/me", by="ann"), 200)["id"]
    assert control.call("DELETE", f"/api/v1/users/{user}").status_code == 204
    assert "dark-and-secret" not in control.call("GET", "/api/v1/audit/log?limit=100").text
    assert control.http.portal is not None
    assert control.http.portal.call(control.app.state.plane.read, _rows) == 0


def _rows(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(page_preferences)).scalar_one()


def test_a_program_has_none(control: ControlPlane) -> None:
    made = expect(control.call("POST", "/api/v1/access-keys", {"name": "ci"}, by="ann"), 201)
    body = {"grantType": "client_credentials", "clientId": made["clientId"], "clientSecret": made["clientSecret"]}
    control.tokens["key"] = expect(control.http.post("/api/v1/token", json=body), 200)["accessToken"]
    assert control.call("PUT", PATH, {"theme": "dark"}, by="key").status_code == 403
    assert control.call("PUT", PATH, {"theme": "dark"}, by="").status_code == 401
