"""The text format of Prometheus: tables of many series, and the figures that a process keeps about itself.

The library writes the latter. It takes about ten times as long for a line as is taken here, which matters for the
300 000 lines of a large cluster: there the labels of a subject are written once, for all its series.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fairpool import __version__

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
VALUE_MAX: Final = 256
"""Characters of a label's value: longer ones are cut off."""
NAME_MAX: Final = 64
GZIP_LEVEL: Final = 1
"""The lines are so much alike that a higher one takes twice as long for a few per cent."""
GZIP: Final = 16
"""Added to the size of the window: the format of gzip."""
_UNFIT = re.compile(r"[^a-zA-Z0-9_]")
_SPECIAL = re.compile(r'[\\"\n]')
_ESCAPES = {"\\": r"\\", '"': r"\"", "\n": r"\n"}

disable_created_metrics()  # type: ignore[no-untyped-call]  # a series that says when each other one began: twice as many for nothing


def labels(**values: str) -> str:
    """Labels as they stand between the braces. Values may be anything that a user can name something."""
    return ",".join(f'{name}="{escaped(value)}"' for name, value in values.items())


def escaped(value: str) -> str:
    cut = value[:VALUE_MAX]
    return cut if _SPECIAL.search(cut) is None else _SPECIAL.sub(lambda found: _ESCAPES[found[0]], cut)


def name_part(text: str) -> str:
    """What a job calls a value, as part of the name of a series."""
    return _UNFIT.sub("_", text[:NAME_MAX])


class NamedSeries:
    """All series of one name, as text."""

    def __init__(self, name: str, words: str) -> None:
        self._name, self._words = name, words
        self._lines: list[str] = []

    def add(self, labelled: str, value: float | None) -> None:
        """None, and what is not a number: it is not known, and there is no series."""
        if value is not None and value == value:
            self._lines.append(f"{self._name}{{{labelled}}} {_number(value)}\n")

    @property
    def text(self) -> str:
        if not self._lines:
            return ""
        words = self._words.replace("\\", r"\\").replace("\n", r"\n")
        return f"# HELP {self._name} {words}\n# TYPE {self._name} gauge\n{''.join(self._lines)}"

    def __len__(self) -> int:
        return len(self._lines)


class SeriesTable:
    """Series by name, each with its description."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self._series = {name: NamedSeries(name, text) for name, text in words.items()}

    def __getitem__(self, name: str) -> NamedSeries:
        return self._series[name]

    def described(self, name: str, words: str) -> NamedSeries:
        """One whose name was not known before."""
        return self._series.setdefault(name, NamedSeries(name, words))

    @property
    def texts(self) -> list[str]:
        """Of each name."""
        return [each.text for each in self._series.values()]

    def __len__(self) -> int:
        return sum(map(len, self._series.values()))


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def process_registry(program: str) -> CollectorRegistry:
    """For the figures of a process: its CPU time, memory and open files are among them."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    words = "Version of Fairpool, and the program"
    built = Gauge("fairpool_build_info", words, ("version", "program"), registry=registry)
    built.labels(__version__, program).set(1)
    return registry


class ProcessFigure(NamedTuple):
    """A figure of a process that is looked up when a scrape comes, rather than counted."""

    name: str
    words: str
    value: float
    is_total: bool = False
    """It only grows, while the process runs."""


class LookedUp:
    """A collector of such figures."""

    def __init__(self, look: Callable[[], Iterable[ProcessFigure]]) -> None:
        self._look = look

    def collect(self) -> Iterator[Metric]:
        for each in self._look():
            family = CounterMetricFamily if each.is_total else GaugeMetricFamily
            yield family(each.name, each.words, each.value)


def registry_text(registry: CollectorRegistry) -> str:
    return generate_latest(registry).decode()


def encoded(parts: Iterable[str], *, packs: bool) -> bytes:
    """For the wire; what is no valid text (names may have come from anywhere) is replaced.

    Part by part: one call for 50 MB would keep all other threads waiting.
    """
    written = [each.encode("utf-8", "replace") for each in parts]
    if not packs:
        return b"".join(written)
    packer = zlib.compressobj(GZIP_LEVEL, wbits=zlib.MAX_WBITS | GZIP)
    return b"".join([*(packer.compress(each) for each in written), packer.flush()])
