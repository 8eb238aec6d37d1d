"""What a control process counts and times about itself, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import Counter, Histogram

from fairpool.api.exposition import LookedUp, ProcessFigure, process_registry

REQUEST_S: Final = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
DATABASE_S: Final = (0.0005, 0.002, 0.01, 0.05, 0.25, 1.0, 5.0)
SCRAPE_S: Final = (0.05, 0.25, 1.0, 4.0, 15.0)
NO_ROUTE: Final = "none"
"""Of a request to a path that does not exist: it may be any text, and is no label."""


class Measures:
    """Of one process."""

    def __init__(self, program: str, look: Callable[[], Iterable[ProcessFigure]]) -> None:
        """`look`: what is looked up when a scrape comes."""
        self.registry = process_registry(program)
        self.registry.register(LookedUp(look))
        self._requests = Counter(
            "fairpool_http_requests",
            "Requests that were answered",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._request_s = Histogram(
            "fairpool_http_request_seconds",
            "Time until an answer began",
            ("method", "route"),
            buckets=REQUEST_S,
            registry=self.registry,
        )
        self._database_s = Histogram(
            "fairpool_database_seconds",
            "Time of transactions of the control plane, with their wait",
            ("kind",),
            buckets=DATABASE_S,
            registry=self.registry,
        )
        self.scrape_s = Histogram(
            "fairpool_scrape_seconds", "Time to answer a scrape", buckets=SCRAPE_S, registry=self.registry
        )

    def answered(self, method: str, route: str, status: int, took_s: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._request_s.labels(method, route).observe(took_s)

    @contextmanager
    def transaction(self, kind: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._database_s.labels(kind).observe(time.perf_counter() - started)
