"""Sessions, access keys, service accounts, keys of tokens and mail, as people type it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairpool.api.client import Client
from tests.end_to_end.runai_server import Server, serving
from tests.smtp_server import PASSWORD, USER, smtp_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("access")) as found:
        found.log_in()
        found.typed("runai-adm project create team-a --gpu-quota 1")
        found.typed("runai-adm project create team-b --gpu-quota 1")
        yield found


def test_sessions_are_listed_and_ended(server: Server) -> None:
    server.log_in(person="laptop")
    before = json.loads(server.typed("runai sessions list -o json", person="laptop"))
    assert [each["isCurrent"] for each in before].count(True) == 1
    assert "(this one)" in server.typed("runai sessions", person="laptop")
    server.typed("runai sessions end --others", person="laptop")
    assert "runai login" in server.refused("runai whoami")
    (left,) = json.loads(server.typed("runai sessions list -o json", person="laptop"))
    assert left["isCurrent"]
    server.log_in()
    assert "test@run.ai" in server.typed("runai-adm session list --user test@run.ai")
    assert server.typed(f"runai-adm session end {left['id']}") == f"Session {left['id']} ended.\n"
    assert server.type("runai whoami", person="laptop").code == 1
    assert "name the sessions to end, or pass --others" in server.refused("runai sessions end")


def test_an_access_key_signs_a_program_in(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ci.key"
    server.typed(f"runai access-key create ci --expires 90d --project team-a --key-file {file}")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "projects team-a" in server.typed("runai access-key list")
    server.typed("runai login --access-key --password-stdin", stdin=file.read_text(), person="ci")
    assert server.typed("runai list projects -o name", person="ci").split() == ["team-a"]
    assert "an access key is not enough" in server.refused("runai access-key delete ci", person="ci")
    monkeypatch.setenv("RUNAI_ACCESS_KEY", file.read_text().strip())
    assert server.typed("runai list projects -o name", person="without-login").split() == ["team-a"]
    assert "not found" in server.refused("runai list -p no-such", person="without-login")
    token = server.typed("runai auth token", person="without-login").strip()
    monkeypatch.setenv("RUNAI_ACCESS_KEY", "nonsense")
    assert "is not an access key" in server.refused("runai list projects", person="without-login")
    monkeypatch.delenv("RUNAI_ACCESS_KEY")
    begun = [each for each in json.loads(server.typed("runai sessions list -o json")) if each["method"] == "access-key"]
    assert len(begun) == 2, "that of the login and of the printed token; commands that are done have none"
    with Client(server.address, token) as client:
        assert client.me().username == "test@run.ai"
    renewed = server.typed("runai access-key secret ci --overlap 1h").strip()
    server.typed("runai login --access-key --password-stdin", stdin=renewed, person="ci")
    server.typed("runai login --access-key --password-stdin", stdin=file.read_text(), person="ci")
    server.typed("runai access-key delete ci")
    assert server.type("runai whoami", person="ci").code == 1
    assert "not a length of time" in server.refused("runai access-key create x --expires soon")
    assert "workload.read" in server.typed("runai whoami --permissions").splitlines()
    refused = server.refused("runai access-key create x --permission workload.reed")
    assert "you do not have the permission 'workload.reed': did you mean workload.read" in refused


def test_the_life_of_a_service_account(server: Server) -> None:
    secret = server.typed("runai-adm service-account create robot --project team-b").strip()
    login = "runai login application --name robot --password-stdin"
    server.typed(login, stdin=secret, person="robot")
    assert server.typed("runai list projects -o name", person="robot").split() == ["team-b"]
    assert "robot" in server.typed("runai-adm service-account list")
    server.typed("runai-adm service-account update robot --disable")
    assert "robot is disabled" in server.type(login, stdin=secret, person="robot").err
    server.typed("runai-adm service-account update robot --enable --add-project team-a")
    server.typed(login, stdin=secret, person="robot")
    assert "ROLE: researcher in project team-a" in server.typed("runai-adm service-account get robot")
    second = server.typed("runai-adm service-account secret robot --overlap 1h").strip()
    for each in (secret, second):
        server.typed(login, stdin=each, person="robot")
    server.typed("runai-adm service-account delete robot")
    assert server.type("runai whoami", person="robot").code == 1


def test_keys_of_tokens_are_rotated(server: Server) -> None:
    first = server.typed("runai-adm token-key list -o name").split()
    server.typed("runai-adm token-key rotate")
    assert server.typed("runai-adm token-key list -o name").split()[1:] == first
    server.typed("runai whoami")
    server.typed("runai-adm token-key rotate --now")
    assert "has expired" in server.refused("runai whoami")
    server.log_in()
    assert len(server.typed("runai-adm token-key list -o name").split()) == 1


def test_mail_is_set_up_and_tried(server: Server, tmp_path: Path) -> None:
    assert "--host and --from must be given" in server.refused("runai-adm mail update --port 25")
    with smtp_server(tmp_path, "starttls", with_login=True) as box:
        (tmp_path / "password").write_text(f"{PASSWORD}\n")
        (tmp_path / "ca.pem").write_text(box.certificate)
        place = f"--host {box.host} --port {box.port} --from fairpool@example.com"
        files = f"--user {USER} --password-file {tmp_path}/password --ca-file {tmp_path}/ca.pem"
        server.typed(f"runai-adm mail update {place} {files}")
        assert PASSWORD not in server.typed("runai-adm mail get")
        server.typed("runai-adm mail test ann@example.com")
        server.typed("runai-adm mail update --from other@example.com")
        server.typed("runai-adm mail test ann@example.com")
    assert [mail["From"] for mail in box.messages] == ["fairpool@example.com", "other@example.com"]
    assert "cannot be reached" in server.refused("runai-adm mail test ann@example.com")
    server.typed("runai-adm mail delete")
    assert "no mail server is configured" in server.refused("runai-adm mail get")
