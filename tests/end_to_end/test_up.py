"""The platform on one machine, as real processes: it comes up, works, is killed, comes back, and leaves nothing."""

from __future__ import annotations

import http.client
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from fairpool import __version__
from fairpool.api.client import Client, Refused, Unreachable
from fairpool.api.shell import Channel
from fairpool.cli.failure import BUSY, DAMAGED, FOREIGN, NEWER, READ_ONLY
from fairpool.control.settings import FIRST_USER
from fairpool.platform import restore
from fairpool.platform.directory_lock import lock_holder
from tests.contracts.test_damaged_database import locked
from tests.running_platform import PATIENCE_S, Running, fairpool

pytestmark = pytest.mark.slow


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "data")
    try:
        yield running
    finally:
        running.clean_up()


SAVED = 'os.environ["FAIRPOOL_CHECKPOINT_DIR"]'
"""Where a pod finds its checkpoints: a folder that tests see too."""
WAITS = f'[time.sleep(0.02) for _ in iter(lambda: os.path.exists({SAVED} + "/go-on"), True)]'


def saved(platform: Running, workload: str) -> Path:
    return platform.data_directory.machine / "checkpoints" / workload


def runai(config: Path, *arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
    return subprocess.run(
        [sys.executable, "-m", "fairpool.cli.runai.main", *arguments],
        env={**kept, "FAIRPOOL_CONFIG": str(config), **variables},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_user_who_starts_it_is_signed_in_and_can_submit(tmp_path: Path) -> None:
    """Decision 74: no password, no further setup."""
    config = tmp_path / "config"
    platform = Running(tmp_path / "data", config=config)
    try:
        started = platform.up().stdout
        assert f"Login    runai is signed in as {FIRST_USER}, project demo" in started
        link = re.search(r"which works once, for 10 minutes \(later: \S+\):\n  (\S+)\Z", started.rstrip())
        typed = re.search(r"Try it:\n  (.*)\n  (.*)\n", started)
        assert link is not None
        assert typed is not None
        secret = config / "credentials.json"
        assert (secret.stat().st_mode & 0o777, config.stat().st_mode & 0o777) == (0o600, 0o700)
        words = shlex.split(typed[1])
        assert (Path(words[0]).name, Path(shlex.split(typed[2])[0]).name) == ("runai", "runai")
        submitted = runai(config, *words[1:])
        assert submitted.returncode == 0, submitted.stderr
        platform.until(lambda: "Succeeded" in runai(config, *shlex.split(typed[2])[1:]).stdout, "it has run")
        assert runai(config, "logs", "hello").stdout == "hello\n"
        _the_link_works_once(link[1])
        again = platform.command("up", "--detach")
        assert "already running" in again.stdout
        assert "Try it" not in again.stdout
        assert f"signed in as {FIRST_USER}" in again.stdout
        code = link[1].partition("code=")[2]
        for file in (*platform.data_directory.log.parent.iterdir(), *config.iterdir()):
            assert code not in file.read_text(errors="replace"), f"the link is written in {file}"
    finally:
        platform.clean_up()


def _the_link_works_once(link: str) -> None:
    with httpx2.Client(follow_redirects=True) as browser:
        assert browser.get(link).url.path == "/"
        assert browser.get(httpx2.URL(link).join("/api/v1/me")).json()["username"] == FIRST_USER
    with httpx2.Client(follow_redirects=True) as another:
        assert another.get(link).status_code == 403


def test_a_login_of_ones_own_is_kept_and_a_stale_one_replaced(tmp_path: Path) -> None:
    config = tmp_path / "config"
    platform = Running(tmp_path / "data", config=config)
    try:
        platform.up()
        assert runai(config, "password", stdin="correct horse battery\n").stdout == "Password changed\n"
        before = (config / "credentials.json").read_text()
        platform.command("up", "--detach")
        assert (config / "credentials.json").read_text() == before
        runai(config, "logout")
        (config / "credentials.json").write_text("{}")
        platform.command("up", "--detach")
        assert FIRST_USER in runai(config, "whoami").stdout
    finally:
        platform.clean_up()


def test_the_foreground_signs_in_too_and_writes_no_link_into_a_pipe(tmp_path: Path) -> None:
    config = tmp_path / "config"
    platform = Running(tmp_path / "data", config=config)
    platform.data_directory.prepare()
    command = [
        sys.executable,
        "-m",
        "fairpool.cli.main",
        "up",
        "--data",
        str(platform.data_directory.root),
        "--listen",
        "0",
    ]
    own = {**os.environ, "FAIRPOOL_CONFIG": str(config)}
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=own) as server:
            assert server.stdout is not None
            said = []
            for line in server.stdout:
                said.append(line)
                if line.startswith("Ready."):
                    break
            assert any(line.startswith(f"Login    runai is signed in as {FIRST_USER}") for line in said), said
            assert not any("code=" in line for line in said), "what is no terminal may be a log"
            assert runai(config, "whoami").returncode == 0
            server.send_signal(signal.SIGINT)
            assert server.wait(PATIENCE_S) == 0
    finally:
        platform.clean_up()


@pytest.mark.parametrize("by_stdin", [False, True])
def test_a_first_password_for_those_who_want_one(tmp_path: Path, by_stdin: bool) -> None:
    config, file = tmp_path / "config", tmp_path / "first"
    file.write_text("from the installer\n")
    platform = Running(tmp_path / "data", config=config)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
    try:
        arguments = ["up", "--detach", "--listen", "127.0.0.1:0", "--data", str(platform.data_directory.root)]
        arguments += ["--nodes", "simulated", "--first-password-file", "-" if by_stdin else str(file)]
        started = subprocess.run(
            [sys.executable, "-m", "fairpool.cli.main", *arguments],
            env={**kept, "FAIRPOOL_CONFIG": str(config)},
            input=file.read_text() if by_stdin else "",
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        assert "must be changed first" in started.stdout
        assert "from the installer" not in Path(f"/proc/{platform.pid}/cmdline").read_text()
        refused = runai(config, "list")
        assert (refused.returncode, "runai password" in refused.stderr) == (1, True), refused.stderr
        with Client(platform.status["address"]) as client:
            assert client.sign_in(FIRST_USER, "from the installer").must_change_password
            with pytest.raises(Refused, match="must be changed"):
                client.projects()
        changed = runai(config, "password", "--stdin", stdin="from the installer\ncorrect horse battery\n")
        assert changed.stdout == "Password changed\n", changed.stderr
        assert runai(config, "list").returncode == 0
        platform.down()
        again = platform.up("--first-password-file", str(file))
        assert "already has a password, so --first-password-file was ignored" in again.stdout
    finally:
        platform.clean_up()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("short\n", "the password has 5 characters", id="short"),
        pytest.param("", "the password has 0 characters", id="empty"),
        pytest.param("x" * 5000, "the password has more than 1024 characters", id="long"),
        pytest.param(None, "cannot be read: no such file", id="absent"),
    ],
)
def test_a_first_password_that_is_none_is_said(tmp_path: Path, content: str | None, words: str) -> None:
    file = tmp_path / "first"
    if content is not None:
        file.write_text(content)
    started = fairpool("up", "--data", str(tmp_path / "data"), "--first-password-file", str(file))
    assert started.returncode == 2
    assert words in started.stderr
    assert ": " in started.stderr, "what is wrong, then what to do"


