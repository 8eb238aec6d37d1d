"""A machine with hostile pods on it, in a process of its own so that it can be run as root and as an ordinary user.

    python -m tests.hostile_world FOLDER

Prints one JSON document a line: what was tried, and what it got; nothing got means that it was held.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import fairpool
from fairpool.agent.exec_client import ExecSession
from fairpool.agent.isolation import PROCESSES_VARIABLE
from fairpool.agent.pod_log import LogChunk
from fairpool.agent.root_filesystem import HOME
from fairpool.model.ids import PodId
from fairpool.model.observation import OrderStatus, PodState
from fairpool.model.spec import SecurityContext, Volume
from tests.local_machine import TIMEOUT_S, TOKEN, Machine, a_machine

HERE = Path(__file__).resolve().parent
SECRET = b"of the platform"
PROCESSES_MAX = 150
MEMORY_BYTES = 200 << 20
"""More than reading what a pod left may ever cost."""


def main(folder: Path) -> None:
    folder.chmod(0o755)
    os.environ[PROCESSES_VARIABLE] = str(PROCESSES_MAX)
    data_directory, config = folder / "data directory", folder / "config"
    for place in (data_directory, config):
        place.mkdir(mode=0o700)
    with a_machine(data_directory / "machine", shared=folder / "shared", protected=(data_directory, config)) as machine:
        if why := machine.engine.supervisor.unavailable.get("isolation"):
            print(json.dumps(["permitted", why]))
            return
        print(json.dumps(["permitted", None]))
        world = World(machine, data_directory, config)
        for name, got in world.attempts():
            print(json.dumps([name, got]), flush=True)


class World:
    """The machine, what is worth stealing on it, and who tries."""

    def __init__(self, machine: Machine, data_directory: Path, config: Path) -> None:
        self.machine, self.data_directory, self.config = machine, data_directory, config
        machine.shared.chmod(0o777)
        self.secrets = [data_directory / "control.sqlite", data_directory / "ledger.sqlite", config / "token"]
        for path in self.secrets:
            path.write_bytes(SECRET)
        self.admin_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.admin_socket.bind(str(data_directory / "admin.sock"))
        self.admin_socket.listen()
        add_key(b"fairpool-secret")
        self.neighbour = machine.up("neighbour", "sh", "-c", "while true; do echo here; sleep 0.2; done")

    def attempts(self) -> Iterator[tuple[str, str | None]]:
        yield from self.from_inside()
        for name, attempt in self.around().items():
            try:
                yield name, attempt()
            except Exception as error:
                yield name, f"could not be tried: {error!r}"
        yield "the neighbour", self.the_neighbour_is_well()

    def around(self) -> dict[str, Callable[[], str | None]]:
        return {
            "reports": self.reports,
            "fork bomb": self.fork_bomb,
            "log flood": self.log_flood,
            "deep folders": self.deep_folders,
            "volumes": self.volumes,
            "commands beside it": self.commands,
            "reading an exec process": self.reading_an_exec_process,
            "its own folder": self.its_own_folder,
            "its shim": self.its_shim,
            "projects": self.projects,
            "a user of a directory": self.a_user_of_a_directory,
        }

    def a_user_of_a_directory(self) -> str | None:
        """The same attempts with uid, gid and groups of a person; where the server is not root, it is refused."""
        security = SecurityContext(uid=4711, gid=4712, groups=(5000, 5001), directory_user=True)
        if os.geteuid() != 0:
            (answer,) = self.machine.engine.carry_out([self.machine.order("person", "id", security=security)], TOKEN)
            return None if "processes run as the user of the server" in answer.message else str(answer)
        return next((f"{name}: {got}" for name, got in self.from_inside(security=security) if got is not None), None)

    def from_inside(self, **fields: object) -> Iterator[tuple[str, str | None]]:
        first = self.machine.up(f"first{len(fields)}", "sleep", "1000")
        life = self.machine.folder(first)
        (life / "log.0").touch()
        pids = (os.getpid(), self.machine.shim_pid(first), self.machine.engine.supervisor.fork_server_pid)
        targets = {
            "secrets": [str(path) for path in (*self.secrets, life / "order.json", life / "log.0")],
            "folders": [str(self.data_directory), str(self.config)],
            "given": ["/run/fairpool", HOME, str(self.machine.shared), os.path.realpath(sys.base_prefix)],
            "sockets": [str(self.data_directory / "admin.sock")],
            "pids": [pid for pid in pids if pid is not None and pid > PROCESSES_MAX],  # not one of the pod's own
            "programs": [str(Path(fairpool.__file__)), str(HERE / "hostile_pod.py")],
            "environment": sys.prefix,
            "server_uid": os.getuid(),
            "disk": [8, 0],
        }
        attacker = (HERE / "hostile_pod.py").read_text()
        name = f"hostile{len(fields)}"
        observed = self.machine.run(name, "python3", "-c", attacker, json.dumps(targets), **fields)
        said = self.machine.log(observed.order.pod).splitlines()
        if observed.exit_code != 0:
            yield "the attacker", f"{observed.exit_code} {observed.message} {said}"
        for line in said:
            name, got = json.loads(line)
            yield name, got
        self.machine.stop(first, grace_s=0)

    # --- what a pod writes for the server to read

    def reports(self) -> str | None:
        report = "$(echo ${FAIRPOOL_REPORTER#file:})"
        long = 'import json; print(json.dumps(dict(parameters=dict(a="x" * 99999))))'
        ways = {
            "a pipe": f"mkfifo {report}",
            "a sparse file": f"truncate -s 256M {report}",
            "a link": f"ln -s /etc/passwd {report}",
            "a device": f"ln -s /dev/zero {report}",
            "a folder": f"mkdir {report}",
            "deep JSON": f"python3 -c 'print(\"[\" * 60000)' > {report}",
            "odd numbers": f'echo \'{{"metrics": {{"a": NaN, "b": 1e999, "c": [[1]], "d": 1}}}}\' > {report}',
            "a long text": f"python3 -c '{long}' > {report}",
        }
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number, (what, script) in enumerate(ways.items()):
            if got := self._read_report(f"reports{number}", script):
                return f"{what} {got}"
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        return f"{grown >> 20} MiB were taken" if grown > MEMORY_BYTES else None

    def _read_report(self, name: str, script: str) -> str | None:
        pod = self.machine.up(name, "sh", "-c", f"{script}; echo made; sleep 1000")
        self.machine.until(lambda: "made" in self.machine.log(pod), "it is made")
        found = _in_time(lambda: self.machine.engine.supervisor.reports(pod))
        self.machine.stop(pod, grace_s=0)
        if not isinstance(found, dict):
            return "keeps the reader"
        text = json.dumps(found, allow_nan=False)
        if len(text) > 5000 or "root" in text or found.get("metrics", {"d": 1}) != {"d": 1}:
            return f"was read as {text[:100]}"
        self.machine.forget(pod)
        return "is not forgotten" if self.machine.folder(pod).exists() else None

    def deep_folders(self) -> str | None:
        """Deep directories and many files are removed in the background."""
        script = (
            "import os\nfor i in range(3000):\n os.mkdir('d'); os.chdir('d')\n"
            "for i in range(2000): open(str(i), 'w').close()"
        )
        pod = self.machine.run("deep", "python3", "-c", script).order.pod
        self.machine.forget(pod)
        trash = self.machine.engine.supervisor.state.trash
        end = time.monotonic() + TIMEOUT_S
        while left := list(trash.iterdir()):
            if time.monotonic() > end:
                return f"left: {left}"
            self.machine.engine.supervisor._collector.collect()
            time.sleep(0.05)
        return None

    # --- shared resources

    def fork_bomb(self) -> str | None:
        script = (
            "import os, time\nmade = 0\n"
            "while True:\n"
            "    try:\n        pid = os.fork()\n    except OSError:\n        break\n"
            "    if pid == 0:\n        time.sleep(1000)\n    made += 1\n"
            "print('made', made, flush=True)\ntime.sleep(1000)"
        )
        pod = self.machine.up("bomb", "python3", "-c", script)
        self.machine.until(lambda: "\n" in self.machine.log(pod), "it can make no more")
        made = int(self.machine.log(pod).split()[1])
        if made > PROCESSES_MAX:
            return f"{made} processes"
        if self.machine.run("beside", "sh", "-c", "sleep 0 & wait; exit 3").exit_code != 3:
            return "a pod of the same project can make none"
        if self.machine.run("visited", "true").exit_code != 0:
            return "no pod can be started"
        self.machine.stop(pod, grace_s=0)
        self.machine.until_exited(pod)
        left = self.machine.processes(pod)
        return f"left: {left}" if left else None

    def log_flood(self) -> str | None:
        pod = self.machine.up("flood", "sh", "-c", "head -c 150000000 /dev/zero | tr '\\0' 'x'; echo; echo end")
        if self.machine.run("amid", "sh", "-c", "exit 3").exit_code != 3:
            return "nothing can be started meanwhile"
        self.machine.until_exited(pod)
        size = sum(path.lstat().st_size for path in self.machine.folder(pod).iterdir())
        if size > 60 << 20:
            return f"{size} bytes are kept"
        last = self.machine.engine.supervisor.read_log(pod, tail_lines=1)
        assert isinstance(last, LogChunk)
        return None if last.data == b"end\n" else f"its last line is {last.data[-100:]!r}"

    def volumes(self) -> str | None:
        shared, data = self.machine.shared, self.data_directory
        (shared / "link").symlink_to(data)
        (shared / "chain").symlink_to(shared / "link")
        (shared / "root").symlink_to("/")
        own = [data, data.parent, data / "machine", data / "control.sqlite", data / "admin.sock", self.config]
        own += [data / "machine" / "pods", shared / "link", shared / "chain" / "machine", shared / "root"]
        sources = [
            *map(str, own),
            f"{shared}/../data directory",
            f"/proc/self/root{data}",
            "/proc",
            "/proc/1",
            "relative",
        ]
        sources += ["/", "//", "/../", "/sys", "/sys/kernel", "/dev", "/dev/shm", "/dev/null", "/run", "/home"]
        if os.path.isdir("/root"):
            sources.append("/root")
        for number, source in enumerate(sources):
            for known in (None, os.getuid()):
                if source == "/root" and known == 0:
                    continue
                volume = Volume(source=source, target="/mnt")
                order = self.machine.order(f"v{number}-{known}", "true", volumes=(volume,), submitter_uid=known)
                (answer,) = self.machine.engine.carry_out([order], TOKEN)
                if answer.status is not OrderStatus.REFUSED:
                    return f"{source} was mounted: {answer}"
        return self._volumes_of_others()

    def _volumes_of_others(self) -> str | None:
        """Refused for an unknown submitter, and for another user."""
        closed = self.machine.shared / "closed"
        closed.mkdir(mode=0o700)
        others = (None, 65_000) if os.getuid() == 0 else (None,)
        for known in others:
            volume = Volume(source=str(closed), target="/mnt")
            order = self.machine.order(f"closed-{known}", "true", volumes=(volume,), submitter_uid=known)
            (answer,) = self.machine.engine.carry_out([order], TOKEN)
            is_refused = answer.status is OrderStatus.REFUSED and "cannot be mounted" in answer.message
            if not is_refused and "belongs to the user who runs Fairpool" not in answer.message:
                return f"{closed} was mounted for {known}: {answer}"
        volume = Volume(source=str(closed), target="/mnt")
        observed = self.machine.run("owner", "true", volumes=(volume,))
        return None if observed.exit_code == 0 else f"its owner may not mount it: {observed}"

    # --- exec and attach

    def commands(self) -> str | None:
        pod = self.machine.up("visited2", "sleep", "1000")
        script = (
            "import os\n"
            "pids = [each for each in os.listdir('/proc') if each.isdigit()]\n"
            "print(os.getuid(), sorted(os.listdir('/proc/self/fd')), len(pids),"
            "[line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'NoNewPrivs'))],"
            f"os.path.exists({str(self.data_directory / 'control.sqlite')!r}), os.getcwd(), os.listdir('/root'))"
        )
        said = self._said_by(pod, "python3", "-c", script)
        inside = self._said_by(pod, "sh", "-c", "cat /proc/2/status | grep ^Uid: | cut -f2").strip()
        self.machine.stop(pod, grace_s=0)
        uid, rest = said.split(" ", 1)
        if uid != inside or (os.getuid() == 0 and uid == "0"):
            return f"runs as {uid}, the pod as {inside}"
        expected = f"['0', '1', '2', '3'] 3 ['0000000000000000', '1'] False {HOME}"
        return None if rest.startswith(expected) else said

    def reading_an_exec_process(self) -> str | None:
        """A pod that watches for exec processes reads nothing of the shim's memory in them."""
        script = (
            "import os\nown = os.getpid()\nprint('ready', flush=True)\n"
            "while True:\n"
            "    for pid in os.listdir('/proc'):\n"
            "        if not pid.isdigit() or int(pid) in (1, own): continue\n"
            "        for way in ('cwd', 'fd', 'environ', 'root'):\n"
            "            try:\n"
            "                if way == 'environ': got = open(f'/proc/{pid}/environ').read()\n"
            "                elif way == 'fd':\n"
            "                    names = os.listdir(f'/proc/{pid}/fd')\n"
            "                    got = ' '.join(os.readlink(f'/proc/{pid}/fd/{n}') for n in names)\n"
            "                else: got = os.readlink(f'/proc/{pid}/{way}')\n"
            "            except OSError: continue\n"
            "            if 'data directory' in got or 'shim' in got: print('got', way, got, flush=True)\n"
        )
        pod = self.machine.up("watcher", "python3", "-c", script)
        self.machine.until(lambda: "ready" in self.machine.log(pod), "it watches")
        for _ in range(25):
            self._said_by(pod, "true")
        said = self.machine.log(pod)
        self.machine.stop(pod, grace_s=0)
        return said if "got" in said else None

    def _said_by(self, pod: PodId, *command: str) -> str:
        run = self.machine.engine.supervisor.execute(pod, command)
        assert isinstance(run, ExecSession), run
        parts = []
        while part := os.read(run.stdout, 65536):
            parts.append(part)
        run.wait(TIMEOUT_S)
        run.close()
        return b"".join(parts).decode()

    # --- leaving the books

    def its_own_folder(self) -> str | None:
        own = '"$(dirname "${FAIRPOOL_REPORTER#file:}")"'
        script = f"rm -rf {own} /run/fairpool/* /home/* 2>/dev/null; echo done; sleep 1000"
        pod = self.machine.up("remover", "sh", "-c", script)
        self.machine.until(lambda: "done" in self.machine.log(pod), "it has tried")
        if not (self.machine.folder(pod) / "order.json").exists():
            return "its order is gone"
        self.machine.reopen()
        if self.machine.see(pod).state is not PodState.RUNNING:
            return "it is not seen to run"
        return self._is_ended(pod)

    def its_shim(self) -> str | None:
        script = 'kill -STOP $PPID; kill -KILL $PPID; trap "" TERM; echo deaf; while true; do sleep 1000; done'
        pod = self.machine.up("deaf", "bash", "-c", script)
        self.machine.until(lambda: "deaf" in self.machine.log(pod), "it is deaf")
        return self._is_ended(pod)

    def _is_ended(self, pod: PodId) -> str | None:
        self.machine.stop(pod, grace_s=1)
        self.machine.until_exited(pod)
        left = self.machine.processes(pod)
        return f"left: {left}" if left else None

    # --- the others

    def projects(self) -> str | None:
        """As root, pods of different projects are different users, and neither is the server's."""
        if os.getuid() != 0:
            return None
        uids = set()
        for name in ("one", "two"):
            order = self.machine.order(name, "id", "-u", project=name)
            uids.add(self.machine.log(self.machine.until_exited(self.machine.start(order)).order.pod).strip())
        return None if len(uids) == 2 and "0" not in uids else str(uids)

    def the_neighbour_is_well(self) -> str | None:
        size = len(self.machine.log(self.neighbour))
        self.machine.until(lambda: len(self.machine.log(self.neighbour)) > size, "it goes on")
        if any(path.read_bytes() != SECRET for path in self.secrets):
            return "the platform's files have changed"
        return None


def add_key(name: bytes) -> None:
    """Into the key ring of this session, from which pods are started; where the kernel has key rings."""
    number = {"x86_64": 248, "aarch64": 217}.get(os.uname().machine)
    if number is not None:
        ctypes.CDLL(None).syscall(number, b"user", name, SECRET, len(SECRET), -3)


def _in_time(call: Callable[[], object]) -> object:
    """What a call answers, or nothing if it does not come back."""
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    return answers[0] if answers else None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
