"""The platform on one machine, as real processes: it comes up, works, is killed, comes back, and leaves nothing."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from fairpool.api.client import Client, Refused, Unreachable
from fairpool.api.shell import Channel
from fairpool.cli.compose import archive
from fairpool.cli.compose.premises import occupant
from fairpool.control.settings import FIRST_PASSWORD, FIRST_USER
from tests.running_platform import PATIENCE_S, Running, fairpool

pytestmark = pytest.mark.slow


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "data")
    try:
        yield running
    finally:
        running.clean_up()


def test_from_up_to_a_finished_job(platform: Running, tmp_path: Path) -> None:
    started = platform.up()
    for words in ("Address  http://127.0.0.1:", f"Data     {platform.premises.root}", "Config   ", "simulated"):
        assert words in started.stdout
    assert f"Login    {FIRST_USER} / {FIRST_PASSWORD}" in started.stdout
    go_on = tmp_path / "go-on"
    waiting = f'[time.sleep(0.02) for _ in iter(lambda: os.path.exists("{go_on}"), True)]'
    workload = platform.submit("hello", f'import os, time; print("hello"); {waiting}; print("bye")')
    platform.until_phase(workload, "Running")
    (pod,) = platform.client.pods(workload)
    assert pod.node in ("dgx1-1", "dgx1-2")
    go_on.touch()
    platform.until_phase(workload, "Completed")
    assert platform.log(workload) == "hello\nbye\n"
    assert b"".join(platform.client.logs(workload, follow=True)) == b"hello\nbye\n"
    assert b"".join(platform.client.logs(workload, tail=1)) == b"bye\n"


REPORTING = """
import os, time
from runai.reporter import Reporter
reporter = Reporter()
reporter.reportMetric("overall_epochs", 4)
reporter.reportMetric("epoch", 1)
while not os.path.exists("{go_on}"):
    time.sleep(0.02)
