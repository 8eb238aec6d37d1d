"""Starting the program of a pod in a container, and removing the container afterwards: what a shim does instead of
starting the program itself.

The container is created under a name that only this pod can have, and then started in the foreground: the command that
waits for it is the shim's child, its output is the pod's and its exit code the program's. When shim and command are
killed the container runs on, and a replacement finds its processes as it finds those of every pod. What is mounted is
opened and checked by the shim and bound to a directory that only it and the container see: a path that is exchanged
meanwhile changes nothing. Runs in shims, so it imports next to nothing.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from fairpool.agent import mounts, namespaces, process_table
from fairpool.agent.mount_source import SourceRefused
from fairpool.agent.pod_network import PodNetwork
from fairpool.agent.process_table import POD_UUID
from fairpool.agent.program import (
    NOT_EXECUTABLE,
    OUTPUT,
    RESTORED_SIGNALS,
    TERMINAL_SIZE,
    CannotRun,
    Started,
    become,
    forked,
    make_input,
    open_output,
)
from fairpool.agent.root_filesystem import make_temporary, open_volume

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` to know this would be a tenth of every shim's memory
    from typing import Any

NETWORK_NAMESPACES = "/run/netns"
"""Where tools look for network namespaces; shared with the mount namespaces of shims."""
PID_FILE = "container.pid"
STAGING = "view"
CREATE_S, REMOVE_S, INSPECT_S = 300.0, 60.0, 20.0
"""How long the tool may take; a busy storage is slow."""
REMOVE_TRIES = 3
"""Podman first fails, and then succeeds, with a container whose monitor was killed."""
LOOK_S = 0.02
SIGNALS_MAX = 64
WORDS_MAX = 2000


def start_container(launch: Mapping[str, Any]) -> Started:
    """Create and start the container of the launch, in the shim's current directory. Raises `CannotRun` or OSError."""
    container = launch["container"]
    try:
        volumes = _volumes(launch)
    except SourceRefused as refusal:
        raise CannotRun(NOT_EXECUTABLE, str(refusal)) from None
    _create(launch, [*volumes, *_network(launch)])
    argv = [container["tool"], *container["start"]]
    env = {**container["environment"], POD_UUID: launch["pod_uuid"]}
    if launch["tty"]:
        client, output, stdin = _start_on_terminal(argv, env)
    else:
        client, output, stdin = _start_on_pipes(launch, argv, env)
    main = _wait_until_running(container, client, launch["pod_uuid"])
    if not main and not os.path.exists(PID_FILE) and container["pid_option"]:
        _, status = os.waitpid(client, 0)
        code = os.waitstatus_to_exitcode(status)
        remove_container(launch)
        raise CannotRun(code if 0 < code < 128 else NOT_EXECUTABLE, _words(output) or "its container did not start")
    return Started(client, output, stdin, namespace=_namespace(main), main=main)


def container_status(status: int) -> int:
    """How the program ended, from how the waiting command did: 128 and more is a signal, as in every shell."""
    code = os.waitstatus_to_exitcode(status)
    return code - 128 if 128 < code <= 128 + SIGNALS_MAX else status


def ended_as(launch: Mapping[str, Any]) -> tuple[int | None, bool]:
    """The exit code of the container, if the tool knows it, and whether it used more memory than it may."""
    inspect = ("inspect", "--format", "{{.State.Status}} {{.State.ExitCode}} {{.State.OOMKilled}}")
    until = time.monotonic() + INSPECT_S
    while True:
        code, words = _run(launch["container"], (*inspect, launch["container"]["name"]), INSPECT_S)
        state, *numbers = words.split()[:3] or [""]
        if code == 0 and state in ("exited", "stopped") and len(numbers) == 2 and numbers[0].isdigit():
            return int(numbers[0]), numbers[1] == "true"
        if code != 0 or time.monotonic() > until or state == "created":
            return None, False
        time.sleep(LOOK_S * 5)  # its monitor has not written down yet how it ended


def remove_container(launch: Mapping[str, Any]) -> None:
    """Kill what is in the container and remove it. What is left of it is removed later by the server."""
    container = launch["container"]
    for _ in range(REMOVE_TRIES):
        code, _ = _run(container, (*container["remove"], container["name"]), REMOVE_S)
        if code == 0:
            break
    with suppress(OSError):  # the server tries again
        forget_network(container["name"])


def exec_command(launch: Mapping[str, Any], request: Mapping[str, Any]) -> list[str]:
    """The command that executes another one in the container, as its user and under its limits."""
    container = launch["container"]
    options = ["exec", "--interactive", *(["--tty"] if request["tty"] else [])]
    options += [f"--env={name}={value}" for name, value in request["env"].items()]
    options += [f"--workdir={request['cwd']}"] if request["cwd"] else []
    return [container["tool"], *options, container["name"], *request["argv"]]


