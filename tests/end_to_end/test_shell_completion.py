"""Completion in the shells themselves: bash, zsh and fish load the script, and TAB does what it should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.runai_server import Server, real_environment, serving
from tests.end_to_end.terminal import Terminal
from tests.needs import program

pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent
ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[=>])")
SHELLS = {
    "bash": ("bash", ["--noprofile", "--norc", "-i"]),
    "zsh": ("zsh", ["-f", "-i"]),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("shells")) as found:
        found.settle("team-a")
        found.typed("runai submit hyper1 -i img")
        found.typed("runai context set far-east --server http://127.0.0.1:1")
        yield found


def environment(server: Server, home: Path) -> dict[str, str]:
    """Where the shell finds the commands of this environment, and no settings of the user who runs the tests."""
    path = f"{BIN}:{os.environ['PATH']}"
    return real_environment(server, HOME=str(home), PATH=path, TERM="xterm", PS1="READY> ", ZDOTDIR=str(home))


COMPLETED = {
    "runai susp": "runai suspend",
    "runai training desc": "runai training describe",
    "runai submit --image-pull-policy If": "runai submit --image-pull-policy IfNotPresent",
    "runai submit --grace-p": "runai submit --grace-period",
    "runai logs hyp": "runai logs hyper1",
    "runai config project tea": "runai config project team-a",
    "runai context use f": "runai context use far-east",
    "runai-adm node-po": "runai-adm node-pool",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_in_an_interactive_shell(server: Server, tmp_path: Path, shell: str) -> None:
    name, flags = SHELLS[shell]
    command = ["setsid", "-c", "-w", program(name, name), *flags]
    with Terminal(command, environment(server, tmp_path), columns=120) as terminal:
        terminal.read_until("READY> ")
        for each in ("runai", "runai-adm"):
            terminal.write(f"source <({each} completion {shell}); echo loa''ded\r")
            terminal.read_until("loaded")
            terminal.text = ""
        for typed, completed in COMPLETED.items():
            terminal.write(f"{typed}\t")
            terminal.read_until(completed.split()[-1])
            assert completed in ESCAPE.sub("", terminal.text)
            terminal.write("\x15echo cle''ared\r")
            terminal.read_until("cleared")
            terminal.text = ""
        terminal.write("exit\r")


def test_tab_in_zsh_lists_several_with_their_texts(server: Server, tmp_path: Path) -> None:
    command = ["setsid", "-c", "-w", program("zsh", "zsh"), "-f", "-i"]
    with Terminal(command, environment(server, tmp_path), columns=120) as terminal:
        terminal.read_until("READY> ")
        terminal.write("source <(runai completion zsh); echo loa''ded\r")
        terminal.read_until("loaded")
        terminal.write("runai su\t\t")
        terminal.read_until("Stop jobs so that they can be resumed.")
        terminal.write("\x03\x15exit\r")
    plain = ESCAPE.sub("", terminal.text)
    assert re.search(r"submit +-- Submit a job\.", plain), plain
    assert re.search(r"submit-dist +-- Submit distributed training\.", plain), plain


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [
        ("runai su", ["submit\tSubmit a job.", "submit-dist\tSubmit distributed training."]),
        ("runai training desc", ["describe\tShow one training in detail."]),
        ("runai submit --image-pull-policy If", ["IfNotPresent"]),
        ("runai logs hyp", ["hyper1"]),
        ("runai context use f", ["far-east"]),
        ("runai-adm node-po", ["node-pool\tManage node pools."]),
    ],
)
def test_fish_suggests(server: Server, tmp_path: Path, typed: str, suggested: list[str]) -> None:
    load = "runai completion fish | source; runai-adm completion fish | source"
    done = subprocess.run(
        [program("fish", "fish"), "--no-config", "-c", f"{load}; complete -C '{typed}'"],
        env=environment(server, tmp_path),
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    assert not done.stderr
    assert done.stdout.splitlines()[: len(suggested)] == suggested


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_server_that_is_away_leaves_the_line_as_it_is(server: Server, tmp_path: Path, shell: str) -> None:
    """No message appears in the middle of a line."""
    words = {"COMP_WORDS": "runai logs hyp", "COMP_CWORD": "hyp" if shell == "fish" else "2"}
    reported = {"_RUNAI_COMPLETE": f"{shell}_complete", **words, "FAIRPOOL_SERVER": "127.0.0.1:1"}
    done = subprocess.run(
        [str(BIN / "runai")],
        env=environment(server, tmp_path) | reported,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
