"""The shim of one pod: starts its program, writes its output and its exit record, and stops it.

It is forked from the fork server into the pod directory and depends on no other part of Fairpool: when all of them are
dead the program runs on, its log is written, its grace period ends and its exit status is recorded. A later server
reads the directory:

    order.json      the start order and how it is launched; written before anything else. Its last line is `exit.json`
    shim.N          a link to `pid.start-time.inode` of the Nth shim and of this directory, which a copy has not;
                    creating it is the claim, so a pod starts once
    main.P.T.S.N    pid, start time and since when of the program, and the inode of its PID namespace, or 0: a hard link
                    to the claim, made when it really runs
    stop.json       the stop notice; a shim that finds it before the start does not start
    exit.json       how it ended, written last; a second name of `order.json`
    log.*, times.*  its output, once there is some; `output` is the pipe it comes through, if it is not isolated
    exec.sock       for exec and attach; opened on request, or at once for a pod with stdin
    traffic         what a pod with a network of its own has received and sent through its relay

As a subreaper the shim inherits what daemonizes below it: without children, no process of the pod is left. A pod whose
shim was killed gets a replacement, which finds what is left of it and cannot know how it ended. Imports next to
nothing, because every shim is a copy of this memory.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from functools import partial

from fairpool.agent import exit_record, hints, main_process, namespaces, process_attributes, process_table, stop_notice
from fairpool.agent.cgroup import Cgroup
from fairpool.agent.container_program import container_status, ended_as, remove_container, start_container
from fairpool.agent.exec_server import OPEN_SIGNAL, ExecServer
from fairpool.agent.exit_record import UNKNOWN_EXIT_CODE, ExitRecord
from fairpool.agent.git_clone import CloneProcess
from fairpool.agent.log_segments import LogWriter
from fairpool.agent.pod_init import KEPT_OUTPUT, RECORDED, program_status
from fairpool.agent.pod_network import PodNetwork
from fairpool.agent.process_follower import ProcessFollower
from fairpool.agent.program import NOT_EXECUTABLE, OUTPUT, CannotRun, Started, reopen_output, start_program
from fairpool.agent.shim_launch import remove_secrets, unknown_launch, with_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` to know this would be a tenth of every shim's memory
    from typing import Any, NoReturn

NEVER_STARTED = 128 + signal.SIGTERM
STOPPED_WITHOUT_NOTICE = "its supervising process was terminated"
CHUNK_BYTES = 65536
WARM_UP_RUNS = 12
"""After about ten the interpreter has adapted its instructions."""
RETRY_S = 1.0
TIMEOUT_MAX_MS = 3_600_000


def run_shim(directory: str, generation: int, launch: dict[str, Any] | None) -> NoReturn:
    """Be the shim of the pod in this directory; called in a fresh process, which it ends.

    The launch was read before the fork, for many pods at a time: what is done after it costs each shim copies of all
    memory that it touches, if only to count a reference.
    """
    launch = launch or unknown_launch()
    try:
        os.setsid()
        os.chdir(directory)
        if generation > 0 and _is_alive(generation - 1):
            os._exit(0)
        _claim(generation)
    except OSError:
        os._exit(0)  # another shim has claimed it, or it was forgotten meanwhile
    try:
        process_attributes.set_process_name(f"fp:{launch['pod']}")
        process_attributes.become_subreaper()
        Shim(generation, with_secrets(launch)).run()
    except BaseException:
        _write_traceback()
        os._exit(1)
    os._exit(0)


def _write_traceback() -> None:
    with suppress(Exception), open("shim.err", "a", encoding="utf-8") as file:
        import traceback  # only a shim that fails needs it

        traceback.print_exc(file=file)


def warm_up(directory: str) -> None:
    """Run shims of a program that does nothing in the fork server itself, before shims are forked from it.

    What the interpreter creates when code first runs (caches, specialized instructions) is then in memory that all
    shims share. Otherwise each creates it for itself, in copies of 80 more pages: a fifth of all it touches.
    """
    os.makedirs(directory, exist_ok=True)
    os.chdir(directory)
    launch = {**unknown_launch(), "argv": ["true"], "env": {"PATH": os.defpath}}
    for _ in range(WARM_UP_RUNS):
        for name in os.listdir("."):
            os.unlink(name)
        _claim(0)
        Shim(0, launch).warm_up()


def _claim(generation: int) -> None:
    own = f"{os.getpid()}.{process_table.start_time(os.getpid())}.{os.stat('.').st_ino}"
    os.symlink(own, f"shim.{generation}")


def prepare_signals() -> None:
    """Called once in the fork server, for all shims: at no moment would a stop signal kill one.

    A signal that comes before a shim listens is not lost either: the stop notice is written before the signal is sent,
    and the shim reads it after it has begun to listen.
    """
    for unwanted in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR2):
        signal.signal(unwanted, signal.SIG_IGN)
    for wanted in (signal.SIGTERM, signal.SIGCHLD, OPEN_SIGNAL):
        signal.signal(wanted, _wake)


def _is_alive(generation: int) -> bool:
    try:
        pid, started, *_ = map(int, os.readlink(f"shim.{generation}").split("."))
    except FileNotFoundError:
        raise
    except (OSError, ValueError):  # not written by a shim
        return False
    return process_table.is_alive(pid, started)


class Shim:
    """One pod from start to end."""

    def __init__(self, generation: int, launch: dict[str, Any]) -> None:
        self._launch = launch
        self._generation, self._is_replacement = generation, generation > 0
        self._main = 0
        self._init_socket: socket.socket | None = None
        """On which the first process of an isolated pod reports how its program ended."""
        self._is_isolated = bool(launch.get("view"))
        self._is_container = bool(launch.get("container"))
        self._first = (0, 0)
        """The first process of a container, which is no child of ours, and when it began."""
        self._main_ended = False
        self._status: int | None = None
        self._stop_reason: str | None = None
        self._kill_at: float | None = None
        self._unrecorded_main = ""
        """The numbers of the program's process, until they could be recorded."""
        self._memory_kills = 0
        limits = self._launch["limits"]
        self._group = Cgroup(limits["limiter"], limits["name"]) if limits else None

    def run(self) -> None:
        self._prepare()
        if self._is_replacement:
            self._take_over()
        elif not self._launch["argv"]:
            self._finish(NOT_EXECUTABLE, "ContainerCannotRun: order.json is damaged and cannot be read")
            return
        elif self._launch.get("secrets_error"):
            self._finish(NOT_EXECUTABLE, f"ContainerCannotRun: {self._launch['secrets_error']}")
            return
        elif os.access("stop.json", os.F_OK):  # which raises nothing inside if it is not there
            self._stop_reason = ""
            self._finish(NEVER_STARTED, "stopped before it started")
            return
        else:
            try:
                if not self._clone_volumes():
                    self._kill_remaining()
                    self._finish(NEVER_STARTED, "stopped before it started")
                    return
                self._start()
            except CannotRun as error:
                self._remove_group()
                self._finish(error.code, f"ContainerCannotRun: {error.words}")
                return
        self._watch()
        self._kill_remaining()
        self._drain()
        self._finish(*self._exit_status())

    def warm_up(self) -> None:
        """The same, except that nothing is recorded at the end, and that nothing of it is left."""
        self._prepare()
        self._start()
        self._watch()
        self._kill_remaining()
        self._drain()
        self._exec_server.close()
        signal.set_wakeup_fd(-1)
        for fd in (self._wake, self._waker, self._output):
            os.close(fd)

    # -- start

    def _prepare(self) -> None:
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        rotation = self._launch["log"]
        self._log = LogWriter(".", rotation["segment_bytes"], rotation["segments"])
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._output = -1
        self._exec_server = ExecServer(self._poll, self._launch, self._group)
        self._follower = ProcessFollower(self._poll, self._launch["pod_uuid"], self._group)

    def _clone_volumes(self) -> bool:
        """Clone the repositories that are mounted as volumes, one after the other; False: the pod was stopped."""
        for plan in self._launch["clones"]:
            self._log.write(f"fairpool: cloning {plan['repository']} for {plan['target']}\n".encode(), _now_ms())
            clone = CloneProcess(plan, self._launch["limits"], self._group)
            while select.select([clone.fileno(), self._wake], [], [])[0][0] != clone.fileno():
                if signal.SIGTERM in os.read(self._wake, 4096):
                    clone.cancel()
                    self._stop_reason = self._read_notice()[1]
                    return False
            is_cloned, words = clone.result()
            if not is_cloned:
                raise CannotRun(NOT_EXECUTABLE, f"cannot clone {plan['repository']}: {words}")
            self._log.write(f"fairpool: {plan['target']} is at {words}\n".encode(), _now_ms())
        return True

    def _start(self) -> None:
        if self._launch["words"]:
            self._log.write(f"fairpool: {self._launch['words']}\n".encode(), _now_ms())
        try:
            started: Started = (
                start_container(self._launch) if self._is_container else start_program(self._launch, self._group)
            )
        except OSError as error:  # a file system without pipes, a machine without memory
            raise CannotRun(NOT_EXECUTABLE, str(error)) from None
        self._main, self._init_socket = started.pid, started.init_socket
        self._read_output_from(started.output)
        # One that has ended already has no start time any more; 0 is that of no process.
        began = process_table.start_time(started.main) or 0
        self._first = (started.main, began)
        self._unrecorded_main = f"{started.main}.{began}.{_now_ms()}.{started.namespace}"
        self._exec_server.set_program(main=started.main, stdin=started.stdin, is_terminal=bool(self._launch["tty"]))
        self._record_main()

    def _record_main(self) -> None:
        """Once; on a full disk as soon as there is room. The program runs in any case, and needs its shim: one that is
        isolated ends with it until it is recorded."""
        try:
            main_process.record(self._unrecorded_main, f"shim.{self._generation}")
        except FileExistsError:
            pass
        except OSError:
            return
        self._unrecorded_main = ""
        if self._init_socket is not None:
            with suppress(OSError):  # it has ended already
                self._init_socket.send(RECORDED)
        hints.send(self._launch["pod"])

    def _take_over(self) -> None:
        """Continue where a killed shim stopped. A terminal is lost with it; the pipe for output is not."""
        main = main_process.recorded(".")
        if main is not None and process_table.is_alive(main[0], main[1]):
            self._main, self._first = main[0], main[:2]
            self._follower.add(main[0], main[1])
            self._follower.pod_uuid = self._follower.pod_uuid or process_table.pod_uuid_of(main[0]) or ""
            self._is_isolated = main[3] > 0
            if self._is_isolated:
                with suppress(OSError):  # then exec is not possible
                    self._join_namespaces()
        # An earlier version had a named pipe for isolated pods too.
        pipe = f"/proc/{self._main}/fd/{KEPT_OUTPUT}" if self._is_isolated and not os.path.lexists(OUTPUT) else OUTPUT
        with suppress(OSError):
            self._read_output_from(reopen_output(pipe))
        self._exec_server.set_program(main=self._main, stdin=-1, is_terminal=False)
        if stop_notice.exists("."):
            self._begin_stop()

    def _join_namespaces(self) -> None:
        network = PodNetwork() if self._launch.get("network") else None  # the relay of the killed shim ended with it
        if not self._is_container:
            namespaces.join_pid_namespace(self._main, own_network=network is not None)
        elif network is not None:
            namespaces.join_network(self._main)
        if network is not None:
            network.serve()

    def _read_output_from(self, output: int) -> None:
        self._output = output
        self._poll.register(output, select.POLLIN)

    # -- while it runs

    def _watch(self) -> None:
        """Until the program has ended, or for a replacement until no process of the pod is left."""
        while not self._main_ended:
            for fd, events in self._poll.poll(self._timeout_ms()):
                if fd == self._wake:
                    self._handle_signals()
                elif fd == self._output:
                    self._copy_output()
                elif not self._follower.handles(fd):
                    self._exec_server.serve(fd, events)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._main_ended = True
            if self._is_replacement and time.monotonic() >= self._follower.check_at and self._follower.are_gone():
                self._main_ended = True
            if self._unrecorded_main:
                self._record_main()

    def _timeout_ms(self) -> int | None:
        check_at = self._follower.check_at if self._is_replacement else None
        record_at = time.monotonic() + RETRY_S if self._unrecorded_main else None
        until = [at for at in (self._kill_at, check_at, record_at) if at is not None]
        # Bounded: the kernel takes no more than 24 days, and waking once in vain costs nothing.
        return max(0, min(int((min(until) - time.monotonic()) * 1000) + 1, TIMEOUT_MAX_MS)) if until else None

    def _handle_signals(self) -> None:
        received = os.read(self._wake, 4096)
        self._reap()
        if signal.SIGTERM in received:
            self._begin_stop()
        if OPEN_SIGNAL in received:
            self._exec_server.open()

    def _reap(self) -> bool:
        """Reap children that have ended; False when there are no children left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._main:
                own = container_status(status) if self._is_container else program_status(self._init_socket, status)
                self._main_ended, self._status = True, own
            else:
                self._exec_server.child_ended(pid, os.waitstatus_to_exitcode(status))

    def _begin_stop(self) -> None:
        """Send SIGTERM once; the grace period runs from now. A second notice can only shorten it."""
        grace_s, reason = self._read_notice()
        kill_at = time.monotonic() + grace_s
        self._kill_at = kill_at if self._kill_at is None else min(kill_at, self._kill_at)
        if self._stop_reason is not None:
            return
        self._stop_reason = reason
        if grace_s <= 0:
            return
        if self._is_container and not self._is_replacement:
            self._signal_first(signal.SIGTERM)
        elif not self._is_replacement and not self._main_ended:  # afterwards its pid may be another process's
            _send(self._main, signal.SIGTERM)
        processes = self._follower.find() if self._is_replacement else {}
        if self._is_isolated and self._main in processes:
            processes = {self._main: processes[self._main]}  # which passes it on to the program
        for pid, started in processes.items():
            process_table.send(pid, signal.SIGTERM, only_if=partial(process_table.is_alive, started=started))

    def _signal_first(self, number: int) -> None:
        """To the first process of a container, which passes it on to the program."""
        pid, started = self._first
        if not pid:  # it has not begun yet
            return
        process_table.send(pid, number, only_if=partial(process_table.is_alive, started=started))

    def _read_notice(self) -> tuple[float, str]:
        """What is left of the grace period, and the reason; without a readable notice, the grace of the start order."""
        notice = stop_notice.read(".")
        if notice is not None:
            return notice.remaining_s, notice.reason
        return stop_notice.bounded(float(self._launch["grace_s"])), STOPPED_WITHOUT_NOTICE

    def _copy_output(self) -> bool:
        try:
            data = os.read(self._output, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # a terminal raises this when its last user has closed it
            data = b""
        if not data:
            self._poll.unregister(self._output)
            os.close(self._output)
            self._output = -1
            return False
        self._log.write(data, _now_ms())
        self._exec_server.send_output(data)
        return True

    # -- end

    def _kill_remaining(self) -> None:
        """Kill until no process is left, however fast they fork: orphans become our children."""
        if self._is_container:
            self._end_container()
        if self._is_isolated and not self._is_replacement and self._status is None and self._main:
            _send(self._main, signal.SIGKILL)  # the kernel kills all else in the pod's PID namespace
        while self._reap():
            below = process_table.descendants(os.getpid())
            for each in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, or a fork could escape
                for pid in below:
                    process_table.send(pid, each, only_if=_is_descendant)
            if below:
                self._wait_a_little()
        while self._is_replacement and (left := self._follower.find()):
            process_table.kill_processes(left)
            self._wait_a_little()
        self._remove_group()

    def _end_container(self) -> None:
        """Kill what is in it, learn how it ended where the waiting command did not say, and remove it."""
        self._signal_first(signal.SIGKILL)
        is_unsure = self._status is None or os.WIFSIGNALED(self._status)
        if is_unsure and (self._is_replacement or self._stop_reason is None):
            code, is_over_limit = ended_as(self._launch)
            self._memory_kills += is_over_limit
            if code is not None and self._status is None:
                self._status = container_status(code << 8)
        remove_container(self._launch)

    def _wait_a_little(self) -> None:
        """Until a child ends, or 10 ms; keeps the pipe of signals from filling up."""
        if select.select([self._wake], [], [], 0.01)[0]:
            os.read(self._wake, 4096)

    def _drain(self) -> None:
        while self._output >= 0 and self._copy_output():
            pass
        self._log.close()

    def _remove_group(self) -> None:
        if self._group is not None:
            self._memory_kills += self._group.memory_kills()
            self._group.remove()
            self._group = None

    def _exit_status(self) -> tuple[int, str]:
        """The exit code and the reason."""
        if self._is_replacement and self._status is None:
            return UNKNOWN_EXIT_CODE, "its supervising process was killed, so its exit code is not known"
        reason = f"stopped: {self._stop_reason}" if self._stop_reason is not None else ""
        if self._status is None or os.WIFSIGNALED(self._status):
            number = signal.SIGKILL if self._status is None else os.WTERMSIG(self._status)
            if self._memory_kills and number == signal.SIGKILL:
                reason = "OOMKilled: it used more memory than its limit"
            elif self._stop_reason is not None and number == signal.SIGKILL:
                reason += ", and killed after its grace period"
            return 128 + number, reason or f"killed by {_signal_name(number)}"
        return os.WEXITSTATUS(self._status), reason

    def _finish(self, code: int, words: str) -> None:
        """Write the exit record so that a power cut cannot undo it; on a full disk, retry until there is room."""
        self._exec_server.close()
        if self._launch.get("secrets"):
            remove_secrets(self._launch["secrets"]["directory"])  # also when no server is there to do it
        # A shim that was stopped (SIGSTOP) while its pod was killed from outside has not handled the notice.
        noticed = self._stop_reason is not None or (code == UNKNOWN_EXIT_CODE and stop_notice.exists("."))
        record, at_ms = ExitRecord(code, words, noticed), _now_ms()
        while True:
            try:
                exit_record.write(".", record, at_ms)
                break
            except FileNotFoundError:
                break  # the directory was removed
            except OSError:
                time.sleep(RETRY_S)
        hints.send(self._launch["pod"])


def _is_descendant(pid: int) -> bool:
    return os.getpid() in process_table.ancestors(pid)


def _wake(_number: int, _frame: object) -> None:
    """Exists so that the signal interrupts waiting; which one it was is read from the wake-up pipe."""


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