reporter.reportMetric("epoch", 4)
"""


def test_what_a_job_reports_is_shown_while_it_runs_and_afterwards(platform: Running, tmp_path: Path) -> None:
    platform.up()
    go_on = tmp_path / "go-on"
    workload = platform.submit("reports", REPORTING.format(go_on=go_on))
    platform.until(lambda: [pod.progress_percent for pod in platform.client.pods(workload)] == [25.0], "a quarter")
    go_on.touch()
    platform.until_phase(workload, "Completed")
    platform.until(lambda: not list((platform.premises.machine / "pods").iterdir()), "its life is forgotten")
    (life,) = platform.client.history(workload)
    assert (life.progress_percent, life.metrics) == (100.0, {"epoch": 4.0, "overall_epochs": 4.0})


def test_machines_without_gpus_are_called_simulated(platform: Running) -> None:
    platform.up("--nodes", "2x4:H100-80GB", "--node", "name=big,gpus=2,model=A100")
    shown = platform.command("status").stdout
    assert re.findall(r"^(\S+) +(\d) +simulated", shown, re.MULTILINE) == [
        ("h100-1", "4"),
        ("h100-2", "4"),
        ("big", "2"),
    ]
    platform.until(lambda: len(platform.client.nodes()) == 3, "the nodes are told")
    assert {(each.name, each.gpu_info.simulated) for each in platform.client.nodes()} == {
        ("h100-1", True),
        ("h100-2", True),
        ("big", True),
    }
    platform.down()
    again = platform.up("--nodes", "1x4:H100-80GB")
    assert "warning: the nodes are others than at the last start: big and h100-2 left" in again.stdout


def test_a_killed_server_finds_its_pods_again(platform: Running, tmp_path: Path) -> None:
    platform.up()
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    program = (
        "import os, time; "
        f'open("{begun}", "a").write("once "); '
        f'[time.sleep(0.02) for _ in iter(lambda: os.path.exists("{go_on}"), True)]; print("finished")'
    )
    workload = platform.submit("survivor", program)
    platform.until(begun.exists, "it has begun")
    platform.until_phase(workload, "Running")
    (before,) = platform.client.pods(workload)
    platform.kill()
    assert platform.command("status").returncode == 3
    platform.up()
    platform.until_phase(workload, "Running")
    go_on.touch()
    platform.until_phase(workload, "Completed")
    assert [each.id for each in platform.client.history(workload)] == [before.id], "it had one life"
    assert (begun.read_text(), platform.log(workload)) == ("once ", "finished\n")


def test_what_ends_while_the_server_is_down_is_known_afterwards(platform: Running, tmp_path: Path) -> None:
    platform.up()
    begun = tmp_path / "begun"
    ended, go_on = tmp_path / "ended", tmp_path / "go-on"
    waits = f'[time.sleep(0.02) for _ in iter(lambda: os.path.exists("{go_on}"), True)]'
    program = f'import os, time; open("{begun}", "w"); {waits}; print("done"); open("{ended}", "w")'
    workload = platform.submit("quick", program)
    platform.until(begun.exists, "it has begun")
    platform.down()
    go_on.touch()
    platform.until(lambda: ended.exists() and not platform.leftovers(), "it has ended, with its keeper")
    platform.up()
    platform.until_phase(workload, "Completed")
    assert platform.log(workload) == "done\n"


def test_a_shell_in_a_pod(platform: Running) -> None:
    platform.up()
    workload = platform.submit("long", "import time; time.sleep(600)")
    platform.until_phase(workload, "Running")
    for tty in (False, True):
        with platform.client.shell(workload, ["sh", "-c", "read word; echo got $word; exit 7"], tty=tty) as shell:
            shell.send(b"it\n")
            said, code = b"", None
            while (frame := shell.receive(PATIENCE_S)) is not None:
                if frame.channel is Channel.OUTPUT:
                    said += frame.data
                if frame.channel is Channel.ENDED:
                    code = frame.data
            assert b"got it" in said
            assert code is not None
            assert b'"exitCode": 7' in code
    with pytest.raises(Refused, match="no pod 'x'"), platform.client.shell(workload, ["sh", "hunter2"], pod="x"):
        pass
    journal = platform.premises.log.read_text()
    assert "echo" not in journal, "what is typed is nobody's"
    assert "hunter2" not in journal
    assert " error " not in journal, "who gets no shell is no error"


def test_what_anybody_can_write_into_a_request_is_not_believed(platform: Running) -> None:
    platform.up("--host-name", "pool.example.com")
    here = platform.status["address"]
    http = httpx2.Client()
    body = {"grantType": "password", "username": FIRST_USER, "password": FIRST_PASSWORD}
    for host, status in (("pool.example.com", 200), ("localhost", 200), ("evil.example", 421)):
        headers = {"Host": host, "X-Forwarded-For": "203.0.113.9"}
        assert http.post(f"{here}/api/v1/token", json=body, headers=headers).status_code == status
    token = {"Authorization": f"Bearer {platform.client.token}"}
    entries = http.get(f"{here}/api/v1/audit/log?action=sign-in", headers=token).json()["entries"]
    assert {each["source_ip"] for each in entries} == {"127.0.0.1"}
    wrong = platform.command("up", "--host-name", "http://pool.example.com:8080")
    assert wrong.returncode == 2
    assert "write it alone" in wrong.stderr


def test_a_connection_that_rested_is_good_for_another_call(platform: Running) -> None:
    platform.up()
    connection = http.client.HTTPConnection(platform.status["address"].removeprefix("http://"), timeout=PATIENCE_S)
    with closing(connection):
        for _ in range(2):
            connection.request("GET", "/api/v1/workloads")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 401
            time.sleep(6)  # beyond what most clients keep a connection for
        assert connection.sock is not None


def test_a_person_who_watches_does_not_keep_the_server_up(platform: Running) -> None:
    platform.up()
    workload = platform.submit("long", 'import time; print("on"); time.sleep(600)')
    platform.until_phase(workload, "Running")
    log = platform.client.logs(workload, follow=True)
    assert next(log) == b"on\n"
    other = Client(platform.status["address"], platform.client.token)
    watched = other.changes(after=1)
    next(watched)
    platform.down()  # which complains if the server does not leave in good time
    with pytest.raises(Unreachable):  # cut off, and not told that the log is complete
        list(log)


def test_ctrl_c_ends_the_foreground_and_nothing_else(platform: Running) -> None:
    platform.premises.prepare()
    command = [sys.executable, "-m", "fairpool.cli.main", "up", "--data", str(platform.premises.root), "--listen", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        lines = iter(server.stdout.readline, "")
        assert any(line.startswith("Ready.") for line in lines)
        workload = platform.submit("long", "import time; time.sleep(600)")
        platform.until_phase(workload, "Running")
        server.send_signal(signal.SIGINT)
        assert server.wait(PATIENCE_S) == 0
    assert occupant(platform.premises) is None
    assert any("time.sleep(600)" in line for line in platform.leftovers()), "the pod runs on"
    platform.up()
    platform._client = None
    assert platform.phase(workload) == "Running"


def test_starts_and_stops_in_good_time(platform: Running) -> None:
    for _ in range(3):
        platform.up()
        platform.down()  # both complain if it takes long
    assert platform.leftovers() == []


LINGERING = """
import pathlib, signal, sys, time
from fairpool.cli.compose.premises import Premises, occupied
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
with occupied(Premises(pathlib.Path(sys.argv[1])), "up"):
    print("in", flush=True)
    while not told:
        time.sleep(0.01)
