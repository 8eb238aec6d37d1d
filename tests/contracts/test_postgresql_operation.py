"""A PostgreSQL server as a company runs it: TLS with a certificate that is checked, and a restore to a moment."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Connection, insert, select

from fairpool.cli.main import main
from fairpool.control.store.condition import LEAP
from fairpool.control.store.migrations import upgrade
from fairpool.control.store.postgresql_database import PostgresDatabase
from fairpool.control.store.tables import users
from fairpool.control.store.unavailable import Unavailable
from fairpool.platform.database_place import DatabasePlace
from fairpool.platform.database_work import examine, renumber
from tests.needs import program
from tests.postgresql import HASTY, USER, PostgresServer, of_both

pytestmark = [pytest.mark.slow, of_both]

PASSWORD = "open sesame"
ARCHIVED_S = 60.0


def own(path: Path, mode: int = 0o600) -> Path:
    """Give a file to the user who runs the server."""
    path.chmod(mode)
    if path.owner() == "root":
        shutil.chown(path, "postgres")
    return path


# --- TLS ---


@pytest.fixture(scope="module")
def encrypted() -> Iterator[PostgresServer]:
    """Takes connections over TLS only, with a password."""
    server = PostgresServer()
    certificate, key = server.folder / "server.pem", server.folder / "server.key"
    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    about = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:db.example.com")
    command = [program("openssl", "openssl"), *new, *about, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    server.options = (*HASTY, "ssl=on", f"ssl_cert_file={own(certificate, 0o644)}", f"ssl_key_file={own(key)}")
    server.start()
    server.ask(f"ALTER ROLE {USER} PASSWORD '{PASSWORD}'")
    rules = "hostssl all all 127.0.0.1/32 scram-sha-256\nhostssl all all ::1/128 scram-sha-256\n"
    (Path(server.data) / "pg_hba.conf").write_text(rules)
    server.ask("SELECT pg_reload_conf()")
    yield server
    server.close()


def located(server: PostgresServer, options: str, host: str = "localhost") -> str:
    return f"postgresql://{USER}@{host}:{server.port}/postgres?{options}"


def opened(url: str) -> str:
    """Which protocol the connection uses."""
    database = PostgresDatabase(url)
    database.open_now(upgrade)
    query = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    found = database.read_now(lambda connection: str(connection.exec_driver_sql(query).scalar()))
    database.close_now()
    return found


def refused(url: str) -> Unavailable:
    with pytest.raises(Unavailable) as found:
        opened(url)
    assert PASSWORD not in str(found.value)
    return found.value


def test_a_server_is_trusted_by_its_certificate_and_nothing_else(
    encrypted: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    trusted = f"sslmode=verify-full&sslrootcert={encrypted.folder / 'server.pem'}"
    assert opened(located(encrypted, trusted)).startswith("TLS")
    another = tmp_path / "another.pem"
    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=another")
    command = [program("openssl", "openssl"), *new, "-keyout", str(tmp_path / "key"), "-out", str(another)]
    subprocess.run(command, check=True, capture_output=True)
    problem = refused(located(encrypted, f"sslmode=verify-full&sslrootcert={another}"))
    assert problem.code == "database.untrusted"
    assert "sslrootcert" in problem.problem.fix
    by_number = refused(located(encrypted, trusted, host="127.0.0.1"))
    assert by_number.code == "database.untrusted"
    assert "127.0.0.1" in str(by_number), "the certificate names localhost"
    assert opened(located(encrypted, "sslmode=require")).startswith("TLS")
    assert refused(located(encrypted, "sslmode=disable")).code == "database.refused"


def test_a_password_comes_from_a_file_and_is_never_shown(
    encrypted: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"localhost:{encrypted.port}:*:{USER}:{PASSWORD}\n")
    passwords.chmod(0o600)
    assert opened(located(encrypted, f"sslmode=require&passfile={passwords}")).startswith("TLS")
    passwords.write_text(f"localhost:{encrypted.port}:*:{USER}:wrong {PASSWORD}\n")
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    said = CliRunner().invoke(main, ["database", "check", located(encrypted, "sslmode=require")])
    assert said.exit_code == 1
    assert "refused the control plane's user, password or database" in said.stderr
    assert PASSWORD not in said.output


# --- a restore to a moment ---


def add_user(name: str) -> Callable[[Connection], None]:
    def unit(connection: Connection) -> None:
        row = {"id": name, "email": f"{name}@example.com", "password_hash": "", "must_change": False}
        connection.execute(insert(users).values(created_at=1, first_password=False, **row))

    return unit


def names(url: str) -> list[str]:
    database = PostgresDatabase(url)
    database.open_now(upgrade)
    found = database.read_now(
        lambda connection: list(connection.execute(select(users.c.id).order_by(users.c.id)).scalars())
    )
    database.close_now()
    return found


def test_a_database_is_restored_to_a_moment() -> None:
    """As the guide says: a base backup, an archive of the log, and the moment before the mistake."""
    server = PostgresServer()
    archive = server.folder / "archive"
    archive.mkdir()
    own(archive, 0o700)
    server.options = (*HASTY, "wal_level=replica", "archive_mode=on", f"archive_command=cp %p {archive}/%f")
    restored = None
    try:
        server.start()
        database = PostgresDatabase(server.url())
        database.open_now(upgrade)
        database.write_now(add_user("before"))
        source = (
            "--host=127.0.0.1",
            f"--port={server.port}",
            f"--username={USER}",
            "--wal-method=none",
            "--checkpoint=fast",
        )
        restored = PostgresServer(source=source)
        database.write_now(add_user("between"))
        moment = server.ask("SELECT clock_timestamp()::text")
        time.sleep(0.1)
        database.write_now(add_user("mistake"))
        database.close_now()
        segment = server.ask("SELECT pg_walfile_name(pg_switch_wal())")
        until = time.monotonic() + ARCHIVED_S
        while not (archive / segment).exists():
            assert time.monotonic() < until, "the log was not archived"
            time.sleep(0.05)
        assert names(server.url()) == ["before", "between", "mistake"]
        server.stop()
        signal = Path(restored.data) / "recovery.signal"
        signal.touch()
        own(signal)
        restored.options = (
            *HASTY,
            f"restore_command=cp {archive}/%f %p",
            f"recovery_target_time={moment}",
            "recovery_target_action=promote",
        )
        restored.start()
        while restored.ask("SELECT pg_is_in_recovery()"):
            time.sleep(0.05)
        assert names(restored.url()) == ["before", "between"]
        assert renumber(DatabasePlace(restored.url())) > LEAP
        assert examine(DatabasePlace(restored.url())).findings == []
    finally:
        for each in (server, restored):
            if each is not None:
                each.close()
