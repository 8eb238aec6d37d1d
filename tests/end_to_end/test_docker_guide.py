"""`docs/guides/coming-from-docker.md`: every row of its tables is typed, and does in a job what docker does. F-105."""

from __future__ import annotations

import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.documented import Documented, documented_platform
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_ports_on_one_machine import free_port
from tests.running_platform import PATIENCE_S

pytestmark = pytest.mark.slow

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "coming-from-docker.md"
PROJECT = "docker"
SH = "-i ubuntu -- sh -c"
PORT = free_port()
SERVE = "import http.server as h; h.HTTPServer(('127.0.0.1', 8000), h.SimpleHTTPRequestHandler).serve_forever()"


@pytest.fixture(scope="module")
def lines() -> Iterator[Documented]:
    """A platform where every job of the table has been submitted."""
    with documented_platform("1x4:V100-32GB") as found:
        found.typed(f"runai-adm project create {PROJECT} -g 4")
        found.typed(f"runai config project {PROJECT}")
        data = found.folder / "open"
        data.mkdir()
        found.folder.chmod(0o755)
        (data / "note.txt").write_text("of the node\n")
        for name, row in FLAGS.items():
            if row.typed:
                found.typed(f"runai submit {name} {row.typed.format(folder=data)}")
        yield found


def rows(heading: str) -> list[tuple[str, ...]]:
    """Cells of the table below a heading of the guide, without backticks."""
    text = GUIDE.read_text(encoding="utf-8").partition(f"## {heading}")[2].partition("\n## ")[0]
    table = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [tuple(cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]) for line in table]


# --- flags


def ends_with(pattern: str) -> Callable[[Documented, str], None]:
    """The job succeeds, and this is in its output."""

    def shows(lines: Documented, name: str) -> None:
        lines.shared.becomes(PROJECT, name, "Succeeded")
        log = lines.typed(f"runai logs {name}")
        assert re.search(pattern, log, re.MULTILINE), log

    return shows


def returns_at_once(lines: Documented, name: str) -> None:
    lines.runs(PROJECT, name)


def keeps_input_open(lines: Documented, name: str) -> None:
    lines.runs(PROJECT, name)
    answer = lines.shared.typist.type(f"runai attach {name}", stdin="yes\n")
    assert "got yes" in answer.out
    lines.shared.becomes(PROJECT, name, "Succeeded")


def is_on_the_terminal(lines: Documented, name: str) -> None:
    line = f"runai submit {name} -i ubuntu --interactive --attach -- bash"
    with Terminal(["bash", "-c", line], lines.environment()) as terminal:
        terminal.read_until("$ ")
        terminal.write("tty; exit 3\r")
        terminal.read_until("/dev/pts/")
    assert terminal.code == 3


def is_killed_beyond_its_memory(lines: Documented, name: str) -> None:
    """Where this machine permits no control groups, the first line of the output says so."""
    lines.shared.becomes(PROJECT, name, "Failed", "Succeeded")
    log = lines.typed(f"runai logs {name}")
    if "not enforced" in log:
        return
    assert "all of it" not in log
    assert "OOMKilled" in lines.typed(f"runai why {name}")


def has_two_cpus(lines: Documented, name: str) -> None:
    """What the node is told to enforce; a machine may permit no control groups."""
    lines.runs(PROJECT, name)
    orders = [place.read_text() for place in lines.shared.platform.data_directory.machine.rglob("order.json")]
    (order,) = (text for text in orders if f'"{name}"' in text)
    assert '"cpu_limit_milli":2000' in order


def answers_at_its_port(lines: Documented, name: str) -> None:
    lines.runs(PROJECT, name)
    assert f"http://127.0.0.1:{PORT}" in lines.typed("runai list")
    lines.until(_answers, "the port of the node answers")


def _answers() -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/", timeout=PATIENCE_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def is_tried_twice(lines: Documented, name: str) -> None:
    lines.shared.becomes(PROJECT, name, "Failed")
    pods = lines.shared.platform.client.history(lines.job(PROJECT, name)["id"])
    assert len(pods) == 2


def disappears(lines: Documented, name: str) -> None:
    lines.until(lambda: lines.is_gone(PROJECT, name), "it is deleted by itself")


def is_found_by_label(lines: Documented, name: str) -> None:
    lines.runs(PROJECT, name)
    listed = lines.typed("runai list -l team=vision").splitlines()[2:]
    assert [line.split()[0] for line in listed] == [name]


@dataclass(frozen=True)
class Row:
    """A row of the guide, what is typed after `runai submit NAME` for it, and what shows its effect."""

    docker: str
    runai: str
    typed: str
    shows: Callable[[Documented, str], None]


