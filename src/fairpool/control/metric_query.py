"""Questions about metrics: query parameters, the series that are meant, and answers as JSON or CSV."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import metrics as wire
from fairpool.api.problems import ProblemItem, problem_item
from fairpool.control.metric_types import Metric, problem_with
from fairpool.control.moments import instant, iso
from fairpool.control.plane import Plane
from fairpool.control.refusal import Refused, not_a_date, refused
from fairpool.control.routes import Parameter, Query
from fairpool.control.sample_store import CurvePoints
from fairpool.control.store.unavailable import Unavailable
from fairpool.metrics.resolution import DAY_S
from fairpool.metrics.time_range import Curve, Point, SeriesSubject, TimeRange
from fairpool.model.ids import SECOND_MS, Instant

CSV = "text/csv"
RANGE_MAX_S = 2 * 366 * DAY_S
"""Twice as long as samples are kept."""
WHOLE_FROM = 100_000.0
"""Larger values are written without decimals: a sample has seven digits."""
POINTS_MAX = 500_000
"""In one answer: a thousand series of 500 points each are some 30 MB."""
SAMPLES_AWAY = 503
PARTLY = {207: {"description": "A part of the samples cannot be read; `problems` says why"}}
"""In the description of routes."""

Start = Annotated[str, Parameter(max_length=64, description="ISO 8601", examples=["2026-11-15T12:00:00Z"])]
End = Annotated[str, Parameter(max_length=64, description="ISO 8601, later than the start")]
Samples = Annotated[
    int,
    Parameter(
        alias="numberOfSamples",
        ge=1,
        le=wire.SAMPLES_MAX,
        description="Number of points at most; each is the average of its time",
    ),
]
PoolName = Annotated[
    str, Parameter(alias="nodepoolName", max_length=256, description="Only what is in this node pool; empty: in all")
]


class MetricQuery(Query):
    """Which metrics, of which time, in how many points."""

    metric_type: Annotated[
        list[Annotated[str, Parameter(max_length=1024)]],
        Parameter(
            alias="metricType",
            min_length=1,
            max_length=wire.TYPES_MAX,
            description="Repeated, or separated by commas",
            examples=[["GPU_UTILIZATION"]],
        ),
    ]
    start: Start
    end: End
    number_of_samples: Samples = wire.SAMPLES_DEFAULT
    file_type: Annotated[
        str,
        Parameter(alias="fileType", pattern="^(csv|json|)$", description="Also chosen by the header Accept: text/csv"),
    ] = ""

    @property
    def types(self) -> list[str]:
        """Each once."""
        return each_once(self.metric_type)


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer."""

    type: str
    curve: Curve | None
    """None: what it would be computed from is not known."""
    labels: Mapping[str, str]
    groups: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """A subject that metrics are asked of, with the factors that are its own."""

    subject: SeriesSubject
    devices: Mapping[str, SeriesSubject]
    """Its GPUs, by number."""
    factors: Mapping[str, float | None]
    """By unit; None: not known."""
    constants: Mapping[str, float]
    labels: Mapping[str, str]
    groups: tuple[tuple[str, str], ...]


def measured(
    group: str,
    name: str,
    *,
    devices: Mapping[str, str] | None = None,
    factors: Mapping[str, float | None] | None = None,
    constants: Mapping[str, float] | None = None,
    labels: Mapping[str, str] | None = None,
    groups: Iterable[tuple[str, str]] = (),
) -> Measured:
    return Measured(
        SeriesSubject(group, name),
        {index: SeriesSubject(group, device) for index, device in (devices or {}).items()},
        factors or {},
        constants or {},
        labels or {},
        tuple(groups),
    )


def each_once(said: Iterable[str]) -> list[str]:
    """What was given several times, or separated by commas."""
    return list(dict.fromkeys(piece for each in said for text in each.split(",") if (piece := text.strip())))


