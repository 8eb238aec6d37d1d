"""What a hostile program tries from inside a pod. Put into the pod as it is, so it knows nothing of Fairpool.

Each attempt returns nothing if it was held, else what it got. The targets come as JSON on the command line; the answers
go to standard output, one JSON document a line.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_BIND, MS_REMOUNT, MS_REC = 4096, 32, 16384
ATTACH, SEIZE = 16, 0x4206
HOME = os.path.join("/home", "pod")
COVERING = ("/", "/root", "/home", "/run", "/dev", "/proc", "/tmp")

Targets = dict[str, Any]


def files(targets: Targets) -> str | None:
    """Databases, orders, logs, tokens: by path, and by every way round it."""
    for path in targets["secrets"]:
        for way in (path, f"/proc/self/root{path}", f"/proc/1/root{path}", f"/proc/1/cwd{path}"):
            try:
                with open(way, "rb") as file:
                    return f"{way}: {file.read(40)!r}"
            except OSError:
                continue
    return None


def folders(targets: Targets) -> str | None:
    """What lies in the platform's folders, besides the way to what was mounted there."""
    for folder in targets["folders"]:
        for here, _, names in os.walk(folder):
            if names and not any(here.startswith(given) for given in targets["given"]):
                return f"{here}: {names}"
    return None


def homes(targets: Targets) -> str | None:
    found = set(os.listdir("/home")) - {"pod"}
    ways = [f"{given}/" for given in targets["given"]]
    for here, _, names in os.walk("/root"):
        is_on_the_way = any(way.startswith(f"{here}/") for way in ways)
        if names or (not is_on_the_way and here != "/root" and not any(f"{here}/".startswith(way) for way in ways)):
            if any(f"{here}/".startswith(way) for way in ways):
                continue
            found.add(here)
    if os.path.expanduser("~") != HOME:
        found.add(os.path.expanduser("~"))
    return str(found) if found else None


def sockets(targets: Targets) -> str | None:
    """The server's own, and whatever else the machine listens on by a name."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        named = [line.split()[7] for line in file if len(line.split()) > 7]
    ours = [name for name in named if name.startswith("@") and "fairpool" in name.lower()]
    if ours:
        return f"abstract sockets: {ours}"
    for path in [*targets["sockets"], *(name for name in named if name.startswith("/"))]:
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_UNIX, kind) as line:
                try:
                    line.connect(path)
                except OSError:
                    continue
                return f"connected to {path}"
    return None


def processes(targets: Targets) -> str | None:
    """Those of others, in /proc."""
    for pid in (name for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            continue
        if f"POD_UUID={os.environ['POD_UUID']}".encode() not in environment:
            return f"the environment of {pid}"
    return None


def first_process(targets: Targets) -> str | None:
    """Process 1 is the platform's: its memory, its descriptors, its folder."""
    for name in ("environ", "mem", "maps", "fd/3", "auxv"):
        try:
            with open(f"/proc/1/{name}", "rb") as file:
                file.read(1)
                return f"/proc/1/{name} can be read"
        except OSError:
            continue
    for name in ("cwd", "root", "exe", *(f"fd/{number}" for number in range(64))):
        try:
            os.readlink(f"/proc/1/{name}")
            return f"/proc/1/{name} can be followed"
        except OSError:
            continue
    return None


def tracing(targets: Targets) -> str | None:
    for pid in (1, *targets["pids"]):
        for request in (ATTACH, SEIZE):
            if LIBC.ptrace(request, pid, None, None) == 0:
                return f"attached to {pid}"
        if LIBC.process_vm_readv(pid, None, 0, None, 0, 0) == 0 and pid == 1:
            buffer = ctypes.create_string_buffer(8)
            vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
            if LIBC.process_vm_readv(pid, vector, 1, vector, 1, 0) > 0:
                return f"read the memory of {pid}"
    return None


def signals(targets: Targets) -> str | None:
    """To the server, the shim and the first process; that we go on says that the last had no effect."""
    for pid in targets["pids"]:
        try:
            os.kill(pid, 0)
        except OSError:
            continue
        return f"{pid} can be signalled"
    for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGUSR1, signal.SIGHUP):
        os.kill(1, number)
    time.sleep(0.1)
    return None


def unmounting(targets: Targets) -> str | None:
    return _uncovered(targets)


