"""Job files, uploaded folders, dependencies, arrays and time limits against a real platform on this machine."""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fairpool.api import workloads as work
from fairpool.api.client import Refused
from fairpool.control.settings import FIRST_USER
from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow

GUIDE = Path(__file__).parents[2] / "docs" / "reference" / "job-file.md"


class Person:
    """A user with a terminal in a folder of their own."""

    def __init__(self, platform: Running, folder: Path) -> None:
        self.platform, self.folder = platform, folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
        reported = {"FAIRPOOL_CONFIG": str(folder / "config"), "FAIRPOOL_SERVER": str(platform.status["address"])}
        self._environment = kept | reported
        assert platform.client.projects()
        platform.sign_in(folder / "config")
        self.types("config", "project", "team-a")

    def type(self, *arguments: str, stdin: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "fairpool.cli.runai.main", *arguments],
            env={**self._environment, "FAIRPOOL_SERVER": str(self.platform.status["address"])},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            cwd=cwd or self.folder,
        )

    def types(self, *arguments: str, stdin: str = "", cwd: Path | None = None) -> str:
        done = self.type(*arguments, stdin=stdin, cwd=cwd)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def refused(self, *arguments: str, cwd: Path | None = None) -> str:
        done = self.type(*arguments, cwd=cwd)
        assert (done.returncode, done.stdout) == (1, ""), (arguments, done.stdout, done.stderr)
        return done.stderr

    def id_of(self, name: str) -> str:
        found = self.platform.client.find_workload("team-a", name)
        assert found is not None, name
        return found.id

    def until(self, name: str, phase: str) -> work.Workload:
        self.platform.until_phase(self.id_of(name), phase)
        return self.platform.client.workload(self.id_of(name))

    def kill_and_start_again(self) -> None:
        """At the same address, so that the login still holds."""
        address = str(self.platform.status["address"]).removeprefix("http://")
        self.platform.kill()
        self.platform.up("--listen", address)

    def log(self, name: str) -> str:
        return self.platform.log(self.id_of(name))

    def uploads(self) -> list[str]:
        return sorted(os.listdir(self.platform.data_directory.machine / "uploads"))


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    folder = tmp_path_factory.mktemp("submit")
    platform = Running(folder / "data")
    try:
        platform.up()
        yield Person(platform, folder)
    finally:
        platform.clean_up()


# --- folders ---------------------------------------------------------------------------------------------------