FLAGS = {
    "image": Row("IMAGE", "-i IMAGE", "-i python", ends_with(r"\A")),
    "words": Row("IMAGE WORD...", "-i IMAGE -- WORD...", "-i python -- python -c 'print(6 * 7)'", ends_with("^42$")),
    "entrypoint": Row(
        "--entrypoint PROGRAM",
        "--command -- PROGRAM WORD...",
        "-i run-ai-demo/quickstart --command -- echo instead",
        ends_with("^instead$"),
    ),
    "named": Row("--name NAME", "NAME", f"{SH} 'echo $JOB_NAME'", ends_with("^named$")),
    "detached": Row("-d", "", "-i ubuntu -- sleep 1000", returns_at_once),
    "input": Row("-i", "--stdin", f"--stdin {SH} 'read answer; echo got $answer'", keeps_input_open),
    "terminal": Row("-it", "--attach", "", is_on_the_terminal),
    "variable": Row("-e KEY=VALUE", "-e KEY=VALUE", f"-e COLOUR=blue {SH} 'echo $COLOUR'", ends_with("^blue$")),
    "folder": Row(
        "-v HOST:PATH:ro",
        "-v HOST:PATH:ro",
        f"-v {{folder}}:/data:ro {SH} 'cat /data/note.txt; touch /data/x 2>&1 || echo kept out'",
        ends_with(r"^of the node\n.*Read-only.*\nkept out$"),
    ),
    "volume": Row(
        "-v VOLUME:PATH",
        "--new-pvc claimname=VOLUME,size=1Gi,path=PATH",
        f"--new-pvc claimname=results,size=1Gi,path=/out {SH} 'echo 1 > /out/x; ls /out'",
        ends_with("^x$"),
    ),
    "place": Row("-w FOLDER", "--working-dir FOLDER", "--working-dir /srv -i ubuntu -- pwd", ends_with("^/srv$")),
    "gpus": Row("--gpus N", "-g N", f"-g 2 {SH} 'nvidia-smi -L | wc -l'", ends_with("^2$")),
    "cpus": Row("--cpus N", "--cpu-limit N", "--cpu-limit 2 -i ubuntu -- sleep 1000", has_two_cpus),
    "memory": Row(
        "-m SIZE",
        "--memory-limit SIZE",
        "--memory-limit 100M --backoff-limit 0 -i python -- python -c \"x = b'x' * 10**9; print('all of it')\"",
        is_killed_beyond_its_memory,
    ),
    "shm": Row(
        "--shm-size SIZE",
        "--large-shm",
        f"--large-shm {SH} 'df -BG --output=size /dev/shm | tail -1'",
        ends_with(r"^ *\d\d+G$"),
    ),
    "port": Row(
        "-p HOST:PORT",
        "--service-type nodeport --port HOST:PORT",
        f'--service-type nodeport --port {PORT}:8000 -i python -- python -c "{SERVE}"',
        answers_at_its_port,
    ),
    "again": Row("--restart on-failure:N", "--backoff-limit N", "--backoff-limit 1 -i ubuntu -- false", is_tried_twice),
    "gone": Row(
        "--rm",
        "--auto-deletion-time-after-completion 0s",
        "--auto-deletion-time-after-completion 0s -i ubuntu -- true",
        disappears,
    ),
    "label": Row("-l KEY=VALUE", "-l KEY=VALUE", "-l team=vision -i ubuntu -- sleep 1000", is_found_by_label),
    "local": Row("--pull never", "--local-image", "--local-image -i ubuntu -- echo here", ends_with("^here$")),
}


def test_the_table_of_flags_is_what_is_tested() -> None:
    assert [each[:2] for each in rows("Flags")] == [(row.docker, row.runai) for row in FLAGS.values()]


@pytest.mark.parametrize("name", FLAGS)
def test_each_row_of_the_guide_does_in_a_job_what_docker_does(lines: Documented, name: str) -> None:
    FLAGS[name].shows(lines, name)


def test_the_line_of_the_guide_is_understood(lines: Documented) -> None:
    """Its folder is not on every machine, so it is only asked whether it would be taken."""
    (line,) = re.findall(r"^runai submit myjob .*$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    said = lines.type(f"{line} --dry-run")
    assert (said.code, "myjob would be accepted" in said.out + said.err) == (0, True), said


# --- commands


def test_each_command_of_the_guide_does_what_docker_does(lines: Documented, tmp_path: Path) -> None:
    (tmp_path / "sent.txt").write_text("sent\n")
    program = "echo first; while [ ! -e end ]; do sleep 0.1; done; echo last"
    lines.typed(f'runai submit box -i ubuntu -- sh -c "{program}"')
    lines.runs(PROJECT, "box")
    shown = {
        "runai list": r"^box +Running ",
        "runai describe job NAME": r"\ANAME: box\n",
        "runai exec NAME -- WORD...": r"^box-0-0$",
        "runai bash NAME": r"^in bash on box-0-0$",
        "runai cp FILE NAME:PATH": "",
        "runai suspend NAME": "^Job box suspended successfully.$",
        "runai resume NAME": "^Job box resumed successfully.$",
        "runai logs -f NAME": r"\Afirst\nlast\n\Z",
        "runai wait NAME": "^box: succeeded$",
        "runai delete NAME": "^Job box deleted successfully.$",
    }
    assert {runai for _, runai in rows("Commands")} == shown.keys()
    typed = {"WORD...": "hostname", "FILE": str(tmp_path / "sent.txt"), "NAME": "box", "PATH": "/home/pod/got.txt"}
    ends: subprocess.Popen[bytes] | None = None
    for command, pattern in shown.items():
        line = command
        for word, meant in typed.items():
            line = line.replace(word, meant)
        if command == "runai logs -f NAME":
            lines.runs(PROJECT, "box")
            ends = subprocess.Popen(["sh", "-c", "runai exec box -- touch end"], env=lines.environment())
        answer = lines.type(line, "echo in bash on $(hostname)" if command == "runai bash NAME" else "")
        assert re.search(pattern, answer.out + answer.err, re.MULTILINE), (line, answer)
    assert ends is not None
    assert ends.wait(PATIENCE_S) == 0
