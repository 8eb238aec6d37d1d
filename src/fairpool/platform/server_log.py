"""The server's log: one line for each event, in rotated files or on standard error.

`2026-11-15T12:00:00.000Z info control MainThread  workload create  name=train id=… by=ada@example.com`: when, how
serious, which package, which thread, what, and then the fields as key=value. A caller logs a message and passes fields
as `extra={"fields": {...}}`. Lines are written by a thread of their own, because the event loop and the scheduling loop
must not wait for a disk; equal messages are limited per second, and dropped ones counted. Control characters are
escaped: names in the log come from users.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path

FILE_BYTES = 10 * 1024 * 1024
FILES = 5
FLUSH_S = 0.2
"""At most this much is lost when the process is killed; what is serious is written at once."""
LINES_A_SECOND = 100
"""Of one kind. A burst of thousands of submits is one line each in the audit log, which is where to look for all."""
WAITING_MAX = 20_000
LINE_MAX = 8192
VALUE_MAX = 512
QUIET = ("uvicorn.access", "uvicorn.error", "httpx2", "alembic", "asyncio")
"""They log every request; one of them with the command of every shell, which may contain secrets."""
NO_HANDSHAKE = "ASGI callable returned without completing handshake."
"""What uvicorn logs when a shell is refused, which is not an error."""
_BARE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:@+-,%")


class OneLine(logging.Formatter):
    """A record as one line; a traceback follows on the same line."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        room = record.name.removeprefix("fairpool.")
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        words = " | ".join(_printable(line) for line in text.splitlines() if line.strip())
        fields: Mapping[str, object] = getattr(record, "fields", None) or {}
        shown = "".join(f" {name}={_value(value)}" for name, value in fields.items() if value not in (None, ""))
        line = f"{words} {shown}" if shown else words
        head = f"{moment}.{int(record.msecs):03}Z {record.levelname.lower()} {room} {record.threadName}  "
        return f"{head}{line if len(line) <= LINE_MAX else f'{line[:LINE_MAX]}…'}"


def _value(value: object) -> str:
    """As it is if it is one word, else in quotes."""
    text = str(value)
    if len(text) > VALUE_MAX:
        text = f"{text[:VALUE_MAX]}…"
    if text and _BARE.issuperset(text):
        return text
    quoted = _printable(text.replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{quoted}"'


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


class LogFile(logging.handlers.RotatingFileHandler):
    """Takes records without waiting, and writes them in a thread of its own."""

    def __init__(self, path: Path, max_bytes: int = FILE_BYTES) -> None:
        super().__init__(path, maxBytes=max_bytes, backupCount=FILES - 1, encoding="utf-8", delay=True)
        self.setFormatter(OneLine())
        self._waiting: deque[logging.LogRecord] = deque(maxlen=WAITING_MAX)
        self._second, self._counts = 0, Counter[tuple[str, str]]()
        self._wake, self._is_closing = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def handle(self, record: logging.LogRecord) -> bool:
        """Without the lock that the library would take: a deque needs none."""
        if not self.filter(record):
            return False
        kind = (record.name, str(record.msg))
        if int(record.created) != self._second:
            self._begin_second(record)
        self._counts[kind] += 1
        if self._counts[kind] > LINES_A_SECOND and record.levelno < logging.ERROR:
            return False
        if record.args:
            record.msg, record.args = record.getMessage(), None  # what it names may change meanwhile
        self._waiting.append(record)
        if record.levelno >= logging.WARNING:
            self._wake.set()
        return True

    def _begin_second(self, record: logging.LogRecord) -> None:
        counts, self._counts, self._second = self._counts, Counter(), int(record.created)
        for (name, words), count in counts.items():
            if count > LINES_A_SECOND:
                left = logging.makeLogRecord({"name": name, "levelno": logging.INFO, "levelname": "INFO"})
                left.msg, left.fields = f"{words}: further lines dropped", {"left_out": count - LINES_A_SECOND}
                self._waiting.append(left)

    def flush(self) -> None:
        """Write what waits, now."""
        self.acquire()  # the library's own lock, which it holds when it closes us
        try:
            while self._waiting:
                super().emit(self._waiting.popleft())  # which ignores a full disk
            super().flush()
        finally:
            self.release()

    def close(self) -> None:
        self._is_closing = True
        self._wake.set()
        self.flush()
        super().close()

    def _run(self) -> None:
        while not self._is_closing:
            self._wake.wait(FLUSH_S)
            self._wake.clear()
            if self._waiting:
                self.flush()


class LogStderr(LogFile):
    """Writes to standard error, where container runtimes read the log of a program."""

    def __init__(self) -> None:
        super().__init__(Path("/dev/stderr"), max_bytes=0)

    def _open(self) -> TextIOWrapper:
        # Not by its name: the pipe behind /dev/stderr belongs to the runtime, and only root may open it again.
        return os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def open_log(path: Path, *, level: str = "info", to_stderr: bool = False) -> LogFile:
    """Send everything that is logged there."""
    handler = LogStderr() if to_stderr else LogFile(path)
    root = logging.getLogger()
    root.setLevel(level.upper())
    root.addHandler(handler)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(lambda record: record.getMessage() != NO_HANDSHAKE)
    logging.raiseExceptions = False  # a full disk must not fill the terminal as well
    logging.logProcesses = logging.logMultiprocessing = False  # neither is shown, and both cost time
    return handler
