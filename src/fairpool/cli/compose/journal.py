"""The server's log: one line for each thing that happened, in a file that does not grow for ever."""

from __future__ import annotations

import logging
import logging.handlers
import time
from pathlib import Path

FILE_BYTES = 10 * 1024 * 1024
FILES = 5
QUIET = ("uvicorn.access", "uvicorn.error", "httpx2", "alembic", "asyncio")
"""They speak of every call; one of them with the command of every shell, and what is typed there is nobody's."""
NO_HANDSHAKE = "ASGI callable returned without completing handshake."
"""The server's complaint when a shell is refused, which is no error."""


class OneLine(logging.Formatter):
    """`2026-11-15T12:00:00.000Z warning cluster loop  the disk is full`; traces of a bug follow on the same line."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        room = record.name.removeprefix("fairpool.")
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        words = " | ".join(line for line in text.splitlines() if line.strip())
        return f"{moment}.{int(record.msecs):03}Z {record.levelname.lower()} {room} {record.threadName}  {words}"


def open_journal(path: Path, *, level: int = logging.INFO) -> logging.Handler:
    """Send everything that is logged there."""
    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=FILE_BYTES, backupCount=FILES - 1, encoding="utf-8", delay=True
    )
    handler.setFormatter(OneLine())
    root = logging.getLogger()
    root.setLevel(level)
    root.addHandler(handler)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(lambda record: record.getMessage() != NO_HANDSHAKE)
    logging.raiseExceptions = False  # a full disk must not fill the terminal as well
    return handler