def test_unknown_callers_cost_a_running_platform_nothing_but_a_refusal(platform: Running) -> None:
    """A5, A6: memory does not grow with what is sent without a right."""
    platform.up()
    port = int(platform.status["address"].rpartition(":")[2])

    def resident_bytes() -> int:
        return int(Path(f"/proc/{platform.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    begin = b"GET /x HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    large = b"POST /api/v1/cluster/push HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 250000000\r\n\r\n"
    before = resident_bytes()
    for first, more in ((begin, b"a: b\r\n" * 10_000), (begin + b"a: ", b"b" * 65536), (large, b"[" * 65536)):
        for _ in range(4):
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as line, suppress(ConnectionError):
                line.sendall(first)
                for _ in range(600):
                    line.sendall(more)
    assert resident_bytes() - before < 48 * 1024 * 1024, "nearly half a gigabyte was sent"
    assert httpx2.get(f"{platform.status['address']}/readyz").json() == {"status": "ready"}


def test_from_up_to_a_finished_job(platform: Running) -> None:
    started = platform.up()
    for words in ("Address  http://127.0.0.1:", f"Data     {platform.data_directory.root}", "Config   ", "simulated"):
        assert words in started.stdout
    workload = platform.submit("hello", f'import os, time; print("hello"); {WAITS}; print("bye")')
    platform.until_phase(workload, "Running")
    (pod,) = platform.client.pods(workload)
    assert pod.node in ("dgx1-1", "dgx1-2")
    (saved(platform, workload) / "go-on").touch()
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
while not os.path.exists(os.environ["FAIRPOOL_CHECKPOINT_DIR"] + "/go-on"):
    time.sleep(0.02)
reporter.reportMetric("epoch", 4)
"""


def test_what_a_job_reports_is_shown_while_it_runs_and_afterwards(platform: Running) -> None:
    platform.up()
    workload = platform.submit("reports", REPORTING)
    platform.until(lambda: [pod.progress_percent for pod in platform.client.pods(workload)] == [25.0], "a quarter")
    (saved(platform, workload) / "go-on").touch()
    platform.until_phase(workload, "Completed")
    platform.until(lambda: not list((platform.data_directory.machine / "pods").iterdir()), "its life is forgotten")
    (pod,) = platform.client.history(workload)
    assert (pod.progress_percent, pod.metrics) == (100.0, {"epoch": 4.0, "overall_epochs": 4.0})


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
    assert "warning: the nodes have changed since the last start: big and h100-2 removed" in again.stdout


def test_a_killed_server_finds_its_pods_again(platform: Running) -> None:
    platform.up()
    program = f'import os, time; open({SAVED} + "/begun", "a").write("once "); {WAITS}; print("finished")'
    workload = platform.submit("survivor", program)
    begun, go_on = (saved(platform, workload) / name for name in ("begun", "go-on"))
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


def test_what_ends_while_the_server_is_down_is_known_afterwards(platform: Running) -> None:
    platform.up()
    program = f'import os, time; open({SAVED} + "/begun", "w"); {WAITS}; print("done"); open({SAVED} + "/ended", "w")'
    workload = platform.submit("quick", program)
    begun, ended, go_on = (saved(platform, workload) / name for name in ("begun", "ended", "go-on"))
    platform.until(begun.exists, "it has begun")
    platform.down()
    go_on.touch()
    platform.until(lambda: ended.exists() and not platform.leftovers(), "it has ended, with its shim")
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
    journal = platform.data_directory.log.read_text()
    assert "echo" not in journal, "what users type is not logged"
    assert "hunter2" not in journal
    assert " error " not in journal, "who gets no shell is no error"


def test_headers_that_any_client_can_set_are_not_trusted(platform: Running) -> None:
    platform.up("--host-name", "pool.example.com", "--trusted-proxy", "127.0.0.2")
    here = platform.status["address"]
    http = httpx2.Client()
    body = {"grantType": "password", "username": FIRST_USER, "password": "a guess"}
    for host, status in (("pool.example.com", 401), ("localhost", 401), ("evil.example", 421)):
        headers = {"Host": host, "X-Forwarded-For": "203.0.113.9"}
        assert http.post(f"{here}/api/v1/token", json=body, headers=headers).status_code == status
    token = {"Authorization": f"Bearer {platform.client.token}"}
    query = "action=sign-in&result=Failed"
    entries = http.get(f"{here}/api/v1/audit/log?{query}", headers=token).json()["entries"]
    assert {each["source_ip"] for each in entries} == {"127.0.0.1"}
    proxy = httpx2.Client(transport=httpx2.HTTPTransport(local_address="127.0.0.2"))
    proxy.post(f"{here}/api/v1/token", json=body, headers={"X-Forwarded-For": "203.0.113.9"})
    entries = http.get(f"{here}/api/v1/audit/log?{query}", headers=token).json()["entries"]
    assert entries[0]["source_ip"] == "203.0.113.9", "from a proxy that was named"
    wrong = platform.command("up", "--trusted-proxy", "0.0.0.0/0")
    assert wrong.returncode == 2
    assert "--trusted-proxy: '0.0.0.0/0' contains every address" in wrong.stderr
    wrong = platform.command("up", "--host-name", "http://pool.example.com:8080")
    assert wrong.returncode == 2
    assert "pass only the name" in wrong.stderr


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
    begun = next(log)
    while not begun.endswith(b"\n"):  # the text and its end may come apart
        begun += next(log)
    assert begun == b"on\n"
    other = Client(platform.status["address"], platform.client.token)
    watched = other.changes(after=1)
    next(watched)
    platform.down()  # which complains if the server does not leave in good time
    with pytest.raises(Unreachable):  # cut off, and not told that the log is complete
        list(log)


def test_ctrl_c_ends_the_foreground_and_nothing_else(platform: Running) -> None:
    platform.data_directory.prepare()
    command = [
        sys.executable,
        "-m",
        "fairpool.cli.main",
        "up",
        "--data",
        str(platform.data_directory.root),
        "--listen",
        "0",
    ]
    own = {**os.environ, "FAIRPOOL_CONFIG": str(platform.data_directory.root / "config")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=own) as server:
        assert server.stdout is not None
        lines = iter(server.stdout.readline, "")
        assert any(line.startswith("Ready.") for line in lines)
        workload = platform.submit("long", "import time; time.sleep(600)")
        platform.until_phase(workload, "Running")
        server.send_signal(signal.SIGINT)
        assert server.wait(PATIENCE_S) == 0
    assert lock_holder(platform.data_directory) is None
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
from fairpool.platform.data_directory import DataDirectory
from fairpool.platform.directory_lock import locked
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
with locked(DataDirectory(pathlib.Path(sys.argv[1])), "up"):
    print("in", flush=True)
    while not told:
        time.sleep(0.01)
time.sleep(1)
"""


def test_down_waits_for_the_process_and_not_only_for_its_folder(platform: Running) -> None:
    platform.data_directory.prepare()
    command = [sys.executable, "-c", LINGERING, str(platform.data_directory.root)]
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
    assert (
        f"Fairpool is already running at {platform.status['address']} (process {platform.pid}, data in "
        in second.stderr
    )
    assert "fairpool down" in second.stderr
    for same in ((), ("--listen", "127.0.0.1:0", "--log-level", "info")):
        again = platform.command("up", "--detach", *same)
        assert (again.returncode, "already running" in again.stdout) == (0, True)
    other = platform.command("up", "--detach", "--keep-audit", "5d", "--listen", "127.0.0.1:0", "--host-name", "x.test")
    assert other.returncode == 1
    assert "with another value of --host-name, --keep-audit: stop it with `fairpool down` first" in other.stderr


def test_localhost_leads_to_the_server_by_either_address(platform: Running) -> None:
    platform.up()
    for name, path, answer in (("address", "/api/v1/me", 401), ("gateway", "/", 302)):
        port = urlsplit(platform.status[name]).port
        for host in ("127.0.0.1", "[::1]") if socket.has_ipv6 and Path("/proc/net/if_inet6").exists() else ():
            connection = http.client.HTTPConnection(f"{host}:{port}", timeout=30)
            connection.request("GET", path)
            assert connection.getresponse().status == answer, (name, host)
            connection.close()


def test_a_port_that_is_taken(platform: Running, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        started = platform.command("up", "--detach", "--listen", f"127.0.0.1:{port}")
    assert started.returncode == 1
    assert f"http://127.0.0.1:{port} is in use by process {os.getpid()}" in started.stderr
    assert f"--listen 127.0.0.1:{port + 1}" in started.stderr
    platform.up()
    address = platform.status["address"].removeprefix("http://")
    second = fairpool("up", "--data", str(tmp_path / "other"), "--listen", address)
    assert "in use by another Fairpool" in second.stderr


def test_a_file_where_the_data_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    started = fairpool("up", FAIRPOOL_DATA=str(tmp_path / "file"))
    assert started.returncode == 1
    assert f"the data directory {tmp_path / 'file'} is a file" in started.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere, so no folder is read-only to it")
def test_data_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    started = fairpool("up", "--data", str(tmp_path / "data"))
    assert started.returncode == READ_ONLY
    assert "this user cannot write to the data directory" in started.stderr


def test_no_other_user_can_read_what_is_written(platform: Running) -> None:
    platform.data_directory.root.mkdir(mode=0o755)
    assert "other users could read the data directory" in platform.up().stderr
    workload = platform.submit("open", "import os; print(oct(os.umask(0)))")
    platform.until_phase(workload, "Completed")
    assert platform.log(workload) == "0o22\n", "pods are not concerned"
    top = [
        platform.data_directory.root,
        *platform.data_directory.root.iterdir(),
        *platform.data_directory.machine.iterdir(),
    ]
    readable = [path.name for path in top if path.stat().st_mode & 0o077 and not path.is_symlink()]
    assert readable in ([], ["support"]), "what is put into pods is no secret, and pods may have another user"


@pytest.mark.parametrize("name", ["nodes.json", "machine/installation"])
@pytest.mark.parametrize("content", [b"", b"\0\0\0\0"], ids=["empty", "nulls"])
def test_a_file_that_was_damaged_is_named(platform: Running, name: str, content: bytes) -> None:
    platform.data_directory.prepare()
    (platform.data_directory.machine / "pods" / "a-0-0").mkdir(parents=True)
    (platform.data_directory.root / name).write_bytes(content)
    started = platform.command("up", "--listen", "127.0.0.1:0")
    assert started.returncode in (1, 2)
    assert str(platform.data_directory.root / name) in started.stderr
    assert ": " in started.stderr, "what is wrong, then what to do"
    assert "Traceback" not in started.stderr
    (platform.data_directory.root / name).unlink()
    (platform.data_directory.machine / "pods" / "a-0-0").rmdir()


def test_a_newer_database_is_left_alone(platform: Running) -> None:
    platform.up()
    platform.down()
    with closing(sqlite3.connect(platform.data_directory.control)) as database, database:
        (ours,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    started = platform.command("up", "--detach", "--listen", "127.0.0.1:0")
    assert started.returncode == NEWER
    assert "was written by a newer Fairpool: its version is 9999" in started.stderr
    with closing(sqlite3.connect(platform.data_directory.control)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = ?", (ours,))
    with closing(sqlite3.connect(platform.data_directory.ledger)) as ledger, ledger:
        ledger.execute("PRAGMA user_version = 9999")
    started = platform.command("up", "--detach", "--listen", "127.0.0.1:0")
    assert started.returncode == NEWER
    assert "was written by a newer Fairpool" in started.stderr
    assert str(platform.data_directory.ledger) in started.stderr


def test_what_is_wrong_with_the_data_has_words_and_an_exit_code(platform: Running) -> None:
    """One start for each: every kind of damage that can be seen before the server is up."""
    platform.up()
    platform.down()
    control, ledger = platform.data_directory.control, platform.data_directory.ledger
    for path in (control, ledger):
        whole = path.read_bytes()
        path.write_bytes(whole[:8192] + bytes(4096) + whole[12288:])
        refused = platform.command("up", "--listen", "127.0.0.1:0")
        assert (refused.returncode, "Traceback" in refused.stderr) == (DAMAGED, False), refused.stderr
        assert f"{path} is damaged" in refused.stderr
        assert ("fairpool restore FILE" if path == control else "move the file away") in refused.stderr
        path.write_bytes(whole)
    with locked(control) as pid:
        refused = platform.command("up", "--listen", "127.0.0.1:0")
        assert (refused.returncode, f"(process {pid})" in refused.stderr) == (BUSY, True), refused.stderr


def test_commands_make_no_data_where_there_is_none(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    for command in (["reset-password"], ["status"], ["logs"], ["backup", str(tmp_path / "file")]):
        said = fairpool(*command, FAIRPOOL_DATA=str(nowhere))
        assert said.returncode in (1, 3)
        assert f"no Fairpool data in {nowhere}: pass --data" in said.stdout + said.stderr
    assert not nowhere.exists()
    assert not (tmp_path / "file").exists()
    nowhere.mkdir()
    assert fairpool("reset-password", "--data", str(nowhere)).returncode == 1
    assert list(nowhere.iterdir()) == []


def test_a_wiped_machine_offers_the_nodes_of_its_backup(platform: Running, tmp_path: Path) -> None:
    platform.up("--nodes", "2x4:A100-80GB", "--node", "name=big,gpus=2,model=H100")
    assert platform.client.projects()
    backup = tmp_path / "backup"
    said = platform.command("backup", str(backup))
    assert "does not include logs, checkpoints and claims of pods" in said.stderr
    platform.down("--stop-pods")
    shutil.rmtree(platform.data_directory.root)
    restored = platform.command("restore", str(backup))
    assert restored.returncode == 0, restored.stderr
    again = platform.up()
    assert "the nodes have changed" not in again.stdout
    assert {each["name"] for each in platform.status["nodes"]} == {"a100-1", "a100-2", "big"}
    assert any(each.name == "team-a" for each in platform.client.projects())


def test_a_foreign_database_is_left_alone(platform: Running) -> None:
    platform.data_directory.prepare()
    with closing(sqlite3.connect(platform.data_directory.control)) as database, database:
        database.execute("CREATE TABLE other (x)")
    started = platform.command("up", "--detach", "--listen", "127.0.0.1:0")
    assert started.returncode == FOREIGN
    assert "is the database of another program" in started.stderr


def test_no_other_user_is_let_in_before_the_first_password_is_changed(platform: Running, tmp_path: Path) -> None:
    (tmp_path / "first").write_text("from the installer\n")
    first = ("--first-password-file", str(tmp_path / "first"))
    started = platform.command("up", "--detach", "--listen", "0.0.0.0:0", *first)
    assert started.returncode == 1
    assert "still has the initial password" in started.stderr
    assert "run `fairpool reset-password` and start again" in started.stderr
    assert platform.command("reset-password").returncode == 0
    assert platform.command("up", "--detach", "--listen", "0.0.0.0:0").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--nodes", "two"], "'two' is not a valid description of nodes", id="no nodes"),
        pytest.param(["--nodes", "2x8:XYZ"], "the memory size of a XYZ is not known", id="an unknown model"),
        pytest.param(["--node", "name=a,label=rack"], "use label=KEY=VALUE", id="a label without a value"),
        pytest.param(["--node", "name=a,cpu=3"], "'cpu=3' in --node", id="an unknown word"),
        pytest.param(["--node", "name=a", "--node", "name=a"], "two nodes have the name a", id="a name twice"),
        pytest.param(
            ["--keep-history", "soon"], "--keep-history: 'soon' is not a length of time", id="no length of time"
        ),
        pytest.param(["--keep-audit", "0d"], "--keep-audit: must be longer than 0", id="no time at all"),
        pytest.param(["--listen", "here:there"], "is not a valid address to listen on", id="no address"),
        pytest.param(
            ["--listen", "203.0.113.1:80"], "is not an address of this machine", id="another machine's address"
        ),
    ],
)
def test_what_was_mistyped_is_said(tmp_path: Path, arguments: list[str], words: str) -> None:
    started = fairpool("up", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *arguments)
    assert started.returncode in (1, 2)
    assert words in started.stderr
    assert ": " in started.stderr, "what is wrong, then what to do"


# --- looking after it


def test_a_lost_password(platform: Running) -> None:
    platform.up()
    client = platform.client
    shown = platform.command("reset-password", FIRST_USER)
    password = re.search(r"^Password  (\S+)$", shown.stdout, re.MULTILINE)
    assert password is not None
    with pytest.raises(Refused, match="is invalid or was revoked"):
        client.projects()
    again = Client(platform.status["address"])
    assert again.sign_in(FIRST_USER, password[1]).must_change_password
    unknown = platform.command("reset-password", "absent@example.com")
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
    platform.until(lambda: platform.status["pods"]["running"] == 1, "what is not declared is stopped")
    assert next(iter(platform.client.changes(after=read))).verb == "reset", "that number is of what is no more"


def test_a_restore_that_was_cut_off_is_finished_by_the_next_start(
    platform: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.up()
    file = tmp_path / "fairpool.backup"
    assert platform.command("backup", str(file)).returncode == 0
    platform.submit("later", "pass")
    platform.down()
    left = platform.data_directory.root / ".restore-of-a-killed-process"
    left.mkdir()

    def killed(path: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        plain = Path.rename
        patch.setattr(
            Path, "rename", lambda path, target: (plain(path, target), patch.setattr(Path, "replace", killed))
        )
        with pytest.raises(KeyboardInterrupt):
            restore.restore_backup(platform.data_directory, file)
    assert platform.data_directory.restoring.exists()
    started = platform.up()
    assert "an interrupted restore was completed" in started.stdout
    assert "the previous version is kept in" in started.stdout
    assert platform.client.all_workloads() == []
    assert not left.exists()


def test_what_is_no_backup_is_not_put_back(platform: Running, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    restored = platform.command("restore", str(tmp_path / "text"))
    assert restored.returncode == DAMAGED
    assert "written by `fairpool backup`" in restored.stderr
    assert platform.command("backup", str(tmp_path / "file")).returncode == 1


def test_pods_end_with_the_server_if_asked_to(platform: Running) -> None:
    platform.up()
    workload = platform.submit("long", "import time; time.sleep(600)")
    platform.until_phase(workload, "Running")
    assert "Stopped 1 pod." in platform.down("--stop-pods")
    platform.until(lambda: not platform.leftovers(), "nothing is left, and its shim has gone home")
    platform.up()
    platform.until_phase(workload, "Running")
    assert len(platform.client.history(workload)) == 2, "training comes back, in another life"


def test_the_log_of_the_server(platform: Running) -> None:
    assert platform.command("logs").returncode == 1
    platform.up()
    workload = platform.submit("hello", "import time; print(1); time.sleep(3); raise SystemExit(3)")
    secret = "hunter2hunter2"
    with pytest.raises(Refused):
        Client(platform.status["address"]).sign_in("eve@example.com", secret)
    platform.until(lambda: "pod failed" in platform.command("logs").stdout, "its end is logged")
    shown = platform.command("logs").stdout
    assert "ready at http://127.0.0.1:" in shown
    assert f"server starting  version={__version__}" in shown
    assert f"data={platform.data_directory.root}" in shown
    assert "node joined  node=dgx1-1 gpus=8" in shown
    assert f"workload create  name=team-a/hello id={workload} by={FIRST_USER}" in shown
    assert "pod started  workload=hello project=team-a" in shown
    assert re.search(r"sign-in refused +by=eve@example.com from=127.0.0.1", shown)
    assert secret not in shown
