"""`runai-adm collect-logs` of a real platform: everything useful is in the archive, and no secret."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow

PASSWORD = "correct-horse-battery-9"
VARIABLE = "value-of-a-variable-7731"
ARGUMENT = "argument-of-a-program-5512"
PRINTED = "printed-by-the-job-8890"


def typed(config: Path, program: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
    return subprocess.run(
        [sys.executable, "-m", f"fairpool.cli.{program}.main", *arguments],
        env={**kept, "FAIRPOOL_CONFIG": str(config)},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("collect") / "config"


@pytest.fixture(scope="module")
def secrets(config: Path, platform: Running) -> set[str]:
    """All that must not be in the archive, after it was used."""

    def done(program: str, *arguments: str, stdin: str = "") -> str:
        said = typed(config, program, *arguments, stdin=stdin)
        assert said.returncode == 0, (arguments, said)
        return said.stdout.strip()

    done("runai", "password", "--stdin", stdin=f"{PASSWORD}\n")
    application = done("adm", "application", "create", "sweeper", "--role", "researcher")
    cluster = done("adm", "cluster", "create", "east")
    temporary = done("adm", "user", "create", "ann@example.com").rpartition(" ")[2]
    program = f"import sys; print('{PRINTED}', sys.argv)"
    words = ("python", "-c", program, ARGUMENT)
    done("runai", "submit", "first", "-i", "python", "-e", f"API_KEY={VARIABLE}", "--command", "--", *words)
    done("runai", "wait", "first", "--timeout", "5m")
    assert PRINTED in done("runai", "logs", "first")
    wrong = typed(config, "runai", "login", "-u", "ann@example.com", stdin="a-wrong-password-31\n")
    assert wrong.returncode == 1
    done("runai", "logout")
    done("runai", "login", "-u", "test@run.ai", stdin=f"{PASSWORD}\n")
    kept = json.loads((config / "credentials.json").read_text()).values()
    tokens = {login[name] for login in kept for name in ("access_token", "refresh_token")}
    return {PASSWORD, application, cluster, temporary, VARIABLE, ARGUMENT, PRINTED, "a-wrong-password-31", *tokens}


@pytest.fixture(scope="module")
def platform(config: Path) -> Iterator[Running]:
    running = Running(config.parent / "data", config=config)
    try:
        running.up()
        yield running
    finally:
        running.clean_up()


def members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        assert all(each.isfile() and each.mode == 0o600 for each in opened)
        found = {each.name: opened.extractfile(each) for each in opened}
        return {name: file.read() for name, file in found.items() if isinstance(file, io.BufferedReader)}


def test_no_secret_is_in_the_archive(config: Path, secrets: set[str], platform: Running, tmp_path: Path) -> None:
    log = platform.data_directory.log
    with log.open("a") as file:  # what a bug would write
        file.write(f"{datetime.now(UTC).isoformat()} error control x  header Authorization: Bearer {max(secrets)}\n")
        file.writelines(f"leaked token={secret}\n" for secret in secrets)
    (log.parent / "link").symlink_to("/etc/passwd")
    archive = tmp_path / "logs.tar.gz"
    said = typed(config, "adm", "collect-logs", "-o", str(archive))
    assert said.returncode == 0, said
    assert archive.stat().st_mode & 0o777 == 0o600
    found = members(archive)
    assert set(found) >= {
        f"fairpool-logs/{name}"
        for name in ("about.json", "clusters.json", "nodes.json", "workloads.json", "audit.json", "logs/fairpool.log")
    }
    assert "fairpool-logs/logs/link" not in found
    for name, data in found.items():
        for secret in secrets:
            assert secret.encode() not in data, (name, secret)
    assert b"workload create" in found["fairpool-logs/logs/fairpool.log"]
    workloads = json.loads(found["fairpool-logs/workloads.json"])
    assert [(each["name"], each["phase"]) for each in workloads] == [("first", "Completed")]
    assert [each["entity_name"] for each in json.loads(found["fairpool-logs/audit.json"])].count("sweeper") == 1


def test_only_the_last_hours(config: Path, secrets: set[str], platform: Running, tmp_path: Path) -> None:
    old = (datetime.now(UTC) - timedelta(hours=30)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    (platform.data_directory.log.parent / "fairpool.log.4").write_text(f"{old} info control x  long ago\n")
    archive = tmp_path / "logs.tar.gz"
    typed(config, "adm", "collect-logs", "-d", "24", "-o", str(archive))
    assert members(archive)["fairpool-logs/logs/fairpool.log.4"] == b""
    typed(config, "adm", "collect-logs", "-d", "48", "-o", str(archive))
    assert b"long ago" in members(archive)["fairpool-logs/logs/fairpool.log.4"]


def test_logs_are_collected_when_the_server_is_down(
    config: Path, secrets: set[str], platform: Running, tmp_path: Path
) -> None:
    platform.down()
    archive = tmp_path / "logs.tar.gz"
    said = typed(config, "adm", "collect-logs", "-o", str(archive))
    assert said.returncode == 0, said
    found = members(archive)
    assert "fairpool-logs/logs/fairpool.log" in found
    assert "does not answer" in json.loads(found["fairpool-logs/not-collected.json"])[0]


def test_an_archive_that_cannot_be_written_leaves_nothing(config: Path, tmp_path: Path) -> None:
    said = typed(config, "adm", "collect-logs", "-o", str(tmp_path / "no" / "logs.tar.gz"))
    assert said.returncode == 1
    assert re.search(r"cannot be written: no such file or directory", said.stderr)
    assert list(tmp_path.iterdir()) == []
