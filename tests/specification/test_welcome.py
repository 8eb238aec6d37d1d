"""What the user who starts the platform is shown and granted."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fairpool.cli.runai.configuration import Configuration, listening_here
from fairpool.cli.welcome import LocalUser, here, to_try
from fairpool.model.problem import Problem
from fairpool.platform.data_directory import DataDirectory
from fairpool.platform.owner_access import OwnerAccess

TOKENS = {"access_token": "fpa_secret", "refresh_token": "fpr_secret", "expires_in": 60}
ANSWER: dict[str, Any] = {
    "user": "test@run.ai",
    "must_change_password": False,
    "first_password_ignored": False,
    "tokens": TOKENS,
    "link": "/sign-in?code=fplx",
    "project": "demo",
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAIRPOOL_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config"


def test_runai_is_signed_in_where_only_its_owner_can_read_it(config: Path, tmp_path: Path) -> None:
    user = LocalUser(DataDirectory(tmp_path / "data"), "http://0.0.0.0:9000")
    assert user.keep(ANSWER, 1000.0) == ""
    known = Configuration(config)
    login = known.login("http://127.0.0.1:9000")
    assert login is not None
    assert (login.user, login.access_token, login.expires_at) == ("test@run.ai", "fpa_secret", 1060.0)
    assert known.default("project", "http://127.0.0.1:9000") == "demo"
    assert known.socket("http://127.0.0.1:9000") == tmp_path / "data" / "api.sock"
    assert {path.stat().st_mode & 0o077 for path in (config, *config.iterdir())} == {0}
    assert user.question() == {"holding": ["fpa_secret", "fpr_secret"], "project": "demo"}
    said = "\n".join(user.lines(ANSWER))
    assert "signed in as test@run.ai, project demo" in said
    *_, link = user.to_open(ANSWER, with_link=True)
    assert link == "  http://127.0.0.1:9000/sign-in?code=fplx"
    assert "secret" not in said
    (without,) = user.to_open(ANSWER, with_link=False)
    assert "http://127.0.0.1:9000;" in without
    assert "fplx" not in said + without


def test_a_socket_belongs_to_one_server(config: Path) -> None:
    known = Configuration(config)
    known.set_socket("http://127.0.0.1:1", "/data/api.sock")
    known.set_socket("http://127.0.0.1:2", "/data/api.sock")
    assert (known.socket("http://127.0.0.1:1"), known.socket("http://127.0.0.1:2")) == (None, Path("/data/api.sock"))


def test_a_configuration_that_cannot_be_written_is_said(config: Path, tmp_path: Path) -> None:
    config.write_text("a file")
    user = LocalUser(DataDirectory(tmp_path / "data"), "http://127.0.0.1:9000")
    (line,) = user.lines(ANSWER, user.keep(ANSWER, 0.0))
    assert line.startswith("Login    runai is not signed in: ")
    assert str(config) in line


def test_where_pods_are_not_isolated_the_socket_grants_nothing(config: Path, tmp_path: Path) -> None:
    access = OwnerAccess(None, "user namespaces are disabled")
    refused = asyncio.run(access.welcome({"holding": []}))
    for answer in (refused, asyncio.run(access.reset_password({"user": "test@run.ai"}))):
        assert isinstance(answer, Problem)
        assert answer.code == "access.not_isolated"
    assert isinstance(refused, Problem)
    (line,) = LocalUser(DataDirectory(tmp_path), "http://127.0.0.1:1").lines(refused)
    assert "not isolated from your account on this machine (user namespaces are disabled)" in line
    assert "--first-password-file" in line
    assert not config.exists()


def test_commands_are_shown_as_they_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "runai"):
        (programs / name).touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    assert here("runai") == "venv/bin/runai"
    assert list(to_try())[2] == "  venv/bin/runai list"
    monkeypatch.chdir(programs.parent / "bin")
    monkeypatch.chdir("/")
    assert here("runai") in (str(programs / "runai"), str(programs / "runai").lstrip("/"))
    monkeypatch.setenv("PATH", str(programs))
    assert here("runai") == "runai"


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("", None),
        ("  ", None),
        ("127.0.0.1:0", None),
        ("9000", "http://127.0.0.1:9000"),
        ("0.0.0.0:9000", "http://127.0.0.1:9000"),
        ("example.com", "http://example.com:8080"),
        ("[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_where_a_listener_is_found(text: str, server: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRPOOL_LISTEN", text)
    assert listening_here() == server


def test_settings_that_were_damaged_stay_readable(config: Path) -> None:
    config.mkdir()
    (config / "config.json").write_text(json.dumps({"sockets": ["x"], "projects": 3}))
    known = Configuration(config)
    assert (known.socket("http://a"), known.default("project", "http://a")) == (None, None)
    known.set_socket("http://a", "/s")
    assert known.socket("http://a") == Path("/s")
