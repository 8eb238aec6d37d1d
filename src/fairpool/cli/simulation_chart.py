"""SVG charts of a simulation: step lines over time, readable on light and dark backgrounds, without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from xml.sax.saxutils import escape

from fairpool.cli.simulation_progress import elapsed_text

Series = Sequence[tuple[float, float]]
"""Seconds and value, whenever the value changed."""

WIDTH, HEIGHT = 960, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 200, 56, 56
TICKS = 6
LEGEND_MAX = 16
"""Lines that are named; with more of them one has to point at a line to read its name."""
# Colours that most people can distinguish, also with colour blindness, and that are visible on white and on black.
COLOURS = ("#1b7fc4", "#d8641f", "#1f9e77", "#c2559d", "#b58900", "#7a6fd0", "#5f8a1a", "#c74343")
DASHES = ("", "8 4", "2 3", "10 3 2 3")
LENGTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
STYLE = """
svg { color: #1d2530; font: 13px system-ui, sans-serif; } .paper { fill: #ffffff; }
.grid { stroke: #dfe3e8; } .axis { stroke: #66707c; } .faint { fill: #5a6470; }
text { fill: currentColor; } .heading { font-size: 16px; font-weight: 600; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
@media (prefers-color-scheme: dark) {
 svg { color: #e6e9ed; } .paper { fill: #14181d; }
 .grid { stroke: #2c333b; } .axis { stroke: #8a939d; } .faint { fill: #a3adb8; }
}
"""


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over time."""

    title: str
    unit: str
    lines: Mapping[str, Series]
    end_s: float
    top: float | None = None
    """A value that is marked, because no line should pass it."""


def svg(chart: Chart) -> str:
    """The whole file."""
    highest = max([chart.top or 0, *(value for line in chart.lines.values() for _, value in line)], default=0)
    frame = _Frame(max(chart.end_s, 1.0), _round_up(highest))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{_quoted(chart.title)}">',
        f"<title>{escape(chart.title)}</title><style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="heading" x="{LEFT}" y="28">{escape(chart.title)}</text>',
        f'<text class="faint" x="{LEFT}" y="46">{escape(chart.unit)}</text>',
        *_grid(frame),
    ]
    if chart.top is not None:
        y = frame.y(chart.top)
        parts.append(f'<line class="axis" stroke-dasharray="4 4" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
    for number, (name, line) in enumerate(chart.lines.items()):
        parts += _line(frame, number, name, line)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Frame:
    """From seconds and values to places on the page."""

    end_s: float
    highest: float

    def x(self, at_s: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * at_s / self.end_s, 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.highest, 1)


def _grid(frame: _Frame) -> list[str]:
    parts = []
    step = frame.highest / (5 if frame.highest % 5 == 0 else 4)
    for number in range(round(frame.highest / step) + 1):
        y = frame.y(number * step)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="faint" text-anchor="end" x="{LEFT - 8}" y="{y + 4}">{number * step:g}</text>')
    apart_s = next((each for each in LENGTHS_S if frame.end_s / each <= TICKS), frame.end_s / TICKS)
    for number in range(int(frame.end_s / apart_s) + 1):
        x = frame.x(number * apart_s)
        words = elapsed_text(number * apart_s) if number else "0"
        parts.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 5}"/>')
        parts.append(f'<text class="faint" text-anchor="middle" x="{x}" y="{HEIGHT - BOTTOM + 20}">{words}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}"/>')
    middle = LEFT + (WIDTH - LEFT - RIGHT) // 2
    parts.append(f'<text class="faint" text-anchor="middle" x="{middle}" y="{HEIGHT - 14}">simulated time</text>')
    return parts


def _line(frame: _Frame, number: int, name: str, line: Series) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    stroke = f'stroke="{colour}"' + (f' stroke-dasharray="{dash}"' if dash else "")
    parts = [f'<path class="line" {stroke} d="{_path(frame, line)}"><title>{escape(name)}</title></path>']
    if number < LEGEND_MAX:
        x, y = WIDTH - RIGHT + 16, TOP + 8 + 20 * number
        shown = name if len(name) <= 20 else f"{name[:19]}…"
        parts.append(f'<line class="line" {stroke} x1="{x}" x2="{x + 22}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{x + 30}" y="{y + 4}">{escape(shown)}</text>')
    return parts


def _path(frame: _Frame, line: Series) -> str:
    """Level until it changes, then straight up or down; from zero at the start to the end of the page."""
    # Many changes in one place are one stroke over all of them: no page shows more.
    places: dict[float, list[float]] = {}
    for at_s, value in line:
        places.setdefault(frame.x(at_s), []).append(frame.y(value))
    path = [f"M{frame.x(0)} {frame.y(0)}"]
    for x, heights in places.items():
        path.append(f"H{x}")
        path += [f"V{y}" for y in dict.fromkeys((min(heights), max(heights), heights[-1]))]
    return "".join([*path, f"H{frame.x(frame.end_s)}"])


def _round_up(value: float) -> float:
    """A number above it that people would choose as the end of an axis."""
    if value <= 4:
        return 4.0
    size = 10.0 ** floor(log10(value))
    return next(each * size for each in (1, 2, 4, 5, 8, 10) if each * size >= value)


def _quoted(text: str) -> str:
    return escape(text, {'"': "&quot;"})