def _network(launch: Mapping[str, Any]) -> list[str]:
    """The option for a network namespace of the pod's own, which this shim enters; without one, the tool decides."""
    if not launch.get("network"):
        return []
    PodNetwork().enter()
    path = f"{NETWORK_NAMESPACES}/{launch['container']['name']}"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    mounts.mount("/proc/self/ns/net", path, "", mounts.MS_BIND)  # the tool asks for it also when this shim is gone
    return [launch["container"]["network_option"].format(path=path)]


def forget_network(name: str) -> None:
    """Remove the name of a container's network namespace, which ends with the last process in it."""
    path = f"{NETWORK_NAMESPACES}/{name}"
    if os.path.exists(path):
        mounts.detach(path)
        os.unlink(path)


# --- what is mounted


def _volumes(launch: Mapping[str, Any]) -> list[str]:
    """Options for everything that is mounted."""
    container, view = launch["container"], launch["view"]
    given = [*view["binds"], *launch["mounts"]]
    for each in view["binds"]:
        if each.get("is_made"):
            make_temporary(each["source"], view["user"])
    sources = _staged(given, view) if container["is_local"] else _checked(given, view)
    return [
        f"--volume={source}:{each['target']}:{each['mode']}{container['volume_options']}"
        for each, source in zip(given, sources, strict=True)
        if source
    ]


def _staged(given: Sequence[Mapping[str, Any]], view: Mapping[str, Any]) -> list[str]:
    """Bind what was opened and checked to directories in a mount namespace of this shim, which the tool inherits. All
    that the tool mounts elsewhere, for networks above all, is seen by the machine. Empty for a volume in another one:
    it is mounted there already, because the tool would follow links in it."""
    os.makedirs(STAGING, exist_ok=True)
    staging = os.path.realpath(STAGING)
    namespaces.unshare(namespaces.CLONE_NEWNS)
    mounts.make_private_around(staging)
    handles = [mounts.copy_mounts(open_volume(each, view["volumes"])) for each in given]
    mounts.mount("tmpfs", staging, "tmpfs", mounts.MS_NOSUID | mounts.MS_NODEV, "mode=755,size=1m")
    outermost = {
        each["target"]: f"{staging}/{number}" for number, each in enumerate(given) if not _outside(each, given)
    }
    places = []
    for each in given:
        around = _outside(each, given)
        inner = each["target"].removeprefix(around)
        places.append({**each, "target": outermost[around] + inner if around else outermost[each["target"]]})
    who: dict[str, Any] = {"user": view["user"], "groups": view.get("groups", ())}
    try:
        mounts.bind_all(places, handles, staging, inside_user_namespace=False, is_isolated=True, **who)
    except OSError as error:
        words = str(error.strerror)
        for target, place in outermost.items():
            words = words.replace(f"{place}/", f"{target}/")
        raise CannotRun(NOT_EXECUTABLE, words) from None
    return [outermost.get(each["target"], "") for each in given]


def _outside(each: Mapping[str, Any], given: Sequence[Mapping[str, Any]]) -> str:
    """The target of the outermost volume that this one is mounted in; empty: it is in none."""
    return min((other["target"] for other in given if each["target"].startswith(f"{other['target']}/")), default="")


def _checked(given: Sequence[Mapping[str, Any]], view: Mapping[str, Any]) -> list[str]:
    """Paths for a daemon, which opens them itself: no other user than root can exchange a part of one. They contain no
    links, so that the daemon finds what was checked; and as it follows links to a mount point, none is in a volume.
    What is made for this pod, such as its /tmp, has no links yet."""
    found, volumes = [], [each for each in given if not each.get("is_made")]
    for each in given:
        handle = open_volume(each, view["volumes"])
        real = os.readlink(f"/proc/self/fd/{handle}")
        os.close(handle)
        if each.get("is_judged"):
            _refuse_exchangeable(real)
        if around := _outside(each, volumes):
            what = f"{each['target']} is in the volume at {around}, which the container runtime cannot do safely"
            raise CannotRun(NOT_EXECUTABLE, f"{what}: mount it at a path outside")
        found.append(real)
    return found


def _refuse_exchangeable(path: str) -> None:
    part = path
    while part != "/":
        above = os.path.dirname(part)
        about = os.stat(above)
        # In a directory like /tmp, all users may add names, but only their owners replace them.
        is_kept = about.st_mode & stat.S_ISVTX and os.lstat(part).st_uid == 0
        if about.st_uid != 0 or (about.st_mode & 0o022 and not is_kept):
            what = f"{path} cannot be mounted into a container here: users can replace it, as {above} is theirs"
            raise SourceRefused("volume.exchangeable", what)
        part = above


# --- the commands