def test_a_script_runs_with_its_folder(person: Person, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os; found = sorted(os.listdir()); import helper; print(helper.WORD, found)\n"
    )
    (tmp_path / "helper.py").write_text("WORD = 'hello'\n")
    (tmp_path / ".env").write_text("SECRET=1\n")
    (tmp_path / "id_rsa").write_text("key\n")
    (tmp_path / "big.ckpt").write_text("x\n")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / ".git").mkdir()
    line = ["submit", "own-folder", "-i", "python", "-g", "0.5", "--workdir", ".", "--exclude", "*.ckpt"]
    done = person.type(*line, "--", "python", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ".env, .git, big.ckpt, id_rsa: not uploaded" in done.stderr
    assert "link: not uploaded, because links are not followed" in done.stderr
    person.until("own-folder", "Completed")
    assert person.log("own-folder") == "hello ['helper.py', 'train.py']\n"


def test_the_folder_is_writable_shared_survives_a_kill_and_goes_with_the_job(person: Person, tmp_path: Path) -> None:
    program = (
        "import os, pathlib, sys, time\n"
        "seen = pathlib.Path('seen')\n"
        "tries = len(seen.read_text()) if seen.exists() else 0\n"
        "seen.write_text('x' * (tries + 1))\n"
        "print('try', tries, flush=True)\n"
        "sys.exit(0 if tries else 3)\n"
    )
    (tmp_path / "train.py").write_text(program)
    person.types("submit", "again", "-i", "python", "--workdir", ".", "--", "python", "train.py", cwd=tmp_path)
    workload = person.id_of("again")
    assert workload in person.uploads(), "an upload has the id of its job"
    person.kill_and_start_again()
    person.platform.until_phase(workload, "Completed")
    assert "try 1" in person.platform.log(workload)
    assert not (tmp_path / "seen").exists(), "it is a copy"
    person.types("delete", "again")
    person.platform.until(lambda: workload not in person.uploads(), "the folder is removed")


def test_a_hostile_archive_by_the_api_itself_leaves_nothing(person: Person) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        info = tarfile.TarInfo("../../../escaped")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    client = person.platform.client
    for packed in (file.getvalue(), gzip.compress(b"\0" * 100 + b"x" * 10_000)):
        upload = client.begin_upload("team-a", len(packed)).id
        client.write_upload(upload, 0, packed)
        with pytest.raises(Refused, match=r"archive|path"):
            client.finish_upload(upload)
        assert upload not in person.uploads()
    root = person.platform.data_directory.root
    assert not list(root.rglob("escaped"))


def test_a_folder_that_cannot_be_sent_submits_nothing(person: Person, tmp_path: Path) -> None:
    assert "is not a folder" in person.refused(
        "submit", "nofolder", "-i", "python", "--workdir", "absent", cwd=tmp_path
    )
    assert person.platform.client.find_workload("team-a", "nofolder") is None


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the user of a pod can read: under a root server pods have users of their own."""
    folder = Path(tempfile.mkdtemp(prefix="open-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_hints_for_a_script_and_a_folder_and_a_forgotten_dash(person: Person, open_folder: Path) -> None:
    tmp_path = open_folder
    (tmp_path / "train.py").write_text("print(open('/w/word').read())\n")
    (tmp_path / "word").write_text("mounted\n")
    done = person.type(
        "submit", "lost", "-i", "python", "--backoff-limit", "0", "--", "python", "train.py", cwd=tmp_path
    )
    assert "add --workdir ." in done.stderr
    person.types("submit", "mounted", "-i", "python", "-v", ".:/w", "--", "python", "/w/train.py", cwd=tmp_path)
    person.until("mounted", "Completed")
    assert person.log("mounted") == "mounted\n\n"
    said = person.refused("submit", "x", "-i", "python", "python", "train.py", "--lr", "1", cwd=tmp_path)
    assert said == "the command to run comes after --: runai submit x -i python -- python train.py --lr 1\n"


# --- files -----------------------------------------------------------------------------------------------------


def test_the_example_of_the_documentation_runs(person: Person, tmp_path: Path) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    match = re.search(r"```yaml\n# job.yaml\n(.*?)```", text, re.DOTALL)
    assert match is not None
    (tmp_path / "job.yaml").write_text(match[1])
    person.types("submit", "-f", "job.yaml", cwd=tmp_path)
    person.until("prep", "Completed")
    done = person.until("train", "Completed")
    assert done.labels == {"team": "vision"}
    pods = person.platform.client.history(done.id)
    logs = {b"".join(person.platform.client.logs(done.id, pod=pod.name)).decode() for pod in pods}
    assert logs == {"lr 0.1\n", "lr 0.01\n"}


def test_a_dry_run_submits_nothing_and_what_it_prints_can_be_submitted(person: Person, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os; print(os.environ['A'])\n")
    line = ["submit", "printed", "-i", "python", "-g", "0.5", "-e", "A=1", "--workdir", ".", "--time-limit", "1h"]
    done = person.type(*line, "--dry-run", "--", "python", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "printed would be accepted" in done.stderr
    assert person.platform.client.find_workload("team-a", "printed") is None
    assert yaml.safe_load(done.stdout)["workdir"] == str(tmp_path)
    person.types("submit", "-f", "-", "-e", "A=2", "--name", "fed-back", stdin=done.stdout)
    person.until("fed-back", "Completed")
    assert person.log("fed-back") == "2\n"


def test_a_dry_run_says_all_that_the_server_finds_wrong(person: Person) -> None:
    line = ["submit", "Bad_Name", "-i", "python", "--priority", "urgent", "--after", "nothing", "--dry-run"]
    said = person.refused(*line)
    assert "Job names must consist of" in said
    assert "there is no priority 'urgent'" in said
    assert "there is no job nothing in project team-a to start after" in said


# --- order, time, arrays ------------------------------------------------------------------------------------------


def test_a_job_starts_after_another_and_fails_with_it(person: Person, open_folder: Path) -> None:
    gate = open_folder / "gate"
    wait = "import os, sys, time\nwhile not os.path.exists('/open/gate'): time.sleep(0.05)\nsys.exit(int(sys.argv[1]))"
    for name, code in (("first", "0"), ("broken", "1")):
        program = ["-v", f"{open_folder}:/open:ro", "--", "python", "-c", wait, code]
        person.types("submit", name, "-i", "python", "--backoff-limit", "0", *program)
    person.types("submit", "second", "-i", "python", "--after", "first", "--", "python", "-c", "print(2)")
    person.types("submit", "third", "-i", "python", "--after", "broken", "--", "python", "-c", "print(3)")
    person.types("submit", "anyway", "-i", "python", "--after", "broken:any", "--", "python", "-c", "print(4)")
    person.types("submit", "chained", "-i", "python", "--after", "third", "--", "python", "-c", "print(5)")
    person.until("second", "Pending")
    person.platform.until(lambda: "waits for first to finish" in person.types("why", "second").lower(), "why says so")
    person.kill_and_start_again()  # what waits still waits, and nothing is forgotten
    assert person.platform.phase(person.id_of("second")) in ("Pending", "Creating")
    gate.touch()
    person.until("second", "Completed")
    person.until("anyway", "Completed")
    third = person.until("third", "Failed")
    assert (third.reason, third.phase_message.partition(",")[0]) == (
        "dependency-failed",
        "dependency failed: broken failed",
    )
    assert "third failed" in person.until("chained", "Failed").phase_message
    assert person.platform.client.history(third.id) == []


def test_an_array_fills_in_its_indices(person: Person) -> None:
    program = "import os, sys; print(sys.argv[1], os.environ['FAIRPOOL_ARRAY_INDEX'], os.environ['SEED'])"
    line = ["submit", "sweep", "-i", "python", "-e", "SEED=s{index}", "--array", "10-12%2"]
    person.types(*line, "--", "python", "-c", program, "--lr={index}")
    done = person.until("sweep", "Completed")
    pods = person.platform.client.history(done.id)
    logs = {b"".join(person.platform.client.logs(done.id, pod=pod.name)).decode() for pod in pods}
    assert logs == {"--lr=10 10 s10\n", "--lr=11 11 s11\n", "--lr=12 12 s12\n"}


def test_a_job_is_stopped_at_its_time_limit(person: Person) -> None:
    person.types(
        "submit", "slow", "-i", "python", "--time-limit", "1s", "--", "python", "-c", "import time; time.sleep(600)"
    )
    slow = person.until("slow", "Failed")
    assert (slow.reason, slow.phase_message) == ("deadline", "reached its time limit of 1s")
    assert "TIME LIMIT: 1s" in person.types("describe", "job", "slow")


def test_jobs_are_found_by_label_status_and_user(person: Person) -> None:
    line = ["submit", "labelled", "-i", "python", "-l", "team=nlp", "-l", "app.io/tier=a b", "--", "python", "-c", "1"]
    person.types(*line)
    person.until("labelled", "Completed")
    client = person.platform.client

    def found(*filters: str) -> set[str]:
        return {each.name for each in client.all_workloads(filters=filters)}

    assert found("labels.team==nlp") == {"labelled"}
    assert found("labels.app.io/tier==a b", "status==Succeeded", f"submittedBy=={FIRST_USER}") == {"labelled"}
    assert found("labels.team==nlp", "status==Failed") == set()
    assert "labelled" not in found("labels.team!=nlp")
    for wrong in ("labels==nlp", "labels.te'am==x", 'labels.te"am==x'):
        with pytest.raises(Refused):
            found(wrong)
