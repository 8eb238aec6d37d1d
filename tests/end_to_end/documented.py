"""Lines that documents print, typed as they stand against a platform with real processes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.end_to_end.shared_platform import SharedPlatform
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.typist import Answer, Typist
from tests.running_platform import PATIENCE_S, Running

BIN = Path(sys.executable).parent
REGISTRY = "registry.example:5000"
ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
QUICKSTART = f"{REGISTRY}/run-ai-demo/quickstart"


class Documented:
    """A platform with the images that documents name, and its administrator at a shell."""

    def __init__(self, shared: SharedPlatform, folder: Path) -> None:
        self.shared, self.folder = shared, folder

    def typed(self, line: str) -> str:
        return self.shared.typed(line)

    def type(self, line: str, keys: str = "") -> Answer:
        """As it stands: to a terminal where keys follow, to a shell where the line needs one."""
        if keys:
            return self.on_a_terminal(line, keys)
        if "`" in line or "<(" in line:
            done = subprocess.run(
                ["bash", "-c", line], env=self.environment(), capture_output=True, text=True, timeout=PATIENCE_S
            )
            return Answer(done.returncode, done.stdout, done.stderr)
        return self.shared.typist.type(line)

    def on_a_terminal(self, line: str, keys: str) -> Answer:
        """Keys are typed into the shell that the line opens, and then `exit`."""
        with Terminal(["bash", "-c", line], self.environment(), columns=120) as terminal:
            terminal.read_until("$ ")
            terminal.write(f"{keys}; exit 5\r")
        return Answer(terminal.code, ESCAPE.sub("", terminal.text).replace("\r", ""), "")

    def environment(self, person: str = "admin") -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
        own = {name: value for name, value in self.shared.typist.environment(person).items() if value}
        return {**kept, **own, "PATH": f"{BIN}:{os.environ['PATH']}", "TERM": "xterm"}

    def job(self, project: str, name: str) -> dict[str, Any]:
        return self.shared.jobs(project)[name]

    def runs(self, project: str, name: str) -> dict[str, Any]:
        """The job, as soon as it runs."""
        self.shared.becomes(project, name, "Running")
        return self.job(project, name)

    def is_gone(self, project: str, name: str) -> bool:
        return name not in self.shared.jobs(project)

    def until(self, holds: Callable[[], object], what: str) -> None:
        self.shared.until(holds, what)


@dataclass(frozen=True)
class Line:
    """A documented line, and what shows that it did what the document says."""

    text: str
    effect: Callable[[Documented, Answer], None]
    keys: str = ""
    """Typed into the shell that it opens."""
    code: int = 0


def play(documented: Documented, lines: tuple[Line, ...]) -> None:
    """One after the other, each with its effect before the next is typed."""
    for line in lines:
        answer = documented.type(line.text, line.keys)
        assert answer.code == (5 if line.keys else line.code), (line.text, answer)
        try:
            line.effect(documented, answer)
        except AssertionError as error:
            raise AssertionError(f"{line.text}\n{answer.out}{answer.err}") from error


@contextmanager
def outside_tmp() -> Iterator[Path]:
    """A folder; a documented command mounts `/tmp`, which is refused where it contains the platform's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="fairpool-documented-", dir="/var/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class WithoutMountsInTmp(Running):
    """A platform that does not see what other tests mount below `/tmp`, which makes `-v /tmp:/tmp` refused."""

    def command(self, *arguments: str, config: Path | None = None) -> subprocess.CompletedProcess[str]:
        if os.geteuid() != 0 or arguments[0] != "up":
            return super().command(*arguments, config=config)
        mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        others = [place for place in mounted if place.startswith("/tmp/")]
        hidden = "".join(f"umount --lazy {shlex.quote(place)}; " for place in reversed(others))
        line = [sys.executable, "-m", "fairpool.cli.main", *arguments, "--data", str(self.data_directory.root)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", f'{hidden}exec "$@"', "sh", *line],
            env={**kept, "FAIRPOOL_DISK_RESERVE": "32MiB", **self._variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


IMAGES = """
[[image]]
name = "nvidia/pytorch"
command = ["sleep", "1000"]
"""
"""What an administrator adds for the images of documents, beside those that are shipped."""


@contextmanager
def documented_platform(*nodes: str) -> Iterator[Documented]:
    """The platform; `nodes` as `fairpool up --nodes` takes them."""
    with outside_tmp() as folder:
        platform = WithoutMountsInTmp(folder / "data", config=folder / "admin" / "config")
        try:
            platform.up(*(word for each in nodes for word in ("--nodes", each)))
            table = platform.data_directory.machine / "images.toml"
            table.write_text(table.read_text(encoding="utf-8") + IMAGES, encoding="utf-8")
            shared = SharedPlatform(platform, Typist(str(platform.status["address"]), folder))
            yield Documented(shared, folder)
        finally:
            platform.clean_up()