def _create(launch: Mapping[str, Any], more: Sequence[str]) -> None:
    container, first = launch["container"], launch["argv"][0]
    environment = os.memfd_create("environment", 0)  # inherited by the tool, on no disk and in no process list
    try:
        rows = "".join(_row(name, value) for name, value in launch["env"].items())
        with os.fdopen(os.dup(environment), "wb") as file:
            file.write(rows.encode(errors="surrogateescape"))
        os.lseek(environment, 0, os.SEEK_SET)
        options = [*container["create"], f"--env-file=/proc/self/fd/{environment}", *more]
        if container["pid_option"]:
            options.append(f"{container['pid_option']}={os.path.abspath(PID_FILE)}")
        program = [f"--entrypoint={first}", container["image"], *launch["argv"][1:]]
        code, words = _run(container, (*options, *program), CREATE_S, launch["pod_uuid"])
    finally:
        os.close(environment)
    if code != 0:
        raise CannotRun(NOT_EXECUTABLE, words or f"{container['tool']} create failed with code {code}")


def _row(name: str, value: str) -> str:
    if "\n" in value or "\r" in value:  # of a secret, which was not known before
        raise CannotRun(NOT_EXECUTABLE, f"the value of {name} has several lines: mount it as a file instead")
    return f"{name}={value}\n"


def _start_on_pipes(launch: Mapping[str, Any], argv: list[str], env: dict[str, str]) -> tuple[int, int, int]:
    reader, stdin = make_input(launch)
    os.mkfifo(OUTPUT, 0o600)
    inside, output = open_output(OUTPUT)
    try:
        return _spawn(argv, env, reader, inside), output, stdin
    finally:
        os.close(inside)
        os.close(reader)


def _start_on_terminal(argv: list[str], env: dict[str, str]) -> tuple[int, int, int]:
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, TERMINAL_SIZE)

    def start() -> None:
        os.setsid()
        become(argv, env, "/", (slave, slave, slave), is_terminal=True)

    client = forked(start)
    os.close(slave)
    os.set_blocking(master, False)
    return client, master, os.dup(master)


def _spawn(argv: list[str], env: dict[str, str], stdin: int, output: int) -> int:
    try:
        return os.posix_spawn(
            argv[0],
            argv,
            env,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=RESTORED_SIGNALS,
        )
    except OSError as error:
        raise CannotRun(NOT_EXECUTABLE, f"{argv[0]}: {error.strerror}") from None
    except ValueError as error:  # a zero byte in an argument
        raise CannotRun(NOT_EXECUTABLE, str(error)) from None


def _run(
    container: Mapping[str, Any], arguments: Sequence[str], timeout_s: float, pod_uuid: str = ""
) -> tuple[int, str]:
    """Run the tool to its end; its exit code and the end of its output."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        env = {**container["environment"], **({POD_UUID: pod_uuid} if pod_uuid else {})}
        os.set_blocking(writer, True)
        pid = _spawn([container["tool"], *arguments], env, null, writer)
        words = _wait(pid, reader, timeout_s)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status), words
    finally:
        for fd in (reader, writer, null):
            os.close(fd)


def _wait(pid: int, reader: int, timeout_s: float) -> str:
    """Until it ends, or is killed after the timeout; the end of its output."""
    until, text = time.monotonic() + timeout_s, b""
    handle = os.pidfd_open(pid)
    try:
        is_over = False
        while not is_over:
            left = until - time.monotonic()
            ready = select.select([handle, reader], [], [], max(0.0, left))[0]
            is_over = handle in ready or not ready
            if not ready:
                os.kill(pid, signal.SIGKILL)
            text = (text + _read(reader))[-WORDS_MAX:]
    finally:
        os.close(handle)
    return text.decode(errors="replace").strip()


def _read(fd: int) -> bytes:
    text = b""
    try:
        while part := os.read(fd, 65536):
            text = (text + part)[-WORDS_MAX:]
    except OSError:  # nothing more just now
        pass
    return text


def _words(output: int) -> str:
    return _read(output).decode(errors="replace").strip().removeprefix("Error: ")


def _wait_until_running(container: Mapping[str, Any], client: int, pod_uuid: str) -> int:
    """The first process of the container, as the machine numbers it; 0: it has ended or never began."""
    while True:
        is_over = _has_ended(client)
        main = _pid_in_file() if container["pid_option"] else _pid_by_inspect(container)
        # It is created before it is started, and has its environment from then on.
        if main and process_table.pod_uuid_of(main) == pod_uuid:
            return main
        if is_over:
            return 0
        time.sleep(LOOK_S if container["pid_option"] else LOOK_S * 10)


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _pid_in_file() -> int:
    try:
        with open(PID_FILE, encoding="ascii") as file:
            text = file.read(20).strip()
    except (OSError, ValueError):
        return 0
    return int(text) if text.isdigit() else 0


def _pid_by_inspect(container: Mapping[str, Any]) -> int:
    code, words = _run(container, ("inspect", "--format", "{{.State.Pid}}", container["name"]), INSPECT_S)
    return int(words) if code == 0 and words.isdigit() else 0


def _namespace(main: int) -> int:
    """Of processes; 0 if the container has ended. Never our own: everything in it is the pod's, and will be killed."""
    try:
        inode = os.stat(f"/proc/{main}/ns/pid").st_ino if main else 0
    except OSError:
        return 0
    return inode if inode != os.stat("/proc/self/ns/pid").st_ino else 0
