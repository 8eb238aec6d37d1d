"""The library of GPU shares and a stub driver, built with each compiler, and programs that use both."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairpool.agent.fractions.share_file import SharedDevice, ShareFile, SlotUse, decode_share, encode_share
from tests import needs
from tools import native_build

MIB = 1 << 20
HERE = Path(__file__).parent
STRICT = ("-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", f"-I{native_build.ROOT / 'native'}", "-pthread")
BUILDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "gcc": ("gcc", ("-O2",)),
    "clang": ("clang", ("-O2",)),
    "address": ("gcc", ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DGPUFRAC_WITHOUT_DLSYM")),
    "thread": ("gcc", ("-O1", "-fsanitize=thread", "-DGPUFRAC_WITHOUT_DLSYM")),
}


def uuid(card: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{card:012d}"


@dataclass(frozen=True)
class Built:
    """A library, a driver and a program, built alike."""

    folder: Path
    is_linked: bool
    """The program is linked with the library, because a sanitizer must be loaded before everything else."""

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        preload = {} if self.is_linked else {"LD_PRELOAD": str(self.folder / "libgpufrac.so")}
        options = {"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "halt_on_error=1"}
        return kept | preload | options | {"LD_LIBRARY_PATH": str(self.folder)} | more


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def make(name: str, folder: Path) -> Built:
    program, flags = BUILDS[name]
    compiler = needs.program(program, program)
    library = (compiler, *STRICT, *flags, "-fPIC", "-shared", "-fvisibility=hidden")
    sources = sorted((native_build.ROOT / "native").glob("*.c"))
    is_linked = name in ("address", "thread")
    _run([*library, *sources, "-o", folder / "libgpufrac.so"])
    stub = HERE / "stub_driver.c"
    for soname, defined in (("libcuda.so.1", "-DAS_CUDA"), ("libnvidia-ml.so.1", "-DAS_NVML")):
        _run([*library, stub, defined, f"-Wl,-Bsymbolic,-soname,{soname}", "-o", folder / soname])
    first = [folder / "libgpufrac.so"] if is_linked else []
    drivers = [folder / "libcuda.so.1", folder / "libnvidia-ml.so.1"]
    _run(
        [compiler, *STRICT, *flags, HERE / "puppet.c", "-Wl,--no-as-needed", *first, *drivers, "-o", folder / "puppet"]
    )
    return Built(folder, is_linked)


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Built]:
    made: dict[str, Built] = {}

    def built(name: str) -> Built:
        if name not in made:
            made[name] = make(name, tmp_path_factory.mktemp(name))
        return made[name]

    return built


class Puppet:
    """A process that uses CUDA as it is told."""

    def __init__(self, built: Built, environment: Mapping[str, str], *, is_limited: bool = True) -> None:
        variables = dict(environment)
        if not is_limited:
            variables.pop("LD_PRELOAD", None)
        self.process = subprocess.Popen(
            [built.folder / "puppet"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=variables,
            text=True,
        )
        self.pid = self.process.pid

    def send(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self) -> list[str]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the program ended: {self.end()}"
        return line.split()

    def ask(self, command: str) -> list[str]:
        self.send(command)
        return self.answer()

    def result(self, command: str) -> int:
        return int(self.ask(command)[0])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=10)

    def end(self) -> str:
        """What it wrote to standard error."""
        _, errors = self.process.communicate(timeout=30)
        return errors


class World:
    """Fake cards, one share, and processes in it."""

    def __init__(self, built: Built, folder: Path, stack: ExitStack) -> None:
        self.built = built
        self.share = folder / "share"
        self.variables: dict[str, str] = {"STUB_STATE": str(folder / "cards"), "GPUFRAC_SHARE": str(self.share)}
        self._stack = stack
        self._bare = 0

    def limit(self, mib: int, *cards: int) -> None:
        """Create the share: so much of each card."""
        devices = [SharedDevice(uuid=uuid(card), limit_bytes=mib * MIB) for card in cards or (0,)]
        self.share.write_bytes(encode_share("test", devices))

    def start(self, *, is_limited: bool = True, **more: str) -> Puppet:
        puppet = Puppet(self.built, self.built.environment(**(self.variables | more)), is_limited=is_limited)
        self._stack.callback(self._finish, puppet)
        return puppet

    def opened(self, ordinal: int = 0, **more: str) -> Puppet:
        puppet = self.start(is_limited=True, **more)
        assert puppet.result(f"open {ordinal}") == 0
        return puppet

    def contents(self) -> ShareFile:
        found = decode_share(self.share.read_bytes())
        assert isinstance(found, ShareFile), found
        return found

    def use(self, puppet: Puppet, row: int = 0) -> SlotUse:
        """What the share file says of a process."""
        return next(each for each in self.contents().slots if each.pid == puppet.pid).devices[row]

    def real_mib(self, card: int = 0) -> int:
        """What the card itself says is in use: asked by a process without the library."""
        variables = {name: value for name, value in self.variables.items() if name != "GPUFRAC_SHARE"}
        bare = Puppet(self.built, self.built.environment(**variables), is_limited=False)
        words = bare.ask(f"nvml {3 - card}")
        bare.end()
        return int(words[2])

    def _finish(self, puppet: Puppet) -> None:
        if puppet.process.poll() is None:
            errors = puppet.end()
            assert puppet.process.returncode == 0, errors
        for stream in (puppet.process.stdin, puppet.process.stdout, puppet.process.stderr):
            if stream is not None and not stream.closed:
                stream.close()


@pytest.fixture
def world(builds: Callable[[str], Built], tmp_path: Path, request: Any) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(builds(getattr(request, "param", "gcc")), tmp_path, stack)
