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
        with contextlib.suppress(Exception):
            number = _number(value)
            if number is not None:
                self._report("metrics", name, number)

    def reportParameter(self, name: str, value: object) -> None:
        """A text: optimizer_name, batch_size, …"""
        with contextlib.suppress(Exception):
            self._report("parameters", name, str(value))

    report_metric = reportMetric
    report_parameter = reportParameter

    def progress(self, epoch: float, overall_epochs: float) -> None:
        """Both figures of the progress at once."""
        with contextlib.suppress(Exception):
            overall = _number(overall_epochs)
            if overall is not None:
                self.values["metrics"]["overall_epochs"] = overall
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
        self.values[kind][str(name)] = value
        # A full disk, a platform that is away or a mistake of ours must not end a training of three weeks.
        with contextlib.suppress(Exception):
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


def _number(value: Any) -> float | None:
    """Whatever calls itself a number (NumPy's, a tensor of one) as one of ours; None: JSON has no word for it."""
    number = float(value)
    if isinstance(value, bool) or not math.isfinite(number):
        return None
    return value if type(value) is int else number


def _read(path: str) -> dict[str, dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        found = {}
    kinds = ("metrics", "parameters")
    return {
        kind: found[kind] if isinstance(found, dict) and isinstance(found.get(kind), dict) else {} for kind in kinds
    }


def _merged(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {kind: {**old[kind], **new[kind]} for kind in new}
