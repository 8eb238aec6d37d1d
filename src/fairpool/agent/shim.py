"""The shim of one pod: starts its program, writes down its output and its end, stops it when told, outlives everyone.

It is forked from the fork server into the folder of one life and holds the pod alone: when every other part of Fairpool
is dead the program runs on, its log is written, its grace runs out and its exit status is kept. Whoever comes later
reads the folder:

    order.json      what was ordered and how it is launched; written before anything else
    shim.N        a link to `pid.start-time.inode` of the Nth shim and of this folder, which a copy has not;
                    making it is the claim, so a life starts once
    main.P.T.S      pid, start time and since when of the program: a second name of the claim, given when it really runs
    stop.json       it is to end; also a tombstone: who finds it before the start does not start
    ns              a link to the number of the pod's own process table, where it has one
    exit.json       how it ended, written last
    log.*, times.*  its output, once there is some; `output` is the pipe it comes through
    door            where visitors knock; made when one asks for it, or at once for who has a keyboard

As a subreaper the shim inherits whatever daemonises below it: nobody is left when it has no children left.
A pod whose shim was killed gets another, an heir, which finds what is left of it and cannot know how it ended.
Imports next to nothing, because every shim is a copy of this memory.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from contextlib import suppress
from functools import partial

from fairpool.agent import hints, main_process, namespaces, notice, process_table
from fairpool.agent.cgroup import Group
from fairpool.agent.durable import ORDER_MAX, read_regular, sync_file, write_durably
from fairpool.agent.exec_server import KNOCK, Door
from fairpool.agent.log_segments import LogWriter
from fairpool.agent.pod_init import end_told
from fairpool.agent.program import NAMESPACE, NOT_EXECUTABLE, CannotRun, Started, start_program

TYPE_CHECKING = False
if TYPE_CHECKING:  # its own word for it is in `typing`, which would be a tenth of every shim's memory
    from typing import Any, NoReturn

UNKNOWN_END = 137
"""What is reported for a program nobody saw end. Not zero, so that it is never taken for success."""

NEVER_STARTED = 128 + signal.SIGTERM
STOP_UNASKED_REASON = "its supervising process was terminated"
LOOK_S, LOOK_AGAIN_S = 0.1, 2.0
"""An heir looks through the process table: when nobody was found, and while there is somebody, who is watched."""
FOLLOWED_MAX = 64
"""Processes whose end an heir is told of; of more, it looks."""
CHUNK_BYTES = 65536
REHEARSALS = 12
"""After about ten times the interpreter has adapted its instructions."""
RETRY_S = 1.0
PATIENCE_MAX_MS = 3_600_000


def keep(folder: str, generation: int, launch: dict[str, Any] | None) -> NoReturn:
    """Be the shim of the life in this folder; called in a fresh process, which it ends.

    The launch was read before, for many lives at a time: what is done after the fork costs each shim copies of all
    memory that it touches, if only to count a reference.
    """
    launch = launch or _unknown_launch()
    try:
        os.setsid()
        os.chdir(folder)
        if generation > 0 and _is_kept(generation - 1):
            os._exit(0)
        _claim(generation)
    except OSError:
        os._exit(0)  # somebody else keeps it, or it was forgotten meanwhile
    try:
        namespaces.set_process_name(f"fp:{launch['pod']}")
        namespaces.become_subreaper()
        Shim(generation, launch).run()
    except BaseException:
        _say_why()
        os._exit(1)
    os._exit(0)


def _say_why() -> None:
    """For whoever looks for what killed a shim. What that takes is loaded now: nobody else needs it."""
    with suppress(Exception), open("shim.err", "a", encoding="utf-8") as file:
        import traceback

        traceback.print_exc(file=file)


def rehearse(folder: str) -> None:
    """Keep lives of a program that does nothing, in the fork server itself, before shims are forked from it.

    What the interpreter makes when code first runs (caches, instructions for the types it has met) is then in memory
    that all of them share. Otherwise each makes it for itself, in copies of 80 more pages: a fifth of all it touches.
    """
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    launch = {**_unknown_launch(), "argv": ["true"], "env": {"PATH": os.defpath}}
    for _ in range(REHEARSALS):
        for name in os.listdir("."):
            os.unlink(name)
        _claim(0)
        Shim(0, launch).rehearse()


def _claim(generation: int) -> None:
    own = f"{os.getpid()}.{process_table.start_time(os.getpid())}.{os.stat('.').st_ino}"
    os.symlink(own, f"shim.{generation}")


def prepare_signals() -> None:
    """Done once in the fork server, for all shims: there is no moment in which a stop would kill one.

    A stop that comes before a shim listens is not lost either: its notice is written before it is sent, and the
    shim looks for one after it has begun to listen.
    """
    for unwanted in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR2):
        signal.signal(unwanted, signal.SIG_IGN)
    for wanted in (signal.SIGTERM, signal.SIGCHLD, KNOCK):
        signal.signal(wanted, _awake)


def _is_kept(generation: int) -> bool:
    try:
        pid, started, *_ = map(int, os.readlink(f"shim.{generation}").split("."))
    except FileNotFoundError:
        raise
    except (OSError, ValueError):  # somebody has put something else there
        return False
    return process_table.is_alive(pid, started)


class Shim:
    """One pod from start to end."""

    def __init__(self, generation: int, launch: dict[str, Any]) -> None:
        self._launch = launch
        self._generation, self._is_heir = generation, generation > 0
        self._main = 0
        self._line: socket.socket | None = None
        """On which the first process of an isolated pod says how its program ended."""
        self._is_isolated = bool(launch.get("view"))
        self._main_ended = False
        self._status: int | None = None
        self._stop_reason: str | None = None
        self._kill_at: float | None = None
        self._family: dict[int, int] = {}
        """What an heir found of the pod: processes and when each began."""
        self._followed: dict[int, int] = {}
        self._emptied, self._look_at = 0, 0.0
        self._unsaid = ""
        """Which process the program is, until that could be written down."""
        limits = self._launch["limits"]
        self._group = Group(limits["limiter"], limits["name"]) if limits else None

    def run(self) -> None:
        self._prepare()
        if self._is_heir:
            self._take_over()
        elif not self._launch["argv"]:
            self._finish(NOT_EXECUTABLE, "ContainerCannotRun: order.json is damaged and cannot be read")
            return
        elif os.access("stop.json", os.F_OK):  # which costs no exception if it is not there
            self._stop_reason = ""
            self._finish(NEVER_STARTED, "stopped before it started")
            return
        else:
            try:
                self._start()
            except CannotRun as error:
                self._group_away()
                self._finish(error.code, f"ContainerCannotRun: {error.words}")
                return
        self._watch()
        self._end_the_rest()
        self._drain()
        self._finish(*self._verdict())

    def rehearse(self) -> None:
        """The same, except that nothing is said at the end, and that nothing of it is left."""
        self._prepare()
        self._start()
        self._watch()
        self._end_the_rest()
        self._drain()
        self._door.close()
        signal.set_wakeup_fd(-1)
        for fd in (self._wake, self._waker, self._output):
            os.close(fd)

    # -- the start

    def _prepare(self) -> None:
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        rotation = self._launch["log"]
        self._log = LogWriter(".", rotation["segment_bytes"], rotation["segments"])
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._output = -1
        self._door = Door(self._poll, self._launch, self._group)

    def _start(self) -> None:
        if self._launch["words"]:
            self._log.write(f"fairpool: {self._launch['words']}\n".encode(), _now_ms())
        try:
            started: Started = start_program(self._launch, self._group)
        except OSError as error:  # a file system without pipes, a machine without memory
            raise CannotRun(NOT_EXECUTABLE, str(error)) from None
        self._main, self._line = started.pid, started.line
        self._listen_to(started.output)
        # One that has ended already has no start time any more; then 0, which is nobody's.
        self._unsaid = f"{self._main}.{process_table.start_time(self._main) or 0}.{_now_ms()}"
        self._door.furnish(main=self._main, keyboard=started.keyboard, is_terminal=bool(self._launch["tty"]))
        self._say_that_it_runs()

    def _say_that_it_runs(self) -> None:
        """Once; on a full disk as soon as there is room. The program runs in any case, and must not be left alone."""
        try:
            main_process.say(self._unsaid, f"shim.{self._generation}")
        except FileExistsError:
            pass
        except OSError:
            return
        self._unsaid = ""
        hints.give(self._launch["pod"])

    def _take_over(self) -> None:
        """Go on where a killed shim left off. A terminal is lost with it; the pipe for output is not."""
        main = main_process.said(".")
        if main is not None and process_table.is_alive(main[0], main[1]):
            self._main, self._family = main[0], {main[0]: main[1]}
            self._launch["mark"] = self._launch["mark"] or process_table.mark_of(main[0]) or ""
            self._is_isolated = os.path.lexists(NAMESPACE)
            if self._is_isolated:
                with suppress(OSError):  # then nobody can visit it
                    namespaces.join_process_table(self._main)
        with suppress(OSError):
            self._listen_to(os.open("output", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        self._door.furnish(main=self._main, keyboard=-1, is_terminal=False)
        if notice.is_given("."):
            self._begin_stop()

    def _listen_to(self, output: int) -> None:
        self._output = output
        self._poll.register(output, select.POLLIN)

    # -- the middle

    def _watch(self) -> None:
        """Until the program has ended, or for an heir until no process of the pod is left."""
        while not self._main_ended:
            for fd, events in self._poll.poll(self._patience_ms()):
                if fd == self._wake:
                    self._hear_signals()
                elif fd == self._output:
                    self._copy_output()
                elif fd in self._followed:
                    self._unfollow(fd)
                else:
                    self._door.serve(fd, events)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._main_ended = True
            if self._is_heir and time.monotonic() >= self._look_at:
                self._look_for_family()
            if self._unsaid:
                self._say_that_it_runs()

    def _patience_ms(self) -> int | None:
        look_at = self._look_at if self._is_heir else None
        say_at = time.monotonic() + RETRY_S if self._unsaid else None
        until = [at for at in (self._kill_at, look_at, say_at) if at is not None]
        # At most so long: the kernel takes no more than 24 days, and to look once in vain costs nothing.
        return max(0, min(int((min(until) - time.monotonic()) * 1000) + 1, PATIENCE_MAX_MS)) if until else None

    def _hear_signals(self) -> None:
        heard = os.read(self._wake, 4096)
        self._reap()
        if signal.SIGTERM in heard:
            self._begin_stop()
        if KNOCK in heard:
            self._door.open()

    def _reap(self) -> bool:
        """Collect whoever has ended; False when nobody is left below this process."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._main:
                self._main_ended, self._status = True, end_told(self._line, status)
            else:
                self._door.visitor_ended(pid, os.waitstatus_to_exitcode(status))

    def _begin_stop(self) -> None:
        """Give notice once; the grace runs from now, whoever else may die. Told again, it can only become shorter."""
        grace_s, reason = self._notice()
        kill_at = time.monotonic() + grace_s
        self._kill_at = kill_at if self._kill_at is None else min(kill_at, self._kill_at)
        if self._stop_reason is not None:
            return
        self._stop_reason = reason
        if grace_s <= 0:
            return
        if not self._is_heir and not self._main_ended:  # afterwards its number may be somebody else's
            _send(self._main, signal.SIGTERM)
        family = self._find_family() if self._is_heir else {}
        if self._is_isolated and self._main in family:
            family = {self._main: family[self._main]}  # which passes it on to the program
        for pid, started in family.items():
            process_table.send(pid, signal.SIGTERM, only_if=partial(process_table.is_alive, started=started))

    def _notice(self) -> tuple[float, str]:
        """What is left of the grace, and why; without anything readable, the grace it was ordered with."""
        told = notice.read(".")
        if told is not None:
            return told.left_s, told.reason
        return notice.bounded(float(self._launch["grace_s"])), STOP_UNASKED_REASON

    def _copy_output(self) -> bool:
        try:
            data = os.read(self._output, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # a terminal says so when its last user has gone
            data = b""
        if not data:
            self._poll.unregister(self._output)
            os.close(self._output)
            self._output = -1
            return False
        self._log.write(data, _now_ms())
        self._door.show(data)
        return True

    # -- the end

    def _end_the_rest(self) -> None:
        """Kill until nobody is left, however fast they fork: orphans come to us, so no children means no processes."""
        if self._is_isolated and not self._is_heir and self._status is None:
            _send(self._main, signal.SIGKILL)  # all that is in the pod's process table goes with it
        while self._reap():
            below = process_table.descendants(os.getpid())
            for each in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, or a fork could slip past
                for pid in below:
                    process_table.send(pid, each, only_if=_is_below_us)
            if below:
                self._wait_a_little()
        while self._is_heir and (left := self._find_family()):
            process_table.end_family(left)
            self._wait_a_little()
        self._group_away()

    def _wait_a_little(self) -> None:
        """Until a child ends, and keep the pipe from filling meanwhile."""
        if select.select([self._wake], [], [], 0.01)[0]:
            os.read(self._wake, 4096)

    def _drain(self) -> None:
        while self._output >= 0 and self._copy_output():
            pass
        self._log.close()

    def _group_away(self) -> None:
        if self._group is not None:
            self._memory_kills = self._group.memory_kills()
            self._group.remove()
            self._group = None

    _memory_kills = 0

    def _verdict(self) -> tuple[int, str]:
        """The exit code and what there is to say about it."""
        if self._is_heir:
            return UNKNOWN_END, "its supervising process was killed, so its exit code is not known"
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
        """Write the end down so that a power cut cannot undo it; a full disk is waited for."""
        self._door.close()
        # One that was stopped, and whose pod was killed from outside when its grace was over, has not heard of it.
        noticed = self._stop_reason is not None or (code == UNKNOWN_END and notice.is_given("."))
        text = json.dumps({"code": code, "words": words, "at": _now_ms(), "after_notice": noticed}).encode()
        while True:
            try:
                write_end(text)
                break
            except FileNotFoundError:
                break  # somebody removed the folder: there is nobody left to tell
            except OSError:
                time.sleep(RETRY_S)
        hints.give(self._launch["pod"])

    # -- an heir's eyes

    def _look_for_family(self) -> None:
        left = self._find_family()
        for pid, started in left.items():
            self._follow(pid, started)
        # Twice in a row: between a fork and its exec a process does not carry the mark yet.
        self._emptied = 0 if left else self._emptied + 1
        self._look_at = time.monotonic() + (LOOK_AGAIN_S if left else LOOK_S)
        if self._emptied >= 2:
            self._main_ended = True

    def _find_family(self) -> dict[int, int]:
        known = dict(self._family)
        for pid in self._group.members() if self._group is not None else ():
            known[pid] = process_table.start_time(pid) or 0
        self._family = process_table.family(self._launch["mark"], known, main_process.namespace("."))
        return self._family

    def _follow(self, pid: int, started: int) -> None:
        """Be told when a process ends, so that nobody has to look for it often."""
        if pid in self._followed.values() or len(self._followed) >= FOLLOWED_MAX:
            return
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return
        if not process_table.is_alive(pid, started):
            os.close(handle)
            return
        self._followed[handle] = pid
        self._poll.register(handle, select.POLLIN)

    def _unfollow(self, handle: int) -> None:
        self._poll.unregister(handle)
        os.close(handle)
        del self._followed[handle]
        if not self._followed:
            self._look_at = 0.0


def write_end(text: bytes) -> None:
    """In the current folder; its order first, which tells whose end it is, and which no start has waited for."""
    with suppress(OSError):
        sync_file("order.json")
    write_durably("exit.json", text)


def read_launch(folder: str) -> dict[str, Any] | None:
    """What to do; None if nobody can tell any more."""
    try:
        launch = json.loads(_read(f"{folder}/order.json"))["launch"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return launch if isinstance(launch, dict) else None


def _unknown_launch() -> dict[str, Any]:
    """What an heir needs to look after a program whose order was damaged; nothing is started by it."""
    rotation = {"segment_bytes": 16 << 20, "segments": 3}
    known = {"pod": "", "mark": "", "argv": [], "env": {}, "cwd": "/", "grace_s": 0, "words": "", "log": rotation}
    return {**known, "tty": False, "stdin": False, "host_name": "", "mounts": [], "limits": None, "view": None}


def _is_below_us(pid: int) -> bool:
    return os.getpid() in process_table.ancestors(pid)


def _awake(_number: int, _frame: object) -> None:
    """Exists so that the signal interrupts waiting; which one it was is read from the wake pipe."""


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


def _read(name: str) -> str:
    return read_regular(name, ORDER_MAX).decode()