time.sleep(1)
"""


def test_down_waits_for_the_process_and_not_only_for_its_folder(platform: Running) -> None:
    platform.premises.prepare()
    command = [sys.executable, "-c", LINGERING, str(platform.premises.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "in\n"
        platform.down()
        assert server.poll() == 0, "gone when the command says so"


# --- what can be wrong


def test_a_second_start_says_who_is_up(platform: Running) -> None:
    platform.up()
    second = platform.command("up", "--foreground", "--listen", "127.0.0.1:0")
    assert second.returncode == 1
    assert f"error: Fairpool is already up at {platform.status['address']} (process {platform.pid})" in second.stderr
    assert "fairpool down" in second.stderr
    again = platform.command("up", "--detach")
    assert (again.returncode, "already up" in again.stdout) == (0, True)


def test_a_port_that_is_taken(platform: Running, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        started = platform.command("up", "--detach", "--listen", f"127.0.0.1:{port}")
    assert started.returncode == 1
    assert f"http://127.0.0.1:{port} is taken by process {os.getpid()}" in started.stderr
    assert f"--listen 127.0.0.1:{port + 1}" in started.stderr
    platform.up()
    address = platform.status["address"].removeprefix("http://")
    second = fairpool("up", "--data", str(tmp_path / "other"), "--listen", address)
    assert "taken by another Fairpool" in second.stderr


def test_a_file_where_the_data_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    started = fairpool("up", FAIRPOOL_DATA=str(tmp_path / "file"))
    assert started.returncode == 1
    assert f"the data folder {tmp_path / 'file'} is a file" in started.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere, so no folder is read-only to it")
def test_data_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    started = fairpool("up", "--data", str(tmp_path / "data"))
    assert started.returncode == 1
    assert "cannot be written by this user" in started.stderr


def test_nobody_else_can_read_what_is_written(platform: Running) -> None:
    platform.premises.root.mkdir(mode=0o755)
    assert "others could read the data folder" in platform.up().stderr
    workload = platform.submit("open", "import os; print(oct(os.umask(0)))")
    platform.until_phase(workload, "Completed")
    assert platform.log(workload) == "0o22\n", "pods are not concerned"
    top = [platform.premises.root, *platform.premises.root.iterdir(), *platform.premises.machine.iterdir()]
    assert [path for path in top if path.stat().st_mode & 0o077 and not path.is_symlink()] == []


@pytest.mark.parametrize("name", ["nodes.json", "machine/installation"])
@pytest.mark.parametrize("content", [b"", b"\0\0\0\0"], ids=["empty", "nulls"])
def test_a_file_that_was_damaged_is_named(platform: Running, name: str, content: bytes) -> None:
    platform.premises.prepare()
    (platform.premises.machine / "pods" / "a-0-0").mkdir(parents=True)
    (platform.premises.root / name).write_bytes(content)
    started = platform.command("up", "--listen", "127.0.0.1:0")
    assert started.returncode in (1, 2)
    assert str(platform.premises.root / name) in started.stderr
    assert "fix:" in started.stderr
    assert "Traceback" not in started.stderr
    (platform.premises.root / name).unlink()
    (platform.premises.machine / "pods" / "a-0-0").rmdir()


def test_a_newer_database_is_left_alone(platform: Running) -> None:
    platform.up()
    platform.down()
    with closing(sqlite3.connect(platform.premises.control)) as database, database:
        (ours,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    started = platform.command("up", "--detach", "--listen", "127.0.0.1:0")
    assert started.returncode == 1
    assert "was written by a newer Fairpool: it has version 9999" in started.stderr
    with closing(sqlite3.connect(platform.premises.control)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = ?", (ours,))
    with closing(sqlite3.connect(platform.premises.ledger)) as ledger, ledger:
        ledger.execute("PRAGMA user_version = 9999")
    started = platform.command("up", "--detach", "--listen", "127.0.0.1:0")
    assert started.returncode == 1
    assert "was written by a newer Fairpool" in started.stderr
    assert str(platform.premises.ledger) in started.stderr


def test_somebody_elses_database_is_left_alone(platform: Running) -> None:
    platform.premises.prepare()
    with closing(sqlite3.connect(platform.premises.control)) as database, database:
        database.execute("CREATE TABLE other (x)")
    started = platform.command("up", "--detach", "--listen", "127.0.0.1:0")
    assert "is a database of another program" in started.stderr


def test_nobody_else_is_let_in_with_the_password_that_everybody_knows(platform: Running) -> None:
    started = platform.command("up", "--detach", "--listen", "0.0.0.0:0")
    assert started.returncode == 1
    assert "still has the password that everybody knows" in started.stderr
    assert "type `fairpool reset-password` and start again" in started.stderr
    assert platform.command("reset-password").returncode == 0
    assert platform.command("up", "--detach", "--listen", "0.0.0.0:0").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--nodes", "two"], "'two' describes no nodes", id="no nodes"),
        pytest.param(["--nodes", "2x8:XYZ"], "how much memory a XYZ has is not known", id="an unknown model"),
        pytest.param(["--node", "name=a,cpu=3"], "'cpu=3' in --node", id="an unknown word"),
        pytest.param(["--node", "name=a", "--node", "name=a"], "two nodes are called a", id="a name twice"),
        pytest.param(
            ["--keep-history", "soon"], "--keep-history: 'soon' is not a length of time", id="no length of time"
        ),
        pytest.param(["--keep-audit", "0d"], "--keep-audit: what is kept for no time", id="no time at all"),
        pytest.param(["--listen", "here:there"], "is no address to listen at", id="no address"),
        pytest.param(["--listen", "203.0.113.1:80"], "is no address of this machine", id="another machine's address"),
    ],
)
def test_what_was_mistyped_is_said(tmp_path: Path, arguments: list[str], words: str) -> None:
    started = fairpool("up", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *arguments)
    assert started.returncode in (1, 2)
    assert words in started.stderr
    assert "fix:" in started.stderr


# --- looking after it


def test_a_lost_password(platform: Running) -> None:
    platform.up()
    client = platform.client
    shown = platform.command("reset-password", FIRST_USER)
    password = re.search(r"^Password  (\S+)$", shown.stdout, re.MULTILINE)
    assert password is not None
    with pytest.raises(Refused, match="not known, or was revoked"):
        client.projects()
    again = Client(platform.status["address"])
    assert again.sign_in(FIRST_USER, password[1]).must_change_password
    unknown = platform.command("reset-password", "nobody@example.com")
    assert unknown.returncode == 1
    assert FIRST_USER in unknown.stderr


def test_backup_and_restore(platform: Running, tmp_path: Path) -> None:
    platform.up()
    kept = platform.submit("kept", "import time; time.sleep(600)")
    platform.until_phase(kept, "Running")
    (before,) = platform.client.pods(kept)
    file = tmp_path / "fairpool.backup"
    assert platform.command("backup", str(file)).returncode == 0
    assert file.stat().st_mode & 0o077 == 0
    later = platform.submit("later", "import time; time.sleep(600)")
    platform.until_phase(later, "Running")
    read = platform.client.workload(later).revision
    refused = platform.command("restore", str(file))
    assert (refused.returncode, "fairpool down" in refused.stderr) == (1, True)
    platform.down()
    restored = platform.command("restore", str(file))
    assert restored.returncode == 0, restored.stderr
    assert "before-restore" in restored.stdout
    platform.up()
    platform.until_phase(kept, "Running")
    assert [each.id for each in platform.client.history(kept)] == [before.id], "it was not started again"
    assert [each.name for each in platform.client.all_workloads()] == ["kept"]
    platform.until(lambda: platform.status["pods"]["running"] == 1, "what nobody declared is stopped")
    assert next(iter(platform.client.changes(after=read))).verb == "reset", "that number is of what is no more"


def test_a_restore_that_was_cut_off_is_finished_by_the_next_start(
    platform: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.up()
    file = tmp_path / "fairpool.backup"
    assert platform.command("backup", str(file)).returncode == 0
    platform.submit("later", "pass")
    platform.down()
    left = platform.premises.root / ".restore-of-somebody-who-was-killed"
    left.mkdir()

    def killed(path: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as fate:
        plain = Path.rename
        fate.setattr(Path, "rename", lambda path, target: (plain(path, target), fate.setattr(Path, "replace", killed)))
        with pytest.raises(KeyboardInterrupt):
            archive.restore_backup(platform.premises, file)
    assert platform.premises.restoring.exists()
    started = platform.up()
    assert "a restore that was cut off is finished" in started.stdout
    assert "lost the password?" in started.stdout, "it is no new installation"
    assert platform.client.all_workloads() == []
    assert not left.exists()


def test_what_is_no_backup_is_not_put_back(platform: Running, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    restored = platform.command("restore", str(tmp_path / "text"))
    assert restored.returncode == 1
    assert "`fairpool backup` wrote" in restored.stderr
    assert platform.command("backup", str(tmp_path / "file")).returncode == 1


def test_pods_end_with_the_server_if_somebody_says_so(platform: Running) -> None:
    platform.up()
    workload = platform.submit("long", "import time; time.sleep(600)")
    platform.until_phase(workload, "Running")
    assert "Stopped 1 pod." in platform.down("--stop-pods")
    platform.until(lambda: not platform.leftovers(), "nothing is left, and its keeper has gone home")
    platform.up()
    platform.until_phase(workload, "Running")
    assert len(platform.client.history(workload)) == 2, "training comes back, in another life"


def test_the_log_of_the_server(platform: Running) -> None:
    assert platform.command("logs").returncode == 1
    platform.up()
    assert "ready at http://127.0.0.1:" in platform.command("logs").stdout