def nested_namespaces(targets: Targets) -> str | None:
    """With all rights in a user namespace of one's own, in a child: uncover, remount, bind, make devices."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "could not be tried"
        try:
            answer = _nested(targets) or ""
        finally:
            os.write(writer, answer.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        words = file.read().decode()
    os.waitpid(child, 0)
    return words or None


def _nested(targets: Targets) -> str | None:
    uid, gid = os.getuid(), os.getgid()
    if LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) != 0:
        return None  # not permitted at all, which holds too
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    if got := _uncovered(targets):
        return got
    os.makedirs("/tmp/bound", exist_ok=True)
    for source in ("/", "/root", "/home", "/run", "/dev"):
        if LIBC.mount(source.encode(), b"/tmp/bound", None, ctypes.c_ulong(MS_BIND), None) == 0:
            for path in targets["secrets"]:
                if os.path.exists(f"/tmp/bound{path}"):
                    return f"{path} under a copy of {source}"
            LIBC.umount2(b"/tmp/bound", 2)
    try:
        os.mknod("/tmp/disk", 0o600 | stat.S_IFBLK, os.makedev(*targets["disk"]))
        return "made a device"
    except OSError:
        return None


def _uncovered(targets: Targets) -> str | None:
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        places = [line.split()[4] for line in file]
    for place in reversed(places):
        # What the pod was given may be taken away again by a process with rights over a copy; what covers may not.
        if LIBC.umount2(place.encode(), 2) == 0 and (got := files(targets) or (place in COVERING and "it")):
            return f"unmounted {place} and got {got}"
    for place in places:
        remounted = LIBC.mount(b"none", place.encode(), None, ctypes.c_ulong(MS_REMOUNT | MS_BIND), None) == 0
        if remounted and place in (*COVERING, os.path.realpath(sys.base_prefix)):
            return f"remounted {place} writable"
    return files(targets)


def writing(targets: Targets) -> str | None:
    """Into the interpreter, the platform's programs and the system."""
    for path in (os.path.realpath(sys.executable), *targets["programs"], "/etc/passwd", "/usr/bin/env"):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
            return f"{path} can be written"
        except OSError:
            continue
    for folder in (
        os.path.dirname(os.__file__),
        *map(os.path.dirname, targets["programs"]),
        "/run",
        "/home",
        "/dev",
        "/",
    ):
        try:
            open(f"{folder}/planted", "w").close()
            return f"{folder} takes files"
        except OSError:
            continue
    return None


def devices(targets: Targets) -> str | None:
    allowed = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"}
    allowed |= {"fd", "stdin", "stdout", "stderr"}
    found = {name for name in os.listdir("/dev") if name not in allowed and not name.startswith("nvidia")}
    return str(found) if found else None


def rights(targets: Targets) -> str | None:
    with open("/proc/self/status", encoding="utf-8") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    wrong = {name: status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb") if int(status[name], 16)}
    if status["NoNewPrivs"] != "1":
        wrong["NoNewPrivs"] = status["NoNewPrivs"]
    if os.getuid() == 0 or os.geteuid() == 0 or 0 in os.getgroups():
        wrong["uid"] = str((os.getuid(), os.geteuid(), os.getgroups()))
    if os.getuid() == targets["server_uid"] == 0:
        wrong["server"] = "the server's own user"
    return str(wrong) if wrong else None


def packages(targets: Targets) -> str | None:
    """Where `pip install` would put something."""
    import site

    if site.getuserbase() != f"{HOME}/.local" or os.environ.get("PIP_USER") != "1":
        return f"{site.getuserbase()}, {os.environ.get('PIP_USER')}"
    inside = [folder for folder in os.environ["PATH"].split(":") if folder.startswith(targets["environment"])]
    return f"on the PATH: {inside}" if inside else None


def keys(targets: Targets) -> str | None:
    """Of the kernel's key rings: that of the user who started the server cannot be read in here."""
    number = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine)
    if number is None or not os.path.exists("/proc/keys"):
        return None
    read, content = 11, ctypes.create_string_buffer(100)
    with open("/proc/keys", encoding="utf-8", errors="replace") as file:
        found = [int(line.split()[0], 16) for line in file if "fairpool-secret" in line]
    for key in found:
        if LIBC.syscall(number, read, key, content, 100) > 0:
            return f"{content.value!r}"
    return None


def lingering(targets: Targets) -> str | None:
    """What is done to others' terminals and shared memory."""
    got = [name for name in os.listdir("/dev/pts") if name != "ptmx"] + os.listdir("/dev/shm")
    shown = subprocess.run(["ipcs", "-m"], capture_output=True, text=True, check=False).stdout
    return str(got) if got else ("shared memory" if "0x46504c47" in shown else None)


ATTEMPTS: dict[str, Callable[[Targets], str | None]] = {
    "files": files,
    "folders": folders,
    "homes": homes,
    "sockets": sockets,
    "processes": processes,
    "first process": first_process,
    "tracing": tracing,
    "signals": signals,
    "unmounting": unmounting,
    "nested namespaces": nested_namespaces,
    "writing": writing,
    "devices": devices,
    "rights": rights,
    "packages": packages,
    "keys": keys,
    "lingering": lingering,
}


if __name__ == "__main__":
    for name, attempt in ATTEMPTS.items():
        try:
            got = attempt(json.loads(sys.argv[1]))
        except Exception as error:
            got = f"could not be tried: {error!r}"
        print(json.dumps([name, got]), flush=True)
