"""Details of the commands that users meet: tokens for other programs, bad settings files, long messages, roles."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from fairpool.control.settings import FIRST_PASSWORD, FIRST_USER
from tests.end_to_end.runai_server import Server, real_environment, serving
from tests.end_to_end.terminal import Terminal

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "fairpool.cli.runai.main"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("details")) as found:
        found.settle("team-a", quota="16")
        yield found


def test_another_program_calls_the_api_with_the_token_of_the_command(server: Server) -> None:
    token = server.typed("runai auth token").strip()
    answer = httpx2.get(f"{server.address}/api/v1/workloads", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    assert httpx2.get(f"{server.address}/api/v1/workloads").status_code == 401
    assert "User not authenticated" in server.refused("runai auth token", person="unknown")


def test_a_settings_file_of_a_thousand_lists_in_lists_is_a_bad_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[" * 100_000)
    said = server.refused("runai list", FAIRPOOL_CONFIG=str(tmp_path))
    assert said == f"{tmp_path}/config.json is not JSON: fix or delete the file\n"


def test_a_long_refusal_fits_the_terminal_and_is_one_line_in_a_pipe(server: Server) -> None:
    line = "submit x -i img --elastic --interactive --completions 3"
    in_pipe = server.refused(f"runai {line}").splitlines()
    with Terminal([*COMMAND, *line.split()], real_environment(server), columns=60) as terminal:
        pass
    lines = terminal.text.replace("\r", "").splitlines()
    assert all(len(each) <= 60 for each in lines), lines
    assert " ".join(each.strip() for each in lines) == " ".join(in_pipe)


def test_a_password_is_asked_for_on_the_terminal_and_not_shown(server: Server) -> None:
    line = [*COMMAND, "login", "-u", FIRST_USER]
    with Terminal(line, real_environment(server, "other"), columns=100) as terminal:
        terminal.read_until("assword")
        terminal.write(f"{FIRST_PASSWORD}\r")
        terminal.read_until("Logged in successfully")
    assert terminal.code == 0
    assert FIRST_PASSWORD not in terminal.text
    with Terminal(line, real_environment(server, "other"), columns=100) as terminal:
        terminal.read_until("assword")
        terminal.interrupt()
    assert terminal.code == 130


def test_the_list_of_users_has_the_roles_of_researchers(server: Server) -> None:
    server.typed("runai-adm user create ann@example.com --project team-a")
    (ann,) = (each for each in server.typed("runai-adm user list").splitlines() if "ann@" in each)
    assert "researcher in project team-a" in ann
    assert "enabled" in ann
    server.typed("runai-adm user update ann@example.com --disable")
    (ann,) = (each for each in server.typed("runai-adm user list").splitlines() if "ann@" in each)
    assert "disabled" in ann


def test_a_disabled_role_is_marked_and_one_says_where_it_applies(server: Server) -> None:
    server.typed("runai-adm role create Reader --permission project:read --permission dashboards-overview:read")
    server.typed("runai-adm role update Reader --disable")
    (reader,) = (each for each in server.typed("runai-adm role list").splitlines() if each.startswith("Reader"))
    assert "disabled" in reader
    made = server.typed("runai-adm user create mia@example.com --project team-a")
    password = made.partition("shown only once: ")[2].split()[0]
    server.log_in("mia", "mia@example.com", password)
    assert "Roles: researcher in project team-a\n" in server.typed("runai whoami", person="mia")


def test_the_package_is_the_command_fairpool() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fairpool", "--version"], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, "fairpool")
