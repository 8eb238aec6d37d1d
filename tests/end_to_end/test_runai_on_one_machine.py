"""`runai` against a real platform on this machine: what was typed is what runs, and what is shown is what happened."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairpool.api.client import Client
from fairpool.api.workloads import WorkloadItem
from fairpool.control.settings import FIRST_USER
from tests.five_minutes import five_minutes, type_line
from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow


class Person:
    """A user with a terminal, and a project of their own."""

    def __init__(self, platform: Running, folder: Path) -> None:
        self.platform, self.folder = platform, folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
        reported = {"FAIRPOOL_CONFIG": str(folder / "config"), "FAIRPOOL_SERVER": str(platform.status["address"])}
        self._environment = kept | reported
        assert platform.client.projects()
        platform.sign_in(folder / "config")
        self.types("config", "project", "team-a")

    def type(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "fairpool.cli.runai.main", *arguments],
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def types(self, *arguments: str, stdin: str = "") -> str:
        done = self.type(*arguments, stdin=stdin)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def submits(self, name: str, *arguments: str, until: str = "Completed") -> None:
        self.types("submit", name, *arguments)
        found = self.platform.client.find_workload("team-a", name)
        assert found is not None
        self.platform.until_phase(found.id, until)

    def sees(self, name: str, reason: str) -> WorkloadItem:
        """The job while it waits for another try for this reason; between two tries it is not in that state."""
        seen: list[WorkloadItem] = []

        def is_so() -> bool:
            found = self.platform.client.find_workload("team-a", name)
            if found is not None and found.reason == reason and found.next_try_at is not None:
                seen.append(found)
            return bool(seen)

        self.platform.until(is_so, f"{name} waits for another try: {reason}")
        return seen[0]


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    folder = tmp_path_factory.mktemp("runai")
    platform = Running(folder / "data")
    try:
        platform.up()
        yield Person(platform, folder)
    finally:
        platform.clean_up()


def test_what_stands_after_the_dashes_is_what_runs(person: Person) -> None:
    person.submits("hello", "-i", "python", "-g", "0.5", "--", "python", "-c", "print(1)")
    assert person.types("logs", "hello") == "1\n"
    assert re.search(r"^hello-0-0 +Succeeded +dgx1-\d .* 0 +exit code 0$", person.types("history", "hello"), re.M)


def test_a_life_that_failed_is_told_with_its_end_and_its_log(person: Person) -> None:
    program = "import sys; print(2); sys.exit(3)"
    person.types("submit", "bad", "-i", "python", "-g", "0.5", "--", "python", "-c", program)
    person.platform.until(lambda: "bad-0-1" in person.types("history", "bad"), "it is tried again")
    assert re.search(r"^bad-0-0 +Failed +dgx1-\d .* 3 +exit code 3$", person.types("history", "bad"), re.M)
    assert person.types("logs", "bad") == "2\n"
    person.types("delete", "bad")


def test_a_failing_job_says_which_try_is_next_and_when(person: Person) -> None:
    person.types("submit", "fails", "-i", "python", "-g", "0.5", "--", "python", "-c", "import sys; sys.exit(3)")
    found = person.sees("fails", "back-off")
    assert found.classic_status == "Error"
    assert found.next_try_at is not None
    assert found.retries_left == 6 - found.failed_tries
    words = f"failed with exit code 3; waiting for try {found.failed_tries + 1} of 7; it holds no GPU until then"
    assert (found.phase_message, found.allocated_resources.gpu) == (words, 0)
    person.types("suspend", "fails")
    person.platform.until(lambda: f"suspended by {FIRST_USER}" in person.types("why", "fails"), "who did it is said")
    assert found.id not in person.types("describe", "job", "fails"), "ids are for programs"
    person.types("delete", "fails")


def test_a_pod_without_its_image_holds_no_gpu_while_it_waits(person: Person) -> None:
    refused = person.type("submit", "typo", "-i", "pyhton", "-g", "1")
    assert refused.returncode == 1
    assert refused.stderr.startswith("there is no image pyhton on this cluster: did you mean python?")
    person.types("submit", "typo", "-i", "pyhton", "-g", "1", "--wait-anyway")
    found = person.sees("typo", "image")
    assert (found.classic_status, found.allocated_resources.gpu) == ("ImagePullBackOff", 0)
    assert found.phase_message.startswith("ErrImagePull: ")
    said = "it is ImagePullBackOff: ErrImagePull: "
    person.platform.until(lambda: said in person.type("logs", "typo").stderr, "its log says why there is none")
    person.types("delete", "typo")


def test_figures_of_nodes_projects_and_jobs_agree_in_every_answer(person: Person) -> None:
    """Read again and again while jobs come and go: a figure that lags behind the others would show."""
    client, seen = person.platform.client, set()
    for number in range(4):
        person.types("submit", f"agree-{number}", "-i", "ubuntu", "-g", "0.5", "--", "sleep", "600")
        seen.add(_agreed(client))
    person.platform.until(lambda: _agreed(client) == 2, "all four run")
    for number in range(4):
        person.types("delete", f"agree-{number}")
        seen.add(_agreed(client))
    person.platform.until(lambda: _agreed(client) == 0, "all four are gone")
    assert len(seen) > 1, "it was looked at while it changed"


def _agreed(client: Client) -> float:
    found = client.overview()
    by_node = sum(each.gpu_info.allocated for each in found.nodes)
    by_device = sum(sum(each.gpu_info.allocated_by_device) for each in found.nodes)
    by_project = sum(each.allocated_gpus for each in found.projects)
    by_job = sum(each.allocated_resources.gpu for each in found.workloads)
    assert by_node == by_device == by_project == by_job, found
    busy = {name for each in found.workloads if each.allocated_resources.gpu for name in each.current_nodes}
    assert {each.name for each in found.nodes if each.gpu_info.allocated} == busy
    return by_node


def test_mounts_limits_and_shared_memory_reach_the_pod(person: Person) -> None:
    flags = ["-v", "/etc:/shared:ro", "--new-pvc", "claimname=home,size=1Gi,path=/claim", "--large-shm"]
    script = "head -c 4 /shared/passwd; echo; touch /shared/x 2>&1; echo kept > /claim/note; "
    script += "df -h --output=size /dev/shm | tail -1"
    person.submits("mounts", "-i", "ubuntu", *flags, "--memory-limit", "500M", "--", "bash", "-c", script)
    said = person.types("logs", "mounts", "--tail", "3").split("\n")
    assert (said[0], "Read-only" in said[1], said[2].strip()) == ("root", True, "64G")
    person.submits("later", "-i", "ubuntu", "--pvc", "home:/claim", "--", "cat", "/claim/note")
    assert person.types("logs", "later") == "kept\n"


def test_visits_to_a_job_on_a_terminal(person: Person) -> None:
    person.submits("shell", "-i", "ubuntu", "--interactive", "--stdin", "--tty", until="Running")
    visit = person.type("exec", "shell", "--", "sh", "-c", "echo $JOB_NAME; exit 5")
    assert (visit.returncode, visit.stdout) == (5, "shell\n")
    visit = person.type("bash", "shell", stdin="echo in bash; exit 4\n")
    assert (visit.returncode, visit.stdout) == (4, "in bash\n")
    joined = person.type("attach", "shell", stdin="tty; echo $((40 + 2)); exit 7\n")
    assert "/dev/pts/" in joined.stdout
    assert "\n42\n" in joined.stdout
    assert joined.returncode == 7, joined.stderr
    person.types("delete", "shell")


def test_files_are_copied_into_a_job_and_out_of_it(person: Person) -> None:
    person.submits("files", "-i", "ubuntu", "--interactive", "--", "sleep", "600", until="Running")
    local = person.folder / "local"
    (local / "data").mkdir(parents=True)
    (local / "data" / "table.csv").write_bytes(os.urandom(3_000_000))
    (local / "one.txt").write_text("one\n")
    person.types("cp", str(local / "one.txt"), "files:renamed.txt")
    assert person.types("exec", "files", "--", "cat", "renamed.txt") == "one\n"
    person.types("cp", str(local / "data"), "files:.")
    person.types("cp", "files:data", str(local / "back"))
    assert (local / "back" / "table.csv").read_bytes() == (local / "data" / "table.csv").read_bytes()
    person.types("exec", "files", "--", "ln", "-s", "/etc/passwd", "data/link")
    copied = person.type("cp", "files:data", str(local))
    assert "Skipped, because they are not files or folders: ./data/link" in copied.stderr
    assert not (local / "data" / "link").exists()
    missing = person.type("cp", "files:nothing", str(local))
    assert missing.returncode == 1
    assert "nothing" in missing.stderr
    # A pod can answer in the place of its tar, with a file that was not asked for.
    fake = "#!/bin/sh\ncd /tmp && : > evil && exec /bin/tar -c -f - ./evil ./evil\n"
    person.types("exec", "files", "--", "sh", "-c", f"mkdir -p ~/.local/bin && printf '{fake}' > ~/.local/bin/tar")
    person.types("exec", "files", "--", "sh", "-c", "chmod +x ~/.local/bin/tar")
    tricked = person.type("cp", "files:renamed.txt", str(local / "safe.txt"))
    assert tricked.returncode == 1
    assert "which was not asked for" in tricked.stderr
    assert not (local / "evil").exists()
    assert "JOB:PATH" in person.type("cp", "a", "b").stderr
    person.types("delete", "files")


def test_the_pods_of_a_distributed_run_find_each_other(person: Person) -> None:
    """A master and one worker; when the master ends, the run is over."""
    names = ["MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"]
    reported = f"json.dumps([os.environ[name] for name in {names}])"
    program = f"import json, os, time; print({reported}, flush=True); time.sleep(600)"
    line = ["submit-dist", "pytorch", "dist", "-i", "python", "-g", "1", "--workers", "1", "--", "python", "-c"]
    person.types(*line, program)

    def said(index: int) -> str:
        return person.type("logs", "dist", "--pod", f"dist-{index}-0").stdout

    person.platform.until(lambda: said(0).endswith("\n") and said(1).endswith("\n"), "both have told")
    first, second = (json.loads(said(index)) for index in range(2))
    assert first[:2] == second[:2]
    assert (first[2:], second[2:]) == (["0", "2"], ["1", "2"])
    person.types("delete", "dist")


def test_a_port_that_is_asked_for_is_shown_with_its_address_while_the_job_runs(person: Person) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = ["python", "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    asked = ["--interactive", "--service-type=ingress", "--port", str(port), "--", *program]
    person.types("submit", "web", "-i", "python", *asked)
    person.platform.until(lambda: "Running" in person.types("list"), "it runs")
    assert f"{person.platform.status['gateway']}/web-{port}" in person.types("list")
    person.types("suspend", "web")
    person.platform.until(lambda: f":{port}" not in person.types("list"), "who is suspended has no address")
    person.types("delete", "web")


def test_five_minutes_go_as_the_readme_says(tmp_path: Path) -> None:
    """Every line, as it stands there."""
    platform = Running(tmp_path / "data", config=tmp_path / "config")
    # Beside the platform's own folder, and open to the user that pods have under a server that is root.
    work = Path(tempfile.mkdtemp(prefix="five-minutes-"))
    work.chmod(0o755)
    try:
        platform.up()
        reported = {"FAIRPOOL_CONFIG": str(tmp_path / "config"), "FAIRPOOL_DATA": str(tmp_path / "data")}
        reported["FAIRPOOL_LISTEN"] = str(platform.status["address"]).removeprefix("http://")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
        environment = {**kept, **reported, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

        def shell(line: str) -> subprocess.CompletedProcess[str]:
            command = ["bash", "-c", line]
            return subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)

        for line in five_minutes():
            type_line(line, shell, platform.until)
    finally:
        platform.clean_up()
        shutil.rmtree(work, ignore_errors=True)