def span_of(query_start: str, query_end: str, samples: int, now: Instant) -> TimeRange:
    """The time that is asked about, in the resolution that answers it."""
    start, end = period_of(query_start, query_end)
    return TimeRange.chosen(start // SECOND_MS, end // SECOND_MS, samples, now // SECOND_MS)


def period_of(query_start: str, query_end: str) -> tuple[Instant, Instant]:
    """The time that is asked about, in whole seconds."""
    moments = {"start": (query_start, instant(query_start)), "end": (query_end, instant(query_end))}
    problems = [not_a_date(text, name) for name, (text, moment) in moments.items() if moment is None]
    if problems:
        raise Refused(400, problems)
    start_s, end_s = ((moment or 0) // SECOND_MS for _, moment in moments.values())
    if start_s < 0 or not 0 < end_s - start_s <= RANGE_MAX_S:
        what = "the end must be later than the start, by two years at most"
        raise refused(400, "metric.range", what, "correct start or end", "end")
    return Instant(start_s * SECOND_MS), Instant(end_s * SECOND_MS)


def refuse_unknown(types: Sequence[str], there: Mapping[str, object], of: str, field: str = "metricType") -> None:
    """Refuse names that there are not, all at once."""
    if not types:
        raise refused(422, "metric.none", f"{field} names nothing", f"name one of {', '.join(sorted(there))}", field)
    problems = [problem_item(found, field) for each in types if (found := problem_with(each, there, of)) is not None]
    if problems:
        raise Refused(422, problems)


def series_of(types: Sequence[str], there: Mapping[str, Metric], of: Measured) -> list[Series]:
    """The series of these metrics of a subject."""
    found = []
    for name in types:
        metric = there[name]
        devices = of.devices.items() if metric.per_gpu else [("", of.subject)]
        for index, subject in devices:
            labels = {**of.labels, **({"gpu": index} if metric.per_gpu else {})}
            if metric.is_idle_time:
                found.append(Series(name, Curve(subject, {}, is_idle_time=True), labels, of.groups))
            for part in metric.parts:
                factor = of.factors.get(part.unit, 1.0)
                curve = None
                if factor is not None:
                    terms = {column: each * factor for column, each in part.terms.items()}
                    curve = Curve(subject, terms, of.constants.get(part.unit, 0.0))
                found.append(Series(name, curve, {**labels, **part.labels}, of.groups))
    return found


async def read_points(plane: Plane, span: TimeRange, series: Sequence[Series]) -> CurvePoints:
    """The points of each series; refuses with 503 while samples cannot be read."""
    if len(series) * span.point_count > POINTS_MAX:
        what = f"these are {len(series)} series of {span.point_count} points each; an answer has {POINTS_MAX} at most"
        raise refused(422, "metric.too_many", what, "ask for fewer samples, or for less", "numberOfSamples")
    curves = [each.curve for each in series if each.curve is not None]
    try:
        found = await plane.samples.values(span, curves)
    except Unavailable as error:
        raise unreadable(error) from error
    points = iter(found.points)
    return CurvePoints([next(points) if each.curve is not None else [] for each in series], found.unreadable)


def unreadable(error: Unavailable) -> Refused:
    """503: the samples are away. Nothing else is."""
    what = f"metrics cannot be read now ({error.code})"
    return refused(
        SAMPLES_AWAY, "metrics.unavailable", what, "retry; if it persists, check `fairpool logs` on the server"
    )


async def metrics_answer(plane: Plane, request: Request, query: MetricQuery, series: Sequence[Series]) -> Response:
    """The points of these series, as the client wants them."""
    now = plane.now()
    span = span_of(query.start, query.end, query.number_of_samples, now)
    found = await read_points(plane, span, series)
    status = 207 if found.unreadable else 200
    as_csv = query.file_type == "csv" or (not query.file_type and CSV in request.headers.get("accept", ""))
    text = await asyncio.to_thread(_csv if as_csv else _json, span, series, found, now)
    return Response(text, status, media_type=CSV if as_csv else "application/json")


def _json(span: TimeRange, series: Sequence[Series], found: CurvePoints, now: Instant) -> str:
    answer = wire.Metrics(
        timestamp=iso(now),
        point_seconds=span.point_s,
        measurements=[_measurement(each, points) for each, points in zip(series, found.points, strict=True)],
        problems=damage(found.unreadable),
    )
    return answer.model_dump_json(by_alias=True, exclude_none=True)


def damage(blocks: int) -> list[ProblemItem] | None:
    """Why points may be missing."""
    if not blocks:
        return None
    what = f"{blocks} blocks of samples are damaged; their values are missing"
    return [ProblemItem(code="metrics.damaged", what=what, fix="check the disk of the server")]


def _measurement(series: Series, points: Sequence[Point]) -> wire.Measurement:
    return wire.Measurement(
        type=series.type,
        labels=dict(series.labels) or None,
        groups=[wire.MeasuredGroup(key=key, value=value) for key, value in series.groups] or None,
        values=[wire.MeasuredValue(value=number(each.value), timestamp=iso(each.at_s * SECOND_MS)) for each in points],
    )


def _csv(_: TimeRange, series: Sequence[Series], found: CurvePoints, now: Instant) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")  # RFC 4180
    table.writerow(("type", "labels", "groups", "timestamp", "value"))
    for each, points in zip(series, found.points, strict=True):
        labels, groups = (
            ";".join(f"{key}={value}" for key, value in some) for some in (each.labels.items(), each.groups)
        )
        table.writerows(
            (each.type, labels, groups, iso(point.at_s * SECOND_MS), number(point.value)) for point in points
        )
    return text.getvalue()


def number(value: float) -> str:
    """As answers carry numbers: without decimals that mean nothing."""
    if value == round(value) or abs(value) >= WHOLE_FROM:
        return str(round(value))
    return f"{value:.6g}"
