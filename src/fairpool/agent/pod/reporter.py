"""Reports from inside a job: progress, metrics and parameters, shown beside the job.

    from fairpool_reporter import Reporter

    reporter = Reporter()
    reporter.reportMetric("epoch", 3)
    reporter.reportMetric("overall_epochs", 10)      # progress is epoch / overall_epochs
    reporter.reportParameter("optimizer_name", "adam")

One file without dependencies, put on the path of every pod; a user's image needs nothing installed. A report is the
present value of everything, not a stream: it may be sent again, and a job may report as often as it likes. Where the
job does not run under Fairpool nothing happens, and a report that cannot be delivered never disturbs the job.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import time
import urllib.request
from typing import Any

VARIABLE = "FAIRPOOL_REPORTER"
TIMEOUT_S = 2
LARGEST_BYTES = 65536
"""Reports beyond this are not a status any more, and are dropped."""


class Reporter:
    """Tells the platform how a job is doing."""

    def __init__(self, address: str | None = None) -> None:
        self.address = os.environ.get(VARIABLE, "") if address is None else address
        self.values: dict[str, dict[str, Any]] = {"metrics": {}, "parameters": {}}

    def reportMetric(self, name: str, value: float) -> None:
        """A number: accuracy, loss, learning_rate, step, epoch, overall_epochs, …"""
        if isinstance(value, bool) or not math.isfinite(value):
            return  # JSON has no word for it
        self._report("metrics", name, value)

    def reportParameter(self, name: str, value: object) -> None:
        """A text: optimizer_name, batch_size, …"""
        self._report("parameters", name, str(value))

    report_metric = reportMetric
    report_parameter = reportParameter

    def progress(self, epoch: float, overall_epochs: float) -> None:
        """Both figures of the progress at once."""
        self.values["metrics"]["overall_epochs"] = overall_epochs
        self.reportMetric("epoch", epoch)

    def close(self) -> None:
        """Nothing to do; every report was sent when it was made."""

    def finish(self) -> None:
        self.close()

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _report(self, kind: str, name: str, value: object) -> None:
        self.values[kind][name] = value
        # A full disk or a platform that is away must not end a training of three weeks.
        with contextlib.suppress(OSError, ValueError):
            if self.address.startswith("file:"):
                self._write(self.address.removeprefix("file:"))
            elif self.address.startswith(("http:", "https:")):
                self._post()

    def _write(self, path: str) -> None:
        """Into a file that always holds a whole report; processes of one pod add to each other's."""
        with open(f"{path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            merged = _merged(_read(path), self.values)
            text = json.dumps({**merged, "at": time.time_ns() // 1_000_000})
            if len(text) > LARGEST_BYTES:
                return
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(f"{path}.new", path)

    def _post(self) -> None:
        body = json.dumps({**self.values, "pod": os.environ.get("POD_UUID", "")}).encode()
        request = urllib.request.Request(self.address, body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=TIMEOUT_S).close()


def _read(path: str) -> dict[str, dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        found = {}
    return {kind: found.get(kind, {}) for kind in ("metrics", "parameters")}


def _merged(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {kind: {**old[kind], **new[kind]} for kind in new}
