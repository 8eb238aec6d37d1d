"""`runai logs` and what may happen to it: a server that is killed and comes back, a log too large to be kept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow

COUNTING = """
import os, sys, time
for number in range(100000):
    print(number, flush=True)
    time.sleep(0.02)
    if os.path.exists(sys.argv[1]):
        break
print("last", flush=True)
"""
FLOOD = """
import sys
line = b"x" * 1023 + b"\\n"
for _ in range(1024):
    sys.stdout.buffer.write(line * 1024)
for number in range(10):
    print("line", number)
"""


class Reader:
    """A user who runs `runai` with a login of their own."""

    def __init__(self, platform: Running, folder: Path) -> None:
        self.platform, self.folder = platform, folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
        self.address = str(platform.status["address"])
        self._environment = kept | {"FAIRPOOL_CONFIG": str(folder / "config"), "FAIRPOOL_SERVER": self.address}
        assert platform.client.projects()
        platform.sign_in(folder / "config")
        self.typed("config", "project", "team-a")

    def typed(self, *arguments: str) -> str:
        done = subprocess.run(self._line(arguments), env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def starts(self, *arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(self._line(arguments), env=self._environment, stdout=pipe, stderr=pipe, text=True)

    def restart(self) -> None:
        """Killed, and started again at the same address."""
        self.platform.kill()
        self.platform.up("--listen", self.address.removeprefix("http://"))

    @staticmethod
    def _line(arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "fairpool.cli.runai.main", *arguments]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("follower")
    platform = Running(folder / "data")
    try:
        platform.up()
        yield Reader(platform, folder)
    finally:
        platform.clean_up()


def counts_until(reader: Reader, name: str) -> Path:
    """A job that counts until a file is there."""
    shared = reader.folder / name
    shared.mkdir()
    program = shared / "count.py"
    program.write_text(COUNTING)
    words = ("-v", f"{shared}:/shared", "--", "python", "/shared/count.py", "/shared/enough")
    reader.typed("submit", name, "-i", "python", *words)
    return shared / "enough"


def the_rest(follower: subprocess.Popen[str]) -> tuple[str, str]:
    """What it writes until its end, after lines that were read."""
    assert follower.stdout is not None
    assert follower.stderr is not None
    out, err = follower.stdout.read(), follower.stderr.read()
    follower.wait(PATIENCE_S)
    return out, err


@pytest.mark.parametrize("flags", [(), ("--all-pods",), ("--timestamps",)], ids=["one", "all pods", "timestamps"])
def test_a_follower_goes_on_where_it_was_when_the_server_was_killed(reader: Reader, flags: tuple[str, ...]) -> None:
    name = "count" + "-".join(("", *(each.strip("-") for each in flags)))
    enough = counts_until(reader, name)
    follower = reader.starts("logs", "-f", name, *flags)
    assert follower.stdout is not None
    seen = [follower.stdout.readline() for _ in range(10)]
    reader.restart()
    while len(seen) < 200:
        seen.append(follower.stdout.readline())
    enough.touch()
    out, err = the_rest(follower)
    assert follower.returncode == 0, err
    *numbers, last = [line.split()[-1] for line in [*seen, *out.splitlines()]]
    assert numbers == [str(number) for number in range(len(numbers))], "each line once, and none is missing"
    assert last == "last"
    lost = "The connection to the server was lost; the output goes on when it answers again ..."
    assert err.splitlines().count(lost) == 1, err


def test_a_follower_of_the_last_lines_does_not_begin_again(reader: Reader) -> None:
    enough = counts_until(reader, "tailed")
    client = reader.platform.client
    found = client.find_workload("team-a", "tailed")
    assert found is not None
    reader.platform.until(lambda: reader.platform.phase(found.id) == "Running", "it runs")
    reader.platform.until(lambda: reader.platform.log(found.id).count("\n") > 30, "it has counted to 30")
    follower = reader.starts("logs", "-f", "tailed", "--tail", "3")
    assert follower.stdout is not None
    seen = [follower.stdout.readline() for _ in range(5)]
    reader.restart()
    seen += [follower.stdout.readline() for _ in range(50)]
    enough.touch()
    out, err = the_rest(follower)
    numbers = [int(line) for line in [*seen, *out.splitlines()[:-1]]]
    assert numbers[0] > 0
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), err


def test_the_last_lines_of_a_gigabyte_are_shown_with_what_was_dropped(reader: Reader) -> None:
    program = reader.folder / "flood" / "flood.py"
    program.parent.mkdir()
    program.write_text(FLOOD)
    reader.typed("submit", "flood", "-i", "python", "-v", f"{program.parent}:/f:ro", "--", "python", "/f/flood.py")
    reader.typed("wait", "flood", "--timeout", f"{PATIENCE_S:.0f}s")
    done = reader.starts("logs", "flood", "--tail", "10")
    out, err = done.communicate(timeout=PATIENCE_S)
    assert (done.returncode, out.splitlines()) == (0, [f"line {number}" for number in range(10)])
    (said,) = err.splitlines()
    assert said.endswith("MB of earlier output are no longer kept; the last part is shown.")
    assert int(said.split()[0].replace(",", "")) > 500
    client = reader.platform.client
    found = client.find_workload("team-a", "flood")
    assert found is not None
    first = next(client.logs(found.id))
    assert b"bytes of output were rotated away]" in first[:200], "a log with a gap does not look complete"
